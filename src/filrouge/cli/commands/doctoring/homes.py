"""Checks of the home: that it is there, whose it is, who may look in, on what disk it lies."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from filrouge.cli.commands.doctoring.finding import Check, Verdict, fail, note, ok, warn
from filrouge.cli.commands.doctoring.scene import Scene
from filrouge.home import BACKUPS, BRIEFS, SPOOL, WORDS, make_private

#: File systems on which neither locks nor the write-ahead log of SQLite can be relied on.
_NETWORK: Final = frozenset(
    "nfs nfs4 cifs smb3 smbfs afpfs afs ncpfs 9p ceph glusterfs fuse.sshfs fuse.s3fs fuse.rclone webdav davfs".split()
)
_FOLDERS: Final = (SPOOL, BRIEFS, WORDS, BACKUPS)
_LEFT: Final = (".new-", ".probe-")
_LEFT_SECONDS: Final = 3600


def _home(scene: Scene) -> Verdict:
    home = scene.home
    if not os.path.exists(home):
        return warn(f"{home} does not exist yet", "Run `filrouge doctor --fix`, or `filrouge daemon start`.")
    if not os.path.isdir(home):
        return fail(f"{home} is no directory", "Move it away, or set FILROUGE_HOME to another path.")
    mode = stat.S_IMODE(os.stat(home).st_mode)
    if mode & 0o700 != 0o700 or not os.access(home, os.W_OK):
        return fail(f"{home} is not writable", f"Run `chmod u+rwx {home}`.")
    if mode & 0o077:
        return warn(f"others can look into {home}", f"Run `chmod 700 {home}`, or `filrouge doctor --fix`.")
    return ok(home)


def _mend_home(scene: Scene) -> list[str]:
    home = scene.home
    if not os.path.exists(home):
        make_private(home)
        return [f"made {home}"]
    mode = stat.S_IMODE(os.stat(home).st_mode)
    if os.path.isdir(home) and os.stat(home).st_uid == scene.machine.user and mode != 0o700 and _looks_like_ours(scene):
        os.chmod(home, 0o700)
        return [f"{home}: mode {mode:03o} became 700"]
    return []


def _looks_like_ours(scene: Scene) -> bool:
    """A directory that also holds other programs' things stays as it is."""
    return os.path.exists(scene.database) or os.path.isdir(scene.path(SPOOL))


def _owner(scene: Scene) -> Verdict:
    if os.path.isdir(scene.home):
        for path, facts in ((scene.home, os.stat(scene.home)), *_files(scene.home)):
            if facts.st_uid != scene.machine.user:
                return fail(f"{path} belongs to another user", f"Run `sudo chown -R $(id -un) {scene.home}`.")
    return ok("everything is yours")


def _link(scene: Scene) -> Verdict:
    if os.path.islink(scene.home):
        if not os.path.exists(scene.home):
            return fail(f"{scene.home} is a link to nothing", "Mount its disk, or set FILROUGE_HOME to another path.")
        return note(f"{scene.home} is a link to {os.path.realpath(scene.home)}", "Name the same path everywhere.")
    return ok("it is no link")


def _file_system(scene: Scene) -> Verdict:
    kind = _kind_of(os.path.realpath(scene.home), scene.machine.mounts)
    if kind in _NETWORK:
        return fail(
            f"the home lies on a network disk ({kind}), where locks cannot be relied on",
            "Move the home to a local disk and set FILROUGE_HOME to it.",
        )
    return ok(kind or "unknown on this system")


def _kind_of(path: str, mounts: str) -> str:
    """The kind of the file system that a path lies on, of the deepest mount that holds it."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = words[1].replace("\\040", " ").rstrip("/")
        if (path == point or path.startswith(point + "/")) and len(point) >= best:
            best, kind = len(point), words[2]
    return kind


def _modes(scene: Scene) -> Verdict:
    if loose := _loose(scene):
        few = ", ".join(os.path.relpath(path, scene.home) for path, _ in loose[:3])
        return warn(
            f"others can read {few}{' and more' if len(loose) > 3 else ''}",
            f"Run `chmod -R go-rwx {scene.home}`, or `filrouge doctor --fix`.",
        )
    return ok("no file is readable by others")


def _mend_modes(scene: Scene) -> list[str]:
    done: list[str] = []
    for path, mode in _loose(scene):
        with suppress(FileNotFoundError):  # SQLite takes files beside the database away
            os.chmod(path, mode & 0o700)
            done.append(f"{os.path.relpath(path, scene.home)}: mode {mode:03o} became {mode & 0o700:03o}")
    return done


def _loose(scene: Scene) -> list[tuple[str, int]]:
    """Files and folders of ours, in the home, that others may read or write; config.toml has a check of its own."""
    found: list[tuple[str, int]] = []
    for path, facts in _files(scene.home):
        mode = stat.S_IMODE(facts.st_mode)
        plain = stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)
        mine = facts.st_uid == scene.machine.user and os.path.basename(path) != "config.toml"
        found += [(path, mode)] if plain and mine and mode & 0o077 else []
    return found


def _folders(scene: Scene) -> Verdict:
    for name in _FOLDERS:
        path = scene.path(name)
        if os.path.lexists(path) and not os.path.isdir(path):
            return fail(f"{path} is no directory", f"Run `mv {path} {path}.old`; it is made when it is needed.")
        if os.path.isdir(path) and stat.S_IMODE(os.stat(path).st_mode) & 0o700 != 0o700:
            return fail(f"{path} is not writable", f"Run `chmod u+rwx {path}`, or `filrouge doctor --fix`.")
    return ok("all can be used")


def _mend_folders(scene: Scene) -> list[str]:
    done: list[str] = []
    for name in _FOLDERS:
        path = scene.path(name)
        if os.path.isdir(path) and not os.path.islink(path) and os.stat(path).st_mode & 0o700 != 0o700:
            os.chmod(path, 0o700)
            done.append(f"{name}: made writable")
    return done


def _left_over(scene: Scene) -> Verdict:
    if left := _abandoned(scene):
        return note(f"{len(left)} files were begun and never finished", "Run `filrouge doctor --fix`.")
    return ok("there are none")


def _mend_left_over(scene: Scene) -> list[str]:
    done: list[str] = []
    for path in _abandoned(scene):
        with suppress(FileNotFoundError):
            os.unlink(path)
            done.append(f"removed {os.path.basename(path)}")
    return done


def _abandoned(scene: Scene) -> list[str]:
    """Small files that somebody began to write and was ended at, an hour ago or more."""
    if not os.path.isdir(scene.home):
        return []
    named = [entry.path for entry in os.scandir(scene.home) if entry.name.startswith(_LEFT) and entry.is_file()]
    found = [(path, facts) for path in named if (facts := _facts(path)) is not None]
    return [path for path, facts in found if scene.now.timestamp() - facts.st_mtime > _LEFT_SECONDS]


def _files(home: str) -> Iterator[tuple[str, os.stat_result]]:
    """Everything in the home with its facts; what goes meanwhile is left out, as SQLite's files beside the database."""
    for folder, names, files in os.walk(home):
        for name in (*names, *files):
            if (facts := _facts(path := os.path.join(folder, name))) is not None:
                yield path, facts


def _facts(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


CHECKS: Final = (
    Check(name="Home", look=_home, mend=_mend_home),
    Check(name="Link", look=_link),
    Check(name="Owner", look=_owner),
    Check(name="File system", look=_file_system),
    Check(name="Folders", look=_folders, mend=_mend_folders),
    Check(name="File modes", look=_modes, mend=_mend_modes),
    Check(name="Left-overs", look=_left_over, mend=_mend_left_over),
)
