"""Capture in the daemon: storing events and queueing the jobs that process them.

Events come from hooks, from the spool that hooks fill while no daemon answers, and from a host's transcript. An event
is acknowledged once it is on disk and processed afterwards by jobs. Every source may deliver the same message again;
repeated deliveries are recognised. Imported messages are processed a few at a time, behind all other work.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from msgspec import Struct

from filrouge.capture import inbox
from filrouge.capture.events import Event, event_from_json, strip_injected_blocks
from filrouge.capture.intake import CutCounts, build_turn, clean_event
from filrouge.capture.models import TRUST_AGENT, TRUST_PROMPT, TRUST_TOOL, TranscriptRecord, Turn
from filrouge.capture.repository import Events, Turns
from filrouge.core.clock import Clock, from_epoch, monotonic, to_text
from filrouge.core.errors import Busy, CannotWrite, Corrupt
from filrouge.core.guard import logged
from filrouge.core.paths import SPOOL, inside
from filrouge.core.protocols import Redactor, Tx
from filrouge.core.scope import Scope, display_name
from filrouge.erasure.tombstones import TombstoneFilter
from filrouge.extraction import reader
from filrouge.extraction.repository import Session
from filrouge.extraction.understanding import queue_reading
from filrouge.hosts.project import MAX_BRANCH_CHARACTERS, find_names
from filrouge.hosts.transcript_lines import read_from
from filrouge.hosts.transcripts import context_usage, records
from filrouge.projects.repository import Projects
from filrouge.runtime.executors import PeriodicTask
from filrouge.runtime.jobs import JobResult, Jobs
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.spaces import queue_vectors
from filrouge.threads.placing import queue_placing
from filrouge.threads.synthesis_service import FULL_CONTEXT_SHARE, queue_synthesis

# Jobs that follow from a new turn: extraction by rules, vectors, thread assignment, and reading by a model.


def queue_turn_jobs(parts: Parts, tx: Tx, turns: Sequence[Turn]) -> bool:
    """Queue the jobs that follow from new turns; return True if extraction reads any of them."""
    to_analyse = [turn for turn in turns if is_to_be_analysed(turn) or _may_agree_to_message(parts, tx, turn)]
    _queue_jobs(parts.clock, tx, turns, to_analyse)
    queue_reading(parts, tx, turns)
    return bool(to_analyse)


def queue_import_jobs(clock: Clock, tx: Tx, turns: Sequence[Turn]) -> None:
    """Queue the jobs that follow from imported turns.

    User turns are read by the rules regardless of their trust, and no model is called.
    """
    _queue_jobs(clock, tx, turns, [turn for turn in turns if turn.role == "user" and not turn.skipped])


def _queue_jobs(clock: Clock, tx: Tx, turns: Sequence[Turn], turns_to_analyse: Sequence[Turn]) -> None:
    now, jobs, ids_to_analyse = clock.now(), Jobs(tx), {turn.id for turn in turns_to_analyse}
    for turn in turns:
        if turn.id in ids_to_analyse:
            work = {"turn": turn.id} | ({"event": turn.event_id} if turn.event_id else {})
            jobs.enqueue("analyse", work, dedupe=f"analyse:{turn.id}", at=now)
        if turn.role != "tool":
            queue_vectors(tx, "turn", turn.id, now)
    queue_placing(clock, tx, turns)


def is_to_be_analysed(turn: Turn) -> bool:
    """Return True if memories may be extracted from a turn: the user's own words, not filtered as noise."""
    return turn.role == "user" and turn.trust >= TRUST_PROMPT and not turn.skipped


def _may_agree_to_message(parts: StoreContext, tx: Tx, turn: Turn) -> bool:
    """Return True for a prompt without content of its own that may agree with the agent's message before it."""
    return bool(turn.skipped) and reader.may_agree(turn) and parts.turns(tx).answered_message(turn) is not None


# Storing events. They are acknowledged once they are on disk, and processed afterwards.

#: Hosts write their transcript a moment after they run the hook.
_TRANSCRIPT_LAG_SECONDS = 2.0


