"""What the memory holds, and what it costs: memories by kind, recalls and their tokens by day and project, models.

What recall adds to prompts is kept apart from what Filrouge asks models itself: whoever runs the agent pays for it,
with the agent's own model.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from filrouge.app.parts import Parts
from filrouge.app.report import names_of, number_of
from filrouge.app.standing import stored_bytes
from filrouge.app.thread_upkeep import state_counts
from filrouge.ports import Tx
from filrouge.store.bridges import Bridges
from filrouge.store.recalls import Recalls
from filrouge.store.usage import LlmUsage

DAYS: Final = 30


def usage(parts: Parts, tx: Tx, days: int = DAYS) -> dict[str, Any]:
    """The body of `GET /api/memory/usage`.

    Args:
        days: how many days back recalls and models are summed, today included.
    """
    since = parts.clock.now() - timedelta(days=days - 1)
    names, recalls = names_of(tx), Recalls(tx)
    models = LlmUsage(tx).by_model(since)
    by_day = recalls.by_day(since)
    return {
        "days": days,
        "memories": {row["kind"]: row["n"] for row in tx.all("memories.by_kind")},
        "messages": number_of(tx, "turns.count"),
        "threads": state_counts(parts, tx),
        "bridges": Bridges(tx).count()[0],
        "recalls": [row | {"project_name": names.get(row["project"] or "", "")} for row in by_day],
        "projects": _projects(by_day, recalls.useful(since), names),
        "recall_tokens": LlmUsage(tx).by_channel(since),
        "models": models,
        "dollars": sum(row["dollars"] or 0.0 for row in models),
        "bytes": stored_bytes(parts, tx)["parts"],
    }


def _projects(
    by_day: list[dict[str, Any]], useful: dict[str | None, int], names: dict[str, str]
) -> list[dict[str, Any]]:
    """Of each project what recall added, and for how many memories."""
    tokens, recalls = dict[str | None, int](), dict[str | None, int]()
    for row in by_day:
        tokens[row["project"]] = tokens.get(row["project"], 0) + row["tokens"]
        recalls[row["project"]] = recalls.get(row["project"], 0) + row["recalls"]
    return [
        {
            "project": project,
            "project_name": names.get(project or "", ""),
            "recalls": recalls[project],
            "tokens": spent,
            "useful_memories": (held := useful.get(project, 0)),
            "tokens_per_useful_memory": round(spent / held, 1) if held else None,
        }
        for project, spent in sorted(tokens.items(), key=lambda one: -one[1])
    ]
