"""What goes in front of a model: at the start of a session, and before a prompt.

At the start: the standing rules, then what is known of the user and the project. Before a prompt: what is relevant,
where it is more probable than not that anything about the prompt is known at all. A rule passes like everything else;
being a rule never breaks the silence. Nothing relevant means no text at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from filrouge.inject.budget import fit
from filrouge.inject.render import Line, fresh_nonce, render
from filrouge.model.memory import LEAST_TO_INJECT, Memory
from filrouge.model.recall import Hit, Ranking, RecallItem
from filrouge.model.when import Language, ago, long_date

MOST_AT_START = 8
SHORTEST_PROMPT = 20
#: Of the threshold that a whole block must pass, the share that each of its items must.
SHARE_OF_THRESHOLD = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A rendered block with what went into it and what did not."""

    text: str
    nonce: str
    items: tuple[RecallItem, ...]

    @property
    def injected(self) -> int:
        """How many items are in the block."""
        return sum(item.injected for item in self.items)

    @property
    def tokens(self) -> int:
        """ceil(characters / 4), the usual estimate."""
        return -(-len(self.text) // 4)


@dataclass(frozen=True, kw_only=True, slots=True)
class Manner:
    """How to render: the settings that shape a block."""

    language: Language
    budget: int
    now: datetime
    dated: bool = False
    """Show dates instead of ages: for a text that is read some other day."""


def at_start(rules: Sequence[Memory], known: Sequence[Memory], manner: Manner, nonce: str = "") -> Block:
    """The block of a session's start."""
    entries = [(m, _line(m, "rules", manner), None) for m in rules]
    entries += [(m, _line(m, "facts", manner), None) for m in known[:MOST_AT_START]]
    return _block(entries, [], manner, nonce)


def before_prompt(ranking: Ranking, manner: Manner, *, min_relevance: float, most: int) -> Block:
    """The block before a prompt, or an empty one.

    Args:
        min_relevance: how probable it must be that anything about the prompt is known. Then what is probable enough
            by itself goes in: a share of it, since one of several may be what was meant.
    """
    is_known = ranking.known >= min_relevance
    least = min_relevance * SHARE_OF_THRESHOLD
    relevant = [hit for hit in ranking.hits if hit.relevance >= least and _is_sure(hit)]
    relevant.sort(key=lambda hit: (-round(hit.relevance, 6), -hit.score))
    rules = [hit for hit in relevant if _kind(hit) == "rule"] if is_known else []
    memories = [hit for hit in relevant if _kind(hit) != "rule"][:most] if is_known else []
    shown = [*rules[:most], *memories]
    left = [(hit, _why_not(hit, relevant, is_known=is_known)) for hit in ranking.hits if hit not in shown]
    entries = [(_memory(h), _line(_memory(h), "rules" if h in rules else "memories", manner), h) for h in shown]
    return _block(entries, left, manner)


def _why_not(hit: Hit, relevant: Sequence[Hit], *, is_known: bool) -> str:
    if not is_known:
        return "nothing is known of this"
    if hit in relevant:
        return "beyond the limit"
    return "below the threshold" if _is_sure(hit) else "not sure enough"


def _is_sure(hit: Hit) -> bool:
    """True for a memory that is believed well enough to be said unasked."""
    return isinstance(hit.item, Memory) and hit.item.confidence >= LEAST_TO_INJECT


def _block(
    entries: Sequence[tuple[Memory, Line, Hit | None]],
    left: Sequence[tuple[Hit, str]],
    manner: Manner,
    nonce: str = "",
) -> Block:
    taken, _ = fit([line for _, line, _ in entries], manner.budget, manner.language)
    inside = {id(line) for line in taken}
    nonce = nonce or fresh_nonce()
    items = [
        RecallItem(
            id=memory.id,
            kind=memory.kind,
            injected=id(line) in inside,
            reason="injected" if id(line) in inside else "over the budget",
            scores=hit.explain() if hit else {},
        )
        for memory, line, hit in entries
    ]
    items += [
        RecallItem(id=hit.id, kind=_kind(hit), injected=False, reason=why, scores=hit.explain()) for hit, why in left
    ]
    return Block(text=render(taken, manner.language, nonce), nonce=nonce if taken else "", items=tuple(items))


def _line(memory: Memory, section: str, manner: Manner) -> Line:
    said = memory.last_mention or memory.created_at
    return Line(
        section=section,
        age=long_date(said, manner.language) if manner.dated else ago(said, manner.now, manner.language),
        source=memory.scope.channel,
        text=memory.text or f"{memory.key}: {memory.value}",
        verified=memory.trust >= 2,
    )


def _memory(hit: Hit) -> Memory:
    if not isinstance(hit.item, Memory):
        raise TypeError("only memories are injected")
    return hit.item


def _kind(hit: Hit) -> str:
    return hit.item.kind if isinstance(hit.item, Memory) else "turn"
