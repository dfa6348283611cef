"""Upkeep of threads: names, states and vectors that follow from their turns, and questions to a model.

Title, summary, topics and vector of a thread are derived from its turns, except a title set by a user. Where a user
moves or erases turns, these functions run in the same transaction, so what is shown never describes turns that are
gone. Jobs that place prompts queue the naming instead, since reading and naming a long thread takes tens of
milliseconds, in which nothing else could be written.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import TRUST_AGENT, TRUST_PROMPT, Turn
from filrouge.core import lazy_re as re
from filrouge.core.clock import Clock
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
from filrouge.extraction.statement_model import subject_score
from filrouge.extraction.summaries import (
    GENERIC_TOPICS,
    MAX_TITLE_CHARS,
    MAX_TITLE_SOURCE_CHARS,
    clean_topics,
    concepts,
    is_subject,
    speaker_of,
    title_of,
    without_label,
)
from filrouge.extraction.vocabulary import fold, tokens
from filrouge.providers.service import PROVIDERS_WITHOUT_MODEL, Models
from filrouge.runtime.jobs import JobResult, Jobs, Payload
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.repository import StoredVectors
from filrouge.threads.assignment import RoutedPrompt, roots, thread_vector
from filrouge.threads.models import Point, Routing, Synthesis, Thread, ThreadCandidate, ThreadState, TitleBy
from filrouge.threads.repository import LoggedDecision, ThreadDecisions, Threads, ThreadScope, ThreadVectors
from filrouge.threads.synthesis import MAX_DECISIONS, MAX_POINT_CHARS, MAX_QUESTIONS

# Topics and names.


def extract_topics(turn: Turn) -> tuple[str, ...]:
    """Return the topics of a turn by rules, highest weight first; at most five, and none if it names nothing."""
    return tuple(clean_topics(concepts([replace(turn, text=without_label(turn.text))])))


MAX_SUMMARY_CHARS: Final = 200
#: Sizes (number of prompts) at which the name of a thread is reviewed.
RENAME_SIZES: Final = (1, 3, 6, 12, 24, 48, 96)
#: Number of main topics, one of which a title must name; and numbers of words in a title.
_MAIN_TOPICS: Final = 3
_MIN_TITLE_WORDS, _MAX_TITLE_WORDS = 4, 7
#: Words of a sentence that says or asks something, rather than names it.
_SPEAKING_WORDS: Final = frozenset(
    "i i'm i've i'd me my we we're us you it's that's this there there's they he she is are was were be been do does"
    " did don't have has had can could should will would might let let's where why how je j'ai j'avais mes nous tu"
    " vous il elle ils elles c'est c'etait ca est sont etait ont avait avez fait fais va vais faut peut pourquoi"
    " comment quand oublie yo mi mis nos se es era esta estan hay hemos tengo tenemos tiene hace haz vamos voy puede"
    " como cuando donde cuanto".split()
)
#: What joins the words of a name: "rate of the limiter", "mails de relance".
_JOINT: Final = r"\s+(?:of(?: the)?|de(?: la| los| las)?|des|du|del)\s+|\s+(?:de l|d)['’]"
#: A last word with a lower score is left out of a title (`extraction.statement_model.subject_score`).
_WEAK_END_SCORE: Final = -0.5
_NAME_WORD: Final = r"[^\W\d_][\w-]+"
_JOINED_BEFORE: Final = re.compile(rf"({_NAME_WORD})(?:{_JOINT})$")
_JOINED_AFTER: Final = re.compile(rf"(?:{_JOINT})({_NAME_WORD})")
_MAX_PROMPTS_SHOWN, _MAX_PROMPT_CHARS, _MAX_OTHER_TITLES, _MAX_NAME_TOKENS = 12, 300, 20, 300


class ThreadName(Struct, frozen=True, kw_only=True):
    """Name of a thread: title, summary and topics."""

    title: str
    summary: str
    topics: tuple[str, ...]
    title_by: TitleBy = "rules"


def is_rename_due(prompts: int) -> bool:
    """Return whether the name of a thread with this many prompts is due for review."""
    return prompts in RENAME_SIZES


def is_model_rename_due(before: int, after: int) -> bool:
    """Return whether growing from `before` to `after` prompts makes a model review of the name due."""
    return any(before < due <= after for due in RENAME_SIZES[1:])


def name_by_rules(prompts: Sequence[Turn], used_titles: Collection[str], thread: Thread | None = None) -> ThreadName:
    """Return the name of a thread by rules.

    The title is the subject of a prompt, as `extraction.summaries` reads it: the first one that is short and names a
    main topic of the thread. If there is none, the title is built from the main topics. It is reviewed when the thread
    reaches the sizes in `RENAME_SIZES`, since a name that changes with every turn is of no use, and it is kept while it
    still fits. Titles of threads that are not archived are unique: the later thread is qualified with one of its
    topics, or with its opening day.

    Args:
        prompts: its routed turns, oldest first, at least one.
        used_titles: titles of the project's other threads that are not archived.
        thread: the thread as it is; its title is kept if a user or a model set it, or while it still fits.
    """
    topics = concepts(prompts)
    subjects = [title for turn in prompts if (title := title_of(turn.text))]
    title_by: TitleBy = "rules" if thread is None else thread.title_by
    if thread is not None and thread.title and (title_by != "rules" or _can_be_title(thread.title, topics)):
        title = thread.title
    else:
        title = next((subject for subject in subjects if _can_be_title(subject, topics)), None) or _title_from_topics(
            topics, prompts
        )
        title = title or (subjects[0] if subjects else " ".join(prompts[0].text.split())[:MAX_TITLE_CHARS])
    if title_by == "rules":
        title = make_distinct(title, topics, used_titles, prompts[0].at)
    return ThreadName(title=title, summary=_summary(title, subjects), topics=topics, title_by=title_by)


def make_distinct(title: str, topics: Sequence[str], used_titles: Collection[str], opened: datetime) -> str:
    """Return the title, qualified with a topic or with the opening day if another thread has the same title."""
    folded_titles = {fold(other) for other in used_titles}
    return next(
        candidate for candidate in _qualified_titles(title, topics, opened) if fold(candidate) not in folded_titles
    )


def _qualified_titles(title: str, topics: Sequence[str], opened: datetime) -> Iterator[str]:
    yield title
    qualifiers = [topic for topic in topics if not _shares_word(title, [topic])]
    qualifiers += [f"{opened:%Y-%m-%d}", f"{opened:%Y-%m-%d %H:%M}", f"{opened:%Y-%m-%d %H:%M:%S.%f}"]
    for qualifier in qualifiers:
        yield f"{title[: max(0, MAX_TITLE_CHARS - len(qualifier) - 3)].rstrip()} · {qualifier}"
    number = 1
    while True:  # several threads were opened in the same microsecond
        number += 1
        yield f"{title} · {opened:%Y-%m-%d %H:%M:%S.%f}{'′' * number}"


def _can_be_title(title: str, topics: Sequence[str]) -> bool:
    """Return whether a subject can be a title: a short name, no sentence or question, and about a main topic."""
    words = fold(title).split()
    return (
        len(words) <= _MAX_TITLE_WORDS
        and _SPEAKING_WORDS.isdisjoint(words)
        and words[:1] != ["on"]  # in English it joins the words of a name
        and _shares_word(title, topics[:_MAIN_TOPICS])
        and not reading.QUESTION.search(fold(title))
    )


def _title_from_topics(topics: Sequence[str], prompts: Sequence[Turn]) -> str:
    """Build a title from the main topics, as many as it needs: `Rate limiter: Redis`, `Mails de relance`."""
    chosen: list[str] = []
    for topic in topics[:_MAIN_TOPICS]:
        phrase = _whole_name(_without_weak_end(topic), prompts)
        alike = next((other for other in chosen if _shares_word(phrase, [other])), "")
        if " " in alike or (not alike and _names_enough(chosen)):
            continue
        # "variables d'environnement" says what "env" does
        longer = [phrase if other == alike else other for other in chosen] if alike else [*chosen, phrase]
        if len(" ".join(longer).split()) <= _MAX_TITLE_WORDS and len(", ".join(longer)) < MAX_TITLE_CHARS:
            chosen = longer
    first, *others = chosen or [""]
    return f"{first[:1].upper()}{first[1:]}{': ' if others else ''}{', '.join(others)}"


def _names_enough(phrases: Sequence[str]) -> bool:
    return len(" ".join(phrases).split()) >= _MIN_TITLE_WORDS or any(len(phrase.split()) > 2 for phrase in phrases)


def _without_weak_end(topic: str) -> str:
    """Return a topic without a last word that is hardly ever a name: `environnement lit` becomes `environnement`."""
    *words, last = topic.split()
    return " ".join(words) if words and subject_score(last) < _WEAK_END_SCORE else topic


def _whole_name(topic: str, prompts: Sequence[Turn]) -> str:
    """Return a topic as it is written first, with the words that a preposition joins to it in most places."""
    written, found = list[str](), Counter[str]()
    for turn in prompts:
        text = turn.text[:MAX_TITLE_SOURCE_CHARS]
        plain = fold(text)  # of the same length
        for place in re.finditer(rf"\b{re.escape(fold(topic))}\b", plain):
            written.append(text[place.start() : place.end()])
            before = _JOINED_BEFORE.search(plain[max(0, place.start() - MAX_TITLE_CHARS) : place.start()])
            after = _JOINED_AFTER.match(plain[place.end() : place.end() + MAX_TITLE_CHARS])
            start = place.start() - (len(before[0]) if before and is_subject(before[1]) else 0)
            end = place.end() + (len(after[0]) if after and is_subject(after[1]) else 0)
            found[text[start:end]] += 1
    longer = [name for name, _ in found.most_common() if len(name) > len(topic)]
    return " ".join((longer or written or [topic])[0].split())


def _shares_word(title: str, topics: Sequence[str]) -> bool:
    return not roots([title]).isdisjoint(roots(topics))


def _summary(title: str, subjects: Sequence[str]) -> str:
    """Return the subjects of the prompts: the first one and then the latest, as many as fit."""
    others = [subject for subject in dict.fromkeys(subjects) if fold(subject) != fold(title)]
    ordered = [*others[:1], *others[:0:-1]]
    chosen: list[str] = []
    for subject in ordered:
        if len("; ".join([*chosen, subject])) <= MAX_SUMMARY_CHARS:
            chosen.append(subject)
    return "; ".join(sorted(chosen, key=others.index))


def name_by_model(
    prompts: Sequence[Turn], used_titles: Sequence[str], former: ThreadName, instructions: Prompts, language: str
) -> RequestGenerator[ThreadName]:
    """Ask a model for a better name; the former name is kept if the model's title is unusable.

    A title by a model is kept while it names one of the main topics; the summary is replaced.

    A model reviews at the same sizes as the rules and after them, but not for the first prompt, which the rules read
    equally well. So the summary is never older than the name, and a thread of a hundred prompts costs six model calls.

    Args:
        former: the result of `name_by_rules`, for a thread that no user named.

    Raises:
        Unreadable: the model's answer cannot be read.
    """
    question = {
        "messages": [" ".join(turn.text.split())[:_MAX_PROMPT_CHARS] for turn in prompts[-_MAX_PROMPTS_SHOWN:]],
        "other_titles": list(used_titles[:_MAX_OTHER_TITLES]),
    }
    answer, _ = yield from ask_model(
        "title", wrap_json("thread", question), NameShape, partial(read_answer, NameShape),
        prompts=instructions, language=language, most_tokens=_MAX_NAME_TOKENS,
    )  # fmt: skip
    title = " ".join(answer.title.split())[:MAX_TITLE_CHARS].strip(" .\"'“”«»")
    if not _has_meaningful_word(title) or not _shares_word(title, [turn.text for turn in prompts]):
        return former  # a title that shares no word with the prompts is made up
    summary = " ".join(answer.summary.split())
    stays = former.title_by == "model" and _shares_word(former.title, former.topics[:_MAIN_TOPICS])
    return replace(
        former,
        title=make_distinct(former.title if stays else title, former.topics, used_titles, prompts[0].at),
        summary=summary if summary and len(summary) <= MAX_SUMMARY_CHARS else former.summary,
        title_by="model",
    )


def _has_meaningful_word(title: str) -> bool:
    """Return True if the title has a word that is not a label, a placeholder or a fragment."""
    return any(len(word) > 2 and word not in GENERIC_TOPICS for word in tokens(fold(title)))


# Lifecycle: states, weight, and the transitions that are due.

Act = Literal["use", "reactivate", "reopen", "suspend", "archive", "merge"]
"""`use`: a turn continues it; `reactivate`: a turn makes it active again; `reopen`: the user does; `merge`: it becomes
part of another thread."""

TRANSITIONS: Final[Mapping[tuple[ThreadState, Act], ThreadState]] = {
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
#: Weight added by a use, and minimum weight after a reactivation. With `USE_WEIGHT` alone, a reactivated thread would
#: be suspended again within a day.
USE_WEIGHT, MIN_REACTIVATED_WEIGHT = 0.1, 0.5
#: Maximum number of active threads per project, by mode.
MAX_ACTIVE_THREADS: Final[Mapping[str, int]] = {"light": 15, "normal": 50, "heavy": 100, "max": 200}


class Transition(Struct, frozen=True, kw_only=True):
    """One transition that is due; `at` is when it was due, possibly long ago."""

    thread_id: str
    act: Act
    at: datetime


def weight_at(thread: Thread, now: datetime) -> float:
    """Return the current weight of a thread, in [0, 1]."""
    return thread.weight * 0.5 ** (max(now - thread.last_active, timedelta()) / HALF_LIFE)


def apply_act(thread: Thread, act: Act, at: datetime) -> Thread:
    """Return the thread after an act.

    Raises:
        BadInput: the act is not allowed in the thread's state.
    """
    state = TRANSITIONS.get((thread.state, act)) if thread.merged_into is None else None
    if state is None:
        allowed = ", ".join(allowed_act for (state, allowed_act) in TRANSITIONS if state == thread.state)
        if thread.merged_into is not None:
            raise BadInput(
                f"Thread {thread.id} was merged, so there is no {act!r} for it.",
                remedy=f"Its turns are in thread {thread.merged_into}.",
            )
        raise BadInput(
            f"Thread {thread.id} is {thread.state}, and {act!r} is not possible from there.",
            remedy=f"Legal: {allowed}.",
        )
    match act:
        case "use":
            return replace(
                thread, weight=min(1.0, weight_at(thread, at) + USE_WEIGHT), last_active=max(at, thread.last_active)
            )
        case "reactivate" | "reopen":
            weight = max(MIN_REACTIVATED_WEIGHT, min(1.0, weight_at(thread, at) + USE_WEIGHT))
            return replace(
                thread, state=state, weight=weight, last_active=max(at, thread.last_active), suspended_at=None
            )
        case "suspend":
            return replace(thread, state=state, suspended_at=at)
        case "archive" | "merge":
            return replace(thread, state=state, suspended_at=None)


def due_transitions(threads: Iterable[Thread], now: datetime, mode: str = "normal") -> tuple[Transition, ...]:
    """Return the transitions that are due for these threads of one project, in an order in which they can be applied.

    A transition is dated to when it became due, so that one call catches up after the machine was off for weeks. Above
    the cap, the lightest threads are suspended; on a tie, those that were used longest ago.

    The weight of an unused thread halves every 1.5 days. A thread is suspended when its weight falls below
    `SUSPENDED_BELOW`, or when it is among the lightest and more threads are active than the mode allows. It is archived
    after three days of suspension. Nothing is deleted here. Every state can return to `active`, except that of a merged
    thread.

    Args:
        mode: `light`, `normal`, `heavy` or `max`.
    """
    transitions: list[Transition] = []
    staying: list[Thread] = []
    for thread in threads:
        if thread.merged_into is not None:
            continue
        since = thread.suspended_at or thread.last_active
        if thread.state == "active":
            if weight_at(thread, now) >= SUSPENDED_BELOW:
                staying.append(thread)
                continue
            since = _suspension_time(thread)
            transitions.append(Transition(thread_id=thread.id, act="suspend", at=since))
        if thread.state != "archived" and now - since >= ARCHIVED_AFTER:
            transitions.append(Transition(thread_id=thread.id, act="archive", at=since + ARCHIVED_AFTER))
    transitions += [
        Transition(thread_id=thread.id, act="suspend", at=now)
        for thread in _over_cap(staying, now, MAX_ACTIVE_THREADS[mode])
    ]
    return tuple(transitions)


def _suspension_time(thread: Thread) -> datetime:
    """Return the moment at which the weight falls below `SUSPENDED_BELOW`."""
    if thread.weight <= SUSPENDED_BELOW:
        return thread.last_active
    return thread.last_active + HALF_LIFE * math.log2(thread.weight / SUSPENDED_BELOW)


def _over_cap(active: Sequence[Thread], now: datetime, cap: int) -> list[Thread]:
    lightest = sorted(active, key=lambda thread: (weight_at(thread, now), thread.last_active, thread.id))
    return lightest[: max(0, len(active) - cap)]


# The state of a thread at an earlier moment.


def replay_thread(thread: Thread, prompts: Sequence[datetime], moment: datetime) -> Thread:
    """Return the thread as it was at a moment, but with its current title, summary and topics.

    Weight and state depend only on use and time, so they are recomputed from the times of the prompts. Manual archiving
    and reopening is not replayed.

    Args:
        prompts: times of the prompts that were in it at that moment, at least one.
        moment: not before the first of them.
    """
    first, *later = sorted(prompts)
    replayed = replace(
        thread, state="active", weight=1.0, opened_at=first, last_active=first, suspended_at=None, merged_into=None
    )
    for at in later:
        replayed = _apply_due_transitions(replayed, at)
        replayed = apply_act(replayed, "use" if replayed.state == "active" else "reactivate", at)
    return replace(_apply_due_transitions(replayed, moment), turns=len(prompts))


def _apply_due_transitions(thread: Thread, now: datetime) -> Thread:
    for transition in due_transitions([thread], now):
        thread = apply_act(thread, transition.act, transition.at)
    return thread


# Queueing questions to a model.

#: Job kinds: whether a prompt belongs to a thread; how a thread is named.
RECONSIDER, NAME_THREAD = "reconsider", "entitle"
#: Maximum share of prompts to ask about, among the `_LATEST_DECISIONS` newest decisions; in max mode all of them.
MAX_ASKED_SHARE: Final = 0.2
_LATEST_DECISIONS: Final = 200
#: Maximum age of a prompt to ask about.
_MAX_PROMPT_AGE: Final = timedelta(hours=6)


def queue_reconsidering(parts: StoreContext, tx: Tx, turn: Turn, routing: Routing) -> None:
    """Queue a question about where a prompt belongs, if the rules are unsure; call it after logging their decision.

    It is asked after the rules have placed the prompt, so nobody waits. At most one prompt in five becomes a question:
    beyond that, a model does no better than the rules. Prompts older than `_MAX_PROMPT_AGE` are not asked about;
    regrouping looks at their session as a whole. In light mode nothing is asked.
    """
    if not routing.borderline or is_too_late(turn.at, parts.clock.now()) or not _may_ask_model(parts, tx):
        return
    asked, decided = ThreadDecisions(tx).question_counts(_LATEST_DECISIONS)
    share = 1.0 if parts.settings(tx).mode == "max" else MAX_ASKED_SHARE
    if asked < share * decided:
        Jobs(tx).enqueue(RECONSIDER, {"turn": turn.id}, dedupe=f"{RECONSIDER}:{turn.id}", at=parts.clock.now())


def queue_better_name(parts: StoreContext, tx: Tx, thread: Thread, *, before: int, after: int) -> None:
    """Queue the naming of a thread by a model if its growth from `before` to `after` prompts makes that due."""
    if is_model_rename_due(before, after) and not is_too_late(thread.last_active, parts.clock.now()):
        queue_naming(parts, tx, thread)


def queue_naming(parts: StoreContext, tx: Tx, thread: Thread) -> None:
    """Queue the naming of a thread by a model, unless a user named it."""
    if thread.title_by != "user" and _may_ask_model(parts, tx):
        Jobs(tx).enqueue(NAME_THREAD, {"thread": thread.id}, dedupe=f"{NAME_THREAD}:{thread.id}", at=parts.clock.now())


def is_too_late(said: datetime, now: datetime) -> bool:
    """Return True if a turn is too old to be asked about."""
    return now - said > _MAX_PROMPT_AGE


def thread_model(models: Models, settings: Settings) -> str:
    """Return the model that decides where a prompt belongs, `provider/model`; empty if there is none.

    Raises:
        ModelUnavailable: the settings name a provider that cannot be built.
    """
    try:
        panel = models.panel(settings)
    except BadConfig as error:
        raise ModelUnavailable(error.message, remedy=error.remedy) from error
    if panel is None:
        return ""
    model = panel.of("thread")
    return f"{model.provider}/{model.model}"


def _may_ask_model(parts: StoreContext, tx: Tx) -> bool:
    settings = parts.settings(tx)
    return settings.extract_provider not in PROVIDERS_WITHOUT_MODEL and settings.mode != "light"


# Answers of models, for the code that moves prompts by rules.


class ModelAnswers(Struct, frozen=True, kw_only=True):
    """The threads that prompts belong to, and those they do not belong to (`excluded`), according to models.

    A confident answer concerns one prompt and one thread. It holds until a user decides about that prompt. An unsure or
    missing answer counts for nothing.
    """

    belongs: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()


def collect_answers(decisions: Iterable[LoggedDecision]) -> ModelAnswers:
    """Collect the models' answers from these decisions, which are given oldest first."""
    belongs, excluded = set[tuple[str, str]](), set[tuple[str, str]]()
    for decision in decisions:
        if decision.actor == "user":
            belongs = {pair for pair in belongs if pair[0] != decision.turn_id}
            excluded = {pair for pair in excluded if pair[0] != decision.turn_id}
        elif decision.actor == "model" and decision.routing.candidates and not decision.routing.borderline:
            candidate_id = decision.routing.candidates[0].thread_id
            (belongs if decision.thread_id == candidate_id else excluded).add((decision.turn_id, candidate_id))
    return ModelAnswers(belongs=frozenset(id_ for _, id_ in belongs), excluded=frozenset(id_ for _, id_ in excluded))


