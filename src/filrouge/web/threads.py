"""The Threads screen: lines of work, one thread with its local graph, and a passage in its conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

from filrouge.web.languages import mark as _
from filrouge.web.rendering import ROOT, Message, Next, Pages, Visit, address

pages = Pages()

_STATUSES: Final = ("active", "suspended", "archived")
_PAGE_SIZE: Final = 50
#: Threads offered as the target of a merge, a move or a bridge: the most recently active of the project.
_MAX_OFFERED: Final = 200
_MAX_MEMORIES: Final = 200
_TURNS_SHOWN: Final = 20
_MAX_EXCERPT_CHARS: Final = 400
#: Turns shown before and after a passage.
_AROUND: Final = 6


_BRIDGE_NAMES: Final = {
    "relates_to": _("related to"),
    "extends": _("extends"),
    "depends_on": _("depends on"),
    "refines": _("refines"),
    "supports": _("supports"),
    "contradicts": _("contradicts"),
    "child_of": _("split off from"),
}

# The list.


@pages.page("/threads", "threads/list.html")
async def thread_list(visit: Visit) -> Mapping[str, Any]:
    """The threads, most recently active first, filtered by the address."""
    visit.begin()
    status, project = visit.query.get("status", ""), visit.query.get("project", "")
    listing, projects = await asyncio.gather(
        visit.api.listing(
            "/api/memory/threads",
            status=status or "all",
            project=project,
            limit=_PAGE_SIZE,
            cursor=visit.query.get("cursor"),
        ),
        visit.api.get("/api/memory/projects", counts=False),
    )
    return {
        "threads": listing.rows,
        "next": listing.next,
        "projects": projects,
        "statuses": _STATUSES,
        "chosen": {"status": status, "project": project},
        "is_filtered": bool(status or project),
        "editing": visit.query.get("edit", ""),
    }


# One thread.


@pages.page("/threads/{thread_id}", "threads/one.html")
async def thread_page(visit: Visit) -> Mapping[str, Any]:
    """One thread: where the work stands, its turns, memories and bridges, and the graph of what surrounds it."""
    id_ = _path_id(visit, "thread_id")
    thread = await visit.api.get(f"/api/memory/threads/{id_}")
    visit.begin({"thread": thread})
    merged_into = thread["merged_into"]
    memories, around, offered = await asyncio.gather(
        visit.api.listing("/api/memory/memories", thread=thread["id"], limit=_MAX_MEMORIES),
        _neighbourhood(visit, thread),
        visit.api.get("/api/memory/threads", project=thread["project"], limit=_MAX_OFFERED),
    )
    own_bridges = [bridge for bridge in around["bridges"] if thread["id"] in (bridge["source"], bridge["target"])]
    turns = [_excerpt(turn) for turn in reversed(thread["turns_shown"])]
    shows_all = visit.query.get("turns") == "all"
    return {
        "thread": {name: value for name, value in thread.items() if name not in ("turns_shown", "bridges")},
        "turns": turns if shows_all else turns[:_TURNS_SHOWN],
        "hidden_turns": 0 if shows_all else max(0, len(turns) - _TURNS_SHOWN),
        "memories": memories.rows,
        "has_more_memories": bool(memories.next),
        "bridges": [_from(bridge, thread["id"]) for bridge in own_bridges],
        "graph": _graph(visit, thread, memories.rows, around),
        "others": [
            {"id": one["id"], "title": one["title"]}
            for one in offered
            if one["id"] != thread["id"] and one["merged_into"] is None and one["project"] == thread["project"]
        ],
        "bridge_names": {kind: visit.text(name) for kind, name in _BRIDGE_NAMES.items()},
        "merging_into": await _merge_target(visit, thread),
        "is_merged": merged_into is not None,
        "editing": visit.query.get("edit", ""),
    }


async def _neighbourhood(visit: Visit, thread: Mapping[str, Any]) -> dict[str, Any]:
    """Return the threads around a thread and the bridges between them; none around a thread that was merged."""
    if thread["merged_into"] is not None:
        return {"threads": [], "bridges": []}
    return await visit.api.get("/api/memory/graph", thread=thread["id"])


async def _merge_target(visit: Visit, thread: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the thread that the visitor is about to merge this one into, or None."""
    target = visit.query.get("merge", "")
    if not target or target == thread["id"]:
        return None
    found = await visit.api.get(f"/api/memory/threads/{quote(target, safe='')}")
    return {"id": found["id"], "title": found["title"], "messages": found["messages"]}


def _from(bridge: Mapping[str, Any], thread_id: str) -> dict[str, Any]:
    """Return a bridge with the thread at its other end."""
    is_outgoing = bridge["source"] == thread_id
    end = "target" if is_outgoing else "source"
    return {**bridge, "is_outgoing": is_outgoing, "other": bridge[end], "other_title": bridge[f"{end}_title"]}


