"""Comparable forms of a statement: what it is about and which values it gives.

Three comparisons build on these, and none of them depends on wording or language: a new value for the same slot, a
newer version of a fact, and a denial of one. They separate two versions of one fact from two different facts. The
thresholds are strict: a wrong update hides a true memory, a missed one only leaves an old value beside the new one.

Pure: no database, no file.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from filrouge.core import lazy_re as re
from filrouge.extraction import reading
from filrouge.extraction.reading import Clause, Measure, Value, ValueKind, measures, read_clause
from filrouge.extraction.sentences import split
from filrouge.extraction.vocabulary import CATEGORY, GENERIC, canonical, content, fold, tokens
from filrouge.memories.models import Memory, Neighbour, Statement

# Profiles. `profile` reads new statements and stored memories alike. Decisions compare profiles, never sentences.

# ruff: noqa: E501 (a pattern is read best on one line)


class Profile(Struct, frozen=True):
    """The comparable form of a text.

    Attributes:
        entity: canonical words for its subject, without attribute words such as `port`.
        named: whether the text names the entity ("for production", "staging runs") or it is only the words left over.
        current_values: the values that hold, in order (`9443`).
        rejects: folded words that no longer hold (`8443`).
        actions: the actions it mentions (deploy, test).
        negated: the number of negations.
        words: its canonical content words, counted.
        states_location: whether it says where something is or runs.
        retracts: whether it only retracts something.
    """

    entity: frozenset[str]
    named: bool
    current_values: tuple[Value, ...]
    rejects: frozenset[str]
    actions: frozenset[str]
    negated: int
    words: Counter[str]
    states_location: bool
    retracts: bool

    def texts_of_kind(self, kind: ValueKind) -> tuple[str, ...]:
        """Return the values of one kind that hold, as text."""
        return tuple(value.text for value in self.current_values if value.kind == kind)

    @property
    def current_texts(self) -> frozenset[str]:
        """Every value that holds, as text."""
        return frozenset(value.text for value in self.current_values)


_ATTRIBUTES_WORDS: Final = """
port version command url uri address adresse path chemin host hote region hosting date deadline number
numero
"""
#: Words for the kind of a value: they name the slot, not the entity.
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
_NOT_A_SUBJECT_WORDS: Final = """
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
#: Verbs and adverbs of a clause with "we" that do not name a subject.
_NOT_A_SUBJECT: Final = frozenset(_NOT_A_SUBJECT_WORDS.split())
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
#: "we moved search from Elasticsearch", "on a migré la facturation vers Stripe": the thing that moved is the entity.
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
    """Return the profile of `text`."""
    parts = [read_clause(sentence.text, sentence.start) for sentence in split(text)] or [read_clause(text[:500], 0)]
    stating = [part for part in parts if reading.parse_retraction(part.plain) is None]
    clauses = stating or parts
    rejects = frozenset(word for part in parts for word in reading.old_values(part.plain)) | _find_outdated(parts)
    rejected = {word for phrase in rejects for word in [phrase, *phrase.split()]}
    outdated_words = (
        {canonical(word) for word in rejected if word.isalpha()} if _OWNERS.search(parts[0].plain) else set[str]()
    )
    every = [value for part in parts for value in part.values]
    current_values = tuple(value for value in every if value.text not in rejected)
    entity, named = _find_entity(clauses[0].plain, clauses[0].values, outdated_words)
    if not entity and len(clauses) > 1 and not named:
        entity, named = _find_entity(clauses[1].plain, clauses[1].values, outdated_words)
    plain = " ".join(part.plain for part in parts)
    spoken = tokens(plain)
    return Profile(
        entity=entity,
        named=named,
        current_values=current_values,
        rejects=rejects,
        actions=frozenset(_ACTIONS[word] for word in map(canonical, spoken) if word in _ACTIONS),
        negated=sum(word in _NEGATIONS for word in plain.split()),
        words=Counter(content(" ".join(part.text for part in parts))),
        states_location=_PLACES.search(plain) is not None,
        retracts=not stating,
    )


