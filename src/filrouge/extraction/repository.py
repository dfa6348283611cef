"""Analyses of sessions in the database, and how far a model has read each conversation."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from filrouge.capture.models import Turn
from filrouge.capture.repository import text_hash, turn_from_row
from filrouge.core.clock import after, new_id, to_text
from filrouge.core.protocols import Analyser, Tx
from filrouge.extraction.models import Analysis, Entity, Point, Quote
from filrouge.memories.models import Noop, Span, Statement, Update
from filrouge.memories.repository import Memories, Origin

# Analyses as the JSON that is stored and back again.


def analysis_to_text(analysis: Analysis) -> str:
    """The whole analysis as JSON."""
    return json.dumps(asdict(analysis), ensure_ascii=False)


def analysis_from_text(text: str) -> Analysis:
    """What `analysis_to_text` wrote."""
    raw: Mapping[str, Any] = json.loads(text)
    return Analysis(
        summary=raw["summary"],
        intent=raw["intent"],
        language=raw["language"],
        made_by=raw["made_by"],
        questions=_quotes(raw["questions"]),
        decisions=_quotes(raw["decisions"]),
        preferences=_quotes(raw["preferences"]),
        intents=_quotes(raw["intents"]),
        constraints=_quotes(raw["constraints"]),
        concepts=tuple(raw["concepts"]),
        implicit_context=tuple(raw["implicit_context"]),
        entities=tuple(Entity(**one) for one in raw["entities"]),
        points=tuple(Point(**one) for one in raw["points"]),
    )


def _quotes(raw: Sequence[Mapping[str, Any]]) -> tuple[Quote, ...]:
    return tuple(Quote(text=one["text"], turn_id=one["turn_id"], span=Span(**one["span"])) for one in raw)


# Analyses: what each session came to, how far it was read, and the memories that sum it up.
#
# A session has one live episode, which a later analysis supersedes, and mentions concepts; a concept is one memory of
# its project however many sessions speak of it, and counts them. The cache is a table, so every worker sees it and
# the store settles races. Everything here is derived from turns: where one is erased, what its session came to goes
# as a whole.

#: The cache: how long an analysis is fresh, above how many some go, and how many of the newest then stay.
FRESH_SECONDS: Final = 3600.0
MOST_CACHED, KEPT_CACHED = 80, 50
#: Turns of a session that are read at once, and characters of each tool's output.
_MOST_TURNS, _OF_TOOLS = 400, 4000


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A host's session."""

    host: str
    id: str

    @property
    def parameters(self) -> dict[str, object]:
        """As named queries take it."""
        return {"host": self.host, "session_id": self.id}


@dataclass(frozen=True, kw_only=True, slots=True)
class Analysed:
    """The last analysis of a session, with the number of the last turn it read and the memory of its summary."""

    analysis: Analysis
    until: int
    episode: str | None


