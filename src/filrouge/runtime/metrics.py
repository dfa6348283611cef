"""Metrics: the counters, gauges and histograms of a running Filrouge, exported to Prometheus.

`Metrics` has its own registry, so that several instances in one process do not add up and metrics of the host program
do not appear. Metric names are a public contract (`docs/reference/metrics.md`), checked by a test. Values that the
database knows better, such as the queue, are read from it on each scrape.

Every label has few values, because each series costs memory here and in Prometheus for good. Label values from
outside (a provider, a model, an error) are accepted up to a limit and reported as `other` after that.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric

from filrouge.capture.intake import CutCounts
from filrouge.core.clock import monotonic
from filrouge.core.guard import on_failure
from filrouge.providers.models import Operation, Usage
from filrouge.search.models import Ranking, RecallItem

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ANALYSIS_BUCKETS = (0.5, 1, 2, 4, 6, 10, 15, 20, 30)
_RECALL_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_RESULT_BUCKETS = (0, 1, 2, 5, 10, 20, 50, 100)
#: Maximum number of values of an external label. Further values are reported as `other`.
MAX_LABEL_VALUES: Final = 64
_MAX_VALUE_CHARS: Final = 100
OTHER: Final = "other"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
PreferenceFailure = Literal["user_identifier_missing", "extraction_error", "persistence_error"]
Filtered = Literal[
    "below_threshold", "below_relevance", "nothing_known", "beyond_limit", "over_budget",
    "goes_along", "not_sure_enough", "said_elsewhere", "outdated", "before_the_agent",
]  # fmt: skip
#: The label for each reason in the recall log. Logs of older versions have other reasons, which are not counted.
_LABEL_OF_OMISSION: Mapping[str, Filtered] = {
    "below the threshold": "below_threshold",
    "the prompt does not resume it": "below_threshold",
    "nothing relevant is known": "nothing_known",
    "beyond the limit": "beyond_limit",
    "section is full": "beyond_limit",
    "over the budget": "over_budget",
    "supporting item, and nothing relevant to support": "goes_along",
    "confidence too low": "not_sure_enough",
    "duplicate": "said_elsewhere",
    "repeats a shown item": "said_elsewhere",
    "covered by its turn": "said_elsewhere",
    "covered by a memory": "said_elsewhere",
    "shown on another memory's line": "said_elsewhere",
    "its state is already shown": "said_elsewhere",
    "its memory is no longer valid": "outdated",
    "repeats an outdated memory": "outdated",
    "perhaps replaced": "outdated",
    "too old": "outdated",
    "said in this session": "before_the_agent",
    "already in this session": "before_the_agent",
}


class Metrics:
    """The metrics of one instance. Thread-safe."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self._label_values: dict[str, set[str]] = {}
        self._lock = Lock()
        self._cut_events = Counter("memory_events_cut", "Events that were truncated at intake.", registry=registry)
        self._cut_characters = Counter(
            "memory_characters_cut", "Characters cut from events at intake.", registry=registry
        )
        self._cut_values = Counter(
            "memory_values_cut", "Items and fields cut from events at intake.", registry=registry
        )
        self._hits = Counter("memory_analysis_cache_hits", "Analyses that were in the cache.", registry=registry)
        self._misses = Counter(
            "memory_analysis_cache_misses", "Analyses that were not in the cache.", registry=registry
        )
        self._cached = Gauge("memory_cache_size", "Analyses in the cache.", registry=registry)
        self._analysed = Counter("memory_analysis_success", "Sessions analysed.", ["provider"], registry=registry)
        self._failed = Counter(
            "memory_analysis_failure", "Analyses that failed.", ["provider", "error_type"], registry=registry
        )
        self._took = Histogram(
            "memory_analysis_duration_seconds",
            "One analysis.",
            ["provider"],
            buckets=ANALYSIS_BUCKETS,
            registry=registry,
        )
        self._preferences = Counter(
            "memory_preference_extraction_failures",
            "Preferences that could not be stored.",
            ["reason"],
            registry=registry,
        )
        self._queries = Counter("rag_queries_hybrid", "Searches by words and meaning.", ["status"], registry=registry)
        self._results = Histogram(
            "rag_results_count", "Results of a search.", buckets=_RESULT_BUCKETS, registry=registry
        )
        self._average = Gauge("rag_avg_score", "Mean score of the last search's results.", registry=registry)
        self._filtered = Counter("rag_results_filtered", "Results that were left out.", ["reason"], registry=registry)
        self._recall = Histogram(
            "filrouge_recall_seconds", "Recall latency per prompt.", buckets=_RECALL_BUCKETS, registry=registry
        )
        self._hook = Histogram(
            "filrouge_hook_seconds",
            "The daemon's part of a hook.",
            ["event"],
            buckets=_RECALL_BUCKETS,
            registry=registry,
        )
        self._threads_searched = Counter(
            "filrouge_thread_searches", "Searches for threads.", ["status"], registry=registry
        )
        self._injected = Counter("filrouge_recall_tokens", "Injected tokens.", ["occasion"], registry=registry)
        self._requests = Counter(
            "filrouge_http_requests", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self._received = Gauge("filrouge_events_received", "Events received, by event number.", registry=registry)
        self._jobs = Gauge("filrouge_jobs", "Jobs in the queue.", ["state"], registry=registry)
        self._events = Gauge("filrouge_events", "Events received, by state.", ["state"], registry=registry)
        self._threads = Gauge("filrouge_threads", "Threads, by state.", ["state"], registry=registry)
        self._continued = Gauge("filrouge_threads_continued", "Threads of two sessions or more.", registry=registry)
        self._could = Gauge(
            "filrouge_threads_could_continue", "Threads that could have two sessions or more.", registry=registry
        )
        self._rate = Gauge(
            "filrouge_thread_continuation_rate", "The share of these threads that have.", registry=registry
        )
        call_labels = ["provider", "model", "operation"]
        self._calls = Counter("filrouge_llm_calls", "Calls to language models.", call_labels, registry=registry)
        self._tokens = Counter(
            "filrouge_llm_tokens", "Tokens of these calls.", [*call_labels, "direction"], registry=registry
        )
        self._cost = Counter(
            "filrouge_llm_cost_dollars", "Price of these calls, if known.", call_labels, registry=registry
        )
        self._sockets = Gauge("filrouge_live_sockets", "WebSockets subscribed to the live feed.", registry=registry)
        self._lost = Counter("filrouge_live_lost", "Messages lost where a socket read too slowly.", registry=registry)

    def set_live_sockets(self, number: int) -> None:
        """Set the number of sockets that receive the live feed."""
        self._sockets.set(number)

    def count_lost_messages(self, number: int) -> None:
        """Count messages that were dropped because a socket read too slowly."""
        self._lost.inc(number)

    def count_cache_lookup(self, *, hit: bool) -> None:
        """Count a lookup in the analysis cache."""
        (self._hits if hit else self._misses).inc()

    def record_analysis(self, provider: str, seconds: float) -> None:
        """Record that a session was analysed, and the duration in seconds."""
        label = self._limit_values("provider", provider or "heuristic")
        self._analysed.labels(provider=label).inc()
        self._took.labels(provider=label).observe(seconds)

    def record_analysis_failure(self, provider: str, error: BaseException) -> None:
        """Count an analysis that ended with an error."""
        kind = self._limit_values("error_type", type(error).__name__)
        self._failed.labels(provider=self._limit_values("provider", provider or "heuristic"), error_type=kind).inc()

    def count_lost_preferences(self, reason: PreferenceFailure, number: int = 1) -> None:
        """Count preferences that could not be stored."""
        self._preferences.labels(reason=reason).inc(number)

    @contextmanager
    def search(self) -> Generator[list[Ranking]]:
        """Context manager around one search; the caller appends its rankings to the yielded list."""
        rankings: list[Ranking] = []
        with on_failure(lambda: self._queries.labels(status="error").inc()):
            yield rankings
        self._queries.labels(status="success").inc()
        scores = [hit.score for ranking in rankings for hit in ranking.hits]
        self._results.observe(len(scores))
        self._average.set(sum(scores) / len(scores) if scores else 0.0)

    @contextmanager
    def thread_search(self) -> Generator[None]:
        """Context manager around one search for threads."""
        with on_failure(lambda: self._threads_searched.labels(status="error").inc()):
            yield
        self._threads_searched.labels(status="success").inc()

    def count_injected(self, occasion: Literal["prompt", "start"], tokens: int) -> None:
        """Count tokens that were injected."""
        self._injected.labels(occasion=occasion).inc(tokens)

    def count_request(self, method: str, route: str, status: int) -> None:
        """Count an answered request.

        Args:
            route: the declared path of the route, with parameter names, so there are as many values as routes; empty
                if no route matched.
        """
        self._requests.labels(
            method=method if method in _METHODS else OTHER,
            route=route or OTHER,
            status=f"{status // 100}xx",
        ).inc()

    def count_filtered(self, reason: Filtered, number: int) -> None:
        """Count results that a search filtered out."""
        if number:
            self._filtered.labels(reason=reason).inc(number)

    def record_recall(self, items: Iterable[RecallItem], seconds: float) -> None:
        """Record a finished recall for a prompt: its duration in seconds, and why candidates were not injected."""
        self._recall.observe(seconds)
        for item in items:
            if not item.injected and item.reason in _LABEL_OF_OMISSION:
                self.count_filtered(_LABEL_OF_OMISSION[item.reason], 1)

    @contextmanager
    def hook(self, event: str) -> Generator[None]:
        """Context manager that measures the daemon's work for one hook event."""
        start = monotonic()
        yield
        self._hook.labels(event=self._limit_values("event", event)).observe(monotonic() - start)

    def count_cut(self, cut: CutCounts) -> None:
        """Count what was cut from events at intake."""
        self._cut_events.inc(cut.events)
        self._cut_characters.inc(cut.characters)
        self._cut_values.inc(cut.values)

    def count_model_calls(self, operation: Operation, by_model: Mapping[tuple[str, str], Usage]) -> None:
        """Count calls, tokens and cost of model calls, by (provider, model)."""
        for (provider, model), usage in by_model.items():
            labels = {
                "provider": self._limit_values("provider", provider),
                "model": self._limit_values("model", model),
                "operation": operation,
            }
            self._calls.labels(**labels).inc(usage.calls)
            self._tokens.labels(**labels, direction="input").inc(usage.input_tokens)
            self._tokens.labels(**labels, direction="output").inc(usage.output_tokens)
            self._cost.labels(**labels).inc(usage.dollars or 0.0)

    def render(
        self,
        *,
        jobs: Mapping[str, int],
        events: Mapping[str, int],
        received: int,
        cached: int,
        threads: Mapping[str, int],
        continuation: tuple[int, int],
    ) -> bytes:
        """Return all metrics in Prometheus' text format 0.0.4.

        Args:
            jobs, events, threads: the number in each state.
            received: the highest event number so far.
            cached: analyses in the cache.
            continuation: how many threads have prompts from two or more sessions, and how many could have.
        """
        self._cached.set(cached)
        self._received.set(received)
        continued, could_continue = continuation
        self._continued.set(continued)
        self._could.set(could_continue)
        self._rate.set(continued / could_continue if could_continue else 0.0)
        for gauge, counts in ((self._jobs, jobs), (self._events, events), (self._threads, threads)):
            for state, count in counts.items():
                gauge.labels(state=state).set(count)
        return generate_latest(_WithoutCreationTimes(self._registry))

    def _limit_values(self, label: str, value: str) -> str:
        """Return the value, or `other` if the label already has its maximum number of values."""
        value = value[:_MAX_VALUE_CHARS]
        with self._lock:
            values = self._label_values.setdefault(label, set())
            if value not in values and len(values) >= MAX_LABEL_VALUES:
                return OTHER
            values.add(value)
        return value


class _WithoutCreationTimes(CollectorRegistry):
    """A view of a registry without the `_created` samples (creation times of metrics), which carry no information."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self._full_registry = registry

    def collect(self) -> Iterable[Metric]:
        for metric in self._full_registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
