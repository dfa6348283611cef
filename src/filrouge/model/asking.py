"""What is asked of a language model, and what it answers.

Whoever thinks yields an `Ask` and is sent a `Completion`; who carries it, and whether over a socket or a process, is
not its concern. The answer is text, exactly as the model gave it: reading it is the asker's work, because every model
breaks JSON in its own way, and what cannot be read is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

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
