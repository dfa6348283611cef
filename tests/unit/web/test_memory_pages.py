"""The list of memories and the page of one: what a person sees there and can do with it."""

from __future__ import annotations

from .conftest import Site


def test_what_is_remembered_is_listed_and_can_be_changed_in_place(site: Site) -> None:
    site.api.remember("For the record: the shop listens on port 8443.")
    (memory,) = site.twin("/memory.json")["memories"]
    assert memory["text"] in site.text("/memory")
    assert "New wording" in site.text(f"/memory?edit={memory['id']}")
    done = site.send(f"/memories/{memory['id']}/edit", text="The shop listens on port 9443.", back="/dashboard/memory")
    shown = site.follow(done)
    assert "The shop listens on port 9443." in shown
    assert "Changed. Undo" in shown
    changed = site.twin("/memory.json")["memories"][0]
    site.send("/memories/undo", memory_id=changed["id"])
    assert [row["text"] for row in site.twin("/memory.json")["memories"]] == [memory["text"]]


def test_an_edit_on_a_memorys_own_page_leads_to_the_new_one_which_says_why_in_the_readers_language(site: Site) -> None:
    site.api.remember("For the record: the shop listens on port 8443.")
    (memory,) = site.twin("/memory.json")["memories"]
    own = f"/dashboard/memories/{memory['id']}"
    done = site.send(
        f"/memories/{memory['id']}/edit", text="The shop listens on port 9443.", back=f"{own}?edit={memory['id']}"
    )
    assert not done.startswith(own)
    assert "Fait à la main." in site.text(done.removeprefix("/dashboard"), language="fr")
    assert "Rien de semblable n’était connu." in site.text(own.removeprefix("/dashboard"), language="fr")
    assert own in site.page(done.removeprefix("/dashboard"))


def test_several_memories_are_moved_to_the_bin_in_one_step_and_come_back_in_one(site: Site) -> None:
    for port in (8443, 8444, 8445):
        site.api.remember(f"For the record: server {port} listens on port {port}.")
    ids = [row["id"] for row in site.twin("/memory.json")["memories"]]
    done = site.send("/memories/selection", id=ids[:2], verb="bin", back="/dashboard/memory")
    assert "2 memories moved to the bin. Undo" in site.follow(done)
    assert [row["id"] for row in site.twin("/memory.json")["memories"]] == ids[2:]
    site.send("/memories/selection", ids=" ".join(ids[:2]), verb="restore")
    assert {row["id"] for row in site.twin("/memory.json")["memories"]} == set(ids)


def test_a_selection_is_changed_as_a_whole_or_not_at_all(site: Site) -> None:
    for port in (8443, 8444):
        site.api.remember(f"For the record: server {port} listens on port {port}.")
    first, second = (row["id"] for row in site.twin("/memory.json")["memories"])
    site.send(f"/memories/{second}/bin")
    site.send("/memories/selection", id=[first, second], verb="bin", status=400)
    assert [row["id"] for row in site.twin("/memory.json")["memories"]] == [first]
    assert "Nothing was selected." in site.follow(
        site.send("/memories/selection", verb="bin", back="/dashboard/memory")
    )


def test_undoing_a_selection_leaves_what_was_pinned_before(site: Site) -> None:
    for port in (8443, 8444):
        site.api.remember(f"For the record: server {port} listens on port {port}.")
    first, second = (row["id"] for row in site.twin("/memory.json")["memories"])
    site.send(f"/memories/{first}/pin")
    pinned = site.api.ask("POST", "/api/memory/memories/selection", {"ids": [first, second], "action": "pin"}).body
    assert [action["id"] for action in pinned["actions"]] == [second]
