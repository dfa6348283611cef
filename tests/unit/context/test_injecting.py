"""What goes in front of a model, from its sources to the log."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from filrouge.capture.service import store_events
from filrouge.context.block import build_block, parse
from filrouge.context.models import Candidate
from filrouge.context.request import ContextRequest
from filrouge.context.service import (
    build_and_log,
    build_and_log_text,
    collect_candidates,
    preview,
    render_options_for,
    result_json,
)
from filrouge.context.sources import hints
from filrouge.core.protocols import Tx
from filrouge.core.scope import Scope
from filrouge.memories.changes import bin_memory, pin, put_fact, remember
from filrouge.memories.models import Span, Statement
from filrouge.memories.repository import Doubts, Origin
from filrouge.memories.service import switch
from filrouge.runtime.services import Parts
from filrouge.testing import idle, running
from tests.support.given import SHOP, ask, event, known, log, say

PORT = "For the record: production listens on port 8443."
QUESTION = "What port does production listen on?"


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path)) as found:
        idle(found)
        yield found


def start(parts: Parts) -> str:
    return build_and_log_text(parts, event("session_start", source="startup"), SHOP[0])


def asked(parts: Parts) -> ContextRequest:
    """The moment of a prompt of which nothing is known."""
    request = preview(parts, event(text=QUESTION), SHOP[0]).request
    assert request is not None
    assert request.offered == []
    return request


def broken(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    raise RuntimeError("this source is ill")


def well(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    return [Candidate(id="1", kind="fact", section="facts", text="still here", value=0.9)]


def test_a_source_that_fails_is_left_out_with_a_notice_and_the_others_go_on(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    moment = asked(parts)
    pieces = parts.readers.here(lambda tx: collect_candidates(parts, tx, moment, {"ill": broken, "well": well}))
    assert parse(build_block(pieces, render_options_for(moment)).text) == ["[unknown] still here"]
    assert moment.notices == ["ill failed and was left out"]
    assert "this source is ill" in caplog.text


def test_a_session_starts_with_rules_then_what_is_known_under_its_headings(parts: Parts) -> None:
    say(parts, "From now on, always use uv and never pip in this repository.")
    put_fact(parts, "user_name", "Ana Beltran", names=(), scope="user")
    remember(parts, "We decided to keep SQLite for the storage.", names=SHOP, scope="project", host="cli")
    headings = [line for line in start(parts).split("\n") if line.startswith("## ")]
    assert headings == ["## Rules", "## Known facts", "## Decisions in force"]
    assert "user_name: Ana Beltran" in start(parts)


def test_a_thread_that_says_only_what_the_memories_say_has_no_line_of_its_own(parts: Parts) -> None:
    say(parts, "From now on, always use uv and never pip in this repository.")
    assert "## Other threads" not in start(parts)
    question = "Which tests of the invoice export fail on Windows, and since when?"
    store_events(parts, [event(text=question, session="another")]).result(60)
    idle(parts)
    assert "invoice export" in start(parts)


def test_core_facts_are_twenty_and_five_hundred_characters_at_the_most_and_nothing_of_them_is_said_twice(
    parts: Parts,
) -> None:
    for n in range(30):
        put_fact(parts, f"key_{n:02}", "x", names=(), scope="user")
    assert len(parse(start(parts))) == 20
    for n in range(30):
        put_fact(parts, f"key_{n:02}", "x" * 60, names=(), scope="user")
    shown = lines(start(parts))
    assert sum(map(len, shown)) <= 500
    assert len(shown) == len(set(shown)) == 7


def test_what_is_perhaps_replaced_is_left_out_unless_it_is_pinned_or_the_newer_is_gone(parts: Parts) -> None:
    for text in ("The vents open at 24 degrees.", "From 26 degrees on we open the roof."):
        remember(parts, text, names=SHOP, scope="project", host="cli")
    older, newer = sorted(hit.id for hit in known(parts, "degrees").hits)
    assert "at 24" in start(parts)
    parts.writer.run(lambda tx: Doubts(tx).add(older, newer))
    assert "at 24" not in start(parts)
    assert "From 26" in start(parts)
    reasons = {one.candidate.id: one.reason for one in preview(parts, event("session_start"), SHOP[0]).block.verdicts}
    assert reasons[older] == "perhaps replaced"
    pin(parts, older, pinned=True)
    assert "at 24" in start(parts)
    pin(parts, older, pinned=False)
    bin_memory(parts, newer)
    assert "at 24" in start(parts)


def remembered(parts: Parts, text: str) -> str:
    """The id of a memory that says this."""
    [action] = remember(parts, text, names=SHOP, scope="project", host="cli")
    return action.memory_id


def lines(block: str) -> list[str]:
    """The texts of a block's lines."""
    return [line.partition("] ")[2] for line in parse(block)]


