"""The full-text index holds what the rows say, whatever happened before, and forgets without a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.capture.repository import Turns
from filrouge.memories.repository import Memories
from filrouge.runtime.sqlite import Database
from filrouge.search.analyser import TextAnalyser
from filrouge.search.repository import FullTextIndex, Totals
from filrouge.testing import ManualClock, memory_database
from tests.support.rows import origin, statement, turn
from tests.support.tiers import examples

ANALYSER = TextAnalyser()
TEXTS = st.lists(
    st.sampled_from(["the port", "le port est fermé", "东京", "port port", "3.11", "?!", "a-b-c"]), max_size=8
)


class LaterAnalyser(TextAnalyser):
    """Makes other tokens, and says so."""

    def __init__(self) -> None:
        super().__init__(("spanish",))


def bare(database: Database) -> Any:
    return database.tx._connection  # pyright: ignore[reportPrivateUsage] (what the index holds is no named query)


def held(database: Database) -> list[tuple[str, str]]:
    """What is in the index: the text of the row, and each of its tokens as often as it stands there."""
    places = bare(database).execute(
        "select text, term from messages_places join turns on seq = doc order by text, doc, term, offset"
    )
    return [(str(text), str(term)) for text, term in places]


def filled(texts: list[str], analyser: TextAnalyser = ANALYSER) -> tuple[Database, list[str]]:
    database = memory_database()
    turns = [turn(text, key=f"k{number}") for number, text in enumerate(texts)]
    with database.transaction() as tx:
        assert [Turns(tx, analyser).add(one) for one in turns] == [True] * len(turns)
    return database, [one.id for one in turns]


def sound(database: Database) -> bool:
    for table in ("messages_fts", "memories_fts"):
        list(bare(database).execute(f"insert into {table} ({table}) values ('integrity-check')"))
    return True


@settings(max_examples=examples(20), deadline=None)
@given(TEXTS, st.sets(st.integers(0, 7)))
def test_what_is_removed_leaves_the_index_as_if_it_had_never_been_there(texts: list[str], gone: set[int]) -> None:
    database, ids = filled(texts)
    FullTextIndex(database.tx, ANALYSER, "turn").remove([ids[number] for number in gone if number < len(ids)])
    kept, _ = filled([text for number, text in enumerate(texts) if number not in gone])
    assert held(database) == held(kept)
    mine, other = (FullTextIndex(one.tx, ANALYSER, "turn").totals() for one in (database, kept))
    assert (mine, sound(database)) == (other, True)


@settings(max_examples=examples(20), deadline=None)
@given(TEXTS, st.integers(0, 8))
def test_rows_indexed_by_another_analyser_are_found_and_renewed_in_batches_of_any_size(
    texts: list[str], batch: int
) -> None:
    database, ids = filled(texts, LaterAnalyser())
    words = FullTextIndex(database.tx, ANALYSER, "turn")
    assert sorted(words.stale(99)) == sorted(zip(ids, texts, strict=True))
    words.renew(words.stale(batch))
    assert len(words.stale(99)) == max(0, len(texts) - batch)
    words.renew(words.stale(99))
    assert (words.stale(99), held(database), sound(database)) == ([], held(filled(texts)[0]), True)


def test_a_row_may_be_removed_twice_and_nobody_needs_to_exist() -> None:
    database, ids = filled(["the port", "the door"])
    words = FullTextIndex(database.tx, ANALYSER, "turn")
    for _ in range(2):
        words.remove([ids[0], "01unknown"])
    assert (words.totals(), sound(database)) == (Totals(rows=1, tokens=2), True)


def test_a_row_deleted_without_a_word_takes_its_words_along() -> None:
    database, _ = filled(["the port", "the door"])
    bare(database).execute("delete from turns where text = 'the port'")
    assert (held(database), sound(database)) == ([("the door", "door"), ("the door", "the")], True)


def test_many_rows_are_deleted_after_they_are_unindexed_together() -> None:
    database, ids = filled([f"port number{number}" for number in range(50)])
    with database.transaction() as tx:
        FullTextIndex(tx, ANALYSER, "turn").remove(ids[:40])
        bare(database).execute("delete from turns where seq <= 40")
    assert FullTextIndex(database.tx, ANALYSER, "turn").frequencies(["port", "gone"]) == {"port": 10}
    assert sound(database)


def test_a_memory_leaves_no_byte_of_its_words_whatever_analyser_indexed_them(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "a.db"))
    database.migrate(ManualClock())
    with database.transaction() as tx:
        later = Memories(tx, LaterAnalyser())
        for number in range(100):
            later.add(statement(f"ordinary fact number{number}"), origin(), "new")
        secret = later.add(statement("the zanzibarquuxes are secret"), origin(), "new").memory_id
    with database.transaction() as tx:
        FullTextIndex(tx, ANALYSER, "memory").remove([secret])
        bare(database).execute("delete from memories where id = ?", (secret,))
        bare(database).execute("delete from journal where subject_id = ?", (secret,))
    database.checkpoint()
    assert sound(database)
    for path in tmp_path.iterdir():
        assert b"zanzibar" not in path.read_bytes().lower()


def test_the_index_knows_its_size() -> None:
    empty, _ = filled([])
    assert FullTextIndex(empty.tx, ANALYSER, "turn").totals() == Totals(rows=0, tokens=0)
    assert FullTextIndex(empty.tx, ANALYSER, "memory").totals().mean == 0.0
    database, _ = filled(["red " * 200] * 300 + ["?"])
    totals = FullTextIndex(database.tx, ANALYSER, "turn").totals()
    assert (totals.rows, totals.tokens, totals.mean) == (300, 60_000, 200.0)


@pytest.mark.parametrize("text", ["", "?!", " "])
def test_a_text_without_words_is_stored_and_deleted_like_any_other(text: str) -> None:
    database, _ = filled([text, "the port"])
    bare(database).execute("delete from turns where text = ?", (text,))
    assert (FullTextIndex(database.tx, ANALYSER, "turn").totals().rows, sound(database)) == (1, True)
