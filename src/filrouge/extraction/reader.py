"""Read statements out of a prompt: the statement model decides what is remembered, patterns say what they are sure of.

Patterns (`understand.heuristics`) know keys, values and what is taken back; the model knows what people remember. A
pattern's statement stands where it is certain, or where the model agrees; a unit that no pattern read stands where the
model is sure enough. What a prompt quotes or pastes is in no unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from filrouge import lazy_re as re
from filrouge.extraction.features import ALWAYS, STRONG
from filrouge.extraction.logistic import Numbers, confidence
from filrouge.extraction.patterns import pattern_of
from filrouge.extraction.statement_model import Judged, judge
from filrouge.extraction.units import Unit, units
from filrouge.model.memory import Kind, Span, Statement
from filrouge.model.turn import TRUST_PROMPT, Turn
from filrouge.understand import corrections, moods
from filrouge.understand.heuristics import MOST_STATEMENTS, is_own_prompt
from filrouge.understand.masked import unmasked
from filrouge.understand.profile import subject
from filrouge.understand.reading import Clause, read
from filrouge.understand.words import content, fold

#: What is remembered of each label of the model.
KINDS: Final[dict[str, Kind]] = {
    "fact": "fact", "decision": "decision", "rule": "rule", "preference": "preference", "constraint": "constraint",
    "intent": "intent", "deadline": "fact", "cause": "fact",
}  # fmt: skip
#: The share of a kind below which a statement is not taken for a standing rule.
_SURE_OF_A_RULE: Final = 0.5
#: A pattern is certain from here on: "remember that ...", a labelled rule, a name.
_CERTAIN: Final = 0.95
#: The share of a unit that a pattern's statement holds, if it is the better reading of it.
_MOST_OF_IT: Final = 0.6
#: What the model must say of a strong pattern's statement; of a unit that asks, doubts or jokes (one in ten of those
#: states something); nothing that somebody else is quoted with is taken, however it sounds.
_AGREED, _IN_DOUBT, _NEVER = 0.4, 0.8, 2.0
#: What it must say of a request that is most of its prompt: below that one in five of those states something.
_REQUESTED: Final = 0.8
#: And of a trouble of the moment that is all a prompt says.
_IN_TROUBLE: Final = 0.9
_DOUBTED: Final = frozenset({"question", "hypothesis", "joke", "undecided", "momentary"})
#: The share of a prompt's letters that are the user's own, below which it is a paste, and its first line a heading.
_LEAST_OWN: Final = 0.5
_POINTS_BACK: Final = re.compile(
    r"(?:it|its|it's|that|that's|this|they|those|these|he|she|il|elle|ils|elles|ca|c'est|c'etait|cela|eso|esto|ese|esa)\b"
)
#: What is to be remembered by the user's own word, whatever the model thinks of it; "do you remember" asks.
_ORDERED: Final = re.compile(
    r"(?:please |ok,? |so,? |and |et |y |por favor,? )*(?:remember|keep in mind|bear in mind|note(?: to self)?"
    r"|don't forget|do not forget|rappelle[sz]?-toi|rappelez-vous|souviens-toi|souvenez-vous|retiens|retenez"
    r"|note[sz]?(?: bien)?|n'oublie[sz]? pas|garde en (?:tete|memoire)|recuerda|acuerdate de|no olvides"
    r"|ten en cuenta|anota|apunta)\b"
    r"\s?(?:that |que |qu'|bien |:|,)"
)
#: What states a habit or a goal where it is all that a prompt says: nine of ten such prompts of `bench/data/talk` do.
_STANDING: Final = re.compile(
    r"\b(?:before|after|for|with|on|at|in) (?:each|every)\b|\b(?:each|every) time\b|\bwhenever\b"
    r"|\b(?:avant|apres|pour|dans|a) chaque\b|\bchaque fois\b"
    r"|\b(?:antes de|despues de|en|para|con) cada\b|\bcada vez que\b"
    r"|\b(?:want|would like|'d like|plan) to (?:learn|become|launch|finish|build)\b"
    r"|\b(?:veux|voudrais|souhaite|aimerais|compte) (?:apprendre|devenir|lancer|finir|monter)\b"
    r"|\b(?:quiero|quisiera|me gustaria) (?:aprender|ser|montar|lanzar|terminar)\b"
    r"|\b(?:should|must|have to|need to) avoid\b|\b(?:il faut|on doit) (?:absolument )?eviter\b"
    r"|\b(?:hay que|debemos|tenemos que) evitar\b"
)
#: "I prefer" never says anything else.
_PREFERRED: Final = re.compile(r"\b(?:i|we) (?:really |much )?prefer\b|\b(?:je|on) prefer\w+\b|\bprefiero\b")
_LEAST_WORDS: Final = 3
#: Characters of the longest statement.
LONGEST: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """A prompt that is to be read.

    Attributes:
        patterns: what patterns found in it.
    """

    text: str
    patterns: tuple[Statement, ...]
    units: tuple[Unit, ...]

    @property
    def texts(self) -> list[str]:
        """What the vectors are made of: the units, then the units in their setting."""
        return [one.text for one in self.units] + [one.in_setting for one in self.units]


def is_read(turn: Turn) -> bool:
    """Whether the model reads a turn: what the user wrote to an agent, and nothing else."""
    return turn.trust == TRUST_PROMPT and not turn.skipped and is_own_prompt(turn)


def prompt(text: str, patterns: tuple[Statement, ...]) -> Prompt:
    """A prompt cut into units; the first ones of a long one."""
    return Prompt(text=text, patterns=patterns, units=tuple(units(text)[: 2 * MOST_STATEMENTS]))


def statements(given: Prompt, vectors: Numbers | None) -> tuple[Statement, ...]:
    """Every statement of a prompt, in order.

    Args:
        vectors: of `given.texts`, by the bundled embedder; None = words alone.
    """
    number = len(given.units)
    pair = None if vectors is None else (vectors[:number], vectors[number:])
    found = [pattern_of(unit, given.patterns) for unit in given.units]
    judged, threshold = judge(given.units, found, pair)
    clauses = [read(unit.text, unit.start) for unit in given.units]
    paste = _is_a_paste(given)
    kept: list[Statement] = []
    for one in given.patterns:
        own = [at for at, unit in enumerate(given.units) if _shared(unit, one) > 0]
        agreed = any(judged[at].states >= (_AGREED if one.confidence >= STRONG else threshold) for at in own)
        if _is_certain(one, alone=number == 1) or not own or agreed:
            kept.append(one)
    for at, unit in enumerate(given.units):
        if paste or judged[at].states < _wanted(unit, clauses[at].plain, threshold):
            continue
        beside = [one for one in kept if _shared(unit, one) > 0]
        if any(_shared(unit, one) >= _MOST_OF_IT * (unit.end - unit.start) or one.key for one in beside):
            continue
        mine = _statement(given, at, clauses[at], judged[at], threshold)
        if mine is not None:
            kept = [one for one in kept if one not in beside]
            kept.append(mine)
    kept.sort(key=lambda one: one.span.start)
    return unmasked(kept[:MOST_STATEMENTS], given.text)


def _is_certain(one: Statement, *, alone: bool) -> bool:
    """What no model is asked about: a name and its like, an order to remember, something taken back; where it is all
    that a prompt says, any strong pattern, which is right then in nine cases of ten."""
    if one.key is not None or (one.is_correction and bool(one.corrects)):
        return True
    if one.kind == "preference" and _PREFERRED.search(fold(one.text)):
        return True
    return one.confidence >= (STRONG if alone else _CERTAIN)


def _wanted(unit: Unit, plain: str, threshold: float) -> float:
    """The probability from which on a unit is taken for a statement.

    Args:
        plain: its words, folded, without the opening chatter.
    """
    mood = moods.silent_mood(plain)
    if mood == "reported":
        return _NEVER
    if mood in _DOUBTED:
        return _IN_DOUBT
    if _is_outright(unit):
        return 0.0
    if unit.number == 1 and moods.is_status(plain):
        return _IN_TROUBLE
    for_now = unit.number <= 2 and moods.is_request(plain) and not ALWAYS.search(plain)
    return max(threshold, _REQUESTED) if for_now else threshold


def _is_a_paste(given: Prompt) -> bool:
    """True where most of several lines is not the user's own."""
    own = sum(unit.end - unit.start for unit in given.units)
    return "\n" in given.text.strip() and own < _LEAST_OWN * len("".join(given.text.split()))


