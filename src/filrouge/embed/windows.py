"""Long texts are embedded in windows, so that nothing is cut silently.

The model reads 512 tokens. A text is split at sentence ends into pieces that fit, and an item's score is
that of its best window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: About 300 tokens of English, French or code: well inside the model's 512.
WINDOW_CHARACTERS = 1000
_BREAK = re.compile(r"(?<=[.!?…])\s+|\n+")


def windows(text: str, size: int = WINDOW_CHARACTERS) -> list[str]:
    """Split a text into pieces of at most `size` characters, at sentence ends, else between words."""
    pieces: list[str] = []
    current = ""
    for sentence in _BREAK.split(text.strip()):
        for part in _fitting(sentence, size):
            if current and len(current) + 1 + len(part) > size:
                pieces.append(current)
                current = part
            else:
                current = f"{current} {part}" if current else part
    return [*pieces, current] if current or not pieces else pieces


def _fitting(sentence: str, size: int) -> Iterator[str]:
    """Parts of at most `size` characters; only a word longer than that is cut."""
    while len(sentence) > size:
        cut = next((at for at in range(size, 0, -1) if sentence[at].isspace()), size)
        yield sentence[:cut].rstrip()
        sentence = sentence[cut:].lstrip()
    if sentence:
        yield sentence
