"""The law of decisions: whatever models and users decide, no memory is lost and nothing has two live versions."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tiers import is_proof
from tests.unit.memories.deciding import World

#: Each example is a database that so many lists of decisions come upon, one after the other.
LISTS, EXAMPLES = 20, 500 if is_proof() else 40
#: Samples that are drawn at the most until everything was reached.
SAMPLES = 5
_NUMBERS = st.integers(0, 2**48 - 1)
_LISTS = st.lists(
    st.tuples(st.lists(_NUMBERS, min_size=1, max_size=4), _NUMBERS, st.lists(_NUMBERS, max_size=4)),
    min_size=LISTS,
    max_size=LISTS,
)


@pytest.mark.law
def test_lists_of_decisions_lose_no_memory_and_leave_one_live_version() -> None:
    done: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES, deadline=None, database=None)
    @given(_LISTS)
    def law(lists: list[tuple[list[int], int, list[int]]]) -> None:
        world = World()
        for decisions, how, verbs in lists:
            world.decide(decisions, how)
            for verb in verbs:
                world.change_of_mind(verb)
            world.hold()
            world.done["lists"] += 1
        world.hold_at_last()
        done.update(world.done)

    verbs = {
        "_merge",
        "_contest",
        "_pin",
        "_unpin",
        "_bin",
        "_restore",
        "_supersede",
        "_settle",
        "_undo",
        "_undo_last",
        "_erase",
        "refused",
    }
    reached = {"add", "update", "delete", "noop", "conflict", *verbs}
    fewest = EXAMPLES // 5 if is_proof() else 2  # a sample holds few of what needs a certain memory

    def seldom() -> set[str]:
        return {name for name in reached if done[name] < fewest}

    law()
    assert done["lists"] >= LISTS * EXAMPLES
    for _ in range(SAMPLES - 1):  # one sample may miss what is rare; the law holds in each
        if seldom():
            law()
    assert seldom() == set()
