"""Operations on projects: list, add names, join a folder, and merge two projects.

A changed remote adds a name automatically if the clone or the first commit is known (`core.scope`). Otherwise a new
project begins, and only the user can say that it is the old one.

The first folder with a name in its `.filrouge.toml` owns the name (`projects.repository.Projects`). Anybody can put the
same name into a repository, so any other folder gets the project's memories only after the user agreed on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from filrouge.context.hook_files import write_briefs, write_hook_settings
from filrouge.core.clock import to_text
from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Analyser, Tx, VectorIndex, Vectors
from filrouge.core.rows import number_of
from filrouge.hosts.project import NAME_PREFIX, split_names
from filrouge.maintenance.garden_service import Merging
from filrouge.memories.changes import run_change, user_origin
from filrouge.memories.models import Memory
from filrouge.memories.repository import (
    Memories,
    MemoryWriter,
    Origin,
    content_of,
    is_intact,
    memory_from_row,
    state_of,
)
from filrouge.projects.models import ProjectJoin, ProjectMerge
from filrouge.projects.repository import Projects, project_id
from filrouge.runtime import journal
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.repository import OwnerKind, StoredVectors

# Projects in the database: their sizes and names, and merging one into another.
#
# A merge moves rows and does not change their text. A memory's seal covers its project, so a moved memory is sealed
# again, unless its seal was already broken: a move must not make an altered memory look intact.

#: The queries that move rows which refer to a project. A row left behind would block the project's deletion.
_MOVE_QUERIES = (
    "projects.take_names",
    "projects.take_events",
    "projects.take_turns",
    "projects.take_threads",
    "projects.take_syntheses",
    "projects.take_recalls",
    "projects.take_jobs",
    "projects.take_days",
)


class MovedRows(Struct, frozen=True, kw_only=True):
    """The result of a merge, as ids.

    Attributes:
        turns, memories: rows that moved to the other project.
        replaced: memories that the merge ended.
    """

    turns: tuple[str, ...]
    memories: tuple[str, ...]
    replaced: tuple[str, ...]


class ProjectRows:
    """The projects of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._analyser = analyser

    def list_projects(self, *, counts: bool = True) -> list[dict[str, Any]]:
        """Return every project with its names and sizes, the most recently used first; without sizes, by name."""
        names = Projects(self._tx)
        rows = self._tx.all("projects.told" if counts else "projects.named")
        return [row | {"aliases": names.aliases(row["id"])} for row in rows]

    def owners(self, names: Sequence[str]) -> dict[str, str]:
        """Return the project ids of those names that belong to a project."""
        rows = self._tx.all("projects.known", {"names": json.dumps(list(names))})
        return {row["alias"]: row["project_id"] for row in rows if row["alias"] in names}

    def add_names(self, project: str, names: Sequence[str], origin: Origin) -> None:
        """Add names to a project; the names must not belong to any project yet."""
        for alias in names:
            self._tx.run("projects.alias", {"alias": alias, "project_id": project})
        self._note(origin, "project_alias", project, {"names": list(names), "reason": "by hand"})

    def conflicts(self, source: str, into: str) -> list[tuple[Memory, Memory]]:
        """Return the memories that conflict after a merge: same key, or concepts of the same subject.

        Returns:
            Pairs of the memory that stays and the memory that ends.
        """
        pairs = self._tx.all("projects.doubled", {"source": source, "into": into})
        found = Memories(self._tx, self._analyser).some([id_ for pair in pairs for id_ in (pair["one"], pair["other"])])
        ordered = [sorted((found[pair["one"]], found[pair["other"]]), key=_priority) for pair in pairs]
        return [(staying, ending) for ending, staying in ordered]

    def ids_of(self, project: str) -> MovedRows:
        """Return the ids of the rows that would move."""
        parameters = {"project_id": project}
        return MovedRows(
            turns=tuple(row["id"] for row in self._tx.all("projects.turns", parameters)),
            memories=tuple(row["id"] for row in self._tx.all("projects.memories", parameters)),
            replaced=(),
        )

    def merge(self, source: str, into: str, origin: Origin) -> MovedRows:
        """Move all rows and names of one project to another, and delete the emptied project."""
        moved = self.ids_of(source)
        ended = [self._end(staying, ending, origin) for staying, ending in self.conflicts(source, into)]
        self._tx.many("projects.place", self._sealed(source, into))
        direction = {"source": source, "into": into}
        for query in _MOVE_QUERIES:
            self._tx.run(query, direction)
        self._tx.run("projects.drop_days", {"project_id": source})
        self._tx.run("projects.alias", {"alias": source, "project_id": into})
        self._tx.run("projects.drop", {"project_id": source})
        counts = {"turns": len(moved.turns), "memories": len(moved.memories), "replaced": ended}
        self._note(origin, "project_merge", into, {"source": source, "reason": "two names of one project"} | counts)
        return replace(moved, replaced=tuple(ended))

    def _end(self, staying: Memory, ending: Memory, origin: Origin) -> str:
        reason = "two projects became one"
        if ending.kind == "concept":
            Merging(self._tx, self._analyser).merge(staying.id, ending.id, origin, reason)
            return ending.id
        writer, before = MemoryWriter(self._tx, self._analyser), state_of(ending)
        ended_at = max(before.valid_from, to_text(origin.at))
        after = replace(before, state="superseded", valid_to=ended_at, superseded_by=staying.id)
        writer.states.write({ending.id: after}, origin.at)
        said = writer.statement_payload(ending.text, reason, origin)
        writer.record(
            origin, "merge", ending.id, said, before={ending.id: before}, after={ending.id: after}, touches=[staying.id]
        )
        return ending.id

    def _sealed(self, source: str, into: str) -> list[dict[str, Any]]:
        """Return the new project and seal for every memory of a project."""
        found = list[dict[str, Any]]()
        for row in self._tx.all("projects.memories", {"project_id": source}):
            key, digest = row["row_key"], row["row_hash"]
            if is_intact(row):
                memory = memory_from_row(row)
                sealed = journal.seal(content_of(replace(memory, scope=replace(memory.scope, project=into))))
                key, digest = sealed.key, sealed.hash
            found.append({"id": row["id"], "project_id": into, "row_key": key, "row_hash": digest})
        return found

    def _note(self, origin: Origin, action: str, project: str, payload: dict[str, Any]) -> None:
        # The entry touches no memory. A project action cannot be undone, and would otherwise block undoing earlier
        # decisions about the memory.
        Journal(self._tx).append(
            at=origin.at, actor=origin.actor, action=action, subject_id=project, payload={**payload, "turn": ""}
        )


