"""Stems: what the forms of a word have in common.

The stemmers of several languages run one after the other over the same word, so a word has one stem whatever language
it stands in, and no guess at the language of a text is ever needed: `reports` and `rapports` both lose their plural,
`manger`, `mangé` and `mangez` meet. That joins a few words that are strangers; ranking by the whole word as well puts
them behind. Scripts of one language (Cyrillic, Greek, Arabic) have their own stemmer at no cost to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from threading import Lock
from typing import Any

from filrouge.errors import BadConfig

_SHORTEST, _LONGEST = 3, 40
#: First and last letter of a script, and the stemmer it has to itself.
_SCRIPTS = (("\u0370", "\u03ff", "greek"), ("\u0400", "\u04ff", "russian"), ("\u0600", "\u06ff", "arabic"))


class Stems:
    """Snowball stemmers in a row. One object may serve several threads."""

    def __init__(self, languages: Sequence[str]) -> None:
        # PyStemmer has no type stubs; its whole surface here is `algorithms`, `version` and `stemWord`.
        snowball: Any = import_module("Stemmer")
        unknown = sorted(set(languages) - set(snowball.algorithms()))
        if unknown:
            raise BadConfig(f"There is no stemmer for {', '.join(unknown)}.")
        self.release: str = snowball.version()
        self._latin: list[Callable[[str], str]] = [snowball.Stemmer(language).stemWord for language in languages]
        self._scripts: list[tuple[str, str, Callable[[str], str]]] = [
            (first, last, snowball.Stemmer(language).stemWord) for first, last, language in _SCRIPTS
        ]
        self._lock = Lock()  # a Stemmer object may not be used by two threads at the same time

    def of(self, word: str) -> str:
        """The stem of a folded word; the word itself where it is too short, too long, or not of letters alone."""
        if not _SHORTEST <= len(word) <= _LONGEST or not word.isalpha():
            return word
        with self._lock:
            for first, last, stem in self._scripts:
                if first <= word[0] <= last:
                    return stem(word) or word
            if word[0] > "\u024f":
                return word
            stem = word
            for language in self._latin:
                stem = language(stem)
        return stem or word
