"""Consolidation and decay: rules for duplicates and contradictions, the plan and progress of a run. Pure.

Two memories are duplicates only if each already says what the other says, with the same numbers, names and values, in
the same words or in words of nearly the same meaning. The rules are those that compare a new statement with known
memories (`extraction.decide`), applied in both directions. Merging is the stricter use: a wrong merge hides a true
statement, a missed one leaves a repetition (`bench/merging.py` measures it). A contradiction is only put up for review.

No rule crosses a project, a user or a scope. Memories of kind `rule` are not merged or compared, and a pinned memory is
never merged away.

Pure: no database, no file.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Literal, get_args

from msgspec import Struct

from filrouge.core import lazy_re as re
from filrouge.core.clock import Language
from filrouge.extraction.decide import MIN_SAME_SIMILARITY, Check, decide, statement_of
from filrouge.extraction.profile import profile, same_words, version
from filrouge.extraction.vocabulary import content, fold
from filrouge.memories.models import SUMS, Conflict, Kind, Memory, Neighbour, Noop, Update
from filrouge.runtime.feed_messages import Topic

# A consolidation run ("garden") and its steps, as stored: counts and ids, never words.

StepKind = Literal["sessions", "concepts", "preferences", "duplicates", "contradictions", "retention", "vectors"]
KINDS: Final[tuple[StepKind, ...]] = get_args(StepKind)
"""In the order of a run: sessions first, because later steps use their memories; vectors last."""
Trigger = Literal["hand", "idle", "schedule"]
GardenState = Literal["running", "completed", "failed"]


class ConsolidationRun(Struct, frozen=True, kw_only=True):
    """One run.

    Attributes:
        occasion: what started the run.
        counts: number of steps of each kind.
        memories_until: sequence number of the last memory that the plan of this run compared with others.
        totals: summed results by name; empty until the run is over.
        error: why the run failed; empty if it did not.
    """

    id: str
    occasion: Trigger
    state: GardenState
    counts: Mapping[StepKind, int]
    memories_until: int
    totals: Mapping[str, int]
    started_at: datetime
    ended_at: datetime | None
    error: str

    @property
    def steps(self) -> int:
        """The number of steps."""
        return sum(self.counts.values())


class RunStep(Struct, frozen=True, kw_only=True):
    """One stored step of a run.

    Attributes:
        position: number of the step within its run, from 0.
        subject: ids and counts of what the step works on, never words; the keys depend on the kind.
    """

    position: int
    kind: StepKind
    subject: Mapping[str, Any]

    @property
    def session(self) -> str:
        """The session that the step works on, or empty."""
        return str(self.subject.get("session", ""))


class Cutoffs(Struct, frozen=True, kw_only=True):
    """Rows older than these times are deleted; None means that none are.

    Attributes:
        tools: raw tool output.
        noise: turns that capture filtered.
        logs: recalls, and model answers that could not be read.
    """

    tools: datetime | None
    noise: datetime | None
    logs: datetime | None


# Rules for duplicates and contradictions between memories, and the plan and progress of a consolidation run.

_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")


def is_mergeable(memory: Memory, other: Memory) -> bool:
    """Return True if two memories are eligible to merge.

    Both are live, of one scope and kind. Rules, disabled memories and memories with a timeframe are not eligible; at
    most one of the two is pinned, and their keys do not differ.
    """
    if memory.id == other.id or not _same_scope(memory, other) or memory.kind != other.kind or memory.kind == "rule":
        return False
    if (memory.pinned and other.pinned) or memory.disabled or other.disabled:
        return False
    keys = {memory.key, other.key} - {None}
    return len(keys) < 2 and not memory.timeframe and not other.timeframe


def is_same(memory: Memory, other: Memory, similarity: float) -> bool:
    """Return True if two memories that may be merged say the same.

    Args:
        similarity: calibrated similarity of their texts; 0.0 if unknown.
    """
    if not is_mergeable(memory, other):
        return False
    if same_words(memory.text, other.text):
        return memory.value == other.value or None in (memory.value, other.value)
    if similarity < MIN_SAME_SIMILARITY or not _same_values(memory, other):
        return False
    return _adds_nothing(memory, other, similarity) and _adds_nothing(other, memory, similarity)


def rank(memory: Memory) -> tuple[bool, bool, int, int, str]:
    """Sort key; the memory to keep comes first: pinned, core fact, more trusted, more often mentioned, older."""
    return not memory.pinned, memory.key is None, -memory.trust, -memory.mention_count, memory.id


def merge_order(memory: Memory, other: Memory) -> tuple[Memory, Memory]:
    """Return the memory to keep, then the one to merge into it."""
    first, second = sorted((memory, other), key=rank)
    return first, second


def contradiction(first: Memory, second: Memory, similarity: float) -> tuple[Memory, Memory, str] | None:
    """Return the newer memory, the older one and why they contradict; None if no rule finds a contradiction."""
    if (
        not _same_scope(first, second)
        or "rule" in (first.kind, second.kind)
        or first.kind in SUMS
        or second.kind in SUMS
    ):
        return None
    older, newer = sorted((first, second), key=lambda memory: (memory.valid_from, memory.id))
    if {cited.turn_id for cited in older.evidence} & {cited.turn_id for cited in newer.evidence}:
        return None  # both are from one turn, so the user means both
    decision = decide(
        statement_of(newer), [Neighbour(memory=older, similarity=similarity)], skip_checks=_weak_checks(newer, older)
    )
    match decision:
        case Update(reason=reason) | Conflict(reason=reason):
            return newer, older, reason
        case _:
            return None


def concept_key(text: str) -> frozenset[str]:
    """Return the content words of a concept, without order, plurals and differences of language."""
    return frozenset(content(text))


def is_same_concept(memory: Memory, other: Memory) -> bool:
    """Return True for two concepts of one scope that differ only in spelling or wording."""
    if memory.id == other.id or not memory.kind == other.kind == "concept" or not _same_scope(memory, other):
        return False
    key = concept_key(memory.text)
    return bool(key) and key == concept_key(other.text)


def _same_scope(memory: Memory, other: Memory) -> bool:
    live = memory.state == other.state == "live" and "note" not in (memory.kind, other.kind)  # notes are never merged
    same_project = memory.scope.project == other.scope.project or memory.scope_name == "user"
    return live and memory.scope_name == other.scope_name and memory.scope.user == other.scope.user and same_project


def _weak_checks(newer: Memory, older: Memory) -> frozenset[Check]:
    """Return the checks too weak to justify a question: for texts without an entity, or with different ones."""
    newer_entities, older_entities = profile(newer.text).entity, profile(older.text).entity
    if not newer_entities:
        return frozenset({"newer value"})
    differ = older_entities and not (newer_entities <= older_entities or older_entities <= newer_entities)
    return frozenset({"newer version"}) if differ else frozenset()


def _adds_nothing(memory: Memory, other: Memory, similarity: float) -> bool:
    return isinstance(decide(statement_of(memory), [Neighbour(memory=other, similarity=similarity)]), Noop)


def _same_values(memory: Memory, other: Memory) -> bool:
    """Return True if both have the same numbers, names, values, sentiment and negation."""
    mine, theirs = profile(memory.text), profile(other.text)
    if (mine.current_texts, mine.rejects, bool(mine.negated)) != (
        theirs.current_texts,
        theirs.rejects,
        bool(theirs.negated),
    ):
        return False
    if set(_NUMBER.findall(fold(memory.text))) != set(_NUMBER.findall(fold(other.text))):
        return False
    return version(memory.text).names == version(other.text).names and memory.sentiment == other.sentiment


# The plan of a run.

#: Estimate before any run was timed: half a minute to two minutes.
_UNTIMED: Final = (30.0, 120.0)
#: Steps of one kind that are listed one by one.
_MAX_LISTED_STEPS: Final = 10


class Step(Struct, frozen=True, kw_only=True):
    """A small unit of work, stored by ids only, so that it can be read again after a crash.

    Attributes:
        subject: ids and counts of what the step works on, never words.
        description: shown to the user and never stored; empty if the count is enough.
    """

    kind: StepKind
    subject: Mapping[str, Any]
    description: str = ""


class Estimate(Struct, frozen=True, kw_only=True):
    """The estimated duration of a run.

    Attributes:
        least, most: bounds in seconds.
        from_runs: True if it is based on past runs.
    """

    least: float
    most: float
    from_runs: bool


class GardenPlan(Struct, frozen=True, kw_only=True):
    """The steps of a run.

    Attributes:
        memories_until: sequence number of the last memory compared for this plan.
        remaining: number of sessions and memories beyond the limit of one run; the next run takes them.
    """

    steps: tuple[Step, ...]
    estimate: Estimate
    memories_until: int = 0
    remaining: int = 0

    def __str__(self) -> str:
        return "\n".join(self.lines("en"))

    @property
    def counts(self) -> dict[str, int]:
        """The number of steps per kind, without kinds that have none."""
        found = Counter(step.kind for step in self.steps)
        return {kind: found[kind] for kind in KINDS if found[kind]}

    def lines(self, language: Language) -> Iterator[str]:
        """Return the plan as text for a user, line by line."""
        texts = _PLAN_TEXTS[language]
        remaining = ["  " + _format_count(texts["left"], self.remaining)] if self.remaining else []
        if not self.steps:
            yield texts["nothing"]
            yield from remaining
            return
        yield texts["would"]
        for kind, count in self.counts.items():
            yield "  " + _format_count(texts[kind], count)
            descriptions = [step.description for step in self.steps if step.kind == kind and step.description]
            yield from (f"    {line}" for line in descriptions[:_MAX_LISTED_STEPS])
            if len(descriptions) > _MAX_LISTED_STEPS:
                yield "    " + texts["more"].format(n=len(descriptions) - _MAX_LISTED_STEPS)
        yield from remaining
        yield texts["takes"].format(time=_format_time(self.estimate, texts))

    def to_json(self, language: Language = "en") -> dict[str, Any]:
        """Return the plan as JSON, with its text and the question to ask below it."""
        return {
            **self.stored_counts(),
            "left": self.remaining,
            "estimate": {
                "seconds": [round(self.estimate.least, 1), round(self.estimate.most, 1)],
                "from_past_runs": self.estimate.from_runs,
            },
            "steps": [
                {"kind": step.kind, "subject": dict(step.subject), "told": step.description} for step in self.steps
            ],
            "text": "\n".join(self.lines(language)),
            "question": _PLAN_TEXTS[language]["begin"],
        }

    def stored_counts(self) -> dict[str, Any]:
        """Return the part of the plan that is stored: counts, never words."""
        return {"counts": self.counts, "memories_until": self.memories_until}


def sort_by_kind(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps sorted by kind; steps of one kind keep their order."""
    return tuple(sorted(steps, key=lambda step: KINDS.index(step.kind)))


