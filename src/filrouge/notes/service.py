"""Indexes the vault's notes in the background, and searches them.

`Watch.look` runs every second. It lists the files with their stamps, reads changed files (last written first) and
removes deleted ones. It stops after half a second and continues in the next run. While a new vault is being read, a
note written in the meantime is therefore still indexed within two seconds, and is found by its words. Vectors take
longer; a thread of its own makes them, latest notes first. If the vault is unavailable, its rows stay, but no note is
shown until it is back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from filrouge.core.clock import monotonic, text_or_none, to_text
from filrouge.core.errors import NotFound, VaultUnavailable
from filrouge.core.protocols import Tx, Vault, Vector, Vectors
from filrouge.core.settings import Settings
from filrouge.erasure.tombstones import Tombstones
from filrouge.memories.models import Filters
from filrouge.notes.models import CHANNEL, Chunk, Listing, Note, NoteHit, NotesFound
from filrouge.notes.pages import chunks, folded
from filrouge.notes.repository import ScanStatus, Seen, StoredChunk, StoredVault
from filrouge.providers.embedders import windows
from filrouge.runtime.executors import PeriodicTask
from filrouge.runtime.services import Parts
from filrouge.search.analyser import any_of
from filrouge.search.ranking import (
    OKAPI,
    Collection,
    WeightedQuestion,
    bm25,
    judge_relevance,
    softmax,
    standalone_features,
)
from filrouge.search.service import CANDIDATES_PER_RETRIEVER, MAX_QUERY_CHARACTERS, Mode
from filrouge.search.weights import ALONE_MEANING, ALONE_WORDS

MOST_TAGGED: Final = 5
"""Limit of notes that the tag adds to a prompt."""
_LOOK_SECONDS: Final = 1.0
#: Without a vault. A setting changed through the daemon wakes the tasks; one in a file is seen after this time.
_IDLE_SECONDS: Final = 10.0
_REST_SECONDS: Final = 0.25
#: Time limit of one run of either task, and how many notes, chunks and deletions one transaction handles.
_WORK_SECONDS: Final = 0.5
_NOTES_AT_ONCE: Final = 16
_CHUNKS_AT_ONCE: Final = 8
_DROPPED_AT_ONCE: Final = 100
#: Version of the chunking. A change makes every note be read again.
_CHUNKING_VERSION: Final = 1
_TROUBLES_SHOWN: Final = 50


def vault_watches(parts: Parts) -> tuple[PeriodicTask, PeriodicTask]:
    """Return the periodic tasks that index the vault and embed its chunks."""
    watch = Watch(parts)

    def look() -> None:
        was_idle = watch.is_idle
        watch.look()
        if was_idle and not watch.is_idle:
            vectors.wake()

    def rest(seconds: float) -> float:
        return _IDLE_SECONDS if watch.is_idle else seconds

    failed = "the notes could not be embedded"
    vectors = PeriodicTask(lambda: rest(_REST_SECONDS), watch.embed, name="vault-vectors", failure_message=failed)
    failed = "the vault could not be scanned"
    return PeriodicTask(lambda: rest(_LOOK_SECONDS), look, name="vault", failure_message=failed), vectors


@dataclass(frozen=True, kw_only=True, slots=True)
class _Read:
    """A note to index.

    Attributes:
        note: the note, with secrets removed.
        chunks: its chunks; empty if its content is unchanged.
        is_same: its content is unchanged.
    """

    note: Note
    chunks: Sequence[Chunk]
    is_same: bool


class Watch:
    """Keeps the index of notes up to date. `look` and `embed` run periodically.

    Attributes:
        is_idle: no vault is set.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._version = f"{_CHUNKING_VERSION}.{parts.analyser.version}:"
        self.is_idle = False

    def look(self) -> None:
        """Index what changed, for half a second at most."""
        parts, until = self._parts, monotonic() + _WORK_SECONDS
        folder = parts.readers.here(lambda tx: parts.settings(tx)).notes_folder
        known = parts.readers.here(lambda tx: StoredVault(tx).known())
        self.is_idle = not folder
        if not folder:
            self._drop(list(known))
            parts.vault.looked = ScanStatus()
            return
        vault = parts.open_vault(folder)
        try:
            listing = vault.list()
        except VaultUnavailable as error:
            parts.vault.looked = ScanStatus(folder=folder, at=parts.clock.now(), problem=error.message)
            return
        self._drop([path for path in known if path not in listing.stamps])
        looked = self._take_in(vault, listing, known, until)
        parts.vault.looked = replace(looked, folder=folder)

    def _take_in(self, vault: Vault, listing: Listing, known: dict[str, Seen], until: float) -> ScanStatus:
        """Read and index changed notes until the time is over."""
        troubles = dict(listing.troubles)
        due = [path for path, stamp in listing.stamps.items() if self._is_due(known.get(path), stamp)]
        buried = self._buried([path for path in due if path not in known])
        due = [path for path in due if path not in buried]
        while due and monotonic() < until and not self._parts.stopping.is_set():
            step, due = due[:_NOTES_AT_ONCE], due[_NOTES_AT_ONCE:]
            read, unreadable = list[_Read](), list[str]()
            for path in step:
                try:
                    read.append(self._read(vault.read(path), known.get(path)))
                except NotFound:  # deleted, or being written; the next run decides
                    continue
                except VaultUnavailable as error:
                    troubles[path] = error.message
                    unreadable.append(path)
            self._write(read)
            self._drop([path for path in unreadable if path in known])
        return ScanStatus(at=self._parts.clock.now(), troubles=troubles, waiting=len(due))

    def _is_due(self, seen: Seen | None, stamp: str) -> bool:
        return seen is None or seen.stamp != self._version + stamp

    def _read(self, note: Note, seen: Seen | None) -> _Read:
        """Remove secrets from a note and cut it into chunks."""
        is_same = seen is not None and seen.hash == note.hash and seen.stamp.startswith(self._version)
        clean = note if is_same else replace(note, text=self._parts.redact(note.text))
        return _Read(note=clean, chunks=() if is_same else chunks(clean), is_same=is_same)

    def _write(self, read: Sequence[_Read]) -> None:
        """Index notes, without chunks that were forgotten."""
        if not read:
            return

        def write(tx: Tx) -> None:
            store = StoredVault(tx)
            for one in read:
                stamp = self._version + one.note.stamp
                if one.is_same:
                    store.touch(one.note.path, stamp, one.note.changed)
                else:
                    gone = forgotten(self._parts, tx, [chunk.text for chunk in one.chunks])
                    left = [chunk for chunk in one.chunks if chunk.text not in gone]
                    store.put(one.note, left, stamp, self._parts.analyser)

        self._parts.writer.run_patient(write)
        self._parts.vault.changed()

    def _drop(self, paths: Sequence[str]) -> None:
        for begin in range(0, len(paths), _DROPPED_AT_ONCE):
            step = paths[begin : begin + _DROPPED_AT_ONCE]
            self._parts.writer.run_patient(lambda tx, gone=step: StoredVault(tx).drop(gone))
            self._parts.vault.changed()

    def _buried(self, paths: Sequence[str]) -> frozenset[str]:
        """Return those of these notes whose paths were forgotten."""
        return self._parts.readers.here(lambda tx: forgotten(self._parts, tx, paths)) if paths else frozenset()

    def embed(self) -> None:
        """Embed chunks without a vector in the current space, for half a second at most."""
        parts, until = self._parts, monotonic() + _WORK_SECONDS
        meaning = parts.vectors
        space_id = meaning.space.id
        is_whole = False
        while not meaning.is_lost and monotonic() < until and not parts.stopping.is_set():
            waiting = parts.readers.here(lambda tx: StoredVault(tx).missing(space_id, _CHUNKS_AT_ONCE))
            texts = {seq: windows(text) for seq, text in waiting}
            found = meaning.passages([one for own in texts.values() for one in own]) if texts else None
            if found is None:
                is_whole = not texts
                break
            vectors, begin = dict[int, Vectors](), 0
            for seq, own in texts.items():
                vectors[seq] = found[begin : begin + len(own)]
                begin += len(own)
            parts.writer.run_patient(lambda tx, made=vectors: StoredVault(tx).embed(space_id, made))
            parts.vault.changed()
        if parts.vault.looked.is_there:
            parts.vault.learn(meaning)
        parts.readers.here(
            lambda tx: parts.vault.load(tx, meaning.space, is_whole=is_whole)
        )  # load here, so that no query has to wait


