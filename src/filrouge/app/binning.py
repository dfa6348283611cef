"""Into the bin by topic: what an agent may make disappear from sight, in two steps, so that nothing is lost.

A preview lists the memories that would go and gives a token over exactly these; with it they are binned, and the user
restores them with a command. Nothing is erased here (`app.forgetting` does that, for the user alone), and what binds
agents or was pinned stays where it is.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from filrouge.app.agents_say import AGENT
from filrouge.app.asking import Question, recall
from filrouge.app.by_hand import changing
from filrouge.app.parts import Parts
from filrouge.errors import BadInput, Stale
from filrouge.model.forgetting import LEAST_RELEVANCE, MOST_RELATED
from filrouge.model.memory import Memory
from filrouge.model.scope import Scope
from filrouge.model.turn import TRUST_AGENT
from filrouge.ports import Tx
from filrouge.store.memories import Origin

#: Of this process: a preview is not worth more than a restart.
_KEY: Final = secrets.token_bytes(32)
#: The share of a topic's words, weighed by rarity, from which on a memory is about it whatever a model says.
_ALL_ITS_WORDS: Final = 0.999


@dataclass(frozen=True, kw_only=True, slots=True)
class Doomed:
    """What a topic or an id means.

    Attributes:
        goes: the live memories that are, or would be, binned.
        kept: those that only the user puts there: rules, and what is pinned.
        token: does exactly that; empty where nothing goes.
    """

    goes: tuple[Memory, ...]
    kept: tuple[Memory, ...]
    token: str


def doomed(parts: Parts, *, topic: str = "", memory_id: str = "", project: str | None = None) -> Doomed:
    """What would be binned; nothing is changed.

    Args:
        project: the one to stay in, with the user's own memories; None = everywhere. An id is found anywhere.

    Raises:
        BadInput: neither topic nor id, or both, or a memory that is not live.
        NotFound: naming the id.
    """
    return parts.readers.here(lambda tx: _doomed(parts, tx, topic.strip(), memory_id.strip(), project))


def bin_doomed(parts: Parts, token: str, *, topic: str = "", memory_id: str = "", project: str | None = None) -> Doomed:
    """Put into the bin what a preview listed.

    Raises:
        Stale: something of it changed since, or the daemon was started anew.
        BadInput, NotFound: as `doomed`.
    """

    def write(tx: Tx) -> tuple[Doomed, Collection[str], Collection[str]]:
        found = _doomed(parts, tx, topic.strip(), memory_id.strip(), project)
        if not found.token or not hmac.compare_digest(found.token.encode(), token.encode()):
            raise Stale(
                "What is to be forgotten has changed since it was shown.",
                remedy="Ask again without a token, and look at what it would bin now.",
            )
        at = parts.clock.now()
        for one in found.goes:
            origin = Origin(scope=Scope(channel="mcp"), trust=TRUST_AGENT, at=at, made_by=AGENT, actor=AGENT)
            parts.memories(tx).bin(one.id, origin, "forgotten by an agent")
        return found, (), tuple(one.id for one in found.goes)

    return changing(parts, write)


def _doomed(parts: Parts, tx: Tx, topic: str, memory_id: str, project: str | None) -> Doomed:
    if bool(topic) == bool(memory_id):
        raise BadInput("Say what to forget: a `topic`, or an `id`.", remedy="Give one of the two.")
    if memory_id:
        found = [parts.memories(tx).get(memory_id)]
        if found[0].state != "live":
            raise BadInput(f"Memory {memory_id} is {found[0].state}, not live.", remedy="There is nothing to forget.")
    else:
        found = _about(parts, tx, topic, project)
    kept = tuple(one for one in found if one.pinned or one.kind == "rule")
    goes = tuple(one for one in found if one not in kept)
    return Doomed(goes=goes, kept=kept, token=_token(topic, memory_id, goes) if goes else "")


def _about(parts: Parts, tx: Tx, topic: str, project: str | None) -> list[Memory]:
    question = Question(text=topic, project=project, everywhere=project is None, limit=MOST_RELATED)
    ranking = recall(parts, tx, question)
    near = [hit for hit in ranking.hits if hit.relevance >= LEAST_RELEVANCE or hit.coverage >= _ALL_ITS_WORDS]
    return [hit.item for hit in near[:MOST_RELATED] if isinstance(hit.item, Memory)]


def _token(topic: str, memory_id: str, goes: Sequence[Memory]) -> str:
    listed = sorted((one.id, one.text) for one in goes)
    said = json.dumps([topic, memory_id, listed], ensure_ascii=True)
    return hmac.new(_KEY, said.encode(), hashlib.sha256).hexdigest()
