"""Whether a fact that a model read is proven by the words it cites (EXT-3).

Every number of the fact must stand in its span, or in what was said just before, which it may point back to. Then as
many of its content words as in what is typed by people: a model rewords, so a part may be missing where the fact means
the same as the span. Between the clear cases a model is asked. What is not proven is kept out of memory, visibly.

A fact is refused outright where its words are not the speaker's own: a text that the host wrote, that an agent is given
at its start or read in a file of instructions, that we injected, or that stands in our own prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from filrouge import lazy_re as re
from filrouge.model.turn import Turn
from filrouge.understand.evidence import locate
from filrouge.understand.heuristics import written_by_host
from filrouge.understand.words import STOP, canonical, fold, tokens

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
    said, known = _words(span), _words(before)
    if not _numbers(fact) <= _numbers(span) | _numbers(before):
        return "refuted"
    wanted = _words(fact)
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


def _words(text: str) -> frozenset[str]:
    return frozenset(canonical(word) for word in tokens(fold(text)) if word not in STOP and not word.isdigit())


def _numbers(text: str) -> frozenset[str]:
    return frozenset(_NUMBER.findall(text))