def test_a_newer_memory_that_the_prompt_does_not_find_stands_behind_what_it_perhaps_replaced(parts: Parts) -> None:
    older, question = remembered(parts, "The vents open at 24 degrees."), "At how many degrees do the vents open?"
    assert lines(ask(parts, question)) == ["The vents open at 24 degrees."]
    for text in ("The roof waits for 26 now.", "Wait for 27 with it."):
        newer = remembered(parts, text)
        assert text not in ask(parts, question)
        parts.writer.run(lambda tx, newer=newer: Doubts(tx).add(older, newer))
        assert lines(ask(parts, question)) == [f"The vents open at 24 degrees. (later: {text})"]


def test_a_newer_memory_that_the_prompt_finds_is_shown_without_what_it_perhaps_replaced(parts: Parts) -> None:
    older, newer = (
        remembered(parts, "The vents open at 24 degrees."),
        remembered(parts, "The roof opens at 26 degrees."),
    )
    question = "At how many degrees do the vents and the roof open?"
    assert len(lines(ask(parts, question))) == 2
    parts.writer.run(lambda tx: Doubts(tx).add(older, newer))
    assert lines(ask(parts, question)) == ["The roof opens at 26 degrees."]


def test_what_a_line_says_already_is_not_put_behind_it_again(parts: Parts) -> None:
    say(parts, "My name is Léa Moreau and I prefer short answers.")
    name, answers = (hit.id for hit in known(parts, "my name and my answers").hits)
    question = "What is my name, and how do I like my answers?"
    before = lines(ask(parts, question))
    assert before == ["My name is Léa Moreau / I prefer short answers."]
    parts.writer.run(lambda tx: Doubts(tx).add(min(name, answers), max(name, answers)))
    assert lines(ask(parts, question)) == before


def test_the_newer_words_stay_on_the_line_of_a_long_memory_in_the_language_of_the_prompt(parts: Parts) -> None:
    older = remembered(parts, "Les volets de la serre s'ouvrent à 24 degrés" + " quand le soleil tape" * 25 + ".")
    newer = remembered(parts, "Attends 27 pour ça.")
    parts.writer.run(lambda tx: Doubts(tx).add(older, newer))
    [line] = lines(ask(parts, "À combien de degrés s'ouvrent les volets de la serre ?"))
    assert line.startswith("Les volets de la serre s'ouvrent à 24 degrés")
    assert line.endswith(" (plus tard : Attends 27 pour ça.)")


def test_a_rule_that_is_switched_off_puts_nothing_in_doubt(parts: Parts) -> None:
    older, question = remembered(parts, "The vents open at 24 degrees."), "At how many degrees do the vents open?"
    rule = remembered(parts, "Never water the beans at noon.")
    parts.writer.run(lambda tx: Doubts(tx).add(older, rule))
    assert "at noon" in ask(parts, question)
    switch(parts, rule, enabled=False)
    assert lines(ask(parts, question)) == ["The vents open at 24 degrees."]


def test_a_preview_is_the_same_and_leaves_no_trace(parts: Parts) -> None:
    say(parts, PORT)
    seen = preview(parts, event(text=QUESTION), SHOP[0])
    assert log(parts) == []
    given = build_and_log(parts, event(text=QUESTION), SHOP[0])
    assert seen.block.text.replace(seen.block.nonce, "") == given.block.text.replace(given.block.nonce, "")
    assert seen.block.verdicts == given.block.verdicts
    [row] = log(parts)
    assert (row["memories_injected"], row["obsidian_notes_injected"], len(row["items"])) == (
        1, 0, len(given.block.verdicts),
    )  # fmt: skip