def estimate(steps: Sequence[Step], seconds: Mapping[str, float]) -> Estimate:
    """Estimate how long these steps take.

    Args:
        seconds: seconds per step of each kind in past runs; a missing kind gets the mean of the others.
    """
    kind_means = list(seconds.values())
    if not kind_means:
        return Estimate(least=_UNTIMED[0], most=_UNTIMED[1], from_runs=False)
    mean = sum(kind_means) / len(kind_means)
    total = sum(seconds.get(step.kind, mean) for step in steps)
    return Estimate(least=total, most=total, from_runs=True)


def _format_count(forms: str, count: int) -> str:
    """Format the singular or the plural of `singular|plural` with the number."""
    singular, _, plural = forms.partition("|")
    return (singular if count == 1 else plural or singular).format(n=count)


def _format_time(duration: Estimate, texts: Mapping[str, str]) -> str:
    if not duration.from_runs:
        return texts["untimed"]
    seconds = max(1, round(duration.most))
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"


_PLAN_TEXTS: Final[Mapping[Language, Mapping[str, str]]] = {
    "en": {
        "nothing": "There is nothing to consolidate.",
        "would": "To be done:",
        "sessions": "read one unread or continued session|read {n} unread or continued sessions",
        "concepts": "merge one concept into another|merge {n} concepts into others",
        "preferences": "look for what the user stated in one session|look for what the user stated in {n} sessions",
        "duplicates": "merge one duplicate memory|merge {n} duplicate memories",
        "contradictions": "send one contradiction to review|send {n} contradictions to review",
        "retention": "delete rows past their retention time|run retention {n} times",
        "vectors": "compute one batch of missing vectors|compute {n} batches of missing vectors",
        "more": "and {n} more",
        "left": "one more is left for the next run|{n} more are left for the next run",
        "takes": "This takes about {time} and runs in the background.",
        "untimed": "30 s to 2 min",
        "begin": "Begin?",
    },
    "fr": {
        "nothing": "Il n'y a rien à consolider.",
        "would": "À faire :",
        "sessions": "lire une session non lue ou reprise|lire {n} sessions non lues ou reprises",
        "concepts": "fusionner un concept avec un autre|fusionner {n} concepts avec d'autres",
        "preferences": "chercher ce qui a été énoncé dans une session|chercher ce qui a été énoncé dans {n} sessions",
        "duplicates": "fusionner un souvenir en double|fusionner {n} souvenirs en double",
        "contradictions": "soumettre une contradiction à ta revue|soumettre {n} contradictions à ta revue",
        "retention": "supprimer les lignes trop anciennes|supprimer {n} fois les lignes trop anciennes",
        "vectors": "calculer un lot de vecteurs manquants|calculer {n} lots de vecteurs manquants",
        "more": "et {n} de plus",
        "left": "un de plus reste pour la prochaine fois|{n} de plus restent pour la prochaine fois",
        "takes": "Durée : environ {time}, en arrière-plan.",
        "untimed": "30 s à 2 min",
        "begin": "Commencer ?",
    },
    "es": {
        "nothing": "No hay nada que consolidar.",
        "would": "Por hacer:",
        "sessions": "leer una sesión no leída o retomada|leer {n} sesiones no leídas o retomadas",
        "concepts": "fusionar un concepto con otro|fusionar {n} conceptos con otros",
        "preferences": "buscar lo que se dijo en una sesión|buscar lo que se dijo en {n} sesiones",
        "duplicates": "fusionar un recuerdo duplicado|fusionar {n} recuerdos duplicados",
        "contradictions": "enviar una contradicción a revisión|enviar {n} contradicciones a revisión",
        "retention": "borrar las filas demasiado antiguas|borrar {n} veces las filas demasiado antiguas",
        "vectors": "calcular un lote de vectores que faltan|calcular {n} lotes de vectores que faltan",
        "more": "y {n} más",
        "left": "uno más queda para la próxima vez|{n} más quedan para la próxima vez",
        "takes": "Tarda unos {time} y se hace en segundo plano.",
        "untimed": "30 s a 2 min",
        "begin": "¿Empezar?",
    },
}


