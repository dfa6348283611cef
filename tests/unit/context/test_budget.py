"""What fits is worth as much as anything that fits could be, and never too large."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.context.block import Offer, Size, fit
from tests.support.tiers import examples

GROUPS = ["a", "b", "c"]


@st.composite
def sizes(draw: st.DrawFn) -> Size:
    """From one to four bytes a character."""
    characters = draw(st.integers(1, 60))
    return Size(characters=characters, bytes=characters * draw(st.integers(1, 4)))


@st.composite
def offers_(draw: st.DrawFn) -> Offer:
    return Offer(group=draw(st.sampled_from(GROUPS)), size=draw(sizes()), value=draw(st.integers(0, 8)) / 8)


OFFERS, SIZES = offers_(), sizes()
HEADINGS = st.dictionaries(st.sampled_from(GROUPS), SIZES)
WIDE = 10**6


def used(offers: list[Offer], headings: dict[str, Size], taken: frozenset[int]) -> Size:
    none = Size(characters=0, bytes=0)
    whole = [offers[n].size for n in taken] + [headings.get(one, none) for one in {offers[n].group for n in taken}]
    return sum(whole, none)


def fits(offers: list[Offer], headings: dict[str, Size], taken: frozenset[int], room: Size) -> bool:
    size = used(offers, headings, taken)
    return size.characters <= room.characters and size.bytes <= room.bytes


def worth(offers: list[Offer], taken: frozenset[int]) -> float:
    return sum(offers[n].value for n in taken)


def greedy(offers: list[Offer], headings: dict[str, Size], room: Size, order: list[int]) -> frozenset[int]:
    taken = frozenset[int]()
    for n in order:
        if fits(offers, headings, taken | {n}, room):
            taken |= {n}
    return taken


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(OFFERS, max_size=9), HEADINGS, st.integers(0, 300), st.sampled_from([90, 250, WIDE]))
def test_no_choice_that_fits_is_worth_more(
    offers: list[Offer], headings: dict[str, Size], characters: int, size: int
) -> None:
    """Every subset is tried. Where characters and bytes are short at once the best may be missed, never the room."""
    room = Size(characters=characters, bytes=size)
    taken = fit(offers, headings, room)
    assert fits(offers, headings, taken, room)
    every = (frozenset(some) for n in range(len(offers) + 1) for some in combinations(range(len(offers)), n))
    best = max(worth(offers, some) for some in every if fits(offers, headings, some, room))
    if size == WIDE:
        assert worth(offers, taken) >= best - 1e-4
    assert worth(offers, taken) <= best + 1e-4


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(OFFERS, max_size=40), HEADINGS, st.integers(0, 900), st.integers(0, 1500))
def test_it_is_never_worse_than_taking_the_dearest_for_its_room_first(
    offers: list[Offer], headings: dict[str, Size], characters: int, size: int
) -> None:
    room = Size(characters=characters, bytes=size)
    by_density = sorted(range(len(offers)), key=lambda n: -offers[n].value / offers[n].size.characters)
    taken = fit(offers, headings, room)
    assert fits(offers, headings, taken, room)
    assert worth(offers, taken) >= worth(offers, greedy(offers, headings, room, by_density)) - 1e-4


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(OFFERS, max_size=30), HEADINGS, st.integers(0, 600), st.integers(0, 600))
def test_more_room_is_never_worth_less(offers: list[Offer], headings: dict[str, Size], one: int, other: int) -> None:
    smaller, larger = (
        worth(offers, fit(offers, headings, Size(characters=room, bytes=WIDE))) for room in sorted((one, other))
    )
    assert smaller <= larger + 1e-4


@given(st.lists(OFFERS, max_size=30), HEADINGS)
def test_where_everything_fits_everything_is_taken_worthless_or_not(
    offers: list[Offer], headings: dict[str, Size]
) -> None:
    whole = used(offers, headings, frozenset(range(len(offers))))
    assert fit(offers, headings, whole) == frozenset(range(len(offers)))
    assert fit(offers, headings, Size(characters=-1, bytes=-1)) == frozenset()


def test_of_equals_the_first_is_taken() -> None:
    same = Offer(group="a", size=Size(characters=10, bytes=10), value=0.5)
    assert fit([same, same, same], {}, Size(characters=20, bytes=20)) == {0, 1}


def test_a_heading_is_paid_once_and_only_for_a_section_that_has_something() -> None:
    small, large = Size(characters=10, bytes=10), Size(characters=25, bytes=25)
    offers = [Offer(group=group, size=small, value=0.5) for group in ("a", "a", "b")]
    headings = {"a": large, "b": Size(characters=30, bytes=30)}
    assert fit(offers, headings, Size(characters=45, bytes=45)) == {0, 1}
    assert fit(offers, headings, Size(characters=40, bytes=40)) == {0}
