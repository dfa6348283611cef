"""Memories: what each decision comes to, and that nothing believed is ever overwritten."""

from __future__ import annotations

from typing import Any

import pytest

from filrouge.capture.repository import Turns
from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Tx
from filrouge.memories.models import Add, Conflict, Delete, Evidence, Noop, Span, Update
from filrouge.memories.repository import Action, Memories, UserChanges, is_intact
from filrouge.projects.repository import Projects
from filrouge.runtime.journal import Journal
from filrouge.search.analyser import TextAnalyser, any_of
from filrouge.search.repository import FullTextIndex
from filrouge.testing import memory_database
from tests.support.rows import NOON, origin, statement, turn


def fresh() -> tuple[Memories, Tx]:
    tx = memory_database().tx
    return Memories(tx, TextAnalyser()), tx


def live(memories: Memories) -> list[str]:
    return [memory.text for memory in memories.within(project=None, user="local", everywhere=True)]


def actions(tx: Tx, memory_id: str) -> list[str]:
    return [entry.action for entry in Journal(tx).entries_about(memory_id)]


def said(tx: Tx, memory_id: str) -> dict[str, Any]:
    """What the last entry about a memory quotes."""
    payload = Journal(tx).entries_about(memory_id)[-1].payload or {}
    return {name: payload[name] for name in ("text", "reason", "turn")}


def test_add_stores_the_statement_with_its_words() -> None:
    memories, tx = fresh()
    words = turn("Our port is 8443, by the way.")
    Turns(tx, TextAnalyser()).add(words)
    added = memories.apply(Add(statement=statement("Our port is 8443"), reason="new"), origin(turn_id=words.id))
    memory = memories.get(added.memory_id)
    assert (added.name, memory.text, memory.state, memory.valid_from, memory.valid_to) == (
        "add", "Our port is 8443", "live", NOON, None,
    )  # fmt: skip
    assert memory.evidence == (Evidence(turn_id=words.id, span=Span(start=0, end=16)),)
    assert said(tx, memory.id) == {"text": memory.text, "reason": "new", "turn": words.id}


def test_update_links_both_sides_and_keeps_what_was() -> None:
    memories, tx = fresh()
    old = memories.add(statement("The port is 8443"), origin(), "new").memory_id
    also = memories.add(statement("Port: 8443"), origin(), "new").memory_id
    change = Update(statement=statement("The port is 9443"), old_ids=(old, also), reason="newer")
    done = memories.apply(change, origin(seconds=60))
    new, was, other = memories.get(done.memory_id), memories.get(old), memories.get(also)
    assert (done.name, done.closed) == ("update", (old, also))
    assert (new.supersedes, new.previous_text, new.state) == (old, "The port is 8443", "live")
    assert (was.superseded_by, was.state, was.text, was.valid_to) == (
        new.id,
        "superseded",
        "The port is 8443",
        new.valid_from,
    )
    assert (other.superseded_by, other.state) == (new.id, "superseded")
    assert live(memories) == ["The port is 9443"]
    assert (actions(tx, old), actions(tx, new.id)) == (["add", "update"], ["update"])


def test_delete_closes_and_keeps() -> None:
    memories, tx = fresh()
    old = memories.add(statement("We use Typst"), origin(), "new").memory_id
    done = memories.apply(Delete(statement=statement("no Typst"), old_ids=(old,), reason="gone"), origin(seconds=5))
    assert (done.name, done.closed, memories.get(old).state, live(memories)) == ("delete", (old,), "binned", [])
    assert actions(tx, old) == ["add", "delete"]


def test_noop_is_one_more_mention_with_its_evidence() -> None:
    memories, tx = fresh()
    known = memories.add(statement("We use Drizzle"), origin(), "new").memory_id
    words = turn("We use Drizzle", seconds=60)
    Turns(tx, TextAnalyser()).add(words)
    again = Noop(statement=statement("We use Drizzle"), existing_id=known, reason="known")
    done = memories.apply(again, origin(seconds=60, turn_id=words.id))
    memory = memories.get(known)
    assert (done.name, memory.mention_count, memory.last_mention, len(memory.evidence)) == ("noop", 2, words.at, 1)
    assert live(memories) == ["We use Drizzle"]


