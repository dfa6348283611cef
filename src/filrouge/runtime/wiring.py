"""Wiring: opens a home's database, builds every service, starts the workers and stops them again.

This module chooses the implementations behind `Parts`. `start` returns a `Running`; `build` returns the services
without starting anything. `HANDLERS` maps each job kind to its handler. The caller must hold the home's lock.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Thread
from typing import Any, Final

from msgspec import Struct

from filrouge.capture import inbox
from filrouge.capture.events import Event
from filrouge.capture.intake import redact_completely, turns_from_event
from filrouge.capture.repository import Events
from filrouge.capture.service import BACKFILL, backfill, drain_spool, queue_turn_jobs, reconcile, spool_task
from filrouge.context.hook_files import write_all_briefs, write_briefs, write_hook_settings
from filrouge.core.clock import Clock, SystemClock
from filrouge.core.errors import BadConfig, FilrougeError, NotFound
from filrouge.core.guard import logged
from filrouge.core.paths import DATABASE, SPOOL, WORD_INDEXES, inside, make_private
from filrouge.core.protocols import Analyser, Embedder, Tx, VectorIndex, Vectors
from filrouge.core.scope import LOCAL_USER
from filrouge.core.settings import Settings, resolve
from filrouge.daemon.process import trim_ram
from filrouge.erasure.service import TRUNCATE_WAL, forget_again_at_start, truncate_wal
from filrouge.erasure.tombstones import TombstoneFilter
from filrouge.extraction import understanding
from filrouge.extraction.repository import Session
from filrouge.extraction.service import extract
from filrouge.extraction.sessions import AFTER_TRANSCRIPT_SECONDS, analyse_session, idle_watch, queue_digest
from filrouge.extraction.understanding import EXTRACT, queue_last_reading
from filrouge.maintenance import backup_files, copies
from filrouge.maintenance.backup_service import back_up, backup_watch
from filrouge.maintenance.garden_service import GARDEN, garden_task, run_next_step
from filrouge.maintenance.retention import RETAIN, retain, retention_watch
from filrouge.memories.repository import Action
from filrouge.notes.pages_service import pages_watch
from filrouge.notes.service import vault_watches
from filrouge.notes.vault import Vaults
from filrouge.providers.embedders import CachingEmbedder, EmbedderOptions, create_embedder, unconfigured_embedder_names
from filrouge.providers.language_models import prompt
from filrouge.providers.models import EmbeddingSpace
from filrouge.providers.service import BuildPanel, Models, ModelTimings
from filrouge.providers.service import panel as panel_of
from filrouge.runtime import disk
from filrouge.runtime.executors import PeriodicTask, ReaderPool, Writer
from filrouge.runtime.feed import Bus, Feed
from filrouge.runtime.jobs import MODELS, Handler, JobResult, Jobs, Payload, Worker, new_worker_group, single
from filrouge.runtime.journal import is_decision_log_enabled
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.runtime.sqlite import Database, Migration, migrations, refuse_older
from filrouge.search.analyser import TextAnalyser
from filrouge.search.ranking import Bridging
from filrouge.search.repository import (
    NEED_VECTORS_JOB,
    LargeWords,
    Owner,
    OwnerKind,
    StoredVectors,
    WordFeed,
    WordFiles,
    is_tantivy_installed,
)
from filrouge.search.retrievers import make_need_vectors, queue_need_vectors, resume_need_vectors
from filrouge.search.spaces import (
    CALIBRATE,
    CLEAR,
    REINDEX,
    EmbeddedWindows,
    calibrate,
    clear,
    embed_next_windows,
    initial_vector_search,
    queue_calibration,
    queue_stale_words,
    reindex_batch,
    resume,
    retokenise,
    wanted_name,
)
from filrouge.search.vector_index import AdaptiveIndex
from filrouge.search.vector_search import Embedders, VectorSearch
from filrouge.team.service import team_watch
from filrouge.threads.bridge_service import BRIDGE, update_bridges
from filrouge.threads.placing import (
    PLACE,
    PLACE_EARLIER,
    PROMPTS_TOGETHER,
    REGROUP,
    place_earlier,
    place_prompts,
    queue_earlier,
    queue_regrouping,
    reconsider,
    regroup_threads,
    request_name,
)
from filrouge.threads.synthesis_service import RECOUNT, SYNTHESISE, follow_event, recount, synthesise
from filrouge.threads.upkeep import (
    NAME_THREAD,
    RECONSIDER,
    RENAME,
    VECTORS,
    compute_thread_vectors,
    update_name,
    update_vector_for_prompt,
)

# Opening the database.
#
# Each migration is one transaction, so a start that was killed continues with the next one. A failure between two
# migrations would leave a schema that neither the old nor the new program can read. So the database is backed up
# before the first migration and restored when one fails.

_LOG = logging.getLogger(__name__)


def bring_up_to_date(home: str, clock: Clock, *, steps: Sequence[Migration] | None = None) -> None:
    """Finish an interrupted restore, back up a database with an older schema, and migrate it.

    Args:
        steps: the migrations, instead of those in the package.

    Raises:
        WrongEngine: a newer Filrouge wrote the database, or one from before the baseline; nothing was changed.
        CannotWrite: there is no room for the backup; nothing was changed.
        StoreError: a migration failed; the database was restored to its previous state.
    """
    if backup_files.finish_replacement(home):
        _LOG.info("finished an interrupted restore")
    backup_files.remove_unfinished(home)
    path = inside(home, DATABASE)
    schema_before = copies.schema_of(path) if os.path.exists(path) and os.path.getsize(path) else 0
    steps = steps or migrations("sqlite")
    refuse_older(schema_before, what=path, steps=steps)
    backup = (
        back_up(home, "before-migration", clock.now(), reserved_bytes=0)
        if 0 < schema_before < steps[-1].number
        else None
    )
    try:
        database = Database(path)
        try:
            applied = database.migrate(clock, steps=steps)
        finally:
            database.close()
    except FilrougeError:
        if backup is not None and copies.schema_of(path) != schema_before:
            _LOG.exception("the migration failed; the database was restored from the backup")
            _restore(home, backup_files.path_of(home, backup.name))
        raise
    if applied:
        _LOG.info("schema brought up to date: %s", ", ".join(applied))
    if backup is not None:
        # Keep all scheduled backups; of those made before a change, remove the surplus.
        backup_files.rotate(home, keep=1 << 30, weeks=1 << 30)


def _restore(home: str, path: str) -> None:
    temporary = backup_files.new_database_path(home)
    copies.copy(path, temporary)
    backup_files.replace_database(home, temporary)


# Job kinds: input -> effect.
#
#   read_turns      an event -> its turns, and the jobs that follow from them
#   reconcile       a host's transcript -> the turns that no hook reported
#   analyse         a user's turn -> memories
#   brief           a project with changes -> the brief its sessions get while no daemon runs
#   extract         the part of a conversation that no model has read -> memories
#   digest          a session that ended, was compacted or became idle -> its summary and concepts
#   bridge          a changed thread -> its links to other threads
#   regroup         a project whose sessions became idle -> its threads, regrouped over all of its prompts
#   synthesise      a session -> where its work stands
#   recount         a synthesis made by rules -> the same, written by a model
#   reconsider      a prompt that the rules placed with low confidence -> its thread, chosen by a model
#   rename          a thread whose prompts changed -> its title, summary and topics, by rules
#   entitle         a thread -> a better title, written by a model
#   index_turn      a turn -> its vectors
#   index_memory    a memory stored without vectors (embedder down, or a long text) -> its vectors
#   thread          a prompt -> its place in a thread, with the turns that followed it
#   thread_earlier  prompts stored before threads existed -> their places, batch by batch
#   thread_vectors  threads without a vector in the current space -> their vectors
#   garden          a garden run -> its next step, until none is left
#   retokenise      rows indexed by another analyser -> their tokens, batch by batch
#   reindex         rows without vectors in the current space or the one being built -> vectors; then the switch
#   clear_spaces    vectors of retired spaces -> deleted
#   calibrate       a space without a calibration -> how to interpret its cosines
#   retain          old rows -> removed by the retention rules
#   need_vectors    memories without the vector that matches what a prompt needs -> these vectors
#   empty_log       forgotten content that may still be in the write-ahead log -> the log emptied
#   backfill        imported messages -> the jobs that follow from them, a few at a time

#: Short jobs that share one commit. The last of them must finish well within the lease.
_MAX_JOBS_TOGETHER: Final = 64
#: A text longer than this many characters is tokenised before the write transaction.
_MAX_INLINE_CHARS: Final = 10_000


def read_events(parts: Parts, payloads: Sequence[Payload]) -> list[JobResult]:
    """Split events into turns."""
    events = parts.readers.here(lambda tx: [Events(tx).get(payload["event"]) for payload in payloads])
    for payload, event in zip(payloads, events, strict=True):
        if event is None:
            raise NotFound(f"Event {payload['event']} is gone.")
    return [_read_event(parts, *event) for event in events if event is not None]


def _read_event(parts: Parts, event: Event, project: str) -> JobResult:
    turns = turns_from_event(event, project)
    # A long text takes longer to tokenise than other writers should wait.
    long_tokens = {turn.id: parts.analyser.tokens(turn.text) for turn in turns if len(turn.text) > _MAX_INLINE_CHARS}

    def write(tx: Tx) -> None:
        added = [turn for turn in turns if parts.turns(tx).add(turn, long_tokens.get(turn.id))]
        has_analysis = queue_turn_jobs(parts, tx, added)
        queue_last_reading(parts, tx, event)
        follow_event(parts, tx, event, transcript_seconds=AFTER_TRANSCRIPT_SECONDS)
        if event.kind in ("pre_compact", "session_end"):
            # The transcript is read shortly afterwards and may contain the last words.
            delay = AFTER_TRANSCRIPT_SECONDS if event.transcript else 0.0
            queue_digest(parts, tx, Session(host=event.host, id=event.session), delay=delay)
            queue_regrouping(parts.clock, tx, event.user or LOCAL_USER, project or None, delay=delay)
        if not turns:
            Events(tx).settle(event.id, "skipped", "it contains no text")
        elif not added:
            Events(tx).settle(event.id, "skipped", "its turns were already stored")
        elif not has_analysis:
            Events(tx).settle(event.id, "done")

    return JobResult(write=write)


def analyse(parts: Parts, payloads: Sequence[Payload]) -> list[JobResult]:
    """Extract memories from the user's turns."""
    turns = parts.readers.here(lambda tx: parts.turns(tx).get([payload["turn"] for payload in payloads]))
    found_ids = {turn.id for turn in turns}
    for payload in payloads:
        if payload["turn"] not in found_ids:
            raise NotFound(f"Turn {payload['turn']} is gone.")
    pending_vectors: understanding.PendingVectors = {}
    return [_analyse_turn(parts, reading, pending_vectors) for reading in understanding.read_turns(parts, turns)]


