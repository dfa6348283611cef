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
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, NamedTuple

from msgspec import Struct

from filrouge.cli.doctor.probes import names_in, starts, version_of, which
from filrouge.cli.doctor.scene import INIT_REMEDY, CheckList, CheckResult, Scene, fail, note, ok, warn
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

CHECKS: Final = CheckList()
check: Final = CHECKS.check

# Hooks of Filrouge in the configuration of Claude Code and Codex.

#: Events that need a hook for the memory to work.
_NEEDED_EVENTS: Final = ("SessionStart", "UserPromptSubmit", "Stop")


class Hook(Struct, frozen=True, kw_only=True):
    """A hook of Filrouge in a settings file.

    Attributes:
        event: the agent's name of the event, such as `UserPromptSubmit`.
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
        command, arguments = str(self.handler.get("command", "")), as_list(self.handler.get("args"))
        try:  # with `args`, `command` is only the path of the program
            words = [command, *map(str, arguments)] if arguments else shlex.split(command)
        except ValueError:
            return ""
        while words and (words[0] == "env" or _is_assignment(words[0])):
            words = words[1:]
        return words[0] if words else ""

    @property
    def trust_keys(self) -> tuple[str, ...]:
        """The possible keys of this hook in Codex's `[hooks.state]`."""
        files = dict.fromkeys((self.file, os.path.realpath(self.file)))
        names = (snake_case(self.event), self.event)
        return tuple(f"{file}:{name}:{self.group}:{self.index}" for file in files for name in names)


class SettingsFile(NamedTuple):
    """A settings file of an agent.

    Attributes:
        content: the parsed file; empty if it cannot be parsed.
        problem: why it cannot be parsed; empty if it can.
    """

    path: str
    content: Mapping[str, Any]
    problem: str = ""

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
    files = read_files(
        *(os.path.join(directory, name) for directory in folders for name in ("hooks.json", "config.toml"))
    )
    plugins = (codex_plugin(file.path, file.content.get("plugins")) for file in files)
    plugin = next(filter(None, plugins), None)
    return ConfiguredAgent("Codex", "codex", "codex", (0, 169, 0), CODEX_TIMEOUTS, folder, files, plugin)


def read_files(*paths: str) -> tuple[SettingsFile, ...]:
    """Parse the existing files, each once."""
    existing = {os.path.realpath(path): path for path in reversed(paths) if os.path.isfile(path)}
    return tuple(_parse_file(path) for path in paths if path in existing.values())


