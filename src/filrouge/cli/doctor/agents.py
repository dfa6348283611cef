"""Checks of the agents: versions, hooks, trust, and what keeps hooks from running.

A hook is Filrouge's if it runs `filrouge hook`. The checks read the settings files of the user and of the working
directory, and change nothing. Only `--fix` writes: it updates the files that `init` recorded to what `init` would
write today, and changes only Filrouge's entries there. An agent that is not connected stays unconnected.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple

from filrouge.cli.doctor.probes import names_in, starts, version_of, which
from filrouge.cli.doctor.scene import INIT, Check, CheckResult, Scene, fail, note, ok, warn
from filrouge.core import installation
from filrouge.core.errors import BadInput, FilrougeError
from filrouge.hosts.command_hooks import as_list
from filrouge.hosts.setup import files
from filrouge.hosts.setup.entries import (
    AGENTS,
    CLAUDE_CODE_TIMEOUTS,
    CODEX_TIMEOUTS,
    Agent,
    File,
    Plugin,
    as_table,
    claude_plugin,
    codex_plugin,
    find_filrouge_entries,
    find_plugin,
    is_filrouge_hook,
    plugin_path,
    program,
)
from filrouge.hosts.setup.files import NAME, Machine, Manifest, this_machine
from filrouge.hosts.setup.plan import Change, Plan, apply_change, plan_connecting

# Hooks of Filrouge in the configuration of Claude Code and Codex.

#: Events that need a hook for the memory to work.
_NEEDED_EVENTS: Final = ("SessionStart", "UserPromptSubmit", "Stop")


@dataclass(frozen=True, kw_only=True, slots=True)
class Hook:
    """A hook of Filrouge in a settings file.

    Attributes:
        file: path of the settings file.
        group: index of its group under the event.
        index: index of the hook in its group.
        handler: the complete entry.
        matcher: the matcher of its group.
    """

    event: str
    file: str
    group: int
    index: int
    handler: Mapping[str, Any]
    matcher: Any = None

    @property
    def program(self) -> str:
        """The program that it runs; empty if the command cannot be parsed."""
        command, more = str(self.handler.get("command", "")), as_list(self.handler.get("args"))
        try:  # with `args`, `command` is only the path of the program
            words = [command, *map(str, more)] if more else shlex.split(command)
        except ValueError:
            return ""
        while words and (words[0] == "env" or _is_assignment(words[0])):
            words = words[1:]
        return words[0] if words else ""

    @property
    def trust_keys(self) -> tuple[str, ...]:
        """The possible keys of this hook in Codex's `[hooks.state]`."""
        files = dict.fromkeys((self.file, os.path.realpath(self.file)))
        names = (snake(self.event), self.event)
        return tuple(f"{file}:{name}:{self.group}:{self.index}" for file in files for name in names)


class SettingsFile(NamedTuple):
    """A settings file of an agent, and why it cannot be parsed; empty if it can."""

    path: str
    content: Mapping[str, Any]
    trouble: str = ""

    @property
    def hooks(self) -> list[Hook]:
        """The hooks of Filrouge in this file."""
        return [
            Hook(
                event=event,
                file=self.path,
                group=number,
                index=index,
                handler=as_table(handler),
                matcher=as_table(group).get("matcher"),
            )
            for event, groups in as_table(self.content.get("hooks")).items()
            for number, group in enumerate(as_list(groups))
            for index, handler in enumerate(as_list(as_table(group).get("hooks")))
            if is_filrouge_hook(handler)
        ]


