"""Source: the thread that a prompt picks up again, and where its work stood (INJ-3, THR-10).

Which thread that is follows from what was found for the prompt: it bears on a thread as much as on what was said in
it. A prompt that says that it goes back to work which was put down ("let's get back to …") gets that thread, with where
its work stood, or with its last words. A thread that the session itself is in is
before its agent anyway. It comes again once the context was compacted, and then with everything around it: other
threads that the prompt bears on, those that are tied to it, its decisions and the limits of the project. Before any
other prompt these were noise: of 1,499 lines put before prompts, a line about another thread had to do with its prompt
in 5 of 100 cases, a decision in force in 3.

All of it goes along with what was found and breaks no silence. A prompt that finds nothing has no thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from filrouge.app.heard import compacted, last_words, what_ended
from filrouge.app.moment import Moment
from filrouge.app.parts import Parts
from filrouge.app.sources.synthesis import thread_state
from filrouge.app.sources.telling import piece_of
from filrouge.app.thread_report import as_it_is
from filrouge.app.ties import linked
from filrouge.inject.render import shortened
from filrouge.model.piece import Piece
from filrouge.model.thread import Thread, ThreadState
from filrouge.model.when import Language
from filrouge.ports import Tx
from filrouge.recall.outdated import Ended, is_outdated, words_of
from filrouge.recall.resuming import resumes
from filrouge.store.threads import Threads

#: What a session's own thread is worth once its context is lost: that the prompt goes on in it is likely, no more.
_LOST: Final = 0.3
#: Of what the prompt bears on a thread, the share that its parts are worth, and each next one less.
_SHARE, _STEP = 0.9, 0.01
_SUMMARY: Final = 240
#: Turns that are looked at for a thread's last words, and characters of each that is shown.
_LAST, _WORDS = 12, 220
_BESIDE: Final = 4
_STATES: Final[Mapping[ThreadState, Mapping[Language, str]]] = {
    "active": {"en": "", "fr": "", "es": ""},
    "suspended": {"en": " (suspended)", "fr": " (en suspens)", "es": " (en pausa)"},
    "archived": {"en": " (archived)", "fr": " (archivé)", "es": " (archivado)"},
}
_HERE: Final = "the session is in it"
_NOT_PICKED_UP: Final = "the prompt does not pick its work up"
_GONE: Final = "it repeats what is believed no more"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Near:
    """A thread that a prompt bears on.

    Attributes:
        value: how probable that is.
        is_here: its words are in the session's context.
        is_lost: the session was in it, and its context was compacted since.
    """

    thread: Thread
    value: float
    is_here: bool
    is_lost: bool


def threads(parts: Parts, tx: Tx, moment: Moment) -> Sequence[Piece]:
    """The thread that is picked up with its state, after a compaction with what surrounds it; then the refused ones."""
    near, ended = _near(tx, moment), what_ended(tx, moment)
    here = [replace(title_of(one.thread, moment, one.value, ended), refused=_HERE) for one in near if one.is_here]
    if not near or near[0].is_here:
        return here
    best = replace(near[0], thread=as_it_is(parts, tx, near[0].thread))
    if not best.is_lost:
        title = title_of(best.thread, moment, best.value, ended)
        if not resumes(moment.prompt):
            return [replace(title, refused=title.refused or _NOT_PICKED_UP), *here]
        return [title, *_state(parts, tx, moment, best), *here]
    rest = [one for one in near[1:] if not one.is_here][:_BESIDE]
    offered = [
        title_of(best.thread, moment, best.value, ended),
        *_state(parts, tx, moment, best),
        *(replace(title_of(one.thread, moment, one.value * _SHARE, ended), section="threads") for one in rest),
        *_tied(parts, tx, moment, best, ended),
        *_limits(parts, tx, moment, best),
    ]
    return [*offered, *here]


def title_of(thread: Thread, moment: Moment, value: float, ended: Sequence[Ended]) -> Piece:
    """A thread as one line: its title, its state where it is not active, and what it is about.

    Args:
        ended: what is believed no more; a summary is told without it, and a thread that is called so is not named.
    """
    said = [one for one in " ".join(thread.summary.split()).split("; ") if not _is_gone(one, thread, ended)]
    about = "; ".join(said)
    named = f"{thread.title}{_STATES[thread.state][moment.language]}"
    return Piece(
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


def is_in_reach(thread: Thread, moment: Moment) -> bool:
    """True for a thread of the moment's user and project, and where agents are isolated of its agent."""
    mine = moment.agent is None or (thread.agent or thread.channel) == moment.agent
    return mine and thread.merged_into is None and (thread.user, thread.project) == (moment.user, moment.project)


