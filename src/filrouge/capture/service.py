"""Capture: events are stored, acknowledged, and followed by the jobs that understand them.

Also what was left while the daemon was away, what a transcript holds beyond the hooks, and what was read in.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NamedTuple

from filrouge.capture import inbox
from filrouge.capture.events import Event, event_from_json
from filrouge.capture.guard import strip_own
from filrouge.capture.intake import Cut, cleaned, skip_reason
from filrouge.capture.models import TRUST_AGENT, TRUST_PROMPT, TRUST_TOOL, TranscriptRecord, Turn
from filrouge.capture.repository import Events, Projects, Turns
from filrouge.core.clock import from_epoch, monotonic, new_id, to_text
from filrouge.core.errors import Busy, CannotWrite, Corrupt
from filrouge.core.paths import SPOOL, inside
from filrouge.core.protocols import Tx
from filrouge.core.scope import Scope, display_name
from filrouge.extraction import reader
from filrouge.extraction.repository import Session
from filrouge.extraction.schedule import queue_reading
from filrouge.hosts.project import LONGEST_BRANCH, names
from filrouge.hosts.transcripts import fullness, records
from filrouge.runtime.jobs import Jobs, Outcome
from filrouge.runtime.services import Parts
from filrouge.runtime.signals import Every
from filrouge.search.spaces import queue_vectors
from filrouge.threads.placing import queue_placing
from filrouge.threads.synthesis_service import FULL, queue_synthesis

# The new lines of a host's transcript since the last look.
#
# A transcript only grows, so a byte offset is all that needs to be kept. A last line without its newline is still
# being written and waits for the next look. A line can be longer than anything worth reading (a screenshot, a pasted
# file): it is passed over and counted. A file that became shorter was replaced and is read from its start.

LONGEST_LINE: Final = 10 * 1024 * 1024
_STEP: Final = 1024 * 1024


class Chunk(NamedTuple):
    """Whole lines, and where to go on reading."""

    lines: list[bytes]
    offset: int
    skipped_long: int


def read_from(path: str, offset: int, max_bytes: int = 8 * 1024 * 1024, *, longest: int = LONGEST_LINE) -> Chunk:
    """The whole lines from `offset` on, about `max_bytes` of them; a missing or unreadable file has none."""
    try:
        facts = os.stat(path)
        if not stat.S_ISREG(facts.st_mode):
            return Chunk([], offset, 0)
        start = offset if 0 <= offset <= facts.st_size else 0
        with open(path, "rb") as file:
            file.seek(start)
            return lines_of(file, start, start + max_bytes, longest=longest)
    except (OSError, ValueError):
        return Chunk([], offset, 0)


def lines_of(file: BinaryIO, start: int, stop: int, *, longest: int = LONGEST_LINE) -> Chunk:
    """The whole lines of an open file that stands at `start`, until `stop` is passed."""
    lines: list[bytes] = []
    place, skipped = start, 0
    while place < stop:
        line = file.readline(longest + 1)
        if line.endswith(b"\n"):
            if line.strip():
                lines.append(line.rstrip(b"\r\n"))
        elif len(line) > longest and _finds_line_end(file):
            skipped += 1
        else:
            break
        place = file.tell()
    return Chunk(lines, place, skipped)


def _finds_line_end(file: BinaryIO) -> bool:
    while step := file.readline(_STEP):
        if step.endswith(b"\n"):
            return True
    return False


# What follows from a new turn, from wherever it came: analysis of the user's words, vectors for all, a place in a
# thread, and a reading of the conversation by a model where there is one.


def follow(parts: Parts, tx: Tx, turns: Sequence[Turn]) -> bool:
    """Queue what follows from new turns; True if any of them is to be analysed."""
    stating = [turn for turn in turns if to_be_analysed(turn) or _may_agree(parts, tx, turn)]
    _follow(parts, tx, turns, stating)
    queue_reading(parts, tx, turns)
    return bool(stating)


def follow_import(parts: Parts, tx: Tx, turns: Sequence[Turn]) -> None:
    """The same for turns that were read in from elsewhere: whoever may be trusted with it, they are looked through for
    what they state, and no model is asked."""
    _follow(parts, tx, turns, [turn for turn in turns if turn.role == "user" and not turn.skipped])


def _follow(parts: Parts, tx: Tx, turns: Sequence[Turn], stating: Sequence[Turn]) -> None:
    now, jobs, to_analyse = parts.clock.now(), Jobs(tx), {turn.id for turn in stating}
    for turn in turns:
        if turn.id in to_analyse:
            work = {"turn": turn.id} | ({"event": turn.event_id} if turn.event_id else {})
            jobs.enqueue("analyse", work, dedupe=f"analyse:{turn.id}", at=now)
        if turn.role != "tool":
            queue_vectors(tx, "turn", turn.id, now)
    queue_placing(parts, tx, turns)


def to_be_analysed(turn: Turn) -> bool:
    """Only the user's own words become memories, and only where they say something."""
    return turn.role == "user" and turn.trust >= TRUST_PROMPT and not turn.skipped