def _analyse_turn(
    parts: Parts, stated: understanding.Reading, pending_vectors: understanding.PendingVectors
) -> JobResult:
    turn, applied = stated.turn, list[tuple[Action, Vectors | None]]()
    readings = [stated.agreed, stated] if stated.agreed else [stated]

    def write(tx: Tx) -> None:
        applied[:] = [
            action_and_vectors
            for reading in readings
            for action_and_vectors in understanding.apply_reading(parts, tx, reading, pending_vectors)
        ]
        if applied:
            everywhere = any(item.statement.scope == "user" for item in stated.pending)
            payload: dict[str, object] = {"project": turn.scope.project, "everywhere": everywhere}
            dedupe = "brief:everywhere" if everywhere else f"brief:{turn.scope.project}"
            Jobs(tx).enqueue("brief", payload, dedupe=dedupe, at=parts.clock.now())
        if turn.event_id:
            Events(tx).settle(turn.event_id, "done")

    return JobResult(write=write, afterwards=lambda: understanding.update_index(parts, stated.vectors, applied))


def brief(parts: Parts, payload: Payload) -> JobResult:
    """Write the briefs again."""
    write_briefs(parts, payload["project"], everywhere=payload["everywhere"])
    return JobResult(write=lambda _: None)


def index_turn(parts: Parts, payloads: Sequence[Payload]) -> list[JobResult]:
    """Embed turns, window by window."""
    ids = [str(payload["turn"]) for payload in payloads]
    turns = parts.readers.here(lambda tx: parts.turns(tx).get(ids))
    owners = [Owner(kind="turn", id=turn.id, seq=0, group=turn.scope.project or "", text=turn.text) for turn in turns]
    return _index(parts, payloads, ids, owners)


