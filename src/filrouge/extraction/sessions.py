"""Session analysis: on request, and in the background.

The background job runs when a session ends, is compacted or becomes idle. An analysis is stored as an episode and as
mentions of concepts. An analysed session is read from where the last analysis ended. A request with the same history
within an hour is answered from the cache. Preferences are extracted statement by statement elsewhere; an analysis never
stores a second copy of one.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import TRUST_AGENT, Turn
from filrouge.capture.programs import History, read_history, store_history
from filrouge.core.clock import Clock, add_seconds, monotonic
from filrouge.core.errors import Busy
from filrouge.core.protocols import Analyser, Tx
from filrouge.core.rows import number_of
from filrouge.core.scope import Scope
from filrouge.extraction.models import EMPTY_ANALYSIS, Analysis
from filrouge.extraction.repository import Analyses, Session
from filrouge.extraction.summaries import Rarity, asked_words, speaker_of
from filrouge.extraction.understanding import trim_tool_output
from filrouge.memories.repository import Origin
from filrouge.projects.repository import Projects
from filrouge.runtime.executors import PeriodicTask
from filrouge.runtime.jobs import JobResult, Jobs, Payload
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.repository import FullTextIndex
from filrouge.threads.placing import queue_quiet_projects
from filrouge.threads.synthesis_service import queue_quiet

# Analysis on request.

HOST: Final = "library"
#: The answer to a program if the user switched extraction off.
DISABLED: Final[Mapping[str, Any]] = {"error": "extraction_disabled"}


class Material(Struct, frozen=True, kw_only=True):
    """The new turns of a session, and its former analysis.

    Attributes:
        turns: the turns to read, oldest first.
        stored: the captured ones of these turns; they must still be in the database when the result is written.
        until: the sequence number of the last turn; the next analysis starts after it.
        former: the analysis of the turns before these; empty for a session that is read from its beginning.
        scope: where the memories of the analysis belong; it names no agent.
        history_hash: the cache key, a hash of the roles and texts of the whole session.
    """

    session: Session
    turns: tuple[Turn, ...]
    stored: tuple[Turn, ...]
    until: int
    former: Analysis
    scope: Scope
    history_hash: str


def analyze_session_for_concepts(
    parts: Parts,
    session_id: str,
    history: History | None = None,
    force: bool = False,
    user_id: str | None = None,
) -> dict[str, Any]:
    """Analyse a session and store the result.

    Args:
        parts: the services.
        session_id: the id of the session.
        history: its messages; they replace the captured turns.
        force: read everything again, ignoring the cache and former analyses.
        user_id: the owner of the session; None takes the owner of the captured turns.

    Returns:
        `summary`, `concepts` and `entities`; or `error` if extraction is switched off.

    Raises:
        BadInput: a message of the history has no role or no text.
    """
    if not parts.extracting():
        return dict(DISABLED)
    session = parts.readers.here(lambda tx: _session(parts.analyser, tx, session_id))
    messages = read_history(parts.clock, parts.redact, session, history or ())
    digest = _hash(messages) if messages else parts.readers.here(lambda tx: _hash_of(parts.analyser, tx, session))
    cached = None if force else parts.readers.here(lambda tx: _cached(parts.clock, parts.analyser, tx, session, digest))
    parts.metrics.count_cache_lookup(hit=cached is not None)
    if cached is not None:
        return analysis_fields(cached)
    if messages:
        kept, scope = store_history(parts, session, messages, user_id)
        until = parts.readers.here(lambda tx: Analyses(tx, parts.analyser).turns(session)[1]) if kept else 0
        material = Material(
            session=session, turns=tuple(messages), stored=(), until=until, former=EMPTY_ANALYSIS, scope=scope,
            history_hash=digest,
        )  # fmt: skip
    else:
        material = parts.readers.here(lambda tx: load_material(parts.analyser, tx, session, digest, force=force))
    return analysis_fields(_analyse_and_store(parts, material))


def analyze_history(parts: Parts, session_id: str, history: History) -> dict[str, Any]:
    """Analyse messages without storing anything; a cached answer is returned if there is one.

    Raises:
        BadInput: a message of the history has no role or no text.
    """
    if not parts.extracting():
        return dict(DISABLED)
    session = parts.readers.here(lambda tx: _session(parts.analyser, tx, session_id))
    messages = read_history(parts.clock, parts.redact, session, history)
    cached = parts.readers.here(lambda tx: _cached(parts.clock, parts.analyser, tx, session, _hash(messages)))
    return analysis_fields(cached or analyse_turns(parts, messages, EMPTY_ANALYSIS))


def load_material(analyser: Analyser, tx: Tx, session: Session, digest: str = "", *, force: bool = False) -> Material:
    """Return the new turns of a captured session with its former analysis; with `force`, all turns."""
    store = Analyses(tx, analyser)
    before = None if force else store.of(session)
    behind = before.until if before and before.analysis != EMPTY_ANALYSIS else 0
    turns, until = store.turns(session, behind=behind)
    last = turns[-1].scope if turns else Scope(channel=session.host, session=session.id)
    return Material(
        session=session,
        turns=tuple(turns),
        stored=tuple(turns),
        until=until,
        former=before.analysis if before else EMPTY_ANALYSIS,
        scope=replace(last, agent=""),
        history_hash=digest or _hash_of(analyser, tx, session),
    )


def analyse_turns(parts: Parts, turns: Sequence[Turn], former: Analysis) -> Analysis:
    """Analyse turns; failures are counted by provider.

    Raises:
        Exception: any error of the analyst.
    """
    begun = monotonic()
    try:
        rarity, projects = parts.readers.here(lambda tx: _load_background(parts.analyser, tx, turns))
        found = parts.analyst(turns, former=former, rarity=rarity, projects=projects)
    except Exception as error:
        parts.metrics.record_analysis_failure(getattr(error, "provider", "heuristic"), error)
        raise
    parts.metrics.record_analysis(found.made_by.partition("/")[0], monotonic() - begun)
    return found


def analyse_material(parts: Parts, material: Material) -> Analysis:
    """Return the analysis of the session including its new turns; without new turns, the former analysis."""
    if not material.turns:
        return material.former
    turns = trim_tool_output(parts, material.turns) if material.stored else material.turns
    return analyse_turns(parts, turns, material.former)


def store_analysis(clock: Clock, analyser: Analyser, tx: Tx, material: Material, analysis: Analysis) -> int:
    """Store an analysis in the caller's transaction; return how many memories it created.

    Raises:
        Busy: some of its turns were erased meanwhile.
    """
    store, now = Analyses(tx, analyser), clock.now()
    if not store.all_exist(material.stored):
        raise Busy("The session changed while it was being read.", remedy="Try again.")
    session = material.session
    origin = Origin(
        scope=material.scope, trust=TRUST_AGENT, at=now, made_by=analysis.made_by.partition("/")[0], actor="digest"
    )
    made = store.keep(session, analysis, material.until, origin)
    store.cache(session, material.history_hash, analysis, now)
    Jobs(tx).enqueue(
        "brief", {"project": material.scope.project, "everywhere": True}, dedupe="brief:everywhere", at=now
    )
    return made


def analysis_fields(analysis: Analysis) -> dict[str, Any]:
    """Return the fields of an analysis that programs get."""
    return {
        "summary": analysis.summary,
        "concepts": list(analysis.concepts),
        "entities": [
            {"name": entity.name, "type": entity.type, "mentions": entity.mentions} for entity in analysis.entities
        ],
    }


def _analyse_and_store(parts: Parts, material: Material) -> Analysis:
    analysis = analyse_material(parts, material)
    if not material.turns:
        return analysis
    parts.writer.run(lambda tx: store_analysis(parts.clock, parts.analyser, tx, material, analysis))
    parts.work_waiting.set()
    return analysis


def _session(analyser: Analyser, tx: Tx, session_id: str) -> Session:
    return Analyses(tx, analyser).find(session_id) or Session(host=HOST, id=session_id)


def _cached(clock: Clock, analyser: Analyser, tx: Tx, session: Session, digest: str) -> Analysis | None:
    return Analyses(tx, analyser).cached(session, digest, clock.now())


def _hash_of(analyser: Analyser, tx: Tx, session: Session) -> str:
    return _hash(Analyses(tx, analyser).turns(session)[0])


def _hash(turns: Sequence[Turn]) -> str:
    """Return the SHA-256 of the roles and texts, in order."""
    messages = json.dumps([[turn.role, turn.text] for turn in turns], ensure_ascii=True)
    return hashlib.sha256(messages.encode()).hexdigest()


def _load_background(analyser: Analyser, tx: Tx, turns: Sequence[Turn]) -> tuple[Rarity, list[str]]:
    """Return a function for the rarity of words in all turns, and the names of projects."""
    words = sorted(asked_words(turns))
    having = FullTextIndex(tx, analyser, "turn").frequencies(words)
    total = number_of(tx, "turns.count")
    weight = math.log1p(total) or 1.0

    def rarity(word: str) -> float:
        """Return the inverse document frequency over all turns: from 0.5 (in every turn) to 1.5."""
        return 0.5 + math.log((1 + total) / (1 + min(having.get(word, 0), total))) / weight

    return rarity, [str(row["name"]) for row in Projects(tx).all()]


# Digests: background analysis of sessions, one job per session, behind all other work. Further requests join the
# waiting job. A session with almost no text is marked as analysed and creates no memory; if it continues, it is read
# from its beginning.

#: Minimum messages of user or agent for a session to be summarised.
MIN_MESSAGES: Final = 2
#: Delay after an event that announces a transcript; the transcript is read two seconds after it.
AFTER_TRANSCRIPT_SECONDS: Final = 4.0
IDLE_SECONDS: Final = 15 * 60.0
_WATCH_SECONDS: Final = 60.0
#: How many of the newest turns are searched for idle sessions (some days of one user's work), and sessions per run.
_MAX_NEWEST_TURNS, _MAX_SESSIONS = 2000, 20


def queue_digest(parts: StoreContext, tx: Tx, session: Session, *, delay: float = 0.0) -> None:
    """Queue the analysis of a session, to run after all other waiting work."""
    if session.id and parts.settings(tx).extract_provider != "off":
        work = {"host": session.host, "session": session.id}
        name = f"digest:{session.host}:{session.id}"
        Jobs(tx).enqueue("digest", work, dedupe=name, at=parts.clock.now(), delay=delay)


def analyse_session(parts: Parts, payload: Payload) -> JobResult:
    """Job handler: analyse the new turns of a session."""
    found = analyse_new_turns(parts, Session(host=payload["host"], id=payload["session"]))
    if found is None:
        return JobResult(write=lambda _: None)

    def write(tx: Tx) -> None:
        store_analysis(parts.clock, parts.analyser, tx, *found)

    return JobResult(write=write)


def analyse_new_turns(parts: Parts, session: Session) -> tuple[Material, Analysis] | None:
    """Return the new turns of a session and the resulting analysis; None if there is nothing new or nothing to read."""
    material = parts.readers.here(lambda tx: load_material(parts.analyser, tx, session))
    spoken = sum(speaker_of(turn) is not None for turn in material.turns)
    if not material.turns or not parts.extracting():
        return None
    too_little = spoken < MIN_MESSAGES and material.former == EMPTY_ANALYSIS
    return material, EMPTY_ANALYSIS if too_little else analyse_material(parts, material)


def queue_idle(parts: Parts) -> int:
    """Queue the analysis and synthesis of idle sessions, and the regrouping of quiet projects.

    Returns:
        The number of sessions queued for analysis.
    """
    before = add_seconds(parts.clock.now(), -IDLE_SECONDS)
    queue_quiet(parts, before)
    queue_quiet_projects(parts, before)
    sessions = parts.readers.here(
        lambda tx: Analyses(tx, parts.analyser).idle(before, newest=_MAX_NEWEST_TURNS, limit=_MAX_SESSIONS)
    )
    if sessions:
        parts.writer.run(lambda tx: [queue_digest(parts, tx, session) for session in sessions])
        parts.work_waiting.set()
    return len(sessions)


def idle_watch(parts: Parts) -> PeriodicTask:
    """Return a periodic task that looks for idle sessions once a minute."""
    return PeriodicTask(
        _WATCH_SECONDS, lambda: queue_idle(parts), name="idle", failure_message="could not search for idle sessions"
    )
