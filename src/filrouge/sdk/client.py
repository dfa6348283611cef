"""`Memory`, the async client of Filrouge, and `BlockingMemory` for programs without an event loop.

Usage:

    async with filrouge.Memory() as memory:
        await memory.remember("Production listens on port 9443.")
        print(await memory.search("production port"))

By default a `Memory` talks to the daemon of the user's home and starts it if it is not running. With a URL it talks to
a remote daemon. Embedded, it opens the home in this process. The methods and their results are the same in all three
cases: each method is one request to the same HTTP routes. They are grouped in `Queries` (queries), `Lists` (lists,
settings, status) and `Changes` (changes).
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from datetime import date, datetime
from functools import wraps
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, Self, TypedDict, TypeVar, Unpack, cast
from urllib.parse import quote, urlencode

from filrouge._version import __version__
from filrouge.core.errors import BadInput, DaemonUnavailable
from filrouge.core.guard import on_failure
from filrouge.core.paths import home as default_home
from filrouge.daemon import client, process
from filrouge.daemon.client import API_KEY, URL
from filrouge.daemon.remote import check_url, without_credentials
from filrouge.daemon.reply import Reply, is_newer, parse_error
from filrouge.hosts.command_hooks import join_surrogates
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
    Team,
    TeamMemory,
    Thread,
    Timeline,
    Topic,
    Undone,
    read,
    read_all,
)

if TYPE_CHECKING:  # a program that uses a daemon loads the standard library alone
    from filrouge.capture.models import Role
    from filrouge.core.scope import ScopeName
    from filrouge.memories.models import Kind
    from filrouge.team.models import Policy, SharedState
    from filrouge.threads.models import Timeframe

# The transports of the SDK: HTTP to the daemon of a home, and HTTP to a remote daemon.
#
# The wire format is that of `daemon.client`, but asyncio reads and writes it, so that a cancelled call closes its
# connection at once. Each connection serves one request: on a Unix socket a new connection costs a tenth of a
# millisecond, and a request never meets a dead one. The embedded transport is in `embedded`; `spooling` stores the
# messages of `observe` when no daemon answers.


class Transport(Protocol):
    """A transport: sends requests to the routes. The caller turns problem documents in replies into errors.

    `LocalDaemon` and `RemoteDaemon` are below; `Embedded` is in a module of its own.
    """

    @property
    def home(self) -> str | None:
        """The home whose spool takes undelivered messages; None if the home is not on this machine."""
        ...

    async def open(self) -> None:
        """Prepare for sending."""
        ...

    async def send(self, method: str, target: str, body: Mapping[str, Any] | None, timeout: float) -> Reply:
        """Send one request and wait for the reply, `timeout` seconds at most in total.

        Raises:
            DaemonUnavailable: no reply came.
        """
        ...

    async def close(self) -> None:
        """Release all resources."""
        ...


class LocalDaemon:
    """The daemon of a home on this machine, over its Unix socket; started if it is not running."""

    def __init__(self, home: str, *, start: bool, connections: int) -> None:
        self.home: str | None = home
        self._directory = home
        self._start = start
        self._slots = asyncio.Semaphore(connections)

    async def open(self) -> None:
        """Do nothing: the first request finds out whether the daemon runs."""

    async def send(self, method: str, target: str, body: Mapping[str, Any] | None, timeout: float) -> Reply:
        """Send a request; if no daemon answers, start one and send it again."""
        request = client.encode_request(method, target, body)
        try:
            reply = await self._send_once(request, timeout)
        except TimeoutError:
            raise process.not_responding_error(self._directory, timeout) from None
        except (OSError, ValueError, DaemonUnavailable):
            if not self._start:
                raise DaemonUnavailable from None
            await self._start_daemon()
            try:
                reply = await self._send_once(request, timeout)
            except (OSError, ValueError) as error:
                raise DaemonUnavailable from error
        if self._start and is_newer(__version__, reply.version):
            await asyncio.to_thread(process.upgrade_daemon, self._directory, reply)
        return reply

    async def close(self) -> None:
        """Do nothing: no connection outlives its request."""

    async def _send_once(self, request: bytes, timeout: float) -> Reply:
        async with asyncio.timeout(timeout), self._slots:
            streams = await asyncio.open_unix_connection(client.verified_socket(self._directory))
            return await _exchange(*streams, request)

    async def _start_daemon(self) -> None:
        """Start the daemon; after a cancellation the thread checks once more and ends."""
        is_abandoned = threading.Event()
        try:
            await asyncio.to_thread(process.ensure_running, self._directory, is_abandoned=is_abandoned.is_set)
        finally:
            is_abandoned.set()


class RemoteDaemon:
    """A daemon at a URL, with its key: https, or http for this machine and private networks."""

    home = None

    def __init__(self, url: str, key: str, *, connections: int) -> None:
        self._address = check_url(url)
        self._url = without_credentials(url)
        self._key = f"Authorization: Bearer {key}\r\n" if key else ""
        if key and not (key.isascii() and key.isprintable()):
            raise DaemonUnavailable(
                "The API key contains invalid characters.",
                remedy="Pass `api_key` exactly as `filrouge token create` printed it.",
            )
        self._slots = asyncio.Semaphore(connections)
        self._tls = ssl.create_default_context() if self._address.scheme == "https" else None

    async def open(self) -> None:
        """Do nothing: each request opens its own connection."""

    async def send(self, method: str, target: str, body: Mapping[str, Any] | None, timeout: float) -> Reply:
        """Send a request to that address only."""
        path = self._address.path.rstrip("/") + target
        netloc = self._address.netloc.rpartition("@")[2]
        request = client.encode_request(method, path, body, host=netloc, headers=self._key)
        port = self._address.port or (443 if self._tls else 80)
        try:
            async with asyncio.timeout(timeout), self._slots:
                streams = await asyncio.open_connection(self._address.hostname, port, ssl=self._tls)
                return await _exchange(*streams, request)
        except (OSError, ValueError) as error:
            raise process.unreachable_error(self._url) from error

    async def close(self) -> None:
        """Do nothing: no connection outlives its request."""


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> Reply:
    try:
        writer.write(request)
        await writer.drain()
        raw = bytearray()
        length = -1
        while (length < 0 or len(raw) < length) and (chunk := await reader.read(65536)):
            raw += chunk
            length = client.answer_length(raw) if length < 0 or len(raw) > client.MAX_ANSWER_BYTES else length
        if len(raw) < length:
            raise ValueError("the answer is incomplete")
        return client.parse_answer(bytes(raw))
    finally:
        writer.close()


# Shared by all methods: the request, its errors, and the encoding of queries and filters.

When = str | date | datetime
"""A day or a time: `2026-05-01`, `2026-05-01T14:30`, a `date`, or a `datetime` with its zone."""


class FilterOptions(TypedDict, total=False):
    """Filters on memories and turns; every filter is an exact match."""

    project: str
    """The id, an alias or the short name of a known project."""
    user: str
    agent: str
    """The agent that learned it: its id, or its channel if it has no id."""
    channel: str
    kind: Kind | str | Sequence[str]
    """A kind of memory, or several; or `turn`."""
    since: When
    until: When
    """Said before this time; a day is included."""
    as_of: When
    """What was current at this time, or at the end of this day."""
    trust: int
    """Minimum trust: 1 the agent, 2 the user's prompts, 3 what the user entered by hand."""
    role: Role
    thread: str
    branch: str
    """The git branch that was checked out when it was said."""
    language: str
    """Memories in this language: en, fr or es."""


