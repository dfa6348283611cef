"""Plans the changes to agents' settings files, for a preview, and applies them exactly as planned."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from filrouge.core.errors import FilrougeError, Stale
from filrouge.hosts.setup import files
from filrouge.hosts.setup.entries import AGENTS, Agent, File, Plugin, add_entries, is_empty, remove_entries
from filrouge.hosts.setup.files import Machine, Manifest, Record, sha256_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A file before and after the change.

    Attributes:
        agent: the agent that owns the file.
        path: the file.
        now: its current bytes; None if it does not exist.
        then: its bytes after the change; None if it is deleted.
        original: its bytes without Filrouge; None if it would not exist.
        note: a remark for the user, for example that the file was edited since.
    """

    agent: str
    path: str
    now: bytes | None
    then: bytes | None
    original: bytes | None = None
    note: str = ""

    def lines(self) -> list[str]:
        """Return the changed lines with - and + in front.

        Unchanged lines are left out, since they may contain secrets.
        """
        was, will = (content.decode("utf-8", "replace").splitlines() for content in (self.now or b"", self.then or b""))
        found = list(difflib.unified_diff(was, will, lineterm="", n=0))[2:]
        return [line for line in found if not line.startswith("@@")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The planned changes.

    Attributes:
        changes: the files that change, in order.
        troubles: files that cannot be changed, with the reason.
        settled: names of agents without any change.
        plugged: agents whose Filrouge plugin already does the work, so that their hooks are not written as well.
    """

    changes: tuple[Change, ...] = ()
    troubles: Mapping[str, FilrougeError] = field(default_factory=dict[str, FilrougeError])
    settled: tuple[str, ...] = ()
    plugged: Mapping[str, Plugin] = field(default_factory=dict[str, Plugin])


#: The owner of a repository's ignore files in the records.
IGNORE: Final = "ignore"
_Changing = Callable[[str, File], Change | None]


def detected(machine: Machine) -> list[str]:
    """Return the names of the agents found on this machine."""
    return [agent.name for agent in AGENTS.values() if agent.is_there(machine)]


def connecting(
    machine: Machine,
    home: str,
    names: Iterable[str],
    *,
    tools: bool,
    hooks: bool = True,
    conversations: bool = False,
    plugged: Mapping[str, Plugin] | None = None,
) -> Plan:
    """Plan how to connect these agents.

    Args:
        machine: the user's machine.
        home: the home directory, for the manifest.
        names: the agents' names.
        tools: register the MCP tools too.
        hooks: write the hooks; agents with `reads_all` also need `conversations`.
        conversations: the user allows plugins to read every conversation, for agents that require this permission.
        plugged: agents that have a Filrouge plugin; what the plugin does is not written.
    """
    manifest = Manifest(home)
    records = manifest.records()
    spared = plugged or {}
    wanted = {
        name: _files(
            AGENTS[name],
            machine,
            hooks=hooks and name not in spared and (conversations or not AGENTS[name].reads_all),
            tools=tools and not (name in spared and spared[name].brings_tools),
        )
        for name in names
    }
    plan = _planned(wanted, lambda agent, file: _connecting(agent, file, records.get(file.path), manifest))
    return replace(plan, plugged=spared)


def disconnecting(machine: Machine, home: str, names: Iterable[str]) -> Plan:
    """Plan how to remove all of Filrouge's entries from the settings of these agents, at current and recorded paths."""
    manifest = Manifest(home)
    records = manifest.records()
    wanted: dict[str, tuple[File, ...]] = {}
    for name in names:
        found = _files(AGENTS[name], machine)
        here = {file.path for file in found}
        elsewhere = (record for record in records.values() if record.agent == name and record.path not in here)
        wanted[name] = (*found, *(_as_file(record, found) for record in elsewhere))
    plan = _planned(wanted, lambda agent, file: _disconnecting(agent, file, records.get(file.path), manifest))
    # Remove in reverse order, so that the folder made for the first file is empty by then.
    return replace(plan, changes=plan.changes[::-1])


def ignoring(home: str, path: str, line: str) -> Change | None:
    """Plan how to add the home to an ignore file; None if it is already listed."""
    now = files.read_bytes(path)
    if line in files.text_of(now, path).splitlines():
        return None
    before = now or b""
    gap = b"\n" if before and not before.endswith(b"\n") else b""
    then = before + gap + line.encode() + b"\n"
    record = Manifest(home).records().get(path)
    original = Manifest(home).former(record) if record is not None and sha256_of(before) == record.written else now
    return Change(agent=IGNORE, path=path, now=now, then=then, original=original)


def unignoring(home: str, line: str) -> list[Change]:
    """Plan how to remove that line from every ignore file that Filrouge added it to."""
    found = list[Change]()
    for record in Manifest(home).records().values():
        if record.agent != IGNORE:
            continue
        now = files.read_bytes(record.path)
        if now is not None and sha256_of(now) == record.written:
            then, note = Manifest(home).former(record), ""
        else:
            lines = (now or b"").splitlines(keepends=True)
            rest = b"".join(one for one in lines if one.rstrip(b"\r\n") != line.encode())
            then, note = (rest or None), "The file was edited since; only Filrouge's entries are removed."
        found.append(Change(agent=IGNORE, path=record.path, now=now, then=then, original=then, note=note))
    return found


def carry_out(change: Change, home: str) -> None:
    """Change one file, if it still has the content that the plan was made for.

    Raises:
        Stale: the file was changed since.
        CannotWrite: the disk or the permissions refuse.
    """
    if files.read_bytes(change.path) != change.now:
        raise Stale(f"{change.path} was changed while you looked at the plan.", remedy="Run the command again.")
    manifest = Manifest(home)
    if change.then is not None and change.then != change.original:
        manifest.keep(change.path, change.agent, change.original, change.then)
        files.write_file(change.path, change.then)
        return
    known = manifest.records().get(change.path)
    if change.then is None:
        files.remove_file(change.path, known.made if known else ())
    elif change.then != change.now:
        files.write_file(change.path, change.then)
    manifest.drop(change.path)


def _planned(wanted: Mapping[str, tuple[File, ...]], change: _Changing) -> Plan:
    changes = list[Change]()
    troubles = dict[str, FilrougeError]()
    settled = list[str]()
    for name, listed in wanted.items():
        before = len(changes) + len(troubles)
        for file in listed:
            try:
                found = change(name, file)
            except FilrougeError as error:
                troubles[file.path] = error
                continue
            if found is not None:
                changes.append(found)
        if len(changes) + len(troubles) == before:
            settled.append(name)
    return Plan(changes=tuple(changes), troubles=troubles, settled=tuple(settled))


def _connecting(agent: str, file: File, record: Record | None, manifest: Manifest) -> Change | None:
    now = files.read_bytes(file.path)
    text = files.text_of(now, file.path)
    then = add_entries(text, file).encode()
    if then == now:
        return None
    untouched = record is not None and now is not None and sha256_of(now) == record.written
    if record is not None and untouched:
        original = manifest.former(record)
    elif record is not None or now is not None:
        original = _without_filrouge(text, file, manifest, record)
    else:
        original = None
    return Change(agent=agent, path=file.path, now=now, then=then, original=original)


def _disconnecting(agent: str, file: File, record: Record | None, manifest: Manifest) -> Change | None:
    now = files.read_bytes(file.path)
    if now is None:
        # The file no longer exists, so the record is dropped.
        return Change(agent=agent, path=file.path, now=None, then=None) if record is not None else None
    if record is not None and sha256_of(now) == record.written:
        former = manifest.former(record)
        return Change(agent=agent, path=file.path, now=now, then=former, original=former)
    then = _without_filrouge(files.text_of(now, file.path), file, manifest, record)
    if then == now and record is None:
        return None
    note = "The file was edited since; only Filrouge's entries are removed." if record is not None else ""
    return Change(agent=agent, path=file.path, now=now, then=then, original=then, note=note)


def _without_filrouge(text: str, file: File, manifest: Manifest, record: Record | None) -> bytes | None:
    """Return a file's content without Filrouge; None for a file that Filrouge created and that would be empty."""
    former = manifest.former(record) if record is not None else None
    before = files.text_of(former, file.path) if former is not None else None
    rest = remove_entries(text, file, before)
    if record is not None and not record.before and is_empty(rest, file):
        return None
    return rest.encode()


def _files(agent: Agent, machine: Machine, *, hooks: bool = True, tools: bool = True) -> tuple[File, ...]:
    """Return the files of an agent, each once, with all of their entries."""
    found: dict[str, File] = {}
    for file in (*(agent.hooks(machine) if hooks else ()), *(agent.tools(machine) if tools else ())):
        known = found.get(file.path)
        entries = (*known.entries, *file.entries) if known is not None else file.entries
        found[file.path] = File(path=file.path, entries=entries)
    return tuple(found.values())


def _as_file(record: Record, like: tuple[File, ...]) -> File:
    """Return a recorded file that the environment no longer points to, with every entry that may be in it."""
    found = File(path=record.path, entries=())
    entries = tuple(entry for file in like if file.is_toml == found.is_toml for entry in file.entries)
    return replace(found, entries=entries)
