# ruff: noqa: E501 (a pattern is read best on one line)
"""Where the work stands, without a model: the sentences in which the user and the agent said so themselves (GARD-3).

What was decided and is still to be answered is the user's; what was done, what failed and what comes next is the
agent's, and its trust says so. Decisions add up from one synthesis to the next, until a later one takes them back; a
question stays until somebody answers or decides it; the state is that of the last piece of work. What a host, a tool or
a hook wrote is nobody's sentence. The host's own summary of a compacted conversation is read for the state alone, and
only where nothing else tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from filrouge import lazy_re as re
from filrouge.extraction import reading
from filrouge.extraction.heuristics import extract
from filrouge.extraction.summaries import Said, reports_work, said
from filrouge.extraction.vocabulary import content
from filrouge.model.memory import Memory, Span, Statement
from filrouge.model.synthesis import Point, Synthesis
from filrouge.model.turn import TRUST_AGENT, Turn
from filrouge.threads.points import point_in, point_of, same
from filrouge.threads.steps import Step, last_failure
from filrouge.threads.still_open import still_open

MOST_DECISIONS: Final = 8
MOST_FILES: Final = 12
#: Sentences of the agent's last report that are kept, besides what it says comes next.
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
    questions = still_open(stretch.turns, sentences, decisions, former.questions if former else ())
    mended = {one.place for one in sentences if one.speaker == "agent" and _WENT_WELL.search(one.sentence.plain)}
    state = _state(sentences) or (former.state if former else ()) or _told(sentences)
    return Standing(
        state=state,
        decisions=decisions,
        questions=questions if state or decisions else tuple(one for one in questions if one.trust > TRUST_AGENT),
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
        return not any(same(memory.text, point.text) for memory in cited)

    return replace(synthesis, decisions=tuple(filter(holds, synthesis.decisions)))


def apart(turns: Sequence[Turn], threads: Mapping[str, str]) -> dict[str | None, list[Turn]]:
    """The turns of a session by their thread, in order.

    A prompt that is in none yet is of none (None), and so is what follows it; whatever else is in none follows the turn
    before it.
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
    """What the user decided or corrected, the latest first; what was taken back since is gone."""
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


def _state(sentences: Sequence[Said]) -> tuple[Point, ...]:
    """The last piece of work that was asked for, what was reported of it, and what comes next."""
    requests = (one for one in reversed(sentences) if one.speaker == "user" and _asks_for_work(one))
    asked = next((one for one in requests if _says_what(one) and not _is_stated(one)), None)
    if asked is None:
        return ()
    behind = [one for one in sentences if one.speaker == "agent" and one.place > asked.place and _tells(one)]
    # A question that the user put in between was answered, and an answer reports no work.
    reported = [one for one in behind if reports_work(one.sentence.plain) and not _answers_a_question(one, sentences)]
    coming = [one for one in behind if _NEXT.search(one.sentence.plain)]
    done = [one for one in reported if one not in coming][-_REPORTS:]
    return tuple(map(point_of, [asked, *done, *coming[-1:]]))


def _asks_for_work(one: Said) -> bool:
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


def _says_what(one: Said) -> bool:
    """False for "one last check please": nobody could go on with that."""
    return len(set(content(one.text)) - _OF_ANYTHING) > 1


def _is_stated(one: Said) -> bool:
    """True where the sentence states something after all: "Deploy note: staging runs on Fly"."""
    own = one.sentence
    spans = [found.span for found in extract(one.turn, mined=False)]
    stated = sum(max(0, min(span.end, own.end) - max(span.start, own.start)) for span in spans)
    return stated > _MOSTLY * (own.end - own.start)


def _answers_a_question(one: Said, sentences: Sequence[Said]) -> bool:
    """True where the user's last words before it ask for no work."""
    before = [other for other in sentences if other.speaker == "user" and other.place < one.place]
    last = [other for other in before if other.place == before[-1].place] if before else []
    return bool(last) and not any(_asks_for_work(other) or _states(other) for other in last)


def _states(one: Said) -> bool:
    return reading.silent_mood(one.sentence.plain) is None


def _tells(one: Said) -> bool:
    return len(one.text.split()) >= 4 and not one.text.endswith((":", "?"))


def _told(sentences: Sequence[Said]) -> tuple[Point, ...]:
    """What the host's own summary says of work that was done or is to come, where nothing else tells."""
    told = [one for one in sentences if one.speaker == "told" and _tells(one)]
    return tuple(point_of(one) for one in told if _NEXT.search(one.sentence.plain) or reports_work(one.sentence.plain))[
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
    words = set(content(one.text))
    return len(words) > 2 and any(len(words & set(content(text))) >= _MOSTLY * len(words) for text in quoted)
