"""Sameness: when a text holds the words that somebody wants gone, however they are written there.

Letters of any case are the same, composed and decomposed accents, any white space; a text that stands inside another as
JSON (a payload, a tool's output) is read as what it says. Words are whole words: who forgets `cat` keeps `concatenate`,
but `cat_food` says it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache

_ESCAPED = re.compile(r"\\u[0-9a-fA-F]{4}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|\\[nrtbf\"/\\]")
_PLAIN = {"n": "\n", "r": "\n", "t": "\t", "b": " ", "f": " ", '"': '"', "/": "/", "\\": "\\"}
#: JSON inside of JSON: a tool's output that is itself a document.
_DEPTH = 2
_NO_LETTER_BEFORE, _NO_LETTER_BEHIND = r"(?<![^\W_])", r"(?![^\W_])"


def folded(text: str) -> str:
    """The one form of all texts that count as the same."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def unescaped(text: str) -> str:
    """A JSON text with what its escapes stand for."""
    return _ESCAPED.sub(_said, text)


@lru_cache(maxsize=64)
def sought(words: tuple[str, ...]) -> Callable[[str], bool]:
    """Says of a text whether it holds one of these, each as whole words; an empty one is nowhere."""
    plain = tuple(dict.fromkeys(one for text in words if (one := folded(text))))
    whole = [re.compile(_edged(one)) for one in plain]

    def holds(text: str) -> bool:
        forms = [folded(text)]
        for _ in range(_DEPTH):
            if "\\" not in text:
                break
            text = unescaped(text)
            forms.append(folded(text))
        return any(
            one in form and edged.search(form) for form in forms for one, edged in zip(plain, whole, strict=True)
        )

    return holds


def holds(text: str, words: Sequence[str]) -> bool:
    """True if a text holds one of these."""
    return sought(tuple(words))(text)


def telling_run(text: str) -> str:
    """The longest run of unaccented letters and digits in a text: what every writing of it has in common."""
    return max(re.findall(r"[a-z0-9]+", folded(text)), key=len, default="")


def _edged(one: str) -> str:
    before = _NO_LETTER_BEFORE if one[0].isalnum() else ""
    return before + re.escape(one) + (_NO_LETTER_BEHIND if one[-1].isalnum() else "")


def _said(found: re.Match[str]) -> str:
    written = found[0]
    if written[1] != "u":
        return _PLAIN[written[1]]
    units = b"".join(int(code, 16).to_bytes(2, "little") for code in written.split("\\u")[1:])
    return units.decode("utf-16-le", "replace")
