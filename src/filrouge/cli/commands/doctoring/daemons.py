"""Checks of the daemon: whether it answers, what an ended one left, who may reach it, and what its log says."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from filrouge._version import __version__
from filrouge.cli.commands.doctoring.finding import Check, Verdict, fail, note, ok, warn
from filrouge.cli.commands.doctoring.scene import HEALTH_SECONDS, NotKnown, Scene
from filrouge.daemon import client
from filrouge.daemon.logs import LOG_BYTES, last_lines, parsed
from filrouge.daemon.process import only_one
from filrouge.errors import DaemonUnavailable, NotFound
from filrouge.home import FAILURE, LOCK, LOG, REFUSED, RUNTIME, socket_path

_LATELY: Final = timedelta(hours=24)
_LINES: Final = 2000


def _daemon(scene: Scene) -> Verdict:
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


def _version(scene: Scene) -> Verdict:
    try:
        found = scene.daemon.health().version
    except DaemonUnavailable as error:
        raise NotKnown("unknown while no daemon answers") from error
    if found != __version__:
        return warn(f"the daemon is version {found}, this is {__version__}", "Run `filrouge daemon stop`.")
    return ok(found)


def _last_start(scene: Scene) -> Verdict:
    try:
        with open(scene.path(FAILURE), encoding="utf-8") as file:
            word: Any = json.load(file)
        cause, remedy = str(word["message"]), str(word.get("remedy") or "")
    except FileNotFoundError:
        return ok("nothing kept it from starting")
    except (ValueError, KeyError, TypeError, AttributeError):
        cause, remedy = "it left a word that cannot be read", ""
    return fail(f"the last start failed: {cause}", remedy or f"See `filrouge logs`, and {scene.path(LOG)}.")


def _left_behind(scene: Scene) -> Verdict:
    if left := _leavings(scene):
        names = ", ".join(map(os.path.basename, left))
        return note(f"an ended daemon left {names}", "Run `filrouge doctor --fix`; the next start removes them, too.")
    return ok("no ended daemon left anything")


def _mend_left_behind(scene: Scene) -> list[str]:
    left, done = _leavings(scene), list[str]()
    if left:
        with only_one(scene.home):  # whoever holds the lock may remove them: nobody else starts meanwhile
            for path in left:
                with suppress(FileNotFoundError):
                    os.unlink(path)
                    done.append(f"removed {path}")
    return done


def _leavings(scene: Scene) -> list[str]:
    """The socket and the runtime file where no daemon lives; the lock's file stays for good, and harms nobody."""
    left = [path for path in (socket_path(scene.home), scene.path(RUNTIME)) if os.path.lexists(path)]
    return left if left and scene.daemon.is_absent() and not _is_held(scene) else []


def _without_socket(scene: Scene) -> Verdict:
    if os.path.exists(scene.path(RUNTIME)) and scene.daemon.is_absent() and _is_held(scene):
        return fail(
            "a daemon lives, but its socket is gone, so that nobody reaches it",
            f"End the process named in {scene.path(RUNTIME)}; another starts at the next hook.",
        )
    return ok("whoever holds it can be reached")


def _is_held(scene: Scene) -> bool:
    """True while a daemon lives for the home.

    The lock is tried, for an instant. A daemon that starts just then leaves, so only where one left traces it is asked.
    """
    try:
        handle = os.open(scene.path(LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _socket_mode(scene: Scene) -> Verdict:
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


def _elsewhere(scene: Scene) -> Verdict:
    if not client.is_elsewhere(scene.environ):
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


def _log(scene: Scene) -> Verdict:
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


CHECKS: Final = (
    Check(name="Daemon", look=_daemon),
    Check(name="Daemon version", look=_version),
    Check(name="Last start", look=_last_start),
    Check(name="Left by a daemon", look=_left_behind, mend=_mend_left_behind),
    Check(name="Lock", look=_without_socket),
    Check(name="Socket", look=_socket_mode, mend=_mend_socket_mode),
    Check(name="Daemon elsewhere", look=_elsewhere),
    Check(name="Log", look=_log),
)
