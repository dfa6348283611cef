"""Forgetting: preview, delete, verify, write a receipt; and replaying tombstones on an older database.

A preview lists every row that would change and returns a token, an HMAC over the request and those rows. `forget` takes
the token and raises `Stale` if any of the rows changed. It deletes the rows in one transaction. Then it cleans indexes,
caches, files and backups, searches them all for the forgotten text, and completes the receipt. The request and the
deleted texts are never stored; they stay in memory until that search is done.

When an older database is put back, its table of tombstones is older too, but the file beside it is not. A restore
replays the tombstones on its copy before the copy replaces the database. A database that was put back by hand is
compared at every start: a tombstone found only in the file is newer than the database. Rows are matched by id, host key
and text, and forgotten again with everything that depends on them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture import inbox
from filrouge.capture.service import drain_spool
from filrouge.context.hook_files import write_briefs
from filrouge.core.clock import from_text, monotonic, new_id
from filrouge.core.errors import BadInput, Busy, CannotWrite, FilrougeError, NotFound, Stale, StoreError
from filrouge.core.paths import DATABASE, FAILURE, LOG, SPOOL, inside
from filrouge.core.protocols import Analyser, Tx
from filrouge.erasure.models import (
    MAX_RELATED,
    MIN_RELEVANCE,
    NOT_PROMISED,
    AffectedRow,
    Preview,
    Receipt,
    count_effects,
)
from filrouge.erasure.old_backups import Removal, SweepResult, affected_backups, rewritten_files, sweep
from filrouge.erasure.repository import (
    ErasedIds,
    EraseRepository,
    ForgetPlan,
    ForgetRepository,
    Receipts,
    RowIds,
    carry_out,
    describe_rebuilding,
    is_signature_valid,
    tombstones_of,
)
from filrouge.erasure.tombstones import HomeKey, Tombstone, TombstoneFile, TombstoneFilter, TombstoneHasher, Tombstones
from filrouge.extraction.repository import Analyses
from filrouge.extraction.sessions import queue_digest
from filrouge.memories.models import contains_any, normalised
from filrouge.notes.service import search_notes
from filrouge.runtime import journal
from filrouge.runtime.disk import with_reserve
from filrouge.runtime.executors import ReaderPool, Writer
from filrouge.runtime.jobs import JobResult, Jobs, Payload
from filrouge.runtime.services import Parts, StoreContext
from filrouge.runtime.sqlite import Database, read_raw
from filrouge.search.repository import Spaces
from filrouge.search.service import Question, recall, search_turns
from filrouge.threads.reports import forget_names
from filrouge.threads.repository import Syntheses, ThreadErasing, Threads
from filrouge.threads.synthesis_service import queue_synthesis
from filrouge.threads.upkeep import refresh_names_and_vectors

# Cleaning and searching the other files of the home.

#: Folders that contain no user text.
_FOLDERS_WITHOUT_USER_TEXT: Final = ("models",)
#: A long text is searched by its first and last characters, because a database splits it over pages.
_EXCERPT_CHARACTERS: Final = 40
_MIN_SEARCHED_CHARACTERS: Final = 3
#: A match of this many bytes cannot be a coincidence; a shorter one counts only as a separate word.
_UNAMBIGUOUS_BYTES: Final = 8
#: Files are read in chunks: a database may be larger than the memory this process should use.
_CHUNK_BYTES, _OVERLAP_BYTES = 8 << 20, 1024
#: Maximum number of forgotten texts that are searched for in files; all of them are deleted from the rows.
MAX_TEXTS_IN_FILES: Final = 12


def clean_files(home: str, texts: Sequence[str]) -> list[str]:
    """Delete spool files that contain one of these texts, and overwrite the texts in the log and the failure file.

    Neither log nor failure file should contain user text, but the error of a failing job may repeat it. They are
    overwritten in place, so that a process writing the log is not disturbed.

    Returns:
        The names of the files that contained one of them.
    """
    changed: list[str] = []
    spool = inside(home, SPOOL)
    for name in _file_names(spool):
        path = os.path.join(spool, name)
        if _spool_file_contains(path, texts):
            inbox.remove_spool_file(path)
            changed.append(f"{SPOOL}/{name}")
    for name in _file_names(home):
        if (name.startswith(LOG) or name == FAILURE) and _overwrite_texts(inside(home, name), texts):
            changed.append(name)
    return changed


def files_containing(home: str, texts: Sequence[str]) -> list[str]:
    """Return the files of a home that contain one of these texts.

    A text is found as is, in another case, JSON-escaped, as UTF-16 or as base64. Model files are not searched, because
    no user text gets there.
    """
    excerpts = list(dict.fromkeys(excerpt for text in texts for excerpt in _excerpts(text)))
    any_case = list(dict.fromkeys(form for excerpt in excerpts for form in _text_forms(excerpt)))
    case_sensitive = list(
        dict.fromkeys(form for text in texts for excerpt in _excerpts(text)[:1] for form in _base64_forms(excerpt))
    )
    return sorted(
        os.path.relpath(path, home)
        for path in _files_below(home)
        if excerpts and _file_contains(path, any_case, case_sensitive)
    )


def _file_contains(path: str, any_case: Sequence[bytes], case_sensitive: Sequence[bytes]) -> bool:
    """Return True if a file contains one of these byte strings; `any_case` ones match in any case."""
    overlap = b""
    try:
        for chunk in read_raw(path, _CHUNK_BYTES) if os.path.basename(path).startswith(DATABASE) else _chunks(path):
            # The reserve for a full disk, most of a small home, has zeros only.
            content = overlap + (chunk if chunk.strip(b"\0") else chunk[:_OVERLAP_BYTES])
            lower = content.lower()
            if any(_contains_word(form, lower) for form in any_case) or any(form in content for form in case_sensitive):
                return True
            overlap = content[-_OVERLAP_BYTES:]
    except OSError:
        pass  # deleted meanwhile
    return False


def _chunks(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        yield from iter(lambda: file.read(_CHUNK_BYTES), b"")


def _text_forms(text: str) -> Iterator[bytes]:
    """Yield a text as is and JSON-escaped, in UTF-8 and UTF-16, with non-ASCII letters in either case."""
    for variant in (text, normalised(text), text.lower(), text.upper()):
        for form in (variant, json.dumps(variant)[1:-1]):
            for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
                yield form.encode(encoding, "surrogatepass").lower()


def _base64_forms(text: str) -> Iterator[bytes]:
    """Yield the base64 forms of a text, one for each offset at which it can start within the encoded data."""
    for variant in dict.fromkeys((text, normalised(text))):
        for shift in range(3):
            encoded = base64.b64encode(b"\0" * shift + variant.encode("utf-8", "surrogatepass"))
            if len(encoded) > _UNAMBIGUOUS_BYTES + 8:
                yield encoded[4 if shift else 0 : -4]


def _contains_word(form: bytes, content: bytes) -> bool:
    if len(form) >= _UNAMBIGUOUS_BYTES:
        return form in content
    position = content.find(form)
    while position >= 0:
        neighbours = content[max(position - 1, 0) : position] + content[position + len(form) : position + len(form) + 1]
        if not any(chr(byte).isalnum() for byte in neighbours):
            return True
        position = content.find(form, position + 1)
    return False


def _excerpts(text: str) -> list[str]:
    """Return the text, or the beginning and end of a long one."""
    stripped = text.strip()
    if len(stripped) < _MIN_SEARCHED_CHARACTERS:
        return []
    return (
        [stripped]
        if len(stripped) <= 2 * _EXCERPT_CHARACTERS
        else [stripped[:_EXCERPT_CHARACTERS], stripped[-_EXCERPT_CHARACTERS:]]
    )


def _files_below(directory: str) -> Iterator[str]:
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if name not in _FOLDERS_WITHOUT_USER_TEXT]
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def _file_names(directory: str) -> list[str]:
    with suppress(OSError):
        return sorted(entry.name for entry in os.scandir(directory) if entry.is_file(follow_symlinks=False))
    return []


def _spool_file_contains(path: str, texts: Sequence[str]) -> bool:
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError:
        return False
    events = inbox.decode_events(raw).events
    data = "\n".join(json.dumps(event.get("data"), ensure_ascii=False) for event in events)
    return contains_any(data, texts) or contains_any(raw.decode("utf-8", "replace"), texts)


def _overwrite_texts(path: str, texts: Sequence[str]) -> bool:
    """Overwrite these texts in a file with the same number of bytes; return True if it contained any."""
    changed = False
    with suppress(OSError), open(path, "r+b") as file:
        content = file.read()
        lower, excerpts = content.lower(), [excerpt for text in texts for excerpt in _excerpts(text)]
        forms = [(form, lower) for excerpt in excerpts for form in _text_forms(excerpt) if _contains_word(form, lower)]
        forms += [(form, content) for excerpt in excerpts for form in _base64_forms(excerpt) if form in content]
        for form, haystack in forms:
            position = haystack.find(form)
            while position >= 0:
                file.seek(position)
                file.write(b"x" * len(form))
                changed, position = True, haystack.find(form, position + 1)
        file.flush()
        os.fsync(file.fileno())
    return changed


# Erasing: the lowest level of forgetting, without preview and receipt.


class Erased(Struct, frozen=True, kw_only=True):
    """The result of an erasure.

    Attributes:
        blanked_entries: number of journal entries that lost their payload.
        out_of_files: False while a reader keeps the write-ahead log from being truncated.
    """

    ids: ErasedIds
    blanked_entries: int
    out_of_files: bool


def erase(parts: Parts, ids: Collection[str], *, actor: str = "user") -> Erased:
    """Permanently erase the memories and turns with these ids.

    `erasure.repository` decides which other rows are erased. Afterwards no file of the home contains the text, unless
    a long read kept the write-ahead log from being truncated. Then the log is truncated when the daemon stops or at
    the next erasure.

    Raises:
        BadInput: a memory that was not named has no evidence besides what would be erased.
        Busy: a transcript that may contain one of the turns is queued to be read and would bring it back.
        NotFound: no memory or turn has one of these ids.
    """

    def write(tx: Tx) -> tuple[ErasedIds, int]:
        erasing = EraseRepository(tx, parts.analyser)
        erased = erasing.affected(ids)
        sessions = Analyses(tx, parts.analyser).about((), erased.turns)
        threads = ThreadErasing(tx).threads_of(erased.turns)
        synthesis_sessions = Syntheses(tx).sessions(erased.turns)
        blanked_entries = erasing.carry_out(erased, at=parts.clock.now(), actor=actor)
        for session in sessions:  # summarise the remaining turns again
            queue_digest(parts, tx, session)
        for session in synthesis_sessions:
            queue_synthesis(parts, tx, session, "quiet")
        refresh_names_and_vectors(parts, tx, Threads(tx).some(threads), parts.vectors.space.id)
        return erased, blanked_entries

    erased, blanked_entries = with_reserve(parts.home, lambda: parts.writer.run(write))
    remove_from_indexes(parts, erased)
    write_briefs(parts, None, everywhere=True)
    return Erased(ids=erased, blanked_entries=blanked_entries, out_of_files=parts.writer.checkpoint())


def remove_from_indexes(parts: Parts, erased: ErasedIds) -> None:
    """Remove erased rows from indexes and caches outside the database."""
    vectors = parts.vectors
    for id_ in erased.memories:
        vectors.memory_index.remove(id_)
    for id_ in erased.turns:
        vectors.turn_index.remove(id_)
    parts.words.forget("memory", erased.memories)
    parts.words.forget("turn", erased.turns)
    parts.embedders.forget_texts()
    parts.whitening.clear()
    forget_names()
    parts.vault.forget()


# After the deletion: cleaning everything that is not a row, and searching everything again.

TRUNCATE_WAL: Final = "empty_log"
_TRUNCATE_TRIES, _PAUSE_SECONDS = 20, 0.1
_RETRY_SECONDS: Final = 5.0
#: Maximum number of forgotten texts that are searched for in rows.
_MAX_TEXTS_IN_ROWS: Final = 200
_MIN_TEXT_CHARACTERS: Final = 12


def finish_forgetting(
    parts: Parts, plan: ForgetPlan, receipt: Receipt, removal: Removal, *, row_seconds: float
) -> Receipt:
    """Clean indexes, files and backups, search for the forgotten text, and complete the receipt.

    The write-ahead log can be truncated only while no reader is active. This is tried for some seconds; after that the
    job `TRUNCATE_WAL` keeps trying, and the receipt says whether the write-ahead log is empty.
    """
    began_at = time.monotonic()
    remove_from_indexes(parts, plan.erased)
    write_briefs(parts, None, everywhere=True)
    files = clean_files(parts.home, [*removal.search_texts, *_searchable_texts(plan)[:MAX_TEXTS_IN_FILES]])
    is_truncated = _try_truncate_wal(parts.writer)
    cleaned_at = time.monotonic()
    failed = list[dict[str, Any]]()
    try:
        swept = sweep(parts, removal, at=receipt.at, actor=receipt.actor)
    except FilrougeError as error:
        swept = []
        failed.append({"name": "*", "rows": {}, "rewritten": False, "trouble": error.message})
    swept_at = time.monotonic()
    searched = _search_everything(parts, plan, removal)
    changes: dict[str, Any] = {
        "files": [DATABASE, *files, *rewritten_files(swept)],
        "backups": [_backup_entry(result) for result in swept] + failed,
        "log_emptied": is_truncated,
        "searched": searched,
        "seconds": {
            "rows": round(row_seconds, 3),
            "files": round(cleaned_at - began_at, 3),
            "backups": round(swept_at - cleaned_at, 3),
            "search": round(time.monotonic() - swept_at, 3),
        },
    }
    return parts.writer.run(lambda tx: _update_receipt(parts.tombstones, tx, receipt.id, changes))


def queue_wal_truncation(tx: Tx, receipt_id: str, at: datetime) -> None:
    """Queue a job that truncates the write-ahead log, so that a crash cannot skip it."""
    Jobs(tx).enqueue(TRUNCATE_WAL, {"receipt": receipt_id}, dedupe=f"{TRUNCATE_WAL}:{receipt_id}", at=at)


def truncate_wal(parts: Parts, payload: Payload) -> JobResult:
    """Job: truncate the write-ahead log and record that in the receipt."""
    is_truncated = parts.writer.checkpoint()

    def write(tx: Tx) -> None:
        if is_truncated:
            _update_receipt(parts.tombstones, tx, str(payload["receipt"]), {"log_emptied": True})

    return JobResult(write=write, again=lambda: None if is_truncated else payload, delay=_RETRY_SECONDS)


def _update_receipt(tombstones: TombstoneFilter, tx: Tx, receipt_id: str, changes: dict[str, Any]) -> Receipt:
    """Update a receipt; it is `ok` once everything is done and nothing was found afterwards."""
    previous = Receipts(tx).get(receipt_id)
    content = {**previous.content, **changes}
    content["log_emptied"] = bool(content.get("log_emptied") or previous.content.get("log_emptied"))
    rewritten = all(backup["rewritten"] for backup in content.get("backups", ()))
    searched = content.get("searched")
    content["ok"] = bool(content["log_emptied"] and searched and not searched["left"] and rewritten)
    return Receipts(tx).put(previous.with_content(**content), tombstones.get_or_create()[0])


def _try_truncate_wal(writer: Writer) -> bool:
    for _ in range(_TRUNCATE_TRIES):
        if writer.checkpoint():
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def _search_everything(parts: Parts, plan: ForgetPlan, removal: Removal) -> dict[str, Any]:
    """Search all rows and files for what was asked to be forgotten and for the deleted texts.

    Returns:
        `left`, what still contains what was asked for; `inside_other_words`, files with these letters, where rows
        contain the letters only inside longer words, so that the two cannot be told apart; `repeated`, rows and files
        outside the request that contain a whole forgotten text; and how many texts were searched for.
    """
    texts = [text for text in _searchable_texts(plan) if text not in removal.search_texts]
    search_texts = list(removal.search_texts)
    remaining, repeated = (
        _count_rows_containing(parts.analyser, parts.readers, search_texts),
        _count_rows_containing(parts.analyser, parts.readers, texts[:_MAX_TEXTS_IN_ROWS]),
    )
    erased_ids = {*plan.erased.memories, *plan.erased.turns}
    reappeared = parts.readers.here(lambda tx: ForgetRepository(tx, parts.analyser).present([*erased_ids]))
    files = files_containing(parts.home, search_texts)
    inside_words: list[str] = []
    if files and parts.readers.here(
        lambda tx: all(ForgetRepository(tx, parts.analyser).is_within(word) for word in search_texts)
    ):
        files, inside_words = [], files
    in_files = files_containing(parts.home, texts[:MAX_TEXTS_IN_FILES])
    reappeared_counts = {f"returned_{table}": len(ids) for table, ids in reappeared.items()}
    return {
        "left": {**remaining, **({"files": files} if files else {}), **reappeared_counts},
        "repeated": {**repeated, **({"files": in_files} if in_files else {})},
        **({"inside_other_words": inside_words} if inside_words else {}),
        "texts_in_rows": min(len(texts), _MAX_TEXTS_IN_ROWS),
        "texts_in_files": min(len(texts), MAX_TEXTS_IN_FILES),
        "texts": len(texts),
    }


def _count_rows_containing(analyser: Analyser, readers: ReaderPool, texts: Sequence[str]) -> dict[str, Any]:
    if not texts:
        return {}
    found = readers.here(lambda tx: ForgetRepository(tx, analyser).rows_containing(texts))
    return {table: len(ids) for table, ids in sorted(found.items())}


def _searchable_texts(plan: ForgetPlan) -> list[str]:
    """Return the deleted texts that are long enough to search for, longest first."""
    return sorted((text for text in plan.texts if len(text.strip()) >= _MIN_TEXT_CHARACTERS), key=len, reverse=True)


def _backup_entry(result: SweepResult) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": result.backup.name,
        "rows": dict(result.backup.rows),
        "rewritten": result.rewritten,
    }
    return entry | ({"trouble": result.problem} if result.problem else {})


# The request itself: preview, token, deletion.

_LOG = logging.getLogger(__name__)
MAX_QUERY_CHARS: Final = 2000
#: A folded text with fewer characters or words does not identify a row, because it may occur anywhere.
_MIN_QUERY_CHARACTERS, _MIN_WORDS = 12, 2
#: Tables that change all the time, such as the queue and derived rows. They are listed, but the token ignores them.
_VOLATILE_TABLES: Final = frozenset({"jobs", "vectors", "thread_vectors", "evidence", "concept_mentions"})
_MAX_WAIT_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.05
_FORGETTING_TRIES: Final = 4


class ForgetRequest(Struct, frozen=True, kw_only=True):
    """A request to forget. Exactly one of the three is given.

    Attributes:
        text: forget everything about this text.
        id: forget this row with its dependent rows.
        ids: forget these rows with their dependent rows.
    """

    text: str = ""
    id: str = ""
    ids: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """The rows that the request names."""
        return self.ids or ((self.id,) if self.id else ())

    def checked(self) -> ForgetRequest:
        """Validate the request and return it without outer white space.

        Raises:
            BadInput: neither or both of text and id are given, or the text is too long or contains no word.
        """
        if [bool(self.text.strip()), bool(self.id.strip()), bool(self.ids)].count(True) != 1:
            raise BadInput("Give either a text or an id to forget.", remedy="See `filrouge forget --help`.")
        if len(self.text) > MAX_QUERY_CHARS:
            raise BadInput(f"The text has {len(self.text)} characters; at most {MAX_QUERY_CHARS} are allowed.")
        if self.text and not any(character.isalnum() for character in self.text):
            raise BadInput("The text contains no letters or digits.", remedy="Name what is to be forgotten.")
        return replace(self, text=self.text.strip(), id=self.id.strip())


class _SearchResult(Struct, frozen=True, kw_only=True):
    """The result of a search.

    Attributes:
        found: the rows to start from.
        containing: those of them that contain one of the search texts.
        related: relevance by id, for rows that a search found.
        search_texts: texts that identify further rows.
        notices: parts of the search that were not available.
        newest: highest row numbers of the source tables when the search ran.
    """

    found: RowIds
    containing: RowIds
    related: Mapping[str, float]
    search_texts: tuple[str, ...]
    notices: tuple[str, ...]
    newest: tuple[int, ...]


def preview(parts: Parts, request: ForgetRequest) -> Preview:
    """List every row that forgetting would delete or change. Nothing changes, but waiting spool files are stored.

    Raises:
        BadInput: neither or both of text and id are given.
        NotFound: no row has this id.
    """
    request = request.checked()
    _store_spool(parts)
    _wait_for_events(parts, request)
    with_reserve(parts.home, parts.tombstones.get_or_create)  # creates the key that signs the token

    def search_and_plan(tx: Tx) -> tuple[_SearchResult, ForgetPlan, tuple[AffectedRow, ...]]:
        search = _find_rows(parts, tx, request)
        plan, rows = _plan_and_rows(parts.analyser, tx, search)
        return search, plan, rows

    search, plan, rows = parts.readers.here(search_and_plan)
    return Preview(
        rows=rows,
        shared=plan.shared,
        rebuilt=describe_rebuilding(plan),
        backups=tuple(affected_backups(parts.analyser, parts.home, _removal_of(plan, search))),
        notices=search.notices,
        token=_token(parts.tombstones, request, rows),
    )


def forget(parts: Parts, request: ForgetRequest, token: str, *, actor: str = "user") -> Receipt:
    """Forget what a preview listed.

    Raises:
        Stale: a listed row changed since, or a new row matches.
        Busy: a transcript that may contain it is being read and would bring it back.
        NotFound: no row has this id any more.
    """
    request, began_at = request.checked(), time.monotonic()
    _store_spool(parts)
    _wait_for_events(parts, request)
    search = parts.readers.here(lambda tx: _find_rows(parts, tx, request))
    if with_reserve(parts.home, lambda: _wait_for_transcripts(parts, search)):
        search = parts.readers.here(lambda tx: _find_rows(parts, tx, request))
    id_ = new_id(parts.clock.now())

    def write(tx: Tx) -> tuple[ForgetPlan, Receipt]:
        if ForgetRepository(tx, parts.analyser).newest_rows() != search.newest and _has_more(
            parts.analyser, tx, search
        ):
            raise Stale("New matching rows were stored in the meantime.")
        plan, rows = _plan_and_rows(parts.analyser, tx, search)
        if not hmac.compare_digest(_token(parts.tombstones, request, rows).encode(), token.encode()):
            raise Stale("The matching rows have changed since the preview.")
        if ForgetRepository(tx, parts.analyser).is_transcript_queued(plan.synthesis_sessions):
            raise _transcript_busy()
        key, hasher = parts.tombstones.get_or_create()
        at = parts.clock.now()
        carry_out(parts, tx, plan, at=at, actor=actor, space_id=parts.vectors.space.id)
        tombstones = tombstones_of(plan, hasher, at)
        Tombstones(tx).add(tombstones)
        queue_wal_truncation(tx, id_, at)
        content = {
            "counts": count_effects(rows),
            "rebuilt": list(describe_rebuilding(plan)),
            "not_promised": list(NOT_PROMISED),
        }
        receipt = Receipts(tx).put(Receipt(id=id_, at=at, actor=actor, content=content), key)
        TombstoneFile(parts.home).append(tombstones)  # last: if the tombstones cannot be written, the transaction fails
        return plan, receipt

    with_reserve(parts.home, parts.tombstones.get_or_create)
    plan, receipt = with_reserve(parts.home, lambda: parts.writer.run(write))
    parts.work_waiting.set()
    row_seconds = time.monotonic() - began_at
    removal = _removal_of(plan, search)
    return with_reserve(parts.home, lambda: finish_forgetting(parts, plan, receipt, removal, row_seconds=row_seconds))


def forget_at_once(parts: Parts, request: ForgetRequest, *, actor: str = "user") -> tuple[Preview, Receipt]:
    """Preview and forget in one call; preview again if something changed in between.

    Raises:
        Stale: the rows changed at every attempt.
        Busy, BadInput, NotFound: as from `preview` and `forget`.
    """
    for _ in range(_FORGETTING_TRIES - 1):
        found = preview(parts, request)
        try:
            return found, forget(parts, request, found.token, actor=actor)
        except Stale:
            time.sleep(_POLL_SECONDS)
    found = preview(parts, request)
    return found, forget(parts, request, found.token, actor=actor)


def receipts(tombstones: TombstoneFilter, tx: Tx, *, limit: int = 100) -> list[dict[str, Any]]:
    """Return the newest receipts, each with whether its signature is valid."""
    key = tombstones.secret
    return [
        receipt.to_json() | {"signature_holds": is_signature_valid(receipt, key)} for receipt in Receipts(tx).all(limit)
    ]


def receipt_of(tombstones: TombstoneFilter, tx: Tx, id_: str) -> dict[str, Any]:
    """Return one receipt, with whether its signature is valid.

    Raises:
        NotFound: there is no receipt with this id.
    """
    found = Receipts(tx).get(id_)
    return found.to_json() | {"signature_holds": is_signature_valid(found, tombstones.secret)}


def _find_rows(parts: Parts, tx: Tx, request: ForgetRequest) -> _SearchResult:
    """Find the rows to start from."""
    forgetting = ForgetRepository(tx, parts.analyser)
    newest = forgetting.newest_rows()
    if request.named:
        named = forgetting.with_turns(_merge_ids(*(_rows_with(forgetting, id_) for id_ in request.named)))
        texts = dict.fromkeys(text for id_ in request.named for text in forgetting.texts_of(id_))
        search_texts = tuple(text for text in texts if _identifies(text))
        containing = forgetting.rows_containing(search_texts)
        return _SearchResult(
            found=_merge_ids(named, containing),
            containing=containing,
            related={},
            search_texts=search_texts,
            notices=(),
            newest=newest,
        )
    containing = forgetting.rows_containing([request.text])
    question = Question(text=request.text, everywhere=True, limit=MAX_RELATED)
    rankings = (recall(parts, tx, question), search_turns(parts, tx, question))
    hits = sorted((hit for ranking in rankings for hit in ranking.hits), key=lambda hit: -hit.relevance)
    relevant = [hit for hit in hits if hit.relevance >= MIN_RELEVANCE][:MAX_RELATED]
    memories = [hit.id for hit in relevant if hit in rankings[0].hits]
    turns = [hit.id for hit in relevant if hit in rankings[1].hits]
    notes = search_notes(parts, tx, request.text, limit=MAX_RELATED).hits[: MAX_RELATED - len(relevant)]
    chunks = {hit.chunk: round(hit.relevance, 4) for hit in notes if hit.relevance >= MIN_RELEVANCE}
    return _SearchResult(
        found=_merge_ids(containing, {"memories": memories, "turns": turns, "vault_chunks": list(chunks)}),
        containing=containing,
        related={hit.id: round(hit.relevance, 4) for hit in relevant} | chunks,
        search_texts=(request.text,),
        notices=tuple(dict.fromkeys(notice for ranking in rankings for notice in ranking.notices)),
        newest=newest,
    )


def _rows_with(forgetting: ForgetRepository, id_: str) -> RowIds:
    tables = forgetting.tables_with(id_)
    if not tables:
        raise NotFound(
            f"Nothing has the id {id_!r}.", remedy="To forget a topic, give it as a text: `filrouge forget TEXT`."
        )
    return {table: [id_] for table in tables}


def _plan_and_rows(analyser: Analyser, tx: Tx, search: _SearchResult) -> tuple[ForgetPlan, tuple[AffectedRow, ...]]:
    forgetting = ForgetRepository(tx, analyser)
    plan = forgetting.plan(search.found)
    return plan, forgetting.rows(plan, search.containing, search.related)


def _token(tombstones: TombstoneFilter, request: ForgetRequest, rows: tuple[AffectedRow, ...]) -> str:
    """Return an HMAC over the request and the present content of every listed row."""
    key, _ = tombstones.get_or_create()
    stable_rows = sorted(
        (row.table, row.id, row.deed, row.content) for row in rows if row.table not in _VOLATILE_TABLES
    )
    content = journal.canonical({"text": normalised(request.text), "ids": sorted(request.named), "rows": stable_rows})
    return hmac.new(key, b"token\0" + content, hashlib.sha256).hexdigest()


def _removal_of(plan: ForgetPlan, search: _SearchResult) -> Removal:
    return Removal(
        ids=(*plan.erased.memories, *plan.erased.turns, *plan.erased.events), search_texts=search.search_texts
    )


def _has_more(analyser: Analyser, tx: Tx, search: _SearchResult) -> bool:
    """Return True if rows contain the words that the previous search did not find."""
    containing = ForgetRepository(tx, analyser).rows_containing(search.search_texts)
    return any(set(ids) - set(search.containing.get(table, ())) for table, ids in containing.items())


def _store_spool(parts: Parts) -> None:
    """Store the events of the spool. If the disk is full its files stay; those with the words are removed later."""
    try:
        drain_spool(parts)
    except CannotWrite as error:
        _LOG.warning("the events of the spool were not stored: %s", error.message)


def _wait_for_events(parts: Parts, request: ForgetRequest) -> None:
    """Wait until queued events with this text are processed, so that the preview includes their rows."""
    deadline = monotonic() + _MAX_WAIT_SECONDS
    while request.text and monotonic() < deadline:
        if not parts.readers.here(lambda tx: ForgetRepository(tx, parts.analyser).is_queued(request.text)):
            return
        parts.work_waiting.set()
        time.sleep(_POLL_SECONDS)


def _wait_for_transcripts(parts: Parts, search: _SearchResult) -> bool:
    """Wait for queued transcript reads that may bring the text back; return True if there were any."""
    deadline = monotonic() + _MAX_WAIT_SECONDS
    sessions = parts.readers.here(lambda tx: ForgetRepository(tx, parts.analyser).plan(search.found).synthesis_sessions)
    waited = False
    while parts.readers.here(lambda tx: ForgetRepository(tx, parts.analyser).is_transcript_queued(sessions)):
        if monotonic() > deadline:
            raise _transcript_busy()
        parts.writer.run(lambda tx: ForgetRepository(tx, parts.analyser).make_due(sessions, parts.clock.now()))
        parts.work_waiting.set()
        waited = True
        time.sleep(_POLL_SECONDS)
    return waited


def _transcript_busy() -> Busy:
    return Busy("A transcript that may contain this text is queued to be read.", remedy="Try again in a few seconds.")


def _identifies(text: str) -> bool:
    folded = normalised(text)
    return len(folded) >= _MIN_QUERY_CHARACTERS and len(folded.split()) >= _MIN_WORDS


def _merge_ids(*groups: RowIds) -> dict[str, list[str]]:
    merged: dict[str, dict[str, None]] = {}
    for group in groups:
        for table, ids in group.items():
            merged.setdefault(table, {}).update(dict.fromkeys(ids))
    return {table: list(ids) for table, ids in merged.items()}


_ACTOR = "tombstones"


def forget_again_at_start(parts: Parts) -> int:
    """Forget rows again whose tombstones are only in the file.

    Returns:
        The number of memories and turns that were removed.
    """
    file = TombstoneFile(parts.home)
    in_file, in_table = file.read(), parts.readers.here(lambda tx: Tombstones(tx).all())
    file.append([tombstone for tombstone in in_table if tombstone.hash not in in_file])
    missing = in_file.keys() - {tombstone.hash for tombstone in in_table}
    if not missing:
        return 0
    hasher = parts.tombstones.hasher
    if hasher is None:
        _LOG.warning("forget.key is missing, so forgotten content cannot be recognised in this database")
        return 0
    space_id = parts.vectors.space.id
    to_apply = {hash_: in_file[hash_] for hash_ in missing}
    plan = parts.writer.run(lambda tx: _apply_tombstones(parts, tx, hasher, to_apply, space_id))
    if plan is None:
        return 0
    remove_from_indexes(parts, plan.erased)
    parts.writer.checkpoint()
    # A backup may have been made of this older database.
    ids = (*plan.erased.memories, *plan.erased.turns, *plan.erased.events)
    sweep(parts, Removal(ids=ids, search_texts=(*plan.notes, *plan.passages)), at=parts.clock.now(), actor=_ACTOR)
    return len(plan.erased.memories) + len(plan.erased.turns)


def replay(parts: StoreContext, present: Database | None, restored: Database) -> int:
    """Remove from a database that is about to be restored what this home forgot.

    Args:
        present: the database that it replaces, whose table may have tombstones that the file lacks; None if it cannot
            be read.
        restored: of the present schema; no other process has it open.

    Returns:
        The number of rows removed with their text: memories, turns, vault notes and their parts.
    """
    key, tombstones = HomeKey(parts.home).read(), TombstoneFile(parts.home).read()
    if present is not None:
        with suppress(StoreError):  # an older schema or a damaged database; the file has the tombstones
            tombstones = {tombstone.hash: tombstone for tombstone in Tombstones(present.tx).all()} | tombstones
    if key is None or not tombstones:
        return 0
    with restored.transaction() as tx:
        # Rows that match its own tombstones were removed before it was copied.
        tombstones = {
            hash_: tombstones[hash_]
            for hash_ in tombstones.keys() - {tombstone.hash for tombstone in Tombstones(tx).all()}
        }
        current = Spaces(tx).current()
        plan = _apply_tombstones(parts, tx, TombstoneHasher(key), tombstones, current.space.id if current else "")
    restored.checkpoint()
    if plan is None:
        return 0
    return len(plan.erased.memories) + len(plan.erased.turns) + len(plan.notes) + len(plan.chunks)


def _apply_tombstones(
    parts: StoreContext, tx: Tx, hasher: TombstoneHasher, tombstones: Mapping[bytes, Tombstone], space_id: str
) -> ForgetPlan | None:
    """Forget the rows that match these tombstones and store the tombstones; return None if no row matches."""
    found: dict[str, list[str]] = {}
    for row in tx.all("tombstones.ids"):
        if hasher.row(row["id"]) in tombstones:
            found.setdefault(row["place"], []).append(row["id"])
    for row in tx.all("tombstones.keys"):
        tombstone = tombstones.get(hasher.key(row["host"], row["session_id"], row["key"]))
        if tombstone and _is_before(row["at"], tombstone.at):
            found.setdefault(row["place"], []).append(row["id"])
    for row in tx.all("tombstones.texts"):
        tombstone = tombstones.get(hasher.text(row["text"])) if row["text"] else None
        # A note has no date. That is safe: a forgotten note is not read again.
        if tombstone and (row["at"] is None or _is_before(row["at"], tombstone.at)):
            found.setdefault(row["place"], []).append(row["id"])
    Tombstones(tx).add(tombstones.values())
    if not found:
        return None
    forgetting = ForgetRepository(tx, parts.analyser)
    plan = forgetting.plan({table: list(dict.fromkeys(ids)) for table, ids in found.items()})
    carry_out(parts, tx, plan, at=parts.clock.now(), actor=_ACTOR, space_id=space_id)
    return plan


def _is_before(at: str, forgotten_at: datetime) -> bool:
    return from_text(at) <= forgotten_at
