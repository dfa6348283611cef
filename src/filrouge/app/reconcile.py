"""Reconcile: read what a host's transcript holds beyond what its hooks reported.

Hooks race with the transcript and can be missed; the transcript is complete but late. The file is read from
the last byte offset, offset and turns are written in one transaction, and a message that a hook reported is
recognised and only learns the record's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from filrouge.app.follow import follow
from filrouge.app.parts import Parts
from filrouge.app.syntheses import FULL, queue_synthesis
from filrouge.app.worker import Outcome
from filrouge.capture.filters import skip_reason
from filrouge.capture.guard import strip_own
from filrouge.capture.transcripts import read_from
from filrouge.clock import from_epoch, new_id, to_text
from filrouge.hosts.project import LONGEST_BRANCH, names
from filrouge.hosts.transcripts import fullness, records
from filrouge.model.scope import Scope
from filrouge.model.transcript import TranscriptRecord
from filrouge.model.turn import TRUST_AGENT, TRUST_PROMPT, TRUST_TOOL, Turn
from filrouge.ports import Tx
from filrouge.store.analyses import Session
from filrouge.store.events import Projects
from filrouge.store.jobs import Jobs
from filrouge.store.turns import Turns

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
