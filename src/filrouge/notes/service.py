"""Indexes the vault's notes in the background, and searches them.

`Watch.scan` runs every second. It lists the files with their stamps, reads changed files (last written first) and
removes deleted ones. It stops after half a second and continues in the next run. While a new vault is being read, a
note written in the meantime is therefore still indexed within two seconds, and is found by its words. Vectors take
longer; a separate thread makes them, latest notes first. If the vault is unavailable, its rows stay, but no note is
shown until it is back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from filrouge.core.clock import monotonic, text_or_none, to_text
from filrouge.core.errors import NotFound, VaultUnavailable
from filrouge.core.protocols import Tx, Vault, Vector, Vectors
from filrouge.core.settings import Settings
from filrouge.erasure.tombstones import TombstoneFilter, Tombstones
from filrouge.memories.models import Filters
from filrouge.notes.models import CHANNEL, Chunk, Listing, Note, NoteHit, NotesFound
from filrouge.notes.pages import SUFFIX, chunks, folded
from filrouge.notes.repository import ReadState, ScanStatus, StoredChunk, StoredVault
from filrouge.providers.embedders import windows
from filrouge.runtime.executors import PeriodicTask
from filrouge.runtime.services import Parts
from filrouge.search.analyser import any_of
from filrouge.search.ranking import (
    USUAL_OKAPI,
    CollectionStatistics,
    WeightedQuestion,
    bm25,
    judge_relevance,
    softmax,
    standalone_features,
)
from filrouge.search.retrievers import MAX_QUERY_CHARACTERS
from filrouge.search.service import CANDIDATES_PER_RETRIEVER, Mode
from filrouge.search.weights import ALONE_MEANING, ALONE_WORDS

MAX_TAGGED: Final = 5
"""Maximum number of notes that the tag adds to a prompt."""
_CHECK_SECONDS: Final = 1.0
#: Interval without a vault. A setting changed through the daemon wakes the tasks; one in a file is read after it.
_IDLE_SECONDS: Final = 10.0
_EMBED_SECONDS: Final = 0.25
#: Time limit of one run of either task, and how many notes, chunks and deletions one transaction handles.
_WORK_SECONDS: Final = 0.5
_NOTES_PER_BATCH: Final = 16
_CHUNKS_PER_BATCH: Final = 8
_PATHS_PER_BATCH: Final = 100
#: Version of the chunking. A change makes every note be read again.
_CHUNKING_VERSION: Final = 1
_MAX_PROBLEMS: Final = 50
#: A note of more chunks is previewed by its first ones.
_MAX_PREVIEWED: Final = 200


def vault_watches(parts: Parts) -> tuple[PeriodicTask, PeriodicTask]:
    """Return the periodic tasks that index the vault and embed its chunks."""
    watch = Watch(parts)

    def scan() -> None:
        was_idle = watch.is_idle
        watch.scan()
        if was_idle and not watch.is_idle:
            vectors.wake()

    def interval(seconds: float) -> float:
        return _IDLE_SECONDS if watch.is_idle else seconds

    failed = "the notes could not be embedded"
    vectors = PeriodicTask(lambda: interval(_EMBED_SECONDS), watch.embed, name="vault-vectors", failure_message=failed)
    failed = "the vault could not be scanned"
    return PeriodicTask(lambda: interval(_CHECK_SECONDS), scan, name="vault", failure_message=failed), vectors


class _PreparedNote(Struct, frozen=True, kw_only=True):
    """A note to index.

    Attributes:
        note: the note, with secrets removed.
        chunks: its chunks; empty if its content is unchanged.
        is_unchanged: its content is unchanged since it was last read.
    """

    note: Note
    chunks: Sequence[Chunk]
    is_unchanged: bool


class Watch:
    """Keeps the index of notes up to date. `scan` and `embed` run periodically.

    Attributes:
        is_idle: no vault is set.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._version = f"{_CHUNKING_VERSION}.{parts.analyser.version}:"
        self.is_idle = False

    def scan(self) -> None:
        """Index changed notes, for half a second at most."""
        parts, until = self._parts, monotonic() + _WORK_SECONDS
        folder = parts.readers.here(lambda tx: parts.settings(tx)).notes_folder
        known = parts.readers.here(lambda tx: StoredVault(tx).known())
        self.is_idle = not folder
        if not folder:
            self._drop(list(known))
            parts.vault.scanned = ScanStatus()
            return
        vault = parts.open_vault(folder)
        try:
            listing = vault.list()
        except VaultUnavailable as error:
            parts.vault.scanned = ScanStatus(folder=folder, at=parts.clock.now(), problem=error.message)
            return
        self._drop([path for path in known if path not in listing.stamps])
        scanned = self._index_changes(vault, listing, known, until)
        parts.vault.scanned = replace(scanned, folder=folder)

    def _index_changes(self, vault: Vault, listing: Listing, known: dict[str, ReadState], until: float) -> ScanStatus:
        """Read and index changed notes until the deadline `until`."""
        problems = dict(listing.problems)
        due = [path for path, stamp in listing.stamps.items() if self._is_due(known.get(path), stamp)]
        forgotten_paths = self._forgotten_paths([path for path in due if path not in known])
        due = [path for path in due if path not in forgotten_paths]
        while due and monotonic() < until and not self._parts.stopping.is_set():
            batch, due = due[:_NOTES_PER_BATCH], due[_NOTES_PER_BATCH:]
            prepared, unreadable = list[_PreparedNote](), list[str]()
            for path in batch:
                try:
                    prepared.append(self._read(vault.read(path), known.get(path)))
                except NotFound:  # deleted, or being written; the next run decides
                    continue
                except VaultUnavailable as error:
                    problems[path] = error.message
                    unreadable.append(path)
            self._write(prepared)
            self._drop([path for path in unreadable if path in known])
        return ScanStatus(at=self._parts.clock.now(), problems=problems, waiting=len(due))

    def _is_due(self, state: ReadState | None, stamp: str) -> bool:
        return state is None or state.stamp != self._version + stamp

    def _read(self, note: Note, state: ReadState | None) -> _PreparedNote:
        """Remove secrets from a note and cut it into chunks."""
        is_unchanged = state is not None and state.hash == note.hash and state.stamp.startswith(self._version)
        redacted = note if is_unchanged else replace(note, text=self._parts.redact(note.text))
        return _PreparedNote(note=redacted, chunks=() if is_unchanged else chunks(redacted), is_unchanged=is_unchanged)

    def _write(self, prepared_notes: Sequence[_PreparedNote]) -> None:
        """Index notes, without chunks that were forgotten."""
        if not prepared_notes:
            return

        def write(tx: Tx) -> None:
            store = StoredVault(tx)
            for prepared in prepared_notes:
                stamp = self._version + prepared.note.stamp
                if prepared.is_unchanged:
                    store.touch(prepared.note.path, stamp, prepared.note.changed)
                else:
                    forgotten = forgotten_texts(self._parts.tombstones, tx, [chunk.text for chunk in prepared.chunks])
                    remaining = [chunk for chunk in prepared.chunks if chunk.text not in forgotten]
                    store.put(prepared.note, remaining, stamp, self._parts.analyser)

        self._parts.writer.run_patient(write)
        self._parts.vault.changed()

    def _drop(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), _PATHS_PER_BATCH):
            batch = paths[start : start + _PATHS_PER_BATCH]
            self._parts.writer.run_patient(lambda tx, batch_=batch: StoredVault(tx).drop(batch_))
            self._parts.vault.changed()

    def _forgotten_paths(self, paths: Sequence[str]) -> frozenset[str]:
        """Return those of these notes whose paths were forgotten."""
        return (
            self._parts.readers.here(lambda tx: forgotten_texts(self._parts.tombstones, tx, paths))
            if paths
            else frozenset()
        )

    def embed(self) -> None:
        """Embed chunks without a vector in the current space, for half a second at most."""
        parts, until = self._parts, monotonic() + _WORK_SECONDS
        vector_search = parts.vectors
        space_id = vector_search.space.id
        is_complete = False
        while not vector_search.is_lost and monotonic() < until and not parts.stopping.is_set():
            waiting = parts.readers.here(lambda tx: StoredVault(tx).missing(space_id, _CHUNKS_PER_BATCH))
            texts = {seq: windows(text) for seq, text in waiting}
            embedded = (
                vector_search.passages([window for texts_of_chunk in texts.values() for window in texts_of_chunk])
                if texts
                else None
            )
            if embedded is None:
                is_complete = not texts
                break
            window_vectors, start = dict[int, Vectors](), 0
            for seq, texts_of_chunk in texts.items():
                window_vectors[seq] = embedded[start : start + len(texts_of_chunk)]
                start += len(texts_of_chunk)
            parts.writer.run_patient(lambda tx, batch=window_vectors: StoredVault(tx).embed(space_id, batch))
            parts.vault.changed()
        if parts.vault.scanned.is_there:
            parts.vault.learn_question_mean(vector_search)
        parts.readers.here(
            lambda tx: parts.vault.load(tx, vector_search.space, is_complete=is_complete)
        )  # load here, so that no query has to wait


