"""Consolidation: when two memories are one or contradict each other, and the plan and progress of a run.

Pure: no database, no file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from filrouge.core import text as re
from filrouge.core.clock import Language
from filrouge.extraction.decide import SAME, Rule, decide
from filrouge.extraction.profile import profile, same_words, version
from filrouge.extraction.vocabulary import content, fold
from filrouge.maintenance.models import KINDS, Garden, GardenStep, StepKind
from filrouge.memories.models import SUMS, Conflict, Memory, Neighbour, Noop, Span, Statement, Update
from filrouge.runtime.feed_messages import Topic

# When two things that are known are one, and which of them stays; when they cannot both hold.
#
# The rules are those by which a new statement meets what is known (`extraction.decide`), asked both ways and of two
# that are live already. Merging is the more careful of the two: a wrong merge hides what was true, a missed one
# leaves a repetition. So two memories are one only where each already says what the other says, with the same
# numbers, names and values, and either in the same words or in words that mean nearly the same (`bench/merging.py`
# measures what that lets through). A contradiction is only put before the user.
#
# Nothing crosses a project, a user or a scope. Rules are left alone, and what is pinned is never merged away.

_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")


def may_be_one(one: Memory, other: Memory) -> bool:
    """True for two live memories of one place and kind that nobody set apart: no rules, and at most one is pinned."""
    if one.id == other.id or not _of_one_place(one, other) or one.kind != other.kind or one.kind == "rule":
        return False
    if (one.pinned and other.pinned) or one.disabled or other.disabled:
        return False
    keys = {one.key, other.key} - {None}
    return len(keys) < 2 and not one.timeframe and not other.timeframe


def is_same(one: Memory, other: Memory, similarity: float) -> bool:
    """True where two memories that may be one say the same.

    Args:
        similarity: calibrated, of their texts; 0.0 where it is not known.
    """
    if not may_be_one(one, other):
        return False
    if same_words(one.text, other.text):
        return one.value == other.value or None in (one.value, other.value)
    if similarity < SAME or not _same_values(one, other):
        return False
    return _says_no_more(one, other, similarity) and _says_no_more(other, one, similarity)


def rank(memory: Memory) -> tuple[bool, bool, int, int, str]:
    """Who stays comes first: the pinned; a core fact; what is trusted more; what was said more often; the older."""
    return not memory.pinned, memory.key is None, -memory.trust, -memory.mention_count, memory.id


def kept_of(one: Memory, other: Memory) -> tuple[Memory, Memory]:
    """Which of two stays, then which goes."""
    first, second = sorted((one, other), key=rank)
    return first, second


def contradiction(one: Memory, other: Memory, similarity: float) -> tuple[Memory, Memory, str] | None:
    """The newer, the older and why they cannot both hold; None where they can, as far as rules can tell."""
    if not _of_one_place(one, other) or "rule" in (one.kind, other.kind) or one.kind in SUMS or other.kind in SUMS:
        return None
    older, newer = sorted((one, other), key=lambda memory: (memory.valid_from, memory.id))
    if {cited.turn_id for cited in older.evidence} & {cited.turn_id for cited in newer.evidence}:
        return None  # who says both in one breath means both
    found = decide(stated(newer), [Neighbour(memory=older, similarity=similarity)], without=_unsure(newer, older))
    match found:
        case Update(reason=reason) | Conflict(reason=reason):
            return newer, older, reason
        case _:
            return None


def concept_key(text: str) -> frozenset[str]:
    """What makes two concepts one: their content words, bridged between languages, without plurals and order."""
    return frozenset(content(text))


def is_same_concept(one: Memory, other: Memory) -> bool:
    """True for two concepts of one place that are spelt or said in another way."""
    if one.id == other.id or not one.kind == other.kind == "concept" or not _of_one_place(one, other):
        return False
    key = concept_key(one.text)
    return bool(key) and key == concept_key(other.text)


def stated(memory: Memory) -> Statement:
    """What a memory says, as a statement that is about to be compared."""
    return Statement(
        kind=memory.kind,
        text=memory.text,
        span=Span(start=0, end=0),
        scope=memory.scope_name,
        subject=memory.subject,
        confidence=memory.confidence,
        timeframe=memory.timeframe,
    )


def _of_one_place(one: Memory, other: Memory) -> bool:
    live = one.state == other.state == "live" and "note" not in (one.kind, other.kind)  # files, which nobody merges
    same_project = one.scope.project == other.scope.project or one.scope_name == "user"
    return live and one.scope_name == other.scope_name and one.scope.user == other.scope.user and same_project


def _unsure(newer: Memory, older: Memory) -> frozenset[Rule]:
    """The rules that do not suffice to ask a person: of two that name nothing, or name different things."""
    mine, theirs = profile(newer.text).entity, profile(older.text).entity
    if not mine:
        return frozenset({"newer value"})
    apart = theirs and not (mine <= theirs or theirs <= mine)
    return frozenset({"newer version"}) if apart else frozenset()


def _says_no_more(mine: Memory, theirs: Memory, similarity: float) -> bool:
    return isinstance(decide(stated(mine), [Neighbour(memory=theirs, similarity=similarity)]), Noop)


def _same_values(one: Memory, other: Memory) -> bool:
    """True where no number, name, value or denial tells the two apart."""
    mine, theirs = profile(one.text), profile(other.text)
    if (mine.held, mine.rejects, bool(mine.negated)) != (theirs.held, theirs.rejects, bool(theirs.negated)):
        return False
    if set(_NUMBER.findall(fold(one.text))) != set(_NUMBER.findall(fold(other.text))):
        return False
    return version(one.text).names == version(other.text).names and one.sentiment == other.sentiment


# What a run of the garden would do, as a value that prints itself before anything is done.
#
# A plan is a list of small steps in their order. A step names what it is about by ids alone, so that it can be kept,
# and read again after a crash; what a person reads of it (`told`) is shown and never kept. Nothing here looks at a
# store: whoever knows the store finds the steps, and whoever does them says what came of each.

#: Before any run was timed: half a minute to two minutes (GARD-2).
_UNTIMED: Final = (30.0, 120.0)
#: Steps of one kind that are told one by one.
_TOLD_EACH: Final = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A small piece of the work.

    Attributes:
        subject: what it is about: ids and counts, never words.
        told: what a person reads of it; empty where the count says enough.
    """

    kind: StepKind
    subject: Mapping[str, Any]
    told: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """How long a run takes, in seconds, at the least and at the most.

    Attributes:
        from_runs: it was learned from runs of before.
    """

    least: float
    most: float
    from_runs: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class GardenPlan:
    """The steps of a run.

    Attributes:
        memories_until: the number of the last memory that was compared with others for this plan.
        left: sessions and memories that are left for another run, because there are too many for one.
    """

    steps: tuple[Step, ...]
    estimate: Estimate
    memories_until: int = 0
    left: int = 0

    def __str__(self) -> str:
        return "\n".join(self.lines("en"))

    @property
    def counts(self) -> dict[str, int]:
        """How many steps there are of each kind, of those kinds that there are any of."""
        found = Counter(step.kind for step in self.steps)
        return {kind: found[kind] for kind in KINDS if found[kind]}

    def lines(self, language: Language) -> Iterator[str]:
        """The plan for a person, a line at a time."""
        words = _WORDS[language]
        left = ["  " + _counted(words["left"], self.left)] if self.left else []
        if not self.steps:
            yield words["nothing"]
            yield from left
            return
        yield words["would"]
        for kind, count in self.counts.items():
            yield "  " + _counted(words[kind], count)
            told = [step.told for step in self.steps if step.kind == kind and step.told]
            yield from (f"    {line}" for line in told[:_TOLD_EACH])
            if len(told) > _TOLD_EACH:
                yield "    " + words["more"].format(n=len(told) - _TOLD_EACH)
        yield from left
        yield words["takes"].format(time=_time(self.estimate, words))

    def to_json(self, language: Language = "en") -> dict[str, Any]:
        """The plan for programs, with its text and the question to ask below it."""
        return {
            **self.kept(),
            "left": self.left,
            "estimate": {
                "seconds": [round(self.estimate.least, 1), round(self.estimate.most, 1)],
                "from_past_runs": self.estimate.from_runs,
            },
            "steps": [{"kind": step.kind, "subject": dict(step.subject), "told": step.told} for step in self.steps],
            "text": "\n".join(self.lines(language)),
            "question": _WORDS[language]["begin"],
        }

    def kept(self) -> dict[str, Any]:
        """What is kept of it: counts, never words."""
        return {"counts": self.counts, "memories_until": self.memories_until}