class DeliveryResult(Struct, frozen=True, kw_only=True):
    """The result of a delivery.

    Attributes:
        projects: project id of each event, in order; '' for no project, None if capture is off.
        new: whether each event was stored now, in order.
    """

    accepted: int
    duplicates: int
    projects: tuple[str | None, ...]
    new: tuple[bool, ...]


def store_events(parts: Parts, events: Sequence[Event]) -> Future[DeliveryResult]:
    """Store events; the future completes once they are on disk. If capture is off, nothing is stored.

    A hook checks the capture switches itself, but it reads a copy of them, and not every program uses the hook.
    """
    parts.last_capture = monotonic()
    directories = {event.cwd for event in events}
    settings = parts.readers.here(lambda tx: {cwd: parts.settings(tx, cwd) for cwd in directories})
    counts = CutCounts()
    deliveries = list[tuple[Event, frozenset[str]] | None]()
    for event in events:
        own_settings, delivery = settings[event.cwd], None
        if own_settings.auto_capture:
            delivery = clean_event(event, parts.redact, counts), frozenset(own_settings.disabled_projects)
        deliveries.append(delivery)
    parts.metrics.count_cut(counts)
    future = parts.writer.submit(lambda tx: _store_events(parts.clock, parts.tombstones, tx, deliveries))
    future.add_done_callback(lambda _: parts.work_waiting.set())
    return future


def _store_events(
    clock: Clock, tombstones: TombstoneFilter, tx: Tx, deliveries: Sequence[tuple[Event, frozenset[str]] | None]
) -> DeliveryResult:
    projects, new = list[str | None](), list[bool]()
    for delivery in deliveries:
        if delivery is None or is_capture_off(tx, delivery[0].project, delivery[1]):
            projects.append(None)
            new.append(False)
            continue
        event = delivery[0]
        project = _store_event(clock, tombstones, tx, event)
        new.append(project is not None)
        projects.append(project if project is not None else Projects(tx).find(event.project) or "")
    captured = len(projects) - projects.count(None)
    return DeliveryResult(accepted=sum(new), duplicates=captured - sum(new), projects=tuple(projects), new=tuple(new))


def is_capture_off(tx: Tx, names: tuple[str, ...], disabled: frozenset[str]) -> bool:
    """Return True if one of the switched-off names belongs to this project."""
    if not disabled or not names:
        return False
    project = Projects(tx).find(names)
    aliases = Projects(tx).aliases(project) if project else []
    return bool(disabled & {*names, display_name(names), project or "", *aliases})


def _store_event(clock: Clock, tombstones: TombstoneFilter, tx: Tx, event: Event) -> str | None:
    """Store an event and queue its jobs; return its project's id, or None if it was already stored."""
    now, jobs = clock.now(), Jobs(tx)
    remaining = tombstones.without_forgotten(tx, event)
    if remaining is None:
        return Events(tx).add_forgotten(event, received_at=now)
    event = remaining
    project = Events(tx).add(event, received_at=now)
    if project is None:
        return None
    jobs.enqueue("read_turns", {"event": event.id}, dedupe=f"read_turns:{event.id}", at=now)
    if event.transcript and event.kind in ("prompt", "reply", "pre_compact", "session_end"):
        work = {
            "path": event.transcript,
            "host": event.host,
            "session": event.session,
            "project": project,
            "cwd": event.cwd,
            "branch": event.branch,
        }
        # One waiting read serves all events before it. The last events of a conversation get their own read, because a
        # read that is running at that moment may have started too early.
        suffix = f":{event.id}" if event.kind in ("pre_compact", "session_end") else ""
        dedupe_key = f"reconcile:{event.transcript}{suffix}"
        jobs.enqueue("reconcile", work, dedupe=dedupe_key, at=now, delay=_TRANSCRIPT_LAG_SECONDS)
    return project


# The spool: events that hooks wrote while no daemon answered.

_LOG = logging.getLogger(__name__)
#: How often the spool is read. A start of a session reads it at once.
_DRAIN_INTERVAL_SECONDS = 5.0
#: A hook runs for one second at most; after this time its unfinished file will not change.
_ABANDONED_SECONDS = 60.0
#: Maximum spool files taken in while a caller waits; each takes a few milliseconds.
_MAX_FILES_WHILE_WAITING = 32


