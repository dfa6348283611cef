"""Small files that the daemon keeps for the hooks: what they may do, and what to say when it is away.

`hook.json` mirrors the settings a hook obeys, so that a hook reads one small file and asks nobody. A brief
holds a project's standing rules, ready rendered, for a session that starts before the daemon does. Both are
derived: written whole, by renaming, and safe to delete.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress

from filrouge.capture.repository import Projects
from filrouge.context.budget import planned
from filrouge.context.request import Moment
from filrouge.context.service import gathered, manner_of
from filrouge.context.sources import IN_BRIEF
from filrouge.core.paths import BRIEFS, HOOK_SETTINGS, UNSET_NONCE, brief_path, inside, make_private
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.daemon.process import write_whole
from filrouge.projects.folder_names import CHOSEN, brief_key
from filrouge.runtime.services import Parts

_LOG = logging.getLogger(__name__)


def write_hook_settings(parts: Parts) -> None:
    """Mirror what the hooks obey."""
    write_whole(inside(parts.home, HOOK_SETTINGS), json.dumps(parts.readers.here(lambda tx: _mirrored(parts, tx))))


def write_all_briefs(parts: Parts) -> None:
    """Bring every project's brief up to date, at the start: one may be missing, or was left old by a kill."""
    write_briefs(parts, None, everywhere=True)


def write_briefs(parts: Parts, project: str | None, *, everywhere: bool) -> None:
    """Bring the briefs up to date: of one project, or of all where what changed holds for the user everywhere."""
    known = [row["id"] for row in parts.readers.here(lambda tx: Projects(tx).all())]
    for one in known if everywhere else [project]:
        _write_brief(parts, one)


def _write_brief(parts: Parts, project: str | None) -> None:
    """Render a project's rules for sessions that start before the daemon; remove the brief where there are none."""
    text, names = parts.readers.here(lambda tx: _brief(parts, tx, project))
    make_private(inside(parts.home, BRIEFS))
    for name in names:
        path = brief_path(parts.home, name)
        try:
            if text:
                write_whole(path, text)
                continue
        except OSError as error:  # an old brief may say what was forgotten; the next start writes it
            _LOG.warning("a brief could not be written and is removed: %s", error.strerror)
        with suppress(FileNotFoundError):
            os.unlink(path)


def _mirrored(parts: Parts, tx: Tx) -> dict[str, object]:
    settings = parts.settings(tx)
    projects = Projects(tx)
    named = set(settings.disabled_projects)
    # A hook knows a project by its aliases only; the user may have said its id, an alias or its short name.
    known = [(project, projects.aliases(project["id"])) for project in projects.all()]
    disabled = [
        alias for project, aliases in known if named & {project["id"], project["name"], *aliases} for alias in aliases
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
        return "", names  # a brief is read by whichever agent starts first, and each sees only its own
    moment = Moment(
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
    pieces = gathered(parts, tx, moment, IN_BRIEF)
    return planned(pieces, manner_of(moment, dated=True), nonce=UNSET_NONCE).text, names


def _brief_keys(tx: Tx, project: str) -> list[str]:
    """What a hook looks a project's brief up by; a name that a file chose counts in the agreed folders alone."""
    projects, keys = Projects(tx), list[str]()
    for alias in projects.aliases(project):
        if alias.startswith(CHOSEN):
            keys += [brief_key(alias, folder) for folder in projects.agreed_folders(alias)]
        else:
            keys.append(alias)
    return keys
