"""What the tests of `app` begin with: an event as a hook sends it, and what became of it."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

from filrouge.capture.events import Event, EventKind
from filrouge.capture.service import store_events
from filrouge.context.log import Recalls
from filrouge.context.service import build_and_log_text
from filrouge.runtime.services import Parts
from filrouge.search.models import Ranking
from filrouge.search.service import Question, recall
from filrouge.testing import idle

SHOP, BLOG = ("origin:forge.example/ana/shop",), ("origin:forge.example/ana/blog",)
_NUMBERS = count()


def event(kind: EventKind = "prompt", *, project: tuple[str, ...] = SHOP, session: str = "s", **data: Any) -> Event:
    """An event of an agent's session, now."""
    id_ = f"event-{next(_NUMBERS):06}"
    return Event(id_, "claude-code", kind, session, time.time(), f"key:{id_}", "", project, "", "", data)


def say(parts: Parts, text: str, project: tuple[str, ...] = SHOP) -> None:
    """Send a prompt and wait until it is understood."""
    store_events(parts, [event(project=project, text=text)]).result(60)
    idle(parts)


def ask(parts: Parts, prompt: str, project: tuple[str, ...] = SHOP) -> str:
    """The block that goes in front of a prompt."""
    return build_and_log_text(parts, event(project=project, text=prompt), project[0])


def known(parts: Parts, question: str, project: tuple[str, ...] = SHOP) -> Ranking:
    """What is recalled for a question within a project."""
    return parts.readers.here(lambda tx: recall(parts, tx, Question(text=question, project=project[0])))


def log(parts: Parts) -> list[dict[str, Any]]:
    """The recall log, newest first."""
    parts.writer.run(lambda _: None)
    return parts.readers.here(lambda tx: Recalls(tx).last(20))
