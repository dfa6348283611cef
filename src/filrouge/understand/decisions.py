# ruff: noqa: E501 (a pattern is read best on one line)
"""Decisions: a choice that was made, between things that can be named."""

from __future__ import annotations

from typing import Final

from filrouge import lazy_re as re
from filrouge.understand.reading import Clause, Found
from filrouge.understand.words import content

_LABEL: Final = re.compile(r"\b(?:decision|decide|decided|tranche|acte|choix)\b[^:,]*[:,.!]\s*$")
#: The words of choosing leave no doubt, whatever is chosen.
_CHOSEN: Final = re.compile(
    "|".join(
        (
            # we decided on Drizzle; it was decided to; the team agreed to drop IE11
            r"\b(?:we|i|team|they|everyone|has|have|had|we've|i've|was|were|been|it's|is) (?:\w+ ){0,2}?(?:decided|agreed|chose|chosen|picked|opted|settled|selected|standardi[sz]ed|adopted|voted|elected|went)\b(?: (?:to|on|for|with|that|against|in)\b| \w+)",
            r"\b(?:we|i) go with\b|\b(?:i'm|we're|i am|we are) (?:choosing|picking|selecting|opting|settling)\b|\b(?:end|ended) up (?:with|choosing|using|picking|going)\b|\b(?:we're|we are|i'm|we'll|we will|let's|i'll) (?:going|go|sticking|stick|staying|stay) (?:with|on)\b|\b(?:we're|we are) (?:adopting|standardi[sz]ing on|dropping|keeping)\b",
            r"\b(?:our|the|my) (?:choice|decision|pick) (?:is|was|fell)\b|\bdecision ?: |\bthe verdict\b",
            # on a choisi Typst; nous avons retenu NATS; c'est décidé, on garde
            r"\b(?:on|nous|j'|je|equipe) ?(?:l')?(?:a|avons|ai)(?: \w+)? (?:choisi|decide|retenu|tranche|opte|convenu|valide|acte|adopte|prefere|arrete)\b|\b(?:a|ont|avons) (?:ete )?(?:choisi|decide|retenu|tranche|valide|acte|adopte|convenu)e?s?\b",
            r"\bc'est (?:decide|acte|tranche|valide)\b|\ble choix (?:s'est porte|est|c'est)\b",
            r"\b(?:hemos|se ha|han|he) (?:decidido|elegido|optado|acordado)\b|\b(?:decidimos|elegimos|optamos|vamos con)\b",
        )
    )
)
#: Going with something: only when the something has a name.
_GOING: Final = re.compile(
    r"\b(?:let's|we'll|we will|we're going to) (?:use|keep|adopt|drop|standardi[sz]e on|stick to|build (?:it )?(?:with|on))\b"
    r"|\b(?:on|nous) (?:part|partons|reste|restons|garde|gardons|prend|prenons|mise|opte|choisit|adopte|va utiliser|va partir|utilisera|passera par|bascule)\b"
    r"|\b(?:on va|nous allons|vamos a) (?:utiliser|partir sur|passer|garder|prendre|migrer|rester|basculer|adopter|usar|migrar)\b"
    r"|\b(?:sera|seront|passera|passeront) (?:en|sur|par|avec|chez)\b|\bwill (?:be (?:written in|built with|hosted on)|run on|use|live (?:in|on))\b"
)
_EMPTY_WORDS: Final = """
option one approach solution idea choice version way first second third fine lunch pizza premiere deuxieme
"""
_EMPTY: Final = frozenset(_EMPTY_WORDS.split())


def find(clause: Clause) -> Found | None:
    """The decision that the clause states."""
    plain = clause.plain
    chosen = _CHOSEN.search(plain) is not None or _LABEL.search(clause.opening) is not None
    going = _GOING.search(plain) is not None and bool(clause.values)
    if not chosen and not going:
        return None
    what = [word for word in content(clause.text) if word not in _EMPTY]
    if len(what) < 3 and all(value.kind == "number" for value in clause.values):
        return None
    return Found(kind="decision", confidence=0.9 if chosen else 0.75)
