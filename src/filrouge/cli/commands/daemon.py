"""`filrouge daemon`, `logs`, `paths`, `config` and `token`.

`logs` reads the log file and `paths` computes the paths, so both work without a daemon. `token` manages access to the
daemon over TCP.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any
from urllib.parse import quote

import typer

from filrouge.cli import output
from filrouge.cli.client import ask, ask_if_running, poll
from filrouge.cli.output import Json, format_time
from filrouge.core import paths as home_paths
from filrouge.core.choices import invalid_choice
from filrouge.core.errors import BadInput, Busy
from filrouge.core.paths import home
from filrouge.daemon import client, process
from filrouge.daemon.process import ensure_running, is_held, owner_pid, wait_started

daemon_app = typer.Typer(help="The one process that owns the memory.", no_args_is_help=True)
_STOP_SECONDS = 15.0


@daemon_app.command()
def start(json: Json = False) -> None:
    """Start the daemon if it does not run yet."""
    if ask_if_running("GET", "/health") is None:
        ensure_running(home())
    status(json)


@daemon_app.command()
def stop(json: Json = False) -> None:
    """Stop the daemon. It finishes the work that it has begun."""
    wait_started(home())
    old_pid = owner_pid(home())
    if ask_if_running("POST", "/daemon/stop") is None:
        output.answer({"running": False, "was_running": False}, "The daemon was not running.", json=json)
        return
    # An agent's next event may start another daemon meanwhile.
    if not poll(lambda: not is_held(home()) or owner_pid(home()) not in (old_pid, 0), _STOP_SECONDS):
        raise Busy("The daemon has not stopped yet; it is finishing its work.")
    output.answer({"running": False, "was_running": True}, "The daemon has stopped.", json=json)


@daemon_app.command()
def status(json: Json = False) -> None:
    """Show whether the daemon runs, and where."""
    found = ask_if_running("GET", "/daemon/status")
    if found is None:
        starting = client.is_starting(home())
        line = f"Starting ({home()})." if starting else f"Stopped ({home()})."
        output.answer({"running": False, "starting": starting, "home": home()}, line, json=json)
        raise typer.Exit(3)
    addresses = ", ".join(filter(None, (found["url"], found["socket"])))
    line = f"Running: version {found['version']}, pid {found['pid']}, {addresses}"
    writes = found.get("writes", {"works": True})  # an older daemon does not report it
    problem = "" if writes["works"] else f"Nothing new is stored: {writes['cause']}. {writes['next']}"
    output.answer(found, "\n".join(filter(None, (line, found["notice"], problem))), json=json)


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(dashboard)
    app.command()(logs)
    app.command()(paths)


def dashboard(
    print_url: Annotated[bool, typer.Option("--print-url", help="Print the link and open nothing.")] = False,
    scope: Annotated[str, typer.Option("--scope", help="What the browser may do: read, write or admin.")] = "admin",
    json: Json = False,
) -> None:
    """Open the dashboard in the browser, signed in by a link that works once."""
    if ask_if_running("GET", "/health") is None:
        ensure_running(home())
    link = ask("POST", "/api/tokens/login-links", {"scope": _check_scope(scope)})
    opened = not print_url and not json and _open_browser(link["url"])
    if json:
        output.show_json(link)
    elif opened:
        output.say("The dashboard opens in your browser. If it does not: filrouge dashboard --print-url")
    else:
        output.write(link["url"] + "\n")


def _open_browser(url: str) -> bool:
    """Ask the desktop to open an address; return False if there is no desktop or no browser."""
    import webbrowser

    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False  # a text browser would take over the terminal
    return webbrowser.open(url)


def logs(
    number: Annotated[int, typer.Option("-n", "--lines", help="So many of the newest lines.", min=0, max=100_000)] = 40,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Also print new lines as they are written.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the lines as records.")] = False,
) -> None:
    """Show the newest lines of the log. The log contains no text of conversations."""
    if json and follow:
        raise BadInput("--json and --follow cannot be combined.")
    lines = process.last_lines(home(), number)
    if json:
        output.show_json(process.parse_lines(lines))
        return
    for line in lines:
        output.write(f"{line}\n")
    if follow:
        for line in process.new_lines(home()):
            if line is not None:
                output.write(f"{line}\n")
                output.flush()


def paths(json: Json = False) -> None:
    """Show the paths of the home, the socket and the files. Nothing is started or created."""
    directory = home_paths.home()
    names = {
        "database": home_paths.DATABASE,
        "log": home_paths.LOG,
        "spool": home_paths.SPOOL,
        "backups": home_paths.BACKUPS,
        "runtime": home_paths.RUNTIME,
        "config": home_paths.CONFIG,
    }
    found = {"home": directory, "socket": home_paths.socket_path(directory)}
    found |= {name: home_paths.inside(directory, file) for name, file in names.items()}
    if json:
        output.show_json(found)
    else:
        output.table(("What", "Where"), list(found.items()))


config_app = typer.Typer(name="config", help="The settings in force.", no_args_is_help=True)


@config_app.callback()
def config() -> None:
    """The settings in force."""


@config_app.command()
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Also where each value comes from.")] = False,
    json: Json = False,
) -> None:
    """Show the settings in force."""
    found: dict[str, Any] = ask("GET", "/api/memory/settings")
    if not origin:
        if json:
            output.show_json(found)
        else:
            output.table(("Setting", "Value"), list(found.items()))
        return
    origins: dict[str, str] = ask("GET", "/api/memory/settings/origins")
    if json:
        output.show_json({key: {"value": value, "origin": origins[key]} for key, value in found.items()})
    else:
        output.table(("Setting", "Value", "From"), [(key, value, origins[key]) for key, value in found.items()])


token_app = typer.Typer(help="Who may reach the daemon over TCP.", no_args_is_help=True)
_SCOPES = ("read", "write", "admin")


@token_app.command()
def create(
    name: Annotated[str, typer.Option("--name", help="What it is for.")] = "token",
    scope: Annotated[str, typer.Option("--scope", help="How far it reaches: read, write or admin.")] = "read",
    json: Json = False,
) -> None:
    """Create a token and print it. It is shown only once."""
    created = ask("POST", "/api/tokens", {"name": name, "scope": _check_scope(scope)})
    if json:
        output.show_json(created)
    else:
        output.write(created["token"] + "\n")


@token_app.command("list")
def list_(json: Json = False) -> None:
    """List tokens and browser sessions, the newest first."""
    found: dict[str, Any] = ask("GET", "/api/tokens")
    if json:
        output.show_json(found)
        return
    columns = ("Id", "Kind", "Name", "Scope", "Made", "Last used", "State")
    output.table(columns, [_token_row(token) for token in found["tokens"]])


@token_app.command()
def revoke(token_id: Annotated[str, typer.Argument(help="The id, as `list` shows it.")], json: Json = False) -> None:
    """Revoke a token or a browser session."""
    revoked = ask("DELETE", f"/api/tokens/{quote(token_id, safe='')}")
    output.answer(revoked, f"Revoked: {revoked['name']} ({revoked['scope']}), {revoked['id']}", json=json)


@token_app.command()
def login(
    scope: Annotated[str, typer.Option("--scope", help="How far the browser may reach.")] = "admin",
    json: Json = False,
) -> None:
    """Print a link that signs a browser in. It works once and expires after a few minutes."""
    link = ask("POST", "/api/tokens/login-links", {"scope": _check_scope(scope)})
    if json:
        output.show_json(link)
    else:
        output.write(link["url"] + "\n")


def _check_scope(scope: str) -> str:
    if scope not in _SCOPES:
        raise BadInput(invalid_choice("--scope", scope, _SCOPES), remedy="")
    return scope


def _token_row(token: dict[str, Any]) -> tuple[str, ...]:
    state = (
        "revoked" if token["revoked_at"] else f"until {format_time(token['expires_at'])}" if token["expires_at"] else ""
    )
    last_used = format_time(token["last_used_at"]) or "never"
    return (
        token["id"],
        token["kind"],
        token["name"],
        token["scope"],
        format_time(token["created_at"]),
        last_used,
        state or "-",
    )
