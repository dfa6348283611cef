"""The parts of a running Filrouge, put together by `wiring` and handed to every verb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Event as Flag
from threading import Lock
from typing import Any

from filrouge.app.bell import Bell, Rest
from filrouge.app.bus import Bus
from filrouge.app.feed import Feed
from filrouge.app.gate import Gate
from filrouge.app.grounds import Grounds
from filrouge.app.lanes import ReaderPool, WriterLane
from filrouge.app.meaning import Embedders, Meaning, NewIndex
from filrouge.app.meters import Meters
from filrouge.app.models import Models
from filrouge.app.noted import Noted
from filrouge.app.store_context import StoreContext
from filrouge.app.word_feed import LargeWords
from filrouge.extraction.summaries import Analyst, analyse
from filrouge.ports import Redactor, Vault
from filrouge.recall.bridging import Bridging


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
