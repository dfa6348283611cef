"""What is held of the vault in memory: the vectors of its chunks, and how the last look at it went.

Notes are alike before they say anything: their languages, their forms, the words under which they are filed. In the
bundled model's space a short French question is nearer to most short French notes than to the English one that answers
it. So a question is held against notes above the ground that these stand on (`threads.assignment`), with the mean of
other questions taken off; of 300 notes twice as many are then found. Few notes have no ground, and are compared as
they are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event as Flag
from threading import Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.capture.models import TRUST_AGENT
from filrouge.core.clock import from_text, to_text
from filrouge.core.errors import EmbedderUnavailable
from filrouge.core.protocols import Analyser, Tx, Vector, Vectors
from filrouge.core.scope import LOCAL_USER
from filrouge.memories.models import LEAST_TO_INJECT
from filrouge.notes.models import Chunk, Note
from filrouge.providers.calibration import bundled
from filrouge.providers.models import EmbeddingSpace
from filrouge.search.vector_search import Meaning
from filrouge.threads.assignment import Ground

# Notes of the vault in the database, and the pages that were written into it.

# Notes of the vault as they are indexed: a row for each file, its chunks with their words and a vector.
#
# All of it is derived from files that belong to the user, and is made again from them.


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What is known of a file: how it looked when it was read, and a hash of what it held."""

    stamp: str
    hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredChunk:
    """A chunk with its number, the words that it is indexed under, and when its note was written."""

    seq: int
    chunk: Chunk
    tokens: str
    changed: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Windows:
    """What is embedded of chunks, window by window.

    Attributes:
        seqs: the chunk's number.
        notes: a number for its note, another one for each.
        parts: the chunk's place in its note.
    """

    seqs: NDArray[np.int64]
    notes: NDArray[np.int64]
    parts: NDArray[np.int64]
    vectors: Vectors


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How many notes and chunks are indexed."""

    notes: int
    chunks: int


class StoredVault:
    """The tables `vault_notes` and `vault_chunks` with their words."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def known(self) -> dict[str, Seen]:
        """Every note by its path."""
        return {row["path"]: Seen(stamp=row["stamp"], hash=row["hash"]) for row in self._tx.all("vault.known")}

    def put(self, note: Note, chunks: Sequence[Chunk], stamp: str, analyser: Analyser) -> None:
        """Index a note in the place of what was known of it."""
        self._empty([note.path])
        row = {
            "path": note.path, "stamp": stamp, "hash": note.hash, "changed": to_text(note.changed),
            "tags": json.dumps(note.tags), "trouble": note.trouble,
        }  # fmt: skip
        self._tx.run("vault.put", row)
        own = [{"path": one.path, "part": one.part, "heading": one.heading, "text": one.text} for one in chunks]
        self._tx.many("vault.put_chunk", own)
        words = [{"path": one.path, "part": one.part, "tokens": analyser.tokens(one.indexed)} for one in chunks]
        self._tx.many("vault.put_words", words)

    def touch(self, path: str, stamp: str, changed: datetime) -> None:
        """Note that a file was written and holds what it held before."""
        self._tx.run("vault.stamp", {"path": path, "stamp": stamp, "changed": to_text(changed)})

    def drop(self, paths: Collection[str]) -> None:
        """Take notes out that are gone."""
        self._empty(paths)
        self._tx.run("vault.drop", {"paths": json.dumps(list(paths))})

    def doomed(self, ids: Collection[str], paths: Collection[str]) -> dict[str, str]:
        """The texts of these chunks and of all chunks of these notes, by their ids."""
        asked = {"ids": json.dumps(list(ids)), "paths": json.dumps(list(paths))}
        return {row["id"]: row["text"] for row in self._tx.all("vault.doomed", asked)}

    def forget(self, ids: Collection[str], paths: Collection[str]) -> None:
        """Take chunks out, and whole notes; of the other notes the rest stays, until their files are written again.

        The words that were taken out before go from the file as well.
        """
        self._tx.run("vault.forget_words", {"ids": json.dumps(list(ids))})
        self._tx.run("vault.forget_chunks", {"ids": json.dumps(list(ids))})
        self.drop(paths)
        self._tx.run("vault.merge")

    def missing(self, space_id: str, limit: int) -> list[tuple[int, str]]:
        """Chunks without a vector in this space: their numbers, and what is to be embedded."""
        rows = self._tx.all("vault.missing", {"space_id": space_id, "limit": limit})
        return [(row["seq"], f"{row['heading']}\n{row['text']}") for row in rows]

    def embed(self, space_id: str, vectors: Mapping[int, Vectors]) -> None:
        """Give chunks the vectors of their windows; one that is gone meanwhile is passed over."""
        rows = [
            {"seq": seq, "space_id": space_id, "vector": own.astype("<f2").tobytes()} for seq, own in vectors.items()
        ]
        self._tx.many("vault.embed", rows)

    def windows(self, space_id: str, dimension: int) -> Windows:
        """Every window of all chunks that are embedded in a space."""
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
        """The chunks that match an expression of full text, best first."""
        return [row["seq"] for row in self._tx.all("vault.best", {"match": match, "limit": limit})]

    def frequencies(self, forms: Iterable[str]) -> dict[str, int]:
        """In how many chunks each of these occurs; those that occur nowhere are left out."""
        rows = self._tx.all("vault.frequencies", {"forms": json.dumps(list(forms))})
        return {row["term"]: int(row["doc"]) for row in rows}

    def chunks(self, seqs: Collection[int]) -> list[StoredChunk]:
        """These chunks, in no order; those that are gone are left out."""
        rows = self._tx.all("vault.chunks", {"seqs": json.dumps(list(seqs))})
        return [
            StoredChunk(seq=row["seq"], chunk=_chunk(row), tokens=row["tokens"], changed=from_text(row["changed"]))
            for row in rows
        ]

    def beginning(self, path: str, limit: int) -> tuple[str, datetime] | None:
        """The first characters of a note and when it was written; None where there is none, or no word in it."""
        rows = self._tx.all("vault.of_note", {"path": path, "limit": limit // 100})
        if not rows:
            return None
        return "\n\n".join(row["text"] for row in rows)[:limit], from_text(rows[0]["changed"])

    def tagged(self, tag: str, limit: int) -> list[str]:
        """The paths of notes with a tag, as it is folded, or one below it; those first that were written last."""
        return [row["path"] for row in self._tx.all("vault.tagged", {"tag": tag, "limit": limit})] if tag else []

    def counts(self) -> Counts:
        """How much is indexed."""
        row = self._tx.one("vault.counts") or {"notes": 0, "chunks": 0}
        return Counts(notes=row["notes"], chunks=row["chunks"])

    def troubles(self, limit: int) -> dict[str, str]:
        """What could not be read of notes that are indexed, by their paths."""
        return {row["path"]: row["trouble"] for row in self._tx.all("vault.troubles", {"limit": limit})}

    def _empty(self, paths: Collection[str]) -> None:
        self._tx.run("vault.drop_words", {"paths": json.dumps(list(paths))})
        self._tx.run("vault.drop_chunks", {"paths": json.dumps(list(paths))})


def _chunk(row: Mapping[str, str | int]) -> Chunk:
    return Chunk(path=str(row["path"]), part=int(row["part"]), heading=str(row["heading"]), text=str(row["text"]))


# The pages that were written into the vault, and what their lines held then.

#: Memories on all pages together, and sessions: what a person reads, and what is compared at every change.
MOST_FACTS: Final = 5000
MOST_SESSIONS: Final = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What is known of a memory's line.

    Attributes:
        page: the key of the page that it is on.
        hash: of the words that it held.
        is_left: it went with many others; the memory stays, and is not written again.
    """

    page: str
    hash: str
    is_left: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Where a page is; `place` names the vault and the folder, `path` is empty where the user removed it."""

    place: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A memory that belongs on a page; `project` is None for what holds for the user everywhere."""

    id: str
    project: str | None
    kind: str
    text: str
    day: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """The version of a memory that says it now, or its last one."""

    id: str
    is_live: bool


class WrittenPages:
    """The tables `vault_pages` and `vault_lines`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def pages(self) -> dict[str, Page]:
        """Every page by its key."""
        return {row["key"]: Page(place=row["place"], path=row["path"]) for row in self._tx.all("pages.all")}

    def lines(self) -> dict[str, Kept]:
        """Every line by the memory that it holds."""
        rows = self._tx.all("pages.lines")
        return {
            row["memory_id"]: Kept(page=row["page"], hash=row["hash"], is_left=bool(row["is_left"])) for row in rows
        }

    def keep(self, pages: Mapping[str, Page], lines: Mapping[str, Kept]) -> None:
        """Note where pages are and what their lines hold, in the place of what was known."""
        known = self.lines()
        rows = [{"key": key, "place": one.place, "path": one.path} for key, one in pages.items()]
        self._tx.many("pages.put", rows)
        self.let_go([id_ for id_ in known if id_ not in lines])
        fresh = {id_: one for id_, one in lines.items() if known.get(id_) != one}
        self._tx.many(
            "pages.put_line",
            [{"memory_id": i, "page": one.page, "hash": one.hash, "is_left": one.is_left} for i, one in fresh.items()],
        )

    def let_go(self, memories: Collection[str]) -> None:
        """Know no more of the lines of these."""
        self._tx.run("pages.drop_lines", {"ids": json.dumps(list(memories))})

    def anew(self) -> None:
        """Know nothing any more of pages and lines that the user removed, so that they are written again."""
        self._tx.run("pages.anew_lines")
        self._tx.run("pages.anew")

    def clear(self) -> None:
        """Know of no page."""
        self._tx.run("pages.clear")
        self._tx.run("pages.clear_lines")

    def shown(self) -> list[Shown]:
        """What belongs on pages, the oldest first: what is believed and was learned from the user or an agent, and what
        sums sessions up. What a tool's output or an import alone says is not believed by anybody yet."""
        asked = {"user_id": LOCAL_USER, "least": LEAST_TO_INJECT, "trust": TRUST_AGENT, "limit": MOST_FACTS}
        facts = self._tx.all("pages.facts", asked)
        sessions = self._tx.all("pages.sessions", asked | {"limit": MOST_SESSIONS})
        return [
            Shown(
                id=row["id"],
                project=row["project_id"] if row["scope"] == "project" else None,
                kind=row["kind"],
                text=row["text"],
                day=row["created_at"][:10],
            )
            for row in (*facts, *sessions)
        ]

    def heads(self, ids: list[str]) -> dict[str, Head]:
        """Of each of these the version of today; those that are nowhere in the memory are left out."""
        rows = self._tx.all("pages.heads", {"ids": json.dumps(ids)})
        return {row["id"]: Head(id=row["head"], is_live=row["state"] == "live") for row in rows}

    def newest_change(self) -> int:
        """A number that grows with every change of what is known."""
        row = self._tx.one("journal.newest")
        return int(row["n"]) if row else 0


#: A ground is made again when the vectors have become so many times more or fewer.
_GROWN: Final = 1.1
#: Chunks of one note that make the ground, and that may be found for a question.
_OF_ONE_NOTE: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """How the last look at the vault went.

    Attributes:
        folder: what was looked at; empty where no vault is named.
        at: when it ended; None before the first.
        problem: why the vault could not be read, empty where it could.
        troubles: of single notes, by path.
        waiting: notes that are still to be read.
    """

    folder: str = ""
    at: datetime | None = None
    problem: str = ""
    troubles: Mapping[str, str] = field(default_factory=dict[str, str])
    waiting: int = 0

    @property
    def is_there(self) -> bool:
        """True while the vault can be read: nothing is shown of one that cannot."""
        return bool(self.folder) and self.at is not None and not self.problem


@dataclass(frozen=True, kw_only=True, slots=True)
class WroteBack:
    """How the pages stand that are written into the vault.

    Attributes:
        folder: where they are; empty where none are written.
        problem: why nothing could be written, empty where it could.
        troubles: what is left alone, with where it stands: the page, the memory (or empty), and why.
    """

    folder: str = ""
    problem: str = ""
    pages: int = 0
    memories: int = 0
    troubles: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Near:
    """How near a chunk is to a question: its cosine, and what is left of it above the ground."""

    cosine: float
    above: float


@dataclass(frozen=True, slots=True)
class _Asking:
    """What the questions of the bundled sample have in common, in one space."""

    space_id: str
    mean: Vector


@dataclass(frozen=True, slots=True)
class _Held:
    """Every window, as of one revision of the rows, in one space.

    Attributes:
        above: the same vectors above the ground; None where there is none.
        sized: how many vectors the ground was made of.
        is_whole: all of them.
    """

    of: tuple[int, str]
    windows: Windows
    ground: Ground | None
    above: Vectors | None
    sized: int
    is_whole: bool


class Noted:
    """The vault's vectors and its state. Safe for several threads; `anew` has the pages written again that are gone."""

    def __init__(self) -> None:
        self.looked = Looked()
        self.written = WroteBack()
        self.anew = Flag()
        self._revision = 0
        self._held: _Held | None = None
        self._asking: _Asking | None = None
        self._lock = Lock()

    def changed(self) -> None:
        """Note that rows changed; whoever embeds them loads them anew, and nobody who asks waits for it."""
        with self._lock:
            self._revision += 1

    def forget(self) -> None:
        """Hold nothing any more: a forgotten vector is not left in memory."""
        with self._lock:
            self._revision += 1
            self._held = None

    def learn(self, meaning: Meaning) -> None:
        """Learn what questions have in common in this space, where that is not known; it takes about a second."""
        space = meaning.space
        if not space.is_measured or (self._asking and self._asking.space_id == space.id):
            return
        questions = [one.question for one in bundled() if one.question]
        try:
            mean = np.mean([meaning.embedder.query(one) for one in questions], axis=0)
        except EmbedderUnavailable:
            return  # the next look tries again
        self._asking = _Asking(space.id, mean)

    def nearest(self, tx: Tx, space: EmbeddingSpace, vector: Vector, limit: int) -> dict[int, Near]:
        """The chunks nearest to a question, by the best window of each, best first; of one note a few at the most."""
        held, asking = self._now(tx, space), self._asking
        cosines = np.vecdot(held.windows.vectors, vector)  # see `search.vector_index.products`
        near = cosines
        if held.ground is not None and held.above is not None and asking is not None and asking.space_id == space.id:
            asked = (vector - asking.mean) @ held.ground.levels
            near = np.vecdot(held.above, asked / max(float(np.linalg.norm(asked)), 1e-9))
        found, taken = dict[int, Near](), Counter[int]()
        for row in map(int, np.argsort(-near, kind="stable")):
            if len(found) == limit:
                break
            seq, note = int(held.windows.seqs[row]), int(held.windows.notes[row])
            if seq not in found and taken[note] < _OF_ONE_NOTE:
                found[seq] = Near(float(cosines[row]), float(near[row]))
                taken[note] += 1
        return found

    def embedded(self, tx: Tx, space: EmbeddingSpace) -> int:
        """How many chunks are found by their meaning."""
        return len(np.unique(self._now(tx, space).windows.seqs))

    def _now(self, tx: Tx, space: EmbeddingSpace) -> _Held:
        """What is held of this space, even if it lags behind the rows."""
        held = self._held
        return held if held is not None and held.of[1] == space.id else self.load(tx, space)

    def load(self, tx: Tx, space: EmbeddingSpace, *, is_whole: bool = False) -> _Held:
        """Read the vectors where they are not held as they are now.

        Args:
            is_whole: no chunk is without its vector, so the ground is worth making to the letter.
        """
        wanted = (self._revision, space.id)
        held = self._held
        if held is None or held.of != wanted or (is_whole and not held.is_whole):
            windows = StoredVault(tx).windows(space.id, space.dimension)
            # A thick note is no more of the ground than others.
            vectors = windows.vectors[windows.parts < _OF_ONE_NOTE]
            ground, sized = _ground(None if is_whole else held, space, vectors)
            above = ground.off(windows.vectors) if ground else None
            held = _Held(wanted, windows, ground, above, sized, is_whole)
            with self._lock:
                if self._revision == wanted[0]:
                    self._held = held
        return held


def _ground(before: _Held | None, space: EmbeddingSpace, vectors: Vectors) -> tuple[Ground | None, int]:
    """The ground of these vectors, the one before where they are hardly others, with how many it is made of."""
    if not space.is_measured:
        return None, 0
    if before and before.ground and before.of[1] == space.id:
        fewer, more = sorted((before.sized, len(vectors)))
        if more <= _GROWN * fewer:
            return before.ground, before.sized
    return Ground.of(vectors), len(vectors)
