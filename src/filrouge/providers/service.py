"""The configured language models, run on one event loop within the daily budget.

Callers are ordinary threads that wait for the answer; calls of several threads run concurrently. Nothing is built, and
no provider library is loaded, before the first question. A changed provider setting takes effect with the next
question.

The daily cap is hard. Before a question is sent, its maximum cost over all models that may be tried is reserved. The
reservation is released after the actual cost is recorded.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import math
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from functools import partial
from threading import Event, Lock, Thread
from typing import Any, Final, TypeVar

from msgspec import Struct, field

from filrouge.core.clock import Clock, monotonic
from filrouge.core.errors import BadConfig, ModelUnavailable, OverBudget
from filrouge.core.protocols import LanguageModel, Prompts
from filrouge.core.settings import Settings
from filrouge.providers.language_models import ModelOptions, cascade, list_price
from filrouge.providers.models import OPERATIONS, Completion, CompletionRequest, Operation, Usage
from filrouge.providers.usage_repository import LlmUsage
from filrouge.runtime.executors import ReaderPool, Writer

T = TypeVar("T")

#: Values of `extract_provider` without a model: rules extract statements, or extraction is off.
PROVIDERS_WITHOUT_MODEL: Final = frozenset({"", "heuristic", "off"})
_CHARACTERS_PER_TOKEN: Final = 3  # a conservative value: French prose and code have less than four
_MAX_CHECK_SECONDS: Final = 8.0
_HEALTH_CACHE_SECONDS: Final = 30.0
_STOPPING: Final = "Filrouge is stopping."


class ConfiguredModels(Struct, frozen=True, kw_only=True):
    """The configured models.

    Attributes:
        model: the model for every operation that has none of its own.
        others: models for single operations.
        tries: the maximum number of models tried for one question.
        price: returns the maximum cost in dollars of a number of input and output tokens; None if a price is unknown.
    """

    model: LanguageModel
    others: Mapping[Operation, LanguageModel] = field(default_factory=dict[Operation, LanguageModel])
    tries: int = 1
    price: Callable[[int, int], float | None] = lambda _in, _out: None

    def of(self, operation: Operation) -> LanguageModel:
        """Return the model for this operation."""
        return self.others.get(operation, self.model)


class ModelTimings(Struct, frozen=True, kw_only=True):
    """The timing of model calls, in seconds.

    Attributes:
        after_reply: delay from an agent's reply to its extraction. By then the host's transcript has been read, and a
            quick next turn is included.
        quiet: delay after the last message if there was no reply, and always in light mode.
        rest: how long no model is called after none has answered.
        breaker: how long a model that keeps failing is not called.
        related: time limit for deciding whether a prompt belongs to a thread.
    """

    after_reply: float = 5.0
    quiet: float = 600.0
    rest: float = 30.0
    breaker: float = 60.0
    related: float = 5.0


BuildPanel = Callable[[Settings, Mapping[str, str], ModelTimings], ConfiguredModels]


class Models:
    """Sends requests to the models, for any thread."""

    def __init__(
        self,
        build: BuildPanel,
        prompts: Prompts,
        *,
        writer: Writer,
        readers: ReaderPool,
        clock: Clock,
        environ: Mapping[str, str],
        pace: ModelTimings,
    ) -> None:
        self.prompts = prompts
        self.pace = pace
        self.changed = Event()
        self._build = build
        self._writer, self._readers, self._clock, self._environ = writer, readers, clock, environ
        self._lock = Lock()
        self._panel: ConfiguredModels | None = None
        self._built_for: tuple[object, ...] = ()
        self._config_error: BadConfig | None = None
        self._starting = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._running = set[Future[Any]]()
        self._reserved_tokens, self._reserved_dollars = 0, 0.0
        self._health: tuple[float, str] = (0.0, "")
        self._closed = False

    def panel(self, settings: Settings) -> ConfiguredModels | None:
        """Return the models for these settings; None if no model is set.

        Raises:
            BadConfig: the settings name a provider that cannot be built; the message gives the reason.
        """
        if settings.extract_provider in PROVIDERS_WITHOUT_MODEL:
            return None
        model_settings = _model_settings(settings)
        with self._lock:
            if model_settings != self._built_for:
                old_panel, self._panel = self._panel, None
                self._built_for, self._config_error, self._health = model_settings, None, (0.0, "")
                if old_panel is not None:
                    self._start(_close_panel(old_panel))
                try:
                    self._panel = self._build(settings, self._environ, self.pace)
                except BadConfig as error:
                    self._config_error = error
                self.changed.set()
            if self._config_error is not None:
                raise self._config_error
            return self._panel

    def ask(self, request: CompletionRequest, settings: Settings) -> Completion:
        """Send a request to the model for its operation, and record its cost.

        Raises:
            ModelUnavailable: no model answers, or none is set.
            OverBudget: the day's budget does not allow it.
            BadConfig: the settings name a provider that cannot be built.
        """
        panel = self.panel(settings)
        if panel is None:
            raise ModelUnavailable("No model is set.", remedy="Set extract_provider with `filrouge settings`.")
        with self._reserve(request, panel, settings):
            try:
                completion = self._start(panel.of(request.operation).complete(request)).result()
            except ModelUnavailable as error:
                self._record(request.operation, error.spent)
                raise
            except CancelledError as error:
                raise ModelUnavailable(_STOPPING) from error
            self._record(request.operation, completion.spent)
            return completion

    def health(self, settings: Settings) -> str:
        """Return `healthy`, `unhealthy: REASON`, or `error: SETTINGS PROBLEM`; checked at most twice a minute."""
        try:
            panel = self.panel(settings)
        except BadConfig as error:
            return f"error: {error.message}"
        if panel is None:
            return "healthy"
        checked_at, status = self._health
        if status and monotonic() - checked_at < _HEALTH_CACHE_SECONDS:
            return status
        try:
            self._start(asyncio.wait_for(panel.model.check(), _MAX_CHECK_SECONDS)).result()
            new_status = "healthy"
        except ModelUnavailable as error:
            new_status = f"unhealthy: {error.message}"
        except CancelledError:
            return f"unhealthy: {_STOPPING}"
        except TimeoutError:
            new_status = f"unhealthy: {panel.model.provider} does not answer."
        self._health = (monotonic(), new_status)
        return new_status

    def close(self) -> None:
        """Cancel running requests, and close all connections."""
        with self._starting:
            self._closed = True
            loop = self._loop
        self.changed.set()
        if loop is None:
            return
        for future in tuple(self._running):
            future.cancel()
        if self._panel is not None:
            asyncio.run_coroutine_threadsafe(_close_panel(self._panel), loop).result(_MAX_CHECK_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        if self._thread is not None:
            self._thread.join()
        loop.close()

    def _start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._starting:
            if self._closed:
                work.close()
                raise ModelUnavailable(_STOPPING)
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name="filrouge-models", daemon=True)
                self._thread.start()
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    @contextmanager
    def _reserve(self, request: CompletionRequest, panel: ConfiguredModels, settings: Settings) -> Generator[None]:
        """Reserve the maximum cost of a question until its actual cost is recorded."""
        characters = len(request.prompt.text) + len(request.text) + len(json.dumps(request.schema))
        input_tokens = math.ceil(characters / _CHARACTERS_PER_TOKEN) * panel.tries
        output_tokens = request.max_tokens * panel.tries
        price = panel.price(input_tokens, output_tokens) if settings.llm_daily_dollars else 0.0
        if price is None:
            raise OverBudget(
                f"What {panel.model.provider} {panel.model.model} costs is not known, so its cost cannot be capped.",
                remedy="Set llm_daily_dollars to 0 to limit tokens only, or choose another model.",
            )
        with self._lock:
            spent = self._readers.here(lambda tx: LlmUsage(tx).spent(self._clock.now()))
            tokens = spent.tokens + self._reserved_tokens + input_tokens + output_tokens
            dollars = spent.dollars + self._reserved_dollars + price
            if tokens > settings.llm_daily_tokens:
                raise OverBudget(f"{spent.tokens} of {settings.llm_daily_tokens} tokens of this day are spent.")
            if settings.llm_daily_dollars and dollars > settings.llm_daily_dollars:
                raise OverBudget(f"{spent.dollars:.4f} of {settings.llm_daily_dollars} dollars of this day are spent.")
            self._reserved_tokens += input_tokens + output_tokens
            self._reserved_dollars += price
        try:
            yield
        finally:
            with self._lock:
                self._reserved_tokens -= input_tokens + output_tokens
                self._reserved_dollars -= price

    def _record(self, operation: Operation, spent: Mapping[tuple[str, str], Usage]) -> None:
        if spent:
            self._writer.run(lambda tx: LlmUsage(tx).add(operation, spent, self._clock.now()))


async def _close_panel(panel: ConfiguredModels) -> None:
    for model in {id(configured): configured for configured in (panel.model, *panel.others.values())}.values():
        await model.close()


def _model_settings(settings: Settings) -> tuple[object, ...]:
    """Return the settings that require a new panel when they change."""
    return (
        settings.extract_provider,
        settings.mode,
        settings.claude_cli_path,
        settings.codex_cli_path,
        settings.ollama_seconds,
        *(value for name, value in settings if name.startswith("llm_") and "daily" not in name),
    )


# Building a panel: one cascade for all operations, and separate cascades for single ones.

#: The rules are always the last resort, so this name is ignored in a cascade.
_RULES_PROVIDER: Final = "heuristic"


def panel(settings: Settings, environ: Mapping[str, str], pace: ModelTimings) -> ConfiguredModels:
    """Build the models that the settings name.

    Raises:
        BadConfig: a name, key, path or address is invalid; the message gives the problem.
    """
    main = _options(settings, environ, settings.extract_provider, settings.llm_model, url=settings.llm_url)
    fallbacks = [
        _options_by_name(settings, environ, entry, "llm_cascade")
        for entry in settings.llm_cascade
        if entry.strip() != _RULES_PROVIDER
    ]
    others: dict[Operation, Sequence[ModelOptions]] = {}
    for entry in settings.llm_operations:
        operation, _, name = entry.partition("=")
        chosen = _operation(operation.strip())
        others[chosen] = [_options_by_name(settings, environ, name, "llm_operations"), main, *fallbacks]
    default_model = cascade([main, *fallbacks], pace.breaker)
    model_of_operation: dict[Operation, LanguageModel] = {}
    model_lists = [default_model.models]
    for operation, options in others.items():
        operation_model = cascade(options, pace.breaker)
        model_of_operation[operation] = operation_model
        model_lists.append(operation_model.models)
    return ConfiguredModels(
        model=default_model,
        others=model_of_operation,
        tries=max(map(len, model_lists)),
        price=partial(_maximum_price, [model for models in model_lists for model in models]),
    )


def _options(
    settings: Settings, environ: Mapping[str, str], provider: str, model: str, *, url: str = ""
) -> ModelOptions:
    paths = {"claude_cli": settings.claude_cli_path, "codex_cli": settings.codex_cli_path}
    return ModelOptions(
        provider=provider,
        model=model,
        mode=settings.mode,
        url=url,
        seconds=settings.ollama_seconds if provider == "ollama" else settings.llm_seconds,
        cli_path=paths.get(provider, ""),
        decides={"auto": None, "yes": True, "no": False}[settings.llm_decides],
        environ=environ,
    )


def _options_by_name(settings: Settings, environ: Mapping[str, str], name: str, setting: str) -> ModelOptions:
    provider, _, model = name.strip().partition(":")
    if not provider:
        raise BadConfig(f"{setting}: {name!r} does not name a provider.", remedy="Write PROVIDER or PROVIDER:MODEL.")
    return _options(settings, environ, provider.lower().replace("-", "_"), model)


def _operation(name: str) -> Operation:
    for operation in OPERATIONS:
        if operation == name:
            return operation
    similar = difflib.get_close_matches(name, OPERATIONS, n=1)
    hint = f" Did you mean {similar[0]!r}?" if similar else ""
    raise BadConfig(
        f"llm_operations: there is no operation {name!r}.{hint} There are: {', '.join(OPERATIONS)}.",
        remedy="Write OPERATION=PROVIDER or OPERATION=PROVIDER:MODEL.",
    )


def _maximum_price(models: Sequence[LanguageModel], input_tokens: int, output_tokens: int) -> float | None:
    """Return the price with the most expensive of these models; None if one has no known price."""
    prices = [list_price(model.provider, model.model, input_tokens, output_tokens) for model in models]
    known_prices = [price for price in prices if price is not None]
    return max(known_prices) if len(known_prices) == len(prices) else None
