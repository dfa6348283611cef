"""What models cost: one row for each answer, by operation, provider, model and day (UTC)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from filrouge.clock import to_text
from filrouge.model.asking import Operation, Usage
from filrouge.ports import Tx


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

    def spent(self, at: datetime) -> Spent:
        """What the day of this moment has cost."""
        row = self._tx.one("usage.of_day", {"day": day_of(at)})
        assert row is not None
        return Spent(tokens=row["tokens"], dollars=row["dollars"], calls=row["calls"], unpriced=row["unpriced"])

    def by_model(self, since: datetime) -> list[dict[str, Any]]:
        """Sums by day, operation and model from that day on, the newest day first."""
        return self._tx.all("usage.by_model", {"since": day_of(since)})


def day_of(at: datetime) -> str:
    """The day that a moment counts to: `2026-03-01`, in UTC."""
    return to_text(at)[:10]
