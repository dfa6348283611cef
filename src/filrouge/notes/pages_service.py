"""Writes memories as pages into a folder of the vault, and applies the user's edits of them.

Each run reads the pages, applies the user's changes to the memories, and then updates the lines. If a line and its
memory both changed, the line stays and is reported by `filrouge notes`. A page that somebody else just wrote is skipped
until its author pauses, so that half a sentence does not become a correction.

The text of a memory never changes; an edit creates a new memory that supersedes the old one. A line whose text differs
from that of its memory was therefore edited.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from filrouge.core.clock import add_seconds
from filrouge.core.errors import FilrougeError, NotFound, Stale, VaultUnavailable
from filrouge.core.protocols import Tx, Vault
from filrouge.core.settings import Settings
from filrouge.memories import changes as by_hand
from filrouge.memories.models import Memory
from filrouge.notes.models import Content
from filrouge.notes.pages import (
    SECTIONS,
    Line,
    apply_changes,
    escaped,
    free_name,
    key_of,
    lines,
    new_page,
    plain_name,
    unescaped,
)
from filrouge.notes.repository import CurrentVersion, Page, WriteStatus, WrittenLine, WrittenPages
from filrouge.notes.service import forgotten
from filrouge.projects.repository import names_of
from filrouge.runtime.executors import PeriodicTask
from filrouge.runtime.services import Parts

# Planning: which lines stay, change, are removed or are added.

_BOTH: Final = "changed here and in the memory: make both equal, or remove the line to restore the memory's text"
_GONE: Final = "edited, but its memory no longer exists: remove the line, or store it with `filrouge remember`"


@dataclass(frozen=True, kw_only=True, slots=True)
class DesiredLine:
    """A memory that belongs on a page, with the text of its line and its heading."""

    id: str
    page: str
    title: str
    heading: str
    words: str
    hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundLine:
    """The line of a memory and where it was found; `hash` is that of its text."""

    path: str
    line: Line
    hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryState:
    """The state of the memories whose lines were found.

    Attributes:
        kept: what was last written, by memory id.
        hashes: the hash of each memory's text.
        heads: the current version of each memory.
        due: the memories that belong on pages.
    """

    kept: Mapping[str, WrittenLine]
    hashes: Mapping[str, str]
    heads: Mapping[str, CurrentVersion]
    due: Mapping[str, DesiredLine]


@dataclass(kw_only=True, slots=True)
class Plan:
    """The planned changes.

    Attributes:
        changes: by path and line number, the replacement of a line; None = delete it.
        placed: by path, the memories on the page afterwards.
        troubles: the path, the memory and the reason why its line is left alone.
        lost: memories whose lines are removed.
        blocked: memories that are not written, because of a conflicting line.
    """

    changes: dict[str, dict[int, Line | None]] = field(default_factory=lambda: defaultdict(dict))
    placed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    troubles: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    lost: set[str] = field(default_factory=set[str])
    blocked: set[str] = field(default_factory=set[str])


def hash_of(text: str) -> str:
    """Return the hash of a text; differences in white space are ignored."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "surrogatepass")).hexdigest()


def place_of(path: str, line: Line) -> FoundLine:
    """Return a line together with the hash of its text."""
    return FoundLine(path=path, line=line, hash=hash_of(unescaped(line.words)))


def due_lines(tx: Tx) -> dict[str, DesiredLine]:
    """Return the memories that belong on pages, by id, oldest first.

    There is one page for the user, one for each project, and one for the sessions of each month.
    """
    names, found = names_of(tx), dict[str, DesiredLine]()
    for one in WrittenPages(tx).shown():
        project = names.get(one.project, one.project) if one.project else ""
        if one.kind == "episode":
            month = one.day[:7]
            page, title, heading = f"sessions-{month}", f"Sessions {month}", f"{one.day} {project}".strip()
        else:
            page, title = (_key(one.project), f"Project {project}") if one.project else ("user", "User")
            heading = SECTIONS[one.kind]
        found[one.id] = DesiredLine(
            id=one.id,
            page=page,
            title=title,
            heading=escaped(heading),
            words=escaped(one.text),
            hash=hash_of(one.text),
        )
    return found


