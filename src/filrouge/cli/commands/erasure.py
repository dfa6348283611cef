"""`filrouge forget`: show what would be deleted, ask, delete it, and show the receipt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.cli.output import Json
from filrouge.core.errors import BadInput, NotFound

#: Long, because backups are copied and every file of the home is searched.
_SECONDS: Final = 600.0
#: An id starts with the time, so its first digit will be 0 for some thousand years. Its alphabet has no i, l, o, u.
_ID: Final = re.compile(r"0[0-9a-hjkmnp-tv-z]{5,25}")
_SHOWN: Final = 40


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("forget")(forget)


def forget(
    what: Annotated[
        str | None, typer.Argument(help="A text: everything about it. An id: that, with what hangs on it.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Show what goes and forget it, without asking.")] = False,
    receipt: Annotated[
        str | None, typer.Option("--receipt", help="Show a receipt of before, and whether it holds.")
    ] = None,
    receipts: Annotated[bool, typer.Option("--receipts", help="List the receipts.")] = False,
    json: Json = False,
) -> None:
    """Delete for good from the database, the indexes, files and backups of this home. A receipt without text is kept.

    This cannot be undone.
    """
    if receipts or receipt is not None:
        _show_receipts(receipt, json)
        return
    if what is None or not what.strip():
        raise BadInput("Give either a text or an id to forget.", remedy="See `filrouge forget --help`.")
    if json and not (dry_run or yes):
        raise BadInput("With --json nobody can be asked.", remedy="Add --dry-run or --yes.")
    _forget(what, dry_run=dry_run, yes=yes, json=json)


def _forget(what: str, *, dry_run: bool, yes: bool, json: bool) -> None:
    named, shown = _preview(what)
    if json and dry_run:
        output.show_json(shown)
        return
    if not json:
        _show(shown)
    if dry_run:
        return
    if not yes and not output.confirm("Forget this for good?", default=False):
        output.say("Nothing was changed.")
        return
    way = {"at_once": True} if yes else {"token": shown["token"]}
    done = ask("POST", "/api/memory/forget", {**named, **way}, timeout=_SECONDS)
    if json:
        output.show_json(done)
    else:
        _show_receipt(done)
    if not done["ok"]:
        raise typer.Exit(1)


def _preview(what: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Ask the daemon for a preview. An argument that looks like an id is tried as an id first, then as a text."""
    ways = [{"id": what}, {"text": what}] if _ID.fullmatch(what.strip().lower()) else [{"text": what}]
    for way in ways[:-1]:
        try:
            return way, ask("POST", "/api/memory/forget", {**way, "dry_run": True}, timeout=_SECONDS)
        except NotFound:
            continue
    return ways[-1], ask("POST", "/api/memory/forget", {**ways[-1], "dry_run": True}, timeout=_SECONDS)


def _show(shown: Mapping[str, Any]) -> None:
    rows = shown["rows"]
    telling = [row for row in rows if row["excerpt"]]
    output.table(
        ("Table", "Id", "Becomes", "Why", "Words"),
        [(row["table"], row["id"], row["deed"], _why(row), row["excerpt"][:80]) for row in telling[:_SHOWN]],
    )
    if len(rows) > len(telling[:_SHOWN]):
        output.say(f"and {len(rows) - len(telling[:_SHOWN])} more rows that hang on these; --json lists every one.")
    if not rows:
        output.say("No row holds that.")
    for table, deeds in shown["counts"].items():
        output.say(f"{table}: " + ", ".join(f"{n} {deed}" for deed, n in deeds.items()))
    if shown["shared"]:
        output.say(f"These have no other evidence and are deleted too: {', '.join(shown['shared'])}")
    for line in shown["rebuilt"]:
        output.say(f"made anew: {line}")
    for copy in shown["backups"]:
        n = sum(copy["rows"].values())
        output.say(f"backup {copy['name']}: {f'{n} rows' if n else 'is searched when it is done'}, would be rewritten")
    for notice in shown["notices"]:
        output.say(notice)


def _why(row: Mapping[str, Any]) -> str:
    return f"related {row['relevance']:.2f}" if row["how"] == "related" else str(row["how"])


def _show_receipts(receipt: str | None, json: bool) -> None:
    path = "/api/memory/receipts" if receipt is None else f"/api/memory/receipts/{quote(receipt, safe='')}"
    found = ask("GET", path)
    if json:
        output.show_json(found)
    elif receipt is not None:
        _show_receipt(found)
    else:
        rows = [(one["receipt"], one["at"][:19], one["actor"], _total(one), _holds(one)) for one in found]
        output.table(("Receipt", "When", "Who", "Rows", "Signature"), rows)
    if receipt is not None and not found["signature_holds"]:
        raise typer.Exit(1)


def _show_receipt(one: Mapping[str, Any]) -> None:
    searched: Mapping[str, Any] = one.get("searched", {})
    left = searched.get("left")
    rows: dict[str, object] = {"When": one["at"][:19], "Who": one["actor"], "Rows": _total(one)}
    rows |= {table: ", ".join(f"{n} {deed}" for deed, n in deeds.items()) for table, deeds in one["counts"].items()}
    rows |= {"Files": ", ".join(one.get("files", ())) or "-"}
    rows |= {
        "Write-ahead log": "emptied" if one.get("log_emptied") else "not yet: somebody is reading; it is tried again"
    }
    rows |= {"Found afterwards": "nothing" if searched and not left else left or "nobody looked: it was interrupted"}
    if "signature_holds" in one:
        rows["Signature"] = _holds(one)
    output.box(f"Receipt {one['receipt']}", rows)
    for copy in one.get("backups", ()):
        output.say(
            f"backup {copy['name']}: {'rewritten' if copy['rewritten'] else copy.get('trouble', 'not rewritten')}"
        )
    if searched.get("repeated"):
        output.say(f"Rows or files that nobody asked about repeat a whole text that went: {searched['repeated']}")
    output.say("Nobody can promise: " + "; ".join(one["not_promised"]) + ".")


def _total(one: Mapping[str, Any]) -> int:
    return sum(n for deeds in one["counts"].values() for n in deeds.values())


def _holds(one: Mapping[str, Any]) -> str:
    return "holds" if one["signature_holds"] else "does not hold"
