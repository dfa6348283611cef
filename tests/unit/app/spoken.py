"""What the tests of threads begin with: conversations, and what threads they came to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from filrouge.app import thread_report
from filrouge.app.observe import observe
from filrouge.app.parts import Parts
from filrouge.model.event import EventKind
from filrouge.testing import idle

from .given import SHOP, event

COUPON = (
    "The checkout page breaks when the coupon is empty, please find out why the coupon fails",
    "Where in the checkout is the coupon validated, in the form or in the coupon service?",
    "The coupon on the checkout page is still broken, the coupon code is not validated",
)
POSTGRES = (
    "We must migrate the Postgres database to version 17, what breaks in our Postgres schema?",
    "Before the Postgres migration, take a dump of the Postgres database and check the schema",
)


def tell(
    parts: Parts,
    session: str,
    *texts: str,
    kind: EventKind = "prompt",
    project: tuple[str, ...] = SHOP,
    days_ago: float = 0.0,
    host: str = "claude-code",
    agent: str = "",
) -> None:
    """Say things in a session, one after the other, and wait until they are understood."""
    for text in texts:
        at = time.time() - days_ago * 86400
        said = event(kind, project=project, session=session, text=text)
        observe(parts, [said._replace(at=at, host=host, agent=agent)]).result(10)
    idle(parts)


def threads(parts: Parts, *project: str, status: thread_report.Status = "all") -> list[dict[str, Any]]:
    """The threads, the latest first."""
    return parts.readers.here(lambda tx: thread_report.listing(parts, tx, project, status=status, limit=100))


def thread(parts: Parts, thread_id: str) -> dict[str, Any]:
    """One thread with its turns."""
    return parts.readers.here(lambda tx: thread_report.detail(parts, tx, thread_id))


def texts(parts: Parts, thread_id: str) -> list[str]:
    """What was said in a thread, oldest first."""
    return [one["text"] for one in thread(parts, thread_id)["turns_shown"]]


def grouped(parts: Parts, *project: str) -> list[set[str]]:
    """What was said, thread by thread."""
    return [set(texts(parts, one["id"])) for one in threads(parts, *project)]


def turn_of(parts: Parts, text: str) -> str:
    """The id of the turn that says this."""
    found = [
        one["id"] for it in threads(parts) for one in thread(parts, it["id"])["turns_shown"] if one["text"] == text
    ]
    assert len(found) == 1
    return found[0]


def as_sets(*groups: Sequence[str]) -> list[set[str]]:
    """Groups as `grouped` gives them."""
    return [set(group) for group in groups]
