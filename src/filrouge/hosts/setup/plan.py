"""Plans the changes to agents' settings files, for a preview, and applies them exactly as planned."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from filrouge.core.errors import FilrougeError, Stale
from filrouge.hosts.setup import files
from filrouge.hosts.setup.entries import AGENTS, Agent, File, Plugin, add_entries, is_empty, remove_entries
from filrouge.hosts.setup.files import Machine, Manifest, Record, sha256_of


class Change(Struct, frozen=True, kw_only=True):
    """A file before and after the change.

    Attributes:
        agent: the agent that owns the file.
        path: the file.
        current: its current bytes; None if it does not exist.
        planned: its bytes after the change; None if it is deleted.
        original: its bytes without Filrouge; None if it would not exist.
        note: a remark for the user, for example that the file was edited since.
    """

    agent: str
    path: str
    current: bytes | None
    planned: bytes | None
    original: bytes | None = None
    note: str = ""

    def lines(self) -> list[str]:
        """Return the changed lines with - and + in front.

        Unchanged lines are left out, since they may contain secrets.
        """
        before, after = (
            content.decode("utf-8", "replace").splitlines() for content in (self.current or b"", self.planned or b"")
        )
        found = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
        return [line for line in found if not line.startswith("@@")]


class Plan(Struct, frozen=True, kw_only=True):
    """The planned changes.

    Attributes:
        changes: the files that change, in order.
        problems: files that cannot be changed, with the reason.
        unchanged: names of agents without any change.
        plugins: agents whose Filrouge plugin already does the work, so that their hooks are not written as well.
    """

    changes: tuple[Change, ...] = ()
    problems: Mapping[str, FilrougeError] = field(default_factory=dict[str, FilrougeError])
    unchanged: tuple[str, ...] = ()
    plugins: Mapping[str, Plugin] = field(default_factory=dict[str, Plugin])


#: The owner of a repository's ignore files in the records.
IGNORE: Final = "ignore"
_ChangePlanner = Callable[[str, File], Change | None]


def detected_agents(machine: Machine) -> list[str]:
    """Return the names of the agents found on this machine."""
    return [agent.name for agent in AGENTS.values() if agent.is_installed(machine)]


def plan_connecting(
    machine: Machine,
    home: str,
    names: Iterable[str],
    *,
    tools: bool,
    hooks: bool = True,
    conversations: bool = False,
    plugins: Mapping[str, Plugin] | None = None,
) -> Plan:
    """Plan how to connect these agents.

    Args:
        machine: the user's machine.
        home: the home directory, for the manifest.
        names: the agents' names.
        tools: register the MCP tools too.
        hooks: write the hooks; agents with `reads_all` also need `conversations`.
        conversations: the user allows plugins to read every conversation, for agents that require this permission.
        plugins: agents that have a Filrouge plugin; what the plugin does is not written.
    """
    manifest = Manifest(home)
    records = manifest.records()
    installed = plugins or {}
    files_by_agent = {
        name: _agent_files(
            AGENTS[name],
            machine,
            hooks=hooks and name not in installed and (conversations or not AGENTS[name].reads_all),
            tools=tools and not (name in installed and installed[name].brings_tools),
        )
        for name in names
    }
    plan = _plan_files(files_by_agent, lambda agent, file: _plan_entries(agent, file, records.get(file.path), manifest))
    return replace(plan, plugins=installed)


def plan_disconnecting(machine: Machine, home: str, names: Iterable[str]) -> Plan:
    """Plan how to remove all of Filrouge's entries from the settings of these agents, at current and recorded paths."""
    manifest = Manifest(home)
    records = manifest.records()
    files_by_agent: dict[str, tuple[File, ...]] = {}
    for name in names:
        agent_files = _agent_files(AGENTS[name], machine)
        current_paths = {file.path for file in agent_files}
        moved_records = (
            record for record in records.values() if record.agent == name and record.path not in current_paths
        )
        files_by_agent[name] = (*agent_files, *(_as_file(record, agent_files) for record in moved_records))
    plan = _plan_files(files_by_agent, lambda agent, file: _plan_removal(agent, file, records.get(file.path), manifest))
    # Remove in reverse order, so that the folder made for the first file is empty by then.
    return replace(plan, changes=plan.changes[::-1])


def plan_ignoring(home: str, path: str, line: str) -> Change | None:
    """Plan how to add the home to an ignore file; None if it is already listed."""
    now = files.read_bytes(path)
    if line in files.decode_text(now, path).splitlines():
        return None
    before = now or b""
    separator = b"\n" if before and not before.endswith(b"\n") else b""
    then = before + separator + line.encode() + b"\n"
    record = Manifest(home).records().get(path)
    original = Manifest(home).original(record) if record is not None and sha256_of(before) == record.written else now
    return Change(agent=IGNORE, path=path, current=now, planned=then, original=original)


