"""multilingual-e5-small in 32-bit floats, with low-rank changes to its last layers (LoRA, Hu et al. 2021,
arxiv.org/abs/2106.09685), to be trained by JAX. Needs `pip install jax`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np
from bench.activation_ranges import MARGIN

from filrouge.providers.e5 import (
    POSITION_TABLE,
    WORD_TABLE,
    Tokenizer,
    Weights,
    build,
    decode_blocks,
    load_tokenizer,
    model_path,
    weights_path,
)

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")

MATRICES: Final = ("q", "k", "v", "ao", "fi", "fo")
Tree = dict[str, Any]


class FloatNetwork:
    """The network: the layers that stay, as plain numbers, and those that change, as a function.

    Args:
        unchanged: the number of layers that stay.
    """

    def __init__(self, unchanged: int) -> None:
        self.path = model_path()
        build(self.path)
        self.weights = Weights(weights_path())
        self.sizes = self.weights.sizes
        self.unchanged = unchanged
        self.tokenizer: Tokenizer = load_tokenizer(self.path)
        self._words = np.load(Path(self.path) / WORD_TABLE, mmap_mode="r")
        self._positions = np.load(Path(self.path) / POSITION_TABLE)
        self.below = [self._layer(number) for number in range(unchanged)]
        self.above = [self._layer(number) for number in range(unchanged, self.sizes.layers)]
        self._norm = {part: self.weights.floats(f"emb.ln.{part}") for part in "wb"}
        self._run_below = jax.jit(self._states)

    def read(self, ids: Sequence[list[int]], width: int) -> tuple[np.ndarray, np.ndarray]:
        """The states of texts after the layers that stay, shape (texts, width, hidden), and which tokens are real."""
        words = np.zeros((len(ids), width, self.sizes.hidden), np.float32)
        real = np.zeros((len(ids), width), np.float32)
        for row, one in enumerate(ids):
            words[row, : len(one)] = decode_blocks(self._words[np.array(one)])
            real[row, : len(one)] = 1.0
        words += self._positions[:width]
        return np.asarray(self._run_below(words, real)), real

    def no_changes(self, rank: int) -> list[Tree]:
        """Changes of this rank that change nothing yet."""
        choose, found = np.random.default_rng(20261125), list[Tree]()
        for _ in self.above:
            change = Tree()
            for one in MATRICES:
                rows = self.sizes.inner if one == "fi" else self.sizes.hidden
                columns = self.sizes.inner if one == "fo" else self.sizes.hidden
                change[f"{one}.in"] = (choose.standard_normal((rank, columns)) / np.sqrt(columns)).astype(np.float32)
                change[f"{one}.out"] = np.zeros((rows, rank), np.float32)
            found.append(change)
        return found

    def ranges(self, changes: Sequence[Tree], read: Iterable[tuple[Any, Any]]) -> dict[str, np.ndarray]:
        """The sizes that steps must reach in the changed layers; `bench/activation_ranges.py` has those of the others.

        Args:
            changes: the changes.
            read: states before the changed layers, and which tokens are real.
        """
        count, hidden = len(self.above), self.sizes.hidden
        found = {"attention": np.zeros((count, hidden)), "inner": np.zeros((count, hidden)), "found": np.zeros(count)}
        run = jax.jit(layer, static_argnums=4)
        for given, mask in read:
            state = given
            for at, (own, change) in enumerate(zip(self.above, changes, strict=True)):
                state, seen = run(own, change, state, mask, self.sizes)
                before, attended, middle = (np.abs(np.asarray(one)) * mask[:, :, None] for one in seen)
                found["attention"][at] = np.maximum(found["attention"][at], before.max(axis=(0, 1)))
                found["inner"][at] = np.maximum(found["inner"][at], middle.max(axis=(0, 1)))
                found["found"][at] = max(found["found"][at], attended.max())
        return {name: (one * MARGIN).astype(np.float16) for name, one in found.items()}

    def stored(self, changes: Sequence[Mapping[str, Any]], ranges: Mapping[str, np.ndarray]) -> Tree:
        """Changes and the ranges of their layers as they are written to a file: in half precision, by name."""
        table = {
            f"l{number}.{name}": np.asarray(value).astype(np.float16)
            for number, change in enumerate(changes, self.unchanged)
            for name, value in sorted(change.items())
        }
        return table | {f"ranges.{name}": value for name, value in ranges.items()}

    def _layer(self, number: int) -> Tree:
        name, found = f"l{number}", Tree()
        for one in MATRICES:
            rows = self.sizes.inner if one == "fi" else self.sizes.hidden
            found[one] = jnp.asarray(self.weights.matrix(f"{name}.{one}.w", rows))
            found[f"{one}.b"] = jnp.asarray(self.weights.floats(f"{name}.{one}.b"))
        for one in ("aln", "oln"):
            found |= {f"{one}.{part}": jnp.asarray(self.weights.floats(f"{name}.{one}.{part}")) for part in "wb"}
        return found

    def _states(self, words: Any, mask: Any) -> Any:
        state = normalised(words, self._norm["w"], self._norm["b"], self.sizes.epsilon)
        for one in self.below:
            state, _ = layer(one, {}, state, mask, self.sizes)
        return state


def padded(length: int, widths: Sequence[int]) -> int:
    """The least of these rising widths that holds so many tokens; few widths, so that few programs are compiled."""
    return next(width for width in widths if width >= length)


def normalised(state: Any, scale: Any, shift: Any, epsilon: float) -> Any:
    centred = state - state.mean(axis=-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon) * scale + shift


def layer(own: Tree, change: Tree, state: Any, mask: Any, sizes: Any) -> tuple[Any, tuple[Any, Any, Any]]:
    """The state after a layer, and the three that are stored in steps: before attention, found, before GELU."""

    def product(name: str, given: Any) -> Any:
        out = given @ own[name].T + own[f"{name}.b"]
        return out + (given @ change[f"{name}.in"].T) @ change[f"{name}.out"].T if change else out

    batch, tokens, hidden = state.shape
    queries, keys, values = (
        product(one, state).reshape(batch, tokens, sizes.heads, -1).transpose(0, 2, 1, 3) for one in "qkv"
    )
    scores = queries @ keys.transpose(0, 1, 3, 2) / np.sqrt(hidden // sizes.heads)
    shares = jax.nn.softmax(jnp.where(mask[:, None, None, :] > 0, scores, -1e9), axis=-1)
    found = (shares @ values).transpose(0, 2, 1, 3).reshape(batch, tokens, hidden)
    middle = normalised(state + product("ao", found), own["aln.w"], own["aln.b"], sizes.epsilon)
    wide = jax.nn.gelu(product("fi", middle), approximate=False)
    after = normalised(middle + product("fo", wide), own["oln.w"], own["oln.b"], sizes.epsilon)
    return after, (state, found, middle)


class Adam:
    """Adam (Kingma and Ba, 2015, arxiv.org/abs/1412.6980) with a rate that rises for a tenth of the way, then falls.

    Args:
        learned: what is to be learned, a tree of arrays.
        rates: of each array; a tree of the same form.
        steps: the number of steps to come.
    """

    def __init__(self, learned: Tree, rates: Tree, steps: int) -> None:
        self._rates, self._steps, self._step = rates, steps, 0
        self._mean = jax.tree_util.tree_map(np.zeros_like, learned)
        self._square = jax.tree_util.tree_map(np.zeros_like, learned)
        self._update = jax.jit(_update)

    def step(self, learned: Tree, slope: Tree) -> Tree:
        """What is learned after a step down the slope."""
        self._step += 1
        share = min(1.0, self._step / (0.1 * self._steps)) * max(0.0, 1.0 - self._step / self._steps)
        held = share / (1 - 0.9**self._step), 1 - 0.999**self._step
        learned, self._mean, self._square = self._update(held, slope, learned, self._mean, self._square, self._rates)
        return learned


def _update(held: tuple[float, float], slope: Tree, learned: Tree, mean: Tree, square: Tree, rates: Tree) -> Any:
    mean = jax.tree_util.tree_map(_slid, mean, slope)
    square = jax.tree_util.tree_map(_slid_square, square, slope)
    return jax.tree_util.tree_map(partial(_stepped, held), learned, mean, square, rates), mean, square


def same_rate(learned: Tree, rate: float) -> Tree:
    """One rate for everything that is learned."""

    def of(_: Any) -> float:
        return rate

    return jax.tree_util.tree_map(of, learned)


def _slid(mean: Any, slope: Any) -> Any:
    """The mean of slopes, a tenth of it the newest."""
    return 0.9 * mean + 0.1 * slope


def _slid_square(square: Any, slope: Any) -> Any:
    """The mean of squared slopes, a thousandth of it the newest."""
    return 0.999 * square + 0.001 * slope * slope


def _stepped(held: tuple[float, float], now: Any, mean: Any, square: Any, rate: float) -> Any:
    return now - rate * held[0] * mean / (jnp.sqrt(square / held[1]) + 1e-8)
