"""Questions that are still open: of the user those that nobody answered or decided since, of the agent its last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from filrouge import lazy_re as re
from filrouge.extraction import reading
from filrouge.extraction.summaries import Said, open_questions, tells_something
from filrouge.model.analysis import Quote
from filrouge.model.memory import Span
from filrouge.model.synthesis import Point
from filrouge.model.turn import TRUST_AGENT, Turn
from filrouge.threads.points import clipped, point_of, telling

MOST_QUESTIONS: Final = 5
_ANSWERED_BACK: Final = re.compile(r"[?¿]\s*$")


def still_open(
    turns: Sequence[Turn], sentences: Sequence[Said], decisions: Sequence[Point], former: Sequence[Point]
) -> tuple[Point, ...]:
    """The user's questions that nobody answered or decided, then what the agent asked last; the latest first."""
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


def _plainly_answered(sentences: Sequence[Said]) -> set[str]:
    """The prompts that only ask, and that a reply followed which tells something: an answer need not repeat a word."""
    found: set[str] = set()
    for turn in {one.turn.id: one.turn for one in sentences if one.speaker == "user"}.values():
        own = [one for one in sentences if one.turn is turn]
        behind = [one for one in sentences if one.place > own[-1].place]
        reply = [one for one in behind if one.speaker == "agent" and one.turn is behind[0].turn]
        only_asks = all(reading.QUESTION.search(one.sentence.plain) for one in own)
        if only_asks and any(tells_something(one) and len(one.text.split()) > 1 for one in reply):
            found.add(turn.id)
    return found


def _settles(decision: Point, question: Point) -> bool:
    """True where a decision was taken after a question and speaks of the same thing."""
    asked = telling(question.text)
    shared = asked & telling(decision.text)
    return decision.turn_id > question.turn_id and len(shared) >= max(1, min(2, len(asked)))


def _last_reply(sentences: Sequence[Said]) -> list[Said]:
    """The sentences of the agent behind the user's last words; none where it has not answered yet."""
    found: list[Said] = []
    for one in reversed(sentences):
        if one.speaker == "user":
            break
        if one.speaker == "agent" and (not found or one.turn is found[0].turn):
            found.append(one)
    return found[::-1]