def in_order(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps by their kinds, those of one kind as they were."""
    return tuple(sorted(steps, key=lambda step: KINDS.index(step.kind)))


def estimate(steps: Sequence[Step], seconds: Mapping[str, float]) -> Estimate:
    """How long these steps take.

    Args:
        seconds: of a step of each kind in runs of before; a kind that is missing takes as long as the others do.
    """
    known = list(seconds.values())
    if not known:
        return Estimate(least=_UNTIMED[0], most=_UNTIMED[1], from_runs=False)
    usual = sum(known) / len(known)
    whole = sum(seconds.get(step.kind, usual) for step in steps)
    return Estimate(least=whole, most=whole, from_runs=True)


def _counted(forms: str, count: int) -> str:
    """`one|many`, with the number in it."""
    one, _, many = forms.partition("|")
    return (one if count == 1 else many or one).format(n=count)


def _time(expected: Estimate, words: Mapping[str, str]) -> str:
    if not expected.from_runs:
        return words["untimed"]
    seconds = max(1, round(expected.most))
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"


_WORDS: Final[Mapping[Language, Mapping[str, str]]] = {
    "en": {
        "nothing": "There is nothing to consolidate.",
        "would": "To be done:",
        "sessions": "read one session that is unread or went on|read {n} sessions that are unread or went on",
        "concepts": "merge one concept into another|merge {n} concepts into others",
        "preferences": "look for what the user stated in one session|look for what the user stated in {n} sessions",
        "duplicates": "merge one memory that another says as well|merge {n} memories that others say as well",
        "contradictions": "put one contradiction up for review|put {n} contradictions up for review",
        "retention": "let what is kept no longer go|let go {n} times of what is kept no longer",
        "vectors": "make one batch of vectors that are missing|make {n} batches of vectors that are missing",
        "more": "and {n} more",
        "left": "one more is left for the next run|{n} more are left for the next run",
        "takes": "It takes about {time}; what you do meanwhile does not wait for it.",
        "untimed": "30 s to 2 min",
        "begin": "Begin?",
    },
    "fr": {
        "nothing": "Il n'y a rien à consolider.",
        "would": "À faire :",
        "sessions": "lire une session non lue ou reprise|lire {n} sessions non lues ou reprises",
        "concepts": "fusionner un concept avec un autre|fusionner {n} concepts avec d'autres",
        "preferences": "chercher ce qui a été énoncé dans une session|chercher ce qui a été énoncé dans {n} sessions",
        "duplicates": "fusionner un souvenir qu'un autre dit aussi|fusionner {n} souvenirs que d'autres disent aussi",
        "contradictions": "soumettre une contradiction à ta revue|soumettre {n} contradictions à ta revue",
        "retention": "laisser partir ce qui n'est plus gardé|laisser partir {n} fois ce qui n'est plus gardé",
        "vectors": "calculer un lot de vecteurs manquants|calculer {n} lots de vecteurs manquants",
        "more": "et {n} de plus",
        "left": "un de plus reste pour la prochaine fois|{n} de plus restent pour la prochaine fois",
        "takes": "Durée : environ {time} ; ce que tu fais entre-temps n'attend pas.",
        "untimed": "30 s à 2 min",
        "begin": "Commencer ?",
    },
    "es": {
        "nothing": "No hay nada que consolidar.",
        "would": "Por hacer:",
        "sessions": "leer una sesión no leída o retomada|leer {n} sesiones no leídas o retomadas",
        "concepts": "fusionar un concepto con otro|fusionar {n} conceptos con otros",
        "preferences": "buscar lo que se dijo en una sesión|buscar lo que se dijo en {n} sesiones",
        "duplicates": "fusionar un recuerdo que otro también dice|fusionar {n} recuerdos que otros también dicen",
        "contradictions": "proponer una contradicción a tu revisión|proponer {n} contradicciones a tu revisión",
        "retention": "dejar ir lo que ya no se guarda|dejar ir {n} veces lo que ya no se guarda",
        "vectors": "calcular un lote de vectores que faltan|calcular {n} lotes de vectores que faltan",
        "more": "y {n} más",
        "left": "uno más queda para la próxima vez|{n} más quedan para la próxima vez",
        "takes": "Tarda unos {time}; lo que haces mientras tanto no espera.",
        "untimed": "30 s a 2 min",
        "begin": "¿Empezar?",
    },
}


# How far a run is, in the words of the wire (GARD-2): `ws:memory_progress`, and what a person reads of it.
#
# The wire has four phases, a plan more kinds of steps. `extracting_concepts` counts sessions and nothing else, so
# that "2/5 sessions" is meant as it is said; `vectorizing` counts batches of vectors; all that weighs what is known
# already (concepts and memories that are one, contradictions, retention) is `analyzing_preferences`. Within a phase
# `current` goes from 1 to `total` and leaves nothing out, because messages are a function of the steps that are done:
# whoever comes late, or after a crash, is told the same ones.

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
            sessions=_progress_counted(words["sessions"], sessions), items=_progress_counted(words["items"], items)
        )
    return words[str(payload["phase"])].format(current=payload["current"], total=payload["total"])


def _progress_counted(forms: str, count: int) -> str:
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
