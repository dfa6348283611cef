# ruff: noqa: E501 (a pattern is read best on one line)
"""Measures: the amounts, dates, shares and counts that a sentence gives of something, comparable between sentences.

People tell how things stand by numbers: a mark of 81 %, a third novel, two free evenings, a train at 5:10 PM. A measure
is such a number with what it counts, in one form whether it was written `3`, `three` or `third`. Two sentences about
one thing whose measures of one kind differ are two versions of it; that is all that `versions` needs to know.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from filrouge import lazy_re as re
from filrouge.understand.words import STOP, canonical, fold

MeasureKind = Literal["percent", "money", "date", "time", "ratio", "size", "duration", "frequency", "count"]


@dataclass(frozen=True, slots=True)
class Measure:
    """One number and what it is a number of.

    Attributes:
        value: the number in one form: `3`, `68`, `3-22` for a day of a year, `4/5`, `6-9`.
        of: the folded nouns that are counted, the head last; empty where the kind says it all.
        start, end: where it stands in the text, the counted nouns included.
    """

    kind: MeasureKind
    value: str
    of: tuple[str, ...]
    start: int
    end: int


_SMALL: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty",
    "zero un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize",
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
)
_ORDINALS: Final = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth",
    "- premier deuxieme troisieme quatrieme cinquieme sixieme septieme huitieme neuvieme dixieme",
    "- premiere seconde",
    "- primero segundo tercero cuarto quinto sexto",
)
_NUMBERS: Final = {
    word: str(number)
    for line in (*_SMALL, *_ORDINALS)
    for number, word in enumerate(line.split())
    if word not in {"-", "un", "uno", "once", "seconde"}
} | {
    "une": "1",
    "single": "1",
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "hundred": "100",
    "trente": "30",
}
_TIMES: Final = {"once": "1", "twice": "2", "thrice": "3"}
_MONTH_NAMES: Final = (
    "january february march april may june july august september october november december",
    "jan feb mar apr may jun jul aug sept oct nov dec",
    "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
)
_MONTHS: Final = {name: number for line in _MONTH_NAMES for number, name in enumerate(line.split(), 1)} | {"sep": 9}
_MONTH: Final = rf"(?:{'|'.join(sorted(_MONTHS, key=len, reverse=True))})"
_WEEKDAY: Final = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:lun|mar|mercre|jeu|vendre|same)di|dimanche|lunes|martes|miercoles|jueves|viernes|sabado|domingo)"
_DIGITS: Final = r"\d+(?:[ ,]\d{3})*(?:\.\d+)?"
_WORDED: Final = rf"(?:{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_NUMBER: Final = rf"(?:{_DIGITS}|{_WORDED})"
_CARDINAL: Final = rf"{_DIGITS}|single|{'|'.join(sorted((word for word in _NUMBERS if word not in ' '.join(_ORDINALS).split()), key=len, reverse=True))}"
_CLOCK: Final = {
    "ms": "ms", "millisecond": "ms", "milliseconde": "ms", "s": "second", "sec": "second", "second": "second", "seconde": "second",
    "min": "minute", "minute": "minute", "minuto": "minute", "h": "hour", "hr": "hour", "hour": "hour", "heure": "hour", "hora": "hour",
    "day": "day", "jour": "day", "dia": "day", "week": "week", "semaine": "week", "semana": "week", "month": "month", "mois": "month",
    "mes": "month", "year": "year", "an": "year", "annee": "year", "ano": "year",
}  # fmt: skip
_ADVERBS: Final = {
    "dai": "day",
    "wee": "week",
    "mon": "month",
    "yea": "year",
    "quo": "day",
    "heb": "week",
    "men": "month",
}
_PERIOD: Final = rf"(?:{'|'.join(sorted(_CLOCK, key=len, reverse=True))})s?"
_PER: Final = r"(?:a|an|per|each|every|par|chaque|al|por|a la|/)"
#: Ends what is counted: "31 stamps | in my album", "six crates | at the moment".
_NOT_COUNTED_WORDS: Final = """
now already currently so far left yet each either today yesterday tomorrow tonight again back well long old new ago later
earlier more less total since starting during while until before after dans sur de des du par pour avec how what when who why can could would should will did does
""" + " ".join(STOP - {"same", "other"})
_NOT_COUNTED: Final = frozenset(_NOT_COUNTED_WORDS.split()) | _NUMBERS.keys() | _MONTHS.keys()
#: "the other two bikes", "three more": a part of what there is.
_PARTLY: Final = re.compile(r"\b(?:other|another|additional|extra|autres?|otros|otras) $")
_SOME_MORE: Final = frozenset("other another additional extra autre otro otra".split())
_WORD: Final = re.compile(r"[a-z][a-z'-]*")
#: In this order: the first to claim a stretch of characters keeps it. Patterns read folded text.
_WRITTEN: Final[tuple[tuple[MeasureKind, str], ...]] = (
    ("percent", rf"(?P<n>{_DIGITS}) ?(?:%|percent\b|per cent\b|pour cent\b|por ciento\b)"),
    ("money", rf"[$€£] ?(?P<n>{_DIGITS}k?)\b"),
    ("money", rf"\b(?P<n>{_DIGITS}k?) ?(?:€|euros?\b|dollars?\b|eur\b|usd\b|pounds?\b|bucks\b)"),
    ("date", rf"\b(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)(?:,? (?P<year>\d{{4}})\b)?"),
    ("date", rf"\b(?P<day>\d{{1,2}})(?:er|st|nd|rd|th)? (?:of |de )?(?P<month>{_MONTH})\b(?: (?:de )?(?P<year>\d{{4}})\b)?"),
    ("date", r"\b\d{4}-(?P<month>\d\d)-(?P<day>\d\d)\b"),
    ("time", r"\b(?P<h>\d{1,2})(?:[:h](?P<m>\d\d))? ?(?P<half>[ap]\.?m\b\.?)"),
    ("time", r"\b(?P<h>\d{1,2})(?::(?P<m>\d\d)\b|h(?P<m2>\d\d)?\b)"),
    ("ratio", rf"\b(?P<n>{_DIGITS}) ?(?:/|out of|sur) ?(?P<of>\d+)\b"),
    ("frequency", rf"\b(?:(?P<n>once|twice|thrice)|(?P<n2>{_NUMBER}) (?:times|fois|veces)) {_PER} (?P<per>{_PERIOD})\b"),
    ("frequency", rf"\b(?:every|each) (?:(?P<n3>{_NUMBER}) )?(?P<per>{_PERIOD})\b|\b(?:tous|toutes) les (?:(?P<n4>{_NUMBER}) )?(?P<per2>{_PERIOD})\b"),
    ("frequency", rf"\b(?:every other|un (?:jour|mois) sur deux|une semaine sur deux) ?(?P<other>{_PERIOD})?\b"),
    ("frequency", r"\b(?P<adverb>daily|weekly|monthly|yearly|quotidien\w*|hebdomadaires?|mensuel\w*)\b(?= [a-z]+ing\b| \w+ (?:sessions?|class(?:es)?|lessons?|meetings?)| (?:sessions?|class(?:es)?|lessons?|meetings?))"),
    ("frequency", rf"\bon (?P<days>{_WEEKDAY}s?(?:(?:, (?:and )?| and ){_WEEKDAY}s?)+)"),
    ("size", rf"\b(?P<n>{_DIGITS}) ?(?P<unit>[kmgt]i?b|[kmgt]o|km|kg|lbs?|mph|ml|rpm|qps)\b"),
    ("duration", rf"(?<![\w.$€£/])(?!(?:19|20)\d0s\b|[2-9]0s\b(?! (?:timeout|delay|interval)))(?P<n>{_NUMBER}(?: ?(?:-|to|a|and) ?{_NUMBER})?)(?:[ -]|(?<=\d))(?:(?:full|whole|entire|straight|consecutive|additional|extra|more) )?(?P<unit>{_PERIOD})\b(?! old\b)"),
)  # fmt: skip
_PATTERNS: Final[tuple[tuple[MeasureKind, re.Pattern[str]], ...]] = tuple(
    (kind, re.compile(pattern)) for kind, pattern in _WRITTEN
)
_ORDINAL: Final = rf"\d+(?:st|nd|rd|th|e|eme)|{'|'.join(word for line in _ORDINALS for word in line.split()[1:])}"
#: An ordinal counts only what one has come to: "my third novel"; "the first chapter" is a name.
_NTH: Final = re.compile(rf"\b(?:my|our|his|her|their|mon|ma|notre|mi) (?P<n>{_ORDINAL})\b(?= [a-z])")
_COUNT: Final = re.compile(
    rf"(?<![\w.$€£/:%-])(?P<n>(?:{_CARDINAL})(?:(?:-| to | a )(?:{_CARDINAL}))?)(?P<plus>\+?)(?= |-[a-z])"
)
_NUMBERED: Final = re.compile(
    r"\b(?P<noun>episode|chapter|level|lesson|page|week|day|module|unit|season|volume|book|grade|chapitre|niveau|lecon) (?P<n>\d+)\b"
)
#: What is told apart by numbers: "customer 29 listens" counts no listens. Where one has come to (level, chapter) is
#: `_NUMBERED`, and where something is ("on server 3") may change.
_LABELLED: Final = re.compile(
    r"(?<!\bin )(?<!\bat )(?<!\bon )(?<!\bto )(?<!\binto )(?<!\bfrom )(?<!\bdans )(?<!\ben )(?<!\bsur )(?<!\bau )(?<!\bvers )\b(?P<noun>account|apartment|bay|berth|building|bus|cabin|camera|casier|client|compte|crew|customer|desk|device|district|equipe|floor|gate|group|groupe|hall|host|invoice|issue|job|locker|machine|node|order|platform|pod|rack|region|replica"
    r"|room|route|salle|seat|sector|sensor|server|serveur|service|shard|shelf|table|team|tenant|ticket|usuario|user|utilisateur|worker|zone|cliente|commande|facture|noeud|tache|task) (?:no\.? ?|n° ?|#)?(?P<n>\d+)\b(?![.,:]\d)"
)
#: "my album, currently 31", "we are close to 900 now": a bare number, of something said elsewhere in the sentence.
_BARE: Final = re.compile(
    rf"\b(?:(?:increased|risen|grown|grew|gone up|gone down|dropped|fallen|reduced|changed|adjusted|updated|passe|passee?s?|monte|descendu\w*) (?:to|a)|currently|now|now at|total of|up to|close to|around|about|reached|reach|hit|at) (?P<n>{_NUMBER})(?=\s*(?:[,.;!?)]|$)|\s+(?:now|already|so far|and|but|right)\b)(?![.:]\d)"
)
_MET: Final = re.compile(r"\b(?P<n>once|twice|thrice)\b|\b(?P<n2>" + _NUMBER + r") (?:times|fois|veces)\b")


@lru_cache(maxsize=4096)
def measures(text: str) -> tuple[Measure, ...]:
    """Every measure of a text, in order, none overlapping."""
    plain = fold(text)
    taken = _names(plain)
    found: list[Measure] = []

    def claim(kind: MeasureKind, value: str, of: tuple[str, ...], start: int, end: int) -> None:
        if start < end and not any(taken[start:end]):
            taken[start:end] = b"\x01" * (end - start)
            found.append(Measure(kind, value, of, start, end))

    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(plain):
            claim(kind, *_read(kind, match), *match.span())
    for match in _NUMBERED.finditer(plain):
        claim("count", match["n"], (canonical(match["noun"]),), *match.span())
    for match in (*_NTH.finditer(plain), *_COUNT.finditer(plain)):
        of, end = _counted(plain, match.end())
        if (
            of
            and not _PARTLY.search(plain, 0, match.start())
            and of[0] not in _SOME_MORE
            and not 1900 <= _as_int(match["n"]) <= 2100
        ):
            claim("count", _number(match["n"]), of, match.start("n"), end)
    for match in _BARE.finditer(plain):
        claim("count", _number(match["n"]), (), *match.span("n"))
    for match in _MET.finditer(plain):
        value = _TIMES.get(match["n"] or "") or _number(match["n2"])
        claim("count", value, ("time",), *match.span())
    return tuple(sorted(found, key=lambda one: one.start))


def of_two_things(one: str, other: str) -> bool:
    """True where each text names a thing by a number, the same sort of thing and none in common: customer 28, customer 29."""
    mine, theirs = _labels(one), _labels(other)
    return not mine & theirs and bool({noun for noun, _ in mine} & {noun for noun, _ in theirs})


def _names(plain: str) -> bytearray:
    """Ones where a number is a name."""
    taken = bytearray(len(plain))
    for match in _LABELLED.finditer(plain):
        taken[match.start("n") : match.end("n")] = b"\x01" * len(match["n"])
    return taken


@lru_cache(maxsize=4096)
def _labels(text: str) -> frozenset[tuple[str, str]]:
    return frozenset((canonical(match["noun"]), match["n"]) for match in _LABELLED.finditer(fold(text)))


def _read(kind: MeasureKind, match: re.Match[str]) -> tuple[str, tuple[str, ...]]:
    given = match.groupdict()
    if kind == "date":
        month = given["month"] or ""
        return f"{_MONTHS.get(month) or int(month)}-{int(given['day'] or 0)}", ()
    if kind == "time":
        hour = int(given["h"] or 0) + (12 if (given.get("half") or "").startswith("p") and given["h"] != "12" else 0)
        return f"{hour}:{given.get('m') or given.get('m2') or '00'}", ()
    if kind == "ratio":
        return f"{_number(given['n'] or '')}/{given['of']}", (given["of"] or "",)
    if kind == "frequency":
        if given.get("days"):
            return f"{len(re.findall(_WEEKDAY, given['days'] or ''))} week", ()
        if given.get("adverb"):
            return f"1 {_ADVERBS[(given['adverb'] or '')[:3]]}", ()
        if "per" not in given and "per2" not in given:
            return f"1 in 2 {_period(given.get('other') or 'week')}", ()
        times = given.get("n") or given.get("n2") or given.get("n3") or given.get("n4") or "1"
        every = bool(given.get("n3") or given.get("n4"))
        period = _period(given.get("per") or given.get("per2") or "")
        return f"{'1 in ' if every else ''}{_TIMES.get(times) or _number(times)} {period}", ()
    if kind in {"size", "duration"}:
        unit = given["unit"] or ""
        return f"{_number(given['n'] or '')} {_period(unit)}", (_period(unit),) if kind == "size" else ()
    return _number(given["n"] or ""), ()


def _period(word: str) -> str:
    return _CLOCK.get(word) or _CLOCK.get(word.rstrip("s")) or word


def _number(written: str) -> str:
    """One form of a written number or range: `1,200`, `three` and `5th` are `1200`, `3` and `5`."""
    parts = [part for part in re.split(r" ?(?:-|\bto\b|\band\b|\ba\b) ?", written) if part]
    return "-".join(_single(part.strip()) for part in parts)


def _single(written: str) -> str:
    if written in _NUMBERS:
        return _NUMBERS[written]
    digits = re.sub(r"(?<=\d)(?:st|nd|rd|th|eme|e)$", "", written).replace(",", "").replace(" ", "")
    if digits.endswith("k") and digits[:-1].replace(".", "").isdigit():
        return f"{float(digits[:-1]) * 1000:g}"
    whole, _, part = digits.partition(".")
    part = part.rstrip("0")
    return f"{whole}.{part}" if part else whole


def _as_int(written: str) -> int:
    return int(written) if written.isdigit() and len(written) < 9 else 0


def _counted(plain: str, at: int) -> tuple[tuple[str, ...], int]:
    """The words right after a number up to what cannot be counted, three at most, and where they end."""
    words: list[str] = []
    end = at
    while len(words) < 3:
        if end >= len(plain) or plain[end] not in " -":
            break
        match = _WORD.match(plain, end + 1)
        if match is None or match.group() in _NOT_COUNTED:
            break
        words.append(canonical(match.group()))
        end = match.end()
    return tuple(words), end
