"""Vectors in the database: of memories and turns in each embedding space, and those under which memories are needed."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from filrouge.core.protocols import Tx, Vector, Vectors
from filrouge.providers.models import Calibration, EmbeddingSpace

# Stored vectors: half-precision BLOBs, each with the id of the space it lives in.
#
# They are the truth that a vector index is rebuilt from. Vectors of two spaces are never read together: one space is
# current, and recall reads that one; another may be in building beside it; the rest are retired and cleared away. The
# windows of a long text are written from the last to the first, so an owner is complete once it has its part 0.

OwnerKind = Literal["memory", "turn"]
Places = NDArray[np.int64]
#: Below this share of texts with their vectors, recall by meaning misses too much.
LEAST_COVERAGE: Final = 0.90
_LAST_PART = 1 << 31
_ROWS_PER_PAGE = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSpace:
    """A space that has, had, or is to have vectors.

    Attributes:
        space: its calibration is the measured one, or None where none was measured here.
        embedder: the registered name of the embedder that made it.
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
    """A memory or a turn that is to have vectors.

    Attributes:
        seq: its place in the order of its kind; grows with time.
        group: what it is searched in: a project, or the user.
    """

    kind: OwnerKind
    id: str
    seq: int
    group: str
    text: str


class Spaces:
    """The table `spaces`. At most one is current, and at most one in building; the schema sees to it."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def declare(self, space: EmbeddingSpace, embedder: str) -> None:
        """Make a space known before its first vector; a known one keeps its state and its measured calibration."""
        row = {name: getattr(space, name) for name in ("id", "model", "revision", "dimension", "pooling", "prefix")}
        self._tx.run("spaces.declare", row | {"embedder": embedder})

    def all(self) -> list[StoredSpace]:
        """Every space that is known."""
        return [_stored_space(row) for row in self._tx.all("spaces.all")]

    def current(self) -> StoredSpace | None:
        """The space that recall reads; None before the first embedder was adopted."""
        return self._in("current")

    def building(self) -> StoredSpace | None:
        """The space that is being built, or None."""
        return self._in("building")

    def get(self, space_id: str) -> StoredSpace | None:
        """One space, or None."""
        return next((one for one in self.all() if one.id == space_id), None)

    def begin(self, space_id: str) -> None:
        """Build this space; another that was in building is given up."""
        self._only("building", space_id)

    def make_current(self, space_id: str) -> None:
        """Let recall read this space; the former one is retired."""
        self._only("current", space_id)

    def retire(self, space_id: str) -> None:
        """Give a space up: its vectors may be cleared away."""
        self._tx.run("spaces.move", {"id": space_id, "state": "retired"})

    def set_calibration(self, space_id: str, calibration: Calibration) -> None:
        """Keep a measured calibration; it counts for more than the shipped one."""
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
        """Store an owner's windows, those from number `first` on.

        Windows come from the last to the first: a part replaces the same numbers, and part 0 must bring what goes
        before the first that is stored. Without `first`, all that it had in this space is replaced.
        """
        owner = {"owner_kind": kind, "owner_id": owner_id, "space_id": space_id}
        last = _LAST_PART if first is None else first + len(vectors) - 1
        first = first or 0
        self._tx.run("vectors.drop", owner | {"first": first, "last": last})
        rows = [owner | {"part": first + n, "vector": one.astype("<f2").tobytes()} for n, one in enumerate(vectors)]
        self._tx.many("vectors.put", rows)

    def first_part(self, kind: OwnerKind, owner_id: str, space_id: str) -> int | None:
        """The lowest window that is stored: 0 = complete, None = nothing yet."""
        row = self._tx.one("vectors.first_part", {"owner_kind": kind, "owner_id": owner_id, "space_id": space_id})
        return row["part"] if row else None

    def of(self, kind: OwnerKind, owner_id: str, space_id: str) -> Vectors | None:
        """An owner's windows, or None where there are none."""
        rows = self._tx.all("vectors.of", {"owner_kind": kind, "owner_id": owner_id, "space_id": space_id})
        return _matrix([row["vector"] for row in rows]) if rows else None

    def some(self, kind: OwnerKind, owner_ids: Collection[str], space_id: str) -> dict[str, Vectors]:
        """The windows of these owners; those that have none are left out."""
        wanted = {"owner_kind": kind, "ids": json.dumps(list(owner_ids)), "space_id": space_id}
        return {row["id"]: vectors for row, vectors in _by_owner(self._tx.all("vectors.some", wanted))}

    def windows(self, kind: OwnerKind, owner_ids: Sequence[str], space_id: str) -> tuple[Vectors, Places]:
        """All windows of these owners, and for each window the place of its owner in `owner_ids`, rising."""
        wanted = {"owner_kind": kind, "ids": json.dumps(owner_ids), "space_id": space_id}
        rows = self._tx.all("vectors.windows", wanted)
        windows = _matrix([row["vector"] for row in rows]) if rows else np.empty((0, 0), dtype=np.float32)
        return windows, np.array([row["place"] for row in rows], dtype=np.int64)

    def live_memories(self, space_id: str) -> Iterator[tuple[str, int, str, Vectors]]:
        """Every live memory's id, number, group and windows."""
        return self._grouped("vectors.live_memories", space_id)

    def turns(self, space_id: str) -> Iterator[tuple[str, int, str, Vectors]]:
        """Every turn's id, number, group and windows."""
        return self._grouped("vectors.turns", space_id)

    def ended_memories(self, space_id: str) -> list[str]:
        """Memories with vectors in this space that are live no more."""
        return [row["id"] for row in self._tx.all("vectors.ended_memories", {"space_id": space_id})]

    def short_turns(self, space_id: str, *, longest: int, limit: int) -> tuple[Vectors, list[str]]:
        """The newest turns of the user of at most that many characters: their vectors, and the session of each."""
        rows = self._tx.all("vectors.short_turns", {"space_id": space_id, "longest": longest, "limit": limit})
        vectors = _matrix([row["vector"] for row in rows]) if rows else np.empty((0, 0), dtype=np.float32)
        return vectors, [row["session"] for row in rows]

    def prompts(self, space_id: str, user: str, limit: int) -> Vectors:
        """The vectors of a user's newest prompts, by their beginnings; shape (n, dimension)."""
        rows = self._tx.all("vectors.prompts", {"space_id": space_id, "user_id": user, "limit": limit})
        return _matrix([row["vector"] for row in rows]) if rows else np.empty((0, 0), dtype=np.float32)

    def count(self) -> int:
        """How many owners have their vectors in the space that recall reads."""
        row = self._tx.one("vectors.count")
        return int(row["n"]) if row else 0

    def number(self, kind: OwnerKind, owner_id: str) -> int | None:
        """The place of a memory or a turn in its table; None for one that was erased."""
        row = self._tx.one("vectors.owner", {"owner_kind": kind, "owner_id": owner_id})
        return int(row["number"]) if row else None

    def any(self, space_id: str) -> bool:
        """True if the space has a vector."""
        return self._tx.one("vectors.any", {"space_id": space_id}) is not None

    def missing(self, kind: OwnerKind, space_id: str, limit: int, *, after: int = 0) -> list[Owner]:
        """The first live memories or turns behind `after` that lack vectors in this space, oldest first."""
        query = "vectors.missing_memories" if kind == "memory" else "vectors.missing_turns"
        rows = self._tx.all(query, {"space_id": space_id, "limit": limit, "after": after})
        return [Owner(kind=kind, id=row["id"], seq=row["seq"], group=row["grouping"], text=row["text"]) for row in rows]

    def newest(self, kind: OwnerKind) -> int:
        """The place of the newest memory or turn."""
        row = self._tx.one("vectors.newest")
        return int(row[kind]) if row else 0

    def coverage(self, space_id: str) -> tuple[int, int]:
        """How many memories and turns have their vectors in this space, and how many should."""
        row = self._tx.one("vectors.coverage", {"space_id": space_id})
        return (int(row["done"]), int(row["total"])) if row else (0, 0)

    def drop_unfinished(self) -> int:
        """Take out the windows of owners that were interrupted; they are made again from the text of today."""
        return self._tx.run("vectors.drop_unfinished")

    def clear_retired(self, after: tuple[str, str], limit: int) -> tuple[str, str] | None:
        """Take the vectors of retired spaces out of the next `limit` rows; where to go on, or None at the end."""
        begin = {"owner_kind": after[0], "owner_id": after[1]}
        row = self._tx.one("vectors.after", begin | {"limit": limit})
        last = (row["owner_kind"], row["owner_id"]) if row else ("\uffff", "")
        self._tx.run("vectors.clear_retired", begin | {"last_kind": last[0], "last_id": last[1]})
        return last if row else None

    def _grouped(self, query: str, space_id: str) -> Iterator[tuple[str, int, str, Vectors]]:
        """Owner by owner, a page at a time: all rows at once would be more than the daemon may use."""
        after, size = "", _ROWS_PER_PAGE
        while True:
            rows = self._tx.all(query, {"space_id": space_id, "after": after, "limit": size})
            # A full page may end within an owner, who comes whole with the next.
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
    """A row of each owner with its windows, of rows that stand owner by owner; all are read as numbers at once."""
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


