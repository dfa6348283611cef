"""Forgetting from the dashboard: nothing goes without a preview, and every deed leaves a receipt."""

from __future__ import annotations

import re

from .conftest import Site

VAULT = "For the record: the marzipan vault is in room 12."


def _token(site: Site, path: str) -> str:
    found = re.search(r'name="token" value="(\w+)"', site.page(path))
    assert found
    return found[1]


def test_a_memory_is_previewed_erased_and_leaves_a_valid_receipt(site: Site) -> None:
    site.api.remember(VAULT)
    (memory,) = site.twin("/memory.json")["memories"]
    at = f"/forget?id={memory['id']}&back=/dashboard/memory&now=1"
    shown = site.text(at)
    assert memory["text"] in shown
    assert "It cannot be undone." in shown
    to = site.send("/forget", id=memory["id"], token=_token(site, at), back="/dashboard/memory")
    receipt = site.follow(to)
    assert "Forgotten. This is the receipt." in receipt
    assert "nothing left valid signature" in receipt
    assert "marzipan" not in receipt
    assert site.twin("/memory.json")["memories"] == []
    assert len(site.twin("/receipts.json")["receipts"]) == 1
    assert "valid signature" in site.text("/receipts")


def test_words_are_asked_for_and_what_contains_them_is_counted(site: Site) -> None:
    site.api.remember(VAULT)
    assert "What should be forgotten?" in site.text("/forget")
    page = site.twin("/forget.json?text=marzipan&now=1")
    assert {one["kind"]: one["erased"] for one in page["kinds"]}["memories"] == 1
    assert "What would go for “marzipan”" in site.text("/forget?text=marzipan&now=1")
    assert "Nothing matches" in site.text("/forget?text=zeppelin&now=1")


def test_if_something_changed_since_the_preview_nothing_goes_and_there_is_a_new_one(site: Site) -> None:
    site.api.remember(VAULT)
    token = _token(site, "/forget?text=marzipan&now=1")
    site.api.remember("For the record: the marzipan vault has two keys.")
    to = site.send("/forget", text="marzipan", token=token, back="/dashboard/memory")
    shown = site.follow(to)
    assert "Nothing was erased:" in shown
    assert "two keys" in shown
    assert len(site.twin("/memory.json")["memories"]) == 2
    assert site.twin("/receipts.json")["receipts"] == []


def test_a_way_back_leads_only_into_the_dashboard(site: Site) -> None:
    site.api.remember(VAULT)
    assert "evil" not in site.page("/forget?text=marzipan&back=https://evil.example")
    assert "evil" not in site.page("/forget?text=marzipan&now=1&back=https://evil.example")
    assert "evil" not in site.page("/forget?text=marzipan&now=1&back=//evil.example")
