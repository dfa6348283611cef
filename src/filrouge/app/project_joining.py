"""Folders that join a project by the name in their `.filrouge.toml`: what it means, and the consent.

The first folder with a name has it (`store.events.Projects`). Anybody can write the same name into a repository, so a
further folder gets the project's memories once the user has agreed on this machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from filrouge.app.mirror import write_briefs, write_hook_settings
from filrouge.app.parts import Parts
from filrouge.errors import BadInput
from filrouge.model.folder_names import CHOSEN, split
from filrouge.model.project import ProjectJoin
from filrouge.ports import Tx
from filrouge.store.events import Projects
from filrouge.store.projects import ProjectRows


def plan_join(parts: Parts, names: Sequence[str]) -> ProjectJoin:
    """What it means to let a folder be the project that its file names.

    Args:
        names: the folder's names as `hosts.project.names` gives them.

    Raises:
        BadInput: no file names a project for this folder.
    """
    return parts.readers.here(lambda tx: _plan_join(parts, tx, names))


def join(parts: Parts, names: Sequence[str]) -> ProjectJoin:
    """Record that the user agrees: the folder is the project that its file names. Answers what it is then.

    Raises:
        BadInput: as `plan_join`.
    """

    def write(tx: Tx) -> ProjectJoin:
        _plan_join(parts, tx, names)
        Projects(tx).agree(names, at=parts.clock.now())
        return _plan_join(parts, tx, names)

    made = parts.writer.run(write)
    write_hook_settings(parts)
    if made.project:
        write_briefs(parts, made.project, everywhere=False)
    return made


def _plan_join(parts: Parts, tx: Tx, names: Sequence[str]) -> ProjectJoin:
    folder, projects = split(names), Projects(tx)
    if not folder.chosen:
        raise BadInput(
            "No .filrouge.toml names a project for this folder.",
            remedy='Write `project = "NAME"` into it, or see `filrouge project alias`.',
        )
    owner = projects.find((folder.chosen,)) or ""
    row = next((row for row in ProjectRows(tx, parts.analyser).told() if row["id"] == owner), None)
    return ProjectJoin(
        folder=folder.holder[-1].removeprefix("path:"),
        name=folder.chosen.removeprefix(CHOSEN),
        project=owner,
        project_name=row["name"] if row else "",
        memories=row["memories"] if row else 0,
        turns=row["turns"] if row else 0,
        folders=tuple(projects.agreed_folders(folder.chosen)),
        agreed=not projects.is_refused(names),
    )