class Analyses:
    """The analyses of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser
        self._memories = Memories(tx, analyser)

    def find(self, session_id: str) -> Session | None:
        """The session with this id, of the host that spoke last; None where no turn has it."""
        row = self._tx.one("turns.host_of_session", {"session_id": session_id})
        return Session(host=row["host"], id=session_id) if row else None

    def turns(self, session: Session, *, behind: int = 0) -> tuple[list[Turn], int]:
        """The session's turns behind a number, of very many the newest, and the number of the last one."""
        asked = session.parameters | {"after": behind, "limit": _MOST_TURNS, "of_tools": _OF_TOOLS}
        rows = self._tx.all("turns.of_session", asked)
        return [turn_from_row(row) for row in reversed(rows)], (int(rows[0]["seq"]) if rows else behind)

    def are_there(self, turns: Collection[Turn]) -> bool:
        """True if none of these turns was erased meanwhile."""
        row = self._tx.one("turns.present", {"ids": json.dumps([turn.id for turn in turns])})
        return row is not None and row["n"] == len(turns)

    def of(self, session: Session) -> Analysed | None:
        """The session's last analysis."""
        row = self._tx.one("analyses.of", session.parameters)
        if row is None:
            return None
        return Analysed(analysis=analysis_from_text(row["analysis"]), until=row["until_seq"], episode=row["episode_id"])

    def idle(self, before: datetime, *, newest: int, limit: int) -> list[Session]:
        """Sessions of the newest turns that said something since their last analysis, and nothing since `before`."""
        rows = self._tx.all("turns.idle_sessions", {"before": to_text(before), "newest": newest, "limit": limit})
        return [Session(host=row["host"], id=row["session_id"]) for row in rows]

    def cached(self, session: Session, history_hash: str, at: datetime) -> Analysis | None:
        """What the same session with the same history came to within the last hour."""
        since = to_text(after(at, -FRESH_SECONDS))
        row = self._tx.one("analyses.cached", session.parameters | {"history_hash": history_hash, "since": since})
        return analysis_from_text(row["analysis"]) if row else None

    def cache(self, session: Session, history_hash: str, analysis: Analysis, at: datetime) -> None:
        """Remember an analysis for an hour; of too many the newest stay."""
        text = analysis_to_text(analysis)
        row = session.parameters | {"history_hash": history_hash, "analysis": text, "at": to_text(at)}
        self._tx.run("analyses.cache", row)
        self._tx.run("analyses.expire", {"since": to_text(after(at, -FRESH_SECONDS))})
        if self.cache_size() > MOST_CACHED:
            self._tx.run("analyses.evict", {"keep": KEPT_CACHED})

    def cache_size(self) -> int:
        """How many analyses are remembered."""
        row = self._tx.one("analyses.cached_count")
        return int(row["n"]) if row else 0

    def unread(self) -> list[Session]:
        """Sessions that said something since their last analysis, or were never analysed; who spoke last comes last."""
        rows = self._tx.all("turns.unread_sessions")
        return [Session(host=row["host"], id=row["session_id"]) for row in rows]

    def keep(self, session: Session, analysis: Analysis, until: int, origin: Origin) -> int:
        """Keep what a session came to: its summary as an episode, its concepts as mentions; how many memories that
        made."""
        former, made = self.of(session), 0
        episode = former.episode if former else None
        if analysis.summary and (former is None or episode is None or analysis.summary != former.analysis.summary):
            episode = self._keep_episode(analysis, episode, origin)
            made += 1
        made += sum([self._mention(session, concept, origin) for concept in analysis.concepts])
        row = session.parameters | {"until_seq": until, "analysis": analysis_to_text(analysis)}
        self._tx.run("analyses.keep", row | {"episode_id": episode, "at": to_text(origin.at)})
        return made

    def concepts(self, *, project: str | None, everywhere: bool, limit: int) -> list[dict[str, Any]]:
        """The concepts of a project or of all, those of most sessions first, with their sessions and threads."""
        asked = {"project_id": project, "everywhere": everywhere, "limit": limit}
        rows = self._tx.all("memories.concepts", asked)
        lists = ("sessions", "thread_ids")
        return [row | {name: json.loads(row[name]) for name in lists} for row in rows]

    def about(self, memories: Sequence[str], turns: Sequence[str]) -> list[Session]:
        """The analysed sessions that these memories sum up, or that these turns belong to."""
        rows = self._tx.all("analyses.about", {"memories": json.dumps(memories), "turns": json.dumps(turns)})
        return [Session(host=row["host"], id=row["session_id"]) for row in rows]

    def sums(self, sessions: Sequence[Session]) -> tuple[str, ...]:
        """The memories that go with sessions: every summary of them, and the concepts that no other spoke of."""
        listed = {"sessions": _listed(sessions)}
        spoken = [row["memory_id"] for row in self._tx.all("analyses.spoken_of", listed) if not row["others"]]
        return (*(row["id"] for row in self._tx.all("memories.sums_of", listed)), *spoken)

    def forget(self, sessions: Sequence[Session], memories: Sequence[str]) -> None:
        """Take out what sessions came to, but the memories of these ids themselves; the rest is counted again."""
        listed = {"sessions": _listed(sessions)}
        touched = [row["memory_id"] for row in self._tx.all("analyses.spoken_of", listed)]
        self._tx.run("analyses.erase", listed)
        self._tx.run("analyses.uncache", listed)
        self._tx.run("analyses.unmention", listed | {"memories": json.dumps(list(memories))})
        self._tx.run("memories.recount", {"ids": json.dumps(touched)})

    def _keep_episode(self, analysis: Analysis, former: str | None, origin: Origin) -> str:
        statement = Statement(kind="episode", text=analysis.summary, span=Span(start=0, end=0), confidence=0.6)
        if former is None:
            return self._memories.add(statement, origin, "what the session came to").memory_id
        update = Update(statement=statement, old_ids=(former,), reason="the session went on")
        return self._memories.apply(update, origin).memory_id

    def _mention(self, session: Session, concept: str, origin: Origin) -> bool:
        """Mention a concept once for this session, or the one that it was merged into; True for one that is new. One
        that the user put into the bin stays there."""
        subject = " ".join(sorted({forms[-1] for forms in self._analyser.terms(concept)})) or concept
        place = {"user_id": origin.scope.user, "project_id": origin.scope.project, "subject": subject}
        known = self._tx.one("memories.concept", place)
        if known and known["state"] == "superseded":
            known = self._head(known["superseded_by"])
        if known and known["state"] == "binned":
            return False
        statement = Statement(kind="concept", text=concept, span=Span(start=0, end=0), subject=subject, confidence=0.6)
        if known is None:
            id_ = self._memories.add(statement, origin, "a session speaks of it").memory_id
        else:
            id_ = str(known["id"])
            if not self._tx.one("analyses.mentioned", session.parameters | {"memory_id": id_}):
                self._memories.apply(Noop(statement=statement, existing_id=id_, reason="another session"), origin)
        self._tx.run("analyses.mention", session.parameters | {"memory_id": id_, "at": to_text(origin.at)})
        return known is None

    def _head(self, memory_id: str) -> dict[str, Any] | None:
        """What stands for a concept after all merges; None where it is no more."""
        row = self._tx.one("memories.get", {"id": memory_id})
        while row and row["state"] == "superseded" and row["superseded_by"]:
            row = self._tx.one("memories.get", {"id": row["superseded_by"]})
        return row if row and row["state"] in ("live", "binned") else None


