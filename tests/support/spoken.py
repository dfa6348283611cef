"""What the tests of threads begin with: conversations, and what threads they came to."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filrouge.capture.events import EventKind
from filrouge.capture.service import store_events
from filrouge.core.errors import ModelUnavailable
from filrouge.core.protocols import LanguageModel
from filrouge.providers.models import CompletionRequest, Operation
from filrouge.providers.service import ConfiguredModels, ModelTimings
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.testing import ScriptedModel, idle, running
from filrouge.threads import reports
from tests.support.given import SHOP, event

COUPON = (
    "The checkout page breaks when the coupon is empty, please find out why the coupon fails",
    "Where in the checkout is the coupon validated, in the form or in the coupon service?",
    "The coupon on the checkout page is still broken, the coupon code is not validated",
)
POSTGRES = (
    "We must migrate the Postgres database to version 17, what changes in our Postgres schema?",
    "Before the Postgres migration, take a dump of the Postgres database and check the schema",
)
#: Conversations of several prompts each, on subjects that have nothing to do with each other.
SUBJECTS = (
    (
        "The tomato plants in my greenhouse have yellow leaves at the bottom, is that a lack of magnesium?",
        "How often should I water tomato plants in pots in the greenhouse when it is hot?",
        "Can I plant basil next to the tomatoes in the greenhouse to keep the whiteflies away?",
    ),
    (
        "Our Kubernetes pods restart with OOMKilled since we raised the Java heap, what memory limit do they need?",
        "Write the Kubernetes deployment with a memory request of two gigabytes and a readiness probe for the pods.",
        "The readiness probe of the Kubernetes pods still fails after the deployment, which logs should I read?",
    ),
    (
        "Which receipts do I need for the home office deduction in my income tax return?",
        "Can I deduct the desk and the monitor in the income tax return in one year or must they be depreciated?",
        "The tax office asks for proof of my home office, draft a letter about the deduction.",
    ),
    (
        "My acoustic guitar buzzes on the low E string, is the truss rod or the nut to blame?",
        "Which gauge of strings should I put on the acoustic guitar for fingerstyle?",
        "How do I tune the guitar to DADGAD, and which chords work in it?",
    ),
)
SUJETS = (
    (
        "Notre pipeline GitLab échoue à l'étape des tests, le runner Docker manque de mémoire.",
        "Comment mettre en cache les dépendances pip dans le pipeline GitLab pour aller plus vite ?",
        "Ajoute au pipeline GitLab une étape de déploiement qui ne tourne que sur la branche main.",
    ),
    (
        "Quelles vaccinations faut-il pour un voyage au Vietnam avec un bébé ?",
        "Faut-il un visa pour le Vietnam, et combien de temps le visa est-il valable ?",
        "Propose un itinéraire de dix jours au Vietnam, de Hanoï à la baie d'Along.",
    ),
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
        store_events(parts, [said._replace(at=at, host=host, agent=agent)]).result(60)
    idle(parts)


def threads(parts: Parts, *project: str, status: reports.Status = "all") -> list[dict[str, Any]]:
    """The threads, the latest first."""
    return parts.readers.here(lambda tx: reports.list_threads(parts, tx, project, status=status, limit=100))


def thread(parts: Parts, thread_id: str) -> dict[str, Any]:
    """One thread with its turns."""
    return parts.readers.here(lambda tx: reports.get_thread_detail(parts, tx, thread_id))


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


def thread_of(parts: Parts, text: str) -> str:
    """The id of the thread in which this was said."""
    [found] = [one["id"] for one in threads(parts) if text in texts(parts, one["id"])]
    return found


def as_sets(*groups: Sequence[str]) -> list[set[str]]:
    """Groups as `grouped` gives them."""
    return [set(group) for group in groups]


class Adviser(ScriptedModel):
    """A model that is asked about threads, and says what a test put here, which may change while it runs.

    Attributes:
        related, sure: whether a prompt belongs to the thread that is shown, and how sure that is.
        title, summary: of any thread.
        broken: what is answered in the place of all that.
    """

    def __init__(self, *, related: bool = False, sure: float = 0.0) -> None:
        super().__init__(self._answer)
        self.related, self.sure = related, sure
        self.title, self.summary = "", ""
        self.broken: str | ModelUnavailable | None = None

    def about(self, operation: Operation) -> list[CompletionRequest]:
        """The questions of one kind."""
        return [one for one in self.asked if one.operation == operation]

    def _answer(self, ask: CompletionRequest) -> str | ModelUnavailable:
        if ask.operation == "thread":
            return self.broken or json.dumps({"related": self.related, "confidence": self.sure, "reason": ""})
        if ask.operation == "title":
            return self.broken or json.dumps({"title": self.title, "summary": self.summary})
        return '{"facts": []}'


@contextmanager
def advised(home: Path, model: LanguageModel, *, related: float = 5.0, **settings: str) -> Generator[Parts]:
    """A whole Filrouge that asks this model; `extract_provider=""` as long as it is not to be asked."""
    chosen = {"extract_provider": "openai", **settings}
    environ = {f"FILROUGE_{key.upper()}": value for key, value in chosen.items() if value}
    pace = ModelTimings(after_reply=0.0, quiet=0.0, rest=0.05, related=related)

    def build(*_: object) -> ConfiguredModels:
        return ConfiguredModels(model=model)

    with running(str(home), environ=environ, panel=build, pace=pace) as parts:
        idle(parts)
        yield parts


def ask_from_now_on(parts: Parts, provider: str = "openai") -> None:
    """Set who is asked."""
    parts.writer.run(lambda tx: StoredSettings(tx).put({"extract_provider": provider}, parts.clock.now()))


def reasons(parts: Parts, text: str) -> list[dict[str, Any]]:
    """Every decision about the turn that says this, oldest first."""
    return parts.readers.here(lambda tx: reports.explain_placement(parts, tx, turn_of(parts, text)))["decisions"]
