"""The plan: which of the pieces that were offered go in front of a model, and why each of the others does not.

What its source refused stays out. Before a prompt nothing goes in unless something breaks the silence
(`context.rendering`). Then: nothing twice, no section above its limit, rules and reminders first, then what was found
for the prompt, and what only goes along in the room that is left; of each what is worth most within the budget. Every
piece has its verdict, so the log of a recall and an explanation are the same list.

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

from filrouge.context.models import SECTIONS, Piece, Section
from filrouge.context.rendering import (
    MOST_THREADS,
    SHAPES,
    Line,
    Occasion,
    Size,
    assembled,
    frame,
    fresh_nonce,
    most,
    size_of,
)
from filrouge.core.clock import Language, ago, long_date
from filrouge.search.models import RecallItem

# The budget: which items fit into a block, so that together they are worth most.
#
# Items cost the room of their line, and a section that has any costs its heading. Among all choices that fit, one of
# the highest total value is found by dynamic programming over the characters that are left (a knapsack with a set-up
# cost for each group). Hosts limit bytes as well: a choice that the characters allow and the bytes do not is made
# again over bytes, and where neither alone settles it, over the tighter of both for each item, which is safe but may
# leave a little room.
#
# Pure: no database, no file.

#: What any item is worth at the least: room that is free is used.
_LEAST_VALUE: Final = 1e-6
NOTHING: Final = Size(characters=0, bytes=0)

Better = NDArray[np.bool_]
"""For each room that may be used: is it better so?"""
_Stage = tuple[int, Better, list[tuple[int, int, Better]]]
#: One group: its heading's weight, where it is better to open it, and each item with its weight and where it is taken.


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """One item that wants in.

    Attributes:
        group: its section, which costs a heading once.
        value: finite and not negative.
    """

    group: str
    size: Size
    value: float


def fit(offers: Sequence[Offer], headings: Mapping[str, Size], room: Size) -> frozenset[int]:
    """The places of the offers that are taken.

    Args:
        headings: what a group costs; one that is missing costs nothing.
        room: for the items and their headings together.
    """
    bag = _Bag(offers=offers, headings=headings, room=room)
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
class _Bag:
    """What is to be packed, and how much goes in."""

    offers: Sequence[Offer]
    headings: Mapping[str, Size]
    room: Size

    def worth(self, taken: frozenset[int]) -> float:
        """What a choice is worth."""
        return sum(self.offers[n].value + _LEAST_VALUE for n in taken)

    def holds(self, taken: frozenset[int]) -> bool:
        """True if a choice fits."""
        groups = {self.offers[n].group for n in taken}
        sizes = [self.offers[n].size for n in taken] + [self.headings.get(group, NOTHING) for group in groups]
        return (
            sum(size.characters for size in sizes) <= self.room.characters
            and sum(size.bytes for size in sizes) <= self.room.bytes
        )

    def greedy(self) -> frozenset[int]:
        """By value for its room, as long as there is some."""
        taken = frozenset[int]()
        for n in sorted(range(len(self.offers)), key=lambda n: -self.offers[n].value / self.offers[n].size.characters):
            if self.holds(taken | {n}):
                taken |= {n}
        return taken

    def best(self, weigh: Callable[[Size], int], room: int) -> frozenset[int]:
        """The choice of the highest value whose weights fit, items and headings together; the first of equals."""
        if room < 0:
            return frozenset()
        best = np.zeros(room + 1)  # by how much room may be used
        stages = list[_Stage]()
        for group in dict.fromkeys(one.group for one in self.offers):
            heading, steps = weigh(self.headings.get(group, NOTHING)), list[tuple[int, int, Better]]()
            within = _later(best, heading)
            for n in (n for n, one in enumerate(self.offers) if one.group == group):
                weight = weigh(self.offers[n].size)
                taking = _later(within, weight) + self.offers[n].value + _LEAST_VALUE
                steps.append((n, weight, taking > within))
                within = np.maximum(within, taking)
            stages.append((heading, within > best, steps))
            best = np.maximum(best, within)
        return _retraced(stages, room)


def _later(values: NDArray[np.float64], weight: int) -> NDArray[np.float64]:
    """The values with that much less room; none where there was not as much."""
    shifted = np.full_like(values, -np.inf)
    if weight < len(values):
        shifted[weight:] = values[: len(values) - weight]
    return shifted


def _retraced(stages: Sequence[_Stage], room: int) -> frozenset[int]:
    """What was taken on the way to the best, found by walking back."""
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
_FIRST: Final = ("rules", "reminders")
#: What may be shown in several pieces of one id.
_IN_PARTS: Final = ("synthesis", "thread")


@dataclass(frozen=True, kw_only=True, slots=True)
class Manner:
    """How to choose and write: the settings that shape a block.

    Attributes:
        budget: characters of the whole block.
        least: how probable it must be that a piece helps which only goes along, for it to break the silence.
        limits: items of a section at the most, where they differ from `context.rendering`.
        dated: show dates instead of ages, for a text that is read some other day.
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
    """What became of a piece; `reason` is `injected`, or why it is not."""

    piece: Piece
    reason: str

    @property
    def injected(self) -> bool:
        """True if it is in the block."""
        return self.reason == INJECTED

    def logged(self) -> RecallItem:
        """The form that the log keeps."""
        piece = self.piece
        about = {"section": piece.section, "value": round(piece.value, 4)}
        return RecallItem(
            id=piece.id, kind=piece.kind, injected=self.injected, reason=self.reason, scores=about | dict(piece.scores)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A rendered block with what went into it and what did not; without text there is no nonce."""

    text: str = ""
    nonce: str = ""
    verdicts: tuple[Verdict, ...] = ()

    @property
    def items(self) -> tuple[RecallItem, ...]:
        """What the log keeps of each piece; a word that stands for nothing is none."""
        return tuple(verdict.logged() for verdict in self.verdicts if verdict.piece.id)

    @property
    def memories(self) -> int:
        """How many items are in the block that are no notes."""
        return sum(item.injected and item.kind != "note" for item in self.items)

    @property
    def notes(self) -> int:
        """How many notes are in the block."""
        return sum(item.injected and item.kind == "note" for item in self.items)

    @property
    def tokens(self) -> int:
        """ceil(characters / 4), the usual estimate."""
        return -(-len(self.text) // 4)


def planned(pieces: Sequence[Piece], manner: Manner, nonce: str = "") -> Block:
    """Choose, write, and say why.

    Args:
        pieces: within a section in the order in which they are to stand.
        nonce: a fresh one unless given.
    """
    reasons = {n: piece.refused for n, piece in enumerate(pieces) if piece.refused}
    ordered = sorted((n for n in range(len(pieces)) if n not in reasons), key=lambda n: _place(pieces[n]))
    if manner.occasion == "prompt" and not any(_speaks(pieces[n], manner.least) for n in ordered):
        reasons |= dict.fromkeys(ordered, "it only goes along")
        ordered = []
    # What was found for the prompt is looked at before what only goes along, which must not stand in its place.
    by_turn = sorted(ordered, key=lambda n: _turn(pieces[n], manner))
    ordered = sorted(_sifted(pieces, by_turn, manner, reasons), key=lambda n: (_place(pieces[n]), n))
    lines = {n: _line(pieces[n], manner).render() for n in ordered}
    taken = _taken(pieces, lines, manner)
    reasons |= {n: INJECTED if n in taken else "over the budget" for n in ordered}
    text_nonce = nonce or fresh_nonce()
    text = assembled([(pieces[n].section, lines[n]) for n in ordered if n in taken], manner.language, text_nonce)
    verdicts = [Verdict(piece=piece, reason=reasons[n]) for n, piece in enumerate(pieces)]
    verdicts.sort(key=lambda verdict: (not verdict.injected, _place(verdict.piece)))
    return Block(text=text, nonce=text_nonce if text else "", verdicts=tuple(verdicts))


def _place(piece: Piece) -> int:
    return SECTIONS.index(piece.section)


def _speaks(piece: Piece, least: float) -> bool:
    """True for a piece that breaks the silence."""
    return not SHAPES[piece.section].goes_along or piece.value >= least


def _sifted(pieces: Sequence[Piece], ordered: Iterable[int], manner: Manner, reasons: dict[int, str]) -> list[int]:
    """Those that are neither said already nor beyond a limit; the reasons of the others are noted."""
    kept, kinds, texts, threads = list[int](), dict[str, str](), set[str](), set[str]()
    shown = set[str]()  # turns that a conversation shows
    counts = Counter[Section]()
    for n in ordered:
        piece = pieces[n]
        plain = " ".join(piece.text.split()).casefold()
        told = kinds.get(piece.id) if piece.id else None
        told_whole = told is not None and not (told == piece.kind and piece.kind in _IN_PARTS)
        if told_whole or plain in texts or (_is_talk(piece) and shown.issuperset(piece.turns)):
            reasons[n] = "said already"
            continue
        limit = manner.limits.get(piece.section, most(piece.section, manner.occasion))
        new_thread = {piece.id} - threads if piece.kind == "thread" else frozenset[str]()
        if counts[piece.section] >= limit or (new_thread and len(threads) >= MOST_THREADS):
            reasons[n] = "beyond the limit"
            continue
        counts[piece.section] += 1
        kinds.setdefault(piece.id, piece.kind)
        texts.add(plain)
        threads |= new_thread
        shown.update(piece.turns if _is_talk(piece) else ())
        kept.append(n)
    return kept


def _is_talk(piece: Piece) -> bool:
    return piece.kind == "turn" and bool(piece.turns)


def _taken(pieces: Sequence[Piece], lines: Mapping[int, str], manner: Manner) -> frozenset[int]:
    """What fits: of those whose turn comes first what is worth most, then of the next in the room that is left."""
    headings = {section: size_of(shape.heading[manner.language]) for section, shape in SHAPES.items()}
    outside = frame(manner.language)
    room = Size(characters=manner.budget - outside.characters, bytes=MOST_BYTES - outside.bytes)
    taken = frozenset[int]()
    for turn in range(3):
        places = [n for n in lines if _turn(pieces[n], manner) == turn]
        offers = [Offer(group=pieces[n].section, size=size_of(lines[n]), value=pieces[n].value) for n in places]
        chosen = {places[m] for m in fit(offers, headings, room)}
        taken |= chosen
        for used in [size_of(lines[n]) for n in chosen] + [
            headings[one] for one in {pieces[n].section for n in chosen}
        ]:
            room = Size(characters=room.characters - used.characters, bytes=room.bytes - used.bytes)
    return taken


def _turn(piece: Piece, manner: Manner) -> int:
    """Rules and reminders come first. What was found for a prompt never makes room for what only goes along."""
    if piece.section in _FIRST:
        return 0
    return 2 if manner.occasion == "prompt" and SHAPES[piece.section].goes_along else 1


def _line(piece: Piece, manner: Manner) -> Line:
    return Line(
        section=piece.section,
        age=_age(piece.said, manner),
        source=piece.source,
        text=piece.text,
        verified=piece.verified,
        conversation=piece.kind == "turn",
        path=piece.id if piece.section == "notes" else "",
    )


def _age(said: datetime | None, manner: Manner) -> str:
    if said is None:
        return ""
    return long_date(said, manner.language) if manner.dated else ago(said, manner.now, manner.language)
