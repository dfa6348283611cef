"""Exchanges: the prompts of a project with their replies, as they are held against each other.

Prompts and their vectors are stored. The vector of a prompt and its reply as one text is derived: it is made when it is
first asked for, where no transaction is open, and kept in memory (`Grounds`) until something is erased.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from filrouge.app.meaning import Meaning
from filrouge.app.parts import Parts
from filrouge.model.turn import Turn
from filrouge.ports import Tx, Vector
from filrouge.store.threads import Threads
from filrouge.store.vectors import StoredVectors
from filrouge.threads.ground import Ground
from filrouge.threads.pairs import Exchange, Kind, roots
from filrouge.threads.vectors import prompt_vector

#: Characters of a prompt and of its reply that are read as one text.
_OF_PROMPT, _OF_REPLY = 1200, 600
#: The embedder that needs no model: its vectors are words as well, and know less of them.
_HASHED: Final = "stable-hash"


@dataclass(frozen=True, kw_only=True, slots=True)
class Talk:
    """Prompts as they are stored, in the order in which they were said.

    Attributes:
        replies: by prompt, the last reply before the session's next prompt.
        vectors: by prompt.
        ground: of the user's prompts; None while too little is known.
    """

    prompts: Sequence[Turn]
    replies: Mapping[str, Turn]
    vectors: Mapping[str, Vector]
    ground: Ground | None


def talk_of(parts: Parts, tx: Tx, meaning: Meaning, ids: Sequence[str], ground: Ground | None) -> Talk:
    """Read these prompts, those that are gone left out."""
    replies = Threads(tx).replies(ids)
    turns = {turn.id: turn for turn in parts.turns(tx).get([*ids, *replies.values()])}
    windows = StoredVectors(tx).some("turn", ids, meaning.space.id) if ground is not None else {}
    vectors = {id_: prompt_vector(own) for id_, own in windows.items()}
    return Talk(
        prompts=sorted((turns[id_] for id_ in dict.fromkeys(ids) if id_ in turns), key=lambda one: (one.at, one.id)),
        replies={id_: turns[reply] for id_, reply in replies.items() if reply in turns},
        vectors={id_: one for id_, one in vectors.items() if one is not None},
        ground=ground,
    )


def exchanges_of(parts: Parts, talk: Talk, meaning: Meaning) -> tuple[list[Exchange], Kind]:
    """The same as it is compared; for where no transaction is open, since texts may have to be embedded."""
    prompts, wholes = dict[str, Vector](), dict[str, Vector]()
    kind: Kind = "words"
    if talk.ground is not None and talk.vectors and meaning.space.model != _HASHED:
        kind = "vectors"
        prompts = _levelled(talk.ground, talk.vectors)
        texts = {
            (turn.id, reply.id): as_one(turn.text, reply.text)
            for turn in talk.prompts
            if turn.id in prompts and (reply := talk.replies.get(turn.id))
        }
        made = parts.grounds.wholes(meaning, texts)
        wholes = prompts | _levelled(talk.ground, {id_: one for (id_, _), one in made.items()})
    return [_exchange(turn, talk.replies.get(turn.id), prompts, wholes) for turn in talk.prompts], kind


def as_one(prompt: str, reply: str) -> str:
    """A prompt and its reply as one text."""
    return f"{prompt[:_OF_PROMPT]}\n{reply[:_OF_REPLY]}"


def _exchange(turn: Turn, reply: Turn | None, prompts: Mapping[str, Vector], wholes: Mapping[str, Vector]) -> Exchange:
    answer = reply.text if reply else ""
    return Exchange(
        session=f"{turn.host} {turn.scope.session}",
        prompt=prompts.get(turn.id),
        whole=wholes.get(turn.id),
        said=roots([turn.text[:_OF_PROMPT]]),
        answered=roots([answer[:_OF_REPLY]]),
        letters=len(turn.text),
        asks=answer.rstrip().endswith("?"),
    )


def _levelled(ground: Ground, vectors: Mapping[str, Vector]) -> dict[str, Vector]:
    return dict(zip(vectors, ground.off(np.stack(list(vectors.values()))), strict=True)) if vectors else {}
