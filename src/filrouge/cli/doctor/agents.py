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
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, NamedTuple

from filrouge.cli.doctor.scene import INIT, Check, CheckResult, Scene, fail, note, ok, starts, version_of, warn, which
from filrouge.core import installation
from filrouge.core.errors import BadInput, FilrougeError
from filrouge.hosts.command_hooks import as_list
from filrouge.hosts.setup import files
from filrouge.hosts.setup.entries import (
    AGENTS,
    CLAUDE_CODE,
    CODEX,
    Agent,
    File,
    Plugin,
    as_table,
    claude_plugin,
    codex_plugin,
    entries_of_ours,
    has_entries,
    is_hook_of_ours,
    plugged,
    plugin_path,
    program,
)
from filrouge.hosts.setup.files import NAME, Machine, Manifest, this_machine
from filrouge.hosts.setup.plan import Change, Plan, carry_out, connecting

# Hooks of Filrouge in the configuration of Claude Code and Codex.

#: Key in Codex's `hooks` table under which it stores the trust in each hook. It is not an event.
_STATE: Final = "state"


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
    command: str
    file: str
    group: int
    index: int
    handler: Mapping[str, Any] = field(default_factory=dict[str, Any])
    matcher: str | None = None

    @property
    def program(self) -> str:
        """The program that it runs; empty if the command cannot be parsed."""
        try:
            words = shlex.split(self.command)
        except ValueError:
            return ""
        while words and (words[0] == "env" or _is_assignment(words[0])):
            words = words[1:]
        return words[0] if words else ""

    @property
    def trust_keys(self) -> tuple[str, ...]:
        """The possible keys of this hook in Codex's `[hooks.state]`."""
        place = f"{self.group}:{self.index}"
        names = (snake(self.event), self.event)
        files = dict.fromkeys((self.file, os.path.realpath(self.file)))
        return tuple(f"{file}:{name}:{place}" for file in files for name in names)


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsFile:
    """A settings file of an agent.

    Attributes:
        trouble: why it cannot be parsed; empty if it can.
    """

    path: str
    content: Mapping[str, Any]
    trouble: str = ""

    @property
    def hooks(self) -> list[Hook]:
        """The hooks of Filrouge in this file."""
        return list(_ours(self.path, as_table(self.content.get("hooks"))))


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfiguredAgent:
    """An agent and its configuration on this machine.

    Attributes:
        host: its name in Filrouge's commands.
        program: the name of its executable.
        checked_with: the version that Filrouge was tested with.
        needed: events that need a hook for the memory to work.
        folder: the user's configuration directory of this agent.
        plugin: Filrouge's plugin, if it is installed and enabled.
    """

    name: str
    host: str
    program: str
    checked_with: tuple[int, ...]
    needed: tuple[str, ...]
    folder: str
    files: tuple[SettingsFile, ...]
    plugin: Plugin | None = None

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
    folder = scene.environ.get("CLAUDE_CONFIG_DIR", "").strip() or os.path.join(scene.user_home, ".claude")
    paths = [f"{folder}/settings.json", *(f"{scene.cwd}/.claude/settings{local}.json" for local in ("", ".local"))]
    files = read_files(paths)
    plugins = (claude_plugin(file.path, file.content.get("enabledPlugins")) for file in files)
    return ConfiguredAgent(
        name="Claude Code",
        host="claude-code",
        program="claude",
        checked_with=(2, 1, 330),
        needed=("SessionStart", "UserPromptSubmit", "Stop"),
        folder=folder,
        files=files,
        plugin=next(filter(None, plugins), None),
    )


def codex(scene: Scene) -> ConfiguredAgent:
    """Read the configuration of Codex."""
    folder = scene.environ.get("CODEX_HOME", "").strip() or os.path.join(scene.user_home, ".codex")
    folders = (folder, os.path.join(scene.cwd, ".codex"))
    paths = [os.path.join(one, name) for one in folders for name in ("hooks.json", "config.toml")]
    files = read_files(paths)
    plugins = (codex_plugin(file.path, file.content.get("plugins")) for file in files)
    return ConfiguredAgent(
        name="Codex",
        host="codex",
        program="codex",
        checked_with=(0, 169, 0),
        needed=("SessionStart", "UserPromptSubmit", "Stop"),
        folder=folder,
        files=files,
        plugin=next(filter(None, plugins), None),
    )


