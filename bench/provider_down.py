"""A day with a broken provider: what it costs, whether anything is lost, and whether all is read once it answers.

    python bench/provider_down.py --events 432000          # a day at five events a second
    python bench/provider_down.py --events 20000 --out bench/results/provider_down.json

A scripted provider on this machine answers 500 to everything while the events of agents' conversations come in as fast
as they are acknowledged: a prompt and a reply in turn, forty in a conversation. Then it heals, and what waited is read.
The budget of a day is switched off for that, since what is asked here is whether everything is read, not when. Exit 1
if a token was spent while it was broken, an event was lost, or anything was left unread.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.mind import Mind
from tests.support.provider import Provider, Status

from filrouge.capture.events import Event
from filrouge.capture.service import store_events
from filrouge.extraction.repository import Readings
from filrouge.maintenance.health import status
from filrouge.providers.service import ModelTimings
from filrouge.providers.usage_repository import LlmUsage
from filrouge.runtime.services import Parts
from filrouge.testing import running

PER_SESSION = 40
AT_ONCE = 64
DAY_SECONDS = 86_400


def event(number: int, begin: float, apart: float) -> Event:
    session = f"s{number // PER_SESSION:06}"
    kind, text = ("reply", f"Done: step {number} is finished and its {number % 97} tests pass on the branch.")
    if number % 2 == 0:
        kind, text = (
            "prompt",
            f"Please go on with step {number}; the service of shop {number % 89} listens on {number}.",
        )
    at = begin + number * apart
    project = ("origin:forge.example/ana/shop",)
    return Event(f"e{number:08}", "claude-code", kind, session, at, f"k{number}", "", project, "", "", {"text": text})


def queue(parts: Parts) -> dict[str, Any]:
    return parts.readers.here(lambda tx: status(parts, tx))


def spent(parts: Parts) -> tuple[int, int]:
    found = parts.readers.here(lambda tx: LlmUsage(tx).spent(parts.clock.now()))
    return found.tokens, found.calls


def unread(parts: Parts) -> int:
    """Conversations that no model has read to their end."""
    return parts.readers.here(lambda tx: Readings(tx).behind())


def day(home: str, events: int) -> dict[str, Any]:
    mind = Mind(extract=Status(500))
    began = time.time()
    with Provider(choosing=mind.answer, models=["little"]) as server:
        environ = {
            "FILROUGE_EXTRACT_PROVIDER": "openai",
            "FILROUGE_EXTRACT_MODEL": "little",
            "FILROUGE_LLM_URL": server.url("openai"),
            "FILROUGE_LLM_DAILY_TOKENS": "1000000000000",
        }
        pace = ModelTimings(after_reply=0.0, quiet=0.0, rest=0.5, breaker=0.5)
        with running(home, environ=environ, pace=pace) as parts:
            apart = DAY_SECONDS / events
            for first in range(0, events, AT_ONCE):
                some = [event(number, began, apart) for number in range(first, min(first + AT_ONCE, events))]
                store_events(parts, some).result(60)
            while queue(parts)["ledger"].get("queued", 0):
                time.sleep(0.2)
            broken_tokens, broken_calls = spent(parts)
            waiting = unread(parts)
            print(f"broken: {broken_calls} calls, {broken_tokens} tokens, {waiting} conversations wait", flush=True)
            mind.extract = {"facts": []}
            healed = time.time()
            while unread(parts):
                time.sleep(0.2)
            found = queue(parts)
            return {
                "events": events,
                "stored": found["events"],
                "ledger": found["ledger"],
                "turns": found["turns"],
                "dead_jobs": found["queue"]["dead"],
                "conversations": (events + PER_SESSION - 1) // PER_SESSION,
                "waiting_when_healed": waiting,
                "calls_while_broken": broken_calls,
                "tokens_while_broken": broken_tokens,
                "seconds_broken": round(healed - began, 1),
                "seconds_to_drain": round(time.time() - healed, 1),
                "questions_after": spent(parts)[1] - broken_calls,
            }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--events", type=int, default=5 * DAY_SECONDS)
    options.add_argument("--out", type=Path)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as home:
        found = day(home, chosen.events)
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found))
    lost = found["stored"] != found["events"] or found["dead_jobs"] or found["ledger"].get("dead", 0)
    return int(bool(found["tokens_while_broken"] or lost or not found["waiting_when_healed"]))


if __name__ == "__main__":
    sys.exit(main())
