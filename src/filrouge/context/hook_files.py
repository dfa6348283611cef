"""Small files that the daemon writes for the hooks: the settings they follow, and briefs for when it is not running.

`hook.json` mirrors the settings that concern hooks, so a hook reads one small file and needs no daemon. A brief is
the rendered text of a project's standing rules, for a session that starts before the daemon does. Both are derived:
they are written atomically by renaming and are safe to delete.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress

from filrouge.context.block import build_block
from filrouge.context.request import ContextRequest
from filrouge.context.service import collect_candidates, render_options_for
from filrouge.context.sources import IN_BRIEF
from filrouge.core.paths import BRIEFS, HOOK_SETTINGS, UNSET_NONCE, brief_path, inside, make_private
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.daemon.process import write_atomically
from filrouge.hosts.project import NAME_PREFIX, brief_key
from filrouge.projects.repository import Projects
from filrouge.runtime.services import Parts, StoreContext

_LOG = logging.getLogger(__name__)


def write_hook_settings(parts: Parts) -> None:
    """Write `hook.json` from the current settings."""
    write_atomically(
        inside(parts.home, HOOK_SETTINGS), json.dumps(parts.readers.here(lambda tx: _hook_settings(parts, tx)))
    )


def write_all_briefs(parts: Parts) -> None:
    """Update every project's brief at startup: one may be missing, or outdated after a kill."""
    write_briefs(parts, None, everywhere=True)


def write_briefs(parts: Parts, project: str | None, *, everywhere: bool) -> None:
    """Update the brief of one project, or of all projects if the change applies everywhere."""
    all_ids = [row["id"] for row in parts.readers.here(lambda tx: Projects(tx).all())]
    for id_ in all_ids if everywhere else [project]:
        _write_brief(parts, id_)


def _write_brief(parts: Parts, project: str | None) -> None:
    """Write a project's brief, or remove it if the project has nothing to show."""
    text, names = parts.readers.here(lambda tx: _brief(parts, tx, project))
    make_private(inside(parts.home, BRIEFS))
    for name in names:
        path = brief_path(parts.home, name)
        try:
            if text:
                write_atomically(path, text)
                continue
        except OSError as error:  # an old brief may contain forgotten text; the next start rewrites it
            _LOG.warning("a brief could not be written and is removed: %s", error.strerror)
        with suppress(FileNotFoundError):
            os.unlink(path)


def _hook_settings(parts: StoreContext, tx: Tx) -> dict[str, object]:
    settings = parts.settings(tx)
    projects = Projects(tx)
    disabled_names = set(settings.disabled_projects)
    # A hook only knows a project's aliases; the user may have named it by id, alias or short name.
    with_aliases = [(project, projects.aliases(project["id"])) for project in projects.all()]
    disabled = [
        alias
        for project, aliases in with_aliases
        if disabled_names & {project["id"], project["name"], *aliases}
        for alias in aliases
    ]
    return {
        "auto_capture": settings.auto_capture,
        "auto_retrieve": settings.auto_retrieve_enabled,
        "disabled_projects": list(dict.fromkeys([*settings.disabled_projects, *disabled])),
        "language": settings.language,
        "wait_ms": settings.hook_wait_ms,
    }


def _brief(parts: Parts, tx: Tx, project: str | None) -> tuple[str, list[str]]:
    settings = parts.settings(tx)
    names = _brief_keys(tx, project) if project else []
    if settings.isolation:
        return "", names  # any agent may read a brief, but isolated agents see only their own memories
    request = ContextRequest(
        occasion="start",
        host="",
        session="",
        project=project,
        user=LOCAL_USER,
        agent=None,
        prompt="",
        opening="startup",
        settings=settings,
        language="en" if settings.language == "auto" else settings.language,
        now=parts.clock.now(),
    )
    candidates = collect_candidates(parts, tx, request, IN_BRIEF)
    return build_block(candidates, render_options_for(request, dated=True), nonce=UNSET_NONCE).text, names


def _brief_keys(tx: Tx, project: str) -> list[str]:
    """The names under which hooks look up a project's brief. A name chosen by a file counts only in agreed folders."""
    projects, keys = Projects(tx), list[str]()
    for alias in projects.aliases(project):
        if alias.startswith(NAME_PREFIX):
            keys += [brief_key(alias, folder) for folder in projects.agreed_folders(alias)]
        else:
            keys.append(alias)
    return keys
