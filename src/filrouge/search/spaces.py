"""Spaces: which one recall reads, who makes it, and how far another is.

The setting `embedding_model` names the wanted embedder; the stored space that is current decides. Where no vector is
stored yet the wanted one is adopted at once. Where the two differ, the current space is served on by whoever makes it
until a reindex brings the memory over; where nobody does, words are searched and a notice says so.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from filrouge.core.errors import BadConfig, FilrougeError, NotFound
from filrouge.core.protocols import Tx, Vectors
from filrouge.core.settings import Settings, resolve
from filrouge.providers.models import Calibration, EmbeddingSpace
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.services import Parts
from filrouge.runtime.settings_repository import StoredSettings
from filrouge.search.nearest_memories import queue_need_vectors
from filrouge.search.vector_repository import OwnerKind, Spaces, StoredVectors
from filrouge.search.vector_search import NOWHERE, Absent, Embedders, Meaning, NewIndex, meaning_of

_LOG = logging.getLogger(__name__)

#: The dedupe keys of the two long pieces of work: there is one of each.
REINDEX, CLEAR = "reindex", "clear_spaces"
#: How a job of the outbox that may still succeed is told.
_STATES = {"running": "running", "queued": "waiting"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What the settings ask for.

    Attributes:
        space: None where the embedder cannot be had; `why` says so then.
    """

    name: str
    space: EmbeddingSpace | None
    why: str = ""


def wanted_name(tx: Tx, home: str, environ: Mapping[str, str]) -> str:
    """The name of the embedder that the settings ask for."""
    stored = StoredSettings(tx).all()
    try:
        effective = resolve(stored, home=home, environ=environ)
    except BadConfig:  # a file that cannot be read has its own complaint
        return str(environ.get("FILROUGE_EMBEDDING_MODEL") or stored.get("embedding_model") or _DEFAULT)
    provider = environ.get("FILROUGE_EMBED_PROVIDER", "").strip()
    if provider and effective.origins["embedding_model"] != "environment":
        return provider
    return effective.settings.embedding_model


_DEFAULT = Settings().embedding_model


def wanted(embedders: Embedders, name: str) -> Wanted:
    """What stands behind the name."""
    try:
        return Wanted(name=name, space=embedders.named(name).space)
    except FilrougeError as error:
        return Wanted(name=name, space=None, why=f"{error.message} {error.remedy}".strip())


def adopt(tx: Tx, embedders: Embedders, name: str, new_index: NewIndex) -> Meaning:
    """The meaning to begin with; where nothing is stored yet, the wanted space becomes current."""
    spaces, wish = Spaces(tx), wanted(embedders, name)
    StoredVectors(tx).drop_unfinished()
    current = spaces.current()
    if wish.space and (current is None or current.id == wish.space.id or not StoredVectors(tx).any(current.id)):
        spaces.declare(wish.space, name)
        spaces.make_current(wish.space.id)
        current = spaces.current()
    if current is None:
        _LOG.warning("no embedder: %s", wish.why)
        return meaning_of(name, Absent(NOWHERE, wish.why), None, new_index)
    found = embedders.making(current.id, current.embedder)
    if found is None:
        why = f"The embedder {current.embedder!r} that made {current.id} is not there."
        _LOG.warning("%s", why)
        return meaning_of(current.embedder, Absent(current.space, why), current.space.calibration, new_index)
    made_by, embedder = found
    return meaning_of(made_by, embedder, current.space.calibration, new_index)


def recalibrate(parts: Parts, calibration: Calibration) -> None:
    """Keep a measured calibration for the current space, and read its cosines by it from now on.

    Raises:
        NotFound: no embedder was ever adopted.
    """

    def write(tx: Tx) -> str:
        current = Spaces(tx).current()
        if current is None:
            raise NotFound("There is no embedding space yet.", remedy="Set `embedding_model` to one that exists.")
        Spaces(tx).set_calibration(current.id, calibration)
        return current.id

    space_id = parts.writer.run(write)
    parts.change_meaning(lambda now: now.calibrated_by(calibration) if now.space.id == space_id else now)


def keep_vectors(
    tx: Tx, meaning: Meaning, kind: OwnerKind, owner_id: str, vectors: Vectors | None, at: datetime
) -> None:
    """Store an owner's vectors; where there are none, or their space was left meanwhile, queue their making."""
    current = Spaces(tx).current()
    if kind == "memory":
        queue_need_vectors(tx, meaning, at)
    if vectors is not None and current is not None and current.id == meaning.space.id:
        StoredVectors(tx).put(kind, owner_id, meaning.space.id, vectors)
    else:
        queue_vectors(tx, kind, owner_id, at)


def queue_vectors(tx: Tx, kind: OwnerKind, owner_id: str, at: datetime) -> None:
    """Queue the making of an owner's vectors."""
    Jobs(tx).enqueue(f"index_{kind}", {kind: owner_id}, dedupe=f"index_{kind}:{owner_id}", at=at)


def notice(meaning: Meaning, wish: Wanted) -> str:
    """What a person should know of the spaces, with the next thing to do; empty where all is well."""
    if meaning.is_lost and (wish.space is None or wish.space.id == meaning.space.id):
        return f"Only words are searched: {wish.why or f'the embedder {meaning.name} is not there.'}"
    if meaning.is_lost:
        return f"Only words are searched until `filrouge reindex` brings the memory to {wish.name}."
    if wish.space is None:
        return f"The memory stays with {meaning.name}: {wish.why}"
    if wish.space.id != meaning.space.id:
        return f"The memory stays with {meaning.space.id} until `filrouge reindex` brings it to {wish.space.id}."
    return ""


def describe(parts: Parts, tx: Tx) -> dict[str, Any]:
    """The current space with its calibration and coverage, the one in building, and what is wanted."""
    meaning = parts.meaning
    wish = wanted(parts.embedders, wanted_name(tx, parts.home, parts.environ))
    done, total = StoredVectors(tx).coverage(meaning.space.id)
    calibration = meaning.space.calibration
    return {
        "space": meaning.space.id,
        "model": meaning.space.model,
        "embedder": meaning.name,
        "available": not meaning.is_lost,
        "calibration": calibration
        and {
            "origin": calibration.origin,
            "pairs": calibration.pairs,
            "texts": [list(anchor) for anchor in calibration.texts],
            "questions": [list(anchor) for anchor in calibration.questions],
        },
        "coverage": {"done": done, "total": total, "share": round(done / total, 4) if total else 1.0},
        "wanted": {"embedder": wish.name, "space": wish.space and wish.space.id},
        "building": _building(tx, meaning),
        "notice": notice(meaning, wish),
    }


def _building(tx: Tx, meaning: Meaning) -> dict[str, Any] | None:
    """The space that vectors are made for beside the daily work: a new one, or the current one where some lack.

    A new one is current on disk a moment before recall reads it; until then it is still in building.
    """
    job, current = Jobs(tx).known_as(REINDEX), Spaces(tx).current()
    taking_over = current is not None and current.id != meaning.space.id
    target = Spaces(tx).building() or (current if job or taking_over else None)
    if target is None:
        return None
    done, total = StoredVectors(tx).coverage(target.id)
    return {
        "space": target.id,
        "model": target.space.model,
        "embedder": target.embedder,
        "done": done,
        "total": total,
        "state": _STATES.get(job["state"], "failed") if job else "running" if taking_over else "waiting",
        "attempts": job["attempts"] if job else 0,
        "error": job["error"] if job else "",
    }
