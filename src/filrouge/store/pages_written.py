"""The pages that were written into the vault, and what their lines held then."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from filrouge.model.memory import LEAST_TO_INJECT
from filrouge.model.scope import LOCAL_USER
from filrouge.model.turn import TRUST_AGENT
from filrouge.ports import Tx

#: Memories on all pages together, and sessions: what a person reads, and what is compared at every change.
MOST_FACTS: Final = 5000
MOST_SESSIONS: Final = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What is known of a memory's line.

    Attributes:
        page: the key of the page that it is on.
        hash: of the words that it held.
        is_left: it went with many others; the memory stays, and is not written again.
    """

    page: str
    hash: str
    is_left: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Where a page is; `place` names the vault and the folder, `path` is empty where the user removed it."""

    place: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A memory that belongs on a page; `project` is None for what holds for the user everywhere."""

    id: str
    project: str | None
    kind: str
    text: str
    day: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """The version of a memory that says it now, or its last one."""

    id: str
    is_live: bool


class WrittenPages:
    """The tables `vault_pages` and `vault_lines`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def pages(self) -> dict[str, Page]:
        """Every page by its key."""
        return {row["key"]: Page(place=row["place"], path=row["path"]) for row in self._tx.all("pages.all")}

    def lines(self) -> dict[str, Kept]:
        """Every line by the memory that it holds."""
        rows = self._tx.all("pages.lines")
        return {
            row["memory_id"]: Kept(page=row["page"], hash=row["hash"], is_left=bool(row["is_left"])) for row in rows
        }

    def keep(self, pages: Mapping[str, Page], lines: Mapping[str, Kept]) -> None:
        """Note where pages are and what their lines hold, in the place of what was known."""
        known = self.lines()
        rows = [{"key": key, "place": one.place, "path": one.path} for key, one in pages.items()]
        self._tx.many("pages.put", rows)
        self.let_go([id_ for id_ in known if id_ not in lines])
        fresh = {id_: one for id_, one in lines.items() if known.get(id_) != one}
        self._tx.many(
            "pages.put_line",
            [{"memory_id": i, "page": one.page, "hash": one.hash, "is_left": one.is_left} for i, one in fresh.items()],
        )

    def let_go(self, memories: Collection[str]) -> None:
        """Know no more of the lines of these."""
        self._tx.run("pages.drop_lines", {"ids": json.dumps(list(memories))})

    def anew(self) -> None:
        """Know nothing any more of pages and lines that the user removed, so that they are written again."""
        self._tx.run("pages.anew_lines")
        self._tx.run("pages.anew")

    def clear(self) -> None:
        """Know of no page."""
        self._tx.run("pages.clear")
        self._tx.run("pages.clear_lines")

    def shown(self) -> list[Shown]:
        """What belongs on pages, the oldest first: what is believed and was learned from the user or an agent, and what
        sums sessions up. What a tool's output or an import alone says is not believed by anybody yet."""
        asked = {"user_id": LOCAL_USER, "least": LEAST_TO_INJECT, "trust": TRUST_AGENT, "limit": MOST_FACTS}
        facts = self._tx.all("pages.facts", asked)
        sessions = self._tx.all("pages.sessions", asked | {"limit": MOST_SESSIONS})
        return [
            Shown(
                id=row["id"],
                project=row["project_id"] if row["scope"] == "project" else None,
                kind=row["kind"],
                text=row["text"],
                day=row["created_at"][:10],
            )
            for row in (*facts, *sessions)
        ]

    def heads(self, ids: list[str]) -> dict[str, Head]:
        """Of each of these the version of today; those that are nowhere in the memory are left out."""
        rows = self._tx.all("pages.heads", {"ids": json.dumps(ids)})
        return {row["id"]: Head(id=row["head"], is_live=row["state"] == "live") for row in rows}

    def newest_change(self) -> int:
        """A number that grows with every change of what is known."""
        row = self._tx.one("journal.newest")
        return int(row["n"]) if row else 0
