"""Filrouge's own words, however they come back."""

from __future__ import annotations

import html
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.capture.events import is_disabled, is_internal, strip_injected_blocks

OPEN, CLOSE = '<filrouge-memory nonce="3f9a">', "</filrouge-memory 3f9a>"
BLOCK = f"{OPEN}\n- production is on port 9443\n{CLOSE}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no block", "no block"),
        (BLOCK, ""),
        (f"before {BLOCK} after", "before  after"),
        (f"SessionStart hook additional context: {BLOCK}", "SessionStart hook additional context: "),
        (f"a {BLOCK} b {BLOCK.replace('3f9a', 'beef')} c", "a  b  c"),
        (f"a {OPEN.replace('3f9a', '0123456789abcdef')} cut by the host", "a "),
        (f"a {OPEN} is what it writes, says Ana", "a  is what it writes, says Ana"),
        ("why does <filrouge-memory> show up?", "why does  show up?"),
        (f"a {OPEN} b {BLOCK.replace('3f9a', 'beef')} c", "a  b  c"),
        ('a <filrouge-memory nonce="3f', "a "),
        (f"a {OPEN} x </filrouge-memory dead> y {CLOSE} b", "a  b"),
        (f"a {OPEN} x {OPEN} y {CLOSE} b", "a  b"),
        (html.escape(f"a {BLOCK} b"), "a  b"),
        (f"a {BLOCK} b".replace("<", "\\u003c").replace(">", "\\u003e"), "a  b"),
        (json.dumps(f"a {BLOCK} b"), '"a  b"'),
        (json.dumps(json.dumps(f"a {BLOCK} b")), '"\\"a  b\\""'),
        ("I like filrouge-memory, the tool", "I like filrouge-memory, the tool"),
    ],
)
def test_our_own_block_goes_and_the_rest_stays(text: str, expected: str) -> None:
    assert strip_injected_blocks(text) == expected


@given(st.text(), st.text(alphabet="0123456789abcdef", min_size=8, max_size=32), st.text())
def test_what_we_wrap_never_comes_back(before: str, nonce: str, memory: str) -> None:
    text = f'{before}<filrouge-memory nonce="{nonce}">canary{memory}</filrouge-memory {nonce}>'
    assert "canary" not in strip_injected_blocks(text)


def test_variables_turn_hooks_off() -> None:
    assert is_internal({"FILROUGE_INTERNAL": "1"})
    assert not is_internal({"FILROUGE_INTERNAL": ""})
    assert [is_disabled({"FILROUGE_DISABLED": v}) for v in ("1", "true", " YES ", "0", "", "no")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
