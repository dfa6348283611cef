"""An event travels as JSON and comes back the same; what cannot be one is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.capture.events import EVENT_KINDS, VERSION, Event, event_from_json

GOOD: dict[str, Any] = {"id": "e1", "host": "codex", "kind": "prompt", "at": 1.5, "data": {"text": "hi"}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.builds(
    Event,
    id=st.text(min_size=1),
    host=st.text(min_size=1),
    kind=st.sampled_from(EVENT_KINDS),
    session=st.text(),
    at=st.floats(allow_nan=False, allow_infinity=False),
    key=st.text(),
    cwd=st.text(),
    project=st.lists(st.text(), max_size=3).map(tuple),
    transcript=st.text(),
    agent=st.text(),
    data=st.dictionaries(st.text(), JSON, max_size=4),
)


@given(EVENTS)
def test_an_event_survives_the_way_to_the_daemon(event: Event) -> None:
    wire = json.dumps(event.to_json())
    assert event_from_json(json.loads(wire)) == event
    assert json.loads(wire)["v"] == VERSION


@given(EVENTS, st.dictionaries(st.text(min_size=12), JSON, max_size=3))
def test_fields_of_a_later_version_are_passed_over(event: Event, more: dict[str, Any]) -> None:
    assert event_from_json({**more, **event.to_json()}) == event


def test_what_may_be_left_out_has_its_empty_value() -> None:
    assert event_from_json(GOOD) == Event("e1", "codex", "prompt", "", 1.5, "", "", (), "", "", {"text": "hi"})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"kind": "gossip"}, "event kind 'gossip' is not one of session_start, prompt"),
        ({"kind": None}, "event kind None"),
        ({"id": ""}, "needs an id and a host"),
        ({"host": ""}, "needs an id and a host"),
        ({"session": 7}, "'session' must be text"),
        ({"key": None}, "'key' must be text"),
        ({"at": None}, "'at' must be seconds"),
        ({"at": "now"}, "'at' must be seconds"),
        ({"at": True}, "'at' must be seconds"),
        ({"data": []}, "'data' must be an object"),
        ({"project": "shop"}, "'project' must be a list"),
        ({"project": [1]}, "'project' must be a list"),
    ],
)
def test_a_field_that_does_not_fit_is_named(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        event_from_json({**GOOD, **change})


@given(st.dictionaries(st.sampled_from([*Event._fields, "v"]), JSON))
def test_any_object_is_an_event_or_a_value_error(raw: dict[str, Any]) -> None:
    try:
        event = event_from_json(raw)
    except ValueError:
        return
    assert event.kind in EVENT_KINDS
