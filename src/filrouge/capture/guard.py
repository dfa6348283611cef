"""Guard against capturing Filrouge's own output.

Injected memory stands between `<filrouge-memory nonce="HEX">` and `</filrouge-memory HEX>`. A host may write that block
back inside a transcript, a tool's output or a prompt: wrapped, escaped for JSON or HTML, or cut off. All of it is
removed, because memory that captures itself turns one planted sentence into a trusted one. A child process that
Filrouge starts has an environment variable that turns its hooks off.

Pure: no database, no file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from filrouge.capture.events import INTERNAL

TAG = "filrouge-memory"
DISABLED = "FILROUGE_DISABLED"
NONCE_DIGITS = 16

_LT = r"(?:<|&lt;|&#60;|&#x3c;|\\{1,4}u003c)"
_GT = r"(?:>|&gt;|&#62;|&#x3e;|\\{1,4}u003e)"
_QUOTE = r"(?:\\{0,4}[\"']|&quot;|&#34;|&#39;|\\{1,4}u0022)?"
_MARKER = (
    rf"(?i){_LT}(?:(\\{{0,4}}/)\s{{0,4}}{TAG}\s{{0,4}}([0-9a-f]{{0,64}})\s{{0,4}}{_GT}"
    rf"|\s{{0,4}}{TAG}(?:\s{{1,4}}nonce={_QUOTE}([0-9a-f]{{0,64}}){_QUOTE})?(?:\s{{0,4}}{_GT})?)"
)


def strip_own(text: str) -> str:
    """Return the text without any block that Filrouge injected.

    Only a closing tag with the block's own nonce closes it, so that a stored text cannot end the block early. An
    unclosed block is removed to the end of the text if its nonce has our length; otherwise only the tag is removed.
    """
    if TAG not in text:
        return text
    markers = list(re.finditer(_MARKER, text))
    closing: dict[str, list[re.Match[str]]] = {}
    for marker in reversed(markers):
        if marker[1] is not None:
            closing.setdefault(marker[2].lower(), []).append(marker)
            closing.setdefault("", []).append(marker)
    kept: list[str] = []
    start = 0
    for marker in markers:
        if marker[1] is not None or marker.start() < start:
            continue
        nonce = (marker[3] or "").lower()
        kept.append(text[start : marker.start()])
        ends = closing.get(nonce, [])
        while ends and ends[-1].start() < marker.end():
            ends.pop()
        if not ends and len(nonce) == NONCE_DIGITS:
            return "".join(kept)
        start = ends[-1].end() if ends else marker.end()
    return "".join([*kept, text[start:]])


def internal(environ: Mapping[str, str]) -> bool:
    """Return True inside a process that Filrouge started."""
    return bool(environ.get(INTERNAL))


def disabled(environ: Mapping[str, str]) -> bool:
    """Return True if the user turned every hook off."""
    return environ.get(DISABLED, "").strip().lower() in ("1", "true", "yes", "on")
