"""Paths of memory files: what a model may call a file under `/memories`, and nothing that could mean another place.

The files are rows, so no path reaches a disk. They are held to names that stay where they are on any disk all the same:
notes are exported, and a name that climbs out of its folder somewhere else is refused here.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from filrouge.errors import BadInput

ROOT: Final = "/memories"
LONGEST_PATH: Final = 500
LONGEST_NAME: Final = 200
DEEPEST: Final = 10

#: Names that are devices on Windows, whatever follows their dot.
_DEVICES: Final = frozenset({"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)})
#: What a careless reader would turn into another sign.
_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}|%u[0-9A-Fa-f]{4}|&#")
_FORBIDDEN: Final = frozenset('\\:*?"<>|')
_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
#: Signs that look like a separator or a dot, in whatever normal form.
_LOOK_ALIKE: Final = frozenset("∕⁄／⧸╱⟋＼⧵﹨∖․‥…。．｡﹒")


def checked_path(path: str) -> str:
    """The same path without a slash at its end.

    Raises:
        BadInput: it is not below `/memories`, or one of its names could mean another place.
    """
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise BadInput(f"Path must start with {ROOT}, got: {_shown(path)}", remedy="")
    if len(path) > LONGEST_PATH:
        raise BadInput(f"The path has {len(path)} characters; it may have {LONGEST_PATH}.", remedy="")
    plain = path.removesuffix("/")
    names = plain.split("/")[2:]
    if len(names) > DEEPEST or not all(map(_stays, names)):
        raise BadInput(f"Path {_shown(path)} would escape {ROOT} directory", remedy="")
    return plain


def is_within(path: str, directory: str) -> bool:
    """Whether a file is in a directory, however deep."""
    return path.startswith(f"{directory}/")


def _stays(name: str) -> bool:
    """Whether a name is one file in its directory, wherever it is written."""
    if not name or len(name.encode("utf-8", "replace")) > LONGEST_NAME or name != name.strip() or name.endswith("."):
        return False
    if name.startswith(("~", "..")) or _FORBIDDEN & set(name) or _LOOK_ALIKE & set(name) or _ENCODED.search(name):
        return False
    if any(unicodedata.category(sign) in _UNSEEN for sign in name):
        return False
    folded = unicodedata.normalize("NFKC", name)
    if _FORBIDDEN & set(folded) or "/" in folded or ".." in folded.split("/") or not folded.strip(". "):
        return False
    return folded.partition(".")[0].strip().casefold() not in _DEVICES


def _shown(path: str) -> str:
    return "".join(sign if unicodedata.category(sign) not in _UNSEEN else "�" for sign in path[:LONGEST_NAME])
