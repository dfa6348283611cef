"""What a tenant may use: requests and versions a minute, live memories and bytes. Another tenant never notices."""

from __future__ import annotations

from collections.abc import Generator

import httpx2
import pytest
from starlette.testclient import TestClient

from filrouge.core.errors import BadInput, TooMany
from filrouge.hub import limits, schema, service
from filrouge.hub.database import HubDatabase
from filrouge.server.hub import create_app
from tests.support.postgres import Hub

from .shared import CLOCK, outcomes, push, team, version


@pytest.fixture
def instances(hub: Hub) -> Generator[tuple[TestClient, TestClient]]:
    """Two instances of a hub on one database."""
    with (
        TestClient(create_app(HubDatabase(hub.serving), CLOCK)) as first,
        TestClient(create_app(HubDatabase(hub.serving), CLOCK)) as second,
    ):
        yield first, second


def tenant_of(hub: Hub, secret: str) -> str:
    with hub.database.session(secret) as session:
        return session.identity.tenant


def limit(hub: Hub, secret: str, **to: int) -> str:
    """Set limits of the tenant of a token, and begin a new minute."""
    tenant = tenant_of(hub, secret)
    with schema.connect(hub.owner) as connection:
        limits.set_limits(connection, tenant, **to)
        connection.execute("DELETE FROM hub.usage WHERE tenant = %s", [tenant])
    return tenant


def pass_a_minute(hub: Hub, tenant: str) -> None:
    with schema.connect(hub.owner) as connection:
        connection.execute("UPDATE hub.usage SET began = began - interval '1 minute' WHERE tenant = %s", [tenant])


def status(client: TestClient, secret: str) -> httpx2.Response:
    return client.get("/hub/v1/status", headers={"Authorization": f"Bearer {secret}"})


def test_a_request_above_the_limit_waits_for_the_next_minute_on_every_instance(
    hub: Hub, instances: tuple[TestClient, TestClient]
) -> None:
    [ana], [other] = team(hub, "Ana"), team(hub, "Ben")
    tenant = limit(hub, ana, requests=7)
    codes = [status(instances[number % 2], ana).status_code for number in range(10)]
    assert codes == [200] * 7 + [429] * 3
    refused = status(instances[0], ana)
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert refused.json()["type"] == "urn:filrouge:error:TooMany"
    assert status(instances[0], other).status_code == 200
    pass_a_minute(hub, tenant)
    assert [status(instances[number % 2], ana).status_code for number in range(8)] == [200] * 7 + [429]


def test_what_instances_reserve_together_is_never_above_the_limit(
    hub: Hub, instances: tuple[TestClient, TestClient]
) -> None:
    [ana] = team(hub, "Ana")
    limit(hub, ana, requests=250)  # two at a time
    served = sum(status(instances[number % 3 > 0], ana).status_code == 200 for number in range(270))
    assert 248 <= served <= 250


def test_a_refused_request_writes_nothing_and_so_holds_no_change_back(hub: Hub) -> None:
    [ana] = team(hub, "Ana")
    tenant = limit(hub, ana, requests=1)
    fresh = HubDatabase(hub.serving)
    fresh.open()
    try:
        with fresh.session(ana):
            pass
        with schema.connect(hub.owner) as connection:
            before = connection.execute("SELECT xmin, xmax, * FROM hub.usage WHERE tenant = %s", [tenant]).fetchall()
            connection.commit()
            with pytest.raises(TooMany), fresh.session(ana):
                pass
            after = connection.execute("SELECT xmin, xmax, * FROM hub.usage WHERE tenant = %s", [tenant]).fetchall()
    finally:
        fresh.close()
    assert after == before