def _excerpt(turn: Mapping[str, Any]) -> dict[str, Any]:
    text = turn["text"]
    return {**turn, "text": text[:_MAX_EXCERPT_CHARS], "is_cut": len(text) > _MAX_EXCERPT_CHARS}


# The local graph: a thread, its memories and topics, and the threads around it.


def _graph(
    visit: Visit, thread: Mapping[str, Any], memories: Sequence[Mapping[str, Any]], around: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the nodes and links around a thread: at most 200 memories, its topics, and ten bridged threads.

    A memory hangs on the topics that it names, or else on the thread.
    """
    own = thread["id"]
    nodes = [_node(visit, own, "self", thread["title"], at=thread["last_active"], path=f"/threads/{own}")]
    links: list[dict[str, str]] = []
    for topic in thread["topics"]:
        path = address("/memory/search", {"q": topic})
        nodes.append(_node(visit, f"topic:{topic}", "topic", topic, path=path))
        links.append({"source": own, "target": f"topic:{topic}", "kind": "topic", "label": visit.text("topic of it")})
    for memory in memories:
        path = f"/memories/{memory['id']}"
        nodes.append(_node(visit, memory["id"], "memory", memory["text"][:300], at=memory["created_at"], path=path))
        named = [topic for topic in thread["topics"] if topic.casefold() in memory["text"].casefold()]
        links += [
            {"source": f"topic:{topic}", "target": memory["id"], "kind": "memory", "label": visit.text("names it")}
            for topic in named
        ] or [{"source": own, "target": memory["id"], "kind": "memory", "label": visit.text("learned here")}]
    for other in around["threads"]:
        if other["id"] == own:
            continue
        path = f"/threads/{other['id']}"
        nodes.append(_node(visit, other["id"], "thread", other["title"], at=other["last_active"], path=path))
        links += [
            {"source": f"topic:{topic}", "target": other["id"], "kind": "topic", "label": visit.text("shared topic")}
            for topic in other["topics"]
            if topic in thread["topics"]
        ]
    links += [
        {"source": one["source"], "target": one["target"], "kind": "bridge", "label": _bridge_label(visit, one)}
        for one in around["bridges"]
    ]
    return {"nodes": nodes, "links": links}


def _node(visit: Visit, id_: str, kind: str, label: str, *, at: str = "", path: str = "") -> dict[str, str]:
    """Return a node; `age` is one of `week`, `month` and `older`, or empty for what has no time."""
    return {
        "id": id_,
        "kind": kind,
        "label": label,
        "href": ROOT + path if path else "",
        "when": visit.locale.ago(at),
        "age": _age(visit, at) if at else "",
    }


def _age(visit: Visit, at: str) -> str:
    passed = visit.locale.now - visit.locale.local(at)
    return "week" if passed < timedelta(days=7) else "month" if passed < timedelta(days=30) else "older"


def _bridge_label(visit: Visit, bridge: Mapping[str, Any]) -> str:
    return f"{visit.text(_BRIDGE_NAMES[bridge['type']])}: {bridge['reason']}"


# Corrections of a thread.


@pages.action("/threads/{thread_id}/rename")
async def thread_rename(visit: Visit) -> Next:
    """Give a thread a title that is not changed on its own afterwards."""
    await _change(visit, {"title": visit.field("title")})
    return Next(to=visit.back, message=Message(text=visit.text("Renamed.")))


@pages.action("/threads/{thread_id}/archive")
async def thread_archive(visit: Visit) -> Next:
    """Archive a thread."""
    await _change(visit, {"status": "archived"})
    undo = f"{ROOT}/threads/{visit.parameter('thread_id')}/reopen"
    return Next(to=visit.back, message=Message(text=visit.text("Archived."), undo=undo))


@pages.action("/threads/{thread_id}/reopen")
async def thread_reopen(visit: Visit) -> Next:
    """Make a thread active again."""
    await _change(visit, {"status": "active"})
    return Next(to=visit.back, message=Message(text=visit.text("Active again.")))


@pages.action("/threads/{thread_id}/merge")
async def thread_merge(visit: Visit) -> Next:
    """Merge a thread into another, and show the other."""
    merged = await visit.api.send("POST", _thread_path(visit) + "/merge", {"into": visit.field("into")})
    text = visit.text("Merged. All its turns are here now.")
    return Next(to=f"{ROOT}/threads/{merged['id']}", message=Message(text=text))


@pages.action("/threads/{thread_id}/split")
async def thread_split(visit: Visit) -> Next:
    """Split chosen turns off into a new thread, and show it; merging it back undoes that."""
    body = {"turns": visit.fields("id"), "title": visit.field("title")}
    opened = await visit.api.send("POST", _thread_path(visit) + "/split", body)
    message = Message(
        text=visit.text("Split off into this thread."),
        undo=f"{ROOT}/threads/{opened['id']}/merge",
        fields={"into": visit.parameter("thread_id")},
    )
    return Next(to=f"{ROOT}/threads/{opened['id']}", message=message)


@pages.action("/threads/{thread_id}/move")
async def thread_move(visit: Visit) -> Next:
    """Move chosen turns into another thread, and show that; moving them back undoes it."""
    turns = visit.fields("id") or visit.field("turns").split(",")
    into = quote(visit.field("into"), safe="")
    moved = await visit.api.send("POST", f"/api/memory/threads/{into}/move", {"turns": turns})
    former = await visit.api.get(_thread_path(visit))
    text = visit.text("Moved into this thread.")
    if former["merged_into"] is not None:  # it lost its last prompt, so there is nothing to move back into
        message = Message(text=text)
    else:
        fields = {"turns": ",".join(turns), "into": former["id"]}
        message = Message(text=text, undo=f"{ROOT}/threads/{moved['id']}/move", fields=fields)
    return Next(to=f"{ROOT}/threads/{moved['id']}", message=message)


@pages.action("/threads/{thread_id}/bridges")
async def bridge_add(visit: Visit) -> Next:
    """Connect a thread with another by hand; the other may be the bridge's start."""
    own, other = visit.parameter("thread_id"), visit.field("other")
    source, target = (other, own) if visit.field("direction") == "incoming" else (own, other)
    body = {"source": source, "target": target, "type": visit.field("type"), "reason": visit.field("reason")}
    await visit.api.send("POST", "/api/memory/bridges", body)
    return Next(to=visit.back, message=Message(text=visit.text("Connected.")))


@pages.action("/threads/{thread_id}/bridges/{bridge_id}/remove")
async def bridge_remove(visit: Visit) -> Next:
    """Remove a bridge; it is not made again on its own. Adding it by hand undoes that."""
    own = visit.parameter("thread_id")
    removed = await visit.api.send("DELETE", f"/api/memory/bridges/{_path_id(visit, 'bridge_id')}")
    is_outgoing = removed["source"] == own
    fields = {
        "other": removed["target"] if is_outgoing else removed["source"],
        "direction": "outgoing" if is_outgoing else "incoming",
        "type": removed["type"],
        "reason": removed["reason"],
    }
    message = Message(text=visit.text("Disconnected."), undo=f"{ROOT}/threads/{own}/bridges", fields=fields)
    return Next(to=visit.back, message=message)


async def _change(visit: Visit, body: Mapping[str, str]) -> None:
    await visit.api.send("PATCH", _thread_path(visit), body)


def _thread_path(visit: Visit) -> str:
    return f"/api/memory/threads/{_path_id(visit, 'thread_id')}"


def _path_id(visit: Visit, name: str) -> str:
    return quote(visit.parameter(name), safe="")


# A passage in its conversation.


@pages.page("/turns/{turn_id}", "turn.html")
async def turn_page(visit: Visit) -> Mapping[str, Any]:
    """A turn between its neighbours, with the words marked that memories quote."""
    id_ = _path_id(visit, "turn_id")
    found, placed = await asyncio.gather(
        visit.api.get(f"/api/memory/turns/{id_}", around=_AROUND),
        visit.api.get(f"/api/memory/turns/{id_}/thread"),
    )
    turn = next(one for one in found["turns"] if one["id"] == found["id"])
    wanted = visit.query.get("memory", "")
    spans = [
        (cited["start"], cited["end"])
        for memory in found["memories"]
        if wanted in ("", memory["id"])
        for cited in memory["evidence"]
        if cited["turn_id"] == found["id"]
    ]
    return {
        "turn": turn,
        "turns": found["turns"],
        "pieces": mark_spans(turn["text"], spans),
        "memories": found["memories"],
        "thread": {"id": placed["thread_id"], "title": placed["title"]} if placed["thread_id"] else None,
        "placing": placed["decisions"][-1] if placed["decisions"] else None,
        "session": address(f"{ROOT}/timeline/session", {"id": turn["session_id"]}) if turn["session_id"] else "",
        "marked": wanted,
    }


def mark_spans(text: str, spans: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return a text in pieces that are quoted or not; spans that overlap or touch are one piece."""
    pieces: list[dict[str, Any]] = []
    end = 0
    for start, stop in sorted(spans):
        if start > end or not pieces:
            pieces.append({"text": text[end:start], "is_quoted": False})
        fresh = text[max(start, end) : stop]
        if start <= end and pieces[-1]["is_quoted"]:
            pieces[-1]["text"] += fresh
        else:
            pieces.append({"text": fresh, "is_quoted": True})
        end = max(end, stop)
    pieces.append({"text": text[end:], "is_quoted": False})
    return [piece for piece in pieces if piece["text"]]
