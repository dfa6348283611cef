"""`filrouge doctor`: what is wrong, why, and what to do about it.

Each check answers ok, warn or fail with its cause and its remedy, fails alone, and has a time limit, so that
the whole ends in seconds even where the daemon hangs.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

from filrouge._version import __version__
from filrouge.capture import inbox
from filrouge.cli import output
from filrouge.cli.commands.doctor_deep import DEEP_CHECKS
from filrouge.cli.commands.doctor_findings import MEND, Finding, reading
from filrouge.clock import SystemClock, from_text
from filrouge.daemon import client
from filrouge.errors import DaemonUnavailable, FilrougeError
from filrouge.home import DATABASE, SPOOL, home, inside, socket_path
from filrouge.store.events import Events
from filrouge.store.soundness import progress
from filrouge.store.sqlite import Database, check_engine
from filrouge.store.vectors import LEAST_COVERAGE
from filrouge.transfer import backup

_LEAST_FREE_BYTES = 200 * 1024 * 1024
_DAEMON_SECONDS = 2.0
#: A backup is made a day after the one before it, and somebody may not work for a day.
_OLD_BACKUP_DAYS = 3
#: A provider is given five seconds to say that it is well.
_MODEL_SECONDS = 10.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(
    deep: Annotated[bool, typer.Option("--deep", help="Also check every row, the journal and the vectors.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check the installation, the home, the database and the daemon."""
    findings = examine(home(), deep=deep)
    if json:
        output.show_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            mark = {"ok": "✓", "warn": "!", "fail": "✗"}[finding.state]
            output.say(f"{mark} {finding.check}: {finding.cause}{f' → {finding.remedy}' if finding.remedy else ''}")
    if any(finding.state != "ok" for finding in findings):
        raise typer.Exit(1)


def examine(directory: str, *, deep: bool = False) -> list[Finding]:
    """Run every check on a home."""
    return [_safely(check, directory) for check in (*CHECKS, *(DEEP_CHECKS if deep else ()))]


def _safely(check: Callable[[str], Finding], directory: str) -> Finding:
    name = (check.__doc__ or check.__name__).rstrip(".")
    try:
        return check(directory)
    except FilrougeError as error:
        return Finding(name, "fail", error.message, error.remedy)
    except OSError as error:
        return Finding(name, "fail", f"{error.strerror}: {error.filename}", "Check the path and its permissions.")
    except Exception as error:  # a damaged row, or a damaged name of a column, can be anything
        return Finding(name, "fail", f"it ended with {type(error).__name__}: {error}", MEND)


def _python(_: str) -> Finding:
    """Python."""
    return Finding("Python", "ok", f"{sys.version.split()[0]}, filrouge {__version__}")


def _sqlite(_: str) -> Finding:
    """SQLite."""
    check_engine()
    return Finding("SQLite", "ok", "new enough to be safe")


def _home(directory: str) -> Finding:
    """Home."""
    if not os.path.isdir(directory):
        return Finding("Home", "warn", f"{directory} does not exist yet", "Run `filrouge daemon start`.")
    if not os.access(directory, os.W_OK):
        return Finding("Home", "fail", f"{directory} is not writable", f"Run `chmod u+rwx {directory}`.")
    mode = stat.S_IMODE(os.stat(directory).st_mode)
    if mode & 0o077:
        return Finding("Home", "warn", f"others can look into {directory}", f"Run `chmod 700 {directory}`.")
    return Finding("Home", "ok", directory)


def _space(directory: str) -> Finding:
    """Disk space."""
    there = directory
    while not os.path.exists(there):
        there = os.path.dirname(there)
    free = shutil.disk_usage(there).free
    if free < _LEAST_FREE_BYTES:
        return Finding("Disk space", "fail", f"{free >> 20} MB are free", "Free some space: capture stops without it.")
    return Finding("Disk space", "ok", f"{free >> 30} GB free")


def _database(directory: str) -> Finding:
    """Database."""
    path = inside(directory, DATABASE)
    if not os.path.exists(path):
        return Finding("Database", "warn", "there is none yet", "Run `filrouge daemon start`.")
    database = Database(path, readonly=True)
    try:
        complaints = database.check()
    finally:
        database.close()
    if complaints:
        return Finding("Database", "fail", complaints[0], MEND)
    return Finding("Database", "ok", f"sound, {os.path.getsize(path) >> 10} KB")


def _backups(directory: str) -> Finding:
    """Backups."""
    failed, last = backup.failure(directory), backup.newest(directory)
    age = _days_since(last.at) if last else 0.0
    found = f"the newest proven one is {age:.1f} days old" if last else "there is none yet"
    if failed:
        return Finding("Backups", "fail", f"{found}; the last one failed: {failed['error']}", "Run `filrouge backup`.")
    if not os.path.exists(inside(directory, DATABASE)):
        return Finding("Backups", "ok", found)
    with reading(directory) as tx:
        changed, begun = last is None or progress(tx) != last.mark, tx.one("journal.begun")
    waited = age if last else _days_since(begun["at"]) if begun and begun["at"] else 0.0
    if changed and waited > _OLD_BACKUP_DAYS:
        return Finding("Backups", "warn", found, "Run `filrouge backup`, and see `filrouge settings backup_hours`.")
    return Finding("Backups", "ok", found)


