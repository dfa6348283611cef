"""Small exports of other programs, made by hand in the shape of HOSTS 10."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

RULE = "always answer in French"


def node(id_: str, parent: str | None, role: str = "", *parts: Any, **message: Any) -> dict[str, Any]:
    """A node of ChatGPT's tree; one without a role holds no message."""
    said = {
        "id": f"m-{id_}",
        "author": {"role": role},
        "create_time": 1_700_000_000.5,
        "content": {"content_type": "text", "parts": list(parts)},
        **message,
    }
    return {"id": id_, "parent": parent, "children": [], "message": said if role else None}


def chat(*nodes: dict[str, Any], current: str = "", **more: Any) -> dict[str, Any]:
    """A conversation of ChatGPT."""
    mapping = {one["id"]: one for one in nodes}
    for one in nodes:
        if one["parent"] in mapping:
            mapping[one["parent"]]["children"].append(one["id"])
    return {"conversation_id": "c-1", "title": "Ports", "create_time": 1.7e9, "mapping": mapping} | (
        {"current_node": current or nodes[-1]["id"]} | more
    )


def edited() -> dict[str, Any]:
    """A conversation whose first question was edited: what was left, what the user saw, and what nobody said."""
    return chat(
        node("root", None),
        node("sys", "root", "system", "You are a helpful assistant."),
        node("left", "sys", "user", "Which port does the KIOSK use?"),
        node("left-answer", "left", "assistant", "Port 1111."),
        node("asked", "sys", "user", {"content_type": "image_asset_pointer"}, "Which port does the ferry office use?"),
        node("call", "asked", "assistant", "search(port)", recipient="browser"),
        node("tool", "call", "tool", "port 2222"),
        node("hidden", "tool", "user", "secret context", metadata={"is_visually_hidden_from_conversation": True}),
        node("answer", "hidden", "assistant", "The ferry office uses port 9443."),
    )


def chatgpt(root: Path) -> Path:
    path = root / "chatgpt.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("conversations.json", json.dumps([edited()]))
    return path


def claude_ai(root: Path) -> Path:
    path = root / "conversations.json"
    messages = [
        {"uuid": "u1", "sender": "human", "text": "Where do the drafts live?", "created_at": "2025-02-01T10:00:00Z"},
        {
            "uuid": "u2",
            "sender": "assistant",
            "text": "thinking aloud",
            "content": [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "In the folder atelier."}],
        },
    ]
    conversation = {"uuid": "k-1", "name": "Drafts", "created_at": "2025-02-01T09:59:00Z", "chat_messages": messages}
    path.write_text(json.dumps([conversation, {"uuid": "k-2", "messages": []}]), "utf-8")
    return path


def gemini(root: Path) -> Path:
    folder = root / "tmp" / "ab12" / "chats"
    folder.mkdir(parents=True)
    lines = [
        {"type": "session_metadata", "sessionId": "g-1"},
        {
            "type": "user",
            "id": "1",
            "timestamp": "2025-01-05T10:00:00Z",
            "content": [{"text": "Add a changelog entry"}],
        },
        {"type": "gemini", "id": "2", "timestamp": "2025-01-05T10:00:09Z", "content": [{"text": "Add"}]},
        {"type": "message_update", "id": "2", "content": [{"text": "Added under Unreleased."}]},
    ]
    text = "\n".join(map(json.dumps, lines)) + '\n{"type": "user", "id"'
    (folder / "session-1.jsonl").write_text(text, "utf-8")
    old = {"sessionId": "g-0", "messages": [{"id": "a", "type": "user", "content": "Rename the ferry module"}]}
    (folder / "session-0.json").write_text(json.dumps(old), "utf-8")
    return root / "tmp"


def mem0(root: Path) -> Path:
    path = root / "mem0.json"
    rows = [
        {"id": "a1", "memory": "Ana keeps bees.", "created_at": "2025-01-01T00:00:00+00:00", "categories": ["hobbies"]},
        {"id": "a2"},
    ]
    path.write_text(json.dumps({"count": 2, "results": rows}), "utf-8")
    return path


def claude_mem(root: Path) -> Path:
    path = root / "claude-mem.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE observations (id INTEGER PRIMARY KEY, project TEXT, text TEXT, type TEXT, created_at TEXT,"
            " created_at_epoch INTEGER, title TEXT, narrative TEXT, facts TEXT)"
        )
        connection.execute(
            "INSERT INTO observations VALUES (1, 'shop', NULL, 'decision', '2025-01-01', 1735689600000,"
            " 'Drizzle chosen', 'Prisma does not run on the edge.', '[\"The edge runtime has no engine.\"]')"
        )
        connection.execute("CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, project TEXT, learned TEXT)")
        connection.execute("INSERT INTO session_summaries VALUES (1, 'shop', 'The cache is per region.')")
    connection.close()
    return path


def mcp_memory(root: Path) -> Path:
    path = root / "memory.jsonl"
    rows = [
        {"type": "entity", "name": "Ana", "entityType": "person", "observations": ["Keeps bees.", "Lives in Lyon."]},
        {"type": "relation", "from": "Ana", "to": "Atelier", "relationType": "works_at"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\nno json\n", "utf-8")
    return path


def markdown(root: Path) -> Path:
    folder = root / "notes"
    (folder / ".obsidian").mkdir(parents=True)
    (folder / ".obsidian" / "hidden.md").write_text("# no\nhidden", "utf-8")
    text = "---\ntags: [x]\n---\nBefore.\n# Ports\nThe kiosk is on 9443.\n## Old\n```\n# no heading\n```\n# Empty\n"
    (folder / "ports.md").write_text(text, "utf-8")
    return folder


def ai_smartness(root: Path) -> Path:
    folder = root / "shop" / ".ai"
    threads = folder / "db" / "threads"
    threads.mkdir(parents=True)
    (folder / "user_rules.json").write_text(json.dumps({"rules": [RULE], "last_updated": "2025-01-01"}), "utf-8")
    said = {"id": "m1", "content": "Where is the ferry timetable kept?", "source": "user", "timestamp": "2025-01-02"}
    (threads / "thread_1.json").write_text(json.dumps({"id": "thread_1", "messages": [said]}), "utf-8")
    (threads / "_active.json").write_text('{"threads": ["thread_1"]}', "utf-8")
    (threads / "thread_2.json").write_text("{", "utf-8")
    return folder


MADE: Mapping[str, Callable[[Path], Path]] = {
    "chatgpt": chatgpt,
    "claude-ai": claude_ai,
    "gemini": gemini,
    "mem0": mem0,
    "claude-mem": claude_mem,
    "mcp-memory": mcp_memory,
    "markdown": markdown,
    "ai-smartness": ai_smartness,
}
#: Messages and statements that each of them holds, and what of it cannot be read.
HELD: Mapping[str, tuple[int, int, int]] = {
    "chatgpt": (2, 0, 0),
    "claude-ai": (2, 0, 0),
    "gemini": (3, 0, 1),
    "mem0": (0, 1, 1),
    "claude-mem": (0, 2, 0),
    "mcp-memory": (0, 3, 1),
    "markdown": (0, 3, 0),
    "ai-smartness": (1, 1, 1),
}