def _find_outdated(parts: list[Clause]) -> frozenset[str]:
    """Return the values that a later bare value replaces: "The port is 3000. No, 3001."."""
    return frozenset(
        old.text
        for before, after in itertools.pairwise(parts)
        if reading.is_bare(after)
        for old in before.values
        if any(_is_replacement(old, new) for new in _current_values(after))
        and old.text not in {new.text for new in after.values}
    )


def _current_values(part: Clause) -> list[Value]:
    old = reading.old_values(part.plain)
    return [value for value in part.values if value.text not in old]


def _is_replacement(old: Value, new: Value) -> bool:
    return old.kind == new.kind or (new.kind == "number" and old.text.isdigit())


def subject(text: str) -> str:
    """Return a few normalised words for the subject of `text`: `production port`, `staging`, `pdf`."""
    seen = profile(text)
    ordered = [word for word in dict.fromkeys(content(text)) if word in seen.entity][:4]
    kinds = {value.kind for value in seen.current_values}
    slot = next((kind for kind in ("port", "version") if kind in kinds), None)
    if slot == "version" and not ordered:
        ordered = [value.text for value in seen.current_values if value.kind == "name"][:1]
    if not ordered and not slot:
        ordered = [word for word in dict.fromkeys(content(text)) if word not in _NOT_A_SUBJECT and word not in GENERIC][
            :3
        ]
    words = [*ordered, slot] if slot and slot not in ordered else ordered
    return " ".join(words)


def _find_entity(plain: str, found: tuple[Value, ...], outdated_words: set[str]) -> tuple[frozenset[str], bool]:
    """Return the entity of a clause, and whether the clause names it or it is only the words left over."""
    reason = _BECAUSE.search(plain)
    main = plain[: reason.start()] if reason and reason.start() > 12 else plain
    for_phrase = _TO_DO.match(main) or _FOR.search(main)
    if for_phrase and (words := _naming_words_in(main, *for_phrase.span(1), found, outdated_words)):
        return words, True
    moved = _MOVED.search(main)
    if moved and (words := _naming_words_in(main, *moved.span(1), found, outdated_words)):
        return words, True
    verb = _VERB.search(main)
    if verb and not _WE.match(main):
        if words := _naming_words_in(
            main, 0, verb.start(), (), outdated_words | _find_owners(main, verb.start(), found)
        ):
            return words, True
        if _OWNERS.search(main):
            return _naming_words_in(main, 0, len(main), found, outdated_words), True
        return frozenset(), False
    return _naming_words_in(main, 0, len(main), found, outdated_words), False


def _naming_words_in(
    main: str, start: int, end: int, found: tuple[Value, ...], outdated_words: set[str]
) -> frozenset[str]:
    """Return the words in a range that can name something; values only if the range holds nothing else."""
    inside = [value for value in found if start <= value.start < end]
    names = {word for value in inside for word in (value.text, *content(value.text))}
    words = _naming_words(main[start:end], names | outdated_words)
    is_whole_clause = start == 0 and end == len(main)
    return words if words or is_whole_clause else _naming_words(main[start:end], outdated_words)


def _find_owners(main: str, end: int, found: tuple[Value, ...]) -> set[str]:
    """Return the owners in the subject of a clause about ownership: there, the owner is the value."""
    if _OWNERS.search(main) is None:
        return set()
    return {word for value in found if value.start < end for word in (value.text, *content(value.text))}


def _naming_words(words: str, names: set[str]) -> frozenset[str]:
    """Return the content words that can name something: no values, no attribute words, no verbs of change."""
    return frozenset(
        word
        for word in content(words)
        if word not in names
        and word not in GENERIC
        and word not in ATTRIBUTES
        and word not in _NOT_A_SUBJECT
        and not word.isdigit()
    )


def category(value: Value) -> str | None:
    """Return the category of a named tool, or None if unknown."""
    return CATEGORY.get(value.text) if value.kind in {"name", "host", "identifier"} else None


