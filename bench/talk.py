"""The product on labelled talk, through the real hooks: what is kept, replaced, put before prompts, and threaded.

    python bench/talk.py --data bench/data/talk/validation [--only en] [--keep DIR] [--out FILE] [--check] [--here]

Each project has a home and a git directory of its own. Every turn goes through `filrouge hook`; after each session the
run waits until nothing is queued, then asks that session's probes with `context --json`, which leaves no trace. At the
end memories, rules and threads are listed. `--keep` writes what was found, a JSON file a project, and reads those that
are there instead of running them. The measures are those of the talk kit:

- kept: statements for which a live memory of the right scope speaks of them; junk: live memories that speak of none.
- replaced: superseded statements that no live memory states; false end: statements that hold and were learned, without
  a live memory.
- delivered: expected statements in the injected text; precision: injected lines, rules apart, that speak of an expected
  or accepted statement; silence: probes that need nothing and get nothing; stale: probes that get what was replaced.
- threads: pairwise F1 of turns; share of the largest thread.

`--here` plays the projects in this process instead, without hooks and daemon, in a third of the time. `--check` exits 1
where a gate is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.talk_format import Project, read, speaks_of

from filrouge import hosts
from filrouge.capture.events import Event
from filrouge.capture.service import store_events
from filrouge.context.service import preview
from filrouge.core.clock import SystemClock, new_id
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.runtime.services import Parts
from filrouge.testing import idle, running

Line = dict[str, str]
Found = dict[str, Any]

#: Heading of a block, by section; each in English, French and Spanish.
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "rules": ("rules", "règles", "reglas"),
    "reminders": ("reminders", "rappels", "recordatorios"),
    "memories": ("relevant memories", "souvenirs", "recuerdos", "known facts", "faits connus", "hechos"),
    "thread": ("current thread", "fil en cours", "hilo actual", "where the work stands", "où en est", "estado"),
    "threads": ("other threads", "autres fils", "otros hilos"),
    "decisions": ("decisions", "décisions", "decisiones"),
    "notes": ("reference notes", "notes de", "notas"),
}
#: Measure, gate, and whether more is better.
GATES: Final[Mapping[str, tuple[float, bool]]] = {
    "kept": (0.55, True), "junk": (0.15, False), "replaced": (0.35, True), "false end": (0.03, False),
    "delivered": (0.45, True), "precision": (0.40, True), "silence": (0.55, True), "stale": (0.20, False),
    "threads F1": (0.50, True), "largest thread": (0.50, False),
}  # fmt: skip
STATES: Final = {"review": "waiting", "pending": "waiting", "quarantined": "waiting"}


class Home:
    """A throw-away memory with its daemon."""

    def __init__(self, filrouge: str, name: str) -> None:
        self.root = tempfile.mkdtemp(prefix=f"talk-{name}-")
        self.repository = os.path.join(self.root, "work", name)
        os.makedirs(self.repository)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FILROUGE_")}
        self.environ = kept | {"HOME": self.root, "FILROUGE_HOME": os.path.join(self.root, "filrouge"), "NO_COLOR": "1"}
        self._filrouge = filrouge
        for words in (["init", "-q"], ["remote", "add", "origin", f"https://git.example/{name}.git"]):
            subprocess.run(["git", *words], cwd=self.repository, env=self.environ, check=True)
        self.run("daemon", "start")

    def run(self, *words: str, given: str | None = None) -> str:
        """What a command prints."""
        done = subprocess.run(
            [self._filrouge, *words],
            cwd=self.repository,
            env=self.environ,
            input=given,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        return done.stdout

    def ask(self, *words: str) -> Any:
        """The JSON that a command answers."""
        return json.loads(self.run(*words, "--json"))

    def hook(self, host: str, payload: Mapping[str, Any]) -> None:
        """One call of the real hook."""
        self.run("hook", "--host", host, given=json.dumps(payload))

    def settle(self, seconds: float = 300) -> None:
        """Wait until nothing is queued, three looks in a row."""
        calm, until = 0, time.monotonic() + seconds
        while calm < 3 and time.monotonic() < until:
            queue = self.ask("status")["queue"]
            calm = 0 if queue["waiting"] + queue["running"] else calm + 1
            time.sleep(0.4)


def play(home: Home, project: Project, session: Project) -> None:
    """Send one session through the hooks."""
    for host, payload in payloads(project, session, home.repository, home.root):
        home.hook(host, payload)


def _played(host: str) -> str:
    """The host whose payloads stand for those of this one: they are written for two."""
    return host if host in ("claude-code", "codex") else "claude-code"


def payloads(project: Project, session: Project, repository: str, root: str) -> Iterator[tuple[str, Project]]:
    """What the hooks of a session are given, each with its host."""
    host, id_ = session["host"], str(uuid.uuid5(uuid.NAMESPACE_URL, f"{project['id']}-{session['id']}"))
    host = _played(host)
    common = {"session_id": id_, "cwd": repository, "transcript_path": os.path.join(root, f"{id_}.jsonl")}
    common["permission_mode"] = "default"
    yield host, common | {"hook_event_name": "SessionStart", "source": "startup"}
    for number, turn in enumerate(session["turns"], 1):
        key = {"turn_id" if host == "codex" else "prompt_id": f"{id_}-{number}"}
        yield host, common | key | {"hook_event_name": "UserPromptSubmit", "prompt": turn["user"]}
        for at, tool in enumerate(turn.get("tools", [])):
            given = tool["input"] if isinstance(tool["input"], dict) else {"command": tool["input"]}
            output = tool["output"] if isinstance(tool["output"], str) else json.dumps(tool["output"])
            used = {"tool_name": tool["name"], "tool_input": given, "tool_use_id": f"{id_}-{number}-{at}"}
            answer: Any = {"stdout": output, "stderr": "", "interrupted": False} if tool["name"] == "Bash" else output
            yield host, common | key | used | {"hook_event_name": "PostToolUse", "tool_response": answer}
        said = {"hook_event_name": "Stop", "stop_hook_active": False, "last_assistant_message": turn["assistant"]}
        yield host, common | key | said
    yield host, common | {"hook_event_name": "SessionEnd", "reason": "other"}


def lines_of(block: str) -> list[Line]:
    """The lines of a block, each with its section."""
    found, section = list[Line](), "other"
    for line in block.splitlines():
        if line.startswith("#"):
            title = line.lstrip("# ").casefold()
            section = next((name for name, starts in SECTIONS.items() if title.startswith(starts)), "other")
        elif line.lstrip().startswith("- "):
            found.append({"section": section, "text": re.sub(r"^\s*- (\[[^\]]*\] )?", "", line)})
    return found


def run(filrouge: str, project: Project) -> Found:
    """Play a project; what came of it."""
    home = Home(filrouge, project["project"]["name"].replace(" ", "-"))
    try:
        probes = dict[str, list[Line]]()
        for session in project["sessions"]:
            play(home, project, session)
            home.settle()
            for asked in (one for one in project["probes"] if one["after"] == session["id"]):
                words = ["--session-start"] if asked["kind"] == "start" else ["--", asked["prompt"]]
                host = _played(asked["host"])
                given = json.loads(home.run("context", "--host", host, "--json", *words))
                probes[asked["id"]] = lines_of(given["context"])
        rows = {row["id"]: row for row in [*home.ask("facts", "--all"), *home.ask("rules", "--all")]}
        memories = [_memory(row) for row in rows.values()]
        return {"memories": memories, "probes": probes, "threads": _threads(home, project)}
    finally:
        home.run("daemon", "stop")


def _memory(row: Mapping[str, Any]) -> Line:
    state = row.get("state") or ("superseded" if row.get("valid_to") else "live")
    scope: Any = row.get("scope", "project")
    of_user = scope == "user" or (isinstance(scope, dict) and "project" not in scope)
    return {"text": row["text"], "scope": "user" if of_user else "project", "state": STATES.get(state, state)}


def _threads(home: Home, project: Project) -> dict[str, str]:
    """By `session:turn` the thread of its prompt."""
    places = _places(project)
    kept = Path(home.root, "all.jsonl")
    home.run("export", "--format", "jsonl", "--out", str(kept))
    found = dict[str, str]()
    rows: list[Project] = [json.loads(line) for line in kept.read_text("utf-8").splitlines()]
    for row in rows:
        placed: Project = row.get("placed") or {}
        thread = str(placed.get("thread_id") or row.get("thread_id") or "")
        if row.get("table") == "messages" and row.get("role") == "user" and thread:
            found |= dict.fromkeys(places[row["text"].strip()], thread)
    return found


def _places(project: Project) -> dict[str, list[str]]:
    """By the text of a prompt where it stands, as `session:turn`."""
    places: dict[str, list[str]] = defaultdict(list)
    for session in project["sessions"]:
        for number, turn in enumerate(session["turns"], 1):
            places[turn["user"].strip()].append(f"{session['id']}:{number}")
    return places


def run_here(project: Project) -> Found:
    """Play a project in this process; what came of it."""
    name = project["project"]["name"].replace(" ", "-")
    with tempfile.TemporaryDirectory() as root, running(os.path.join(root, "home"), embedding="e5") as parts:
        repository = os.path.join(root, name)
        for words in (["init", "-q", repository], ["-C", repository, "remote", "add", "origin", f"x:{name}.git"]):
            subprocess.run(["git", *words], check=True)
        place, probes = "", dict[str, list[Line]]()
        for session in project["sessions"]:
            place = tell(parts, project, session, repository, root) or place
            idle(parts, 300)
            for asked in (one for one in project["probes"] if one["after"] == session["id"]):
                [event] = events(*_asking(asked, repository))
                probes[asked["id"]] = lines_of(preview(parts, event, place).block.text)
        return parts.readers.here(lambda tx: _found_in(parts, tx, project, place)) | {"probes": probes}


def tell(parts: Parts, project: Project, session: Project, repository: str, root: str) -> str:
    """Let one session happen in this process; the id of its project."""
    place = ""
    for host, payload in payloads(project, session, repository, root):
        for event in events(host, payload):
            place = store_events(parts, [event]).result().projects[-1] or place
    return place


def events(host: str, payload: Project) -> list[Event]:
    """What a hook's payload comes to."""
    now = SystemClock().now()
    return hosts.parse(payload, host=host, environ={}, at=now.timestamp(), new_id=partial(new_id, now))


