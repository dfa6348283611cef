"""The Today screen: what was learned, corrected and passed over today, what needs the reader, and the year."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final

from filrouge.web.languages import Locale
from filrouge.web.rendering import Pages, Visit

pages = Pages()

#: What the map of the year can count; the first is counted if the address names none.
COUNTED: Final = ("memories", "prompts", "recalls")
#: Rows that are read to tell the day; more than that is "this many or more".
_MAX_ROWS: Final = 80
_MAX_SHOWN: Final = 12
_MAX_CORRECTED: Final = 8
_WEEKS: Final = 53
#: The widest span that the API counts by day.
_MAX_DAYS: Final = 366
_LEVELS: Final = 4
#: On this many a day, the map's strongest colour is used even if no day has more.
_BUSY_DAY: Final = 10


@pages.page("", "today.html")
async def today(visit: Visit) -> Mapping[str, Any]:
    """The day so far, and the year."""
    visit.begin()
    now = visit.locale.now.date()
    first_monday = now - timedelta(days=now.weekday(), weeks=_WEEKS - 1)
    attention, activity, told, skipped = await asyncio.gather(
        visit.api.get("/daemon/attention"),
        visit.api.get("/api/memory/activity", days=min(_MAX_DAYS, (now - first_monday).days + 1)),
        visit.api.get("/api/memory/memories", since=str(now), limit=_MAX_ROWS),
        visit.api.get("/api/memory/events", state="skipped", since=str(now), limit=_MAX_ROWS),
    )
    counted = visit.query.get("by", "")
    counted = counted if counted in COUNTED else COUNTED[0]
    corrected = [memory for memory in told if memory["previous_text"]]
    learned = [memory for memory in told if not memory["previous_text"]]
    passed_over = [event for event in skipped if event["turn_id"] and visit.locale.local(event["at"]).date() == now]
    return {
        "is_empty": not any(row[name] for row in activity for name in COUNTED) and await _is_empty(visit),
        "day": str(now),
        "counts": activity[-1],
        "learned": learned[:_MAX_SHOWN],
        "more_learned": max(0, len(learned) - _MAX_SHOWN),
        "corrected": corrected[:_MAX_CORRECTED],
        "more_corrected": max(0, len(corrected) - _MAX_CORRECTED),
        "passed_over": Counter(event["reason"] for event in passed_over).most_common(),
        "conflicts": attention["conflicts"],
        "unproven": attention["unproven"],
        "dead_jobs": attention["dead_jobs"],
        "to_share": attention["to_share"],
        "counted": counted,
        "year": _year(activity, counted, first_monday, visit.locale),
    }


async def _is_empty(visit: Visit) -> bool:
    """Return True if nothing was ever captured or told."""
    events, memories = await asyncio.gather(
        visit.api.get("/api/memory/events", limit=1), visit.api.get("/api/memory/memories", limit=1)
    )
    return not (events or memories)


def _year(activity: Sequence[Mapping[str, Any]], counted: str, first_monday: date, locale: Locale) -> Mapping[str, Any]:
    """Return the map of the year: a cell a day, the months above it, and their sums."""
    most = max(activity, key=lambda row: row[counted])
    cells = list[dict[str, Any]]()
    labels = list[dict[str, Any]]()
    months = dict[str, dict[str, Any]]()
    for row in activity:
        week, weekday = divmod((date.fromisoformat(row["day"]) - first_monday).days, 7)
        cells.append({**row, "week": week, "weekday": weekday, "level": _level(row[counted], most[counted])})
        key = row["day"][:7]
        if key not in months:
            months[key] = {"month": f"{locale.month(row['day'])} {key[:4]}", **dict.fromkeys(COUNTED, 0), "days": []}
            # A month that begins in the column of the one before has its name above the next column.
            labels.append({"week": week + (weekday > 0), "name": locale.month(row["day"])})
        for name in COUNTED:
            months[key][name] += row[name]
        if row["memories"]:
            months[key]["days"].append({"day": row["day"], "memories": row["memories"]})
    if len(labels) > 1 and labels[1]["week"] - labels[0]["week"] < 3:
        del labels[0]  # the first month is cut off, and there is no room for its name
    return {
        "cells": cells,
        "labels": labels,
        "months": list(reversed(months.values())),
        "total": sum(row[counted] for row in activity),
        "days": sum(row[counted] > 0 for row in activity),
        "most": {"day": most["day"], "count": most[counted]},
    }


def _level(count: int, most: int) -> int:
    """Return 0 for none, else 1 to 4 on a logarithmic scale, so that one day of an import does not blank the others."""
    if not count:
        return 0
    return min(_LEVELS, 1 + int(_LEVELS * math.log(count) / math.log(max(most, _BUSY_DAY))))
