"""Extraction by a language model: what it is asked, how its answer is read, and what of it is believed.

Each quote is checked against its source; a failing quote rejects only its own statement.

Pure: no database, no file.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, TypeVar, cast

from filrouge.capture.models import TRUST_PROMPT, Turn
from filrouge.core import text as re
from filrouge.core.errors import ModelUnavailable, Unreadable
from filrouge.core.protocols import Prompts
from filrouge.core.scope import Scope
from filrouge.extraction.heuristics import extract, written_by_host
from filrouge.extraction.models import (
    ENTITY_TYPES,
    Analysis,
    DecisionShape,
    Entity,
    EntityType,
    NamedEntity,
    SessionShape,
    StatedFact,
    StatedSupport,
    SupportShape,
    read_items,
    schema_of,
    text_of,
    texts_of,
)
from filrouge.extraction.own_words import material, own_words
from filrouge.extraction.summaries import clean_topics
from filrouge.extraction.vocabulary import STOP, canonical, fold, tokens
from filrouge.memories.models import (
    LEAST_TO_KEEP,
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
from filrouge.providers.models import Ask, Completion, Prompt

# A stretch of a conversation as a model is shown it: numbered turns, each cut to a length, tool output least of all.
#
# The text is hostile as all memory text is: it stands between tags that it cannot close.

#: Characters shown of one turn (EXT-2: of a tool's result 500, and of each message three results).
_SHOWN: Final[Mapping[str, int]] = {"user": 6000, "assistant": 4000, "tool": 500}
_RESULTS: Final = 3
#: Characters of a stretch: what a small model reads well, and about 6,000 tokens.
LONGEST_TRANSCRIPT: Final = 24_000


def stretch(turns: Sequence[Turn]) -> int:
    """How many of these turns, oldest first, one question may hold; at least one."""
    used, results = 0, 0
    for number, turn in enumerate(turns):
        results = results + 1 if turn.role == "tool" else 0
        if results <= _RESULTS:
            used += min(len(turn.text), _SHOWN[turn.role])
        if used > LONGEST_TRANSCRIPT and number:
            return number
    return len(turns)


def rendered(turns: Sequence[Turn], tag: str = "conversation") -> str:
    """The turns, numbered from 1, between tags."""
    lines: list[str] = []
    results = 0
    for number, turn in enumerate(turns, start=1):
        results = results + 1 if turn.role == "tool" else 0
        if results <= _RESULTS:
            who = "tool output" if turn.role == "tool" else "agent" if turn.role == "assistant" else "user"
            lines.append(f"[{number}] {who} ({turn.at:%Y-%m-%d %H:%M}): {shown(turn)}")
    return quoted(tag, "\n\n".join(lines))


def shown(turn: Turn) -> str:
    """What is shown of a turn."""
    limit = _SHOWN[turn.role]
    return turn.text if len(turn.text) <= limit else f"{turn.text[:limit]} …"


def quoted(tag: str, text: str) -> str:
    """The text between tags that nothing in it can close."""
    return f"<{tag}>\n{text.replace(f'</{tag}', f'< /{tag}')}\n</{tag}>"


# Ask a model and read what it says (EXT-12).
#
# Models put fences and prose around their JSON, cut it off, or answer something else. The first object in the text
# that is one is taken, and of one that was cut off what is whole. Where there is none the question is asked once
# more, with what was wrong; after that the answer is given up as `Unreadable`, which keeps its text for a person to
# see.

T = TypeVar("T")
Thought = Generator[Ask, Completion, T]
"""Yields questions, is sent their answers, returns what came of them."""

#: Characters: no answer to any of our questions is longer, and a reader must not choke on one.
LONGEST: Final = 200_000
_QUOTED: Final = 2000
_PLACES: Final = 200
_CUT_PLACES: Final = 3
_DEEPEST: Final = 20
_FENCE: Final = re.compile(r"```[a-zA-Z]*\s*\n(.*?)(?:```|\Z)", re.DOTALL)


def asked(ask: Ask, repair: Prompt, read: Callable[[Mapping[str, Any]], T]) -> Thought[tuple[T, Completion]]:
    """Ask, read, and ask once more where the answer cannot be read.

    Args:
        repair: what to say then.
        read: makes something of an answer; raises `ValueError` saying what is wrong with it.

    Raises:
        Unreadable: neither answer can be read.
    """
    first = yield ask
    try:
        return read(json_object(first.text)), first
    except ValueError as error:
        wrong = str(error)
    said = first.text[:_QUOTED].replace("</answer>", "")
    again = f"{ask.text}\n\n{repair.text}\n({wrong})\n<answer>\n{said}\n</answer>"
    second = yield replace(ask, text=again)
    try:
        return read(json_object(second.text)), second
    except ValueError as error:
        what = f"The answer of {second.provider} {second.model} cannot be read: {error}."
        raise Unreadable(what, text=second.text, prompt=ask.prompt.version, operation=ask.operation) from error


def json_object(text: str) -> dict[str, Any]:
    """The first JSON object in a text, whatever stands around it.

    Raises:
        ValueError: there is none; says why.
    """
    if len(text) > LONGEST:
        raise ValueError("it is far too long")
    plain = text.strip()
    for candidate in [plain, *(fenced.strip() for fenced in _FENCE.findall(plain))]:
        if isinstance(found := _parsed(candidate), dict):
            return cast("dict[str, Any]", found)
    starts = [place.start() for place in re.finditer(r"\{", plain)][:_PLACES]
    for number, start in enumerate(starts):
        found = _first(plain, start) or (_as_far_as_it_goes(plain, start) if number < _CUT_PLACES else None)
        if found:
            return found
    raise ValueError("there is no JSON object in it" if not starts else "its JSON is broken or cut off")


def _parsed(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None


def _first(text: str, start: int) -> dict[str, Any] | None:
    """The object that opens at `start`; an empty one is no answer to anything."""
    try:
        found, _ = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) and found else None


def _as_far_as_it_goes(text: str, start: int) -> dict[str, Any] | None:
    """An object that was cut off, up to the last part of it that is whole; None where no part is."""
    inside: list[str] = []
    whole: tuple[int, str] | None = None
    quoted = escaped = False
    for place in range(start, len(text)):
        char = text[place]
        if quoted:
            quoted, escaped = escaped or char != '"', char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "{[":
            inside.append("}" if char == "{" else "]")
            if len(inside) > _DEEPEST:
                return None
        elif char in "}]":
            if not inside or inside.pop() != char:
                return None
            if char == "}" and inside:
                whole = (place + 1, "".join(reversed(inside)))
    found = _parsed(text[start : whole[0]] + whole[1]) if whole else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number)


# What may be believed of decisions that a model wrote: each is held against what it was shown, and falls alone.
#
# Models invent ids, repeat themselves, decide on facts that nobody stated, and write words that nobody said. `admit`
# takes whatever JSON came back and gives decisions that can be carried out, in the order of the facts; what was
# dropped and why (EXT-4); and the facts that nobody decided, which the deterministic rule then decides. Why something
# was dropped repeats no words of the conversation. A pinned memory changes by the user's hand only: what a model
# would change of it is a Conflict.

#: Characters: a memory is one statement, and a reason half a line.
_LONGEST_TEXT: Final = 2000
_LONGEST_REASON: Final = 300
_ACTIONS: Final = ("add", "update", "delete", "noop", "conflict")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stated:
    """One fact that was put to the model, with the memories that it was shown for it."""

    statement: Statement
    shown: tuple[Neighbour, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where and when the facts were said.

    Attributes:
        isolated: an agent may touch only what it learned itself.
    """

    scope: Scope
    at: datetime
    isolated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Rejected:
    """A decision that was dropped.

    Attributes:
        place: where it stood in the list.
        fact: the fact that it was about; None where that cannot be told.
    """

    place: int
    fact: int | None
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Admitted:
    """What became of a list.

    Attributes:
        decisions: by the number of the fact, at most one each, in the order of the facts.
        undecided: the facts without one.
    """

    decisions: Mapping[int, Decision]
    rejected: tuple[Rejected, ...]
    undecided: tuple[int, ...]


