"""What is erased is in no file and no index; the rest answers as before, and the journal still verifies."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from filrouge.capture.repository import Events
from filrouge.capture.service import store_events
from filrouge.core.errors import BadInput, Busy, NotFound
from filrouge.core.protocols import Tx
from filrouge.erasure.service import Erased, erase
from filrouge.maintenance.health import status
from filrouge.memories.changes import put_fact, remember, remember_many
from filrouge.memories.models import Filters
from filrouge.memories.reports import history
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts
from filrouge.search.models import Hit
from filrouge.search.repository import StoredVectors
from filrouge.search.service import Mode, Question, recall, search_turns
from filrouge.search.spaces import reindex
from filrouge.testing import AnotherHash, idle, running
from tests.support.given import SHOP, ask, event, log, say

SECRET = "Für Zoë: the Quibblethwaite vault opens with “marzipan” after midnight."
WORDS = ("Quibblethwaite", "marzipan")
QUESTION = "What opens the Quibblethwaite vault after midnight?"
OTHERS = ["For the record: production listens on port 8443.", "We decided to keep invoices for ten years in Oslo."]


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as found:
        idle(found)
        for text in OTHERS:
            say(found, text)
        yield found


def forms(text: str) -> list[bytes]:
    """How a text may stand in a file."""
    found = list[bytes]()
    for one in (text, text.casefold(), text.upper(), json.dumps(text)[1:-1]):
        found += [one.encode(), one.encode("utf-16-le"), one.encode("utf-16-be")]
        for shift in range(3):  # base64 depends on where in its text the words begin
            found.append(base64.b64encode(b"\0" * shift + one.encode())[4 if shift else 0 : -4])
    return found


def traces(home: str, *texts: str) -> list[tuple[str, bytes]]:
    """In which file of a home which form of these texts stands."""
    sought = {form for text in texts for form in forms(text)}
    found = list[tuple[str, bytes]]()
    for path in Path(home).rglob("*"):
        if path.is_file():
            content = path.read_bytes().strip(b"\0")  # most of a home is room that is kept for a full disk
            lowered = content.lower()
            found += [(path.name, form) for form in sought if form in content or form in lowered]
    return found


def of(parts: Parts, words: str) -> list[str]:
    """The ids of the memories, whatever became of them, that hold these words."""
    found = parts.readers.here(
        lambda tx: parts.memories(tx).within(project=None, user="local", everywhere=True, all_states=True)
    )
    return [memory.id for memory in found if words in memory.text]


def found(parts: Parts, question: str, *filters: Filters) -> list[Hit]:
    """Every hit of a question: by words, by meaning, by both, under each filter, memories and turns."""
    modes: tuple[Mode, ...] = ("text", "semantic", "hybrid")
    asked = [Question(text=question, project=SHOP[0], mode=mode, filters=one) for mode in modes for one in filters]

    def search(tx: Tx) -> list[Hit]:
        return [hit for one in asked for find in (recall, search_turns) for hit in find(parts, tx, one).hits]

    return parts.readers.here(search)


def answers(parts: Parts, question: str) -> list[tuple[str, float]]:
    """Every hit's id with its score, also as of now and of one channel."""
    hits = found(parts, question, Filters(), Filters(as_of=parts.clock.now()), Filters(channel="claude-code"))
    return [(hit.item.id, hit.score) for hit in hits]


def texts_of(parts: Parts, question: str) -> str:
    return " ".join(hit.text for hit in found(parts, question, Filters(), Filters(as_of=parts.clock.now())))


def vectors_of(parts: Parts, erased: Erased) -> int:
    """How many of what went have vectors in the current space."""
    space = parts.vectors.space.id

    def count(tx: Tx) -> int:
        stored = StoredVectors(tx)
        return len(stored.some("memory", erased.ids.memories, space)) + len(
            stored.some("turn", erased.ids.turns, space)
        )

    return parts.readers.here(count)


def gone(parts: Parts, erased: Erased) -> None:
    """Nothing of the secret is left anywhere, and everything holds."""
    assert erased.out_of_files
    assert traces(parts.home, SECRET, *WORDS) == []
    assert not any(word in texts_of(parts, QUESTION) for word in WORDS)
    left = {id_ for id_, _ in answers(parts, QUESTION)}
    assert left.isdisjoint([*erased.ids.memories, *erased.ids.turns])
    assert parts.readers.here(lambda tx: Journal(tx).verify()).sound
    assert vectors_of(parts, erased) == 0


