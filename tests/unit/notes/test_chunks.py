"""Chunks: a note cut into parts, with nothing lost and nothing too long."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from filrouge.notes.models import Note
from filrouge.notes.pages import MAX_CHARACTERS, MAX_CHUNK, chunks

lines = st.one_of(
    st.sampled_from(
        ("# One", "## Two", "### Three ##", "```", "", "word " * 300, "x" * 2500, "A sentence. Another one!")
    ),
    st.text(alphabet="abé .#\n", max_size=400),
)


def note(text: str, *aliases: str) -> Note:
    return Note(
        path="work/Port.md",
        title="Port",
        aliases=aliases,
        tags=(),
        text=text,
        changed=datetime.now(UTC),
        stamp="",
        hash="",
    )


@given(st.lists(lines, max_size=12).map("\n".join))
def test_no_character_is_lost_and_no_part_is_too_long(text: str) -> None:
    parts = chunks(note(text))
    assert "".join("".join(one.text for one in parts).split()) == "".join(text.split())
    assert all(0 < len(one.text) <= MAX_CHUNK for one in parts)
    assert [one.part for one in parts] == list(range(len(parts)))


def test_a_part_knows_what_it_stands_under() -> None:
    text = f"# Ports\n{'a ' * 300}\n## Production\n{'b ' * 300}\n## Staging\n{'c ' * 300}\n# Other\n{'d ' * 300}"
    assert [one.heading for one in chunks(note(text, "Ports and hosts"))] == [
        "Port (Ports and hosts) > Ports",
        "Port (Ports and hosts) > Ports > Production",
        "Port (Ports and hosts) > Ports > Staging",
        "Port (Ports and hosts) > Other",
    ]


def test_what_looks_like_a_heading_in_code_is_none() -> None:
    text = f"# Setup\n{'a ' * 300}\n```\n# a comment\n```\n{'b ' * 300}"
    assert {one.heading for one in chunks(note(text))} == {"Port > Setup"}


def test_short_sections_share_a_part() -> None:
    assert len(chunks(note("\n".join(f"## {n}\nshort" for n in range(10))))) == 1


def test_a_long_text_is_cut_between_paragraphs() -> None:
    paragraphs = [f"{n} " + "word " * 80 for n in range(6)]
    parts = chunks(note("\n\n".join(paragraphs)))
    assert len(parts) == 3
    assert all(one.text.split()[0].isdigit() for one in parts)


def test_a_book_is_read_up_to_its_limit() -> None:
    parts = chunks(note("word " * 100_000))
    assert MAX_CHARACTERS - MAX_CHUNK < sum(len(one.text) + 1 for one in parts) <= MAX_CHARACTERS + len(parts)


def test_a_note_without_a_word_has_no_part() -> None:
    assert chunks(note(" \n\n")) == []
