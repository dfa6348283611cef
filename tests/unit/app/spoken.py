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
