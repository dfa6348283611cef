"""Reading a clause: its specific values and measures, its mood, and the corrections it makes.

The kinds (`extraction.kinds`) build on this: each is a function from `Clause` to `ClauseKind` or None. Most patterns read
folded text. Only a plain statement can become a memory. Values make a sentence worth keeping, distinguish sentences
with the same words, and are what an update replaces.

Pure: no database, no file.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from filrouge.core import lazy_re as re
from filrouge.core.scope import ScopeName
from filrouge.extraction.vocabulary import AMBIGUOUS, CATEGORY, STOP, canonical, fold
from filrouge.memories.models import Kind, Sentiment

# Specific values: ports, versions, hosts, paths, commands, dates, quantities, names, tools.

ValueKind = Literal[
    "command", "url", "path", "port", "version", "time", "date", "quantity", "host", "identifier", "name", "number"
]


class Value(Struct, frozen=True):
    """One value: its position in the sentence, and its folded form for comparison."""

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

#: "Migrations run with", "Les tests se lancent avec": the next word is a tool, even an unknown one.
_DONE: Final = (
    r"(?:se (?:lance|deploie|construi|genere|gere|teste|compile|execute|installe)\w* (?:avec|via|par)"
    r"|(?:runs?|built|managed|deployed|tested|generated|linted|formatted|installed|launched|started|bundled)"
    r" (?:with|via|through))"
)
#: Things that have one name at a time (a main branch, a linter), and adjectives that are not such a name.
_CHOSEN: Final = (
    r"(?:(?:main|default|stable|trunk|release) branch|branche (?:principale|par defaut)|(?:package|version) manager"
    r"|(?:test|task) runner|hosting provider|linter|formatter|bundler|licen[sc]e|hebergeur|gestionnaire de paquets)"
)
_NO_CHOICE: Final = (
    r"(?:now|not|pas|the|le|la|very|tres|too|trop|also|slow|slower|fast|faster|stale|broken|wrong|missing|lente?|rapide"
    r"|green|red|fine|ok|better|clean|happy|noisy|down|up|free|\w+(?:ed|ing|able))\b"
)

#: In order of priority: the first match claims its characters. Patterns read folded text.
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
_PROPER_NAME: Final = re.compile(r"\b[A-ZÀ-Ý][\w'’-]*[\w](?: (?:de |du |of )?[A-ZÀ-Ý][\w'’-]*\w)*|\b[A-Z]\b(?=\W?\d)")
_CAMEL: Final = re.compile(r"\b[a-z]+[A-Z]\w*\b|\b\d[A-Z][a-z]\w*\b")
_VALUE_WORD: Final = re.compile(r"[a-z0-9][\w.+#-]*")
_NEVER_NAMES_WORDS: Final = """
I I'm I've I'll I'd Ok OK The We Je On Le La Les Un Une Il Elle Ne Pas CI UTF ASCII TODO FYI BTW PR PRs MR
ID IDs LOL MDR ASAP README API APIs UI DB URL URLs
"""
_NEVER_NAMES: Final = frozenset(_NEVER_NAMES_WORDS.split())


def values(text: str) -> tuple[Value, ...]:
    """Return the values of a sentence, in order, without overlaps."""
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
    for start, end in _find_names(text):
        claim("name", start, end)
    for match in _VALUE_WORD.finditer(plain):
        word = match.group().rstrip(".-")
        if word in CATEGORY and word not in AMBIGUOUS:
            claim("name", match.start(), match.start() + len(word))
    return tuple(_mark_versions(sorted(_mark_ports(found, plain), key=lambda value: value.start)))


#: "Karim maintains the billing service": the capital of the first word belongs to a name.
_ACTOR: Final = re.compile(
    r"(?:.{0,40}[,;] )?([A-ZÀ-Ý][\w-]+)(?: (?:and|et) [A-ZÀ-Ý][\w-]+)? (?:now |only |also |has |a )?"
    r"(?:owns?|maintains?|manages?|handles?|leads?|left|quit|quitté|approves?|reviews?|joined|gère|s'occupe|s’occupe|maintient"
    r"|valide|dirige|remplace|is (?:our|the|responsible|in charge)|est (?:notre|le|la|responsable))\b"
)


def _find_names(text: str) -> list[tuple[int, int]]:
    """Return the spans of capitalised words, except those with a capital only because they open the sentence."""
    found: list[tuple[int, int]] = []
    actor = _ACTOR.match(text)
    if actor and actor.group(1) not in _NEVER_NAMES:
        found.append(actor.span(1))
    for match in _PROPER_NAME.finditer(text):
        start = match.start()
        opens = not text[:start].strip(" \"'«(*_-") or text[:start].rstrip()[-1:] in ".!?:"
        words = match.group().split(" ")
        if opens and not _is_proper(words[0]):
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


def _is_proper(word: str) -> bool:
    """Return whether a sentence's first word is a name: a known tool, or a word with an inner capital."""
    folded = fold(word)
    return (folded in CATEGORY and folded not in AMBIGUOUS) or any(char.isupper() for char in word[2:])


def _mark_ports(found: list[Value], plain: str) -> list[Value]:
    """Turn numbers that stand for a port into ports: `from port 8443 to 9443`, `the port is 9443`, `on 9443`."""
    speaks_of_port = re.search(r"\b(?:ports?|puertos?|listens?|ecoute\w*|escucha)\b", plain) is not None
    promoted: list[Value] = []
    for value in found:
        near = plain[max(0, value.start - 8) : value.start]
        on_number = re.search(r"\b(?:on|sur|to|en) :?$", near) is not None and len(value.text) in {4, 5}
        port = value.kind == "number" and 2 <= len(value.text) <= 5 and (speaks_of_port or on_number)
        promoted.append(Value("port", value.text, value.start, value.end) if port else value)
    return promoted


def _mark_versions(found: list[Value]) -> list[Value]:
    """Turn a number right after a tool into its version: `PostgreSQL 16`."""
    tools = {value.end + 1 for value in found if value.kind == "name" and value.text in CATEGORY}
    return [
        replace(value, kind="version") if value.kind == "number" and value.start in tools else value for value in found
    ]


# Measures: amounts, dates, shares and counts, comparable between sentences. A measure is a number with what it counts
# ("a mark of 81 %", "a third novel", "a train at 5:10 PM"), in one form for `3`, `three` and `third`. Two sentences on
# the same subject whose measures of one kind differ are two versions of a fact; `versions` relies on this.

# ruff: noqa: E501 (a pattern is read best on one line)


MeasureKind = Literal["percent", "money", "date", "time", "ratio", "size", "duration", "frequency", "count"]


