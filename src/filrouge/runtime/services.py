"""What a running Filrouge is made of, handed to every verb."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Event as Flag
from threading import Lock
from typing import Any

from filrouge.capture.repository import Turns
from filrouge.core.clock import Clock
from filrouge.core.errors import BadConfig
from filrouge.core.protocols import Analyser, Redactor, Tx, Vault
from filrouge.core.settings import Effective, Settings, resolve
from filrouge.erasure.tombstones import Gate
from filrouge.extraction.summaries import Analyst, analyse
from filrouge.memories.repository import Memories
from filrouge.notes.repository import Noted
from filrouge.providers.service import Models
from filrouge.runtime.executors import ReaderPool, WriterLane
from filrouge.runtime.feed import Bus, Feed
from filrouge.runtime.metrics import Meters
from filrouge.runtime.settings_repository import StoredSettings
from filrouge.runtime.signals import Bell, Rest
from filrouge.search.relevance import Bridging
from filrouge.search.vector_search import Embedders, Meaning, NewIndex
from filrouge.search.word_feed import LargeWords
from filrouge.threads.whitening import Grounds

# What work inside one transaction of a database needs, whether a daemon runs on that database or not.

_LOG = logging.getLogger(__name__)


@dataclass(kw_only=True)
class StoreContext:
    """The home, the clock, the analyser and the environment, and the repositories that need them."""

    home: str
    clock: Clock
    analyser: Analyser
    environ: Mapping[str, str]

    def memories(self, tx: Tx) -> Memories:
        """The memories, within a transaction."""
        return Memories(tx, self.analyser)

    def turns(self, tx: Tx) -> Turns:
        """The turns, within a transaction."""
        return Turns(tx, self.analyser)

    def effective(self, tx: Tx, cwd: str | None = None) -> Effective:
        """The settings that hold, and where they come from."""
        local = cwd if cwd and os.path.isdir(cwd) else None
        return resolve(StoredSettings(tx).all(), home=self.home, environ=self.environ, cwd=local)

    def settings(self, tx: Tx, cwd: str | None = None) -> Settings:
        """The settings that hold; a project's file that cannot be read is passed over, because agents must go on."""
        try:
            return self.effective(tx, cwd).settings
        except BadConfig as error:
            _LOG.warning("%s", error.message)
            return self.effective(tx).settings


# The parts of a running Filrouge, put together by `wiring` and handed to every verb.


@dataclass(kw_only=True)
class Parts(StoreContext):
    """Everything a verb may need. Built once; the flags and the meaning are the only things that change.

    Attributes:
        words: the word indexes of large tables.
        gate: keeps out what was forgotten.
        models: who is asked where a model is to understand.
        meaning: what vectors are made and found with; take it once, and use only that.
        open_vault: the vault of a folder, which need not be there.
        noted: what is held of that of the settings.
        grounds: what prompts are compared above.
        regrouped: up to when the threads of each user's projects were looked at as a whole.
        bus: who listens to what happens here.
        feed: tells them what is committed.
        captured: when an event was handed over last, by the clock that never jumps.
        resumed: set once what an earlier daemon left undone is queued.
        analyst: who reads sessions; the one without a model unless there is another.
        resting: set while no job is due, and what the last ones did is in the indexes in memory.
        leaving: set once it is to end: what takes long and can be done again is given up.
    """

    bridging: Bridging
    redact: Redactor
    writer: WriterLane
    readers: ReaderPool
    meaning: Meaning
    embedders: Embedders
    new_index: NewIndex
    words: LargeWords
    models: Models
    gate: Gate
    open_vault: Callable[[str], Vault]
    bus: Bus
    feed: Feed
    meters: Meters = field(default_factory=Meters)
    noted: Noted = field(default_factory=Noted)
    grounds: Grounds = field(default_factory=Grounds)
    analyst: Analyst = analyse
    regrouped: dict[tuple[str, str | None], datetime] = field(default_factory=dict[tuple[str, str | None], datetime])
    captured: float = 0.0
    work_waiting: Bell = field(default_factory=Bell)
    resumed: Flag = field(default_factory=Flag)
    resting: Rest = field(default_factory=Rest)
    leaving: Flag = field(default_factory=Flag)
    _changing: Lock = field(default_factory=Lock)

    def change_meaning(self, change: Callable[[Meaning], Meaning]) -> None:
        """Exchange the meaning; two who change it at once do so one after the other."""
        with self._changing:
            self.meaning = change(self.meaning)

    def within(self, until: float) -> Parts:
        """The same, with a meaning that answers questions until then, by the clock that never jumps."""
        return replace(self, meaning=replace(self.meaning, until=until))

    def extracting(self) -> bool:
        """False where the user switched extraction off: what is said is kept, and nothing is made of it."""
        return self.readers.here(lambda tx: self.settings(tx)).extract_provider != "off"

    def to_json(self) -> dict[str, Any]:
        """What `status` says of the parts."""
        meaning = self.meaning
        return {
            "home": self.home,
            "embedding_space": meaning.space.id,
            "vectors_in_memory": len(meaning.memory_index) + len(meaning.turn_index),
            "index_ready": meaning.ready.is_set(),
            "word_indexes": self.words.to_json(),
            "resumed": self.resumed.is_set(),
        }
