"""Cache of whitening transforms, one per embedding space and user, computed from stored vectors.

A transform is fitted to the user's newest prompts and the bundled sample. It is recomputed when the number of prompts
has grown by 40 %, and after every erasure, so that it holds nothing of erased content. The sample is embedded once per
space and process, in the background, when the first prompt with a vector is placed. Until there is a transform, only
words are compared.

The cache also holds the vectors of prompts with their replies, least recently used first out.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Final

import numpy as np

from filrouge.core.protocols import Tx, Vector, Vectors
from filrouge.providers.calibration import bundled
from filrouge.search.vector_repository import StoredVectors
from filrouge.search.vector_search import VectorSearch
from filrouge.threads.assignment import MAX_VECTORS, Whitening

_LOG = logging.getLogger(__name__)

#: Recompute when the number of prompts has grown by this factor, but not before there are this many.
_GROWN, _EARLIEST = 1.4, 32
#: Maximum number of cached vectors of prompts with their replies: 6 MB.
_KEPT: Final = 4096
Pair = tuple[str, str]
#: Vectors of the bundled sample, by space; shared by all stores of the process.
_SAMPLES: Final[dict[str, Vectors]] = {}


@dataclass(slots=True)
class _Held:
    """A transform, the number of prompts it was fitted to, whether it uses the sample, and prompts added since."""

    ground: Whitening | None
    of: int
    has_sample: bool
    since: int = 0

    @property
    def is_due(self) -> bool:
        return self.of + self.since >= max(_EARLIEST, _GROWN * self.of)


class WhiteningCache:
    """Whitening transforms of one running Filrouge. Thread-safe."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], _Held] = {}
        self._wholes: OrderedDict[tuple[str, Pair], Vector] = OrderedDict()
        self._erasures = 0
        self._lock = Lock()

    def learn(self, meaning: VectorSearch) -> None:
        """Embed the bundled sample if needed; it takes a second or two, so call it outside any transaction."""
        space_id = meaning.space.id
        if space_id in _SAMPLES or meaning.is_lost:
            return
        texts = [text for one in bundled() for text in (one.text, one.same, one.question) if text]
        vectors = meaning.passages(texts)
        if vectors is None:
            return  # the next prompts try again
        _LOG.info("%d texts of the sample are embedded in %s", len(texts), space_id)
        _SAMPLES[space_id] = vectors

    def of(self, tx: Tx, meaning: VectorSearch, user: str, come: int = 0) -> Whitening | None:
        """Return the transform for a user's prompts in a space; None while there is too little data.

        Args:
            come: number of prompts with a vector that are about to be placed.
        """
        key = meaning.space.id, user
        with self._lock:
            held, erasures = self._held.get(key), self._erasures
        sample = _SAMPLES.get(meaning.space.id)
        if held is not None and held.has_sample == (sample is not None):
            held.since += come
            if not held.is_due:
                return held.ground
        prompts = StoredVectors(tx).prompts(meaning.space.id, user, MAX_VECTORS)
        there = [vectors for vectors in (sample, prompts) if vectors is not None and len(vectors)]
        ground = Whitening.of(np.concatenate(there)) if there else None
        made = _Held(ground, len(prompts), has_sample=sample is not None)
        with self._lock:
            if erasures == self._erasures:  # otherwise it may contain erased content
                self._held[key] = made
        return made.ground

    def wholes(self, meaning: VectorSearch, texts: Mapping[Pair, str]) -> dict[Pair, Vector]:
        """Return the vectors of prompts with their replies; missing ones are left out if the embedder is down.

        Args:
            texts: by the ids of prompt and replies.
        """
        space = meaning.space.id
        with self._lock:
            erasures = self._erasures
            found = {pair: self._wholes[space, pair] for pair in texts if (space, pair) in self._wholes}
        lacking = [pair for pair in texts if pair not in found]
        vectors = meaning.passages([texts[pair] for pair in lacking]) if lacking and not meaning.is_lost else None
        if vectors is not None:
            found |= zip(lacking, vectors, strict=True)
        with self._lock:
            if erasures == self._erasures:
                for pair, vector in found.items():
                    self._wholes[space, pair] = vector
                    self._wholes.move_to_end((space, pair))
                while len(self._wholes) > _KEPT:
                    self._wholes.popitem(last=False)
        return found

    def forget(self) -> None:
        """Drop everything computed from prompts; call it when prompts are erased."""
        with self._lock:
            self._held.clear()
            self._wholes.clear()
            self._erasures += 1
