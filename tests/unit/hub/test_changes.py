"""Changes are handed out in an order in which none can be missed, whatever transactions are open meanwhile."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from threading import Event as Flag

import pytest

from filrouge.core.errors import BadInput, NotFound
from filrouge.hub import schema, service
from filrouge.hub.database import Session
from filrouge.hub.limits import set_limits
from filrouge.hub.models import Device, Position, Version
from tests.support.postgres import Hub

from .shared import CLOCK, follow, pairs, push, team, ulid, version


def write(session: Session, *versions: Version) -> None:
    """Insert versions as `push` does, but without the lock that lets one transaction of a tenant write at a time."""
    for one in versions:
        session.connection.execute(
            "UPDATE hub.versions SET is_latest = false WHERE memory = %s AND is_latest", [one.memory]
        )
        session.connection.execute(
            "INSERT INTO hub.versions (tenant, author, memory, version, state, project, kind, text, valid_from, digest)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                session.identity.tenant, session.identity.member, one.memory, one.version, one.state, one.project,
                one.kind, one.text, one.valid_from, one.digest(),
            ],
        )  # fmt: skip


def by_number(session: Session, after: int) -> list[tuple[str, int]]:
    """Read as a cursor over a plain sequence would."""
    rows = session.connection.execute(
        "SELECT memory, seq FROM hub.versions WHERE seq > %s ORDER BY seq", [after]
    ).fetchall()
    return [(row["memory"], row["seq"]) for row in rows]


def test_a_change_that_commits_late_is_not_missed_as_a_plain_sequence_would_miss_it(hub: Hub) -> None:
    [ana] = team(hub, "Ana")
    early, late = version("Written first, committed last."), version("Written last, committed first.")
    with ExitStack() as stack:
        open_ = stack.enter_context(hub.database.session(ana))
        write(open_, early)
        with hub.database.session(ana) as session:
            write(session, late)
        with hub.database.session(ana) as session:
            naive = by_number(session, 0)
        changes, cursor = follow(hub, ana)
        assert [memory for memory, _ in naive] == [late.memory]
        assert pairs(changes) == []
    with hub.database.session(ana) as session:
        assert by_number(session, naive[-1][1]) == []  # the early one is lost to it
    changes, _ = follow(hub, ana, cursor)
    assert sorted(pairs(changes)) == sorted([(early.memory, 1), (late.memory, 1)])


@dataclass(frozen=True, kw_only=True)
class Law:
    """How many writers and readers there are, and how long a transaction is held open at most, in seconds."""

    writers: int
    readers: int
    changes: int
    longest: float


#: The light law, and the one of `.ci/run` and `make proof`.
LIGHT = Law(writers=8, readers=3, changes=600, longest=0.25)
FULL = Law(writers=20, readers=5, changes=10_000, longest=3.0)


def write_all(hub: Hub, secret: str, law: Law, seed: int) -> list[tuple[str, int]]:
    """Write versions of five memories in transactions that are held open, some of which fail; return the committed."""
    chance, committed = random.Random(seed), list[tuple[str, int]]()
    versions = {ulid(): 0 for _ in range(5)}
    while len(committed) < law.changes // law.writers:
        memories = chance.sample(list(versions), chance.randint(1, 5))
        batch = [version(f"Writer {seed}.", memory=memory, version=versions[memory] + 1) for memory in memories]
        with suppress(InterruptedError), hub.database.session(secret) as session:
            write(session, *batch)
            time.sleep(0.001 if chance.random() < 0.9 else chance.uniform(0.001, law.longest))
            if chance.random() < 0.1:
                raise InterruptedError
        if is_stored(hub, secret, batch[0]):
            versions |= {one.memory: one.version for one in batch}
            committed += [(one.memory, one.version) for one in batch]
    return committed


def is_stored(hub: Hub, secret: str, one: Version) -> bool:
    with hub.database.session(secret) as session:
        return bool(
            session.connection.execute(
                "SELECT 1 FROM hub.versions WHERE memory = %s AND version = %s", [one.memory, one.version]
            ).fetchone()
        )


def read_all(hub: Hub, secret: str, done: Flag, seed: int) -> list[tuple[str, int]]:
    """Follow the changes until the writers are done; die now and then, and begin again at a saved cursor."""
    chance, seen, cursor = random.Random(seed), list[tuple[str, int]](), ""
    kept, kept_cursor = 0, ""
    while True:
        is_last = done.is_set()
        with hub.database.session(secret) as session:
            page = service.changes(session, after=cursor, limit=chance.choice([1, 7, 100]))
        seen += pairs(page.changes)
        cursor = page.cursor
        if page.complete and is_last:
            return seen
        if chance.random() < 0.2:
            kept, kept_cursor = len(seen), cursor
        if chance.random() < 0.05:
            seen, cursor = seen[:kept], kept_cursor
        time.sleep(chance.uniform(0, 0.01))


@pytest.mark.parametrize("law", [LIGHT, pytest.param(FULL, marks=pytest.mark.slow)], ids=["light", "full"])
def test_every_reader_ends_with_all_committed_changes_in_the_order_of_their_versions(hub: Hub, law: Law) -> None:
    secret, done = team(hub, "Ana")[0], Flag()
    with hub.database.session(secret) as session, schema.connect(hub.owner) as owner:
        set_limits(owner, session.identity.tenant, requests=10**8, versions=10**8)
    with ThreadPoolExecutor(law.writers + law.readers) as pool:
        readers = [pool.submit(read_all, hub, secret, done, seed) for seed in range(law.readers)]
        writers = [pool.submit(write_all, hub, secret, law, seed) for seed in range(law.writers)]
        committed = [change for writer in writers for change in writer.result()]
        done.set()
        for reader in readers:
            seen = reader.result()
            assert sorted(seen) == sorted(committed)
            for memory in {memory for memory, _ in seen}:
                numbers = [number for name, number in seen if name == memory]
                assert numbers == sorted(numbers)


def test_pages_follow_each_other_whatever_their_size(hub: Hub) -> None:
    [ana] = team(hub, "Ana")
    shared = [version(f"Number {n}.") for n in range(7)]
    for one in shared:
        push(hub, ana, one)
    for limit in (1, 3, 7, 100):
        assert [memory for memory, _ in pairs(follow(hub, ana, limit=limit)[0])] == [one.memory for one in shared]


@pytest.mark.parametrize("cursor", ["x", "1.2", "1.2.3.4", "-1.2.3", "1.2.99999999999999999999999", "1.2.٣"])
def test_a_cursor_that_is_none_is_refused(hub: Hub, cursor: str) -> None:
    [ana] = team(hub, "Ana")
    with pytest.raises(BadInput), hub.database.session(ana) as session:
        service.changes(session, after=cursor, limit=1)


def test_a_device_is_told_from_the_position_that_it_applied(hub: Hub) -> None:
    ana, ben = team(hub, "Ana", "Ben")
    device = Device(device=ulid(), name="laptop")
    with hub.database.session(ana) as session:
        service.join(session, CLOCK, device)
    with pytest.raises(NotFound), hub.database.session(ben) as session:
        service.changes(session, after="", limit=1, device=device.device)
    push(hub, ana, version())
    _, cursor = follow(hub, ana)
    with hub.database.session(ana) as session:
        service.changes(session, after=cursor, limit=1, device=device.device)
        row = session.connection.execute("SELECT epoch, xid, seq FROM hub.devices").fetchone()
    assert row is not None
    assert Position.from_row(row).cursor() == cursor
