"""What a hook is told by its home, and what it prints.

The daemon mirrors the settings that a hook needs into one small file, and keeps a brief beside it for
each project: the rules and the last synthesis, for a session that starts before the daemon is up.
"""

from __future__ import annotations

import json
import os
from typing import Any, Final, NamedTuple

from filrouge.core import paths
from filrouge.hosts import Host
from filrouge.hosts.reading import as_list, as_object
from filrouge.projects.folder_names import brief_keys

#: Both big hosts cut at 10,000: one counts characters, the other bytes.
LARGEST_CONTEXT: Final = 9_500
_LARGEST_FILE: Final = 1_000_000


class HookSettings(NamedTuple):
    """The settings that concern a hook."""

    auto_capture: bool = True
    auto_retrieve: bool = True
    disabled_projects: tuple[str, ...] = ()
    wait: float = 1.5
    """Seconds to wait for a context that the daemon works on."""


def settings_of(directory: str) -> HookSettings:
    """The settings in that home; the default of each that is missing or of the wrong kind."""
    try:
        raw: dict[str, Any] = as_object(json.loads(_content(paths.inside(directory, paths.HOOK_SETTINGS)) or "{}"))
    except (ValueError, RecursionError):
        raw = {}
    given = raw.get("wait_ms")
    known = isinstance(given, int | float) and not isinstance(given, bool) and given > 0
    return HookSettings(
        auto_capture=raw.get("auto_capture") is not False,
        auto_retrieve=raw.get("auto_retrieve") is not False,
        disabled_projects=tuple(n for n in as_list(raw.get("disabled_projects")) if isinstance(n, str)),
        wait=given / 1000 if given is not None and known else HookSettings().wait,
    )


def is_disabled(settings: HookSettings, names: tuple[str, ...]) -> bool:
    """True where the user turned off a project of that name: the whole of it, or the part a person would write."""
    given = settings.disabled_projects
    return bool(given) and any(name in given or _short(name) in given for name in names)


def _short(name: str) -> str:
    """`shop` for `path:/home/ana/shop` and `origin:forge.example/ana/shop`, the name itself for `name:shop`."""
    kind, _, rest = name.partition(":")
    if kind == "name":
        return rest
    return rest.rstrip("/").rpartition("/")[2] if kind in ("path", "origin") else name


def brief(directory: str, names: tuple[str, ...]) -> str:
    """The brief of the first of a project's names that has one, or empty; its delimiter is this session's own.

    The brief of a name that a file chose is kept for the folders that the user agreed to, and read by them alone.
    """
    found = (_content(paths.brief_path(directory, key)).strip() for key in brief_keys(names))
    return next((text for text in found if text), "").replace(paths.UNSET_NONCE, os.urandom(8).hex())


def line(host: Host, kind: str, context: str) -> bytes:
    """The line by which that host puts `context` in front of its model at that event, or nothing to print."""
    text = context.encode("utf-8", "replace")[: LARGEST_CONTEXT - 1].decode("utf-8", "ignore")
    if not text.strip() or kind not in host.INJECTS:
        return b""
    output = host.injection(host.INJECTS[kind], text)
    return json.dumps(output, separators=(",", ":")).encode("ascii") + b"\n"


def refused_line(host: Host, directory: str, kind: str) -> bytes:
    """The line that tells the user, once, that a daemon elsewhere does not take the key; then nothing to print."""
    if not host.NOTICES or kind not in host.INJECTS:
        return b""
    try:
        os.close(os.open(paths.inside(directory, paths.REFUSED), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:  # it was said before
        return b""
    said = (
        "Filrouge: the daemon at FILROUGE_URL does not take the key in FILROUGE_API_KEY. What is said is kept on this"
        " machine and sent once it does; `filrouge status` shows the reason."
    )
    return json.dumps({"systemMessage": said, "suppressOutput": True}, separators=(",", ":")).encode("ascii") + b"\n"


def let_in(directory: str) -> None:
    """The key was taken: the next refusal is told again."""
    try:
        os.unlink(paths.inside(directory, paths.REFUSED))
    except OSError:
        return


def _content(path: str) -> str:
    try:
        with open(paths.open_own(path, os.O_RDONLY), "rb") as file:
            return file.read(_LARGEST_FILE).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