def index_memory(parts: Parts, payloads: Sequence[Payload]) -> list[JobResult]:
    """Embed memories, window by window."""
    ids = [str(payload["memory"]) for payload in payloads]
    memories = parts.readers.here(lambda tx: parts.memories(tx).some(ids))
    live = [memories[id_] for id_ in ids if id_ in memories and memories[id_].state == "live"]
    owners = [
        Owner(kind="memory", id=memory.id, seq=0, group=understanding.group_of(memory), text=memory.text)
        for memory in live
    ]
    return _index(parts, payloads, ids, owners)


def _index(parts: Parts, payloads: Sequence[Payload], ids: Sequence[str], owners: Sequence[Owner]) -> list[JobResult]:
    """Return the results of these jobs up to the first whose owner was not embedded.

    An owner that is gone or complete gets an empty result.
    """
    vector_search = parts.vectors
    # No embedder can make vectors of this space, so a retry is useless; a later reindex finds what lacks vectors.
    pending = list[Owner]() if vector_search.is_lost else owners
    passes = (
        embed_next_windows(parts.readers, vector_search.embedder, vector_search.space.id, pending) if pending else []
    )
    windows_by_owner = {owner.id: windows for owner, windows in zip(pending, passes, strict=False)}
    unembedded = {owner.id for owner in pending} - windows_by_owner.keys()
    end = next((index for index, id_ in enumerate(ids) if id_ in unembedded), len(ids))
    return [
        _index_owner(parts, vector_search, payloads[index], windows_by_owner.get(ids[index])) for index in range(end)
    ]


