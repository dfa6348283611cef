"""Jobs and Costs: what the daemon still has to do or gave up, and what all of it costs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, timedelta
from typing import Any, Final
from urllib.parse import quote

from filrouge.web.languages import mark as _
from filrouge.web.rendering import ROOT, Message, Next, Pages, Visit

pages = Pages()

_QUEUE: Final = "/api/memory/jobs"
_LETTERS: Final = "/api/memory/dead-letters"
_MAX_LISTED: Final = 50
_PERIODS: Final = (7, 30, 90)
#: Lines of a chart; the smallest are drawn together.
_MAX_SERIES: Final = 5


#: What the kinds of jobs do.
_JOBS: Final[Mapping[str, str]] = {
    "read_turns": _("read what was captured"),
    "reconcile": _("compare with an agent's transcript"),
    "analyse": _("look for statements in a prompt"),
    "brief": _("write the briefing for agents"),
    "extract": _("read a conversation with a model"),
    "digest": _("summarise a session"),
    "bridge": _("link related threads"),
    "regroup": _("sort threads again"),
    "synthesise": _("bring a synthesis up to date"),
    "recount": _("correct a synthesis with a model"),
    "reconsider": _("ask a model where a prompt belongs"),
    "rename": _("name a thread"),
    "entitle": _("ask a model for a thread's name"),
    "index_turn": _("compute vectors of a turn"),
    "index_memory": _("compute vectors of a memory"),
    "need_vectors": _("compute what memories are needed for"),
    "thread": _("place a prompt in a thread"),
    "thread_earlier": _("place earlier prompts in threads"),
    "thread_vectors": _("compute vectors of threads"),
    "garden": _("consolidate the memory"),
    "retokenise": _("index the words again"),
    "reindex": _("compute all vectors again"),
    "clear_spaces": _("delete outdated vectors"),
    "calibrate": _("calibrate similarity"),
    "retain": _("delete what is past its retention"),
    "empty_log": _("empty the database's log after forgetting"),
    "backfill": _("import an agent's history"),
}

#: Where the subject of a job is shown.
_SUBJECTS: Final[Mapping[str, tuple[str, str]]] = {
    "turn": (_("turn"), f"{ROOT}/turns/"),
    "memory": (_("memory"), f"{ROOT}/memories/"),
    "thread": (_("thread"), f"{ROOT}/threads/"),
    "event": (_("event"), ""),
    "session": (_("session"), ""),
    "project": (_("project"), ""),
}

#: The parts of the disk usage.
_PARTS: Final[Mapping[str, str]] = {
    "database": _("database"),
    "words": _("word index"),
    "backups": _("backups"),
    "spool": _("events that wait for the daemon"),
    "briefs": _("briefings for agents"),
    "log": _("log"),
    "ballast": _("reserve for a full disk"),
    "other": _("other"),
}


@pages.page("/jobs", "jobs.html")
async def jobs_page(visit: Visit) -> Mapping[str, Any]:
    """The queue in counts, its jobs, what was set aside, and the model answers that could not be parsed."""
    kind = visit.query.get("kind", "")
    running, waiting, dead, letters = await asyncio.gather(
        visit.api.get(_QUEUE, kind=kind, state="running", limit=_MAX_LISTED),
        visit.api.listing(_QUEUE, kind=kind, state="queued", limit=_MAX_LISTED, cursor=visit.query.get("cursor")),
        visit.api.listing(_QUEUE, kind=kind, state="dead", limit=_MAX_LISTED, cursor=visit.query.get("dead")),
        visit.api.get("/extract/dead-letters"),
    )
    queue = waiting.rows
    return {
        "counts": {name: queue[name] for name in ("waiting", "running", "dead")},
        "kinds": _by_kind(visit, queue["kinds"]),
        "jobs": [_job(visit, job) for job in (*running["jobs"], *queue["jobs"])],
        "next": waiting.next,
        "dead": [_job(visit, job) for job in dead.rows["jobs"]],
        "next_dead": dead.next,
        "letters": letters,
        "chosen": {"kind": kind},
        "discarding": visit.query.get("discard", ""),
    }


@pages.action("/jobs/{job_id}/retry")
async def job_retry(visit: Visit) -> Next:
    """Queue a dead job again."""
    await visit.api.send("POST", f"{_LETTERS}/{quote(visit.parameter('job_id'), safe='')}/retry")
    return Next(to=visit.back, message=Message(text=visit.text("Queued again.")))


@pages.action("/jobs/{job_id}/discard")
async def job_discard(visit: Visit) -> Next:
    """Give up a dead job."""
    await visit.api.send("DELETE", f"{_LETTERS}/{quote(visit.parameter('job_id'), safe='')}")
    return Next(to=visit.back, message=Message(text=visit.text("Discarded. What it was about is unchanged.")))


def _by_kind(visit: Visit, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each kind of job, with its number in each state."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        counts = found.setdefault(row["kind"], {"kind": row["kind"], "name": _kind(visit, row["kind"])})
        counts[row["state"]] = row["n"]
    states = dict.fromkeys(("queued", "running", "dead"), 0)
    return [states | counts for counts in found.values()]


def _job(visit: Visit, job: Mapping[str, Any]) -> dict[str, Any]:
    def subject(name: str, id_: str) -> dict[str, str]:
        shown, path = _SUBJECTS.get(name, (name, ""))
        return {"name": visit.text(shown), "id": id_, "href": path + quote(id_, safe="") if path else ""}

    return {
        **job,
        "name": _kind(visit, job["kind"]),
        "subjects": [subject(name, id_) for name, id_ in job["about"].items()],
    }


def _kind(visit: Visit, kind: str) -> str:
    return visit.text(_JOBS[kind]) if kind in _JOBS else kind


@pages.page("/costs", "costs.html")
async def costs_page(visit: Visit) -> Mapping[str, Any]:
    """What recall adds to prompts, what models cost, and what the home takes on the disk."""
    visit.begin()
    asked = visit.query.get("days", "")
    days = int(asked) if asked in map(str, _PERIODS) else 30
    usage, extraction = await asyncio.gather(
        visit.api.get("/api/memory/usage", days=days), visit.api.get("/extract/status")
    )
    recalls, models = usage["recalls"], usage["models"]
    dates = _dates(visit, days)
    elsewhere = visit.text("outside every project")
    tokens = [(row["day"], row["project_name"] or elsewhere, row["tokens"]) for row in recalls]
    dollars = [(row["day"], row["model"], row["dollars"] or 0.0) for row in models]
    return {
        "days": days,
        "periods": _PERIODS,
        "recall": {
            name: sum(row[name] for row in recalls)
            for name in ("recalls", "delivered", "late", "empty", "memories", "tokens")
        },
        "projects": usage["projects"],
        "channels": _totals(usage["recall_tokens"], "channel", ("recalls", "tokens")),
        "by_day": _days(recalls),
        "tokens_chart": _chart(visit, dates, tokens),
        "models": _model_totals(models),
        "calls": sum(row["calls"] for row in models),
        "dollars": usage["dollars"],
        "is_unpriced": any(row["dollars"] is None for row in models),
        "dollars_chart": _chart(visit, dates, dollars) if any(spent for _, _, spent in dollars) else None,
        "has_model": extraction["enabled"] and extraction["provider"] not in ("", "heuristic"),
        "extraction": extraction,
        "parts_on_disk": _disk(visit, usage["bytes"]),
        "bytes": sum(usage["bytes"].values()),
    }


def _dates(visit: Visit, days: int) -> list[str]:
    """Return the last days in order; today is the last. The API counts by days of UTC."""
    today = visit.locale.now.astimezone(UTC).date()
    return [(today - timedelta(days=before)).isoformat() for before in reversed(range(days))]


def _days(recalls: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of all projects summed by day, the latest day first."""
    sums = _totals(recalls, "day", ("recalls", "delivered", "late", "empty", "memories", "tokens"))
    return sorted(sums, key=lambda row: str(row["day"]), reverse=True)


