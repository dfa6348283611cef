# ruff: noqa: E501 (a pattern is read best on one line)
"""What a statement is about and which values it endorses: the comparable side of a text.

`profile` reads the same things in a new statement and in a stored memory, whatever their language and wording:
the entity (`production`), the values that it says hold (`9443`) and those it says do not (`8443`), the action it
speaks of (deploy, test), and its polarity. Decisions compare profiles, never sentences.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from filrouge import lazy_re as re
from filrouge.understand import corrections
from filrouge.understand.reading import Clause, read
from filrouge.understand.sentences import split
from filrouge.understand.tools import CATEGORY
from filrouge.understand.values import Value, ValueKind
from filrouge.understand.words import GENERIC, canonical, content, fold, tokens


@dataclass(frozen=True, slots=True)
class Profile:
    """The comparable side of a text.

    Attributes:
        entity: canonical words for what it is about, without attribute words such as `port`.
        named: the entity was said ("for production", "staging runs"), not guessed from what is left over.
        holds: values that hold, by kind, in order; `name` values by their category where they have one.
        rejects: folded words that it says do not hold.
        words: its canonical content words.
        placed: it says where something is or runs.
        retracts: it only takes something back.
    """

    entity: frozenset[str]
    named: bool
    holds: tuple[Value, ...]
    rejects: frozenset[str]
    actions: frozenset[str]
    negated: int
    words: Counter[str]
    placed: bool
    retracts: bool

    def values(self, kind: ValueKind) -> tuple[str, ...]:
        """The values of one kind that hold."""
        return tuple(value.text for value in self.holds if value.kind == kind)

    @property
    def held(self) -> frozenset[str]:
        """Every value that holds, as text."""
        return frozenset(value.text for value in self.holds)


_ATTRIBUTES_WORDS: Final = """
port version command url uri address adresse path chemin host hote region hosting date deadline number
numero
"""
#: Words for the kind of value itself: the slot, not the entity.
ATTRIBUTES: Final = frozenset(_ATTRIBUTES_WORDS.split())
_ACTIONS: Final = {
    "deploy": "deploy",
    "test": "test",
    "build": "build",
    "construire": "build",
    "construit": "build",
    "lint": "lint",
    "start": "start",
    "lancer": "start",
    "demarrer": "start",
    "migrate": "migrate",
    "format": "format",
    "install": "install",
    "installer": "install",
    "seed": "seed",
    "release": "release",
    "compile": "build",
    "compiler": "build",
    "benchmark": "benchmark",
    "restore": "restore",
}
_FURNITURE_WORDS: Final = """
move moved moves switch switched change changed migrate migrated rename renamed replace replaced upgrade
upgraded choose chose chosen decide decided pick picked settle settled opt opted agree agreed adopt adopted
keep kept go going went store stored host live listen point work build built made make drop dropped revient
revenon passe passon choisi decide retenu abandonne garde gardon part parton migre stocke heberge ecoute
trouve tranche oublie forget instead rather plutot finally finalement finalment last week semaine monday
month mois since because parce meilleur better faster simple simpler plan rapide compilation longer left
prefer prefere like aime want veux always must should need doit use called appelle located situe is own
maintain manage handle expire start end run set moved deplace change renomme remplace called listening
running hosted avoid never ground rule correction
"""
#: Verbs and adverbs that remain in what follows "we": they are not what the sentence is about.
_FURNITURE: Final = frozenset(_FURNITURE_WORDS.split())
_OWNERS: Final = re.compile(
    r"\b(?:owns?|maintains?|manages?|handles?|leads?|is responsible for|is in charge of|looks after|takes care of|s'occupe|gere|maintient|dirige|est responsable)\b"
)
_PLACES: Final = re.compile(
    r"\b(?:runs? (?:on|in|at)|(?:is|are|est|sont|lives?|sits?|hosted|deployed|stored|located|moved|migrated|esta|estan|vit|tourne\w*|heberge\w*|stocke\w*|trouve\w*|go|goes) (?:not |now |always |maintenant |plus |\w+ )?(?:on|in|at|to|under|dans|sur|chez|en|a|sous)|not on|back to|moved (?:it )?to|switched|migrated|revient|repasse)\b"
)
_FOR: Final = re.compile(
    r"(?<![\w-])(?:for|pour|para) (?!(?:now|example|instance|info|l'instant|le moment|(?:the )?record|me|you|us|moi|toi|nous)\b)((?:[\w'./-]+ ){0,4}?[\w'./-]+)(?=\s*(?:[,;:.!()]|$)|\s(?:we|on|is|are|because|since|instead|rather|over|and|with|in|it|nous|plutot|car|parce|est|sont|et|dans|avec|last|from|to|by|at|as|not|which|que|c'est)\b)"
)
_TO_DO: Final = re.compile(
    r"^(?:to|pour|para) (\w+(?: [\w-]+){0,3}?),? (?:we|you|run|use|on|utilise|lance|il faut|just)\b"
)
#: "we moved search from Elasticsearch", "on a migré la facturation vers Stripe"
_MOVED: Final = re.compile(
    r"\b(?:moved|migrated|switched|ported|transferred|migre|deplace|bascule|transfere) (?:the |our |la |le |les |notre |nos )?(?!it\b|them\b|from\b|to\b|de\b|vers\b|over\b|everything\b)((?:[\w-]+ ){0,2}?[\w-]+) (?:from|to|over to|onto|vers|chez|sur)\b"
)
_VERB: Final = re.compile(
    r"\s(?:is|are|isn't|aren't|runs?|lives?|listens?|uses?|sits?|points?|requires?|needs?|depends|expires?|starts?|ends?|ships?|go|goes|keeps?|has|have|contains?|holds?|reads?|writes?|supports?|serves?|exposes?|sends?|stores?|was|were|must|should|can|cannot|will|moved|switched|migrated|changed|upgraded|went|owns?|maintains?|manages?|handles?|leads?|gere|maintient|s'occupe|now|no longer|belongs?|defaults?"
    r"|est|sont|n'est|ne|tourne(?:nt)?|utilise(?:nt)?|vit|ecoute(?:nt)?|se|s'appelle(?:nt)?|expire(?:nt)?|demarre(?:nt)?|commence(?:nt)?|necessite(?:nt)?|requiert|contient|stocke(?:nt)?|conserve\w*|parte(?:nt)?|pointe(?:nt)?|passe\w*|sera|seront|doit|doivent|a|ont|esta|estan|corre|usa|escucha|:|=)(?=\s|$)"
)
_WE: Final = re.compile(
    r"^(?:we|we're|we've|i|i've|on|nous|je|j'ai|the team|l'equipe|it|il|ca|let's|they|you|tu|now|then)\b"
)
_NEGATIONS_WORDS: Final = """
not never no don't doesn't isn't aren't can't cannot without jamais pas aucun aucune sans nunca
"""
_NEGATIONS: Final = frozenset(_NEGATIONS_WORDS.split())
_BECAUSE: Final = re.compile(r",? (?:because|since|as it|so that|car|parce que|puisque|otherwise|sinon)\b|\s: |; |: ")


@lru_cache(maxsize=4096)
def profile(text: str) -> Profile:
    """The comparable side of `text`."""
    parts = [read(sentence.text, sentence.start) for sentence in split(text)] or [read(text[:500], 0)]
    stating = [part for part in parts if corrections.retraction(part.plain) is None]
    clauses = stating or parts
    rejects = frozenset(word for part in parts for word in corrections.old_values(part.plain)) | _outdated(parts)
    rejected = {word for phrase in rejects for word in [phrase, *phrase.split()]}
    gone = {canonical(word) for word in rejected if word.isalpha()} if _OWNERS.search(parts[0].plain) else set[str]()
    every = [value for part in parts for value in part.values]
    holds = tuple(value for value in every if value.text not in rejected)
    entity, named = _entity(clauses[0].plain, clauses[0].values, gone)
    if not entity and len(clauses) > 1 and not named:
        entity, named = _entity(clauses[1].plain, clauses[1].values, gone)
    plain = " ".join(part.plain for part in parts)
    spoken = tokens(plain)
    return Profile(
        entity=entity,
        named=named,
        holds=holds,
        rejects=rejects,
        actions=frozenset(_ACTIONS[word] for word in map(canonical, spoken) if word in _ACTIONS),
        negated=sum(word in _NEGATIONS for word in plain.split()),
        words=Counter(content(" ".join(part.text for part in parts))),
        placed=_PLACES.search(plain) is not None,
        retracts=not stating,
    )


def _outdated(parts: list[Clause]) -> frozenset[str]:
    """The values that a bare one after them replaces: "The port is 3000. No, 3001."."""
    return frozenset(
        old.text
        for before, after in itertools.pairwise(parts)
        if corrections.is_bare(after)
        for old in before.values
        if any(_alike(old, new) for new in _endorsed(after)) and old.text not in {new.text for new in after.values}
    )


def _endorsed(part: Clause) -> list[Value]:
    old = corrections.old_values(part.plain)
    return [value for value in part.values if value.text not in old]


def _alike(old: Value, new: Value) -> bool:
    return old.kind == new.kind or (new.kind == "number" and old.text.isdigit())


def subject(text: str) -> str:
    """A few normalised words for what `text` is about: `production port`, `staging`, `pdf`."""
    seen = profile(text)
    ordered = [word for word in dict.fromkeys(content(text)) if word in seen.entity][:4]
    kinds = {value.kind for value in seen.holds}
    slot = next((kind for kind in ("port", "version") if kind in kinds), None)
    if slot == "version" and not ordered:
        ordered = [value.text for value in seen.holds if value.kind == "name"][:1]
    if not ordered and not slot:
        ordered = [word for word in dict.fromkeys(content(text)) if word not in _FURNITURE and word not in GENERIC][:3]
    words = [*ordered, slot] if slot and slot not in ordered else ordered
    return " ".join(words)


def _entity(plain: str, found: tuple[Value, ...], gone: set[str]) -> tuple[frozenset[str], bool]:
    """What a clause is about, and whether it says so or it is only what is left over."""
    reason = _BECAUSE.search(plain)
    main = plain[: reason.start()] if reason and reason.start() > 12 else plain
    for_phrase = _TO_DO.match(main) or _FOR.search(main)
    if for_phrase and (words := _about(main, *for_phrase.span(1), found, gone)):
        return words, True
    moved = _MOVED.search(main)
    if moved and (words := _about(main, *moved.span(1), found, gone)):
        return words, True
    verb = _VERB.search(main)
    if verb and not _WE.match(main):
        if words := _about(main, 0, verb.start(), (), gone | _people(main, verb.start(), found)):
            return words, True
        if _OWNERS.search(main):
            return _about(main, 0, len(main), found, gone), True
        return frozenset(), False
    return _about(main, 0, len(main), found, gone), False


def _about(main: str, start: int, end: int, found: tuple[Value, ...], gone: set[str]) -> frozenset[str]:
    """The words between two places that can name something, values only where there is nothing else."""
    inside = [value for value in found if start <= value.start < end]
    names = {word for value in inside for word in (value.text, *content(value.text))}
    words = _plainly(main[start:end], names | gone)
    whole = start == 0 and end == len(main)
    return words if words or whole else _plainly(main[start:end], gone)


def _people(main: str, end: int, found: tuple[Value, ...]) -> set[str]:
    """Who owns something is the value, not the subject."""
    if _OWNERS.search(main) is None:
        return set()
    return {word for value in found if value.start < end for word in (value.text, *content(value.text))}


def _plainly(words: str, names: set[str]) -> frozenset[str]:
    """The words that can name something: no values, no attribute words, no furniture."""
    return frozenset(
        word
        for word in content(words)
        if word not in names
        and word not in GENERIC
        and word not in ATTRIBUTES
        and word not in _FURNITURE
        and not word.isdigit()
    )


def category(value: Value) -> str | None:
    """What a named tool is for, when known."""
    return CATEGORY.get(value.text) if value.kind in {"name", "host", "identifier"} else None


def same_words(one: str, other: str) -> bool:
    """True when two texts are the same but for case, accents, punctuation and spacing."""
    return tokens(fold(one)) == tokens(fold(other))