def mcp_servers(scene: Scene) -> list[str]:
    """Return the files in which `filrouge mcp` is configured as a server."""
    folder = scene.environ.get("CLAUDE_CONFIG_DIR", "").strip() or scene.user_home
    paths = [os.path.join(folder, ".claude.json"), os.path.join(scene.cwd, ".mcp.json")]
    found = [(file.path, file.content.get("mcpServers")) for file in read_files(paths)]
    found += codex(scene).values("mcp_servers")
    return [path for path, servers in found if any(map(_is_our_server, as_table(servers).values()))]


def _is_our_server(server: Any) -> bool:
    about = as_table(server)
    words = [str(about.get("command", "")), *map(str, as_list(about.get("args")))]
    return "filrouge" in " ".join(words) and "mcp" in words


def read_files(paths: list[str]) -> tuple[SettingsFile, ...]:
    """Parse the existing files, each once."""
    there = {os.path.realpath(path): path for path in reversed(paths) if os.path.isfile(path)}
    return tuple(_parsed(path) for path in paths if path in there.values())


def _parsed(path: str) -> SettingsFile:
    parse: Callable[[str], Any] = tomllib.loads if path.endswith(".toml") else json.loads
    try:
        with open(path, encoding="utf-8") as file:
            return SettingsFile(path=path, content=as_table(parse(file.read())))
    except (ValueError, RecursionError):
        kind = "TOML" if path.endswith(".toml") else "JSON"
        return SettingsFile(path=path, content={}, trouble=f"{path} is no {kind}")


def _line(handler: Mapping[str, Any]) -> str:
    """Return a hook's command line. If the hook has `args`, its `command` is only the path of the program."""
    command, words = str(handler.get("command", "")), [str(word) for word in as_list(handler.get("args"))]
    return shlex.join([command, *words]) if words else command


