"""Many tabs of a real browser share one WebSocket, and the feed goes on when the one that holds it is closed."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import get_args

import pytest
import uvicorn
from fastapi.responses import HTMLResponse
from playwright.sync_api import BrowserContext, Page

from filrouge.core.clock import SystemClock
from filrouge.maintenance.consolidation import TYPE, MemoryProgress
from filrouge.runtime import repository, wiring
from filrouge.runtime.feed_messages import JobDead, LiveMessage
from filrouge.runtime.services import Parts
from filrouge.server.api import create_app
from filrouge.server.live import WEBSOCKET_SETTINGS, Sockets
from filrouge.server.routes import daemon

from ..support.browser import chromium

PATIENCE = 30
TABS = 12
#: What a page does with the feed, as the reference has it.
PAGE = """<!doctype html><title>A page of a test</title><script type="module">
import { live } from "/static/live.js";
const topics = new URLSearchParams(location.search).getAll("topic");
window.heard = [];
window.states = [];
window.feed = live(topics.length ? { topics } : {});
feed.addEventListener("message", (event) => heard.push(event.detail));
feed.addEventListener("state", (event) => states.push(event.detail));
</script>"""


class Site:
    """A daemon's application on a TCP port of this machine."""

    def __init__(self, parts: Parts, sockets: Sockets, url: str) -> None:
        self.parts, self.sockets, self.url = parts, sockets, url

    def progress(self, current: int) -> None:
        told = MemoryProgress(garden_id="g", session_id="s", current=current, total=99, phase="vectorizing")
        self.parts.bus.publish(told)


@contextmanager
def served(home: str, port: int = 0) -> Generator[Site]:
    running = wiring.start(home, environ={"FILROUGE_EMBEDDING_MODEL": "hashing"}, clock=SystemClock())
    app = create_app(running, lambda: None)
    app.add_api_route("/page", lambda: HTMLResponse(PAGE), include_in_schema=False)
    listener = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", **WEBSOCKET_SETTINGS))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Site(running.parts, app.state.sockets, f"http://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listener.close()
        running.stop()
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def context() -> Generator[BrowserContext]:
    with chromium() as browser:
        yield browser.new_context()


@pytest.fixture
def site(tmp_path: Path) -> Generator[Site]:
    with served(str(tmp_path)) as found:
        yield found


def sign_in(context: BrowserContext, site: Site) -> None:
    """Let the browser in, as `filrouge token login` does."""
    link, _ = site.parts.writer.run(lambda tx: repository.create_login_link(site.parts.clock, tx, "read"))
    page = context.new_page()
    page.goto(f"{site.url}/login/{link}")
    page.close()


def tab(context: BrowserContext, site: Site, query: str = "") -> Page:
    """A tab whose feed is open."""
    page = context.new_page()
    page.goto(f"{site.url}/page{query}")
    page.wait_for_function("window.feed && feed.state === 'open'", timeout=1000 * PATIENCE)
    return page


def heard(page: Page, number: int) -> list[int]:
    """Which messages of progress a tab has heard, once there are so many."""
    page.wait_for_function(f"heard.filter((one) => one.type === '{TYPE}').length >= {number}", timeout=1000 * PATIENCE)
    return page.evaluate(f"heard.filter((one) => one.type === '{TYPE}').map((one) => one.payload.current)")


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.02)


def closed(*pages: Page) -> None:
    for page in pages:
        page.close()


@pytest.mark.slow
def test_twelve_tabs_hold_one_socket_and_all_hear(context: BrowserContext, site: Site) -> None:
    sign_in(context, site)
    pages = [tab(context, site) for _ in range(TABS)]
    assert site.sockets.open == 1
    assert [page.evaluate("feed.leads") for page in pages].count(True) == 1
    site.progress(1)
    site.progress(2)
    assert [heard(page, 2) for page in pages] == [[1, 2]] * TABS
    closed(*pages)
    eventually(lambda: site.sockets.open == 0)


def test_when_the_tab_with_the_socket_is_closed_another_goes_on_with_what_all_want(
    context: BrowserContext, site: Site
) -> None:
    sign_in(context, site)
    first, *others = [tab(context, site, "?topic=progress"), tab(context, site, "?topic=progress"), tab(context, site)]
    assert first.evaluate("feed.leads")
    site.progress(1)
    assert [heard(page, 1) for page in (first, *others)] == [[1]] * 3
    first.close()
    for page in others:
        page.wait_for_function("heard.filter((one) => one.type === 'ws:hello').length >= 1", timeout=1000 * PATIENCE)
    eventually(lambda: [page.evaluate("feed.leads && feed.state === 'open'") for page in others].count(True) == 1)
    assert site.sockets.open == 1
    third = others[1]
    eventually(lambda: _hears_of_jobs(site, third))
    site.progress(2)
    assert [heard(page, 2) for page in others] == [[1, 2]] * 2
    assert others[0].evaluate("heard.some((one) => one.type === 'ws:job_dead')") is False
    closed(*others)


def _hears_of_jobs(site: Site, page: Page) -> bool:
    """What the tabs want reaches the new socket a moment after it is open."""
    site.parts.bus.publish(JobDead(id="j", kind="brief", attempts=8))
    return page.evaluate("heard.some((one) => one.type === 'ws:job_dead')")


def test_a_daemon_that_comes_back_is_found_again(context: BrowserContext, tmp_path: Path) -> None:
    with served(str(tmp_path)) as before:
        sign_in(context, before)
        pages = [tab(context, before), tab(context, before)]
        port = int(before.url.rsplit(":", 1)[1])
    for page in pages:
        page.wait_for_function("states.includes('waiting')", timeout=1000 * PATIENCE)
    with served(str(tmp_path), port) as after:
        for page in pages:
            page.wait_for_function("feed.state === 'open'", timeout=1000 * PATIENCE)
        assert after.sockets.open == 1
        after.progress(7)
        assert [heard(page, 1) for page in pages] == [[7]] * 2
        pages[0].evaluate("feed.close()")
        assert pages[0].evaluate("feed.state") == "closed"
        pages[1].wait_for_function("feed.leads && feed.state === 'open'", timeout=1000 * PATIENCE)
        closed(*pages)


def test_the_module_is_served_as_a_script_and_nothing_else_is_served_there(context: BrowserContext, site: Site) -> None:
    own = {"Sec-Fetch-Site": "same-origin"}  # what a page of ours is
    sign_in(context, site)
    answer = context.request.get(f"{site.url}/static/live.js", headers=own)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert answer.headers["x-content-type-options"] == "nosniff"
    for name in ("live.py", "..%2f__init__.py", "%2e%2e/api.py", "../../pyproject.toml", "live.js%00", "."):
        assert context.request.get(f"{site.url}/static/{name}", headers=own).status in (400, 404), name


def test_the_module_knows_the_topic_of_every_message() -> None:
    script = (Path(daemon.__file__).parents[2] / "web/static/live.js").read_text(encoding="utf-8")
    written = dict(re.findall(r'^  "(ws:\w+)": "(\w+)",$', script, re.MULTILINE))
    assert written == {one.type: one.topic for one in get_args(LiveMessage)} | {TYPE: MemoryProgress.topic}
