"""Sources: functions that offer candidates for a block, one per kind of content, and the tables that combine them.

A source maps a request (`ContextRequest`) to candidates, including those it would not show, each with the reason. The
tables at the end of the file list the sources for a session start, for a prompt, for a prompt that asks what was
discussed, and for a brief. Sources run in table order, so that a source can use what earlier ones found; the section
of a candidate decides where it stands. A failing source does not affect the others. To add one, write it here and
list it in a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import TRUST_PROMPT
from filrouge.context.block import MAX_NOTE, MAX_THREADS, shortened
from filrouge.context.candidates import candidate_of, ended_memories, last_words, memories
from filrouge.context.models import Candidate, Section
from filrouge.context.request import ContextRequest, Source
from filrouge.core.clock import Clock, Language
from filrouge.core.protocols import Analyser, Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.intents import REMINDER_TEXTS, asked_period, find_reminders, is_resuming, period_words
from filrouge.extraction.repository import Session
from filrouge.extraction.summaries import with_full_stop
from filrouge.memories.models import Kind, Memory
from filrouge.memories.repository import DOUBTED, Doubts
from filrouge.notes.models import CHANNEL, NoteHit
from filrouge.notes.pages import folded
from filrouge.notes.repository import StoredVault
from filrouge.notes.service import MAX_TAGGED, pinned_notes, search_notes
from filrouge.projects.repository import Projects
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.models import Refusal
from filrouge.search.ranking import EndedMemory, is_outdated, parse_times, topic_words
from filrouge.threads.bridge_service import linked_threads
from filrouge.threads.models import (
    Point,
    Synthesis,
    Thread,
    ThreadState,
    Topic,
    render_conversations,
    render_nothing_known,
)
from filrouge.threads.reports import discussed, threads_now
from filrouge.threads.repository import Syntheses, Threads, WorkScope
from filrouge.threads.synthesis_service import is_empty, state_of_session, state_of_thread, without_ended_decisions
from filrouge.threads.upkeep import current_thread

# Source: hints, which are preferences, plans and constraints related to the prompt.
#
# Memories of these kinds that were found for the prompt are offered again as hints, if their own value reaches the
# threshold for a whole block; those already shown are dropped as duplicates. A plan is also offered when its day has
# come, whatever the prompt; it then only accompanies other items.

_HINT_LABELS: Final[Mapping[str, Mapping[Language, str]]] = {
    "preference": {"en": "A preference: ", "fr": "Une préférence : ", "es": "Una preferencia: "},
    "intent": {"en": "Possibly still planned: ", "fr": "Prévu, peut-être encore à faire : ", "es": "Previsto: "},
    "constraint": {"en": "A limit to respect: ", "fr": "Une contrainte à respecter : ", "es": "Un límite: "},
}
_DUE: Final[Mapping[Language, str]] = {
    "en": "Planned for now: ",
    "fr": "Prévu pour maintenant : ",
    "es": "Previsto para ahora: ",
}
#: The value of a plan that is due but was not asked about, for how many days it stays due, and how many plans are read.
_DUE_VALUE: Final = 0.25
_DUE_DAYS: Final = 3
_MAX_PLANS: Final = 50
#: Reasons for refusal that do not speak against the memory itself.
_NO_ROOM: Final = frozenset({"", "beyond the limit", "over the budget"})


def hints(_parts: Parts, _tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """Preferences, plans and constraints found for the prompt that were refused for lack of room, or not at all."""
    min_value = request.settings.auto_retrieve_min_score
    return [
        replace(
            candidate, section="hints", text=_HINT_LABELS[candidate.kind][request.language] + candidate.text, refused=""
        )
        for candidate in request.offered
        if candidate.section == "memories"
        and candidate.kind in _HINT_LABELS
        and candidate.refused in _NO_ROOM
        and candidate.value >= min_value
    ]


def due_plans(parts: StoreContext, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """Plans that are due: their dates have begun, and if they are over, ended at most three days ago.

    Dates before the day on which the plan was made do not count.
    """
    plans = parts.memories(tx).planned(
        project=request.project, user=request.user, agent=request.agent, limit=_MAX_PLANS
    )
    value = min(_DUE_VALUE, request.settings.auto_retrieve_min_score / 2)
    found = [candidate_of(plan, "hints", value=value) for plan in plans if _is_due(plan, request.now)]
    return [replace(candidate, text=_DUE[request.language] + candidate.text) for candidate in found]


def _is_due(plan: Memory, now: datetime) -> bool:
    stated, today = plan.valid_from.date(), now.date()
    return any(
        stated <= span.first <= today and (today - span.last).days <= _DUE_DAYS
        for span in parse_times(plan.timeframe, today)
    )


# Source: a notice that the folder's file names a project of other folders, without the user's consent so far.

#: The text contains neither the name nor the path: an attacker may have chosen both.
_CONSENT_TEXT: Final[Mapping[Language, str]] = {
    "en": "The .filrouge.toml of this folder names a project of other folders. Its memories are not shown here."
    " If the two are one project, the user types: filrouge project join",
    "fr": "Le fichier .filrouge.toml de ce dossier nomme un projet d’autres dossiers. Ses souvenirs ne sont pas montrés"
    " ici. Si les deux sont un même projet, l’utilisateur tape : filrouge project join",
    "es": "El archivo .filrouge.toml de esta carpeta nombra un proyecto de otras carpetas. Sus recuerdos no se muestran"
    " aquí. Si los dos son un mismo proyecto, el usuario escribe: filrouge project join",
}


def consent_notice(_parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """The notice, if the folder waits for the user's consent."""
    if not Projects(tx).is_refused(request.folder):
        return []
    text = _CONSENT_TEXT[request.language]
    return [Candidate(id="join", kind="reminder", section="reminders", text=text, source="filrouge", value=0.9)]


