"""Talk that turns to something else leaves its session's thread, once a second prompt says so too."""

from __future__ import annotations

import pytest

from filrouge.ports import Vector
from filrouge.threads.parting import part_off
from filrouge.threads.weighing import Known, Part

from .test_routing import BANDS, BREAD, CLIMBING, SPACE, TAXES, known, towards


def said(*vectors: Vector | None) -> list[Part]:
    return [Part(vector=one, topics=()) for one in vectors]


BREADS = known("bread", BREAD)


def test_two_prompts_in_a_row_that_have_nothing_to_do_with_what_came_before_leave_for_a_thread_of_their_own() -> None:
    routing = part_off(said(BREAD, BREAD, CLIMBING, CLIMBING), BREADS, [known("tax", TAXES)], SPACE, bands=BANDS)

    assert routing is not None
    assert (routing.action, routing.thread_id, routing.parent) == ("fork", None, "bread")
    assert "Two prompts in a row" in routing.reason


@pytest.mark.parametrize(("state", "action"), [("active", "continue"), ("archived", "reactivate")])
def test_they_go_into_the_thread_that_they_are_near_enough_to(state: str, action: str) -> None:
    tax = known("tax", TAXES, state="active" if state == "active" else "archived")

    routing = part_off(said(BREAD, TAXES, TAXES), BREADS, [tax, known("rope", CLIMBING)], SPACE, bands=BANDS)

    assert routing is not None
    assert (routing.action, routing.thread_id, routing.parent) == (action, "tax", None)


@pytest.mark.parametrize(
    "prompts",
    [
        said(BREAD, BREAD, CLIMBING),
        said(BREAD, CLIMBING, BREAD),
        said(BREAD, CLIMBING, towards(1, 0, 1)),
        said(CLIMBING, CLIMBING),
        said(BREAD, CLIMBING, None),
        said(None, CLIMBING, CLIMBING),
        said(),
    ],
    ids=["one", "it comes back", "the second is near", "nothing before", "no vector", "none before", "nothing"],
)
def test_otherwise_nothing_leaves(prompts: list[Part]) -> None:
    assert part_off(prompts, BREADS, [known("rope", CLIMBING)], SPACE, bands=BANDS) is None


def test_it_is_held_against_what_the_session_said_last_not_against_all_of_the_thread() -> None:
    long = known("long", BREAD, BREAD, CLIMBING)
    turned: list[Known] = []

    assert part_off(said(BREAD, CLIMBING, CLIMBING), long, turned, SPACE, bands=BANDS) is not None
    assert part_off(said(BREAD, *[CLIMBING] * 5), long, turned, SPACE, bands=BANDS) is None