class ConfiguredAgent(NamedTuple):
    """An agent and its configuration on this machine.

    Attributes:
        host: its name in Filrouge's commands.
        program: the name of its executable.
        checked_with: the version that Filrouge was tested with.
        timeouts: the timeouts that `init` writes, by event.
        folder: the user's configuration directory of this agent.
        plugin: Filrouge's plugin, if it is installed and enabled.
    """

    name: str
    host: str
    program: str
    checked_with: tuple[int, ...]
    timeouts: Mapping[str, int]
    folder: str
    files: tuple[SettingsFile, ...]
    plugin: Plugin | None

    @property
    def hooks(self) -> list[Hook]:
        """The hooks of Filrouge in all files."""
        return [hook for file in self.files for hook in file.hooks]

    def values(self, *names: str) -> list[tuple[str, Any]]:
        """Return the files that set a value, with the value. `names` is the path through nested tables."""
        found: list[tuple[str, Any]] = []
        for file in self.files:
            value: Any = file.content
            for name in names:
                value = as_table(value).get(name)
            found += [(file.path, value)] if value is not None else []
        return found


def claude(scene: Scene) -> ConfiguredAgent:
    """Read the configuration of Claude Code."""
    folder = scene.variable("CLAUDE_CONFIG_DIR") or os.path.join(scene.user_home, ".claude")
    paths = [f"{folder}/settings.json", *(f"{scene.cwd}/.claude/settings{local}.json" for local in ("", ".local"))]
    files = read_files(*paths)
    plugins = (claude_plugin(file.path, file.content.get("enabledPlugins")) for file in files)
    plugin = next(filter(None, plugins), None)
    return ConfiguredAgent(
        "Claude Code", "claude-code", "claude", (2, 1, 330), CLAUDE_CODE_TIMEOUTS, folder, files, plugin
    )


def codex(scene: Scene) -> ConfiguredAgent:
    """Read the configuration of Codex."""
    folder = scene.variable("CODEX_HOME") or os.path.join(scene.user_home, ".codex")
    folders = (folder, os.path.join(scene.cwd, ".codex"))
    files = read_files(*(os.path.join(one, name) for one in folders for name in ("hooks.json", "config.toml")))
    plugins = (codex_plugin(file.path, file.content.get("plugins")) for file in files)
    plugin = next(filter(None, plugins), None)
    return ConfiguredAgent("Codex", "codex", "codex", (0, 169, 0), CODEX_TIMEOUTS, folder, files, plugin)


def read_files(*paths: str) -> tuple[SettingsFile, ...]:
    """Parse the existing files, each once."""
    there = {os.path.realpath(path): path for path in reversed(paths) if os.path.isfile(path)}
    return tuple(_parsed(path) for path in paths if path in there.values())


