"""The seams of Filrouge: what the inside asks of the outside, and what it deliberately does not know.

Ports are synchronous; `app` decides which thread runs them. Each says who implements it and where its
public fake stands. The store's seam is lower than a class per table: repositories speak named queries over
one `Tx`, so a second database brings its own SQL and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from filrouge.notes.models import Content, Listing, Note
from filrouge.providers.models import (
    Ask,
    Completion,
    EmbeddingSpace,
    Nearest,
    Prompt,
)
from filrouge.search.models import Counted, Mark, Selection, WordRow

Vector = NDArray[np.float32]
"""One unit vector, shape (dimension,)."""
Vectors = NDArray[np.float32]
"""Unit vectors, shape (n, dimension)."""
Numbers = NDArray[np.int64]
"""The places of rows in their table, shape (n,)."""


class Tx(Protocol):
    """Named queries inside one transaction. Knows nothing of tables or of who else is writing. `runtime.sqlite.Tx`
    implements it; a database in memory (`testing.memory_database`) is the fake."""

    def all(self, name: str, parameters: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        """Every row of the named query."""
        ...

    def one(self, name: str, parameters: Mapping[str, object] | None = None) -> dict[str, Any] | None:
        """The first row, or None."""
        ...

    def run(self, name: str, parameters: Mapping[str, object] | None = None) -> int:
        """Run a named statement; the number of rows it changed."""
        ...

    def many(self, name: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Run a named statement once per row."""
        ...


class Database(Protocol):
    """One connection to a store, used by one thread at a time. `runtime.sqlite.Database` implements it."""

    @property
    def tx(self) -> Tx:
        """Named queries outside an explicit transaction, for reading."""
        ...

    def transaction(self) -> AbstractContextManager[Tx]:
        """One writing transaction: all of it, or nothing."""
        ...

    def savepoint(self) -> AbstractContextManager[Tx]:
        """A part of a transaction that can fail alone."""
        ...

    @property
    def in_transaction(self) -> bool:
        """True while a transaction is open; a failing disk can end one from within."""
        ...

    def checkpoint(self) -> bool:
        """Bring the log of writes into the database file and empty it; False if a reader kept it from that."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class Analyser(Protocol):
    """Turns text into the tokens that every full-text backend indexes.

    Knows nothing of any backend's syntax. `search.analyser.TextAnalyser` implements it.
    """

    version: int
    """Another one with every change that makes indexed tokens stale; such rows are indexed again."""

    def tokens(self, text: str) -> str:
        """The token string to index: lower-case words of letters and digits, separated by spaces."""
        ...

    def terms(self, text: str) -> tuple[tuple[str, ...], ...]:
        """The words of a query that carry meaning, each as the forms it may be indexed under, itself first."""
        ...


class Embedder(Protocol):
    """Turns text into unit vectors.

    Does not know what the text is or where the vectors go. Safe to call from two threads, one asking for
    queries and one for passages. Implemented in `embed`, registered under the entry point group
    `filrouge.embedders`; `providers.hashing.StableHash` serves as the fake, since it needs no model.

    Raises `EmbedderUnavailable` where the model cannot be used.
    """

    @property
    def space(self) -> EmbeddingSpace:
        """The space of every vector this embedder makes."""
        ...

    def query(self, text: str) -> Vector:
        """The vector of a question."""
        ...

    def passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts to be found, in their order."""
        ...


@runtime_checkable
class Seeking(Protocol):
    """An embedder that learned what a prompt needs; `isinstance` tells. Optional, beside `Embedder`."""

    @property
    def nothing(self) -> Vector | None:
        """The vector that prompts which need nothing point at; None where that was not learned."""
        ...

    def seek(self, text: str) -> Vector | None:
        """The vector of what a prompt needs, to be compared with those of `sought`; None where that was not learned.

        Its cosines mean something else than those of `query`: they put what is needed first, and tell how much more
        than `nothing` it is needed.
        """
        ...

    @property
    def revision(self) -> str:
        """What made the vectors of `sought`; empty where that was not learned."""
        ...

    def sought(self, statements: Sequence[tuple[str, str]]) -> Vectors | None:
        """The vectors under which statements are found by the prompts that need them.

        Args:
            statements: of each the words before it, which may be empty, and its own.
        """
        ...


@runtime_checkable
class HealthChecked(Protocol):
    """An embedder that can be asked whether it answers now; `isinstance` tells. Optional, beside `Embedder`."""

    def check(self) -> None:
        """Embed one short text that is nobody's.

        Raises:
            EmbedderUnavailable: with the cause and what to do about it.
        """
        ...


