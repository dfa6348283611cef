"""Markdown: notes, `CLAUDE.md`, `AGENTS.md`, OpenClaw's daily pages, split by heading, each with its file and line.

What stands in a code fence is no heading. Front matter is left out, as are hidden folders and links to other places.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Final

from filrouge.errors import BadInput
from filrouge.model.imported import ImportedMemory, Item, Trouble
from filrouge.transfer.readers.opening import below, opened

_LARGEST: Final = 4 * 1024 * 1024
_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")


def read(path: str) -> Iterator[Item]:
    """Every section that says something, as a note."""
    is_folder = os.path.isdir(path)
    places = [one for one in below(path) if one.lower().endswith((".md", ".markdown"))] if is_folder else [path]
    if not places:
        raise BadInput(f"There is no Markdown file in {path}.", remedy="Name the folder of the notes.")
    for place in places:
        name = os.path.relpath(place, path) if is_folder else os.path.basename(place)
        with opened(place) as file:
            raw = file.read(_LARGEST + 1)
            at = os.fstat(file.fileno()).st_mtime
        if len(raw) > _LARGEST:
            yield Trouble(place, "it is larger than 4 MB")
            continue
        yield from _sections(raw.decode("utf-8-sig", "replace").splitlines(), name, max(0.0, at))


def _sections(lines: Sequence[str], name: str, at: float) -> Iterator[ImportedMemory]:
    """Each heading with what stands below it; the headings above it say what it is about."""
    above: list[tuple[int, str]] = []
    start, body, fence = _behind_front_matter(lines), list[str](), ""
    first = start
    for number in range(start, len(lines)):
        line = lines[number]
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        heading = None if fence else _HEADING.match(line)
        if heading is None:
            body.append(line)
            continue
        yield from _section(above, body, name, first, at)
        level = len(heading[1])
        above = [*(one for one in above if one[0] < level), (level, (heading[2] or "").strip())]
        body, first = [], number
    yield from _section(above, body, name, first, at)


def _section(
    above: Sequence[tuple[int, str]], body: Sequence[str], name: str, line: int, at: float
) -> Iterator[ImportedMemory]:
    said = "\n".join(body).strip()
    if not said:
        return
    title = " > ".join(heading for _, heading in above if heading)
    text = f"{title}\n{said}" if title else said
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    yield ImportedMemory(
        key=f"{name}\0{digest}", text=text, kind="note", at=at, place=f"{name}:{line + 1}", subject=title or name
    )


def _behind_front_matter(lines: Sequence[str]) -> int:
    if not lines or lines[0].strip() != "---":
        return 0
    return next((n + 1 for n, line in enumerate(lines[1:], 1) if line.strip() in ("---", "...")), 0)
