"""Whose memory it is, and where it holds.

A project is not a folder name: the same repository cloned twice, or checked out as linked worktrees, is one
project. A hook reads from git's files every name by which a project may be known, strongest first, and this
module decides which known project that is. A path alone is weak (another repository may stand there
tomorrow), so it only counts where it does not contradict a stronger name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

LOCAL_USER = "local"
ScopeName = Literal["user", "project"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """Where something was said: the widest part is the user, the narrowest the session.

    Attributes:
        branch: the git branch that was checked out then. It is told, and narrows nothing unasked.
    """

    user: str = LOCAL_USER
    project: str | None = None
    agent: str = ""
    channel: str = "unknown"
    session: str = ""
    branch: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectChoice:
    """The project that a list of names stands for, and the names to remember for it."""

    id: str
    name: str
    new_aliases: tuple[str, ...]


def choose_project(names: Sequence[str], known: Mapping[str, str]) -> ProjectChoice | None:
    """Decide which project `names` (strongest first) stand for, given every `known` alias → project id.

    Returns None for an empty list. An unknown project takes its strongest name as its id. A name given by hand
    decides alone, and no other name is tied to it: one repository may hold several such projects.
    """
    if not names:
        return None
    if names[0].startswith("name:"):
        return _choice(known.get(names[0]) or names[0], names[:1], names, known)
    strong = [name for name in names if not name.startswith("path:")]
    found = next((known[name] for name in strong if name in known), None)
    if found is None:
        path = next((name for name in names if name.startswith("path:") and name in known), None)
        if path is not None and _agrees(known[path], strong, known):
            found = known[path]
    return _choice(found or names[0], names, names, known)


def display_name(names: Sequence[str]) -> str:
    """The short name a person would use: the override, else the last part of the path or address."""
    by_kind = {name.partition(":")[0]: name.partition(":")[2] for name in reversed(names)}
    full = by_kind.get("name") or by_kind.get("path") or by_kind.get("origin") or names[0]
    return full.rstrip("/").rpartition("/")[2] or full


def _choice(project: str, remembered: Sequence[str], names: Sequence[str], known: Mapping[str, str]) -> ProjectChoice:
    fresh = tuple(name for name in remembered if known.get(name) != project and not _taken(name, known))
    return ProjectChoice(id=project, name=display_name(names), new_aliases=fresh)


def _agrees(project: str, strong: Sequence[str], known: Mapping[str, str]) -> bool:
    """True unless the project already has a name of a kind that `strong` gives otherwise."""
    kinds = {name.partition(":")[0] for name in strong}
    return not any(owner == project and alias.partition(":")[0] in kinds for alias, owner in known.items())


def _taken(name: str, known: Mapping[str, str]) -> bool:
    """A strong name never moves to another project; a path does."""
    return name in known and not name.startswith("path:")