def _parse_file(path: str) -> SettingsFile:
    kind, parse = ("TOML", tomllib.loads) if path.endswith(".toml") else ("JSON", json.loads)
    try:
        with open(path, encoding="utf-8") as file:
            return SettingsFile(path, as_table(parse(file.read())))
    except (ValueError, RecursionError):
        return SettingsFile(path, {}, f"{path} is not valid {kind}")


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def snake_case(name: str) -> str:
    """Return an event's name in snake case, as Codex uses it in its keys."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


# What the checks of Claude Code and Codex have in common.

_NOT_USED: Final = "it is not used here"
_NO_HOOKS: Final = "there are no hooks"


def _version(agent: ConfiguredAgent, scene: Scene) -> CheckResult:
    path = which(agent.program, scene.environ)
    if not path:
        if not os.path.isdir(agent.folder):
            return ok(_NOT_USED)
        cause = f"{agent.folder} exists, but `{agent.program}` is not on the PATH"
        return note(cause, "Add it to the PATH, if you use it.")
    found = version_of(path, scene.environ)
    if found is None:
        return note(f"{path} did not print its version in time", f"Try `{agent.program} --version`.")
    version, checked_with = (".".join(map(str, number)) for number in (found, agent.checked_with))
    if found < agent.checked_with:
        cause = f"version {version} is older than {checked_with}, which Filrouge was tested with"
        return note(cause, f"Update {agent.name} if its hooks do not run.")
    return ok(f"version {version}")


def _hooks(agent: ConfiguredAgent, scene: Scene) -> CheckResult:
    for file in agent.files:
        if file.problem:
            return fail(f"{file.problem}, so {agent.name} ignores it", f"Mend {file.path}.")
    is_on_path = bool(which(agent.program, scene.environ))
    if not agent.files and not os.path.isdir(agent.folder) and not is_on_path:
        return ok(_NOT_USED)
    events = {hook.event for hook in agent.hooks}
    if agent.plugin and not events:
        return ok(f"a plugin provides them ({agent.plugin.path})")
    if not events:
        warn_or_note = warn if is_on_path else note  # the folder may remain from a removed agent
        return warn_or_note(
            f"{agent.name} has no hook of Filrouge: nothing is captured, and it gets no memories", INIT_REMEDY
        )
    if missing := [event for event in _NEEDED_EVENTS if event not in events]:
        return warn(f"{agent.name} has no hook of Filrouge for {', '.join(missing)}", INIT_REMEDY)
    return ok(f"{len(events)} events")


def _programs(agent: ConfiguredAgent, scene: Scene) -> CheckResult:
    for hook in agent.hooks:
        if not which(os.path.expanduser(hook.program), scene.environ):
            program = hook.program or "its command"
            return fail(f"the hook {hook.event} in {hook.file} runs {program}, which does not exist", INIT_REMEDY)
    return ok("all of them exist" if agent.hooks else _NO_HOOKS)


def _double_capture(agent: ConfiguredAgent, _: Scene) -> CheckResult:
    if agent.plugin and agent.hooks:
        files = ", ".join(sorted({hook.file for hook in agent.hooks}))
        what = f"{agent.name} has Filrouge as a plugin ({agent.plugin.path}) and as hooks ({files})"
        return _plugin_and_hooks_warning(what, agent.host, agent.plugin)
    counts = Counter(hook.event for hook in agent.hooks)
    for event in (event for event, number in counts.items() if number > 1):
        files = ", ".join(sorted({hook.file for hook in agent.hooks if hook.event == event}))
        cause = f"{agent.name} calls Filrouge more than once at {event}: {files}"
        return warn(cause, "Remove all but one of them: memories are put in front of a prompt twice.")
    return ok("each event is reported once")


def _plugin_and_hooks_warning(what: str, host: str, plugin: Plugin) -> CheckResult:
    remedy = f"Remove one of them: `filrouge uninstall --host {host}`, or {plugin.remove}."
    return warn(f"{what}: every prompt gets two blocks", remedy)


# Claude Code.


@check("Claude Code", "agents")
def _claude_version(scene: Scene) -> CheckResult:
    return _version(claude(scene), scene)


@check("Claude Code: hooks", "agents")
def _claude_hooks(scene: Scene) -> CheckResult:
    return _hooks(claude(scene), scene)


@check("Claude Code: programs", "agents")
def _claude_programs(scene: Scene) -> CheckResult:
    return _programs(claude(scene), scene)


@check("Claude Code: switch", "agents")
def _claude_switch(scene: Scene) -> CheckResult:
    for path, value in claude(scene).values(_DISABLE_ALL_HOOKS):
        if value is True:
            cause = f"{path} has `{_DISABLE_ALL_HOOKS}`: no hook runs"
            return fail(cause, f"Remove `{_DISABLE_ALL_HOOKS}` from {path}.")
    return ok("hooks are switched on")


@check("Claude Code: double capture", "agents")
def _claude_double_capture(scene: Scene) -> CheckResult:
    return _double_capture(claude(scene), scene)


# Codex.


@check("Codex", "agents")
def _codex_version(scene: Scene) -> CheckResult:
    return _version(codex(scene), scene)


@check("Codex: hooks", "agents")
def _codex_hooks(scene: Scene) -> CheckResult:
    return _hooks(codex(scene), scene)


@check("Codex: programs", "agents")
def _codex_programs(scene: Scene) -> CheckResult:
    return _programs(codex(scene), scene)


@check("Codex: switch", "agents")
def _codex_switch(scene: Scene) -> CheckResult:
    for name in ("hooks", "codex_hooks"):
        for path, value in codex(scene).values("features", name):
            if value is False:
                return fail(f"{path} has `features.{name} = false`: no hook runs", f"Remove that line from {path}.")
    return ok("hooks are switched on")


# Trust in Codex. It stores a hash of every hook that the user approved, and silently skips any other hook. The hash is
# the SHA-256 of a JSON document with sorted keys and no spaces. The document has the event's name, the matcher if the
# event has one, and the command with the timeout as Codex rounds it.

_WITHOUT_MATCHER: Final = ("UserPromptSubmit", "Stop")
_END_EVENTS: Final = ("SessionEnd", "Interrupt")
_DEFAULT_SECONDS: Final = 600
_MAX_END_SECONDS: Final = 3
_OPEN_HOOKS: Final = "Start `codex`, type `/hooks`"


@check("Codex: trust", "agents")
def _trust(scene: Scene) -> CheckResult:
    """Check whether the user approved Filrouge's hooks in Codex as they are now."""
    agent = codex(scene)
    tables = [as_table(states) for _, states in agent.values("hooks", "state")]
    states = {key: as_table(state) for table in tables for key, state in table.items()}
    # The keys of a plugin's hooks start with the plugin's name instead of a path.
    is_plugin_trusted = any(key.startswith(f"{NAME}@") and state.get("trusted_hash") for key, state in states.items())
    if agent.plugin and not agent.hooks and not is_plugin_trusted:
        cause = "Codex does not run the hooks of the plugin, which you have not approved"
        return fail(cause, f"{_OPEN_HOOKS}, and approve those of Filrouge.")
    recorded = [(hook, [states[key] for key in hook.trust_keys if key in states]) for hook in agent.hooks]
    hashes = [
        (hook, [str(state["trusted_hash"]) for state in found if state.get("trusted_hash")]) for hook, found in recorded
    ]
    if untrusted := [hook.event for hook, found in hashes if not found]:
        cause = f"Codex does not run hooks that you have not approved: {', '.join(untrusted)}"
        return fail(cause, f"{_OPEN_HOOKS}, and approve those of Filrouge. Codex asks again after every change.")
    if disabled := [hook.event for hook, found in recorded if any(state.get("enabled") is False for state in found)]:
        return fail(f"switched off in Codex: {', '.join(disabled)}", f"{_OPEN_HOOKS}, and enable them.")
    if changed := [hook.event for hook, found in hashes if trusted_hash(hook) not in found]:
        # Only a warning, because another version of Codex may compute its hashes differently.
        cause = f"changed since you approved them, so Codex does not run them: {', '.join(changed)}"
        return warn(cause, f"{_OPEN_HOOKS}, and approve them as they are now.")
    return ok("every hook is approved" if agent.hooks or agent.plugin else _NO_HOOKS)


