"""Undo: reverts a decision and the later decisions that depend on it, without rewriting the journal.

A later decision depends on an earlier one if it touches a memory whose state, times or links the earlier one changed.
If the earlier one only changed a pin or a switch, only later changes of the same pin or switch depend on it. Nothing
depends on a mention. Reverted decisions, and the undos that reverted them, are ignored.

Decisions are reverted newest first. Each must find the memory as the decision left it. The result must leave one live
version of every memory, or the undo is refused. Each reverted decision gets a journal entry `undo`, which is itself a
decision: undoing it redoes the decision, with all others reverted by the same undo. A reverted decision counts as never
made, at any time: `as_of` does not see what it created, and sees what it ended as continuing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Analyser, Tx
from filrouge.maintenance.garden_service import Merging
from filrouge.memories.models import Effect, TakenBack, UndoPlan
from filrouge.memories.repository import (
    ChangesByMemory,
    MemoryState,
    MemoryWithState,
    MemoryWriter,
    Origin,
    StateStore,
    changes_of_entry,
    difference,
    revert,
)
from filrouge.runtime.journal import Entry, Journal

_SWITCHES = frozenset({"pinned", "disabled"})


class Undo(Struct, frozen=True, kw_only=True):
    """A plan with the data needed to carry it out.

    Attributes:
        entries: the entries to revert, newest first, each with the changes that this makes.
        before, after: the states that change, by memory id.
    """

    plan: UndoPlan
    entries: tuple[tuple[Entry, ChangesByMemory], ...]
    before: Mapping[str, MemoryState]
    after: Mapping[str, MemoryState]


class Undoing:
    """Plans and carries out undos."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._states = StateStore(tx)
        self._writer = MemoryWriter(tx, analyser)
        self._merging = Merging(tx, analyser)

    def last_about(self, memory_id: str) -> int:
        """Return the number of the last decision that changed a memory and is still in force.

        Raises:
            NotFound: no memory has this id.
            BadInput: nothing is left to undo.
        """
        if memory_id not in self._states.with_versions([memory_id]):
            raise NotFound(f"There is no memory {memory_id!r}.")
        entries = Journal(self._tx).entries_about(memory_id)
        reverted_numbers = reverted(entries)
        for entry in reversed(entries):
            if entry.seq not in reverted_numbers and entry.undoes is None and memory_id in changes_of_entry(entry):
                return entry.seq
        raise BadInput(f"No decision about {memory_id} is left to undo.", remedy=f"See `filrouge history {memory_id}`.")

    def of(self, seq: int) -> Undo:
        """Plan the undo of a journal entry.

        Raises:
            NotFound: there is no such entry.
            BadInput: it is reverted already; or it changed nothing; or what it refers to was erased; or two versions of
                one memory would be live.
        """
        named_entry = Journal(self._tx).entry(seq)
        _refuse_empty(named_entry)
        if named_entry.undoes is None or named_entry.payload is None:
            return self.of_all([named_entry])
        together = Journal(self._tx).undone_together(named_entry.payload["together"])
        touched = {id_ for entry in together for id_ in entry.touches}
        later = Journal(self._tx).entries_about(*touched, after=together[-1].seq)
        reverted_numbers = reverted(later)
        redone = {entry.undoes for entry in later if entry.seq not in reverted_numbers}
        return self.of_all([entry for entry in together if entry.seq not in redone] or [named_entry])

    def of_all(self, named_entries: Iterable[Entry]) -> Undo:
        """Plan one undo of several decisions and of everything that depends on them.

        Raises:
            BadInput: one of them is reverted already; or what it refers to was erased; or two versions of one memory
                would be live.
        """
        found = {
            entry.seq: entry
            for named_entry in named_entries
            for entry in dependents(named_entry, self._later(named_entry))
        }
        entries = [found[seq] for seq in sorted(found)]
        versions = self._states.with_versions({id_ for entry in entries for id_ in entry.touches})
        before: dict[str, MemoryState] = {}
        states: dict[str, MemoryState] = {}
        steps: list[tuple[Entry, ChangesByMemory]] = []
        for entry in reversed(entries):
            _refuse_empty(entry)
            earlier = {id_: states.get(id_, self._found(versions, id_, entry)) for id_ in changes_of_entry(entry)}
            reverted_states = {id_: _reverted_state(earlier[id_], id_, entry) for id_ in earlier}
            steps.append((entry, difference(earlier, reverted_states)))
            before = {**{id_: versions[id_].state for id_ in reverted_states}, **before}
            states |= reverted_states
        states = {id_: state for id_, state in states.items() if state != before[id_]}
        self._states.check(states, versions=versions)
        plan = UndoPlan(
            decisions=tuple(_taken_back(entry) for entry, _ in steps), effects=_effects(entries, versions, states)
        )
        return Undo(plan=plan, entries=tuple(steps), before=before, after=states)

    def carry_out(self, undo: Undo, origin: Origin) -> int:
        """Carry out the plan, in the caller's transaction; return the first entry of the undo."""
        self._states.write(undo.after, origin.at)
        first = (self._tx.one("journal.newest") or {"n": 0})["n"] + 1
        for entry, changed in undo.entries:
            payload = entry.payload or {}
            mentions, cited = -int(payload.get("mentions", 0)), payload.get("cited")
            if mentions:
                self._mention(entry.subject_id, mentions, cited)
            merged = payload.get("merged")
            Journal(self._tx).append(
                at=origin.at,
                actor=origin.actor,
                action="undo",
                subject_id=entry.subject_id,
                payload={
                    "undoes": entry.seq,
                    "together": first,
                    "reason": f"takes back {entry.action} {entry.seq}",
                    "turn": payload.get("turn", ""),
                    **({"mentions": mentions, "cited": cited} if mentions else {}),
                    **({"merged": self._merging.undo_or_redo(merged)} if merged else {}),
                    **({"changed": changed} if changed else {}),
                },
                touches=entry.touches,
            )
        return first

    def _mention(self, memory_id: str, by: int, cited: Sequence[Any] | None) -> None:
        self._tx.run("memories.mention", {"id": memory_id, "by": by, "at": ""})
        if cited:
            turn_id, start, stop = cited
            row = {"memory_id": memory_id, "turn_id": turn_id, "start": start, "stop": stop}
            self._tx.run("evidence.add" if by > 0 else "evidence.withdraw", row)

    def _later(self, named_entry: Entry) -> list[Entry]:
        """Return every later entry that touches a memory of this entry, directly or through other entries."""
        seen_ids, found = set[str](), dict[int, Entry]()
        all_ids = set(named_entry.touches)
        while all_ids - seen_ids:
            new = all_ids - seen_ids
            seen_ids |= new
            for entry in Journal(self._tx).entries_about(*new, after=named_entry.seq):
                found[entry.seq] = entry
                all_ids |= entry.touches
        return [found[seq] for seq in sorted(found)]

    def _found(self, versions: Mapping[str, MemoryWithState], memory_id: str, entry: Entry) -> MemoryState:
        if memory_id not in versions:
            raise _erased(f"Memory {memory_id}, which entry {entry.seq} speaks of,")
        return versions[memory_id].state


