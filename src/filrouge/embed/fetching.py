"""Bring a published model to this machine, after the user's consent and only then.

The files arrive beside the model's directory and survive a kill there; they become the model when all of them are
right. Only `filrouge model fetch` calls this, which shows what would come from where, and asks.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from filrouge.embed.download import WantedFile, download
from filrouge.embed.model_files import ensure
from filrouge.embed.published import PublishedModel

#: The name of a file, its bytes that are here, its bytes in all.
Progress = Callable[[str, int, int], None]


def fetch(model: PublishedModel, path: str, progress: Progress, *, consent: bool) -> None:
    """See to it that the model is at `path`, whole; another process that is at it is waited for.

    Args:
        model: what to fetch.
        path: its directory.
        progress: told of every piece that arrives.
        consent: that the user said yes to this very download.

    Raises:
        EmbedderUnavailable: it could not be fetched or kept; says why.
        PermissionError: without consent.
    """
    if not consent:
        raise PermissionError("a model is fetched only with consent")
    arriving = f"{path}.arriving"

    def write(directory: str) -> None:
        os.makedirs(arriving, exist_ok=True)
        for file in model.files:
            here = os.path.join(arriving, file.name)
            wanted = WantedFile(address=model.address(file), size=file.size, sha256=file.sha256)
            download(wanted, here, lambda have, file=file: progress(file.name, have, file.size))
            _second_name(here, os.path.join(directory, file.name))

    ensure(path, write)
    shutil.rmtree(arriving, ignore_errors=True)


def _second_name(path: str, other: str) -> None:
    """Both names are the same bytes until the model is whole, so that a kill in between loses nothing."""
    try:
        os.link(path, other)
    except OSError:  # not every file system has them
        shutil.copyfile(path, other)