def _is_outright(unit: Unit) -> bool:
    """True for what is to be remembered by the user's own word, and for a habit or a goal that is all a prompt says."""
    plain = fold(unit.text)
    if "?" in plain:
        return False
    return _ORDERED.match(plain) is not None or (unit.number == 1 and _STANDING.search(plain) is not None)


def _shared(unit: Unit, one: Statement) -> int:
    return unit.shared(one.span.start, one.span.end)


def _statement(given: Prompt, at: int, clause: Clause, judged: Judged, threshold: float) -> Statement | None:
    """The statement of a unit, without its opening chatter; with the unit before it where it points back to that."""
    start, end = clause.start, given.units[at].end
    if at and (len(content(clause.text)) < _LEAST_WORDS or _POINTS_BACK.match(clause.plain)):
        start = given.units[at - 1].start
    words = " ".join(given.text[start:end].split())
    if len(words) > LONGEST or not content(words) or moods.JOKE.search(fold(words)):
        return None
    change = corrections.find(clause)
    kind = KINDS[judged.kind]
    if kind == "rule" and judged.sure < _SURE_OF_A_RULE:
        kind = "constraint"
    made = Statement(
        kind=kind,
        text=words,
        span=Span(start=start, end=end),
        scope="user" if judged.user >= 0.5 else "project",
        subject=subject(words),
        confidence=confidence(judged.states, threshold),
    )
    return replace(made, is_correction=True, corrects=change.corrects) if change else made


def read_units(prompts: Sequence[Prompt]) -> list[str]:
    """Every text of which `statements` wants a vector, prompt after prompt."""
    return [text for one in prompts for text in one.texts]
