"""`filrouge bridges`, `graph`, `status` and `health`, as a person types them, and the routes of the same meaning."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest

from filrouge.projects.repository import Projects
from filrouge.testing import idle
from filrouge.threads.bridge_service import queue_bridges
from tests.unit.threads.ties_given import put_thread

from .test_changing import SHOP, Shell, shell, typed

__all__ = ["shell"]


@pytest.fixture
def threads(shell: Shell) -> Shell:
    """A home with three threads of a project, two of them alike."""
    parts = shell.api.parts
    now = datetime.now(UTC)
    project = parts.writer.run(lambda tx: Projects(tx).resolve((SHOP,), at=now))
    rest = [0.0] * (parts.vectors.space.dimension - 2)
    space = parts.vectors.space.id
    for place, (id_, title, vector) in enumerate(
        [
            ("a", 'Rollback of the "gateway"', [1.0, 0.0]),
            ("b", "Port <8443>", [0.9, 0.1]),
            ("c", "Invoices", [0.0, 1.0]),
        ]
    ):
        at = now - timedelta(hours=place)
        state = "suspended" if id_ == "c" else "active"
        put_thread(parts.home, space, id_, project=project, at=at, title=title, vector=[*vector, *rest], state=state)
    return shell


def test_a_job_ties_what_is_alike_and_the_command_lists_it(threads: Shell) -> None:
    parts = threads.api.parts
    parts.writer.run(lambda tx: queue_bridges(parts, tx, "a"))
    parts.work_waiting.set()
    idle(parts)
    [one] = threads.json("bridges")
    assert (one["source"], one["target"], one["type"]) == ("a", "b", "relates_to")
    cells = threads("bridges", "--thread", "b").out.split("\t")
    assert cells[1:5] == ['Rollback of the "gateway"', "→", "Port <8443>", "relates_to"]
    assert threads("bridges", "--type", "extends").out == "No threads are connected.\n"


def test_bridges_are_made_and_removed_by_hand(threads: Shell) -> None:
    made = threads.json("bridges", "--add", "a", "c", "--type", "depends_on", "--reason", "the plan says so")
    assert (made["type"], made["reason"], made["made_by"]) == ("depends_on", "the plan says so", "user")
    assert threads.api.get("/api/memory/bridges?thread=c&type=depends_on") == [made]
    assert threads.json("bridges", "--remove", made["id"]) == made
    assert threads.json("bridges") == []
    assert threads("bridges", "--remove", made["id"]).code == 1
    assert threads("bridges", "--add", "a", "nobody").code == 1
    assert "--type is extends, depends_on," in threads("bridges", "--type", "likes").err


def test_the_graph_is_written_in_three_forms(threads: Shell, tmp_path: Path) -> None:
    threads.json("bridges", "--add", "a", "c")
    found = threads.json("graph", "--format", "json", "--project", SHOP)
    assert ({one["id"] for one in found["threads"]}, len(found["bridges"])) == ({"a", "b", "c"}, 1)
    assert '"a" [label="Rollback of the \\"gateway\\"", style="rounded"];' in threads("graph").out
    for form, name in (("svg", "graph.svg"), ("json", "graph.json")):
        assert "3 threads, 1 bridges" in threads("graph", "--format", form, "--out", str(tmp_path / name)).out
    root = ElementTree.parse(tmp_path / "graph.svg").getroot()
    assert "Port <8443>" in {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert len(json.loads((tmp_path / "graph.json").read_text(encoding="utf-8"))["threads"]) == 3
    assert threads("graph", "--format", "png").code == 2
    assert threads("graph", "--out", str(tmp_path / "nowhere" / "graph.dot")).code == 2


def test_the_status_tells_of_threads(threads: Shell) -> None:
    shown = " ".join(threads("status").out.split())
    assert "Threads 3 (2 active, 1 suspended)" in shown
    assert 'Current thread Rollback of the "gateway" (a)' in shown
    found = threads.json("status")
    assert (found["threads"]["active"], found["bridges"], found["current_thread"]["id"]) == (2, 0, "a")


def test_health_is_told_in_figures(threads: Shell) -> None:
    told = threads("health")
    lines = told.out.splitlines()
    assert (told.code, lines[0]) == (0, "Threads: 3 (2 active, 1 suspended)")
    assert {"Bridges: 0", "Continuation rate: -", "Embedding coverage: -", "Daemon: Running"} <= set(lines)
    assert threads.json("health") == threads.api.get("/daemon/health")


def test_health_without_a_daemon_says_what_to_do(tmp_path: Path) -> None:
    told = typed(str(tmp_path), "health")
    assert told.code == 1
    assert told.out.splitlines() == ["Daemon: Stopped", "! Daemon: it is not running → filrouge daemon start"]
