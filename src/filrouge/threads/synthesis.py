# ruff: noqa: E501 (a pattern is read best on one line)
"""Where the work stands, without a model: the sentences in which the user and the agent said so themselves (GARD-3).

What was decided and is still to be answered is the user's; what was done, what failed and what comes next is the
agent's, and its trust says so. Decisions add up from one synthesis to the next, until a later one takes them back; a
question stays until somebody answers or decides it; the state is that of the last piece of work. What a host, a tool or
a hook wrote is nobody's sentence. The host's own summary of a compacted conversation is read for the state alone, and
only where nothing else tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from filrouge.model.analysis import Quote
from filrouge.model.memory import Memory, Span, Statement
from filrouge.model.synthesis import Point, Synthesis
from filrouge.model.turn import TRUST_AGENT, Turn
from filrouge.threads.steps import Step, last_failure
from filrouge.understand import moods
from filrouge.understand.heuristics import extract
from filrouge.understand.plain_words import PLAIN_WORDS
from filrouge.understand.questions import open_questions
from filrouge.understand.said import Said, said
from filrouge.understand.summaries import reports_work
from filrouge.understand.words import content

MOST_DECISIONS: Final = 8
MOST_QUESTIONS: Final = 5
MOST_FILES: Final = 12
LONGEST: Final = 240
#: Sentences of the agent's last report that are kept, besides what it says comes next.
_REPORTS: Final = 2
_NEXT: Final = re.compile(
    r"\b(?:next(?:,| step| up| is| i | we )|remaining|remains?|left to (?:do|be)|still (?:to (?:do|be)|needs?|missing|open)|to ?do\b|not (?:yet )?(?:done|finished|implemented|started)|half ?way|so far"
    r"|il (?:me |nous )?reste|reste a|prochaine? etape|ensuite|a faire|pas encore|manquent?|encore a|jusqu'ici"
    r"|queda(?:n)?|falta(?:n)?|siguiente paso|por hacer|todavia no)"
)
_WENT_WELL: Final = re.compile(
    r"\b(?:all )?tests? (?:now |all )?pass|\bles tests passent|\b(?:is|are|now) (?:fixed|green|working)\b|\b(?:fixed|resolved|solved)\b|\b(?:corrigee?s?|repare|resolu)\b|\b(?:it|everything) works\b|\bca marche\b|\btout (?:passe|est vert)\b|\bya funciona\b|\bpasan\b"
)
_ANSWERED_BACK: Final = re.compile(r"[?¿]\s*$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """What a synthesis is made of.

    Attributes:
        turns: of one session and one thread, in their order.
        steps: what those of tools did, by turn.
        memories: what became of the turns, live or not, with their evidence.
        quoted: texts that were put in front of the agent from memory; repeated by it they say nothing of the work.
    """

    turns: Sequence[Turn]
    steps: Mapping[str, Step]
    memories: Sequence[Memory] = ()
    quoted: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Where the work stands: the part of a `Synthesis` that is read from turns."""

    state: tuple[Point, ...] = ()
    decisions: tuple[Point, ...] = ()
    questions: tuple[Point, ...] = ()
    files: tuple[str, ...] = ()
    error: Point | None = None

    def __bool__(self) -> bool:
        """True where there is anything to say."""
        return bool(self.state or self.decisions or self.questions or self.files or self.error)


def standing_of(stretch: Stretch, former: Synthesis | None = None) -> Standing:
    """Where the work stands after these turns.

    Args:
        former: where it stood before them.
    """
    sentences = [one for one in said(stretch.turns) if not _is_quoted(one, stretch.quoted)]
    decisions = _decisions(stretch, former.decisions if former else ())
    questions = _questions(stretch.turns, sentences, decisions, former.questions if former else ())
    mended = {one.place for one in sentences if one.speaker == "agent" and _WENT_WELL.search(one.sentence.plain)}
    state = _state(sentences) or (former.state if former else ()) or _told(sentences)
    return Standing(
        state=state,
        decisions=decisions,
        questions=questions,
        files=_files(stretch, former.files if former else ()),
        error=last_failure(stretch.turns, stretch.steps, mended, former.error if former else None),
    )


