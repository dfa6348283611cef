"""Extraction with a language model: questions, answer parsing, checks of evidence and decisions.

The functions are generators. They yield what they need (a model answer, text similarities, nearby memories) and
receive it through `send`, so they run without I/O and can be tested with plain lists. `understand_turns` is the entry
point and covers EXT-1 to EXT-6.

Model output is not trusted. Each quote is checked against its source; a failing quote rejects only its own statement.
Each decision is checked against the memories shown for its fact; a failing decision drops only itself. Facts without
a usable decision are left to the deterministic rules, which run when the statement is stored.

Pure: no database, no file.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import TRUST_PROMPT, Turn
from filrouge.core import lazy_re as re
from filrouge.core.errors import ModelUnavailable, Unreadable
from filrouge.core.protocols import Prompts
from filrouge.core.scope import Scope
from filrouge.extraction.heuristics import extract
from filrouge.extraction.models import (
    ENTITY_TYPES,
    Analysis,
    DecisionShape,
    Entity,
    EntityType,
    NamedEntity,
    SessionShape,
    Shape,
    StatedFact,
    StatedSupport,
    SupportShape,
    read_items,
    schema_of,
    text_of,
    texts_of,
    with_lists,
)
from filrouge.extraction.own_words import material, own_words, written_by_host
from filrouge.extraction.summaries import clean_topics
from filrouge.extraction.vocabulary import STOP, canonical, fold, tokens
from filrouge.memories.models import (
    MIN_CONFIDENCE_KEEP,
    Add,
    Conflict,
    Decision,
    Delete,
    Kind,
    Memory,
    Neighbour,
    Noop,
    Span,
    Statement,
    Update,
)
from filrouge.providers.models import Completion, CompletionRequest, Operation, Prompt

# Rendering turns for a prompt. Turn text is untrusted, so it goes between tags that it cannot close.

#: Maximum characters of one turn in a prompt, by role (EXT-2: 500 of a tool result).
_MAX_TURN_CHARS: Final[Mapping[str, int]] = {"user": 6000, "assistant": 4000, "tool": 500}
#: Maximum number of consecutive tool results in a prompt (EXT-2).
_MAX_TOOL_RESULTS: Final = 3
#: Maximum characters of turns in one prompt: about 6,000 tokens, which a small model still handles well.
MAX_TRANSCRIPT_CHARS: Final = 24_000


def turns_per_prompt(turns: Sequence[Turn]) -> int:
    """Return how many of these turns, oldest first, fit into one prompt; at least one."""
    used, results = 0, 0
    for number, turn in enumerate(turns):
        results = results + 1 if turn.role == "tool" else 0
        if results <= _MAX_TOOL_RESULTS:
            used += min(len(turn.text), _MAX_TURN_CHARS[turn.role])
        if used > MAX_TRANSCRIPT_CHARS and number:
            return number
    return len(turns)


def render_turns(turns: Sequence[Turn], tag: str = "conversation") -> str:
    """Return the turns as text, numbered from 1, between tags."""
    lines: list[str] = []
    results = 0
    for number, turn in enumerate(turns, start=1):
        results = results + 1 if turn.role == "tool" else 0
        if results <= _MAX_TOOL_RESULTS:
            who = "tool output" if turn.role == "tool" else "agent" if turn.role == "assistant" else "user"
            lines.append(f"[{number}] {who} ({turn.at:%Y-%m-%d %H:%M}): {clip_turn(turn)}")
    return wrap_in_tags(tag, "\n\n".join(lines))


def clip_turn(turn: Turn) -> str:
    """Return the turn's text, cut to the limit of its role."""
    limit = _MAX_TURN_CHARS[turn.role]
    return turn.text if len(turn.text) <= limit else f"{turn.text[:limit]} …"


def wrap_in_tags(tag: str, text: str) -> str:
    """Return the text between tags; closing tags inside the text are escaped."""
    return f"<{tag}>\n{text.replace(f'</{tag}', f'< /{tag}')}\n</{tag}>"


def wrap_json(tag: str, value: object) -> str:
    """Return the value as indented JSON between tags."""
    return wrap_in_tags(tag, json.dumps(value, ensure_ascii=False, indent=1))


# Asking a model and parsing its answer (EXT-12).
#
# Models wrap JSON in code fences and prose, cut it off, or answer something else. The parser takes the first JSON
# object in the text; from a truncated object it keeps the complete parts. If there is none, the question is sent once
# more with the error. A second failure raises `Unreadable`, which keeps the answer's text for a person to inspect.

T = TypeVar("T")
RequestGenerator = Generator[CompletionRequest, Completion, T]
"""A generator that yields requests, receives their answers and returns a result."""

#: Maximum characters of an answer that is parsed. No valid answer is longer.
MAX_PARSED_CHARS: Final = 200_000
_MAX_REPAIR_CHARS: Final = 2000
_MAX_STARTS: Final = 200
_MAX_TRUNCATED_STARTS: Final = 3
_MAX_DEPTH: Final = 20
_FENCED_BLOCK: Final = re.compile(r"```[a-zA-Z]*\s*\n(.*?)(?:```|\Z)", re.DOTALL)


def ask_model(
    operation: Operation,
    text: str,
    shape: type[Shape],
    read: Callable[[Mapping[str, Any]], T],
    *,
    prompts: Prompts,
    language: str,
    most_tokens: int,
    seconds: float | None = None,
) -> RequestGenerator[tuple[T, Completion]]:
    """Ask for an answer of this shape, with the prompt named like the operation; see `ask_and_parse`."""
    ask = CompletionRequest(
        operation=operation,
        prompt=prompts(operation, language),
        text=text,
        schema=schema_of(shape),
        max_tokens=most_tokens,
        seconds=seconds,
    )
    return (yield from ask_and_parse(ask, prompts("repair", language), read))


