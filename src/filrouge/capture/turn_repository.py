"""Turns: the verbatim messages, each stored once however it arrived.

The same message reaches Filrouge twice: from the hook as it happens, and from the host's transcript later.
The hook's copy has the host's prompt id, the transcript's has its own record id, and neither has the other's.
So a copy is recognised by its session, role and text, and the two ids are joined on one row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from filrouge.capture.models import TRUST_TYPED, Turn
from filrouge.core.clock import after, from_text, to_text
from filrouge.core.protocols import Analyser, Tx
from filrouge.core.scope import Scope
from filrouge.runtime import journal
from filrouge.search.word_repository import Words

#: Two hosts may run the same hook for one prompt (an editor that executes another agent's hooks).
SAME_PROMPT_SECONDS = 10.0


def text_hash(text: str) -> str:
    """SHA-256 of the text with its outer white space removed."""
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()


class Turns:
    """The turns of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser

    def add(self, turn: Turn, tokens: str | None = None) -> bool:
        """Store a turn that a hook reported; False if it is there already, from wherever.

        What a user typed for us to keep is kept as often as it is typed: no two hosts report it.

        Args:
            tokens: what the analyser made of its text, where that was done before.
        """
        digest = text_hash(turn.text)
        if self._tx.run("turns.claim_from_transcript", _names(turn) | {"text_hash": digest}):
            return False
        if turn.role == "user" and turn.trust < TRUST_TYPED and self._said_elsewhere(turn, digest):
            return False
        return self._insert(turn, digest, transcript_key=None, tokens=tokens)

    def add_from_transcript(self, turn: Turn) -> bool:
        """Store a turn that a transcript holds, `turn.key` being the record's id; False if it is there already."""
        digest = text_hash(turn.text)
        names = _names(turn)
        if self._tx.one("turns.by_transcript_key", names):
            return False
        if self._tx.run("turns.claim_from_hook", names | {"text_hash": digest}):
            return False
        if turn.role == "user" and self._said_elsewhere(turn, digest):
            return False
        return self._insert(turn, digest, transcript_key=turn.key)

    def vouch(self, turn: Turn) -> str | None:
        """Trust a turn that was read in before as far as this one is; its id, or None where it was so already."""
        rows = self._tx.all("turns.vouch", _names(turn) | {"trust": turn.trust})
        return str(rows[0]["id"]) if rows else None

    def restore(self, turn: Turn, transcript_key: str | None) -> bool:
        """Store a turn as it was stored elsewhere, twice if it was said twice; False if it is there already."""
        return self._insert(turn, text_hash(turn.text), transcript_key=transcript_key)

    def get(self, ids: Sequence[str]) -> list[Turn]:
        """The turns with these ids, in the order given."""
        return [turn_from_row(row) for row in self._tx.all("turns.get", {"ids": json.dumps(list(ids))})]

    def proving_nothing(self, ids: Sequence[str]) -> frozenset[str]:
        """Those of these turns that no memory rests on, whatever became of it, and that no job is about to read."""
        return frozenset(row["id"] for row in self._tx.all("turns.proving_nothing", {"ids": json.dumps(list(ids))}))

    def skip(self, turn_id: str, reason: str) -> None:
        """Record why extraction passed the turn over."""
        self._tx.run("turns.skip", {"id": turn_id, "reason": reason})

    def answered(self, turn: Turn) -> Turn | None:
        """The agent's message that a prompt of its session comes right after; None where it comes after none."""
        names = {"host": turn.host, "session_id": turn.scope.session, "at": to_text(turn.at)}
        row = self._tx.one("turns.before", names)
        return turn_from_row(row) if row is not None and row["role"] == "assistant" else None

    def last_user_texts(self, host: str, session: str, limit: int = 5) -> list[str]:
        """The session's most recent prompts, newest first."""
        rows = self._tx.all("turns.last_user_texts", {"host": host, "session_id": session, "limit": limit})
        return [row["text"] for row in rows]

    def last_user_texts_of_project(self, project: str | None, limit: int = 5) -> list[str]:
        """The project's most recent prompts, newest first."""
        rows = self._tx.all("turns.last_user_texts_of_project", {"project_id": project, "limit": limit})
        return [row["text"] for row in rows]

    def recent(self, channel: str, session: str | None, limit: int, *, user: str | None = None) -> list[dict[str, Any]]:
        """The last messages of a channel, newest first; of all its sessions and users unless one is named."""
        asked = {"channel": channel, "session_id": session, "user_id": user, "limit": limit}
        return self._tx.all("turns.recent", asked)

    def _said_elsewhere(self, turn: Turn, digest: str) -> bool:
        return (
            self._tx.one(
                "turns.same_prompt",
                {
                    "project_id": turn.scope.project,
                    "host": turn.host,
                    "user_id": turn.scope.user,
                    "text_hash": digest,
                    "since": to_text(after(turn.at, -SAME_PROMPT_SECONDS)),
                    "until": to_text(after(turn.at, SAME_PROMPT_SECONDS)),
                },
            )
            is not None
        )

    def _insert(self, turn: Turn, digest: str, *, transcript_key: str | None, tokens: str | None = None) -> bool:
        sealed = journal.seal(_content(turn.id, turn.role, turn.text, turn.at))
        row = _names(turn) | {
            "transcript_key": transcript_key,
            "event_id": turn.event_id or None,
            "user_id": turn.scope.user,
            "project_id": turn.scope.project,
            "agent": turn.scope.agent,
            "channel": turn.scope.channel,
            "branch": turn.scope.branch,
            "source": turn.source,
            "text": turn.text,
            "text_hash": digest,
            "analyser": self._analyser.version,
            "trust": turn.trust,
            "at": to_text(turn.at),
            "skipped": turn.skipped,
            "row_key": sealed.key,
            "row_hash": sealed.hash,
        }
        if not self._tx.run("turns.add", row):
            return False
        Words(self._tx, self._analyser, "turn").put(turn.id, turn.text, tokens)
        return True


def turn_from_row(row: dict[str, Any]) -> Turn:
    """The value a row stands for."""
    return Turn(
        id=row["id"],
        key=row["key"],
        scope=Scope(
            user=row["user_id"],
            project=row["project_id"],
            agent=row["agent"],
            channel=row["channel"],
            session=row["session_id"],
            branch=row["branch"],
        ),
        host=row["host"],
        role=row["role"],
        source=row["source"],
        text=row["text"],
        at=from_text(row["at"]),
        trust=row["trust"],
        event_id=row["event_id"] or "",
        skipped=row["skipped"],
    )


def _names(turn: Turn) -> dict[str, object]:
    return {
        "id": turn.id,
        "key": turn.key,
        "host": turn.host,
        "session_id": turn.scope.session,
        "role": turn.role,
    }


def _content(id_: str, role: str, text: str, at: datetime) -> dict[str, object]:
    return {"id": id_, "role": role, "text": text, "at": to_text(at)}


def intact(row: dict[str, Any]) -> bool:
    """True if the row's seal holds."""
    content = _content(row["id"], row["role"], row["text"], from_text(row["at"]))
    return journal.holds(row["row_key"], row["row_hash"], content)
