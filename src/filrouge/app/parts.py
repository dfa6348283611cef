"""The parts of a running Filrouge, put together by `wiring` and handed to every verb."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import Any

from filrouge.app.lanes import ReaderPool, WriterLane
from filrouge.clock import Clock
from filrouge.config import Effective, Settings, resolve
from filrouge.errors import BadConfig, EmbedderUnavailable
from filrouge.ports import Analyser, Embedder, Redactor, Tx, Vector, VectorIndex, Vectors
from filrouge.store.memories import Memories
from filrouge.store.settings import StoredSettings
from filrouge.store.turns import Turns

_LOG = logging.getLogger(__name__)

LEXICAL_ONLY = "The embedding model is not available, so only words were searched."
INDEX_LOADING = "The vector index is still being loaded, so only words were searched."


@dataclass(kw_only=True)
class Parts:
    """Everything a verb may need. Built once; the flags are the only things that change."""

    home: str
    clock: Clock
    analyser: Analyser
    embedder: Embedder
    redact: Redactor
    writer: WriterLane
    readers: ReaderPool
    memory_index: VectorIndex
    turn_index: VectorIndex
    environ: Mapping[str, str]
    index_ready: Flag = field(default_factory=Flag)
    work_waiting: Flag = field(default_factory=Flag)

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

    def question_vector(self, text: str) -> tuple[Vector | None, tuple[str, ...]]:
        """A question's vector, or None with the notice to show."""
        if not self.index_ready.is_set():
            return None, (INDEX_LOADING,)
        try:
            return self.embedder.query(text), ()
        except EmbedderUnavailable:
            _LOG.warning("embedder unavailable; lexical recall only")
            return None, (LEXICAL_ONLY,)

    def passage_vectors(self, texts: list[str]) -> Vectors | None:
        """The vectors of texts, or None where the embedder is down."""
        try:
            return self.embedder.passages(texts)
        except EmbedderUnavailable:
            _LOG.warning("embedder unavailable; %d texts wait for their vectors", len(texts))
            return None

    def to_json(self) -> dict[str, Any]:
        """What `status` says of the parts."""
        return {
            "home": self.home,
            "embedding_space": self.embedder.space.id,
            "vectors_in_memory": len(self.memory_index) + len(self.turn_index),
            "index_ready": self.index_ready.is_set(),
        }