def ask_and_parse(
    ask: CompletionRequest, repair: Prompt, read: Callable[[Mapping[str, Any]], T]
) -> RequestGenerator[tuple[T, Completion]]:
    """Ask, parse the answer, and ask once more if parsing fails.

    Args:
        repair: the prompt added to the second attempt.
        read: parses the JSON object of an answer; raises `ValueError` with the reason if it is unusable.

    Raises:
        Unreadable: neither answer can be parsed.
    """
    first = yield ask
    try:
        return read(json_object(first.text)), first
    except ValueError as error:
        problem = str(error)
    answer = first.text[:_MAX_REPAIR_CHARS].replace("</answer>", "")
    again = f"{ask.text}\n\n{repair.text}\n({problem})\n<answer>\n{answer}\n</answer>"
    second = yield replace(ask, text=again)
    try:
        return read(json_object(second.text)), second
    except ValueError as error:
        what = f"The answer of {second.provider} {second.model} cannot be read: {error}."
        raise Unreadable(what, text=second.text, prompt=ask.prompt.version, operation=ask.operation) from error


def json_object(text: str) -> dict[str, Any]:
    """Return the first JSON object in a text, ignoring the text around it.

    Raises:
        ValueError: the text holds no JSON object; the message gives the reason.
    """
    if len(text) > MAX_PARSED_CHARS:
        raise ValueError("it is far too long")
    plain = text.strip()
    for candidate in [plain, *(fenced.strip() for fenced in _FENCED_BLOCK.findall(plain))]:
        if isinstance(found := _parse_json(candidate), dict):
            return cast("dict[str, Any]", found)
    starts = [opening.start() for opening in re.finditer(r"\{", plain)][:_MAX_STARTS]
    for number, start in enumerate(starts):
        found = _parse_object_from(plain, start) or (
            _parse_truncated(plain, start) if number < _MAX_TRUNCATED_STARTS else None
        )
        if found:
            return found
    raise ValueError("there is no JSON object in it" if not starts else "its JSON is broken or cut off")


def _parse_json(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None


def _parse_object_from(text: str, start: int) -> dict[str, Any] | None:
    """Return the object that opens at `start`, or None; an empty object is not an answer."""
    try:
        found, _ = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) and found else None


def _parse_truncated(text: str, start: int) -> dict[str, Any] | None:
    """Return a truncated object up to its last complete nested object, or None if it has none."""
    inside: list[str] = []
    complete: tuple[int, str] | None = None
    in_string = escaped = False
    for index in range(start, len(text)):
        char = text[index]
        if in_string:
            in_string, escaped = escaped or char != '"', char == "\\" and not escaped
        elif char == '"':
            in_string = True
        elif char in "{[":
            inside.append("}" if char == "{" else "]")
            if len(inside) > _MAX_DEPTH:
                return None
        elif char in "}]":
            if not inside or inside.pop() != char:
                return None
            if char == "}" and inside:
                complete = (index + 1, "".join(reversed(inside)))
    found = _parse_json(text[start : complete[0]] + complete[1]) if complete else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


# Checking the decisions of a model.
#
# Models invent ids, repeat themselves, decide on facts that nobody stated, and write words that nobody said.
# `check_decisions` returns the decisions that can be applied, in the order of the facts; the dropped ones, each with a
# reason (EXT-4); and the facts without a decision. Reasons never repeat words of the conversation. Only the user
# changes a pinned memory: a model's change to one becomes a Conflict.

#: Maximum characters of a memory's text and of a reason.
_MAX_TEXT_CHARS: Final = 2000
_MAX_REASON_CHARS: Final = 300
_ACTIONS: Final = ("add", "update", "delete", "noop", "conflict")


class FactWithNeighbours(Struct, frozen=True, kw_only=True):
    """One fact that the model was asked about, with the memories that were shown for it, nearest first."""

    statement: Statement
    neighbours: tuple[Neighbour, ...] = ()


class StatedIn(Struct, frozen=True, kw_only=True):
    """The scope and time in which the facts were stated.

    Attributes:
        scope: the scope of the latest turn that states one of the facts.
        at: the time of that turn; an older fact never ends a newer memory.
        isolated: whether an agent may change only memories that it learned itself.
    """

    scope: Scope
    at: datetime
    isolated: bool = False


class Rejected(Struct, frozen=True, kw_only=True):
    """A decision that was dropped.

    Attributes:
        position: its index in the model's list.
        fact: the number of the fact it was about; None if unknown.
    """

    position: int
    fact: int | None
    reason: str


class CheckedDecisions(Struct, frozen=True, kw_only=True):
    """The result of checking a list of decisions.

    Attributes:
        decisions: the accepted decisions by fact number, at most one per fact, in the order of the facts.
        undecided: the numbers of the facts without a decision.
    """

    decisions: Mapping[int, Decision]
    rejected: tuple[Rejected, ...]
    undecided: tuple[int, ...]


class _Malformed(Exception):
    """The reason why a decision is dropped; caught inside this module."""


