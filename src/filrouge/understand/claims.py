# ruff: noqa: E501 (a pattern is read best on one line)
"""Claims: what a prompt states on the way to asking for something.

"I'm worried about my essay, is a 71% mark enough to pass?" asks, and says that the mark is 71%. People tell most of
what is true of them like this: before the question, beside it ("By the way, I've been …"), or inside it, as what the
question takes for granted ("my 12-page essay"). A sentence is cut into clauses. Of one that states something, the whole
is a claim; of one that asks, only the noun phrase that holds a measure. A claim needs a measure, a first-person event
with a name, or "never": what has none of these is talk. Being told in passing, a claim is held for less sure than a statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from filrouge import lazy_re as re
from filrouge.model.memory import Kind, Span, Statement
from filrouge.understand.clauses import Part, asks, complement, parts, states
from filrouge.understand.measures import Measure, measures
from filrouge.understand.profile import subject
from filrouge.understand.sentences import Sentence
from filrouge.understand.words import content

STATED: Final = 0.7
TAKEN_FOR_GRANTED: Final = 0.6
_LONGEST: Final = 320
_LIGHT_WORDS: Final = """
just think got get reached reach completed complete finished finish now actually around close about currently started
already really kinda guess believe
"""
_LIGHT: Final = frozenset(_LIGHT_WORDS.split())
_UNSURE: Final = re.compile(
    r"\b(?:wondering|not sure|unsure|don't know|curious|je me demande|pas sure?|ne sais pas) (?:if|whether|how|what|which|when|where|why|about|si|comment|quoi|quel\w*)\b"
    r"|\b(?:if|whether|unless|suppose|imagine|let's say|what if|maybe|perhaps|might|would be|could be|si je|si on|peut-etre)\b"
)
_NEVER: Final = re.compile(
    r"\b(?:never|haven't ever|have not ever|n'ai jamais|jamais|nunca he|nunca)\b|\b(?:i|we) (?:haven't|have not|didn't|did not|don't|do not) (?:actually )?(?:yet )?(?!know|think|want|need|understand|see|like|have (?:a|any|much|the) (?:clue|idea|time))\w+"
)
_FIRST_PERSON: Final = re.compile(
    r"\b(?:i|i'm|i've|i'd|i'll|my|mine|we|we're|we've|our|je|j'|j'ai|mon|ma|mes|notre|nos|nous|yo|mi|mis|he|tengo)\b|\bj'"
)
#: What is done at a desk and over in an hour, and how things look right now.
_WORK: Final = re.compile(
    r"\b(?:reran|pushed|merged|restarted|rebooted|committed|deployed|installed|reinstalled|compiled|rebuilt|debugged|refactored|reverted|cloned|pulled|clicked|typed|pasted|logged|fails?|failed|failing|failures?|crash(?:es|ed|ing)|hangs?|hung|timed? ?out|timeouts?|warnings?|exceptions?|stack ?trace|broken|flaky|retr(?:y|ies|ied)|builds?"
    r"|relance|pousse|fusionne|redemarre|echoue\w*|erreurs?|echecs?|casse\w*)\b|\b(?:i|we)(?:'ve| have)?(?: just)? ran\b|\b(?:a|ca|il|elle|qui|ont) plant(?:e|ait|ent)\b|\berror (?:message|code|log|in|on|when)|\b(?:an|the|this) error\b"
)
_MODAL: Final = re.compile(
    r"^(?:\S+ ){1,3}?(?:can|could|should|would|might|may|shall|must|need to|have to|peux|pourrais|devrais|dois)\b"
)
_DID: Final = re.compile(
    r"^(?:i|we|i've|we've|i'd|j'ai|on a|nous avons)(?: have| had|'ve)?(?: (?:just|recently|already|also|actually|finally|only|once|first|recemment|deja|enfin))* (?P<verb>[a-z]+(?:ed|en)|met|went|got|bought|took|made|saw|read|won|lost|sold|found|began|built|wrote|taught|learnt|learned|left|gave|had|did|ran|sent|spent|caught|kept|felt|rejected|rencontre|achete|vu|lu|pris|fait|visite|commence|fini|termine|perdu|gagne|rejoint|refuse|accepte|paye)\b"
)
_HABIT: Final = re.compile(
    r"^(?:i|we|je|j'|on|nous)(?:'ve| have)? ?(?:been |always |usually |often |currently |now |also )*(?:\w+ing|interview|attend|visit|play|work|live|own|drive|teach|study|practice|practise|train|take|wear|use|have|keep|joue|travaille|habite|vais|fais|prends|porte|pratique)\b"
)
_NAMED: Final = re.compile(r"(?<![.!?:] )(?<!^)(?<![\"“])\b(?!I\b|I'|English|French)[A-ZÀ-Ý][a-zà-ÿ]{2,}")
#: The last noun phrase before "which".
_NOUN: Final = re.compile(r"\b(?:my|our|his|her|their|the|an?|[a-z]+'s) (?=[a-z$\d])")
_PLANNED: Final = re.compile(
    r"^(?:i|we)(?:'m|'re| am| are)? ?(?:also |now )?(?:planning|plan|going|gonna|intend\w*|will|aiming|hoping)\b|^(?:i'll|we'll)\b|^(?:je|on|nous) (?:compte|prevoi\w*|vais|va|allons)\b"
)
_GOAL: Final = re.compile(
    r"\b(?:goals?|targets?|targeting|budget|limit|deadline|aim\w*|per (?:day|week|month|year)|a (?:day|week|month)|objectifs?|echeance)\b"
)
#: "I've got a question", "I have a feeling": nothing was done.
_EMPTY: Final = re.compile(
    r"^(?:i|we)(?:'ve| have)? (?:got|had) (?:a|an|some|no|the) (?:\w+ )?(?:question|questions|feeling|idea|problem|issue|trouble|lot|bunch|couple|few|doubt|hard time)\b"
)
_ANAPHORIC: Final = re.compile(
    r"^(?:it|it's|that|that's|this|he|she|they|which|who|ca|c'est|il|elle|cela)\b|\b(?:it|it's) (?:was|is|has|had|got)\b"
)
#: Where a noun phrase that holds a measure begins and ends.
_LEFT_STOP: Final = re.compile(
    r"(?:^|\b)(?:a|an|the|my|our|his|her|their|your|its|this|that|these|those|some|un|une|le|la|les|mon|ma|mes|notre|nos|son|sa|ses|l'|mi|su|el)(?=[\s'])|\b[a-z]+'s(?=\s)"
)
_RIGHT_STOP: Final = re.compile(
    r"[;?!]|[,:](?!\d)|\.(?=\s|$)|\s(?:will|would|is|are|was|were|be|been|good|enough|mean|means|and|but|so|or|that|which|who|when|if|because|while|considering|can|could|should|do|does|did|how|what|to (?!the\b|my\b|our\b|\d)|est|sont|et|mais|qui|que|si)\b"
)
_HOLDS: Final = re.compile(r"\b(?:of|at|by|on|for|with|from|in|is|was|de|d'|a|pour|est|sur)\s*$")
_POSSESSED: Final = re.compile(r"(?:his|her|their|[a-z]+'s|son|sa|ses|leurs?|su|sus)\b")
#: "the first 8 terms": a part of any number of things.
_PART: Final = re.compile(r"\b(?:first|last|next|top|premiers?|premieres?|dernier\w*) $")
_OWNED: Final = re.compile(
    r"^(?:my|our|his|her|their|its|the (?:new|current|latest|updated|recent|first|final|next|previous|extended|expanded|\$?\d)|the|this|a (?=\d)|mon|ma|mes|notre|nos|son|sa|ses|[a-z]+'s)\b"
)
#: Words of the sentence before that may say what a short claim is about.
_CONTEXT: Final = 12


@dataclass(frozen=True, slots=True)
class Claim:
    """Characters `start` to `end` of the sentence, and what kind of memory they make.

    Attributes:
        about: where the words before it stand that say what it is about: "I'm worried about *the lease*, is the 5% …".
    """

    start: int
    end: int
    kind: Kind
    confidence: float
    about: tuple[int, int] | None = None


def claimed(sentence: Sentence, before: str) -> list[Statement]:
    """The statements that a sentence makes on the way; where one says little, `before`, the sentence before it, says
    what it is about."""
    return [_statement(sentence, claim, before) for claim in claims(sentence)]


def claims(sentence: Sentence) -> list[Claim]:
    """The claims of one sentence of the user, in order, none overlapping."""
    personal = _FIRST_PERSON.search(sentence.plain) is not None
    found: list[Claim] = []
    before: Part | None = None
    for part in parts(sentence):
        begin = _where_it_begins(sentence, part, before, found) if personal and _tells(sentence, part) else None
        if begin is not None:
            found = [one for one in found if one.end <= begin]
            found.append(Claim(begin, part.end, _kind(sentence, part), STATED))
        elif begin is None and not (personal and _tells(sentence, part)):
            taken = _taken_for_granted(sentence, part)
            found.extend(one for one in taken if personal or _POSSESSED.match(sentence.plain, one.start))
        before = part
    return [one for one in found if not _is_work(sentence, one)]


def _is_work(sentence: Sentence, claim: Claim) -> bool:
    start = claim.about[0] if claim.about else claim.start
    return _WORK.search(sentence.plain, start, claim.end) is not None


def _tells(sentence: Sentence, part: Part) -> bool:
    """True for a clause that states something worth keeping."""
    plain, text = part.plain, sentence.text[part.start : part.end]
    if part.asks or not (states(plain) or part.relative) or _UNSURE.search(plain) or _MODAL.match(plain):
        return False
    if _NEVER.search(plain):
        least = 2 if "never" in plain or "jamais" in plain or "nunca" in plain else 3
        return len(content(text)) >= least and _FIRST_PERSON.search(plain) is not None
    if part.wishes or part.feared:
        return False
    return bool(measures(text)) or (
        (_did(plain) or _HABIT.match(plain) is not None) and _NAMED.search(text) is not None and len(content(text)) >= 3
    )


def _did(plain: str) -> bool:
    return _DID.match(plain) is not None and _EMPTY.match(plain) is None


def _kind(sentence: Sentence, part: Part) -> Kind:
    if _NEVER.search(part.plain):
        return "fact"
    if _did(part.plain) and not measures(sentence.text[part.start : part.end]):
        return "episode"
    return "intent" if _PLANNED.match(part.plain) else "fact"


def _where_it_begins(sentence: Sentence, part: Part, before: Part | None, found: list[Claim]) -> int | None:
    """Where the claim of a clause begins: with what it speaks of, if that was said before it; None when too long."""
    counted = measures(sentence.text[part.start : part.end])
    begin = part.start
    if counted and not _NEVER.search(part.plain):
        leans = part.relative or _ANAPHORIC.match(part.plain) is not None
        if part.matter and part.end - part.matter[0] <= _LONGEST:
            begin = part.matter[0]
        elif before and (leans or len(_said(sentence.text[part.start : part.end], counted)) <= 2):
            begin = _noun_before(sentence, part, before)
        for one in reversed(found):
            if begin >= one.end:
                break
            if one.about or not (leans or one.kind == "episode"):
                begin = part.start
                break
            begin = min(begin, one.start)
    return begin if part.end - begin <= _LONGEST else None


def _noun_before(sentence: Sentence, part: Part, before: Part) -> int:
    """Where the clause before begins, or only its last noun phrase, if it asks."""
    if not asks(sentence.plain[before.start :]):
        return before.start
    nouns = _NOUN.finditer(sentence.plain, before.start, part.start)
    return max((match.start() for match in nouns), default=part.start)


def _said(text: str, counted: tuple[Measure, ...]) -> list[str]:
    """The content words of a clause besides its measures."""
    inside = [range(one.start, one.end) for one in counted]
    kept = "".join(" " if any(place in span for span in inside) else char for place, char in enumerate(text))
    return [word for word in content(kept) if word not in _LIGHT]


def _taken_for_granted(sentence: Sentence, part: Part) -> list[Claim]:
    """The noun phrases around the measures of a clause that asks, wishes or worries; else all of a goal."""
    found: list[Claim] = []
    for one in measures(sentence.text[part.start : part.end]):
        phrase = _phrase(sentence.plain, part.start, part.end, one)
        if phrase is None or (found and phrase[0] < found[-1].end):
            continue
        fits = part.matter and part.matter[1] <= phrase[0] and phrase[1] - part.matter[0] <= _LONGEST
        found.append(Claim(*phrase, "fact", TAKEN_FOR_GRANTED, part.matter if fits else None))
    whole = None if found else complement(sentence.plain, part.start, part.end)
    if whole and measures(sentence.text[whole[0] : whole[1]]) and _GOAL.search(sentence.plain, *whole):
        found.append(Claim(*whole, "intent", TAKEN_FOR_GRANTED))
    return found


def _phrase(plain: str, start: int, end: int, one: Measure) -> tuple[int, int] | None:
    at, after = start + one.start, start + one.end
    if _PART.search(plain, 0, at):
        return None
    begin = max((match.start() for match in _LEFT_STOP.finditer(plain, start, at)), default=None)
    if begin is None or len(plain[begin:at].split()) > 10 or _RIGHT_STOP.search(plain, begin, at):
        begin = None
    if begin is None:
        return None
    stop = _RIGHT_STOP.search(plain, after, end)
    last = stop.start() if stop else end
    words = plain[after:last].split()
    if len(words) > 12:
        last = after + len(" ".join(words[:12])) + 1
    gap = plain[begin:at]
    if not _OWNED.match(plain[begin:]) or (len(gap.split()) > 3 and not _HOLDS.search(gap)):
        return None
    return (begin, min(last, end)) if len(content(plain[begin:last])) >= 2 else None


def _statement(sentence: Sentence, claim: Claim, before: str) -> Statement:
    words, start = " ".join(sentence.text[claim.start : claim.end].split()), claim.start
    if claim.about:
        start = claim.about[0]
        words = f"{' '.join(sentence.text[slice(*claim.about)].split())}: {words}"
    given = measures(words)
    little = len(_said(words, given)) <= 2
    day = next((words[one.start : one.end] for one in given if one.kind in {"date", "time"}), "")
    return Statement(
        kind=claim.kind,
        text=words,
        span=Span(start=sentence.start + start, end=sentence.start + claim.end),
        subject=" ".join(dict.fromkeys(content(before)[:_CONTEXT])) if little else subject(words),
        confidence=claim.confidence,
        timeframe=day if claim.kind == "intent" else "",
    )
