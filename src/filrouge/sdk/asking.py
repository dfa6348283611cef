"""The verbs that ask: what is known about something, what belongs in front of a prompt, and what was said last."""

from __future__ import annotations

from typing import Literal, Unpack

from filrouge.sdk.door import Door, Narrow, named, narrowed
from filrouge.sdk.reading import read, read_all
from filrouge.sdk.values import Context, Found, Message, Recalled

Mode = Literal["text", "semantic", "hybrid"]
#: Characters of a question that anything reads; more would only make a long address.
_LONGEST = 2000


class Asking(Door):
    """Verbs that find, and change nothing."""

    async def search(
        self,
        query: str,
        mode: Mode = "text",
        limit: int = 10,
        *,
        collection: Literal["all", "turns", "memories"] = "all",
        timeout: float | None = None,
        **filters: Unpack[Narrow],
    ) -> list[Found]:
        """Search what was said and what was learned of it; no match is an empty list, and any punctuation is legal.

        Args:
            mode: `text` ranks verbatim turns by full text, then memories; `semantic` by meaning and `hybrid` by both,
                memories first.
            limit: at most so many, from 1 to 200.
            collection: `turns` or `memories` alone.
            filters: project, user, agent, channel, kind, since, until, as_of, trust (at least), role, thread, branch.

        Raises:
            BadInput: naming what cannot be used, and what can.
            NotFound: there is no such project.
        """
        asked = {"q": query[:_LONGEST], "mode": mode, "limit": limit, "collection": collection, **narrowed(filters)}
        return read_all(Found, await self._ask("GET", "/api/memory/search", query=asked, timeout=timeout))

    async def recall(
        self,
        query: str,
        limit: int = 5,
        *,
        threshold: float = 0.0,
        mode: Literal["semantic", "hybrid"] = "hybrid",
        timeout: float | None = None,
        **filters: Unpack[Narrow],
    ) -> Recalled:
        """Recall the memories that answer a question, best first, and whether anything is known about it.

        Args:
            limit: at most so many, from 1 to 200.
            threshold: least `relevance`.
            filters: project, user, agent, channel, kind, since, until, as_of, trust (at least), role, thread, branch.

        Raises:
            BadInput: naming what cannot be used, and what can.
            NotFound: there is no such project.
        """
        asked = {"query": query, "k": limit, "hybrid": mode == "hybrid", "threshold": threshold, **narrowed(filters)}
        return read(Recalled, await self._ask("POST", "/search", asked, timeout=timeout))

    async def context(
        self,
        prompt: str,
        *,
        channel: str = "sdk",
        session_id: str = "",
        user_id: str | None = None,
        agent_id: str | None = None,
        project: str | None = None,
        timeout: float | None = None,
    ) -> Context:
        """What belongs in front of this prompt: a block for the model, and its parts; nothing relevant is nothing.

        It sees the project and what is the user's, not other projects. What a session was given it is not given again.

        Args:
            user_id: whose memory is asked; None = this memory's user.
            agent_id: a helper agent that the prompt is for; None = the main one.
        """
        body = {
            "prompt": prompt,
            "channel": channel,
            "session_id": session_id,
            "user_id": user_id,
            "agent_id": agent_id,
            "project": named(project),
        }
        return read(Context, await self._ask("POST", "/memory/context", body, timeout=timeout))

    async def recent(
        self,
        channel: str,
        limit: int = 20,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        timeout: float | None = None,
    ) -> list[Message]:
        """The last messages of a channel and of no other, the newest last.

        Args:
            limit: at most so many.
            session_id: of this conversation alone.
            user_id: of this user alone.
        """
        asked = {"channel": channel, "session_id": session_id, "user_id": user_id, "limit": limit}
        return read_all(Message, await self._ask("GET", "/api/memory/messages", query=asked, timeout=timeout))

    async def is_novel(
        self,
        text: str,
        threshold: float = 0.88,
        *,
        project: str | None = None,
        user_id: str | None = None,
        timeout: float | None = None,
    ) -> bool:
        """Whether nothing that is known means the same as this text.

        Args:
            threshold: the calibrated similarity, from 0 to 1, from which on two texts mean the same.
            project: compared is what is known there, and what is the user's; None = outside every project.
            user_id: whose memory is asked; None = this memory's user.

        Raises:
            BadInput: there is no text, or too much of it.
        """
        body = {"text": text, "threshold": threshold, "project": named(project), "user_id": user_id}
        answer = await self._ask("POST", "/memory/novel", body, timeout=timeout)
        return bool(answer["novel"])
