"""A newcomer's first minutes with the dashboard: from an empty memory to the receipt of what was forgotten.

`walk` is what somebody does who has read nothing: work with an agent, look, click on what the pages offer. It needs no
address and no command but the login link. `make screenshots` writes a picture of each step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Locator, Page, expect

from filrouge.core.clock import Language
from filrouge.web.languages import translations
from tests.reliability.processes import daemon, eventually, quiet, status, throw_away_home

from .dashboard import Dashboard, environ_of, send_prompt, visitor
from .dashboard_store import Filled

HOST: Final = "claude-code"
_LIVE_MS: Final = 30_000.0


@dataclass(frozen=True, kw_only=True)
class Story:
    """What the newcomer says to the agent, asks it in a later session, and corrects."""

    said: str
    asked: str
    value: str
    corrected: str


STORIES: Final[dict[Language, Story]] = {
    "en": Story(
        said="For the record: the ferry API listens on port 8443 in production.",
        asked="Which port does the ferry API listen on in production?",
        value="8443",
        corrected="The ferry API listens on port 9443 in production.",
    ),
    "fr": Story(
        said="Pour mémoire : l'API des bacs écoute sur le port 8443 en production.",
        asked="Sur quel port l'API des bacs écoute-t-elle en production ?",
        value="8443",
        corrected="L'API des bacs écoute sur le port 9443 en production.",
    ),
}


@dataclass(kw_only=True)
class Tour:
    """What a walk took.

    Attributes:
        clicks: how often the newcomer clicked.
        seconds: from the first page to the receipt, without reading and typing.
        shown: the steps in order, each with what the page is called.
    """

    clicks: int = 0
    seconds: float = 0.0
    shown: list[tuple[str, str]]


def walk(browser: Browser, language: Language, take: Callable[[str, Page], None] = lambda _name, _page: None) -> Tour:
    """Walk through the dashboard of a new home.

    Args:
        take: called at each step with its name.
    """
    story, say = STORIES[language], translations(language).gettext
    with throw_away_home() as home, daemon(home, **environ_of(), FILROUGE_EMBEDDING_MODEL="e5") as process:
        dashboard = Dashboard(home=home, url=status(home)["url"], filled=Filled(), process=process)
        with visitor(browser, dashboard, language=language) as reader:
            tour, begun, taking = Tour(shown=[]), time.monotonic(), 0.0
            page, watch = reader.open("/")

            def step(name: str) -> None:
                nonlocal taking
                tour.shown.append((name, page.locator("h1").inner_text()))
                before = time.monotonic()
                take(name, page)
                taking += time.monotonic() - before

            def click(target: Locator) -> None:
                target.first.click()
                tour.clicks += 1

            expect(page.get_by_text(say("Nothing is remembered yet"))).to_be_visible()
            step("empty")
            send_prompt(home, HOST, "first", story.said, str(Path(home).parent))
            memory = page.locator("main").get_by_text(story.value)
            expect(memory.first).to_be_visible(timeout=_LIVE_MS)
            step("captured")
            eventually("everything is understood", lambda: quiet(home))
            send_prompt(home, HOST, "second", story.asked, str(Path(home).parent))
            click(page.locator("nav").get_by_role("link", name=say("Injections")))
            expect(page.locator("main .message", has_text=story.asked[:40])).to_be_visible(timeout=_LIVE_MS)
            step("injections")
            click(page.locator("article", has_text=story.asked[:40]).get_by_role("link", name=say("Why")))
            expect(page.get_by_role("heading", level=1)).to_have_text(say("Why the agent was told this"))
            step("why")
            click(page.locator("table").get_by_role("link", name=story.value))
            expect(page.get_by_role("heading", level=1)).to_have_text(say("One memory"))
            click(page.get_by_role("link", name=say("Edit"), exact=True))
            page.get_by_role("textbox").first.fill(story.corrected)
            step("correct")
            click(page.get_by_role("button", name=say("Save"), exact=True))
            expect(page.locator("main").get_by_text(story.corrected).first).to_be_visible()
            step("corrected")
            click(page.get_by_role("link", name=say("Forget for good"), exact=True))
            expect(page.get_by_role("button", name=say("Erase this for good"))).to_be_visible()
            step("before-forgetting")
            click(page.get_by_role("button", name=say("Erase this for good")))
            expect(page.get_by_role("heading", level=1)).to_have_text(say("Receipt"))
            step("receipt")
            tour.seconds = time.monotonic() - begun - taking
            assert page.get_by_text(story.value).count() == 0
            assert page.get_by_text(story.corrected).count() == 0
            assert watch.troubles(page) == []
    return tour
