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
from filrouge.cli.doctor.models import wanted_embedder
from filrouge.cli.doctor.probes import change_mode, existing_part, mode_of, names_in, remove, size_of
from filrouge.cli.doctor.scene import MEND, START, Check, CheckResult, Scene, fail, note, ok, warn
from filrouge.core import installation
from filrouge.core.clock import from_text
from filrouge.core.paths import BACKUPS, BRIEFS, DISK_RESERVE, SPOOL, WORD_INDEXES, make_private
from filrouge.maintenance import backup_files
from filrouge.maintenance.copies import differing, schema_faults, schema_of
from filrouge.maintenance.repair import wrong_vectors
from filrouge.runtime.journal import Journal
from filrouge.runtime.soundness import broken_seals, can_write, check_problems, journal_mode, progress, schema_number
from filrouge.runtime.sqlite import check_engine, migrations, refuse_older

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
    system, bits = scene.machine.system, scene.machine.bits
    if system not in ("Linux", "Darwin"):
        return fail(f"{system} is not supported", "Use Linux or macOS; on Windows, use WSL 2.")
    if bits < 64:
        cause = f"Python has {bits} bits, for which there are no wheels of what is needed"
        return warn(cause, "Install a Python of 64 bits.")
    return ok(f"{system}, {bits} bits")


def _sqlite(scene: Scene) -> CheckResult:
    check_engine(scene.machine.sqlite)
    return ok(f"{scene.machine.sqlite}, new enough to be safe")


def _sqlite_features(scene: Scene) -> CheckResult:
    if missing := sorted(_NEEDED_OPTIONS - scene.machine.sqlite_options):
        remedy = f"Install the wheel: `{installation.reinstall_command('apsw-sqlite3mc')}`."
        return fail(f"SQLite was built without {', '.join(missing)}", remedy)
    return ok("full-text search is there")


def _disk_space(scene: Scene) -> CheckResult:
    free = scene.machine.free(existing_part(scene.home))
    if free < _LEAST_FREE_BYTES:
        return fail(f"{free >> 20} MB are free", "Free some space: capture stops without it.")
    return ok(f"{free >> 30} GB free")


def _disk_reserve(scene: Scene) -> CheckResult:
    if not os.path.exists(scene.database) or os.path.exists(scene.path(DISK_RESERVE)):
        return ok("the disk was not full")
    remedy = "Free some space, then run `filrouge daemon stop` and `filrouge daemon start`, which make it again."
    return warn("the file that keeps room on a full disk is gone: the disk was full once, or nearly", remedy)


def _open_files(scene: Scene) -> CheckResult:
    if scene.machine.open_files < _LEAST_OPEN_FILES:
        return warn(f"a process may open {scene.machine.open_files} files", "Raise it: `ulimit -n 1024`.")
    return ok("a process may open enough")


