"""When a model is asked about threads: after the rules, where they leave something open (THR-3, EXT-9).

The rules have placed the prompt and named the thread by then, and nobody waits for more. One prompt in five may become
a question at the most: that is what it is worth, and where more of them are open the rules are as good. What was said
hours ago is not asked about: its session has gone on, and is looked at as a whole. In light mode nothing is asked.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from filrouge.app.models import NO_MODEL
from filrouge.app.parts import Parts
from filrouge.app.store_context import StoreContext
from filrouge.config import Settings
from filrouge.errors import BadConfig, ModelUnavailable
from filrouge.model.thread import Routing, Thread
from filrouge.model.turn import Turn
from filrouge.ports import Tx
from filrouge.store.jobs import Jobs
from filrouge.store.thread_traces import ThreadDecisions
from filrouge.threads.naming import is_due_between

#: Job kinds: whether a prompt belongs to a thread; what a thread is called.
RECONSIDER, ENTITLE = "reconsider", "entitle"
#: The share of prompts that may be asked about, among so many of the latest decisions; in max mode all of them.
SHARE: Final = 0.2
_LATEST: Final = 200
#: What was said longer ago is left as it is.
_WORTH: Final = timedelta(hours=6)


def queue_reconsidering(parts: Parts, tx: Tx, turn: Turn, routing: Routing) -> None:
    """Have a model asked where a prompt belongs, if the rules leave it open; the decision is logged already."""
    if not routing.borderline or is_too_late(turn.at, parts.clock.now()) or not _is_asked(parts, tx):
        return
    asked, decided = ThreadDecisions(tx).asked(_LATEST)
    share = 1.0 if parts.settings(tx).mode == "max" else SHARE
    if asked < share * decided:
        Jobs(tx).enqueue(RECONSIDER, {"turn": turn.id}, dedupe=f"{RECONSIDER}:{turn.id}", at=parts.clock.now())


def queue_better_name(parts: Parts, tx: Tx, thread: Thread, *, before: int, after: int) -> None:
    """Have a model name a thread that grew from so many prompts to so many, where that is worth a look."""
    if is_due_between(before, after) and not is_too_late(thread.last_active, parts.clock.now()):
        queue_naming(parts, tx, thread)


def queue_naming(parts: StoreContext, tx: Tx, thread: Thread) -> None:
    """Have a model name a thread; never one that a user named."""
    if thread.title_by != "user" and _is_asked(parts, tx):
        Jobs(tx).enqueue(ENTITLE, {"thread": thread.id}, dedupe=f"{ENTITLE}:{thread.id}", at=parts.clock.now())


def is_too_late(said: datetime, now: datetime) -> bool:
    """True for what was said too long ago to be asked about."""
    return now - said > _WORTH


def who(parts: Parts, settings: Settings) -> str:
    """Who would be asked where a prompt belongs, `provider/model`; empty where no model is.

    Raises:
        ModelUnavailable: the settings name a provider that cannot be built.
    """
    try:
        panel = parts.models.panel(settings)
    except BadConfig as error:
        raise ModelUnavailable(error.message, remedy=error.remedy) from error
    if panel is None:
        return ""
    model = panel.of("thread")
    return f"{model.provider}/{model.model}"


def _is_asked(parts: StoreContext, tx: Tx) -> bool:
    settings = parts.settings(tx)
    return settings.extract_provider not in NO_MODEL and settings.mode != "light"
