"""`filrouge import codex` with rollouts that Codex compressed: the one that was recorded, packed as Codex packs it."""

from __future__ import annotations

import io
import json
import shutil
import tracemalloc
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

from filrouge.cli.imports import ImportFilter, Skipped, pages_of_packed
from filrouge.hosts.transcripts import ZstdReader, find_transcripts, zstd
from tests.unit.server.conftest import Api, serving

from .test_changing import typed

RECORDED: Final = Path(__file__).parents[2] / "fixtures/hosts/codex/dot-codex/sessions"
MEGABYTE: Final = 1024 * 1024


@pytest.fixture
def api(tmp_path: Path) -> Generator[Api]:
    with serving(str(tmp_path / "home")) as found:
        yield found


@pytest.fixture
def rollout(tmp_path: Path) -> Path:
    """A rollout of Codex, in a directory of its own."""
    longest = max(RECORDED.rglob("rollout-*.jsonl"), key=lambda one: one.stat().st_size)
    folder = tmp_path / "codex/sessions"
    folder.mkdir(parents=True)
    return Path(shutil.copy(longest, folder))


def packed(path: Path, *pieces: bytes) -> Path:
    """The same file compressed, in as many frames as there are pieces; the plain one goes."""
    found = path.with_name(f"{path.name}.zst")
    found.write_bytes(b"".join(map(zstd.compress, pieces or [path.read_bytes()])))
    path.unlink(missing_ok=True)
    return found


def outcome(api: Api, tmp_path: Path, *words: str) -> dict[str, Any]:
    ended = typed(api.home, "import", "codex", "--from", str(tmp_path / "codex"), *words, "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def texts(api: Api) -> list[str]:
    rows = api.parts.readers.here(lambda tx: api.parts.turns(tx).recent("codex", None, 1000))
    return sorted(row["text"] for row in rows)


def test_a_compressed_rollout_says_what_the_plain_one_says_and_is_read_once(
    api: Api, tmp_path: Path, rollout: Path
) -> None:
    plain = outcome(api, tmp_path, "--dry-run")["turns"]["found"]
    packed(rollout)
    dry = outcome(api, tmp_path, "--dry-run")
    assert (dry["turns"]["found"], dry["files"], dry["problems"]) == (plain, 1, [])
    assert plain > 3
    assert outcome(api, tmp_path)["turns"]["added"] == plain
    again = outcome(api, tmp_path)
    assert (again["bytes"], sum(again["turns"].values())) == (0, 0)
    assert sum(outcome(api, tmp_path, "--trust")["turns"].values()) == plain  # whoever vouches has it read anew


def test_what_was_read_before_it_was_compressed_is_not_read_again(api: Api, tmp_path: Path, rollout: Path) -> None:
    whole = rollout.read_bytes()
    lines = whole.splitlines(keepends=True)
    rollout.write_bytes(b"".join(lines[: len(lines) // 2]))
    first = outcome(api, tmp_path)["turns"]["added"]
    rollout.write_bytes(whole)
    packed(rollout)
    rest = outcome(api, tmp_path)["turns"]
    assert (rest["present"], rest["added"] > 0, len(texts(api))) == (0, True, first + rest["added"])


def test_several_frames_are_one_file(rollout: Path, tmp_path: Path) -> None:
    whole = rollout.read_bytes()
    packed(rollout, whole[:1000], whole[1000:])
    [history] = find_transcripts("codex", str(tmp_path / "codex"))
    *_, last, end = pages_of_packed("codex", history, 0, ImportFilter(), Skipped())
    assert last.mark is not None
    assert end.mark is not None
    assert (last.mark["offset"], last.mark["path"]) == (len(whole), str(rollout))
    assert (end.mark["offset"], end.mark["path"]) == (history.size, history.path)
    assert last.done + end.done == history.size


def test_of_a_rollout_that_was_replaced_by_a_shorter_one_everything_is_read(rollout: Path, tmp_path: Path) -> None:
    packed(rollout)
    [history] = find_transcripts("codex", str(tmp_path / "codex"))
    whole = [page.turns for page in pages_of_packed("codex", history, 0, ImportFilter(), Skipped())]
    assert [page.turns for page in pages_of_packed("codex", history, 10**9, ImportFilter(), Skipped())] == whole
    assert any(whole)


@pytest.mark.parametrize("keep", [0.6, 0.95])
def test_a_rollout_that_is_cut_off_is_named_and_the_rest_comes_with_the_whole_one(
    api: Api, tmp_path: Path, rollout: Path, keep: float
) -> None:
    lines = rollout.read_bytes().splitlines(keepends=True)
    pieces = [b"".join(lines[: len(lines) // 2]), b"".join(lines[len(lines) // 2 :])]
    file = packed(rollout, *pieces)
    content = file.read_bytes()
    first = len(zstd.compress(pieces[0]))
    file.write_bytes(content[: first + int((len(content) - first) * keep)])
    cut = outcome(api, tmp_path)
    assert cut["problems"] == [{"place": str(file), "problem": "the file is truncated; its beginning was read"}]
    assert cut["turns"]["added"] > 0
    file.write_bytes(content)
    assert outcome(api, tmp_path)["problems"] == []
    assert outcome(api, tmp_path)["bytes"] == 0


def test_a_rollout_that_is_damaged_or_no_zstd_is_named_and_keeps_no_other_back(
    api: Api, tmp_path: Path, rollout: Path
) -> None:
    whole = rollout.read_bytes()
    bad = rollout.with_name("rollout-2026-11-22T00-00-00-bad.jsonl.zst")
    bad.write_bytes(b"no zstd at all")
    worse = packed(rollout.with_name("rollout-2026-11-22T00-00-00-worse.jsonl"), whole)
    flipped = bytearray(worse.read_bytes())
    flipped[len(flipped) // 2] ^= 0xFF
    worse.write_bytes(flipped)
    packed(rollout)
    done = outcome(api, tmp_path)
    assert {one["place"] for one in done["problems"]} == {str(bad), str(worse)}
    assert all("damaged" in one["problem"] for one in done["problems"])
    assert done["turns"]["added"] > 3


def test_what_claims_to_unpack_to_much_takes_little_memory(tmp_path: Path) -> None:
    """Two hundred megabytes of one byte are a few kilobytes packed."""
    path = tmp_path / "rollout-x.jsonl.zst"
    path.write_bytes(b"".join(zstd.compress(b"x" * (50 * MEGABYTE)) for _ in range(4)))
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    try:
        with io.BufferedReader(ZstdReader(str(path))) as file:
            length = sum(len(step) for step in iter(lambda: file.read(MEGABYTE), b""))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert length == 200 * MEGABYTE
    assert peak < 16 * MEGABYTE


def test_a_window_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rollout-x.jsonl.zst"
    much: dict[int, int] = {zstd.CompressionParameter.window_log: 28, zstd.CompressionParameter.content_size_flag: 0}
    maker = zstd.ZstdCompressor(options=much)
    path.write_bytes(maker.compress(b"{}\n") + maker.flush())
    with ZstdReader(str(path)) as raw:
        assert raw.read() == b""
        assert "damaged" in raw.problem
