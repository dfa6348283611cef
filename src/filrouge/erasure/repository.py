"""Forgetting in one database: which rows are affected, the deletion, and signed receipts.

Everything happens in the caller's transaction. The same code runs on the database in use, on every backup of the home,
and on an older database that was put back. Derived rows are queued to be rebuilt; in a backup those jobs wait until it
is opened.

Deleted rows are overwritten in the file (`secure_delete`) once the write-ahead log is truncated, which the caller does.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import Turn
from filrouge.capture.repository import Turns
from filrouge.core.clock import from_text, to_text
from filrouge.core.errors import BadInput, Busy, NotFound
from filrouge.core.protocols import Analyser, Tx
from filrouge.core.rows import require_row
from filrouge.erasure.models import AffectedRow, Effect, MatchReason, Receipt
from filrouge.erasure.tombstones import Tombstone, TombstoneHasher
from filrouge.extraction.repository import Analyses, Session, output_hash
from filrouge.extraction.sessions import queue_digest
from filrouge.extraction.understanding import EXTRACT
from filrouge.memories.models import longest_ascii_run
from filrouge.memories.repository import Memories, StateStore
from filrouge.notes.repository import StoredVault
from filrouge.runtime import journal as seals
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.journal import Journal
from filrouge.runtime.repository import as_json, by_table, session_pairs, unique
from filrouge.runtime.services import StoreContext
from filrouge.search.repository import NEED_VECTORS_JOB, FullTextIndex
from filrouge.threads.bridge_service import queue_bridges
from filrouge.threads.repository import Syntheses, ThreadErasing, Threads
from filrouge.threads.synthesis_service import queue_synthesis
from filrouge.threads.upkeep import refresh_names_and_vectors

# Erasing memories and turns.


class ErasedIds(Struct, frozen=True, kw_only=True):
    """The ids to erase: memories, turns, and the events whose payloads contain the turns."""

    memories: tuple[str, ...]
    turns: tuple[str, ...]
    events: tuple[str, ...]


class EraseRepository:
    """Deletes memories and turns from every table; the journal keeps its chain without their text.

    Erasing a memory erases the turns that it cites, because they contain its words. Erasing a turn empties the payload
    of its event. Nothing else is erased unless it was named: if another memory rests only on such a turn, the request
    is refused and the error names that memory. A memory with other evidence keeps its text and loses this evidence. A
    turn that repeats the words, but is not cited by an erased memory, stays. A thread is deleted with its last turn.
    Erasing a turn of an analysed session also erases what was derived from it: summaries, the state of its work,
    concepts that no other session mentions, and what was kept of tool output.
    """

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._memories = Memories(tx, analyser)
        self._turns = Turns(tx, analyser)
        self._words = {"memory": FullTextIndex(tx, analyser, "memory"), "turn": FullTextIndex(tx, analyser, "turn")}
        self._analyses = Analyses(tx, analyser)
        self._journal = Journal(tx)

    def affected(self, ids: Collection[str]) -> ErasedIds:
        """Return everything that is erased with the memories and turns of these ids.

        Raises:
            BadInput: a memory that was not named has no evidence besides what would be erased.
            Busy: a transcript that may contain one of the turns is queued to be read and would bring it back.
            NotFound: no memory or turn has one of these ids.
        """
        requested = tuple(dict.fromkeys(ids))
        memories = tuple(self._memories.some(requested))
        named_turns = tuple(turn.id for turn in self._turns.get(requested))
        for unknown in [id_ for id_ in requested if id_ not in memories and id_ not in named_turns]:
            raise NotFound(f"There is no memory and no turn {unknown!r}.")
        cited = [row["turn_id"] for row in self._tx.all("evidence.of", {"ids": json.dumps(memories)})]
        turns = self._turns.get(tuple(dict.fromkeys([*named_turns, *cited])))
        turn_ids = tuple(turn.id for turn in turns)
        self._refuse_orphans(memories, turn_ids)
        sessions = sorted({(turn.host, turn.scope.session) for turn in turns})
        if self._tx.one("jobs.reading", {"sessions": json.dumps(sessions)}):
            raise Busy(
                "A transcript that may contain this text is queued to be read.", remedy="Try again in a few seconds."
            )
        derived = self._analyses.derived_memories(self._analyses.about(memories, turn_ids))
        memories = tuple(dict.fromkeys([*memories, *derived]))
        events = tuple(dict.fromkeys(turn.event_id for turn in turns if turn.event_id))
        return ErasedIds(memories=memories, turns=turn_ids, events=events)

    def carry_out(self, erased: ErasedIds, *, at: datetime, actor: str) -> int:
        """Delete the rows and journal each without its text; return how many old entries lost their payload."""
        memories, turns, events = (json.dumps(group) for group in (erased.memories, erased.turns, erased.events))
        self._tx.run("answered.empty")
        erased_turns = self._turns.get(erased.turns)
        erased_rows = [*self._memories.some(erased.memories).values(), *erased_turns]
        sessions = self._analyses.about(erased.memories, erased.turns)
        texts = json.dumps([row.text for row in erased_rows])
        quoting_entries = self._tx.all("journal.quoting", {"memories": memories, "turns": turns, "texts": texts})
        self._tx.run("journal.redact", {"seqs": json.dumps([row["seq"] for row in quoting_entries])})
        repeated = [row["id"] for row in self._tx.all("recalls.quoting", {"texts": texts})]
        self._tx.run("recalls.erase", {"ids": json.dumps(repeated)})
        self._tx.run("jobs.erase", {"dedupe_keys": json.dumps(jobs_about(erased, erased_turns))})
        self._analyses.forget(sessions, erased.memories)
        Syntheses(self._tx).forget(erased.turns)
        self._tx.run("informed.erase", {"hashes": json.dumps([output_hash(turn.text) for turn in erased_turns])})
        self._words["memory"].remove(erased.memories)
        self._words["turn"].remove(erased.turns)
        self._tx.run("vectors.erase", {"owner_kind": "memory", "ids": memories})
        self._tx.run("vectors.erase", {"owner_kind": "turn", "ids": turns})
        if self._tx.run("need_vectors.erase", {"memories": memories, "turns": turns}):
            Jobs(self._tx).enqueue(NEED_VECTORS_JOB, {"after": 0}, dedupe=NEED_VECTORS_JOB, at=at)
        self._tx.run("evidence.erase", {"memories": memories, "turns": turns})
        self._tx.run("doubts.erase", {"ids": memories})
        self._tx.run("reviews.erase", {"ids": memories})
        self._tx.run("reviews.unlink", {"ids": memories})
        self._tx.run("memories.unlink", {"ids": memories})
        self._tx.run("memories.unfollow", {"ids": memories})
        self._tx.run("memories.erase", {"ids": memories})
        ThreadErasing(self._tx).remove_turns(erased.turns)
        self._tx.run("unread.erase", {"turns": turns})
        self._tx.run("turns.erase", {"ids": turns})
        self._tx.run("events.erase", {"ids": events})
        for id_ in (*erased.memories, *erased.turns):
            self._journal.append(at=at, actor=actor, action="erase", subject_id=id_, payload={"reason": "asked for"})
        return len(quoting_entries)

    def _refuse_orphans(self, memories: Sequence[str], turns: Sequence[str]) -> None:
        evidence: dict[str, set[str]] = {}
        for row in self._tx.all("evidence.citing", {"turns": json.dumps(turns)}):
            evidence.setdefault(row["memory_id"], set()).add(row["turn_id"])
        orphans = [id_ for id_, cited in evidence.items() if id_ not in memories and cited <= set(turns)]
        if orphans:
            raise BadInput(
                f"Other memories have no evidence besides the same words: {', '.join(sorted(orphans))}.",
                remedy="Erase them together, or leave all of them.",
            )


def jobs_about(erased: ErasedIds, turns: Sequence[Turn]) -> list[str]:
    """Return the names of jobs that would read the erased rows, or have read them but not written a result."""
    turn_jobs = [f"{kind}:{id_}" for kind in ("analyse", "index_turn", "thread", "reconsider") for id_ in erased.turns]
    session_kinds = ("digest", "synthesise", "recount")
    turn_jobs += {f"{kind}:{turn.host}:{turn.scope.session}" for turn in turns for kind in session_kinds}
    turn_jobs += {f"synthesise:{turn.host}:{turn.scope.session}:again" for turn in turns}
    return [
        NEED_VECTORS_JOB,
        *turn_jobs,
        *(f"index_memory:{id_}" for id_ in erased.memories),
        *(f"read_turns:{e}" for e in erased.events),
    ]


# Forgetting rows with everything that depends on them.

RowIds = Mapping[str, Collection[str]]
"""Ids by the name of their table."""
_EXCERPT: Final = 160
_MAX_SINGLE_SEARCHES: Final = 12


class ForgetPlan(Struct, frozen=True, kw_only=True):
    """Every row that is deleted or changed.

    Attributes:
        erased: rows that are deleted with their own text.
        shared: erased memories that were not requested, but have no other evidence.
        recounted: concepts that other sessions also mention; their counts change.
        sessions: analysed sessions to analyse again.
        synthesis_sessions: sessions whose syntheses are made again.
        syntheses: ids of the syntheses that are deleted.
        ended_threads: threads without any turn left.
        changed_threads: threads that lose a turn or contain the words; they get a new title.
        renamed_threads: those of the changed threads whose own title or summary contains the words.
        bridges: bridges to compute again.
        reasons: bridges that stay but lose their reason.
        journal: numbers of the entries that lose their payload.
        recalls: recalls whose texts are emptied, because they repeat an erased text.
        jobs: queued jobs that are dropped, because they would read an erased row.
        informed: hashes in `informed_outputs` of erased tool outputs.
        unread: deleted model answers; they could not be read and may repeat an erased turn.
        reviews: reviews of other memories; they lose their reason.
        topics: turns that stay but lose their topics.
        decisions: numbers of the thread decisions that lose their reason.
        notes: paths of vault notes that leave the index; the files belong to the user and stay.
        chunks: chunks of notes that leave the index, including chunks of other notes.
        passages: texts of those chunks.
        texts: texts of the erased memories and turns.
        other_texts: titles, reasons and values that are removed.
        keys: host, session and key of the delivered messages.
    """

    erased: ErasedIds
    shared: tuple[str, ...]
    recounted: tuple[str, ...]
    sessions: tuple[Session, ...]
    synthesis_sessions: tuple[Session, ...]
    syntheses: tuple[str, ...]
    ended_threads: tuple[str, ...]
    changed_threads: tuple[str, ...]
    renamed_threads: tuple[str, ...]
    bridges: tuple[str, ...]
    reasons: tuple[str, ...]
    journal: tuple[str, ...]
    recalls: tuple[str, ...]
    jobs: tuple[str, ...]
    informed: tuple[str, ...]
    unread: tuple[str, ...]
    reviews: tuple[str, ...]
    topics: tuple[str, ...]
    decisions: tuple[str, ...]
    notes: tuple[str, ...]
    chunks: tuple[str, ...]
    passages: tuple[str, ...]
    texts: tuple[str, ...]
    other_texts: tuple[str, ...]
    keys: tuple[tuple[str, str, str], ...]


class ForgetRepository:
    """Finds and deletes what is to be forgotten in one database.

    A `ForgetPlan` lists each row by table and id before anything is written, and only those rows are written. It
    extends from a memory to all its versions, to the turns that they cite, to memories that would lose all their
    evidence, and to everything derived from their sessions and threads, until nothing new is found.
    """

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._memories = Memories(tx, analyser)
        self._turns = Turns(tx, analyser)
        self._analyses = Analyses(tx, analyser)
        self._erasing = EraseRepository(tx, analyser)

    def rows_containing(self, texts: Sequence[str]) -> dict[str, list[str]]:
        """Return the rows that contain one of these texts (see `memories.models.contains_any`), by table."""
        # A few texts are searched one by one, so SQLite can skip rows without their longest run of plain letters.
        search_singly = len(texts) <= _MAX_SINGLE_SEARCHES
        searches = (
            [([text], f"%{longest_ascii_run(text)}%") for text in texts] if search_singly else [(list(texts), "%")]
        )
        found: dict[str, dict[str, None]] = {}
        for group, letters in searches:
            parameters = {"words": json.dumps(group), "run": letters}
            for row in self._tx.all("exact.found", parameters):
                found.setdefault(row["place"], {})[row["id"]] = None
        return {table: list(ids) for table, ids in found.items()}

    def is_within(self, word: str) -> bool:
        """Return True if a row contains these letters, even inside a longer word.

        Then a file with these letters need not contain the word itself.
        """
        escaped = word.strip().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return self._tx.one("exact.within", {"like": f"%{escaped}%"}) is not None

    def tables_with(self, id_: str) -> list[str]:
        """Return the tables that have a row with this id."""
        return [row["place"] for row in self._tx.all("forgetting.known", {"id": id_})]

    def texts_of(self, id_: str) -> list[str]:
        """Return the texts of the row with this id."""
        texts = [item.text for item in self._memories.some([id_]).values()] + [
            item.text for item in self._turns.get([id_])
        ]
        return texts + list(self._other_texts((), [id_], [id_]))

    def newest_rows(self) -> tuple[int, ...]:
        """Return the highest row numbers of the source tables; they change as soon as a row is added."""
        row = self._tx.one("forgetting.newest")
        return tuple(int(value) for value in row.values()) if row else ()

    def is_queued(self, text: str) -> bool:
        """Return True while an event with this text is queued and not yet processed."""
        return self._tx.one("forgetting.queued", {"words": json.dumps([text])}) is not None

    def is_transcript_queued(self, sessions: Sequence[Session]) -> bool:
        """Return True while a transcript of one of these sessions is queued or being read."""
        return self._tx.one("jobs.reading", as_json(sessions=session_pairs(sessions))) is not None

    def make_due(self, sessions: Sequence[Session], now: datetime) -> None:
        """Make the queued transcript reads of these sessions due now."""
        self._tx.run("jobs.hasten", as_json(sessions=session_pairs(sessions)) | {"now": to_text(now)})

    def present(self, ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the memories, turns and events with these ids that still have their text, by table."""
        return by_table(self._tx.all("forgetting.present", as_json(ids=ids)))

    def with_turns(self, found: RowIds) -> dict[str, list[str]]:
        """Return the same rows, with the turns of the named events and threads added."""
        of_events = self._ids("forgetting.turns_of_events", {"ids": found.get("events", ())})
        threads = [row["id"] for row in self._tx.all("threads.with_merged", as_json(ids=found.get("threads", ())))]
        of_threads = self._ids("forgetting.turns_of_threads", {"ids": threads})
        turns = list(dict.fromkeys([*found.get("turns", ()), *of_events, *of_threads]))
        return {table: list(ids) for table, ids in found.items()} | {"turns": turns}

    def plan(self, found: RowIds) -> ForgetPlan:
        """Return everything that is deleted or changed with these rows."""
        memories, turns, shared, sessions = self._expand(found)
        erased_turns = self._turns.get(turns)
        events = [*found.get("events", ()), *(turn.event_id for turn in erased_turns if turn.event_id)]
        erased = ErasedIds(memories=memories, turns=turns, events=tuple(dict.fromkeys(events)))
        texts = tuple(dict.fromkeys(item.text for item in (*self._memories.some(memories).values(), *erased_turns)))
        threads = ThreadErasing(self._tx)
        affected_threads = list(dict.fromkeys([*threads.threads_of(turns), *found.get("threads", ())]))
        ended_threads = tuple(threads.emptied(affected_threads, except_turns=turns))
        changed_threads = tuple(id_ for id_ in affected_threads if id_ not in ended_threads)
        bridges = self._ids("forgetting.bridges", {"ended": ended_threads, "changed": changed_threads})
        named_bridges = found.get("bridges", ())
        renamed_threads = tuple(id_ for id_ in found.get("threads", ()) if id_ not in ended_threads)
        synthesis_sessions = list(Syntheses(self._tx).sessions(turns))
        synthesis_sessions += self._sessions("forgetting.sessions_of_syntheses", {"ids": found.get("syntheses", ())})
        synthesis_sessions = list(dict.fromkeys(synthesis_sessions))
        syntheses = self._ids(
            "forgetting.syntheses", {"threads": ended_threads, "sessions": session_pairs(synthesis_sessions)}
        )
        quoting_entries = self._tx.all("journal.quoting", as_json(memories=memories, turns=turns, texts=texts))
        keys = jobs_about(erased, erased_turns)
        notes = tuple(found.get("vault_notes", ()))
        passages = StoredVault(self._tx).texts_of(found.get("vault_chunks", ()), notes)
        return ForgetPlan(
            erased=erased,
            shared=shared,
            recounted=self._ids("forgetting.recounted", {"sessions": session_pairs(sessions), "memories": memories}),
            sessions=sessions,
            synthesis_sessions=tuple(synthesis_sessions),
            syntheses=syntheses,
            ended_threads=ended_threads,
            changed_threads=changed_threads,
            renamed_threads=renamed_threads,
            bridges=bridges,
            reasons=tuple(id_ for id_ in named_bridges if id_ not in bridges),
            journal=unique([*found.get("journal", ()), *(str(row["seq"]) for row in quoting_entries)]),
            recalls=unique([*found.get("memory_retrievals", ()), *self._ids("recalls.quoting", {"texts": texts})]),
            jobs=unique([*found.get("jobs", ()), *self._ids("jobs.about", {"dedupe_keys": keys})]),
            informed=unique([*found.get("informed_outputs", ()), *(output_hash(turn.text) for turn in erased_turns)]),
            unread=unique([*found.get("unread_answers", ()), *self._ids("forgetting.unread", {"turns": turns})]),
            reviews=tuple(id_ for id_ in found.get("reviews", ()) if id_ not in memories),
            topics=tuple(id_ for id_ in found.get("thread_turns", ()) if id_ not in turns),
            decisions=tuple(found.get("thread_decisions", ())),
            notes=notes,
            chunks=tuple(passages),
            passages=tuple(passages.values()),
            texts=texts,
            other_texts=self._other_texts(memories, [*renamed_threads, *ended_threads], named_bridges),
            keys=self._keys(erased),
        )

    def rows(self, plan: ForgetPlan, exact: RowIds, related: Mapping[str, float]) -> tuple[AffectedRow, ...]:
        """Return every row that the plan deletes or changes.

        Args:
            exact: rows that contain the words.
            related: relevance by id, for rows that a search found.
        """
        exact_keys = {(table, id_) for table, ids in exact.items() for id_ in ids}
        found = self._tx.all("forgetting.rows", _parameters(plan))
        return tuple(_affected_row(row, exact_keys, related) for row in found)

    def carry_out(self, plan: ForgetPlan, *, at: datetime, actor: str) -> None:
        """Carry out a plan; each deleted memory and turn leaves a journal entry without text."""
        self._tx.run("journal.redact", {"seqs": json.dumps([int(seq) for seq in plan.journal])})
        self._tx.run("recalls.empty", as_json(ids=plan.recalls))
        self._tx.run("jobs.drop", as_json(ids=plan.jobs))
        self._tx.run("informed.erase", as_json(hashes=plan.informed))
        self._tx.run("forgetting.unanswer", as_json(ids=plan.unread))
        self._tx.run("forgetting.unreview", as_json(ids=plan.reviews))
        self._tx.run("forgetting.untopic", as_json(ids=plan.topics))
        self._tx.run("forgetting.undecide", {"ids": json.dumps([int(seq) for seq in plan.decisions])})
        self._tx.run("forgetting.unreason", as_json(ids=plan.reasons))
        self._tx.run("bridges.drop", as_json(ids=plan.bridges))
        self._tx.run("forgetting.unsum", as_json(ids=plan.syntheses))
        StoredVault(self._tx).forget(plan.chunks, plan.notes)
        self._analyses.forget(plan.sessions, plan.erased.memories)
        self._erasing.carry_out(plan.erased, at=at, actor=actor)
        journal = Journal(self._tx)
        for id_ in (*plan.renamed_threads, *plan.reasons):
            journal.append(at=at, actor=actor, action="erase", subject_id=id_, payload={"reason": "its words"})

    def _expand(self, found: RowIds) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[Session, ...]]:
        """Extend the rows to their dependents.

        Returns:
            Memories; turns; the memories among them that have no other evidence; the analysed sessions.
        """
        memories, turns = dict.fromkeys(found.get("memories", ())), dict.fromkeys(found.get("turns", ()))
        named = {*found.get("session_analyses", ()), *found.get("analysis_cache", ())}
        named_sessions = [Session(host=host, id=id_) for key in sorted(named) for host, _, id_ in [key.partition(" ")]]
        shared = dict[str, None]()
        sessions: tuple[Session, ...] = ()
        size = -1
        while size != (size := len(memories) + len(turns) + len(sessions)):
            memories |= dict.fromkeys(StateStore(self._tx).with_versions(tuple(memories)))
            turns |= dict.fromkeys(row["turn_id"] for row in self._tx.all("evidence.of", as_json(ids=memories)))
            unproven = self._without_other_evidence(memories, turns)
            shared |= dict.fromkeys(unproven)
            memories |= dict.fromkeys(unproven)
            about = self._analyses.about(tuple(memories), tuple(turns))
            sessions = tuple(dict.fromkeys([*named_sessions, *about]))
            memories |= dict.fromkeys(self._analyses.derived_memories(sessions))
        return tuple(memories), tuple(turns), tuple(shared), sessions

    def _without_other_evidence(self, memories: Collection[str], turns: Collection[str]) -> list[str]:
        """Return the memories whose whole evidence is in these turns."""
        evidence: dict[str, set[str]] = {}
        for row in self._tx.all("evidence.citing", as_json(turns=turns)):
            evidence.setdefault(row["memory_id"], set()).add(row["turn_id"])
        return [id_ for id_, cited in evidence.items() if id_ not in memories and cited <= set(turns)]

    def _other_texts(
        self, memories: Sequence[str], threads: Sequence[str], bridges: Collection[str]
    ) -> tuple[str, ...]:
        parameters = as_json(memories=memories, threads=threads, bridges=bridges)
        return tuple(row["text"] for row in self._tx.all("forgetting.sayings", parameters) if row["text"])

    def _keys(self, erased: ErasedIds) -> tuple[tuple[str, str, str], ...]:
        rows = self._tx.all("forgetting.keys", as_json(events=erased.events, turns=erased.turns))
        return tuple((row["host"], row["session_id"], row["key"]) for row in rows)

    def _ids(self, name: str, lists: Mapping[str, Collection[object]]) -> tuple[str, ...]:
        return tuple(str(row["id"]) for row in self._tx.all(name, as_json(**lists)))

    def _sessions(self, name: str, lists: Mapping[str, Collection[object]]) -> list[Session]:
        return [Session(host=row["host"], id=row["session_id"]) for row in self._tx.all(name, as_json(**lists))]


