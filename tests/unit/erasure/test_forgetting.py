"""Forgetting: a preview lists every row, the token is good for exactly these, and afterwards nothing says the words."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from filrouge.capture import inbox
from filrouge.capture.service import store_events
from filrouge.core.clock import SystemClock
from filrouge.core.errors import BadInput, NotFound, Stale
from filrouge.core.paths import DATABASE, LOG, SPOOL, inside
from filrouge.erasure import service
from filrouge.erasure.service import ForgetRequest, forget, forget_at_once, preview
from filrouge.maintenance import backup_files
from filrouge.maintenance.backup_service import back_up, verify
from filrouge.maintenance.health import status
from filrouge.maintenance.restore import restore
from filrouge.memories.changes import put_fact, remember
from filrouge.memories.reports import history
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts
from filrouge.runtime.soundness import problems
from filrouge.runtime.sqlite import Database
from filrouge.search.service import Question, search_turns
from filrouge.testing import idle, running
from filrouge.threads.service import rename
from tests.support.given import SHOP, ask, event, log, say
from tests.support.schemas import TOO_OLD, made_older
from tests.unit.erasure.test_erase import OTHERS, QUESTION, SECRET, WORDS, found, of, texts_of, traces

MARZIPAN = ForgetRequest(text="marzipan")


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as started:
        idle(started)
        for text in OTHERS:
            say(started, text)
        yield started


def test_forgetting_leaves_the_locks_by_which_other_processes_know_that_the_database_is_open(parts: Parts) -> None:
    say(parts, SECRET)
    forget(parts, MARZIPAN, preview(parts, MARZIPAN).token)
    # Only a process that believes to be alone with the database may take its log away.
    alone = "import apsw, sys; print(apsw.Connection(sys.argv[1]).execute('pragma journal_mode = delete').fetchone())"
    other = [sys.executable, "-c", alone, inside(parts.home, DATABASE)]
    tried = subprocess.run(other, capture_output=True, text=True, check=False)
    assert "database is locked" in tried.stderr, tried.stdout


def in_every_way(parts: Parts) -> None:
    say(parts, f"For the record: {SECRET}")
    ask(parts, f"For the record: {SECRET}")
    remember(parts, SECRET, names=SHOP, scope="project", host="cli")
    put_fact(parts, "vault", SECRET, names=SHOP, scope="project")
    calls = [
        {"name": "Read", "id": "call-1", "input": {"path": "a"}, "output": json.dumps({"said": "MARZIPAN, it says"})},
        {"name": "Read", "id": "call-2", "input": {"path": "b"}, "output": "The other file says nothing of it."},
    ]
    store_events(parts, [event("reply", text=SECRET), event("tools", calls=calls)]).result(60)
    idle(parts)


def nothing_left(parts: Parts, *words: str) -> None:
    assert traces(parts.home, *words) == []
    assert not any(word in texts_of(parts, QUESTION) for word in words)
    assert parts.readers.here(lambda tx: Journal(tx).verify()).sound
    assert parts.readers.here(lambda tx: status(parts, tx))["queue"]["dead"] == 0


def test_a_preview_lists_what_holds_the_words_and_what_hangs_on_it(parts: Parts) -> None:
    in_every_way(parts)
    shown = preview(parts, MARZIPAN)
    by_table = shown.counts
    assert by_table["turns"]["erased"] == len([row for row in shown.rows if row.table == "turns"]) >= 4
    assert {"memories", "turns", "events", "journal", "vectors", "evidence", "memory_retrievals"} <= by_table.keys()
    assert all("marzipan" in row.excerpt.casefold() for row in shown.rows if row.table == "turns")
    assert {row.how for row in shown.rows} == {"exact", "tied"}
    assert shown.rebuilt
    assert traces(parts.home, *WORDS) != []


def test_what_is_forgotten_is_in_no_file_and_no_answer(parts: Parts) -> None:
    in_every_way(parts)
    log(parts)
    receipt = forget(parts, MARZIPAN, preview(parts, MARZIPAN).token)
    assert (receipt.content["ok"], receipt.content["searched"]["left"]) == (True, {})
    idle(parts)
    nothing_left(parts, SECRET, *WORDS)
    assert "8443" in texts_of(parts, "What port does production listen on?")
    assert "says nothing of it" in texts_of(parts, "Which other file says nothing of it?")


def test_related_memories_are_listed_with_their_relevance(parts: Parts) -> None:
    say(parts, "For the record: the Quibblethwaite vault opens at midnight.")
    shown = preview(parts, ForgetRequest(text="When does the Quibblethwaite vault open?"))
    related = [row for row in shown.rows if row.how == "related"]
    assert related
    assert all(row.relevance is not None and row.relevance >= 0.5 for row in related)
    receipt = forget(parts, ForgetRequest(text="When does the Quibblethwaite vault open?"), shown.token)
    assert receipt.content["counts"] == shown.counts
    nothing_left(parts, "Quibblethwaite vault opens")


def test_a_token_is_stale_as_soon_as_anything_was_added_or_changed(parts: Parts) -> None:
    say(parts, f"For the record: {SECRET}")
    shown = preview(parts, MARZIPAN)
    say(parts, "For the record: the marzipan kiosk listens on port 7001.")
    with pytest.raises(Stale):
        forget(parts, MARZIPAN, shown.token)
    assert len(of(parts, "marzipan")) == 2
    forget(parts, MARZIPAN, preview(parts, MARZIPAN).token)
    nothing_left(parts, "marzipan")


def test_a_token_is_good_for_what_was_asked_alone(parts: Parts) -> None:
    say(parts, f"For the record: {SECRET}")
    with pytest.raises(Stale):
        forget(parts, ForgetRequest(text="Oslo"), preview(parts, MARZIPAN).token)
    assert of(parts, "Oslo")


@pytest.mark.parametrize(
    "asked", [ForgetRequest(), ForgetRequest(text=" "), ForgetRequest(text="a", id="b"), ForgetRequest(text="?!")]
)
def test_what_says_nothing_is_refused(parts: Parts, asked: ForgetRequest) -> None:
    with pytest.raises(BadInput):
        preview(parts, asked)


def test_an_unknown_id_is_named(parts: Parts) -> None:
    with pytest.raises(NotFound, match="01unknown"):
        preview(parts, ForgetRequest(id="01unknown"))


def test_a_memory_goes_with_all_its_versions(parts: Parts) -> None:
    for value in (SECRET, "It opens with a key.", "It opens with a code."):
        put_fact(parts, "vault", value, names=SHOP, scope="project")
    [newest] = of(parts, "a code")
    shown, receipt = forget_at_once(parts, ForgetRequest(id=newest))
    assert receipt.content["ok"]
    assert len([row for row in shown.rows if row.table == "memories"]) == 3
    assert of(parts, "It opens") == of(parts, "marzipan") == []
    nothing_left(parts, *WORDS, "It opens with a code")


def test_memories_that_rest_on_the_same_words_alone_are_named_and_go_along(parts: Parts) -> None:
    say(parts, "For the record: the kiosk listens on port 7001. For the record: the ferry listens on port 7002.")
    [kiosk], [ferry] = of(parts, "7001"), of(parts, "7002")
    shown, _ = forget_at_once(parts, ForgetRequest(id=kiosk))
    assert shown.shared == (ferry,)
    assert of(parts, "7002") == []
    nothing_left(parts, "port 7001", "port 7002")


def test_a_thread_that_a_user_named_so_is_named_anew(parts: Parts) -> None:
    [thread] = {row["thread_id"] for row in _threads(parts)}
    rename(parts, thread, "Marzipan for Quibblethwaite")
    _, receipt = forget_at_once(parts, MARZIPAN)
    assert receipt.content["counts"]["threads"] == {"rebuilt": 1}
    idle(parts)
    nothing_left(parts, *WORDS)
    assert all(row["title"] for row in _threads(parts))


def _threads(parts: Parts) -> list[dict[str, str]]:
    database = Database(inside(parts.home, DATABASE), readonly=True)
    try:
        rows = database.tx.all("threads.live")
    finally:
        database.close()
    return [{"thread_id": row["id"], "title": row["title"]} for row in rows]


def test_a_longer_word_that_has_the_same_letters_stays_and_is_told_apart(parts: Parts) -> None:
    say(parts, "For the record: the kiosk listens on marzipan7.")
    say(parts, "For the record: the ferry listens on marzipan77.")
    _, receipt = forget_at_once(parts, ForgetRequest(text="marzipan7"))
    assert (receipt.content["ok"], receipt.content["searched"]["left"]) == (True, {})
    assert DATABASE in receipt.content["searched"]["inside_other_words"]
    assert (of(parts, "kiosk"), len(of(parts, "marzipan77"))) == ([], 1)


def test_what_waits_in_the_spool_is_forgotten_too(parts: Parts) -> None:
    spool = inside(parts.home, SPOOL)
    inbox.append_event(spool, event(text=f"For the record: {SECRET}").to_json())
    Path(spool, "1-1.log.aside").write_bytes(b"damaged, but it says marzipan all the same")
    _, receipt = forget_at_once(parts, MARZIPAN)
    idle(parts)
    assert f"{SPOOL}/1-1.log.aside" in receipt.content["files"]
    nothing_left(parts, *WORDS)


def test_words_in_the_log_are_overwritten_in_place(parts: Parts) -> None:
    path = Path(parts.home, LOG)
    path.write_text("one line\na job failed: no 'Marzipan' here\nlast line\n")
    length = path.stat().st_size
    _, receipt = forget_at_once(parts, MARZIPAN)
    assert LOG in receipt.content["files"]
    assert path.stat().st_size == length
    assert path.read_text().splitlines()[::2] == ["one line", "last line"]
    nothing_left(parts, *WORDS)


def test_a_spooled_copy_of_before_is_refused_and_counted_and_what_is_said_anew_is_kept(parts: Parts) -> None:
    before = event(text=f"For the record: {SECRET}", session="another")
    say(parts, f"For the record: {SECRET}")
    forget_at_once(parts, MARZIPAN)
    forgotten = parts.readers.here(lambda tx: status(parts, tx))["ledger"]["forgotten"]
    inbox.append_event(inside(parts.home, SPOOL), before.to_json())
    deadline = time.monotonic() + 60
    while inbox.waiting_files(inside(parts.home, SPOOL)) and time.monotonic() < deadline:
        time.sleep(0.05)
    idle(parts)
    assert parts.readers.here(lambda tx: status(parts, tx))["ledger"]["forgotten"] == forgotten + 1
    nothing_left(parts, *WORDS)
    say(parts, f"For the record: {SECRET}")
    assert "marzipan" in texts_of(parts, QUESTION)


def test_a_call_of_a_tool_is_refused_alone(parts: Parts) -> None:
    calls = [{"name": "Read", "id": f"call-{n}", "input": {"path": "a"}, "output": said} for n, said in enumerate(
        ("marzipan everywhere in this file", "The other file says nothing of it.")
    )]  # fmt: skip
    first, again = event("tools", calls=calls), event("tools", calls=calls, session="another")
    store_events(parts, [first]).result(60)
    idle(parts)
    forget_at_once(parts, MARZIPAN)
    store_events(parts, [again]).result(60)
    idle(parts)
    nothing_left(parts, *WORDS)
    hits = parts.readers.here(lambda tx: search_turns(parts, tx, Question(text="other file", everywhere=True))).hits
    assert [hit.item.scope.session for hit in hits if "nothing of it" in hit.text].count("another") == 1


def test_a_transcript_that_is_read_again_or_copied_does_not_bring_it_back(parts: Parts, tmp_path: Path) -> None:
    def look_into(session: str, uuid: str) -> str:
        transcript = tmp_path / f"{session}.jsonl"
        record = {
            "type": "user", "uuid": f"0b51cd3c-0000-4000-8000-{uuid}", "sessionId": session, "cwd": "",
            "timestamp": "2026-01-01T10:00:00.000Z",
            "message": {"role": "user", "content": f"For the record: {SECRET}"},
        }  # fmt: skip
        transcript.write_text(json.dumps(record) + "\n")
        prompt = event(text=f"Let us go on with the ferry, {uuid}.", session=session)
        store_events(parts, [prompt._replace(transcript=str(transcript))]).result(60)
        idle(parts)
        return str(transcript)

    first = look_into("first", "000000000001")
    assert "marzipan" in texts_of(parts, QUESTION)
    forget_at_once(parts, MARZIPAN)
    offset = {"path": first, "host": "claude-code", "session_id": "first", "byte_offset": 0, "skipped_long": 0}
    parts.writer.run(lambda tx: tx.run("transcripts.put", offset | {"read_at": ""}))
    look_into("first", "000000000001")
    look_into("resumed", "000000000002")
    nothing_left(parts, *WORDS)


def test_an_older_database_that_is_put_back_has_forgotten_it_before_anybody_asks(tmp_path: Path) -> None:
    home, kept = str(tmp_path / "home"), tmp_path / "older.db"
    with running(home) as parts:
        say(parts, OTHERS[0])
        in_every_way(parts)
        parts.writer.checkpoint()
        shutil.copyfile(inside(home, DATABASE), kept)
        forget_at_once(parts, MARZIPAN)
    shutil.copyfile(kept, inside(home, DATABASE))
    with running(home) as parts:
        assert of(parts, "marzipan") == []
        idle(parts)
        nothing_left(parts, *WORDS)
        assert "8443" in texts_of(parts, "What port does production listen on?")


def test_backups_in_the_home_are_rewritten_and_still_proven(parts: Parts) -> None:
    in_every_way(parts)
    made = back_up(parts.home, "hand", parts.clock.now())
    folder = Path(parts.home, "backups")
    shutil.copyfile(folder / f"{made.name}.db", folder / "own.db")
    shown = preview(parts, MARZIPAN)
    assert [one.name for one in shown.backups] == [f"{made.name}.db", "own.db"]
    assert all(one.rows["turns"] for one in shown.backups)
    receipt = forget(parts, MARZIPAN, shown.token)
    assert [one["rewritten"] for one in receipt.content["backups"]] == [True, True]
    [about] = backup_files.list_backups(parts.home)
    assert about.hash != made.hash
    assert verify(str(folder / f"{made.name}.db"), about.hash) == about.verified
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) == [
        f"{made.name}.db", f"{made.name}.json", "own.db",
    ]  # fmt: skip
    idle(parts)
    nothing_left(parts, *WORDS)


def test_a_backup_of_before_is_restored_without_it(tmp_path: Path) -> None:
    home, elsewhere = str(tmp_path / "home"), str(tmp_path / "elsewhere.db")
    with running(home) as parts:
        say(parts, OTHERS[0])
        in_every_way(parts)
        made = back_up(home, "hand", parts.clock.now())
        backup_files.copy_out(home, made.name, elsewhere)
        forget_at_once(parts, MARZIPAN)
    for what in (made.name, elsewhere):
        done = restore(home, what, SystemClock())
        assert (done.forgotten > 0) == (what == elsewhere)
        # Before any daemon starts.
        assert not any(word.encode() in Path(home, DATABASE).read_bytes() for word in WORDS)
        with running(home) as parts:
            idle(parts)
            assert parts.readers.here(lambda tx: problems(tx)) == []
            assert of(parts, "marzipan") == []
            assert "8443" in texts_of(parts, "What port does production listen on?")
            assert traces(inside(home, "briefs"), *WORDS) == traces(inside(home, SPOOL), *WORDS) == []
            assert not any(word.encode() in Path(home, DATABASE).read_bytes() for word in WORDS)


def test_a_damaged_backup_is_left_and_named(parts: Parts) -> None:
    in_every_way(parts)
    folder = Path(parts.home, "backups")
    folder.mkdir()
    (folder / "bad.db").write_bytes(b"this is no database, and says marzipan")
    _, receipt = forget_at_once(parts, MARZIPAN)
    [told] = receipt.content["backups"]
    assert (told["name"], told["rewritten"]) == ("bad.db", False)
    assert not receipt.content["ok"]
    assert receipt.content["searched"]["left"] == {"files": ["backups/bad.db"]}


def test_a_backup_from_before_the_baseline_is_left_and_named(parts: Parts) -> None:
    in_every_way(parts)
    made = back_up(parts.home, "hand", parts.clock.now())
    path = Path(parts.home, "backups", f"{made.name}.db")
    content = made_older(str(path))
    _, receipt = forget_at_once(parts, MARZIPAN)
    [told] = receipt.content["backups"]
    assert (told["name"], told["rewritten"]) == (path.name, False)
    assert f"older Filrouge: schema {TOO_OLD}" in told["trouble"]
    assert not receipt.content["ok"]
    assert path.read_bytes() == content


def test_a_receipt_has_no_words_and_a_signature_that_a_change_breaks(parts: Parts) -> None:
    in_every_way(parts)
    _, receipt = forget_at_once(parts, MARZIPAN)
    [listed] = parts.readers.here(lambda tx: service.receipts(parts.tombstones, tx))
    one = parts.readers.here(lambda tx: service.receipt_of(parts.tombstones, tx, receipt.id))
    assert listed == one
    assert one["signature_holds"]
    assert "arzipan" not in json.dumps(one)
    parts.writer.run(lambda tx: tx.run("receipts.put", {
        "id": receipt.id, "at": "2026-01-01", "actor": "user", "content": "{}", "signature": receipt.signature,
    }))  # fmt: skip
    [changed] = parts.readers.here(lambda tx: service.receipts(parts.tombstones, tx))
    assert not changed["signature_holds"]


def test_the_journal_says_that_it_was_erased_and_not_what(parts: Parts) -> None:
    put_fact(parts, "vault", SECRET, names=SHOP, scope="project")
    [memory] = of(parts, "marzipan")
    forget_at_once(parts, MARZIPAN)
    entries = parts.readers.here(lambda tx: Journal(tx).entries_about(memory))
    assert [(one.action, one.payload) for one in entries][-1] == ("erase", {"reason": "asked for"})
    assert all(one.payload is None for one in entries[:-1])


def test_nothing_asked_about_stays_as_it_was_where_nothing_holds_it(parts: Parts) -> None:
    before = [hit.item.id for hit in found(parts, "What port does production listen on?")]
    shown, receipt = forget_at_once(parts, ForgetRequest(text="xylophonic"))
    assert shown.rows == ()
    assert receipt.content["ok"]
    assert [hit.item.id for hit in found(parts, "What port does production listen on?")] == before
    [port] = of(parts, "8443")
    assert parts.readers.here(lambda tx: history(parts, tx, port))["state"] == "live"