def check_decisions(
    raw: object, stated: Sequence[FactWithNeighbours], stated_in: StatedIn, supports: Callable[[Statement], bool]
) -> CheckedDecisions:
    """Return which of these decisions can be applied.

    Args:
        raw: the model's output: a list of `{"fact": index, "action": "add | update | delete | noop | conflict",
            "id": id or null, "text": text or null, "reason": text}`, or anything else.
        stated: the facts, in the order of their numbers.
        stated_in: where and when the facts were stated.
        supports: returns whether the evidence supports a statement; called for each text that the model rewrote.
    """
    listed = cast("list[object]", raw) if isinstance(raw, list) else None
    rejected: list[Rejected] = (
        [] if listed is not None else [Rejected(position=0, fact=None, reason="it is not a list")]
    )
    decisions: dict[int, Decision] = {}
    touched = _TouchedMemories(ended=set(), last={})
    for number, item in enumerate(listed or ()):
        fact: int | None = None
        try:
            fields = _read_fields(item)
            fact = _read_fact_number(fields, len(stated))
            if fact in decisions:
                raise _Malformed("the fact is decided already")
            decision = _read_decision(fields, stated[fact], stated_in, supports)
            touched.record(decision, fact)
        except _Malformed as error:
            rejected.append(Rejected(position=number, fact=fact, reason=str(error)))
        else:
            decisions[fact] = decision
    undecided = tuple(number for number in range(len(stated)) if number not in decisions)
    ordered = {number: decisions[number] for number in sorted(decisions)}
    return CheckedDecisions(decisions=ordered, rejected=tuple(rejected), undecided=undecided)


class _TouchedMemories(Struct, frozen=True, kw_only=True):
    """The memories that the decisions of one list have touched so far, to detect contradictions between them.

    Attributes:
        ended: ids of memories that a decision ends.
        last: for each memory id, the highest fact number whose decision refers to it.
    """

    ended: set[str]
    last: dict[str, int]

    def record(self, decision: Decision, fact: int) -> None:
        """Record a decision.

        Raises:
            _Malformed: it refers to a memory that another decision ends, or ends one that a later fact refers to.
        """
        ends = isinstance(decision, Update | Delete)
        for id_ in _memory_ids(decision):
            if id_ in self.ended:
                raise _Malformed("another decision of this list ends that memory")
            if ends and self.last.get(id_, -1) > fact:
                raise _Malformed("a later decision refers to that memory")
        for id_ in _memory_ids(decision):
            self.last[id_] = max(fact, self.last.get(id_, -1))
            if ends:
                self.ended.add(id_)


def _memory_ids(decision: Decision) -> tuple[str, ...]:
    match decision:
        case Update(old_ids=ids) | Delete(old_ids=ids):
            return ids
        case Noop(existing_id=id_) | Conflict(existing_id=id_):
            return (id_,)
        case Add():
            return ()


def _read_decision(
    fields: Mapping[object, object],
    fact: FactWithNeighbours,
    stated_in: StatedIn,
    supports: Callable[[Statement], bool],
) -> Decision:
    action, reason = _read_action(fields), _read_reason(fields)
    if action == "add":
        return Add(statement=_read_statement(fields, fact.statement, supports), reason=reason)
    memory = _find_target(fields, fact, stated_in)
    if action == "noop":
        return Noop(statement=fact.statement, existing_id=memory.id, reason=reason)
    if action == "conflict":
        return Conflict(
            statement=_read_statement(fields, fact.statement, supports), existing_id=memory.id, reason=reason
        )
    if memory.valid_from > stated_in.at:
        raise _Malformed("that memory is newer than what was said")
    statement = _read_statement(fields, fact.statement, supports) if action == "update" else fact.statement
    if memory.pinned:
        reason = f"{reason}, but the memory is pinned"
        return Conflict(statement=statement, existing_id=memory.id, reason=reason)
    if action == "delete":
        return Delete(statement=statement, old_ids=(memory.id,), reason=reason)
    if _is_same_text(statement.text, memory.text):
        return Noop(statement=fact.statement, existing_id=memory.id, reason=reason)
    if any(
        _is_same_text(statement.text, other.memory.text) for other in fact.neighbours if other.memory.state == "live"
    ):
        raise _Malformed("another memory says that already")
    return Update(statement=statement, old_ids=(memory.id,), reason=reason)


def _read_fields(item: object) -> Mapping[object, object]:
    if not isinstance(item, dict):
        raise _Malformed("it is not an object")
    return cast("Mapping[object, object]", item)


def _read_fact_number(fields: Mapping[object, object], fact_count: int) -> int:
    number = fields.get("fact")
    if not isinstance(number, int) or isinstance(number, bool):
        raise _Malformed("it does not name a fact")
    if not 0 <= number < fact_count:
        raise _Malformed("there is no such fact")
    return number


def _read_action(fields: Mapping[object, object]) -> str:
    action = fields.get("action")
    plain = action.strip().lower() if isinstance(action, str) else ""
    if plain not in _ACTIONS:
        raise _Malformed("there is no such action")
    return plain


def _read_reason(fields: Mapping[object, object]) -> str:
    reason = fields.get("reason")
    plain = " ".join(reason.split()) if isinstance(reason, str) else ""
    return plain[:_MAX_REASON_CHARS].encode("utf-8", "replace").decode() or "the model gives no reason"


def _find_target(fields: Mapping[object, object], fact: FactWithNeighbours, stated_in: StatedIn) -> Memory:
    """Return the memory that a decision refers to: one shown for this fact, live, and in the same scope."""
    id_ = fields.get("id")
    if not isinstance(id_, str) or not id_:
        raise _Malformed("it does not name a memory")
    found = next((neighbour.memory for neighbour in fact.neighbours if neighbour.memory.id == id_), None)
    if found is None:
        raise _Malformed("it names a memory that was not shown")
    if found.state != "live":
        raise _Malformed("that memory is not live")
    if not _is_near(found, fact.statement, stated_in):
        raise _Malformed("that memory has another scope")
    return found


