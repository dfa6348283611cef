"""Canaries: words that nobody would say by chance, entered into a whole Filrouge through every path there is.

The home is served on its socket, so that real hooks and real commands reach it, and asks a scripted model that
repeats what it reads. Each path is a function of the home and the word. `left` is what a thief would do: read every
byte of every file, in every writing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import quote

import uvicorn

from filrouge.capture import inbox
from filrouge.capture.events import Event, EventKind
from filrouge.capture.service import store_events
from filrouge.context.service import build_and_log_text
from filrouge.core.clock import SystemClock
from filrouge.core.paths import SPOOL, inside
from filrouge.core.protocols import Tx
from filrouge.daemon import client
from filrouge.daemon.process import bind_socket
from filrouge.extraction import sessions
from filrouge.maintenance import backup_files
from filrouge.maintenance.backup_service import back_up
from filrouge.memories.changes import pin, put_fact, remember, remember_many, supersede
from filrouge.runtime import wiring
from filrouge.runtime.services import Parts
from filrouge.search.service import Question, recall, search_turns
from filrouge.server.api import create_app
from filrouge.testing import idle
from tests.reliability import processes
from tests.support.given import SHOP, event
from tests.support.spoken import COUPON, POSTGRES

from .mind import AT_ONCE, Mind, fact, facts, operation_of
from .provider import Asked, Provider, Reply, Step

_MARK: Final = "zq"
_LENGTH: Final = 10
_GARBLED: Final = "garbled"


@dataclass(frozen=True, kw_only=True)
class Home:
    """A served home, and a folder beside it for what hosts write."""

    home: str
    parts: Parts
    beside: Path

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """What a route answers."""
        reply = client.request(self.home, method, path, dict(body) if body else None, 60.0)
        assert reply.status < 300, (path, reply)
        return reply.value


def canary(chance: random.Random, number: int) -> str:
    """A word of the kind; some have letters that files write in several ways."""
    word = _MARK + "".join(chance.choices(string.ascii_lowercase, k=_LENGTH))
    return word if number % 3 else f"{word}é{chance.choice(string.ascii_lowercase)}"


@contextmanager
def served(home: Path) -> Generator[Home]:
    """A whole Filrouge on this home, with a model that repeats what it reads."""
    home.mkdir(parents=True, exist_ok=True)
    mind = _repeating()

    def choose(asked: Asked) -> Step | str:
        # What a model would call a thread, or say of where the work stands, is left to the rules.
        return mind.answer(asked) if operation_of(asked) in ("extract", "decide", "support", "inform") else "{}"

    with Provider(choosing=choose, models=["little"]) as server:
        environ = {
            "FILROUGE_EMBEDDING_MODEL": "hashing",
            "FILROUGE_EXTRACT_PROVIDER": "openai",
            "FILROUGE_EXTRACT_MODEL": "little",
            "FILROUGE_LLM_URL": server.url("openai"),
        }
        running = wiring.start(str(home), environ=environ, clock=SystemClock(), pace=AT_ONCE)
        config = uvicorn.Config(create_app(running, lambda: None), log_config=None, lifespan="off")
        web, listener = uvicorn.Server(config), bind_socket(str(home))
        thread = Thread(target=web.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            idle(running.parts)
            yield Home(home=str(home), parts=running.parts, beside=home.parent)
        finally:
            web.should_exit = True
            thread.join(10)
            listener.close()
            running.stop()


def _repeating() -> Mind:
    """States as a fact what a reply says of a canary; of what says so it cannot be read, with the words in it."""

    def extract(asked: Asked) -> Step | dict[str, Any]:
        for turn, line in enumerate(asked.text.splitlines()):
            said = next((word.strip(".,:;\"'") for word in line.split() if word.startswith(_MARK)), "")
            if said and _GARBLED in line:
                return Reply(f"I cannot say more of {said} than this, which is no JSON.")
            if said and "reported" in line:
                return facts(fact(f"reported that {said}", f"It is reported that {said} is open.", turn=max(1, turn)))
        return {"facts": []}

    return Mind(extract=extract)


def _tag(word: str) -> str:
    """What stands for a word where nothing is said: in ids of sessions and calls, in names of files and keys."""
    return hashlib.sha256(word.encode()).hexdigest()[:8]


def _told(home: Home, kind: EventKind, session: str, **more: Any) -> None:
    host, agent = more.pop("host", "claude-code"), more.pop("agent", "")
    one: Event = event(kind, session=session, **more)._replace(host=host, agent=agent)
    store_events(home.parts, [one]).result(30)


def _claude_prompt(home: Home, word: str) -> None:
    payload = processes.prompt(
        home.home, f"s-{_tag(word)}", _tag(word), f"For the record: the {word} kiosk is on the quay."
    )
    assert processes.hook(home.home, payload).code == 0


def _codex_prompt(home: Home, word: str) -> None:
    payload = processes.prompt(
        home.home, f"x-{_tag(word)}", _tag(word), f"We decided to call the ferry {word} from now on."
    )
    assert processes.hook(home.home, payload, host="codex").code == 0


def _tool_hook(home: Home, word: str) -> None:
    assert (
        processes.hook(home.home, processes.tool(home.home, f"t-{_tag(word)}", _tag(word), f'{{"out": "{word}"}}')).code
        == 0
    )


def _command(home: Home, word: str) -> None:
    assert processes.run(home.home, "remember", f"The {word} harbour closes at nine.").code == 0


def _reply(home: Home, word: str) -> None:
    _told(home, "prompt", f"s-{_tag(word)}", text="What did the inspection of the port say?")
    _told(home, "reply", f"s-{_tag(word)}", text=f"The inspection reported that {word} opens on Monday.")


def _unreadable(home: Home, word: str) -> None:
    _told(home, "prompt", f"s-{_tag(word)}", text="And what is written on the old sign of the port?")
    _told(home, "reply", f"s-{_tag(word)}", text=f"It is {_GARBLED} and says {word} as far as I can read it.")


def _subagent(home: Home, word: str) -> None:
    _told(
        home, "subagent", f"s-{_tag(word)}", text=f"I looked through the code: {word} is called twice.", agent="helper"
    )


def _summary(home: Home, word: str) -> None:
    _told(home, "summary", f"s-{_tag(word)}", text=f"This session moved the {word} service and fixed its tests.")


def _transcript(home: Home, word: str) -> None:
    transcript = home.beside / f"{_tag(word)}.jsonl"
    record = {
        "type": "user", "uuid": f"0b51cd3c-0000-4000-8000-{_tag(word):0>12}", "sessionId": f"s-{_tag(word)}",
        "cwd": "", "timestamp": "2026-01-01T10:00:00.000Z",
        "message": {"role": "user", "content": f"For the record: {word} answers on port 7001."},
    }  # fmt: skip
    transcript.write_text(json.dumps(record) + "\n", encoding="utf-8")
    one = event("reply", text="Noted, let us go on.", session=f"s-{_tag(word)}")._replace(transcript=str(transcript))
    store_events(home.parts, [one]).result(30)


def _spool(home: Home, word: str) -> None:
    inbox.append_event(inside(home.home, SPOOL), event(text=f"Always run {word} before you commit.").to_json())


def _torn_spool(home: Home, word: str) -> None:
    Path(inside(home.home, SPOOL), f"1-{int(_tag(word), 16)}.log.aside").write_bytes(f"torn {word}".encode())


def _route(home: Home, word: str) -> None:
    body = {"text": f"The {word} beacon is green.", "project": list(SHOP)}
    home.ask("POST", "/api/memory/memories", body)


def _rule(home: Home, word: str) -> None:
    body = {"text": f"Never push to the {word} branch.", "project": list(SHOP)}
    home.ask("POST", "/api/memory/rules", body)


def _bulk(home: Home, word: str) -> None:
    remember_many(home.parts, [f"Invoice {word} was paid in March."], names=SHOP, scope="project")


def _core_fact(home: Home, word: str) -> None:
    put_fact(home.parts, f"key of {_tag(word)}", f"It is {word}.", names=SHOP, scope="project")


def _chain(home: Home, word: str) -> None:
    for value in ("opens at six", f"opens with {word}", "opens at eight"):
        put_fact(home.parts, f"gate {_tag(word)}", value, names=SHOP, scope="project")


def _superseded(home: Home, word: str) -> None:
    [done] = remember(home.parts, f"The lock of bay {_tag(word)} is {word}.", names=SHOP, scope="project", host="cli")
    supersede(home.parts, done.memory_id, "That lock was exchanged.", source="test")


def _review(home: Home, word: str) -> None:
    bay = f"bay {_tag(word)}"
    done = remember(home.parts, f"For the record: {bay} listens on port 9001.", names=SHOP, scope="project", host="cli")
    pin(home.parts, done[0].memory_id, pinned=True)
    text = f"Correction: {bay} listens on port 9002, not 9001, says {word}."
    remember(home.parts, text, names=SHOP, scope="project", host="cli")


def _repeated(home: Home, word: str) -> None:
    for session in ("one", "two"):
        _told(home, "prompt", f"{session}-{_tag(word)}", text=f"For the record: the {word} crane lifts nine tonnes.")


def _thread_title(home: Home, word: str) -> None:
    project = f"origin:forge.example/ana/{_tag(word)}"
    _told(home, "prompt", f"s-{_tag(word)}", text=COUPON[0], project=(project,))
    idle(home.parts)
    [thread] = home.ask("GET", f"/api/memory/threads?project={quote(project)}")
    home.ask("PATCH", f"/api/memory/threads/{thread['id']}", {"title": f"Coupons of {word}"})


def _bridge(home: Home, word: str) -> None:
    project = f"origin:forge.example/ana/{_tag(word)}"
    for number, said in enumerate((*COUPON[:2], *POSTGRES)):
        _told(home, "prompt", f"b{number // 2}-{_tag(word)}", text=said, project=(project,))
        idle(home.parts)
    [one, other, *_] = [row["id"] for row in home.ask("GET", f"/api/memory/threads?limit=9&project={quote(project)}")]
    home.ask("POST", "/api/memory/bridges", {"source": one, "target": other, "reason": f"both of {word}"})


def _session(home: Home, word: str) -> None:
    for number in range(3):
        _told(
            home, "prompt", f"w-{_tag(word)}", text=f"We decided to move {word} to the third quay, step {number} of it."
        )
        _told(
            home, "reply", f"w-{_tag(word)}", text=f"The move of {word} is prepared; open question: who tells the crew?"
        )
    _told(home, "pre_compact", f"w-{_tag(word)}")
    _told(home, "session_end", f"w-{_tag(word)}")


def _history(home: Home, word: str) -> None:
    history = [
        {"role": "user", "content": f"I always want {word} in the reports of the harbour."},
        {"role": "assistant", "content": f"The reports of the harbour have {word} from now on."},
    ]
    sessions.analyze_session_for_concepts(home.parts, f"h-{_tag(word)}", history, True, "local")


def _asked(home: Home, word: str) -> None:
    build_and_log_text(
        home.parts, event(text=f"Where is {word} moored today, and since when?", session=f"a-{_tag(word)}"), SHOP[0]
    )


def _escaped(home: Home, word: str) -> None:
    output = json.dumps({"said": f'line one\n"{word}" here', "more": ["é", word]})
    calls = [{"name": "Read", "id": f"c-{_tag(word)}", "input": {"path": "notes"}, "output": output}]
    _told(home, "tools", f"s-{_tag(word)}", calls=calls)


def _memory_file(home: Home, word: str) -> None:
    path = f"/memories/{_tag(word)}.md"
    home.ask(
        "POST", "/memory/tool", {"command": "create", "path": path, "file_text": f"The tide.\n{word} at the pier.\n"}
    )
    home.ask("POST", "/memory/tool", {"command": "insert", "path": path, "insert_line": 0, "insert_text": f"On {word}"})
    home.ask("POST", "/memory/tool", {"command": "rename", "old_path": path, "new_path": f"/memories/a/{word}.md"})


def _mcp(home: Home, word: str) -> None:
    def call(tool: str, **arguments: str) -> Any:
        params = {"name": tool, "arguments": arguments}
        return home.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})

    call("memory_add", text=f"The harbour office keeps the {word} behind the counter.")
    call("memory_search", query=f"Where is the {word}?")
    call("memory_context", prompt=f"Where does the harbour office keep the {word}?")


PATHS: Final[tuple[Callable[[Home, str], None], ...]] = (
    _claude_prompt, _codex_prompt, _tool_hook, _command, _reply, _unreadable, _subagent, _summary, _transcript, _spool,
    _torn_spool, _route, _rule, _bulk, _core_fact, _chain, _superseded, _review, _repeated, _thread_title, _bridge,
    _session, _history, _asked, _escaped, _memory_file, _mcp,
)  # fmt: skip


def enter(home: Home, words: Sequence[str]) -> dict[str, str]:
    """Enter each word through one path, all paths in turn, and wait until all is understood; the path of each."""
    paths: dict[str, str] = {}
    for number, word in enumerate(words):
        path = PATHS[number % len(PATHS)]
        path(home, word)
        paths[word] = path.__name__.strip("_")
    deadline = time.monotonic() + 60
    while inbox.waiting_files(inside(home.home, SPOOL)) and time.monotonic() < deadline:
        time.sleep(0.05)
    idle(home.parts, 120)
    return paths


def backed_up(home: Home, elsewhere: Path) -> None:
    """A backup in the home, and a copy of it elsewhere."""
    made = back_up(home.home, "hand", SystemClock().now())
    backup_files.copy_out(home.home, made.name, str(elsewhere))


def forms(word: str) -> list[bytes]:
    """How a word may stand in a file."""
    found = list[bytes]()
    for one in dict.fromkeys((word, word.casefold(), word.upper(), json.dumps(word)[1:-1])):
        found += [one.encode(), one.encode("utf-16-le"), one.encode("utf-16-be")]
        for shift in range(3):  # base64 depends on where in its text the words begin
            found.append(base64.b64encode(b"\0" * shift + one.encode())[4 if shift else 0 : -4])
    return found


def left(home: str, words: Sequence[str]) -> dict[str, list[str]]:
    """The words that stand in any file of a home, with the files."""
    found: dict[str, list[str]] = {}
    sought = {word: forms(word) for word in words}
    for path in Path(home).rglob("*"):
        if path.is_file():
            content = path.read_bytes().strip(b"\0")  # most of a home is room that is kept for a full disk
            lower = content.lower()
            for word, written in sought.items():
                if any(form in content or form in lower for form in written):
                    found.setdefault(word, []).append(path.name)
    return found


def recalled(parts: Parts, words: Sequence[str]) -> list[str]:
    """The words that any answer to a question about them repeats: memories and turns, by words and by meaning."""

    def hits(tx: Tx, word: str) -> bool:
        asked = Question(text=f"What about {word}?", everywhere=True, limit=20)
        texts = [
            hit.text for ranking in (recall(parts, tx, asked), search_turns(parts, tx, asked)) for hit in ranking.hits
        ]
        return any(word.casefold() in text.casefold() for text in texts)

    return [word for word in words if parts.readers.here(lambda tx, word=word: hits(tx, word))]
