"""Thread names and thread lifecycle: topics, titles, state transitions, weight, sweeps, and replay.

- `subjects` and `name` derive topics, title and summary from prompts by rules; `naming` asks a model (EXT-9, THR-9).
- `moved` applies a state transition, `weight_at` the decay; `sweep` lists the transitions that are due.
- `as_it_was` replays the state of a thread at an earlier moment.

Pure: no database, no file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from filrouge.capture.models import Turn
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Prompts
from filrouge.extraction import reading
from filrouge.extraction.model_answers import RequestGenerator, ask_and_parse, quoted
from filrouge.extraction.models import NameShape, read_item, schema_of
from filrouge.extraction.summaries import GENERIC_TOPICS, LONGEST_TITLE, clean_topics, concepts, title_of, without_label
from filrouge.extraction.vocabulary import fold, tokens
from filrouge.providers.models import CompletionRequest
from filrouge.threads.assignment import roots
from filrouge.threads.models import Thread, ThreadState, TitleBy


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
        title = title or (subjects[0] if subjects else " ".join(prompts[0].text.split())[:LONGEST_TITLE])
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
        yield f"{title[: max(0, LONGEST_TITLE - len(mark) - 3)].rstrip()} · {mark}"
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
        if len(" ".join([*taken, topic]).split()) <= _MOST_WORDS and len(", ".join([*taken, topic])) < LONGEST_TITLE:
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
    ask = CompletionRequest(
        operation="title",
        prompt=texts("title", language),
        text=quoted("thread", json.dumps(shown, ensure_ascii=False, indent=1)),
        schema=schema_of(NameShape),
        most_tokens=_TOKENS,
    )
    answer, _ = yield from ask_and_parse(ask, texts("repair", language), _read)
    title = " ".join(answer.title.split())[:LONGEST_TITLE].strip(" .\"'“”«»")
    if not _is_subject(title) or not _is_of(title, prompts):
        return former
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


def _is_of(title: str, prompts: Sequence[Turn]) -> bool:
    """Return True if the title shares a word with the prompts; a title that the model made up is rejected."""
    return _names(title, [turn.text for turn in prompts])


def _read(answer: Mapping[str, Any]) -> NameShape:
    found = read_item(NameShape, answer)
    if isinstance(found, str):
        raise ValueError(found)
    return found


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
