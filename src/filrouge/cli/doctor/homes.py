"""Checks of the machine, the home, the database and the backups, and those of `doctor --deep`.

SQLite's own integrity check finds damage to the file structure. The deep checks also find changed content: they verify
the seal of every row and the hash chain of the journal. Rows without a seal are compared with the newest backup, as
far as it contains them. They also check the schema and every vector, and load the embedder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from filrouge._version import __version__
from filrouge.capture.repository import Events
from filrouge.cli.doctor.models import wanted
from filrouge.cli.doctor.scene import MEND, START, Check, CheckResult, NotKnown, Scene, fail, note, ok, warn
from filrouge.core import installation
from filrouge.core.clock import from_text
from filrouge.core.errors import StoreError
from filrouge.core.paths import BACKUPS, BRIEFS, DISK_RESERVE, SPOOL, WORD_INDEXES, make_private
from filrouge.maintenance import backup_files
from filrouge.maintenance.copies import differing, schema_faults, schema_of
from filrouge.maintenance.repair import wrong_vectors
from filrouge.runtime.journal import Journal
from filrouge.runtime.soundness import broken_seals, can_write, check_problems, journal_mode, progress, schema_number
from filrouge.runtime.sqlite import check_engine, migrations, refuse_older

# The home: existence, owner, modes, file system.

#: Network file systems, on which file locks and SQLite's write-ahead log are unreliable.
_NETWORK: Final = frozenset(
    "nfs nfs4 cifs smb3 smbfs afpfs afs ncpfs 9p ceph glusterfs fuse.sshfs fuse.s3fs fuse.rclone webdav davfs".split()
)
_FOLDERS: Final = (SPOOL, BRIEFS, WORD_INDEXES, BACKUPS)
_LEFT: Final = (".new-", ".probe-")
_LEFT_SECONDS: Final = 3600


def _home(scene: Scene) -> CheckResult:
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
    """Return True if the directory has a database or a spool. Any other directory keeps its mode."""
    return os.path.exists(scene.database) or os.path.isdir(scene.path(SPOOL))


def _owner(scene: Scene) -> CheckResult:
    if os.path.isdir(scene.home):
        for path, facts in ((scene.home, os.stat(scene.home)), *_files(scene.home)):
            if facts.st_uid != scene.machine.user:
                return fail(f"{path} belongs to another user", f"Run `sudo chown -R $(id -un) {scene.home}`.")
    return ok("everything is yours")


def _link(scene: Scene) -> CheckResult:
    if os.path.islink(scene.home):
        if not os.path.exists(scene.home):
            return fail(f"{scene.home} is a link to nothing", "Mount its disk, or set FILROUGE_HOME to another path.")
        return note(f"{scene.home} is a link to {os.path.realpath(scene.home)}", "Name the same path everywhere.")
    return ok("it is no link")


def _file_system(scene: Scene) -> CheckResult:
    kind = _kind_of(os.path.realpath(scene.home), scene.machine.mounts)
    if kind in _NETWORK:
        return fail(
            f"the home lies on a network disk ({kind}), where locks cannot be relied on",
            "Move the home to a local disk and set FILROUGE_HOME to it.",
        )
    return ok(kind or "unknown on this system")


def _kind_of(path: str, mounts: str) -> str:
    """Return the file system type of a path: the type of the deepest mount point above it."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = words[1].replace("\\040", " ").rstrip("/")
        if (path == point or path.startswith(point + "/")) and len(point) >= best:
            best, kind = len(point), words[2]
    return kind


def _modes(scene: Scene) -> CheckResult:
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
        with suppress(FileNotFoundError):  # SQLite removes its auxiliary files at any time
            os.chmod(path, mode & 0o700)
            done.append(f"{os.path.relpath(path, scene.home)}: mode {mode:03o} became {mode & 0o700:03o}")
    return done


def _loose(scene: Scene) -> list[tuple[str, int]]:
    """Return the user's files and folders in the home that others can access. config.toml has its own check."""
    found: list[tuple[str, int]] = []
    for path, facts in _files(scene.home):
        mode = stat.S_IMODE(facts.st_mode)
        plain = stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)
        mine = facts.st_uid == scene.machine.user and os.path.basename(path) != "config.toml"
        found += [(path, mode)] if plain and mine and mode & 0o077 else []
    return found


def _folders(scene: Scene) -> CheckResult:
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


def _left_over(scene: Scene) -> CheckResult:
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
    """Return temporary files that were never finished and are more than an hour old."""
    if not os.path.isdir(scene.home):
        return []
    named = [entry.path for entry in os.scandir(scene.home) if entry.name.startswith(_LEFT) and entry.is_file()]
    found = [(path, facts) for path in named if (facts := _facts(path)) is not None]
    return [path for path, facts in found if scene.now.timestamp() - facts.st_mtime > _LEFT_SECONDS]


