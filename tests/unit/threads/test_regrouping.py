from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.core.protocols import Vector
from filrouge.threads.assignment import PlacedPrompt, Regrouping, regroup
from filrouge.threads.models import Thread

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def towards(*numbers: float) -> Vector:
    vector = np.zeros(8, dtype=np.float32)
    vector[: len(numbers)] = numbers
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


BREAD, TAXES, CLIMBING = towards(1), towards(0, 1), towards(0, 0, 1)


def thread(id_: str, age: int = 0) -> Thread:
    return Thread(id=id_, user="local", project="p", title=id_, opened_at=NOON - timedelta(days=age), last_active=NOON)


class About(PlacedPrompt, frozen=True, kw_only=True):
    """A prompt, and what it is about."""

    subject: Vector


def unit(id_: str, into: Thread, subject: Vector, *, held: bool = False) -> About:
    return About(id=id_, thread=into, is_moved_by_user=held, subject=subject)


def moves_of(units: Sequence[About]) -> tuple[Regrouping, ...]:
    """What regrouping does where prompts are the likelier of one thread the nearer their subjects are."""
    subjects = np.stack([one.subject for one in units])
    return regroup(units, np.clip(subjects @ subjects.T, 0.0, 1.0))


def done(units: Sequence[About], moves: Sequence[Regrouping]) -> list[About]:
    """The units after the moves."""
    threads = {one.thread.id: one.thread for one in units}
    into = {id_: move for move in moves for id_ in move.prompt_ids}
    return [
        replace(one, thread=threads.get(move.into or "") or thread(f"opened for {move.prompt_ids[0]}"))
        if (move := into.get(one.id))
        else one
        for one in units
    ]


def together(units: Sequence[PlacedPrompt]) -> set[frozenset[str]]:
    ids: dict[str, set[str]] = {}
    for one in units:
        ids.setdefault(one.thread.id, set()).add(one.id)
    return {frozenset(own) for own in ids.values()}


def test_prompts_that_are_likely_of_one_thread_come_together_in_the_oldest_of_their_threads() -> None:
    old, young, other = thread("old", 9), thread("young", 1), thread("other", 5)

    [move] = moves_of([unit("a", young, BREAD), unit("b", old, BREAD), unit("c", other, TAXES)])

    assert (move.prompt_ids, move.into, move.routing.action) == (("a",), "old", "join")


def test_a_group_goes_on_as_the_thread_that_most_of_it_was_in() -> None:
    old, most = thread("old", 9), thread("most", 1)
    units = [unit("a", old, BREAD), *(unit(f"m{number}", most, BREAD) for number in range(3))]

    [move] = moves_of(units)

    assert (move.prompt_ids, move.into) == (("a",), "most")


def test_a_prompt_leaves_a_thread_that_it_has_nothing_to_do_with_for_one_that_it_has() -> None:
    bread, taxes = thread("bread"), thread("taxes")
    units = [unit("a", bread, BREAD), unit("b", bread, BREAD), unit("c", bread, TAXES), unit("d", taxes, TAXES)]

    [move] = moves_of(units)

    assert (move.prompt_ids, move.into) == (("c",), "taxes")


def test_what_belongs_to_no_thread_gets_one_of_its_own() -> None:
    mixed = thread("mixed")
    units = [unit("a", mixed, BREAD), unit("b", mixed, BREAD), unit("c", mixed, TAXES), unit("d", mixed, TAXES)]

    [move] = moves_of(units)

    assert (move.into, move.routing.action, move.routing.parent) == (None, "fork", "mixed")
    assert set(move.prompt_ids) in ({"a", "b"}, {"c", "d"})


def test_what_a_user_holds_stays_and_others_come_to_it() -> None:
    held, older = thread("held"), thread("older", 9)
    units = [unit("a", held, BREAD, held=True), unit("b", older, BREAD), unit("c", held, TAXES, held=True)]

    [move] = moves_of(units)

    assert (move.prompt_ids, move.into) == (("b",), "held")


def test_what_a_user_holds_apart_never_comes_together() -> None:
    named = replace(thread("named"), title_by="user")

    assert moves_of([unit("a", thread("one"), BREAD, held=True), unit("b", named, BREAD)]) == ()


@st.composite
def projects(draw: st.DrawFn) -> list[About]:
    subjects = [BREAD, TAXES, CLIMBING, towards(1, 1), towards(0, 1, 1, 1), towards(0.2, 0, 1)]
    count = draw(st.integers(min_value=2, max_value=14))
    threads = [thread(f"t{number}", number % 4) for number in range(5)]
    return [
        unit(
            f"u{number}",
            draw(st.sampled_from(threads)),
            draw(st.sampled_from(subjects)),
            held=draw(st.integers(min_value=0, max_value=5)) == 0,
        )
        for number in range(count)
    ]


@given(projects())
def test_doing_it_twice_changes_nothing(units: list[About]) -> None:
    once = done(units, moves_of(units))

    assert moves_of(once) == ()


@given(projects())
def test_what_is_held_is_never_moved_and_no_thread_that_takes_something_is_emptied(units: list[About]) -> None:
    moves = moves_of(units)

    moved = {id_ for move in moves for id_ in move.prompt_ids}
    assert not moved & {one.id for one in units if one.is_fixed}
    staying = {one.thread.id for one in units if one.id not in moved}
    assert {move.into for move in moves if move.into} <= staying


@given(projects())
def test_the_order_of_the_moves_is_all_the_same(units: list[About]) -> None:
    moves = moves_of(units)

    assert together(done(units, moves)) == together(done(units, moves[::-1]))
    assert len({id_ for move in moves for id_ in move.prompt_ids}) == sum(len(move.prompt_ids) for move in moves)


def test_what_a_model_said_goes_on_with_a_thread_stays_with_its_beginning() -> None:
    old, other = thread("old", 9), thread("other", 5)
    units = [unit("a", old, BREAD), unit("b", old, TAXES), unit("c", other, TAXES), unit("d", other, TAXES)]

    assert together(done(units, moves_of(units))) == {frozenset("a"), frozenset("bcd")}
    asked = [units[0], replace(units[1], is_confirmed=True), *units[2:]]
    assert any(group >= {"a", "b"} for group in together(done(asked, moves_of(asked))))


def test_what_a_model_said_does_not_belong_to_a_thread_is_not_brought_together_with_it() -> None:
    old, young, mine = thread("old", 9), thread("young", 1), thread("mine", 1)
    units = [unit("a", old, BREAD), unit("b", old, BREAD), unit("c", young, BREAD)]

    assert together(done(units, moves_of(units))) == {frozenset("abc")}
    units[2] = replace(units[2], excluded=frozenset({"old"}))
    assert moves_of(units) == ()
    by_hand = replace(units[2], thread=old, is_moved_by_user=True)
    assert moves_of([*units[:2], by_hand, unit("d", mine, TAXES)]) == ()
