"""The cost of language models: one row per answer, by operation, provider, model and day (UTC).

Tokens that recall adds to prompts are recorded too, under the operation `recall`: one row per day and channel. The
agent's own model reads those tokens, at the expense of the user of that agent, so they count neither towards the budget
nor as calls of Filrouge.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from filrouge.core.clock import to_text
from filrouge.core.protocols import Tx
from filrouge.providers.models import Operation, Usage

#: The operation under which tokens added by recall are recorded.
RECALL: Final = "recall"


class Spent(Struct, frozen=True, kw_only=True):
    """The cost of a day so far.

    Attributes:
        tokens: input and output tokens.
        calls: number of model calls.
        unpriced: entries with unknown price; they are not included in `dollars`.
    """

    tokens: int
    dollars: float
    calls: int
    unpriced: int


class LlmUsage:
    """The usage records of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def add(self, operation: Operation, spent: Mapping[tuple[str, str], Usage], at: datetime) -> None:
        """Record the cost of one question, for every model that was tried."""
        for (provider, model), usage in spent.items():
            self._insert(operation, provider, model, usage, at)

    def add_recall(self, channel: str, tokens: int, at: datetime) -> None:
        """Record the tokens that one recall added to a prompt."""
        if self._tx.run("usage.recalled", {"day": day_of(at), "channel": channel, "tokens": tokens}):
            return
        usage = Usage(calls=1, input_tokens=tokens, estimated=True, dollars=None)
        self._insert(RECALL, "", channel, usage, at)

    def by_channel(self, since: datetime) -> list[dict[str, Any]]:
        """Return the tokens added by recall per day and channel since that day, newest day first."""
        return self._tx.all("usage.by_channel", {"since": day_of(since)})

    def spent(self, at: datetime) -> Spent:
        """Return the cost of the day that contains this time."""
        row = self._tx.one("usage.of_day", {"day": day_of(at)})
        assert row is not None
        return Spent(tokens=row["tokens"], dollars=row["dollars"], calls=row["calls"], unpriced=row["unpriced"])

    def by_model(self, since: datetime) -> list[dict[str, Any]]:
        """Return sums per day, operation and model since that day, newest day first."""
        return self._tx.all("usage.by_model", {"since": day_of(since)})

    def _insert(self, operation: str, provider: str, model: str, usage: Usage, at: datetime) -> None:
        self._tx.run(
            "usage.add",
            {
                "at": to_text(at),
                "day": day_of(at),
                "operation": operation,
                "provider": provider,
                "model": model,
                "calls": usage.calls,
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "estimated": usage.estimated,
                "dollars": usage.dollars,
            },
        )


def day_of(at: datetime) -> str:
    """Return the UTC day of a time: `2026-03-01`."""
    return to_text(at)[:10]
