"""Specific values in a sentence: ports, versions, paths, dates, amounts, shares and counts.

Pure: no database, no file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

from filrouge.core import lazy_re as re
from filrouge.extraction.vocabulary import AMBIGUOUS, CATEGORY, STOP, canonical, fold

# Specific values in a sentence: ports, versions, hosts, paths, commands, dates, quantities, names, tools.
#
# They are what makes a sentence worth keeping (a fact without one is usually chatter), what tells two sentences with
# the same words apart, and what an update replaces.

ValueKind = Literal[
    "command", "url", "path", "port", "version", "time", "date", "quantity", "host", "identifier", "name", "number"
]


@dataclass(frozen=True, slots=True)
class Value:
    """One value: where it stands in the sentence, and its folded, comparable form."""

    kind: ValueKind
    text: str
    start: int
    end: int


_MONTHS: Final = (
    r"(?:jan(?:uary|vier)?|feb(?:ruary)?|fev(?:rier)?|mar(?:ch|s)|apr(?:il)?|avril|may|mai|june?|juin|july|juillet|aug(?:ust)?"
    r"|aout|sept?(?:ember|embre)?|oct(?:ober|obre)?|nov(?:ember|embre)?|dec(?:ember|embre)?|enero|febrero|marzo|abril|mayo"
    r"|junio|julio|agosto|septiembre|octubre|noviembre|diciembre)"
)
_DAYS: Final = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:lun|mar|mercre|jeu|vendre|same)dis?|dimanches?"
    r"|lunes|martes|miercoles|jueves|viernes"
)
_UNITS: Final = (
    r"(?:%|ms|s|sec(?:ond(?:e)?)?s?|min(?:ute)?s?|h|hours?|heures?|days?|jours?|dias?|weeks?|semaines?|months?|mois|years?|ans?"
    r"|k[bo]|m[bo]|g[bo]|t[bo]|kib|mib|gib|px|rpm|rps|qps|requests?|requetes?|items?|lines?|lignes?|characters?|caracteres?"
    r"|workers?|replicas?|users?|connections?|connexions?|retries|euros?|eur|usd|cores?|coeurs?|columns?|colonnes?|spaces)"
)
_TLD: Final = (
    r"(?:io|com|org|net|dev|fr|es|de|eu|uk|ch|be|app|cloud|ai|co|local|internal|lan|test|example|sh|run|me|tech)"
)
_EXTENSION: Final = (
    r"(?:py|ts|tsx|js|jsx|mjs|json|ya?ml|toml|md|txt|sql|css|scss|html|sh|env|lock|cfg|ini|go|rs|rb|php|java|kt|vue|svelte"
    r"|tex|typ|csv|xml|proto|tf|log|db|sqlite|pdf|svg|png|conf|ipynb|graphql|prisma|dockerfile)"
)

#: "Migrations run with", "Les tests se lancent avec": a tool follows, known or not.
_DONE: Final = (
    r"(?:se (?:lance|deploie|construi|genere|gere|teste|compile|execute|installe)\w* (?:avec|via|par)"
    r"|(?:runs?|built|managed|deployed|tested|generated|linted|formatted|installed|launched|started|bundled)"
    r" (?:with|via|through))"
)
#: What has one name at a time, and what is said of it that is no name.
_CHOSEN: Final = (
    r"(?:(?:main|default|stable|trunk|release) branch|branche (?:principale|par defaut)|(?:package|version) manager"
    r"|(?:test|task) runner|hosting provider|linter|formatter|bundler|licen[sc]e|hebergeur|gestionnaire de paquets)"
)
_NO_CHOICE: Final = (
    r"(?:now|not|pas|the|le|la|very|tres|too|trop|also|slow|slower|fast|faster|stale|broken|wrong|missing|lente?|rapide"
    r"|green|red|fine|ok|better|clean|happy|noisy|down|up|free|\w+(?:ed|ing|able))\b"
)

#: In this order: the first to claim a stretch of characters keeps it. Patterns read folded text.
_PATTERNS: Final[tuple[tuple[ValueKind, str], ...]] = (
    ("command", r"`[^`\n]*[ ][^`\n]*`"),  # `make ship-staging`
    ("path", r"`[^`\s]*/[^`\s]*`"),  # `templates/mail`
    ("identifier", r"`[^`\n]+`"),  # `any`
    ("url", r"\b(?:https?|wss?|ssh|s3|gs|postgres(?:ql)?|redis|git)://[^\s)>,\"']+"),
    ("port", r"(?:(?<=\bport )|(?<=\bports )|(?<=\bpuerto )|(?<=localhost:)|(?<=\d\.\d:))\d{2,5}\b"),
    ("date", r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b"),
    ("date", rf"\b{_MONTHS}\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?"),
    ("date", rf"\b\d{{1,2}}(?:er|st|nd|rd|th)? (?:of |de )?{_MONTHS}\b(?: (?:de )?\d{{4}})?"),
    ("date", rf"\b(?:{_DAYS})\b|\b(?:the|le|el) \d{{1,2}}(?:st|nd|rd|th|er)?(?= (?:of|de|at|a)\b|[,.;]|$)|\bq[1-4]\b"),
    ("time", r"\b\d{1,2}(?::\d\d|h\d\d)\b|\b\d{1,2} ?(?:am|pm)\b|\b\d{1,2}h(?= )"),
    ("path", r"(?<![\w:])~?(?:\.{1,2})?/[\w.@-]+(?:/[\w.@*-]*)*"),  # /etc/app, ./x
    ("path", r"\b[\w.@-]+(?:/[\w.@*-]+)+/?(?![\w/])|\b[\w.-]+/(?=[\s,.;:)]|$)"),  # templates/mail, vendor/
    ("path", rf"\b[\w-]+(?:\.[\w-]+)*\.{_EXTENSION}\b(?!\()|(?<!\w)\.[a-z][\w-]+(?:\.[\w-]+)*"),  # report.py, .env
    ("host", r"\b\d{1,3}(?:\.\d{1,3}){3}\b"),
    ("version", r"\bv?\d+(?:\.\d+)+(?:[-+.]?[a-z]+\d*)?\b|\bv\d+\b"),
    ("quantity", rf"\b\d+(?:[.,]\d+)?[ -]?{_UNITS}(?![\w])"),
    ("host", rf"\b[\w-]+(?:\.[\w-]+)*\.{_TLD}\b"),
    ("identifier", r"\b\w+(?:\.\w+)*\(\)|\b[a-z]+\w*(?:_\w+)+\b|\b\w+(?:::\w+)+|\b[a-z]\w*\.[a-z_]\w+\b"),
    ("identifier", r"\b[a-z]+(?:-[a-z0-9]+)*-\d+\w*\b|\b[a-z]{2,}\d+\w*\b|(?<!\w)--?[a-z][\w-]*"),  # pg-rec-02, b2
    (
        "identifier",
        r"(?:(?<=s'appelle )|(?<=\bcalled )|(?<=\bnamed )|(?<=se llama ))(?!the |a |le |la |when|by|in )[a-z][\w-]+",
    ),
    (
        "identifier",
        r"\b(?!\w+-(?:to|of|in|and|by|the|a|on|la|de)-)[a-z][a-z0-9]*(?:-[a-z0-9]+){2,}\b",
    ),  # acme-uploads-eu
    (
        "identifier",
        rf"\b{_DONE} (?!the |a |le |la |les |une? |no |errors?|warnings?)([a-z][\w-]+)(?=\s*(?:[.,;!]|$))",
    ),  # migrations run with alembic
    (
        "identifier",
        rf"\b{_CHOSEN} (?:is|est)(?: now| maintenant| desormais)? (?!{_NO_CHOICE})([a-z][\w-]+)(?=\s*(?:[.,;!]|$))",
    ),  # the main branch is now trunk
    ("identifier", r"#[\w-]+|@[\w/-]+"),  # a channel, a handle
    ("number", r"\b\d+\b"),
)
_COMPILED: Final[tuple[tuple[ValueKind, re.Pattern[str]], ...]] = tuple(
    (kind, re.compile(pattern)) for kind, pattern in _PATTERNS
)
_NAME: Final = re.compile(r"\b[A-ZÀ-Ý][\w'’-]*[\w](?: (?:de |du |of )?[A-ZÀ-Ý][\w'’-]*\w)*|\b[A-Z]\b(?=\W?\d)")
_CAMEL: Final = re.compile(r"\b[a-z]+[A-Z]\w*\b|\b\d[A-Z][a-z]\w*\b")
_WORD: Final = re.compile(r"[a-z0-9][\w.+#-]*")
_NEVER_NAMES_WORDS: Final = """
I I'm I've I'll I'd Ok OK The We Je On Le La Les Un Une Il Elle Ne Pas CI UTF ASCII TODO FYI BTW PR PRs MR
ID IDs LOL MDR ASAP README API APIs UI DB URL URLs
"""
_NEVER_NAMES: Final = frozenset(_NEVER_NAMES_WORDS.split())


def values(text: str) -> tuple[Value, ...]:
    """Every value of a sentence, in order, none overlapping."""
    plain = fold(text)
    taken = bytearray(len(text))
    found: list[Value] = []

    def claim(kind: ValueKind, start: int, end: int) -> None:
        if start < end and not any(taken[start:end]):
            taken[start:end] = b"\x01" * (end - start)
            found.append(Value(kind, plain[start:end].strip("`").rstrip(".,;:").removesuffix("/"), start, end))

    for kind, pattern in _COMPILED:
        for match in pattern.finditer(plain):
            claim(kind, *match.span(match.lastindex or 0))
    for match in _CAMEL.finditer(text):
        claim("identifier", match.start(), match.end())
    for start, end in _names(text):
        claim("name", start, end)
    for match in _WORD.finditer(plain):
        word = match.group().rstrip(".-")
        if word in CATEGORY and word not in AMBIGUOUS:
            claim("name", match.start(), match.start() + len(word))
    return tuple(_versions(sorted(_ports(found, plain), key=lambda value: value.start)))


#: "Karim maintains the billing service": an actor keeps the capital of the first word.
_ACTOR: Final = re.compile(
    r"(?:.{0,40}[,;] )?([A-ZÀ-Ý][\w-]+)(?: (?:and|et) [A-ZÀ-Ý][\w-]+)? (?:now |only |also |has |a )?"
    r"(?:owns?|maintains?|manages?|handles?|leads?|left|quit|quitté|approves?|reviews?|joined|gère|s'occupe|s’occupe|maintient"
    r"|valide|dirige|remplace|is (?:our|the|responsible|in charge)|est (?:notre|le|la|responsable))\b"
)


def _names(text: str) -> list[tuple[int, int]]:
    """Capitalised words that do not owe their capital to the start of the sentence, and known tools."""
    found: list[tuple[int, int]] = []
    actor = _ACTOR.match(text)
    if actor and actor.group(1) not in _NEVER_NAMES:
        found.append(actor.span(1))
    for match in _NAME.finditer(text):
        start = match.start()
        opens = not text[:start].strip(" \"'«(*_-") or text[:start].rstrip()[-1:] in ".!?:"
        words = match.group().split(" ")
        if opens and not _proper(words[0]):
            start += len(words[0]) + 1
            words = words[1:]
        for word in words:
            if "'" in word or "’" in word:
                word_end = start + min(word.find(q) for q in "'’" if q in word)
                bare = text[start:word_end]
                follow = word[len(bare) + 1 :]
                if follow in {"s", ""} and bare:
                    found.append((start, word_end))
                elif follow[:1].isupper():
                    found.append((start + len(bare) + 1, start + len(word)))
            elif word not in _NEVER_NAMES and word not in {"de", "du", "of"} and len(word) > 1:
                found.append((start, start + len(word)))
            start += len(word) + 1
    return found


def _proper(word: str) -> bool:
    """True for a first word that is a name by itself: a tool, or written with an inner capital."""
    folded = fold(word)
    return (folded in CATEGORY and folded not in AMBIGUOUS) or any(char.isupper() for char in word[2:])


def _ports(found: list[Value], plain: str) -> list[Value]:
    """Numbers that stand for a port: `from port 8443 to 9443`, `the port is 9443`, `prod is on 9443`."""
    speaks_of_port = re.search(r"\b(?:ports?|puertos?|listens?|ecoute\w*|escucha)\b", plain) is not None
    promoted: list[Value] = []
    for value in found:
        near = plain[max(0, value.start - 8) : value.start]
        on_number = re.search(r"\b(?:on|sur|to|en) :?$", near) is not None and len(value.text) in {4, 5}
        port = value.kind == "number" and 2 <= len(value.text) <= 5 and (speaks_of_port or on_number)
        promoted.append(Value("port", value.text, value.start, value.end) if port else value)
    return promoted


def _versions(found: list[Value]) -> list[Value]:
    """A number right after a tool is its version: `PostgreSQL 16`."""
    tools = {value.end + 1 for value in found if value.kind == "name" and value.text in CATEGORY}
    return [
        replace(value, kind="version") if value.kind == "number" and value.start in tools else value for value in found
    ]


# Measures: the amounts, dates, shares and counts that a sentence gives of something, comparable between sentences.
#
# People tell how things stand by numbers: a mark of 81 %, a third novel, two free evenings, a train at 5:10 PM. A
# measure is such a number with what it counts, in one form whether it was written `3`, `three` or `third`. Two
# sentences about one thing whose measures of one kind differ are two versions of it; that is all that `versions`
# needs to know.

# ruff: noqa: E501 (a pattern is read best on one line)


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
_MEASURES_MONTHS: Final = {name: number for line in _MONTH_NAMES for number, name in enumerate(line.split(), 1)} | {
    "sep": 9
}
_MONTH: Final = rf"(?:{'|'.join(sorted(_MEASURES_MONTHS, key=len, reverse=True))})"
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
_NOT_COUNTED: Final = frozenset(_NOT_COUNTED_WORDS.split()) | _NUMBERS.keys() | _MEASURES_MONTHS.keys()
#: "the other two bikes", "three more": a part of what there is.
_PARTLY: Final = re.compile(r"\b(?:other|another|additional|extra|autres?|otros|otras) $")
_SOME_MORE: Final = frozenset("other another additional extra autre otro otra".split())
_MEASURES_WORD: Final = re.compile(r"[a-z][a-z'-]*")
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
_MEASURES_PATTERNS: Final[tuple[tuple[MeasureKind, re.Pattern[str]], ...]] = tuple(
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
    taken = _measures_names(plain)
    found: list[Measure] = []

    def claim(kind: MeasureKind, value: str, of: tuple[str, ...], start: int, end: int) -> None:
        if start < end and not any(taken[start:end]):
            taken[start:end] = b"\x01" * (end - start)
            found.append(Measure(kind, value, of, start, end))

    for kind, pattern in _MEASURES_PATTERNS:
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


def _measures_names(plain: str) -> bytearray:
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
        return f"{_MEASURES_MONTHS.get(month) or int(month)}-{int(given['day'] or 0)}", ()
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
        match = _MEASURES_WORD.match(plain, end + 1)
        if match is None or match.group() in _NOT_COUNTED:
            break
        words.append(canonical(match.group()))
        end = match.end()
    return tuple(words), end
