"""The journal of a tenant: who did what to which memory, in a hash chain like the one of `runtime.journal`.

It has ids and counts, but no text, so a forgotten memory leaves nothing in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from filrouge.core.clock import Clock, to_text
from filrouge.hub.sessions import Connection, Session
from filrouge.runtime.journal import GENESIS, JournalReport, chain_hash, seal, verify_chain


def append(session: Session, clock: Clock, *, action: str, subject: str, payload: Mapping[str, object]) -> None:
    """Record that the member did something.

    The tenant's journal stays locked until the transaction ends, so do this last.
    """
    tenant, connection = session.identity.tenant, session.connection
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('journal ' || %s, 0))", [tenant])
    last = connection.execute("SELECT number, hash FROM hub.journal ORDER BY number DESC LIMIT 1").fetchone()
    sealed = seal(payload)
    head = {"at": to_text(clock.now()), "actor": session.identity.member, "action": action, "subject_id": subject}
    connection.execute(
        "INSERT INTO hub.journal (tenant, number, at, actor, action, subject, payload, payload_key, payload_hash, hash)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [
            tenant, last["number"] + 1 if last else 1, head["at"], head["actor"], action, subject,
            json.dumps(dict(payload)), sealed.key, sealed.hash,
            chain_hash(bytes(last["hash"]) if last else GENESIS, head | {"tenant": tenant}, sealed.hash),
        ],
    )  # fmt: skip


def verify(connection: Connection, tenant: str) -> JournalReport:
    """Check the chain of a tenant."""
    rows = connection.execute(
        "SELECT *, number AS seq, subject AS subject_id FROM hub.journal WHERE tenant = %s ORDER BY number", [tenant]
    )
    return verify_chain(rows, without_gaps=True)
