"""Where models are kept: the user's cache, since a model can be built or fetched again at any time.

A model is a directory of files with a manifest of their SHA-256 sums. It is written under a temporary name and
renamed when it is complete, so it is there whole or not at all; a lock lets one process build while others
wait. Loading compares the sums: a damaged model is noticed, removed, and built again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final, Literal

from filrouge.errors import EmbedderUnavailable

MANIFEST: Final = "manifest.json"
_TEMPORARY: Final = ".building-"


def models_directory(environ: Mapping[str, str] | None = None) -> str:
    """The directory of all models: `FILROUGE_MODELS`, else `filrouge/models` in the user's cache."""
    env = os.environ if environ is None else environ
    given = env.get("FILROUGE_MODELS", "").strip()
    if given:
        return os.path.abspath(os.path.expanduser(given))
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches/filrouge/models")
    base = env.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache")
    return os.path.join(base, "filrouge", "models")


def is_whole(model: str) -> bool:
    """Whether every file of a model is what its manifest says."""
    try:
        with open(os.path.join(model, MANIFEST), encoding="utf-8") as file:
            sums = json.load(file)["sha256"]
        return bool(sums) and all(_sum(os.path.join(model, name)) == expected for name, expected in sums.items())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return False


def is_built(model: str) -> bool:
    """Whether a model is there; cheap, its files are not read."""
    return os.path.exists(os.path.join(model, MANIFEST))


def state_of(model: str) -> Literal["absent", "whole", "damaged"]:
    """What is there of a model; reads all its files."""
    if not is_built(model):
        return "absent"
    return "whole" if is_whole(model) else "damaged"


def ensure(model: str, build: Callable[[str], None]) -> None:
    """See to it that a model is there and whole; `build` writes its files into the directory it is given.

    Raises:
        EmbedderUnavailable: the cache cannot be written, or `build` could not do it.
    """
    if is_whole(model):
        return
    try:
        with _alone(model):
            if not is_whole(model):  # whoever held the lock may have built it
                _build(model, build)
    except OSError as error:
        raise EmbedderUnavailable(
            f"The embedding model cannot be kept in {model}: {error}.",
            remedy="Free some space, or name another directory with FILROUGE_MODELS.",
        ) from error


def _build(model: str, build: Callable[[str], None]) -> None:
    parent = os.path.dirname(model)
    prefix = f"{os.path.basename(model)}{_TEMPORARY}"
    for name in os.listdir(parent):  # what a killed builder left; nobody else builds now
        if name.startswith(prefix):
            shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
    directory = tempfile.mkdtemp(prefix=prefix, dir=parent)
    try:
        build(directory)
        _seal(directory)
        if os.path.isdir(model):
            os.rename(model, os.path.join(directory, "damaged"))
        os.rename(directory, model)
        shutil.rmtree(os.path.join(model, "damaged"), ignore_errors=True)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _seal(directory: str) -> None:
    """Bring every file to the disk and write the manifest."""
    sums: dict[str, str] = {}
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        sums[name] = _sum(path)
    with open(os.path.join(directory, MANIFEST), "w", encoding="utf-8") as file:
        json.dump({"sha256": sums}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _sum(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _alone(model: str) -> Generator[None]:
    os.makedirs(os.path.dirname(model), exist_ok=True)
    with open(f"{model}.lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
