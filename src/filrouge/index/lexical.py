"""FTS5 match expressions from analysed terms. Any punctuation a user types is legal, because none is left."""

from __future__ import annotations

from collections.abc import Sequence

Terms = Sequence[Sequence[str]]


def any_of(terms: Terms) -> str:
    """An expression that matches where any form of any term occurs; empty for no terms."""
    return " OR ".join(f'"{form}"' for form in dict.fromkeys(form for term in terms for form in term))
