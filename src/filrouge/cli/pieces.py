"""Pieces of an import: what is too large for one request is handed over in several, and their answers are one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from filrouge.errors import BadInput
from filrouge.transfer.exports import Lines

#: Characters of rows that are handed over at once: an export of any size comes in.
_PIECE: Final = 4 * 1024 * 1024
_IN_A_DOCUMENT: Final = ("messages", "memories")
_MOST_PROBLEMS: Final = 100
Piece = dict[str, Any]


def of_document(given: Mapping[str, Any]) -> Iterator[Piece]:
    """A document in pieces that can be handed over one by one: messages before what cites them, then what was replaced
    once more, by when its successors are there."""
    head = {name: value for name, value in given.items() if name not in (*_IN_A_DOCUMENT, "threads")}
    small = True
    for table in _IN_A_DOCUMENT:
        rows: list[Any] = given.get(table, [])
        if not isinstance(cast("object", rows), list):
            raise BadInput(f"{table} of this export is no list.")
        pieces = list(_cut(rows))
        small = small and len(pieces) <= 1
        yield from ({**head, table: piece} for piece in pieces or [[]])
    if not small:
        memories: list[Any] = given.get("memories", [])
        replaced: list[Any] = [
            row for row in memories if isinstance(row, dict) and cast("dict[str, Any]", row).get("superseded_by")
        ]
        yield from ({**head, "memories": piece} for piece in _cut(replaced))


def hand_over(lines: Lines, send: Callable[[Piece], Mapping[str, Any]]) -> dict[str, Any]:
    """Hand a whole export over as it is read, and say of each problem in which line it is."""
    found: dict[str, Any] = {}
    for piece, numbers in _of_lines(lines):
        part = dict(send(piece))
        part["problems"] = [_in_line(one, numbers) for one in part["problems"]]
        found = together(found, part)
    problems = [{"table": "", "place": number, "problem": problem} for number, problem in lines.problems]
    found["problems"] = sorted([*found["problems"], *problems], key=lambda one: one["place"])[:_MOST_PROBLEMS]
    return found


def together(found: dict[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """What became of several pieces."""
    if not found:
        return dict(part)
    for table in ("messages", "memories"):  # each piece of a document has its projects again
        found[table] = _sum(found[table], part[table])
    found["beside"] = {table: _sum(found["beside"][table], part["beside"][table]) for table in found["beside"]}
    found["problems"] = [*found["problems"], *part["problems"]]
    return found


def _of_lines(lines: Lines) -> Iterator[tuple[Piece, dict[str, list[int]]]]:
    """Pieces of a whole export, with the line of each row; the projects come first and alone."""
    piece, numbers, size = dict(lines.head), dict[str, list[int]](), 0
    for number, table, row in lines.rows():
        if size > _PIECE or (table != "projects" and "projects" in numbers):
            yield piece, numbers
            piece, numbers, size = dict(lines.head), {}, 0
        piece.setdefault(table, []).append(row)
        numbers.setdefault(table, []).append(number)
        size += len(json.dumps(row))
    yield piece, numbers


def _in_line(problem: Mapping[str, Any], numbers: Mapping[str, list[int]]) -> dict[str, Any]:
    return {**problem, "place": numbers[problem["table"]][problem["place"]]}


def _cut(rows: list[Any]) -> Iterator[list[Any]]:
    piece, size = list[Any](), 0
    for row in rows:
        piece.append(row)
        size += len(json.dumps(row))
        if size > _PIECE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _sum(found: Mapping[str, int], part: Mapping[str, int]) -> dict[str, int]:
    counted = Counter[str](found)
    counted.update(part)
    return dict(counted)
