"""Vectors keep their space and come back at half precision; settings are seeded once and changed one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from msgspec.structs import replace

from filrouge.capture.repository import Turns
from filrouge.core.protocols import Tx
from filrouge.memories.repository import Memories
from filrouge.providers.hashing import StableHash
from filrouge.providers.models import Calibration, EmbeddingSpace
from filrouge.runtime.services import StoredSettings
from filrouge.search.analyser import TextAnalyser
from filrouge.search.repository import Spaces, StoredVectors
from filrouge.testing import memory_database
from tests.support.rows import NOON, origin, statement, turn
from tests.support.tiers import examples

ONE: EmbeddingSpace = StableHash().space
OTHER = replace(ONE, id="other/1")


def fresh() -> tuple[StoredVectors, Tx]:
    tx = memory_database().tx
    stored = StoredVectors(tx)
    for space in (ONE, ONE, OTHER):
        Spaces(tx).declare(space, "hashing")
    Spaces(tx).make_current(ONE.id)
    return stored, tx


@settings(max_examples=examples(30), deadline=None)
@given(arrays.arrays(np.float32, st.tuples(st.integers(1, 4), st.just(384)), elements=st.floats(-1, 1, width=32)))
def test_vectors_come_back_at_half_precision(vectors: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
    stored, tx = fresh()
    said = turn("words")
    Turns(tx, TextAnalyser()).add(said)
    stored.put("turn", said.id, ONE.id, vectors)
    [(owner, number, group, found)] = stored.turns(ONE.id)
    assert (owner, number, group, found.dtype) == (said.id, stored.number("turn", said.id), "", np.float32)
    assert np.array_equal(found, vectors.astype(np.float16).astype(np.float32))


def test_two_spaces_are_never_read_together() -> None:
    stored, tx = fresh()
    said = turn("words")
    Turns(tx, TextAnalyser()).add(said)
    stored.put("turn", said.id, ONE.id, np.ones((2, 384), np.float32))
    stored.put("turn", said.id, OTHER.id, np.zeros((1, 384), np.float32))
    assert [found.shape for *_, found in stored.turns(ONE.id)] == [(2, 384)]
    assert [float(found.max()) for *_, found in stored.turns(OTHER.id)] == [0.0]
    assert list(stored.turns("nowhere/1")) == []


def test_new_windows_replace_the_old_ones_of_their_space() -> None:
    stored, tx = fresh()
    said = turn("words")
    Turns(tx, TextAnalyser()).add(said)
    stored.put("turn", said.id, ONE.id, np.ones((3, 384), np.float32))
    stored.put("turn", said.id, ONE.id, np.zeros((1, 384), np.float32))
    assert [(found.shape, float(found.sum())) for *_, found in stored.turns(ONE.id)] == [((1, 384), 0.0)]


def test_live_memories_are_given_with_their_group_and_missing_ones_named() -> None:
    stored, tx = fresh()
    memories = Memories(tx, TextAnalyser())
    ids = [memories.add(statement(text), origin(), "new").memory_id for text in ("a", "b", "c")]
    for id_ in ids[:2]:
        stored.put("memory", id_, ONE.id, np.ones((2, 384), np.float32))
    memories.bin(ids[0], origin(), "by hand")
    assert [(owner, number, group, len(found)) for owner, number, group, found in stored.live_memories(ONE.id)] == [
        (ids[1], 2, "user:local", 2)
    ]
    assert [owner.id for owner in stored.missing("memory", ONE.id, 9)] == [ids[2]]
    assert [owner.id for owner in stored.missing("memory", OTHER.id, 9)] == ids[1:]
    assert stored.count() == 2


def test_every_owner_comes_once_and_whole_however_many_windows_there_are() -> None:
    stored, tx = fresh()
    counts = {600: 1, 601: 999, 602: 1, 603: 2500, 604: 3}
    given = list[tuple[str, int]]()
    for number in range(700):
        said = turn(f"words {number}")
        Turns(tx, TextAnalyser()).add(said)
        given.append((said.id, counts.get(number, 1)))
        stored.put("turn", said.id, ONE.id, np.full((given[-1][1], 8), number, np.float32))
    numbers = {owner: number for number, (owner, _) in enumerate(given)}
    found = {owner: (len(vectors), set(vectors.flat)) for owner, _, _, vectors in stored.turns(ONE.id)}
    assert found == {owner: (count, {numbers[owner]}) for owner, count in given}
    assert [owner for owner, *_ in stored.turns(ONE.id)] == sorted(numbers)


def test_some_owners_are_read_by_their_ids() -> None:
    stored, tx = fresh()
    said = [turn("words"), turn("more words")]
    for number, one in enumerate(said):
        Turns(tx, TextAnalyser()).add(one)
        stored.put("turn", one.id, ONE.id, np.full((2, 384), number, np.float32))
        stored.put("turn", one.id, OTHER.id, np.full((1, 384), 7, np.float32))
    found = stored.some("turn", [said[1].id, "nobody", said[0].id], ONE.id)
    assert {owner: (vectors.shape, float(vectors.max())) for owner, vectors in found.items()} == {
        said[1].id: ((2, 384), 1.0),
        said[0].id: ((2, 384), 0.0),
    }
    assert stored.some("memory", [said[0].id], ONE.id) == stored.some("turn", [], ONE.id) == {}


def test_at_most_one_space_is_current_and_one_in_building() -> None:
    tx = memory_database().tx
    spaces = Spaces(tx)
    for number in range(3):
        spaces.declare(replace(ONE, id=f"s/{number}"), "hashing")
    assert (spaces.current(), spaces.building()) == (None, None)
    spaces.make_current("s/0")
    spaces.begin("s/1")
    spaces.begin("s/2")
    assert {one.id: one.state for one in spaces.all()} == {"s/0": "current", "s/1": "retired", "s/2": "building"}
    spaces.make_current("s/2")
    assert {one.id: one.state for one in spaces.all()} == {"s/0": "retired", "s/1": "retired", "s/2": "current"}
    assert spaces.building() is None
    spaces.retire("s/2")
    assert spaces.current() is None


def test_a_measured_calibration_stays_with_its_space_when_it_is_declared_again() -> None:
    tx = memory_database().tx
    measured = Calibration(texts=((0.2, 0.0), (0.5, 0.35), (1.0, 1.0)), questions=((0.1, 0.0), (1.0, 1.0)),
                           origin="sample", pairs=120)  # fmt: skip
    Spaces(tx).declare(ONE, "hashing")
    Spaces(tx).set_calibration(ONE.id, measured)
    Spaces(tx).declare(ONE, "other-name")
    [found] = Spaces(tx).all()
    assert (found.space, found.embedder) == (replace(ONE, calibration=measured), "other-name")
    assert Spaces(tx).get("nowhere/1") is None


def test_an_owner_is_complete_once_its_first_window_is_stored() -> None:
    stored, tx = fresh()
    said = turn("words")
    Turns(tx, TextAnalyser()).add(said)
    parts = np.eye(5, 384, dtype=np.float32)
    for first in (3, 1):
        stored.put("turn", said.id, ONE.id, parts[first : first + 2], first=first)
        assert stored.first_part("turn", said.id, ONE.id) == first
        assert [owner.id for owner in stored.missing("turn", ONE.id, 9)] == [said.id]
        assert stored.coverage(ONE.id) == (0, 1)
    stored.put("turn", said.id, ONE.id, parts[:1], first=0)
    assert (stored.missing("turn", ONE.id, 9), stored.coverage(ONE.id), stored.count()) == ([], (1, 1), 1)
    found = stored.of("turn", said.id, ONE.id)
    assert found is not None
    assert np.array_equal(found, parts)
    assert stored.drop_unfinished() == 0


def test_retired_spaces_are_cleared_stretch_by_stretch_and_others_stay() -> None:
    stored = fresh()[0]
    for number in range(25):
        for space in (ONE, OTHER):
            stored.put("turn", f"t{number:02}", space.id, np.ones((2, 384), np.float32))
    after, steps = ("", ""), 0
    while (found := stored.clear_retired(after, 10)) is not None:
        after, steps = found, steps + 1
    assert steps >= 5
    assert (stored.any(OTHER.id), stored.any(ONE.id), stored.count()) == (False, True, 25)


def test_defaults_are_written_only_where_nothing_is() -> None:
    stored = StoredSettings(memory_database().tx)
    stored.seed({"budget": 2000, "notes_paths": []}, NOON)
    stored.put({"budget": 900}, NOON)
    stored.seed({"budget": 2000, "language": "auto"}, NOON)
    assert stored.all() == {"budget": 900, "notes_paths": [], "language": "auto"}


def test_a_change_leaves_the_other_settings_alone() -> None:
    stored = StoredSettings(memory_database().tx)
    stored.put({"a": "é", "b": [1, None]}, NOON)
    stored.put({"a": False}, NOON)
    assert stored.all() == {"a": False, "b": [1, None]}
