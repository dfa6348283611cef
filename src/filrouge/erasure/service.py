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
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from filrouge.capture import inbox
from filrouge.capture.service import drain_spool
from filrouge.context.hook_files import write_briefs
from filrouge.core.clock import from_text, monotonic, new_id
from filrouge.core.errors import BadInput, Busy, CannotWrite, FilrougeError, NotFound, Stale, StoreError
from filrouge.core.paths import DATABASE, FAILURE, LOG, SPOOL, inside
from filrouge.core.protocols import Tx
from filrouge.erasure.models import LEAST_RELEVANCE, MOST_RELATED, NOT_PROMISED, AffectedRow, Preview, Receipt, counted
from filrouge.erasure.old_backups import Removal, SweepResult, affected_backups, names_of, sweep
from filrouge.erasure.repository import (
    ErasedIds,
    EraseRepository,
    ForgetPlan,
    ForgetRepository,
    Receipts,
    RowIds,
    carry_out,
    rebuilt,
    tombstones_of,
)
from filrouge.erasure.repository import holds as signature_holds
from filrouge.erasure.tombstones import HomeKey, Tombstone, TombstoneFile, TombstoneHasher, Tombstones
from filrouge.extraction.repository import Analyses
from filrouge.extraction.sessions import queue_digest
from filrouge.memories.models import contains_any, normalised
from filrouge.notes.service import search_notes
from filrouge.runtime import journal
from filrouge.runtime.disk import with_reserve
from filrouge.runtime.jobs import JobResult, Jobs, Payload
from filrouge.runtime.services import Parts, StoreContext
from filrouge.runtime.sqlite import Database, read_raw
from filrouge.search.repository import Spaces
from filrouge.search.service import Question, recall, search_turns
from filrouge.threads.repository import Syntheses, ThreadErasing, Threads
from filrouge.threads.synthesis_service import queue_synthesis
from filrouge.threads.upkeep import refit

# Cleaning and searching the files beside the database.

#: Folders that contain no user text.
_FOLDERS_WITHOUT_USER_TEXT: Final = ("models",)
#: A long text is searched by its first and last characters, because a database splits it over pages.
_PIECE_LENGTH: Final = 40
_MIN_LENGTH: Final = 3
#: A match of this many bytes is never chance; a shorter one counts only as a separate word.
_UNAMBIGUOUS_BYTES: Final = 8
#: Files are read in chunks: a database may be larger than the memory this process should use.
_CHUNK, _OVERLAP = 8 << 20, 1024
#: Maximum number of forgotten texts that are searched for in files; all of them are deleted from the rows.
MAX_TEXTS_IN_FILES: Final = 12


def clean_files(home: str, words: Sequence[str]) -> list[str]:
    """Remove these words from leftover spool files and the log; return the names of the files that held them.

    The log should not contain user text, but the error of a failing job may repeat it. It is overwritten in place, so
    that a process writing the log is not disturbed.
    """
    changed: list[str] = []
    spool = inside(home, SPOOL)
    for name in _names(spool):
        path = os.path.join(spool, name)
        if _spooled_holds(path, words):
            inbox.remove_spool_file(path)
            changed.append(f"{SPOOL}/{name}")
    for name in _names(home):
        if (name.startswith(LOG) or name == FAILURE) and _overwrite_words(inside(home, name), words):
            changed.append(name)
    return changed


def files_containing(home: str, texts: Sequence[str]) -> list[str]:
    """Return the files of a home that contain one of these texts.

    A text is found as is, in another case, JSON-escaped, as UTF-16 or as base64. Model files are not searched, because
    no user text gets there.
    """
    pieces = list(dict.fromkeys(piece for text in texts for piece in _pieces(text)))
    plain = list(dict.fromkeys(form for piece in pieces for form in _text_forms(piece)))
    exact = list(dict.fromkeys(form for text in texts for piece in _pieces(text)[:1] for form in _base64_forms(piece)))
    return sorted(os.path.relpath(path, home) for path in _files(home) if pieces and _file_contains(path, plain, exact))