def answers_by_prompt(tx: Tx, user: str, project: str | None) -> Mapping[str, ModelAnswers]:
    """Return the models' answers about the prompts of a project, by prompt."""
    found: dict[str, list[LoggedDecision]] = {}
    for decision in ThreadDecisions(tx).asked_about(user, project):
        found.setdefault(decision.turn_id, []).append(decision)
    return {turn_id: collect_answers(decided) for turn_id, decided in found.items()}


# Data derived from the turns of a thread, recomputed whenever they change.

#: Maximum number of prompts (the newest) for a thread's vector and name: months of work in one thread.
MAX_PROMPTS: Final = 96
#: The job that computes thread vectors, and the number of threads per run.
VECTORS, _THREADS_PER_RUN = "thread_vectors", 32
#: The job that names a thread by rules.
RENAME: Final = "rename"


class ThreadSettings(Struct, frozen=True, kw_only=True):
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

    def scope_of_turn(self, turn: Turn) -> ThreadScope:
        """Return the scope whose threads a turn may belong to."""
        agent = (turn.scope.agent or turn.scope.channel) if self.isolated else None
        return ThreadScope(user=turn.scope.user, project=turn.scope.project, agent=agent)

    def scope_of_thread(self, thread: Thread) -> ThreadScope:
        """Return the scope of a thread."""
        agent = (thread.agent or thread.channel) if self.isolated else None
        return ThreadScope(user=thread.user, project=thread.project, agent=agent)


