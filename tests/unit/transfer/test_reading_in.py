"""What is read in from elsewhere: once, with its own time and place, and with nobody's word for it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from filrouge.capture.events import TAG
from filrouge.capture.models import ImportedMemory, ImportedTurn, Turn
from filrouge.capture.service import BACKFILL_BATCH, queue_backfill, store_events
from filrouge.core.clock import to_text
from filrouge.core.protocols import Tx
from filrouge.core.scope import Scope
from filrouge.erasure.service import ForgetRequest, forget, preview
from filrouge.runtime.jobs import ORDINARY, Job, Jobs
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.search.repository import StoredVectors
from filrouge.testing import idle, running
from filrouge.threads.repository import Threads
from filrouge.transfer.service import ImportPage, PageResult, TranscriptMark, import_page, marks
from tests.support.given import SHOP, event

LONG_AGO = datetime(2025, 3, 1, 12, tzinfo=UTC).timestamp()
RULE = "Always run the linter before a commit."
PORT = "For the record: production listens on port 8443."


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as found:
        idle(found)
        yield found


def said(text: str, *, key: str = "1", session: str = "s", **more: Any) -> ImportedTurn:
    given: dict[str, Any] = {"role": "user", "source": "prompt", "at": LONG_AGO, "project": SHOP}
    return ImportedTurn(session=session, key=key, text=text, **given | more)


def bring(parts: Parts, *turns: ImportedTurn, trusted: bool = False, source: str = "claude-code") -> PageResult:
    done = import_page(parts, ImportPage(source=source, trusted=trusted, turns=turns))
    idle(parts)
    return done


def texts(parts: Parts) -> list[str]:
    rows = parts.readers.here(lambda tx: parts.turns(tx).recent("claude-code", None, 100))
    return sorted(row["text"] for row in rows)


def memories(parts: Parts) -> Sequence[tuple[str, int]]:
    rows = parts.readers.here(lambda tx: tx.all("carrying.memories", {"behind": 0, "limit": 100}))
    found = parts.readers.here(lambda tx: parts.memories(tx).some([row["id"] for row in rows]))
    return sorted((one.kind, one.trust) for one in found.values())


def live(parts: Parts) -> Sequence[tuple[str, int]]:
    rows = parts.readers.here(lambda tx: tx.all("carrying.memories", {"behind": 0, "limit": 100}))
    found = parts.readers.here(lambda tx: parts.memories(tx).some([row["id"] for row in rows]))
    return sorted((one.kind, one.trust) for one in found.values() if one.state == "live")


def test_a_message_keeps_its_own_time_and_project_and_is_trusted_like_a_web_page(parts: Parts) -> None:
    bring(parts, said(PORT))
    [row] = parts.readers.here(lambda tx: parts.turns(tx).recent("claude-code", "s", 10))
    [turn] = parts.readers.here(lambda tx: parts.turns(tx).get([row["id"]]))
    assert (turn.scope.project, to_text(turn.at)[:19]) == (SHOP[0], "2025-03-01T12:00:00")
    assert (turn.role, turn.trust) == ("user", 0)


def test_a_second_run_adds_nothing(parts: Parts) -> None:
    turns = [said(f"{PORT} Take {n}.", key=str(n)) for n in range(120)]
    assert bring(parts, *turns).turns == {"added": 120}
    assert bring(parts, *turns).turns == {"present": 120}


def test_nothing_read_in_becomes_a_rule_unless_the_user_vouches_for_it(parts: Parts) -> None:
    bring(parts, said(RULE), said(PORT, key="2"))
    assert memories(parts) == [("fact", 0)]
    bring(parts, said(RULE, session="t", key="3"), trusted=True)
    assert ("rule", 2) in memories(parts)


def test_what_nobody_vouches_for_ends_nothing_that_the_user_said(parts: Parts) -> None:
    store_events(parts, [event(text=PORT)]).result(60)
    idle(parts)
    bring(parts, said("Correction: production listens on port 9443, not 8443.", at=LONG_AGO * 2))
    live = parts.readers.here(lambda tx: tx.all("carrying.memories", {"behind": 0, "limit": 100}))
    found = parts.readers.here(lambda tx: parts.memories(tx).some([row["id"] for row in live]))
    assert [one.state for one in found.values() if "8443." in one.text and one.trust == 2] == ["live"]


@pytest.mark.parametrize("first", ["hook", "import"])
def test_what_a_hook_captured_and_a_history_tells_is_there_once(parts: Parts, first: str) -> None:
    live = event(text=PORT)
    for way in (first, "import" if first == "hook" else "hook"):
        if way == "hook":
            store_events(parts, [live]).result(60)
            idle(parts)
        else:
            bring(parts, said(PORT, key="c0ffee00-0000-4000-8000-000000000001", at=live.at))
    assert texts(parts) == [PORT]


def test_our_own_blocks_and_secrets_are_taken_out(parts: Parts) -> None:
    nonce = "0123456789abcdef"
    block = f'<{TAG} nonce="{nonce}">production is in Oslo</{TAG} {nonce}>'
    done = bring(
        parts,
        said(f"{PORT} {block}"),
        said(block, key="2"),
        said("The key AKIAIOSFODNN7EXAMPLE opens the bucket of the shop.", key="3"),
        said("<private>my salary</private> and the ledger of the shop is late", key="4"),
    )
    assert done.turns == {"added": 3, "present": 1}
    assert [word for word in ("Oslo", "AKIAIOSFODNN7EXAMPLE", "salary") if word in " ".join(texts(parts))] == []


def test_what_was_forgotten_does_not_come_back(parts: Parts) -> None:
    bring(parts, said(PORT))
    asked = ForgetRequest(text="8443")
    forget(parts, asked, preview(parts, asked).token)
    assert bring(parts, said(PORT)).turns == {"forgotten": 1}
    assert texts(parts) == []


def test_a_project_that_is_switched_off_stays_out(parts: Parts) -> None:
    parts.writer.run(lambda tx: StoredSettings(tx).put({"disabled_projects": ["shop"]}, parts.clock.now()))
    memory = ImportedMemory(key="m", text="The kiosk speaks French.", project=SHOP)
    done = import_page(parts, ImportPage(source="mem0", trusted=False, turns=[said(PORT)], memories=[memory]))
    assert (done.turns, done.memories["off"]) == ({"off": 1}, 1)
    assert texts(parts) == []


def test_a_time_that_is_still_to_come_is_now(parts: Parts) -> None:
    bring(parts, said(PORT, at=9e9))
    [row] = parts.readers.here(lambda tx: parts.turns(tx).recent("claude-code", "s", 10))
    assert row["at"] <= to_text(parts.clock.now())


def test_the_mark_of_a_file_is_that_of_the_hooks(parts: Parts) -> None:
    mark = TranscriptMark(path="/home/ana/t.jsonl", session="s", offset=512)
    import_page(parts, ImportPage(source="codex", trusted=False, turns=[said(PORT)], mark=mark))
    assert parts.readers.here(lambda tx: marks(tx, "codex")) == {"/home/ana/t.jsonl": 512}
    assert parts.readers.here(lambda tx: tx.one("transcripts.get", {"path": mark.path})) == {
        "byte_offset": 512, "skipped_long": 0,
    }  # fmt: skip


def test_the_past_is_understood_a_few_messages_at_a_time_behind_what_is_said_now(tmp_path: Path) -> None:
    with running(str(tmp_path / "home")) as parts:
        idle(parts)
        leased = parts.writer.run(lambda tx: _queued_and_leased(parts, tx))
        assert [job.kind for job in leased] == ["analyse"]


def _queued_and_leased(parts: Parts, tx: Tx) -> list[Job]:
    """What comes first of a page of the past and a prompt behind it; in one transaction, before any worker looks."""
    now = parts.clock.now()
    Jobs(tx).enqueue("backfill", {"turns": ["x"]}, dedupe="backfill:x", at=now)
    Jobs(tx).enqueue("thread", {"turn": "y"}, dedupe="thread:y", at=now)
    Jobs(tx).enqueue("analyse", {"turn": "y"}, dedupe="analyse:y", at=now)
    return Jobs(tx).lease("test", now, lane=ORDINARY)


def test_everything_of_a_long_page_is_followed_up(parts: Parts) -> None:
    turns = [
        said(f"The kiosk of day {n} lost its fonts again, why does it?", key=str(n)) for n in range(3 * BACKFILL_BATCH)
    ]
    bring(parts, *turns)
    ids = [row["id"] for row in parts.readers.here(lambda tx: parts.turns(tx).recent("claude-code", None, 1000))]
    assert len(ids) == len(turns)
    assert parts.readers.here(lambda tx: Threads(tx).of_turns(ids)).keys() == set(ids)
    assert len(parts.readers.here(lambda tx: StoredVectors(tx).some("turn", ids, parts.vectors.space.id))) == len(ids)


def test_a_start_in_between_leaves_the_past_to_its_own_job(tmp_path: Path) -> None:
    with running(str(tmp_path / "home")) as parts:
        idle(parts)

        def write(tx: Tx) -> list[dict[str, Any]]:
            told = Turn(
                id="t1", key="k", scope=Scope(session="s"), host="codex", role="user", source="prompt", text=PORT,
                at=parts.clock.now(), trust=0,
            )  # fmt: skip
            parts.turns(tx).add_from_transcript(told)
            before = Threads(tx).unplaced(0, 10)
            queue_backfill(parts.clock, tx, ["t1"])
            return [*before, *Threads(tx).unplaced(0, 10)]

        assert [row["id"] for row in parts.writer.run(write)] == ["t1"]


def test_a_statement_of_another_program_is_a_fact_that_nobody_vouches_for(parts: Parts) -> None:
    page = ImportPage(
        source="ai-smartness",
        trusted=False,
        memories=[
            ImportedMemory(key="1", text=RULE, kind="rule"),
            ImportedMemory(key="2", text="The kiosk is French."),
        ],
    )
    assert import_page(parts, page).memories["added"] == 2
    assert memories(parts) == [("fact", 0), ("fact", 0)]
    assert import_page(parts, page).memories["present"] == 2


def test_a_rule_of_another_program_is_one_where_the_user_vouches_for_it(parts: Parts) -> None:
    page = ImportPage(source="ai-smartness", trusted=True, memories=[ImportedMemory(key="1", text=RULE, kind="rule")])
    assert import_page(parts, page).memories["added"] == 1
    assert live(parts) == [("rule", 2)]


def test_who_vouches_later_makes_it_their_own_word_once(parts: Parts) -> None:
    bring(parts, said(RULE))
    assert live(parts) == []
    assert bring(parts, said(RULE), trusted=True).turns == {"vouched": 1}
    assert live(parts) == [("rule", 2)]
    assert bring(parts, said(RULE), trusted=True).turns == {"present": 1}
    assert bring(parts, said(RULE)).turns == {"present": 1}
    assert live(parts) == [("rule", 2)]


def test_who_vouches_later_for_another_programs_statement_has_it_once(parts: Parts) -> None:
    one = ImportedMemory(key="1", text=RULE, kind="rule")
    counts = [
        import_page(parts, ImportPage(source="ai-smartness", trusted=trusted, memories=[one])).memories
        for trusted in (False, True, True, False)
    ]
    assert [{name: n for name, n in counted.items() if n} for counted in counts] == [
        {"added": 1}, {"vouched": 1}, {"present": 1}, {"present": 1},
    ]  # fmt: skip
    assert live(parts) == [("rule", 2)]
