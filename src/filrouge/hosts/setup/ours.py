"""Which entries of a settings file are Filrouge's, whoever wrote them and wherever the program lay then."""

from __future__ import annotations

import os
import shlex
from typing import Any, cast

from filrouge.hosts.setup.machine import NAME


def is_hook_of_ours(entry: Any) -> bool:
    """True for a hook, or a group of hooks, that runs `filrouge hook` and nothing else."""
    inner = handlers(entry)
    return all(is_hook_of_ours(one) for one in inner) if inner else "hook" in _words(entry)


def is_tool_of_ours(entry: Any) -> bool:
    """True for a server of tools that is `filrouge mcp`."""
    return "mcp" in _words(entry)


def is_plugin_of_ours(entry: Any) -> bool:
    """True for the path of a plugin that comes with Filrouge, with options behind it or alone."""
    path = plugin_path(entry)
    return "/filrouge/hosts/plugins/" in path.replace("\\", "/")


def plugin_path(entry: Any) -> str:
    """The path in an entry for a plugin; empty where it is no such entry."""
    first: Any = _parts(entry)[0]
    return first if isinstance(first, str) else ""


def program(entry: Any) -> str:
    """The program that an entry of ours runs; empty where it names none."""
    if words := _command(entry):
        return next(filter(_is_program, words), "")
    options: Any = _parts(entry)[-1]
    if isinstance(options, dict):
        options = cast("dict[str, Any]", options).get("config", options)
    named = cast("dict[str, Any]", options).get("executable") if isinstance(options, dict) else ""
    return named if isinstance(named, str) else ""


def _parts(entry: Any) -> list[Any]:
    """A plugin's path and its options; an entry that is no list alone."""
    return cast("list[Any]", entry) if isinstance(entry, list) and entry else [entry]


def is_named_like_us(entry: Any) -> bool:
    """True for our name in a list of names."""
    return entry == NAME


def anybody(_: Any) -> bool:
    """For a place with our name: whatever stands there is ours."""
    return True


def nobody(_: Any) -> bool:
    """For what many need and nobody owns, as the number of a file's format."""
    return False


def handlers(entry: Any) -> list[Any]:
    """The hooks of a group; empty for a hook itself."""
    inner = cast("dict[str, Any]", entry).get("hooks") if isinstance(entry, dict) else None
    return cast("list[Any]", inner) if isinstance(inner, list) else []


def _words(entry: Any) -> list[str]:
    """The words behind `filrouge` in what an entry runs; empty where it runs something else."""
    words = _command(entry)
    places = [place for place, word in enumerate(words) if _is_program(word)]
    return words[places[0] + 1 :] if places else []


def _command(entry: Any) -> list[str]:
    """What an entry runs, word by word; empty where it runs nothing."""
    if not isinstance(entry, dict):
        return []
    said = cast("dict[str, Any]", entry)
    command, more = said.get("command", ""), said.get("args", ())
    words = _split(command, whole=bool(more)) if isinstance(command, str) else [str(one) for one in command or ()]
    words += [str(one) for one in more] if isinstance(more, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return words


def _split(command: str, *, whole: bool) -> list[str]:
    """The words of a line for a shell; with arguments of its own it is the path of a program."""
    if whole:
        return [command]
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _is_program(word: str) -> bool:
    return os.path.basename(word.replace("\\", "/")).lower() in (NAME, f"{NAME}.exe", f"{NAME}.sh")
