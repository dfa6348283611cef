"""Concepts: the three to five subjects that a conversation was about, in its own words.

Keyphrases by statistics. Candidates are runs of content words between small words and punctuation, as in RAKE
(Rose et al. 2010, doi.org/10.1002/9780470689646.ch1), at most three words long. A word weighs how many sentences have
it, damped, times how rare it is elsewhere (TF·IDF), times how fit it is to be a subject, which is learned
(`extraction.subject_words`). A phrase weighs what its words do together, the more often it occurs as a phrase the more.
A phrase that repeats words of a better one is left out, and people and places are no subjects.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from filrouge.extraction.subject_words import fitness
from filrouge.model.turn import Turn
from filrouge.understand import moods
from filrouge.understand.language import SMALL_WORDS
from filrouge.understand.said import Said, said
from filrouge.understand.tools import AMBIGUOUS, CATEGORY
from filrouge.understand.topic_cleaning import clean_topic
from filrouge.understand.words import GENERIC, STOP, canonical, fold

MOST: Final = 5
_LONGEST: Final = 3
_LONGEST_WORD: Final = 40
#: What the user says is what it was about; agents say a lot, and a summary repeats it.
_SPEAKS: Final = {"user": 2.0, "agent": 1.0, "told": 1.0}
_TOOL, _PLAIN = 1.3, 0.15
#: What was said once is less sure to be a phrase than what was said again; three words together once are none.
_DAMPING_ONCE, _DAMPING_AGAIN = 0.6, 0.25
_AFTER_ALL: Final = 0.7
#: Words of talk that the table of orders lacks: they say what is done, not to what.
_NO_SUBJECT_WORDS: Final = """
maintains owns manages leads prefers wants needs thinks says uses breaks blocks fails works runs listens takes makes
shows gets goes comes looks seems happens stays becomes decided chose picked moved switched prefer working broken
found looked added created updated removed fixed changed replaced renamed migrated deployed enqueue depends agreed
settled maintient gere utilise casse bloque prefere prend ecoute tourne reste devient semble arrive choisi decide
retenu passe deplace bascule corrige ajoute cree supprime embarquee aider corriger ajouter creer verifie verifier
slow fast faster slower behind ahead lags disagree huge someone somebody appelle plutot rather instead prefiero usa
funciona rompe decidido elegido attaque attaquer
"""
_NO_SUBJECT: Final = frozenset(_NO_SUBJECT_WORDS.split())
#: From this fitness on a word of orders is a noun too: the export, the import.
_NOUN_TOO: Final = 0.5
#: How much surer a word is for each standard deviation of its fitness; below this one a word says no subject by itself.
_STEEPNESS, _WEAK = 1.2, -1.0
_PUNCTUATION: Final = frozenset(',;:.!?()[]{}"«»…|*<>=`/\\')
Rarity = Callable[[str], float]
"""How rare a folded word is elsewhere: 1 = nothing is known, more = rarer."""


@dataclass(slots=True)
class _Phrase:
    """A candidate while it is counted."""

    words: tuple[str, ...]
    ends_weakly: bool = False
    weight: float = 0.0
    forms: Counter[str] = field(default_factory=Counter[str])


def concepts(
    turns: Sequence[Turn],
    *,
    rarity: Rarity | None = None,
    former: Sequence[str] = (),
    nobodies: Collection[str] = (),
) -> tuple[str, ...]:
    """The concepts of a conversation, the weightiest first, five at the most and fewer where there are not so many.

    Args:
        rarity: of a folded word in other conversations; None = nothing is known of others.
        former: those of the turns before these, which count on.
        nobodies: names of people and places.
    """
    sentences = said(turns)
    words = _word_weights(sentences, rarity or _unknown)
    phrases = _phrases(sentences)
    for place, phrase in enumerate(former):
        own = tuple(canonical(fold(word)) for word in phrase.split())
        known = phrases.setdefault(own, _Phrase(own))
        known.forms[phrase] += 1
        known.weight += 4.0 - place * 0.5
        for word in own:
            words[word] = words.get(word, 0.0) + 1.5
    scores = {phrase.words: _score(phrase, words) for phrase in phrases.values()}
    best = sorted(filter(scores.get, scores), key=lambda own: (-scores[own], own))
    return tuple(
        _distinct([phrases[own] for own in best], frozenset(word for name in nobodies for word in fold(name).split()))
    )


def asked_words(turns: Sequence[Turn]) -> frozenset[str]:
    """The folded words whose rarity `concepts` would ask for."""
    return frozenset(fold(word) for one in said(turns) for run in _runs(one) for word in run)


def _unknown(word: str) -> float:
    del word
    return 1.0


def _word_weights(sentences: Sequence[Said], rarity: Rarity) -> dict[str, float]:
    counts = Counter[str]()
    spelt = dict[str, str]()
    for one in sentences:
        plain = {fold(word) for run in _runs(one) for word in run}
        for word in plain:
            spelt.setdefault(canonical(word), word)
        counts.update({canonical(word): _SPEAKS[one.speaker] for word in plain})
    return {
        word: (1.0 + math.log1p(count)) * rarity(spelt[word]) * _kind(word, spelt[word])
        for word, count in counts.items()
    }


def _kind(word: str, spelt: str) -> float:
    if spelt in CATEGORY:
        return _TOOL
    if word in GENERIC or _is_no_subject(spelt):
        return _PLAIN
    return 1.0 / (1.0 + math.exp(-_STEEPNESS * fitness(spelt)))


def _phrases(sentences: Sequence[Said]) -> dict[tuple[str, ...], _Phrase]:
    found: dict[tuple[str, ...], _Phrase] = {}
    for one in sentences:
        seen = set[tuple[str, ...]]()
        for run in _runs(one):
            for start in range(len(run)):
                for length in range(1, min(_LONGEST, len(run) - start) + 1):
                    surface = run[start : start + length]
                    own = tuple(canonical(fold(word)) for word in surface)
                    if own in seen or len(set(own)) < length or not _may_stand(surface):
                        continue
                    seen.add(own)
                    phrase = found.setdefault(own, _Phrase(own, _is_weak(fold(surface[-1]))))
                    phrase.weight += _SPEAKS[one.speaker]
                    phrase.forms[" ".join(surface).lower()] += 1
    return found


def _runs(one: Said) -> Iterator[list[str]]:
    """The runs of content words of a sentence, as they are spelt."""
    run: list[str] = []
    for raw in one.text.split():
        head = raw.lstrip("\"'“”«(¿¡*_`[{<")
        word = head.rstrip("\"'“”».,;:!?…)*_`]}>")
        bare = _without_article(word)
        cut = bare != word or head != raw
        if cut and run:
            yield run
            run = []
        plain = fold(bare)
        if _is_content(plain):
            run.append(bare)
        elif run:
            yield run
            run = []
        if head != word and head[len(word) : len(word) + 1] in _PUNCTUATION and run:
            yield run
            run = []
    if run:
        yield run


def _without_article(word: str) -> str:
    """`l'index` is an index; `pool's` is a pool."""
    plain = fold(word)
    for article in ("l'", "d'", "qu'", "s'", "n'", "c'", "j'", "m'", "t'"):
        if plain.startswith(article):
            return word[len(article) :]
    return word[:-2] if plain.endswith("'s") else word


@lru_cache(maxsize=8192)
def _is_content(plain: str) -> bool:
    if len(plain) < 2 or len(plain) > _LONGEST_WORD or plain in STOP or plain in SMALL_WORDS or "'" in plain:
        return False
    return any(char.isalpha() for char in plain) and "://" not in plain and not plain.startswith(("/", "~", "-", "#"))


@lru_cache(maxsize=8192)
def _is_no_subject(plain: str) -> bool:
    return plain in _NO_SUBJECT or (fitness(plain) < _NOUN_TOO and moods.is_imperative(plain))


def _may_stand(surface: Sequence[str]) -> bool:
    """True for a phrase that begins with a word of its own and holds no sentence's verb but at its end."""
    plain = [fold(word) for word in surface]
    if any(_is_weak(word) for word in (plain if len(plain) == 1 else plain[:-1])):
        return False
    if plain[-1] in _NO_SUBJECT or all(word in GENERIC or word in AMBIGUOUS for word in plain):
        return False
    if len(plain) == 1 and plain[0].endswith("ed") and len(plain[0]) > 4:
        return False
    return bool(clean_topic(" ".join(surface)))