def _is_near(memory: Memory, statement: Statement, stated_in: StatedIn) -> bool:
    if memory.scope_name != statement.scope or memory.scope.user != stated_in.scope.user:
        return False
    if memory.scope_name == "project" and memory.scope.project != stated_in.scope.project:
        return False
    return not stated_in.isolated or _agent(memory.scope) == _agent(stated_in.scope)


def _agent(scope: Scope) -> str:
    """Return the agent id, or the channel for an agent without an id."""
    return scope.agent or scope.channel


def _read_statement(
    fields: Mapping[object, object], statement: Statement, supports: Callable[[Statement], bool]
) -> Statement:
    """Return the statement with the model's text, if it gave one and the evidence supports it."""
    text = fields.get("text")
    if text is None:
        return statement
    if not isinstance(text, str) or not text.strip():
        raise _Malformed("its text is empty or not a text")
    if len(text) > _MAX_TEXT_CHARS:
        raise _Malformed("its text is too long for one statement")
    plain = text.strip()
    if not _is_encodable(plain):
        raise _Malformed("its text is not valid Unicode")
    if plain == statement.text:
        return statement
    reworded = replace(statement, text=plain)
    if not supports(reworded):
        raise _Malformed("the evidence does not support its text")
    return reworded


def _is_encodable(text: str) -> bool:
    """Return whether the text can be encoded; JSON can contain lone surrogates, which UTF-8 cannot."""
    return text.encode("utf-8", "ignore").decode() == text


def _is_same_text(first: str, second: str) -> bool:
    return first.casefold().split() == second.casefold().split()


# Evidence for statements found by rules (EXT-3).
#
# A quote matches a turn exactly, or with case, accents, typography and spacing ignored. A statement is supported when
# every content word and number of its text occurs in its span. Unsupported statements are quarantined.


def locate(quote: str, text: str) -> Span | None:
    """Return the span of `quote` in `text`, or None if it does not occur."""
    stripped = quote.strip()
    if not stripped:
        return None
    start = text.find(stripped)
    if start >= 0:
        return Span(start=start, end=start + len(stripped))
    plain, offsets = _squeeze(text)
    needle, _ = _squeeze(stripped)
    needle = needle.strip()
    start = plain.find(needle) if needle else -1
    if start < 0:
        return None
    return Span(start=offsets[start], end=offsets[start + len(needle) - 1] + 1)


def is_supported(statement: Statement, text: str) -> bool:
    """Return whether every content word and number of the statement occurs in its span of `text`."""
    span = statement.span
    if not 0 <= span.start < span.end <= len(text):
        return False
    span_words = _words(text[span.start : span.end])
    return _words(statement.text) <= span_words


def _words(text: str) -> set[str]:
    plain = fold(unicodedata.normalize("NFC", text))
    return {canonical(word) for word in tokens(plain) if word not in STOP}


def _squeeze(text: str) -> tuple[str, list[int]]:
    """Return the folded text without combining marks and repeated spaces, and each character's original offset."""
    letters: list[str] = []
    offsets: list[int] = []
    for index, char in enumerate(fold(text)):
        if unicodedata.combining(char):
            continue
        if char.isspace():
            if letters and letters[-1] == " ":
                continue
            char = " "
        letters.append(char)
        offsets.append(index)
    return "".join(letters), offsets


# Evidence for facts read by a model (EXT-3).
#
# Every number of the fact must occur in its span or in the preceding text, which the span may refer to. Of its content
# words, enough must occur there too. Models reword, so fewer are required when fact and span have similar meaning.
# A model judges the cases in between. Unproven facts are kept out of memory, and the user can see them.
#
# A fact is refused when its words are not the speaker's own: text written by the host, instructions the agent got at
# its start or read from a file, injected memories, and our own prompt.

Verdict = Literal["proven", "unsure", "refuted"]

#: Thresholds for the share of the fact's content words in its span, and for the calibrated similarity of fact and span
#: (MEM-7: .35 is the 99th percentile of unrelated pairs; few pairs with different meanings exceed .5).
_MIN_WORD_SHARE: Final = 0.6
_MIN_UNSURE_WORD_SHARE: Final = 0.3
_MIN_SAME_SIMILARITY: Final = 0.5
_MIN_RELATED_SIMILARITY: Final = 0.35
_MAX_SPAN_CHARS: Final = 1200
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
#: Names of files with instructions for an agent. Repeating their text teaches nothing new.
_BOOT_FILE: Final = re.compile(
    r"\b(?:CLAUDE|AGENTS|GEMINI|MEMORY|COPILOT|copilot-instructions|SKILL|SOUL|TOOLS|IDENTITY|BOOTSTRAP)(?:\.local)?\.md\b|\.cursorrules\b|\.cursor/rules"
)
_MIN_COPY_CHARS: Final = 24


def check_evidence(fact: str, span: str, before: str, similarity: float) -> Verdict:
    """Return whether the cited words prove the fact.

    Args:
        fact: the fact's text.
        span: the cited words.
        before: the preceding text, which the span may refer to.
        similarity: calibrated similarity of the fact and the span.
    """
    if len(span) > _MAX_SPAN_CHARS:
        return "refuted"
    span_words, words_before = _proof_words(span), _proof_words(before)
    if not _numbers(fact) <= _numbers(span) | _numbers(before):
        return "refuted"
    fact_words = _proof_words(fact)
    if not fact_words:
        return "refuted"
    covered = len(fact_words & span_words) / len(fact_words)
    with_before = len(fact_words & (span_words | words_before)) / len(fact_words)
    if covered >= _MIN_WORD_SHARE or (with_before >= _MIN_WORD_SHARE and similarity >= _MIN_RELATED_SIMILARITY):
        return "proven"
    if similarity >= _MIN_SAME_SIMILARITY and covered >= _MIN_UNSURE_WORD_SHARE:
        return "proven"
    return "unsure" if covered >= _MIN_UNSURE_WORD_SHARE or similarity >= _MIN_RELATED_SIMILARITY else "refuted"