def test_versions_above_the_limit_of_a_minute_are_refused_whole_and_readers_go_on(hub: Hub) -> None:
    [ana] = team(hub, "Ana")
    tenant = limit(hub, ana, versions=5)
    assert outcomes(hub, ana, *[version() for _ in range(4)]) == ["accepted"] * 4
    with pytest.raises(TooMany) as refused:
        push(hub, ana, version(), version())
    assert 1 <= refused.value.retry_after <= 60
    assert outcomes(hub, ana, version()) == ["accepted"]
    with hub.database.session(ana) as session:
        assert service.status(session)["memories"] == 5
    pass_a_minute(hub, tenant)
    # The first push of a minute is taken at any size: otherwise this one would wait for ever.
    assert outcomes(hub, ana, *[version() for _ in range(6)]) == ["accepted"] * 6


def test_an_open_push_does_not_hold_up_the_requests_of_its_tenant(hub: Hub) -> None:
    [ana] = team(hub, "Ana")
    limit(hub, ana, requests=20)  # one at a time, so each request goes to the database
    with hub.database.session(ana) as pushing:
        service.push(pushing, CLOCK, [version()])
        with hub.database.session(ana) as reading:
            assert service.status(reading)["memories"] == 0


def test_a_quota_refuses_each_memory_that_does_not_fit_and_forgetting_frees_it(hub: Hub) -> None:
    [ana], [other] = team(hub, "Ana"), team(hub, "Ben")
    limit(hub, ana, memories=2)
    first, second, third = version("One."), version("Two."), version("Three.")
    answers = push(hub, ana, first, second, third)
    assert [answer.outcome for answer in answers] == ["accepted", "accepted", "refused"]
    assert "2 memories" in answers[2].reason
    assert outcomes(hub, ana, first) == ["duplicate"]
    # A new version of a memory takes no room, and one that ends gives it back.
    ended = first.model_copy(update={"version": 2, "state": "ended"})
    assert outcomes(hub, ana, ended, third, version("Four.")) == ["accepted", "accepted", "refused"]
    assert outcomes(hub, ana, first.model_copy(update={"version": 3})) == ["refused"]
    with hub.database.session(ana) as session:
        service.forget(session, CLOCK, [first.memory, second.memory])
    assert outcomes(hub, ana, version("Five."), version("Six.")) == ["accepted", "refused"]
    assert outcomes(hub, other, *[version() for _ in range(3)]) == ["accepted"] * 3
    # Where a limit is set below what is stored already, what is there can still change and end.
    limit(hub, ana, memories=1)
    changes = [third.model_copy(update={"version": 2}), third.model_copy(update={"version": 3, "state": "ended"})]
    assert outcomes(hub, ana, *changes) == ["accepted"] * 2


def test_a_quota_of_bytes_counts_all_versions_until_they_are_forgotten(hub: Hub) -> None:
    [ana] = team(hub, "Ana")
    tenant = limit(hub, ana, bytes=5000)
    big = version("é" * 1000, evidence="e" * 500)  # 2,000 + 500 + 1,000 bytes
    again = big.model_copy(update={"version": 2, "project": "github.com/acme/pier"})
    answers = push(hub, ana, big, again, version("Small."))
    assert [answer.outcome for answer in answers] == ["accepted", "refused", "accepted"]
    assert "5000 bytes" in answers[1].reason
    with schema.connect(hub.owner) as connection:
        told = limits.set_limits(connection, tenant)
        assert (told["stored_memories"], told["stored_bytes"]) == (2, 4506)
    with hub.database.session(ana) as session:
        service.forget(session, CLOCK, [big.memory])
    assert outcomes(hub, ana, version("é" * 1000, evidence="e" * 400)) == ["accepted"]


def test_a_limit_is_a_positive_number(hub: Hub) -> None:
    [ana] = team(hub, "Ana")
    tenant = tenant_of(hub, ana)
    with schema.connect(hub.owner) as connection:
        for bad in ({"requests": 0}, {"bytes": -1}, {"versions": 2**31}):
            with pytest.raises(BadInput):
                limits.set_limits(connection, tenant, **bad)
