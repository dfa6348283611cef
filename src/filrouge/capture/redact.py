"""Redaction of secrets and private passages, before text is sent or written anywhere.

Three things are cut: text between `<private>` and `</private>` (to the end if it is never closed), secrets with a
recognisable shape (`secret_rules`), and values that a keyword in English, French or Spanish assigns (`DB_PASSWORD=…`,
`mot de passe : …`). Each becomes `[redacted:KIND]`. A keyword alone is not enough: prose about passwords, code that
names a variable, hashes and paths stay.

The hook runs this with the standard library's regex engine; the daemon runs `redact_complete` afterwards. Any text is
accepted; nothing is raised.

Pure: no database, no file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Protocol, cast

from filrouge.capture import assignments, spoken_secrets
from filrouge.capture.secret_rules import RULES, Rule

MARK = "[redacted:"
#: One cut can join text that forms another match; a few rounds settle it.
ROUNDS = 4

_PRIVATE = r"(?i)<\s{0,4}(/?)\s{0,4}private\s{0,4}>"
_PEM = r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
#: A Kubernetes manifest whose values are all secret, whatever their names; and where its values stand.
_MANIFEST = r"\bkind: {1,4}[\"']?Secret\b"
_DATA = r"(?m)^([ \t]{0,40})(?:data|stringData):[ \t]{0,8}\r?\n((?:\1[ \t]+[^\n]*(?:\n|$))+)"
_ENTRY = r"(?m)^([ \t]+(?:[\w.-]+:[ \t]*)?)([^\s:][^\n]*)$"
#: What may follow an opening PEM line that is never closed: line ends, headers and base64; then a short line.
_PEM_BODY = r"(?:\s|\\[nr]|[A-Za-z0-9+/=]{20,}|(?:Proc-Type|DEK-Info|Version|Comment):[^\n\\]{0,200})*"
_PEM_TAIL = r"[A-Za-z0-9+/=]{0,64}"


class Match(Protocol):
    """The interface that the matches of both engines share."""

    @property
    def string(self) -> str: ...  # noqa: D102 (as in `re.Match`)
    def span(self, group: int = 0, /) -> tuple[int, int]: ...  # noqa: D102 (as in `re.Match`)


def redact(text: str) -> str:
    """Return the text without secrets and private passages."""
    return apply_until_stable(text, _once)


def redact_value(value: Any) -> Any:
    """Return the JSON value with every text redacted; a text whose key names a secret goes entirely."""
    return map_texts(value, redact)


def apply_until_stable(text: str, once: Callable[[str], str]) -> str:
    """Apply `once` until the text no longer changes, at most `ROUNDS` times."""
    for _ in range(ROUNDS):
        after = once(text)
        if after == text:
            break
        text = after
    return text


def map_texts(value: Any, clean: Callable[[str], str]) -> Any:
    """Return the JSON value with `clean` applied to every text, and texts under a secret's key cut entirely."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [_clean_argument(before, item, clean) for before, item in zip([None, *items], items, strict=False)]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        named = next((one for key in _NAMES if isinstance(one := fields.get(key), str)), "")
        return {
            key: _clean_field(named if named and key in _VALUES else key, item, clean) for key, item in fields.items()
        }
    return value


#: `{"name": "DB_PASSWORD", "value": "…"}`, as in lists of variables and headers.
_NAMES: Final = ("name", "Name", "key", "Key", "variable", "header")
_VALUES: Final = ("value", "Value")


def _clean_argument(before: Any, item: Any, clean: Callable[[str], str]) -> Any:
    """Clean a list item: as the argument of the flag before it, or as an ordinary value."""
    if isinstance(before, str) and before.startswith("-") and "=" not in before:
        return _clean_field(before.lstrip("-"), item, clean)
    return map_texts(item, clean)


def _clean_field(key: str, value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str) and not value.startswith((MARK, "-")) and assignments.is_secret_field(key, value):
        return mark(assignments.kind_of(key))
    return map_texts(value, clean)


