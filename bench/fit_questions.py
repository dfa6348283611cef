"""Teach the encoder what a prompt needs: low-rank changes to its last layers, for prompts and for what they need.

    pip install jax
    python bench/fit_questions.py                 # 35 minutes on two cores; writes src/filrouge/providers/questions.npz
    python bench/fit_questions.py --dry-run       # only the report

A prompt and the statement that it needs are further apart than two texts about one thing, so the cosine of the bundled
encoder puts the right one first for a sixth of the prompts. Here a prompt's vector learns to point at what is needed,
and a statement's at the prompts that need it; both are read by the same changed network. The last eight layers get
low-rank changes (LoRA, Hu et al. 2021, arxiv.org/abs/2106.09685) in every matrix, trained by contrast (InfoNCE, van den
Oord et al. 2018, arxiv.org/abs/1807.03748) among the statements and unlabelled sentences of a project, on
`bench/data/talk/train`, `asked` and `small`. Statements that a probe merely accepts are on neither side, since labels
accept preferences everywhere.

A statement is read behind the words before it ("and it's 40 now" says nothing alone), and only its own tokens are
averaged. In a third of the steps it is read alone, since not every memory has words before it.

One more candidate is "nothing", a vector that is learned with the rest: it is right for prompts that need nothing, and
for every prompt among the sentences of another project. How much nearer a memory is than that tells whether it is
needed at all, in a home of six memories as in one of six hundred.

Among thousands of memories the nearest are looked for by their stored vectors, which the unchanged network makes, so a
prompt's vector also learns, with less weight, to lie near those of what it needs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.float_network import Adam, FloatNetwork, Tree, jax, jnp, layer, padded, same_rate
from bench.judge_reader import patterns_of, read_prompt
from bench.talk_format import Project, label_of, read, statements_by

from filrouge.core.protocols import PartEmbedder
from filrouge.extraction import reader
from filrouge.extraction.heuristics import statements_of
from filrouge.extraction.statement_model import predict
from filrouge.providers.e5 import (
    CONTEXT_TOKENS,
    NEED_CHANGES_FILE,
    SHARED_LAYERS,
    OnnxE5,
)
from filrouge.search.repository import CONTEXT_CHARACTERS

ROOT: Final = Path(__file__).parent
TALK: Final = ROOT / "data" / "talk"
TARGET: Final = ROOT.parent / "src" / "filrouge" / "providers" / NEED_CHANGES_FILE
#: The rank of the changes.
RANK: Final = 16
RATE, EPOCHS, BATCH = 5e-4, 3, 32
#: A step takes so many prompts of each of two projects, among so many candidates of each. Candidates cost most.
PROMPTS, CANDIDATES = 44, 40
#: How often statements are read behind the words before them.
IN_SETTING: Final = 0.7
#: What a prompt counts among the sentences of another project, beside 1 among those of its own.
ELSEWHERE: Final = 0.5
#: What the stored vectors of candidates count, beside 1 for those by the changed network.
STORED: Final = 0.25
#: Cosines lie close together; divided by this they spread over the softmax.
TEMPERATURE: Final = 0.02
#: The probability from which on an unlabelled sentence stands among the candidates; of the product's memories a fifth
#: are such.
LOOKS_STATED: Final = 0.1
#: Tokens of a prompt that are read in training. Of a statement it is `CONTEXT_TOKENS`.
LONGEST: Final = 96
#: Few widths, so that few programs are compiled.
WIDTHS: Final = (32, 48, 64, LONGEST)
#: The kinds of prompts that need something.
NEEDY: Final = ("question", "task")


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
    """The prompts of some projects, and each project's candidates: the words before each, and its own."""

    asked: list[Asked]
    candidates: list[list[tuple[str, str]]]


def unlabelled(project: Project, model: PartEmbedder) -> Iterator[tuple[int, str, str]]:
    """Sentences of the user that nobody labelled and that look like statements: of each its session, the words before
    it, and its own."""
    said, answered = statements_by(project, "user"), answered_by(project)
    for session in project["sessions"]:
        for number, turn in enumerate(session["turns"], 1):
            text, place = turn["user"], (session["id"], number)
            one = reader.split_prompt(text, statements_of(text), answered[place])
            vectors = read_prompt(one, model)
            judged, _ = predict(one.units, patterns_of(one), vectors.units if vectors else None)
            for unit, prediction in zip(one.units, judged, strict=True):
                if label_of(unit, text, said.get(place, [])) is None and prediction.states >= LOOKS_STATED:
                    yield session["id"], (text[: unit.start] or answered[place])[-CONTEXT_CHARACTERS:], unit.text


