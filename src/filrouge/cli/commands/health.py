"""`filrouge health`: how well the whole works, in figures; 1 where something is to be done, with the next command."""

from __future__ import annotations

from typing import Any

import typer

from filrouge.capture import losses
from filrouge.cli import output
from filrouge.cli.client import SHORT_SECONDS, ask
from filrouge.cli.options import Json
from filrouge.core.errors import DaemonUnavailable
from filrouge.core.paths import home
from filrouge.daemon import client

#: Bytes from which on a part of the home is named.
_WORTH_SHOWING = 1_000_000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(health)


def health(json: Json = False) -> None:
    """Show how well it works: threads, bridges, vectors, models, queue, daemon."""
    try:
        found = ask("GET", "/daemon/health", start=False, timeout=SHORT_SECONDS)
    except DaemonUnavailable:
        if not client.is_absent(home()):
            raise
        found = _stopped()
    if json:
        output.show_json(found)
    else:
        for line in _lines(found):
            output.say(line)
    if found["warnings"]:
        raise typer.Exit(1)


def threads_line(counts: dict[str, int]) -> str:
    """`158 (100 active, 58 suspended)`, and how many are archived."""
    line = f"{counts['active'] + counts['suspended']} ({counts['active']} active, {counts['suspended']} suspended)"
    return f"{line}, {counts['archived']} archived" if counts["archived"] else line


def _stopped() -> dict[str, Any]:
    """What can be told while no daemon runs."""
    lost = losses.read(home())
    warnings = [{"what": "Daemon", "cause": "it does not run", "next": "filrouge daemon start"}]
    if lost.events:
        warnings.append({"what": "Lost events", "cause": lost.sentence(), "next": "filrouge doctor"})
    return {"status": "warn", "daemon": "Stopped", "lost": lost._asdict(), "warnings": warnings}


def _lines(found: dict[str, Any]) -> list[str]:
    lines = list[str]()
    if found["daemon"] == "Running":
        llm, queue = found["llm"], found["queue"]
        ledger = ", ".join(f"{number} {state}" for state, number in sorted(found["ledger"].items()))
        lines += [
            f"Threads: {threads_line(found['threads'])}",
            f"Bridges: {found['bridges']['stored']}",
            f"Continuation rate: {_percent(found['continuation']['rate'])}",
            f"Reactivation rate: {_percent(found['reactivation']['rate'])}",
            f"Embedding coverage: {_percent(found['embedding_coverage']['rate'])}",
            f"LLM calls: {llm['calls']} in {llm['days']} days (${llm['dollars']:.2f}), {llm['today']['calls']} today",
            f"Queue: {queue['waiting']} waiting, {queue['running']} running, {queue['dead']} dead",
            f"Events: {ledger or 'none yet'}",
            f"Storage: {_storage(found['storage'])}",
        ]
    lines.append(f"Daemon: {found['daemon']}")
    return lines + [f"! {one['what']}: {one['cause']} → {one['next']}" for one in found["warnings"]]


def _storage(found: dict[str, Any]) -> str:
    """`812 MB of 5000 (database 640, words 90, backups 82); retention took 120 tool outputs on 2026-05-01`."""
    parts = sorted(found["parts"].items(), key=lambda one: -one[1])
    shown = ", ".join(f"{name} {size / 1e6:,.0f}" for name, size in parts if size >= _WORTH_SHOWING)
    cap = f" of {found['cap'] / 1e6:,.0f}" if found["cap"] else ""
    line = f"{found['bytes'] / 1e6:,.0f} MB{cap}{f' ({shown})' if shown else ''}"
    last = found["retention"]
    if last is None:
        return line
    taken = last["taken"]
    counts = f"{taken.get('tools', 0)} tool outputs, {taken.get('noise', 0)} filtered messages"
    return f"{line}; retention took {counts} on {last['at'][:10]}"


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.1f}%"
