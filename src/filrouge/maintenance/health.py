"""Health, status, reports and usage, as the API and the command line show them.

The report functions return the body of one route each, so a command's `--json` output and the route with the same
meaning cannot differ.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, Final

from filrouge._version import __version__
from filrouge.capture import inbox
from filrouge.capture.models import Turn
from filrouge.capture.repository import Events
from filrouge.context.log import Recalls
from filrouge.core.clock import Clock, to_text
from filrouge.core.paths import DATABASE, SPOOL, inside
from filrouge.core.protocols import Analyser, Tx
from filrouge.core.rows import number_of
from filrouge.extraction.repository import Analyses
from filrouge.maintenance.backup_service import backup_summary
from filrouge.maintenance.retention import last_run, policy_of
from filrouge.memories.models import Memory
from filrouge.projects.repository import Projects, folders_without_consent, names_of, project_id
from filrouge.providers.usage_repository import LlmUsage
from filrouge.runtime.disk import sizes, write_state
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.models import Hit, Ranking
from filrouge.search.repository import MIN_COVERAGE, StoredVectors
from filrouge.search.spaces import coverage, space_notice, wanted_embedder, wanted_name
from filrouge.threads.repository import Bridges, ThreadDecisions, Threads
from filrouge.threads.upkeep import state_counts

# Health and its warnings. A warning has a subject, a cause and the next command to run.

#: Lowest healthy share of continued threads, and the number of threads from which the share is judged.
MIN_CONTINUED_SHARE: Final = 0.10
MIN_THREADS: Final = 20
_DAYS: Final = 30


def thread_status(parts: StoreContext, tx: Tx) -> dict[str, Any]:
    """Return the thread part of `status`: `threads` by state, `bridges`, and the latest `current_thread` or None."""
    return {
        "threads": state_counts(parts, tx),
        "bridges": Bridges(tx).count()[0],
        "current_thread": tx.one("standing.current"),
    }


def health(parts: Parts, tx: Tx) -> dict[str, Any]:
    """Return all health figures and `warnings`, each with `what`, `cause` and `next`.

    `status` is `ok` if there are no warnings, else `warn`.
    """
    done, total = coverage(parts, tx)
    queue = Jobs(tx).count()
    stored, unsure = Bridges(tx).count()
    threads = state_counts(parts, tx)
    found: dict[str, Any] = {
        "daemon": "Running",
        "version": __version__,
        "threads": threads,
        "bridges": {"stored": stored, "unsure": unsure},
        "continuation": _share("continued", "could", *_continuation(parts, tx, threads)),
        "reactivation": _share("woken", "put_down", *_count_woken(tx)),
        "embedding_coverage": {"done": done, "total": total, "rate": round(done / total, 4) if total else None},
        "llm": _model_costs(parts.clock, tx),
        "queue": {"waiting": queue.waiting, "running": queue.running, "dead": queue.dead},
        "ledger": Events(tx).ledger(),
        "lost": inbox.read_losses(parts.home)._asdict(),
        "storage": stored_bytes(parts, tx),
        "writes": write_state(parts.writer, parts.home, probe=True),
        "backups": backup_summary(parts.home),
    }
    warnings = _warnings(found)
    return {"status": "warn" if warnings else "ok", **found, "warnings": warnings}


def _continuation(parts: Parts, tx: Tx, threads: Mapping[str, int]) -> tuple[int, int]:
    """Return how many threads have prompts of several sessions, and how many could have, from their current states."""
    mark = ThreadDecisions(tx).last(), number_of(tx, "turns.count"), tuple(threads.values())
    return parts.counts.get("continuation", mark, Threads(tx).continuation_counts)


def stored_bytes(parts: StoreContext, tx: Tx) -> dict[str, Any]:
    """Return the home's disk usage by part, its cap, and the last retention run."""
    found = sizes(parts.home)
    return {
        "bytes": sum(found.values()),
        "parts": found,
        "cap": policy_of(parts.settings(tx)).cap,
        "retention": last_run(tx),
    }


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.0f} MB"


def _share(part_name: str, total_name: str, count: int, total: int) -> dict[str, Any]:
    """Return two counts and their `rate`, which is None if the total is 0."""
    return {part_name: count, total_name: total, "rate": round(count / total, 4) if total else None}


def _count_woken(tx: Tx) -> tuple[int, int]:
    """Return how many dormant threads were continued, and how many were ever put down."""
    row = tx.one("standing.woken") or {"woken": 0, "put_down": 0}
    return int(row["woken"]), int(row["put_down"])


