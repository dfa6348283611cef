"""Specific values in a sentence: ports, versions, hosts, paths, commands, dates, quantities, names, tools.

They are what makes a sentence worth keeping (a fact without one is usually chatter), what tells two sentences with
the same words apart, and what an update replaces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from filrouge import lazy_re as re
from filrouge.understand.tools import AMBIGUOUS, CATEGORY
from filrouge.understand.words import fold

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
