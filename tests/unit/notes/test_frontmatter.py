"""Frontmatter: what a note says of itself above its text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.notes.pages import split_frontmatter


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("tags: [One, two/three]", ("one", "two/three")),
        ("tags:\n  - one\n  - '#two'", ("one", "two")),
        ("tags: one, two", ("one", "two")),
        ("Tags: one two", ("one", "two")),
        ("tag: one", ("one",)),
        ("tags: [yes, 2024, y2024]", ("yes", "y2024")),
        ("tags:", ()),
        ("tags: {a: b}", ()),
        ("title: no tags", ()),
        ("- a list", ()),
    ],
)
def test_tags_are_read_in_every_way_that_obsidian_writes_them(written: str, found: tuple[str, ...]) -> None:
    front = split_frontmatter(f"---\n{written}\n---\nText.")
    assert (front.tags, front.text, front.problem) == (found, "Text.", "")


def test_other_names_are_kept() -> None:
    assert split_frontmatter("---\naliases: [Cuisine, Recettes]\n---\n").aliases == ("Cuisine", "Recettes")


def test_a_note_without_frontmatter_is_all_text() -> None:
    for text in ("Text.", "", "text\n---\ntags: a\n---\n", " ---\ntags: a\n---\n", "---\ntags: a\nnever closed"):
        assert (split_frontmatter(text).tags, split_frontmatter(text).text) == ((), text)


def test_an_empty_one_is_none_and_hides_nothing() -> None:
    assert split_frontmatter("---\n---\nText.").text == "Text."


@pytest.mark.parametrize(
    "hostile",
    [
        "a: [",
        "[" * 5000,
        "a: &x [1]\nb: *nobody",
        "? [a]\n: b",
        'a: "\\UFFFFFFFF"',
        "x" * 30_000,
    ],
)
def test_one_that_cannot_be_read_leaves_the_note_as_text(hostile: str) -> None:
    front = split_frontmatter(f"---\n{hostile}\n---\nText.")
    assert front.text.endswith("Text.")
    assert front.tags == ()


def test_no_frontmatter_makes_an_object() -> None:
    assert split_frontmatter("---\ntags: !!python/object/apply:os.system ['true']\n---\n").tags == ("true",)


def test_one_that_cannot_be_read_is_said() -> None:
    assert split_frontmatter("---\na: [\n---\n").problem == "its frontmatter is not valid YAML"


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    front = split_frontmatter(f"---\n{text}")
    assert f"---\n{text}".endswith(front.text)
