"""The budget: which of the offered pieces go into a block, and why each of the others does not.

Pieces refused by their source stay out. Before a prompt nothing is injected unless at least one piece can trigger a
block (`context.rendering`). Then: no duplicates, no section above its limit, rules and reminders first, then what was
found for the prompt, then supporting pieces in the room that is left. Within each step the choice with the highest
total value that fits is taken. Every piece gets a verdict, so the recall log and an explanation show the same list.

Pure: no database, no file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.context.models import SECTIONS, Candidate, Section
from filrouge.context.rendering import (
    MOST_THREADS,
    SECTIONS_SPEC,
    Line,
    Occasion,
    Size,
    assemble,
    empty_size,
    fresh_nonce,
    max_items,
    size_of,
)
from filrouge.core.clock import Language, format_long_date, relative_date
from filrouge.search.models import RecallItem

# Packing.
#
# An item costs the size of its line, and a section with any items costs its heading. The choice with the highest total
# value is found by dynamic programming over the remaining characters (a knapsack with a set-up cost per group). Hosts
# limit bytes as well. If the choice by characters does not fit in bytes, it is repeated over bytes. If that does not
# fit in characters, it is repeated over the tighter limit for each item, which always fits but may leave some room.

#: Minimum value of any item, so that free room is used.
_LEAST_VALUE: Final = 1e-6
EMPTY: Final = Size(characters=0, bytes=0)

Better = NDArray[np.bool_]
"""For each room that may be used: is it better so?"""
_Stage = tuple[int, Better, list[tuple[int, int, Better]]]
#: Type `_Stage`: a group's heading size, where opening it is better, and each item with its size and where it is taken.


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """One item to pack.

    Attributes:
        group: its section; the heading is paid once.
        value: finite, not negative.
    """

    group: str
    size: Size
    value: float


def fit(offers: Sequence[Offer], headings: Mapping[str, Size], room: Size) -> frozenset[int]:
    """The indexes of the offers that are taken.

    Args:
        headings: the size of each group's heading; a missing one costs nothing.
        room: for items and headings together.
    """
    bag = _Knapsack(offers=offers, headings=headings, room=room)
    everything = frozenset(range(len(offers)))
    if bag.holds(everything):
        return everything
    by_characters = bag.best(lambda size: size.characters, room.characters)
    if bag.holds(by_characters):
        return by_characters
    by_bytes = bag.best(lambda size: size.bytes, room.bytes)
    if bag.holds(by_bytes):
        return by_bytes
    both = bag.best(lambda size: max(size.characters, -(-size.bytes * room.characters // room.bytes)), room.characters)
    return max(both, bag.greedy(), key=bag.worth)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Knapsack:
    """The offers, the headings and the available room."""

    offers: Sequence[Offer]
    headings: Mapping[str, Size]
    room: Size

    def worth(self, taken: frozenset[int]) -> float:
        """The total value of a choice."""
        return sum(self.offers[n].value + _LEAST_VALUE for n in taken)

    def holds(self, taken: frozenset[int]) -> bool:
        """True if a choice fits in characters and bytes."""
        groups = {self.offers[n].group for n in taken}
        sizes = [self.offers[n].size for n in taken] + [self.headings.get(group, EMPTY) for group in groups]
        return (
            sum(size.characters for size in sizes) <= self.room.characters
            and sum(size.bytes for size in sizes) <= self.room.bytes
        )

    def greedy(self) -> frozenset[int]:
        """A choice by value per character, while there is room."""
        taken = frozenset[int]()
        for n in sorted(range(len(self.offers)), key=lambda n: -self.offers[n].value / self.offers[n].size.characters):
            if self.holds(taken | {n}):
                taken |= {n}
        return taken

    def best(self, weigh: Callable[[Size], int], room: int) -> frozenset[int]:
        """The choice with the highest value whose items and headings fit; the first one on ties."""
        if room < 0:
            return frozenset()
        best = np.zeros(room + 1)  # best value by available room
        stages = list[_Stage]()
        for group in dict.fromkeys(one.group for one in self.offers):
            heading, steps = weigh(self.headings.get(group, EMPTY)), list[tuple[int, int, Better]]()
            within = _shifted(best, heading)
            for n in (n for n, one in enumerate(self.offers) if one.group == group):
                weight = weigh(self.offers[n].size)
                taking = _shifted(within, weight) + self.offers[n].value + _LEAST_VALUE
                steps.append((n, weight, taking > within))
                within = np.maximum(within, taking)
            stages.append((heading, within > best, steps))
            best = np.maximum(best, within)
        return _backtrack(stages, room)


def _shifted(values: NDArray[np.float64], weight: int) -> NDArray[np.float64]:
    """The values shifted by `weight` units of room; minus infinity where there is not enough room."""
    shifted = np.full_like(values, -np.inf)
    if weight < len(values):
        shifted[weight:] = values[: len(values) - weight]
    return shifted


def _backtrack(stages: Sequence[_Stage], room: int) -> frozenset[int]:
    """The items of the best choice, found by walking back through the stages."""
    taken, left = set[int](), room
    for heading, opened, steps in reversed(stages):
        if not opened[left]:
            continue
        for place, weight, better in reversed(steps):
            if better[left]:
                taken.add(place)
                left -= weight
        left -= heading
    return frozenset(taken)


SHORTEST_PROMPT: Final = 20
"""Characters of a prompt from which on memory is asked."""
MOST_BYTES: Final = 9_400
"""Of a block: below what the hook's line may have, which is below what hosts cut at."""
INJECTED: Final = "injected"
_PACKED_FIRST: Final = ("rules", "reminders")
#: Kinds of which several pieces with the same id may be shown.
_MULTI_PIECE_KINDS: Final = ("synthesis", "thread")


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderOptions:
    """Selection and rendering options for a block.

    Attributes:
        budget: maximum characters of the whole block.
        least: the value at which a supporting piece can trigger a block by itself.
        limits: maximum items of a section, where they differ from `context.rendering`.
        dated: show dates instead of ages, for a text that is read on another day.
    """

    occasion: Occasion
    language: Language
    budget: int
    now: datetime
    least: float = 0.5
    limits: Mapping[Section, int] = field(default_factory=dict[Section, int])
    dated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The decision about a piece; `reason` is `injected`, or why it was left out."""

    piece: Candidate
    reason: str

    @property
    def injected(self) -> bool:
        """True if the piece is in the block."""
        return self.reason == INJECTED

    def logged(self) -> RecallItem:
        """The form stored in the recall log."""
        piece = self.piece
        about = {"section": piece.section, "value": round(piece.value, 4)}
        return RecallItem(
            id=piece.id, kind=piece.kind, injected=self.injected, reason=self.reason, scores=about | dict(piece.scores)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A rendered block with the verdicts on all pieces; the nonce is empty if the text is."""

    text: str = ""
    nonce: str = ""
    verdicts: tuple[Verdict, ...] = ()

    @property
    def items(self) -> tuple[RecallItem, ...]:
        """The logged form of each piece that has an id."""
        return tuple(verdict.logged() for verdict in self.verdicts if verdict.piece.id)

    @property
    def memories(self) -> int:
        """The number of injected items that are not notes."""
        return sum(item.injected and item.kind != "note" for item in self.items)

    @property
    def notes(self) -> int:
        """The number of injected notes."""
        return sum(item.injected and item.kind == "note" for item in self.items)

    @property
    def tokens(self) -> int:
        """The estimated number of tokens: ceil(characters / 4)."""
        return -(-len(self.text) // 4)


def build_block(pieces: Sequence[Candidate], manner: RenderOptions, nonce: str = "") -> Block:
    """Choose pieces, render the block, and record why each piece was chosen or not.

    Args:
        pieces: within a section, in display order.
        nonce: a new one is made if empty.
    """
    reasons = {n: piece.refused for n, piece in enumerate(pieces) if piece.refused}
    ordered = sorted((n for n in range(len(pieces)) if n not in reasons), key=lambda n: _place(pieces[n]))
    if manner.occasion == "prompt" and not any(_triggers(pieces[n], manner.least) for n in ordered):
        reasons |= dict.fromkeys(ordered, "supporting item, and nothing relevant to support")
        ordered = []
    # Pieces found for the prompt are checked first, so that a supporting piece never displaces one as a duplicate.
    by_turn = sorted(ordered, key=lambda n: _packing_step(pieces[n], manner))
    ordered = sorted(_deduplicated(pieces, by_turn, manner, reasons), key=lambda n: (_place(pieces[n]), n))
    lines = {n: _line(pieces[n], manner).render() for n in ordered}
    taken = _packed(pieces, lines, manner)
    reasons |= {n: INJECTED if n in taken else "over the budget" for n in ordered}
    text_nonce = nonce or fresh_nonce()
    text = assemble([(pieces[n].section, lines[n]) for n in ordered if n in taken], manner.language, text_nonce)
    verdicts = [Verdict(piece=piece, reason=reasons[n]) for n, piece in enumerate(pieces)]
    verdicts.sort(key=lambda verdict: (not verdict.injected, _place(verdict.piece)))
    return Block(text=text, nonce=text_nonce if text else "", verdicts=tuple(verdicts))


def _place(piece: Candidate) -> int:
    return SECTIONS.index(piece.section)


def _triggers(piece: Candidate, least: float) -> bool:
    """True if the piece can trigger a block."""
    return not SECTIONS_SPEC[piece.section].goes_along or piece.value >= least


def _deduplicated(
    pieces: Sequence[Candidate], ordered: Iterable[int], manner: RenderOptions, reasons: dict[int, str]
) -> list[int]:
    """The pieces that are neither duplicates nor beyond a limit; the reasons of the others are recorded."""
    kept, kinds, texts, threads = list[int](), dict[str, str](), set[str](), set[str]()
    shown = set[str]()  # turns that chosen conversation pieces show
    counts = Counter[Section]()
    for n in ordered:
        piece = pieces[n]
        plain = " ".join(piece.text.split()).casefold()
        told = kinds.get(piece.id) if piece.id else None
        told_whole = told is not None and not (told == piece.kind and piece.kind in _MULTI_PIECE_KINDS)
        if told_whole or plain in texts or (_is_talk(piece) and shown.issuperset(piece.turns)):
            reasons[n] = "duplicate"
            continue
        limit = manner.limits.get(piece.section, max_items(piece.section, manner.occasion))
        new_thread = {piece.id} - threads if piece.kind == "thread" else frozenset[str]()
        if counts[piece.section] >= limit or (new_thread and len(threads) >= MOST_THREADS):
            reasons[n] = "section is full"
            continue
        counts[piece.section] += 1
        kinds.setdefault(piece.id, piece.kind)
        texts.add(plain)
        threads |= new_thread
        shown.update(piece.turns if _is_talk(piece) else ())
        kept.append(n)
    return kept


def _is_talk(piece: Candidate) -> bool:
    return piece.kind == "turn" and bool(piece.turns)


def _packed(pieces: Sequence[Candidate], lines: Mapping[int, str], manner: RenderOptions) -> frozenset[int]:
    """The pieces that fit. Each step of the packing order is packed for the highest value in the remaining room."""
    headings = {section: size_of(shape.heading[manner.language]) for section, shape in SECTIONS_SPEC.items()}
    outside = empty_size(manner.language)
    room = Size(characters=manner.budget - outside.characters, bytes=MOST_BYTES - outside.bytes)
    taken = frozenset[int]()
    for turn in range(3):
        places = [n for n in lines if _packing_step(pieces[n], manner) == turn]
        offers = [Offer(group=pieces[n].section, size=size_of(lines[n]), value=pieces[n].value) for n in places]
        chosen = {places[m] for m in fit(offers, headings, room)}
        taken |= chosen
        for used in [size_of(lines[n]) for n in chosen] + [
            headings[one] for one in {pieces[n].section for n in chosen}
        ]:
            room = Size(characters=room.characters - used.characters, bytes=room.bytes - used.bytes)
    return taken


def _packing_step(piece: Candidate, manner: RenderOptions) -> int:
    """The packing order: rules and reminders first, supporting pieces of a prompt last, everything else between."""
    if piece.section in _PACKED_FIRST:
        return 0
    return 2 if manner.occasion == "prompt" and SECTIONS_SPEC[piece.section].goes_along else 1


def _line(piece: Candidate, manner: RenderOptions) -> Line:
    return Line(
        section=piece.section,
        age=_age(piece.said, manner),
        source=piece.source,
        text=piece.text,
        verified=piece.verified,
        conversation=piece.kind == "turn",
        path=piece.id if piece.section == "notes" else "",
    )


def _age(said: datetime | None, manner: RenderOptions) -> str:
    if said is None:
        return ""
    return format_long_date(said, manner.language) if manner.dated else relative_date(said, manner.now, manner.language)
