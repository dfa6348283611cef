"""A day's use: what 200 prompts leave on the disk and take of memory.

Conversations of several projects pass through the hook's own code, one event after the other, to a daemon in a process
of its own with the real embedder: starts of sessions, prompts, calls of tools with their output, replies. Then
everything is understood, the daily work runs (a backup, retention), and is weighed:

*Text*: characters of all that was said and printed, in UTF-8. *Home*: every file in it, by part, and the tables of the
database. *Memory*: of the daemon at its end and at its highest. *Outside*: every file that is new in the user's
directory and in the directory for temporary files, other than the home, the project and the embedder's model.

    python bench/day.py                  # conversations that are made up here
    python bench/day.py --data DIR       # from JSON files: sessions with turns of `user`, `assistant`, `tools`
    python bench/day.py --check          # exit 1 when a gate is missed

Gates: home <= 3 times the text + 20 MB; daemon <= 250 MB; nothing outside.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import apsw

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.hook_load import statements
from tests.reliability import processes

from filrouge.cli.hook import run
from filrouge.core.paths import DATABASE, inside
from filrouge.daemon.handover import Input
from filrouge.runtime.disk import sizes

MB: Final = 1_000_000
TIMES_TEXT: Final = 3
ALLOWANCE_MB: Final = 20
DAEMON_MB: Final = 250
PROMPTS_PER_SESSION: Final = 20
#: The daemon gives free memory back every 20 s.
SETTLE_SECONDS: Final = 25.0
RESULTS: Final = Path(__file__).parent / "results" / "day.md"
SOURCES: Final = sorted((Path(__file__).parent.parent / "src" / "filrouge").rglob("*.py"))


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A prompt with what followed."""

    user: str
    assistant: str
    tools: Sequence[tuple[str, str, str]] = ()


@dataclass(kw_only=True)
class Day:
    """What came out of a day.

    Attributes:
        text: bytes.
        peak, resident: megabytes of the daemon's memory; `files`: of that, pages of mapped files.
        injected: prompts before which something was put.
    """

    prompts: int = 0
    events: int = 0
    injected: int = 0
    text: int = 0
    home: dict[str, int] = field(default_factory=dict[str, int])
    tables: dict[str, int] = field(default_factory=dict[str, int])
    log_bytes: int = 0
    resident: float = 0.0
    files: float = 0.0
    peak: float = 0.0
    outside: list[str] = field(default_factory=list[str])

    @property
    def limit(self) -> int:
        """Bytes that the home may have."""
        return TIMES_TEXT * self.text + ALLOWANCE_MB * MB


def made_up(number: int) -> Iterator[list[Turn]]:
    """Sessions: statements, questions and work, with source files as what tools print."""
    draw = random.Random(17)
    known = statements()
    for start in range(0, number, PROMPTS_PER_SESSION):
        session = list[Turn]()
        for n in range(start, min(number, start + PROMPTS_PER_SESSION)):
            statement, question = known[n % len(known)]
            file = draw.choice(SOURCES)
            content = file.read_text(encoding="utf-8")[: draw.randrange(1000, 8000)]
            asked = [
                f"For the record: {statement}",
                question,
                f"Please rename the helper in {file.name} and run the tests again, I want it to read better.",
            ][n % 3]
            tools = [("Read", str(file.name), content)] * (n % 3 == 2) + [("Bash", "make test", f"{n} passed in 3.2s")]
            reply = f"Done: {file.name} reads better now. {n} tests pass. Nothing else refers to the old name."
            session.append(Turn(user=asked, assistant=reply, tools=tools))
        yield session


def from_files(directory: str, number: int) -> Iterator[list[Turn]]:
    """Sessions of conversations in JSON files, one project after the other, until there are enough prompts."""
    left = number
    for path in sorted(Path(directory).glob("*.json")):
        for session in json.loads(path.read_text(encoding="utf-8"))["sessions"]:
            turns = [
                Turn(
                    user=turn["user"],
                    assistant=turn.get("assistant", ""),
                    tools=[(one["name"], str(one["input"]), str(one["output"])) for one in turn.get("tools", [])],
                )
                for turn in session["turns"][:left]
            ]
            left -= len(turns)
            if turns:
                yield turns


class Agent:
    """Runs hooks as an agent does, without starting a process for each."""

    def __init__(self, home: str, environ: dict[str, str], day: Day) -> None:
        self._home, self._environ, self._day = home, environ, day

    def converse(self, session: str, cwd: str, turns: Sequence[Turn]) -> None:
        """One session from its start to its end."""
        self._say(session, cwd, "SessionStart", source="startup")
        for n, turn in enumerate(turns):
            self._day.prompts += 1
            number = f"{session}-{n}"
            self._day.injected += self._say(
                session, cwd, "UserPromptSubmit", turn.user, prompt=turn.user, prompt_id=number
            )
            for m, (name, given, printed) in enumerate(turn.tools):
                call = {"tool_name": name, "tool_use_id": f"{number}-{m}", "tool_response": printed}
                self._say(session, cwd, "PostToolUse", given + printed, tool_input={"command": given}, **call)
            self._say(session, cwd, "Stop", turn.assistant, last_assistant_message=turn.assistant, prompt_id=number)
        self._say(session, cwd, "SessionEnd", reason="other")

    def _say(self, session: str, cwd: str, event: str, text: str = "", **fields: Any) -> bool:
        payload = {"session_id": session, "transcript_path": "", "cwd": cwd, "hook_event_name": event, **fields}
        self._day.events += 1
        self._day.text += len(text.encode())
        printed = list[bytes]()
        run(["--host", "claude-code"], Input(json.dumps(payload).encode()), printed.append, self._environ)
        return bool(printed)


