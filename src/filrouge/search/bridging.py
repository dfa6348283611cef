"""Bridging: the words of a question, joined with what other languages and other developers call the same thing.

Pure: no database, no file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from filrouge.extraction.vocabulary import canonical, fold, is_bridged, tokens, variants

Forms = tuple[str, ...]
Terms = tuple[Forms, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionWords:
    """The words of a question.

    Attributes:
        own: the words themselves, each as the forms it may be indexed under.
        searched: those, then others of the same meaning.
        meant: the question's own words, each with every form that counts as having it.
    """

    own: Terms
    searched: Terms
    meant: Terms


class Bridging:
    """Joins words of one meaning (`extraction.vocabulary`).

    Args:
        analyse: gives the terms of a query (`ports.Analyser.terms`).
    """

    def __init__(self, analyse: Callable[[str], Terms]) -> None:
        self._analyse = analyse
        self._others = lru_cache(maxsize=2048)(self._others_of)

    def words(self, text: str) -> QuestionWords:
        """The words of a question; a phrase of one meaning ("continuous integration") is a word of its own."""
        own = self._analyse(text)
        meant, searched = list(own), dict.fromkeys(own)
        for word in dict.fromkeys(tokens(fold(text))):
            others = self._others(canonical(word))
            if not others:
                continue
            searched |= dict.fromkeys(others)
            forms = dict.fromkeys(form for term in others for form in term)
            at = next((place for place, term in enumerate(meant) if not forms.keys().isdisjoint(term)), None)
            if at is None:
                meant.append(tuple(forms))
            else:
                meant[at] = tuple(dict.fromkeys([*meant[at], *forms]))
        return QuestionWords(own=own, searched=tuple(searched), meant=tuple(meant))

    def _others_of(self, word: str) -> Terms:
        """Every single word of the same meaning, analysed; none for a word that stands for itself alone."""
        if not is_bridged(word):
            return ()
        analysed = [self._analyse(one) for one in variants(word)]
        return tuple(terms[0] for terms in analysed if len(terms) == 1)
