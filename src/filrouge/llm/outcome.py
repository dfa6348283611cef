"""How an attempt ends: an answer with what it cost, or one `Failure` in a `ModelUnavailable`.

What a server or a command line says is in no message, because either may repeat a key or the text it was given; the
causes are Filrouge's own words. For the same reason a failure is raised outside the handler of the foreign error: an
exception's context is printed with it. Here too is what an answer may be: text, not empty, a megabyte at the most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from filrouge.errors import ModelUnavailable
from filrouge.model.asking import Ask, Completion, Failure, Usage

#: Characters of an answer; the longest that is ever useful is a hundredth of it.
MOST_TEXT: Final = 1_000_000
#: Bytes of a reply: the longest answer in JSON, with room for its escapes.
MOST_REPLY: Final = 2_000_000
_CHARACTERS_A_TOKEN: Final = 4
_MOST_TOKENS: Final = 1_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Who:
    """One model, as it is named to people (`label`) and in a ledger."""

    provider: str
    model: str
    label: str
    decides: bool = True

    def __str__(self) -> str:
        return f"{self.label} ({self.model})" if self.model else self.label

    def failure(
        self, kind: str, detail: str, *, retry_after: float | None = None, usage: Usage | None = None
    ) -> ModelUnavailable:
        """The error of one attempt; `detail` is a sentence without its subject, `usage` what it cost all the same."""
        told = f"{self} {detail}."
        return ModelUnavailable(
            told,
            failures=(
                Failure(provider=self.provider, model=self.model, kind=kind, detail=told, retry_after=retry_after),
            ),
            spent={(self.provider, self.model): usage or Usage(calls=1)},
        )

    def completion(self, text: str, usage: Usage) -> Completion:
        """The answer, if it is one.

        Raises:
            ModelUnavailable: it is empty or too long; with what it cost.
        """
        if len(text) > MOST_TEXT:
            raise self.failure("too_long", f"answered with more than {MOST_TEXT} characters", usage=usage)
        if not text.strip():
            raise self.failure("empty", "answered with nothing", usage=usage)
        spent = {(self.provider, self.model): usage}
        return Completion(text=text, provider=self.provider, model=self.model, spent=spent, decides=self.decides)


def usage_of(
    ask: Ask, answer: str, *, input_tokens: int | None, output_tokens: int | None, dollars: float | None
) -> Usage:
    """What one call cost: as counted; estimated where a count is missing though there is an answer."""
    read, wrote = _count(input_tokens), _count(output_tokens)
    estimated = bool(answer) and not (read and wrote)
    if estimated:
        read = read or _tokens(ask.prompt.text + ask.text)
        wrote = wrote or _tokens(answer)
    return Usage(calls=1, input_tokens=read, output_tokens=wrote, estimated=estimated, dollars=dollars)


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_A_TOKEN)


def _count(given: object) -> int:
    """A number of tokens; some providers say 0 for everything, or nothing, or nonsense."""
    return given if isinstance(given, int) and 0 < given < _MOST_TOKENS else 0
