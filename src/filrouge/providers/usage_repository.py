"""What models cost: one row for each answer, by operation, provider, model and day (UTC).

What recall adds to prompts is here, too, marked as that (operation `recall`): one row for each day and channel. The
agent's own model is paid for it, by whoever runs the agent, so it counts neither to the budget nor among our calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from filrouge.core.clock import to_text
from filrouge.core.protocols import Tx
from filrouge.providers.models import Operation, Usage

#: The operation under which the tokens stand that recall adds.
RECALL: Final = "recall"


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """What a day has cost so far.

    Attributes:
        unpriced: entries whose price nobody knows; they are not in `dollars`.
    """

    tokens: int
    dollars: float
    calls: int
    unpriced: int


class LlmUsage:
    """The ledger of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def add(self, operation: Operation, spent: Mapping[tuple[str, str], Usage], at: datetime) -> None:
        """Enter what one question cost, whoever was tried for it."""
        for (provider, model), usage in spent.items():
            self._enter(operation, provider, model, usage, at)

    def recalled(self, channel: str, tokens: int, at: datetime) -> None:
        """Enter what one recall added to a prompt."""
        if self._tx.run("usage.recalled", {"day": day_of(at), "channel": channel, "tokens": tokens}):
            return
        usage = Usage(calls=1, input_tokens=tokens, estimated=True, dollars=None)
        self._enter(RECALL, "", channel, usage, at)

    def by_channel(self, since: datetime) -> list[dict[str, Any]]:
        """What recall added by day and channel from that day on, the newest day first."""
        return self._tx.all("usage.by_channel", {"since": day_of(since)})

    def spent(self, at: datetime) -> Spent:
        """What the day of this moment has cost."""
        row = self._tx.one("usage.of_day", {"day": day_of(at)})
        assert row is not None
        return Spent(tokens=row["tokens"], dollars=row["dollars"], calls=row["calls"], unpriced=row["unpriced"])

    def by_model(self, since: datetime) -> list[dict[str, Any]]:
        """Sums by day, operation and model from that day on, the newest day first."""
        return self._tx.all("usage.by_model", {"since": day_of(since)})

    def _enter(self, operation: str, provider: str, model: str, usage: Usage, at: datetime) -> None:
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
    """The day that a moment counts to: `2026-03-01`, in UTC."""
    return to_text(at)[:10]
