"""OpenAI Codex's hooks (checked with 0.169.0).

Codex has no event for a failed tool and sends no summary after a compaction; both are in its rollout file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.hosts import command_hooks
from filrouge.hosts.command_hooks import field, text_field

NAME: Final = "codex"
INJECTS: Final = {"session_start": "SessionStart", "prompt": "UserPromptSubmit"}
NOTICES: Final = True
#: The variable that names its folder, and the usual folder in the user's home.
FOLDER: Final = ("CODEX_HOME", ".codex")


def matches_payload(payload: Mapping[str, Any]) -> bool:
    """Return True if only Codex would send such a payload."""
    path = text_field(payload, "transcript_path").replace("\\", "/")
    return (
        os.path.basename(path).startswith("rollout-")
        or field(payload, "turn_id") is not None
        or (
            text_field(payload, "hook_event_name") == "SessionStart"
            and field(payload, "model") is not None
            and field(payload, "permission_mode") is not None
        )
    )


def matches_environment(environ: Mapping[str, str]) -> bool:
    """Return True if the environment shows that Codex is running."""
    return "CODEX_HOME" in environ


def parse(payload: dict[str, Any], *, environ: Mapping[str, str], at: float, new_id: Callable[[], str]) -> list[Event]:
    """Return the event of a Codex payload; an empty list if there is nothing to capture."""
    return command_hooks.parse(payload, host=NAME, prompt_id="turn_id", environ=environ, at=at, new_id=new_id)


injection = command_hooks.injection
