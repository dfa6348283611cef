"""What the product would gather for a question, without a store: for fitting, where thousands of questions are asked.

A haystack holds the turns of one store with their tokens and vectors. `gathered` takes the pool that
`search.service` takes (the best by words, the best by meaning, their neighbours) and measures it with the product's
own functions.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha1
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from recall import Said, Store

from filrouge.capture.models import Turn
from filrouge.core.protocols import Vector, Vectors
from filrouge.core.scope import Scope
from filrouge.providers.embedders import create_embedder, windows
from filrouge.providers.models import EmbeddingSpace
from filrouge.search.analyser import TextAnalyser
from filrouge.search.models import FEATURE_NAMES
from filrouge.search.ranking import (
    MAX_KNOWN_RESULTS,
    Bridging,
    RelevanceFeatures,
    TurnFeatures,
    TurnQuestion,
    TurnTable,
    WeightedQuestion,
    parse_times,
    softmax,
    turn_features,
)

#: FTS5's built-in values.
K1, B = 1.2, 0.75
POOL: Final = 50
_REACH: Final = 3
_ANALYSER: Final = TextAnalyser()
_BRIDGING: Final = Bridging(_ANALYSER.terms)


class Embedded:
    """Vectors of texts, kept in a file, since embedding a set takes minutes."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        self._kept: dict[bytes, NDArray[np.float16]] = pickle.loads(path.read_bytes()) if path.exists() else {}
        self._engine: Any = None

    @property
    def space(self) -> EmbeddingSpace:
        self._engine = self._engine or create_embedder(self._name)
        return self._engine.space

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        """The windows of each text."""
        missing = list({_key(text): text for text in texts if _key(text) not in self._kept}.items())
        for start in range(0, len(missing), 1024):
            part = missing[start : start + 1024]
            pieces = [windows(text) for _, text in part]
            flat = [piece for one in pieces for piece in one]
            _ = self.space
            made = np.concatenate([self._engine.passages(flat[at : at + 256]) for at in range(0, len(flat), 256)])
            at = 0
            for (key, _), one in zip(part, pieces, strict=True):
                self._kept[key] = made[at : at + len(one)].astype(np.float16)
                at += len(one)
            self._path.write_bytes(pickle.dumps(self._kept))
        return [self._kept[_key(text)].astype(np.float32) for text in texts]

    def query(self, text: str) -> Vector:
        key = _key("Q:" + text)
        if key not in self._kept:
            _ = self.space
            self._kept[key] = self._engine.query(text).astype(np.float16)[None]
        return self._kept[key][0].astype(np.float32)


def _key(text: str) -> bytes:
    return sha1(text.encode()).digest()[:12]


@dataclass(frozen=True, kw_only=True, slots=True)
class Gathered:
    """One question in one haystack: its candidates, measured.

    Attributes:
        own: the answer is in this haystack; else the question is a stranger's.
        gold: which candidates are evidence; `wanted` of them there are in the haystack.
    """

    qid: str
    own: bool
    ids: list[str]
    sessions: list[str]
    gold: NDArray[np.bool_]
    wanted: int
    features: NDArray[np.float32]
    nearest: NDArray[np.float32]
    around: NDArray[np.float32]
    wide: NDArray[np.float32]
    tokens: list[frozenset[str]]
    questioned: WeightedQuestion

    def signs(self, weights: NDArray[np.float64], space: EmbeddingSpace) -> tuple[list[int], list[RelevanceFeatures]]:
        """The first results by these weights, and what speaks for each."""
        scores = self.features @ weights
        first = [int(place) for place in np.argsort(-scores, kind="stable")[:MAX_KNOWN_RESULTS]]
        parts = softmax([float(score) for score in scores])
        column = {name: at for at, name in enumerate(FEATURE_NAMES)}
        found: list[RelevanceFeatures] = []
        for place in first:
            words = self.questioned.matched(self.tokens[place])
            row = self.features[place]
            found.append(
                RelevanceFeatures(
                    similarity=space.calibrated_to_question(float(self.nearest[place])),
                    around=space.calibrated_to_question(float(self.around[place])),
                    wide=space.calibrated_to_question(float(self.wide[place])),
                    covered=self.questioned.covered(words),
                    telling=self.questioned.is_telling(words),
                    share=parts[place],
                    words=len(self.questioned),
                    time=float(row[column["time"]]),
                    speaker=float(row[column["speaker"]]),
                    dated=float(row[column["dated"]]),
                    asks=float(row[column["asks"]]),
                )
            )
        return first, found

    def words_found(self, first: Sequence[int]) -> float:
        """The share of the question's words in these results."""
        words = {word: None for place in first for word in self.questioned.matched(self.tokens[place])}
        return self.questioned.covered(list(words))


