"""Wiring: the only module that names concrete classes. It builds a running Filrouge and takes it down again."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any

from filrouge.capture import losses
from filrouge.capture.redact_complete import redact_completely
from filrouge.capture.service import drain_spool, spool_watch
from filrouge.context.hook_files import write_all_briefs, write_hook_settings
from filrouge.core.clock import Clock, SystemClock
from filrouge.core.errors import BadConfig
from filrouge.core.paths import DATABASE, SPOOL, WORDS, inside, make_private
from filrouge.core.protocols import Analyser, Embedder, VectorIndex, Vectors
from filrouge.core.settings import Settings, resolve
from filrouge.daemon.allocator import give_back
from filrouge.erasure.replay import bring_up
from filrouge.erasure.tombstone_filter import Gate
from filrouge.extraction.sessions import idle_watch
from filrouge.maintenance.backups import backup_watch
from filrouge.maintenance.garden_service import garden_watch
from filrouge.maintenance.retention import retention_watch
from filrouge.notes.pages_service import pages_watch
from filrouge.notes.service import vault_watches
from filrouge.notes.vault import Vaults
from filrouge.providers.embedders import EmbedderOptions, Remembering, embedder, plain_names
from filrouge.providers.models import EmbeddingSpace
from filrouge.providers.prompt_files import prompt
from filrouge.providers.service import BuildPanel, Models, Pace
from filrouge.providers.service import panel as panel_of
from filrouge.runtime import disk
from filrouge.runtime.decision_log import log_decisions
from filrouge.runtime.executors import ReaderPool, WriterLane
from filrouge.runtime.feed import Bus, Feed
from filrouge.runtime.handlers import HANDLERS
from filrouge.runtime.jobs import MODELS
from filrouge.runtime.services import Parts
from filrouge.runtime.settings_repository import StoredSettings
from filrouge.runtime.signals import Every
from filrouge.runtime.sqlite import Database
from filrouge.runtime.upgrade import bring_up_to_date
from filrouge.runtime.worker import Worker, new_crew
from filrouge.search.analyser import TextAnalyser
from filrouge.search.bridging import Bridging
from filrouge.search.nearest_memories import resume_need_vectors
from filrouge.search.reindexing import queue_calibration, queue_stale_words, resume
from filrouge.search.spaces import adopt, wanted_name
from filrouge.search.vector_index import AdaptiveIndex
from filrouge.search.vector_repository import OwnerKind, StoredVectors
from filrouge.search.vector_search import Embedders
from filrouge.search.word_feed import LargeWords, WordFeed
from filrouge.search.word_files import WordFiles, is_possible
from filrouge.threads.placing import queue_earlier

_LOG = logging.getLogger(__name__)

Makers = Mapping[str, Callable[[], Embedder]]

#: Conversations that models read side by side.
_AT_MODELS = 2
#: Between two times that free memory is given back.
_TRIM_SECONDS = 20.0


@dataclass(kw_only=True)
class Running:
    """A running Filrouge."""

    parts: Parts
    workers: tuple[Worker, ...]
    watches: tuple[Every, ...]
    words: WordFeed
    warming: Thread

    def warm_up(self) -> None:
        """Begin, on a thread of its own, what need not be done before the first request; once."""
        self.warming.start()

    def stop(self) -> None:
        """Finish what is being written, release what is leased, close the database."""
        self.parts.leaving.set()
        if self.warming.ident is None:
            self.warm_up()
        self.warming.join()  # it reads the database, and starts what is stopped next
        for watch in self.watches:
            watch.stop()
        self.words.stop()
        self.parts.models.close()
        for worker in self.workers:
            worker.stop()
        self.parts.feed.stop()
        self.parts.readers.close()
        self.parts.writer.close()
        self.parts.embedders.close()


def start(
    home: str,
    *,
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    makers: Makers | None = None,
    panel: BuildPanel | None = None,
    pace: Pace | None = None,
    warm_up: bool = True,
) -> Running:
    """Open the store in `home` and begin to work.

    Args:
        makers: embedders by name, in the place of those that are registered.
        panel: builds the models that the settings name, in the place of the real ones.
        pace: when models are asked.
        warm_up: load indexes and take up the backlog at once; otherwise the caller says when (`Running.warm_up`).

    Raises:
        StoreError: the database cannot be opened, is damaged, or is newer than this program.
    """
    seen = dict(os.environ if environ is None else environ)
    parts = build(home, environ=seen, clock=clock or SystemClock(), makers=makers, panel=panel, pace=pace)
    crew = new_crew(parts)
    slow = (Worker(parts, HANDLERS, lane=MODELS, crew=crew, number=number) for number in range(_AT_MODELS))
    workers = (Worker(parts, HANDLERS, crew=crew), *slow)
    bring_up(parts)
    write_hook_settings(parts)
    watches = (
        spool_watch(parts),
        Every(_TRIM_SECONDS, give_back, name="allocator", failed="free memory was not given back"),
        idle_watch(parts),
        retention_watch(parts),
        garden_watch(parts),
        backup_watch(parts),
        *vault_watches(parts),
        pages_watch(parts),
    )
    words = WordFeed(parts.words, parts.readers.here)
    parts.feed.start()
    if log_decisions():
        parts.readers.here(parts.feed.join)
    warming = Thread(target=_warm_up, args=(parts, workers, watches, words), name="filrouge-warm-up", daemon=True)
    running = Running(parts=parts, workers=workers, watches=watches, words=words, warming=warming)
    if warm_up:
        running.warm_up()
    return running


def build(
    home: str,
    *,
    environ: Mapping[str, str],
    clock: Clock,
    makers: Makers | None = None,
    panel: BuildPanel | None = None,
    pace: Pace | None = None,
) -> Parts:
    """Open the store and put the parts together; nothing runs yet."""
    make_private(home)
    make_private(inside(home, SPOOL))
    path = inside(home, DATABASE)
    embedders = _registered(home, environ) if makers is None else _given(makers)
    readers = ReaderPool(lambda: Database(path, readonly=True))

    def new_index(kind: OwnerKind, space: EmbeddingSpace) -> VectorIndex:
        def rows(owners: Collection[str]) -> Mapping[str, Vectors]:
            return readers.here(lambda tx: StoredVectors(tx).some(kind, owners, space.id))

        return AdaptiveIndex(space.dimension, rows)

    bring_up_to_date(home, clock)
    database = Database(path)
    try:
        defaults = Settings().model_dump(mode="json")
        with database.transaction() as tx:
            StoredSettings(tx).seed(defaults, clock.now())
            meaning = adopt(tx, embedders, wanted_name(tx, home, environ), new_index)
    finally:
        database.close()
    reading = analyser()
    bus = Bus()
    feed = Feed(bus, readers.here)
    writer = WriterLane(lambda: Database(path), feed.committed)
    word_files = WordFiles(inside(home, WORDS), reading.version) if is_possible() else None
    return Parts(
        home=home,
        clock=clock,
        analyser=reading,
        bridging=Bridging(reading.terms),
        redact=redact_completely,
        writer=writer,
        readers=readers,
        meaning=meaning,
        embedders=embedders,
        new_index=new_index,
        words=LargeWords(word_files, reading),
        models=Models(
            panel or panel_of,
            prompt,
            writer=writer,
            readers=readers,
            clock=clock,
            environ=environ,
            pace=pace or Pace(),
        ),
        environ=environ,
        gate=Gate(home),
        open_vault=Vaults(home),
        bus=bus,
        feed=feed,
    )


def analyser() -> Analyser:
    """What cuts every text into the tokens that are indexed."""
    return TextAnalyser()


def load_indexes(parts: Parts) -> None:
    """Rebuild the vector indexes from the stored rows."""
    parts.readers.here(lambda tx: parts.meaning.fill(tx, parts.leaving))


def _warm_up(parts: Parts, workers: Sequence[Worker], watches: Sequence[Every], words: WordFeed) -> None:
    """What need not be done before the first request: indexes first, then the backlog, then the worker."""
    words.start()
    disk.keep(parts.home)
    losses.reserve(parts.home)
    for step in (
        load_indexes,
        drain_spool,
        resume,
        resume_need_vectors,
        queue_calibration,
        queue_stale_words,
        queue_earlier,
        write_all_briefs,
    ):
        try:
            step(parts)
        except Exception:  # a full disk, a damaged index: the rest must still be done
            _LOG.exception("%s failed at the start", step.__name__)
    parts.resumed.set()
    for worker in workers:
        worker.start()
    for watch in watches:
        watch.start()


def stored_settings(path: str) -> dict[str, Any]:
    """The settings that a database holds, read on a connection of its own.

    Raises:
        StoreError: it cannot be read.
    """
    reader = Database(path, readonly=True)
    try:
        return dict(StoredSettings(reader.tx).all())
    finally:
        reader.close()


def _registered(home: str, environ: Mapping[str, str]) -> Embedders:
    def make(name: str) -> Embedder:
        settings = resolve(stored_settings(inside(home, DATABASE)), home=home, environ=environ).settings
        return Remembering(embedder_of(name, settings, environ))

    return Embedders(make, plain_names)


def embedder_of(name: str, settings: Settings, environ: Mapping[str, str]) -> Embedder:
    """The registered embedder of that name, as the settings want it.

    Raises:
        BadConfig: there is none, or its options do not fit.
        EmbedderUnavailable: a package that it needs is not installed.
    """
    options = EmbedderOptions(url=settings.embedding_url, dimensions=settings.embedding_dimensions, environ=environ)
    return embedder(name, options)


def _given(makers: Makers) -> Embedders:
    def make(name: str) -> Embedder:
        if name not in makers:
            raise BadConfig(f"There is no embedder {name!r}; there are: {', '.join(sorted(makers))}.")
        return makers[name]()

    return Embedders(make, lambda: makers)
