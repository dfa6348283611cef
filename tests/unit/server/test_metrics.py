"""What Prometheus is told: names, types, labels and buckets are a promise, and counters move when things happen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from filrouge.core.errors import NotFound
from filrouge.core.paths import socket_path
from filrouge.providers.models import Usage
from filrouge.runtime.metrics import MAX_LABEL_VALUES, Metrics
from filrouge.search.models import Omission, RecallItem
from filrouge.search.retrievers import HybridQuery, hybrid_query
from filrouge.search.service import Question, recall
from filrouge.testing import idle

from .conftest import Api
from .test_routes import PORT, QUESTION, SHOP, event

PAGE = Path(__file__).parents[3] / "docs/reference/metrics.md"
#: Name without its suffix, type, labels.
PROMISED = {
    ("memory_events_cut", "counter", ()),
    ("memory_characters_cut", "counter", ()),
    ("memory_values_cut", "counter", ()),
    ("memory_analysis_cache_hits", "counter", ()),
    ("memory_analysis_cache_misses", "counter", ()),
    ("memory_cache_size", "gauge", ()),
    ("memory_analysis_success", "counter", ("provider",)),
    ("memory_analysis_failure", "counter", ("error_type", "provider")),
    ("memory_analysis_duration_seconds", "histogram", ("provider",)),
    ("memory_preference_extraction_failures", "counter", ("reason",)),
    ("rag_queries_hybrid", "counter", ("status",)),
    ("rag_results_count", "histogram", ()),
    ("rag_avg_score", "gauge", ()),
    ("rag_results_filtered", "counter", ("reason",)),
    ("filrouge_recall_seconds", "histogram", ()),
    ("filrouge_hook_seconds", "histogram", ("event",)),
    ("filrouge_jobs", "gauge", ("state",)),
    ("filrouge_threads", "gauge", ("state",)),
    ("filrouge_threads_continued", "gauge", ()),
    ("filrouge_threads_could_continue", "gauge", ()),
    ("filrouge_thread_continuation_rate", "gauge", ()),
    ("filrouge_events", "gauge", ("state",)),
    ("filrouge_events_received", "gauge", ()),
    ("filrouge_recall_tokens", "counter", ("occasion",)),
    ("filrouge_thread_searches", "counter", ("status",)),
    ("filrouge_http_requests", "counter", ("method", "route", "status")),
    ("filrouge_live_sockets", "gauge", ()),
    ("filrouge_live_lost", "counter", ()),
    ("filrouge_llm_calls", "counter", ("model", "operation", "provider")),
    ("filrouge_llm_tokens", "counter", ("direction", "model", "operation", "provider")),
    ("filrouge_llm_cost_dollars", "counter", ("model", "operation", "provider")),
}


def test_each_reason_why_a_candidate_is_left_out_is_counted() -> None:
    for reason in get_args(Omission):
        meters = Metrics()
        meters.record_recall([RecallItem(id="1", kind="fact", injected=False, reason=reason, scores={})], 0.1)
        [family] = [
            family
            for family in text_string_to_metric_families(rendered(meters))
            if family.name == "rag_results_filtered"
        ]
        assert sum(sample.value for sample in family.samples if sample.name.endswith("_total")) == 1, reason


def everything_once() -> str:
    meters = Metrics()
    meters.count_cache_lookup(hit=True)
    meters.count_cache_lookup(hit=False)
    meters.record_analysis("heuristic", 0.3)
    meters.record_analysis_failure("ollama", TimeoutError())
    meters.count_lost_preferences("user_identifier_missing")
    with meters.search():
        pass
    meters.count_filtered("below_threshold", 2)
    meters.record_recall([], 0.1)
    with meters.hook("prompt"):
        pass
    meters.count_injected("prompt", 120)
    with meters.thread_search():
        pass
    meters.count_request("GET", "/health", 200)
    meters.count_model_calls(
        "extract", {("openai", "small"): Usage(calls=1, input_tokens=90, output_tokens=10, dollars=0.02)}
    )
    return rendered(meters)


def rendered(meters: Metrics) -> str:
    return meters.render(
        jobs={"waiting": 3}, events={"done": 4}, received=4, cached=2, threads={"active": 5}, continuation=(2, 4)
    ).decode()


def values(text: str) -> dict[str, float]:
    """Every sample by its name and labels."""
    return {
        sample.name + "".join(f"|{value}" for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scraped(api: Api) -> dict[str, float]:
    with httpx.Client(transport=httpx.HTTPTransport(uds=socket_path(api.home))) as client:
        answer = client.get("http://filrouge/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return values(answer.text)


def test_names_types_and_labels_are_as_promised() -> None:
    found = {
        (family.name, family.type, tuple(sorted({name for one in family.samples for name in one.labels} - {"le"})))
        for family in text_string_to_metric_families(everything_once())
    }
    assert found == PROMISED


def test_the_page_names_every_metric_as_it_is_spelt() -> None:
    written = set(re.findall(r"`((?:memory|rag|filrouge)_\w+)`", PAGE.read_text(encoding="utf-8")))
    assert written == {name + ("_total" if type_ == "counter" else "") for name, type_, _ in PROMISED}


def test_the_buckets_of_an_analysis_are_as_promised() -> None:
    own = [name for name in values(everything_once()) if name.startswith("memory_analysis_duration_seconds_bucket")]
    assert [name.rsplit("|", 2)[1] for name in own] == [
        "0.5", "1.0", "2.0", "4.0", "6.0", "10.0", "15.0", "20.0", "30.0", "+Inf",
    ]  # fmt: skip


def test_counters_end_in_total_and_nothing_else_is_shown() -> None:
    found = values(everything_once())
    assert found["memory_analysis_cache_hits_total"] == 1
    assert found["filrouge_llm_tokens_total|input|small|extract|openai"] == 90
    assert found["filrouge_llm_cost_dollars_total|small|extract|openai"] == 0.02
    assert not [name for name in found if "_created" in name]


def test_two_filrouges_in_one_process_do_not_add_up_and_leave_the_programs_own_registry_alone() -> None:
    first, second = Metrics(), Metrics()
    first.count_cache_lookup(hit=True)
    assert (
        values(second.render(jobs={}, events={}, received=0, cached=0, threads={}, continuation=(0, 0)).decode())[
            "memory_analysis_cache_hits_total"
        ]
        == 0
    )
    own = {metric.name for metric in REGISTRY.collect()}
    assert not [name for name in own if name.startswith(("memory_analysis", "rag_", "filrouge_"))]


def test_counters_move_when_a_prompt_is_answered(api: Api) -> None:
    before = scraped(api)
    api.remember(PORT, SHOP)
    api.ask("POST", "/hooks/events", {"events": [event(text=QUESTION)], "context": True})
    api.ask("POST", "/hooks/events", {"events": [event(text="Which pizza is the best one here?")], "context": True})
    api.get("/api/memory/search?q=port&mode=hybrid")
    after = scraped(api)
    queries = 2 * 3  # memories and conversations each, for two prompts and a search
    assert after["rag_queries_hybrid_total|success"] == before.get("rag_queries_hybrid_total|success", 0) + queries
    assert after["rag_results_count_count"] == before["rag_results_count_count"] + queries
    assert after["filrouge_recall_seconds_count"] == 2
    assert after["filrouge_hook_seconds_count|prompt"] == 2
    assert after["filrouge_events|done"] + after.get("filrouge_events|queued", 0) >= 1
    assert {"filrouge_jobs|waiting", "filrouge_jobs|running", "filrouge_jobs|dead"} <= after.keys()


def test_what_a_threshold_cuts_off_is_counted(api: Api) -> None:
    api.remember(PORT, SHOP)
    query = HybridQuery(collection="memories", text="port of production", min_relevance=1.0)
    api.parts.readers.here(lambda tx: hybrid_query(api.parts, tx, query))
    assert scraped(api)["rag_results_filtered_total|below_relevance"] == 1


def test_requests_are_counted_by_route_and_class_of_status_and_no_id_is_in_a_label(api: Api) -> None:
    [action] = api.remember(PORT, SHOP)
    for name in (action["id"], action["id"], "nobody"):
        api.ask("GET", f"/api/memory/memories/{name}")
    api.ask("GET", "/nowhere")
    api.ask("BREW", "/nowhere")
    found = scraped(api)
    route = "filrouge_http_requests_total|GET|/api/memory/memories/{memory_id}"
    assert (found[f"{route}|2xx"], found[f"{route}|4xx"]) == (2, 1)
    assert found["filrouge_http_requests_total|GET|other|4xx"] == 1
    assert found["filrouge_http_requests_total|other|other|4xx"] == 1
    assert not [name for name in found if action["id"] in name or "nobody" in name or "nowhere" in name]


def test_the_ledger_is_exported_and_adds_up(api: Api) -> None:
    api.ask("POST", "/hooks/events", {"events": [event(text=QUESTION)]})
    api.ask("POST", "/hooks/events", {"events": [event("session_start", source="startup")]})
    idle(api.parts)
    found = scraped(api)
    states = {name: value for name, value in found.items() if name.startswith("filrouge_events|")}
    assert set(states) == {f"filrouge_events|{one}" for one in ("queued", "done", "skipped", "dead", "forgotten")}
    assert found["filrouge_events_received"] == sum(states.values()) == 2


def test_tokens_and_searches_for_threads_are_counted(api: Api) -> None:
    api.remember(PORT, SHOP)
    asked = {"prompt": QUESTION, "project": [SHOP], "session_id": "s"}
    assert api.ask("POST", "/memory/context", asked).status == 200
    api.get("/api/memory/search?q=port&collection=threads")
    assert api.ask("GET", "/api/memory/search?q=port&collection=threads&role=user").status == 400
    api.parts.writer.run(lambda _: None)  # the log is written after the answer
    found = scraped(api)
    [recall_] = api.get("/api/memory/retrievals")
    assert found["filrouge_recall_tokens_total|prompt"] == recall_["total_tokens_added"]
    assert found["filrouge_thread_searches_total|success"] == 1
    assert found["filrouge_thread_searches_total|error"] == 1


@given(st.lists(st.text(max_size=200), max_size=300))
def test_a_label_that_comes_from_outside_has_a_bounded_number_of_values(names: list[str]) -> None:
    meters = Metrics()
    for name in names:
        meters.count_model_calls("extract", {(name, name): Usage(calls=1)})
        meters.record_analysis(name, 0.1)
        with meters.hook(name):
            pass
    text = meters.render(jobs={}, events={}, received=0, cached=0, threads={}, continuation=(0, 0)).decode()
    for family in text_string_to_metric_families(text):
        for label in ("provider", "model", "event"):
            values_ = {one.labels[label] for one in family.samples if label in one.labels}
            assert len(values_) <= MAX_LABEL_VALUES + 1
            assert all(len(value) <= 100 for value in values_)


def test_a_search_that_fails_is_counted_as_that(api: Api) -> None:
    query: Any = HybridQuery(collection="memories", text="port", where={"project": "nowhere"})
    with pytest.raises(NotFound):
        api.parts.readers.here(lambda tx: hybrid_query(api.parts, tx, query))
    assert scraped(api)["rag_queries_hybrid_total|error"] == 1
    api.parts.readers.here(lambda tx: recall(api.parts, tx, Question(text="port", everywhere=True)))
    assert scraped(api)["rag_queries_hybrid_total|success"] == 1
