"""Of tool output only what tells something is read, and of that at most 500 characters."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.extraction.tool_output import (
    KEEP_THRESHOLD,
    MAX_SUMMARY_CHARS,
    MIN_ANSWER_CHARS,
    answer_of,
    extract_answer,
    extract_lines,
    informativeness,
    judge_by_rules,
)

FOUND = (
    "I traced the slow export to the PDF writer. The root cause is that the font is embedded once for each page,"
    " therefore a document of 200 pages holds 200 fonts. Embedding it once fixed it."
)
FAILED = (
    "tests/test_export.py:41: in test_export\n    render(order)\nE   ValueError: total is negative after the refund\n"
    "1 failed, 12 passed in 3.10s\nThe assertion was made on the gross amount instead of the net amount"
)
PROGRESS = "\n".join(f"Downloading package-{n} [######    ] {n}% eta 0:0{n % 10}" for n in range(40))
LISTING = "\n".join(f"-rw-r--r-- 1 ana ana {n} Jan 1 10:00 file{n}.py" for n in range(30))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=120),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("name", ["content", "output", "result", "text", "message"])
def test_the_answer_of_a_task_is_in_one_of_five_fields(name: str) -> None:
    assert extract_answer(json.dumps({"status": "completed", "prompt": "x" * 400, name: FOUND})) == FOUND


def test_content_may_be_blocks_and_an_answer_may_be_wrapped_twice() -> None:
    blocks = [{"type": "text", "text": FOUND}, {"type": "image"}, {"type": "text", "text": "Nothing else."}]
    assert extract_answer(json.dumps({"content": blocks})) == f"{FOUND}\nNothing else."
    assert extract_answer(json.dumps({"result": {"output": FOUND}})) == FOUND


def test_fields_come_in_their_order_and_a_short_one_is_passed_over() -> None:
    assert answer_of({"message": "m" * 60, "output": "o" * 60, "content": "ok"}) == "o" * 60


def test_without_such_a_field_the_longest_text_is_the_answer_but_never_a_status() -> None:
    wrapped = {"retrieval_status": "s" * 300, "type": "t" * 200, "task": {"status": "u" * 200, "notes": "n" * 90}}
    assert answer_of(wrapped) == "n" * 90
    assert answer_of({"status": "s" * 300, "id": "short"}) == ""


def test_plain_text_is_kept_when_it_is_long_enough() -> None:
    assert extract_answer("p" * (MIN_ANSWER_CHARS + 1)) == "p" * (MIN_ANSWER_CHARS + 1)
    assert extract_answer("p" * MIN_ANSWER_CHARS) == ""


@pytest.mark.parametrize("output", [FOUND, FAILED, json.dumps({"content": FOUND})])
def test_what_tells_something_is_kept(output: str) -> None:
    found = judge_by_rules(output)
    assert found.is_kept
    assert found.summary


@pytest.mark.parametrize(
    "output",
    ["", "ok", "a" * 90, PROGRESS, LISTING, json.dumps({"rows": list(range(200))}), json.dumps([{"id": 1}] * 50)],
)
def test_what_tells_nothing_is_not(output: str) -> None:
    found = judge_by_rules(output)
    assert (found.is_kept, found.summary) == (False, "")


def test_a_long_output_keeps_the_lines_that_tell_most_in_their_order() -> None:
    lines = [f"step {n} of the run was carried out on the machine as planned" for n in range(20)]
    lines[11] = "fatal: the root cause is a stale lock in the registry"
    kept = extract_lines("\n".join(lines)).splitlines()
    assert lines[11] in kept
    assert kept == [line for line in lines if line in kept]


def test_a_marker_of_a_secret_is_not_kept() -> None:
    assert "redacted" not in extract_lines("The token [redacted:api-key] was refused because it had expired last week.")


@settings(deadline=None)
@given(st.text(max_size=4000) | st.sampled_from([FOUND, FAILED, PROGRESS, LISTING]) | JSON_VALUES.map(json.dumps))
def test_any_output_has_a_score_and_a_summary_within_bounds(output: str) -> None:
    found = judge_by_rules(output)
    assert 0.0 <= found.score <= 1.0
    assert len(found.summary) <= MAX_SUMMARY_CHARS
    assert found.is_kept == (found.score >= KEEP_THRESHOLD)
    assert bool(found.summary) <= found.is_kept


@settings(deadline=None)
@given(JSON_VALUES)
def test_an_answer_is_long_enough_or_none(value: object) -> None:
    answer = answer_of(value)
    assert answer == "" or len(answer) > MIN_ANSWER_CHARS


def test_repetition_makes_a_text_tell_less() -> None:
    assert informativeness(FOUND) > informativeness("retry the request again now please " * 20)
