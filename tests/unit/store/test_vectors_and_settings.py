"""Vectors keep their space and come back at half precision; settings are seeded once and changed one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from filrouge.embed.hashing import StableHash
from filrouge.index.analyser import TextAnalyser
from filrouge.ports import EmbeddingSpace, Tx
from filrouge.store.memories import Memories
from filrouge.store.settings import StoredSettings
from filrouge.store.turns import Turns
from filrouge.store.vectors import Spaces, StoredVectors
from filrouge.testing import memory_database

from .given import NOON, origin, statement, turn

ONE: EmbeddingSpace = StableHash().space
OTHER = replace(ONE, id="other/1")


def fresh() -> tuple[StoredVectors, Tx]:
    tx = memory_database().tx
    stored = StoredVectors(tx)
    for space in (ONE, ONE, OTHER):
        Spaces(tx).declare(space, "hashing")
    Spaces(tx).make_current(ONE.id)
    return stored, tx


@settings(max_examples=30, deadline=None)
@given(arrays.arrays(np.float32, st.tuples(st.integers(1, 4), st.just(384)), elements=st.floats(-1, 1, width=32)))
def test_vectors_come_back_at_half_precision(vectors: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
    stored, tx = fresh()
    said = turn("words")
    Turns(tx, TextAnalyser()).add(said)
    stored.put("turn", said.id, ONE.id, vectors)
    [(owner, group, found)] = stored.turns(ONE.id)
    assert (owner, group, found.dtype) == (said.id, "", np.float32)
    assert np.array_equal(found, vectors.astype(np.float16).astype(np.float32))


def test_two_spaces_are_never_read_together() -> None:
    stored, tx = fresh()
    said = turn("words")
    Turns(tx, TextAnalyser()).add(said)
    stored.put("turn", said.id, ONE.id, np.ones((2, 384), np.float32))
    stored.put("turn", said.id, OTHER.id, np.zeros((1, 384), np.float32))
    assert [found.shape for _, _, found in stored.turns(ONE.id)] == [(2, 384)]
    assert [float(found.max()) for _, _, found in stored.turns(OTHER.id)] == [0.0]
    assert list(stored.turns("nowhere/1")) == []


def test_new_windows_replace_the_old_ones_of_their_space() -> None:
    stored, tx = fresh()
    said = turn("words")
    Turns(tx, TextAnalyser()).add(said)
    stored.put("turn", said.id, ONE.id, np.ones((3, 384), np.float32))
    stored.put("turn", said.id, ONE.id, np.zeros((1, 384), np.float32))
    assert [(found.shape, float(found.sum())) for _, _, found in stored.turns(ONE.id)] == [((1, 384), 0.0)]


def test_live_memories_are_given_with_their_group_and_missing_ones_named() -> None:
    stored, tx = fresh()
    memories = Memories(tx, TextAnalyser())
    ids = [memories.add(statement(text), origin(), "new").memory_id for text in ("a", "b", "c")]
    for id_ in ids[:2]:
        stored.put("memory", id_, ONE.id, np.ones((2, 384), np.float32))
    memories.bin(ids[0], origin(), "by hand")
    assert [(owner, group, len(found)) for owner, group, found in stored.live_memories(ONE.id)] == [
        (ids[1], "user:local", 2)
    ]
    assert [owner.id for owner in stored.missing("memory", ONE.id, 9)] == [ids[2]]
    assert [owner.id for owner in stored.missing("memory", OTHER.id, 9)] == ids[1:]
    assert stored.count() == 2


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
