"""A home as a year of work would leave it, for the tests, the benchmark and the pictures of the dashboard.

    python -m tests.support.dashboard_store HOME --memories 100000

Statements are those of `bench/data/talk`: three languages, a hundred projects, all kinds; where more are wanted than
there are, they come again with another number. Everything is written through the repositories that the daemon uses, at
the time when it would have happened, in large transactions; so rows are sealed, journalled and in the full-text index.
No daemon may run on the home meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, cast

from filrouge.capture.events import Event
from filrouge.capture.models import TRUST_AGENT, TRUST_PROMPT, TRUST_TYPED, Turn
from filrouge.capture.repository import Events
from filrouge.context.log import Recalls
from filrouge.core.clock import SystemClock, new_id
from filrouge.core.paths import DATABASE
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER, Scope
from filrouge.extraction.models import EMPTY_ANALYSIS
from filrouge.extraction.repository import Analyses, Session
from filrouge.memories.models import Conflict, Kind, Span, Statement, Update
from filrouge.memories.repository import Origin, UserChanges
from filrouge.projects.repository import Projects
from filrouge.providers.hashing import StableHash
from filrouge.providers.models import Usage
from filrouge.providers.usage_repository import LlmUsage
from filrouge.runtime import wiring
from filrouge.runtime.jobs import MAX_ATTEMPTS, Jobs
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.runtime.sqlite import Database
from filrouge.search.models import Recall, RecallItem
from filrouge.search.repository import StoredVectors
from filrouge.threads.models import BRIDGE_KINDS, Bridge, Point, Routing, Synthesis, Thread
from filrouge.threads.repository import Bridges, Syntheses, ThreadDecisions, Threads
from filrouge.threads.upkeep import update_vector

ENVIRON: Final = {"FILROUGE_EMBEDDING_MODEL": "hashing"}
YEAR: Final = timedelta(days=365)
#: A little less than how long the recall log is kept.
MONTH: Final = timedelta(days=28)
AT_ONCE: Final = 2_000
_TALK: Final = Path(__file__).parents[2] / "bench" / "data" / "talk" / "train"
_KINDS: Final[dict[str, Kind]] = {"deadline": "intent", "cause": "fact"}
_CHANNELS: Final = ("claude-code", "codex", "gemini", "openclaw", "cursor")
_OF_A_THREAD: Final = 40
_SEED: Final = 7
_FEW_PROJECTS: Final = 12
_SHORTEST: Final = 12
_NOTES: Final = 200
_TITLES: Final = ("Deployment", "Recette de la soupe", "Puerto de pruebas", "Reading list", "Meeting of Monday")


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """A statement of the recorded talk."""

    project: str
    kind: Kind
    everywhere: bool
    text: str


@dataclass(kw_only=True, slots=True)
class Filled:
    """What a home was filled with; ids in the order in which they came up."""

    memories: list[str] = field(default_factory=list[str])
    live: list[str] = field(default_factory=list[str])
    replaced: list[str] = field(default_factory=list[str])
    binned: list[str] = field(default_factory=list[str])
    in_review: list[str] = field(default_factory=list[str])
    threads: list[str] = field(default_factory=list[str])
    turns: list[str] = field(default_factory=list[str])
    recalls: list[str] = field(default_factory=list[str])
    vault: str = ""


@cache
def talk() -> tuple[Said, ...]:
    """The statements of the recorded talk, those of one project together."""
    found: list[Said] = []
    for path in sorted(_TALK.glob("*.json")):
        one = json.loads(path.read_text(encoding="utf-8"))
        for statement in one["statements"]:
            kind = cast("Kind", _KINDS.get(statement["kind"], statement["kind"]))
            text = " ".join(statement["quote"].split())
            if len(text) >= _SHORTEST:
                everywhere = statement["scope"] == "user"
                found.append(Said(project=one["project"]["name"], kind=kind, everywhere=everywhere, text=text))
    return tuple(found)


def _some_talk(memories: int) -> list[Said]:
    """The talk of all projects where many memories are wanted, else of some."""
    names = list(dict.fromkeys(one.project for one in talk()))
    kept = set(names if memories > len(talk()) else random.Random(_SEED).sample(names, _FEW_PROJECTS))
    return [one for one in talk() if one.project in kept]


def fill(home: str, memories: int = 300, *, said: Sequence[Said] = (), of_a_session: int = 20) -> Filled:
    """Fill a home whose daemon does not run with so many memories, the newest of now.

    Args:
        said: statements to take in the place of the recorded talk.
        of_a_session: how many statements were made in one session; all are about one project.
    """
    parts = wiring.build(home, environ=ENVIRON, clock=SystemClock())
    parts.readers.close()
    parts.writer.close()
    database = Database(os.path.join(home, DATABASE))
    try:
        with database.transaction() as tx:
            dead_job(tx, SystemClock().now())
        year = _Year(parts, memories, said or _some_talk(memories), of_a_session)
        for first in range(0, memories, AT_ONCE):
            with database.transaction() as tx:
                year.live_through(tx, range(first, min(memories, first + AT_ONCE)))
        with database.transaction() as tx:
            year.settle(tx)
        database.checkpoint()
    finally:
        database.close()
        parts.embedders.close()
    year.filled.vault = vault(home, [one.text for one in said[:_NOTES]] or _TITLES)
    return year.filled


def dead_job(tx: Tx, at: datetime) -> None:
    """Leave a job that has failed as often as it may; no other may be due."""
    jobs = Jobs(tx)
    jobs.enqueue("digest", {"host": "claude-code", "session": "lost"}, dedupe="digest:lost", at=at)
    for attempt in range(MAX_ATTEMPTS):
        [job] = jobs.lease("tests", at + timedelta(hours=attempt + 1))
        jobs.fail(job, "EmbedderUnavailable: the model could not be loaded", at + timedelta(hours=attempt + 1))


def vault(home: str, titles: Sequence[str]) -> str:
    """Write a vault with a note of each title beside the home; return its folder, which is the home's setting."""
    folder = Path(_vault_of(home))
    folder.mkdir(exist_ok=True)
    for number, title in enumerate(titles):
        tags = "tags: [filrouge]\n" if number % 3 == 0 else f"tags: [{json.dumps(title)}]\n"
        text = f"---\n{tags}---\n# {title}\n\nWhat is kept under {title}, note {number}.\n"
        (folder / f"{title.replace('/', '-')[:80]} {number}.md").write_text(text, encoding="utf-8")
    return str(folder)