def _affected_row(
    row: Mapping[str, Any], exact_keys: set[tuple[str, str]], related: Mapping[str, float]
) -> AffectedRow:
    table, id_ = str(row["place"]), str(row["id"])
    how: MatchReason = "exact" if (table, id_) in exact_keys else "related" if id_ in related else "tied"
    content = f"{row['deed']}\n{row['content']}".encode("utf-8", "surrogatepass")
    return AffectedRow(
        table=table,
        id=id_,
        deed=cast("Effect", row["deed"]),
        how=how,
        excerpt=" ".join(str(row["words"] or "")[: 2 * _EXCERPT].split())[:_EXCERPT],
        relevance=related.get(id_),
        content=hashlib.sha256(content).hexdigest(),
    )


def _parameters(plan: ForgetPlan) -> dict[str, object]:
    return as_json(
        memories=plan.erased.memories, turns=plan.erased.turns, events=plan.erased.events,
        recounted=plan.recounted, sessions=session_pairs(plan.sessions), syntheses=plan.syntheses,
        ended=plan.ended_threads, changed=plan.changed_threads, bridges=plan.bridges, reasons=plan.reasons,
        recalls=plan.recalls, jobs=plan.jobs, informed=plan.informed, unread=plan.unread, reviews=plan.reviews,
        topics=plan.topics, notes=plan.notes, chunks=plan.chunks,
        journal=[int(seq) for seq in plan.journal], decisions=[int(seq) for seq in plan.decisions],
    )  # fmt: skip


