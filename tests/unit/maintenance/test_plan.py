"""A plan says what would be done, in three languages, and how long it takes."""

from __future__ import annotations

import pytest

from filrouge.core.clock import Language
from filrouge.maintenance.consolidation import (
    KINDS,
    ConsolidationRun,
    GardenPlan,
    RunStep,
    Step,
    StepKind,
    estimate,
    label,
    messages,
    sort_by_kind,
)
from tests.support.rows import NOON


def steps(*kinds: StepKind) -> tuple[Step, ...]:
    return tuple(Step(kind=kind, subject={"session": f"s{n}"}) for n, kind in enumerate(kinds))


def planned(*found: Step, left: int = 0) -> GardenPlan:
    return GardenPlan(steps=found, estimate=estimate(found, {}), remaining=left)


def a_run(*kinds: StepKind, sessions: int = 0, new_items: int = 0) -> ConsolidationRun:
    """A run that came to its end with these steps."""
    return ConsolidationRun(
        id="g",
        occasion="hand",
        state="completed",
        counts={kind: kinds.count(kind) for kind in kinds},
        memories_until=0,
        totals={"sessions": sessions, "new_items": new_items},
        started_at=NOON,
        ended_at=NOON,
        error="",
    )


def test_a_plan_prints_what_would_be_done_and_how_long_it_takes() -> None:
    merged = Step(kind="duplicates", subject={"kept": "a", "gone": "b"}, description="“Port 1” → “port 1”")
    assert str(planned(*steps("sessions", "sessions"), merged, left=1)).splitlines() == [
        "To be done:",
        "  read 2 unread or continued sessions",
        "  merge one duplicate memory",
        "    “Port 1” → “port 1”",
        "  one more is left for the next run",
        "This takes about 30 s to 2 min and runs in the background.",
    ]


@pytest.mark.parametrize(
    ("language", "told"), [("en", "nothing to consolidate"), ("fr", "rien à consolider"), ("es", "nada que consolidar")]
)
def test_an_empty_plan_says_so(language: Language, told: str) -> None:
    assert told in planned().to_json(language)["text"]


@pytest.mark.parametrize("language", ["en", "fr", "es"])
def test_every_kind_of_step_can_be_told_in_every_language(language: Language) -> None:
    lines = list(planned(*steps(*KINDS, *KINDS), left=2).lines(language))
    assert len(lines) == len(KINDS) + 3
    assert [line for line in lines[1:-1] if " 2 " not in line] == []


def test_a_long_list_is_cut_and_counted() -> None:
    many = [Step(kind="concepts", subject={}, description=f"concept {n}") for n in range(14)]
    assert list(planned(*many).lines("en"))[-2] == "    and 4 more"


def test_what_sessions_come_to_is_done_first_and_vectors_last() -> None:
    mixed = steps("vectors", "duplicates", "sessions", "retention", "preferences", "sessions")
    found = [step.kind for step in sort_by_kind(mixed)]
    assert found == ["sessions", "sessions", "preferences", "duplicates", "retention", "vectors"]


def test_what_is_kept_of_a_plan_holds_no_words() -> None:
    secret = Step(kind="duplicates", subject={"kept": "a", "gone": "b"}, description="“the password is x”")
    assert planned(secret).stored_counts() == {"counts": {"duplicates": 1}, "memories_until": 0}


def test_before_any_run_was_timed_it_takes_half_a_minute_to_two_minutes() -> None:
    found = estimate(steps("sessions"), {})
    assert (found.least, found.most, found.from_runs) == (30.0, 120.0, False)


def test_a_run_is_estimated_by_the_pace_of_runs_before_it() -> None:
    found = estimate(steps("sessions", "sessions", "duplicates"), {"sessions": 2.0, "vectors": 4.0})
    assert (found.least, found.most, found.from_runs) == (7.0, 7.0, True)  # what is not known takes as long as the rest


def test_messages_count_each_phase_from_one_to_its_total_and_end_with_what_came_of_it() -> None:
    kinds: list[StepKind] = ["sessions", "sessions", "preferences", "duplicates", "vectors"]
    done = [RunStep(position=n, kind=kind, subject={"session": f"s{n}"}) for n, kind in enumerate(kinds)]
    done[3] = RunStep(position=3, kind="duplicates", subject={"kept": "a", "gone": "b"})
    found = [one.to_json() for one in messages(a_run(*kinds, sessions=2, new_items=7), done)]
    assert {one["type"] for one in found} == {"ws:memory_progress"}
    assert [one["payload"] for one in found] == [
        {"session_id": "s0", "current": 1, "total": 2, "phase": "extracting_concepts", "status": "in_progress"},
        {"session_id": "s1", "current": 2, "total": 2, "phase": "extracting_concepts", "status": "in_progress"},
        {"session_id": "s2", "current": 1, "total": 2, "phase": "analyzing_preferences", "status": "in_progress"},
        {"session_id": "", "current": 2, "total": 2, "phase": "analyzing_preferences", "status": "in_progress"},
        {"session_id": "s4", "current": 1, "total": 1, "phase": "vectorizing", "status": "in_progress"},
        {
            "session_id": "",
            "current": 5,
            "total": 5,
            "phase": "completed",
            "status": "completed",
            "consolidated_sessions": 2,
            "new_items": 7,
        },
    ]


@pytest.mark.parametrize(
    ("language", "reading", "over"),
    [
        ("en", "Extracting concepts... (2/5 sessions)", "✓ Consolidation completed: 5 sessions, 23 new items"),
        ("fr", "Extraction des concepts... (2/5 sessions)", "✓ Consolidation terminée : 5 sessions, 23 nouveaux items"),
        (
            "es",
            "Extracción de conceptos... (2/5 sesiones)",
            "✓ Consolidación terminada: 5 sesiones, 23 elementos nuevos",
        ),
    ],
)
def test_messages_have_labels_in_three_languages(language: Language, reading: str, over: str) -> None:
    kinds: list[StepKind] = ["sessions"] * 5
    done = [RunStep(position=n, kind="sessions", subject={"session": "s"}) for n in range(5)]
    told = [
        label(one.to_json()["payload"], language) for one in messages(a_run(*kinds, sessions=5, new_items=23), done)
    ]
    assert (told[1], told[-1]) == (reading, over)


def test_one_session_and_one_item_are_told_as_one() -> None:
    [told] = [label(one.to_json()["payload"], "fr") for one in messages(a_run(sessions=1, new_items=1), [])]
    assert told == "✓ Consolidation terminée : 1 session, 1 nouvel item"