def _parsed(path: str) -> SettingsFile:
    kind, parse = ("TOML", tomllib.loads) if path.endswith(".toml") else ("JSON", json.loads)
    try:
        with open(path, encoding="utf-8") as file:
            return SettingsFile(path, as_table(parse(file.read())))
    except (ValueError, RecursionError):
        return SettingsFile(path, {}, f"{path} is no {kind}")


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def snake(name: str) -> str:
    """Return an event's name in snake case, as Codex uses it in its keys."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _of(
    read: Callable[[Scene], ConfiguredAgent], look: Callable[[ConfiguredAgent, Scene], CheckResult]
) -> Callable[[Scene], CheckResult]:
    """Return a check that needs the configuration of an agent."""
    return lambda scene: look(read(scene), scene)


# Versions, hooks, programs and switches of each agent.

_NOT_USED: Final = "it is not used here"
_NO_HOOKS: Final = "there are no hooks"


def _version(agent: ConfiguredAgent, scene: Scene) -> CheckResult:
    path = which(agent.program, scene.environ)
    if not path:
        if not os.path.isdir(agent.folder):
            return ok(_NOT_USED)
        cause = f"{agent.folder} is there, and `{agent.program}` is not on the PATH"
        return note(cause, "Add it to the PATH, if you use it.")
    found = version_of(path, scene.environ)
    if found is None:
        return note(f"{path} did not say its version in time", f"Try `{agent.program} --version`.")
    version, checked_with = (".".join(map(str, one)) for one in (found, agent.checked_with))
    if found < agent.checked_with:
        cause = f"version {version} is older than {checked_with}, with which Filrouge was checked"
        return note(cause, f"Update {agent.name} if its hooks do not run.")
    return ok(f"version {version}")


def _hooks(agent: ConfiguredAgent, scene: Scene) -> CheckResult:
    for file in agent.files:
        if file.trouble:
            return fail(f"{file.trouble}, so that {agent.name} ignores it", f"Mend {file.path}.")
    is_on_path = bool(which(agent.program, scene.environ))
    if not agent.files and not os.path.isdir(agent.folder) and not is_on_path:
        return ok(_NOT_USED)
    events = {hook.event for hook in agent.hooks}
    if agent.plugin and not events:
        return ok(f"a plugin brings them ({agent.plugin.path})")
    if not events:
        tell = warn if is_on_path else note  # the folder may remain from a removed agent
        return tell(f"{agent.name} has no hook of Filrouge: it captures nothing and is told nothing", INIT)
    if missing := [event for event in _NEEDED_EVENTS if event not in events]:
        return warn(f"{agent.name} has no hook of Filrouge for {', '.join(missing)}", INIT)
    return ok(f"{len(events)} events")


def _programs(agent: ConfiguredAgent, scene: Scene) -> CheckResult:
    for hook in agent.hooks:
        if not which(os.path.expanduser(hook.program), scene.environ):
            what = hook.program or "its command"
            return fail(f"the hook {hook.event} in {hook.file} runs {what}, which is not there", INIT)
    return ok("every one is there" if agent.hooks else _NO_HOOKS)


def _claude_switch(agent: ConfiguredAgent, _: Scene) -> CheckResult:
    for path, value in agent.values(_DISABLE_ALL_HOOKS):
        if value is True:
            cause = f"{path} has `{_DISABLE_ALL_HOOKS}`: no hook runs"
            return fail(cause, f"Remove `{_DISABLE_ALL_HOOKS}` from {path}.")
    return ok("they are on")


def _codex_switch(agent: ConfiguredAgent, _: Scene) -> CheckResult:
    for name in ("hooks", "codex_hooks"):
        for path, value in agent.values("features", name):
            if value is False:
                return fail(f"{path} has `features.{name} = false`: no hook runs", f"Remove that line from {path}.")
    return ok("they are on")


def _double_capture(agent: ConfiguredAgent, _: Scene) -> CheckResult:
    if agent.plugin and agent.hooks:
        files = ", ".join(sorted({hook.file for hook in agent.hooks}))
        what = f"{agent.name} has Filrouge as a plugin ({agent.plugin.path}) and as hooks ({files})"
        return _plugin_and_hooks(what, agent.host, agent.plugin)
    counts = Counter(hook.event for hook in agent.hooks)
    for event in (event for event, number in counts.items() if number > 1):
        files = ", ".join(sorted({hook.file for hook in agent.hooks if hook.event == event}))
        cause = f"{agent.name} calls Filrouge more than once at {event}: {files}"
        return warn(cause, "Remove all but one of them: memories are put in front of a prompt twice.")
    return ok("each event is told once")


def _plugin_and_hooks(what: str, host: str, plugin: Plugin) -> CheckResult:
    remedy = f"Remove one of them: `filrouge uninstall --host {host}`, or {plugin.remove}."
    return warn(f"{what}: every prompt gets two blocks", remedy)


def _mcp(scene: Scene) -> CheckResult:
    folder = scene.variable("CLAUDE_CONFIG_DIR") or scene.user_home
    claude_files = read_files(os.path.join(folder, ".claude.json"), os.path.join(scene.cwd, ".mcp.json"))
    servers = [(file.path, file.content.get("mcpServers")) for file in claude_files]
    servers += codex(scene).values("mcp_servers")
    used = [path for path, found in servers if any(map(_is_our_server, as_table(found).values()))]
    if scene.machine.has("mcp"):
        return ok(f"set up in {', '.join(used)}" if used else "its package is there; no agent uses it")
    remedy = f"Run `{installation.install_command('mcp>=2.3,<3')}`."
    if used:
        return fail(f"{used[0]} uses `filrouge mcp`, and the package mcp is not installed", remedy)
    return warn("mcp is not installed", remedy)


def _is_our_server(server: Any) -> bool:
    about = as_table(server)
    words = [str(about.get("command", "")), *map(str, as_list(about.get("args")))]
    return "filrouge" in " ".join(words) and "mcp" in words


# Trust in Codex. It stores a hash of every hook that the user approved, and silently skips any other hook. The hash is
# the SHA-256 of a JSON document with sorted keys and no spaces. The document has the event's name, the matcher if the
# event has one, and the command with the timeout as Codex rounds it.

_WITHOUT_MATCHER: Final = ("UserPromptSubmit", "Stop")
_END_EVENTS: Final = ("SessionEnd", "Interrupt")
_USUAL_SECONDS: Final = 600
_MOST_SECONDS_AT_THE_END: Final = 3
_OPEN: Final = "Start `codex`, type `/hooks`"


def _trust(agent: ConfiguredAgent, _: Scene) -> CheckResult:
    """Check whether the user approved Filrouge's hooks in Codex as they are now."""
    tables = [as_table(states) for _, states in agent.values("hooks", "state")]
    states = {key: as_table(one) for table in tables for key, one in table.items()}
    # The keys of a plugin's hooks start with the plugin's name instead of a path.
    is_plugin_trusted = any(key.startswith(f"{NAME}@") and one.get("trusted_hash") for key, one in states.items())
    if agent.plugin and not agent.hooks and not is_plugin_trusted:
        cause = "Codex does not run the hooks of the plugin, which you have not approved"
        return fail(cause, f"{_OPEN}, and approve those of Filrouge.")
    kept = [(hook, [states[key] for key in hook.trust_keys if key in states]) for hook in agent.hooks]
    hashes = [(hook, [str(one["trusted_hash"]) for one in found if one.get("trusted_hash")]) for hook, found in kept]
    if untrusted := [hook.event for hook, found in hashes if not found]:
        cause = f"Codex does not run hooks that you have not approved: {', '.join(untrusted)}"
        return fail(cause, f"{_OPEN}, and approve those of Filrouge; every change of them asks again.")
    if off := [hook.event for hook, found in kept if any(one.get("enabled") is False for one in found)]:
        return fail(f"switched off in Codex: {', '.join(off)}", f"{_OPEN}, enable them.")
    if changed := [hook.event for hook, found in hashes if trusted_hash(hook) not in found]:
        # Only a warning, because another version of Codex may compute its hashes differently.
        cause = f"changed since you approved them, so that Codex does not run them: {', '.join(changed)}"
        return warn(cause, f"{_OPEN}, and approve them as they are now.")
    return ok("every hook was approved" if agent.hooks or agent.plugin else _NO_HOOKS)