# Signed receipts.


class Receipts:
    """The table of receipts: signed counts of what was forgotten, never the text."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def put(self, receipt: Receipt, key: bytes) -> Receipt:
        """Sign and store a receipt, or an updated version of it."""
        signed = receipt.with_signature(sign(receipt, key))
        row = {
            "id": signed.id,
            "at": to_text(signed.at),
            "actor": signed.actor,
            "content": json.dumps(dict(signed.content), ensure_ascii=True),
            "signature": signed.signature,
        }
        self._tx.run("receipts.put", row)
        return signed

    def get(self, id_: str) -> Receipt:
        """Return one receipt.

        Raises:
            NotFound: there is no receipt with this id.
        """
        remedy = "List them with `filrouge forget --receipts`."
        return _receipt(require_row(self._tx, "receipts.get", {"id": id_}, what=f"receipt {id_!r}", remedy=remedy))

    def all(self, limit: int) -> list[Receipt]:
        """Return the newest receipts, newest first."""
        return [_receipt(row) for row in self._tx.all("receipts.all", {"limit": limit})]


def sign(receipt: Receipt, key: bytes) -> bytes:
    """Return the signature over a receipt's id, content, date and actor.

    It is an HMAC-SHA-256 under the key of the home. It proves to the holder of the key that the receipt was made in
    this home and not changed. It proves nothing to others, because the holder could forge any receipt.
    """
    content = {"id": receipt.id, "at": to_text(receipt.at), "actor": receipt.actor, "content": dict(receipt.content)}
    return hmac.digest(key, b"receipt\0" + seals.canonical(content), hashlib.sha256)


def is_signature_valid(receipt: Receipt, key: bytes | None) -> bool:
    """Return True if the signature is valid under this home's key."""
    return key is not None and hmac.compare_digest(sign(receipt, key), receipt.signature)


