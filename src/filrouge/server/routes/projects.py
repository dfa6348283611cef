"""HTTP routes for projects: list them, add names, merge two, and join a folder to a project."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from filrouge.projects import service
from filrouge.server.admission import requires
from filrouge.server.responses import Answer, Body, in_thread, parts_of, read_in_tx, response_model

router = APIRouter(tags=["projects"])
_PROJECT = "A project: its id, alias or short name, or several aliases."


class ProjectAnswer(Answer):
    """A project with its names and the number of its rows."""

    id: str
    name: str = Field(description="A name for people.")
    aliases: list[str] = Field(
        description="Every name that leads to it: `origin:`, `root:`, `clone:`, `path:`, `name:`."
    )
    created_at: str
    last_activity: str | None = Field(None, description="When something was last said in it. None without counts.")
    turns: int | None = Field(None, ge=0, description="None without counts, like the next two.")
    memories: int | None = Field(None, ge=0, description="Live memories.")
    threads: int | None = Field(None, ge=0)


class NamesBody(Body):
    """Names to add to a project."""

    project: str | list[str] = Field(description=_PROJECT)
    names: list[str] = Field(
        description="`origin:host/path`, `path:/…`, `name:…`, `root:…` or `clone:…`.", max_length=50
    )


class ProjectMergeBody(Body):
    """A project to merge into another."""

    source: str | list[str] = Field(description=_PROJECT)
    into: str | list[str] = Field(description=_PROJECT)
    dry_run: bool = False


class MergeAnswer(Answer):
    """What a merge moved from one project into another, or would move."""

    source: str
    into: str
    source_name: str
    into_name: str
    aliases: list[str] = Field(description="Names that lead to the other project after the merge.")
    turns: int = Field(ge=0)
    memories: int = Field(ge=0, description="Memories in any state.")
    threads: int = Field(ge=0)
    events: int = Field(ge=0)
    replaced: list[str] = Field(description="Live memories that end, because both projects have them.")
    dry_run: bool
    text: str


class JoinBody(Body):
    """A folder whose `.filrouge.toml` names a project."""

    names: list[str] = Field(
        description="The folder's names, the strongest first, as the hook sends them: `name:…` of the file, then"
        " `under:…` for the folder that holds the file where it is another one, then the folder's own.",
        min_length=1,
        max_length=50,
    )
    dry_run: bool = False


class JoinAnswer(Answer):
    """The project that a folder's file names, and whether the user agreed."""

    folder: str = Field(description="The folder that holds the file.")
    name: str
    project: str = Field(description="The project with this name; empty if there is none yet.")
    project_name: str
    memories: int = Field(ge=0)
    turns: int = Field(ge=0)
    folders: list[str] = Field(description="The folders that may use the name.")
    agreed: bool
    dry_run: bool
    text: str


@router.get("/api/memory/projects", responses=response_model(list[ProjectAnswer]))
async def projects_all_projects(
    request: Request,
    counts: Annotated[bool, Query(description="Whether to count each project's rows.")] = True,
) -> list[dict[str, Any]]:
    """List every project with its names and row counts, the most recently active first; without counts, by name."""
    parts = parts_of(request)
    return await read_in_tx(request, lambda tx: service.list_projects(parts.analyser, tx, counts=counts))


@router.post("/api/memory/projects/aliases", responses=response_model(ProjectAnswer))
async def projects_add_names(body: NamesBody, request: Request) -> dict[str, Any]:
    """Add names to a project, and return it as it is listed."""
    parts = parts_of(request)
    return await in_thread(lambda: service.add_names(parts, _as_list(body.project), body.names))


@router.post("/api/memory/projects/merge", responses=response_model(MergeAnswer))
@requires("admin")
async def projects_merge(body: ProjectMergeBody, request: Request) -> dict[str, Any]:
    """Merge one project into another permanently. A dry run only reports what would move."""
    parts = parts_of(request)
    plan_or_merge = service.plan_merge if body.dry_run else service.merge_projects
    found = await in_thread(lambda: plan_or_merge(parts, _as_list(body.source), _as_list(body.into)))
    return found.to_json() | {"dry_run": body.dry_run, "text": str(found)}


@router.post("/api/memory/projects/join", responses=response_model(JoinAnswer))
@requires("admin")
async def projects_join(body: JoinBody, request: Request) -> dict[str, Any]:
    """Agree that a folder belongs to the project that its file names. The file is `.filrouge.toml`. A dry run only
    reports the effect."""
    parts = parts_of(request)
    plan_or_join = service.plan_join if body.dry_run else service.join_project
    found = await in_thread(lambda: plan_or_join(parts, body.names))
    return found.to_json() | {"dry_run": body.dry_run, "text": str(found)}


def _as_list(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names
