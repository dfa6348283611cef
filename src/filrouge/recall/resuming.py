# ruff: noqa: E501 (a pattern is read best on one line)
"""Picking work up again: "let's get back to the importer", recognised in English, French and Spanish.

Pure. Only such a prompt is helped by where the work stood; a question about it is answered by what is known.
"""

from __future__ import annotations

from typing import Final

from filrouge import lazy_re as re
from filrouge.extraction.vocabulary import fold

#: Longer prompts carry what they need themselves.
_LONGEST: Final = 400
_RESUMES: Final = re.compile(
    r"\b(?:(?:let's|let us|can we|shall we|we|i'd like to|i want to|time to|ready to) (?:now )?(?:continue|carry on|go on|keep going|resume|pick (?:this|it|that|things|the \w+)? ?(?:back )?up|go back|get back|return)"
    r"|(?:continue|carry on|go on|keep going|resume|proceed) (?:with|on|from|working|where)|(?:go|get|come|going|getting|coming) back (?:to|on)|^(?:ok(?:ay)?,? |so |right,? |now )*(?:back (?:to|on)|continue|resume)\b|pick(?:ing)? up (?:where|from|the)"
    r"|where (?:were we|was i|did (?:we|i) (?:stop|leave off|get to))|left off|what was (?:left|next)|what is still open"
    r"|^(?:bon,? |et |passons a )*la suite|(?:on|nous|je) (?:reprend(?:s|ons)?|continue(?:ons|s)?|poursui(?:t|vons)|revien[ts]|retourne)|reprenons|continuons|poursuivons|revenons|reprends? (?:la|le|les|l'|ou|notre)|retour (?:a|au|aux|sur)|(?:on (?:en )?etait|j'en etais|ou en (?:etait|est|etions|sommes))|qu'est-ce qu'il reste|que reste-t-il"
    r"|retom(?:emos|amos|o)|sigamos|seguimos con|sigue con|continu(?:emos|amos)|volvamos|volvemos|volviendo a|donde (?:nos )?(?:quedamos|estabamos|ibamos)|en que (?:quedamos|estabamos|ibamos)|que (?:falta|quedaba|queda) por)\b"
)


def resumes(prompt: str) -> bool:
    """True for a prompt that goes back to work which was put down."""
    return len(prompt) <= _LONGEST and _RESUMES.search(" ".join(fold(prompt).split())) is not None
