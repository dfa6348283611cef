# ruff: noqa: E501 (a pattern is read best on one line)
"""Tellings: what a statement is about, without the words that only say that it is told.

"For the storefront API we decided on Drizzle" tells of a storefront API and of Drizzle; "we decided" is no part of the
subject. Nothing is put into other words, and what is no such telling stays as it is.
"""

from __future__ import annotations

from typing import Final

from filrouge import lazy_re as re
from filrouge.understand.words import fold

_WHO: Final = r"(?:we|i|the team|they|on|nous|j'|je|l'equipe|hemos|he|el equipo)"
_HAVE: Final = r"(?:(?:'ve| have| has|'re| are| am|'m| a| avons| ai|ai)\b)?(?: (?:just|now|finally|already|all|deja|finalement|donc|enfin|ya|tous))?"
_TOLD: Final = (
    r"(?:decided (?:on|to go with|to use|to|for|that)|chose|chosen|picked|settled on|went (?:back to|with)|going (?:back to|with)|agreed (?:on|to|that)"
    r"|moved (?:from|to)|moving (?:from|to)|switched (?:from|to)|migrated (?:from|to)|replaced|adopted|dropped|use|using|prefer|started using"
    r"|choisi(?: d'utiliser| de| d')?|decide (?:d'utiliser|de|d'|que)|retenu|opte pour|adopte|abandonne|remplace|utilise|utilisons|prefere|revient (?:a|sur)|reviens (?:a|sur)"
    r"|passe (?:de|a|sur)|passons (?:de|a|sur)|migre (?:de|vers)|bascule (?:de|vers|sur)|demenage (?:de|vers)"
    r"|decidido|elegido|elegimos|usamos|adoptado|preferimos|pasamos (?:de|a))"
)
_ABOUT: Final = re.compile(
    rf"(?P<for>for|pour|para|in|dans|en|on|sur) (?P<what>.{{2,40}}?),? {_WHO} ?{_HAVE} ?{_TOLD} (?P<rest>.+)"
)
_TELLS: Final = re.compile(rf"{_WHO} ?{_HAVE} ?{_TOLD} (?P<rest>.{{3,}})")
_ARTICLE: Final = re.compile(r"(?:(?:the|our|my|les|le|la|nos|notre|mon|ma|mes|el|los|las|nuestra|nuestro) |l')(?=\S)")
#: Where the reasons begin.
_REASONS: Final = re.compile(r"\s*(?:[:;(]\s|,? (?:because|since|parce qu|car|puisqu|porque)).*", re.DOTALL)


def subject_of(sentence: str) -> str:
    """The subject of a telling, or the sentence as it is; `X: Y` where Y is told of X."""
    plain = fold(sentence)
    if about := _ABOUT.fullmatch(plain):
        what = _without_article(sentence[about.start("what") : about.end("what")])
        colon = " : " if about["for"] in ("pour", "dans", "sur") else ": "
        return f"{what}{colon}{_bare(sentence[about.start('rest') :])}"
    if telling := _TELLS.fullmatch(plain):
        return _bare(sentence[telling.start("rest") :])
    return sentence


def _without_article(words: str) -> str:
    article = _ARTICLE.match(fold(words))
    return words[article.end() :] if article else words


def _bare(told: str) -> str:
    """What was told, without the reasons for it."""
    return _REASONS.sub("", told)
