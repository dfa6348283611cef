"""Teach the encoder what a prompt needs: low-rank changes to its last layers, for the prompt's side alone.

    pip install jax
    python bench/fit_questions.py                 # writes src/filrouge/providers/questions.npz
    python bench/fit_questions.py --dry-run       # only the report

A prompt and the statement that it needs are further apart than two texts about one thing, so the cosine of the bundled
encoder puts the right one first for a sixth of the prompts. Here the prompt's vector learns to point at what is needed,
while the vectors of what is stored stay as they are: nothing is embedded anew. The last four layers get low-rank
changes (LoRA, Hu et al. 2021, arxiv.org/abs/2106.09685) in every matrix, trained by contrast (InfoNCE, van den Oord et
al. 2018, arxiv.org/abs/1807.03748) among all statements and unlabelled sentences of a project, on
`bench/data/talk/train` and `asked`. Statements that a probe merely accepts are on neither side, since labels accept
preferences everywhere.

One more candidate is "nothing", a vector that is learned with the rest: it is right for prompts that need nothing, and
for every prompt among the sentences of another project. How much nearer a memory is than that tells whether it is
needed at all, in a home of six memories as in one of six hundred.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.activation_ranges import MARGIN
from bench.talk_format import Project, label_of, read, statements_by

from filrouge.app.meaning import in_passes
from filrouge.extraction.heuristics import statements_of
from filrouge.extraction.statement_model import judge, pattern_of
from filrouge.extraction.units import Unit, units
from filrouge.model.memory import Statement
from filrouge.ports import Embedder
from filrouge.providers.e5 import OnnxE5
from filrouge.providers.e5_network import (
    FILE,
    HALF,
    POSITION_TABLE,
    WORD_TABLE,
    Tokenizer,
    Weights,
    build,
    load_tokenizer,
    model_path,
    source,
    unpacked,
)

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")

ROOT: Final = Path(__file__).parent
TALK: Final = ROOT / "data" / "talk"
TARGET: Final = ROOT.parent / "src" / "filrouge" / "providers" / FILE
#: The rank of the changes.
RANK: Final = 8
MATRICES: Final = ("q", "k", "v", "ao", "fi", "fo")
RATE, EPOCHS, BATCH = 5e-4, 3, 32
#: What a prompt counts among the sentences of another project, beside 1 among those of its own.
ELSEWHERE: Final = 0.5
#: Cosines lie close together; divided by this they spread over the softmax.
TEMPERATURE: Final = 0.02
#: The probability from which on an unlabelled sentence stands among the candidates; of the product's memories a fifth
#: are such.
LOOKS_STATED: Final = 0.1
#: Tokens of a prompt that are read in training.
LONGEST: Final = 96
#: The kinds of prompts that need something.
NEEDY: Final = ("question", "task")
Tree = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A prompt with the candidates of its project: those that it needs, if any, and those that it does not."""

    text: str
    project: int
    kind: str
    right: tuple[int, ...]
    wrong: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Set:
    """The prompts of some projects, and the vectors of each project's candidates."""

    asked: list[Asked]
    candidates: list[np.ndarray]


def unlabelled(project: Project, model: Embedder) -> Iterator[tuple[int, str]]:
    """Sentences of the user that nobody labelled and that look like statements, with their session."""
    said = statements_by(project, "user")
    rows = list[tuple[int, Unit, Statement | None]]()
    for session in project["sessions"]:
        for number, turn in enumerate(session["turns"], 1):
            found = statements_of(turn["user"])
            for unit in units(turn["user"]):
                if label_of(unit, turn["user"], said.get((session["id"], number), [])) is None:
                    rows.append((session["id"], unit, pattern_of(unit, found)))
    given = [unit for _, unit, _ in rows]
    vectors = in_passes(model, [one.text for one in given]), in_passes(model, [one.in_setting for one in given])
    judged, _ = judge(given, [pattern for _, _, pattern in rows], vectors)
    for (session, unit, _), one in zip(rows, judged, strict=True):
        if one.states >= LOOKS_STATED:
            yield session, unit.text


def questions(folder: Path) -> Set:
    """What is asked in the projects of a folder."""
    model, asked, vectors = OnnxE5(), list[Asked](), list[np.ndarray]()
    for number, path in enumerate(sorted(folder.glob("*.json"))):
        project = read(path)
        stated, others = project["statements"], list(unlabelled(project, model))
        vectors.append(in_passes(model, [one["quote"] for one in stated] + [text for _, text in others]))
        place = {one["id"]: at for at, one in enumerate(stated)}
        for probe in [*project["probes"], *asked_later(project)]:
            if bool(probe.get("expect")) == (probe["kind"] in NEEDY) and probe["kind"] != "start":
                asked.append(_probe(probe, number, stated, others, place))
    return Set(asked=asked, candidates=vectors)