def _receipt(row: dict[str, Any]) -> Receipt:
    return Receipt(
        id=row["id"],
        at=from_text(row["at"]),
        actor=row["actor"],
        content=json.loads(row["content"]),
        signature=row["signature"],
    )


#: Title of a thread that has lost its own title, until it is named again.
_PLACEHOLDER_TITLE = "…"


def carry_out(parts: StoreContext, tx: Tx, plan: ForgetPlan, *, at: datetime, actor: str, space_id: str) -> None:
    """Carry out a plan, and queue the rebuilding of what was derived from the deleted rows.

    Args:
        space_id: the embedding space for the vectors of changed threads.
    """
    extraction_jobs = [f"{EXTRACT}:{one.host}:{one.id}" for one in plan.synthesis_sessions]
    waiting = [name for name in extraction_jobs if Jobs(tx).get_by_key(name)]
    Jobs(tx).drop(waiting)  # a model may be reading a deleted text right now; its answer is discarded
    ForgetRepository(tx, parts.analyser).carry_out(plan, at=at, actor=actor)
    for session in plan.sessions:
        queue_digest(parts, tx, session)
    for session in plan.synthesis_sessions:
        queue_synthesis(parts, tx, session, "quiet")
        name = f"{EXTRACT}:{session.host}:{session.id}"
        if name in waiting:
            Jobs(tx).enqueue(EXTRACT, {"host": session.host, "session": session.id}, dedupe=name, at=at)
    changed = Threads(tx).some(plan.changed_threads)
    renamed = set(plan.renamed_threads)
    untitled = [
        replace(one, title=_PLACEHOLDER_TITLE, title_by="rules", summary="", topics=())
        for one in changed
        if one.id in renamed
    ]
    for thread in untitled:
        Threads(tx).update(thread)
    refresh_names_and_vectors(parts, tx, [*untitled, *(one for one in changed if one.id not in renamed)], space_id)
    for thread in changed:
        if thread.merged_into is None:
            queue_bridges(parts, tx, thread.id)