class Client:
    """Base of the method groups: sends requests through the open transport."""

    _transport: Transport | None = None
    _timeout: float = 30.0

    async def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Any:
        if self._transport is None:
            raise BadInput("This memory is not open.", remedy="Use it inside `async with filrouge.Memory(…)`.")
        encoded = query_string(query or {})
        target = f"{path}?{encoded}" if encoded else path
        content = None if body is None else _repair_surrogates(dict(body))
        reply = await self._transport.send(method, target, content, self._timeout if timeout is None else timeout)
        if reply.status >= 400:
            raise parse_error(reply.body)
        return reply.value


def path_with_id(path: str, id_: str) -> str:
    """Return the path with the id filled in.

    Raises:
        BadInput: the id is empty or contains a slash, so the path would match another route.
    """
    if not id_.strip(".") or "/" in id_:
        raise BadInput(
            f"This is not an id: {id_!r}.", remedy="Methods such as `search`, `facts` and `threads` return ids."
        )
    return path.format(quote(id_, safe="", errors="replace"))


def project_list(project: str | None) -> list[str]:
    """Return a project as request bodies take it."""
    return [project] if project else []


def filter_params(filters: FilterOptions) -> dict[str, Any]:
    """Return filters as query strings and bodies take them."""
    params: dict[str, Any] = dict(filters)
    for name in ("kind", "project"):
        if isinstance(params.get(name), str):
            params[name] = project_list(params[name])
    return {name: iso_time(name, value) for name, value in params.items() if value is not None}


def iso_time(name: str, value: Any) -> Any:
    """Return a date or datetime in ISO 8601; any other value unchanged.

    Raises:
        BadInput: a datetime has no time zone, so its meaning would depend on the machine.
    """
    if isinstance(value, datetime) and value.tzinfo is None:
        raise BadInput(f"{name} has no time zone: {value}.", remedy="Add one: `datetime(…, tzinfo=UTC)`.")
    return value.isoformat() if isinstance(value, date) else value


