"""The agents, the entries that Filrouge writes into their settings, and recognising its own entries.

Entries are recognised by the command they run, whoever wrote them and wherever the program was installed.
"""

from __future__ import annotations

import os
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

from msgspec import Struct

from filrouge.core.errors import BadInput
from filrouge.hosts import claude_code, codex, plugins
from filrouge.hosts.setup import files
from filrouge.hosts.setup.files import (
    NAME,
    ExistedBefore,
    Machine,
    Node,
    Path,
    insert_entry,
    read_json,
    remove_matching,
)


def is_filrouge_hook(entry: Any) -> bool:
    """Return True for a hook, or a group of hooks, that runs `filrouge hook` and nothing else."""
    hooks = handlers(entry)
    return all(is_filrouge_hook(hook) for hook in hooks) if hooks else "hook" in _filrouge_arguments(entry)


def is_filrouge_server(entry: Any) -> bool:
    """Return True for an MCP server that runs `filrouge mcp`."""
    return "mcp" in _filrouge_arguments(entry)


def is_filrouge_plugin(entry: Any) -> bool:
    """Return True for the path of a plugin that comes with Filrouge, with or without options."""
    path = plugin_path(entry)
    return "/filrouge/hosts/plugins/" in path.replace("\\", "/")


def plugin_path(entry: Any) -> str:
    """Return the path in a plugin entry; empty for any other entry."""
    first: Any = _path_and_options(entry)[0]
    return first if isinstance(first, str) else ""


def program(entry: Any) -> str:
    """Return the program that an entry of ours runs; empty if it names none."""
    if words := _command_words(entry):
        return next(filter(_is_filrouge_program, words), "")
    options: Any = _path_and_options(entry)[-1]
    if isinstance(options, dict):
        options = cast("dict[str, Any]", options).get("config", options)
    executable = cast("dict[str, Any]", options).get("executable") if isinstance(options, dict) else ""
    return executable if isinstance(executable, str) else ""


def _path_and_options(entry: Any) -> list[Any]:
    """Return a plugin's path and its options; an entry that is not a list is the only part."""
    return cast("list[Any]", entry) if isinstance(entry, list) and entry else [entry]


def is_filrouge_name(entry: Any) -> bool:
    """Return True for Filrouge's name in a list of names."""
    return entry == NAME


def always_ours(_: Any) -> bool:
    """Return True: every value under Filrouge's own key is ours."""
    return True


def never_ours(_: Any) -> bool:
    """Return False: a value that others share, such as a file's format version, is never ours."""
    return False


def handlers(entry: Any) -> list[Any]:
    """Return the hooks of a group; empty for a single hook."""
    hooks = cast("dict[str, Any]", entry).get("hooks") if isinstance(entry, dict) else None
    return cast("list[Any]", hooks) if isinstance(hooks, list) else []


def _filrouge_arguments(entry: Any) -> list[str]:
    """Return the arguments of `filrouge` in an entry's command; empty if it runs something else."""
    words = _command_words(entry)
    positions = [position for position, word in enumerate(words) if _is_filrouge_program(word)]
    return words[positions[0] + 1 :] if positions else []


