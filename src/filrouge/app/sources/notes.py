"""Source: notes of the user's vault: those he named, those with his tag, and before a prompt those that bear on it.

What a note says is the user's own text and no instruction: it stands in the block as quoted data, like a memory. A note
that is named and not there is passed over, and so is a vault that cannot be read. A note that was found for the prompt
is worth what it is likely to help; one that is always brought takes the room that what was found leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from filrouge.app.moment import Moment
from filrouge.app.note_search import search_notes
from filrouge.app.parts import Parts
from filrouge.app.vault import MOST_TAGGED, fixed
from filrouge.inject.render import LONGEST_NOTE
from filrouge.model.note import CHANNEL, NoteHit
from filrouge.model.piece import Piece
from filrouge.model.scope import LOCAL_USER
from filrouge.notes.markdown import folded
from filrouge.ports import Tx
from filrouge.store.vault import StoredVault

#: What a note is worth that the user named, and one with his tag.
_FIXED_VALUE: Final = 0.45
_TAGGED_VALUE: Final = 0.4
_MOST_FOUND: Final = 3


def notes(parts: Parts, tx: Tx, moment: Moment) -> Sequence[Piece]:
    """Notes for a moment, each once: those found for the prompt, the named ones, those with the tag."""
    settings = moment.settings
    if not settings.notes_enabled or moment.user != LOCAL_USER or not parts.noted.looked.is_there:
        return []
    store = StoredVault(tx)
    named = dict.fromkeys(fixed(settings), _FIXED_VALUE)
    tagged = dict.fromkeys(store.tagged(folded(settings.notes_tag), MOST_TAGGED), _TAGGED_VALUE)
    found = {piece.id: piece for piece in _found(parts, tx, moment)} if moment.occasion == "prompt" else {}
    helps = {path: piece.value for path, piece in found.items() if not piece.refused}
    whole = [_whole(store, path, max(value, helps.get(path, 0.0))) for path, value in (named | tagged | named).items()]
    always = {piece.id: piece for piece in whole if piece is not None}
    return [*always.values(), *(piece for path, piece in found.items() if path not in always)]


def _whole(store: StoredVault, path: str, value: float) -> Piece | None:
    """The beginning of a note, or None where it is missing."""
    begun = store.beginning(path, LONGEST_NOTE)
    if begun is None:
        return None
    text, changed = begun
    return Piece(
        id=path, kind="note", section="notes", text=text, said=changed, source=CHANNEL, value=value, verified=False
    )


def _found(parts: Parts, tx: Tx, moment: Moment) -> Sequence[Piece]:
    """The notes that bear on the prompt, and those that would not be shown, each with the reason."""
    found = search_notes(parts, tx, moment.prompt, limit=_MOST_FOUND)
    least = moment.settings.auto_retrieve_min_score
    moment.notices.extend(notice for notice in found.notices if notice not in moment.notices)
    return [_piece(hit, found.known, least) for hit in found.hits]


def _piece(hit: NoteHit, known: float, least: float) -> Piece:
    why = "nothing is known of this" if known < least else "below the threshold" if hit.relevance < least else ""
    return Piece(
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
