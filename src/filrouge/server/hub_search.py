"""Search and context for agents without a daemon: `/hub/v1/search`, `/hub/v1/context`, and both as MCP at `/mcp`.

The hub embeds a question if its embedder makes vectors of the tenant's space; otherwise words alone are searched. It
embeds between two transactions: a model may take seconds to load, and a connection would wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from msgspec import Struct
from starlette.concurrency import run_in_threadpool

from filrouge.context.block import Block
from filrouge.core.clock import Clock
from filrouge.core.errors import EmbedderUnavailable
from filrouge.core.protocols import Embedder
from filrouge.hub import context, search
from filrouge.hub.context import ContextRequest
from filrouge.hub.database import Session
from filrouge.hub.models import Value
from filrouge.hub.search import Question, QuestionVector
from filrouge.memories.models import Memory
from filrouge.search.models import Hit, Ranking
from filrouge.server.hub_session import clock_of, run

Run = Callable[[Callable[[Session], Any]], Any]
"""Runs work in a transaction of the member who asks."""
_BY_WORDS: Final = "Searched by words alone: the hub cannot embed a question for this team."
_MCP: Final = "filrouge.mcp.hub"
router = APIRouter()


class FoundMemory(Value):
    """A memory of the team, with what it is ranked by: both in [0, 1], best first."""

    memory: str
    text: str
    kind: str
    project: str
    author_name: str
    score: float
    relevance: float
    said: datetime


class SearchAnswer(Value):
    """The memories that answer a question."""

    items: tuple[FoundMemory, ...]
    notices: tuple[str, ...] = ()


class ContextAnswer(Value):
    """The text of a block; empty if there is nothing to say."""

    text: str
    memories: int
    notices: tuple[str, ...] = ()


class Searcher(Struct, frozen=True, kw_only=True):
    """Answers questions of one member.

    Attributes:
        run: runs work in a transaction of the member.
        embedder: makes the vectors of questions.
    """

    run: Run
    clock: Clock
    embedder: Embedder

    def search(self, question: Question) -> SearchAnswer:
        """Return the memories that answer a question."""
        asked, notices = self._embedded(question.query)
        ranking: Ranking = self.run(lambda hub: search.search(hub, self.clock, question, asked))
        return SearchAnswer(items=tuple(_found(hit) for hit in ranking.hits), notices=notices)

    def context(self, request: ContextRequest) -> ContextAnswer:
        """Return the block for a prompt."""
        question = request.question()
        asked, notices = self._embedded(question.query) if question else (None, ())
        block: Block = self.run(lambda hub: context.build(hub, self.clock, request, asked))
        return ContextAnswer(text=block.text, memories=block.memories, notices=notices)

    def _embedded(self, query: str) -> tuple[QuestionVector | None, tuple[str, ...]]:
        """Return the vector of a question; None, with the reason, if the hub cannot make one."""
        name, dimension = self.run(_space_to_read)
        if not name:
            return None, ()
        space = self.embedder.space
        if (space.id, space.dimension) != (name, dimension):
            return None, (_BY_WORDS,)
        try:
            return QuestionVector(vector=self.embedder.query(query), space=space), ()
        except EmbedderUnavailable:
            return None, (_BY_WORDS,)


def _space_to_read(session: Session) -> tuple[str, int]:
    session.require("read")
    return search.space_of_tenant(session)


def _found(hit: Hit) -> FoundMemory:
    memory = hit.item
    assert isinstance(memory, Memory)
    return FoundMemory(
        memory=memory.id,
        text=memory.text,
        kind=memory.kind,
        project=memory.scope.project or "",
        author_name=memory.scope.channel,
        score=round(hit.score, 4),
        relevance=round(hit.relevance, 4),
        said=memory.valid_from,
    )


def searcher_of(request: Request) -> Searcher:
    """Return the searcher of the member who asks."""
    return Searcher(run=lambda work: run(request, work), clock=clock_of(request), embedder=request.app.state.embedder)


@router.post("/hub/v1/search")
def search_memories(body: Question, request: Request) -> SearchAnswer:
    """Search the live memories of the team."""
    return searcher_of(request).search(body)


@router.post("/hub/v1/context")
def get_context(body: ContextRequest, request: Request) -> ContextAnswer:
    """Return the rules of a project and the memories that a prompt needs, as one block of quoted text."""
    return searcher_of(request).context(body)


@router.post("/mcp", include_in_schema=False)
async def mcp(request: Request) -> Response:
    """Answer one MCP message. The SDK is imported at the first one, for its users only."""
    await run_in_threadpool(run, request, _space_to_read)  # a token that may not read gets no answer at all
    module: Any = await run_in_threadpool(import_module, _MCP)
    return await module.respond(request)


@router.api_route("/mcp", methods=["GET", "DELETE"], include_in_schema=False)
async def no_stream() -> Response:
    """Refuse GET and DELETE, because there is no stream to read and no session to end."""
    return Response(status_code=405, headers={"Allow": "POST"})
