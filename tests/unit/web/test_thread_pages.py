"""Threads, one thread with its graph, and a passage in its conversation: what a person sees there and can correct."""

from __future__ import annotations

from typing import Any

import pytest

from filrouge.web.threads import mark_spans
from tests.support.given import say

from .conftest import Site

COUPON = "The checkout page breaks when the coupon is empty, please find out why the coupon fails"
RULE = "Always validate the coupon in the coupon service of the checkout, never in the form."
POSTGRES = "Which indexes of the Postgres database grow too fast, and how large is its biggest schema by now?"


def told(site: Site, *texts: str) -> list[dict[str, Any]]:
    """Say prompts in one session, and return the threads."""
    for text in texts or (COUPON, RULE, POSTGRES):
        say(site.api.parts, text)
    return site.twin("/threads.json")["threads"]


def thread_of(site: Site, words: str) -> dict[str, Any]:
    """Return the twin of the page of the thread in which something was said."""
    for thread in site.twin("/threads.json")["threads"]:
        page = site.twin(f"/threads/{thread['id']}.json")
        if any(words in turn["text"] for turn in page["turns"]):
            return page
    raise AssertionError(words)


def test_threads_are_listed_with_what_they_are_about_and_filtered_by_status(site: Site) -> None:
    assert "There are no threads yet" in site.text("/threads")
    postgres, coupon = told(site)
    shown = site.text("/threads")
    assert shown.index(postgres["title"]) < shown.index(coupon["title"])
    done = site.send(f"/threads/{coupon['id']}/archive", back="/dashboard/threads?status=active")
    shown = site.follow(done)
    assert coupon["title"] not in shown
    assert "Archived. Undo" in shown
    assert coupon["title"] in site.text("/threads?status=archived")
    site.send(f"/threads/{coupon['id']}/reopen")
    assert "No thread matches" in site.text("/threads?status=archived")


def test_a_thread_is_renamed_in_place(site: Site) -> None:
    thread, *_ = told(site)
    assert "New title" in site.text(f"/threads?edit={thread['id']}")
    site.send(f"/threads/{thread['id']}/rename", title="<b>Postgres</b> 17")
    assert "&lt;b&gt;Postgres&lt;/b&gt; 17" in site.page(f"/threads/{thread['id']}")


def test_a_threads_page_shows_its_turns_newest_first_its_memories_and_the_graph_around_it(site: Site) -> None:
    told(site)
    page = thread_of(site, "coupon fails")
    assert [turn["text"] for turn in page["turns"]] == [RULE, COUPON]
    (memory,) = page["memories"]
    nodes = {node["id"]: node for node in page["graph"]["nodes"]}
    assert nodes[page["thread"]["id"]]["kind"] == "self"
    assert nodes[memory["id"]]["href"] == f"/dashboard/memories/{memory['id']}"
    assert {end for link in page["graph"]["links"] for end in (link["source"], link["target"])} == nodes.keys()
    html = site.page(f"/threads/{page['thread']['id']}")
    for node in nodes:  # the list that stands beside the graph says the same
        assert f'data-node="{node}"' in html


def test_a_bridge_is_made_and_removed_and_the_removal_undone(site: Site) -> None:
    told(site)
    own, other = (thread_of(site, words)["thread"] for words in ("coupon fails", "Postgres"))
    for bridge in site.twin(f"/threads/{own['id']}.json")["bridges"]:
        site.send(f"/threads/{own['id']}/bridges/{bridge['id']}/remove")
    site.send(f"/threads/{own['id']}/bridges", other=other["id"], type="depends_on", reason="same release")
    page = site.twin(f"/threads/{own['id']}.json")
    (bridge,) = page["bridges"]
    assert (bridge["other"], bridge["reason"], bridge["is_outgoing"]) == (other["id"], "same release", True)
    assert [node["id"] for node in page["graph"]["nodes"] if node["kind"] == "thread"] == [other["id"]]
    assert "same release" in site.text(f"/threads/{other['id']}")
    back = f"/dashboard/threads/{own['id']}"
    shown = site.follow(site.send(f"/threads/{own['id']}/bridges/{bridge['id']}/remove", back=back))
    assert "same release" not in shown
    assert "Disconnected. Undo" in shown


def test_turns_are_split_off_and_brought_back_and_two_threads_merged_after_asking(site: Site) -> None:
    told(site)
    page = thread_of(site, "coupon fails")
    own, rule = page["thread"], page["turns"][0]
    at = site.send(f"/threads/{own['id']}/split", id=rule["id"], title="Where to validate")
    opened = at.removeprefix("/dashboard/threads/").partition("?")[0]
    assert "Where to validate" in (shown := site.follow(at))
    assert "Split off into this thread. Undo" in shown
    site.send(f"/threads/{opened}/merge", into=own["id"])
    merged = site.twin(f"/threads/{own['id']}.json")
    assert len(merged["turns"]) == 2
    other = thread_of(site, "Postgres")["thread"]
    assert f"Merge into “{merged['thread']['title']}”?" in site.text(f"/threads/{other['id']}?merge={own['id']}")
    site.send(f"/threads/{other['id']}/merge", into=own["id"])
    assert "This thread was merged." in site.text(f"/threads/{other['id']}")


def test_a_passage_stands_in_its_conversation_with_the_quoted_words_marked(site: Site) -> None:
    told(site, COUPON, f"Thanks for that. {RULE} What is left to do now?")
    page = thread_of(site, "Thanks for that")
    (memory,) = page["memories"]
    turn = memory["evidence"][0]["turn_id"]
    html = site.page(f"/turns/{turn}?memory={memory['id']}")
    assert f"<mark>{RULE}</mark>" in html
    assert f"/dashboard/forget?id={turn}" in html
    shown = site.text(f"/turns/{turn}")
    assert shown.index(COUPON) < shown.index("Thanks for that")
    assert page["thread"]["title"] in shown
    assert "<mark>" not in site.page(f"/turns/{turn}?memory=another")


def test_what_is_said_is_text_and_never_markup(site: Site) -> None:
    told(site, '<img src=x onerror="alert(1)"> Always escape the coupon titles of the checkout page.')
    page = site.twin(f"/threads/{site.twin('/threads.json')['threads'][0]['id']}.json")
    for path in ("/threads", f"/threads/{page['thread']['id']}", f"/turns/{page['turns'][0]['id']}", "/timeline"):
        assert "<img" not in site.page(path)


@pytest.mark.parametrize(
    ("spans", "pieces"),
    [
        ([], ["abcdef"]),
        ([(0, 2)], ["[ab]", "cdef"]),
        ([(1, 3), (2, 4)], ["a", "[bcd]", "ef"]),
        ([(1, 5), (2, 3)], ["a", "[bcde]", "f"]),
        ([(4, 6), (0, 1)], ["[a]", "bcd", "[ef]"]),
        ([(0, 6)], ["[abcdef]"]),
    ],
)
def test_quoted_spans_become_pieces_that_together_are_the_text(spans: list[tuple[int, int]], pieces: list[str]) -> None:
    marked = mark_spans("abcdef", spans)
    assert [f"[{piece['text']}]" if piece["is_quoted"] else piece["text"] for piece in marked] == pieces