def _may_agree(parts: Parts, tx: Tx, turn: Turn) -> bool:
    """True for a prompt that says nothing by itself, but may say yes to what the agent said before it."""
    return bool(turn.skipped) and reader.may_agree(turn) and parts.turns(tx).answered(turn) is not None


# Observe: take events in. They are acknowledged once they are on disk, and understood afterwards.

#: Hosts write their transcript a moment after they run the hook.
_TRANSCRIPT_LAG_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """What became of a delivery.

    Attributes:
        projects: each event's project id, in their order; '' for no project, None where capture is off.
        new: whether each event was stored now, in their order.
    """

    accepted: int
    duplicates: int
    projects: tuple[str | None, ...]
    new: tuple[bool, ...]


def observe(parts: Parts, events: Sequence[Event]) -> Future[Receipt]:
    """Store events; the future ends when they are on disk. Where capture is switched off nothing is stored.

    A hook obeys its switches by itself, but it reads a mirror of them, and not every program has our hook.
    """
    parts.captured = monotonic()
    directories = {event.cwd for event in events}
    settings = parts.readers.here(lambda tx: {cwd: parts.settings(tx, cwd) for cwd in directories})
    cut = Cut()
    clean = [
        (cleaned(event, parts.redact, cut), frozenset(held.disabled_projects)) if held.auto_capture else None
        for event in events
        for held in (settings[event.cwd],)
    ]
    parts.meters.cut(cut)
    future = parts.writer.submit(lambda tx: _store_all(parts, tx, clean))
    future.add_done_callback(lambda _: parts.work_waiting.set())
    return future


def _store_all(parts: Parts, tx: Tx, deliveries: Sequence[tuple[Event, frozenset[str]] | None]) -> Receipt:
    projects, new = list[str | None](), list[bool]()
    for delivery in deliveries:
        if delivery is None or _disabled(tx, *delivery):
            projects.append(None)
            new.append(False)
            continue
        event = delivery[0]
        project = _store(parts, tx, event)
        new.append(project is not None)
        projects.append(project if project is not None else Projects(tx).find(event.project) or "")
    known = len(projects) - projects.count(None)
    return Receipt(accepted=sum(new), duplicates=known - sum(new), projects=tuple(projects), new=tuple(new))


def _disabled(tx: Tx, event: Event, disabled: frozenset[str]) -> bool:
    """True where the user switched capture off for the event's project, by whatever name."""
    return is_off(tx, event.project, disabled)


def is_off(tx: Tx, names: tuple[str, ...], disabled: frozenset[str]) -> bool:
    """True where one of the names that the user switched off is one of this project."""
    if not disabled or not names:
        return False
    project = Projects(tx).find(names)
    aliases = Projects(tx).aliases(project) if project else []
    return bool(disabled & {*names, display_name(names), project or "", *aliases})


def _store(parts: Parts, tx: Tx, event: Event) -> str | None:
    """Store one event with the jobs that follow from it; its project's id, or None if it was stored before."""
    now, jobs = parts.clock.now(), Jobs(tx)
    passed = parts.gate.passed(tx, event)
    if passed is None:
        return Events(tx).add_forgotten(event, received_at=now)
    event = passed
    project = Events(tx).add(event, received_at=now)
    if project is None:
        return None
    jobs.enqueue("read_turns", {"event": event.id}, dedupe=f"read_turns:{event.id}", at=now)
    if event.transcript and event.kind in ("prompt", "reply", "pre_compact", "session_end"):
        place = {
            "path": event.transcript,
            "host": event.host,
            "session": event.session,
            "project": project,
            "cwd": event.cwd,
            "branch": event.branch,
        }
        # One waiting look serves all events before it; the last ones of a conversation get their own, because a
        # look that is running just then may have read too early.
        own = f":{event.id}" if event.kind in ("pre_compact", "session_end") else ""
        name = f"reconcile:{event.transcript}{own}"
        jobs.enqueue("reconcile", place, dedupe=name, at=now, delay=_TRANSCRIPT_LAG_SECONDS)
    return project