def today(synthesis: Synthesis, memories: Sequence[Memory]) -> Synthesis:
    """The synthesis without the decisions that no longer hold: their memory was superseded, or put into the bin.

    Args:
        memories: those that rest on its turns, live or not.
    """
    gone = [memory for memory in memories if memory.state != "live"]
    ended = {memory.id for memory in gone}

    def holds(point: Point) -> bool:
        if point.memory_id:
            return point.memory_id not in ended
        cited = (one for one in gone if any(cite.turn_id == point.turn_id for cite in one.evidence))
        return not any(_same(memory.text, point.text) for memory in cited)

    return replace(synthesis, decisions=tuple(filter(holds, synthesis.decisions)))


def apart(turns: Sequence[Turn], threads: Mapping[str, str]) -> dict[str | None, list[Turn]]:
    """The turns of a session by their thread, in order; one that is in none yet follows the one before it."""
    first = next((threads[turn.id] for turn in turns if turn.id in threads), None)
    found: dict[str | None, list[Turn]] = {}
    current = first
    for turn in turns:
        current = threads.get(turn.id, current)
        found.setdefault(current, []).append(turn)
    return found


def _decisions(stretch: Stretch, former: Sequence[Point]) -> tuple[Point, ...]:
    """What the user decided or corrected, the latest first; what was taken back since is gone."""
    found = list(reversed(former))
    for turn in stretch.turns:
        for statement in () if turn.skipped else extract(turn):
            if statement.corrects or statement.is_correction:
                found = [one for one in found if not _takes_back(statement, one)]
            if statement.kind == "decision" or statement.is_correction:
                point = _point(statement.text, turn, _memory_of(turn, statement.span, stretch.memories))
                found = [one for one in found if not _same(one.text, point.text)] + [point]
    gone = {memory.id for memory in stretch.memories if memory.state != "live"}
    return tuple(one for one in reversed(found) if one.memory_id not in gone)[:MOST_DECISIONS]


def _takes_back(statement: Statement, point: Point) -> bool:
    """True where a statement says that what a decision names no longer holds."""
    words = frozenset(content(point.text))
    return any(set(content(old)) and set(content(old)) <= words for old in statement.corrects)


def _memory_of(turn: Turn, span: Span, memories: Sequence[Memory]) -> str:
    """The memory that the words became."""
    for memory in memories:
        for cited in memory.evidence:
            if cited.turn_id == turn.id and cited.span.start < span.end and span.start < cited.span.end:
                return memory.id
    return ""


def _questions(
    turns: Sequence[Turn], sentences: Sequence[Said], decisions: Sequence[Point], former: Sequence[Point]
) -> tuple[Point, ...]:
    """The user's questions that nobody answered or decided, then what the agent asked last; the latest first."""
    trust = {turn.id: turn.trust for turn in turns} | {one.turn_id: one.trust for one in former}
    asked = [
        Quote(text=one.text, turn_id=one.turn_id, span=Span(start=0, end=0))
        for one in former
        if one.trust > TRUST_AGENT
    ]
    left = open_questions(turns, former=asked)
    own = [Point(text=_clipped(one.text), turn_id=one.turn_id, trust=trust[one.turn_id]) for one in left]
    undecided = [one for one in own if not any(_settles(decision, one) for decision in decisions)]
    last = _last_reply(sentences)
    users = any(one.speaker == "user" for one in sentences)
    raised = [_of(one) for one in last if _ANSWERED_BACK.search(one.text) and len(one.text.split()) > 3]
    if not last and not users:
        raised = [one for one in former if one.trust <= TRUST_AGENT]
    return tuple([*raised[-2:][::-1], *undecided[::-1]][:MOST_QUESTIONS])


def _settles(decision: Point, question: Point) -> bool:
    """True where a decision was taken after a question and speaks of the same thing."""
    telling = _telling(question.text)
    return decision.turn_id > question.turn_id and len(telling & _telling(decision.text)) >= max(
        1, min(2, len(telling))
    )