def _is_weak(plain: str) -> bool:
    """True for words that are hardly ever what talk is about, and for those of orders, which are nouns too."""
    return plain not in CATEGORY and (_is_no_subject(plain) or fitness(plain) < _WEAK)


def _score(phrase: _Phrase, words: Mapping[str, float]) -> float:
    """What its words weigh together, damped by how many they are, and how often they stand together; 0 = no phrase."""
    said_again = phrase.forms.total() > 1
    if not said_again and len(phrase.words) > 1 and (len(phrase.words) == _LONGEST or phrase.ends_weakly):
        return 0.0
    damping = _DAMPING_AGAIN if said_again else _DAMPING_ONCE
    weights = [words.get(word, 0.0) for word in phrase.words]
    if phrase.ends_weakly and len(weights) > 1:  # "the invoice export": a noun after all
        weights[-1] = max(weights[-1], _AFTER_ALL * weights[-2])
    together = sum(weights) / len(weights) ** damping
    return together * (1.0 + math.log1p(phrase.weight))


def _distinct(best: Sequence[_Phrase], nobodies: frozenset[str]) -> list[str]:
    """The best that say something each: of two that share most of their words the better one."""
    taken: list[str] = []
    used: list[frozenset[str]] = []
    for phrase in best:
        own = frozenset(phrase.words)
        if not own or any(own & other for other in used):
            continue
        form = clean_topic(max(sorted(phrase.forms), key=lambda form: phrase.forms[form]))
        if form and form not in taken and nobodies.isdisjoint(fold(form).split()):
            taken.append(form)
            used.append(own)
        if len(taken) == MOST:
            break
    return taken
