"""Sources: functions that offer pieces for a block, one per kind of content, and the tables that combine them.

A source maps a request (`ContextRequest`) to pieces, including pieces it would not show, each with the reason. The
tables at the end of the file list the sources for a session start, for a prompt, for a prompt that asks what was
discussed, and for a brief. Sources run in table order, so that a source can use what earlier ones found; the section
of a piece decides where it stands. Each source fails alone. To add one, write it here and list it in a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from filrouge.capture.models import TRUST_PROMPT
from filrouge.context.block import LONGEST_NOTE, MOST_THREADS, shortened
from filrouge.context.candidates import candidate_of, compacted, ended_memories, last_words, memories
from filrouge.context.models import Candidate, Section
from filrouge.context.request import ContextRequest, Source
from filrouge.core.clock import Language
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.intents import REMINDER_TEXTS, asked_period, find_reminders, is_resuming, period_words
from filrouge.extraction.repository import Session
from filrouge.extraction.summaries import with_full_stop
from filrouge.memories.models import Kind, Memory
from filrouge.memories.repository import DOUBTED, Doubts
from filrouge.notes.models import CHANNEL, NoteHit
from filrouge.notes.pages import folded
from filrouge.notes.repository import StoredVault
from filrouge.notes.service import MOST_TAGGED, pinned_notes, search_notes
from filrouge.projects.repository import Projects
from filrouge.runtime.services import Parts
from filrouge.search.ranking import Ended, is_outdated, parse_times, words_of
from filrouge.threads.bridge_service import linked
from filrouge.threads.models import Point, Synthesis, Thread, ThreadState, Topic, conversations, nothing_known
from filrouge.threads.reports import discussed, threads_now
from filrouge.threads.repository import Syntheses, Threads, WorkPlace
from filrouge.threads.synthesis_service import is_empty, of_today, state_of_session, state_of_thread
from filrouge.threads.upkeep import as_it_is

# Source: hints, which are preferences, plans and constraints related to the prompt.
#
# Memories of these kinds that were found for the prompt are offered again as hints, if their own value reaches the
# threshold for a whole block; those already shown are dropped as duplicates. A plan is also offered when its day has
# come, whatever the prompt; it
# then only accompanies other items.

_LABELS: Final[Mapping[str, Mapping[Language, str]]] = {
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
_PLANS: Final = 50
#: Reasons for refusal that do not speak against the memory itself.
_NO_PLACE: Final = frozenset({"", "beyond the limit", "over the budget"})


def hints(_parts: Parts, _tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """Preferences, plans and constraints found for the prompt that were refused for lack of room, or not at all."""
    least = request.settings.auto_retrieve_min_score
    return [
        replace(piece, section="hints", text=_LABELS[piece.kind][request.language] + piece.text, refused="")
        for piece in request.offered
        if piece.section == "memories" and piece.kind in _LABELS and piece.refused in _NO_PLACE and piece.value >= least
    ]


def due_plans(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """Plans that are due: their dates have begun, and if they are over, ended at most three days ago.

    Dates before the day on which the plan was made do not count.
    """
    plans = parts.memories(tx).planned(project=request.project, user=request.user, agent=request.agent, limit=_PLANS)
    value = min(_DUE_VALUE, request.settings.auto_retrieve_min_score / 2)
    found = [candidate_of(plan, "hints", value=value) for plan in plans if _is_due(plan, request.now)]
    return [replace(piece, text=_DUE[request.language] + piece.text) for piece in found]


def _is_due(plan: Memory, now: datetime) -> bool:
    said, today = plan.valid_from.date(), now.date()
    return any(
        said <= span.first <= today and (today - span.last).days <= _DUE_DAYS
        for span in parse_times(plan.timeframe, today)
    )


# Source: a notice that the folder's file names a project of other folders, without the user's consent so far.

#: The text contains neither the name nor the path: an attacker may have chosen both.
_WORDS: Final[Mapping[Language, str]] = {
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
    text = _WORDS[request.language]
    return [Candidate(id="join", kind="reminder", section="reminders", text=text, source="filrouge", value=0.9)]


# Sources: what is known about the user and the project, for a session start.
#
# Core facts have a key (`user_name`). They are short, so many are shown. Among other memories worth knowing,
# decisions and constraints have their own sections.

MOST_CORE_FACTS = 20
MOST_CHARACTERS = 500
"""Of all core facts together."""
MOST_WORTH_KNOWING = 12
"""Of labelled sessions that start, 12 hold .63 of what a colleague would say then, 8 hold .54, 30 no more."""
_SECTIONS: Mapping[Kind, Section] = {"decision": "decisions", "constraint": "constraints"}
#: The value of the first item at a session start, and how much less each next one has.
_FIRST, _STEP = 0.6, 0.02


def core_facts(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """Core facts of the user and the project, up to 500 characters."""
    found = parts.memories(tx).core_facts(
        project=request.project, user=request.user, agent=request.agent, limit=MOST_CORE_FACTS
    )
    offered, used = list[Candidate](), 0
    for n, fact in enumerate(found):
        piece = candidate_of(fact, "facts", value=_FIRST - n * _STEP / 2)
        too_long = used + len(piece.text) > MOST_CHARACTERS
        offered.append(piece if not too_long else candidate_of(fact, "facts", value=0.0, refused="beyond the limit"))
        used += 0 if too_long else len(piece.text)
    return offered


def worth_knowing(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """Preferences and constraints, then decisions, facts and plans, newest first, without doubted ones."""
    found = parts.memories(tx).worth_knowing(
        project=request.project, user=request.user, agent=request.agent, limit=2 * MOST_WORTH_KNOWING
    )
    doubted = Doubts(tx).among([memory.id for memory in found])
    shown = [memory for memory in found if memory.id not in doubted][:MOST_WORTH_KNOWING]
    return [
        *(_piece(memory, value=_FIRST - n * _STEP) for n, memory in enumerate(shown)),
        *(_piece(memory, value=0.0, refused=DOUBTED) for memory in found if memory.id in doubted),
    ]


def _piece(memory: Memory, *, value: float, refused: str = "") -> Candidate:
    return candidate_of(memory, _SECTIONS.get(memory.kind, "facts"), value=value, refused=refused)


# Source: notes from the user's vault: those named in the settings, tagged ones, and those that match the prompt.
#
# A note is the user's own text, not an instruction; it is quoted like a memory. Missing notes and unreadable vaults are
# skipped. A note found for the prompt has its relevance as value; the others use the room that is left.

#: The value of a note named in the settings, and of a tagged note.
_FIXED_VALUE: Final = 0.45
_TAGGED_VALUE: Final = 0.4
_MOST_FOUND: Final = 3


def notes(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """Notes for a request, each once: found for the prompt, named in the settings, or tagged."""
    settings = request.settings
    if not (settings.notes_enabled and settings.notes_folder) or request.user != LOCAL_USER:
        return []
    if not parts.vault.looked.is_there:
        return []
    store = StoredVault(tx)
    named = dict.fromkeys(pinned_notes(settings), _FIXED_VALUE)
    tagged = dict.fromkeys(store.tagged(folded(settings.notes_tag), MOST_TAGGED), _TAGGED_VALUE)
    found = {piece.id: piece for piece in _found(parts, tx, request)} if request.occasion == "prompt" else {}
    helps = {path: piece.value for path, piece in found.items() if not piece.refused}
    whole = [_whole(store, path, max(value, helps.get(path, 0.0))) for path, value in (named | tagged | named).items()]
    always = {piece.id: piece for piece in whole if piece is not None}
    return [*always.values(), *(piece for path, piece in found.items() if path not in always)]


def _whole(store: StoredVault, path: str, value: float) -> Candidate | None:
    """The beginning of a note, or None if it is missing."""
    begun = store.beginning(path, LONGEST_NOTE)
    if begun is None:
        return None
    text, changed = begun
    return Candidate(
        id=path, kind="note", section="notes", text=text, said=changed, source=CHANNEL, value=value, verified=False
    )


def _found(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """The notes found for the prompt; irrelevant ones carry the reason why they are refused."""
    found = search_notes(parts, tx, request.prompt, limit=_MOST_FOUND)
    least = request.settings.auto_retrieve_min_score
    request.notices.extend(notice for notice in found.notices if notice not in request.notices)
    return [_notes_piece(hit, found.known, least) for hit in found.hits]


def _notes_piece(hit: NoteHit, known: float, least: float) -> Candidate:
    why = "nothing relevant is known" if known < least else "below the threshold" if hit.relevance < least else ""
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
        refused=why,
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


def rules(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """Every rule of the project and of the user."""
    found = parts.memories(tx).rules(project=request.project, user=request.user, agent=request.agent)
    return [candidate_of(rule, "rules", value=1.0) for rule in found]


# Source: topics discussed, for a prompt that asks for them. It always offers something.
#
# A title is the user's own text. If nothing is known, the block says so; otherwise a model asked what was discussed
# would make something up.


def topics(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """The topics of the requested period, latest first, from the current project only."""
    period = asked_period(request.prompt)
    if period is None:
        return []
    found = discussed(
        parts,
        tx,
        user_id=request.user,
        period=period,
        agent_id=request.agent,
        project=request.project,
        everywhere=False,
    )
    if not found:
        said = nothing_known(period_words(period, request.language), request.language)
        return [Candidate(id="", kind="nothing", section="topics", text=said, said=request.now, source="filrouge")]
    return [_topics_piece(topic, request.language) for topic in found]


def _topics_piece(topic: Topic, language: Language) -> Candidate:
    summary = f" └─ {topic.summary}" if topic.summary else ""
    return Candidate(
        id=topic.id,
        kind="topic",
        section="topics",
        text=f"{topic.title} - {conversations(topic, language)}{summary}",
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
_MOST, _DAYS = 2, 30
_LOOKED_AT, _NEWEST_PROMPTS = 8, 200
_FILES: Final = 6
_Told = tuple[Section, str, Sequence[Point]]
_SYNTHESIS_LABELS: Final[Mapping[str, Mapping[Language, str]]] = {
    "asked": {"en": "Last asked: ", "fr": "Dernière demande : ", "es": "Lo último pedido: "},
    "done": {"en": "The agent reports: ", "fr": "L'agent rapporte : ", "es": "El agente informa: "},
    "files": {"en": "Files written: ", "fr": "Fichiers écrits : ", "es": "Archivos escritos: "},
    "error": {"en": "Last failure: ", "fr": "Dernier échec : ", "es": "Último fallo: "},
    "question": {"en": "Open question: ", "fr": "Question ouverte : ", "es": "Pregunta abierta: "},
}


def work_state(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """Where the work stands: the session's own after a compaction, else that of the project's last sessions."""
    own = Session(host=request.host, id=request.session)
    if request.opening == "compact":
        found = state_of_session(parts, tx, own)
        told = [(n, one if n < _MOST else _decisions_only(one)) for n, one in enumerate(found)]
        return [piece for n, one in told for piece in pieces_of(one, request, worth=max(0.5, 0.95 - n / 5))]
    offered: list[Candidate] = []
    for n, one in enumerate(_recent_work(parts, tx, request, own)):
        late = (request.now - one.at).days > _DAYS
        pieces = pieces_of(one, request, worth=0.8 - n / 5, briefly=n > 0)
        offered += [_refused(piece, "too old") for piece in pieces] if late else pieces
    return offered


def thread_state(tx: Tx, request: ContextRequest, thread_id: str) -> Sequence[Candidate]:
    """Where the work in a thread stood, for a prompt that picks the thread up again."""
    found = state_of_thread(tx, thread_id)
    return pieces_of(found, request, worth=0.8, section="thread") if found else ()


def in_brief(_parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """The project's last stored synthesis, for a brief."""
    place = _place(request, Session(host="", id=""))
    stored = of_today(tx, Syntheses(tx).of_place(place, 1))
    return [piece for one in stored if not is_empty(one) for piece in pieces_of(one, request, worth=0.8)]


