"""Visits of the dashboard with a real browser: signed in, and with an eye on all that a page does.

`served` fills a home and starts its daemon. `Visitor` is a signed-in browser with a language and a colour scheme;
`Visitor.open` opens a page and returns it with its `Watch`: what it printed as an error, violations of its security
policy, requests to anybody else, and how many bytes it took. `PAGES` are the paths of all screens and of all pages that
the dashboard's routers serve; `addresses` finds an address for each by following links.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from typing import Any, Final, Literal

import httpx
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Error, Page, Request, Response
from starlette.routing import compile_path

from filrouge.core.paths import socket_path
from filrouge.daemon import client
from filrouge.web.rendering import ROOT
from filrouge.web.screens import ROUTERS, SCREENS
from tests.reliability.processes import EXECUTABLE, Forked, daemon, eventually, quiet, status, throw_away_home
from tests.security.wire import free_port

from .dashboard_store import Filled, Said, fill

PATIENCE: Final = 15_000.0
SETTLE_SECONDS: Final = 900.0
Scheme = Literal["light", "dark"]
#: Runs before every page's own scripts.
_NOTE_VIOLATIONS: Final = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) =>
  violations.push([event.violatedDirective, event.blockedURI, event.sample, event.sourceFile].join(" ")),
  true);
"""
_PREPARED: Final = """() => performance.getEntriesByName("filrouge:prepared").length > 0
  && !document.querySelector("[data-module]:not([data-started])")"""
_LINK: Final = re.compile(r'href="(/dashboard[^"#]*)')


def _pages() -> list[str]:
    """The paths of every screen, and of every page that is served; parameters in braces."""
    paths = [ROOT + screen.path for group in SCREENS for screen in group]
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.response_class is HTMLResponse and "GET" in (route.methods or ()):
                paths.append(route.path)
    return list(dict.fromkeys(paths))


SCREEN_PATHS: Final = tuple(ROOT + screen.path for group in SCREENS for screen in group)
PAGES: Final[Sequence[str]] = _pages()


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """A filled home whose daemon serves the dashboard."""

    home: str
    url: str
    filled: Filled
    process: Forked

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the API's answer over the socket."""
        reply = client.request(self.home, method, path, body, 30.0)
        assert reply.status < 400, (reply.status, reply.value)
        return reply.value


@contextmanager
def served(memories: int = 300, *, said: Sequence[Said] = (), of_a_session: int = 20) -> Generator[Dashboard]:
    """Serve a home with so many memories; `dashboard_store.fill` says what the arguments are."""
    with throw_away_home() as home:
        filled = fill(home, memories, said=said, of_a_session=of_a_session)
        with daemon(home, **environ_of()) as process:
            eventually("the daemon has nothing to do", lambda: quiet(home), SETTLE_SECONDS)
            found = Dashboard(home=home, url=status(home)["url"], filled=filled, process=process)
            leave_a_receipt(found)
            eventually("the daemon has nothing to do", lambda: quiet(home), SETTLE_SECONDS)
            yield found


def environ_of() -> dict[str, str]:
    """The environment of a daemon that listens on a free port; its garden would change what a test looks at."""
    return {"FILROUGE_PORT": str(free_port()), "FILROUGE_GARDEN_IDLE_MINUTES": "0"}


def leave_a_receipt(dashboard: Dashboard) -> None:
    """Have something remembered, and forget it."""
    told: dict[str, Any] = {"text": "The old launch code was Rosebud.", "project": []}
    [action] = dashboard.ask("POST", "/api/memory/memories", told)["actions"]
    dashboard.ask("POST", "/api/memory/forget", {"id": action["id"], "at_once": True})


def run_hook(home: str, host: str, payload: str) -> None:
    """Run the hook with a payload as an agent does."""
    environ = {**os.environ, "HOME": home, "FILROUGE_HOME": home}
    subprocess.run(
        [EXECUTABLE, "hook", "--host", host],
        input=payload.encode(),
        env=environ,
        check=True,
        timeout=60,
        stdout=subprocess.DEVNULL,
    )


def send_prompt(home: str, host: str, session: str, prompt: str, folder: str) -> None:
    """Send a prompt of an agent's session in a folder through its hook."""
    payload = {
        "session_id": session, "prompt_id": session, "turn_id": session, "transcript_path": None, "cwd": folder,
        "permission_mode": "default", "model": "demo", "hook_event_name": "UserPromptSubmit", "prompt": prompt,
    }  # fmt: skip
    run_hook(home, host, json.dumps(payload))


