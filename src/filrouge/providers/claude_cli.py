"""Claude Code's command line as a model: it answers with the user's subscription, without a key.

It runs without any hooks (no settings, safe mode, hooks disabled) and with no tool except the one for its answer. It
leaves no transcript. The instructions are passed as arguments, the text through standard input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from filrouge.core.errors import ModelUnavailable
from filrouge.providers.command_line import CommandLine
from filrouge.providers.http_client import status_failure
from filrouge.providers.language_models import DefaultModels, usage_of
from filrouge.providers.models import Completion, CompletionRequest, Usage

SIZES: Final = DefaultModels(small="haiku", medium="sonnet", large="opus")
_NO_HOOKS: Final = (
    "--safe-mode", "--setting-sources", "", "--settings", '{"disableAllHooks":true}',
    "--tools", "", "--strict-mcp-config", "--no-session-persistence",
)  # fmt: skip


class ClaudeCli(CommandLine):
    """Implements `LanguageModel` over `claude -p`, with one process per answer."""

    label = "Claude Code"
    sizes = SIZES
    program = "claude"
    setting = "claude_cli_path"

    async def complete(self, request: CompletionRequest) -> Completion:
        """Return the model's answer.

        Raises:
            ModelUnavailable: with the cause.
        """
        answer_options = ("--output-format", "json", "--json-schema", json.dumps(request.schema))
        process = await self._run(
            ["-p", "--model", self.model, *_NO_HOOKS, *answer_options, "--system-prompt", request.prompt.text],
            request.text,
        )
        if not process.is_complete:
            raise self._identity.failure("too_long", "printed more than any answer needs")
        result = _result(process.output)
        if result is None:
            raise self._identity.failure("other", f"ended with {process.code} and no answer")
        if result.get("is_error") or process.code:
            raise self._failed(result, process.code, _usage(request, result, ""))
        text = _answer_text(result)
        return self._identity.completion(text, _usage(request, result, text))

    def _failed(self, result: Mapping[str, Any], code: int, usage: Usage) -> ModelUnavailable:
        """Return the error for a failed run. The program's own message is left out, because it may quote the text."""
        status = result.get("api_error_status")
        if isinstance(status, int) and status >= 300:
            kind = status_failure(self._identity, status).failures[0].kind
            return self._identity.failure(kind, f"was answered {status} by its service", usage=usage)
        if result.get("stop_reason") == "refusal":
            return self._identity.failure("refused", "refused to answer", usage=usage)
        return self._identity.failure("other", f"ended with {code} and an error; is it logged in?", usage=usage)


model = ClaudeCli  # the entry point of this provider


def _result(output: bytes) -> dict[str, Any] | None:
    """Return the result object that the program prints; None if there is none."""
    try:
        parsed: Any = json.loads(output)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    result = cast("dict[str, Any]", parsed)
    return result if result.get("type") == "result" else None


def _answer_text(result: Mapping[str, Any]) -> str:
    """Return the structured answer as JSON, otherwise the answer as text."""
    by_schema = result.get("structured_output")
    if by_schema is not None:
        return json.dumps(by_schema, ensure_ascii=False)
    text = result.get("result")
    return text if isinstance(text, str) else ""


def _usage(request: CompletionRequest, result: Mapping[str, Any], text: str) -> Usage:
    reported: Any = result.get("usage")
    counts = cast("dict[str, Any]", reported) if isinstance(reported, dict) else {}
    input_counts = [
        counts.get(name) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    ]
    dollars: Any = result.get("total_cost_usd")
    return usage_of(
        request,
        text,
        input_tokens=sum(count for count in input_counts if isinstance(count, int)),
        output_tokens=counts.get("output_tokens"),
        dollars=float(dollars) if isinstance(dollars, int | float) and 0 <= dollars < 1e6 else None,
    )
