"""Teach the encoder to read prompts: low-rank changes to its last layers, and the weights of its answers.

    pip install jax
    python bench/fit_reader.py          # 27 minutes on two cores; writes both files `reading.npz`
    python bench/judge_reader.py        # chooses the thresholds, and reports

A prompt is read behind the end of the agent's message that it answers. For every unit of the prompt the network answers
whether it states something to remember, of which kind, and for whom; for every sentence of the message, whether the
user agrees to it. Its answers are a linear function of the mean, the first and the last state of the tokens of the part
and of the plain features that the regressions over words see (`bench/fit_statements.py`, `bench/fit_agreement.py`). The
last eight layers get low-rank changes in every matrix (`bench/float_network.py`), trained together with the last
weights on `bench/data/talk/train`, the short prompts and the exchanges for training and, with less weight, the chats.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.fit_statements import TALK
from bench.float_network import Adam, FloatNetwork, Tree, jax, jnp, layer, padded, same_rate
from bench.judge_reader import HEAD, Example, examples, exchange_examples, patterns_of, short_examples
from bench.logistic import average_precision
from bench.talk_format import Project

from filrouge.extraction import reader, statement_model
from filrouge.extraction.statement_model import LABELS, NETWORK_QUESTIONS, STATE_LENGTH, Numbers
from filrouge.providers.e5 import READING_CHANGES_FILE, SHARED_LAYERS, tokens_of_parts
from filrouge.providers.embedders import windows

CHANGES: Final = Path(__file__).parent.parent / "src" / "filrouge" / "providers" / READING_CHANGES_FILE
#: The rank of the changes.
RANK: Final = 16
EPOCHS, RATE = 4, 5e-4
#: How much faster than the changes the last weights learn: those of states, of plain features, and the bias.
FASTER: Final = {"states": 4.0, "units": 10.0, "sentences": 10.0, "bias": 4.0}
#: Of the last weights of states; and the share of states that is left out in a step.
DECAY, DROPPED = 1e-4, 0.15
#: Padded tokens of a step, and parts.
TOKENS, PARTS = 2048, 96
#: Few widths, so that few programs are compiled.
WIDTHS: Final = (32, 48, 64, 80, 96, 128, 160, 192, 240, 288, 384, 512)
#: What an answer counts: whether a unit states, its kind, for whom; whether a sentence is agreed to, its kind.
COUNTS: Final = {"states": 1.0, "kind": 0.15, "user": 0.2, "agreed": 0.7, "kind agreed": 0.15}
#: What a unit of a chat counts beside one of work with an agent. In full, chats cost work a tenth of its recall: a
#: friend notes more than a colleague.
CHATS_COUNT: Final = {"states": 0.4, "kind": 0.5, "user": 0.2}
#: Summed losses are divided by this, about the parts of a step.
USUAL_PARTS: Final = 40.0


@dataclass(frozen=True, kw_only=True)
class Laid:
    """A set of examples as the network is trained on it.

    Attributes:
        tokens, spans: of each passage its tokens, and the places of its parts.
        states: of all tokens after the layers that stay, one passage after the other.
        first: where each passage begins among the states, and where each begins among the parts.
        units, sentences: the plain features of each part; zero where it is of the other sort.
        wanted, counts: the answers of each part, and what they count; shape (parts, questions).
    """

    tokens: list[list[int]]
    spans: list[list[tuple[int, int]]]
    states: NDArray[np.float16]
    first: tuple[NDArray[np.int64], NDArray[np.int64]]
    units: Numbers
    sentences: Numbers
    wanted: Numbers
    counts: Numbers

    def batches(self, order: Sequence[int]) -> Iterator[list[int]]:
        """Passages, in this order, in batches of at most `TOKENS` padded tokens and `PARTS` parts."""
        batch, widest, parts = list[int](), 0, 0
        for at in order:
            wide = max(widest, padded(len(self.tokens[at]), WIDTHS))
            if batch and ((len(batch) + 1) * wide > TOKENS or parts + len(self.spans[at]) > PARTS):
                yield batch
                batch, wide, parts = [], padded(len(self.tokens[at]), WIDTHS), 0
            batch.append(at)
            widest, parts = wide, parts + len(self.spans[at])
        if batch:
            yield batch

    def step(self, batch: Sequence[int]) -> tuple[Tree, list[int]]:
        """The numbers of a batch, and the parts in it. Numbers of one width have one shape, whatever the batch."""
        width = padded(max(len(self.tokens[at]) for at in batch), WIDTHS)
        rows, hidden = max(len(batch), TOKENS // width), self.states.shape[1]
        given: Tree = {
            "states": np.zeros((rows, width, hidden), np.float32), "real": np.zeros((rows, width), np.float32),
            "row": np.zeros(PARTS, np.int32), "first": np.zeros(PARTS, np.int32), "last": np.zeros(PARTS, np.int32),
            "mean": np.zeros((PARTS, width), np.float32),
        }  # fmt: skip
        given["real"][:, 0] = 1.0
        parts = list[int]()
        for row, at in enumerate(batch):
            begin, end = self.first[0][at : at + 2]
            given["states"][row, : end - begin], given["real"][row, : end - begin] = self.states[begin:end], 1.0
            for number, (start, stop) in enumerate(self.spans[at]):
                place = len(parts)
                given["row"][place], given["first"][place], given["last"][place] = row, start, stop - 1
                given["mean"][place, start:stop] = 1.0 / (stop - start)
                parts.append(int(self.first[1][at]) + number)
        for name in ("units", "sentences", "wanted", "counts"):
            every = getattr(self, name)
            given[name] = np.zeros((PARTS, every.shape[1]), np.float32)
            given[name][: len(parts)] = every[parts]
        return given, parts


def laid_out(network: FloatNetwork, given: Sequence[Example]) -> Laid:
    """Examples as the network reads them; a message of which no sentence is near its end has no sentences."""
    tokens, spans = list[list[int]](), list[list[tuple[int, int]]]()
    units, sentences, wanted, counts = (list[Any]() for _ in range(4))
    no_unit = np.zeros(len(statement_model.text_features(_A_UNIT, None)), np.float32)
    no_sentence = np.zeros(len(reader.text_features(_A_SENTENCE)), np.float32)
    for one in given:
        passages = reader.passages(one.prompt, windows(one.prompt.text))
        if not passages:
            continue
        for passage in passages:
            ids, places = tokens_of_parts(network.tokenizer, passage)
            tokens.append(ids)
            spans.append(places[-PARTS:])
        near = len(passages[0].parts_before)
        for proposal, label in list(zip(one.prompt.proposals, one.sentences, strict=True))[len(one.sentences) - near :]:
            units.append(no_unit)
            sentences.append(reader.text_features(proposal))
            answers = _answers(label, "agreed", dict.fromkeys(COUNTS, 1.0))
            wanted.append(answers[0])
            counts.append(answers[1])
        for unit, pattern, label in zip(one.prompt.units, patterns_of(one.prompt), one.units, strict=True):
            units.append(statement_model.text_features(unit, pattern))
            sentences.append(no_sentence)
            answers = _answers(label, "states", CHATS_COUNT if one.chat else dict.fromkeys(COUNTS, 1.0))
            wanted.append(answers[0])
            counts.append(answers[1])
    assert sum(map(len, spans)) == len(units), "a part was left out"
    first = tuple(np.concatenate([[0], np.cumsum([len(one) for one in rows])]) for rows in (tokens, spans))
    states = np.zeros((int(first[0][-1]), network.sizes.hidden), np.float16)
    found = Laid(
        tokens=tokens, spans=spans, states=states, first=(first[0], first[1]), units=np.array(units, np.float32),
        sentences=np.array(sentences, np.float32), wanted=np.array(wanted), counts=np.array(counts),
    )  # fmt: skip
    for batch in found.batches(sorted(range(len(tokens)), key=lambda at: len(tokens[at]))):
        below, _ = network.read([tokens[at] for at in batch], padded(max(len(tokens[at]) for at in batch), WIDTHS))
        for row, at in enumerate(batch):
            states[first[0][at] : first[0][at + 1]] = below[row, : len(tokens[at])]
    return found


_A_SENTENCE: Final = reader.proposals("I would use a queue here.", "ok")[0]
_A_UNIT: Final = _A_SENTENCE.sentence


def _answers(label: Project | None, question: str, counts: Mapping[str, float]) -> tuple[Numbers, Numbers]:
    """The answers about a part, and what each counts: kind and scope only of what is stated or agreed to."""
    wanted, counted = np.zeros((2, len(NETWORK_QUESTIONS)), np.float32)
    at, kinds = NETWORK_QUESTIONS.index(question), slice(1, 1 + len(LABELS))
    counted[at] = COUNTS[question] * counts[question]
    if label:
        wanted[at], wanted[1 + LABELS.index(label["kind"])] = 1.0, 1.0
        agreed = question == "agreed"
        counted[kinds] = COUNTS["kind agreed"] if agreed else COUNTS["kind"] * counts["kind"]
        if not agreed:
            user = NETWORK_QUESTIONS.index("user")
            wanted[user], counted[user] = label["scope"] == "user", COUNTS["user"] * counts["user"]
    return wanted, counted


class Reading:
    """The network with its changes and its last weights, as functions of what is learned.

    Args:
        network: the network without its changes.
        usual: the mean vector of parts without changes, shape (3 x hidden,).
    """

    def __init__(self, network: FloatNetwork, usual: Numbers) -> None:
        self._sizes, self._usual = network.sizes, usual

    def odds(self, learned: Tree, layers: Any, step: Tree, key: Any) -> Any:
        """The log odds, a row per part and a column per question; with a key, some states are left out."""
        states = part_states(learned["changes"], layers, self._sizes, step).reshape(PARTS, -1) - self._usual
        states = states.reshape(PARTS, 3, -1)
        lengths = jnp.maximum(jnp.linalg.norm(states, axis=2, keepdims=True), 1e-6)
        states = (states * (STATE_LENGTH / lengths)).reshape(PARTS, -1)
        if key is not None:
            states = states * jax.random.bernoulli(key, 1.0 - DROPPED, states.shape) / (1.0 - DROPPED)
        plain = step["units"] @ learned["units"] + step["sentences"] @ learned["sentences"]
        return states @ learned["states"] + plain + learned["bias"]

    def loss(self, learned: Tree, layers: Any, step: Tree, key: Any) -> Any:
        """Cross entropy of every answer that counts."""
        found = self.odds(learned, layers, step, key)
        losses = (jax.nn.softplus(found) - step["wanted"] * found) * step["counts"]
        return losses.sum() / USUAL_PARTS + DECAY * (learned["states"] ** 2).sum()


def part_states(changes: Any, layers: Any, sizes: Any, step: Tree) -> Any:
    """The mean, the first and the last state of every part, shape (parts, 3, hidden)."""
    states = step["states"]
    for own, change in zip(layers, changes, strict=True):
        states, _ = layer(own, change, states, step["real"], sizes)
    of_parts, every = states[step["row"]], jnp.arange(PARTS)
    mean = (of_parts * step["mean"][:, :, None]).sum(axis=1)
    return jnp.stack([mean, of_parts[every, step["first"]], of_parts[every, step["last"]]], axis=1)


def usual_vector(network: FloatNetwork, train: Laid, batches: Sequence[Sequence[int]]) -> Numbers:
    """The mean vector of the parts in these batches, read without changes, rounded as it is stored."""
    run, seen = jax.jit(part_states, static_argnums=2), list[Numbers]()
    for step, parts in (train.step(batch) for batch in batches):
        seen.append(np.asarray(run(network.no_changes(RANK), network.above, network.sizes, step))[: len(parts)])
    return np.concatenate(seen).mean(axis=0).reshape(-1).astype(np.float16).astype(np.float32)


def trained(network: FloatNetwork, train: Laid, watched: Laid) -> tuple[Tree, Numbers]:
    """What is learned, and the usual vector; progress on `watched` is printed after each pass."""
    choose, asked = np.random.default_rng(1), len(NETWORK_QUESTIONS)
    usual = usual_vector(network, train, shuffled(train, choose)[:40])
    reading = Reading(network, usual)
    learned: Tree = {"changes": network.no_changes(RANK), "states": np.zeros((len(usual), asked), np.float32)}
    learned |= {name: np.zeros((getattr(train, name).shape[1], asked), np.float32) for name in ("units", "sentences")}
    learned["bias"] = np.zeros(asked, np.float32)
    rates = same_rate(learned, RATE) | {name: RATE * more for name, more in FASTER.items()}
    adam = Adam(learned, rates, EPOCHS * len(shuffled(train, choose)))
    slope, answer, key = jax.jit(jax.value_and_grad(reading.loss)), jax.jit(reading.odds), jax.random.PRNGKey(1)
    for epoch in range(EPOCHS):
        began, losses = time.monotonic(), list[float]()
        for batch in shuffled(train, choose):
            key, own = jax.random.split(key)
            value, gradient = slope(learned, network.above, train.step(batch)[0], own)
            learned = adam.step(learned, gradient)
            losses.append(float(value))
        good = precision_of(watched, partial(answer, learned, network.above))
        seconds = time.monotonic() - began
        print(
            f"pass {epoch + 1}: loss {np.mean(losses):.3f}, average precision {good:.3f}, {seconds:.0f} s", flush=True
        )
    return learned, usual


def shuffled(train: Laid, choose: np.random.Generator) -> list[list[int]]:
    """All passages in batches of similar length, in a new order."""
    noisy = np.array([len(one) for one in train.tokens]) * np.exp(choose.normal(0, 0.12, len(train.tokens)))
    batches = list(train.batches(np.argsort(noisy).tolist()))
    return [batches[at] for at in choose.permutation(len(batches))]


def precision_of(watched: Laid, answer: Any) -> float:
    """The average precision of the first answer of units, by the network alone in 32-bit floats."""
    found = np.zeros((len(watched.units), len(NETWORK_QUESTIONS)), np.float32)
    for batch in watched.batches(sorted(range(len(watched.tokens)), key=lambda at: len(watched.tokens[at]))):
        step, parts = watched.step(batch)
        found[parts] = np.asarray(answer(step, None))[: len(parts)]
    units = watched.counts[:, 0] > 0
    return average_precision(watched.wanted[units, 0] > 0, found[units, 0])


def main() -> None:
    """Train and write."""
    network = FloatNetwork(SHARED_LAYERS)
    given = [*examples(TALK / "train"), *examples(TALK / "chats" / "train", chat=True), *short_examples("train")]
    given += exchange_examples("train")
    train, watched = laid_out(network, given), laid_out(network, examples(TALK / "validation"))
    print(f"{len(train.tokens)} passages of {len(train.states)} tokens, {len(train.units)} parts", flush=True)
    learned, usual = trained(network, train, watched)
    steps = [train.step(batch)[0] for batch in shuffled(train, np.random.default_rng(2))]
    ranges = network.ranges(learned["changes"], ((step["states"], step["real"]) for step in steps))
    np.savez(CHANGES, **network.stored(learned["changes"], ranges))
    head: Tree = {name: np.asarray(learned[name]).astype(np.float16) for name in FASTER}
    half = np.float32(0.5)
    np.savez(HEAD, **head, usual=usual.astype(np.float16), threshold=half, threshold_agreed=half)
    print(f"{CHANGES.stat().st_size / 1e3:.0f} kB, {HEAD.stat().st_size / 1e3:.0f} kB; now run bench/judge_reader.py")


if __name__ == "__main__":
    main()