class VectorIndex(Protocol):
    """Finds the nearest vectors, restricted to groups (a project, or the user).

    Derived and disposable: whoever owns one can rebuild it from the store's rows. `search.vector_index.AdaptiveIndex`
    implements it; `search.vector_index.ExactIndex` is the measure that it is held against.
    """

    def put(self, owner_id: str, number: int, group: str, vectors: Vectors) -> None:
        """Add an owner's windows, replacing those it had; `number` is its row in its table."""
        ...

    def remove(self, owner_id: str) -> None:
        """Forget an owner; unknown ids are fine."""
        ...

    def nearest(
        self, query: Vector, limit: int, groups: frozenset[str] | None, numbers: Numbers | None = None
    ) -> list[Nearest]:
        """The nearest owners, best first, exactly `limit` of them if so many may be found.

        Args:
            groups: look into these groups alone; None = into all.
            numbers: consider the owners of these rows alone, before anything is cut; None = all. Unknown ones are fine.
        """
        ...

    def __len__(self) -> int:
        """How many owners are indexed."""
        ...


class WordView(Protocol):
    """A word index as it stood at one moment; it answers as then, whatever is written meanwhile."""

    mark: Mark
    """How far it follows the store; later rows and changes are the caller's to look up."""

    def best(
        self, terms: Sequence[Sequence[str]], selection: Selection, limit: int, rarity: Mapping[str, float] | None
    ) -> dict[int, float]:
        """The best rows by BM25 (k1 = 1.2, b = 0.75), best first; `rarity` replaces that of each token in the index."""
        ...

    def counted(self, forms: Collection[str], selection: Selection | None) -> Counted:
        """Counts within a selection, exactly; of the whole index (None) at no cost, give or take what was removed."""
        ...

    def numbers(self, selection: Selection, limit: int) -> Numbers:
        """Rows of a selection, `limit` at the most, in no order."""
        ...


class WordIndex(Protocol):
    """Finds rows by their words where there are too many for the store's own full text.

    Derived and disposable, one writer. `search.tantivy_words.TantivyWords` implements it; the store's own full text
    (`search.word_repository`) answers until it is there, and where it is not.
    """

    def view(self) -> WordView:
        """The index as of its last commit."""
        ...

    def replace(self, numbers: Collection[int], rows: Iterable[WordRow]) -> None:
        """Take out these numbers, put in these rows; nothing is seen of it before `commit`."""
        ...

    def commit(self, mark: Mark) -> None:
        """Keep what was replaced, with how far the index follows the store now."""
        ...

    def close(self) -> None:
        """Stop; what was not committed is dropped."""
        ...


class WordIndexes(Protocol):
    """The word indexes of one home, by name. `search.word_files.WordFiles` implements it."""

    def open(self, name: str) -> WordIndex | None:
        """The index that is there, None where there is none or it is damaged or made by another analyser."""
        ...

    def create(self, name: str) -> WordIndex:
        """A new one, in the place of what may be there."""
        ...

    def drop(self, name: str) -> None:
        """Remove every file of it."""
        ...


class LanguageModel(Protocol):
    """Answers questions. Safe for several at once on one event loop.

    Does not know what it is asked for, nor what it may cost. `providers.language_models.Cascade` implements it over
    several providers; a fake stands in `testing`.
    """

    @property
    def provider(self) -> str:
        """A value of the setting `extract_provider`: anthropic, openai, ollama, claude_cli, codex_cli."""
        ...

    @property
    def model(self) -> str:
        """The name that the provider knows it by."""
        ...

    async def complete(self, ask: Ask) -> Completion:
        """The answer.

        Raises:
            ModelUnavailable: naming why each one that was tried did not answer.
        """
        ...

    async def check(self) -> None:
        """Ask, for no token, whether it would answer now.

        Raises:
            ModelUnavailable: with the cause and what to do about it.
        """
        ...

    async def close(self) -> None:
        """End connections and processes."""
        ...


class Prompts(Protocol):
    """The prompts by name and language. `providers.prompts` implements it over files."""

    def __call__(self, name: str, language: str) -> Prompt:
        """The prompt of this name, in English where the language has none."""
        ...


class Vault(Protocol):
    """Where the user's notes are. `notes.vault.FolderVault` implements it, and is its own fake."""

    def list(self, within: str = "") -> Listing:
        """Every note, or those of a folder, with a stamp that changes when it does; raises `VaultUnavailable`."""
        ...

    def read(self, path: str) -> Note:
        """One note; raises `NotFound` where there is none (any more), `VaultUnavailable` where it cannot be read."""
        ...

    def content(self, path: str) -> Content:
        """A whole file as it is; raises as `read` does."""
        ...

    def write(self, path: str, text: str, *, before: str | None) -> None:
        """Replace `before` (None = no file); raises `Stale` if another text is there by now, or `VaultUnavailable`."""


Redactor = Callable[[str], str]
"""Takes the secrets out of a text. Idempotent."""
