"""Branches told with what was said on them, projects by other names, and two that are one put together."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from filrouge.capture.events import event_from_json
from filrouge.capture.service import store_events
from filrouge.core.clock import SystemClock
from filrouge.core.errors import BadInput, NotFound
from filrouge.extraction.repository import Analyses
from filrouge.maintenance.health import audit
from filrouge.memories.changes import put_fact
from filrouge.memories.reports import listing
from filrouge.memories.repository import is_intact
from filrouge.memories.service import undo
from filrouge.projects import service
from filrouge.projects.repository import Projects
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.search.service import Question, recall
from filrouge.testing import idle, running
from filrouge.transfer.repository import ExportRepository
from tests.support.given import BLOG, SHOP, event, known, say

PORT = "For the record: production listens on port 8443."
VALKEY = "We decided on Valkey instead of Redis for the job queue."
ASKED = "Please find out why the invoice export is slow. The invoice export runs in the billing worker."
REPLIED = "I fixed the invoice export: the font was embedded once for each page."
OLD, NEW = ("origin:old.example/ana/shop",), ("origin:new.example/ana/shop",)


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path)) as found:
        yield found


def told(parts: Parts, id_: str) -> dict[str, Any]:
    return parts.readers.here(lambda tx: service.get_project(parts.analyser, tx, id_))


def ids(parts: Parts) -> set[str]:
    return {row["id"] for row in parts.readers.here(lambda tx: service.list_projects(parts.analyser, tx))}


def facts(parts: Parts, *names: str, history: bool = False) -> list[dict[str, Any]]:
    return parts.readers.here(lambda tx: listing(parts, tx, names, rules=False, history=history)[0])


def recalled(parts: Parts, question: str, project: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(hit.text, hit.item.scope.project or "") for hit in known(parts, question, project).hits]


def test_a_branch_goes_with_the_turn_the_memory_and_their_export(parts: Parts, tmp_path: Path) -> None:
    store_events(parts, [event(text=PORT)._replace(branch="feature/ports")]).result(60)
    idle(parts)
    [fact] = facts(parts)
    assert fact["branch"] == "feature/ports"
    turns = parts.readers.here(lambda tx: ExportRepository(tx, parts.analyser).turns(0, 10))
    memories = parts.readers.here(lambda tx: ExportRepository(tx, parts.analyser).memories(0, 10))
    assert {one.scope.branch for _, one in (*turns, *memories)} == {"feature/ports"}
    with running(str(tmp_path / "other")) as other:
        now = SystemClock().now()

        def carried(tx: Any) -> None:
            carrying = ExportRepository(tx, other.analyser)
            carrying.add_project(SHOP[0], "shop", SHOP, now)
            for _, turn in turns:
                carrying.add_turn(replace(turn, event_id=""))
            for _, memory in memories:
                carrying.add_memory(memory, now)

        other.writer.run(carried)
        assert [one["branch"] for one in facts(other)] == ["feature/ports"]


def test_an_event_of_before_there_were_branches_is_read(parts: Parts) -> None:
    raw = event(text=PORT).to_json()
    del raw["branch"]
    assert event_from_json(raw).branch == ""
    with pytest.raises(ValueError, match="branch"):
        event_from_json({**raw, "branch": 3})
    store_events(parts, [event_from_json(raw)]).result(60)
    idle(parts)
    assert [one["branch"] for one in facts(parts)] == [""]


def test_what_only_a_transcript_tells_has_the_branch_it_names_else_that_of_the_hook(
    parts: Parts, tmp_path: Path
) -> None:
    lines = [
        {"type": "user", "uuid": f"{number}" * 36, "message": {"content": text}, "timestamp": "2026-05-01T10:00:00Z"}
        | ({"gitBranch": branch} if branch else {})
        for number, (text, branch) in enumerate((("Tell me of a.", ""), ("Tell me of b.", "next\ud800")), start=1)
    ]
    transcript = tmp_path / "t.jsonl"
    transcript.write_text("".join(json.dumps(one) + "\n" for one in lines))
    store_events(parts, [event(text=PORT)._replace(transcript=str(transcript), branch="main")]).result(60)
    idle(parts)
    turns = parts.readers.here(lambda tx: ExportRepository(tx, parts.analyser).turns(0, 10))
    assert {turn.text: turn.scope.branch for _, turn in turns} == {
        PORT: "main", "Tell me of a.": "main", "Tell me of b.": "next?"
    }  # fmt: skip


def test_a_project_is_known_by_another_name_from_then_on(parts: Parts) -> None:
    say(parts, PORT, OLD)
    row = service.add_names(parts, OLD, [*NEW, *NEW, *OLD])
    assert row["aliases"] == sorted([*OLD, *NEW])
    say(parts, VALKEY, NEW)
    assert ids(parts) == {OLD[0]}
    assert told(parts, OLD[0])["memories"] == 2


def test_a_name_that_cannot_be_added_is_refused_with_the_way_out(parts: Parts) -> None:
    say(parts, PORT, OLD)
    say(parts, VALKEY, BLOG)
    with pytest.raises(BadInput, match="name of another project") as refused:
        service.add_names(parts, OLD, BLOG)
    assert f"filrouge project merge {BLOG[0]} {OLD[0]}" in (refused.value.remedy or "")
    for wrong in ("shop", "origin:", "https://forge.example/x", "path:" + "x" * 5000):
        with pytest.raises(BadInput, match="not a name of a project"):
            service.add_names(parts, OLD, [wrong])
    with pytest.raises(NotFound, match="origin:nobody"):
        service.add_names(parts, ["origin:nobody"], NEW)
    assert ids(parts) == {OLD[0], BLOG[0]}


def test_all_of_a_project_goes_into_another_and_is_found_there(parts: Parts) -> None:
    say(parts, PORT, OLD)
    say(parts, VALKEY, NEW)
    before = told(parts, OLD[0])
    plan = service.plan_merge(parts, OLD, NEW)
    assert (plan.memories, plan.turns, plan.threads, plan.replaced) == (1, 1, before["threads"], ())
    assert ids(parts) == {OLD[0], NEW[0]}
    assert service.merge_projects(parts, OLD, NEW) == plan
    idle(parts)
    assert ids(parts) == {NEW[0]}
    row = told(parts, NEW[0])
    assert (row["memories"], row["turns"], row["aliases"]) == (2, 2, sorted([*OLD, *NEW]))
    assert recalled(parts, "Which port does production listen on?", NEW)[0] == (
        "production listens on port 8443.", NEW[0]
    )  # fmt: skip
    question = Question(text="Which port does production listen on?", project=NEW[0], mode="semantic")
    found = parts.readers.here(lambda tx: recall(parts, tx, question))
    assert "production listens on port 8443." in [hit.text for hit in found.hits]
    say(parts, "For the record: staging listens on port 9000.", OLD)
    assert ids(parts) == {NEW[0]}


def test_what_moved_keeps_its_seal_and_what_was_altered_stays_altered(parts: Parts) -> None:
    say(parts, PORT, OLD)
    say(parts, VALKEY, OLD)
    say(parts, PORT, NEW)
    [first, second] = [one["id"] for one in facts(parts, OLD[0])]
    parts.writer.run(lambda tx: tx.run("projects.place", {
        "id": first, "project_id": OLD[0], "row_key": b"x", "row_hash": b"y"
    }))  # fmt: skip
    service.merge_projects(parts, OLD, NEW)
    rows = parts.readers.here(lambda tx: tx.all("projects.memories", {"project_id": NEW[0]}))
    assert {row["id"]: is_intact(row) for row in rows if row["id"] in (first, second)} == {first: False, second: True}
    assert parts.readers.here(audit)["sound"] is True


def test_of_a_fact_that_both_projects_have_the_newer_stands_or_the_pinned_one(parts: Parts) -> None:
    for project, value in ((OLD, "Helix"), (NEW, "Neovim")):
        put_fact(parts, "editor", value, names=project, scope="project")
    plan = service.plan_merge(parts, NEW, OLD)
    assert [one["value"] for one in facts(parts) if one["id"] in plan.replaced] == ["Helix"]
    service.merge_projects(parts, NEW, OLD)
    assert [(one["value"], one["key"], one["project"]) for one in facts(parts)] == [("Neovim", "editor", OLD[0])]
    ended = [one for one in facts(parts, history=True) if one["value"] == "Helix"]
    assert [(one["state"], one["superseded_by"]) for one in ended] == [("superseded", facts(parts)[0]["id"])]
    with pytest.raises(BadInput, match="cannot be live together with"):
        undo(parts, memory_id=ended[0]["id"])


def test_a_concept_of_both_projects_counts_the_sessions_of_both(parts: Parts) -> None:
    for session, project in (("a", OLD), ("b", OLD), ("c", NEW)):
        said = (
            event(project=project, session=session, text=ASKED),
            event("reply", project=project, session=session, text=REPLIED),
            event("session_end", project=project, session=session, reason="exit"),
        )
        store_events(parts, said).result(60)
        idle(parts)

    def concepts() -> dict[tuple[str, str], int]:
        rows = parts.readers.here(
            lambda tx: Analyses(tx, parts.analyser).concepts(project=None, everywhere=True, limit=99)
        )
        return {(row["text"], row["project_id"]): len(row["sessions"]) for row in rows}

    apart = concepts()
    both = {text for text, project in apart if project == OLD[0]} & {
        text for text, project in apart if project == NEW[0]
    }
    assert "invoice export" in both
    plan = service.merge_projects(parts, OLD, NEW)
    assert len(plan.replaced) == len(both)
    assert {text: concepts()[text, NEW[0]] for text in both} == {
        text: apart[text, OLD[0]] + apart[text, NEW[0]] for text in both
    }
    assert not [text for text, project in concepts() if project == OLD[0]]
    with pytest.raises(BadInput, match="cannot be live together with"):
        undo(parts, memory_id=plan.replaced[0])


def test_a_merge_is_in_the_journal_and_keeps_no_earlier_decision_from_being_undone(parts: Parts) -> None:
    say(parts, PORT, OLD)
    say(parts, VALKEY, NEW)
    [memory] = [one["id"] for one in facts(parts, OLD[0])]
    service.merge_projects(parts, OLD, NEW)
    [entry] = parts.readers.here(lambda tx: Journal(tx).entries_about(NEW[0]))
    assert (entry.actor, entry.action) == ("user", "project_merge")
    assert (entry.payload or {})["source"] == OLD[0]
    undo(parts, memory_id=memory)
    assert [one["state"] for one in facts(parts, history=True) if one["id"] == memory] == ["binned"]


def test_what_waits_to_be_done_for_the_one_project_is_done_for_the_other(parts: Parts, tmp_path: Path) -> None:
    say(parts, VALKEY, NEW)
    transcript = tmp_path / "t.jsonl"
    transcript.write_text("")
    store_events(parts, [event(project=OLD, text=PORT)._replace(transcript=str(transcript))]).result(60)
    service.merge_projects(parts, OLD, NEW)
    idle(parts)
    assert parts.readers.here(lambda tx: tx.all("jobs.dead")) == []
    assert told(parts, NEW[0])["memories"] == 2


def test_what_cannot_be_put_together_is_refused_with_the_way_out(parts: Parts) -> None:
    say(parts, PORT, OLD)
    say(parts, VALKEY, NEW)
    for source, into, error, said in (
        (OLD, OLD, BadInput, "already"),
        (("shop",), NEW, BadInput, "2 projects are called 'shop'"),
        (("nobody",), NEW, NotFound, "nobody"),
        (OLD, ("origin:nobody",), NotFound, "origin:nobody"),
        ((), NEW, NotFound, "no project"),
    ):
        with pytest.raises(error, match=said) as refused:
            service.merge_projects(parts, source, into)
        assert refused.value.remedy
    parts.writer.run(lambda tx: StoredSettings(tx).put({"disabled_projects": [OLD[0]]}, parts.clock.now()))
    with pytest.raises(BadInput, match="switched off"):
        service.merge_projects(parts, OLD, NEW)
    assert ids(parts) == {OLD[0], NEW[0]}


def test_a_changed_remote_adds_a_name_where_the_clone_is_known(parts: Parts) -> None:
    say(parts, PORT, (*OLD, "clone:abc", "path:/shop"))
    say(parts, VALKEY, (*NEW, "clone:abc", "path:/shop"))
    assert parts.readers.here(lambda tx: Projects(tx).aliases(OLD[0])) == sorted(
        [*OLD, *NEW, "clone:abc", "path:/shop"]
    )
    assert ids(parts) == {OLD[0]}
