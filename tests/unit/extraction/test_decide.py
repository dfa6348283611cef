# ruff: noqa: E501
"""What becomes of a statement, given what is known."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.core.scope import Scope
from filrouge.extraction.decide import decide, retrieval_terms
from filrouge.extraction.heuristics import extract
from filrouge.memories.models import Add, Conflict, Decision, Delete, Memory, Neighbour, Noop, Statement, Update
from tests.support.tiers import examples

from . import pairs
from .replay import START, Mind, memory_of, prompt, similarity

EVERY_TEXT = tuple(
    text for group in (pairs.NOOP, pairs.UPDATE, pairs.ADD, pairs.DELETE) for pair in group for text in pair
)


def stated(text: str) -> Statement:
    (statement,) = extract(prompt(text))
    return statement


def known(text: str, number: int = 1) -> Memory:
    """A stored memory, as extraction would have made it or as someone typed it."""
    statements = extract(prompt(text))
    if len(statements) == 1:
        return memory_of(statements[0], number)
    return Memory(
        id=f"m{number}",
        scope=Scope(project="shop"),
        scope_name="project",
        kind="fact",
        text=text,
        trust=3,
        created_at=START,
        valid_from=START,
    )


def near(statement: Statement, *memories: Memory) -> list[Neighbour]:
    return [Neighbour(memory=m, similarity=similarity(statement.text, m.text)) for m in memories]


def after(old: str, new: str) -> Decision:
    statement = stated(new)
    return decide(statement, near(statement, known(old)))


@pytest.mark.parametrize(("old", "new"), pairs.NOOP)
def test_a_restatement_is_already_known(old: str, new: str) -> None:
    assert isinstance(after(old, new), Noop), after(old, new)


@pytest.mark.parametrize(("old", "new"), pairs.UPDATE)
def test_a_newer_value_replaces_the_old_one(old: str, new: str) -> None:
    decision = after(old, new)
    assert isinstance(decision, Update), decision
    assert decision.old_ids == ("m1",)


@pytest.mark.parametrize(("old", "new"), pairs.ADD)
def test_another_subject_is_added_beside(old: str, new: str) -> None:
    assert isinstance(after(old, new), Add), after(old, new)


@pytest.mark.parametrize(("old", "new"), pairs.DELETE)
def test_a_retraction_deletes(old: str, new: str) -> None:
    decision = after(old, new)
    assert isinstance(decision, Delete), decision
    assert decision.old_ids == ("m1",)


def test_unrelated_statements_never_replace_each_other() -> None:
    """All pairs of the ADD table and of the recorded subjects, both ways: at most one in a hundred may be wrong."""
    texts = sorted({text for pair in pairs.ADD for text in pair})
    meant = {frozenset(pair) for pair in pairs.UPDATE}
    told, believed = {text: stated(text) for text in texts}, {text: known(text) for text in texts}
    wrong = [
        (old, new)
        for old in texts
        for new in texts
        if old != new
        and frozenset((old, new)) not in meant
        and isinstance(decide(told[new], near(told[new], believed[old])), Update | Delete | Conflict)
    ]
    assert len(wrong) <= len(texts) * (len(texts) - 1) // 100, wrong


@pytest.mark.parametrize("text", ["I'm in the mood for a long walk by the sea.", "I'm in the middle of a release."])
def test_where_somebody_is_in_a_mood_no_time_zone_is_told(text: str) -> None:
    assert [statement.key for statement in extract(prompt(text)) if statement.key] == []


def test_a_correction_replaces_every_memory_of_the_old_value_and_only_of_its_subject() -> None:
    correction = stated(
        "Correction: staging is not on Fly.io any more, we moved it to Hetzner (fsn1). The command is now `make ship-hetzner`."
    )
    memories = [
        known("Staging runs on Fly.io in region cdg, and we deploy it with `make ship-staging`.", 1),
        known("The staging app on Fly.io is called acme-stg.", 2),
        known("The demo site is on Fly.io.", 3),
        known("In this repo use uv, never pip.", 4),
    ]
    decision = decide(correction, near(correction, *memories))
    assert isinstance(decision, Update)
    assert set(decision.old_ids) == {"m1", "m2"}


def test_an_older_value_said_again_is_the_newer_value() -> None:
    mind = Mind()
    for text in (
        "staging runs on Fly.io in region cdg, and we deploy it with `make ship-staging`.",
        "Correction: staging is not on Fly.io any more, we moved it to Hetzner (fsn1). The command is now `make ship-hetzner`.",
        "Deploy note: staging runs on Fly.io in region cdg, and we deploy it with `make ship-staging`.",
    ):
        mind.hear(text)
    assert [m.text for m in mind.live()] == [
        "staging runs on Fly.io in region cdg, and we deploy it with `make ship-staging`."
    ]


def test_a_pinned_memory_is_a_conflict_and_is_never_updated() -> None:
    pinned = replace(known("Production is on port 8443."), pinned=True)
    statement = stated("We moved from port 8443 to 9443 for production.")
    assert isinstance(decide(statement, near(statement, pinned)), Conflict)


def test_a_memory_of_another_scope_is_not_touched() -> None:
    mine = replace(known("Production is on port 8443."), scope_name="user")
    statement = stated("We moved from port 8443 to 9443 for production.")
    assert isinstance(decide(statement, near(statement, mine)), Add)


def test_a_bare_slot_updates_the_only_candidate_and_none_of_two() -> None:
    statement = stated("The port is 9443 now.")
    one, two = known("Production is on port 8443.", 1), known("The worker listens on port 4200.", 2)
    assert isinstance(decide(statement, near(statement, one)), Update)
    assert isinstance(decide(statement, near(statement, one, two)), Add)


def test_retrieval_terms_hold_the_old_value_and_the_subject_in_both_languages() -> None:
    terms = retrieval_terms(stated("We moved from port 8443 to 9443 for production."))
    assert {"8443", "production", "prod", "port", "9443"} <= set(terms)


@settings(max_examples=examples(30), deadline=None)
@given(
    new=st.sampled_from(EVERY_TEXT),
    olds=st.lists(st.tuples(st.sampled_from(EVERY_TEXT), st.booleans(), st.floats(0, 1)), max_size=6),
)
def test_a_decision_names_only_neighbours_and_never_updates_a_pinned_one(
    new: str, olds: list[tuple[str, bool, float]]
) -> None:
    neighbours = [
        Neighbour(memory=replace(known(text, number), pinned=pinned), similarity=close)
        for number, (text, pinned, close) in enumerate(olds)
    ]
    shown = {n.memory.id for n in neighbours}
    pinned_ids = {n.memory.id for n in neighbours if n.memory.pinned}
    for statement in extract(prompt(new)):
        match decide(statement, neighbours):
            case Update(old_ids=ids) | Delete(old_ids=ids):
                assert set(ids) <= shown - pinned_ids
            case Noop(existing_id=found) | Conflict(existing_id=found):
                assert found in shown
            case Add():
                pass
