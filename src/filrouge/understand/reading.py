# ruff: noqa: E501 (a pattern is read best on one line)
"""A clause as the kinds read it, and what a kind answers.

Each kind (rules, preferences, bugs, decisions, facts) is one function from `Clause` to `Found`, or None. A clause is
a sentence without its opening chatter ("Also,", "Au fait,", "For the record:", "Rappelle-toi que"), which says how
sure the user was but not what is so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from filrouge import lazy_re as re
from filrouge.model.memory import Kind, Sentiment
from filrouge.model.scope import ScopeName
from filrouge.understand.values import Value, values
from filrouge.understand.words import fold


@dataclass(frozen=True, slots=True)
class Clause:
    """Words of the user, with what opened them.

    Attributes:
        start: where `text` begins in the prompt.
        plain: `text`, folded.
        opening: the folded chatter, label or heading before it.
    """

    start: int
    text: str
    plain: str
    opening: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What kind of statement a clause is."""

    kind: Kind
    confidence: float
    scope: ScopeName = "project"
    key: str | None = None
    value: str | None = None
    corrects: tuple[str, ...] = ()
    is_correction: bool = False
    retraction: bool = False
    sentiment: Sentiment = "neutral"
    timeframe: str = ""


_OPENINGS: Final = (
    r"(?:ok(?:ay)?|oh|ah|well|so|right|alright|anyway|and|but|also|plus|then|now|actually|fyi|btw|hi|hello|hey|thanks|yes|yep|no|nope|bon|ben|bah|alors|donc|du coup|sinon|aussi|et|mais|oui|non|salut|bonjour|merci|ok super|d'accord|voila|bueno|pues|vale|hola|confirmed|exactly|back|c'est bien ca|c'etait bien ca|great|good|perfect)\s?[,.!:;-]+\s*",
    r"(?:en fait|actually|in fact|finalement|au final|en realidad)\s?,?\s+",
    r"(?:by the way|for the record|for (?:your )?info(?:rmation)?|for context|one (?:more|last) thing|just so you know|as a reminder|reminder|in passing|first of all|before (?:we start|i forget|you start)|au fait|pour (?:info|information|memoire|rappel|ta gouverne)|a noter|au passage|petit rappel|rappel|en passant|autre chose|une (?:derniere )?chose|de plus|par ailleurs|por cierto|para que conste|ojo|heads?[ -]up|careful|attention|important|nb|n\.b\.|ps|p\.s\.|context|contexte|update|news|after (?:the|our|a) \w+|suite a (?:la|notre) \w+)\s?[,:;-]?\s+",
    r"(?:\w+ ){0,2}(?:note|notes|info|infos|reminder|precision|memo|nota|fact)(?: pour (?:toi|plus tard)| to self| for (?:you|later))?\s?[:,-]\s*",
    r"(?:small |quick |petite? |rapide )?(?:correction|correctif|rectification|changement(?: de plan)?|change(?: of plans?)?|update|erratum|mise a jour)\s?[:,-]\s*",
    r"(?:scratch that|my bad|i was wrong|wait|je me suis trompee?|erreur de ma part|oublie ca|non attends)\s?[:,.;-]+\s*",
    r"(?:new |ground |house |hard |golden |standing |general |simple )?(?:rules?|regles?|reglas?|convention|consigne|policy|guideline)\b(?: (?:pour|for|de|du|of|in|dans|before|number|numero|generale|d'or|maison)\b[^:,]{0,40})?\s?:\s*",
    r"(?:final )?(?:decision|decide|choix)(?: (?:made|taken|prise|finale|final))?\s?:\s*",
    r"(?:please )?(?:remember|note|keep in mind|bear in mind|be aware|know|don't forget|do not forget|never forget) that\s+",
    r"(?:please )?(?:remember|note|keep in mind|bear in mind)\s?[:,]\s*",
    r"(?:rappelle-toi|rappelez-vous|souviens-toi|souvenez-vous|retiens|retenez|note|notez|sache|sachez|n'oublie(?:z)? pas|garde en tete|recuerda|ten en cuenta|no olvides)(?: bien)? (?:que |qu')",
    r"(?:retiens|note|a retenir|memorise|recuerda)(?: (?:bien|ca|ceci|cela))?\s?:\s*",
    r"(?:found it|got it|trouve|j'ai trouve|that was it|on a tranche|c'est decide|c'est acte|decision made|it's decided|turns out(?: that)?)\s?[:,.!;-]+\s*",
)
_OPENING: Final = re.compile("|".join(f"(?:{pattern})" for pattern in _OPENINGS))
_QUOTED: Final = re.compile(r'"[^"\n]{1,300}"|«[^»\n]{1,300}»|(?<![\w])\'[^\'\n]{1,200}\'(?!\w)')


def read(text: str, start: int, before: str = "") -> Clause:
    """The clause in `text`, which begins at `start` of the prompt, without its opening chatter."""
    plain = fold(text)
    cut = 0
    for _ in range(4):
        match = _OPENING.match(plain, cut)
        if match is None or match.end() >= len(plain.rstrip(" .!")):
            break
        cut = match.end()
    body = text[cut:]
    return Clause(start + cut, body, unquoted(plain[cut:]), before + plain[:cut], values(body))


def unquoted(plain: str) -> str:
    """The same text with long quotations blanked: what someone else's words say is not a statement."""
    return _QUOTED.sub(lambda m: m.group() if len(m.group().split()) < 3 else " " * len(m.group()), plain)
