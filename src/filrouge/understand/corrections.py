# ruff: noqa: E501 (a pattern is read best on one line)
"""Corrections: a sentence that says that something is no longer so, and which words it replaces.

`old_values` is also what the decider asks of stored text: "we moved from port 8443 to 9443" holds both numbers but
states only the second.
"""

from __future__ import annotations

from typing import Final

from filrouge import lazy_re as re
from filrouge.understand.reading import Clause, Found

_STOP: Final = r"(?=\s*(?:[,.;:!)]|$)|\s+(?:any ?more|any longer|plus|now|to|but|mais|et|and|for|pour|as|since|because|car|with|in|on|dans|by|par|vers|a|la semaine|last|it|is|est|maintenant|depuis|rather|when|every\w*)\b)"
_WHAT: Final = (
    r"(?:the |a |an |our |le |la |les |l'|du |de la |des |d'|notre |on |in |at |sur |port |using |version )*(`[^`]+`|[\w][\w.+#/@-]*(?: [\w.+#/@-]+){0,2}?)"
    + _STOP
)
#: Each names what no longer holds. Replacement verbs come first: they hold both values.
_OLD: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b(?:moved|migrated|switched|changed|went|moving|switching|migrating|upgraded|bumped|downgraded|goes|renamed|transferred)\b[^.]{{0,50}}?\bfrom {_WHAT}",  # from A to B
        rf"\b(?:replaced|swapped|replacing|replaces) {_WHAT}",
        rf"\b(?:renamed|renaming|renomme\w*) {_WHAT}",
        r"\b(?:the |table |le |la |les )?([\w.-]+)(?: \w+)? (?:was|were|is|has been|have been|est|a ete|ont ete|sont) (?:renamed|replaced|renomme\w*|remplace\w*)\b",
        rf"\b(?:passe|passent|passons|passera|passe|bascule\w*|migre\w*|passes?|quitt\w+|deplace\w*|change\w*)\b[^.]{{0,30}}?\b(?:de|du|d') ?{_WHAT}",  # on passe de A à B
        rf"\bnot (?:on|at|in|with|using|hosted on|running on|under) {_WHAT}",
        rf"\bno longer (?:\w+ )?(?:on |at |in |with |from |uses? |using |runs? on |by )?{_WHAT}",
        rf"(?<!do )\b(?:not|don't|doesn't|isn't) (?:use |using |on |have |run on )?{_WHAT}(?= any ?more| any longer)",
        rf"\b(?:n'|ne )[\w']+ plus (?:sur |en |chez |a |dans |par |avec |utilise |sous )?{_WHAT}",
        rf"\bya no (?:usamos|esta en|es) {_WHAT}",
        rf"\b(?:dropped|dropping|ditched|abandoned|deprecated|retired|got rid of|gave up on|stopped using|left|killed|removed|abandonne\w*|laisse tomber|arrete (?:d'utiliser|avec)|vire|lache|dejamos) {_WHAT}",
        rf"\b(?:forget|ignore|disregard|oublie[rsz]?|olvida)(?: about)? {_WHAT}",
        r"\b([\w.+#/-]+) is (?:obsolete|dead|gone|deprecated|abandoned)\b|\b([\w.+#/-]+) est (?:obsolete|mort|abandonne)\b",
        r"\b([\w.-]+) (?:has left|left|quit|is gone|a quitte|est partie?)\b",
        rf"\b(?:and )?not {_WHAT}",
        rf"\b(?:et )?(?:pas|non) {_WHAT}",
        rf"\b(?:instead of|rather than|over|in place of|plutot que|plutot qu'|au lieu de|a la place de|au lieu d'|en vez de) {_WHAT}",
        rf"(?:\((?:was|previously|formerly|avant|etait|anciennement|ex)|\b(?:formerly|anciennement)) {_WHAT}",
        r"([\w.+#/-]+) ?(?:->|=>|→) ?[\w`]",
    )
)
_CHANGE: Final = re.compile(
    "|".join(
        (
            r"\b(?:moved|migrated|switched|renamed|replaced|upgraded|bumped|downgraded|transferred|relocated)\b(?! on\b| forward)",
            r"\b(?:changed|goes) (?:\w+ ){0,5}?(?:to|from)\b|\bback to [\w`]|\breverted to\b|\b(?:going|went|go) back to\b",
            r"\bno longer\b|\b(?:not|n't)\b.{1,60}\bany ?(?:more|longer)\b|\bany ?more\b",
            r"\b(?:dropped|ditched|abandoned|deprecated|got rid of|gave up on|stopped using|stop using)\b",
            r"\b(?:is|are|runs?|lives?|listens?|uses?|has|owns?|maintains?|handles?) now\b|\bnow (?:is|are|on|in|at|runs?|lives?|listens?|uses?|use|called|maintains?|owns?|handles?|lands?|goes|points?|starts?|has|have|takes|supports?|requires?|needs?)\b",
            r"\b(?:is|it's|are|runs?|listens?|lives?|uses?|use)\b.{1,60}\bnow[ .!]*$|\b(?:has|have)? ?changed?,|\b(?:est|sont|tourne\w*|ecoute\w*|utilise\w*)\b.{1,60}\b(?:maintenant|desormais)[ .!]*$",
            r"\b(?:n'|ne )[\w']+ plus\b|\b(?:on|nous) (?:revient|revenons|repasse|repassons|retourne|passe(?! par)|passons(?! par)|migre|bascule|abandonne|abandonnons|arrete|change|laisse tomber|quitte|remplace)\b",
            r"\b(?:est|sont|tourne|tournent|ecoute|s'appelle|vit|utilise|passe|passent|est passee?|sont passe\w*) (?:maintenant|desormais|a present|dorenavant)\b|\b(?:maintenant|desormais|a present),? (?:\w+ ){1,5}(?:est|sont|tourne|ecoute|s'appelle|utilise)\b|\b(?:est|sont|a|ont|avons|on a|j'ai) (?:ete )?(?:migre|deplace|renomme|remplace|demenage|passe|change|bascule|abandonne|transfere)\w*\b",
            r"^(?:please )?(?:forget|ignore|disregard|oublie[rsz]?|olvida)\b[^,:;]{2,60}[,:;] \w+ \w+",
            r"\bya no\b|\b(?:cambiamos|migramos|pasamos|movimos|volvemos) (?:a|de)\b|\bahora (?:esta|es|usa|corre)\b",
            r"\bnew \w+(?: \w+)? (?:is|are)\b|\b(?:le nouveau|la nouvelle|les nouveaux|les nouvelles) [\w' ]{2,30} (?:est|sont)\b",
            r"\b(?:finally|finalement|au final|en fin de compte|tout compte fait)\b.{0,20}\b(?:we|on|nous|le|la|les|the|i|je)\b",
        )
    )
)
#: Changing one's mind is a decision; things having moved is a fact.
_CHOICE: Final = re.compile(
    r"\b(?:we|i|we're|team|on|nous|je) (?:\w+ )?(?:switched|switching|dropped|dropping|ditched|abandoned|replaced|reverted|going back|went back|gave up|stopped|no longer|revient|revenons|repasse|repassons|passe|passons|bascule|abandonne|abandonnons|arrete|laisse tomber|quitte|remplace|n'utilise|change)\b"
)
_ANNOUNCED: Final = re.compile(
    r"\b(?:correction|correctif|rectification|changement|change of plans?|scratch that|my bad|i was wrong|en fait|actually|finalement|finally|oublie ca|je me suis tromp\w+|update|mise a jour|erreur de ma part|wait)\b"
)
_CONTRAST: Final = re.compile(
    r",? (?:and )?not (?:the |on |in |at |port )?[\w`.]+\b.{0,15}$|,? (?:et )?(?:pas|non) (?:le |la |sur |en |chez |au )?[\w`.]+\b.{0,15}$|\bnot [\w `.]{1,30} but\b|\bpas [\w `.]{1,30} mais\b"
)
_RETRACT: Final = re.compile(
    r"^(?:please |you can |tu peux |s'il te plait )?(?:now )?(?:forget|ignore|disregard|drop|oublie[rsz]?|ignore[rz]?|olvida)\b(?! to\b| de \w+er\b)(?: about)?(?P<what>[^,:;]{2,80})$"
    r"|^(?P<what2>.{3,80}?) (?:is|are) (?:no longer (?:true|valid|the case|needed|relevant|in force)|not true any ?more|obsolete|outdated|not valid any ?more)\b"
    r"|^(?P<what3>.{3,80}?) (?:n'est|ne sont) plus (?:vraie?s?|valables?|valides?|d'actualite|necessaires?|le cas)\b"
)
_NOT_SO: Final = re.compile(rf"{_ANNOUNCED.pattern}|\b(?:no|nope|not|non|sorry|pardon|oops|pas|rather|plutot)\b")
#: What may stand around a bare value: "it's 3001", "le 3001, pas le 3000".
_BARE: Final = re.compile(
    r"(?:[\s.,;:!`'()-]|\b(?:no|not|non|pas|et|and|mais|but|it's|it is|that's|c'est|rather|plutot|sorry|pardon|oops|wait|attends|actually|en fait|finalement|correction|the|le|la|on|sur|en|at|in|to|port|version|now|maintenant)\b)*"
)
_NOT_MEMORY: Final = re.compile(
    r"^ (?:it|that|this|ca|cela|about it|the (?:last|previous|error|warning|typo)|everything|tout|mon dernier|my last|what i said)\b[^,]{0,20}$|\b(?:error|warning|erreur|test failure)s?\b"
)
_MEMORY_WORDS: Final = re.compile(
    r"\b(?:(?:the|la|le|les|our|my|ma|mon|that|cette|what i said|ce que j'ai dit)\b ?)*(?:rules?|regles?|facts?|notes?|preferences?|decisions?|conventions?|consignes?|about|concerning|on|sur|concernant|a propos de|de|du|that|que|saying|with|avec)\b"
)


