"""The dashboard with a hundred thousand memories, in every language and colour scheme, and with everything against it.

FILROUGE_DASHBOARD_FIGURES names a file for what was measured, from which `bench/dashboard.py` makes a page;
FILROUGE_DASHBOARD_MEMORIES changes how many memories there are. The limits of time hold on a machine that does nothing
else.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import random
import re
import statistics
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, get_args

import apsw
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, expect

from filrouge.capture.events import Event
from filrouge.core import paths
from filrouge.core.clock import Language, new_id
from filrouge.daemon import client
from filrouge.web.rendering import ROOT
from tests.reliability.processes import daemon, eventually, is_up, quiet, rests, status, throw_away_home
from tests.security.wire import free_port
from tests.support import axe
from tests.support.browser import chromium
from tests.support.dashboard import (
    PAGES,
    SCREEN_PATHS,
    SETTLE_SECONDS,
    Dashboard,
    Scheme,
    addresses,
    environ_of,
    served,
    socket_client,
    visitor,
)
from tests.support.dashboard_store import Filled, Said, fill
from tests.support.stored_scripts import STORED_SCRIPTS
from tests.support.tiers import examples

pytestmark = pytest.mark.proof

MEMORIES: Final = int(os.environ.get("FILROUGE_DASHBOARD_MEMORIES", "100000"))
FIRST_PAINT_MS, INTERACTIVE_MS, MOST_BYTES = 500.0, 1500.0, 600_000
TIMES, TABS = 3, 12
#: How long a page is looked at before the next one is opened.
READING_SECONDS: Final = 0.5
LIVE_MS: Final = 30_000.0
COMPLETE_MS: Final = 60_000.0
MEMORY: Final = f"{ROOT}/memory"
_OPEN: Final = "() => document.querySelector('#live-state').dataset.state === 'open'"
#: Sets the browser's clock off by so many milliseconds.
_OFF: Final = """{
  const RealDate = Date;
  window.Date = class extends RealDate {
    constructor(...given) { super(...(given.length ? given : [RealDate.now() + %(by)s])); }
    static now() { return RealDate.now() + %(by)s; }
  };
}"""
#: A page fetches what takes longer after it was painted.
_COMPLETE: Final = "() => !document.querySelector('[hx-trigger^=load]')"
_TIMES: Final = """() => ({
  first_paint_ms: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Infinity,
  interactive_ms: Math.max(
    performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd,
    performance.getEntriesByName("filrouge:prepared")[0].startTime),
})"""


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def large() -> Generator[Dashboard]:
    with served(MEMORIES) as found:
        # None is due then while pages are measured: 600 MB would take both processors for a while.
        client.request(found.home, "POST", "/api/memory/backups", None, SETTLE_SECONDS)
        eventually("the daemon rests", lambda: rests(found.process.pid), SETTLE_SECONDS)
        yield found


@pytest.fixture(scope="module")
def links(large: Dashboard) -> dict[str, str]:
    return addresses(large)


@pytest.fixture(scope="module")
def figures() -> Generator[list[dict[str, Any]]]:
    """What was measured; written where the environment says."""
    measured: list[dict[str, Any]] = []
    yield measured
    if path := os.environ.get("FILROUGE_DASHBOARD_FIGURES"):
        machine = {"processors": os.cpu_count(), "machine": platform.machine(), "load": os.getloadavg()[1]}
        told = {"memories": MEMORIES, **machine, "pages": measured}
        Path(path).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


# ------------------------------------------------------------------------------------------------ every page


@pytest.mark.parametrize("scheme", get_args(Scheme))
@pytest.mark.parametrize("language", get_args(Language))
def test_every_page_is_there_at_once_light_and_open_to_all(
    browser: Browser,
    large: Dashboard,
    links: dict[str, str],
    figures: list[dict[str, Any]],
    language: Language,
    scheme: Scheme,
) -> None:
    wrong: list[str] = [f"no page links to {path}" for path in PAGES if path not in links]
    with visitor(browser, large, language=language, scheme=scheme) as reader:
        for path, address in links.items():
            times, size = list[dict[str, float]](), 0
            for attempt in range(TIMES):
                page, watch = reader.open(address)
                with page:
                    page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length")
                    times.append(page.evaluate(_TIMES))
                    page.wait_for_function(_COMPLETE, timeout=COMPLETE_MS)
                    times[-1]["complete_ms"] = page.evaluate("performance.now()")
                    if attempt == 0:
                        size = watch.size()
                        found = [*watch.troubles(page), *axe.violations(page)]
                        if page.locator("html").get_attribute("lang") != language:
                            found.append("is in another language")
                        wrong += [f"{path}: {one}" for one in found]
                    time.sleep(READING_SECONDS)
            row = {name: round(statistics.median(one[name] for one in times), 1) for name in times[0]}
            figures.append({"path": path, "language": language, "scheme": scheme, "bytes": size, **row})
            wrong += [
                f"{path}: {name} is {row[name]}"
                for name, limit in (("first_paint_ms", FIRST_PAINT_MS), ("interactive_ms", INTERACTIVE_MS))
                if row[name] > limit
            ]
            wrong += [f"{path}: {size:,} bytes"] if size > MOST_BYTES else []
    assert not wrong, "\n".join(wrong)


# ------------------------------------------------------------------------------------------------ live


def test_twelve_tabs_are_live_at_once(browser: Browser, large: Dashboard) -> None:
    said = f"The harbour master answers on channel {random.randrange(10**6)}."
    with visitor(browser, large) as reader, ExitStack() as tabs:
        screens = [MEMORY, *(path for path in SCREEN_PATHS if path != MEMORY)][:TABS]
        pages = [tabs.enter_context(reader.open(path)[0]) for path in screens]
        for page in pages:
            page.wait_for_function(_OPEN, timeout=LIVE_MS)
            page.evaluate(
                "window.heard = []; document.addEventListener('filrouge:message', (e) => heard.push(e.detail.type))"
            )
        large.ask("POST", "/api/memory/memories", {"text": said, "project": []})
        for page in pages:
            page.wait_for_function("() => heard.includes('ws:memory_decided')", timeout=LIVE_MS)
        expect(pages[0].get_by_text(said).first).to_be_visible()


def test_a_page_that_stays_open_finds_the_daemon_again(browser: Browser) -> None:
    with throw_away_home() as home:
        filled = fill(home, 60)
        environ = environ_of()
        with ExitStack() as stack:
            with daemon(home, **environ) as process:
                before = Dashboard(home=home, url=status(home)["url"], filled=filled, process=process)
                reader = stack.enter_context(visitor(browser, before))
                page, watch = reader.open(MEMORY)
                page.wait_for_function(_OPEN, timeout=LIVE_MS)
            page.wait_for_function(
                "() => document.querySelector('#live-state').dataset.state !== 'open'", timeout=LIVE_MS
            )
            with daemon(home, **environ):
                eventually("the daemon answers", lambda: is_up(home))
                page.wait_for_function(_OPEN, timeout=LIVE_MS)
                said = "The lighthouse is painted every spring."
                before.ask("POST", "/api/memory/memories", {"text": said, "project": []})
                expect(page.get_by_text(said).first).to_be_visible()
                page.get_by_role("link", name="Threads").first.click()
                expect(page.get_by_role("heading", level=1)).to_have_text("Threads")
                assert page.evaluate("violations") == []
                assert watch.foreign == []
                page.close()


# ------------------------------------------------------------------------------------------------ hostile words


def test_no_stored_script_runs_wherever_it_is_shown(browser: Browser) -> None:
    said = [Said(project=text, kind="fact", everywhere=False, text=text) for text in STORED_SCRIPTS]
    with served(len(said), said=said, of_a_session=1) as hostile, visitor(browser, hostile) as reader:
        reader.context.add_init_script("window.ran = 0; window.pwned = () => { window.ran += 1; return 1 }")
        shown = [
            *(f"{ROOT}/memories/{id_}" for id_ in hostile.filled.memories),
            *(f"{ROOT}/threads/{id_}" for id_ in hostile.filled.threads),
            *(f"{ROOT}/injections/{id_}" for (id_,) in rows(hostile, "SELECT id FROM memory_retrievals")),
            *(str(httpx.URL(f"{ROOT}/memory/search", params={"q": text})) for text in STORED_SCRIPTS),
            *addresses(hostile).values(),
            *every_page_of_the_list(hostile),
        ]
        page, watch = reader.open(MEMORY)
        with page:
            for address in shown:
                page.goto(hostile.url + address)
                reader.wait(page)
                assert page.evaluate("ran") == 0, address
                assert (watch.dialogs, watch.troubles(page)) == ([], []), address
            # The scripts' own way from page to page makes HTML in another way than the browser does.
            for path in SCREEN_PATHS:
                page.locator(f'nav a[href="{path}"]').first.click()
                expect(page.locator(f'nav a[href="{path}"]').first).to_have_attribute("aria-current", "page")
                assert (page.evaluate("ran"), watch.dialogs, watch.troubles(page)) == (0, [], []), path
        with socket_client(hostile) as http:
            texts = [
                http.get(f"{ROOT}/memories/{id_}.json").json()["memory"]["text"] for id_ in hostile.filled.memories
            ]
        assert sorted(texts) == sorted(STORED_SCRIPTS)


def test_a_memory_of_fifty_kilobytes_breaks_no_page(browser: Browser) -> None:
    long = [
        Said(project="long", kind="fact", everywhere=False, text="a word and another, " * 2_500),
        Said(project="long", kind="decision", everywhere=False, text="x" * 50_000),
        Said(project="long", kind="rule", everywhere=False, text="short enough"),
    ]
    with served(9, said=long, of_a_session=3) as dashboard, visitor(browser, dashboard) as reader:
        for path, address in addresses(dashboard).items():
            page, watch = reader.open(address)
            with page:
                wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
                assert (wide, watch.troubles(page)) == (False, []), path
                assert watch.size() <= MOST_BYTES, path


# ------------------------------------------------------------------------------------------------ what goes wrong


def test_pages_work_and_say_so_when_neither_the_model_nor_the_embedder_answers(browser: Browser) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    down = {
        "FILROUGE_EXTRACT_PROVIDER": "ollama",
        "FILROUGE_EMBEDDING_MODEL": "ollama:nomic-embed-text",
        "FILROUGE_EMBEDDING_URL": nobody,
        "OLLAMA_URL": nobody,
    }
    said = "The ferry leaves from pier 14."
    with throw_away_home() as home, daemon(home, **environ_of(), **down) as process:
        dashboard = Dashboard(home=home, url=status(home)["url"], filled=Filled(), process=process)
        dashboard.ask("POST", "/api/memory/memories", {"text": said, "project": []})
        with visitor(browser, dashboard) as reader:
            for path in SCREEN_PATHS:
                page, watch = reader.open(path)
                with page:
                    assert watch.troubles(page) == [], path
            page, _ = reader.open(str(httpx.URL(f"{ROOT}/memory/search", params={"q": "pier"})))
            with page:
                expect(page.get_by_text(said).first).to_be_visible()
                expect(page.locator("main .notice").first).to_be_visible()
            page, _ = reader.open(f"{ROOT}/settings/connections")
            with page:
                expect(page.get_by_text("does not answer")).to_be_visible()
                expect(page.get_by_text("not available", exact=True)).to_be_visible()


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_is_a_day_off_breaks_no_page(browser: Browser, days: int) -> None:
    """What an agent's machine said a day off by its clock is stored, and the browser's clock is a day off, too."""
    with served(30) as dashboard, visitor(browser, dashboard) as reader:
        at = time.time() + days * 86_400
        text = "For the record: the night ferry listens on port 8443."
        prompt = Event(
            new_id(datetime.fromtimestamp(at, UTC)),
            "claude-code",
            "prompt",
            "off",
            at,
            f"prompt:{days}",
            "",
            (),
            "",
            "",
            {"text": text},
        )
        dashboard.ask("POST", "/hooks/events", {"events": [prompt.to_json()]})
        eventually("everything is understood", lambda: quiet(dashboard.home))
        reader.context.add_init_script(_OFF % {"by": days * 86_400_000})
        for path, address in addresses(dashboard).items():
            page, watch = reader.open(address)
            with page:
                assert watch.troubles(page) == [], path
        page, _ = reader.open(MEMORY)
        with page:
            expect(page.get_by_text("port 8443").first).to_be_visible()
            dashboard.ask("POST", "/api/memory/memories", {"text": "It is seen at once.", "project": []})
            expect(page.get_by_text("It is seen at once.").first).to_be_visible()


# ------------------------------------------------------------------------------------------------ totals


@pytest.fixture(scope="module")
def changing() -> Generator[Dashboard]:
    with served(200) as found:
        yield found


@settings(max_examples=examples(10))
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 10**6)), min_size=1, max_size=12))
def test_pages_count_what_the_api_and_the_database_count(changing: Dashboard, changes: list[tuple[int, int]]) -> None:
    with socket_client(changing) as http:
        for kind, number in changes:
            ids = live_in_the_database(changing)
            if ids:
                CHANGES[kind](http, ids[number % len(ids)])
            else:
                add(http, "")
        eventually("what was changed is worked through", lambda: quiet(changing.home))
        in_database = live_in_the_database(changing)
        on_pages = shown_ids(http, every_page_of_the_list(changing))
        assert sorted(on_pages) == sorted(live_by_the_api(changing)) == sorted(in_database)
        told, page = changing.ask("GET", "/daemon/status"), http.get(f"{ROOT}/live").text
        waiting = count(changing, "SELECT count(*) FROM reviews WHERE outcome = 'open'")
        assert told["to_review"] == waiting
        assert (f'<span class="count">{waiting}<' in page) is (waiting > 0)
        assert told["superseded"] == count(changing, "SELECT count(*) FROM memories WHERE state = 'superseded'")
        assert told["memories"] + told["rules"] == len(in_database)


def send(http: httpx.Client, path: str, **fields: str) -> None:
    """Send a form as a browser does; what cannot be done is refused in words."""
    answer = http.post(f"{ROOT}{path}", data=fields)
    assert answer.status_code == 303 or 400 <= answer.status_code < 500, (path, answer.text)


def add(http: httpx.Client, id_: str) -> None:
    send(http, "/memories", text=f"The ledger closes on day {next(_NUMBERS)}.")


def edit(http: httpx.Client, id_: str) -> None:
    send(http, f"/memories/{id_}/edit", text=f"The kiosk opens at {next(_NUMBERS)}.")


def pin(http: httpx.Client, id_: str) -> None:
    send(http, f"/memories/{id_}/pin")


def put_into_the_bin(http: httpx.Client, id_: str) -> None:
    send(http, f"/memories/{id_}/bin")


def put_into_the_bin_and_restore(http: httpx.Client, id_: str) -> None:
    put_into_the_bin(http, id_)
    send(http, f"/memories/{id_}/restore")


def undo(http: httpx.Client, id_: str) -> None:
    send(http, "/memories/undo", memory_id=id_)


def settle(http: httpx.Client, id_: str) -> None:
    """Settle the newest review."""
    waiting = http.get("/api/memory/review").json()
    if waiting:
        how = "both" if waiting[0]["kind"] == "conflict" else "accept"
        answer = http.post(f"/api/memory/review/{waiting[0]['id']}", json={"settle": how})
        assert answer.status_code == 200, answer.text


def forget(http: httpx.Client, id_: str) -> None:
    answer = http.post("/api/memory/forget", json={"id": id_, "at_once": True})
    assert answer.status_code == 200, answer.text


CHANGES: Final[tuple[Callable[[httpx.Client, str], None], ...]] = (
    add, edit, pin, put_into_the_bin, put_into_the_bin_and_restore, undo, settle, forget,
)  # fmt: skip
_NUMBERS: Final = itertools.count()
_ARTICLE: Final = re.compile(r'<article [^>]*id="m-([^"]+)"')


def live_in_the_database(dashboard: Dashboard) -> list[str]:
    """What is current, without the summaries of sessions, which repeat it."""
    told = "SELECT id FROM memories WHERE state = 'live' AND kind NOT IN ('episode', 'concept') ORDER BY id"
    return [str(row[0]) for row in rows(dashboard, told)]


def live_by_the_api(dashboard: Dashboard) -> list[str]:
    found: list[str] = []
    with socket_client(dashboard) as http:
        address = "/api/memory/memories?limit=50"
        while address:
            answer = http.get(address)
            found += [row["id"] for row in answer.json()]
            address = answer.links.get("next", {}).get("url", "")
    return found


def every_page_of_the_list(dashboard: Dashboard) -> list[str]:
    """The addresses of all pages of the list of memories."""
    found, address = list[str](), MEMORY
    with socket_client(dashboard) as http:
        while address:
            found.append(address)
            cursor = http.get(address.replace(MEMORY, f"{MEMORY}.json")).json()["next"]
            address = str(httpx.URL(MEMORY, params={"cursor": cursor})) if cursor else ""
    return found


def shown_ids(http: httpx.Client, pages: list[str]) -> list[str]:
    return [id_ for page in pages for id_ in _ARTICLE.findall(http.get(page).text)]


def count(dashboard: Dashboard, sql: str) -> int:
    return int(rows(dashboard, sql)[0][0])


def rows(dashboard: Dashboard, sql: str) -> list[tuple[Any, ...]]:
    """What the database says, read beside the daemon."""
    database = apsw.Connection(paths.inside(dashboard.home, paths.DATABASE), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(database.execute(sql))  # pyright: ignore[reportUnknownMemberType] (its stub lacks a type)
    finally:
        database.close()