def _priority(memory: Memory) -> tuple[bool, str, str]:
    return memory.pinned, to_text(memory.valid_from), memory.id


def plan_join(parts: Parts, names: Sequence[str]) -> ProjectJoin:
    """Plan what happens if a folder joins the project that its file names.

    Args:
        parts: the services.
        names: the folder's names, as `hosts.project.find_names` returns them.

    Raises:
        BadInput: no file names a project for this folder.
    """
    return parts.readers.here(lambda tx: _plan_join(parts.analyser, tx, names))


def join_project(parts: Parts, names: Sequence[str]) -> ProjectJoin:
    """Record the user's consent that the folder belongs to the project that its file names; return the result.

    Raises:
        BadInput: as `plan_join`.
    """

    def write(tx: Tx) -> ProjectJoin:
        _plan_join(parts.analyser, tx, names)
        Projects(tx).agree(names, at=parts.clock.now())
        return _plan_join(parts.analyser, tx, names)

    plan = parts.writer.run(write)
    write_hook_settings(parts)
    if plan.project:
        write_briefs(parts, plan.project, everywhere=False)
    return plan


def _plan_join(analyser: Analyser, tx: Tx, names: Sequence[str]) -> ProjectJoin:
    folder, projects = split_names(names), Projects(tx)
    if not folder.chosen_name:
        raise BadInput(
            "No .filrouge.toml names a project for this folder.",
            remedy='Write `project = "NAME"` into it, or see `filrouge project alias`.',
        )
    owner = projects.find((folder.chosen_name,)) or ""
    row = next((row for row in ProjectRows(tx, analyser).list_projects() if row["id"] == owner), None)
    return ProjectJoin(
        folder=folder.holder_names[-1].removeprefix("path:"),
        name=folder.chosen_name.removeprefix(NAME_PREFIX),
        project=owner,
        project_name=row["name"] if row else "",
        memories=row["memories"] if row else 0,
        turns=row["turns"] if row else 0,
        folders=tuple(projects.agreed_folders(folder.chosen_name)),
        agreed=not projects.is_refused(names),
    )


