"""Words as the heuristics compare them: folded, bridged between languages, without the small ones.

`fold` lowers and strips accents one character for one character, so that an offset found in folded text is an
offset in the original. `content` gives the words that carry meaning, in one canonical form for English, French
and Spanish (`prod`, `production` and `producción` are one word), which is what lets a French memory meet an
English correction without a model.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

from filrouge import lazy_re as re
from filrouge.understand.bridges import CANON, PHRASES

_TYPOGRAPHY: Final = {"’": "'", "‘": "'", "ʼ": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‑": "-", "\xa0": " "}


class _FoldTable(dict[int, str]):
    """Character → folded character, filled as characters are met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char in _TYPOGRAPHY:
            folded = _TYPOGRAPHY[char]
        else:
            base = unicodedata.normalize("NFD", char)[0].lower() if code < 0xD800 or code > 0xDFFF else char
            folded = base if len(base) == 1 else char
        self[code] = folded
        return folded


_FOLD: Final = _FoldTable()


def fold(text: str) -> str:
    """Lower case, no accents, plain quotes and dashes; the same length as `text`."""
    return text.translate(_FOLD)


_SMALL: Final = """
a an the this that these those it its it's he she they them their his her we us our you your i me my mine i'm i've
is are was were be been being am do does did done has have had will would shall should can could may might must
and or but nor so if then than as at by for from in into of off on onto out over to up with within without about
not no never always only just also too very more most much many any some all each every both other another same
here there where when while what which who whom whose why how now already still again yet ever back any-more anymore
please ok okay yes well actually really currently let's lets don't doesn't isn't aren't won't can't re ve ll d s t m
le la les l un une des du de d' au aux ce cet cette ces ca cela c qu que qui quoi dont ou et mais donc or ni car je j
tu il elle on nous vous ils elles me te se s y en ne n pas plus jamais toujours mon ma mes ton ta tes son sa ses notre
nos votre vos leur leurs est sont etait etaient sera seront suis es sommes etes ai as avons avez ont ete avoir etre
dans sur sous chez avec sans pour par vers entre depuis pendant derriere devant apres avant aussi tres bien deja encore
maintenant desormais finalement fait faire fais tout toute tous toutes si comme quand meme autre autres
el los las una unos unas del al y o pero con sin para por esta estan este esto ese esa esos es son ser estar se su sus
nuestro nuestra lo le les mi tu ya no nunca siempre ahora hay
use uses used using utilise utilisons utiliser utilisent usa usamos usar run runs running ran tourne tournent lives live
goes go going need needs via per
"""

_GENERIC_WORDS: Final = """
message content contenu analyse fichier code json response result data type value function class method
variable parameter thing things chose truc stuff way command new old nouveau nouvelle nouveaux ancien
ancienne former correction rule decision note fact info application environment server service machine
instance region zone project projet side part time local locally everything everywhere tout partout
"""
#: Words too general to say what a sentence is about (EXT-9, and the furniture of developers' talk).
GENERIC: Final = frozenset(_GENERIC_WORDS.split())
_MEANINGS: Final = frozenset({*CANON.values(), *PHRASES.values()})
STOP: Final = frozenset(_SMALL.split())
_TOKEN: Final = re.compile(r"[a-z0-9_]+(?:[.\-/:@+#][a-z0-9_]+)*(?:\(\)|\+\+|#)?")
_PHRASE: Final = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(PHRASES, key=len, reverse=True)))})\b")
_IDENTIFIER: Final = re.compile(r"[0-9_./:@#]")


def canonical(word: str) -> str:
    """The one form of a folded word: bridged between languages, else without its plural."""
    if word in CANON:
        return CANON[word]
    if _IDENTIFIER.search(word) or len(word) < 4:
        return word
    plural = word.endswith("s") and not word.endswith(("ss", "us", "is"))
    bare = word[:-1] if plural or word.endswith(("eaux", "eux")) else word
    return CANON.get(bare, bare)


def tokens(plain: str) -> list[str]:
    """The words of a folded text, in order; hyphenated words apart unless they are known or hold a digit."""
    found: list[str] = []
    for word in _TOKEN.findall(_PHRASE.sub(lambda found: PHRASES[found[0]], plain)):
        known = word in CANON or word in STOP or _IDENTIFIER.search(word)
        found.extend([word] if known or word.count("-") > 1 else word.split("-"))
    return found


def content(text: str) -> tuple[str, ...]:
    """The canonical content words of a text, in order, with repetitions."""
    return tuple(canonical(word) for word in tokens(fold(text)) if word not in STOP and len(word) > 1)


def topic(words: Iterable[str]) -> tuple[str, ...]:
    """Canonical words without the generic ones and without repetition."""
    return tuple(dict.fromkeys(word for word in words if word not in GENERIC))


def is_bridged(word: str) -> bool:
    """True for a canonical word that stands for others, of whatever language."""
    return word in _MEANINGS


def variants(word: str) -> tuple[str, ...]:
    """Every written form that shares the canonical form of `word`, itself first."""
    return (word, *(form for form, canon in CANON.items() if canon == word and form != word))
