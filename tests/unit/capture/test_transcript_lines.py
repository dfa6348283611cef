"""The new lines of a file that another program is writing."""

from __future__ import annotations

import os
from pathlib import Path

from filrouge.hosts.transcript_lines import Chunk, read_from


def test_only_whole_lines_are_read_and_the_rest_waits(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"one\ntwo\r\n\nthr")
    first = read_from(str(path), 0)
    assert first == Chunk([b"one", b"two"], 10, 0)
    with path.open("ab") as file:
        file.write(b"ee\n")
    assert read_from(str(path), first.offset) == Chunk([b"three"], 16, 0)
    assert read_from(str(path), 16) == Chunk([], 16, 0)


def test_a_large_file_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"0123456789\n" * 100)
    lines: list[bytes] = []
    offset, pieces = 0, 0
    while (chunk := read_from(str(path), offset, max_bytes=64)).lines:
        lines += chunk.lines
        offset, pieces = chunk.offset, pieces + 1
    assert (len(lines), pieces, offset) == (100, 17, 1100)


def test_a_line_that_is_too_long_is_passed_over_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"a\n" + b"x" * 50 + b"\nb\n" + b"y" * 50)
    assert read_from(str(path), 0, max_line_bytes=20) == Chunk([b"a", b"b"], 55, 1)
    assert read_from(str(path), 0, max_line_bytes=50) == Chunk([b"a", b"x" * 50, b"b"], 55, 0)


def test_a_file_that_became_shorter_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"new\n")
    assert read_from(str(path), 900) == Chunk([b"new"], 4, 0)


def test_what_is_no_file_has_no_lines(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe", Path("bad\0name")):
        assert read_from(str(path), 7) == Chunk([], 7, 0)
