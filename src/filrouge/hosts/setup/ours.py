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
    """True for the path of a plugin that comes with Filrouge."""
    return isinstance(entry, str) and "/filrouge/hosts/plugins/" in entry.replace("\\", "/")


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
    if not isinstance(entry, dict):
        return []
    said = cast("dict[str, Any]", entry)
    command, more = said.get("command", ""), said.get("args", ())
    words = _split(command, whole=bool(more)) if isinstance(command, str) else [str(one) for one in command or ()]
    words += [str(one) for one in more] if isinstance(more, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    places = [place for place, word in enumerate(words) if _is_program(word)]
    return words[places[0] + 1 :] if places else []


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
