"""Values that a keyword gives away: `DB_PASSWORD=…`, `"apiKey": "…"`, `--token …`, `mot de passe : …`.

Finding the keyword is cheap and says little; most of this module says what is not a secret. Passwords may
be any text, so their rule is loose where the form is strict (`NAME=value`, a quoted value) and strict in
prose. Keys and tokens are made by machines, so a value without a digit is no token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple

_SPOKEN = (
    r"pass(?:word|wd|phrase|code|(?<![a-z]pass)(?=[\"'`\\]{0,4}\)?\s{0,8}(?:[=:]|$)))"
    r"|pwd|mot[ _-]de[ _-]passe|mdp|phrase[ _-]secr[eè]te"
    r"|contrase(?:ñ|n)a|palabra[ _-]clave|clave[ _-]secreta"
)
_MADE = (
    r"secret|token|credentials?|api[ _-]?key|account[_-]?key|shared[_-]?access[_-]?(?:key|signature)"
    r"|(?:access|private|encryption|signing|master|auth|service|license)[_-]?key"
    r"|cl[eé][ _-](?:d[e' ]{1,3})?api|clave[ _-](?:de[ _-])?api|jeton"
)
HINTS: Final = (
    "pass", "pwd", "mdp", "secr", "contrase", "clave", "token", "credential", "key", "clé", "cle", "jeton",
    "shared",
)  # fmt: skip
#: Searched in folded text, so it needs no flag and the engine can skip by first letters.
_KEYWORD = rf"({_SPOKEN})|(?:{_MADE})"
#: What follows a keyword, each piece matched once where the former ended: nothing is ever tried twice.
_REST = r"[A-Za-z0-9_.-]{0,40}[\"'`\\]{0,4}\)?"
_BOUND = r"\s{0,8}(?:=>|:=|[=:])\s{0,8}|\s{1,4}(?:is|est|es|was|était|vaut)\s{1,4}:?\s{0,2}|[ ]{1,4}"
_VALUE = (
    r"(?:\\{1,3}[\"']([^\"'\\\n]{1,400})|\"((?:[^\"\\\n]|\\.){1,400})|'((?:[^'\\\n]|\\.){1,400})"
    r"|`([^`\n]{1,400})|([^\s\"'`,;<>(){}|&\\]{3,400}))"
)
_WORD = 5
#: What may stand between a keyword and its value in a sentence: `du serveur est`, `for prod:`, `admin :`.
_DESCRIBED = (
    r"((?:[ ]{1,3}[^\W\d_][\w'’.@-]{0,30}){1,3})"
    r"(?:[ ]{0,3}:|[ ]{1,3}(?:is|est|es|was|était|vaut)[ ]{0,2}:?(?=[ ]))[ ]{0,3}"
)
#: A sentence that says this of a keyword tells about it, and its value is no secret.
_TOPIC = (
    r"(?i)\b(?:algorithms?|algo|hash(?:ed|ing|es)?|types?|formats?|encod\w+|encrypt\w+|polic\w+|rules?|lengths?|size"
    r"|files?|path|urls?|endpoints?|headers?|version|ids?|names?|limits?|counts?|fields?|columns?|tests?|errors?|issues?"
    r"|bugs?|tickets?|commits?|modules?|checks?|expir\w+|since|until|from|at|on|line|cost|rounds|usage|budget|window)\b"
)
#: Numbers with a unit, dates, versions, file names, names of algorithms: they mix letters and digits too.
_COMMON = (
    r"(?i)(?:[~<>]?\d[\d.,:]*[a-z%µ/]{0,8}|\d{4}-\d\d-\d\d\S*|v?\d+(?:\.\d+)+\S*|[\w./-]+\.[a-z]{1,5}|\S*::\S*"
    r"|[\w.-]*(?:/[\w.-]*){1,9}|https?:.*|(?:sha|md|hs|rs|es|aes|utf|base|oauth|argon|bcrypt|pbkdf|test|iso|rfc)-?_?\d*\w*"
    r"|[a-z]+[_-]?\d{1,2}|#\S*)$"
)
#: Endings of a name that is about a secret without holding it.
_ABOUT = (
    r"(?i)(?:hash(?:ed)?|digest|file|path|dir|url|uri|name|id|ids|type|len|length|count|limit|policy|hint|field"
    r"|label|expiry|expires|expiration|ttl|age|format|regex|pattern|prefix|version|usage|used|required|enabled"
    r"|reset|manager|store|provider|s)$"
)
_PLAIN = (
    r"(?i)(?:true|false|null|none|nil|undefined|optional|required|str|string|text|bytes|int|any|todo|unknown"
    r"|missing|empty|passw(?:or)?d|secret|token|key|object|boolean|number|x+|\*+|\.+|-+|_+|…+)$"
)
_CODE = r"(?:[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+|[A-Za-z_]+)$"
_PATH = r"(?:~|\.{1,2})?/[\w.@~-]*(?:/[\w.@~-]*)*$"
_NAME_BEFORE = r"[A-Za-z0-9_.-]{0,40}$"
_SHAPED = r"[A-Za-z0-9+/=_.:~!@#%^*-]{8,}$"


class Assigned(NamedTuple):
    """Where an assigned secret stands in a text, and of which kind it is."""

    start: int
    end: int
    kind: str


def redact(text: str, mark: Callable[[str], str]) -> str:
    """The text with every assigned secret replaced by `mark(kind)`."""
    folded = fold(text)
    if not any(hint in folded for hint in HINTS):
        return text
    kept: list[str] = []
    place = 0
    for found in find(text, folded):
        kept += [text[place : found.start], mark(found.kind)]
        place = found.end
    return "".join([*kept, text[place:]])


def find(text: str, folded: str) -> Iterator[Assigned]:
    """Every assigned secret in `text`, in order; `folded` is `fold(text)`."""
    keyword = _compiled(_KEYWORD)
    found = keyword.search(folded)
    while found is not None:
        secret = _assigned(text, found)
        if secret is not None:
            yield secret
        found = keyword.search(folded, secret.end if secret is not None else found.end())


def fold(text: str) -> str:
    """The text in lower case, character for character."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled at first use: most of what a hook sees holds no keyword at all."""
    return re.compile(pattern)