class _Malformed(Exception):  # it never leaves this module
    """Why a decision is dropped."""


def admit(raw: object, stated: Sequence[Stated], place: Place, supports: Callable[[Statement], bool]) -> Admitted:
    """What of these decisions can be carried out.

    Args:
        raw: what the model gave: a list of `{"fact": index, "action": "add | update | delete | noop | conflict",
            "id": id or null, "text": text or null, "reason": text}`, or anything else.
        supports: whether the words of a statement prove it; asked of a text that was rewritten.
    """
    listed = cast("list[object]", raw) if isinstance(raw, list) else None
    rejected: list[Rejected] = [] if listed is not None else [Rejected(place=0, fact=None, reason="it is no list")]
    decisions: dict[int, Decision] = {}
    met = _Met(ended=set(), last={})
    for number, one in enumerate(listed or ()):
        fact: int | None = None
        try:
            given = _object(one)
            fact = _fact(given, len(stated))
            if fact in decisions:
                raise _Malformed("the fact is decided already")
            decision = _decision(given, stated[fact], place, supports)
            met.meet(decision, fact)
        except _Malformed as error:
            rejected.append(Rejected(place=number, fact=fact, reason=str(error)))
        else:
            decisions[fact] = decision
    undecided = tuple(number for number in range(len(stated)) if number not in decisions)
    ordered = {number: decisions[number] for number in sorted(decisions)}
    return Admitted(decisions=ordered, rejected=tuple(rejected), undecided=undecided)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Met:
    """What the decisions of a list have in common.

    Attributes:
        ended: the memories that one of them ends.
        last: the last fact that speaks of a memory.
    """

    ended: set[str]
    last: dict[str, int]

    def meet(self, decision: Decision, fact: int) -> None:
        """Refuse a decision that speaks of what another has ended by then, or ends what another speaks of later."""
        ends = isinstance(decision, Update | Delete)
        for id_ in _named(decision):
            if id_ in self.ended:
                raise _Malformed("another decision of this list ends that memory")
            if ends and self.last.get(id_, -1) > fact:
                raise _Malformed("another decision of this list speaks of that memory")
        for id_ in _named(decision):
            self.last[id_] = max(fact, self.last.get(id_, -1))
            if ends:
                self.ended.add(id_)


