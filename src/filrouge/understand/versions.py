# ruff: noqa: E501 (a pattern is read best on one line)
"""Two versions of one thing, told in different words: "my mark was 64%", later "is 71% enough to pass?".

Nobody says that the first no longer holds. What gives it away: both give a measure of one kind, of the same noun where
something is counted, with different numbers, and everything else about them is alike. How alike is a sum of signs in log
odds: the calibrated similarity of the two texts, the words they share, the words that each has alone, words of change,
and what tells two things apart (another name, another sort of what is counted, a goal beside a result). The weights were
fitted on pairs of which it is known, against statements of different people (docs/adr/0012). A wrong supersede hides
what is true, a missed one leaves an old value beside the new, so the odds must be for it.

`denial` is the other case: one says "never" about what the other tells, and which of them holds is for a person to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from filrouge import lazy_re as re
from filrouge.model.decision import Neighbour
from filrouge.model.memory import Memory, Statement
from filrouge.understand.measures import Measure, measures
from filrouge.understand.words import content, fold

#: Log odds above which one of two is taken for a newer version.
SURE: Final = 0.2
_NO: Final = -9.0
#: Characters of a text that are compared: a note may be a page.
_LONGEST: Final = 2000
#: Of the signs of `_signs`, in log odds.
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
#: Words of every topic: alone they say nothing of what a sentence is about.
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
_NAME: Final = re.compile(r"(?<![.!?:] )(?<!^)\b(?!I\b|I'|The\b|A\b)[A-ZÀ-Ý][\w-]{2,}")
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
#: It stands beside what was told before, not in its place.
_BESIDES: Final = re.compile(
    r"\b(?:also|another|as well|in addition|besides|aussi|egalement|un autre|une autre|tambien|otro|otra)\b"
)
#: What a figure is for: ten in a month and fifty in a year are two figures.
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
#: Whose affair it is, where it is not the user's own.
_PEOPLE: Final = re.compile(
    r"\b(?:my|our|his|her|their|mon|ma|notre) (?:mom|mum|mother|dad|father|sister|brother|wife|husband|partner|girlfriend|boyfriend|friend|boss|manager|colleague|coworker|neighbou?r|roommate|son|daughter|niece|nephew|aunt|uncle|cousin|grandma|grandpa|grandmother|grandfather"
    r"|mere|pere|soeur|frere|femme|mari|ami|amie|chef|patron|collegue|voisine?|fils|fille|tante|oncle)\b"
)
#: What was ordered or liked is no account of how things stand.
_STANDING: Final = frozenset({"rule", "preference", "constraint"})
#: A text, and words for what it is about.
Said = tuple[str, str]


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
        besides: it is told as one thing more.
        periods: spans of time that its figures are for.
        people: relatives, friends and colleagues that it speaks of.
        denied: stems after "never"; empty where nothing is denied.
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
    """The one memory that the statement is a newer version of, or none."""
    odds = [(is_newer_version(_stated(statement), _said(n.memory), n.similarity), n.memory) for n in near]
    best = max(odds, key=lambda one: one[0], default=None)
    told = statement.kind not in _STANDING and best is not None and best[1].kind not in _STANDING
    return [best[1]] if told and best and best[0] > SURE else []


def denial(statement: Statement, near: Sequence[Neighbour]) -> Memory | None:
    """The memory that says never what the statement tells, or tells what the statement says never was."""
    odds = [(denies(_stated(statement), _said(n.memory), n.similarity), n.memory) for n in near]
    best = max(odds, key=lambda one: one[0], default=None)
    told = statement.kind not in _STANDING and best is not None and best[1].kind not in _STANDING
    return best[1] if told and best and best[0] > 0 else None


def gives_other_measures(mine: str, theirs: str) -> bool:
    """True when two texts that may say the same do not give the same measures of one kind."""
    new, old = version(mine), version(theirs)
    return any(_competes(one, other, new, old) for one in new.measures for other in old.measures)


def is_newer_version(mine: Said, theirs: Said, similarity: float) -> float:
    """The log odds that `mine` is a newer version of `theirs`."""
    new, old = version(*mine), version(*theirs)
    if new.denied or old.denied:
        return _NO
    return max((_odds(one, similarity) for one in signs(new, old)), default=_NO)


def _odds(told: dict[str, float], similarity: float) -> float:
    return _WEIGHTS["similarity"] * similarity + sum(_WEIGHTS[name] * sign for name, sign in told.items())


def signs(new: Version, old: Version) -> list[dict[str, float]]:
    """For every two measures that compete: what the words say for the newer being another value of the same."""
    return [_signs(a, b, new, old) for a in new.measures for b in old.measures if _competes(a, b, new, old)]


def denies(mine: Said, theirs: Said, similarity: float) -> float:
    """The log odds that one text says never what the other tells."""
    new, old = version(*mine), version(*theirs)
    if bool(new.denied) == bool(old.denied):
        return _NO
    denied, told = (new.denied, old) if new.denied else (old.denied, new)
    shared = denied & (told.topic | told.common | told.names)
    if len(shared) < 2:
        return _NO
    return 2.0 * len(shared) / len(denied) + 0.5 * len(shared) + 4.0 * similarity - 3.0


@lru_cache(maxsize=4096)
def version(text: str, context: str = "") -> Version:
    """The comparable side of a text; `context` are words for what it is about that are not in it."""
    text = text[:_LONGEST]
    plain, found = fold(text), measures(text)
    bare = plain
    for one in found:
        end = one.end if one.kind != "count" else one.start + len(re.split(r"[ -]", plain[one.start : one.end])[0])
        bare = bare[: one.start] + " " * (end - one.start) + bare[end:]
    stems = {stem(word): word in _COMMON for word in (*content(bare), *context.split()) if not word.isdigit()}
    denied = _NEVER.search(plain)
    return Version(
        measures=found,
        topic=frozenset(word for word, common in stems.items() if not common),
        common=frozenset(word for word, common in stems.items() if common),
        names=frozenset(stem(fold(name)) for name in _NAME.findall(text) if not _CALENDAR.match(name)),
        changed=_CHANGED.search(plain) is not None,
        aims=_AIMS.search(plain) is not None,
        adjusted=_ADJUSTED.search(plain) is not None,
        besides=_BESIDES.search(plain) is not None,
        periods=frozenset(name for name, words in _PERIODS if words.search(plain)),
        people=frozenset(found.group().split()[1] for found in _PEOPLE.finditer(plain)),
        denied=frozenset(stem(word) for word in content(plain[denied.end() :])) if denied else frozenset(),
    )


def stem(word: str) -> str:
    """A word without the endings of number and tense, crudely: `missing`, `missed` and `miss` are one."""
    return _SUFFIX.sub("", _IRREGULAR.get(word, word))


def _stated(statement: Statement) -> Said:
    return statement.text, statement.subject


def _said(memory: Memory) -> Said:
    return memory.text, memory.subject


def _competes(one: Measure, other: Measure, new: Version, old: Version) -> bool:
    """True when two measures may be two values of one thing."""
    if one.kind != other.kind or one.value == other.value:
        return False
    given = ({(m.kind, m.value) for m in new.measures}, {(m.kind, m.value) for m in old.measures})
    if (other.kind, other.value) in given[0] or (one.kind, one.value) in given[1]:
        return False
    if one.kind == "ratio":
        return one.of == other.of
    if one.kind != "count":
        return True
    ours, known = _stems(one), _stems(other)
    if ours and known:
        return bool(ours & known)
    said = (new.topic | new.common) if known else (old.topic | old.common)
    return bool((ours | known) & said)


def _signs(one: Measure, other: Measure, new: Version, old: Version) -> dict[str, float]:
    """What the words say for or against `one` being the newer value of `other`."""
    shared = new.topic & old.topic
    ours, known = _stems(one), _stems(other)
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
        "day": one.kind in {"date", "time"},
        "duration": one.kind == "duration",
        "frequency": one.kind == "frequency",
        "count": one.kind == "count",
        # each counts a sort of the same thing that the other does not: work hours, holiday hours
        "other sort": one.kind == "count" and bool(ours - known) and bool(known - ours),
        "aim": new.aims != old.aims and not new.adjusted,
        "besides": new.besides,
        "other period": bool(new.periods and old.periods and not new.periods & old.periods),
        "other person": new.people != old.people and not new.people & old.people,
    }


def _stems(counted: Measure) -> frozenset[str]:
    return frozenset(stem(word) for word in counted.of)
