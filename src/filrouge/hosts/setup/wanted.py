"""What Filrouge wants to stand in the settings of each agent: its hooks, and its tools over MCP.

The tables are the only place that knows an agent's files, events, units and keys. Timeouts are seconds, Gemini's
milliseconds. Of events that tell the same, only one is asked for, so that nothing is captured twice.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any, Final, Literal

from filrouge.hosts import plugins
from filrouge.hosts.setup.agent import Agent, Entry, File
from filrouge.hosts.setup.machine import NAME, Machine
from filrouge.hosts.setup.ours import (
    anybody,
    is_hook_of_ours,
    is_named_like_us,
    is_plugin_of_ours,
    is_tool_of_ours,
    nobody,
)

#: Codex allows SessionEnd 3 s at the most, Claude Code gives it 1.5 s unless a number is written.
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
#: It says before every question to its model that it compresses by itself; a hook there would hold each of them up.
GEMINI_MATCHERS: Final[Mapping[str, str]] = {"PreCompress": "manual"}
CURSOR: Final = ("sessionStart", "beforeSubmitPrompt", "postToolUse", "afterAgentResponse", "preCompact", "sessionEnd")


def _line(machine: Machine, host: str) -> str:
    return shlex.join([machine.executable, "hook", "--host", host])


def _server(machine: Machine, **more: Any) -> dict[str, Any]:
    """How the tools are started; a home elsewhere goes along, since hosts hand few variables on to servers."""
    home = machine.environ.get("FILROUGE_HOME", "").strip()
    env: dict[str, Any] = {"env": {"FILROUGE_HOME": os.path.abspath(os.path.expanduser(home))}} if home else {}
    return {**more, "command": machine.executable, "args": ["mcp"], **env}


def _groups(
    path: str, events: Mapping[str, int], handler: Mapping[str, Any], matchers: Mapping[str, str] | None = None
) -> tuple[File, ...]:
    entries: list[Entry] = []
    for event, limit in events.items():
        matched = {"matcher": matchers[event]} if matchers and event in matchers else {}
        group = {**matched, "hooks": [{**handler, "timeout": limit}]}
        entries.append(Entry(path=("hooks", event), value=group, ours=is_hook_of_ours, listed=True))
    return (File(path=path, form="json", entries=tuple(entries)),)


def _one(path: str, key: tuple[str, ...], value: Any, form: Literal["json", "toml"] = "json") -> tuple[File, ...]:
    return (File(path=path, form=form, entries=(Entry(path=key, value=value, ours=is_tool_of_ours),)),)


def _claude(machine: Machine) -> str:
    return machine.folder("CLAUDE_CONFIG_DIR", ".claude")


def _claude_hooks(machine: Machine) -> tuple[File, ...]:
    handler = {"type": "command", "command": machine.executable, "args": ["hook", "--host", "claude-code"]}
    return _groups(os.path.join(_claude(machine), "settings.json"), CLAUDE_CODE, handler)


def _claude_tools(machine: Machine) -> tuple[File, ...]:
    moved = machine.environ.get("CLAUDE_CONFIG_DIR", "").strip()
    path = os.path.join(_claude(machine), ".claude.json") if moved else machine.folder("", ".claude.json")
    return _one(path, ("mcpServers", NAME), _server(machine, type="stdio"))


def _codex(machine: Machine) -> str:
    return machine.folder("CODEX_HOME", ".codex")


def _codex_hooks(machine: Machine) -> tuple[File, ...]:
    handler = {"type": "command", "command": _line(machine, "codex")}
    return _groups(os.path.join(_codex(machine), "hooks.json"), CODEX, handler)


def _codex_tools(machine: Machine) -> tuple[File, ...]:
    return _one(os.path.join(_codex(machine), "config.toml"), ("mcp_servers", NAME), _server(machine), "toml")


def _gemini(machine: Machine) -> str:
    return machine.folder("", ".gemini")


def _gemini_hooks(machine: Machine) -> tuple[File, ...]:
    handler = {"type": "command", "command": _line(machine, "gemini")}
    return _groups(os.path.join(_gemini(machine), "settings.json"), GEMINI, handler, GEMINI_MATCHERS)


def _gemini_tools(machine: Machine) -> tuple[File, ...]:
    return _one(os.path.join(_gemini(machine), "settings.json"), ("mcpServers", NAME), _server(machine))


def _cursor(machine: Machine) -> str:
    return machine.folder("", ".cursor")


def _cursor_hooks(machine: Machine) -> tuple[File, ...]:
    handler = {"command": _line(machine, "cursor")}
    entries = (Entry(path=("hooks", event), value=handler, ours=is_hook_of_ours, listed=True) for event in CURSOR)
    version = Entry(path=("version",), value=1, ours=nobody)
    return (File(path=os.path.join(_cursor(machine), "hooks.json"), form="json", entries=(version, *entries)),)


def _cursor_tools(machine: Machine) -> tuple[File, ...]:
    return _one(os.path.join(_cursor(machine), "mcp.json"), ("mcpServers", NAME), _server(machine))


def _vscode(machine: Machine) -> str:
    if sys.platform == "darwin":
        return machine.folder("", "Library", "Application Support", "Code", "User")
    return os.path.join(machine.folder("XDG_CONFIG_HOME", ".config"), "Code", "User")


def _vscode_tools(machine: Machine) -> tuple[File, ...]:
    return _one(os.path.join(_vscode(machine), "mcp.json"), ("servers", NAME), _server(machine, type="stdio"))


def _opencode(machine: Machine) -> str:
    return os.path.join(machine.folder("XDG_CONFIG_HOME", ".config"), "opencode")


def _opencode_tools(machine: Machine) -> tuple[File, ...]:
    home = machine.environ.get("FILROUGE_HOME", "").strip()
    env = {"environment": {"FILROUGE_HOME": os.path.abspath(os.path.expanduser(home))}} if home else {}
    value = {"type": "local", "command": [machine.executable, "mcp"], "enabled": True, **env}
    return _one(os.path.join(_opencode(machine), "opencode.json"), ("mcp", NAME), value)


def _opencode_hooks(machine: Machine) -> tuple[File, ...]:
    # OpenCode runs from a desktop too, whose PATH has nothing that a user installed.
    plugin = [os.path.join(plugins.directory("opencode"), "filrouge.js"), {"executable": machine.executable}]
    entry = Entry(path=("plugin",), value=plugin, ours=is_plugin_of_ours, listed=True)
    return (File(path=os.path.join(_opencode(machine), "opencode.json"), form="json", entries=(entry,)),)


def _openclaw(machine: Machine) -> str:
    return machine.folder("OPENCLAW_STATE_DIR", ".openclaw")


def _openclaw_tools(machine: Machine) -> tuple[File, ...]:
    path = os.path.join(_openclaw(machine), "openclaw.json")
    return _one(path, ("mcp", "servers", NAME), _server(machine))


def _openclaw_hooks(machine: Machine) -> tuple[File, ...]:
    # Its gateway often runs as a service, whose PATH has nothing that a user installed.
    allowed = {
        "enabled": True,
        "hooks": {"allowConversationAccess": True},
        "config": {"executable": machine.executable},
    }
    entries = (
        Entry(
            path=("plugins", "load", "paths"),
            value=plugins.directory("openclaw"),
            ours=is_plugin_of_ours,
            listed=True,
        ),
        Entry(path=("plugins", "entries", NAME), value=allowed, ours=anybody),
        Entry(path=("plugins", "allow"), value=NAME, ours=is_named_like_us, listed=True, beside=True),
    )
    return (File(path=os.path.join(_openclaw(machine), "openclaw.json"), form="json", entries=entries),)


def _none(_: Machine) -> tuple[File, ...]:
    return ()


AGENTS: Final[Mapping[str, Agent]] = {
    agent.name: agent
    for agent in (
        Agent(
            name="claude-code",
            title="Claude Code",
            folder=_claude,
            programs=("claude",),
            hooks=_claude_hooks,
            tools=_claude_tools,
            then="Sessions that are open go on without memory; the next one has it.",
        ),
        Agent(
            name="codex",
            title="Codex",
            folder=_codex,
            programs=("codex",),
            hooks=_codex_hooks,
            tools=_codex_tools,
            then="Codex runs no hook that you have not approved: open Codex, type /hooks and trust those of Filrouge."
            " Until then it says nothing and remembers nothing. `filrouge doctor` tells whether they are trusted.",
        ),
        Agent(
            name="gemini",
            title="Gemini CLI",
            folder=_gemini,
            programs=("gemini",),
            hooks=_gemini_hooks,
            tools=_gemini_tools,
        ),
        Agent(
            name="cursor",
            title="Cursor",
            folder=_cursor,
            programs=("cursor", "cursor-agent"),
            hooks=_cursor_hooks,
            tools=_cursor_tools,
            then="Cursor takes memories at the start of a session only; for others its agent has the tools.",
        ),
        Agent(
            name="vscode",
            title="VS Code",
            folder=_vscode,
            programs=("code",),
            hooks=_none,
            tools=_vscode_tools,
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
            folder=_openclaw,
            programs=("openclaw",),
            hooks=_openclaw_hooks,
            tools=_openclaw_tools,
            then="OpenClaw gives a plugin what is said only with your leave (--allow-conversations); without it"
            " there are the tools alone. Start its gateway again.",
            reads_all=True,
        ),
    )
}