def _clock(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        newest = (tx.one("events.last") or {"at": None})["at"]
    if newest and from_text(newest) > scene.now + _CLOCK_SLACK:
        cause = f"it says {scene.now:%Y-%m-%d %H:%M}, before the newest event, of {newest[:16].replace('T', ' ')}"
        return warn(cause, "Set the clock: what is newer replaces what is older.")
    return ok("it does not run backwards")


# The home: existence, owner, modes, file system.

#: Network file systems, on which file locks and SQLite's write-ahead log are unreliable.
_NETWORK: Final = frozenset(
    "nfs nfs4 cifs smb3 smbfs afpfs afs ncpfs 9p ceph glusterfs fuse.sshfs fuse.s3fs fuse.rclone webdav davfs".split()
)
_FOLDERS: Final = (SPOOL, BRIEFS, WORD_INDEXES, BACKUPS)
#: How the names of temporary files begin, and the age in seconds from which they count as abandoned.
_TEMPORARY: Final = (".new-", ".probe-")
_TEMPORARY_SECONDS: Final = 3600


def _home(scene: Scene) -> CheckResult:
    home = scene.home
    if not os.path.exists(home):
        return warn(f"{home} does not exist yet", "Run `filrouge doctor --fix`, or `filrouge daemon start`.")
    if not os.path.isdir(home):
        return fail(f"{home} is no directory", "Move it away, or set FILROUGE_HOME to another path.")
    mode = mode_of(home)
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
    # Any other directory than one with a database or a spool keeps its mode.
    is_ours = os.path.isdir(home) and (os.path.exists(scene.database) or os.path.isdir(scene.path(SPOOL)))
    if is_ours and os.stat(home).st_uid == scene.machine.user and (mode := mode_of(home)) != 0o700:
        return [change_mode(home, home, mode, 0o700)]
    return []


def _link(scene: Scene) -> CheckResult:
    if not os.path.islink(scene.home):
        return ok("it is no link")
    if not os.path.exists(scene.home):
        return fail(f"{scene.home} is a link to nothing", "Mount its disk, or set FILROUGE_HOME to another path.")
    return note(f"{scene.home} is a link to {os.path.realpath(scene.home)}", "Name the same path everywhere.")


def _owner(scene: Scene) -> CheckResult:
    if os.path.isdir(scene.home):
        for path, facts in ((scene.home, os.stat(scene.home)), *_files(scene.home)):
            if facts.st_uid != scene.machine.user:
                return fail(f"{path} belongs to another user", f"Run `sudo chown -R $(id -un) {scene.home}`.")
    return ok("everything is yours")


def _file_system(scene: Scene) -> CheckResult:
    """Check the type of the file system of the home, which is that of the deepest mount point above it."""
    path, depth, kind = os.path.realpath(scene.home), -1, ""
    for words in (line.split(" ") for line in scene.machine.mounts.splitlines()):
        point = words[1].replace("\\040", " ").rstrip("/") if len(words) > 2 else None
        if point is not None and f"{path}/".startswith(f"{point}/") and len(point) >= depth:
            depth, kind = len(point), words[2]
    if kind in _NETWORK:
        cause = f"the home lies on a network disk ({kind}), where locks cannot be relied on"
        return fail(cause, "Move the home to a local disk and set FILROUGE_HOME to it.")
    return ok(kind or "unknown on this system")


def _folders(scene: Scene) -> CheckResult:
    for path in map(scene.path, _FOLDERS):
        if os.path.lexists(path) and not os.path.isdir(path):
            return fail(f"{path} is no directory", f"Run `mv {path} {path}.old`; it is made when it is needed.")
        if os.path.isdir(path) and mode_of(path) & 0o700 != 0o700:
            return fail(f"{path} is not writable", f"Run `chmod u+rwx {path}`, or `filrouge doctor --fix`.")
    return ok("all can be used")


def _mend_folders(scene: Scene) -> list[str]:
    done = list[str]()
    for name in _FOLDERS:
        path = scene.path(name)
        if os.path.isdir(path) and not os.path.islink(path) and mode_of(path) & 0o700 != 0o700:
            os.chmod(path, 0o700)
            done.append(f"{name}: made writable")
    return done


def _modes(scene: Scene) -> CheckResult:
    if loose := _loose(scene):
        few = ", ".join(os.path.relpath(path, scene.home) for path, _ in loose[:3])
        cause = f"others can read {few}{' and more' if len(loose) > 3 else ''}"
        return warn(cause, f"Run `chmod -R go-rwx {scene.home}`, or `filrouge doctor --fix`.")
    return ok("no file is readable by others")


def _mend_modes(scene: Scene) -> list[str]:
    done = list[str]()
    for path, mode in _loose(scene):
        with suppress(FileNotFoundError):  # SQLite removes its auxiliary files at any time
            done.append(change_mode(path, os.path.relpath(path, scene.home), mode, mode & 0o700))
    return done


def _loose(scene: Scene) -> list[tuple[str, int]]:
    """Return the user's files and folders in the home that others can access. config.toml has its own check."""
    return [
        (path, stat.S_IMODE(facts.st_mode))
        for path, facts in _files(scene.home)
        if stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)
        if facts.st_mode & 0o077 and facts.st_uid == scene.machine.user and os.path.basename(path) != "config.toml"
    ]


def _abandoned(scene: Scene) -> CheckResult:
    if left := _abandoned_files(scene):
        return note(f"{len(left)} files were begun and never finished", "Run `filrouge doctor --fix`.")
    return ok("there are none")


def _mend_abandoned(scene: Scene) -> list[str]:
    return [f"removed {os.path.basename(path)}" for path in remove(_abandoned_files(scene))]


def _abandoned_files(scene: Scene) -> list[str]:
    """Return temporary files that were never finished and are more than an hour old."""
    paths = [scene.path(name) for name in names_in(scene.home) if name.startswith(_TEMPORARY)]
    old = scene.now.timestamp() - _TEMPORARY_SECONDS
    return [path for path in paths if os.path.isfile(path) and (facts := _facts(path)) and facts.st_mtime < old]