def _asking(probe: Project, repository: str) -> tuple[str, Project]:
    host = _played(probe["host"])
    common = {
        "session_id": f"asked-{probe['id']}",
        "cwd": repository,
        "transcript_path": "",
        "permission_mode": "default",
    }
    if probe["kind"] == "start":
        return host, common | {"hook_event_name": "SessionStart", "source": "startup"}
    return host, common | {"hook_event_name": "UserPromptSubmit", "prompt": probe["prompt"]}


def _found_in(parts: Parts, tx: Tx, project: Project, place: str) -> Found:
    known = parts.memories(tx).within(project=place, user=LOCAL_USER, all_states=True)
    memories = [
        {"text": one.text, "scope": one.scope_name, "state": STATES.get(one.state, one.state)}
        for one in known
        if one.kind != "note"
    ]
    asked = {"user_id": LOCAL_USER, "everywhere": True, "project_id": None, "agent": None, "since": "", "until": "9"}
    places, threads = _places(project), dict[str, str]()
    for row in tx.all("turns.prompts", asked | {"limit": 100_000}):
        if row["thread_id"]:
            threads |= dict.fromkeys(places[row["text"].strip()], row["thread_id"])
    return {"memories": memories, "threads": threads}


@dataclass(kw_only=True, slots=True)
class Scores:
    """Hits and numbers by measure, and by measure and language."""

    counts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    threads: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def add(self, measure: str, hit: bool, language: str) -> None:
        """Count one case."""
        for name in (measure, f"{measure} [{language}]"):
            self.counts[name][0] += hit
            self.counts[name][1] += 1

    def share(self, measure: str) -> float:
        """In [0, 1]."""
        if measure in ("threads F1", "largest thread"):
            of = [pair[measure == "largest thread"] for pair in self.threads]
            return sum(of) / max(1, len(of))
        hits, number = self.counts.get(measure, [0, 0])
        return hits / max(1, number)


