"""Embedders: their options and registry, checked input and output, remembered vectors, and windows of long texts.

An embedder is found by its name through the entry points `filrouge.embedders`.
"""

from __future__ import annotations

import inspect
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.metadata import EntryPoint, entry_points
from threading import Lock
from typing import Any, Final

import numpy as np

from filrouge.core import installation
from filrouge.core import text as re
from filrouge.core.errors import BadConfig, EmbedderUnavailable
from filrouge.core.protocols import Embedder, Seeking, Vector, Vectors
from filrouge.providers.models import EmbeddingSpace, EmbeddingUsage

# What a factory of embedders may be told: which model, where, how long its vectors are, and who counts the cost.
#
# A factory that wants to know has a parameter named `options`; one that needs nothing is a class without arguments.
# The environment comes in as a value, and only the factory of the provider that was chosen looks for its key there,
# so a key that happens to be set never switches on spending.

Spent = Callable[[EmbeddingUsage], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedderOptions:
    """How an embedder is to be made.

    Attributes:
        model: the part of `embedding_model` after the provider and a colon; empty = none was named.
        url: address of the server; empty = the provider's own.
        dimensions: length of the vectors; 0 = the model's own.
        environ: the environment, for keys and addresses; never shown.
        spent: called after each paid or counted request, from any thread; None = only the embedder's own total is kept.
        query_seconds: the longest a question may take, retries included, because a prompt waits for it.
        passages_seconds: the longest one request for passages may take; retries come on top.
        rest_seconds: how long an embedder is left alone after repeated failures.
    """

    model: str = ""
    url: str = ""
    dimensions: int = 0
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    spent: Spent | None = None
    query_seconds: float = 2.0
    passages_seconds: float = 30.0
    rest_seconds: float = 30.0

    def model_of(self, provider: str, example: str) -> str:
        """The model's name.

        Raises:
            BadConfig: none was named.
        """
        if not self.model.strip():
            raise BadConfig(
                f"`{provider}` needs the name of a model.",
                remedy=f"Set `embedding_model` to `{provider}:{example}`, for example.",
            )
        return self.model.strip()

    def key(self, variable: str) -> str:
        """The API key of that variable, or nothing.

        Raises:
            BadConfig: it holds what cannot be in a key, such as the end of a line.
        """
        found = self.environ.get(variable, "").strip()
        if not all("!" <= character <= "~" for character in found):
            raise BadConfig(f"{variable} holds characters that no key has.", remedy=f"Set {variable} again.")
        return found


# What goes to a model that is not ours and what comes back, made fit and held against what was asked.
#
# As many vectors as texts, each of the length of its space, every number finite, none of length zero: else the whole
# answer is worthless, since a vector that is wrong is never found again and nobody would know. Vectors leave here
# with length 1, whatever the model does.


def sendable(text: str) -> str:
    """The text without what cannot be encoded (a lone surrogate) or ends a text elsewhere (NUL)."""
    return text.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8")


def unit_vectors(raw: Sequence[Any], *, texts: int, dimension: int | None, who: str) -> Vectors:
    """The vectors, each of length 1.

    Args:
        raw: lists of numbers.
        texts: how many there must be.
        dimension: their length; None = not known yet.
        who: answered, for the message.

    Raises:
        EmbedderUnavailable: the answer cannot be used; says why.
    """
    if len(raw) != texts:
        raise EmbedderUnavailable(f"{who} answered with {len(raw)} vectors for {texts} texts.")
    try:
        found = np.array([np.asarray(row, dtype=np.float64) for row in raw], dtype=np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise EmbedderUnavailable(f"{who} answered with something that is no list of numbers.") from error
    if found.ndim != 2 or found.shape[1] == 0:
        raise EmbedderUnavailable(f"{who} answered with something that is no list of numbers.")
    if dimension is not None and found.shape[1] != dimension:
        raise EmbedderUnavailable(
            f"{who} answered with vectors of length {found.shape[1]} instead of {dimension}; the two are never mixed.",
            remedy="The model on the server has changed, or cannot be shortened: set `embedding_model` or"
            " `embedding_dimensions` to what it is and start the daemon again.",
        )
    if not np.isfinite(found).all():
        raise EmbedderUnavailable(f"{who} answered with numbers that are not finite.")
    largest = np.abs(found).max(axis=1, keepdims=True)
    if not largest.all():
        raise EmbedderUnavailable(f"{who} answered with a vector of zeros.")
    found /= largest  # so that squares neither overflow nor vanish
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


# Embedders by name, found through the entry points that a stranger's embedder would use.
#
# A name is that of an entry point (`e5`), or that and the name of a model (`ollama:nomic-embed-text`). An entry point
# is a class or function: with a parameter named `options` it is given `EmbedderOptions`, else it is called with
# nothing.

GROUP = "filrouge.embedders"
#: Which extra brings a package.
_EXTRAS: Final = {"httpx": "remote", "tenacity": "remote"}


def embedder(name: str, options: EmbedderOptions | None = None) -> Embedder:
    """The embedder registered as `name`, or as its part before a colon.

    Raises:
        BadConfig: there is none of that name (names those that exist), it takes no model, or its options do not fit.
        EmbedderUnavailable: a package that it needs is not installed.
    """
    found = _registered()
    if not {name, name.partition(":")[0]} & found.keys():  # its package may have been installed since
        _registered.cache_clear()
        found = _registered()
    provider, colon, model = (name, "", "") if name in found else name.partition(":")
    if provider not in found:
        raise BadConfig(f"There is no embedder {name!r}; there are: {', '.join(sorted(found))}.")
    factory = _load(found[provider])
    if "options" in inspect.signature(factory).parameters:
        return factory(options=replace(options or EmbedderOptions(), model=model))
    if colon:
        raise BadConfig(f"The embedder {provider!r} takes no model; it was given {model!r}.")
    return factory()


def plain_names() -> list[str]:
    """Every embedder that needs no further choice: no model to name, no address, no key."""
    found: list[str] = []
    for entry in entry_points(group=GROUP):
        try:
            if "options" not in inspect.signature(_load(entry)).parameters:
                found.append(entry.name)
        except EmbedderUnavailable:  # its package is not installed
            continue
    return sorted(found)


@cache
def _registered() -> dict[str, EntryPoint]:
    """Those that were installed when this was first asked, by name: every installed package is read for them."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _load(entry: EntryPoint) -> Callable[..., Embedder]:
    try:
        return entry.load()
    except ImportError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        command = installation.add_extra(extra) if extra else installation.add(error.name or entry.value)
        raise EmbedderUnavailable(
            f"The embedder {entry.name!r} cannot be loaded: {error}.", remedy=f"Install it: `{command}`."
        ) from error


# Vectors of texts that were embedded before, by the content of the text.
#
# The same prompt comes several times an hour, the same sentence comes from the transcript and from the hook, and a
# vector costs milliseconds or money. What is kept is a digest and a vector, never the text; the least recently used
# go first. Questions and passages are apart, since most models treat them differently.

MOST_BYTES: Final = 8 * 1024 * 1024
#: About what an entry costs beside its numbers: the digest, the array's head, its place in the order.
_ENTRY_BYTES: Final = 300


class Remembering:
    """Implements `Embedder` and `Seeking` with another one, which sees only what is not remembered.

    Safe for several threads, of which two that ask for the same unknown text at once may both reach the model.
    """

    def __init__(self, embedder: Embedder, most_bytes: int = MOST_BYTES) -> None:
        self._embedder = embedder
        self._most = most_bytes
        self._lock = Lock()
        self._kept: OrderedDict[bytes, Vector] = OrderedDict()
        self._bytes = 0
        self._generation = 0
        self._hits = self._misses = 0

    @property
    def inner(self) -> Embedder:
        """The embedder behind, for what only it can answer (its health, its cost)."""
        return self._embedder

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the embedder behind."""
        return self._embedder.space

    @property
    def hits(self) -> int:
        """Texts that were answered from memory."""
        return self._hits

    @property
    def misses(self) -> int:
        """Texts that the model had to read."""
        return self._misses

    def query(self, text: str) -> Vector:
        """The vector of a question."""
        key = _digest("query", text)
        known, generation = self._look_up([key])
        if key not in known:
            known[key] = self._embedder.query(text)
            self._keep(known, generation)
        return known[key].copy()

    @property
    def nothing(self) -> Vector | None:
        """What prompts that need nothing point at; None where the embedder behind did not learn that."""
        return self._embedder.nothing if isinstance(self._embedder, Seeking) else None

    def seek(self, text: str) -> Vector | None:
        """The vector of what a prompt needs; None where the embedder behind did not learn that."""
        if not isinstance(self._embedder, Seeking):
            return None
        key = _digest("seek", text)
        known, generation = self._look_up([key])
        if key in known:
            return known[key].copy()
        vector = self._embedder.seek(text)
        if vector is not None:
            self._keep({key: vector}, generation)
        return vector

    @property
    def revision(self) -> str:
        """What makes the vectors of `sought`; empty where the embedder behind did not learn that."""
        return self._embedder.revision if isinstance(self._embedder, Seeking) else ""

    def sought(self, statements: Sequence[tuple[str, str]]) -> Vectors | None:
        """The vectors under which statements are found by what needs them; they are stored, so none is remembered."""
        return self._embedder.sought(statements) if isinstance(self._embedder, Seeking) else None

    def passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts; those not remembered reach the model in one call, each once."""
        keys = [_digest("passage", text) for text in texts]
        found, generation = self._look_up(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing or not texts:
            made = dict(zip(missing, self._embedder.passages(list(missing.values())), strict=True))
            self._keep(made, generation)
            found |= made
        return np.stack([found[key] for key in keys]) if keys else self._embedder.passages([])

    def forget_all(self) -> None:
        """Keep nothing of what came before, not even of what is being embedded now: part of erasing a memory."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0
            self._generation += 1

    def close(self) -> None:
        """Let the embedder behind give back what it holds, if it holds anything."""
        close = getattr(self._embedder, "close", None)
        if callable(close):
            close()

    def _look_up(self, keys: Sequence[bytes]) -> tuple[dict[bytes, Vector], int]:
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
            for key in found:
                self._kept.move_to_end(key)
            self._hits += sum(key in found for key in keys)
            self._misses += len(set(keys) - found.keys())
            return found, self._generation

    def _keep(self, made: dict[bytes, Vector], generation: int) -> None:
        with self._lock:
            if generation != self._generation:  # forgotten while the model was at work
                return
            for key, vector in made.items():
                if key not in self._kept:
                    self._kept[key] = vector.copy()  # a row alone: a view would hold its whole batch
                    self._bytes += vector.nbytes + _ENTRY_BYTES
            while self._bytes > self._most:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= oldest.nbytes + _ENTRY_BYTES


def _digest(kind: str, text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, person=kind.encode()).digest()


# Long texts are embedded in windows, so that nothing is cut silently.
#
# The multilingual-e5 models read 512 tokens. A text is split at sentence ends into pieces that fit, and an item's
# score is that of its best window. Tokens are estimated from above without a tokenizer, whose table alone would cost
# the daemon 45 MB: a letter, digit or sign of any script is at most one token after compatibility normalisation, and
# a Latin word that reads like one is at most half its letters and one more. Only a text that repeats one of a few
# thousand unspeakable words could pass the model's limit.

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
