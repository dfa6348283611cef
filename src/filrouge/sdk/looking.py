"""The verbs that look at the whole: facts, rules, threads, topics, the timeline, settings, and how it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack

from filrouge.model.topic import Timeframe
from filrouge.sdk.door import Door, Narrow, When, at, named, narrowed, spelled
from filrouge.sdk.reading import read, read_all
from filrouge.sdk.values import History, Remembered, Rule, Thread, Timeline, Topic


class Looking(Door):
    """Verbs that list, and the settings."""

    async def facts(
        self, *, history: bool = False, timeout: float | None = None, **filters: Unpack[Narrow]
    ) -> list[Remembered]:
        """The current memories that are no rules, newest first; all projects unless one is named.

        Args:
            history: every state, the superseded and binned ones too; goes with no filter but `project`.
            filters: project, user, agent, channel, kind, since, until, as_of, trust (at least), thread, branch.

        Raises:
            BadInput: naming what cannot be used, and what can.
            NotFound: there is no such project.
        """
        asked = {"history": history, **narrowed(filters)}
        return read_all(Remembered, await self._ask("GET", "/api/memory/facts", query=asked, timeout=timeout))

    async def rules(
        self, *, history: bool = False, timeout: float | None = None, **filters: Unpack[Narrow]
    ) -> list[Rule]:
        """The standing instructions, newest first; all projects unless one is named.

        Args:
            history: every state; goes with no filter but `project`.

        Raises:
            BadInput: naming what cannot be used, and what can.
            NotFound: there is no such project.
        """
        asked = {"history": history, **narrowed(filters)}
        return read_all(Rule, await self._ask("GET", "/api/memory/rules", query=asked, timeout=timeout))

    async def history(self, memory_id: str, *, timeout: float | None = None) -> History:
        """Every version of a memory, oldest first, and every decision that touched it.

        Raises:
            NotFound: there is no such memory.
        """
        return read(History, await self._ask("GET", at("/api/memory/memories/{}/history", memory_id), timeout=timeout))

    async def threads(
        self,
        *,
        status: Literal["active", "suspended", "archived", "all"] = "all",
        limit: int = 50,
        project: str | None = None,
        agent: str | None = None,
        as_of: When | None = None,
        timeout: float | None = None,
    ) -> list[Thread]:
        """The threads, the latest first; all projects unless one is named.

        Args:
            limit: at most so many, from 1 to 1000.
            agent: only those that it opened.
            as_of: as they were then.

        Raises:
            NotFound: there is no such project.
        """
        then = spelled("as_of", as_of)
        asked = {"status": status, "limit": limit, "project": named(project), "agent": agent, "as_of": then}
        return read_all(Thread, await self._ask("GET", "/api/memory/threads", query=asked, timeout=timeout))

    async def thread(self, thread_id: str, *, timeout: float | None = None) -> Thread:
        """One thread; its `raw` also has where its work stood, its ties, newest turns and drifts.

        Args:
            thread_id: the beginning of an id is enough.

        Raises:
            NotFound: there is no such thread.
        """
        return read(Thread, await self._ask("GET", at("/api/memory/threads/{}", thread_id), timeout=timeout))

    async def topics(
        self,
        timeframe: Timeframe = "week",
        limit: int = 50,
        *,
        min_mention_count: int = 1,
        agent_id: str | None = None,
        user_id: str | None = None,
        timeout: float | None = None,
    ) -> list[Topic]:
        """What was spoken about in a time (today, week, month, all), the latest first.

        Args:
            min_mention_count: in so many conversations at least.
            agent_id: only what was said to this agent.
        """
        asked = {
            "timeframe": timeframe,
            "limit": limit,
            "min_mention_count": min_mention_count,
            "agent_id": agent_id,
            "user_id": user_id,
        }
        answer = await self._ask("GET", "/api/memory/topics", query=asked, timeout=timeout)
        return read_all(Topic, answer["topics"])

    async def timeline(
        self,
        limit: int = 120,
        *,
        agent_id: str | None = None,
        user_id: str | None = None,
        language: Literal["en", "fr", "es"] | None = None,
        timeout: float | None = None,
    ) -> Timeline:
        """The latest topics by how long ago they were last spoken of.

        Args:
            language: of the text; None = the one that the user writes.
        """
        asked = {"limit": limit, "agent_id": agent_id, "user_id": user_id, "language": language}
        return read(Timeline, await self._ask("GET", "/api/memory/timeline", query=asked, timeout=timeout))

    async def settings(
        self, changes: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Every setting with the value that holds; with `changes`, after they were made.

        Raises:
            BadConfig: a setting has no such name or value, or a file or the environment fixes it.
        """
        if changes is None:
            return await self._ask("GET", "/api/memory/settings", timeout=timeout)
        return await self._ask("PATCH", "/api/memory/settings", dict(changes), timeout=timeout)

    async def status(self, *, timeout: float | None = None) -> dict[str, Any]:
        """The state of the whole, in counts."""
        return await self._ask("GET", "/daemon/status", timeout=timeout)

    async def health(self, *, timeout: float | None = None) -> dict[str, Any]:
        """How well it works, in figures; `warnings` says what is to be done."""
        return await self._ask("GET", "/daemon/health", timeout=timeout)