def answered_by(project: Project) -> dict[tuple[int, int], str]:
    """The agent's message that each prompt answers, by session and turn; empty at the beginning of a session."""
    return {
        (one["id"], at + 1): one["turns"][at - 1]["assistant"] if at else ""
        for one in project["sessions"]
        for at in range(len(one["turns"]))
    }


def labelled(project: Project) -> Iterator[tuple[str, str]]:
    """The words before each statement, in its message or in the one that it answers, and its own."""
    turns = {(one["id"], at): turn for one in project["sessions"] for at, turn in enumerate(one["turns"], 1)}
    answered = answered_by(project)
    for one in project["statements"]:
        place, by = (one["session"], one["turn"]), one.get("by", "user")
        text = turns[place][by]
        before = text[: text.find(one["quote"])] or (answered[place] if by == "user" else turns[place]["user"])
        yield before[-CONTEXT_CHARACTERS:], one["quote"]


def questions(*folders: Path) -> Set:
    """What is asked in the projects of some folders."""
    model, asked, candidates = OnnxE5(), list[Asked](), list[list[tuple[str, str]]]()
    for number, path in enumerate(path for folder in folders for path in sorted(folder.glob("*.json"))):
        project = read(path)
        stated, others = project["statements"], list(unlabelled(project, model))
        candidates.append([*labelled(project), *((before, text) for _, before, text in others)])
        place = {one["id"]: at for at, one in enumerate(stated)}
        for probe in [*project["probes"], *asked_later(project)]:
            if bool(probe.get("expect")) == (probe["kind"] in NEEDY) and probe["kind"] != "start":
                asked.append(_probe(probe, number, stated, others, place))
    return Set(asked=asked, candidates=candidates)


def asked_later(project: Project) -> list[Project]:
    """Further prompts of a project, asked after its last session; none of those that measure."""
    path = TALK / "asked" / f"{project['id']}.json"
    if not path.exists():
        return []
    last, later = max(one["id"] for one in project["sessions"]), read(path)
    return [{"expect": []} | one | {"after": last} for one in (*later["needed"], *later["nothing"])]


def _probe(
    probe: Project,
    number: int,
    stated: Sequence[Project],
    others: Sequence[tuple[int, str, str]],
    place: Mapping[str, int],
) -> Asked:
    told = [one for one in stated if one["session"] <= probe["after"]]
    gone = {one.get("supersedes") for one in told}
    expected = probe.get("expect", [])
    neither = gone | set(probe.get("accept", [])) | set(expected)
    wrong = [place[one["id"]] for one in told if one["id"] not in neither]
    wrong += [len(stated) + at for at, (session, *_) in enumerate(others) if session <= probe["after"]]
    right = tuple(place[id_] for id_ in expected)
    return Asked(text=probe["prompt"], project=number, kind=probe["kind"], right=right, wrong=tuple(wrong))


