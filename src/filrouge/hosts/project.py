"""Finds the names of the project that contains a directory.

The names are read from git's own files, because a subprocess would exceed a hook's time budget. Strongest first:

    name:    the `project` key of a `.filrouge.toml` in the directory or above it; counts once the user agreed
    under:   prefix for the names of the folder that holds that file, if it is another folder than the one below
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
    """The parts of a list of names.

    Attributes:
        chosen_name: `name:…` from a `.filrouge.toml`; empty if no file chooses. A name that comes alone was chosen by
            the caller, not by a file.
        holder_names: names of the folder that holds the file, strongest first; empty if no file chooses.
        folder_names: names of the folder itself, strongest first.
    """

    chosen_name: str
    holder_names: tuple[str, ...]
    folder_names: tuple[str, ...]


def split_names(names: Sequence[str]) -> FolderNames:
    """Split a list of names, strongest first, as `find_names` returns it."""
    folder_names = tuple(name for name in names[1:] if not name.startswith(HOLDER_PREFIX))
    if not names or not names[0].startswith(NAME_PREFIX) or not folder_names:
        return FolderNames("", (), tuple(names))
    holder_names = tuple(name.removeprefix(HOLDER_PREFIX) for name in names if name.startswith(HOLDER_PREFIX))
    return FolderNames(names[0], holder_names or folder_names, folder_names)


def brief_keys(names: Sequence[str]) -> list[str]:
    """Return the keys under which the brief of a folder's project may be stored, best first."""
    folder = split_names(names)
    strong_holders = [name for name in folder.holder_names if not name.startswith("path:")]
    return [
        *(brief_key(folder.chosen_name, name) for name in strong_holders or folder.holder_names),
        *folder.folder_names,
    ]


def brief_key(chosen_name: str, holder_name: str) -> str:
    """Return the brief's key for a chosen name and one name of the folder that holds the file."""
    return f"{chosen_name}\n{holder_name}"


def join_names(chosen_name: str, holder: Iterable[str], folder_names: Sequence[str]) -> list[str]:
    """Return the list of names for a folder whose project was chosen by a file in another folder or its own.

    Args:
        chosen_name: the name in the file, with its prefix.
        holder: names of the folder that holds the file, strongest first.
        folder_names: names of the folder itself, strongest first.
    """
    holder_names = list(holder)
    return [
        chosen_name,
        *([] if holder_names == list(folder_names) else [HOLDER_PREFIX + name for name in holder_names]),
        *folder_names,
    ]


MAX_FILE_BYTES = 262_144
MAX_BRANCH_CHARACTERS = 255
SHORT_COMMIT_LENGTH = 12
OFF_VALUES = ("0", "false", "no", "off")
DEFAULT_PORTS = {"ssh": "22", "https": "443", "http": "80", "git": "9418"}


class Repository(NamedTuple):
    """The directories of a repository.

    Attributes:
        common_dir: the git directory that all its work trees share.
        work_tree: the main work tree; the git directory itself if the repository is bare.
        git_dir: the git directory of the current work tree, with its own HEAD.
    """

    common_dir: str
    work_tree: str
    git_dir: str