def is_routed(turn: Turn) -> bool:
    """Return True for a prompt that is placed by its content; all other turns of a session follow its prompts."""
    return turn.role == "user" and not turn.skipped and not turn.scope.agent and bool(turn.scope.session)


def in_current_state(threads: Iterable[Thread], now: datetime, mode: str) -> list[Thread]:
    """Return the threads of one scope in their current state, even if it is not written yet; order is kept."""
    found = {thread.id: thread for thread in threads}
    for transition in due_transitions(found.values(), now, mode):
        found[transition.thread_id] = apply_act(found[transition.thread_id], transition.act, transition.at)
    return list(found.values())


def state_counts(parts: StoreContext, tx: Tx) -> dict[str, int]:
    """Return the current number of active, suspended and archived threads, over all scopes."""
    threads, now, thread_settings = Threads(tx), parts.clock.now(), ThreadSettings.of(parts.settings(tx))
    threads_by_scope: dict[ThreadScope, list[Thread]] = {}
    for thread in threads.unarchived():
        threads_by_scope.setdefault(thread_settings.scope_of_thread(thread), []).append(thread)
    states = Counter(
        thread.state
        for in_scope in threads_by_scope.values()
        for thread in in_current_state(in_scope, now, thread_settings.mode)
    )
    return {
        "active": states["active"],
        "suspended": states["suspended"],
        "archived": states["archived"] + threads.archived_count(),
    }


