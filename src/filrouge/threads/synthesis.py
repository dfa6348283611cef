"""Syntheses by rules: where the work stands, in sentences of the user and the agent (GARD-3).

Decisions and open questions come from the user; work done, failures and next steps come from the agent, with an agent's
trust. Decisions accumulate from one synthesis to the next until a later one revokes them. A question stays until
someone answers or decides it. The state describes the last piece of work. Text written by a host, a tool or a hook is
never used as a sentence. The host's own summary of a compacted conversation is used for the state alone, and only if
nothing else is available.

Pure: no database, no file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

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
    tells_something,
)
from filrouge.extraction.vocabulary import content
from filrouge.memories.models import Memory, Span, Statement
from filrouge.threads.models import Point, Synthesis

# Points: the sentences of a synthesis, and when two of them are equivalent.

MAX_POINT_CHARS: Final = 240


def point_of(one: SpokenSentence) -> Point:
    """Return a sentence as a point."""
    return point_in(one.text, one.turn)


def point_in(text: str, turn: Turn, memory_id: str = "") -> Point:
    """Return words of a turn as a point, with the turn's trust."""
    return Point(text=clipped(text), turn_id=turn.id, trust=turn.trust, memory_id=memory_id)


def same(one: str, other: str) -> bool:
    """Return True if two texts are equal or have the same distinctive words."""
    first, second = distinctive_words(one), distinctive_words(other)
    return one == other or (bool(first) and first == second)


def clipped(text: str) -> str:
    """Return the text on one line, cut at a word boundary."""
    line = " ".join(text.split()).lstrip("#*->• ")
    return line if len(line) <= MAX_POINT_CHARS else line[:MAX_POINT_CHARS].rpartition(" ")[0].rstrip(",;: ") + "…"


# Steps: what an agent did with its tools.

# ruff: noqa: E501 (a pattern is read best on one line)


