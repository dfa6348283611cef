"""Forgetting: a preview of every row that goes, a token for exactly that, the deed, a look whether it held, a receipt.

What is asked is never stored: the token is an HMAC over the rows that the preview listed, so whoever shows it asks for
these and no others, and gets `Stale` where anything of them changed. What was asked, and the texts that went, are held
in memory until they have been looked for everywhere once more.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from filrouge.app.asking import Question, recall
from filrouge.app.backlog import drain_spool
from filrouge.app.ballast import with_room
from filrouge.app.conversations import search_turns
from filrouge.app.forgetting_after import after_the_deed, queue_emptying
from filrouge.app.forgetting_deed import carry_out, rebuilt, tombstones_of
from filrouge.app.note_search import search_notes
from filrouge.app.old_copies import Sought, holding
from filrouge.app.parts import Parts
from filrouge.clock import monotonic, new_id
from filrouge.errors import BadInput, Busy, CannotWrite, NotFound, Stale
from filrouge.model.forgetting import LEAST_RELEVANCE, MOST_RELATED, NOT_PROMISED, Preview, Row, counted
from filrouge.model.receipt import Receipt
from filrouge.model.sameness import folded
from filrouge.ports import Tx
from filrouge.store import seals
from filrouge.store.forgetting import Forgetting, Found, Reach
from filrouge.store.receipts import Receipts
from filrouge.store.receipts import holds as signature_holds
from filrouge.store.tombstones import StoneFile, Tombstones

_LOG = logging.getLogger(__name__)
LONGEST: Final = 2000
#: A text this short, folded, is everywhere, and says nothing about whether it is the same: characters and words.
_TELLING, _TELLING_WORDS = 12, 2
#: The queue and what is made anew by itself change all the time; they are listed, and no token depends on them.
_RESTLESS: Final = frozenset({"jobs", "vectors", "thread_vectors", "evidence", "concept_mentions"})
_LONGEST_WAIT: Final = 15.0
_LOOK_SECONDS: Final = 0.05
_TRIES: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is to be forgotten: everything about a text, or one row with what hangs on it."""

    text: str = ""
    id: str = ""

    def checked(self) -> Asked:
        """The same.

        Raises:
            BadInput: neither is given, or both, or a text of which nobody could tell what it is about.
        """
        if bool(self.text.strip()) == bool(self.id.strip()):
            raise BadInput("Say what to forget: a text, or an id.", remedy="See `filrouge forget --help`.")
        if len(self.text) > LONGEST:
            raise BadInput(f"The text has {len(self.text)} characters; at most {LONGEST} say what to forget.")
        if self.text and not any(sign.isalnum() for sign in self.text):
            raise BadInput("There is no word in the text.", remedy="Name what is to be forgotten.")
        return replace(self, text=self.text.strip(), id=self.id.strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Glance:
    """What a look found: the rows to begin with, why, and by which words others would be known."""

    found: Found
    exact: Found
    related: Mapping[str, float]
    words: tuple[str, ...]
    notices: tuple[str, ...]
    newest: tuple[int, ...]


def preview(parts: Parts, asked: Asked) -> Preview:
    """Everything that forgetting this would touch. Nothing is changed but the spool, which is taken in.

    Raises:
        BadInput: nothing is asked, or more than one thing.
        NotFound: no row has this id.
    """
    asked = asked.checked()
    _take_in_spool(parts)
    _await_understood(parts, asked)
    with_room(parts.home, parts.gate.made)  # signs the token

    def look(tx: Tx) -> tuple[_Glance, Reach, tuple[Row, ...]]:
        seen = _look(parts, tx, asked)
        reach, rows = _rows(parts, tx, seen)
        return seen, reach, rows

    seen, reach, rows = parts.readers.here(look)
    return Preview(
        rows=rows,
        shared=reach.shared,
        rebuilt=rebuilt(reach),
        backups=tuple(holding(parts, _sought(reach, seen))),
        notices=seen.notices,
        token=_token(parts, asked, rows),
    )


def forget(parts: Parts, asked: Asked, token: str, *, actor: str = "user") -> Receipt:
    """Forget what a preview listed.

    Raises:
        Stale: any of it changed since, or something was added to it.
        Busy: a transcript that may hold it is being read, and would bring it back.
        NotFound: no row has this id any more.
    """
    asked, began = asked.checked(), time.monotonic()
    _take_in_spool(parts)
    _await_understood(parts, asked)
    seen = parts.readers.here(lambda tx: _look(parts, tx, asked))
    if with_room(parts.home, lambda: _await_transcripts(parts, seen)):
        seen = parts.readers.here(lambda tx: _look(parts, tx, asked))
    id_ = new_id(parts.clock.now())

    def write(tx: Tx) -> tuple[Reach, Receipt]:
        if Forgetting(tx, parts.analyser).newest() != seen.newest and _has_more(parts, tx, seen):
            raise Stale("More of it came while it was looked for.")
        reach, rows = _rows(parts, tx, seen)
        if not hmac.compare_digest(_token(parts, asked, rows).encode(), token.encode()):
            raise Stale("What is to be forgotten has changed since it was shown.")
        if Forgetting(tx, parts.analyser).is_read(reach.worked):
            raise _read_meanwhile()
        key, stones = parts.gate.made()
        at = parts.clock.now()
        carry_out(parts, tx, reach, at=at, actor=actor, space_id=parts.meaning.space.id)
        buried = tombstones_of(reach, stones, at)
        Tombstones(tx).add(buried)
        queue_emptying(tx, id_, at)
        content = {"counts": counted(rows), "rebuilt": list(rebuilt(reach)), "not_promised": list(NOT_PROMISED)}
        receipt = Receipts(tx).put(Receipt(id=id_, at=at, actor=actor, content=content), key)
        StoneFile(parts.home).append(buried)  # last: what cannot be written down is not done either
        return reach, receipt

    with_room(parts.home, parts.gate.made)
    reach, receipt = with_room(parts.home, lambda: parts.writer.run(write))
    parts.work_waiting.set()
    done = time.monotonic() - began
    sought = _sought(reach, seen)
    return with_room(parts.home, lambda: after_the_deed(parts, reach, receipt, sought, deed_seconds=done))


def forget_at_once(parts: Parts, asked: Asked, *, actor: str = "user") -> tuple[Preview, Receipt]:
    """Preview and forget; where something changed in between, look again.

    Raises:
        Stale: it changes all the time.
        Busy, BadInput, NotFound: as `preview` and `forget`.
    """
    for _ in range(_TRIES - 1):
        shown = preview(parts, asked)
        try:
            return shown, forget(parts, asked, shown.token, actor=actor)
        except Stale:
            time.sleep(_LOOK_SECONDS)
    shown = preview(parts, asked)
    return shown, forget(parts, asked, shown.token, actor=actor)


def receipts(parts: Parts, tx: Tx, *, limit: int = 100) -> list[dict[str, Any]]:
    """The newest receipts, each with whether its signature holds."""
    key = parts.gate.secret
    return [one.to_json() | {"signature_holds": signature_holds(one, key)} for one in Receipts(tx).all(limit)]


def receipt_of(parts: Parts, tx: Tx, id_: str) -> dict[str, Any]:
    """One receipt, with whether its signature holds.

    Raises:
        NotFound: naming the id.
    """
    found = Receipts(tx).get(id_)
    return found.to_json() | {"signature_holds": signature_holds(found, parts.gate.secret)}


def _look(parts: Parts, tx: Tx, asked: Asked) -> _Glance:
    """Find the rows to begin with."""
    forgetting = Forgetting(tx, parts.analyser)
    newest = forgetting.newest()
    if asked.id:
        tables = forgetting.known(asked.id)
        if not tables:
            raise NotFound(
                f"Nothing has the id {asked.id!r}.",
                remedy="To forget a topic, give it as a text: `filrouge forget TEXT`.",
            )
        named = forgetting.parts_of({table: [asked.id] for table in tables})
        words = tuple(text for text in forgetting.texts_of(asked.id) if _is_telling(text))
        exact = forgetting.exact(words)
        return _Glance(found=_merged(named, exact), exact=exact, related={}, words=words, notices=(), newest=newest)
    exact = forgetting.exact([asked.text])
    question = Question(text=asked.text, everywhere=True, limit=MOST_RELATED)
    rankings = (recall(parts, tx, question), search_turns(parts, tx, question))
    hits = sorted((hit for one in rankings for hit in one.hits), key=lambda hit: -hit.relevance)
    near = [hit for hit in hits if hit.relevance >= LEAST_RELEVANCE][:MOST_RELATED]
    memories = [hit.id for hit in near if hit in rankings[0].hits]
    turns = [hit.id for hit in near if hit in rankings[1].hits]
    notes = search_notes(parts, tx, asked.text, limit=MOST_RELATED).hits[: MOST_RELATED - len(near)]
    chunks = {hit.chunk: round(hit.relevance, 4) for hit in notes if hit.relevance >= LEAST_RELEVANCE}
    return _Glance(
        found=_merged(exact, {"memories": memories, "turns": turns, "vault_chunks": list(chunks)}),
        exact=exact,
        related={hit.id: round(hit.relevance, 4) for hit in near} | chunks,
        words=(asked.text,),
        notices=tuple(dict.fromkeys(notice for one in rankings for notice in one.notices)),
        newest=newest,
    )


def _rows(parts: Parts, tx: Tx, seen: _Glance) -> tuple[Reach, tuple[Row, ...]]:
    forgetting = Forgetting(tx, parts.analyser)
    reach = forgetting.reach(seen.found)
    return reach, forgetting.rows(reach, seen.exact, seen.related)


def _token(parts: Parts, asked: Asked, rows: tuple[Row, ...]) -> str:
    """A keyed hash of what was asked and of every row as it is, good for these alone."""
    key, _ = parts.gate.made()
    listed = sorted((row.table, row.id, row.deed, row.content) for row in rows if row.table not in _RESTLESS)
    said = seals.canonical({"text": folded(asked.text), "id": asked.id, "rows": listed})
    return hmac.new(key, b"token\0" + said, hashlib.sha256).hexdigest()


def _sought(reach: Reach, seen: _Glance) -> Sought:
    return Sought(ids=(*reach.doomed.memories, *reach.doomed.turns, *reach.doomed.events), words=seen.words)


def _has_more(parts: Parts, tx: Tx, seen: _Glance) -> bool:
    """True if rows hold the words that the look before did not find."""
    exact = Forgetting(tx, parts.analyser).exact(seen.words)
    return any(set(ids) - set(seen.exact.get(table, ())) for table, ids in exact.items())


def _take_in_spool(parts: Parts) -> None:
    """Take the spool in. On a full disk its files stay, and those that hold the words are removed afterwards."""
    try:
        drain_spool(parts)
    except CannotWrite as error:
        _LOG.warning("the spool was not taken in: %s", error.message)


def _await_understood(parts: Parts, asked: Asked) -> None:
    """What came in a moment ago is read first: then the preview knows all that hangs on it."""
    deadline = monotonic() + _LONGEST_WAIT
    while asked.text and monotonic() < deadline:
        if not parts.readers.here(lambda tx: Forgetting(tx, parts.analyser).is_coming(asked.text)):
            return
        parts.work_waiting.set()
        time.sleep(_LOOK_SECONDS)


def _await_transcripts(parts: Parts, seen: _Glance) -> bool:
    """Let looks into transcripts that may bring it back come first; True if any was waited for."""
    deadline = monotonic() + _LONGEST_WAIT
    sessions = parts.readers.here(lambda tx: Forgetting(tx, parts.analyser).reach(seen.found).worked)
    waited = False
    while parts.readers.here(lambda tx: Forgetting(tx, parts.analyser).is_read(sessions)):
        if monotonic() > deadline:
            raise _read_meanwhile()
        parts.writer.run(lambda tx: Forgetting(tx, parts.analyser).hasten(sessions, parts.clock.now()))
        parts.work_waiting.set()
        waited = True
        time.sleep(_LOOK_SECONDS)
    return waited


def _read_meanwhile() -> Busy:
    return Busy("A transcript that may hold these words is about to be read.", remedy="Try again in a few seconds.")


def _is_telling(text: str) -> bool:
    plain = folded(text)
    return len(plain) >= _TELLING and len(plain.split()) >= _TELLING_WORDS


def _merged(*founds: Found) -> dict[str, list[str]]:
    merged: dict[str, dict[str, None]] = {}
    for found in founds:
        for table, ids in found.items():
            merged.setdefault(table, {}).update(dict.fromkeys(ids))
    return {table: list(ids) for table, ids in merged.items()}
