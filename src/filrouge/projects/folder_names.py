"""Splits the names of a folder's project into the name that a file chose and the folder's own names.

A `.filrouge.toml` may name the project of its folder. Anybody can put such a file into a repository, so the name counts
only for folders that the user agreed to (`capture.repository.Projects`). The consent applies to the folder that holds
the file. If the agent works in another folder below it, the list also has the names of the holding folder, with the
prefix `under:`.

This module is on the hook's path: standard library only, and a NamedTuple.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

NAME_PREFIX = "name:"
HOLDER_PREFIX = "under:"


class FolderNames(NamedTuple):
    """The parts of a list of names (`hosts.project`)."""

    chosen: str
    """`name:…` of a `.filrouge.toml`, or empty. A name that comes alone was chosen by the caller, not by a file."""
    holder: tuple[str, ...]
    """The names of the folder that holds the file, strongest first; empty where no file chose."""
    own: tuple[str, ...]
    """The names of the folder itself, strongest first."""


def split_names(names: Sequence[str]) -> FolderNames:
    """Split a list of names, strongest first, as `hosts.project.names` returns it."""
    own = tuple(name for name in names[1:] if not name.startswith(HOLDER_PREFIX))
    if not names or not names[0].startswith(NAME_PREFIX) or not own:
        return FolderNames("", (), tuple(names))
    holder = tuple(name.removeprefix(HOLDER_PREFIX) for name in names if name.startswith(HOLDER_PREFIX))
    return FolderNames(names[0], holder or own, own)


def brief_keys(names: Sequence[str]) -> list[str]:
    """Return the keys under which the brief of a folder's project may be stored, best first."""
    folder = split_names(names)
    strong = [name for name in folder.holder if not name.startswith("path:")]
    return [*(brief_key(folder.chosen, name) for name in strong or folder.holder), *folder.own]


def brief_key(chosen: str, holder: str) -> str:
    """Return the brief's key for a chosen name and the folder with the name `holder`."""
    return f"{chosen}\n{holder}"


def join_names(chosen: str, holder: Iterable[str], own: Sequence[str]) -> list[str]:
    """Return the list of names for a folder whose project was chosen by a file in the folder `holder`."""
    held = list(holder)
    return [chosen, *([] if held == list(own) else [HOLDER_PREFIX + name for name in held]), *own]
