"""Manual changes to threads: rename, archive, reopen, merge, split, and move turns between threads.

Each change is written to the journal, without text of any turn, and persists: a title set by hand is not changed, and a
turn moved by hand is not moved back. Each operation has an inverse: archive and reopen, merge and split, move and move.

`move_turns`, `transfer_turns` and `merge_thread_into` are shared with the background jobs (`threads.placing`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from msgspec.structs import replace

from filrouge.capture.models import Turn
from filrouge.core.clock import new_id
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts, StoreContext
from filrouge.threads.bridge_service import follow_merge, queue_bridges
from filrouge.threads.models import Routing, Thread
from filrouge.threads.reports import get_thread_detail, turn_of
from filrouge.threads.repository import Syntheses, ThreadDecisions, Threads, ThreadVectors
from filrouge.threads.synthesis_service import queue_synthesis
from filrouge.threads.upkeep import (
    ThreadSettings,
    apply_act,
    current_thread,
    is_routed,
    queue_better_name,
    refresh_names_and_vectors,
)

# Moving turns. The threads on both ends need new names and vectors; bridges and syntheses follow. A thread that loses
# its last prompt is merged into the thread that took it.


def move_turns(
    parts: StoreContext, tx: Tx, turn_ids: Collection[str], target: Thread, at: datetime, space_id: str
) -> None:
    """Move turns, and the turns that follow the prompts among them, into a thread that was not merged.

    The threads on both ends get new names and vectors in the same transaction.

    Args:
        turn_ids: each in a thread of the same user and project as the target.
    """
    before = Threads(tx).prompt_count(target.id)
    *_, renamed = refresh_names_and_vectors(parts, tx, transfer_turns(parts, tx, turn_ids, target, at), space_id)
    queue_better_name(parts, tx, renamed, before=before, after=Threads(tx).prompt_count(target.id))


def transfer_turns(
    parts: StoreContext, tx: Tx, turn_ids: Collection[str], target: Thread, at: datetime
) -> list[Thread]:
    """Do as `move_turns`, but return the changed threads, whose names and vectors are still the old ones."""
    threads = Threads(tx)
    former = [id_ for id_ in dict.fromkeys(threads.of_turns(turn_ids).values()) if id_ != target.id]
    sources = threads.some(former)
    threads.move(threads.with_following_turns(turn_ids), target.id)
    target = apply_act(target, "use" if target.state == "active" else "reactivate", at)
    left = list[Thread]()
    for source in sources:
        if threads.turns(source.id, routed=True, limit=1):
            left.append(source)
            queue_bridges(parts, tx, source.id)
            _remake_syntheses(parts, tx, turn_ids)
        else:
            target = merge_thread_into(parts, tx, source, target, at)
    threads.update(target)
    queue_bridges(parts, tx, target.id)
    return [*left, target]


def _remake_syntheses(parts: StoreContext, tx: Tx, turn_ids: Collection[str]) -> None:
    """Delete the syntheses of these turns' sessions, and queue new ones for the threads as they are now."""
    syntheses = Syntheses(tx)
    sessions = syntheses.sessions(turn_ids)
    syntheses.forget(turn_ids)
    for session in sessions:
        queue_synthesis(parts, tx, session, "quiet")


def merge_thread_into(parts: StoreContext, tx: Tx, source: Thread, target: Thread, at: datetime) -> Thread:
    """Merge one thread into another: move all its turns, and archive it with a reference to the other.

    Returns:
        The other thread, with its old name and vector.

    Raises:
        BadInput: one of them was merged before.
    """
    threads = Threads(tx)
    follow_merge(parts.clock, tx, merged=source.id, into=target.id)
    queue_bridges(parts, tx, target.id)
    Syntheses(tx).reassign(source.id, target.id)
    threads.move(threads.turns(source.id), target.id)
    emptied = apply_act(source, "merge", at)
    threads.update(replace(emptied, merged_into=target.id, summary="", topics=(), drifts=()))
    ThreadVectors(tx).drop([source.id])
    drifts = sorted([*target.drifts, *source.drifts], key=lambda drift: drift.at)
    parent = None if target.parent == source.id else target.parent
    merged = apply_act(target, "use" if target.state == "active" else "reactivate", max(at, source.last_active))
    return replace(merged, drifts=tuple(drift for drift in drifts if drift.became != target.id), parent=parent)


# Operations of the user.

MAX_USER_TITLE_CHARS: Final = 120


