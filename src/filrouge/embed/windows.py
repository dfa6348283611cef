"""Long texts are embedded in windows, so that nothing is cut silently.

The multilingual-e5 models read 512 tokens. A text is split at sentence ends into pieces that fit, and an item's
score is that of its best window. Tokens are estimated from above without a tokenizer, whose table alone would cost
the daemon 45 MB: a letter, digit or sign of any script is at most one token after compatibility normalisation, and a
Latin word that reads like one is at most half its letters and one more. Only a text that repeats one of a few
thousand unspeakable words could pass the model's limit.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from filrouge import lazy_re as re

#: Of the 512 that the model reads, two are the marks of beginning and end, and "passage: " takes some.
WINDOW_TOKENS: Final = 480
#: Ends of sentences: with a space behind them, or without one in the scripts that have none.
_BREAK: Final = re.compile(r"(?<=[.!?…])\s+|\n+|(?<=[。！？])")
_RUN: Final = re.compile(r"[A-ZÀ-ÖØ-Þ]?[a-zß-öø-ÿœ]+|[A-Z]+")
_VOWELS: Final = "aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüýÿœ"
_ACCENTS: Final = re.compile(r"[^a-z]")
#: What the model's vocabulary writes letter by letter: rare letters together, runs without a vowel or of vowels.
_UNLIKE_A_WORD: Final = re.compile(f"[jqxz].?[jqxzwk]|[wk][jqxzwk]|[^{_VOWELS}]{{4}}|[{_VOWELS}]{{4}}|^[^{_VOWELS}]*$")


def windows(text: str, size: int = WINDOW_TOKENS) -> list[str]:
    """Split a text into pieces of at most `size` estimated tokens, at sentence ends, else between words.

    Only a word that is longer than a window is cut. No character but white space is lost.
    """
    pieces: list[str] = []
    current: list[str] = []
    filled = 0
    for sentence in _BREAK.split(text.strip()):
        for part, tokens in _fitting(sentence, size):
            if current and filled + tokens > size:
                pieces.append(" ".join(current))
                current, filled = [], 0
            current.append(part)
            filled += tokens
    return [*pieces, " ".join(current)] if current or not pieces else pieces


def estimated_tokens(text: str) -> int:
    """At least as many tokens as a multilingual-e5 model reads in the text; about twice as many for prose."""
    return sum(map(_tokens, text.split()))


def _fitting(sentence: str, size: int) -> Iterator[tuple[str, int]]:
    """Parts of a sentence that fit, each with its estimate."""
    words: list[str] = []
    filled = 0
    for word in sentence.split():
        for part, tokens in _cut(word, size):
            if words and filled + tokens > size:
                yield " ".join(words), filled
                words, filled = [], 0
            words.append(part)
            filled += tokens
    if words:
        yield " ".join(words), filled


def _cut(word: str, size: int) -> Iterator[tuple[str, int]]:
    """The word, in parts if it is longer than a window: each character counts for all that it stands for."""
    tokens = _tokens(word)
    if tokens <= size:
        yield word, tokens
        return
    start, filled = 0, 1
    for at, character in enumerate(word):
        cost = len(unicodedata.normalize("NFKC", character))
        if at > start and filled + cost > size:
            yield word[start:at], filled
            start, filled = at, 1
        filled += cost
    yield word[start:], filled


@lru_cache(maxsize=20_000)
def _short(word: str) -> int:
    return _counted(word)


def _tokens(word: str) -> int:
    """The estimate of a word; short ones recur."""
    return _short(word) if len(word) <= 20 else _counted(word)


def _counted(word: str) -> int:
    plain = unicodedata.normalize("NFKC", word)
    tokens, at = 0, 0
    for run in _RUN.finditer(plain):
        tokens += run.start() - at + _letters(run.group())
        at = run.end()
    tokens += len(plain) - at
    # The sign for the start of a word joins a letter's token, and stands alone before most other signs.
    return tokens if plain[:1].isascii() and plain[:1].isalpha() else tokens + 1


def _letters(run: str) -> int:
    low = run.lower()
    if len(run) < 2 or run.isupper() or _UNLIKE_A_WORD.search(low) or (len(run) == 3 and low[0] in _VOWELS):
        return len(run)
    return min(len(run), (len(run) + 2 + len(_ACCENTS.findall(low))) // 2)