def vault_status(parts: Parts, tx: Tx) -> dict[str, Any]:
    """Describe the state of the vault: what is indexed, what goes into prompts, and what could not be read."""
    settings, scanned, store = parts.settings(tx), parts.vault.scanned, StoredVault(tx)
    counts = store.counts()
    problems = dict(scanned.problems) | store.problems(_MAX_PROBLEMS)
    return {
        "folder": settings.notes_folder,
        "enabled": settings.notes_enabled,
        "is_there": scanned.is_there,
        "problem": scanned.problem,
        "looked_at": text_or_none(scanned.at),
        "notes": counts.notes,
        "chunks": counts.chunks,
        "embedded": min(counts.chunks, parts.vault.embedded(tx, parts.vectors.space)),
        "waiting": scanned.waiting,
        "tag": settings.notes_tag,
        "tagged": store.tagged(folded(settings.notes_tag), MAX_TAGGED),
        "fixed": [
            {"path": path, "found": path in known} for known in [store.known()] for path in pinned_notes(settings)
        ],
        "troubles": [{"path": path, "trouble": problems[path]} for path in sorted(problems)[:_MAX_PROBLEMS]],
        "written": {
            "folder": settings.notes_write_folder,
            "problem": _missing_vault(settings) or parts.vault.written.problem,
            "pages": parts.vault.written.pages,
            "memories": parts.vault.written.memories,
            "troubles": [
                {"path": path, "memory_id": memory, "trouble": reason}
                for path, memory, reason in parts.vault.written.problems
            ],
        },
    }