def pieces_of(
    one: Synthesis, request: ContextRequest, *, worth: float, section: Section | None = None, briefly: bool = False
) -> list[Candidate]:
    """A synthesis as pieces. The user's words and the agent's words are in separate pieces.

    Args:
        worth: the value of the first piece; later pieces have less.
        section: puts all pieces in this section instead of one section per kind.
        briefly: only the request and the progress, if there are any.
    """
    language = request.language
    briefly = briefly and bool(one.state)
    asked = [point for point in one.state if point.trust >= TRUST_PROMPT]
    done = [point for point in one.state if point.trust < TRUST_PROMPT]
    told: list[_Told] = []
    if asked:
        told.append(("synthesis", _labelled_points("asked", asked, language), asked))
    if done:
        told.append(("synthesis", _labelled_points("done", done, language), done))
    if not briefly:
        told.extend(("decisions", point.text, [point]) for point in one.decisions)
        told.extend(("questions", point.text, [point]) for point in one.questions)
        if one.error:
            told.append(("synthesis", _labelled_points("error", [one.error], language), [one.error]))
    pieces = [_synthesis_piece(one, section or of, text, points) for of, text, points in told]
    if section:  # without their own heading, questions need a label
        pieces = [_labelled(piece, of, language) for piece, (of, _, _) in zip(pieces, told, strict=True)]
    if one.files and not briefly:
        text = f"{_SYNTHESIS_LABELS['files'][language]}{', '.join(one.files[:_FILES])}"
        pieces.append(_synthesis_piece(one, section or "synthesis", text, ()))
    return [_with_value(piece, worth - n / 100) for n, piece in enumerate(pieces)]


