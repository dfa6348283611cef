"""Pages: what is not a memory's line survives everything that is done to the lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from filrouge.notes.pages import Line, apply_changes, lines, new_page, page_key, plain_name

FIRST, SECOND, THIRD = (f"01j{digit * 23}" for digit in "abc")


def line_of(head: str, words: str, id_: str) -> str:
    return f"{head}{words} ^frl-{id_}"


def page_of(some: list[str], end: str, is_ended: bool) -> str:
    return end.join(some) + (end if is_ended else "")


texts = st.text(st.characters(exclude_characters="\n\r", codec="utf-8"), max_size=40).filter(
    lambda text: "^frl-" not in text.lower()
)
heads = st.sampled_from(["- ", "* ", "  - ", "1. ", "- [x] ", ""])
ours = st.builds(line_of, heads, st.from_regex(r"[a-z]{0,8}", fullmatch=True), st.sampled_from([FIRST, SECOND, THIRD]))
others_lines = st.sampled_from(["", "## Facts", "# Title", "---"])
pages = st.builds(
    page_of, st.lists(st.one_of(texts, ours, others_lines), max_size=12), st.sampled_from(["\n", "\r\n"]), st.booleans()
)


def others(page: str) -> list[str]:
    """Every line but those of memories; empty ones and headings may have been put there."""
    known = {line.number for line in lines(page)}
    found = [line.rstrip("\r") for number, line in enumerate(page.split("\n")) if number not in known]
    return [line for line in found if line.strip() and line not in ("## Added", "## Facts")]


@given(page=pages, data=st.data())
def test_whatever_is_no_memorys_line_stays_as_it_is(page: str, data: st.DataObject) -> None:
    found = lines(page)
    fates = st.one_of(st.none(), st.just(Line(id=THIRD, words="new words")))
    changed = {one.number: data.draw(fates) for one in found if data.draw(st.booleans())}
    new = apply_changes(
        page, changed, [("Added", Line(id=SECOND, words="added")), ("Facts", Line(id=FIRST, words="more"))]
    )
    assert others(new) == others(page)
    assert {(FIRST, "more"), (SECOND, "added")} <= {(one.id, one.words) for one in lines(new)}


@given(page=pages)
def test_a_page_of_which_nothing_changes_is_the_same_byte_for_byte(page: str) -> None:
    same: dict[int, Line | None] = {}
    assert apply_changes(page, same, []) == page
    kept = lines(page)
    again = lines(apply_changes(page, {one.number: one for one in kept}, []))
    assert [(one.id, one.words) for one in again] == [(one.id, one.words) for one in kept]


@given(words=st.lists(st.from_regex(r"[a-z][a-z ]{0,20}[a-z]", fullmatch=True), min_size=1, max_size=5))
def test_what_is_written_is_read(words: list[str]) -> None:
    some = [(f"Part {n % 2}", Line(id=FIRST, words=one)) for n, one in enumerate(words)]
    page = apply_changes(new_page("user", "User"), {}, some)
    assert sorted(one.words for one in lines(page)) == sorted(words)
    assert page_key(page) == "user"


def test_a_line_is_known_whatever_stands_before_its_words() -> None:
    page = f"- [ ] Use pnpm ^frl-{FIRST}\n  * Deploy on Friday  ^FRL-{SECOND.upper()}  \nno dash ^frl-{THIRD}\n"
    assert [(one.id, one.words) for one in lines(page)] == [
        (FIRST, "Use pnpm"), (SECOND, "Deploy on Friday"), (THIRD, "no dash")
    ]  # fmt: skip


def test_new_lines_stand_behind_the_last_of_their_section() -> None:
    page = f"# Shop\n\n## Facts\n\n- one ^frl-{FIRST}\n\nmine\n\n## Rules\nfree text\n"
    new = apply_changes(page, {}, [("Facts", Line(id=SECOND, words="two")), ("Rules", Line(id=THIRD, words="three"))])
    assert new == (
        f"# Shop\n\n## Facts\n\n- one ^frl-{FIRST}\n- two ^frl-{SECOND}\n\nmine\n\n"
        f"## Rules\n\n- three ^frl-{THIRD}\n\nfree text\n"
    )


def test_a_page_is_known_by_its_frontmatter_however_it_is_written() -> None:
    assert page_key("---\ntags:\n  - a\nfilrouge-page: 'sessions-2026-11'\nmine: 1\n---\ntext") == "sessions-2026-11"
    assert page_key("---\r\nfilrouge-page: user\r\n---\r\n") == "user"
    assert page_key("filrouge-page: user\n") == ""


def test_a_title_makes_a_name_that_every_system_takes() -> None:
    assert plain_name("Project a/b: c?") == "Project a-b- c"
    assert plain_name("…") == "unnamed"
