"""Interfaces between Filrouge's packages.

All methods are synchronous, except those of `LanguageModel`; the caller decides which thread runs them. Each protocol
names its implementation and its public fake. The database interface is lower than one class per table: repositories run
named queries over a `Tx`, so a second database needs only its own SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from filrouge.notes.models import Content, Listing, Note
from filrouge.providers.models import (
    Completion,
    CompletionRequest,
    EmbeddingSpace,
    Nearest,
    PassageParts,
    Prompt,
)
from filrouge.search.models import IndexPosition, Selection, WordCounts, WordRow

Vector = NDArray[np.float32]
"""One unit vector, shape (dimension,)."""
Vectors = NDArray[np.float32]
"""Unit vectors, shape (n, dimension)."""
RowNumbers = NDArray[np.int64]
"""Row numbers, shape (n,)."""


class Tx(Protocol):
    """Named queries inside one transaction.

    `runtime.sqlite.Tx` implements it; an in-memory database (`testing.memory_database`) is the fake.
    """

    def all(self, name: str, parameters: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        """Return every row of the named query."""
        ...

    def one(self, name: str, parameters: Mapping[str, object] | None = None) -> dict[str, Any] | None:
        """Return the first row, or None."""
        ...

    def run(self, name: str, parameters: Mapping[str, object] | None = None) -> int:
        """Run a named statement and return the number of rows it changed."""
        ...

    def many(self, name: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Run a named statement once per row."""
        ...


class Database(Protocol):
    """One database connection, used by one thread at a time. `runtime.sqlite.Database` implements it."""

    @property
    def tx(self) -> Tx:
        """Named queries outside an explicit transaction, for reading."""
        ...

    def transaction(self) -> AbstractContextManager[Tx]:
        """Open a write transaction that commits completely or not at all."""
        ...

    def savepoint(self) -> AbstractContextManager[Tx]:
        """Open a savepoint: a part of a transaction that can be rolled back alone."""
        ...

    @property
    def in_transaction(self) -> bool:
        """True while a transaction is open; a disk error can end one from within."""
        ...

    def checkpoint(self) -> bool:
        """Copy the write-ahead log into the database file and empty it; False if a reader prevented it."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Analyser(Protocol):
    """Turns text into the tokens that every full-text index stores.

    It is independent of any index's query syntax. `search.analyser.TextAnalyser` implements it.
    """

    version: int
    """Changes whenever indexed tokens become stale; such rows are indexed again."""

    def tokens(self, text: str) -> str:
        """Return the token string to index: lower-case words of letters and digits, separated by spaces."""
        ...

    def terms(self, text: str) -> tuple[tuple[str, ...], ...]:
        """Return the meaningful words of a query, each with the forms it may be indexed under, its own form first."""
        ...


class Embedder(Protocol):
    """Turns text into unit vectors.

    It must be safe to call from two threads, one for queries and one for passages. Implementations are in `providers`
    and registered under the entry point group `filrouge.embedders`. `providers.hashing.StableHash` serves as the fake,
    since it needs no model.

    Methods raise `EmbedderUnavailable` if the model cannot be used.
    """

    @property
    def space(self) -> EmbeddingSpace:
        """The embedding space of all vectors from this embedder."""
        ...

    def query(self, text: str) -> Vector:
        """Embed a query."""
        ...

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Embed texts that queries should find; vectors come in the order of the texts."""
        ...


@runtime_checkable
class PromptEmbedder(Protocol):
    """Optional addition to `Embedder`: the model was also trained to match prompts with the memories they need.

    Check for it with `isinstance`.
    """

    @property
    def no_need_vector(self) -> Vector | None:
        """The vector that is near prompts which need no memory; None if the model was not trained for it."""
        ...

    def need_of_prompt(self, text: str) -> Vector | None:
        """Embed what a prompt needs, for comparison with the vectors of `need_vectors`.

        None if the model was not trained for it. Cosines are on another scale than those of `query`. They rank the
        memories that a prompt needs first, and their distance from the cosine with `no_need_vector` says how much each
        is needed.
        """
        ...

    @property
    def need_revision(self) -> str:
        """Version of whatever produced the vectors of `need_vectors`; empty if the model was not trained for it."""
        ...

    def need_vectors(self, statements: Sequence[tuple[str, str]]) -> Vectors | None:
        """Embed statements for comparison with `need_of_prompt`; None if the model was not trained for it.

        Args:
            statements: pairs of the words before a statement, which may be empty, and the statement.
        """
        ...


@runtime_checkable
class PartEmbedder(Protocol):
    """Optional addition to `Embedder`: has a network that was taught to read prompts sentence by sentence.

    Check for it with `isinstance`.
    """

    def part_vectors(self, passages: Sequence[PassageParts]) -> list[Vectors] | None:
        """Return for each passage the vectors of its parts; None if the embedder has no such network.

        Returns:
            One row per part, those before first: the mean, the first and the last state of the part's tokens within
            both texts. They are comparable only with each other.
        """
        ...


@runtime_checkable
class HealthChecked(Protocol):
    """Optional addition to `Embedder`: can test whether the model answers now. Check for it with `isinstance`."""

    def check(self) -> None:
        """Embed one short fixed text that contains no user data.

        Raises:
            EmbedderUnavailable: with the cause and what to do about it.
        """
        ...