def _days_since(at: str) -> float:
    return (SystemClock().now() - from_text(at)).total_seconds() / 86_400


def _daemon(directory: str) -> Finding:
    """Daemon."""
    try:
        reply = client.request(directory, "GET", "/health", None, _DAEMON_SECONDS)
    except DaemonUnavailable:
        if client.is_absent(directory):
            return Finding(
                "Daemon", "warn", "it does not run", "It starts at the next hook, or: `filrouge daemon start`."
            )
        return Finding(
            "Daemon",
            "fail",
            f"it holds {socket_path(directory)} and does not answer",
            "End the process named in daemon.json.",
        )
    if reply.version != __version__:
        return Finding("Daemon", "warn", f"it is version {reply.version}", "Run `filrouge daemon stop`.")
    return Finding("Daemon", "ok", f"answers, version {reply.version}")


def _queue(directory: str) -> Finding:
    """Queue."""
    try:
        queue: dict[str, Any] = client.request(directory, "GET", "/daemon/status", None, _DAEMON_SECONDS).body["queue"]
    except (DaemonUnavailable, KeyError):
        return Finding("Queue", "ok", "unknown while the daemon is away")
    if queue["dead"]:
        return Finding("Queue", "warn", f"{queue['dead']} jobs were set aside after eight tries", "See filrouge.log.")
    return Finding("Queue", "ok", f"{queue['waiting']} waiting")


def _ledger(directory: str) -> Finding:
    """Ledger."""
    if not os.path.exists(inside(directory, DATABASE)):
        return Finding("Ledger", "ok", "nothing was taken in yet")
    with reading(directory) as tx:
        ledger, received, abandoned = Events(tx).ledger(), Events(tx).received(), Events(tx).abandoned()
    sums = " + ".join(f"{number} {state}" for state, number in ledger.items())
    if received != sum(ledger.values()):
        return Finding("Ledger", "fail", f"{received} events received, but {sums}", MEND)
    if abandoned:
        cause = f"{abandoned} events wait to be understood, and no job will do it"
        return Finding("Ledger", "fail", cause, "What was said is kept; say so in a report, with filrouge.log.")
    return Finding("Ledger", "ok", f"{received} events received = {sums}")


def _spool(directory: str) -> Finding:
    """Spool."""
    path = inside(directory, SPOOL)
    waiting = len(inbox.waiting(path))
    aside = [name for name in (os.listdir(path) if os.path.isdir(path) else []) if name.endswith(".aside")]
    if aside:
        return Finding(
            "Spool", "warn", f"{len(aside)} files could not be read", f"Look at {path}/*.aside, then delete them."
        )
    if waiting and client.is_absent(directory):
        return Finding("Spool", "warn", f"{waiting} events wait for a daemon", "Run `filrouge daemon start`.")
    return Finding("Spool", "ok", f"{waiting} events waiting")


def _embedder(_: str) -> Finding:
    """Embedding model."""
    from filrouge.embed.registry import embedder

    model = embedder("e5")
    model.query("ready?")
    known = model.space.calibration
    scale = f"calibration {known.origin}, {known.pairs:,} pairs" if known else "not calibrated yet"
    return Finding("Embedding model", "ok", f"{model.space.model}, {model.space.revision}; {scale}")


def _space_of_vectors(directory: str) -> Finding:
    """Embedding space."""
    name = "Embedding space"
    try:
        reply = client.request(directory, "GET", "/embedding", None, _DAEMON_SECONDS)
        found, coverage = reply.body, reply.body["coverage"]
    except (DaemonUnavailable, KeyError):
        return Finding(name, "ok", "unknown while the daemon is away")
    made = f"{coverage['done']} of {coverage['total']} texts have their vectors"
    if found["building"]:
        building = found["building"]
        how = f"{building['done']} of {building['total']} texts are in {building['space']}"
        if building["state"] == "failed":
            return Finding(name, "warn", f"{how}; it failed: {building['error']}", "Run `filrouge reindex`.")
        return Finding(name, "ok", how)
    if found["notice"]:
        return Finding(name, "warn", found["notice"].rstrip("."), "Run `filrouge reindex`.")
    if coverage["share"] < LEAST_COVERAGE:
        return Finding(name, "warn", made, "Run `filrouge reindex`.")
    return Finding(name, "ok", f"{found['model']}, {made}")


def _model(directory: str) -> Finding:
    """Model."""
    try:
        found = client.request(directory, "GET", "/extract/status", None, _MODEL_SECONDS).body
        if not found["enabled"]:
            return Finding("Model", "ok", "nothing is understood: extract_provider is off")
        who, health = f"{found['provider']} {found['model']}", str(found["status"])
    except (DaemonUnavailable, KeyError):
        return Finding("Model", "ok", "unknown while the daemon is away")
    if health == "healthy":
        return Finding("Model", "ok", who)
    state: Literal["warn", "fail"] = "fail" if health.startswith("error") else "warn"
    return Finding(
        "Model", state, f"{who}: {health}", "See docs/guides/models.md; `filrouge extract` shows what waits."
    )


CHECKS: tuple[Callable[[str], Finding], ...] = (
    _python,
    _sqlite,
    _home,
    _space,
    _database,
    _backups,
    _daemon,
    _queue,
    _ledger,
    _spool,
    _embedder,
    _space_of_vectors,
    _model,
)