def preview_note(parts: Parts, tx: Tx, path: str) -> dict[str, Any]:
    """Return a note as it is indexed: the text that searches find, without secrets and without what was forgotten.

    Raises:
        NotFound: the path is not in the index.
        VaultUnavailable: the vault cannot be read; then none of its notes is shown.
    """
    scanned = parts.vault.scanned
    if scanned.problem and not scanned.is_there:
        raise VaultUnavailable(scanned.problem)
    found = StoredVault(tx).preview(path, _MAX_PREVIEWED) if scanned.is_there else None
    if found is None:
        raise NotFound(f"There is no note {path!r} in the index.", remedy="Give its path within the vault.")
    return {
        "path": found.path,
        "title": found.path.rpartition("/")[2].removesuffix(SUFFIX),
        "changed_at": to_text(found.changed),
        "tags": list(found.tags),
        "chunks": [{"part": chunk.part, "heading": chunk.heading, "text": chunk.text} for chunk in found.chunks],
    }


def _missing_vault(settings: Settings) -> str:
    return (
        "no vault is set: see the setting notes_folder"
        if settings.notes_write_folder and not settings.notes_folder
        else ""
    )


def pinned_notes(settings: Settings) -> list[str]:
    """Return the paths of the notes that are always added to prompts, each once; `.md` is optional in the setting."""
    named = [path.strip().strip("/") for path in settings.notes_paths]
    return list(dict.fromkeys(path if path.endswith(".md") else f"{path}.md" for path in named if path))


