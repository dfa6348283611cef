"""The agents, the entries that Filrouge writes into their settings, and recognising its own entries.

Entries are recognised by the command they run, whoever wrote them and wherever the program was installed.
"""

from __future__ import annotations

import os
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from filrouge.core.errors import BadInput
from filrouge.hosts import claude_code, codex, plugins
from filrouge.hosts.setup import files
from filrouge.hosts.setup.files import NAME, Machine, Node, Path, WasThere, insert_entry, read_json, remove_matching


def is_hook_of_ours(entry: Any) -> bool:
    """Return True for a hook, or a group of hooks, that runs `filrouge hook` and nothing else."""
    inner = handlers(entry)
    return all(is_hook_of_ours(one) for one in inner) if inner else "hook" in _words(entry)


def is_tool_of_ours(entry: Any) -> bool:
    """Return True for an MCP server that runs `filrouge mcp`."""
    return "mcp" in _words(entry)


def is_plugin_of_ours(entry: Any) -> bool:
    """Return True for the path of a plugin that comes with Filrouge, with or without options."""
    path = plugin_path(entry)
    return "/filrouge/hosts/plugins/" in path.replace("\\", "/")


def plugin_path(entry: Any) -> str:
    """Return the path in a plugin entry; empty for any other entry."""
    first: Any = _parts(entry)[0]
    return first if isinstance(first, str) else ""


def program(entry: Any) -> str:
    """Return the program that an entry of ours runs; empty if it names none."""
    if words := _command(entry):
        return next(filter(_is_program, words), "")
    options: Any = _parts(entry)[-1]
    if isinstance(options, dict):
        options = cast("dict[str, Any]", options).get("config", options)
    named = cast("dict[str, Any]", options).get("executable") if isinstance(options, dict) else ""
    return named if isinstance(named, str) else ""


def _parts(entry: Any) -> list[Any]:
    """Return a plugin's path and its options; an entry that is not a list is the only part."""
    return cast("list[Any]", entry) if isinstance(entry, list) and entry else [entry]


def is_named_like_us(entry: Any) -> bool:
    """Return True for Filrouge's name in a list of names."""
    return entry == NAME


def always_ours(_: Any) -> bool:
    """Return True: at a place with Filrouge's name every value is ours."""
    return True


def never_ours(_: Any) -> bool:
    """Return False: a value that others share, such as a file's format version, is never ours."""
    return False


def handlers(entry: Any) -> list[Any]:
    """Return the hooks of a group; empty for a single hook."""
    inner = cast("dict[str, Any]", entry).get("hooks") if isinstance(entry, dict) else None
    return cast("list[Any]", inner) if isinstance(inner, list) else []


def _words(entry: Any) -> list[str]:
    """Return the arguments of `filrouge` in an entry's command; empty if it runs something else."""
    words = _command(entry)
    places = [place for place, word in enumerate(words) if _is_program(word)]
    return words[places[0] + 1 :] if places else []


