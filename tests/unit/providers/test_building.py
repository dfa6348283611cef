"""A built model is whole or not there: damage, a second builder and a killed builder change nothing of that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from filrouge.core.errors import EmbedderUnavailable
from filrouge.providers.e5 import (
    LOWER_LAYERS,
    MANIFEST,
    OnnxE5,
    Weights,
    build,
    decode_blocks,
    is_intact,
    model_path,
    models_directory,
    weights_path,
)


def builder(model: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "filrouge.providers.e5", model], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("name", [LOWER_LAYERS, "words.npy", "pieces.txt", MANIFEST])
def test_a_damaged_model_is_noticed_and_built_again(tmp_path: Path, name: str) -> None:
    model = model_path(str(tmp_path))
    build(model)
    data = bytearray((Path(model) / name).read_bytes())
    data[len(data) // 2] ^= 0x10
    (Path(model) / name).write_bytes(data)
    if name != MANIFEST:
        assert not is_intact(model)
    assert OnnxE5(model).query("ready?").shape == (384,)
    assert is_intact(model)
    assert sorted(os.listdir(tmp_path)) == [Path(model).name, f"{Path(model).name}.lock"]


def test_two_builders_make_one_model(tmp_path: Path) -> None:
    model = model_path(str(tmp_path))
    both = [builder(model), builder(model)]
    told = [one.communicate(timeout=60)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sum("done (100 %)" in lines for lines in told) == 1
    assert is_intact(model)


def test_a_killed_builder_leaves_nothing_that_stands_in_the_way(tmp_path: Path) -> None:
    model = model_path(str(tmp_path))
    for moment in (0.0, 0.05, 0.1, 0.15, 0.2, 0.3):
        process = builder(model)
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert is_intact(model) or not os.path.exists(model)
    build(model)
    assert is_intact(model)
    assert sorted(os.listdir(tmp_path)) == [Path(model).name, f"{Path(model).name}.lock"]


def test_a_file_of_another_format_is_named(tmp_path: Path) -> None:
    for content in (b"", b"GGUF" + bytes(100), b"E5S1\x02\x00\x00\x00" + bytes(100)):
        (tmp_path / "weights.bin").write_bytes(content)
        with pytest.raises(EmbedderUnavailable, match=r"weights\.bin is not a weight file"):
            Weights(str(tmp_path / "weights.bin"))


def test_a_weight_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    with open(weights_path(), "rb") as file:
        (tmp_path / "weights.bin").write_bytes(file.read(20_000_000))
    with pytest.raises(EmbedderUnavailable, match="cut short"):
        Weights(str(tmp_path / "weights.bin"))


def test_blocks_are_unpacked_as_they_are_described() -> None:
    weights = Weights(weights_path())
    rows = weights.blocks("emb.word", weights.sizes.words)
    block = rows[4, :18].tobytes()
    scale = float(np.frombuffer(block[:2], "<f2")[0])
    halves = [byte & 15 for byte in block[2:]] + [byte >> 4 for byte in block[2:]]
    np.testing.assert_allclose(decode_blocks(rows[4:5])[0, :32], [(half - 8) * scale for half in halves], rtol=1e-6)


def test_the_place_of_models_follows_the_environment() -> None:
    assert models_directory({"FILROUGE_MODELS": "/m"}) == "/m"
    if sys.platform == "linux":
        assert models_directory({"XDG_CACHE_HOME": "/c"}) == "/c/filrouge/models"


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EmbedderUnavailable, match="cannot be stored in"):
        build(model_path(str(tmp_path / "file")))
