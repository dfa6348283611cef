"""Finds the names by which the project around a directory may be known.

The names are read from git's own files, because a subprocess would exceed a hook's time budget. Strongest first:

    name:    the `project` key of a `.filrouge.toml` in the directory or above it; counts once the user agreed
    under:   prefix for the names of the folder that holds that file, if that is not the folder of the names below
    origin:  the address of the remote `origin`, the same for ssh and https and without credentials
    root:    the id of the first commit, if the repository was created here
    clone:   a hash of the clone's first reflog line, otherwise
    path:    the main work tree, so that linked work trees share it; outside git, the directory itself

`root` and `clone` come from the first line of git's reflog. Git prunes old lines after some months, so a line counts
only if it records a creation: its old commit id is all zeros. Nothing here raises; unreadable files are skipped.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from filrouge.core.paths import PROJECT_FILE, find_project_file, stable_hash

NAME_PREFIX = "name:"
HOLDER_PREFIX = "under:"


class FolderNames(NamedTuple):
    """The parts of a list of names (`hosts.project`)."""

    chosen: str
    """`name:…` of a `.filrouge.toml`, or empty. A name that comes alone was chosen by the caller, not by a file."""
    holder: tuple[str, ...]
    """The names of the folder that holds the file, strongest first; empty where no file chose."""
    own: tuple[str, ...]
    """The names of the folder itself, strongest first."""


def split_names(names: Sequence[str]) -> FolderNames:
    """Split a list of names, strongest first, as `hosts.project.names` returns it."""
    own = tuple(name for name in names[1:] if not name.startswith(HOLDER_PREFIX))
    if not names or not names[0].startswith(NAME_PREFIX) or not own:
        return FolderNames("", (), tuple(names))
    holder = tuple(name.removeprefix(HOLDER_PREFIX) for name in names if name.startswith(HOLDER_PREFIX))
    return FolderNames(names[0], holder or own, own)


def brief_keys(names: Sequence[str]) -> list[str]:
    """Return the keys under which the brief of a folder's project may be stored, best first."""
    folder = split_names(names)
    strong = [name for name in folder.holder if not name.startswith("path:")]
    return [*(brief_key(folder.chosen, name) for name in strong or folder.holder), *folder.own]


def brief_key(chosen: str, holder: str) -> str:
    """Return the brief's key for a chosen name and the folder with the name `holder`."""
    return f"{chosen}\n{holder}"


def join_names(chosen: str, holder: Iterable[str], own: Sequence[str]) -> list[str]:
    """Return the list of names for a folder whose project was chosen by a file in the folder `holder`."""
    held = list(holder)
    return [chosen, *([] if held == list(own) else [HOLDER_PREFIX + name for name in held]), *own]


LONGEST_FILE = 262_144
LONGEST_BRANCH = 255
SHORT_COMMIT = 12
OFF = ("0", "false", "no", "off")
DEFAULT_PORTS = {"ssh": "22", "https": "443", "http": "80", "git": "9418"}


class Repository(NamedTuple):
    """The directories of a repository."""

    common: str
    """The git directory that all its work trees share."""
    tree: str
    """Its main work tree, or the git directory itself where it is bare."""
    own: str
    """The git directory of the work tree asked about, with a HEAD of its own."""