def _named(decision: Decision) -> tuple[str, ...]:
    match decision:
        case Update(old_ids=ids) | Delete(old_ids=ids):
            return ids
        case Noop(existing_id=id_) | Conflict(existing_id=id_):
            return (id_,)
        case Add():
            return ()


def _decision(
    given: Mapping[object, object], one: Stated, place: Place, supports: Callable[[Statement], bool]
) -> Decision:
    action, reason = _action(given), _reason(given)
    if action == "add":
        return Add(statement=_reworded(given, one.statement, supports), reason=reason)
    memory = _target(given, one, place)
    if action == "noop":
        return Noop(statement=one.statement, existing_id=memory.id, reason=reason)
    if action == "conflict":
        return Conflict(statement=_reworded(given, one.statement, supports), existing_id=memory.id, reason=reason)
    if memory.valid_from > place.at:
        raise _Malformed("that memory is newer than what was said")
    statement = _reworded(given, one.statement, supports) if action == "update" else one.statement
    if memory.pinned:
        reason = f"{reason}, but the memory is pinned"
        return Conflict(statement=statement, existing_id=memory.id, reason=reason)
    if action == "delete":
        return Delete(statement=statement, old_ids=(memory.id,), reason=reason)
    if _same(statement.text, memory.text):
        return Noop(statement=one.statement, existing_id=memory.id, reason=reason)
    if any(_same(statement.text, other.memory.text) for other in one.shown if other.memory.state == "live"):
        raise _Malformed("another memory says that already")
    return Update(statement=statement, old_ids=(memory.id,), reason=reason)


def _object(one: object) -> Mapping[object, object]:
    if not isinstance(one, dict):
        raise _Malformed("it is no object")
    return cast("Mapping[object, object]", one)


def _fact(given: Mapping[object, object], facts: int) -> int:
    number = given.get("fact")
    if not isinstance(number, int) or isinstance(number, bool):
        raise _Malformed("it names no fact")
    if not 0 <= number < facts:
        raise _Malformed("there is no such fact")
    return number


def _action(given: Mapping[object, object]) -> str:
    action = given.get("action")
    plain = action.strip().lower() if isinstance(action, str) else ""
    if plain not in _ACTIONS:
        raise _Malformed("there is no such action")
    return plain


def _reason(given: Mapping[object, object]) -> str:
    reason = given.get("reason")
    plain = " ".join(reason.split()) if isinstance(reason, str) else ""
    return plain[:_LONGEST_REASON].encode("utf-8", "replace").decode() or "the model gives no reason"


def _target(given: Mapping[object, object], one: Stated, place: Place) -> Memory:
    """The memory that a decision names: one that was shown for this fact, live, and of the same place."""
    id_ = given.get("id")
    if not isinstance(id_, str) or not id_:
        raise _Malformed("it names no memory")
    found = next((other.memory for other in one.shown if other.memory.id == id_), None)
    if found is None:
        raise _Malformed("it names a memory that was not shown")
    if found.state != "live":
        raise _Malformed("that memory is not live")
    if not _is_near(found, one.statement, place):
        raise _Malformed("that memory is of another place")
    return found


def _is_near(memory: Memory, statement: Statement, place: Place) -> bool:
    if memory.scope_name != statement.scope or memory.scope.user != place.scope.user:
        return False
    if memory.scope_name == "project" and memory.scope.project != place.scope.project:
        return False
    return not place.isolated or _agent(memory.scope) == _agent(place.scope)


def _agent(scope: Scope) -> str:
    """An agent without an id is known by its channel."""
    return scope.agent or scope.channel


