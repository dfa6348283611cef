"""The Memory screen's list of memories, the page of one memory, and what can be done with a memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlsplit

from filrouge.web.reasons import plain_reason
from filrouge.web.rendering import ROOT, Message, Next, Pages, Visit

pages = Pages()

_KINDS: Final = ("fact", "preference", "rule", "decision", "intent", "constraint", "note", "episode", "concept")
_FILTERS: Final = ("project", "kind", "channel", "trust", "language", "since", "until", "as_of", "thread", "branch")
PAGE_SIZE: Final = 50
_OPPOSITE: Final = {"bin": "restore", "restore": "bin", "pin": "unpin", "unpin": "pin"}


@pages.page("/memory", "memory/list.html")
async def memory_list(visit: Visit) -> Mapping[str, Any]:
    """The current memories, newest first, filtered by the address."""
    visit.begin()
    chosen = {name: visit.query.get(name, "") for name in _FILTERS}
    listing, projects = await asyncio.gather(
        visit.api.listing("/api/memory/memories", limit=PAGE_SIZE, cursor=visit.query.get("cursor"), **chosen),
        visit.api.get("/api/memory/projects", counts=False),
    )
    return {
        "memories": listing.rows,
        "next": listing.next,
        "projects": projects,
        "kinds": _KINDS,
        "chosen": chosen,
        "is_filtered": any(chosen.values()),
        "editing": visit.query.get("edit", ""),
    }


@pages.page("/memories/{memory_id}", "memory/one.html")
async def memory_page(visit: Visit) -> Mapping[str, Any]:
    """One memory with its versions, its evidence and every decision about it."""
    id_ = quote(visit.parameter("memory_id"), safe="")
    memory, history = await asyncio.gather(
        visit.api.get(f"/api/memory/memories/{id_}"), visit.api.get(f"/api/memory/memories/{id_}/history")
    )
    journal: Sequence[Mapping[str, Any]] = history["journal"]
    reasons = {entry["entry"]: plain_reason(visit, _reason_of(entry)) for entry in journal}
    return {"memory": memory, "history": history, "reasons": reasons, "editing": visit.query.get("edit", "")}


def _reason_of(entry: Mapping[str, Any]) -> str:
    """Return the reason in a journal entry; empty if its payload was forgotten."""
    payload: Mapping[str, Any] = entry["payload"] or {}
    return str(payload.get("reason") or "")


@pages.action("/memories")
async def memory_add(visit: Visit) -> Next:
    """Remember a statement verbatim."""
    item = {"text": visit.field("text"), "kind": visit.field("kind", "fact")}
    project = visit.field("project")
    body = {"items": [item], "scope": "project" if project else "user"} | ({"project": [project]} if project else {})
    await visit.api.send("POST", "/api/memory/facts", body)
    return Next(to=visit.back, message=Message(text=visit.text("Remembered.")))


@pages.action("/memories/{memory_id}/edit")
async def memory_edit(visit: Visit) -> Next:
    """Replace the wording of a memory; the old one stays in its history. The page of a memory becomes the new one's."""
    id_ = visit.parameter("memory_id")
    body = {"old_id": id_, "new_text": visit.field("text"), "source": "dashboard"}
    new_id = (await visit.api.send("POST", "/memory/supersede", body))["new_id"]
    own = f"{ROOT}/memories/{id_}"
    to = f"{ROOT}/memories/{new_id}" if urlsplit(visit.back).path == own else visit.back
    return Next(to=to, message=_undoable(visit.text("Changed."), new_id))


@pages.action("/memories/{memory_id}/bin")
async def memory_bin(visit: Visit) -> Next:
    """Move a memory to the bin."""
    id_ = visit.parameter("memory_id")
    await visit.api.send("POST", f"/api/memory/memories/{quote(id_, safe='')}/bin")
    text = visit.text("Moved to the bin. It is no longer shown to agents.")
    return Next(to=visit.back, message=Message(text=text, undo=f"{ROOT}/memories/{id_}/restore"))


@pages.action("/memories/{memory_id}/restore")
async def memory_restore(visit: Visit) -> Next:
    """Bring a memory back from the bin, or from being replaced."""
    await visit.api.send("POST", f"/api/memory/memories/{quote(visit.parameter('memory_id'), safe='')}/restore")
    return Next(to=visit.back, message=Message(text=visit.text("Restored.")))


@pages.action("/memories/{memory_id}/pin")
async def memory_pin(visit: Visit) -> Next:
    """Pin a memory."""
    return await _pin(visit, pinned=True)


@pages.action("/memories/{memory_id}/unpin")
async def memory_unpin(visit: Visit) -> Next:
    """Unpin a memory."""
    return await _pin(visit, pinned=False)


async def _pin(visit: Visit, *, pinned: bool) -> Next:
    id_ = visit.parameter("memory_id")
    await visit.api.send("PATCH", f"/api/memory/memories/{quote(id_, safe='')}", {"pinned": pinned})
    return Next(
        to=visit.back, message=Message(text=visit.text("Pinned.") if pinned else visit.text("No longer pinned."))
    )


@pages.action("/memories/selection")
async def memories_selected(visit: Visit) -> Next:
    """Do the same with several memories: all or none. The message takes all of it back."""
    ids, verb = [*visit.fields("id"), *visit.field("ids").split()], visit.field("verb")
    if not ids:
        return Next(to=visit.back, message=Message(text=visit.text("Nothing was selected.")))
    done = await visit.api.send("POST", "/api/memory/memories/selection", {"ids": ids, "action": verb})
    changed, ngettext = [action["id"] for action in done["actions"]], visit.locale.ngettext
    said = {
        "bin": ngettext("One memory moved to the bin.", "%(num)s memories moved to the bin.", len(changed)),
        "restore": ngettext("One memory restored.", "%(num)s memories restored.", len(changed)),
        "pin": ngettext("One memory pinned.", "%(num)s memories pinned.", len(changed)),
        "unpin": ngettext("One memory is no longer pinned.", "%(num)s memories are no longer pinned.", len(changed)),
    }
    if not changed:
        return Next(to=visit.back, message=Message(text=visit.text("Nothing was changed.")))
    undo = {"verb": _OPPOSITE[verb], "ids": " ".join(changed)}
    return Next(to=visit.back, message=Message(text=said[verb], undo=f"{ROOT}/memories/selection", fields=undo))


@pages.action("/memories/undo")
async def memory_undo(visit: Visit) -> Next:
    """Undo the latest decision about a memory, or a decision by its number."""
    entry, id_ = visit.field("entry"), visit.field("memory_id")
    await visit.api.send("POST", "/api/memory/undo", {"entry": int(entry)} if entry else {"memory_id": id_})
    return Next(to=visit.back, message=Message(text=visit.text("Undone.")))


def _undoable(text: str, id_: str) -> Message:
    return Message(text=text, undo=f"{ROOT}/memories/undo", fields={"memory_id": id_})
