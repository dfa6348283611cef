"""The journal notices any edit, removal or reordering, and stays whole when a payload is forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from filrouge.runtime.journal import Journal, matches_seal, seal, seal_digest
from filrouge.testing import memory_database
from tests.support.rows import NOON
from tests.support.tiers import examples

TEXTS = ("tenant", "at", "actor", "action", "subject_id", "payload")
BYTES = ("payload_key", "payload_hash", "hash")


def written(entries: int) -> tuple[Journal, Any]:
    """A journal of so many entries, and the connection of who tampers with it."""
    database = memory_database()
    journal = Journal(database.tx)
    for number in range(entries):
        journal.append(at=NOON, actor="user", action="add", subject_id=f"m{number}", payload={"text": f"é {number}"})
    return journal, database.tx._connection  # pyright: ignore[reportPrivateUsage] (the intruder's way in)


def test_an_untouched_journal_is_sound() -> None:
    verdict = written(5)[0].verify()
    assert (verdict.sound, verdict.entries, verdict.redacted, verdict.reason) == (True, 5, 0, "")
    assert written(0)[0].verify().sound


@settings(max_examples=examples(30), deadline=None)
@given(
    st.integers(1, 4), st.sampled_from(TEXTS), st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"))
)
def test_any_edited_text_is_found(seq: int, column: str, text: str) -> None:
    journal, connection = written(4)
    before = connection.execute(f"select {column} from journal where seq = ?", (seq,)).fetchone()[0]
    assume(text != before)
    connection.execute(f"update journal set {column} = ? where seq = ?", (text, seq))
    verdict = journal.verify()
    assert (verdict.sound, verdict.broken_at) == (False, seq)


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(1, 4), st.sampled_from(BYTES), st.integers(0, 31), st.integers(1, 255))
def test_any_flipped_byte_is_found(seq: int, column: str, place: int, flip: int) -> None:
    journal, connection = written(4)
    before = bytearray(connection.execute(f"select {column} from journal where seq = ?", (seq,)).fetchone()[0])
    before[place] ^= flip
    connection.execute(f"update journal set {column} = ? where seq = ?", (bytes(before), seq))
    assert journal.verify().broken_at == seq


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_removed_entry_is_found(gone: int) -> None:
    journal, connection = written(4)
    connection.execute("delete from journal where seq = ?", (gone,))
    assert journal.verify().broken_at == gone + 1


@given(st.permutations([1, 2, 3, 4]))
@settings(max_examples=examples(12), deadline=None)
def test_any_other_order_is_found(order: list[int]) -> None:
    assume(order != [1, 2, 3, 4])
    journal, connection = written(4)
    connection.execute("update journal set seq = -seq")
    for place, seq in enumerate(order, start=1):
        connection.execute("update journal set seq = ? where seq = ?", (place, -seq))
    assert not journal.verify().sound


def test_a_forgotten_payload_reads_redacted_and_breaks_nothing() -> None:
    journal, connection = written(4)
    connection.execute("update journal set payload = null, payload_key = null where seq = 2")
    verdict = journal.verify()
    assert (verdict.sound, verdict.entries, verdict.redacted) == (True, 4, 1)
    assert journal.entries_about("m1")[0].payload is None
    assert journal.entries_about("m2")[0].payload == {"text": "é 2"}


def test_a_forgotten_payload_cannot_be_given_another() -> None:
    journal, connection = written(2)
    connection.execute("update journal set payload = '{}', payload_key = null where seq = 1")
    assert journal.verify().broken_at == 1


@given(st.dictionaries(st.text(), st.text(), min_size=1), st.data())
def test_a_seal_notices_any_changed_character(content: dict[str, str], data: st.DataObject) -> None:
    one = seal(content)
    assert matches_seal(one.key, one.hash, dict(reversed(content.items())))
    name = data.draw(st.sampled_from(sorted(content)))
    other = data.draw(st.text().filter(lambda text: text != content[name]))
    assert not matches_seal(one.key, one.hash, content | {name: other})
    assert not matches_seal(one.key, one.hash, {key: value for key, value in content.items() if key != name})


def test_two_seals_of_one_content_tell_nothing_of_each_other() -> None:
    one, other = seal({"text": "a"}), seal({"text": "a"})
    assert one.key != other.key
    assert one.hash != other.hash
    assert seal_digest(other.key, {"text": "a"}) == other.hash
