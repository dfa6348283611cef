"""Whether what is told can be stored: a daemon that only reads looks well until somebody asks for what it lost."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Final

from filrouge.app.parts import Parts
from filrouge.errors import CannotWrite, FilrougeError
from filrouge.home import inside, open_own

_PROBE_BYTES: Final = 4096


def write_state(parts: Parts, *, probe: bool = False) -> dict[str, Any]:
    """`works`, and where it does not, `cause` and `next`, each empty otherwise.

    Args:
        probe: write a small file too, so that a full disk is seen before the next event meets it.
    """
    failed = parts.writer.failure
    if (probe or failed is not None) and (cause := _refused(parts.home)):
        return {"works": False, "cause": cause, "next": CannotWrite.default_remedy}
    if failed is None:
        return {"works": True, "cause": "", "next": ""}
    said = failed if isinstance(failed, FilrougeError) else None
    return {
        "works": False,
        "cause": f"the last write failed: {said.message if said else type(failed).__name__}",
        "next": (said.remedy if said else "") or "See `filrouge logs` and `filrouge doctor`.",
    }


def _refused(home: str) -> str:
    """Why a file of the home cannot be written; empty where it can."""
    path = inside(home, f".probe-{os.getpid()}-daemon")
    try:
        handle = open_own(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            os.write(handle, bytes(_PROBE_BYTES))
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        return f"the home {home} cannot be written: {error.strerror}"
    finally:
        with suppress(OSError):
            os.unlink(path)
    return ""