def _command(entry: Any) -> list[str]:
    """Return the words of an entry's command; empty if it has none."""
    if not isinstance(entry, dict):
        return []
    said = cast("dict[str, Any]", entry)
    command, more = said.get("command", ""), said.get("args", ())
    words = _split(command, whole=bool(more)) if isinstance(command, str) else [str(one) for one in command or ()]
    words += [str(one) for one in more] if isinstance(more, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return words


def _split(command: str, *, whole: bool) -> list[str]:
    """Split a shell command into words; with separate arguments the command is a program's path and stays whole."""
    if whole:
        return [command]
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _is_program(word: str) -> bool:
    return os.path.basename(word.replace("\\", "/")).lower() in (NAME, f"{NAME}.exe", f"{NAME}.sh")


# Agents, their settings files and the entries in them.


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One value in one file.

    Attributes:
        path: the keys that lead to it.
        value: the value to write.
        ours: returns True for a value that Filrouge wrote, also in an earlier version.
        listed: the value is one element of the list at `path`.
        beside: add the value only to a list that already has elements. A non-empty allow list excludes everyone whom it
            does not name.
    """

    path: tuple[str, ...]
    value: Any
    ours: Callable[[Any], bool]
    listed: bool = False
    beside: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A settings file with the entries to write."""

    path: str
    entries: tuple[Entry, ...]

    @property
    def is_toml(self) -> bool:
        """Return True for a TOML file; every other settings file is JSON."""
        return self.path.endswith(".toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent:
    """An agent that can be connected.

    Attributes:
        name: its name in commands.
        title: its display name.
        folder: the folder of its settings.
        programs: its commands.
        hooks: the files for hooks, which capture events and inject context.
        tools: the files for MCP servers.
        then: what the user still has to do or know.
        reads_all: its hooks need a permission to read every conversation; the user is asked for it separately.
    """

    name: str
    title: str
    folder: Callable[[Machine], str]
    programs: tuple[str, ...]
    hooks: Callable[[Machine], tuple[File, ...]]
    tools: Callable[[Machine], tuple[File, ...]]
    then: str = ""
    reads_all: bool = False

    def is_there(self, machine: Machine) -> bool:
        """Return True if the agent's folder or one of its commands is on this machine."""
        return os.path.isdir(self.folder(machine)) or any(machine.program(name) for name in self.programs)


# Adding Filrouge's entries to the text of a settings file, and removing them.

_HOOKS = "hooks"


def add_entries(text: str, file: File) -> str:
    """Return the text with all entries; entries of an earlier Filrouge version are replaced.

    Raises:
        BadInput: the file cannot be read, or a value of the user's is in the place of ours.
    """
    for entry in file.entries:
        text = _with_table(text, entry) if file.is_toml else _with_json(text, entry)
    return text


def remove_entries(text: str, file: File, before: str | None) -> str:
    """Return the text without Filrouge's entries.

    Args:
        text: the text of the file.
        file: the file and its entries.
        before: the text from before Filrouge changed it, if known; objects and lists that were empty then stay.

    Raises:
        BadInput: the file cannot be read, or our entries cannot be removed alone.
    """
    if file.is_toml:
        for entry in file.entries:
            if entry.ours(_table_at(text, entry)):
                text = files.without_table(text, _pair(entry))
        return text
    former = _former(before)

    def was_there(path: Path) -> bool:
        return former is not None and former.at(path) is not None

    for event in _events(text):
        text = _without_hooks(text, (_HOOKS, event), was_there)
    for entry in file.entries:
        if entry.path[0] != _HOOKS and not (entry.beside and _is_alone(text, entry)):
            text = remove_matching(text, entry.path, entry.ours, listed=entry.listed, was_there=was_there)
    # Keep the format version only if somebody else's hooks remain.
    left = cast("dict[str, Any]", read_json(text).value)
    for entry in file.entries:
        if left == {entry.path[0]: entry.value} and not was_there(entry.path):
            text = remove_matching(text, entry.path, lambda _: True, listed=False, was_there=was_there)
    return text


def has_entries(text: str, file: File) -> bool:
    """Return True if the text has an entry of this or an earlier Filrouge version.

    Raises:
        BadInput: it cannot be read.
    """
    return bool(entries_of_ours(text, file))


def entries_of_ours(text: str, file: File) -> list[Any]:
    """Return the entries of this or an earlier Filrouge version; each hook of a group counts separately.

    Raises:
        BadInput: it cannot be read.
    """
    if file.is_toml:
        return [found for entry in file.entries if entry.ours(found := _table_at(text, entry))]
    root, present = read_json(text), list[Any]()
    for entry in file.entries:
        found = root.at(entry.path)
        there = found.items if found is not None and entry.listed else [found.value] if found is not None else []
        present += [hook for one in there for hook in handlers(one) or [one] if entry.ours(hook)]
    return present


def is_empty(text: str, file: File) -> bool:
    """Return True if the file contains no values."""
    return not (files.read_toml(text) if file.is_toml else read_json(text).value)


def _is_alone(text: str, entry: Entry) -> bool:
    """Return True if the list names only us. Removing our name would then open the allow list to everyone."""
    found = read_json(text).at(entry.path)
    return found is None or all(entry.ours(one) for one in found.items)


def _former(before: str | None) -> Node | None:
    try:
        return read_json(before) if before is not None else None
    except BadInput:
        return None


def _events(text: str) -> list[str]:
    found = read_json(text).at((_HOOKS,))
    return found.keys if found is not None else []


def _without_hooks(text: str, path: Path, was_there: WasThere) -> str:
    """Remove our hooks; a group that also holds a foreign hook keeps that one."""
    text = remove_matching(text, path, is_hook_of_ours, listed=True, was_there=was_there)
    groups = read_json(text).at(path)
    for place, group in groups.parts.items() if groups is not None else ():
        if any(is_hook_of_ours(one) for one in handlers(group.value)):
            text = remove_matching(text, (*path, place, _HOOKS), is_hook_of_ours, listed=True, was_there=was_there)
    return text


def _with_json(text: str, entry: Entry) -> str:
    found = read_json(text).at(entry.path)
    if entry.beside and (found is None or not found.items):
        return text
    if found is None:
        return insert_entry(text, entry.path, entry.value, listed=entry.listed)
    present = [one for one in found.items if entry.ours(one)] if entry.listed else [found.value]
    if present == [entry.value] or entry.ours is never_ours:
        return text
    if entry.path[0] == _HOOKS:
        text = _without_hooks(text, entry.path, lambda _: True)
    else:
        _refuse_strangers(found.value, entry)
        text = remove_matching(text, entry.path, entry.ours, listed=entry.listed, was_there=lambda _: True)
    return insert_entry(text, entry.path, entry.value, listed=entry.listed)


def _with_table(text: str, entry: Entry) -> str:
    found = _table_at(text, entry)
    if found == entry.value:
        return text
    if found is not None:
        _refuse_strangers(found, entry)
        text = files.without_table(text, _pair(entry))
    return files.with_table(text, _pair(entry), entry.value)


def _refuse_strangers(value: Any, entry: Entry) -> None:
    if not entry.listed and not entry.ours(value):
        raise BadInput(
            f"{'.'.join(entry.path)} is there and starts something else.", remedy="Give that server another name."
        )


def _table_at(text: str, entry: Entry) -> Any:
    whole: Mapping[str, Any] = files.read_toml(text)
    upper, name = _pair(entry)
    return whole.get(upper, {}).get(name)


def _pair(entry: Entry) -> tuple[str, str]:
    upper, name = entry.path
    return upper, name


# The tables below are the only place with the files, events, units and keys of each agent. Timeouts are in seconds;
# Gemini's are in milliseconds. If two events report the same, only one is used, so that nothing is captured twice.

#: Codex allows at most 3 s for SessionEnd. Claude Code allows 1.5 s unless a timeout is set.
CLAUDE_CODE: Final[Mapping[str, int]] = {
    "SessionStart": 10,
    "UserPromptSubmit": 10,
    "PostToolBatch": 10,
    "Stop": 10,
    "SubagentStop": 10,
    "PreCompact": 10,
    "PostCompact": 10,
    "SessionEnd": 10,
}
CODEX: Final[Mapping[str, int]] = {
    "SessionStart": 10,
    "UserPromptSubmit": 10,
    "PostToolUse": 10,
    "Stop": 10,
    "SubagentStop": 10,
    "PreCompact": 10,
    "PostCompact": 10,
    "SessionEnd": 3,
}
GEMINI: Final[Mapping[str, int]] = {
    "SessionStart": 10_000,
    "BeforeAgent": 10_000,
    "AfterTool": 10_000,
    "AfterAgent": 10_000,
    "PreCompress": 10_000,
    "SessionEnd": 10_000,
}
#: Gemini announces an automatic compression before every model call, and a hook there would delay each call.
GEMINI_MATCHERS: Final[Mapping[str, str]] = {"PreCompress": "manual"}
CURSOR: Final = ("sessionStart", "beforeSubmitPrompt", "postToolUse", "afterAgentResponse", "preCompact", "sessionEnd")
_Folder = Callable[[Machine], str]
_Files = Callable[[Machine], tuple[File, ...]]


def _folder(variable: str, *usual: str) -> _Folder:
    """Return how to find an agent's folder: the one that the variable names, else the usual one in the user's home."""
    return lambda machine: machine.folder(variable, *usual)


def _server_in(folder: _Folder, name: str, *keys: str, **more: Any) -> _Files:
    """Return how to write the MCP server into the named file of the folder, below the keys."""
    return lambda machine: _one(os.path.join(folder(machine), name), (*keys, NAME), _server(machine, **more))


def _hooks_in(
    folder: _Folder, name: str, host: str, events: Mapping[str, int], matchers: Mapping[str, str] | None = None
) -> _Files:
    """Return how to write one group of hooks per event into the named file of the folder."""

    def files_on(machine: Machine) -> tuple[File, ...]:
        handler = {"type": "command", "command": _line(machine, host)}
        return _groups(os.path.join(folder(machine), name), events, handler, matchers)

    return files_on


def _none(_: Machine) -> tuple[File, ...]:
    return ()


def _one(path: str, keys: tuple[str, ...], value: Any) -> tuple[File, ...]:
    return (File(path=path, entries=(Entry(path=keys, value=value, ours=is_tool_of_ours),)),)


def _groups(
    path: str, events: Mapping[str, int], handler: Mapping[str, Any], matchers: Mapping[str, str] | None = None
) -> tuple[File, ...]:
    entries: list[Entry] = []
    for event, limit in events.items():
        matched = {"matcher": matchers[event]} if matchers and event in matchers else {}
        group = {**matched, "hooks": [{**handler, "timeout": limit}]}
        entries.append(Entry(path=(_HOOKS, event), value=group, ours=is_hook_of_ours, listed=True))
    return (File(path=path, entries=tuple(entries)),)


def _line(machine: Machine, host: str) -> str:
    return shlex.join([machine.executable, "hook", "--host", host])


def _server(machine: Machine, **more: Any) -> dict[str, Any]:
    """Return the command that starts the MCP server."""
    return {**more, "command": machine.executable, "args": ["mcp"], **_home(machine, "env")}


def _home(machine: Machine, key: str) -> dict[str, Any]:
    """Return `FILROUGE_HOME` for a server's environment, since hosts pass few variables on; empty if it is not set."""
    home = machine.environ.get("FILROUGE_HOME", "").strip()
    return {key: {"FILROUGE_HOME": os.path.abspath(os.path.expanduser(home))}} if home else {}


_CLAUDE: Final = _folder(*claude_code.FOLDER)
_CODEX: Final = _folder(*codex.FOLDER)
_GEMINI: Final = _folder("", ".gemini")
_CURSOR: Final = _folder("", ".cursor")
_OPENCLAW: Final = _folder("OPENCLAW_STATE_DIR", ".openclaw")


def _vscode(machine: Machine) -> str:
    if sys.platform == "darwin":
        return machine.folder("", "Library", "Application Support", "Code", "User")
    return os.path.join(machine.folder("XDG_CONFIG_HOME", ".config"), "Code", "User")


def _opencode(machine: Machine) -> str:
    return os.path.join(machine.folder("XDG_CONFIG_HOME", ".config"), "opencode")


def _claude_hooks(machine: Machine) -> tuple[File, ...]:
    handler = {"type": "command", "command": machine.executable, "args": ["hook", "--host", "claude-code"]}
    return _groups(os.path.join(_CLAUDE(machine), "settings.json"), CLAUDE_CODE, handler)


def _claude_tools(machine: Machine) -> tuple[File, ...]:
    moved = machine.environ.get(claude_code.FOLDER[0], "").strip()
    path = os.path.join(_CLAUDE(machine), ".claude.json") if moved else machine.folder("", ".claude.json")
    return _one(path, ("mcpServers", NAME), _server(machine, type="stdio"))


def _cursor_hooks(machine: Machine) -> tuple[File, ...]:
    handler = {"command": _line(machine, "cursor")}
    entries = (Entry(path=(_HOOKS, event), value=handler, ours=is_hook_of_ours, listed=True) for event in CURSOR)
    version = Entry(path=("version",), value=1, ours=never_ours)
    return (File(path=os.path.join(_CURSOR(machine), "hooks.json"), entries=(version, *entries)),)


def _opencode_hooks(machine: Machine) -> tuple[File, ...]:
    # OpenCode also starts from the desktop, where the PATH has no user-installed programs.
    plugin = [os.path.join(plugins.directory("opencode"), "filrouge.js"), {"executable": machine.executable}]
    entry = Entry(path=("plugin",), value=plugin, ours=is_plugin_of_ours, listed=True)
    return (File(path=os.path.join(_opencode(machine), "opencode.json"), entries=(entry,)),)


def _opencode_tools(machine: Machine) -> tuple[File, ...]:
    command = [machine.executable, "mcp"]
    value = {"type": "local", "command": command, "enabled": True, **_home(machine, "environment")}
    return _one(os.path.join(_opencode(machine), "opencode.json"), ("mcp", NAME), value)


def _openclaw_hooks(machine: Machine) -> tuple[File, ...]:
    # Its gateway often runs as a service, where the PATH has no user-installed programs.
    plugin = plugins.directory("openclaw")
    allowed = {
        "enabled": True,
        "hooks": {"allowConversationAccess": True},
        "config": {"executable": machine.executable},
    }
    entries = (
        Entry(path=("plugins", "load", "paths"), value=plugin, ours=is_plugin_of_ours, listed=True),
        Entry(path=("plugins", "entries", NAME), value=allowed, ours=always_ours),
        Entry(path=("plugins", "allow"), value=NAME, ours=is_named_like_us, listed=True, beside=True),
    )
    return (File(path=os.path.join(_OPENCLAW(machine), "openclaw.json"), entries=entries),)


AGENTS: Final[Mapping[str, Agent]] = {
    agent.name: agent
    for agent in (
        Agent(
            name="claude-code",
            title="Claude Code",
            folder=_CLAUDE,
            programs=("claude",),
            hooks=_claude_hooks,
            tools=_claude_tools,
            then="Open sessions have no memory; new ones do.",
        ),
        Agent(
            name="codex",
            title="Codex",
            folder=_CODEX,
            programs=("codex",),
            hooks=_hooks_in(_CODEX, "hooks.json", "codex", CODEX),
            tools=_server_in(_CODEX, "config.toml", "mcp_servers"),
            then="Codex runs no hook that you have not approved: open Codex, type /hooks and trust those of Filrouge."
            " Until then it says nothing and remembers nothing. `filrouge doctor` tells whether they are trusted.",
        ),
        Agent(
            name="gemini",
            title="Gemini CLI",
            folder=_GEMINI,
            programs=("gemini",),
            hooks=_hooks_in(_GEMINI, "settings.json", "gemini", GEMINI, GEMINI_MATCHERS),
            tools=_server_in(_GEMINI, "settings.json", "mcpServers"),
        ),
        Agent(
            name="cursor",
            title="Cursor",
            folder=_CURSOR,
            programs=("cursor", "cursor-agent"),
            hooks=_cursor_hooks,
            tools=_server_in(_CURSOR, "mcp.json", "mcpServers"),
            then="Cursor gets memories only at the start of a session; later its agent can use the tools.",
        ),
        Agent(
            name="vscode",
            title="VS Code",
            folder=_vscode,
            programs=("code",),
            hooks=_none,
            tools=_server_in(_vscode, "mcp.json", "servers", type="stdio"),
            then="VS Code runs the hooks of Claude Code's settings too; without Claude Code it has the tools only.",
        ),
        Agent(
            name="opencode",
            title="OpenCode",
            folder=_opencode,
            programs=("opencode",),
            hooks=_opencode_hooks,
            tools=_opencode_tools,
        ),
        Agent(
            name="openclaw",
            title="OpenClaw",
            folder=_OPENCLAW,
            programs=("openclaw",),
            hooks=_openclaw_hooks,
            tools=_server_in(_OPENCLAW, "openclaw.json", "mcp", "servers"),
            then="OpenClaw gives a plugin what is said only with your leave (--allow-conversations); without it"
            " there are the tools alone. Start its gateway again.",
            reads_all=True,
        ),
    )
}


# Filrouge plugins that the user installed. If a plugin and hooks in the settings both ran, every prompt would get two
# blocks of context, so hooks are not written next to a plugin.


class Plugin(NamedTuple):
    """A Filrouge plugin in an agent.

    Attributes:
        place: the file that enables it, or the plugin's own file.
        remove: how the user removes it.
        brings_tools: it registers the MCP tools as well.
    """

    place: str
    remove: str
    brings_tools: bool = True


_FOLDERS: Final = ("plugin", "plugins")


def plugged(name: str, machine: Machine) -> Plugin | None:
    """Return the Filrouge plugin enabled in the agent's user settings; None if there is none or they are unreadable."""
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
    """Return the plugins of those agents that have one."""
    return {name: found for name in names if (found := plugged(name, machine)) is not None}


def claude_plugin(place: str, enabled: Any) -> Plugin | None:
    """Return the plugin that `enabledPlugins` in Claude Code's settings enables, or None."""
    on = [one for one, state in as_table(enabled).items() if _is_ours(one) and state is True]
    return Plugin(place, f"`claude plugin uninstall {on[0]}`") if on else None


def codex_plugin(place: str, table: Any) -> Plugin | None:
    """Return the plugin in `[plugins]` of Codex's settings, or None; a listed plugin is on unless it is disabled."""
    on = [
        one
        for one, about in as_table(table).items()
        if _is_ours(one) and as_table(about).get("enabled", True) is not False
    ]
    return Plugin(place, f"`codex plugin remove {on[0]}`") if on else None


def _is_ours(one: str) -> bool:
    return one.partition("@")[0] == NAME


def _json(path: str) -> Mapping[str, Any]:
    try:
        return as_table(files.read_json(files.text_of(files.read_bytes(path), path)).value)
    except BadInput:  # planning a change to the file reports the error
        return {}


def _toml(path: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(files.text_of(files.read_bytes(path), path))
    except (BadInput, tomllib.TOMLDecodeError):
        return {}


def as_table(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, otherwise an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
