"""An event: what a host reported, in Filrouge's own format.

The hook process turns a host's JSON into one `Event` and sends it to the daemon or writes it to the spool. Nothing else
crosses that boundary, so the JSON form is versioned. The hook imports this module: `Event` is a NamedTuple, because
importing `dataclasses` costs 9 ms there.

The content of `data`, by `kind`:

    session_start  source: startup | resume | clear | compact | fork; briefed?: the hook itself injected the brief
    prompt         text; source?: who typed it, when the host says so
    reply          text: the assistant's last message
    tools          calls: [{name, id, input, output, failed}]
    subagent       text, agent_type: the answer of a helper agent
    pre_compact    trigger
    summary        text: the host's own summary of a compacted conversation
    session_end    reason
    note           text, scope?: a statement the user made to Filrouge itself
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, cast, get_args

EventKind = Literal[
    "session_start", "prompt", "reply", "tools", "subagent", "pre_compact", "summary", "session_end", "note"
]
EVENT_KINDS: Final[tuple[str, ...]] = get_args(EventKind)
VERSION: Final = 1
#: Field of a session start's `data`: no daemon ran, and the hook itself injected the project's brief.
BRIEFED: Final = "briefed"
#: Environment variable of processes that Filrouge starts; hooks inside them do nothing.
INTERNAL: Final = "FILROUGE_INTERNAL"


class Event(NamedTuple):
    """One event in an agent's session."""

    id: str
    """Made by the hook: 26 characters, unique, the same when the spool is read twice."""
    host: str
    """claude-code, codex, cli, api, ..."""
    kind: EventKind
    session: str
    at: float
    """Seconds since 1970, by the hook's clock."""
    key: str
    """The host's own id for this event (`prompt:<uuid>`), or empty where it has none."""
    cwd: str
    project: tuple[str, ...]
    """How the project may be known, strongest first: `name:…`, `origin:…`, `root:…`, `clone:…`, `path:…`."""
    transcript: str
    """The host's transcript file, or empty."""
    agent: str
    """Empty for the main agent, else the helper agent's id."""
    data: dict[str, Any]
    user: str = ""
    """Whose it is, where a program says so; empty for the user whose daemon it is."""
    branch: str = ""
    """The git branch that was checked out, or the beginning of a commit; empty where there is none."""

    def to_json(self) -> dict[str, Any]:
        """Return the form that is sent and stored."""
        return {"v": VERSION, **self._asdict()}


def event_from_json(raw: dict[str, Any]) -> Event:
    """Parse what `to_json` wrote; ignore unknown fields.

    Raises:
        ValueError: names the first field that is missing or of the wrong type.
    """
    if raw.get("kind") not in EVENT_KINDS:
        raise ValueError(f"event kind {raw.get('kind')!r} is not one of {', '.join(EVENT_KINDS)}")
    for name in ("id", "host", "session", "key", "cwd", "transcript", "agent", "user", "branch"):
        if not isinstance(raw.get(name, ""), str):
            raise ValueError(f"event field {name!r} must be text")
    at, data, project = raw.get("at"), raw.get("data", {}), raw.get("project", ())
    if not isinstance(at, int | float) or isinstance(at, bool):
        raise ValueError("event field 'at' must be seconds since 1970")
    if not isinstance(data, dict):
        raise ValueError("event field 'data' must be an object")
    if not isinstance(project, list | tuple) or not all(isinstance(p, str) for p in cast("list[Any]", project)):
        raise ValueError("event field 'project' must be a list of texts")
    if not raw.get("id") or not raw.get("host"):
        raise ValueError("an event needs an id and a host")
    return Event(
        id=raw["id"],
        host=raw["host"],
        kind=raw["kind"],
        session=raw.get("session", ""),
        at=float(at),
        key=raw.get("key", ""),
        cwd=raw.get("cwd", ""),
        project=tuple(cast("list[str]", project)),
        transcript=raw.get("transcript", ""),
        agent=raw.get("agent", ""),
        data=cast("dict[str, Any]", data),
        user=raw.get("user", ""),
        branch=raw.get("branch", ""),
    )