def trusted_hash(hook: Hook) -> str:
    """Return the `trusted_hash` that Codex stores when this hook is approved."""
    handler: dict[str, Any] = {
        "type": "command",
        "command": str(hook.handler.get("command", "")),
        "timeout": _rounded_timeout(hook),
        "async": hook.handler.get("async") is True,
    }
    said = hook.handler.get("statusMessage")
    handler |= {"statusMessage": said} if isinstance(said, str) else {}
    identity: dict[str, Any] = {"event_name": snake(hook.event), "hooks": [handler]}
    if isinstance(hook.matcher, str) and hook.event not in _WITHOUT_MATCHER:
        identity["matcher"] = hook.matcher
    plain = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(plain.encode()).hexdigest()}"


def _rounded_timeout(hook: Hook) -> int:
    timeout = hook.handler.get("timeout")
    if hook.event in _END_EVENTS:
        return min(_MOST_SECONDS_AT_THE_END, max(1, timeout if isinstance(timeout, int) else 1))
    return max(1, timeout if isinstance(timeout, int) else _USUAL_SECONDS)


# Managed settings and timeouts, which can keep configured hooks from running.

_MANAGED_HOOKS_ONLY: Final = "allowManagedHooksOnly"
_DISABLE_ALL_HOOKS: Final = "disableAllHooks"
_ADMINISTRATOR: Final = "Ask who administers this machine; without hooks an agent has the tools (`filrouge mcp`) alone."
#: A hook takes less than a second; the rest allows for a machine that starts processes slowly.
_LEAST_SECONDS: Final = 2
#: With a longer timeout, a hook that hangs makes the agent appear to hang.
_MOST_SECONDS: Final = 120
#: For this event the default timeout of both agents is too short, so that a `timeout` must be set.
_NEEDS_TIMEOUT: Final = "SessionEnd"


