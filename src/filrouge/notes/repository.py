"""Notes of the vault in the database, and the pages that were written into it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from filrouge.capture.models import TRUST_AGENT
from filrouge.core.clock import from_text, to_text
from filrouge.core.protocols import Analyser, Tx, Vectors
from filrouge.core.scope import LOCAL_USER
from filrouge.memories.models import LEAST_TO_INJECT
from filrouge.notes.models import Chunk, Note

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
