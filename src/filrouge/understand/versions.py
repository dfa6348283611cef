# ruff: noqa: E501 (a pattern is read best on one line)
"""Two versions of one thing, told in different words: "my score was 68%", later "is a 72% score good?".

Nobody says that the first no longer holds. What gives it away: both give a measure of the same kind, of the same noun
where something is counted, with different numbers; both speak of the same topic; and nothing says that they are about two
things (another name, another ordinal). The newer one wins. `denies` is the other case: one says "never" about what the
other tells, and which of them holds is for a person to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from filrouge.understand.measures import Measure, measures
from filrouge.understand.words import canonical, content, fold, tokens

_COMMON_WORDS: Final = """
i'm good great best better well new recent recently current currently latest last first next final next early late just get got getting go going
make making made take taking took taken have having want wanting need help try trying tried think thinking thought plan planning
know feel feeling look looking find found give keep keeping start started starting finish finished reach reached hit complete
completed increase increased improve improved improvement reduce reduced extend extended expand expanded adjust adjusted update updated
reschedule rescheduled change changed schedule scheduled move moved set meet meeting work working use using way thing lot bit day
time week month year today tomorrow morning afternoon evening night date deadline budget score rate number total amount average
percent percentage count kinda actually really around about far currently people friend goal progress result project
year per daily weekly monthly yearly quarterly approximately roughly almost nearly least part january february march april june july
august september october november december monday tuesday wednesday thursday friday saturday sunday include including
nouveau nouvelle dernier derniere prochain prochaine actuel actuelle fini finir commencer commence jour semaine mois fois
"""
#: Words of every topic: alone they say nothing of what a sentence is about.
_COMMON: Final = frozenset(_COMMON_WORDS.split())
_CHANGED: Final = re.compile(
    r"\b(?:now|currently|new|newly|just|updated?|latest|recent(?:ly)?|most recent|rescheduled|extended|expanded|adjusted|increased|reduced|decreased|raised|lowered|moved|changed|improved|reached|up to|down to|already|again|so far|no longer|instead|revised|bumped|switched|actually"
    r"|shortened|postponed|pushed back|desormais|maintenant|nouveau|nouvelle|deja|passe a|reporte|augmente|reduit|ahora|nuevo|nueva|ya)\b"
)
_AIMS: Final = re.compile(
    r"\b(?:goals?|targets?|targeting|aim\w*|left|remaining|to go|plan to|want to|hope to|objectifs?|restants?|il reste)\b"
)
_ADJUSTED: Final = re.compile(
    r"\b(?:adjust\w*|chang\w*|updat\w*|revis\w*|reschedul\w*|extend\w*|expand\w*|increas\w*|rais\w*|lower\w*|reduc\w*|cut|bumped|moved|postponed|new|instead|modifi\w*|augment\w*|repouss\w*|report\w*)\b"
)
_NEVER: Final = re.compile(r"\b(?:never|haven't|have not|didn't|did not|don't|do not|jamais|nunca)\b")
_NAME: Final = re.compile(r"(?<![.!?:] )(?<!^)\b(?!I\b|I'|The\b|A\b)[A-ZÀ-Ý][\w-]{2,}")
_NOT_NAMES: Final = re.compile(
    rf"(?i:january|february|march|april|may|june|july|august|september|october|november|december|(?:mon|tues|wednes|thurs|fri|satur|sun)day)$"
)
_SUFFIX: Final = re.compile(r"(?<=\w{3})(?:ings?|ed|ies|es|s|e|y|ment|ion|ions)$")


@dataclass(frozen=True, slots=True)
class Version:
    """What a text says of how things stand.

    Attributes:
        topic: stems of its content words, without measures, common words and dates.
        common: stems of its common words.
        names: stems of the names in it.
        changed: words of change or of the present: it is not the first version.
        aims: it gives a goal, or what is left to do, rather than how things stand.
        adjusted: it says that something was set anew.
        denied: stems after "never"; empty where nothing is denied.
    """

    measures: tuple[Measure, ...]
    topic: frozenset[str]
    common: frozenset[str]
    names: frozenset[str]
    changed: bool
    aims: bool
    adjusted: bool
    denied: frozenset[str]


@lru_cache(maxsize=4096)
def version(text: str) -> Version:
    """The comparable side of a text."""
    plain, found = fold(text), measures(text)
    blank = list(plain)
    for one in found:
        counted = (
            plain[one.start : one.end]
            if one.kind not in {"count"}
            else re.match(r"\S+?(?=[ -]|$)", plain[one.start :])[0]
        )  # pyright: ignore
        blank[one.start : one.start + len(counted)] = " " * len(counted)
    words = [word for word in content("".join(blank)) if not word.isdigit()]
    stems = {stem(word): word in _COMMON for word in words}
    denied = _NEVER.search(plain)
    return Version(
        measures=found,
        topic=frozenset(word for word, common in stems.items() if not common),
        common=frozenset(word for word, common in stems.items() if common),
        names=frozenset(stem(fold(name)) for name in _NAME.findall(text) if not _NOT_NAMES.match(name)),
        aims=_AIMS.search(plain) is not None,
        adjusted=_ADJUSTED.search(plain) is not None,
        changed=_CHANGED.search(plain) is not None,
        denied=frozenset(stem(word) for word in content(plain[denied.end() :])) if denied else frozenset(),
    )


def stem(word: str) -> str:
    """A word without the endings of number and tense, crudely: `missing`, `missed` and `miss` are one."""
    known = _IRREGULAR.get(word, word)
    return _SUFFIX.sub("", known)


def is_newer_version(mine: str, theirs: str, similarity: float) -> float:
    """How surely `mine` is a newer version of `theirs`: above 0 when it is, in log odds."""
    new, old = version(mine), version(theirs)
    if new.denied or old.denied:
        return -9.0
    rivals = [_odds(a, b, new, old) for a in new.measures for b in old.measures if _competes(a, b, new, old)]
    return max(rivals) + _WEIGHTS["similarity"] * similarity if rivals else -9.0


def _competes(one: Measure, other: Measure, new: Version, old: Version) -> bool:
    """True when two measures may be two values of one thing."""
    if one.kind != other.kind or one.value == other.value:
        return False
    olds = {(m.kind, m.value) for m in old.measures}
    if (one.kind, one.value) in olds or (other.kind, other.value) in {(m.kind, m.value) for m in new.measures}:
        return False
    if one.kind == "count":
        ours, known = {stem(word) for word in one.of}, {stem(word) for word in other.of}
        if ours and known:
            return bool(ours & known)
        said = (new.topic | new.common) if known else (old.topic | old.common)
        return bool((ours | known) & said)
    if one.kind == "ratio":
        return one.of == other.of
    return True


def _odds(one: Measure, other: Measure, new: Version, old: Version) -> float:
    """What the words say for `one` being the newer value of `other`, in log odds, without the similarity."""
    shared = new.topic & old.topic
    apart = min(len(new.topic - old.topic), len(old.topic - new.topic))
    signs: dict[str, float] = {
        "none": 1.0,
        "shared": min(3, len(shared)),
        "nothing shared": not shared,
        "overlap": len(shared) / max(1, len(new.topic | old.topic)),
        "common": min(2, len(new.common & old.common)),
        "apart": min(3, apart),
        "changed": new.changed,
        "other name": bool(new.names and old.names and not new.names & old.names),
        "day": one.kind in {"date", "time"},
        "duration": one.kind == "duration",
        "count": one.kind == "count",
        "other sort": one.kind == "count" and _differ(one, other),
        "aim": new.aims != old.aims and not new.adjusted,
    }
    return sum(_WEIGHTS[name] * sign for name, sign in signs.items())


def _differ(one: Measure, other: Measure) -> bool:
    """True when each counts a sort of the same thing that the other does not: work hours, holiday hours."""
    ours, known = {stem(word) for word in one.of}, {stem(word) for word in other.of}
    return bool(ours - known) and bool(known - ours)


def denies(mine: str, theirs: str) -> float:
    """How much of what one text says never happened the other tells; 0 when none denies."""
    new, old = version(mine), version(theirs)
    if bool(new.denied) == bool(old.denied):
        return 0.0
    denied, told = (new.denied, old) if new.denied else (old.denied, new)
    said = told.topic | told.common | told.names
    rare = {word for word in denied if word in said}
    return len(rare) / len(denied) if len(rare) >= 2 else 0.0


_WEIGHTS: Final = {
    "none": -4.2,
    "similarity": 7.5,
    "shared": 1.65,
    "nothing shared": -1.9,
    "overlap": -3.3,
    "common": 0.65,
    "apart": -0.6,
    "changed": 1.35,
    "other name": -1.0,
    "day": -0.7,
    "duration": -0.5,
    "count": 1.1,
    "other sort": -7.8,
    "aim": -3.0,
}
_IRREGULAR: Final = {
    "met": "meet", "meeting": "meet", "meetings": "meet", "went": "go", "got": "get", "bought": "buy", "took": "take", "taken": "take", "made": "make", "saw": "see", "seen": "see",
    "won": "win", "lost": "lose", "sold": "sell", "found": "find", "began": "begin", "begun": "begin", "built": "build", "written": "write", "wrote": "write", "taught": "teach",
    "wore": "wear", "worn": "wear", "ran": "run", "sent": "send", "spent": "spend", "left": "leave", "gave": "give", "given": "give", "kept": "keep", "felt": "feel", "paid": "pay",
    "planned": "plan", "led": "lead", "spoke": "speak", "spoken": "speak", "drove": "drive", "driven": "drive", "told": "tell", "said": "say", "ate": "eat", "eaten": "eat",
}  # fmt: skip
