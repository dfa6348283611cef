"""Exchanges: the prompts of a project with what followed them, as they are held against each other.

Prompts and their vectors are stored. The vector of a prompt and its replies as one text is derived: it is made when it
is first asked for, where no transaction is open, and kept in memory (`Grounds`) until something is erased.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from filrouge.capture.models import Turn
from filrouge.core.protocols import Tx, Vector
from filrouge.providers.hashing import HASHED
from filrouge.runtime.services import Parts
from filrouge.search.vector_repository import StoredVectors
from filrouge.search.vector_search import Meaning
from filrouge.threads.assignment import Exchange, Ground, Kind, prompt_vector, roots
from filrouge.threads.repository import Threads

#: Characters of a prompt and of its replies that are read, and turns that these are looked for in.
_OF_PROMPT, _OF_REPLIES, _TURNS = 1200, 600, 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Talk:
    """Prompts as they are stored, in the order in which they were said.

    Attributes:
        replies: by prompt, the ids and the words of what followed it: of the agent, and of the user where it was too
            short to be placed by itself.
        vectors: by prompt.
        ground: of the user's prompts; None while too little is known.
    """

    prompts: Sequence[Turn]
    replies: Mapping[str, tuple[str, str]]
    vectors: Mapping[str, Vector]
    ground: Ground | None


def talk_of(parts: Parts, tx: Tx, meaning: Meaning, ids: Sequence[str], ground: Ground | None) -> Talk:
    """Read these prompts, those that are gone left out."""
    followers = Threads(tx).followers(ids, _TURNS)
    turns = {turn.id: turn for turn in parts.turns(tx).get([*ids, *(id_ for own in followers.values() for id_ in own)])}
    windows = StoredVectors(tx).some("turn", ids, meaning.space.id) if ground is not None else {}
    vectors = {id_: prompt_vector(own) for id_, own in windows.items()}
    return Talk(
        prompts=sorted((turns[id_] for id_ in dict.fromkeys(ids) if id_ in turns), key=lambda one: (one.at, one.id)),
        replies={id_: (" ".join(own), in_one(turns[one].text for one in own)) for id_, own in followers.items()},
        vectors={id_: one for id_, one in vectors.items() if one is not None},
        ground=ground,
    )


def exchanges_of(parts: Parts, talk: Talk, meaning: Meaning) -> tuple[list[Exchange], Kind]:
    """The same as it is compared; for where no transaction is open, since texts may have to be embedded."""
    prompts, wholes = dict[str, Vector](), dict[str, Vector]()
    kind: Kind = "words"
    if talk.ground is not None and talk.vectors and meaning.space.model != HASHED:
        kind = "vectors"  # those of hashed words are words as well, and know less of them
        prompts = _levelled(talk.ground, talk.vectors)
        texts = {
            (turn.id, ids): as_one(turn.text, replies)
            for turn in talk.prompts
            if turn.id in prompts and (ids := talk.replies[turn.id][0]) and (replies := talk.replies[turn.id][1])
        }
        made = parts.grounds.wholes(meaning, texts)
        wholes = prompts | _levelled(talk.ground, {id_: one for (id_, _), one in made.items()})
    found = [
        exchange(
            f"{turn.host} {turn.scope.session}",
            turn.text,
            talk.replies[turn.id][1],
            prompts.get(turn.id),
            wholes.get(turn.id),
        )
        for turn in talk.prompts
    ]
    return found, kind


def in_one(texts: Iterable[str]) -> str:
    """The beginning of several texts as one."""
    return "\n".join(text[:_OF_REPLIES] for text in texts)[:_OF_REPLIES]


def as_one(prompt: str, replies: str) -> str:
    """A prompt and its replies as one text."""
    return f"{prompt[:_OF_PROMPT]}\n{replies}"


def exchange(session: str, text: str, replies: str, prompt: Vector | None, whole: Vector | None) -> Exchange:
    """A prompt with what followed it, and their vectors above the ground."""
    return Exchange(
        session=session,
        prompt=prompt,
        whole=whole,
        said=roots([text[:_OF_PROMPT]]),
        answered=roots([replies]),
        letters=len(text),
        asks=replies.rstrip().endswith("?"),
    )


def _levelled(ground: Ground, vectors: Mapping[str, Vector]) -> dict[str, Vector]:
    return dict(zip(vectors, ground.off(np.stack(list(vectors.values()))), strict=True)) if vectors else {}
