"""Stored vectors: of memories and turns in each embedding space, and the need vectors of memories.

Vectors are half-precision BLOBs, each with the id of its embedding space. They are the source from which a vector index
is rebuilt. Vectors of two spaces are never read together: recall reads the one current space, another may be building,
and the rest are retired and cleared.

The windows of a long text are written from the last to the first, so an owner (a memory or a turn) is complete once its
part 0 is stored.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from filrouge.core.protocols import Tx, Vector, Vectors
from filrouge.providers.models import Calibration, EmbeddingSpace

OwnerKind = Literal["memory", "turn"]
Places = NDArray[np.int64]
#: Minimum share of texts that must have vectors; below it, vector recall misses too much.
LEAST_COVERAGE: Final = 0.90
_LAST_PART = 1 << 31
_ROWS_PER_PAGE = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSpace:
    """An embedding space that has, had or will have vectors.

    Attributes:
        space: its `calibration` is the one measured here, or None if none was measured.
        embedder: the registered name of the embedder that produces its vectors.
    """

    space: EmbeddingSpace
    embedder: str
    state: Literal["current", "building", "retired"]

    @property
    def id(self) -> str:
        """The space's id."""
        return self.space.id


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """A memory or a turn that needs vectors.

    Attributes:
        seq: its row number within its table; grows with time.
        group: the partition it is searched in: a project, or the user.
    """

    kind: OwnerKind
    id: str
    seq: int
    group: str
    text: str


