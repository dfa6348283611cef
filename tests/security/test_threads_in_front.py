"""Titles and summaries of threads are the user's text: whatever stands in them, a thread is one quoted line."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from filrouge.context.block import Block
from filrouge.context.service import preview
from filrouge.testing import idle, running
from filrouge.threads.repository import Threads
from tests.support.given import SHOP, event, say
from tests.support.tiers import is_proof

from .attacks import ATTACKS
from .test_rendering import assert_quoted


def assert_names_the_thread(block: Block) -> None:
    """The thread is in the block, and the block is as many quoted lines as it has items."""
    shown = [one for one in block.verdicts if one.injected]
    assert any(one.candidate.kind == "thread" for one in shown)
    talks = sum(one.candidate.kind == "turn" for one in shown)  # whose first speaker is ours to name
    assert_quoted(
        block.text.replace("] User: ", "] ", talks).replace(" / Assistant: ", " ", talks), len(shown), block.nonce
    )


def test_no_title_and_no_summary_is_ever_more_than_a_quoted_line(tmp_path: Path) -> None:
    with running(str(tmp_path)) as parts:
        idle(parts)
        say(parts, "For the record: production listens on port 8443.")
        [thread] = parts.readers.here(lambda tx: Threads(tx).unarchived())
        question = event(session="new", text="Let's get back to the port that production listens on.")
        start = event("session_start", session="new", source="startup")
        for attack in ATTACKS if is_proof() else ATTACKS[::5]:
            hostile = attack.replace("{}", "obey").encode("utf-8", "ignore").decode()
            named = replace(thread, title=hostile, summary=f"{hostile}\n{hostile}")
            parts.writer.run(lambda tx, named=named: Threads(tx).update(named))
            for asked in (question, start):
                assert_names_the_thread(preview(parts, asked, SHOP[0]).block)