@dataclass(frozen=True, kw_only=True)
class Halfway:
    """Texts before the layers that change.

    Attributes:
        states: shape (texts, tokens, hidden).
        real: which tokens are no padding; shape (texts, tokens).
        own: which tokens are averaged in the end.
    """

    states: np.ndarray
    real: np.ndarray
    own: np.ndarray

    def some(self, rows: Sequence[int], width: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """States, real and own tokens of these texts, the first `width` tokens of each."""
        return self.states[rows, :width].astype(np.float32), self.real[rows, :width], self.own[rows, :width]

    def in_halves(self, rows: Sequence[int]) -> tuple[list[Any], np.ndarray]:
        """The shorter half of these texts and the longer one, each as wide as its longest; and their order."""
        lengths = self.real[rows].sum(axis=1).astype(int)
        order = np.argsort(lengths, kind="stable")
        halves: list[list[int]] = [half.tolist() for half in np.split(order, 2)]
        return [
            self.some([rows[at] for at in half], padded(int(lengths[half].max()), WIDTHS)) for half in halves
        ], order


class Encoder(FloatNetwork):
    """The network, reading prompts and statements."""

    def __init__(self) -> None:
        super().__init__(SHARED_LAYERS)
        self._run_above = jax.jit(vectors_of, static_argnums=3)

    def vectors(self, changes: Any, texts: Halfway) -> np.ndarray:
        """Unit vectors, by the layers with these changes; by the bundled ones where there are none."""
        changes = changes or [Tree() for _ in self.above]
        found = [
            np.asarray(
                self._run_above(changes, self.above, texts.some(range(at, min(at + 64, len(texts.states)))), self.sizes)
            )
            for at in range(0, len(texts.states), 64)
        ]
        return np.concatenate(found)

    def prompts(self, asked: Sequence[Asked]) -> Halfway:
        """Prompts as they are before the layers that change."""
        marks = self.tokenizer.marks
        ids = [[marks.begin, *self.tokenizer.ids("query: " + one.text)[: LONGEST - 2], marks.end] for one in asked]
        states, real = self._halfway(ids, LONGEST)
        return Halfway(states=states, real=real, own=real)

    def statements(self, given: Sequence[tuple[str, str]], *, in_setting: bool) -> Halfway:
        """Statements, alone or behind the words before them."""
        marks, prefix = self.tokenizer.marks, self.tokenizer.ids("passage:")
        ids, own = list[list[int]](), np.zeros((len(given), CONTEXT_TOKENS), np.float32)
        for row, (before, text) in enumerate(given):
            words = self.tokenizer.ids(text)[: CONTEXT_TOKENS - 12]
            room = max(0, CONTEXT_TOKENS - 2 - len(prefix) - len(words))
            behind = self.tokenizer.ids(before)[-room:] if in_setting and before and room else []
            ids.append([marks.begin, *prefix, *behind, *words, marks.end])
            own[row, len(ids[-1]) - 1 - len(words) if behind else 0 : len(ids[-1])] = 1.0
        states, real = self._halfway(ids, CONTEXT_TOKENS)
        return Halfway(states=states, real=real, own=own)

    def _halfway(self, ids: Sequence[list[int]], longest: int) -> tuple[np.ndarray, np.ndarray]:
        states = np.zeros((len(ids), longest, self.sizes.hidden), np.float16)
        real = np.zeros((len(ids), longest), np.float32)
        order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
        for start in range(0, len(ids), BATCH):
            some = order[start : start + BATCH]
            width = padded(max(len(ids[at]) for at in some), WIDTHS)
            found, real[some, :width] = self.read([ids[at] for at in some], width)
            states[some, :width] = found
        return states, real


def vectors_of(changes: Any, layers: list[Tree], texts: tuple[Any, Any, Any], sizes: Any) -> Any:
    """Unit vectors of texts."""
    states, real, own = texts
    for one, change in zip(layers, changes, strict=True):
        states, _ = layer(one, change, states, real, sizes)
    sums = (states * own[:, :, None]).sum(axis=1)
    return sums / jnp.linalg.norm(sums, axis=1, keepdims=True)


def loss_of(learned: Tree, layers: Any, sizes: Any, given: Mapping[str, Any]) -> Any:
    """InfoNCE: the share of the softmax that falls on what is right, or on "nothing" where nothing is."""
    prompts, candidates = (
        jnp.concatenate([vectors_of(learned["changes"], layers, half, sizes) for half in given[name]])
        for name in ("prompts", "candidates")
    )
    nothing = (prompts @ learned["nothing"] / jnp.linalg.norm(learned["nothing"]))[:, None] / TEMPERATURE
    cosines = prompts @ candidates.T / TEMPERATURE

    def among(which: Any, cosines: Any = cosines) -> Any:
        return jnp.where(which, cosines, -1e9)

    needs = given["right"].any(axis=1, keepdims=True)
    right = jnp.concatenate([among(given["right"]), jnp.where(needs, -1e9, nothing)], axis=1)
    every = jnp.concatenate([among(given["right"] | given["wrong"]), nothing], axis=1)
    losses = jax.nn.logsumexp(every, axis=1) - jax.nn.logsumexp(right, axis=1)
    stored = prompts @ given["stored"].T / TEMPERATURE
    found = among(given["right"] | given["wrong"], stored), among(given["right"], stored)
    losses += STORED * needs[:, 0] * (jax.nn.logsumexp(found[0], axis=1) - jax.nn.logsumexp(found[1], axis=1))
    strange = jax.nn.logsumexp(jnp.concatenate([among(given["elsewhere"]), nothing], axis=1), axis=1) - nothing[:, 0]
    return ((losses + ELSEWHERE * strange) * given["counts"]).sum() / given["counts"].sum()


@dataclass(frozen=True, kw_only=True)
class Read:
    """A set as the network reads it before the layers that change.

    Attributes:
        statements: by whether they are read behind the words before them; all projects in one row.
        stored: the vectors of the statements as the product stores them, by the unchanged network.
        first: where the candidates of each project begin there, and where they end.
    """

    given: Set
    prompts: Halfway
    statements: Mapping[bool, Halfway]
    stored: np.ndarray
    first: list[int]


def read_by(encoder: Encoder, given: Set) -> Read:
    every = [one for project in given.candidates for one in project]
    first = [0, *np.cumsum([len(project) for project in given.candidates]).tolist()]
    return Read(
        given=given,
        prompts=encoder.prompts(given.asked),
        statements={setting: encoder.statements(every, in_setting=setting) for setting in (True, False)},
        stored=OnnxE5().passages([text for _, text in every]),
        first=first,
    )


Part = tuple[int, list[int]]
"""A project with some of its prompts."""


def pairs_of_projects(given: Set, choose: np.random.Generator) -> list[tuple[Part, Part]]:
    """The prompts of all projects in parts, two parts of two projects a step."""
    by_project: dict[int, list[int]] = {}
    for at, one in enumerate(given.asked):
        by_project.setdefault(one.project, []).append(at)
    parts = list[Part]()
    for project, asked in by_project.items():
        mixed: list[int] = choose.permutation(asked).tolist()
        parts += [(project, mixed[at : at + PROMPTS]) for at in range(0, len(mixed), PROMPTS)]
    order: list[int] = choose.permutation(len(parts)).tolist()
    parts = [parts[at] for at in order]
    found = list[tuple[Part, Part]]()
    while len(parts) > 1:
        one = parts.pop()
        other = next((at for at in range(len(parts) - 1, -1, -1) if parts[at][0] != one[0]), None)
        if other is None:
            break
        found.append((one, parts.pop(other)))
    return found


def step_of(read: Read, pair: tuple[Part, Part], choose: np.random.Generator) -> dict[str, Any]:
    """The prompts of a step, its candidates, and what is right and wrong for each prompt."""
    shape = 2 * PROMPTS, 2 * CANDIDATES
    found: dict[str, Any] = {name: np.zeros(shape, bool) for name in ("right", "wrong", "elsewhere")}
    found["counts"] = np.zeros(shape[0], np.float32)
    prompts, candidates = list[int](), list[int]()
    for half, (project, asked) in enumerate(pair):
        begin, end = read.first[project : project + 2]
        needed = sorted({at for n in asked for at in read.given.asked[n].right})[:CANDIDATES]
        rest = [at for at in choose.permutation(end - begin).tolist() if at not in needed]
        chosen = [*needed, *rest[: CANDIDATES - len(needed)]]
        place = {at: half * CANDIDATES + n for n, at in enumerate(chosen)}
        candidates += [begin + at for at in chosen] + [0] * (CANDIDATES - len(chosen))
        beside, others = pair[1 - half][0], (1 - half) * CANDIDATES
        for row, n in enumerate(asked, half * PROMPTS):
            one, found["counts"][row] = read.given.asked[n], 1.0
            for name, which in (("right", one.right), ("wrong", one.wrong)):
                found[name][row, [place[at] for at in which if at in place]] = True
            size = read.first[beside + 1] - read.first[beside]
            found["elsewhere"][row, others : others + min(CANDIDATES, size)] = True
        prompts += asked + [asked[0]] * (PROMPTS - len(asked))
    found["prompts"], by_row = read.prompts.in_halves(prompts)
    statements = read.statements[bool(choose.random() < IN_SETTING)]
    found["candidates"], by_column = statements.in_halves(candidates)
    found["stored"] = read.stored[np.array(candidates)[by_column]]
    for name in ("right", "wrong", "elsewhere"):
        found[name] = found[name][by_row][:, by_column]
    found["counts"] = found["counts"][by_row]
    return found


def trained(encoder: Encoder, read: Read, report: Any) -> Tree:
    """What is learned in `EPOCHS` passes."""
    sizes = encoder.sizes
    middle = encoder.vectors(None, read.statements[False]).mean(axis=0)
    learned: Tree = {"changes": encoder.no_changes(RANK), "nothing": middle}
    slope = jax.jit(jax.value_and_grad(loss_of), static_argnums=2)
    choose = np.random.default_rng(1)
    adam = Adam(learned, same_rate(learned, RATE), EPOCHS * len(pairs_of_projects(read.given, choose)))
    for epoch in range(EPOCHS):
        began, losses = time.monotonic(), list[float]()
        for pair in pairs_of_projects(read.given, choose):
            loss, gradient = slope(learned, encoder.above, sizes, step_of(read, pair, choose))
            learned = adam.step(learned, gradient)
            losses.append(float(loss))
        print(f"pass {epoch + 1}: loss {np.mean(losses):.3f}, {time.monotonic() - began:.0f} s", flush=True)
        report(learned)
    return learned


def measured(encoder: Encoder, learned: Tree, read: Read) -> str:
    """How often what is needed is first, among three, among five; whether the best candidate is nearer than "nothing"
    by more where one is needed than where none is (area under the curve); and how often what is needed is among the
    fifty candidates of all projects whose stored vectors are nearest."""
    prompts = encoder.vectors(learned["changes"], read.prompts)
    nothing = np.asarray(learned["nothing"] / np.linalg.norm(learned["nothing"]))
    lines = list[str]()
    for setting in (True, False):
        statements = encoder.vectors(learned["changes"], read.statements[setting])
        ranks = {kind: list[int]() for kind in NEEDY}
        nearer = {True: list[float](), False: list[float]()}
        for vector, one in zip(prompts, read.given.asked, strict=True):
            cosines = statements[read.first[one.project] : read.first[one.project + 1]] @ vector
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
            f"{'in setting' if setting else 'alone'}: first {shown[0]:.3f} (questions {kinds[0]:.3f}, tasks "
            f"{kinds[1]:.3f}), among three {shown[1]:.3f}, among five {shown[2]:.3f}, of {len(every)}; "
            f"needs anything {told_apart:.3f}"
        )
    found = list[bool]()
    for vector, one in zip(prompts, read.given.asked, strict=True):
        if one.right:
            cosines, begin = read.stored @ vector, read.first[one.project]
            found.append(np.sum(cosines > max(cosines[begin + at] for at in one.right)) < 50)
    return "\n".join([*lines, f"among the fifty nearest stored ones of all projects: {np.mean(found):.3f}"])


