"""`filrouge topics` and `filrouge timeline`: what was talked about, and when."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.cli.options import Json
from filrouge.core.choices import one_of

Agent = Annotated[str | None, typer.Option(help="Only what was said to this agent: its id, or its channel.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(topics)
    app.command()(timeline)


def topics(
    timeframe: Annotated[str, typer.Option("--timeframe", "-t", help="today, week, month or all.")] = "week",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000)] = 50,
    min_mentions: Annotated[int, typer.Option(min=1, help="Conversations a topic was part of, at least.")] = 1,
    agent: Agent = None,
    json: Json = False,
) -> None:
    """List what was talked about, latest first."""
    one_of("--timeframe", timeframe, ("today", "week", "month", "all"))
    asked: dict[str, Any] = {"timeframe": timeframe, "limit": limit, "min_mention_count": min_mentions}
    found = ask("GET", "/api/memory/topics", query=asked | ({"agent_id": agent} if agent else {}))
    if json:
        output.show_json(found)
        return
    if found["nothing_known"]:
        output.say("Nothing is known of what was discussed then.")
    output.table(
        ("First", "Last", "Conversations", "Vitality", "Title"),
        [
            (one["first_date"][:10], one["last_date"][:10], one["conversations"], one["vitality"], one["title"])
            for one in found["topics"]
        ],
    )


def timeline(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000)] = 120,
    language: Annotated[str | None, typer.Option(help="en, fr or es; default: the one you write.")] = None,
    agent: Agent = None,
    json: Json = False,
) -> None:
    """Show what was talked about, by week and month."""
    if language:
        one_of("--language", language, ("en", "fr", "es"))
    asked: dict[str, Any] = {"limit": limit} | ({"language": language} if language else {})
    found = ask("GET", "/api/memory/timeline", query=asked | ({"agent_id": agent} if agent else {}))
    if json:
        output.show_json(found)
        return
    output.say_lines("Nothing is known of what was discussed." if found["nothing_known"] else found["text"])
