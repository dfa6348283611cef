"""Pictures of every page of the dashboard, light and dark, for the documentation: `make screenshots`.

The memory that they show is made the way a user's is: conversations of `bench/data/talk`, in English and French, are
delivered as the hooks deliver them, at times spread over half a year; then the demo's sessions are played today through
the real hooks, and its questions asked. A colleague shares with it through a real hub. Nothing is written into the
database by hand. The pictures have a palette, so that they stay small.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast, get_args

from PIL import Image
from playwright.sync_api import Page

from filrouge.capture.events import Event, EventKind
from filrouge.core.clock import Language, new_id
from filrouge.search.models import START_PREVIEW
from filrouge.web.rendering import ROOT as DASHBOARD
from filrouge.web.rendering import address
from tests.reliability.processes import daemon, eventually, quiet, status, throw_away_home

from .browser import chromium
from .dashboard import PAGES, Dashboard, Scheme, addresses, environ_of, run_hook, send_prompt, visitor
from .dashboard_store import Filled
from .dashboard_team import HARBOUR, Colleague, colleague, work_in
from .dashboard_tour import STORIES, walk

ROOT: Final = Path(__file__).parents[2]
TARGET: Final = ROOT / "docs" / "images" / "dashboard"
MOST_BYTES: Final = 150_000
_TALK: Final = ROOT / "bench" / "data" / "talk" / "train"
_SESSIONS: Final = ROOT / "examples" / "sessions"
_CONVERSATIONS: Final = ("a-en-03", "b-en-06", "c-fr-05")
_PROBES: Final = 6
_COLOURS, _EXACT_COLOURS = 256, 96
_SETTLE_SECONDS: Final = 900.0
_BETWEEN_SESSIONS: Final = timedelta(days=31)


def main() -> int:
    """Make the pictures; 1 if one is too large or a page could not be shown."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with (
        colleague() as ben,
        throw_away_home() as home,
        daemon(home, **environ_of(), FILROUGE_EMBEDDING_MODEL="e5") as process,
    ):
        dashboard = Dashboard(home=home, url=status(home)["url"], filled=Filled(), process=process)
        live_through_half_a_year(dashboard)
        play_the_demo(home)
        eventually("everything is understood", lambda: quiet(home), _SETTLE_SECONDS)
        decide(dashboard)
        share_with_a_team(dashboard, ben)
        eventually("everything is understood", lambda: quiet(home), _SETTLE_SECONDS)
        return max(take_pictures(dashboard), picture_the_tour())


def picture_the_tour() -> int:
    """Write a picture of each step of a newcomer's tour, in both languages."""
    sizes = list[int]()
    with chromium() as browser:
        for language in STORIES:

            def take(name: str, page: Page, language: Language = language) -> None:
                page.wait_for_timeout(700)
                sizes.append(write_picture(page, TARGET / f"tour-{language}-{name}.png"))

            tour = walk(browser, language, take)
            print(f"the tour in {language}: {tour.clicks} clicks, {tour.seconds:.0f} s")
    return int(max(sizes) > MOST_BYTES)


def take_pictures(dashboard: Dashboard) -> int:
    """Write a picture of every page in both schemes."""
    links, failed = addresses(dashboard) | telling_addresses(dashboard), 0
    with chromium() as browser:
        for scheme in get_args(Scheme):
            with visitor(browser, dashboard, scheme=scheme) as reader:
                for path, address in links.items():
                    page, _ = reader.open(address)
                    with page:
                        page.wait_for_timeout(700)  # graphs come to rest, charts are drawn
                        name = f"{name_of(path)}-{scheme}.png"
                        size = write_picture(page, TARGET / name)
                    failed += size > MOST_BYTES
                    print(f"{size:>8,} {name}")
    missing = [path for path in PAGES if path not in links]
    print(*(f"no page links to {path}" for path in missing), sep="\n")
    return 1 if failed or missing else 0


def telling_addresses(dashboard: Dashboard) -> dict[str, str]:
    """Return addresses of the pages of which there are many: the one that has most to tell."""
    memories = dashboard.ask("GET", "/api/memory/memories?limit=200")
    changed = next(row["id"] for row in memories if row["previous_text"])
    thread = max(dashboard.ask("GET", "/api/memory/threads?limit=200"), key=lambda row: row["messages"])
    recalls = dashboard.ask("GET", "/api/memory/retrievals?limit=200")
    of_prompts = [row for row in recalls if row["user_message_preview"] != START_PREVIEW]
    recall = max(
        of_prompts,
        key=lambda row: max((item.get("relevance") or 0 for item in row["items"] if item["injected"]), default=0),
    )
    return {
        f"{DASHBOARD}/memories/{{memory_id}}": f"{DASHBOARD}/memories/{changed}",
        f"{DASHBOARD}/threads/{{thread_id}}": f"{DASHBOARD}/threads/{thread['id']}",
        f"{DASHBOARD}/injections/{{recall_id}}": f"{DASHBOARD}/injections/{recall['id']}",
        f"{DASHBOARD}/memory/search": address(f"{DASHBOARD}/memory/search", {"q": "staging port"}),
        f"{DASHBOARD}/preview": address(f"{DASHBOARD}/preview", {"prompt": "Which port does the staging API use?"}),
    }


