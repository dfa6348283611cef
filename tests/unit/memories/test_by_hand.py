"""The user's hand: pin, restore, supersede; one live version, and whoever is in the way is named."""

from __future__ import annotations

import pytest

from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Tx
from filrouge.memories.models import Update
from filrouge.memories.repository import Memories, UserChanges
from filrouge.runtime.journal import Journal
from filrouge.search.analyser import TextAnalyser
from filrouge.testing import memory_database
from tests.support.rows import origin, statement


def fresh() -> tuple[Memories, UserChanges, Tx]:
    tx = memory_database().tx
    return Memories(tx, TextAnalyser()), UserChanges(tx, TextAnalyser()), tx


def replaced(memories: Memories, old: str, text: str, seconds: float) -> str:
    change = Update(statement=statement(text), old_ids=(old,), reason="newer")
    return memories.apply(change, origin(seconds=seconds)).memory_id


def test_a_pin_is_set_once_and_taken_away_again() -> None:
    memories, hand, tx = fresh()
    one = memories.add(statement("Never on Friday"), origin(), "new").memory_id
    for _ in range(2):
        assert hand.pin(one, origin()).name == "pin"
    assert memories.get(one).pinned
    assert hand.unpin(one, origin()).name == "unpin"
    assert not memories.get(one).pinned
    assert [entry.action for entry in Journal(tx).entries_about(one)] == ["add", "pin", "unpin"]


def test_only_what_is_live_is_pinned() -> None:
    memories, hand, _ = fresh()
    one = memories.add(statement("old"), origin(), "new").memory_id
    memories.bin(one, origin(), "by hand")
    with pytest.raises(BadInput, match=f"{one} is binned, not live"):
        hand.pin(one, origin())
    with pytest.raises(NotFound, match="'01nothing'"):
        hand.unpin("01nothing", origin())


def test_what_was_binned_is_live_again_as_it_was() -> None:
    memories, hand, _ = fresh()
    one = memories.add(statement("We use uv"), origin(), "new").memory_id
    before = memories.get(one)
    memories.bin(one, origin(seconds=5), "by hand")
    hand.restore(one, origin(seconds=9))
    assert memories.get(one) == before


def test_what_was_superseded_is_restored_once_no_other_version_is_live() -> None:
    memories, hand, _ = fresh()
    first = memories.add(statement("port 1"), origin(), "new").memory_id
    second = replaced(memories, first, "port 2", 60)
    third = replaced(memories, second, "port 3", 120)
    for old in (first, second):
        with pytest.raises(BadInput, match=f"{old} cannot be live together with {third}") as refused:
            hand.restore(old, origin(seconds=130))
        assert f"filrouge history {third}" in refused.value.remedy
    memories.bin(third, origin(seconds=140), "by hand")
    hand.restore(first, origin(seconds=150))
    assert (memories.get(first).state, memories.get(first).superseded_by) == ("live", None)
    for other in (second, third):
        with pytest.raises(BadInput, match=f"together with {first}"):
            hand.restore(other, origin(seconds=160))


def test_a_core_fact_is_not_restored_beside_the_holder_of_its_key() -> None:
    memories, hand, _ = fresh()
    name = [statement(f"user_name: {value}", key="user_name", value=value) for value in ("Ana", "Bea")]
    first = memories.put_core_fact(name[0], origin()).memory_id
    memories.bin(first, origin(seconds=1), "by hand")
    second = memories.put_core_fact(name[1], origin(seconds=2)).memory_id
    with pytest.raises(BadInput, match=f"together with {second}"):
        hand.restore(first, origin(seconds=3))


def test_what_is_live_or_waits_is_not_restored() -> None:
    memories, hand, _ = fresh()
    live = memories.add(statement("We use uv"), origin(), "new").memory_id
    waiting = memories.quarantine(statement("It rains"), origin(), "no words").review
    with pytest.raises(BadInput, match=f"{live} is live"):
        hand.restore(live, origin())
    with pytest.raises(BadInput, match=f"{waiting} waits for review") as refused:
        hand.restore(waiting, origin())
    assert f"filrouge review {waiting}" in refused.value.remedy


def test_superseding_by_hand_replaces_even_a_pinned_memory_and_the_new_one_is_pinned() -> None:
    memories, hand, _ = fresh()
    old = memories.add(statement("Never on Friday"), origin(), "new").memory_id
    hand.pin(old, origin())
    done = memories.supersede(old, statement("Never on Monday"), origin(seconds=-5), "by hand")
    new = memories.get(done.memory_id)
    assert (done.closed, new.previous_text, new.pinned, memories.get(old).state) == (
        (old,), "Never on Friday", True, "superseded",
    )  # fmt: skip


def test_what_is_not_live_is_not_superseded_and_the_remedy_names_who_is() -> None:
    memories, _, _ = fresh()
    old = memories.add(statement("port 1"), origin(), "new").memory_id
    new = replaced(memories, old, "port 2", 60)
    with pytest.raises(BadInput, match=f"{old} is superseded") as refused:
        memories.supersede(old, statement("port 3"), origin(seconds=90), "by hand")
    assert new in refused.value.remedy
    with pytest.raises(BadInput, match="says that already"):
        memories.supersede(new, statement("port 2"), origin(seconds=90), "by hand")
    memories.bin(new, origin(seconds=95), "by hand")
    with pytest.raises(BadInput) as binned:
        memories.supersede(new, statement("port 3"), origin(seconds=99), "by hand")
    assert f"filrouge restore {new}" in binned.value.remedy
    with pytest.raises(NotFound, match="'01nothing'"):
        memories.supersede("01nothing", statement("port 3"), origin(), "by hand")


def test_a_core_fact_set_by_hand_replaces_a_pinned_one() -> None:
    memories, hand, _ = fresh()
    name = [statement(f"user_name: {value}", key="user_name", value=value) for value in ("Ana", "Bea")]
    first = memories.put_core_fact(name[0], origin()).memory_id
    hand.pin(first, origin())
    second = memories.put_core_fact(name[1], origin(seconds=2))
    assert (second.closed, memories.get(second.memory_id).key) == ((first,), "user_name")
