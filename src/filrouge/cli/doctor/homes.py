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
from filrouge.cli.doctor.models import configured_embedder
from filrouge.cli.doctor.probes import change_mode, existing_part, mode_of, names_in, remove, size_of
from filrouge.cli.doctor.scene import REPAIR_REMEDY, START_REMEDY, CheckList, CheckResult, Scene, fail, note, ok, warn
from filrouge.core import installation
from filrouge.core.clock import from_text
from filrouge.core.paths import BACKUPS, BRIEFS, DISK_RESERVE, SPOOL, WORD_INDEXES, make_private
from filrouge.maintenance import backup_files
from filrouge.maintenance.copies import differing, schema_faults, schema_of
from filrouge.maintenance.repair import wrong_vectors
from filrouge.runtime.journal import Journal
from filrouge.runtime.soundness import broken_seals, can_write, check_problems, journal_mode, progress, schema_number
from filrouge.runtime.sqlite import check_engine, migrations, refuse_older

CHECKS: Final = CheckList()
check: Final = CHECKS.check

# The machine: Python, operating system, SQLite, clock, disk space.

_MIN_PYTHON: Final = (3, 11)
_MIN_FREE_BYTES: Final = 200 * 1024 * 1024
_NEEDED_OPTIONS: Final = frozenset({"ENABLE_FTS5"})
#: The daemon has client connections, database connections and word indexes open at the same time.
_MIN_OPEN_FILES: Final = 256
_CLOCK_SLACK: Final = timedelta(hours=1)


@check("Python", "home")
def _python(scene: Scene) -> CheckResult:
    found = ".".join(map(str, scene.machine.python))
    if scene.machine.python < _MIN_PYTHON:
        return fail(f"{found} is too old", "Install Filrouge with Python 3.11 or newer.")
    return ok(f"{found}, filrouge {__version__}")


@check("Platform", "home")
def _platform(scene: Scene) -> CheckResult:
    system, bits = scene.machine.system, scene.machine.bits
    if system not in ("Linux", "Darwin"):
        return fail(f"{system} is not supported", "Use Linux or macOS; on Windows, use WSL 2.")
    if bits < 64:
        cause = f"this Python has {bits} bits, and the required packages have no wheels for it"
        return warn(cause, "Install a 64-bit Python.")
    return ok(f"{system}, {bits} bits")


@check("SQLite", "home")
def _sqlite(scene: Scene) -> CheckResult:
    check_engine(scene.machine.sqlite)
    return ok(f"{scene.machine.sqlite}, new enough to be safe")


@check("SQLite features", "home")
def _sqlite_features(scene: Scene) -> CheckResult:
    if missing := sorted(_NEEDED_OPTIONS - scene.machine.sqlite_options):
        remedy = f"Install the wheel: `{installation.reinstall_command('apsw-sqlite3mc')}`."
        return fail(f"SQLite was built without {', '.join(missing)}", remedy)
    return ok("full-text search is available")


@check("Disk space", "home")
def _disk_space(scene: Scene) -> CheckResult:
    free = scene.machine.free(existing_part(scene.home))
    if free < _MIN_FREE_BYTES:
        return fail(f"{free >> 20} MB are free", "Free some space: capture stops without it.")
    return ok(f"{free >> 30} GB free")


@check("Ballast", "home")
def _disk_reserve(scene: Scene) -> CheckResult:
    if not os.path.exists(scene.database) or os.path.exists(scene.path(DISK_RESERVE)):
        return ok("the disk was not full")
    remedy = "Free some space, then run `filrouge daemon stop` and `filrouge daemon start`, which create it again."
    return warn("the file that reserves disk space is missing: the disk was full or nearly full", remedy)


@check("Open files", "home")
def _open_files(scene: Scene) -> CheckResult:
    if scene.machine.open_files < _MIN_OPEN_FILES:
        return warn(f"a process may open {scene.machine.open_files} files", "Raise it: `ulimit -n 1024`.")
    return ok("a process may open enough files")


