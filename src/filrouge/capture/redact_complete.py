"""Complete redaction in the daemon, before anything is stored.

It applies the rules and marks of the hook on RE2, which runs in linear time on any text. It adds one rule that would be
too slow in the hook: long random-looking words close to a keyword. Randomness alone proves nothing (hashes and ids are
random too), so the keyword is required.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

import re2  # pyright: ignore[reportMissingTypeStubs, reportMissingImports]

from filrouge.capture import assignments, spoken_secrets
from filrouge.capture.redact import MARK, Match, apply_until_stable, cutter, map_texts, mark, without_blocks
from filrouge.capture.secret_rules import RULES
from filrouge.core.lazy_re import made_when_used


class _Pattern(Protocol):
    """A compiled RE2 pattern."""

    def sub(self, repl: Callable[[Any], str], text: str, /) -> str: ...


_NEAR: Final = (
    r"(?i)\b(?:key|token|secret|credentials?|auth|password|passwd|passphrase|signature|cl[ée]|jeton"
    r"|mot de passe|contraseña|clave)\b[^\n]{0,24}?[ \t:=\"'`(]([A-Za-z0-9+/_=-]{20,200})"
)
#: Bits per character; English prose stays below 3, random base64 of twenty characters is above 3.8.
_RANDOM = 3.6


def redact_completely(text: str) -> str:
    """Return the text without secrets and private passages: everything that `redact` cuts, and more."""
    return apply_until_stable(text, _once)


def redact_value_completely(value: Any) -> Any:
    """Return the JSON value with every text redacted; keys stay."""
    return map_texts(value, redact_completely)


def _compile(pattern: str) -> _Pattern:
    return made_when_used(lambda: cast("_Pattern", re2.compile(pattern, _OPTIONS)))  # pyright: ignore[reportUnknownMemberType]


def _quiet() -> Any:
    """Return RE2 options without its stderr message when a text exhausts the cache; RE2 just continues more slowly."""
    options: Any = re2.Options()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    options.log_errors = False
    options.max_mem = 32 << 20
    return options


_OPTIONS: Final = _quiet()
#: Per rule: whether it ignores case, its hints, its pattern, and its substitution.
_COMPILED: Final = tuple((rule.folded, rule.hint.split("|"), _compile(rule.pattern), cutter(rule)) for rule in RULES)
_NEARBY: Final = _compile(_NEAR)


def _once(text: str) -> str:
    text = without_blocks(text.encode("utf-8", "replace").decode("utf-8"))
    lowered = text.lower()
    for folded, hints, pattern, cut in _COMPILED:
        where = lowered if folded else text
        for hint in hints:
            if hint in where:
                text = pattern.sub(cut, text)
                break
    text = spoken_secrets.redact(assignments.redact(text, mark), mark)
    near = any(hint in lowered for hint in (*assignments.HINTS, "auth", "signature"))
    return _NEARBY.sub(_cut_random, text) if near else text


def _cut_random(found: Match) -> str:
    (start, end), (first, last) = found.span(), found.span(1)
    word = found.string[first:last]
    if word.startswith(MARK) or not looks_random(word):
        return found.string[start:end]
    return found.string[start:first] + mark("secret") + found.string[last:end]


def looks_random(word: str) -> bool:
    """Return True for a word of mixed case with digits and high entropy; hashes, ids and paths are not random."""
    if assignments.names_algorithm(word):
        return False
    mixed = any(map(str.isupper, word)) and any(map(str.islower, word)) and any(map(str.isdigit, word))
    return mixed and word.count("/") < 3 and _entropy(word) >= _RANDOM


def _entropy(word: str) -> float:
    shares = (word.count(character) / len(word) for character in set(word))
    return -sum(share * math.log2(share) for share in shares)
