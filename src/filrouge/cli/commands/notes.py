"""`filrouge notes`: how the vault stands. `filrouge search --in notes` searches it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from filrouge.cli import output
from filrouge.cli.talk import ask

Json = Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")]
_NO_VAULT = "No vault is named. Name the folder of your notes: filrouge settings notes_folder ~/Notes"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(notes)


def notes(json: Json = False) -> None:
    """Show the vault: what is indexed, what is brought into prompts, what could not be read."""
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
            "State": found["problem"] or ("read" if found["is_there"] else "not looked at yet"),
            "Notes": f"{found['notes']}{waiting}",
            "Chunks": f"{found['chunks']} ({found['embedded']} found by meaning)",
            "Always brought": ", ".join(_fixed(one) for one in found["fixed"]) or "none",
            f"Tagged #{found['tag']}": ", ".join(found["tagged"]) or "none",
            "Into prompts": "yes" if found["enabled"] else "no (notes_enabled)",
            "Last look": found["looked_at"] or "none yet",
        },
    )
    if found["troubles"]:
        output.table(("Note", "Trouble"), [(one["path"], one["trouble"]) for one in found["troubles"]])


def _fixed(one: dict[str, Any]) -> str:
    return one["path"] if one["found"] else f"{one['path']} (not there)"
