"""No row crosses between tenants: not by what a request contains, nor by raw SQL of the serving role."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, LiteralString

import httpx2
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql
from psycopg.rows import dict_row
from starlette.testclient import TestClient

from filrouge.hub.database import Connection, HubDatabase
from filrouge.hub.models import Version
from filrouge.server.hub import create_app
from tests.support.postgres import Hub
from tests.support.tiers import examples

from .shared import CLOCK, PROJECT, ulid, version


@dataclass(kw_only=True)
class Tenant:
    """A tenant, and what its members shared."""

    secret: str
    tenant: str
    member: str
    marker: str
    memories: list[str] = field(default_factory=list[str])


@pytest.fixture(scope="module")
def tenants(hub: Hub) -> list[Tenant]:
    made = [(marker, hub.add_tenant(f"Tenant {marker}")) for marker in ("ALPHA", "BRAVO", "CHARLIE")]
    return [Tenant(secret=one.secret, tenant=one.tenant, member=one.member, marker=marker) for marker, one in made]


@pytest.fixture(scope="module")
def client(hub: Hub) -> Generator[TestClient]:
    with TestClient(create_app(HubDatabase(hub.serving), CLOCK)) as found:
        yield found


TENANT = st.integers(0, 2)
OPERATION = st.tuples(
    st.sampled_from(
        """
        push take changes forget accept settle status members join receipt invite search search-of-author context
        """.split()
    ),
    TENANT,
    TENANT,
    st.integers(0, 10**6),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(OPERATION, min_size=1, max_size=10))
def test_no_request_shows_or_changes_another_tenants_rows(
    client: TestClient, tenants: list[Tenant], operations: list[tuple[str, int, int, int]]
) -> None:
    for verb, own, other, number in operations:
        answer = ask(client, verb, tenants[own], tenants[other], number)
        body = answer.text
        for foreign in tenants:
            if foreign is not tenants[own]:
                assert foreign.marker not in body, (verb, body[:300])
    for tenant in tenants:
        assert read(client, tenant) == set(tenant.memories)


def ask(  # noqa: C901 (one case for each verb)
    client: TestClient, verb: str, own: Tenant, other: Tenant, number: int
) -> httpx2.Response:
    """Make a request with ids of another tenant planted wherever one fits."""
    foreign = other.memories[number % len(other.memories)] if other.memories else ulid()
    headers = {"Authorization": f"Bearer {own.secret}", "X-Tenant": other.tenant, "X-Hub-Pass": f"{other.tenant}:x"}
    query = {"tenant": other.tenant, "member": other.member}

    def send(method: str, path: str, json: Any = None, **more: Any) -> httpx2.Response:
        return client.request(method, f"/hub/v1{path}", json=json, headers=headers, params=query | more)

    match verb:
        case "push":
            fresh = version(f"{own.marker} says {number}", supersedes=foreign, kind="rule")
            own.memories.append(fresh.memory)
            return _ok(send("POST", "/push", body_of(fresh)))
        case "take":  # another tenant's id is free here: it names another memory
            if other is own or foreign in own.memories:
                return send("GET", "/status")
            own.memories.append(foreign)
            return _ok(send("POST", "/push", body_of(version(f"{own.marker} takes it", memory=foreign, kind="rule"))))
        case "changes":
            return _ok(send("GET", "/changes", limit=1 + number % 50))
        case "forget":
            answer = send("POST", "/forget", {"memories": [foreign]})
            assert answer.status_code == (200 if foreign in own.memories else 404), answer.text
            return answer
        case "accept":
            answer = send("POST", "/accept", {"memories": [foreign]})
            assert answer.status_code in ((200, 404) if foreign in own.memories else (404,)), answer.text
            return answer
        case "settle":
            return send("POST", f"/conflicts/{foreign}", {"keep": "first"})
        case "join":
            return _ok(send("POST", "/devices", {"device": ulid(), "name": f"{own.marker} {number}"}))
        case "receipt":
            return send("POST", "/receipts", {"device": ulid(), "receipts": [{"memory": foreign, "left_over": 0}]})
        case "search":
            return _ok(send("POST", "/search", {"query": f"{foreign} {other.marker} says takes {other.tenant}"}))
        case "search-of-author":  # all tenants name their project alike, so a filter by author decides
            answer = _ok(send("POST", "/search", {"query": "says takes", "author": other.member}))
            assert bool(answer.json()["items"]) <= (own is other), answer.text
            return answer
        case "context":
            return _ok(send("POST", "/context", {"project": PROJECT, "prompt": f"What {other.marker} says, takes?"}))
        case "invite":
            return _ok(send("POST", "/members", {"name": f"{own.marker} {number % 5}", "scopes": ["read"]}))
        case _:
            return _ok(send("GET", f"/{verb}"))


def _ok(answer: httpx2.Response) -> httpx2.Response:
    assert answer.status_code == 200, answer.text
    return answer


def body_of(*versions: Version) -> dict[str, Any]:
    return {"versions": [one.model_dump(mode="json") for one in versions]}


def read(client: TestClient, tenant: Tenant) -> set[str]:
    cursor, found = "", set[str]()
    while True:
        page = client.get(
            "/hub/v1/changes",
            params={"after": cursor, "limit": 1000},
            headers={"Authorization": f"Bearer {tenant.secret}"},
        ).json()
        found |= {change["memory"] for change in page["changes"] if change["type"] != "conflict"}
        cursor = page["cursor"]
        if page["complete"]:
            return found


FORBIDDEN: tuple[LiteralString, ...] = (
    "SELECT * FROM hub.installation",
    "SELECT hub.seal('x')",
    "ALTER TABLE hub.versions DISABLE ROW LEVEL SECURITY",
    "CREATE POLICY all_rows ON hub.versions USING (true)",
    "UPDATE hub.journal SET payload = '{}'",
    "DELETE FROM hub.tokens",
)
TABLES = (
    "tenants", "members", "tokens", "devices", "versions", "conflicts", "receipts", "journal", "usage", "totals",
    "word_counts", "journal_checks",
)  # fmt: skip


def select(table: str) -> sql.Composed:
    return sql.SQL("SELECT * FROM hub.{}").format(sql.Identifier(table))


def test_raw_sql_of_the_serving_role_sees_no_row_without_a_token_and_forges_no_tenant(
    hub: Hub, client: TestClient, tenants: list[Tenant]
) -> None:
    for tenant in tenants:
        ask(client, "push", tenant, tenant, 1)
    own, other = tenants[:2]
    forged = ["", other.tenant, f"{other.tenant}:", f"{other.tenant}:{'0' * 64}", "x:y"]
    with Connection.connect(hub.serving, row_factory=dict_row) as connection:
        for value in forged:
            connection.execute("SELECT set_config('hub.pass', %s, true)", [value])
            for table in TABLES:
                assert connection.execute(select(table)).fetchall() == [], (value, table)
            connection.rollback()
        for statement in FORBIDDEN:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
            connection.rollback()
    with hub.database.session(own.secret) as session:
        seen = {row["tenant"] for table in TABLES for row in session.connection.execute(select(table))}
        assert seen == {own.tenant}
        changed = session.connection.execute(
            "UPDATE hub.versions SET is_latest = is_latest WHERE tenant = %s", [other.tenant]
        )
        assert changed.rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege), session.connection.transaction():
            session.connection.execute(
                "INSERT INTO hub.conflicts (tenant, conflict, memory, first, second) VALUES (%s, 'a', 'b', 'c', 'd')",
                [other.tenant],
            )


def test_a_tenant_ends_with_its_transaction(hub: Hub, tenants: list[Tenant]) -> None:
    with hub.database.session(tenants[0].secret) as session:
        connection = session.connection
        assert connection.execute("SELECT hub.tenant() AS tenant").fetchone() == {"tenant": tenants[0].tenant}
    with psycopg.connect(hub.serving) as fresh:
        assert fresh.execute("SELECT hub.tenant()").fetchone() == (None,)
    with hub.database.session(tenants[1].secret) as session:
        assert session.connection.execute("SELECT hub.tenant() AS tenant").fetchone() == {"tenant": tenants[1].tenant}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"versions": []}, "versions"),
        ({"versions": [{"memory": "Kingfisher"}]}, "versions.0.memory"),
        ({"tenant": "Kingfisher"}, "versions"),
    ],
)
def test_an_invalid_body_is_refused_without_its_text(
    client: TestClient, tenants: list[Tenant], body: Any, said: str
) -> None:
    answer = client.post("/hub/v1/push", json=body, headers={"Authorization": f"Bearer {tenants[0].secret}"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in answer.json()["detail"]
    assert "Kingfisher" not in answer.text


def test_a_request_without_a_valid_token_is_refused(client: TestClient) -> None:
    for headers in ({}, {"Authorization": "Bearer frh_x"}, {"Authorization": "Basic x"}):
        assert client.get("/hub/v1/changes", headers=headers).status_code == 401
