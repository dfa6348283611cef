"""The analyser: one token string for every full-text backend.

It runs once per text, in Python, and its output is stored; FTS5 (and any later backend) only splits it at
the spaces. So the same things are found everywhere, and the stock sqlite3 can still read the file. A word is
folded (accents, case, width), elisions are opened (`l'export` → `export`), identifiers, paths and versions
are indexed whole and in parts (`export_report`, `camelCase`, `3.11`), English and French stems stand beside
each other, and Chinese, Japanese and Korean text becomes pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from importlib import import_module
from threading import local
from typing import Any

_ELISION = re.compile(r"\b(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu)['’](?=\w)", re.IGNORECASE)
#: A word with its inner joints: `src/report.py`, `export_report`, `3.11`, `edge-runtime`, `fly.io`.
_CHUNK = re.compile(r"[^\W_]+(?:[_.\-/:@+#][^\W_]+)*", re.UNICODE)
_PART = re.compile(r"[^\W_]+", re.UNICODE)
_CAMEL = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])"
)
_CJK = re.compile("[぀-ヿ㐀-䶿一-鿿가-힯豈-﫿]+")
_LONGEST_WORD = 64

_STOP_WORDS = frozenset(
    # English
    "a an and any are as at be been but by can could did do does doing for from had has have having he her him his"
    " how i if in into is it its just let like may me might more most my no nor not of off on or our out please shall"
    " she should so some such than that the their them then there these they this those to too up us use used using"
    " was we were what when where which while who whom why will with would you your again also about all am because"
    " s t d ll m re ve don doesn didn isn won"
    # French
    " ai as au aux avec avoir ce ces cet cette ceci cela chez comme comment dans de des donc du elle elles en est et"
    " etait etre eu eux fait faire faut il ils je la le les leur leurs lui ma mais me mes moi mon ne nos notre nous on"
    " ont ou par pas peut plus pour pourquoi puis qu quand que quel quelle quelles quels qui quoi sa sans se sera ses"
    " si son sont sous suis sur ta te tes toi ton tous tout toute toutes tu un une va vas vers vos votre vous y a"
    " c l n j estce peutetre".split()
)


def fold(text: str) -> str:
    """Lower case without accents or width: the form under which words are compared."""
    decomposed = unicodedata.normalize("NFKD", text)
    plain = "".join(char for char in decomposed if not unicodedata.combining(char)).casefold()
    return unicodedata.normalize("NFC", plain)  # Korean syllables come apart under NFKD; here they close again


class TextAnalyser:
    """English and French at once, as developers mix them."""

    version = 1

    def __init__(self) -> None:
        self._threads = local()  # a Stemmer object may not be used by two threads at the same time

    def tokens(self, text: str) -> str:
        """The token string to index."""
        return " ".join(form for forms in self._words(text) for form in forms)

    def terms(self, text: str) -> tuple[tuple[str, ...], ...]:
        """The meaningful words of a query with their forms, each word once; all words if none is meaningful."""
        words = list(dict.fromkeys(self._words(text)))
        return tuple(word for word in words if word[0] not in _STOP_WORDS) or tuple(words)

    def _words(self, text: str) -> list[tuple[str, ...]]:
        words: list[tuple[str, ...]] = []
        for chunk in _CHUNK.findall(_ELISION.sub(" ", _printable(text))):
            parts = [piece for part in _PART.findall(chunk) for piece in _CAMEL.split(part)]
            words.extend(self._forms(fold(part)) for part in parts if part)
            if len(parts) > 1:
                whole = "".join(_PART.findall(fold(chunk)))
                words.append((whole[:_LONGEST_WORD],))
        return [word for word in words if word and word[0]]

    def _forms(self, word: str) -> tuple[str, ...]:
        """The word, and its stems in both languages where they differ from it."""
        if _CJK.search(word):
            return tuple(_pairs(word))
        word = "".join(_PART.findall(word))[:_LONGEST_WORD]
        if len(word) < 3 or not word.isalpha():
            return (word,)
        return tuple(dict.fromkeys((word, *self._stems(word))))

    def _stems(self, word: str) -> tuple[str, str]:
        stems: _Stems | None = getattr(self._threads, "stems", None)
        if stems is None:
            stems = self._threads.stems = _Stems()
        return stems.of(word)


class _Stems:
    """Both Snowball stemmers, with a memory of recent words."""

    def __init__(self) -> None:
        # PyStemmer has no type stubs; its whole surface here is `stemWord`.
        snowball: Any = import_module("Stemmer")
        english, french = snowball.Stemmer("english"), snowball.Stemmer("french")

        @lru_cache(maxsize=20_000)
        def of(word: str) -> tuple[str, str]:
            # The stems carry their language, so that `main` (French: hand) does not meet `main` (English).
            return f"{english.stemWord(word)}0en", f"{french.stemWord(word)}0fr"

        self.of = of


def _pairs(word: str) -> list[str]:
    found: list[str] = []
    for run in _CJK.findall(word):
        found.extend([run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)])
    return found + [part[:_LONGEST_WORD] for part in _PART.findall(_CJK.sub(" ", word))]


def _printable(text: str) -> str:
    """Lone surrogates and control characters are no words."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", " ")
