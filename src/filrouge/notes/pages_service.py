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
from datetime import datetime
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

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
    escape,
    lines,
    new_page,
    page_key,
    plain_name,
    unescape,
    unused_name,
)
from filrouge.notes.repository import CurrentVersion, Page, WriteStatus, WrittenLine, WrittenPages
from filrouge.notes.service import forgotten_texts
from filrouge.projects.repository import names_of
from filrouge.runtime.executors import PeriodicTask
from filrouge.runtime.services import Parts

# Planning: which lines stay, change, are removed or are added.

_CONFLICT: Final = "changed here and in the memory: make both equal, or remove the line to restore the memory's text"
_MEMORY_GONE: Final = "edited, but its memory no longer exists: remove the line, or store it with `filrouge remember`"


class DesiredLine(Struct, frozen=True, kw_only=True):
    """The line that a page should have for a memory.

    Attributes:
        id: the memory's id.
        page: the key of the page.
        title: the title of the page, for a new one.
        heading: the heading of the line's section, escaped for Markdown.
        words: the text of the line, escaped for Markdown.
        hash: the hash of the memory's text (`hash_of`).
    """

    id: str
    page: str
    title: str
    heading: str
    words: str
    hash: str


class FoundLine(Struct, frozen=True, kw_only=True):
    """The line of a memory as it was found on a page.

    Attributes:
        path: the page, relative to the vault.
        line: the line, with its number on the page.
        hash: the hash of its unescaped text (`hash_of`).
    """

    path: str
    line: Line
    hash: str


class PageState(Struct, frozen=True, kw_only=True):
    """The memories whose lines were found or recorded.

    Attributes:
        recorded: the line that was last written, by memory id.
        hashes: the hash of each memory's text.
        heads: the current version of each memory.
        desired: the lines that pages should have, by memory id.
    """

    recorded: Mapping[str, WrittenLine]
    hashes: Mapping[str, str]
    heads: Mapping[str, CurrentVersion]
    desired: Mapping[str, DesiredLine]


class Plan(Struct, kw_only=True):
    """The planned changes.

    Attributes:
        changes: by path and line number, the replacement of a line; None = delete it.
        placed: by path, the memories on the page afterwards.
        problems: lines that are not changed: path, memory and reason.
        removed: memories whose lines are removed.
        blocked: memories that are not written, because their line conflicts.
    """

    changes: dict[str, dict[int, Line | None]] = field(default_factory=lambda: defaultdict(dict))
    placed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    problems: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    removed: set[str] = field(default_factory=set[str])
    blocked: set[str] = field(default_factory=set[str])


def hash_of(text: str) -> str:
    """Return the hash of a text; differences in white space are ignored."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "surrogatepass")).hexdigest()


def found_line(path: str, line: Line) -> FoundLine:
    """Return a line together with the hash of its text."""
    return FoundLine(path=path, line=line, hash=hash_of(unescape(line.words)))


def desired_lines(tx: Tx) -> dict[str, DesiredLine]:
    """Return the memories that belong on pages, by id, oldest first.

    There is one page for the user, one for each project, and one for the sessions of each month.
    """
    names, desired = names_of(tx), dict[str, DesiredLine]()
    for memory in WrittenPages(tx).page_memories():
        project = names.get(memory.project, memory.project) if memory.project else ""
        if memory.kind == "episode":
            month = memory.day[:7]
            page, title, heading = f"sessions-{month}", f"Sessions {month}", f"{memory.day} {project}".strip()
        else:
            page, title = (_key(memory.project), f"Project {project}") if memory.project else ("user", "User")
            heading = SECTIONS[memory.kind]
        desired[memory.id] = DesiredLine(
            id=memory.id,
            page=page,
            title=title,
            heading=escape(heading),
            words=escape(memory.text),
            hash=hash_of(memory.text),
        )
    return desired


def _key(project: str) -> str:
    """Return the key of a project's page; it is a hash, since a project id may contain any character of a path."""
    return f"project-{hashlib.sha256(project.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def plan_changes(found_lines: Sequence[FoundLine], state: PageState, corrected: Collection[str] = ()) -> Plan:
    """Plan the changes to the lines that were found.

    Args:
        found_lines: the lines.
        state: the state of their memories.
        corrected: memories that were just changed to the text of their lines; it may differ in form from the memory's.
    """
    plan, placed_ids = Plan(), set[str]()
    for found in found_lines:
        id_, current = found.line.id, state.heads.get(found.line.id)
        last_hash = state.hashes.get(id_) or (state.recorded[id_].hash if id_ in state.recorded else "")
        if not last_hash:
            continue  # not from this database, for example if two machines share a vault
        desired = state.desired.get(current.id) if current else None
        if desired is not None and id_ in corrected:
            line = Line(id=desired.id, words=desired.words)
        elif desired is not None and found.hash == desired.hash:
            line = Line(id=desired.id, words=found.line.words)
        elif found.hash == last_hash:
            line = Line(id=desired.id, words=desired.words) if desired else None
        else:
            plan.problems.append((found.path, id_, _CONFLICT if current and current.is_live else _MEMORY_GONE))
            plan.blocked.add(current.id if current else id_)
            plan.placed[found.path].append(id_)
            continue
        if line is not None and line.id != id_ and line.id in placed_ids:
            line = None  # two memories were merged into one
        if line is None or (line.id, line.words) != (id_, found.line.words):
            plan.changes[found.path][found.line.number] = line
        if line is None:
            plan.removed.add(id_)
        else:
            placed_ids.add(line.id)
            plan.placed[found.path].append(line.id)
    return plan