def _decisions_only(one: Synthesis) -> Synthesis:
    """A synthesis reduced to its decisions, which hold for the whole session."""
    return replace(one, state=(), questions=(), files=(), error=None)


def _recent_work(parts: Parts, tx: Tx, request: ContextRequest, own: Session) -> list[Synthesis]:
    """The last work of other sessions in the project, one synthesis per thread, latest first.

    A session that is still running or was killed has no synthesis of its last turns, so a current one is made here.
    """
    store, place = Syntheses(tx), _place(request, own)
    latest = store.latest_sessions(place, newest=_NEWEST_PROMPTS, limit=_MOST)
    behind = [session for session, seq in latest if max((s.until for s in store.of_session(session)), default=0) < seq]
    fresh = [one for session in behind for one in state_of_session(parts, tx, session)]
    brought = {(one.host, one.session) for one in fresh}
    known = of_today(tx, store.of_place(place, _LOOKED_AT))
    stored = [one for one in known if (one.host, one.session) not in brought]
    once: dict[str, Synthesis] = {}
    for one in sorted([*fresh, *stored], key=lambda one: one.at, reverse=True):
        if one.project == request.project and (one.state or one.decisions or one.questions):
            once.setdefault(one.thread_id or f"{one.host} {one.session}", one)
    return list(once.values())[:_MOST]