# Backlog: what was left for the daemon while it was away.
#
# Hooks that found no daemon wrote to the spool. Files are taken oldest first, and a file is removed only after its
# events are on disk in the database; read twice, they are recognised.

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
#: A hook lives for a second at the most; a file it began longer ago than this stays as it is.
_ABANDONED_SECONDS = 60.0
#: Spool files that are taken in while somebody waits: a few milliseconds each.
_FEW = 32


def drain_spool(parts: Parts) -> int:
    """Take in every waiting spool file; returns how many events were new."""
    accepted = 0
    long_ago = parts.clock.now().timestamp() - _ABANDONED_SECONDS
    for path in inbox.waiting(inside(parts.home, SPOOL), abandoned_before=long_ago):
        try:
            accepted += _take_in(parts, path)
        except (CannotWrite, Corrupt, Busy):
            raise  # the database's trouble, not the file's: every file stays
        except OSError as error:
            _LOG.warning("spool file %s cannot be read: %s", os.path.basename(path), error)
        except Exception:  # one file that nobody can take in must not hold up those behind it
            _LOG.exception("spool file %s is set aside", os.path.basename(path))
            inbox.set_aside(path)
    return accepted


def take_in_few(parts: Parts) -> None:
    """Take in what hooks left a moment ago, while somebody waits for an answer; too many files are left lying."""
    waiting = inbox.waiting(inside(parts.home, SPOOL))
    try:
        for path in waiting if len(waiting) <= _FEW else ():
            _take_in(parts, path)
    except Exception:  # whoever drains the spool meets it again, and knows what to do with it
        _LOG.info("the spool was not taken in before a session's start", exc_info=True)


def _take_in(parts: Parts, path: str) -> int:
    spooled = inbox.read(path)
    if spooled.torn or spooled.bad:
        _LOG.warning("spool file %s: last record torn or %d bad", os.path.basename(path), spooled.bad)
    events = [event for raw in spooled.events if (event := _event(raw)) is not None]
    accepted = observe(parts, events).result().accepted if events else 0
    inbox.remove(path)
    return accepted


def spool_watch(parts: Parts) -> Every:
    """Looks for spool files once a second: a hook that gave up on a busy daemon leaves one behind."""
    failed = "the spool could not be drained; its files are kept"
    return Every(_LOOK_SECONDS, lambda: drain_spool(parts), name="spool", failed=failed)


def _event(raw: dict[str, object]) -> Event | None:
    try:
        return event_from_json(raw)
    except ValueError as error:
        _LOG.warning("a spooled event was dropped: %s", error)
        return None


# Reconcile: read what a host's transcript holds beyond what its hooks reported.
#
# Hooks race with the transcript and can be missed; the transcript is complete but late. The file is read from the
# last byte offset, offset and turns are written in one transaction, and a message that a hook reported is recognised
# and only learns the record's id.

_TRUST = {"user": TRUST_PROMPT, "assistant": TRUST_AGENT, "tool": TRUST_TOOL}
#: A record id of this length or more is the host's own unique one; shorter ones are places in the file.
UNIQUE_KEY_LENGTH = 32


