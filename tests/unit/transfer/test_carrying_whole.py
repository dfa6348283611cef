"""Whatever a whole export may say, its owner's home says again, row by row."""

from __future__ import annotations

import json
from collections.abc import Generator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import to_builtins

from filrouge.core.clock import to_text
from filrouge.extraction.models import Analysis
from filrouge.runtime.services import Parts
from filrouge.testing import running
from filrouge.threads.models import Point
from filrouge.transfer.service import export_all, import_document
from tests.support.tiers import examples

AT = "2026-01-02T03:04:05.000006Z"
SHOP = {"id": "name:shop", "name": "shop", "aliases": ["name:shop"]}
_NUMBERS = count()
#: Rows by their table, each with a field that no reader of the store would know what to do with.
ODD: list[tuple[str, dict[str, Any]]] = [
    ("threads", {"drifts": [{"turn_id": "t"}]}),
    ("threads", {"opened_at": "0001-01-01T00:00:00+10:00"}),
    ("messages", {"decisions": [{"weighed": [{"odd": 1}]}]}),
    ("bridges", {"confidence": float("nan")}),
    ("sessions", {"analysis": {"decisions": ["none"]}}),
    ("syntheses", {"content": {"state": [1]}}),
    ("memories", {"mentions": [{}]}),
    ("days", {"day": "yesterday"}),
]
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
dates = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Parts]:
    with running(str(tmp_path_factory.mktemp("whole"))) as parts:
        yield parts