def forgotten_texts(tombstones: TombstoneFilter, tx: Tx, texts: Sequence[str]) -> frozenset[str]:
    """Return those of these texts that were forgotten and must not be stored again in the same words."""
    hasher = tombstones.hasher
    if hasher is None or not Tombstones(tx).any():
        return frozenset()
    hashes = {text: hasher.text(text) for text in texts}
    forgotten = Tombstones(tx).of(hashes.values())
    return frozenset(text for text, hash_ in hashes.items() if hash_ in forgotten)


# Search by the words and the vectors of chunks, with the same relevance model as for memories. Each note is shown once,
# with its best chunk. Notes belong to every project.

_ALPHA: Final[Mapping[Mode, float]] = {"text": 0.0, "semantic": 1.0, "hybrid": 0.5}
#: A note with a lower relevance is not merged into other results.
MIN_MERGE_RELEVANCE: Final = 0.5


def search_notes(parts: Parts, tx: Tx, text: str, *, mode: Mode = "hybrid", limit: int = 10) -> NotesFound:
    """Return the notes for a query, best first; empty if no vault is set or it is unavailable."""
    counts = StoredVault(tx).counts() if parts.vault.scanned.is_there else None
    if counts is None or not counts.chunks:
        return NotesFound()
    query = text[:MAX_QUERY_CHARACTERS]
    vector, notices = parts.vectors.question(query) if mode != "text" else (None, ())
    search = _Search(parts, tx, query, vector, counts.chunks)
    hits, known = search.ranked(_ALPHA[mode])
    best = dict[str, NoteHit]()
    for hit in hits:
        best.setdefault(hit.path, hit)
    return NotesFound(hits=tuple(best.values())[:limit], notices=notices, known=known)