def _index_owner(
    parts: Parts, vector_search: VectorSearch, payload: Payload, windows: EmbeddedWindows | None
) -> JobResult:
    if windows is None:
        return JobResult(write=lambda _: None)

    def write(tx: Tx) -> None:
        windows.write(tx, vector_search.space.id)
        if windows.owner.kind == "memory":
            queue_need_vectors(tx, vector_search, parts.clock.now())
        if not windows.first and windows.owner.kind == "turn":
            update_vector_for_prompt(tx, windows.owner.id, vector_search.space.id)

    return JobResult(
        write=write,
        afterwards=lambda: windows.add_to_index(parts, vector_search),
        again=lambda: payload if windows.first else None,
    )


HANDLERS: Mapping[str, Handler] = {
    "read_turns": Handler(prepare=read_events, max_together=_MAX_JOBS_TOGETHER),
    "reconcile": single(reconcile),
    "analyse": Handler(prepare=analyse, max_together=_MAX_JOBS_TOGETHER),
    "brief": single(brief),
    EXTRACT: single(extract),
    "digest": single(analyse_session),
    BRIDGE: single(update_bridges),
    REGROUP: single(regroup_threads),
    SYNTHESISE: single(synthesise),
    RECOUNT: single(recount),
    RECONSIDER: single(reconsider),
    RENAME: single(update_name),
    NAME_THREAD: single(request_name),
    "index_turn": Handler(prepare=index_turn, max_together=_MAX_JOBS_TOGETHER),
    "index_memory": Handler(prepare=index_memory, max_together=_MAX_JOBS_TOGETHER),
    PLACE: Handler(prepare=place_prompts, max_together=PROMPTS_TOGETHER),
    PLACE_EARLIER: single(place_earlier),
    VECTORS: single(compute_thread_vectors),
    GARDEN: single(run_next_step),
    "retokenise": single(retokenise),
    REINDEX: single(reindex_batch),
    CLEAR: single(clear),
    CALIBRATE: single(calibrate),
    RETAIN: single(retain),
    NEED_VECTORS_JOB: single(make_need_vectors),
    TRUNCATE_WAL: single(truncate_wal),
    BACKFILL: single(backfill),
}

