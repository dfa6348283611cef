"""Commands about the daemon: start, stop, status."""

from __future__ import annotations

import typer

from filrouge.cli import output
from filrouge.cli.client import SHORT_SECONDS, ask, poll
from filrouge.cli.options import Json
from filrouge.core.errors import Busy, DaemonUnavailable
from filrouge.core.paths import home
from filrouge.daemon import client
from filrouge.daemon.process import is_held, owner_pid
from filrouge.daemon.waking import wait_started, wake

app = typer.Typer(help="The one process that owns the memory.", no_args_is_help=True)
_STOP_SECONDS = 15.0


@app.command()
def start(json: Json = False) -> None:
    """Start the daemon, if it does not run yet."""
    try:
        ask("GET", "/health", start=False, timeout=SHORT_SECONDS)
    except DaemonUnavailable:
        if not client.is_absent(home()):
            raise
        wake(home())
    status(json)


@app.command()
def stop(json: Json = False) -> None:
    """Stop the daemon; what is begun is finished first."""
    wait_started(home())
    leaving = owner_pid(home())
    try:
        ask("POST", "/daemon/stop", start=False, timeout=SHORT_SECONDS)
    except DaemonUnavailable:
        if not client.is_absent(home()):
            raise
        _say({"running": False, "was_running": False}, "The daemon was not running.", json)
        return
    # An agent's next event may start another daemon meanwhile.
    if not poll(lambda: not is_held(home()) or owner_pid(home()) not in (leaving, 0), _STOP_SECONDS):
        raise Busy("The daemon has not stopped yet; it is finishing its work.")
    _say({"running": False, "was_running": True}, "The daemon has stopped.", json)


@app.command()
def status(json: Json = False) -> None:
    """Whether the daemon runs, and where."""
    try:
        found = ask("GET", "/daemon/status", start=False, timeout=SHORT_SECONDS)
    except DaemonUnavailable:
        if not client.is_absent(home()):
            raise
        starting = client.is_starting(home())
        _say(
            {"running": False, "starting": starting, "home": home()},
            f"Starting ({home()})." if starting else f"Stopped ({home()}).",
            json,
        )
        raise typer.Exit(3) from None
    places = ", ".join(filter(None, (found["url"], found["socket"])))
    line = f"Running: version {found['version']}, pid {found['pid']}, {places}"
    writes = found.get("writes", {"works": True})  # an older daemon does not tell
    trouble = "" if writes["works"] else f"Nothing new is stored: {writes['cause']}. {writes['next']}"
    _say(found, "\n".join(filter(None, (line, found["notice"], trouble))), json)


def _say(document: dict[str, object], line: str, json: bool) -> None:
    if json:
        output.show_json(document)
    else:
        output.say(line)