class _Search:
    """The candidate chunks for one query, and their features."""

    def __init__(self, parts: Parts, tx: Tx, text: str, vector: Vector | None, rows: int) -> None:
        self._parts, self._vector, self._rows = parts, vector, rows
        self._terms = parts.analyser.terms(text)
        store = StoredVault(tx)
        self._frequencies = store.frequencies([form for forms in self._terms for form in forms])
        match = any_of(self._terms)
        self._matching = store.best(match, CANDIDATES_PER_RETRIEVER) if match else []
        space = parts.vectors.space
        self._nearest = parts.vault.nearest(tx, space, vector, CANDIDATES_PER_RETRIEVER) if vector is not None else {}
        stored_chunks = store.chunks({*self._matching, *self._nearest})
        self._chunks = {str(stored.seq): stored for stored in stored_chunks}
        self._tokens = {id_: stored.tokens.split() for id_, stored in self._chunks.items()}

    def ranked(self, alpha: float) -> tuple[list[NoteHit], float]:
        """Return the hits, best first, and the probability that the vault holds anything about the query.

        The word score is the share of the query that a chunk covers, and the vector score is relative to the nearest
        chunk. So a few common words that a hundred notes contain do not outweigh the topic of the query.
        """
        alpha = alpha if self._vector is not None else 0.0
        question = WeightedQuestion(self._terms, self._frequencies, self._rows)
        matched = {id_: question.matched(frozenset(tokens)) for id_, tokens in self._tokens.items()}
        word_scores = {id_: question.covered(terms) if alpha < 1 else 0.0 for id_, terms in matched.items()}
        bm25_scores = _normalise(self._bm25_scores()) if alpha < 1 else {}
        vector_scores = _normalise(
            {str(seq): similarity.whitened for seq, similarity in self._nearest.items() if str(seq) in self._chunks}
        )
        scores = {id_: (1 - alpha) * word_scores[id_] + alpha * vector_scores.get(id_, 0.0) for id_ in self._chunks}
        ordered = sorted(
            (id_ for id_, score in scores.items() if score > 0),
            key=lambda id_: (-round(scores[id_], 9), -bm25_scores.get(id_, 0.0), int(id_)),
        )
        space = self._parts.vectors.space
        similarities = {
            str(seq): space.calibrated_to_question(similarity.cosine) for seq, similarity in self._nearest.items()
        }
        share_of_best = softmax(
            [ALONE_WORDS * bm25_scores.get(id_, 0.0) + ALONE_MEANING * vector_scores.get(id_, 0.0) for id_ in ordered]
        )
        features = [
            standalone_features(question, matched[id_], similarity=similarities.get(id_), share=share)
            for id_, share in zip(ordered, share_of_best, strict=True)
        ]
        by_meaning = self._vector is not None and space.is_measured
        relevances, known = judge_relevance(
            question, features, [matched[id_] for id_ in ordered], by_meaning=by_meaning
        )
        hits = [
            _note_hit(
                self._chunks[id_],
                bm25_score=bm25_scores.get(id_, 0.0),
                vector_score=vector_scores.get(id_, 0.0),
                score=scores[id_],
                similarity=similarities.get(id_),
                coverage=feature.covered,
                relevance=relevance,
                boosts=(("words", (1 - alpha) * word_scores[id_]), ("meaning", alpha * vector_scores.get(id_, 0.0))),
            )
            for id_, feature, relevance in zip(ordered, features, relevances, strict=True)
        ]
        return hits, known

    def _bm25_scores(self) -> dict[str, float]:
        total_length = sum(map(len, self._tokens.values()))
        mean = total_length / len(self._tokens) if self._tokens else 0.0
        collection = CollectionStatistics(rows=self._rows, mean=mean, frequencies=Counter(self._frequencies))
        scores = bm25(self._terms, self._tokens, collection, USUAL_OKAPI)
        return {id_: score for id_, score in scores.items() if score > 0}


def hit_json(hit: NoteHit) -> dict[str, Any]:
    """Return a note in the form of other search results."""
    return {
        "id": hit.path,
        "content": hit.text,
        "channel": CHANNEL,
        "type": "note",
        "role": None,
        "project": None,
        "project_name": "",
        "created_at": to_text(hit.changed),
        **hit.explain(),
    }


def merge_notes(
    parts: Parts,
    tx: Tx,
    text: str,
    found: Sequence[dict[str, Any]],
    *,
    mode: Mode,
    limit: int,
    filters: Filters,
    min_relevance: float = MIN_MERGE_RELEVANCE,
) -> tuple[list[dict[str, Any]], NotesFound]:
    """Merge relevant notes into results: each is inserted before the first result with a lower relevance.

    If any filter is set, notes are not searched.
    """
    if filters.narrow:
        return list(found), NotesFound()
    notes = search_notes(parts, tx, text, mode=mode, limit=limit)
    relevant = [hit for hit in notes.hits if hit.relevance >= max(min_relevance, MIN_MERGE_RELEVANCE)]
    merged = list(found)
    for hit in relevant:
        index = next(
            (position for position, result in enumerate(merged) if result["relevance"] < hit.relevance), len(merged)
        )
        merged.insert(index, hit_json(hit))
    return merged[:limit], notes if relevant else NotesFound()


def _normalise(scores: Mapping[str, float]) -> dict[str, float]:
    """Scale scores to shares of the best; scores below zero become zero."""
    best = max(scores.values(), default=0.0)
    return {id_: max(0.0, score) / best for id_, score in scores.items()} if best > 0 else {}


def _note_hit(stored: StoredChunk, **scores: Any) -> NoteHit:
    chunk = stored.chunk
    return NoteHit(
        path=chunk.path, part=chunk.part, heading=chunk.heading, text=chunk.text, changed=stored.changed, **scores
    )