def apply_due_transitions(tx: Tx, scope: ThreadScope, now: datetime, mode: str) -> list[Thread]:
    """Suspend and archive what is due in a scope; return the threads that were active or due, as they are now."""
    threads = Threads(tx)
    before = threads.unsettled(scope, now - ARCHIVED_AFTER)
    after = in_current_state(before, now, mode)
    for former, thread in zip(before, after, strict=True):
        if thread != former:
            threads.update(thread)
    return after


def prompts_of(parts: StoreContext, tx: Tx, thread_id: str) -> list[Turn]:
    """Return the newest prompts that were placed in a thread, oldest first."""
    return parts.turns(tx).get(Threads(tx).turns(thread_id, routed=True, limit=MAX_PROMPTS, newest=True))


def update_vector(tx: Tx, thread_id: str, space_id: str) -> None:
    """Recompute a thread's vector in this space from its prompts; its vectors in other spaces are deleted."""
    prompt_ids = Threads(tx).turns(thread_id, routed=True, limit=MAX_PROMPTS, newest=True)
    stored = StoredVectors(tx).some("turn", prompt_ids, space_id)
    vector = thread_vector([stored[id_] for id_ in prompt_ids if id_ in stored])
    ThreadVectors(tx).drop([thread_id])
    if vector is not None:
        ThreadVectors(tx).put(thread_id, space_id, vector)