def vault_status(parts: Parts, tx: Tx) -> dict[str, Any]:
    """Describe the state of the vault: what is indexed, what goes into prompts, and what could not be read."""
    settings, looked, store = parts.settings(tx), parts.vault.looked, StoredVault(tx)
    counts = store.counts()
    troubles = dict(looked.troubles) | store.troubles(_TROUBLES_SHOWN)
    return {
        "folder": settings.notes_folder,
        "enabled": settings.notes_enabled,
        "is_there": looked.is_there,
        "problem": looked.problem,
        "looked_at": text_or_none(looked.at),
        "notes": counts.notes,
        "chunks": counts.chunks,
        "embedded": min(counts.chunks, parts.vault.embedded(tx, parts.vectors.space)),
        "waiting": looked.waiting,
        "tag": settings.notes_tag,
        "tagged": store.tagged(folded(settings.notes_tag), MOST_TAGGED),
        "fixed": [
            {"path": path, "found": path in known} for known in [store.known()] for path in pinned_notes(settings)
        ],
        "troubles": [{"path": path, "trouble": troubles[path]} for path in sorted(troubles)[:_TROUBLES_SHOWN]],
        "written": {
            "folder": settings.notes_write_folder,
            "problem": _unwritten(settings) or parts.vault.written.problem,
            "pages": parts.vault.written.pages,
            "memories": parts.vault.written.memories,
            "troubles": [
                {"path": path, "memory_id": memory, "trouble": why}
                for path, memory, why in parts.vault.written.troubles
            ],
        },
    }