def _ours(path: str, events: Mapping[str, Any]) -> Iterator[Hook]:
    for event, groups in events.items():
        if event == _STATE:
            continue
        for number, group in enumerate(as_list(groups)):
            for index, handler in enumerate(as_list(as_table(group).get("hooks"))):
                if is_hook_of_ours(handler):
                    matcher = as_table(group).get("matcher")
                    yield Hook(
                        event=event,
                        command=_line(as_table(handler)),
                        file=path,
                        group=number,
                        index=index,
                        handler=as_table(handler),
                        matcher=matcher if isinstance(matcher, str) else None,
                    )


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def snake(name: str) -> str:
    """Return an event's name in snake case, as Codex uses it in its keys."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


# Managed settings and timeouts, which can keep configured hooks from running.

_MANAGED_HOOKS_ONLY: Final = "allowManagedHooksOnly"
_DISABLE_ALL_HOOKS: Final = "disableAllHooks"
_ADMINISTRATOR: Final = "Ask who administers this machine; without hooks an agent has the tools (`filrouge mcp`) alone."
#: A hook takes less than a second; the rest allows for a machine that starts processes slowly.
_LEAST_SECONDS: Final = 2
#: With a longer timeout, a hook that hangs makes the agent appear to hang.
_MOST_SECONDS: Final = 120
#: Events by host for which the agent's default timeout is too short, so that a `timeout` must be set.
_NEEDS_A_LIMIT: Final = {"claude-code": ("SessionEnd",), "codex": ("SessionEnd",)}


def _managed(scene: Scene) -> CheckResult:
    folder = scene.machine.managed
    try:
        files = read_files(_paths(folder)) if folder else ()
    except OSError as error:
        return note(f"{error.filename} cannot be read: {error.strerror}", "Look at it as an administrator.")
    for file in files:
        if file.trouble:
            return note(f"{file.trouble}: whether it lets hooks run is not known", _ADMINISTRATOR)
    # If several files set the same key, the last one applies.
    said: dict[str, tuple[str, Any]] = {
        name: (file.path, value) for file in files for name, value in file.content.items()
    }
    path, value = said.get(_DISABLE_ALL_HOOKS, ("", None))
    if value is True:
        return fail(f"{path} has `{_DISABLE_ALL_HOOKS}`: no hook runs on this machine", _ADMINISTRATOR)
    path, value = said.get(_MANAGED_HOOKS_ONLY, ("", None))
    if (
        value is True
        and claude_plugin(*said.get("enabledPlugins", ("", None))) is None
        and not any(file.hooks for file in files)
    ):
        return fail(
            f"{path} has `{_MANAGED_HOOKS_ONLY}`: Claude Code runs no hook of yours, and no plugin's", _ADMINISTRATOR
        )
    if own := [path for path, value in claude(scene).values(_MANAGED_HOOKS_ONLY) if value is True]:
        return note(
            f"{own[0]} has `{_MANAGED_HOOKS_ONLY}`, which counts in managed settings alone", f"Remove it from {own[0]}."
        )
    return ok("they let our hooks run" if files else "there are none")


def _paths(folder: str) -> list[str]:
    """Return the managed settings file and its drop-in files, in order of precedence (the last one wins)."""
    more = os.path.join(folder, "managed-settings.d")
    names = sorted(os.listdir(more)) if os.path.isdir(more) else []
    dropped = [os.path.join(more, name) for name in names if name.endswith(".json") and not name.startswith(".")]
    return [os.path.join(folder, "managed-settings.json"), *dropped]


def _limits(agent: ConfiguredAgent, wanted: Mapping[str, int]) -> CheckResult:
    for hook in agent.hooks:
        if trouble := _trouble(hook, agent, wanted):
            return warn(
                f"the hook {hook.event} in {hook.file} {trouble}",
                f"Run `filrouge init --host {agent.host}`, or write `timeout`: {wanted.get(hook.event, 10)} there.",
            )
    return ok("none is too short or too long" if agent.hooks else "there are no hooks")


def _trouble(hook: Hook, agent: ConfiguredAgent, wanted: Mapping[str, int]) -> str:
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


def _of(read: Callable[[Scene], ConfiguredAgent], wanted: Mapping[str, int]) -> Callable[[Scene], CheckResult]:
    return lambda scene: _limits(read(scene), wanted)


CHECKS_OF_POLICY: Final = (
    Check(name="Claude Code: managed settings", look=_managed),
    Check(name="Claude Code: timeouts", look=_of(claude, CLAUDE_CODE)),
    Check(name="Codex: timeouts", look=_of(codex, CODEX)),
)


# Trust in Codex. It stores a hash of every hook that the user approved, and silently skips any other hook. The hash is
# the SHA-256 of a JSON document with sorted keys and no spaces. The document has the event's name, the matcher if the
# event has one, and the command with the timeout as Codex rounds it.

_WITHOUT_MATCHER: Final = ("UserPromptSubmit", "Stop")
_ENDS: Final = ("SessionEnd", "Interrupt")
_USUAL_SECONDS: Final = 600
_MOST_AT_THE_END: Final = 3
_OPEN: Final = "Start `codex`, type `/hooks`"


def trust(agent: ConfiguredAgent, _: Scene) -> CheckResult:
    """Check whether the user approved Filrouge's hooks in Codex as they are now."""
    states = _states(agent)
    if agent.plugin and not agent.hooks and not _is_plugin_trusted(states):
        return fail(
            "Codex does not run the hooks of the plugin, which you have not approved",
            f"{_OPEN}, and approve those of Filrouge.",
        )
    kept = [(hook, [states[key] for key in hook.trust_keys if key in states]) for hook in agent.hooks]
    hashes = [(hook, [str(one["trusted_hash"]) for one in found if one.get("trusted_hash")]) for hook, found in kept]
    if untrusted := [hook.event for hook, found in hashes if not found]:
        return fail(
            f"Codex does not run hooks that you have not approved: {', '.join(untrusted)}",
            f"{_OPEN}, and approve those of Filrouge; every change of them asks again.",
        )
    if off := [hook.event for hook, found in kept if any(one.get("enabled") is False for one in found)]:
        return fail(f"switched off in Codex: {', '.join(off)}", f"{_OPEN}, enable them.")
    if changed := [hook.event for hook, found in hashes if trusted_hash(hook) not in found]:
        # Only a warning, because another version of Codex may compute its hashes differently.
        return warn(
            f"changed since you approved them, so that Codex does not run them: {', '.join(changed)}",
            f"{_OPEN}, and approve them as they are now.",
        )
    return ok("every hook was approved" if agent.hooks or agent.plugin else "there are no hooks")


