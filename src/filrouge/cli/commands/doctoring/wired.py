"""Checks of the agents: their versions, our hooks in their configuration, and what keeps those from running."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Final

from filrouge import installation
from filrouge.cli.commands.doctoring.agents import Agent, claude, codex, mcp_servers
from filrouge.cli.commands.doctoring.finding import INIT, Check, Verdict, fail, note, ok, warn
from filrouge.cli.commands.doctoring.probing import version_of, which
from filrouge.cli.commands.doctoring.scene import Scene
from filrouge.cli.commands.doctoring.trusting import trust

_NOT_HERE: Final = "it is not used here"


def _version(agent: Agent, scene: Scene) -> Verdict:
    path = which(agent.program, scene.environ)
    if not path:
        if not os.path.isdir(agent.folder):
            return ok(_NOT_HERE)
        return note(
            f"{agent.folder} is there, and `{agent.program}` is not on the PATH", "Add it to the PATH, if you use it."
        )
    found = version_of(path, scene.environ)
    if found is None:
        return note(f"{path} did not say its version in time", f"Try `{agent.program} --version`.")
    if found < agent.checked_with:
        return note(
            f"version {_dotted(found)} is older than {_dotted(agent.checked_with)}, with which Filrouge was checked",
            f"Update {agent.name} if its hooks do not run.",
        )
    return ok(f"version {_dotted(found)}")


def _hooks(agent: Agent, scene: Scene) -> Verdict:
    for file in agent.files:
        if file.trouble:
            return fail(f"{file.trouble}, so that {agent.name} ignores it", f"Mend {file.path}.")
    if not _is_used(agent, scene):
        return ok(_NOT_HERE)
    events = {hook.event for hook in agent.hooks}
    if agent.plugin and not events:
        return ok(f"a plugin brings them ({agent.plugin.place})")
    if not events:
        tell = warn if which(agent.program, scene.environ) else note  # a folder may be all that is left of it
        return tell(f"{agent.name} has no hook of Filrouge: it captures nothing and is told nothing", INIT)
    if missing := [event for event in agent.needed if event not in events]:
        return warn(f"{agent.name} has no hook of Filrouge for {', '.join(missing)}", INIT)
    return ok(f"{len(events)} events")


def _programs(agent: Agent, scene: Scene) -> Verdict:
    for hook in agent.hooks:
        if not which(os.path.expanduser(hook.program), scene.environ):
            what = hook.program or "its command"
            return fail(f"the hook {hook.event} in {hook.file} runs {what}, which is not there", INIT)
    return ok("every one is there" if agent.hooks else "there are no hooks")


def _twice(agent: Agent, _: Scene) -> Verdict:
    if agent.plugin and agent.hooks:
        files = ", ".join(sorted({hook.file for hook in agent.hooks}))
        return warn(
            f"{agent.name} has Filrouge as a plugin ({agent.plugin.place}) and as hooks ({files}): every prompt gets"
            " two blocks",
            f"Remove one of them: `filrouge uninstall --host {agent.host}`, or {agent.plugin.remove}.",
        )
    counts = Counter(hook.event for hook in agent.hooks)
    if double := [event for event, number in counts.items() if number > 1]:
        files = sorted({hook.file for hook in agent.hooks if hook.event == double[0]})
        return warn(
            f"{agent.name} calls Filrouge more than once at {double[0]}: {', '.join(files)}",
            "Remove all but one of them: memories are put in front of a prompt twice.",
        )
    return ok("each event is told once")


def _claude_off(agent: Agent, _: Scene) -> Verdict:
    if off := [path for path, value in agent.values("disableAllHooks") if value is True]:
        return fail(f"{off[0]} has `disableAllHooks`: no hook runs", f"Remove `disableAllHooks` from {off[0]}.")
    return ok("they are on")


def _codex_off(agent: Agent, _: Scene) -> Verdict:
    for name in ("hooks", "codex_hooks"):
        if off := [path for path, value in agent.values("features", name) if value is False]:
            return fail(f"{off[0]} has `features.{name} = false`: no hook runs", f"Remove that line from {off[0]}.")
    return ok("they are on")


def _mcp(scene: Scene) -> Verdict:
    used = mcp_servers(scene)
    if scene.machine.has("mcp"):
        return ok(f"set up in {', '.join(used)}" if used else "its package is there; no agent uses it")
    tell = fail if used else warn
    cause = f"{used[0]} uses `filrouge mcp`, and the package mcp is not installed" if used else "mcp is not installed"
    return tell(cause, f"Run `{installation.add('mcp>=2.3,<3')}`.")


def _is_used(agent: Agent, scene: Scene) -> bool:
    return bool(agent.files) or os.path.isdir(agent.folder) or bool(which(agent.program, scene.environ))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _of(read: Callable[[Scene], Agent], look: Callable[[Agent, Scene], Verdict]) -> Callable[[Scene], Verdict]:
    return lambda scene: look(read(scene), scene)


CHECKS: Final = (
    Check(name="Claude Code", look=_of(claude, _version)),
    Check(name="Claude Code: hooks", look=_of(claude, _hooks)),
    Check(name="Claude Code: programs", look=_of(claude, _programs)),
    Check(name="Claude Code: switch", look=_of(claude, _claude_off)),
    Check(name="Claude Code: double capture", look=_of(claude, _twice)),
    Check(name="Codex", look=_of(codex, _version)),
    Check(name="Codex: hooks", look=_of(codex, _hooks)),
    Check(name="Codex: programs", look=_of(codex, _programs)),
    Check(name="Codex: switch", look=_of(codex, _codex_off)),
    Check(name="Codex: trust", look=_of(codex, trust)),
    Check(name="Codex: double capture", look=_of(codex, _twice)),
    Check(name="MCP", look=_mcp),
)