def _file_contains(path: str, plain: Sequence[bytes], exact: Sequence[bytes]) -> bool:
    """Return True if a file contains one of these byte strings; `plain` ones match in any case."""
    before = b""
    try:
        for chunk in read_raw(path, _CHUNK) if os.path.basename(path).startswith(DATABASE) else _chunks(path):
            content = before + chunk
            lower = content.lower()
            if any(_contains_word(form, lower) for form in plain) or any(form in content for form in exact):
                return True
            before = content[-_OVERLAP:]
    except OSError:
        pass  # deleted meanwhile
    return False


def _chunks(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        yield from iter(lambda: file.read(_CHUNK), b"")


def _text_forms(text: str) -> Iterator[bytes]:
    """Yield a text as is and JSON-escaped, in UTF-8 and UTF-16, with non-ASCII letters in either case."""
    for one in (text, normalised(text), text.lower(), text.upper()):
        for written in (one, json.dumps(one)[1:-1]):
            for code in ("utf-8", "utf-16-le", "utf-16-be"):
                yield written.encode(code, "surrogatepass").lower()


def _base64_forms(text: str) -> Iterator[bytes]:
    """Yield the base64 forms of a text, one for each offset at which it can start within the encoded data."""
    for one in dict.fromkeys((text, normalised(text))):
        for shift in range(3):
            encoded = base64.b64encode(b"\0" * shift + one.encode("utf-8", "surrogatepass"))
            if len(encoded) > _UNAMBIGUOUS_BYTES + 8:
                yield encoded[4 if shift else 0 : -4]


def _contains_word(form: bytes, content: bytes) -> bool:
    if len(form) >= _UNAMBIGUOUS_BYTES:
        return form in content
    place = content.find(form)
    while place >= 0:
        around = content[max(place - 1, 0) : place] + content[place + len(form) : place + len(form) + 1]
        if not any(chr(byte).isalnum() for byte in around):
            return True
        place = content.find(form, place + 1)
    return False


def _pieces(text: str) -> list[str]:
    """Return the text, or the beginning and end of a long one."""
    plain = text.strip()
    if len(plain) < _MIN_LENGTH:
        return []
    return [plain] if len(plain) <= 2 * _PIECE_LENGTH else [plain[:_PIECE_LENGTH], plain[-_PIECE_LENGTH:]]


def _files(directory: str) -> Iterator[str]:
    for place, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if name not in _FOLDERS_WITHOUT_USER_TEXT]
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def _names(directory: str) -> list[str]:
    with suppress(OSError):
        return sorted(entry.name for entry in os.scandir(directory) if entry.is_file(follow_symlinks=False))
    return []


def _spooled_holds(path: str, words: Sequence[str]) -> bool:
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError:
        return False
    events = inbox.decode_events(raw).events
    said = "\n".join(json.dumps(event.get("data"), ensure_ascii=False) for event in events)
    return contains_any(said, words) or contains_any(raw.decode("utf-8", "replace"), words)


def _overwrite_words(path: str, words: Sequence[str]) -> bool:
    """Overwrite these words in a file with the same number of bytes; return True if it held any."""
    changed = False
    with suppress(OSError), open(path, "r+b") as file:
        content = file.read()
        lower, pieces = content.lower(), [piece for text in words for piece in _pieces(text)]
        found = [(form, lower) for piece in pieces for form in _text_forms(piece) if _contains_word(form, lower)]
        found += [(form, content) for piece in pieces for form in _base64_forms(piece) if form in content]
        for form, within in found:
            place = within.find(form)
            while place >= 0:
                file.seek(place)
                file.write(b"x" * len(form))
                changed, place = True, within.find(form, place + 1)
        file.flush()
        os.fsync(file.fileno())
    return changed


# Erasing: the lowest level of forgetting, without preview and receipt.


@dataclass(frozen=True, kw_only=True, slots=True)
class Erased:
    """The result of an erasure.

    Attributes:
        redacted: journal entries that lost their payload.
        out_of_files: False while a reader keeps the write-ahead log from being truncated.
    """

    what: ErasedIds
    redacted: int
    out_of_files: bool