class Measure(Struct, frozen=True):
    """One number and what it counts.

    Attributes:
        value: the number in normal form: `3`, `68`, `3-22` for month and day, `4/5`, `6-9`.
        of: the folded nouns that are counted, the head last; empty if the kind says enough.
        start, end: the position in the text, including the counted nouns.
    """

    kind: MeasureKind
    value: str
    of: tuple[str, ...]
    start: int
    end: int


_CARDINALS: Final = (
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
    for line in (*_CARDINALS, *_ORDINALS)
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
_MONTHS_BY_NAME: Final = {name: number for line in _MONTH_NAMES for number, name in enumerate(line.split(), 1)} | {
    "sep": 9
}
_MONTH: Final = rf"(?:{'|'.join(sorted(_MONTHS_BY_NAME, key=len, reverse=True))})"
_WEEKDAY: Final = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:lun|mar|mercre|jeu|vendre|same)di|dimanche|lunes|martes|miercoles|jueves|viernes|sabado|domingo)"
_DIGITS: Final = r"\d+(?:[ ,]\d{3})*(?:\.\d+)?"
_WORDED: Final = rf"(?:{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_NUMBER: Final = rf"(?:{_DIGITS}|{_WORDED})"
_CARDINAL: Final = rf"{_DIGITS}|single|{'|'.join(sorted((word for word in _NUMBERS if word not in ' '.join(_ORDINALS).split()), key=len, reverse=True))}"
_TIME_UNITS: Final = {
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
_PERIOD: Final = rf"(?:{'|'.join(sorted(_TIME_UNITS, key=len, reverse=True))})s?"
_PER: Final = r"(?:a|an|per|each|every|par|chaque|al|por|a la|/)"
#: Words that end the counted phrase: "31 stamps | in my album", "six crates | at the moment".
_NOT_COUNTED_WORDS: Final = """
now already currently so far left yet each either today yesterday tomorrow tonight again back well long old new ago later
earlier more less total since starting during while until before after dans sur de des du par pour avec how what when who why can could would should will did does
""" + " ".join(STOP - {"same", "other"})
_NOT_COUNTED: Final = frozenset(_NOT_COUNTED_WORDS.split()) | _NUMBERS.keys() | _MONTHS_BY_NAME.keys()
#: "the other two bikes", "three more": only a part of the total.
_PARTLY: Final = re.compile(r"\b(?:other|another|additional|extra|autres?|otros|otras) $")
_SOME_MORE: Final = frozenset("other another additional extra autre otro otra".split())
_NUMBER_WORD: Final = re.compile(r"[a-z][a-z'-]*")
#: In order of priority: the first match claims its characters. Patterns read folded text.
_MEASURE_TABLE: Final[tuple[tuple[MeasureKind, str], ...]] = (
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
_MEASURE_PATTERNS: Final[tuple[tuple[MeasureKind, re.Pattern[str]], ...]] = tuple(
    (kind, re.compile(pattern)) for kind, pattern in _MEASURE_TABLE
)
_ORDINAL: Final = rf"\d+(?:st|nd|rd|th|e|eme)|{'|'.join(word for line in _ORDINALS for word in line.split()[1:])}"
#: An ordinal counts only after a possessive: "my third novel" is a count, "the first chapter" is a name.
_NTH: Final = re.compile(rf"\b(?:my|our|his|her|their|mon|ma|notre|mi) (?P<n>{_ORDINAL})\b(?= [a-z])")
_COUNT: Final = re.compile(
    rf"(?<![\w.$€£/:%-])(?P<n>(?:{_CARDINAL})(?:(?:-| to | a )(?:{_CARDINAL}))?)(?P<plus>\+?)(?= |-[a-z])"
)
_NUMBERED: Final = re.compile(
    r"\b(?P<noun>episode|chapter|level|lesson|page|week|day|module|unit|season|volume|book|grade|chapitre|niveau|lecon) (?P<n>\d+)\b"
)
#: Things identified by a number: "customer 29 listens" counts no listens. Progress (level, chapter) is in `_NUMBERED`.
#: A location ("on server 3") is excluded because it may change.
_LABELLED: Final = re.compile(
    r"(?<!\bin )(?<!\bat )(?<!\bon )(?<!\bto )(?<!\binto )(?<!\bfrom )(?<!\bdans )(?<!\ben )(?<!\bsur )(?<!\bau )(?<!\bvers )\b(?P<noun>account|apartment|bay|berth|building|bus|cabin|camera|casier|client|compte|crew|customer|desk|device|district|equipe|floor|gate|group|groupe|hall|host|invoice|issue|job|locker|machine|node|order|platform|pod|rack|region|replica"
    r"|room|route|salle|seat|sector|sensor|server|serveur|service|shard|shelf|table|team|tenant|ticket|usuario|user|utilisateur|worker|zone|cliente|commande|facture|noeud|tache|task) (?:no\.? ?|n° ?|#)?(?P<n>\d+)\b(?![.,:]\d)"
)
#: "my album, currently 31", "we are close to 900 now": a number whose noun is elsewhere in the sentence.
_BARE_NUMBER: Final = re.compile(
    rf"\b(?:(?:increased|risen|grown|grew|gone up|gone down|dropped|fallen|reduced|changed|adjusted|updated|passe|passee?s?|monte|descendu\w*) (?:to|a)|currently|now|now at|total of|up to|close to|around|about|reached|reach|hit|at) (?P<n>{_NUMBER})(?=\s*(?:[,.;!?)]|$)|\s+(?:now|already|so far|and|but|right)\b)(?![.:]\d)"
)
_REPEATED: Final = re.compile(r"\b(?P<n>once|twice|thrice)\b|\b(?P<n2>" + _NUMBER + r") (?:times|fois|veces)\b")


@lru_cache(maxsize=4096)
def measures(text: str) -> tuple[Measure, ...]:
    """Return the measures of a text, in order, without overlaps."""
    plain = fold(text)
    taken = _mask_number_names(plain)
    found: list[Measure] = []

    def claim(kind: MeasureKind, value: str, of: tuple[str, ...], start: int, end: int) -> None:
        if start < end and not any(taken[start:end]):
            taken[start:end] = b"\x01" * (end - start)
            found.append(Measure(kind, value, of, start, end))

    for kind, pattern in _MEASURE_PATTERNS:
        for match in pattern.finditer(plain):
            claim(kind, *_normalise_measure(kind, match), *match.span())
    for match in _NUMBERED.finditer(plain):
        claim("count", match["n"], (canonical(match["noun"]),), *match.span())
    for match in (*_NTH.finditer(plain), *_COUNT.finditer(plain)):
        of, end = _read_counted_words(plain, match.end())
        if (
            of
            and not _PARTLY.search(plain, 0, match.start())
            and of[0] not in _SOME_MORE
            and not 1900 <= _as_int(match["n"]) <= 2100
        ):
            claim("count", _normalise_range(match["n"]), of, match.start("n"), end)
    for match in _BARE_NUMBER.finditer(plain):
        claim("count", _normalise_range(match["n"]), (), *match.span("n"))
    for match in _REPEATED.finditer(plain):
        value = _TIMES.get(match["n"] or "") or _normalise_range(match["n2"])
        claim("count", value, ("time",), *match.span())
    return tuple(sorted(found, key=lambda measure: measure.start))


def are_differently_numbered(first: str, second: str) -> bool:
    """Return whether two texts name different things of one sort by number, such as customer 28 and customer 29."""
    mine, theirs = _labels(first), _labels(second)
    return not mine & theirs and bool({noun for noun, _ in mine} & {noun for noun, _ in theirs})


def _mask_number_names(plain: str) -> bytearray:
    """Return a mask of the characters in which a number is a name."""
    taken = bytearray(len(plain))
    for match in _LABELLED.finditer(plain):
        taken[match.start("n") : match.end("n")] = b"\x01" * len(match["n"])
    return taken


@lru_cache(maxsize=4096)
def _labels(text: str) -> frozenset[tuple[str, str]]:
    return frozenset((canonical(match["noun"]), match["n"]) for match in _LABELLED.finditer(fold(text)))


def _normalise_measure(kind: MeasureKind, match: re.Match[str]) -> tuple[str, tuple[str, ...]]:
    groups = match.groupdict()
    if kind == "date":
        month = groups["month"] or ""
        return f"{_MONTHS_BY_NAME.get(month) or int(month)}-{int(groups['day'] or 0)}", ()
    if kind == "time":
        hour, half = int(groups["h"] or 0), groups.get("half") or ""
        if half and hour <= 12:
            hour = hour % 12 + (12 if half.startswith("p") else 0)
        return f"{hour}:{groups.get('m') or groups.get('m2') or '00'}", ()
    if kind == "ratio":
        return f"{_normalise_range(groups['n'] or '')}/{groups['of']}", (groups["of"] or "",)
    if kind == "frequency":
        if groups.get("days"):
            return f"{len(re.findall(_WEEKDAY, groups['days'] or ''))} week", ()
        if groups.get("adverb"):
            return f"1 {_ADVERBS[(groups['adverb'] or '')[:3]]}", ()
        if "per" not in groups and "per2" not in groups:
            return f"1 in 2 {_period(groups.get('other') or 'week')}", ()
        times = groups.get("n") or groups.get("n2") or groups.get("n3") or groups.get("n4") or "1"
        every = bool(groups.get("n3") or groups.get("n4"))
        period = _period(groups.get("per") or groups.get("per2") or "")
        return f"{'1 in ' if every else ''}{_TIMES.get(times) or _normalise_range(times)} {period}", ()
    if kind in {"size", "duration"}:
        unit = groups["unit"] or ""
        return f"{_normalise_range(groups['n'] or '')} {_period(unit)}", (_period(unit),) if kind == "size" else ()
    return _normalise_range(groups["n"] or ""), ()


def _period(word: str) -> str:
    return _TIME_UNITS.get(word) or _TIME_UNITS.get(word.rstrip("s")) or word


def _normalise_range(written: str) -> str:
    """Return a written number or range in normal form: `1,200`, `three` and `5th` become `1200`, `3` and `5`."""
    parts = [part for part in re.split(r" ?(?:-|\bto\b|\band\b|\ba\b) ?", written) if part]
    return "-".join(_normalise_number(part.strip()) for part in parts)


def _normalise_number(written: str) -> str:
    if written in _NUMBERS:
        return _NUMBERS[written]
    digits = re.sub(r"(?<=\d)(?:st|nd|rd|th|eme|e)$", "", written).replace(",", "").replace(" ", "")
    if digits.endswith("k") and digits[:-1].replace(".", "").isdigit():
        return f"{float(digits[:-1]) * 1000:g}"
    integer, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0")
    return f"{integer}.{fraction}" if fraction else integer


def _as_int(written: str) -> int:
    return int(written) if written.isdigit() and len(written) < 9 else 0


def _read_counted_words(plain: str, start: int) -> tuple[tuple[str, ...], int]:
    """Return up to three counted words right after a number, and where they end."""
    words: list[str] = []
    end = start
    while len(words) < 3:
        if end >= len(plain) or plain[end] not in " -":
            break
        match = _NUMBER_WORD.match(plain, end + 1)
        if match is None or match.group() in _NOT_COUNTED:
            break
        words.append(canonical(match.group()))
        end = match.end()
    return tuple(words), end


# Moods. Questions, tasks, hypotheses, undecided matters, the past, reported speech, jokes, small talk and reports on
# the current state say nothing that holds tomorrow.

# ruff: noqa: E501 (a pattern is read best on one line)


Mood = Literal[
    "statement",
    "question",
    "request",
    "hypothesis",
    "undecided",
    "past",
    "reported",
    "joke",
    "smalltalk",
    "status",
    "momentary",
]


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


QUESTION: Final = _any(
    r"\?[\s\"')]*$",
    r"^(?:and |so |but |et |mais |alors )?(?:which|why|who|whose|how|pourquoi|comment|combien|quels?|quelles?|lequel|laquelle)\b(?! about)",
    r"^(?:what|where|when)(?:'s| is| are| was| were| do| does| did| would| should| can| will| port| version| about)\b",
    r"^(?:is|are|was|were|do|does|did|can|could|would|should|will|shall|has|have) (?:it|we|you|i|they|he|she|there|the|this|that|these|our|your|my|any|someone)\b",
    r"^(?:est-ce|qu'est-ce|c'est quoi|ou (?:est|sont|se)|que (?:fait|faire|penses)|a-t-on|y a-t-il|peut-on|faut-il|doit-on|sais-tu|tu (?:sais|te souviens|te rappelles))\b",
    r"^(?:any idea|do you (?:know|remember)|remind me|tell me|rappelle-moi|dis-moi|je me demande|i wonder|wondering)\b",
    r"^(?:¿|cual|cuando|donde esta|por que|como se)\b",
)
HYPOTHESIS: Final = _any(
    r"^(?:what if|and if|imagine|suppose|supposing|let's say|say we|assuming|admettons|imaginons|supposons|mettons que)\b",
    r"\bif (?:we|i|you|they|it|the \w+|he|she) (?:\w+ed|went|had|were|ran|used|moved|switched|could|would)\b",
    r"\bsi (?:on|nous|je|tu|l'on) \w+(?:ait|ions|ais|iez)\b",
    r"\b(?:would|could|might|may want|should we|we should|you could|maybe|perhaps|possibly|someday|at some point|eventually)\b(?! rather| never| always)",
    r"\b(?:peut-etre|on pourrait|on devrait|il faudrait|pourrait|serait|ce serait|un jour|eventuellement|quiza|tal vez|podriamos)\b",
    r"\b(?:i'm|i am|we're|we are) (?:thinking|considering|wondering|looking at|evaluating)\b|\b(?:je pense|on pense|on reflechit|on envisage|j'envisage|je songe) a\b",
    r"^(?:i think|i guess|i suppose|i believe|je crois|je pense|il me semble|i suspect|je suppose)\b",
)
UNDECIDED: Final = _any(
    r"\b(?:not|n't|never|hardly|haven't|hasn't) (?:\w+ ){0,2}(?:decided|settled|agreed|chosen|sure|certain|final|confirmed)\b",
    r"\b(?:undecided|to be decided|tbd|tbc|up in the air|no decision|nothing (?:is )?(?:decided|settled)|still (?:deciding|hesitating|open))\b",
    r"\b(?:rien n'est|pas|n'a rien|jamais) (?:\w+ ){0,2}(?:decide|tranche|choisi|certain|fixe|arrete|valide)\b(?! que)",
    # Folded, "sûr" equals the preposition "sur": it must end here, or be followed by "de" or "que".
    r"\b(?:pas|jamais|rien n'est) (?:\w+ ){0,2}sur(?= *(?:[.,;!?)]|$)| (?:de|que|qu')\b)",
    r"\bon (?:hesite|verra|ne sait pas)\b|\bj'hesite\b|\ba voir\b|\bi (?:don't|do not) (?:know|remember|think)\b|\bje ne (?:sais|crois|pense|me souviens)\b|\bno idea\b|\baucune idee\b",
    r"\bno (?:hemos|esta) decidido\b|\btodavia no\b",
)
PAST: Final = _any(
    r"\b(?:last|previous) (?:year|decade|summer|winter)\b|\b(?:years?|decades?) ago\b|\bused to\b|\bback (?:in (?:the|\d)|then|at my)\b",
    r"\b(?:in|at) my (?:previous|last|old|former) (?:job|company|team|project|place)\b|\bat the time\b|\b(?:previously|formerly|originally|once),? we\b",
    r"\bil y a (?:\w+ ){1,2}(?:ans?|annees?)\b|\bl'an(?:nee)? (?:dernier|derniere|passee?)\b|\ba l'epoque\b|^avant,? (?:on|nous|je|il|la|le|c')|\bauparavant\b|\bjadis\b",
    r"\b(?:mon|ma) (?:ancien|ancienne|precedente?) \w+\b|\bhace (?:\w+ )?anos?\b|^antes\b",
)
REPORTED: Final = _any(
    r"\b(?:says?|(?<!i )(?<!we )said|claims?|claimed|suggests?|suggested|thinks|wrote|mentions?|recommends?|tells|told me|argues|wants us)\b(?! yes)",
    r"\b(?:according to|apparently|supposedly|i (?:heard|read) (?:that|somewhere|about|in)|rumou?r|selon|d'apres|il parait|apparemment|j'ai (?:lu|entendu))\b",
    r"\b(?:dit|disent|a dit|pense|pensent|propose|proposent|suggere|conseille|recommande|voudrait|aimerait) (?:que|qu'|de|d')|\bdice que\b",
)
JOKE: Final = _any(
    r"\b(?:just )?(?:kidding|joking)\b|\bj/?k\b|\blol\b|\blmao\b|\brofl\b|\bha(?:ha)+\b|\bmdr+\b|\bptdr\b|\bxd\b|\bfunny\b|\bfor fun\b|\bje (?:plaisante|rigole|deconne)\b|\bblague\b|\bjaja\b",
    r"[\U0001F602\U0001F923\U0001F61C\U0001F92A]|;-?\)|:-?[pP]\b",
)
SMALLTALK: Final = _any(
    r"^(?:hi|hello|hey|yo|good (?:morning|afternoon|evening|night)|salut|bonjour|bonsoir|coucou|hola|buenos dias)\b[^:]{0,40}$",
    r"^(?:thanks?|thank you|thx|ty|merci|gracias|cheers|bravo|congrats|well done|nice|great|perfect|awesome|cool|super|parfait|genial|excellent|top|nickel)\b[^:]{0,50}$",
    r"\b(?:going for (?:a |lunch|dinner)|back in (?:a|an|\d)|be right back|brb|see you|talk (?:later|soon)|have a (?:good|nice)|good weekend|sleep well|bien dormi|bon cafe|prendre un cafe|a demain|a plus|a tout|bonne (?:soiree|journee|nuit)|bon (?:week-end|appetit)|hasta|coffee break|week-?end|lunch)\b",
    r"\b(?:i'm|i am|je suis|estoy) (?:\w+ ){0,2}(?:tired|hungry|back|late|sick|happy|glad|sorry|afraid|fatigue\w*|creve\w*|content\w*|desole\w*|de retour|malade|en retard)\b",
    r"^(?:i|je|j')\s?(?:really )?(?:hate|love|like|deteste|aime|adore|hais) (?:the |les? )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:lun|mar|mercre|jeu|vendre|same)dis?|dimanches?|winter|summer|rain|hiver|pluie)[ .!]*$",
    r"\b(?:the weather|il pleut|it's raining|j'espere|i hope|hope you)\b|^(?:no|pas de) (?:problem|worries|rush|idea|need|thanks|souci|probleme|stress)\b|\bnever ?mind\b|\blaisse tomber\b$",
)
#: "for this experiment only", "pour cet appel": valid only for the current task.
MOMENTARY: Final = _any(
    r"\bfor this (?:call|request|answer|reply|response|experiment|task|run|session|demo|exercise|question|prompt|message|spike|prototype)\b",
    r"\bpour (?:cet|cette|ce) (?:appel|requete|reponse|experience|essai|tache|seance|session|exercice|question|message|demo|prototype)\b",
    r"\b(?:just|only) (?:this once|this time)\b|\bjuste (?:cette fois|pour cette fois)\b",
)
#: The current state (broken, green, running), and narration of what was just done.
STATUS: Final = _any(
    r"\b(?:is|are|it's|was|were|seems?|looks?|still|keeps?|got|went|est|sont|reste) (?:\w+ ){0,2}(?:broken|failing|red|green|down|up|slow|stuck(?! (?:on|with))|flaky|blank|empty|weird|wrong|ready|done(?! with| by| via| from| in)|finished|fixed|changed|merged|crashing|hanging|passing|casse\w*|rouges?|verte?s?|lente?s?|bloque\w*|vides?|pret\w*|fini\w*|termine\w*|change\w*|growing)\b(?! (?:when|until|by|in) )",
    r"^(?:still|encore|again|same|toujours)\b|\b(?:still|again|encore|toujours) (?:fails?|failing|crashes|breaks|hangs|shows?|blank|la meme|le meme|pas\b|rouge|en cours|casse)",
    r"\b(?:doesn't|does not|don't|do not|didn't|isn't|won't|ne) (?:seem to |repond\w*|marche\w*|fonctionne\w*|compile\w*|demarre\w*)?(?:work|respond|compile|start|load|answer|plus|pas)\b(?= *(?:[.,;!]|$|any|anymore|because|car|sur|on|with|avec|for))",
    r"\b(?:ne |n')(?:s'|se )?(?:affiche|passe|charge|ouvre|demarre|marche|fonctionne|repond|apparait|trouve|envoie)\w* (?:plus |pas )(?!par\b)",
    r"\b(?:fails?|crashes|hangs|times out|freezes|echoue\w*|plante\w*|rame\w*|takes (?:forever|ages|too long)|rien ne change|the same error|la meme erreur)\b(?! (?:ci|the build|le build|when|quand|si|if|otherwise))",
    r"^(?:i|we) (?:just|have just|already|only|'ve just|finally|also)? ?(?:ran|tried|pushed|merged|opened|checked|looked|restarted|reran|reverted|started|read|saw|see|got|noticed|tested|updated|installed|finished)\b",
    r"^(?:i've|we've|i'll|i'm|i am|j'ai|je viens|je vais|on vient|he|ejecute)\b (?!chosen|decided|moved|switched|picked|opted|renamed|changed|migrated|dropped|replaced|upgraded|abandoned|settled|agreed|adopted|remplace|abandonne|migre|choisi|decide|opte|deplace|renomme|change|tranche)(?:\w+)",
    r"\b(?:is|are) (?!running (?:on|in|at)|using|listening|moving|going with|sticking|being|hosting|living|missing)\w+ing\b(?! (?:on|from) \w+ (?:until|since))",
    r"\bright now\b|\btoday\b|\bthis (?:morning|afternoon)\b|\baujourd'hui\b|\bce matin\b|\bcet apres-midi\b|\ben ce moment\b|\byesterday\b|\bhier\b",
)
_POLITE: Final = r"^(?:(?:please|now|then|next|and|so|also|first|ok|just|quickly|maintenant|ensuite|puis|et|alors|aussi|d'abord|merci de|por favor|ahora),? )*"
_DO_EN: Final = (
    "add adapt adjust analyse analyze apply append ask attach audit benchmark build bump call change check clean clone close"
    " commit compare compute configure continue convert copy correct create debug define delete demonstrate deploy describe"
    " design diagnose diff display document download draft drop dump edit enable ensure estimate examine execute expand explain"
    " explore export extend extract fetch figure fill find finish fix format generate get give go grep handle help"
    " hide highlight implement import improve include increase inline insert inspect install integrate investigate"
    " kill launch link list load look make map measure merge migrate mock model modify move name normalize open optimise"
    " optimize optimise outline output parse paste patch pick ping plot point port prepare print profile propose prove publish"
    " pull push put read rebase rebuild recompute record redo reduce refactor reformat regenerate release remove rename reorder"
    " replace reproduce rerun reset resolve restart restore retry return revert review rewrite rollback run save scaffold scan"
    " search see send set setup ship show simplify sketch sort split start stop submit suggest sum summarise summarize swap switch"
    " sync tag take tell test throw tidy trace train translate trim try turn tweak undo uninstall unskip update upgrade upload use"
    " validate verify view wait walk wire wrap write commence proceed resume have keep raise lower turn double"
)
_DO_FR: Final = (
    "ajoute ajuste aide analyse applique arrete attends augmente baisse calcule cherche change choisis clone commence compare"
    " complete compte configure continue convertis copie corrige cree deploie decoupe decris deplace demande demarre diminue"
    " documente donne ecris edite efface enleve enregistre envoie essaie etends execute explique exporte extrais fais ferme finis"
    " formate genere implemente importe indique insere installe integre jette lance liste lis livre mesure mets migre modifie montre"
    " nettoie optimise ouvre passe peux prends prepare propose publie range recommence redemarre redige reduis refactorise refais"
    " regarde relance relis remplace remets renomme reponds repare reprends resume retire reviens sauvegarde simplifie sors supprime"
    " teste traduis transforme trouve utilise valide verifie vire va vas demandes implementez ajoutez corrigez faites mettez lancez ecrivez"
)
_DO_ES: Final = "anade agrega arregla borra busca cambia comprueba corrige crea ejecuta elimina escribe explica genera haz lanza mira muestra pon prueba quita revisa renombra"
#: "Test files live in", "Deploy command is": the word is a noun, so this is not an imperative.
_NOUN_FIRST: Final = (
    r"(?! (?:(?!the |an? |which |what |if |that |how |why |where |when |whether |my |our |all |le |la |les |un |une |des |ce |cette )[\w-]+ ){0,2}"
    r"(?:is|are|was|were|lives?|goes|go to|runs|starts|expires|takes|uses|lands?|sits?|belongs|must|should|needs?|est|sont|doit|doivent)\b)"
)
IMPERATIVE: Final = re.compile(
    _POLITE + rf"(?:{'|'.join(f'{_DO_EN} {_DO_FR} {_DO_ES}'.split())})\b(?!-toi|s\b|:)" + _NOUN_FIRST
)
REQUEST: Final = _any(
    IMPERATIVE.pattern,
    _POLITE
    + r"(?:can|could|would|will) you\b|\b(?:peux|pourrais|veux)-tu\b|^tu (?:peux|pourrais)\b|\bpodrias\b|\bpuedes\b",
    r"^(?:i want|i need|i'd like|i would like|we need|you need|you have|je veux|je voudrais|j'aimerais|il faut|il faudra|on doit|tu dois|quiero|necesito) (?:you |to |a |an |the |some |that |que |qu'|un |une |le |la |les |des |de )",
    r"^let's (?!go with|use\b|keep\b|stick|adopt|standardi[sz]e|drop)|^(?:on|allez,? on) (?:attaque|commence|continue|regarde|passe a (?:la|autre|l'etape)|y va|reprend)\b|^allons-y\b",
    # "Please note it in docs/decisions.md" is a task; "Note that the port is 8080" is not.
    _POLITE + r"(?:note|jot|mark|note[zs]?)[ -](?:it|this|them|le|la|les|ca)\b(?! ?:)",
    r"\b(?:s'il te plait|stp|svp|please)[.! ]*$",
)

_SILENT: Final[tuple[tuple[Mood, re.Pattern[str]], ...]] = (
    ("question", QUESTION),
    ("joke", JOKE),
    ("undecided", UNDECIDED),
    ("hypothesis", HYPOTHESIS),
    ("reported", REPORTED),
    ("smalltalk", SMALLTALK),
    ("momentary", MOMENTARY),
)


def silent_mood(plain: str) -> Mood | None:
    """Return the mood of the sentence that rules out any memory, or None."""
    return next((mood for mood, pattern in _SILENT if pattern.search(plain)), None)


def is_request(plain: str) -> bool:
    """Return whether the sentence asks for work now."""
    return REQUEST.search(plain) is not None


def is_imperative(plain: str) -> bool:
    """Return whether the sentence opens with the verb of a task."""
    return IMPERATIVE.match(plain) is not None


def is_past(plain: str) -> bool:
    """Return whether the sentence is about a past situation."""
    return PAST.search(plain) is not None


def is_status(plain: str) -> bool:
    """Return whether the sentence reports the current state."""
    return STATUS.search(plain) is not None


# Clauses. A clause is a sentence without its opening chatter ("Also,", "Au fait,", "For the record:", "Rappelle-toi
# que"). The opening shows how sure the user is, but is not part of the statement.

# ruff: noqa: E501 (a pattern is read best on one line)


class Clause(Struct, frozen=True):
    """A part of the user's text, with its opening.

    Attributes:
        start: the position of `text` in the prompt.
        plain: `text`, folded, with long quotations blanked.
        opening: the folded chatter, label or heading before it.
    """

    start: int
    text: str
    plain: str
    opening: str
    values: tuple[Value, ...]


class ClauseKind(Struct, frozen=True, kw_only=True):
    """The kind of statement that a clause makes.

    Attributes:
        confidence: from 0 to 1.
        key, value: of a core fact, such as `user_name`; both None for other statements.
        corrects: the old values that the clause calls wrong or outdated, folded.
        is_correction: whether the clause says that something no longer holds.
        is_retraction: whether it only retracts something and gives no new value.
        timeframe: `standing` for preferences; otherwise empty.
    """

    kind: Kind
    confidence: float
    scope: ScopeName = "project"
    key: str | None = None
    value: str | None = None
    corrects: tuple[str, ...] = ()
    is_correction: bool = False
    is_retraction: bool = False
    sentiment: Sentiment = "neutral"
    timeframe: str = ""


_OPENINGS: Final = (
    r"(?:ok(?:ay)?|oh|ah|well|so|right|alright|anyway|and|but|also|plus|then|now|actually|fyi|btw|hi|hello|hey|thanks|yes|yep|no|nope|bon|ben|bah|alors|donc|du coup|sinon|aussi|et|mais|oui|non|salut|bonjour|merci|ok super|d'accord|voila|bueno|pues|vale|hola|confirmed|exactly|back|c'est bien ca|c'etait bien ca|great|good|perfect)\s?[,.!:;-]+\s*",
    r"(?:en fait|actually|in fact|finalement|au final|en realidad)\s?,?\s+",
    r"(?:by the way|for the record|for (?:your )?info(?:rmation)?|for context|one (?:more|last) thing|just so you know|as a reminder|reminder|in passing|first of all|before (?:we start|i forget|you start)|au fait|pour (?:info|information|memoire|rappel|ta gouverne)|a noter|au passage|petit rappel|rappel|en passant|autre chose|une (?:derniere )?chose|de plus|par ailleurs|por cierto|para que conste|ojo|heads?[ -]up|careful|attention|important|nb|n\.b\.|ps|p\.s\.|context|contexte|update|news|after (?:the|our|a) \w+|suite a (?:la|notre) \w+)\s?[,:;-]?\s+",
    r"(?:\w+ ){0,2}(?:note|notes|info|infos|reminder|precision|memo|nota|fact)(?: pour (?:toi|plus tard)| to self| for (?:you|later))?\s?[:,-]\s*",
    r"(?:small |quick |petite? |rapide )?(?:correction|correctif|rectification|changement(?: de plan)?|change(?: of plans?)?|update|erratum|mise a jour)\s?[:,-]\s*",
    r"(?:scratch that|my bad|i was wrong|wait|je me suis trompee?|erreur de ma part|oublie ca|non attends)\s?[:,.;-]+\s*",
    r"(?:new |ground |house |hard |golden |standing |general |simple )?(?:rules?|regles?|reglas?|convention|consigne|policy|guideline)\b(?: (?:pour|for|de|du|of|in|dans|before|number|numero|generale|d'or|maison)\b[^:,]{0,40})?\s?:\s*",
    r"(?:final )?(?:decision|decide|choix)(?: (?:made|taken|prise|finale|final))?\s?:\s*",
    r"(?:please )?(?:remember|note|keep in mind|bear in mind|be aware|know|don't forget|do not forget|never forget) that\s+",
    r"(?:please )?(?:remember|note|keep in mind|bear in mind)\s?[:,]\s*",
    r"(?:rappelle-toi|rappelez-vous|souviens-toi|souvenez-vous|retiens|retenez|note|notez|sache|sachez|n'oublie(?:z)? pas|garde en tete|recuerda|ten en cuenta|no olvides)(?: bien)? (?:que |qu')",
    r"(?:retiens|note|a retenir|memorise|recuerda)(?: (?:bien|ca|ceci|cela))?\s?:\s*",
    r"(?:found it|got it|trouve|j'ai trouve|that was it|on a tranche|c'est decide|c'est acte|decision made|it's decided|turns out(?: that)?)\s?[:,.!;-]+\s*",
)
_OPENING: Final = re.compile("|".join(f"(?:{pattern})" for pattern in _OPENINGS))
_QUOTED: Final = re.compile(r'"[^"\n]{1,300}"|«[^»\n]{1,300}»|(?<![\w])\'[^\'\n]{1,200}\'(?!\w)')


def read_clause(text: str, start: int, before: str = "") -> Clause:
    """Return `text`, which begins at `start` of the prompt, as a clause without its opening chatter."""
    plain = fold(text)
    cut = 0
    for _ in range(4):
        match = _OPENING.match(plain, cut)
        if match is None or match.end() >= len(plain.rstrip(" .!")):
            break
        cut = match.end()
    body = text[cut:]
    return Clause(start + cut, body, blank_quotations(plain[cut:]), before + plain[:cut], values(body))


def blank_quotations(plain: str) -> str:
    """Return the text with quotations of three or more words blanked: other people's words are not a statement."""
    return _QUOTED.sub(lambda m: m.group() if len(m.group().split()) < 3 else " " * len(m.group()), plain)


# Corrections: a sentence that says that something no longer holds, and which words it replaces. The decision step also
# calls `old_values` on stored text: "we moved from port 8443 to 9443" holds both numbers but states only the second.

# ruff: noqa: E501 (a pattern is read best on one line)


_OLD_VALUE_END: Final = r"(?=\s*(?:[,.;:!)]|$)|\s+(?:any ?more|any longer|plus|now|to|but|mais|et|and|for|pour|as|since|because|car|with|in|on|dans|by|par|vers|a|la semaine|last|it|is|est|maintenant|depuis|rather|when|every\w*)\b)"
_OLD_VALUE: Final = (
    r"(?:the |a |an |our |le |la |les |l'|du |de la |des |d'|notre |on |in |at |sur |port |using |version )*(`[^`]+`|[\w][\w.+#/@-]*(?: [\w.+#/@-]+){0,2}?)"
    + _OLD_VALUE_END
)
#: Each pattern captures what no longer holds. Replacement verbs come first, because they name both values.
_OLD_VALUE_PATTERNS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b(?:moved|migrated|switched|changed|went|moving|switching|migrating|upgraded|bumped|downgraded|goes|renamed|transferred)\b[^.]{{0,50}}?\bfrom {_OLD_VALUE}",  # from A to B
        rf"\b(?:replaced|swapped|replacing|replaces) {_OLD_VALUE}",
        rf"\b(?:renamed|renaming|renomme\w*) {_OLD_VALUE}",
        r"\b(?:the |table |le |la |les )?([\w.-]+)(?: \w+)? (?:was|were|is|has been|have been|est|a ete|ont ete|sont) (?:renamed|replaced|renomme\w*|remplace\w*)\b",
        rf"\b(?:passe|passent|passons|passera|passe|bascule\w*|migre\w*|passes?|quitt\w+|deplace\w*|change\w*)\b[^.]{{0,30}}?\b(?:de|du|d') ?{_OLD_VALUE}",  # on passe de A à B
        rf"\bnot (?:on|at|in|with|using|hosted on|running on|under) {_OLD_VALUE}",
        rf"\bno longer (?:\w+ )?(?:on |at |in |with |from |uses? |using |runs? on |by )?{_OLD_VALUE}",
        rf"(?<!do )\b(?:not|don't|doesn't|isn't) (?:use |using |on |have |run on )?{_OLD_VALUE}(?= any ?more| any longer)",
        rf"\b(?:n'|ne )[\w']+ plus (?:sur |en |chez |a |dans |par |avec |utilise |sous )?{_OLD_VALUE}",
        rf"\bya no (?:usamos|esta en|es) {_OLD_VALUE}",
        rf"\b(?:dropped|dropping|ditched|abandoned|deprecated|retired|got rid of|gave up on|stopped using|left|killed|removed|abandonne\w*|laisse tomber|arrete (?:d'utiliser|avec)|vire|lache|dejamos) {_OLD_VALUE}",
        rf"\b(?:forget|ignore|disregard|oublie[rsz]?|olvida)(?: about)? {_OLD_VALUE}",
        r"\b([\w.+#/-]+) is (?:obsolete|dead|gone|deprecated|abandoned)\b|\b([\w.+#/-]+) est (?:obsolete|mort|abandonne)\b",
        r"\b([\w.-]+) (?:has left|left|quit|is gone|a quitte|est partie?)\b",
        rf"\b(?:and )?not {_OLD_VALUE}",
        rf"\b(?:et )?(?:pas|non) {_OLD_VALUE}",
        rf"\b(?:instead of|rather than|over|in place of|plutot que|plutot qu'|au lieu de|a la place de|au lieu d'|en vez de) {_OLD_VALUE}",
        rf"(?:\((?:was|previously|formerly|avant|etait|anciennement|ex)|\b(?:formerly|anciennement)) {_OLD_VALUE}",
        r"([\w.+#/-]+) ?(?:->|=>|→) ?[\w`]",
    )
)
_CHANGE: Final = re.compile(
    "|".join(
        (
            r"\b(?:moved|migrated|switched|renamed|replaced|upgraded|bumped|downgraded|transferred|relocated)\b(?! on\b| forward)",
            r"\b(?:changed|goes) (?:\w+ ){0,5}?(?:to|from)\b|\bback to [\w`]|\breverted to\b|\b(?:going|went|go) back to\b",
            r"\bno longer\b|\b(?:not|n't)\b.{1,60}\bany ?(?:more|longer)\b|\bany ?more\b",
            r"\b(?:dropped|ditched|abandoned|deprecated|got rid of|gave up on|stopped using|stop using)\b",
            r"\b(?:is|are|runs?|lives?|listens?|uses?|has|owns?|maintains?|handles?) now\b|\bnow (?:is|are|on|in|at|runs?|lives?|listens?|uses?|use|called|maintains?|owns?|handles?|lands?|goes|points?|starts?|has|have|takes|supports?|requires?|needs?)\b",
            r"\b(?:is|it's|are|runs?|listens?|lives?|uses?|use)\b.{1,60}\bnow[ .!]*$|\b(?:has|have)? ?changed?,|\b(?:est|sont|tourne\w*|ecoute\w*|utilise\w*)\b.{1,60}\b(?:maintenant|desormais)[ .!]*$",
            r"\b(?:n'|ne )[\w']+ plus\b|\b(?:on|nous) (?:revient|revenons|repasse|repassons|retourne|passe(?! par)|passons(?! par)|migre|bascule|abandonne|abandonnons|arrete|change|laisse tomber|quitte|remplace)\b",
            r"\b(?:est|sont|tourne|tournent|ecoute|s'appelle|vit|utilise|passe|passent|est passee?|sont passe\w*) (?:maintenant|desormais|a present|dorenavant)\b|\b(?:maintenant|desormais|a present),? (?:\w+ ){1,5}(?:est|sont|tourne|ecoute|s'appelle|utilise)\b|\b(?:est|sont|a|ont|avons|on a|j'ai) (?:ete )?(?:migre|deplace|renomme|remplace|demenage|passe|change|bascule|abandonne|transfere)\w*\b",
            r"^(?:please )?(?:forget|ignore|disregard|oublie[rsz]?|olvida)\b[^,:;]{2,60}[,:;] \w+ \w+",
            r"\bya no\b|\b(?:cambiamos|migramos|pasamos|movimos|volvemos) (?:a|de)\b|\bahora (?:esta|es|usa|corre)\b",
            r"\bnew \w+(?: \w+)? (?:is|are)\b|\b(?:le nouveau|la nouvelle|les nouveaux|les nouvelles) [\w' ]{2,30} (?:est|sont)\b",
            r"\b(?:finally|finalement|au final|en fin de compte|tout compte fait)\b.{0,20}\b(?:we|on|nous|le|la|les|the|i|je)\b",
        )
    )
)
#: A changed choice is a decision; other changes are facts.
_CHOICE: Final = re.compile(
    r"\b(?:we|i|we're|team|on|nous|je) (?:\w+ )?(?:switched|switching|dropped|dropping|ditched|abandoned|replaced|reverted|going back|went back|gave up|stopped|no longer|revient|revenons|repasse|repassons|passe|passons|bascule|abandonne|abandonnons|arrete|laisse tomber|quitte|remplace|n'utilise|change)\b"
)
_ANNOUNCED: Final = re.compile(
    r"\b(?:correction|correctif|rectification|changement|change of plans?|scratch that|my bad|i was wrong|en fait|actually|finalement|finally|oublie ca|je me suis tromp\w+|update|mise a jour|erreur de ma part|wait)\b"
)
_CONTRAST: Final = re.compile(
    r",? (?:and )?not (?:the |on |in |at |port )?[\w`.]+\b.{0,15}$|,? (?:et )?(?:pas|non) (?:le |la |sur |en |chez |au )?[\w`.]+\b.{0,15}$|\bnot [\w `.]{1,30} but\b|\bpas [\w `.]{1,30} mais\b"
)
_RETRACT: Final = re.compile(
    r"^(?:please |you can |tu peux |s'il te plait )?(?:now )?(?:forget|ignore|disregard|drop|oublie[rsz]?|ignore[rz]?|olvida)\b(?! to\b| de \w+er\b)(?: about)?(?P<what>[^,:;]{2,80})$"
    r"|^(?P<what2>.{3,80}?) (?:is|are) (?:no longer (?:true|valid|the case|needed|relevant|in force)|not true any ?more|obsolete|outdated|not valid any ?more)\b"
    r"|^(?P<what3>.{3,80}?) (?:n'est|ne sont) plus (?:vraie?s?|valables?|valides?|d'actualite|necessaires?|le cas)\b"
)
_NOT_SO: Final = re.compile(rf"{_ANNOUNCED.pattern}|\b(?:no|nope|not|non|sorry|pardon|oops|pas|rather|plutot)\b")
#: Words that may surround a bare value: "it's 3001", "le 3001, pas le 3000".
_FILLER: Final = re.compile(
    r"(?:[\s.,;:!`'()-]|\b(?:no|not|non|pas|et|and|mais|but|it's|it is|that's|c'est|rather|plutot|sorry|pardon|oops|wait|attends|actually|en fait|finalement|correction|the|le|la|on|sur|en|at|in|to|port|version|now|maintenant)\b)*"
)
_NOT_MEMORY: Final = re.compile(
    r"^ (?:it|that|this|ca|cela|about it|the (?:last|previous|error|warning|typo)|everything|tout|mon dernier|my last|what i said)\b[^,]{0,20}$|\b(?:error|warning|erreur|test failure)s?\b"
)
_MEMORY_WORDS: Final = re.compile(
    r"\b(?:(?:the|la|le|les|our|my|ma|mon|that|cette|what i said|ce que j'ai dit)\b ?)*(?:rules?|regles?|facts?|notes?|preferences?|decisions?|conventions?|consignes?|about|concerning|on|sur|concernant|a propos de|de|du|that|que|saying|with|avec)\b"
)


