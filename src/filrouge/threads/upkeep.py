"""Upkeep of threads: keep vectors, names and states consistent, and queue questions to a model.

Title, summary, topics and vector of a thread are derived from its turns, except a title set by a user. Code that moves
turns calls these functions in the same transaction, so a thread never describes turns it does not have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from filrouge.capture.models import Turn
from filrouge.core.errors import BadConfig, ModelUnavailable
from filrouge.core.protocols import Tx
from filrouge.core.settings import Settings
from filrouge.providers.service import PROVIDERS_WITHOUT_MODEL
from filrouge.runtime.jobs import JobResult, Jobs, Payload
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.vector_repository import StoredVectors
from filrouge.threads.assignment import thread_vector
from filrouge.threads.models import Routing, Thread
from filrouge.threads.naming import is_due_between, moved, name, sweep
from filrouge.threads.repository import Decided, ThreadDecisions, ThreadPlace, Threads, ThreadVectors

# Questions to a model about threads (THR-3, EXT-9).

#: Job kinds: whether a prompt belongs to a thread; how a thread is named.
RECONSIDER, ENTITLE = "reconsider", "entitle"
#: Maximum share of prompts to ask about, among the `_LATEST` decisions; in max mode all of them.
SHARE: Final = 0.2
_LATEST: Final = 200
#: Maximum age of a prompt to ask about.
_WORTH: Final = timedelta(hours=6)


def queue_reconsidering(parts: Parts, tx: Tx, turn: Turn, routing: Routing) -> None:
    """Queue a question about where a prompt belongs, if the rules are unsure; call it after logging their decision.

    It is asked after the rules have placed the prompt, so nobody waits. At most one prompt in five becomes a question:
    beyond that, a model does no better than the rules. Prompts older than `_WORTH` are not asked about; regrouping
    looks at their session as a whole. In light mode nothing is asked.
    """
    if not routing.borderline or is_too_late(turn.at, parts.clock.now()) or not _is_asked(parts, tx):
        return
    asked, decided = ThreadDecisions(tx).asked(_LATEST)
    share = 1.0 if parts.settings(tx).mode == "max" else SHARE
    if asked < share * decided:
        Jobs(tx).enqueue(RECONSIDER, {"turn": turn.id}, dedupe=f"{RECONSIDER}:{turn.id}", at=parts.clock.now())


def queue_better_name(parts: Parts, tx: Tx, thread: Thread, *, before: int, after: int) -> None:
    """Queue the naming of a thread by a model if its growth from `before` to `after` prompts makes that due."""
    if is_due_between(before, after) and not is_too_late(thread.last_active, parts.clock.now()):
        queue_naming(parts, tx, thread)


def queue_naming(parts: StoreContext, tx: Tx, thread: Thread) -> None:
    """Queue the naming of a thread by a model, unless a user named it."""
    if thread.title_by != "user" and _is_asked(parts, tx):
        Jobs(tx).enqueue(ENTITLE, {"thread": thread.id}, dedupe=f"{ENTITLE}:{thread.id}", at=parts.clock.now())


def is_too_late(said: datetime, now: datetime) -> bool:
    """Return True if a turn is too old to be asked about."""
    return now - said > _WORTH


def thread_model(parts: Parts, settings: Settings) -> str:
    """Return the model that decides where a prompt belongs, `provider/model`; empty if there is none.

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
    return settings.extract_provider not in PROVIDERS_WITHOUT_MODEL and settings.mode != "light"


# Answers of models, for the code that moves prompts by rules.


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelAnswers:
    """The threads that prompts belong to, and those they do not belong to, according to models.

    A confident answer concerns one prompt and one thread. It holds until a user decides about that prompt. An unsure or
    missing answer counts for nothing.
    """

    belongs: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()