def rename(parts: Parts, name: str, title: str) -> dict[str, Any]:
    """Set the title of a thread; it is not changed automatically afterwards.

    Raises:
        BadInput: the title is empty or too long, or another thread of the scope has it.
    """
    new_title = " ".join(parts.redact(title).split())
    if not new_title or len(new_title) > MAX_USER_TITLE_CHARS:
        raise BadInput(f"A title has 1 to {MAX_USER_TITLE_CHARS} characters, not {len(new_title)}.")

    def change(tx: Tx, thread: Thread, at: datetime) -> Thread:
        scope = ThreadSettings.of(parts.settings(tx)).scope_of_thread(thread)
        for id_, other in Threads(tx).titles(scope).items():
            if id_ != thread.id and other.casefold() == new_title.casefold():
                raise BadInput(
                    f"Thread {id_} is called that.",
                    remedy=f"Choose another title, or `filrouge thread {thread.id} --merge-into {id_}`.",
                )
        _note_in_journal(tx, at, "thread_rename", thread)
        return replace(thread, title=new_title, title_by="user")

    return _change_thread(parts, name, change)


def archive(parts: Parts, name: str) -> dict[str, Any]:
    """Archive a thread.

    Raises:
        BadInput: it is archived, or was merged.
    """
    return _apply_act(parts, name, "archive")


def reopen(parts: Parts, name: str) -> dict[str, Any]:
    """Make a suspended or archived thread active.

    Raises:
        BadInput: it is active, or was merged.
    """
    return _apply_act(parts, name, "reopen")


def merge(parts: Parts, name: str, into: str) -> dict[str, Any]:
    """Merge one thread into another of the same project; return the other thread.

    Raises:
        BadInput: they are the same thread, or belong to different users or projects, or one was merged before.
    """

    def write(tx: Tx) -> str:
        threads, at = Threads(tx), parts.clock.now()
        source, target = (
            current_thread(parts, tx, threads.get_by_prefix(id_or_prefix)) for id_or_prefix in (name, into)
        )
        _check_same_project(source, target)
        if source.id == target.id:
            raise BadInput(f"Thread {source.id} cannot be merged into itself.")
        for thread in (source, target):
            _check_not_merged(thread)
        prompt_ids = [id_ for thread in (source, target) for id_ in threads.turns(thread.id, routed=True)]
        _log_moves(tx, parts.turns(tx).get(prompt_ids), target.id, at, "Merged by hand.")
        refresh_names_and_vectors(parts, tx, [merge_thread_into(parts, tx, source, target, at)], parts.vectors.space.id)
        _note_in_journal(tx, at, "thread_merge", source, target.id)
        return target.id

    return _write_and_show(parts, write)


def split(parts: Parts, name: str, turn_ids: Collection[str], title: str = "") -> dict[str, Any]:
    """Split turns of a thread, and the turns that follow them, off into a new thread; return the new thread.

    Raises:
        BadInput: no turn is named, or one is not in the thread, or one of the two threads would have no prompt.
    """

    def write(tx: Tx) -> str:
        threads, at = Threads(tx), parts.clock.now()
        thread = current_thread(parts, tx, threads.get_by_prefix(name))
        _check_not_merged(thread)
        moving = _with_followers(threads, thread.id, turn_ids)
        prompts = parts.turns(tx).get([id_ for id_ in threads.turns(thread.id, routed=True) if id_ in moving])
        if not prompts or len(prompts) == threads.prompt_count(thread.id):
            raise BadInput(
                "Both threads need a prompt.", remedy="Name some of the thread's prompts, and not all of them."
            )
        opened = replace(
            thread,
            id=new_id(at),
            title="",
            title_by="rules",
            state="active",
            suspended_at=None,
            parent=thread.id,
            drifts=(),
            weight=1.0,
            opened_at=prompts[0].at,
            last_active=at,
        )
        threads.add(opened)
        threads.move(moving, opened.id)
        _log_moves(tx, prompts, opened.id, at, "Split off by hand.", parent=thread.id)
        [_, renamed] = refresh_names_and_vectors(parts, tx, [thread, opened], parts.vectors.space.id)
        if title.strip():
            threads.update(
                replace(renamed, title=" ".join(parts.redact(title).split())[:MAX_USER_TITLE_CHARS], title_by="user")
            )
        for changed in (thread.id, opened.id):
            queue_bridges(parts, tx, changed)
        _note_in_journal(tx, at, "thread_split", thread, opened.id)
        return opened.id

    return _write_and_show(parts, write)