def update_vector_for_prompt(tx: Tx, turn_id: str, space_id: str) -> None:
    """Update a thread's vector after the vector of one of its prompts arrived late."""
    thread_id = Threads(tx).of_prompt(turn_id)
    if thread_id is not None:
        update_vector(tx, thread_id, space_id)


def queue_thread_vectors(tx: Tx, at: datetime) -> None:
    """Queue the job that computes missing thread vectors in the current search space."""
    Jobs(tx).enqueue(VECTORS, {"after": 0}, dedupe=VECTORS, at=at)


def compute_thread_vectors(parts: Parts, payload: Payload) -> JobResult:
    """Run the job that computes missing thread vectors in the current search space."""
    space_id = parts.vectors.space.id
    missing = parts.readers.here(
        lambda tx: ThreadVectors(tx).missing(space_id, int(payload["after"]), _THREADS_PER_RUN)
    )

    def write(tx: Tx) -> None:
        for thread_id in missing.values():
            update_vector(tx, thread_id, space_id)

    return JobResult(write=write, again=lambda: {"after": max(missing)} if missing else None)


def rename_by_rules(parts: StoreContext, tx: Tx, thread: Thread, scope: ThreadScope, *, afresh: bool = False) -> Thread:
    """Return the thread with title, summary and topics from its prompts, not written yet; a user's title is kept.

    Args:
        afresh: drop the former title, since the prompts it came from may be gone.
    """
    turns = prompts_of(parts, tx, thread.id) or parts.turns(tx).get(Threads(tx).turns(thread.id, limit=MAX_PROMPTS))
    if not turns:
        return thread
    used_titles = [title for id_, title in Threads(tx).titles(scope).items() if id_ != thread.id]
    former = None if afresh and thread.title_by != "user" else thread
    new_name = name_by_rules(turns, used_titles, former)
    by_user = thread.title_by == "user"
    title = thread.title if by_user else new_name.title or " ".join(turns[0].text.split())[:MAX_TITLE_CHARS]
    return replace(
        thread,
        title=title,
        title_by=thread.title_by if title == thread.title else "rules",
        summary=new_name.summary,
        topics=new_name.topics,
    )


