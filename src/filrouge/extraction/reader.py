"""Reading a prompt with the learned models: its statements, and the proposals that it agrees to.

Patterns (`extraction.heuristics`) find keys, values and retractions; the statement model knows what people want
remembered. A pattern's statement is kept if the pattern is certain or the model agrees. A unit without a pattern's
statement is kept if the model's probability is high enough. Quoted and pasted text is in no unit.

Pure: no database, no file.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import TRUST_PROMPT, Turn
from filrouge.core import lazy_re as re
from filrouge.extraction import reading
from filrouge.extraction.heuristics import MAX_STATEMENTS
from filrouge.extraction.own_words import is_own_prompt
from filrouge.extraction.profile import subject
from filrouge.extraction.reading import Clause, read_clause
from filrouge.extraction.sentences import Unit, units, without_masked
from filrouge.extraction.statement_model import (
    ALWAYS,
    NETWORK_QUESTIONS,
    STRONG,
    Numbers,
    Prediction,
    Regression,
    buckets,
    confidence,
    load,
    log_odds,
    network_head,
    network_odds,
    pattern_of,
    predict,
    sigmoid,
)
from filrouge.extraction.vocabulary import content, fold
from filrouge.memories.models import Kind, Span, Statement
from filrouge.providers.models import PassageParts

# Statements of a prompt.

#: The kind of memory for each label of the model.
KINDS: Final[dict[str, Kind]] = {
    "fact": "fact", "decision": "decision", "rule": "rule", "preference": "preference", "constraint": "constraint",
    "intent": "intent", "deadline": "fact", "cause": "fact",
}  # fmt: skip
#: Below this share of the kind, a rule that names no habit becomes a constraint: rules are followed to the letter. From
#: here on, 89 in 100 rules of validation are labelled so; from .5 on, 74.
_MIN_RULE_SHARE: Final = 0.8
#: From this confidence on, a pattern is certain: "remember that ...", a labelled rule, a name.
_MIN_CERTAIN_CONFIDENCE: Final = 0.95
#: Minimum share of a unit that a pattern's statement must cover to be preferred over the whole unit.
_MIN_COVERED_SHARE: Final = 0.6
#: Required probabilities: for a strong pattern's statement; for a unit that asks, doubts or jokes (one in ten of those
#: states something); and for reported speech, which no probability reaches.
_MIN_AGREED_PROBABILITY, _MIN_DOUBTFUL_PROBABILITY, _IMPOSSIBLE_PROBABILITY = 0.4, 0.8, 2.0
#: Required for a request that is most of its prompt; the network takes some orders for now for standing ones.
_MIN_REQUEST_PROBABILITY: Final = 0.95
#: Required for a unit that is only remembered if it replaces a memory.
_MIN_REPLACING_PROBABILITY: Final = 0.6
#: Required for a report on the current state that is the whole prompt; the network takes some defects for facts.
_MIN_STATUS_PROBABILITY: Final = 0.995
_DOUBTFUL_MOODS: Final = frozenset({"question", "hypothesis", "joke", "undecided", "momentary"})
#: Minimum share of a prompt's letters that are the user's own; below it the prompt is a paste with a heading.
_MIN_OWN_SHARE: Final = 0.5
_POINTS_BACK: Final = re.compile(
    r"(?:it|its|it's|that|that's|this|they|those|these|he|she|il|elle|ils|elles|ca|c'est|c'etait|cela|eso|esto|ese|esa)\b"
)
#: An explicit request to remember, which overrides the model. "do you remember" is a question and does not match.
_REMEMBER_REQUEST: Final = re.compile(
    r"(?:please |ok,? |so,? |and |et |y |por favor,? )*(?:remember|keep in mind|bear in mind|note(?: to self)?"
    r"|don't forget|do not forget|rappelle[sz]?-toi|rappelez-vous|souviens-toi|souvenez-vous|retiens|retenez"
    r"|note[sz]?(?: bien)?|n'oublie[sz]? pas|garde en (?:tete|memoire)|recuerda|acuerdate de|no olvides"
    r"|ten en cuenta|anota|apunta)\b"
    r"\s?(?:that |que |qu'|bien |:|,)"
)
#: A habit, or a goal or something to avoid, if it is the whole prompt: nine of ten such prompts in `bench/data/talk`
#: state something.
_HABIT: Final = re.compile(
    r"\b(?:before|after|for|with|on|at|in) (?:each|every)\b|\b(?:each|every) time\b|\bwhenever\b"
    r"|\b(?:avant|apres|pour|dans|a) chaque\b|\bchaque fois\b"
    r"|\b(?:antes de|despues de|en|para|con) cada\b|\bcada vez que\b"
)
_GOAL: Final = re.compile(
    r"\b(?:want|would like|'d like|plan) to (?:learn|become|launch|finish|build)\b"
    r"|\b(?:veux|voudrais|souhaite|aimerais|compte) (?:apprendre|devenir|lancer|finir|monter)\b"
    r"|\b(?:quiero|quisiera|me gustaria) (?:aprender|ser|montar|lanzar|terminar)\b"
    r"|\b(?:should|must|have to|need to) avoid\b|\b(?:il faut|on doit) (?:absolument )?eviter\b"
    r"|\b(?:hay que|debemos|tenemos que) evitar\b"
)
#: "I prefer" always states a preference.
_PREFERRED: Final = re.compile(r"\b(?:i|we) (?:really |much )?prefer\b|\b(?:je|on) prefer\w+\b|\bprefiero\b")
_MIN_WORDS: Final = 3
#: Maximum characters of a statement.
MAX_STATEMENT_CHARS: Final = 500
#: The words before a prompt that are read with it.
_MAX_WORDS_BEFORE: Final = 80


class Proposal(Struct, frozen=True, kw_only=True):
    """A sentence of an agent's message, with the prompt that answers it.

    Attributes:
        sentence: the sentence as a unit of the message.
        message, prompt: the folded texts.
    """

    sentence: Unit
    message: str
    prompt: str


class Prompt(Struct, frozen=True, kw_only=True):
    """A prompt to be read.

    Attributes:
        text: the whole prompt, as the user wrote it.
        patterns: the statements that patterns found in it, in order.
        units: its units, in order, without quoted or pasted text.
        answered: the agent's message right before it; may be empty.
        proposals: the last sentences of that message, in order.
    """

    text: str
    patterns: tuple[Statement, ...]
    units: tuple[Unit, ...]
    answered: str = ""
    proposals: tuple[Proposal, ...] = ()


class PromptVectors(Struct, frozen=True, kw_only=True):
    """What the network says of the parts of a prompt (`PartEmbedder`).

    Attributes:
        units: the vectors of its units, a row each.
        proposals: those of the last proposals; earlier ones are not read.
    """

    units: Numbers
    proposals: Numbers


def is_read(turn: Turn) -> bool:
    """Return whether the model reads a turn: only what the user wrote to an agent."""
    return turn.trust == TRUST_PROMPT and not turn.skipped and is_own_prompt(turn)


def split_prompt(text: str, patterns: tuple[Statement, ...], answered: str = "") -> Prompt:
    """Return a prompt cut into units, with the agent's message that it answers; of a long one, only the first units."""
    return Prompt(
        text=text,
        patterns=patterns,
        units=tuple(units(text)[: 2 * MAX_STATEMENTS]),
        answered=answered,
        proposals=tuple(proposals(answered, text)) if answered else (),
    )