def boot_texts(turns: Sequence[Turn]) -> tuple[str, ...]:
    """Return the texts of instruction files among the tool results."""
    return tuple(turn.text for turn in turns if turn.role == "tool" and _BOOT_FILE.search(turn.text[:400]))


def refusal_reason(quote: str, turn: Turn, others: Sequence[str]) -> str:
    """Return why the quoted words are not the speaker's own, or an empty string.

    Args:
        quote: the quoted words.
        turn: the turn they were found in.
        others: texts of instructions, of injected memories, and of our own prompt.
    """
    if turn.role == "tool":
        return "only tool output supports it"
    if written_by_host(turn.text):
        return "the host wrote it"
    if turn.role == "user":
        return ""  # the user's words count, even when they repeat something that was read
    copied = any(locate(quote, other) for other in others) if len(quote) >= _MIN_COPY_CHARS else False
    return "it repeats text given to the agent" if copied else ""


def _proof_words(text: str) -> frozenset[str]:
    return frozenset(canonical(word) for word in tokens(fold(text)) if word not in STOP and not word.isdigit())


def _numbers(text: str) -> frozenset[str]:
    return frozenset(_NUMBER.findall(text))


# Turns below prompt trust, such as a prompt read from a file.
#
# Such text can claim anything. Only facts and decisions are taken from it, without a key or value, and only within
# their project: no rules, preferences, other instructions or core facts.

#: The kinds that an untrusted turn may state.
_OBSERVATIONS: Final = frozenset({"fact", "decision"})


def permitted_statements(turn: Turn) -> tuple[Statement, ...]:
    """Return the statements of a turn that its trust level permits."""
    if turn.trust >= TRUST_PROMPT or turn.role != "user":
        return extract(turn)
    statements = extract(replace(turn, trust=TRUST_PROMPT))
    return tuple(
        replace(statement, scope="project", key=None, value=None)
        for statement in statements
        if statement.kind in _OBSERVATIONS and statement.scope == "project"
    )


# Extracting facts from turns with a model (EXT-1, EXT-2).
#
# Each fact comes with a quote. A fact counts only if its quote is found in a turn. Text that the user quoted or pasted
# proves nothing (`own_words`). Only the user's own words can state a rule, preference, intent or constraint (RULE-3);
# from an agent these become facts.

_MAX_FACT_CHARS: Final = 600
_MAX_FACTS: Final = 40
_NO_SPAN: Final = Span(start=0, end=0)
#: Kinds that only the user's own words can state.
USER_ONLY_KINDS: Final[frozenset[Kind]] = frozenset({"rule", "preference", "intent", "constraint"})


class FactCandidate(Struct, frozen=True, kw_only=True):
    """A fact that a model read, with the turn that holds its span.

    Attributes:
        statement: the fact; its span is in the text of `turn`, and empty if the quote was not found.
        quote: the words that the model cited as evidence, as it wrote them.
    """

    statement: Statement
    turn: Turn
    quote: str


class Extraction(Struct, frozen=True, kw_only=True):
    """What a model read in a range of turns.

    Attributes:
        candidates: facts whose quotes were found.
        unfounded: facts whose quotes were not found, each with the reason.
        misshapen: validation errors of list items that are not valid facts.
        by: the completion that gave the answer.
    """

    candidates: tuple[FactCandidate, ...]
    unfounded: tuple[tuple[FactCandidate, str], ...]
    misshapen: tuple[str, ...]
    summary: str
    intent: str
    implicit: str
    concepts: tuple[str, ...]
    entities: tuple[NamedEntity, ...]
    questions: tuple[str, ...]
    by: Completion
    prompt_version: str


def ask_facts(
    turns: Sequence[Turn], prompts: Prompts, language: str, most_tokens: int, before: str = ""
) -> RequestGenerator[Extraction]:
    """Ask a model which facts these turns state; `before` is the summary of the conversation so far."""
    text = f"{wrap_in_tags('before', before)}\n\n{render_turns(turns)}" if before else render_turns(turns)
    answer, by = yield from ask_model(
        "extract", text, SessionShape, lambda answer: with_lists(answer, "facts"),
        prompts=prompts, language=language, most_tokens=most_tokens,
    )  # fmt: skip
    stated, misshapen = read_items(StatedFact, answer, "facts")
    entities, _ = read_items(NamedEntity, answer, "entities")
    founded: list[FactCandidate] = []
    unfounded: list[tuple[FactCandidate, str]] = []
    for fact in stated[:_MAX_FACTS]:
        found = _locate_fact(fact, turns)
        if isinstance(found, FactCandidate):
            founded.append(found)
        elif found:
            unfounded.append(found)
    return Extraction(
        candidates=tuple(founded),
        unfounded=tuple(unfounded),
        misshapen=tuple(misshapen),
        summary=text_of(answer, "summary"),
        intent=text_of(answer, "intent"),
        implicit=text_of(answer, "implicit"),
        concepts=texts_of(answer, "concepts"),
        entities=tuple(entity for entity in entities if entity.name),
        questions=texts_of(answer, "questions"),
        by=by,
        prompt_version=prompts("extract", language).version,
    )


