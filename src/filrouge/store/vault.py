"""Notes of the vault as they are indexed: a row for each file, its chunks with their words and a vector.

All of it is derived from files that belong to the user, and is made again from them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from filrouge.clock import from_text, to_text
from filrouge.model.note import Chunk, Note
from filrouge.ports import Analyser, Tx, Vectors


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