def drain_spool(parts: Parts) -> int:
    """Take in every waiting spool file, oldest first; return how many events were new.

    A file is removed only after its events are in the database. If it is read twice, its events are recognised.
    """
    accepted = 0
    abandoned_before = parts.clock.now().timestamp() - _ABANDONED_SECONDS
    for path in inbox.waiting_files(inside(parts.home, SPOOL), abandoned_before=abandoned_before):
        # One file that cannot be taken in must not hold up the others. If the database is at fault, every file stays.
        database_errors = (CannotWrite, Corrupt, Busy)
        with logged(_LOG, "spool file %s is set aside", os.path.basename(path), reraise=database_errors) as attempt:
            try:
                accepted += _store_spool_file(parts, path)
            except OSError as error:
                _LOG.warning("spool file %s cannot be read: %s", os.path.basename(path), error)
        if attempt.failed:
            inbox.set_aside(path)
    return accepted


def drain_spool_quickly(parts: Parts) -> None:
    """Take in a few spool files while a caller waits; do nothing if there are too many."""
    waiting = inbox.waiting_files(inside(parts.home, SPOOL))
    # The next pass over the spool meets a file that fails here again, and sets it aside.
    with logged(_LOG, "the spool was not read before the session start"):
        for path in waiting if len(waiting) <= _MAX_FILES_WHILE_WAITING else ():
            _store_spool_file(parts, path)


def _store_spool_file(parts: Parts, path: str) -> int:
    spooled = inbox.read_spool_file(path)
    if spooled.torn or spooled.bad:
        _LOG.warning("spool file %s: incomplete last record or %d damaged records", os.path.basename(path), spooled.bad)
    events = [event for raw in spooled.events if (event := _parse_event(raw)) is not None]
    accepted = store_events(parts, events).result().accepted if events else 0
    inbox.remove_spool_file(path)
    return accepted


def spool_task(parts: Parts) -> PeriodicTask:
    """Return a task that drains the spool every few seconds; a hook that gives up on a busy daemon leaves a file."""
    message = "the spool could not be drained; its files are kept"
    return PeriodicTask(_DRAIN_INTERVAL_SECONDS, lambda: drain_spool(parts), name="spool", failure_message=message)


def _parse_event(raw: dict[str, object]) -> Event | None:
    try:
        return event_from_json(raw)
    except ValueError as error:
        _LOG.warning("a spooled event was dropped: %s", error)
        return None


# Reconciling a host's transcript with what its hooks reported.

_TRUST_BY_ROLE = {"user": TRUST_PROMPT, "assistant": TRUST_AGENT, "tool": TRUST_TOOL}
#: A record id of this length or more is unique everywhere; a shorter one is a position in the file.
UNIQUE_KEY_LENGTH = 32


def reconcile(parts: Parts, payload: Mapping[str, Any]) -> JobResult:
    """Job: read a transcript's new lines and store the turns that are new.

    Hooks race with the transcript and can be missed; the transcript is complete but late. Offset and turns are written
    in one transaction. A message that a hook reported is recognised, and only gets the record's id added.
    """
    path, host = str(payload["path"]), str(payload["host"])
    state = parts.readers.here(lambda tx: tx.one("transcripts.get", {"path": path}))
    start = int(state["byte_offset"]) if state else 0
    chunk = read_from(path, start)
    new_records = list(records(host, chunk.lines))
    usage = context_usage(host, chunk.lines)
    project_names_by_cwd = {cwd: _other_project_names(cwd, payload) for cwd in {record.cwd for record in new_records}}

    def write(tx: Tx) -> None:
        store, now = parts.turns(tx), parts.clock.now()
        projects = {cwd: Projects(tx).resolve(names, at=now) for cwd, names in project_names_by_cwd.items() if names}
        reported_project = str(payload["project"]) or None
        records_with_turns = [
            (
                record,
                _turn_from_record(
                    parts.clock, parts.redact, payload, record, projects.get(record.cwd, reported_project)
                ),
            )
            for record in new_records
        ]
        turns = [
            turn
            for record, turn in records_with_turns
            if not parts.tombstones.refuses(tx, turn, turn.at if record.at else None)
        ]
        queue_turn_jobs(parts, tx, [turn for turn in turns if add_transcript_turn(store, turn)])
        if (usage or 0.0) >= FULL_CONTEXT_SHARE:
            queue_synthesis(parts, tx, Session(host=host, id=str(payload["session"])), "pre_compact")
        tx.run(
            "transcripts.put",
            {
                "path": path,
                "host": host,
                "session_id": payload["session"],
                "byte_offset": chunk.offset,
                "skipped_long": chunk.skipped_long,
                "read_at": to_text(parts.clock.now()),
            },
        )
        if chunk.offset > start:
            # There may be more: one read returns a few megabytes at most.
            Jobs(tx).enqueue(
                "reconcile", payload, dedupe=f"reconcile:{path}:{chunk.offset}", at=parts.clock.now(), delay=0.1
            )

    return JobResult(write=write)


