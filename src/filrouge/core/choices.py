"""Refusing a word that is none of those that exist: the message names all of them, the closest first."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from filrouge.core.errors import BadInput

# Error messages for an unknown word list the valid ones, closest match first.

#: The default remedy of such an error.
REMEDY: Final = "Use one of these."


def closest_first(given: str, known: Iterable[str]) -> list[str]:
    """Return all known words: those similar to the given one first, then the others in their order."""
    words = list(known)
    near = difflib.get_close_matches(given.lower(), words, n=3, cutoff=0.6)
    return near + [word for word in words if word not in near]


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'budget'?`, or an empty text if no known word is similar."""
    near = difflib.get_close_matches(given.lower(), list(known), n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else ""


def listed(words: Sequence[str]) -> str:
    """Return `a, b or c`; an empty word is shown as `''`."""
    shown = [word or "''" for word in words]
    return " or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def refusal(what: str, given: object, known: Iterable[str]) -> str:
    """Return a message such as `--in is turns, memories or all, not 'moon'.`"""
    return f"{what} is {listed(closest_first(str(given), known))}, not {given!r}."


def one_of(what: str, given: str, known: Iterable[str]) -> None:
    """Check that a word is one of the known ones.

    Raises:
        BadInput: it is not; the message lists them.
    """
    words = list(known)
    if given not in words:
        raise BadInput(refusal(what, given, words), remedy=REMEDY)
