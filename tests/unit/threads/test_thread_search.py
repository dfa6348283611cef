"""Threads are found by their words and by their meaning, archived ones too, and a filter lets nothing else through."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from filrouge.core.errors import BadInput, NotFound
from filrouge.memories.models import Filters
from filrouge.runtime.services import Parts
from filrouge.testing import AnotherHash, idle, running
from filrouge.threads.reports import ThreadHit, search_threads
from filrouge.threads.service import archive, rename
from tests.support.given import BLOG, SHOP
from tests.support.spoken import COUPON, POSTGRES, tell, thread_of, threads

SAUVEGARDE = "Où en est la sauvegarde chiffrée du serveur de paie, et combien de temps dure-t-elle chaque nuit ?"


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as found:
        idle(found)
        yield found


def found(parts: Parts, text: str, *names: str, **more: Any) -> list[ThreadHit]:
    return parts.readers.here(lambda tx: search_threads(parts, tx, text, names, **more))


def ids(parts: Parts, text: str, *names: str, **more: Any) -> list[str]:
    return [hit.thread.id for hit in found(parts, text, *names, **more)]


def test_a_thread_is_found_by_words_of_any_of_its_prompts_in_either_language(parts: Parts) -> None:
    tell(parts, "a", COUPON[0], COUPON[1])
    tell(parts, "b", POSTGRES[0])
    tell(parts, "c", SAUVEGARDE)
    for question, wanted in (
        ("is it validated in the form?", COUPON[0]),
        ("schemas of Postgres", POSTGRES[0]),
        ("sauvegardes du serveur", SAUVEGARDE),
    ):
        first = found(parts, question, mode="text")[0]
        assert first.thread.id == thread_of(parts, wanted), question
        assert (first.similarity, first.vector_score, first.score) == (None, 0.0, 1.0)
    assert found(parts, "sauvegardes du serveur", mode="text")[0].words == ("sauvegardes", "serveur")
    assert found(parts, "zanzibar", mode="text") == []


@pytest.mark.slow
def test_with_the_bundled_model_a_thread_is_found_by_what_it_means(tmp_path: Path) -> None:
    with running(str(tmp_path), embedding="e5") as parts:
        idle(parts)
        tell(parts, "a", COUPON[0])
        tell(parts, "b", POSTGRES[0])
        tell(parts, "c", SAUVEGARDE)
        for question, wanted in (
            ("discount vouchers are refused while paying", COUPON[0]),
            ("les copies de sécurité nocturnes de la machine des salaires", SAUVEGARDE),
        ):
            assert found(parts, question, mode="text") == []
            for mode in ("semantic", "hybrid"):
                first = found(parts, question, mode=mode)[0]
                assert first.thread.id == thread_of(parts, wanted), question
                assert first.similarity is not None
                assert first.similarity > 0
                assert first.why == f"no word of the query; similarity {first.similarity:.2f}"


def test_a_title_that_a_user_gave_is_found_and_so_is_an_archived_thread(parts: Parts) -> None:
    tell(parts, "a", COUPON[0])
    tell(parts, "b", POSTGRES[0])
    postgres, coupon = (one["id"] for one in threads(parts))
    rename(parts, coupon, "Vouchers at the till")
    archive(parts, coupon)
    [hit] = found(parts, "vouchers", mode="text")
    assert (hit.thread.id, hit.thread.state, hit.why) == (coupon, "archived", "1 of 1 words: vouchers")
    assert found(parts, "vouchers", mode="text", status="active") == []
    assert [hit.thread.id for hit in found(parts, "vouchers Postgres", mode="text", status="active")] == [postgres]


def test_threads_are_narrowed_by_project_agent_channel_and_time(parts: Parts) -> None:
    tell(parts, "a", COUPON[0], days_ago=20)
    tell(parts, "b", COUPON[1], project=BLOG, host="codex")
    asked, old, new = "where is the coupon on the checkout", thread_of(parts, COUPON[0]), thread_of(parts, COUPON[1])
    assert len(found(parts, asked)) == 2
    assert ids(parts, asked, SHOP[0]) == [old]
    assert ids(parts, asked, BLOG[0]) == [new]
    assert ids(parts, asked, filters=Filters(channel="codex")) == [new]
    assert ids(parts, asked, filters=Filters(agent="claude-code")) == [old]
    week_ago = datetime.now(UTC) - timedelta(days=7)
    assert ids(parts, asked, filters=Filters(since=week_ago)) == [new]
    assert ids(parts, asked, filters=Filters(until=week_ago)) == [old]
    assert found(parts, asked, filters=Filters(user="ben")) == []
    assert len(found(parts, asked, limit=1)) == 1
    with pytest.raises(NotFound):
        found(parts, asked, "nowhere")


@pytest.mark.parametrize(
    "filters", [Filters(kinds=("fact",)), Filters(trust=1), Filters(role="user"), Filters(thread="t")]
)
def test_a_filter_that_is_not_about_threads_is_refused_by_its_name(parts: Parts, filters: Filters) -> None:
    with pytest.raises(BadInput, match=r"Threads have no (kind|trust|role|thread)"):
        found(parts, "coupon", filters=filters)


def test_without_a_model_words_find_threads_alone(tmp_path: Path) -> None:
    down = AnotherHash("down")
    with running(str(tmp_path), embedding="down", makers={"down": lambda: down}) as parts:
        tell(parts, "a", COUPON[0])
        assert found(parts, "coupon")[0].similarity is not None
        down.failing = True
        [hit] = found(parts, "the empty coupon")
        assert (hit.similarity, hit.score) == (None, 1.0)
        assert found(parts, "the empty coupon", mode="semantic") == []
