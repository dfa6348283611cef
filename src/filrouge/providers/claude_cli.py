"""Claude Code's command line as a model: it answers with the user's subscription, without a key.

It runs without any hooks (no settings, safe mode, hooks disabled) and with no tool except the one for its answer. It
leaves no transcript. The instructions are passed as arguments, the text through standard input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from filrouge.core.errors import ModelUnavailable
from filrouge.providers.command_line import CommandLine, program_path
from filrouge.providers.http_client import problem
from filrouge.providers.language_models import DefaultModels, ModelOptions, usage_of
from filrouge.providers.models import Completion, CompletionRequest, Usage

SIZES: Final = DefaultModels(small="haiku", medium="sonnet", large="opus")
_SETTING: Final = "claude_cli_path"
_NO_HOOKS: Final = (
    "--safe-mode", "--setting-sources", "", "--settings", '{"disableAllHooks":true}',
    "--tools", "", "--strict-mcp-config", "--no-session-persistence",
)  # fmt: skip


def model(options: ModelOptions) -> ClaudeCli:
    """Return the model for these options.

    Raises:
        BadConfig: the command line is not found.
    """
    return ClaudeCli(options.identity("Claude Code", SIZES), program_path(options, "claude", _SETTING), options.environ)


class ClaudeCli(CommandLine):
    """Implements `LanguageModel` over `claude -p`, with one process per answer."""

    async def complete(self, ask: CompletionRequest) -> Completion:
        """Return the model's answer.

        Raises:
            ModelUnavailable: with the cause.
        """
        answer = ("--output-format", "json", "--json-schema", json.dumps(ask.schema))
        done = await self._run(
            ["-p", "--model", self.model, *_NO_HOOKS, *answer, "--system-prompt", ask.prompt.text], ask.text
        )
        if not done.whole:
            raise self._who.failure("too_long", "printed more than any answer needs")
        result = _result(done.printed)
        if result is None:
            raise self._who.failure("other", f"ended with {done.code} and no answer")
        if result.get("is_error") or done.code:
            raise self._failed(result, done.code, _usage(ask, result, ""))
        text = _text(result)
        return self._who.completion(text, _usage(ask, result, text))

    def _failed(self, result: Mapping[str, Any], code: int, usage: Usage) -> ModelUnavailable:
        """Return the error for a failed run. The program's own message is left out, because it may quote the text."""
        status = result.get("api_error_status")
        if isinstance(status, int) and status >= 300:
            kind = problem(self._who, status).failures[0].kind
            return self._who.failure(kind, f"was answered {status} by its service", usage=usage)
        if result.get("stop_reason") == "refusal":
            return self._who.failure("refused", "refused to answer", usage=usage)
        return self._who.failure("other", f"ended with {code} and an error; is it logged in?", usage=usage)


def _result(printed: bytes) -> dict[str, Any] | None:
    """Return the result object that the program prints; None if there is none."""
    try:
        found: Any = json.loads(printed)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    whole = cast("dict[str, Any]", found)
    return whole if whole.get("type") == "result" else None


def _text(result: Mapping[str, Any]) -> str:
    """Return the structured answer as JSON, otherwise the answer as text."""
    by_schema = result.get("structured_output")
    if by_schema is not None:
        return json.dumps(by_schema, ensure_ascii=False)
    said = result.get("result")
    return said if isinstance(said, str) else ""


def _usage(ask: CompletionRequest, result: Mapping[str, Any], text: str) -> Usage:
    found: Any = result.get("usage")
    counts = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    read = [counts.get(name) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")]
    dollars: Any = result.get("total_cost_usd")
    return usage_of(
        ask,
        text,
        input_tokens=sum(count for count in read if isinstance(count, int)),
        output_tokens=counts.get("output_tokens"),
        dollars=float(dollars) if isinstance(dollars, int | float) and 0 <= dollars < 1e6 else None,
    )
