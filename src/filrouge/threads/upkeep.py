"""Upkeep of threads: names, states and vectors that follow from their turns, and questions to a model.

Title, summary, topics and vector of a thread are derived from its turns, except a title set by a user. Code that moves
turns calls these functions in the same transaction, so a thread never describes turns it does not have.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Literal

from filrouge.capture.models import TRUST_AGENT, TRUST_PROMPT, Turn
from filrouge.core.errors import BadConfig, BadInput, ModelUnavailable
from filrouge.core.protocols import Prompts, Tx
from filrouge.core.settings import Settings
from filrouge.extraction import reading
from filrouge.extraction.model_answers import (
    RequestGenerator,
    ask_model,
    locate,
    render_turns,
    turns_per_prompt,
    wrap_json,
)
from filrouge.extraction.models import (
    ChosenQuote,
    NameShape,
    RelatedShape,
    StandingShape,
    read_answer,
    read_items,
    with_lists,
)
from filrouge.extraction.summaries import (
    GENERIC_TOPICS,
    MAX_TITLE_CHARS,
    clean_topics,
    concepts,
    speaker_of,
    title_of,
    without_label,
)
from filrouge.extraction.vocabulary import fold, tokens
from filrouge.providers.service import PROVIDERS_WITHOUT_MODEL
from filrouge.runtime.jobs import JobResult, Jobs, Payload
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.repository import StoredVectors
from filrouge.threads.assignment import RoutedPrompt, roots, thread_vector
from filrouge.threads.models import Point, Routing, Synthesis, Thread, ThreadCandidate, ThreadState, TitleBy
from filrouge.threads.repository import Decided, ThreadDecisions, ThreadPlace, Threads, ThreadVectors
from filrouge.threads.synthesis import MAX_POINT_CHARS, MOST_DECISIONS, MOST_QUESTIONS

# Thread names and thread lifecycle: topics, titles, state transitions, weight, sweeps, and replay.
#
# - `subjects` and `name` derive topics, title and summary from prompts by rules; `naming` asks a model (EXT-9, THR-9).
# - `moved` applies a state transition, `weight_at` the decay; `sweep` lists the transitions that are due.
# - `as_it_was` replays the state of a thread at an earlier moment.


def subjects(turn: Turn) -> tuple[str, ...]:
    """Return the topics of a turn by rules, highest weight first; at most five, and none if it names nothing."""
    return tuple(clean_topics(concepts([replace(turn, text=without_label(turn.text))])))


# Names (EXT-9, THR-9).

SUMMARY: Final = 200
#: Sizes (number of prompts) at which the name of a thread is reviewed.
RENAMED_AT: Final = (1, 3, 6, 12, 24, 48, 96)
#: Number of main topics, one of which a title must name; and maximum number of words in a title.
_FOREMOST: Final = 3
_MOST_WORDS: Final = 7
_SHOWN, _SHOWN_OF_EACH, _OTHERS, _TOKENS = 12, 300, 20, 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Name:
    """Name of a thread: title, summary and topics."""

    title: str
    summary: str
    topics: tuple[str, ...]
    title_by: TitleBy = "rules"


def is_due(prompts: int) -> bool:
    """Return whether the name of a thread with this many prompts is due for review."""
    return prompts in RENAMED_AT


def is_due_between(before: int, after: int) -> bool:
    """Return whether growing from `before` to `after` prompts makes a model review of the name due."""
    return any(before < due <= after for due in RENAMED_AT[1:])


def name(prompts: Sequence[Turn], taken: Collection[str], thread: Thread | None = None) -> Name:
    """Return the name of a thread by rules.

    The title is the subject of a prompt, as `extraction.summaries` reads it: the first one that is short and names a
    main topic of the thread. If there is none, the title is built from the main topics. It is reviewed when the thread
    reaches the sizes in `RENAMED_AT`, since a name that changes with every turn is of no use, and it is kept while it
    still fits. Titles of live threads in a project are unique: the later thread is qualified with one of its topics, or
    with its opening day.

    Args:
        prompts: its routed turns, oldest first, at least one.
        taken: titles of the other live threads of the project.
        thread: the thread as it is; its title is kept if a user or a model set it, or while it still fits.
    """
    topics = concepts(prompts)
    subjects = [title for turn in prompts if (title := title_of(turn.text))]
    by: TitleBy = "rules" if thread is None else thread.title_by
    if thread is not None and thread.title and (by != "rules" or _fits(thread.title, topics)):
        title = thread.title
    else:
        title = next((one for one in subjects if _fits(one, topics)), None) or _of_topics(topics, prompts)
        title = title or (subjects[0] if subjects else " ".join(prompts[0].text.split())[:MAX_TITLE_CHARS])
    if by == "rules":
        title = distinct(title, topics, taken, prompts[0].at)
    return Name(title=title, summary=_summary(title, subjects), topics=topics, title_by=by)


def distinct(title: str, topics: Sequence[str], taken: Collection[str], opened: datetime) -> str:
    """Return the title, qualified with a topic or with the opening day if another thread has the same title."""
    used = {fold(one) for one in taken}
    return next(one for one in _qualified(title, topics, opened) if fold(one) not in used)


def _qualified(title: str, topics: Sequence[str], opened: datetime) -> Iterator[str]:
    yield title
    marks = [topic for topic in topics if not _names(title, [topic])]
    marks += [f"{opened:%Y-%m-%d}", f"{opened:%Y-%m-%d %H:%M}", f"{opened:%Y-%m-%d %H:%M:%S.%f}"]
    for mark in marks:
        yield f"{title[: max(0, MAX_TITLE_CHARS - len(mark) - 3)].rstrip()} · {mark}"
    place = 1
    while True:  # several threads were opened in the same microsecond
        place += 1
        yield f"{title} · {opened:%Y-%m-%d %H:%M:%S.%f}{'′' * place}"


def _fits(title: str, topics: Sequence[str]) -> bool:
    """Return whether a subject can be a title: short, not a question, and about a main topic."""
    return (
        len(title.split()) <= _MOST_WORDS
        and _names(title, topics[:_FOREMOST])
        and not reading.QUESTION.search(fold(title))
    )


def _of_topics(topics: Sequence[str], prompts: Sequence[Turn]) -> str:
    """Build a title from the main topics, as many as fit: `Rate limiter: Redis, counters`."""
    taken: list[str] = []
    for topic in topics[:_FOREMOST]:
        if len(" ".join([*taken, topic]).split()) <= _MOST_WORDS and len(", ".join([*taken, topic])) < MAX_TITLE_CHARS:
            taken.append(_as_written(topic, prompts))
    first, *others = taken or [""]
    return f"{first[:1].upper()}{first[1:]}{': ' if others else ''}{', '.join(others)}"


def _as_written(topic: str, prompts: Sequence[Turn]) -> str:
    """Return a topic with the capitalisation of its first occurrence."""
    for turn in prompts:
        at = fold(turn.text).find(fold(topic))
        if at >= 0:
            return turn.text[at : at + len(topic)]
    return topic


def _names(title: str, topics: Sequence[str]) -> bool:
    return not roots([title]).isdisjoint(roots(topics))


def _summary(title: str, subjects: Sequence[str]) -> str:
    """Return the subjects of the prompts: the first one and then the latest, as many as fit."""
    others = [one for one in dict.fromkeys(subjects) if fold(one) != fold(title)]
    ordered = [*others[:1], *others[:0:-1]]
    chosen: list[str] = []
    for one in ordered:
        if len("; ".join([*chosen, one])) <= SUMMARY:
            chosen.append(one)
    return "; ".join(sorted(chosen, key=others.index))


def naming(
    prompts: Sequence[Turn], taken: Sequence[str], former: Name, texts: Prompts, language: str
) -> RequestGenerator[Name]:
    """Ask a model for a better name; the former name is kept if the model's title is unusable.

    A title by a model is kept while it names one of the main topics; the summary is replaced.

    A model reviews at the same sizes as the rules and after them, but not for the first prompt, which the rules read as
    well. So the summary is never older than the name, and a thread of a hundred prompts costs six model calls.

    Args:
        former: the result of `name`, for a thread that no user named.

    Raises:
        Unreadable: the model's answer cannot be read.
    """
    shown = {
        "messages": [" ".join(turn.text.split())[:_SHOWN_OF_EACH] for turn in prompts[-_SHOWN:]],
        "other_titles": list(taken[:_OTHERS]),
    }
    answer, _ = yield from ask_model(
        "title", wrap_json("thread", shown), NameShape, partial(read_answer, NameShape),
        prompts=texts, language=language, most_tokens=_TOKENS,
    )  # fmt: skip
    title = " ".join(answer.title.split())[:MAX_TITLE_CHARS].strip(" .\"'“”«»")
    if not _is_subject(title) or not _names(title, [turn.text for turn in prompts]):
        return former  # a title that shares no word with the prompts is made up
    summary = " ".join(answer.summary.split())
    stays = former.title_by == "model" and _names(former.title, former.topics[:_FOREMOST])
    return replace(
        former,
        title=distinct(former.title if stays else title, former.topics, taken, prompts[0].at),
        summary=summary if summary and len(summary) <= SUMMARY else former.summary,
        title_by="model",
    )


def _is_subject(title: str) -> bool:
    """Return True if the title has a word that is not a label, a placeholder or a fragment."""
    return any(len(word) > 2 and word not in GENERIC_TOPICS for word in tokens(fold(title)))


# Lifecycle.

Act = Literal["use", "reactivate", "reopen", "suspend", "archive", "merge"]
"""`use`: a turn goes on in it; `reactivate`: a turn wakes it; `reopen`: a hand does; `merge`: another takes it in."""

MOVES: Final[Mapping[tuple[ThreadState, Act], ThreadState]] = {
    ("active", "use"): "active",
    ("active", "suspend"): "suspended",
    ("active", "archive"): "archived",
    ("active", "merge"): "archived",
    ("suspended", "reactivate"): "active",
    ("suspended", "reopen"): "active",
    ("suspended", "archive"): "archived",
    ("suspended", "merge"): "archived",
    ("archived", "reactivate"): "active",
    ("archived", "reopen"): "active",
    ("archived", "merge"): "archived",
}

HALF_LIFE: Final = timedelta(days=1.5)
SUSPENDED_BELOW: Final = 0.1
ARCHIVED_AFTER: Final = timedelta(hours=72)
#: Weight added by a use, and minimum weight after a reactivation: with a tenth alone, the thread would be suspended
#: again within the day.
USE, WOKEN = 0.1, 0.5
#: Maximum number of active threads per project, by mode.
CAPS: Final[Mapping[str, int]] = {"light": 15, "normal": 50, "heavy": 100, "max": 200}


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """One transition of a sweep; `at` is when it was due, possibly long ago."""

    thread_id: str
    act: Act
    at: datetime


def weight_at(thread: Thread, now: datetime) -> float:
    """Return the current weight of a thread, in [0, 1]."""
    return thread.weight * 0.5 ** (max(now - thread.last_active, timedelta()) / HALF_LIFE)


def moved(thread: Thread, act: Act, at: datetime) -> Thread:
    """Return the thread after an act.

    Raises:
        BadInput: the act is not allowed in the thread's state.
    """
    state = MOVES.get((thread.state, act)) if thread.merged_into is None else None
    if state is None:
        legal = ", ".join(known for (state, known) in MOVES if state == thread.state)
        if thread.merged_into is not None:
            raise BadInput(
                f"Thread {thread.id} was merged, so there is no {act!r} for it.",
                remedy=f"Its turns are in thread {thread.merged_into}.",
            )
        raise BadInput(
            f"Thread {thread.id} is {thread.state}, and {act!r} is no move from there.", remedy=f"Legal: {legal}."
        )
    match act:
        case "use":
            return replace(
                thread, weight=min(1.0, weight_at(thread, at) + USE), last_active=max(at, thread.last_active)
            )
        case "reactivate" | "reopen":
            weight = max(WOKEN, min(1.0, weight_at(thread, at) + USE))
            return replace(
                thread, state=state, weight=weight, last_active=max(at, thread.last_active), suspended_at=None
            )
        case "suspend":
            return replace(thread, state=state, suspended_at=at)
        case "archive" | "merge":
            return replace(thread, state=state, suspended_at=None)


def sweep(threads: Iterable[Thread], now: datetime, mode: str = "normal") -> tuple[Move, ...]:
    """Return the transitions that are due for these threads of one project, in an order in which they can be applied.

    A transition is dated to when it became due, so that one sweep catches up after the machine was off for weeks. Above
    the cap, the lightest threads are suspended; on a tie, those that were used longest ago.

    The weight of an unused thread halves every 1.5 days. A thread is suspended when its weight falls below
    `SUSPENDED_BELOW`, or when it is among the lightest and more threads are active than the mode allows. It is archived
    after three days of suspension. Nothing is deleted here. Every state can return to `active`, except that of a merged
    thread.

    Args:
        mode: `light`, `normal`, `heavy` or `max`.
    """
    moves: list[Move] = []
    staying: list[Thread] = []
    for thread in threads:
        if thread.merged_into is not None:
            continue
        since = thread.suspended_at or thread.last_active
        if thread.state == "active":
            if weight_at(thread, now) >= SUSPENDED_BELOW:
                staying.append(thread)
                continue
            since = _weighs_too_little(thread)
            moves.append(Move(thread_id=thread.id, act="suspend", at=since))
        if thread.state != "archived" and now - since >= ARCHIVED_AFTER:
            moves.append(Move(thread_id=thread.id, act="archive", at=since + ARCHIVED_AFTER))
    moves += [Move(thread_id=one.id, act="suspend", at=now) for one in _over(staying, now, CAPS[mode])]
    return tuple(moves)


def _weighs_too_little(thread: Thread) -> datetime:
    """Return the moment at which the weight falls below `SUSPENDED_BELOW`."""
    if thread.weight <= SUSPENDED_BELOW:
        return thread.last_active
    return thread.last_active + HALF_LIFE * math.log2(thread.weight / SUSPENDED_BELOW)


def _over(active: Sequence[Thread], now: datetime, cap: int) -> list[Thread]:
    lightest = sorted(active, key=lambda one: (weight_at(one, now), one.last_active, one.id))
    return lightest[: max(0, len(active) - cap)]


# Replay.


def as_it_was(thread: Thread, prompts: Sequence[datetime], moment: datetime) -> Thread:
    """Return the thread as it was at a moment, but with its current title, summary and topics.

    Weight and state depend only on use and time, so they are recomputed from the times of the prompts. Manual archiving
    and reopening is not replayed.

    Args:
        prompts: times of the prompts that were in it at that moment, at least one.
        moment: not before the first of them.
    """
    first, *later = sorted(prompts)
    lived = replace(
        thread, state="active", weight=1.0, opened_at=first, last_active=first, suspended_at=None, merged_into=None
    )
    for at in later:
        lived = _swept(lived, at)
        lived = moved(lived, "use" if lived.state == "active" else "reactivate", at)
    return replace(_swept(lived, moment), turns=len(prompts))


def _swept(thread: Thread, now: datetime) -> Thread:
    for move in sweep([thread], now):
        thread = moved(thread, move.act, move.at)
    return thread


# Upkeep of threads: keep vectors, names and states consistent, and queue questions to a model.

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
    space_id = parts.vectors.space.id
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


def as_it_is(parts: Parts, tx: Tx, thread: Thread) -> Thread:
    """Return a thread in its current state, which depends on the other threads of its place."""
    if thread.state == "archived":
        return thread
    caps = ThreadSettings.of(parts.settings(tx))
    states: tuple[ThreadState, ...] = ("active", "suspended")
    beside = as_of(Threads(tx).at_place(caps.place_beside(thread), states), parts.clock.now(), caps.mode)
    found = next((it for it in beside if it.id == thread.id), thread)
    return replace(found, turns=thread.turns, sessions=thread.sessions)


# Questions to a language model: does a prompt belong to a thread, and where does the work stand?

# Does a prompt belong to a thread?

MESSAGE, TOPICS = 500, 5
#: Acceptance threshold: for a yes, the mean of similarity and confidence; for a no, the confidence.
ACCEPTED: Final = 0.5
_QUESTION_TOKENS: Final = 200


def asking(
    item: RoutedPrompt,
    routing: Routing,
    candidate: Thread,
    prompts: Prompts,
    language: str,
    *,
    seconds: float | None = None,
) -> RequestGenerator[Routing]:
    """Ask a model about a borderline prompt; return the routing, no longer borderline if the model is confident.

    It is asked if the rules are unsure (THR-3). A confident yes puts the prompt there. A confident no removes it if the
    rules had put it there, and otherwise changes nothing: an answer about one thread says nothing about another. An
    unsure answer leaves the decision of the rules, still open.

    Args:
        routing: the decision of the rules, including the comparison with `candidate`.
        candidate: the thread of `routing.weighed[0]`.
        seconds: how long each answer is of use.

    Raises:
        Unreadable: the model's answer cannot be read; the decision of the rules stands.
    """
    best = next(one for one in routing.weighed if one.thread_id == candidate.id)
    shown = {
        "message": item.text[:MESSAGE],
        "topics": list(item.topics[:TOPICS]),
        "thread": {
            "title": candidate.title,
            "topics": list(candidate.topics[:TOPICS]),
            "summary": candidate.summary[:SUMMARY],
        },
    }
    answer, by = yield from ask_model(
        "thread", wrap_json("case", shown), RelatedShape, partial(read_answer, RelatedShape),
        prompts=prompts, language=language, most_tokens=_QUESTION_TOKENS, seconds=seconds,
    )  # fmt: skip
    return _decided(routing, best, answer, f"{by.provider}/{by.model}")


def _decided(routing: Routing, best: ThreadCandidate, answer: RelatedShape, model: str) -> Routing:
    confidence = (best.similarity + answer.confidence) / 2
    told = f"({answer.confidence:.2f}), similarity {best.similarity:.2f}."
    if answer.related and confidence >= ACCEPTED:
        return replace(
            routing,
            action="continue" if best.state == "active" else "reactivate",
            thread_id=best.thread_id,
            parent=None,
            similarity=confidence,
            reason=f"A model says it belongs {told}",
            borderline=False,
            model=model,
        )
    if answer.related or answer.confidence < ACCEPTED:
        return replace(routing, reason=f"A model was asked and is not sure {told}", model=model)
    sure = replace(routing, reason=f"A model says it does not belong {told}", borderline=False, model=model)
    if routing.thread_id != best.thread_id:
        return sure
    own = next((one for one in routing.weighed if one.own), None)
    parent = own.thread_id if own else None
    return replace(sure, action="fork" if own else "new", thread_id=None, parent=parent)


# Where does the work stand?

_MOST_STATE: Final = 3
_RECOUNTING_TOKENS: Final = 800
_LISTS: Final = ("state", "decisions", "questions")


def recounting(
    turns: Sequence[Turn], by_rules: Synthesis, prompts: Prompts, language: str
) -> RequestGenerator[Synthesis]:
    """Return the synthesis as corrected by a model.

    A model judges better than the rules which sentences matter (GARD-3), but it cannot write any: it selects sentences
    of the conversation, and each must be found in its turn. Decisions are accepted only from the user's turns. Files
    and failures stay as the rules found them.

    Args:
        turns: the turns that the rules read, in order; only the last ones are shown if there are very many.
        by_rules: the synthesis by the rules; what it holds of earlier turns is kept.

    Raises:
        Unreadable: the model's answer cannot be read; the synthesis by the rules stands.
    """
    spoken = [turn for turn in turns if speaker_of(turn) in ("user", "agent")]
    shown = spoken[-turns_per_prompt(spoken[::-1]) :]
    answer, by = yield from ask_model(
        "synthesise", render_turns(shown), StandingShape, lambda answer: with_lists(answer, *_LISTS),
        prompts=prompts, language=language, most_tokens=_RECOUNTING_TOKENS,
    )  # fmt: skip
    seen = {turn.id for turn in shown}
    state = _points(answer, "state", shown, least=TRUST_AGENT)
    decisions = _points(answer, "decisions", shown, least=TRUST_PROMPT)
    questions = _points(answer, "questions", shown, least=TRUST_AGENT)
    return replace(
        by_rules,
        state=tuple(state[:_MOST_STATE]) or by_rules.state,
        decisions=_latest_first(decisions, by_rules.decisions, seen)[:MOST_DECISIONS],
        questions=_latest_first(questions, by_rules.questions, seen)[:MOST_QUESTIONS],
        made_by=f"{by.provider}/{by.model}",
    )


def _points(answer: Mapping[str, Any], name: str, turns: Sequence[Turn], *, least: int) -> list[Point]:
    chosen, _ = read_items(ChosenQuote, answer, name)
    return [point for one in chosen if (point := _found(one, turns, least))]


def _found(chosen: ChosenQuote, turns: Sequence[Turn], least: int) -> Point | None:
    """Find the selected sentence: in the cited turn, or else in any turn, because models miscount."""
    cited = turns[chosen.turn - 1 : chosen.turn] if chosen.turn > 0 else ()
    for turn in (*cited, *reversed(turns)):
        span = locate(chosen.quote, turn.text)
        if span and turn.trust >= least:
            text = " ".join(turn.text[span.start : span.end].split())
            return Point(text=text, turn_id=turn.id, trust=turn.trust) if len(text) <= MAX_POINT_CHARS else None
    return None


def _latest_first(chosen: Sequence[Point], by_rules: Sequence[Point], seen: set[str]) -> tuple[Point, ...]:
    """Merge the model's selection with the rules' points from turns that the model was not shown, latest first.

    Memory ids are carried over.
    """
    memories = {one.turn_id: one.memory_id for one in by_rules if one.memory_id}
    own = [replace(one, memory_id=memories.get(one.turn_id, "")) for one in chosen]
    unseen = [one for one in by_rules if one.turn_id not in seen]
    once = {one.text: one for one in [*own, *unseen]}
    return tuple(sorted(once.values(), key=lambda one: one.turn_id, reverse=True))