class Spaces:
    """The table `spaces`. The schema allows at most one current space and at most one building space."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def declare(self, space: EmbeddingSpace, embedder: str) -> None:
        """Register a space before its first vector; a registered space keeps its state and its measured calibration."""
        row = {name: getattr(space, name) for name in ("id", "model", "revision", "dimension", "pooling", "prefix")}
        self._tx.run("spaces.declare", row | {"embedder": embedder})

    def all(self) -> list[StoredSpace]:
        """Return every registered space."""
        return [_stored_space(row) for row in self._tx.all("spaces.all")]

    def current(self) -> StoredSpace | None:
        """Return the space that recall reads; None before the first embedder is adopted."""
        return self._in("current")

    def building(self) -> StoredSpace | None:
        """Return the space that is being built, or None."""
        return self._in("building")

    def get(self, space_id: str) -> StoredSpace | None:
        """Return the space with this id, or None."""
        return next((one for one in self.all() if one.id == space_id), None)

    def begin(self, space_id: str) -> None:
        """Mark this space as building; a space that was building is retired."""
        self._only("building", space_id)

    def make_current(self, space_id: str) -> None:
        """Make this the space that recall reads; the previous one is retired."""
        self._only("current", space_id)

    def retire(self, space_id: str) -> None:
        """Retire a space, so that its vectors may be cleared."""
        self._tx.run("spaces.move", {"id": space_id, "state": "retired"})

    def set_calibration(self, space_id: str, calibration: Calibration) -> None:
        """Store a measured calibration; it takes precedence over the shipped one."""
        self._tx.run("spaces.calibrate", {"id": space_id, "calibration": json.dumps(asdict(calibration))})

    def _only(self, state: str, space_id: str) -> None:
        self._tx.run("spaces.retire", {"state": state, "id": space_id})
        self._tx.run("spaces.move", {"state": state, "id": space_id})

    def _in(self, state: str) -> StoredSpace | None:
        return next((one for one in self.all() if one.state == state), None)


class StoredVectors:
    """The table `vectors`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def put(self, kind: OwnerKind, owner_id: str, space_id: str, vectors: Vectors, *, first: int | None = None) -> None:
        """Store windows of an owner, numbered from `first`.

        Windows are stored from the last to the first. They replace stored windows with the same numbers; the call that
        stores part 0 must bring every window before the first stored one. Without `first`, all the owner's windows in
        this space are replaced.
        """
        owner = {"owner_kind": kind, "owner_id": owner_id, "space_id": space_id}
        last = _LAST_PART if first is None else first + len(vectors) - 1
        first = first or 0
        self._tx.run("vectors.drop", owner | {"first": first, "last": last})
        rows = [owner | {"part": first + n, "vector": one.astype("<f2").tobytes()} for n, one in enumerate(vectors)]
        self._tx.many("vectors.put", rows)

    def first_part(self, kind: OwnerKind, owner_id: str, space_id: str) -> int | None:
        """Return the lowest stored window number: 0 = complete, None = nothing stored."""
        row = self._tx.one("vectors.first_part", {"owner_kind": kind, "owner_id": owner_id, "space_id": space_id})
        return row["part"] if row else None

    def of(self, kind: OwnerKind, owner_id: str, space_id: str) -> Vectors | None:
        """Return the windows of an owner, or None if it has none."""
        rows = self._tx.all("vectors.of", {"owner_kind": kind, "owner_id": owner_id, "space_id": space_id})
        return _matrix([row["vector"] for row in rows]) if rows else None

    def some(self, kind: OwnerKind, owner_ids: Collection[str], space_id: str) -> dict[str, Vectors]:
        """Return the windows of these owners by id; owners without vectors are left out."""
        wanted = {"owner_kind": kind, "ids": json.dumps(list(owner_ids)), "space_id": space_id}
        return {row["id"]: vectors for row, vectors in _by_owner(self._tx.all("vectors.some", wanted))}

    def windows(self, kind: OwnerKind, owner_ids: Sequence[str], space_id: str) -> tuple[Vectors, Places]:
        """Return all windows of these owners, and for each window the index of its owner in `owner_ids`, ascending."""
        wanted = {"owner_kind": kind, "ids": json.dumps(owner_ids), "space_id": space_id}
        rows = self._tx.all("vectors.windows", wanted)
        windows = _matrix([row["vector"] for row in rows]) if rows else np.empty((0, 0), dtype=np.float32)
        return windows, np.array([row["place"] for row in rows], dtype=np.int64)

    def live_memories(self, space_id: str) -> Iterator[tuple[str, int, str, Vectors]]:
        """Yield the id, row number, group and windows of every live memory."""
        return self._grouped("vectors.live_memories", space_id)

    def turns(self, space_id: str) -> Iterator[tuple[str, int, str, Vectors]]:
        """Yield the id, row number, group and windows of every turn."""
        return self._grouped("vectors.turns", space_id)

    def ended_memories(self, space_id: str) -> list[str]:
        """Return the ids of memories that have vectors in this space but are no longer live."""
        return [row["id"] for row in self._tx.all("vectors.ended_memories", {"space_id": space_id})]

    def short_turns(self, space_id: str, *, longest: int, limit: int) -> tuple[Vectors, list[str]]:
        """Return the user's newest turns of at most `longest` characters: their vectors, and the session of each."""
        rows = self._tx.all("vectors.short_turns", {"space_id": space_id, "longest": longest, "limit": limit})
        vectors = _matrix([row["vector"] for row in rows]) if rows else np.empty((0, 0), dtype=np.float32)
        return vectors, [row["session"] for row in rows]

    def prompts(self, space_id: str, user: str, limit: int) -> Vectors:
        """Return the vectors of the first windows of a user's newest prompts; shape (n, dimension)."""
        rows = self._tx.all("vectors.prompts", {"space_id": space_id, "user_id": user, "limit": limit})
        return _matrix([row["vector"] for row in rows]) if rows else np.empty((0, 0), dtype=np.float32)

    def count(self) -> int:
        """Return how many owners have vectors in the current space."""
        row = self._tx.one("vectors.count")
        return int(row["n"]) if row else 0

    def number(self, kind: OwnerKind, owner_id: str) -> int | None:
        """Return the row number of a memory or a turn; None if it was erased."""
        row = self._tx.one("vectors.owner", {"owner_kind": kind, "owner_id": owner_id})
        return int(row["number"]) if row else None

    def any(self, space_id: str) -> bool:
        """Return True if the space has any vector."""
        return self._tx.one("vectors.any", {"space_id": space_id}) is not None

    def missing(self, kind: OwnerKind, space_id: str, limit: int, *, after: int = 0) -> list[Owner]:
        """Return the first live memories or turns after `after` that lack vectors in this space, oldest first."""
        query = "vectors.missing_memories" if kind == "memory" else "vectors.missing_turns"
        rows = self._tx.all(query, {"space_id": space_id, "limit": limit, "after": after})
        return [Owner(kind=kind, id=row["id"], seq=row["seq"], group=row["grouping"], text=row["text"]) for row in rows]

    def newest(self, kind: OwnerKind) -> int:
        """Return the row number of the newest memory or turn."""
        row = self._tx.one("vectors.newest")
        return int(row[kind]) if row else 0

    def coverage(self, space_id: str) -> tuple[int, int]:
        """Return how many memories and turns have vectors in this space, and how many should."""
        row = self._tx.one("vectors.coverage", {"space_id": space_id})
        return (int(row["done"]), int(row["total"])) if row else (0, 0)

    def drop_unfinished(self) -> int:
        """Delete the windows of incompletely embedded owners; they are embedded again from the current text."""
        return self._tx.run("vectors.drop_unfinished")

    def clear_retired(self, after: tuple[str, str], limit: int) -> tuple[str, str] | None:
        """Delete vectors of retired spaces in the next `limit` rows; return the last row read, or None at the end."""
        begin = {"owner_kind": after[0], "owner_id": after[1]}
        row = self._tx.one("vectors.after", begin | {"limit": limit})
        last = (row["owner_kind"], row["owner_id"]) if row else ("\uffff", "")
        self._tx.run("vectors.clear_retired", begin | {"last_kind": last[0], "last_id": last[1]})
        return last if row else None

    def _grouped(self, query: str, space_id: str) -> Iterator[tuple[str, int, str, Vectors]]:
        """Yield owners one at a time, reading rows in pages to bound the daemon's memory."""
        after, size = "", _ROWS_PER_PAGE
        while True:
            rows = self._tx.all(query, {"space_id": space_id, "after": after, "limit": size})
            # A full page may end in the middle of an owner; that owner is read whole with the next page.
            whole = rows if len(rows) < size else [row for row in rows if row["id"] != rows[-1]["id"]]
            for row, vectors in _by_owner(whole):
                yield row["id"], row["number"], row["grouping"], vectors
            if len(rows) < size:
                return
            if whole:
                after, size = whole[-1]["id"], _ROWS_PER_PAGE
            else:
                size *= 2  # one owner fills the page


