"""A crowd: many clients of one daemon at once, each writing or reading by its own door, and what each of them saw.

Every client keeps a pace of its own, because a crowd of people does; who wants to know how much the daemon bears at
the most gives it a rate above that. The doors are the real ones: routes over the socket, hooks and commands as
processes, MCP. Facts under a few shared keys are what the writers fight for.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from filrouge.core.errors import DaemonUnavailable
from filrouge.daemon import client
from tests.reliability import processes

from .serial import Seen

KEYS: Final = tuple(f"crowd.register.{number}" for number in range(8))
WORDS: Final = ("billing", "search", "invoice", "ferry", "almanac", "kiosk", "harbour", "ledger")
#: A process costs a third of a second of a core: who starts one does so this much more seldom.
PROCESS_PACE: Final = 8.0
_ANSWER_SECONDS: Final = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Deed:
    """One thing that a client did: through which door, whether it wrote, how long it waited, what went wrong."""

    door: str
    wrote: bool
    seconds: float
    trouble: str = ""


@dataclass(kw_only=True)
class Crowd:
    """What a crowd did to one home. Its threads add to it; appending to a list is atomic."""

    home: str
    rate: float = 1.0
    deeds: list[Deed] = field(default_factory=list[Deed])
    registers: dict[str, list[Seen]] = field(default_factory=lambda: {key: list[Seen]() for key in KEYS})
    said: list[str] = field(default_factory=list[str])
    failures: list[BaseException] = field(default_factory=list[BaseException])
    enough: threading.Event = field(default_factory=threading.Event)

    def let_loose(
        self, seconds: float, *, writers: int = 32, readers: int = 32, mcp: bool = True, seed: int = 0
    ) -> None:
        """Let so many clients work for so long, and wait until the last is done."""
        doors = [*_shared(WRITERS, writers, mcp), *_shared(READERS, readers, mcp)]
        threads = [
            threading.Thread(target=self._guarded, args=(door, random.Random(f"{seed}/{number}"), number))
            for number, door in enumerate(doors)
        ]
        for thread in threads:
            thread.start()
        self.enough.wait(seconds)
        self.enough.set()
        for thread in threads:
            thread.join()

    def asked(
        self, door: str, method: str, path: str, body: dict[str, Any] | None = None, *, wrote: bool
    ) -> tuple[Any, bool]:
        """One request over the socket: its answer, None for what is not there, and whether all went well."""
        began = time.monotonic()
        try:
            reply = client.request(self.home, method, path, body, _ANSWER_SECONDS)
            missing = reply.status == 404 and method == "GET"
            trouble = "" if reply.status < 400 or missing else f"{reply.status}: {json.dumps(reply.value)}"
            value = None if missing else reply.value
        except DaemonUnavailable as error:
            trouble, value = f"no answer: {error.__cause__!r}", None
        self.deeds.append(Deed(door=door, wrote=wrote, seconds=time.monotonic() - began, trouble=trouble))
        return value, not trouble

    def ran(self, door: str, done: processes.Done, *, wrote: bool) -> None:
        """One process that ended."""
        trouble = "" if done.code == 0 and not done.err else f"exit {done.code}: {done.err or done.out}"
        self.deeds.append(Deed(door=door, wrote=wrote, seconds=done.seconds, trouble=trouble))

    def _guarded(self, door: Door, chance: random.Random, number: int) -> None:
        pace = (PROCESS_PACE if door in _PROCESSES else 1.0) / self.rate
        turn = 0
        try:
            while not self.enough.wait(chance.uniform(0.5, 1.5) * pace if turn else chance.uniform(0, pace)):
                door(self, chance, number, turn)
                turn += 1
        except BaseException as error:  # what a thread dies of must reach the test
            self.failures.append(error)
            self.enough.set()


def _sets_a_fact(crowd: Crowd, chance: random.Random, number: int, turn: int) -> None:
    key, value = chance.choice(KEYS), f"value {number}-{turn}"
    began = time.monotonic()
    _, well = crowd.asked("REST", "POST", "/api/memory/facts", {"key": key, "value": value}, wrote=True)
    seen = Seen(value=value, began=began, ended=time.monotonic(), wrote=True, answered=well)
    crowd.registers[key].append(seen)


def _reads_a_fact(crowd: Crowd, chance: random.Random, number: int, turn: int) -> None:
    key, began = chance.choice(KEYS), time.monotonic()
    found, well = crowd.asked("REST", "GET", f"/api/memory/facts/{key}", wrote=False)
    now = str(found["value"]) if found else None
    crowd.registers[key].append(Seen(value=now, began=began, ended=time.monotonic(), wrote=False, answered=well))


def _talks(crowd: Crowd, chance: random.Random, number: int, turn: int) -> None:
    text = _sentence(number, turn, chance)
    message = {"role": "user", "content": text}
    body = {"channel": "crowd", "session_id": f"crowd-{number}", "messages": [message]}
    if crowd.asked("REST", "POST", "/memory/turns", body, wrote=True)[1]:
        crowd.said.append(text)


def _hooks(crowd: Crowd, chance: random.Random, number: int, turn: int) -> None:
    text = _sentence(number, turn, chance)
    prompt = processes.prompt(crowd.home, f"crowd-{number}", f"{number}-{turn}", text)
    crowd.ran("hook", processes.hook(crowd.home, prompt), wrote=True)
    crowd.said.append(text)


def _tells(crowd: Crowd, chance: random.Random, number: int, turn: int) -> None:
    text = _sentence(number, turn, chance)
    crowd.ran("command", processes.run(crowd.home, "remember", text), wrote=True)
    crowd.said.append(text)


def _adds(crowd: Crowd, chance: random.Random, number: int, turn: int) -> None:
    _called(crowd, number, turn, "memory_add", {"text": _sentence(number, turn, chance)}, wrote=True)


def _searches(crowd: Crowd, chance: random.Random, number: int, turn: int) -> None:
    words = {"q": f"which port does the {chance.choice(WORDS)} service use?", "mode": chance.choice(("text", "hybrid"))}
    crowd.asked("REST", "GET", f"/api/memory/search?{urlencode(words)}", wrote=False)


def _asks_before_a_prompt(crowd: Crowd, chance: random.Random, number: int, turn: int) -> None:
    prompt = f"What do we know about the {chance.choice(WORDS)} service and its port?"
    body = {"prompt": prompt, "channel": "crowd", "session_id": f"crowd-{number}"}
    crowd.asked("REST", "POST", "/memory/context", body, wrote=False)


def _looks_back(crowd: Crowd, chance: random.Random, number: int, turn: int) -> None:
    path = f"/api/memory/messages?channel=crowd&session_id={quote(f'crowd-{number % 8}')}"
    crowd.asked("REST", "GET", path, wrote=False)


def _looks_for(crowd: Crowd, chance: random.Random, number: int, turn: int) -> None:
    crowd.ran("command", processes.run(crowd.home, "search", f"the {chance.choice(WORDS)} service"), wrote=False)


def _calls_search(crowd: Crowd, chance: random.Random, number: int, turn: int) -> None:
    _called(crowd, number, turn, "memory_search", {"query": f"the {chance.choice(WORDS)} service"}, wrote=False)


def _called(crowd: Crowd, number: int, turn: int, tool: str, arguments: Mapping[str, Any], *, wrote: bool) -> None:
    call = {"name": tool, "arguments": dict(arguments)}
    body = {"jsonrpc": "2.0", "id": f"{number}-{turn}", "method": "tools/call", "params": call}
    value, well = crowd.asked("MCP", "POST", "/mcp", body, wrote=wrote)
    if well and ("error" in value or value["result"].get("isError")):
        crowd.deeds[-1] = Deed(door="MCP", wrote=wrote, seconds=crowd.deeds[-1].seconds, trouble=json.dumps(value))


def _sentence(number: int, turn: int, chance: random.Random) -> str:
    return f"The {chance.choice(WORDS)}-{number}-{turn} service listens on port {10_000 + 100 * number + turn}."


Door = Callable[[Crowd, random.Random, int, int], None]
#: Each door with its share in eight.
WRITERS: Final[Sequence[tuple[Door, int]]] = ((_sets_a_fact, 3), (_talks, 2), (_hooks, 1), (_tells, 1), (_adds, 1))
READERS: Final[Sequence[tuple[Door, int]]] = (
    (_reads_a_fact, 2),
    (_searches, 2),
    (_asks_before_a_prompt, 1),
    (_looks_back, 1),
    (_looks_for, 1),
    (_calls_search, 1),
)
_PROCESSES: Final = (_hooks, _tells, _looks_for)
_MCP: Final = (_adds, _calls_search)


def _shared(doors: Sequence[tuple[Door, int]], number: int, mcp: bool) -> list[Door]:
    """So many doors, each by its share."""
    dealt = [door for door, share in doors for _ in range(share) if mcp or door not in _MCP]
    return [dealt[one % len(dealt)] for one in range(number)]