def _managed(scene: Scene) -> CheckResult:
    try:
        files = read_files(*_managed_paths(scene.machine.managed)) if scene.machine.managed else ()
    except OSError as error:
        return note(f"{error.filename} cannot be read: {error.strerror}", "Look at it as an administrator.")
    for file in files:
        if file.trouble:
            return note(f"{file.trouble}: whether it lets hooks run is not known", _ADMINISTRATOR)
    # If several files set the same key, the last one applies.
    settings = {name: (file.path, value) for file in files for name, value in file.content.items()}
    switched_on = {name: path for name, (path, value) in settings.items() if value is True}
    if path := switched_on.get(_DISABLE_ALL_HOOKS):
        return fail(f"{path} has `{_DISABLE_ALL_HOOKS}`: no hook runs on this machine", _ADMINISTRATOR)
    is_plugged = claude_plugin(*settings.get("enabledPlugins", ("", None))) is not None
    path = switched_on.get(_MANAGED_HOOKS_ONLY)
    if path and not is_plugged and not any(file.hooks for file in files):
        cause = f"{path} has `{_MANAGED_HOOKS_ONLY}`: Claude Code runs no hook of yours, and no plugin's"
        return fail(cause, _ADMINISTRATOR)
    for path, value in claude(scene).values(_MANAGED_HOOKS_ONLY):
        if value is True:
            cause = f"{path} has `{_MANAGED_HOOKS_ONLY}`, which counts in managed settings alone"
            return note(cause, f"Remove it from {path}.")
    return ok("they let our hooks run" if files else "there are none")


def _managed_paths(folder: str) -> list[str]:
    """Return the managed settings file and its drop-in files, in order of precedence (the last one wins)."""
    more = os.path.join(folder, "managed-settings.d")
    names = [name for name in sorted(names_in(more)) if name.endswith(".json") and not name.startswith(".")]
    return [os.path.join(folder, "managed-settings.json"), *(os.path.join(more, name) for name in names)]


def _timeouts(agent: ConfiguredAgent, _: Scene) -> CheckResult:
    for hook in agent.hooks:
        if trouble := _timeout_trouble(hook, agent):
            seconds = agent.timeouts.get(hook.event, 10)
            cause = f"the hook {hook.event} in {hook.file} {trouble}"
            return warn(cause, f"Run `filrouge init --host {agent.host}`, or write `timeout`: {seconds} there.")
    return ok("none is too short or too long" if agent.hooks else _NO_HOOKS)


def _timeout_trouble(hook: Hook, agent: ConfiguredAgent) -> str:
    timeout = hook.handler.get("timeout")
    if timeout is None:
        is_needed = hook.event == _NEEDS_TIMEOUT
        return f"has no `timeout`, and {agent.name} ends it before it is done" if is_needed else ""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        return "has a `timeout` that is no number"
    if timeout < min(_LEAST_SECONDS, agent.timeouts.get(hook.event, _LEAST_SECONDS)):
        return f"may take {timeout:g} seconds, in which Filrouge may not even start"
    if timeout > _MOST_SECONDS:
        seconds = f"may take {timeout:g} seconds (they are no milliseconds)"
        return f"{seconds}: a hook that hangs holds {agent.name} up so long"
    return ""


