"""A history: messages that a program hands over by itself, and what the user stated in them.

Where it is known whose they are, they are stored like captured ones, each once, and what the user states in them is
decided and stored at once. Where it is not, nothing can be kept for anybody: that is counted and logged.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from filrouge.app import understanding
from filrouge.app.follow import to_be_analysed
from filrouge.app.parts import Parts
from filrouge.app.placing import queue_placing
from filrouge.app.spaces import queue_vectors
from filrouge.capture.filters import skip_reason
from filrouge.capture.guard import strip_own
from filrouge.clock import new_id
from filrouge.errors import BadInput
from filrouge.extraction.heuristics import extract
from filrouge.model.scope import Scope
from filrouge.model.turn import TRUST_AGENT, TRUST_PROMPT, TRUST_TOOL, Role, SourceType, Turn
from filrouge.ports import Tx
from filrouge.store.analyses import Analyses, Session

_LOG = logging.getLogger(__name__)
History = Sequence[Mapping[str, Any]]
"""Messages with `role` (user, assistant, tool) and `content`, a text; oldest first."""
_KINDS: Final[Mapping[str, tuple[Role, SourceType, int]]] = {
    "user": ("user", "prompt", TRUST_PROMPT),
    "assistant": ("assistant", "reply", TRUST_AGENT),
    "tool": ("tool", "command", TRUST_TOOL),
}
_PERSONAL: Final = frozenset({"preference", "intent", "constraint", "rule"})


def read_history(parts: Parts, session: Session, history: History) -> list[Turn]:
    """The messages as turns that are not stored; empty ones are left out.

    Raises:
        BadInput: a message has no such role, or its content is no text.
    """
    seen = Counter[str]()
    turns: list[Turn] = []
    now = parts.clock.now() - timedelta(microseconds=len(history))
    for place, message in enumerate(history):
        role, content = message.get("role"), message.get("content")
        if role not in _KINDS or not isinstance(content, str):
            raise BadInput(
                f"Message {place} of the history cannot be read.",
                remedy="Each message needs a role (user, assistant, tool) and a text as its content.",
            )
        text = parts.redact(strip_own(content))
        if not text.strip():
            continue
        own, source, trust = _KINDS[role]
        seen[f"{role}:{text}"] += 1
        digest = hashlib.sha256(f"{role}:{seen[f'{role}:{text}']}:{text}".encode("utf-8", "surrogatepass")).hexdigest()
        at = now + timedelta(microseconds=place)
        turns.append(
            Turn(
                id=new_id(at),
                key=f"history:{session.id}:{digest}",
                scope=Scope(channel=session.host, session=session.id),
                host=session.host,
                role=own,
                source=source,
                text=text,
                at=at,
                trust=trust,
                skipped=skip_reason(text, source),
            )
        )
    return turns


def keep_history(parts: Parts, session: Session, turns: Sequence[Turn], user_id: str | None) -> tuple[bool, Scope]:
    """Store the turns of a history and what the user states in them; each once, however often it is handed over.

    Returns:
        Whether they were stored, and where the session takes place.
    """
    captured = parts.readers.here(lambda tx: Analyses(tx, parts.analyser).turns(session)[0])
    place = captured[-1].scope if captured else Scope(channel=session.host, session=session.id)
    user = user_id or (place.user if captured else None)
    stated = sum(one.kind in _PERSONAL for turn in turns if to_be_analysed(turn) for one in extract(turn))
    if user is None:
        if stated:
            parts.meters.preference_lost("user_identifier_missing", stated)
            _LOG.error("%d preferences of session %s belong to nobody: no user id was given", stated, session.id)
        return False, place
    scope = replace(place, user=user, agent="")
    owned = [replace(turn, scope=scope) for turn in turns]
    try:
        readings = understanding.read(parts, [turn for turn in owned if to_be_analysed(turn)])
    except Exception:
        parts.meters.preference_lost("extraction_error")
        raise
    own = {reading.turn.id: reading for reading in readings}
    done = list[Any]()

    def write(tx: Tx) -> None:
        fresh: understanding.Fresh = {}
        for turn in owned:
            if not parts.turns(tx).add_from_transcript(turn):
                continue
            if turn.role != "tool":
                queue_vectors(tx, "turn", turn.id, parts.clock.now())
            queue_placing(parts, tx, [turn])
            if turn.id in own:
                done.extend(understanding.settle(parts, tx, own[turn.id], fresh))

    try:
        parts.writer.run(write)
    except Exception:
        parts.meters.preference_lost("persistence_error", max(1, stated))
        raise
    understanding.reflect(parts, parts.meaning if not readings else readings[0].meaning, done)
    return True, scope
