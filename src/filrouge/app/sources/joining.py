"""Source: the file of this folder names a project of other folders, and the user has not agreed to that yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from filrouge.app.moment import Moment
from filrouge.app.parts import Parts
from filrouge.model.piece import Piece
from filrouge.model.when import Language
from filrouge.ports import Tx
from filrouge.store.events import Projects

#: Neither the name nor the path: a stranger may have written both.
_WORDS: Final[Mapping[Language, str]] = {
    "en": "The .filrouge.toml of this folder names a project of other folders. Its memories are not shown here."
    " If the two are one project, the user types: filrouge project join",
    "fr": "Le fichier .filrouge.toml de ce dossier nomme un projet d’autres dossiers. Ses souvenirs ne sont pas montrés"
    " ici. Si les deux sont un même projet, l’utilisateur tape : filrouge project join",
    "es": "El archivo .filrouge.toml de esta carpeta nombra un proyecto de otras carpetas. Sus recuerdos no se muestran"
    " aquí. Si los dos son un mismo proyecto, el usuario escribe: filrouge project join",
}


def joining(_parts: Parts, tx: Tx, moment: Moment) -> Sequence[Piece]:
    """The notice, where the folder waits for the user's consent."""
    if not Projects(tx).is_refused(moment.folder):
        return []
    text = _WORDS[moment.language]
    return [Piece(id="join", kind="reminder", section="reminders", text=text, source="filrouge", value=0.9)]