def find(clause: Clause) -> Found | None:
    """The correction or retraction that the clause states."""
    plain = clause.plain
    retracted = retraction(plain)
    if retracted is not None:
        return Found(
            kind="fact",
            confidence=0.85,
            corrects=(retracted,),
            is_correction=True,
            retraction=True,
            sentiment="negative",
        )
    announced = _ANNOUNCED.search(clause.opening) is not None or _ANNOUNCED.match(plain) is not None
    change = says_change(plain)
    contrast = _CONTRAST.search(plain) is not None and bool(clause.values)
    if not change and not (announced and (contrast or clause.values)):
        return None
    old = old_values(plain)
    if not clause.values and not old:
        return None
    if not clause.values and len(plain.split()) < 5:
        return None
    choice = _CHOICE.search(plain) is not None and not _has_number(clause)
    return Found(kind="decision" if choice else "fact", confidence=0.85, corrects=old, is_correction=True)


def says_change(plain: str) -> bool:
    """True when the words themselves say that something changed, whatever announced them."""
    return _CHANGE.search(plain) is not None


def retraction(plain: str) -> str | None:
    """What a pure retraction retracts, without the words for "the rule about"; None for anything else."""
    match = _RETRACT.match(plain.rstrip(" .!"))
    if match is None:
        return None
    if re.search(r"[,:;] \w+ \w+", plain):
        return None
    what = next(group for group in match.groups() if group is not None)
    if _NOT_MEMORY.search(what if what.startswith(" ") else f" {what}"):
        return None
    return _MEMORY_WORDS.sub(" ", what).strip(" .,'") or None