def output_hash(text: str) -> str:
    """By which a judgement of tool output is known: of as much of it as is read."""
    return text_hash(text[:_OF_TOOLS])


def _listed(sessions: Sequence[Session]) -> str:
    return json.dumps([[one.host, one.id] for one in sessions])


# How far a model has read each conversation, and its answers that nobody can read (the dead letters of EXT-12).

_INJECTED = 50
_FILES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """Turns that no model has read, in the order they came in, and the place of each in the store."""

    turns: tuple[Turn, ...]
    places: tuple[int, ...]


class Readings:
    """The conversations of one database, as models see them."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def unread(self, host: str, session: str, limit: int) -> Unread:
        """The next turns to read."""
        where = {"host": host, "session_id": session}
        row = self._tx.one("readings.get", where)
        rows = self._tx.all("readings.turns", where | {"seq": row["seq"] if row else 0, "limit": limit})
        return Unread(turns=tuple(turn_from_row(one) for one in rows), places=tuple(one["seq"] for one in rows))

    def read_up_to(self, host: str, session: str, place: int, at: datetime) -> None:
        """Everything of a conversation up to this place is read."""
        self._tx.run("readings.put", {"host": host, "session_id": session, "seq": place, "at": to_text(at)})

    def behind(self) -> int:
        """How many conversations no model has read to their end."""
        row = self._tx.one("readings.behind")
        return int(row["n"]) if row else 0

    def files(self, host: str, session: str) -> list[Turn]:
        """The last files that the agent was shown in a conversation, newest first."""
        rows = self._tx.all("readings.files", {"host": host, "session_id": session, "limit": _FILES})
        return [turn_from_row(row) for row in rows]

    def injected(self, host: str, session: str) -> tuple[str, ...]:
        """The memories that were put in front of a conversation's last prompts."""
        rows = self._tx.all("readings.injected", {"host": host, "session_id": session, "limit": _INJECTED})
        return tuple(row["text"] for row in rows)

    def keep_unreadable(
        self,
        turns: Sequence[Turn],
        *,
        operation: str,
        prompt_version: str,
        reason: str,
        answer: str,
        at: datetime,
    ) -> None:
        """Set an answer aside that nobody can read, with the turns it was about."""
        first = turns[0]
        self._tx.run(
            "unread.add",
            {
                "id": new_id(at),
                "at": to_text(at),
                "host": first.host,
                "session_id": first.scope.session,
                "operation": operation,
                "prompt_version": prompt_version,
                "reason": reason,
                "turns": json.dumps([turn.id for turn in turns]),
                "answer": answer,
            },
        )

    def unreadable(self, limit: int = 50) -> list[dict[str, Any]]:
        """The answers that were set aside, newest first."""
        return self._tx.all("unread.all", {"limit": limit})

    def unreadable_count(self) -> int:
        """How many were set aside."""
        row = self._tx.one("unread.count")
        return int(row["n"]) if row else 0
