"""The review queue: what contradicts or lacks proof waits, is said once, and is settled by the user alone."""

from __future__ import annotations

import pytest

from filrouge.capture.repository import Turns
from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Tx
from filrouge.erasure.repository import EraseRepository
from filrouge.memories.models import Conflict, Memory, Update
from filrouge.memories.repository import Memories, Reviews, UserChanges
from filrouge.runtime.journal import Journal
from filrouge.search.analyser import TextAnalyser
from filrouge.testing import memory_database
from tests.support.rows import NOON, origin, statement, turn


class Store:
    """A store with a pinned memory and a statement that contradicts it."""

    def __init__(self, *, key: str | None = None) -> None:
        self.tx: Tx = memory_database().tx
        self.memories = Memories(self.tx, TextAnalyser())
        self.reviews = Reviews(self.tx, TextAnalyser())
        old = statement("We use uv", key=key, value="uv" if key else None)
        self.old = self.memories.add(old, origin(), "new").memory_id
        UserChanges(self.tx, TextAnalyser()).pin(self.old, origin())
        new = statement("We use pip", key=key, value="pip" if key else None)
        update = Update(statement=new, old_ids=(self.old,), reason="newer")
        self.new = self.memories.apply(update, origin(seconds=60)).review

    def settle(self, how: str, seconds: float = 120) -> None:
        self.reviews.settle(self.new, how, origin(seconds=seconds))

    def live(self) -> list[str]:
        return [memory.text for memory in self.memories.within(project=None, user="local", everywhere=True)]

    def get(self, memory_id: str) -> Memory:
        return self.memories.get(memory_id)


def test_what_waits_names_its_statement_what_it_is_against_and_why() -> None:
    store = Store()
    [one] = store.reviews.all()
    assert (one.id, one.kind, one.outcome, one.memory.text, one.at) == (
        store.new, "conflict", "open", "We use pip", store.get(store.new).created_at,
    )  # fmt: skip
    assert one.against is not None
    assert (one.against.id, one.reason) == (store.old, "newer, but the memory is pinned")


def test_keeping_the_old_puts_the_new_into_the_bin() -> None:
    store = Store()
    store.settle("old")
    assert (store.live(), store.get(store.new).state, store.reviews.all()) == (["We use uv"], "binned", [])
    [settled] = store.reviews.all(settled=True)
    assert (settled.outcome, settled.settled_at) == ("old", origin(seconds=120).at)


def test_taking_the_new_supersedes_even_a_pinned_memory_and_keeps_the_pin() -> None:
    store = Store()
    store.settle("new")
    old, new = store.get(store.old), store.get(store.new)
    assert (store.live(), new.pinned, new.supersedes, new.previous_text) == (
        ["We use pip"], True, store.old, "We use uv",
    )  # fmt: skip
    assert (old.state, old.superseded_by, old.valid_to, new.valid_from) == (
        "superseded", store.new, origin(seconds=120).at, origin(seconds=120).at,
    )  # fmt: skip


def test_taking_the_new_replaces_the_version_of_today() -> None:
    store = Store()
    place = origin(seconds=90)
    today = store.memories.supersede(store.old, statement("We use rye"), place, "by hand").memory_id
    store.settle("new")
    assert (store.live(), store.get(store.new).supersedes, store.get(today).superseded_by) == (
        ["We use pip"], today, store.new,
    )  # fmt: skip


def test_where_nothing_is_left_to_replace_the_new_is_simply_believed() -> None:
    store = Store()
    store.memories.bin(store.old, origin(seconds=90), "by hand")
    store.settle("new")
    assert (store.live(), store.get(store.new).supersedes) == (["We use pip"], None)


def test_both_are_kept_side_by_side() -> None:
    store = Store()
    store.settle("both")
    assert store.live() == ["We use pip", "We use uv"]
    assert store.get(store.new).supersedes is None


def test_a_core_fact_has_one_value_so_both_cannot_be_kept_but_the_new_takes_the_key() -> None:
    store = Store(key="installer")
    with pytest.raises(BadInput, match=f"together with {store.old}"):
        store.settle("both")
    store.settle("new")
    assert (store.live(), store.get(store.new).key) == (["We use pip"], "installer")


def test_what_lacks_proof_is_accepted_or_dismissed() -> None:
    store = Store()
    first, second = (
        store.memories.quarantine(statement(text), origin(), "no words").review for text in ("It rains", "It snows")
    )
    store.reviews.settle(first, "accept", origin(seconds=5))
    store.reviews.settle(second, "dismiss", origin(seconds=5))
    assert ("It rains" in store.live(), store.get(second).state) == (True, "binned")
    assert [entry.action for entry in Journal(store.tx).entries_about(first)] == ["quarantine", "settle"]


@pytest.mark.parametrize("how", ["accept", "dismiss", "neither", ""])
def test_a_conflict_is_settled_in_its_own_ways(how: str) -> None:
    store = Store()
    with pytest.raises(BadInput, match="A conflict cannot be settled") as refused:
        store.settle(how)
    assert refused.value.remedy == "It is one of: old, new, both."
    assert store.get(store.new).state == "quarantined"


def test_what_is_settled_is_not_settled_again_and_what_does_not_wait_is_named() -> None:
    store = Store()
    store.settle("old")
    with pytest.raises(BadInput, match=f"{store.new} says was settled: old") as refused:
        store.settle("new")
    assert f"filrouge history {store.new}" in refused.value.remedy
    with pytest.raises(NotFound, match="'01nothing'"):
        store.reviews.settle("01nothing", "old", origin())


def test_the_same_words_said_again_are_one_more_mention_while_they_wait() -> None:
    store = Store()
    words = turn("we  use PIP")
    Turns(store.tx, TextAnalyser()).add(words)
    again = Conflict(statement=statement("we  use PIP"), existing_id=store.old, reason="unsaid")
    done = store.memories.apply(again, origin(seconds=90, turn_id=words.id))
    waiting = store.get(store.new)
    assert (done.name, done.review, len(store.reviews.all())) == ("conflict", store.new, 1)
    assert (waiting.mention_count, [one.turn_id for one in waiting.evidence]) == (2, [words.id])
    assert store.memories.quarantine(statement("We use pip"), origin(), "no words").review != store.new


def test_what_was_settled_and_is_said_again_waits_anew() -> None:
    store = Store()
    store.settle("old")
    again = Conflict(statement=statement("We use pip"), existing_id=store.old, reason="unsaid")
    assert store.memories.apply(again, origin(seconds=200)).review not in ("", store.new)


def test_erasing_takes_what_waits_along_with_its_words() -> None:
    store = Store()
    erasing = EraseRepository(store.tx, TextAnalyser())
    erasing.carry_out(erasing.affected([store.new]), at=NOON, actor="user")
    assert store.reviews.all(settled=True) == []
    assert {entry.action: entry.payload for entry in Journal(store.tx).entries_about(store.new)}["conflict"] is None
    assert store.live() == ["We use uv"]


def test_where_what_it_speaks_against_is_erased_a_statement_still_waits_and_quotes_nothing_of_it() -> None:
    store = Store()
    erasing = EraseRepository(store.tx, TextAnalyser())
    erasing.carry_out(erasing.affected([store.old]), at=NOON, actor="user")
    [one] = store.reviews.all()
    assert (one.id, one.against, one.reason) == (store.new, None, "")
    store.settle("new")
    assert store.live() == ["We use pip"]
