"""Threads by hand: renamed, put away, merged, split, and their turns moved; refused where it makes no sense; erased."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from filrouge.context.candidates import memories_of_turns
from filrouge.core.errors import BadInput, NotFound
from filrouge.erasure.service import erase
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts
from filrouge.testing import idle, running
from filrouge.threads import service as by_hand
from filrouge.threads.reports import explain_placement, get_thread_detail, list_threads
from filrouge.threads.repository import Threads
from tests.support.given import BLOG
from tests.support.spoken import COUPON, POSTGRES, as_sets, grouped, tell, texts, thread, threads, turn_of


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as found:
        idle(found)
        yield found


Change = Callable[[Parts, str, str], object]
REFUSED: list[tuple[Change, str]] = [
    (lambda parts, coupon, _: by_hand.reopen(parts, coupon), "is active"),
    (lambda parts, coupon, _: by_hand.merge(parts, coupon, coupon), "into itself"),
    (lambda parts, coupon, _: by_hand.rename(parts, coupon, "  "), "characters, not 0"),
    (lambda parts, coupon, _: by_hand.rename(parts, coupon, "x" * 121), "not 121"),
    (lambda parts, coupon, other: by_hand.rename(parts, coupon, thread(parts, other)["title"]), "is called that"),
    (lambda parts, coupon, _: by_hand.split(parts, coupon, []), "No turn is named"),
    (lambda parts, coupon, _: by_hand.split(parts, coupon, [turn_of(parts, POSTGRES[0])]), "is not in thread"),
    (
        lambda parts, coupon, _: by_hand.split(parts, coupon, [turn_of(parts, text) for text in COUPON[:2]]),
        "Both threads need a prompt",
    ),
]


def ids(parts: Parts) -> tuple[str, str]:
    """A thread about coupons and one about Postgres, of two prompts each."""
    tell(parts, "a", COUPON[0])
    tell(parts, "a", "I found it: the form sends null.", kind="reply")
    tell(parts, "a", COUPON[1])
    tell(parts, "b", *POSTGRES)
    postgres, coupon = (one["id"] for one in threads(parts))
    return coupon, postgres


def actions(parts: Parts, thread_id: str) -> list[str]:
    return [entry.action for entry in parts.readers.here(lambda tx: Journal(tx).entries_about(thread_id))]


def test_a_title_given_by_hand_stays(parts: Parts) -> None:
    coupon, _ = ids(parts)
    assert by_hand.rename(parts, coupon[:12], "  Coupons,  again ")["title"] == "Coupons, again"
    tell(parts, "c", COUPON[2], "And the coupon form on the checkout page, which coupon does it send?")
    found = thread(parts, coupon)
    assert (found["title"], found["title_by"], found["messages"]) == ("Coupons, again", "user", 5)
    assert actions(parts, coupon) == ["thread_rename"]


def test_a_thread_is_put_away_and_taken_up_again(parts: Parts) -> None:
    coupon, _ = ids(parts)
    assert by_hand.archive(parts, coupon)["status"] == "archived"
    assert by_hand.reopen(parts, coupon)["status"] == "active"
    assert actions(parts, coupon) == ["thread_archive", "thread_reopen"]


def test_merged_threads_are_one_and_the_emptied_one_leads_there(parts: Parts) -> None:
    coupon, postgres = ids(parts)
    found = by_hand.merge(parts, coupon, postgres)
    assert (found["id"], found["messages"], found["conversations"]) == (postgres, 5, 2)
    assert [one["id"] for one in threads(parts)] == [postgres]
    assert thread(parts, coupon)["merged_into"] == postgres
    tell(parts, "a", COUPON[2])
    assert COUPON[2] in texts(parts, postgres)


def test_a_split_takes_prompts_with_what_followed_them(parts: Parts) -> None:
    coupon, _ = ids(parts)
    made = by_hand.split(parts, coupon, [turn_of(parts, COUPON[0])])
    assert set(texts(parts, made["id"])) == {COUPON[0], "I found it: the form sends null."}
    assert texts(parts, coupon) == [COUPON[1]]
    assert (made["parent"], made["status"]) == (coupon, "active")
    assert len({one["title"] for one in threads(parts)}) == 3


def test_a_merge_is_taken_back_by_a_split(parts: Parts) -> None:
    coupon, postgres = ids(parts)
    before = sorted(grouped(parts), key=len)
    by_hand.merge(parts, coupon, postgres)
    by_hand.split(parts, postgres, [turn_of(parts, text) for text in COUPON[:2]], title="Coupons")
    assert sorted(grouped(parts), key=len) == before


def test_a_turn_is_moved_with_what_followed_it_and_why_says_so(parts: Parts) -> None:
    coupon, postgres = ids(parts)
    moved = turn_of(parts, COUPON[0])
    by_hand.move(parts, [moved], postgres)
    assert grouped(parts) == as_sets([*POSTGRES, COUPON[0], "I found it: the form sends null."], [COUPON[1]])
    told = parts.readers.here(lambda tx: explain_placement(parts, tx, moved))
    assert (told["thread_id"], told["decisions"][-1]["action"], told["decisions"][-1]["actor"]) == (
        postgres, "move", "user",
    )  # fmt: skip
    assert actions(parts, coupon) == ["thread_move"]


def test_a_thread_that_is_left_without_a_prompt_is_merged(parts: Parts) -> None:
    coupon, postgres = ids(parts)
    by_hand.move(parts, [turn_of(parts, text) for text in COUPON[:2]], postgres)
    assert [one["id"] for one in threads(parts)] == [postgres]
    assert thread(parts, coupon)["merged_into"] == postgres


@pytest.mark.parametrize(("change", "why_not"), REFUSED)
def test_what_makes_no_sense_is_refused_and_changes_nothing(parts: Parts, change: Change, why_not: str) -> None:
    coupon, postgres = ids(parts)
    before = threads(parts)
    with pytest.raises(BadInput, match=why_not):
        change(parts, coupon, postgres)
    assert threads(parts) == before
    assert actions(parts, coupon) == []


def test_nothing_is_merged_or_moved_from_one_project_into_another(parts: Parts) -> None:
    coupon, _ = ids(parts)
    tell(parts, "c", COUPON[0], project=BLOG)
    other = threads(parts, BLOG[0])[0]["id"]
    with pytest.raises(BadInput, match="not of one user and project"):
        by_hand.merge(parts, coupon, other)
    with pytest.raises(BadInput, match="not of one user and project"):
        by_hand.move(parts, [turn_of(parts, COUPON[1])], other)


def test_a_merged_thread_is_done_with(parts: Parts) -> None:
    coupon, postgres = ids(parts)
    by_hand.merge(parts, coupon, postgres)
    for change in (by_hand.archive, by_hand.reopen):
        with pytest.raises(BadInput, match="was merged") as refused:
            change(parts, coupon)
        assert postgres in refused.value.remedy


def test_unknown_and_ambiguous_names_are_refused(parts: Parts) -> None:
    coupon, _ = ids(parts)
    for name in ("nothing", coupon[:5], "", coupon + "x"):
        with pytest.raises(NotFound, match="There is no thread"):
            parts.readers.here(lambda tx, name=name: get_thread_detail(parts, tx, name))
    with pytest.raises(BadInput, match="Several threads begin"):
        parts.readers.here(lambda tx: get_thread_detail(parts, tx, coupon[:6]))
    with pytest.raises(NotFound, match="There is no turn"):
        parts.readers.here(lambda tx: explain_placement(parts, tx, "nothing"))


def test_an_erased_turn_leaves_its_thread_which_is_named_after_what_stays(parts: Parts) -> None:
    coupon, _ = ids(parts)
    erase(parts, [turn_of(parts, COUPON[0])])
    idle(parts)
    found = thread(parts, coupon)
    assert "breaks" not in str({key: found[key] for key in ("title", "summary", "topics")})
    assert texts(parts, coupon) == ["I found it: the form sends null.", COUPON[1]]


def test_a_thread_goes_with_the_last_of_its_turns_and_with_what_speaks_of_it(parts: Parts) -> None:
    coupon, postgres = ids(parts)
    tell(parts, "b", COUPON[2])
    by_hand.split(parts, coupon, [turn_of(parts, COUPON[2])])
    by_hand.merge(parts, postgres, coupon)
    turns = [one["id"] for one in thread(parts, coupon)["turns_shown"]]
    learned = parts.readers.here(lambda tx: memories_of_turns(tx, turns))
    erase(parts, [*turns, *(id_ for proved in learned.values() for id_ in proved)])
    idle(parts)
    [left] = threads(parts)
    assert (left["parent"], texts(parts, left["id"])) == (None, [COUPON[2]])
    assert parts.readers.here(lambda tx: Threads(tx).some([coupon, postgres])) == []


def test_the_title_of_a_thread_that_was_merged_goes_with_the_turn_it_came_from(parts: Parts) -> None:
    coupon, postgres = ids(parts)
    by_hand.merge(parts, coupon, postgres)
    erase(parts, [turn_of(parts, COUPON[0])])
    titles: dict[str, Any] = {id_: thread(parts, id_)["title"] for id_ in (coupon, postgres)}
    assert titles[coupon] == titles[postgres]


def test_threads_are_shown_as_they_were_before_one_took_the_other_in(parts: Parts) -> None:
    coupon, postgres = ids(parts)
    parted = parts.clock.now()
    by_hand.merge(parts, coupon, postgres)

    def then(moment: datetime) -> list[tuple[str, int, str]]:
        found = parts.readers.here(lambda tx: list_threads(parts, tx, [], status="all", limit=10, as_of=moment))
        return [(one["id"], one["messages"], one["status"]) for one in found]

    assert then(parted) == [(postgres, 2, "active"), (coupon, 2, "active")]
    assert then(parts.clock.now()) == [(postgres, 4, "active")]
    assert then(parted + timedelta(days=60)) == [(postgres, 4, "archived")]
    assert then(parted - timedelta(days=1)) == []
