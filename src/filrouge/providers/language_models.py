"""Language models: options, prompts, registry, results of a request, prices, and a cascade of several models.

A model is found by the name of its provider through the entry points `filrouge.models`.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Literal, TypeVar

from filrouge.core import installation
from filrouge.core.clock import monotonic
from filrouge.core.errors import BadConfig, ModelUnavailable
from filrouge.core.network import CircuitBreaker, checked_address, is_loopback
from filrouge.core.protocols import LanguageModel
from filrouge.providers.models import Completion, CompletionRequest, Failure, Prompt, Usage

T = TypeVar("T")

# Options of a language model: provider, model, address, time limit. The environment is passed as a value, and only the
# chosen provider reads its key there, so a key that happens to be set never causes costs.

Mode = Literal["light", "normal", "heavy", "max"]
#: The size of the provider's model in each mode.
SIZE_OF: Final[Mapping[Mode, str]] = {"light": "small", "normal": "small", "heavy": "large", "max": "large"}
#: Time limit for one answer, in seconds. A local model is slower than a hosted one.
SECONDS: Final[Mapping[str, float]] = {"ollama": 60.0}
_SECONDS: Final = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DefaultModels:
    """A provider's default model names by size. Providers change their models, so these are only names."""

    small: str
    medium: str
    large: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelOptions:
    """How to create a model.

    Attributes:
        provider: anthropic, openai, ollama, claude_cli, codex_cli, or another registered name.
        model: the provider's name for it, or small, medium, large; empty = by `mode`.
        mode: light and normal use the provider's small model, heavy and max its large one.
        url: address of the server; empty = the provider's own. Ignored by the command lines.
        seconds: time limit for an answer; 0 = 60 for Ollama, 30 for the others.
        cli_path: absolute path of `claude` or `codex`; empty = the first one on the environment's PATH.
        decides: whether this model is trusted to decide on extracted facts; None = all except Ollama's.
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
        """The time limit in effect, in seconds."""
        return self.seconds or SECONDS.get(self.provider, _SECONDS)

    def model_of(self, sizes: DefaultModels) -> str:
        """Return the provider's name of the model."""
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

    def identity(self, label: str, sizes: DefaultModels, *, decides: bool = True) -> ModelIdentity:
        """Return the identity of the model; `decides` holds unless the options say otherwise."""
        trusted = decides if self.decides is None else self.decides
        return ModelIdentity(provider=self.provider, model=self.model_of(sizes), label=label, decides=trusted)

    def address(self, default: str, variable: str = "") -> str:
        """Return the server's address without a trailing slash: the option, else that variable, else the default.

        Raises:
            BadConfig: the address is invalid.
        """
        if self.url.strip():
            return checked_address(self.url, setting="llm_url")
        given = self.environ.get(variable, "").strip() if variable else ""
        return checked_address(given, setting=variable) if given else default

    def key(self, variable: str, *, who: str, address: str, needed: bool) -> str:
        """Return the API key; empty if it would be sent unencrypted to another machine.

        Raises:
            BadConfig: it is required and not set, or has characters that a key cannot contain, such as a line break.
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


# The result of an attempt: an answer with its cost, or one `Failure` in a `ModelUnavailable`.
#
# Messages never quote a server or a command line, because either may echo a key or the text; the causes are Filrouge's
# own words. For the same reason an error is raised outside the handler of the foreign exception, because the context of
# an exception is printed with it. An answer must be text, not empty, and at most a megabyte.

#: Maximum characters of an answer; the longest useful one has a hundredth of that.
MAX_ANSWER_CHARACTERS: Final = 1_000_000
#: Maximum bytes of a reply: the longest answer in JSON, with room for its escapes.
MAX_REPLY_BYTES: Final = 2_000_000
_CHARACTERS_A_TOKEN: Final = 4
_MOST_TOKENS: Final = 1_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelIdentity:
    """One model, with its name for display (`label`) and for the usage records."""

    provider: str
    model: str
    label: str
    decides: bool = True

    def __str__(self) -> str:
        return f"{self.label} ({self.model})" if self.model else self.label

    def failure(
        self, kind: str, detail: str, *, retry_after: float | None = None, usage: Usage | None = None
    ) -> ModelUnavailable:
        """Return the error of one attempt; `detail` is a sentence without a subject, `usage` the attempt's cost."""
        told = f"{self} {detail}."
        return ModelUnavailable(
            told,
            failures=(
                Failure(provider=self.provider, model=self.model, kind=kind, detail=told, retry_after=retry_after),
            ),
            spent={(self.provider, self.model): usage or Usage(calls=1)},
        )

    def completion(self, text: str, usage: Usage) -> Completion:
        """Return the answer, if it is valid.

        Raises:
            ModelUnavailable: it is empty or too long; the error includes the cost.
        """
        if len(text) > MAX_ANSWER_CHARACTERS:
            raise self.failure("too_long", f"answered with more than {MAX_ANSWER_CHARACTERS} characters", usage=usage)
        if not text.strip():
            raise self.failure("empty", "returned an empty answer", usage=usage)
        spent = {(self.provider, self.model): usage}
        return Completion(text=text, provider=self.provider, model=self.model, spent=spent, decides=self.decides)