def _by_owner(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Vectors]]:
    """Yield one row per owner with its windows, from rows grouped by owner; all vectors are decoded at once."""
    if not rows:
        return
    windows = _matrix([row["vector"] for row in rows])
    first = 0
    for last, row in enumerate(rows, 1):
        if last == len(rows) or rows[last]["id"] != row["id"]:
            yield row, windows[first:last]
            first = last


def _stored_space(row: Mapping[str, Any]) -> StoredSpace:
    space = EmbeddingSpace(
        id=row["id"],
        model=row["model"],
        revision=row["revision"],
        dimension=row["dimension"],
        pooling=row["pooling"],
        prefix=row["prefix"],
        calibration=_calibration(row["calibration"]),
    )
    return StoredSpace(space=space, embedder=row["embedder"], state=row["state"])


def _calibration(text: str | None) -> Calibration | None:
    if text is None:
        return None
    raw: dict[str, Any] = json.loads(text)
    anchors = {name: tuple((float(x), float(y)) for x, y in raw[name]) for name in ("texts", "questions")}
    return Calibration(**anchors, origin=raw["origin"], pairs=raw["pairs"])


def _matrix(parts: Sequence[bytes]) -> Vectors:
    return np.frombuffer(b"".join(parts), dtype="<f2").reshape(len(parts), -1).astype(np.float32)


# Need vectors: for each memory, the vector that prompts needing this memory are matched against.
#
# A memory is encoded together with the words before it, taken from its own turn or from the message that the turn
# answers. Its row also holds the id of the turn with those words. Need vectors are derived data: missing ones, and ones
# from another encoder revision, are computed again.

#: Characters of context before a statement; `bench/fit_questions.py` trains with the same number.
CONTEXT_CHARACTERS: Final = 120
#: Kind and dedupe key of the job that computes missing need vectors; there is one such job.
NEED_VECTORS_JOB: Final = "need_vectors"


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingNeedVector:
    """A memory without its need vector, and its row number."""

    id: str
    seq: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StatementInContext:
    """A memory together with the context it is encoded with.

    Attributes:
        before: the text before it; empty if there is none.
        turn_id: the turn that holds that text, or None.
    """

    memory_id: str
    text: str
    before: str = ""
    turn_id: str | None = None


class NeedVectors:
    """The table `need_vectors`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def put(self, revision: str, made: Iterable[tuple[StatementInContext, Vector]]) -> None:
        """Store the need vectors of memories; memories that were erased in the meantime are skipped."""
        rows = [
            {
                "memory_id": one.memory_id,
                "turn_id": one.turn_id,
                "revision": revision,
                "vector": vector.astype("<f2").tobytes(),
            }
            for one, vector in made
        ]
        self._tx.many("need_vectors.put", rows)

    def some(self, ids: Collection[str], revision: str) -> dict[str, Vector]:
        """Return the vectors of these memories that this encoder revision produced."""
        rows = self._tx.all("need_vectors.some", {"ids": json.dumps(list(ids)), "revision": revision})
        return (
            dict(zip((row["id"] for row in rows), _matrix([row["vector"] for row in rows]), strict=True))
            if rows
            else {}
        )

    def missing(self, revision: str, limit: int, *, after: int = 0) -> list[MissingNeedVector]:
        """Return the first live memories after `after` that lack a vector of this revision, oldest first."""
        rows = self._tx.all("need_vectors.missing", {"revision": revision, "limit": limit, "after": after})
        return [MissingNeedVector(id=row["id"], seq=row["seq"]) for row in rows]

    def settings(self, ids: Collection[str]) -> list[StatementInContext]:
        """Return these memories with the context they are encoded with."""
        rows = self._tx.all("need_vectors.settings", {"ids": json.dumps(list(ids)), "most": CONTEXT_CHARACTERS})
        return [_in_setting(row) for row in rows]


def _in_setting(row: Mapping[str, Any]) -> StatementInContext:
    for before, turn in ((row["before"], row["turn_id"]), (row["earlier"], row["earlier_id"])):
        if before.strip():
            return StatementInContext(memory_id=row["id"], text=row["text"], before=before, turn_id=turn)
    return StatementInContext(memory_id=row["id"], text=row["text"])