def _near(tx: Tx, moment: Moment) -> list[_Near]:
    """The threads that a prompt bears on, the one that it bears on most first."""
    store = Threads(tx)
    spoken = store.in_session(moment.host, moment.session, but=moment.prompt)
    since = compacted(tx, moment)
    values = _bearing(store, moment.offered)
    last = next(iter(spoken), None)
    if last is not None and spoken[last] < since:
        values[last] = max(values.get(last, 0.0), _alone(moment))
    near = [
        _Near(
            thread=thread,
            value=values[thread.id],
            is_here=spoken.get(thread.id, "") > since,
            is_lost=thread.id in spoken and spoken[thread.id] <= since,
        )
        for thread in store.some(sorted(values))
        if is_in_reach(thread, moment)
    ]
    return sorted(near, key=lambda one: (-one.value, -one.thread.last_active.timestamp(), one.thread.id))


def _bearing(store: Threads, offered: Sequence[Piece]) -> dict[str, float]:
    """By thread: the value of the best that was found and said in it."""
    found = [piece for piece in offered if piece.section in ("memories", "rules") and not piece.refused]
    of_turn = store.of_turns({turn for piece in found for turn in piece.turns})
    of_memory = store.of_memories([piece.id for piece in found if piece.kind != "turn"])
    values: dict[str, float] = {}
    for piece in found:
        own = {of_turn[turn] for turn in piece.turns if turn in of_turn}
        for thread in own.union(of_memory.get(piece.id, ())):
            values[thread] = max(values.get(thread, 0.0), min(1.0, piece.value))
    return values


def _state(parts: Parts, tx: Tx, moment: Moment, best: _Near) -> list[Piece]:
    """Where the work stood, or where nobody wrote it down, what was said last."""
    stood = thread_state(tx, moment, best.thread.id)
    told = stood or _last_words(parts, tx, moment, best.thread)
    return [_worth(piece, best.value, n) for n, piece in enumerate(told, 1)]


def _last_words(parts: Parts, tx: Tx, moment: Moment, thread: Thread) -> list[Piece]:
    """The last prompt with what was answered, unless what it says is believed no more."""
    shown = last_words(parts, tx, moment, Threads(tx).turns(thread.id, limit=_LAST, newest=True))
    if not shown:
        return []
    names = {"user": "User", "assistant": "Assistant"}
    lines = [f"{names[turn.role]}: {shortened(' '.join(turn.text.split()), _WORDS)}" for turn in shown]
    return [
        Piece(
            id=shown[0].id,
            kind="turn",
            section="thread",
            text="\n".join(lines),
            said=shown[0].at,
            source=shown[0].scope.channel,
            turns=tuple(turn.id for turn in shown),
        )
    ]


def _tied(parts: Parts, tx: Tx, moment: Moment, best: _Near, ended: Sequence[Ended]) -> list[Piece]:
    """The threads that are tied to it, a line each."""
    ties = linked(parts, tx, best.thread.id, moment.now, agent=moment.agent)[:_BESIDE]
    reached = {one.id: one for one in Threads(tx).some([tie.thread_id for tie in ties]) if is_in_reach(one, moment)}
    return [
        replace(
            title_of(reached[tie.thread_id], moment, best.value * tie.strength / 2, ended),
            section="threads",
            scores={"tie": tie.kind, "strength": round(tie.strength, 4)},
        )
        for tie in ties
        if tie.thread_id in reached
    ]


def _limits(parts: Parts, tx: Tx, moment: Moment, best: _Near) -> list[Piece]:
    """Decisions of the thread that are in force, and constraints of the thread and of the project."""
    found = parts.memories(tx).bounding(
        project=moment.project,
        user=moment.user,
        agent=moment.agent,
        thread=best.thread.id,
        limit=_BESIDE,
    )
    value = best.value
    return [
        _worth(piece_of(memory, "decisions" if memory.kind == "decision" else "constraints", value=value), value, n)
        for n, memory in enumerate(found, 1)
    ]


def _alone(moment: Moment) -> float:
    """What something is worth that nothing found speaks for: too little to break the silence."""
    return min(_LOST, moment.settings.auto_retrieve_min_score / 2)


def _worth(piece: Piece, value: float, place: int) -> Piece:
    return replace(piece, value=round(max(0.0, value * _SHARE - place * _STEP), 4))
