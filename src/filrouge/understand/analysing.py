# ruff: noqa: E501 (a pattern is read best on one line)
"""Analysing a session without a model: everything that `Analysis` holds, from turns alone.

Incremental: of a session that was analysed before, only the turns since are read, and the former analysis counts on.
A function from turns to an `Analysis`; whoever has a model puts another in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from filrouge import lazy_re as re
from filrouge.model.analysis import NOTHING, Analysis, Intent, Quote
from filrouge.model.memory import Kind
from filrouge.model.turn import Turn
from filrouge.understand.concepts import Rarity, concepts
from filrouge.understand.corrections import old_values
from filrouge.understand.entities import entities
from filrouge.understand.heuristics import extract
from filrouge.understand.language import vote
from filrouge.understand.questions import open_questions
from filrouge.understand.said import Said, said, speaker_of
from filrouge.understand.summaries import points, summary_of
from filrouge.understand.tools import AMBIGUOUS, CATEGORY

_MOST_QUOTES: Final = 30
_MOST_CONTEXT: Final = 8
_INTENTS: Final[tuple[tuple[Intent, re.Pattern[str]], ...]] = (
    ("fix", re.compile(r"\b(?:fix\w*|bugs?|errors?|crash\w*|broken|fail\w*|debug\w*|wrong|regression|corrige\w*|erreurs?|plante\w*|casse\w*|echoue\w*|repare\w*|panne|arregla\w*|fallo)\b")),
    ("build", re.compile(r"\b(?:add|build|create|implement\w*|write|generate|scaffold|new feature|set ?up|ajoute\w*|cree\w*|implemente\w*|ecris|genere\w*|construi\w*|anade|crea|escribe)\b")),
    ("change", re.compile(r"\b(?:refactor\w*|rename|move|migrat\w*|replace|upgrade|update|clean ?up|simplif\w*|optimi[sz]\w*|remove|renomme|deplace|migre\w*|remplace\w*|mets? a jour|nettoie|supprime|cambia|renombra|elimina)\b")),
    ("decide", re.compile(r"\b(?:decid\w*|choose|choice|which (?:one|of)|compare|trade-?offs?|pros and cons|should we|better|versus|vs|choisi\w*|choix|quel(?:le)? .{0,20}choisir|comparer?|elegir|decidi\w*)\b")),
    ("review", re.compile(r"\b(?:review|audit|proofread|feedback|check (?:this|my|the)|relis|relecture|verifie\w*|revue|revisa)\b")),
    ("understand", re.compile(r"^(?:how|why|what|where|when|who|which|explain|describe|comment|pourquoi|quoi|ou|quand|qui|quel\w*|explique\w*|como|por que|que|donde|explica)\b|\bhow (?:does|do|to|is)\b|\bc'est quoi\b")),
)  # fmt: skip


class Analyst(Protocol):
    """Reads the new turns of a session. `analyse` is the one that needs no model."""

    def __call__(
        self, turns: Sequence[Turn], *, former: Analysis, rarity: Rarity | None, projects: Sequence[str]
    ) -> Analysis:
        """What the session comes to with these turns."""
        ...


def analyse(
    turns: Sequence[Turn],
    *,
    former: Analysis = NOTHING,
    rarity: Callable[[str], float] | None = None,
    projects: Sequence[str] = (),
) -> Analysis:
    """What a session comes to.

    Args:
        turns: of the session, in their order; those of before are in `former`.
        rarity: of a folded word in other conversations.
        projects: the short names of known projects.
    """
    sentences = said(turns)
    language = vote([turn.text for turn in turns if speaker_of(turn) == "user"], former.language)
    made = points(turns, former=former.points)
    quotes = _quotes(turns)
    summary = summary_of(made, language)
    named = entities(turns, projects=projects, former=former.entities)
    nobodies = [one.name for one in named if one.type in ("person", "place")]
    if not former.points and former.summary:
        summary = f"{former.summary} {summary}".strip()
    return Analysis(
        summary=summary,
        concepts=concepts(turns, rarity=rarity, former=former.concepts, nobodies=nobodies),
        entities=named,
        questions=open_questions(turns, former=former.questions),
        decisions=_both(former.decisions, quotes("decision")),
        preferences=_both(former.preferences, quotes("preference")),
        intents=_both(former.intents, quotes("intent")),
        constraints=_both(former.constraints, quotes("constraint", "rule")),
        implicit_context=_implicit(sentences, former.implicit_context),
        intent=_intent(sentences) or former.intent,
        language=language,
        points=made,
    )


def _quotes(turns: Sequence[Turn]) -> Callable[..., tuple[Quote, ...]]:
    stated = [(turn.id, statement) for turn in turns if not turn.skipped for statement in extract(turn)]

    def of(*kinds: Kind) -> tuple[Quote, ...]:
        return tuple(Quote(text=one.text, turn_id=id_, span=one.span) for id_, one in stated if one.kind in kinds)

    return of


def _both(former: Sequence[Quote], fresh: Sequence[Quote]) -> tuple[Quote, ...]:
    """Each once; of too many the latest."""
    return tuple(dict.fromkeys([*former, *fresh]))[-_MOST_QUOTES:]


def _implicit(sentences: Sequence[Said], former: Sequence[str]) -> tuple[str, ...]:
    """What the tools that the user speaks of give away: nobody says "our database is", and everybody names it."""
    known = dict(one.split(": ", 1) for one in former if ": " in one)
    others = tuple(one for one in former if ": " not in one)
    for one in sentences:
        if one.speaker != "user":
            continue
        # What a choice is held against comes after it: "Typst for invoices, no longer LaTeX".
        own, rejected = dict[str, str](), old_values(one.sentence.plain)
        for word in re.findall(r"[a-z0-9][\w.+-]*[\w+]", one.sentence.plain):
            if _is_unmistakable(word, one) and word not in rejected:
                own.setdefault(CATEGORY[word], word)
        known |= own
    return (*others, *(f"{category}: {word}" for category, word in known.items()))[:_MOST_CONTEXT]


def _is_unmistakable(word: str, one: Said) -> bool:
    return word in CATEGORY and (
        word not in AMBIGUOUS or re.search(rf"\b{re.escape(word.title())}\b", one.text) is not None
    )


def _intent(sentences: Sequence[Said]) -> Intent:
    """What most of the user's sentences are for; of two, what comes first in the table; statements alone inform."""
    own = [one.sentence.plain for one in sentences if one.speaker == "user"]
    counts = {intent: sum(pattern.search(plain) is not None for plain in own) for intent, pattern in _INTENTS}
    best = max(counts.values(), default=0)
    if best:
        return next(intent for intent, _ in _INTENTS if counts[intent] == best)
    return "inform" if own else ""
