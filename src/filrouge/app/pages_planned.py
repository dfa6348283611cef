"""What becomes of the pages in the vault: which line of a memory stays, says something else, goes, or is new.

The words of a memory never change: what says something else is another memory, which it leads to. So a line that does
not hold the words of its memory was edited.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from filrouge.app.report import names_of
from filrouge.notes.markdown import Line
from filrouge.ports import Tx
from filrouge.store.pages_written import Head, Kept, WrittenPages
from filrouge.transfer.markdown import SECTIONS, escaped, unescaped

_BOTH: Final = "changed here and in the memory: let both say the same, or remove the line to have the memory's words"
_GONE: Final = "edited, and its memory is gone: remove the line, or keep its words with `filrouge remember`"


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """A memory that belongs on a page, with what its line says and the heading that it stands under."""

    id: str
    page: str
    title: str
    heading: str
    words: str
    hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A line of a memory where it was found; `hash` is that of what it says."""

    path: str
    line: Line
    hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What is known of the memories whose lines were found.

    Attributes:
        kept: what was written, by memory.
        hashes: of what each memory says itself.
        heads: what says it today.
        due: what belongs on pages.
    """

    kept: Mapping[str, Kept]
    hashes: Mapping[str, str]
    heads: Mapping[str, Head]
    due: Mapping[str, Due]


@dataclass(kw_only=True, slots=True)
class Plan:
    """What is to be done.

    Attributes:
        changes: by path, what stands in the place of a line; None = nothing.
        placed: by path, the memories that stand there then.
        troubles: the path, the memory and why its line is left alone.
        lost: memories whose lines go.
        blocked: memories that are not written, because a line speaks against them.
    """

    changes: dict[str, dict[int, Line | None]] = field(default_factory=lambda: defaultdict(dict))
    placed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    troubles: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    lost: set[str] = field(default_factory=set[str])
    blocked: set[str] = field(default_factory=set[str])


def hash_of(text: str) -> str:
    """What tells texts apart that say something else; how they are spaced says nothing."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "surrogatepass")).hexdigest()


def place_of(path: str, line: Line) -> Place:
    """A line as it was found."""
    return Place(path=path, line=line, hash=hash_of(unescaped(line.words)))


def due_lines(tx: Tx) -> dict[str, Due]:
    """What belongs on pages, by its id, the oldest first: a page of the user, one for each project, and one for the
    sessions of each month."""
    names, found = names_of(tx), dict[str, Due]()
    for one in WrittenPages(tx).shown():
        project = names.get(one.project, one.project) if one.project else ""
        if one.kind == "episode":
            month = one.day[:7]
            page, title, heading = f"sessions-{month}", f"Sessions {month}", f"{one.day} {project}".strip()
        else:
            page, title = (_key(one.project), f"Project {project}") if one.project else ("user", "User")
            heading = SECTIONS[one.kind]
        found[one.id] = Due(
            id=one.id,
            page=page,
            title=title,
            heading=escaped(heading),
            words=escaped(one.text),
            hash=hash_of(one.text),
        )
    return found


def _key(project: str) -> str:
    """What the page of a project is known by: an id may hold whatever a path holds."""
    return f"project-{hashlib.sha256(project.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def planned(places: Sequence[Place], known: Known, corrected: Collection[str] = ()) -> Plan:
    """What becomes of the lines that were found.

    Args:
        corrected: memories that were made to say what their lines say; the words of these may differ in form.
    """
    plan, done = Plan(), set[str]()
    for place in places:
        id_, head = place.line.id, known.heads.get(place.line.id)
        before = known.hashes.get(id_) or (known.kept[id_].hash if id_ in known.kept else "")
        if not before:
            continue  # of another memory, as where two machines share a vault
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
            line = None  # two memories have become one
        if line is None or (line.id, line.words) != (id_, place.line.words):
            plan.changes[place.path][place.line.number] = line
        if line is None:
            plan.lost.add(id_)
        else:
            done.add(line.id)
            plan.placed[place.path].append(line.id)
    return plan
