"""Readers of other programs' exports and memories: each turns a file or a folder into messages and statements.

A reader is pure: it is given a path, writes nothing, and believes nothing of what it reads. It reads piece by piece, so
that a file of any size costs little memory; what cannot be read is named, and the rest goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from filrouge.model.imported import Item
from filrouge.transfer.readers import (
    ai_smartness,
    chatgpt,
    claude_ai,
    claude_mem,
    gemini,
    markdown,
    mcp_memory,
    mem0,
)


class Format(NamedTuple):
    """How one format is read.

    Attributes:
        usual: where its program keeps it, `~` being the home directory; empty where only the user knows.
        what: what is to be given, for a person.
    """

    read: Callable[[str], Iterator[Item]]
    usual: str
    what: str


FORMATS: Final[Mapping[str, Format]] = {
    "chatgpt": Format(chatgpt.read, "", "the zip of ChatGPT's export, or its conversations.json"),
    "claude-ai": Format(claude_ai.read, "", "the zip of Claude.ai's export, or its conversations.json"),
    "gemini": Format(gemini.read, "~/.gemini/tmp", "a session file of Gemini CLI, or the folder of them"),
    "mem0": Format(mem0.read, "", "what mem0's get_all answers, as JSON"),
    "claude-mem": Format(claude_mem.read, "~/.claude-mem/claude-mem.db", "claude-mem's database"),
    "mcp-memory": Format(mcp_memory.read, "", "the memory.jsonl of the MCP memory server"),
    "markdown": Format(markdown.read, "", "a folder of Markdown files, or one of them"),
    "ai-smartness": Format(ai_smartness.read, ".ai", "the folder .ai of a project"),
}
