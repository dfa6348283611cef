# ruff: noqa: E501 (a pattern is read best on one line)
"""Bugs with their cause or their fix: what saves the next person an afternoon. A bug alone is only a report."""

from __future__ import annotations

from typing import Final

from filrouge import lazy_re as re
from filrouge.understand.reading import Clause, Found

_TROUBLE: Final = (
    r"(?:bugs?|issue|problem|crash\w*|leak\w*|error\w*|errors|failure\w*|outage|incident|deadlock\w*|slowness|slowdown|latency|timeouts?|regression|hang|freeze"
    r"|flak\w+|race|corruption|\d0\ds?|panic|stall|spike|probleme|panne|plantage|fuite|lenteur|erreurs?|incident|blocage|regression|souci|echec|fallo)"
)
_CAUSE: Final = re.compile(
    "|".join(
        (
            # the bug was WAL starvation caused by …; the 502s came from …; le bug venait de …
            rf"\b{_TROUBLE}\b.{{0,80}}?\b(?:caused by|due to|because|came from|comes from|stemmed from|triggered by|traced (?:back )?to|venait|vient|viennent|venaient|etait du|etait due|etaient dus|cause par|causee? par|provoque\w* par|du a|due a|a cause|parce que|lie a|liee a|se debia|por culpa)\b",
            rf"\b(?:the|this|that|le|la|ce|cette) (?:\w+ ){{0,3}}{_TROUBLE} (?:was|etait|turned out|s'est avere)\b",
            # the root cause was …; la cause : …
            r"\b(?:root cause|the cause|the culprit|the reason|cause racine|la cause|le coupable|la causa|l'origine)\b[^.]{0,60}?(?: (?:was|is|turned out|etait|est|era|venait)\b|\s?:)",
            # bug trouvé : …
            r"\b(?:bug|probleme|cause|issue|problem|culprit) (?:trouvee?|identifiee?|found|identified|located)\s?:|\bd'ou (?:le|la|les)\b",
            # j'ai compris le souci : …; images were blurry because …
            rf"\b(?:compris|trouve|found|got|see) (?:le |la |l'|the )?{_TROUBLE}\s?:",
            r"\b(?:was|were|etait|etaient) (?:\w+ ){1,2}(?:because|parce qu|a cause)",
            # the deadlock happened because …; X was slow because …
            r"\b(?:happened|occurred|failed|crashed|was (?:slow|failing|broken|flaky)|were (?:slow|failing|broken|flaky|red)|leaked|broke|hung|plantait|echouait|etait lente?|survenait|arrivait) (?:because|since|when|parce|car|quand|a cause)",
            # la lenteur était due à un index manquant
            r"\b(?:etait|etaient|est|venait) (?:due?s? (?:a|au|aux)|cause\w* par|provoque\w* par)\b|\bwas (?:due to|caused by)\b|\bwere (?:due to|caused by)\b",
        )
    )
)
_FIX: Final = re.compile(
    r"\b(?:fixed|solved|resolved|cured|worked around|patched)\b(?: (?:it|this|that|the \w+))?(?: by| with| in| after|$|[.,;])|\b(?:the|la|le) (?:fix|solution|workaround|remede|correctif|correction) (?:was|is|etait|est|consist\w+)\b|\b(?:fix|solution|workaround) ?: "
    r"|\b\w+ing (?:\w+ ){1,6}(?:fixed|solved|resolved|cured) (?:it|this|that|the)\b"
    r"|\b(?:corrige|regle|resolu|repare)\w*(?: \w+)? (?:en|par|avec|grace)\b|\b(?:a|ont) (?:corrige|regle|resolu) (?:le|la|ca|l')|\b(?:arreglado|solucionado|resuelto) (?:con|cerrando|por)\b"
)
_OPEN: Final = re.compile(
    r"\b(?:not fixed|still|no idea|unknown|pas encore|inconnue|don't know|investigat\w+|must be|might|maybe|probably|sans doute|probablement|je crois)\b"
)


def find(clause: Clause) -> Found | None:
    """The cause or fix that the clause states."""
    plain = clause.plain
    if _OPEN.search(plain) or len(plain.split()) < 5:
        return None
    cause, fix = _CAUSE.search(plain) is not None, _FIX.search(plain) is not None
    if not cause and not fix:
        return None
    if fix and not cause and re.match(r"(?:i|we|j'ai|on a|it|that|this|ca)\b", plain) and not clause.values:
        return None
    return Found(kind="fact", confidence=0.9 if cause and fix else 0.8)
