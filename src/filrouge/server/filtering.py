"""Filters in requests: query parameters or body fields, with the same names and meanings."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, get_args

from fastapi import Query
from pydantic import Field

from filrouge.capture.models import Role
from filrouge.core.choices import one_of
from filrouge.core.clock import parse_datetime
from filrouge.core.errors import BadInput
from filrouge.memories.models import Filters, Kind
from filrouge.server.responses import Body
from filrouge.server.validation import ThreadId

_WHEN = "A day (2026-05-01) or a moment (2026-05-01T14:30), in this machine's zone unless it names one."
_BRANCH = "Said while this git branch was checked out: its whole name."
#: Kinds of memories, and `turn` for turns.
_KINDS = (*get_args(Kind), "turn")


class FilterBody(Body):
    """Filters on memories and turns."""

    user: str | None = None
    agent: str | None = Field(None, description="Who learned it: an agent's id, or its channel where it has none.")
    channel: str | None = None
    kind: list[str] = Field(default_factory=list[str], description="Kinds of memories, or `turn`.")
    since: str | None = Field(None, description=f"Said from then on. {_WHEN}")
    until: str | None = Field(None, description=f"Said before then; a day counts whole. {_WHEN}")
    as_of: str | None = Field(None, description=f"What was believed then, at the end of a day. {_WHEN}")
    trust: int = Field(0, ge=0, le=3, description="At least: 1 the agent, 2 the user's prompts, 3 the user's own hand.")
    role: Role | None = None
    thread: ThreadId | None = Field(None, description="A thread's id: its turns, and what rests on them.")
    branch: str | None = Field(None, description=_BRANCH)

    def filters(self) -> Filters:
        """Return the filters.

        Raises:
            BadInput: a time is invalid, or a kind is unknown.
        """
        for kind in self.kind:
            one_of("kind", kind, _KINDS)
        return Filters(
            user=self.user,
            agent=self.agent,
            channel=self.channel,
            kinds=tuple(self.kind),
            since=moment_of("since", self.since),
            until=moment_of("until", self.until, end=True),
            as_of=moment_of("as_of", self.as_of, end=True),
            trust=self.trust,
            role=self.role,
            thread=self.thread,
            branch=self.branch,
        )


def filters_of(
    user: str | None = None,
    agent: Annotated[str | None, Query(description="Who learned it: an agent's id, or its channel.")] = None,
    channel: str | None = None,
    kind: Annotated[list[str] | None, Query(description="Kinds of memories, or `turn`.")] = None,
    since: Annotated[str | None, Query(description=f"Said from then on. {_WHEN}")] = None,
    until: Annotated[str | None, Query(description=f"Said before then; a day counts whole. {_WHEN}")] = None,
    as_of: Annotated[str | None, Query(description=f"What was believed then. {_WHEN}")] = None,
    trust: Annotated[int, Query(ge=0, le=3, description="At least this much.")] = 0,
    role: Role | None = None,
    thread: Annotated[ThreadId | None, Query(description="A thread's id: its turns, and what rests on them.")] = None,
    branch: Annotated[str | None, Query(description=_BRANCH)] = None,
) -> Filters:
    """Return the filters from a request's query string."""
    return FilterBody(
        user=user, agent=agent, channel=channel, kind=kind or [], since=since, until=until, as_of=as_of, trust=trust,
        role=role, thread=thread, branch=branch,
    ).filters()  # fmt: skip


def moment_of(name: str, text: str | None, *, end: bool = False) -> datetime | None:
    """Return the time that a field contains; for a day its start, or its end if `end` is true.

    Raises:
        BadInput: the text is not a time.
    """
    if text is None or not text.strip():
        return None
    try:
        return parse_datetime(text, end=end)
    except ValueError:
        raise BadInput(f"{name} is no moment: {text!r}.", remedy="Write 2026-05-01 or 2026-05-01T14:30.") from None