def _unwritten(settings: Settings) -> str:
    return (
        "no vault is set: see the setting notes_folder"
        if settings.notes_write_folder and not settings.notes_folder
        else ""
    )


def pinned_notes(settings: Settings) -> list[str]:
    """Return the paths of the notes that are always added to prompts, each once; `.md` is optional in the setting."""
    named = [path.strip().strip("/") for path in settings.notes_paths]
    return list(dict.fromkeys(path if path.endswith(".md") else f"{path}.md" for path in named if path))


def forgotten(parts: Parts, tx: Tx, texts: Sequence[str]) -> frozenset[str]:
    """Return those of these texts that were forgotten and must not be stored again in the same words."""
    stones = parts.tombstones.stones
    if stones is None or not Tombstones(tx).any():
        return frozenset()
    hashes = {text: stones.text(text) for text in texts}
    buried = Tombstones(tx).of(hashes.values())
    return frozenset(text for text, one in hashes.items() if one in buried)


# Search by the words and the vectors of chunks, with the same relevance model as for memories. Each note is shown once,
# with its best chunk. Notes belong to every project.

_ALPHA: Final[Mapping[Mode, float]] = {"text": 0.0, "semantic": 1.0, "hybrid": 0.5}
#: Least relevance at which a note is merged into other results.
MIN_MERGE_RELEVANCE: Final = 0.5