def is_bare(clause: Clause) -> bool:
    """True for a correction that is only a value, so that nothing says of what: "En fait non, 3001."."""
    if not clause.values or _NOT_SO.search(clause.opening + clause.plain) is None:
        return False
    rest, at = "", 0
    for value in clause.values:
        rest, at = rest + clause.plain[at : value.start] + " ", value.end
    return _BARE.fullmatch(rest + clause.plain[at:]) is not None


def old_values(plain: str) -> tuple[str, ...]:
    """The words that a folded sentence says are not, or no longer, what holds."""
    found: dict[str, None] = {}
    for pattern in _OLD:
        for match in pattern.finditer(plain):
            for group in match.groups():
                if group and (word := group.strip("` .,")) and not _PRONOUN.fullmatch(word):
                    found[word] = None
    return tuple(found)


_PRONOUN: Final = re.compile(
    r"(?:it|this|that|them|him|her|us|me|you|ca|cela|lui|sure|yet|only|just|even|always|never|allowed|possible|true|need\w*|have|be|been|do|to|the|a|an|encore|besoin|que|seulement|vraiment|tres|trop|oui|there|here|all|any|so|too|very|really|mal|grave)(?: .*)?"
)


def _has_number(clause: Clause) -> bool:
    return any(
        value.kind in {"port", "version", "date", "quantity", "time", "number", "path", "url", "command"}
        for value in clause.values
    )
