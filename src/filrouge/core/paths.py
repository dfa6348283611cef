"""Where Filrouge lives on this machine.

One directory, `FILROUGE_HOME`, holds everything: the database, the socket, the log, the spool, and the
two small files the daemon keeps for the hooks. One daemon serves one home. This module is on the hook's
path, so it imports nothing but `os`, `stat` and `sys`; a test holds its default against platformdirs.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping

DATABASE = "filrouge.db"
SOCKET = "filrouge.sock"
LOG = "filrouge.log"
CONFIG = "config.toml"
LOCK = "daemon.lock"
RUNTIME = "daemon.json"
FAILURE = "daemon.error"
SPOOL = "spool"
HOOK_SETTINGS = "hook.json"
#: There while a daemon elsewhere does not take this machine's key, and its user knows.
REFUSED = "refused"
#: How many events hooks could neither hand over nor spool.
LOSSES = "lost-events"
#: The key of this home's tombstones, and the tombstones.
FORGET_KEY, FORGOTTEN = "forget.key", "forgotten"
#: Holds nothing, so that a full disk still has room for what makes room.
BALLAST = "ballast"
#: Of Obsidian's plugin.
VAULT_CERTIFICATE, VAULT_KEY = "obsidian.pem", "obsidian.key"
BRIEFS = "briefs"
WORDS = "words"
BACKUPS = "backups"
#: What stood in the settings of agents before Filrouge did.
SETUP = "setup"
#: Stands in a stored brief where each session gets a nonce of its own.
UNSET_NONCE = "0" * 16

#: sun_path holds 108 bytes on Linux and 104 on macOS, with the closing NUL.
LONGEST_SOCKET_PATH = 100
SHORT_SOCKETS = "/tmp"  # noqa: S108 (owner and mode are checked)
#: The list of the settings files of agents that Filrouge wrote into.
SETUP_LIST = "setup.json"
_OURS = (DATABASE, LOCK, RUNTIME, HOOK_SETTINGS, SETUP_LIST, CONFIG)
#: Every file and folder of the home but the socket and older logs; no symbolic link may stand in the place of one.
FILES = (
    *(DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", LOG, CONFIG, LOCK, RUNTIME, FAILURE, HOOK_SETTINGS, REFUSED),
    *(LOSSES, FORGET_KEY, f"{FORGET_KEY}.new", FORGOTTEN, SETUP_LIST, BALLAST, VAULT_CERTIFICATE, VAULT_KEY),
)
FOLDERS = (SPOOL, BRIEFS, WORDS, "models", BACKUPS, SETUP)
_LEAVES = (".log", ".part", ".aside", ".md")


def home(environ: Mapping[str, str] | None = None) -> str:
    """The absolute home directory: `FILROUGE_HOME`, else the user's data directory."""
    env = os.environ if environ is None else environ
    given = env.get("FILROUGE_HOME", "").strip()
    if given:
        return os.path.abspath(os.path.expanduser(given))
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/filrouge")
    base = env.get("XDG_DATA_HOME", "").strip() or os.path.expanduser("~/.local/share")
    return os.path.join(base, "filrouge")


def inside(directory: str, name: str) -> str:
    """The path of one of the files above."""
    return os.path.join(directory, name)


def socket_path(directory: str) -> str:
    """The daemon's unix socket: in the home, or under a short hashed name where that path is too long.

    The short form lives in a directory of this user only, so that nobody else can put a socket there first.
    """
    plain = os.path.join(directory, SOCKET)
    if len(os.fsencode(plain)) <= LONGEST_SOCKET_PATH:
        return plain
    return f"{_short_directory()}/{stable_hash(os.path.realpath(directory))}.sock"


def _short_directory() -> str:
    return f"{SHORT_SOCKETS}/filrouge-{os.getuid()}"


def open_own(path: str, flags: int) -> int:
    """A descriptor of one of our files, made with mode 0600; never of what a symbolic link names.

    Raises:
        OSError: it cannot be opened, or is a symbolic link (ELOOP).
    """
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def planted_link(directory: str) -> str:
    """The path of a symbolic link that stands where one of our files should be; empty if there is none.

    The home itself may be a link that this user or the administrator made: who moves it to another disk does that. A
    link inside it would have us write over, or read, what it names.
    """
    try:
        itself = os.lstat(directory)
    except OSError:
        return ""
    if stat.S_ISLNK(itself.st_mode) and itself.st_uid not in (os.getuid(), 0):
        return directory
    for name in (*FILES, *FOLDERS):
        path = os.path.join(directory, name)
        if os.path.islink(path):
            return path
    return ""


def brief_path(directory: str, project: str) -> str:
    """The brief that the daemon keeps for the project of that name, for a start without a daemon."""
    return os.path.join(directory, BRIEFS, f"{stable_hash(project)}.md")


def stable_hash(text: str) -> str:
    """Sixteen hexadecimal digits, the same in every process and on every machine."""
    # FNV-1a: any stable hash serves here, and hashlib costs the hook 4 ms.
    number = 0xCBF29CE484222325
    for byte in text.encode("utf-8", "surrogatepass"):
        number = ((number ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{number:016x}"


def make_private(directory: str) -> None:
    """Create `directory` with mode 0700, and tighten it if it was there with more and is ours.

    A directory that holds other people's or other programs' things (`/tmp`, `/var`, a home) stays as it is.

    Raises:
        OSError: it cannot be created; or it is the directory of short sockets and somebody else could be in it.
    """
    if directory == _short_directory():
        _own_short_directory(directory)
        return
    os.makedirs(directory, mode=0o700, exist_ok=True)
    facts = os.stat(directory)
    open_to_others = facts.st_mode & 0o077 and not facts.st_mode & stat.S_ISVTX
    if facts.st_uid == os.getuid() and open_to_others and is_ours(directory):
        os.chmod(directory, 0o700)


def is_ours(directory: str) -> bool:
    """True for an empty directory, and for one that holds our files and no folder of anybody else."""
    with os.scandir(directory) as found:
        entries = {entry.name: entry.is_dir(follow_symlinks=False) for entry in found}
    if any(folder and name not in FOLDERS for name, folder in entries.items()):
        return False
    return any(name in entries for name in (*_OURS, SPOOL)) or all(name.endswith(_LEAVES) for name in entries)


def _own_short_directory(directory: str) -> None:
    """In a place where anybody may write, only a directory that was ours alone from the start will do."""
    if not os.path.lexists(directory):
        os.makedirs(directory, 0o700, exist_ok=True)
    facts = os.lstat(directory)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise PermissionError(
            f"{directory} must be a directory of this user alone (mode 0700, no link); remove it, or set a"
            " FILROUGE_HOME with a shorter path."
        )
