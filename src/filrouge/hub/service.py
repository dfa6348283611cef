"""The verbs of the hub. Each works within one transaction of one member (`database.Session`).

`push` stores versions, and repeating it changes nothing. `changes` hands them out in the order of the transactions
that wrote them. A transaction id is assigned at a transaction's first write, and lower ids may commit later, so only
rows of transactions below `pg_snapshot_xmin` are handed out: all of those have ended. A reader that follows the cursor
therefore misses nothing, at the price that an open transaction holds back what was written after it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import numpy as np
from pgvector import HalfVector

from filrouge.core.clock import Clock, new_id
from filrouge.core.errors import BadInput, Busy, Forbidden, NotFound
from filrouge.hub import journal, queue, search
from filrouge.hub.database import Session, lock_versions
from filrouge.hub.limits import Quota, spend_versions, stored_bytes
from filrouge.hub.models import (
    Change,
    Conflict,
    Device,
    Keep,
    Outcome,
    Page,
    Position,
    PushAnswer,
    Receipt,
    Version,
    decoded_vector,
    encoded_vector,
)

#: The fields of a version that are a column of the same name.
_CONTENT: Final = (
    "memory", "version", "state", "host", "project", "kind", "text", "language", "evidence", "confidence",
    "valid_from", "valid_to", "supersedes", "space",
)  # fmt: skip
#: How long a device may be away.
LOST_AFTER: Final = timedelta(days=90)
_TOMBSTONE_DIGEST: Final = hashlib.sha256(b"tombstone").digest()

# Push.


def push(session: Session, clock: Clock, versions: Sequence[Version]) -> list[PushAnswer]:
    """Store versions in their order; return what became of each.

    A version that is stored already is a `duplicate`. A number that is stored with other content, or below the latest,
    is a `conflict` between the member's own devices. Another member's memory, a forgotten one, and one that is beyond
    the tenant's quota is `refused`.

    Raises:
        Forbidden: the token may not share.
        TooMany: the tenant's versions of this minute are used up.
    """
    session.require("share")
    lock_versions(session.connection, session.identity.tenant)
    spend_versions(session, len(versions))
    quota, space = Quota(session), _space_of(session, versions)
    answers = [_store(session, clock, version, quota, space) for version in versions]
    accepted = [answer for answer in answers if answer.outcome == "accepted"]
    if accepted:
        quota.save()
        _defer_vectors(session, [answer.memory for answer in accepted])
        payload = {"versions": [[answer.memory, answer.version] for answer in accepted]}
        journal.append(session, clock, action="share", subject=accepted[0].memory, payload=payload)
    return answers


def _defer_vectors(session: Session, memories: Sequence[str]) -> None:
    """Let a worker embed those of these memories that have no vector."""
    waiting = session.connection.execute(
        "SELECT memory FROM hub.versions WHERE memory = ANY(%s) AND is_latest AND state = 'live' AND vector IS NULL"
        " AND hub.has_workers() ORDER BY seq",
        [memories],
    ).fetchall()
    queue.defer_embedding(session.connection, session.identity.tenant, [row["memory"] for row in waiting])


def _space_of(session: Session, versions: Sequence[Version]) -> tuple[str, int]:
    """Return the tenant's space and dimension; the first vector that a tenant pushes decides them."""
    for version in versions:
        vector = decoded_vector(version.vector)
        if version.space and vector is not None:
            return search.claim_space(session, version.space, len(vector))
    return search.space_of_tenant(session)


def _store(session: Session, clock: Clock, version: Version, quota: Quota, space: tuple[str, int]) -> PushAnswer:
    def answer(outcome: Outcome, reason: str = "", *, latest: int = 0) -> PushAnswer:
        return PushAnswer(memory=version.memory, version=version.version, outcome=outcome, reason=reason, latest=latest)

    latest = session.connection.execute(
        "SELECT version, author, state, kind, text, accepted_by, members.name FROM hub.versions JOIN hub.members"
        " ON members.tenant = versions.tenant AND member = author WHERE memory = %s AND is_latest",
        [version.memory],
    ).fetchone()
    if latest is not None:
        if latest["state"] == "forgotten":
            return answer("refused", "it was forgotten")
        if latest["author"] != session.identity.member:
            return answer("refused", f"it is {latest['name']}'s; share a memory that supersedes it")
        if version.version <= latest["version"]:
            stored = session.connection.execute(
                "SELECT digest FROM hub.versions WHERE memory = %s AND version = %s", [version.memory, version.version]
            ).fetchone()
            if stored is not None and bytes(stored["digest"]) == version.digest():
                return answer("duplicate")
            number = latest["version"]
            return answer("conflict", f"the hub has version {number} with other content", latest=number)
    if reason := quota.refusal(version, replaces_live=latest is not None and latest["state"] == "live"):
        return answer("refused", reason)
    if latest is not None:
        session.connection.execute(
            "UPDATE hub.versions SET is_latest = false WHERE memory = %s AND is_latest", [version.memory]
        )
    is_same = latest is not None and (latest["kind"], latest["text"]) == (version.kind, version.text)
    _insert(session, version, space, accepted_by=latest["accepted_by"] if latest is not None and is_same else "")
    if version.supersedes is not None and version.state == "live":
        _open_conflict(session, clock, version)
    return answer("accepted")


