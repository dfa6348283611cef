"""The scope of a memory (user, project, session), and deciding which project a directory belongs to.

A project is more than a folder name: two clones of one repository, or its linked worktrees, are one project. A hook
reads every name of a project from git's files, strongest first; this module decides which known project they mean. A
path alone is weak, because another repository may be at that path tomorrow. It counts only if it does not contradict a
stronger name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

LOCAL_USER = "local"
ScopeName = Literal["user", "project"]


class Scope(Struct, frozen=True, kw_only=True):
    """Where something was said, from the user (widest) to the session (narrowest).

    Attributes:
        branch: the git branch that was checked out. It is shown with results, and filters only on request.
    """

    user: str = LOCAL_USER
    project: str | None = None
    agent: str = ""
    channel: str = "unknown"
    session: str = ""
    branch: str = ""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Scope:
        """Build a scope from the columns of a row."""
        return cls(**{name: row[column] for name, column in _COLUMNS.items()})

    def row(self) -> dict[str, object]:
        """Return the scope as columns."""
        return {column: getattr(self, name) for name, column in _COLUMNS.items()}


#: The column of each field of a scope, in every table of turns and memories.
_COLUMNS: Mapping[str, str] = {
    "user": "user_id",
    "project": "project_id",
    "agent": "agent",
    "channel": "channel",
    "session": "session_id",
    "branch": "branch",
}


class ProjectChoice(Struct, frozen=True, kw_only=True):
    """The project that a list of names stands for.

    Attributes:
        name: the short name to show.
        new_aliases: the names to store for the project, in addition to those it has.
    """

    id: str
    name: str
    new_aliases: tuple[str, ...]


def choose_project(names: Sequence[str], projects_by_name: Mapping[str, str]) -> ProjectChoice | None:
    """Decide which project the names stand for; None if there are no names.

    An unknown project gets its strongest name as its id. A name that the user chose (`name:`) decides alone, and no
    other name is linked to it, because one repository may hold several such projects.

    Args:
        names: the names of a directory, strongest first.
        projects_by_name: the project id of every known name.
    """
    if not names:
        return None
    if names[0].startswith("name:"):
        return _choice(projects_by_name.get(names[0]) or names[0], names[:1], names, projects_by_name)
    strong = [name for name in names if not name.startswith("path:")]
    found = next((projects_by_name[name] for name in strong if name in projects_by_name), None)
    if found is None:
        path = next((name for name in names if name.startswith("path:") and name in projects_by_name), None)
        if path is not None and _agrees(projects_by_name[path], strong, projects_by_name):
            found = projects_by_name[path]
    return _choice(found or names[0], names, names, projects_by_name)


def display_name(names: Sequence[str]) -> str:
    """Return the short name to show: the chosen name, else the last part of the path or address."""
    by_kind = {name.partition(":")[0]: name.partition(":")[2] for name in reversed(names)}
    full = by_kind.get("name") or by_kind.get("path") or by_kind.get("origin") or names[0]
    return full.rstrip("/").rpartition("/")[2] or full


def _choice(
    project: str, storable: Sequence[str], names: Sequence[str], projects_by_name: Mapping[str, str]
) -> ProjectChoice:
    fresh = tuple(
        name for name in storable if projects_by_name.get(name) != project and not _is_taken(name, projects_by_name)
    )
    return ProjectChoice(id=project, name=display_name(names), new_aliases=fresh)


def _agrees(project: str, strong: Sequence[str], projects_by_name: Mapping[str, str]) -> bool:
    """Return False if the project already has a different name of a kind that also occurs in `strong`."""
    kinds = {name.partition(":")[0] for name in strong}
    return not any(owner == project and alias.partition(":")[0] in kinds for alias, owner in projects_by_name.items())


def _is_taken(name: str, projects_by_name: Mapping[str, str]) -> bool:
    """Return True if the name is known and is not a path; only paths can move to another project."""
    return name in projects_by_name and not name.startswith("path:")
