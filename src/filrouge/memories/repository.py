"""Memories in the database: rows, versions, evidence, reviews, manual changes, and journal entries.

- `Memories` reads memories and applies decisions (`Add`, `Update`, `Delete`, `Noop`, `Conflict`).
- `UserChanges` holds the changes that only the user makes: pin, unpin, enable, disable, restore.
- `Reviews` is the queue of statements that wait for the user.
- `Doubts` records memories that a newer one may have replaced; `Notes` lists the memory files.
- These share `MemoryWriter`, which inserts rows and writes the journal, and `StateStore`, which changes states.

The text of a memory is never overwritten. Its state is, and the journal keeps the old values. Each change writes the
memory, its evidence and a journal entry in the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from filrouge.core.clock import from_text, new_id, to_text
from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Analyser, Tx
from filrouge.core.rows import require_row
from filrouge.core.scope import Scope
from filrouge.extraction.vocabulary import detect_language
from filrouge.memories.models import (
    MIN_CONFIDENCE_INJECT,
    NO_FILTERS,
    PLAIN_FIELDS,
    SUMS,
    Add,
    Conflict,
    Decision,
    Delete,
    Evidence,
    Filters,
    Memory,
    Noop,
    Review,
    ReviewKind,
    ReviewOutcome,
    Settlement,
    Span,
    State,
    Statement,
    Update,
    plain_values,
)
from filrouge.runtime import journal
from filrouge.runtime.journal import Entry, Journal
from filrouge.search.filters import parameters_of, passes_none
from filrouge.search.repository import FullTextIndex, SearchScope

# Rows of the table `memories`, and the content that the seal (a keyed hash) covers.


_TIMES: Final = frozenset({"created_at", "valid_from", "valid_to", "last_mention", "last_used"})
_FLAGS: Final = frozenset({"pinned", "disabled"})


def memory_from_row(row: dict[str, Any]) -> Memory:
    """Build a memory from its row, without its evidence."""
    # A database that is only looked at, such as a backup, may lack the columns of later versions.
    plain = {name: _value(name, row[name]) for name in PLAIN_FIELDS if name in row}
    return Memory(**plain, scope=Scope.from_row(row), scope_name=row["scope"])


def _value(name: str, column: Any) -> Any:
    if name in _TIMES:
        return from_text(column) if column else None
    return bool(column) if name in _FLAGS else column


def row_of(memory: Memory) -> dict[str, object]:
    """Return the columns of a new memory, including its seal."""
    sealed = journal.seal(content_of(memory))
    return {
        **plain_values(memory),
        **memory.scope.row(),
        "scope": memory.scope_name,
        "project_id": memory.scope.project if memory.scope_name == "project" else None,
        "at": to_text(memory.created_at),
        "row_key": sealed.key,
        "row_hash": sealed.hash,
    }


def is_intact(row: dict[str, Any]) -> bool:
    """Return True if the row still matches its seal."""
    return journal.matches_seal(row["row_key"], row["row_hash"], content_of(memory_from_row(row)))


def _memory_row(tx: Tx, memory_id: str) -> dict[str, Any]:
    what = f"memory {memory_id!r}"
    return require_row(tx, "memories.get", {"id": memory_id}, what=what, remedy=NotFound.default_remedy)


def content_of(memory: Memory) -> dict[str, object]:
    """Return the fields that never change after creation; the seal covers these."""
    return {
        "id": memory.id,
        "kind": memory.kind,
        "text": memory.text,
        "key": memory.key,
        "value": memory.value,
        "scope": memory.scope_name,
        "project": memory.scope.project,
        "trust": memory.trust,
        "created_at": to_text(memory.created_at),
    }


# States: the mutable fields of a memory.

FieldChanges = Mapping[str, Sequence[Any]]
"""By the name of a field of `MemoryState`: its value before and after."""
ChangesByMemory = Mapping[str, FieldChanges]
"""By the id of a memory: the changes of its state in one journal entry."""


class MemoryState(Struct, frozen=True, kw_only=True):
    """The fields of a memory that decisions change. Times are in stored form (`clock.to_text`).

    The text of a memory never changes. Its state does: `state`, validity, links to the versions before and after it,
    pinned, disabled, and the outcome of its review. A journal entry stores every changed field as a pair (before,
    after), so that an undo restores exactly these fields and detects later changes. Before the decision that created
    it, a memory counts as binned with an empty validity.

    Attributes:
        superseded_by: set only in the state `superseded`.
        review: outcome of the review; None if the memory never needed one.
    """

    state: State
    valid_from: str
    valid_to: str | None = None
    supersedes: str | None = None
    superseded_by: str | None = None
    pinned: bool = False
    disabled: bool = False
    review: ReviewOutcome | None = None

    @property
    def before_creation(self) -> MemoryState:
        """Return the state as it was before the decision that created the memory."""
        review: ReviewOutcome | None = "undone" if self.review else None
        return replace(self, state="binned", valid_to=self.valid_from, superseded_by=None, review=review)


class MemoryWithState(Struct, frozen=True, kw_only=True):
    """A memory with its state."""

    memory: Memory
    state: MemoryState


def state_of(memory: Memory, review: ReviewOutcome | None = None) -> MemoryState:
    """Build the state from the fields of a memory."""
    return MemoryState(
        state=memory.state,
        valid_from=to_text(memory.valid_from),
        valid_to=to_text(memory.valid_to) if memory.valid_to else None,
        supersedes=memory.supersedes,
        superseded_by=memory.superseded_by,
        pinned=memory.pinned,
        disabled=memory.disabled,
        review=review,
    )


def difference(before: Mapping[str, MemoryState], after: Mapping[str, MemoryState]) -> ChangesByMemory:
    """Return the fields that differ between two sets of states of the same memories."""
    changes: dict[str, FieldChanges] = {}
    for id_, state in after.items():
        old, new = asdict(before[id_]), asdict(state)
        if pairs := {name: [old[name], new[name]] for name in new if old[name] != new[name]}:
            changes[id_] = pairs
    return changes


def revert(state: MemoryState, pairs: FieldChanges) -> MemoryState | None:
    """Revert these changes; return None if a field no longer has the value they set."""
    if any(getattr(state, name) != after for name, (_, after) in pairs.items()):
        return None
    values: dict[str, Any] = {name: before for name, (before, _) in pairs.items()}
    return replace(state, **values)


def changes_of_entry(entry: Entry) -> ChangesByMemory:
    """Return what a journal entry changed; an entry that only created a memory made it live."""
    if entry.payload is None:
        return {}
    creation = {"state": ["binned", "live"], "valid_to": [to_text(entry.at), None]}
    return {**({entry.subject_id: creation} if entry.payload.get("made") else {}), **entry.payload.get("changed", {})}


class StateStore:
    """Reads and writes the states of memories."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def with_versions(self, ids: Collection[str]) -> dict[str, MemoryWithState]:
        """Return these memories and all versions linked to them; unknown ids are left out."""
        rows = self._tx.all("memories.kin", {"ids": json.dumps(list(ids))})
        return {row["id"]: _memory_with_state(row) for row in rows}

    def write(self, states: Mapping[str, MemoryState], at: datetime) -> None:
        """Write states. Memories that end are written first, so that a core fact's key is free for its new holder."""
        for id_, state in sorted(states.items(), key=lambda item: item[1].state == "live"):
            row = asdict(state)
            outcome = row.pop("review")
            self._tx.run("memories.live", row | {"id": id_})
            if outcome:
                self._tx.run("reviews.settle", {"memory_id": id_, "outcome": outcome, "at": to_text(at)})
            if state.state in ("superseded", "binned"):  # an ended memory needs no review
                self._tx.run("reviews.close", {"memory_id": id_, "at": to_text(at)})

    def check(self, states: Mapping[str, MemoryState], *, versions: Mapping[str, MemoryWithState]) -> None:
        """Reject states that would leave two live versions of one memory, or two live holders of one core fact key.

        Args:
            versions: these memories and every memory that is linked to them, before or after the change.

        Raises:
            BadInput: names the memory in conflict.
        """
        after = {id_: states.get(id_, version.state) for id_, version in versions.items()}
        revived = [
            id_ for id_, state in states.items() if state.state == "live" and versions[id_].state.state != "live"
        ]
        for id_ in revived:
            others = [other for other in _linked(id_, after) - {id_} if after[other].state == "live"]
            others += self._holders(versions[id_].memory, versions, after)
            if others:
                raise BadInput(
                    f"Memory {id_} cannot be live together with {others[0]}, another version of it.",
                    remedy=f"Bin {others[0]} first, or see `filrouge history {others[0]}` for what to undo.",
                )

    def _holders(
        self, memory: Memory, versions: Mapping[str, MemoryWithState], after: Mapping[str, MemoryState]
    ) -> list[str]:
        """Return the ids of other live memories that hold the same key (for a concept, the same subject)."""
        if memory.kind == "concept":
            row = self._tx.one("memories.concept", uniqueness_columns(memory) | {"subject": memory.subject})
            is_taken = row is not None and row["state"] == "live" and row["id"] != memory.id
            return (
                [row["id"]] if row and is_taken and (row["id"] not in after or after[row["id"]].state == "live") else []
            )
        if memory.key is None:
            return []
        row = self._tx.one("memories.core_fact", uniqueness_columns(memory))
        unchanged = {row["id"]} - after.keys() if row else set[str]()
        changed = {
            id_
            for id_, state in after.items()
            if state.state == "live"
            and versions[id_].memory.key
            and uniqueness_columns(versions[id_].memory) == uniqueness_columns(memory)
        }
        return sorted((unchanged | changed) - {memory.id})