def _command_words(entry: Any) -> list[str]:
    """Return the words of an entry's command; empty if it has none."""
    if not isinstance(entry, dict):
        return []
    fields = cast("dict[str, Any]", entry)
    command, arguments = fields.get("command", ""), fields.get("args", ())
    words = (
        _split_command(command, is_path=bool(arguments))
        if isinstance(command, str)
        else [str(one) for one in command or ()]
    )
    words += [str(one) for one in arguments] if isinstance(arguments, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return words


def _split_command(command: str, *, is_path: bool) -> list[str]:
    """Split a shell command into words; with separate arguments the command is a program's path and stays whole."""
    if is_path:
        return [command]
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _is_filrouge_program(word: str) -> bool:
    return os.path.basename(word.replace("\\", "/")).lower() in (NAME, f"{NAME}.exe", f"{NAME}.sh")


# Agents, their settings files and the entries in them.


class Entry(Struct, frozen=True, kw_only=True):
    """One value in one file.

    Attributes:
        path: the keys that lead to it.
        value: the value to write.
        is_ours: returns True for a value that Filrouge wrote, also in an earlier version.
        in_list: the value is one element of the list at `path`.
        only_if_filled: add the value only to a list that already has elements. A non-empty allow list excludes every
            plugin that it does not name.
    """

    path: tuple[str, ...]
    value: Any
    is_ours: Callable[[Any], bool]
    in_list: bool = False
    only_if_filled: bool = False


class File(Struct, frozen=True, kw_only=True):
    """A settings file with the entries to write."""

    path: str
    entries: tuple[Entry, ...]

    @property
    def is_toml(self) -> bool:
        """Return True for a TOML file; every other settings file is JSON."""
        return self.path.endswith(".toml")


class Agent(Struct, frozen=True, kw_only=True):
    """An agent that can be connected.

    Attributes:
        name: its name in commands.
        title: its display name.
        folder: the folder of its settings.
        programs: its commands.
        hooks: the files for hooks, which capture events and inject context.
        tools: the files for MCP servers.
        note: what the user still has to do or know.
        reads_all: its hooks need a permission to read every conversation; the user is asked for it separately.
    """

    name: str
    title: str
    folder: Callable[[Machine], str]
    programs: tuple[str, ...]
    hooks: Callable[[Machine], tuple[File, ...]]
    tools: Callable[[Machine], tuple[File, ...]]
    note: str = ""
    reads_all: bool = False

    def is_installed(self, machine: Machine) -> bool:
        """Return True if the agent's folder or one of its commands is on this machine."""
        return os.path.isdir(self.folder(machine)) or any(machine.program(name) for name in self.programs)


# Adding Filrouge's entries to the text of a settings file, and removing them.

_HOOKS = "hooks"


def add_entries(text: str, file: File) -> str:
    """Return the text with all entries; entries of an earlier Filrouge version are replaced.

    Raises:
        BadInput: the file cannot be read, or the user has another value under our key.
    """
    for entry in file.entries:
        text = _add_toml_entry(text, entry) if file.is_toml else _add_json_entry(text, entry)
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
            if entry.is_ours(_read_table(text, entry)):
                text = files.remove_table(text, _table_and_name(entry))
        return text
    root_before = _parse_or_none(before)

    def existed_before(path: Path) -> bool:
        return root_before is not None and root_before.find(path) is not None

    for event in _hook_events(text):
        text = _remove_hooks(text, (_HOOKS, event), existed_before)
    for entry in file.entries:
        if entry.path[0] != _HOOKS and not (entry.only_if_filled and _is_only_name(text, entry)):
            text = remove_matching(
                text, entry.path, entry.is_ours, in_list=entry.in_list, existed_before=existed_before
            )
    # Keep the format version only if somebody else's hooks remain.
    remaining = cast("dict[str, Any]", read_json(text).value)
    for entry in file.entries:
        if remaining == {entry.path[0]: entry.value} and not existed_before(entry.path):
            text = remove_matching(text, entry.path, lambda _: True, in_list=False, existed_before=existed_before)
    return text


def find_filrouge_entries(text: str, file: File) -> list[Any]:
    """Return the entries of this or an earlier Filrouge version; each hook of a group counts separately.

    Raises:
        BadInput: it cannot be read.
    """
    if file.is_toml:
        return [found for entry in file.entries if entry.is_ours(found := _read_table(text, entry))]
    root, entries = read_json(text), list[Any]()
    for entry in file.entries:
        found = root.find(entry.path)
        values = found.items if found is not None and entry.in_list else [found.value] if found is not None else []
        entries += [hook for one in values for hook in handlers(one) or [one] if entry.is_ours(hook)]
    return entries


def is_empty(text: str, file: File) -> bool:
    """Return True if the file contains no values."""
    return not (files.read_toml(text) if file.is_toml else read_json(text).value)


def _is_only_name(text: str, entry: Entry) -> bool:
    """Return True if the list names only us. Removing our name would then open the allow list to everyone."""
    found = read_json(text).find(entry.path)
    return found is None or all(entry.is_ours(one) for one in found.items)


def _parse_or_none(before: str | None) -> Node | None:
    try:
        return read_json(before) if before is not None else None
    except BadInput:
        return None


def _hook_events(text: str) -> list[str]:
    node = read_json(text).find((_HOOKS,))
    return node.keys if node is not None else []


def _remove_hooks(text: str, path: Path, existed_before: ExistedBefore) -> str:
    """Remove our hooks; a group that also holds a foreign hook keeps that one."""
    text = remove_matching(text, path, is_filrouge_hook, in_list=True, existed_before=existed_before)
    groups = read_json(text).find(path)
    for index, group in groups.parts.items() if groups is not None else ():
        if any(is_filrouge_hook(one) for one in handlers(group.value)):
            text = remove_matching(
                text, (*path, index, _HOOKS), is_filrouge_hook, in_list=True, existed_before=existed_before
            )
    return text


def _add_json_entry(text: str, entry: Entry) -> str:
    node = read_json(text).find(entry.path)
    if entry.only_if_filled and (node is None or not node.items):
        return text
    if node is None:
        return insert_entry(text, entry.path, entry.value, in_list=entry.in_list)
    present = [one for one in node.items if entry.is_ours(one)] if entry.in_list else [node.value]
    if present == [entry.value] or entry.is_ours is never_ours:
        return text
    if entry.path[0] == _HOOKS:
        text = _remove_hooks(text, entry.path, lambda _: True)
    else:
        _refuse_foreign_value(node.value, entry)
        text = remove_matching(text, entry.path, entry.is_ours, in_list=entry.in_list, existed_before=lambda _: True)
    return insert_entry(text, entry.path, entry.value, in_list=entry.in_list)


def _add_toml_entry(text: str, entry: Entry) -> str:
    found = _read_table(text, entry)
    if found == entry.value:
        return text
    if found is not None:
        _refuse_foreign_value(found, entry)
        text = files.remove_table(text, _table_and_name(entry))
    return files.add_table(text, _table_and_name(entry), entry.value)


def _refuse_foreign_value(value: Any, entry: Entry) -> None:
    if not entry.in_list and not entry.is_ours(value):
        raise BadInput(
            f"{'.'.join(entry.path)} exists and starts another program.", remedy="Give that server another name."
        )


def _read_table(text: str, entry: Entry) -> Any:
    document: Mapping[str, Any] = files.read_toml(text)
    table, name = _table_and_name(entry)
    return document.get(table, {}).get(name)


def _table_and_name(entry: Entry) -> tuple[str, str]:
    table, name = entry.path
    return table, name


# The tables below are the only place with the files, events, units and keys of each agent. Timeouts are in seconds;
# Gemini's are in milliseconds. If two events report the same, only one is used, so that nothing is captured twice.

#: Codex allows at most 3 s for SessionEnd. Claude Code allows 1.5 s unless a timeout is set.
CLAUDE_CODE_TIMEOUTS: Final[Mapping[str, int]] = {
    "SessionStart": 10,
    "UserPromptSubmit": 10,
    "PostToolBatch": 10,
    "Stop": 10,
    "SubagentStop": 10,
    "PreCompact": 10,
    "PostCompact": 10,
    "SessionEnd": 10,
}
CODEX_TIMEOUTS: Final[Mapping[str, int]] = {
    "SessionStart": 10,
    "UserPromptSubmit": 10,
    "PostToolUse": 10,
    "Stop": 10,
    "SubagentStop": 10,
    "PreCompact": 10,
    "PostCompact": 10,
    "SessionEnd": 3,
}
GEMINI_TIMEOUTS: Final[Mapping[str, int]] = {
    "SessionStart": 10_000,
    "BeforeAgent": 10_000,
    "AfterTool": 10_000,
    "AfterAgent": 10_000,
    "PreCompress": 10_000,
    "SessionEnd": 10_000,
}
#: Gemini announces an automatic compression before every model call, and a hook there would delay each call.
GEMINI_MATCHERS: Final[Mapping[str, str]] = {"PreCompress": "manual"}
CURSOR_EVENTS: Final = (
    "sessionStart",
    "beforeSubmitPrompt",
    "postToolUse",
    "afterAgentResponse",
    "preCompact",
    "sessionEnd",
)
_FolderFinder = Callable[[Machine], str]
_FileFinder = Callable[[Machine], tuple[File, ...]]


def _settings_folder(variable: str, *default: str) -> _FolderFinder:
    """Return how to find an agent's folder: the one that the variable names, else the usual one in the user's home."""
    return lambda machine: machine.folder(variable, *default)


def _server_in(folder: _FolderFinder, name: str, *keys: str, **extra: Any) -> _FileFinder:
    """Return how to write the MCP server into the named file of the folder, below the keys."""
    return lambda machine: _server_file(
        os.path.join(folder(machine), name), (*keys, NAME), _server_command(machine, **extra)
    )


def _hooks_in(
    folder: _FolderFinder, name: str, host: str, events: Mapping[str, int], matchers: Mapping[str, str] | None = None
) -> _FileFinder:
    """Return how to write one group of hooks per event into the named file of the folder."""

    def files_on(machine: Machine) -> tuple[File, ...]:
        handler = {"type": "command", "command": _hook_command(machine, host)}
        return _hook_groups(os.path.join(folder(machine), name), events, handler, matchers)

    return files_on


def _no_files(_: Machine) -> tuple[File, ...]:
    return ()


def _server_file(path: str, keys: tuple[str, ...], value: Any) -> tuple[File, ...]:
    return (File(path=path, entries=(Entry(path=keys, value=value, is_ours=is_filrouge_server),)),)


def _hook_groups(
    path: str, events: Mapping[str, int], handler: Mapping[str, Any], matchers: Mapping[str, str] | None = None
) -> tuple[File, ...]:
    entries: list[Entry] = []
    for event, timeout in events.items():
        matcher = {"matcher": matchers[event]} if matchers and event in matchers else {}
        group = {**matcher, "hooks": [{**handler, "timeout": timeout}]}
        entries.append(Entry(path=(_HOOKS, event), value=group, is_ours=is_filrouge_hook, in_list=True))
    return (File(path=path, entries=tuple(entries)),)


def _hook_command(machine: Machine, host: str) -> str:
    return shlex.join([machine.executable, "hook", "--host", host])


def _server_command(machine: Machine, **extra: Any) -> dict[str, Any]:
    """Return the command that starts the MCP server."""
    return {**extra, "command": machine.executable, "args": ["mcp"], **_home_variable(machine, "env")}


def _home_variable(machine: Machine, key: str) -> dict[str, Any]:
    """Return `FILROUGE_HOME` for a server's environment, since hosts pass few variables on; empty if it is not set."""
    home = machine.environ.get("FILROUGE_HOME", "").strip()
    return {key: {"FILROUGE_HOME": os.path.abspath(os.path.expanduser(home))}} if home else {}


_CLAUDE_FOLDER: Final = _settings_folder(*claude_code.FOLDER)
_CODEX_FOLDER: Final = _settings_folder(*codex.FOLDER)
_GEMINI_FOLDER: Final = _settings_folder("", ".gemini")
_CURSOR_FOLDER: Final = _settings_folder("", ".cursor")
_OPENCLAW_FOLDER: Final = _settings_folder("OPENCLAW_STATE_DIR", ".openclaw")


def _vscode_folder(machine: Machine) -> str:
    if sys.platform == "darwin":
        return machine.folder("", "Library", "Application Support", "Code", "User")
    return os.path.join(machine.folder("XDG_CONFIG_HOME", ".config"), "Code", "User")


def _opencode_folder(machine: Machine) -> str:
    return os.path.join(machine.folder("XDG_CONFIG_HOME", ".config"), "opencode")


def _claude_hooks(machine: Machine) -> tuple[File, ...]:
    handler = {"type": "command", "command": machine.executable, "args": ["hook", "--host", "claude-code"]}
    return _hook_groups(os.path.join(_CLAUDE_FOLDER(machine), "settings.json"), CLAUDE_CODE_TIMEOUTS, handler)


def _claude_tools(machine: Machine) -> tuple[File, ...]:
    config_dir = machine.environ.get(claude_code.FOLDER[0], "").strip()
    path = os.path.join(_CLAUDE_FOLDER(machine), ".claude.json") if config_dir else machine.folder("", ".claude.json")
    return _server_file(path, ("mcpServers", NAME), _server_command(machine, type="stdio"))


def _cursor_hooks(machine: Machine) -> tuple[File, ...]:
    handler = {"command": _hook_command(machine, "cursor")}
    entries = (
        Entry(path=(_HOOKS, event), value=handler, is_ours=is_filrouge_hook, in_list=True) for event in CURSOR_EVENTS
    )
    version = Entry(path=("version",), value=1, is_ours=never_ours)
    return (File(path=os.path.join(_CURSOR_FOLDER(machine), "hooks.json"), entries=(version, *entries)),)


def _opencode_hooks(machine: Machine) -> tuple[File, ...]:
    # OpenCode also starts from the desktop, where the PATH has no user-installed programs.
    plugin = [os.path.join(plugins.directory("opencode"), "filrouge.js"), {"executable": machine.executable}]
    entry = Entry(path=("plugin",), value=plugin, is_ours=is_filrouge_plugin, in_list=True)
    return (File(path=os.path.join(_opencode_folder(machine), "opencode.json"), entries=(entry,)),)


def _opencode_tools(machine: Machine) -> tuple[File, ...]:
    command = [machine.executable, "mcp"]
    value = {"type": "local", "command": command, "enabled": True, **_home_variable(machine, "environment")}
    return _server_file(os.path.join(_opencode_folder(machine), "opencode.json"), ("mcp", NAME), value)


def _openclaw_hooks(machine: Machine) -> tuple[File, ...]:
    # Its gateway often runs as a service, where the PATH has no user-installed programs.
    plugin = plugins.directory("openclaw")
    settings = {
        "enabled": True,
        "hooks": {"allowConversationAccess": True},
        "config": {"executable": machine.executable},
    }
    entries = (
        Entry(path=("plugins", "load", "paths"), value=plugin, is_ours=is_filrouge_plugin, in_list=True),
        Entry(path=("plugins", "entries", NAME), value=settings, is_ours=always_ours),
        Entry(path=("plugins", "allow"), value=NAME, is_ours=is_filrouge_name, in_list=True, only_if_filled=True),
    )
    return (File(path=os.path.join(_OPENCLAW_FOLDER(machine), "openclaw.json"), entries=entries),)


AGENTS: Final[Mapping[str, Agent]] = {
    agent.name: agent
    for agent in (
        Agent(
            name="claude-code",
            title="Claude Code",
            folder=_CLAUDE_FOLDER,
            programs=("claude",),
            hooks=_claude_hooks,
            tools=_claude_tools,
            note="Open sessions have no memory; new ones do.",
        ),
        Agent(
            name="codex",
            title="Codex",
            folder=_CODEX_FOLDER,
            programs=("codex",),
            hooks=_hooks_in(_CODEX_FOLDER, "hooks.json", "codex", CODEX_TIMEOUTS),
            tools=_server_in(_CODEX_FOLDER, "config.toml", "mcp_servers"),
            note="Codex runs no hook that you have not approved: open Codex, type /hooks and trust those of Filrouge."
            " Until then it says nothing and remembers nothing. `filrouge doctor` tells whether they are trusted.",
        ),
        Agent(
            name="gemini",
            title="Gemini CLI",
            folder=_GEMINI_FOLDER,
            programs=("gemini",),
            hooks=_hooks_in(_GEMINI_FOLDER, "settings.json", "gemini", GEMINI_TIMEOUTS, GEMINI_MATCHERS),
            tools=_server_in(_GEMINI_FOLDER, "settings.json", "mcpServers"),
        ),
        Agent(
            name="cursor",
            title="Cursor",
            folder=_CURSOR_FOLDER,
            programs=("cursor", "cursor-agent"),
            hooks=_cursor_hooks,
            tools=_server_in(_CURSOR_FOLDER, "mcp.json", "mcpServers"),
            note="Cursor gets memories only at the start of a session; later its agent can use the tools.",
        ),
        Agent(
            name="vscode",
            title="VS Code",
            folder=_vscode_folder,
            programs=("code",),
            hooks=_no_files,
            tools=_server_in(_vscode_folder, "mcp.json", "servers", type="stdio"),
            note="VS Code runs the hooks of Claude Code's settings too; without Claude Code it has the tools only.",
        ),
        Agent(
            name="opencode",
            title="OpenCode",
            folder=_opencode_folder,
            programs=("opencode",),
            hooks=_opencode_hooks,
            tools=_opencode_tools,
        ),
        Agent(
            name="openclaw",
            title="OpenClaw",
            folder=_OPENCLAW_FOLDER,
            programs=("openclaw",),
            hooks=_openclaw_hooks,
            tools=_server_in(_OPENCLAW_FOLDER, "openclaw.json", "mcp", "servers"),
            note="OpenClaw gives a plugin what is said only with your leave (--allow-conversations); without it"
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
        path: the file that enables it, or the plugin's own file.
        remove: how the user removes it.
        brings_tools: it registers the MCP tools as well.
    """

    path: str
    remove: str
    brings_tools: bool = True


_PLUGIN_FOLDERS: Final = ("plugin", "plugins")


def find_plugin(name: str, machine: Machine) -> Plugin | None:
    """Return the Filrouge plugin enabled in the agent's user settings; None if there is none or they are unreadable."""
    folder = AGENTS[name].folder(machine)
    if name == "claude-code":
        path = os.path.join(folder, "settings.json")
        return claude_plugin(path, _read_json_table(path).get("enabledPlugins"))
    if name == "codex":
        path = os.path.join(folder, "config.toml")
        return codex_plugin(path, _read_toml_table(path).get("plugins"))
    if name == "opencode":
        paths = (os.path.join(folder, name_of_folder, f"{NAME}.js") for name_of_folder in _PLUGIN_FOLDERS)
        existing = next((path for path in paths if os.path.isfile(path)), "")
        return Plugin(existing, f"remove {existing}", brings_tools=False) if existing else None
    return None


def find_plugins(names: Iterable[str], machine: Machine) -> dict[str, Plugin]:
    """Return the plugins of those agents that have one."""
    return {name: found for name in names if (found := find_plugin(name, machine)) is not None}


def claude_plugin(path: str, enabled: Any) -> Plugin | None:
    """Return the plugin that `enabledPlugins` in Claude Code's settings enables, or None."""
    enabled_names = [
        plugin_name for plugin_name, state in as_table(enabled).items() if _is_filrouge(plugin_name) and state is True
    ]
    return Plugin(path, f"`claude plugin uninstall {enabled_names[0]}`") if enabled_names else None


def codex_plugin(path: str, table: Any) -> Plugin | None:
    """Return the plugin in `[plugins]` of Codex's settings, or None; a listed plugin is on unless it is disabled."""
    enabled_names = [
        plugin_name
        for plugin_name, settings in as_table(table).items()
        if _is_filrouge(plugin_name) and as_table(settings).get("enabled", True) is not False
    ]
    return Plugin(path, f"`codex plugin remove {enabled_names[0]}`") if enabled_names else None


def _is_filrouge(plugin_name: str) -> bool:
    return plugin_name.partition("@")[0] == NAME


def _read_json_table(path: str) -> Mapping[str, Any]:
    try:
        return as_table(files.read_json(files.decode_text(files.read_bytes(path), path)).value)
    except BadInput:  # planning a change to the file reports the error
        return {}


def _read_toml_table(path: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(files.decode_text(files.read_bytes(path), path))
    except (BadInput, tomllib.TOMLDecodeError):
        return {}


def as_table(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, otherwise an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
