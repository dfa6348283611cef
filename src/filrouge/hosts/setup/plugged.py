"""Filrouge as a plugin that its user installed: where it stands, so that hooks are not written beside it.

A plugin and hooks in the settings both run, and every prompt gets two blocks.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

from filrouge.errors import BadInput
from filrouge.hosts.setup import files, reading
from filrouge.hosts.setup.machine import NAME, Machine
from filrouge.hosts.setup.wanted import AGENTS


class Plugin(NamedTuple):
    """A plugin of ours in an agent.

    Attributes:
        place: the file that names it, or that it is.
        remove: how its user takes it out.
        brings_tools: it registers the tools (MCP) as well.
    """

    place: str
    remove: str
    brings_tools: bool = True


_FOLDERS: Final = ("plugin", "plugins")


def plugged(name: str, machine: Machine) -> Plugin | None:
    """The plugin that is on in the user's settings of that agent; None where there is none, or nobody can read them."""
    folder = AGENTS[name].folder(machine)
    if name == "claude-code":
        place = os.path.join(folder, "settings.json")
        return claude_plugin(place, _json(place).get("enabledPlugins"))
    if name == "codex":
        place = os.path.join(folder, "config.toml")
        return codex_plugin(place, _toml(place).get("plugins"))
    if name == "opencode":
        places = (os.path.join(folder, one, f"{NAME}.js") for one in _FOLDERS)
        there = next((place for place in places if os.path.isfile(place)), "")
        return Plugin(there, f"remove {there}", brings_tools=False) if there else None
    return None


def all_plugged(names: Iterable[str], machine: Machine) -> dict[str, Plugin]:
    """The plugins of those agents that have one."""
    return {name: found for name in names if (found := plugged(name, machine)) is not None}


def claude_plugin(place: str, enabled: Any) -> Plugin | None:
    """What `enabledPlugins` of Claude Code's settings says."""
    on = [one for one, state in _table(enabled).items() if _is_ours(one) and state is True]
    return Plugin(place, f"`claude plugin uninstall {on[0]}`") if on else None


def codex_plugin(place: str, table: Any) -> Plugin | None:
    """What `[plugins]` of Codex's settings says; one that is there is on, unless it says otherwise."""
    on = [
        one for one, about in _table(table).items() if _is_ours(one) and _table(about).get("enabled", True) is not False
    ]
    return Plugin(place, f"`codex plugin remove {on[0]}`") if on else None


def _is_ours(one: str) -> bool:
    return one.partition("@")[0] == NAME


def _json(path: str) -> Mapping[str, Any]:
    try:
        return _table(reading.read(files.text_of(files.read(path), path)).value)
    except BadInput:  # whoever plans to write there says what is wrong with it
        return {}


def _toml(path: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(files.text_of(files.read(path), path))
    except (BadInput, tomllib.TOMLDecodeError):
        return {}


def _table(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