def erase(parts: Parts, ids: Collection[str], *, actor: str = "user") -> Erased:
    """Permanently erase the memories and turns with these ids.

    `erasure.repository` decides which rows go along. Afterwards no file of the home contains the text, unless a long
    read kept the write-ahead log from being truncated. Then the log is truncated when the daemon stops or at the next
    erasure.

    Raises:
        BadInput: a memory that was not named rests only on what would go.
        Busy: a transcript that may contain one of the turns is queued to be read and would bring it back.
        NotFound: no memory or turn has one of these ids.
    """

    def write(tx: Tx) -> tuple[ErasedIds, int]:
        erasing = EraseRepository(tx, parts.analyser)
        doomed = erasing.reach(ids)
        sessions = Analyses(tx, parts.analyser).about((), doomed.turns)
        threads = ThreadErasing(tx).threads_of(doomed.turns)
        worked = Syntheses(tx).sessions(doomed.turns)
        redacted = erasing.carry_out(doomed, at=parts.clock.now(), actor=actor)
        for session in sessions:  # summarise again what is left of them
            queue_digest(parts, tx, session)
        for session in worked:
            queue_synthesis(parts, tx, session, "quiet")
        refit(parts, tx, Threads(tx).some(threads), parts.vectors.space.id)
        return doomed, redacted

    doomed, redacted = with_reserve(parts.home, lambda: parts.writer.run(write))
    remove_from_indexes(parts, doomed)
    write_briefs(parts, None, everywhere=True)
    return Erased(what=doomed, redacted=redacted, out_of_files=parts.writer.checkpoint())


def remove_from_indexes(parts: Parts, doomed: ErasedIds) -> None:
    """Remove erased rows from indexes and caches outside the database."""
    meaning = parts.vectors
    for id_ in doomed.memories:
        meaning.memory_index.remove(id_)
    for id_ in doomed.turns:
        meaning.turn_index.remove(id_)
    parts.words.forget("memory", doomed.memories)
    parts.words.forget("turn", doomed.turns)
    parts.embedders.forget_texts()
    parts.whitening.forget()
    parts.vault.forget()


# After the deletion: cleaning what is not a row, and searching everything once more.

EMPTY_LOG: Final = "empty_log"
_TRIES, _PAUSE_SECONDS = 20, 0.1
_AGAIN_SECONDS: Final = 5.0
#: Most forgotten texts that are searched for in rows.
_MAX_TEXTS_IN_ROWS: Final = 200
_SHORTEST_SEARCHED: Final = 12


def finish_forgetting(
    parts: Parts, reach: ForgetPlan, receipt: Receipt, sought: Removal, *, deed_seconds: float
) -> Receipt:
    """Clean indexes, files and backups, search for the forgotten text, and complete the receipt.

    The write-ahead log can be truncated only while no reader is active. This is tried for some seconds; after that the
    job `empty_log` keeps trying, and the receipt says whether the log is empty.
    """
    began = time.monotonic()
    remove_from_indexes(parts, reach.doomed)
    write_briefs(parts, None, everywhere=True)
    files = clean_files(parts.home, [*sought.words, *_searchable_texts(reach)[:MAX_TEXTS_IN_FILES]])
    emptied = _try_empty_log(parts)
    cleaned = time.monotonic()
    failed = list[dict[str, Any]]()
    try:
        swept = sweep(parts, sought, at=receipt.at, actor=receipt.actor)
    except FilrougeError as error:
        swept = []
        failed.append({"name": "*", "rows": {}, "rewritten": False, "trouble": error.message})
    copied = time.monotonic()
    searched = _search_everything(parts, reach, sought)
    told: dict[str, Any] = {
        "files": [DATABASE, *files, *names_of(swept)],
        "backups": [_backup_entry(one) for one in swept] + failed,
        "log_emptied": emptied,
        "searched": searched,
        "seconds": {
            "rows": round(deed_seconds, 3),
            "files": round(cleaned - began, 3),
            "backups": round(copied - cleaned, 3),
            "search": round(time.monotonic() - copied, 3),
        },
    }
    return parts.writer.run(lambda tx: _update_receipt(parts, tx, receipt.id, told))