def score(project: Project, found: Found, scores: Scores) -> None:
    """Add what one project came to."""
    _score_memories(project, found["memories"], scores)
    statements = {one["id"]: one for one in project["statements"]}
    newer: dict[str, list[Any]] = defaultdict(list)
    for one in statements.values():
        newer[one.get("supersedes") or ""].append(one["keys"])
    for probe in project["probes"]:
        _score_probe(probe, found["probes"].get(probe["id"], []), statements, newer, scores, project["language"])
    _score_threads(project, found["threads"], scores)


def _score_memories(project: Project, memories: Sequence[Line], scores: Scores) -> None:
    language, used = project["language"], set[int]()
    live = [one for one in memories if one["state"] == "live"]
    told = [one for one in memories if one["state"] in ("live", "superseded")]
    ended = {one["supersedes"] for one in project["statements"] if one.get("supersedes")}
    for one in project["statements"]:
        matching = [at for at, memory in enumerate(live) if speaks_of(memory["text"], one["keys"])]
        used.update(matching)
        learned = any(speaks_of(memory["text"], one["keys"]) for memory in told)
        if one["id"] not in ended:
            kept = any(live[at]["scope"] == one["scope"] for at in matching)
            scores.add("kept", kept, language)
            scores.add(f"kept: {one['kind']}", kept, language)
            if learned:
                scores.add("false end", not matching, language)
        elif learned:
            later = [other["keys"] for other in project["statements"] if other.get("supersedes") == one["id"]]
            # What names the old value and the new ("moved from 1 to 2") states the new one.
            old = [at for at in matching if not any(speaks_of(live[at]["text"], keys) for keys in later)]
            scores.add("replaced", not old, language)
    for at in range(len(live)):
        scores.add("junk", at not in used, language)


