"""Manual changes to memories: what a user or an agent states directly, pins, bins, restores or corrects.

`run_change` runs a change and updates the data derived from memories. When a memory becomes live again, its vectors are
put back into the vector index, or queued if the current space never had them. The full-text index needs no update,
because it holds memories in every state (except session summaries, which it never holds).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.events import Event, EventKind
from filrouge.capture.intake import clean_event, turns_from_event
from filrouge.capture.models import TRUST_AGENT, TRUST_TYPED, Turn
from filrouge.capture.repository import Events
from filrouge.context.hook_files import write_briefs
from filrouge.core.clock import Clock, new_id
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx, Vectors
from filrouge.core.scope import Scope, ScopeName
from filrouge.extraction.heuristics import extract
from filrouge.extraction.sentences import require_no_secret
from filrouge.extraction.understanding import (
    Reading,
    apply_reading,
    embed_inline,
    embed_statements,
    group_of,
    update_index,
)
from filrouge.memories.models import COLLEAGUE, Conflict, Memory, Span, Statement
from filrouge.memories.repository import Action, Origin, UserChanges
from filrouge.projects.repository import Projects, project_names
from filrouge.runtime.services import Parts
from filrouge.search.repository import Spaces, StoredVectors
from filrouge.search.spaces import queue_vectors, store_or_queue_vectors

T = TypeVar("T")
#: Maximum length in characters: a memory is one statement. `remember` accepts whole documents.
MAX_MEMORY_CHARS = 2000
#: What can be done with several memories in one step, and with how many.
SelectionAction = Literal["bin", "pin", "unpin", "restore"]
MAX_SELECTED: Final = 500


class Replacement(Struct, frozen=True, kw_only=True):
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
        changes = UserChanges(tx, parts.analyser)
        return (changes.pin if pinned else changes.unpin)(memory_id, user_origin(parts.clock)), (), ()

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
        lambda tx: (parts.memories(tx).bin(memory_id, user_origin(parts.clock), reason), (), (memory_id,)),
    )


def restore(parts: Parts, memory_id: str) -> Action:
    """Make a binned or superseded memory live again.

    Raises:
        NotFound: no memory has this id.
        BadInput: it is live, or waits for review; or another live memory is a version of it or holds its key.
    """
    return run_change(
        parts,
        lambda tx: (UserChanges(tx, parts.analyser).restore(memory_id, user_origin(parts.clock)), (memory_id,), ()),
    )


def change_selection(parts: Parts, memory_ids: Sequence[str], action: SelectionAction) -> list[Action]:
    """Apply one change to several memories, all or none.

    Returns:
        The decisions. A memory that is pinned already, or already not pinned, needs none.

    Raises:
        NotFound: no memory has one of these ids.
        BadInput: the change does not fit the state of one of them.
    """
    ids = list(dict.fromkeys(memory_ids))

    def write(tx: Tx) -> tuple[list[Action], Collection[str], Collection[str]]:
        changes, memories, origin = UserChanges(tx, parts.analyser), parts.memories(tx), user_origin(parts.clock)
        if action == "bin":
            return [memories.bin(id_, origin, "by hand") for id_ in ids], (), ids
        if action == "restore":
            return [changes.restore(id_, origin) for id_ in ids], ids, ()
        pinned_before = {id_ for id_, memory in memories.some(ids).items() if memory.pinned}
        pin_or_unpin, unchanged = (
            (changes.pin, pinned_before) if action == "pin" else (changes.unpin, set(ids) - pinned_before)
        )
        actions = [pin_or_unpin(id_, origin) for id_ in ids]
        return [one for one in actions if one.memory_id not in unchanged], (), ()

    return run_change(parts, write)


def supersede(parts: Parts, memory_id: str, text: str, *, source: str = "") -> Replacement:
    """Replace the text of a live memory, pinned or not; kind, scope, subject and key are kept.

    Args:
        source: where the request came from, for the journal.

    Raises:
        NotFound: no memory has this id.
        BadInput: the text is empty, too long, holds a secret or is unchanged; or the memory is not live.
    """
    redacted = require_no_secret(parts.redact(text.strip()))
    if not redacted:
        raise BadInput("The new text is empty.")
    if len(redacted) > MAX_MEMORY_CHARS:
        raise BadInput(f"The text has {len(redacted)} characters; a memory has at most {MAX_MEMORY_CHARS}.")
    vector_search = parts.vectors
    old = parts.readers.here(lambda tx: parts.memories(tx).get(memory_id))
    statement = with_text(old, redacted)
    require_no_secret(parts.redact(statement.text))
    [memory_vectors] = embed_inline(vector_search, [statement.text])
    reason = f"superseded by hand ({source})" if source else "superseded by hand"

    def write(tx: Tx) -> tuple[Action, Collection[str], Collection[str]]:
        origin = user_origin(parts.clock)
        # What the user says against a colleague is not said under the colleague's name.
        scope = replace(origin.scope, project=old.scope.project) if old.made_by == COLLEAGUE else old.scope
        action = parts.memories(tx).supersede(memory_id, statement, replace(origin, scope=scope), reason)
        store_or_queue_vectors(tx, vector_search, "memory", action.memory_id, memory_vectors, origin.at)
        return action, (), action.closed

    action = run_change(parts, write)
    update_index(parts, vector_search, [(action, memory_vectors)])
    return Replacement(old_id=memory_id, new_id=action.memory_id, previous_text=old.text)


def user_origin(clock: Clock) -> Origin:
    """Return the origin of a change that the user makes by hand now."""
    return Origin(scope=Scope(channel="api"), trust=TRUST_TYPED, at=clock.now(), made_by="user", actor="user")


def run_change(parts: Parts, write: Callable[[Tx], tuple[T, Collection[str], Collection[str]]]) -> T:
    """Run a change and update indexes, briefs and queues.

    Args:
        write: the change; it returns its result, the ids of memories that became live, and the ids of those that ended.
    """

    def write_and_queue(tx: Tx) -> tuple[T, Collection[str], Collection[str]]:
        answer, revived, ended = write(tx)
        current = Spaces(tx).current()
        stored = StoredVectors(tx).some("memory", revived, current.id) if current else {}
        for id_ in set(revived) - stored.keys():
            queue_vectors(tx, "memory", id_, parts.clock.now())
        return answer, revived, ended

    answer, revived, ended = parts.writer.run(write_and_queue)
    for id_ in ended:
        parts.vectors.memory_index.remove(id_)
    if revived:
        parts.readers.here(lambda tx: _index_live(parts, tx, revived))
    write_briefs(parts, None, everywhere=True)
    parts.work_waiting.set()
    return answer


def _index_live(parts: Parts, tx: Tx, revived: Collection[str]) -> None:
    vector_search, live = parts.vectors, parts.memories(tx).some(list(revived))
    for id_, windows in StoredVectors(tx).some("memory", revived, vector_search.space.id).items():
        number = StoredVectors(tx).number("memory", id_)
        if number is not None and live[id_].state == "live":
            vector_search.memory_index.put(id_, number, group_of(live[id_]), windows)


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


# Statements made directly to Filrouge, by the user or by an agent through its tools.
#
# - `remember` stores what the user says, processed like captured text: a turn of the highest trust, statements with
#   evidence, and a decision on each. `remember_many` and `put_fact` store statements of the user as they are, with the
#   highest trust, but without a turn, evidence or a decision.
# - `add_for_agent` and `correct_for_agent` store what an agent says, with an agent's trust. Agents repeat what they
#   read, so their statements could be a way to plant a memory. They become facts of the project, never rules or
#   preferences of the user. They end nothing that the user said or pinned: a contradiction waits for the user's
#   review. An agent may correct what an agent said.


def manual_event(clock: Clock, kind: EventKind, text: str, *, names: Sequence[str], host: str, key: str = "") -> Event:
    """Build the event of a text, outside any session, dated now.

    Args:
        names: names of its project, strongest first; empty = outside all projects.
        host: the program through which it came.
        key: of the event; a second event with the same key is not stored. Empty = none.
    """
    now = clock.now()
    return Event(
        id=new_id(now),
        host=host,
        kind=kind,
        session="",
        at=now.timestamp(),
        key=key,
        cwd="",
        project=tuple(names),
        transcript="",
        agent="",
        data={"text": text},
    )


# Statements of agents.

#: The actor in the journal.
AGENT: Final = "agent"
DUPLICATE_REQUEST: Final = "duplicate request"


def add_for_agent(
    parts: Parts, text: str, *, names: Sequence[str], host: str, idempotency_key: str = ""
) -> list[Action]:
    """Store a statement of an agent; return the resulting actions.

    Args:
        names: names of its project; empty = outside all projects.
        host: the program through which it came.
        idempotency_key: a second call with the same key stores nothing; empty = none.

    Raises:
        BadInput: the text is empty, too long, or holds a secret.
        NotFound: a single plain project name was given, and no project has it.
    """
    if len(text) > MAX_MEMORY_CHARS:
        raise BadInput(f"The text has {len(text)} characters; a memory has at most {MAX_MEMORY_CHARS}.")
    all_names = parts.readers.here(lambda tx: project_names(tx, names))
    event_key = f"once:{idempotency_key}" if idempotency_key else ""
    event = clean_event(
        manual_event(parts.clock, "reply", text, names=all_names, host=host, key=event_key), parts.redact
    )
    turns = turns_from_event(event, "")
    if not turns:
        raise BadInput("There is nothing to remember: the text is empty.", remedy="Give one plain statement.")
    turn = turns[0]
    require_no_secret(turn.text)
    statement = Statement(kind="fact", text=turn.text.strip(), span=Span(start=0, end=len(turn.text)))
    reading = embed_statements(parts, [(turn, (statement,))])[0]
    done = parts.writer.run(lambda tx: _store_from_agent(parts, tx, event, reading))
    update_index(parts, reading.vectors, done)
    write_briefs(parts, None, everywhere=True)
    parts.work_waiting.set()
    return [action for action, _ in done]


def correct_for_agent(parts: Parts, memory_id: str, text: str) -> Action:
    """Replace the text of a memory on behalf of an agent; if it is the user's memory, a review is opened instead.

    Raises:
        NotFound: no memory has this id.
        BadInput: the text is empty, too long, holds a secret or is unchanged; or the memory is not live.
    """
    redacted = require_no_secret(parts.redact(text.strip()))
    if not redacted:
        raise BadInput("The new text is empty.", remedy="Give one plain statement.")
    if len(redacted) > MAX_MEMORY_CHARS:
        raise BadInput(f"The text has {len(redacted)} characters; a memory has at most {MAX_MEMORY_CHARS}.")
    vector_search = parts.vectors
    old = parts.readers.here(lambda tx: parts.memories(tx).get(memory_id))
    statement = with_text(old, redacted)
    [memory_vectors] = embed_inline(vector_search, [statement.text])

    def write(tx: Tx) -> tuple[Action, Collection[str], Collection[str]]:
        store, origin = parts.memories(tx), _agent_origin(parts.clock, old.scope)
        current = store.get(memory_id)
        if current.state == "live" and current.text != statement.text and is_user_owned(current):
            conflict = Conflict(statement=statement, existing_id=memory_id, reason="an agent proposed a correction")
            return store.apply(conflict, origin), (), ()
        action = store.supersede(memory_id, statement, origin, "corrected by an agent")
        store_or_queue_vectors(tx, vector_search, "memory", action.memory_id, memory_vectors, origin.at)
        return action, (), action.closed

    action = run_change(parts, write)
    update_index(parts, vector_search, [(action, memory_vectors)])
    return action


def is_user_owned(memory: Memory) -> bool:
    """Return whether only the user may change a memory: the user said or pinned it, or it is a rule or preference."""
    return memory.trust > TRUST_AGENT or memory.pinned or memory.kind in ("rule", "preference")


def _agent_origin(clock: Clock, scope: Scope) -> Origin:
    return Origin(scope=scope, trust=TRUST_AGENT, at=clock.now(), made_by=AGENT, actor=AGENT)


def _store_from_agent(parts: Parts, tx: Tx, event: Event, reading: Reading) -> list[tuple[Action, Vectors | None]]:
    project = Events(tx).add(event, received_at=parts.clock.now())
    if project is None:
        return [(Action(name="noop", memory_id="", reason=DUPLICATE_REQUEST), None)]
    turn = replace(reading.turn, scope=replace(reading.turn.scope, project=project or None))
    if parts.turns(tx).add(turn):
        queue_vectors(tx, "turn", turn.id, parts.clock.now())
    Events(tx).settle(event.id, "done")
    return apply_reading(parts, tx, replace(reading, turn=turn))


# Statements of the user. If nothing is recognised in a text, the whole text becomes one statement, because the user
# asked for it to be kept.

#: Maximum length in characters: a long note, or a whole reference document.
MAX_DOCUMENT_CHARS = 200_000
#: Words that may stay uncovered: an opening such as "By the way, for the record:" is not part of a statement.
_MAX_UNCOVERED_WORDS = 4


def remember(
    parts: Parts, text: str, *, names: Sequence[str], scope: ScopeName | None, host: str, branch: str = ""
) -> list[Action]:
    """Store what the user said; return the resulting actions.

    Args:
        branch: the git branch that was checked out.

    Raises:
        BadInput: the text is empty, too long, or holds a secret.
    """
    if not text.strip():
        raise BadInput("There is nothing to remember: the text is empty.")
    if len(text) > MAX_DOCUMENT_CHARS:
        raise BadInput(f"The text has {len(text)} characters; at most {MAX_DOCUMENT_CHARS} can be remembered at once.")
    all_names = parts.readers.here(lambda tx: project_names(tx, names))
    event = manual_event(parts.clock, "note", text, names=all_names, host=host)._replace(branch=branch)
    event = clean_event(event, parts.redact)
    turn = turns_from_event(event, "")[0]
    require_no_secret(turn.text)
    reading = _read_user_text(parts, turn, scope)
    done = parts.writer.run(lambda tx: _store_from_user(parts, tx, event, reading))
    update_index(parts, reading.vectors, done)
    write_briefs(parts, None, everywhere=True)
    parts.work_waiting.set()
    return [action for action, _ in done]


def remember_many(parts: Parts, texts: Sequence[str], *, names: Sequence[str], scope: ScopeName) -> int:
    """Store many statements without deciding on them; return how many. Vectors follow in the background.

    Raises:
        BadInput: one of them holds a secret; none is stored.
    """
    redacted = [require_no_secret(parts.redact(text)) for text in texts]

    def write(tx: Tx) -> int:
        now = parts.clock.now()
        project = Projects(tx).resolve(project_names(tx, names), at=now)
        origin = Origin(scope=Scope(project=project, channel="api"), trust=TRUST_TYPED, at=now, actor="user")
        for text in redacted:
            statement = Statement(kind="fact", text=text, span=Span(start=0, end=0), scope=scope)
            action = parts.memories(tx).add(statement, origin, "imported in bulk")
            queue_vectors(tx, "memory", action.memory_id, now)
        return len(redacted)

    count = parts.writer.run(write)
    parts.work_waiting.set()
    return count


def put_fact(parts: Parts, key: str, value: str, *, names: Sequence[str], scope: ScopeName) -> Action:
    """Set a core fact; its former value is superseded.

    Raises:
        BadInput: key or value is empty, or the value is a secret.
    """
    if not key.strip() or not value.strip():
        raise BadInput("A fact needs a key and a value.")
    text = require_no_secret(parts.redact(f"{key}: {value}"))
    statement = Statement(kind="fact", text=text, span=Span(start=0, end=0), scope=scope, key=key, value=value)
    vector_search = parts.vectors
    [memory_vectors] = embed_inline(vector_search, [statement.text])

    def write(tx: Tx) -> Action:
        now = parts.clock.now()
        project = Projects(tx).resolve(project_names(tx, names), at=now)
        origin = Origin(scope=Scope(project=project, channel="api"), trust=TRUST_TYPED, at=now, actor="user")
        action = parts.memories(tx).put_core_fact(statement, origin)
        store_or_queue_vectors(tx, vector_search, "memory", action.memory_id, memory_vectors, now)
        return action

    action = parts.writer.run(write)
    update_index(parts, vector_search, [(action, memory_vectors)])
    parts.work_waiting.set()
    return action


def _read_user_text(parts: Parts, turn: Turn, scope: ScopeName | None) -> Reading:
    extracted = _statements_covering(turn.text, extract(turn))
    statements = tuple(replace(statement, scope=scope) if scope else statement for statement in extracted)
    return embed_statements(parts, [(turn, statements)])[0]


def _statements_covering(text: str, extracted: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Return the extracted statements if they cover the text; otherwise one statement with the whole text."""
    covered = "".join(text[statement.span.start : statement.span.end] for statement in extracted)
    if extracted and len(text.split()) - len(covered.split()) <= _MAX_UNCOVERED_WORDS:
        return extracted
    span = Span(start=0, end=len(text))
    if not extracted:
        return (Statement(kind="fact", text=text.strip(), span=span, confidence=1.0),)
    corrects = tuple(dict.fromkeys(old for statement in extracted for old in statement.corrects))
    is_correction = any(statement.is_correction for statement in extracted)
    first = replace(extracted[0], text=text.strip(), span=span, key=None, value=None)
    return (replace(first, corrects=corrects, is_correction=is_correction),)


def _store_from_user(parts: Parts, tx: Tx, event: Event, reading: Reading) -> list[tuple[Action, Vectors | None]]:
    project = Events(tx).add(event, received_at=parts.clock.now()) or ""
    turn = replace(reading.turn, scope=replace(reading.turn.scope, project=project or None))
    if parts.turns(tx).add(turn):
        queue_vectors(tx, "turn", turn.id, parts.clock.now())
    Events(tx).settle(event.id, "done")
    return apply_reading(parts, tx, replace(reading, turn=turn))
