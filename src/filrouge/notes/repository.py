"""Notes and written pages in the database, and the vault's vectors in memory.

Note vectors share a large common component: language, form, folder names. In the bundled model's space a short French
question is closer to most short French notes than to the English note that answers it. `VaultIndex` therefore compares
queries and notes after whitening (`threads.assignment.Whitening`), with the mean of sample questions subtracted from
the query. With a vault of 300 notes, this found twice as many. A few notes are not enough for whitening, and are
compared as they are.

All rows of notes are derived from the user's files and can be rebuilt from them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from threading import Event as Flag
from threading import Lock
from typing import Final

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from filrouge.capture.models import TRUST_AGENT
from filrouge.core.clock import from_text, to_text
from filrouge.core.errors import EmbedderUnavailable
from filrouge.core.protocols import Analyser, Tx, Vector, Vectors
from filrouge.core.rows import number_of
from filrouge.core.scope import LOCAL_USER
from filrouge.memories.models import MIN_CONFIDENCE_INJECT
from filrouge.notes.models import Chunk, Note
from filrouge.providers.calibration import bundled
from filrouge.providers.models import EmbeddingSpace
from filrouge.search.vector_search import VectorSearch
from filrouge.threads.assignment import Whitening

# Indexed notes: a row for each file, and its chunks with their words and vectors.


class ReadState(Struct, frozen=True, kw_only=True):
    """The state of a file when it was last read.

    Attributes:
        stamp: version of the chunking and stamp of the file.
        hash: hash of its content.
    """

    stamp: str
    hash: str


class StoredChunk(Struct, frozen=True, kw_only=True):
    """A chunk as it is stored.

    Attributes:
        seq: its row number.
        tokens: its index terms, separated by spaces.
        changed: when its note was last written.
    """

    seq: int
    chunk: Chunk
    tokens: str
    changed: datetime


class Windows(Struct, frozen=True, kw_only=True):
    """The embedded windows of chunks; the arrays have one element per window.

    Attributes:
        seqs: the row number of the window's chunk, shape (n,).
        notes: a number for the chunk's note, unique within this object, shape (n,).
        parts: the position of the chunk in its note, from 0, shape (n,).
        vectors: the unit vectors, float32, shape (n, dimension).
    """

    seqs: NDArray[np.int64]
    notes: NDArray[np.int64]
    parts: NDArray[np.int64]
    vectors: Vectors


class NotePreview(Struct, frozen=True, kw_only=True):
    """A note of the index: what a search finds it by.

    Attributes:
        path: relative to the vault.
        changed: when the file was last written.
        tags: folded, without `#`.
        chunks: its parts in their order.
    """

    path: str
    changed: datetime
    tags: tuple[str, ...]
    chunks: tuple[Chunk, ...]


class Counts(Struct, frozen=True, kw_only=True):
    """The number of indexed notes and chunks."""

    notes: int
    chunks: int


class StoredVault:
    """The tables `vault_notes` and `vault_chunks`, and the word index of chunks."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def known(self) -> dict[str, ReadState]:
        """Return every indexed note by its path."""
        return {row["path"]: ReadState(stamp=row["stamp"], hash=row["hash"]) for row in self._tx.all("vault.known")}

    def put(self, note: Note, chunks: Sequence[Chunk], stamp: str, analyser: Analyser) -> None:
        """Index a note, replacing its earlier version."""
        self._drop_chunks([note.path])
        row = {
            "path": note.path, "stamp": stamp, "hash": note.hash, "changed": to_text(note.changed),
            "tags": json.dumps(note.tags), "trouble": note.problem,
        }  # fmt: skip
        self._tx.run("vault.put", row)
        chunk_rows = [
            {"path": chunk.path, "part": chunk.part, "heading": chunk.heading, "text": chunk.text} for chunk in chunks
        ]
        self._tx.many("vault.put_chunk", chunk_rows)
        word_rows = [
            {"path": chunk.path, "part": chunk.part, "tokens": analyser.tokens(chunk.indexed)} for chunk in chunks
        ]
        self._tx.many("vault.put_words", word_rows)

    def touch(self, path: str, stamp: str, changed: datetime) -> None:
        """Store the new stamp of a file that was written without a change of content."""
        self._tx.run("vault.stamp", {"path": path, "stamp": stamp, "changed": to_text(changed)})

    def drop(self, paths: Collection[str]) -> None:
        """Remove notes that no longer exist."""
        self._drop_chunks(paths)
        self._tx.run("vault.drop", {"paths": json.dumps(list(paths))})

    def texts_of(self, ids: Collection[str], paths: Collection[str]) -> dict[str, str]:
        """Return the texts of these chunks and of all chunks of these notes, by chunk id."""
        parameters = {"ids": json.dumps(list(ids)), "paths": json.dumps(list(paths))}
        return {row["id"]: row["text"] for row in self._tx.all("vault.doomed", parameters)}

    def forget(self, ids: Collection[str], paths: Collection[str]) -> None:
        """Remove these chunks and these whole notes; the other chunks of a note stay until its file is written again.

        The full-text index is merged, so that removed words also disappear from the database file.
        """
        self._tx.run("vault.forget_words", {"ids": json.dumps(list(ids))})
        self._tx.run("vault.forget_chunks", {"ids": json.dumps(list(ids))})
        self.drop(paths)
        self._tx.run("vault.merge")

    def missing(self, space_id: str, limit: int) -> list[tuple[int, str]]:
        """Return chunks without a vector in this space: their row numbers and the texts to embed."""
        rows = self._tx.all("vault.missing", {"space_id": space_id, "limit": limit})
        return [(row["seq"], f"{row['heading']}\n{row['text']}") for row in rows]

    def embed(self, space_id: str, vectors: Mapping[int, Vectors]) -> None:
        """Store the window vectors of chunks; chunks deleted in the meantime are skipped."""
        rows = [
            {"seq": seq, "space_id": space_id, "vector": windows.astype("<f2").tobytes()}
            for seq, windows in vectors.items()
        ]
        self._tx.many("vault.embed", rows)

    def windows(self, space_id: str, dimension: int) -> Windows:
        """Return every window of all chunks that are embedded in this space."""
        rows = self._tx.all("vault.vectors", {"space_id": space_id})
        numbers = {path: n for n, path in enumerate(dict.fromkeys(row["path"] for row in rows))}
        table = np.array([(row["seq"], numbers[row["path"]], row["part"]) for row in rows], dtype=np.int64).reshape(
            -1, 3
        )
        seqs, notes, parts = np.repeat(table, [len(row["vector"]) // (2 * dimension) for row in rows], axis=0).T
        read = np.frombuffer(b"".join(row["vector"] for row in rows), dtype="<f2")
        vectors = read.reshape(-1, dimension).astype(np.float32)
        return Windows(seqs=seqs, notes=notes, parts=parts, vectors=vectors)

    def best(self, match: str, limit: int) -> list[int]:
        """Return the chunks that match a full-text expression, best first."""
        return [row["seq"] for row in self._tx.all("vault.best", {"match": match, "limit": limit})]

    def frequencies(self, forms: Iterable[str]) -> dict[str, int]:
        """Return how many chunks contain each of these tokens; tokens without a match are left out."""
        rows = self._tx.all("vault.frequencies", {"forms": json.dumps(list(forms))})
        return {row["term"]: int(row["doc"]) for row in rows}

    def chunks(self, seqs: Collection[int]) -> list[StoredChunk]:
        """Return these chunks in no particular order; deleted ones are left out."""
        rows = self._tx.all("vault.chunks", {"seqs": json.dumps(list(seqs))})
        return [
            StoredChunk(seq=row["seq"], chunk=_chunk(row), tokens=row["tokens"], changed=from_text(row["changed"]))
            for row in rows
        ]

    def beginning(self, path: str, limit: int) -> tuple[str, datetime] | None:
        """Return the first characters of a note and when it was written; None if it is unknown or has no text."""
        rows = self._tx.all("vault.of_note", {"path": path, "limit": limit // 100})
        if not rows:
            return None
        return "\n\n".join(row["text"] for row in rows)[:limit], from_text(rows[0]["changed"])

    def preview(self, path: str, limit: int) -> NotePreview | None:
        """Return a note with its first chunks as they are indexed; None if it is not in the index."""
        row = self._tx.one("vault.note", {"path": path})
        if row is None:
            return None
        chunks = tuple(_chunk(one) for one in self._tx.all("vault.of_note", {"path": path, "limit": limit}))
        return NotePreview(
            path=path, changed=from_text(row["changed"]), tags=tuple(json.loads(row["tags"])), chunks=chunks
        )

    def tagged(self, tag: str, limit: int) -> list[str]:
        """Return the paths of notes with a (folded) tag or one below it, last written first."""
        return [row["path"] for row in self._tx.all("vault.tagged", {"tag": tag, "limit": limit})] if tag else []

    def counts(self) -> Counts:
        """Return how many notes and chunks are indexed."""
        row = self._tx.one("vault.counts") or {"notes": 0, "chunks": 0}
        return Counts(notes=row["notes"], chunks=row["chunks"])

    def problems(self, limit: int) -> dict[str, str]:
        """Return what could not be read of indexed notes, by path."""
        return {row["path"]: row["trouble"] for row in self._tx.all("vault.troubles", {"limit": limit})}

    def _drop_chunks(self, paths: Collection[str]) -> None:
        self._tx.run("vault.drop_words", {"paths": json.dumps(list(paths))})
        self._tx.run("vault.drop_chunks", {"paths": json.dumps(list(paths))})


def _chunk(row: Mapping[str, str | int]) -> Chunk:
    return Chunk(path=str(row["path"]), part=int(row["part"]), heading=str(row["heading"]), text=str(row["text"]))


# Written pages, and the hashes of their lines.

#: Limits for all pages together: a person has to read them, and every change compares all of them.
MAX_FACTS: Final = 5000
MAX_SESSIONS: Final = 1000


class WrittenLine(Struct, frozen=True, kw_only=True):
    """The recorded state of a memory's line.

    Attributes:
        page: the key of its page.
        hash: the hash of its text.
        is_left: the line vanished together with many others, so the memory stays and the line is not written again.
    """

    page: str
    hash: str
    is_left: bool = False


class Page(Struct, frozen=True, kw_only=True):
    """The location of a page.

    Attributes:
        location: the vault and the folder, separated by a line break.
        path: relative to the vault; empty if the user removed the page.
    """

    location: str
    path: str


class PageMemory(Struct, frozen=True, kw_only=True):
    """A memory that belongs on a page.

    Attributes:
        project: None if the memory applies everywhere.
        day: the date of its creation, `YYYY-MM-DD`.
    """

    id: str
    project: str | None
    kind: str
    text: str
    day: str


class CurrentVersion(Struct, frozen=True, kw_only=True):
    """The current version of a memory, or its last one if none is live."""

    id: str
    is_live: bool


class WrittenPages:
    """The tables `vault_pages` and `vault_lines`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def pages(self) -> dict[str, Page]:
        """Return every page by its key."""
        return {row["key"]: Page(location=row["place"], path=row["path"]) for row in self._tx.all("pages.all")}

    def lines(self) -> dict[str, WrittenLine]:
        """Return every line by its memory id."""
        rows = self._tx.all("pages.lines")
        return {
            row["memory_id"]: WrittenLine(page=row["page"], hash=row["hash"], is_left=bool(row["is_left"]))
            for row in rows
        }

    def keep(self, pages: Mapping[str, Page], lines: Mapping[str, WrittenLine]) -> None:
        """Store the locations of pages and the state of lines; unlisted lines are deleted, unlisted pages stay."""
        recorded = self.lines()
        rows = [{"key": key, "place": page.location, "path": page.path} for key, page in pages.items()]
        self._tx.many("pages.put", rows)
        self.delete_lines([id_ for id_ in recorded if id_ not in lines])
        changed = {id_: line for id_, line in lines.items() if recorded.get(id_) != line}
        self._tx.many(
            "pages.put_line",
            [
                {"memory_id": i, "page": line.page, "hash": line.hash, "is_left": line.is_left}
                for i, line in changed.items()
            ],
        )

    def delete_lines(self, memories: Collection[str]) -> None:
        """Delete the records of these memories' lines."""
        self._tx.run("pages.drop_lines", {"ids": json.dumps(list(memories))})

    def anew(self) -> None:
        """Delete the records of pages and lines that the user removed, so that they are written again."""
        self._tx.run("pages.anew_lines")
        self._tx.run("pages.anew")

    def clear(self) -> None:
        """Delete the records of all pages and lines."""
        self._tx.run("pages.clear")
        self._tx.run("pages.clear_lines")

    def page_memories(self) -> list[PageMemory]:
        """Return the memories that belong on pages, oldest first: facts and session summaries.

        Facts need enough confidence, and must come from the user or an agent. Those known only from a tool's output or
        an import are left out.
        """
        parameters = {"user_id": LOCAL_USER, "least": MIN_CONFIDENCE_INJECT, "trust": TRUST_AGENT, "limit": MAX_FACTS}
        facts = self._tx.all("pages.facts", parameters)
        sessions = self._tx.all("pages.sessions", parameters | {"limit": MAX_SESSIONS})
        return [
            PageMemory(
                id=row["id"],
                project=row["project_id"] if row["scope"] == "project" else None,
                kind=row["kind"],
                text=row["text"],
                day=row["created_at"][:10],
            )
            for row in (*facts, *sessions)
        ]

    def heads(self, ids: list[str]) -> dict[str, CurrentVersion]:
        """Return the current version of each memory; ids that are not in the database are left out."""
        rows = self._tx.all("pages.heads", {"ids": json.dumps(ids)})
        return {row["id"]: CurrentVersion(id=row["head"], is_live=row["state"] == "live") for row in rows}

    def newest_change(self) -> int:
        """Return the journal's latest number, which grows with every change of memories."""
        return number_of(self._tx, "journal.newest")


#: Recompute the whitening when the number of vectors has changed by this factor.
_REFIT_RATIO: Final = 1.1
#: Chunks per note that enter the whitening, and that a query may find.
_CHUNKS_PER_NOTE: Final = 3


class ScanStatus(Struct, frozen=True, kw_only=True):
    """The result of the last scan of the vault.

    Attributes:
        folder: the vault; empty if none is set.
        at: when the scan ended; None before the first one.
        problem: why the vault could not be read; empty if it could.
        problems: problems of single notes, by path.
        waiting: number of notes still to be read.
    """

    folder: str = ""
    at: datetime | None = None
    problem: str = ""
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    waiting: int = 0

    @property
    def is_there(self) -> bool:
        """True if the vault can be read; notes of an unreadable vault are not shown."""
        return bool(self.folder) and self.at is not None and not self.problem


class WriteStatus(Struct, frozen=True, kw_only=True):
    """The state of the pages that are written into the vault.

    Attributes:
        folder: their folder; empty if none are written.
        problem: why nothing could be written; empty if it could.
        pages: number of pages.
        memories: number of memories on them.
        problems: lines that are not changed: the page, the memory (or empty), and the reason.
    """

    folder: str = ""
    problem: str = ""
    pages: int = 0
    memories: int = 0
    problems: tuple[tuple[str, str, str], ...] = ()


class NoteSimilarity(Struct, frozen=True):
    """A chunk's similarity to a query.

    Attributes:
        cosine: of the vectors as they are.
        whitened: of the whitened vectors; equal to `cosine` without a whitening.
    """

    cosine: float
    whitened: float


class _QuestionMean(Struct, frozen=True):
    """The mean vector of the bundled sample questions in one space."""

    space_id: str
    mean: Vector


class _LoadedVectors(Struct, frozen=True):
    """All windows in one space, as of one revision of the rows.

    Attributes:
        key: the revision and the id of the space.
        windows: the windows.
        whitening: None if there are too few notes.
        whitened: the whitened vectors; None without a whitening.
        sample_size: how many vectors the whitening was computed from.
        is_complete: True if no chunk was without a vector.
    """

    key: tuple[int, str]
    windows: Windows
    whitening: Whitening | None
    whitened: Vectors | None
    sample_size: int
    is_complete: bool


class VaultIndex:
    """The vault's vectors and state in memory. Thread-safe. Set `anew` to have removed pages written again."""

    def __init__(self) -> None:
        self.scanned = ScanStatus()
        self.written = WriteStatus()
        self.anew = Flag()
        self._revision = 0
        self._loaded: _LoadedVectors | None = None
        self._question_mean: _QuestionMean | None = None
        self._lock = Lock()

    def changed(self) -> None:
        """Record that rows changed; the embedding thread reloads the vectors, and queries do not wait for it."""
        with self._lock:
            self._revision += 1

    def forget(self) -> None:
        """Drop all vectors, so that forgotten text leaves no vector in memory."""
        with self._lock:
            self._revision += 1
            self._loaded = None

    def learn_question_mean(self, vectors: VectorSearch) -> None:
        """Compute the mean of the sample questions in this space, if it is not known; takes about a second."""
        space = vectors.space
        if not space.is_measured or (self._question_mean and self._question_mean.space_id == space.id):
            return
        questions = [sample.question for sample in bundled() if sample.question]
        try:
            mean = np.mean([vectors.embedder.query(question) for question in questions], axis=0)
        except EmbedderUnavailable:
            return  # the next run tries again
        self._question_mean = _QuestionMean(space.id, mean)

    def nearest(self, tx: Tx, space: EmbeddingSpace, vector: Vector, limit: int) -> dict[int, NoteSimilarity]:
        """Return the chunks nearest to a query by their best window, best first, with a few per note at most."""
        loaded, question_mean = self._loaded_vectors(tx, space), self._question_mean
        cosines = np.vecdot(loaded.windows.vectors, vector)  # see `search.vector_index.products`
        similarities = cosines
        if (
            loaded.whitening is not None
            and loaded.whitened is not None
            and question_mean is not None
            and question_mean.space_id == space.id
        ):
            centred = (vector - question_mean.mean) @ loaded.whitening.matrix
            similarities = np.vecdot(loaded.whitened, centred / max(float(np.linalg.norm(centred)), 1e-9))
        found, chunks_of_note = dict[int, NoteSimilarity](), Counter[int]()
        for row in map(int, np.argsort(-similarities, kind="stable")):
            if len(found) == limit:
                break
            seq, note = int(loaded.windows.seqs[row]), int(loaded.windows.notes[row])
            if seq not in found and chunks_of_note[note] < _CHUNKS_PER_NOTE:
                found[seq] = NoteSimilarity(float(cosines[row]), float(similarities[row]))
                chunks_of_note[note] += 1
        return found

    def embedded(self, tx: Tx, space: EmbeddingSpace) -> int:
        """Return the number of chunks with a vector in this space."""
        return len(np.unique(self._loaded_vectors(tx, space).windows.seqs))

    def _loaded_vectors(self, tx: Tx, space: EmbeddingSpace) -> _LoadedVectors:
        """Return the loaded vectors of this space, even if they lag behind the rows."""
        loaded = self._loaded
        return loaded if loaded is not None and loaded.key[1] == space.id else self.load(tx, space)

    def load(self, tx: Tx, space: EmbeddingSpace, *, is_complete: bool = False) -> _LoadedVectors:
        """Load the vectors if the loaded ones are out of date.

        Args:
            tx: a transaction.
            space: the embedding space.
            is_complete: no chunk is without a vector, so the whitening is recomputed exactly.
        """
        key = (self._revision, space.id)
        loaded = self._loaded
        if loaded is None or loaded.key != key or (is_complete and not loaded.is_complete):
            windows = StoredVault(tx).windows(space.id, space.dimension)
            # A long note must not weigh more than others in the whitening.
            vectors = windows.vectors[windows.parts < _CHUNKS_PER_NOTE]
            whitening, sample_size = _whitening_for(None if is_complete else loaded, space, vectors)
            whitened = whitening.whiten(windows.vectors) if whitening else None
            loaded = _LoadedVectors(key, windows, whitening, whitened, sample_size, is_complete)
            with self._lock:
                if self._revision == key[0]:
                    self._loaded = loaded
        return loaded


def _whitening_for(
    previous: _LoadedVectors | None, space: EmbeddingSpace, vectors: Vectors
) -> tuple[Whitening | None, int]:
    """Return the whitening of these vectors and how many vectors it was computed from.

    If their number has hardly changed, the earlier whitening is reused.
    """
    if not space.is_measured:
        return None, 0
    if previous and previous.whitening and previous.key[1] == space.id:
        fewer, more = sorted((previous.sample_size, len(vectors)))
        if more <= _REFIT_RATIO * fewer:
            return previous.whitening, previous.sample_size
    return Whitening.fit(vectors), len(vectors)