def _files(home: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every path in the home with its `lstat`. Files that vanish meanwhile, such as SQLite's, are skipped."""
    for folder, names, files in os.walk(home):
        for path in (os.path.join(folder, name) for name in (*names, *files)):
            if facts := _facts(path):
                yield path, facts


def _facts(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


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
    with scene.opening() as path:
        found, known = schema_number(path), migrations("sqlite")[-1].number
    refuse_older(found, what=scene.database)
    if found > known:
        cause = f"the database was written by a newer Filrouge: schema {found}, known here {known}"
        return fail(cause, f"Run `{installation.upgrade_command()}`.")
    if found < known:
        return note(f"schema {found}; this version has {known}", "Run `filrouge daemon start`, which brings it up.")
    return ok(f"schema {found}")


def _journal_mode(scene: Scene) -> CheckResult:
    with scene.opening() as path:
        mode = journal_mode(path)
    if mode != "wal":
        return note(f"it is `{mode}`, not `wal`: the database was put there by hand, or restored", START)
    return ok("wal")


def _write_lock(scene: Scene) -> CheckResult:
    with scene.opening() as path:
        schema_number(path)
    if not can_write(path, milliseconds=_LOCK_MILLISECONDS):
        cause = f"another program holds the database and lets nobody write for {_LOCK_MILLISECONDS / 1000:g} seconds"
        return warn(cause, f"See who: `fuser {path}`; close that program, or stop a daemon that hangs.")
    return ok("whoever wants to write may")


def _write_ahead_log(scene: Scene) -> CheckResult:
    size = size_of(f"{scene.database}-wal")
    if size > _LARGEST_LOG_BYTES:
        remedy = "Close programs that have the database open, then run `filrouge daemon stop`."
        return warn(f"it has {size >> 20} MB: a reader keeps it from being emptied", remedy)
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
    newest, total = max(counts, default=0), sum(counts.values())
    if stale := total - (counts[newest] if newest else 0):
        cause = f"{stale} of {total} turns are indexed as an earlier version did, and found by whole words only"
        return note(cause, "Run `filrouge daemon start`, which indexes them again beside its work.")
    return ok(f"the words of {total} turns are indexed")


# The backups: age, and whether each still equals what was verified.

#: Backups are made daily, and the machine may be off for a day, so a backup is old only after this many days.
_OLD_DAYS: Final = 3


def _backups(scene: Scene) -> CheckResult:
    failed, last = backup_files.last_failure(scene.home), backup_files.newest(scene.home)
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


def _days(now: datetime, at: str) -> float:
    return (now - from_text(at)).total_seconds() / 86_400


def _backups_verified(scene: Scene) -> CheckResult:
    folder = backup_files.backup_directory(scene.home)
    names = sorted(filter(backup_files.is_name, (name.removesuffix(".db") for name in names_in(folder))))
    names = [name for name in names if os.path.exists(backup_files.path_of(scene.home, name))]
    if wrong := [name for name in names if backup_files.find_manifest(scene.home, name) is None]:
        cause = f"{len(wrong)} are not what was verified, such as {wrong[0]}"
        return warn(cause, f"Make another with `filrouge backup`, then delete {folder}/{wrong[0]}.db.")
    return ok(f"{len(names)}, each with what was verified of it")


def _backup_schedule(scene: Scene) -> CheckResult:
    if hours := scene.settings().backup_hours:
        return ok(f"every {hours:g} hours in which something changed")
    return note("no backup is made by itself", "Run `filrouge settings backup_hours 24`.")


# The checks of `filrouge doctor --deep`.


def _tables(scene: Scene) -> CheckResult:
    if found := schema_faults(scene.database):
        return fail(found[0], MEND)
    return ok("every table is what its migrations make")


def _seals(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        broken = broken_seals(tx)
    if broken:
        return fail(f"{len(broken)} rows are not what was stored: {', '.join(broken[:5])}", MEND)
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
    if found := differing(scene.database, backup_files.path_of(scene.home, last.name)):
        rows = ", ".join(f"{count} of {table}" for table, count in found.items())
        return fail(f"rows that never change are not what they were on {last.at[:10]}: {rows}", MEND)
    return ok(f"what never changes is what it was on {last.at[:10]}")


def _embedding_model(scene: Scene) -> CheckResult:
    settings = scene.settings()
    from filrouge.runtime.wiring import embedder_of  # imported here because it takes a second

    model = embedder_of(wanted_embedder(scene), settings, scene.environ)
    model.query("ready?")
    known = model.space.calibration
    scale = f"calibration {known.origin}, {known.pairs:,} pairs" if known else "not calibrated yet"
    return ok(f"{model.space.model}, {model.space.revision}; {scale}")


CHECKS: Final = (
    Check("Python", "home", _python),
    Check("Platform", "home", _platform),
    Check("SQLite", "home", _sqlite),
    Check("SQLite features", "home", _sqlite_features),
    Check("Disk space", "home", _disk_space),
    Check("Ballast", "home", _disk_reserve),
    Check("Open files", "home", _open_files),
    Check("Clock", "home", _clock),
    Check("Home", "home", _home, _mend_home),
    Check("Link", "home", _link),
    Check("Owner", "home", _owner),
    Check("File system", "home", _file_system),
    Check("Folders", "home", _folders, _mend_folders),
    Check("File modes", "home", _modes, _mend_modes),
    Check("Left-overs", "home", _abandoned, _mend_abandoned),
    Check("Database", "database", _database),
    Check("Schema version", "database", _schema),
    Check("Journal mode", "database", _journal_mode),
    Check("Write lock", "database", _write_lock),
    Check("Write-ahead log", "database", _write_ahead_log),
    Check("Ledger", "database", _ledger),
    Check("Word index", "database", _word_index),
    Check("Backups", "database", _backups),
    Check("Backups verified", "database", _backups_verified),
    Check("Backup schedule", "database", _backup_schedule),
    Check("Schema", "deep", _tables),
    Check("Seals", "deep", _seals),
    Check("Journal", "deep", _journal),
    Check("Vectors", "deep", _vectors),
    Check("Against the backup", "deep", _unchanged_since_backup),
    Check("Embedding model", "deep", _embedding_model),
)
