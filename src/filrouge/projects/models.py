"""Values of the projects room: plans for merging and joining, and the names of a folder's project.

A `.filrouge.toml` may name the project of its folder. Anybody can put such a file into a repository, so the name counts
only for folders that the user agreed to (`projects.repository.Projects`). The consent applies to the folder that holds
the file. If the agent works in another folder below it, the list also has the names of the holding folder, with the
prefix `under:`.

This module is on the hook's path: standard library only, and a NamedTuple.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

# Plans for merging two projects and for joining a folder to a project, shown before they apply.

#: Shown before and after a merge: only a backup can undo it.
IRREVERSIBLE_WARNING = "This cannot be undone, because the origin of each row is lost. Make a backup first."


class ProjectMerge(Struct, frozen=True, kw_only=True):
    """The merge of one project into another, with all of its turns and memories.

    Attributes:
        source, into: the ids of the projects.
        source_name, into_name: their names.
        aliases: the names of the source, which then belong to the other project.
        turns, memories, threads, events: how many rows move; memories in any state.
        replaced: ids of live memories that end, because both projects have a fact with the same key or the same
            concept. The pinned one stays, else the newer one.
    """

    source: str
    into: str
    source_name: str
    into_name: str
    aliases: tuple[str, ...]
    turns: int
    memories: int
    threads: int
    events: int
    replaced: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Yield the plan as lines of text."""
        yield f"{self.source_name} ({self.source}) goes into {self.into_name} ({self.into})"
        yield f"  moves {self.memories} memories, {self.turns} turns, {self.threads} threads, {self.events} events"
        for name in self.aliases:
            yield f"  known from then on as {self.into_name}: {name}"
        if self.replaced:
            yield f"  known in both; the pinned or newer one stays, and these end: {', '.join(self.replaced)}"
        yield IRREVERSIBLE_WARNING

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return asdict(self) | {"aliases": list(self.aliases), "replaced": list(self.replaced)}


class ProjectJoin(Struct, frozen=True, kw_only=True):
    """A folder whose `.filrouge.toml` names another folders' project, and the effect of the user's consent.

    Attributes:
        folder: the path of the folder that holds the file.
        name: the name in the file.
        project, project_name: the project with that name; empty if there is none.
        memories, turns: how many live memories and turns the project holds.
        folders: the names of the folders that may use the project's name.
        agreed: True if this folder may use it already.
    """

    folder: str
    name: str
    project: str
    project_name: str
    memories: int
    turns: int
    folders: tuple[str, ...]
    agreed: bool

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Yield the plan as lines of text."""
        if self.agreed:
            yield f"{self.folder} is part of the project {self.name!r}."
            return
        yield f"The .filrouge.toml of {self.folder} names the project {self.name!r}, which belongs to other folders:"
        for folder in self.folders or (self.project,):
            yield f"  {folder}"
        yield f"After joining, agents in this folder read its {self.memories} memories and {self.turns} turns,"
        yield "and what they learn here becomes part of it. Join only if you know who wrote that file."
        yield "Earlier turns stay in their project; `filrouge project merge` merges two projects."

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return asdict(self) | {"folders": list(self.folders)}


# Splits the names of a folder's project into the name that a file chose and the folder's own names.
