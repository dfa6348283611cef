"""Read in what was said and kept elsewhere: histories of agents, exports of chats, memories of other programs.

It goes the way of a transcript: cleaned of secrets and of our own injected blocks, held against what was forgotten, and
recognised where a hook captured it or an earlier run read it in, so that a second run adds nothing. It keeps its own
time and project. What was said long ago is understood behind all other work (`app.backfill`).

Nobody vouches for a file, so it has the trust of a web page and becomes no rule and no instruction (RULE-3), unless the
user says that it is their own.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from filrouge import lazy_re as re
from filrouge.app.backfill import queue_backfill
from filrouge.app.by_hand import bin_memory
from filrouge.app.importing import import_export
from filrouge.app.observe import is_off
from filrouge.app.parts import Parts
from filrouge.app.reconcile import UNIQUE_KEY_LENGTH, add_told
from filrouge.app.told import place_of
from filrouge.capture.cutting import TextCutter
from filrouge.capture.filters import skip_reason
from filrouge.capture.guard import strip_own
from filrouge.capture.intake import Cut
from filrouge.clock import from_epoch, new_id, to_text
from filrouge.model.imported import ImportedMemory, ImportedTurn
from filrouge.model.memory import Memory
from filrouge.model.scope import Scope
from filrouge.model.turn import TRUST_AGENT, TRUST_PROMPT, TRUST_TOOL, Turn
from filrouge.ports import Tx
from filrouge.store.events import Projects
from filrouge.transfer.exports import MARK, VERSION, memory_row

#: Rows of one transaction: others write in between.
_TOGETHER: Final = 50
_TRUSTED: Final = {"user": TRUST_PROMPT, "assistant": TRUST_AGENT, "tool": TRUST_TOOL}
#: What an observation is believed at; one that the user vouches for counts as said.
_BELIEVED, _VOUCHED = 0.6, 0.8
_KIND: Final = re.compile(r"(?:name|origin|root|clone|path):")
OUTCOMES: Final = ("added", "vouched", "present", "forgotten", "off")


class Mark(NamedTuple):
    """How far a transcript file is read, as the hooks' own looks into it keep it, too."""

    path: str
    session: str
    offset: int
    skipped_long: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Handed:
    """A page of what is read in.

    Attributes:
        source: the agent or program that it comes from.
        trusted: the user vouches that it is their own.
        mark: kept once everything before it is.
    """

    source: str
    trusted: bool
    turns: Sequence[ImportedTurn] = ()
    memories: Sequence[ImportedMemory] = ()
    mark: Mark | None = None


@dataclass(kw_only=True)
class ReadIn:
    """What became of a page: new, vouched for now, here already, forgotten here, of a project that is switched off."""

    turns: Counter[str] = field(default_factory=Counter[str])
    memories: Counter[str] = field(default_factory=Counter[str])

    def to_json(self) -> dict[str, Any]:
        """The body of the route."""
        tables = {"turns": self.turns, "memories": self.memories}
        return {name: {one: counted[one] for one in OUTCOMES} for name, counted in tables.items()}


def read_in(parts: Parts, page: Handed) -> ReadIn:
    """Store what is new of a page; it is on disk when this returns."""
    done = ReadIn()
    off = frozenset(parts.readers.here(lambda tx: parts.settings(tx)).disabled_projects)
    for place in range(0, len(page.turns), _TOGETHER):
        batch = [(one, _cleaned(parts, one)) for one in page.turns[place : place + _TOGETHER]]
        done.turns.update(parts.writer.run_patient(lambda tx, batch=batch: _add(parts, tx, page, batch, off)))
    if page.memories:
        done.memories.update(_add_memories(parts, page, off))
    if page.mark is not None:
        mark = page.mark
        parts.writer.run_patient(lambda tx: _keep(parts, tx, page.source, mark))
    parts.work_waiting.set()
    return done


def _cleaned(parts: Parts, turn: ImportedTurn) -> str:
    """What the turn says, without secrets and cut as a captured one."""
    cutter = TextCutter()
    text = cutter.cleaned(turn.text, lambda said: parts.redact(strip_own(said)))
    parts.meters.cut(Cut(events=int(cutter.cut > 0), characters=cutter.cut))
    return text


def marks(tx: Tx, source: str) -> dict[str, int]:
    """How far each transcript of that agent is read, by its path."""
    return {row["path"]: row["byte_offset"] for row in tx.all("transcripts.of_host", {"host": source})}


def _add(
    parts: Parts, tx: Tx, page: Handed, batch: Sequence[tuple[ImportedTurn, str]], off: frozenset[str]
) -> list[str]:
    now, outcomes, added = parts.clock.now(), list[str](), list[str]()
    projects = _Projects(tx, now, off)
    for told, text in batch:
        turn = _turn(page, told, text, now)
        if not text.strip():
            outcomes.append("present")  # nothing but what we injected ourselves
        elif parts.gate.refuses(tx, turn, turn.at if told.at else None):
            outcomes.append("forgotten")
        elif projects.is_off(told.project):
            outcomes.append("off")
        else:
            placed = _turn(page, told, text, now, projects.id_of(told.project))
            if add_told(parts.turns(tx), placed):
                outcomes.append("added")
                added.append(placed.id)
            elif page.trusted and (vouched := parts.turns(tx).vouch(placed)):
                outcomes.append("vouched")
                added.append(vouched)
            else:
                outcomes.append("present")
    queue_backfill(parts, tx, added)
    return outcomes


