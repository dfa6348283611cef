"""Rows of projects: their names, finding a project by a name, and folders that wait for the user's consent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from filrouge.core.clock import to_text
from filrouge.core.errors import NotFound
from filrouge.core.protocols import Tx
from filrouge.core.scope import choose_project
from filrouge.hosts import project as project_files
from filrouge.hosts.project import NAME_PREFIX, FolderNames, split_names


class Projects:
    """Resolves a list of names to a project.

    A name chosen in a `.filrouge.toml` is open to the first folder that had it, and to folders that the user agreed to.
    Any other folder keeps the project of its own names. Folders are known by their own names, in the table
    `project_folders`, and compared in the same way as projects.
    """

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def resolve(self, names: tuple[str, ...], *, at: datetime) -> str | None:
        """Return the project's id; store a project or name that is new."""
        admitted = self.admitted(names)
        if not admitted:
            return None
        folder = split_names(names)
        if folder.chosen_name:
            state = "agreed" if folder.chosen_name in admitted else "waiting"
            self._remember(
                folder.chosen_name, folder.holder_names if state == "agreed" else folder.holder_names[-1:], state, at
            )
        project_by_alias = self._projects_by_alias(admitted)
        choice = choose_project(admitted, project_by_alias)
        if choice is None:
            return None
        if choice.id not in project_by_alias.values():
            self._tx.run("projects.add", {"id": choice.id, "name": choice.name, "created_at": to_text(at)})
        for alias in choice.new_aliases:
            self._tx.run("projects.alias", {"alias": alias, "project_id": choice.id})
        return choice.id

    def find(self, names: tuple[str, ...]) -> str | None:
        """Return the project's id if it is known; write nothing."""
        admitted = self.admitted(names)
        choice = choose_project(admitted, self._projects_by_alias(admitted))
        return choice.id if choice and any(r["id"] == choice.id for r in self.all()) else None

    def admitted(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names to use, without a chosen name that is not open to the folder."""
        folder = split_names(names)
        if not folder.chosen_name:
            return folder.folder_names
        return (folder.chosen_name, *folder.folder_names) if self._is_open(folder) else folder.folder_names

    def is_refused(self, names: Sequence[str]) -> bool:
        """Return True if the folder's file chose a name that is not open to it."""
        folder = split_names(names)
        return bool(folder.chosen_name) and not self._is_open(folder)

    def agree(self, names: Sequence[str], *, at: datetime) -> None:
        """Open the chosen name to the folder that holds the file."""
        folder = split_names(names)
        self._remember(folder.chosen_name, folder.holder_names, "agreed", at)

    def waiting_folders(self) -> list[tuple[str, str]]:
        """Return chosen names that were refused, each with the path of the folder whose file chose it."""
        rows = self._tx.all("projects.waiting_folders")
        return [(row["name"], row["alias"].removeprefix("path:")) for row in rows]

    def agreed_folders(self, chosen: str) -> list[str]:
        """Return the names of the folders that a chosen name is open to."""
        return [row["alias"] for row in self._tx.all("projects.agreed_folders", {"name": chosen})]

    def all(self) -> list[dict[str, Any]]:
        """Return every project with its short name."""
        return self._tx.all("projects.all")

    def aliases(self, project_id: str) -> list[str]:
        """Return every name of the project."""
        return [row["alias"] for row in self._tx.all("projects.aliases", {"project_id": project_id})]

    def _is_open(self, folder: FolderNames) -> bool:
        agreed = dict.fromkeys(self.agreed_folders(folder.chosen_name), folder.chosen_name)
        project_by_alias = self._projects_by_alias((folder.chosen_name, *folder.holder_names))
        if not agreed and folder.chosen_name not in project_by_alias:
            return True  # the name is not taken yet
        if (
            folder.chosen_name in project_by_alias
            and _project_of(folder.holder_names, project_by_alias) == project_by_alias[folder.chosen_name]
        ):
            return True  # the folder belongs to that project even without the file
        return _project_of(folder.holder_names, agreed) == folder.chosen_name

    def _remember(self, chosen: str, aliases: Sequence[str], state: str, at: datetime) -> None:
        for alias in aliases:
            self._tx.run("projects.folder", {"name": chosen, "alias": alias, "state": state, "at": to_text(at)})

    def _projects_by_alias(self, names: tuple[str, ...]) -> dict[str, str]:
        """Return the projects of these names, keyed by every alias of those projects."""
        rows = self._tx.all("projects.known", {"names": json.dumps(names)})
        return {row["alias"]: row["project_id"] for row in rows}


def _project_of(holder: Sequence[str], project_by_alias: Mapping[str, str]) -> str | None:
    """Return the project of a folder's names, or None."""
    choice = choose_project(holder, project_by_alias)
    return choice.id if choice and choice.id in project_by_alias.values() else None


def project_id(tx: Tx, names: Sequence[str]) -> str | None:
    """Return the project with these names; a single name may be an id, an alias or a short name.

    Raises:
        NotFound: a single name without `:` that no project has.
    """
    if not names:
        return None
    if len(names) == 1:
        name = names[0]
        for row in Projects(tx).all():
            if name in (row["id"], row["name"]) or name in Projects(tx).aliases(row["id"]):
                return str(row["id"])
        if ":" not in name:
            raise NotFound(f"There is no project {name!r}.", remedy="See `filrouge project list`.")
        return name
    projects = Projects(tx)
    return projects.find(tuple(names)) or projects.admitted(names)[0]


def project_names(tx: Tx, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names under which to store something; a single plain name must be a known project.

    Raises:
        NotFound: a single name without `:` that no project has.
    """
    known = project_id(tx, names) if len(names) == 1 else None
    return (known,) if known else tuple(names)


def names_of(tx: Tx) -> dict[str, str]:
    """Return the short name of every project by id."""
    return {row["id"]: row["name"] for row in Projects(tx).all()}


def resolve_project(tx: Tx, names: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """Return the names to store a program's data under, and the project's id; a new plain name becomes a project."""
    try:
        known = project_id(tx, names)
    except NotFound:
        return (f"name:{names[0]}",), f"name:{names[0]}"
    return ((known,) if known and len(names) == 1 else tuple(names)), known


# Folders whose `.filrouge.toml` names other folders' project, without the user's consent.


def folders_without_consent(tx: Tx) -> list[dict[str, str]]:
    """Return these folders, with the project name in each file."""
    projects, found = Projects(tx), list[dict[str, str]]()
    for chosen, folder in projects.waiting_folders():
        names = project_files.find_names(folder, {})
        if split_names(names).chosen_name == chosen and projects.is_refused(names):
            found.append({"name": chosen.removeprefix(NAME_PREFIX), "folder": folder})
    return found