def _reworded(given: Mapping[object, object], statement: Statement, supports: Callable[[Statement], bool]) -> Statement:
    """The statement in the model's words, if it gave any and the evidence proves them."""
    text = given.get("text")
    if text is None:
        return statement
    if not isinstance(text, str) or not text.strip():
        raise _Malformed("its text is empty or no text")
    if len(text) > _LONGEST_TEXT:
        raise _Malformed("its text is too long for one statement")
    plain = text.strip()
    if not _is_written(plain):
        raise _Malformed("its text cannot be written down")
    if plain == statement.text:
        return statement
    reworded = replace(statement, text=plain)
    if not supports(reworded):
        raise _Malformed("its text says what the evidence does not")
    return reworded


def _is_written(text: str) -> bool:
    """JSON can spell halves of characters, which no encoding holds."""
    return text.encode("utf-8", "ignore").decode() == text


def _same(one: str, other: str) -> bool:
    return one.casefold().split() == other.casefold().split()


# Proof that a statement says no more than its words (EXT-3).
#
# A quote is found in a turn exactly, or else with case, accents, typography and spacing set aside. A statement is
# supported when every content word and number of its text occurs in its span; what is not is quarantined.


def locate(quote: str, text: str) -> Span | None:
    """Where `quote` stands in `text`, or None."""
    wanted = quote.strip()
    if not wanted:
        return None
    at = text.find(wanted)
    if at >= 0:
        return Span(start=at, end=at + len(wanted))
    plain, offsets = _squeeze(text)
    needle, _ = _squeeze(wanted)
    needle = needle.strip()
    at = plain.find(needle) if needle else -1
    if at < 0:
        return None
    return Span(start=offsets[at], end=offsets[at + len(needle) - 1] + 1)


def supported(statement: Statement, text: str) -> bool:
    """True when every content word and number of the statement occurs in its span of `text`."""
    span = statement.span
    if not 0 <= span.start < span.end <= len(text):
        return False
    said = _words(text[span.start : span.end])
    return _words(statement.text) <= said


def _words(text: str) -> set[str]:
    plain = fold(unicodedata.normalize("NFC", text))
    return {canonical(word) for word in tokens(plain) if word not in STOP}


def _squeeze(text: str) -> tuple[str, list[int]]:
    """Folded text with single spaces and without combining marks, and where each character came from."""
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


# Whether a fact that a model read is proven by the words it cites (EXT-3).
#
# Every number of the fact must stand in its span, or in what was said just before, which it may point back to. Then
# as many of its content words as in what is typed by people: a model rewords, so a part may be missing where the fact
# means the same as the span. Between the clear cases a model is asked. What is not proven is kept out of memory,
# visibly.
#
# A fact is refused outright where its words are not the speaker's own: a text that the host wrote, that an agent is
# given at its start or read in a file of instructions, that we injected, or that stands in our own prompt.

Verdict = Literal["proven", "unsure", "refuted"]

#: Share of the fact's content words that stand in its span; calibrated similarity of fact and span (MEM-7: .35 is the
#: 99th percentile of unrelated pairs, .5 is passed by few that do not mean the same).
_ENOUGH_WORDS: Final = 0.6
_SOME_WORDS: Final = 0.3
_SAME_MEANING: Final = 0.5
_RELATED: Final = 0.35
_LONGEST_SPAN: Final = 1200
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
#: Files that tell an agent how to behave; whoever repeats them teaches nothing.
_BOOT_FILE: Final = re.compile(
    r"\b(?:CLAUDE|AGENTS|GEMINI|MEMORY|COPILOT|copilot-instructions|SKILL|SOUL|TOOLS|IDENTITY|BOOTSTRAP)(?:\.local)?\.md\b|\.cursorrules\b|\.cursor/rules"
)
_SHORTEST_COPY: Final = 24


def proof(fact: str, span: str, before: str, similarity: float) -> Verdict:
    """What the cited words prove.

    Args:
        before: what was said just before, which the span may point back to.
        similarity: of the fact and the span, calibrated.
    """
    if len(span) > _LONGEST_SPAN:
        return "refuted"
    said, known = _proof_words(span), _proof_words(before)
    if not _numbers(fact) <= _numbers(span) | _numbers(before):
        return "refuted"
    wanted = _proof_words(fact)
    if not wanted:
        return "refuted"
    covered = len(wanted & said) / len(wanted)
    with_before = len(wanted & (said | known)) / len(wanted)
    if covered >= _ENOUGH_WORDS or (with_before >= _ENOUGH_WORDS and similarity >= _RELATED):
        return "proven"
    if similarity >= _SAME_MEANING and covered >= _SOME_WORDS:
        return "proven"
    return "unsure" if covered >= _SOME_WORDS or similarity >= _RELATED else "refuted"


