"""What all verbs stand on: one request on the way that is open, its problem as an error, its query as text.

`Narrow` names the filters once, for every verb that takes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, TypedDict, cast
from urllib.parse import quote, urlencode

from filrouge.daemon.problems import error_of
from filrouge.errors import BadInput
from filrouge.hosts.reading import whole_text
from filrouge.model.memory import Kind
from filrouge.model.turn import Role
from filrouge.sdk.ways import Way

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
