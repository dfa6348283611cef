"""Asking others for a sign of life, with little patience: servers by one empty request, programs by `--version`.

What a server answers does not matter here, only that it does. No key goes along.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from filrouge.address import checked_address, is_loopback
from filrouge.cli.commands.doctoring.scene import NotKnown
from filrouge.errors import BadConfig

SECONDS: Final = 1.5
_PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)+")


def answers(address: str, environ: Mapping[str, str], seconds: float = SECONDS) -> str:
    """Why a server does not answer, in words that name its host and nothing else; empty where it does.

    Raises:
        NotKnown: a proxy stands between, which only the daemon's own client asks.
    """
    try:
        parts = urlsplit(checked_address(address, setting="its address"))
    except BadConfig as error:
        return error.message.rstrip(".")
    if not is_loopback(address) and any(environ.get(name) for name in _PROXIES):
        raise NotKnown("unknown here: a proxy stands between")
    host = parts.hostname or ""
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    wire = kind(host, parts.port, timeout=seconds)
    try:
        wire.request("HEAD", parts.path or "/")
        wire.getresponse()
    except TimeoutError:
        return f"{parts.netloc} does not answer within {seconds:g} seconds"
    except (OSError, http.client.HTTPException) as error:
        return f"{parts.netloc} cannot be reached ({type(error).__name__})"
    finally:
        wire.close()
    return ""


def which(program: str, environ: Mapping[str, str]) -> str:
    """Where a program is that is named so, by its path or through PATH; empty where it is nowhere."""
    if os.path.isabs(program):
        return program if os.path.isfile(program) and os.access(program, os.X_OK) else ""
    return shutil.which(program, path=environ.get("PATH", "")) or ""


def version_of(path: str, environ: Mapping[str, str], seconds: float = SECONDS) -> tuple[int, ...] | None:
    """What a program says of its version; None where it does not, or not in time."""
    try:
        said = subprocess.run(  # noqa: S603 (a program of the user's own PATH or settings)
            [path, "--version"],
            env={**environ, "FILROUGE_INTERNAL": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _NUMBERS.search(said.stdout.decode("utf-8", "replace"))
    return tuple(int(part) for part in found[0].split(".")) if found and not said.returncode else None


def starts(path: str, environ: Mapping[str, str], seconds: float = SECONDS) -> bool:
    """Whether a program can be started; one that takes longer to say its version has started."""
    try:
        command = [path, "--version"]
        quiet = subprocess.DEVNULL
        env = {**environ, "FILROUGE_INTERNAL": "1"}
        done = subprocess.run(command, env=env, stdin=quiet, stdout=quiet, stderr=quiet, timeout=seconds, check=False)  # noqa: S603
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return True
    except OSError:
        return False