def test_a_silent_recall_is_logged_with_every_candidate(parts: Parts) -> None:
    say(parts, PORT)
    assert ask(parts, "Which pizza is the best one, production or margherita?") == ""
    [row] = log(parts)
    reasons = [item["reason"] for item in row["items"]]
    assert (row["memories_injected"], reasons) == (0, ["nothing relevant is known", "said in this session"])
    assert {"section", "value", "relevance"} <= row["items"][0].keys()


def test_what_a_program_gets_beside_the_text_is_what_is_in_the_text(parts: Parts) -> None:
    say(parts, PORT)
    body: dict[str, Any] = result_json(build_and_log(parts, event(text=QUESTION), SHOP[0]))
    [memory] = body["memories"]
    assert (memory["type"], memory["channel"], memory["time_ago"]) == ("fact", "claude-code", "just now")
    assert parse(body["context"]) == [f"[just now, claude-code] {memory['content']}"]
    assert (body["notes"], body["notices"]) == ([], [])
    assert memory["timestamp"].startswith("20")


def test_the_prompt_itself_counts_for_the_language_however_much_was_said_before(parts: Parts) -> None:
    say(parts, PORT)
    for word in ("alpha", "beta", "gamma", "delta", "omega"):
        say(parts, f"{word} 42")
    assert "## Souvenirs pertinents" in ask(parts, "Sur quel port est-ce que la production écoute dans le projet ?")


def test_settings_take_effect_at_once(tmp_path: Path) -> None:
    with running(str(tmp_path), environ={"FILROUGE_AUTO_RETRIEVE_ENABLED": "false"}) as parts:
        idle(parts)
        say(parts, PORT)
        off = preview(parts, event(text=QUESTION), SHOP[0])
        assert (off.request, off.block.text, result_json(off, explained=True)["enabled"]) == (None, "", False)
    with running(str(tmp_path), environ={"FILROUGE_AUTO_RETRIEVE_MIN_SCORE": "1"}) as parts:
        idle(parts)
        assert ask(parts, QUESTION) == ""


def test_a_plan_that_bears_on_the_prompt_and_has_no_place_among_the_memories_is_recalled_as_a_plan(
    parts: Parts,
) -> None:
    found = [
        Candidate(id=f"m{n}", kind="fact", section="memories", text=f"memory {n}", value=0.9) for n in range(4)
    ] + [
        Candidate(id="plan", kind="intent", section="memories", text="We will move to SQLite.", value=0.8),
        Candidate(id="far", kind="constraint", section="memories", text="No cloud.", value=0.4),
        Candidate(id="gone", kind="preference", section="memories", text="x", value=0.9, refused="confidence too low"),
    ]
    moment = asked(parts)
    moment.offered.extend(found)  # as a source would that was asked before
    pieces = parts.readers.here(lambda tx: collect_candidates(parts, tx, moment, {"hints": hints}))
    block = build_block(pieces, render_options_for(moment))
    assert block.text.split("\n")[-3:-1] == [
        "## Worth recalling", "- [unknown] Possibly still planned: We will move to SQLite.",
    ]  # fmt: skip
    assert [one.reason for one in block.verdicts if one.candidate.id == "plan"] == ["injected", "section is full"]
    fewer = build_block([one for one in pieces if one.id != "m3"], render_options_for(moment))
    assert [one.reason for one in fewer.verdicts if one.candidate.id == "plan"] == ["injected", "duplicate"]


def test_a_plan_is_recalled_when_its_day_has_come_and_breaks_no_silence(parts: Parts) -> None:
    say(parts, PORT)
    now = parts.clock.now()
    for name, days in {"old queue": -1, "cache": 2, "gateway": -9, "proxy": -40}.items():
        day = (now + timedelta(days=days)).date().isoformat()
        text = f"We will retire the {name} on {day}."
        plan = Statement(kind="intent", text=text, span=Span(start=0, end=0), timeframe=day)
        origin = Origin(scope=Scope(project=SHOP[0]), trust=2, at=now - timedelta(days=20))
        parts.writer.run(lambda tx, plan=plan, origin=origin: parts.memories(tx).add(plan, origin, "told"))
    block = ask(parts, QUESTION)
    assert "Planned for now: We will retire the old queue" in block
    assert block.count("Planned for now") == 1
    assert ask(parts, "Which pizza is the best one, funghi or margherita?") == ""
    assert start(parts).count("We will retire the old queue") == 1