def _last_reply(sentences: Sequence[Said]) -> list[Said]:
    """The sentences of the agent behind the user's last words; none where it has not answered yet."""
    found: list[Said] = []
    for one in reversed(sentences):
        if one.speaker == "user":
            break
        if one.speaker == "agent" and (not found or one.turn is found[0].turn):
            found.append(one)
    return found[::-1]


def _state(sentences: Sequence[Said]) -> tuple[Point, ...]:
    """The last piece of work that was asked for, what was reported of it, and what comes next."""
    asked = next((one for one in reversed(sentences) if one.speaker == "user" and _asks_for_work(one)), None)
    if asked is None:
        return ()
    behind = [one for one in sentences if one.speaker == "agent" and one.place > asked.place and _tells(one)]
    # A question that the user put in between was answered, and an answer reports no work.
    reported = [one for one in behind if reports_work(one.sentence.plain) and not _answers_a_question(one, sentences)]
    coming = [one for one in behind if _NEXT.search(one.sentence.plain)]
    done = [one for one in reported if one not in coming][-_REPORTS:]
    return tuple(map(_of, [asked, *done, *coming[-1:]]))


def _asks_for_work(one: Said) -> bool:
    plain = one.sentence.plain
    return (
        moods.is_request(plain)
        and not moods.SMALLTALK.search(plain)
        and not (moods.QUESTION.search(plain) and not moods.is_imperative(plain) and not _CAN_YOU.search(plain))
        and len(plain.split()) >= 3
    )


_CAN_YOU: Final = re.compile(
    r"\b(?:can|could|would|will) (?:you|we)\b|\b(?:peux|pourrais|veux|pouvez|pourriez)-(?:tu|vous)\b|\btu (?:peux|pourrais)\b|\b(?:puedes|podrias)\b"
)


def _answers_a_question(one: Said, sentences: Sequence[Said]) -> bool:
    """True where the user's last words before it ask for no work."""
    before = [other for other in sentences if other.speaker == "user" and other.place < one.place]
    last = [other for other in before if other.place == before[-1].place] if before else []
    return bool(last) and not any(_asks_for_work(other) or _states(other) for other in last)


def _states(one: Said) -> bool:
    return moods.silent_mood(one.sentence.plain) is None


def _tells(one: Said) -> bool:
    return len(one.text.split()) >= 4 and not one.text.endswith((":", "?"))


def _told(sentences: Sequence[Said]) -> tuple[Point, ...]:
    """What the host's own summary says of work that was done or is to come, where nothing else tells."""
    told = [one for one in sentences if one.speaker == "told" and _tells(one)]
    return tuple(_of(one) for one in told if _NEXT.search(one.sentence.plain) or reports_work(one.sentence.plain))[
        -_REPORTS:
    ]


def _files(stretch: Stretch, former: Sequence[str]) -> tuple[str, ...]:
    """The paths that were written to, the latest first."""
    wrote = [path for turn in stretch.turns if turn.id in stretch.steps for path in stretch.steps[turn.id].wrote]
    return tuple(dict.fromkeys([*reversed(wrote), *former]))[:MOST_FILES]


def _is_quoted(one: Said, quoted: Iterable[str]) -> bool:
    """True for a sentence of the agent that repeats what it was given from memory."""
    if one.speaker == "user" or not quoted:
        return False
    words = _telling(one.text)
    return len(words) > 2 and any(len(words & _telling(text)) >= 0.8 * len(words) for text in quoted)


def _of(one: Said) -> Point:
    return _point(one.text, one.turn)


def _point(text: str, turn: Turn, memory_id: str = "") -> Point:
    return Point(text=_clipped(text), turn_id=turn.id, trust=turn.trust, memory_id=memory_id)


def _same(one: str, other: str) -> bool:
    first, second = _telling(one), _telling(other)
    return one == other or (bool(first) and first == second)


def _telling(text: str) -> frozenset[str]:
    return frozenset(word for word in content(text) if word not in PLAIN_WORDS)


def _clipped(text: str) -> str:
    """On one line, cut in front of a word."""
    line = " ".join(text.split()).lstrip("#*->• ")
    return line if len(line) <= LONGEST else line[:LONGEST].rpartition(" ")[0].rstrip(",;: ") + "…"
