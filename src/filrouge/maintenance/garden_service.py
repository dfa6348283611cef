"""The consolidation run ("garden"): planning it, doing its steps, and starting it (GARD-1 to GARD-5).

A run reads unread sessions, merges duplicate concepts and memories, puts contradictions up for review, queues retention
and makes missing vectors. It is planned first; the plan and its steps are stored.

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
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final

from filrouge.capture.models import TRUST_AGENT
from filrouge.capture.repository import Turns
from filrouge.capture.service import is_to_be_analysed
from filrouge.core.clock import Language, from_text, new_id, text_or_none, time_or_none, to_text
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
    completed,
    concept_key,
    contradiction,
    estimate,
    in_order,
    is_mergeable,
    is_same,
    is_same_concept,
    kinds_of,
    label,
    message,
    messages,
    rank,
)
from filrouge.maintenance.retention import begin_retention, is_due
from filrouge.memories.models import NO_FILTERS, Memory
from filrouge.memories.repository import MemoryWriter, Origin, Reviews, memory_from_row, state_of
from filrouge.runtime.executors import PeriodicTask
from filrouge.runtime.jobs import JobResult, Jobs
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts
from filrouge.search.repository import Owner, OwnerKind, SearchScope, StoredVectors
from filrouge.search.retrievers import nearest_live_memories, retriever_for
from filrouge.search.spaces import embed_next_windows
from filrouge.threads.reports import language_of
from filrouge.threads.upkeep import follow_late_vector

# Stored runs and their steps.

#: Number of latest runs used for the time estimate, and number of latest runs whose steps are kept.
_TIMED, _KEPT = 5, 20


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
                    "place": one.place,
                    "phase": one.kind,
                    "subject": json.dumps(dict(one.subject)),
                }
                for one in steps
            ],
        )

    def get(self, garden_id: str) -> ConsolidationRun:
        """Return one run.

        Raises:
            NotFound: there is no run with this id.
        """
        missing, remedy = f"There is no run {garden_id!r} of the garden.", "See `filrouge garden --list`."
        return _garden(require_row(self._tx, "gardens.get", {"id": garden_id}, missing=missing, remedy=remedy))

    def newest(self, limit: int) -> list[ConsolidationRun]:
        """Return the latest runs, newest first."""
        return [_garden(row) for row in self._tx.all("gardens.newest", {"limit": limit})]

    def running(self) -> ConsolidationRun | None:
        """Return the active run, or None."""
        row = self._tx.one("gardens.running")
        return _garden(row) if row else None

    def last_completed(self) -> ConsolidationRun | None:
        """Return the latest run that completed, or None."""
        row = self._tx.one("gardens.last_completed")
        return _garden(row) if row else None

    def next(self, garden_id: str) -> RunStep | None:
        """Return the first step that is not done, or None."""
        row = self._tx.one("gardens.next_step", {"garden_id": garden_id})
        return _step(row) if row else None

    def mark(self, garden_id: str, place: int, counts: Mapping[str, int], at: datetime) -> None:
        """Mark a step as done and store its counts, in the transaction of its effects.

        Raises:
            Busy: the step is already done, or the run is over; the caller must roll back the effects.
        """
        row = {"garden_id": garden_id, "place": place, "result": json.dumps(dict(counts)), "at": to_text(at)}
        if not self._tx.run("gardens.mark_step", row):
            raise Busy(f"Step {place} of the garden {garden_id} was done by another.")

    def done(self, garden_id: str, *, behind: int = -1) -> list[RunStep]:
        """Return the done steps after the place `behind`, in order."""
        rows = self._tx.all("gardens.steps_done", {"garden_id": garden_id, "behind": behind})
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
        self._tx.run("gardens.prune", {"keep": _KEPT})

    def seconds(self) -> dict[str, float]:
        """Return the median seconds per step of each kind, measured between done marks of the latest runs."""
        spans: dict[str, list[float]] = {}
        before: tuple[str, datetime] | None = None
        for row in self._tx.all("gardens.marks", {"limit": _TIMED}):
            at = from_text(row["done_at"])
            begun = before[1] if before and before[0] == row["garden_id"] else from_text(row["started_at"])
            spans.setdefault(row["phase"], []).append(max(0.0, (at - begun).total_seconds()))
            before = row["garden_id"], at
        return {kind: median(found) for kind, found in spans.items()}


def _garden(row: Mapping[str, Any]) -> ConsolidationRun:
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
    return RunStep(place=row["place"], kind=row["phase"], subject=json.loads(row["subject"]))


# Merging two memories that say the same.

MERGE_ACTION = "merge"


class Merging:
    """Merges two memories. The caller decides whether they are the same.

    The memory that goes is superseded by the one that is kept. It keeps its words, evidence and sessions, so a search
    in its own time still finds it, and erasing its evidence still erases it. The kept memory gets copies of the
    evidence and sessions that it lacked. The journal records what was copied, so an undo removes exactly that. The kept
    memory's trust, confidence and words do not change.
    """

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._writer = MemoryWriter(tx, analyser)

    def merge(self, kept: str, gone: str, origin: Origin, reason: str) -> bool:
        """Merge `gone` into `kept` in the caller's transaction; return False unless both are live."""
        rows = {row["id"]: row for row in self._tx.all("memories.some", {"ids": json.dumps([kept, gone])})}
        if len(rows) < 2 or any(row["state"] != "live" for row in rows.values()):
            return False
        memory = memory_from_row(rows[gone])
        before = state_of(memory)
        after = replace(
            before, state="superseded", valid_to=max(before.valid_from, to_text(origin.at)), superseded_by=kept
        )
        self._writer.states.write({gone: after}, origin.at)
        merged = self._copied(rows[kept], rows[gone])
        payload = self._writer.statement_payload(memory.text, reason, origin) | {"merged": merged}
        self._writer.record(
            origin, MERGE_ACTION, gone, payload, before={gone: before}, after={gone: after}, touches=[kept]
        )
        return True

    def take_back(self, merged: Mapping[str, Any]) -> dict[str, Any]:
        """Undo a merge on the kept memory, or redo an undone one.

        Args:
            merged: the journal's record of the merge, or of its last undo or redo.

        Returns:
            The record for the journal, with the sign of `by` flipped.
        """
        kept, back = merged["kept"], -int(merged["by"])
        self._tx.run(
            "memories.merge_mentions",
            {"id": kept, "by": back * merged["mentions"]}
            | {f"{name}_{place}": merged[name][place] for name in ("first", "last") for place in (0, 1)}
            | {"back": back < 0},
        )
        for turn_id, start, stop in merged["evidence"]:
            row = {"memory_id": kept, "turn_id": turn_id, "start": start, "stop": stop}
            self._tx.run("evidence.withdraw" if back < 0 else "evidence.add", row)
        for host, session_id, first_at, last_at in merged["sessions"]:
            row = {"memory_id": kept, "host": host, "session_id": session_id}
            if back < 0:
                self._tx.run("analyses.unmention_once", row)
            else:
                self._tx.run("analyses.mention_between", row | {"first_at": first_at, "last_at": last_at})
        return {**merged, "by": back}

    def was_merged(self, one: str, other: str) -> bool:
        """Return True if these two were merged once. A user who undid the merge said that they differ."""
        found = Journal(self._tx).entries_about(one)
        return any(entry.action == MERGE_ACTION and {one, other} <= entry.touches for entry in found)

    def _copied(self, kept: Mapping[str, Any], gone: Mapping[str, Any]) -> dict[str, Any]:
        """Copy the evidence and sessions that the kept memory lacks; return a record of what was added."""
        pair = {"kept": kept["id"], "gone": gone["id"]}
        evidence = [[row["turn_id"], row["start"], row["stop"]] for row in self._tx.all("evidence.copy", pair)]
        sessions = [
            [row["host"], row["session_id"], row["first_at"], row["last_at"]]
            for row in self._tx.all("analyses.copy_mentions", pair)
        ]
        first = [kept["first_mention"], min(kept["first_mention"], gone["first_mention"])]
        last = [kept["last_mention"], max(kept["last_mention"], gone["last_mention"])]
        # A concept counts the sessions that mention it, and one session may mention both.
        mentions = len(sessions) if kept["kind"] == "concept" else int(gone["mention_count"])
        row = {"id": kept["id"], "by": mentions, "first_0": first[0], "first_1": first[1], "last_0": last[0]}
        self._tx.run("memories.merge_mentions", row | {"last_1": last[1], "back": False})
        return {
            "kept": kept["id"],
            "by": 1,
            "mentions": mentions,
            "first": first,
            "last": last,
            "evidence": evidence,
            "sessions": sessions,
        }