# Reading the pages.

#: Seconds for which a page must be unchanged before Filrouge edits it.
SETTLE_SECONDS: Final = 10.0


class FolderState(Struct, kw_only=True):
    """The folder as it was read.

    Attributes:
        texts: the text of every page that may be changed, by path.
        paths: the path of every page, by key.
        lines: the lines of memories on these pages.
        outside_pages: memories whose lines are in files that are not pages; those files are not changed.
        corrected: memories that were changed to the text of their lines.
        problems: the path, the memory (or empty) and the reason.
        is_complete: every page could be read and none is being written, so the user removed a missing line.
        is_waiting: a page is being written.
    """

    texts: dict[str, str] = field(default_factory=dict[str, str])
    paths: dict[str, str] = field(default_factory=dict[str, str])
    lines: list[FoundLine] = field(default_factory=list[FoundLine])
    outside_pages: set[str] = field(default_factory=set[str])
    corrected: set[str] = field(default_factory=set[str])
    problems: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    is_complete: bool = True
    is_waiting: bool = False


def read_pages(
    vault: Vault,
    stamps: Mapping[str, str],
    known_paths: Collection[str],
    written_texts: Mapping[str, str],
    now: datetime,
) -> FolderState:
    """Read every page of a folder, except those that are being written.

    Args:
        vault: the vault.
        stamps: the files of the folder.
        known_paths: the last known paths of pages.
        written_texts: the last text that Filrouge wrote, by path.
        now: the current time.
    """
    found = FolderState()
    for path in sorted(stamps):
        try:
            content = vault.content(path)
        except (NotFound, VaultUnavailable) as error:
            if path in known_paths:
                found.is_complete = False
                found.is_waiting |= isinstance(error, NotFound)  # deleted, or being written
                found.problems += [] if isinstance(error, NotFound) else [(path, "", error.message)]
            continue
        key, page_lines = page_key(content.text), lines(content.text)
        if not key and path not in known_paths:
            found.outside_pages |= {line.id for line in page_lines}
            continue
        if key and found.paths.setdefault(key, path) != path:
            found.problems.append((path, "", f"{found.paths[key]} is the same page; remove one of the two"))
        if _is_being_written(content, written_texts.get(path), now):
            found.is_complete, found.is_waiting = False, True
            continue
        found.texts[path] = content.text
        found.lines += [found_line(path, line) for line in page_lines]
    return found


def _is_being_written(content: Content, written_text: str | None, now: datetime) -> bool:
    """Return True if somebody else wrote the file in the last seconds; dates in the future are ignored."""
    is_fresh = add_seconds(now, -SETTLE_SECONDS) < content.changed <= add_seconds(now, SETTLE_SECONDS)
    return is_fresh and written_text != content.text


# Writing the pages, and applying edits to memories.

