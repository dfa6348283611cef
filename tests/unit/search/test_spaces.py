"""Embedding spaces: which one is read, that two never mix, and how the memory moves from one to another."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from filrouge.core.clock import SystemClock
from filrouge.core.errors import BadConfig
from filrouge.core.protocols import Embedder, Tx
from filrouge.maintenance.health import status
from filrouge.memories.changes import put_fact, remember, remember_many
from filrouge.providers.embedders import windows
from filrouge.providers.models import Calibration
from filrouge.runtime import wiring
from filrouge.runtime.services import Parts
from filrouge.search.repository import Spaces, StoredVectors
from filrouge.search.service import Question, recall, search_turns
from filrouge.search.spaces import describe, recalibrate, reindex
from filrouge.search.vector_search import NOTICE_NO_EMBEDDER
from filrouge.testing import AnotherHash, idle, running
from tests.support.given import SHOP, known, say

PORT = "For the record: production listens on port 8443."
QUESTION = "What port does production listen on?"
OLD, NEW = "old/1/384/sum/none", "new/1/384/sum/none"
Makers = Mapping[str, Callable[[], Embedder]]


def makers(*names: str) -> dict[str, Callable[[], Embedder]]:
    return {name: lambda name=name: AnotherHash(name) for name in names}


@contextmanager
def at_work(home: Path, embedding: str, some: Makers | None = None) -> Generator[Parts]:
    with running(str(home), embedding=embedding, makers=makers("old", "new") if some is None else some) as parts:
        idle(parts)
        yield parts


def told(parts: Parts) -> dict[str, Any]:
    return parts.readers.here(lambda tx: describe(parts, tx))


def states(parts: Parts) -> dict[str, str]:
    return parts.readers.here(lambda tx: {one.id: one.state for one in Spaces(tx).all()})


def owners(parts: Parts) -> Counter[str]:
    """How many owners have vectors, by space, read from the rows themselves."""
    spaces = states(parts)
    done = {id_: parts.readers.here(lambda tx, id_=id_: StoredVectors(tx).coverage(id_)[0]) for id_ in spaces}
    return Counter({id_: n for id_, n in done.items() if n})


def fill(parts: Parts, count: int = 40) -> list[str]:
    texts = [f"Server number{n} is in room {n}" for n in range(count)]
    remember_many(parts, texts, names=SHOP, scope="project")
    idle(parts)
    return texts


def by_meaning(parts: Parts, question: str) -> list[str]:
    asked = Question(text=question, project=SHOP[0], mode="semantic")
    return [hit.text for hit in parts.readers.here(lambda tx: recall(parts, tx, asked)).hits]


def test_with_no_vectors_stored_the_wanted_embedder_is_adopted_at_once(tmp_path: Path) -> None:
    with at_work(tmp_path, "old") as parts:
        assert states(parts) == {OLD: "current"}
    with at_work(tmp_path, "new") as parts:
        assert states(parts) == {OLD: "retired", NEW: "current"}
        assert told(parts)["notice"] == ""
        fill(parts, 3)
        assert owners(parts) == {NEW: 3}


def test_another_wanted_embedder_waits_for_a_reindex_and_new_texts_join_the_current_space(tmp_path: Path) -> None:
    with at_work(tmp_path, "old") as parts:
        say(parts, PORT)
    with at_work(tmp_path, "new") as parts:
        say(parts, "For the record: staging listens on port 7443.")
        assert "8443" in known(parts, QUESTION).hits[0].text
        assert by_meaning(parts, "staging listens on port 7443")
        assert known(parts, QUESTION).notices == ()
        assert owners(parts) == {OLD: 4}
        found = told(parts)
        assert (found["space"], found["wanted"], found["building"]) == (OLD, {"embedder": "new", "space": NEW}, None)
        assert "filrouge reindex" in found["notice"]
        assert parts.readers.here(lambda tx: status(parts, tx))["embedding_notice"] == found["notice"]


def test_the_same_name_with_another_engine_leaves_the_current_space_to_whoever_makes_it(tmp_path: Path) -> None:
    with at_work(tmp_path, "e5", {"e5": lambda: AnotherHash("old")}) as parts:
        say(parts, PORT)
    changed = {"e5": lambda: AnotherHash("new"), "e5-before": lambda: AnotherHash("old")}
    with at_work(tmp_path, "e5", changed) as parts:
        assert (told(parts)["space"], told(parts)["embedder"]) == (OLD, "e5-before")
        assert known(parts, QUESTION).notices == ()
        assert reindex(parts)["building"]["space"] == NEW
        idle(parts)
        assert (told(parts)["space"], told(parts)["embedder"]) == (NEW, "e5")


@pytest.mark.parametrize("wanted", ["new", "nobody"])
def test_where_nobody_makes_the_current_space_words_are_searched_until_a_reindex(tmp_path: Path, wanted: str) -> None:
    with at_work(tmp_path, "old") as parts:
        say(parts, PORT)
    with at_work(tmp_path, wanted, makers("new")) as parts:
        remember(parts, "The staging database is called tide.", names=SHOP, scope="project", host="cli")
        idle(parts)
        found = known(parts, QUESTION)
        assert ("8443" in found.hits[0].text, found.notices) == (True, (NOTICE_NO_EMBEDDER,))
        assert owners(parts) == {OLD: 2}
        assert parts.readers.here(lambda tx: status(parts, tx))["queue"]["dead"] == 0
        assert ("Only words" in told(parts)["notice"], told(parts)["available"]) == (True, False)
        reindex(parts, "new")
        idle(parts)
        assert (known(parts, QUESTION).notices, owners(parts)) == ((), {NEW: 4})
        assert by_meaning(parts, "staging database is called tide")[0].startswith("The staging database")


def test_an_unknown_embedder_is_named_and_keeps_nobody_from_starting(tmp_path: Path) -> None:
    with at_work(tmp_path, "nobody") as parts:
        say(parts, PORT)
        assert "8443" in known(parts, QUESTION).hits[0].text
        assert "no embedder 'nobody'" in told(parts)["notice"]
    with at_work(tmp_path, "old") as parts:
        assert (owners(parts), told(parts)["coverage"]["share"]) == ({OLD: 2}, 1.0)


def test_a_reindex_answers_its_progress_and_ends_in_one_space_with_nothing_left_behind(tmp_path: Path) -> None:
    with at_work(tmp_path, "old") as parts:
        texts = fill(parts, 100)
        found = reindex(parts, "new")
        assert found["building"] | {"state": "waiting", "done": 0, "attempts": 0} == {
            "space": NEW, "model": "new", "embedder": "new", "done": 0, "total": 100, "state": "waiting",
            "attempts": 0, "error": "",
        }  # fmt: skip
        idle(parts)
        assert (owners(parts), states(parts)) == ({NEW: 100}, {OLD: "retired", NEW: "current"})
        assert told(parts)["coverage"] == {"done": 100, "total": 100, "share": 1.0}
        assert parts.vectors.space.id == NEW
        assert by_meaning(parts, texts[17])[0] == texts[17]
        assert [parts.readers.here(lambda tx: tx.one("vectors.any", {"space_id": OLD}))] == [None]


def test_recall_reads_one_space_throughout_and_captures_go_between(tmp_path: Path) -> None:
    slow = AnotherHash("new")
    with at_work(tmp_path, "old", makers("old") | {"new": lambda: slow}) as parts:
        texts = fill(parts, 120)
        slow.seconds = 0.01
        reindex(parts, "new")
        seen, wrong, waited = Counter[str](), list[str](), list[float]()
        while (building := told(parts)["building"]) is not None:
            began = time.monotonic()
            meaning = parts.vectors
            asked = texts[len(waited) % len(texts)]
            vector, notices = meaning.question(asked)
            assert (vector is not None, notices) == (True, ())
            cosine = (
                max(one.cosine for one in meaning.memory_index.nearest(vector, 3, None)) if vector is not None else 0
            )
            wrong += [asked] if cosine < 0.99 or by_meaning(parts, asked)[0] != asked else []
            waited.append(time.monotonic() - began)
            seen[meaning.space.id] += 1
            if len(waited) == 3:
                assert building["done"] < 120
                say_now(parts, f"Correction for the record: build {len(waited)} listens on port 9111.")
        assert wrong == []
        assert max(waited) < 1.0
        idle(parts)
        assert seen[OLD] > 3
        assert owners(parts).keys() == {NEW}
        assert told(parts)["coverage"]["share"] == 1.0
        assert any("9111" in text for text in by_meaning(parts, "build 3 listens on port 9111"))


def say_now(parts: Parts, text: str) -> None:
    remember(parts, text, names=SHOP, scope="project", host="cli")


def test_what_is_written_while_the_space_is_swapped_misses_neither_vectors_nor_index(tmp_path: Path) -> None:
    with at_work(tmp_path, "old") as parts:
        fill(parts, 60)
        enough, count = threading.Event(), 0

        def write() -> None:
            nonlocal count
            while not enough.is_set():
                put_fact(parts, f"key{count % 7}", f"value {count}", names=(), scope="user")
                count += 1
                time.sleep(0.002)

        writer = threading.Thread(target=write)
        writer.start()
        for model in ("new", "old", "new"):
            reindex(parts, model)
            deadline = time.monotonic() + 60
            while parts.vectors.name != model:
                assert time.monotonic() < deadline
                time.sleep(0.005)
        enough.set()
        writer.join()
        idle(parts)
        assert count > 10
        assert owners(parts) == {NEW: 67}
        assert told(parts)["coverage"]["share"] == 1.0
        assert len(parts.vectors.memory_index) == 67
        assert [parts.readers.here(lambda tx: tx.one("vectors.any", {"space_id": OLD}))] == [None]


def test_a_space_is_in_building_until_recall_reads_it_and_not_only_until_it_is_complete(tmp_path: Path) -> None:
    with at_work(tmp_path, "old") as parts:
        known(parts, PORT)
        space = parts.embedders.named("new").space

        def complete(tx: Tx) -> None:
            Spaces(tx).declare(space, "new")
            Spaces(tx).begin(space.id)
            Spaces(tx).make_current(space.id)

        parts.writer.run(complete)
        found = told(parts)
        assert (found["space"], found["building"]["space"], found["building"]["state"]) == (OLD, NEW, "running")


def test_another_target_replaces_the_one_in_building(tmp_path: Path) -> None:
    slow = AnotherHash("slow", seconds=0.02)
    with at_work(tmp_path, "old", makers("old", "new") | {"slow": lambda: slow}) as parts:
        fill(parts, 100)
        reindex(parts, "slow")
        while slow.asked < 40:
            time.sleep(0.01)
        assert reindex(parts, "new")["building"]["space"] == NEW
        idle(parts)
        assert states(parts) == {OLD: "retired", slow.space.id: "retired", NEW: "current"}
        assert (owners(parts), slow.asked < 100) == ({NEW: 100}, True)


def test_going_back_while_a_space_is_in_building_gives_it_up(tmp_path: Path) -> None:
    slow = AnotherHash("slow", seconds=0.02)
    with at_work(tmp_path, "old", makers("old") | {"slow": lambda: slow}) as parts:
        fill(parts, 100)
        reindex(parts, "slow")
        while slow.asked < 40:
            time.sleep(0.01)
        reindex(parts, "old")
        idle(parts)
        assert (states(parts), owners(parts)) == ({OLD: "current", slow.space.id: "retired"}, {OLD: 100})


def test_an_embedder_that_fails_midway_is_tried_again_and_says_why(tmp_path: Path) -> None:
    weak = AnotherHash("weak", seconds=0.002)
    with at_work(tmp_path, "old", makers("old") | {"weak": lambda: weak}) as parts:
        texts = fill(parts, 100)
        reindex(parts, "weak")
        while weak.asked < 40:
            time.sleep(0.002)
        weak.failing = True
        deadline = time.monotonic() + 60
        while not told(parts)["building"]["error"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        building = told(parts)["building"]
        assert (building["error"], building["attempts"] >= 1) == ("weak fails because a test asked for it.", True)
        assert 16 <= building["done"] < 100
        assert by_meaning(parts, texts[3])[0] == texts[3]
        weak.failing = False
        assert reindex(parts, "weak")["building"]["error"] == ""  # asked again, it does not wait for its next try
        idle(parts)
        assert owners(parts) == {weak.space.id: 100}


def test_a_reindex_to_the_same_space_makes_only_what_is_missing(tmp_path: Path) -> None:
    one = AnotherHash("old")
    with at_work(tmp_path, "old", {"old": lambda: one}) as parts:
        fill(parts, 10)
        assert reindex(parts)["building"] is None
        asked = one.asked
        lost = parts.readers.here(lambda tx: parts.memories(tx).within(project=SHOP[0], user="local"))[0].id
        place = {"owner_kind": "memory", "owner_id": lost, "space_id": OLD, "first": 0, "last": 9}
        parts.writer.run(lambda tx: tx.run("vectors.drop", place))
        assert told(parts)["coverage"] == {"done": 9, "total": 10, "share": 0.9}
        assert reindex(parts)["building"]["space"] == OLD
        idle(parts)
        assert (one.asked - asked, told(parts)["coverage"]["share"]) == (1, 1.0)


def test_an_unknown_model_is_refused_and_nothing_is_begun(tmp_path: Path) -> None:
    with at_work(tmp_path, "old") as parts:
        fill(parts, 2)
        with pytest.raises(BadConfig, match="'gpt'"):
            reindex(parts, "gpt")
        assert (told(parts)["building"], states(parts)) == (None, {OLD: "current"})


def test_the_model_of_a_reindex_becomes_the_setting_unless_it_is_fixed(tmp_path: Path) -> None:
    with at_work(tmp_path / "free", "", {"e5": lambda: AnotherHash("old"), "new": lambda: AnotherHash("new")}) as parts:
        reindex(parts, "new")
        assert parts.readers.here(parts.effective).settings.embedding_model == "new"
    with at_work(tmp_path / "fixed", "old") as parts:
        fill(parts, 2)
        reindex(parts, "new")
        idle(parts)
        assert parts.readers.here(parts.effective).settings.embedding_model == "old"
        assert (told(parts)["space"], "filrouge reindex" in told(parts)["notice"]) == (NEW, True)


def test_a_measured_calibration_counts_at_once_and_after_a_restart(tmp_path: Path) -> None:
    line = ((0.1, 0.0), (1.0, 1.0))
    measured = Calibration(texts=line, questions=line, origin="turns", pairs=900)
    with at_work(tmp_path, "old") as parts:
        say(parts, PORT)
        before = known(parts, QUESTION).hits[0].similarity or 0.0
        index = parts.vectors.memory_index
        recalibrate(parts, measured)
        after = known(parts, QUESTION).hits[0].similarity
        assert after == pytest.approx((before - 0.1) / 0.9)
        assert parts.vectors.memory_index is index
    with at_work(tmp_path, "old") as parts:
        assert known(parts, QUESTION).hits[0].similarity == pytest.approx(after, abs=1e-3)
        assert told(parts)["calibration"] == {
            "origin": "turns", "pairs": 900, "texts": [[0.1, 0.0], [1.0, 1.0]], "questions": [[0.1, 0.0], [1.0, 1.0]],
        }  # fmt: skip


def test_a_reindex_goes_on_where_a_stopped_daemon_left_it(tmp_path: Path) -> None:
    slow = AnotherHash("new", seconds=0.01)
    some = makers("old") | {"new": lambda: slow}
    with at_work(tmp_path, "old", some) as parts:
        fill(parts, 150)
        reindex(parts, "new")
        while slow.asked < 70:
            time.sleep(0.01)
    slow.seconds = 0.0
    with at_work(tmp_path, "old", some) as parts:
        assert (owners(parts), slow.asked < 230) == ({NEW: 150}, True)


def test_a_text_of_many_windows_is_embedded_in_passes_and_found_by_its_end(tmp_path: Path) -> None:
    note = "The quick brown fox jumps over the lazy dog. " * 2300 + "The zebra archive opens with code tangerine."
    last = windows(note)[-1]
    with at_work(tmp_path, "old") as parts:
        remember(parts, note, names=SHOP, scope="project", host="cli")
        idle(parts)
        [memory] = known(parts, "zebra archive tangerine").hits
        assert memory.similarity is not None
        turns = Question(text=last, everywhere=True, mode="semantic")
        [turn] = parts.readers.here(lambda tx: search_turns(parts, tx, turns)).hits
        assert turn.similarity == pytest.approx(1.0, abs=0.01)
        reindex(parts, "new")
        idle(parts)
        [again] = known(parts, last).hits
        assert (again.similarity, owners(parts)) == (pytest.approx(1.0, abs=0.01), {NEW: 2})


def test_windows_of_an_interrupted_text_are_made_anew(tmp_path: Path) -> None:
    with at_work(tmp_path, "old") as parts:
        fill(parts, 1)
        memory = parts.readers.here(lambda tx: parts.memories(tx).within(project=SHOP[0], user="local"))[0].id
        torn = {"owner_kind": "memory", "owner_id": memory, "space_id": OLD}
        parts.writer.run(lambda tx: tx.run("vectors.drop", torn | {"first": 0, "last": 0}))
        parts.writer.run(lambda tx: tx.many("vectors.put", [torn | {"part": 7, "vector": b"\0" * 768}]))
    with at_work(tmp_path, "old") as parts:
        rows = parts.readers.here(lambda tx: tx.all("vectors.of", torn))
        assert ([row["part"] for row in rows], told(parts)["coverage"]["share"]) == ([0], 1.0)


def test_a_home_whose_embedder_is_down_from_the_start_gets_its_vectors_later(tmp_path: Path) -> None:
    down = wiring.build(
        str(tmp_path), environ={"FILROUGE_EMBEDDING_MODEL": "gone"}, clock=SystemClock(), embedder_factories={}
    )
    try:
        assert down.vectors.is_lost
        remember(down, PORT, names=SHOP, scope="project", host="cli")
    finally:
        down.readers.close()
        down.writer.close()
    with at_work(tmp_path, "old") as parts:
        assert owners(parts) == {OLD: 2}
