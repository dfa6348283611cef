"""Values that the hub stores and sends. They are pydantic models, because each is also a body of the protocol."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, get_args

import numpy as np
from msgspec import Struct
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator

from filrouge.core.errors import BadInput
from filrouge.core.protocols import Vector

Scope = Literal["read", "share", "forget", "admin"]
"""What a token allows. None includes another, except that `admin` may forget what others shared."""
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
Outcome = Literal["accepted", "duplicate", "conflict", "refused"]
Keep = Literal["first", "second", "both"]
#: Kinds of memories that can be shared; summaries of sessions cannot.
SharedKind = Literal["fact", "decision", "preference", "intent", "constraint", "note", "rule"]

MAX_PUSH: Final = 500
MAX_CHANGES: Final = 1000
MAX_TEXT_CHARS: Final = 50_000
MAX_DIMENSIONS: Final = 4_000
Id = Annotated[str, Field(pattern=r"^[0-9a-hjkmnp-tv-z]{26}$", description="A ULID in lower case.")]


class Value(BaseModel):
    """A frozen value that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Version(Value):
    """One version of a shared memory, as a daemon pushes it.

    The text of a memory never changes. A new version says that it ended, or that its project or evidence changed. A
    correction is another memory that `supersedes` it.
    """

    memory: Id
    version: Annotated[int, Field(ge=1, le=2**31 - 1, description="Grows with every change of the memory.")]
    state: Literal["live", "ended"] = "live"
    host: Annotated[str, Field(max_length=100, description="The agent in which it was said.")] = ""
    project: Annotated[str, Field(min_length=1, max_length=500, description="The project's normalised remote.")]
    kind: SharedKind
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]
    language: Annotated[str, Field(max_length=10)] = ""
    evidence: Annotated[str, Field(max_length=MAX_TEXT_CHARS, description="The quote that proves it.")] = ""
    confidence: Annotated[float, Field(ge=0, le=1)] = 1.0
    valid_from: AwareDatetime
    valid_to: AwareDatetime | None = None
    supersedes: Id | None = None
    space: Annotated[str, Field(max_length=200, description="The embedding space of the vector.")] = ""
    vector: Annotated[str, Field(max_length=4 * MAX_DIMENSIONS, description="Little-endian float16, in base64.")] = ""

    @field_validator("text", "evidence", "project", "host", "space", "language")
    @classmethod
    def _is_storable(cls, text: str) -> str:
        """PostgreSQL stores no NUL, and UTF-8 has no lone surrogate."""
        if "\x00" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ValueError("the text contains a character that cannot be stored")
        return text

    @field_validator("vector")
    @classmethod
    def _is_vector(cls, text: str) -> str:
        decoded_vector(text)
        return text

    def digest(self) -> bytes:
        """Return the SHA-256 of all fields but the vector: two pushes with the same digest are the same version."""
        content = self.model_dump(mode="json", exclude={"vector", "space"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()


def decoded_vector(text: str) -> Vector | None:
    """Return the vector in a field, as float32; None for an empty field.

    Raises:
        ValueError: it is not base64, has a wrong length, or contains a value that is not finite.
    """
    if not text:
        return None
    blob = base64.b64decode(text, validate=True)
    if len(blob) % 2 or not 0 < len(blob) // 2 <= MAX_DIMENSIONS:
        raise ValueError(f"a vector has 1 to {MAX_DIMENSIONS} values of two bytes")
    vector = np.frombuffer(blob, dtype="<f2").astype(np.float32)
    if not np.isfinite(vector).all():
        raise ValueError("a value of the vector is not finite")
    return vector


def encoded_vector(vector: Vector) -> str:
    """Return a vector as it is sent."""
    return base64.b64encode(vector.astype("<f2").tobytes()).decode()


class Push(Value):
    """Versions to share, in the order in which they came about."""

    versions: Annotated[tuple[Version, ...], Field(min_length=1, max_length=MAX_PUSH)]


class PushAnswer(Value):
    """What became of one version. `latest` is the hub's latest version of the memory, if that is the conflict."""

    memory: str
    version: int
    outcome: Outcome
    reason: str = ""
    latest: int = 0


class PushAnswers(Value):
    """What became of each pushed version, in the order of the push."""

    answers: tuple[PushAnswer, ...]


class Conflict(Value):
    """Two memories of different members that supersede the same one."""

    conflict: str
    memory: str
    first: str
    second: str
    opened_at: datetime
    settled_at: datetime | None = None
    keep: Keep | None = None


class Change(Value):
    """One change of the tenant: a version, a tombstone (`forgotten`) or a conflict.

    Attributes:
        by: the member who forgot the memory.
        accepted_by: the name of the admin who accepted the rule for everybody; empty = each reader decides.
    """

    type: Literal["version", "tombstone", "conflict"]
    memory: str
    version: int = 0
    author: str = ""
    author_name: str = ""
    by: str = ""
    accepted_by: str = ""
    content: Version | None = None
    conflict: Conflict | None = None


class Page(Value):
    """Changes in order, and the cursor of the next page. `complete` says that nothing more is committed by now."""

    changes: tuple[Change, ...]
    cursor: str
    complete: bool


class Settle(Value):
    """Which memory of a conflict holds."""

    keep: Keep


class Receipt(Value):
    """What a device found of a forgotten memory after it applied the tombstone; 0 = nothing is left."""

    memory: Id
    left_over: Annotated[int, Field(ge=0)]


class Receipts(Value):
    """What a device found after it applied tombstones."""

    device: Id
    receipts: Annotated[tuple[Receipt, ...], Field(min_length=1, max_length=MAX_PUSH)]


class Device(Value):
    """A device that follows the changes."""

    device: Id
    name: Annotated[str, Field(min_length=1, max_length=100)]


class Forget(Value):
    """The memories to erase."""

    memories: Annotated[tuple[Id, ...], Field(min_length=1, max_length=MAX_PUSH)]


class Accept(Value):
    """The rules to accept for everybody."""

    memories: Annotated[tuple[Id, ...], Field(min_length=1, max_length=MAX_PUSH)]


class Invitation(Value):
    """A member to invite, and what their token allows."""

    name: str
    scopes: tuple[Scope, ...] = ("read", "share", "forget")
    days: Annotated[int | None, Field(description="Until the token expires; none = never.")] = None


class Member(Value):
    """The name of a member."""

    name: str


class NewToken(Value):
    """A new token with its secret, which is never shown again."""

    token: str
    tenant: str
    member: str
    name: str
    scopes: tuple[Scope, ...]
    secret: str


class Identity(Struct, frozen=True, kw_only=True):
    """Who makes a request, as the token says."""

    tenant: str
    tenant_name: str
    member: str
    member_name: str
    token: str
    scopes: frozenset[str]


class Position(Struct, frozen=True, kw_only=True, order=True):
    """A place in the order of changes: transactions by id, and what one transaction wrote by number.

    Attributes:
        epoch: grows if transaction ids begin anew, as after the restore of a dump.
        xid: the id of the transaction.
        seq: the number within the database.
    """

    epoch: int = 0
    xid: int = 0
    seq: int = 0

    @classmethod
    def from_cursor(cls, cursor: str) -> Position:
        """Read a cursor; an empty one is the beginning.

        Raises:
            BadInput: it is none of this hub's cursors.
        """
        if not cursor:
            return cls()
        parts = cursor.split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
            raise BadInput(f"The cursor {cursor[:80]!r} is invalid.", remedy="Begin again without a cursor.")
        return cls(epoch=int(parts[0]), xid=int(parts[1]), seq=int(parts[2]))

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Position:
        """Build from the columns of a row."""
        return cls(epoch=row["epoch"], xid=int(row["xid"]), seq=row["seq"])

    def cursor(self) -> str:
        """Return the position as a cursor."""
        return f"{self.epoch}.{self.xid}.{self.seq}"
