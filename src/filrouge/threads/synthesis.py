"""Syntheses by rules: where the work stands, in sentences of the user and the agent.

Decisions and open questions come from the user; work done, failures and next steps come from the agent, with an agent's
trust. Decisions accumulate from one synthesis to the next until a later one revokes them. A question stays until
someone answers or decides it. The state describes the last piece of work. Text written by a host, a tool or a hook is
never used as a sentence. The host's own summary of a compacted conversation is used for the state alone, and only if
nothing else is available.

Pure: no database, no file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import TRUST_AGENT, Turn, source_of_tool
from filrouge.core import lazy_re as re
from filrouge.extraction import reading
from filrouge.extraction.heuristics import extract
from filrouge.extraction.models import Quote
from filrouge.extraction.summaries import (
    SpokenSentence,
    distinctive_words,
    open_questions,
    reports_work,
    sentences_with_speaker,
)
from filrouge.extraction.vocabulary import content
from filrouge.memories.models import Memory, Span, Statement
from filrouge.threads.models import Point, Synthesis

# Points: the sentences of a synthesis, and when two of them are equivalent.

MAX_POINT_CHARS: Final = 240


def point_of(sentence: SpokenSentence) -> Point:
    """Return a sentence as a point."""
    return point_in(sentence.text, sentence.turn)


def point_in(text: str, turn: Turn, memory_id: str = "") -> Point:
    """Return words of a turn as a point, with the turn's trust."""
    return Point(text=clip(text), turn_id=turn.id, trust=turn.trust, memory_id=memory_id)


def is_same_statement(text: str, other_text: str) -> bool:
    """Return True if two texts are equal or have the same distinctive words."""
    words, other_words = distinctive_words(text), distinctive_words(other_text)
    return text == other_text or (bool(words) and words == other_words)


def clip(text: str) -> str:
    """Return the text on one line, cut at a word boundary."""
    line = " ".join(text.split()).lstrip("#*->• ")
    return line if len(line) <= MAX_POINT_CHARS else line[:MAX_POINT_CHARS].rpartition(" ")[0].rstrip(",;: ") + "…"


# Steps: what an agent did with its tools.

# ruff: noqa: E501 (a pattern is read best on one line)


_MAX_COMMAND_CHARS: Final = 160
_MAX_PATH_CHARS: Final = 240
_MAX_OUTPUT_CHARS: Final = 20_000
_PATH_FIELDS: Final = ("file_path", "notebook_path", "filePath", "path")
_COMMAND_FIELDS: Final = ("command", "cmd", "script")
_PATCHED_FILE: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
_REDIRECT_TARGET: Final = re.compile(
    r"(?<![0-9&>])>{1,2}\s*([\w./~-][\w./~-]*)|\btee (?:-a )?([\w./~-]+)|\bsed -i\S*(?: -\S+)* (?:'[^']*'|\"[^\"]*\"|\S+) ([\w./~-]+)"
)
#: Read-only commands: a non-zero exit means that nothing was found, not that the work failed.
_READ_ONLY_COMMANDS: Final = frozenset(
    "cat ls head tail grep rg find fd which stat wc test file sed awk less more tree pwd echo diff cd".split()
)
_EXIT_CODE: Final = re.compile(
    r"\b(?:exit(?:ed)?(?: with)?(?: status)?(?: code)?|exit_code\"?)[: ]+(\d+)", re.IGNORECASE
)
_ERROR_CLASS: Final = re.compile(r"^(?:[\w.]+\.)?([A-Z]\w{2,40}(?:Error|Exception))\b(?=:|$)", re.MULTILINE)
_FAILURE_COUNT: Final = re.compile(r"\b(\d{1,5}) (?:failed|failing|failures?|errors?)\b", re.IGNORECASE)
_FAILURE_SIGN: Final = re.compile(
    r"^Traceback \(most recent call last\)|^(?:error|fatal|panic)(?:\[\w+\])?: |^FAILED\b|^npm ERR!|: command not found$|^make(?:\[\d+\])?: \*\*\*|\bBUILD FAILED\b|^E\s{2,}\w",
    re.MULTILINE,
)


class Step(Struct, frozen=True, kw_only=True):
    """One tool call.

    A tool's output is not trusted, because anyone who wrote a file can plant text in it. So only three things are taken
    from a step: the paths that the agent wrote to, the command it ran, and a closed set of failure signs (an exit code,
    the class of an error, a count of failed tests). No other text of an output is used.

    Attributes:
        turn_id: id of the turn that holds it.
        written_paths: the paths it wrote to.
        command: the command on one line; empty for other tools.
        failure: signs of a failure (`exit code 1, ImportError`), `failed` if there are no specific signs; empty =
            success.
    """

    turn_id: str
    written_paths: tuple[str, ...] = ()
    command: str = ""
    failure: str = ""

    @property
    def command_head(self) -> str:
        """Return the command reduced to its first words that are not an option or a path, so that retries compare equal."""
        words = [word for word in self.command.split() if word[0] not in "-/.~$'\"" and "=" not in word]
        return " ".join(words[:3])


