"""The dashboard in a real browser: every page opens without a complaint, is light, and works by keys, clicks and forms.

`test_dashboard_proof.py` does the same with a hundred thousand memories, in every language and colour scheme.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from filrouge.core.clock import Language
from filrouge.web.rendering import ROOT
from filrouge.web.screens import SCREENS
from tests.support import axe
from tests.support.browser import chromium
from tests.support.dashboard import PAGES, Dashboard, Visitor, addresses, items, served, visitor

MEMORIES = 120
MOST_BYTES = 600_000
MEMORY = f"{ROOT}/memory"


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def dashboard() -> Generator[Dashboard]:
    with served(MEMORIES) as found:
        yield found


@pytest.fixture(scope="module")
def reader(browser: Browser, dashboard: Dashboard) -> Generator[Visitor]:
    with visitor(browser, dashboard) as found:
        yield found


@pytest.fixture(scope="module")
def plain_reader(browser: Browser, dashboard: Dashboard) -> Generator[Visitor]:
    """Somebody without JavaScript."""
    with visitor(browser, dashboard, scripts=False) as found:
        yield found


@pytest.fixture(scope="module")
def plain_page(plain_reader: Visitor) -> Page:
    """A tab without JavaScript, which goes from page to page."""
    return plain_reader.context.new_page()


@pytest.fixture(scope="module")
def links(dashboard: Dashboard) -> dict[str, str]:
    return addresses(dashboard)


@pytest.fixture(scope="module", params=["with scripts", "without scripts"])
def person(request: pytest.FixtureRequest, reader: Visitor, plain_reader: Visitor) -> Visitor:
    return reader if request.param == "with scripts" else plain_reader


# ------------------------------------------------------------------------------------------------ every page


@pytest.mark.parametrize("path", PAGES)
def test_every_page_opens_without_a_complaint_is_light_and_says_the_same_without_scripts(
    reader: Visitor, plain_page: Page, links: dict[str, str], path: str
) -> None:
    assert path in links, f"no page links to {path}"
    page, watch = reader.open(links[path])
    with page:
        answer = plain_page.goto(reader.dashboard.url + links[path])
        assert answer is not None
        assert answer.status == 200
        assert items(plain_page) == items(page)
        wrong = axe.violations(page)
        assert (watch.troubles(page), wrong) == ([], [])
        assert watch.size() <= MOST_BYTES


@pytest.mark.parametrize(("language", "path"), [("fr", MEMORY), ("es", ROOT)])
def test_a_page_opens_in_the_language_of_the_browser(
    browser: Browser, dashboard: Dashboard, language: Language, path: str
) -> None:
    with visitor(browser, dashboard, language=language) as reader:
        page, watch = reader.open(path)
        with page:
            assert page.locator("html").get_attribute("lang") == language
            assert page.get_by_role("heading", level=1).inner_text() not in ("Memory", "Today")
            assert watch.troubles(page) == []


def test_whoever_is_not_signed_in_is_told_how_to_get_in(
    browser: Browser, dashboard: Dashboard, links: dict[str, str]
) -> None:
    with httpx.Client(base_url=dashboard.url, headers={"Accept": "text/html"}) as http:
        answers = [http.get(address) for address in links.values()]
    assert {(one.status_code, one.headers["content-type"].partition(";")[0]) for one in answers} == {(401, "text/html")}
    with browser.new_page() as page:
        page.goto(dashboard.url + MEMORY)
        assert "filrouge dashboard" in page.inner_text("body")


# ------------------------------------------------------------------------------------------------ keys


def test_keys_walk_through_the_items_and_edit_one(reader: Visitor) -> None:
    page, watch = reader.open(MEMORY)
    with page:
        all_items = page.locator("main [data-item]")
        page.keyboard.press("j")
        expect(all_items.nth(0)).to_be_focused()
        page.keyboard.press("j")
        expect(all_items.nth(1)).to_be_focused()
        page.keyboard.press("k")
        expect(all_items.nth(0)).to_be_focused()
        page.keyboard.press("e")
        expect(all_items.nth(0).locator("textarea")).to_be_focused()
        assert watch.troubles(page) == []


def test_keys_open_the_palette_and_lead_to_a_screen(reader: Visitor) -> None:
    page, watch = reader.open(f"{ROOT}/threads")
    with page:
        page.keyboard.press("Control+k")
        expect(page.locator("#palette [type=search]")).to_be_focused()
        page.keyboard.type("memo")
        expect(page.locator("[data-palette] li:visible")).to_have_count(1)
        page.keyboard.press("Escape")
        expect(page.locator("#palette")).not_to_be_visible()
        page.keyboard.press("g")
        page.keyboard.press("m")
        page.wait_for_url(re.compile(f"{MEMORY}$"))
        expect(page.get_by_role("heading", level=1)).to_have_text("Memory")
        assert watch.troubles(page) == []


def test_a_filtered_view_is_kept_under_a_name_and_found_from_any_page(reader: Visitor) -> None:
    page, watch = reader.open(f"{MEMORY}?kind=rule")
    with page:
        page.keyboard.press("Control+k")
        expect(page.locator("[data-keep] input")).to_have_value("Memory · rule")
        page.locator("[data-keep] input").fill("<b>My rules</b>")
        page.get_by_role("button", name="Keep this view").click()
        page.goto(f"{reader.dashboard.url}{ROOT}/threads")
        reader.wait(page)
        page.keyboard.press("Control+k")
        expect(page.locator("[data-keep]")).not_to_be_visible()
        page.get_by_role("link", name="<b>My rules</b>").click()
        page.wait_for_url(re.compile(r"/memory\?kind=rule$"))
        reader.wait(page)
        page.keyboard.press("Control+k")
        page.get_by_role("button", name="Remove this view").click()
        expect(page.locator("[data-views] li")).to_have_count(0)
        assert watch.troubles(page) == []


def test_keys_lead_from_screen_to_screen(reader: Visitor) -> None:
    page, watch = reader.open(MEMORY)
    with page:
        for screen in (screen for group in SCREENS for screen in group):
            leave_the_first_field(page)
            page.keyboard.press("g")
            page.keyboard.press(screen.key)
            link = page.locator(f'nav a[href="{ROOT}{screen.path}"]').first
            expect(link).to_have_attribute("aria-current", "page")
        assert watch.troubles(page) == []


def leave_the_first_field(page: Page) -> None:
    """Leave the field that some screens begin with; it has the focus only a moment after the screen is there."""
    first = page.locator("[autofocus]")
    if first.count():
        expect(first.first).to_be_focused()
    page.keyboard.press("Escape")


# ------------------------------------------------------------------------------------------------ clicks


def test_a_memory_is_edited_in_place_and_the_change_is_undone(person: Visitor) -> None:
    page, watch = person.open(MEMORY)
    with page:
        chosen = same(page, page.locator("main [data-item]").first)
        before = chosen.locator(".text").inner_text()
        chosen.get_by_role("link", name="Edit").click()
        chosen.locator("textarea").fill("The kiosk closes at seven in winter.")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("The kiosk closes at seven in winter.", exact=True)).to_be_visible()
        page.get_by_role("status").get_by_role("button", name="Undo").click()
        expect(page.get_by_text("The kiosk closes at seven in winter.", exact=True)).to_have_count(0)
        expect(page.get_by_text(before, exact=True).first).to_be_visible()
        assert watch.troubles(page) == []


def test_a_memory_is_pinned_and_unpinned(person: Visitor) -> None:
    page, watch = person.open(MEMORY)
    with page:
        chosen = same(page, unpinned(page))
        chosen.get_by_role("button", name="Pin", exact=True).click()
        expect(chosen.locator(".tag", has_text="pinned")).to_be_visible()
        chosen.get_by_role("button", name="Unpin", exact=True).click()
        expect(chosen.locator(".tag", has_text="pinned")).to_have_count(0)
        assert watch.troubles(page) == []


def test_a_memory_is_put_into_the_bin_and_taken_out(person: Visitor) -> None:
    page, watch = person.open(MEMORY)
    with page:
        chosen = same(page, unpinned(page))
        chosen.get_by_role("button", name="Bin").click()
        expect(chosen).to_have_count(0)
        page.get_by_role("status").get_by_role("button", name="Undo").click()
        expect(chosen).to_have_count(1)
        assert watch.troubles(page) == []


def test_a_filter_changes_the_address_and_the_list(person: Visitor) -> None:
    page, watch = person.open(MEMORY)
    with page:
        page.get_by_label("Kind").last.select_option("rule")
        if not person.scripts:
            page.get_by_role("button", name="Filter").click()
        page.wait_for_url(re.compile(r"[?&]kind=rule\b"))
        expect(page.locator("main [data-item] .kind").first).to_have_text("rule")
        kinds = page.locator("main [data-item] .kind").all_inner_texts()
        assert set(kinds) == {"rule"}
        assert watch.troubles(page) == []


def unpinned(page: Page) -> Locator:
    return page.locator("main [data-item]", has=page.get_by_role("button", name="Pin", exact=True)).first


def same(page: Page, item: Locator) -> Locator:
    """The item with the same id, whatever becomes of it."""
    return page.locator(f"#{item.get_attribute('id')}")


# ------------------------------------------------------------------------------------------------ two tabs


def binned(dashboard: Dashboard, id_: str) -> None:
    dashboard.ask("POST", f"/api/memory/memories/{id_}/bin")


def forgotten(dashboard: Dashboard, id_: str) -> None:
    dashboard.ask("POST", "/api/memory/forget", {"id": id_, "at_once": True})


@pytest.mark.parametrize("how", [binned, forgotten])
def test_what_is_taken_away_elsewhere_disappears_at_once(
    reader: Visitor, dashboard: Dashboard, how: Callable[[Dashboard, str], None]
) -> None:
    page, watch = reader.open(MEMORY)
    with page:
        page.wait_for_function("() => document.querySelector('#live-state').dataset.state === 'open'")
        chosen = same(page, page.locator("main [data-item]").last)
        how(dashboard, str(chosen.get_attribute("id")).removeprefix("m-"))
        expect(chosen).to_have_count(0)
        assert watch.troubles(page) == []


def test_what_one_tab_puts_into_the_bin_leaves_the_other(reader: Visitor) -> None:
    one, _ = reader.open(MEMORY)
    other, watch = reader.open(MEMORY)
    with one, other:
        other.wait_for_function("() => document.querySelector('#live-state').dataset.state === 'open'")
        chosen = unpinned(one)
        gone = same(other, chosen)
        chosen.get_by_role("button", name="Bin").click()
        expect(gone).to_have_count(0)
        assert watch.troubles(other) == []
