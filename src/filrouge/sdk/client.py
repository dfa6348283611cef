"""`Memory`: the verbs of Filrouge for a program that runs an event loop.

The verbs stand in three groups, those that ask, those that look at the whole, and those that tell; all send one request
through the transport that is open.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from importlib import import_module
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, Unpack, cast
from urllib.parse import quote, urlencode

from filrouge.capture.models import Role
from filrouge.core.errors import BadInput, DaemonUnavailable
from filrouge.core.paths import home as default_home
from filrouge.core.scope import ScopeName
from filrouge.daemon.client import API_KEY, URL
from filrouge.daemon.reply import error_of
from filrouge.hosts.reading import whole_text
from filrouge.memories.models import Kind
from filrouge.sdk.transports import Elsewhere, OwnDaemon, Way
from filrouge.sdk.values import (
    Action,
    Context,
    Extracted,
    Forgotten,
    Found,
    History,
    Message,
    Observed,
    Recalled,
    Remembered,
    Rule,
    Superseded,
    Thread,
    Timeline,
    Topic,
    Undone,
    read,
    read_all,
)
from filrouge.threads.models import Timeframe

# What all verbs stand on: one request on the way that is open, its problem as an error, its query as text.
#
# `Narrow` names the filters once, for every verb that takes them.

When = str | date | datetime
"""A day or a moment: `2026-05-01`, `2026-05-01T14:30`, a `date`, or a `datetime` with its zone."""


class Narrow(TypedDict, total=False):
    """What a memory or a turn must be to be found; all of it is exact."""

    project: str
    """The id, an alias or the short name of a known project."""
    user: str
    agent: str
    """Who learned it: an agent's id, or its channel where it has none."""
    channel: str
    kind: Kind | str | Sequence[str]
    """A kind of memory, or several; or `turn`."""
    since: When
    until: When
    """Said before then; a day counts whole."""
    as_of: When
    """What was believed then; of a day, at its end."""
    trust: int
    """At least: 1 the agent, 2 the user's prompts, 3 the user's own hand."""
    role: Role
    thread: str
    branch: str
    """The git branch that was checked out when it was said."""


class Door:
    """A way to the routes that is open, or not."""

    _way: Way | None = None
    _timeout: float = 30.0

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Any:
        if self._way is None:
            raise BadInput("This memory is not open.", remedy="Use it inside `async with filrouge.Memory(…)`.")
        written = queried(query or {})
        target = f"{path}?{written}" if written else path
        sent = None if body is None else _whole(dict(body))
        reply = await self._way.send(method, target, sent, self._timeout if timeout is None else timeout)
        if reply.status >= 400:
            raise error_of(reply.body)
        return reply.value


def at(path: str, id_: str) -> str:
    """The path of what has that id.

    Raises:
        BadInput: there is no id, so that the path would be another route's.
    """
    if not id_.strip(".") or "/" in id_:
        raise BadInput(f"This is no id: {id_!r}.", remedy="Ids come from the verbs: `search`, `facts`, `threads`, …")
    return path.format(quote(id_, safe="", errors="replace"))


def named(project: str | None) -> list[str]:
    """A project as bodies take it."""
    return [project] if project else []


def narrowed(filters: Narrow) -> dict[str, Any]:
    """Filters as queries and bodies take them."""
    given: dict[str, Any] = dict(filters)
    for name in ("kind", "project"):
        if isinstance(given.get(name), str):
            given[name] = named(given[name])
    return {name: spelled(name, value) for name, value in given.items() if value is not None}


def spelled(name: str, value: Any) -> Any:
    """A moment as requests spell it; anything else as it is.

    Raises:
        BadInput: it has no zone, so that it would mean something else on another machine.
    """
    if isinstance(value, datetime) and value.tzinfo is None:
        raise BadInput(f"{name} has no zone: {value}.", remedy="Give it one: `datetime(…, tzinfo=UTC)`.")
    return value.isoformat() if isinstance(value, date) else value


def queried(query: Mapping[str, Any]) -> str:
    """A query string; what is None is left out. A lone surrogate, which no text may hold, is asked for as `?`."""
    plain = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
        if value is not None
    }
    return urlencode(plain, doseq=True, errors="replace")