def queue_renaming(clock: Clock, tx: Tx, thread_id: str, *, afresh: bool = False) -> None:
    """Queue the naming of a thread by rules; `afresh` as in `rename_by_rules`."""
    dedupe = f"{RENAME}:{thread_id}:{'afresh' if afresh else 'review'}"
    Jobs(tx).enqueue(RENAME, {"thread": thread_id, "afresh": afresh}, dedupe=dedupe, at=clock.now())


def update_name(parts: Parts, payload: Payload) -> JobResult:
    """Run the job that names a thread by rules, outside the transaction that writes the name.

    If the thread's prompts or a title of its scope changed in the meantime, the job starts over, so that no two threads
    get the same title. After it, a model is asked for a better name, if there is one.
    """
    thread_id, afresh, retried = str(payload["thread"]), bool(payload["afresh"]), list[Payload]()

    def read(tx: Tx) -> tuple[Thread, ThreadScope] | None:
        thread = next(iter(Threads(tx).some([thread_id])), None)
        if thread is None or thread.merged_into is not None:
            return None
        return thread, ThreadSettings.of(parts.settings(tx)).scope_of_thread(thread)

    def name(tx: Tx) -> tuple[object, Thread] | None:
        found = read(tx)
        return found and (_basis_of_name(tx, *found), rename_by_rules(parts, tx, *found, afresh=afresh))

    if (named := parts.readers.here(name)) is None:
        return JobResult(write=lambda _: None)
    basis, renamed = named

    def write(tx: Tx) -> None:
        if (found := read(tx)) is None:
            return
        if _basis_of_name(tx, *found) != basis:
            retried.append(payload)
            return
        thread, _ = found
        Threads(tx).update(
            replace(
                thread,
                title=renamed.title,
                title_by=renamed.title_by,
                summary=renamed.summary,
                topics=renamed.topics,
            )
        )
        is_long = Threads(tx).prompt_count(thread_id) >= RENAME_SIZES[1]
        may_be_better = is_long and not is_too_late(thread.last_active, parts.clock.now())
        if may_be_better or (afresh and thread.title_by == "model"):
            queue_naming(parts, tx, thread)

    return JobResult(write=write, again=lambda: retried[-1] if retried else None)