def uniqueness_columns(memory: Memory) -> dict[str, object]:
    """Return scope and key as columns; together they are unique among live core facts."""
    return {
        "scope": memory.scope_name,
        "project_id": memory.scope.project if memory.scope_name == "project" else None,
        "user_id": memory.scope.user,
        "key": memory.key,
    }


def _linked(id_: str, states: Mapping[str, MemoryState]) -> set[str]:
    """Return the ids of all memories in the same version chain."""
    links: dict[str, set[str]] = {version: set() for version in states}
    for version, state in states.items():
        for other in (state.supersedes, state.superseded_by):
            if other in links:
                links[version].add(other)
                links[other].add(version)
    linked, todo = {id_}, [id_]
    while todo:
        new = links[todo.pop()] - linked
        linked |= new
        todo += new
    return linked


def _memory_with_state(row: Mapping[str, Any]) -> MemoryWithState:
    memory = memory_from_row(dict(row))
    return MemoryWithState(memory=memory, state=state_of(memory, row["outcome"]))


# Writing: the memory row with its search index entry and evidence, and the journal entry. This part decides nothing.

ActionName = Literal[
    "add", "update", "delete", "noop", "conflict", "error", "pin", "unpin", "enable", "disable", "restore"
]


class Action(Struct, frozen=True, kw_only=True):
    """The result of a decision.

    Two names do not say what happened. A quarantined statement has the name `error`, with the id of its memory; an
    unusable decision has the same name without an id. A statement that arrived late, and was stored as history, has the
    name `noop` with the id of the later memory.

    Attributes:
        memory_id: the memory that it created or touched; empty if there is none. For `conflict`, the memory that the
            statement contradicts.
        closed: the ids of the memories that it ended.
        review: id of the review that waits for the user; empty if there is none.
        history: id of the memory that was stored as history; empty if there is none.
    """

    name: ActionName
    memory_id: str
    closed: tuple[str, ...] = ()
    reason: str = ""
    review: str = ""
    history: str = ""