def names(cwd: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return every name of the project that contains `cwd`, strongest first; empty if the path is not absolute."""
    if not os.path.isabs(cwd):
        return ()
    try:
        return tuple(_names(cwd, environ))
    except (OSError, ValueError):  # a NUL or a lone surrogate in the path
        return ()


def _names(cwd: str, environ: Mapping[str, str]) -> list[str]:
    own = _identity(find_repository(cwd), _project_dir(cwd, environ))
    override, place = _override(cwd)
    if not override:
        return own
    return join_names(f"name:{override}", _identity(find_repository(place), place), own)


def _identity(repository: Repository | None, directory: str) -> list[str]:
    """Return the names of a folder, without the name in its project file."""
    if repository is None:
        return [f"path:{os.path.realpath(directory)}"]
    origin, birth = _origin(repository), _creation_id(repository)
    found = [f"origin:{origin}"] if origin else []
    found += [birth] if birth else []
    return [*found, f"path:{os.path.realpath(repository.tree)}"]


def branch(cwd: str) -> str:
    """Return the branch that is checked out at `cwd`, or the short commit id of a detached HEAD; else empty.

    A branch without a commit counts. Names that git would reject are ignored.
    """
    if not os.path.isabs(cwd):
        return ""
    try:
        repository = find_repository(cwd)
        head = _read(os.path.join(repository.own, "HEAD")) if repository else ""
    except (OSError, ValueError):
        return ""
    found = re.match(r"ref:[ \t]*refs/heads/([^\x00-\x20\x7f~^:?*\[\\]+)\s*\Z", head)
    if found:
        return found[1] if len(found[1]) <= LONGEST_BRANCH and not found[1].startswith(".") else ""
    commit = re.match(r"([0-9a-f]{40}(?:[0-9a-f]{24})?)\s*\Z", head)
    return commit[1][:SHORT_COMMIT] if commit else ""


def find_repository(directory: str) -> Repository | None:
    """Return the repository whose work tree contains `directory`, or None."""
    for place in _upwards(directory):
        marker = os.path.join(place, ".git")
        if os.path.isdir(marker):
            if os.path.exists(os.path.join(marker, "HEAD")):
                return Repository(common=marker, tree=place, own=marker)
        elif os.path.isfile(marker):
            return _linked(place, _read(marker))
    return None


def normalise(url: str, base: str = "/") -> str:
    """Return one spelling for all addresses of a repository: `host/path`, or an absolute path.

    >>> normalise("git@Forge.example:Ana/shop.git") == normalise("https://ana:key@forge.example/Ana/shop/")
    True
    """
    url = re.split(r"[?#\s]", url.strip(), maxsplit=1)[0]
    full = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/*(.*)", url)
    short = re.match(r"(?:[^/@:]*@)?(\[[^\]]*\]|[^/:@]{2,}):(?!//)(.*)", url)
    if full and full[1].lower() != "file":
        scheme = full[1].lower().removeprefix("git+")
        host = full[2].rpartition("@")[2].lower().removesuffix(":" + DEFAULT_PORTS.get(scheme, ""))
        return _joined(host, full[3])
    if short and not full:
        return _joined(short[1].lower(), short[2])
    local = "/" + full[3] if full else url
    return _joined("", os.path.normpath(os.path.join(base, local))) if local else ""


def _joined(host: str, path: str) -> str:
    path = re.sub(r"/{2,}", "/", path).rstrip("/").removesuffix(".git").rstrip("/")
    return f"{host}/{path.lstrip('/')}" if path else host


def _linked(place: str, pointer: str) -> Repository | None:
    """Resolve a `.git` file to the directory of a linked work tree or submodule, if that directory points back.

    Anybody can put such a file into an archive. It must not give a directory the names of another repository.
    """
    found = re.match(r"gitdir:[ \t]*([^\r\n]+)", pointer)
    if found is None:
        return None
    gitdir = os.path.normpath(os.path.join(place, found[1].strip()))
    shared = _read(os.path.join(gitdir, "commondir")).strip()
    if not shared:
        return Repository(common=gitdir, tree=place, own=gitdir) if _is_its_tree(gitdir, place) else None
    common = os.path.normpath(os.path.join(gitdir, shared))
    back = os.path.join(gitdir, _read(os.path.join(gitdir, "gitdir")).strip())
    registered = _is_same_path(os.path.dirname(gitdir), os.path.join(common, "worktrees"))
    if not registered or not _is_same_path(back, os.path.join(place, ".git")):
        return None
    tree = os.path.dirname(common) if os.path.basename(common) == ".git" else common
    return Repository(common=common, tree=tree, own=gitdir)


def _is_its_tree(gitdir: str, place: str) -> bool:
    """Return True if the git directory is that of the work tree `place`.

    Either its configuration names `place`, or it lies in the `modules` directory of the enclosing repository.
    """
    tree = _configured(gitdir, "[core]", "worktree")
    if tree and _is_same_path(os.path.join(gitdir, tree), place):
        return True
    parent = os.path.dirname(place)
    above = find_repository(parent) if parent != place else None
    modules = os.path.realpath(os.path.join(above.common, "modules")) + os.sep if above else ""
    return bool(modules) and os.path.realpath(gitdir).startswith(modules)


def _is_same_path(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _origin(repository: Repository) -> str:
    url = _configured(repository.common, '[remote "origin"]', "url")
    return normalise(url, repository.tree) if url else ""


def _configured(gitdir: str, wanted: str, key: str) -> str:
    """Return a value of the git directory's configuration, or an empty text."""
    section = ""
    for line in _read(os.path.join(gitdir, "config")).splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
        elif section.startswith(wanted) and re.match(rf"{key}\s*=", line, re.IGNORECASE):
            return line.partition("=")[2].strip().strip('"')
    return ""


def _creation_id(repository: Repository) -> str:
    line = _read(os.path.join(repository.common, "logs", "HEAD")).partition("\n")[0]
    found = re.match(r"0{40,64} ([0-9a-f]{40,64}) [^\t]*\t(.*)", line)
    if found is None:
        return ""
    return f"root:{found[1]}" if found[2].startswith("commit (initial)") else f"clone:{stable_hash(line)}"


def _override(directory: str) -> tuple[str, str]:
    """Return the project name in the nearest project file and that file's folder.

    A file of another user, for example in /tmp, is ignored.
    """
    for place in _upwards(directory):
        path = os.path.join(place, PROJECT_FILE)
        if os.path.isfile(path) and _trusted(path, directory):
            chosen = _project_key(_read(path))
            if chosen:
                return chosen, place
    return "", ""


def is_capture_enabled(cwd: str, environ: Mapping[str, str]) -> bool:
    """Return False if the environment, or else the nearest `.filrouge.toml`, says `auto_capture = false`."""
    given = environ.get("FILROUGE_AUTO_CAPTURE", "").strip().lower()
    if given or not os.path.isabs(cwd):
        return given not in OFF
    try:
        if path := find_project_file(os.path.normpath(cwd)):
            return re.search(r"(?m)^[ \t]*auto_capture[ \t]*=[ \t]*false\b", _top(_read(path))) is None
    except (OSError, ValueError):
        pass
    return True


def _top(text: str) -> str:
    """Return the part of a TOML text before the first table."""
    return f"\n{text.removeprefix(chr(0xFEFF))}".partition("\n[")[0]


def _project_key(text: str) -> str:
    top = _top(text)
    found = re.search(r"""(?m)^[ \t]*project[ \t]*=[ \t]*(?:"([^"\n]*)"|'([^'\n]*)')""", top)
    return ((found[1] or found[2] or "") if found else "").strip()


def _trusted(path: str, directory: str) -> bool:
    try:
        return os.stat(path).st_uid in (os.getuid(), 0, os.stat(directory).st_uid)
    except OSError:
        return False


def _project_dir(cwd: str, environ: Mapping[str, str]) -> str:
    """Outside git, return the directory that Claude Code was started in if `cwd` is inside it; else `cwd`."""
    given = environ.get("CLAUDE_PROJECT_DIR", "")
    if not os.path.isabs(given):
        return cwd
    inside = os.path.realpath(cwd) + os.sep
    return given if inside.startswith(os.path.realpath(given).rstrip(os.sep) + os.sep) else cwd


def _upwards(directory: str) -> Iterator[str]:
    place = os.path.normpath(directory)
    while True:
        yield place
        parent = os.path.dirname(place)
        if parent == place:
            return
        place = parent


def _read(path: str) -> str:
    """Return the beginning of a regular file, else an empty text; opening a pipe would block the hook."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return ""
        with open(path, "rb") as file:
            return file.read(LONGEST_FILE).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