# Finding the work of a run.

#: Most sessions that one run reads, and most memories that it compares.
MOST_SESSIONS, MOST_COMPARED = 2000, 1000
#: Neighbours that each memory is compared with.
_NEAREST: Final = 6
#: Texts per batch of vectors, and texts per run; the reindex handles the rest.
_VECTOR_BATCH, _MAX_TEXTS_PER_RUN = 16, 1600
_LONGEST_TOLD: Final = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """The result of comparing memories.

    Attributes:
        until: sequence number of the last memory that was compared.
        left: memories left for another run.
    """

    steps: tuple[Step, ...]
    until: int
    left: int


def unread_sessions(parts: Parts, tx: Tx) -> tuple[list[Step], int]:
    """Return two steps for each unread session, and the number of sessions left for another run.

    One step summarises the session; the other looks for what the user stated in it.
    """
    if parts.settings(tx).extract_provider == "off":
        return [], 0
    found = Analyses(tx, parts.analyser).unread()
    subjects = [{"host": one.host, "session": one.id} for one in found[:MOST_SESSIONS]]
    steps = [Step(kind=kind, subject=one) for kind in ("sessions", "preferences") for one in subjects]
    return steps, len(found) - len(subjects)


def equal_concepts(parts: Parts, tx: Tx) -> list[Step]:
    """Return a step for each concept that equals another concept of its project."""
    beside: dict[tuple[str, str | None, frozenset[str]], list[Memory]] = {}
    for row in tx.all("memories.live_concepts"):
        one = memory_from_row(row)
        beside.setdefault((one.scope.user, one.scope.project, concept_key(one.text)), []).append(one)
    merging, steps = Merging(tx, parts.analyser), list[Step]()
    for group in beside.values():
        kept = min(group, key=rank)
        for gone in group:
            if is_same_concept(kept, gone) and not gone.pinned and not merging.was_merged(kept.id, gone.id):
                steps.append(_merge("concepts", kept, gone))
    return steps