def same_words(first: str, second: str) -> bool:
    """Return whether two texts are equal apart from case, accents, punctuation and spacing."""
    return tokens(fold(first)) == tokens(fold(second))


# Slots. A slot is an entity and a kind of value: the port of production, the host of staging, the version of Python in
# CI, the deploy command. Two statements compete for a slot only if they have exactly the same entity.

#: Kinds of which an entity has one value at a time.
_SINGLE: Final[tuple[ValueKind, ...]] = (
    "port",
    "date",
    "time",
    "url",
    "path",
    "host",
    "quantity",
    "command",
    "version",
)
_UNIT: Final = re.compile(r"[a-z%]+$")


def newer_value(mine: Profile, theirs: Profile, *, corrects: bool) -> bool:
    """Return whether `mine` gives another value for a slot that `theirs` fills."""
    loosely = corrects and not mine.rejects
    if not _same_entity(mine, theirs, corrects=loosely) or not (mine.entity or loosely):
        return False
    if any(_has_other_value(kind, mine, theirs) for kind in _SINGLE):
        return True
    return bool(mine.entity) and _names_other_choice(mine, theirs, corrects=loosely)


def names_other_value(mine: Profile, theirs: Profile) -> bool:
    """Return whether each names one thing for exactly the same entity: "Actually no, RabbitMQ for the queue"."""
    if mine.entity != theirs.entity or not (mine.entity and mine.named and theirs.named) or mine.rejects:
        return False
    new, old = _named_choices(mine), _named_choices(theirs)
    return len(new) == len(old) == 1 and new != old and bool(mine.negated) == bool(theirs.negated)


def _named_choices(seen: Profile) -> frozenset[str]:
    return frozenset(value.text for value in seen.current_values if value.kind in {"name", "host", "identifier"})


def contradicts_choice(mine: Profile, theirs: Profile) -> bool:
    """Return whether `mine` and `theirs` contradict each other on a value of the same entity.

    Either each rejects what the other holds, or one of them does and both hold a tool of the same category.
    """
    back = mine.current_texts & theirs.rejects
    away = theirs.current_texts & mine.rejects
    if not (back or away) or mine.entity != theirs.entity:
        return False
    if back and away:
        return True
    rival = any(a and a == b for a in _categories(mine.current_values) for b in _categories(theirs.current_values))
    return (bool(back) and rival) or (bool(away) and rival)


def _same_entity(mine: Profile, theirs: Profile, *, corrects: bool) -> bool:
    if mine.entity == theirs.entity:
        return (mine.named and theirs.named) or corrects
    if not corrects:
        return False
    if not mine.entity:
        return True
    return bool(theirs.entity) and (mine.entity <= theirs.entity or theirs.entity <= mine.entity)


def _has_other_value(kind: ValueKind, mine: Profile, theirs: Profile) -> bool:
    new, old = mine.texts_of_kind(kind), theirs.texts_of_kind(kind)
    if not new or not old or set(new) & set(old):
        return False
    if kind == "quantity":
        return _units(new) == _units(old)
    if kind == "command":
        return mine.actions == theirs.actions
    if kind in {"path", "host", "url"}:
        return mine.states_location == theirs.states_location
    if kind == "version":
        my_names, their_names = _named_values(mine), _named_values(theirs)
        return bool(my_names & their_names) or (mine.named and theirs.named and not (my_names and their_names))
    return True


def _names_other_choice(mine: Profile, theirs: Profile, *, corrects: bool) -> bool:
    """Return whether they name another tool of the same category, or another name for the same place."""
    new = [value for value in mine.current_values if value.kind in {"name", "host", "identifier"}]
    old = [value for value in theirs.current_values if value.kind in {"name", "host", "identifier"}]
    if not new or not old or {value.text for value in new} & {value.text for value in old}:
        return False
    my_categories, their_categories = _categories(new[:1]), _categories(old[:1])
    if my_categories and their_categories:
        return bool(my_categories & their_categories) and (mine.states_location == theirs.states_location or corrects)
    if my_categories or their_categories:
        return False
    return (mine.states_location and theirs.states_location) or (corrects and mine.entity == theirs.entity)


