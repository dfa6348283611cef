"""Folding: the plain form under which words are compared, whatever accents, case, width or marks they were typed in.

Latin, Greek and Arabic lose their marks; Cyrillic keeps й, and kana keep their voicing, because there the mark makes
another letter. Vowel signs of Indic and Thai script go as well, since no backend agrees on whether they belong to a
word. Emoji become words (`u1f44d`), since every backend takes symbols for punctuation.
"""

from __future__ import annotations

import unicodedata

from filrouge import lazy_re as re

_VOICING = "\u3099\u309a"


class _Seen(dict[int, int | str | None]):
    """What becomes of each character, found out when it is first met."""

    def __missing__(self, code: int) -> int | str | None:
        kind = unicodedata.category(chr(code))
        seen: int | str | None = code
        if kind == "Cs" or code == 0:
            seen = " "  # a lone surrogate cannot be encoded, and NUL ends a C string
        elif (kind[0] == "M" and chr(code) not in _VOICING) or kind == "Cf":
            seen = None  # marks, soft hyphens, joiners: they stand within words and are no part of them
        self[code] = seen
        return seen


#: Letters that Unicode does not take apart, and people who lack the key do.
_LIGATURES = {"œ": "oe", "Œ": "Oe", "æ": "ae", "Æ": "Ae"}
_STROKES = {"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i"}
_SEEN = _Seen({ord(letter): spelt for letter, spelt in (_LIGATURES | _STROKES).items()})

_FLAG = "[\U0001f1e6-\U0001f1ff]{2}"
_PICTURE = "[\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b1b\u2b1c\u2b50\u2b55\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
EMOJI = re.compile(f"{_FLAG}|{_PICTURE}")

#: Scripts that set no spaces between words, and Hangul, whose words carry their particles.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)

_UNSPACED = re.compile(f"[{UNSPACED}]")


def unspaced(word: str) -> bool:
    """True if a character of the word belongs to a script that sets no spaces between words."""
    return not word.isascii() and _UNSPACED.search(word) is not None


def plain(text: str) -> str:
    """The text without marks, ligatures, widths and what cannot be seen; its case is kept."""
    if text.isascii():
        return text.replace("\x00", " ")
    apart = unicodedata.normalize("NFKD", text)
    if "\u0306" in apart:
        apart = apart.replace("и\u0306", "й").replace("И\u0306", "Й")
    # Syllables of Korean and voiced kana came apart; what is put together again may hold new marks only by accident.
    return unicodedata.normalize("NFC", apart.translate(_SEEN))


def fold(text: str) -> str:
    """Lower case without accents or width: the form under which words are compared."""
    folded = plain(text)
    if folded.isascii():
        return folded.lower()
    # Some capitals fold into a letter and a mark (İ), and some marks are letters' case (ͅ).
    return plain(folded.casefold())


def emoji_word(emoji: str) -> str:
    """The word that stands for an emoji."""
    return "".join(f"u{ord(char):x}" for char in emoji)
