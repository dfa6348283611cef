"""What Claude Code and Codex have of ours in their configuration: which hooks, in which file.

An entry is ours that runs `filrouge hook`. Files of the user and of the directory that the
command runs in are read, and nothing is written.
"""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from filrouge.cli.commands.doctoring.scene import Scene
from filrouge.hosts.setup.ours import is_hook_of_ours
from filrouge.hosts.setup.plugged import Plugin, claude_plugin, codex_plugin

#: Codex names events so in the keys under which it keeps what the user trusts.
_STATE: Final = "state"


@dataclass(frozen=True, kw_only=True, slots=True)
class Hook:
    """A hook of ours, and where it stands.

    Attributes:
        handler: all that is said of it.
        matcher: what its group narrows it to.
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
        """The program that it runs; empty where the command cannot be taken apart."""
        try:
            words = shlex.split(self.command)
        except ValueError:
            return ""
        while words and (words[0] == "env" or _is_assignment(words[0])):
            words = words[1:]
        return words[0] if words else ""

    @property
    def trust_keys(self) -> tuple[str, ...]:
        """What Codex may call it in `[hooks.state]`."""
        place = f"{self.group}:{self.index}"
        names = (snake(self.event), self.event)
        files = dict.fromkeys((self.file, os.path.realpath(self.file)))
        return tuple(f"{file}:{name}:{place}" for file in files for name in names)


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file of configuration.

    Attributes:
        trouble: why it cannot be read; empty where it can.
    """

    path: str
    content: Mapping[str, Any]
    trouble: str = ""

    @property
    def hooks(self) -> list[Hook]:
        """Those of ours in it."""
        return list(_ours(self.path, table(self.content.get("hooks"))))


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent:
    """An agent as it is set up here.

    Attributes:
        host: what it is called in commands of Filrouge.
        program: the name of its command line.
        checked_with: the version that Filrouge was checked with.
        needed: events without which there is no memory.
        folder: its configuration of this user.
        plugin: ours, where it is installed and on.
    """

    name: str
    host: str
    program: str
    checked_with: tuple[int, ...]
    needed: tuple[str, ...]
    folder: str
    files: tuple[File, ...]
    plugin: Plugin | None = None

    @property
    def hooks(self) -> list[Hook]:
        """Those of ours, in whichever file."""
        return [hook for file in self.files for hook in file.hooks]

    def values(self, *names: str) -> list[tuple[str, Any]]:
        """The files that set a value, with it; names lead from table to table."""
        found: list[tuple[str, Any]] = []
        for file in self.files:
            value: Any = file.content
            for name in names:
                value = table(value).get(name)
            found += [(file.path, value)] if value is not None else []
        return found


def claude(scene: Scene) -> Agent:
    """Claude Code."""
    folder = scene.environ.get("CLAUDE_CONFIG_DIR", "").strip() or os.path.join(scene.user_home, ".claude")
    paths = [f"{folder}/settings.json", *(f"{scene.cwd}/.claude/settings{local}.json" for local in ("", ".local"))]
    files = read_files(paths)
    plugins = (claude_plugin(file.path, file.content.get("enabledPlugins")) for file in files)
    return Agent(
        name="Claude Code",
        host="claude-code",
        program="claude",
        checked_with=(2, 1, 330),
        needed=("SessionStart", "UserPromptSubmit", "Stop"),
        folder=folder,
        files=files,
        plugin=next(filter(None, plugins), None),
    )


def codex(scene: Scene) -> Agent:
    """Codex."""
    folder = scene.environ.get("CODEX_HOME", "").strip() or os.path.join(scene.user_home, ".codex")
    folders = (folder, os.path.join(scene.cwd, ".codex"))
    paths = [os.path.join(one, name) for one in folders for name in ("hooks.json", "config.toml")]
    files = read_files(paths)
    plugins = (codex_plugin(file.path, file.content.get("plugins")) for file in files)
    return Agent(
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
    """The files in which `filrouge mcp` is set up as a server."""
    folder = scene.environ.get("CLAUDE_CONFIG_DIR", "").strip() or scene.user_home
    paths = [os.path.join(folder, ".claude.json"), os.path.join(scene.cwd, ".mcp.json")]
    found = [(file.path, file.content.get("mcpServers")) for file in read_files(paths)]
    found += codex(scene).values("mcp_servers")
    return [path for path, servers in found if any(map(_is_our_server, table(servers).values()))]


def _is_our_server(server: Any) -> bool:
    about = table(server)
    words = [str(about.get("command", "")), *map(str, _list(about.get("args")))]
    return "filrouge" in " ".join(words) and "mcp" in words


def read_files(paths: list[str]) -> tuple[File, ...]:
    """The files that are there, each once."""
    there = {os.path.realpath(path): path for path in reversed(paths) if os.path.isfile(path)}
    return tuple(_parsed(path) for path in paths if path in there.values())


def _parsed(path: str) -> File:
    parse: Callable[[str], Any] = tomllib.loads if path.endswith(".toml") else json.loads
    try:
        with open(path, encoding="utf-8") as file:
            return File(path=path, content=table(parse(file.read())))
    except (ValueError, RecursionError):
        kind = "TOML" if path.endswith(".toml") else "JSON"
        return File(path=path, content={}, trouble=f"{path} is no {kind}")


def _line(handler: Mapping[str, Any]) -> str:
    """What a hook runs, as one line; with arguments of its own its command is the path of a program."""
    command, words = str(handler.get("command", "")), [str(word) for word in _list(handler.get("args"))]
    return shlex.join([command, *words]) if words else command


def _ours(path: str, events: Mapping[str, Any]) -> Iterator[Hook]:
    for event, groups in events.items():
        if event == _STATE:
            continue
        for number, group in enumerate(_list(groups)):
            for index, handler in enumerate(_list(table(group).get("hooks"))):
                if is_hook_of_ours(handler):
                    matcher = table(group).get("matcher")
                    yield Hook(
                        event=event,
                        command=_line(table(handler)),
                        file=path,
                        group=number,
                        index=index,
                        handler=table(handler),
                        matcher=matcher if isinstance(matcher, str) else None,
                    )


def table(value: Any) -> Mapping[str, Any]:
    """A table, or an empty one where something else stands."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def snake(name: str) -> str:
    """An event as Codex names it in its keys."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