def _insert(session: Session, version: Version, space: tuple[str, int], *, accepted_by: str) -> None:
    """Store a version with its words. A vector of another space than the tenant's is left out: a worker makes one."""
    vector = decoded_vector(version.vector)
    if vector is not None and (version.space, len(vector)) != space:
        vector = None
    is_found = version.state == "live"
    columns = {name: getattr(version, name) for name in _CONTENT} | {
        "space": "" if vector is None else version.space,
        "words": search.words_of(version.text) if is_found else None,
        "analyser": search.analyser().version if is_found else 0,
        "tenant": session.identity.tenant,
        "author": session.identity.member,
        "vector": None if vector is None else HalfVector(vector).to_text(),
        "digest": version.digest(),
        "accepted_by": accepted_by,
    }
    session.connection.execute(
        """
        INSERT INTO hub.versions (tenant, author, memory, version, state, host, project, kind, text, language, evidence,
                                  confidence, valid_from, valid_to, supersedes, space, vector, words, analyser, digest,
                                  accepted_by)
        VALUES (%(tenant)s, %(author)s, %(memory)s, %(version)s, %(state)s, %(host)s, %(project)s, %(kind)s, %(text)s,
                %(language)s, %(evidence)s, %(confidence)s, %(valid_from)s, %(valid_to)s, %(supersedes)s, %(space)s,
                %(vector)s::halfvec, %(words)s::tsvector, %(analyser)s, %(digest)s,
                %(accepted_by)s)
        """,
        columns,
    )


def _open_conflict(session: Session, clock: Clock, version: Version) -> None:
    """Open a conflict with each live memory of another member that supersedes the same one."""
    rivals = session.connection.execute(
        "SELECT memory FROM hub.versions WHERE supersedes = %s AND memory <> %s AND author <> %s AND is_latest"
        " AND state = 'live' ORDER BY seq",
        [version.supersedes, version.memory, session.identity.member],
    ).fetchall()
    for rival in rivals:
        session.connection.execute(
            "INSERT INTO hub.conflicts (tenant, conflict, memory, first, second) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            [session.identity.tenant, new_id(clock.now()), version.supersedes, rival["memory"], version.memory],
        )


# Changes.

_VERSIONS: Final = """
SELECT memory, version, author, members.name AS author_name, state, host, project, kind, text, language, evidence,
  confidence, valid_from, valid_to, supersedes, space, vector, forgotten_by, admins.name AS accepted_by, epoch, xid, seq
FROM hub.versions
JOIN hub.members ON members.tenant = versions.tenant AND member = author
LEFT JOIN hub.members AS admins ON admins.tenant = versions.tenant AND admins.member = accepted_by
WHERE (epoch, xid, seq) > (%(epoch)s, %(xid)s::text::xid8, %(seq)s)
  AND (epoch < hub.current_epoch() OR xid < %(horizon)s::text::xid8)
  AND (%(project)s::text IS NULL OR project = %(project)s)
ORDER BY epoch, xid, seq LIMIT %(limit)s
"""
_CONFLICTS: Final = """
SELECT * FROM hub.conflicts
WHERE (epoch, xid, seq) > (%(epoch)s, %(xid)s::text::xid8, %(seq)s)
  AND (epoch < hub.current_epoch() OR xid < %(horizon)s::text::xid8)
ORDER BY epoch, xid, seq LIMIT %(limit)s
"""