def trusted_hash(hook: Hook) -> str:
    """Return the `trusted_hash` that Codex stores when this hook is approved."""
    handler: dict[str, Any] = {
        "type": "command",
        "command": str(hook.handler.get("command", "")),
        "timeout": _rounded_timeout(hook),
        "async": hook.handler.get("async") is True,
    }
    status_message = hook.handler.get("statusMessage")
    handler |= {"statusMessage": status_message} if isinstance(status_message, str) else {}
    identity: dict[str, Any] = {"event_name": snake_case(hook.event), "hooks": [handler]}
    if isinstance(hook.matcher, str) and hook.event not in _WITHOUT_MATCHER:
        identity["matcher"] = hook.matcher
    canonical_json = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(canonical_json.encode()).hexdigest()}"


def _rounded_timeout(hook: Hook) -> int:
    timeout = hook.handler.get("timeout")
    if hook.event in _END_EVENTS:
        return min(_MAX_END_SECONDS, max(1, timeout if isinstance(timeout, int) else 1))
    return max(1, timeout if isinstance(timeout, int) else _DEFAULT_SECONDS)


@check("Codex: double capture", "agents")
def _codex_double_capture(scene: Scene) -> CheckResult:
    return _double_capture(codex(scene), scene)


# MCP.


@check("MCP", "agents")
def _mcp(scene: Scene) -> CheckResult:
    folder = scene.variable("CLAUDE_CONFIG_DIR") or scene.user_home
    claude_files = read_files(os.path.join(folder, ".claude.json"), os.path.join(scene.cwd, ".mcp.json"))
    servers = [(file.path, file.content.get("mcpServers")) for file in claude_files]
    servers += codex(scene).values("mcp_servers")
    used = [path for path, found in servers if any(map(_is_our_server, as_table(found).values()))]
    if scene.machine.has("mcp"):
        return ok(f"set up in {', '.join(used)}" if used else "its package is installed; no agent uses it")
    remedy = f"Run `{installation.install_command('mcp>=2.3,<3')}`."
    if used:
        return fail(f"{used[0]} uses `filrouge mcp`, but the package mcp is not installed", remedy)
    return warn("mcp is not installed", remedy)