def _categories(found: tuple[Value, ...] | list[Value]) -> frozenset[str]:
    return frozenset(name for value in found if (name := category(value)))


def _named_values(seen: Profile) -> frozenset[str]:
    return frozenset(value.text for value in seen.current_values if value.kind == "name")


def _units(found: tuple[str, ...]) -> set[str]:
    return {match.group().rstrip("s") if (match := _UNIT.search(text)) else "" for text in found}


# Versions: two values of one fact in different words, such as "my mark was 64%" and later "is 71% enough to pass?".
# The text does not say that the first value is outdated. Two texts are versions if both give a measure of one kind (and of
# the same noun, for counts) with different numbers, and are otherwise alike. The decision is a sum of log odds over the
# calibrated similarity of the texts, their shared words, the words only one of them has, words of change, and signs of
# two different things (another name, another sort of thing counted, a goal beside a result). The weights were fitted on
# labelled pairs, against statements of different people (docs/adr/0012).
#
# `find_denied` covers the case that one text says "never" to what the other states. A person decides which one holds.

# ruff: noqa: E501 (a pattern is read best on one line)


#: Log odds above which a text counts as a newer version.
MIN_NEWER_LOG_ODDS: Final = 0.2
_IMPOSSIBLE: Final = -9.0
#: Maximum characters of a text that are compared; a note may be a whole page.
_MAX_CHARS: Final = 2000
#: Weights of the features in `_pair_features`, in log odds.
_WEIGHTS: Final = {
    "always": -4.2,
    "similarity": 7.5,
    "shared": 1.65,
    "nothing shared": -3.2,
    "overlap": -3.3,
    "common": 0.65,
    "apart": -0.6,
    "contained": 0.8,
    "changed": 1.35,
    "same name": 0.8,
    "other name": -1.0,
    "day": -0.7,
    "duration": -1.6,
    "frequency": 0.8,
    "count": 1.1,
    "other sort": -7.8,
    "aim": -3.0,
    "other period": -3.0,
    "other person": -4.0,
    "besides": -2.5,
}
_COMMON_WORDS: Final = """
i'm good great best better well new recent recently current currently latest last first final early late just come coming upcoming
able get got getting go going worried anxious nervous make making made take taking took taken have having want wanting need help
try trying tried think thinking thought plan planning know feel feeling look looking find found give keep keeping start started
starting finish finished reach reached hit complete completed increase increased improve improved improvement reduce reduced extend
extended expand expanded adjust adjusted update updated reschedule rescheduled change changed schedule scheduled move moved set meet
meeting work working use using way thing lot bit day time week month year today tomorrow morning afternoon evening night date
deadline budget score rate number total amount average percent percentage count kinda actually really around about far people friend
goal progress result project per daily weekly monthly yearly quarterly approximately roughly almost nearly least part january february
march april june july august september october november december monday tuesday wednesday thursday friday saturday sunday include
including nouveau nouvelle dernier derniere prochain prochaine actuel actuelle fini finir commencer commence jour semaine mois fois
"""
#: Words that occur in every topic and alone do not identify one.
_COMMON: Final = frozenset(_COMMON_WORDS.split())
_CHANGED: Final = re.compile(
    r"\b(?:now|currently|new|newly|just|updated?|latest|recent(?:ly)?|rescheduled|extended|expanded|adjusted|increased|reduced|decreased|raised|lowered|moved|changed|improved|reached|up to|down to|already|again|so far|no longer|instead|revised|bumped|switched|actually"
    r"|shortened|postponed|pushed back|desormais|maintenant|nouveau|nouvelle|deja|passe a|reporte|augmente|reduit|ahora|nuevo|nueva|ya)\b"
)
_AIMS: Final = re.compile(
    r"\b(?:goals?|targets?|targeting|aim\w*|left|remaining|to go|plan to|want to|hope to|objectifs?|restants?|il reste)\b"
)
_ADJUSTED: Final = re.compile(
    r"\b(?:adjust\w*|chang\w*|updat\w*|revis\w*|reschedul\w*|extend\w*|expand\w*|increas\w*|rais\w*|lower\w*|reduc\w*|cut|bumped|moved|postponed|new|instead|modifi\w*|augment\w*|repouss\w*|report\w*)\b"
)
_NEVER: Final = re.compile(
    r"\b(?:i|we)(?:'ve| have|'d| had| has)? (?:actually |really |honestly )?(?:never(?: (?:actually|really|even|ever))?|haven't|have not|didn't|did not)\b"
    r"|\b(?:he|she|they)(?:'s| has|'ve| have) never\b|\bn'(?:ai|avons|a) (?:encore )?jamais\b|\bnunca (?:he|hemos)\b"
)
_MID_SENTENCE_NAME: Final = re.compile(r"(?<![.!?:] )(?<!^)\b(?!I\b|I'|The\b|A\b)[A-ZÀ-Ý][\w-]{2,}")
_CALENDAR: Final = re.compile(
    r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*$|(?i:(?:mon|tues|wednes|thurs|fri|satur|sun)day)$"
)
_SUFFIX: Final = re.compile(r"(?<=\w{3})(?:ings?|ed|ies|es|s|e|y|ment|ion|ions)$")
_IRREGULAR: Final = {
    "met": "meet", "meeting": "meet", "meetings": "meet", "went": "go", "got": "get", "bought": "buy", "took": "take", "taken": "take", "made": "make", "saw": "see", "seen": "see",
    "won": "win", "lost": "lose", "sold": "sell", "found": "find", "began": "begin", "begun": "begin", "built": "build", "written": "write", "wrote": "write", "taught": "teach",
    "wore": "wear", "worn": "wear", "ran": "run", "sent": "send", "spent": "spend", "left": "leave", "gave": "give", "given": "give", "kept": "keep", "felt": "feel", "paid": "pay",
    "planned": "plan", "led": "lead", "spoke": "speak", "spoken": "speak", "drove": "drive", "driven": "drive", "told": "tell", "said": "say", "ate": "eat", "eaten": "eat",
}  # fmt: skip
#: Words that mark an additional fact rather than a replacement.
_BESIDES: Final = re.compile(
    r"\b(?:also|another|as well|in addition|besides|aussi|egalement|un autre|une autre|tambien|otro|otra)\b"
)
#: The period of a figure: ten in a month and fifty in a year are two figures.
_PERIODS: Final = (
    ("day", re.compile(r"\b(?:a day|per day|daily|every day|each day|par jour|quotidien\w*)\b")),
    (
        "week",
        re.compile(
            r"\b(?:a week|per week|weekly|every week|in (?:one|a) week|this week|par semaine|cette semaine|hebdomadaire)\b"
        ),
    ),
    (
        "month",
        re.compile(r"\b(?:a month|per month|monthly|every month|months|this month|par mois|ce mois|mensuel\w*)\b"),
    ),
    (
        "year",
        re.compile(
            r"\b(?:a year|per year|yearly|annual\w*|every year|this year|the year|par an|cette annee|l'annee|annuel\w*)\b"
        ),
    ),
)
#: People other than the user whom a fact concerns.
_PEOPLE: Final = re.compile(
    r"\b(?:my|our|his|her|their|mon|ma|notre) (?:mom|mum|mother|dad|father|sister|brother|wife|husband|partner|girlfriend|boyfriend|friend|boss|manager|colleague|coworker|neighbou?r|roommate|son|daughter|niece|nephew|aunt|uncle|cousin|grandma|grandpa|grandmother|grandfather"
    r"|mere|pere|soeur|frere|femme|mari|ami|amie|chef|patron|collegue|voisine?|fils|fille|tante|oncle)\b"
)
#: Kinds that state instructions or tastes rather than facts; they have no versions.
_STANDING: Final = frozenset({"rule", "preference", "constraint"})
#: A text, and words for what it is about.
TextWithSubject = tuple[str, str]


