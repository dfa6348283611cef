"""A store that an earlier analyser indexed: its rows are found at once, and indexed again behind the scenes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from filrouge.core.paths import DATABASE
from filrouge.runtime.services import Parts
from filrouge.search.analyser import any_of
from filrouge.search.models import IndexedTable
from filrouge.search.repository import FullTextIndex
from filrouge.search.service import Question, search_turns
from filrouge.search.spaces import JOB, MIN_BATCH, queue_stale_words, retokenise
from filrouge.testing import TextAnalyser, idle, running
from tests.support.given import SHOP, known, say

#: What version 1 stored for these texts: each word, its English and its French stem.
AT = "2026-05-01T12:00:00.000000Z"
TURN, TURN_TOKENS = "les étudiants", "les les0en le0fr etudiants etudi0en etudi0fr"
MEMORY, MEMORY_TOKENS = "The reports use Typst", "the the0en the0fr reports report0en report0fr use typst typst0en"


def opened(home: Path) -> Any:  # apsw's stubs leave the types of its bindings open
    connection: Any = apsw.Connection(str(home / DATABASE))
    connection.execute("pragma foreign_keys = on")
    return connection


def put_back(connection: Any, tokens: dict[str, str], table: str, index: str) -> None:
    """Index rows again as version 1 did."""
    for text, old in tokens.items():
        [(seq,)] = connection.execute(f"select seq from {table} where text = ?", (text,)).fetchall()
        connection.execute(
            f"insert into {index}_fts ({index}_fts, rowid, tokens)"
            f" select 'delete', doc, group_concat(term, ' ') from {index}_places where doc = ?",
            (seq,),
        )
        connection.execute(f"insert into {index}_fts (rowid, tokens) values (?, ?)", (seq, old))
        connection.execute(f"update {table} set analyser = 1 where seq = ?", (seq,))


@pytest.fixture
def old_home(tmp_path: Path) -> Path:
    """A home whose turn and memory carry the tokens of version 1."""
    home = tmp_path / "home"
    with running(str(home)) as parts:
        say(parts, TURN)
        say(parts, f"remember: {MEMORY}")
    connection = opened(home)
    [(memory,)] = connection.execute("select text from memories").fetchall()
    put_back(connection, {TURN: TURN_TOKENS}, "turns", "messages")
    put_back(connection, {memory: MEMORY_TOKENS}, "memories", "memories")
    connection.close()
    return home


def turns_found(parts: Parts, query: str) -> list[str]:
    question = Question(text=query, everywhere=True, mode="text")
    return [hit.text for hit in parts.readers.here(lambda tx: search_turns(parts, tx, question)).hits]


def stale(parts: Parts) -> dict[IndexedTable, int]:
    owners: tuple[IndexedTable, ...] = ("memory", "turn")
    return {
        one: len(parts.readers.here(lambda tx, one=one: FullTextIndex(tx, parts.analyser, one).stale(99)))
        for one in owners
    }


def test_an_upgraded_store_is_found_by_other_forms_of_its_words(old_home: Path) -> None:
    with running(str(old_home)) as parts:
        queue_stale_words(parts)  # as the start does, in its own time
        idle(parts)
        assert stale(parts) == {"memory": 0, "turn": 0}
        assert turns_found(parts, "étudiant") == [TURN]
        assert [hit.text for hit in known(parts, "report", SHOP).hits] == [MEMORY]
    left = [term for (term,) in opened(old_home).execute("select term from messages_words")]
    assert [term for term in left if term.endswith(("0en", "0fr"))] == []


def test_a_row_not_yet_reached_is_found_by_its_own_words(old_home: Path) -> None:
    connection = opened(old_home)
    for word in ("ÉTUDIANTS", "les"):
        match = any_of(TextAnalyser().terms(word))
        assert list(connection.execute("select rowid from messages_fts where messages_fts match ?", (match,)))


def test_a_batch_that_was_cut_short_is_done_again(old_home: Path) -> None:
    with running(str(old_home)) as parts:
        queue_stale_words(parts)
        idle(parts)
        connection = opened(old_home)
        put_back(connection, {TURN: TURN_TOKENS}, "turns", "messages")
        connection.close()
        outcome = retokenise(parts, {"owner": "turn"})

        def killed(tx: Any) -> None:
            outcome.write(tx)
            raise KeyboardInterrupt

        with pytest.raises(RuntimeError):
            parts.writer.submit(lambda tx: _as_error(killed, tx)).result(60)
        assert stale(parts)["turn"] == 1
        queue_stale_words(parts)
        parts.work_waiting.set()
        idle(parts)
        assert (stale(parts)["turn"], turns_found(parts, "étudiant")) == (0, [TURN])


def _as_error(write: Any, tx: Any) -> None:
    """A killed process takes its transaction with it; here an error does, since the lane must live on."""
    try:
        write(tx)
    except KeyboardInterrupt as error:
        raise RuntimeError from error


def test_many_rows_take_many_batches_and_each_asks_for_the_next(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with running(str(home)) as parts:
        say(parts, "the ports of number0")
    connection = opened(home)
    columns = (
        "id, key, host, session_id, channel, role, source, text, text_hash, analyser, trust, at, row_key, row_hash"
    )
    with connection:
        for number in range(1, MIN_BATCH * 2 + 1):
            text = f"the ports of number{number}"
            said = ("codex", "s", "codex", "assistant", "reply")
            row = (f"t{number}", f"k{number}", *said, text, text, 1, 2, AT, b"", b"")
            connection.execute(f"insert into turns ({columns}) values ({', '.join('?' * len(row))})", row)
            seq = connection.last_insert_rowid()
            connection.execute("insert into messages_fts (rowid, tokens) values (?, ?)", (seq, f"{text} port0en"))
    connection.close()
    with running(str(home)) as parts:
        queue_stale_words(parts)
        idle(parts)
        words = parts.readers.here(
            lambda tx: FullTextIndex(tx, parts.analyser, "turn").frequencies(["port", "port0en"])
        )
        assert (stale(parts)["turn"], words) == (0, {"port": MIN_BATCH * 2 + 1})


def test_nothing_is_queued_where_nothing_is_stale(tmp_path: Path) -> None:
    with running(str(tmp_path / "home")) as parts:
        say(parts, TURN)
        queue_stale_words(parts)
        jobs = parts.readers.here(lambda tx: tx.all("jobs.dead") + tx.all("jobs.count"))
        assert [job for job in jobs if job.get("kind") == JOB] == jobs == []
