"""Writing back: what is known stands as pages in one folder of the vault, and what the user changes there corrects it.

A look reads the pages, lets the memory follow what the user did to its lines, and then brings the lines up to date.
What both sides changed is left as it stands, and said (`filrouge notes`). A page that somebody else wrote a moment ago
is left until its author pauses, so that half a sentence corrects nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from filrouge.app import by_hand
from filrouge.app.every import Every
from filrouge.app.noted import WroteBack
from filrouge.app.pages_planned import Due, Known, Place, Plan, due_lines, hash_of, planned
from filrouge.app.pages_read import Found, read_pages
from filrouge.app.parts import Parts
from filrouge.app.vault import forgotten
from filrouge.config import Settings
from filrouge.errors import FilrougeError, Stale, VaultUnavailable
from filrouge.model.memory import Memory
from filrouge.notes.markdown import Line, begun, rewritten
from filrouge.ports import Vault
from filrouge.store.pages_written import Kept, Page, WrittenPages
from filrouge.transfer.markdown import escaped, free_name, plain_name, unescaped

#: More lines than these that are gone from one page at once were hardly deleted one by one.
MOST_DELETED: Final = 5
_LOOK_SECONDS: Final = 1.0
_MOST_TROUBLES: Final = 100
_UNSAID: Final = "it holds what looks like a secret; the memory stays as it was"
_FORGOTTEN: Final = "it says what was forgotten; the memory stays as it was"
_MANY: Final = "lines went at once: their memories stay, and are written again with `filrouge notes --anew`"
_HEADLESS: Final = "its filrouge-page is gone from its head: what is missing below is not taken for removed"
_REMOVED: Final = "was removed: its memories stay, and are written again with `filrouge notes --anew`"


def pages_watch(parts: Parts) -> Every:
    """Writes what is known into the vault, where the user wants it."""
    return Every(_LOOK_SECONDS, WritingBack(parts).look, name="vault-pages", failed="the pages could not be written")


class WritingBack:
    """Keeps the pages as the memory is, and the memory as the user wants it. `look` is called again and again."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._seen: object = None
        self._own: dict[str, str] = {}

    def look(self) -> None:
        """Take in what the user changed, then bring the pages up to date; where nothing changed nothing is read."""
        parts = self._parts
        settings = parts.readers.here(lambda tx: parts.settings(tx))
        into = settings.notes_write_folder
        if not into or not settings.notes_folder:
            parts.noted.written, self._seen = WroteBack(), None
            self._own.clear()
            return
        if parts.noted.anew.is_set():
            parts.noted.anew.clear()
            parts.writer.run_patient(lambda tx: WrittenPages(tx).anew())
            self._seen = None
        vault = parts.open_vault(settings.notes_folder)
        try:
            stamps = vault.list(into).stamps
        except VaultUnavailable as error:
            parts.noted.written = WroteBack(folder=into, problem=error.message)
            return
        newest = parts.readers.here(lambda tx: WrittenPages(tx).newest_change())
        state = (settings.notes_folder, into, newest, stamps)
        if state != self._seen and self._follow(vault, settings, stamps):
            self._seen = state

    def _follow(self, vault: Vault, settings: Settings, stamps: Mapping[str, str]) -> bool:
        """Both ways once; False if something has to be looked at again."""
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
        known = Known(kept=kept, hashes=hashes, heads=heads, due=due)
        plan = planned(found.places, known, found.corrected)
        self._let_go(plan, known)
        new = _new(plan, known, pages, found)
        for key in [key for key in new if key not in pages]:
            taken = {path.casefold() for path in (*stamps, *(one.path for one in pages.values()))}
            path = free_name(f"{settings.notes_write_folder}/{plain_name(new[key][0].title)}", taken)
            pages[key] = Page(place=place, path=path)
        kept, is_done = self._write(vault, found, plan, known, pages, new)
        parts.writer.run_patient(lambda tx: WrittenPages(tx).keep(pages, kept))
        removed = [("", "", f"the page {key} {_REMOVED}") for key, one in pages.items() if not one.path]
        parts.noted.written = WroteBack(
            folder=settings.notes_write_folder,
            pages=sum(1 for one in pages.values() if one.path),
            memories=sum(not one.is_left for one in kept.values()),
            troubles=_told([*found.troubles, *plan.troubles, *removed, *_headless(found, pages), *_left(kept, pages)]),
        )
        return is_done and not found.is_waiting

    def _take_in(
        self, found: Found, kept: Mapping[str, Kept], live: Mapping[str, Memory], hashes: Mapping[str, str]
    ) -> dict[str, Kept]:
        """Let the memory follow what the user did to its lines; what is known of them then."""
        places = defaultdict[str, list[Place]](list)
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

    def _binned(self, found: Found, kept: dict[str, Kept], there: Collection[str]) -> dict[str, Kept]:
        """Put memories into the bin whose lines the user removed; what is known of the others."""
        gone, left = defaultdict[str, list[str]](list), dict(kept)
        for id_, one in kept.items():
            # A page that lost its head was not edited, it was cut off.
            if id_ not in there and id_ not in found.elsewhere and not one.is_left and one.page in found.paths:
                gone[one.page].append(id_)
        for page, all_of in gone.items():
            if len(all_of) > MOST_DELETED:
                left |= {id_: replace(left[id_], is_left=True) for id_ in all_of}
                continue
            for id_ in all_of:
                by_hand.bin_memory(self._parts, id_, source=f"its line was removed from {found.paths[page]}")
                del left[id_]
        return left

    def _correct(self, memory: Memory, place: Place) -> str:
        """Let a memory say what its line says; why it does not, or empty."""
        parts, text = self._parts, unescaped(place.line.words).strip()
        if memory.key and memory.value is not None:
            text = text.removeprefix(f"{memory.key}:").strip()
        if parts.redact(text) != text:
            return _UNSAID
        if parts.readers.here(lambda tx: forgotten(parts, tx, [text, by_hand.restated(memory, text).text])):
            return _FORGOTTEN
        try:
            by_hand.supersede(parts, memory.id, text, source=f"edited in {place.path}")
        except FilrougeError as error:
            return error.message
        return ""

    def _let_go(self, plan: Plan, known: Known) -> None:
        """Know no more of lines that we take out ourselves, before they are out: otherwise the user would have."""
        lost = plan.lost & known.kept.keys()
        if lost:
            self._parts.writer.run_patient(lambda tx: WrittenPages(tx).let_go(lost))

    def _write(
        self,
        vault: Vault,
        found: Found,
        plan: Plan,
        known: Known,
        pages: dict[str, Page],
        new: Mapping[str, list[Due]],
    ) -> tuple[dict[str, Kept], bool]:
        """Write what changes; what the pages hold then, and whether there was nothing to write."""
        kept, is_done = dict(known.kept), True
        keys = {one.path: key for key, one in pages.items() if one.path}
        for path in sorted({*found.texts, *(pages[key].path for key in new)}):
            before, key = found.texts.get(path), keys.get(path, "")
            added = new.get(key, [])
            if not added and path not in plan.changes:
                continue
            page = before if before is not None else begun(key, escaped(added[0].title))
            rows = [(one.heading, Line(id=one.id, words=one.words)) for one in added]
            is_done = False  # what was seen is no more
            text = rewritten(page, plan.changes.get(path, {}), rows)
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
            kept |= {one.id: Kept(page=key, hash=one.hash) for one in added}
            kept |= _standing(plan.placed.get(path, []), key, known)
        for path in found.texts.keys() - plan.changes.keys():
            kept |= _standing(plan.placed.get(path, []), keys.get(path, ""), known)
        return kept, is_done


