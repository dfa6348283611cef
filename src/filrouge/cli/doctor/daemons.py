"""Checks of the settings, the daemon, the access to it over TCP, the spool and the queue.

Settings are checked layer by layer (file, database, environment, project file), so that the finding names the layer at
fault.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import tomllib
from datetime import timedelta
from typing import Any, Final

from filrouge._version import __version__
from filrouge.capture import inbox
from filrouge.capture.events import DISABLED_VARIABLE
from filrouge.capture.intake import redact_completely
from filrouge.cli.doctor.probes import change_mode, mode_of, names_in, remove, size_of
from filrouge.cli.doctor.scene import (
    ASK_SECONDS,
    HEALTH_SECONDS,
    START_REMEDY,
    CheckList,
    CheckResult,
    NotKnown,
    Scene,
    fail,
    note,
    ok,
    warn,
)
from filrouge.core.choices import PROJECT_KEY, unknown_keys, unknown_variables
from filrouge.core.clock import from_text
from filrouge.core.errors import BadConfig, DaemonUnavailable, HubUnavailable, NotFound
from filrouge.core.network import is_loopback
from filrouge.core.paths import (
    CONFIG,
    FAILURE,
    LOCK,
    LOG,
    PROJECT_FILE,
    REFUSED,
    RUNTIME,
    SPOOL,
    TEAM_TOKEN,
    find_project_file,
    load_secret,
    socket_path,
)
from filrouge.core.settings import Settings, allowed_in_project_file, from_environment
from filrouge.core.settings import check as check_values
from filrouge.daemon import client
from filrouge.daemon.process import LOG_BYTES, ensure_running, home_lock, last_lines, parse_lines
from filrouge.daemon.starting import is_locked
from filrouge.hosts import hook_input
from filrouge.hosts import project as projects
from filrouge.hub.client import HubClient
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.repository import Token, Tokens
from filrouge.team.repository import Team

CHECKS: Final = CheckList()
check: Final = CHECKS.check

# The settings.

_NOT_TOML: Final = (tomllib.TOMLDecodeError, UnicodeDecodeError)
_OFF: Final = ("", "0", "false", "no", "off")


@check("Settings file", "settings")
def _file(scene: Scene) -> CheckResult:
    path = scene.path(CONFIG)
    if not os.path.exists(path):
        return ok(f"there is no {CONFIG}")
    try:
        _toml(path)
    except _NOT_TOML as error:
        return fail(f"{path} is not valid TOML: {error}", f"Mend or remove {path}; the daemon does not start with it.")
    return ok(path)


@check("Settings in the file", "settings")
def _in_file(scene: Scene) -> CheckResult:
    path = scene.path(CONFIG)
    try:
        values = _toml(path) if os.path.exists(path) else {}
    except _NOT_TOML as error:
        raise NotKnown(f"unknown while {CONFIG} cannot be read") from error
    return _valid(values, where=CONFIG, remedy=f"Change it in {path}; `filrouge settings` lists what there is.")


def _mend_file_mode(scene: Scene) -> list[str]:
    path = scene.path(CONFIG)
    if not os.path.exists(path) or os.stat(path).st_uid != scene.machine.user or not (mode := mode_of(path)) & 0o077:
        return []
    return [change_mode(path, CONFIG, mode, mode & 0o700)]


@check("Mode of the settings file", "settings", mend=_mend_file_mode)
def _file_mode(scene: Scene) -> CheckResult:
    path = scene.path(CONFIG)
    if os.path.exists(path) and mode_of(path) & 0o077:
        return warn(f"other users can read {path}", f"Run `chmod 600 {path}`, or `filrouge doctor --fix`.")
    return ok("other users cannot read the settings")


@check("Keys in the settings file", "settings")
def _keys_in_file(scene: Scene) -> CheckResult:
    path = scene.path(CONFIG)
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        for number, line in enumerate(lines, 1):
            if redact_completely(line) != line:
                cause = f"line {number} of {path} contains what looks like a key or a password"
                return warn(cause, "Put keys into the environment of the daemon, as in docs/guides/models.md.")
    return ok("the settings file contains no key")


@check("Stored settings", "settings")
def _stored(scene: Scene) -> CheckResult:
    stored = scene.stored()
    if not stored:
        return ok("no settings are stored yet")
    known = {key: value for key, value in stored.items() if key in Settings.model_fields}
    try:
        check_values(known, where="stored")
    except BadConfig as error:
        return fail(error.message, "Set it again: `filrouge settings NAME VALUE`.")
    return ok("all are valid")


@check("Environment", "settings")
def _environment(scene: Scene) -> CheckResult:
    for name, suggestion in unknown_variables(scene.environ):
        return warn(
            f"{name} is not a setting and has no effect", f"{suggestion} Unset it, or correct its name.".strip()
        )
    return _valid(from_environment(scene.environ), where="environment", remedy="Correct or unset that variable.")


@check("Project file", "settings")
def _project_file(scene: Scene) -> CheckResult:
    path = find_project_file(scene.cwd)
    if not path:
        return ok("there is no project file here")
    try:
        found = _toml(path)
    except _NOT_TOML as error:
        return warn(
            f"{path} is not valid TOML: {error}", f"Mend or remove {path}; until then its settings are ignored."
        )
    for key, suggestion in unknown_keys(found):
        return warn(
            f"{path} sets {key!r}, which is not a setting and has no effect", f"{suggestion} Correct it there.".strip()
        )
    values = {key: value for key, value in found.items() if key != PROJECT_KEY}
    if ignored := sorted(key for key in values if not allowed_in_project_file(key)):
        cause = f"{path} sets {len(ignored)} settings that a repository may not set: {', '.join(ignored[:3])}"
        return note(cause, f"Put them into {scene.path(CONFIG)} if you want them.")
    return _valid(values, where=path, remedy=f"Change it in {path}.")


@check("Joined folders", "settings")
def _joined_folders(scene: Scene) -> CheckResult:
    waiting: list[dict[str, str]] = scene.daemon.ask("/daemon/status").get("waiting_folders", [])
    if waiting:
        folder = waiting[0]["folder"]
        cause = f"{len(waiting)} folders name a project of other folders and do not see its memories, such as {folder}"
        return note(cause, f"If it is the same project, run `filrouge project join {shlex.quote(folder)}`.")
    return ok("no folder waits for consent")


@check("Capture", "settings")
def _capture(scene: Scene) -> CheckResult:
    if scene.variable(DISABLED_VARIABLE).lower() not in _OFF:
        return warn(f"hooks do nothing: {DISABLED_VARIABLE} is set", f"Unset {DISABLED_VARIABLE}.")
    if not scene.settings().auto_capture:
        return warn("nothing is captured: auto_capture is off", "Run `filrouge settings auto_capture true`.")
    if not projects.is_capture_enabled(scene.cwd, scene.environ):
        return note(f"nothing is captured here: {PROJECT_FILE} switches it off", f"See {find_project_file(scene.cwd)}.")
    if hook_input.is_disabled(hook_input.settings_of(scene.home), projects.find_names(scene.cwd, scene.environ)):
        return note("nothing is captured in this project", "See `filrouge settings disabled_projects`.")
    return ok("capture is on")


def _valid(values: dict[str, Any], *, where: str, remedy: str) -> CheckResult:
    try:
        check_values(values, where=where)
    except BadConfig as error:
        return fail(error.message, remedy)
    return ok(f"{len(values)} set" if values else "nothing is set there")


def _toml(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        return tomllib.load(file)


# The daemon process: health, version, files left by a dead daemon, socket, log.

_RECENT: Final = timedelta(hours=24)
_MAX_LOG_LINES: Final = 2000


@check("Daemon", "daemon")
def _daemon(scene: Scene) -> CheckResult:
    try:
        return ok(f"answers, version {scene.daemon.health().version}")
    except DaemonUnavailable:
        if scene.daemon.is_absent():
            return warn("it is not running", "It starts at the next hook, or: `filrouge daemon start`.")
        remedy = f"End the process named in {scene.path(RUNTIME)}: `kill -9 PID`; what it acknowledged is on disk."
        return fail(
            f"it holds {socket_path(scene.home)}, but does not answer within {HEALTH_SECONDS:g} seconds", remedy
        )


@check("Daemon version", "daemon")
def _version(scene: Scene) -> CheckResult:
    try:
        found = scene.daemon.health().version
    except DaemonUnavailable as error:
        raise NotKnown("unknown while no daemon answers") from error
    if found != __version__:
        return warn(f"the daemon is version {found}, this is {__version__}", "Run `filrouge daemon stop`.")
    return ok(found)


@check("Last start", "daemon")
def _last_start(scene: Scene) -> CheckResult:
    try:
        with open(scene.path(FAILURE), encoding="utf-8") as file:
            failure: Any = json.load(file)
        cause, remedy = str(failure["message"]), str(failure.get("remedy") or "")
    except FileNotFoundError:
        return ok("the last start did not fail")
    except (ValueError, KeyError, TypeError, AttributeError):
        cause, remedy = "the record of the error cannot be read", ""
    return fail(f"the last start failed: {cause}", remedy or f"See `filrouge logs`, and {scene.path(LOG)}.")


def _mend_left_behind(scene: Scene) -> list[str]:
    if not (leftovers := _leftover_files(scene)):
        return []
    with home_lock(scene.home):  # with the lock held, no daemon can start while they are removed
        return [f"removed {path}" for path in remove(leftovers)]


@check("Left by a daemon", "daemon", mend=_mend_left_behind)
def _left_behind(scene: Scene) -> CheckResult:
    if leftovers := _leftover_files(scene):
        names = ", ".join(map(os.path.basename, leftovers))
        return note(
            f"a daemon that has ended left {names}", "Run `filrouge doctor --fix`; the next start also removes them."
        )
    return ok("no daemon that has ended left anything")


def _leftover_files(scene: Scene) -> list[str]:
    """Return the socket and the runtime file if no daemon runs. The lock file always stays, which is harmless."""
    leftovers = [path for path in (socket_path(scene.home), scene.path(RUNTIME)) if os.path.lexists(path)]
    # Testing the lock takes it for an instant, and a daemon that starts at that instant exits. So test it last.
    return leftovers if leftovers and scene.daemon.is_absent() and not is_locked(scene.path(LOCK)) else []


@check("Lock", "daemon")
def _without_socket(scene: Scene) -> CheckResult:
    if os.path.exists(scene.path(RUNTIME)) and scene.daemon.is_absent() and is_locked(scene.path(LOCK)):
        cause = "a daemon is running, but its socket is gone, so it cannot be reached"
        return fail(cause, f"End the process named in {scene.path(RUNTIME)}; another starts at the next hook.")
    return ok("no unreachable daemon holds it")


def _mend_socket(scene: Scene) -> list[str]:
    path = socket_path(scene.home)
    if _socket(scene).state != "warn":  # only its mode is wrong
        return []
    return [change_mode(path, os.path.basename(path), mode_of(path), 0o600)]


@check("Socket", "daemon", mend=_mend_socket)
def _socket(scene: Scene) -> CheckResult:
    path = socket_path(scene.home)
    if not os.path.lexists(path):
        return ok("there is no socket now")
    facts = os.lstat(path)
    if not stat.S_ISSOCK(facts.st_mode):
        return fail(f"{path} is not a socket", f"Remove it: `rm {path}`.")
    if facts.st_uid != scene.machine.user:
        return fail(f"{path} belongs to another user", f"Remove it, or set a FILROUGE_HOME of your own: `rm {path}`.")
    if (mode := stat.S_IMODE(facts.st_mode)) & 0o077:
        return warn(
            f"other users may use {path} (mode {mode:03o})", f"Run `chmod 600 {path}`, or `filrouge doctor --fix`."
        )
    return ok("only you can use it")


@check("Daemon elsewhere", "daemon")
def _elsewhere(scene: Scene) -> CheckResult:
    if not client.is_remote(scene.environ):
        return ok("hooks and commands use this machine's daemon")
    try:
        reply = client.send(scene.home, scene.environ, "GET", "/daemon/status", None, ASK_SECONDS)
    except DaemonUnavailable as error:
        return fail(error.message, f"Check {client.URL}, or unset it to use this machine's daemon.")
    if reply.status in (401, 403) or os.path.exists(scene.path(REFUSED)):
        remedy = f"On its machine run `filrouge token create --scope write`, and set {client.API_KEY} to it."
        return fail(f"the daemon elsewhere rejects {client.API_KEY}", remedy)
    return ok("the daemon elsewhere answers")


@check("Team", "daemon")
def _team(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        membership = Team(tx).membership()
    if membership is None:
        return ok("this home belongs to no team")
    token = load_secret(scene.home, TEAM_TOKEN)
    if not token:
        remedy = f"Join again: `filrouge team leave`, then `filrouge team join {shlex.quote(membership.url)}`."
        return fail(f"the token for the hub of the team {membership.name} is missing, so nothing is exchanged", remedy)
    try:
        HubClient(membership.url, token, timeout=ASK_SECONDS).status()
    except HubUnavailable as error:
        return warn(f"{error.message.rstrip('.')}; what is to be shared waits", error.remedy)
    return ok(f"the hub of the team {membership.name} answers")


@check("Log", "daemon")
def _log(scene: Scene) -> CheckResult:
    size = size_of(scene.path(LOG))
    if size > 2 * LOG_BYTES:
        remedy = "Run `filrouge daemon stop`; the next start rotates it."
        return warn(f"it has {size >> 20} MB and is not rotated", remedy)
    try:
        records = parse_lines(last_lines(scene.home, _MAX_LOG_LINES))
    except NotFound:
        return ok("there is no log yet")
    since = f"{scene.now - _RECENT:%Y-%m-%dT%H:%M:%S}"
    errors = [
        record for record in records if record.get("level") in ("ERROR", "CRITICAL") and str(record["time"]) >= since
    ]
    if errors:
        last = f"the last from {errors[-1].get('logger')} at {str(errors[-1]['time'])[:16]}"
        return note(f"{len(errors)} errors in the last day, {last}", "Read them: `filrouge logs -n 200`.")
    return ok(f"{size >> 10} KB, no error in the last day")


# Access over TCP: the address on which the daemon listens, and the tokens.

_MAX_UNUSED: Final = timedelta(days=90)


@check("Reach", "daemon")
def _reach(scene: Scene) -> CheckResult:
    settings = scene.settings()
    if not settings.port:
        return ok("TCP is off in the settings")
    if is_loopback(f"http://[{settings.host}]" if ":" in settings.host else f"http://{settings.host}"):
        return ok("this machine only")
    this_machine_only = "Run `filrouge settings host 127.0.0.1`, then start the daemon again"
    if not settings.tls_cert or not settings.tls_key:
        cause = f"{settings.host} is open to other machines, but TLS is not set up: the daemon does not start"
        return fail(cause, f"{this_machine_only}; or set tls_cert and tls_key (docs/guides/access.md).")
    if not _lasting_tokens(scene):
        cause = f"{settings.host} is open to other machines, but no token exists: the daemon does not start"
        return fail(cause, f"{this_machine_only}; or create a token first: `filrouge token create`.")
    cause = f"other machines can reach it at {settings.host}, with a token and TLS"
    return note(cause, f"{this_machine_only} if you do not want that.")


@check("TCP", "daemon")
def _tcp(scene: Scene) -> CheckResult:
    found = scene.daemon.ask("/daemon/status")
    if found.get("notice"):
        return warn(str(found["notice"]).rstrip("."), "Set another port: `filrouge settings port N`, or 0 for none.")
    return ok(str(found.get("url") or "only the Unix socket"))


@check("Tokens", "daemon")
def _tokens(scene: Scene) -> CheckResult:
    tokens = _lasting_tokens(scene)
    if unused := [token for token in tokens if (token.last_used_at or token.created_at) < scene.now - _MAX_UNUSED]:
        cause = (
            f"{len(unused)} tokens were not used for {_MAX_UNUSED.days} days and never expire, such as {unused[0].id}"
        )
        return warn(cause, f"Revoke those that are not needed: `filrouge token revoke {unused[0].id}`.")
    if number := sum(token.scope == "admin" for token in tokens):
        remedy = "Use --scope read or write where it is enough: `filrouge token list`."
        return note(f"{number} tokens may do everything and never expire", remedy)
    return ok("no token is unused")


def _lasting_tokens(scene: Scene) -> list[Token]:
    """Return the valid tokens of programs that never expire."""
    with scene.reading() as tx:
        found = Tokens(tx).all()
    return [
        token for token in found if token.kind == "token" and token.expires_at is None and token.is_valid(scene.now)
    ]


# The spool and the job queue.

#: A due job normally starts within seconds. One that has waited this long will not start by itself.
_MAX_WAIT: Final = timedelta(hours=1)
#: Age in seconds from which a partial file counts as abandoned; a hook writes its file within milliseconds.
_UNFINISHED_SECONDS: Final = 300
#: Maximum number of spool files that are checked for damage.
_MAX_CHECKED_FILES: Final = 2000


def _mend_spool(scene: Scene) -> list[str]:
    number = len(inbox.waiting_files(scene.path(SPOOL)))
    if not number or not scene.daemon.is_absent():
        return []
    ensure_running(scene.home)
    return [f"started the daemon, which takes in {number} events"]


@check("Spool", "daemon", mend=_mend_spool)
def _spool(scene: Scene) -> CheckResult:
    number = len(inbox.waiting_files(scene.path(SPOOL)))
    if number and scene.daemon.is_absent():
        return warn(f"{number} events wait for a daemon", "Run `filrouge daemon start`, or `filrouge doctor --fix`.")
    return ok(f"{number} events waiting")


@check("Spool records", "daemon")
def _spool_records(scene: Scene) -> CheckResult:
    path = scene.path(SPOOL)
    if set_aside := [name for name in names_in(path) if name.endswith(inbox.ASIDE_SUFFIX)]:
        cause = f"{len(set_aside)} files could not be read and were put aside"
        return warn(cause, f"Look at {path}/*.aside, then delete them.")
    read = ((file, inbox.read_spool_file(file)) for file in inbox.waiting_files(path)[:_MAX_CHECKED_FILES])
    if damaged := [file for file, found in read if found.torn or found.bad]:
        cause = (
            f"{len(damaged)} files contain records that are damaged or cut off, such as {os.path.basename(damaged[0])}"
        )
        return warn(cause, f"{START_REMEDY} It takes in complete records, and puts aside those that cannot be read.")
    return ok("every file can be read")


@check("Unfinished records", "daemon")
def _unfinished(scene: Scene) -> CheckResult:
    path, old = scene.path(SPOOL), scene.now.timestamp() - _UNFINISHED_SECONDS
    parts = [os.path.join(path, name) for name in names_in(path) if name.endswith(inbox.PART_SUFFIX)]
    if number := sum(os.stat(part).st_mtime < old for part in parts):
        return note(
            f"{number} hooks were ended while they wrote an event", f"{START_REMEDY} It takes in complete records."
        )
    return ok("no hook was ended while it wrote an event")


def _mend_lost(scene: Scene) -> list[str]:
    if not (number := inbox.read_losses(scene.home).events):
        return []
    inbox.clear_losses(scene.home)
    return [f"set the count of {number} lost events back to 0"]


@check("Lost events", "daemon", mend=_mend_lost)
def _lost(scene: Scene) -> CheckResult:
    lost = inbox.read_losses(scene.home)
    if lost.events:
        remedy = (
            "See that the disk has room and the home can be written; `filrouge doctor --fix` starts counting again."
        )
        return warn(lost.sentence(), remedy)
    return ok("no event was lost")


@check("Queue", "daemon")
def _queue(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        count = Jobs(tx).count()
        kinds = sorted({row["kind"] for row in tx.all("jobs.kinds") if row["state"] == "dead"})
    if count.dead:
        return warn(
            f"{count.dead} jobs failed after eight attempts: {', '.join(kinds)}",
            "See why in `filrouge logs`; `GET /api/memory/dead-letters` lists them; POST .../ID/retry tries one again.",
        )
    return ok(f"{count.waiting} waiting")


@check("Queue age", "daemon")
def _queue_age(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        due = Jobs(tx).next_due()
    waited = scene.now - from_text(due) if due else timedelta()
    if waited <= _MAX_WAIT:
        return ok("no job has waited long")
    cause = f"the oldest job has been due for {waited.total_seconds() / 3600:.0f} hours"
    if scene.daemon.is_absent():
        return warn(f"{cause}, and no daemon runs", START_REMEDY)
    return warn(cause, "See `filrouge logs`, then run `filrouge daemon stop` and `filrouge daemon start`.")


@check("Unread answers", "daemon")
def _unread_answers(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        number = (tx.one("unread.count") or {"n": 0})["n"]
    if number:
        return note(f"{number} answers of models could not be read", "See them with `filrouge extract --dead`.")
    return ok("every answer could be read")
