"""`filrouge notes`: the state of the notes vault, and the setup of Obsidian's plugin as its source."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.cli.output import Json
from filrouge.core.errors import BadInput
from filrouge.core.paths import home, store_secret

_NO_VAULT = "No vault is configured. Name the folder of your notes: filrouge settings notes_folder ~/Notes"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(notes)


def notes(
    trust: Annotated[
        str | None, typer.Option("--trust", help="Look at the certificate of this address, and trust it.")
    ] = None,
    key: Annotated[
        bool, typer.Option("--key", help="Enter the key of Obsidian's plugin; read from a pipe too.")
    ] = False,
    rewrite: Annotated[
        bool, typer.Option("--anew", help="Write pages and lines again that were removed from the vault.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Trust that certificate without asking.")] = False,
    json: Json = False,
) -> None:
    """Show the notes vault: what is indexed, what is added to prompts, what could not be read."""
    if trust is not None:
        _trust(trust, yes=yes)
    if key:
        _enter_key()
    if rewrite:
        ask("POST", "/api/memory/notes/anew", {})
    if trust is None and not key:
        _show_status(json=json)


def _trust(address: str, *, yes: bool) -> None:
    """Fetch and store the plugin's certificate. No authority signs it, so the user compares its fingerprint once.

    Raises:
        BadInput: the user cannot be asked, and `yes` is not given.
    """
    from filrouge.notes import vault  # imports numpy

    pem = vault.fetch_certificate(address)
    output.say(f"SHA-256 {vault.fingerprint(pem)}")
    if not yes:
        if not sys.stdin.isatty():
            raise BadInput(
                "This command needs confirmation, and stdin is not a terminal.",
                remedy="Compare the fingerprint, and add --yes.",
            )
        output.confirm("Is this the certificate in the settings of Obsidian's plugin?", abort=True)
    store_secret(home(), vault.CERTIFICATE, pem)
    output.say(f"Trusted. Name the vault: filrouge settings notes_folder {address}")


def _enter_key() -> None:
    from filrouge.notes import vault  # imports numpy

    key = output.prompt_secret("Key of the plugin") if sys.stdin.isatty() else sys.stdin.readline()
    if not key.strip() or not key.strip().isascii():
        raise BadInput("That is not a key.", remedy="It is in the settings of Obsidian's plugin Local REST API.")
    store_secret(home(), vault.KEY, key.strip())
    output.say("Stored in the home, readable only by you.")


def _show_status(*, json: bool) -> None:
    found: dict[str, Any] = ask("GET", "/api/memory/notes")
    if json:
        output.show_json(found)
        return
    if not found["folder"]:
        output.say(_NO_VAULT)
        return
    waiting = f", {found['waiting']} waiting" if found["waiting"] else ""
    output.box(
        "Notes",
        {
            "Vault": found["folder"],
            "State": found["problem"] or ("read" if found["is_there"] else "not read yet"),
            "Notes": f"{found['notes']}{waiting}",
            "Chunks": f"{found['chunks']} ({found['embedded']} found by meaning)",
            "Always brought": ", ".join(_fixed(note) for note in found["fixed"]) or "none",
            f"Tagged #{found['tag']}": ", ".join(found["tagged"]) or "none",
            "Into prompts": "yes" if found["enabled"] else "no (notes_enabled)",
            "Written into": _written(found["written"]),
            "Last look": found["looked_at"] or "none yet",
        },
    )
    if found["troubles"]:
        output.table(("Note", "Trouble"), [(note["path"], note["trouble"]) for note in found["troubles"]])

    unwritten = found["written"]["troubles"]
    if unwritten:
        rows = [(line["path"], line["memory_id"], line["trouble"]) for line in unwritten]
        output.table(("Page", "Memory", "Left as it stands"), rows)


def _written(written: dict[str, Any]) -> str:
    if not written["folder"]:
        return "nothing (notes_write_folder)"
    return written["problem"] or f"{written['folder']} (memories: {written['memories']}, pages: {written['pages']})"


def _fixed(note: dict[str, Any]) -> str:
    return note["path"] if note["found"] else f"{note['path']} (missing)"
