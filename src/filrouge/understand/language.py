"""Which language the user writes: a vote of small words over their last turns (RULINGS 21).

It chooses the language of what Filrouge says. Indexing and recall never depend on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

from filrouge import lazy_re as re
from filrouge.understand.words import fold

Language = Literal["en", "fr", "es"]

#: Only the last turns vote: people change language, and a paste of long ago should not decide.
TURNS: Final = 5
_LONGEST: Final = 4000
_EN: Final = """
a always an and are as be but by can could did do does for from has have how i if in is it my never not of or
our please should so than that the then there they this to was we were what when where which with would you
your
"""
_FR: Final = """
a au aux avec avoir bien c ce ces cette comment d dans de des donc du elle en est et etre fait il j je l la le
les m mais merci mon n ne notre nous on ou par pas plus pour pourquoi qu que quel quelle qui s si son sont sur
t ton tu un une votre vous
"""
_ES: Final = """
al como con cuando de del donde el en es esta estan este esto favor gracias hay la las le les lo los mas mi
muy no nuestro nunca o para pero por porque que se si siempre son su sus tu un una unas unos y ya
"""
_STOP_WORDS: Final[dict[Language, frozenset[str]]] = {
    "en": frozenset(_EN.split()),
    "fr": frozenset(_FR.split()),
    "es": frozenset(_ES.split()),
}
#: The small words of all three languages, folded.
SMALL_WORDS: Final = frozenset(word for words in _STOP_WORDS.values() for word in words)
_LANGUAGES: Final[tuple[Language, ...]] = ("en", "fr", "es")
_FENCED: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+", re.DOTALL)
_WORD: Final = re.compile(r"[a-z]+")


def vote(texts: Sequence[str], former: str = "en") -> Language:
    """The language of the last user turns in `texts` (oldest first); a tie keeps `former`."""
    counts: Counter[Language] = Counter()
    for text in texts[-TURNS:]:
        words = Counter(_WORD.findall(fold(_FENCED.sub(" ", text[:_LONGEST]))))
        for language, stop in _STOP_WORDS.items():
            counts[language] += sum(number for word, number in words.items() if word in stop)
    best = max(counts.values(), default=0)
    winners: list[Language] = [language for language in _LANGUAGES if counts[language] == best]
    if best > 0 and len(winners) == 1:
        return winners[0]
    kept: list[Language] = [language for language in _LANGUAGES if language == former]
    return kept[0] if kept else "en"
