"""What is shown of a memory: its life so far, how lively it is, the words that prove it, and who decided what.

Each function answers the body of one route, or a part of it, as those of `maintenance.health` do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from filrouge.capture.programs import place_of
from filrouge.core.clock import to_text
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx, Vectors
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.understanding import vectors_at_once
from filrouge.maintenance.decay import vitality
from filrouge.maintenance.health import names_of, number_of, project_id
from filrouge.memories.models import Filters, Memory
from filrouge.memories.repository import Lives
from filrouge.memories.undo_repository import undone
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts
from filrouge.search.word_repository import Place, Share

# Novelty: whether a text says what no live memory says (API-5), and the memory that is nearest to it.

#: On the calibrated scale (MEM-7): 0 = unrelated, 1 = the same text.
THRESHOLD: Final = 0.88
_LOOKED_AT: Final = 20
LONGEST: Final = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Novelty:
    """Whether it is new, and what is nearest; None where nothing is near, or nobody can tell."""

    novel: bool
    nearest: Memory | None
    similarity: float


def is_novel(
    parts: Parts, text: str, threshold: float = THRESHOLD, *, names: Sequence[str] = (), user: str = LOCAL_USER
) -> Novelty:
    """Compare a text with the live memories of a project and of the user; without a model, by equal words alone.

    Raises:
        BadInput: there is no text, or too much of it.
    """
    said = parts.redact(text.strip())
    if not said or len(said) > LONGEST:
        raise BadInput(f"The text has {len(said)} characters; it needs 1 to {LONGEST}.")
    [vectors] = vectors_at_once(parts.meaning, [said])
    return parts.readers.here(lambda tx: _compared(parts, tx, said, vectors, threshold, names, user))


def _compared(
    parts: Parts, tx: Tx, said: str, vectors: Vectors | None, threshold: float, names: Sequence[str], user: str
) -> Novelty:
    project = place_of(tx, names)[1]
    found = _near(parts, vectors, frozenset({project or "", f"user:{user}"}))
    words = frozenset(parts.analyser.tokens(said).split())
    store = parts.memories(tx)
    for one in store.within(project=project, user=user)[:_SAME] if number_of(tx, "memories.size") else ():
        if one.scope.user == user and frozenset(parts.analyser.tokens(one.text).split()) == words:
            found[one.id] = 1.0
    known = store.some(list(found))
    live = [one for one in known.values() if one.state == "live" and one.scope.user == user]
    nearest = max(live, key=lambda one: (found[one.id], one.id), default=None)
    similarity = found[nearest.id] if nearest else 0.0
    return Novelty(novel=similarity < threshold, nearest=nearest, similarity=similarity)


def _near(parts: Parts, vectors: Vectors | None, groups: frozenset[str]) -> dict[str, float]:
    if vectors is None:
        return {}
    meaning = parts.meaning
    near = meaning.memory_index.nearest(vectors[0], _LOOKED_AT, groups)
    return {one.owner_id: meaning.space.calibrated(one.cosine) for one in near}


#: The newest memories whose words are compared.
_SAME: Final = 500


def memory_json(memory: Memory, names: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """A memory as `facts` lists it; one without a key of its own is known by its id."""
    return {
        "id": memory.id,
        "key": memory.key or memory.id,
        "value": memory.value if memory.value is not None else memory.text,
        "text": memory.text,
        "kind": memory.kind,
        "state": memory.state,
        "scope": memory.scope_name,
        "project": memory.scope.project,
        "project_name": names.get(memory.scope.project or "", ""),
        "channel": memory.scope.channel,
        "session_id": memory.scope.session,
        "branch": memory.scope.branch,
        "subject": memory.subject,
        "confidence": memory.confidence,
        "sentiment": memory.sentiment,
        "timeframe": memory.timeframe,
        "trust": memory.trust,
        "created_at": to_text(memory.created_at),
        "valid_from": to_text(memory.valid_from),
        "valid_to": to_text(memory.valid_to) if memory.valid_to else None,
        "supersedes": memory.supersedes,
        "superseded_by": memory.superseded_by,
        "previous_text": memory.previous_text,
        "pinned": memory.pinned,
        "disabled": memory.disabled,
        "mention_count": memory.mention_count,
        "vitality": round(vitality(memory, now), 3),
        "uses": memory.uses,
        "last_used": to_text(memory.last_used) if memory.last_used else None,
        "evidence": [
            {"turn_id": cited.turn_id, "start": cited.span.start, "end": cited.span.end} for cited in memory.evidence
        ],
        "made_by": memory.made_by,
    }


def one_json(parts: Parts, tx: Tx, memory: Memory) -> dict[str, Any]:
    """One memory as `facts` lists it, now."""
    return memory_json(memory, names_of(tx), parts.clock.now())


def listing(
    parts: Parts, tx: Tx, names: Sequence[str], *, rules: bool, history: bool, filters: Filters | None = None
) -> list[dict[str, Any]]:
    """The standing rules, or else the current memories that are no rules, newest first.

    Args:
        names: the project's; none means all projects.
        history: also what was superseded or binned; not together with `filters`.
        filters: what they must be; with `as_of`, what was believed then.
    """
    known, project = names_of(tx), project_id(tx, names)
    store = parts.memories(tx)
    if filters and filters.narrow:
        place = Place(project=project, user=LOCAL_USER, everywhere=not names)
        found = store.known(Share(tx, "memory", place, filters).newest_first)
    else:
        found = store.within(project=project, user=LOCAL_USER, everywhere=not names, all_states=history)
    return [memory_json(memory, known, parts.clock.now()) for memory in found if (memory.kind == "rule") is rules]


def history(parts: Parts, tx: Tx, memory_id: str) -> dict[str, Any]:
    """One memory, the words it rests on, and every decision that touched it."""
    memory = parts.memories(tx).get(memory_id)
    entries = entries_about(tx, memory_id)
    return memory_json(memory, names_of(tx), parts.clock.now()) | {
        "quotes": quotes(parts, tx, memory),
        "journal": entries,
    }


def versions(parts: Parts, tx: Tx, memory_id: str) -> dict[str, Any]:
    """Every version of one memory, oldest first, each with its words, and every decision about it, with what `undo`
    calls it."""
    memory, names = parts.memories(tx).get(memory_id), names_of(tx)
    chain = sorted((one.memory for one in Lives(tx).kin([memory_id]).values()), key=lambda one: one.created_at)
    return {
        "id": memory.id,
        "text": memory.text,
        "state": memory.state,
        "versions": [
            memory_json(one, names, parts.clock.now()) | {"quotes": quotes(parts, tx, one)}
            for one in parts.memories(tx).known([one.id for one in chain])
        ],
        "journal": entries_about(tx, memory_id),
    }


def entries_about(tx: Tx, memory_id: str) -> list[dict[str, Any]]:
    """Every entry of the journal that speaks of a memory, oldest first; one that was taken back says so."""
    entries = Journal(tx).of(memory_id)
    gone = undone(entries)
    return [
        {
            "entry": one.seq,
            "at": to_text(one.at),
            "actor": one.actor,
            "action": one.action,
            "memory_id": one.subject_id,
            "payload": one.payload,
            "undone": one.seq in gone,
        }
        for one in entries
    ]


def quotes(parts: Parts, tx: Tx, memory: Memory) -> list[dict[str, Any]]:
    """The words that a memory rests on."""
    turns = {turn.id: turn for turn in parts.turns(tx).get([cited.turn_id for cited in memory.evidence])}
    return [
        {
            "turn_id": cited.turn_id,
            "text": turns[cited.turn_id].text[cited.span.start : cited.span.end],
            "at": to_text(turns[cited.turn_id].at),
            "channel": turns[cited.turn_id].host,
        }
        for cited in memory.evidence
        if cited.turn_id in turns
    ]
