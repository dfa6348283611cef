"""`filrouge threads`, `thread` and `why-thread`, as a person types them; `--json` is the body of the route."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.spoken import COUPON, POSTGRES, SUBJECTS, tell, turn_of
from tests.unit.server.conftest import serving

from .test_changing import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Generator[Shell]:
    with serving(str(tmp_path / "home")) as api:
        yield Shell(api=api)


def test_threads_are_listed_shown_and_explained(shell: Shell) -> None:
    tell(shell.api.parts, "a", *SUBJECTS[0], *SUBJECTS[1])
    listed = shell.json("threads", "--status", "active")
    assert listed == shell.api.get("/api/memory/threads?status=active")
    left = next(one for one in listed if "greenhouse" in one["title"].lower())
    assert left["title"] in shell("threads").out
    assert shell.json("thread", left["id"]) == shell.api.get(f"/api/memory/threads/{left['id']}")
    shown = shell("thread", left["id"][:20]).out
    assert SUBJECTS[0][0][:40] in shown
    assert "drifted" in shown
    turn = turn_of(shell.api.parts, SUBJECTS[1][0])
    assert shell.json("why-thread", turn) == shell.api.get(f"/api/memory/turns/{turn}/thread")
    why = shell("why-thread", turn)
    assert "fork" in why.out
    assert left["title"] in why.out


def test_a_thread_is_shown_with_where_its_work_stood_and_its_ties(shell: Shell) -> None:
    decided = "We decided that the coupon on the checkout page is validated in the coupon service."
    tell(shell.api.parts, "a", COUPON[0], decided)
    tell(shell.api.parts, "a", "", kind="session_end")
    tell(shell.api.parts, "b", POSTGRES[0])
    postgres, coupon = shell.json("threads")
    shell.json("bridges", "--add", coupon["id"], postgres["id"], "--type", "depends_on")
    shown = shell("thread", coupon["id"]).out
    assert "Decisions" in shown
    assert f"depends_on →\t1.00\t{postgres['id']}\t{postgres['title']}" in shown
    assert "Decisions" not in shell("thread", postgres["id"]).out


def test_a_thread_is_changed_in_one_way_at_a_time(shell: Shell) -> None:
    tell(shell.api.parts, "a", COUPON[0], COUPON[1])
    [one] = shell.json("threads")
    id_ = one["id"]
    assert shell.json("thread", id_, "--rename", "Coupons")["title"] == "Coupons"
    assert shell.json("thread", id_, "--archive")["status"] == "archived"
    assert shell.json("thread", id_, "--reopen")["status"] == "active"
    made = shell.json("thread", id_, "--split", turn_of(shell.api.parts, COUPON[1]))
    assert shell.json("thread", made["id"], "--merge-into", id_)["id"] == id_
    both = shell("thread", id_, "--archive", "--reopen")
    assert (both.code, "one of the options" in both.err) == (2, True)
    assert shell("thread", "nothing").code == 1


def test_threads_are_searched_with_their_state_and_the_reason(shell: Shell) -> None:
    tell(shell.api.parts, "a", COUPON[0])
    tell(shell.api.parts, "b", POSTGRES[0])
    [hit] = shell.json("search", "coupon on the checkout", "--in", "threads", "--mode", "text")
    assert hit == shell.api.get("/api/memory/search?q=coupon+on+the+checkout&collection=threads")[0]
    out = shell("search", "coupon on the checkout", "--in", "threads", "--mode", "text").out
    assert f"1.00\t{hit['id']}\t{hit['title']}\tactive\t{hit['last_active'][:16]}" in out
    assert "2 of 2 words: coupon, checkout" in out
    assert shell("search", "coupon", "--in", "threads", "--kind", "fact").code == 2
    assert "Nothing is known" in shell("search", "zanzibar", "--in", "threads", "--mode", "text").out
