"""The Garden: consolidating the memory, with its plan, its progress and what past runs changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from filrouge.web.client import ApiProblem
from filrouge.web.rendering import ROOT, Message, Next, Pages, Visit

pages = Pages()

_RUNS: Final = "/api/memory/gardens"
_PAST_RUNS: Final = 20
#: Descriptions of single steps that the plan shows for each kind.
_MAX_LISTED: Final = 8


@pages.page("/garden", "garden.html")
async def garden_page(visit: Visit) -> Mapping[str, Any]:
    """The run that is active, the plan of the next one if asked for, and the past runs."""
    runs, settings = await asyncio.gather(visit.api.get(_RUNS, limit=_PAST_RUNS), visit.api.get("/api/memory/settings"))
    newest = runs[0] if runs else None
    is_running = newest is not None and newest["state"] == "running"
    label = await _label(visit, newest) if newest and newest["steps"]["total"] else ""
    plan = await _plan(visit) if visit.query.get("plan") == "1" and not is_running else None
    finished = [run for run in runs if run["state"] == "completed" and run["ended_at"] and run["steps"]["total"]]
    seconds = plan["estimate"]["seconds"] if plan and plan["estimate"]["from_past_runs"] else _spans(finished)
    return {
        "running": newest if is_running else None,
        "label": label,
        "plan": plan,
        "estimate": _estimate(visit, seconds),
        "runs": [run | {"seconds": _seconds(run)} for run in runs if run["state"] != "running"],
        "idle_minutes": settings["garden_idle_minutes"],
        "hour": settings["garden_hour"],
    }


@pages.action("/garden/begin")
async def garden_begin(visit: Visit) -> Next:
    """Begin a run; it goes on in the background."""
    try:
        begun = await visit.api.send("POST", _RUNS, {})
    except ApiProblem as problem:
        if problem.status != 409:
            raise
        return Next(to=f"{ROOT}/garden", message=Message(text=visit.text("A consolidation is running already.")))
    if begun["garden"] is None:
        text = visit.text("There is nothing to consolidate. Everything was read and compared.")
        return Next(to=f"{ROOT}/garden", message=Message(text=text))
    return Next(to=f"{ROOT}/garden")


async def _label(visit: Visit, run: Mapping[str, Any]) -> str:
    """Return the label of a run's latest progress message; empty if it has none yet."""
    after = max(0, run["steps"]["done"] - 1)
    progress = await visit.api.get(f"{_RUNS}/{run['id']}/progress", after=after, language=visit.locale.language)
    return str(progress["messages"][-1]["label"]) if progress["messages"] else ""


async def _plan(visit: Visit) -> Mapping[str, Any]:
    """Return what a run would do, with the first steps of each kind that can be told."""
    plan = (await visit.api.send("POST", _RUNS, {"dry_run": True}))["plan"]
    told = {
        kind: [step["told"] for step in plan["steps"] if step["kind"] == kind and step["told"]]
        for kind in plan["counts"]
    }
    return {
        "counts": plan["counts"],
        "left": plan["left"],
        "estimate": plan["estimate"],
        "told": {kind: lines[:_MAX_LISTED] for kind, lines in told.items()},
        "untold": {kind: max(0, len(lines) - _MAX_LISTED) for kind, lines in told.items()},
    }


def _seconds(run: Mapping[str, Any]) -> float:
    """Return how long a run took; 0 if it has not ended."""
    if not run["ended_at"]:
        return 0.0
    return (datetime.fromisoformat(run["ended_at"]) - datetime.fromisoformat(run["started_at"])).total_seconds()


def _spans(finished: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the shortest and the longest duration of these runs; empty if there is none."""
    durations = [_seconds(run) for run in finished]
    return [min(durations), max(durations)] if durations else []


def _estimate(visit: Visit, seconds: Sequence[float]) -> str:
    """Return how long a run takes, as text."""
    if not seconds:
        return visit.text("30 s to 2 min")
    least, most = (_duration(visit, span) for span in seconds)
    return (
        visit.text("about %(time)s", time=most)
        if least == most
        else visit.text("%(least)s to %(most)s", least=least, most=most)
    )


def _duration(visit: Visit, seconds: float) -> str:
    if seconds < 120:
        return visit.text("%(n)s s", n=max(1, round(seconds)))
    return visit.text("%(n)s min", n=round(seconds / 60))
