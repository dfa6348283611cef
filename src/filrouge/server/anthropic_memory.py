"""Anthropic's memory tool for programs that use the `anthropic` SDK; its files are notes in Filrouge.

    client.beta.messages.tool_runner(model=..., messages=[...], tools=[filrouge.AnthropicMemoryTool()], ...)

The SDK's runner calls the tool with the model's commands. Each command is one request to the daemon; a refusal becomes
an error that the model reads. This module imports the SDK, which is an optional extra (`filrouge[llm]`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)
from pydantic import BaseModel

from filrouge.core.errors import DaemonUnavailable
from filrouge.core.paths import home as default_home
from filrouge.daemon import client, process

_TIMEOUT_SECONDS: Final = 30.0


class AnthropicMemoryTool(BetaAbstractMemoryTool):
    """The memory tool, backed by the daemon of a home or by the one that `FILROUGE_URL` names.

    Args:
        home: the home directory; None = `FILROUGE_HOME` or its default.
        project: names of the project whose files are used; empty = the files outside every project.
        environ: environment variables to use instead of the process's own.
    """

    def __init__(
        self, home: str | None = None, *, project: Sequence[str] = (), environ: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self._environ = dict(os.environ if environ is None else environ)
        self._home = home or default_home(self._environ)
        self._project = list(project)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file with line numbers, or list a directory."""
        return self._run_command(command)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file."""
        return self._run_command(command)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs exactly once in a file."""
        return self._run_command(command)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines after a line."""
        return self._run_command(command)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Move a file, or everything in a directory, to the bin."""
        return self._run_command(command)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Change the path of a file or a directory."""
        return self._run_command(command)

    def _run_command(self, command: BaseModel) -> str:
        """Send a command and return the daemon's text.

        Raises:
            ToolError: the daemon refuses the command; the text is for the model.
            DaemonUnavailable: no daemon runs, and none can be started.
        """
        body: dict[str, Any] = {**command.to_dict(), "project": self._project}  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        try:
            reply = self._post(body)
        except DaemonUnavailable:
            if client.is_remote(self._environ) or not client.is_absent(self._home):
                raise
            process.ensure_running(self._home)
            reply = self._post(body)
        if reply.status == 200:
            return str(reply.body["content"])
        raise ToolError(str(reply.body.get("detail") or f"The memory is not available ({reply.status})."))

    def _post(self, body: dict[str, Any]) -> client.Reply:
        return client.send(self._home, self._environ, "POST", "/memory/tool", body, _TIMEOUT_SECONDS)
