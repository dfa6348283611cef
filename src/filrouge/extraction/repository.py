"""Database access for session analyses and for the progress of models through conversations.

`Analyses` stores what each session came to. A session has one live episode (its summary, superseded by each later
analysis) and mentions of concepts. A concept is one memory per project and counts the sessions that mention it. The
analysis cache is a table, so all workers share it and the database settles races. All of this is derived from turns:
if one of them is erased, the session's analysis is erased as a whole. `Readings` stores how far a model has read each
conversation, and answers that could not be parsed (EXT-12).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct, to_builtins

from filrouge.capture.models import Turn
from filrouge.capture.repository import text_hash, turn_from_row
from filrouge.core.clock import add_seconds, new_id, to_text
from filrouge.core.protocols import Analyser, Tx
from filrouge.core.rows import number_of, pick_columns
from filrouge.extraction.models import Analysis, Entity, Point, Quote
from filrouge.memories.models import Noop, Span, Statement, Update
from filrouge.memories.repository import Memories, Origin

# JSON form of analyses.


def analysis_to_text(analysis: Analysis) -> str:
    """Return the analysis as JSON."""
    return json.dumps(to_builtins(analysis), ensure_ascii=False)


def analysis_from_text(text: str) -> Analysis:
    """Return the analysis that `analysis_to_text` wrote."""
    raw: Mapping[str, Any] = json.loads(text)
    quotes: dict[str, Any] = {name: _quotes(raw[name]) for name in _QUOTES}
    return Analysis(
        **pick_columns(raw, ("summary", "intent", "language", "made_by")),
        **quotes,
        concepts=tuple(raw["concepts"]),
        implicit_context=tuple(raw["implicit_context"]),
        entities=tuple(Entity(**item) for item in raw["entities"]),
        points=tuple(Point(**item) for item in raw["points"]),
    )


_QUOTES: Final = ("questions", "decisions", "preferences", "intents", "constraints")


def _quotes(raw: Sequence[Mapping[str, Any]]) -> tuple[Quote, ...]:
    return tuple(Quote(text=item["text"], turn_id=item["turn_id"], span=Span(**item["span"])) for item in raw)


# Analyses of sessions.

#: Cache limits: the lifetime of an entry, the size above which entries are evicted, and how many of the newest stay.
CACHE_SECONDS: Final = 3600.0
MAX_CACHED, CACHED_AFTER_EVICTION = 80, 50
#: Maximum turns of a session that are read at once, and characters of each tool output.
_MAX_TURNS, _MAX_TOOL_CHARS = 400, 4000


class Session(Struct, frozen=True, kw_only=True):
    """A host's session."""

    host: str
    id: str

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters for named queries."""
        return {"host": self.host, "session_id": self.id}


class Analysed(Struct, frozen=True, kw_only=True):
    """The last analysis of a session.

    Attributes:
        until: the sequence number of the last turn that was read.
        episode: the id of the memory that holds the summary; None if the session has none.
    """

    analysis: Analysis
    until: int
    episode: str | None


class Analyses:
    """The session analyses of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser
        self._memories = Memories(tx, analyser)

    def find(self, session_id: str) -> Session | None:
        """Return the session with this id, of the host with the latest turn; None if no turn has it."""
        row = self._tx.one("turns.host_of_session", {"session_id": session_id})
        return Session(host=row["host"], id=session_id) if row else None

    def turns(self, session: Session, *, behind: int = 0) -> tuple[list[Turn], int]:
        """Return the session's turns after a sequence number (at most the newest 400), and the last number.

        They are in the order in which they were said. They may have been stored in another: a hook that reaches the
        daemon at its start overtakes what earlier hooks left in the spool.
        """
        asked = session.parameters | {"after": behind, "limit": _MAX_TURNS, "of_tools": _MAX_TOOL_CHARS}
        rows = self._tx.all("turns.of_session", asked)
        turns = sorted((turn_from_row(row) for row in reversed(rows)), key=lambda turn: turn.at)
        return turns, (int(rows[0]["seq"]) if rows else behind)

    def all_exist(self, turns: Collection[Turn]) -> bool:
        """Return whether all these turns still exist."""
        row = self._tx.one("turns.present", {"ids": json.dumps([turn.id for turn in turns])})
        return row is not None and row["n"] == len(turns)

    def of(self, session: Session) -> Analysed | None:
        """Return the session's last analysis, or None."""
        row = self._tx.one("analyses.of", session.parameters)
        if row is None:
            return None
        return Analysed(analysis=analysis_from_text(row["analysis"]), until=row["until_seq"], episode=row["episode_id"])

    def idle(self, before: datetime, *, newest: int, limit: int) -> list[Session]:
        """Return sessions among the newest turns with turns since their last analysis, and none since `before`."""
        rows = self._tx.all("turns.idle_sessions", {"before": to_text(before), "newest": newest, "limit": limit})
        return [Session(host=row["host"], id=row["session_id"]) for row in rows]

    def cached(self, session: Session, history_hash: str, at: datetime) -> Analysis | None:
        """Return the analysis of the same session with the same history from the last hour, or None."""
        since = to_text(add_seconds(at, -CACHE_SECONDS))
        row = self._tx.one("analyses.cached", session.parameters | {"history_hash": history_hash, "since": since})
        return analysis_from_text(row["analysis"]) if row else None

    def cache(self, session: Session, history_hash: str, analysis: Analysis, at: datetime) -> None:
        """Cache an analysis for an hour; if there are too many, the newest stay."""
        text = analysis_to_text(analysis)
        row = session.parameters | {"history_hash": history_hash, "analysis": text, "at": to_text(at)}
        self._tx.run("analyses.cache", row)
        self._tx.run("analyses.expire", {"since": to_text(add_seconds(at, -CACHE_SECONDS))})
        if self.cache_size() > MAX_CACHED:
            self._tx.run("analyses.evict", {"keep": CACHED_AFTER_EVICTION})

    def cache_size(self) -> int:
        """Return the number of cached analyses."""
        return number_of(self._tx, "analyses.cached_count")

    def unread(self) -> list[Session]:
        """Return sessions with turns since their last analysis, or without one; the latest turn's session last."""
        rows = self._tx.all("turns.unread_sessions")
        return [Session(host=row["host"], id=row["session_id"]) for row in rows]

    def keep(self, session: Session, analysis: Analysis, until: int, origin: Origin) -> int:
        """Store an analysis: its summary as an episode, its concepts as mentions.

        Returns:
            The number of memories created.
        """
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
        """Return the concepts of one or all projects, most sessions first, with their sessions and threads."""
        asked = {"project_id": project, "everywhere": everywhere, "limit": limit}
        rows = self._tx.all("memories.concepts", asked)
        lists = ("sessions", "thread_ids")
        return [row | {name: json.loads(row[name]) for name in lists} for row in rows]

    def about(self, memories: Sequence[str], turns: Sequence[str]) -> list[Session]:
        """Return the analysed sessions that these memories summarise, or that these turns belong to."""
        rows = self._tx.all("analyses.about", {"memories": json.dumps(memories), "turns": json.dumps(turns)})
        return [Session(host=row["host"], id=row["session_id"]) for row in rows]

    def derived_memories(self, sessions: Sequence[Session]) -> tuple[str, ...]:
        """Return the memories derived from sessions: their summaries, and concepts that no other session mentions."""
        listed = {"sessions": _sessions_to_json(sessions)}
        spoken = [row["memory_id"] for row in self._tx.all("analyses.spoken_of", listed) if not row["others"]]
        return (*(row["id"] for row in self._tx.all("memories.sums_of", listed)), *spoken)

    def forget(self, sessions: Sequence[Session], memories: Sequence[str]) -> None:
        """Erase the analyses of sessions and all mentions of these memories, then recount the other concepts.

        The memories themselves stay.
        """
        listed = {"sessions": _sessions_to_json(sessions)}
        touched = [row["memory_id"] for row in self._tx.all("analyses.spoken_of", listed)]
        self._tx.run("analyses.erase", listed)
        self._tx.run("analyses.uncache", listed)
        self._tx.run("analyses.unmention", listed | {"memories": json.dumps(list(memories))})
        self._tx.run("memories.recount", {"ids": json.dumps(touched)})

    def _keep_episode(self, analysis: Analysis, former: str | None, origin: Origin) -> str:
        statement = Statement(kind="episode", text=analysis.summary, span=Span(start=0, end=0), confidence=0.6)
        if former is None:
            return self._memories.add(statement, origin, "summary of the session").memory_id
        update = Update(statement=statement, old_ids=(former,), reason="the session went on")
        return self._memories.apply(update, origin).memory_id

    def _mention(self, session: Session, concept: str, origin: Origin) -> bool:
        """Mention a concept once for this session, following merges; return whether the concept is new.

        A concept that the user put into the bin stays there.
        """
        subject = " ".join(sorted({forms[-1] for forms in self._analyser.terms(concept)})) or concept
        where = {"user_id": origin.scope.user, "project_id": origin.scope.project, "subject": subject}
        concept_row = self._tx.one("memories.concept", where)
        if concept_row and concept_row["state"] == "superseded":
            concept_row = self._head(concept_row["superseded_by"])
        if concept_row and concept_row["state"] == "binned":
            return False
        statement = Statement(kind="concept", text=concept, span=Span(start=0, end=0), subject=subject, confidence=0.6)
        if concept_row is None:
            id_ = self._memories.add(statement, origin, "mentioned in a session").memory_id
        else:
            id_ = str(concept_row["id"])
            if not self._tx.one("analyses.mentioned", session.parameters | {"memory_id": id_}):
                self._memories.apply(Noop(statement=statement, existing_id=id_, reason="another session"), origin)
        self._tx.run("analyses.mention", session.parameters | {"memory_id": id_, "at": to_text(origin.at)})
        return concept_row is None

    def _head(self, memory_id: str) -> dict[str, Any] | None:
        """Return the row that a merged concept ended in; None if it no longer exists."""
        row = self._tx.one("memories.get", {"id": memory_id})
        while row and row["state"] == "superseded" and row["superseded_by"]:
            row = self._tx.one("memories.get", {"id": row["superseded_by"]})
        return row if row and row["state"] in ("live", "binned") else None


