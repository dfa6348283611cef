"""Pages hold any words and give them back, whatever Markdown, or a person, makes of them."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from filrouge.notes.pages import USER_PAGE, escape, export_pages, parse_export_page, unescape

SHOP = {"id": "name:shop", "name": "shop", "aliases": ["name:shop", "git:shop"]}
texts = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("\\`*_[]<>#~$&{}=%-+.)1\n\r\t &;!br0")),
    min_size=1,
)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["-->", "<!--fr {}-->", "--!>"]
)


def row(**more: Any) -> dict[str, Any]:
    """A memory as an export has it."""
    plain: dict[str, Any] = {
        "id": "m1", "scope": "project", "user_id": "local", "project_id": "name:shop", "agent": "", "channel": "api",
        "session_id": "", "kind": "fact", "text": "Port 8443.", "subject": "", "key": None, "value": None,
        "confidence": 0.8, "sentiment": "neutral", "timeframe": "", "trust": 3, "state": "live", "supersedes": None,
        "superseded_by": None, "previous_text": None, "pinned": False, "disabled": False, "mention_count": 1,
        "made_by": "heuristic", "prompt_version": "", "created_at": "2026-01-02T03:04:05.000006Z",
        "valid_from": "2026-01-02T03:04:05.000006Z", "valid_to": None, "last_mention": "2026-01-02T03:04:05.000006Z",
        "evidence": [],
    }  # fmt: skip
    return plain | more


rows = st.fixed_dictionaries(
    {
        "text": texts,
        "subject": words,
        "key": st.none() | words,
        "value": st.none() | words,
        "previous_text": st.none() | texts,
        "kind": st.sampled_from(["fact", "rule", "preference", "decision", "constraint", "intent", "note"]),
        "state": st.sampled_from(["live", "superseded", "binned"]),
        "project_id": st.sampled_from([None, "name:shop", "name:gone"]),
        "confidence": st.floats(0, 1),
        "trust": st.integers(0, 3),
        "pinned": st.booleans(),
        "disabled": st.booleans(),
    }
)


@given(texts)
@example("1. A list of its own")
@example("<!--fr {}--> [[link]] ==mark== %%hidden%% #tag `code` $x$ &amp;")
@example("  two  spaces\n\n# and a heading\t")
def test_any_words_stand_on_one_line_and_come_back(text: str) -> None:
    line = escape(text)
    assert len(line.splitlines()) == 1
    assert (line.strip(), unescape(line)) == (line, text)


@given(st.lists(rows, max_size=5))
def test_every_memory_comes_back_with_its_life(drawn: list[dict[str, Any]]) -> None:
    memories = [row(**one, id=f"m{place}") for place, one in enumerate(drawn)]
    found = {name: parse_export_page(text) for name, text in export_pages([SHOP], memories)}
    back = [one for page in found.values() if page for one in page.memories]
    assert sorted(back, key=lambda one: one["id"]) == memories
    assert [problem for page in found.values() if page for problem in page.problems] == []
    projects = [page.project for page in found.values() if page and page.project]
    assert projects == ([SHOP] if any(one["project_id"] == "name:shop" for one in memories) else [])


def test_a_page_reads_like_a_page() -> None:
    memories = [
        row(),
        row(id="m2", kind="rule", text="Always run `make check`."),
        row(id="m3", project_id=None, scope="user", kind="preference", text="Short commits."),
        row(id="m4", state="superseded", text="Port 8080."),
    ]
    found = dict(export_pages([SHOP], memories))
    assert list(found) == [USER_PAGE, "Project shop.md"]
    shown = [line.split(" <!--")[0] for line in found["Project shop.md"].splitlines() if line]
    assert shown == [
        "---", "filrouge: 1", 'id: "name:shop"', 'name: "shop"', 'aliases: ["name:shop", "git:shop"]', "---", "# shop",
        "## Rules", "- Always run \\`make check\\`.", "## Facts", "- Port 8443.", "## Replaced", "- Port 8080.",
    ]  # fmt: skip


def test_lines_that_a_person_changed_are_told_by_their_number() -> None:
    [_, (_, text)] = export_pages([SHOP], [row(), row(id="m2", text="Two words.")])
    number = next(place for place, line in enumerate(text.splitlines(), start=1) if "8443" in line)
    page = parse_export_page(text.replace("Port 8443", "Port 9443").replace("- Two", "Two") + "- Something new.\n")
    assert page is not None
    assert [one["text"] for one in page.memories] == ["Port 9443."]
    told = dict(page.problems)
    assert sorted(told) == [number, number + 1, number + 2]
    assert "was edited" in told[number]
    assert "damaged" in told[number + 1]
    assert "filrouge remember" in told[number + 2]


def test_another_ones_file_is_no_page() -> None:
    assert [
        parse_export_page(text) for text in ("", "# Notes", "---\ntitle: x\n---\n- a", "---\nfilrouge: 2\n---\n")
    ] == [None] * 4


def test_names_of_pages_are_names_of_files_and_differ() -> None:
    names = ("../../etc/passwd", "Shop", "shop", "con", "\x00", "a" * 500, "..", "äö/ü")
    projects: list[dict[str, Any]] = [
        {"id": f"p{place}", "name": name, "aliases": []} for place, name in enumerate(names)
    ]
    found = [name for name, _ in export_pages(projects, [row(project_id=one["id"]) for one in projects])]
    assert len({name.casefold() for name in found}) == len(names) + 1
    assert all(not set(name) & set("/\\\x00:") and name.endswith(".md") and len(name) < 120 for name in found)
    assert all(name.startswith("Project ") for name in found[1:])