class Origin(Struct, frozen=True, kw_only=True):
    """Provenance of a statement.

    Attributes:
        trust: 0 to 3; 3 is for statements that the user entered.
        at: when it was stated.
        turn_id: the turn that proves it; empty if there is none.
        made_by: the extractor, model or person that produced it.
        prompt_version: the version of the model's prompt; empty without a model.
        actor: who decided, for the journal.
    """

    scope: Scope
    trust: int
    at: datetime
    turn_id: str = ""
    made_by: str = "heuristic"
    prompt_version: str = ""
    actor: str = "understand"


class MemoryWriter:
    """Inserts memories and writes their journal entries."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self.states = StateStore(tx)
        self._tx = tx
        self._analyser = analyser
        self._words = FullTextIndex(tx, analyser, "memory")

    def insert(
        self,
        statement: Statement,
        origin: Origin,
        *,
        state: State = "live",
        predecessor: Memory | None = None,
        pinned: bool = False,
        disabled: bool = False,
    ) -> Memory:
        """Store a statement as a memory, with its search index entry and its evidence; link it to its predecessor."""
        memory = replace(
            _memory(statement, origin),
            state=state,
            supersedes=predecessor.id if predecessor else None,
            previous_text=predecessor.text if predecessor else None,
            pinned=pinned,
            disabled=disabled,
        )
        if state == "live":
            memory = self._with_free_key(memory)
        columns: dict[str, object] = {
            "state": state,
            "supersedes": memory.supersedes,
            "previous_text": memory.previous_text,
        }
        columns |= {"pinned": pinned, "disabled": disabled, "analyser": self._analyser.version}
        self._tx.run("memories.add", row_of(memory) | columns)
        if memory.kind not in SUMS:  # they repeat other rows and would distort word frequencies
            self._words.put(memory.id, f"{memory.text} {memory.subject}")
        self._cite(memory.id, statement, origin)
        return memory

    def mention(self, memory_id: str, statement: Statement, origin: Origin, reason: str) -> None:
        """Record that a memory was stated again: add one mention and the new evidence."""
        self._tx.run("memories.mention", {"id": memory_id, "at": to_text(origin.at), "by": 1})
        span = statement.span
        cited = [origin.turn_id, span.start, span.end] if self._cite(memory_id, statement, origin) else None
        payload = self.statement_payload(statement.text, reason, origin) | {"mentions": 1, "cited": cited}
        self.record(origin, "noop", memory_id, payload)

    def statement_payload(self, text: str, reason: str, origin: Origin) -> dict[str, object]:
        """Return the payload of a journal entry about a statement."""
        return {"text": text, "reason": reason, "turn": origin.turn_id}

    def record(
        self,
        origin: Origin,
        action: str,
        memory_id: str,
        payload: Mapping[str, object],
        *,
        before: Mapping[str, MemoryState] | None = None,
        after: Mapping[str, MemoryState] | None = None,
        touches: Iterable[str] = (),
    ) -> int:
        """Write a journal entry with the changed states; return its number."""
        changed = difference(before or {}, after or {})
        return Journal(self._tx).append(
            at=origin.at,
            actor=origin.actor,
            action=action,
            subject_id=memory_id,
            payload={**payload, "changed": changed} if changed else payload,
            touches=[*touches, *(after or {})],
        )

    def record_new(self, origin: Origin, action: str, memory: Memory, payload: Mapping[str, object]) -> int:
        """Write a journal entry for a decision that only created a live memory (see `changes_of_entry`)."""
        return self.record(origin, action, memory.id, {**payload, "made": True})

    def _with_free_key(self, memory: Memory) -> Memory:
        """Drop the key of a new core fact if a live memory still holds it; a key is unique."""
        if memory.key is None:
            return memory
        return replace(memory, key=None) if self._tx.one("memories.core_fact", uniqueness_columns(memory)) else memory

    def _cite(self, memory_id: str, statement: Statement, origin: Origin) -> bool:
        if not origin.turn_id:
            return False
        span = statement.span
        row = {"memory_id": memory_id, "turn_id": origin.turn_id, "start": span.start, "stop": span.end}
        return bool(self._tx.run("evidence.add", row))


def _memory(statement: Statement, origin: Origin) -> Memory:
    return Memory(
        id=new_id(origin.at),
        scope=origin.scope if statement.scope == "project" else replace(origin.scope, project=None),
        scope_name=statement.scope,
        kind=statement.kind,
        text=statement.text,
        trust=origin.trust,
        created_at=origin.at,
        valid_from=origin.at,
        subject=statement.subject,
        key=statement.key,
        value=statement.value,
        confidence=statement.confidence,
        sentiment=statement.sentiment,
        timeframe=statement.timeframe,
        made_by=origin.made_by,
        prompt_version=origin.prompt_version,
        language=detect_language([statement.text]),
    )


# Review queue.

#: Allowed settlements for each kind of review.
_ALLOWED_SETTLEMENTS: Final[Mapping[ReviewKind, Mapping[str, Settlement]]] = {
    "conflict": {"old": "old", "new": "new", "both": "both"},
    "quarantine": {"accept": "accept", "dismiss": "dismiss"},
}


class Reviews:
    """The review queue.

    It holds statements that wait for the user, who keeps the old memory, takes the new one, keeps both, or dismisses. A
    waiting statement is stored as a memory in the state `quarantined`, with its words and evidence. It is not served,
    and erasure covers it. Stating it again while it waits adds a mention. When two live memories cannot both be true
    (`contest`), both are served until the user decides.
    """

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._writer = MemoryWriter(tx, analyser)

    def get(self, memory_id: str) -> Review:
        """Return one review.

        Raises:
            NotFound: no review has this id.
        """
        what, remedy = f"review of the memory {memory_id!r}", "List the open reviews: `filrouge review`."
        return self._review(require_row(self._tx, "reviews.get", {"memory_id": memory_id}, what=what, remedy=remedy))

    def all(self, *, settled: bool = False, limit: int = 200) -> list[Review]:
        """Return the open reviews, newest first; with `settled`, the settled ones too."""
        return [self._review(row) for row in self._tx.all("reviews.all", {"all": settled, "limit": limit})]

    def hold(
        self, kind: ReviewKind, statement: Statement, origin: Origin, reason: str, *, against: Memory | None = None
    ) -> str:
        """Queue a statement for review; return the id of its memory. The same statement is not queued twice."""
        text = _folded(statement.text)
        for row in self._tx.all("reviews.waiting", _review_scope(statement, origin, against)):
            if _folded(row["text"]) == text:
                self._writer.mention(row["id"], statement, origin, reason)
                return str(row["id"])
        memory = self._writer.insert(statement, origin, state="quarantined")
        row = {"memory_id": memory.id, "kind": kind, "reason": reason, "at": to_text(origin.at)}
        self._tx.run("reviews.add", row | {"against": against.id if against else None})
        state = state_of(memory, "open")
        self._writer.record(
            origin,
            kind,
            memory.id,
            self._writer.statement_payload(memory.text, reason, origin),
            before={memory.id: state.before_creation},
            after={memory.id: state},
            touches=[against.id] if against else [],
        )
        return memory.id

    def contest(self, memory_id: str, against: str, origin: Origin, reason: str) -> bool:
        """Ask the user which of two live memories holds.

        Returns:
            False if one of them is not live, or if the first had a review before: the user is not asked twice.
        """
        versions = self._writer.states.with_versions([memory_id, against])
        live = [
            versions[id_] for id_ in (memory_id, against) if id_ in versions and versions[id_].state.state == "live"
        ]
        if len(live) < 2 or self._tx.one("reviews.get", {"memory_id": memory_id}):
            return False
        row = {"memory_id": memory_id, "kind": "conflict", "reason": reason, "at": to_text(origin.at)}
        self._tx.run("reviews.add", row | {"against": against})
        state = live[0].state
        self._writer.record(
            origin,
            "contest",
            memory_id,
            self._writer.statement_payload(live[0].memory.text, reason, origin),
            before={memory_id: replace(state, review="undone")},
            after={memory_id: replace(state, review="open")},
            touches=[against],
        )
        return True

    def settle(self, memory_id: str, how: str, origin: Origin) -> tuple[Review, dict[str, MemoryState]]:
        """Settle a review as the user decided; return the updated review and the states that changed.

        With `new`, the statement supersedes the live version of the memory it contradicts, even a pinned one, and
        inherits its pin.

        Raises:
            NotFound: no review has this id.
            BadInput: it is settled already, or `how` is not allowed for its kind.
        """
        review = self.get(memory_id)
        if review.outcome != "open":
            raise BadInput(
                f"What {memory_id} says was settled: {review.outcome}.",
                remedy=f"See `filrouge history {memory_id}`, and undo the settlement to decide again.",
            )
        settlement = _ALLOWED_SETTLEMENTS[review.kind].get(how)
        if settlement is None:
            allowed = ", ".join(_ALLOWED_SETTLEMENTS[review.kind])
            raise BadInput(f"A {review.kind} cannot be settled with {how!r}.", remedy=f"It is one of: {allowed}.")
        against = [review.against.id] if review.against else []
        versions = self._writer.states.with_versions([memory_id, *against])
        after = _settled(settlement, versions, memory_id, self._chain(against), origin)
        self._writer.states.check(after, versions=versions)
        self._writer.states.write(after, origin.at)
        payload = {"settled": settlement, "reason": f"settled: {settlement}"}
        before = {id_: versions[id_].state for id_ in after}
        self._writer.record(origin, "settle", memory_id, payload, before=before, after=after, touches=versions)
        return self.get(memory_id), after

    def _chain(self, ids: list[str]) -> dict[str, MemoryWithState]:
        return self._writer.states.with_versions(ids) if ids else {}

    def _review(self, row: Mapping[str, Any]) -> Review:
        ids = [row["memory_id"], row["against"]]
        memories = {id_: self._memory(id_) for id_ in ids if id_}
        return Review(
            memory=memories[row["memory_id"]],
            kind=row["kind"],
            against=memories.get(row["against"]),
            reason=row["reason"],
            outcome=row["outcome"],
            at=from_text(row["at"]),
            settled_at=from_text(row["settled_at"]) if row["settled_at"] else None,
        )

    def _memory(self, memory_id: str) -> Memory:
        return memory_from_row(_memory_row(self._tx, memory_id))


def _settled(
    how: Settlement,
    versions: Mapping[str, MemoryWithState],
    memory_id: str,
    chain: Mapping[str, MemoryWithState],
    origin: Origin,
) -> dict[str, MemoryState]:
    """Return the states after a settlement.

    A statement that waited becomes valid at the moment of the settlement, not when it was said. One that was live
    meanwhile keeps its start of validity.
    """
    state, now = replace(versions[memory_id].state, review=how), to_text(origin.at)
    was_waiting = state.state == "quarantined"
    if how in ("old", "dismiss"):
        return {
            memory_id: replace(
                state, state="binned", valid_to=state.valid_from if was_waiting else max(state.valid_from, now)
            )
        }
    accepted = replace(state, state="live", valid_from=now if was_waiting else state.valid_from)
    others = [version for version in chain.values() if version.state.state == "live" and version.memory.id != memory_id]
    old = next(iter(others), None) if how == "new" else None
    if old is None:
        return {memory_id: accepted}
    ended = replace(old.state, state="superseded", valid_to=max(old.state.valid_from, now), superseded_by=memory_id)
    pinned = old.state.pinned or accepted.pinned
    return {
        old.memory.id: ended,
        memory_id: replace(accepted, supersedes=accepted.supersedes or old.memory.id, pinned=pinned),
    }


def _review_scope(statement: Statement, origin: Origin, against: Memory | None) -> dict[str, object]:
    return {
        "against": against.id if against else None,
        "user_id": origin.scope.user,
        "scope": statement.scope,
        "project_id": origin.scope.project if statement.scope == "project" else None,
    }


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


# Pin, unpin, enable, disable and restore: only the user makes these changes. `Memories.supersede` and `Memories.bin`,
# which agents also use, are next to the decisions with the same effect.


class UserChanges:
    """Changes that only the user makes, by hand: pin, unpin, enable, disable, restore."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._writer = MemoryWriter(tx, analyser)

    def with_key(self, key: str) -> list[Memory]:
        """Return the live facts with this key, of the user and of all projects, without evidence."""
        return [memory_from_row(row) for row in self._tx.all("memories.with_key", {"key": key})]

    def pin(self, memory_id: str, origin: Origin) -> Action:
        """Protect a live memory from changes by anyone but the user. Pinning a pinned memory does nothing.

        Raises:
            NotFound: no memory has this id.
            BadInput: it is not live.
        """
        return self._pin(memory_id, origin, pinned=True)

    def unpin(self, memory_id: str, origin: Origin) -> Action:
        """Remove the pin of a live memory. Unpinning a memory that is not pinned does nothing.

        Raises:
            NotFound: no memory has this id.
            BadInput: it is not live.
        """
        return self._pin(memory_id, origin, pinned=False)

    def switch(self, memory_id: str, origin: Origin, *, enabled: bool) -> Action:
        """Enable or disable a live rule; a disabled rule is shown to no model. A repeated call does nothing.

        Raises:
            NotFound: no memory has this id.
            BadInput: it is not live, or is not a rule.
        """
        rule = self._with_versions(memory_id)[memory_id]
        if rule.memory.kind != "rule":
            raise BadInput(f"Memory {memory_id} is not a rule.", remedy="See `filrouge rules`.")
        if rule.state.state != "live":
            raise BadInput(f"Rule {memory_id} is {rule.state.state}, not live.", remedy="See `filrouge rules --all`.")
        action: ActionName = "enable" if enabled else "disable"
        if rule.state.disabled is enabled:
            after = {memory_id: replace(rule.state, disabled=not enabled)}
            self._change(action, memory_id, {memory_id: rule.state}, after, origin, {})
        return Action(name=action, memory_id=memory_id, reason="by hand")

    def restore(self, memory_id: str, origin: Origin) -> Action:
        """Make a binned or superseded memory live again.

        Raises:
            NotFound: no memory has this id.
            BadInput: it is live, or waits for review; or another live memory is a version of it or holds its key.
        """
        versions = self._with_versions(memory_id)
        state = versions[memory_id].state
        if state.state == "live":
            raise BadInput(f"Memory {memory_id} is live.", remedy="There is nothing to restore.")
        if state.state == "quarantined":
            raise BadInput(f"Memory {memory_id} waits for review.", remedy=f"Settle it: `filrouge review {memory_id}`.")
        after = {memory_id: replace(state, state="live", valid_to=None, superseded_by=None)}
        self._writer.states.check(after, versions=versions)
        self._change("restore", memory_id, {memory_id: state}, after, origin, versions)
        return Action(name="restore", memory_id=memory_id, reason="by hand")

    def _pin(self, memory_id: str, origin: Origin, *, pinned: bool) -> Action:
        action = "pin" if pinned else "unpin"
        state = self._with_versions(memory_id)[memory_id].state
        if state.state != "live":
            remedy = f"Try `filrouge restore {memory_id}`, or pin its live version."
            raise BadInput(f"Memory {memory_id} is {state.state}, not live.", remedy=remedy)
        if state.pinned is not pinned:
            after = {memory_id: replace(state, pinned=pinned)}
            self._change(action, memory_id, {memory_id: state}, after, origin, {})
        return Action(name=action, memory_id=memory_id, reason="by hand")

    def _change(
        self,
        action: str,
        memory_id: str,
        before: dict[str, MemoryState],
        after: dict[str, MemoryState],
        origin: Origin,
        touches: dict[str, MemoryWithState],
    ) -> None:
        self._writer.states.write(after, origin.at)
        payload = {"reason": "by hand", "turn": origin.turn_id}
        self._writer.record(origin, action, memory_id, payload, before=before, after=after, touches=touches)

    def _with_versions(self, memory_id: str) -> dict[str, MemoryWithState]:
        versions = self._writer.states.with_versions([memory_id])
        if memory_id not in versions:
            raise NotFound(f"There is no memory {memory_id!r}.")
        return versions