def _basis_of_name(tx: Tx, thread: Thread, scope: ThreadScope) -> object:
    """Return what a name by rules rests on: the thread's prompts, who gave it its title, and the scope's titles."""
    prompt_ids = Threads(tx).turns(thread.id, routed=True, limit=MAX_PROMPTS, newest=True)
    return prompt_ids, thread.title_by, Threads(tx).titles(scope)


def refresh_names_and_vectors(parts: StoreContext, tx: Tx, threads: Sequence[Thread], space_id: str) -> list[Thread]:
    """Update names and vectors of threads whose turns changed, and write them.

    If a title by a model no longer stands, the model is asked again. A merged thread takes the title of the thread it
    was merged into.
    """
    thread_settings, updated = ThreadSettings.of(parts.settings(tx)), list[Thread]()
    for thread in threads:
        if thread.merged_into is None:
            updated.append(rename_by_rules(parts, tx, thread, thread_settings.scope_of_thread(thread), afresh=True))
            Threads(tx).update(updated[-1])
            update_vector(tx, thread.id, space_id)
            if thread.title_by == "model":
                queue_naming(parts, tx, updated[-1])
    for thread in threads:
        if thread.merged_into is not None:
            title = next((other.title for other in updated if other.id == thread.merged_into), "")
            Threads(tx).update(replace(thread, title=title, title_by="rules"))
    return updated


def current_thread(parts: StoreContext, tx: Tx, thread: Thread) -> Thread:
    """Return a thread in its current state, which depends on the other threads of its scope."""
    if thread.state == "archived":
        return thread
    thread_settings, now = ThreadSettings.of(parts.settings(tx)), parts.clock.now()
    unsettled = Threads(tx).unsettled(thread_settings.scope_of_thread(thread), now - ARCHIVED_AFTER)
    current = in_current_state(unsettled, now, thread_settings.mode)
    found = next((other for other in current if other.id == thread.id), thread)
    return replace(found, turns=thread.turns, sessions=thread.sessions)


# Asking a model whether a prompt belongs to a thread.

MAX_MESSAGE_CHARS, MAX_TOPICS = 500, 5
#: Acceptance threshold: for a yes, the mean of similarity and confidence; for a no, the confidence.
MIN_ACCEPTANCE: Final = 0.5
_MAX_QUESTION_TOKENS: Final = 200