def _new(plan: Plan, known: Known, pages: Mapping[str, Page], found: Found) -> dict[str, list[Due]]:
    """What has no line yet, by the key of its page; nothing for a page that was removed, or is being written."""
    there = plan.blocked.union(known.kept, *plan.placed.values())
    new = defaultdict[str, list[Due]](list)
    for id_, one in known.due.items():
        if id_ not in there and (one.page not in pages or pages[one.page].path in found.texts):
            new[one.page].append(one)
    return dict(new)


def _standing(ids: list[str], page: str, known: Known) -> dict[str, Kept]:
    """What stands on a page now; of a line that is left alone what was known of it."""
    found = dict[str, Kept]()
    for id_ in ids:
        if id_ in known.due:
            found[id_] = Kept(page=page, hash=known.due[id_].hash)
        elif id_ in known.kept:
            found[id_] = known.kept[id_]
    return found


def _path_now(key: str, path: str, found: Found, stamps: Mapping[str, str]) -> str:
    """Where a page is now; empty if it was removed."""
    if key in found.paths:
        return found.paths[key]
    return path if path in stamps or not found.is_whole else ""


def _told(troubles: list[tuple[str, str, str]]) -> tuple[tuple[str, str, str], ...]:
    """What to say of each line, the first reason of each."""
    told = dict[tuple[str, str], tuple[str, str, str]]()
    for path, id_, why in troubles:
        told.setdefault((path, id_ or why), (path, id_, why))
    return tuple(list(told.values())[:_MOST_TROUBLES])


def _headless(found: Found, pages: Mapping[str, Page]) -> list[tuple[str, str, str]]:
    return [
        (one.path, "", _HEADLESS)
        for key, one in pages.items()
        if one.path in found.texts.keys() - {found.paths.get(key)}
    ]


def _left(kept: Mapping[str, Kept], pages: Mapping[str, Page]) -> list[tuple[str, str, str]]:
    """What to say of lines that went at once, page by page."""
    count = defaultdict[str, int](int)
    for one in kept.values():
        count[one.page] += one.is_left
    return [(pages[key].path if key in pages else "", "", f"{n} {_MANY}") for key, n in sorted(count.items()) if n]
