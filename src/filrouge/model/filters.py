"""Filters: which memories and turns an explicit question is about.

A filter narrows exactly: what does not pass it is neither found nor counted, so the answer is that of a store which
holds nothing else. `as_of` asks what was believed at a moment: a memory counts while its validity lasts, whatever
became of it since, and a turn once it was said.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from filrouge.model.turn import Role

#: The kind under which turns are asked for, beside the kinds of memories.
TURN = "turn"


@dataclass(frozen=True, kw_only=True, slots=True)
class Filters:
    """What a memory or a turn must be; whatever is not said does not matter.

    Attributes:
        agent: who learned it: an agent's own id, or for one without an id its channel.
        channel: the host it was said through.
        kinds: kinds of memories, or `turn`; none = all.
        since, until: when it was said, from `since` on and before `until`.
        as_of: a moment; memories that were believed then.
        trust: at least this much, 0 to 3.
        role: who spoke; memories have no role and pass no such filter.
        branch: the git branch that was checked out then, in full.
        thread: the id of a thread; turns that are in it, and memories that rest on one of these.
    """

    user: str | None = None
    agent: str | None = None
    channel: str | None = None
    kinds: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    trust: int = 0
    role: Role | None = None
    thread: str | None = None
    branch: str | None = None

    @property
    def narrow(self) -> bool:
        """True if anything is said."""
        return self != EVERYTHING


#: Nothing is narrowed.
EVERYTHING = Filters()