def add_transcript_turn(store: Turns, turn: Turn) -> bool:
    """Store a turn from a transcript; return False if it is already stored, from any source."""
    # A tool result has the same id in the hook's payload and in the transcript, so its key is enough.
    return store.add(turn) if turn.role == "tool" else store.add_from_transcript(turn)


def _other_project_names(cwd: str, payload: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the names of another project that the agent worked in; None if it is the reported one."""
    reported = str(payload.get("cwd") or "")
    if not cwd or not reported or cwd == reported:
        return None
    known_as = find_names(cwd, {})
    in_repository = any(not name.startswith("path:") for name in known_as)
    nested = f"{cwd}/".startswith(f"{reported}/") or f"{reported}/".startswith(f"{cwd}/")
    return None if nested and not in_repository else known_as


def _branch_of_record(payload: Mapping[str, Any], record: TranscriptRecord) -> str:
    """Return the record's branch, else the hook's branch, unless the agent was in another directory by then."""
    moved = record.cwd and record.cwd != payload.get("cwd")
    branch = record.branch or ("" if moved else str(payload.get("branch") or ""))
    return branch[:MAX_BRANCH_CHARACTERS].encode("utf-8", "replace").decode()  # a lone surrogate cannot be stored


def _turn_from_record(
    clock: Clock, redact: Redactor, payload: Mapping[str, Any], record: TranscriptRecord, project: str | None
) -> Turn:
    at = from_epoch(record.at) if record.at else clock.now()
    text = redact(strip_injected_blocks(record.text))
    session = str(payload["session"])
    key = record.key if len(record.key) >= UNIQUE_KEY_LENGTH else f"{session}:{record.key}"
    return build_turn(
        key=f"tool:{record.call_id}" if record.call_id else key,
        scope=Scope(
            project=project, channel=str(payload["host"]), session=session, branch=_branch_of_record(payload, record)
        ),
        role=record.role,
        source=record.source,
        text=text,
        at=at,
        trust=_TRUST_BY_ROLE[record.role],
    )


# Processing imported messages in the background.

BACKFILL: Final = "backfill"
#: Maximum messages whose jobs may run before those of a prompt that arrives now.
BACKFILL_BATCH: Final = 8


def queue_backfill(clock: Clock, tx: Tx, turn_ids: Sequence[str]) -> None:
    """Queue the processing of these turns behind all other work."""
    if turn_ids:
        work = {"turns": list(turn_ids)}
        Jobs(tx).enqueue(BACKFILL, work, dedupe=f"{BACKFILL}:{turn_ids[0]}", at=clock.now())


def backfill(parts: StoreContext, payload: Mapping[str, Any]) -> JobResult:
    """Job: queue the processing of the next few turns; turns erased meanwhile are skipped.

    If ten thousand imported messages were queued like others, a prompt typed now would wait for minutes. So one job per
    page holds their ids, behind all other jobs, and queues a few whenever nothing else is due. No model reads imported
    history, because that would cost days and money.
    """
    ids: list[str] = list(payload["turns"])

    def write(tx: Tx) -> None:
        queue_import_jobs(parts.clock, tx, parts.turns(tx).get(ids[:BACKFILL_BATCH]))

    return JobResult(write=write, again=lambda: {"turns": ids[BACKFILL_BATCH:]} if ids[BACKFILL_BATCH:] else None)
