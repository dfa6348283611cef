"""Which signs tie two threads, what the tie is called, and how sure it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from filrouge.core.protocols import Vector
from filrouge.providers.models import Calibration, EmbeddingSpace
from filrouge.threads.bridges import (
    MAX_BRIDGES,
    BridgeCandidate,
    DetectionInput,
    Replacement,
    files_of,
    find_candidates,
    similarities,
)

SPACE = EmbeddingSpace(
    id="test",
    model="test",
    revision="1",
    dimension=2,
    pooling="mean",
    prefix="",
    calibration=Calibration.shipped(median=0.0, question_median=0.0, pairs=1),
)


def pointing(degrees: float) -> Vector:
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], dtype=np.float32)


def known(
    id_: str,
    title: str = "",
    *topics: str,
    at: float | None = None,
    said: tuple[str, ...] = (),
    parent: str | None = None,
) -> DetectionInput:
    vector = None if at is None else pointing(at)
    return DetectionInput(
        id=id_, title=title or f"Title of {id_}", topics=topics, parent=parent, vector=vector, prompts=said
    )


ROLLBACK = known("rollback", "Rollback of the gateway", "alembic", "gateway")


def only(thread: DetectionInput, other: DetectionInput = ROLLBACK, *replaced: Replacement) -> BridgeCandidate:
    [found] = find_candidates(thread, [other], SPACE, replaced)
    return found


def test_threads_that_are_alike_are_related() -> None:
    found = only(known("a", at=0), known("b", at=35))
    assert (found.kind, found.reason) == ("relates_to", "they are alike in meaning (0.82)")
    assert found.confidence > 0.8


def test_threads_that_have_nothing_in_common_are_not_tied() -> None:
    assert find_candidates(known("a", "", "invoice", at=0), [known("b", "", "nginx", at=85)], SPACE) == []


def test_a_likeness_that_all_threads_of_a_project_have_ties_none_of_them() -> None:
    others = [known(f"b{number}", at=40 + number / 10) for number in range(12)]
    assert len(find_candidates(known("a", at=0), others[:4], SPACE)) == 4
    assert find_candidates(known("a", at=0), others, SPACE) == []
    assert [one.target for one in find_candidates(known("a", at=0), [*others, known("near", at=10)], SPACE)] == ["near"]


def test_meaning_and_topics_together_are_surer_than_either() -> None:
    topics = ("alembic", "rollback", "gateway")
    filling = [known(f"f{number}", "", "other", at=90) for number in range(5)]

    def sure(first: DetectionInput, second: DetectionInput) -> float:
        found = [one for one in find_candidates(first, [second, *filling], SPACE) if one.target == second.id]
        return found[0].confidence if found else 0.0

    both = sure(known("a", "", *topics, at=0), known("b", "", *topics, at=60))
    assert both > max(sure(known("a", at=0), known("b", at=60)), sure(known("a", "", *topics), known("b", "", *topics)))


def test_a_topic_of_all_threads_says_less_than_one_of_two() -> None:
    def sure(spread: int) -> float:
        filling = [known(f"f{number}", "", *(("shared", "wide") if number < spread else ())) for number in range(20)]
        first, second = known("a", "", "shared", "wide", at=0), known("b", "", "shared", "wide", at=48)
        found = {one.target: one for one in find_candidates(first, [second, *filling], SPACE)}
        return found["b"].confidence if "b" in found else 0.0

    assert sure(0) > sure(10) > 0


def test_a_thread_that_names_the_others_title_is_related_to_it() -> None:
    found = only(known("a", said=("Look at the rollback of the gateway before you go on.",)))
    assert (found.kind, found.reason) == ("relates_to", "it names the other's title")


def test_a_file_that_both_speak_of_ties_them() -> None:
    other = known("b", said=("Fix src/storefront/basket.py please",))
    assert only(known("a", said=("why does basket.py fail?",)), other).reason == "it names the other's file"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("The release depends on the rollback of the gateway.", "depends_on"),
        ("We are blocked by the alembic work.", "depends_on"),
        ("Once the rollback of the gateway is done, publish it.", "depends_on"),
        ("This needs alembic first.", "depends_on"),
        ("La livraison dépend de alembic.", "depends_on"),
        ("Une fois alembic terminé, on publie.", "depends_on"),
        ("It builds on the rollback of the gateway.", "extends"),
        ("Cela prolonge alembic.", "extends"),
        ("The run confirms the rollback of the gateway.", "supports"),
        ("Le test confirme alembic.", "supports"),
    ],
)
def test_the_sentence_that_names_the_other_says_what_it_has_to_do_with_it(said: str, kind: str) -> None:
    near = replace(ROLLBACK, vector=pointing(50))
    found = only(known("a", at=0, said=(f"Hello. {said} Thanks!",)), near)
    assert (found.source, found.target, found.kind) == ("a", "rollback", kind)
    assert "rollback" not in found.reason
    assert "alembic" not in found.reason


def test_a_rare_topic_that_is_named_is_not_enough_by_itself() -> None:
    thread = known("a", said=("It needs alembic. What is alembic?",))
    assert find_candidates(thread, [ROLLBACK], SPACE) == []


def test_a_word_of_dependency_in_another_sentence_says_nothing_of_the_other() -> None:
    assert only(known("a", said=("It needs tests. Then the rollback of the gateway.",))).kind == "relates_to"


def test_a_fork_is_the_child_of_what_it_left_from_either_side() -> None:
    parent, child = known("a"), known("b", parent="a")
    for thread, other in ((parent, child), (child, parent)):
        found = only(thread, other)
        assert (found.source, found.target, found.kind, found.confidence) == ("b", "a", "child_of", 1.0)


@pytest.mark.parametrize(
    ("former", "text", "conflict", "kind"),
    [
        ("Production listens on port 8443", "Production listens on port 8443 behind nginx", False, "refines"),
        ("Production listens on port 8443", "Production listens on port 9443", False, "contradicts"),
        ("Deploys go out on Friday", "Deploys never go out on Friday", True, "contradicts"),
    ],
)
def test_a_memory_that_replaces_one_learned_elsewhere_ties_the_two(
    former: str, text: str, conflict: bool, kind: str
) -> None:
    found = only(known("a"), ROLLBACK, Replacement(thread_id="rollback", text=text, former=former, conflict=conflict))
    assert (found.source, found.target, found.kind) == ("a", "rollback", kind)


def test_files_are_known_by_their_names_and_versions_are_none() -> None:
    assert files_of(["see src/app/ties.py, ./Makefile.inc and v3.11 or example.2"]) == {"ties.py", "makefile.inc"}


def test_without_vectors_words_are_enough() -> None:
    assert similarities(known("a"), [known("b", at=0)], SPACE) == {}
    assert only(known("a", said=("the rollback of the gateway",))).target == "rollback"


WORDS = st.lists(st.sampled_from(["alembic", "gateway", "needs", "once", "is done", "basket.py", "."]), max_size=8)


@st.composite
def threads(draw: st.DrawFn) -> DetectionInput:
    topics = draw(st.lists(st.sampled_from(["alembic", "gateway", "invoice", "nginx"]), max_size=4))
    said = (" ".join(draw(WORDS)),)
    return known(f"t{draw(st.integers(1, 40))}", "", *topics, at=draw(st.none() | st.floats(0, 180)), said=said)


@given(threads(), st.lists(threads(), max_size=30, unique_by=lambda one: one.id))
def test_there_are_at_most_ten_ties_each_of_them_sure_and_with_a_reason(
    thread: DetectionInput, others: list[DetectionInput]
) -> None:
    found = find_candidates(thread, [one for one in others if one.id != thread.id], SPACE)
    assert len(found) <= MAX_BRIDGES
    assert all(0.5 <= one.confidence <= 1.0 and one.reason and one.source != one.target for one in found)
    assert [one.confidence for one in found] == sorted((one.confidence for one in found), reverse=True)