def _locate_fact(fact: StatedFact, turns: Sequence[Turn]) -> FactCandidate | tuple[FactCandidate, str] | None:
    """Return the fact with its span, or with the reason why it has none; None if the fact is not worth keeping."""
    if not fact.text or len(fact.text) > _MAX_FACT_CHARS or fact.confidence < MIN_CONFIDENCE_KEEP:
        return None
    cited = turns[fact.turn - 1] if 1 <= fact.turn <= len(turns) else None
    # Models miscount turns, so every turn is searched for the quote, the cited one first.
    order = [turn for turn in (cited, *reversed(turns)) if turn is not None and turn.role != "tool"]
    location = next(((turn, span) for turn in order if (span := locate(fact.quote, citable(turn)))), None)
    if location is None and any(locate(fact.quote, turn.text) for turn in order):
        return None  # the user quoted or pasted it
    if location is None:
        turn = order[0] if order else turns[0]
        return _candidate(
            fact, turn, Statement(kind="fact", text=fact.text, span=_NO_SPAN)
        ), "its quote was not found in the turns"
    turn, span = location
    kind: Kind = fact.kind
    if kind in USER_ONLY_KINDS and turn.trust < TRUST_PROMPT:
        kind = "fact"
    keyed = turn.trust >= TRUST_PROMPT and fact.key and fact.value
    statement = Statement(
        kind=kind,
        text=fact.text,
        span=span,
        scope=fact.scope if turn.trust >= TRUST_PROMPT else "project",
        subject=" ".join(fact.topic.lower().split()[:6]),
        key=fact.key if keyed else None,
        value=fact.value if keyed else None,
        confidence=fact.confidence,
        sentiment=fact.sentiment,
        timeframe=fact.timeframe,
    )
    return _candidate(fact, turn, statement)


def citable(turn: Turn) -> str:
    """Return the text of a turn that may prove a fact; in user turns, quoted or pasted text is blanked out."""
    return own_words(turn.text) if turn.role == "user" else turn.text


def _candidate(fact: StatedFact, turn: Turn, statement: Statement) -> FactCandidate:
    return FactCandidate(statement=statement, turn=turn, quote=fact.quote)


# Asking a model what to do with facts, given nearby memories (EXT-4): one question for all facts of a range of turns.
# The answer is a list of raw decisions, which `check_decisions` checks.

#: The number of nearest memories shown per fact, the length of their texts, and the digits of their similarity (EXT-4).
MAX_NEIGHBOURS: Final = 5
_MAX_MEMORY_CHARS: Final = 280
_SIMILARITY_DIGITS: Final = 3
_TOKENS_PER_DECISION: Final = 120


def ask_decisions(
    facts: Sequence[tuple[Statement, Sequence[Neighbour]]], prompts: Prompts, language: str
) -> RequestGenerator[tuple[list[object], Completion | None]]:
    """Return the model's raw decisions and its completion; without facts, an empty list and None."""
    if not facts:
        return [], None
    items = [_describe_fact(number, *fact) for number, fact in enumerate(facts)]
    answer, by = yield from ask_model(
        "decide", wrap_json("facts", items), DecisionShape, lambda answer: with_lists(answer, "decisions"),
        prompts=prompts, language=language, most_tokens=200 + _TOKENS_PER_DECISION * len(facts),
    )  # fmt: skip
    return answer["decisions"], by


def _describe_fact(number: int, statement: Statement, neighbours: Sequence[Neighbour]) -> dict[str, object]:
    return {
        "fact": number,
        "text": statement.text,
        "kind": statement.kind,
        "memories": [
            {
                "id": neighbour.memory.id,
                "text": neighbour.memory.text[:_MAX_MEMORY_CHARS],
                "kind": neighbour.memory.kind,
                "since": f"{neighbour.memory.valid_from:%Y-%m-%d}",
                "similarity": round(neighbour.similarity, _SIMILARITY_DIGITS),
            }
            for neighbour in neighbours[:MAX_NEIGHBOURS]
        ],
    }


# Asking a model whether quotes support facts, for the facts that `check_evidence` leaves unsure (EXT-3).

_CONTEXT_CHARS: Final = 300
_TOKENS_PER_JUDGEMENT: Final = 40


def ask_support(
    candidates: Sequence[FactCandidate], prompts: Prompts, language: str
) -> RequestGenerator[tuple[bool, ...]]:
    """Return for each fact whether the model calls it supported; a fact without a judgement is not."""
    if not candidates:
        return ()
    items = [
        {"fact": number, "text": item.statement.text, **_quote_with_context(item)}
        for number, item in enumerate(candidates)
    ]
    answer, _ = yield from ask_model(
        "support", wrap_json("facts", items), SupportShape, lambda answer: with_lists(answer, "judgements"),
        prompts=prompts, language=language, most_tokens=100 + _TOKENS_PER_JUDGEMENT * len(candidates),
    )  # fmt: skip
    judgements, _ = read_items(StatedSupport, answer, "judgements")
    # Contradictory judgements of one fact count as not supported.
    refused = {item.fact for item in judgements if not item.supported}
    supported_facts = {item.fact for item in judgements if item.supported} - refused
    return tuple(number in supported_facts for number in range(len(candidates)))


def _quote_with_context(candidate: FactCandidate) -> dict[str, str]:
    span, text = candidate.statement.span, candidate.turn.text
    return {
        "quote": text[span.start : span.end],
        "message": text[max(0, span.start - _CONTEXT_CHARS) : span.end + _CONTEXT_CHARS],
    }


