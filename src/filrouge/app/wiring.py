"""Wiring: the only module that names concrete classes. It builds a running Filrouge and takes it down again."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Thread

from filrouge.app.backlog import SpoolWatch, drain_spool, queue_missing_vectors
from filrouge.app.handlers import HANDLERS
from filrouge.app.lanes import ReaderPool, WriterLane
from filrouge.app.mirror import write_hook_settings
from filrouge.app.parts import Parts
from filrouge.app.retokenise import queue_stale_words
from filrouge.app.worker import Worker
from filrouge.capture.redact_complete import redact_completely
from filrouge.clock import Clock, SystemClock
from filrouge.config import Settings, resolve
from filrouge.embed.options import EmbedderOptions
from filrouge.embed.registry import embedder
from filrouge.home import DATABASE, SPOOL, inside, make_private
from filrouge.index.analyser import TextAnalyser
from filrouge.index.vectors import ExactIndex
from filrouge.ports import Tx
from filrouge.store.settings import StoredSettings
from filrouge.store.sqlite import Database
from filrouge.store.vectors import StoredVectors

_LOG = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Running:
    """A running Filrouge."""

    parts: Parts
    worker: Worker
    spool: SpoolWatch

    def stop(self) -> None:
        """Finish what is being written, release what is leased, close the database."""
        self.spool.stop()
        self.worker.stop()
        self.parts.readers.close()
        self.parts.writer.close()


def start(home: str, *, environ: Mapping[str, str] | None = None, clock: Clock | None = None) -> Running:
    """Open the store in `home` and begin to work.

    Raises:
        StoreError: the database cannot be opened, is damaged, or is newer than this program.
    """
    parts = build(home, environ=dict(os.environ if environ is None else environ), clock=clock or SystemClock())
    worker = Worker(parts, HANDLERS)
    write_hook_settings(parts)
    running = Running(parts=parts, worker=worker, spool=SpoolWatch(parts))
    Thread(target=_warm_up, args=(running,), name="filrouge-warm-up", daemon=True).start()
    return running


def build(home: str, *, environ: Mapping[str, str], clock: Clock) -> Parts:
    """Open the store and put the parts together; nothing runs yet."""
    make_private(home)
    make_private(inside(home, SPOOL))
    path = inside(home, DATABASE)
    database = Database(path)
    try:
        applied = database.migrate(clock)
        if applied:
            _LOG.info("schema brought up to date: %s", ", ".join(applied))
        defaults = Settings().model_dump(mode="json")
        with database.transaction() as tx:
            StoredSettings(tx).seed(defaults, clock.now())
        chosen = _embedder_name(database.tx, environ)
        settings = resolve(StoredSettings(database.tx).all(), home=home, environ=environ).settings
    finally:
        database.close()
    options = EmbedderOptions(url=settings.embedding_url, dimensions=settings.embedding_dimensions, environ=environ)
    model = embedder(chosen, options)
    dimension = model.space.dimension
    parts = Parts(
        home=home,
        clock=clock,
        analyser=TextAnalyser(),
        embedder=model,
        redact=redact_completely,
        writer=WriterLane(lambda: Database(path)),
        readers=ReaderPool(lambda: Database(path, readonly=True)),
        memory_index=ExactIndex(dimension),
        turn_index=ExactIndex(dimension),
        environ=environ,
    )
    parts.writer.run(lambda tx: StoredVectors(tx).declare(model.space))
    return parts


def load_indexes(parts: Parts) -> None:
    """Rebuild the vector indexes from the stored rows."""
    space = parts.embedder.space.id

    def fill(tx: Tx) -> None:
        stored = StoredVectors(tx)
        for owner, group, vectors in stored.live_memories(space):
            parts.memory_index.put(owner, group, vectors)
        for owner, group, vectors in stored.turns(space):
            parts.turn_index.put(owner, group, vectors)

    parts.readers.here(fill)
    parts.index_ready.set()


def _warm_up(running: Running) -> None:
    """What need not be done before the first request: indexes first, then the backlog, then the worker."""
    for step in (load_indexes, drain_spool, queue_missing_vectors, queue_stale_words):
        try:
            step(running.parts)
        except Exception:  # a full disk, a damaged index: the rest must still be done
            _LOG.exception("%s failed at the start", step.__name__)
    running.worker.start()
    running.spool.start()


def _embedder_name(tx: Tx, environ: Mapping[str, str]) -> str:
    chosen = environ.get("FILROUGE_EMBEDDING_MODEL") or environ.get("FILROUGE_EMBED_PROVIDER")
    return str(chosen or StoredSettings(tx).all().get("embedding_model") or Settings().embedding_model)