#: If more lines than this vanish from a page at once, their memories are kept.
MAX_DELETIONS: Final = 5
_CHECK_SECONDS: Final = 1.0
#: Interval while no pages are to be written. A setting changed through the daemon wakes the task.
_IDLE_SECONDS: Final = 10.0
_MAX_PROBLEMS: Final = 100
_REDACTED_EDIT: Final = "the edit contains a possible secret; the memory is unchanged"
_FORGOTTEN: Final = "the edit repeats forgotten text; the memory is unchanged"
_TOO_MANY: Final = "lines were removed at once: their memories are kept; rewrite them with `filrouge notes --anew`"
_NO_PAGE_KEY: Final = "filrouge-page is missing in its frontmatter: missing lines are not treated as removed"
_REMOVED: Final = "was removed: its memories are kept; rewrite the page with `filrouge notes --anew`"


def pages_watch(parts: Parts) -> PeriodicTask:
    """Return the periodic task that writes the pages."""
    sync = PageSync(parts)
    failed = "the pages could not be written"
    return PeriodicTask(
        lambda: _IDLE_SECONDS if sync.is_idle else _CHECK_SECONDS,
        sync.check,
        name="vault-pages",
        failure_message=failed,
    )


class PageSync:
    """Synchronises pages and memories in both directions. `check` runs periodically.

    Attributes:
        is_idle: no pages are to be written.
    """

    def __init__(self, parts: Parts) -> None:
        self.is_idle = False
        self._parts = parts
        self._last_state: object = None
        self._written_texts: dict[str, str] = {}

    def check(self) -> None:
        """Apply the user's changes, then update the pages; if nothing changed, no page is read."""
        parts = self._parts
        settings = parts.readers.here(lambda tx: parts.settings(tx))
        folder = settings.notes_write_folder
        self.is_idle = not folder or not settings.notes_folder
        if self.is_idle:
            parts.vault.written, self._last_state = WriteStatus(), None
            self._written_texts.clear()
            return
        if parts.vault.anew.is_set():
            parts.vault.anew.clear()
            parts.writer.run_patient(lambda tx: WrittenPages(tx).anew())
            self._last_state = None
        vault = parts.open_vault(settings.notes_folder)
        try:
            stamps = vault.list(folder).stamps
        except VaultUnavailable as error:
            parts.vault.written = WriteStatus(folder=folder, problem=error.message)
            return
        newest = parts.readers.here(lambda tx: WrittenPages(tx).newest_change())
        state = (settings.notes_folder, folder, newest, stamps)
        if state != self._last_state and self._synchronise(vault, settings, stamps):
            self._last_state = state

    def _synchronise(self, vault: Vault, settings: Settings, stamps: Mapping[str, str]) -> bool:
        """Synchronise once in both directions; return False if another run is needed."""
        parts = self._parts
        location = f"{settings.notes_folder}\n{settings.notes_write_folder}"
        pages, recorded = parts.readers.here(lambda tx: (WrittenPages(tx).pages(), WrittenPages(tx).lines()))
        if any(item.location != location for item in pages.values()):
            parts.writer.run_patient(lambda tx: WrittenPages(tx).clear())
            pages, recorded = {}, {}
        found = read_pages(
            vault, stamps, {item.path for item in pages.values()}, self._written_texts, parts.clock.now()
        )
        pages = {key: replace(item, path=_current_path(key, item.path, found, stamps)) for key, item in pages.items()}
        pages |= {key: Page(location=location, path=path) for key, path in found.paths.items()}
        ids = list({*(item.line.id for item in found.lines), *recorded})
        memories = parts.readers.here(lambda tx: parts.memories(tx).some(ids))
        hashes = {id_: hash_of(item.text) for id_, item in memories.items()}
        live = {id_: item for id_, item in memories.items() if item.state == "live"}
        recorded = self._apply_edits(found, recorded, live, hashes)
        heads, desired = parts.readers.here(lambda tx: (WrittenPages(tx).heads(ids), desired_lines(tx)))
        page_state = PageState(recorded=recorded, hashes=hashes, heads=heads, desired=desired)
        plan = plan_changes(found.lines, page_state, found.corrected)
        self._delete_line_records(plan, page_state)
        missing = _missing_lines(plan, page_state, pages, found)
        for key in [key for key in missing if key not in pages]:
            used_names = {path.casefold() for path in (*stamps, *(item.path for item in pages.values()))}
            path = unused_name(f"{settings.notes_write_folder}/{plain_name(missing[key][0].title)}", used_names)
            pages[key] = Page(location=location, path=path)
        recorded, is_done = self._write(vault, found, plan, page_state, pages, missing)
        parts.writer.run_patient(lambda tx: WrittenPages(tx).keep(pages, recorded))
        removed = [("", "", f"the page {key} {_REMOVED}") for key, item in pages.items() if not item.path]
        parts.vault.written = WriteStatus(
            folder=settings.notes_write_folder,
            pages=sum(1 for item in pages.values() if item.path),
            memories=sum(not item.is_left for item in recorded.values()),
            problems=_first_problems(
                [
                    *found.problems,
                    *plan.problems,
                    *removed,
                    *_pages_without_key(found, pages),
                    *_mass_deletions(recorded, pages),
                ]
            ),
        )
        return is_done and not found.is_waiting

    def _apply_edits(
        self,
        found: FolderState,
        recorded: Mapping[str, WrittenLine],
        live: Mapping[str, Memory],
        hashes: Mapping[str, str],
    ) -> dict[str, WrittenLine]:
        """Apply the user's edits and deletions of lines to the memories; return the lines that remain known."""
        lines_by_id = defaultdict[str, list[FoundLine]](list)
        for item in found.lines:
            lines_by_id[item.line.id].append(item)
        for id_ in live.keys() & lines_by_id.keys():
            if all(line.hash != hashes[id_] for line in lines_by_id[id_]):
                if problem := self._correct(live[id_], lines_by_id[id_][0]):
                    found.problems.append((lines_by_id[id_][0].path, id_, problem))
                else:
                    found.corrected.add(id_)
        if not found.is_complete:
            return dict(recorded)
        return self._bin_removed(
            found, {id_: item for id_, item in recorded.items() if id_ in lines_by_id or id_ in live}, set(lines_by_id)
        )

    def _bin_removed(
        self, found: FolderState, recorded: dict[str, WrittenLine], found_ids: Collection[str]
    ) -> dict[str, WrittenLine]:
        """Move memories to the bin whose lines the user removed; return the other lines."""
        removed_by_page, remaining = defaultdict[str, list[str]](list), dict(recorded)
        for id_, line in recorded.items():
            # Skip a page without its frontmatter: it was truncated, not edited.
            if (
                id_ not in found_ids
                and id_ not in found.outside_pages
                and not line.is_left
                and line.page in found.paths
            ):
                removed_by_page[line.page].append(id_)
        for page, ids in removed_by_page.items():
            if len(ids) > MAX_DELETIONS:
                remaining |= {id_: replace(remaining[id_], is_left=True) for id_ in ids}
                continue
            for id_ in ids:
                by_hand.bin_memory(self._parts, id_, source=f"its line was removed from {found.paths[page]}")
                del remaining[id_]
        return remaining

    def _correct(self, memory: Memory, found: FoundLine) -> str:
        """Change a memory to the text of its line; return why that is impossible, or an empty text."""
        parts, text = self._parts, unescape(found.line.words).strip()
        if memory.key and memory.value is not None:
            text = text.removeprefix(f"{memory.key}:").strip()
        if parts.redact(text) != text:
            return _REDACTED_EDIT
        if parts.readers.here(
            lambda tx: forgotten_texts(parts.tombstones, tx, [text, by_hand.with_text(memory, text).text])
        ):
            return _FORGOTTEN
        try:
            by_hand.supersede(parts, memory.id, text, source=f"edited in {found.path}")
        except FilrougeError as error:
            return error.message
        return ""

    def _delete_line_records(self, plan: Plan, state: PageState) -> None:
        """Delete the records of lines that the plan removes, before they are removed.

        Otherwise the next run would take them for deletions by the user.
        """
        removed = plan.removed & state.recorded.keys()
        if removed:
            self._parts.writer.run_patient(lambda tx: WrittenPages(tx).delete_lines(removed))

    def _write(
        self,
        vault: Vault,
        found: FolderState,
        plan: Plan,
        state: PageState,
        pages: dict[str, Page],
        missing: Mapping[str, list[DesiredLine]],
    ) -> tuple[dict[str, WrittenLine], bool]:
        """Write the changed pages; return the lines on the pages, and True if there was nothing to write."""
        recorded, is_done = dict(state.recorded), True
        keys = {item.path: key for key, item in pages.items() if item.path}
        for path in sorted({*found.texts, *(pages[key].path for key in missing)}):
            before, key = found.texts.get(path), keys.get(path, "")
            added = missing.get(key, [])
            if not added and path not in plan.changes:
                continue
            page = before if before is not None else new_page(key, escape(added[0].title))
            new_lines = [(item.heading, Line(id=item.id, words=item.words)) for item in added]
            is_done = False  # the pages change, so another run is needed
            text = apply_changes(page, plan.changes.get(path, {}), new_lines)
            try:
                vault.write(path, text, before=before)
            except (Stale, VaultUnavailable) as error:
                found.problems += [] if isinstance(error, Stale) else [(path, "", error.message)]
                if before is None:
                    del pages[key]
                continue
            self._written_texts[path] = text
            ids_on_page = [line.line.id for line in found.lines if line.path == path]
            recorded = {id_: item for id_, item in recorded.items() if id_ not in ids_on_page}
            recorded |= {item.id: WrittenLine(page=key, hash=item.hash) for item in added}
            recorded |= _recorded_lines(plan.placed.get(path, []), key, state)
        for path in found.texts.keys() - plan.changes.keys():
            recorded |= _recorded_lines(plan.placed.get(path, []), keys.get(path, ""), state)
        return recorded, is_done