def passages(prompt: Prompt, windows: Sequence[str]) -> list[PassageParts]:
    """Return a prompt as the network reads it: window by window, each behind the words before it.

    These are the last words of the agent's message, or of the window before. Windows in which no unit begins are left
    out. A prompt with a word so long that it is cut has no passages: its words cannot be found again in the windows.

    Args:
        prompt: the prompt.
        windows: all of them, in order: the words of the prompt, as `str.split` finds them.
    """
    starts = list(itertools.accumulate((len(text.split()) for text in windows), initial=0))
    if starts[-1] != len(prompt.text.split()):
        return []
    words_of_units = [words_between(prompt.text, unit.start, unit.end) for unit in prompt.units]
    before, parts_before = _last_words(prompt.answered), _proposals_in_last_words(prompt)
    found: list[PassageParts] = []
    for text, (start, stop) in zip(windows, itertools.pairwise(starts), strict=True):
        inside = tuple(
            range(words.start - start, min(words.stop, stop) - start)
            for words in words_of_units
            if start <= words.start < stop
        )
        if inside or parts_before:
            found.append(PassageParts(before=before, text=text, parts_before=parts_before, parts=inside))
        before, parts_before = _last_words(text), ()
    return found


def vectors_of(prompt: Prompt, found: Sequence[Numbers]) -> PromptVectors | None:
    """Return the vectors of a prompt's parts, given those of each of its passages; None if it has no passages."""
    if not found:
        return None
    every = np.concatenate(found)
    read = len(every) - len(prompt.units)  # every unit begins in one of the passages
    return PromptVectors(proposals=every[:read], units=every[read:])


