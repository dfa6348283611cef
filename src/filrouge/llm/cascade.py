"""Several models in order: the first that answers is the answer, and each has a limit in real time.

A server that sends one byte a second cannot move the limit, because it cancels what waits. A model that fails five
times in a row is left alone for a minute, one that asks for a pause is given it; a model that refuses, says nothing or
too much answers badly but is alive, so the next one is asked and nothing is held against it. A question's own limit,
where it has one, is for all of them together, and nobody is blamed for it. What every attempt cost is summed, also
where none succeeds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from filrouge.breaker import CircuitBreaker
from filrouge.clock import monotonic
from filrouge.errors import ModelUnavailable
from filrouge.model.asking import Ask, Completion, Failure, Usage
from filrouge.ports import LanguageModel

FAILURES: Final = 5
REST_SECONDS: Final = 60.0
CHECK_SECONDS: Final = 5.0
#: A pause that a server asks for is believed up to here; after it one attempt costs little.
_LONGEST_PAUSE: Final = 900.0
_ALIVE: Final = frozenset({"refused", "empty", "too_long"})

Spending = dict[tuple[str, str], Usage]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A model and how many seconds it may take for an answer."""

    model: LanguageModel
    seconds: float


class Cascade:
    """Implements `LanguageModel` over others. Safe for several questions at once on one event loop."""

    def __init__(
        self, steps: Sequence[Step], *, rest_seconds: float = REST_SECONDS, now: Callable[[], float] = monotonic
    ) -> None:
        if not steps:
            raise ValueError("a cascade needs a model")
        self._now = now
        self._steps = [(step, CircuitBreaker(rest_seconds, now, failures=FAILURES)) for step in steps]

    def __repr__(self) -> str:
        return f"<cascade of {', '.join(repr(step.model) for step, _ in self._steps)}>"

    @property
    def provider(self) -> str:
        """The first model's provider."""
        return self._steps[0][0].model.provider

    @property
    def model(self) -> str:
        """The first model's name."""
        return self._steps[0][0].model.model

    @property
    def models(self) -> tuple[LanguageModel, ...]:
        """Everybody who may be asked, in order."""
        return tuple(step.model for step, _ in self._steps)

    async def complete(self, ask: Ask) -> Completion:
        """The first answer.

        Raises:
            ModelUnavailable: none came; with why each did not, and what all cost.
        """
        ask = replace(ask, text=_sendable(ask.text))
        failures: list[Failure] = []
        spent: Spending = {}
        begun = self._now()
        for step, breaker in self._steps:
            left = math.inf if ask.seconds is None else ask.seconds - (self._now() - begun)
            if left <= 0.0:
                break
            if rest := breaker.enter():
                failures.append(_failure(step.model, "open", str(rest), rest.seconds))
                continue
            found = await _attempt(step, ask, left)
            for who, usage in found.spent.items():
                spent[who] = spent.get(who, Usage()) + usage
            if isinstance(found, Completion):
                breaker.succeeded()
                return replace(found, spent=spent)
            failures += found.failures
            _count(breaker, found.failures[-1])
        raise _none(failures, spent)

    async def check(self) -> None:
        """Ask, for no token, whether one of them would answer now; the first that would ends its rest.

        Raises:
            ModelUnavailable: none would; with why.
        """
        failures: list[Failure] = []
        for step, breaker in self._steps:
            found = await _checked(step.model)
            if not found:
                breaker.succeeded()
                return
            failures += found
        raise _none(failures, {})

    async def close(self) -> None:
        """Close them all."""
        for step, _ in self._steps:
            await step.model.close()


async def _attempt(step: Step, ask: Ask, left: float) -> Completion | ModelUnavailable:
    """One model's answer or failure, within its seconds and those that are left to the question."""
    model, seconds = step.model, min(step.seconds, left)
    try:
        async with asyncio.timeout(seconds):
            return await model.complete(ask)
    except ModelUnavailable as error:
        if error.failures:
            return error
        told = _failure(model, "other", error.message)
    except TimeoutError:
        kind = "late" if left < step.seconds else "timeout"
        told = _failure(model, kind, f"{_name(model)} did not answer within {seconds:g} s.")
    except Exception as error:  # anybody's model may stand here; its error's words may repeat the text
        told = _failure(model, "other", f"{_name(model)} failed with {type(error).__name__}.")
    lost = Usage(calls=1, estimated=told.kind in ("timeout", "late"))
    return ModelUnavailable(told.detail, failures=(told,), spent={(model.provider, model.model): lost})


async def _checked(model: LanguageModel) -> Sequence[Failure]:
    """Why a model would not answer; nothing where it would."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await model.check()
    except ModelUnavailable as error:
        return error.failures or (_failure(model, "other", error.message),)
    except TimeoutError:
        return (_failure(model, "timeout", f"{_name(model)} did not answer within {CHECK_SECONDS:g} s."),)
    except Exception as error:  # as above
        return (_failure(model, "other", f"{_name(model)} failed with {type(error).__name__}."),)
    return ()


def _sendable(text: str) -> str:
    """Without what no wire carries: halves of characters, and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def _count(breaker: CircuitBreaker, failure: Failure) -> None:
    if failure.kind in _ALIVE:
        breaker.succeeded()
    elif failure.kind != "late":
        breaker.failed(failure.detail, min(failure.retry_after, _LONGEST_PAUSE) if failure.retry_after else None)


def _none(failures: Sequence[Failure], spent: Spending) -> ModelUnavailable:
    """The error of them all. Made outside every handler, so that no foreign error is its context."""
    told = " ".join(failure.detail for failure in failures)
    return ModelUnavailable(told, failures=tuple(failures), spent=spent)


def _failure(model: LanguageModel, kind: str, detail: str, retry_after: float | None = None) -> Failure:
    return Failure(provider=model.provider, model=model.model, kind=kind, detail=detail, retry_after=retry_after)


def _name(model: LanguageModel) -> str:
    return f"{model.provider} ({model.model})" if model.model else model.provider
