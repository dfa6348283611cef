"""An agent as far as it can be connected: its files, and what is to stand in them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from filrouge.hosts.setup.machine import Machine


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One thing in one file.

    Attributes:
        path: the keys that lead to it.
        value: what is to stand there.
        ours: tells what Filrouge wrote there before from what is somebody else's.
        listed: it is one element of the list there.
        beside: it goes only into a list that names somebody; such a list shuts out whom it does not name.
    """

    path: tuple[str, ...]
    value: Any
    ours: Callable[[Any], bool]
    listed: bool = False
    beside: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A settings file with what is to stand in it."""

    path: str
    form: Literal["json", "toml"]
    entries: tuple[Entry, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent:
    """An agent that can be connected.

    Attributes:
        name: what it is called in commands.
        title: what its users call it.
        folder: where it keeps its settings.
        programs: its commands.
        hooks: the files with what is captured and put in front of prompts.
        tools: the files with its servers of tools (MCP).
        then: what its user still has to do or know.
        reads_all: its hooks need a permission to read every conversation, for which its user is asked apart.
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
        """Whether its folder or its command is on this machine."""
        return os.path.isdir(self.folder(machine)) or any(machine.program(name) for name in self.programs)
