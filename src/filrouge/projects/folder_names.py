"""The names of a folder's project, split into the one that a file chose and those that the folder has by itself.

A `.filrouge.toml` may name the project of its folder. Anybody can write such a file into a repository, so the name
counts only for folders that the user agreed to (`capture.event_repository`). The folder that holds the file is the one
that is asked about; where it is not the folder that the agent works in, its names stand in the list behind `under:`.

This module is on the hook's path: standard library only, and a NamedTuple.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

CHOSEN = "name:"
UNDER = "under:"


class FolderNames(NamedTuple):
    """What a list of names (`hosts.project`) is made of."""

    chosen: str
    """`name:…` of a `.filrouge.toml`, or empty. A name that comes alone was chosen by the caller, not by a file."""
    holder: tuple[str, ...]
    """The names of the folder that holds the file, strongest first; empty where no file chose."""
    own: tuple[str, ...]
    """The names of the folder itself, strongest first."""


def split(names: Sequence[str]) -> FolderNames:
    """Split a list of names, strongest first, as `hosts.project.names` makes it."""
    own = tuple(name for name in names[1:] if not name.startswith(UNDER))
    if not names or not names[0].startswith(CHOSEN) or not own:
        return FolderNames("", (), tuple(names))
    holder = tuple(name.removeprefix(UNDER) for name in names if name.startswith(UNDER))
    return FolderNames(names[0], holder or own, own)


def brief_keys(names: Sequence[str]) -> list[str]:
    """The keys under which the brief of a folder's project may be kept, the best first."""
    folder = split(names)
    strong = [name for name in folder.holder if not name.startswith("path:")]
    return [*(brief_key(folder.chosen, name) for name in strong or folder.holder), *folder.own]


def brief_key(chosen: str, holder: str) -> str:
    """The key of the brief of a chosen name, for the folder that is known by `holder`."""
    return f"{chosen}\n{holder}"


def with_holder(chosen: str, holder: Iterable[str], own: Sequence[str]) -> list[str]:
    """The list of names for a folder whose project a file in the folder `holder` chose."""
    held = list(holder)
    return [chosen, *([] if held == list(own) else [UNDER + name for name in held]), *own]
