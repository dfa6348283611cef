"""Pages of memories as files of a folder: written for a person to read, and read in again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from filrouge.cli import output
from filrouge.errors import BadInput, CannotWrite
from filrouge.transfer import markdown

_HEAD = 4096


def write(folder: str, document: Mapping[str, Any]) -> list[str]:
    """Write an export's memories as pages; the names of those that changed or are new.

    A page that was written here before is replaced, any other file is left alone.

    Raises:
        CannotWrite: it cannot be written there, or a file of another's bears the name of a page.
    """
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return [
            name
            for name, text in markdown.pages(document["projects"], document["memories"])
            if _written(os.path.join(folder, name), text)
        ]
    except OSError as error:
        raise output.unwritable(folder, error) from error


def read(folder: str, head: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The pages of a folder as one document under this head, and what is wrong with lines of them.

    Raises:
        BadInput: there is no page in it, or it cannot be read.
    """
    found: list[tuple[str, markdown.Page]] = []
    try:
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if name.endswith(".md") and os.path.isfile(path) and (page := markdown.read(_text(path))) is not None:
                found.append((name, page))
    except OSError as error:
        raise BadInput(f"{folder} cannot be read: {error.strerror}.") from error
    if not found:
        remedy = "`filrouge export --format markdown --out FOLDER` writes them."
        raise BadInput(f"{folder} holds no page of Filrouge.", remedy=remedy)
    problems = [
        {"table": name, "place": number, "problem": problem}
        for name, page in found
        for number, problem in page.problems
    ]
    projects = [page.project for _, page in found if page.project is not None]
    memories = _once(row for _, page in found for row in page.memories)
    return {**head, "projects": projects, "messages": [], "memories": memories}, problems


def _once(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in the order of their birth, each once, and each behind what it replaces."""
    by_id = {str(row["id"]): row for row in rows}
    done: dict[str, dict[str, Any]] = {}
    for id_ in sorted(by_id):
        line: list[str] = []
        while id_ in by_id and id_ not in done and id_ not in line:
            line.append(id_)
            id_ = str(by_id[id_].get("supersedes"))
        done |= {one: by_id[one] for one in reversed(line)}
    return list(done.values())


def _text(path: str) -> str:
    """A file that may be a page; what is no text is none."""
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        start = file.read(_HEAD)
        return start + file.read() if start.removeprefix("\ufeff").startswith("---") else start


def _written(path: str, text: str) -> bool:
    """Put a page in its place, unless it is there already."""
    if os.path.lexists(path):
        if os.path.islink(path) or not os.path.isfile(path):
            raise CannotWrite(f"{path} is no plain file.", remedy="Export to another folder.")
        there = _text(path)
        if there == text:
            return False
        if markdown.read(there) is None:
            raise CannotWrite(f"{path} is no page of Filrouge.", remedy="Move it, or export to another folder.")
    handle, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".filrouge-")
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.replace(new, path)
    return True
