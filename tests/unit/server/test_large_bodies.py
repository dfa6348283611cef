"""A body that is too large is cut while it comes in: what is left is JSON, begins as it did, and says what went."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.capture.events import MAX_TEXT_CHARACTERS, MAX_VALUES
from filrouge.server.admission import MAX_ITEM_CHARS, MAX_ITEM_VALUES, MAX_STRING_CHARS, JsonCutter

MARK = re.compile(r"\n\[filrouge: (\d+) characters cut\]\Z")


def cut(raw: bytes, piece: int = 65_536) -> bytes:
    cutter = JsonCutter()
    pieces = [raw[at : at + piece] for at in range(0, len(raw), piece)] or [b""]
    return b"".join(cutter.feed(one, is_last=n == len(pieces) - 1) for n, one in enumerate(pieces))


def body(data: Any) -> dict[str, Any]:
    return {"events": [{"id": "1", "data": data, "kind": "prompt"}], "context": False}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.integers(1, 40), st.booleans())
def test_what_is_not_too_large_passes_to_the_byte_however_it_comes(value: Any, piece: int, ascii_only: bool) -> None:
    raw = json.dumps(body(value), ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert cut(raw, piece) == raw


@given(st.binary(max_size=200), st.integers(1, 30))
def test_what_is_no_json_passes_to_the_byte_too(raw: bytes, piece: int) -> None:
    assert cut(raw, piece) == raw


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("unit", ["plain prose. ", "😀", 'é€"', "\\😀\\\\ ue00\n"])
@pytest.mark.parametrize("piece", [1_021, 65_536])
def test_a_long_text_keeps_its_beginning_to_the_letter_and_counts_the_rest(
    unit: str, piece: int, ascii_only: bool
) -> None:
    text = unit * ((MAX_STRING_CHARS + 50_000) // len(unit) + 1)
    raw = json.dumps(body({"text": text}), ensure_ascii=ascii_only).encode()
    found = json.loads(cut(raw, piece))
    said = found["events"][0]["data"]["text"]
    mark = MARK.search(said)
    assert mark
    kept = said[: mark.start()]
    # Not by `==`: of texts that differ the difference would be looked for, which takes minutes.
    assert (len(kept) >= MAX_TEXT_CHARACTERS, text.startswith(kept), len(kept) + int(mark[1])) == (
        True,
        True,
        len(text),
    )
    assert (found == body({"text": said})) is True


def test_many_long_texts_of_one_event_share_what_is_kept_and_the_next_event_has_its_own() -> None:
    texts = [str(n) + "x" * 150_000 for n in range(10)]
    events = [{"id": str(n), "data": {"calls": [{"output": text} for text in texts]}} for n in range(3)]
    found = json.loads(cut(json.dumps({"events": events}).encode()))
    for event in found["events"]:
        outputs = [call["output"] for call in event["data"]["calls"]]
        assert outputs[:1] == texts[:1]
        assert sum(map(len, outputs)) < MAX_ITEM_CHARS + 10 * 1_100
        assert [text[0] for text in outputs] == [str(n) for n in range(10)]


def test_many_values_are_cut_within_their_containers_and_the_events_own_fields_stay() -> None:
    lines = [{"line": f"number {n}", "at": [n, n]} for n in range(10_000)]
    call = {"name": "Bash", "id": "c1", "output": lines, "failed": False}
    events = [{"id": str(n), "data": {"calls": [call]}, "kind": "tools", "key": "k"} for n in range(2)]
    raw = cut(json.dumps({"events": events}).encode())
    assert len(raw) < 2 * 60 * MAX_ITEM_VALUES
    for n, event in enumerate(json.loads(raw)["events"]):
        assert (event["id"], event["kind"], event["key"]) == (str(n), "tools", "k")
        [kept] = event["data"]["calls"]
        *whole, last, mark = kept["output"]
        assert whole == lines[: len(whole)]
        assert len(whole) > MAX_VALUES / 4
        assert last["line"] == lines[len(whole)]["line"]
        assert mark == f"[filrouge: {len(lines) - len(whole) - 1} items cut]"
        assert kept["failed"] is False


def test_one_object_of_many_fields_is_cut() -> None:
    fields = {f"field{n}": n for n in range(50_000)}
    found = json.loads(cut(json.dumps(body(fields)).encode()))
    assert found["events"][0]["kind"] == "prompt"
    left = found["events"][0]["data"]
    assert len(left) <= 2 * MAX_ITEM_VALUES + 2
    assert left["filrouge"] == f"[filrouge: {50_000 - len(left) + 1} fields cut]"
