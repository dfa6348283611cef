"""What keeps hooks from running though they stand in the settings: rules of an administrator, and limits of time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from filrouge.cli.commands.doctoring.agents import Agent, Hook, claude, codex, read_files
from filrouge.cli.commands.doctoring.finding import Check, Verdict, fail, note, ok, warn
from filrouge.cli.commands.doctoring.scene import Scene
from filrouge.hosts.setup.plugged import claude_plugin
from filrouge.hosts.setup.wanted import CLAUDE_CODE, CODEX

_ALONE: Final = "allowManagedHooksOnly"
_OFF: Final = "disableAllHooks"
_ADMINISTRATOR: Final = "Ask who administers this machine; without hooks an agent has the tools (`filrouge mcp`) alone."
#: A hook ends by itself after less than a second; the rest is for a machine that is slow to start it.
_LEAST_SECONDS: Final = 2
#: An agent that waits longer than that for a hook that hangs looks as if it hung itself.
_MOST_SECONDS: Final = 120
#: Claude Code ends a hook so soon where no limit is written.
_NEEDS_A_LIMIT: Final = {"claude-code": ("SessionEnd",), "codex": ("SessionEnd",)}


def _managed(scene: Scene) -> Verdict:
    folder = scene.machine.managed
    try:
        files = read_files(_paths(folder)) if folder else ()
    except OSError as error:
        return note(f"{error.filename} cannot be read: {error.strerror}", "Look at it as an administrator.")
    for file in files:
        if file.trouble:
            return note(f"{file.trouble}: whether it lets hooks run is not known", _ADMINISTRATOR)
    # Of several files that set the same, the last one counts.
    said: dict[str, tuple[str, Any]] = {
        name: (file.path, value) for file in files for name, value in file.content.items()
    }
    path, value = said.get(_OFF, ("", None))
    if value is True:
        return fail(f"{path} has `{_OFF}`: no hook runs on this machine", _ADMINISTRATOR)
    path, value = said.get(_ALONE, ("", None))
    if (
        value is True
        and claude_plugin(*said.get("enabledPlugins", ("", None))) is None
        and not any(file.hooks for file in files)
    ):
        return fail(f"{path} has `{_ALONE}`: Claude Code runs no hook of yours, and no plugin's", _ADMINISTRATOR)
    if own := [path for path, value in claude(scene).values(_ALONE) if value is True]:
        return note(f"{own[0]} has `{_ALONE}`, which counts in managed settings alone", f"Remove it from {own[0]}.")
    return ok("they let our hooks run" if files else "there are none")


def _paths(folder: str) -> list[str]:
    """The file, and those that are dropped beside it, in the order in which they count."""
    more = os.path.join(folder, "managed-settings.d")
    names = sorted(os.listdir(more)) if os.path.isdir(more) else []
    dropped = [os.path.join(more, name) for name in names if name.endswith(".json") and not name.startswith(".")]
    return [os.path.join(folder, "managed-settings.json"), *dropped]


def _limits(agent: Agent, wanted: Mapping[str, int]) -> Verdict:
    for hook in agent.hooks:
        if trouble := _trouble(hook, agent, wanted):
            return warn(
                f"the hook {hook.event} in {hook.file} {trouble}",
                f"Run `filrouge init --host {agent.host}`, or write `timeout`: {wanted.get(hook.event, 10)} there.",
            )
    return ok("none is too short or too long" if agent.hooks else "there are no hooks")


def _trouble(hook: Hook, agent: Agent, wanted: Mapping[str, int]) -> str:
    said = hook.handler.get("timeout")
    if said is None:
        must = hook.event in _NEEDS_A_LIMIT[agent.host]
        return f"has no `timeout`, and {agent.name} ends it before it is done" if must else ""
    if isinstance(said, bool) or not isinstance(said, (int, float)):
        return "has a `timeout` that is no number"
    if said < min(_LEAST_SECONDS, wanted.get(hook.event, _LEAST_SECONDS)):
        return f"may take {said:g} seconds, in which Filrouge may not even start"
    if said > _MOST_SECONDS:
        return f"may take {said:g} seconds (they are no milliseconds): a hook that hangs holds {agent.name} up so long"
    return ""


def _of(read: Callable[[Scene], Agent], wanted: Mapping[str, int]) -> Callable[[Scene], Verdict]:
    return lambda scene: _limits(read(scene), wanted)


CHECKS: Final = (
    Check(name="Claude Code: managed settings", look=_managed),
    Check(name="Claude Code: timeouts", look=_of(claude, CLAUDE_CODE)),
    Check(name="Codex: timeouts", look=_of(codex, CODEX)),
)