# Sources: what is known about the user and the project, for a session start.
#
# Core facts have a key (`user_name`). They are short, so many are shown. Among other memories worth knowing,
# decisions and constraints have their own sections.

MAX_CORE_FACTS = 20
MAX_CORE_FACT_CHARACTERS = 500
"""Maximum characters of all core facts together."""
MAX_WORTH_KNOWING = 12
"""In labelled session starts, 12 contain 63% of what a colleague would mention; 8 contain 54%, and 30 no more."""
_SECTIONS: Mapping[Kind, Section] = {"decision": "decisions", "constraint": "constraints"}
#: The value of the first item at a session start, and how much less each next one has.
_FIRST, _STEP = 0.6, 0.02


def core_facts(parts: StoreContext, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """Core facts of the user and the project, up to 500 characters."""
    found = parts.memories(tx).core_facts(
        project=request.project, user=request.user, agent=request.agent, limit=MAX_CORE_FACTS
    )
    offered, used = list[Candidate](), 0
    for n, fact in enumerate(found):
        candidate = candidate_of(fact, "facts", value=_FIRST - n * _STEP / 2)
        too_long = used + len(candidate.text) > MAX_CORE_FACT_CHARACTERS
        offered.append(
            candidate if not too_long else candidate_of(fact, "facts", value=0.0, refused="beyond the limit")
        )
        used += 0 if too_long else len(candidate.text)
    return offered


def worth_knowing(parts: StoreContext, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """Preferences and constraints, then decisions, facts and plans, newest first, without doubted ones."""
    found = parts.memories(tx).worth_knowing(
        project=request.project, user=request.user, agent=request.agent, limit=2 * MAX_WORTH_KNOWING
    )
    ids = {memory.id for memory in found}
    doubted = {older for older, newer in Doubts(tx).newer(ids).items() if newer in ids}
    certain = [memory for memory in found if memory.id not in doubted][:MAX_WORTH_KNOWING]
    return [
        *(_worth_knowing(memory, value=_FIRST - n * _STEP) for n, memory in enumerate(certain)),
        *(_worth_knowing(memory, value=0.0, refused=DOUBTED) for memory in found if memory.id in doubted),
    ]


def _worth_knowing(memory: Memory, *, value: float, refused: Refusal = "") -> Candidate:
    return candidate_of(memory, _SECTIONS.get(memory.kind, "facts"), value=value, refused=refused)


# Source: notes from the user's vault: those named in the settings, tagged ones, and those that match the prompt.
#
# A note is the user's own text, not an instruction; it is quoted like a memory. Missing notes and unreadable vaults are
# skipped. A note found for the prompt has its relevance as value; the others use the room that is left.

#: The value of a note named in the settings, and of a tagged note.
_FIXED_VALUE: Final = 0.45
_TAGGED_VALUE: Final = 0.4
_MAX_FOUND: Final = 3


def notes(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """Notes for a request, each once: found for the prompt, named in the settings, or tagged."""
    settings = request.settings
    if not (settings.notes_enabled and settings.notes_folder) or request.user != LOCAL_USER:
        return []
    if not parts.vault.scanned.is_there:
        return []
    store = StoredVault(tx)
    pinned = dict.fromkeys(pinned_notes(settings), _FIXED_VALUE)
    tagged = dict.fromkeys(store.tagged(folded(settings.notes_tag), MAX_TAGGED), _TAGGED_VALUE)
    found = (
        {candidate.id: candidate for candidate in _found(parts, tx, request)} if request.occasion == "prompt" else {}
    )
    relevance = {path: candidate.value for path, candidate in found.items() if not candidate.refused}
    beginnings = [
        _beginning(store, path, max(value, relevance.get(path, 0.0)))
        for path, value in (pinned | tagged | pinned).items()
    ]
    always = {candidate.id: candidate for candidate in beginnings if candidate is not None}
    return [*always.values(), *(candidate for path, candidate in found.items() if path not in always)]


def _beginning(store: StoredVault, path: str, value: float) -> Candidate | None:
    """The beginning of a note, or None if it is missing."""
    beginning = store.beginning(path, MAX_NOTE)
    if beginning is None:
        return None
    text, changed = beginning
    return Candidate(
        id=path, kind="note", section="notes", text=text, said=changed, source=CHANNEL, value=value, verified=False
    )


def _found(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """The notes found for the prompt; irrelevant ones carry the reason why they are refused."""
    found = search_notes(parts, tx, request.prompt, limit=_MAX_FOUND)
    min_value = request.settings.auto_retrieve_min_score
    request.notices.extend(notice for notice in found.notices if notice not in request.notices)
    return [_note(hit, found.known, min_value) for hit in found.hits]


def _note(hit: NoteHit, known: float, min_value: float) -> Candidate:
    refused: Refusal = (
        "nothing relevant is known" if known < min_value else "below the threshold" if hit.relevance < min_value else ""
    )
    return Candidate(
        id=hit.path,
        kind="note",
        section="notes",
        text=hit.text,
        said=hit.changed,
        source=CHANNEL,
        verified=False,
        value=hit.relevance,
        scores=hit.explain() | {"known": round(known, 4)},
        refused=refused,
    )


# Source: reminders of how the user wants work to be done, if the prompt asks for that kind of work (RULE-2).


def reminders(_parts: Parts, _tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """The enabled reminders that apply to the prompt."""
    return [
        Candidate(
            id=name,
            kind="reminder",
            section="reminders",
            text=REMINDER_TEXTS[name][request.language],
            said=request.now,
            source="filrouge",
            value=0.9,
        )
        for name in find_reminders(request.prompt, request.settings.reminders)
    ]


# Source: all standing rules that apply here, pinned ones first, then the newest.


def rules(parts: StoreContext, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """Every rule of the project and of the user."""
    found = parts.memories(tx).rules(project=request.project, user=request.user, agent=request.agent)
    return [candidate_of(rule, "rules", value=1.0) for rule in found]


# Source: topics discussed, for a prompt that asks for them. It always offers something.
#
# A title is the user's own text. If nothing is known, the block says so; otherwise a model asked what was discussed
# would make something up.


def topics(parts: StoreContext, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """The topics of the requested period, latest first, from the current project only."""
    period = asked_period(request.prompt)
    if period is None:
        return []
    found = discussed(
        parts.clock,
        parts.analyser,
        tx,
        user_id=request.user,
        period=period,
        agent_id=request.agent,
        project=request.project,
        everywhere=False,
    )
    if not found:
        text = render_nothing_known(period_words(period, request.language), request.language)
        return [Candidate(id="", kind="nothing", section="topics", text=text, said=request.now, source="filrouge")]
    return [_topic(topic, request.language) for topic in found]


def _topic(topic: Topic, language: Language) -> Candidate:
    summary = f" └─ {topic.summary}" if topic.summary else ""
    return Candidate(
        id=topic.id,
        kind="topic",
        section="topics",
        text=f"{topic.title} - {render_conversations(topic, language)}{summary}",
        said=topic.last,
        source=topic.channel,
        value=topic.vitality,
    )


# Source: where the work stands, for a session start (GARD-3, INJ-2).
#
# After a compaction this is the session's own work, which was just lost: everything about the threads it worked on
# last, and only the decisions of earlier ones. Any other start, in any agent or linked worktree, gets the last work in
# the project: everything about the latest thread, and request and progress of the one before. `thread_state` gives
# the same for one thread, for a prompt that picks it up again (THR-10).

#: Number of syntheses shown at a start, and days after which one is too old.
_MAX_SYNTHESES, _MAX_AGE_DAYS = 2, 30
#: Number of stored syntheses, and of newest prompts, that are read to find them.
_SYNTHESES_READ, _PROMPTS_READ = 8, 200
_MAX_FILES: Final = 6
_Part = tuple[Section, str, Sequence[Point]]
"""A part of a synthesis: its section, its text, and the points it is based on."""
_SYNTHESIS_LABELS: Final[Mapping[str, Mapping[Language, str]]] = {
    "asked": {"en": "Last asked: ", "fr": "Dernière demande : ", "es": "Lo último pedido: "},
    "done": {"en": "The agent reports: ", "fr": "L'agent rapporte : ", "es": "El agente informa: "},
    "files": {"en": "Files written: ", "fr": "Fichiers écrits : ", "es": "Archivos escritos: "},
    "error": {"en": "Last failure: ", "fr": "Dernier échec : ", "es": "Último fallo: "},
    "question": {"en": "Open question: ", "fr": "Question ouverte : ", "es": "Pregunta abierta: "},
}


def work_state(parts: StoreContext, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """Where the work stands: the session's own after a compaction, else that of the project's last sessions."""
    session = Session(host=request.host, id=request.session)
    if request.opening == "compact":
        found = state_of_session(parts.analyser, tx, session)
        shown = [
            (n, synthesis if n < _MAX_SYNTHESES else _decisions_only(synthesis)) for n, synthesis in enumerate(found)
        ]
        return [
            candidate
            for n, synthesis in shown
            for candidate in synthesis_candidates(synthesis, request, value=max(0.5, 0.95 - n / 5))
        ]
    offered: list[Candidate] = []
    for n, synthesis in enumerate(_recent_work(parts.analyser, tx, request, session)):
        too_old = (request.now - synthesis.at).days > _MAX_AGE_DAYS
        candidates = synthesis_candidates(synthesis, request, value=0.8 - n / 5, briefly=n > 0)
        offered += [_refused(candidate, "too old") for candidate in candidates] if too_old else candidates
    return offered


def thread_state(tx: Tx, request: ContextRequest, thread_id: str) -> Sequence[Candidate]:
    """Where the work in a thread stood, for a prompt that picks the thread up again."""
    found = state_of_thread(tx, thread_id)
    return synthesis_candidates(found, request, value=0.8, section="thread") if found else ()


def in_brief(_parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """The project's last stored synthesis, for a brief."""
    place = _place(request, Session(host="", id=""))
    stored = without_ended_decisions(tx, Syntheses(tx).in_scope(place, 1))
    return [
        candidate
        for synthesis in stored
        if not is_empty(synthesis)
        for candidate in synthesis_candidates(synthesis, request, value=0.8)
    ]


def synthesis_candidates(
    synthesis: Synthesis,
    request: ContextRequest,
    *,
    value: float,
    section: Section | None = None,
    briefly: bool = False,
) -> list[Candidate]:
    """A synthesis as candidates. The user's words and the agent's words are in separate candidates.

    Args:
        value: the value of the first candidate; later ones have less.
        section: puts all candidates in this section instead of one section per kind.
        briefly: only the request and the progress, if there are any.
    """
    language = request.language
    briefly = briefly and bool(synthesis.state)
    asked = [point for point in synthesis.state if point.trust >= TRUST_PROMPT]
    done = [point for point in synthesis.state if point.trust < TRUST_PROMPT]
    parts: list[_Part] = []
    if asked:
        parts.append(("synthesis", _labelled_points("asked", asked, language), asked))
    if done:
        parts.append(("synthesis", _labelled_points("done", done, language), done))
    if not briefly:
        parts.extend(("decisions", point.text, [point]) for point in synthesis.decisions)
        parts.extend(("questions", point.text, [point]) for point in synthesis.questions)
        if synthesis.error:
            parts.append(("synthesis", _labelled_points("error", [synthesis.error], language), [synthesis.error]))
    candidates = [_synthesis_candidate(synthesis, section or of, text, points) for of, text, points in parts]
    if section:  # without their own heading, questions need a label
        candidates = [
            _with_question_label(candidate, of, language)
            for candidate, (of, _, _) in zip(candidates, parts, strict=True)
        ]
    if synthesis.files and not briefly:
        text = f"{_SYNTHESIS_LABELS['files'][language]}{', '.join(synthesis.files[:_MAX_FILES])}"
        candidates.append(_synthesis_candidate(synthesis, section or "synthesis", text, ()))
    return [_with_value(candidate, value - n / 100) for n, candidate in enumerate(candidates)]


def _decisions_only(synthesis: Synthesis) -> Synthesis:
    """A synthesis reduced to its decisions, which hold for the whole session."""
    return replace(synthesis, state=(), questions=(), files=(), error=None)


def _recent_work(analyser: Analyser, tx: Tx, request: ContextRequest, current: Session) -> list[Synthesis]:
    """The last work of other sessions in the project, one synthesis per thread, latest first.

    A session that is still running or was killed has no synthesis of its last turns, so a current one is made here.
    """
    store, place = Syntheses(tx), _place(request, current)
    latest = store.latest_sessions(place, newest=_PROMPTS_READ, limit=_MAX_SYNTHESES)
    outdated = [
        session
        for session, seq in latest
        if max((stored.until for stored in store.of_session(session)), default=0) < seq
    ]
    fresh = [synthesis for session in outdated for synthesis in state_of_session(analyser, tx, session)]
    fresh_sessions = {(synthesis.host, synthesis.session) for synthesis in fresh}
    recent = without_ended_decisions(tx, store.in_scope(place, _SYNTHESES_READ))
    stored = [synthesis for synthesis in recent if (synthesis.host, synthesis.session) not in fresh_sessions]
    by_thread: dict[str, Synthesis] = {}
    for synthesis in sorted([*fresh, *stored], key=lambda synthesis: synthesis.at, reverse=True):
        if synthesis.project == request.project and (synthesis.state or synthesis.decisions or synthesis.questions):
            by_thread.setdefault(synthesis.thread_id or f"{synthesis.host} {synthesis.session}", synthesis)
    return list(by_thread.values())[:_MAX_SYNTHESES]


def _place(request: ContextRequest, but: Session) -> WorkScope:
    return WorkScope(user=request.user, project=request.project, agent=request.agent, except_session=but)


def _labelled_points(label: str, points: Sequence[Point], language: Language) -> str:
    return _SYNTHESIS_LABELS[label][language] + " ".join(with_full_stop(point.text) for point in points)


def _synthesis_candidate(synthesis: Synthesis, section: Section, text: str, points: Sequence[Point]) -> Candidate:
    return Candidate(
        id=next((point.memory_id for point in points if point.memory_id), synthesis.id),
        kind="synthesis",
        section=section,
        text=text,
        said=synthesis.at,
        source=synthesis.channel,
        verified=bool(points) and all(point.trust >= TRUST_PROMPT for point in points),
        turns=tuple(point.turn_id for point in points),
    )


def _with_question_label(candidate: Candidate, of: Section, language: Language) -> Candidate:
    return (
        replace(candidate, text=_SYNTHESIS_LABELS["question"][language] + candidate.text)
        if of == "questions"
        else candidate
    )


def _with_value(candidate: Candidate, value: float) -> Candidate:
    return replace(candidate, value=round(max(0.0, value), 4))


def _refused(candidate: Candidate, why: Refusal) -> Candidate:
    return replace(candidate, refused=why)


# Source: the thread that a prompt picks up again, and where its work stood (INJ-3, THR-10).
#
# The thread follows from what was found for the prompt: it is as relevant as the best item from it. A prompt that
# goes back to earlier work ("let's get back to …") gets that thread with the state of its work, or with its last
# words. The agent already has the session's own thread in its context, until the context is compacted. After a
# compaction the thread comes with everything around it: other relevant threads, linked threads, its decisions and the
# project's constraints. Before any other prompt these were noise: of 1,499 lines put before prompts, a line about
# another thread was relevant in 5 of 100 cases, a decision in force in 3.
#
# All of this only accompanies other items. A prompt for which nothing is found gets no thread.

#: The value of a session's own thread after its context was lost: the prompt probably continues it.
_LOST_CONTEXT_VALUE: Final = 0.3
#: Share of the thread's value given to its parts, and how much less each next part has.
_PART_SHARE, _PART_STEP = 0.9, 0.01
#: Maximum characters of a thread's summary.
_MAX_SUMMARY: Final = 240
#: Turns read to find a thread's last words, and maximum characters shown of each.
_LAST_TURNS, _MAX_TURN_CHARACTERS = 12, 220
#: Maximum number of other threads, of linked threads, and of decisions and constraints.
_MAX_SURROUNDINGS: Final = 4
_STATES: Final[Mapping[ThreadState, Mapping[Language, str]]] = {
    "active": {"en": "", "fr": "", "es": ""},
    "suspended": {"en": " (suspended)", "fr": " (en suspens)", "es": " (en pausa)"},
    "archived": {"en": " (archived)", "fr": " (archivé)", "es": " (archivado)"},
}
_IN_SESSION: Final = "already in this session"
_NOT_PICKED_UP: Final = "the prompt does not resume it"
_OUTDATED: Final = "repeats an outdated memory"


class _RelevantThread(Struct, frozen=True, kw_only=True):
    """A thread that is relevant to the prompt.

    Attributes:
        value: the probability of that.
        is_in_context: its words are in the session's current context.
        is_lost: the session worked in it, and its context has been compacted since.
    """

    thread: Thread
    value: float
    is_in_context: bool
    is_lost: bool


def picked_up_thread(parts: StoreContext, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """The thread that is picked up, with its state; after a compaction also its surroundings; then refused ones."""
    relevant = _relevant_threads(tx, request)
    ended = ended_memories(tx, request) if relevant else []
    in_session = [
        replace(thread_line(related.thread, request, related.value, ended), refused=_IN_SESSION)
        for related in relevant
        if related.is_in_context
    ]
    if not relevant or relevant[0].is_in_context:
        return in_session
    best = relevant[0]
    if not best.is_lost and not is_resuming(request.prompt):
        title = thread_line(best.thread, request, best.value, ended)
        return [replace(title, refused=title.refused or _NOT_PICKED_UP), *in_session]
    best = replace(best, thread=current_thread(parts, tx, best.thread))
    if not best.is_lost:
        title = thread_line(best.thread, request, best.value, ended)
        return [title, *_state(parts, tx, request, best), *in_session]
    others = [related for related in relevant[1:] if not related.is_in_context][:_MAX_SURROUNDINGS]
    offered = [
        thread_line(best.thread, request, best.value, ended),
        *_state(parts, tx, request, best),
        *(
            replace(thread_line(related.thread, request, related.value * _PART_SHARE, ended), section="threads")
            for related in others
        ),
        *_linked(parts.clock, tx, request, best, ended),
        *_constraints(parts, tx, request, best),
    ]
    return [*offered, *in_session]


def thread_line(thread: Thread, request: ContextRequest, value: float, ended: Sequence[EndedMemory]) -> Candidate:
    """A thread as one line: its title, its state unless active, and its summary.

    Args:
        ended: memories that are no longer valid. Summary parts that repeat one are left out; a title that does is
            refused.
    """
    sentences = " ".join(thread.summary.split()).split("; ")
    summary = "; ".join(sentence for sentence in sentences if not _is_outdated(sentence, thread, ended))
    title = f"{thread.title}{_STATES[thread.state][request.language]}"
    return Candidate(
        id=thread.id,
        kind="thread",
        section="thread",
        text=f"{title} — {shortened(summary, _MAX_SUMMARY)}" if summary else title,
        said=thread.last_active,
        source=thread.channel,
        value=round(min(1.0, value), 4),
        scores={"bears": round(value, 4), "state": thread.state},
        refused=_OUTDATED if _is_outdated(thread.title, thread, ended) else "",
    )


def _is_outdated(text: str, thread: Thread, ended: Sequence[EndedMemory]) -> bool:
    return is_outdated(topic_words(text), thread.opened_at, ended)


def is_visible(thread: Thread, request: ContextRequest) -> bool:
    """True if the thread belongs to the request's user and project, and to its agent if agents are isolated."""
    allowed = request.agent is None or (thread.agent or thread.channel) == request.agent
    return allowed and thread.merged_into is None and (thread.user, thread.project) == (request.user, request.project)


def _relevant_threads(tx: Tx, request: ContextRequest) -> list[_RelevantThread]:
    """The threads relevant to the prompt, most relevant first."""
    store = Threads(tx)
    spoken = store.in_session(request.host, request.session, except_prompt=request.prompt)
    since = request.compacted
    values = _thread_values(store, request.offered)
    last = next(iter(spoken), None)
    if last is not None and spoken[last] < since:
        values[last] = max(values.get(last, 0.0), _unsupported_value(request))
    relevant = [
        _RelevantThread(
            thread=thread,
            value=values[thread.id],
            is_in_context=spoken.get(thread.id, "") > since,
            is_lost=thread.id in spoken and spoken[thread.id] <= since,
        )
        for thread in store.some(sorted(values))
        if is_visible(thread, request)
    ]
    return sorted(
        relevant, key=lambda related: (-related.value, -related.thread.last_active.timestamp(), related.thread.id)
    )


def _thread_values(store: Threads, offered: Sequence[Candidate]) -> dict[str, float]:
    """By thread id: the value of the best item found that was said in it."""
    found = [candidate for candidate in offered if candidate.section in ("memories", "rules") and not candidate.refused]
    of_turn = store.of_turns({turn for candidate in found for turn in candidate.turns})
    of_memory = store.of_memories([candidate.id for candidate in found if candidate.kind != "turn"])
    values: dict[str, float] = {}
    for candidate in found:
        threads = {of_turn[turn] for turn in candidate.turns if turn in of_turn}
        for thread in threads.union(of_memory.get(candidate.id, ())):
            values[thread] = max(values.get(thread, 0.0), min(1.0, candidate.value))
    return values


def _state(parts: StoreContext, tx: Tx, request: ContextRequest, best: _RelevantThread) -> list[Candidate]:
    """Where the work stood; without a synthesis, the last words."""
    found = thread_state(tx, request, best.thread.id) or _last_words(parts, tx, request, best.thread)
    return [_with_part_value(candidate, best.value, n) for n, candidate in enumerate(found, 1)]


def _last_words(parts: StoreContext, tx: Tx, request: ContextRequest, thread: Thread) -> list[Candidate]:
    """The last prompt and its reply, unless they say something that is no longer valid."""
    turns = last_words(parts, tx, request, Threads(tx).turns(thread.id, limit=_LAST_TURNS, newest=True))
    if not turns:
        return []
    names = {"user": "User", "assistant": "Assistant"}
    lines = [f"{names[turn.role]}: {shortened(' '.join(turn.text.split()), _MAX_TURN_CHARACTERS)}" for turn in turns]
    return [
        Candidate(
            id=turns[0].id,
            kind="turn",
            section="thread",
            text="\n".join(lines),
            said=turns[0].at,
            source=turns[0].scope.channel,
            turns=tuple(turn.id for turn in turns),
        )
    ]


def _linked(
    clock: Clock, tx: Tx, request: ContextRequest, best: _RelevantThread, ended: Sequence[EndedMemory]
) -> list[Candidate]:
    """The linked threads, one line each."""
    bridges = linked_threads(clock, tx, best.thread.id, request.now, agent=request.agent)[:_MAX_SURROUNDINGS]
    found = Threads(tx).some([bridge.thread_id for bridge in bridges])
    threads = {thread.id: thread for thread in found if is_visible(thread, request)}
    return [
        replace(
            thread_line(threads[bridge.thread_id], request, best.value * bridge.strength / 2, ended),
            section="threads",
            scores={"tie": bridge.kind, "strength": round(bridge.strength, 4)},
        )
        for bridge in bridges
        if bridge.thread_id in threads
    ]


def _constraints(parts: StoreContext, tx: Tx, request: ContextRequest, best: _RelevantThread) -> list[Candidate]:
    """Valid decisions of the thread, and constraints of the thread and the project."""
    found = parts.memories(tx).bounding(
        project=request.project,
        user=request.user,
        agent=request.agent,
        thread=best.thread.id,
        limit=_MAX_SURROUNDINGS,
    )
    value = best.value
    return [
        _with_part_value(
            candidate_of(memory, "decisions" if memory.kind == "decision" else "constraints", value=value), value, n
        )
        for n, memory in enumerate(found, 1)
    ]


def _unsupported_value(request: ContextRequest) -> float:
    """The value of a thread that no found item supports: too low to trigger a block."""
    return min(_LOST_CONTEXT_VALUE, request.settings.auto_retrieve_min_score / 2)


def _with_part_value(candidate: Candidate, value: float, index: int) -> Candidate:
    return replace(candidate, value=round(max(0.0, value * _PART_SHARE - index * _PART_STEP), 4))


# Source: open threads for a session start (INJ-2), and the questions still open in them.
#
# Active threads come before suspended ones, the latest first. The synthesis source covers the last of them; those are
# not shown again here. Open questions of the others come from their stored syntheses.

#: The value of the first thread, how much less each next one has, and the share of it that open questions have.
_THREADS_AT_START_FIRST, _THREADS_AT_START_STEP, _OPEN = 0.3, 0.02, 0.9
_ALREADY_SHOWN: Final = "its state is already shown"


def threads_at_start(parts: StoreContext, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """One line per open thread, and its open questions."""
    shown_ids, ended = _shown_threads(tx, request), ended_memories(tx, request)
    found = threads_now(parts, tx, user=request.user, project=request.project, everywhere=False, agent=request.agent)
    open_threads = [thread for thread in found if thread.state != "archived" and is_visible(thread, request)]
    open_threads.sort(key=lambda thread: thread.state != "active")  # stable sort: each group stays latest first
    titles, questions = list[Candidate](), list[Candidate]()
    others = 0
    for thread in open_threads:
        value = _THREADS_AT_START_FIRST - others * _THREADS_AT_START_STEP
        line = replace(thread_line(thread, request, value, ended), section="threads")
        titles.append(replace(line, refused=_ALREADY_SHOWN) if thread.id in shown_ids else line)
        if thread.id in shown_ids or others >= MAX_THREADS:
            continue
        others += 1
        state = state_of_thread(tx, thread.id)
        of_state = synthesis_candidates(state, request, value=value * _OPEN) if state else []
        questions += [candidate for candidate in of_state if candidate.section == "questions"]
    return [*titles, *questions]


def _shown_threads(tx: Tx, request: ContextRequest) -> set[str]:
    """The threads whose state the synthesis source already shows."""
    turns = {
        turn
        for candidate in request.offered
        if candidate.section == "synthesis" and not candidate.refused
        for turn in candidate.turns
    }
    return set(Threads(tx).of_turns(turns).values())


# Tables of sources, in the order in which they run.

SourceTable = Mapping[str, Source]

AT_START: SourceTable = {
    "joining": consent_notice,
    "rules": rules,
    "synthesis": work_state,
    "threads": threads_at_start,
    "core facts": core_facts,
    "worth knowing": worth_knowing,
    "due": due_plans,
    "notes": notes,
}
"""For the start of a session."""

BEFORE_PROMPT: SourceTable = {
    "reminders": reminders,
    "memories": memories,
    "threads": picked_up_thread,
    "hints": hints,
    "due": due_plans,
    "notes": notes,
}
"""For a prompt."""

ASKED_BACK: SourceTable = {"topics": topics}
"""For a prompt that asks what was discussed."""

IN_BRIEF: SourceTable = {"rules": rules, "synthesis": in_brief}
"""For a brief, which a session gets that starts before the daemon does."""