def _is_our_server(server: Any) -> bool:
    entry = as_table(server)
    words = [str(entry.get("command", "")), *map(str, as_list(entry.get("args")))]
    return "filrouge" in " ".join(words) and "mcp" in words


# Managed settings and timeouts, which can keep configured hooks from running.

_MANAGED_HOOKS_ONLY: Final = "allowManagedHooksOnly"
_DISABLE_ALL_HOOKS: Final = "disableAllHooks"
_ADMINISTRATOR: Final = (
    "Ask the administrator of this machine. Without hooks, an agent only has the tools of `filrouge mcp`."
)
#: A hook takes less than a second; the rest allows for a machine that starts processes slowly.
_MIN_SECONDS: Final = 2
#: With a longer timeout, a hook that hangs makes the agent appear to hang.
_MAX_HOOK_SECONDS: Final = 120
#: For this event the default timeout of both agents is too short, so that a `timeout` must be set.
_NEEDS_TIMEOUT: Final = "SessionEnd"


@check("Claude Code: managed settings", "agents")
def _managed(scene: Scene) -> CheckResult:
    try:
        files = read_files(*_managed_paths(scene.machine.managed)) if scene.machine.managed else ()
    except OSError as error:
        return note(f"{error.filename} cannot be read: {error.strerror}", "Look at it as an administrator.")
    for file in files:
        if file.problem:
            return note(f"{file.problem}: it is unknown whether it allows hooks", _ADMINISTRATOR)
    # If several files set the same key, the last one applies.
    settings = {name: (file.path, value) for file in files for name, value in file.content.items()}
    switched_on = {name: path for name, (path, value) in settings.items() if value is True}
    if path := switched_on.get(_DISABLE_ALL_HOOKS):
        return fail(f"{path} has `{_DISABLE_ALL_HOOKS}`: no hook runs on this machine", _ADMINISTRATOR)
    is_plugged = claude_plugin(*settings.get("enabledPlugins", ("", None))) is not None
    path = switched_on.get(_MANAGED_HOOKS_ONLY)
    if path and not is_plugged and not any(file.hooks for file in files):
        cause = f"{path} has `{_MANAGED_HOOKS_ONLY}`: Claude Code runs neither your hooks nor those of plugins"
        return fail(cause, _ADMINISTRATOR)
    for path, value in claude(scene).values(_MANAGED_HOOKS_ONLY):
        if value is True:
            cause = f"{path} has `{_MANAGED_HOOKS_ONLY}`, which only works in managed settings"
            return note(cause, f"Remove it from {path}.")
    return ok("they allow Filrouge's hooks" if files else "there are no managed settings")


def _managed_paths(folder: str) -> list[str]:
    """Return the managed settings file and its drop-in files, in order of precedence (the last one wins)."""
    drop_ins = os.path.join(folder, "managed-settings.d")
    names = [name for name in sorted(names_in(drop_ins)) if name.endswith(".json") and not name.startswith(".")]
    return [os.path.join(folder, "managed-settings.json"), *(os.path.join(drop_ins, name) for name in names)]


