"""A whole Filrouge: what is said is understood, recalled, and put in front of the right prompt alone."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from filrouge.capture.service import store_events
from filrouge.context.block import parse
from filrouge.context.service import build_and_log_text
from filrouge.core.clock import SystemClock
from filrouge.core.errors import BadInput, EmbedderUnavailable, NotFound
from filrouge.core.protocols import Vector, Vectors
from filrouge.maintenance.health import stats, status
from filrouge.memories.changes import put_fact, remember, remember_many
from filrouge.memories.reports import history
from filrouge.providers.models import EmbeddingSpace
from filrouge.runtime import wiring
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts
from filrouge.search.service import Question, search_turns
from filrouge.search.vector_search import NOTICE_INDEX_LOADING, NOTICE_NO_EMBEDDER
from filrouge.testing import StableHash, idle, running
from tests.support.given import BLOG, SHOP, ask, event, known, log, say

PORT = "For the record: production listens on port 8443."
QUESTION = "What port does production listen on?"


class DeadEmbedder:
    """An embedder whose model cannot be used."""

    @property
    def space(self) -> EmbeddingSpace:
        return StableHash().space

    def query(self, text: str) -> Vector:
        raise EmbedderUnavailable

    def passages(self, texts: Sequence[str]) -> Vectors:
        raise EmbedderUnavailable


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as found:
        idle(found)
        yield found


@contextmanager
def built(home: Path) -> Generator[Parts]:
    """The parts alone: nothing works in the background."""
    found = wiring.build(str(home), environ={"FILROUGE_EMBEDDING_MODEL": "hashing"}, clock=SystemClock())
    try:
        yield found
    finally:
        found.readers.close()
        found.writer.close()


def test_what_is_said_is_understood_recalled_and_put_in_front_of_a_prompt(parts: Parts) -> None:
    say(parts, PORT)
    [hit] = known(parts, QUESTION).hits
    assert "8443" in hit.text
    [line] = parse(ask(parts, QUESTION))
    assert line == f"[just now, claude-code] {hit.text}"
    told = parts.readers.here(lambda tx: history(parts, tx, hit.id))
    assert told["quotes"][0]["text"] in PORT
    assert [entry["action"] for entry in told["journal"]] == ["add"]


def test_what_a_prompt_calls_up_was_used_and_what_every_session_is_told_was_not(parts: Parts) -> None:
    say(parts, PORT)
    [hit] = known(parts, QUESTION).hits

    def uses() -> tuple[int, float]:
        parts.writer.run(lambda _: None)
        told = parts.readers.here(lambda tx: history(parts, tx, hit.id))
        return told["uses"], told["vitality"]

    assert build_and_log_text(parts, event("session_start", session="t"), SHOP[0])
    assert uses() == (0, 1.0)
    ask(parts, QUESTION)
    ask(parts, "Where did the tram to the harbour stop again?")
    assert uses() == (1, 1.0)


def test_a_correction_supersedes_and_the_old_value_is_no_longer_injected(parts: Parts) -> None:
    say(parts, PORT)
    say(parts, "Correction: production listens on port 9443, not 8443.")
    block = ask(parts, QUESTION)
    assert [("9443" in line, "port 8443" in line) for line in parse(block)] == [(True, False)]
    [hit] = known(parts, QUESTION).hits
    told = parts.readers.here(lambda tx: history(parts, tx, hit.id))
    assert "8443" in told["previous_text"]
    assert told["supersedes"]


def test_another_project_is_never_injected_and_the_user_always_is(parts: Parts) -> None:
    say(parts, PORT, BLOG)
    remember(parts, "My name is Ana Beltran.", names=BLOG, scope=None, host="cli")
    assert ask(parts, QUESTION, SHOP) == ""
    assert "8443" in ask(parts, QUESTION, BLOG)
    assert "Ana Beltran" in ask(parts, "Who is Ana Beltran, please?", SHOP)
    assert "8443" not in ask(parts, "Who is Ana Beltran, please?", SHOP)


def test_an_event_sent_twice_is_one(parts: Parts) -> None:
    one = event(text=PORT)
    first, second = (store_events(parts, [one]).result(60) for _ in range(2))
    assert (first.accepted, first.duplicates, first.projects) == (1, 0, SHOP)
    assert (second.accepted, second.duplicates, second.projects) == (0, 1, SHOP)
    idle(parts)
    assert parts.readers.here(lambda tx: status(parts, tx))["ledger"]["done"] == 1


def test_what_is_typed_twice_through_two_programs_at_once_is_known_the_second_time(parts: Parts) -> None:
    first, second = (remember(parts, PORT, names=SHOP, scope=None, host=host) for host in ("cli", "api"))
    assert [action.name for action in (*first, *second)] == ["add", "noop"]


def test_a_secret_is_taken_out_before_anything_is_stored(parts: Parts) -> None:
    say(parts, "The deploy key is AKIAIOSFODNN7EXAMPLE, never show it to anybody.")
    stored = b"".join(path.read_bytes() for path in Path(parts.home).rglob("*") if path.is_file())
    assert b"AKIAIOSFODNN7EXAMPLE" not in stored
    assert b"akiaiosfodnn7example" not in stored


def test_a_lone_surrogate_in_a_prompt_loses_no_event(parts: Parts) -> None:
    say(parts, "For the record: production listens on port 8443 \ud83d.")
    assert parts.readers.here(lambda tx: status(parts, tx))["queue"]["dead"] == 0
    assert "8443" in ask(parts, QUESTION)


def test_a_short_prompt_is_left_in_peace_and_logged(parts: Parts) -> None:
    say(parts, PORT)
    assert ask(parts, "port production?") == ""
    assert [(row["memories_injected"], row["user_message_preview"]) for row in log(parts)] == [(0, "port production?")]


def test_a_recall_is_logged_with_its_tokens_also_when_nothing_was_injected(parts: Parts) -> None:
    say(parts, PORT)
    block = ask(parts, QUESTION)
    assert ask(parts, "écris un haïku sur la pluie de printemps") == ""
    nothing, something = log(parts)
    assert (something["memories_injected"], something["total_tokens_added"]) == (1, -(-len(block) // 4))
    assert (nothing["memories_injected"], nothing["total_tokens_added"]) == (0, 0)
    assert something["items"][0]["reason"] == "injected"
    assert something["items"][0]["relevance"] >= 0.5
    assert "8443" not in str(something["items"])


def test_with_retrieval_off_nothing_is_injected_or_logged(tmp_path: Path) -> None:
    with running(str(tmp_path), environ={"FILROUGE_AUTO_RETRIEVE_ENABLED": "false"}) as parts:
        say(parts, PORT)
        assert ask(parts, QUESTION) == ""
        assert log(parts) == []
        assert known(parts, QUESTION).hits


def test_a_session_starts_with_the_rules_of_its_project(parts: Parts) -> None:
    say(parts, "From now on, always use uv and never pip in this repository.")
    start = event("session_start", source="startup")
    assert "## Rules" in build_and_log_text(parts, start, SHOP[0])
    assert build_and_log_text(parts, event("session_start", project=BLOG, source="startup"), BLOG[0]) == ""
    assert [row["user_message_preview"] for row in log(parts)] == ["[session_start]"]


def test_headings_are_in_the_language_of_the_prompt(parts: Parts) -> None:
    say(parts, PORT)
    assert "## Souvenirs pertinents" in ask(parts, "Sur quel port est-ce que la production écoute dans le projet ?")


def test_a_dead_embedder_leaves_recall_by_words_and_says_so(tmp_path: Path) -> None:
    with built(tmp_path) as parts:
        wiring.load_indexes(parts)
        parts.change_vectors(lambda now: replace(now, embedder=DeadEmbedder()))
        remember(parts, PORT, names=SHOP, scope="project", host="cli")
        ranking = known(parts, QUESTION)
        assert ["8443" in hit.text for hit in ranking.hits] == [True]
        assert ranking.notices == (NOTICE_NO_EMBEDDER,)
        assert "8443" in ask(parts, QUESTION)
        assert log(parts)[0]["notices"] == [NOTICE_NO_EMBEDDER]
        assert parts.readers.here(lambda tx: status(parts, tx))["queue"]["waiting"] >= 1  # its vectors, later
    with running(str(tmp_path)) as parts:
        idle(parts)
        assert parts.readers.here(stats)["vectorsCount"] >= 1
        assert known(parts, QUESTION).hits[0].similarity is not None


def test_while_the_index_is_loading_words_are_searched_and_it_says_so(tmp_path: Path) -> None:
    with built(tmp_path) as parts:
        remember(parts, PORT, names=SHOP, scope="project", host="cli")
        assert known(parts, QUESTION).notices == (NOTICE_INDEX_LOADING,)
        assert known(parts, QUESTION).hits


def test_a_restart_rebuilds_the_index_from_the_store(tmp_path: Path) -> None:
    with running(str(tmp_path)) as parts:
        say(parts, PORT)
        before = known(parts, QUESTION)
    with running(str(tmp_path)) as parts:
        idle(parts)
        after = known(parts, QUESTION)
    assert [(hit.id, hit.similarity) for hit in after.hits] == [
        (hit.id, pytest.approx(hit.similarity, abs=1e-3)) for hit in before.hits
    ]


def test_a_fact_set_by_hand_replaces_its_former_value_and_has_its_vector(parts: Parts) -> None:
    put_fact(parts, "user_name", "Ana", names=(), scope="user")
    done = put_fact(parts, "user_name", "Ana Beltran", names=(), scope="user")
    assert (done.name, len(done.closed)) == ("update", 1)
    assert [hit.text for hit in known(parts, "user_name").hits] == ["user_name: Ana Beltran"]
    assert parts.readers.here(stats) | {"lastIndexedAt": None} == {
        "factsCount": 1, "messagesCount": 0, "vectorsCount": 2, "lastIndexedAt": None,
    }  # fmt: skip


def test_many_statements_are_kept_as_they_are_and_indexed_afterwards(parts: Parts) -> None:
    texts = [f"Server number{n} is in room {n}" for n in range(30)]
    assert remember_many(parts, texts, names=SHOP, scope="project") == 30
    idle(parts)
    assert parts.readers.here(stats)["vectorsCount"] == 30
    assert known(parts, "where is number17?").hits[0].text == texts[17]


@pytest.mark.parametrize("text", ["", " \n", "x" * 200_001])
def test_nothing_and_too_much_cannot_be_remembered(parts: Parts, text: str) -> None:
    with pytest.raises(BadInput):
        remember(parts, text, names=(), scope=None, host="cli")


def test_what_is_not_recognised_is_kept_whole_because_the_user_asked(parts: Parts) -> None:
    [action] = remember(parts, "blue teapot tuesday", names=SHOP, scope=None, host="cli")
    told = parts.readers.here(lambda tx: history(parts, tx, action.memory_id))
    assert (action.name, told["text"], told["trust"]) == ("add", "blue teapot tuesday", 3)


def test_verbatim_turns_are_searched_by_words_and_by_meaning(parts: Parts) -> None:
    say(parts, "please look at the Drizzle migration of the storefront")
    for mode in ("text", "semantic", "hybrid"):
        question = Question(text="drizzle migration", everywhere=True, mode=mode)
        hits = parts.readers.here(lambda tx, question=question: search_turns(parts, tx, question)).hits
        assert ["Drizzle" in hit.text for hit in hits] == [True]


@pytest.mark.parametrize("query", ['"', "a OR", "NEAR(", "*", "col:x", "-", "\x00", "'; --", "\ud800", "", "()" * 300])
def test_any_punctuation_is_a_legal_question(parts: Parts, query: str) -> None:
    say(parts, PORT)
    known(parts, query)
    question = Question(text=query, everywhere=True)
    parts.readers.here(lambda tx: search_turns(parts, tx, question))


def test_everything_decided_is_in_a_sound_journal(parts: Parts) -> None:
    say(parts, PORT)
    say(parts, "Correction: production listens on port 9443, not 8443.")
    assert parts.readers.here(lambda tx: Journal(tx).verify()).sound


def test_an_unknown_memory_has_no_history(parts: Parts) -> None:
    with pytest.raises(NotFound, match="'01nothing'"):
        parts.readers.here(lambda tx: history(parts, tx, "01nothing"))
