"""The history of an agent: the transcript files that it left on this disk, oldest first.

Claude Code keeps `projects/<directory>/<session>.jsonl` below `CLAUDE_CONFIG_DIR` (`~/.claude`), Codex
`sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl` below `CODEX_HOME` (`~/.codex`), and what was archived in
`archived_sessions`; what is old it compresses to `….jsonl.zst`. What helper agents said among themselves is no
conversation with the user and is left out.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from filrouge.hosts import claude_code, codex, packed
from filrouge.hosts.reading import as_object, text_field
from filrouge.hosts.transcript_lines import objects

#: The agents whose history can be read, each with the variable that moves it and where it is otherwise.
AGENTS: Final[Mapping[str, tuple[str, str]]] = {
    claude_code.NAME: ("CLAUDE_CONFIG_DIR", ".claude"),
    codex.NAME: ("CODEX_HOME", ".codex"),
}
_FIRST_LINE: Final = 1024 * 1024
_THREAD: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class History(NamedTuple):
    """One transcript file."""

    path: str
    session: str
    size: int
    changed: float
    """Seconds since 1970."""
    cwd: str = ""
    """Where its session began, where its first line tells."""


def directory(agent: str, environ: Mapping[str, str]) -> str:
    """Where the agent keeps its things."""
    variable, usual = AGENTS[agent]
    return os.path.abspath(environ.get(variable) or os.path.join(os.path.expanduser("~"), usual))


def histories(agent: str, root: str) -> list[History]:
    """The transcripts below `root`, which is the agent's directory or a copy of it, oldest first."""
    read = _claude if agent == claude_code.NAME else _codex
    places = ("projects",) if agent == claude_code.NAME else ("sessions", "archived_sessions")
    inside = [place for name in places if os.path.isdir(place := os.path.join(root, name))]
    found = [one for place in inside or [root] for one in read(place)]
    return sorted(found, key=lambda one: (one.changed, one.path))


def _claude(root: str) -> Iterator[History]:
    for path in _below(root):
        above = os.path.basename(os.path.dirname(path))
        if path.endswith(".jsonl") and above != "subagents" and not os.path.basename(path).startswith("agent-"):
            session = os.path.basename(path).removesuffix(".jsonl")
            found = _history(path, session)
            if found is not None and _THREAD.search(session):
                yield found


def _codex(root: str) -> Iterator[History]:
    for path in _below(root):
        name = packed.plain(os.path.basename(path))
        stem = name.removesuffix(".jsonl")
        if not name.endswith(".jsonl") or not stem.startswith("rollout-"):
            continue
        if packed.is_packed(path) and os.path.exists(packed.plain(path)):  # it is being compressed
            continue
        meta = _meta(path)
        if isinstance(meta.get("source"), dict):  # begun by another session, not by a person
            continue
        thread = _THREAD.search(stem)
        session = text_field(meta, "session_id") or text_field(meta, "id") or (thread[0] if thread else stem)
        if (found := _history(path, session, text_field(meta, "cwd"))) is not None:
            yield found


def _below(root: str) -> Iterator[str]:
    for place, directories, names in os.walk(root):
        directories[:] = sorted(name for name in directories if name != "subagents")
        yield from (os.path.join(place, name) for name in sorted(names))


def _history(path: str, session: str, cwd: str = "") -> History | None:
    try:
        facts = os.stat(path)
    except OSError:  # gone meanwhile
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return History(path, session, facts.st_size, facts.st_mtime, cwd)


def _meta(path: str) -> dict[str, Any]:
    """What the first line of a rollout tells of its session."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return {}
        with io.BufferedReader(packed.Unpacked(path)) if packed.is_packed(path) else open(path, "rb") as file:
            first = next(objects([file.readline(_FIRST_LINE)]), None) or dict[str, Any]()
    except OSError:
        return {}
    return as_object(first.get("payload")) if first.get("type") == "session_meta" else {}