EmbedderFactories = Mapping[str, Callable[[], Embedder]]

#: Workers for jobs that call models; with several, conversations are read in parallel.
_MODEL_WORKERS = 2
#: Seconds between two calls that return free RAM to the operating system.
_TRIM_SECONDS = 20.0


class Running(Struct, kw_only=True):
    """A running Filrouge: its services, workers, periodic tasks and warm-up thread."""

    parts: Parts
    workers: tuple[Worker, ...]
    periodic_tasks: tuple[PeriodicTask, ...]
    words: WordFeed
    warm_up_thread: Thread

    def warm_up(self) -> None:
        """Start the warm-up thread, which does the work that the first request does not wait for. Call it once."""
        self.warm_up_thread.start()

    def settings_changed(self) -> None:
        """Run now the periodic tasks whose interval depends on the settings."""
        for task in self.periodic_tasks:
            if task.has_varying_interval:
                task.wake()

    def stop(self) -> None:
        """Finish pending writes, release leased jobs and close the database."""
        self.parts.stopping.set()
        if self.warm_up_thread.ident is None:
            self.warm_up()
        self.warm_up_thread.join()  # it reads the database and starts the threads stopped below
        for task in self.periodic_tasks:
            task.stop()
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
    embedder_factories: EmbedderFactories | None = None,
    panel: BuildPanel | None = None,
    pace: ModelTimings | None = None,
    warm_up: bool = True,
) -> Running:
    """Open the store in `home` and start working.

    Args:
        embedder_factories: by the name of the embedder, instead of the registered ones.
        panel: builds the models named in the settings, instead of the real ones.
        pace: the timing of model calls.
        warm_up: load the indexes and start on the backlog now; if False, the caller calls `Running.warm_up`.

    Raises:
        StoreError: the database cannot be opened, is damaged, or is newer than this program.
    """
    environment = dict(os.environ if environ is None else environ)
    parts = build(
        home,
        environ=environment,
        clock=clock or SystemClock(),
        embedder_factories=embedder_factories,
        panel=panel,
        pace=pace,
    )
    worker_group = new_worker_group(parts.clock)
    model_workers = (
        Worker(parts, HANDLERS, lane=MODELS, worker_group=worker_group, number=number)
        for number in range(_MODEL_WORKERS)
    )
    workers = (Worker(parts, HANDLERS, worker_group=worker_group), *model_workers)
    forget_again_at_start(parts)
    write_hook_settings(parts)
    periodic_tasks = (
        spool_task(parts),
        PeriodicTask(
            _TRIM_SECONDS, trim_ram, name="allocator", failure_message="could not return free RAM to the system"
        ),
        idle_watch(parts),
        retention_watch(parts),
        garden_task(parts),
        backup_watch(parts),
        *vault_watches(parts),
        pages_watch(parts),
        team_watch(parts),
    )
    words = WordFeed(parts.words, parts.readers.here)
    parts.feed.start()
    if is_decision_log_enabled():
        parts.readers.here(parts.feed.join)
    warm_up_thread = Thread(
        target=_warm_up, args=(parts, workers, periodic_tasks, words), name="filrouge-warm-up", daemon=True
    )
    running = Running(
        parts=parts, workers=workers, periodic_tasks=periodic_tasks, words=words, warm_up_thread=warm_up_thread
    )
    if warm_up:
        running.warm_up()
    return running


