"""What a run of the garden would do, as a value that prints itself before anything is done.

A plan is a list of small steps in their order. A step names what it is about by ids alone, so that it can be kept, and
read again after a crash; what a person reads of it (`told`) is shown and never kept. Nothing here looks at a store:
whoever knows the store finds the steps, and whoever does them says what came of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from filrouge.model.garden import KINDS, StepKind
from filrouge.model.when import Language

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