def dependents(named_entry: Entry, later: Iterable[Entry]) -> list[Entry]:
    """Return the entry and, oldest first, the later entries that depend on it.

    Args:
        later: the later entries that share a memory with it, directly or indirectly, oldest first.

    Raises:
        BadInput: the entry is reverted already.
    """
    later = list(later)
    reverted_numbers = reverted(later)
    undo = next(
        (entry for entry in later if entry.undoes == named_entry.seq and entry.seq not in reverted_numbers), None
    )
    if undo:
        remedy = f"To do it again, undo entry {undo.seq}."
        raise BadInput(f"Entry {named_entry.seq} was taken back by entry {undo.seq}.", remedy=remedy)
    found, (changed, switched) = [named_entry], _touched_state(named_entry)
    for entry in later:
        entry_changed, entry_switched = _touched_state(entry)
        is_together = named_entry.undoes is not None and _together(entry) == named_entry.seq
        if entry.seq not in reverted_numbers and (is_together or entry.touches & changed or entry_switched & switched):
            found.append(entry)
            changed, switched = changed | entry_changed, switched | entry_switched
    return found


def reverted(entries: Sequence[Entry]) -> set[int]:
    """Return the numbers of the reverted entries among these, and of the undos that reverted them."""
    numbers, found = {entry.seq for entry in entries}, set[int]()
    for entry in reversed(entries):
        if entry.seq not in found and entry.undoes in numbers:
            found |= {entry.seq, int(entry.undoes or 0)}
    return found


def _together(entry: Entry) -> int | None:
    """Return the first entry of the undo that an entry is part of."""
    return entry.payload.get("together") if entry.payload else None


def _touched_state(entry: Entry) -> tuple[frozenset[str], frozenset[str]]:
    """Return the memories whose state an entry changed, and the pins and switches it changed (alone or not)."""
    changed = changes_of_entry(entry)
    switched = frozenset(id_ for id_, pairs in changed.items() if set(pairs) <= _SWITCHES)
    return frozenset(changed) - switched, frozenset(
        f"{name} {id_}" for id_, pairs in changed.items() for name in set(pairs) & _SWITCHES
    )


def _reverted_state(state: MemoryState, memory_id: str, entry: Entry) -> MemoryState:
    found = revert(state, changes_of_entry(entry)[memory_id])
    if found is None:
        raise _erased(f"What entry {entry.seq} made of memory {memory_id} is no longer there, because something")
    return found


def _refuse_empty(entry: Entry) -> None:
    if entry.payload is None or entry.action == "erase":
        raise _erased(f"What entry {entry.seq} ({entry.action}) speaks of")
    if not changes_of_entry(entry) and not entry.payload.get("mentions"):
        remedy = "It is informational, or predates the recording of changes."
        raise BadInput(f"Entry {entry.seq} ({entry.action}) changed nothing that can be put back.", remedy=remedy)


def _erased(what: str) -> BadInput:
    return BadInput(f"{what} was erased.", remedy="Erased data cannot be restored; enter it again.")


def _taken_back(entry: Entry) -> TakenBack:
    return TakenBack(
        entry=entry.seq,
        memory_id=entry.subject_id,
        action=entry.action,
        reason=str((entry.payload or {}).get("reason", "")),
        actor=entry.actor,
        at=entry.at,
    )


def _effects(
    entries: Sequence[Entry], versions: Mapping[str, MemoryWithState], states: Mapping[str, MemoryState]
) -> tuple[Effect, ...]:
    mentioned = {entry.subject_id for entry in entries if (entry.payload or {}).get("mentions")}
    return tuple(
        Effect(
            memory_id=id_,
            text=versions[id_].memory.text,
            before=versions[id_].state.state,
            after=states.get(id_, versions[id_].state).state,
            pinned=(versions[id_].state.pinned, states.get(id_, versions[id_].state).pinned),
            disabled=(versions[id_].state.disabled, states.get(id_, versions[id_].state).disabled),
            waits=states.get(id_, versions[id_].state).review == "open",
        )
        for id_ in sorted(states.keys() | (mentioned & versions.keys()))
    )