def asked_later(project: Project) -> list[Project]:
    """Further prompts of a project, asked after its last session; none of those that measure."""
    path = TALK / "asked" / f"{project['id']}.json"
    if not path.exists():
        return []
    last, later = max(one["id"] for one in project["sessions"]), read(path)
    return [{"expect": []} | one | {"after": last} for one in (*later["needed"], *later["nothing"])]


def _probe(
    probe: Project, number: int, stated: Sequence[Project], others: Sequence[tuple[int, str]], place: Mapping[str, int]
) -> Asked:
    told = [one for one in stated if one["session"] <= probe["after"]]
    gone = {one.get("supersedes") for one in told}
    expected = probe.get("expect", [])
    neither = gone | set(probe.get("accept", [])) | set(expected)
    wrong = [place[one["id"]] for one in told if one["id"] not in neither]
    wrong += [len(stated) + at for at, (session, _) in enumerate(others) if session <= probe["after"]]
    right = tuple(place[id_] for id_ in expected)
    return Asked(text=probe["prompt"], project=number, kind=probe["kind"], right=right, wrong=tuple(wrong))


class Encoder:
    """The network in 32-bit floats: the layers that stay as plain numbers, those that change as a function."""

    def __init__(self) -> None:
        self.path = model_path()
        build(self.path)
        self.weights = Weights(source())
        self.sizes = self.weights.sizes
        self.tokenizer: Tokenizer = load_tokenizer(self.path)
        self._words = np.load(Path(self.path) / WORD_TABLE, mmap_mode="r")
        self._positions = np.load(Path(self.path) / POSITION_TABLE)
        self.below = [self._layer(number) for number in range(HALF)]
        self.above = [self._layer(number) for number in range(HALF, self.sizes.layers)]
        self._norm = {part: self.weights.floats(f"emb.ln.{part}") for part in "wb"}
        self._run_below = jax.jit(self._states)

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

    def halfway(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The states before the layers that change, shape (texts, tokens, hidden), and which tokens are real."""
        marks = self.tokenizer.marks
        ids = [[marks.begin, *self.tokenizer.ids("query: " + text)[: LONGEST - 2], marks.end] for text in texts]
        states = np.zeros((len(ids), LONGEST, self.sizes.hidden), np.float16)
        real = np.zeros((len(ids), LONGEST), np.float32)
        order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
        for start in range(0, len(ids), BATCH):
            some = order[start : start + BATCH]
            width = padded(max(len(ids[at]) for at in some))
            words = np.zeros((len(some), width, self.sizes.hidden), np.float32)
            for row, at in enumerate(some):
                real[at, : len(ids[at])] = 1.0
                words[row, : len(ids[at])] = unpacked(self._words[np.array(ids[at])])
            words += self._positions[:width]
            states[some, :width] = np.asarray(self._run_below(words, real[some, :width]))
        return states, real


def padded(length: int) -> int:
    """Few widths, so that few programs are compiled."""
    return min(LONGEST, -(-length // 16) * 16)


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


def fresh(sizes: Any, candidates: Sequence[np.ndarray]) -> Tree:
    """Changes that change nothing yet, and "nothing" in the middle of everything."""
    choose, found = np.random.default_rng(20261125), list[Tree]()
    for _ in range(HALF, sizes.layers):
        change = Tree()
        for one in MATRICES:
            rows = sizes.inner if one == "fi" else sizes.hidden
            columns = sizes.inner if one == "fo" else sizes.hidden
            change[f"{one}.in"] = (choose.standard_normal((RANK, columns)) / np.sqrt(columns)).astype(np.float32)
            change[f"{one}.out"] = np.zeros((rows, RANK), np.float32)
        found.append(change)
    return {"changes": found, "nothing": np.concatenate(candidates).mean(axis=0)}


def vectors_of(changes: Any, layers: list[Tree], states: Any, mask: Any, sizes: Any) -> Any:
    for own, change in zip(layers, changes, strict=True):
        states, _ = layer(own, change, states, mask, sizes)
    sums = (states * mask[:, :, None]).sum(axis=1)
    return sums / jnp.linalg.norm(sums, axis=1, keepdims=True)


def loss_of(learned: Tree, layers: Any, sizes: Any, states: Any, mask: Any, rows: Mapping[str, Any]) -> Any:
    """InfoNCE: the share of the softmax that falls on what is right, or on "nothing" where nothing is."""
    vectors = vectors_of(learned["changes"], layers, states, mask, sizes)
    nothing = (vectors @ learned["nothing"] / jnp.linalg.norm(learned["nothing"]))[:, None] / TEMPERATURE
    cosines = jnp.einsum("qh,qch->qc", vectors, rows["candidates"]) / TEMPERATURE
    needs = rows["right"].any(axis=1, keepdims=True)
    right = jnp.concatenate([jnp.where(rows["right"], cosines, -1e9), jnp.where(needs, -1e9, nothing)], axis=1)
    every = jnp.concatenate([jnp.where(rows["right"] | rows["wrong"], cosines, -1e9), nothing], axis=1)
    losses = jax.nn.logsumexp(every, axis=1) - jax.nn.logsumexp(right, axis=1)
    elsewhere = jnp.where(rows["is elsewhere"][None, :], vectors @ rows["elsewhere"].T / TEMPERATURE, -1e9)
    strange = jax.nn.logsumexp(jnp.concatenate([elsewhere, nothing], axis=1), axis=1) - nothing[:, 0]
    return (losses + ELSEWHERE * strange).mean()


def rows_of(
    some: Sequence[Asked], candidates: Sequence[np.ndarray], width: int, elsewhere: np.ndarray
) -> dict[str, np.ndarray]:
    """The candidates of each prompt, padded, and those of another project, which are the same for all."""
    most, hidden = max(map(len, candidates)), candidates[0].shape[1]
    padding = np.zeros((most - len(elsewhere), hidden), np.float32)
    found = {
        "elsewhere": np.concatenate([elsewhere, padding]),
        "is elsewhere": np.arange(most) < len(elsewhere),
        "candidates": np.zeros((len(some), width, hidden), np.float32),
        "right": np.zeros((len(some), width), bool),
        "wrong": np.zeros((len(some), width), bool),
    }
    for row, one in enumerate(some):
        places = [*one.right, *one.wrong][:width]
        found["candidates"][row, : len(places)] = candidates[one.project][places]
        found["right"][row, : len(one.right)] = True
        found["wrong"][row, len(one.right) : len(places)] = True
    return found


def trained(encoder: Encoder, given: Set, report: Any) -> Tree:
    """What is learned in `EPOCHS` passes; Adam with a rate that rises for a tenth of the way and then falls to 0."""
    sizes, learned = encoder.sizes, fresh(encoder.sizes, given.candidates)
    states, real = encoder.halfway([one.text for one in given.asked])
    width = max(len(one.right) + len(one.wrong) for one in given.asked)
    slope = jax.jit(jax.value_and_grad(loss_of), static_argnums=2)
    mean = jax.tree_util.tree_map(np.zeros_like, learned)
    square = jax.tree_util.tree_map(np.zeros_like, learned)
    choose, step = np.random.default_rng(1), 0
    steps = EPOCHS * (len(given.asked) // BATCH)
    lengths = real.sum(axis=1)
    for epoch in range(EPOCHS):
        began, total = time.monotonic(), 0.0
        order: list[int] = choose.permutation(len(given.asked)).tolist()
        starts = range(0, len(order), 16 * BATCH)  # prompts of like length share a batch
        flat = [n for at in starts for n in sorted(order[at : at + 16 * BATCH], key=lengths.__getitem__)]
        batches: list[list[int]] = [flat[at : at + BATCH] for at in range(0, len(flat) - BATCH + 1, BATCH)]
        for some in (batches[int(at)] for at in choose.permutation(len(batches))):
            tokens = padded(int(lengths[some].max()))
            own = {given.asked[n].project for n in some}
            other = int(choose.choice([n for n in range(len(given.candidates)) if n not in own]))
            rows = rows_of([given.asked[n] for n in some], given.candidates, width, given.candidates[other])
            loss, gradient = slope(
                learned, encoder.above, sizes, states[some, :tokens].astype(np.float32), real[some, :tokens], rows
            )
            step += 1
            rate = RATE * min(1.0, step / (0.1 * steps)) * max(0.0, 1.0 - step / steps)
            mean = jax.tree_util.tree_map(slid, mean, gradient)
            square = jax.tree_util.tree_map(slid_square, square, gradient)
            held = rate / (1 - 0.9**step), 1 - 0.999**step
            learned = jax.tree_util.tree_map(partial(stepped, held), learned, mean, square)
            total += float(loss)
        print(f"pass {epoch + 1}: loss {total / len(batches):.3f}, {time.monotonic() - began:.0f} s", flush=True)
        report(learned)
    return learned


def slid(mean: Any, slope: Any) -> Any:
    """The mean of slopes, a tenth of it the newest."""
    return 0.9 * mean + 0.1 * slope


def slid_square(square: Any, slope: Any) -> Any:
    """The mean of squared slopes, a thousandth of it the newest."""
    return 0.999 * square + 0.001 * slope * slope


def stepped(held: tuple[float, float], now: Any, mean: Any, square: Any) -> Any:
    """Weights after a step of Adam."""
    return now - held[0] * mean / (jnp.sqrt(square / held[1]) + 1e-8)


def measured(encoder: Encoder, learned: Tree, given: Set) -> str:
    """How often what is needed is first, among three, among five; how often by the prompt's old vector; and whether the
    best candidate is nearer than "nothing" by more where one is needed than where none is (area under the curve)."""
    states, real = encoder.halfway([one.text for one in given.asked])
    run = jax.jit(vectors_of, static_argnums=4)
    lines = list[str]()
    zero = jax.tree_util.tree_map(np.zeros_like, learned["changes"])
    nothing = np.asarray(learned["nothing"] / np.linalg.norm(learned["nothing"]))
    for name, own in (("before", zero), ("after", learned["changes"])):
        ranks = {kind: list[int]() for kind in NEEDY}
        nearer = {True: list[float](), False: list[float]()}
        for start in range(0, len(given.asked), BATCH):
            some = given.asked[start : start + BATCH]
            found = np.asarray(
                run(own, encoder.above, states[start : start + BATCH].astype(np.float32), real[start : start + BATCH],
                    encoder.sizes)
            )  # fmt: skip
            for vector, one in zip(found, some, strict=True):
                cosines = given.candidates[one.project] @ vector
                if one.right or one.wrong:
                    nearer[bool(one.right)].append(max(cosines[[*one.right, *one.wrong]]) - float(nothing @ vector))
                if one.right:
                    best = max(cosines[at] for at in one.right)
                    ranks[one.kind].append(int(sum(cosines[at] > best for at in one.wrong)))
        every = [rank for kind in NEEDY for rank in ranks[kind]]
        shown = [np.mean([rank < most for rank in every]) for most in (1, 3, 5)]
        kinds = [np.mean([rank < 1 for rank in ranks[kind]]) for kind in NEEDY]
        told_apart = np.mean(np.array(nearer[True])[:, None] > np.array(nearer[False])[None, :])
        lines.append(
            f"{name}: first {shown[0]:.3f} (questions {kinds[0]:.3f}, tasks {kinds[1]:.3f}), among three "
            f"{shown[1]:.3f}, among five {shown[2]:.3f}, of {len(every)}; needs anything {told_apart:.3f}"
        )
    return "\n".join(lines)


def ranges_of(encoder: Encoder, changes: Any, given: Set) -> dict[str, np.ndarray]:
    """The sizes that steps must reach in the changed layers; `bench/activation_ranges.py` has those of the others."""
    states, real = encoder.halfway([one.text for one in given.asked])
    count, hidden = len(encoder.above), encoder.sizes.hidden
    found = {"attention": np.zeros((count, hidden)), "inner": np.zeros((count, hidden)), "found": np.zeros(count)}
    run = jax.jit(layer, static_argnums=4)
    for start in range(0, len(states), BATCH):
        mask = real[start : start + BATCH]
        state: Any = states[start : start + BATCH].astype(np.float32)
        for at, (own, change) in enumerate(zip(encoder.above, changes, strict=True)):
            state, seen = run(own, change, state, mask, encoder.sizes)
            before, attended, middle = (np.abs(np.asarray(one)) * mask[:, :, None] for one in seen)
            found["attention"][at] = np.maximum(found["attention"][at], before.max(axis=(0, 1)))
            found["inner"][at] = np.maximum(found["inner"][at], middle.max(axis=(0, 1)))
            found["found"][at] = max(found["found"][at], attended.max())
    return {name: (one * MARGIN).astype(np.float16) for name, one in found.items()}


def written(learned: Tree, ranges: Mapping[str, np.ndarray], path: Path) -> None:
    """One file: of each changed matrix the two factors, in half precision, "nothing", and the ranges."""
    table = {
        f"l{HALF + at}.{name}": np.asarray(value).astype(np.float16)
        for at, change in enumerate(learned["changes"])
        for name, value in sorted(change.items())
    }
    nothing = np.asarray(learned["nothing"] / np.linalg.norm(learned["nothing"])).astype(np.float16)
    every: Tree = table | {"nothing": nothing} | {f"ranges.{name}": value for name, value in ranges.items()}
    np.savez(path, **every)


def main() -> int:
    options = argparse.ArgumentParser(description="low-rank changes for the prompt's side of the encoder")
    options.add_argument("--dry-run", action="store_true", help="write nothing")
    options.add_argument("--out", type=Path, default=TARGET)
    options.add_argument("--held-out", type=Path, help="a folder of other projects to report on")
    given = options.parse_args()
    encoder = Encoder()
    train, validation = questions(TALK / "train"), questions(TALK / "validation")
    print(f"{len(train.asked)} prompts, {len(validation.asked)} of validation", flush=True)

    def report(now: Tree) -> None:
        print(measured(encoder, now, validation), flush=True)

    learned = trained(encoder, train, report)
    if given.held_out:
        print(f"held out\n{measured(encoder, learned, questions(given.held_out))}")
    if not given.dry_run:
        written(learned, ranges_of(encoder, learned["changes"], train), given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
