"""The consolidation run ("garden"): planning it, doing its steps, and starting it.

A run reads unread sessions, merges duplicate concepts and memories, puts contradictions up for review, queues retention
and computes missing vectors. It is planned first; the plan and its steps are stored.

The background job `garden` does one step each time it runs. A step is prepared outside any transaction. Its effects,
its done mark and its counts are then written in one transaction, so a step is done exactly once and a run continues
after a crash. The result of a run is the sum over its steps. An index of the schema allows one active run at a time.
Work that appears during a run is left to the next run.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import TRUST_AGENT
from filrouge.capture.repository import Turns
from filrouge.capture.service import is_to_be_analysed
from filrouge.core.clock import Clock, Language, from_text, new_id, text_or_none, time_or_none, to_text
from filrouge.core.errors import Busy, CannotWrite
from filrouge.core.guard import logged
from filrouge.core.protocols import Analyser, Tx
from filrouge.core.rows import number_of, pick_columns, require_row
from filrouge.core.scope import Scope
from filrouge.core.settings import Settings
from filrouge.extraction import understanding
from filrouge.extraction.profile import profile
from filrouge.extraction.repository import Analyses, Session
from filrouge.extraction.sessions import analyse_new_turns, store_analysis
from filrouge.extraction.understanding import group_of
from filrouge.maintenance.consolidation import (
    KINDS,
    PHASE_OF,
    ConsolidationRun,
    GardenPlan,
    MemoryProgress,
    RunStep,
    Step,
    StepKind,
    Trigger,
    completed_message,
    concept_key,
    contradiction,
    estimate,
    is_mergeable,
    is_same,
    is_same_concept,
    kinds_of,
    label,
    message,
    messages,
    rank,
    sort_by_kind,
)
from filrouge.maintenance.retention import begin_retention, is_due
from filrouge.memories.models import NO_FILTERS, Memory
from filrouge.memories.repository import MemoryWriter, Origin, Reviews, memory_from_row, state_of
from filrouge.runtime.executors import PeriodicTask
from filrouge.runtime.feed import Bus
from filrouge.runtime.jobs import JobResult, Jobs
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.repository import Owner, OwnerKind, SearchScope, StoredVectors
from filrouge.search.retrievers import nearest_live_memories, retriever_for
from filrouge.search.spaces import embed_next_windows
from filrouge.threads.reports import language_of
from filrouge.threads.upkeep import update_vector_for_prompt

# Stored runs and their steps.

#: Number of latest runs that the time estimate uses, and number of latest runs whose steps stay stored.
_RUNS_TIMED, _RUNS_WITH_STEPS = 5, 20


class ConsolidationRuns:
    """The stored runs and their steps."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def begin(
        self,
        garden_id: str,
        occasion: Trigger,
        plan: Mapping[str, Any],
        steps: Sequence[RunStep],
        at: datetime,
    ) -> None:
        """Store a run with its steps.

        Raises:
            Busy: another run is active.
        """
        if (other := self.running()) is not None:
            raise Busy(
                f"A consolidation is running already ({other.id}).", remedy="Watch it with `filrouge garden`, or wait."
            )
        row = {"id": garden_id, "occasion": occasion, "plan": json.dumps(dict(plan)), "at": to_text(at)}
        self._tx.run("gardens.begin", row)
        self._tx.many(
            "gardens.add_step",
            [
                {
                    "garden_id": garden_id,
                    "place": step.position,
                    "phase": step.kind,
                    "subject": json.dumps(dict(step.subject)),
                }
                for step in steps
            ],
        )

    def get(self, garden_id: str) -> ConsolidationRun:
        """Return one run.

        Raises:
            NotFound: there is no run with this id.
        """
        what, remedy = f"consolidation run {garden_id!r}", "See `filrouge garden --list`."
        return _run_from_row(require_row(self._tx, "gardens.get", {"id": garden_id}, what=what, remedy=remedy))

    def newest(self, limit: int) -> list[ConsolidationRun]:
        """Return the latest runs, newest first."""
        return [_run_from_row(row) for row in self._tx.all("gardens.newest", {"limit": limit})]

    def running(self) -> ConsolidationRun | None:
        """Return the active run, or None."""
        row = self._tx.one("gardens.running")
        return _run_from_row(row) if row else None

    def last_completed(self) -> ConsolidationRun | None:
        """Return the latest run that completed, or None."""
        row = self._tx.one("gardens.last_completed")
        return _run_from_row(row) if row else None

    def next(self, garden_id: str) -> RunStep | None:
        """Return the first step that is not done, or None."""
        row = self._tx.one("gardens.next_step", {"garden_id": garden_id})
        return _step(row) if row else None

    def mark(self, garden_id: str, position: int, counts: Mapping[str, int], at: datetime) -> None:
        """Mark a step as done and store its counts, in the transaction of its effects.

        Raises:
            Busy: the step is already done, or the run is over; the caller must roll back the effects.
        """
        row = {"garden_id": garden_id, "place": position, "result": json.dumps(dict(counts)), "at": to_text(at)}
        if not self._tx.run("gardens.mark_step", row):
            raise Busy(f"Step {position} of the run {garden_id} is already done.")

    def done(self, garden_id: str) -> list[RunStep]:
        """Return the done steps, in order."""
        rows = self._tx.all("gardens.steps_done", {"garden_id": garden_id, "behind": -1})
        return [_step(row) for row in rows]

    def done_of(self, garden_id: str, kinds: Sequence[StepKind]) -> int:
        """Return how many steps of these kinds are done."""
        return number_of(self._tx, "gardens.count_done", {"garden_id": garden_id, "kinds": json.dumps(list(kinds))})

    def totals(self, garden_id: str) -> dict[str, int]:
        """Return the summed counts of the done steps."""
        found = Counter[str]()
        for row in self._tx.all("gardens.results", {"garden_id": garden_id}):
            found.update(json.loads(row["result"]))
        return dict(sorted(found.items()))

    def end(self, garden_id: str, at: datetime, *, error: str = "") -> None:
        """End a run and store its totals; with an `error` it has failed. Delete the steps of old runs."""
        state = "failed" if error else "completed"
        totals = json.dumps(self.totals(garden_id))
        row = {"id": garden_id, "state": state, "totals": totals, "error": error, "at": to_text(at)}
        self._tx.run("gardens.end", row)
        self._tx.run("gardens.prune", {"keep": _RUNS_WITH_STEPS})

    def seconds(self) -> dict[str, float]:
        """Return the median seconds per step of each kind, measured between done marks of the latest runs."""
        spans: dict[str, list[float]] = {}
        before: tuple[str, datetime] | None = None
        for row in self._tx.all("gardens.marks", {"limit": _RUNS_TIMED}):
            at = from_text(row["done_at"])
            begun = before[1] if before and before[0] == row["garden_id"] else from_text(row["started_at"])
            spans.setdefault(row["phase"], []).append(max(0.0, (at - begun).total_seconds()))
            before = row["garden_id"], at
        return {kind: median(found) for kind, found in spans.items()}