def memory(pid: int) -> tuple[float, float, float]:
    """Resident, of that mapped files, and the highest of a process, in megabytes."""
    said = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    of = [int(said[name].split()[0]) * 1024 / MB for name in ("VmRSS", "RssFile", "VmHWM")]
    return of[0], of[1], of[2]


def weigh(home: str, day: Day) -> None:
    """Look at what a home holds whose daemon has stopped."""
    day.home = sizes(home)
    connection: Any = apsw.Connection(inside(home, DATABASE), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        rows = connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC").fetchall()
        day.tables = {str(name): int(size) for name, size in rows}
        [(day.log_bytes,)] = connection.execute(
            "SELECT coalesce(avg(length(CAST(items AS BLOB)) + length(user_message_preview) + length(notices)), 0)"
            " FROM memory_retrievals"
        ).fetchall()
    except apsw.SQLError:  # built without dbstat
        day.tables = {}
    finally:
        connection.close()


def a_day(sessions: Iterator[list[Turn]]) -> Day:
    """Live through it."""
    day = Day()
    with processes.throw_away_home() as home:
        root = Path(home).parent
        temporary = root / "tmp"
        temporary.mkdir()
        environ = processes.environment(home, FILROUGE_EMBEDDING_MODEL="e5", HOME=str(root), TMPDIR=str(temporary))
        environ.pop("XDG_CACHE_HOME", None)
        with processes.started_daemon(home, **environ) as daemon:
            agent = Agent(home, environ, day)
            for n, turns in enumerate(sessions):
                cwd = root / f"project-{n % 5}"
                cwd.mkdir(exist_ok=True)
                agent.converse(f"day-{n}", str(cwd), turns)
            processes.eventually("all is understood", lambda: processes.quiet(home), 900.0)
            answer = processes.client.request(home, "POST", "/api/memory/backups", {}, 60.0)
            assert answer.status == 201, answer.body
            processes.client.request(home, "POST", "/search", {"query": "What was said of the tests?"}, 60.0)
            time.sleep(SETTLE_SECONDS)
            day.resident, day.files, day.peak = memory(daemon.pid)
        weigh(home, day)
        own = ("home", "tmp", *(f"project-{n}" for n in range(5)))
        found = [path for path in root.rglob("*") if path.is_file() and path.relative_to(root).parts[0] not in own]
        day.outside = [str(path.relative_to(root)) for path in found if "filrouge" not in path.relative_to(root).parts]
        day.outside += [f"tmp/{path.name}" for path in temporary.iterdir()]
    return day


def table(day: Day) -> str:
    """The figures as Markdown."""
    size = sum(day.home.values())
    lines = [
        f"{day.prompts} prompts, {day.events} events, {day.injected} blocks injected, {day.text / MB:.2f} MB of text.",
        "",
        "| what | MB | gate |",
        "|---|--:|--:|",
        f"| home | {size / MB:.2f} | {day.limit / MB:.2f} |",
        f"| daemon, resident | {day.resident:.0f} | {DAEMON_MB} |",
        f"| of that, mapped files | {day.files:.0f} | |",
        f"| daemon, highest | {day.peak:.0f} | |",
        f"| files outside | {len(day.outside)} | 0 |",
        "",
        f"A row of the recall log takes {day.log_bytes:.0f} bytes on average (gate 3,000).",
        "",
        "| part of the home | MB |",
        "|---|--:|",
        *(f"| {part} | {bytes_ / MB:.2f} |" for part, bytes_ in sorted(day.home.items(), key=lambda one: -one[1])),
        "",
        "| table or index | MB |",
        "|---|--:|",
        *(f"| {name} | {bytes_ / MB:.2f} |" for name, bytes_ in list(day.tables.items())[:12]),
    ]
    return "\n".join([*lines, *(f"\nOutside: {path}" for path in day.outside)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; 1 where `--check` finds a gate missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--data", help="a directory of conversations")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", default=str(RESULTS))
    options = parser.parse_args(arguments)
    sessions = from_files(options.data, options.prompts) if options.data else made_up(options.prompts)
    day = a_day(sessions)
    found = table(day)
    print(found)
    title = "# A day's use\n\n`bench/day.py`" + (
        " on conversations that are not in this repository" if options.data else ""
    )
    Path(options.out).write_text(f"{title}: {found}\n", encoding="utf-8")
    held = sum(day.home.values()) <= day.limit and day.resident <= DAEMON_MB and not day.outside
    print(f"\nday: {'held' if held and day.log_bytes <= 3000 else 'missed'}")
    return 0 if held or not options.check else 1


if __name__ == "__main__":
    raise SystemExit(main())