def find_names(cwd: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return every name of the project that contains `cwd`, strongest first; empty if the path is not absolute."""
    if not os.path.isabs(cwd):
        return ()
    try:
        return tuple(_find_names(cwd, environ))
    except (OSError, ValueError):  # a NUL or a lone surrogate in the path
        return ()


def _find_names(cwd: str, environ: Mapping[str, str]) -> list[str]:
    folder_names = _folder_names(find_repository(cwd), _project_dir(cwd, environ))
    chosen_name, holder_folder = _find_chosen_name(cwd)
    if not chosen_name:
        return folder_names
    return join_names(f"name:{chosen_name}", _folder_names(find_repository(holder_folder), holder_folder), folder_names)


def _folder_names(repository: Repository | None, directory: str) -> list[str]:
    """Return the names of a folder, without the name in its project file."""
    if repository is None:
        return [f"path:{os.path.realpath(directory)}"]
    origin, creation = _origin_address(repository), _creation_id(repository)
    names = [f"origin:{origin}"] if origin else []
    names += [creation] if creation else []
    return [*names, f"path:{os.path.realpath(repository.work_tree)}"]


def find_branch(cwd: str) -> str:
    """Return the branch that is checked out at `cwd`, or the short commit id of a detached HEAD; else empty.

    A branch without a commit counts. Names that git would reject are ignored.
    """
    if not os.path.isabs(cwd):
        return ""
    try:
        repository = find_repository(cwd)
        head = _read_start(os.path.join(repository.git_dir, "HEAD")) if repository else ""
    except (OSError, ValueError):
        return ""
    on_branch = re.match(r"ref:[ \t]*refs/heads/([^\x00-\x20\x7f~^:?*\[\\]+)\s*\Z", head)
    if on_branch:
        return on_branch[1] if len(on_branch[1]) <= MAX_BRANCH_CHARACTERS and not on_branch[1].startswith(".") else ""
    detached = re.match(r"([0-9a-f]{40}(?:[0-9a-f]{24})?)\s*\Z", head)
    return detached[1][:SHORT_COMMIT_LENGTH] if detached else ""


def find_repository(directory: str) -> Repository | None:
    """Return the repository whose work tree contains `directory`, or None."""
    for folder in _folders_upwards(directory):
        marker = os.path.join(folder, ".git")
        if os.path.isdir(marker):
            if os.path.exists(os.path.join(marker, "HEAD")):
                return Repository(common_dir=marker, work_tree=folder, git_dir=marker)
        elif os.path.isfile(marker):
            return _resolve_git_file(folder, _read_start(marker))
    return None


def normalise_url(url: str, base: str = "/") -> str:
    """Return one spelling for all addresses of a repository: `host/path`, or an absolute path.

    >>> normalise_url("git@Forge.example:Ana/shop.git") == normalise_url("https://ana:key@forge.example/Ana/shop/")
    True
    """
    url = re.split(r"[?#\s]", url.strip(), maxsplit=1)[0]
    with_scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/*(.*)", url)
    scp_style = re.match(r"(?:[^/@:]*@)?(\[[^\]]*\]|[^/:@]{2,}):(?!//)(.*)", url)
    if with_scheme and with_scheme[1].lower() != "file":
        scheme = with_scheme[1].lower().removeprefix("git+")
        host = with_scheme[2].rpartition("@")[2].lower().removesuffix(":" + DEFAULT_PORTS.get(scheme, ""))
        return _join_address(host, with_scheme[3])
    if scp_style and not with_scheme:
        return _join_address(scp_style[1].lower(), scp_style[2])
    local_path = "/" + with_scheme[3] if with_scheme else url
    return _join_address("", os.path.normpath(os.path.join(base, local_path))) if local_path else ""


def _join_address(host: str, path: str) -> str:
    path = re.sub(r"/{2,}", "/", path).rstrip("/").removesuffix(".git").rstrip("/")
    return f"{host}/{path.lstrip('/')}" if path else host


def _resolve_git_file(work_tree: str, git_file: str) -> Repository | None:
    """Resolve a `.git` file to the directory of a linked work tree or submodule, if that directory points back.

    Anybody can put such a file into an archive. It must not give a directory the names of another repository.
    """
    found = re.match(r"gitdir:[ \t]*([^\r\n]+)", git_file)
    if found is None:
        return None
    gitdir = os.path.normpath(os.path.join(work_tree, found[1].strip()))
    common_path = _read_start(os.path.join(gitdir, "commondir")).strip()
    if not common_path:
        return (
            Repository(common_dir=gitdir, work_tree=work_tree, git_dir=gitdir)
            if _is_git_dir_of(gitdir, work_tree)
            else None
        )
    common = os.path.normpath(os.path.join(gitdir, common_path))
    back_pointer = os.path.join(gitdir, _read_start(os.path.join(gitdir, "gitdir")).strip())
    is_registered = _is_same_path(os.path.dirname(gitdir), os.path.join(common, "worktrees"))
    if not is_registered or not _is_same_path(back_pointer, os.path.join(work_tree, ".git")):
        return None
    main_tree = os.path.dirname(common) if os.path.basename(common) == ".git" else common
    return Repository(common_dir=common, work_tree=main_tree, git_dir=gitdir)


def _is_git_dir_of(gitdir: str, work_tree: str) -> bool:
    """Return True if the git directory belongs to `work_tree`.

    Either its configuration names `work_tree`, or it lies in the `modules` directory of the enclosing repository.
    """
    setting = _read_git_setting(gitdir, "[core]", "worktree")
    if setting and _is_same_path(os.path.join(gitdir, setting), work_tree):
        return True
    parent = os.path.dirname(work_tree)
    parent_repository = find_repository(parent) if parent != work_tree else None
    modules = (
        os.path.realpath(os.path.join(parent_repository.common_dir, "modules")) + os.sep if parent_repository else ""
    )
    return bool(modules) and os.path.realpath(gitdir).startswith(modules)


def _is_same_path(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def _origin_address(repository: Repository) -> str:
    url = _read_git_setting(repository.common_dir, '[remote "origin"]', "url")
    return normalise_url(url, repository.work_tree) if url else ""


def _read_git_setting(gitdir: str, heading: str, key: str) -> str:
    """Return a value of the git directory's configuration, or an empty text."""
    section = ""
    for line in _read_start(os.path.join(gitdir, "config")).splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
        elif section.startswith(heading) and re.match(rf"{key}\s*=", line, re.IGNORECASE):
            return line.partition("=")[2].strip().strip('"')
    return ""


def _creation_id(repository: Repository) -> str:
    line = _read_start(os.path.join(repository.common_dir, "logs", "HEAD")).partition("\n")[0]
    found = re.match(r"0{40,64} ([0-9a-f]{40,64}) [^\t]*\t(.*)", line)
    if found is None:
        return ""
    return f"root:{found[1]}" if found[2].startswith("commit (initial)") else f"clone:{stable_hash(line)}"


def _find_chosen_name(directory: str) -> tuple[str, str]:
    """Return the project name in the nearest project file and that file's folder.

    A file of another user, for example in /tmp, is ignored.
    """
    for folder in _folders_upwards(directory):
        path = os.path.join(folder, PROJECT_FILE)
        if os.path.isfile(path) and _is_trusted(path, directory):
            chosen_name = _project_key(_read_start(path))
            if chosen_name:
                return chosen_name, folder
    return "", ""


def is_capture_enabled(cwd: str, environ: Mapping[str, str]) -> bool:
    """Return False if the environment turns capture off, or if it is silent and the nearest `.filrouge.toml` does."""
    setting = environ.get("FILROUGE_AUTO_CAPTURE", "").strip().lower()
    if setting or not os.path.isabs(cwd):
        return setting not in OFF_VALUES
    try:
        if path := find_project_file(os.path.normpath(cwd)):
            return re.search(r"(?m)^[ \t]*auto_capture[ \t]*=[ \t]*false\b", _top_level_text(_read_start(path))) is None
    except (OSError, ValueError):
        pass
    return True


def _top_level_text(text: str) -> str:
    """Return the part of a TOML text before the first table."""
    return f"\n{text.removeprefix(chr(0xFEFF))}".partition("\n[")[0]


def _project_key(text: str) -> str:
    top = _top_level_text(text)
    found = re.search(r"""(?m)^[ \t]*project[ \t]*=[ \t]*(?:"([^"\n]*)"|'([^'\n]*)')""", top)
    return ((found[1] or found[2] or "") if found else "").strip()


def _is_trusted(path: str, directory: str) -> bool:
    try:
        return os.stat(path).st_uid in (os.getuid(), 0, os.stat(directory).st_uid)
    except OSError:
        return False


def _project_dir(cwd: str, environ: Mapping[str, str]) -> str:
    """Outside git, return the directory that Claude Code was started in if `cwd` is inside it; else `cwd`."""
    claude_dir = environ.get("CLAUDE_PROJECT_DIR", "")
    if not os.path.isabs(claude_dir):
        return cwd
    inside = os.path.realpath(cwd) + os.sep
    return claude_dir if inside.startswith(os.path.realpath(claude_dir).rstrip(os.sep) + os.sep) else cwd


def _folders_upwards(directory: str) -> Iterator[str]:
    folder = os.path.normpath(directory)
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _read_start(path: str) -> str:
    """Return the beginning of a regular file; empty for anything else, because opening a pipe would block the hook."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return ""
        with open(path, "rb") as file:
            return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