def find_correction(clause: Clause) -> ClauseKind | None:
    """Return the correction or retraction that the clause states, or None."""
    plain = clause.plain
    retracted = parse_retraction(plain)
    if retracted is not None:
        return ClauseKind(
            kind="fact",
            confidence=0.85,
            corrects=(retracted,),
            is_correction=True,
            is_retraction=True,
            sentiment="negative",
        )
    announced = _ANNOUNCED.search(clause.opening) is not None or _ANNOUNCED.match(plain) is not None
    change = says_change(plain)
    contrast = _CONTRAST.search(plain) is not None and bool(clause.values)
    if not change and not (announced and (contrast or clause.values)):
        return None
    old = old_values(plain)
    if not clause.values and not old:
        return None
    if not clause.values and len(plain.split()) < 5:
        return None
    choice = _CHOICE.search(plain) is not None and not _has_number(clause)
    return ClauseKind(kind="decision" if choice else "fact", confidence=0.85, corrects=old, is_correction=True)


def says_change(plain: str) -> bool:
    """Return whether the sentence itself states a change, without regard to its opening."""
    return _CHANGE.search(plain) is not None


def parse_retraction(plain: str) -> str | None:
    """Return what a pure retraction retracts, without words such as "the rule about"; None for anything else."""
    match = _RETRACT.match(plain.rstrip(" .!"))
    if match is None:
        return None
    if re.search(r"[,:;] \w+ \w+", plain):
        return None
    what = next(group for group in match.groups() if group is not None)
    if _NOT_MEMORY.search(what if what.startswith(" ") else f" {what}"):
        return None
    return _MEMORY_WORDS.sub(" ", what).strip(" .,'") or None