# From turns to decisions (EXT-1 to EXT-6).
#
# The quotes of a fact must prove it; a model is asked about the unsure ones. The model then decides on the proven
# facts if it is trusted with decisions, and each decision is checked by `check_decisions`. Otherwise the decision
# stays None and the rules decide when the statement is stored.

UNPROVEN: Final = "its words do not say it"
BY_RULES: Final = "decided by the rules: {}"


class SimilarityRequest(Struct, frozen=True, kw_only=True):
    """A request for the calibrated similarity of each pair of texts; 0 without an embedder."""

    pairs: tuple[tuple[str, str], ...]


class NeighboursRequest(Struct, frozen=True, kw_only=True):
    """A request for the memories near each statement, within the scope of its turn, nearest first."""

    candidates: tuple[FactCandidate, ...]


ExtractionRequest = CompletionRequest | SimilarityRequest | NeighboursRequest


class FactOutcome(Struct, frozen=True, kw_only=True):
    """A fact and its outcome.

    Attributes:
        refusal: why it is kept out of memory, or empty.
        decision: None if the rules decide.
        note: why the rules decide.
    """

    candidate: FactCandidate
    refusal: str = ""
    decision: Decision | None = None
    note: str = ""


class UnderstoodTurns(Struct, frozen=True, kw_only=True):
    """The result for a range of turns.

    Attributes:
        extraction: the model's answer, with the facts before they were checked.
        facts: all facts, each with a refusal, a decision, or a note why the rules decide.
        rejected: the reasons why decisions of the model were dropped.
    """

    extraction: Extraction
    facts: tuple[FactOutcome, ...]
    rejected: tuple[str, ...]


def understand_turns(
    turns: Sequence[Turn],
    prompts: Prompts,
    language: str,
    *,
    agent_texts: Sequence[str],
    most_tokens: int,
    decides: bool | None = None,
    before: str = "",
    isolated: bool = False,
) -> Generator[ExtractionRequest, Any, UnderstoodTurns]:
    """Extract facts from these turns, check their evidence and decide on them.

    Args:
        turns: the turns, oldest first.
        prompts: looks up a prompt by operation and language.
        language: the language of the prompts.
        agent_texts: texts that the agent was given (instructions, injected memories); repeating them teaches nothing.
        most_tokens: token limit of the extraction answer.
        decides: whether the model may decide on facts; None uses the model's own setting.
        before: summary of the conversation so far.
        isolated: an agent may change only memories that it learned itself.

    Raises:
        ModelUnavailable, Unreadable: the facts could not be extracted at all.
    """
    found: Extraction = yield from ask_facts(turns, prompts, language, most_tokens, before)
    pasted = (passage for turn in turns if turn.role == "user" for passage in material(turn.text))
    foreign = (*agent_texts, prompts("extract", language).text, *pasted)
    outcomes = [FactOutcome(candidate=candidate, refusal=reason) for candidate, reason in found.unfounded]
    accepted: list[FactCandidate] = []
    for candidate in found.candidates:
        refusal = refusal_reason(candidate.quote, candidate.turn, foreign)
        if refusal:
            outcomes.append(FactOutcome(candidate=candidate, refusal=refusal))
        else:
            accepted.append(candidate)
    proven, unproven = yield from _split_by_proof(turns, accepted, prompts, language)
    outcomes += [FactOutcome(candidate=candidate, refusal=UNPROVEN) for candidate in unproven]
    if not proven:
        return UnderstoodTurns(extraction=found, facts=tuple(outcomes), rejected=())
    if not (found.by.decides if decides is None else decides):
        note = BY_RULES.format(f"{found.by.model} is not trusted with decisions")
        outcomes += [FactOutcome(candidate=candidate, note=note) for candidate in proven]
        return UnderstoodTurns(extraction=found, facts=tuple(outcomes), rejected=())
    decided, rejected = yield from _ask_and_check_decisions(proven, prompts, language, isolated=isolated)
    return UnderstoodTurns(extraction=found, facts=(*outcomes, *decided), rejected=rejected)


def _split_by_proof(
    turns: Sequence[Turn], candidates: Sequence[FactCandidate], prompts: Prompts, language: str
) -> Generator[ExtractionRequest, Any, tuple[list[FactCandidate], list[FactCandidate]]]:
    """Split the candidates into those that their evidence supports and the others."""
    if not candidates:
        return [], []
    spans = [_cited_text(candidate) for candidate in candidates]
    pairs = tuple((candidate.statement.text, span) for candidate, span in zip(candidates, spans, strict=True))
    similarities = cast("tuple[float, ...]", (yield SimilarityRequest(pairs=pairs)))
    verdicts: list[Verdict] = [
        check_evidence(candidate.statement.text, span, _preceding_text(candidate.turn, turns), similarity)
        for candidate, span, similarity in zip(candidates, spans, similarities, strict=True)
    ]
    unsure = [candidate for candidate, verdict in zip(candidates, verdicts, strict=True) if verdict == "unsure"]
    try:
        backed = yield from ask_support(unsure, prompts, language)
    except (ModelUnavailable, Unreadable):
        backed = (False,) * len(unsure)  # unsupported facts wait for review
    proven_ids = {id(candidate) for candidate, is_backed in zip(unsure, backed, strict=True) if is_backed}
    proven_ids |= {
        id(candidate) for candidate, verdict in zip(candidates, verdicts, strict=True) if verdict == "proven"
    }
    return [candidate for candidate in candidates if id(candidate) in proven_ids], [
        candidate for candidate in candidates if id(candidate) not in proven_ids
    ]


