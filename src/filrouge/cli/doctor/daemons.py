"""Checks of the daemon: health, access over TCP, settings, and the queue.

Settings are checked layer by layer (file, database, environment, project file), so that the finding names the layer at
fault.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import tomllib
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from filrouge._version import __version__
from filrouge.capture import inbox
from filrouge.capture.events import DISABLED
from filrouge.capture.intake import redact_completely
from filrouge.cli import hook
from filrouge.cli.doctor.scene import HEALTH_SECONDS, START, Check, CheckResult, NotKnown, Scene, fail, note, ok, warn
from filrouge.core.choices import PROJECT_KEY, unknown_keys, unknown_variables
from filrouge.core.clock import from_text
from filrouge.core.errors import BadConfig, DaemonUnavailable, NotFound
from filrouge.core.network import is_loopback
from filrouge.core.paths import CONFIG, FAILURE, LOCK, LOG, PROJECT_FILE, REFUSED, RUNTIME, SPOOL, nearest, socket_path
from filrouge.core.settings import allowed_in_project_file, check, from_environment, resolve
from filrouge.daemon import client
from filrouge.daemon.process import LOG_BYTES, ensure_running, home_lock, last_lines, parsed
from filrouge.daemon.starting import is_locked
from filrouge.hosts import project as projects
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.repository import Token, Tokens

# Access over TCP: the address on which the daemon listens, and the tokens.

_UNUSED: Final = timedelta(days=90)


def _reach(scene: Scene) -> CheckResult:
    settings = scene.settings()
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    if not settings.port:
        return ok("no TCP, as the settings say")
    if is_loopback(f"http://{host}"):
        return ok("this machine alone")
    inward = "Run `filrouge settings host 127.0.0.1`, then start the daemon again"
    if not settings.tls_cert or not settings.tls_key:
        return fail(
            f"other machines are to reach {settings.host}, without TLS: the daemon does not start so",
            f"{inward}; or set tls_cert and tls_key (docs/guides/access.md).",
        )
    if not _live(scene):
        return fail(
            f"other machines are to reach {settings.host}, and there is no token: the daemon does not start so",
            f"{inward}; or make one first: `filrouge token create`.",
        )
    return note(
        f"other machines reach it at {settings.host}, with a token and TLS", f"{inward} if you do not want that."
    )


def _listening(scene: Scene) -> CheckResult:
    found = scene.daemon.ask("/daemon/status")
    if found.get("notice"):
        return warn(str(found["notice"]).rstrip("."), "Set another port: `filrouge settings port N`, or 0 for none.")
    return ok(str(found.get("url") or "the unix socket alone"))


def _tokens(scene: Scene) -> CheckResult:
    idle = [one for one in _live(scene) if (one.last_used_at or one.created_at) < scene.now - _UNUSED]
    if idle:
        return warn(
            f"{len(idle)} tokens were not used for {_UNUSED.days} days and never expire, such as {idle[0].id}",
            f"Revoke what nobody needs: `filrouge token revoke {idle[0].id}`.",
        )
    if everything := [one for one in _live(scene) if one.scope == "admin"]:
        return note(
            f"{len(everything)} tokens may do everything and never expire",
            "Use --scope read or write where it is enough: `filrouge token list`.",
        )
    return ok("none lies unused")


def _live(scene: Scene) -> list[Token]:
    """Return the valid tokens of programs that never expire."""
    with scene.reading() as tx:
        found = Tokens(tx).all()
    return [one for one in found if one.kind == "token" and one.expires_at is None and one.holds(scene.now)]


CHECKS_OF_ACCESS: Final = (
    Check(name="Reach", look=_reach),
    Check(name="TCP", look=_listening),
    Check(name="Tokens", look=_tokens),
)


# The settings.

_OFF: Final = ("", "0", "false", "no", "off")


def _parses(scene: Scene) -> CheckResult:
    path = scene.path(CONFIG)
    if not os.path.exists(path):
        return ok(f"there is no {CONFIG}")
    try:
        _toml(path)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return fail(f"{path} is no TOML: {error}", f"Mend or remove {path}; the daemon does not start with it.")
    return ok(path)


def _keys(scene: Scene) -> CheckResult:
    path = scene.path(CONFIG)
    try:
        values = _toml(path) if os.path.exists(path) else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NotKnown(f"unknown while {CONFIG} cannot be read") from error
    return _fitting(values, where=CONFIG, remedy=f"Change it in {path}; `filrouge settings` lists what there is.")


def _stored(scene: Scene) -> CheckResult:
    stored = scene.stored()
    if not stored:
        return ok("there are none yet")
    try:
        resolve(stored, home="", environ={})
    except BadConfig as error:
        return fail(error.message, "Set it anew: `filrouge settings NAME VALUE`.")
    return ok("every one fits")


def _environment(scene: Scene) -> CheckResult:
    for name, near in unknown_variables(scene.environ):
        return warn(f"{name} is no setting and does nothing", f"{near} Unset it, or correct its name.".strip())
    return _fitting(from_environment(scene.environ), where="environment", remedy="Correct or unset that variable.")


def _project_file(scene: Scene) -> CheckResult:
    path = nearest(scene.cwd)
    if not path:
        return ok("there is none here")
    try:
        found = _toml(path)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return warn(f"{path} is no TOML: {error}", f"Mend or remove {path}; without it, its settings do not hold.")
    for key, near in unknown_keys(found):
        return warn(f"{path} sets {key!r}, which is no setting and does nothing", f"{near} Correct it there.".strip())
    ignored = sorted(key for key in found if key != PROJECT_KEY and not allowed_in_project_file(key))
    if ignored:
        return note(
            f"{path} sets {len(ignored)} things that a repository may not set: {', '.join(ignored[:3])}",
            f"Put them into {scene.path(CONFIG)} if you want them.",
        )
    values = {key: value for key, value in found.items() if key != PROJECT_KEY}
    return _fitting(values, where=path, remedy=f"Change it in {path}.")


def _mode(scene: Scene) -> CheckResult:
    path = scene.path(CONFIG)
    if os.path.exists(path) and stat.S_IMODE(os.stat(path).st_mode) & 0o077:
        return warn(f"others can read {path}", f"Run `chmod 600 {path}`, or `filrouge doctor --fix`.")
    return ok("nobody else reads the settings")


def _mend_mode(scene: Scene) -> list[str]:
    path = scene.path(CONFIG)
    if not os.path.exists(path) or os.stat(path).st_uid != scene.machine.user:
        return []
    mode = stat.S_IMODE(os.stat(path).st_mode)
    os.chmod(path, mode & 0o700)
    return [f"{CONFIG}: mode {mode:03o} became {mode & 0o700:03o}"] if mode & 0o077 else []


def _secrets(scene: Scene) -> CheckResult:
    path = scene.path(CONFIG)
    if not os.path.exists(path):
        return ok("none stands in a file")
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    for number, line in enumerate(lines, 1):
        if redact_completely(line) != line:
            return warn(
                f"line {number} of {path} holds what looks like a key or a password",
                "Put keys into the environment of the daemon, as in docs/guides/models.md.",
            )
    return ok("none stands in a file")


def _joined(scene: Scene) -> CheckResult:
    waiting: list[dict[str, str]] = scene.daemon.ask("/daemon/status").get("waiting_folders", [])
    if waiting:
        return note(
            f"{len(waiting)} folders name a project of other folders and do not see its memories, such as"
            f" {waiting[0]['folder']}",
            f"If it is the same project, run `filrouge project join {shlex.quote(waiting[0]['folder'])}`.",
        )
    return ok("no folder waits for consent")


def _capturing(scene: Scene) -> CheckResult:
    if scene.environ.get(DISABLED, "").strip().lower() not in _OFF:
        return warn(f"hooks do nothing: {DISABLED} is set", f"Unset {DISABLED}.")
    settings = scene.settings()
    if not settings.auto_capture:
        return warn("nothing is captured: auto_capture is off", "Run `filrouge settings auto_capture true`.")
    if not projects.is_capture_enabled(scene.cwd, scene.environ):
        return note(f"nothing is captured here: {PROJECT_FILE} says so", f"See {nearest(scene.cwd)}.")
    if hook.is_disabled(hook.settings_of(scene.home), projects.names(scene.cwd, scene.environ)):
        return note("nothing is captured in this project", "See `filrouge settings disabled_projects`.")
    return ok("what agents do is captured")


def _fitting(values: dict[str, Any], *, where: str, remedy: str) -> CheckResult:
    try:
        check(values, where=where)
    except BadConfig as error:
        return fail(error.message, remedy)
    return ok(f"{len(values)} set" if values else "nothing is set there")


def _toml(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        return tomllib.load(file)


CHECKS_OF_CONFIGURATION: Final = (
    Check(name="Settings file", look=_parses),
    Check(name="Settings in the file", look=_keys),
    Check(name="Mode of the settings file", look=_mode, mend=_mend_mode),
    Check(name="Keys in the settings file", look=_secrets),
    Check(name="Stored settings", look=_stored),
    Check(name="Environment", look=_environment),
    Check(name="Project file", look=_project_file),
    Check(name="Joined folders", look=_joined),
    Check(name="Capture", look=_capturing),
)


# The daemon process: health, version, files left by a dead daemon, socket, log.

_LATELY: Final = timedelta(hours=24)
_LINES: Final = 2000


def _daemon(scene: Scene) -> CheckResult:
    try:
        reply = scene.daemon.health()
    except DaemonUnavailable:
        if scene.daemon.is_absent():
            return warn("it does not run", "It starts at the next hook, or: `filrouge daemon start`.")
        return fail(
            f"it holds {socket_path(scene.home)} and does not answer within {HEALTH_SECONDS:g} seconds",
            f"End the process named in {scene.path(RUNTIME)}: `kill -9 PID`; what it acknowledged is on disk.",
        )
    return ok(f"answers, version {reply.version}")


def _version(scene: Scene) -> CheckResult:
    try:
        found = scene.daemon.health().version
    except DaemonUnavailable as error:
        raise NotKnown("unknown while no daemon answers") from error
    if found != __version__:
        return warn(f"the daemon is version {found}, this is {__version__}", "Run `filrouge daemon stop`.")
    return ok(found)


def _last_start(scene: Scene) -> CheckResult:
    try:
        with open(scene.path(FAILURE), encoding="utf-8") as file:
            word: Any = json.load(file)
        cause, remedy = str(word["message"]), str(word.get("remedy") or "")
    except FileNotFoundError:
        return ok("nothing kept it from starting")
    except (ValueError, KeyError, TypeError, AttributeError):
        cause, remedy = "it left a word that cannot be read", ""
    return fail(f"the last start failed: {cause}", remedy or f"See `filrouge logs`, and {scene.path(LOG)}.")


def _left_behind(scene: Scene) -> CheckResult:
    if left := _leavings(scene):
        names = ", ".join(map(os.path.basename, left))
        return note(f"an ended daemon left {names}", "Run `filrouge doctor --fix`; the next start removes them, too.")
    return ok("no ended daemon left anything")


def _mend_left_behind(scene: Scene) -> list[str]:
    left, done = _leavings(scene), list[str]()
    if left:
        with home_lock(scene.home):  # with the lock held, no daemon can start while they are removed
            for path in left:
                with suppress(FileNotFoundError):
                    os.unlink(path)
                    done.append(f"removed {path}")
    return done


def _leavings(scene: Scene) -> list[str]:
    """Return the socket and the runtime file if no daemon runs. The lock file always stays, which is harmless."""
    left = [path for path in (socket_path(scene.home), scene.path(RUNTIME)) if os.path.lexists(path)]
    return left if left and scene.daemon.is_absent() and not _is_held(scene) else []


def _without_socket(scene: Scene) -> CheckResult:
    if os.path.exists(scene.path(RUNTIME)) and scene.daemon.is_absent() and _is_held(scene):
        return fail(
            "a daemon lives, but its socket is gone, so that nobody reaches it",
            f"End the process named in {scene.path(RUNTIME)}; another starts at the next hook.",
        )
    return ok("whoever holds it can be reached")


def _is_held(scene: Scene) -> bool:
    """Return True if a daemon holds the home's lock.

    This takes a shared lock for an instant. A daemon that starts at that instant exits, so the lock is only tried if a
    daemon left files.
    """
    return is_locked(scene.path(LOCK))


def _socket_mode(scene: Scene) -> CheckResult:
    path = socket_path(scene.home)
    if not os.path.lexists(path):
        return ok("there is none now")
    facts = os.lstat(path)
    if not stat.S_ISSOCK(facts.st_mode):
        return fail(f"{path} is no socket", f"Remove it: `rm {path}`.")
    if facts.st_uid != scene.machine.user:
        return fail(f"{path} belongs to another user", f"Remove it, or set a FILROUGE_HOME of your own: `rm {path}`.")
    if (mode := stat.S_IMODE(facts.st_mode)) & 0o077:
        return warn(f"others may use {path} (mode {mode:03o})", f"Run `chmod 600 {path}`, or `filrouge doctor --fix`.")
    return ok("it admits you alone")


def _mend_socket_mode(scene: Scene) -> list[str]:
    path = socket_path(scene.home)
    if not os.path.lexists(path) or not stat.S_ISSOCK(os.lstat(path).st_mode):
        return []
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    if os.lstat(path).st_uid != scene.machine.user or not mode & 0o077:
        return []
    os.chmod(path, 0o600)
    return [f"{os.path.basename(path)}: mode {mode:03o} became 600"]


def _elsewhere(scene: Scene) -> CheckResult:
    if not client.is_remote(scene.environ):
        return ok("hooks and commands use this machine's daemon")
    remedy = f"Check {client.URL}, or unset it to use this machine's daemon."
    try:
        reply = client.send(scene.home, scene.environ, "GET", "/daemon/status", None, 1.5)
    except DaemonUnavailable as error:
        return fail(error.message, remedy)
    if reply.status in (401, 403) or os.path.exists(scene.path(REFUSED)):
        return fail(
            f"the daemon elsewhere does not take {client.API_KEY}",
            f"On its machine run `filrouge token create --scope write`, and set {client.API_KEY} to it.",
        )
    return ok("the daemon elsewhere answers")


def _log(scene: Scene) -> CheckResult:
    path = scene.path(LOG)
    size = os.path.getsize(path) if os.path.exists(path) else 0
    if size > 2 * LOG_BYTES:
        return warn(
            f"it has {size >> 20} MB and is not rotated", "Run `filrouge daemon stop`; the next one rotates it."
        )
    try:
        records = parsed(last_lines(scene.home, _LINES))
    except NotFound:
        return ok("there is none yet")
    since = f"{scene.now - _LATELY:%Y-%m-%dT%H:%M:%S}"
    bad = [one for one in records if one.get("level") in ("ERROR", "CRITICAL") and str(one["time"]) >= since]
    if bad:
        return note(
            f"{len(bad)} errors in the last day, the newest of {bad[-1].get('logger')} at {str(bad[-1]['time'])[:16]}",
            "Read them: `filrouge logs -n 200`.",
        )
    return ok(f"{size >> 10} KB, no error in the last day")


CHECKS_OF_DAEMONS: Final = (
    Check(name="Daemon", look=_daemon),
    Check(name="Daemon version", look=_version),
    Check(name="Last start", look=_last_start),
    Check(name="Left by a daemon", look=_left_behind, mend=_mend_left_behind),
    Check(name="Lock", look=_without_socket),
    Check(name="Socket", look=_socket_mode, mend=_mend_socket_mode),
    Check(name="Daemon elsewhere", look=_elsewhere),
    Check(name="Log", look=_log),
)


# The spool and the job queue.

#: A due job normally starts within seconds. One that has waited this long will not start by itself.
_LONGEST_WAIT: Final = timedelta(hours=1)
#: Age in seconds from which a partial file counts as abandoned; a hook writes its file within milliseconds.
_UNFINISHED_SECONDS: Final = 300
#: Maximum number of spool files that are checked for damage.
_LOOKED_INTO: Final = 2000


def _spool(scene: Scene) -> CheckResult:
    waiting = inbox.waiting(scene.path(SPOOL))
    if waiting and scene.daemon.is_absent():
        return warn(
            f"{len(waiting)} events wait for a daemon", "Run `filrouge daemon start`, or `filrouge doctor --fix`."
        )
    return ok(f"{len(waiting)} events waiting")


def _mend_spool(scene: Scene) -> list[str]:
    waiting = len(inbox.waiting(scene.path(SPOOL)))
    if not waiting or not scene.daemon.is_absent():
        return []
    ensure_running(scene.home)
    return [f"started the daemon, which takes in {waiting} events"]


def _unreadable(scene: Scene) -> CheckResult:
    path = scene.path(SPOOL)
    names = os.listdir(path) if os.path.isdir(path) else []
    if aside := [name for name in names if name.endswith(inbox.ASIDE)]:
        return warn(
            f"{len(aside)} files could not be read and were put aside", f"Look at {path}/*.aside, then delete them."
        )
    damaged = [file for file in inbox.waiting(path)[:_LOOKED_INTO] if _is_damaged(file)]
    if damaged:
        return warn(
            f"{len(damaged)} files hold records that are damaged or cut off, such as {os.path.basename(damaged[0])}",
            f"{START} It takes in what is whole, and puts aside what nobody can read.",
        )
    return ok("every one can be read")


def _is_damaged(file: str) -> bool:
    found = inbox.read_spool_file(file)
    return found.torn or found.bad > 0


def _unfinished(scene: Scene) -> CheckResult:
    path = scene.path(SPOOL)
    entries = list(os.scandir(path)) if os.path.isdir(path) else []
    parts = [entry for entry in entries if entry.name.endswith(inbox.PART)]
    old = [entry for entry in parts if scene.now.timestamp() - entry.stat().st_mtime > _UNFINISHED_SECONDS]
    if old:
        return note(f"{len(old)} hooks were ended while they wrote", f"{START} It takes in what is whole.")
    return ok("no hook was ended while it wrote")


def _lost(scene: Scene) -> CheckResult:
    lost = inbox.read_losses(scene.home)
    if lost.events:
        return warn(
            lost.sentence(),
            "See that the disk has room and the home can be written; `filrouge doctor --fix` starts counting again.",
        )
    return ok("no event was lost")


def _mend_lost(scene: Scene) -> list[str]:
    count = inbox.read_losses(scene.home).events
    if not count:
        return []
    inbox.clear(scene.home)
    return [f"set the count of {count} lost events back to 0"]


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


def _age(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        due = Jobs(tx).next_due()
    waited = scene.now - from_text(due) if due else timedelta()
    if waited <= _LONGEST_WAIT:
        return ok("nothing has waited long")
    cause = f"the first in it has been due for {waited.total_seconds() / 3600:.0f} hours"
    if scene.daemon.is_absent():
        return warn(f"{cause}, and no daemon runs", START)
    return warn(cause, "See `filrouge logs`, then run `filrouge daemon stop` and `filrouge daemon start`.")


def _unread(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        number = (tx.one("unread.count") or {"n": 0})["n"]
    if number:
        return note(f"{number} answers of models could not be read", "See them with `filrouge extract --dead`.")
    return ok("every answer could be read")


CHECKS_OF_QUEUE: Final = (
    Check(name="Spool", look=_spool, mend=_mend_spool),
    Check(name="Spool records", look=_unreadable),
    Check(name="Unfinished records", look=_unfinished),
    Check(name="Lost events", look=_lost, mend=_mend_lost),
    Check(name="Queue", look=_queue),
    Check(name="Queue age", look=_age),
    Check(name="Unread answers", look=_unread),
)
