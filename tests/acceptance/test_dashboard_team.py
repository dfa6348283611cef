"""The Team page in a real browser, with a served hub: joining, what is shared, and what a colleague shares."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, Page, expect

from filrouge.web.rendering import ROOT
from tests.reliability.processes import daemon, eventually, quiet, status, throw_away_home
from tests.support import axe, postgres
from tests.support.browser import chromium
from tests.support.dashboard import Dashboard, Visitor, Watch, environ_of, visitor
from tests.support.dashboard_store import Filled
from tests.support.dashboard_team import Colleague, colleague, work_in

TEAM = f"{ROOT}/team"
PORT = "We decided to let the API of the harbour listen on port 7300."
SECRET_HABIT = "We decided to name the test database after the cat."
TUESDAYS = "We decided to deploy the harbour on Tuesdays."
RULE = "Never push to main without a review."
PATIENCE = 30.0


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def ben() -> Generator[Colleague]:
    postgres.required()
    with colleague() as found:
        yield found


@pytest.fixture(scope="module")
def dashboard() -> Generator[Dashboard]:
    with throw_away_home() as home, daemon(home, **environ_of()) as process:
        found = Dashboard(home=home, url=status(home)["url"], filled=Filled(), process=process)
        work_in(found, PORT, SECRET_HABIT)
        eventually("everything is understood", lambda: quiet(home), PATIENCE)
        yield found


def flawless(page: Page, watch: Watch) -> None:
    assert (watch.troubles(page), axe.violations(page)) == ([], [])


def join(page: Page, ben: Colleague) -> None:
    page.get_by_label("Address of the hub").fill(ben.url)
    page.get_by_label("Token").fill(ben.token)
    page.get_by_label("Name of this machine").fill("laptop")
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("status")).to_contain_text("You are Ana in the team Acme. Nothing is shared yet.")


def share_one_and_keep_the_other(page: Page) -> None:
    """Decide with the keys alone; the next memory has the focus after the first is shared."""
    expect(page.get_by_text(SECRET_HABIT)).to_be_visible()
    keys = {PORT: "a", SECRET_HABIT: "d"}
    page.keyboard.press("j")
    for _ in keys:
        chosen = page.locator("main [data-item]:focus")
        text = chosen.locator(".text").inner_text()
        page.keyboard.press(keys[text])
        expect(page.locator("main .text", has_text=text)).to_have_count(0)
        if page.locator("main [data-item] .text").count():
            expect(page.locator("main [data-item]").first).to_be_focused()


def waits_in_the_page(visitor_: Visitor, path: str, text: str) -> tuple[Page, Watch]:
    """Open a page again until a text is on it."""
    opened = list[tuple[Page, Watch]]()

    def has_it() -> bool:
        for page, _ in opened:
            page.close()
        opened[:] = [visitor_.open(path)]
        return text in opened[0][0].inner_text("main")

    eventually(f"{path} shows {text!r}", has_it, PATIENCE)
    return opened[0]


def test_a_person_joins_shares_what_they_choose_and_sees_whose_memories_come_back(
    browser: Browser, dashboard: Dashboard, ben: Colleague
) -> None:
    with visitor(browser, dashboard) as ana:
        page, watch = ana.open(TEAM)
        with page:
            flawless(page, watch)
            join(page, ben)
            page.get_by_label("Shared of harbour", exact=True).select_option("ask")
            page.get_by_role("button", name="Save what is shared of harbour").click()
            expect(page.get_by_role("status")).to_contain_text("2 memories wait.")
            flawless(page, watch)
            page.get_by_role("main").get_by_role("link", name="Waiting").click()
            share_one_and_keep_the_other(page)
            flawless(page, watch)
        eventually("Ben knows what was shared", lambda: PORT in ben.knows(), PATIENCE)
        assert SECRET_HABIT not in ben.knows()

        ben.say(TUESDAYS)
        ben.add_rule(RULE)
        page, watch = waits_in_the_page(ana, f"{ROOT}/memory", TUESDAYS)
        with page:
            expect(page.locator("[data-item]", has_text=TUESDAYS)).to_contain_text("Ben (team)")
            flawless(page, watch)
        page, watch = waits_in_the_page(ana, f"{ROOT}/review", RULE)
        with page:
            expect(page.locator("[data-item]", has_text=RULE)).to_contain_text("Ben shares this rule with the team.")
            flawless(page, watch)
            page.get_by_role("button", name="Accept for the whole team").click()
            expect(page.get_by_role("status")).to_contain_text("Accepted for everybody in the team.")
            expect(page.get_by_text(RULE)).to_have_count(0)
        page, watch = waits_in_the_page(ana, f"{ROOT}/memory?kind=rule", RULE)
        page.close()

    with visitor(browser, dashboard, scripts=False) as plain:
        page, _ = plain.open(f"{TEAM}?show=projects")
        with page:
            page.get_by_text("Leave the team…").click()
            expect(page.get_by_text("memories of colleagues are erased on this machine")).to_be_visible()
            expect(page.get_by_text("1 memory of yours stays with the team.")).to_be_visible()
            page.get_by_role("button", name="Leave Acme").click()
            expect(page.get_by_role("status")).to_contain_text("You left the team Acme.")
            page.goto(f"{dashboard.url}{ROOT}/memory")
            expect(page.get_by_text(TUESDAYS)).to_have_count(0)
            expect(page.get_by_text(SECRET_HABIT)).to_be_visible()