def _score_probe(
    probe: Project,
    lines: Sequence[Line],
    statements: Mapping[str, Project],
    newer: Mapping[str, list[Any]],
    scores: Scores,
    language: str,
) -> None:
    text = "\n".join(line["text"] for line in lines)
    wanted = [statements[id_]["keys"] for id_ in [*probe.get("expect", []), *probe.get("accept", [])]]
    apart = [
        (line, any(speaks_of(line["text"], keys) for keys in wanted)) for line in lines if line["section"] != "rules"
    ]
    if probe["kind"] in ("unknown", "unrelated"):
        scores.add("silence", all(good for _, good in apart), language)
    else:
        for id_ in probe.get("expect", []):
            there = speaks_of(text, statements[id_]["keys"])
            scores.add("delivered", there, language)
            scores.add(f"delivered: {probe['kind']}", there, language)
        for line, good in apart:
            scores.add("start lines" if probe["kind"] == "start" else "precision", good, language)
            if probe["kind"] != "start":
                scores.add(f"precision: {line['section']}", good, language)
    if probe.get("forbid"):
        stale = any(
            speaks_of(line["text"], statements[id_]["keys"]) and not any(speaks_of(line["text"], k) for k in newer[id_])
            for id_ in probe["forbid"]
            for line in lines
        )
        scores.add("stale", stale, language)


def _score_threads(project: Project, found: Mapping[str, str], scores: Scores) -> None:
    truth = {
        f"{session['id']}:{number}": turn["thread"]
        for session in project["sessions"]
        for number, turn in enumerate(session["turns"], 1)
        if turn.get("thread", "-") != "-"
    }
    placed = [place for place in truth if place in found]
    pairs = Counter((truth[a] == truth[b], found[a] == found[b]) for a, b in combinations(placed, 2))
    both, missed, wrong = pairs[True, True], pairs[True, False], pairs[False, True]
    largest = max(Counter(found[place] for place in placed).values(), default=0)
    scores.threads.append((2 * both / max(1, 2 * both + missed + wrong), largest / max(1, len(placed))))


def interval(hits: int, number: int) -> tuple[float, float]:
    """Wilson's interval of a share, 95 % (E. B. Wilson, 1927)."""
    share, z = hits / number, 1.96
    middle = share + z * z / (2 * number)
    half = z * math.sqrt(share * (1 - share) / number + z * z / (4 * number * number))
    return (middle - half) / (1 + z * z / number), (middle + half) / (1 + z * z / number)


def written(scores: Scores) -> Iterator[str]:
    """The table, a line each."""
    yield "| measure | share | n | 95 % | gate |"
    yield "|---|--:|--:|---|---|"
    names = [*GATES, *sorted(name for name in scores.counts if name not in GATES)]
    for name in names:
        hits, number = scores.counts.get(name, [0, 0])
        low, high = interval(hits, number) if number else (0.0, 1.0)
        between = f"{low:.2f} to {high:.2f}" if number else ""
        gate = f"{'≥' if GATES[name][1] else '≤'} {GATES[name][0]:.2f}" if name in GATES else ""
        yield f"| {name} | {scores.share(name):.3f} | {number or len(scores.threads)} | {between} | {gate} |"


def main() -> int:
    """Run, score, write."""
    parser = argparse.ArgumentParser(description="The product on labelled talk.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--filrouge", default=os.path.join(os.path.dirname(sys.executable), "filrouge"))
    parser.add_argument("--only", default="", help="projects whose name holds this")
    parser.add_argument("--keep", type=Path, help="a folder for what was found")
    parser.add_argument("--without", default="", help="score as if these sections (comma between) were not shown")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--here", action="store_true", help="play in this process")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    scores, hidden = Scores(), set(given.without.split(","))
    for path in sorted(given.data.glob("*.json")):
        if given.only not in path.stem:
            continue
        project, kept = read(path), given.keep and given.keep / path.name
        if kept and kept.exists():
            found = json.loads(kept.read_text("utf-8"))
        else:
            found = run_here(project) if given.here else run(os.path.abspath(given.filrouge), project)
            print(f"{path.stem}: {len(found['memories'])} memories", flush=True)
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", "utf-8")
        for lines in found["probes"].values():
            lines[:] = [line for line in lines if line["section"] not in hidden]
        score(project, found, scores)
    if not scores.threads:
        print(f"There is no talk in {given.data}.", file=sys.stderr)
        return 2
    table = "\n".join(written(scores))
    print(table)
    if given.out:
        given.out.write_text(table + "\n", "utf-8")
    missed = [name for name, (gate, more) in GATES.items() if (scores.share(name) < gate) is more]
    return int(given.check and bool(missed))


if __name__ == "__main__":
    sys.exit(main())
