"""Source: where the work stands, for a session that starts (GARD-3, INJ-2).

After a compaction that is the session's own work, which was just lost: of the threads that it worked on last
everything, of those before them what was decided. Any other start, in whatever agent or linked worktree, gets what was
worked on last in the project: of the last piece of work everything, of the one before it what was asked and how far it
is. `thread_state` gives the same of one thread, for a prompt that takes it up again (THR-10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from filrouge.app.moment import Moment
from filrouge.app.parts import Parts
from filrouge.app.syntheses import is_empty, of_today, state_of_session, state_of_thread
from filrouge.model.piece import Piece, Section
from filrouge.model.synthesis import Point, Synthesis
from filrouge.model.turn import TRUST_PROMPT
from filrouge.model.when import Language
from filrouge.ports import Tx
from filrouge.store.analyses import Session
from filrouge.store.syntheses import Syntheses, WorkPlace

#: Pieces of work that a start is told of, and days after which one is no longer work in hand.
_MOST, _DAYS = 2, 30
_LOOKED_AT, _NEWEST_PROMPTS = 8, 200
_FILES: Final = 6
_Told = tuple[Section, str, Sequence[Point]]
_LABELS: Final[Mapping[str, Mapping[Language, str]]] = {
    "asked": {"en": "Last asked: ", "fr": "Dernière demande : ", "es": "Lo último pedido: "},
    "done": {"en": "The agent reports: ", "fr": "L'agent rapporte : ", "es": "El agente informa: "},
    "files": {"en": "Files written: ", "fr": "Fichiers écrits : ", "es": "Archivos escritos: "},
    "error": {"en": "Last failure: ", "fr": "Dernier échec : ", "es": "Último fallo: "},
    "question": {"en": "Open question: ", "fr": "Question ouverte : ", "es": "Pregunta abierta: "},
}


def synthesis(parts: Parts, tx: Tx, moment: Moment) -> Sequence[Piece]:
    """Where the work stands: the session's own after a compaction, else that of the project's last sessions."""
    own = Session(host=moment.host, id=moment.session)
    if moment.opening == "compact":
        found = state_of_session(parts, tx, own)
        told = [(n, one if n < _MOST else _decided(one)) for n, one in enumerate(found)]
        return [piece for n, one in told for piece in pieces_of(one, moment, worth=max(0.5, 0.95 - n / 5))]
    offered: list[Piece] = []
    for n, one in enumerate(_worked_on(parts, tx, moment, own)):
        late = (moment.now - one.at).days > _DAYS
        pieces = pieces_of(one, moment, worth=0.8 - n / 5, briefly=n > 0)
        offered += [_refused(piece, "too long ago") for piece in pieces] if late else pieces
    return offered


def thread_state(tx: Tx, moment: Moment, thread_id: str) -> Sequence[Piece]:
    """Where the work in a thread stood, for the section of the thread that a prompt takes up again."""
    found = state_of_thread(tx, thread_id)
    return pieces_of(found, moment, worth=0.8, section="thread") if found else ()


def in_brief(_parts: Parts, tx: Tx, moment: Moment) -> Sequence[Piece]:
    """The last synthesis of the project, as it is stored, for a brief."""
    place = _place(moment, Session(host="", id=""))
    stored = of_today(tx, Syntheses(tx).of_place(place, 1))
    return [piece for one in stored if not is_empty(one) for piece in pieces_of(one, moment, worth=0.8)]


def pieces_of(
    one: Synthesis, moment: Moment, *, worth: float, section: Section | None = None, briefly: bool = False
) -> list[Piece]:
    """A synthesis as pieces, each of one voice: the user's words are not mixed with the agent's.

    Args:
        worth: the value of the first piece; the others have less.
        section: where all of it goes, in the place of a section for each kind.
        briefly: only what was asked and how far it is, if anything was.
    """
    language = moment.language
    briefly = briefly and bool(one.state)
    asked = [point for point in one.state if point.trust >= TRUST_PROMPT]
    done = [point for point in one.state if point.trust < TRUST_PROMPT]
    told: list[_Told] = []
    if asked:
        told.append(("synthesis", _said("asked", asked, language), asked))
    if done:
        told.append(("synthesis", _said("done", done, language), done))
    if not briefly:
        told.extend(("decisions", point.text, [point]) for point in one.decisions)
        told.extend(("questions", point.text, [point]) for point in one.questions)
        if one.error:
            told.append(("synthesis", _said("error", [one.error], language), [one.error]))
    pieces = [_piece(one, section or of, text, points) for of, text, points in told]
    if section:  # without headings of their own, questions say what they are
        pieces = [_labelled(piece, of, language) for piece, (of, _, _) in zip(pieces, told, strict=True)]
    if one.files and not briefly:
        text = f"{_LABELS['files'][language]}{', '.join(one.files[:_FILES])}"
        pieces.append(_piece(one, section or "synthesis", text, ()))
    return [_worth(piece, worth - n / 100) for n, piece in enumerate(pieces)]


def _decided(one: Synthesis) -> Synthesis:
    """What of a piece of work before the last ones is still to be known: a decision holds for the whole session."""
    return replace(one, state=(), questions=(), files=(), error=None)


def _worked_on(parts: Parts, tx: Tx, moment: Moment, own: Session) -> list[Synthesis]:
    """What was worked on last in the project by other sessions, each thread once, the latest first.

    A session that goes on elsewhere, or was killed, has no synthesis of its last turns: it is brought up to date.
    """
    store, place = Syntheses(tx), _place(moment, own)
    latest = store.latest_sessions(place, newest=_NEWEST_PROMPTS, limit=_MOST)
    behind = [session for session, seq in latest if max((s.until for s in store.of_session(session)), default=0) < seq]
    fresh = [one for session in behind for one in state_of_session(parts, tx, session)]
    brought = {(one.host, one.session) for one in fresh}
    known = of_today(tx, store.of_place(place, _LOOKED_AT))
    stored = [one for one in known if (one.host, one.session) not in brought]
    once: dict[str, Synthesis] = {}
    for one in sorted([*fresh, *stored], key=lambda one: one.at, reverse=True):
        if one.project == moment.project and (one.state or one.decisions or one.questions):
            once.setdefault(one.thread_id or f"{one.host} {one.session}", one)
    return list(once.values())[:_MOST]


def _place(moment: Moment, but: Session) -> WorkPlace:
    return WorkPlace(user=moment.user, project=moment.project, agent=moment.agent, but=but)


def _said(label: str, points: Sequence[Point], language: Language) -> str:
    return _LABELS[label][language] + " ".join(_ended(point.text) for point in points)


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _piece(one: Synthesis, section: Section, text: str, points: Sequence[Point]) -> Piece:
    return Piece(
        id=next((point.memory_id for point in points if point.memory_id), one.id),
        kind="synthesis",
        section=section,
        text=text,
        said=one.at,
        source=one.channel,
        verified=bool(points) and all(point.trust >= TRUST_PROMPT for point in points),
        turns=tuple(point.turn_id for point in points),
    )


def _labelled(piece: Piece, of: Section, language: Language) -> Piece:
    return replace(piece, text=_LABELS["question"][language] + piece.text) if of == "questions" else piece


def _worth(piece: Piece, value: float) -> Piece:
    return replace(piece, value=round(max(0.0, value), 4))


def _refused(piece: Piece, why: str) -> Piece:
    return replace(piece, refused=why)