def batches_of(read: Read) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The states of a tenth of the texts before the layers that change, and which tokens are real."""
    for texts in (read.prompts, *read.statements.values()):
        for start in range(0, len(texts.states), 10 * BATCH):
            yield texts.some(range(start, min(start + BATCH, len(texts.states))))[:2]


def main() -> int:
    options = argparse.ArgumentParser(
        description="low-rank changes to the encoder's last layers, for what prompts need"
    )
    options.add_argument("--dry-run", action="store_true", help="write nothing")
    options.add_argument("--out", type=Path, default=TARGET)
    options.add_argument("--held-out", type=Path, help="a folder of other projects to report on")
    given = options.parse_args()
    encoder = Encoder()
    train = read_by(encoder, questions(TALK / "train", TALK / "small"))
    validation = read_by(encoder, questions(TALK / "validation"))
    print(f"{len(train.given.asked)} prompts, {len(validation.given.asked)} of validation", flush=True)

    def report(now: Tree) -> None:
        print(measured(encoder, now, validation), flush=True)

    learned = trained(encoder, train, report)
    if given.held_out:
        print(f"held out\n{measured(encoder, learned, read_by(encoder, questions(given.held_out)))}")
    if not given.dry_run:
        stored = encoder.stored(learned["changes"], encoder.ranges(learned["changes"], batches_of(train)))
        nothing = np.asarray(learned["nothing"] / np.linalg.norm(learned["nothing"])).astype(np.float16)
        np.savez(given.out, **stored, nothing=nothing)
    return 0


if __name__ == "__main__":
    sys.exit(main())