class VectorIndex(Protocol):
    """Finds the nearest vectors, optionally within groups (a project, or the user).

    The index is derived data and can be rebuilt from the database at any time. `search.vector_index.AdaptiveIndex`
    implements it; `search.vector_index.ExactIndex` is the exact reference.
    """

    def put(self, owner_id: str, number: int, group: str, vectors: Vectors) -> None:
        """Add an owner's window vectors in place of its old ones; `number` is its row number in its table."""
        ...

    def remove(self, owner_id: str) -> None:
        """Remove an owner; an unknown id is ignored."""
        ...

    def nearest(
        self, query: Vector, limit: int, groups: frozenset[str] | None, numbers: RowNumbers | None = None
    ) -> list[Nearest]:
        """Return the nearest owners, best first; exactly `limit` of them if that many are eligible.

        Args:
            query: the query vector.
            limit: the maximum number of results.
            groups: search only these groups; None = all.
            numbers: search only the owners with these row numbers, before the cut to `limit`; None = all. Unknown
                numbers are ignored.
        """
        ...

    def __len__(self) -> int:
        """Return the number of indexed owners."""
        ...


class WordSnapshot(Protocol):
    """A snapshot of a word index; later writes do not change its answers."""

    mark: IndexPosition
    """The position in the store up to which it is current; the caller looks up later changes."""

    def best(
        self, terms: Sequence[Sequence[str]], selection: Selection, limit: int, rarity: Mapping[str, float] | None
    ) -> dict[int, float]:
        """Return the best rows by BM25 (k1 = 1.2, b = 0.75) with their scores, best first.

        Args:
            terms: the words of the query, each with its indexed forms.
            selection: which rows may match.
            limit: the maximum number of rows.
            rarity: replaces the index's own rarity of each token; None = use the index's.
        """
        ...

    def counted(self, forms: Collection[str], selection: Selection | None) -> WordCounts:
        """Count rows and tokens.

        A count within a selection is exact. A count of the whole index (None) costs nothing, but may include removed
        rows.
        """
        ...

    def numbers(self, selection: Selection, limit: int) -> RowNumbers:
        """Return up to `limit` row numbers of a selection, in no particular order."""
        ...


class WordIndex(Protocol):
    """Finds rows by their words, for tables that are too large for the database's own full-text search.

    The index is derived data with one writer. `search.tantivy_words.TantivyWords` implements it. The database's full
    text (`search.repository`) answers until the index is built, and where there is none.
    """

    def view(self) -> WordSnapshot:
        """Return a snapshot of the index as of its last commit."""
        ...

    def replace(self, numbers: Collection[int], rows: Iterable[WordRow]) -> None:
        """Remove these row numbers and add these rows; readers see the change after `commit`."""
        ...

    def commit(self, mark: IndexPosition) -> None:
        """Commit the replacements, with the position in the database up to which the index is current."""
        ...

    def close(self) -> None:
        """Close the index; uncommitted changes are lost."""
        ...


class WordIndexes(Protocol):
    """The word indexes of one home, by name. `search.word_files.WordFiles` implements it."""

    def open(self, name: str) -> WordIndex | None:
        """Open an existing index; None if there is none, or it is damaged or was built by another analyser version."""
        ...

    def create(self, name: str) -> WordIndex:
        """Create an empty index, replacing an existing one."""
        ...

    def drop(self, name: str) -> None:
        """Delete all files of an index."""
        ...


class LanguageModel(Protocol):
    """Answers prompts. Several calls may run at once on one event loop.

    It does not enforce a budget. `providers.language_models.Cascade` implements it over several providers; `testing`
    has a fake.
    """

    @property
    def provider(self) -> str:
        """A value of the setting `extract_provider`: anthropic, openai, ollama, claude_cli, codex_cli."""
        ...

    @property
    def model(self) -> str:
        """The provider's name for the model."""
        ...

    async def complete(self, request: CompletionRequest) -> Completion:
        """Return the answer.

        Raises:
            ModelUnavailable: with the reason why each model that was tried did not answer.
        """
        ...

    async def check(self) -> None:
        """Check whether the model would answer now, without using tokens.

        Raises:
            ModelUnavailable: with the cause and what to do about it.
        """
        ...

    async def close(self) -> None:
        """Close connections and end processes."""
        ...


class Prompts(Protocol):
    """Prompt templates by name and language. `providers.prompts` implements it over files."""

    def __call__(self, name: str, language: str) -> Prompt:
        """Return the prompt of this name, in English if there is none in the language."""
        ...


class Vault(Protocol):
    """The user's notes. `notes.vault.FolderVault` implements it and is its own fake."""

    def list(self, within: str = "") -> Listing:
        """List the notes of the vault or of one folder, each with a stamp that changes when the file changes.

        Raises:
            VaultUnavailable: the vault cannot be read.
        """
        ...

    def read(self, path: str) -> Note:
        """Read one note.

        Raises:
            NotFound: the note does not exist (any more).
            VaultUnavailable: it cannot be read.
        """
        ...

    def content(self, path: str) -> Content:
        """Return the unparsed text of a file; raises as `read` does."""
        ...

    def write(self, path: str, text: str, *, before: str | None) -> None:
        """Replace the text `before` of a file with `text`; `before` is None if the file must not exist yet.

        Raises:
            Stale: the file holds another text by now.
            VaultUnavailable: it cannot be written.
        """


Redactor = Callable[[str], str]
"""Removes secrets from a text. Idempotent."""