def output_hash(text: str) -> str:
    """Return the cache key of a judgement of tool output: a hash of the part that is read."""
    return text_hash(text[:_MAX_TOOL_CHARS])


def _sessions_to_json(sessions: Sequence[Session]) -> str:
    return json.dumps([[session.host, session.id] for session in sessions])


# Reading progress of models, and unparsable answers (the dead letters of EXT-12).

_MAX_INJECTED = 50
_MAX_FILES = 50


class Unread(Struct, frozen=True, kw_only=True):
    """Turns that no model has read, in order of arrival, with their sequence numbers."""

    turns: tuple[Turn, ...]
    sequence_numbers: tuple[int, ...]


class Readings:
    """The progress of models through the conversations of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def unread(self, host: str, session: str, limit: int) -> Unread:
        """Return the next turns to read."""
        where = {"host": host, "session_id": session}
        row = self._tx.one("readings.get", where)
        rows = self._tx.all("readings.turns", where | {"seq": row["seq"] if row else 0, "limit": limit})
        return Unread(
            turns=tuple(turn_from_row(turn_row) for turn_row in rows),
            sequence_numbers=tuple(turn_row["seq"] for turn_row in rows),
        )

    def read_up_to(self, host: str, session: str, sequence_number: int, at: datetime) -> None:
        """Mark everything of a conversation up to this sequence number as read."""
        self._tx.run("readings.put", {"host": host, "session_id": session, "seq": sequence_number, "at": to_text(at)})

    def behind(self) -> int:
        """Return the number of conversations that no model has read to their end."""
        return number_of(self._tx, "readings.behind")

    def files(self, host: str, session: str) -> list[Turn]:
        """Return the last files that the agent read in a conversation, newest first."""
        rows = self._tx.all("readings.files", {"host": host, "session_id": session, "limit": _MAX_FILES})
        return [turn_from_row(row) for row in rows]

    def injected(self, host: str, session: str) -> tuple[str, ...]:
        """Return the texts of memories injected before a conversation's last prompts."""
        rows = self._tx.all("readings.injected", {"host": host, "session_id": session, "limit": _MAX_INJECTED})
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
        """Store an unparsable answer with the turns it was about."""
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
        """Return the stored unparsable answers, newest first."""
        return self._tx.all("unread.all", {"limit": limit})

    def unreadable_count(self) -> int:
        """Return the number of stored unparsable answers."""
        return number_of(self._tx, "unread.count")