def _model_costs(clock: Clock, tx: Tx) -> dict[str, Any]:
    """Return calls to models and their cost, today and in the last 30 days."""
    now = clock.now()
    today, month = LlmUsage(tx).spent(now), LlmUsage(tx).by_model(now - timedelta(days=_DAYS))
    return {
        "today": {"calls": today.calls, "dollars": today.dollars, "unpriced_entries": today.unpriced},
        "days": _DAYS,
        "calls": sum(row["calls"] for row in month),
        "dollars": sum(row["dollars"] or 0.0 for row in month),
    }


def _warnings(found: dict[str, Any]) -> list[dict[str, str]]:
    warnings = list[dict[str, str]]()

    def warn(what: str, cause: str, command: str) -> None:
        warnings.append({"what": what, "cause": cause, "next": command})

    continuation, coverage, dead = found["continuation"], found["embedding_coverage"], found["queue"]["dead"]
    if continuation["could"] >= MIN_THREADS and continuation["rate"] < MIN_CONTINUED_SHARE:
        warn(
            "Continuation rate",
            f"{continuation['continued']} of {continuation['could']} threads that could continue did",
            "filrouge threads --status all",
        )
    if coverage["rate"] is not None and coverage["rate"] < MIN_COVERAGE:
        warn("Embedding coverage", f"{coverage['done']} of {coverage['total']} texts have vectors", "filrouge reindex")
    if dead:
        warn("Queue", f"{dead} jobs failed after eight attempts", "filrouge doctor")
    if found["lost"]["events"]:
        warn("Lost events", inbox.Losses(**found["lost"]).sentence(), "filrouge doctor")
    if not found["writes"]["works"]:
        warn("Writes", found["writes"]["cause"], found["writes"]["next"])
    size, cap = found["storage"]["bytes"], found["storage"]["cap"]
    if cap and size > cap:
        warn(
            "Storage",
            f"{_megabytes(size)} of {_megabytes(cap)}, and retention has nothing left to delete",
            "filrouge settings size_cap_mb",
        )
    if found["backups"]["failed"]:
        warn("Backups", f"the last one failed: {found['backups']['failed']['error']}", "filrouge doctor")
    if found["bridges"]["unsure"]:
        warn("Bridges", f"{found['bridges']['unsure']} bridges have a confidence below 0.5", "filrouge doctor --deep")
    return warnings


# Reports: what is stored.


def audit(tx: Tx) -> dict[str, Any]:
    """Return the result of verifying the journal."""
    verdict = Journal(tx).verify()
    return {
        "sound": verdict.sound,
        "entries": verdict.entries,
        "redacted": verdict.redacted,
        "broken_at": verdict.broken_at,
        "reason": verdict.reason,
    }


def hit_json(hit: Hit, names: dict[str, str]) -> dict[str, Any]:
    """Return one search result as JSON."""
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
    """Return the hits of several rankings in sequence, at most `limit`."""
    names = names_of(tx)
    return [hit_json(hit, names) for ranking in rankings for hit in ranking.hits][:limit]


def status(parts: Parts, tx: Tx) -> dict[str, Any]:
    """Return the overall state, in counts."""
    spooled = len(
        inbox.waiting_files(inside(parts.home, SPOOL))
    )  # read first: a file taken in meanwhile counts as a job
    ledger = Events(tx).ledger()
    queue = Jobs(tx).count()
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
        "to_review": sum(_reviews_by_kind(tx).values()),
        "vectors": StoredVectors(tx).count(),
        "queue": {"waiting": queue.waiting, "running": queue.running, "dead": queue.dead},
        "spooled": spooled,
        "lost": inbox.read_losses(parts.home).events,
        "projects": Projects(tx).all(),
        "waiting_folders": folders_without_consent(tx),
        "last_activity": last["at"] if last else None,
        "backups": backup_summary(parts.home),
        "database_bytes": os.path.getsize(inside(parts.home, DATABASE)),
        "embedding_notice": space_notice(
            parts.vectors, wanted_embedder(parts.embedders, wanted_name(tx, parts.home, parts.environ))
        ),
        "writes": write_state(parts.writer, parts.home),
        **thread_status(parts, tx),
        **parts.to_json(),
    }


def attention(tx: Tx) -> dict[str, int]:
    """Return the numbers of statements to review and of dead jobs."""
    waiting = _reviews_by_kind(tx)
    return {
        "to_review": sum(waiting.values()),
        "conflicts": waiting.get("conflict", 0),
        "unproven": waiting.get("quarantine", 0),
        "dead_jobs": Jobs(tx).count().dead,
    }


def _reviews_by_kind(tx: Tx) -> dict[str, int]:
    return {row["kind"]: int(row["n"]) for row in tx.all("reviews.by_kind")}


def stats(tx: Tx) -> dict[str, Any]:
    """Return the counts for the memory page."""
    live = sum(row["n"] for row in tx.all("memories.count") if row["state"] == "live")
    last = tx.one("events.last")
    return {
        "factsCount": live,
        "messagesCount": number_of(tx, "turns.count"),
        "vectorsCount": StoredVectors(tx).count(),
        "lastIndexedAt": last["at"] if last else None,
    }


