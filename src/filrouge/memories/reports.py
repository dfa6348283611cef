"""Memories for display: fields, vitality, evidence, versions, decisions, and the novelty check.

Each function returns the body of one route, or a part of it, like those of `maintenance.health`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from filrouge.core.clock import Clock, to_text
from filrouge.core.errors import BadInput
from filrouge.core.protocols import Tx, Vectors
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.understanding import embed_inline
from filrouge.maintenance.consolidation import vitality
from filrouge.memories.models import NO_FILTERS, Filters, Memory, plain_values
from filrouge.memories.repository import StateStore
from filrouge.memories.undo_repository import reverted
from filrouge.projects.repository import names_of, project_id, resolve_project
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.analyser import all_of
from filrouge.search.repository import SearchScope

# Novelty: whether a text says something that no live memory says.

#: On the calibrated scale: 0 = unrelated, 1 = the same text.
THRESHOLD: Final = 0.88
_TOP_K: Final = 20
MAX_COMPARED_CHARS: Final = 2000


class Novelty(Struct, frozen=True, kw_only=True):
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
    match = all_of(sorted(words, key=len, reverse=True)[:_MAX_MATCHED_WORDS])
    candidates = store.with_words(match, project=project, user=user, limit=_MAX_COMPARED) if words else {}
    for id_, known in candidates.items():
        if frozenset(parts.analyser.tokens(known).split()) == words:
            similarity_by_id[id_] = 1.0
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


#: Maximum number of memories (the newest) whose words are compared; only those that have all of the text's longest
#: words are candidates.
_MAX_COMPARED: Final = 500
_MAX_MATCHED_WORDS: Final = 16


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
    parts: StoreContext,
    tx: Tx,
    names: Sequence[str],
    filters: Filters = NO_FILTERS,
    *,
    rules: bool | None = None,
    history: bool = False,
    before: int | None = None,
    limit: int | None = None,
) -> tuple[list[dict[str, Any]], int | None]:
    """Return memories, newest first and by default only live ones, and the position of the next page, if there is one.

    Args:
        names: names of the project; empty = all projects.
        filters: conditions on the memories; with `as_of`, memories that were valid then.
        rules: only rules, or none; None = both.
        history: also return memories that are not live; ignored if `filters` are given.
        before: the position of this page; None = the first.
        limit: size of the page; None = all.
    """
    scope = SearchScope(project=project_id(tx, names), user=LOCAL_USER, everywhere=not names)
    memories, following = parts.memories(tx).page(
        scope, filters, before=before, limit=limit, rules=rules, all_states=history and not filters.narrow
    )
    project_names, now = names_of(tx), parts.clock.now()
    return [memory_json(memory, project_names, now) for memory in memories], following


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