def _timeouts(agent: ConfiguredAgent, _: Scene) -> CheckResult:
    for hook in agent.hooks:
        if problem := _timeout_problem(hook, agent):
            seconds = agent.timeouts.get(hook.event, 10)
            cause = f"the hook {hook.event} in {hook.file} {problem}"
            return warn(cause, f"Run `filrouge init --host {agent.host}`, or write `timeout`: {seconds} there.")
    return ok("no timeout is too short or too long" if agent.hooks else _NO_HOOKS)


def _timeout_problem(hook: Hook, agent: ConfiguredAgent) -> str:
    timeout = hook.handler.get("timeout")
    if timeout is None:
        is_needed = hook.event == _NEEDS_TIMEOUT
        return f"has no `timeout`, and {agent.name} ends it before it is done" if is_needed else ""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        return "has a `timeout` that is not a number"
    if timeout < min(_MIN_SECONDS, agent.timeouts.get(hook.event, _MIN_SECONDS)):
        return f"may take {timeout:g} seconds, in which Filrouge may not even start"
    if timeout > _MAX_HOOK_SECONDS:
        seconds = f"may take {timeout:g} seconds (the unit is not milliseconds)"
        return f"{seconds}: a hook that hangs blocks {agent.name} for that long"
    return ""


@check("Claude Code: timeouts", "agents")
def _claude_timeouts(scene: Scene) -> CheckResult:
    return _timeouts(claude(scene), scene)


@check("Codex: timeouts", "agents")
def _codex_timeouts(scene: Scene) -> CheckResult:
    return _timeouts(codex(scene), scene)


# Entries that `init` wrote, compared with what it would write today.

_QUOTED_TEXTS: Final = re.compile(r'"([^"]+)"')


class _Connection(NamedTuple):
    """Whether the recorded files of an agent contain hooks and MCP tools of Filrouge."""

    agent: Agent
    hooks: bool
    tools: bool


def _mend_what_init_wrote(scene: Scene) -> list[str]:
    machine = this_machine(scene.environ)
    done = list[str]()
    for connection in _connections(scene, machine):
        changes = _plan(scene, machine, connection).changes
        done += [_apply_change(change, scene.home) for change in changes]
        if changes and connection.hooks and connection.agent.note:
            done.append(connection.agent.note)
    return done


@check("What init wrote", "agents", mend=_mend_what_init_wrote)
def _what_init_wrote(scene: Scene) -> CheckResult:
    machine = this_machine(scene.environ)
    connections = list(_connections(scene, machine))
    plans = [(connection, _plan(scene, machine, connection)) for connection in connections]
    for connection, plan in plans:
        for path, error in plan.problems.items():
            return fail(
                f"{connection.agent.title}: {path}: {error.message}",
                f"Mend {path}; until then `--fix` does not change it.",
            )
    stale = [(connection, plan) for connection, plan in plans if plan.changes]
    if not stale:
        titles = ", ".join(connection.agent.title for connection in connections)
        return ok(f"as `init` writes it: {titles}" if titles else "`init` wrote nothing")
    agents, name = ", ".join(connection.agent.title for connection, _ in stale), stale[0][0].agent.name
    remedy = f"Run `filrouge doctor --fix`, or `filrouge init --host {name}` to see the lines first."
    if all(_is_written_by_other_installation(scene, machine, connection, plan) for connection, plan in stale):
        return note(f"{agents}: connected to another Filrouge than this one, {machine.executable}", remedy)
    paths = ", ".join(change.path for _, plan in stale for change in plan.changes)
    return warn(f"{agents}: entries differ from what `init` writes now: {paths}", remedy)