def _place(request: ContextRequest, but: Session) -> WorkPlace:
    return WorkPlace(user=request.user, project=request.project, agent=request.agent, but=but)


def _labelled_points(label: str, points: Sequence[Point], language: Language) -> str:
    return _SYNTHESIS_LABELS[label][language] + " ".join(with_full_stop(point.text) for point in points)


def _synthesis_piece(one: Synthesis, section: Section, text: str, points: Sequence[Point]) -> Candidate:
    return Candidate(
        id=next((point.memory_id for point in points if point.memory_id), one.id),
        kind="synthesis",
        section=section,
        text=text,
        said=one.at,
        source=one.channel,
        verified=bool(points) and all(point.trust >= TRUST_PROMPT for point in points),
        turns=tuple(point.turn_id for point in points),
    )


def _labelled(piece: Candidate, of: Section, language: Language) -> Candidate:
    return replace(piece, text=_SYNTHESIS_LABELS["question"][language] + piece.text) if of == "questions" else piece


def _with_value(piece: Candidate, value: float) -> Candidate:
    return replace(piece, value=round(max(0.0, value), 4))


def _refused(piece: Candidate, why: str) -> Candidate:
    return replace(piece, refused=why)


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
_LOST: Final = 0.3
#: Share of the thread's value given to its parts, and how much less each next part has.
_SHARE, _THREADS_STEP = 0.9, 0.01
_SUMMARY: Final = 240
#: Turns read to find a thread's last words, and maximum characters shown of each.
_LAST, _THREADS_WORDS = 12, 220
_BESIDE: Final = 4
_STATES: Final[Mapping[ThreadState, Mapping[Language, str]]] = {
    "active": {"en": "", "fr": "", "es": ""},
    "suspended": {"en": " (suspended)", "fr": " (en suspens)", "es": " (en pausa)"},
    "archived": {"en": " (archived)", "fr": " (archivé)", "es": " (archivado)"},
}
_HERE: Final = "already in this session"
_NOT_PICKED_UP: Final = "the prompt does not resume it"
_GONE: Final = "repeats an outdated memory"


@dataclass(frozen=True, kw_only=True, slots=True)
class _RelevantThread:
    """A thread that is relevant to the prompt.

    Attributes:
        value: the probability of that.
        is_here: its words are in the session's current context.
        is_lost: the session worked in it, and its context has been compacted since.
    """

    thread: Thread
    value: float
    is_here: bool
    is_lost: bool