#: The kinds of names (`hosts.project`).
NAME_KINDS: Final = ("name", "origin", "root", "clone", "path")
_MAX_NAME_CHARS: Final = 4096
_IDS_PER_READ: Final = 500


def list_projects(analyser: Analyser, tx: Tx, *, counts: bool = True) -> list[dict[str, Any]]:
    """Return every project with its names and sizes, the most recently used first; without sizes, by name."""
    return ProjectRows(tx, analyser).list_projects(counts=counts)


def get_project(analyser: Analyser, tx: Tx, id_: str) -> dict[str, Any]:
    """Return the listing of one project, by its id."""
    return next(row for row in list_projects(analyser, tx) if row["id"] == id_)


def add_names(parts: Parts, project: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """Add names to a project and return its listing; names that it already has are ignored.

    Raises:
        NotFound: there is no such project.
        BadInput: a name is invalid or belongs to another project, or the project is ambiguous.
    """
    for name in names:
        kind, _, rest = name.partition(":")
        if kind not in NAME_KINDS or not rest.strip() or len(name) > _MAX_NAME_CHARS:
            raise BadInput(
                f"{name[:100]!r} is not a name of a project.",
                remedy=f"A name begins with one of: {_join_names(NAME_KINDS)}.",
            )
    if not names:
        raise BadInput("There is no name to add.", remedy="Give an address, a directory or a name.")

    def write(tx: Tx) -> dict[str, Any]:
        id_, rows = _resolve_project(tx, project), ProjectRows(tx, parts.analyser)
        owners = rows.owners(names)
        other = next((owner for owner in owners.values() if owner != id_), None)
        if other is not None:
            raise BadInput(
                f"{next(name for name in names if owners.get(name) == other)} is a name of another project, {other}.",
                remedy=f"Where the two are one: `filrouge project merge {other} {id_}`.",
            )
        new_names = [name for name in dict.fromkeys(names) if name not in owners]
        if new_names:
            rows.add_names(id_, new_names, user_origin(parts.clock))
        return get_project(parts.analyser, tx, id_)

    listing = parts.writer.run(write)
    write_hook_settings(parts)
    return listing


def plan_merge(parts: Parts, source: Sequence[str], into: Sequence[str]) -> ProjectMerge:
    """Plan the merge of one project into another.

    Raises:
        NotFound: there is no such project.
        BadInput: both are the same project, one is ambiguous, or capture is switched off for only one of them.
    """
    return parts.readers.here(lambda tx: _plan_merge(parts, tx, source, into))


def merge_projects(parts: Parts, source: Sequence[str], into: Sequence[str]) -> ProjectMerge:
    """Merge one project into another and return what was done. It cannot be undone.

    Raises:
        NotFound, BadInput: as `plan_merge`.
    """

    def write(tx: Tx) -> tuple[tuple[ProjectMerge, MovedRows], Collection[str], Collection[str]]:
        plan = _plan_merge(parts, tx, source, into)
        moved = ProjectRows(tx, parts.analyser).merge(plan.source, plan.into, user_origin(parts.clock))
        return (plan, moved), (), moved.replaced

    plan, moved = run_change(parts, write)
    _update_indexes(parts, moved, plan.into)
    write_hook_settings(parts)
    return plan


def _plan_merge(parts: StoreContext, tx: Tx, source: Sequence[str], into: Sequence[str]) -> ProjectMerge:
    source_id, target_id = _resolve_project(tx, source), _resolve_project(tx, into)
    if source_id == target_id:
        raise BadInput(f"Both are the project {source_id} already.", remedy="See `filrouge project list`.")
    rows = {row["id"]: row for row in list_projects(parts.analyser, tx)}
    _check_capture_settings(parts, tx, rows[source_id], rows[target_id])
    project_rows = ProjectRows(tx, parts.analyser)
    moving = project_rows.ids_of(source_id)
    return ProjectMerge(
        source=source_id,
        into=target_id,
        source_name=rows[source_id]["name"],
        into_name=rows[target_id]["name"],
        aliases=tuple(rows[source_id]["aliases"]),
        turns=len(moving.turns),
        memories=len(moving.memories),
        threads=number_of(tx, "projects.threads_count", {"project_id": source_id}),
        events=number_of(tx, "projects.events_count", {"project_id": source_id}),
        replaced=tuple(ending.id for _, ending in project_rows.conflicts(source_id, target_id)),
    )


def _check_capture_settings(parts: StoreContext, tx: Tx, *rows: dict[str, Any]) -> None:
    """Refuse a merge if capture is switched off for only one project; the merged one would follow either setting."""
    disabled = set(parts.settings(tx).disabled_projects)
    off = [bool(disabled & {row["id"], row["name"], *row["aliases"]}) for row in rows]
    if any(off) and not all(off):
        name = rows[off.index(True)]["id"]
        raise BadInput(
            f"Capture is switched off for {name} and not for the other.",
            remedy="Remove it from the setting disabled_projects first, or add the other one.",
        )


def _resolve_project(tx: Tx, names: Sequence[str]) -> str:
    """Return the id of the project with these names, if it exists and is not ambiguous."""
    name_by_id = {row["id"]: row["name"] for row in tx.all("projects.all")}
    if len(names) == 1 and names[0] not in name_by_id:
        matching = [id_ for id_, name in name_by_id.items() if name == names[0]]
        if len(matching) > 1:
            raise BadInput(
                f"{len(matching)} projects are called {names[0]!r}.", remedy=f"Say which: {_join_names(matching)}."
            )
    found = project_id(tx, names)
    if found is None or found not in name_by_id:
        raise NotFound(f"There is no project {' '.join(names[:1])!r}.", remedy="See `filrouge project list`.")
    return found


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names)