def _key(project: str) -> str:
    """Return the key of a project's page; it is a hash, since a project id may contain any character of a path."""
    return f"project-{hashlib.sha256(project.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def plan_changes(places: Sequence[FoundLine], known: MemoryState, corrected: Collection[str] = ()) -> Plan:
    """Plan the changes to the lines that were found.

    Args:
        places: the lines.
        known: the state of their memories.
        corrected: memories that were just changed to the text of their lines; it may differ in form from the memory's.
    """
    plan, done = Plan(), set[str]()
    for place in places:
        id_, head = place.line.id, known.heads.get(place.line.id)
        before = known.hashes.get(id_) or (known.kept[id_].hash if id_ in known.kept else "")
        if not before:
            continue  # not from this database, for example if two machines share a vault
        due = known.due.get(head.id) if head else None
        if due is not None and id_ in corrected:
            line = Line(id=due.id, words=due.words)
        elif due is not None and place.hash == due.hash:
            line = Line(id=due.id, words=place.line.words)
        elif place.hash == before:
            line = Line(id=due.id, words=due.words) if due else None
        else:
            plan.troubles.append((place.path, id_, _BOTH if head and head.is_live else _GONE))
            plan.blocked.add(head.id if head else id_)
            plan.placed[place.path].append(id_)
            continue
        if line is not None and line.id != id_ and line.id in done:
            line = None  # two memories were merged into one
        if line is None or (line.id, line.words) != (id_, place.line.words):
            plan.changes[place.path][place.line.number] = line
        if line is None:
            plan.lost.add(id_)
        else:
            done.add(line.id)
            plan.placed[place.path].append(line.id)
    return plan


# Reading the pages.

#: Seconds for which a page must be unchanged before Filrouge edits it.
SETTLE_SECONDS: Final = 10.0


@dataclass(kw_only=True, slots=True)
class FolderState:
    """The folder as it was read.

    Attributes:
        texts: the text of every page that may be changed, by path.
        paths: the path of every page, by key.
        places: the lines on these pages.
        elsewhere: memories whose lines are in files that are not pages; Filrouge leaves those alone.
        corrected: memories that were changed to the text of their lines.
        troubles: the path, the memory (or empty) and the reason.
        is_whole: every page could be read and none is being written, so a missing line was really removed.
        is_waiting: a page is being written.
    """

    texts: dict[str, str] = field(default_factory=dict[str, str])
    paths: dict[str, str] = field(default_factory=dict[str, str])
    places: list[FoundLine] = field(default_factory=list[FoundLine])
    elsewhere: set[str] = field(default_factory=set[str])
    corrected: set[str] = field(default_factory=set[str])
    troubles: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    is_whole: bool = True
    is_waiting: bool = False


def read_pages(
    vault: Vault, stamps: Mapping[str, str], before: Collection[str], own: Mapping[str, str], now: datetime
) -> FolderState:
    """Read every page of a folder, except those that are being written.

    Args:
        vault: the vault.
        stamps: the files of the folder.
        before: the last known paths of pages.
        own: the last text that Filrouge wrote, by path.
        now: the current time.
    """
    found = FolderState()
    for path in sorted(stamps):
        try:
            content = vault.content(path)
        except (NotFound, VaultUnavailable) as error:
            if path in before:
                found.is_whole = False
                found.is_waiting |= isinstance(error, NotFound)  # deleted, or being written
                found.troubles += [] if isinstance(error, NotFound) else [(path, "", error.message)]
            continue
        key, there = key_of(content.text), lines(content.text)
        if not key and path not in before:
            found.elsewhere |= {line.id for line in there}
            continue
        if key and found.paths.setdefault(key, path) != path:
            found.troubles.append((path, "", f"this page is {found.paths[key]} already; remove one of them"))
        if _is_being_written(content, own.get(path), now):
            found.is_whole, found.is_waiting = False, True
            continue
        found.texts[path] = content.text
        found.places += [place_of(path, line) for line in there]
    return found