def boot_texts(turns: Sequence[Turn]) -> tuple[str, ...]:
    """The files of instructions among what tools showed."""
    return tuple(turn.text for turn in turns if turn.role == "tool" and _BOOT_FILE.search(turn.text[:400]))


def not_own(quote: str, turn: Turn, others: Sequence[str]) -> str:
    """Why the quoted words are not the speaker's own, or empty.

    Args:
        others: texts of instructions, of injected memories, and of our own prompt.
    """
    if turn.role == "tool":
        return "it rests on a tool's output alone"
    if written_by_host(turn.text):
        return "the host wrote it"
    if turn.role == "user":
        return ""  # what the user says is meant, also if it says again what was read
    copied = any(locate(quote, other) for other in others) if len(quote) >= _SHORTEST_COPY else False
    return "it repeats what the agent was given" if copied else ""


def _proof_words(text: str) -> frozenset[str]:
    return frozenset(canonical(word) for word in tokens(fold(text)) if word not in STOP and not word.isdigit())


def _numbers(text: str) -> frozenset[str]:
    return frozenset(_NUMBER.findall(text))


# Hearsay: what the words state that nobody vouches for, such as a prompt in a file that was read in.
#
# A file says of itself what it likes. So nothing of it becomes a rule, a preference or any other instruction, nothing
# a core fact, and nothing holds beyond its project: it is an observation, and is shown as one.

#: What somebody may report without asking for anything.
_OBSERVATIONS: Final = frozenset({"fact", "decision"})


def stated_by(turn: Turn) -> tuple[Statement, ...]:
    """Every statement of a turn that it may make, by how far it is trusted."""
    if turn.trust >= TRUST_PROMPT or turn.role != "user":
        return extract(turn)
    read = extract(replace(turn, trust=TRUST_PROMPT))
    return tuple(
        replace(one, scope="project", key=None, value=None)
        for one in read
        if one.kind in _OBSERVATIONS and one.scope == "project"
    )


# Ask a model what a stretch of a conversation teaches (EXT-1, EXT-2).
#
# Each fact comes with a quote; it is found again in its turn, or it does not count. What the user quoted or pasted
# proves nothing (`own_words`). Only the user's own words make a rule, a preference, an intent or a constraint
# (RULE-3); what the agent says is an observation.