def trusted_hash(hook: Hook) -> str:
    """Return the `trusted_hash` that Codex stores when this hook is approved."""
    handler: dict[str, Any] = {
        "type": "command",
        "command": str(hook.handler.get("command", "")),
        "timeout": _seconds(hook),
        "async": hook.handler.get("async") is True,
    }
    said = hook.handler.get("statusMessage")
    handler |= {"statusMessage": said} if isinstance(said, str) else {}
    identity: dict[str, Any] = {"event_name": snake(hook.event), "hooks": [handler]}
    if hook.matcher is not None and hook.event not in _WITHOUT_MATCHER:
        identity["matcher"] = hook.matcher
    plain = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(plain.encode()).hexdigest()}"


def _seconds(hook: Hook) -> int:
    said = hook.handler.get("timeout")
    if hook.event in _ENDS:
        return min(_MOST_AT_THE_END, max(1, said if isinstance(said, int) else 1))
    return max(1, said if isinstance(said, int) else _USUAL_SECONDS)


def _states(agent: ConfiguredAgent) -> dict[str, Mapping[str, Any]]:
    """Return what Codex stores about each hook, by key."""
    return {key: as_table(one) for _, states in agent.values("hooks", "state") for key, one in as_table(states).items()}


def _is_plugin_trusted(states: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return True if a hook of the plugin is approved. Its keys start with the plugin's name instead of a path."""
    return any(key.startswith(f"{NAME}@") and one.get("trusted_hash") for key, one in states.items())


# Entries that `init` wrote, compared with what it would write today.

_TEXTS: Final = re.compile(r'"([^"]+)"')
_FIX: Final = "Run `filrouge doctor --fix`, or `filrouge init --host {name}` to see the lines first."


class _Written(NamedTuple):
    """Whether the recorded files of an agent contain hooks and MCP tools of Filrouge."""

    agent: Agent
    hooks: bool
    tools: bool


def _stale(scene: Scene) -> CheckResult:
    machine = this_machine(scene.environ)
    connected = list(_connected(scene, machine))
    plans = [(one, _plan(scene, machine, one)) for one in connected]
    for one, plan in plans:
        for path, error in plan.troubles.items():
            return fail(f"{one.agent.title}: {path}: {error.message}", f"Mend {path}; until then it is left alone.")
    stale = [(one, plan) for one, plan in plans if plan.changes]
    if not stale:
        titles = ", ".join(one.agent.title for one in connected)
        return ok(f"as `init` writes it: {titles}" if titles else "`init` wrote nothing")
    agents = ", ".join(one.agent.title for one, _ in stale)
    remedy = _FIX.format(name=stale[0][0].agent.name)
    if all(_written_by_other_installation(scene, machine, one, plan) for one, plan in stale):
        return note(f"{agents}: connected to another Filrouge than this one, {machine.executable}", remedy)
    paths = ", ".join(change.path for _, plan in stale for change in plan.changes)
    return warn(f"{agents}: not as `init` writes it now: {paths}", remedy)


def _mend(scene: Scene) -> list[str]:
    machine = this_machine(scene.environ)
    deeds = list[str]()
    for one in _connected(scene, machine):
        changes = _plan(scene, machine, one).changes
        done = [_carried_out(change, scene.home) for change in changes]
        deeds += done
        if any(done) and one.hooks and one.agent.then:
            deeds.append(one.agent.then)
    return deeds


def _carried_out(change: Change, home: str) -> str:
    """Apply one change and return a line about it. A failure is reported in the line, so that others go on."""
    try:
        carry_out(change, home)
    except FilrougeError as error:
        return f"{change.path} could not be mended: {error.message} {error.remedy}".rstrip()
    return f"{change.path}: Filrouge's entries are as `init` writes them now"


def _connected(scene: Scene, machine: Machine) -> Iterator[_Written]:
    records = Manifest(scene.home).records()
    for agent in AGENTS.values():
        hooks, tools = (
            any(file.path in records and _stands(file) for file in found)
            for found in (agent.hooks(machine), agent.tools(machine))
        )
        if hooks or tools:
            yield _Written(agent, hooks, tools)


def _stands(file: File) -> bool:
    """Return True if a file contains an entry of Filrouge, or cannot be read; the plan then says why."""
    try:
        return has_entries(files.text_of(files.read_bytes(file.path), file.path), file)
    except BadInput:
        return os.path.exists(file.path)


def _plan(scene: Scene, machine: Machine, one: _Written) -> Plan:
    """Return the plan of `init --host` for what is connected: only hooks, only tools, or both."""
    name = one.agent.name
    return connecting(machine, scene.home, [name], hooks=one.hooks, tools=one.tools, conversations=one.hooks)


def _written_by_other_installation(scene: Scene, machine: Machine, one: _Written, plan: Plan) -> bool:
    """Return True if the entries are those that another installation on this machine writes, which is not an error."""
    gone = [line for change in plan.changes for line in change.lines() if line.startswith("-")]
    programs = {word for line in gone for said in _TEXTS.findall(line) for word in _first_word(said)}
    others = (Machine(environ=machine.environ, executable=program) for program in programs)
    return any(which(other.executable, {}) and not _plan(scene, other, one).changes for other in others)


def _first_word(said: str) -> list[str]:
    try:
        words = shlex.split(said)[:1]
    except ValueError:
        return []
    return [word for word in words if os.path.isabs(word)]


def _programs(scene: Scene) -> CheckResult:
    """Check that every program and plugin in the agents' settings exists, and that every program starts."""
    machine = this_machine(scene.environ)
    runs = dict[str, bool]()
    for agent, file in ((one, file) for one in AGENTS.values() for file in _files_of(one, machine)):
        try:
            found = entries_of_ours(files.text_of(files.read_bytes(file.path), file.path), file)
        except BadInput:  # reported by "What init wrote" and by the checks of that agent
            continue
        remedy = f"Run `filrouge init --host {agent.name}`."
        for entry in found:
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


def _files_of(agent: Agent, machine: Machine) -> tuple[File, ...]:
    return (*agent.hooks(machine), *agent.tools(machine))


def _opencode_twice(scene: Scene) -> CheckResult:
    machine = this_machine(scene.environ)
    agent = AGENTS["opencode"]
    found = plugged(agent.name, machine)
    if found is None:
        return ok("no plugin lies in its folder")
    for file in agent.hooks(machine):
        try:
            if has_entries(files.text_of(files.read_bytes(file.path), file.path), file):
                return warn(
                    f"{agent.title} has Filrouge's plugin in its folder ({found.place}) and in {file.path}: every"
                    " prompt gets two blocks",
                    f"Remove one of them: `filrouge uninstall --host {agent.name}`, or {found.remove}.",
                )
        except BadInput as error:
            return fail(f"{file.path}: {error.message}", f"Mend {file.path}.")
    return ok(f"a plugin brings it ({found.place})")


CHECKS_OF_STALE: Final = (
    Check(name="What init wrote", look=_stale, mend=_mend),
    Check(name="Agents: programs", look=_programs),
    Check(name="OpenCode: double capture", look=_opencode_twice),
)


# Versions, hooks, programs and switches of each agent.

_NOT_HERE: Final = "it is not used here"


def _version(agent: ConfiguredAgent, scene: Scene) -> CheckResult:
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


def _hooks(agent: ConfiguredAgent, scene: Scene) -> CheckResult:
    for file in agent.files:
        if file.trouble:
            return fail(f"{file.trouble}, so that {agent.name} ignores it", f"Mend {file.path}.")
    if not _is_used(agent, scene):
        return ok(_NOT_HERE)
    events = {hook.event for hook in agent.hooks}
    if agent.plugin and not events:
        return ok(f"a plugin brings them ({agent.plugin.place})")
    if not events:
        tell = warn if which(agent.program, scene.environ) else note  # the folder may remain from a removed agent
        return tell(f"{agent.name} has no hook of Filrouge: it captures nothing and is told nothing", INIT)
    if missing := [event for event in agent.needed if event not in events]:
        return warn(f"{agent.name} has no hook of Filrouge for {', '.join(missing)}", INIT)
    return ok(f"{len(events)} events")


def _wired_programs(agent: ConfiguredAgent, scene: Scene) -> CheckResult:
    for hook in agent.hooks:
        if not which(os.path.expanduser(hook.program), scene.environ):
            what = hook.program or "its command"
            return fail(f"the hook {hook.event} in {hook.file} runs {what}, which is not there", INIT)
    return ok("every one is there" if agent.hooks else "there are no hooks")


def _twice(agent: ConfiguredAgent, _: Scene) -> CheckResult:
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


def _claude_off(agent: ConfiguredAgent, _: Scene) -> CheckResult:
    if off := [path for path, value in agent.values("disableAllHooks") if value is True]:
        return fail(f"{off[0]} has `disableAllHooks`: no hook runs", f"Remove `disableAllHooks` from {off[0]}.")
    return ok("they are on")


def _codex_off(agent: ConfiguredAgent, _: Scene) -> CheckResult:
    for name in ("hooks", "codex_hooks"):
        if off := [path for path, value in agent.values("features", name) if value is False]:
            return fail(f"{off[0]} has `features.{name} = false`: no hook runs", f"Remove that line from {off[0]}.")
    return ok("they are on")


def _mcp(scene: Scene) -> CheckResult:
    used = mcp_servers(scene)
    if scene.machine.has("mcp"):
        return ok(f"set up in {', '.join(used)}" if used else "its package is there; no agent uses it")
    tell = fail if used else warn
    cause = f"{used[0]} uses `filrouge mcp`, and the package mcp is not installed" if used else "mcp is not installed"
    return tell(cause, f"Run `{installation.add('mcp>=2.3,<3')}`.")


def _is_used(agent: ConfiguredAgent, scene: Scene) -> bool:
    return bool(agent.files) or os.path.isdir(agent.folder) or bool(which(agent.program, scene.environ))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _wired_of(
    read: Callable[[Scene], ConfiguredAgent], look: Callable[[ConfiguredAgent, Scene], CheckResult]
) -> Callable[[Scene], CheckResult]:
    return lambda scene: look(read(scene), scene)


CHECKS_OF_AGENTS: Final = (
    Check(name="Claude Code", look=_wired_of(claude, _version)),
    Check(name="Claude Code: hooks", look=_wired_of(claude, _hooks)),
    Check(name="Claude Code: programs", look=_wired_of(claude, _wired_programs)),
    Check(name="Claude Code: switch", look=_wired_of(claude, _claude_off)),
    Check(name="Claude Code: double capture", look=_wired_of(claude, _twice)),
    Check(name="Codex", look=_wired_of(codex, _version)),
    Check(name="Codex: hooks", look=_wired_of(codex, _hooks)),
    Check(name="Codex: programs", look=_wired_of(codex, _wired_programs)),
    Check(name="Codex: switch", look=_wired_of(codex, _codex_off)),
    Check(name="Codex: trust", look=_wired_of(codex, trust)),
    Check(name="Codex: double capture", look=_wired_of(codex, _twice)),
    Check(name="MCP", look=_mcp),
)
