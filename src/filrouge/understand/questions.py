# ruff: noqa: E501 (a pattern is read best on one line)
"""Questions: what the user asked, and nobody answered yet.

A question is open until a reply says something about it: shares one of its telling words, or comes right after a
question that has none. A reply that does not know, or only asks back, answers nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from filrouge import lazy_re as re
from filrouge.model.analysis import Quote
from filrouge.model.memory import Span
from filrouge.model.turn import Turn
from filrouge.understand import moods
from filrouge.understand.plain_words import PLAIN_WORDS
from filrouge.understand.said import Said, said
from filrouge.understand.words import content

MOST: Final = 10
_SHORTEST_WORDS: Final = 3
_ASKS: Final = re.compile(r"[?¿]")
_WORK: Final = re.compile(
    r"\b(?:(?:can|could|would|will) (?:you|we)|(?:peux|pourrais|veux|peut|pouvez|pourriez)-(?:tu|vous|on)|tu (?:peux|pourrais)|puedes|podrias) (?!you\b|tell|dire|decirme)"
)
_CHAT: Final = re.compile(r"\b(?:sleep|slept|dormi|dormido|how are you|ca va|comment vas|que tal)\b")
_UNKNOWING: Final = re.compile(
    r"\b(?:i (?:don't|do not|can't|cannot) (?:know|tell|say|find|determine)|(?:not|i'm not) (?:sure|certain)|no idea|unclear|unknown"
    r"|let me (?:check|look|see|find)|i'll (?:check|look|find out|get back)|need(?:s)? more (?:information|context|details)"
    r"|je ne sais pas|je ne (?:trouve|peux) pas|aucune idee|pas (?:sur|certaine?)|je (?:vais )?(?:verifie|verifier|regarde|regarder|cherche)"
    r"|no (?:lo )?se\b|no estoy segur[oa])"
)


def open_questions(turns: Sequence[Turn], *, former: Sequence[Quote] = ()) -> tuple[Quote, ...]:
    """The questions that nobody answered in these turns, in their order.

    Args:
        former: those that were open before these turns.
    """
    sentences = said(turns)
    found = [quote for quote in former if not _answered(quote.text, -1, sentences)]
    for place, one in enumerate(sentences):
        if one.speaker == "user" and _is_question(one) and not _answered(one.text, place, sentences):
            span = Span(start=one.sentence.start, end=one.sentence.end)
            found.append(Quote(text=one.text, turn_id=one.turn.id, span=span))
    once = {_telling(quote.text) or frozenset({quote.text}): quote for quote in found}
    return tuple(once.values())[-MOST:]


def tells_something(one: Said) -> bool:
    """True for a sentence of the agent that neither asks back nor says that it does not know."""
    return one.speaker == "agent" and not _ASKS.search(one.text) and not _UNKNOWING.search(one.sentence.plain)


def _is_question(one: Said) -> bool:
    """True for a question that wants an answer rather than work."""
    plain = one.sentence.plain
    if len(plain.split()) < _SHORTEST_WORDS or _WORK.search(plain) or moods.is_imperative(plain):
        return False
    return moods.QUESTION.search(plain) is not None and not moods.SMALLTALK.search(plain) and not _CHAT.search(plain)


def _answered(question: str, place: int, sentences: Sequence[Said]) -> bool:
    """True if a reply says something about a question that stands at this place; -1 = before all of them."""
    telling = _telling(question)
    for one in sentences[place + 1 :]:
        if tells_something(one) and (not telling or telling & frozenset(content(one.text))):
            return True
    return False


def _telling(text: str) -> frozenset[str]:
    return frozenset(word for word in content(text) if word not in PLAIN_WORDS)