class IdentifiedModel:
    """The part of `LanguageModel` that all providers share."""

    def __init__(self, who: ModelIdentity) -> None:
        self._who = who

    @property
    def provider(self) -> str:
        """The provider's name in settings."""
        return self._who.provider

    @property
    def model(self) -> str:
        """The provider's name for the model, or an alias of it."""
        return self._who.model


def usage_of(
    ask: CompletionRequest, answer: str, *, input_tokens: int | None, output_tokens: int | None, dollars: float | None
) -> Usage:
    """Return the cost of one call; missing token counts are estimated if there is an answer."""
    read, wrote = _count(input_tokens), _count(output_tokens)
    estimated = bool(answer) and not (read and wrote)
    if estimated:
        read = read or _tokens(ask.prompt.text + ask.text)
        wrote = wrote or _tokens(answer)
    return Usage(calls=1, input_tokens=read, output_tokens=wrote, estimated=estimated, dollars=dollars)


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_A_TOKEN)


def _count(given: object) -> int:
    """Return a token count; 0 if it is missing or invalid, because some providers report 0, nothing or nonsense."""
    return given if isinstance(given, int) and 0 < given < _MOST_TOKENS else 0


# Prices of tokens before they are spent: list prices from genai-prices; local models are free.

#: The price list of each provider. Command lines are paid by subscription, or report their cost afterwards.
_LISTED: Final = {"anthropic": "anthropic", "openai": "openai"}
_FREE: Final = frozenset({"ollama"})


def dollars(provider: str, model: str, input_tokens: int, output_tokens: int) -> float | None:
    """Return the list price of these tokens; None if it is unknown."""
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


# A cascade of models: the first one that answers wins, and each has a real-time limit.
#
# The limit cancels the request, so a server that sends one byte per second cannot extend it. A model that fails five
# times in a row is not called for a minute; one that requests a pause gets it. A model that refuses, or sends an empty
# or oversized answer, is working: the next model is tried, and the failure does not count for its circuit breaker. The
# request's own time limit, if it has one, covers all models together, and exceeding it counts against none. The cost of
# all attempts is summed, even if none succeeds.

FAILURES: Final = 5
REST_SECONDS: Final = 60.0
CHECK_SECONDS: Final = 5.0
#: Maximum pause that a server may request; after it, one attempt costs little.
_LONGEST_PAUSE: Final = 900.0
_ALIVE: Final = frozenset({"refused", "empty", "too_long"})

Spending = dict[tuple[str, str], Usage]


@dataclass(frozen=True, kw_only=True, slots=True)
class CascadeEntry:
    """A model and its time limit for an answer, in seconds."""

    model: LanguageModel
    seconds: float


