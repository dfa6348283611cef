"""What checks ask of files, servers and programs.

Servers are probed with one HEAD request without a key, and programs with `--version`, both with short timeouts. For a
server only the fact that it answers counts.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from filrouge.cli.doctor.scene import NotKnown
from filrouge.core.errors import BadConfig
from filrouge.core.network import checked_address, is_loopback

SECONDS: Final = 1.5
_PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)+")


def mode_of(path: str) -> int:
    """Return the permissions of a file."""
    return stat.S_IMODE(os.stat(path).st_mode)


def size_of(path: str) -> int:
    """Return the size of a file; 0 if it does not exist."""
    return os.path.getsize(path) if os.path.exists(path) else 0


def names_in(folder: str) -> list[str]:
    """Return the names in a folder; empty if it does not exist."""
    return os.listdir(folder) if os.path.isdir(folder) else []


def existing_part(path: str) -> str:
    """Return the path itself, or its nearest parent that exists."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def change_mode(path: str, name: str, mode: int, new_mode: int) -> str:
    """Set the permissions of a file. Returns a line about it, with the name to show."""
    os.chmod(path, new_mode)
    return f"{name}: mode {mode:03o} became {new_mode:03o}"


def remove(paths: Iterable[str]) -> list[str]:
    """Remove files. Returns those that were still there."""
    removed = list[str]()
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)
            removed.append(path)
    return removed


def why_unreachable(address: str, environ: Mapping[str, str]) -> str:
    """Probe a server. Returns why it does not answer, naming only its host; empty if it answers.

    Raises:
        NotKnown: a proxy is configured, which this probe does not use but the daemon's client does.
    """
    try:
        parts = urlsplit(checked_address(address, setting="its address"))
    except BadConfig as error:
        return error.message.rstrip(".")
    if not is_loopback(address) and any(environ.get(name) for name in _PROXIES):
        raise NotKnown("unknown: a proxy is configured")
    connection_class = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connection_class(parts.hostname or "", parts.port, timeout=SECONDS)
    try:
        connection.request("HEAD", parts.path or "/")
        connection.getresponse()
    except TimeoutError:
        return f"{parts.netloc} does not answer within {SECONDS:g} seconds"
    except (OSError, http.client.HTTPException) as error:
        return f"{parts.netloc} cannot be reached ({type(error).__name__})"
    finally:
        connection.close()
    return ""


def which(program: str, environ: Mapping[str, str]) -> str:
    """Return the path of a program, given as an absolute path or searched on PATH; empty if it is not found."""
    if os.path.isabs(program):
        return program if os.path.isfile(program) and os.access(program, os.X_OK) else ""
    return shutil.which(program, path=environ.get("PATH", "")) or ""


def version_of(path: str, environ: Mapping[str, str]) -> tuple[int, ...] | None:
    """Return the version that a program prints for `--version`; None if it prints none or takes too long."""
    try:
        done = _ask_version(path, environ, subprocess.PIPE)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _NUMBERS.search(done.stdout.decode("utf-8", "replace"))
    return tuple(int(part) for part in found[0].split(".")) if found and not done.returncode else None


def starts(path: str, environ: Mapping[str, str]) -> bool:
    """Return True if a program starts: `--version` succeeds, or still runs after `SECONDS`."""
    try:
        return _ask_version(path, environ, subprocess.DEVNULL).returncode == 0
    except subprocess.TimeoutExpired:
        return True
    except OSError:
        return False


def _ask_version(path: str, environ: Mapping[str, str], output: int) -> subprocess.CompletedProcess[bytes]:
    env, quiet = {**environ, "FILROUGE_INTERNAL": "1"}, subprocess.DEVNULL
    command = [path, "--version"]  # a program of the user's own PATH or settings
    return subprocess.run(command, env=env, stdin=quiet, stdout=output, stderr=quiet, timeout=SECONDS, check=False)  # noqa: S603