class Haystack:
    """The turns of one store."""

    def __init__(self, said: Sequence[Said], vectors: Embedded, *, are_memories: bool = False) -> None:
        self._are_memories = are_memories
        self._turns = [_turn(one) for one in said]
        self._sessions = [one.session for one in said]
        counts = [Counter(_ANALYSER.tokens(one.text).split()) for one in said]
        self._tokens = [frozenset(one) for one in counts]
        self._windows = vectors.passages([one.text for one in said])
        self._means = np.stack([one.mean(axis=0) for one in self._windows])
        self._all = np.concatenate(self._windows)
        self._starts = np.cumsum([0, *(len(one) for one in self._windows[:-1])])
        self._vectors = vectors
        self._frequencies = Counter(token for one in counts for token in one)
        lengths = np.array([sum(one.values()) for one in counts], dtype=np.float64)
        self._norms = K1 * (1 - B + B * lengths / lengths.mean())
        postings: dict[str, list[tuple[int, int]]] = {}
        for place, one in enumerate(counts):
            for token, often in one.items():
                postings.setdefault(token, []).append((place, often))
        self._postings = {
            token: (np.array([p for p, _ in found]), np.array([n for _, n in found]))
            for token, found in postings.items()
        }

    def gathered(self, qid: str, asked: str, at: datetime, gold: set[str] | None) -> Gathered:
        """Ask a question; `gold` is None for a stranger's."""
        vector = self._vectors.query(asked)
        meant = _BRIDGING.words(asked)
        words = self._bm25(meant.searched if self._are_memories else meant.own_words)
        nearest = np.maximum.reduceat(self._all @ vector, self._starts)
        pool = {int(p) for p in np.argsort(-words, kind="stable")[:POOL] if words[p] > 0}
        pool |= {int(p) for p in np.argsort(-nearest, kind="stable")[:POOL]}
        candidates = pool | {p for one in pool for p in (one - 1, one + 1) if self._together(one, p)}
        near = {p for one in candidates for p in range(one - _REACH, one + _REACH + 1) if self._together(one, p)}
        shown = sorted(candidates | near)
        places = {place: at for at, place in enumerate(shown)}
        spoken = TurnTable(
            candidates=np.array([place in candidates for place in shown], dtype=bool),
            texts=[self._turns[place].text for place in shown],
            days=[self._turns[place].at.date() for place in shown],
            sessions=[self._sessions[place] for place in shown],
            replies=np.array([self._turns[place].role == "assistant" for place in shown], dtype=bool),
            words=words[shown].astype(np.float32),
            vectors=self._means[shown],
            nearest=nearest[shown],
            previous=np.array(
                [places.get(place - 1, -1) if self._together(place, place - 1) else -1 for place in shown]
            ),
        )
        found: TurnFeatures = turn_features(
            TurnQuestion(text=asked, vector=vector, times=parse_times(asked, at.date())), spoken
        )
        kept = [at for at, place in enumerate(shown) if place in candidates]
        own = [shown[at] for at in kept]
        forms = {form: self._frequencies.get(form, 0) for term in meant.meant for form in term}
        return Gathered(
            qid=qid,
            own=gold is not None,
            ids=[self._turns[place].key for place in own],
            sessions=[self._sessions[place] for place in own],
            gold=np.array([self._turns[place].key in (gold or ()) for place in own], dtype=bool),
            wanted=len(gold or ()),
            features=found.features[kept],
            nearest=nearest[own],
            around=found.around[kept],
            wide=found.wide[kept],
            tokens=[self._tokens[place] for place in own],
            questioned=WeightedQuestion(meant.meant, forms, len(self._turns)),
        )

    def _together(self, one: int, other: int) -> bool:
        return 0 <= other < len(self._turns) and self._sessions[one] == self._sessions[other]

    def _bm25(self, searched: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        times: dict[str, int] = {}
        for forms in searched:
            for form in forms:
                times[form] = max(times.get(form, 0), 2 if len(forms) == 1 else 1)
        scores = np.zeros(len(self._turns))
        for form, weight in times.items():
            if form in self._postings:
                where, often = self._postings[form]
                rare = np.log1p((len(self._turns) - len(where) + 0.5) / (len(where) + 0.5))
                scores[where] += weight * rare * often * (K1 + 1) / (often + self._norms[where])
        return scores


def haystack_of(store: Store, vectors: Embedded) -> Haystack:
    return Haystack(store.said, vectors)


def _turn(one: Said) -> Turn:
    return Turn(
        id=one.id,
        key=one.id,
        scope=Scope(user="local", session=one.session),
        host="bench",
        role="assistant" if one.kind == "reply" else "user",
        source="reply" if one.kind == "reply" else "prompt",
        text=one.text,
        at=one.at,
        trust=2,
    )
