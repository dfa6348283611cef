"""`filrouge stats`: what the memory holds and what it costs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from filrouge.cli import output
from filrouge.cli.client import SHORT_SECONDS, ask
from filrouge.cli.commands.health import threads_line

_DAYS = 30


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(stats)


def stats(
    days: Annotated[int, typer.Option("--days", help="So many days back, today included.", min=1, max=366)] = _DAYS,
    usage: Annotated[bool, typer.Option("--usage", help="With --json: the figures of /api/memory/usage.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")] = False,
) -> None:
    """Show what the memory holds, and what recall and models cost."""
    if json and not usage:
        output.show_json(ask("GET", "/api/memory/stats", timeout=SHORT_SECONDS))
        return
    figures = ask("GET", f"/api/memory/usage?days={days}", timeout=SHORT_SECONDS)
    if json:
        output.show_json(figures)
        return
    counts = ask("GET", "/api/memory/stats", timeout=SHORT_SECONDS)
    for line in _lines(counts, figures):
        output.say(line)


def _lines(counts: dict[str, Any], figures: dict[str, Any]) -> list[str]:
    kinds = ", ".join(f"{number} {kind}" for kind, number in figures["memories"].items())
    names = ("recalls", "delivered", "late", "empty")
    recalls, delivered, late, empty = (sum(row[name] for row in figures["recalls"]) for name in names)
    tokens, days = sum(row["tokens"] for row in figures["projects"]), figures["days"]
    return [
        f"Memories: {sum(figures['memories'].values())}{f' ({kinds})' if kinds else ''}",
        f"Messages: {counts['messagesCount']}",
        f"Vectors: {counts['vectorsCount']}",
        f"Threads: {threads_line(figures['threads'])}, {figures['bridges']} bridges",
        f"Last captured: {counts['lastIndexedAt'] or 'nothing yet'}",
        f"Recalls in {days} days: {recalls} ({delivered} delivered, {late} late, {empty} empty), {tokens} tokens added",
        *(_project(one) for one in figures["projects"]),
        f"Models in {days} days: {_models(figures['models'], figures['dollars'])}",
        *_operations(figures["models"]),
        f"On the disk: {sum(figures['bytes'].values()) / 1e6:,.1f} MB",
    ]


def _project(one: dict[str, Any]) -> str:
    each = one["tokens_per_useful_memory"]
    what = f"{each:g} tokens for each of {one['useful_memories']} useful memories" if each else "no memory in it yet"
    return f"  {one['project_name'] or 'no project'}: {one['recalls']} recalls, {one['tokens']} tokens, {what}"


def _models(rows: list[dict[str, Any]], dollars: float) -> str:
    calls, tokens = sum(row["calls"] for row in rows), sum(row["input_tokens"] + row["output_tokens"] for row in rows)
    unpriced = sum(row["calls"] for row in rows if row["dollars"] is None)
    return (
        f"{calls} calls, {tokens} tokens, ${dollars:.2f}{f' without {unpriced} of unknown price' if unpriced else ''}"
    )


def _operations(rows: list[dict[str, Any]]) -> list[str]:
    spent = dict[str, tuple[int, int, float]]()
    for row in rows:
        calls, tokens, dollars = spent.get(row["operation"], (0, 0, 0.0))
        tokens += row["input_tokens"] + row["output_tokens"]
        spent[row["operation"]] = (calls + row["calls"], tokens, dollars + (row["dollars"] or 0.0))
    return [
        f"  {name}: {calls} calls, {tokens} tokens, ${dollars:.2f}" for name, (calls, tokens, dollars) in spent.items()
    ]
