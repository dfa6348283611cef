"""The Memory screen's notes: the vault, what of it goes into prompts, and what is read of one note."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from filrouge.web.client import ApiProblem
from filrouge.web.rendering import Message, Next, Pages, Visit
from filrouge.web.settings import change_settings

pages = Pages()

_SETTINGS = ("notes_enabled", "notes_folder", "notes_paths", "notes_tag", "notes_write_folder")
_HITS = 10


@pages.page("/memory/notes", "memory/notes.html")
async def notes(visit: Visit) -> Mapping[str, Any]:
    """The vault's state, the notes that go into prompts, a search for notes, and one of them as it is read."""
    words, path = visit.query.get("q", ""), visit.query.get("note", "")
    vault, settings, origins, hits, (preview, problem) = await asyncio.gather(
        visit.api.get("/api/memory/notes"),
        visit.api.get("/api/memory/settings"),
        visit.api.get("/api/memory/settings/origins"),
        _search(visit, words),
        _preview(visit, path),
    )
    paths = [{"name": name, "path": _as_note(name)} for name in settings["notes_paths"]]
    found = {fixed["path"] for fixed in vault["fixed"] if fixed["found"]}
    return {
        "vault": vault,
        "origins": {name: origins[name] for name in _SETTINGS},
        "always": [one | {"found": one["path"] in found} for one in paths],
        "hits": hits,
        "words": words,
        "preview": preview,
        "preview_problem": problem,
        "previewed": path,
    }


async def _search(visit: Visit, words: str) -> list[dict[str, Any]]:
    if not words.strip():
        return []
    return await visit.api.get("/api/memory/search", q=words, collection="notes", mode="hybrid", limit=_HITS)


async def _preview(visit: Visit, path: str) -> tuple[dict[str, Any] | None, str]:
    """Return a note as it is indexed, or why it cannot be shown."""
    if not path:
        return None, ""
    try:
        return await visit.api.get("/api/memory/notes/preview", path=path), ""
    except ApiProblem as problem:
        return None, problem.detail


def _as_note(name: str) -> str:
    """Return the path that a name in the settings means; `.md` is optional there."""
    path = name.strip().strip("/")
    return path if path.endswith(".md") else f"{path}.md"


@pages.action("/memory/notes/folder")
async def notes_folder(visit: Visit) -> Next:
    """Set the vault; an empty folder removes it."""
    folder = visit.field("folder").strip()
    text = visit.text("The vault is set. Its notes are being read.") if folder else visit.text("The vault is removed.")
    return await change_settings(visit, text, {"notes_folder": folder})


@pages.action("/memory/notes/enabled")
async def notes_enabled(visit: Visit) -> Next:
    """Switch notes in prompts on or off."""
    on = visit.field("enabled") == "on"
    text = visit.text("Notes go into prompts.") if on else visit.text("Notes no longer go into prompts.")
    return await change_settings(visit, text, {"notes_enabled": on})


@pages.action("/memory/notes/tag")
async def notes_tag(visit: Visit) -> Next:
    """Set the tag whose notes go into prompts."""
    tag = visit.field("tag").strip().lstrip("#")
    return await change_settings(visit, visit.text("The tag is set."), {"notes_tag": tag})


@pages.action("/memory/notes/add")
async def notes_add(visit: Visit) -> Next:
    """Put a note into every prompt."""
    settings, path = await visit.api.get("/api/memory/settings"), visit.field("note").strip()
    paths: list[str] = settings["notes_paths"]
    if not path or _as_note(path) in map(_as_note, paths):
        return Next(to=visit.back, message=Message(text=visit.text("That note is in the list already.")))
    return await change_settings(visit, visit.text("Added."), {"notes_paths": [*paths, path]})


@pages.action("/memory/notes/remove")
async def notes_remove(visit: Visit) -> Next:
    """Take a note out of every prompt; its file stays."""
    settings, path = await visit.api.get("/api/memory/settings"), visit.field("note")
    text = visit.text("Removed from the list. The note itself stays.")
    paths = [one for one in settings["notes_paths"] if one != path]
    return await change_settings(visit, text, {"notes_paths": paths})


@pages.action("/memory/notes/anew")
async def notes_anew(visit: Visit) -> Next:
    """Write again what was removed from Filrouge's pages in the vault."""
    await visit.api.send("POST", "/api/memory/notes/anew", {})
    return Next(to=visit.back, message=Message(text=visit.text("Removed lines and pages are being written again.")))
