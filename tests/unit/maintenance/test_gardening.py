"""The garden: a plan first, step by step behind all other work, and what it came to is the sum of its steps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from filrouge.capture.models import Turn
from filrouge.core.clock import new_id
from filrouge.core.errors import Busy
from filrouge.core.protocols import Tx
from filrouge.core.settings import Settings
from filrouge.erasure.service import erase
from filrouge.extraction.models import Analysis
from filrouge.extraction.repository import Analyses, Session
from filrouge.extraction.summaries import Rarity
from filrouge.maintenance import garden_service
from filrouge.maintenance.consolidation import ConsolidationRun, MemoryProgress
from filrouge.maintenance.garden_service import (
    GARDEN,
    ConsolidationRuns,
    GardenSchedule,
    Merging,
    compare_memories,
    is_idle,
    is_scheduled,
)
from filrouge.maintenance.health import concepts
from filrouge.memories.changes import user_origin
from filrouge.memories.repository import Reviews, UserChanges
from filrouge.memories.service import undo
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.services import Parts
from filrouge.search.repository import StoredVectors
from filrouge.testing import AnotherHash, idle, running
from tests.support import given
from tests.unit.maintenance.gardens_given import THEN, converse, known, live, memory, messages, over, tended

CACHE = "The cache lives on host alpha."


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path)) as found:
        yield found


def spoken(parts: Parts, count: int) -> None:
    for number in range(count):
        converse(
            parts,
            f"s{number}",
            f"We decided that the invoice export number{number} goes through the payment queue.",
            f"Please look at the invoice export number{number} once more, the payment queue is slow.",
        )
    idle(parts)


def rows(parts: Parts, query: str) -> list[dict[str, object]]:
    return parts.readers.here(lambda tx: tx.all(query))


def test_a_run_reads_sessions_and_says_exactly_how_far_it_is(parts: Parts) -> None:
    spoken(parts, 3)
    assert garden_service.plan(parts).counts == {"sessions": 3, "preferences": 3}
    with parts.bus.subscribed() as listener:
        done = tended(parts)
        heard: list[object] = []
        while (message := listener.get(1.0 if not heard else 0.2)) is not None:
            heard.append(message)
    assert (done["state"], done["steps"], done["totals"]["sessions"]) == ("completed", {"done": 6, "total": 6}, 3)
    made = [one.to_json() for one in heard if isinstance(one, MemoryProgress)]
    assert [{name: one[name] for name in ("type", "payload")} for one in messages(parts, done["id"])] == made
    assert [(one["payload"]["phase"], one["payload"]["current"], one["payload"]["total"]) for one in made] == [
        *(("extracting_concepts", n, 3) for n in (1, 2, 3)),
        *(("analyzing_preferences", n, 3) for n in (1, 2, 3)),
        ("completed", 6, 6),
    ]
    assert [one["payload"]["session_id"] for one in made] == ["s0", "s1", "s2", "s0", "s1", "s2", ""]
    new = len(rows(parts, "memories.live_concepts")) + 3  # and an episode of each session
    assert made[-1]["payload"]["new_items"] == done["totals"]["new_items"] == new
    assert garden_service.plan(parts).steps == ()
    assert messages(parts, done["id"], after=6)[0]["label"].startswith("✓ Consolidation completed: 3 sessions")


def test_a_dry_run_does_nothing_and_nothing_to_do_begins_nothing(parts: Parts) -> None:
    assert garden_service.begin(parts).garden_id is None
    spoken(parts, 1)
    assert "read one unread or continued session" in str(garden_service.plan(parts))
    assert rows(parts, "memories.live_concepts") == []
    assert parts.readers.here(lambda tx: ConsolidationRuns(tx).newest(5)) == []


def test_one_run_is_at_work_at_a_time_and_a_lost_one_makes_room(parts: Parts) -> None:
    spoken(parts, 2)
    found = garden_service.plan(parts)
    parts.writer.run(
        lambda tx: ConsolidationRuns(tx).begin("other", "hand", found.stored_counts(), [], parts.clock.now())
    )
    parts.writer.run(lambda tx: Jobs(tx).enqueue("waits", {}, dedupe=GARDEN, at=parts.clock.now(), delay=600.0))
    with pytest.raises(Busy, match="running already"):
        garden_service.begin(parts)
    parts.writer.run(lambda tx: tx.run("jobs.erase", {"dedupe_keys": f'["{GARDEN}"]'}))
    assert over(parts, "other")["state"] == "failed"
    assert tended(parts)["totals"]["sessions"] == 2
    ended = parts.readers.here(lambda tx: ConsolidationRuns(tx).get("other"))
    assert (ended.state, "lost" in ended.error) == ("failed", True)


def test_a_session_that_cannot_be_read_is_counted_and_holds_up_nothing(tmp_path: Path) -> None:
    with running(str(tmp_path)) as parts:
        spoken(parts, 3)
        own, seen = parts.analyst, Counter[str]()

        def reader(
            turns: Sequence[Turn], *, former: Analysis, rarity: Rarity | None, projects: Sequence[str]
        ) -> Analysis:
            seen["asked"] += 1
            if seen["asked"] == 2:
                raise ValueError("a test asked for it")
            return own(turns, former=former, rarity=rarity, projects=projects)

        parts.analyst = reader
        done = tended(parts)
        assert (done["state"], done["totals"]["failed"], done["totals"]["sessions"]) == ("completed", 1, 2)
        assert done["steps"] == {"done": 6, "total": 6}
        parts.analyst = own
        assert garden_service.plan(parts).counts["sessions"] == 1  # it is read by the next run


def test_a_duplicate_goes_into_the_other_with_all_that_speaks_for_it(parts: Parts) -> None:
    given.say(parts, "We decided that the server listens on port 9443.")
    [first] = live(parts)
    [old] = [one for one in rows(parts, "memories.sealed") if one["text"] == first]
    [new] = known(parts, first.upper(), kind="decision", at=datetime(2027, 1, 1, tzinfo=UTC))
    done = tended(parts)
    assert done["totals"]["merged_memories"] == 1
    kept, gone = memory(parts, str(old["id"])), memory(parts, new)
    assert (kept.mention_count, kept.text, kept.trust) == (2, first, old["trust"])
    assert (gone.state, gone.superseded_by, gone.text) == ("superseded", kept.id, first.upper())
    assert live(parts) == [first]
    assert kept.last_mention == datetime(2027, 1, 1, tzinfo=UTC)


def test_a_merge_is_taken_back_by_undo_and_not_made_again(parts: Parts) -> None:
    first, second = known(parts, CACHE, at=THEN)[0], known(parts, CACHE.lower(), at=THEN + timedelta(days=9))[0]
    before = [memory(parts, id_) for id_ in (first, second)]
    tended(parts)
    assert memory(parts, second).superseded_by == first
    undo(parts, memory_id=second)
    assert [memory(parts, id_) for id_ in (first, second)] == before
    assert garden_service.plan(parts).steps == ()  # whoever set them apart knows better
    taken_back = parts.readers.here(lambda tx: tx.one("journal.newest")) or {}
    undo(parts, entry=int(taken_back["n"]))
    assert (memory(parts, first).mention_count, memory(parts, second).state) == (2, "superseded")


def test_the_evidence_of_both_is_reachable_from_what_stays(parts: Parts) -> None:
    given.say(parts, "We decided that the server listens on port 9443.")
    given.say(parts, "We decided to deploy the blog on Fly.")
    ids = [str(one["id"]) for one in rows(parts, "memories.sealed")]
    one, other = (memory(parts, id_) for id_ in ids[:2])
    parts.writer.run(
        lambda tx: Merging(tx, parts.analyser).merge(one.id, other.id, user_origin(parts.clock), "the test says so")
    )
    assert set(memory(parts, one.id).evidence) == {*one.evidence, *other.evidence}
    assert memory(parts, other.id).evidence == other.evidence


def test_what_is_pinned_and_rules_and_other_places_are_never_merged_away(parts: Parts) -> None:
    pinned = known(parts, CACHE)[0]
    parts.writer.run(lambda tx: UserChanges(tx, parts.analyser).pin(pinned, user_origin(parts.clock)))
    known(parts, CACHE, kind="rule")
    known(parts, CACHE, project=None, scope="user")
    known(parts, CACHE, user="bruno")
    later = known(parts, CACHE.upper(), trust=3)[0]
    done = tended(parts)
    assert done["totals"] == {"merged_memories": 1}
    assert (memory(parts, later).superseded_by, memory(parts, pinned).trust) == (pinned, 2)
    assert len(rows(parts, "memories.sealed")) == 5


def test_with_isolation_what_another_agent_learned_stays_its_own(tmp_path: Path) -> None:
    with running(str(tmp_path), environ={"FILROUGE_ISOLATION": "true"}) as parts:
        known(parts, CACHE, agent="reviewer")
        known(parts, CACHE.upper(), agent="builder")
        assert garden_service.plan(parts).steps == ()


def test_three_that_say_the_same_become_one(parts: Parts) -> None:
    ids = known(parts, CACHE, CACHE.upper(), CACHE.lower())
    assert tended(parts)["totals"]["merged_memories"] == 2
    [kept] = [one for one in map(memory, [parts] * 3, ids) if one.state == "live"]
    assert kept.mention_count == 3
    assert {memory(parts, id_).superseded_by for id_ in ids if id_ != kept.id} == {kept.id}


def test_a_contradiction_waits_for_the_user_and_both_are_believed_until_then(parts: Parts) -> None:
    old = known(parts, "The production port is 8080", at=THEN)[0]
    new = known(parts, "The production port is 9443", at=THEN + timedelta(days=1))[0]
    assert tended(parts)["totals"] == {"contradictions": 1}
    assert live(parts) == ["The production port is 8080", "The production port is 9443"]
    [asked] = parts.readers.here(lambda tx: Reviews(tx, parts.analyser).all())
    assert (asked.id, asked.against and asked.against.id, asked.kind) == (new, old, "conflict")
    known(parts, "Nothing to do with it")
    assert garden_service.plan(parts).steps == ()  # nobody is asked twice


@pytest.mark.parametrize(("how", "believed"), [("new", ["9443"]), ("old", ["8080"]), ("both", ["8080", "9443"])])
def test_a_contradiction_is_settled_like_any_other(parts: Parts, how: str, believed: list[str]) -> None:
    known(parts, "The production port is 8080", at=THEN)
    new = known(parts, "The production port is 9443", at=THEN + timedelta(days=1))[0]
    tended(parts)
    _, after = parts.writer.run(lambda tx: Reviews(tx, parts.analyser).settle(new, how, user_origin(parts.clock)))
    assert [text.rpartition(" ")[2] for text in live(parts)] == believed
    assert all(life.valid_from < "2026-04" for life in after.values())  # each was believed from when it was said


def test_what_ends_otherwise_is_asked_about_no_longer(parts: Parts) -> None:
    known(parts, "The production port is 8080", at=THEN)
    new = known(parts, "The production port is 9443", at=THEN + timedelta(days=1))[0]
    tended(parts)
    parts.writer.run(lambda tx: parts.memories(tx).bin(new, user_origin(parts.clock), "by hand"))
    assert parts.readers.here(lambda tx: Reviews(tx, parts.analyser).all()) == []


def speak_of(parts: Parts, session: str, concept: str) -> None:
    """A session about one thing, as whoever reads sessions names it; read by a run of the garden."""

    def reader(turns: Sequence[Turn], *, former: Analysis, rarity: Rarity | None, projects: Sequence[str]) -> Analysis:
        del turns, former, rarity, projects
        return Analysis(summary=f"Session {session} was about {concept}.", concepts=(concept,))

    parts.analyst = reader
    converse(parts, session, f"How far are we with the {concept} of the shop, and what is left to do?")
    idle(parts)
    tended(parts)


def test_concepts_that_are_one_are_merged_and_stay_one_when_they_are_spoken_of_again(parts: Parts) -> None:
    speak_of(parts, "first", "database migration")
    speak_of(parts, "second", "migration de base de données")
    assert len(rows(parts, "memories.live_concepts")) == 2
    assert garden_service.plan(parts).counts == {"concepts": 1}
    assert tended(parts)["totals"] == {"merged_concepts": 1}
    speak_of(parts, "third", "migration de base de données")
    [one] = parts.readers.here(lambda tx: concepts(parts.analyser, tx, (), 50))
    assert (one["concept"], one["mention_count"]) == ("database migration", 3)
    assert one["sessions"] == ["first", "second", "third"]
    assert one["summary"] == "Session third was about migration de base de données."
    assert one["first_date"] < one["last_date"]
    assert one["thread_ids"]
    [gone] = [row for row in rows(parts, "memories.sealed") if row["text"] == "migration de base de données"]
    undo(parts, memory_id=str(gone["id"]))
    found = {row["concept"]: row for row in parts.readers.here(lambda tx: concepts(parts.analyser, tx, (), 50))}
    assert found["database migration"]["sessions"] == ["first", "third"]
    assert found["migration de base de données"]["sessions"] == ["second"]


def test_erasing_what_a_merged_concept_rests_on_takes_it_along(parts: Parts) -> None:
    speak_of(parts, "first", "database migration")
    speak_of(parts, "second", "migration de base de données")
    tended(parts)
    said = parts.readers.here(
        lambda tx: Analyses(tx, parts.analyser).turns(Session(host="claude-code", id="second"))[0]
    )
    erase(parts, [turn.id for turn in said])
    idle(parts)
    left = [str(row["text"]) for row in rows(parts, "memories.sealed")]
    assert [text for text in left if "base de données" in text] == []
    [one] = parts.readers.here(lambda tx: concepts(parts.analyser, tx, (), 50))
    assert (one["concept"], one["mention_count"], one["sessions"]) == ("database migration", 1, ["first"])


def test_missing_vectors_are_made_those_of_long_texts_some_at_a_time(tmp_path: Path) -> None:
    embedder = AnotherHash("elsewhere")
    with running(str(tmp_path), embedding="elsewhere", makers={"elsewhere": lambda: embedder}) as parts:
        long = "The quick brown fox jumps over the lazy dog. " * 1200
        ids = known(parts, CACHE, "The mail goes through host beta", f"The note is this. {long}")
        whole = vectors(parts, ids)
        parts.writer.run(lambda tx: tx.run("vectors.erase", {"owner_kind": "memory", "ids": json.dumps(ids)}))
        assert vectors(parts, ids) == {}
        assert garden_service.plan(parts).counts == {"vectors": 1}
        done = tended(parts)
        assert (done["totals"], done["steps"]) == ({"vectors": 3}, {"done": 1, "total": 1})
        assert vectors(parts, ids) == whole
        assert whole[ids[2]] > 32
        assert [one["payload"]["phase"] for one in messages(parts, done["id"])] == ["vectorizing", "completed"]


def test_without_an_embedder_the_run_ends_all_the_same(tmp_path: Path) -> None:
    embedder = AnotherHash("elsewhere")
    with running(str(tmp_path), embedding="elsewhere", makers={"elsewhere": lambda: embedder}) as parts:
        ids = known(parts, CACHE)
        parts.writer.run(lambda tx: tx.run("vectors.erase", {"owner_kind": "memory", "ids": json.dumps(ids)}))
        embedder.failing = True
        done = tended(parts)
        assert (done["state"], done["totals"]) == ("completed", {"failed": 1})


def test_a_run_that_ended_while_it_was_looked_at_has_not_failed(parts: Parts) -> None:
    ids = known(parts, CACHE)
    parts.writer.run(lambda tx: tx.run("vectors.erase", {"owner_kind": "memory", "ids": json.dumps(ids)}))
    done = tended(parts)
    ended = parts.readers.here(lambda tx: ConsolidationRuns(tx).get(done["id"]))
    seen_before = replace(ended, state="running", ended_at=None)
    told = parts.readers.here(lambda tx: garden_service.run_to_json(tx, seen_before))
    assert (told["state"], told["error"]) == ("completed", "")


def vectors(parts: Parts, ids: Sequence[str]) -> dict[str, int]:
    """How many windows each of these has."""
    space = parts.vectors.space.id
    found = parts.readers.here(lambda tx: StoredVectors(tx).some("memory", ids, space))
    return {id_: len(windows) for id_, windows in found.items()}


def test_what_was_said_while_nothing_was_understood_is_understood_by_the_garden(tmp_path: Path) -> None:
    with running(str(tmp_path), environ={"FILROUGE_EXTRACT_PROVIDER": "off"}) as parts:
        converse(parts, "s", "We decided that the server listens on port 9443.", "Thanks.")
        idle(parts)
        assert (live(parts), garden_service.plan(parts).steps) == ([], ())
    with running(str(tmp_path)) as parts:
        done = tended(parts)
        assert live(parts) == ["We decided that the server listens on port 9443."]
        assert done["totals"]["new_items"] >= 1
        [one] = parts.readers.here(lambda tx: parts.memories(tx).within(project=None, user="local", everywhere=True))
        assert (one.mention_count, len(memory(parts, one.id).evidence)) == (1, 1)


def test_memories_are_compared_once(parts: Parts) -> None:
    known(parts, CACHE, CACHE.upper(), "The mail goes through host beta")
    tended(parts)
    [last] = parts.readers.here(lambda tx: ConsolidationRuns(tx).newest(1))
    known(parts, "The logs are kept for ninety days")
    assert garden_service.plan(parts).memories_until == last.memories_until + 1


def test_nothing_is_compared_nor_counted_as_compared_before_the_index_is_filled(parts: Parts) -> None:
    known(parts, CACHE, CACHE.upper())
    parts.vectors.ready.clear()
    found = parts.readers.here(lambda tx: compare_memories(parts, tx, 0))
    assert (found.steps, found.until, found.remaining) == ((), 0, 0)
    parts.vectors.ready.set()
    assert len(parts.readers.here(lambda tx: compare_memories(parts, tx, 0)).steps) == 1


def test_what_is_too_much_for_one_run_is_left_for_the_next_and_counted(parts: Parts) -> None:
    known(parts, CACHE, "The mail goes through host beta", "The logs are kept for ninety days", CACHE.upper())
    first = parts.readers.here(lambda tx: compare_memories(parts, tx, 0, max_memories=2))
    assert (len(first.steps), first.remaining) == (1, 2)  # the third that says so is beside it already
    second = parts.readers.here(lambda tx: compare_memories(parts, tx, first.until, max_memories=2))
    assert (second.remaining, second.until) == (0, first.until + 2)


def test_where_nothing_is_to_be_done_the_next_run_goes_on_behind_what_was_compared(parts: Parts) -> None:
    known(parts, CACHE, "The mail goes through host beta")
    assert garden_service.plan(parts).steps == ()
    assert garden_service.begin(parts).garden_id is None
    [noted] = parts.readers.here(lambda tx: ConsolidationRuns(tx).newest(5))
    assert (noted.state, noted.steps) == ("completed", 0)
    assert noted.memories_until == garden_service.plan(parts).memories_until > 0
    assert garden_service.begin(parts).garden_id is None
    assert len(parts.readers.here(lambda tx: ConsolidationRuns(tx).newest(5))) == 1


def test_the_next_run_is_estimated_by_the_pace_of_this_one(parts: Parts) -> None:
    spoken(parts, 2)
    assert not garden_service.plan(parts).estimate.from_runs
    tended(parts)
    converse(parts, "s9", "The report is late again.", "Why is the report late?")
    idle(parts)
    found = garden_service.plan(parts).estimate
    assert found.from_runs
    assert 0 < found.most < 60


def test_of_runs_long_ago_the_steps_go_and_what_they_came_to_stays(parts: Parts) -> None:
    spoken(parts, 1)
    first = tended(parts)

    def another(tx: Tx) -> None:
        garden_id = new_id(parts.clock.now())
        ConsolidationRuns(tx).begin(garden_id, "hand", {"counts": {}, "memories_until": 0}, [], parts.clock.now())
        ConsolidationRuns(tx).end(garden_id, parts.clock.now())

    for _ in range(20):
        parts.writer.run(another)
    assert over(parts, first["id"]) == first
    assert [one["payload"]["phase"] for one in messages(parts, first["id"])] == ["completed"]


def a_garden(started_at: datetime) -> ConsolidationRun:
    return ConsolidationRun(
        id="g", occasion="idle", state="completed", counts={}, memories_until=0, totals={}, started_at=started_at,
        ended_at=started_at, error="",
    )  # fmt: skip


def test_it_is_idle_once_nothing_was_captured_for_a_while_and_the_last_run_is_long_ago() -> None:
    settings, now = Settings(garden_idle_minutes=30, garden_rest_hours=12), datetime(2026, 5, 1, 12, tzinfo=UTC)
    quiet, busy = now - timedelta(minutes=31), now - timedelta(minutes=29)
    assert is_idle(settings, None, quiet, now)
    assert not is_idle(settings, None, busy, now)
    assert not is_idle(settings, a_garden(now - timedelta(hours=11)), quiet, now)
    assert is_idle(settings, a_garden(now - timedelta(hours=12)), quiet, now)
    assert not is_idle(Settings(garden_idle_minutes=0), None, quiet, now)


def test_at_the_hour_of_the_settings_a_run_begins_once_a_day_and_is_caught_up_with_for_half_a_day() -> None:
    local = datetime(2026, 5, 2, 3, 30).astimezone()
    settings, now = Settings(garden_hour=3), local.astimezone(UTC)
    assert is_scheduled(settings, None, now)
    assert not is_scheduled(Settings(), None, now)
    assert not is_scheduled(settings, a_garden(now - timedelta(minutes=10)), now)
    assert is_scheduled(settings, a_garden(now - timedelta(hours=20)), now)
    assert is_scheduled(settings, None, now + timedelta(hours=11))
    assert not is_scheduled(settings, None, now + timedelta(hours=12))


class Ahead:
    """The machine's clock, so far ahead."""

    def __init__(self, **by: float) -> None:
        self._by = timedelta(**by)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._by


def test_the_watch_begins_a_run_once_nothing_was_captured_for_a_while(parts: Parts) -> None:
    later = GardenSchedule(replace(parts, clock=Ahead(minutes=31)))
    assert later.check() is None  # nothing was ever captured
    spoken(parts, 1)
    assert GardenSchedule(parts).check() is None
    begun = later.check()
    assert begun is not None
    found = parts.readers.here(lambda tx: ConsolidationRuns(tx).get(begun))
    assert (found.occasion, found.state) == ("idle", "running")
    assert later.check() is None


def test_where_nothing_was_to_be_done_the_watch_waits_until_something_is_captured(parts: Parts) -> None:
    spoken(parts, 1)
    tended(parts)
    watch = GardenSchedule(replace(parts, clock=Ahead(hours=13)))
    assert watch.check() is None
    known(parts, CACHE, CACHE.upper())
    assert watch.check() is None
    converse(parts, "more", "The report is late again.", "Why is the report late?")
    idle(parts)
    assert watch.check() is not None