def is_bare(clause: Clause) -> bool:
    """Return whether a correction is only a value, without its subject: "En fait non, 3001."."""
    if not clause.values or _NOT_SO.search(clause.opening + clause.plain) is None:
        return False
    rest, position = "", 0
    for value in clause.values:
        rest, position = rest + clause.plain[position : value.start] + " ", value.end
    return _FILLER.fullmatch(rest + clause.plain[position:]) is not None


def old_values(plain: str) -> tuple[str, ...]:
    """Return the words that a folded sentence calls wrong or outdated."""
    found: dict[str, None] = {}
    for pattern in _OLD_VALUE_PATTERNS:
        for match in pattern.finditer(plain):
            for group in match.groups():
                if group and (word := group.strip("` .,")) and not _PRONOUN.fullmatch(word):
                    found[word] = None
    return tuple(found)


_PRONOUN: Final = re.compile(
    r"(?:it|this|that|them|him|her|us|me|you|ca|cela|lui|sure|yet|only|just|even|always|never|allowed|possible|true|need\w*|have|be|been|do|to|the|a|an|encore|besoin|que|seulement|vraiment|tres|trop|oui|there|here|all|any|so|too|very|really|mal|grave)(?: .*)?"
)


def _has_number(clause: Clause) -> bool:
    return any(
        value.kind in {"port", "version", "date", "quantity", "time", "number", "path", "url", "command"}
        for value in clause.values
    )