def query_string(query: Mapping[str, Any]) -> str:
    """Return a query string without the None values; a lone surrogate, which UTF-8 cannot encode, becomes `?`."""
    params = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
        if value is not None
    }
    return urlencode(params, doseq=True, errors="replace")


def _repair_surrogates(value: Any) -> Any:
    """Return the value with lone surrogates repaired in every string.

    A chat may cut a message in the middle of an emoji; such a message is still stored.
    """
    if isinstance(value, str):
        return join_surrogates(value)
    if isinstance(value, dict):
        mapping = cast("dict[Any, Any]", value)
        return {_repair_surrogates(key): _repair_surrogates(item) for key, item in mapping.items()}
    if isinstance(value, (list, tuple)):
        return [_repair_surrogates(item) for item in cast("list[Any]", value)]
    return value


# Queries.

Mode = Literal["text", "semantic", "hybrid"]
#: Maximum characters of a query that the daemon reads; more would only lengthen the URL.
_MAX_QUERY_CHARS = 2000


class Queries(Client):
    """Methods that query and change nothing."""

    async def search(
        self,
        query: str,
        mode: Mode = "text",
        limit: int = 10,
        *,
        collection: Literal["all", "turns", "memories"] = "all",
        timeout: float | None = None,
        **filters: Unpack[FilterOptions],
    ) -> list[Found]:
        """Search turns and memories. Without a match the list is empty; the query may contain any punctuation.

        Args:
            mode: `text` ranks turns by full text, then memories; `semantic` ranks by vector similarity and `hybrid` by
                both, memories first.
            limit: maximum number of hits, from 1 to 200.
            collection: `turns` or `memories` to search only one of them.
            filters: project, user, agent, channel, kind, since, until, as_of, trust (minimum), role, thread, branch,
                language.

        Raises:
            BadInput: a filter or argument is invalid; the message names it and the valid values.
            NotFound: no project has this name.
        """
        params = {
            "q": query[:_MAX_QUERY_CHARS],
            "mode": mode,
            "limit": limit,
            "collection": collection,
            **filter_params(filters),
        }
        return read_all(Found, await self._request("GET", "/api/memory/search", query=params, timeout=timeout))

    async def recall(
        self,
        query: str,
        limit: int = 5,
        *,
        threshold: float = 0.0,
        mode: Literal["semantic", "hybrid"] = "hybrid",
        timeout: float | None = None,
        **filters: Unpack[FilterOptions],
    ) -> Recalled:
        """Recall the memories that answer a question, best first, with a score for whether anything is known about it.

        Args:
            limit: maximum number of memories, from 1 to 200.
            threshold: minimum `relevance`.
            filters: project, user, agent, channel, kind, since, until, as_of, trust (minimum), role, thread, branch,
                language.

        Raises:
            BadInput: a filter or argument is invalid; the message names it and the valid values.
            NotFound: no project has this name.
        """
        body = {
            "query": query,
            "k": limit,
            "hybrid": mode == "hybrid",
            "threshold": threshold,
            **filter_params(filters),
        }
        return read(Recalled, await self._request("POST", "/search", body, timeout=timeout))

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
        """Return the context for a prompt: a block for the model, and its parts; empty if nothing is relevant.

        The context draws on the project and on the user's own memories, never on other projects. It leaves out what the
        session was already given.

        Args:
            user_id: the user whose memory is queried; None = this memory's user.
            agent_id: the helper agent that the prompt is for; None = the main agent.
        """
        body = {
            "prompt": prompt,
            "channel": channel,
            "session_id": session_id,
            "user_id": user_id,
            "agent_id": agent_id,
            "project": project_list(project),
        }
        return read(Context, await self._request("POST", "/memory/context", body, timeout=timeout))

    async def recent(
        self,
        channel: str,
        limit: int = 20,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        timeout: float | None = None,
    ) -> list[Message]:
        """Return the last messages of one channel, the newest last.

        Args:
            limit: maximum number of messages.
            session_id: only messages of this session.
            user_id: only messages of this user.
        """
        query = {"channel": channel, "session_id": session_id, "user_id": user_id, "limit": limit}
        return read_all(Message, await self._request("GET", "/api/memory/messages", query=query, timeout=timeout))

    async def is_novel(
        self,
        text: str,
        threshold: float = 0.88,
        *,
        project: str | None = None,
        user_id: str | None = None,
        timeout: float | None = None,
    ) -> bool:
        """Return whether no known memory means the same as this text.

        Args:
            threshold: calibrated similarity, from 0 to 1, at which two texts count as the same.
            project: the text is compared with memories of this project and of the user; None = outside every project.
            user_id: the user whose memory is queried; None = this memory's user.

        Raises:
            BadInput: the text is empty or too long.
        """
        body = {"text": text, "threshold": threshold, "project": project_list(project), "user_id": user_id}
        answer = await self._request("POST", "/memory/novel", body, timeout=timeout)
        return bool(answer["novel"])


