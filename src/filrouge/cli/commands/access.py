"""`filrouge token`: who may come in over TCP; create, list, revoke, and sign a browser in."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.cli.options import Json
from filrouge.core.choices import refusal
from filrouge.core.errors import BadInput

token_app = typer.Typer(help="Who may reach the daemon over TCP.", no_args_is_help=True)
_SCOPES = ("read", "write", "admin")


@token_app.command()
def create(
    name: Annotated[str, typer.Option("--name", help="What it is for.")] = "token",
    scope: Annotated[str, typer.Option("--scope", help="How far it reaches: read, write or admin.")] = "read",
    json: Json = False,
) -> None:
    """Make a token and print it, alone: it is shown this once."""
    made = ask("POST", "/api/tokens", {"name": name, "scope": _checked(scope)})
    if json:
        output.show_json(made)
    else:
        output.write(made["token"] + "\n")


@token_app.command("list")
def list_(json: Json = False) -> None:
    """List tokens and browsers' sessions, the newest first."""
    found: dict[str, Any] = ask("GET", "/api/tokens")
    if json:
        output.show_json(found)
        return
    columns = ("Id", "Kind", "Name", "Scope", "Made", "Last used", "State")
    output.table(columns, [_row(token) for token in found["tokens"]])


@token_app.command()
def revoke(token_id: Annotated[str, typer.Argument(help="The id, as `list` shows it.")], json: Json = False) -> None:
    """Let nobody in with that token or session any more."""
    gone = ask("DELETE", f"/api/tokens/{quote(token_id, safe='')}")
    if json:
        output.show_json(gone)
    else:
        output.say(f"Revoked: {gone['name']} ({gone['scope']}), {gone['id']}")


@token_app.command()
def login(
    scope: Annotated[str, typer.Option("--scope", help="How far the browser may reach.")] = "admin",
    json: Json = False,
) -> None:
    """Print a link that signs a browser in: it works once, for some minutes."""
    made = ask("POST", "/api/tokens/login-links", {"scope": _checked(scope)})
    if json:
        output.show_json(made)
    else:
        output.write(made["url"] + "\n")


def _checked(scope: str) -> str:
    if scope not in _SCOPES:
        raise BadInput(refusal("--scope", scope, _SCOPES), remedy="")
    return scope


def _row(token: dict[str, Any]) -> tuple[str, ...]:
    state = "revoked" if token["revoked_at"] else f"until {_minute(token['expires_at'])}" if token["expires_at"] else ""
    used = _minute(token["last_used_at"]) or "never"
    return token["id"], token["kind"], token["name"], token["scope"], _minute(token["created_at"]), used, state or "-"


def _minute(at: str | None) -> str:
    return f"{at[:16].replace('T', ' ')} UTC" if at else ""