def answers_of(decided: Iterable[Decided]) -> ModelAnswers:
    """Collect the models' answers from these decisions, which are given oldest first."""
    belongs, apart = set[tuple[str, str]](), set[tuple[str, str]]()
    for one in decided:
        if one.actor == "user":
            belongs = {said for said in belongs if said[0] != one.turn_id}
            apart = {said for said in apart if said[0] != one.turn_id}
        elif one.actor == "model" and one.routing.weighed and not one.routing.borderline:
            asked_of = one.routing.weighed[0].thread_id
            (belongs if one.thread_id == asked_of else apart).add((one.turn_id, asked_of))
    return ModelAnswers(belongs=frozenset(id_ for _, id_ in belongs), apart=frozenset(id_ for _, id_ in apart))


def answers_by_prompt(tx: Tx, user: str, project: str | None) -> Mapping[str, ModelAnswers]:
    """Return the models' answers about the prompts of a project, by prompt."""
    found: dict[str, list[Decided]] = {}
    for one in ThreadDecisions(tx).asked_about(user, project):
        found.setdefault(one.turn_id, []).append(one)
    return {turn_id: answers_of(decided) for turn_id, decided in found.items()}


# Upkeep: data derived from the turns of a thread is recomputed whenever they change.

#: Maximum number of prompts (the newest) for a thread's vector and name: months of work in one thread.
MOST_PROMPTS: Final = 96
_LONGEST_TITLE: Final = 64
#: The job that computes thread vectors, and the number of threads per run.
VECTORS, _AT_ONCE = "thread_vectors", 32


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadSettings:
    """The settings that concern threads.

    Attributes:
        isolated: each agent has its own threads.
    """

    mode: str
    isolated: bool

    @classmethod
    def of(cls, settings: Settings) -> ThreadSettings:
        """Build from the settings."""
        return cls(mode=settings.mode, isolated=settings.isolation)

    def place_of(self, turn: Turn) -> ThreadPlace:
        """Return the place whose threads a turn may belong to."""
        agent = (turn.scope.agent or turn.scope.channel) if self.isolated else None
        return ThreadPlace(user=turn.scope.user, project=turn.scope.project, agent=agent)

    def place_beside(self, thread: Thread) -> ThreadPlace:
        """Return the place of a thread."""
        agent = (thread.agent or thread.channel) if self.isolated else None
        return ThreadPlace(user=thread.user, project=thread.project, agent=agent)


def is_routed(turn: Turn) -> bool:
    """Return True for a prompt that is placed by its content; all other turns of a session follow its prompts."""
    return turn.role == "user" and not turn.skipped and not turn.scope.agent and bool(turn.scope.session)


def as_of(threads: Iterable[Thread], now: datetime, mode: str) -> list[Thread]:
    """Return the threads of one place in their current state, even if no sweep has written it; order is kept."""
    found = {one.id: one for one in threads}
    for move in sweep(found.values(), now, mode):
        found[move.thread_id] = moved(found[move.thread_id], move.act, move.at)
    return list(found.values())


def state_counts(parts: Parts, tx: Tx) -> dict[str, int]:
    """Return the current number of active, suspended and archived threads, over all places."""
    threads, now, caps = Threads(tx), parts.clock.now(), ThreadSettings.of(parts.settings(tx))
    places: dict[ThreadPlace, list[Thread]] = {}
    for thread in threads.live():
        places.setdefault(caps.place_beside(thread), []).append(thread)
    states = Counter(one.state for beside in places.values() for one in as_of(beside, now, caps.mode))
    return {
        "active": states["active"],
        "suspended": states["suspended"],
        "archived": states["archived"] + threads.archived_count(),
    }


def swept(tx: Tx, place: ThreadPlace, now: datetime, mode: str) -> list[Thread]:
    """Suspend and archive what is due in a place; return the threads that were active or suspended, as they are now."""
    threads = Threads(tx)
    before = threads.at_place(place, ("active", "suspended"))
    after = as_of(before, now, mode)
    for was, thread in zip(before, after, strict=True):
        if thread != was:
            threads.update(thread)
    return after


