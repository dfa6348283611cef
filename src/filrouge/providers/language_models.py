"""Language models: their options, their registry, how a request ends, and several models tried in order.

A model is found by the name of its provider through the entry points `filrouge.models`.
"""

from __future__ import annotations

import asyncio
import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Literal

from filrouge.core import installation
from filrouge.core.clock import monotonic
from filrouge.core.errors import BadConfig, ModelUnavailable
from filrouge.core.network import CircuitBreaker, checked_address, is_loopback
from filrouge.core.protocols import LanguageModel
from filrouge.providers.models import Ask, Completion, Failure, Usage

# What a language model is to be: whose, which, where, and how long it may take.
#
# The environment comes in as a value, and only the provider that was chosen looks for its key there, so a key that
# happens to be set never switches on spending.

Mode = Literal["light", "normal", "heavy", "max"]
#: The size of the provider's model in each mode.
SIZE_OF: Final[Mapping[Mode, str]] = {"light": "small", "normal": "small", "heavy": "large", "max": "large"}
#: Seconds for one answer. A model at home is slower than one in a data centre.
SECONDS: Final[Mapping[str, float]] = {"ollama": 60.0}
_SECONDS: Final = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class BySize:
    """A provider's models by size. Only names: what a provider offers is its own affair, and changes."""

    small: str
    medium: str
    large: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelOptions:
    """How a model is to be made.

    Attributes:
        provider: anthropic, openai, ollama, claude_cli, codex_cli, or another registered name.
        model: the name the provider knows it by, or small, medium, large; empty = by `mode`.
        mode: light and normal take the provider's small model, heavy and max its large one.
        url: address of the server; empty = the provider's own. Says nothing to the command lines.
        seconds: the longest an answer may take; 0 = 60 for Ollama, 30 for the others.
        cli_path: of `claude` or `codex`, absolute; empty = the first on the environment's PATH.
        decides: whether this model is trusted with decisions about what is known; None = all but Ollama's.
        environ: the environment, for keys, addresses and child processes; never shown.
    """

    provider: str
    model: str = ""
    mode: Mode = "normal"
    url: str = ""
    seconds: float = 0.0
    cli_path: str = ""
    decides: bool | None = None
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def limit(self) -> float:
        """The seconds that hold."""
        return self.seconds or SECONDS.get(self.provider, _SECONDS)

    def model_of(self, sizes: BySize) -> str:
        """The model's name at the provider."""
        named = self.model.strip()
        match named.lower() or SIZE_OF[self.mode]:
            case "small":
                return sizes.small
            case "medium":
                return sizes.medium
            case "large":
                return sizes.large
            case _:
                return named

    def address(self, default: str, variable: str = "") -> str:
        """The server's address without a trailing slash: the option, else that variable, else the default.

        Raises:
            BadConfig: it is no address.
        """
        if self.url.strip():
            return checked_address(self.url, setting="llm_url")
        given = self.environ.get(variable, "").strip() if variable else ""
        return checked_address(given, setting=variable) if given else default

    def key(self, variable: str, *, who: str, address: str, needed: bool) -> str:
        """The API key; nothing where it would go unencrypted to another machine.

        Raises:
            BadConfig: it is needed and not set, or holds what cannot be in a key, such as the end of a line.
        """
        found = self.environ.get(variable, "").strip()
        if not found and needed:
            raise BadConfig(
                f"{who} needs a key, and {variable} is not set.",
                remedy=f"Set {variable} in the daemon's environment, or choose another provider.",
            )
        if not all("!" <= character <= "~" for character in found):
            raise BadConfig(f"{variable} holds characters that no key has.", remedy=f"Set {variable} again.")
        return found if is_loopback(address) or address.startswith("https:") else ""


# How an attempt ends: an answer with what it cost, or one `Failure` in a `ModelUnavailable`.
#
# What a server or a command line says is in no message, because either may repeat a key or the text it was given; the
# causes are Filrouge's own words. For the same reason a failure is raised outside the handler of the foreign error:
# an exception's context is printed with it. Here too is what an answer may be: text, not empty, a megabyte at the
# most.

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


# What tokens cost, before they are spent: list prices by genai-prices, and nothing for what runs at home.

#: Whose list a provider's prices stand in. Command lines are paid by subscription, or tell what it was afterwards.
_LISTED: Final = {"anthropic": "anthropic", "openai": "openai"}
_FREE: Final = frozenset({"ollama"})


def dollars(provider: str, model: str, input_tokens: int, output_tokens: int) -> float | None:
    """The list price of so many tokens, None where it is not known."""
    if provider in _FREE:
        return 0.0
    if provider not in _LISTED:
        return None
    from genai_prices import Usage, calc_price

    try:
        used = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        return float(calc_price(used, model, provider_id=_LISTED[provider]).total_price)
    except LookupError:
        return None


# Several models in order: the first that answers is the answer, and each has a limit in real time.
#
# A server that sends one byte a second cannot move the limit, because it cancels what waits. A model that fails five
# times in a row is left alone for a minute, one that asks for a pause is given it; a model that refuses, says nothing
# or too much answers badly but is alive, so the next one is asked and nothing is held against it. A question's own
# limit, where it has one, is for all of them together, and nobody is blamed for it. What every attempt cost is
# summed, also where none succeeds.

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
            _count_failure(breaker, found.failures[-1])
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


def _count_failure(breaker: CircuitBreaker, failure: Failure) -> None:
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


# Models by the name of their provider, found through the entry points that a stranger's provider would use.
#
# An entry point is a function from `ModelOptions` to a `LanguageModel`. What is built here is always a cascade, of
# one model or of several, so that every model has its limit in time and its circuit breaker. A provider's packages
# are loaded when it is chosen, and not before.

GROUP: Final = "filrouge.models"
#: Which extra brings a package.
_EXTRAS: Final = {"anthropic": "llm", "httpx2": "llm", "openai": "llm", "pydantic_ai": "llm", "genai_prices": "llm"}


def model(options: ModelOptions) -> Cascade:
    """The model of these options, with its limit and its breaker.

    Raises:
        BadConfig: there is no such provider (names the nearest), its package is missing, or its options do not fit.
    """
    return cascade([options])


def cascade(options: Sequence[ModelOptions], rest_seconds: float = REST_SECONDS) -> Cascade:
    """Several models, to be asked in this order; one that fails again and again is left alone for so long.

    Raises:
        BadConfig: one of them cannot be made, with the reason.
    """
    known = [replace(one, provider=one.provider.strip().lower().replace("-", "_")) for one in options]
    return Cascade([Step(model=_built(one), seconds=one.limit) for one in known], rest_seconds=rest_seconds)


def providers() -> list[str]:
    """Every registered provider."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def _built(options: ModelOptions) -> LanguageModel:
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if options.provider not in found:
        near = difflib.get_close_matches(options.provider, found, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise BadConfig(
            f"There is no provider {options.provider!r}.{hint} There are: {', '.join(sorted(found))}.",
            remedy="Set `extract_provider` to one of them, or to nothing for understanding without a model.",
        )
    return _loaded(found[options.provider])(options)


def _loaded(entry: EntryPoint) -> Callable[[ModelOptions], LanguageModel]:
    try:
        return entry.load()
    except ImportError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        command = installation.add_extra(extra) if extra else installation.add(error.name or entry.value)
        raise BadConfig(
            f"The provider {entry.name!r} needs a package that is not installed.",
            remedy=f"Install it: `{command}`.",
        ) from error