# Memories: reading them, and applying decisions.

#: Maximum number of active rules per scope. Further rules are stored, but stay inactive until the user
#: removes one.
MAX_RULES = 20
#: Above the number of any row.
_LAST_SEQ: Final = 2**62


class Memories:
    """Reads memories and applies decisions to them."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser
        self._writer = MemoryWriter(tx, analyser)
        self._reviews = Reviews(tx, analyser)

    def get(self, memory_id: str) -> Memory:
        """Return one memory with its evidence.

        Raises:
            NotFound: no memory has this id.
        """
        return self._with_evidence([_memory_row(self._tx, memory_id)])[0]

    def within(
        self, *, project: str | None, user: str, everywhere: bool = False, all_states: bool = False
    ) -> list[Memory]:
        """Return the memories of a project and of its user, newest first, without session summaries.

        Args:
            everywhere: return the memories of all projects and users.
            all_states: return memories that are not live, too.
        """
        rows = self._tx.all(
            "memories.within",
            {"project_id": project, "user_id": user, "everywhere": everywhere, "all_states": all_states},
        )
        return self._with_evidence(rows)

    def page(
        self,
        scope: SearchScope,
        filters: Filters = NO_FILTERS,
        *,
        before: int | None = None,
        limit: int | None = None,
        rules: bool | None = None,
        all_states: bool = False,
    ) -> tuple[list[Memory], int | None]:
        """Return memories of a scope that pass a filter, newest first, and the position before which the next page is.

        Args:
            before: the position of this page; None = the first.
            limit: size of the page; None = all.
            rules: only rules, or none; None = both.
            all_states: also memories that were not valid at the time of the filter.
        """
        if passes_none("memory", filters):
            return [], None
        page = {"before": _LAST_SEQ if before is None else before, "limit": -1 if limit is None else limit + 1}
        rows = self._tx.all(
            "memories.page",
            page | scope.parameters | parameters_of(filters) | {"rules": rules, "all_states": all_states},
        )
        is_last = limit is None or len(rows) <= limit
        shown = rows if is_last else rows[:limit]
        return self._with_evidence(shown), None if is_last else int(shown[-1]["seq"])

    def counts(self) -> tuple[tuple[str, int], ...]:
        """Return the number of memories of each state and kind."""
        return tuple((row["state"], row["n"]) for row in self._tx.all("memories.count"))

    def with_words(self, match: str, *, project: str | None, user: str, limit: int) -> dict[str, str]:
        """Return the texts of the newest live memories of a project and of its user that match an FTS5 expression.

        Returns:
            The texts by id.
        """
        parameters = {"match": match, "project_id": project, "user_id": user, "limit": limit}
        return {row["id"]: row["text"] for row in self._tx.all("memories.with_words", parameters)}

    def known(self, ids: Sequence[str]) -> list[Memory]:
        """Return these memories with their evidence, in the given order; unknown ids are left out."""
        rows = {row["id"]: row for row in self._tx.all("memories.some", {"ids": json.dumps(list(ids))})}
        return self._with_evidence([rows[id_] for id_ in ids if id_ in rows])

    def of_session(self, session: str) -> list[Memory]:
        """Return the memories that a session taught or ended, in any state, with its summaries but no concepts."""
        return self.known([row["id"] for row in self._tx.all("memories.of_session", {"session_id": session})])

    def citing(self, turn_id: str) -> list[Memory]:
        """Return the memories that cite a turn, in any state, oldest first."""
        rows = self._tx.all("evidence.citing", {"turns": json.dumps([turn_id])})
        return self.known(sorted({row["memory_id"] for row in rows}))

    def used(self, ids: Collection[str], at: datetime) -> None:
        """Record that these memories were added to a prompt; ids of anything else are ignored."""
        self._tx.run("memories.used", {"ids": json.dumps(list(ids)), "at": to_text(at)})

    def rules(
        self, *, project: str | None, user: str, agent: str | None = None, limit: int = MAX_RULES
    ) -> list[Memory]:
        """Return the active rules of a project: up to `limit` of the user and as many of the project.

        Pinned rules come first, then the newest. Evidence is not loaded.

        Args:
            agent: only rules that this agent (its id, or its channel) learned; None = all.
        """
        parameters = _listed_for(project, user, agent, limit)
        rows = self._tx.all("memories.rules", parameters)
        return [memory_from_row(row) for row in rows]

    def rules_standing(self) -> frozenset[str]:
        """Return the ids of all active rules, in all scopes; rules beyond the limit of their scope are not included."""
        rows = self._tx.all("memories.rules_standing", {"limit": MAX_RULES, "least": MIN_CONFIDENCE_INJECT})
        return frozenset(row["id"] for row in rows)

    def core_facts(self, *, project: str | None, user: str, agent: str | None = None, limit: int) -> list[Memory]:
        """Return the core facts that hold here: the user's before the project's, newest first, without evidence."""
        parameters = _listed_for(project, user, agent, limit)
        rows = self._tx.all("memories.core_facts", parameters)
        return [memory_from_row(row) for row in rows]

    def worth_knowing(self, *, project: str | None, user: str, agent: str | None = None, limit: int) -> list[Memory]:
        """Return what a session should see first, without evidence and without core facts.

        Preferences and constraints come first, then decisions, facts and plans together; each part newest first.
        """
        parameters = _listed_for(project, user, agent, limit)
        rows = self._tx.all("memories.worth_knowing", parameters)
        return [memory_from_row(row) for row in rows]

    def planned(self, *, project: str | None, user: str, agent: str | None, limit: int) -> list[Memory]:
        """Return plans that name a time, newest first, without evidence."""
        parameters = _listed_for(project, user, agent, limit)
        return [memory_from_row(row) for row in self._tx.all("memories.planned", parameters)]

    def bounding(
        self, *, project: str | None, user: str, agent: str | None, thread: str | None, limit: int
    ) -> list[Memory]:
        """Return the decisions and constraints that apply in a thread, newest first, without evidence.

        At most `limit` of each. Constraints of the thread come before those of the project.
        """
        parameters = _listed_for(project, user, agent, limit)
        rows = self._tx.all("memories.bounding", parameters | {"thread_id": thread, "newest": 10 * limit})
        return [memory_from_row(row) for row in rows]

    def some(self, ids: Sequence[str]) -> dict[str, Memory]:
        """Return the memories with these ids by id, in any state, without evidence."""
        rows = self._tx.all("memories.some", {"ids": json.dumps(list(ids))})
        return {row["id"]: memory_from_row(row) for row in rows}

    def tokens(self, ids: Sequence[str]) -> dict[str, frozenset[str]]:
        """Return the tokens under which these memories are indexed, by id."""
        rows = self._tx.all("memories.searched", {"ids": json.dumps(list(ids))})
        return {row["id"]: frozenset(self._analyser.tokens(row["text"]).split()) for row in rows}

    def add(self, statement: Statement, origin: Origin, reason: str) -> Action:
        """Store a statement without comparing it to other memories."""
        return self._add(statement, origin, reason)

    def put_core_fact(self, statement: Statement, origin: Origin) -> Action:
        """Store a core fact; it supersedes the live fact with the same scope and key, even a pinned one."""
        row = self._tx.one("memories.core_fact", _scope_columns(statement, origin) | {"key": statement.key})
        old = list(self.some([row["id"]]).values()) if row else []
        if not old:
            return self._add(statement, origin, "set by hand")
        return self._update(statement, old, _clamped_origin(old[0], origin), "set by hand")

    def supersede(self, memory_id: str, statement: Statement, origin: Origin, reason: str) -> Action:
        """Replace one live memory by hand, even a pinned one; the new memory keeps `pinned` and `disabled`.

        Raises:
            NotFound: no memory has this id.
            BadInput: it is not live (the remedy names the live version), or it has the same text already.
        """
        memory = self.get(memory_id)
        if memory.state != "live":
            versions = self._writer.states.with_versions([memory_id])
            head = next((id_ for id_, version in versions.items() if version.state.state == "live"), None)
            remedy = f"Supersede {head}, its live version." if head else f"Try `filrouge restore {memory_id}`."
            raise BadInput(f"Memory {memory_id} is {memory.state}, not live.", remedy=remedy)
        if statement.text == memory.text:
            raise BadInput(f"Memory {memory_id} says that already.")
        return self._update(statement, [memory], _clamped_origin(memory, origin), reason, disabled=memory.disabled)

    def apply(self, decision: Decision, origin: Origin) -> Action:
        """Apply a decision, in the caller's transaction.

        Ids that are unknown, not live, or outside the statement's scope are ignored. A change to a pinned memory
        becomes a review for the user.

        An update closes the validity of the old memory and links both. The ids in a decision are checked again here,
        because the decision may come from a model, and models invent ids.
        """
        statement, reason = decision.statement, decision.reason
        match decision:
            case Add():
                return self._add(statement, origin, reason)
            case Update(old_ids=old_ids):
                old = self._live_in_scope(old_ids, statement, origin)
                if pinned := _pinned(old):
                    return self._dispute(statement, pinned, origin, f"{reason}, but the memory is pinned")
                return self._update(statement, old, origin, reason)
            case Delete(old_ids=old_ids):
                old = [
                    memory
                    for memory in self._live_in_scope(old_ids, statement, origin)
                    if memory.valid_from <= origin.at
                ]
                if pinned := _pinned(old):
                    return self._dispute(statement, pinned, origin, f"{reason}, but the memory is pinned")
                return self._close(old, origin, reason)
            case Noop(existing_id=existing_id) if self._live_in_scope([existing_id], statement, origin):
                self._writer.mention(existing_id, statement, origin, reason)
                return Action(name="noop", memory_id=existing_id, reason=reason)
            case Conflict(existing_id=existing_id) if disputed := self._live_in_scope([existing_id], statement, origin):
                return self._dispute(statement, disputed[0], origin, reason)
            case Noop() | Conflict():
                return self._add(statement, origin, f"{reason}; that memory is not live here")

    def put_late(
        self, statement: Statement, origin: Origin, reason: str, *, by: Memory, at: datetime, ends: Sequence[str] = ()
    ) -> Action:
        """Store a statement as history: a later statement, processed before it, had already replaced it.

        Args:
            by: the memory that replaced it.
            at: when the replacing statement was said.
            ends: memories that end with it if they are older, not pinned, and in the statement's scope.
        """
        old = [memory for memory in self._live_in_scope(ends, statement, origin) if not memory.pinned]
        return self._late(statement, by, at, old, origin, reason)

    def quarantine(self, statement: Statement, origin: Origin, reason: str) -> Action:
        """Quarantine a statement that its evidence does not support, and queue it for review."""
        id_ = self._reviews.hold("quarantine", statement, origin, reason)
        return Action(name="error", memory_id=id_, reason=reason, review=id_)

    def refuse(self, origin: Origin, reason: str) -> Action:
        """Record a decision that was unusable and dropped; `reason` must not quote the conversation."""
        self._writer.record(origin, "error", origin.turn_id, {"reason": reason, "turn": origin.turn_id})
        return Action(name="error", memory_id="", reason=reason)

    def bin(self, memory_id: str, origin: Origin, reason: str) -> Action:
        """Move one live memory to the bin by hand; it can be restored.

        Raises:
            NotFound: no memory has this id.
            BadInput: it is not live.
        """
        memory = self.get(memory_id)
        if memory.state != "live":
            raise BadInput(f"Memory {memory_id} is {memory.state}, not live.", remedy="See `filrouge facts --all`.")
        return self._close([memory], origin, reason)

    def _add(self, statement: Statement, origin: Origin, reason: str) -> Action:
        memory = self._writer.insert(statement, origin)
        self._writer.record_new(origin, "add", memory, self._writer.statement_payload(memory.text, reason, origin))
        return Action(name="add", memory_id=memory.id, reason=reason)

    def _update(
        self, statement: Statement, old: list[Memory], origin: Origin, reason: str, *, disabled: bool = False
    ) -> Action:
        if not old:
            return self._add(statement, origin, f"{reason}; no memory that it replaces is live")
        newest = max(old, key=lambda memory: memory.valid_from)
        if newest.valid_from > origin.at:
            return self._late(statement, newest, newest.valid_from, old, origin, reason)
        before = {replaced.id: state_of(replaced) for replaced in old}
        ended = {id_: _ended(state, "superseded", origin) for id_, state in before.items()}
        self._writer.states.write(ended, origin.at)
        pinned = any(replaced.pinned for replaced in old)
        memory = self._writer.insert(statement, origin, predecessor=old[0], pinned=pinned, disabled=disabled)
        after = {id_: replace(state, superseded_by=memory.id) for id_, state in ended.items()}
        self._writer.states.write(after, origin.at)
        closed = [replaced.id for replaced in old]
        payload = self._writer.statement_payload(memory.text, reason, origin) | {
            "previous_text": old[0].text,
            "closed": closed,
        }
        state = state_of(memory)
        before, after = before | {memory.id: state.before_creation}, after | {memory.id: state}
        self._writer.record(origin, "update", memory.id, payload, before=before, after=after)
        return Action(name="update", memory_id=memory.id, closed=tuple(closed), reason=reason)

    def _late(
        self, statement: Statement, by: Memory, at: datetime, ends: Sequence[Memory], origin: Origin, reason: str
    ) -> Action:
        """Store a statement that was said before its replacement but processed after it."""
        earlier = [ended for ended in ends if ended.valid_from <= origin.at and ended.id != by.id]
        before = {ended.id: state_of(ended) for ended in earlier}
        after = {id_: _ended(state, "superseded", origin) for id_, state in before.items()}
        self._writer.states.write(after, origin.at)
        memory = self._writer.insert(statement, origin, state="superseded", predecessor=next(iter(earlier), None))
        state = replace(state_of(memory), valid_to=to_text(at), superseded_by=by.id)
        after = {id_: replace(ended, superseded_by=memory.id) for id_, ended in after.items()} | {memory.id: state}
        self._writer.states.write(after, origin.at)
        reason = f"{reason}, but it was said earlier"
        payload = self._writer.statement_payload(memory.text, reason, origin)
        before |= {memory.id: state.before_creation}
        self._writer.record(origin, "late", memory.id, payload, before=before, after=after, touches=[by.id])
        closed = tuple(ended.id for ended in earlier)
        return Action(name="noop", memory_id=by.id, closed=closed, reason=reason, history=memory.id)

    def _close(self, old: list[Memory], origin: Origin, reason: str) -> Action:
        if not old:
            payload = {"reason": f"{reason}; nothing held it", "turn": origin.turn_id}
            self._writer.record(origin, "delete", origin.turn_id, payload)
        for memory in old:
            state = state_of(memory)
            before, after = {memory.id: state}, {memory.id: _ended(state, "binned", origin)}
            self._writer.states.write(after, origin.at)
            payload = self._writer.statement_payload(memory.text, reason, origin)
            self._writer.record(origin, "delete", memory.id, payload, before=before, after=after)
        closed = tuple(memory.id for memory in old)
        return Action(name="delete", memory_id=closed[0] if closed else "", closed=closed, reason=reason)

    def _dispute(self, statement: Statement, against: Memory, origin: Origin, reason: str) -> Action:
        """Queue a conflict for review; nothing else changes until the user settles it."""
        id_ = self._reviews.hold("conflict", statement, origin, reason, against=against)
        return Action(name="conflict", memory_id=against.id, reason=reason, review=id_)

    def _live_in_scope(self, ids: Sequence[str], statement: Statement, origin: Origin) -> list[Memory]:
        """Return the live memories among these ids that are in the statement's scope."""
        found, scope = self.some(ids), _scope_columns(statement, origin)
        memories = (found[id_] for id_ in dict.fromkeys(ids) if id_ in found)
        return [
            memory
            for memory in memories
            if memory.state == "live" and scope.items() <= uniqueness_columns(memory).items()
        ]

    def _with_evidence(self, rows: Sequence[dict[str, Any]]) -> list[Memory]:
        """Build the memories of these rows, with their evidence."""
        evidence: dict[str, list[Evidence]] = {row["id"]: [] for row in rows}
        for cited in self._tx.all("evidence.of", {"ids": json.dumps(list(evidence))}):
            span = Span(start=cited["start"], end=cited["stop"])
            evidence[cited["memory_id"]].append(Evidence(turn_id=cited["turn_id"], span=span))
        return [replace(memory_from_row(row), evidence=tuple(evidence[row["id"]])) for row in rows]


