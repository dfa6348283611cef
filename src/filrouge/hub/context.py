"""The block of memories that an agent without a daemon puts before its prompt.

It has the rules of the project that an admin accepted, or that the member shared, and the memories that the prompt
needs, each with its author's name. All of it is quoted from colleagues, so no line is marked as verified.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from psycopg import sql
from pydantic import Field

from filrouge.context.block import MAX_BYTES, Block, RenderOptions, build_block, max_items
from filrouge.context.models import Candidate, Section
from filrouge.core.clock import Clock, Language
from filrouge.hub import search
from filrouge.hub.database import Session
from filrouge.hub.models import MAX_TEXT_CHARS, Value
from filrouge.memories.models import MIN_CONFIDENCE_INJECT, Memory

#: The minimum probability that anything about the prompt is known, and that a memory is relevant, as they are before a
#: prompt of the daemon (`context.candidates`).
_MIN_KNOWN: Final = 0.5
_MIN_RELEVANCE: Final = 0.05
_RULES: Final = sql.SQL(
    """
SELECT {} FROM hub.versions
JOIN hub.members ON members.tenant = versions.tenant AND member = author
WHERE project = %(project)s AND kind = 'rule' AND (accepted_by <> '' OR author = %(member)s)
  AND confidence >= %(confidence)s AND (valid_to IS NULL OR valid_to > %(at)s) AND {}
ORDER BY members.name, valid_from, versions.memory LIMIT %(limit)s
"""
).format(search.MEMORY_COLUMNS, search.IN_FORCE)


class ContextRequest(Value):
    """What a block is for."""

    project: Annotated[search.Name, Field(min_length=1, description="The project's normalised remote.")]
    prompt: Annotated[str, Field(max_length=MAX_TEXT_CHARS, description="Empty = the rules alone.")] = ""
    budget: Annotated[int, Field(ge=200, le=MAX_BYTES, description="Maximum characters of the block.")] = 4000
    language: Annotated[Language, Field(description="Of headings and dates.")] = "en"

    def question(self) -> search.Question | None:
        """Return the question to search for; None without a prompt."""
        query = self.prompt.strip()[: search.MAX_QUERY_CHARS]
        return search.Question(query=query, projects=(self.project,), limit=search.MAX_RESULTS) if query else None


def build(session: Session, clock: Clock, request: ContextRequest, asked: search.QuestionVector | None = None) -> Block:
    """Return the block; its text is empty if the project has no rules and nothing relevant is known.

    Args:
        asked: the vector of the prompt in the tenant's space; None = search by words alone.

    Raises:
        Forbidden: the token may not read.
    """
    session.require("read")
    now = clock.now()
    candidates = _rules(session, request.project, now)
    if (question := request.question()) is not None:
        candidates += _memories(session, clock, question, asked)
    options = RenderOptions(occasion="start", language=request.language, budget=request.budget, now=now, dated=True)
    return build_block(candidates, options)


def _rules(session: Session, project: str, now: datetime) -> list[Candidate]:
    parameters = {
        "project": project, "member": session.identity.member, "confidence": MIN_CONFIDENCE_INJECT, "at": now,
        "limit": max_items("rules", "start"),
    }  # fmt: skip
    rows = session.connection.execute(_RULES, parameters)
    return [_candidate(search.memory_of_row(row), "rules", 1.0) for row in rows]


def _memories(
    session: Session, clock: Clock, question: search.Question, asked: search.QuestionVector | None
) -> list[Candidate]:
    ranking = search.search(session, clock, question, asked)
    if ranking.known < _MIN_KNOWN:
        return []
    return [
        _candidate(hit.item, "memories", hit.relevance)
        for hit in ranking.hits
        if isinstance(hit.item, Memory)
        and hit.item.kind != "rule"
        and hit.item.confidence >= MIN_CONFIDENCE_INJECT
        and hit.relevance >= _MIN_RELEVANCE
    ]


def _candidate(memory: Memory, section: Section, value: float) -> Candidate:
    return Candidate(
        id=memory.id,
        kind=memory.kind,
        section=section,
        text=memory.text,
        source=memory.scope.channel,
        said=memory.valid_from,
        verified=False,
        value=value,
    )
