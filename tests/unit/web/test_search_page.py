"""The search: what it finds where, what it marks, and what it says when nothing is found."""

from __future__ import annotations

from filrouge.web.search import EXCERPT, excerpt

from .conftest import Site

PORT = "For the record: the staging server listens on port 8443."
SHOP = "origin:forge.example/ana/shop"


def _marked(text: str, question: str) -> list[str]:
    return [piece["text"] for piece in excerpt(text, question) if piece["marked"]]


def test_results_stand_by_collection_with_score_channel_and_what_can_be_done(site: Site) -> None:
    site.api.remember(PORT, SHOP)
    found = site.twin("/memory/search.json?q=staging+port&mode=text")
    assert [group["name"] for group in found["groups"]][:2] == ["memories", "turns"]
    memory = found["groups"][0]["hits"][0]
    html = site.page("/memory/search?q=staging+port&mode=text")
    assert "<mark>staging</mark>" in html
    assert f"/dashboard/memories/{memory['id']}/pin" in html
    assert f"/dashboard/turns/{found['groups'][1]['hits'][0]['id']}" in html
    assert memory["channel"] in html
    only = site.twin("/memory/search.json?q=staging+port&mode=text&where=memories")
    assert [group["name"] for group in only["groups"]] == ["memories"]


def test_filters_are_in_the_address_and_narrow_the_results(site: Site) -> None:
    site.api.remember(PORT, SHOP)
    assert site.twin(f"/memory/search.json?q=port&mode=text&project={SHOP}&since=2020-01-01")["groups"]
    assert site.twin("/memory/search.json?q=port&mode=text&until=2020-01-01")["groups"] == []
    assert "Nothing matches within these filters" in site.text("/memory/search?q=port&mode=text&channel=codex")
    assert "No text has these words" in site.text("/memory/search?q=zeppelin&mode=text")
    assert "Ask for anything that was said" in site.text("/memory/search")


def test_a_hostile_text_is_marked_and_stays_text(site: Site) -> None:
    site.api.remember("For the record: the widget says <script>alert(1)</script> on <b>staging</b>.", SHOP)
    html = site.page("/memory/search?q=script+staging&mode=text")
    assert "<script>alert" not in html
    assert "&lt;<mark>script</mark>&gt;" in html
    assert "<script>x" not in site.page("/memory/search?q=%22%3E%3Cscript%3Ex")


def test_a_missing_embedder_is_told(site: Site) -> None:
    site.api.remember(PORT, SHOP)
    site.api.parts.vectors.ready.clear()
    assert 'class="notice"' in site.page("/memory/search?q=port&mode=semantic")
    assert 'class="notice"' not in site.page("/memory/search?q=port&mode=text")


def test_an_excerpt_is_short_and_shows_the_part_with_most_words() -> None:
    text = "Nothing of note. " * 400 + "The nightly exports need an index on invoices. " + "And so on. " * 400
    pieces = excerpt(text, "index for the nightly export")
    shown = "".join(piece["text"] for piece in pieces)
    assert len(shown) <= EXCERPT + 2
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert _marked(text, "index for the nightly export") == ["nightly", "exports", "index"]


def test_words_are_marked_in_other_forms_and_the_text_is_kept() -> None:
    assert _marked("Les décisions d'hier", "decision") == ["décisions"]
    assert "".join(piece["text"] for piece in excerpt("a < b & c", "b")) == "a < b & c"
    assert excerpt("", "b") == []
    assert len("".join(piece["text"] for piece in excerpt("x" * 50_000, "y"))) == EXCERPT + 1
