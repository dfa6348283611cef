"""The rows in the pages of a database file, read without SQLite: for a file that SQLite will not read any more.

Written after SQLite's own description of its format (https://sqlite.org/fileformat2.html). A damaged page costs the
cells on it that make no sense, and nothing else: every other leaf is read, also those that no damaged branch leads to
any more. What was deleted is not found again, because deleted content is overwritten (`secure_delete`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

Value = int | float | str | bytes | None

TABLE_LEAF: Final = 0x0D
TABLE_BRANCH: Final = 0x05
ROWS_LEAF: Final = 0x0A
ROWS_BRANCH: Final = 0x02
_LEAVES = (TABLE_LEAF, ROWS_LEAF)
_BRANCHES = (TABLE_BRANCH, ROWS_BRANCH)
_LENGTHS: Final = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)


class Unreadable(ValueError):
    """A cell or a page that makes no sense."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One record.

    Attributes:
        rowid: None in a table that has none.
        values: in the order in which they are stored.
    """

    rowid: int | None
    values: tuple[Value, ...]


@dataclass(kw_only=True, slots=True)
class Leaf:
    """What was read of a page: its rows, and how many cells made no sense."""

    rows: list[Row]
    bad: int


class Pages:
    """The pages of one file without a log.

    Raises:
        Unreadable: it does not begin as a database does.
    """

    def __init__(self, content: bytes) -> None:
        if content[:16] != b"SQLite format 3\0":
            raise Unreadable("it does not begin as a database does")
        size = int.from_bytes(content[16:18], "big")
        self._size = 65536 if size == 1 else size
        if self._size < 512 or self._size & (self._size - 1):
            raise Unreadable("its page size makes no sense")
        self._content = content
        self._usable = self._size - content[20]
        self.count = len(content) // self._size
        #: Pages that a root led to, or that hold the rest of a long row.
        self.seen: set[int] = set()

    def kind(self, number: int) -> int:
        """What a page says it is."""
        return self._content[self._start(number) + (100 if number == 1 else 0)]

    def walk(self, root: int) -> Iterator[Leaf]:
        """Every page with rows that a root leads to; what makes no sense on the way is passed over."""
        waiting = [root]
        while waiting:
            number = waiting.pop()
            if not 1 <= number <= self.count or number in self.seen:
                continue
            self.seen.add(number)
            kind = self.kind(number)
            if kind in _BRANCHES:
                waiting += self._children(number)
            if kind in (*_LEAVES, ROWS_BRANCH):
                yield self.leaf(number)

    def lost(self, kind: int) -> Iterator[Leaf]:
        """Every leaf of that kind that no root led to."""
        for number in range(2, self.count + 1):
            if number not in self.seen and self.kind(number) == kind:
                found = self.leaf(number)
                if found.rows:
                    yield found

    def leaf(self, number: int) -> Leaf:
        """The rows of a page."""
        found = Leaf(rows=[], bad=0)
        kind = self.kind(number)
        for pointer in self._pointers(number):
            try:
                found.rows.append(self._row(number, kind, pointer))
            except (Unreadable, IndexError, struct.error, UnicodeDecodeError):
                found.bad += 1
        return found

    def _start(self, number: int) -> int:
        return (number - 1) * self._size

    def _pointers(self, number: int) -> list[int]:
        start = self._start(number)
        head = start + (100 if number == 1 else 0)
        wide = 12 if self._content[head] in _BRANCHES else 8
        count = int.from_bytes(self._content[head + 3 : head + 5], "big")
        first = head + wide
        if first + 2 * count > start + self._usable:  # the count was hit: what cannot be a pointer ends the list
            count = (start + self._usable - first) // 2
        found = list[int]()
        for place in range(first, first + 2 * count, 2):
            pointer = int.from_bytes(self._content[place : place + 2], "big")
            if first - start + 2 <= pointer < self._usable:
                found.append(pointer)
        return found

    def _children(self, number: int) -> list[int]:
        start = self._start(number)
        head = start + (100 if number == 1 else 0)
        cells = [start + pointer for pointer in self._pointers(number)]
        return [int.from_bytes(self._content[at : at + 4], "big") for at in (head + 8, *cells)]

    def _row(self, number: int, kind: int, pointer: int) -> Row:
        at = self._start(number) + pointer + (4 if kind == ROWS_BRANCH else 0)
        length, at = self._varint(at)
        rowid = None
        if kind == TABLE_LEAF:
            rowid, at = self._varint(at)
            rowid -= (rowid >> 63) << 64
        return Row(rowid=rowid, values=_record(self._payload(number, at, length, is_table=kind == TABLE_LEAF)))

    def _payload(self, number: int, at: int, length: int, *, is_table: bool) -> bytes:
        usable, ends = self._usable, self._start(number) + self._usable
        most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
        if length <= most:
            if at + length > ends:
                raise Unreadable("a row beyond its page")
            return self._content[at : at + length]
        if length > len(self._content):
            raise Unreadable("a row longer than the file")
        least = (usable - 12) * 32 // 255 - 23
        here = least + (length - least) % (usable - 4)
        here = here if here <= most else least
        if at + here + 4 > ends:
            raise Unreadable("a row beyond its page")
        parts, left = [self._content[at : at + here]], length - here
        following = int.from_bytes(self._content[at + here : at + here + 4], "big")
        chain = set[int]()
        while left:
            if not 1 < following <= self.count or following in chain:
                raise Unreadable("the rest of a row is not there")
            chain.add(following)
            start = self._start(following)
            parts.append(self._content[start + 4 : start + 4 + min(left, usable - 4)])
            left -= len(parts[-1])
            following = int.from_bytes(self._content[start : start + 4], "big")
        self.seen |= chain
        return b"".join(parts)

    def _varint(self, at: int) -> tuple[int, int]:
        return _varint(self._content, at)


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    value = 0
    for place in range(at, at + 8):
        byte = content[place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + 1
    return value << 8 | content[at + 8], at + 9


def _record(payload: bytes) -> tuple[Value, ...]:
    ends, at = _varint(payload, 0)
    if not 0 < ends <= len(payload):
        raise Unreadable("a record without a head")
    kinds = list[int]()
    while at < ends:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values, at = list[Value](), ends
    for kind in kinds:
        length = _LENGTHS[kind] if kind < len(_LENGTHS) else (kind - 12) // 2
        if kind in (10, 11) or at + length > len(payload):
            raise Unreadable("a value beyond its record")
        values.append(_value(kind, payload[at : at + length]))
        at += length
    if at != len(payload):
        raise Unreadable("a record of another length")
    return tuple(values)


def _value(kind: int, raw: bytes) -> Value:
    if kind == 0:
        return None
    if kind < 7:
        return int.from_bytes(raw, "big", signed=True)
    if kind == 7:
        return float(struct.unpack(">d", raw)[0])
    if kind < 10:
        return kind - 8
    return raw.decode("utf-8") if kind & 1 else raw