def plan_unignoring(home: str, line: str) -> list[Change]:
    """Plan how to remove that line from every ignore file that Filrouge added it to."""
    changes = list[Change]()
    for record in Manifest(home).records().values():
        if record.agent != IGNORE:
            continue
        now = files.read_bytes(record.path)
        if now is not None and sha256_of(now) == record.written:
            then, note = Manifest(home).original(record), ""
        else:
            lines = (now or b"").splitlines(keepends=True)
            remaining = b"".join(kept_line for kept_line in lines if kept_line.rstrip(b"\r\n") != line.encode())
            then, note = (remaining or None), "The file was edited since; only Filrouge's entries are removed."
        changes.append(Change(agent=IGNORE, path=record.path, current=now, planned=then, original=then, note=note))
    return changes


def apply_change(change: Change, home: str) -> None:
    """Change one file, if it still has the content that the plan was made for.

    Raises:
        Stale: the file was changed since.
        CannotWrite: the disk or the permissions refuse.
    """
    if files.read_bytes(change.path) != change.current:
        raise Stale(f"{change.path} was changed while you looked at the plan.", remedy="Run the command again.")
    manifest = Manifest(home)
    if change.planned is not None and change.planned != change.original:
        manifest.add(change.path, change.agent, change.original, change.planned)
        files.write_file(change.path, change.planned)
        return
    record = manifest.records().get(change.path)
    if change.planned is None:
        files.remove_file(change.path, record.made if record else ())
    elif change.planned != change.current:
        files.write_file(change.path, change.planned)
    manifest.remove(change.path)


def _plan_files(files_by_agent: Mapping[str, tuple[File, ...]], plan_change: _ChangePlanner) -> Plan:
    changes = list[Change]()
    problems = dict[str, FilrougeError]()
    unchanged = list[str]()
    for name, agent_files in files_by_agent.items():
        before = len(changes) + len(problems)
        for file in agent_files:
            try:
                planned_change = plan_change(name, file)
            except FilrougeError as error:
                problems[file.path] = error
                continue
            if planned_change is not None:
                changes.append(planned_change)
        if len(changes) + len(problems) == before:
            unchanged.append(name)
    return Plan(changes=tuple(changes), problems=problems, unchanged=tuple(unchanged))


def _plan_entries(agent: str, file: File, record: Record | None, manifest: Manifest) -> Change | None:
    now = files.read_bytes(file.path)
    text = files.decode_text(now, file.path)
    then = add_entries(text, file).encode()
    if then == now:
        return None
    is_unedited = record is not None and now is not None and sha256_of(now) == record.written
    if record is not None and is_unedited:
        original = manifest.original(record)
    elif record is not None or now is not None:
        original = _without_filrouge(text, file, manifest, record)
    else:
        original = None
    return Change(agent=agent, path=file.path, current=now, planned=then, original=original)


def _plan_removal(agent: str, file: File, record: Record | None, manifest: Manifest) -> Change | None:
    now = files.read_bytes(file.path)
    if now is None:
        # The file no longer exists, so the record is dropped.
        return Change(agent=agent, path=file.path, current=None, planned=None) if record is not None else None
    if record is not None and sha256_of(now) == record.written:
        original = manifest.original(record)
        return Change(agent=agent, path=file.path, current=now, planned=original, original=original)
    then = _without_filrouge(files.decode_text(now, file.path), file, manifest, record)
    if then == now and record is None:
        return None
    note = "The file was edited since; only Filrouge's entries are removed." if record is not None else ""
    return Change(agent=agent, path=file.path, current=now, planned=then, original=then, note=note)


def _without_filrouge(text: str, file: File, manifest: Manifest, record: Record | None) -> bytes | None:
    """Return a file's content without Filrouge; None for a file that Filrouge created and that would be empty."""
    original = manifest.original(record) if record is not None else None
    original_text = files.decode_text(original, file.path) if original is not None else None
    remaining = remove_entries(text, file, original_text)
    if record is not None and not record.before and is_empty(remaining, file):
        return None
    return remaining.encode()


def _agent_files(agent: Agent, machine: Machine, *, hooks: bool = True, tools: bool = True) -> tuple[File, ...]:
    """Return the files of an agent, each once, with all of their entries."""
    files_by_path: dict[str, File] = {}
    for file in (*(agent.hooks(machine) if hooks else ()), *(agent.tools(machine) if tools else ())):
        earlier_file = files_by_path.get(file.path)
        entries = (*earlier_file.entries, *file.entries) if earlier_file is not None else file.entries
        files_by_path[file.path] = File(path=file.path, entries=entries)
    return tuple(files_by_path.values())


def _as_file(record: Record, agent_files: tuple[File, ...]) -> File:
    """Return a recorded file that the environment no longer points to, with every entry that may be in it."""
    recorded_file = File(path=record.path, entries=())
    entries = tuple(entry for file in agent_files if file.is_toml == recorded_file.is_toml for entry in file.entries)
    return replace(recorded_file, entries=entries)