def concepts(analyser: Analyser, tx: Tx, names: Sequence[str], limit: int) -> list[dict[str, Any]]:
    """Return the concepts of a project, or of all projects if `names` is empty; those with most sessions come first."""
    project_names, project = names_of(tx), project_id(tx, names)
    rows = Analyses(tx, analyser).concepts(project=project, everywhere=not names, limit=limit)
    return [
        {
            "id": row["id"],
            "concept": row["text"],
            "project": row["project_id"],
            "project_name": project_names.get(row["project_id"] or "", ""),
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
    """Return the metrics in Prometheus text format."""
    count, threads = Jobs(tx).count(), state_counts(parts, tx)
    jobs = {"waiting": count.waiting, "running": count.running, "dead": count.dead}
    return parts.metrics.render(
        jobs=jobs,
        events=Events(tx).ledger(),
        received=Events(tx).received(),
        cached=number_of(tx, "analyses.cached_count"),
        threads=threads,
        continuation=_continuation(parts, tx, threads),
    )


# Usage.

DAYS: Final = 30


def usage(parts: Parts, tx: Tx, days: int = DAYS) -> dict[str, Any]:
    """Return the body of `GET /api/memory/usage`: memories, recalls and their tokens by day and project, model calls.

    Tokens that recall adds to prompts are reported separately from Filrouge's own model calls. The user pays for them
    through the agent's own model.

    Args:
        days: how many days of recalls and model calls to sum, including today.
    """
    since = parts.clock.now() - timedelta(days=days - 1)
    names, recalls = names_of(tx), Recalls(tx)
    models = LlmUsage(tx).by_model(since)
    by_day = recalls.by_day(since)
    recall_counts = tuple(sum(row[name] for row in by_day) for name in ("recalls", "delivered"))
    mark = since.date(), recall_counts, parts.memories(tx).counts()
    useful = parts.counts.get("useful", mark, lambda: recalls.useful(since))
    return {
        "days": days,
        "memories": {row["kind"]: row["n"] for row in tx.all("memories.by_kind")},
        "messages": number_of(tx, "turns.count"),
        "threads": state_counts(parts, tx),
        "bridges": Bridges(tx).count()[0],
        "recalls": [row | {"project_name": names.get(row["project"] or "", "")} for row in by_day],
        "projects": _recall_by_project(by_day, useful, names),
        "recall_tokens": LlmUsage(tx).by_channel(since),
        "models": models,
        "dollars": sum(row["dollars"] or 0.0 for row in models),
        "bytes": stored_bytes(parts, tx)["parts"],
    }


def _recall_by_project(
    by_day: list[dict[str, Any]], useful: dict[str | None, int], names: dict[str, str]
) -> list[dict[str, Any]]:
    """Return per project what recall added to prompts, and for how many useful memories."""
    tokens, recalls = dict[str | None, int](), dict[str | None, int]()
    for row in by_day:
        tokens[row["project"]] = tokens.get(row["project"], 0) + row["tokens"]
        recalls[row["project"]] = recalls.get(row["project"], 0) + row["recalls"]
    return [
        {
            "project": project,
            "project_name": names.get(project or "", ""),
            "recalls": recalls[project],
            "tokens": spent,
            "useful_memories": (useful_memories := useful.get(project, 0)),
            "tokens_per_useful_memory": round(spent / useful_memories, 1) if useful_memories else None,
        }
        for project, spent in sorted(tokens.items(), key=lambda item: -item[1])
    ]


def activity(clock: Clock, tx: Tx, days: int) -> list[dict[str, Any]]:
    """Return what happened on each of the last days in the machine's time zone, oldest first, today included.

    Days on which nothing happened are included.
    """
    today = clock.now().astimezone().date()
    dates = [today - timedelta(days=n) for n in reversed(range(days))]
    rows = {
        str(day): {"prompts": 0, "memories": 0, "recalls": 0, "delivered": 0, "late": 0, "empty": 0, "tokens": 0}
        for day in dates
    }
    spans = {"days": json.dumps([[str(day), *_span(day)] for day in dates])}
    for query in ("activity.prompts", "activity.memories", "activity.recalls"):
        for counts in tx.all(query, spans):
            rows[counts.pop("day")].update(counts)
    return [{"day": day, **counts} for day, counts in rows.items()]


def _span(day: date) -> tuple[str, str]:
    """Return when a day begins and ends in the machine's time zone; a day may have 23 or 25 hours."""
    begin, end = (datetime.combine(day + timedelta(days=n), time()).astimezone() for n in (0, 1))
    return to_text(begin), to_text(end)