def kind_of(name: str) -> str:
    """The kind of secret that a field of that name holds."""
    return "password" if _compiled(_SPOKEN).search(fold(name)) else "secret"


def is_secret_field(name: str, value: str) -> bool:
    """True where a JSON field of that name gives `value` away."""
    lowered = name.lower()
    if not any(hint in lowered for hint in HINTS):
        return False
    last = list(_compiled(_KEYWORD).finditer(fold(name)))[-1:]
    if not last or re.search(_ABOUT, name[last[0].end() :]):
        return False
    if name.lower() == "pass" and not _telling(value.strip(), password=True):
        return False
    return _guarded(value.strip(), password=last[0][1] is not None, strict=True)


def _assigned(text: str, keyword: re.Match[str]) -> Assigned | None:
    """The secret that this keyword assigns, or None where it assigns none."""
    rest = _compiled(_REST).match(text, keyword.end())
    if rest is None or re.search(_ABOUT, rest[0].rstrip("\"'`\\)")):
        return None
    return _bound(text, keyword, rest.end()) or _described(text, keyword, rest.end())


def _bound(text: str, keyword: re.Match[str], place: int) -> Assigned | None:
    """The secret that follows the keyword at once: `NAME=value`, `--name value`, `name is value`."""
    bound = _compiled(_BOUND).match(text, place)
    value = _compiled(_VALUE).match(text, bound.end()) if bound else None
    if bound is None or value is None:
        return None
    start, end, quoted = _extent(text, value, prose="=" not in bound[0])
    before = re.search(_NAME_BEFORE, text[max(0, keyword.start() - 40) : keyword.start()])
    flag = before is not None and before[0].startswith("--")
    if not (flag or bound[0].strip()):
        return None
    password, said = keyword[1] is not None, bound[0].strip(" \t:=>").isalpha()
    strict = quoted or flag or ("=" in bound[0] and not bound[0].startswith(" "))
    alone = password and not said and _ends_line(text, end)
    called = not quoted and text[end : end + 1] in ("(", "[", "{")
    if keyword[0] == "pass" and not (before and before[0]) and not _telling(text[start:end], password=True):
        return None
    if called or not _guarded(text[start:end], password=password, strict=(strict and not said) or alone):
        return None
    return Assigned(start, end, "password" if password else "secret")


def _described(text: str, keyword: re.Match[str], place: int) -> Assigned | None:
    """The secret that follows a keyword after a word or three, if it can be nothing else."""
    bound = _compiled(_DESCRIBED).match(text, place)
    value = _compiled(_VALUE).match(text, bound.end()) if bound else None
    if bound is None or value is None or keyword[0] == "pass" or _compiled(_TOPIC).search(bound[1]):
        return None
    start, end, quoted = _extent(text, value, prose=True)
    password = keyword[1] is not None
    called = not quoted and text[end : end + 1] in ("(", "[", "{")
    if called or not _telling(text[start:end], password=password):
        return None
    return Assigned(start, end, "password" if password else "secret")


def _extent(text: str, value: re.Match[str], *, prose: bool) -> tuple[int, int, bool]:
    """Where a value starts and ends, and whether it is quoted; in prose an `&` separates nothing."""
    start, end = value.span(value.lastindex or 0)
    if value.lastindex != _WORD:
        return start, end, True
    more = _compiled(r"&[^\s\"'`,;<>(){}|\\]{1,400}").match(text, end) if prose else None
    return start, _trimmed(text, start, more.end() if more else end), False


def _telling(value: str, *, password: bool) -> bool:
    """True for a value that looks like a secret by itself."""
    letters, digits = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    marked = password and any(c in "!@#$%^&*?+=~" for c in value.rstrip("?!"))
    if len(value) < (6 if password else 8) or not letters or not (digits or marked) or " " in value:
        return False
    if _compiled(_COMMON).match(value) or value.startswith(("[redacted:", "$", "<", "{", "%(", "/")):
        return False
    return password or bool(re.match(_SHAPED, value))


def _guarded(value: str, *, password: bool, strict: bool) -> bool:
    """True where `value`, bound to a keyword, is to be hidden; `strict` where the form leaves no doubt."""
    if len(value) < 3 or value.startswith(("[redacted:", "$", "<", "{", "%(", "%{")) or re.match(_PLAIN, value):
        return False
    if re.match(_PATH, value) and not any(c.isdigit() for c in value):
        return False
    odd = any(c.isdigit() for c in value) or not value.replace("-", "").replace("_", "").isalpha()
    if password:
        return strict or (odd and not re.match(_CODE, value))
    digits = any(c.isdigit() for c in value)
    if " " in value or value.isdigit() or not (digits or (strict and odd and len(value) >= 12)):
        return False
    return len(value) >= 6 if strict else bool(re.match(_SHAPED, value)) and not re.match(_CODE, value)


def _trimmed(text: str, start: int, end: int) -> int:
    """The end of a bare word without the punctuation of the sentence it ends."""
    while end > start + 3 and text[end - 1] in ".:?)]":
        end -= 1
    return end


def _ends_line(text: str, end: int) -> bool:
    return text[end : end + 40].lstrip(" .\t").startswith(("\n", "\r", ",", ";")) or not text[end : end + 40].strip()
