"""Embedders: options, registry, checked input and output, a vector cache, and text windows.

An embedder is found by its name through the entry points `filrouge.embedders`. `CachingEmbedder` caches vectors by a
digest of the text. `windows` splits long texts.
"""

from __future__ import annotations

import inspect
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.metadata import EntryPoint, entry_points
from threading import Lock
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from filrouge.core import installation
from filrouge.core import lazy_re as re
from filrouge.core.errors import BadConfig, EmbedderUnavailable
from filrouge.core.protocols import Embedder, PartEmbedder, PromptEmbedder, Vector, Vectors
from filrouge.providers.models import EmbeddingSpace, EmbeddingUsage, PassageParts

# Options of an embedder factory: model, address, vector length, and the callback for costs. A factory that uses options
# has a parameter named `options`; otherwise it is called without arguments. The environment is passed as a value, and
# only the factory of the chosen provider reads its key there, so a key that happens to be set never causes costs.

UsageCallback = Callable[[EmbeddingUsage], None]


class EmbedderOptions(Struct, frozen=True, kw_only=True):
    """How to create an embedder.

    Attributes:
        model: the part of `embedding_model` after the provider and a colon; empty = none was named.
        url: address of the server; empty = the provider's own.
        dimensions: length of the vectors; 0 = the model's default.
        environ: the environment, for keys and addresses; never shown.
        spent: called after each paid or counted request, from any thread; None = only the embedder keeps a total.
        query_seconds: time limit for a question, retries included, because a prompt waits for it.
        passages_seconds: time limit for one request for passages, retries excluded.
        rest_seconds: how long an embedder is not called after repeated failures.
    """

    model: str = ""
    url: str = ""
    dimensions: int = 0
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    spent: UsageCallback | None = None
    query_seconds: float = 2.0
    passages_seconds: float = 30.0
    rest_seconds: float = 30.0

    def __repr__(self) -> str:
        return f"EmbedderOptions(model={self.model!r}, url={self.url!r})"  # never the environment

    def model_of(self, provider: str, example: str) -> str:
        """Return the model's name.

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
        """Return the API key in that variable, or an empty string.

        Raises:
            BadConfig: it has characters that a key cannot contain, such as a line break.
        """
        key = self.environ.get(variable, "").strip()
        if not all("!" <= character <= "~" for character in key):
            raise BadConfig(f"{variable} holds characters that no key has.", remedy=f"Set {variable} again.")
        return key


# Input and output of third-party models. A reply must have one vector per text, each with the length of its space, only
# finite numbers, and no zero vector. Otherwise the whole reply is rejected: a text with a wrong vector would silently
# never be found. Vectors are normalised to length 1, whatever the model returns.


def without_invalid_characters(text: str) -> str:
    """Return the text without lone surrogates, which cannot be encoded, and NUL, which ends a C string."""
    return text.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8")


def space_of(provider: str, model: str, dimension: int, *, pooling: str, prefix: str) -> EmbeddingSpace:
    """Return the space of a provider's model, whose revision and calibration are unknown."""
    return EmbeddingSpace(
        id=f"{provider}/{model}/{dimension}/{pooling}/{prefix}",
        model=model,
        revision=provider,
        dimension=dimension,
        pooling=pooling,
        prefix=prefix,
    )