def step_of(turn_id: str, call: Mapping[str, Any]) -> Step:
    """Read a tool call as stored in an event: `{name, input, output, failed}`."""
    name, tool_input = str(call.get("name") or ""), call.get("input")
    source = source_of_tool(name)
    command = _first_field(tool_input, _COMMAND_FIELDS) if source == "command" else ""
    if source == "command" and isinstance(tool_input, str):
        command = tool_input
    path = _first_field(tool_input, _PATH_FIELDS) if source == "file_write" else ""
    written = dict.fromkeys([path] if path else [])
    written |= dict.fromkeys(_patched_files(tool_input) if source == "command" or name == "apply_patch" else [])
    written |= dict.fromkeys(match[1] or match[2] or match[3] for match in _REDIRECT_TARGET.finditer(command))
    failure = _failure(call, command)
    return Step(
        turn_id=turn_id,
        written_paths=() if failure else tuple(path for path in written if _is_path(path)),
        command=_one_line(command),
        failure=failure,
    )


def last_failure(
    turns: Sequence[Turn], steps: Mapping[str, Step], fixed_turns: Collection[int], former: Point | None
) -> Point | None:
    """Return the last command that failed and has not succeeded since, unless the agent reported a fix.

    Args:
        fixed_turns: indices of the turns in which the agent reported a fix.
        former: the open failure from before these turns.
    """
    failed = {former.text[1:].partition("`: ")[0]: former} if former else {}
    for index, turn in enumerate(turns):
        if index in fixed_turns:
            failed.clear()
        step = steps.get(turn.id)
        if step is None or not step.command:
            continue
        for command in [
            failed_command
            for failed_command in failed
            if Step(turn_id="", command=failed_command).command_head == step.command_head
        ]:
            del failed[command]
        if step.failure:
            failed[step.command] = Point(text=f"`{step.command}`: {step.failure}", turn_id=turn.id, trust=turn.trust)
    return next(reversed(failed.values()), None)


def _first_field(tool_input: object, names: tuple[str, ...]) -> str:
    fields = _as_mapping(tool_input)
    value = next((fields[name] for name in names if fields.get(name)), "")
    if isinstance(value, list):  # e.g. ["bash", "-lc", "pytest -q"]
        parts = [str(part) for part in cast("list[object]", value)]
        return parts[-1] if len(parts) > 1 and parts[-2].startswith("-") else " ".join(parts)
    return value if isinstance(value, str) else ""


def _patched_files(tool_input: object) -> list[str]:
    """Return the files of a patch, from any field of the input."""
    texts = [
        text for text in [tool_input, *_as_mapping(tool_input).values()] if isinstance(text, str) and "*** " in text
    ]
    return [(match[1] or match[2]).strip() for text in texts for match in _PATCHED_FILE.finditer(text)]


def _is_path(text: str) -> bool:
    return 0 < len(text) <= _MAX_PATH_CHARS and text.isprintable() and not text.startswith("/dev/")


def _failure(call: Mapping[str, Any], command: str) -> str:
    """Return the signs of a failure; empty if the step succeeded or was a read-only command."""
    if command and _program(command) in _READ_ONLY_COMMANDS:
        return ""
    output = _text_of(call.get("output"))[-_MAX_OUTPUT_CHARS:]
    code = _EXIT_CODE.search(output[:400])
    failed = (
        call.get("failed") is True or (code is not None and code[1] != "0") or output.startswith("<tool_use_error>")
    )
    if not failed and (not command or (code is not None and code[1] == "0")):
        return ""
    counted = next((match for match in _FAILURE_COUNT.finditer(output) if int(match[1])), None)
    if not failed and counted is None and not _FAILURE_SIGN.search(output) and not _ERROR_CLASS.search(output):
        return ""
    signs = [f"exit code {code[1]}"] if code and code[1] != "0" else []
    signs += [match[1] for match in _ERROR_CLASS.finditer(output)][-1:]
    signs += [counted[0].lower()] if counted else []
    return ", ".join(signs) or "failed"


def _program(command: str) -> str:
    """Return the last program of a command, which sets its exit code: `cd api && uv run pytest` gives `uv`."""
    last = re.split(r"&&|\|\||[;|]", command.strip())[-1].split()
    words = [word for word in last if "=" not in word]
    return words[0].rpartition("/")[2] if words else ""


