"""Which agents are connected: whose settings contain entries of Filrouge, whoever wrote them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec import Struct

from filrouge.core.errors import BadInput
from filrouge.hosts.setup.entries import AGENTS, Agent, File, find_filrouge_entries, find_plugin
from filrouge.hosts.setup.files import Machine, decode_text, read_bytes


class Connection(Struct, frozen=True, kw_only=True):
    """An agent that can be connected, and how far it is.

    Attributes:
        is_found: its folder or its command is on this machine.
        has_hooks: hooks or a plugin capture what it does and give it memories.
        has_tools: it can call the MCP tools.
        problems: why settings files of it cannot be read.
    """

    agent: Agent
    is_found: bool
    has_hooks: bool
    has_tools: bool
    problems: tuple[str, ...]


def connections(machine: Machine) -> Iterator[Connection]:
    """Yield every agent that can be connected."""
    for agent in AGENTS.values():
        plugin, problems = find_plugin(agent.name, machine), list[str]()
        has_hooks = plugin is not None or _has_entries(agent.hooks(machine), problems)
        has_tools = (plugin is not None and plugin.brings_tools) or _has_entries(agent.tools(machine), problems)
        yield Connection(
            agent=agent,
            is_found=agent.is_installed(machine),
            has_hooks=has_hooks,
            has_tools=has_tools,
            problems=tuple(dict.fromkeys(problems)),
        )


def _has_entries(files: Sequence[File], problems: list[str]) -> bool:
    """Return whether one of these files contains an entry of Filrouge; adds why a file cannot be read to `problems`."""
    found = False
    for file in files:
        try:
            found |= bool(find_filrouge_entries(decode_text(read_bytes(file.path), file.path), file))
        except BadInput as error:
            if os.path.exists(file.path):
                problems.append(error.message)
    return found