def prompts_of(parts: StoreContext, tx: Tx, thread_id: str) -> list[Turn]:
    """Return the newest prompts that were placed in a thread, oldest first."""
    return parts.turns(tx).get(Threads(tx).turns(thread_id, routed=True, limit=MOST_PROMPTS, newest=True))


def revectored(tx: Tx, thread_id: str, space_id: str) -> None:
    """Recompute a thread's vector in this space from its prompts; its vectors in other spaces are deleted."""
    spoken = Threads(tx).turns(thread_id, routed=True, limit=MOST_PROMPTS, newest=True)
    stored = StoredVectors(tx).some("turn", spoken, space_id)
    vector = thread_vector([stored[id_] for id_ in spoken if id_ in stored])
    ThreadVectors(tx).drop([thread_id])
    if vector is not None:
        ThreadVectors(tx).put(thread_id, space_id, vector)


def late_vector(tx: Tx, turn_id: str, space_id: str) -> None:
    """Update a thread's vector after the vector of one of its prompts arrived late."""
    thread_id = Threads(tx).of_prompt(turn_id)
    if thread_id is not None:
        revectored(tx, thread_id, space_id)


def queue_vectors_of_threads(tx: Tx, at: datetime) -> None:
    """Queue the job that computes missing thread vectors in the current search space."""
    Jobs(tx).enqueue(VECTORS, {"after": 0}, dedupe=VECTORS, at=at)


def make_vectors(parts: Parts, payload: Payload) -> JobResult:
    """Run the job that computes missing thread vectors in the current search space."""
    space_id = parts.meaning.space.id
    lacking = parts.readers.here(lambda tx: ThreadVectors(tx).missing(space_id, int(payload["after"]), _AT_ONCE))

    def write(tx: Tx) -> None:
        for thread_id in lacking.values():
            revectored(tx, thread_id, space_id)

    return JobResult(write=write, again=lambda: {"after": max(lacking)} if lacking else None)


def renamed(parts: StoreContext, tx: Tx, thread: Thread, place: ThreadPlace, *, afresh: bool = False) -> Thread:
    """Return the thread with title, summary and topics from its prompts, not written yet; a user's title is kept.

    Args:
        afresh: drop the former title, since the prompts it came from may be gone.
    """
    turns = prompts_of(parts, tx, thread.id) or parts.turns(tx).get(Threads(tx).turns(thread.id, limit=MOST_PROMPTS))
    if not turns:
        return thread
    taken = [title for id_, title in Threads(tx).titles(place).items() if id_ != thread.id]
    kept = None if afresh and thread.title_by != "user" else thread
    named = name(turns, taken, kept)
    by_user = thread.title_by == "user"
    title = thread.title if by_user else named.title or " ".join(turns[0].text.split())[:_LONGEST_TITLE]
    return replace(
        thread,
        title=title,
        title_by=thread.title_by if title == thread.title else "rules",
        summary=named.summary,
        topics=named.topics,
    )


def refit(parts: StoreContext, tx: Tx, threads: Sequence[Thread], space_id: str) -> list[Thread]:
    """Update names and vectors of threads whose turns changed, and write them.

    If a title by a model no longer stands, the model is asked again. A merged thread takes the title of the thread it
    was merged into.
    """
    caps, done = ThreadSettings.of(parts.settings(tx)), list[Thread]()
    for thread in threads:
        if thread.merged_into is None:
            done.append(renamed(parts, tx, thread, caps.place_beside(thread), afresh=True))
            Threads(tx).update(done[-1])
            revectored(tx, thread.id, space_id)
            if thread.title_by == "model":
                queue_naming(parts, tx, done[-1])
    for thread in threads:
        if thread.merged_into is not None:
            into = next((one.title for one in done if one.id == thread.merged_into), "")
            Threads(tx).update(replace(thread, title=into, title_by="rules"))
    return done
