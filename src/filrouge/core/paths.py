"""Paths and permissions of the files that Filrouge keeps on this machine.

One directory, `FILROUGE_HOME`, holds everything: the database, the socket, the log, the spool, and the two small files
that the daemon writes for the hooks. One daemon serves one home. This module is on the hook's path, so it imports only
`os`, `stat` and `sys`; a test compares its default directory with platformdirs.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

DATABASE = "filrouge.db"
SOCKET = "filrouge.sock"
LOG = "filrouge.log"
CONFIG = "config.toml"
LOCK = "daemon.lock"
RUNTIME = "daemon.json"
FAILURE = "daemon.error"
SPOOL = "spool"
HOOK_SETTINGS = "hook.json"
#: Exists while a remote daemon rejects this machine's key; its user has been told once.
REFUSED = "refused"
#: Number of events that hooks could neither send nor spool.
LOST_EVENTS = "lost-events"
#: The key that hashes this home's tombstones, and the tombstones.
FORGET_KEY, FORGOTTEN = "forget.key", "forgotten"
#: Reserved disk space. It is freed on a full disk, because deleting rows needs space too.
DISK_RESERVE = "ballast"
#: The certificate and the API key of Obsidian's plugin.
VAULT_CERTIFICATE, VAULT_KEY = "obsidian.pem", "obsidian.key"
#: The token of the team's hub.
TEAM_TOKEN = "hub.token"  # noqa: S105 (its file)
BRIEFS = "briefs"
WORD_INDEXES = "words"
BACKUPS = "backups"
#: Copies of the agents' settings from before Filrouge changed them.
SETUP = "setup"
#: Placeholder in a stored brief. Each session replaces it with a nonce of its own.
UNSET_NONCE = "0" * 16

#: sun_path holds 108 bytes on Linux and 104 on macOS, including the closing NUL.
MAX_SOCKET_PATH = 100
SHORT_SOCKETS = "/tmp"  # noqa: S108 (owner and mode are checked)
#: Lists the agents' settings files that Filrouge wrote to.
SETUP_LIST = "setup.json"
_OWN_FILES = (DATABASE, LOCK, RUNTIME, HOOK_SETTINGS, SETUP_LIST, CONFIG)
#: Every file and folder of the home except the socket and rotated logs. None of them may be a symbolic link.
FILES = (
    *(DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", LOG, CONFIG, LOCK, RUNTIME, FAILURE, HOOK_SETTINGS, REFUSED),
    *(LOST_EVENTS, FORGET_KEY, f"{FORGET_KEY}.new", FORGOTTEN, SETUP_LIST, DISK_RESERVE, VAULT_CERTIFICATE, VAULT_KEY),
    TEAM_TOKEN,
)
FOLDERS = (SPOOL, BRIEFS, WORD_INDEXES, "models", BACKUPS, SETUP)
_KNOWN_SUFFIXES = (".log", ".part", ".aside", ".md")


def home(environ: Mapping[str, str] | None = None) -> str:
    """Return the absolute home directory: `FILROUGE_HOME`, else the user's data directory."""
    mac, linux = "~/Library/Application Support", ("XDG_DATA_HOME", "~/.local/share")
    return user_directory(environ, "FILROUGE_HOME", "filrouge", mac=mac, linux=linux)


def user_directory(
    environ: Mapping[str, str] | None, variable: str, name: str, *, mac: str, linux: tuple[str, str]
) -> str:
    """Return the absolute directory that a variable names, else `name` in the platform's directory for such files.

    Args:
        linux: the variable that names the platform's directory, and the directory without it.
    """
    env = os.environ if environ is None else environ
    configured = env.get(variable, "").strip()
    if configured:
        return os.path.abspath(os.path.expanduser(configured))
    if sys.platform == "darwin":
        return os.path.join(os.path.expanduser(mac), name)
    return os.path.join(env.get(linux[0], "").strip() or os.path.expanduser(linux[1]), name)


def inside(directory: str, name: str) -> str:
    """Return the path of one of the files above."""
    return os.path.join(directory, name)


def socket_path(directory: str) -> str:
    """Return the path of the daemon's unix socket: in the home, or a short hashed name if that path is too long.

    The short form lies in a directory that only this user can write to, so nobody else can create a socket there first.
    """
    plain = os.path.join(directory, SOCKET)
    if len(os.fsencode(plain)) <= MAX_SOCKET_PATH:
        return plain
    return f"{_short_directory()}/{stable_hash(os.path.realpath(directory))}.sock"


