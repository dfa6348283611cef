"""The law of consolidation: no memory is lost by it; whatever a live memory cites, or was merged, is reachable.

Batches of statements, drawn so that many say the same in other words or give another value, are put into a project of
their own and consolidated; each rests on a turn of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.capture.models import Turn
from filrouge.core.clock import new_id
from filrouge.core.protocols import Tx
from filrouge.core.scope import Scope
from filrouge.extraction.profile import profile
from filrouge.extraction.vocabulary import fold, tokens
from filrouge.maintenance import garden_service
from filrouge.memories.models import Kind, Memory, Span, Statement
from filrouge.memories.repository import Origin, StateStore, UserChanges
from filrouge.projects.repository import Projects
from filrouge.runtime.services import Parts
from filrouge.search.spaces import queue_vectors
from filrouge.testing import idle, running
from tests.support.tiers import examples
from tests.unit.maintenance.gardens_given import THEN, over

_NUMBERS = count()
Drawn = tuple[str, str, str, int, str, Kind]
_KINDS: Sequence[Kind] = ("fact", "fact", "fact", "decision", "rule")
_DRAWN = st.lists(
    st.tuples(
        st.sampled_from(("production", "staging")),
        st.sampled_from(("8080", "9443")),
        st.sampled_from(("The {} port is {}", "the {} port is {}.", "THE {} PORT IS {}", "The {} port is not {}")),
        st.integers(0, 3),
        st.sampled_from(("", "", "", "pin")),
        st.sampled_from(_KINDS),
    ),
    min_size=4,
    max_size=12,
)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Generator[Parts]:
    home: Path = tmp_path_factory.mktemp("garden")
    with running(str(home)) as found:
        yield found


def told(parts: Parts, drawn: list[Drawn]) -> tuple[str, dict[str, Memory]]:
    """A project in which this was said, and its memories."""
    number = next(_NUMBERS)
    project = f"name:project{number}"

    def write(tx: Tx) -> list[str]:
        Projects(tx).resolve((project,), at=THEN)
        ids: list[str] = []
        for place, (what, value, form, trust, pin, kind) in enumerate(drawn):
            at = THEN + timedelta(days=number, minutes=place)
            scope = Scope(project=project, channel="codex", session=f"s{place}")
            text = form.format(what, value)
            turn = Turn(
                id=new_id(at), key=f"k{number}-{place}", scope=scope, host="codex", role="user", source="prompt",
                text=text, at=at, trust=2,
            )  # fmt: skip
            parts.turns(tx).add(replace(turn, skipped="too short"))
            statement = Statement(kind=kind, text=text, span=Span(start=0, end=len(text)))
            origin = Origin(scope=scope, trust=trust, at=at, turn_id=turn.id)
            ids.append(parts.memories(tx).add(statement, origin, "drawn").memory_id)
            queue_vectors(tx, "memory", ids[-1], at)
            if pin:
                UserChanges(tx, parts.analyser).pin(ids[-1], origin)
        return ids

    ids = parts.writer.run(write)
    parts.work_waiting.set()
    idle(parts)
    return project, {one.id: one for one in parts.readers.here(lambda tx: parts.memories(tx).known(ids))}


def test_no_memory_is_lost_by_consolidation(parts: Parts) -> None:
    done: Counter[str] = Counter()

    @settings(max_examples=examples(10), deadline=None, database=None)
    @given(_DRAWN)
    def law(drawn: list[Drawn]) -> None:
        project, before = told(parts, drawn)
        begun = garden_service.begin(parts)
        if begun.garden_id:
            done.update(over(parts, begun.garden_id)["totals"])
        hold(parts, project, before)

    law()
    assert done["failed"] == 0
    assert min(done["merged_memories"], done["contradictions"]) >= 1


def hold(parts: Parts, project: str, before: dict[str, Memory]) -> None:
    """What must be true of a project after its consolidation."""
    found = parts.readers.here(lambda tx: parts.memories(tx).known(list(before)))
    after = {one.id: one for one in found}
    assert after.keys() == before.keys()
    live = {id_: one for id_, one in after.items() if one.state == "live"}
    for id_, one in before.items():
        now = after[id_]
        assert (now.text, now.trust, now.kind, now.scope) == (one.text, one.trust, one.kind, one.scope)
        assert set(one.evidence) <= set(now.evidence)
        kin = parts.readers.here(lambda tx, id_=id_: StateStore(tx).with_versions([id_]))
        [head] = [other for other in kin.values() if other.state.state == "live"]
        kept = live[head.memory.id]
        assert set(one.evidence) <= set(kept.evidence)  # what proved it is reachable from what is believed
        assert (
            tokens(fold(one.text)) == tokens(fold(kept.text))
            or profile(one.text).current_texts == profile(kept.text).current_texts
        )
        assert bool(profile(one.text).negated) == bool(profile(kept.text).negated)
        if one.pinned or one.kind == "rule":
            assert now.state == "live"
    assert sum(one.mention_count for one in live.values()) == len(before)
    cited = {cited.turn_id for one in live.values() for cited in one.evidence}
    assert cited == {cited.turn_id for one in before.values() for cited in one.evidence}
    assert len(parts.readers.here(lambda tx: parts.turns(tx).get(sorted(cited)))) == len(before)
    assert {one.scope.project for one in live.values()} == {project}
