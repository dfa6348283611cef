"""The language models that the settings name, run on one event loop within the budget of the day."""

from __future__ import annotations

import asyncio
import difflib
import json
import math
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock, Thread
from typing import Any, Final, TypeVar

from filrouge.core.clock import Clock, monotonic
from filrouge.core.errors import BadConfig, ModelUnavailable, OverBudget
from filrouge.core.protocols import LanguageModel, Prompts
from filrouge.core.settings import Settings
from filrouge.providers.language_models import ModelOptions, cascade, dollars
from filrouge.providers.models import OPERATIONS, Ask, Completion, Operation, Usage
from filrouge.providers.usage_repository import LlmUsage
from filrouge.runtime.executors import ReaderPool, WriterLane

# The models that are asked: built from the settings, run on one event loop, within the budget of the day.
#
# Whoever asks is a plain thread and waits; the calls of several run side by side. Nothing is built, and no library of
# a provider is loaded, before the first question. Another provider in the settings takes over with the next question.
#
# The cap of a day is hard: before a question goes out, the most that it can cost is set aside, for every model that
# may be tried; what it did cost is entered before that is released.

T = TypeVar("T")

#: Providers that are no models: the rules understand, or nobody does.
NO_MODEL: Final = frozenset({"", "heuristic", "off"})
_CHARACTERS_PER_TOKEN: Final = 3  # on the safe side: French prose and code have less than four
_CHECK_SECONDS: Final = 8.0
_HEALTH_SECONDS: Final = 30.0
_STOPPING: Final = "Filrouge is stopping."


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """The models that the settings name.

    Attributes:
        others: for single operations.
        tries: how many models one question may be put to.
        price: the most that so many input and output tokens cost in dollars, None where a price is not known.
    """

    model: LanguageModel
    others: Mapping[Operation, LanguageModel] = field(default_factory=dict[Operation, LanguageModel])
    tries: int = 1
    price: Callable[[int, int], float | None] = lambda _in, _out: None

    def of(self, operation: Operation) -> LanguageModel:
        """Who is asked for this."""
        return self.others.get(operation, self.model)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """When models are asked, in seconds.

    Attributes:
        after_reply: from an agent's reply to the reading of it; by then the host's transcript has come in, and a quick
            next turn is read with it.
        quiet: from the last thing said, where no reply came, and in light mode always.
        rest: how long nobody is asked after no model answered.
        breaker: how long one model is left alone that failed again and again.
        related: how long an answer is of use to whether a prompt belongs to a thread (THR-3).
    """

    after_reply: float = 5.0
    quiet: float = 600.0
    rest: float = 30.0
    breaker: float = 60.0
    related: float = 5.0


BuildPanel = Callable[[Settings, Mapping[str, str], Pace], Panel]


class Models:
    """Asks models, for any thread."""

    def __init__(
        self,
        build: BuildPanel,
        prompts: Prompts,
        *,
        writer: WriterLane,
        readers: ReaderPool,
        clock: Clock,
        environ: Mapping[str, str],
        pace: Pace,
    ) -> None:
        self.prompts = prompts
        self.pace = pace
        self.changed = Event()
        self._build = build
        self._writer, self._readers, self._clock, self._environ = writer, readers, clock, environ
        self._lock = Lock()
        self._panel: Panel | None = None
        self._built_for: tuple[object, ...] = ()
        self._refused: BadConfig | None = None
        self._starting = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._running = set[Future[Any]]()
        self._reserved_tokens, self._reserved_dollars = 0, 0.0
        self._health: tuple[float, str] = (0.0, "")
        self._closed = False

    def panel(self, settings: Settings) -> Panel | None:
        """Who is asked under these settings; None where no model is.

        Raises:
            BadConfig: the settings name a provider that cannot be built; says what is wrong.
        """
        if settings.extract_provider in NO_MODEL:
            return None
        wanted = _key(settings)
        with self._lock:
            if wanted != self._built_for:
                before, self._panel = self._panel, None
                self._built_for, self._refused, self._health = wanted, None, (0.0, "")
                if before is not None:
                    self._start(_close(before))
                try:
                    self._panel = self._build(settings, self._environ, self.pace)
                except BadConfig as error:
                    self._refused = error
                self.changed.set()
            if self._refused is not None:
                raise self._refused
            return self._panel

    def ask(self, ask: Ask, settings: Settings) -> Completion:
        """Put a question to the model of its operation, and enter what it cost.

        Raises:
            ModelUnavailable: nobody answers, or no model is set.
            OverBudget: the day's budget does not allow it.
            BadConfig: the settings name a provider that cannot be built.
        """
        panel = self.panel(settings)
        if panel is None:
            raise ModelUnavailable("No model is set.", remedy="Set extract_provider with `filrouge settings`.")
        with self._set_aside(ask, panel, settings):
            try:
                done = self._start(panel.of(ask.operation).complete(ask)).result()
            except ModelUnavailable as error:
                self._enter(ask.operation, error.spent)
                raise
            except CancelledError as error:
                raise ModelUnavailable(_STOPPING) from error
            self._enter(ask.operation, done.spent)
            return done

    def health(self, settings: Settings) -> str:
        """`healthy`, `unhealthy: why`, or `error: what is wrong with the settings`; asked twice a minute at most."""
        try:
            panel = self.panel(settings)
        except BadConfig as error:
            return f"error: {error.message}"
        if panel is None:
            return "healthy"
        at, known = self._health
        if known and monotonic() - at < _HEALTH_SECONDS:
            return known
        try:
            self._start(asyncio.wait_for(panel.model.check(), _CHECK_SECONDS)).result()
            found = "healthy"
        except ModelUnavailable as error:
            found = f"unhealthy: {error.message}"
        except CancelledError:
            return f"unhealthy: {_STOPPING}"
        except TimeoutError:
            found = f"unhealthy: {panel.model.provider} does not answer."
        self._health = (monotonic(), found)
        return found

    def close(self) -> None:
        """Give up what is being asked, and end every connection."""
        with self._starting:
            self._closed = True
            loop = self._loop
        self.changed.set()
        if loop is None:
            return
        for future in tuple(self._running):
            future.cancel()
        if self._panel is not None:
            asyncio.run_coroutine_threadsafe(_close(self._panel), loop).result(_CHECK_SECONDS)
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
    def _set_aside(self, ask: Ask, panel: Panel, settings: Settings) -> Generator[None]:
        """Hold back the most that a question can cost until what it did cost is entered."""
        said = len(ask.prompt.text) + len(ask.text) + len(json.dumps(ask.schema))
        asked = math.ceil(said / _CHARACTERS_PER_TOKEN) * panel.tries
        answered = ask.most_tokens * panel.tries
        price = panel.price(asked, answered) if settings.llm_daily_dollars else 0.0
        if price is None:
            raise OverBudget(
                f"What {panel.model.provider} {panel.model.model} costs is not known, so its cost cannot be capped.",
                remedy="Set llm_daily_dollars to 0 and cap the tokens alone, or choose another model.",
            )
        with self._lock:
            spent = self._readers.here(lambda tx: LlmUsage(tx).spent(self._clock.now()))
            tokens = spent.tokens + self._reserved_tokens + asked + answered
            dollars = spent.dollars + self._reserved_dollars + price
            if tokens > settings.llm_daily_tokens:
                raise OverBudget(f"{spent.tokens} of {settings.llm_daily_tokens} tokens of this day are spent.")
            if settings.llm_daily_dollars and dollars > settings.llm_daily_dollars:
                raise OverBudget(f"{spent.dollars:.4f} of {settings.llm_daily_dollars} dollars of this day are spent.")
            self._reserved_tokens += asked + answered
            self._reserved_dollars += price
        try:
            yield
        finally:
            with self._lock:
                self._reserved_tokens -= asked + answered
                self._reserved_dollars -= price

    def _enter(self, operation: Operation, spent: Mapping[tuple[str, str], Usage]) -> None:
        if spent:
            self._writer.run(lambda tx: LlmUsage(tx).add(operation, spent, self._clock.now()))


