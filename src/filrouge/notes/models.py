"""Notes: Markdown files of the user's vault, and the chunks that search uses.

Notes are the user's files, and Filrouge never changes them. Data stored about a note is derived, and is deleted with
the note. Filrouge writes its own pages (`notes.pages`) only into the folder that the user names for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from msgspec import Struct, field

from filrouge.search.models import Scores

#: The channel of a note in search results.
CHANNEL: Final = "vault"


class Note(Struct, frozen=True, kw_only=True):
    """One note as it was read.

    Attributes:
        path: relative to the vault, with `/` between folders.
        title: the file name without its suffix.
        text: the content without the frontmatter.
        aliases: other names, from its frontmatter.
        tags: folded, without `#`; from the frontmatter and the text.
        stamp: the file's stamp when it was read, as in the listing.
        hash: SHA-256 of the bytes that were read, in hexadecimal.
        changed: when the file was last written.
        problem: what could not be read; empty if everything was.
    """

    path: str
    title: str
    text: str
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    stamp: str
    hash: str
    changed: datetime
    problem: str = ""


class Chunk(Struct, frozen=True, kw_only=True):
    """A part of a note, of about a thousand characters.

    Attributes:
        path: the path of the note.
        part: its position among the chunks of the note, from 0.
        heading: the note's title and the headings above the part.
        text: the part's text as in the file, with its own heading.
    """

    path: str
    part: int
    heading: str
    text: str

    @property
    def id(self) -> str:
        """The chunk's id; unique at any one time."""
        return chunk_id(self.path, self.part)

    @property
    def indexed(self) -> str:
        """The text to index, with the headings, so that a chunk is also found by the headings above it."""
        return f"{self.heading}\n{self.text}"


class Content(NamedTuple):
    """The text of a complete file, with its frontmatter and line ends; `changed` is when it was last written."""

    text: str
    changed: datetime


class Listing(Struct, frozen=True, kw_only=True):
    """The contents of a vault.

    Attributes:
        stamps: for each note's path a stamp that changes when the file is written; the last written notes come first.
        problems: for each path that was skipped, the reason.
    """

    stamps: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict[str, str])


class NoteHit(Scores, frozen=True, kw_only=True):
    """A search result: a note with its best chunk."""

    path: str
    part: int
    heading: str
    text: str
    changed: datetime

    @property
    def chunk(self) -> str:
        """The id of the chunk."""
        return chunk_id(self.path, self.part)


def chunk_id(path: str, part: int) -> str:
    """Return the id of a chunk."""
    return f"{path}#{part}"


class NotesFound(Struct, frozen=True, kw_only=True):
    """Notes for a query, best first; `known` is the probability that the vault contains anything about it."""

    hits: tuple[NoteHit, ...] = ()
    notices: tuple[str, ...] = ()
    known: float = 0.0