def _is_being_written(content: Content, own: str | None, now: datetime) -> bool:
    """Return True if somebody else wrote the file in the last seconds; dates in the future are ignored."""
    is_fresh = add_seconds(now, -SETTLE_SECONDS) < content.changed <= add_seconds(now, SETTLE_SECONDS)
    return is_fresh and own != content.text


# Writing the pages, and applying edits to memories.

#: If more lines than this vanish from a page at once, they are not treated as deleted by the user.
MAX_DELETIONS: Final = 5
_LOOK_SECONDS: Final = 1.0
#: While no pages are to be written. A setting changed through the daemon wakes the task.
_IDLE_SECONDS: Final = 10.0
_MOST_TROUBLES: Final = 100
_UNSAID: Final = "the edit contains a possible secret; the memory is unchanged"
_FORGOTTEN: Final = "the edit repeats forgotten text; the memory is unchanged"
_MANY: Final = "lines were removed at once: their memories are kept; rewrite them with `filrouge notes --anew`"
_HEADLESS: Final = "filrouge-page is missing in its frontmatter: missing lines are not treated as removed"
_REMOVED: Final = "was removed: its memories are kept; rewrite the page with `filrouge notes --anew`"


def pages_watch(parts: Parts) -> PeriodicTask:
    """Return the periodic task that writes the pages."""
    sync = PageSync(parts)
    failed = "the pages could not be written"
    return PeriodicTask(
        lambda: _IDLE_SECONDS if sync.is_idle else _LOOK_SECONDS, sync.look, name="vault-pages", failure_message=failed
    )


