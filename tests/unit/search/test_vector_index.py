"""The vector index over the store: filled from its rows, right by its rows, and nothing of it on disk."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import closing

import numpy as np
import pytest

from filrouge.capture.repository import Turns
from filrouge.core.clock import SystemClock
from filrouge.core.protocols import Vectors
from filrouge.providers.hashing import StableHash
from filrouge.runtime.executors import ReaderPool
from filrouge.runtime.sqlite import Database
from filrouge.search.analyser import TextAnalyser
from filrouge.search.repository import Spaces, StoredVectors
from filrouge.search.vector_index import AdaptiveIndex, ExactIndex
from tests.support.rows import turn

SPACE = StableHash().space
TEXTS = [f"the {word} of {place}" for word in ("port", "host", "name", "owner", "age") for place in range(40)]


def stored_texts(path: str) -> dict[str, str]:
    ids = dict[str, str]()
    with closing(Database(path)) as database:
        database.migrate(SystemClock())
        with database.transaction() as tx:
            Spaces(tx).declare(SPACE, "hashing")
            Spaces(tx).make_current(SPACE.id)
            for text, vector in zip(TEXTS, StableHash().passages(TEXTS), strict=True):
                said = turn(text)
                Turns(tx, TextAnalyser()).add(said)
                StoredVectors(tx).put("turn", said.id, SPACE.id, vector[None])
                ids[text] = said.id
    return ids


def opened(readers: ReaderPool) -> tuple[AdaptiveIndex, ExactIndex]:
    """The index as the daemon fills it at its start, and the exact one to hold it against."""

    def rows(owners: Collection[str]) -> Mapping[str, Vectors]:
        return readers.here(lambda tx: StoredVectors(tx).some("turn", owners, SPACE.id))

    index, exact = AdaptiveIndex(SPACE.dimension, rows, max_exact=50, max_fresh=20), ExactIndex(SPACE.dimension)
    for owner, number, group, vectors in readers.here(lambda tx: list(StoredVectors(tx).turns(SPACE.id))):
        index.put(owner, number, group, vectors)
        exact.put(owner, number, group, vectors)
    return index, exact


def test_it_answers_as_the_exact_one_after_every_start_and_leaves_no_file(tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "a.db")
    stored_texts(path)
    answers = list[list[str]]()
    for _ in range(2):
        readers = ReaderPool(lambda: Database(path, readonly=True))
        index, exact = opened(readers)
        assert (index.is_compact, len(index)) == (True, len(TEXTS))
        for text in TEXTS[::20]:
            found, right = (one.nearest(StableHash().query(text), 10, None) for one in (index, exact))
            assert [one.cosine for one in found] == pytest.approx([one.cosine for one in right], abs=1e-3)
            answers.append([one.owner_id for one in found])
        readers.close()
    assert answers[:10] == answers[10:]
    assert {name.removeprefix("a.db") for name in os.listdir(tmp_path)} <= {"", "-wal", "-shm"}


def test_a_vector_that_the_store_forgot_is_no_answer_and_its_bytes_are_in_no_file(tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "a.db")
    texts = {owner: text for text, owner in stored_texts(path).items()}
    readers = ReaderPool(lambda: Database(path, readonly=True))
    owner = next(readers.here(lambda tx: StoredVectors(tx).turns(SPACE.id)))[0]  # the last ones are not compact yet
    vector = StableHash().passages([texts[owner]])[0]
    index, _ = opened(readers)
    assert index.nearest(vector, 1, None)[0].owner_id == owner
    with closing(Database(path)) as database:
        with database.transaction() as tx:
            StoredVectors(tx).put("turn", owner, SPACE.id, np.empty((0, SPACE.dimension), np.float32))
        assert owner not in {one.owner_id for one in index.nearest(vector, 50, None)}  # the index was not told yet
        index.remove(owner)
        assert len(index) == len(TEXTS) - 1
        readers.close()
        database.checkpoint()
    piece = vector.astype("<f2").tobytes()
    for name in os.listdir(tmp_path):
        with open(os.path.join(tmp_path, name), "rb") as file:
            assert piece not in file.read()