def move(parts: Parts, turn_ids: Collection[str], into: str) -> dict[str, Any]:
    """Move turns, and the turns that follow them, into another thread of their project; return that thread.

    A thread that loses its last prompt is merged into it.

    Raises:
        NotFound: there is no such turn.
        BadInput: a turn is in no thread yet; or the thread is of another user or project, or was merged.
    """

    def write(tx: Tx) -> str:
        threads, at = Threads(tx), parts.clock.now()
        target = current_thread(parts, tx, threads.get_by_prefix(into))
        _check_not_merged(target)
        former = threads.of_turns(turn_ids)
        for turn_id in turn_ids:
            if turn_id not in former:
                turn = turn_of(parts, tx, turn_id)
                raise BadInput(f"Turn {turn.id} is in no thread yet.", remedy="Try again once the queue is empty.")
        sources = threads.some([id_ for id_ in dict.fromkeys(former.values()) if id_ != target.id])
        for source in sources:
            _check_same_project(source, target)
        prompts = [turn for turn in parts.turns(tx).get(list(turn_ids)) if is_routed(turn)]
        for turn in prompts:
            _log_moves(tx, [turn], target.id, at, "Moved by hand.", parent=former[turn.id])
        for source in sources:
            _note_in_journal(tx, at, "thread_move", source, target.id)
        move_turns(parts, tx, turn_ids, target, at, parts.vectors.space.id)
        return target.id

    return _write_and_show(parts, write)


def _apply_act(parts: Parts, name: str, act: Literal["archive", "reopen"]) -> dict[str, Any]:
    def change(tx: Tx, thread: Thread, at: datetime) -> Thread:
        after = apply_act(thread, act, at)
        _note_in_journal(tx, at, f"thread_{act}", thread)
        return after

    return _change_thread(parts, name, change)


def _change_thread(parts: Parts, name: str, change: Callable[[Tx, Thread, datetime], Thread]) -> dict[str, Any]:
    def write(tx: Tx) -> str:
        threads = Threads(tx)
        thread = current_thread(parts, tx, threads.get_by_prefix(name))
        _check_not_merged(thread)
        threads.update(change(tx, thread, parts.clock.now()))
        return thread.id

    return _write_and_show(parts, write)


def _write_and_show(parts: Parts, write: Callable[[Tx], str]) -> dict[str, Any]:
    """Run a write, and return the details of the thread whose id it returns."""
    thread_id = parts.writer.run(write)
    return parts.readers.here(lambda tx: get_thread_detail(parts, tx, thread_id))


def _with_followers(threads: Threads, thread_id: str, turn_ids: Collection[str]) -> set[str]:
    """Return turns of a thread together with the turns that follow them."""
    former = threads.of_turns(turn_ids)
    strays = [id_ for id_ in turn_ids if former.get(id_) != thread_id]
    if strays or not turn_ids:
        what = f"Turn {strays[0]} is not in thread {thread_id}." if strays else "No turn is named."
        raise BadInput(what, remedy=f"See its turns in `filrouge thread {thread_id}`.")
    return set(threads.with_following_turns(turn_ids))


def _log_moves(
    tx: Tx, prompts: Sequence[Turn], thread_id: str, at: datetime, reason: str, parent: str | None = None
) -> None:
    routing = Routing(action="move", thread_id=thread_id, similarity=0.0, candidates=(), reason=reason, parent=parent)
    for turn in prompts:
        ThreadDecisions(tx).log(turn.id, thread_id, routing, at=at, actor="user")


def _note_in_journal(tx: Tx, at: datetime, action: str, thread: Thread, *others: str) -> None:
    payload = {"reason": "by hand", "turn": "", "state": thread.state, "threads": [thread.id, *others]}
    Journal(tx).append(at=at, actor="user", action=action, subject_id=thread.id, payload=payload, touches=others)


def _check_not_merged(thread: Thread) -> None:
    if thread.merged_into is not None:
        raise BadInput(f"Thread {thread.id} was merged.", remedy=f"Its turns are in thread {thread.merged_into}.")


def _check_same_project(first: Thread, second: Thread) -> None:
    if (first.user, first.project) != (second.user, second.project):
        raise BadInput(
            f"Threads {first.id} and {second.id} are not of one user and project.",
            remedy="Nothing is carried from one project into another.",
        )
