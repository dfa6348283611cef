"""Which language the user writes: a vote of small words over their last turns (RULINGS 21).

It chooses the language of what Filrouge says. Indexing and recall never depend on it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, cast

from filrouge.understand.words import fold

Language = Literal["en", "fr", "es"]

#: Only the last turns vote: people change language, and a paste of long ago should not decide.
TURNS: Final = 5
_LONGEST: Final = 4000
_STOP_WORDS: Final[dict[Language, frozenset[str]]] = {
    "en": frozenset(
        "the a an is are was were be of and to in that it for with as this from by not have has what which when where how"
        " we you they i my our your can could would should do does did there then than but or if so please never always".split()
    ),
    "fr": frozenset(
        "le la les un une des du de est sont et a en que qui dans pour sur au aux avec ce cette ces il elle on nous vous je tu ne pas"
        " plus mais ou si donc par mon ton son notre votre c d j l n qu s t m fait etre avoir quel quelle comment pourquoi bien merci".split()
    ),
    "es": frozenset(
        "el la los las un una unos unas de del es son y en que con para por al se su sus no pero o si como cuando donde porque mi tu"
        " nuestro esta estan hay lo le les ya muy mas este esto siempre nunca gracias por favor".split()
    ),
}
_FENCED: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+", re.DOTALL)
_WORD: Final = re.compile(r"[a-z]+")


def vote(texts: Sequence[str], former: str = "en") -> Language:
    """The language of the last user turns in `texts` (oldest first); a tie keeps `former`."""
    counts: Counter[Language] = Counter()
    for text in texts[-TURNS:]:
        words = Counter(_WORD.findall(fold(_FENCED.sub(" ", text[:_LONGEST]))))
        for language, stop in _STOP_WORDS.items():
            counts[language] += sum(number for word, number in words.items() if word in stop)
    kept = cast("Language", former) if former in _STOP_WORDS else "en"
    best = max(counts.values(), default=0)
    winners = [language for language in _STOP_WORDS if counts[language] == best]
    return kept if best == 0 or len(winners) > 1 else winners[0]
