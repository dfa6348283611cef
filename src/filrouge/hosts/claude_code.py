"""Claude Code's hooks (checked with 2.1.330).

VS Code runs Claude Code's user hooks too; the shape of the payload distinguishes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.hosts import command_hooks
from filrouge.hosts.command_hooks import field, text_field

NAME: Final = "claude-code"
INJECTS: Final = {"session_start": "SessionStart", "prompt": "UserPromptSubmit"}
NOTICES: Final = True
#: The variable that names its folder, and the usual folder in the user's home.
FOLDER: Final = ("CLAUDE_CONFIG_DIR", ".claude")


def matches_payload(payload: Mapping[str, Any]) -> bool:
    """Return True if only Claude Code would send such a payload."""
    path = text_field(payload, "transcript_path").replace("\\", "/")
    return "/projects/" in path or any(
        field(payload, name) is not None for name in ("prompt_id", "effort", "tool_calls", "compact_summary")
    )


def matches_environment(environ: Mapping[str, str]) -> bool:
    """Return True if the environment shows that Claude Code is running."""
    return any(name in environ for name in ("CLAUDECODE", "CLAUDE_PROJECT_DIR"))


def parse(payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]) -> list[Event]:
    """Return the event of a Claude Code payload; an empty list if there is nothing to capture."""
    return command_hooks.parse(payload, host=NAME, prompt_id="prompt_id", environ=environ, at=at, new_id=new_id)


injection = command_hooks.injection
