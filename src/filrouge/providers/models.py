"""Embedding spaces with their calibration, and what is asked of a language model and answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

# Embedding spaces: which vectors may be compared, and how their cosines are read.

Anchor = tuple[float, float]
"""A cosine, and what it means on the calibrated scale."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """How the cosines of a space are read: straight lines between anchors, level before the first and after the last.

    0 is the median of unrelated pairs and 1 is the same text, in every space. Of the bundled model, the line between
    the two is straight: `max(0, (cos - m0) / (1 - m0))`; other spaces have anchors between, where theirs is not.

    Attributes:
        texts: anchors for two texts, rising.
        questions: anchors for a question and a text; models that treat the two differently place them further apart.
        origin: shipped with the model, measured on the bundled sample, or on the user's own turns.
        pairs: how many pairs it was measured on.
    """

    texts: tuple[Anchor, ...]
    questions: tuple[Anchor, ...]
    origin: Literal["shipped", "sample", "turns"]
    pairs: int

    @classmethod
    def shipped(cls, *, median: float, question_median: float, pairs: int) -> Calibration:
        """That of a model whose medians of unrelated pairs are known."""
        return cls(
            texts=((median, 0.0), (1.0, 1.0)),
            questions=((question_median, 0.0), (1.0, 1.0)),
            origin="shipped",
            pairs=pairs,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingSpace:
    """Which vectors may be compared with which.

    Attributes:
        id: names model, revision, dimension, pooling and prefix; vectors of two ids are never compared.
        calibration: None until it has been measured; cosines then count as they are.
    """

    id: str
    model: str
    revision: str
    dimension: int
    pooling: str
    prefix: str
    calibration: Calibration | None = None

    @property
    def is_measured(self) -> bool:
        """True where it was measured what the cosines mean, so that a similarity of nought says something."""
        return self.calibration is not None and self.calibration.pairs > 0

    def calibrated(self, cosine: float) -> float:
        """The similarity of two texts: 0 = unrelated, 1 = same text, the same in every space."""
        return _read(cosine, self.calibration.texts if self.calibration else _AS_IT_IS)

    def calibrated_to_question(self, cosine: float) -> float:
        """The same of a question and a text."""
        return _read(cosine, self.calibration.questions if self.calibration else _AS_IT_IS)


_AS_IT_IS: tuple[Anchor, ...] = ((0.0, 0.0), (1.0, 1.0))


def _read(cosine: float, anchors: tuple[Anchor, ...]) -> float:
    cosines, values = zip(*anchors, strict=True)
    return float(np.interp(cosine, cosines, values))


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingUsage:
    """What embedding cost: of one request, or the sum of many (`+`).

    Attributes:
        texts: how many were sent; a long text counts once for each of its parts.
        tokens: as the provider counted them.
        estimated: True where some requests were not counted by the provider; a token is then four bytes of text.
        dollars: None where the price of some of it is not known.
    """

    requests: int = 0
    texts: int = 0
    tokens: int = 0
    estimated: bool = False
    dollars: float | None = 0.0

    def __add__(self, other: EmbeddingUsage) -> EmbeddingUsage:
        known = self.dollars is not None and other.dollars is not None
        return EmbeddingUsage(
            requests=self.requests + other.requests,
            texts=self.texts + other.texts,
            tokens=self.tokens + other.tokens,
            estimated=self.estimated or other.estimated,
            dollars=(self.dollars or 0.0) + (other.dollars or 0.0) if known else None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Nearest:
    """One answer of a vector index: an owner and its cosine, the best over the owner's windows."""

    owner_id: str
    cosine: float


# What is asked of a language model, and what it answers.
#
# Whoever thinks yields an `Ask` and is sent a `Completion`; who carries it, and whether over a socket or a process,
# is not its concern. The answer is text, exactly as the model gave it: reading it is the asker's work, because every
# model breaks JSON in its own way, and what cannot be read is kept.

Operation = Literal["extract", "decide", "support", "inform", "thread", "title", "synthesise"]
"""What a model is asked for: read turns, decide on facts, judge evidence, weigh a tool's output, say whether a turn
belongs to a thread, name and sum up a thread, sum up where the work stands."""

OPERATIONS: tuple[Operation, ...] = get_args(Operation)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """Instructions in one language.

    Attributes:
        version: name, language and the first 12 hexadecimal digits of the text's SHA-256: `extract/en/0123456789ab`.
    """

    text: str
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """One question to a model.

    Attributes:
        prompt: the instructions; they never hold text from a conversation.
        text: what they are about, quoted data.
        schema: the JSON schema of the answer, an object.
        most_tokens: of the answer.
        seconds: an answer is of use for so long, whoever gives it; None = for as long as each model may take.
    """

    operation: Operation
    prompt: Prompt
    text: str
    schema: Mapping[str, Any]
    most_tokens: int = 1024
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What calls cost, of one or summed (`+`).

    Attributes:
        estimated: True where the provider did not count some of the tokens; a token is then four characters.
        dollars: None where the price of some of it is not known.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    dollars: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        known = self.dollars is not None and other.dollars is not None
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            estimated=self.estimated or other.estimated,
            dollars=(self.dollars or 0.0) + (other.dollars or 0.0) if known else None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """An answer.

    Attributes:
        text: as the model said it.
        provider, model: who answered.
        spent: by every model that was tried for it, by (provider, model).
        decides: whether this model is trusted with decisions about what is known.
    """

    text: str
    provider: str
    model: str
    spent: Mapping[tuple[str, str], Usage]
    decides: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why one model did not answer.

    Attributes:
        kind: timeout | late (the question left no more time, which says nothing of the model) | connection |
            rate_limit | server | refused | configuration | too_long | empty | open (its circuit breaker lets nothing
            through) | other.
        detail: one line; no key and no text of a conversation is in it.
        retry_after: seconds that the provider asks to wait, if it says.
    """

    provider: str
    model: str
    kind: str
    detail: str
    retry_after: float | None = None