def _text_of(value: object) -> str:
    if isinstance(value, str):
        return value
    fields = _as_mapping(value)
    return "\n".join(
        f"{name}: {field}" if isinstance(field, int) else str(field) for name, field in fields.items() if field
    )


def _as_mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _one_line(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _MAX_COMMAND_CHARS else line[:_MAX_COMMAND_CHARS].rpartition(" ")[0] + " …"


# Open questions: those of the user that were not answered or decided, and the last ones of the agent.

MAX_QUESTIONS: Final = 5
_ENDS_WITH_QUESTION: Final = re.compile(r"[?¿]\s*$")


def find_open_questions(
    turns: Sequence[Turn], sentences: Sequence[SpokenSentence], decisions: Sequence[Point], former: Sequence[Point]
) -> tuple[Point, ...]:
    """Return the agent's last questions, then the user's questions that were not answered or decided; latest first."""
    trust = {turn.id: turn.trust for turn in turns} | {point.turn_id: point.trust for point in former}
    former_questions = [
        Quote(text=point.text, turn_id=point.turn_id, span=Span(start=0, end=0))
        for point in former
        if point.trust > TRUST_AGENT
    ]
    user_questions = [
        Point(text=clip(quote.text), turn_id=quote.turn_id, trust=trust[quote.turn_id])
        for quote in open_questions(turns, former=former_questions)
    ]
    undecided = [point for point in user_questions if not any(_settles(decision, point) for decision in decisions)]
    reply = _last_reply(sentences)
    has_user_sentence = any(sentence.speaker == "user" for sentence in sentences)
    agent_questions = [
        point_of(sentence)
        for sentence in reply
        if _ENDS_WITH_QUESTION.search(sentence.text) and len(sentence.text.split()) > 3
    ]
    if not reply and not has_user_sentence:
        agent_questions = [point for point in former if point.trust <= TRUST_AGENT]
    return tuple([*agent_questions[-2:][::-1], *undecided[::-1]][:MAX_QUESTIONS])


def _settles(decision: Point, question: Point) -> bool:
    """Return True if a decision was taken after a question and is about the same subject."""
    question_words = distinctive_words(question.text)
    shared = question_words & distinctive_words(decision.text)
    return decision.turn_id > question.turn_id and len(shared) >= max(1, min(2, len(question_words)))


def _last_reply(sentences: Sequence[SpokenSentence]) -> list[SpokenSentence]:
    """Return the agent's sentences after the user's last turn; none if it has not answered yet."""
    found: list[SpokenSentence] = []
    for sentence in reversed(sentences):
        if sentence.speaker == "user":
            break
        if sentence.speaker == "agent" and (not found or sentence.turn is found[0].turn):
            found.append(sentence)
    return found[::-1]


# The state of the work: patterns and the rules that apply them.

# ruff: noqa: E501 (a pattern is read best on one line)


MAX_DECISIONS: Final = 8
MAX_FILES: Final = 12
#: Number of sentences kept of the agent's last report, besides the next step.
_MAX_REPORTS: Final = 2
_MIN_SHARE: Final = 0.7
_GENERIC_WORDS: Final = frozenset(
    "one last check look again more thing try now please go continue proceed next step same run encore dernier verifie"
    " regarde chose continue suite essaie etape meme lance otra ultima revisa mira sigue".split()
)
_NEXT_STEP: Final = re.compile(
    r"\b(?:next(?:,| step| up| is| i | we )|remaining|remains?|left to (?:do|be)|still (?:to (?:do|be)|needs?|missing|open)|to ?do\b|not (?:yet )?(?:done|finished|implemented|started)|half ?way|so far"
    r"|il (?:me |nous )?reste|reste a|prochaine? etape|ensuite|a faire|pas encore|manquent?|encore a|jusqu'ici"
    r"|queda(?:n)?|falta(?:n)?|siguiente paso|por hacer|todavia no)"
)
_REPORTS_SUCCESS: Final = re.compile(
    r"\b(?:all )?tests? (?:now |all )?pass|\bles tests passent|\b(?:is|are|now) (?:fixed|green|working)\b|\b(?:fixed|resolved|solved)\b|\b(?:corrigee?s?|repare|resolu)\b|\b(?:it|everything) works\b|\bca marche\b|\btout (?:passe|est vert)\b|\bya funciona\b|\bpasan\b"
)


class SynthesisInput(Struct, frozen=True, kw_only=True):
    """Input of a synthesis.

    Attributes:
        turns: turns of one session and one thread, in order.
        steps: what the tool turns did, by turn.
        memories: memories made from the turns, in any state, with their evidence.
        injected: texts that were injected from memory; if the agent repeats them, they say nothing about the work.
    """

    turns: Sequence[Turn]
    steps: Mapping[str, Step]
    memories: Sequence[Memory] = ()
    injected: Sequence[str] = ()


class WorkState(Struct, frozen=True, kw_only=True):
    """The state of the work as read from turns: the content of a `Synthesis`."""

    state: tuple[Point, ...] = ()
    decisions: tuple[Point, ...] = ()
    questions: tuple[Point, ...] = ()
    files: tuple[str, ...] = ()
    error: Point | None = None

    def __bool__(self) -> bool:
        """Return True if any field is set."""
        return bool(self.state or self.decisions or self.questions or self.files or self.error)


def build_work_state(work: SynthesisInput, former: Synthesis | None = None) -> WorkState:
    """Return the state of the work after these turns.

    Args:
        former: the state before them.
    """
    sentences = [sentence for sentence in sentences_with_speaker(work.turns) if not _is_quoted(sentence, work.injected)]
    decisions = _decisions(work, former.decisions if former else ())
    questions = find_open_questions(work.turns, sentences, decisions, former.questions if former else ())
    fixed_turns = {
        sentence.turn_index
        for sentence in sentences
        if sentence.speaker == "agent" and _REPORTS_SUCCESS.search(sentence.sentence.plain)
    }
    state = _state(sentences) or (former.state if former else ()) or _host_summary_points(sentences)
    return WorkState(
        state=state,
        decisions=decisions,
        questions=questions
        if state or decisions
        else tuple(question for question in questions if question.trust > TRUST_AGENT),
        files=_touched_files(work, former.files if former else ()),
        error=last_failure(work.turns, work.steps, fixed_turns, former.error if former else None),
    )


def drop_ended_decisions(synthesis: Synthesis, memories: Sequence[Memory]) -> Synthesis:
    """Return the synthesis without decisions that no longer hold: their memory was superseded or binned.

    Args:
        memories: memories with evidence in its turns, in any state.
    """
    ended_memories = [memory for memory in memories if memory.state != "live"]
    ended = {memory.id for memory in ended_memories}

    def holds(point: Point) -> bool:
        if point.memory_id:
            return point.memory_id not in ended
        cited = (memory for memory in ended_memories if any(cite.turn_id == point.turn_id for cite in memory.evidence))
        return not any(is_same_statement(memory.text, point.text) for memory in cited)

    return replace(synthesis, decisions=tuple(filter(holds, synthesis.decisions)))


def group_by_thread(turns: Sequence[Turn], threads: Mapping[str, str]) -> dict[str | None, list[Turn]]:
    """Group the turns of a session by thread, in order.

    A prompt that is in no thread yet belongs to None, and so do the turns that follow it. Any other turn without a
    thread follows the turn before it.
    """
    first = next((threads[turn.id] for turn in turns if turn.id in threads), None)
    found: dict[str | None, list[Turn]] = {}
    current = first
    for turn in turns:
        is_prompt = turn.role == "user" and not turn.skipped and not turn.scope.agent
        current = threads.get(turn.id, None if is_prompt else current)
        found.setdefault(current, []).append(turn)
    return found


def _decisions(work: SynthesisInput, former: Sequence[Point]) -> tuple[Point, ...]:
    """Return what the user decided or corrected, latest first, without what was revoked since."""
    decisions = list(reversed(former))
    for turn in work.turns:
        for statement in () if turn.skipped else extract(turn):
            if statement.corrects or statement.is_correction:
                decisions = [earlier for earlier in decisions if not _revokes(statement, earlier)]
            if statement.kind == "decision" or statement.is_correction:
                point = point_in(statement.text, turn, _memory_of(turn, statement.span, work.memories))
                decisions = [earlier for earlier in decisions if not is_same_statement(earlier.text, point.text)] + [
                    point
                ]
    ended_ids = {memory.id for memory in work.memories if memory.state != "live"}
    return tuple(earlier for earlier in reversed(decisions) if earlier.memory_id not in ended_ids)[:MAX_DECISIONS]


def _revokes(statement: Statement, point: Point) -> bool:
    """Return True if a statement revokes what a decision says."""
    words = frozenset(content(point.text))
    return any(set(content(old)) and set(content(old)) <= words for old in statement.corrects)


def _memory_of(turn: Turn, span: Span, memories: Sequence[Memory]) -> str:
    """Return the memory that was made from these words, or an empty string."""
    for memory in memories:
        for cited in memory.evidence:
            if cited.turn_id == turn.id and cited.span.start < span.end and span.start < cited.span.end:
                return memory.id
    return ""


def _state(sentences: Sequence[SpokenSentence]) -> tuple[Point, ...]:
    """Return the last piece of work that was requested, what was reported of it, and what comes next."""
    requests = (sentence for sentence in reversed(sentences) if sentence.speaker == "user" and _asks_for_work(sentence))
    request = next((sentence for sentence in requests if _has_content(sentence) and not _is_stated(sentence)), None)
    if request is None:
        return ()
    later = [
        sentence
        for sentence in sentences
        if sentence.speaker == "agent" and sentence.turn_index > request.turn_index and _is_informative(sentence)
    ]
    # Skip answers to questions that the user asked in between: an answer does not report work.
    reported = [
        sentence
        for sentence in later
        if reports_work(sentence.sentence.plain) and not _answers_a_question(sentence, sentences)
    ]
    next_steps = [sentence for sentence in later if _NEXT_STEP.search(sentence.sentence.plain)]
    done = [sentence for sentence in reported if sentence not in next_steps][-_MAX_REPORTS:]
    return tuple(map(point_of, [request, *done, *next_steps[-1:]]))


def _asks_for_work(sentence: SpokenSentence) -> bool:
    plain = sentence.sentence.plain
    return (
        (reading.is_request(plain) or _PLEASE.match(plain) is not None)
        and not reading.SMALLTALK.search(plain)
        and not (reading.QUESTION.search(plain) and not reading.is_imperative(plain) and not _CAN_YOU.search(plain))
        and len(plain.split()) >= 3
    )


_PLEASE: Final = re.compile(r"(?:please|s'il te plait|merci de|por favor),? \w")
_CAN_YOU: Final = re.compile(
    r"\b(?:can|could|would|will) (?:you|we)\b|\b(?:peux|pourrais|veux|pouvez|pourriez)-(?:tu|vous)\b|\btu (?:peux|pourrais)\b|\b(?:puedes|podrias)\b"
)


def _has_content(sentence: SpokenSentence) -> bool:
    """Return False for requests without content, e.g. "one last check please"."""
    return len(set(content(sentence.text)) - _GENERIC_WORDS) > 1


def _is_stated(sentence: SpokenSentence) -> bool:
    """Return True if most of the sentence is a statement, e.g. "Deploy note: staging runs on Fly"."""
    part = sentence.sentence
    spans = [statement.span for statement in extract(sentence.turn, with_claims=False)]
    stated = sum(max(0, min(span.end, part.end) - max(span.start, part.start)) for span in spans)
    return stated > _MIN_SHARE * (part.end - part.start)


def _answers_a_question(sentence: SpokenSentence, sentences: Sequence[SpokenSentence]) -> bool:
    """Return True if the user's last turn before this sentence neither requests work nor states anything."""
    before = [other for other in sentences if other.speaker == "user" and other.turn_index < sentence.turn_index]
    last = [other for other in before if other.turn_index == before[-1].turn_index] if before else []
    return bool(last) and not any(_asks_for_work(other) or _is_statement(other) for other in last)


def _is_statement(sentence: SpokenSentence) -> bool:
    return reading.silent_mood(sentence.sentence.plain) is None


def _is_informative(sentence: SpokenSentence) -> bool:
    return len(sentence.text.split()) >= 4 and not sentence.text.endswith((":", "?"))


def _host_summary_points(sentences: Sequence[SpokenSentence]) -> tuple[Point, ...]:
    """Return what the host's own summary says about work that is done or to come."""
    summary = [sentence for sentence in sentences if sentence.speaker == "told" and _is_informative(sentence)]
    return tuple(
        point_of(sentence)
        for sentence in summary
        if _NEXT_STEP.search(sentence.sentence.plain) or reports_work(sentence.sentence.plain)
    )[-_MAX_REPORTS:]


def _touched_files(work: SynthesisInput, former: Sequence[str]) -> tuple[str, ...]:
    """Return the paths that were written to, latest first."""
    wrote = [path for turn in work.turns if turn.id in work.steps for path in work.steps[turn.id].written_paths]
    return tuple(dict.fromkeys([*reversed(wrote), *former]))[:MAX_FILES]


def _is_quoted(sentence: SpokenSentence, injected: Iterable[str]) -> bool:
    """Return True for a sentence of the agent that repeats text injected from memory."""
    if sentence.speaker == "user" or not injected:
        return False
    words = set(content(sentence.text))
    return len(words) > 2 and any(len(words & set(content(text))) >= _MIN_SHARE * len(words) for text in injected)