# Progress messages of a run: `ws:memory_progress` and their labels.

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


class MemoryProgress(Struct, frozen=True, kw_only=True):
    """One progress message of a run.

    The protocol has four phases, which group the kinds of steps (`PHASE_OF`). `extracting_concepts` counts sessions and
    nothing else, so "2/5 sessions" is exact. `vectorizing` counts batches of vectors. `analyzing_preferences` counts
    the rest. Within a phase `current` goes from 1 to `total` without gaps.

    Attributes:
        garden_id: the run, for clients that follow several; not part of the payload.
        session_id: the session of this step; empty if the step has none.
        phase: group of step kinds that `current` and `total` count.
        current, total: done steps and all steps of this phase; in the last message, of the whole run.
        consolidated_sessions, new_items: totals of the run, only in the last message.
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
        """Return the message as it is sent."""
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


def messages(run: ConsolidationRun, done: Sequence[RunStep]) -> list[MemoryProgress]:
    """Return the messages of a run, in order.

    They are computed from the done steps, so a late client, or one after a crash, gets the same messages.

    Args:
        done: the done steps, in order.
    """
    counts, sent = Counter[Phase](), list[MemoryProgress]()
    for step in done:
        counts[PHASE_OF[step.kind]] += 1
        sent.append(message(run, step, counts[PHASE_OF[step.kind]]))
    return [*sent, completed_message(run)] if run.state == "completed" else sent


def message(run: ConsolidationRun, step: RunStep, current: int) -> MemoryProgress:
    """Return the message of a step, the `current`th of its phase."""
    phase = PHASE_OF[step.kind]
    total = sum(run.counts.get(kind, 0) for kind in kinds_of(phase))
    return MemoryProgress(garden_id=run.id, session_id=step.session, current=current, total=total, phase=phase)


def completed_message(run: ConsolidationRun) -> MemoryProgress:
    """Return the last message of a completed run."""
    return MemoryProgress(
        garden_id=run.id,
        session_id="",
        current=run.steps,
        total=run.steps,
        phase="completed",
        status="completed",
        consolidated_sessions=run.totals.get("sessions", 0),
        new_items=run.totals.get("new_items", 0),
    )


def kinds_of(phase: Phase) -> list[StepKind]:
    """Return the kinds of steps that a phase counts."""
    return [kind for kind, other in PHASE_OF.items() if other == phase]


def label(payload: Mapping[str, Any], language: Language) -> str:
    """Return a payload as text for the user: `Extraction des concepts... (2/5 sessions)`."""
    words = _PROGRESS_TEXTS[language]
    if payload["status"] == "completed":
        sessions, items = int(payload["consolidated_sessions"]), int(payload["new_items"])
        return words["completed"].format(
            sessions=_format_noun(words["sessions"], sessions), items=_format_noun(words["items"], items)
        )
    return words[str(payload["phase"])].format(current=payload["current"], total=payload["total"])


def _format_noun(forms: str, count: int) -> str:
    singular, _, plural = forms.partition("|")
    return f"{count} {singular if count == 1 else plural}"


_PROGRESS_TEXTS: Final[Mapping[Language, Mapping[str, str]]] = {
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


# Decay of memories, and the retention policy.

# Decay.

#: Half-life in days, by kind.
HALF_LIVES: Final[Mapping[Kind, float]] = {
    "intent": 14.0,
    "episode": 30.0,
    "concept": 60.0,
    "fact": 90.0,
    "note": 90.0,
    "decision": 180.0,
    "constraint": 180.0,
    "preference": 365.0,
}
#: A memory below this vitality counts as faded.
FADED: Final = 0.05
_DAY_SECONDS: Final = 86_400.0


def vitality(memory: Memory, now: datetime) -> float:
    """Return the vitality of a memory, in [0, 1]; 1 if it does not fade, or if `now` is before its last mention.

    Forgetting is exponential, and repeated memories fade more slowly (Ebbinghaus 1885; the spacing effect). Vitality is
    1 when a memory is mentioned or used, and halves with every half-life after that. The half-life depends on the
    memory's kind and grows with repetition:

        vitality = 0.5 ^ (days since last use / (half-life of its kind x (1 + log2(mentions + uses / 2))))

    Vitality is computed from stored events and not stored itself. So no periodic update is needed, a wrong clock does
    no lasting harm, and a rebuild gives the same values. Vitality is shown and used for ordering; nothing is deleted
    because it faded.
    """
    if is_permanent(memory):
        return 1.0
    days = max(0.0, (now - last_activity(memory)).total_seconds() / _DAY_SECONDS)
    return 0.5 ** (days / half_life(memory))


def half_life(memory: Memory) -> float:
    """Return the days in which a memory loses half of its vitality; infinite if it does not fade."""
    if is_permanent(memory):
        return math.inf
    encounters = max(1, memory.mention_count) + max(0, memory.uses) / 2
    return HALF_LIVES[memory.kind] * (1.0 + math.log2(encounters))


def is_permanent(memory: Memory) -> bool:
    """Return True for pinned memories and rules."""
    return memory.pinned or memory.kind == "rule"


def last_activity(memory: Memory) -> datetime:
    """Return when a memory was last mentioned or used."""
    moments = (memory.created_at, memory.last_mention, memory.last_used)
    return max(moment for moment in moments if moment is not None)


# Retention.

#: Divisors of the retention times, by pressure step, and the shortest time that a row is kept.
PRESSURES: Final = (1, 3, 12)
_MIN_RETENTION: Final = timedelta(days=1)


class Policy(Struct, frozen=True, kw_only=True):
    """Days that rows are kept; 0 means for ever.

    What people and agents said is kept, and so is everything that a memory cites. Above the size cap, these times are
    shortened in steps. What was said is never deleted for size; if shortening is not enough, the user gets a warning.

    Attributes:
        tools: raw tool output.
        noise: turns that capture filtered.
        logs: recalls, and model answers that could not be read.
        cap: size limit of the whole home in bytes; 0 means no limit.
    """

    tools: int = 90
    noise: int = 30
    logs: int = 90
    cap: int = 5_000_000_000


def cutoffs(policy: Policy, now: datetime, pressure: int = 0) -> Cutoffs:
    """Return the cutoff times of a policy.

    Args:
        pressure: the step, in `range(len(PRESSURES))`; 0 applies the policy unchanged.
    """
    divisor = PRESSURES[pressure]

    def before(days: int) -> datetime | None:
        return now - max(_MIN_RETENTION, timedelta(days=days) / divisor) if days else None

    return Cutoffs(tools=before(policy.tools), noise=before(policy.noise), logs=before(policy.logs))


def next_pressure(policy: Policy, size: int, pressure: int) -> int | None:
    """Return the next pressure step if the home exceeds its cap; None if it does not, or at the last step."""
    return pressure + 1 if policy.cap and size > policy.cap and pressure + 1 < len(PRESSURES) else None
