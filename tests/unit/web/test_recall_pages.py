"""Automatic recall, the log of injections, why one was made, and the preview."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from filrouge.context.models import SECTIONS
from filrouge.search.models import Omission
from filrouge.web import recall

from .conftest import Site, visible

PORT = "For the record: production listens on port 8443."
SHOP = "origin:forge.example/ana/shop"
QUESTION = "Which port does production listen on?"


def _ask(site: Site, prompt: str = QUESTION) -> dict[str, Any]:
    """Ask as an agent does, and return the newest row of the log."""
    site.api.ask("POST", "/memory/context", {"prompt": prompt, "project": [SHOP], "channel": "codex"})
    site.api.parts.writer.run(lambda _: None)
    return site.api.get("/api/memory/retrievals?limit=1")[0]


def test_settings_are_changed_at_once_and_only_those_that_differ(site: Site) -> None:
    done = site.send(
        "/memory/recall",
        back="/dashboard/memory/recall",
        auto_retrieve_enabled=["", "on"],
        auto_retrieve_max_results="7",
        auto_retrieve_min_score="0.5",
    )
    assert "It holds from the next prompt on. Undo" in site.follow(done)
    origins = site.api.get("/api/memory/settings/origins")
    assert site.api.get("/api/memory/settings")["auto_retrieve_max_results"] == 7
    assert (origins["auto_retrieve_max_results"], origins["auto_retrieve_min_score"]) == ("stored", "default")
    site.send("/memory/recall", auto_retrieve_enabled="")
    assert site.api.get("/api/memory/settings")["auto_retrieve_enabled"] is False
    site.send("/memory/recall", auto_retrieve_max_results="11", status=400)
    site.send("/memory/recall", auto_retrieve_max_results="many", status=400)
    assert site.api.get("/api/memory/settings")["auto_retrieve_max_results"] == 7


def test_a_setting_fixed_elsewhere_is_shown_and_cannot_be_changed(site: Site) -> None:
    Path(site.api.home, "config.toml").write_text("auto_retrieve_min_score = 0.65\n", encoding="utf-8")
    shown = site.page("/memory/recall")
    assert "fixed by the settings file of this machine" in visible(shown)
    assert 'name="auto_retrieve_min_score"' not in shown
    assert 'name="auto_retrieve_max_results"' in shown
    assert "is fixed by the user file" in site.send("/memory/recall", auto_retrieve_min_score="0.3", status=400)


def test_the_log_says_what_was_injected_for_which_message(site: Site) -> None:
    assert "No agent has asked yet" in site.text("/memory/recall")
    site.api.remember(PORT, SHOP)
    row = _ask(site)
    for path in ("/memory/recall", "/injections"):
        shown = site.text(path)
        assert QUESTION in shown
        assert "production listens on port 8443." in shown
        assert f"{row['total_tokens_added']} tokens codex" in shown
        assert f"/dashboard/injections/{row['id']}" in site.page(path)
    assert "No injection has this outcome" in site.text("/injections?outcome=late")


def test_the_log_is_read_page_by_page(site: Site) -> None:
    prompts = [f"Please write haiku number {n} about the sea." for n in range(recall.PAGE_SIZE + 2)]
    for prompt in prompts:
        _ask(site, prompt)
    first = site.twin("/injections.json")
    rest = site.twin(f"/injections.json?cursor={first['next']}")
    seen = [row["user_message_preview"] for row in first["recalls"] + rest["recalls"]]
    assert seen == prompts[::-1]
    assert rest["next"] == ""


def test_why_shows_every_candidate_and_the_reason_in_words(site: Site) -> None:
    site.api.remember(PORT, SHOP)
    row = _ask(site)
    shown = site.text(f"/injections/{row['id']}")
    assert "Why the agent was told this" in shown
    assert "A memory that was learned from it is in the block." in shown
    nothing = _ask(site, "Please write a haiku about the sea in autumn.")
    shown = site.text(f"/injections/{nothing['id']}")
    assert "Why the agent was told nothing" in shown
    assert "The prompt needs nothing that is known." in shown
    site.text("/injections/01k0000000000000000000000a", status=404)


def test_forgotten_words_are_gone_from_the_log_too(site: Site) -> None:
    [action] = site.api.remember(PORT, SHOP)
    row = _ask(site, "Where does it listen in production?")
    assert "8443" in site.text(f"/injections/{row['id']}")
    site.api.ask("POST", "/api/memory/forget", {"id": action["id"], "at_once": True})
    shown = site.text(f"/injections/{row['id']}")
    assert "8443" not in shown
    assert "forgotten since" in shown


def test_two_settings_are_compared_on_both_pages(site: Site) -> None:
    site.api.remember(PORT, SHOP)
    row = _ask(site)
    for path in (f"/injections/{row['id']}", f"/preview?prompt={QUESTION}&project={SHOP}"):
        mark = "&" if "?" in path else "?"
        compared = visible(site.page(f"{path}{mark}max_results=2&min_score=1"))
        assert "4 results · threshold 0.50" in compared
        assert "2 results · threshold 1.00" in compared
        assert "differs" in compared
        site.text(f"{path}{mark}max_results=many", status=400)


def test_a_preview_is_the_block_with_its_share_of_the_budget(site: Site) -> None:
    site.api.remember(PORT, SHOP)
    body = {"prompt": QUESTION, "project": [SHOP], "channel": "claude-code"}
    block = site.api.ask("POST", "/api/memory/context/preview", body).body
    shown = site.text(f"/preview?prompt={QUESTION}&project={SHOP}")
    assert "production listens on port 8443." in shown
    assert f"{block['tokens']} of 500 tokens" in shown
    assert "Found for the prompt" in shown
    assert "Facts" in site.text(f"/preview?occasion=start&project={SHOP}")
    assert "A prompt of fewer than 20 characters" in site.text("/preview?prompt=Hello")
    assert site.api.get("/api/memory/retrievals") == []
    site.send("/memory/recall", auto_retrieve_enabled="")
    assert "Automatic recall is off" in site.text(f"/preview?prompt={QUESTION}")


def test_every_reason_and_section_has_words() -> None:
    assert set(recall.REASONS) == set(get_args(Omission))
    assert set(recall.SECTIONS) == set(SECTIONS)


def test_candidates_of_two_previews_stand_side_by_side() -> None:
    def one(id_: str, *, injected: bool, why: str = "") -> dict[str, Any]:
        return {"id": id_, "section": "memories", "injected": injected, "why": why, "value": 0.5}

    rows = recall.side_by_side([one("a", injected=True)], [one("b", injected=True), one("a", injected=False, why="no")])
    assert {row["candidate"]["id"]: (row["left"], row["right"], row["differs"]) for row in rows} == {
        "a": ({"injected": True, "why": ""}, {"injected": False, "why": "no"}, True),
        "b": (None, {"injected": True, "why": ""}, True),
    }


def test_the_preview_begins_with_the_project_that_was_used_last(site: Site) -> None:
    for name in ("alder", "willow", "birch"):
        site.api.remember(f"For the record: {name} listens on port 8443.", f"name:{name}")
    projects = {row["id"]: row["name"] for row in site.api.get("/api/memory/projects?counts=false")}
    assert sorted(projects.values()) == list(projects.values()) == ["alder", "birch", "willow"]
    assert projects[site.twin("/preview.json")["chosen"]["project"]] == "birch"
