"""Reports: what is stored and how it is going, as the API and the command line show it.

Each function answers the body of one route, so that `--json` of a command and the route of the same meaning
cannot differ.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from filrouge._version import __version__
from filrouge.app.backups import in_brief
from filrouge.app.parts import Parts
from filrouge.app.spaces import notice, wanted, wanted_name
from filrouge.app.standing import of_threads
from filrouge.app.thread_upkeep import state_counts
from filrouge.app.waiting_folders import waiting_folders
from filrouge.app.write_state import write_state
from filrouge.capture import inbox, losses
from filrouge.clock import to_text
from filrouge.errors import NotFound
from filrouge.home import DATABASE, SPOOL, inside
from filrouge.model.memory import Memory
from filrouge.model.recall import Hit, Ranking
from filrouge.model.turn import Turn
from filrouge.ports import Tx
from filrouge.store.analyses import Analyses
from filrouge.store.events import Events, Projects
from filrouge.store.jobs import Jobs
from filrouge.store.journal import Journal
from filrouge.store.threads import Threads
from filrouge.store.vectors import StoredVectors


def project_id(tx: Tx, names: Sequence[str]) -> str | None:
    """The project that these names stand for; one name may be an id, an alias or a short name.

    Raises:
        NotFound: a single plain name that no project has.
    """
    if not names:
        return None
    if len(names) == 1:
        wanted = names[0]
        for row in Projects(tx).all():
            if wanted in (row["id"], row["name"]) or wanted in Projects(tx).aliases(row["id"]):
                return str(row["id"])
        if ":" not in wanted:
            raise NotFound(f"There is no project {wanted!r}.", remedy="See `filrouge project list`.")
        return wanted
    projects = Projects(tx)
    return projects.find(tuple(names)) or projects.admitted(names)[0]


def project_names(tx: Tx, names: Sequence[str]) -> tuple[str, ...]:
    """The names to store something under: a single plain one must be a project that is known.

    Raises:
        NotFound: a single plain name that no project has.
    """
    known = project_id(tx, names) if len(names) == 1 else None
    return (known,) if known else tuple(names)


def audit(tx: Tx) -> dict[str, Any]:
    """Whether the journal is as it was written."""
    verdict = Journal(tx).verify()
    return {
        "sound": verdict.sound,
        "entries": verdict.entries,
        "redacted": verdict.redacted,
        "broken_at": verdict.broken_at,
        "reason": verdict.reason,
    }


def hit_json(hit: Hit, names: dict[str, str]) -> dict[str, Any]:
    """One search result."""
    item = hit.item
    return {
        "id": item.id,
        "content": item.text,
        "channel": item.scope.channel,
        "branch": item.scope.branch,
        "type": item.kind if isinstance(item, Memory) else "turn",
        "role": item.role if isinstance(item, Turn) else None,
        "project": item.scope.project,
        "project_name": names.get(item.scope.project or "", ""),
        "created_at": to_text(item.created_at if isinstance(item, Memory) else item.at),
        **hit.explain(),
    }


def hits(tx: Tx, rankings: Sequence[Ranking], limit: int) -> list[dict[str, Any]]:
    """The results of several rankings one after the other, at most `limit`."""
    names = names_of(tx)
    return [hit_json(hit, names) for ranking in rankings for hit in ranking.hits][:limit]


def status(parts: Parts, tx: Tx) -> dict[str, Any]:
    """The state of the whole, in counts."""
    spooled = len(inbox.waiting(inside(parts.home, SPOOL)))  # first: what is taken in meanwhile is counted as a job
    ledger = Events(tx).ledger()
    count = Jobs(tx).count()
    memories, rule_count, superseded = 0, 0, 0
    for row in tx.all("memories.count"):
        memories += row["n"] if row["state"] == "live" and not row["is_rule"] else 0
        rule_count += row["n"] if row["state"] == "live" and row["is_rule"] else 0
        superseded += row["n"] if row["state"] == "superseded" else 0
    last = tx.one("events.last")
    return {
        "version": __version__,
        "pid": os.getpid(),
        "events": sum(ledger.values()),
        "ledger": ledger,
        "turns": number_of(tx, "turns.count"),
        "memories": memories,
        "rules": rule_count,
        "superseded": superseded,
        "to_review": number_of(tx, "reviews.count"),
        "vectors": StoredVectors(tx).count(),
        "queue": {"waiting": count.waiting, "running": count.running, "dead": count.dead},
        "spooled": spooled,
        "lost": losses.read(parts.home).events,
        "projects": Projects(tx).all(),
        "waiting_folders": waiting_folders(tx),
        "last_activity": last["at"] if last else None,
        "backups": in_brief(parts.home),
        "database_bytes": os.path.getsize(inside(parts.home, DATABASE)),
        "embedding_notice": notice(parts.meaning, wanted(parts.embedders, wanted_name(tx, parts.home, parts.environ))),
        "writes": write_state(parts),
        **of_threads(parts, tx),
        **parts.to_json(),
    }


def stats(tx: Tx) -> dict[str, Any]:
    """The counts of the memory page."""
    live = sum(row["n"] for row in tx.all("memories.count") if row["state"] == "live")
    last = tx.one("events.last")
    return {
        "factsCount": live,
        "messagesCount": number_of(tx, "turns.count"),
        "vectorsCount": StoredVectors(tx).count(),
        "lastIndexedAt": last["at"] if last else None,
    }


def concepts(parts: Parts, tx: Tx, names: Sequence[str], limit: int) -> list[dict[str, Any]]:
    """The concepts of a project, or of all where none is named, those of most sessions first."""
    known, project = names_of(tx), project_id(tx, names)
    rows = Analyses(tx, parts.analyser).concepts(project=project, everywhere=not names, limit=limit)
    return [
        {
            "id": row["id"],
            "concept": row["text"],
            "project": row["project_id"],
            "project_name": known.get(row["project_id"] or "", ""),
            "mention_count": row["mention_count"],
            "first_date": row["first_mention"],
            "last_date": row["last_mention"],
            "summary": row["summary"] or "",
            "sessions": row["sessions"],
            "thread_ids": row["thread_ids"],
        }
        for row in rows
    ]


def metrics(parts: Parts, tx: Tx) -> bytes:
    """What Prometheus is told, in its text format."""
    count = Jobs(tx).count()
    jobs = {"waiting": count.waiting, "running": count.running, "dead": count.dead}
    return parts.meters.text(
        jobs=jobs,
        events=Events(tx).ledger(),
        received=Events(tx).received(),
        cached=number_of(tx, "analyses.cached_count"),
        threads=state_counts(parts, tx),
        continuation=Threads(tx).continuation(),
    )


def names_of(tx: Tx) -> dict[str, str]:
    """The short name of every project."""
    return {row["id"]: row["name"] for row in Projects(tx).all()}


def number_of(tx: Tx, query: str) -> int:
    """What a counting query answers."""
    row = tx.one(query)
    return int(row["n"]) if row else 0