def changes(session: Session, *, after: str, limit: int, device: str | None = None, project: str | None = None) -> Page:
    """Return the changes behind a cursor, in order.

    Args:
        after: the cursor of the page before; empty = from the beginning.
        device: the device that asks. It has applied everything up to the cursor.
        project: only the versions of this project, for a device that has just begun to work in it.

    Raises:
        Forbidden: the token may not read.
        BadInput: the cursor is invalid.
        NotFound: the device is unknown.
    """
    session.require("read")
    begin = Position.from_cursor(after)
    if device is not None:
        _note_position(session, device, begin)
    # One horizon for both tables: every statement has its own snapshot, and what commits between them must wait.
    horizon = session.connection.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS xid").fetchone()
    assert horizon is not None
    parameters = {
        "epoch": begin.epoch, "xid": str(begin.xid), "seq": begin.seq, "horizon": horizon["xid"], "limit": limit + 1,
        "project": project,
    }  # fmt: skip
    versions = session.connection.execute(_VERSIONS, parameters).fetchall()
    conflicts = [] if project else session.connection.execute(_CONFLICTS, parameters).fetchall()
    found = [(Position.from_row(row), _version_change(row)) for row in versions]
    found += [(Position.from_row(row), _conflict_change(row)) for row in conflicts]
    found.sort(key=lambda change: change[0])
    page = found[:limit]
    return Page(
        changes=tuple(change for _, change in page),
        cursor=page[-1][0].cursor() if page else begin.cursor() if after else "",
        complete=len(found) <= limit,
    )


def projects(session: Session) -> list[str]:
    """Return the addresses of the projects that have shared memories, in alphabetical order.

    Raises:
        Forbidden: the token may not read.
    """
    session.require("read")
    rows = session.connection.execute(
        "SELECT DISTINCT project FROM hub.versions WHERE is_latest AND state = 'live' ORDER BY project"
    )
    return [row["project"] for row in rows]


def _note_position(session: Session, device: str, position: Position) -> None:
    """Record how far a device is; most requests change nothing, and then write nothing."""
    row = _device(session, device)
    if row["is_old"] or Position.from_row(row) != position:
        session.connection.execute(
            "UPDATE hub.devices SET seen_at = now(), epoch = %s, xid = %s::text::xid8, seq = %s WHERE device = %s",
            [position.epoch, str(position.xid), position.seq, device],
        )


def _version_change(row: Mapping[str, Any]) -> Change:
    if row["state"] == "forgotten":
        return Change(
            type="tombstone",
            memory=row["memory"],
            version=row["version"],
            author=row["author"],
            by=row["forgotten_by"],
        )
    vector = HalfVector.from_text(row["vector"]).to_numpy().astype(np.float32) if row["vector"] else None
    content = Version(**{name: row[name] for name in _CONTENT}, vector="" if vector is None else encoded_vector(vector))
    return Change(
        type="version",
        memory=row["memory"],
        version=row["version"],
        author=row["author"],
        author_name=row["author_name"],
        accepted_by=row["accepted_by"] or "",
        content=content,
    )


def _conflict_change(row: Mapping[str, Any]) -> Change:
    return Change(type="conflict", memory=row["memory"], conflict=_conflict(row))


def _conflict(row: Mapping[str, Any]) -> Conflict:
    return Conflict(**{name: row[name] for name in Conflict.model_fields})


# Conflicts.


def conflicts(session: Session) -> list[Conflict]:
    """Return the conflicts that nobody has settled, oldest first."""
    session.require("read")
    rows = session.connection.execute(
        "SELECT * FROM hub.conflicts WHERE settled_at IS NULL ORDER BY opened_at, conflict"
    )
    return [_conflict(row) for row in rows]


