"""Manual changes to memories, and the updates that follow from them.

Pin, bin, restore and supersede for the user, and `run_change`, which runs any change and updates the derived data.
When a memory becomes live again, its vectors are put back into the vector index, or queued if the current space never
had them. The full-text index needs no update, because it holds memories in every state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TypeVar

from filrouge.capture.models import TRUST_TYPED
from filrouge.context.hook_files import write_briefs
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx
from filrouge.core.scope import Scope
from filrouge.extraction.sentences import without_secret
from filrouge.extraction.understanding import group_of, update_index, vectors_at_once
from filrouge.memories.models import Memory, Span, Statement
from filrouge.memories.repository import Action, Origin, UserChanges
from filrouge.runtime.services import Parts
from filrouge.search.spaces import queue_vectors, store_or_queue_vectors
from filrouge.search.vector_repository import Spaces, StoredVectors

T = TypeVar("T")
#: Maximum length in characters: a memory is one statement. `remember` accepts whole documents.
MAX_MEMORY_CHARS = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Superseded:
    """The former text of a memory, and the ids of the old and the new memory."""

    old_id: str
    new_id: str
    previous_text: str


def pin(parts: Parts, memory_id: str, *, pinned: bool) -> Action:
    """Pin a live memory, so that only the user can change it, or unpin it.

    Raises:
        NotFound: no memory has this id.
        BadInput: it is not live.
    """

    def write(tx: Tx) -> tuple[Action, Collection[str], Collection[str]]:
        hand = UserChanges(tx, parts.analyser)
        return (hand.pin if pinned else hand.unpin)(memory_id, user_origin(parts)), (), ()

    return run_change(parts, write)


def bin_memory(parts: Parts, memory_id: str, *, source: str = "") -> Action:
    """Move a live memory to the bin.

    Args:
        source: where the request came from, for the journal.

    Raises:
        NotFound: no memory has this id.
        BadInput: it is not live.
    """
    reason = f"by hand ({source})" if source else "by hand"
    return run_change(
        parts,
        lambda tx: (parts.memories(tx).bin(memory_id, user_origin(parts), reason), (), (memory_id,)),
    )


def restore(parts: Parts, memory_id: str) -> Action:
    """Make a binned or superseded memory live again.

    Raises:
        NotFound: no memory has this id.
        BadInput: it is live, or waits for review; or another live memory is a version of it or holds its key.
    """
    return run_change(
        parts, lambda tx: (UserChanges(tx, parts.analyser).restore(memory_id, user_origin(parts)), (memory_id,), ())
    )


def supersede(parts: Parts, memory_id: str, text: str, *, source: str = "") -> Superseded:
    """Replace the text of a live memory, pinned or not; kind, scope, subject and key are kept.

    Args:
        source: where the request came from, for the journal.

    Raises:
        NotFound: no memory has this id.
        BadInput: the text is empty, too long, holds a secret or is unchanged; or the memory is not live.
    """
    said = without_secret(parts.redact(text.strip()))
    if not said:
        raise BadInput("The new text is empty.")
    if len(said) > MAX_MEMORY_CHARS:
        raise BadInput(f"The text has {len(said)} characters; a memory has at most {MAX_MEMORY_CHARS}.")
    meaning = parts.meaning
    old = parts.readers.here(lambda tx: parts.memories(tx).get(memory_id))
    statement = with_text(old, said)
    without_secret(parts.redact(statement.text))
    [vectors] = vectors_at_once(meaning, [statement.text])
    reason = f"superseded by hand ({source})" if source else "superseded by hand"

    def write(tx: Tx) -> tuple[Action, Collection[str], Collection[str]]:
        origin = replace(user_origin(parts), scope=old.scope)
        action = parts.memories(tx).supersede(memory_id, statement, origin, reason)
        store_or_queue_vectors(tx, meaning, "memory", action.memory_id, vectors, origin.at)
        return action, (), action.closed

    action = run_change(parts, write)
    update_index(parts, meaning, [(action, vectors)])
    return Superseded(old_id=memory_id, new_id=action.memory_id, previous_text=old.text)


def user_origin(parts: Parts) -> Origin:
    """Return the origin of a change that the user makes by hand now."""
    return Origin(scope=Scope(channel="api"), trust=TRUST_TYPED, at=parts.clock.now(), made_by="user", actor="user")


def run_change(parts: Parts, write: Callable[[Tx], tuple[T, Collection[str], Collection[str]]]) -> T:
    """Run a change and update indexes, briefs and queues.

    Args:
        write: the change; it returns its result, the ids of memories that became live, and the ids of those that ended.
    """

    def within(tx: Tx) -> tuple[T, Collection[str], Collection[str]]:
        answer, begun, ended = write(tx)
        current = Spaces(tx).current()
        stored = StoredVectors(tx).some("memory", begun, current.id) if current else {}
        for id_ in set(begun) - stored.keys():
            queue_vectors(tx, "memory", id_, parts.clock.now())
        return answer, begun, ended

    answer, begun, ended = parts.writer.run(within)
    for id_ in ended:
        parts.meaning.memory_index.remove(id_)
    if begun:
        parts.readers.here(lambda tx: _index_live(parts, tx, begun))
    write_briefs(parts, None, everywhere=True)
    parts.work_waiting.set()
    return answer


def _index_live(parts: Parts, tx: Tx, begun: Collection[str]) -> None:
    meaning, live = parts.meaning, parts.memories(tx).some(list(begun))
    for id_, vectors in StoredVectors(tx).some("memory", begun, meaning.space.id).items():
        number = StoredVectors(tx).number("memory", id_)
        if number is not None and live[id_].state == "live":
            meaning.memory_index.put(id_, number, group_of(live[id_]), vectors)


def with_text(old: Memory, text: str) -> Statement:
    """Return the statement of a memory with another text."""
    return Statement(
        kind=old.kind,
        text=f"{old.key}: {text}" if old.key and old.value is not None else text,
        span=Span(start=0, end=0),
        scope=old.scope_name,
        subject=old.subject,
        key=old.key,
        value=text if old.key and old.value is not None else old.value,
        confidence=1.0,
        sentiment=old.sentiment,
        timeframe=old.timeframe,
    )