def compare_memories(parts: Parts, tx: Tx, after: int, *, most: int = MOST_COMPARED) -> Comparison:
    """Compare up to `most` memories after sequence number `after` with their nearest neighbours.

    Each memory is compared once, when it is new. Pairs that a user set apart, and memories that the user was asked
    about, are skipped. Nothing is compared while the vector index is being filled, because neighbours would be missing.
    """
    if not parts.vectors.ready.is_set():
        return Comparison(steps=(), until=after, left=0)
    rows = tx.all("memories.compared", {"after": after, "limit": most})
    mine = [str(row["id"]) for row in rows]
    near = _near(parts, tx, mine)
    ids = list(dict.fromkeys([*mine, *(other for others in near.values() for other in others)]))
    known = {one.id: one for one in parts.memories(tx).known(ids)}
    isolated = parts.settings(tx).isolation
    same, against = dict[str, set[str]](), list[tuple[Memory, Memory, str]]()
    seen = set[frozenset[str]]()
    for id_ in mine:
        for other, similarity in near[id_].items():
            pair = frozenset((id_, other))
            if len(pair) < 2 or pair in seen or other not in known:
                continue
            seen.add(pair)
            one, two = known[id_], known[other]
            if isolated and _agent(one) != _agent(two):
                continue
            if is_same(one, two, similarity):
                same.setdefault(id_, set()).add(other)
                same.setdefault(other, set()).add(id_)
            elif (found := contradiction(one, two, similarity)) is not None:
                against.append(found)
    merged = _merged(parts, tx, same, known)
    gone = {str(step.subject["gone"]) for step in merged}
    open_ = [one for one in against if gone.isdisjoint((one[0].id, one[1].id)) and _is_open(tx, one[0])]
    asked = {one[0].id: one for one in reversed(open_)}  # one question per memory, about its nearest neighbour
    steps = (*merged, *(_contradiction(*one) for one in reversed(asked.values())))
    until = max((int(row["seq"]) for row in rows), default=after)
    left = tx.one("memories.not_compared", {"after": until}) or {"n": 0}
    return Comparison(steps=steps, until=until, left=int(left["n"]))


