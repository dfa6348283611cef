"""Decisions that a model wrote: what can be carried out is, each malformed one falls alone, and nothing is invented."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.core.scope import Scope
from filrouge.extraction.model_answers import CheckedDecisions, FactWithNeighbours, StatedIn, check_decisions
from filrouge.memories.models import Add, Conflict, Delete, Memory, Neighbour, Noop, Statement, Update
from tests.support.rows import NOON, statement
from tests.support.tiers import examples

SHOP = Scope(project="name:shop", agent="a1", channel="codex")
PLACE = StatedIn(scope=SHOP, at=NOON)


def memory(id_: str, text: str = "The port is 8443", **other: Any) -> Memory:
    known = Memory(
        id=id_, scope=SHOP, scope_name="project", kind="fact", text=text, trust=2, created_at=NOON, valid_from=NOON
    )
    return replace(known, **other)


def stated(text: str, *shown: Memory) -> FactWithNeighbours:
    one = statement(text, scope="project")
    return FactWithNeighbours(
        statement=one, neighbours=tuple(Neighbour(memory=known, similarity=0.5) for known in shown)
    )


def wrote(action: str, fact: object = 0, **other: object) -> dict[str, object]:
    return {"fact": fact, "action": action, "id": None, "text": None, "reason": "because"} | other


def says_no_more(one: Statement) -> bool:
    """The evidence of these tests: the word `invented` stands in none."""
    return "invented" not in one.text


def judged(raw: object, *facts: FactWithNeighbours, place: StatedIn = PLACE) -> CheckedDecisions:
    return check_decisions(raw, facts, place, says_no_more)


def reason(raw: object, *facts: FactWithNeighbours, place: StatedIn = PLACE) -> str:
    """Why the last of a list is dropped."""
    return judged(raw, *facts, place=place).rejected[-1].reason


OLD, OTHER = memory("m1"), memory("m2", "Billing uses Postgres")
PORT = stated("The port is 9443", OLD, OTHER)


def test_each_action_becomes_its_decision() -> None:
    raw = [
        wrote("add"),
        wrote("update", 1, id="m1"),
        wrote(" DELETE ", 2, id="m2"),
        wrote("noop", 3, id="m3"),
        wrote("conflict", 4, id="m3"),
    ]
    third = memory("m3", "Deploys go to Fly")
    facts = [stated(f"fact {number}", OLD, OTHER, third) for number in range(5)]
    said = [fact.statement for fact in facts]
    assert judged(raw, *facts) == CheckedDecisions(
        decisions={
            0: Add(statement=said[0], reason="because"),
            1: Update(statement=said[1], old_ids=("m1",), reason="because"),
            2: Delete(statement=said[2], old_ids=("m2",), reason="because"),
            3: Noop(statement=said[3], existing_id="m3", reason="because"),
            4: Conflict(statement=said[4], existing_id="m3", reason="because"),
        },
        rejected=(),
        undecided=(),
    )


@pytest.mark.parametrize("raw", [None, {}, "add", 3, float("nan"), {"decisions": []}])
def test_what_is_no_list_decides_nothing(raw: object) -> None:
    found = judged(raw, PORT)
    assert (found.decisions, found.undecided, [one.reason for one in found.rejected]) == (
        {},
        (0,),
        ["it is not a list"],
    )


@pytest.mark.parametrize(
    ("one", "why"),
    [
        ("update m1", "it is not an object"),
        ([], "it is not an object"),
        (wrote("update", None, id="m1"), "it does not name a fact"),
        (wrote("update", True, id="m1"), "it does not name a fact"),
        (wrote("update", "0", id="m1"), "it does not name a fact"),
        (wrote("update", 0.0, id="m1"), "it does not name a fact"),
        (wrote("update", -1, id="m1"), "there is no such fact"),
        (wrote("update", 10**30, id="m1"), "there is no such fact"),
        (wrote("upsert", id="m1"), "there is no such action"),
        (wrote("add") | {"action": ["add"]}, "there is no such action"),
        (wrote("update"), "it does not name a memory"),
        (wrote("update", id=""), "it does not name a memory"),
        (wrote("update", id=["m1"]), "it does not name a memory"),
        (wrote("update", id="m9"), "it names a memory that was not shown"),
        (wrote("delete", id="M1"), "it names a memory that was not shown"),
        (wrote("update", id="m1", text=""), "its text is empty or not a text"),
        (wrote("update", id="m1", text=" \n"), "its text is empty or not a text"),
        (wrote("update", id="m1", text={"text": "x"}), "its text is empty or not a text"),
        (wrote("update", id="m1", text="x " * 1001), "its text is too long for one statement"),
        (wrote("update", id="m1", text="half \ud83d a face"), "its text is not valid Unicode"),
        (wrote("add", text="an invented port"), "the evidence does not support its text"),
        (wrote("conflict", id="m1", text="invented"), "the evidence does not support its text"),
        (wrote("update", id="m1", text="billing  uses postgres"), "another memory says that already"),
    ],
)
def test_a_malformed_decision_is_dropped_with_its_reason_and_the_rest_goes_on(one: object, why: str) -> None:
    found = judged([one, wrote("add", 1)], PORT, stated("The harbour is calm"))
    assert ([rejected.reason for rejected in found.rejected], list(found.decisions), found.undecided) == (
        [why], [1], (0,),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"state": "superseded"}, "that memory is not live"),
        ({"scope_name": "user"}, "that memory has another scope"),
        ({"scope": replace(SHOP, project="name:blog")}, "that memory has another scope"),
        ({"scope": replace(SHOP, user="bob")}, "that memory has another scope"),
        ({"valid_from": NOON + timedelta(seconds=1)}, "that memory is newer than what was said"),
    ],
)
def test_a_memory_that_may_not_be_touched_is_not(other: dict[str, Any], why: str) -> None:
    assert reason([wrote("update", id="m1")], stated("The port is 9443", replace(OLD, **other))) == why


def test_an_isolated_agent_touches_what_it_learned_alone() -> None:
    raw, isolated = [wrote("update", id="m1")], replace(PLACE, isolated=True)
    theirs = stated("The port is 9443", replace(OLD, scope=replace(SHOP, agent="a2")))
    assert reason(raw, theirs, place=isolated) == "that memory has another scope"
    assert judged(raw, theirs).rejected == ()
    assert judged(raw, PORT, place=isolated).rejected == ()


def test_a_memory_that_was_shown_for_another_fact_is_not_shown_for_this_one() -> None:
    facts = stated("The port is 9443", OLD), stated("The harbour is calm", OTHER)
    assert reason([wrote("update", 1, id="m1")], *facts) == "it names a memory that was not shown"


@pytest.mark.parametrize("action", ["update", "delete"])
def test_what_would_change_a_pinned_memory_is_a_conflict(action: str) -> None:
    pinned = replace(OLD, pinned=True)
    [decision] = judged([wrote(action, id="m1")], stated("The port is 9443", pinned)).decisions.values()
    assert isinstance(decision, Conflict)
    assert (decision.existing_id, decision.reason) == ("m1", "because, but the memory is pinned")


def test_a_fact_is_decided_once_by_the_first_that_can_be_used() -> None:
    raw = [wrote("update", id="m9"), wrote("update", id="m1"), wrote("add"), wrote("update", id="m1")]
    found = judged(raw, PORT)
    assert [type(one) for one in found.decisions.values()] == [Update]
    assert [(one.position, one.fact, one.reason) for one in found.rejected] == [
        (0, 0, "it names a memory that was not shown"),
        (2, 0, "the fact is decided already"),
        (3, 0, "the fact is decided already"),
    ]


@pytest.mark.parametrize("second", ["update", "delete", "noop", "conflict"])
def test_what_one_decision_ends_no_other_touches(second: str) -> None:
    facts = [stated(text, OLD, OTHER) for text in ("The port is 9443", "The port is 7000")]
    for ends in ("update", "delete"):
        found = judged([wrote(ends, id="m1"), wrote(second, 1, id="m1")], *facts)
        assert ([one.reason for one in found.rejected], found.undecided) == (
            ["another decision of this list ends that memory"], (1,),
        )  # fmt: skip
    later = judged([wrote("noop", 1, id="m1"), wrote("update", 0, id="m1")], *facts)
    assert [one.reason for one in later.rejected] == ["a later decision refers to that memory"]


def test_two_memories_do_not_trade_their_texts() -> None:
    facts = [stated("one", OLD, OTHER), stated("two", OLD, OTHER)]
    found = judged([wrote("update", 0, id="m1", text=OTHER.text), wrote("update", 1, id="m2", text=OLD.text)], *facts)
    assert ([one.reason for one in found.rejected], found.undecided) == (
        ["another memory says that already"] * 2, (0, 1),
    )  # fmt: skip


def test_an_update_that_says_what_the_memory_says_is_a_mention() -> None:
    [decision] = judged([wrote("update", id="m1", text="the port  is 8443")], PORT).decisions.values()
    assert decision == Noop(statement=PORT.statement, existing_id="m1", reason="because")


def test_a_text_that_the_evidence_proves_is_kept_and_reasons_are_one_short_line() -> None:
    raw = [wrote("add", text=" The port of production is 9443 ", reason="so\n\nit " + "x" * 999)]
    [decision] = judged(raw, PORT).decisions.values()
    assert decision.statement.text == "The port of production is 9443"
    assert decision.reason.startswith("so it xxx")
    assert len(decision.reason) == 300
    [silent] = judged([wrote("add", reason=None)], PORT).decisions.values()
    assert silent.reason == "the model gives no reason"


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["m1", "add"])
_JSON = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))
_WRITTEN = st.fixed_dictionaries(
    {},
    optional={
        "fact": st.integers(-1, 3) | _JSON,
        "action": st.sampled_from(["add", "update", "delete", "noop", "conflict", "drop"]) | _JSON,
        "id": st.sampled_from(["m1", "m2", "m3"]) | _JSON,
        "text": st.none() | st.text() | _JSON,
        "reason": st.text() | _JSON,
    },
)


@settings(max_examples=examples(100))
@given(st.lists(_WRITTEN | _JSON, max_size=8) | _JSON)
def test_whatever_comes_every_fact_is_decided_once_or_left_to_the_rule(raw: object) -> None:
    facts = [stated(f"fact {number}", OLD, OTHER) for number in range(3)]
    found = judged(raw, *facts)
    assert sorted([*found.decisions, *found.undecided]) == [0, 1, 2]
    listed = len(cast("list[object]", raw)) if isinstance(raw, list) else 1
    assert len(found.decisions) + len(found.rejected) == listed
    ends = [id_ for one in found.decisions.values() if isinstance(one, Update | Delete) for id_ in one.old_ids]
    assert len(ends) == len(set(ends))
    for number, one in found.decisions.items():
        one.statement.text.encode()
        assert one.statement.span == facts[number].statement.span
