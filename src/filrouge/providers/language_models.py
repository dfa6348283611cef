"""Language models: options, prompts, registry, results of a request, prices, and a cascade of several models.

A model is found by the name of its provider through the entry points `filrouge.models`.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

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
SIZE_OF_MODE: Final[Mapping[Mode, str]] = {"light": "small", "normal": "small", "heavy": "large", "max": "large"}
#: Time limits for one answer where they differ from the default: a local model is slower than a hosted one.
_SECONDS_OF_PROVIDER: Final[Mapping[str, float]] = {"ollama": 60.0}
_DEFAULT_SECONDS: Final = 30.0


class DefaultModels(Struct, frozen=True, kw_only=True):
    """A provider's default models by size, as the names that the provider uses.

    Attributes:
        small: for the modes light and normal.
        medium: only used if the setting `llm_model` asks for it.
        large: for the modes heavy and max.
    """

    small: str
    medium: str
    large: str


class ModelOptions(Struct, frozen=True, kw_only=True):
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
    environ: Mapping[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        return f"ModelOptions(provider={self.provider!r}, model={self.model!r})"  # never the environment

    @property
    def limit(self) -> float:
        """The time limit in effect, in seconds."""
        return self.seconds or _SECONDS_OF_PROVIDER.get(self.provider, _DEFAULT_SECONDS)

    def model_of(self, sizes: DefaultModels) -> str:
        """Return the provider's name of the model."""
        name = self.model.strip()
        match name.lower() or SIZE_OF_MODE[self.mode]:
            case "small":
                return sizes.small
            case "medium":
                return sizes.medium
            case "large":
                return sizes.large
            case _:
                return name

    def identity(self, label: str, sizes: DefaultModels, *, decides: bool = True) -> ModelIdentity:
        """Return the identity of the model; `decides` holds unless the options say otherwise."""
        may_decide = decides if self.decides is None else self.decides
        return ModelIdentity(provider=self.provider, model=self.model_of(sizes), label=label, decides=may_decide)

    def address(self, default: str, variable: str = "") -> str:
        """Return the server's address without a trailing slash: the option, else that variable, else the default.

        Raises:
            BadConfig: the address is invalid.
        """
        if self.url.strip():
            return checked_address(self.url, setting="llm_url")
        configured = self.environ.get(variable, "").strip() if variable else ""
        return checked_address(configured, setting=variable) if configured else default

    def key(self, variable: str, *, provider_name: str, address: str, needed: bool) -> str:
        """Return the API key; empty if it would be sent unencrypted to another machine.

        Raises:
            BadConfig: it is required and not set, or has characters that a key cannot contain, such as a line break.
        """
        key = self.environ.get(variable, "").strip()
        if not key and needed:
            raise BadConfig(
                f"{provider_name} needs a key, and {variable} is not set.",
                remedy=f"Set {variable} in the daemon's environment, or choose another provider.",
            )
        if not all("!" <= character <= "~" for character in key):
            raise BadConfig(f"{variable} holds characters that no key has.", remedy=f"Set {variable} again.")
        return key if is_loopback(address) or address.startswith("https:") else ""


# The result of an attempt: an answer with its cost, or one `Failure` in a `ModelUnavailable`.
#
# Messages never quote a server or a command line, because either may echo a key or the text; the causes are Filrouge's
# own words. For the same reason an error is raised outside the handler of the foreign exception, because the context of
# an exception is printed with it. An answer must be text, not empty, and at most a megabyte.

#: Maximum characters of an answer; a useful one has at most a hundredth of that.
MAX_ANSWER_CHARACTERS: Final = 1_000_000
#: Maximum bytes of a reply: the longest answer in JSON, with room for its escapes.
MAX_REPLY_BYTES: Final = 2_000_000
_CHARACTERS_PER_TOKEN: Final = 4
_MAX_TOKENS: Final = 1_000_000_000


