"""A law: whatever was said and whatever is forgotten, no row goes or changes that the preview did not list."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from typing import Any, Final

import apsw
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filrouge.capture.service import store_events
from filrouge.context.service import build_and_log_text
from filrouge.core.paths import DATABASE, inside
from filrouge.erasure.service import ForgetRequest, forget, preview
from filrouge.memories.changes import put_fact, remember
from filrouge.runtime.services import Parts
from filrouge.testing import idle, running
from tests.support.given import BLOG, SHOP, event
from tests.support.tiers import examples

#: What a thing is known by in each table, as the preview says it.
KEYS: Final[Mapping[str, str]] = {
    "memories": "id", "turns": "id", "events": "id", "threads": "id", "bridges": "id", "syntheses": "id",
    "memory_retrievals": "id", "unread_answers": "id", "informed_outputs": "content_hash", "reviews": "memory_id",
    "journal": "seq", "thread_decisions": "seq", "analysis_cache": "seq", "thread_turns": "turn_id",
    "evidence": "memory_id || ' ' || turn_id || ' ' || start || ' ' || stop",
    "concept_mentions": "memory_id || ' ' || host || ' ' || session_id",
    "session_analyses": "host || ' ' || session_id",
    "vectors": "owner_kind || ' ' || owner_id || ' ' || space_id || ' ' || part",
    "thread_vectors": "thread_id || ' ' || space_id",
    "projects": "id", "project_aliases": "alias", "memory_settings": "key", "readings": "host || ' ' || session_id",
    "transcripts": "path", "active_days": "project_id || ' ' || day",
}  # fmt: skip
NAMES: Final = ("kiosk", "ferry", "harbour", "beacon")
SAYINGS: Final = (
    "For the record: the {0} listens on port {1}.",
    "Always run the {0} checks {1} times before you commit.",
    "Correction: the {0} listens on port {1}, not 7001.",
    "Please find out why the {0} fails {1} times a day.",
)

said = st.tuples(st.sampled_from(SAYINGS), st.sampled_from(NAMES), st.integers(7001, 7004), st.sampled_from("ab"))
ways = st.sampled_from(("prompt", "reply", "remember", "fact", "asked", "tools"))


def content(parts: Parts) -> dict[tuple[str, str], str]:
    """Every row of every table that the preview speaks of, by its key, and a hash of all it holds."""
    connection: Any = apsw.Connection(inside(parts.home, DATABASE), flags=apsw.SQLITE_OPEN_READONLY)
    found: dict[tuple[str, str], str] = {}
    for table, key in KEYS.items():
        for id_, *rest in connection.execute(f"select {key}, * from {table}"):
            found[table, str(id_)] = hashlib.sha256(repr(rest).encode("utf-8", "surrogatepass")).hexdigest()
    connection.close()
    return found


def enter(parts: Parts, way: str, text: str, name: str, session: str) -> None:
    project = SHOP if session == "a" else BLOG
    match way:
        case "remember":
            remember(parts, text, names=project, scope="project", host="cli")
        case "fact":
            put_fact(parts, name, text, names=project, scope="project")
        case "asked":
            build_and_log_text(parts, event(text=text, session=session, project=project), project[0])
        case "tools":
            calls = [{"name": "Read", "id": f"{name}-{session}", "input": {"path": "a"}, "output": text}]
            store_events(parts, [event("tools", calls=calls, session=session, project=project)]).result(60)
        case "reply":
            store_events(parts, [event("reply", text=text, session=session, project=project)]).result(60)
        case _:
            store_events(parts, [event(text=text, session=session, project=project)]).result(60)


@settings(max_examples=examples(5), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(ways, said), min_size=3, max_size=8), st.sampled_from((*NAMES, "7001", "7002")), st.booleans()
)
def test_no_row_goes_or_changes_that_was_not_listed(
    entered: list[tuple[str, tuple[str, str, int, str]]], word: str, by_id: bool
) -> None:
    with tempfile.TemporaryDirectory() as home, running(home) as parts:
        for way, (saying, name, number, session) in entered:
            enter(parts, way, saying.format(name, number), name, session)
        idle(parts)
        memories = [id_ for table, id_ in content(parts) if table == "memories"]
        asked = ForgetRequest(id=memories[0]) if by_id and memories else ForgetRequest(text=word)
        shown = preview(parts, asked)
        before = content(parts)
        forget(parts, asked, shown.token)
        after = content(parts)
        listed = {(row.table, row.id) for row in shown.rows}
        touched = {key for key, digest in before.items() if after.get(key) != digest}
        assert touched <= listed, sorted(touched - listed)
        gone = {(row.table, row.id) for row in shown.rows if row.deed == "erased" and row.table in KEYS}
        assert {key for key in gone if after.get(key) == before.get(key)} <= {
            key for key in gone if key[0] == "thread_vectors"
        }