def mark(kind: str) -> str:
    """Return the mark that replaces a secret of that kind."""
    return f"{MARK}{kind}]"


def without_blocks(text: str) -> str:
    """Return the text without private passages, private keys, and the data of Kubernetes secrets."""
    if "private" in text.lower():
        text = _without_private(text)
        if "-----BEGIN" in text:
            text = _without_keys(text)
    return _without_data(text) if _compiled(_MANIFEST).search(text) else text


def applies(rule: Rule, text: str, lowered: str) -> bool:
    """Return False if the rule cannot match."""
    where = lowered if rule.folded else text
    return any(hint in where for hint in rule.hint.split("|"))


def cutter(rule: Rule) -> Callable[[Match], str]:
    """Return the substitution of a rule: the group is cut, the rest of the match stays."""

    def cut(found: Match) -> str:
        start, end = found.span()
        inner = _group(found)
        secret = found.string[inner[0] : inner[1]]
        checked = not rule.checked or (any(c.isdigit() for c in secret) and not assignments.is_identifier(secret))
        if not checked or assignments.is_placeholder(secret.strip("\"'")):
            return found.string[start:end]
        return found.string[start : inner[0]] + mark(rule.kind) + found.string[inner[1] : end]

    return cut


def _group(found: Match) -> tuple[int, int]:
    try:
        inner = found.span(1)
    except (IndexError, re.error):
        return found.span()
    return inner if inner[0] >= 0 else found.span()


def _once(text: str) -> str:
    text = without_blocks(text)
    lowered = text.lower()
    for rule in RULES:
        if applies(rule, text, lowered):
            text = _compiled(rule.pattern).sub(cutter(rule), text)
    return spoken_secrets.redact(assignments.redact(text, mark), mark)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern at first use; compiling every rule would cost the hook more than all its other work."""
    return re.compile(pattern)


def _without_private(text: str) -> str:
    kept: list[str] = []
    start, depth = 0, 0
    for found in re.finditer(_PRIVATE, text):
        if found[1]:
            if depth == 1:
                start = found.end()
            depth = max(0, depth - 1)
        else:
            if depth == 0:
                kept += [text[start : found.start()], mark("private")]
            depth += 1
    return "".join([*kept, "" if depth else text[start:]])


def _without_keys(text: str) -> str:
    """Cut each private key up to its END line; one without an END line goes as far as it looks like a key."""
    kept: list[str] = []
    start, opened = 0, -1

    def close(end: int) -> None:
        nonlocal start
        kept.extend((text[start:opened], mark("private-key")))
        start = end

    body = 0
    for found in re.finditer(_PEM, text):
        if found[1] == "END" and opened >= 0:
            close(found.end())
            opened = -1
        elif found[1] == "BEGIN":
            if opened >= 0:
                close(_end_of_body(text, body))
            opened, body = found.start(), found.end()
    if opened >= 0:
        close(_end_of_body(text, body))
    return "".join([*kept, text[start:]])


def _without_data(text: str) -> str:
    """Cut the values of secret manifests; a text may also contain other manifests."""

    def entry(found: re.Match[str]) -> str:
        is_kept = found[2].startswith(("|", ">")) or assignments.is_placeholder(found[2])
        return found[0] if is_kept else found[1] + mark("secret")

    def data(found: re.Match[str]) -> str:
        return found[0][: found.start(2) - found.start()] + _compiled(_ENTRY).sub(entry, found[2])

    manifests = text.split("\n---")
    secret = [_compiled(_DATA).sub(data, one) if _compiled(_MANIFEST).search(one) else one for one in manifests]
    return "\n---".join(secret)


def _end_of_body(text: str, start: int) -> int:
    body = _compiled(_PEM_BODY).match(text, start)
    if body is None or not body[0].strip():
        return start
    tail = _compiled(_PEM_TAIL).match(text, body.end())
    return tail.end() if tail else body.end()