def _missing_lines(
    plan: Plan, state: PageState, pages: Mapping[str, Page], found: FolderState
) -> dict[str, list[DesiredLine]]:
    """Return the memories without a line, by the key of their page.

    Pages that were removed or are being written get none.
    """
    ids_on_pages = plan.blocked.union(state.recorded, *plan.placed.values())
    missing = defaultdict[str, list[DesiredLine]](list)
    for id_, line in state.desired.items():
        if id_ not in ids_on_pages and (line.page not in pages or pages[line.page].path in found.texts):
            missing[line.page].append(line)
    return dict(missing)


def _recorded_lines(ids: list[str], page: str, state: PageState) -> dict[str, WrittenLine]:
    """Return the lines on a page now; a line that is not changed keeps its recorded state."""
    recorded = dict[str, WrittenLine]()
    for id_ in ids:
        if id_ in state.desired:
            recorded[id_] = WrittenLine(page=page, hash=state.desired[id_].hash)
        elif id_ in state.recorded:
            recorded[id_] = state.recorded[id_]
    return recorded


def _current_path(key: str, path: str, found: FolderState, stamps: Mapping[str, str]) -> str:
    """Return the current path of a page; empty if it was removed."""
    if key in found.paths:
        return found.paths[key]
    return path if path in stamps or not found.is_complete else ""


def _first_problems(problems: list[tuple[str, str, str]]) -> tuple[tuple[str, str, str], ...]:
    """Return the first reason for each line, up to the limit."""
    first = dict[tuple[str, str], tuple[str, str, str]]()
    for path, id_, reason in problems:
        first.setdefault((path, id_ or reason), (path, id_, reason))
    return tuple(list(first.values())[:_MAX_PROBLEMS])


def _pages_without_key(found: FolderState, pages: Mapping[str, Page]) -> list[tuple[str, str, str]]:
    return [
        (page.path, "", _NO_PAGE_KEY)
        for key, page in pages.items()
        if page.path in found.texts.keys() - {found.paths.get(key)}
    ]


def _mass_deletions(recorded: Mapping[str, WrittenLine], pages: Mapping[str, Page]) -> list[tuple[str, str, str]]:
    """Report lines that vanished together, page by page."""
    counts = defaultdict[str, int](int)
    for line in recorded.values():
        counts[line.page] += line.is_left
    return [
        (pages[key].path if key in pages else "", "", f"{count} {_TOO_MANY}")
        for key, count in sorted(counts.items())
        if count
    ]
