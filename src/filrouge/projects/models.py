"""What it takes to make one project of two, as a value that prints itself before anything is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

#: What is said before and after: there is no way back but a backup.
NO_WAY_BACK = "This cannot be undone: afterwards nobody knows which was whose. A backup is the way back."


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectMerge:
    """A project that goes into another, with all that was said and learned in it.

    Attributes:
        source, into: their ids.
        aliases: the names that lead to the other from then on.
        turns, memories, threads, events: how many rows move; memories of whatever state.
        replaced: the ids of live memories that end, because both projects have a fact of the same key, or the same
            concept; the pinned one stands, else the newer.
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
        """The plan, a line at a time."""
        yield f"{self.source_name} ({self.source}) goes into {self.into_name} ({self.into})"
        yield f"  moves {self.memories} memories, {self.turns} turns, {self.threads} threads, {self.events} events"
        for name in self.aliases:
            yield f"  known from then on as {self.into_name}: {name}"
        if self.replaced:
            yield f"  said in both, so that the newer or pinned one stands: {', '.join(self.replaced)} end"
        yield NO_WAY_BACK

    def to_json(self) -> dict[str, Any]:
        """The plan for programs."""
        return asdict(self) | {"aliases": list(self.aliases), "replaced": list(self.replaced)}


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectJoin:
    """A folder whose `.filrouge.toml` names a project of other folders, and what agreeing to that means.

    Attributes:
        folder: the path of the folder that holds the file.
        name: the name in the file.
        project, project_name: whose name it is; empty where no project has it.
        memories, turns: what that project holds, of live memories.
        folders: the names of the folders that the project's name is open to.
        agreed: True where the name is open to the folder already.
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
        """The plan, a line at a time."""
        if self.agreed:
            yield f"{self.folder} is part of the project {self.name!r}."
            return
        yield f"The .filrouge.toml of {self.folder} names the project {self.name!r}, which belongs to other folders:"
        for folder in self.folders or (self.project,):
            yield f"  {folder}"
        yield f"After joining, agents in this folder read its {self.memories} memories and {self.turns} turns,"
        yield "and what they learn here becomes part of it. Join only if you know who wrote that file."
        yield "What was said here before stays where it is; `filrouge project merge` puts two projects together."

    def to_json(self) -> dict[str, Any]:
        """The plan for programs."""
        return asdict(self) | {"folders": list(self.folders)}