class Version(Struct, frozen=True):
    """The comparable form of a text that states a fact.

    Attributes:
        measures: its measures, in order.
        topic: stems of its content words, without measures, common words and dates.
        common: stems of its common words.
        names: stems of the names in it.
        changed: whether it has words of change or of the present, which a first version lacks.
        aims: whether it gives a goal or what is left to do, rather than a state.
        adjusted: whether it says that something was adjusted.
        besides: whether it is marked as an additional fact ("also", "another").
        periods: the periods of its figures.
        people: relatives, friends and colleagues that it mentions.
        denied: stems after "never"; empty if it denies nothing.
    """

    measures: tuple[Measure, ...]
    topic: frozenset[str]
    common: frozenset[str]
    names: frozenset[str]
    changed: bool
    aims: bool
    adjusted: bool
    besides: bool
    periods: frozenset[str]
    people: frozenset[str]
    denied: frozenset[str]


def newer_version_of(statement: Statement, near: Sequence[Neighbour]) -> list[Memory]:
    """Return the memory of which the statement is a newer version, as a list of one, or an empty list."""
    odds = [
        (newer_version_log_odds(_statement_text(statement), _memory_text(n.memory), n.similarity), n.memory)
        for n in near
    ]
    best = max(odds, key=lambda pair: pair[0], default=None)
    is_versioned = statement.kind not in _STANDING and best is not None and best[1].kind not in _STANDING
    return [best[1]] if is_versioned and best and best[0] > MIN_NEWER_LOG_ODDS else []


