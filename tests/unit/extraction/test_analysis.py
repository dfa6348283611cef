"""Sessions are analysed once, on from where they were left; what they came to is kept apart from what is believed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from filrouge.capture.events import Event
from filrouge.capture.models import Turn
from filrouge.capture.service import store_events
from filrouge.core.errors import BadInput
from filrouge.core.paths import DATABASE
from filrouge.erasure.service import erase
from filrouge.extraction import sessions
from filrouge.extraction.models import Analysis
from filrouge.extraction.repository import Analyses, Session
from filrouge.extraction.sessions import queue_idle
from filrouge.extraction.summaries import Rarity, analyse
from filrouge.extraction.tool_output import Judgement, judge_by_rules
from filrouge.extraction.understanding import trim_tool_output
from filrouge.maintenance import health
from filrouge.memories import reports
from filrouge.memories.changes import bin_memory, restore
from filrouge.memories.models import Filters, Memory
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.search.service import Question, recall, search_turns
from filrouge.testing import idle, running
from tests.support.given import ask, event, log

ASKED = "Please find out why the invoice export is slow. The invoice export runs in the billing worker."
DECIDED = "We decided to keep the invoice export in the billing worker, and to embed fonts once."
REPLIED = "I fixed the invoice export: the font was embedded once for each page."
HISTORY = [
    {"role": "user", "content": "I prefer short answers. We decided to use Postgres for the ledger."},
    {"role": "assistant", "content": "I added the ledger table to Postgres."},
]


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as found:
        idle(found)
        yield found


def tell(parts: Parts, *events: Event) -> None:
    store_events(parts, list(events)).result(60)
    idle(parts)


def talk(parts: Parts, session: str = "s", *, end: bool = True) -> None:
    """A session about the export of invoices, and its end."""
    tell(
        parts,
        event(session=session, text=ASKED),
        event("reply", session=session, text=REPLIED),
        event(session=session, text=DECIDED),
        *([event("session_end", session=session, reason="exit")] if end else []),
    )


def with_a_vector(parts: Parts) -> dict[str, Any]:
    """The one episode; who was in the bin has a vector, as whatever the user restores."""
    [episode] = memories(parts, "episode")
    bin_memory(parts, episode["id"])
    restore(parts, episode["id"])
    idle(parts)
    return episode


def query(home: str, sql: str, *values: str) -> list[tuple[Any, ...]]:
    """What the database of a home answers, through the library that it is open with."""
    database: Any = apsw.Connection(str(Path(home, DATABASE)), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(database.execute(sql, values))
    finally:
        database.close()


def memories(parts: Parts, *kinds: str, state: str = "live") -> list[dict[str, Any]]:
    """The rows of these kinds, oldest first."""
    names = [row[1] for row in query(parts.home, "pragma table_info(memories)")]
    found = query(parts.home, "select * from memories where state = ? order by seq", state)
    return [row for values in found if (row := dict(zip(names, values, strict=True)))["kind"] in kinds]


def concepts(parts: Parts) -> dict[str, dict[str, Any]]:
    """Every concept by its text."""
    rows = parts.readers.here(
        lambda tx: Analyses(tx, parts.analyser).concepts(project=None, everywhere=True, limit=100)
    )
    return {row["text"]: row for row in rows}


def metrics(parts: Parts) -> dict[str, float]:
    text = parts.readers.here(lambda tx: health.metrics(parts, tx)).decode()
    return {
        "|".join([one.name, *(value for _, value in sorted(one.labels.items()))]): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def rows(home: str) -> dict[str, int]:
    """How many rows each table of a home has."""
    names = [row[0] for row in query(home, "select name from sqlite_schema where type = 'table'")]
    plain = [name for name in names if "_fts" not in name and not name.endswith(("_words", "_places"))]
    return {name: query(home, f'select count(*) from "{name}"')[0][0] for name in plain}


class Recording:
    """The analyst without a model, which remembers what it was given to read."""

    def __init__(self) -> None:
        self.read: list[list[str]] = []

    def __call__(
        self, turns: Sequence[Turn], *, former: Analysis, rarity: Rarity | None, projects: Sequence[str]
    ) -> Analysis:
        self.read.append([turn.text for turn in turns])
        return analyse(turns, former=former, rarity=rarity, projects=projects)


# What the daemon does by itself


def test_a_session_that_ends_leaves_one_episode_and_mentions_of_its_concepts(parts: Parts) -> None:
    talk(parts)
    [episode] = memories(parts, "episode")
    assert episode["text"].startswith("Asked: ")
    assert (episode["session_id"], episode["trust"], episode["made_by"]) == ("s", 1, "heuristic")
    assert {"invoice export", "billing worker"} <= concepts(parts).keys()
    assert concepts(parts)["invoice export"]["sessions"] == ["s"]


def test_a_concept_said_again_in_another_session_is_a_mention_and_no_copy(parts: Parts) -> None:
    talk(parts, "first")
    before = concepts(parts)["invoice export"]
    talk(parts, "second")
    after = concepts(parts)["invoice export"]
    assert (before["mention_count"], after["mention_count"]) == (1, 2)
    assert (after["id"], after["sessions"]) == (before["id"], ["first", "second"])
    assert after["first_mention"] == before["first_mention"] < after["last_mention"]
    assert len(memories(parts, "concept")) == len({row["subject"] for row in memories(parts, "concept")})


def test_a_session_that_goes_on_is_read_on_and_its_episode_superseded(parts: Parts) -> None:
    parts.analyst = recording = Recording()
    talk(parts)
    [first] = memories(parts, "episode")
    tell(
        parts,
        event(text="Also the bug was a stale lock, fixed by closing the invoice cursor."),
        event("pre_compact", trigger="auto"),
    )
    assert [len(texts) for texts in recording.read] == [3, 1]
    [second] = memories(parts, "episode")
    assert (second["supersedes"], second["previous_text"]) == (first["id"], first["text"])
    assert "stale lock" in second["text"]


def test_a_session_without_anything_new_is_not_read_again(parts: Parts) -> None:
    parts.analyst = recording = Recording()
    talk(parts)
    tell(parts, event("pre_compact", trigger="manual"), event("session_end", reason="exit"))
    assert len(recording.read) == 1
    assert len(memories(parts, "episode")) == 1


def test_a_session_of_one_message_leaves_nothing_until_it_goes_on(parts: Parts) -> None:
    tell(parts, event(text=ASKED), event("session_end", reason="exit"))
    assert memories(parts, "episode", "concept") == []
    tell(parts, event("reply", text=REPLIED), event("session_end", reason="exit"))
    [episode] = memories(parts, "episode")
    assert "invoice export" in episode["text"]


def test_a_session_that_fell_silent_is_analysed(parts: Parts) -> None:
    long_ago = time.time() - 3600
    tell(parts, *(one._replace(at=long_ago) for one in (event(text=ASKED), event("reply", text=REPLIED))))
    tell(parts, event(session="busy", text=DECIDED), event("reply", session="busy", text=REPLIED))
    assert queue_idle(parts) == 1
    idle(parts)
    assert [row["session_id"] for row in memories(parts, "episode")] == ["s"]
    assert queue_idle(parts) == 0


def test_an_analyst_that_fails_is_counted_and_tried_again_and_leaves_nothing(parts: Parts) -> None:
    failing = threading.Event()

    def analyst(turns: Sequence[Turn], **_: Any) -> Analysis:
        if not failing.is_set():
            failing.set()
            raise TimeoutError
        return replace(analyse(turns), made_by="ollama/small")

    parts.analyst = analyst
    talk(parts)
    [episode] = memories(parts, "episode")
    assert episode["made_by"] == "ollama"
    found = metrics(parts)
    assert found["memory_analysis_failure_total|TimeoutError|heuristic"] == 1
    assert found["memory_analysis_success_total|ollama"] == found["memory_analysis_duration_seconds_count|ollama"] == 1


def test_a_summary_of_the_host_brings_no_second_copy_of_a_fact(parts: Parts) -> None:
    tell(parts, event(text="For the record: production listens on port 8443."))
    before = [row["id"] for row in memories(parts, "fact", "decision", "rule")]
    tell(
        parts,
        event("summary", text="The user said that production listens on port 8443. The export was made faster."),
        event("session_end", reason="exit"),
    )
    assert [row["id"] for row in memories(parts, "fact", "decision", "rule")] == before


# Kept apart from what is believed


def test_episodes_and_concepts_are_neither_counted_nor_listed_as_facts(parts: Parts) -> None:
    talk(parts, end=False)

    def counts() -> tuple[int, int, list[str]]:
        def read(tx: Any) -> tuple[int, int, list[str]]:
            listed, _ = reports.listing(parts, tx, [], rules=False, history=True)
            return health.status(parts, tx)["memories"], health.stats(tx)["factsCount"], [one["id"] for one in listed]

        return parts.readers.here(read)

    before = counts()
    tell(parts, event("session_end", reason="exit"))
    assert memories(parts, "episode")
    assert memories(parts, "concept")
    assert counts() == before


def test_episodes_and_concepts_are_never_put_in_front_of_a_prompt(parts: Parts) -> None:
    talk(parts)
    block = ask(parts, "Where does the invoice export run, in the billing worker?")
    assert "Asked:" not in block
    kinds = {item["kind"] for item in log(parts)[0]["items"]}
    assert kinds
    assert not kinds & {"episode", "concept"}
    found = parts.readers.here(lambda tx: recall(parts, tx, Question(text="invoice export", everywhere=True)))
    assert {hit.item.kind for hit in found.hits if isinstance(hit.item, Memory)} == {"decision"}


def test_an_episode_takes_no_place_among_what_is_near_in_meaning(parts: Parts) -> None:
    talk(parts)
    episode = with_a_vector(parts)

    def kinds(filters: Filters) -> set[str]:
        question = Question(text=episode["text"], everywhere=True, mode="semantic", filters=filters)
        hits = parts.readers.here(lambda tx: recall(parts, tx, question)).hits
        return {hit.item.kind for hit in hits if isinstance(hit.item, Memory)}

    assert kinds(Filters(kinds=("episode",))) == {"episode"}
    assert kinds(Filters()) == {"decision"}


def test_an_episode_is_found_by_who_asks_for_episodes(parts: Parts) -> None:
    talk(parts)
    question = Question(text="invoice export", everywhere=True, mode="text", filters=Filters(kinds=("episode",)))
    found = parts.readers.here(lambda tx: recall(parts, tx, question))
    assert [hit.id for hit in found.hits] == [row["id"] for row in memories(parts, "episode")]
    listed, _ = parts.readers.here(
        lambda tx: reports.listing(parts, tx, [], Filters(kinds=("concept", "episode")), rules=False)
    )
    assert {one["kind"] for one in listed} == {"concept", "episode"}


def test_vectors_are_complete_without_them(parts: Parts) -> None:
    talk(parts)
    row = parts.readers.here(lambda tx: tx.one("vectors.coverage", {"space_id": parts.vectors.space.id}))
    assert row is not None
    assert row["done"] == row["total"]


# What a program asks


def test_a_program_gets_summary_concepts_and_entities_and_they_are_kept(parts: Parts) -> None:
    talk(parts, end=False)
    found = sessions.analyze_session_for_concepts(parts, "s")
    assert found.keys() == {"summary", "concepts", "entities"}
    assert "invoice export" in found["concepts"]
    assert [row["text"] for row in memories(parts, "episode")] == [found["summary"]]


def test_the_same_history_within_an_hour_is_answered_from_the_cache(parts: Parts) -> None:
    parts.analyst = recording = Recording()
    talk(parts, end=False)
    first = sessions.analyze_session_for_concepts(parts, "s")
    assert sessions.analyze_session_for_concepts(parts, "s") == first
    assert len(recording.read) == 1
    found = metrics(parts)
    assert (found["memory_analysis_cache_misses_total"], found["memory_analysis_cache_hits_total"]) == (1, 1)
    assert found["memory_cache_size"] == 1
    assert sessions.analyze_session_for_concepts(parts, "s", force=True) == first
    assert [len(texts) for texts in recording.read] == [3, 3]
    assert len(memories(parts, "episode")) == 1


def test_a_session_that_nobody_knows_comes_to_nothing_and_leaves_nothing(parts: Parts) -> None:
    before = rows(parts.home)
    found = sessions.analyze_session_for_concepts(parts, "nowhere")
    assert found == {"summary": "", "concepts": [], "entities": []}
    assert rows(parts.home) == before


def test_several_sessions_may_be_analysed_at_once_and_one_by_several(parts: Parts) -> None:
    names = [f"s{number}" for number in range(4)]
    for name in names:
        talk(parts, name, end=False)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(partial(sessions.analyze_session_for_concepts, parts), names * 4))
    assert {one["summary"] for one in found} == {found[0]["summary"]}
    assert sorted(row["session_id"] for row in memories(parts, "episode")) == names
    assert concepts(parts)["invoice export"]["mention_count"] == 4
    assert parts.readers.here(lambda tx: Journal(tx).verify()).sound


def test_a_history_with_a_user_keeps_what_that_user_prefers_once(parts: Parts) -> None:
    for _ in range(2):
        found = sessions.analyze_session_for_concepts(parts, "bot-1", HISTORY, user_id="ana", force=True)
        assert "ledger" in " ".join(found["concepts"])
    idle(parts)
    own = [row for row in memories(parts, "preference", "decision") if row["user_id"] == "ana"]
    assert [row["text"] for row in own] == ["I prefer short answers.", "We decided to use Postgres for the ledger."]
    assert [row["mention_count"] for row in own] == [1, 1]
    assert {row["user_id"] for row in memories(parts, "episode", "concept")} == {"ana"}
    found = parts.readers.here(lambda tx: search_turns(parts, tx, Question(text="ledger table", everywhere=True)))
    assert {hit.item.scope.session for hit in found.hits} == {"bot-1"}


def test_preferences_of_nobody_are_counted_and_not_kept(parts: Parts) -> None:
    sessions.analyze_session_for_concepts(parts, "bot-1", HISTORY)
    assert memories(parts, "preference", "decision") == []
    assert metrics(parts)["memory_preference_extraction_failures_total|user_identifier_missing"] == 1
    assert len(memories(parts, "episode")) == 1


def test_the_user_of_a_captured_session_is_known(parts: Parts) -> None:
    talk(parts, end=False)
    sessions.analyze_session_for_concepts(parts, "s", [*HISTORY, {"role": "user", "content": ASKED}])
    assert "memory_preference_extraction_failures_total|user_identifier_missing" not in metrics(parts)
    assert [row["user_id"] for row in memories(parts, "preference")] == ["local"]


def test_analysing_a_history_keeps_nothing(parts: Parts) -> None:
    before = rows(parts.home)
    found = sessions.analyze_history(parts, "bot-1", HISTORY)
    assert "ledger" in " ".join(found["concepts"])
    assert rows(parts.home) == before


def test_a_message_that_cannot_be_read_is_named(parts: Parts) -> None:
    with pytest.raises(BadInput, match="Message 1"):
        sessions.analyze_history(parts, "bot-1", [HISTORY[0], {"role": "robot", "content": "beep"}])


def test_secrets_of_a_history_are_not_kept(parts: Parts) -> None:
    key = "sk-ant-api03-" + "A1b2C3d4" * 12
    history = [{"role": "user", "content": f"We decided to use the key {key} for the ledger service."}]
    found = sessions.analyze_session_for_concepts(parts, "bot-1", history, user_id="ana")
    assert key not in json.dumps(found)
    idle(parts)
    assert key.encode() not in b"".join(path.read_bytes() for path in Path(parts.home).rglob("*.db*"))


def switch_off(parts: Parts) -> None:
    parts.writer.run(lambda tx: StoredSettings(tx).put({"extract_provider": "off"}, parts.clock.now()))


def test_where_extraction_is_off_a_program_is_told_so_and_the_daemon_reads_nothing(parts: Parts) -> None:
    switch_off(parts)
    talk(parts)
    assert memories(parts, "episode", "concept") == []
    assert sessions.analyze_session_for_concepts(parts, "s") == {"error": "extraction_disabled"}
    assert sessions.analyze_history(parts, "s", HISTORY) == {"error": "extraction_disabled"}


# Forgetting


def test_what_a_session_came_to_goes_with_any_of_its_turns(parts: Parts) -> None:
    secret = "We decided that the Quibblethwaite vault opens with the marzipan handshake."
    tell(
        parts,
        event(text="Tell me about the Quibblethwaite vault, the Quibblethwaite vault is new."),
        event("reply", text="I updated the Quibblethwaite vault and its marzipan handshake."),
        event(text=secret),
        event("session_end", reason="exit"),
    )
    talk(parts, "other")
    assert any("quibblethwaite" in name for name in concepts(parts))
    turns = [row[0] for row in query(parts.home, "select id from turns where session_id = 's'")]
    resting = "select distinct memory_id from evidence join turns on id = turn_id where session_id = 's'"
    cited = [row[0] for row in query(parts.home, resting)]
    assert erase(parts, [*turns, *cited]).out_of_files
    idle(parts)
    held = b"".join(path.read_bytes() for path in Path(parts.home).rglob("*") if path.is_file()).lower()
    assert b"quibblethwaite" not in held
    assert b"marzipan" not in held
    assert [row["session_id"] for row in memories(parts, "episode")] == ["other"]
    assert "invoice export" in concepts(parts)
    assert parts.readers.here(lambda tx: Journal(tx).verify()).sound


def test_what_is_left_of_a_session_is_summed_up_anew(parts: Parts) -> None:
    talk(parts)
    tell(parts, event(text="The Quibblethwaite rota is on the wiki."), event("session_end", reason="exit"))
    rota = [row[0] for row in query(parts.home, "select id from turns where text like '%Quibblethwaite%'")]
    cited = [row[0] for row in query(parts.home, "select memory_id from evidence where turn_id = ?", *rota)]
    erase(parts, [*rota, *cited])
    idle(parts)
    [episode] = memories(parts, "episode")
    assert "invoice export" in episode["text"]
    assert not [name for name in concepts(parts) if "quibble" in name]


def test_a_concept_that_another_session_spoke_of_stays_with_fewer_mentions(parts: Parts) -> None:
    talk(parts, "first")
    talk(parts, "second")
    of_first = "select id from turns where session_id = 'first' and role = 'assistant'"
    first = [row[0] for row in query(parts.home, of_first)]
    switch_off(parts)  # so that the rest is not read again
    erase(parts, first)
    assert concepts(parts)["invoice export"]["sessions"] == ["second"]
    assert concepts(parts)["invoice export"]["mention_count"] == 1


# Tool output


def test_tool_output_is_judged_once_and_replaced_by_what_it_tells(parts: Parts) -> None:
    told = "The root cause is a stale lock in the registry, therefore the export waited for 30 seconds. " * 3
    calls = [
        {"name": "Bash", "id": f"call-{n}", "input": {"command": "make"}, "output": output, "failed": False}
        for n, output in enumerate([told, "ok", told])
    ]
    tell(parts, event("tools", calls=calls))
    turns = parts.readers.here(lambda tx: Analyses(tx, parts.analyser).turns(Session(host="claude-code", id="s"))[0])
    asked: list[str] = []

    def judge(text: str) -> Judgement:
        asked.append(text)
        return judge_by_rules(text)

    for _ in range(2):
        found = trim_tool_output(parts, turns, judge)
        assert len(found) == 2
        assert all(len(turn.text) <= 500 and "stale lock" in turn.text for turn in found)
    assert len(asked) == 2  # the same output twice, and one that tells nothing
    assert rows(parts.home)["informed_outputs"] == 2
    erase(parts, [turn.id for turn in turns])
    assert rows(parts.home)["informed_outputs"] == 0