def _ask_and_check_decisions(
    candidates: Sequence[FactCandidate], prompts: Prompts, language: str, *, isolated: bool
) -> Generator[ExtractionRequest, Any, tuple[list[FactOutcome], tuple[str, ...]]]:
    """Return the outcome of each candidate, and the reasons why decisions of the model were dropped."""
    near = cast("tuple[Sequence[Neighbour], ...]", (yield NeighboursRequest(candidates=tuple(candidates))))
    facts = [(item.statement, neighbours) for item, neighbours in zip(candidates, near, strict=True)]
    asking: RequestGenerator[tuple[list[object], Completion | None]] = ask_decisions(facts, prompts, language)
    try:
        raw, _ = yield from asking
    except (ModelUnavailable, Unreadable) as error:
        cause = "no model answered" if isinstance(error, ModelUnavailable) else "its answer was unreadable"
        note = BY_RULES.format(cause)
        return [FactOutcome(candidate=item, note=note) for item in candidates], ()

    def supports(reworded: Statement) -> bool:
        """Return whether the words that the fact cites also prove the rewritten text."""
        cited = [item for item in candidates if item.statement.span == reworded.span]
        return any(
            check_evidence(reworded.text, _cited_text(item), item.statement.text, 1.0) == "proven" for item in cited
        )

    last = max((item.turn for item in candidates), key=lambda turn: turn.at)
    stated = [
        FactWithNeighbours(statement=statement, neighbours=tuple(neighbours[:MAX_NEIGHBOURS]))
        for statement, neighbours in facts
    ]
    checked = check_decisions(raw, stated, StatedIn(scope=last.scope, at=last.at, isolated=isolated), supports)
    outcomes: list[FactOutcome] = []
    for number, (item, neighbours) in enumerate(zip(candidates, near, strict=True)):
        decision = checked.decisions.get(number)
        if decision is None:
            outcomes.append(FactOutcome(candidate=item, note=BY_RULES.format("the model gave no usable decision")))
        else:
            outcomes.append(
                FactOutcome(candidate=item, decision=defer_to_higher_trust(decision, item.turn.trust, neighbours))
            )
    return outcomes, tuple(item.reason for item in checked.rejected)


def defer_to_higher_trust(decision: Decision, trust: int, neighbours: Sequence[Neighbour]) -> Decision:
    """Return the decision, or a Conflict if it ends a memory with higher trust; a person resolves the conflict.

    Args:
        decision: the decision to check.
        trust: the trust of the turn that states the fact.
        neighbours: the memories shown for the fact.
    """
    match decision:
        case (
            Update(statement=statement, old_ids=ids, reason=reason)
            | Delete(statement=statement, old_ids=ids, reason=reason)
        ):
            trust_of = {neighbour.memory.id: neighbour.memory.trust for neighbour in neighbours}
            more_trusted = next((id_ for id_ in ids if trust_of.get(id_, 0) > trust), None)
            if more_trusted is not None:
                why = f"{reason}; it contradicts the user's own words"
                return Conflict(statement=statement, existing_id=more_trusted, reason=why)
            return decision
        case _:
            return decision


def _cited_text(candidate: FactCandidate) -> str:
    span = candidate.statement.span
    return candidate.turn.text[span.start : span.end]


def _preceding_text(turn: Turn, turns: Sequence[Turn]) -> str:
    """Return the text of a turn and of the message before it, which the turn may refer to."""
    messages = [message for message in turns if message.role != "tool"]
    position = next((number for number, message in enumerate(messages) if message.id == turn.id), 0)
    return " ".join(citable(message) for message in messages[max(position - 1, 0) : position + 1])


# Merging a model's session summary into the analysis of the rules (EXT-1).
#
# A model writes better summaries and names better topics, so its text replaces that of the rules where it gave any.
# Quotes are kept from the rules.

_MAX_CONCEPTS: Final = 5
_MAX_SUMMARY_CHARS: Final = 1200
_MAX_ENTITIES: Final = 40


def merge_into_analysis(by_rules: Analysis, found: Extraction) -> Analysis:
    """Return the analysis of the rules, with the model's summary, concepts, entities and implicit context merged in."""
    implicit = (found.implicit,) if found.implicit else ()
    return replace(
        by_rules,
        summary=found.summary[:_MAX_SUMMARY_CHARS] or by_rules.summary,
        concepts=tuple(clean_topics(found.concepts))[:_MAX_CONCEPTS] or by_rules.concepts,
        entities=_merge_entities(by_rules.entities, found.entities),
        implicit_context=tuple(dict.fromkeys([*by_rules.implicit_context, *implicit])),
        points=() if found.summary else by_rules.points,
        made_by=f"{found.by.provider}/{found.by.model}",
    )


def _merge_entities(counted: Sequence[Entity], named: Sequence[NamedEntity]) -> tuple[Entity, ...]:
    """Return the counted entities with the types that the model gives, then the entities that only the model named."""
    types = {fold(entity.name): _entity_type(entity.type) for entity in named}
    counted_names = {fold(entity.name) for entity in counted}
    additional = (
        Entity(name=entity.name, type=_entity_type(entity.type))
        for entity in named
        if fold(entity.name) not in counted_names
    )
    retyped = [replace(entity, type=types.get(fold(entity.name), entity.type)) for entity in counted]
    return tuple({fold(entity.name): entity for entity in [*retyped, *additional]}.values())[:_MAX_ENTITIES]


def _entity_type(name: str) -> EntityType:
    plain = name.strip().lower()
    types: dict[str, EntityType] = {type_: type_ for type_ in ENTITY_TYPES}
    return types.get(plain, "other")
