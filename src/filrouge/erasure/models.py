"""Values of forgetting: affected rows, the preview and the receipt.

A preview contains excerpts. It is shown to the person who asked and never stored. A receipt contains counts and no
words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

MatchReason = Literal["exact", "related", "tied"]
"""Why a row is affected: it contains the words; a search found it; it depends on an affected row."""
Effect = Literal["erased", "emptied", "rebuilt", "unlinked"]
"""What happens to a row: it is deleted; it stays without its text; it is rebuilt; it loses a reference."""

#: Maximum number of hits that a search may add, and their minimum relevance.
MAX_RELATED: Final = 20
MIN_RELEVANCE: Final = 0.5
#: What forgetting cannot guarantee; part of every preview and receipt.
NOT_PROMISED: Final = (
    "data that a solid-state disk keeps after a file is overwritten",
    "snapshots of the file system, and backups made by other programs",
    "copies of this home elsewhere; they are cleaned when opened with this home's tombstone file",
    "the agents' own transcripts; the forgotten parts are not read into memory again",
    "the files of your notes, which are yours and stay, and copies of them that Obsidian synchronised or git keeps",
    "vault pages, until they are next updated: within seconds, or once the vault is available and not being edited",
    "text sent to a model provider before it was forgotten",
    "what you shared with a team, until the devices of colleagues have erased it: when each next reaches the hub",
)


class AffectedRow(Struct, frozen=True, kw_only=True):
    """One affected row.

    Attributes:
        id: its key; the columns of a composite key are joined by a space.
        deed: what forgetting does to it.
        how: why it is affected.
        excerpt: the beginning of its text, for the preview only.
        relevance: relevance in the search; None if no search found it.
        content: a hash of its content, which detects changes.
    """

    table: str
    id: str
    deed: Effect
    how: MatchReason
    excerpt: str
    relevance: float | None
    content: str

    def to_json(self) -> dict[str, Any]:
        """Return the row as the preview shows it."""
        row = asdict(self)
        del row["content"]
        return row


class AffectedBackup(Struct, frozen=True, kw_only=True):
    """A backup inside the home that contains affected rows.

    Attributes:
        name: its file name.
        rows: number of its rows that would be deleted or changed, by table; empty if it has an older schema.
    """

    name: str
    rows: Mapping[str, int]


class Preview(Struct, frozen=True, kw_only=True):
    """What forgetting would do.

    Attributes:
        rows: every row of every table that it would delete or change.
        shared: memories that go along because they have no other evidence.
        rebuilt: what is rebuilt without the forgotten rows, as text.
        backups: backups that would be rewritten.
        notices: parts of the search that were not available.
        token: required to execute; it changes as soon as anything in the preview changes.
    """

    rows: tuple[AffectedRow, ...]
    shared: tuple[str, ...]
    rebuilt: tuple[str, ...]
    backups: tuple[AffectedBackup, ...]
    notices: tuple[str, ...]
    token: str

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """The number of rows by table and effect."""
        return count_effects(self.rows)

    def to_json(self) -> dict[str, Any]:
        """Return the preview as a response body."""
        return {
            "token": self.token,
            "counts": self.counts,
            "rows": [row.to_json() for row in self.rows],
            "shared": list(self.shared),
            "rebuilt": list(self.rebuilt),
            "backups": [asdict(backup) for backup in self.backups],
            "notices": list(self.notices),
            "not_promised": list(NOT_PROMISED),
        }


def count_effects(rows: Sequence[AffectedRow]) -> dict[str, dict[str, int]]:
    """Return the number of rows by table and effect."""
    counts: dict[str, dict[str, int]] = {}
    for (table, effect), n in sorted(Counter((row.table, row.deed) for row in rows).items()):
        counts.setdefault(table, {})[effect] = n
    return counts


class Receipt(Struct, frozen=True, kw_only=True):
    """The record of one act of forgetting.

    Attributes:
        content: `counts` by table and effect; `files` that were rewritten or removed; `backups` with the counts of
            each; `log_emptied`, False while a reader still blocks truncating the write-ahead log; `searched`, what a
            search for the forgotten text still found afterwards; `not_promised`; `seconds`.
    """

    id: str
    at: datetime
    actor: str
    content: Mapping[str, Any]
    signature: bytes = b""

    def with_signature(self, signature: bytes) -> Receipt:
        """Return a copy with this signature."""
        return replace(self, signature=signature)

    def with_content(self, **content: object) -> Receipt:
        """Return a copy with more content and without a signature."""
        return replace(self, content={**self.content, **content}, signature=b"")

    def to_json(self) -> dict[str, Any]:
        """Return the receipt as a response body."""
        head = {"receipt": self.id, "at": self.at.isoformat(), "actor": self.actor}
        return {**head, **self.content, "signature": self.signature.hex()}