def unit_vectors(raw: Sequence[Any], *, texts: int, dimension: int | None, sender: str) -> Vectors:
    """Return the vectors, each normalised to length 1.

    Args:
        raw: lists of numbers.
        texts: the required number of vectors.
        dimension: their required length; None = not known yet.
        sender: the name of the sender, for the error message.

    Raises:
        EmbedderUnavailable: the answer cannot be used; the message gives the reason.
    """
    if len(raw) != texts:
        raise EmbedderUnavailable(f"{sender} answered with {len(raw)} vectors for {texts} texts.")
    try:
        vectors = np.array([np.asarray(row, dtype=np.float64) for row in raw], dtype=np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise EmbedderUnavailable(f"{sender} returned an invalid vector (not a list of numbers).") from error
    if vectors.ndim != 2 or vectors.shape[1] == 0:
        raise EmbedderUnavailable(f"{sender} returned an invalid vector (not a list of numbers).")
    if dimension is not None and vectors.shape[1] != dimension:
        raise EmbedderUnavailable(
            f"{sender} answered with vectors of length {vectors.shape[1]} instead of {dimension};"
            " the two are never mixed.",
            remedy="The model on the server has changed, or cannot be shortened: set `embedding_model` or"
            " `embedding_dimensions` to what it is and start the daemon again.",
        )
    if not np.isfinite(vectors).all():
        raise EmbedderUnavailable(f"{sender} answered with numbers that are not finite.")
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    if not largest.all():
        raise EmbedderUnavailable(f"{sender} answered with a vector of zeros.")
    vectors /= largest  # prevents overflow and underflow of the squares
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


# Embedders by name, found through entry points, which third-party embedders can register too. A name is that of an
# entry point (`e5`), optionally with a model (`ollama:nomic-embed-text`). An entry point is a class or function: if it
# has a parameter named `options` it receives `EmbedderOptions`, otherwise it is called without arguments.

GROUP = "filrouge.embedders"
#: The extra that installs each package.
_EXTRAS: Final = {"httpx": "remote", "tenacity": "remote"}


def create_embedder(name: str, options: EmbedderOptions | None = None) -> Embedder:
    """Return the embedder registered as `name`, or as the part of `name` before a colon.

    Raises:
        BadConfig: there is none of that name (the message lists the names), it takes no model, or its options do not
            fit.
        EmbedderUnavailable: a required package is not installed.
    """
    entries = _registered()
    if not {name, name.partition(":")[0]} & entries.keys():  # its package may have been installed in the meantime
        _registered.cache_clear()
        entries = _registered()
    provider, colon, model = (name, "", "") if name in entries else name.partition(":")
    if provider not in entries:
        raise BadConfig(f"There is no embedder {name!r}; there are: {', '.join(sorted(entries))}.")
    factory = _load(entries[provider])
    if "options" in inspect.signature(factory).parameters:
        return factory(options=replace(options or EmbedderOptions(), model=model))
    if colon:
        raise BadConfig(f"The embedder {provider!r} takes no model; it was given {model!r}.")
    return factory()


def unconfigured_embedder_names() -> list[str]:
    """Return the names of embedders that need no further configuration: no model, no address, no key."""
    names: list[str] = []
    for entry in entry_points(group=GROUP):
        try:
            if "options" not in inspect.signature(_load(entry)).parameters:
                names.append(entry.name)
        except EmbedderUnavailable:  # its package is not installed
            continue
    return sorted(names)


@cache
def _registered() -> dict[str, EntryPoint]:
    """Return the registered embedders by name; cached, because the lookup reads every installed package."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _load(entry: EntryPoint) -> Callable[..., Embedder]:
    try:
        return entry.load()
    except ImportError as error:
        command = installation.command_for_missing(error.name or entry.value, _EXTRAS)
        raise EmbedderUnavailable(
            f"The embedder {entry.name!r} cannot be loaded: {error}.", remedy=f"Install it: `{command}`."
        ) from error


# A cache of vectors by text. The same prompt comes several times an hour, the same sentence comes from both the
# transcript and the hook, and a vector costs milliseconds or money. An entry is a digest and a vector, never the text.
# The least recently used entries are dropped first. Questions and passages have separate entries, because most models
# treat them differently.

MAX_CACHE_BYTES: Final = 8 * 1024 * 1024
#: Approximate overhead of an entry: the digest, the array header, the order of entries.
_ENTRY_BYTES: Final = 300


class CachingEmbedder:
    """Implements `Embedder`, `PromptEmbedder` and `PartEmbedder` with a cache in front of another embedder.

    Safe for several threads. Two threads that request the same unknown text at once may both call the model.
    """

    def __init__(self, embedder: Embedder, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._embedder = embedder
        # Looked up once: `isinstance` reads every member of the protocol.
        self._for_prompts = embedder if isinstance(embedder, PromptEmbedder) else None
        self._for_parts = embedder if isinstance(embedder, PartEmbedder) else None
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()
        self._bytes = 0
        self._generation = 0
        self._hits = self._misses = 0

    @property
    def inner(self) -> Embedder:
        """The wrapped embedder, for features that only it has (its health, its cost)."""
        return self._embedder

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the wrapped embedder."""
        return self._embedder.space

    @property
    def hits(self) -> int:
        """Number of texts answered from the cache."""
        return self._hits

    @property
    def misses(self) -> int:
        """Number of texts that the model had to embed."""
        return self._misses

    def query(self, text: str) -> Vector:
        """Return the vector of a question."""
        key = _digest("query", text)
        cached, generation = self._look_up([key])
        if key not in cached:
            cached[key] = self._embedder.query(text)
            self._store(cached, generation)
        return cached[key].copy()

    @property
    def no_need_vector(self) -> Vector | None:
        """The vector for "this prompt needs nothing"; None if the wrapped embedder has no model for need."""
        return self._for_prompts.no_need_vector if self._for_prompts else None

    def need_of_prompt(self, text: str) -> Vector | None:
        """Return the vector of what a prompt needs; None if there is no model for need."""
        if self._for_prompts is None:
            return None
        key = _digest("need", text)
        cached, generation = self._look_up([key])
        if key not in cached:
            vector = self._for_prompts.need_of_prompt(text)
            if vector is None:
                return None
            cached[key] = vector
            self._store(cached, generation)
        return cached[key].copy()

    @property
    def need_revision(self) -> str:
        """The revision of the model behind `need_vectors`; empty if the wrapped embedder has no model for need."""
        return self._for_prompts.need_revision if self._for_prompts else ""

    def need_vectors(self, statements: Sequence[tuple[str, str]]) -> Vectors | None:
        """Return the need vectors of statements; they are not cached, because the store keeps them."""
        return self._for_prompts.need_vectors(statements) if self._for_prompts else None

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts; those not in the cache are sent to the model in one call, each once."""
        keys = [_digest("passage", text) for text in texts]
        vectors, generation = self._look_up(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        if missing or not texts:
            new_vectors = dict(zip(missing, self._embedder.passages(list(missing.values())), strict=True))
            self._store(new_vectors, generation)
            vectors |= new_vectors
        return np.stack([vectors[key] for key in keys]) if keys else self._embedder.passages([])

    def part_vectors(self, passages: Sequence[PassageParts]) -> list[Vectors] | None:
        """Return the vectors of parts of passages; they are not cached, because a prompt is read once."""
        return self._for_parts.part_vectors(passages) if self._for_parts else None

    def forget_all(self) -> None:
        """Clear the cache, and discard vectors that are being computed now; part of erasing a memory."""
        with self._lock:
            self._vectors.clear()
            self._bytes = 0
            self._generation += 1

    def close(self) -> None:
        """Close the wrapped embedder, if it can be closed."""
        close = getattr(self._embedder, "close", None)
        if callable(close):
            close()

    def _look_up(self, keys: Sequence[bytes]) -> tuple[dict[bytes, Vector], int]:
        with self._lock:
            found = {key: self._vectors[key] for key in keys if key in self._vectors}
            for key in found:
                self._vectors.move_to_end(key)
            self._hits += sum(key in found for key in keys)
            self._misses += len(set(keys) - found.keys())
            return found, self._generation

    def _store(self, vectors: dict[bytes, Vector], generation: int) -> None:
        with self._lock:
            if generation != self._generation:  # the cache was cleared while the model was working
                return
            for key, vector in vectors.items():
                if key not in self._vectors:
                    self._vectors[key] = vector.copy()  # a copied row: a view would keep its whole batch in memory
                    self._bytes += vector.nbytes + _ENTRY_BYTES
            while self._bytes > self._max_bytes:
                _, oldest = self._vectors.popitem(last=False)
                self._bytes -= oldest.nbytes + _ENTRY_BYTES


def _digest(kind: str, text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, person=kind.encode()).digest()


# Windows of long texts. The multilingual-e5 models read 512 tokens. A text is split at sentence ends into pieces that
# fit, so nothing is truncated silently; an item's score is that of its best window.
#
# The number of tokens is estimated from above without a tokenizer, because its table alone would cost the daemon 45 MB.
# A letter, digit or sign of any script is at most one token after compatibility normalisation. A Latin word with a
# usual spelling has at most half as many tokens as letters, plus one. Only a text that repeats one of a few thousand
# unpronounceable words could exceed the model's limit.

#: Of the 512 tokens that the model reads, two mark the beginning and the end, and "passage: " takes some.
WINDOW_TOKENS: Final = 480
#: Ends of sentences: followed by a space, or without one in scripts that have none.
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])\s+|\n+|(?<=[。！？])")
_LETTER_RUN: Final = re.compile(r"[A-ZÀ-ÖØ-Þ]?[a-zß-öø-ÿœ]+|[A-Z]+")
_VOWELS: Final = "aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüýÿœ"
_ACCENTS: Final = re.compile(r"[^a-z]")
#: Words that the vocabulary splits into letters: rare letters together, runs without a vowel or of vowels.
_UNLIKE_A_WORD: Final = re.compile(f"[jqxz].?[jqxzwk]|[wk][jqxzwk]|[^{_VOWELS}]{{4}}|[{_VOWELS}]{{4}}|^[^{_VOWELS}]*$")


def windows(text: str, size: int = WINDOW_TOKENS) -> list[str]:
    """Split a text into pieces of at most `size` estimated tokens, at sentence ends, otherwise between words.

    Only a word longer than a window is cut. No character except white space is lost.
    """
    pieces: list[str] = []
    current: list[str] = []
    filled = 0
    for sentence in _SENTENCE_END.split(text.strip()):
        for part, tokens in _split_sentence(sentence, size):
            if current and filled + tokens > size:
                pieces.append(" ".join(current))
                current, filled = [], 0
            current.append(part)
            filled += tokens
    return [*pieces, " ".join(current)] if current or not pieces else pieces


def estimated_tokens(text: str) -> int:
    """Return an upper bound of a multilingual-e5 model's tokens in the text; about twice the number for prose."""
    return sum(map(_word_tokens, text.split()))


def _split_sentence(sentence: str, size: int) -> Iterator[tuple[str, int]]:
    """Yield parts of a sentence that fit, each with its estimated tokens."""
    words: list[str] = []
    filled = 0
    for word in sentence.split():
        for part, tokens in _split_word(word, size):
            if words and filled + tokens > size:
                yield " ".join(words), filled
                words, filled = [], 0
            words.append(part)
            filled += tokens
    if words:
        yield " ".join(words), filled


def _split_word(word: str, size: int) -> Iterator[tuple[str, int]]:
    """Yield the word, in parts if it is longer than a window; a character counts as all it expands to under NFKC."""
    tokens = _word_tokens(word)
    if tokens <= size:
        yield word, tokens
        return
    start, filled = 0, 1
    for index, character in enumerate(word):
        cost = len(unicodedata.normalize("NFKC", character))
        if index > start and filled + cost > size:
            yield word[start:index], filled
            start, filled = index, 1
        filled += cost
    yield word[start:], filled


@lru_cache(maxsize=20_000)
def _cached_count(word: str) -> int:
    return _count_tokens(word)


def _word_tokens(word: str) -> int:
    """Return the estimated tokens of a word; short words are cached."""
    return _cached_count(word) if len(word) <= 20 else _count_tokens(word)


def _count_tokens(word: str) -> int:
    normalised = unicodedata.normalize("NFKC", word)
    tokens, end = 0, 0
    for run in _LETTER_RUN.finditer(normalised):
        tokens += run.start() - end + _run_tokens(run.group())
        end = run.end()
    tokens += len(normalised) - end
    # The word-start sign merges with a letter's token, but is a separate token before most other signs.
    return tokens if normalised[:1].isascii() and normalised[:1].isalpha() else tokens + 1


def _run_tokens(run: str) -> int:
    lower_case = run.lower()
    if (
        len(run) < 2
        or run.isupper()
        or _UNLIKE_A_WORD.search(lower_case)
        or (len(run) == 3 and lower_case[0] in _VOWELS)
    ):
        return len(run)
    return min(len(run), (len(run) + 2 + len(_ACCENTS.findall(lower_case))) // 2)