def write_picture(page: Page, path: Path) -> int:
    """Write what is seen of a page as a PNG with a palette; return its size."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(palette=palette_of(picture), dither=Image.Dither.NONE).save(path, optimize=True)
    return path.stat().st_size


def palette_of(picture: Image.Image) -> Image.Image:
    """Return a palette: the colours that most pixels have as they are, and others as far apart as they go."""
    counted = cast("list[tuple[int, tuple[int, int, int]]]", picture.getcolors(picture.width * picture.height))
    most = [colour for _, colour in sorted(counted, reverse=True)[:_EXACT_COLOURS]]
    spread = picture.quantize(_COLOURS - len(most), Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).getpalette()
    found = Image.new("P", (1, 1))
    found.putpalette([*chain.from_iterable(most), *(spread or [])])
    return found


def name_of(path: str) -> str:
    """Return the name of a page's pictures: `memory`, `threads-one`."""
    words = path.split("/")[2:] or ["today"]
    return "-".join("one" if word.startswith("{") else word for word in words)


def live_through_half_a_year(dashboard: Dashboard) -> None:
    """Deliver the conversations, oldest first, and ask what their people ask later."""
    told = [json.loads((_TALK / f"{name}.json").read_text(encoding="utf-8")) for name in _CONVERSATIONS]
    for one in told:
        for event in events_of(one):
            dashboard.ask("POST", "/hooks/events", {"events": [event.to_json()]})
    eventually("everything is understood", lambda: quiet(dashboard.home), _SETTLE_SECONDS)
    for one in told:
        for probe in [probe for probe in one["probes"] if probe["expect"]][:_PROBES]:
            asked = {"prompt": probe["prompt"], "channel": "claude-code", "session_id": f"{one['id']}-today"}
            dashboard.ask("POST", "/memory/context", asked | {"project": [f"name:{one['project']['name']}"]})


def events_of(told: dict[str, Any]) -> Iterator[Event]:
    """The prompts and replies of a conversation, the last session of yesterday."""
    sessions = told["sessions"]
    for place, session in enumerate(sessions):
        at = datetime.now(UTC) - timedelta(days=1) - _BETWEEN_SESSIONS * (len(sessions) - 1 - place)
        for turn in session["turns"]:
            at += timedelta(minutes=7)
            yield event(told, session, "prompt", turn["user"], at)
            yield event(told, session, "reply", turn["assistant"], at + timedelta(minutes=1))


def event(told: dict[str, Any], session: dict[str, Any], kind: EventKind, text: str, at: datetime) -> Event:
    """One event as a hook delivers it."""
    id_, name = new_id(at), f"{told['id']}-{session['id']}"
    project = (f"name:{told['project']['name']}",)
    return Event(id_, session["host"], kind, name, at.timestamp(), f"{kind}:{id_}", "", project, "", "", {"text": text})


def play_the_demo(home: str) -> None:
    """Play the demo's sessions, and ask its questions, through the real hooks."""
    script = json.loads((_SESSIONS / "demo.json").read_text(encoding="utf-8"))
    for session in script["sessions"]:
        for line in (_SESSIONS / session["file"]).read_text(encoding="utf-8").splitlines():
            run_hook(home, session["host"], line)
    eventually("everything is understood", lambda: quiet(home), _SETTLE_SECONDS)
    for number, question in enumerate(script["questions"]):
        send_prompt(home, question["host"], f"question-{number}", question["prompt"], question["cwd"])


def decide(dashboard: Dashboard) -> None:
    """Do by hand what a person does: pin what an agent then contradicts, put one into the bin, forget one."""
    memories = dashboard.ask("GET", "/api/memory/memories?limit=200")
    pinned = next(row for row in memories if "7412" in row["text"])
    dashboard.ask("PATCH", f"/api/memory/memories/{pinned['id']}", {"pinned": True})
    others = [row["id"] for row in memories if row is not pinned and not row["previous_text"]]
    dashboard.ask("POST", f"/api/memory/memories/{others[-1]}/bin")
    dashboard.ask("POST", "/api/memory/forget", {"id": others[-2], "at_once": True})
    said = "We moved the staging API from port 7412 to port 7500."
    dashboard.ask("POST", "/api/memory/memories", {"text": said, "project": [pinned["project"]]})


def share_with_a_team(dashboard: Dashboard, ben: Colleague) -> None:
    """Join a team, share one memory and leave others waiting; the colleague shares a decision and a rule."""
    work_in(
        dashboard,
        "We decided to let the API of the harbour listen on port 7300.",
        "We decided to put Caddy in front of the harbour.",
        "We decided to keep the prices of the harbour in cents.",
    )
    eventually("everything is understood", lambda: quiet(dashboard.home), _SETTLE_SECONDS)
    ben.say("We decided to deploy the harbour on Tuesdays.")
    ben.add_rule("Never push to main without a review.")
    dashboard.ask("POST", "/api/team/join", {"url": ben.url, "token": ben.token, "device": "laptop"})
    status_of = dashboard.ask("PUT", "/api/team/policy", {"project": HARBOUR, "policy": "ask"})
    assert status_of["candidates"] > 1
    shared = dashboard.ask("GET", "/api/team/memories")[0]["id"]
    dashboard.ask("POST", "/api/team/share", {"ids": [shared]})
    dashboard.ask("POST", "/api/team/synchronise")


if __name__ == "__main__":
    sys.exit(main())
