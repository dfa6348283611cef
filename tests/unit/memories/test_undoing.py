"""Undo: a decision is taken back with what stands on it, nothing is rewritten, and the undo can be undone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from filrouge.capture.repository import Turns
from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Tx
from filrouge.erasure.repository import EraseRepository
from filrouge.memories.models import Conflict, Delete, Memory, Noop, UndoPlan, Update
from filrouge.memories.repository import Memories, Reviews, UserChanges
from filrouge.memories.undo_repository import Undoing
from filrouge.runtime.journal import Journal
from filrouge.search.analyser import TextAnalyser
from filrouge.testing import memory_database
from tests.support.rows import NOON, origin, statement, turn


class Store:
    """A store whose time goes on by a minute with every decision."""

    def __init__(self) -> None:
        self.tx: Tx = memory_database().tx
        self.memories = Memories(self.tx, TextAnalyser())
        self.hand = UserChanges(self.tx, TextAnalyser())
        self.undoing = Undoing(self.tx, TextAnalyser())
        self.seconds = 0.0

    def now(self) -> float:
        self.seconds += 60
        return self.seconds

    def add(self, text: str, key: str | None = None) -> str:
        one = statement(text, key=key, value=text if key else None)
        return self.memories.add(one, origin(seconds=self.now()), "new").memory_id

    def update(self, old: str, text: str) -> str:
        change = Update(statement=statement(text), old_ids=(old,), reason="newer")
        return self.memories.apply(change, origin(seconds=self.now())).memory_id

    def mention(self, known: str, turn_id: str = "") -> None:
        again = Noop(statement=statement("again"), existing_id=known, reason="known")
        self.memories.apply(again, origin(seconds=self.now(), turn_id=turn_id))

    def dispute(self, known: str, text: str) -> str:
        unsaid = Conflict(statement=statement(text), existing_id=known, reason="unsaid")
        return self.memories.apply(unsaid, origin(seconds=self.now())).review

    def bin(self, memory_id: str) -> None:
        self.memories.bin(memory_id, origin(seconds=self.now()), "by hand")

    def undo(self, entry: int) -> UndoPlan:
        undo = self.undoing.of(entry)
        self.undoing.carry_out(undo, origin(seconds=self.now()))
        return undo.plan

    def last(self, memory_id: str) -> int:
        """The number of the last entry about a memory."""
        return Journal(self.tx).entries_about(memory_id)[-1].seq

    def live(self) -> list[str]:
        return [memory.text for memory in self.memories.within(project=None, user="local", everywhere=True)]

    def all(self) -> dict[str, Memory]:
        found = self.memories.within(project=None, user="local", everywhere=True, all_states=True)
        return {memory.id: memory for memory in found}


def taken_back(plan: UndoPlan) -> list[str]:
    return [one.action for one in plan.decisions]


def effects(plan: UndoPlan) -> dict[str, str]:
    return {one.text: one.what for one in plan.effects}


def test_an_undone_add_is_in_the_bin_and_held_at_no_time() -> None:
    store = Store()
    one = store.add("We use uv")
    plan = store.undo(store.last(one))
    memory = store.memories.get(one)
    assert (taken_back(plan), effects(plan)) == (["add"], {"We use uv": "to the bin"})
    assert (memory.state, memory.valid_to) == ("binned", memory.valid_from)


def test_an_undone_update_leaves_the_old_as_if_nothing_had_been_said() -> None:
    store = Store()
    old = store.add("port 1")
    before = store.memories.get(old)
    new = store.update(old, "port 2")
    plan = store.undo(store.last(new))
    assert effects(plan) == {"port 1": "live again", "port 2": "to the bin"}
    assert (store.memories.get(old), store.live()) == (before, ["port 1"])
    with pytest.raises(BadInput, match=f"{new} cannot be live together with {old}"):
        store.hand.restore(new, origin(seconds=store.now()))


def test_an_undone_retraction_brings_its_memory_back() -> None:
    store = Store()
    one = store.add("We use Typst")
    store.memories.apply(Delete(statement=statement("no Typst"), old_ids=(one,), reason="gone"), origin(seconds=99))
    store.undo(store.last(one))
    assert store.live() == ["We use Typst"]


def test_what_was_decided_on_top_of_a_decision_goes_with_it_newest_first() -> None:
    store = Store()
    first = store.add("port 1")
    second = store.update(first, "port 2")
    update = store.last(second)
    store.mention(second)
    store.hand.pin(second, origin(seconds=store.now()))
    dispute = store.dispute(second, "port 9")
    Reviews(store.tx, TextAnalyser()).settle(dispute, "new", origin(seconds=store.now()))
    beside = store.add("The harbour is calm")
    plan = store.undo(update)
    assert taken_back(plan) == ["settle", "conflict", "pin", "noop", "update"]
    assert effects(plan) == {"port 1": "live again", "port 2": "to the bin", "port 9": "to the bin"}
    assert store.live() == ["The harbour is calm", "port 1"]
    assert store.memories.get(beside).state == "live"
    assert Reviews(store.tx, TextAnalyser()).get(dispute).outcome == "undone"


def test_nothing_stands_on_a_mention_and_on_a_pin_only_what_became_of_the_pin() -> None:
    store = Store()
    one = store.add("port 1")
    store.mention(one)
    mention = store.last(one)
    store.hand.pin(one, origin(seconds=store.now()))
    pin = store.last(one)
    store.mention(one)
    store.hand.unpin(one, origin(seconds=store.now()))
    assert taken_back(store.undo(mention)) == ["noop"]
    assert taken_back(store.undo(pin)) == ["unpin", "pin"]
    assert (store.memories.get(one).mention_count, store.memories.get(one).pinned) == (2, False)


def test_an_undone_mention_takes_its_evidence_along_and_brings_it_back() -> None:
    store = Store()
    words = turn("again")
    Turns(store.tx, TextAnalyser()).add(words)
    one = store.add("port 1")
    store.mention(one, words.id)
    known = store.memories.get(one)
    plan = store.undo(store.last(one))
    assert effects(plan) == {"port 1": "one mention less"}
    assert (store.memories.get(one).mention_count, store.memories.get(one).evidence) == (1, ())
    store.undo(store.last(one))
    assert store.memories.get(one) == known


def test_an_undo_is_undone_as_a_whole_by_any_of_its_entries_again_and_again() -> None:
    store = Store()
    old = store.add("port 1")
    new = store.update(old, "port 2")
    store.hand.pin(new, origin(seconds=store.now()))
    done = store.all()
    update = Journal(store.tx).entries_about(new)[0].seq
    store.undo(update)
    undone = store.all()
    for part in (0, 1):
        assert taken_back(store.undo(store.last(new) - part)) == ["undo", "undo"]
        assert store.all() == done
        assert taken_back(store.undo(update)) == ["pin", "update"]
        assert store.all() == undone


def test_an_undone_settlement_waits_again() -> None:
    store = Store()
    old = store.add("port 1")
    waiting = store.dispute(old, "port 2")
    before = store.all()
    reviews = Reviews(store.tx, TextAnalyser())
    for how in ("old", "new", "both"):
        reviews.settle(waiting, how, origin(seconds=store.now()))
        plan = store.undo(store.last(waiting))
        assert effects(plan)["port 2"] == "to be reviewed"
        assert (store.all(), reviews.get(waiting).outcome) == (before, "open")


def test_an_undone_restore_and_what_was_said_late_are_history_again() -> None:
    store = Store()
    old = store.add("port 1")
    new = store.update(old, "port 2")
    late = store.memories.apply(
        Update(statement=statement("port 0"), old_ids=(new,), reason="other"), origin(seconds=-60)
    )
    [past] = [one for one in store.all().values() if one.text == "port 0"]
    store.bin(new)
    store.hand.restore(past.id, origin(seconds=store.now()))
    assert (late.name, store.live()) == ("noop", ["port 0"])
    store.undo(store.last(past.id))
    assert store.memories.get(past.id) == past


def test_a_decision_is_taken_back_once_and_the_remedy_says_how_to_do_it_again() -> None:
    store = Store()
    entry = store.last(store.add("port 1"))
    store.undo(entry)
    with pytest.raises(BadInput, match=f"Entry {entry} was taken back by entry {entry + 1}") as refused:
        store.undo(entry)
    assert f"undo entry {entry + 1}" in refused.value.remedy


def test_the_last_decision_about_a_memory_is_the_last_that_changed_it_and_stands() -> None:
    store = Store()
    old = store.add("port 1")
    new = store.update(old, "port 2")
    update = store.last(new)
    store.mention(new)
    assert store.undoing.last_about(old) == store.undoing.last_about(new) == update
    store.undo(update)
    assert store.undoing.last_about(old) == update - 1
    with pytest.raises(BadInput, match=f"No decision about {new} is left to undo"):
        store.undoing.last_about(new)
    with pytest.raises(NotFound, match="'01nothing'"):
        store.undoing.last_about("01nothing")


def test_what_is_not_in_the_journal_or_changed_nothing_is_not_undone() -> None:
    store = Store()
    with pytest.raises(NotFound, match="no journal entry 7"):
        store.undo(7)
    store.memories.refuse(origin(turn_id="t1"), "no such action")
    with pytest.raises(BadInput, match=r"Entry 1 \(error\) changed nothing"):
        store.undo(1)


def test_what_touches_something_erased_is_refused_and_nothing_changes() -> None:
    store = Store()
    old = store.add("port 1")
    new = store.update(old, "port 2")
    add, update = (Journal(store.tx).entries_about(id_)[0].seq for id_ in (old, new))
    erasing = EraseRepository(store.tx, TextAnalyser())
    erasing.carry_out(erasing.affected([new]), at=NOON, actor="user")
    before = store.all()
    for entry in (add, update, store.last(new)):
        with pytest.raises(BadInput, match="was erased"):
            store.undo(entry)
    assert store.all() == before


def test_two_holders_of_one_key_are_refused() -> None:
    store = Store()
    first = store.add("Ana", key="user_name")
    store.bin(first)
    binned = store.last(first)
    second = store.add("Bea", key="user_name")
    with pytest.raises(BadInput, match=f"{first} cannot be live together with {second}"):
        store.undo(binned)


def test_two_versions_are_refused_where_an_undo_is_undone_too_late() -> None:
    store = Store()
    old = store.add("port 1")
    new = store.update(old, "port 2")
    store.bin(new)
    binned = store.last(new)
    store.hand.restore(old, origin(seconds=store.now()))
    restored = store.last(old)
    store.undo(restored)
    again = store.last(old)
    store.undo(binned)
    with pytest.raises(BadInput, match=f"{old} cannot be live together with {new}"):
        store.undo(again)


def test_the_journal_keeps_every_decision_and_verifies() -> None:
    store = Store()
    old = store.add("port 1")
    update = store.last(store.update(old, "port 2"))
    before = [replace(entry) for entry in Journal(store.tx).entries_about(old)]
    store.undo(update)
    after = Journal(store.tx).entries_about(old)
    assert after[: len(before)] == before
    assert [(entry.action, entry.undoes) for entry in after[len(before) :]] == [("undo", update)]
    assert Journal(store.tx).verify().sound


def test_a_plan_says_what_it_would_do() -> None:
    store = Store()
    old = store.add("port 1")
    new = store.update(old, "port 2")
    store.mention(new)
    plan = store.undoing.of(2).plan
    assert str(plan).splitlines() == [
        f"Takes back entry 2, update of {new} (newer)",
        "and these later decisions that depend on it:",
        f"  entry 3, noop of {new} (known)",
        "Then:",
        f"  live again: {old} port 1",
        f"  to the bin: {new} port 2",
    ]
    assert store.live() == ["port 2"]
    found = plan.to_json()
    assert (found["entry"], [one["entry"] for one in found["decisions"]]) == (2, [3, 2])
    assert {one["id"]: (one["before"], one["after"]) for one in found["changes"]} == {
        old: ("superseded", "live"), new: ("live", "binned"),
    }  # fmt: skip