def tombstones_of(plan: ForgetPlan, hasher: TombstoneHasher, at: datetime) -> list[Tombstone]:
    """Return the tombstones of a plan: its rows, the keys by which hosts identify them, and every deleted text."""
    rows = [*plan.erased.memories, *plan.erased.turns, *plan.erased.events, *plan.syntheses, *plan.reasons]
    rows += [*plan.recalls, *plan.unread, *plan.informed]
    found = [Tombstone(hash=hasher.row(id_), kind="row", at=at) for id_ in rows]
    found += [Tombstone(hash=hasher.key(*key), kind="key", at=at) for key in plan.keys]
    texts = dict.fromkeys((*plan.texts, *plan.other_texts, *plan.passages, *plan.notes))
    # An older database may split a file differently, so a note there is forgotten as a whole if any chunk of it was.
    split_notes = dict.fromkeys(path for path, _, _ in (id_.rpartition("#") for id_ in plan.chunks))
    found += [Tombstone(hash=hasher.row(path), kind="row", at=at) for path in split_notes]
    return found + [Tombstone(hash=hasher.text(text), kind="text", at=at) for text in texts if text.strip()]


def describe_rebuilding(plan: ForgetPlan) -> tuple[str, ...]:
    """Return what is rebuilt without the deleted rows, as text for the user."""
    lines = [
        _count_line(len(plan.changed_threads), "thread gets a new title, vectors, bridges and summary"),
        _count_line(len(plan.sessions), "session is summarised again, with its concepts"),
        _count_line(len(plan.synthesis_sessions), "session gets a new synthesis"),
        _count_line(len(plan.recounted), "concept is counted again"),
        "the briefs of all projects are written again",
    ]
    if plan.erased.memories or plan.erased.turns:
        lines.append("the word index of a large table is rebuilt")
    return tuple(line for line in lines if line)


def _count_line(count: int, what: str) -> str:
    return f"{count} × {what}" if count else ""
