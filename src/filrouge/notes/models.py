"""Notes: Markdown files of the user's vault, and the chunks that they are searched in.

A note is the user's file: Filrouge reads it and never changes it. What is kept of it is derived, and goes with it. Only
in the one folder that the user names for it does it write pages of its own (`notes.markdown`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

#: What the search answers as the channel of a note.
CHANNEL: Final = "vault"


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """One note as it was read.

    Attributes:
        path: from the vault's top, with `/` between folders.
        aliases: other names that its frontmatter gives it.
        tags: without `#`, folded; those of the frontmatter and those of the text.
        text: without the frontmatter.
        changed: when the file was last written.
        stamp: what its file looked like then, as the listing says it.
        hash: of all its bytes.
        trouble: what could not be read of it, empty where all could.
    """

    path: str
    title: str
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    text: str
    changed: datetime
    stamp: str
    hash: str
    trouble: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """A part of a note, of about a thousand characters.

    Attributes:
        part: its place in the note, from 0.
        heading: the title of the note and the headings that it stands under.
        text: as it stands in the file, its own heading included.
    """

    path: str
    part: int
    heading: str
    text: str

    @property
    def id(self) -> str:
        """What it is known by; no other chunk has it at the same time."""
        return chunk_id(self.path, self.part)

    @property
    def indexed(self) -> str:
        """What is indexed of it: a text is found by the headings above it as well."""
        return f"{self.heading}\n{self.text}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """A whole file, its frontmatter and line ends as they are; `changed` is when it was last written."""

    text: str
    changed: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """What is in a vault.

    Attributes:
        stamps: of each note's path what its file looks like: another one when it was written. Those written last come
            first.
        troubles: of each path that was refused the reason.
    """

    stamps: Mapping[str, str]
    troubles: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteHit:
    """A note that was found, by its best chunk; the scores are those of `search.models.Hit`."""

    path: str
    part: int
    heading: str
    text: str
    changed: datetime
    bm25_score: float
    vector_score: float
    score: float
    similarity: float | None
    coverage: float
    relevance: float
    boosts: tuple[tuple[str, float], ...] = ()

    @property
    def chunk(self) -> str:
        """The id of the chunk."""
        return chunk_id(self.path, self.part)

    def explain(self) -> dict[str, Any]:
        """Each part of the score."""
        return {
            "boosts": dict(self.boosts),
            "bm25_score": round(self.bm25_score, 4),
            "vector_score": round(self.vector_score, 4),
            "score": round(self.score, 4),
            "similarity": None if self.similarity is None else round(self.similarity, 4),
            "coverage": round(self.coverage, 4),
            "relevance": round(self.relevance, 4),
        }


def chunk_id(path: str, part: int) -> str:
    """What a chunk is known by."""
    return f"{path}#{part}"


@dataclass(frozen=True, kw_only=True, slots=True)
class NotesFound:
    """Notes for a question, best first; `known`: the probability that the vault holds anything about it."""

    hits: tuple[NoteHit, ...] = ()
    notices: tuple[str, ...] = ()
    known: float = 0.0