def _listed_for(project: str | None, user: str, agent: str | None, limit: int) -> dict[str, object]:
    """Return the parameters of a list of memories that may be injected."""
    return {"project_id": project, "user_id": user, "agent": agent, "limit": limit, "least": MIN_CONFIDENCE_INJECT}


def _scope_columns(statement: Statement, origin: Origin) -> dict[str, object]:
    """Return the scope in which a statement holds, as columns."""
    project = origin.scope.project if statement.scope == "project" else None
    return {"scope": statement.scope, "project_id": project, "user_id": origin.scope.user}


def _clamped_origin(memory: Memory, origin: Origin) -> Origin:
    """Date a manual change no earlier than the memory's start of validity, so that it never counts as late."""
    return replace(origin, at=max(origin.at, memory.valid_from))


def _pinned(memories: Sequence[Memory]) -> Memory | None:
    return next((memory for memory in memories if memory.pinned), None)


def _ended(before: MemoryState, state: State, origin: Origin) -> MemoryState:
    return replace(before, state=state, valid_to=max(before.valid_from, to_text(origin.at)))


# Doubts.

#: The reason given for leaving out a memory in doubt.
DOUBTED: Final = "perhaps replaced"


class Doubts:
    """Doubts about which memories are still current.

    A doubt is a pair of memories where the newer may have replaced the older, but not with enough certainty to end the
    older. Both stay live and searchable. When the older would be injected automatically, the newer stands behind it, or
    alone if it has its own line, unless the older was stated again since, or is pinned.
    """

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def add(self, older: str, newer: str) -> None:
        """Record that `newer` may have replaced `older`."""
        self._tx.run("doubts.add", {"older": older, "newer": newer})

    def newer(self, ids: Collection[str]) -> dict[str, str]:
        """Return, by id, for each memory in doubt among these the newest live one that may have replaced it."""
        return {row["older"]: row["newer"] for row in self._tx.all("doubts.newer", {"ids": json.dumps(list(ids))})}


class Notes:
    """Memories of kind `note`, which stand for the files that a model keeps."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def live(self, *, project: str | None, user: str) -> list[Memory]:
        """Return the live notes of a project, or those outside all projects, oldest first, without evidence."""
        rows = self._tx.all("notes.live", {"project_id": project, "user_id": user})
        return [memory_from_row(row) for row in rows]
