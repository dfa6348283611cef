"""Folders whose `.filrouge.toml` names other folders' project, without the user's consent."""

from __future__ import annotations

from filrouge.capture.repository import Projects
from filrouge.core.protocols import Tx
from filrouge.hosts import project as project_files
from filrouge.projects.folder_names import NAME_PREFIX, split_names


def folders_without_consent(tx: Tx) -> list[dict[str, str]]:
    """Return these folders, with the project name in each file."""
    projects, found = Projects(tx), list[dict[str, str]]()
    for chosen, folder in projects.waiting_folders():
        names = project_files.names(folder, {})
        if split_names(names).chosen == chosen and projects.is_refused(names):
            found.append({"name": chosen.removeprefix(NAME_PREFIX), "folder": folder})
    return found