class Cascade:
    """Implements `LanguageModel` over several others. Safe for concurrent requests on one event loop."""

    def __init__(
        self, steps: Sequence[CascadeEntry], *, rest_seconds: float = REST_SECONDS, now: Callable[[], float] = monotonic
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
        """All models of the cascade, in order."""
        return tuple(step.model for step, _ in self._steps)

    async def complete(self, ask: CompletionRequest) -> Completion:
        """Return the first answer.

        Raises:
            ModelUnavailable: no model answered; with the failure of each, and the total cost.
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
        """Check, without using tokens, whether a model would answer; close the breaker of the first that would.

        Raises:
            ModelUnavailable: none would; with the reasons.
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
        """Close all models."""
        for step, _ in self._steps:
            await step.model.close()


async def _attempt(step: CascadeEntry, ask: CompletionRequest, left: float) -> Completion | ModelUnavailable:
    """Return one model's answer or failure, within its time limit and the time left for the request."""
    model, seconds = step.model, min(step.seconds, left)
    found = await _called(model, model.complete(ask), seconds, late="late" if left < step.seconds else "timeout")
    if not isinstance(found, Failure):
        return found
    lost = Usage(calls=1, estimated=found.kind in ("timeout", "late"))
    return ModelUnavailable(found.detail, failures=(found,), spent={(model.provider, model.model): lost})


async def _checked(model: LanguageModel) -> Sequence[Failure]:
    """Return why a model would not answer; empty if it would."""
    found = await _called(model, model.check(), CHECK_SECONDS)
    if isinstance(found, ModelUnavailable):
        return found.failures
    return (found,) if isinstance(found, Failure) else ()


async def _called(
    model: LanguageModel, work: Coroutine[Any, Any, T], seconds: float, late: Literal["late", "timeout"] = "timeout"
) -> T | ModelUnavailable | Failure:
    """Return the result of a call to a model, or the error that the model reports, or the failure seen here.

    Args:
        seconds: the time limit.
        late: the kind of failure if the time limit is exceeded.
    """
    try:
        async with asyncio.timeout(seconds):
            return await work
    except ModelUnavailable as error:
        return error if error.failures else _failure(model, "other", error.message)
    except TimeoutError:
        return _failure(model, late, f"{_name(model)} did not answer within {seconds:g} s.")
    except Exception as error:  # third-party models may raise anything; the message may quote the text
        return _failure(model, "other", f"{_name(model)} failed with {type(error).__name__}.")


def _sendable(text: str) -> str:
    """Return the text without lone surrogates and NUL, which cannot be sent."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def _count_failure(breaker: CircuitBreaker, failure: Failure) -> None:
    if failure.kind in _ALIVE:
        breaker.succeeded()
    elif failure.kind != "late":
        breaker.failed(failure.detail, min(failure.retry_after, _LONGEST_PAUSE) if failure.retry_after else None)


def _none(failures: Sequence[Failure], spent: Spending) -> ModelUnavailable:
    """Return the error for all failures; call it outside any handler, so that no foreign error becomes its context."""
    told = " ".join(failure.detail for failure in failures)
    return ModelUnavailable(told, failures=tuple(failures), spent=spent)


def _failure(model: LanguageModel, kind: str, detail: str, retry_after: float | None = None) -> Failure:
    return Failure(provider=model.provider, model=model.model, kind=kind, detail=detail, retry_after=retry_after)


def _name(model: LanguageModel) -> str:
    return f"{model.provider} ({model.model})" if model.model else model.provider


# Models by the name of their provider, found through entry points, which third-party providers can register too. An
# entry point is a function from `ModelOptions` to a `LanguageModel`. The result is always a cascade, even of a single
# model, so that every model has its time limit and its circuit breaker. A provider's packages are loaded only when it
# is chosen.

GROUP: Final = "filrouge.models"
#: The extra that installs each package.
_EXTRAS: Final = {"anthropic": "llm", "httpx2": "llm", "openai": "llm", "pydantic_ai": "llm", "genai_prices": "llm"}


def model(options: ModelOptions) -> Cascade:
    """Return the model for these options, with its time limit and its circuit breaker.

    Raises:
        BadConfig: there is no such provider (the message names the nearest), its package is missing, or its options do
            not fit.
    """
    return cascade([options])


def cascade(options: Sequence[ModelOptions], rest_seconds: float = REST_SECONDS) -> Cascade:
    """Return a cascade of several models, in this order; a model that keeps failing is not called for `rest_seconds`.

    Raises:
        BadConfig: one of them cannot be created; the message gives the reason.
    """
    known = [replace(one, provider=one.provider.strip().lower().replace("-", "_")) for one in options]
    return Cascade([CascadeEntry(model=_built(one), seconds=one.limit) for one in known], rest_seconds=rest_seconds)


def providers() -> list[str]:
    """Return the names of all registered providers."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def _built(options: ModelOptions) -> LanguageModel:
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if options.provider not in found:
        near = difflib.get_close_matches(options.provider, found, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise BadConfig(
            f"There is no provider {options.provider!r}.{hint} There are: {', '.join(sorted(found))}.",
            remedy="Set `extract_provider` to one of them, or leave it empty to extract without a model.",
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


# The prompts: one Markdown file for each question and language, so that they are read, reviewed and compared as text.
#
# A prompt's version is a hash of its text: a memory names the exact words that a model was asked with.

# Prompts: one Markdown file per question and language, so that they can be read, reviewed and compared as text. A
# prompt's version is a hash of its text, so a memory records the exact words the model received.

LANGUAGES: Final = ("en", "fr")


@cache
def prompt(name: str, language: str) -> Prompt:
    """Return the prompt of this name, in English if it does not exist in the language.

    Raises:
        KeyError: there is no prompt of this name.
    """
    chosen = language if language in LANGUAGES else "en"
    file = resources.files("filrouge.providers").joinpath("prompts", chosen, f"{name}.md")
    if not file.is_file():
        raise KeyError(name)
    text = file.read_text(encoding="utf-8").strip()
    return Prompt(text=text, version=f"{name}/{chosen}/{hashlib.sha256(text.encode()).hexdigest()[:12]}")