def _files(home: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every path in the home with its `lstat`. Files that vanish meanwhile, such as SQLite's, are skipped."""
    for folder, names, files in os.walk(home):
        for name in (*names, *files):
            if (facts := _facts(path := os.path.join(folder, name))) is not None:
                yield path, facts


def _facts(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


CHECKS_OF_HOMES: Final = (
    Check(name="Home", look=_home, mend=_mend_home),
    Check(name="Link", look=_link),
    Check(name="Owner", look=_owner),
    Check(name="File system", look=_file_system),
    Check(name="Folders", look=_folders, mend=_mend_folders),
    Check(name="File modes", look=_modes, mend=_mend_modes),
    Check(name="Left-overs", look=_left_over, mend=_mend_left_over),
)


# The machine: Python, operating system, SQLite, clock, disk space.

_OLDEST_PYTHON: Final = (3, 11)
_LEAST_FREE_BYTES: Final = 200 * 1024 * 1024
_NEEDED_OPTIONS: Final = frozenset({"ENABLE_FTS5"})
#: The daemon has client connections, database connections and word indexes open at the same time.
_LEAST_OPEN_FILES: Final = 256
_CLOCK_SLACK: Final = timedelta(hours=1)


def _python(scene: Scene) -> CheckResult:
    found = ".".join(map(str, scene.machine.python))
    if scene.machine.python < _OLDEST_PYTHON:
        return fail(f"{found} is too old", "Install Filrouge with Python 3.11 or newer.")
    return ok(f"{found}, filrouge {__version__}")


def _platform(scene: Scene) -> CheckResult:
    machine = scene.machine
    if machine.system not in ("Linux", "Darwin"):
        return fail(f"{machine.system} is not supported", "Use Linux or macOS; on Windows, use WSL 2.")
    if machine.bits < 64:
        return warn(
            f"Python has {machine.bits} bits, for which there are no wheels of what is needed",
            "Install a Python of 64 bits.",
        )
    return ok(f"{machine.system}, {machine.bits} bits")


def _sqlite(scene: Scene) -> CheckResult:
    check_engine(scene.machine.sqlite)
    return ok(f"{scene.machine.sqlite}, new enough to be safe")


def _sqlite_features(scene: Scene) -> CheckResult:
    missing = sorted(_NEEDED_OPTIONS - scene.machine.sqlite_options)
    if missing:
        return fail(
            f"SQLite was built without {', '.join(missing)}",
            f"Install the wheel: `{installation.reinstall('apsw-sqlite3mc')}`.",
        )
    return ok("full-text search is there")


def _space(scene: Scene) -> CheckResult:
    there = scene.home
    while not os.path.exists(there):
        there = os.path.dirname(there)
    free = scene.machine.free(there)
    if free < _LEAST_FREE_BYTES:
        return fail(f"{free >> 20} MB are free", "Free some space: capture stops without it.")
    return ok(f"{free >> 30} GB free")


def _disk_reserve(scene: Scene) -> CheckResult:
    if not os.path.exists(scene.database) or os.path.exists(scene.path(DISK_RESERVE)):
        return ok("the disk was not full")
    return warn(
        "the file that keeps room on a full disk is gone: the disk was full once, or nearly",
        "Free some space, then run `filrouge daemon stop` and `filrouge daemon start`, which make it again.",
    )


def _open_files(scene: Scene) -> CheckResult:
    if scene.machine.open_files < _LEAST_OPEN_FILES:
        return warn(f"a process may open {scene.machine.open_files} files", "Raise it: `ulimit -n 1024`.")
    return ok("a process may open enough")


def _clock(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        newest = (tx.one("events.last") or {"at": None})["at"]
    if newest and from_text(newest) > scene.now + _CLOCK_SLACK:
        return warn(
            f"it says {scene.now:%Y-%m-%d %H:%M}, before the newest event, of {newest[:16].replace('T', ' ')}",
            "Set the clock: what is newer replaces what is older.",
        )
    return ok("it does not run backwards")


CHECKS_OF_MACHINE: Final = (
    Check(name="Python", look=_python),
    Check(name="Platform", look=_platform),
    Check(name="SQLite", look=_sqlite),
    Check(name="SQLite features", look=_sqlite_features),
    Check(name="Disk space", look=_space),
    Check(name="Ballast", look=_disk_reserve),
    Check(name="Open files", look=_open_files),
    Check(name="Clock", look=_clock),
)


# The database: integrity, schema version, locks, and the event ledger.

#: Up to this size, SQLite's full check takes less than a second.
_WHOLE_CHECK_BYTES: Final = 32_000_000
#: Above this size, even the quick check takes too long without `--deep`.
_ANY_CHECK_BYTES: Final = 500_000_000
_LARGEST_LOG_BYTES: Final = 256_000_000
#: A writer normally locks the database for milliseconds, and Filrouge's longest batch for less than this.
_LOCK_MILLISECONDS: Final = 1500


def _database(scene: Scene) -> CheckResult:
    if not os.path.exists(scene.database):
        return note("there is none yet", START)
    size = os.path.getsize(scene.database)
    if size > _ANY_CHECK_BYTES and not scene.deep:
        schema_number(scene.database)  # raises if the file does not open or its first pages cannot be read
        return note(f"it opens; {size >> 20} MB are too much to check in passing", "Run `filrouge doctor --deep`.")
    if found := check_problems(scene.database, quick=not scene.deep and size > _WHOLE_CHECK_BYTES):
        return fail(found[0], MEND)
    return ok(f"sound, {size >> 10} KB")


def _schema(scene: Scene) -> CheckResult:
    found, known = _number(scene), migrations("sqlite")[-1].number
    refuse_older(found, what=scene.database)
    if found > known:
        return fail(
            f"the database was written by a newer Filrouge: schema {found}, known here {known}",
            f"Run `{installation.upgrade()}`.",
        )
    if found < known:
        return note(f"schema {found}; this version has {known}", "Run `filrouge daemon start`, which brings it up.")
    return ok(f"schema {found}")


def _journal_mode(scene: Scene) -> CheckResult:
    _require_database(scene)
    try:
        mode = journal_mode(scene.database)
    except StoreError as error:
        raise NotKnown("unknown while the database cannot be read") from error
    if mode != "wal":
        return note(f"it is `{mode}`, not `wal`: the database was put there by hand, or restored", START)
    return ok("wal")


def _write_lock(scene: Scene) -> CheckResult:
    _number(scene)
    if not can_write(scene.database, milliseconds=_LOCK_MILLISECONDS):
        return warn(
            f"another program holds the database and lets nobody write for {_LOCK_MILLISECONDS / 1000:g} seconds",
            f"See who: `fuser {scene.database}`; close that program, or stop a daemon that hangs.",
        )
    return ok("whoever wants to write may")


def _log_of_changes(scene: Scene) -> CheckResult:
    path = f"{scene.database}-wal"
    size = os.path.getsize(path) if os.path.exists(path) else 0
    if size > _LARGEST_LOG_BYTES:
        return warn(
            f"it has {size >> 20} MB: a reader keeps it from being emptied",
            "Close programs that have the database open, then run `filrouge daemon stop`.",
        )
    return ok(f"{size >> 10} KB")


def _ledger(scene: Scene) -> CheckResult:
    if not os.path.exists(scene.database):
        return ok("nothing was taken in yet")
    with scene.reading() as tx:
        ledger, received, abandoned = Events(tx).ledger(), Events(tx).received(), Events(tx).abandoned()
    sums = " + ".join(f"{number} {state}" for state, number in ledger.items())
    if received != sum(ledger.values()):
        return fail(f"{received} events received, but {sums}", MEND)
    if abandoned:
        cause = f"{abandoned} events wait to be understood, and no job will do it"
        return fail(cause, "What was said is kept; say so in a report, with filrouge.log.")
    return ok(f"{received} events received = {sums}")


def _word_index(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        counts = {row["analyser"]: int(row["n"]) for row in tx.all("turns.analysers")}
    newest, every = max(counts, default=0), sum(counts.values())
    stale = every - counts.get(newest, 0) if newest else every
    if stale:
        return note(
            f"{stale} of {every} turns are indexed as an earlier version did, and found by whole words only",
            "Run `filrouge daemon start`, which indexes them again beside its work.",
        )
    return ok(f"the words of {every} turns are indexed")


def _number(scene: Scene) -> int:
    """Return the schema number of the database.

    Raises:
        NotKnown: there is no database, or it cannot be read.
    """
    _require_database(scene)
    try:
        return schema_number(scene.database)
    except StoreError as error:
        raise NotKnown("unknown while the database cannot be read") from error


def _require_database(scene: Scene) -> None:
    if not os.path.exists(scene.database):
        raise NotKnown("there is no memory yet")


CHECKS_OF_STORE: Final = (
    Check(name="Database", look=_database),
    Check(name="Schema version", look=_schema),
    Check(name="Journal mode", look=_journal_mode),
    Check(name="Write lock", look=_write_lock),
    Check(name="Write-ahead log", look=_log_of_changes),
    Check(name="Ledger", look=_ledger),
    Check(name="Word index", look=_word_index),
)


# The backups: age, and whether each still equals what was verified.

#: Backups are made daily, and the machine may be off for a day, so a backup is old only after this many days.
_OLD_DAYS: Final = 3


def _backups(scene: Scene) -> CheckResult:
    failed, last = backup_files.failure(scene.home), backup_files.newest(scene.home)
    age = _days(scene.now, last.at) if last else 0.0
    found = f"the newest proven one is {age:.1f} days old" if last else "there is none yet"
    if failed:
        return fail(f"{found}; the last one failed: {failed['error']}", "Run `filrouge backup`.")
    if not os.path.exists(scene.database):
        return ok(found)
    with scene.reading() as tx:
        changed, begun = last is None or progress(tx) != last.mark, tx.one("journal.begun")
    waited = age if last else _days(scene.now, begun["at"]) if begun and begun["at"] else 0.0
    if changed and waited > _OLD_DAYS:
        return warn(found, "Run `filrouge backup`, and see `filrouge settings backup_hours`.")
    return ok(found)


def _backups_verified(scene: Scene) -> CheckResult:
    folder = backup_files.folder(scene.home)
    stems = [name.removesuffix(".db") for name in (os.listdir(folder) if os.path.isdir(folder) else [])]
    names = sorted(
        stem for stem in stems if backup_files.is_name(stem) and os.path.exists(backup_files.path_of(scene.home, stem))
    )
    wrong = [name for name in names if backup_files.manifest(scene.home, name) is None]
    if wrong:
        return warn(
            f"{len(wrong)} are not what was verified, such as {wrong[0]}",
            f"Make another with `filrouge backup`, then delete {folder}/{wrong[0]}.db.",
        )
    return ok(f"{len(names)}, each with what was verified of it")


def _schedule(scene: Scene) -> CheckResult:
    hours = scene.settings().backup_hours
    if not hours:
        return note("no backup is made by itself", "Run `filrouge settings backup_hours 24`.")
    return ok(f"every {hours:g} hours in which something changed")


def _days(now: datetime, at: str) -> float:
    return (now - from_text(at)).total_seconds() / 86_400


CHECKS_OF_KEEPING: Final = (
    Check(name="Backups", look=_backups),
    Check(name="Backups verified", look=_backups_verified),
    Check(name="Backup schedule", look=_schedule),
)


# The checks of `filrouge doctor --deep`.


def _deep_schema(scene: Scene) -> CheckResult:
    found = schema_faults(scene.database)
    if found:
        return fail(found[0], MEND)
    return ok("every table is what its migrations make")


def _seals(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        broken = broken_seals(tx)
    if broken:
        few = ", ".join(broken[:5])
        return fail(f"{len(broken)} rows are not what was stored: {few}", MEND)
    return ok("every turn, memory and event is what was stored")


def _journal(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        verdict = Journal(tx).verify()
    if not verdict.sound:
        return fail(f"entry {verdict.broken_at}: {verdict.reason}", MEND)
    return ok(f"{verdict.entries} entries, {verdict.redacted} redacted")


def _vectors(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        wrong = wrong_vectors(tx)
    if wrong:
        return fail(f"{len(wrong)} are no vectors of their space", "Run `filrouge repair`.")
    return ok("every one has the length of its space")


def _unchanged_since_backup(scene: Scene) -> CheckResult:
    last = backup_files.newest(scene.home)
    if last is None or last.schema != schema_of(scene.database):
        return ok("there is none of this schema to hold it against")
    found = differing(scene.database, backup_files.path_of(scene.home, last.name))
    if found:
        rows = ", ".join(f"{count} of {table}" for table, count in found.items())
        return fail(f"rows that never change are not what they were on {last.at[:10]}: {rows}", MEND)
    return ok(f"what never changes is what it was on {last.at[:10]}")


def _embedder(scene: Scene) -> CheckResult:
    settings = scene.settings()
    from filrouge.runtime.wiring import embedder_of  # imported here because it takes a second

    model = embedder_of(wanted(scene), settings, scene.environ)
    model.query("ready?")
    known = model.space.calibration
    scale = f"calibration {known.origin}, {known.pairs:,} pairs" if known else "not calibrated yet"
    return ok(f"{model.space.model}, {model.space.revision}; {scale}")


CHECKS_OF_DEEP: Final = (
    Check(name="Schema", look=_deep_schema),
    Check(name="Seals", look=_seals),
    Check(name="Journal", look=_journal),
    Check(name="Vectors", look=_vectors),
    Check(name="Against the backup", look=_unchanged_since_backup),
    Check(name="Embedding model", look=_embedder),
)