def _totals(rows: Iterable[Mapping[str, Any]], by: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the sums of some columns for each value of another, the largest sum of the last column first."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        sums = found.setdefault(row[by], {by: row[by], **dict.fromkeys(names, 0)})
        for name in names:
            sums[name] += row[name]
    return sorted(found.values(), key=lambda sums: -sums[names[-1]])


def _model_totals(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return calls, tokens and dollars for each model and operation; dollars are None if a price is unknown."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        key = row["provider"], row["model"], row["operation"]
        sums = found.setdefault(
            key,
            {name: row[name] for name in ("provider", "model", "operation")}
            | {"calls": 0, "input_tokens": 0, "output_tokens": 0, "estimated": 0, "dollars": 0.0},
        )
        for name in ("calls", "input_tokens", "output_tokens"):
            sums[name] += row[name]
        sums["estimated"] = max(sums["estimated"], row["estimated"])
        sums["dollars"] = None if None in (sums["dollars"], row["dollars"]) else sums["dollars"] + row["dollars"]
    return sorted(found.values(), key=lambda sums: (-(sums["dollars"] or 0.0), -sums["calls"]))


def _chart(visit: Visit, dates: Sequence[str], values: Sequence[tuple[str, str, float]]) -> dict[str, Any]:
    """Return the values of each day by name, the largest name first; the smallest names are summed up."""
    sums: dict[str, float] = {}
    for _day, name, value in values:
        sums[name] = sums.get(name, 0.0) + value
    ranked = sorted(sums, key=lambda name: (-sums[name], name))
    kept = ranked if len(ranked) <= _MAX_SERIES else ranked[: _MAX_SERIES - 1]
    others = visit.text("others")
    names = [*kept, others] if len(kept) < len(ranked) else kept
    by_name = {name: dict.fromkeys(dates, 0.0) for name in names}
    for day, name, value in values:
        line = by_name[name if name in kept else others]
        if day in line:
            line[day] += value
    return {"days": dates, "series": [{"name": name, "values": list(line.values())} for name, line in by_name.items()]}


def _disk(visit: Visit, parts: Mapping[str, int]) -> list[dict[str, Any]]:
    return [
        {"name": visit.text(_PARTS[name]) if name in _PARTS else name, "bytes": size}
        for name, size in sorted(parts.items(), key=lambda part: -part[1])
    ]