class ModelIdentity(Struct, frozen=True, kw_only=True):
    """One model, as it is named in messages and in the usage records.

    Attributes:
        provider: the provider's name in settings.
        model: the provider's name for the model.
        label: the provider's name for display.
        decides: whether this model is trusted to decide on extracted facts.
    """

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
        message = f"{self} {detail}."
        return ModelUnavailable(
            message,
            failures=(
                Failure(provider=self.provider, model=self.model, kind=kind, detail=message, retry_after=retry_after),
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
    """The part of `LanguageModel` that all providers share: the names of provider and model."""

    def __init__(self, identity: ModelIdentity) -> None:
        self._identity = identity

    @property
    def provider(self) -> str:
        """The provider's name in settings."""
        return self._identity.provider

    @property
    def model(self) -> str:
        """The provider's name for the model, or an alias of it."""
        return self._identity.model


def usage_of(
    request: CompletionRequest,
    answer: str,
    *,
    input_tokens: int | None,
    output_tokens: int | None,
    dollars: float | None,
) -> Usage:
    """Return the cost of one call; missing token counts are estimated if there is an answer."""
    input_count, output_count = _valid_count(input_tokens), _valid_count(output_tokens)
    estimated = bool(answer) and not (input_count and output_count)
    if estimated:
        input_count = input_count or _tokens(request.prompt.text + request.text)
        output_count = output_count or _tokens(answer)
    return Usage(calls=1, input_tokens=input_count, output_tokens=output_count, estimated=estimated, dollars=dollars)


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_PER_TOKEN)


def _valid_count(count: object) -> int:
    """Return a token count; 0 if it is missing or invalid, because some providers report 0, nothing or nonsense."""
    return count if isinstance(count, int) and 0 < count < _MAX_TOKENS else 0


# Prices of tokens before they are spent: list prices from genai-prices; local models are free.

#: The price list of each provider. Command lines are paid by subscription, or report their cost afterwards.
_PRICE_LIST_OF: Final = {"anthropic": "anthropic", "openai": "openai"}
_FREE: Final = frozenset({"ollama"})


def list_price(provider: str, model: str, input_tokens: int, output_tokens: int) -> float | None:
    """Return the list price of these tokens; None if it is unknown."""
    if provider in _FREE:
        return 0.0
    if provider not in _PRICE_LIST_OF:
        return None
    from genai_prices import Usage, calc_price

    try:
        usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        return float(calc_price(usage, model, provider_id=_PRICE_LIST_OF[provider]).total_price)
    except LookupError:
        return None


# A cascade of models: the first one that answers wins, and each has a real-time limit.
#
# The limit cancels the request, so a server that sends one byte per second cannot extend it. A model that fails five
# times in a row is not called for a minute; one that requests a pause gets it. A model that refuses, or sends an empty
# or oversized answer, is working: the next model is tried, and the failure does not count for its circuit breaker. The
# request's own time limit, if it has one, covers all models together, and exceeding it counts against none. The cost of
# all attempts is summed, even if none succeeds.

MAX_FAILURES: Final = 5
REST_SECONDS: Final = 60.0
CHECK_SECONDS: Final = 5.0
#: Maximum pause that a server may request; after it, one attempt costs little.
_MAX_PAUSE_SECONDS: Final = 900.0
_WORKING_FAILURES: Final = frozenset({"refused", "empty", "too_long"})

SpentByModel = dict[tuple[str, str], Usage]


class CascadeEntry(Struct, frozen=True, kw_only=True):
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
        self._steps = [(step, CircuitBreaker(rest_seconds, now, failures=MAX_FAILURES)) for step in steps]

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

    async def complete(self, request: CompletionRequest) -> Completion:
        """Return the first answer.

        Raises:
            ModelUnavailable: no model answered; with the failure of each, and the total cost.
        """
        request = replace(request, text=_without_invalid_characters(request.text))
        failures: list[Failure] = []
        spent: SpentByModel = {}
        start = self._now()
        for step, breaker in self._steps:
            seconds_left = math.inf if request.seconds is None else request.seconds - (self._now() - start)
            if seconds_left <= 0.0:
                break
            if pause := breaker.enter():
                failures.append(_failure(step.model, "open", str(pause), pause.seconds))
                continue
            result = await _attempt(step, request, seconds_left)
            for model_key, usage in result.spent.items():
                spent[model_key] = spent.get(model_key, Usage()) + usage
            if isinstance(result, Completion):
                breaker.succeeded()
                return replace(result, spent=spent)
            failures += result.failures
            _count_failure(breaker, result.failures[-1])
        raise _no_answer(failures, spent)

    async def check(self) -> None:
        """Check, without using tokens, whether a model would answer; close the breaker of the first that would.

        Raises:
            ModelUnavailable: none would; with the reasons.
        """
        failures: list[Failure] = []
        for step, breaker in self._steps:
            model_failures = await _check(step.model)
            if not model_failures:
                breaker.succeeded()
                return
            failures += model_failures
        raise _no_answer(failures, {})

    async def close(self) -> None:
        """Close all models."""
        for step, _ in self._steps:
            await step.model.close()


async def _attempt(
    step: CascadeEntry, request: CompletionRequest, seconds_left: float
) -> Completion | ModelUnavailable:
    """Return one model's answer or failure, within its time limit and the time left for the request."""
    model, seconds = step.model, min(step.seconds, seconds_left)
    result = await _call(
        model, model.complete(request), seconds, late="late" if seconds_left < step.seconds else "timeout"
    )
    if not isinstance(result, Failure):
        return result
    usage = Usage(calls=1, estimated=result.kind in ("timeout", "late"))
    return ModelUnavailable(result.detail, failures=(result,), spent={(model.provider, model.model): usage})


async def _check(model: LanguageModel) -> Sequence[Failure]:
    """Return why a model would not answer; empty if it would."""
    result = await _call(model, model.check(), CHECK_SECONDS)
    if isinstance(result, ModelUnavailable):
        return result.failures
    return (result,) if isinstance(result, Failure) else ()


async def _call(
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


def _without_invalid_characters(text: str) -> str:
    """Return the text without lone surrogates and NUL, which cannot be sent."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def _count_failure(breaker: CircuitBreaker, failure: Failure) -> None:
    if failure.kind in _WORKING_FAILURES:
        breaker.succeeded()
    elif failure.kind != "late":
        breaker.failed(failure.detail, min(failure.retry_after, _MAX_PAUSE_SECONDS) if failure.retry_after else None)


def _no_answer(failures: Sequence[Failure], spent: SpentByModel) -> ModelUnavailable:
    """Return the error for all failures. Call it outside any handler, so that no foreign error becomes its context."""
    message = " ".join(failure.detail for failure in failures)
    return ModelUnavailable(message, failures=tuple(failures), spent=spent)


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
    normalised = [replace(option, provider=option.provider.strip().lower().replace("-", "_")) for option in options]
    return Cascade(
        [CascadeEntry(model=_build(option), seconds=option.limit) for option in normalised], rest_seconds=rest_seconds
    )


def providers() -> list[str]:
    """Return the names of all registered providers."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def _build(options: ModelOptions) -> LanguageModel:
    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    if options.provider not in entries:
        similar = difflib.get_close_matches(options.provider, entries, n=1)
        hint = f" Did you mean {similar[0]!r}?" if similar else ""
        raise BadConfig(
            f"There is no provider {options.provider!r}.{hint} There are: {', '.join(sorted(entries))}.",
            remedy="Set `extract_provider` to one of them, or leave it empty to extract without a model.",
        )
    return _load(entries[options.provider])(options)


def _load(entry: EntryPoint) -> Callable[[ModelOptions], LanguageModel]:
    try:
        return entry.load()
    except ImportError as error:
        command = installation.command_for_missing(error.name or entry.value, _EXTRAS)
        raise BadConfig(
            f"The provider {entry.name!r} needs a package that is not installed.",
            remedy=f"Install it: `{command}`.",
        ) from error


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
