"""The pages that stand in the vault, as they are now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from filrouge.app.pages_planned import Place, place_of
from filrouge.clock import after
from filrouge.errors import NotFound, VaultUnavailable
from filrouge.model.note import Content
from filrouge.notes.markdown import key_of, lines
from filrouge.ports import Vault

#: A page is not touched until it has been left alone for so long.
QUIET_SECONDS: Final = 10.0


@dataclass(kw_only=True, slots=True)
class Found:
    """The folder as it was read.

    Attributes:
        texts: of every page that may be changed, by path.
        paths: of every page by its key.
        elsewhere: memories whose lines stand in files that are no pages; these are the user's alone.
        corrected: memories that say now what their lines say.
        is_whole: every page could be read, and none is being written: what is on none is on none.
        is_waiting: somebody is writing one.
    """

    texts: dict[str, str] = field(default_factory=dict[str, str])
    paths: dict[str, str] = field(default_factory=dict[str, str])
    places: list[Place] = field(default_factory=list[Place])
    elsewhere: set[str] = field(default_factory=set[str])
    corrected: set[str] = field(default_factory=set[str])
    troubles: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    is_whole: bool = True
    is_waiting: bool = False


def read_pages(
    vault: Vault, stamps: Mapping[str, str], before: Collection[str], own: Mapping[str, str], now: datetime
) -> Found:
    """Every page of a folder, but those that somebody is writing.

    Args:
        stamps: the files of the folder.
        before: where pages were last.
        own: by path, what we wrote ourselves.
    """
    found = Found()
    for path in sorted(stamps):
        try:
            content = vault.content(path)
        except (NotFound, VaultUnavailable) as error:
            if path in before:
                found.is_whole = False
                found.is_waiting |= isinstance(error, NotFound)  # it went, or is being written
                found.troubles += [] if isinstance(error, NotFound) else [(path, "", error.message)]
            continue
        key, there = key_of(content.text), lines(content.text)
        if not key and path not in before:
            found.elsewhere |= {line.id for line in there}
            continue
        if key and found.paths.setdefault(key, path) != path:
            found.troubles.append((path, "", f"this page is {found.paths[key]} already; remove one of them"))
        if _is_being_written(content, own.get(path), now):
            found.is_whole, found.is_waiting = False, True
            continue
        found.texts[path] = content.text
        found.places += [place_of(path, line) for line in there]
    return found


def _is_being_written(content: Content, own: str | None, now: datetime) -> bool:
    """A date that lies ahead says nothing."""
    is_fresh = after(now, -QUIET_SECONDS) < content.changed <= after(now, QUIET_SECONDS)
    return is_fresh and own != content.text
