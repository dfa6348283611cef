"""How far a run is, in the words of the wire (GARD-2): `ws:memory_progress`, and what a person reads of it.

The wire has four phases, a plan more kinds of steps. `extracting_concepts` counts sessions and nothing else, so that
"2/5 sessions" is meant as it is said; `vectorizing` counts batches of vectors; all that weighs what is known already
(concepts and memories that are one, contradictions, retention) is `analyzing_preferences`. Within a phase
`current` goes from 1 to `total` and leaves nothing out, because messages are a function of the steps that are done:
whoever comes late, or after a crash, is told the same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from filrouge.model.garden import Garden, GardenStep, StepKind
from filrouge.model.live import Topic
from filrouge.model.when import Language

TYPE: Final = "ws:memory_progress"
Phase = Literal["extracting_concepts", "analyzing_preferences", "vectorizing", "completed"]
Status = Literal["in_progress", "completed"]

PHASE_OF: Final[Mapping[StepKind, Phase]] = {
    "sessions": "extracting_concepts",
    "concepts": "analyzing_preferences",
    "preferences": "analyzing_preferences",
    "duplicates": "analyzing_preferences",
    "contradictions": "analyzing_preferences",
    "retention": "analyzing_preferences",
    "vectors": "vectorizing",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryProgress:
    """One message of a run's progress.

    Attributes:
        garden_id: the run; who is told of several runs tells them apart by it. It is not part of the payload.
        session_id: the session that was read last; empty where the step was about none.
        current, total: steps of this phase that are done, and that there are; of the whole run in the last message.
        consolidated_sessions, new_items: what the run came to, in its last message alone.
    """

    topic: ClassVar[Topic] = "progress"

    garden_id: str
    session_id: str
    current: int
    total: int
    phase: Phase
    status: Status = "in_progress"
    consolidated_sessions: int | None = None
    new_items: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The message as it goes over the wire."""
        payload: dict[str, Any] = {
            "session_id": self.session_id,
            "current": self.current,
            "total": self.total,
            "phase": self.phase,
            "status": self.status,
        }
        if self.status == "completed":
            payload |= {"consolidated_sessions": self.consolidated_sessions, "new_items": self.new_items}
        return {"type": TYPE, "payload": payload}


def messages(garden: Garden, done: Sequence[GardenStep]) -> list[MemoryProgress]:
    """The messages of a run, in order.

    Args:
        done: the steps that are done, in order.
    """
    so_far, found = Counter[Phase](), list[MemoryProgress]()
    for step in done:
        so_far[PHASE_OF[step.kind]] += 1
        found.append(message(garden, step, so_far[PHASE_OF[step.kind]]))
    return [*found, completed(garden)] if garden.state == "completed" else found


def message(garden: Garden, step: GardenStep, current: int) -> MemoryProgress:
    """The message of a step, the `current`th of its phase."""
    phase = PHASE_OF[step.kind]
    total = sum(garden.counts.get(kind, 0) for kind in kinds_of(phase))
    return MemoryProgress(garden_id=garden.id, session_id=step.session, current=current, total=total, phase=phase)


def completed(garden: Garden) -> MemoryProgress:
    """The last message of a run that is completed."""
    return MemoryProgress(
        garden_id=garden.id,
        session_id="",
        current=garden.steps,
        total=garden.steps,
        phase="completed",
        status="completed",
        consolidated_sessions=garden.totals.get("sessions", 0),
        new_items=garden.totals.get("new_items", 0),
    )


def kinds_of(phase: Phase) -> list[StepKind]:
    """The kinds of steps that a phase counts."""
    return [kind for kind, other in PHASE_OF.items() if other == phase]


def label(payload: Mapping[str, Any], language: Language) -> str:
    """What a person reads of a payload: `Extraction des concepts... (2/5 sessions)`."""
    words = _LABELS[language]
    if payload["status"] == "completed":
        sessions, items = int(payload["consolidated_sessions"]), int(payload["new_items"])
        return words["completed"].format(
            sessions=_counted(words["sessions"], sessions), items=_counted(words["items"], items)
        )
    return words[str(payload["phase"])].format(current=payload["current"], total=payload["total"])


def _counted(forms: str, count: int) -> str:
    one, _, many = forms.partition("|")
    return f"{count} {one if count == 1 else many}"


_LABELS: Final[Mapping[Language, Mapping[str, str]]] = {
    "en": {
        "extracting_concepts": "Extracting concepts... ({current}/{total} sessions)",
        "analyzing_preferences": "Analysing preferences... ({current}/{total})",
        "vectorizing": "Making vectors... ({current}/{total})",
        "completed": "✓ Consolidation completed: {sessions}, {items}",
        "sessions": "session|sessions",
        "items": "new item|new items",
    },
    "fr": {
        "extracting_concepts": "Extraction des concepts... ({current}/{total} sessions)",
        "analyzing_preferences": "Analyse des préférences... ({current}/{total})",
        "vectorizing": "Vectorisation... ({current}/{total})",
        "completed": "✓ Consolidation terminée : {sessions}, {items}",
        "sessions": "session|sessions",
        "items": "nouvel item|nouveaux items",
    },
    "es": {
        "extracting_concepts": "Extracción de conceptos... ({current}/{total} sesiones)",
        "analyzing_preferences": "Análisis de preferencias... ({current}/{total})",
        "vectorizing": "Vectorización... ({current}/{total})",
        "completed": "✓ Consolidación terminada: {sessions}, {items}",
        "sessions": "sesión|sesiones",
        "items": "elemento nuevo|elementos nuevos",
    },
}