def without_vectors(parts: Parts, tx: Tx) -> list[Step]:
    """Return a step for each batch of texts without vectors in the current space."""
    if parts.vectors.is_lost:
        return []
    kinds: tuple[OwnerKind, ...] = ("memory", "turn")
    steps: list[Step] = []
    for kind in kinds:
        ids = [one.id for one in StoredVectors(tx).missing(kind, parts.vectors.space.id, _MAX_TEXTS_PER_RUN)]
        batches = [ids[place : place + _VECTOR_BATCH] for place in range(0, len(ids), _VECTOR_BATCH)]
        steps += [Step(kind="vectors", subject={"owner": kind, "ids": batch}) for batch in batches]
    return steps


def _near(parts: Parts, tx: Tx, ids: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the nearest memories of each memory, with their calibrated similarity.

    A memory without vectors gets the memories that share words with it, at similarity 0.0.
    """
    meaning = parts.vectors
    memories = parts.memories(tx).some(ids)
    vectors = StoredVectors(tx).some("memory", ids, meaning.space.id)
    found: dict[str, dict[str, float]] = {}
    for id_ in ids:
        memory = memories[id_]
        if id_ in vectors:
            groups = frozenset({group_of(memory)})
            cosines = nearest_live_memories(tx, meaning.memory_index, vectors[id_][0], _NEAREST + 1, groups)
            found[id_] = {other: meaning.space.calibrated(cosine) for other, cosine in cosines.items() if other != id_}
        else:
            place = SearchScope(project=memory.scope.project, user=memory.scope.user, everywhere=False)
            words = retriever_for(parts, tx, "memory", place, NO_FILTERS, parts.analyser.terms(memory.text))
            found[id_] = {other: 0.0 for other in words.by_words(_NEAREST + 1) if other != id_}
    return found


def _merged(parts: Parts, tx: Tx, same: Mapping[str, set[str]], known: Mapping[str, Memory]) -> list[Step]:
    """Choose the merges: each memory goes at most once, into one that stays, and only if those two say the same."""
    merging, gone, steps = Merging(tx, parts.analyser), set[str](), list[Step]()
    for kept in sorted((known[id_] for id_ in same), key=rank):
        if kept.id in gone:
            continue
        for other in sorted((known[id_] for id_ in same[kept.id]), key=rank):
            goes = rank(other) > rank(kept) and not other.pinned and other.id not in gone
            if goes and not merging.was_merged(kept.id, other.id):
                gone.add(other.id)
                steps.append(_merge("duplicates", kept, other))
    return steps


def _merge(kind: StepKind, kept: Memory, gone: Memory) -> Step:
    told = f"{_short(gone.text)} → {_short(kept.text)}"
    return Step(kind=kind, subject={"kept": kept.id, "gone": gone.id}, told=told)


def _contradiction(newer: Memory, older: Memory, reason: str) -> Step:
    told = f"{_short(older.text)} ↔ {_short(newer.text)}"
    return Step(kind="contradictions", subject={"newer": newer.id, "older": older.id, "reason": reason}, told=told)


def _is_open(tx: Tx, newer: Memory) -> bool:
    """Return True if the user was never asked about this memory."""
    return tx.one("reviews.get", {"memory_id": newer.id}) is None


def _agent(memory: Memory) -> str:
    return memory.scope.agent or memory.scope.channel


def _short(text: str) -> str:
    line = " ".join(text.split())
    return f"“{line}”" if len(line) <= _LONGEST_TOLD else f"“{line[:_LONGEST_TOLD].rstrip()}…”"


# Doing the steps. Decay is not a step; it is computed when needed (`consolidation.vitality`).

StepSubject = Mapping[str, Any]
Counts = Mapping[str, int]
"""What a step came to, by name; those of a run are summed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effects:
    """The effects of a step.

    Attributes:
        write: writes the effects and returns the counts; None means that work remains and the step runs again.
        afterwards: runs after the commit.
    """

    write: Callable[[Tx], Counts | None]
    afterwards: Callable[[], None] = lambda: None


Finder = Callable[[Parts, Tx], Sequence[Step]]
Doer = Callable[[Parts, StepSubject], Effects]


def read_session(parts: Parts, subject: StepSubject) -> Effects:
    """Read what is new in a session: its summary, its concepts and when they were mentioned."""
    found = analyse_new_turns(parts, Session(host=subject["host"], id=subject["session"]))
    if found is None:
        return Effects(write=lambda _: {})
    material, analysis = found
    return Effects(write=lambda tx: {"sessions": 1, "new_items": store_analysis(parts, tx, material, analysis)})


def read_preferences(parts: Parts, subject: StepSubject) -> Effects:
    """Extract from the user's turns that no memory cites yet, with the same rules as on capture."""
    session = Session(host=subject["host"], id=subject["session"])
    turns = parts.readers.here(lambda tx: Analyses(tx, parts.analyser).turns(session)[0])
    own = [turn for turn in turns if is_to_be_analysed(turn)]
    wanted = parts.readers.here(lambda tx: Turns(tx, parts.analyser).uncited([turn.id for turn in own]))
    readings = [
        _without_retractions(one) for one in understanding.read_turns(parts, [t for t in own if t.id in wanted])
    ]
    readings = [one for one in readings if one.pending]
    done = list[Any]()

    def write(tx: Tx) -> Counts:
        still = Turns(tx, parts.analyser).uncited([one.turn.id for one in readings])
        fresh: understanding.PendingVectors = {}
        for one in readings:
            if one.turn.id in still:
                done.extend(understanding.apply_reading(parts, tx, one, fresh))
        _queue_brief(parts, tx, bool(done))
        return {"new_items": sum(action.name in ("add", "update") for action, _ in done)}

    def afterwards() -> None:
        if readings:
            understanding.update_index(parts, readings[0].vectors, done)

    return Effects(write=write, afterwards=afterwards)


def merge_concepts(parts: Parts, subject: StepSubject) -> Effects:
    """Merge a concept into an equal one."""
    return _merging(parts, subject, is_same_concept, "merged_concepts")


def merge_memories(parts: Parts, subject: StepSubject) -> Effects:
    """Merge a memory into one that says the same."""
    return _merging(parts, subject, is_mergeable, "merged_memories")


def ask_about(parts: Parts, subject: StepSubject) -> Effects:
    """Put two contradicting memories up for review."""

    def write(tx: Tx) -> Counts:
        known = parts.memories(tx).some([subject["newer"]])
        if subject["newer"] not in known:
            return {}
        origin = _garden_origin(parts, known[subject["newer"]])
        asked = Reviews(tx, parts.analyser).contest(subject["newer"], subject["older"], origin, subject["reason"])
        return {"contradictions": int(asked)}

    return Effects(write=write)


def make_vectors(parts: Parts, subject: StepSubject) -> Effects:
    """Make the vectors of some texts; a long text takes several passes of a few windows each.

    Raises:
        EmbedderUnavailable: the model cannot be used.
    """
    meaning = parts.vectors
    owners = parts.readers.here(lambda tx: _owners(parts, tx, subject, meaning.space.id))
    passes = embed_next_windows(parts, meaning.embedder, meaning.space.id, owners) if owners else []
    made = [one for one in passes if one is not None]
    is_more = len(passes) < len(owners) or any(one.first for one in made)

    def write(tx: Tx) -> Counts | None:
        for one in made:
            one.write(tx, meaning.space.id)
            if one.owner.kind == "turn" and not one.first:
                follow_late_vector(tx, one.owner.id, meaning.space.id)
        lacking = _owners(parts, tx, subject, meaning.space.id)
        return None if is_more and lacking else {"vectors": len(subject["ids"]) - len(lacking)}

    def show() -> None:
        for one in made:
            one.add_to_index(parts, meaning)

    return Effects(write=write, afterwards=show)


def _merging(parts: Parts, subject: StepSubject, may: Callable[[Memory, Memory], bool], counted: str) -> Effects:
    kept_id, gone_id = str(subject["kept"]), str(subject["gone"])

    def write(tx: Tx) -> Counts:
        known = parts.memories(tx).some([kept_id, gone_id])
        if len(known) < 2 or not may(known[kept_id], known[gone_id]):
            return {}
        kept, gone = known[kept_id], known[gone_id]
        if gone.pinned or rank(gone) < rank(kept):
            return {}  # the user changed one of them after the plan was made
        merged = Merging(tx, parts.analyser).merge(kept_id, gone_id, _garden_origin(parts, gone), "duplicate")
        _queue_brief(parts, tx, merged)
        return {counted: int(merged)}

    return Effects(write=write, afterwards=lambda: _leave_index(parts, gone_id))


def _leave_index(parts: Parts, memory_id: str) -> None:
    known = parts.readers.here(lambda tx: parts.memories(tx).some([memory_id]))
    if memory_id not in known or known[memory_id].state != "live":
        parts.vectors.memory_index.remove(memory_id)


def _owners(parts: Parts, tx: Tx, subject: StepSubject, space_id: str) -> list[Owner]:
    """Return the texts of a batch that still exist and lack vectors."""
    ids = [str(id_) for id_ in subject["ids"]]
    if subject["owner"] == "turn":
        owners = [
            Owner(kind="turn", id=one.id, seq=0, group=one.scope.project or "", text=one.text)
            for one in parts.turns(tx).get(ids)
        ]
    else:
        live = [one for one in parts.memories(tx).some(ids).values() if one.state == "live"]
        owners = [Owner(kind="memory", id=one.id, seq=0, group=group_of(one), text=one.text) for one in live]
    return [one for one in owners if StoredVectors(tx).first_part(one.kind, one.id, space_id) != 0]


def _without_retractions(reading: understanding.Reading) -> understanding.Reading:
    """Drop statements that only retract something.

    They took effect when they were said, and the user may have restored the memory since.
    """
    kept = [one for one in reading.pending if not profile(one.statement.text).retracts]
    return replace(reading, pending=tuple(kept))


def _garden_origin(parts: Parts, memory: Memory) -> Origin:
    """Return the origin of the garden's own changes. It states nothing itself, so it gets the agent's trust level."""
    scope = Scope(user=memory.scope.user, project=memory.scope.project, channel="garden")
    return Origin(scope=scope, trust=TRUST_AGENT, at=parts.clock.now(), made_by="garden", actor="garden")


def _queue_brief(parts: Parts, tx: Tx, wanted: bool) -> None:
    if wanted:
        work: dict[str, object] = {"project": None, "everywhere": True}
        Jobs(tx).enqueue("brief", work, dedupe="brief:everywhere", at=parts.clock.now())


def retention_steps(parts: Parts, tx: Tx) -> Sequence[Step]:
    """Return one step if any row has passed its retention time."""
    return [Step(kind="retention", subject={})] if is_due(parts, tx) else []


def queue_retention(parts: Parts, _: StepSubject) -> Effects:
    """Queue the retention job, which runs after all other work."""
    return Effects(write=lambda tx: {"retentions": int(begin_retention(parts, tx))})


FINDERS: Final[tuple[Finder, ...]] = (equal_concepts, without_vectors, retention_steps)
DOERS: Final[Mapping[StepKind, Doer]] = {
    "sessions": read_session,
    "concepts": merge_concepts,
    "preferences": read_preferences,
    "duplicates": merge_memories,
    "contradictions": ask_about,
    "retention": queue_retention,
    "vectors": make_vectors,
}


# The run: plan, begin, do the next step, end.

_LOG = logging.getLogger(__name__)
GARDEN: Final = "garden"
_FILLING_SECONDS: Final = 20.0
#: The error of a run whose job no longer exists.
_LOST: Final = "Its job was lost, or failed too many times."


@dataclass(frozen=True, kw_only=True, slots=True)
class StartedRun:
    """A plan and the id of the run begun with it; None if there was nothing to do."""

    plan: GardenPlan
    garden_id: str | None


def plan(parts: Parts) -> GardenPlan:
    """Plan a run without starting it; just after a start, wait some seconds for the vector index."""
    parts.vectors.ready.wait(_FILLING_SECONDS)
    return parts.readers.here(lambda tx: _plan(parts, tx))


def begin(parts: Parts, occasion: Trigger = "hand") -> StartedRun:
    """Plan a run and begin it; it continues in the background.

    Raises:
        Busy: another run is active.
    """
    found, garden_id = plan(parts), new_id(parts.clock.now())

    def write(tx: Tx) -> None:
        now = parts.clock.now()
        fail_orphaned_run(parts, tx)
        steps = [RunStep(place=n, kind=one.kind, subject=one.subject) for n, one in enumerate(found.steps)]
        ConsolidationRuns(tx).begin(garden_id, occasion, found.kept(), steps, now)
        Jobs(tx).enqueue(GARDEN, {"garden": garden_id}, dedupe=GARDEN, at=now)

    def note(tx: Tx) -> None:
        """Store an empty run, so that the next run continues after the memories compared for this one."""
        if ConsolidationRuns(tx).running() is None and found.memories_until > _compared_until(tx):
            now = parts.clock.now()
            ConsolidationRuns(tx).begin(garden_id, occasion, found.kept(), [], now)
            ConsolidationRuns(tx).end(garden_id, now)

    if not found.steps:
        parts.writer.run(note)
        return StartedRun(plan=found, garden_id=None)
    parts.writer.run(write)
    parts.work_waiting.set()
    return StartedRun(plan=found, garden_id=garden_id)


def run_next_step(parts: Parts, payload: Mapping[str, Any]) -> JobResult:
    """Job: do the next step of a run, or end the run if no step is left.

    A failing step is counted and skipped. Progress is published after a step is committed.
    """
    garden_id = str(payload["garden"])
    garden, step = parts.readers.here(
        lambda tx: (ConsolidationRuns(tx).get(garden_id), ConsolidationRuns(tx).next(garden_id))
    )
    if garden.state != "running":
        return JobResult(write=lambda _: None)
    return _end_job(parts, garden) if step is None else _step_job(parts, garden, step)


def fail_orphaned_run(parts: Parts, tx: Tx) -> None:
    """End a run whose job no longer exists, so that another can begin."""
    garden = ConsolidationRuns(tx).running()
    if garden is not None and (error := _failure_reason(tx)):
        ConsolidationRuns(tx).end(garden.id, parts.clock.now(), error=error)


def described(tx: Tx, garden: ConsolidationRun) -> dict[str, Any]:
    """Return a run as JSON: its state, its steps done so far and its totals."""
    gardens = ConsolidationRuns(tx)
    trouble = _failure_reason(tx) if garden.state == "running" else ""
    if trouble:
        garden = gardens.get(garden.id)  # the run may have ended since it was read, which removes its job
    is_running, is_over = garden.state == "running", garden.state == "completed"
    error = (trouble if is_running else "") or garden.error
    return {
        "id": garden.id,
        "occasion": garden.occasion,
        "state": "failed" if error else garden.state,
        "error": error,
        "started_at": to_text(garden.started_at),
        "ended_at": text_or_none(garden.ended_at),
        "counts": dict(garden.counts),
        "steps": {"done": garden.steps if is_over else gardens.done_of(garden.id, KINDS), "total": garden.steps},
        "totals": gardens.totals(garden.id) if is_running else dict(garden.totals),
    }


def progress(parts: Parts, tx: Tx, garden_id: str, after: int) -> dict[str, Any]:
    """Return the progress messages of a run after the first `after`, as they were sent, each with its label.

    Raises:
        NotFound: there is no run with this id.
    """
    gardens = ConsolidationRuns(tx)
    garden, language = gardens.get(garden_id), language_of(parts, tx)
    found = [one.to_json() for one in messages(garden, gardens.done(garden_id))]
    told = [one | {"label": label(one["payload"], language)} for one in found[after:]]
    return {"garden": described(tx, garden), "messages": told, "next": len(found)}


def language_shown(parts: Parts) -> Language:
    """Return the language in which plans are shown."""
    return parts.readers.here(lambda tx: language_of(parts, tx))


def _plan(parts: Parts, tx: Tx) -> GardenPlan:
    sessions, left = unread_sessions(parts, tx)
    others = compare_memories(parts, tx, _compared_until(tx))
    found = in_order([*sessions, *others.steps, *(step for finder in FINDERS for step in finder(parts, tx))])
    return GardenPlan(
        steps=found,
        estimate=estimate(found, ConsolidationRuns(tx).seconds()),
        memories_until=others.until,
        left=left + others.left,
    )


def _compared_until(tx: Tx) -> int:
    """Return the sequence number of the last memory that a completed run compared."""
    last = ConsolidationRuns(tx).last_completed()
    return last.memories_until if last else 0


def _step_job(parts: Parts, garden: ConsolidationRun, step: RunStep) -> JobResult:
    # One session that cannot be read must not hold up the others.
    prepared = Effects(write=_failed)
    passed_over = "step %d (%s) of the garden %s is passed over"
    with logged(_LOG, passed_over, step.place, step.kind, garden.id, reraise=(CannotWrite,)):
        prepared = DOERS[step.kind](parts, step.subject)
    told = list[MemoryProgress]()

    def write(tx: Tx) -> None:
        counts = prepared.write(tx)
        if counts is not None:
            gardens = ConsolidationRuns(tx)
            gardens.mark(garden.id, step.place, {name: n for name, n in counts.items() if n}, parts.clock.now())
            told[:] = [message(garden, step, gardens.done_of(garden.id, kinds_of(PHASE_OF[step.kind])))]

    def afterwards() -> None:
        prepared.afterwards()
        _publish(parts, told)

    return JobResult(write=write, afterwards=afterwards, again=lambda: {"garden": garden.id})


def _failed(_: Tx) -> Counts:
    return {"failed": 1}


def _end_job(parts: Parts, garden: ConsolidationRun) -> JobResult:
    told = list[MemoryProgress]()

    def write(tx: Tx) -> None:
        ConsolidationRuns(tx).end(garden.id, parts.clock.now())
        told[:] = [completed(ConsolidationRuns(tx).get(garden.id))]

    return JobResult(write=write, afterwards=lambda: _publish(parts, told))


def _publish(parts: Parts, told: Sequence[MemoryProgress]) -> None:
    for one in told:
        parts.bus.publish(one)


def _failure_reason(tx: Tx) -> str:
    """Return why the active run cannot continue; empty if it can."""
    known = Jobs(tx).get_by_key(GARDEN)
    if known is None:
        return _LOST
    return str(known["error"] or _LOST) if known["state"] == "dead" else ""


# Starting runs automatically.

_LOOK_SECONDS: Final = 60.0
_LATE: Final = timedelta(hours=12)


def garden_watch(parts: Parts) -> PeriodicTask:
    """Return a periodic task that checks once a minute whether a run is due."""
    failed = "the check for a due consolidation run failed"
    return PeriodicTask(_LOOK_SECONDS, Watch(parts).look, name="garden", failure_message=failed)


class Watch:
    """Begins runs when they are due; `look` is called periodically.

    An idle run begins if nothing was captured for `garden_idle_minutes`, there is something to do, and the last
    run is at least `garden_rest_hours` old. If there was nothing to do, the next check waits for a new capture. At
    `garden_hour`, in this machine's time zone, a run begins once a day. A daemon that missed the hour catches up within
    half a day.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._nothing_since: datetime | None = None

    def look(self) -> str | None:
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
        if is_hour(settings, last, now):
            return "schedule", captured
        return ("idle" if is_idle(settings, last, captured, now) else None), captured


def is_idle(settings: Settings, last: ConsolidationRun | None, captured: datetime, now: datetime) -> bool:
    """Return True if nothing was captured for some time and the last run is long enough ago."""
    rested = last is None or now - last.started_at >= timedelta(hours=settings.garden_rest_hours)
    quiet = now - captured >= timedelta(minutes=settings.garden_idle_minutes)
    return settings.garden_idle_minutes > 0 and rested and quiet


def is_hour(settings: Settings, last: ConsolidationRun | None, now: datetime) -> bool:
    """Return True from the configured hour on, until a run has begun since then or half a day has passed."""
    if settings.garden_hour < 0:
        return False
    here = now.astimezone()
    due = here.replace(hour=settings.garden_hour, minute=0, second=0, microsecond=0)
    if due > here:
        due -= timedelta(days=1)
    return here - due < _LATE and (last is None or last.started_at < due)