def build(
    home: str,
    *,
    environ: Mapping[str, str],
    clock: Clock,
    embedder_factories: EmbedderFactories | None = None,
    panel: BuildPanel | None = None,
    pace: ModelTimings | None = None,
) -> Parts:
    """Open the store and build the services without starting any of them."""
    make_private(home)
    make_private(inside(home, SPOOL))
    path = inside(home, DATABASE)
    embedders = (
        _registered_embedders(home, environ) if embedder_factories is None else _given_embedders(embedder_factories)
    )
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
            vectors = initial_vector_search(tx, embedders, wanted_name(tx, home, environ), new_index)
    finally:
        database.close()
    text_analyser = analyser()
    bus = Bus()
    feed = Feed(bus, readers.here)
    writer = Writer(lambda: Database(path), feed.committed)
    word_files = WordFiles(inside(home, WORD_INDEXES), text_analyser.version) if is_tantivy_installed() else None
    return Parts(
        home=home,
        clock=clock,
        analyser=text_analyser,
        bridging=Bridging(text_analyser.terms),
        redact=redact_completely,
        writer=writer,
        readers=readers,
        vectors=vectors,
        embedders=embedders,
        words=LargeWords(word_files, text_analyser),
        new_index=new_index,
        models=Models(
            panel or panel_of,
            prompt,
            writer=writer,
            readers=readers,
            clock=clock,
            environ=environ,
            pace=pace or ModelTimings(),
        ),
        environ=environ,
        tombstones=TombstoneFilter(home),
        open_vault=Vaults(home),
        bus=bus,
        feed=feed,
    )


def analyser() -> Analyser:
    """Return the analyser that turns texts into the tokens that are indexed."""
    return TextAnalyser()


def load_indexes(parts: Parts) -> None:
    """Rebuild the in-memory vector indexes from the stored rows."""
    parts.readers.here(lambda tx: parts.vectors.fill(tx, parts.stopping))


def _warm_up(parts: Parts, workers: Sequence[Worker], periodic_tasks: Sequence[PeriodicTask], words: WordFeed) -> None:
    """Do the work that the first request does not wait for: load indexes, queue the backlog, start the workers."""
    words.start()
    disk.ensure_reserve(parts.home)
    inbox.reserve_record(parts.home)
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
        # A full disk or a damaged index must not stop the other steps.
        with logged(_LOG, "%s failed at the start", step.__name__):
            step(parts)
    parts.resumed.set()
    for worker in workers:
        worker.start()
    for task in periodic_tasks:
        task.start()


def stored_settings(path: str) -> dict[str, Any]:
    """Return the settings stored in a database, read on a separate connection.

    Raises:
        StoreError: the database cannot be read.
    """
    reader = Database(path, readonly=True)
    try:
        return dict(StoredSettings(reader.tx).all())
    finally:
        reader.close()


def _registered_embedders(home: str, environ: Mapping[str, str]) -> Embedders:
    def make(name: str) -> Embedder:
        settings = resolve(stored_settings(inside(home, DATABASE)), home=home, environ=environ).settings
        return CachingEmbedder(embedder_of(name, settings, environ))

    return Embedders(make, unconfigured_embedder_names)


def embedder_of(name: str, settings: Settings, environ: Mapping[str, str]) -> Embedder:
    """Return the registered embedder with that name, configured from the settings.

    Raises:
        BadConfig: there is no such embedder, or its options are invalid.
        EmbedderUnavailable: a package it needs is not installed.
    """
    options = EmbedderOptions(url=settings.embedding_url, dimensions=settings.embedding_dimensions, environ=environ)
    return create_embedder(name, options)


def _given_embedders(embedder_factories: EmbedderFactories) -> Embedders:
    def make(name: str) -> Embedder:
        if name not in embedder_factories:
            raise BadConfig(f"There is no embedder {name!r}; there are: {', '.join(sorted(embedder_factories))}.")
        return embedder_factories[name]()

    return Embedders(make, lambda: embedder_factories)
