"""The Timeline screen: what was learned and replaced day by day, and the changes of one session with their undo."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final
from urllib.parse import quote

from filrouge.web.reasons import plain_reason
from filrouge.web.rendering import ROOT, Message, Next, Pages, Visit

pages = Pages()

_PAGE_SIZE: Final = 100
_MAX_THREADS: Final = 500


@pages.page("/timeline", "timeline.html")
async def timeline(visit: Visit) -> Mapping[str, Any]:
    """What was learned and replaced, and the threads that were opened, by day, the newest day first."""
    visit.begin()
    project, cursor = visit.query.get("project", ""), visit.query.get("cursor", "")
    as_of, day = _day_in(visit, "as_of"), _day_in(visit, "day")
    listing, opened, projects = await asyncio.gather(
        visit.api.listing(
            "/api/memory/memories", project=project, as_of=as_of, until=day, limit=_PAGE_SIZE, cursor=cursor
        ),
        visit.api.get("/api/memory/threads", project=project, as_of=as_of, limit=_MAX_THREADS),
        visit.api.get("/api/memory/projects", counts=False),
    )
    days = _days(visit, listing.rows, opened, until=day, is_first_page=not cursor, has_more=bool(listing.next))
    today = visit.locale.now.date()
    known = [*(one["created_at"] for one in [*projects, *listing.rows]), *(one["opened_at"] for one in opened)]
    begun = min((visit.locale.local(at).date() for at in known), default=today)
    return {
        "days": days,
        "next": listing.next,
        "projects": projects,
        "chosen": {"project": project, "as_of": as_of, "day": day},
        "is_filtered": bool(project or as_of or day),
        "first_day": begun.isoformat(),
        "today": today.isoformat(),
        "days_back": (today - begun).days,
    }


def _day_in(visit: Visit, name: str) -> str:
    """Return a day of the address; empty if it is none."""
    try:
        return date.fromisoformat(visit.query.get(name, "")).isoformat()
    except ValueError:
        return ""


def _days(
    visit: Visit,
    memories: Sequence[Mapping[str, Any]],
    threads: Sequence[Mapping[str, Any]],
    *,
    until: str,
    is_first_page: bool,
    has_more: bool,
) -> list[dict[str, Any]]:
    """Return the days of a page of memories, newest first, with the threads that were opened on them.

    Threads opened after the first memory of the page belong to the page before, and those opened before its last
    memory to the page behind.
    """
    days: dict[str, dict[str, Any]] = {}

    def on(at: str) -> dict[str, Any]:
        day = _local_day(visit, at)
        return days.setdefault(day, {"day": day, "memories": [], "threads": []})

    for memory in memories:
        on(memory["created_at"])["memories"].append(memory)
    newest, oldest = max(days, default="9999"), min(days, default="")
    for thread in sorted(threads, key=_opened_at, reverse=True):
        opened = _local_day(visit, thread["opened_at"])
        if (opened <= newest or (is_first_page and opened <= (until or "9999"))) and (opened >= oldest or not has_more):
            on(thread["opened_at"])["threads"].append(thread)
    return [days[day] for day in sorted(days, reverse=True)]


def _opened_at(thread: Mapping[str, Any]) -> str:
    return thread["opened_at"]


def _local_day(visit: Visit, at: str) -> str:
    return visit.locale.local(at).date().isoformat()


# The changes of one session.


@pages.page("/timeline/session", "session.html")
async def session_page(visit: Visit) -> Mapping[str, Any]:
    """What a session changed, who decided it and from which words; and what undoing all of it would do."""
    id_ = visit.query.get("id", "")
    changes: list[dict[str, Any]] = await visit.api.get(_session_path(id_, "changes")) if id_ else []
    changes = [change | {"reason": plain_reason(visit, change["reason"] or "")} for change in changes]
    plan = None
    if visit.query.get("revert") and any(not change["undone"] for change in changes):
        plan = await visit.api.send("POST", _session_path(id_, "revert"), {"dry_run": True})
    return {
        "session_id": id_,
        "changes": changes,
        "in_force": sum(not change["undone"] for change in changes),
        "plan": plan,
    }


@pages.action("/timeline/session/revert")
async def session_revert(visit: Visit) -> Next:
    """Undo everything that a session changed, at once; one undo brings it back."""
    id_ = visit.field("session")
    done = await visit.api.send("POST", _session_path(id_, "revert"), {})
    message = Message(
        text=visit.text("Everything from this session is undone."),
        undo=f"{ROOT}/memories/undo",
        fields={"entry": str(done["undone_by"])},
    )
    return Next(to=visit.back, message=message)


def _session_path(id_: str, what: str) -> str:
    return f"/api/memory/sessions/{quote(id_, safe='')}/{what}"