def search_notes(parts: Parts, tx: Tx, text: str, *, mode: Mode = "hybrid", limit: int = 10) -> NotesFound:
    """Return the notes for a query, best first; empty if no vault is set or it is unavailable."""
    counts = StoredVault(tx).counts() if parts.vault.looked.is_there else None
    if counts is None or not counts.chunks:
        return NotesFound()
    asked = text[:MAX_QUERY_CHARACTERS]
    vector, notices = parts.vectors.question(asked) if mode != "text" else (None, ())
    search = _Search(parts, tx, asked, vector, counts.chunks)
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
        self._worded = store.best(match, CANDIDATES_PER_RETRIEVER) if match else []
        space = parts.vectors.space
        self._near = parts.vault.nearest(tx, space, vector, CANDIDATES_PER_RETRIEVER) if vector is not None else {}
        found = store.chunks({*self._worded, *self._near})
        self._chunks = {str(one.seq): one for one in found}
        self._tokens = {id_: one.tokens.split() for id_, one in self._chunks.items()}

    def ranked(self, alpha: float) -> tuple[list[NoteHit], float]:
        """Return the hits, best first, and the probability that the vault holds anything about the query.

        The word score is the share of the query that a chunk covers, and the vector score is relative to the nearest
        chunk. So a few common words that a hundred notes contain do not outweigh the topic of the query.
        """
        alpha = alpha if self._vector is not None else 0.0
        questioned = WeightedQuestion(self._terms, self._frequencies, self._rows)
        matched = {id_: questioned.matched(frozenset(tokens)) for id_, tokens in self._tokens.items()}
        words = {id_: questioned.covered(found) if alpha < 1 else 0.0 for id_, found in matched.items()}
        lexical = _normalised(self._lexical()) if alpha < 1 else {}
        meaning = _normalised({str(seq): one.above for seq, one in self._near.items() if str(seq) in self._chunks})
        scores = {id_: (1 - alpha) * words[id_] + alpha * meaning.get(id_, 0.0) for id_ in self._chunks}
        ordered = sorted(
            (id_ for id_, score in scores.items() if score > 0),
            key=lambda id_: (-round(scores[id_], 9), -lexical.get(id_, 0.0), int(id_)),
        )
        space = self._parts.vectors.space
        near = {str(seq): space.calibrated_to_question(one.cosine) for seq, one in self._near.items()}
        parts = softmax(
            [ALONE_WORDS * lexical.get(id_, 0.0) + ALONE_MEANING * meaning.get(id_, 0.0) for id_ in ordered]
        )
        signs = [
            standalone_features(questioned, matched[id_], similarity=near.get(id_), share=part)
            for id_, part in zip(ordered, parts, strict=True)
        ]
        by_meaning = self._vector is not None and space.is_measured
        chances, known = judge_relevance(questioned, signs, [matched[id_] for id_ in ordered], by_meaning=by_meaning)
        hits = [
            _hit(
                self._chunks[id_],
                bm25_score=lexical.get(id_, 0.0),
                vector_score=meaning.get(id_, 0.0),
                score=scores[id_],
                similarity=near.get(id_),
                coverage=sign.covered,
                relevance=chance,
                boosts=(("words", (1 - alpha) * words[id_]), ("meaning", alpha * meaning.get(id_, 0.0))),
            )
            for id_, sign, chance in zip(ordered, signs, chances, strict=True)
        ]
        return hits, known

    def _lexical(self) -> dict[str, float]:
        lengths = sum(map(len, self._tokens.values()))
        mean = lengths / len(self._tokens) if self._tokens else 0.0
        collection = Collection(rows=self._rows, mean=mean, frequencies=Counter(self._frequencies))
        scores = bm25(self._terms, self._tokens, collection, OKAPI)
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
    least: float = MIN_MERGE_RELEVANCE,
) -> tuple[list[dict[str, Any]], NotesFound]:
    """Merge relevant notes into results: each is inserted before the first result with a lower relevance.

    If any filter is set, notes are not searched.
    """
    if filters.narrow:
        return list(found), NotesFound()
    notes = search_notes(parts, tx, text, mode=mode, limit=limit)
    bearing = [hit for hit in notes.hits if hit.relevance >= max(least, MIN_MERGE_RELEVANCE)]
    merged = list(found)
    for hit in bearing:
        place = next((n for n, one in enumerate(merged) if one["relevance"] < hit.relevance), len(merged))
        merged.insert(place, hit_json(hit))
    return merged[:limit], notes if bearing else NotesFound()


def _normalised(scores: Mapping[str, float]) -> dict[str, float]:
    """Scale scores to shares of the best; scores below zero become zero."""
    best = max(scores.values(), default=0.0)
    return {id_: max(0.0, score) / best for id_, score in scores.items()} if best > 0 else {}


def _hit(stored: StoredChunk, **scores: Any) -> NoteHit:
    chunk = stored.chunk
    return NoteHit(
        path=chunk.path, part=chunk.part, heading=chunk.heading, text=chunk.text, changed=stored.changed, **scores
    )