def _apply_change(change: Change, home: str) -> str:
    """Apply one change and return a line about it. A failure is reported in the line, so that others go on."""
    try:
        apply_change(change, home)
    except FilrougeError as error:
        return f"{change.path} could not be mended: {error.message} {error.remedy}".rstrip()
    return f"{change.path}: Filrouge's entries are as `init` writes them now"


def _connections(scene: Scene, machine: Machine) -> Iterator[_Connection]:
    records = Manifest(scene.home).records()
    for agent in AGENTS.values():
        hooks, tools = (
            any(file.path in records and _has_entries(file) for file in agent_files)
            for agent_files in (agent.hooks(machine), agent.tools(machine))
        )
        if hooks or tools:
            yield _Connection(agent, hooks, tools)


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


def _plan(scene: Scene, machine: Machine, connection: _Connection) -> Plan:
    """Return the plan of `init --host` for what is connected: only hooks, only tools, or both."""
    name = connection.agent.name
    return plan_connecting(
        machine, scene.home, [name], hooks=connection.hooks, tools=connection.tools, conversations=connection.hooks
    )


def _is_written_by_other_installation(scene: Scene, machine: Machine, connection: _Connection, plan: Plan) -> bool:
    """Return True if the entries are those that another installation on this machine writes, which is not an error."""
    removed_lines = [line for change in plan.changes for line in change.lines() if line.startswith("-")]
    programs = {_first_word(text) for line in removed_lines for text in _QUOTED_TEXTS.findall(line)}
    others = (Machine(environ=machine.environ, executable=path) for path in programs if os.path.isabs(path))
    return any(which(other.executable, {}) and not _plan(scene, other, connection).changes for other in others)


def _first_word(command: str) -> str:
    try:
        return shlex.split(command)[0]
    except (ValueError, IndexError):
        return ""


@check("Agents: programs", "agents")
def _all_programs(scene: Scene) -> CheckResult:
    """Check that every program and plugin in the agents' settings exists, and that every program starts."""
    starts_by_path = dict[str, bool]()
    for agent, file, entry in _all_entries(this_machine(scene.environ)):
        remedy = f"Run `filrouge init --host {agent.name}`."
        plugin, command = plugin_path(entry), program(entry)
        if os.path.isabs(plugin) and not os.path.exists(plugin):
            return fail(f"{agent.title}: {file.path} names {plugin}, which does not exist", remedy)
        if not command:
            if os.path.isfile(plugin):
                return warn(f"{agent.title}: the plugin in {file.path} is not told where `filrouge` is", remedy)
            continue
        path = which(os.path.expanduser(command), scene.environ)
        if not path:
            return fail(f"{agent.title}: {file.path} runs {command}, which does not exist", remedy)
        if path not in starts_by_path:
            starts_by_path[path] = starts(path, scene.environ)
        if not starts_by_path[path]:
            return fail(f"{agent.title}: {file.path} runs {path}, which does not start", remedy)
    return ok(f"they run {', '.join(starts_by_path)}" if starts_by_path else "no agent is connected")


def _all_entries(machine: Machine) -> Iterator[tuple[Agent, File, Any]]:
    for agent in AGENTS.values():
        for file in (*agent.hooks(machine), *agent.tools(machine)):
            with suppress(BadInput):  # reported by "What init wrote" and by the checks of that agent
                yield from ((agent, file, entry) for entry in _entries(file))


@check("OpenCode: double capture", "agents")
def _opencode_double_capture(scene: Scene) -> CheckResult:
    machine = this_machine(scene.environ)
    agent = AGENTS["opencode"]
    plugin = find_plugin(agent.name, machine)
    if plugin is None:
        return ok("there is no plugin in its folder")
    for file in agent.hooks(machine):
        try:
            if _entries(file):
                what = f"{agent.title} has Filrouge's plugin in its folder ({plugin.path}) and in {file.path}"
                return _plugin_and_hooks_warning(what, agent.name, plugin)
        except BadInput as error:
            return fail(f"{file.path}: {error.message}", f"Mend {file.path}.")
    return ok(f"a plugin provides it ({plugin.path})")
