"""Changing one's mind in a whole Filrouge: what is live again is found again, and undo puts everything back."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from filrouge.context.block import parse
from filrouge.core.errors import BadInput, NotFound
from filrouge.maintenance.health import audit, stats, status
from filrouge.memories import service
from filrouge.memories.changes import bin_memory, pin, put_fact, remember, restore, supersede
from filrouge.memories.models import Filters
from filrouge.memories.reports import history, versions
from filrouge.memories.service import plan_undo, undo
from filrouge.runtime.services import Parts
from filrouge.search.repository import StoredVectors
from filrouge.search.service import Question, recall
from filrouge.search.spaces import reindex
from filrouge.testing import AnotherHash, idle, running
from tests.support.given import SHOP, ask, known, say

PORT = "For the record: production listens on port 8443."
CHANGE = "Correction: production listens on port 9443, not 8443."
QUESTION = "What port does production listen on?"


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as found:
        idle(found)
        yield found


def told(parts: Parts) -> str:
    """The id of the memory that production has a port, said a moment ago."""
    say(parts, PORT)
    [hit] = known(parts, QUESTION).hits
    return hit.id


def by_meaning(parts: Parts) -> set[str]:
    """What the index of vectors holds."""
    vector, _ = parts.vectors.question(QUESTION)
    assert vector is not None
    return {one.owner_id for one in parts.vectors.memory_index.nearest(vector, 99, None)}


def one_review(parts: Parts) -> dict[str, Any]:
    [found] = parts.readers.here(lambda tx: service.list_reviews(parts, tx))
    return found


def test_what_is_binned_is_not_found_and_restored_it_is_found_as_before(parts: Parts) -> None:
    one, before = told(parts), known(parts, QUESTION)
    bin_memory(parts, one)
    assert (known(parts, QUESTION).hits, ask(parts, QUESTION), by_meaning(parts)) == ((), "", set())
    restore(parts, one)
    assert [(hit.id, hit.score, hit.similarity) for hit in known(parts, QUESTION).hits] == [
        (hit.id, hit.score, hit.similarity) for hit in before.hits
    ]
    assert by_meaning(parts) == {one}
    assert "8443" in ask(parts, QUESTION)


def test_what_was_in_the_bin_while_the_model_changed_gets_its_vectors_when_it_is_restored(tmp_path: Path) -> None:
    makers = {name: (lambda name=name: AnotherHash(name)) for name in ("one", "two")}
    with running(str(tmp_path), embedding="one", makers=makers) as parts:
        one = told(parts)
        bin_memory(parts, one)
    with running(str(tmp_path), embedding="two", makers=makers) as parts:
        idle(parts)
        reindex(parts)
        idle(parts)
        space = parts.vectors.space.id
        stored = parts.readers.here(lambda tx: StoredVectors(tx).some("memory", [one], space))
        assert (space.partition("/")[0], stored) == ("two", {})
        restore(parts, one)
        idle(parts)
        assert by_meaning(parts) == {one}


def test_a_correction_that_is_undone_leaves_the_old_value_in_front_of_prompts(parts: Parts) -> None:
    old = told(parts)
    say(parts, CHANGE)
    [new] = [hit.id for hit in known(parts, QUESTION).hits]
    before = plan_undo(parts, memory_id=old)
    done = undo(parts, memory_id=old)
    assert str(done) == str(before)
    assert [("8443" in line, "9443" in line) for line in parse(ask(parts, QUESTION))] == [(True, False)]
    assert by_meaning(parts) == {old}
    taken = parts.readers.here(lambda tx: history(parts, tx, new))["journal"]
    assert [(entry["action"], entry["undone"]) for entry in taken] == [("update", True), ("undo", True)]
    undo(parts, entry=taken[-1]["entry"])
    assert by_meaning(parts) == {new}
    assert "9443" in ask(parts, QUESTION)
    assert parts.readers.here(audit)["sound"]


def test_a_dry_run_changes_nothing(parts: Parts) -> None:
    one = told(parts)
    before = parts.readers.here(lambda tx: history(parts, tx, one))
    assert [effect.what for effect in plan_undo(parts, memory_id=one).effects] == ["to the bin"]
    assert parts.readers.here(lambda tx: history(parts, tx, one)) == before


def test_an_undo_names_one_thing(parts: Parts) -> None:
    for entry, memory_id in ((None, None), (1, "01nothing")):
        with pytest.raises(BadInput, match="an entry number or a memory id"):
            undo(parts, entry=entry, memory_id=memory_id)


def test_a_pinned_memory_is_not_corrected_until_the_user_takes_the_new_value(parts: Parts) -> None:
    old = told(parts)
    pin(parts, old, pinned=True)
    say(parts, CHANGE)
    assert "8443" in ask(parts, QUESTION)
    waiting = one_review(parts)
    assert (waiting["kind"], waiting["against"]["id"], "9443" in waiting["text"]) == ("conflict", old, True)
    assert waiting["quotes"][0]["text"] in CHANGE
    assert parts.readers.here(lambda tx: status(parts, tx))["to_review"] == 1
    assert by_meaning(parts) == {old}
    service.settle(parts, waiting["id"], "new")
    idle(parts)
    assert by_meaning(parts) == {waiting["id"]}
    assert [("9443" in line, "port 8443" in line) for line in parse(ask(parts, QUESTION))] == [(True, False)]
    assert parts.readers.here(lambda tx: service.list_reviews(parts, tx)) == []
    [settled] = parts.readers.here(lambda tx: service.list_reviews(parts, tx, settled=True))
    assert (settled["outcome"], settled["statement"]["pinned"]) == ("new", True)


def test_what_is_dismissed_is_served_to_nobody_and_what_waits_neither(parts: Parts) -> None:
    old = told(parts)
    pin(parts, old, pinned=True)
    say(parts, CHANGE)
    for _ in range(2):
        assert [hit.id for hit in known(parts, QUESTION).hits] == [old]
        if parts.readers.here(lambda tx: service.list_reviews(parts, tx)):
            service.settle(parts, one_review(parts)["id"], "old")
    assert parts.readers.here(stats)["factsCount"] == 1


def test_superseding_by_hand_keeps_kind_and_place_and_answers_what_was_said(parts: Parts) -> None:
    old = told(parts)
    before = parts.readers.here(lambda tx: parts.memories(tx).get(old))
    done = supersede(parts, old, " Production listens on port 7000. ", source="editor")
    after = parts.readers.here(lambda tx: parts.memories(tx).get(done.new_id))
    assert (done.old_id, done.previous_text, after.supersedes) == (old, before.text, old)
    assert (after.text, after.kind, after.scope, after.trust) == (
        "Production listens on port 7000.", before.kind, before.scope, 3,
    )  # fmt: skip
    assert by_meaning(parts) == {done.new_id}
    assert [("7000" in line, "8443" in line) for line in parse(ask(parts, QUESTION))] == [(True, False)]
    entries = parts.readers.here(lambda tx: versions(parts, tx, done.new_id))["journal"]
    assert [(one["actor"], one["payload"]["reason"]) for one in entries] == [("user", "superseded by hand (editor)")]


def test_superseding_a_core_fact_keeps_its_key(parts: Parts) -> None:
    old = put_fact(parts, "user_name", "Ana", names=(), scope="user").memory_id
    done = supersede(parts, old, "Ana Beltran")
    after = parts.readers.here(lambda tx: parts.memories(tx).get(done.new_id))
    assert (after.key, after.value, after.text) == ("user_name", "Ana Beltran", "user_name: Ana Beltran")


def test_a_secret_supersedes_nothing(parts: Parts) -> None:
    old = told(parts)
    with pytest.raises(BadInput, match="contains a secret"):
        supersede(parts, old, "The key is AKIAIOSFODNN7EXAMPLE")
    assert parts.readers.here(lambda tx: parts.memories(tx).get(old)).state == "live"


@pytest.mark.parametrize("text", ["", " \n", "x" * 2001])
def test_nothing_and_too_much_supersede_nothing(parts: Parts, text: str) -> None:
    with pytest.raises(BadInput):
        supersede(parts, told(parts), text)
    with pytest.raises(NotFound, match="'01nothing'"):
        supersede(parts, "01nothing", "anything")


def test_what_was_believed_then_follows_what_was_undone(parts: Parts) -> None:
    told(parts)
    between = parts.clock.now()
    say(parts, CHANGE)
    [new] = [hit.id for hit in known(parts, QUESTION).hits]
    after = parts.clock.now()
    undo(parts, memory_id=new)

    def believed(at: Any) -> list[str]:
        question = Question(text=QUESTION, project=SHOP[0], filters=Filters(as_of=at))
        return [hit.text for hit in parts.readers.here(lambda tx: recall(parts, tx, question)).hits]

    assert ["8443" in text for text in believed(between)] == [True]
    assert ["8443" in text for text in believed(after)] == [True]


def test_a_rule_that_is_binned_leaves_the_brief_and_comes_back(parts: Parts) -> None:
    say(parts, "From now on, always use uv and never pip in this repository.")
    [rule] = parts.readers.here(lambda tx: parts.memories(tx).rules(project=SHOP[0], user="local"))
    briefs = Path(parts.home) / "briefs"
    bin_memory(parts, rule.id)
    assert list(briefs.iterdir()) == []
    restore(parts, rule.id)
    assert ["uv" in path.read_text(encoding="utf-8") for path in briefs.iterdir()] == [True]


def test_what_the_user_remembers_against_a_pinned_memory_waits_too(parts: Parts) -> None:
    [first] = remember(parts, PORT, names=SHOP, scope="project", host="cli")
    pin(parts, first.memory_id, pinned=True)
    [second] = remember(parts, CHANGE, names=SHOP, scope="project", host="cli")
    assert (second.name, second.memory_id, second.review) == ("conflict", first.memory_id, one_review(parts)["id"])