def picked_up_thread(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """The thread that is picked up, with its state; after a compaction also its surroundings; then refused ones."""
    near, ended = _relevant_threads(tx, request), ended_memories(tx, request)
    here = [replace(thread_line(one.thread, request, one.value, ended), refused=_HERE) for one in near if one.is_here]
    if not near or near[0].is_here:
        return here
    best = replace(near[0], thread=as_it_is(parts, tx, near[0].thread))
    if not best.is_lost:
        title = thread_line(best.thread, request, best.value, ended)
        if not is_resuming(request.prompt):
            return [replace(title, refused=title.refused or _NOT_PICKED_UP), *here]
        return [title, *_state(parts, tx, request, best), *here]
    rest = [one for one in near[1:] if not one.is_here][:_BESIDE]
    offered = [
        thread_line(best.thread, request, best.value, ended),
        *_state(parts, tx, request, best),
        *(replace(thread_line(one.thread, request, one.value * _SHARE, ended), section="threads") for one in rest),
        *_linked(parts, tx, request, best, ended),
        *_constraints(parts, tx, request, best),
    ]
    return [*offered, *here]


def thread_line(thread: Thread, request: ContextRequest, value: float, ended: Sequence[Ended]) -> Candidate:
    """A thread as one line: its title, its state unless active, and its summary.

    Args:
        ended: memories that are no longer valid. Summary parts that repeat one are left out; a title that does is
            refused.
    """
    said = [one for one in " ".join(thread.summary.split()).split("; ") if not _is_gone(one, thread, ended)]
    about = "; ".join(said)
    named = f"{thread.title}{_STATES[thread.state][request.language]}"
    return Candidate(
        id=thread.id,
        kind="thread",
        section="thread",
        text=f"{named} — {shortened(about, _SUMMARY)}" if about else named,
        said=thread.last_active,
        source=thread.channel,
        value=round(min(1.0, value), 4),
        scores={"bears": round(value, 4), "state": thread.state},
        refused=_GONE if _is_gone(thread.title, thread, ended) else "",
    )


def _is_gone(text: str, thread: Thread, ended: Sequence[Ended]) -> bool:
    return is_outdated(words_of(text), thread.opened_at, ended)


def is_visible(thread: Thread, request: ContextRequest) -> bool:
    """True if the thread belongs to the request's user and project, and to its agent if agents are isolated."""
    mine = request.agent is None or (thread.agent or thread.channel) == request.agent
    return mine and thread.merged_into is None and (thread.user, thread.project) == (request.user, request.project)


def _relevant_threads(tx: Tx, request: ContextRequest) -> list[_RelevantThread]:
    """The threads relevant to the prompt, most relevant first."""
    store = Threads(tx)
    spoken = store.in_session(request.host, request.session, but=request.prompt)
    since = compacted(tx, request)
    values = _thread_values(store, request.offered)
    last = next(iter(spoken), None)
    if last is not None and spoken[last] < since:
        values[last] = max(values.get(last, 0.0), _unsupported_value(request))
    near = [
        _RelevantThread(
            thread=thread,
            value=values[thread.id],
            is_here=spoken.get(thread.id, "") > since,
            is_lost=thread.id in spoken and spoken[thread.id] <= since,
        )
        for thread in store.some(sorted(values))
        if is_visible(thread, request)
    ]
    return sorted(near, key=lambda one: (-one.value, -one.thread.last_active.timestamp(), one.thread.id))


def _thread_values(store: Threads, offered: Sequence[Candidate]) -> dict[str, float]:
    """By thread id: the value of the best item found that was said in it."""
    found = [piece for piece in offered if piece.section in ("memories", "rules") and not piece.refused]
    of_turn = store.of_turns({turn for piece in found for turn in piece.turns})
    of_memory = store.of_memories([piece.id for piece in found if piece.kind != "turn"])
    values: dict[str, float] = {}
    for piece in found:
        own = {of_turn[turn] for turn in piece.turns if turn in of_turn}
        for thread in own.union(of_memory.get(piece.id, ())):
            values[thread] = max(values.get(thread, 0.0), min(1.0, piece.value))
    return values


def _state(parts: Parts, tx: Tx, request: ContextRequest, best: _RelevantThread) -> list[Candidate]:
    """Where the work stood; without a synthesis, the last words."""
    stood = thread_state(tx, request, best.thread.id)
    told = stood or _last_words(parts, tx, request, best.thread)
    return [_threads_worth(piece, best.value, n) for n, piece in enumerate(told, 1)]


def _last_words(parts: Parts, tx: Tx, request: ContextRequest, thread: Thread) -> list[Candidate]:
    """The last prompt and its reply, unless they say something that is no longer valid."""
    shown = last_words(parts, tx, request, Threads(tx).turns(thread.id, limit=_LAST, newest=True))
    if not shown:
        return []
    names = {"user": "User", "assistant": "Assistant"}
    lines = [f"{names[turn.role]}: {shortened(' '.join(turn.text.split()), _THREADS_WORDS)}" for turn in shown]
    return [
        Candidate(
            id=shown[0].id,
            kind="turn",
            section="thread",
            text="\n".join(lines),
            said=shown[0].at,
            source=shown[0].scope.channel,
            turns=tuple(turn.id for turn in shown),
        )
    ]


def _linked(
    parts: Parts, tx: Tx, request: ContextRequest, best: _RelevantThread, ended: Sequence[Ended]
) -> list[Candidate]:
    """The linked threads, one line each."""
    ties = linked(parts, tx, best.thread.id, request.now, agent=request.agent)[:_BESIDE]
    reached = {one.id: one for one in Threads(tx).some([tie.thread_id for tie in ties]) if is_visible(one, request)}
    return [
        replace(
            thread_line(reached[tie.thread_id], request, best.value * tie.strength / 2, ended),
            section="threads",
            scores={"tie": tie.kind, "strength": round(tie.strength, 4)},
        )
        for tie in ties
        if tie.thread_id in reached
    ]


def _constraints(parts: Parts, tx: Tx, request: ContextRequest, best: _RelevantThread) -> list[Candidate]:
    """Valid decisions of the thread, and constraints of the thread and the project."""
    found = parts.memories(tx).bounding(
        project=request.project,
        user=request.user,
        agent=request.agent,
        thread=best.thread.id,
        limit=_BESIDE,
    )
    value = best.value
    return [
        _threads_worth(
            candidate_of(memory, "decisions" if memory.kind == "decision" else "constraints", value=value), value, n
        )
        for n, memory in enumerate(found, 1)
    ]


def _unsupported_value(request: ContextRequest) -> float:
    """The value of a thread that no found item supports: too low to trigger a block."""
    return min(_LOST, request.settings.auto_retrieve_min_score / 2)


def _threads_worth(piece: Candidate, value: float, place: int) -> Candidate:
    return replace(piece, value=round(max(0.0, value * _SHARE - place * _THREADS_STEP), 4))


# Source: open threads for a session start (INJ-2), and the questions still open in them.
#
# Active threads come before suspended ones, the latest first. The synthesis source covers the last of them; those are
# not shown again here. Open questions of the others come from their stored syntheses.

#: The value of the first thread, how much less each next one has, and the share of it that open questions have.
_THREADS_AT_START_FIRST, _THREADS_AT_START_STEP, _OPEN = 0.3, 0.02, 0.9
_ALREADY_SHOWN: Final = "its state is already shown"


def threads_at_start(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """One line per open thread, and its open questions."""
    told, ended = _shown_threads(tx, request), ended_memories(tx, request)
    found = threads_now(parts, tx, user=request.user, project=request.project, everywhere=False, agent=request.agent)
    in_hand = [one for one in found if one.state != "archived" and is_visible(one, request)]
    in_hand.sort(key=lambda one: one.state != "active")  # stable sort: each group stays latest first
    titles, questions = list[Candidate](), list[Candidate]()
    others = 0
    for thread in in_hand:
        value = _THREADS_AT_START_FIRST - others * _THREADS_AT_START_STEP
        line = replace(thread_line(thread, request, value, ended), section="threads")
        titles.append(replace(line, refused=_ALREADY_SHOWN) if thread.id in told else line)
        if thread.id in told or others >= MOST_THREADS:
            continue
        others += 1
        stood = state_of_thread(tx, thread.id)
        asked = pieces_of(stood, request, worth=value * _OPEN) if stood else []
        questions += [piece for piece in asked if piece.section == "questions"]
    return [*titles, *questions]


def _shown_threads(tx: Tx, request: ContextRequest) -> set[str]:
    """The threads whose state the synthesis source already shows."""
    turns = {
        turn for piece in request.offered if piece.section == "synthesis" and not piece.refused for turn in piece.turns
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
"""What a session starts with."""

BEFORE_PROMPT: SourceTable = {
    "reminders": reminders,
    "memories": memories,
    "threads": picked_up_thread,
    "hints": hints,
    "due": due_plans,
    "notes": notes,
}
"""What may stand before a prompt."""

ASKED_BACK: SourceTable = {"topics": topics}
"""What answers a prompt that asks what was discussed."""

IN_BRIEF: SourceTable = {"rules": rules, "synthesis": in_brief}
"""What a brief holds, for a session that starts before the daemon does."""
