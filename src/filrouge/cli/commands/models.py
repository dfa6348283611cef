"""`filrouge extract`: understand a text at once; or who understands what is captured, and what it has cost."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.core.errors import BadInput

_LONGEST_SECONDS = 120.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(extract)


def extract(
    text: Annotated[str | None, typer.Argument(help="What to understand; `-`: standard input.")] = None,
    source: Annotated[str | None, typer.Option(help="AGENT/PROJECT that it comes from; reads standard input.")] = None,
    context: Annotated[str, typer.Option(help="On what occasion: stop, session_end, ...")] = "",
    dead: Annotated[bool, typer.Option("--dead", help="Show the answers of models that could not be read.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")] = False,
) -> None:
    """Understand a text now and say what was learned; without one: who understands, what it cost, and what waits."""
    if text is not None or source is not None:
        if dead:
            raise BadInput("--dead shows what could not be read; it goes with no text.")
        _understand(sys.stdin.read() if text in (None, "-") else text, source or "", context, json)
        return
    found: Any = ask("GET", "/extract/dead-letters" if dead else "/extract/status")
    if json:
        output.show_json(found)
    elif dead:
        output.say_lines("\n\n".join(_letter(one) for one in found) or "Every answer could be read.")
    elif not found["enabled"]:
        output.say("Nothing is understood: extract_provider is off. What is captured is kept word for word.")
    else:
        output.say_lines("\n".join(_status(found)))


def _understand(text: str, source: str, context: str, json: bool) -> None:
    body = {"messages": text, "source": source, "context": context}
    found: Any = ask("POST", "/memory/extract", body, timeout=_LONGEST_SECONDS)
    if json:
        output.show_json(found)
        return
    for action in found["actions"]:
        output.say(f"{action['action']}: {action['review'] or action['id']}")
    counts = ("stored", "updated", "deleted")
    said = ", ".join(f"{found[f'{name}_count']} {name}" for name in counts)
    output.say(f"{found['extracted_count']} statements read: {said}.")


def _status(found: dict[str, Any]) -> list[str]:
    today = found["today"]
    cap = f" of {today['most_dollars']:.2f}" if today["most_dollars"] else ""
    tokens = f"{today['tokens']} of {today['most_tokens']} tokens"
    dollars = f"{today['dollars']:.4f}{cap} dollars{_unpriced(today['unpriced_entries'])}"
    lines = [
        f"{found['provider']} {found['model']} ({found['mode']}): {found['status']}",
        f"Today: {today['calls']} calls, {tokens}, {dollars}.",
    ]
    lines += [f"{one['n']} conversations wait{_why(one['reason'])}" for one in found["waiting"]]
    if found["unreadable_answers"]:
        lines.append(f"{found['unreadable_answers']} answers could not be read: `filrouge extract --dead`.")
    return lines + [_spent(one) for one in found["usage"]]


def _spent(one: dict[str, Any]) -> str:
    dollars = f", {one['dollars']:.4f} dollars" if one["dollars"] is not None else ""
    tokens = f"{one['input_tokens']} + {one['output_tokens']} tokens"
    who = f"{one['operation']:8} {one['provider']}:{one['model']}"
    return f"  {one['day']}  {who}  {one['calls']} calls, {tokens}{dollars}"


def _unpriced(entries: int) -> str:
    return f" beside {entries} entries whose price is not known" if entries else ""


def _why(reason: str) -> str:
    return f": {reason}" if reason else " for their time."


def _letter(one: dict[str, Any]) -> str:
    return f"{one['at']}  {one['operation']} ({one['prompt_version']})\n{one['reason']}\n{one['answer']}"