def _run_from_row(row: Mapping[str, Any]) -> ConsolidationRun:
    plan = json.loads(row["plan"])
    return ConsolidationRun(
        **pick_columns(row, ("id", "occasion", "state", "error")),
        counts=plan["counts"],
        memories_until=int(plan["memories_until"]),
        totals=json.loads(row["totals"]),
        started_at=from_text(row["started_at"]),
        ended_at=time_or_none(row["ended_at"]),
    )


def _step(row: Mapping[str, Any]) -> RunStep:
    return RunStep(position=row["place"], kind=row["phase"], subject=json.loads(row["subject"]))


# Merging two memories that say the same.

MERGE_ACTION = "merge"


class Merging:
    """Merges two memories. The caller decides whether they are the same.

    The source is superseded by the target. It keeps its words, evidence and sessions, so a search in its own time still
    finds it, and erasing its evidence still erases it. The target gets copies of the evidence and sessions that it
    lacked. The journal records what was copied, so an undo removes exactly that. The target's trust, confidence and
    words do not change.
    """

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._writer = MemoryWriter(tx, analyser)

    def merge(self, target_id: str, source_id: str, origin: Origin, reason: str) -> bool:
        """Merge `source_id` into `target_id` in the caller's transaction; return False unless both are live."""
        rows = {row["id"]: row for row in self._tx.all("memories.some", {"ids": json.dumps([target_id, source_id])})}
        if len(rows) < 2 or any(row["state"] != "live" for row in rows.values()):
            return False
        memory = memory_from_row(rows[source_id])
        before = state_of(memory)
        after = replace(
            before, state="superseded", valid_to=max(before.valid_from, to_text(origin.at)), superseded_by=target_id
        )
        self._writer.states.write({source_id: after}, origin.at)
        merged = self._copy_missing(rows[target_id], rows[source_id])
        payload = self._writer.statement_payload(memory.text, reason, origin) | {"merged": merged}
        self._writer.record(
            origin,
            MERGE_ACTION,
            source_id,
            payload,
            before={source_id: before},
            after={source_id: after},
            touches=[target_id],
        )
        return True

    def undo_or_redo(self, merged: Mapping[str, Any]) -> dict[str, Any]:
        """Undo a merge on the target, or redo an undone one.

        Args:
            merged: the journal's record of the merge, or of its last undo or redo.

        Returns:
            The record for the journal, with the sign of `by` flipped.
        """
        target_id, sign = merged["kept"], -int(merged["by"])
        self._tx.run(
            "memories.merge_mentions",
            {"id": target_id, "by": sign * merged["mentions"]}
            | {f"{name}_{index}": merged[name][index] for name in ("first", "last") for index in (0, 1)}
            | {"back": sign < 0},
        )
        for turn_id, start, stop in merged["evidence"]:
            row = {"memory_id": target_id, "turn_id": turn_id, "start": start, "stop": stop}
            self._tx.run("evidence.withdraw" if sign < 0 else "evidence.add", row)
        for host, session_id, first_at, last_at in merged["sessions"]:
            row = {"memory_id": target_id, "host": host, "session_id": session_id}
            if sign < 0:
                self._tx.run("analyses.unmention_once", row)
            else:
                self._tx.run("analyses.mention_between", row | {"first_at": first_at, "last_at": last_at})
        return {**merged, "by": sign}

    def was_merged(self, memory_id: str, other_id: str) -> bool:
        """Return True if these two were ever merged. If the user undid that merge, they are not the same."""
        found = Journal(self._tx).entries_about(memory_id)
        return any(entry.action == MERGE_ACTION and {memory_id, other_id} <= entry.touches for entry in found)

    def _copy_missing(self, target: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
        """Copy the evidence and sessions that the target lacks; return a record of what was added."""
        pair = {"kept": target["id"], "gone": source["id"]}
        evidence = [[row["turn_id"], row["start"], row["stop"]] for row in self._tx.all("evidence.copy", pair)]
        sessions = [
            [row["host"], row["session_id"], row["first_at"], row["last_at"]]
            for row in self._tx.all("analyses.copy_mentions", pair)
        ]
        first = [target["first_mention"], min(target["first_mention"], source["first_mention"])]
        last = [target["last_mention"], max(target["last_mention"], source["last_mention"])]
        # A concept counts the sessions that mention it, and one session may mention both.
        mentions = len(sessions) if target["kind"] == "concept" else int(source["mention_count"])
        row = {"id": target["id"], "by": mentions, "first_0": first[0], "first_1": first[1], "last_0": last[0]}
        self._tx.run("memories.merge_mentions", row | {"last_1": last[1], "back": False})
        return {
            "kept": target["id"],
            "by": 1,  # a sign: 1 after the merge or a redo, -1 after an undo
            "mentions": mentions,
            "first": first,
            "last": last,
            "evidence": evidence,
            "sessions": sessions,
        }


# Finding the work of a run.

#: Sessions that one run reads, and memories that it compares.
MAX_SESSIONS, MAX_COMPARED_MEMORIES = 2000, 1000
#: Neighbours that each memory is compared with.
_MAX_NEIGHBOURS: Final = 6
#: Texts per batch of vectors, and texts per run; the reindex handles the rest.
_VECTOR_BATCH, _MAX_TEXTS_PER_RUN = 16, 1600
_MAX_TEXT_CHARACTERS: Final = 60


class MemoryComparison(Struct, frozen=True, kw_only=True):
    """The result of comparing memories.

    Attributes:
        until: sequence number of the last memory that was compared.
        remaining: number of memories left for another run.
    """

    steps: tuple[Step, ...]
    until: int
    remaining: int


def unread_session_steps(parts: StoreContext, tx: Tx) -> tuple[list[Step], int]:
    """Return two steps for each unread session, and the number of sessions left for another run.

    One step summarises the session; the other looks for what the user stated in it.
    """
    if parts.settings(tx).extract_provider == "off":
        return [], 0
    found = Analyses(tx, parts.analyser).unread()
    subjects = [{"host": session.host, "session": session.id} for session in found[:MAX_SESSIONS]]
    steps = [Step(kind=kind, subject=subject) for kind in ("sessions", "preferences") for subject in subjects]
    return steps, len(found) - len(subjects)


def concept_merge_steps(parts: StoreContext, tx: Tx) -> list[Step]:
    """Return a step for each concept that equals another concept of its project."""
    by_key: dict[tuple[str, str | None, frozenset[str]], list[Memory]] = {}
    for row in tx.all("memories.live_concepts"):
        memory = memory_from_row(row)
        by_key.setdefault((memory.scope.user, memory.scope.project, concept_key(memory.text)), []).append(memory)
    merging, steps = Merging(tx, parts.analyser), list[Step]()
    for group in by_key.values():
        target = min(group, key=rank)
        for source in group:
            if is_same_concept(target, source) and not source.pinned and not merging.was_merged(target.id, source.id):
                steps.append(_merge_step("concepts", target, source))
    return steps


def compare_memories(
    parts: Parts, tx: Tx, after: int, *, max_memories: int = MAX_COMPARED_MEMORIES
) -> MemoryComparison:
    """Compare up to `max_memories` memories after sequence number `after` with their nearest neighbours.

    Each memory is compared once, when it is new. Pairs whose merge a user undid are skipped, and so are memories that
    were ever up for review. Nothing is compared while the vector index is being filled, because neighbours would be
    missing.
    """
    if not parts.vectors.ready.is_set():
        return MemoryComparison(steps=(), until=after, remaining=0)
    rows = tx.all("memories.compared", {"after": after, "limit": max_memories})
    new_ids = [str(row["id"]) for row in rows]
    neighbours = _find_neighbours(parts, tx, new_ids)
    all_ids = list(dict.fromkeys([*new_ids, *(other_id for others in neighbours.values() for other_id in others)]))
    memories = {memory.id: memory for memory in parts.memories(tx).known(all_ids)}
    is_isolated = parts.settings(tx).isolation
    same_ids, contradictions = dict[str, set[str]](), list[tuple[Memory, Memory, str]]()
    seen = set[frozenset[str]]()
    for id_ in new_ids:
        for other_id, similarity in neighbours[id_].items():
            pair = frozenset((id_, other_id))
            if len(pair) < 2 or pair in seen or other_id not in memories:
                continue
            seen.add(pair)
            memory, other_memory = memories[id_], memories[other_id]
            if is_isolated and _agent(memory) != _agent(other_memory):
                continue
            if is_same(memory, other_memory, similarity):
                same_ids.setdefault(id_, set()).add(other_id)
                same_ids.setdefault(other_id, set()).add(id_)
            elif (found := contradiction(memory, other_memory, similarity)) is not None:
                contradictions.append(found)
    merge_steps = _choose_merges(parts.analyser, tx, same_ids, memories)
    merged_ids = {str(step.subject["gone"]) for step in merge_steps}
    unasked = [
        found
        for found in contradictions
        if merged_ids.isdisjoint((found[0].id, found[1].id)) and _is_unasked(tx, found[0])
    ]
    by_newer = {
        found[0].id: found for found in reversed(unasked)
    }  # one question per memory, about its nearest neighbour
    steps = (*merge_steps, *(_contradiction_step(*found) for found in reversed(by_newer.values())))
    until = max((int(row["seq"]) for row in rows), default=after)
    not_compared = tx.one("memories.not_compared", {"after": until}) or {"n": 0}
    return MemoryComparison(steps=steps, until=until, remaining=int(not_compared["n"]))


def missing_vector_steps(parts: Parts, tx: Tx) -> list[Step]:
    """Return a step for each batch of texts without vectors in the current space."""
    if parts.vectors.is_lost:
        return []
    kinds: tuple[OwnerKind, ...] = ("memory", "turn")
    steps: list[Step] = []
    for kind in kinds:
        ids = [owner.id for owner in StoredVectors(tx).missing(kind, parts.vectors.space.id, _MAX_TEXTS_PER_RUN)]
        batches = [ids[start : start + _VECTOR_BATCH] for start in range(0, len(ids), _VECTOR_BATCH)]
        steps += [Step(kind="vectors", subject={"owner": kind, "ids": batch}) for batch in batches]
    return steps


def _find_neighbours(parts: Parts, tx: Tx, ids: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the nearest memories of each memory, with their calibrated similarity.

    A memory without vectors gets the memories that share words with it, at similarity 0.0.
    """
    vectors = parts.vectors
    memories = parts.memories(tx).some(ids)
    stored_vectors = StoredVectors(tx).some("memory", ids, vectors.space.id)
    found: dict[str, dict[str, float]] = {}
    for id_ in ids:
        memory = memories[id_]
        if id_ in stored_vectors:
            groups = frozenset({group_of(memory)})
            cosines = nearest_live_memories(
                tx, vectors.memory_index, stored_vectors[id_][0], _MAX_NEIGHBOURS + 1, groups
            )
            found[id_] = {other: vectors.space.calibrated(cosine) for other, cosine in cosines.items() if other != id_}
        else:
            scope = SearchScope(project=memory.scope.project, user=memory.scope.user, everywhere=False)
            retriever = retriever_for(parts, tx, "memory", scope, NO_FILTERS, parts.analyser.terms(memory.text))
            found[id_] = {other: 0.0 for other in retriever.by_words(_MAX_NEIGHBOURS + 1) if other != id_}
    return found


def _choose_merges(
    analyser: Analyser, tx: Tx, same_ids: Mapping[str, set[str]], memories: Mapping[str, Memory]
) -> list[Step]:
    """Choose the merges: each source is merged once, into a target that stays live and says the same."""
    merging, merged_ids, steps = Merging(tx, analyser), set[str](), list[Step]()
    for target in sorted((memories[id_] for id_ in same_ids), key=rank):
        if target.id in merged_ids:
            continue
        for source in sorted((memories[id_] for id_ in same_ids[target.id]), key=rank):
            can_merge = rank(source) > rank(target) and not source.pinned and source.id not in merged_ids
            if can_merge and not merging.was_merged(target.id, source.id):
                merged_ids.add(source.id)
                steps.append(_merge_step("duplicates", target, source))
    return steps


def _merge_step(kind: StepKind, target: Memory, source: Memory) -> Step:
    description = f"{_shorten(source.text)} → {_shorten(target.text)}"
    return Step(kind=kind, subject={"kept": target.id, "gone": source.id}, description=description)


def _contradiction_step(newer: Memory, older: Memory, reason: str) -> Step:
    description = f"{_shorten(older.text)} ↔ {_shorten(newer.text)}"
    return Step(
        kind="contradictions", subject={"newer": newer.id, "older": older.id, "reason": reason}, description=description
    )


def _is_unasked(tx: Tx, newer: Memory) -> bool:
    """Return True if the user was never asked about this memory."""
    return tx.one("reviews.get", {"memory_id": newer.id}) is None


def _agent(memory: Memory) -> str:
    return memory.scope.agent or memory.scope.channel


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return f"“{line}”" if len(line) <= _MAX_TEXT_CHARACTERS else f"“{line[:_MAX_TEXT_CHARACTERS].rstrip()}…”"


# Doing the steps. Decay is not a step; it is computed when needed (`consolidation.vitality`).

StepSubject = Mapping[str, Any]
Counts = Mapping[str, int]
"""Results of a step, by name. A run stores the sum over its steps."""


class Effects(Struct, frozen=True, kw_only=True):
    """The effects of a step.

    Attributes:
        write: writes the effects and returns the counts; None means that work remains and the step runs again.
        afterwards: runs after the commit.
    """

    write: Callable[[Tx], Counts | None]
    afterwards: Callable[[], None] = lambda: None


Finder = Callable[[Parts, Tx], Sequence[Step]]
StepRunner = Callable[[Parts, StepSubject], Effects]


def read_session(parts: Parts, subject: StepSubject) -> Effects:
    """Read what is new in a session: its summary, its concepts and when they were mentioned."""
    unread = analyse_new_turns(parts, Session(host=subject["host"], id=subject["session"]))
    if unread is None:
        return Effects(write=lambda _: {})
    material, analysis = unread
    return Effects(
        write=lambda tx: {
            "sessions": 1,
            "new_items": store_analysis(parts.clock, parts.analyser, tx, material, analysis),
        }
    )


def read_preferences(parts: Parts, subject: StepSubject) -> Effects:
    """Extract from the user's turns that no memory cites yet, with the same rules as on capture."""
    session = Session(host=subject["host"], id=subject["session"])
    turns = parts.readers.here(lambda tx: Analyses(tx, parts.analyser).turns(session)[0])
    user_turns = [turn for turn in turns if is_to_be_analysed(turn)]
    uncited = parts.readers.here(lambda tx: Turns(tx, parts.analyser).uncited([turn.id for turn in user_turns]))
    readings = [
        _without_retractions(reading)
        for reading in understanding.read_turns(parts, [turn for turn in user_turns if turn.id in uncited])
    ]
    readings = [reading for reading in readings if reading.pending]
    actions = list[Any]()

    def write(tx: Tx) -> Counts:
        still_uncited = Turns(tx, parts.analyser).uncited([reading.turn.id for reading in readings])
        pending: understanding.PendingVectors = {}
        for reading in readings:
            if reading.turn.id in still_uncited:
                actions.extend(understanding.apply_reading(parts, tx, reading, pending))
        _queue_brief(parts.clock, tx, bool(actions))
        return {"new_items": sum(action.name in ("add", "update") for action, _ in actions)}

    def afterwards() -> None:
        if readings:
            understanding.update_index(parts, readings[0].vectors, actions)

    return Effects(write=write, afterwards=afterwards)


def merge_concepts(parts: Parts, subject: StepSubject) -> Effects:
    """Merge a concept into an equal one."""
    return _merge_effects(parts, subject, is_same_concept, "merged_concepts")


def merge_memories(parts: Parts, subject: StepSubject) -> Effects:
    """Merge a memory into one that says the same."""
    return _merge_effects(parts, subject, is_mergeable, "merged_memories")


def add_to_review(parts: StoreContext, subject: StepSubject) -> Effects:
    """Put two contradicting memories up for review."""

    def write(tx: Tx) -> Counts:
        memories = parts.memories(tx).some([subject["newer"]])
        if subject["newer"] not in memories:
            return {}
        origin = _garden_origin(parts.clock, memories[subject["newer"]])
        is_new = Reviews(tx, parts.analyser).contest(subject["newer"], subject["older"], origin, subject["reason"])
        return {"contradictions": int(is_new)}

    return Effects(write=write)


def compute_vectors(parts: Parts, subject: StepSubject) -> Effects:
    """Compute the vectors of some texts; a long text takes several passes of a few windows each.

    Raises:
        EmbedderUnavailable: the model cannot be used.
    """
    vectors = parts.vectors
    owners = parts.readers.here(lambda tx: _texts_without_vectors(parts, tx, subject, vectors.space.id))
    passes = embed_next_windows(parts.readers, vectors.embedder, vectors.space.id, owners) if owners else []
    done_passes = [done_pass for done_pass in passes if done_pass is not None]
    is_more = len(passes) < len(owners) or any(done_pass.first for done_pass in done_passes)

    def write(tx: Tx) -> Counts | None:
        for done_pass in done_passes:
            done_pass.write(tx, vectors.space.id)
            if done_pass.owner.kind == "turn" and not done_pass.first:
                update_vector_for_prompt(tx, done_pass.owner.id, vectors.space.id)
        still_missing = _texts_without_vectors(parts, tx, subject, vectors.space.id)
        return None if is_more and still_missing else {"vectors": len(subject["ids"]) - len(still_missing)}

    def update_index() -> None:
        for done_pass in done_passes:
            done_pass.add_to_index(parts, vectors)

    return Effects(write=write, afterwards=update_index)


def _merge_effects(
    parts: Parts, subject: StepSubject, is_allowed: Callable[[Memory, Memory], bool], count_name: str
) -> Effects:
    target_id, source_id = str(subject["kept"]), str(subject["gone"])

    def write(tx: Tx) -> Counts:
        memories = parts.memories(tx).some([target_id, source_id])
        if len(memories) < 2 or not is_allowed(memories[target_id], memories[source_id]):
            return {}
        target, source = memories[target_id], memories[source_id]
        if source.pinned or rank(source) < rank(target):
            return {}  # the user changed one of them after the plan was made
        merged = Merging(tx, parts.analyser).merge(
            target_id, source_id, _garden_origin(parts.clock, source), "duplicate"
        )
        _queue_brief(parts.clock, tx, merged)
        return {count_name: int(merged)}

    return Effects(write=write, afterwards=lambda: _remove_from_index(parts, source_id))


def _remove_from_index(parts: Parts, memory_id: str) -> None:
    memories = parts.readers.here(lambda tx: parts.memories(tx).some([memory_id]))
    if memory_id not in memories or memories[memory_id].state != "live":
        parts.vectors.memory_index.remove(memory_id)


def _texts_without_vectors(parts: StoreContext, tx: Tx, subject: StepSubject, space_id: str) -> list[Owner]:
    """Return the texts of a batch that still exist and lack vectors."""
    ids = [str(id_) for id_ in subject["ids"]]
    if subject["owner"] == "turn":
        owners = [
            Owner(kind="turn", id=item.id, seq=0, group=item.scope.project or "", text=item.text)
            for item in parts.turns(tx).get(ids)
        ]
    else:
        live = [item for item in parts.memories(tx).some(ids).values() if item.state == "live"]
        owners = [Owner(kind="memory", id=item.id, seq=0, group=group_of(item), text=item.text) for item in live]
    return [item for item in owners if StoredVectors(tx).first_part(item.kind, item.id, space_id) != 0]


def _without_retractions(reading: understanding.Reading) -> understanding.Reading:
    """Drop statements that only retract something.

    They took effect when they were said, and the user may have restored the memory since.
    """
    statements = [item for item in reading.pending if not profile(item.statement.text).retracts]
    return replace(reading, pending=tuple(statements))


def _garden_origin(clock: Clock, memory: Memory) -> Origin:
    """Return the origin of the garden's own changes. It states nothing itself, so it gets the agent's trust level."""
    scope = Scope(user=memory.scope.user, project=memory.scope.project, channel="garden")
    return Origin(scope=scope, trust=TRUST_AGENT, at=clock.now(), made_by="garden", actor="garden")


def _queue_brief(clock: Clock, tx: Tx, is_needed: bool) -> None:
    if is_needed:
        work: dict[str, object] = {"project": None, "everywhere": True}
        Jobs(tx).enqueue("brief", work, dedupe="brief:everywhere", at=clock.now())


def retention_steps(parts: StoreContext, tx: Tx) -> Sequence[Step]:
    """Return one step if any row has passed its retention time."""
    return [Step(kind="retention", subject={})] if is_due(parts, tx) else []


def queue_retention(parts: StoreContext, _: StepSubject) -> Effects:
    """Queue the retention job, which runs after all other work."""
    return Effects(write=lambda tx: {"retentions": int(begin_retention(parts.clock, tx))})


FINDERS: Final[tuple[Finder, ...]] = (concept_merge_steps, missing_vector_steps, retention_steps)
STEP_RUNNERS: Final[Mapping[StepKind, StepRunner]] = {
    "sessions": read_session,
    "concepts": merge_concepts,
    "preferences": read_preferences,
    "duplicates": merge_memories,
    "contradictions": add_to_review,
    "retention": queue_retention,
    "vectors": compute_vectors,
}


# The run: plan, begin, do the next step, end.

_LOG = logging.getLogger(__name__)
GARDEN: Final = "garden"
_INDEX_WAIT_SECONDS: Final = 20.0
#: The error of a run whose job no longer exists.
_JOB_LOST: Final = "Its job was lost, or failed too many times."


class StartedRun(Struct, frozen=True, kw_only=True):
    """A plan, and the run begun with it.

    Attributes:
        garden_id: id of the run; None if there was nothing to do.
    """

    plan: GardenPlan
    garden_id: str | None


def plan(parts: Parts) -> GardenPlan:
    """Plan a run without starting it; just after a start, wait some seconds for the vector index."""
    parts.vectors.ready.wait(_INDEX_WAIT_SECONDS)
    return parts.readers.here(lambda tx: _plan(parts, tx))


def begin(parts: Parts, occasion: Trigger = "hand") -> StartedRun:
    """Plan a run and begin it; it continues in the background.

    Raises:
        Busy: another run is active.
    """
    found, garden_id = plan(parts), new_id(parts.clock.now())

    def store_run(tx: Tx) -> None:
        now = parts.clock.now()
        fail_orphaned_run(parts.clock, tx)
        steps = [RunStep(position=n, kind=step.kind, subject=step.subject) for n, step in enumerate(found.steps)]
        ConsolidationRuns(tx).begin(garden_id, occasion, found.stored_counts(), steps, now)
        Jobs(tx).enqueue(GARDEN, {"garden": garden_id}, dedupe=GARDEN, at=now)

    def store_empty_run(tx: Tx) -> None:
        """Store an empty run, so that the next run continues after the memories compared for this one."""
        if ConsolidationRuns(tx).running() is None and found.memories_until > _compared_until(tx):
            now = parts.clock.now()
            ConsolidationRuns(tx).begin(garden_id, occasion, found.stored_counts(), [], now)
            ConsolidationRuns(tx).end(garden_id, now)

    if not found.steps:
        parts.writer.run(store_empty_run)
        return StartedRun(plan=found, garden_id=None)
    parts.writer.run(store_run)
    parts.work_waiting.set()
    return StartedRun(plan=found, garden_id=garden_id)


def run_next_step(parts: Parts, payload: Mapping[str, Any]) -> JobResult:
    """Job: do the next step of a run, or end the run if no step is left.

    A failing step is counted and skipped. Progress is published after a step is committed.
    """
    garden_id = str(payload["garden"])
    run, step = parts.readers.here(
        lambda tx: (ConsolidationRuns(tx).get(garden_id), ConsolidationRuns(tx).next(garden_id))
    )
    if run.state != "running":
        return JobResult(write=lambda _: None)
    return _end_job(parts.clock, parts.bus, run) if step is None else _step_job(parts, run, step)


def fail_orphaned_run(clock: Clock, tx: Tx) -> None:
    """End a run whose job no longer exists, so that another can begin."""
    run = ConsolidationRuns(tx).running()
    if run is not None and (error := _failure_reason(tx)):
        ConsolidationRuns(tx).end(run.id, clock.now(), error=error)


def run_to_json(tx: Tx, run: ConsolidationRun) -> dict[str, Any]:
    """Return a run as JSON: its state, its steps done so far and its totals."""
    runs = ConsolidationRuns(tx)
    problem = _failure_reason(tx) if run.state == "running" else ""
    if problem:
        run = runs.get(run.id)  # the run may have ended since it was read, which removes its job
    is_running, is_completed = run.state == "running", run.state == "completed"
    error = (problem if is_running else "") or run.error
    return {
        "id": run.id,
        "occasion": run.occasion,
        "state": "failed" if error else run.state,
        "error": error,
        "started_at": to_text(run.started_at),
        "ended_at": text_or_none(run.ended_at),
        "counts": dict(run.counts),
        "steps": {"done": run.steps if is_completed else runs.done_of(run.id, KINDS), "total": run.steps},
        "totals": runs.totals(run.id) if is_running else dict(run.totals),
    }


def progress(
    parts: StoreContext, tx: Tx, garden_id: str, after: int, language: Language | None = None
) -> dict[str, Any]:
    """Return the progress messages of a run after the first `after`, as they were sent, each with its label.

    Args:
        language: of the labels; None = the language in which plans are shown.

    Raises:
        NotFound: there is no run with this id.
    """
    runs = ConsolidationRuns(tx)
    run, spoken = runs.get(garden_id), language or language_of(parts, tx)
    sent = [sent_message.to_json() for sent_message in messages(run, runs.done(garden_id))]
    labelled = [body | {"label": label(body["payload"], spoken)} for body in sent[after:]]
    return {"garden": run_to_json(tx, run), "messages": labelled, "next": len(sent)}


def display_language(parts: Parts) -> Language:
    """Return the language in which plans are shown."""
    return parts.readers.here(lambda tx: language_of(parts, tx))


def _plan(parts: Parts, tx: Tx) -> GardenPlan:
    sessions, sessions_left = unread_session_steps(parts, tx)
    comparison = compare_memories(parts, tx, _compared_until(tx))
    steps = sort_by_kind([*sessions, *comparison.steps, *(step for finder in FINDERS for step in finder(parts, tx))])
    return GardenPlan(
        steps=steps,
        estimate=estimate(steps, ConsolidationRuns(tx).seconds()),
        memories_until=comparison.until,
        remaining=sessions_left + comparison.remaining,
    )


def _compared_until(tx: Tx) -> int:
    """Return the sequence number of the last memory that a completed run compared."""
    last = ConsolidationRuns(tx).last_completed()
    return last.memories_until if last else 0


def _step_job(parts: Parts, run: ConsolidationRun, step: RunStep) -> JobResult:
    # A session that cannot be read must not block the others.
    prepared = Effects(write=_count_failure)
    skipped = "step %d (%s) of the consolidation run %s failed and is skipped"
    with logged(_LOG, skipped, step.position, step.kind, run.id, reraise=(CannotWrite,)):
        prepared = STEP_RUNNERS[step.kind](parts, step.subject)
    sent = list[MemoryProgress]()

    def write(tx: Tx) -> None:
        counts = prepared.write(tx)
        if counts is not None:
            runs = ConsolidationRuns(tx)
            runs.mark(run.id, step.position, {name: n for name, n in counts.items() if n}, parts.clock.now())
            sent[:] = [message(run, step, runs.done_of(run.id, kinds_of(PHASE_OF[step.kind])))]

    def afterwards() -> None:
        prepared.afterwards()
        _publish(parts.bus, sent)

    return JobResult(write=write, afterwards=afterwards, again=lambda: {"garden": run.id})


def _count_failure(_: Tx) -> Counts:
    return {"failed": 1}


def _end_job(clock: Clock, bus: Bus, run: ConsolidationRun) -> JobResult:
    sent = list[MemoryProgress]()

    def write(tx: Tx) -> None:
        ConsolidationRuns(tx).end(run.id, clock.now())
        sent[:] = [completed_message(ConsolidationRuns(tx).get(run.id))]

    return JobResult(write=write, afterwards=lambda: _publish(bus, sent))


def _publish(bus: Bus, progress_messages: Sequence[MemoryProgress]) -> None:
    for sent in progress_messages:
        bus.publish(sent)


def _failure_reason(tx: Tx) -> str:
    """Return why the active run cannot continue; empty if it can."""
    job = Jobs(tx).get_by_key(GARDEN)
    if job is None:
        return _JOB_LOST
    return str(job["error"] or _JOB_LOST) if job["state"] == "dead" else ""


# Starting runs automatically.

_CHECK_SECONDS: Final = 60.0
_CATCH_UP: Final = timedelta(hours=12)


def garden_task(parts: Parts) -> PeriodicTask:
    """Return a periodic task that checks once a minute whether a run is due."""
    failed = "the check for a due consolidation run failed"
    return PeriodicTask(_CHECK_SECONDS, GardenSchedule(parts).check, name="garden", failure_message=failed)


class GardenSchedule:
    """Begins runs when they are due; `check` is called periodically.

    An idle run begins if nothing was captured for `garden_idle_minutes`, there is something to do, and the last
    run is at least `garden_rest_hours` old. If there was nothing to do, the next check waits for a new capture. At
    `garden_hour`, in this machine's time zone, a run begins once a day. A daemon that missed the hour catches up within
    half a day.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._nothing_since: datetime | None = None

    def check(self) -> str | None:
        """Begin a run if one is due; return its id, or None."""
        parts = self._parts
        occasion, captured = parts.readers.here(lambda tx: self._occasion(parts, tx))
        if occasion is None:
            return None
        try:
            begun = begin(parts, occasion)
        except Busy:  # someone began a run by hand a moment ago
            return None
        self._nothing_since = captured if begun.garden_id is None else None
        return begun.garden_id

    def _occasion(self, parts: Parts, tx: Tx) -> tuple[Trigger | None, datetime | None]:
        """Return the reason to begin a run now, if any, and when something was captured last."""
        last = next(iter(ConsolidationRuns(tx).newest(1)), None)
        row = tx.one("events.last")
        captured = from_text(row["at"]) if row and row["at"] else None
        now, settings = parts.clock.now(), parts.settings(tx)
        if ConsolidationRuns(tx).running() is not None or captured is None or captured == self._nothing_since:
            return None, captured
        if is_scheduled(settings, last, now):
            return "schedule", captured
        return ("idle" if is_idle(settings, last, captured, now) else None), captured


def is_idle(settings: Settings, last: ConsolidationRun | None, captured: datetime, now: datetime) -> bool:
    """Return True if nothing was captured for some time and the last run is long enough ago."""
    has_rested = last is None or now - last.started_at >= timedelta(hours=settings.garden_rest_hours)
    is_quiet = now - captured >= timedelta(minutes=settings.garden_idle_minutes)
    return settings.garden_idle_minutes > 0 and has_rested and is_quiet


def is_scheduled(settings: Settings, last: ConsolidationRun | None, now: datetime) -> bool:
    """Return True from the configured hour on, until a run has begun since then or half a day has passed."""
    if settings.garden_hour < 0:
        return False
    local_now = now.astimezone()
    due = local_now.replace(hour=settings.garden_hour, minute=0, second=0, microsecond=0)
    if due > local_now:
        due -= timedelta(days=1)
    return local_now - due < _CATCH_UP and (last is None or last.started_at < due)