# Lists, settings and status.


class Lists(Client):
    """Methods that list memories, threads and topics, and methods for settings and status."""

    async def facts(
        self, *, history: bool = False, timeout: float | None = None, **filters: Unpack[FilterOptions]
    ) -> list[Remembered]:
        """List the current memories except rules, newest first; of all projects unless one is named.

        Args:
            history: include every state, also superseded and binned; no filter except `project` is allowed with it.
            filters: project, user, agent, channel, kind, since, until, as_of, trust (minimum), thread, branch,
                language.

        Raises:
            BadInput: a filter or argument is invalid; the message names it and the valid values.
            NotFound: no project has this name.
        """
        query = {"history": history, **filter_params(filters)}
        return read_all(Remembered, await self._request("GET", "/api/memory/facts", query=query, timeout=timeout))

    async def rules(
        self, *, history: bool = False, timeout: float | None = None, **filters: Unpack[FilterOptions]
    ) -> list[Rule]:
        """List the rules (standing instructions), newest first; of all projects unless one is named.

        Args:
            history: include every state; no filter except `project` is allowed with it.

        Raises:
            BadInput: a filter or argument is invalid; the message names it and the valid values.
            NotFound: no project has this name.
        """
        query = {"history": history, **filter_params(filters)}
        return read_all(Rule, await self._request("GET", "/api/memory/rules", query=query, timeout=timeout))

    async def history(self, memory_id: str, *, timeout: float | None = None) -> History:
        """Return every version of a memory, oldest first, and every decision about it.

        Raises:
            NotFound: no memory has this id.
        """
        return read(
            History,
            await self._request("GET", path_with_id("/api/memory/memories/{}/history", memory_id), timeout=timeout),
        )

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
        """List the threads, most recently active first; of all projects unless one is named.

        Args:
            limit: maximum number of threads, from 1 to 1000.
            agent: only threads that this agent opened.
            as_of: the threads as they were at this time.

        Raises:
            NotFound: no project has this name.
        """
        then = iso_time("as_of", as_of)
        query = {"status": status, "limit": limit, "project": project_list(project), "agent": agent, "as_of": then}
        return read_all(Thread, await self._request("GET", "/api/memory/threads", query=query, timeout=timeout))

    async def thread(self, thread_id: str, *, timeout: float | None = None) -> Thread:
        """Return one thread; its `raw` also contains the state of its work, its links, newest turns and drifts.

        Args:
            thread_id: an id, or the beginning of one.

        Raises:
            NotFound: no thread has this id.
        """
        return read(
            Thread, await self._request("GET", path_with_id("/api/memory/threads/{}", thread_id), timeout=timeout)
        )

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
        """List the topics of a time frame (today, week, month, all), the latest first.

        Args:
            min_mention_count: minimum number of sessions that mention the topic.
            agent_id: only what was said to this agent.
        """
        query = {
            "timeframe": timeframe,
            "limit": limit,
            "min_mention_count": min_mention_count,
            "agent_id": agent_id,
            "user_id": user_id,
        }
        answer = await self._request("GET", "/api/memory/topics", query=query, timeout=timeout)
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
        """Return the latest topics, grouped by how long ago they were last mentioned.

        Args:
            language: language of the text; None = the language that the user writes.
        """
        query = {"limit": limit, "agent_id": agent_id, "user_id": user_id, "language": language}
        return read(Timeline, await self._request("GET", "/api/memory/timeline", query=query, timeout=timeout))

    async def team(self, *, timeout: float | None = None) -> Team:
        """Return the team of this home: what is shared of each project, and how the exchange with its hub goes."""
        return read(Team, await self._request("GET", "/api/team", timeout=timeout))

    async def team_memories(
        self, state: SharedState = "candidate", *, timeout: float | None = None
    ) -> list[TeamMemory]:
        """List memories on their way to the team, at most 200, the oldest change first.

        Args:
            state: `candidate` (waits for the user), `queued` (for the hub), `shared`, `leaving` (to be removed there),
                `withdrawn` (removed), `declined` (by the user), or `refused` (cannot be shared).

        Raises:
            NotFound: this home belongs to no team.
        """
        answer = await self._request("GET", "/api/team/memories", query={"state": state}, timeout=timeout)
        return read_all(TeamMemory, answer)

    async def settings(
        self, changes: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Return every setting with its effective value; with `changes`, apply them first.

        Raises:
            BadConfig: a name or value is invalid, or a file or the environment fixes the setting.
        """
        if changes is None:
            return await self._request("GET", "/api/memory/settings", timeout=timeout)
        return await self._request("PATCH", "/api/memory/settings", dict(changes), timeout=timeout)

    async def status(self, *, timeout: float | None = None) -> dict[str, Any]:
        """Return the daemon's status, in counts."""
        return await self._request("GET", "/daemon/status", timeout=timeout)

    async def health(self, *, timeout: float | None = None) -> dict[str, Any]:
        """Return health figures of the daemon; `warnings` says what to do about problems."""
        return await self._request("GET", "/daemon/health", timeout=timeout)


# Changes.

#: Forgetting also rewrites files and backups, and searches them.
_FORGETTING_SECONDS = 300.0


class Changes(Client):
    """Methods that change what is remembered."""

    async def remember(
        self,
        text: str,
        *,
        project: str | None = None,
        scope: ScopeName | None = None,
        channel: str = "sdk",
        timeout: float | None = None,
    ) -> list[Action]:
        """Remember a statement in the user's own words; it can be found as soon as this returns.

        Args:
            project: the id, an alias or the short name of a known project; None = outside every project.
            scope: `user` or `project`; None = decided by the text: who the user is and what they like gets `user`.
            channel: the channel where it was said.

        Returns:
            The result for each statement in the text.

        Raises:
            BadInput: the text is empty or too long.
            NotFound: no project has this name.
        """
        body = {"text": text, "project": project_list(project), "scope": scope, "channel": channel}
        answer = await self._request("POST", "/api/memory/memories", body, timeout=timeout)
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
        """Record messages. It returns once they are on disk; extraction follows in the background.

        The same messages of a session can be sent again; known messages count as duplicates. If the home's daemon does
        not answer, the messages are spooled on disk until one runs. If a remote daemon does not answer, an error is
        raised.

        Args:
            messages: oldest first, each with `role` (user, assistant or tool) and `content`; optionally `tool_results`,
                `file_path`, an `id` of the program's own, and `at`, the time as ISO 8601 or as a `datetime` with a
                time zone.
            channel: the channel where the messages were said; `recent` separates channels, `recall` does not.
            session_id: the session.
            user_id: the user they belong to; None = this memory's user.
            agent_id: a helper agent of the program; None = its main agent.
            project: name or id of the project; an unknown one is created.

        Raises:
            BadInput: a message is invalid.
            DaemonUnavailable: a remote daemon does not answer; or the home's daemon does not answer and the project is
                given by a short name, which only the daemon can resolve.
        """
        body = {
            "channel": channel,
            "session_id": session_id,
            "user_id": user_id,
            "agent_id": agent_id,
            "project": project,
            "messages": [{name: iso_time(name, value) for name, value in message.items()} for message in messages],
        }
        body = {name: value for name, value in body.items() if value is not None}
        try:
            return read(Observed, await self._request("POST", "/memory/turns", body, timeout=timeout))
        except DaemonUnavailable:
            if self._transport is None or self._transport.home is None:
                raise
            spooling = import_module("filrouge.sdk.spooling")
            count = await asyncio.to_thread(spooling.spool, self._transport.home, body)
            return Observed(accepted=count, duplicates=0, spooled=True)

    async def extract(
        self,
        messages: str | Sequence[Mapping[str, Any]],
        *,
        source: str = "",
        context: str = "",
        timeout: float | None = None,
    ) -> Extracted:
        """Extract memories from a text or from messages now; `observe` does it in the background.

        Args:
            source: `agent/project`: the agent that says it, and the project it is about.
            context: the occasion; it is recorded, and nothing is extracted from it.

        Raises:
            ExtractionOff: extraction is switched off here.
            BadInput: the text is empty or too long.
        """
        content = messages if isinstance(messages, str) else [dict(message) for message in messages]
        body = {"messages": content, "source": source, "context": context}
        return read(Extracted, await self._request("POST", "/memory/extract", body, timeout=timeout))

    async def supersede(
        self, old_id: str, new_text: str, *, source: str = "", timeout: float | None = None
    ) -> Superseded:
        """Replace the text of a live memory, pinned or not; the old version stays in its `history`.

        Raises:
            NotFound: no memory has this id.
        """
        body = {"old_id": old_id, "new_text": new_text, "source": source}
        return read(Superseded, await self._request("POST", "/memory/supersede", body, timeout=timeout))

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
        """Forget everything about a text, or the row with an id and everything that depends on it. It is irreversible.

        Call it with `dry_run` for a preview, then with the preview's `token` to forget exactly what the preview listed;
        or call it with `at_once`.

        Args:
            id: the id of a memory, a turn, a thread, a bridge, an event or a synthesis.
            timeout: seconds; None = 300, because files and backups are rewritten.

        Raises:
            BadInput: not exactly one of text and id is given, or none of `dry_run`, `token` and `at_once`.
            NotFound: nothing has this id.
            Stale: the rows that the token covers have changed.
        """
        body = {"text": text, "id": id, "dry_run": dry_run, "token": token, "at_once": at_once}
        seconds = _FORGETTING_SECONDS if timeout is None else timeout
        return read(Forgotten, await self._request("POST", "/api/memory/forget", body, timeout=seconds))

    async def pin(self, memory_id: str, *, pinned: bool = True, timeout: float | None = None) -> Action:
        """Pin a memory, so that only the user can change it; or unpin it.

        Raises:
            NotFound: no memory has this id.
        """
        path = path_with_id("/api/memory/memories/{}", memory_id)
        return read(Action, await self._request("PATCH", path, {"pinned": pinned}, timeout=timeout))

    async def bin(self, memory_id: str, *, timeout: float | None = None) -> Action:
        """Move a memory to the bin; it is no longer found, and `restore` brings it back.

        Raises:
            NotFound: no memory has this id.
        """
        return read(
            Action, await self._request("POST", path_with_id("/api/memory/memories/{}/bin", memory_id), timeout=timeout)
        )

    async def restore(self, memory_id: str, *, timeout: float | None = None) -> Action:
        """Restore a memory that was binned or superseded.

        Raises:
            NotFound: no memory has this id.
        """
        return read(
            Action,
            await self._request("POST", path_with_id("/api/memory/memories/{}/restore", memory_id), timeout=timeout),
        )

    async def undo(
        self,
        memory_id: str | None = None,
        *,
        entry: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Undone:
        """Undo the last decision about a memory, or a journal entry, with every decision that depends on it.

        Args:
            dry_run: only report the effect.

        Raises:
            NotFound: no memory or entry has this id.
            BadInput: not exactly one of the two is given, or the decision cannot be undone.
        """
        body = {"memory_id": memory_id, "entry": entry, "dry_run": dry_run}
        return read(Undone, await self._request("POST", "/api/memory/undo", body, timeout=timeout))

    async def set_fact(
        self,
        key: str,
        value: str,
        *,
        project: str | None = None,
        scope: ScopeName = "user",
        timeout: float | None = None,
    ) -> None:
        """Set a core fact: a value that is stored under a key and replaced as a whole.

        Raises:
            BadInput: the key or the value is empty or too long.
        """
        body = {"key": key, "value": value, "project": project_list(project), "scope": scope}
        await self._request("POST", "/api/memory/facts", body, timeout=timeout)

    async def change_fact(
        self, key: str, value: str, *, project: str | None = None, timeout: float | None = None
    ) -> None:
        """Change the value of a fact; the old value stays in its history.

        Args:
            key: the fact's key, or the id of a memory without a key.

        Raises:
            NotFound: no fact has this key.
        """
        await self._request(
            "PATCH", _fact_path(key), {"value": value}, query={"project": project_list(project)}, timeout=timeout
        )

    async def remove_fact(self, key: str, *, project: str | None = None, timeout: float | None = None) -> None:
        """Move a fact to the bin; `undo` brings it back.

        Args:
            key: the fact's key, or the id of a memory without a key.

        Raises:
            NotFound: no fact has this key.
        """
        await self._request("DELETE", _fact_path(key), query={"project": project_list(project)}, timeout=timeout)

    async def add_rule(
        self,
        text: str,
        *,
        project: str | None = None,
        scope: ScopeName = "project",
        timeout: float | None = None,
    ) -> Rule:
        """Add a rule (a standing instruction) in the user's own words.

        Raises:
            BadInput: the text is empty.
            NotFound: no project has this name.
        """
        body = {"text": text, "project": project_list(project), "scope": scope}
        return read(Rule, await self._request("POST", "/api/memory/rules", body, timeout=timeout))

    async def change_rule(
        self, rule_id: str, *, text: str | None = None, enabled: bool | None = None, timeout: float | None = None
    ) -> Rule:
        """Edit, enable or disable a rule; an edited rule gets a new id.

        Raises:
            NotFound: no rule has this id.
            BadInput: neither text nor enabled is given.
        """
        body = {"text": text, "enabled": enabled}
        return read(
            Rule, await self._request("PATCH", path_with_id("/api/memory/rules/{}", rule_id), body, timeout=timeout)
        )

    async def remove_rule(self, rule_id: str, *, timeout: float | None = None) -> Action:
        """Move a rule to the bin.

        Raises:
            NotFound: no rule has this id.
        """
        return read(
            Action, await self._request("DELETE", path_with_id("/api/memory/rules/{}", rule_id), timeout=timeout)
        )

    async def share(self, memory_ids: Sequence[str], *, timeout: float | None = None) -> list[TeamMemory]:
        """Share memories with the team, whatever the policy of their project says; return what becomes of each.

        Args:
            memory_ids: 1 to 500 ids.

        Raises:
            NotFound: this home belongs to no team, or no memory has one of these ids.
            BadInput: a memory cannot be shared, so none is; the message says why.
        """
        body = {"ids": list(memory_ids)}
        return read_all(TeamMemory, await self._request("POST", "/api/team/share", body, timeout=timeout))

    async def unshare(self, memory_ids: Sequence[str], *, timeout: float | None = None) -> list[TeamMemory]:
        """Take memories back for good, or decline those that wait. Colleagues lose them, and they stay here.

        Args:
            memory_ids: 1 to 500 ids.

        Raises:
            NotFound: this home belongs to no team, or no memory has one of these ids.
        """
        body = {"ids": list(memory_ids)}
        return read_all(TeamMemory, await self._request("POST", "/api/team/unshare", body, timeout=timeout))

    async def accept_for_team(self, memory_ids: Sequence[str], *, timeout: float | None = None) -> int:
        """Accept rules for everybody in the team, as an admin of it; return how many were not accepted before.

        Args:
            memory_ids: 1 to 500 ids of rules that colleagues share, or that were shared from here.

        Raises:
            NotFound: this home belongs to no team, or no memory has one of these ids.
            BadInput: a memory is no rule, or the team does not have it; none is accepted then.
            Forbidden: the user is no admin of the team.
        """
        body = {"ids": list(memory_ids)}
        return int((await self._request("POST", "/api/team/accept", body, timeout=timeout))["accepted"])

    async def share_project(
        self, project: str, policy: Policy, *, with_evidence: bool | None = None, timeout: float | None = None
    ) -> Team:
        """Say what is shared of a project from now on, and of what is known of it already.

        Args:
            project: the id, an alias or the short name of a known project.
            policy: `off`; `ask`: each memory waits for the user; `rules-and-decisions`; or `all-memories`.
            with_evidence: also share the quotes that prove memories; None = as before.

        Raises:
            NotFound: this home belongs to no team, or no project has this name.
            BadInput: the project has no remote, by which the team could know it.
        """
        body = {"project": project, "policy": policy, "with_evidence": with_evidence}
        return read(Team, await self._request("PUT", "/api/team/policy", body, timeout=timeout))


def _fact_path(key: str) -> str:
    """Return the path of a fact; a key may contain any character, slashes included."""
    if not key.strip("./"):
        raise BadInput(f"This is not a key: {key!r}.", remedy="`facts` lists the keys.")
    return f"/api/memory/facts/{quote(key, errors='replace')}"


class Memory(Changes, Queries, Lists):
    """A memory, open inside its `async with` block.

    Many tasks can use it at once. A memory belongs to the event loop that opened it; programs without an event loop
    use `BlockingMemory`, which works from any thread. A cancelled call stops waiting at once, but the daemon may still
    carry out the request. Every method takes `timeout` in seconds, which overrides the memory's own.

    Every method raises `DaemonUnavailable` if no answer comes in time. The other errors are those that the method
    lists, with the same message for every transport.
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
        """Configure the memory; nothing is opened yet.

        Args:
            home: its directory; None = that of the daemon (`FILROUGE_HOME`).
            url: address of a remote daemon; None = `FILROUGE_URL`, else the home's own daemon.
            api_key: the remote daemon's key; None = `FILROUGE_API_KEY`.
            embedded: open the home in this process, without a daemon.
            start: start the home's daemon if it is not running.
            timeout: maximum seconds that a method waits; starting a daemon takes up to 15 more.
            connections: maximum number of concurrent requests; further requests wait.
            environ: environment variables to use instead of the process's own.

        Raises:
            BadInput: both `embedded` and `url` are given.
        """
        if embedded and url:
            raise BadInput("`embedded` and `url` exclude each other.", remedy="Pass only one of them.")
        self._home = home or default_home(environ)
        # An explicit home wins; FILROUGE_URL applies only when no home is given.
        variables = os.environ if environ is None else environ
        self._url = url or ("" if home else variables.get(URL, "").strip())
        self._key = api_key or variables.get(API_KEY, "").strip()
        self._is_embedded = embedded
        self._start = start
        self._timeout = timeout
        self._connections = connections
        self._environ = environ

    @classmethod
    def embedded(
        cls, home: str | None = None, *, timeout: float = 30.0, environ: Mapping[str, str] | None = None
    ) -> Self:
        """Return a memory that opens the home in this process; no daemon can run for that home meanwhile."""
        return cls(home, embedded=True, timeout=timeout, environ=environ)

    async def __aenter__(self) -> Self:
        """Open the memory.

        Raises:
            BadInput: it is already open.
            Busy: it is embedded, and a daemon or another program has the home open.
            StoreError: it is embedded, and the database cannot be opened.
        """
        if self._transport is not None:
            raise BadInput("This memory is already open.", remedy="Create one `Memory` for each block.")
        self._transport = transport = self._make_transport()
        with on_failure(self._drop_transport):
            await transport.open()
        return self

    def _drop_transport(self) -> None:
        self._transport = None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the memory and everything that it opened."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    def _make_transport(self) -> Transport:
        if self._is_embedded:
            return import_module("filrouge.sdk.embedded").Embedded(self._home, environ=self._environ)
        if self._url:
            return RemoteDaemon(self._url, self._key, connections=self._connections)
        return LocalDaemon(self._home, start=self._start, connections=self._connections)


# `BlockingMemory`: the client for programs without an event loop.
#
# Each method runs the method of `Memory` with the same name on an event loop in a background thread. Parameters,
# defaults and docstrings are therefore those of `Memory`, also for editors and type checkers.

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[Memory, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingMemory, P], T]:
    """Return the blocking version of an async method."""

    @wraps(method)
    def blocking(self: BlockingMemory, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wait(method(self._memory, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    return blocking


class BlockingMemory:
    """A memory, open inside its `with` block; safe for several threads.

    It takes the same arguments as `Memory`.
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
        """Configure the memory, as `Memory` does; nothing is opened yet."""
        self._memory = Memory(
            home,
            url=url,
            api_key=api_key,
            embedded=embedded,
            start=start,
            timeout=timeout,
            connections=connections,
            environ=environ,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()  # no coroutine is submitted to a loop that is being stopped
        self._resources = ExitStack()

    @classmethod
    def embedded(
        cls, home: str | None = None, *, timeout: float = 30.0, environ: Mapping[str, str] | None = None
    ) -> Self:
        """Return a memory that opens the home in this process; no daemon can run for that home meanwhile."""
        return cls(home, embedded=True, timeout=timeout, environ=environ)

    remember = _blocking(Memory.remember)
    observe = _blocking(Memory.observe)
    extract = _blocking(Memory.extract)
    supersede = _blocking(Memory.supersede)
    forget = _blocking(Memory.forget)
    pin = _blocking(Memory.pin)
    bin = _blocking(Memory.bin)
    restore = _blocking(Memory.restore)
    undo = _blocking(Memory.undo)
    set_fact = _blocking(Memory.set_fact)
    change_fact = _blocking(Memory.change_fact)
    remove_fact = _blocking(Memory.remove_fact)
    add_rule = _blocking(Memory.add_rule)
    change_rule = _blocking(Memory.change_rule)
    remove_rule = _blocking(Memory.remove_rule)
    share = _blocking(Memory.share)
    unshare = _blocking(Memory.unshare)
    accept_for_team = _blocking(Memory.accept_for_team)
    share_project = _blocking(Memory.share_project)
    search = _blocking(Memory.search)
    recall = _blocking(Memory.recall)
    context = _blocking(Memory.context)
    recent = _blocking(Memory.recent)
    is_novel = _blocking(Memory.is_novel)
    facts = _blocking(Memory.facts)
    rules = _blocking(Memory.rules)
    history = _blocking(Memory.history)
    threads = _blocking(Memory.threads)
    thread = _blocking(Memory.thread)
    topics = _blocking(Memory.topics)
    timeline = _blocking(Memory.timeline)
    team = _blocking(Memory.team)
    team_memories = _blocking(Memory.team_memories)
    settings = _blocking(Memory.settings)
    status = _blocking(Memory.status)
    health = _blocking(Memory.health)

    def __enter__(self) -> Self:
        """Open the memory as `Memory` does, and start its thread."""
        if self._loop is not None:
            raise BadInput("This memory is already open.", remedy="Create one `BlockingMemory` for each block.")
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=_run_loop, args=(self._loop,), name="filrouge-memory", daemon=True)
        thread.start()
        self._resources.callback(self._stop_loop, self._loop, thread)
        with on_failure(self._resources.close):
            self._wait(self._memory.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the memory; calls of other threads that still wait are cancelled."""
        try:
            self._wait(self._memory.__aexit__(kind, error, trace))
        finally:
            self._resources.close()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the memory's loop and wait for it; an interrupt cancels it."""
        with self._lock:
            if self._loop is None:
                coroutine.close()
                raise BadInput("This memory is not open.", remedy="Use it inside `with filrouge.BlockingMemory(…)`.")
            running = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        with on_failure(running.cancel):
            return running.result()

    def _stop_loop(self, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        with self._lock:
            self._loop = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then cancel the tasks left on it."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