class PageSync:
    """Synchronises pages and memories in both directions. `look` runs periodically.

    Attributes:
        is_idle: no pages are to be written.
    """

    def __init__(self, parts: Parts) -> None:
        self.is_idle = False
        self._parts = parts
        self._seen: object = None
        self._own: dict[str, str] = {}

    def look(self) -> None:
        """Apply the user's changes, then update the pages; if nothing changed, no page is read."""
        parts = self._parts
        settings = parts.readers.here(lambda tx: parts.settings(tx))
        into = settings.notes_write_folder
        self.is_idle = not into or not settings.notes_folder
        if self.is_idle:
            parts.vault.written, self._seen = WriteStatus(), None
            self._own.clear()
            return
        if parts.vault.anew.is_set():
            parts.vault.anew.clear()
            parts.writer.run_patient(lambda tx: WrittenPages(tx).anew())
            self._seen = None
        vault = parts.open_vault(settings.notes_folder)
        try:
            stamps = vault.list(into).stamps
        except VaultUnavailable as error:
            parts.vault.written = WriteStatus(folder=into, problem=error.message)
            return
        newest = parts.readers.here(lambda tx: WrittenPages(tx).newest_change())
        state = (settings.notes_folder, into, newest, stamps)
        if state != self._seen and self._follow(vault, settings, stamps):
            self._seen = state

    def _follow(self, vault: Vault, settings: Settings, stamps: Mapping[str, str]) -> bool:
        """Synchronise once in both directions; return False if another run is needed."""
        parts = self._parts
        place = f"{settings.notes_folder}\n{settings.notes_write_folder}"
        pages, kept = parts.readers.here(lambda tx: (WrittenPages(tx).pages(), WrittenPages(tx).lines()))
        if any(one.place != place for one in pages.values()):
            parts.writer.run_patient(lambda tx: WrittenPages(tx).clear())
            pages, kept = {}, {}
        found = read_pages(vault, stamps, {one.path for one in pages.values()}, self._own, parts.clock.now())
        pages = {key: replace(one, path=_path_now(key, one.path, found, stamps)) for key, one in pages.items()}
        pages |= {key: Page(place=place, path=path) for key, path in found.paths.items()}
        ids = list({*(one.line.id for one in found.places), *kept})
        memories = parts.readers.here(lambda tx: parts.memories(tx).some(ids))
        hashes = {id_: hash_of(one.text) for id_, one in memories.items()}
        live = {id_: one for id_, one in memories.items() if one.state == "live"}
        kept = self._take_in(found, kept, live, hashes)
        heads, due = parts.readers.here(lambda tx: (WrittenPages(tx).heads(ids), due_lines(tx)))
        known = MemoryState(kept=kept, hashes=hashes, heads=heads, due=due)
        plan = plan_changes(found.places, known, found.corrected)
        self._let_go(plan, known)
        new = _missing_lines(plan, known, pages, found)
        for key in [key for key in new if key not in pages]:
            taken = {path.casefold() for path in (*stamps, *(one.path for one in pages.values()))}
            path = free_name(f"{settings.notes_write_folder}/{plain_name(new[key][0].title)}", taken)
            pages[key] = Page(place=place, path=path)
        kept, is_done = self._write(vault, found, plan, known, pages, new)
        parts.writer.run_patient(lambda tx: WrittenPages(tx).keep(pages, kept))
        removed = [("", "", f"the page {key} {_REMOVED}") for key, one in pages.items() if not one.path]
        parts.vault.written = WriteStatus(
            folder=settings.notes_write_folder,
            pages=sum(1 for one in pages.values() if one.path),
            memories=sum(not one.is_left for one in kept.values()),
            troubles=_first_reasons(
                [*found.troubles, *plan.troubles, *removed, *_headless(found, pages), *_mass_deletions(kept, pages)]
            ),
        )
        return is_done and not found.is_waiting

    def _take_in(
        self, found: FolderState, kept: Mapping[str, WrittenLine], live: Mapping[str, Memory], hashes: Mapping[str, str]
    ) -> dict[str, WrittenLine]:
        """Apply the user's edits and deletions of lines to the memories; return the lines that remain known."""
        places = defaultdict[str, list[FoundLine]](list)
        for one in found.places:
            places[one.line.id].append(one)
        for id_ in live.keys() & places.keys():
            if all(place.hash != hashes[id_] for place in places[id_]):
                if trouble := self._correct(live[id_], places[id_][0]):
                    found.troubles.append((places[id_][0].path, id_, trouble))
                else:
                    found.corrected.add(id_)
        if not found.is_whole:
            return dict(kept)
        return self._binned(found, {id_: one for id_, one in kept.items() if id_ in places or id_ in live}, set(places))

    def _binned(
        self, found: FolderState, kept: dict[str, WrittenLine], there: Collection[str]
    ) -> dict[str, WrittenLine]:
        """Move memories to the bin whose lines the user removed; return the other lines."""
        gone, left = defaultdict[str, list[str]](list), dict(kept)
        for id_, one in kept.items():
            # Skip a page without its frontmatter: it was truncated, not edited.
            if id_ not in there and id_ not in found.elsewhere and not one.is_left and one.page in found.paths:
                gone[one.page].append(id_)
        for page, all_of in gone.items():
            if len(all_of) > MAX_DELETIONS:
                left |= {id_: replace(left[id_], is_left=True) for id_ in all_of}
                continue
            for id_ in all_of:
                by_hand.bin_memory(self._parts, id_, source=f"its line was removed from {found.paths[page]}")
                del left[id_]
        return left

    def _correct(self, memory: Memory, place: FoundLine) -> str:
        """Change a memory to the text of its line; return why that is impossible, or an empty text."""
        parts, text = self._parts, unescaped(place.line.words).strip()
        if memory.key and memory.value is not None:
            text = text.removeprefix(f"{memory.key}:").strip()
        if parts.redact(text) != text:
            return _UNSAID
        if parts.readers.here(lambda tx: forgotten(parts, tx, [text, by_hand.with_text(memory, text).text])):
            return _FORGOTTEN
        try:
            by_hand.supersede(parts, memory.id, text, source=f"edited in {place.path}")
        except FilrougeError as error:
            return error.message
        return ""

    def _let_go(self, plan: Plan, known: MemoryState) -> None:
        """Delete the records of lines that the plan removes, before they are removed.

        Otherwise the next run would take them for deletions by the user.
        """
        lost = plan.lost & known.kept.keys()
        if lost:
            self._parts.writer.run_patient(lambda tx: WrittenPages(tx).let_go(lost))

    def _write(
        self,
        vault: Vault,
        found: FolderState,
        plan: Plan,
        known: MemoryState,
        pages: dict[str, Page],
        new: Mapping[str, list[DesiredLine]],
    ) -> tuple[dict[str, WrittenLine], bool]:
        """Write the changed pages; return the lines on the pages, and True if there was nothing to write."""
        kept, is_done = dict(known.kept), True
        keys = {one.path: key for key, one in pages.items() if one.path}
        for path in sorted({*found.texts, *(pages[key].path for key in new)}):
            before, key = found.texts.get(path), keys.get(path, "")
            added = new.get(key, [])
            if not added and path not in plan.changes:
                continue
            page = before if before is not None else new_page(key, escaped(added[0].title))
            rows = [(one.heading, Line(id=one.id, words=one.words)) for one in added]
            is_done = False  # the pages change, so look again
            text = apply_changes(page, plan.changes.get(path, {}), rows)
            try:
                vault.write(path, text, before=before)
            except (Stale, VaultUnavailable) as error:
                found.troubles += [] if isinstance(error, Stale) else [(path, "", error.message)]
                if before is None:
                    del pages[key]
                continue
            self._own[path] = text
            here = [place.line.id for place in found.places if place.path == path]
            kept = {id_: one for id_, one in kept.items() if id_ not in here}
            kept |= {one.id: WrittenLine(page=key, hash=one.hash) for one in added}
            kept |= _recorded_lines(plan.placed.get(path, []), key, known)
        for path in found.texts.keys() - plan.changes.keys():
            kept |= _recorded_lines(plan.placed.get(path, []), keys.get(path, ""), known)
        return kept, is_done


