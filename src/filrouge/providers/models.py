"""Values: embedding spaces with calibration, and requests and answers of language models."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Literal, get_args

from msgspec import Struct

Anchor = tuple[float, float]
"""A cosine, and what it means on the calibrated scale."""


class Calibration(Struct, frozen=True, kw_only=True):
    """Maps the cosines of a space to a common scale, by linear interpolation between anchors.

    0 is the median of unrelated pairs and 1 is the same text, in every space. Cosines outside the anchors get the value
    of the nearest anchor. For the bundled model the mapping is a straight line, `max(0, (cos - m0) / (1 - m0))`; other
    spaces have further anchors in between.

    Attributes:
        texts: anchors for two texts, ascending.
        questions: anchors for a question and a text; they differ for models that treat the two differently.
        origin: shipped with the model, measured on the bundled sample, or on the user's own turns.
        pairs: the number of pairs it was measured on.
    """

    texts: tuple[Anchor, ...]
    questions: tuple[Anchor, ...]
    origin: Literal["shipped", "sample", "turns"]
    pairs: int

    @classmethod
    def shipped(cls, *, median: float, question_median: float, pairs: int) -> Calibration:
        """Return the calibration of a model with known medians of unrelated pairs."""
        return cls(
            texts=((median, 0.0), (1.0, 1.0)),
            questions=((question_median, 0.0), (1.0, 1.0)),
            origin="shipped",
            pairs=pairs,
        )


class EmbeddingSpace(Struct, frozen=True, kw_only=True):
    """An embedding space: vectors are comparable only within one space.

    Attributes:
        id: names model, revision, dimension, pooling and prefix; vectors with different ids are never compared.
        model: the model's name.
        revision: the version of its weights.
        dimension: length of the vectors.
        pooling: how a vector is made from the tokens of a text, such as `mean`.
        prefix: the name of the prefixes before questions and texts.
        calibration: None until it is measured; cosines are then used unchanged.
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
        """True if the calibration was measured, so that a similarity of 0 is meaningful."""
        return self.calibration is not None and self.calibration.pairs > 0

    def calibrated(self, cosine: float) -> float:
        """Return the similarity of two texts: 0 = unrelated, 1 = same text, comparable across spaces."""
        return _interpolate(cosine, self.calibration.texts if self.calibration else _IDENTITY_ANCHORS)

    def calibrated_to_question(self, cosine: float) -> float:
        """Return the similarity of a question and a text, on the same scale."""
        return _interpolate(cosine, self.calibration.questions if self.calibration else _IDENTITY_ANCHORS)


_IDENTITY_ANCHORS: tuple[Anchor, ...] = ((0.0, 0.0), (1.0, 1.0))


def _interpolate(cosine: float, anchors: tuple[Anchor, ...]) -> float:
    # numpy.interp takes five times as long for a single number.
    after = bisect_right(anchors, cosine, key=itemgetter(0))
    if after in (0, len(anchors)):
        return anchors[max(0, after - 1)][1]
    (left, low), (right, high) = anchors[after - 1], anchors[after]
    return low + (high - low) / (right - left) * (cosine - left)


class EmbeddingUsage(Struct, frozen=True, kw_only=True):
    """The cost of embedding, of one request or summed over several (`+`).

    Attributes:
        texts: number of texts sent; a long text counts once for each of its parts.
        tokens: as counted by the provider.
        estimated: True if the provider did not count some requests; four bytes of text then count as a token.
        dollars: None if the price of a part is unknown.
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


class PassageParts(Struct, frozen=True, kw_only=True):
    """A text behind the one that it answers or continues, and the parts of both whose vectors are wanted.

    Parts are ranges of words, as `str.split` numbers them.

    Attributes:
        before: the end of the text before; may be empty.
        text: the text.
        parts_before: parts of `before`.
        parts: parts of `text`.
    """

    before: str
    text: str
    parts_before: tuple[range, ...]
    parts: tuple[range, ...]


class Nearest(Struct, frozen=True, kw_only=True):
    """One result of a vector index: an owner and its cosine, the best over the owner's windows."""

    owner_id: str
    cosine: float


# Requests to a language model, and its answers. Code that needs a model yields a `CompletionRequest` and is sent a
# `Completion`; it does not know the transport (HTTP or a child process). The answer is the text exactly as the model
# returned it. The caller parses it, because each model breaks JSON differently; unreadable answers are kept.

Operation = Literal["extract", "decide", "support", "inform", "thread", "title", "synthesise"]
"""What a model is asked for: read turns, decide on facts, judge evidence, weigh a tool's output, say whether a turn
belongs to a thread, name and sum up a thread, sum up where the work stands."""

OPERATIONS: tuple[Operation, ...] = get_args(Operation)


class Prompt(Struct, frozen=True, kw_only=True):
    """Instructions in one language.

    Attributes:
        text: the instructions.
        version: name, language and the first 12 hexadecimal digits of the text's SHA-256: `extract/en/0123456789ab`.
    """

    text: str
    version: str


class CompletionRequest(Struct, frozen=True, kw_only=True):
    """One request to a model.

    Attributes:
        prompt: the instructions; they never contain text from a conversation.
        text: the quoted data that the instructions refer to.
        schema: the JSON schema of the answer, an object.
        max_tokens: maximum tokens of the answer.
        seconds: total time limit for all models tried; None = only each model's own limit applies.
    """

    operation: Operation
    prompt: Prompt
    text: str
    schema: Mapping[str, Any]
    max_tokens: int = 1024
    seconds: float | None = None


class Usage(Struct, frozen=True, kw_only=True):
    """The cost of model calls, of one call or summed over several (`+`).

    Attributes:
        estimated: True if the provider did not count some tokens; four characters then count as a token.
        dollars: None if the price of a part is unknown.
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


class Completion(Struct, frozen=True, kw_only=True):
    """An answer from a model.

    Attributes:
        text: as returned by the model.
        provider, model: the model that answered.
        spent: the cost of every model that was tried, by (provider, model).
        decides: whether this model is trusted to decide on extracted facts.
    """

    text: str
    provider: str
    model: str
    spent: Mapping[tuple[str, str], Usage]
    decides: bool = True


class Failure(Struct, frozen=True, kw_only=True):
    """Why one model did not answer.

    Attributes:
        kind: timeout | late (the request's own time limit ended, which is not the model's fault) | connection |
            rate_limit | server | refused | configuration | too_long | empty | open (its circuit breaker is open) |
            other.
        detail: one line, without keys and without text from a conversation.
        retry_after: the pause requested by the provider in seconds, or None.
    """

    provider: str
    model: str
    kind: str
    detail: str
    retry_after: float | None = None
