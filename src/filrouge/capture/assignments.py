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
    r"pass(?:word|wd|phrase|code)|pwd|mot[ _-]de[ _-]passe|mdp|phrase[ _-]secr[eè]te"
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
    return _guarded(value.strip(), password=last[0][1] is not None, strict=True)


def _assigned(text: str, keyword: re.Match[str]) -> Assigned | None:
    """The secret that this keyword assigns, or None where it assigns none."""
    rest = _compiled(_REST).match(text, keyword.end())
    bound = _compiled(_BOUND).match(text, rest.end()) if rest else None
    value = _compiled(_VALUE).match(text, bound.end()) if bound else None
    if rest is None or bound is None or value is None:
        return None
    quoted = value.lastindex != _WORD
    start, end = value.span(value.lastindex or 0)
    end = end if quoted else _trimmed(text, start, end)
    before = re.search(_NAME_BEFORE, text[max(0, keyword.start() - 40) : keyword.start()])
    flag = before is not None and before[0].startswith("--")
    if re.search(_ABOUT, rest[0].rstrip("\"'`\\)")) or not (flag or bound[0].strip()):
        return None
    password, said = keyword[1] is not None, bound[0].strip(" \t:=>").isalpha()
    strict = quoted or flag or ("=" in bound[0] and not bound[0].startswith(" "))
    alone = password and not said and _ends_line(text, end)
    called = not quoted and text[end : end + 1] in ("(", "[", "{")
    if called or not _guarded(text[start:end], password=password, strict=(strict and not said) or alone):
        return None
    return Assigned(start, end, "password" if password else "secret")


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
    while end > start + 3 and text[end - 1] in ".:?!)]":
        end -= 1
    return end


def _ends_line(text: str, end: int) -> bool:
    return text[end : end + 40].lstrip(" .\t").startswith(("\n", "\r", ",", ";")) or not text[end : end + 40].strip()