def test_an_older_mention_does_not_make_a_memory_older() -> None:
    memories, _ = fresh()
    known = memories.add(statement("We use Drizzle"), origin(), "new").memory_id
    memories.apply(Noop(statement=statement("x"), existing_id=known, reason="known"), origin(seconds=-3600))
    assert memories.get(known).last_mention == NOON


def test_a_conflict_changes_nothing_and_waits_for_review() -> None:
    memories, tx = fresh()
    known = memories.add(statement("We use uv"), origin(), "new").memory_id
    before = memories.get(known)
    done = memories.apply(Conflict(statement=statement("We use pip"), existing_id=known, reason="unsaid"), origin())
    waiting = memories.get(done.review)
    assert (done.name, done.memory_id, memories.get(known), live(memories)) == (
        "conflict", known, before, ["We use uv"],
    )  # fmt: skip
    assert (waiting.text, waiting.state) == ("We use pip", "quarantined")
    assert said(tx, known) == {"text": "We use pip", "reason": "unsaid", "turn": ""}
    assert actions(tx, known) == ["add", "conflict"]


def test_what_would_change_a_pinned_memory_waits_for_the_user() -> None:
    memories, tx = fresh()
    pinned = memories.add(statement("Never deploy on Friday"), origin(), "new").memory_id
    UserChanges(tx, TextAnalyser()).pin(pinned, origin())
    new = statement("Deploy on Friday")
    replacing = memories.apply(Update(statement=new, old_ids=(pinned,), reason="newer"), origin())
    ending = memories.apply(Delete(statement=statement("Friday is over"), old_ids=(pinned,), reason="gone"), origin())
    assert [(one.name, one.memory_id, one.closed) for one in (replacing, ending)] == [("conflict", pinned, ())] * 2
    assert {memories.get(one.review).text for one in (replacing, ending)} == {"Deploy on Friday", "Friday is over"}
    assert (memories.get(pinned).state, live(memories)) == ("live", ["Never deploy on Friday"])


def test_a_statement_reaches_no_memory_of_another_place() -> None:
    memories, tx = fresh()
    for project in ("name:shop", "name:blog"):
        Projects(tx).resolve((project,), at=NOON)
    shop = memories.add(statement("The port is 1", scope="project"), origin(project="name:shop"), "new").memory_id
    mine = memories.add(statement("The port is 2"), origin(), "new").memory_id
    blog, other = origin(project="name:blog"), statement("The port is 3", scope="project")
    for decision in (
        Update(statement=other, old_ids=(shop, mine), reason="newer"),
        Delete(statement=other, old_ids=(shop, mine), reason="gone"),
        Noop(statement=other, existing_id=shop, reason="known"),
        Conflict(statement=other, existing_id=mine, reason="unsaid"),
    ):
        assert memories.apply(decision, blog).closed == ()
    assert live(memories) == ["The port is 3"] * 3 + ["The port is 2", "The port is 1"]
    assert [actions(tx, one) for one in (shop, mine)] == [["add"], ["add"]]


def test_what_was_said_earlier_takes_nothing_back_that_was_said_since() -> None:
    memories, _ = fresh()
    newer = memories.add(statement("We use Typst"), origin(seconds=60), "new").memory_id
    done = memories.apply(Delete(statement=statement("no Typst"), old_ids=(newer,), reason="gone"), origin())
    assert (done.closed, live(memories)) == ((), ["We use Typst"])


def test_a_retraction_of_what_nothing_holds_is_noted() -> None:
    memories, tx = fresh()
    memories.apply(Delete(statement=statement("no Typst"), old_ids=("01nothing",), reason="gone"), origin(turn_id="t1"))
    [entry] = Journal(tx).entries_about("t1")
    assert (entry.action, entry.payload) == ("delete", {"reason": "gone; nothing held it", "turn": "t1"})