# Entries that `init` wrote, compared with what it would write today.

_TEXTS: Final = re.compile(r'"([^"]+)"')


class _Connected(NamedTuple):
    """Whether the recorded files of an agent contain hooks and MCP tools of Filrouge."""

    agent: Agent
    hooks: bool
    tools: bool


def _what_init_wrote(scene: Scene) -> CheckResult:
    machine = this_machine(scene.environ)
    connected = list(_connected(scene, machine))
    plans = [(one, _plan(scene, machine, one)) for one in connected]
    for one, plan in plans:
        for path, error in plan.problems.items():
            return fail(f"{one.agent.title}: {path}: {error.message}", f"Mend {path}; until then it is left alone.")
    stale = [(one, plan) for one, plan in plans if plan.changes]
    if not stale:
        titles = ", ".join(one.agent.title for one in connected)
        return ok(f"as `init` writes it: {titles}" if titles else "`init` wrote nothing")
    agents, name = ", ".join(one.agent.title for one, _ in stale), stale[0][0].agent.name
    remedy = f"Run `filrouge doctor --fix`, or `filrouge init --host {name}` to see the lines first."
    if all(_written_by_other_installation(scene, machine, one, plan) for one, plan in stale):
        return note(f"{agents}: connected to another Filrouge than this one, {machine.executable}", remedy)
    paths = ", ".join(change.path for _, plan in stale for change in plan.changes)
    return warn(f"{agents}: not as `init` writes it now: {paths}", remedy)


def _mend_what_init_wrote(scene: Scene) -> list[str]:
    machine = this_machine(scene.environ)
    done = list[str]()
    for one in _connected(scene, machine):
        changes = _plan(scene, machine, one).changes
        done += [_carried_out(change, scene.home) for change in changes]
        if changes and one.hooks and one.agent.note:
            done.append(one.agent.note)
    return done


def _carried_out(change: Change, home: str) -> str:
    """Apply one change and return a line about it. A failure is reported in the line, so that others go on."""
    try:
        apply_change(change, home)
    except FilrougeError as error:
        return f"{change.path} could not be mended: {error.message} {error.remedy}".rstrip()
    return f"{change.path}: Filrouge's entries are as `init` writes them now"


def _connected(scene: Scene, machine: Machine) -> Iterator[_Connected]:
    records = Manifest(scene.home).records()
    for agent in AGENTS.values():
        hooks, tools = (
            any(file.path in records and _has_entries(file) for file in found)
            for found in (agent.hooks(machine), agent.tools(machine))
        )
        if hooks or tools:
            yield _Connected(agent, hooks, tools)


def _has_entries(file: File) -> bool:
    """Return True if a file contains an entry of Filrouge, or cannot be read; the plan then says why."""
    try:
        return bool(_entries(file))
    except BadInput:
        return os.path.exists(file.path)


def _entries(file: File) -> list[Any]:
    """Return Filrouge's entries in a file.

    Raises:
        BadInput: it cannot be read.
    """
    return find_filrouge_entries(files.decode_text(files.read_bytes(file.path), file.path), file)


def _plan(scene: Scene, machine: Machine, one: _Connected) -> Plan:
    """Return the plan of `init --host` for what is connected: only hooks, only tools, or both."""
    name = one.agent.name
    return plan_connecting(machine, scene.home, [name], hooks=one.hooks, tools=one.tools, conversations=one.hooks)


