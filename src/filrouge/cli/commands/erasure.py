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
_ID_PATTERN: Final = re.compile(r"0[0-9a-hjkmnp-tv-z]{5,25}")
_MAX_ROWS_SHOWN: Final = 40


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("forget")(forget)


def forget(
    what: Annotated[
        str | None, typer.Argument(help="A text: everything about it. An id: that item and what depends on it.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Show what goes and forget it, without asking.")] = False,
    receipt: Annotated[
        str | None, typer.Option("--receipt", help="Show an earlier receipt, and whether its signature holds.")
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
        raise BadInput("With --json, no confirmation can be asked for.", remedy="Add --dry-run or --yes.")
    _forget(what, dry_run=dry_run, yes=yes, json=json)


def _forget(what: str, *, dry_run: bool, yes: bool, json: bool) -> None:
    target, shown = _preview(what)
    if json and dry_run:
        output.show_json(shown)
        return
    if not json:
        _show_preview(shown)
    if dry_run:
        return
    if not yes and not output.confirm("Forget this for good?", default=False):
        output.say("Nothing was changed.")
        return
    consent = {"at_once": True} if yes else {"token": shown["token"]}
    done = ask("POST", "/api/memory/forget", {**target, **consent}, timeout=_SECONDS)
    if json:
        output.show_json(done)
    else:
        _show_receipt(done)
    if not done["ok"]:
        raise typer.Exit(1)


def _preview(what: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Ask the daemon for a preview. An argument that looks like an id is tried as an id first, then as a text."""
    targets = [{"id": what}, {"text": what}] if _ID_PATTERN.fullmatch(what.strip().lower()) else [{"text": what}]
    for target in targets[:-1]:
        try:
            return target, ask("POST", "/api/memory/forget", {**target, "dry_run": True}, timeout=_SECONDS)
        except NotFound:
            continue
    return targets[-1], ask("POST", "/api/memory/forget", {**targets[-1], "dry_run": True}, timeout=_SECONDS)


def _show_preview(shown: Mapping[str, Any]) -> None:
    rows = shown["rows"]
    with_excerpt = [row for row in rows if row["excerpt"]]
    output.table(
        ("Table", "Id", "Becomes", "Why", "Words"),
        [
            (row["table"], row["id"], row["deed"], _why(row), row["excerpt"][:80])
            for row in with_excerpt[:_MAX_ROWS_SHOWN]
        ],
    )
    if more := len(rows) - len(with_excerpt[:_MAX_ROWS_SHOWN]):
        output.say(f"and {more} more rows that depend on these; --json lists all of them.")
    if not rows:
        output.say("No row contains that.")
    for table, deeds in shown["counts"].items():
        output.say(f"{table}: " + ", ".join(f"{n} {deed}" for deed, n in deeds.items()))
    if shown["shared"]:
        output.say(f"These have no other evidence and are deleted too: {', '.join(shown['shared'])}")
    for line in shown["rebuilt"]:
        output.say(f"rebuilt: {line}")
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
        rows = [(entry["receipt"], entry["at"][:19], entry["actor"], _total(entry), _holds(entry)) for entry in found]
        output.table(("Receipt", "When", "Who", "Rows", "Signature"), rows)
    if receipt is not None and not found["signature_holds"]:
        raise typer.Exit(1)


def _show_receipt(receipt: Mapping[str, Any]) -> None:
    searched: Mapping[str, Any] = receipt.get("searched", {})
    remaining = searched.get("left")
    rows: dict[str, object] = {"When": receipt["at"][:19], "Who": receipt["actor"], "Rows": _total(receipt)}
    rows |= {table: ", ".join(f"{n} {deed}" for deed, n in deeds.items()) for table, deeds in receipt["counts"].items()}
    rows |= {"Files": ", ".join(receipt.get("files", ())) or "-"}
    rows |= {
        "Write-ahead log": "emptied"
        if receipt.get("log_emptied")
        else "not yet: a reader has it open; it is tried again"
    }
    rows |= {
        "Found afterwards": "nothing" if searched and not remaining else remaining or "not searched: it was interrupted"
    }
    if "signature_holds" in receipt:
        rows["Signature"] = _holds(receipt)
    output.box(f"Receipt {receipt['receipt']}", rows)
    for copy in receipt.get("backups", ()):
        output.say(
            f"backup {copy['name']}: {'rewritten' if copy['rewritten'] else copy.get('trouble', 'not rewritten')}"
        )
    if searched.get("repeated"):
        output.say(f"Rows or files outside this request repeat a whole text that was deleted: {searched['repeated']}")
    output.say("Not promised: " + "; ".join(receipt["not_promised"]) + ".")


def _total(receipt: Mapping[str, Any]) -> int:
    return sum(n for deeds in receipt["counts"].values() for n in deeds.values())


def _holds(receipt: Mapping[str, Any]) -> str:
    return "holds" if receipt["signature_holds"] else "does not hold"