def queue_emptying(tx: Tx, receipt_id: str, at: datetime) -> None:
    """Queue a job that truncates the write-ahead log, so that a crash cannot skip it."""
    Jobs(tx).enqueue(EMPTY_LOG, {"receipt": receipt_id}, dedupe=f"{EMPTY_LOG}:{receipt_id}", at=at)


def empty_log(parts: Parts, payload: Payload) -> JobResult:
    """Job: truncate the write-ahead log and record that in the receipt."""
    emptied = parts.writer.checkpoint()

    def write(tx: Tx) -> None:
        if emptied:
            _update_receipt(parts, tx, str(payload["receipt"]), {"log_emptied": True})

    return JobResult(write=write, again=lambda: None if emptied else payload, delay=_AGAIN_SECONDS)


def _update_receipt(parts: Parts, tx: Tx, receipt_id: str, told: dict[str, Any]) -> Receipt:
    """Update a receipt; it is `ok` once everything is done and nothing was found afterwards."""
    former = Receipts(tx).get(receipt_id)
    content = {**former.content, **told}
    content["log_emptied"] = bool(content.get("log_emptied") or former.content.get("log_emptied"))
    rewritten = all(one["rewritten"] for one in content.get("backups", ()))
    searched = content.get("searched")
    content["ok"] = bool(content["log_emptied"] and searched and not searched["left"] and rewritten)
    return Receipts(tx).put(former.changed(**content), parts.tombstones.made()[0])


def _try_empty_log(parts: Parts) -> bool:
    for _ in range(_TRIES):
        if parts.writer.checkpoint():
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def _search_everything(parts: Parts, reach: ForgetPlan, sought: Removal) -> dict[str, Any]:
    """Search all rows and files for the forgotten words and texts.

    Returns:
        `left`, what still contains the words; `inside_other_words`, files where the letters occur while rows contain
        them only inside longer words, so that the two cannot be told apart; `repeated`, rows and files outside the
        request that contain a whole forgotten text; and how many texts were searched for.
    """
    texts = [text for text in _searchable_texts(reach) if text not in sought.words]
    words = list(sought.words)
    left, repeated = _holding(parts, words), _holding(parts, texts[:_MAX_TEXTS_IN_ROWS])
    gone = {*reach.doomed.memories, *reach.doomed.turns}
    returned = parts.readers.here(lambda tx: ForgetRepository(tx, parts.analyser).present([*gone]))
    files = files_containing(parts.home, words)
    within: list[str] = []
    if files and parts.readers.here(
        lambda tx: all(ForgetRepository(tx, parts.analyser).is_within(word) for word in words)
    ):
        files, within = [], files
    in_files = files_containing(parts.home, texts[:MAX_TEXTS_IN_FILES])
    back = {f"returned_{table}": len(ids) for table, ids in returned.items()}
    return {
        "left": {**left, **({"files": files} if files else {}), **back},
        "repeated": {**repeated, **({"files": in_files} if in_files else {})},
        **({"inside_other_words": within} if within else {}),
        "texts_in_rows": min(len(texts), _MAX_TEXTS_IN_ROWS),
        "texts_in_files": min(len(texts), MAX_TEXTS_IN_FILES),
        "texts": len(texts),
    }


def _holding(parts: Parts, texts: Sequence[str]) -> dict[str, Any]:
    if not texts:
        return {}
    found = parts.readers.here(lambda tx: ForgetRepository(tx, parts.analyser).exact(texts))
    return {table: len(ids) for table, ids in sorted(found.items())}


def _searchable_texts(reach: ForgetPlan) -> list[str]:
    """Return the deleted texts that are long enough to search for, longest first."""
    return sorted((text for text in reach.texts if len(text.strip()) >= _SHORTEST_SEARCHED), key=len, reverse=True)


