"""Forgetting as values: what is asked, every row that goes, and the receipt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal

# Forgetting, as values: what is asked, every row that it would touch, what was done, and the receipt.
#
# A preview holds excerpts, for whoever asked and nobody else: it is shown and never stored. A receipt holds counts.

How = Literal["exact", "related", "tied"]
"""Why a row is touched: it holds the words; it is about the same; it hangs on one that is."""
Deed = Literal["erased", "emptied", "rebuilt", "unlinked"]
"""What becomes of a row: it goes; it stays without its words; it is made anew of what is left; it loses a reference."""

#: Spec GARD-4: how many hits a search may add, and how relevant each must be at least.
MOST_RELATED: Final = 20
LEAST_RELEVANCE: Final = 0.5
#: What nobody can promise, in every receipt.
NOT_PROMISED: Final = (
    "what the cells of a solid-state disk still hold after a file was overwritten",
    "snapshots of the file system, and backups made by other programs",
    "copies of this home elsewhere: what is forgotten goes from them when they are opened with this home's tombstones",
    "the agents' own transcripts, which belong to them: they are not read into memory again",
    "the files of your notes, which are yours and stay, and copies of them that Obsidian synchronised or git keeps",
    "pages in the vault until the next look at them: within seconds, or once the vault is back and you write no more",
    "what was sent to the provider of a model while it was remembered",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One affected row.

    Attributes:
        id: its key; of a key of several columns, all of them with a space between.
        excerpt: the beginning of its words, for the preview alone.
        relevance: where a search found it.
        content: a hash of what it holds; another one if it changes.
    """

    table: str
    id: str
    deed: Deed
    how: How
    excerpt: str
    relevance: float | None
    content: str

    def to_json(self) -> dict[str, Any]:
        """What the preview says of it."""
        shown = asdict(self)
        del shown["content"]
        return shown


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """A backup inside the home that holds some of it.

    Attributes:
        rows: how many of its rows would go, by table.
    """

    name: str
    rows: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """What forgetting would do.

    Attributes:
        rows: every row of every table that it would touch.
        shared: memories that rest on the same words alone, and go along because nothing of them would be left.
        rebuilt: what is made anew without it, in words.
        backups: those that would be rewritten.
        notices: what the search could not use.
        token: what executing it takes; another one as soon as anything of this changed.
    """

    rows: tuple[Row, ...]
    shared: tuple[str, ...]
    rebuilt: tuple[str, ...]
    backups: tuple[Copy, ...]
    notices: tuple[str, ...]
    token: str

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """How many rows of each table, by what becomes of them."""
        return counted(self.rows)

    def to_json(self) -> dict[str, Any]:
        """The body of an answer."""
        return {
            "token": self.token,
            "counts": self.counts,
            "rows": [row.to_json() for row in self.rows],
            "shared": list(self.shared),
            "rebuilt": list(self.rebuilt),
            "backups": [asdict(one) for one in self.backups],
            "notices": list(self.notices),
            "not_promised": list(NOT_PROMISED),
        }


def counted(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """How many rows of each table, by what becomes of them."""
    found: dict[str, dict[str, int]] = {}
    for (table, deed), n in sorted(Counter((row.table, row.deed) for row in rows).items()):
        found.setdefault(table, {})[deed] = n
    return found


# A receipt of forgetting: who, when, how many rows of which table, which files, what was found then. No words.


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """One act of forgetting.

    Attributes:
        content: `counts` by table and deed; `files` that were rewritten or removed; `backups` with the counts of each;
            `log_emptied`, False while a reader still holds the write-ahead log; `searched`, what a search for the same
            afterwards still found; `not_promised`; `seconds`.
    """

    id: str
    at: datetime
    actor: str
    content: Mapping[str, Any]
    signature: bytes = b""

    def signed(self, signature: bytes) -> Receipt:
        """The same with its signature."""
        return replace(self, signature=signature)

    def changed(self, **content: object) -> Receipt:
        """The same with more to say; its signature no longer holds."""
        return replace(self, content={**self.content, **content}, signature=b"")

    def to_json(self) -> dict[str, Any]:
        """The body of an answer."""
        head = {"receipt": self.id, "at": self.at.isoformat(), "actor": self.actor}
        return {**head, **self.content, "signature": self.signature.hex()}