def _vault_of(home: str) -> str:
    return os.path.join(os.path.dirname(home), f"{os.path.basename(home)}-vault")


class _Year:
    """Writes what happened, oldest first."""

    def __init__(self, parts: Parts, memories: int, said: Sequence[Said], of_a_session: int) -> None:
        self.filled = Filled()
        self._parts, self._count, self._of_a_session = parts, memories, of_a_session
        self._chance = random.Random(_SEED)
        self._began, self._step = parts.clock.now() - YEAR, YEAR / memories
        self._space, self._hashing = parts.vectors.space.id, StableHash()
        of_projects: dict[str, list[Said]] = {}
        for one in said:
            of_projects.setdefault(one.project, []).append(one)
        self._said = list(of_projects.values())
        self._next = [0] * len(self._said)
        self._ids: dict[str, str | None] = {}
        self._of_project: dict[str | None, list[str]] = {}
        self._thread_of: dict[str | None, Thread] = {}
        self._members: dict[str, int] = {}

    def live_through(self, tx: Tx, numbers: Sequence[int]) -> None:
        """Write the memories of these numbers with what belongs to them."""
        written = [(number, one) for number in numbers for one in [self._statement(number)]]
        vectors = self._hashing.passages([text for _, (_, text) in written])
        for (number, (said, text)), vector in zip(written, vectors, strict=True):
            at = self._began + self._step * number + timedelta(seconds=self._chance.uniform(0, 1))
            project = self._project(tx, said, at)
            turn = self._turn(tx, number, text, at, project)
            StoredVectors(tx).put("turn", turn.id, self._space, vector[None, :])
            memory = self._remember(tx, number, said, text, turn)
            StoredVectors(tx).put("memory", memory, self._space, vector[None, :])
            self.filled.memories.append(memory)
            if (number + 1) % self._of_a_session == 0 or number == self._count - 1:
                self._recall(tx, number, project)
                self._end_session(tx, turn)

    def settle(self, tx: Tx) -> None:
        """Write what is decided at the end: pins, the bin, threads with their vectors and bridges, costs."""
        parts, chance = self._parts, self._chance
        hand = Origin(scope=Scope(channel="cli"), trust=TRUST_TYPED, at=self._began + YEAR, actor="user")
        ended = set(self.filled.replaced) | set(self.filled.in_review)
        self.filled.live = [id_ for id_ in self.filled.memories if id_ not in ended]
        changes = UserChanges(tx, parts.analyser)
        for id_ in chance.sample(self.filled.live, max(3, self._count // 100)):
            changes.pin(id_, hand)
        for id_ in chance.sample(self.filled.live, max(3, self._count // 50)):
            parts.memories(tx).bin(id_, hand, "by hand")
            self.filled.binned.append(id_)
        gone = set(self.filled.binned)
        self.filled.live = [id_ for id_ in self.filled.live if id_ not in gone]
        self._bridges(tx)
        for day in range(60):
            at = self._began + YEAR - timedelta(days=day)
            usage = Usage(calls=3 + day % 5, input_tokens=4_000 + 37 * day, output_tokens=800, dollars=0.012)
            LlmUsage(tx).add("extract", {("anthropic", "claude-haiku"): usage}, at)
        StoredSettings(tx).put({"notes_folder": _vault_of(parts.home)}, self._began + YEAR)

    def _statement(self, number: int) -> tuple[Said, str]:
        """The next statement of the project that this number's session is about."""
        place = number // self._of_a_session * 7 % len(self._said)
        again, within = divmod(self._next[place], len(self._said[place]))
        self._next[place] += 1
        said = self._said[place][within]
        return said, f"{said.text} ({again})" if again else said.text

    def _session(self, number: int) -> tuple[str, str]:
        """The agent and the session in which the memory of that number came up."""
        session = number // self._of_a_session
        return _CHANNELS[session % len(_CHANNELS)], f"session-{session}"

    def _project(self, tx: Tx, said: Said, at: datetime) -> str | None:
        if said.project not in self._ids:
            self._ids[said.project] = Projects(tx).resolve((f"name:{said.project}",), at=at)
        return self._ids[said.project]

    def _turn(self, tx: Tx, number: int, text: str, at: datetime, project: str | None) -> Turn:
        """Store the prompt in which it was said, and place it in a thread."""
        channel, session = self._session(number)
        said = f"One thing before you start. {text} Then look at the failing test, please."
        event = Event(
            new_id(at), channel, "prompt", session, at.timestamp(), f"k{number}", "", (), "", "", {"text": said}
        )
        Events(tx).add(event, received_at=at)
        Events(tx).settle(
            event.id, "skipped" if number % 9 == 8 else "done", "nothing stated" if number % 9 == 8 else ""
        )
        scope = Scope(user=LOCAL_USER, project=project, channel=channel, session=session, branch="main")
        turn = Turn(
            id=new_id(at), key=f"k{number}", scope=scope, host=channel, role="user", source="prompt", text=said, at=at,
            trust=TRUST_PROMPT, event_id=event.id,
        )  # fmt: skip
        self._parts.turns(tx).add(turn)
        self.filled.turns.append(turn.id)
        thread = self._thread(tx, turn, text)
        Threads(tx).place(turn.id, thread.id, at, text.lower().split()[:3])
        routing = Routing(
            action="continue", thread_id=thread.id, similarity=0.8, candidates=(), reason="the same words and project"
        )
        ThreadDecisions(tx).log(turn.id, thread.id, routing, at=at)
        return turn

    def _thread(self, tx: Tx, turn: Turn, text: str) -> Thread:
        project = turn.scope.project
        open_ = self._thread_of.get(project)
        if open_ is None or self._members[open_.id] >= _OF_A_THREAD:
            title = f"{text[:60].rstrip('.,;: ')} ({len(self.filled.threads) + 1})"
            age = self._began + YEAR - turn.at
            state = "active" if age < timedelta(days=5) else "suspended" if age < timedelta(days=20) else "archived"
            open_ = Thread(
                id=new_id(turn.at), user=LOCAL_USER, project=project, channel=turn.scope.channel, title=title,
                title_by="user", summary=text, topics=tuple(dict.fromkeys(text.lower().split()[:4])), opened_at=turn.at,
                last_active=turn.at, state=state, suspended_at=turn.at if state == "suspended" else None,
            )  # fmt: skip
            Threads(tx).add(open_)
            self._thread_of[project], self._members[open_.id] = open_, 0
            self.filled.threads.append(open_.id)
        self._members[open_.id] += 1
        return open_

    def _remember(self, tx: Tx, number: int, said: Said, text: str, turn: Turn) -> str:
        """Store the statement as it became in the end: added, replacing another, or waiting for review."""
        memories, start = self._parts.memories(tx), turn.text.index(text)
        statement = Statement(
            kind=said.kind, text=text, span=Span(start=start, end=start + len(text)),
            scope="user" if said.everywhere else "project", confidence=round(self._chance.uniform(0.55, 0.98), 2),
        )  # fmt: skip
        trust = TRUST_AGENT if number % 11 == 10 else TRUST_TYPED if number % 13 == 12 else TRUST_PROMPT
        origin = Origin(scope=turn.scope, trust=trust, at=turn.at, turn_id=turn.id)
        before = self._of_project.setdefault(None if said.everywhere else turn.scope.project, [])
        if number % 100 == 50:
            action = memories.quarantine(statement, origin, "the passage does not say so clearly")
            self.filled.in_review.append(action.memory_id)
            return action.memory_id
        if number % 100 == 75 and before:
            decision = Conflict(statement=statement, existing_id=before[-1], reason="both cannot be true")
            action = memories.apply(decision, origin)
            self.filled.in_review.append(action.review)
            return action.review
        if number % 8 == 7 and before:
            old = before.pop(self._chance.randrange(len(before)))
            action = memories.apply(Update(statement=statement, old_ids=(old,), reason="said anew"), origin)
            self.filled.replaced.append(old)
        else:
            action = memories.add(statement, origin, "new")
        before.append(action.memory_id)
        return action.memory_id

    def _recall(self, tx: Tx, number: int, project: str | None) -> None:
        """Log what went in front of a prompt, in the last month."""
        at = self._began + YEAR - MONTH * (1 - (number + 1) / self._count)
        known = self._of_project.get(project, [])[-6:]
        kinds = {id_: memory.kind for id_, memory in self._parts.memories(tx).some(known).items()}
        items = [_candidate(id_, kinds[id_], place) for place, id_ in enumerate(known)]
        given = [item.id for item in items if item.injected]
        channel, session = self._session(number)
        recall = Recall(
            id=new_id(at), at=at, channel=channel, session=session, project=project,
            preview=f"What do we know about {talk()[number % len(talk())].text[:80]}?", memories_injected=len(given),
            tokens_added=30 * len(given), items=tuple(items), notices=(), nonce="", latency_ms=8.0 + number % 17,
            outcome="delivered" if given else "empty",
        )  # fmt: skip
        Recalls(tx).add(recall)
        self._parts.memories(tx).used(given, at)
        LlmUsage(tx).add_recall(channel, recall.tokens_added, at)
        self.filled.recalls.append(recall.id)

    def _end_session(self, tx: Tx, turn: Turn) -> None:
        """Leave the session as read and summed up, so that the daemon has nothing to do about it."""
        session, analyses = Session(host=turn.host, id=turn.scope.session), Analyses(tx, self._parts.analyser)
        turns, until = analyses.turns(session)
        hand = Origin(scope=turn.scope, trust=TRUST_AGENT, at=turn.at)
        analyses.keep(session, EMPTY_ANALYSIS, until, hand)
        thread = Threads(tx).of_turns([turn.id])[turn.id]
        synthesis = Synthesis(
            id=new_id(turn.at), host=turn.host, session=session.id, user=LOCAL_USER, project=turn.scope.project,
            thread_id=thread, occasion="session_end", at=turn.at, until=until, channel=turn.scope.channel,
            state=tuple(Point(text=one.text[:120], turn_id=one.id, trust=one.trust) for one in turns[-2:]),
        )  # fmt: skip
        Syntheses(tx).replace_for_session(session, [synthesis])

    def _bridges(self, tx: Tx) -> None:
        threads, at = self.filled.threads, self._began + YEAR - timedelta(days=1)
        for thread in threads:
            update_vector(tx, thread, self._space)
        for place, (source, target) in enumerate(pairwise(threads)):
            Bridges(tx).put(
                Bridge(
                    id=new_id(at), source=source, target=target, kind=BRIDGE_KINDS[place % len(BRIDGE_KINDS)],
                    reason="both speak of the same service", confidence=0.7, made_by="rules", created_at=at,
                    reinforced_at=at,
                )
            )  # fmt: skip


def _candidate(id_: str, kind: str, place: int) -> RecallItem:
    """A candidate as the recall log holds it; the first three were injected."""
    relevance = round(0.8 - 0.1 * place, 4)
    scores = {
        "section": "rules" if kind == "rule" else "memories", "value": relevance, "similarity": relevance,
        "relevance": relevance, "needed": 0.3 - 0.2 * place, "known": 0.9, "anything": 0.7,
    }  # fmt: skip
    shown = place < 3
    return RecallItem(id=id_, kind=kind, injected=shown, reason="" if shown else "over the budget", scores=scores)


def main() -> None:
    """Fill a home, and say how long it took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("home")
    parser.add_argument("--memories", type=int, default=300)
    asked = parser.parse_args()
    began = time.perf_counter()
    filled = fill(os.path.abspath(asked.home), asked.memories)
    seconds = time.perf_counter() - began
    print(
        f"{len(filled.memories):,} memories, {len(filled.threads):,} threads in {seconds:.1f} s; vault {filled.vault}"
    )


if __name__ == "__main__":
    main()