def find_denied(statement: Statement, near: Sequence[Neighbour]) -> Memory | None:
    """Return the memory that denies what the statement states, or states what the statement denies; or None."""
    odds = [(denial_log_odds(_statement_text(statement), _memory_text(n.memory), n.similarity), n.memory) for n in near]
    best = max(odds, key=lambda pair: pair[0], default=None)
    is_versioned = statement.kind not in _STANDING and best is not None and best[1].kind not in _STANDING
    return best[1] if is_versioned and best and best[0] > 0 else None


def gives_other_measures(mine: str, theirs: str) -> bool:
    """Return whether two texts that otherwise agree give different measures of one kind."""
    new, old = version(mine), version(theirs)
    return any(
        _competes(new_measure, old_measure, new, old) for new_measure in new.measures for old_measure in old.measures
    )


def newer_version_log_odds(mine: TextWithSubject, theirs: TextWithSubject, similarity: float) -> float:
    """Return the log odds that `mine` is a newer version of `theirs`."""
    new, old = version(*mine), version(*theirs)
    if new.denied or old.denied:
        return _IMPOSSIBLE
    return max((_odds(pair_features, similarity) for pair_features in version_features(new, old)), default=_IMPOSSIBLE)


def _odds(features: dict[str, float], similarity: float) -> float:
    return _WEIGHTS["similarity"] * similarity + sum(_WEIGHTS[name] * sign for name, sign in features.items())


def version_features(new: Version, old: Version) -> list[dict[str, float]]:
    """Return the features of each pair of competing measures."""
    return [_pair_features(a, b, new, old) for a in new.measures for b in old.measures if _competes(a, b, new, old)]


def denial_log_odds(mine: TextWithSubject, theirs: TextWithSubject, similarity: float) -> float:
    """Return the log odds that one text denies what the other states."""
    new, old = version(*mine), version(*theirs)
    if bool(new.denied) == bool(old.denied):
        return _IMPOSSIBLE
    denied, stating = (new.denied, old) if new.denied else (old.denied, new)
    shared = denied & (stating.topic | stating.common | stating.names)
    if len(shared) < 2:
        return _IMPOSSIBLE
    return 2.0 * len(shared) / len(denied) + 0.5 * len(shared) + 4.0 * similarity - 3.0