def settle(session: Session, clock: Clock, conflict: str, keep: Keep) -> Conflict:
    """Say which memory of a conflict holds; every device hears of it.

    Raises:
        Forbidden: the caller wrote neither memory and is no admin.
        NotFound: there is no such conflict, or one of its memories was forgotten.
        Busy: it is settled already.
    """
    session.require("share")
    row = session.connection.execute(
        "SELECT * FROM hub.conflicts WHERE conflict = %s FOR UPDATE", [conflict]
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no conflict {conflict}.")
    if row["settled_at"] is not None:
        raise Busy(f"The conflict {conflict} is settled already.", remedy="Pull the changes.")
    authors = session.connection.execute(
        "SELECT author FROM hub.versions WHERE memory IN (%s, %s) AND is_latest", [row["first"], row["second"]]
    ).fetchall()
    if session.identity.member not in {one["author"] for one in authors}:
        session.require("admin")
    settled = session.connection.execute(
        "UPDATE hub.conflicts SET settled_at = now(), settled_by = %s, keep = %s, epoch = hub.current_epoch(),"
        " xid = pg_current_xact_id(), seq = nextval('hub.positions') WHERE conflict = %s RETURNING *",
        [session.identity.member, keep, conflict],
    ).fetchone()
    assert settled is not None
    journal.append(session, clock, action="settle", subject=row["memory"], payload={"conflict": conflict, "keep": keep})
    return _conflict(settled)


# Rules.


def accept(session: Session, clock: Clock, memories: Sequence[str]) -> dict[str, bool]:
    """Accept rules for everybody in the tenant; every device hears of it. Repeating it changes nothing.

    Returns:
        Whether a rule was accepted now, by memory; False if somebody did before.

    Raises:
        Forbidden: the token is no admin's.
        NotFound: a memory is not shared here, or no longer.
        BadInput: it is no rule.
    """
    session.require("admin")
    lock_versions(session.connection, session.identity.tenant)
    accepted = {memory: _accept_one(session, memory) for memory in dict.fromkeys(memories)}
    for memory, is_new in accepted.items():
        if is_new:
            journal.append(session, clock, action="accept", subject=memory, payload={})
    return accepted


def _accept_one(session: Session, memory: str) -> bool:
    row = session.connection.execute(
        "SELECT kind, accepted_by FROM hub.versions WHERE memory = %s AND is_latest AND state = 'live'", [memory]
    ).fetchone()
    if row is None:
        raise NotFound(f"The memory {memory} is not shared here, or no longer.")
    if row["kind"] != "rule":
        raise BadInput(f"The memory {memory} is no rule.", remedy="Only a rule waits to be accepted.")
    if row["accepted_by"]:
        return False
    session.connection.execute(
        "UPDATE hub.versions SET accepted_by = %s, epoch = hub.current_epoch(), xid = pg_current_xact_id(),"
        " seq = nextval('hub.positions') WHERE memory = %s AND is_latest",
        [session.identity.member, memory],
    )
    return True


# Forgetting.


def forget(session: Session, clock: Clock, memories: Sequence[str]) -> dict[str, int]:
    """Erase all versions of these memories, and leave a tombstone for each. Repeating it changes nothing.

    Returns:
        The number of erased versions, by memory; 0 if there was nothing left to erase.

    Raises:
        Forbidden: the token may not forget, or a memory is another member's and the caller is no admin.
        NotFound: a memory was never shared here.
    """
    session.require("forget")
    lock_versions(session.connection, session.identity.tenant)
    quota = Quota(session)
    erased = {memory: _forget_one(session, memory, quota) for memory in dict.fromkeys(memories)}
    if any(erased.values()):
        quota.save()
    for memory, versions in erased.items():
        if versions:
            journal.append(session, clock, action="forget", subject=memory, payload={"versions": versions})
    return erased


def _forget_one(session: Session, memory: str, quota: Quota) -> int:
    latest = session.connection.execute(
        "SELECT version, author, state FROM hub.versions WHERE memory = %s AND is_latest", [memory]
    ).fetchone()
    if latest is None:
        raise NotFound(f"The memory {memory} was never shared here.")
    if latest["author"] != session.identity.member and "admin" not in session.identity.scopes:
        raise Forbidden("Only its author or an admin of the team can forget a shared memory.")
    if latest["state"] == "forgotten":
        return 0
    erased = session.connection.execute(
        "DELETE FROM hub.versions WHERE memory = %s RETURNING text, evidence", [memory]
    ).fetchall()
    quota.free(
        memories=int(latest["state"] == "live"),
        bytes_=sum(stored_bytes(row["text"], row["evidence"]) for row in erased),
    )
    session.connection.execute(
        "INSERT INTO hub.versions (tenant, memory, version, author, state, digest, forgotten_by)"
        " VALUES (%s, %s, %s, %s, 'forgotten', %s, %s)",
        [
            session.identity.tenant,
            memory,
            latest["version"] + 1,
            latest["author"],
            _TOMBSTONE_DIGEST,
            session.identity.member,
        ],
    )
    return len(erased)


def confirm(session: Session, device: str, receipts: Sequence[Receipt]) -> None:
    """Record what a device found of forgotten memories after it applied their tombstones.

    Raises:
        NotFound: the device is unknown, or a memory was not forgotten here.
    """
    session.require("read")
    _device(session, device)
    for receipt in receipts:
        stored = session.connection.execute(
            "INSERT INTO hub.receipts (tenant, memory, device, left_over)"
            " SELECT tenant, memory, %s, %s FROM hub.versions WHERE memory = %s AND is_latest AND state = 'forgotten'"
            " ON CONFLICT (tenant, memory, device) DO UPDATE SET left_over = excluded.left_over, at = now()",
            [device, receipt.left_over, receipt.memory],
        )
        if not stored.rowcount:
            raise NotFound(f"The memory {receipt.memory} was not forgotten here.")


# Devices.


def join(session: Session, clock: Clock, device: Device) -> None:
    """Register a device of the member, or change its name.

    Raises:
        Forbidden: the token may not read, or another member has a device with this id.
    """
    session.require("read")
    stored = session.connection.execute(
        "INSERT INTO hub.devices (tenant, device, member, name) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT (tenant, device) DO UPDATE SET name = excluded.name WHERE devices.member = excluded.member",
        [session.identity.tenant, device.device, session.identity.member, device.name],
    )
    if not stored.rowcount:
        raise Forbidden("Another member has a device with this id.", remedy="Join with a new id.")
    journal.append(session, clock, action="join", subject=device.device, payload={})


def _device(session: Session, device: str) -> Mapping[str, Any]:
    """Return how far a device of the member is, and whether it was seen more than a minute ago.

    Raises:
        NotFound: the member has no such device.
    """
    row = session.connection.execute(
        "SELECT epoch, xid, seq, seen_at < now() - interval '1 minute' AS is_old FROM hub.devices"
        " WHERE device = %s AND member = %s",
        [device, session.identity.member],
    ).fetchone()
    if row is None:
        raise NotFound(f"The device {device} is unknown.", remedy="Join again with `filrouge team join`.")
    return row


def status(session: Session) -> dict[str, Any]:
    """Return the tenant's counts, how far behind the changes are, and which devices have not confirmed a forgetting.

    `waiting` counts the live memories without a vector. A device that was not seen for 90 days is
    `lost`; it is still counted, as it may come back. `journal` is the latest check of the journal;
    None = it was never checked.
    """
    session.require("read")
    counts = session.connection.execute(
        """
        SELECT (SELECT count(*) FROM hub.versions WHERE is_latest AND state = 'live') AS memories,
          (SELECT count(*) FROM hub.versions WHERE state = 'forgotten') AS forgotten,
          (SELECT count(*) FROM hub.conflicts WHERE settled_at IS NULL) AS conflicts,
          (SELECT count(*) FROM hub.members WHERE removed_at IS NULL) AS members,
          (SELECT count(*) FROM hub.devices) AS devices,
          (SELECT count(*) FROM hub.devices WHERE seen_at < now() - %(lost)s) AS lost,
          (SELECT count(*) FROM hub.versions WHERE is_latest AND state = 'live' AND vector IS NULL) AS waiting,
          (SELECT min(received_at) FROM hub.versions WHERE epoch = hub.current_epoch()
           AND xid >= pg_snapshot_xmin(pg_current_snapshot())) AS held_back_since
        """,
        {"lost": LOST_AFTER},
    ).fetchone()
    assert counts is not None
    unconfirmed = session.connection.execute(
        """
        SELECT devices.device, devices.name, members.name AS member, devices.seen_at,
          devices.seen_at < now() - %(lost)s AS lost, count(*) AS memories
        FROM hub.devices JOIN hub.members USING (tenant, member)
        JOIN hub.versions ON versions.tenant = devices.tenant AND state = 'forgotten'
        LEFT JOIN hub.receipts ON receipts.tenant = devices.tenant AND receipts.device = devices.device
          AND receipts.memory = versions.memory AND left_over = 0
        WHERE receipts.memory IS NULL AND members.removed_at IS NULL AND devices.joined_at < versions.received_at
        GROUP BY devices.device, devices.name, members.name, devices.seen_at ORDER BY devices.seen_at
        """,
        {"lost": LOST_AFTER},
    ).fetchall()
    check = session.connection.execute(
        "SELECT checked_at, entries, broken_at, reason FROM hub.journal_checks"
    ).fetchone()
    return {
        "tenant": session.identity.tenant_name,
        "member": session.identity.member_name,
        "member_id": session.identity.member,
        "scopes": sorted(session.identity.scopes),
        **counts,
        "unconfirmed": unconfirmed,
        "journal": check,
    }