def by_hand(parts: Parts) -> None:
    remember(parts, SECRET, names=SHOP, scope="project", host="cli")


def by_prompt(parts: Parts) -> None:
    say(parts, f"For the record: {SECRET}")
    ask(parts, f"For the record: {SECRET}")  # the log of recalls repeats the beginning of a prompt


def in_bulk(parts: Parts) -> None:
    remember_many(parts, [SECRET], names=SHOP, scope="project")


def as_fact(parts: Parts) -> None:
    put_fact(parts, "vault", SECRET, names=SHOP, scope="project")


@pytest.mark.parametrize("put", [by_hand, by_prompt, in_bulk, as_fact])
def test_an_erased_memory_is_in_no_file_and_no_answer(parts: Parts, put: Callable[[Parts], None]) -> None:
    put(parts)
    idle(parts)
    log(parts)
    assert "marzipan" in texts_of(parts, QUESTION)
    assert traces(parts.home, *WORDS) != []
    gone(parts, erase(parts, of(parts, "marzipan")))


def test_an_erased_turn_without_memories_is_in_no_file_and_no_answer(parts: Parts) -> None:
    store_events(parts, [event("reply", text=SECRET)]).result(60)
    idle(parts)
    [hit, *_] = parts.readers.here(lambda tx: search_turns(parts, tx, Question(text=QUESTION, project=SHOP[0]))).hits
    erased = erase(parts, [hit.item.id])
    gone(parts, erased)
    assert parts.readers.here(lambda tx: status(parts, tx))["ledger"]["forgotten"] == 1