def _written_by_other_installation(scene: Scene, machine: Machine, one: _Connected, plan: Plan) -> bool:
    """Return True if the entries are those that another installation on this machine writes, which is not an error."""
    gone = [line for change in plan.changes for line in change.lines() if line.startswith("-")]
    programs = {_first_word(text) for line in gone for text in _TEXTS.findall(line)}
    others = (Machine(environ=machine.environ, executable=path) for path in programs if os.path.isabs(path))
    return any(which(other.executable, {}) and not _plan(scene, other, one).changes for other in others)


def _first_word(command: str) -> str:
    try:
        return shlex.split(command)[0]
    except (ValueError, IndexError):
        return ""


def _all_programs(scene: Scene) -> CheckResult:
    """Check that every program and plugin in the agents' settings exists, and that every program starts."""
    runs = dict[str, bool]()
    for agent, file, entry in _all_entries(this_machine(scene.environ)):
        remedy = f"Run `filrouge init --host {agent.name}`."
        plugin, named = plugin_path(entry), program(entry)
        if os.path.isabs(plugin) and not os.path.exists(plugin):
            return fail(f"{agent.title}: {file.path} names {plugin}, which is not there", remedy)
        if not named:
            if os.path.isfile(plugin):
                return warn(f"{agent.title}: the plugin in {file.path} is not told where `filrouge` is", remedy)
            continue
        path = which(os.path.expanduser(named), scene.environ)
        if not path:
            return fail(f"{agent.title}: {file.path} runs {named}, which is not there", remedy)
        if path not in runs:
            runs[path] = starts(path, scene.environ)
        if not runs[path]:
            return fail(f"{agent.title}: {file.path} runs {path}, which does not start", remedy)
    return ok(f"they run {', '.join(runs)}" if runs else "no agent is connected")


def _all_entries(machine: Machine) -> Iterator[tuple[Agent, File, Any]]:
    for agent in AGENTS.values():
        for file in (*agent.hooks(machine), *agent.tools(machine)):
            with suppress(BadInput):  # reported by "What init wrote" and by the checks of that agent
                yield from ((agent, file, entry) for entry in _entries(file))


def _opencode_double_capture(scene: Scene) -> CheckResult:
    machine = this_machine(scene.environ)
    agent = AGENTS["opencode"]
    plugin = find_plugin(agent.name, machine)
    if plugin is None:
        return ok("no plugin lies in its folder")
    for file in agent.hooks(machine):
        try:
            if _entries(file):
                what = f"{agent.title} has Filrouge's plugin in its folder ({plugin.path}) and in {file.path}"
                return _plugin_and_hooks(what, agent.name, plugin)
        except BadInput as error:
            return fail(f"{file.path}: {error.message}", f"Mend {file.path}.")
    return ok(f"a plugin brings it ({plugin.path})")


CHECKS: Final = (
    Check("Claude Code", "agents", _of(claude, _version)),
    Check("Claude Code: hooks", "agents", _of(claude, _hooks)),
    Check("Claude Code: programs", "agents", _of(claude, _programs)),
    Check("Claude Code: switch", "agents", _of(claude, _claude_switch)),
    Check("Claude Code: double capture", "agents", _of(claude, _double_capture)),
    Check("Codex", "agents", _of(codex, _version)),
    Check("Codex: hooks", "agents", _of(codex, _hooks)),
    Check("Codex: programs", "agents", _of(codex, _programs)),
    Check("Codex: switch", "agents", _of(codex, _codex_switch)),
    Check("Codex: trust", "agents", _of(codex, _trust)),
    Check("Codex: double capture", "agents", _of(codex, _double_capture)),
    Check("MCP", "agents", _mcp),
    Check("Claude Code: managed settings", "agents", _managed),
    Check("Claude Code: timeouts", "agents", _of(claude, _timeouts)),
    Check("Codex: timeouts", "agents", _of(codex, _timeouts)),
    Check("What init wrote", "agents", _what_init_wrote, _mend_what_init_wrote),
    Check("Agents: programs", "agents", _all_programs),
    Check("OpenCode: double capture", "agents", _opencode_double_capture),
)