def test_a_decision_that_could_not_be_used_is_noted_without_a_memory() -> None:
    memories, tx = fresh()
    assert memories.refuse(origin(turn_id="t1"), "no such action") == Action(
        name="error", memory_id="", reason="no such action"
    )
    [entry] = Journal(tx).entries_about("t1")
    assert (entry.action, entry.payload, live(memories)) == ("error", {"reason": "no such action", "turn": "t1"}, [])


@pytest.mark.parametrize("gone", [False, True])
def test_invented_ids_and_those_no_longer_live_are_dropped(gone: bool) -> None:
    memories, tx = fresh()
    target = "01invented"
    if gone:
        target = memories.add(statement("old"), origin(), "new").memory_id
        memories.bin(target, origin(), "by hand")
    words = turn("anything")
    Turns(tx, TextAnalyser()).add(words)
    place, new = origin(turn_id=words.id), statement("anything")
    done = [
        memories.apply(Update(statement=new, old_ids=(target,), reason=""), place).name,
        memories.apply(Noop(statement=new, existing_id=target, reason=""), place).name,
        memories.apply(Conflict(statement=new, existing_id=target, reason=""), place).name,
        memories.apply(Delete(statement=new, old_ids=(target,), reason=""), place).name,
    ]
    assert done == ["add", "add", "add", "delete"]
    assert live(memories) == ["anything"] * 3
    assert actions(tx, target) == (["add", "delete"] if gone else [])


def test_a_core_fact_is_unique_by_scope_and_key_and_a_new_value_supersedes() -> None:
    memories, tx = fresh()
    Projects(tx).resolve(("name:shop",), at=NOON)
    name = [statement(f"user_name: {value}", key="user_name", value=value) for value in ("Ana", "Ana B.")]
    first = memories.put_core_fact(name[0], origin())
    second = memories.put_core_fact(name[1], origin(seconds=1))
    elsewhere = statement("user_name: bot", scope="project", key="user_name", value="bot")
    third = memories.put_core_fact(elsewhere, origin(project="name:shop"))
    assert (first.name, second.name, second.closed, third.name) == ("add", "update", (first.memory_id,), "add")
    assert memories.get(second.memory_id).previous_text == "user_name: Ana"
    assert live(memories) == ["user_name: bot", "user_name: Ana B."]


def test_an_added_core_fact_whose_key_is_taken_goes_without_it() -> None:
    memories, _ = fresh()
    memories.put_core_fact(statement("editor: vim", key="editor", value="vim"), origin())
    added = memories.add(statement("editor: helix", key="editor", value="helix"), origin(), "new")
    assert memories.get(added.memory_id).key is None


def test_what_its_words_do_not_support_is_kept_apart_and_visible() -> None:
    memories, tx = fresh()
    kept = memories.quarantine(statement("The port is 1"), origin(), "not in the turn")
    assert (kept.name, memories.get(kept.memory_id).state, live(memories)) == ("error", "quarantined", [])
    assert actions(tx, kept.memory_id) == ["quarantine"]


def test_the_user_bins_a_live_memory_once() -> None:
    memories, _ = fresh()
    one = memories.add(statement("old"), origin(), "new").memory_id
    assert memories.bin(one, origin(), "by hand").closed == (one,)
    with pytest.raises(BadInput, match=f"{one} is binned, not live"):
        memories.bin(one, origin(), "by hand")
    with pytest.raises(NotFound, match="'01nothing'"):
        memories.bin("01nothing", origin(), "by hand")


