"""The Live screen: what is being captured, and what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from filrouge.web.languages import Locale
from filrouge.web.rendering import Pages, Visit

pages = Pages()

_SHOWN: Final = 100
#: What can become of an event, as the filter lists it.
OUTCOMES: Final = ("queued", "remembered", "read", "skipped", "dead", "forgotten")


#: An event that reached the disk this long after it happened waited in the spool, or was sent later.
_LATE: Final = timedelta(seconds=10)


@pages.page("/live", "live.html")
async def live(visit: Visit) -> Mapping[str, Any]:
    """The last captured events, newest first, filtered by the address."""
    visit.begin()
    chosen = {"channel": visit.query.get("channel", ""), "state": visit.query.get("state", "")}
    listing, latest, settings = await asyncio.gather(
        visit.api.listing("/api/memory/events", limit=_SHOWN, cursor=visit.query.get("cursor"), **chosen),
        visit.api.get("/api/memory/events", limit=_SHOWN),
        visit.api.get("/api/memory/settings"),
    )
    return {
        "events": [row | {"came_late": _came_late(visit.locale, row)} for row in listing.rows],
        "next": listing.next,
        "chosen": chosen,
        "is_filtered": any(chosen.values()),
        "is_paused": visit.query.get("paused") == "1",
        "is_capturing": settings["auto_capture"],
        "channels": sorted({row["channel"] for row in latest} | {chosen["channel"]} - {""}),
        "outcomes": OUTCOMES,
    }


def _came_late(locale: Locale, event: Mapping[str, Any]) -> bool:
    return locale.local(event["received_at"]) - locale.local(event["at"]) >= _LATE