async def _close(panel: Panel) -> None:
    for model in {id(one): one for one in (panel.model, *panel.others.values())}.values():
        await model.close()


def _key(settings: Settings) -> tuple[object, ...]:
    """What of the settings makes another panel."""
    return (
        settings.extract_provider,
        settings.mode,
        settings.claude_cli_path,
        settings.codex_cli_path,
        settings.ollama_seconds,
        *(value for name, value in settings if name.startswith("llm_") and "daily" not in name),
    )


# The models that the settings name, put together: one for all questions, others behind it, others for single ones.

#: The last resort of every cascade, whether it is named or not.
_RULES: Final = "heuristic"


def panel(settings: Settings, environ: Mapping[str, str], pace: Pace) -> Panel:
    """Build the models that the settings name.

    Raises:
        BadConfig: a name, key, path or address does not fit; names what is wrong.
    """
    first = _options(settings, environ, settings.extract_provider, settings.llm_model, url=settings.llm_url)
    behind = [_named(settings, environ, one, "llm_cascade") for one in settings.llm_cascade if one.strip() != _RULES]
    others: dict[Operation, Sequence[ModelOptions]] = {}
    for one in settings.llm_operations:
        operation, _, name = one.partition("=")
        chosen = _operation(operation.strip())
        others[chosen] = [_named(settings, environ, name, "llm_operations"), first, *behind]
    usual = cascade([first, *behind], pace.breaker)
    single: dict[Operation, LanguageModel] = {}
    chains = [usual.models]
    for operation, options in others.items():
        own = cascade(options, pace.breaker)
        single[operation] = own
        chains.append(own.models)
    return Panel(
        model=usual,
        others=single,
        tries=max(map(len, chains)),
        price=partial(_dearest, [model for chain in chains for model in chain]),
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


def _named(settings: Settings, environ: Mapping[str, str], name: str, setting: str) -> ModelOptions:
    provider, _, model = name.strip().partition(":")
    if not provider:
        raise BadConfig(f"{setting}: {name!r} names no provider.", remedy="Write PROVIDER or PROVIDER:MODEL.")
    return _options(settings, environ, provider.lower().replace("-", "_"), model)


def _operation(name: str) -> Operation:
    for operation in OPERATIONS:
        if operation == name:
            return operation
    near = difflib.get_close_matches(name, OPERATIONS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise BadConfig(
        f"llm_operations: there is no operation {name!r}.{hint} There are: {', '.join(OPERATIONS)}.",
        remedy="Write OPERATION=PROVIDER or OPERATION=PROVIDER:MODEL.",
    )


def _dearest(models: Sequence[LanguageModel], input_tokens: int, output_tokens: int) -> float | None:
    """The price at the dearest of these models; None where one has no known price."""
    prices = [dollars(one.provider, one.model, input_tokens, output_tokens) for one in models]
    known = [price for price in prices if price is not None]
    return max(known) if len(known) == len(prices) else None
