"""Tags by Obsidian's rules, in the text of a note and in its frontmatter."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.notes import pages

letters = st.text(alphabet="abzéñüß日本0189_-", min_size=1, max_size=8)
names = st.lists(letters, min_size=1, max_size=3).map("/".join).filter(lambda name: not pages.folded(name).isdigit())
words = st.text(alphabet="abcdé ,.;:!?()", max_size=30)


@given(st.lists(st.tuples(words, names), max_size=6))
def test_a_tag_is_found_wherever_white_space_stands_before_it_and_nothing_else_is_one(
    written: list[tuple[str, str]],
) -> None:
    text = "\n".join(f"{before}\n#{name} {before}" for before, name in written)
    assert pages.inline_tags(text) == tuple(dict.fromkeys(pages.folded(name) for _, name in written))


@given(
    words, names, st.sampled_from(("{0}x#{1}", "`{0} #{1}`", "```\n#{1}\n```", "%%{0} #{1}%%", "[[{0} #{1}]]", "# {0}"))
)
def test_within_a_word_code_a_comment_or_a_link_there_is_no_tag(before: str, name: str, form: str) -> None:
    assert pages.inline_tags(form.format(before, name)) == ()


@given(names)
def test_case_and_a_hash_before_it_make_no_other_tag(name: str) -> None:
    assert pages.frontmatter_tags([f"#{name.upper()}"]) == pages.frontmatter_tags([name.upper()])
    assert pages.inline_tags(f"#{name.upper()}") == pages.frontmatter_tags([name.upper()])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# A heading\n## Another", ()),
        ("## A heading #tagged", ("tagged",)),
        ("#2024 and #y2024", ("y2024",)),
        ("See https://example.org/#top and [[note#part]].", ()),
        ("(#no) but #yes!", ("yes",)),
        ("#Projet/Été", ("projet/été",)),
        ("~~~\n#in\n~~~\n#out", ("out",)),
        ("```\nnever closed\n#in", ()),
        ("a lone ` and #out", ("out",)),
        ("``a ` b #in`` #out", ("out",)),
        ("%% begun\n#in\n\nstill #in", ()),
    ],
)
def test_what_is_a_tag(text: str, found: tuple[str, ...]) -> None:
    assert pages.inline_tags(text) == found


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["a, #b"], ("a", "b")),
        (["a b"], ("a", "b")),
        (["#a/b", "c"], ("a/b", "c")),
        (["2024", "no.tag", "", "ok"], ("ok",)),
    ],
)
def test_a_frontmatter_may_write_them_as_a_list_or_as_one_text(values: list[str], found: tuple[str, ...]) -> None:
    assert pages.frontmatter_tags(values) == found


@pytest.mark.parametrize("text", ["`" * 200_000, "` `` " * 40_000, "%%" * 100_000, "[[" * 100_000, "#" * 200_000])
def test_no_note_takes_long(text: str) -> None:
    began = time.process_time()
    pages.inline_tags(text)
    assert time.process_time() - began < 2.0