def _update_indexes(parts: Parts, moved: MovedRows, into: str) -> None:
    """Update derived data that depends on a row's project: the vectors in memory and the word indexes."""
    vectors = parts.vectors
    kinds: tuple[tuple[OwnerKind, Sequence[str], VectorIndex], ...] = (
        ("turn", moved.turns, vectors.turn_index),
        ("memory", moved.memories, vectors.memory_index),
    )
    for owner, ids, index in kinds:
        for begin in range(0, len(ids), _IDS_PER_READ):
            batch = ids[begin : begin + _IDS_PER_READ]
            for id_, number, windows in parts.readers.here(partial(_vectors_to_index, parts, owner, batch)):
                index.put(id_, number, into, windows)
        parts.words.forget(owner, ids)
    parts.whitening.clear()


def _vectors_to_index(parts: Parts, owner: OwnerKind, ids: Sequence[str], tx: Tx) -> list[tuple[str, int, Vectors]]:
    """Return the vectors and row numbers of those of these rows that belong into an index."""
    store = StoredVectors(tx)
    memories = parts.memories(tx).some(ids) if owner == "memory" else {}
    indexed = [id_ for id_ in ids if owner == "turn" or memories[id_].state == "live"]
    found = store.some(owner, indexed, parts.vectors.space.id)
    return [(id_, store.number(owner, id_) or 0, vectors) for id_, vectors in found.items()]