def test_nothing_comes_back_after_a_restart(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    with running(home) as parts:
        by_prompt(parts)
        erased = erase(parts, of(parts, "marzipan"))
    with running(home) as parts:
        idle(parts)
        gone(parts, erased)


def test_the_others_answer_as_before(parts: Parts) -> None:
    questions = ["What port does production listen on?", "How long do we keep invoices in Oslo?"]
    before = [answers(parts, question) for question in questions]
    counted = parts.readers.here(lambda tx: status(parts, tx))
    by_prompt(parts)
    gone(parts, erase(parts, of(parts, "marzipan")))
    assert [answers(parts, question) for question in questions] == before
    after = parts.readers.here(lambda tx: status(parts, tx))
    assert [
        (after[name], after["ledger"]["done"]) for name in ("memories", "turns", "vectors", "vectors_in_memory")
    ] == [(counted[name], counted["ledger"]["done"]) for name in ("memories", "turns", "vectors", "vectors_in_memory")]


def test_an_erased_rule_leaves_the_brief(parts: Parts) -> None:
    say(parts, "Always run `make marzipan` in the Quibblethwaite vault before you commit.")
    [rule] = of(parts, "marzipan")
    assert any(name.endswith(".md") for name, _ in traces(parts.home, "marzipan"))
    gone(parts, erase(parts, [rule]))


def test_what_replaced_an_erased_memory_no_longer_says_what_it_replaced(parts: Parts) -> None:
    put_fact(parts, "vault", SECRET, names=SHOP, scope="project")
    put_fact(parts, "vault", "It opens with a key.", names=SHOP, scope="project")
    [old] = of(parts, "marzipan")
    gone(parts, erase(parts, [old]))
    [new] = of(parts, "It opens with a key.")
    told = parts.readers.here(lambda tx: history(parts, tx, new))
    assert (told["supersedes"], told["previous_text"], told["state"]) == (None, None, "live")
    assert [entry["payload"] for entry in told["journal"]] == [None]


def test_the_first_of_a_chain_stays_when_what_replaced_it_is_erased(parts: Parts) -> None:
    put_fact(parts, "vault", "It opens with a key.", names=SHOP, scope="project")
    put_fact(parts, "vault", SECRET, names=SHOP, scope="project")
    gone(parts, erase(parts, of(parts, "marzipan")))
    [old] = of(parts, "It opens with a key.")
    told = parts.readers.here(lambda tx: history(parts, tx, old))
    assert (told["superseded_by"], told["state"]) == (None, "superseded")


def test_a_repetition_is_erased_with_what_it_repeats(parts: Parts) -> None:
    by_prompt(parts)
    by_prompt(parts)
    [memory] = of(parts, "marzipan")
    erased = erase(parts, [memory])
    assert len(erased.ids.turns) == 2
    gone(parts, erased)


def test_a_memory_that_rests_on_the_same_words_alone_must_be_named_too(parts: Parts) -> None:
    say(parts, "For the record: the kiosk listens on port 7001. For the record: the ferry listens on port 7002.")
    [kiosk], [ferry] = of(parts, "7001"), of(parts, "7002")
    with pytest.raises(BadInput, match=ferry):
        erase(parts, [kiosk])
    [turn] = parts.readers.here(lambda tx: history(parts, tx, kiosk))["quotes"]
    with pytest.raises(BadInput, match=rf"({kiosk}|{ferry}), ({kiosk}|{ferry})"):
        erase(parts, [turn["turn_id"]])
    assert "7001" in texts_of(parts, "Which port does the kiosk listen on?")
    erased = erase(parts, [kiosk, ferry])
    assert (set(erased.ids.memories), erased.ids.turns) == ({kiosk, ferry}, (turn["turn_id"],))
    assert traces(parts.home, "port 7001", "port 7002") == []


def test_a_memory_with_other_evidence_stays_and_loses_what_was_erased(parts: Parts) -> None:
    for _ in range(2):
        say(parts, "For the record: the kiosk listens on port 7001.")
    [kiosk] = of(parts, "7001")
    first, second = parts.readers.here(lambda tx: history(parts, tx, kiosk))["evidence"]
    erased = erase(parts, [first["turn_id"]])
    assert (erased.ids.memories, erased.ids.turns) == ((), (first["turn_id"],))
    assert parts.readers.here(lambda tx: history(parts, tx, kiosk))["evidence"] == [second]


def test_what_does_not_exist_is_named_and_nothing_is_erased(parts: Parts) -> None:
    by_hand(parts)
    with pytest.raises(NotFound, match="01unknown"):
        erase(parts, [*of(parts, "marzipan"), "01unknown"])
    assert "marzipan" in texts_of(parts, QUESTION)


def test_an_event_that_is_delivered_again_stays_erased(parts: Parts) -> None:
    for one in (event(text=f"For the record: {SECRET}"), event(text=f"For the record: {SECRET}")._replace(key="")):
        store_events(parts, [one]).result(60)
        idle(parts)
        erased = erase(parts, of(parts, "marzipan"))
        assert store_events(parts, [one]).result(60).duplicates == 1
        idle(parts)
        gone(parts, erased)


def test_nothing_is_erased_while_a_transcript_that_may_bring_it_back_is_to_be_read(
    parts: Parts, tmp_path: Path
) -> None:
    transcript = tmp_path / "session.jsonl"
    transcript.write_text("")
    store_events(parts, [event(text=f"For the record: {SECRET}")._replace(transcript=str(transcript))]).result(60)
    deadline = time.monotonic() + 60
    while not of(parts, "marzipan") and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(Busy, match="transcript"):
        erase(parts, of(parts, "marzipan"))
    idle(parts)
    gone(parts, erase(parts, of(parts, "marzipan")))


def test_vectors_of_every_space_go_and_none_comes_back_by_a_reindex(tmp_path: Path) -> None:
    makers = {"old": lambda: AnotherHash("old"), "new": lambda: AnotherHash("new", seconds=0.02)}
    with running(str(tmp_path / "home"), embedding="", environ={}, makers=makers) as parts:
        idle(parts)
        reindex(parts, "old")
        idle(parts)
        remember_many(parts, [f"Invoice {n} was paid in March." for n in range(40)], names=SHOP, scope="project")
        by_prompt(parts)
        idle(parts)
        reindex(parts, "new")
        erased = erase(parts, of(parts, "marzipan"))
        idle(parts)
        assert parts.vectors.space.model == "new"
        gone(parts, erased)
        owners = parts.readers.here(lambda tx: [id_ for id_, *_ in StoredVectors(tx).turns(parts.vectors.space.id)])
        assert set(owners).isdisjoint(erased.ids.turns)


def test_a_job_about_what_was_erased_is_gone(parts: Parts) -> None:
    by_hand(parts)
    [memory] = of(parts, "marzipan")
    now = parts.clock.now()
    name = f"index_memory:{memory}"
    parts.writer.run(lambda tx: Jobs(tx).enqueue("index_memory", {"memory": memory}, dedupe=name, at=now, delay=3600))
    erase(parts, [memory])
    assert parts.readers.here(lambda tx: Jobs(tx).get_by_key(name)) is None
    assert parts.readers.here(lambda tx: Events(tx).ledger())["forgotten"] == 1