def ask_membership(
    prompt: RoutedPrompt,
    routing: Routing,
    candidate: Thread,
    instructions: Prompts,
    language: str,
    *,
    seconds: float | None = None,
) -> RequestGenerator[Routing]:
    """Ask a model about a borderline prompt; return the routing, no longer borderline if the model is confident.

    It is asked if the rules are unsure. A confident yes puts the prompt there. A confident no removes it if the
    rules had put it there, and otherwise changes nothing: an answer about one thread says nothing about another. An
    unsure answer leaves the decision of the rules, still open.

    Args:
        routing: the decision of the rules, including the comparison with `candidate`.
        candidate: the thread of `routing.candidates[0]`.
        seconds: how long each answer is of use.

    Raises:
        Unreadable: the model's answer cannot be read; the decision of the rules stands.
    """
    best = next(compared for compared in routing.candidates if compared.thread_id == candidate.id)
    question = {
        "message": prompt.text[:MAX_MESSAGE_CHARS],
        "topics": list(prompt.topics[:MAX_TOPICS]),
        "thread": {
            "title": candidate.title,
            "topics": list(candidate.topics[:MAX_TOPICS]),
            "summary": candidate.summary[:MAX_SUMMARY_CHARS],
        },
    }
    answer, model = yield from ask_model(
        "thread", wrap_json("case", question), RelatedShape, partial(read_answer, RelatedShape),
        prompts=instructions, language=language, most_tokens=_MAX_QUESTION_TOKENS, seconds=seconds,
    )  # fmt: skip
    return _apply_answer(routing, best, answer, f"{model.provider}/{model.model}")


def _apply_answer(routing: Routing, best: ThreadCandidate, answer: RelatedShape, model: str) -> Routing:
    confidence = (best.similarity + answer.confidence) / 2
    figures = f"({answer.confidence:.2f}), similarity {best.similarity:.2f}."
    if answer.related and confidence >= MIN_ACCEPTANCE:
        return replace(
            routing,
            action="continue" if best.state == "active" else "reactivate",
            thread_id=best.thread_id,
            parent=None,
            similarity=confidence,
            reason=f"A model says it belongs {figures}",
            borderline=False,
            model=model,
        )
    if answer.related or answer.confidence < MIN_ACCEPTANCE:
        return replace(routing, reason=f"A model was asked and is not sure {figures}", model=model)
    sure = replace(routing, reason=f"A model says it does not belong {figures}", borderline=False, model=model)
    if routing.thread_id != best.thread_id:
        return sure
    session_candidate = next((compared for compared in routing.candidates if compared.own), None)
    parent = session_candidate.thread_id if session_candidate else None
    return replace(sure, action="fork" if session_candidate else "new", thread_id=None, parent=parent)


# Asking a model where the work stands.

_MAX_STATE_POINTS: Final = 3
_MAX_SYNTHESIS_TOKENS: Final = 800
_LISTS: Final = ("state", "decisions", "questions")


def correct_synthesis(
    turns: Sequence[Turn], by_rules: Synthesis, instructions: Prompts, language: str
) -> RequestGenerator[Synthesis]:
    """Return the synthesis as corrected by a model.

    A model judges better than the rules which sentences matter, but it cannot write any: it selects sentences
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
    answer, model = yield from ask_model(
        "synthesise", render_turns(shown), StandingShape, lambda answer: with_lists(answer, *_LISTS),
        prompts=instructions, language=language, most_tokens=_MAX_SYNTHESIS_TOKENS,
    )  # fmt: skip
    seen = {turn.id for turn in shown}
    state = _selected_points(answer, "state", shown, least=TRUST_AGENT)
    decisions = _selected_points(answer, "decisions", shown, least=TRUST_PROMPT)
    questions = _selected_points(answer, "questions", shown, least=TRUST_AGENT)
    return replace(
        by_rules,
        state=tuple(state[:_MAX_STATE_POINTS]) or by_rules.state,
        decisions=_latest_first(decisions, by_rules.decisions, seen)[:MAX_DECISIONS],
        questions=_latest_first(questions, by_rules.questions, seen)[:MAX_QUESTIONS],
        made_by=f"{model.provider}/{model.model}",
    )


def _selected_points(answer: Mapping[str, Any], name: str, turns: Sequence[Turn], *, least: int) -> list[Point]:
    chosen, _ = read_items(ChosenQuote, answer, name)
    return [point for quote in chosen if (point := _find_quote(quote, turns, least))]


def _find_quote(chosen: ChosenQuote, turns: Sequence[Turn], least: int) -> Point | None:
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
    memories = {point.turn_id: point.memory_id for point in by_rules if point.memory_id}
    chosen_points = [replace(point, memory_id=memories.get(point.turn_id, "")) for point in chosen]
    unseen = [point for point in by_rules if point.turn_id not in seen]
    by_text = {point.text: point for point in [*chosen_points, *unseen]}
    return tuple(sorted(by_text.values(), key=lambda point: point.turn_id, reverse=True))