@st.composite
def documents(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """Two threads, a message in one of them, a memory that another replaced, a concept, a bridge, a session."""
    mark = f"x{next(_NUMBERS)}"
    first, second = thread(draw, f"{mark}t1", None), thread(draw, f"{mark}t2", f"{mark}t1")
    decision: dict[str, Any] = {
        "at": AT, "action": draw(st.sampled_from(["continue", "fork", "new", "move"])), "thread_id": f"{mark}t2",
        "parent_id": draw(st.sampled_from([None, f"{mark}t1"])), "similarity": draw(st.floats(-1, 1)),
        "reason": draw(names), "borderline": draw(st.booleans()), "model": "", "weighed": [],
        "actor": draw(st.sampled_from(["rules", "model", "user"])),
    }  # fmt: skip
    said: dict[str, Any] = {
        "id": f"{mark}m", "key": f"{mark}k", "host": "h", "user_id": "local", "project_id": "name:shop", "agent": "",
        "channel": "h", "session_id": mark, "role": draw(st.sampled_from(["user", "assistant", "tool"])),
        "source": "prompt", "text": draw(texts), "trust": draw(st.integers(0, 3)), "at": AT, "skipped": draw(names),
        "transcript_key": draw(st.sampled_from([None, f"{mark}r"])), "decisions": [decision],
        "branch": draw(names),
        "placed": {"thread_id": f"{mark}t2", "at": AT, "topics": draw(st.lists(names, max_size=2))},
    }  # fmt: skip
    old = memory(draw, f"{mark}a", kind="fact", state="superseded", superseded_by=f"{mark}b", valid_to=AT)
    cited = [{"turn_id": f"{mark}m", "start": 0, "end": 1}]
    new = memory(draw, f"{mark}b", kind="rule", supersedes=f"{mark}a", previous_text=old["text"], evidence=cited)
    mention = {"host": "h", "session_id": mark, "first_at": AT, "last_at": AT}
    concept = memory(draw, f"{mark}c", kind="concept", subject=mark, mentions=[mention])
    bridge = {
        "id": f"{mark}g", "source_id": f"{mark}t2", "target_id": f"{mark}t1", "reason": draw(names), "depth": 0,
        "kind": draw(st.sampled_from(["extends", "contradicts", "relates_to"])), "confidence": draw(st.floats(0.5, 1)),
        "made_by": draw(st.sampled_from(["rules", "gossip", "model", "user"])), "created_at": AT, "reinforced_at": AT,
        "removed_at": draw(st.sampled_from([None, AT])),
    }  # fmt: skip
    where = {"host": "h", "session_id": mark, "until": f"{mark}m"}
    session = {
        **where,
        "analysis": made_of(Analysis(summary=draw(names), concepts=(draw(names),))),
        "episode_id": None,
        "analysed_at": AT,
    }
    synthesis = {
        **where, "id": f"{mark}s", "user_id": "local", "project_id": "name:shop", "agent": "", "channel": "h",
        "thread_id": draw(st.sampled_from([None, f"{mark}t1"])), "occasion": "session_end", "at": AT,
        "content": {"state": [made_of(Point(text=draw(names), turn_id="t", trust=2))], "files": [draw(names)]},
        "made_by": "rules",
    }  # fmt: skip
    return {
        "projects": [SHOP], "threads": [first, second], "messages": [said], "memories": [old, new, concept],
        "links": [{"id": f"{mark}a", "supersedes": None, "superseded_by": f"{mark}b"}], "bridges": [bridge],
        "sessions": [session], "syntheses": [synthesis], "readings": [{**where, "at": AT}],
        "days": [{"project_id": "name:shop", "day": "2026-01-02"}],
    }  # fmt: skip


def thread(draw: st.DrawFn, id_: str, parent: str | None) -> dict[str, Any]:
    return {
        "id": id_, "user_id": "local", "project_id": "name:shop", "agent": "", "channel": "h", "title": draw(names),
        "title_by": draw(st.sampled_from(["rules", "model", "user"])), "summary": draw(names), "parent_id": parent,
        "topics": draw(st.lists(names, max_size=3)),
        "state": draw(st.sampled_from(["active", "suspended", "archived"])),
        "origin": "prompt", "merged_into": draw(st.sampled_from([None, parent])), "weight": draw(st.floats(0, 1)),
        "opened_at": AT, "last_active": AT, "suspended_at": draw(st.sampled_from([None, AT])),
        "drifts": [{"turn_id": f"{id_}m", "at": AT, "similarity": 0.5, "became": id_}] if draw(st.booleans()) else [],
    }  # fmt: skip


def memory(draw: st.DrawFn, id_: str, **more: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "id": id_, "scope": "project", "user_id": "local", "project_id": "name:shop", "agent": "", "channel": "h",
        "session_id": draw(names), "text": draw(texts), "subject": draw(names), "key": None, "value": None,
        "confidence": draw(st.floats(0, 1)), "sentiment": draw(st.sampled_from(["neutral", "positive", "negative"])),
        "timeframe": draw(names), "trust": draw(st.integers(0, 3)), "state": "live", "supersedes": None,
        "superseded_by": None, "previous_text": None, "pinned": draw(st.booleans()), "disabled": draw(st.booleans()),
        "mention_count": draw(st.integers(1, 1000)), "made_by": draw(names), "prompt_version": draw(names),
        "created_at": moment(draw), "valid_from": moment(draw), "valid_to": None, "last_mention": moment(draw),
        "first_mention": moment(draw), "uses": draw(st.integers(0, 1000)), "mentions": [], "evidence": [],
        "last_used": moment(draw), "branch": draw(names), "language": draw(names),
    }  # fmt: skip
    return plain | more


def made_of(value: Any) -> dict[str, Any]:
    """A value as JSON."""
    return json.loads(json.dumps(to_builtins(value)))


def moment(draw: st.DrawFn) -> str:
    return to_text(draw(dates).replace(tzinfo=UTC))


def said_again(parts: Parts) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in export_all(parts):
        row: dict[str, Any] = json.loads(line)
        found.setdefault(str(row.pop("table", "")), []).append(row)
    return found


@settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(documents())
def test_every_row_that_is_read_in_is_written_out_again(home: Parts, document: dict[str, list[dict[str, Any]]]) -> None:
    piece = {"filrouge_export": 1, "form": "jsonl", **document}
    done = import_document(home, piece, trusted=True)
    assert done.problems == []
    found = said_again(home)
    for table, rows in document.items():
        for row in rows:
            assert row in found[table], table
    again = import_document(home, piece, trusted=True)
    assert sum(counts["added"] for counts in again.counts.values()) == 0


@pytest.mark.parametrize(("table", "wrong"), ODD)
@settings(max_examples=examples(2), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=documents())
def test_a_row_that_nobody_could_read_afterwards_is_not_read_in(
    home: Parts, table: str, wrong: dict[str, Any], document: dict[str, list[dict[str, Any]]]
) -> None:
    before = said_again(home)
    piece = {"filrouge_export": 1, "form": "jsonl", table: [{**document[table][0], **wrong}]}
    done = import_document(home, piece, trusted=True)
    assert [one["table"] for one in done.problems] == [table]
    assert next(iter(wrong)) in done.problems[0]["problem"]
    assert said_again(home).get(table) == before.get(table)
