"""Searching what was said: an answer is found beside the turn that has the words, and never from another project."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from filrouge.capture.events import Event, EventKind
from filrouge.capture.service import store_events
from filrouge.core.clock import new_id
from filrouge.runtime.services import Parts
from filrouge.search.models import Hit
from filrouge.search.service import Question, search_turns
from filrouge.testing import idle, running


def say(parts: Parts, *texts: str, session: str = "s", project: str = "", kind: EventKind = "prompt") -> None:
    """Events of one session, a minute after each other."""
    start = parts.clock.now().timestamp() - 86_400
    events = [
        Event(
            id=new_id(parts.clock.now()), host="chat", kind=kind, session=session, at=start + 60 * number,
            key=f"{session}{project}:{number}", cwd="", project=(f"name:{project}",) if project else (), transcript="",
            agent="", data={"text": text},
        )
        for number, text in enumerate(texts)
    ]  # fmt: skip
    store_events(parts, events).result()
    idle(parts)


def found(
    parts: Parts, text: str, mode: Literal["text", "semantic", "hybrid"] = "hybrid", **place: object
) -> list[Hit]:
    question = Question(text=text, mode=mode, **({"everywhere": True} | place))  # pyright: ignore[reportArgumentType]
    return list(parts.readers.here(lambda tx: search_turns(parts, tx, question)).hits)


def test_an_answer_beside_the_words_of_the_question_is_among_the_first(tmp_path: Path) -> None:
    with running(str(tmp_path)) as parts:
        say(parts, "Which database did the billing team choose?", "Postgres, after two weeks of tests with real load.")
        say(parts, *(f"The weather report number {n} was dull and long." for n in range(8)), session="other")
        hits = found(parts, "which database did the billing team choose")
        assert "Postgres" in {hit.text.partition(",")[0] for hit in hits[:2]}


def test_by_words_alone_only_turns_with_the_words_are_found_best_first(tmp_path: Path) -> None:
    with running(str(tmp_path)) as parts:
        say(parts, "The invoice template is LaTeX.", "Fine.", "The invoice needs an invoice number, says the invoice.")
        hits = found(parts, "invoice number", "text")
        assert [hit.text[:20] for hit in hits] == ["The invoice needs an", "The invoice template"]
        assert hits[0].boosts == (("words", 1.0),)


def test_by_meaning_alone_the_nearest_turn_is_first(tmp_path: Path) -> None:
    with running(str(tmp_path)) as parts:
        say(parts, "alpha beta gamma delta", "something else entirely here")
        assert found(parts, "alpha beta gamma delta", "semantic")[0].text == "alpha beta gamma delta"


def test_a_hit_says_what_each_feature_added_to_its_score(tmp_path: Path) -> None:
    with running(str(tmp_path)) as parts:
        say(parts, "We deploy on Fridays.", "Never on Fridays again.", "The harbour is calm.")
        best = found(parts, "when do we deploy")[0]
        assert best.score == pytest.approx(sum(share for _, share in best.boosts), abs=0.01)  # pyright: ignore[reportUnknownMemberType]
        assert best.explain()["boosts"].keys() == {name for name, _ in best.boosts}


def test_a_neighbour_from_another_project_is_no_neighbour(tmp_path: Path) -> None:
    with running(str(tmp_path)) as parts:
        say(parts, "The staging port is 7412.", session="shared", project="one")
        say(parts, "The secret of project two.", session="shared", project="two")
        [project] = {row["id"] for row in parts.readers.here(lambda tx: tx.all("projects.all")) if row["name"] == "one"}
        hits = found(parts, "staging port", everywhere=False, project=project)
        assert [hit.text for hit in hits] == ["The staging port is 7412."]


def test_nothing_said_means_nothing_found(tmp_path: Path) -> None:
    with running(str(tmp_path)) as parts:
        assert found(parts, "anything at all") == []