def is_own_socket(path: str) -> bool:
    """Return True if there is a socket of this user at `path`."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISSOCK(status.st_mode) and status.st_uid == os.getuid()


def _short_directory() -> str:
    return f"{SHORT_SOCKETS}/filrouge-{os.getuid()}"


def open_nofollow(path: str, flags: int) -> int:
    """Open one of Filrouge's files without following a symbolic link; a new file gets mode 0600.

    Returns:
        The file descriptor.

    Raises:
        OSError: the file cannot be opened, or is a symbolic link (ELOOP).
    """
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def store_secret(home: str, name: str, text: str) -> None:
    """Store a secret of another program in the home, readable only by its user."""
    make_private(home)
    with os.fdopen(open_nofollow(inside(home, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as file:
        file.write(text)


def load_secret(home: str, name: str) -> str:
    """Return a stored secret; empty if there is none."""
    try:
        with os.fdopen(open_nofollow(inside(home, name), os.O_RDONLY)) as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def sync(path: str) -> None:
    """Sync a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def find_symlink(directory: str) -> str:
    """Return the path of a symbolic link found in place of one of Filrouge's files; empty if there is none.

    The home itself may be a link owned by this user or root: users move a home to another disk that way. A link inside
    the home could make Filrouge read or overwrite the file that it points to.
    """
    try:
        status = os.lstat(directory)
    except OSError:
        return ""
    if stat.S_ISLNK(status.st_mode) and status.st_uid not in (os.getuid(), 0):
        return directory
    for name in (*FILES, *FOLDERS):
        path = os.path.join(directory, name)
        if os.path.islink(path):
            return path
    return ""


def brief_path(directory: str, project: str) -> str:
    """Return the path of the project's stored brief, which hooks use when no daemon runs."""
    return os.path.join(directory, BRIEFS, f"{stable_hash(project)}.md")


def stable_hash(text: str) -> str:
    """Return sixteen hexadecimal digits that are the same in every process and on every machine."""
    # FNV-1a: any stable hash works here, and importing hashlib costs the hook 4 ms.
    number = 0xCBF29CE484222325
    for byte in text.encode("utf-8", "surrogatepass"):
        number = ((number ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{number:016x}"


def make_private(directory: str) -> None:
    """Create `directory` with mode 0700, or tighten the mode of an existing one that belongs to Filrouge.

    A directory that holds other people's or programs' files (`/tmp`, `/var`, a home directory) is left unchanged.

    Raises:
        OSError: it cannot be created, or it is the directory of short sockets and another user may have access to it.
    """
    if directory == _short_directory():
        _own_short_directory(directory)
        return
    os.makedirs(directory, mode=0o700, exist_ok=True)
    status = os.stat(directory)
    open_to_others = status.st_mode & 0o077 and not status.st_mode & stat.S_ISVTX
    if status.st_uid == os.getuid() and open_to_others and is_filrouge_directory(directory):
        os.chmod(directory, 0o700)


def is_filrouge_directory(directory: str) -> bool:
    """Return True for an empty directory, or one that holds Filrouge's files and no foreign folder."""
    with os.scandir(directory) as found:
        entries = {entry.name: entry.is_dir(follow_symlinks=False) for entry in found}
    if any(is_folder and name not in FOLDERS for name, is_folder in entries.items()):
        return False
    return any(name in entries for name in (*_OWN_FILES, SPOOL)) or all(
        name.endswith(_KNOWN_SUFFIXES) for name in entries
    )


def _own_short_directory(directory: str) -> None:
    """Create or verify the directory of short sockets. It must be private, because `/tmp` is writable for everybody."""
    if not os.path.lexists(directory):
        os.makedirs(directory, 0o700, exist_ok=True)
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(
            f"{directory} must be a directory of this user alone (mode 0700, no link); remove it, or set a"
            " FILROUGE_HOME with a shorter path."
        )


def unlink_quietly(path: str) -> None:
    """Remove a file if it is there and may be removed."""
    try:  # no `suppress`: its module costs a hook 5 ms
        os.unlink(path)
    except OSError:
        return


PROJECT_FILE: Final = ".filrouge.toml"


def find_project_file(directory: str) -> str:
    """Return the path of the project file in the directory or its closest parent; empty if there is none."""
    while not os.path.isfile(found := os.path.join(directory, PROJECT_FILE)):
        if (parent := os.path.dirname(directory)) == directory:
            return ""
        directory = parent
    return found