def _whole(value: Any) -> Any:
    """The same with every text whole: none may hold half of a surrogate pair, and a chat's message that was cut in the
    middle of an emoji is to be remembered all the same."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, dict):
        said = cast("dict[Any, Any]", value)
        return {_whole(key): _whole(one) for key, one in said.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(one) for one in cast("list[Any]", value)]
    return value


# The verbs that ask: what is known about something, what belongs in front of a prompt, and what was said last.

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


# The verbs that look at the whole: facts, rules, threads, topics, the timeline, settings, and how it is.


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


# The verbs that tell: remember, observe, extract, and everything by which a person changes what is known.

#: Forgetting also writes files and backups again, and searches them.
_FORGETTING_SECONDS = 300.0


class Telling(Door):
    """Verbs after which something is known that was not, or the other way round."""

    async def remember(
        self,
        text: str,
        *,
        project: str | None = None,
        scope: ScopeName | None = None,
        channel: str = "sdk",
        timeout: float | None = None,
    ) -> list[Action]:
        """Remember a statement in the user's own words; it can be found when this returns.

        Args:
            project: the id, an alias or the short name of a known project; None = outside every project.
            scope: `user` or `project`; None = by what it says: who the user is and what they like is the user's.
            channel: where it was said.

        Returns:
            What each statement of the text came to.

        Raises:
            BadInput: there is no text, or too much of it.
            NotFound: there is no such project.
        """
        body = {"text": text, "project": named(project), "scope": scope, "channel": channel}
        answer = await self._ask("POST", "/api/memory/memories", body, timeout=timeout)
        return read_all(Action, answer["actions"])

    async def observe(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        channel: str,
        session_id: str,
        user_id: str | None = None,
        agent_id: str | None = None,
        project: str | None = None,
        timeout: float | None = None,
    ) -> Observed:
        """Hand over what was said; it returns once that is on disk, and understanding follows in the background.

        The same messages of a session may be handed over again: what is known is a duplicate. Where this home's
        daemon does not answer, they wait on disk until one runs; a daemon elsewhere that does not answer is an error.

        Args:
            messages: oldest first, each with `role` (user, assistant or tool) and `content`; also `tool_results`,
                `file_path`, an `id` of the program's own, and `at`: when, as ISO 8601 or a `datetime` with its zone.
            channel: where it is said; `recent` keeps channels apart, recall does not.
            session_id: the conversation.
            user_id: whose it is; None = this memory's user.
            agent_id: a helper agent of the program; None = its main one.
            project: its name or id; one that is new is made.

        Raises:
            BadInput: a message cannot be read.
            DaemonUnavailable: a daemon elsewhere does not answer; or this home's, which alone knows which project a
                short name means.
        """
        body = {
            "channel": channel,
            "session_id": session_id,
            "user_id": user_id,
            "agent_id": agent_id,
            "project": project,
            "messages": [{name: spelled(name, value) for name, value in one.items()} for one in messages],
        }
        body = {name: value for name, value in body.items() if value is not None}
        try:
            return read(Observed, await self._ask("POST", "/memory/turns", body, timeout=timeout))
        except DaemonUnavailable:
            if self._way is None or self._way.home is None:
                raise
            spooling = import_module("filrouge.sdk.spooling")
            kept = await asyncio.to_thread(spooling.spool, self._way.home, body)
            return Observed(accepted=kept, duplicates=0, spooled=True)

    async def extract(
        self,
        messages: str | Sequence[Mapping[str, Any]],
        *,
        source: str = "",
        context: str = "",
        timeout: float | None = None,
    ) -> Extracted:
        """Understand a text, or the messages of a conversation, now; `observe` leaves it to the background.

        Args:
            source: `agent/project`: who says it, and about which project.
            context: on what occasion; it is noted, and nothing is learned of it.

        Raises:
            ExtractionOff: nothing is to be understood here.
            BadInput: there is nothing to understand, or too much of it.
        """
        said = messages if isinstance(messages, str) else [dict(one) for one in messages]
        body = {"messages": said, "source": source, "context": context}
        return read(Extracted, await self._ask("POST", "/memory/extract", body, timeout=timeout))

    async def supersede(
        self, old_id: str, new_text: str, *, source: str = "", timeout: float | None = None
    ) -> Superseded:
        """Replace what a live memory says, pinned or not; the old version stays in its `history`.

        Raises:
            NotFound: there is no such memory.
        """
        body = {"old_id": old_id, "new_text": new_text, "source": source}
        return read(Superseded, await self._ask("POST", "/memory/supersede", body, timeout=timeout))

    async def forget(
        self,
        text: str = "",
        *,
        id: str = "",  # noqa: A002 (the name that everything else has for it)
        dry_run: bool = False,
        token: str = "",
        at_once: bool = False,
        timeout: float | None = None,
    ) -> Forgotten:
        """Forget everything about a text, or what has an id with what hangs on it. There is no way back.

        It is done under the `token` of a preview (`dry_run`), for exactly what that listed; or `at_once`.

        Args:
            id: of a memory, a turn, a thread, a bridge, an event or a synthesis.
            timeout: seconds; None = 300, as files and backups are written again.

        Raises:
            BadInput: neither text nor id, or both; or neither a preview, a token nor `at_once`.
            NotFound: nothing has this id.
            Stale: what the token stands for has changed.
        """
        body = {"text": text, "id": id, "dry_run": dry_run, "token": token, "at_once": at_once}
        patience = _FORGETTING_SECONDS if timeout is None else timeout
        return read(Forgotten, await self._ask("POST", "/api/memory/forget", body, timeout=patience))

    async def pin(self, memory_id: str, *, pinned: bool = True, timeout: float | None = None) -> Action:
        """Pin a memory, so that only the user changes it; or unpin it.

        Raises:
            NotFound: there is no such memory.
        """
        path = at("/api/memory/memories/{}", memory_id)
        return read(Action, await self._ask("PATCH", path, {"pinned": pinned}, timeout=timeout))

    async def bin(self, memory_id: str, *, timeout: float | None = None) -> Action:
        """Put a memory into the bin, where nothing finds it and `restore` does.

        Raises:
            NotFound: there is no such memory.
        """
        return read(Action, await self._ask("POST", at("/api/memory/memories/{}/bin", memory_id), timeout=timeout))

    async def restore(self, memory_id: str, *, timeout: float | None = None) -> Action:
        """Make a memory live again that was binned or superseded.

        Raises:
            NotFound: there is no such memory.
        """
        return read(Action, await self._ask("POST", at("/api/memory/memories/{}/restore", memory_id), timeout=timeout))

    async def undo(
        self,
        memory_id: str | None = None,
        *,
        entry: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Undone:
        """Take back the last decision about a memory, or an entry of the journal, with what stands on it.

        Args:
            dry_run: only say what that would do.

        Raises:
            NotFound: there is no such memory or entry.
            BadInput: neither or both are given, or it cannot be taken back.
        """
        body = {"memory_id": memory_id, "entry": entry, "dry_run": dry_run}
        return read(Undone, await self._ask("POST", "/api/memory/undo", body, timeout=timeout))

    async def set_fact(
        self,
        key: str,
        value: str,
        *,
        project: str | None = None,
        scope: ScopeName = "user",
        timeout: float | None = None,
    ) -> None:
        """Set a core fact: a value that its key names and that is replaced as a whole.

        Raises:
            BadInput: the key or the value is empty or too long.
        """
        body = {"key": key, "value": value, "project": named(project), "scope": scope}
        await self._ask("POST", "/api/memory/facts", body, timeout=timeout)

    async def change_fact(
        self, key: str, value: str, *, project: str | None = None, timeout: float | None = None
    ) -> None:
        """Give a fact another value; what it said stays in its history.

        Args:
            key: its key, or the id of a memory that has none.

        Raises:
            NotFound: there is no such fact.
        """
        await self._ask("PATCH", _fact(key), {"value": value}, query={"project": named(project)}, timeout=timeout)

    async def remove_fact(self, key: str, *, project: str | None = None, timeout: float | None = None) -> None:
        """Put a fact into the bin, which `undo` takes back.

        Args:
            key: its key, or the id of a memory that has none.

        Raises:
            NotFound: there is no such fact.
        """
        await self._ask("DELETE", _fact(key), query={"project": named(project)}, timeout=timeout)

    async def add_rule(
        self,
        text: str,
        *,
        project: str | None = None,
        scope: ScopeName = "project",
        timeout: float | None = None,
    ) -> Rule:
        """Add a standing instruction in the user's own words.

        Raises:
            BadInput: there is no text.
            NotFound: there is no such project.
        """
        body = {"text": text, "project": named(project), "scope": scope}
        return read(Rule, await self._ask("POST", "/api/memory/rules", body, timeout=timeout))

    async def change_rule(
        self, rule_id: str, *, text: str | None = None, enabled: bool | None = None, timeout: float | None = None
    ) -> Rule:
        """Edit a rule, which gives it another id, or switch it off and on.

        Raises:
            NotFound: there is no such rule.
            BadInput: nothing is to change.
        """
        body = {"text": text, "enabled": enabled}
        return read(Rule, await self._ask("PATCH", at("/api/memory/rules/{}", rule_id), body, timeout=timeout))

    async def remove_rule(self, rule_id: str, *, timeout: float | None = None) -> Action:
        """Put a rule into the bin.

        Raises:
            NotFound: there is no such rule.
        """
        return read(Action, await self._ask("DELETE", at("/api/memory/rules/{}", rule_id), timeout=timeout))


def _fact(key: str) -> str:
    """The path of a fact: a key may hold anything, slashes too."""
    if not key.strip("./"):
        raise BadInput(f"This is no key: {key!r}.", remedy="`facts` lists them.")
    return f"/api/memory/facts/{quote(key, errors='replace')}"


# `Memory`: the verbs of Filrouge for a program that runs an event loop.
#
#     async with filrouge.Memory() as memory:
#         await memory.remember("Production listens on port 9443.")
#         print(await memory.search("production port"))
#
# By default it asks the daemon of this user's home and starts it where it is away, like every command does. With an
# address it asks a daemon elsewhere; embedded, the program holds the home itself. The verbs are the same, and so are
# their answers: each is one request to the same routes.


class Memory(Telling, Asking, Looking):
    """A memory, open inside its `async with` block.

    Many tasks may ask at once. A memory belongs to the event loop that opened it; `BlockingMemory` serves programs
    without one, from any thread. A verb that is cancelled stops waiting at once; what it asked for may still be done.
    Every verb takes `timeout`: seconds in the place of this memory's.

    Every verb raises `DaemonUnavailable` where there is no answer in time, and otherwise the error that it names, with
    the same message wherever the memory is.
    """

    def __init__(
        self,
        home: str | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        embedded: bool = False,
        start: bool = True,
        timeout: float = 30.0,
        connections: int = 8,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Say which memory; nothing is opened yet.

        Args:
            home: its directory; None = that of the daemon (`FILROUGE_HOME`).
            url: where a daemon elsewhere listens; None = `FILROUGE_URL`, else the home's own daemon.
            api_key: its key; None = `FILROUGE_API_KEY`.
            embedded: hold the home in this process, without a daemon.
            start: start the home's daemon where it is away.
            timeout: seconds that a verb waits at most; starting a daemon takes up to 15 more.
            connections: how many requests are on their way at a time; more wait for their turn.
            environ: in the place of this process's environment.

        Raises:
            BadInput: both a home to hold and an address.
        """
        if embedded and url:
            raise BadInput("A memory is embedded or at a url, not both.", remedy="Leave one of them out.")
        self._home = home or default_home(environ)
        # A home that is named is meant; FILROUGE_URL speaks of the home that nobody names.
        seen = os.environ if environ is None else environ
        self._url = url or ("" if home else seen.get(URL, "").strip())
        self._key = api_key or seen.get(API_KEY, "").strip()
        self._holds = embedded
        self._start = start
        self._timeout = timeout
        self._connections = connections
        self._environ = environ

    @classmethod
    def embedded(
        cls, home: str | None = None, *, timeout: float = 30.0, environ: Mapping[str, str] | None = None
    ) -> Self:
        """A memory whose home this process holds; no daemon can run for it meanwhile."""
        return cls(home, embedded=True, timeout=timeout, environ=environ)

    async def __aenter__(self) -> Self:
        """Open it.

        Raises:
            BadInput: it is open already.
            Busy: it is embedded, and a daemon or another program holds the home.
            StoreError: it is embedded, and the database cannot be opened.
        """
        if self._way is not None:
            raise BadInput("This memory is open already.", remedy="Make a `Memory` for each block.")
        self._way = way = self._made()
        try:
            await way.open()
        except BaseException:
            self._way = None
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it: nothing that it opened is left."""
        way, self._way = self._way, None
        if way is not None:
            await way.close()

    def _made(self) -> Way:
        if self._holds:
            return import_module("filrouge.sdk.embedded").Embedded(self._home, environ=self._environ)
        if self._url:
            return Elsewhere(self._url, self._key, connections=self._connections)
        return OwnDaemon(self._home, start=self._start, connections=self._connections)
