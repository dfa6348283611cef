# ruff: noqa: E501 (a pattern is read best on one line)
"""Summaries without a model: two or three sentences of the conversation itself, each under a word that says what it is.

What a reader wants to know first is what was asked, what was decided or found, and what was done. Of each kind the most
central sentence is taken: the one whose words the most other sentences share. The word in front ("Asked", "The agent
reports") keeps an agent's claim from looking like the user's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from filrouge import lazy_re as re
from filrouge.model.analysis import Point, PointKind
from filrouge.model.turn import Turn
from filrouge.model.when import Language
from filrouge.understand import bugs, moods
from filrouge.understand.heuristics import extract
from filrouge.understand.masked import MASK
from filrouge.understand.plain_words import PLAIN_WORDS
from filrouge.understand.reading import read
from filrouge.understand.said import Said, said, speaker_of
from filrouge.understand.titles import title_of
from filrouge.understand.words import content, fold

SENTENCES: Final = 3
#: Points that are kept of a session, so that later turns can be weighed against them.
KEPT: Final = 12
_LONGEST: Final = 240
_LABELS: Final[Mapping[Language, Mapping[PointKind, str]]] = {
    "en": {
        "asked": "Asked: ", "decided": "Decided: ", "ruled": "Rule: ", "found": "Found: ", "noted": "Noted: ",
        "done": "The agent reports: ", "told": "Summarised: ",
    },
    "fr": {
        "asked": "Demandé : ", "decided": "Décidé : ", "ruled": "Règle : ", "found": "Trouvé : ", "noted": "Noté : ",
        "done": "L'agent rapporte : ", "told": "Résumé : ",
    },
    "es": {
        "asked": "Pedido: ", "decided": "Decidido: ", "ruled": "Regla: ", "found": "Encontrado: ", "noted": "Anotado: ",
        "done": "El agente informa: ", "told": "Resumido: ",
    },
}  # fmt: skip
#: In this order a reader wants them.
_ORDER: Final[tuple[PointKind, ...]] = ("asked", "decided", "found", "ruled", "done", "noted", "told")
_DONE: Final = re.compile(
    r"^(?:i|we|i've|we've|i have|j'ai|on a|nous avons|he|hemos)\b.{0,30}?\b(?:fixed|added|created|updated|removed|renamed|moved|implemented|refactored|wrote|rewrote|replaced|migrated|deployed|installed|configured|changed|merged|split|cleaned|tested|verified|found"
    r"|corrige|ajoute|cree|mis a jour|supprime|renomme|deplace|implemente|refactorise|ecrit|remplace|migre|deploye|installe|configure|change|fusionne|nettoye|teste|verifie|trouve|arreglado|anadido|creado|actualizado|eliminado|cambiado)\b"
    r"|^(?:fixed|added|created|updated|removed|implemented|done|corrige|ajoute|cree|supprime|termine|fait|hecho)\b"
    r"|\b(?:is|are|est|sont) (?:now|maintenant|desormais) \w+|\b(?:all )?tests? (?:now )?pass\b|\bles tests passent\b|\b(?:root cause|the cause|la cause|the fix|le correctif)\b"
)


def points(turns: Sequence[Turn], *, former: Sequence[Point] = ()) -> tuple[Point, ...]:
    """What a summary of these turns may be made of, the most central first."""
    sentences = said(turns)
    weights = _word_weights(sentences)
    found = dict[str, Point]()
    for point in [*former, *_asked(turns, weights), *_stated(turns, weights), *_reported(sentences, weights)]:
        known = found.get(point.text)
        if point.text and (known is None or known.weight < point.weight):
            found[point.text] = point
    return tuple(sorted(found.values(), key=lambda point: (-point.weight, point.text))[:KEPT])


def summary_of(points: Sequence[Point], language: Language) -> str:
    """Two or three of these points as a text, in the order in which they are wanted; empty where there are none."""
    taken: list[Point] = []
    for kind in _ORDER:
        best = next((point for point in points if point.kind == kind and _is_new(point, taken)), None)
        if best and len(taken) < SENTENCES:
            taken.append(best)
    for point in points:
        if len(taken) < SENTENCES - 1 and point not in taken and _is_new(point, taken):
            taken.append(point)
    ordered = sorted(taken, key=lambda point: _ORDER.index(point.kind))
    return " ".join(f"{_LABELS[language][point.kind]}{_ended(point.text)}" for point in ordered)


def reports_work(plain: str) -> bool:
    """True for a sentence, folded, that tells of work that was done."""
    return _DONE.search(plain) is not None


def _asked(turns: Sequence[Turn], weights: Mapping[str, float]) -> Iterator[Point]:
    """The subject of what each prompt asks for; what opens the conversation sets its theme."""
    first = True
    for turn in turns:
        title = _request(turn) if speaker_of(turn) == "user" else ""
        if title:
            yield Point(kind="asked", text=title, weight=_central(title, weights) * (1.5 if first else 1.0))
            first = False


def _request(turn: Turn) -> str:
    """The subject of the first sentence that asks; of a prompt that neither asks nor states anything, its own."""
    stated = [statement.span for statement in extract(turn)]
    for one in said([turn]):
        plain, start = one.sentence.plain, one.sentence.start
        if any(span.start < one.sentence.end and start < span.end for span in stated):
            continue
        if (moods.QUESTION.search(plain) or moods.is_request(plain)) and not moods.SMALLTALK.search(plain):
            title = title_of(one.text)
            return f"{title}?" if title and one.text.endswith("?") and moods.QUESTION.search(fold(title)) else title
    return "" if stated or MASK.search(turn.text) else title_of(turn.text)


def _stated(turns: Sequence[Turn], weights: Mapping[str, float]) -> Iterator[Point]:
    for turn in turns:
        for statement in extract(turn):
            text = _clipped(statement.text)
            kind: PointKind = "noted"
            if statement.kind == "decision" or statement.is_correction:
                kind = "decided"
            elif statement.kind in ("rule", "constraint"):
                kind = "ruled"
            elif bugs.find(read(statement.text, 0)):
                kind = "found"
            yield Point(kind=kind, text=text, weight=_central(text, weights) * statement.confidence)


def _reported(sentences: Sequence[Said], weights: Mapping[str, float]) -> Iterator[Point]:
    for one in sentences:
        if one.speaker == "user" or len(one.text.split()) < 4 or one.text.endswith((":", "?")):
            continue
        if one.speaker == "told":
            yield Point(kind="told", text=_clipped(one.text), weight=_central(one.text, weights))
        elif reports_work(one.sentence.plain):
            yield Point(kind="done", text=_clipped(one.text), weight=_central(one.text, weights))


def _word_weights(sentences: Sequence[Said]) -> dict[str, float]:
    """How many sentences have a word, as a share of the most frequent one; everyday words weigh nothing."""
    counts = Counter[str]()
    for one in sentences:
        counts.update({word for word in content(one.text) if word not in PLAIN_WORDS})
    most = max(counts.values(), default=1)
    return {word: count / most for word, count in counts.items()}


def _central(text: str, weights: Mapping[str, float]) -> float:
    """The weight of a sentence's telling words, damped by its length, in [0, 1] for most."""
    words = set(content(text))
    return round(sum(weights.get(word, 0.0) for word in words) / max(1, len(words)) ** 0.5, 4)


def _is_new(point: Point, taken: Sequence[Point]) -> bool:
    """False where another point says most of it."""
    words = set(content(point.text))
    return all(len(words & set(content(other.text))) <= 0.6 * max(1, len(words)) for other in taken)


def _clipped(text: str) -> str:
    """On one line, cut in front of a word."""
    line = " ".join(text.split()).lstrip("#*->• ")
    return line if len(line) <= _LONGEST else line[:_LONGEST].rpartition(" ")[0].rstrip(",;: ") + "…"


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