def _last_words(text: str) -> str:
    return " ".join(text.split()[-_MAX_WORDS_BEFORE:])


def _proposals_in_last_words(prompt: Prompt) -> tuple[range, ...]:
    """Return the words of each proposal that begins in the last words of the message."""
    skipped = max(0, len(prompt.answered.split()) - _MAX_WORDS_BEFORE)
    words = [words_between(prompt.answered, one.sentence.start, one.sentence.end) for one in prompt.proposals]
    return tuple(range(one.start - skipped, one.stop - skipped) for one in words if one.start >= skipped)


def words_between(text: str, start: int, end: int) -> range:
    """Return the words of a text that lie between two positions, or reach into it, as `str.split` numbers them."""
    begins_inside = start > 0 and not text[start - 1].isspace() and not text[start].isspace()
    return range(len(text[:start].split()) - begins_inside, len(text[:end].split()))


def statements(prompt: Prompt, vectors: PromptVectors | None) -> tuple[Statement, ...]:
    """Return the statements of a prompt, in order; without vectors, the words alone tell them."""
    found = [pattern_of(unit, prompt.patterns) for unit in prompt.units]
    judged, threshold = predict(prompt.units, found, vectors.units if vectors else None)
    clauses = [read_clause(unit.text, unit.start) for unit in prompt.units]
    is_paste = _is_a_paste(prompt)
    accepted: list[Statement] = []
    for statement in prompt.patterns:
        touched_units = [index for index, unit in enumerate(prompt.units) if _shared_chars(unit, statement) > 0]
        is_agreed = any(
            judged[index].states >= (_MIN_AGREED_PROBABILITY if statement.confidence >= STRONG else threshold)
            for index in touched_units
        )
        if _is_certain(statement, alone=len(prompt.units) == 1) or not touched_units or is_agreed:
            accepted.append(statement)
    for index, unit in enumerate(prompt.units):
        required = _required_probability(unit, clauses[index].plain, threshold)
        # Another value for what is known is more probable to be meant than something new.
        only_replaces = vectors is not None and required == threshold > judged[index].states
        if is_paste or judged[index].states < (_MIN_REPLACING_PROBABILITY if only_replaces else required):
            continue
        overlapping = [statement for statement in accepted if _shared_chars(unit, statement) > 0]
        if (only_replaces and overlapping) or any(
            _shared_chars(unit, statement) >= _MIN_COVERED_SHARE * (unit.end - unit.start) or statement.key
            for statement in overlapping
        ):
            continue
        unit_statement = _statement(prompt, index, clauses[index], judged[index], threshold)
        if unit_statement is not None:
            unit_statement = replace(unit_statement, only_replaces=only_replaces)
            accepted = [statement for statement in accepted if statement not in overlapping]
            accepted.append(unit_statement)
    accepted.sort(key=lambda statement: statement.span.start)
    return without_masked(accepted[:MAX_STATEMENTS], prompt.text)