_LONGEST_FACT: Final = 600
_MOST_FACTS: Final = 40
_NOWHERE: Final = Span(start=0, end=0)
_USERS_ALONE: Final = frozenset({"rule", "preference", "intent", "constraint"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A fact that a model read, with the turn that its span stands in."""

    statement: Statement
    turn: Turn
    quote: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Extraction:
    """What a model read in a stretch of a conversation.

    Attributes:
        candidates: facts whose quotes were found.
        unfounded: facts whose quotes were not, each with the reason.
        misshapen: what was wrong with items that were no facts at all.
    """

    candidates: tuple[Candidate, ...]
    unfounded: tuple[tuple[Candidate, str], ...]
    misshapen: tuple[str, ...]
    summary: str
    intent: str
    implicit: str
    concepts: tuple[str, ...]
    entities: tuple[NamedEntity, ...]
    questions: tuple[str, ...]
    by: Completion
    prompt_version: str


def extraction(
    turns: Sequence[Turn], prompts: Prompts, language: str, most_tokens: int, before: str = ""
) -> Thought[Extraction]:
    """Ask what these turns teach; `before` is what the conversation came to so far."""
    prompt = prompts("extract", language)
    ask = Ask(
        operation="extract",
        prompt=prompt,
        text=f"{quoted('before', before)}\n\n{rendered(turns)}" if before else rendered(turns),
        schema=schema_of(SessionShape),
        most_tokens=most_tokens,
    )
    answer, by = yield from asked(ask, prompts("repair", language), _facts_listed)
    stated, misshapen = read_items(StatedFact, answer, "facts")
    entities, _ = read_items(NamedEntity, answer, "entities")
    founded: list[Candidate] = []
    unfounded: list[tuple[Candidate, str]] = []
    for fact in stated[:_MOST_FACTS]:
        found = _found(fact, turns)
        if isinstance(found, Candidate):
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
        prompt_version=prompt.version,
    )


def _facts_listed(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(answer.get("facts"), list):
        raise ValueError("it has no list `facts`")
    return answer


def _found(fact: StatedFact, turns: Sequence[Turn]) -> Candidate | tuple[Candidate, str] | None:
    """The fact with its span; or with what is missing; None where it is not worth keeping."""
    if not fact.text or len(fact.text) > _LONGEST_FACT or fact.confidence < LEAST_TO_KEEP:
        return None
    cited = turns[fact.turn - 1] if 1 <= fact.turn <= len(turns) else None
    # Models miscount: the turn that holds the quote is the one that was meant.
    order = [turn for turn in (cited, *reversed(turns)) if turn is not None and turn.role != "tool"]
    place = next(((turn, span) for turn in order if (span := locate(fact.quote, citable(turn)))), None)
    if place is None and any(locate(fact.quote, turn.text) for turn in order):
        return None  # the user quoted or pasted it
    if place is None:
        turn = order[0] if order else turns[0]
        return _candidate(fact, turn, Statement(kind="fact", text=fact.text, span=_NOWHERE)), "its quote is nowhere"
    turn, span = place
    kind: Kind = fact.kind
    if kind in _USERS_ALONE and turn.trust < TRUST_PROMPT:
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
    """What of a turn may prove a fact: of the user's message the own words, with blanks in the place of the rest."""
    return own_words(turn.text) if turn.role == "user" else turn.text


def _candidate(fact: StatedFact, turn: Turn, statement: Statement) -> Candidate:
    return Candidate(statement=statement, turn=turn, quote=fact.quote)


# Ask a model what becomes of facts, given what is known near each (EXT-4). One question for all facts of a stretch.
#
# The answer is a list of raw decisions; whether each can be carried out is settled where they are admitted.

#: EXT-4: so many nearest memories a fact, their text cut, their similarity rounded.
NEAREST: Final = 5
_LONGEST: Final = 280
_DIGITS: Final = 3
_TOKENS_EACH: Final = 120


def deciding(
    facts: Sequence[tuple[Statement, Sequence[Neighbour]]], prompts: Prompts, language: str
) -> Thought[tuple[list[object], Completion | None]]:
    """What a model would do with each fact, as it said it, and who said so; nothing to ask: nobody."""
    if not facts:
        return [], None
    items = [_shown(number, *fact) for number, fact in enumerate(facts)]
    ask = Ask(
        operation="decide",
        prompt=prompts("decide", language),
        text=quoted("facts", json.dumps(items, ensure_ascii=False, indent=1)),
        schema=schema_of(DecisionShape),
        most_tokens=200 + _TOKENS_EACH * len(facts),
    )
    return (yield from asked(ask, prompts("repair", language), _listed))


def _shown(number: int, statement: Statement, neighbours: Sequence[Neighbour]) -> dict[str, object]:
    return {
        "fact": number,
        "text": statement.text,
        "kind": statement.kind,
        "memories": [
            {
                "id": one.memory.id,
                "text": one.memory.text[:_LONGEST],
                "kind": one.memory.kind,
                "since": f"{one.memory.valid_from:%Y-%m-%d}",
                "similarity": round(one.similarity, _DIGITS),
            }
            for one in neighbours[:NEAREST]
        ],
    }


def _listed(answer: Mapping[str, Any]) -> list[object]:
    decisions = answer.get("decisions")
    if not isinstance(decisions, list):
        raise ValueError("it has no list `decisions`")
    return cast("list[object]", decisions)


# Ask a model whether quotes say what facts say, for those where words and meaning leave it open (EXT-3).

_AROUND: Final = 300
_SUPPORTING_TOKENS_EACH: Final = 40


def supporting(candidates: Sequence[Candidate], prompts: Prompts, language: str) -> Thought[tuple[bool, ...]]:
    """Which of these facts are supported; what the model says nothing of is not."""
    if not candidates:
        return ()
    items = [{"fact": number, "text": one.statement.text, **_cited(one)} for number, one in enumerate(candidates)]
    ask = Ask(
        operation="support",
        prompt=prompts("support", language),
        text=quoted("facts", json.dumps(items, ensure_ascii=False, indent=1)),
        schema=schema_of(SupportShape),
        most_tokens=100 + _SUPPORTING_TOKENS_EACH * len(candidates),
    )
    answer, _ = yield from asked(ask, prompts("repair", language), _judged)
    judged, _ = read_items(StatedSupport, answer, "judgements")
    # Judged twice and differently counts as not supported.
    refused = {one.fact for one in judged if not one.supported}
    held = {one.fact for one in judged if one.supported} - refused
    return tuple(number in held for number in range(len(candidates)))


def _cited(candidate: Candidate) -> dict[str, str]:
    span, text = candidate.statement.span, candidate.turn.text
    return {
        "quote": text[span.start : span.end],
        "message": text[max(0, span.start - _AROUND) : span.end + _AROUND],
    }


def _judged(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(answer.get("judgements"), list):
        raise ValueError("it has no list `judgements`")
    return answer


# From a stretch of a conversation to decisions, without reaching out for anything (EXT-1 to EXT-6).
#
# A generator that asks for what it needs, and is sent it: answers of a model, similarities of texts, memories near a
# statement. So the whole of understanding can be read in one place and tried with nothing but lists.
#
# What the model read is proven by its quotes; what is left open by words and meaning is put to the model once more.
# What is proven is decided by the model where it may decide, each decision admitted by itself. Where it may not, or
# what it says is of no use, nothing is decided here: then the rules decide, when the statement is stored.

UNPROVEN: Final = "its words do not say it"
BY_RULES: Final = "decided by the rules: {}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Similar:
    """Asks for the calibrated similarity of each pair of texts; 0 where there is no embedder."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Near:
    """Asks for the memories near each statement, within reach of the turn it comes from, the nearest first."""

    candidates: tuple[Candidate, ...]


Need = Ask | Similar | Near


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A fact, and what becomes of it.

    Attributes:
        refusal: why it is kept out of memory, or empty.
        decision: None where the rules are to decide.
        note: why they are.
    """

    candidate: Candidate
    refusal: str = ""
    decision: Decision | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Understood:
    """What came of a stretch.

    Attributes:
        rejected: decisions of the model that could not be used, each with the reason.
    """

    extraction: Extraction
    facts: tuple[Judged, ...]
    rejected: tuple[str, ...]


def understanding(
    turns: Sequence[Turn],
    prompts: Prompts,
    language: str,
    *,
    given: Sequence[str],
    most_tokens: int,
    decides: bool | None = None,
    before: str = "",
    isolated: bool = False,
) -> Generator[Need, Any, Understood]:
    """Understand these turns.

    Args:
        given: what the agent was given, so that its saying it again teaches nothing: instructions, injected memories.
        before: what the conversation came to so far.
        isolated: an agent may touch only what it learned itself.
        decides: may a model decide what is known; None = one that says it can.

    Raises:
        ModelUnavailable, Unreadable: the turns could not be read at all.
    """
    found: Extraction = yield from extraction(turns, prompts, language, most_tokens, before)
    pasted = (piece for turn in turns if turn.role == "user" for piece in material(turn.text))
    foreign = (*given, prompts("extract", language).text, *pasted)
    judged = [Judged(candidate=one, refusal=reason) for one, reason in found.unfounded]
    own: list[Candidate] = []
    for one in found.candidates:
        refusal = not_own(one.quote, one.turn, foreign)
        if refusal:
            judged.append(Judged(candidate=one, refusal=refusal))
        else:
            own.append(one)
    proven, unproven = yield from _proven(turns, own, prompts, language)
    judged += [Judged(candidate=one, refusal=UNPROVEN) for one in unproven]
    if not proven:
        return Understood(extraction=found, facts=tuple(judged), rejected=())
    if not (found.by.decides if decides is None else decides):
        note = BY_RULES.format(f"{found.by.model} is not trusted with decisions")
        judged += [Judged(candidate=one, note=note) for one in proven]
        return Understood(extraction=found, facts=tuple(judged), rejected=())
    decided, rejected = yield from _decided(proven, prompts, language, isolated=isolated)
    return Understood(extraction=found, facts=(*judged, *decided), rejected=rejected)


def _proven(
    turns: Sequence[Turn], candidates: Sequence[Candidate], prompts: Prompts, language: str
) -> Generator[Need, Any, tuple[list[Candidate], list[Candidate]]]:
    """Those that their evidence supports, and the others."""
    if not candidates:
        return [], []
    spans = [_span(one) for one in candidates]
    pairs = tuple((one.statement.text, span) for one, span in zip(candidates, spans, strict=True))
    similarities = cast("tuple[float, ...]", (yield Similar(pairs=pairs)))
    verdicts: list[Verdict] = [
        proof(one.statement.text, span, _before(one.turn, turns), close)
        for one, span, close in zip(candidates, spans, similarities, strict=True)
    ]
    unsure = [one for one, verdict in zip(candidates, verdicts, strict=True) if verdict == "unsure"]
    try:
        backed = yield from supporting(unsure, prompts, language)
    except (ModelUnavailable, Unreadable):
        backed = (False,) * len(unsure)  # what nobody supports waits for a person
    held = {id(one) for one, yes in zip(unsure, backed, strict=True) if yes}
    held |= {id(one) for one, verdict in zip(candidates, verdicts, strict=True) if verdict == "proven"}
    return [one for one in candidates if id(one) in held], [one for one in candidates if id(one) not in held]


def _decided(
    candidates: Sequence[Candidate], prompts: Prompts, language: str, *, isolated: bool
) -> Generator[Need, Any, tuple[list[Judged], tuple[str, ...]]]:
    """What becomes of each, and what of the model's answer could not be used."""
    near = cast("tuple[Sequence[Neighbour], ...]", (yield Near(candidates=tuple(candidates))))
    facts = [(one.statement, shown) for one, shown in zip(candidates, near, strict=True)]
    asking: Thought[tuple[list[object], Completion | None]] = deciding(facts, prompts, language)
    try:
        raw, _ = yield from asking
    except (ModelUnavailable, Unreadable) as error:
        cause = "no model answered" if isinstance(error, ModelUnavailable) else "its answer was unreadable"
        note = BY_RULES.format(cause)
        return [Judged(candidate=one, note=note) for one in candidates], ()

    def supports(reworded: Statement) -> bool:
        """True where the words that the fact cites say the new words as well."""
        cited = [one for one in candidates if one.statement.span == reworded.span]
        return any(proof(reworded.text, _span(one), one.statement.text, 1.0) == "proven" for one in cited)

    last = max((one.turn for one in candidates), key=lambda turn: turn.at)
    stated = [Stated(statement=statement, shown=tuple(shown[:NEAREST])) for statement, shown in facts]
    admitted = admit(raw, stated, Place(scope=last.scope, at=last.at, isolated=isolated), supports)
    judged: list[Judged] = []
    for number, (one, shown) in enumerate(zip(candidates, near, strict=True)):
        decision = admitted.decisions.get(number)
        if decision is None:
            judged.append(Judged(candidate=one, note=BY_RULES.format("the model said nothing of use")))
        else:
            judged.append(Judged(candidate=one, decision=humble(decision, one.turn.trust, shown)))
    return judged, tuple(one.reason for one in admitted.rejected)


def humble(decision: Decision, trust: int, shown: Sequence[Neighbour]) -> Decision:
    """An agent's word never ends what the user said: there a person decides.

    Args:
        trust: of who says it.
        shown: what was near when it was decided.
    """
    match decision:
        case (
            Update(statement=statement, old_ids=ids, reason=reason)
            | Delete(statement=statement, old_ids=ids, reason=reason)
        ):
            of = {one.memory.id: one.memory.trust for one in shown}
            above = next((id_ for id_ in ids if of.get(id_, 0) > trust), None)
            if above is not None:
                why = f"{reason}; the user's own word stands against it"
                return Conflict(statement=statement, existing_id=above, reason=why)
            return decision
        case _:
            return decision


def _span(candidate: Candidate) -> str:
    span = candidate.statement.span
    return candidate.turn.text[span.start : span.end]


def _before(turn: Turn, turns: Sequence[Turn]) -> str:
    """The message before a turn, which its words may point back to, and the turn itself."""
    spoken = [one for one in turns if one.role != "tool"]
    place = next((number for number, one in enumerate(spoken) if one.id == turn.id), 0)
    return " ".join(citable(one) for one in spoken[max(place - 1, 0) : place + 1])


# What a model says a session came to, laid over what the rules say (EXT-1).
#
# The rules quote the user and count; a model writes better summaries and names better subjects. So its words take the
# place of theirs where it gave any, and everything that stands on quotes stays.

_MOST_CONCEPTS: Final = 5
_LONGEST_SUMMARY: Final = 1200
_MOST_ENTITIES: Final = 40


def overview(by_rules: Analysis, found: Extraction) -> Analysis:
    """The analysis of a session with the model's words in it."""
    implicit = (found.implicit,) if found.implicit else ()
    return replace(
        by_rules,
        summary=found.summary[:_LONGEST_SUMMARY] or by_rules.summary,
        concepts=tuple(clean_topics(found.concepts))[:_MOST_CONCEPTS] or by_rules.concepts,
        entities=_entities(by_rules.entities, found.entities),
        implicit_context=tuple(dict.fromkeys([*by_rules.implicit_context, *implicit])),
        points=() if found.summary else by_rules.points,
        made_by=f"{found.by.provider}/{found.by.model}",
    )


def _entities(counted: Sequence[Entity], named: Sequence[NamedEntity]) -> tuple[Entity, ...]:
    """Those that were counted, typed as the model says, then those that only the model saw."""
    types = {fold(one.name): _type(one.type) for one in named}
    known = {fold(one.name) for one in counted}
    more = (Entity(name=one.name, type=_type(one.type)) for one in named if fold(one.name) not in known)
    kept = [replace(one, type=types.get(fold(one.name), one.type)) for one in counted]
    return tuple({fold(one.name): one for one in [*kept, *more]}.values())[:_MOST_ENTITIES]


def _type(name: str) -> EntityType:
    plain = name.strip().lower()
    known: dict[str, EntityType] = {one: one for one in ENTITY_TYPES}
    return known.get(plain, "other")
