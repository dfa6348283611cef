"""The services of a running Filrouge: `Parts` has all of them, `StoreContext` those that work on the store needs.

`runtime.wiring` builds `Parts` once and passes it to every operation. Only its flags, its times and the current
vector search (`vectors`) change after that.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from threading import Event as Flag
from threading import Lock
from typing import Any, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from filrouge.capture.repository import Turns
from filrouge.core.clock import Clock, to_text
from filrouge.core.errors import BadConfig
from filrouge.core.protocols import Analyser, Redactor, Tx, Vault
from filrouge.core.settings import Effective, Settings, resolve
from filrouge.erasure.tombstones import TombstoneFilter
from filrouge.extraction.summaries import Analyst, analyse
from filrouge.memories.repository import Memories
from filrouge.notes.repository import VaultIndex
from filrouge.providers.service import Models
from filrouge.runtime.executors import IdleTracker, Notifier, ReaderPool, Writer
from filrouge.runtime.feed import Bus, Feed
from filrouge.runtime.metrics import Metrics
from filrouge.search.ranking import Bridging
from filrouge.search.repository import LargeWords
from filrouge.search.vector_search import Embedders, NewIndex, VectorSearch
from filrouge.team.models import SyncState
from filrouge.threads.repository import WhiteningCache

# Stored settings: one row per key; they override the defaults and are overridden by files and the environment.


class StoredSettings:
    """The table `memory_settings`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def all(self) -> dict[str, Any]:
        """Return every stored value by key."""
        # One value to decode instead of fifty: every prompt reads them.
        return json.loads((self._tx.one("settings.all") or {})["stored"])

    def seed(self, defaults: Mapping[str, object], at: datetime) -> None:
        """Insert the defaults for keys that are missing."""
        self._tx.many("settings.seed", [_setting_row(key, value, at) for key, value in defaults.items()])

    def put(self, changes: Mapping[str, object], at: datetime) -> None:
        """Store these values; other keys stay unchanged."""
        self._tx.many("settings.put", [_setting_row(key, value, at) for key, value in changes.items()])


def _setting_row(key: str, value: object, at: datetime) -> dict[str, object]:
    return {"key": key, "value": json.dumps(value, ensure_ascii=False), "updated_at": to_text(at)}


_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class KeptCounts:
    """The last results of counts that read a large table, used again while what they count is the same. Thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Hashable, Any]] = {}

    def get(self, name: str, mark: Hashable, count: Callable[[], _Result]) -> _Result:
        """Return the kept result of a count if its mark is the same as then, else count again.

        Args:
            mark: whatever changes with what is counted, and is quickly read.
        """
        kept = self._kept.get(name)
        if kept is None or kept[0] != mark:
            kept = self._kept[name] = mark, count()
        return cast(_Result, kept[1])


class StoreContext(Struct, kw_only=True):
    """What work on the store needs besides a transaction: home, clock, analyser, environment. It needs no daemon."""

    home: str
    clock: Clock
    analyser: Analyser
    environ: Mapping[str, str]

    def memories(self, tx: Tx) -> Memories:
        """Return the memory repository for a transaction."""
        return Memories(tx, self.analyser)

    def turns(self, tx: Tx) -> Turns:
        """Return the turn repository for a transaction."""
        return Turns(tx, self.analyser)

    def effective(self, tx: Tx, cwd: str | None = None) -> Effective:
        """Return the settings in effect, each with its source."""
        local = cwd if cwd and os.path.isdir(cwd) else None
        return resolve(StoredSettings(tx).all(), home=self.home, environ=self.environ, cwd=local)

    def settings(self, tx: Tx, cwd: str | None = None) -> Settings:
        """Return the settings in effect. An unreadable project file is logged and ignored: agents must go on."""
        try:
            return self.effective(tx, cwd).settings
        except BadConfig as error:
            _LOG.warning("%s", error.message)
            return self.effective(tx).settings


class Parts(StoreContext, kw_only=True):
    """All services of a running Filrouge.

    Attributes:
        redact: removes secrets from a text.
        vectors: the current embedder and vector indexes. Read it once per operation and use only that value.
        words: the word indexes of large tables.
        models: the language models.
        tombstones: checks new content against the hashes of what was forgotten.
        open_vault: opens the vault in a folder; the folder need not exist.
        bus: the subscribers of live messages.
        feed: publishes commits on the bus.
        vault: in-memory state of the notes vault named in the settings.
        counts: counts that the last report needed.
        whitening: baseline of each user's prompts; similarities between prompts are measured relative to it.
        team: how the exchanges with the team's hub go.
        analyst: analyses sessions; by default the one without a model.
        regrouped: until when each user's projects have had their threads regrouped.
        last_capture: when the last event arrived, on the monotonic clock.
        work_waiting: wakes the workers.
        resumed: set once the work left over by an earlier daemon is queued.
        idle: set while no job is due and the in-memory indexes include the results of the last ones.
        stopping: set when shutdown begins; long work that can be repeated is abandoned.
    """

    bridging: Bridging
    redact: Redactor
    writer: Writer
    readers: ReaderPool
    vectors: VectorSearch
    embedders: Embedders
    new_index: NewIndex
    words: LargeWords
    models: Models
    tombstones: TombstoneFilter
    open_vault: Callable[[str], Vault]
    bus: Bus
    feed: Feed
    metrics: Metrics = field(default_factory=Metrics)
    vault: VaultIndex = field(default_factory=VaultIndex)
    counts: KeptCounts = field(default_factory=KeptCounts)
    whitening: WhiteningCache = field(default_factory=WhiteningCache)
    team: SyncState = field(default_factory=SyncState)
    analyst: Analyst = analyse
    regrouped: dict[tuple[str, str | None], datetime] = field(default_factory=dict[tuple[str, str | None], datetime])
    last_capture: float = 0.0
    work_waiting: Notifier = field(default_factory=Notifier)
    resumed: Flag = field(default_factory=Flag)
    idle: IdleTracker = field(default_factory=IdleTracker)
    stopping: Flag = field(default_factory=Flag)
    _changing: Lock = field(default_factory=Lock)

    def change_vectors(self, change: Callable[[VectorSearch], VectorSearch]) -> None:
        """Replace `vectors`; concurrent changes are applied one after the other."""
        with self._changing:
            self.vectors = change(self.vectors)

    def within(self, until: float) -> Parts:
        """Return a copy in which query vectors must be ready by `until`, on the monotonic clock."""
        return replace(self, vectors=replace(self.vectors, until=until))

    def extracting(self) -> bool:
        """Return False if the user turned extraction off: turns are stored, but nothing is extracted from them."""
        return self.readers.here(lambda tx: self.settings(tx)).extract_provider != "off"

    def to_json(self) -> dict[str, Any]:
        """Return the part of `status` that describes the services."""
        vectors = self.vectors
        return {
            "home": self.home,
            "embedding_space": vectors.space.id,
            "vectors_in_memory": len(vectors.memory_index) + len(vectors.turn_index),
            "index_ready": vectors.ready.is_set(),
            "word_indexes": self.words.to_json(),
            "resumed": self.resumed.is_set(),
        }
