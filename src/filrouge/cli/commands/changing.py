"""Commands for changing one's mind: review, pin, unpin, bin, supersede, undo, history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.cli.options import Json
from filrouge.core.errors import BadInput

Id = Annotated[str, typer.Argument(help="A memory's id, or its beginning.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (review, history, undo, supersede, pin, unpin, bin_):
        app.command(command.__name__.rstrip("_"))(command)


def review(
    memory_id: Annotated[str | None, typer.Argument(help="What waits; without it, everything is listed.")] = None,
    keep: Annotated[str | None, typer.Option(help="Settle a conflict: keep old, new or both.")] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Believe a statement that lacks its proof.")] = False,
    dismiss: Annotated[
        bool, typer.Option("--dismiss", help="Put a statement that lacks its proof into the bin.")
    ] = False,
    settled: Annotated[bool, typer.Option("--all", help="List also what is settled.")] = False,
    json: Json = False,
) -> None:
    """List what waits for you: contradictions, and statements without proof; show one, or settle it."""
    ways = [way for way, said in (("accept", accept), ("dismiss", dismiss)) if said] + ([keep] if keep else [])
    if len(ways) > 1 or (ways and memory_id is None):
        raise BadInput("To settle what waits, name its id and one of --keep, --accept, --dismiss.")
    if memory_id is None:
        _list(settled, json)
        return
    path = f"/api/memory/review/{quote(memory_id, safe='')}"
    found = ask("POST", path, {"settle": ways[0]}) if ways else ask("GET", path)
    if json:
        output.show_json(found)
    elif ways:
        _settled(found)
    else:
        _show(found)


def history(memory_id: Id, json: Json = False) -> None:
    """Show every version of a memory and every decision about it, with the number that `undo` takes."""
    found = ask("GET", f"{_path(memory_id)}/history")
    if json:
        output.show_json(found)
        return
    for one in found["versions"]:
        pinned = ", pinned" if one["pinned"] else ""
        output.say(f"{one['id']} ({one['state']}{pinned}) {one['valid_from'][:16]}: {one['text']}")
        for words in one["quotes"]:
            output.say(f"  said {words['at'][:16]} ({words['channel']}): {words['text']}")
    output.table(
        ("Entry", "When", "Who", "What", "Why"),
        [(one["entry"], one["at"][:19], one["actor"], _what(one), _why(one)) for one in found["journal"]],
    )


def undo(
    what: Annotated[str, typer.Argument(help="An entry's number (see history), or a memory's id: its last decision.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would change.")] = False,
    json: Json = False,
) -> None:
    """Take a decision back, with what was decided on top of it. An undo can be undone."""
    target = {"entry": int(what)} if what.isdecimal() and len(what) < _DIGITS else {"memory_id": what}
    found = ask("POST", "/api/memory/undo", {**target, "dry_run": dry_run})
    if json:
        output.show_json(found)
        return
    output.say(found["text"])
    if dry_run:
        output.say("Nothing was changed.")


def supersede(
    memory_id: Id,
    text: Annotated[str, typer.Argument(help="What it says from now on.")],
    json: Json = False,
) -> None:
    """Replace what a memory says; what it said stays in its history."""
    found = ask("POST", "/memory/supersede", {"old_id": memory_id, "new_text": text, "source": "cli"})
    if json:
        output.show_json(found)
        return
    output.say(f"{found['new_id']} replaces: {found['previous_text']}")


def pin(memory_id: Id, json: Json = False) -> None:
    """Let nobody but you change a memory."""
    change("PATCH", memory_id, "", {"pinned": True}, "Pinned", json)


def unpin(memory_id: Id, json: Json = False) -> None:
    """Let a pinned memory be changed again."""
    change("PATCH", memory_id, "", {"pinned": False}, "No longer pinned", json)


def bin_(memory_id: Id, json: Json = False) -> None:
    """Put a memory into the bin; it stays restorable."""
    change("POST", memory_id, "/bin", {}, "In the bin", json)


#: An id has 26 characters, and the journal fewer entries than this has digits.
_DIGITS = 19


def change(method: str, memory_id: str, verb: str, body: Mapping[str, object], done: str, json: bool) -> None:
    """Ask for a change of a memory, and say that it is done."""
    found = ask(method, f"{_path(memory_id)}{verb}", body)
    if json:
        output.show_json(found)
    else:
        output.say(f"{done}: {found['id']}")


def _list(settled: bool, json: bool) -> None:
    found = ask("GET", "/api/memory/review", query={"settled": settled})
    if json:
        output.show_json(found)
        return
    if not found:
        output.say("Nothing waits for review.")
    output.table(("Id", "Kind", "State", "Statement", "Against"), [_row(one) for one in found])


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    against = one["against"]["text"] if one["against"] else "-"
    return one["id"], one["kind"], one["outcome"], one["text"], against


def _show(one: Mapping[str, Any]) -> None:
    rows = {"Id": one["id"], "Kind": one["kind"], "State": one["outcome"], "Why": one["reason"]}
    if one["against"]:
        rows["Against"] = f"{one['against']['text']} ({one['against']['id']}, {one['against']['state']})"
    output.box(one["text"], rows)
    for words in one["quotes"]:
        output.say(f"said {words['at']} ({words['channel']}): {words['text']}")
    if one["outcome"] == "open":
        ways = "--keep old|new|both" if one["kind"] == "conflict" else "--accept | --dismiss"
        output.say(f"Settle it: filrouge review {one['id']} {ways}")


def _settled(found: Mapping[str, Any]) -> None:
    """What is held as true from now on, and what no longer."""
    new, old = found["text"], found["against"]["text"] if found["against"] else ""
    told = {
        "old": (f"Kept the old: {old}", f"Put the new into the bin: {new}"),
        "new": (f"Took the new: {new}", f"It replaces: {old}"),
        "both": (f"Kept both: {old}", f"and: {new}"),
        "accept": (f"Accepted: {new}",),
        "dismiss": (f"Dismissed: {new}",),
    }
    for line in told[found["outcome"]]:
        output.say(line)


def _path(memory_id: str) -> str:
    return f"/api/memory/memories/{quote(memory_id, safe='')}"


def _what(entry: Mapping[str, Any]) -> str:
    return f"{entry['action']} (undone)" if entry["undone"] else str(entry["action"])


def _why(entry: Mapping[str, Any]) -> str:
    payload: Mapping[str, Any] | None = entry["payload"]
    return str(payload.get("reason", "")) if payload else "forgotten"