def _missing_lines(
    plan: Plan, known: MemoryState, pages: Mapping[str, Page], found: FolderState
) -> dict[str, list[DesiredLine]]:
    """Return the memories without a line, by the key of their page.

    Pages that were removed or are being written get none.
    """
    there = plan.blocked.union(known.kept, *plan.placed.values())
    new = defaultdict[str, list[DesiredLine]](list)
    for id_, one in known.due.items():
        if id_ not in there and (one.page not in pages or pages[one.page].path in found.texts):
            new[one.page].append(one)
    return dict(new)


def _recorded_lines(ids: list[str], page: str, known: MemoryState) -> dict[str, WrittenLine]:
    """Return the lines on a page now; a line that is left alone keeps its recorded state."""
    found = dict[str, WrittenLine]()
    for id_ in ids:
        if id_ in known.due:
            found[id_] = WrittenLine(page=page, hash=known.due[id_].hash)
        elif id_ in known.kept:
            found[id_] = known.kept[id_]
    return found


def _path_now(key: str, path: str, found: FolderState, stamps: Mapping[str, str]) -> str:
    """Return the current path of a page; empty if it was removed."""
    if key in found.paths:
        return found.paths[key]
    return path if path in stamps or not found.is_whole else ""


def _first_reasons(troubles: list[tuple[str, str, str]]) -> tuple[tuple[str, str, str], ...]:
    """Return the first reason for each line, up to the limit."""
    told = dict[tuple[str, str], tuple[str, str, str]]()
    for path, id_, why in troubles:
        told.setdefault((path, id_ or why), (path, id_, why))
    return tuple(list(told.values())[:_MOST_TROUBLES])


def _headless(found: FolderState, pages: Mapping[str, Page]) -> list[tuple[str, str, str]]:
    return [
        (one.path, "", _HEADLESS)
        for key, one in pages.items()
        if one.path in found.texts.keys() - {found.paths.get(key)}
    ]


def _mass_deletions(kept: Mapping[str, WrittenLine], pages: Mapping[str, Page]) -> list[tuple[str, str, str]]:
    """Report lines that vanished together, page by page."""
    count = defaultdict[str, int](int)
    for one in kept.values():
        count[one.page] += one.is_left
    return [(pages[key].path if key in pages else "", "", f"{n} {_MANY}") for key, n in sorted(count.items()) if n]
