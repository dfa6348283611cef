"""Memories for display: fields, vitality, evidence, versions, decisions, and the novelty check.

Each function returns the body of one route, or a part of it, like those of `maintenance.health`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from filrouge.core.clock import Clock, to_text
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx, Vectors
from filrouge.core.rows import number_of
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.understanding import embed_inline
from filrouge.maintenance.consolidation import vitality
from filrouge.memories.models import Filters, Memory, plain_values
from filrouge.memories.repository import StateStore
from filrouge.memories.undo_repository import reverted
from filrouge.projects.repository import names_of, project_id, resolve_project
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.repository import FilteredRows, SearchScope

# Novelty: whether a text says something that no live memory says.

#: On the calibrated scale: 0 = unrelated, 1 = the same text.
THRESHOLD: Final = 0.88
_TOP_K: Final = 20
MAX_COMPARED_CHARS: Final = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Novelty:
    """The result of a novelty check.

    Attributes:
        nearest: None if no memory is near, or none can be compared.
        similarity: calibrated; 0 without `nearest`, 1 for the same words.
    """

    novel: bool
    nearest: Memory | None
    similarity: float


def is_novel(
    parts: Parts, text: str, threshold: float = THRESHOLD, *, names: Sequence[str] = (), user: str = LOCAL_USER
) -> Novelty:
    """Compare a text with the live memories of a project and of the user.

    Texts with the same words count as equal. Without an embedding model, that is the only comparison.

    Raises:
        BadInput: the text is empty or too long.
    """
    redacted = parts.redact(text.strip())
    if not redacted or len(redacted) > MAX_COMPARED_CHARS:
        raise BadInput(f"The text has {len(redacted)} characters; it needs 1 to {MAX_COMPARED_CHARS}.")
    [vectors] = embed_inline(parts.vectors, [redacted])
    return parts.readers.here(lambda tx: _compare(parts, tx, redacted, vectors, threshold, names, user))


def _compare(
    parts: Parts, tx: Tx, text: str, vectors: Vectors | None, threshold: float, names: Sequence[str], user: str
) -> Novelty:
    project = resolve_project(tx, names)[1]
    similarity_by_id = _near(parts, vectors, frozenset({project or "", f"user:{user}"}))
    words = frozenset(parts.analyser.tokens(text).split())
    store = parts.memories(tx)
    newest = store.within(project=project, user=user)[:_MAX_COMPARED] if number_of(tx, "memories.size") else ()
    for memory in newest:
        if memory.scope.user == user and frozenset(parts.analyser.tokens(memory.text).split()) == words:
            similarity_by_id[memory.id] = 1.0
    memories = store.some(list(similarity_by_id)).values()
    live = [memory for memory in memories if memory.state == "live" and memory.scope.user == user]
    nearest = max(live, key=lambda memory: (similarity_by_id[memory.id], memory.id), default=None)
    similarity = similarity_by_id[nearest.id] if nearest else 0.0
    return Novelty(novel=similarity < threshold, nearest=nearest, similarity=similarity)


def _near(parts: Parts, text_vectors: Vectors | None, groups: frozenset[str]) -> dict[str, float]:
    if text_vectors is None:
        return {}
    vectors = parts.vectors
    nearest = vectors.memory_index.nearest(text_vectors[0], _TOP_K, groups)
    return {neighbour.owner_id: vectors.space.calibrated(neighbour.cosine) for neighbour in nearest}


#: Maximum number of memories (the newest) whose words are compared.
_MAX_COMPARED: Final = 500


#: Plain fields that no answer shows.
_HIDDEN: Final = frozenset({"last_mention", "prompt_version"})


def memory_json(memory: Memory, names: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """Return a memory in the form that `facts` lists; a memory without a key uses its id."""
    plain = {name: value for name, value in plain_values(memory).items() if name not in _HIDDEN}
    return plain | {
        "key": memory.key or memory.id,
        "value": memory.value if memory.value is not None else memory.text,
        "scope": memory.scope_name,
        "project": memory.scope.project,
        "project_name": names.get(memory.scope.project or "", ""),
        "channel": memory.scope.channel,
        "session_id": memory.scope.session,
        "branch": memory.scope.branch,
        "vitality": round(vitality(memory, now), 3),
        "evidence": [
            {"turn_id": cited.turn_id, "start": cited.span.start, "end": cited.span.end} for cited in memory.evidence
        ],
    }


def one_json(clock: Clock, tx: Tx, memory: Memory) -> dict[str, Any]:
    """Return one memory in the form that `facts` lists."""
    return memory_json(memory, names_of(tx), clock.now())


def listing(
    parts: StoreContext, tx: Tx, names: Sequence[str], *, rules: bool, history: bool, filters: Filters | None = None
) -> list[dict[str, Any]]:
    """Return the rules, or else the memories that are not rules, newest first; by default only live ones.

    Args:
        names: names of the project; empty = all projects.
        history: also return superseded and binned memories; ignored if `filters` are given.
        filters: conditions on the memories; with `as_of`, memories that were valid then.
    """
    project_names, project = names_of(tx), project_id(tx, names)
    store = parts.memories(tx)
    if filters and filters.narrow:
        scope = SearchScope(project=project, user=LOCAL_USER, everywhere=not names)
        memories = store.known(FilteredRows(tx, "memory", scope, filters).newest_first)
    else:
        memories = store.within(project=project, user=LOCAL_USER, everywhere=not names, all_states=history)
    return [
        memory_json(memory, project_names, parts.clock.now()) for memory in memories if (memory.kind == "rule") is rules
    ]


def history(parts: StoreContext, tx: Tx, memory_id: str) -> dict[str, Any]:
    """Return one memory, its evidence, and all decisions that touched it."""
    memory = parts.memories(tx).get(memory_id)
    entries = entries_about(tx, memory_id)
    return memory_json(memory, names_of(tx), parts.clock.now()) | {
        "quotes": quotes(parts, tx, memory),
        "journal": entries,
    }


def versions(parts: StoreContext, tx: Tx, memory_id: str) -> dict[str, Any]:
    """Return all versions of one memory, oldest first, with their evidence, and the decisions about it.

    Each decision has the entry number that `undo` takes.
    """
    memory, names = parts.memories(tx).get(memory_id), names_of(tx)
    linked = [version.memory for version in StateStore(tx).with_versions([memory_id]).values()]
    chain = sorted(linked, key=lambda version: version.created_at)
    return {
        "id": memory.id,
        "text": memory.text,
        "state": memory.state,
        "versions": [
            memory_json(version, names, parts.clock.now()) | {"quotes": quotes(parts, tx, version)}
            for version in parts.memories(tx).known([version.id for version in chain])
        ],
        "journal": entries_about(tx, memory_id),
    }


def entries_about(tx: Tx, memory_id: str) -> list[dict[str, Any]]:
    """Return all journal entries about a memory, oldest first; reverted entries are marked."""
    entries = Journal(tx).entries_about(memory_id)
    reverted_numbers = reverted(entries)
    return [
        {
            "entry": entry.seq,
            "at": to_text(entry.at),
            "actor": entry.actor,
            "action": entry.action,
            "memory_id": entry.subject_id,
            "payload": entry.payload,
            "undone": entry.seq in reverted_numbers,
        }
        for entry in entries
    ]


def quotes(parts: StoreContext, tx: Tx, memory: Memory) -> list[dict[str, Any]]:
    """Return the words that a memory is based on."""
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