_LONGEST_COMMAND: Final = 160
_LONGEST_PATH: Final = 240
_READ_OF_OUTPUT: Final = 20_000
_PATHS: Final = ("file_path", "notebook_path", "filePath", "path")
_COMMANDS: Final = ("command", "cmd", "script")
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
_REDIRECTED: Final = re.compile(
    r"(?<![0-9&>])>{1,2}\s*([\w./~-][\w./~-]*)|\btee (?:-a )?([\w./~-]+)|\bsed -i\S*(?: -\S+)* (?:'[^']*'|\"[^\"]*\"|\S+) ([\w./~-]+)"
)
#: Read-only commands: a non-zero exit means that nothing was found, not that the work failed.
_LOOKING: Final = frozenset(
    "cat ls head tail grep rg find fd which stat wc test file sed awk less more tree pwd echo diff cd".split()
)
_EXIT: Final = re.compile(r"\b(?:exit(?:ed)?(?: with)?(?: status)?(?: code)?|exit_code\"?)[: ]+(\d+)", re.IGNORECASE)
_CLASS: Final = re.compile(r"^(?:[\w.]+\.)?([A-Z]\w{2,40}(?:Error|Exception))\b(?=:|$)", re.MULTILINE)
_FAILED: Final = re.compile(r"\b(\d{1,5}) (?:failed|failing|failures?|errors?)\b", re.IGNORECASE)
_SIGNS: Final = re.compile(
    r"^Traceback \(most recent call last\)|^(?:error|fatal|panic)(?:\[\w+\])?: |^FAILED\b|^npm ERR!|: command not found$|^make(?:\[\d+\])?: \*\*\*|\bBUILD FAILED\b|^E\s{2,}\w",
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One tool call.

    A tool's output is not trusted, because anyone who wrote a file can plant text in it. So only three things are taken
    from a step: the paths that the agent wrote to, the command it ran, and a closed set of failure signs (an exit code,
    the class of an error, a count of failed tests). No other text of an output is used.

    Attributes:
        turn_id: id of the turn that holds it.
        wrote: the paths it wrote to.
        command: the command on one line; empty for other tools.
        failure: signs of a failure (`exit code 1, ImportError`), `failed` if there are no specific signs; empty =
            success.
    """

    turn_id: str
    wrote: tuple[str, ...] = ()
    command: str = ""
    failure: str = ""

    @property
    def what(self) -> str:
        """Return the command reduced to its first words that are no option or path, so that retries compare equal."""
        words = [word for word in self.command.split() if word[0] not in "-/.~$'\"" and "=" not in word]
        return " ".join(words[:3])


def step_of(turn_id: str, call: Mapping[str, Any]) -> Step:
    """Read a tool call as stored in an event: `{name, input, output, failed}`."""
    name, given = str(call.get("name") or ""), call.get("input")
    source = source_of_tool(name)
    command = _first(given, _COMMANDS) if source == "command" else ""
    if source == "command" and isinstance(given, str):
        command = given
    path = _first(given, _PATHS) if source == "file_write" else ""
    wrote = dict.fromkeys([path] if path else [])
    wrote |= dict.fromkeys(_patched(given) if source == "command" or name == "apply_patch" else [])
    wrote |= dict.fromkeys(found[1] or found[2] or found[3] for found in _REDIRECTED.finditer(command))
    failure = _failure(call, command)
    return Step(
        turn_id=turn_id,
        wrote=() if failure else tuple(one for one in wrote if _is_path(one)),
        command=_one_line(command),
        failure=failure,
    )


def last_failure(
    turns: Sequence[Turn], steps: Mapping[str, Step], mended: Collection[int], former: Point | None
) -> Point | None:
    """Return the last command that failed and has not succeeded since, unless the agent reported a fix.

    Args:
        mended: indices of the turns in which the agent reported a fix.
        former: the open failure from before these turns.
    """
    failed = {former.text[1:].partition("`: ")[0]: former} if former else {}
    for place, turn in enumerate(turns):
        if place in mended:
            failed.clear()
        step = steps.get(turn.id)
        if step is None or not step.command:
            continue
        for command in [one for one in failed if Step(turn_id="", command=one).what == step.what]:
            del failed[command]
        if step.failure:
            failed[step.command] = Point(text=f"`{step.command}`: {step.failure}", turn_id=turn.id, trust=turn.trust)
    return next(reversed(failed.values()), None)


def _first(given: object, names: tuple[str, ...]) -> str:
    held = _held(given)
    value = next((held[name] for name in names if held.get(name)), "")
    if isinstance(value, list):  # e.g. ["bash", "-lc", "pytest -q"]
        parts = [str(part) for part in cast("list[object]", value)]
        return parts[-1] if len(parts) > 1 and parts[-2].startswith("-") else " ".join(parts)
    return value if isinstance(value, str) else ""


def _patched(given: object) -> list[str]:
    """Return the files of a patch, from any field of the input."""
    texts = [one for one in [given, *_held(given).values()] if isinstance(one, str) and "*** " in one]
    return [(found[1] or found[2]).strip() for text in texts for found in _PATCHED.finditer(text)]


def _is_path(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_PATH and text.isprintable() and not text.startswith("/dev/")


def _failure(call: Mapping[str, Any], command: str) -> str:
    """Return the signs of a failure; empty if the step succeeded or was a read-only command."""
    if command and _program(command) in _LOOKING:
        return ""
    output = _text(call.get("output"))[-_READ_OF_OUTPUT:]
    code = _EXIT.search(output[:400])
    failed = (
        call.get("failed") is True or (code is not None and code[1] != "0") or output.startswith("<tool_use_error>")
    )
    if not failed and (not command or (code is not None and code[1] == "0")):
        return ""
    counted = next((found for found in _FAILED.finditer(output) if int(found[1])), None)
    if not failed and counted is None and not _SIGNS.search(output) and not _CLASS.search(output):
        return ""
    signs = [f"exit code {code[1]}"] if code and code[1] != "0" else []
    signs += [found[1] for found in _CLASS.finditer(output)][-1:]
    signs += [counted[0].lower()] if counted else []
    return ", ".join(signs) or "failed"


def _program(command: str) -> str:
    """Return the last program of a command, which sets its exit code: `cd api && uv run pytest` gives `uv`."""
    last = re.split(r"&&|\|\||[;|]", command.strip())[-1].split()
    words = [word for word in last if "=" not in word]
    return words[0].rpartition("/")[2] if words else ""


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    held = _held(value)
    return "\n".join(f"{name}: {one}" if isinstance(one, int) else str(one) for name, one in held.items() if one)


def _held(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _one_line(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _LONGEST_COMMAND else line[:_LONGEST_COMMAND].rpartition(" ")[0] + " …"


# Open questions: those of the user that were not answered or decided, and the last ones of the agent.

MOST_QUESTIONS: Final = 5
_ANSWERED_BACK: Final = re.compile(r"[?¿]\s*$")


def still_open(
    turns: Sequence[Turn], sentences: Sequence[SpokenSentence], decisions: Sequence[Point], former: Sequence[Point]
) -> tuple[Point, ...]:
    """Return the agent's last questions, then the user's questions that were not answered or decided; latest first."""
    trust = {turn.id: turn.trust for turn in turns} | {one.turn_id: one.trust for one in former}
    asked = [
        Quote(text=one.text, turn_id=one.turn_id, span=Span(start=0, end=0))
        for one in former
        if one.trust > TRUST_AGENT
    ]
    answered = _plainly_answered(sentences)
    left = [one for one in open_questions(turns, former=asked) if one.turn_id not in answered]
    own = [Point(text=clipped(one.text), turn_id=one.turn_id, trust=trust[one.turn_id]) for one in left]
    undecided = [one for one in own if not any(_settles(decision, one) for decision in decisions)]
    last = _last_reply(sentences)
    users = any(one.speaker == "user" for one in sentences)
    raised = [point_of(one) for one in last if _ANSWERED_BACK.search(one.text) and len(one.text.split()) > 3]
    if not last and not users:
        raised = [one for one in former if one.trust <= TRUST_AGENT]
    return tuple([*raised[-2:][::-1], *undecided[::-1]][:MOST_QUESTIONS])


def _plainly_answered(sentences: Sequence[SpokenSentence]) -> set[str]:
    """Return the user turns that only ask and got an informative reply; an answer need not repeat a word."""
    found: set[str] = set()
    for turn in {one.turn.id: one.turn for one in sentences if one.speaker == "user"}.values():
        own = [one for one in sentences if one.turn is turn]
        behind = [one for one in sentences if one.turn_index > own[-1].turn_index]
        reply = [one for one in behind if one.speaker == "agent" and one.turn is behind[0].turn]
        only_asks = all(reading.QUESTION.search(one.sentence.plain) for one in own)
        if only_asks and any(tells_something(one) and len(one.text.split()) > 1 for one in reply):
            found.add(turn.id)
    return found


def _settles(decision: Point, question: Point) -> bool:
    """Return True if a decision was taken after a question and is about the same subject."""
    asked = distinctive_words(question.text)
    shared = asked & distinctive_words(decision.text)
    return decision.turn_id > question.turn_id and len(shared) >= max(1, min(2, len(asked)))


def _last_reply(sentences: Sequence[SpokenSentence]) -> list[SpokenSentence]:
    """Return the agent's sentences after the user's last turn; none if it has not answered yet."""
    found: list[SpokenSentence] = []
    for one in reversed(sentences):
        if one.speaker == "user":
            break
        if one.speaker == "agent" and (not found or one.turn is found[0].turn):
            found.append(one)
    return found[::-1]


# The state of the work: patterns and the rules that apply them.

# ruff: noqa: E501 (a pattern is read best on one line)


MOST_DECISIONS: Final = 8
MOST_FILES: Final = 12
#: Number of sentences kept of the agent's last report, besides the next step.
_REPORTS: Final = 2
_MOSTLY: Final = 0.7
_OF_ANYTHING: Final = frozenset(
    "one last check look again more thing try now please go continue proceed next step same run encore dernier verifie"
    " regarde chose continue suite essaie etape meme lance otra ultima revisa mira sigue".split()
)
_NEXT: Final = re.compile(
    r"\b(?:next(?:,| step| up| is| i | we )|remaining|remains?|left to (?:do|be)|still (?:to (?:do|be)|needs?|missing|open)|to ?do\b|not (?:yet )?(?:done|finished|implemented|started)|half ?way|so far"
    r"|il (?:me |nous )?reste|reste a|prochaine? etape|ensuite|a faire|pas encore|manquent?|encore a|jusqu'ici"
    r"|queda(?:n)?|falta(?:n)?|siguiente paso|por hacer|todavia no)"
)
_WENT_WELL: Final = re.compile(
    r"\b(?:all )?tests? (?:now |all )?pass|\bles tests passent|\b(?:is|are|now) (?:fixed|green|working)\b|\b(?:fixed|resolved|solved)\b|\b(?:corrigee?s?|repare|resolu)\b|\b(?:it|everything) works\b|\bca marche\b|\btout (?:passe|est vert)\b|\bya funciona\b|\bpasan\b"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Input of a synthesis.

    Attributes:
        turns: turns of one session and one thread, in order.
        steps: what the tool turns did, by turn.
        memories: memories made from the turns, in any state, with their evidence.
        quoted: texts that were injected from memory; if the agent repeats them, they say nothing about the work.
    """

    turns: Sequence[Turn]
    steps: Mapping[str, Step]
    memories: Sequence[Memory] = ()
    quoted: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """The state of the work as read from turns: the content of a `Synthesis`."""

    state: tuple[Point, ...] = ()
    decisions: tuple[Point, ...] = ()
    questions: tuple[Point, ...] = ()
    files: tuple[str, ...] = ()
    error: Point | None = None

    def __bool__(self) -> bool:
        """Return True if any field is set."""
        return bool(self.state or self.decisions or self.questions or self.files or self.error)


def standing_of(stretch: Stretch, former: Synthesis | None = None) -> Standing:
    """Return the state of the work after these turns.

    Args:
        former: the state before them.
    """
    sentences = [one for one in sentences_with_speaker(stretch.turns) if not _is_quoted(one, stretch.quoted)]
    decisions = _decisions(stretch, former.decisions if former else ())
    questions = still_open(stretch.turns, sentences, decisions, former.questions if former else ())
    mended = {one.turn_index for one in sentences if one.speaker == "agent" and _WENT_WELL.search(one.sentence.plain)}
    state = _state(sentences) or (former.state if former else ()) or _told(sentences)
    return Standing(
        state=state,
        decisions=decisions,
        questions=questions if state or decisions else tuple(one for one in questions if one.trust > TRUST_AGENT),
        files=_files(stretch, former.files if former else ()),
        error=last_failure(stretch.turns, stretch.steps, mended, former.error if former else None),
    )


def today(synthesis: Synthesis, memories: Sequence[Memory]) -> Synthesis:
    """Return the synthesis without decisions that no longer hold: their memory was superseded or binned.

    Args:
        memories: memories with evidence in its turns, in any state.
    """
    gone = [memory for memory in memories if memory.state != "live"]
    ended = {memory.id for memory in gone}

    def holds(point: Point) -> bool:
        if point.memory_id:
            return point.memory_id not in ended
        cited = (one for one in gone if any(cite.turn_id == point.turn_id for cite in one.evidence))
        return not any(same(memory.text, point.text) for memory in cited)

    return replace(synthesis, decisions=tuple(filter(holds, synthesis.decisions)))


def apart(turns: Sequence[Turn], threads: Mapping[str, str]) -> dict[str | None, list[Turn]]:
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


def _decisions(stretch: Stretch, former: Sequence[Point]) -> tuple[Point, ...]:
    """Return what the user decided or corrected, latest first, without what was revoked since."""
    found = list(reversed(former))
    for turn in stretch.turns:
        for statement in () if turn.skipped else extract(turn):
            if statement.corrects or statement.is_correction:
                found = [one for one in found if not _takes_back(statement, one)]
            if statement.kind == "decision" or statement.is_correction:
                point = point_in(statement.text, turn, _memory_of(turn, statement.span, stretch.memories))
                found = [one for one in found if not same(one.text, point.text)] + [point]
    gone = {memory.id for memory in stretch.memories if memory.state != "live"}
    return tuple(one for one in reversed(found) if one.memory_id not in gone)[:MOST_DECISIONS]


def _takes_back(statement: Statement, point: Point) -> bool:
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
    requests = (one for one in reversed(sentences) if one.speaker == "user" and _asks_for_work(one))
    asked = next((one for one in requests if _says_what(one) and not _is_stated(one)), None)
    if asked is None:
        return ()
    behind = [one for one in sentences if one.speaker == "agent" and one.turn_index > asked.turn_index and _tells(one)]
    # Skip answers to questions that the user asked in between: an answer does not report work.
    reported = [one for one in behind if reports_work(one.sentence.plain) and not _answers_a_question(one, sentences)]
    coming = [one for one in behind if _NEXT.search(one.sentence.plain)]
    done = [one for one in reported if one not in coming][-_REPORTS:]
    return tuple(map(point_of, [asked, *done, *coming[-1:]]))


def _asks_for_work(one: SpokenSentence) -> bool:
    plain = one.sentence.plain
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


def _says_what(one: SpokenSentence) -> bool:
    """Return False for requests without content, e.g. "one last check please"."""
    return len(set(content(one.text)) - _OF_ANYTHING) > 1


def _is_stated(one: SpokenSentence) -> bool:
    """Return True if most of the sentence is a statement, e.g. "Deploy note: staging runs on Fly"."""
    own = one.sentence
    spans = [found.span for found in extract(one.turn, with_claims=False)]
    stated = sum(max(0, min(span.end, own.end) - max(span.start, own.start)) for span in spans)
    return stated > _MOSTLY * (own.end - own.start)


def _answers_a_question(one: SpokenSentence, sentences: Sequence[SpokenSentence]) -> bool:
    """Return True if the user's last turn before this sentence neither requests work nor states anything."""
    before = [other for other in sentences if other.speaker == "user" and other.turn_index < one.turn_index]
    last = [other for other in before if other.turn_index == before[-1].turn_index] if before else []
    return bool(last) and not any(_asks_for_work(other) or _states(other) for other in last)


def _states(one: SpokenSentence) -> bool:
    return reading.silent_mood(one.sentence.plain) is None


def _tells(one: SpokenSentence) -> bool:
    return len(one.text.split()) >= 4 and not one.text.endswith((":", "?"))


def _told(sentences: Sequence[SpokenSentence]) -> tuple[Point, ...]:
    """Return what the host's own summary says about work that is done or to come."""
    told = [one for one in sentences if one.speaker == "told" and _tells(one)]
    return tuple(point_of(one) for one in told if _NEXT.search(one.sentence.plain) or reports_work(one.sentence.plain))[
        -_REPORTS:
    ]


def _files(stretch: Stretch, former: Sequence[str]) -> tuple[str, ...]:
    """Return the paths that were written to, latest first."""
    wrote = [path for turn in stretch.turns if turn.id in stretch.steps for path in stretch.steps[turn.id].wrote]
    return tuple(dict.fromkeys([*reversed(wrote), *former]))[:MOST_FILES]


def _is_quoted(one: SpokenSentence, quoted: Iterable[str]) -> bool:
    """Return True for a sentence of the agent that repeats text injected from memory."""
    if one.speaker == "user" or not quoted:
        return False
    words = set(content(one.text))
    return len(words) > 2 and any(len(words & set(content(text))) >= _MOSTLY * len(words) for text in quoted)