class _Projects:
    """The projects of a batch, each looked up once; one that is new is remembered with the first turn of it."""

    def __init__(self, tx: Tx, now: datetime, off: frozenset[str]) -> None:
        self._tx, self._now, self._off = tx, now, off
        self._ids: dict[tuple[str, ...], str | None] = {}
        self._switched: dict[tuple[str, ...], bool] = {}

    def is_off(self, names: tuple[str, ...]) -> bool:
        names = self._full(names)
        if names not in self._switched:
            self._switched[names] = is_off(self._tx, names, self._off)
        return self._switched[names]

    def id_of(self, names: tuple[str, ...]) -> str | None:
        names = self._full(names)
        if names not in self._ids:
            self._ids[names] = Projects(self._tx).resolve(names, at=self._now)
        return self._ids[names]

    def _full(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """A plain name is that of the project that is called so, or names one."""
        if len(names) != 1 or _KIND.match(names[0]):
            return names
        return place_of(self._tx, names)[0]


def _turn(page: Handed, told: ImportedTurn, text: str, now: datetime, project: str | None = None) -> Turn:
    at = _when(told.at, now)
    key = told.key if len(told.key) >= UNIQUE_KEY_LENGTH else f"{told.session}:{told.key}"
    return Turn(
        id=new_id(at),
        key=f"tool:{told.call_id}" if told.call_id else key,
        scope=Scope(project=project, channel=page.source, session=told.session),
        host=page.source,
        role=told.role,
        source=told.source,
        text=text,
        at=at,
        trust=_TRUSTED[told.role] if page.trusted else TRUST_TOOL,
        skipped=skip_reason(text, told.source),
    )


def _when(seconds: float, now: datetime) -> datetime:
    """Its own time; now where that is unknown, or said to be still to come."""
    return from_epoch(seconds) if 0 < seconds < now.timestamp() else now


def _keep(parts: Parts, tx: Tx, source: str, mark: Mark) -> None:
    row = {"path": mark.path, "host": source, "session_id": mark.session, "byte_offset": mark.offset}
    tx.run("transcripts.put", row | {"skipped_long": mark.skipped_long, "read_at": to_text(parts.clock.now())})


def _add_memories(parts: Parts, page: Handed, off: frozenset[str]) -> Counter[str]:
    """They go the way of our own export, each under an id that is made of its key and of whether it is vouched for.

    What was an observation until the user vouched for it is binned; what is vouched for is not observed beside that.
    """
    said = [one for one in page.memories if strip_own(one.text).strip()]
    observed, vouched = ({one.key: _id(page, one, trusted=trusted) for one in said} for trusted in (False, True))
    wanted = [*observed.values(), *vouched.values()]
    here = parts.readers.here(lambda tx: parts.memories(tx).some(wanted))

    def placed(tx: Tx) -> list[Memory]:
        projects = _Projects(tx, parts.clock.now(), off)
        return [
            _memory(page, one, projects.id_of(one.project), parts.clock.now())
            for one in said
            if not projects.is_off(one.project) and (page.trusted or vouched[one.key] not in here)
        ]

    memories = parts.writer.run_patient(placed)
    found = import_export(parts, {MARK: VERSION, "memories": list(map(memory_row, memories))}, trusted=page.trusted)
    counts = Counter({name: found.counts["memories"][name] for name in ("added", "present", "forgotten")})
    if page.trusted:
        before = [one for id_ in observed.values() if (one := here.get(id_)) and one.state == "live"]
        for one in before:
            bin_memory(parts, one.id)
        counts["vouched"] = min(len(before), counts["added"])
        counts["added"] -= counts["vouched"]
    else:
        counts["present"] += sum(id_ in here for id_ in vouched.values())
    counts["present"] += len(page.memories) - len(said)  # nothing but what we injected ourselves
    counts["off"] = len(page.memories) - counts.total()
    return counts


def _id(page: Handed, told: ImportedMemory, *, trusted: bool) -> str:
    whose = "mine" if trusted else "anybody's"
    said = f"{page.source}\0{whose}\0{told.key}"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:26]


def _memory(page: Handed, told: ImportedMemory, project: str | None, now: datetime) -> Memory:
    at = _when(told.at, now)
    return Memory(
        id=_id(page, told, trusted=page.trusted),
        scope=Scope(project=project, channel=page.source, session=told.place[:4096]),
        scope_name="project" if told.project else "user",
        kind=told.kind,
        text=strip_own(told.text).strip(),
        trust=TRUST_PROMPT if page.trusted else TRUST_TOOL,
        created_at=at,
        valid_from=at,
        subject=told.subject[:200],
        confidence=_VOUCHED if page.trusted else _BELIEVED,
        made_by=f"import:{page.source}",
    )