def _is_certain(statement: Statement, *, alone: bool) -> bool:
    """Return whether a pattern's statement needs no agreement of the model.

    This holds for keyed facts such as a name, corrections that name the old value, "I prefer", and requests to
    remember. If it is the whole prompt, any strong pattern is enough: it is then right in nine cases of ten.
    """
    if statement.key is not None or (statement.is_correction and bool(statement.corrects)):
        return True
    if statement.kind == "preference" and _PREFERRED.search(fold(statement.text)):
        return True
    return statement.confidence >= (STRONG if alone else _MIN_CERTAIN_CONFIDENCE)


def _required_probability(unit: Unit, plain: str, threshold: float) -> float:
    """Return the probability from which on a unit counts as a statement.

    Args:
        unit: the unit.
        plain: its folded words, without the opening chatter.
        threshold: the threshold of the model.
    """
    mood = reading.silent_mood(plain)
    if mood == "reported":
        return _IMPOSSIBLE_PROBABILITY
    if mood in _DOUBTFUL_MOODS:
        return _MIN_DOUBTFUL_PROBABILITY
    if _is_explicit(unit):
        return 0.0
    if unit.count == 1 and reading.is_status(plain):
        return _MIN_STATUS_PROBABILITY
    for_now = unit.count <= 2 and reading.is_request(plain) and not ALWAYS.search(plain)
    return max(threshold, _MIN_REQUEST_PROBABILITY) if for_now else threshold


def _is_a_paste(prompt: Prompt) -> bool:
    """Return whether a prompt of several lines is mostly not the user's own words."""
    own_chars = sum(unit.end - unit.start for unit in prompt.units)
    return "\n" in prompt.text.strip() and own_chars < _MIN_OWN_SHARE * len("".join(prompt.text.split()))


def _is_explicit(unit: Unit) -> bool:
    """Return whether a unit is a request to remember, or a habit or goal that is the whole prompt."""
    plain = fold(unit.text)
    if "?" in plain:
        return False
    if _REMEMBER_REQUEST.match(plain) is not None:
        return True
    return unit.count == 1 and (_HABIT.search(plain) is not None or _GOAL.search(plain) is not None)


def _is_standing_request(unit: Unit) -> bool:
    """Return whether a unit asks to remember what is always, or never, to be done."""
    plain = fold(unit.text)
    return _REMEMBER_REQUEST.match(plain) is not None and ALWAYS.search(plain) is not None


def _shared_chars(unit: Unit, statement: Statement) -> int:
    return unit.shared(statement.span.start, statement.span.end)


def _statement(
    prompt: Prompt, index: int, clause: Clause, prediction: Prediction, threshold: float
) -> Statement | None:
    """Return the unit as a statement without its opening chatter, joined to the unit before if it refers back."""
    start, end = clause.start, prompt.units[index].end
    if index and (len(content(clause.text)) < _MIN_WORDS or _POINTS_BACK.match(clause.plain)):
        start = prompt.units[index - 1].start
    words = " ".join(prompt.text[start:end].split())
    if len(words) > MAX_STATEMENT_CHARS or not content(words) or reading.JOKE.search(fold(words)):
        return None
    change = reading.find_correction(clause)
    kind = KINDS[prediction.kind]
    if _is_standing_request(prompt.units[index]):
        kind = "rule"
    elif kind == "rule" and prediction.sure < _MIN_RULE_SHARE and not _HABIT.search(clause.plain):
        kind = "constraint"
    made = Statement(
        kind=kind,
        text=words,
        span=Span(start=start, end=end),
        scope="user" if prediction.user >= 0.5 else "project",
        subject=subject(words),
        confidence=confidence(prediction.states, threshold),
    )
    return replace(made, is_correction=True, corrects=change.corrects) if change else made


