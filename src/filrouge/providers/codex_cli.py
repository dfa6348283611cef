"""Codex's command line as a model: it answers with the user's subscription, without a key.

It runs without hooks and tool servers, in a read-only sandbox, and leaves no session. Its own instructions cannot be
replaced, so every question costs about ten thousand tokens more than with other providers. Filrouge's instructions come
before the text, on standard input.
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Final, cast

from filrouge.providers.command_line import CommandLine
from filrouge.providers.language_models import MAX_REPLY_BYTES, DefaultModels, usage_of
from filrouge.providers.models import Completion, CompletionRequest
from filrouge.providers.pydantic_models import strict_schema

SIZES: Final = DefaultModels(small="gpt-6-luna", medium="gpt-6.1-terra", large="gpt-6.1-sol")
_NO_HOOKS: Final = (
    "--ephemeral", "--skip-git-repo-check", "-s", "read-only",
    "-c", "features.hooks=false", "-c", "mcp_servers={}", "-c", "notify=[]",
)  # fmt: skip
#: Disable all tools: a text from a conversation may contain any instruction.
_NO_TOOLS: Final = (
    "-c", "features.shell_tool=false", "-c", "features.unified_exec=false", "-c", "features.apps=false",
    "-c", "features.plugins=false", "-c", "features.multi_agent=false", "-c", "features.view_image=false",
    "-c", "features.image_generation=false", "-c", "features.goals=false",
    "-c", 'web_search="disabled"',
)  # fmt: skip
_LOW_REASONING: Final = ("-c", 'model_reasoning_effort="low"')


class CodexCli(CommandLine):
    """Implements `LanguageModel` over `codex exec`, with one process per answer."""

    label = "Codex"
    sizes = SIZES
    program = "codex"
    setting = "codex_cli_path"

    async def complete(self, request: CompletionRequest) -> Completion:
        """Return the model's answer.

        Raises:
            ModelUnavailable: with the cause.
        """
        with tempfile.TemporaryDirectory(prefix="filrouge-") as directory:
            schema, answer = os.path.join(directory, "schema.json"), os.path.join(directory, "answer.txt")
            with open(schema, "w", encoding="utf-8") as file:
                json.dump(strict_schema(request.schema), file)
            files = ("--output-schema", schema, "-o", answer, "--json")
            process = await self._run(
                ["exec", "-m", self.model, *_NO_HOOKS, *_NO_TOOLS, *_LOW_REASONING, *files, "-"],
                f"{request.prompt.text}\n\n{request.text}",
            )
            text = _read_answer(answer)
        input_tokens, output_tokens = _token_counts(process.output)
        usage = usage_of(request, text or "", input_tokens=input_tokens, output_tokens=output_tokens, dollars=None)
        if not process.is_complete or (text is not None and len(text) > MAX_REPLY_BYTES):
            raise self._identity.failure("too_long", "printed more than any answer needs", usage=usage)
        if process.code or text is None:
            raise self._identity.failure(
                "other", f"ended with {process.code} and no answer; is it logged in?", usage=usage
            )
        return self._identity.completion(text, usage)


model = CodexCli  # the entry point of this provider


def _read_answer(path: str) -> str | None:
    """Return the last message, read up to the size limit; None if there is none."""
    try:
        with open(path, "rb") as file:
            return file.read(MAX_REPLY_BYTES + 1).decode("utf-8", "replace")
    except OSError:
        return None


def _token_counts(output: bytes) -> tuple[int | None, int | None]:
    """Return the input and output tokens of all turns, from the printed events; None if none are reported."""
    input_tokens = output_tokens = 0
    for line in output.splitlines():
        try:
            event: Any = json.loads(line)
        except (ValueError, RecursionError):
            continue
        usage: Any = cast("dict[str, Any]", event).get("usage") if isinstance(event, dict) else None
        if isinstance(usage, dict):
            counts = cast("dict[str, Any]", usage)
            input_tokens += _count_or_zero(counts.get("input_tokens"))
            output_tokens += _count_or_zero(counts.get("output_tokens"))
    return input_tokens or None, output_tokens or None


def _count_or_zero(value: Any) -> int:
    return value if isinstance(value, int) else 0