def test_only_the_live_memories_of_the_scope_are_found_by_words() -> None:
    memories, tx = fresh()
    for project in ("name:shop", "name:blog"):
        Projects(tx).resolve((project,), at=NOON)
        memories.add(statement(f"port of {project}", scope="project"), origin(project=project), "new")
    memories.add(statement("port of the user"), origin(), "new")
    memories.bin(memories.add(statement("port binned"), origin(), "new").memory_id, origin(), "by hand")
    match = any_of(TextAnalyser().terms("ports"))
    asked = {"match": match, "project_id": "name:shop", "user_id": "local", "everywhere": False, "limit": 9}
    found = memories.some([row["id"] for row in tx.all("memories.best", asked)])
    assert {memory.text for memory in found.values()} == {"port of name:shop", "port of the user"}
    everywhere = [row["bm25"] for row in tx.all("memories.best", asked | {"everywhere": True})]
    assert len(everywhere) == 3
    assert everywhere == sorted(everywhere, reverse=True)


def test_a_session_wants_what_holds_for_all_work_first_and_then_the_newest() -> None:
    memories, tx = fresh()
    Projects(tx).resolve(("name:shop",), at=NOON)
    shop = origin(project="name:shop")
    for kind in ("constraint", "fact", "preference", "intent", "episode", "rule", "decision"):
        memories.add(statement(f"her {kind}", kind=kind), origin(), "new")
        memories.add(statement(f"the shop's {kind}", kind=kind, scope="project"), shop, "new")
    known = [memory.text for memory in memories.worth_knowing(project="name:shop", user="local", limit=9)]
    kinds = ("preference", "constraint", "decision", "intent", "fact")
    assert known == [f"{whose} {kind}" for kind in kinds for whose in ("the shop's", "her")][:9]
    assert memories.worth_knowing(project=None, user="local", limit=99)[-1].text == "her fact"


def test_the_words_of_a_memory_are_counted_over_all() -> None:
    memories, tx = fresh()
    one = memories.add(statement("Drizzle and Prisma"), origin(), "new").memory_id
    memories.add(statement("Drizzle alone"), origin(), "new")
    assert FullTextIndex(tx, TextAnalyser(), "memory").frequencies(["drizzle", "prisma", "typst"]) == {
        "drizzle": 2,
        "prisma": 1,
    }
    assert {"drizzle", "prisma"} <= memories.tokens([one, "01unknown"])[one]


def test_rules_are_those_the_user_gave() -> None:
    memories, _ = fresh()
    memories.add(statement("Always use uv", kind="rule"), origin(trust=2), "new")
    memories.add(statement("Skip all tests", kind="rule"), origin(trust=0), "new")
    assert [memory.text for memory in memories.rules(project=None, user="local")] == ["Always use uv"]


@pytest.mark.parametrize("column", ["text", "kind", "trust", "key", "value", "created_at", "scope", "id"])
def test_a_change_of_what_never_changes_breaks_the_seal(column: str) -> None:
    memories, tx = fresh()
    one = memories.add(statement("a: b", key="a", value="b"), origin(), "new").memory_id
    row = tx.one("memories.get", {"id": one})
    assert row is not None
    assert is_intact(row)
    changed = {"trust": 3, "created_at": "2026-05-01T12:00:00.000001Z"}.get(column, f"{row[column]}x")
    assert not is_intact(row | {column: changed})
    assert is_intact(row | {"state": "binned", "uses": 7, "mention_count": 9})


def test_what_was_said_earlier_and_heard_later_is_history_at_once() -> None:
    memories, tx = fresh()
    newer = memories.add(statement("The port is 9443"), origin(seconds=60), "new").memory_id
    late = Update(statement=statement("The port is 8443"), old_ids=(newer,), reason="another value")
    done = memories.apply(late, origin())
    [past] = [m for m in memories.within(project=None, user="local", all_states=True) if m.id != newer]
    assert live(memories) == ["The port is 9443"]
    assert (done.name, done.memory_id, done.closed) == ("noop", newer, ())
    assert (past.text, past.state, past.superseded_by, past.valid_from < (past.valid_to or NOON)) == (
        "The port is 8443",
        "superseded",
        newer,
        True,
    )
    assert actions(tx, past.id) == ["late"]