# Need vectors: for each memory the vector under which a prompt that needs it finds it.
#
# A memory is read behind what was said before it, in its own turn or in the message that this turn answers; its
# vector goes with the turn that holds these words. Vectors are derived: those that are missing, or that another
# revision of the encoder made, are made again.

#: Characters that are read before a statement; `bench/fit_questions.py` trained with as many.
SETTING: Final = 120
#: The job that makes what is missing, and its dedupe key: there is one.
NEEDS: Final = "need_vectors"


@dataclass(frozen=True, kw_only=True, slots=True)
class Lacking:
    """A memory without its vector, and its place in the order of the table."""

    id: str
    seq: int


@dataclass(frozen=True, kw_only=True, slots=True)
class InSetting:
    """A memory as it is read.

    Attributes:
        before: what was said before it; empty where nothing was.
        turn_id: the turn that holds those words, or None.
    """

    memory_id: str
    text: str
    before: str = ""
    turn_id: str | None = None


class NeedVectors:
    """The table `need_vectors`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def put(self, revision: str, made: Iterable[tuple[InSetting, Vector]]) -> None:
        """Store the vectors of memories; of what was erased meanwhile nothing is stored."""
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
        """The vectors of these memories that this revision made."""
        rows = self._tx.all("need_vectors.some", {"ids": json.dumps(list(ids)), "revision": revision})
        return (
            dict(zip((row["id"] for row in rows), _matrix([row["vector"] for row in rows]), strict=True))
            if rows
            else {}
        )

    def missing(self, revision: str, limit: int, *, after: int = 0) -> list[Lacking]:
        """The first live memories behind `after` that lack a vector of this revision, oldest first."""
        rows = self._tx.all("need_vectors.missing", {"revision": revision, "limit": limit, "after": after})
        return [Lacking(id=row["id"], seq=row["seq"]) for row in rows]

    def settings(self, ids: Collection[str]) -> list[InSetting]:
        """These memories as they are read."""
        rows = self._tx.all("need_vectors.settings", {"ids": json.dumps(list(ids)), "most": SETTING})
        return [_in_setting(row) for row in rows]


def _in_setting(row: Mapping[str, Any]) -> InSetting:
    for before, turn in ((row["before"], row["turn_id"]), (row["earlier"], row["earlier_id"])):
        if before.strip():
            return InSetting(memory_id=row["id"], text=row["text"], before=before, turn_id=turn)
    return InSetting(memory_id=row["id"], text=row["text"])