# Agreement: sentences of an agent's message that the user agrees to in the next prompt. "Ok, the second one" states
# nothing by itself; the statement is in the message before. A logistic regression gives for each sentence of that
# message the probability that the user agrees to it, from the words of both and plain features
# (`bench/fit_agreement.py`). The network that reads prompts gives another, for the last sentences of the message, and
# the log odds are added. Both were fitted on labelled talk; thresholds were chosen on other projects
# (`bench/results/agreement.md`).

#: Values of `Turn.skipped` that a "yes" may have: not skipped, or skipped because it says so little.
_READABLE_SKIPS: Final = frozenset({"", "too short", "small talk"})
#: Columns of the weights: does the user agree to the sentence; if so, is it a decision (rather than a fact).
QUESTIONS: Final = ("agreed", "decision")
#: Of the agent's message, only this many characters at the end are read, and this many sentences of them.
_MAX_MESSAGE_CHARS: Final = 4_000
_MAX_SENTENCES: Final = 12
#: Characters of the prompt that are read: a "yes" is at its beginning.
_MAX_PROMPT_CHARS: Final = 2_000

#: Maximum words of the prompt and of the sentence that are hashed.
_MAX_PROMPT_WORDS, _MAX_SENTENCE_WORDS = 12, 60

_TEXT_TOKEN: Final = re.compile(r"[\w'’]+|[?!]")
_LONG_WORD: Final = re.compile(r"\w{4,}")
_DIGIT: Final = re.compile(r"\d")
_YES: Final = re.compile(
    r"^(?:ok|okay|yes|yep|yeah|sure|right|good|great|perfect|fine|agreed|deal|done|do it|go|k\b|oui|ouais|d'accord"
    r"|daccord|parfait|super|nickel|top|vas-y|vas y|si\b|vale|dale|listo|perfecto|de acuerdo|hecho|adelante|exact"
    r"|that works|works for me)"
)
_NO: Final = re.compile(r"\b(?:no|nope|nah|don.?t|not|non|pas|never|wait|instead|rather|plutot|mejor)\b")
_PROPOSES: Final = re.compile(
    r"\b(?:i'd|i would|i propose|i suggest|let's|we could|i could|should|je prendrais|je propose|je ferais|je mettrais"
    r"|propose|proposer\w*|pourrai\w+|propongo|pondria|haria|usaria|sugiero|option)\b"
)


def may_agree(turn: Turn) -> bool:
    """Return whether a turn is a prompt that may agree to the message before it, however short it is."""
    return turn.trust == TRUST_PROMPT and turn.skipped in _READABLE_SKIPS and is_own_prompt(turn)


def proposals(message: str, prompt: str) -> list[Proposal]:
    """Return the last sentences of an agent's message, in order."""
    begin = max(0, len(message) - _MAX_MESSAGE_CHARS)
    begin += max(0, message[begin:].find(" ")) if begin else 0
    folded_message, folded_prompt = fold(message[begin:]), fold(prompt[:_MAX_PROMPT_CHARS])
    found = [
        Proposal(
            sentence=Unit(
                start=unit.start + begin, end=unit.end + begin, text=unit.text, index=unit.index, count=unit.count
            ),
            message=folded_message,
            prompt=folded_prompt,
        )
        for unit in units(message[begin:])
    ]
    return found[-_MAX_SENTENCES:]


def find_agreed(prompt: Prompt, vectors: PromptVectors | None) -> tuple[Statement, ...]:
    """Return the sentence of the agent's message that the user most likely agrees to with this prompt.

    Args:
        prompt: the prompt.
        vectors: of the last sentences; only these are considered. None: of all sentences, the words alone tell it.

    Returns:
        At most one statement, whose span is in the message.
    """
    unread = 0 if vectors is None else len(prompt.proposals) - len(vectors.proposals)
    found = prompt.proposals[unread:]
    if not found:
        return ()
    features, regression = features_of(found), weights()
    odds, threshold = odds_of(found, features, regression), regression.threshold
    if vectors is not None:
        head = network_head()
        by_network = network_odds(vectors.proposals, features, head.sentences, head)
        odds += by_network[:, [NETWORK_QUESTIONS.index(question) for question in QUESTIONS]]
        threshold = head.threshold_agreed
    likely = sigmoid(odds)
    best = int(likely[:, 0].argmax())
    if likely[best, 0] < threshold:
        return ()
    made = _agreement_statement(found[best].sentence, float(likely[best, 0]), float(likely[best, 1]), threshold)
    return without_masked([made], prompt.answered) if made else ()