@check("Clock", "home")
def _clock(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        newest = (tx.one("events.last") or {"at": None})["at"]
    if newest and from_text(newest) > scene.now + _CLOCK_SLACK:
        cause = f"it shows {scene.now:%Y-%m-%d %H:%M}, but the newest event is of {newest[:16].replace('T', ' ')}"
        return warn(cause, "Set the clock: newer statements replace older ones.")
    return ok("it is not behind the newest event")


# The home: existence, owner, modes, file system.

#: Network file systems, on which file locks and SQLite's write-ahead log are unreliable.
_NETWORK_FILE_SYSTEMS: Final = frozenset(
    "nfs nfs4 cifs smb3 smbfs afpfs afs ncpfs 9p ceph glusterfs fuse.sshfs fuse.s3fs fuse.rclone webdav davfs".split()
)
_FOLDERS: Final = (SPOOL, BRIEFS, WORD_INDEXES, BACKUPS)
#: How the names of temporary files begin, and the age in seconds from which they count as abandoned.
_TEMPORARY_PREFIXES: Final = (".new-", ".probe-")
_ABANDONED_SECONDS: Final = 3600


def _mend_home(scene: Scene) -> list[str]:
    home = scene.home
    if not os.path.exists(home):
        make_private(home)
        return [f"created {home}"]
    # Any other directory than one with a database or a spool keeps its mode.
    is_ours = os.path.isdir(home) and (os.path.exists(scene.database) or os.path.isdir(scene.path(SPOOL)))
    if is_ours and os.stat(home).st_uid == scene.machine.user and (mode := mode_of(home)) != 0o700:
        return [change_mode(home, home, mode, 0o700)]
    return []


@check("Home", "home", mend=_mend_home)
def _home(scene: Scene) -> CheckResult:
    home = scene.home
    if not os.path.exists(home):
        return warn(f"{home} does not exist yet", "Run `filrouge doctor --fix`, or `filrouge daemon start`.")
    if not os.path.isdir(home):
        return fail(f"{home} is not a directory", "Move it away, or set FILROUGE_HOME to another path.")
    mode = mode_of(home)
    if mode & 0o700 != 0o700 or not os.access(home, os.W_OK):
        return fail(f"{home} is not writable", f"Run `chmod u+rwx {home}`.")
    if mode & 0o077:
        return warn(f"other users can look into {home}", f"Run `chmod 700 {home}`, or `filrouge doctor --fix`.")
    return ok(home)


@check("Link", "home")
def _link(scene: Scene) -> CheckResult:
    if not os.path.islink(scene.home):
        return ok("it is not a link")
    if not os.path.exists(scene.home):
        return fail(
            f"{scene.home} is a link to a path that does not exist",
            "Mount its disk, or set FILROUGE_HOME to another path.",
        )
    return note(f"{scene.home} is a link to {os.path.realpath(scene.home)}", "Use the same path everywhere.")


@check("Owner", "home")
def _owner(scene: Scene) -> CheckResult:
    if os.path.isdir(scene.home):
        for path, status in ((scene.home, os.stat(scene.home)), *_files_with_status(scene.home)):
            if status.st_uid != scene.machine.user:
                return fail(f"{path} belongs to another user", f"Run `sudo chown -R $(id -un) {scene.home}`.")
    return ok("everything belongs to you")


@check("File system", "home")
def _file_system(scene: Scene) -> CheckResult:
    """Check the type of the file system of the home, which is that of the deepest mount point above it."""
    path, depth, file_system = os.path.realpath(scene.home), -1, ""
    for words in (line.split(" ") for line in scene.machine.mounts.splitlines()):
        point = words[1].replace("\\040", " ").rstrip("/") if len(words) > 2 else None
        if point is not None and f"{path}/".startswith(f"{point}/") and len(point) >= depth:
            depth, file_system = len(point), words[2]
    if file_system in _NETWORK_FILE_SYSTEMS:
        cause = f"the home is on a network disk ({file_system}), where file locks are unreliable"
        return fail(cause, "Move the home to a local disk and set FILROUGE_HOME to it.")
    return ok(file_system or "unknown on this system")


def _mend_folders(scene: Scene) -> list[str]:
    done = list[str]()
    for name in _FOLDERS:
        path = scene.path(name)
        if os.path.isdir(path) and not os.path.islink(path) and mode_of(path) & 0o700 != 0o700:
            os.chmod(path, 0o700)
            done.append(f"{name}: made writable")
    return done


@check("Folders", "home", mend=_mend_folders)
def _folders(scene: Scene) -> CheckResult:
    for path in map(scene.path, _FOLDERS):
        if os.path.lexists(path) and not os.path.isdir(path):
            return fail(f"{path} is not a directory", f"Run `mv {path} {path}.old`; it is created when it is needed.")
        if os.path.isdir(path) and mode_of(path) & 0o700 != 0o700:
            return fail(f"{path} is not writable", f"Run `chmod u+rwx {path}`, or `filrouge doctor --fix`.")
    return ok("all are usable")


def _mend_modes(scene: Scene) -> list[str]:
    done = list[str]()
    for path, mode in _files_open_to_others(scene):
        with suppress(FileNotFoundError):  # SQLite removes its auxiliary files at any time
            done.append(change_mode(path, os.path.relpath(path, scene.home), mode, mode & 0o700))
    return done


@check("File modes", "home", mend=_mend_modes)
def _modes(scene: Scene) -> CheckResult:
    if exposed := _files_open_to_others(scene):
        shown = ", ".join(os.path.relpath(path, scene.home) for path, _ in exposed[:3])
        cause = f"other users can read {shown}{' and more' if len(exposed) > 3 else ''}"
        return warn(cause, f"Run `chmod -R go-rwx {scene.home}`, or `filrouge doctor --fix`.")
    return ok("other users cannot read any file")


def _files_open_to_others(scene: Scene) -> list[tuple[str, int]]:
    """Return the user's files and folders in the home that others can access. config.toml has its own check."""
    return [
        (path, stat.S_IMODE(status.st_mode))
        for path, status in _files_with_status(scene.home)
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
        if status.st_mode & 0o077 and status.st_uid == scene.machine.user and os.path.basename(path) != "config.toml"
    ]


def _mend_abandoned(scene: Scene) -> list[str]:
    return [f"removed {os.path.basename(path)}" for path in remove(_abandoned_files(scene))]


@check("Left-overs", "home", mend=_mend_abandoned)
def _abandoned(scene: Scene) -> CheckResult:
    if files := _abandoned_files(scene):
        return note(f"{len(files)} temporary files were never finished", "Run `filrouge doctor --fix`.")
    return ok("there are no unfinished files")


def _abandoned_files(scene: Scene) -> list[str]:
    """Return temporary files that were never finished and are more than an hour old."""
    paths = [scene.path(name) for name in names_in(scene.home) if name.startswith(_TEMPORARY_PREFIXES)]
    oldest = scene.now.timestamp() - _ABANDONED_SECONDS
    return [path for path in paths if os.path.isfile(path) and (status := _lstat(path)) and status.st_mtime < oldest]


def _files_with_status(home: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every path in the home with its `lstat`. Files that vanish meanwhile, such as SQLite's, are skipped."""
    for folder, names, files in os.walk(home):
        for path in (os.path.join(folder, name) for name in (*names, *files)):
            if status := _lstat(path):
                yield path, status


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


# The database: integrity, schema version, locks, and the event ledger.

#: Up to this size, SQLite's full check takes less than a second.
_MAX_FULL_CHECK_BYTES: Final = 32_000_000
#: Above this size, even the quick check takes too long without `--deep`.
_MAX_QUICK_CHECK_BYTES: Final = 500_000_000
_MAX_LOG_BYTES: Final = 256_000_000
#: A writer normally locks the database for milliseconds, and Filrouge's longest batch for less than this.
_LOCK_MILLISECONDS: Final = 1500


@check("Database", "database")
def _database(scene: Scene) -> CheckResult:
    if not os.path.exists(scene.database):
        return note("there is no database yet", START_REMEDY)
    size = os.path.getsize(scene.database)
    if size > _MAX_QUICK_CHECK_BYTES and not scene.deep:
        schema_number(scene.database)  # raises if the file does not open or its first pages cannot be read
        return note(
            f"it opens; {size >> 20} MB are too much to check without `--deep`", "Run `filrouge doctor --deep`."
        )
    if found := check_problems(scene.database, quick=not scene.deep and size > _MAX_FULL_CHECK_BYTES):
        return fail(found[0], REPAIR_REMEDY)
    return ok(f"sound, {size >> 10} KB")


@check("Schema version", "database")
def _schema(scene: Scene) -> CheckResult:
    with scene.opening() as path:
        found, supported = schema_number(path), migrations("sqlite")[-1].number
    refuse_older(found, what=scene.database)
    if found > supported:
        cause = f"the database was written by a newer Filrouge: schema {found}; this version has {supported}"
        return fail(cause, f"Run `{installation.upgrade_command()}`.")
    if found < supported:
        return note(f"schema {found}; this version has {supported}", "Run `filrouge daemon start`, which migrates it.")
    return ok(f"schema {found}")


@check("Journal mode", "database")
def _journal_mode(scene: Scene) -> CheckResult:
    with scene.opening() as path:
        mode = journal_mode(path)
    if mode != "wal":
        return note(f"it is `{mode}`, not `wal`: the database was copied there by hand, or restored", START_REMEDY)
    return ok("wal")


@check("Write lock", "database")
def _write_lock(scene: Scene) -> CheckResult:
    with scene.opening() as path:
        schema_number(path)
    if not can_write(path, milliseconds=_LOCK_MILLISECONDS):
        cause = f"another program has locked the database against writing for {_LOCK_MILLISECONDS / 1000:g} seconds"
        return warn(cause, f"Find it with `fuser {path}`; close that program, or stop a daemon that hangs.")
    return ok("the database can be written")


@check("Write-ahead log", "database")
def _write_ahead_log(scene: Scene) -> CheckResult:
    size = size_of(f"{scene.database}-wal")
    if size > _MAX_LOG_BYTES:
        remedy = "Close programs that have the database open, then run `filrouge daemon stop`."
        return warn(f"it has {size >> 20} MB: a reader keeps it from being emptied", remedy)
    return ok(f"{size >> 10} KB")


@check("Ledger", "database")
def _ledger(scene: Scene) -> CheckResult:
    if not os.path.exists(scene.database):
        return ok("no event was received yet")
    with scene.reading() as tx:
        ledger, received, abandoned = Events(tx).ledger(), Events(tx).received(), Events(tx).abandoned()
    sums = " + ".join(f"{number} {state}" for state, number in ledger.items())
    if received != sum(ledger.values()):
        return fail(f"{received} events received, but {sums}", REPAIR_REMEDY)
    if abandoned:
        cause = f"{abandoned} events wait for extraction, and no job will process them"
        return fail(cause, "Their text is stored. Please report this, with filrouge.log.")
    return ok(f"{received} events received = {sums}")


@check("Word index", "database")
def _word_index(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        counts = {row["analyser"]: int(row["n"]) for row in tx.all("turns.analysers")}
    newest, total = max(counts, default=0), sum(counts.values())
    if stale := total - (counts[newest] if newest else 0):
        cause = f"{stale} of {total} turns were indexed by an earlier version, and are found by whole words only"
        return note(cause, "Run `filrouge daemon start`, which indexes them again in the background.")
    return ok(f"the words of {total} turns are indexed")


# The backups: age, and whether each still equals what was verified.

#: Backups are made daily, and the machine may be off for a day, so a backup is old only after this many days.
_MAX_BACKUP_DAYS: Final = 3


@check("Backups", "database")
def _backups(scene: Scene) -> CheckResult:
    failed, last = backup_files.last_failure(scene.home), backup_files.newest(scene.home)
    age = _days(scene.now, last.at) if last else 0.0
    newest = f"the newest verified backup is {age:.1f} days old" if last else "there is no backup yet"
    if failed:
        return fail(f"{newest}; the last one failed: {failed['error']}", "Run `filrouge backup`.")
    if not os.path.exists(scene.database):
        return ok(newest)
    with scene.reading() as tx:
        changed, begun = last is None or progress(tx) != last.mark, tx.one("journal.begun")
    waited = age if last else _days(scene.now, begun["at"]) if begun and begun["at"] else 0.0
    if changed and waited > _MAX_BACKUP_DAYS:
        return warn(newest, "Run `filrouge backup`, and see `filrouge settings backup_hours`.")
    return ok(newest)


def _days(now: datetime, at: str) -> float:
    return (now - from_text(at)).total_seconds() / 86_400


@check("Backups verified", "database")
def _backups_verified(scene: Scene) -> CheckResult:
    folder = backup_files.backup_directory(scene.home)
    names = sorted(filter(backup_files.is_name, (name.removesuffix(".db") for name in names_in(folder))))
    names = [name for name in names if os.path.exists(backup_files.path_of(scene.home, name))]
    if wrong := [name for name in names if backup_files.find_manifest(scene.home, name) is None]:
        cause = f"{len(wrong)} differ from what was verified, such as {wrong[0]}"
        return warn(cause, f"Make another with `filrouge backup`, then delete {folder}/{wrong[0]}.db.")
    return ok(f"{len(names)} backups, each with its manifest")


@check("Backup schedule", "database")
def _backup_schedule(scene: Scene) -> CheckResult:
    if hours := scene.settings().backup_hours:
        return ok(f"every {hours:g} hours, if something changed")
    return note("no backups are made automatically", "Run `filrouge settings backup_hours 24`.")


# The checks of `filrouge doctor --deep`.


@check("Schema", "deep")
def _tables(scene: Scene) -> CheckResult:
    if found := schema_faults(scene.database):
        return fail(found[0], REPAIR_REMEDY)
    return ok("every table is as its migrations create it")


@check("Seals", "deep")
def _seals(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        broken = broken_seals(tx)
    if broken:
        return fail(f"{len(broken)} rows differ from what was stored: {', '.join(broken[:5])}", REPAIR_REMEDY)
    return ok("every turn, memory and event is unchanged")


@check("Journal", "deep")
def _journal(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        verdict = Journal(tx).verify()
    if not verdict.sound:
        return fail(f"entry {verdict.broken_at}: {verdict.reason}", REPAIR_REMEDY)
    return ok(f"{verdict.entries} entries, {verdict.redacted} redacted")


@check("Vectors", "deep")
def _vectors(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        wrong = wrong_vectors(tx)
    if wrong:
        return fail(f"{len(wrong)} vectors do not fit their space", "Run `filrouge repair`.")
    return ok("every vector has the length of its space")


@check("Against the backup", "deep")
def _unchanged_since_backup(scene: Scene) -> CheckResult:
    last = backup_files.newest(scene.home)
    if last is None or last.schema != schema_of(scene.database):
        return ok("there is no backup with this schema to compare with")
    if found := differing(scene.database, backup_files.path_of(scene.home, last.name)):
        rows = ", ".join(f"{count} of {table}" for table, count in found.items())
        return fail(f"rows that never change differ from those of {last.at[:10]}: {rows}", REPAIR_REMEDY)
    return ok(f"rows that never change are the same as on {last.at[:10]}")


@check("Embedding model", "deep")
def _embedding_model(scene: Scene) -> CheckResult:
    settings = scene.settings()
    from filrouge.runtime.wiring import embedder_of  # imported here because it takes a second

    model = embedder_of(configured_embedder(scene), settings, scene.environ)
    model.query("ready?")
    calibration = model.space.calibration
    scale = f"calibration {calibration.origin}, {calibration.pairs:,} pairs" if calibration else "not calibrated yet"
    return ok(f"{model.space.model}, {model.space.revision}; {scale}")