@lru_cache(maxsize=4096)
def version(text: str, context: str = "") -> Version:
    """Return the `Version` of a text; `context` holds words for its subject that are not in it."""
    text = text[:_MAX_CHARS]
    plain, found = fold(text), measures(text)
    bare = plain
    for measure in found:
        end = (
            measure.end
            if measure.kind != "count"
            else measure.start + len(re.split(r"[ -]", plain[measure.start : measure.end])[0])
        )
        bare = bare[: measure.start] + " " * (end - measure.start) + bare[end:]
    stems = {stem(word): word in _COMMON for word in (*content(bare), *context.split()) if not word.isdigit()}
    denied = _NEVER.search(plain)
    return Version(
        measures=found,
        topic=frozenset(word for word, common in stems.items() if not common),
        common=frozenset(word for word, common in stems.items() if common),
        names=frozenset(stem(fold(name)) for name in _MID_SENTENCE_NAME.findall(text) if not _CALENDAR.match(name)),
        changed=_CHANGED.search(plain) is not None,
        aims=_AIMS.search(plain) is not None,
        adjusted=_ADJUSTED.search(plain) is not None,
        besides=_BESIDES.search(plain) is not None,
        periods=frozenset(name for name, words in _PERIODS if words.search(plain)),
        people=frozenset(found.group().split()[1] for found in _PEOPLE.finditer(plain)),
        denied=frozenset(stem(word) for word in content(plain[denied.end() :])) if denied else frozenset(),
    )


def stem(word: str) -> str:
    """Return a word without endings of number and tense, crudely: `missing`, `missed` and `miss` are equal."""
    return _SUFFIX.sub("", _IRREGULAR.get(word, word))


def _statement_text(statement: Statement) -> TextWithSubject:
    return statement.text, statement.subject


def _memory_text(memory: Memory) -> TextWithSubject:
    return memory.text, memory.subject


def _competes(mine: Measure, theirs: Measure, new: Version, old: Version) -> bool:
    """Return whether two measures may be two values of one fact."""
    if mine.kind != theirs.kind or mine.value == theirs.value:
        return False
    stated_measures = ({(m.kind, m.value) for m in new.measures}, {(m.kind, m.value) for m in old.measures})
    if (theirs.kind, theirs.value) in stated_measures[0] or (mine.kind, mine.value) in stated_measures[1]:
        return False
    if mine.kind == "ratio":
        return mine.of == theirs.of
    if mine.kind != "count":
        return True
    my_stems, their_stems = _stems(mine), _stems(theirs)
    if my_stems and their_stems:
        return bool(my_stems & their_stems)
    context = (new.topic | new.common) if their_stems else (old.topic | old.common)
    return bool((my_stems | their_stems) & context)


def _pair_features(mine: Measure, theirs: Measure, new: Version, old: Version) -> dict[str, float]:
    """Return the features for and against `mine` being the newer value of `theirs`."""
    shared = new.topic & old.topic
    my_stems, their_stems = _stems(mine), _stems(theirs)
    return {
        "always": 1.0,
        "shared": min(3, len(shared)),
        "nothing shared": not shared,
        "overlap": len(shared) / max(1, len(new.topic | old.topic)),
        "common": min(2, len(new.common & old.common)),
        "apart": min(3, len(new.topic - old.topic), len(old.topic - new.topic)),
        "contained": len(shared) >= 2 and new.topic <= old.topic,
        "changed": new.changed,
        "same name": bool(new.names & old.names),
        "other name": bool(new.names and old.names and not new.names & old.names),
        "day": mine.kind in {"date", "time"},
        "duration": mine.kind == "duration",
        "frequency": mine.kind == "frequency",
        "count": mine.kind == "count",
        # Each counts a sort of the same thing that the other does not: work hours, holiday hours.
        "other sort": mine.kind == "count" and bool(my_stems - their_stems) and bool(their_stems - my_stems),
        "aim": new.aims != old.aims and not new.adjusted,
        "besides": new.besides,
        "other period": bool(new.periods and old.periods and not new.periods & old.periods),
        "other person": new.people != old.people and not new.people & old.people,
    }


def _stems(counted: Measure) -> frozenset[str]:
    return frozenset(stem(word) for word in counted.of)