def _agreement_statement(sentence: Unit, chance: float, decision: float, threshold: float) -> Statement | None:
    clause = read_clause(sentence.text, sentence.start)
    words = " ".join(sentence.text[clause.start - sentence.start :].split())
    if len(words) > MAX_STATEMENT_CHARS or len(content(words)) < _MIN_WORDS:
        return None
    return Statement(
        kind="decision" if decision >= 0.5 else "fact",
        text=words,
        span=Span(start=clause.start, end=sentence.end),
        scope="project",
        subject=subject(words),
        confidence=confidence(chance, threshold),
    )


@cache
def weights() -> Regression:
    """Return the weights fitted for agreement."""
    return load("agreement.npz")


def odds_of(found_proposals: Sequence[Proposal], features: Numbers, regression: Regression) -> Numbers:
    """Return the log odds by words: a row per sentence, a column per question; `features` come from `features_of`."""
    return log_odds(features, [hash_words(proposal) for proposal in found_proposals], regression)


def features_of(found_proposals: Sequence[Proposal]) -> Numbers:
    """Return the plain features, a row per sentence."""
    return np.array([text_features(proposal) for proposal in found_proposals], np.float32)


def text_features(proposal: Proposal) -> list[float]:
    """Return the plain features of a sentence and of the prompt that follows it."""
    sentence, prompt = fold(proposal.sentence.text), proposal.prompt
    sentence_words, prompt_words = len(sentence.split()), len(prompt.split())
    yes, proposes = _YES.search(prompt) is not None, _PROPOSES.search(sentence) is not None
    both = set(_LONG_WORD.findall(prompt)) & set(_LONG_WORD.findall(sentence))
    found: list[float | bool] = [
        1.0,
        prompt_words <= 3,
        prompt_words <= 8,
        prompt_words <= 15,
        min(prompt_words, 40) / 20,
        min(sentence_words, 40) / 20,
        sentence_words <= 4,
        proposal.sentence.index == 0,
        proposal.sentence.index == proposal.sentence.count - 1,
        min(proposal.sentence.count, 6) / 3,
        "?" in prompt,
        "?" in sentence,
        "?" in proposal.message,
        proposal.message.rstrip().endswith("?"),
        yes,
        yes and prompt_words <= 8,
        _NO.search(" ".join(prompt.split()[:8])) is not None,
        proposes,
        proposes and yes,
        _DIGIT.search(sentence) is not None,
        min(len(both), 6) / 3,
        "?" in sentence and yes,
    ]
    return [float(sign) for sign in found]


def hash_words(proposal: Proposal) -> list[int]:
    """Return the hash buckets of the words of the sentence, and of the first words of the prompt."""
    sentence_words = _TEXT_TOKEN.findall(fold(proposal.sentence.text))[:_MAX_SENTENCE_WORDS]
    prompt_words = _TEXT_TOKEN.findall(proposal.prompt[:400])[:_MAX_PROMPT_WORDS]
    found = [f"s:{word}" for word in sentence_words] + [
        f"sb:{a} {b}" for a, b in itertools.pairwise(sentence_words[:12])
    ]
    found += [f"p:{word}" for word in prompt_words] + [f"pb:{a} {b}" for a, b in itertools.pairwise(prompt_words[:8])]
    found += [
        f"p0:{' '.join(prompt_words[:1])}",
        f"p1:{' '.join(prompt_words[:2])}",
        f"s0:{' '.join(sentence_words[:2])}",
    ]
    return buckets(found)