def reconcile(parts: Parts, payload: Mapping[str, Any]) -> Outcome:
    """Read a transcript's new lines and store what is new in them."""
    path, host = str(payload["path"]), str(payload["host"])
    state = parts.readers.here(lambda tx: tx.one("transcripts.get", {"path": path}))
    start = int(state["byte_offset"]) if state else 0
    chunk = read_from(path, start)
    found = list(records(host, chunk.lines))
    full = fullness(host, chunk.lines)
    others = {cwd: _elsewhere(cwd, payload) for cwd in {record.cwd for record in found}}

    def write(tx: Tx) -> None:
        store, now = parts.turns(tx), parts.clock.now()
        projects = {cwd: Projects(tx).resolve(known_as, at=now) for cwd, known_as in others.items() if known_as}
        here = str(payload["project"]) or None
        read = [(record, _turn(parts, payload, record, projects.get(record.cwd, here))) for record in found]
        turns = [one for record, one in read if not parts.gate.refuses(tx, one, one.at if record.at else None)]
        follow(parts, tx, [turn for turn in turns if add_told(store, turn)])
        if (full or 0.0) >= FULL:
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
            # There may be more: a chunk is a few megabytes at the most.
            Jobs(tx).enqueue(
                "reconcile", payload, dedupe=f"reconcile:{path}:{chunk.offset}", at=parts.clock.now(), delay=0.1
            )

    return Outcome(write=write)


def add_told(store: Turns, turn: Turn) -> bool:
    """Store a turn that a transcript tells; False if it is there already, from wherever."""
    # A tool result has the same id in the hook's payload and in the transcript, so its key decides alone.
    return store.add(turn) if turn.role == "tool" else store.add_from_transcript(turn)


def _elsewhere(cwd: str, payload: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The names of another project that the agent worked in, or None where it is the one the hook reported."""
    reported = str(payload.get("cwd") or "")
    if not cwd or not reported or cwd == reported:
        return None
    known_as = names(cwd, {})
    in_repository = any(not name.startswith("path:") for name in known_as)
    nested = f"{cwd}/".startswith(f"{reported}/") or f"{reported}/".startswith(f"{cwd}/")
    return None if nested and not in_repository else known_as


def _branch(payload: Mapping[str, Any], record: TranscriptRecord) -> str:
    """What the transcript says, else what the hook saw, unless the agent was in another directory by then."""
    elsewhere = record.cwd and record.cwd != payload.get("cwd")
    told = record.branch or ("" if elsewhere else str(payload.get("branch") or ""))
    return told[:LONGEST_BRANCH].encode("utf-8", "replace").decode()  # half of a pair is no text for a database


def _turn(parts: Parts, payload: Mapping[str, Any], record: TranscriptRecord, project: str | None) -> Turn:
    at = from_epoch(record.at) if record.at else parts.clock.now()
    text = parts.redact(strip_own(record.text))
    session = str(payload["session"])
    key = record.key if len(record.key) >= UNIQUE_KEY_LENGTH else f"{session}:{record.key}"
    return Turn(
        id=new_id(at),
        key=f"tool:{record.call_id}" if record.call_id else key,
        scope=Scope(project=project, channel=str(payload["host"]), session=session, branch=_branch(payload, record)),
        host=str(payload["host"]),
        role=record.role,
        source=record.source,
        text=text,
        at=at,
        trust=_TRUST[record.role],
        skipped=skip_reason(text, record.source),
    )


# Backfill: what follows from messages that were read in from elsewhere, a few at a time behind all other work.
#
# A history of ten thousand messages would keep a prompt that is typed now waiting for minutes, if its messages were
# queued like others. So one job a page holds their ids, in the last place of all, and lets in a few of them whenever
# nothing else is due. A model is not asked about the past by itself: that would cost its reader days and money.

BACKFILL: Final = "backfill"
#: Messages whose work may stand before that of a prompt that comes in just then.
AT_ONCE: Final = 8


def queue_backfill(parts: Parts, tx: Tx, turn_ids: Sequence[str]) -> None:
    """Have what follows from these turns done, once nothing else is to be done."""
    if turn_ids:
        work = {"turns": list(turn_ids)}
        Jobs(tx).enqueue(BACKFILL, work, dedupe=f"{BACKFILL}:{turn_ids[0]}", at=parts.clock.now())


def backfill(parts: Parts, payload: Mapping[str, Any]) -> Outcome:
    """The job: queue what follows from the next few; what was erased meanwhile has nothing to follow from it."""
    ids: list[str] = list(payload["turns"])

    def write(tx: Tx) -> None:
        follow_import(parts, tx, parts.turns(tx).get(ids[:AT_ONCE]))

    return Outcome(write=write, again=lambda: {"turns": ids[AT_ONCE:]} if ids[AT_ONCE:] else None)
