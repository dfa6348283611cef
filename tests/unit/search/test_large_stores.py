"""A large table's words are in an index of their own, which comes and goes without anybody noticing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from filrouge.core.clock import SystemClock
from filrouge.core.paths import DATABASE, WORD_INDEXES
from filrouge.memories.models import Filters, Update
from filrouge.memories.repository import Origin
from filrouge.runtime import wiring
from filrouge.runtime.services import Parts
from filrouge.search.repository import FullTextIndex, LargeWords, WordFiles
from filrouge.search.service import Question, recall, search_turns
from tests.support.rows import NOON, origin, statement, turn

TEXTS = [
    f"the {word} of {place} is number {place * 7}" for place in range(30) for word in ("port", "owner", "zanzibar")
]
QUESTIONS = ("which port has number 21", "the zanzibar of 3", "owner", "number 203", "to be or not to be")


@contextmanager
def opened(home: Path, *, switch: int = 50) -> Generator[Parts]:
    """A store whose tables are large from `switch` rows on; nothing runs but what a test asks for."""
    parts = wiring.build(str(home), environ={"FILROUGE_EMBEDDING_MODEL": "hashing"}, clock=SystemClock())
    files = WordFiles(str(home / WORD_INDEXES), parts.analyser.version)
    parts.words = LargeWords(files, parts.analyser, switch=switch)
    try:
        yield parts
    finally:
        parts.words.close()
        parts.readers.close()
        parts.writer.close()


def store(parts: Parts, texts: Sequence[str]) -> None:
    parts.writer.run(lambda tx: [parts.turns(tx).add(turn(text)) for text in texts])


def feed(parts: Parts) -> None:
    parts.words.feed(parts.readers.here)


def is_large(parts: Parts) -> bool:
    return parts.readers.here(lambda tx: parts.words.view(tx, "turn")) is not None


def found(parts: Parts, text: str) -> list[str]:
    question = Question(text=text, everywhere=True, mode="text")
    return [hit.text for hit in parts.readers.here(lambda tx: search_turns(parts, tx, question)).hits]


def recalled(parts: Parts, text: str, filters: Filters | None = None) -> list[str]:
    question = Question(text=text, everywhere=True, mode="text", filters=filters or Filters())
    return [hit.text for hit in parts.readers.here(lambda tx: recall(parts, tx, question)).hits]


def known_to_index(parts: Parts, word: str) -> int:
    view = parts.readers.here(lambda tx: parts.words.view(tx, "turn"))
    assert view is not None
    return view.counted([word], None).having[word]


def test_a_table_that_grows_large_gets_an_index_by_itself_and_answers_as_before(tmp_path: Path) -> None:
    with opened(tmp_path) as parts:
        store(parts, TEXTS[:49])
        feed(parts)
        assert (is_large(parts), (tmp_path / WORD_INDEXES).exists()) == (False, False)
        store(parts, TEXTS[49:])
        before = [sorted(found(parts, question)[:1]) for question in QUESTIONS]
        feed(parts)
        assert is_large(parts)
        assert [sorted(found(parts, question)[:1]) for question in QUESTIONS] == before


def test_what_was_just_stored_is_found_before_the_index_knows_it(tmp_path: Path) -> None:
    with opened(tmp_path) as parts:
        store(parts, TEXTS)
        feed(parts)
        store(parts, ["the harbour of Valparaiso"])
        assert is_large(parts)
        assert found(parts, "harbour of valparaiso")[0] == "the harbour of Valparaiso"
        feed(parts)
        assert found(parts, "harbour of valparaiso")[0] == "the harbour of Valparaiso"


def test_a_fresh_turn_stands_where_it_stands_once_it_is_indexed(tmp_path: Path) -> None:
    with opened(tmp_path) as parts:
        store(parts, TEXTS)
        feed(parts)
        store(parts, ["the port of the harbour", "a port", "which port, which number, which zanzibar"])
        fresh = [found(parts, question) for question in QUESTIONS]
        feed(parts)
        assert [found(parts, question) for question in QUESTIONS] == fresh


def test_where_the_index_lags_too_far_the_store_answers(tmp_path: Path) -> None:
    with opened(tmp_path) as parts:
        store(parts, TEXTS)
        feed(parts)
        store(parts, [f"noise {number}" for number in range(1001)])
        assert not is_large(parts)
        assert len(found(parts, "noise 77")) == 10
        feed(parts)
        assert is_large(parts)


@pytest.mark.parametrize("spoil", ["gone", "torn", "another analyser"])
def test_files_that_were_deleted_or_spoiled_meanwhile_are_made_again_with_the_same_answers(
    tmp_path: Path, spoil: str
) -> None:
    with opened(tmp_path) as parts:
        store(parts, TEXTS)
        feed(parts)
        before = [found(parts, question) for question in QUESTIONS]
    if spoil == "gone":
        shutil.rmtree(tmp_path / WORD_INDEXES)
    elif spoil == "torn":
        [path] = (tmp_path / WORD_INDEXES / "turn").glob("*.idx")
        path.write_bytes(path.read_bytes()[:-20])
    else:
        header = tmp_path / WORD_INDEXES / "turn" / "header.json"
        header.write_text(header.read_text().replace('"analyser": ', '"analyser": 9'))
    with opened(tmp_path) as parts:
        assert sorted(found(parts, "owner")) == sorted(found(parts, "owner"))  # by the store alone
        feed(parts)
        assert is_large(parts)
        assert [found(parts, question) for question in QUESTIONS] == before


def test_files_that_are_deleted_under_a_running_daemon_are_made_again(tmp_path: Path) -> None:
    with opened(tmp_path) as parts:
        store(parts, TEXTS)
        feed(parts)
        before = [found(parts, question) for question in QUESTIONS]
        shutil.rmtree(tmp_path / WORD_INDEXES)
        assert [found(parts, question) for question in QUESTIONS] == before
        store(parts, ["the harbour of Valparaiso"])
        for _ in range(2):  # the first one meets the trouble
            feed(parts)
            assert found(parts, "harbour of valparaiso")[0] == "the harbour of Valparaiso"
        assert is_large(parts)
        assert known_to_index(parts, "valparaiso") == 1


def test_a_superseded_memory_is_out_at_once_and_back_for_its_own_time(tmp_path: Path) -> None:
    with opened(tmp_path, switch=1) as parts:
        add = parts.writer.run(lambda tx: parts.memories(tx).add(statement("Staging listens on 8443"), origin(), "new"))
        feed(parts)
        later = Origin(scope=origin().scope, trust=2, at=NOON + timedelta(days=1))
        update = Update(statement=statement("Staging listens on 9443"), old_ids=(add.memory_id,), reason="changed")
        parts.writer.run(lambda tx: parts.memories(tx).apply(update, later))
        for _ in ("before the index knows", "afterwards"):
            assert recalled(parts, "where does staging listen") == ["Staging listens on 9443"]
            then = Filters(as_of=NOON + timedelta(hours=1))
            assert recalled(parts, "where does staging listen", then) == ["Staging listens on 8443"]
            feed(parts)


def test_nothing_of_a_forgotten_row_is_in_a_file_of_the_index(tmp_path: Path) -> None:
    with opened(tmp_path) as parts:
        store(parts, TEXTS)
        canary = turn("quetzalcoatl lives here")
        parts.writer.run(lambda tx: parts.turns(tx).add(canary))
        feed(parts)
        assert known_to_index(parts, "quetzalcoatl") == 1
        parts.writer.run(lambda tx: FullTextIndex(tx, parts.analyser, "turn").remove([canary.id]))
        connection: Any = apsw.Connection(str(tmp_path / DATABASE))
        connection.execute("delete from turns where id = ?", (canary.id,))
        connection.close()
        parts.words.forget("turn", [canary.id])
        assert [path for path in (tmp_path / WORD_INDEXES).rglob("*") if path.is_file()] == []
        assert (is_large(parts), found(parts, "quetzalcoatl"), len(found(parts, "owner"))) == (False, [], 10)
        feed(parts)
        assert (is_large(parts), known_to_index(parts, "quetzalcoatl")) == (True, 0)
        assert b"quetzalcoatl" not in b"".join(
            path.read_bytes() for path in (tmp_path / WORD_INDEXES / "turn").iterdir()
        )


FEEDING = """
import sys
from pathlib import Path
from tests.unit.search.test_large_stores import feed, opened, store
with opened(Path(sys.argv[1])) as parts:
    for number in range(10_000):
        store(parts, [f"the anchor of ship {number} and {number + step}" for step in range(20)])
        feed(parts)
        print(number, flush=True)
"""


def test_a_process_killed_while_it_feeds_leaves_a_store_that_answers_right(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FEEDING, str(tmp_path)]
    for pause in (0.0, 0.013, 0.031):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3])
        assert child.stdout is not None
        for _ in range(6):
            child.stdout.readline()
        time.sleep(pause)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        with opened(tmp_path) as parts:
            feed(parts)
            assert is_large(parts)
            count = parts.readers.here(lambda tx: tx.all("turns.count"))[0]["n"]
            view = parts.readers.here(lambda tx: parts.words.view(tx, "turn"))
            assert view is not None
            assert view.counted(["anchor"], None).rows == count
            assert view.counted(["anchor"], None).having == {"anchor": count}
            assert found(parts, "anchor of ship 3")