def _backup_entry(swept: SweepResult) -> dict[str, Any]:
    told: dict[str, Any] = {"name": swept.copy.name, "rows": dict(swept.copy.rows), "rewritten": swept.rewritten}
    return told | ({"trouble": swept.trouble} if swept.trouble else {})


# The request itself: preview, token, deletion.

_LOG = logging.getLogger(__name__)
MAX_QUERY_CHARS: Final = 2000
#: Fewest characters and words of a folded text that identify it; a shorter one occurs everywhere.
_MIN_CHARACTERS, _TELLING_WORDS = 12, 2
#: Tables that change all the time, such as the queue and derived rows. They are listed, but the token ignores them.
_VOLATILE_TABLES: Final = frozenset({"jobs", "vectors", "thread_vectors", "evidence", "concept_mentions"})
_LONGEST_WAIT: Final = 15.0
_LOOK_SECONDS: Final = 0.05
_FORGETTING_TRIES: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgetRequest:
    """A request to forget: everything about a text, or one row with its dependent rows."""

    text: str = ""
    id: str = ""

    def checked(self) -> ForgetRequest:
        """Validate the request and return it without outer white space.

        Raises:
            BadInput: neither or both are given, or the text is too long or contains no word.
        """
        if bool(self.text.strip()) == bool(self.id.strip()):
            raise BadInput("Give either a text or an id to forget.", remedy="See `filrouge forget --help`.")
        if len(self.text) > MAX_QUERY_CHARS:
            raise BadInput(f"The text has {len(self.text)} characters; at most {MAX_QUERY_CHARS} say what to forget.")
        if self.text and not any(sign.isalnum() for sign in self.text):
            raise BadInput("The text contains no letters or digits.", remedy="Name what is to be forgotten.")
        return replace(self, text=self.text.strip(), id=self.id.strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class _SearchResult:
    """The result of a search: the rows to start from, why, and the words that identify further rows."""

    found: RowIds
    exact: RowIds
    related: Mapping[str, float]
    words: tuple[str, ...]
    notices: tuple[str, ...]
    newest: tuple[int, ...]


def preview(parts: Parts, asked: ForgetRequest) -> Preview:
    """List everything that forgetting would touch. Changes nothing, except that the spool is taken in.

    Raises:
        BadInput: nothing is given to forget, or more than one thing.
        NotFound: no row has this id.
    """
    asked = asked.checked()
    _take_in_spool(parts)
    _await_understood(parts, asked)
    with_reserve(parts.home, parts.tombstones.made)  # creates the key that signs the token

    def look(tx: Tx) -> tuple[_SearchResult, ForgetPlan, tuple[AffectedRow, ...]]:
        seen = _find_rows(parts, tx, asked)
        reach, rows = _rows(parts, tx, seen)
        return seen, reach, rows

    seen, reach, rows = parts.readers.here(look)
    return Preview(
        rows=rows,
        shared=reach.shared,
        rebuilt=rebuilt(reach),
        backups=tuple(affected_backups(parts, _sought(reach, seen))),
        notices=seen.notices,
        token=_token(parts, asked, rows),
    )


def forget(parts: Parts, asked: ForgetRequest, token: str, *, actor: str = "user") -> Receipt:
    """Forget what a preview listed.

    Raises:
        Stale: a listed row changed since, or a new row matches.
        Busy: a transcript that may contain it is being read and would bring it back.
        NotFound: no row has this id any more.
    """
    asked, began = asked.checked(), time.monotonic()
    _take_in_spool(parts)
    _await_understood(parts, asked)
    seen = parts.readers.here(lambda tx: _find_rows(parts, tx, asked))
    if with_reserve(parts.home, lambda: _await_transcripts(parts, seen)):
        seen = parts.readers.here(lambda tx: _find_rows(parts, tx, asked))
    id_ = new_id(parts.clock.now())

    def write(tx: Tx) -> tuple[ForgetPlan, Receipt]:
        if ForgetRepository(tx, parts.analyser).newest() != seen.newest and _has_more(parts, tx, seen):
            raise Stale("New matching rows were stored in the meantime.")
        reach, rows = _rows(parts, tx, seen)
        if not hmac.compare_digest(_token(parts, asked, rows).encode(), token.encode()):
            raise Stale("The matching rows have changed since the preview.")
        if ForgetRepository(tx, parts.analyser).is_read(reach.worked):
            raise _read_meanwhile()
        key, stones = parts.tombstones.made()
        at = parts.clock.now()
        carry_out(parts, tx, reach, at=at, actor=actor, space_id=parts.vectors.space.id)
        buried = tombstones_of(reach, stones, at)
        Tombstones(tx).add(buried)
        queue_emptying(tx, id_, at)
        content = {"counts": counted(rows), "rebuilt": list(rebuilt(reach)), "not_promised": list(NOT_PROMISED)}
        receipt = Receipts(tx).put(Receipt(id=id_, at=at, actor=actor, content=content), key)
        TombstoneFile(parts.home).append(buried)  # last: if the tombstones cannot be written, the transaction fails
        return reach, receipt

    with_reserve(parts.home, parts.tombstones.made)
    reach, receipt = with_reserve(parts.home, lambda: parts.writer.run(write))
    parts.work_waiting.set()
    done = time.monotonic() - began
    sought = _sought(reach, seen)
    return with_reserve(parts.home, lambda: finish_forgetting(parts, reach, receipt, sought, deed_seconds=done))


def forget_at_once(parts: Parts, asked: ForgetRequest, *, actor: str = "user") -> tuple[Preview, Receipt]:
    """Preview and forget in one call; preview again if something changed in between.

    Raises:
        Stale: the rows changed at every attempt.
        Busy, BadInput, NotFound: as from `preview` and `forget`.
    """
    for _ in range(_FORGETTING_TRIES - 1):
        shown = preview(parts, asked)
        try:
            return shown, forget(parts, asked, shown.token, actor=actor)
        except Stale:
            time.sleep(_LOOK_SECONDS)
    shown = preview(parts, asked)
    return shown, forget(parts, asked, shown.token, actor=actor)


def receipts(parts: Parts, tx: Tx, *, limit: int = 100) -> list[dict[str, Any]]:
    """Return the newest receipts, each with whether its signature is valid."""
    key = parts.tombstones.secret
    return [one.to_json() | {"signature_holds": signature_holds(one, key)} for one in Receipts(tx).all(limit)]


def receipt_of(parts: Parts, tx: Tx, id_: str) -> dict[str, Any]:
    """Return one receipt, with whether its signature is valid.

    Raises:
        NotFound: there is no receipt with this id.
    """
    found = Receipts(tx).get(id_)
    return found.to_json() | {"signature_holds": signature_holds(found, parts.tombstones.secret)}


def _find_rows(parts: Parts, tx: Tx, asked: ForgetRequest) -> _SearchResult:
    """Find the rows to start from."""
    forgetting = ForgetRepository(tx, parts.analyser)
    newest = forgetting.newest()
    if asked.id:
        tables = forgetting.known(asked.id)
        if not tables:
            raise NotFound(
                f"Nothing has the id {asked.id!r}.",
                remedy="To forget a topic, give it as a text: `filrouge forget TEXT`.",
            )
        named = forgetting.parts_of({table: [asked.id] for table in tables})
        words = tuple(text for text in forgetting.texts_of(asked.id) if _identifies(text))
        exact = forgetting.exact(words)
        return _SearchResult(
            found=_merged(named, exact), exact=exact, related={}, words=words, notices=(), newest=newest
        )
    exact = forgetting.exact([asked.text])
    question = Question(text=asked.text, everywhere=True, limit=MOST_RELATED)
    rankings = (recall(parts, tx, question), search_turns(parts, tx, question))
    hits = sorted((hit for one in rankings for hit in one.hits), key=lambda hit: -hit.relevance)
    near = [hit for hit in hits if hit.relevance >= LEAST_RELEVANCE][:MOST_RELATED]
    memories = [hit.id for hit in near if hit in rankings[0].hits]
    turns = [hit.id for hit in near if hit in rankings[1].hits]
    notes = search_notes(parts, tx, asked.text, limit=MOST_RELATED).hits[: MOST_RELATED - len(near)]
    chunks = {hit.chunk: round(hit.relevance, 4) for hit in notes if hit.relevance >= LEAST_RELEVANCE}
    return _SearchResult(
        found=_merged(exact, {"memories": memories, "turns": turns, "vault_chunks": list(chunks)}),
        exact=exact,
        related={hit.id: round(hit.relevance, 4) for hit in near} | chunks,
        words=(asked.text,),
        notices=tuple(dict.fromkeys(notice for one in rankings for notice in one.notices)),
        newest=newest,
    )


def _rows(parts: Parts, tx: Tx, seen: _SearchResult) -> tuple[ForgetPlan, tuple[AffectedRow, ...]]:
    forgetting = ForgetRepository(tx, parts.analyser)
    reach = forgetting.reach(seen.found)
    return reach, forgetting.rows(reach, seen.exact, seen.related)


def _token(parts: Parts, asked: ForgetRequest, rows: tuple[AffectedRow, ...]) -> str:
    """Return an HMAC over the request and the present content of every listed row."""
    key, _ = parts.tombstones.made()
    listed = sorted((row.table, row.id, row.deed, row.content) for row in rows if row.table not in _VOLATILE_TABLES)
    said = journal.canonical({"text": normalised(asked.text), "id": asked.id, "rows": listed})
    return hmac.new(key, b"token\0" + said, hashlib.sha256).hexdigest()


def _sought(reach: ForgetPlan, seen: _SearchResult) -> Removal:
    return Removal(ids=(*reach.doomed.memories, *reach.doomed.turns, *reach.doomed.events), words=seen.words)


def _has_more(parts: Parts, tx: Tx, seen: _SearchResult) -> bool:
    """Return True if rows contain the words that the previous search did not find."""
    exact = ForgetRepository(tx, parts.analyser).exact(seen.words)
    return any(set(ids) - set(seen.exact.get(table, ())) for table, ids in exact.items())


def _take_in_spool(parts: Parts) -> None:
    """Take in the spool. If the disk is full its files stay, and those with the words are removed later."""
    try:
        drain_spool(parts)
    except CannotWrite as error:
        _LOG.warning("the spool was not taken in: %s", error.message)


def _await_understood(parts: Parts, asked: ForgetRequest) -> None:
    """Wait until queued events with this text are processed, so that the preview includes their rows."""
    deadline = monotonic() + _LONGEST_WAIT
    while asked.text and monotonic() < deadline:
        if not parts.readers.here(lambda tx: ForgetRepository(tx, parts.analyser).is_coming(asked.text)):
            return
        parts.work_waiting.set()
        time.sleep(_LOOK_SECONDS)


def _await_transcripts(parts: Parts, seen: _SearchResult) -> bool:
    """Wait for queued transcript reads that may bring the text back; return True if there were any."""
    deadline = monotonic() + _LONGEST_WAIT
    sessions = parts.readers.here(lambda tx: ForgetRepository(tx, parts.analyser).reach(seen.found).worked)
    waited = False
    while parts.readers.here(lambda tx: ForgetRepository(tx, parts.analyser).is_read(sessions)):
        if monotonic() > deadline:
            raise _read_meanwhile()
        parts.writer.run(lambda tx: ForgetRepository(tx, parts.analyser).hasten(sessions, parts.clock.now()))
        parts.work_waiting.set()
        waited = True
        time.sleep(_LOOK_SECONDS)
    return waited


def _read_meanwhile() -> Busy:
    return Busy("A transcript that may contain this text is queued to be read.", remedy="Try again in a few seconds.")


def _identifies(text: str) -> bool:
    plain = normalised(text)
    return len(plain) >= _MIN_CHARACTERS and len(plain.split()) >= _TELLING_WORDS


def _merged(*founds: RowIds) -> dict[str, list[str]]:
    merged: dict[str, dict[str, None]] = {}
    for found in founds:
        for table, ids in found.items():
            merged.setdefault(table, {}).update(dict.fromkeys(ids))
    return {table: list(ids) for table, ids in merged.items()}


_ACTOR = "tombstones"


def forget_again_at_start(parts: Parts) -> int:
    """Forget again what the tombstones say the database should not contain.

    Returns:
        The number of memories and turns that were removed.
    """
    file = TombstoneFile(parts.home)
    known, table = file.read(), parts.readers.here(lambda tx: Tombstones(tx).all())
    file.append([one for one in table if one.hash not in known])
    missing = known.keys() - {one.hash for one in table}
    if not missing:
        return 0
    stones = parts.tombstones.stones
    if stones is None:
        _LOG.warning("forget.key is gone: what was forgotten cannot be recognised in this database")
        return 0
    space_id = parts.vectors.space.id
    buried = {one: known[one] for one in missing}
    reach = parts.writer.run(lambda tx: _apply_tombstones(parts, tx, stones, buried, space_id))
    if reach is None:
        return 0
    remove_from_indexes(parts, reach.doomed)
    parts.writer.checkpoint()
    # A backup may have been made of this older database.
    ids = (*reach.doomed.memories, *reach.doomed.turns, *reach.doomed.events)
    sweep(parts, Removal(ids=ids, words=(*reach.notes, *reach.passages)), at=parts.clock.now(), actor=_ACTOR)
    return len(reach.doomed.memories) + len(reach.doomed.turns)


def replay(parts: StoreContext, present: Database | None, restored: Database) -> int:
    """Remove from a database that is about to be restored what this home forgot.

    Args:
        present: the database that it replaces, whose table may hold more than the file; None if it cannot be read.
        restored: of the present schema; no other process has it open.

    Returns:
        The number of rows removed with their text: memories, turns, vault notes and their parts.
    """
    key, known = HomeKey(parts.home).read(), TombstoneFile(parts.home).read()
    if present is not None:
        with suppress(StoreError):  # an older schema or a damaged database; the file has the tombstones
            known = {one.hash: one for one in Tombstones(present.tx).all()} | known
    if key is None or not known:
        return 0
    with restored.transaction() as tx:
        # Rows of its own tombstones were already removed before it was copied.
        known = {hash_: known[hash_] for hash_ in known.keys() - {one.hash for one in Tombstones(tx).all()}}
        current = Spaces(tx).current()
        reach = _apply_tombstones(parts, tx, TombstoneHasher(key), known, current.space.id if current else "")
    restored.checkpoint()
    if reach is None:
        return 0
    return len(reach.doomed.memories) + len(reach.doomed.turns) + len(reach.notes) + len(reach.chunks)


def _apply_tombstones(
    parts: StoreContext, tx: Tx, stones: TombstoneHasher, known: Mapping[bytes, Tombstone], space_id: str
) -> ForgetPlan | None:
    """Forget the rows that match these tombstones and store the tombstones; return None if no row matches."""
    found: dict[str, list[str]] = {}
    for row in tx.all("tombstones.ids"):
        if stones.row(row["id"]) in known:
            found.setdefault(row["place"], []).append(row["id"])
    for row in tx.all("tombstones.keys"):
        stone = known.get(stones.key(row["host"], row["session_id"], row["key"]))
        if stone and _of_before(row["at"], stone.at):
            found.setdefault(row["place"], []).append(row["id"])
    for row in tx.all("tombstones.texts"):
        stone = known.get(stones.text(row["text"])) if row["text"] else None
        # A note has no date. That is safe: a forgotten note is not read again.
        if stone and (row["at"] is None or _of_before(row["at"], stone.at)):
            found.setdefault(row["place"], []).append(row["id"])
    Tombstones(tx).add(known.values())
    if not found:
        return None
    forgetting = ForgetRepository(tx, parts.analyser)
    reach = forgetting.reach({table: list(dict.fromkeys(ids)) for table, ids in found.items()})
    carry_out(parts, tx, reach, at=parts.clock.now(), actor=_ACTOR, space_id=space_id)
    return reach


def _of_before(said: str, buried: datetime) -> bool:
    return from_text(said) <= buried