def socket_client(dashboard: Dashboard) -> httpx.Client:
    """Return a client of the daemon's socket: it has all rights, and gets the same pages."""
    transport = httpx.HTTPTransport(uds=socket_path(dashboard.home))
    return httpx.Client(transport=transport, base_url="http://filrouge", timeout=30.0)


@dataclass(kw_only=True)
class Watch:
    """What a page did that is seen from outside."""

    origin: str
    errors: list[str] = field(default_factory=list[str])
    foreign: list[str] = field(default_factory=list[str])
    dialogs: list[str] = field(default_factory=list[str])
    responses: list[Response] = field(default_factory=list[Response])

    def follow(self, page: Page) -> None:
        """Listen to a page."""
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.errors.append(f"page error: {error}"))
        page.on("request", self._ask)
        page.on("response", lambda response: self.responses.append(response))
        page.on("dialog", self._dismiss)

    def troubles(self, page: Page) -> list[str]:
        """Everything that should not have happened."""
        blocked: list[str] = page.evaluate("window.violations ?? []")
        return [*self.errors, *(f"policy: {one}" for one in blocked), *(f"foreign: {one}" for one in self.foreign)]

    def size(self) -> int:
        """The bytes of everything that was loaded, uncompressed."""
        return sum(_length(one) for one in self.responses)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"console: {message.text} ({message.location.get('url', '')})")

    def _dismiss(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _ask(self, request: Request) -> None:
        if not request.url.startswith((self.origin + "/", "data:", self.origin.replace("http", "ws", 1) + "/")):
            self.foreign.append(request.url)


def _length(response: Response) -> int:
    try:
        return len(response.body())
    except Error:  # a redirect has no body
        return 0


@dataclass(kw_only=True)
class Visitor:
    """A browser that is signed in."""

    dashboard: Dashboard
    context: BrowserContext
    scripts: bool = True

    def open(self, path: str) -> tuple[Page, Watch]:
        """Open a page in a tab, and wait until its scripts are there."""
        page, watch = self.context.new_page(), Watch(origin=self.dashboard.url)
        watch.follow(page)
        answer = page.goto(self.dashboard.url + path)
        assert answer is not None
        assert answer.status == 200, f"{path}: {answer.status}"
        self.wait(page)
        return page, watch

    def wait(self, page: Page) -> None:
        """Wait until the scripts of a page have done their part."""
        if self.scripts:
            page.wait_for_function(_PREPARED, timeout=PATIENCE)


@contextmanager
def visitor(
    browser: Browser, dashboard: Dashboard, *, language: str = "en", scheme: Scheme = "light", scripts: bool = True
) -> Generator[Visitor]:
    """A browser that is signed in."""
    context = browser.new_context(
        locale=language, color_scheme=scheme, java_script_enabled=scripts, viewport={"width": 1280, "height": 900}
    )
    context.set_default_timeout(PATIENCE)
    context.add_init_script(_NOTE_VIOLATIONS)
    try:
        sign_in(context, dashboard)
        yield Visitor(dashboard=dashboard, context=context, scripts=scripts)
    finally:
        context.close()


def sign_in(context: BrowserContext, dashboard: Dashboard) -> None:
    """Use a login link."""
    link = dashboard.ask("POST", "/api/tokens/login-links", {"scope": "admin"})["url"]
    page = context.new_page()
    page.goto(link)
    page.close()


def addresses(dashboard: Dashboard) -> dict[str, str]:
    """Return an address for each of `PAGES` that there is: a screen's path, else the first link that leads there."""
    patterns = {path: compile_path(path)[0] for path in PAGES}
    found = {path: path for path in SCREEN_PATHS}
    waiting = deque(found.values())
    with socket_client(dashboard) as http:
        while waiting:
            for link in map(unescape, _LINK.findall(http.get(waiting.popleft()).text)):
                matching = [path for path, pattern in patterns.items() if pattern.match(link.partition("?")[0])]
                # A path without parameters is meant before one whose parameter would match it.
                path = min(matching, key=lambda one: one.count("{"), default="")
                if path and path not in found:
                    found[path] = link
                    waiting.append(link)
    return found


def items(page: Page) -> tuple[str, list[str]]:
    """Return the heading of a page and the ids of its items."""
    ids = page.locator("main [data-item]").evaluate_all("(all) => all.map((one) => one.id)")
    return page.locator("h1").inner_text(), ids
