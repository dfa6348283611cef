"""Every verb of the SDK, six ways: the same scenario, the same answers, the same errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge import FilrougeError, Memory
from filrouge.core.errors import BadConfig, BadInput, NotFound, Stale
from filrouge.testing import understood
from tests.support.tiers import examples

from .given import Asked

NO_ZONE = datetime(2026, 5, 1, tzinfo=UTC).replace(tzinfo=None)
PUNCTUATION = st.text(st.sampled_from("\"'*():^-+&|%#?/\\.;{}[]<>~\0\n\t=é🦊 \ud800") | st.characters(), max_size=60)


def test_what_is_remembered_is_found_at_once_in_every_mode(everywhere: Asked) -> None:
    async def scenario(memory: Memory) -> None:
        [done] = await memory.remember("For the record: the harbour gate opens on port 9443.")
        assert (done.action, done.superseded, done.review) == ("add", (), "")
        turn, fact = await memory.search("harbour gate port")
        assert (turn.type, turn.role, turn.content) == (
            "turn", "user", "For the record: the harbour gate opens on port 9443."
        )  # fmt: skip
        assert (fact.id, fact.type, fact.channel) == (done.id, "fact", "sdk")
        for mode in ("semantic", "hybrid"):
            assert (await memory.search("harbour gate port", mode))[0].id == done.id
        assert await memory.search("harbour gate port", limit=1) == [turn]
        assert await memory.search("harbour gate port", collection="memories") == [fact]
        assert fact.created_at.tzinfo is not None

    everywhere.run(scenario)


def test_where_nothing_matches_nothing_is_found(everywhere: Asked) -> None:
    assert everywhere.run(lambda memory: memory.search("zzqx vwkj")) == []
    assert everywhere.run(lambda memory: memory.search("")) == []
    recalled = everywhere.run(lambda memory: memory.recall("zzqx vwkj", threshold=0.5))
    assert (recalled.results, recalled.nothing_known) == ((), True)
    assert everywhere.run(lambda memory: memory.context("zzqx vwkj?")).context == ""


@settings(max_examples=examples(25), deadline=None)
@given(text=PUNCTUATION)
def test_any_text_may_be_searched_and_recalled(everywhere: Asked, text: str) -> None:
    async def scenario(memory: Memory) -> None:
        if "\0" in text:  # the one character that no query holds
            with pytest.raises(BadInput, match="NUL"):
                await memory.search(text)
            return
        for found in (await memory.search(text), (await memory.recall(text)).results):
            assert all(hit.id for hit in found)

    everywhere.run(scenario)


@settings(max_examples=examples(15), deadline=None)
@given(text=PUNCTUATION)
def test_any_text_with_something_in_it_may_be_remembered(everywhere: Asked, text: str) -> None:
    async def scenario(memory: Memory) -> None:
        if not text.strip():
            with pytest.raises(BadInput):
                await memory.remember(text)
        else:
            await memory.remember(text)

    everywhere.run(scenario)


def test_recall_says_how_well_it_knows(everywhere: Asked) -> None:
    async def scenario(memory: Memory) -> None:
        [done] = await memory.remember("We decided to use Typst for the invoice templates.")
        found = await memory.recall("what are the invoice templates written in?", 1)
        assert [hit.id for hit in found.results] == [done.id]
        assert found.known > 0.5
        assert not found.nothing_known
        given = await memory.context("what are the invoice templates written in?", channel="desk", session_id="one")
        assert "Typst for the invoice templates" in given.context
        assert given.memories[0]["id"] == done.id

    everywhere.run(scenario)


def test_a_memory_is_superseded_and_every_version_stays_readable(everywhere: Asked) -> None:
    async def scenario(memory: Memory) -> None:
        [old] = await memory.remember("The lighthouse lamp has 400 watts.")
        changed = await memory.supersede(old.id, "The lighthouse lamp has 250 watts.", source="inventory")
        assert (changed.old_id, changed.previous_text) == (old.id, "The lighthouse lamp has 400 watts.")
        told = await memory.history(old.id)
        assert [(one.id, one.state) for one in told.versions] == [(old.id, "superseded"), (changed.new_id, "live")]
        assert [entry["action"] for entry in told.journal] == ["add", "update"]
        before = told.versions[0].valid_to
        assert before is not None
        assert before == told.versions[1].valid_from
        foreseen = await memory.undo(changed.new_id, dry_run=True)
        undone = await memory.undo(changed.new_id)
        assert (foreseen.dry_run, undone.dry_run, undone.changes) == (True, False, foreseen.changes)
        assert (await memory.history(old.id)).state == "live"

    everywhere.run(scenario)


def test_what_is_binned_is_not_found_until_it_is_restored(everywhere: Asked) -> None:
    async def scenario(memory: Memory) -> None:
        [done] = await memory.remember("The bakery oven is called Vulcan.")
        await memory.pin(done.id)
        [fact] = [one for one in await memory.facts() if one.id == done.id]
        assert fact.pinned
        await memory.pin(done.id, pinned=False)
        await memory.bin(done.id)
        assert await memory.search("bakery oven", collection="memories") == []
        assert (await memory.restore(done.id)).id == done.id
        assert [hit.id for hit in await memory.search("bakery oven", collection="memories")] == [done.id]

    everywhere.run(scenario)


def test_filters_are_exact_and_take_moments_with_a_zone(everywhere: Asked) -> None:
    async def scenario(memory: Memory) -> None:
        await memory.set_fact("quay", "North quay")
        [decided] = await memory.remember("We decided to moor at the south quay.", channel="radio")
        assert [one.id for one in await memory.facts(channel="radio")] == [decided.id]
        assert [one.id for one in await memory.search("quay", kind="decision")] == [decided.id]
        assert {one.type for one in await memory.search("quay", kind=["decision", "turn"])} == {"decision", "turn"}
        now = datetime.now(UTC)
        assert [one.id for one in await memory.facts(channel="radio", as_of=now)] == [decided.id]
        assert await memory.facts(channel="radio", as_of=now - timedelta(days=1)) == []
        assert await memory.search("quay", until=(now - timedelta(days=1)).date()) == []
        assert [one.value for one in await memory.facts() if one.key == "quay"] == ["North quay"]

    everywhere.run(scenario)


def test_rules_are_added_changed_and_removed(everywhere: Asked) -> None:
    async def scenario(memory: Memory) -> None:
        rule = await memory.add_rule("Never sail on Fridays.", scope="user")
        assert (rule.text, rule.standing, rule.kind) == ("Never sail on Fridays.", "standing", "rule")
        assert (await memory.change_rule(rule.id, enabled=False)).standing == "disabled"
        edited = await memory.change_rule(rule.id, text="Never sail on Mondays.", enabled=True)
        assert rule.id not in [one.id for one in await memory.rules()]
        assert edited in await memory.rules()
        await memory.remove_rule(edited.id)
        assert edited.id not in [one.id for one in await memory.rules()]

    everywhere.run(scenario)


def test_what_is_forgotten_is_what_the_preview_listed(everywhere: Asked) -> None:
    async def scenario(memory: Memory) -> None:
        await memory.remember("The password hint is Orchidee.")
        await understood(memory)
        shown = await memory.forget("Orchidee", dry_run=True)
        assert shown.counts["memories"] == {"erased": 1}
        assert {"memories", "turns"} <= {row["table"] for row in shown.rows}
        assert not shown.receipt
        with pytest.raises(Stale):
            await memory.forget("password", token=shown.token)
        with pytest.raises(BadInput, match="token of a preview"):
            await memory.forget("Orchidee")
        receipt = await memory.forget("Orchidee", token=shown.token)
        assert receipt.ok
        assert (receipt.counts["memories"], bool(receipt.receipt), receipt.token) == ({"erased": 1}, True, "")
        assert await memory.search("Orchidee") == []
        assert (await memory.forget("Orchidee", at_once=True)).counts == {}

    everywhere.run(scenario)


def test_topics_and_the_timeline_tell_what_was_spoken_of(everywhere: Asked) -> None:
    async def scenario(memory: Memory) -> None:
        await memory.remember("We decided to paint the drawbridge green.")
        topics = await memory.topics("today")
        timeline = await memory.timeline(language="en")
        assert any("drawbridge" in topic.title for topic in topics)
        assert any("drawbridge" in topic.title for topic in timeline.this_week)
        assert timeline.text.startswith("### History of topics discussed")
        assert await memory.threads(status="archived") == []

    everywhere.run(scenario)


def test_settings_are_read_and_changed(everywhere: Asked) -> None:
    async def scenario(memory: Memory) -> None:
        before = await memory.settings()
        after = await memory.settings({"budget": 1234})
        assert (await memory.settings(), after["budget"]) == (after, 1234)
        assert await memory.settings({"budget": before["budget"]}) == before
        assert (await memory.status())["running"] is True
        assert (await memory.health())["daemon"] == "Running"

    everywhere.run(scenario)


def test_what_is_observed_is_stored_once_and_understood_afterwards(everywhere: Asked) -> None:
    async def scenario(memory: Memory) -> None:
        said = [
            {"role": "user", "content": "We decided to store the anchors in the boathouse."},
            {"role": "assistant", "content": "I noted the boathouse.", "at": datetime(2026, 5, 1, 12, 30, tzinfo=UTC)},
        ]
        first = await memory.observe(said, channel="deck", session_id="one")
        again = await memory.observe(said, channel="deck", session_id="one")
        assert (first.accepted, first.duplicates, first.spooled) == (2, 0, False)
        assert (again.accepted, again.duplicates) == (0, 2)
        await understood(memory)
        [fact] = await memory.facts(channel="deck")
        assert (fact.kind, fact.trust) == ("decision", 2)
        assert [one.content for one in await memory.recent("deck")] == [one["content"] for one in said]
        assert await memory.recent("bridge") == []
        [newest] = await memory.recent("deck", 1, session_id="one")
        assert (newest.role, newest.channel, newest.session_id) == ("assistant", "deck", "one")
        assert any("nchors" in thread.title for thread in await memory.threads(agent="deck"))

    everywhere.run(scenario)


@settings(max_examples=examples(15), deadline=None)
@given(text=PUNCTUATION.filter(str.strip))
def test_any_text_may_be_observed_any_number_of_times(everywhere: Asked, text: str) -> None:
    async def scenario(memory: Memory) -> None:
        said = [{"role": "user", "content": text}] * 2
        first = await memory.observe(said, channel="noise", session_id="one")
        again = await memory.observe(said, channel="noise", session_id="one")
        assert first.accepted + first.duplicates == 2
        assert (again.accepted, again.duplicates) == (0, 2)

    everywhere.run(scenario)


def test_a_message_that_was_cut_in_the_middle_of_a_character_is_kept(everywhere: Asked) -> None:
    async def scenario(memory: Memory) -> None:
        said = [{"role": "user", "content": "The buoy by the quay is painted \ud83e"}]
        assert (await memory.observe(said, channel="cut", session_id="one")).accepted == 1
        await understood(memory)
        [kept] = await memory.recent("cut")
        assert kept.content == "The buoy by the quay is painted \ufffd"

    everywhere.run(scenario)


def test_a_text_is_understood_at_once(everywhere: Asked) -> None:
    async def scenario(memory: Memory) -> None:
        found = await memory.extract("We decided to insure the schooner with Lloyds.", source="broker")
        assert (found.extracted_count, found.stored_count, [one.action for one in found.actions]) == (1, 1, ["add"])
        assert [one.id for one in await memory.facts(channel="broker")] == [found.actions[0].id]

    everywhere.run(scenario)


def test_a_text_is_new_until_something_that_means_the_same_is_remembered(everywhere: Asked) -> None:
    async def scenario(memory: Memory) -> None:
        told = "The foghorn is tested every second Thursday."
        assert await memory.is_novel(told)
        [done] = await memory.remember(told)
        assert not await memory.is_novel(told)
        assert not await memory.is_novel("the foghorn is tested every second thursday", 0.5)
        assert await memory.is_novel("Ana likes green tea.", 0.5)
        await memory.bin(done.id)
        assert await memory.is_novel(told)

    everywhere.run(scenario)


def test_a_fact_is_changed_and_removed_by_its_key(everywhere: Asked) -> None:
    async def scenario(memory: Memory) -> None:
        key = "crew/cook & baker?"
        await memory.set_fact(key, "Ada")
        await memory.change_fact(key, "Grace")
        assert [one.value for one in await memory.facts() if one.key == key] == ["Grace"]
        await memory.remove_fact(key)
        assert [one.value for one in await memory.facts() if one.key == key] == []
        with pytest.raises(NotFound):
            await memory.change_fact(key, "Edith")

    everywhere.run(scenario)


REFUSED: list[tuple[Callable[[Memory], Awaitable[Any]], type[FilrougeError], str]] = [
    (lambda memory: memory.history("nobody"), NotFound, "There is no memory 'nobody'."),
    (lambda memory: memory.supersede("nobody", "text"), NotFound, "There is no memory 'nobody'."),
    (lambda memory: memory.search("x", limit=0), BadInput, "query.limit: Input should be greater than or equal to 1."),
    (lambda memory: memory.search("x", project="nowhere"), NotFound, "There is no project 'nowhere'."),
    (lambda memory: memory.search("x", since="soon"), BadInput, "since is not a date or time: 'soon'."),
    (
        lambda memory: memory.search("x", since=datetime(2026, 5, 1)),
        BadInput,
        "since has no time zone: 2026-05-01 00:00:00.",
    ),
    (lambda memory: memory.history("../facts"), BadInput, "This is not an id: '../facts'."),
    (lambda memory: memory.team_memories(), NotFound, "This home belongs to no team."),
    (lambda memory: memory.share(["01k0"]), NotFound, "This home belongs to no team."),
    (lambda memory: memory.share_project("shop", "ask"), NotFound, "This home belongs to no team."),
    (lambda memory: memory.remember("  "), BadInput, "There is nothing to remember: the text is empty."),
    (lambda memory: memory.settings({"colour": "red"}), BadConfig, "There is no setting 'colour' (request)."),
]


@pytest.mark.parametrize(("verb", "kind", "message"), REFUSED)
def test_a_refusal_is_the_same_error_everywhere(
    everywhere: Asked, verb: Callable[[Memory], Awaitable[Any]], kind: type[FilrougeError], message: str
) -> None:
    async def scenario(memory: Memory) -> None:
        await verb(memory)

    with pytest.raises(kind) as refused:
        everywhere.run(scenario)
    said = refused.value.message
    if kind is BadConfig:
        said, _, known = said.partition(" There are: ")
        assert "auto_retrieve_enabled, " in known
    assert (type(refused.value), said) == (kind, message)
    assert refused.value.remedy
