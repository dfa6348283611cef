# ruff: noqa: E501 (a pattern is read best on one line)
"""Claims: what a prompt states on the way to asking for something.

"I'm worried about my test, is a 72% score enough to pass?" asks, and says that the score is 72%. People tell most of
what is true of them like this: before the question, beside it ("By the way, I've been …"), or inside it, as what the
question takes for granted ("my 12-page essay"). A sentence is cut into clauses. Of one that states something, the whole
is a claim; of one that asks, only the noun phrase that holds a measure. A claim needs a measure, a first-person event
with a name, or "never": what has none of these is talk. Being told in passing, a claim is held for less sure than a statement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from filrouge.model.memory import Kind
from filrouge.understand.measures import Measure, measures
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


@dataclass(frozen=True, slots=True)
class Claim:
    """Characters `start` to `end` of the prompt, and what kind of memory they make.

    Attributes:
        about: where the words before it stand that say what it is about: "I'm worried about *the lease*, is the 5% …".
    """

    start: int
    end: int
    kind: Kind
    confidence: float
    about: tuple[int, int] | None = None


_ASKS: Final = (
    r"(?:can|could|would|will|should|shall|do|does|did|is|are|was|were|have|has|how|what|what's|when|where|why|who|who's|which|any (?:idea|tips|advice|suggestions?|recommendations?)"
    r"|got any|please|peux|pouvez|pourrais|pourriez|peut|est-ce|qu'est-ce|comment|pourquoi|quels?|quelles?|combien|que|dois|faut|as|avez|puis|puedes|podrias|como|cual|cuando|donde)"
)
_I: Final = r"(?:i'm|i've|i'd|i'll|i|we're|we've|we'd|we'll|we|my|our|it's|it|that's|this|he's|he|she's|she|they're|they|there's|je|j'|j'ai|on|nous|mon|ma|mes|notre|nos|c'est|ca|il|elle|mi|mis|yo)"
#: After "which", these tell rather than ask.
_RELATIVE: Final = r"is|are|was|were|has|have|had|i|we|my|typically|usually|currently|now|recently|takes?|costs?|includes?|covers?|[a-z]+ed|[a-z]+s"
#: Where one clause ends and another begins. A comma inside a date or a list is none.
_BOUNDARY: Final = re.compile(
    rf",\s+(?=which (?:{_RELATIVE})\b)|,?\s+(?:how|why|that|remind me that|the fact that|now that|remember (?:when|how)|the one where|like)\s+(?=(?:it|it's|i've|i|we've|my|our|his|her|their|the)\s)"
    rf"|,\s+(?:(?:and|but|so|or|because|since|mais|et|donc|car|alors|pero|y)\s+)?(?=(?:{_ASKS}|{_I})(?:[\s']|$))"
    rf"|\s+(?:so|but|because|and|mais|donc|et|car|pero|y)\s+(?=(?:{_I}|can|could|how|what|should|do you|would|peux|pouvez|comment|est-ce|puedes|como)(?:[\s']|$))"
    rf"|,?\s+(?:considering(?: that)?|given(?: that)?|especially(?: since)?|since|as|sachant que|vu que|etant donne que|puisque)\s+(?={_I}\b)"
    r"|\s+(?=(?:can|could|would) you\b|do you (?:have|think|know)\b|(?:peux|pourrais)-tu\b)"
    rf"|\s-{{1,2}}\s(?=(?:and |but |so )?(?:{_ASKS}|{_I})[\s'])"
    r"|[;—]\s*|:\s+(?=i\b)|\?\s+"
)
_LEAD: Final = re.compile(
    r"(?:(?:and|but|so|or|because|since|as|like|oh|ah|um|uh|hmm|well|yeah|yes|no|ok|okay|hi|hey|thanks|also|actually|anyway|honestly|by the way|btw|speaking of which|you know|in fact|i mean|for (?:context|reference|info)"
    r"|considering(?: that)?|given(?: that)?|especially(?: since)?|now that|mais|et|donc|car|alors|au fait|d'ailleurs|en fait|du coup|bon|sachant que|por cierto|ademas)\b[\s,:]*)+"
)
_ASKING: Final = re.compile(rf"{_ASKS}(?:[\s'-]|$)")
_UNSURE: Final = re.compile(
    r"\b(?:wondering|not sure|unsure|don't know|curious|je me demande|pas sure?|ne sais pas) (?:if|whether|how|what|which|when|where|why|about|si|comment|quoi|quel\w*)\b"
    r"|\b(?:if|whether|unless|suppose|imagine|let's say|what if|maybe|perhaps|might|would be|could be|si je|si on|peut-etre)\b"
)
#: The frame of a wish or a worry: its complement is no fact, but names what the sentence is about.
_FRAME: Final = re.compile(
    r"^(?:i|we|je|j'|on|nous)(?:'m| am|'ve been| have been| was|'re| are|'d like| would like| want| need| hope| plan| suis| veux| voudrais|aimerais| cherche| essaie)?\b(?: (?:kinda|kind of|sorta|sort of|a bit|a little|really|so|just|also|currently|actually|still|very|super|now|un peu|vraiment|assez))*"
    r" ?(?:worried|concerned|nervous|anxious|stressed|excited|scared|afraid|struggling|stuck|confused|trying|thinking|looking|planning|hoping|aiming|having (?:trouble|issues|problems|a hard time)|considering|inquiet|inquiete|stresse|stressee|essaie|pense|cherche)?"
    r" ?(?:about|to|of|on|with|for|that|forward to|de|d'|a|pour|que)\b"
)
_SPEAKING: Final = re.compile(
    r"(?:speaking of|talking about|as for|regarding|concerning|about|when it comes to|en parlant de|quant a|pour ce qui est de|concernant)\b"
)
_AIM: Final = re.compile(
    r"^(?:i|we|je|j'|on|nous)(?:'m|'re| am| are|'d| would|'ve been| have been| suis| essaie| cherche| pense| voudrais|aimerais)? ?(?:\w+ ){0,2}?(?:trying|thinking|looking|hoping|considering|aiming|like|want|need|wondering|wonder|hope|wish|essaie|cherche|pense|veux|voudrais|aimerais|quiero)\b"
)
_WORRY: Final = re.compile(
    r"^(?:i|we|je|on|nous)(?:'m|'re| am| are| was| suis| feel)? ?(?:feeling )?(?:\w+ ){0,3}?(?:worried|concerned|nervous|anxious|stressed|excited|scared|afraid|struggling|stuck|confused|having|inquiete?|stressee?)\b"
)
_FEARED: Final = re.compile(r"\b(?:won't|will|'ll|going to|gonna|may|might|would|n'aurai|ne vais)\b")
_NEVER: Final = re.compile(
    r"\b(?:never|haven't ever|have not ever|n'ai jamais|jamais|nunca he|nunca)\b|\b(?:i|we) (?:haven't|have not|didn't|did not|don't|do not) (?:actually )?(?:yet )?(?!know|think|want|need|understand|see|like|have (?:a|any|much|the) (?:clue|idea|time))\w+"
)
_FIRST_PERSON: Final = re.compile(
    r"\b(?:i|i'm|i've|i'd|i'll|my|mine|we|we're|we've|our|je|j'|j'ai|mon|ma|mes|notre|nos|nous|yo|mi|mis|he|tengo)\b|\bj'"
)
_SUBJECT: Final = re.compile(
    r"^(?:i|i'm|i've|i'd|we|we're|we've|my|our|je|j'|j'ai|on|nous|mon|ma|mes|notre|nos|it|it's|he|he's|she|she's|they|they've|they're|there's|there are|there is|il|elle|c'est|yo|mi|mis|the|this|le|la|les|which|who)\b|^j'|^[a-z]+'s\b"
)
#: What is done at a desk and over in an hour, and how things look right now.
_WORK: Final = re.compile(
    r"\b(?:reran|pushed|merged|restarted|rebooted|committed|deployed|installed|reinstalled|compiled|rebuilt|debugged|refactored|reverted|cloned|pulled|clicked|typed|pasted|logged|fails?|failed|failing|failures?|crash(?:es|ed|ing)|hangs?|hung|timed? ?out|timeouts?|warnings?|exceptions?|stack ?trace|broken|flaky|retr(?:y|ies|ied)|builds?"
    r"|relance|pousse|fusionne|redemarre|plante\w*|echoue\w*|erreurs?|echecs?|casse\w*)\b|\b(?:i|we)(?:'ve| have)?(?: just)? ran\b|\berror (?:message|code|log|in|on|when)|\b(?:an|the|this) error\b"
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
_WHICH: Final = re.compile(rf"which (?:{_RELATIVE})\b")
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


def claims(sentence: Sentence) -> list[Claim]:
    """The claims of one sentence of the user, in order, none overlapping."""
    if len(sentence.plain) < 12:
        return []
    personal = _FIRST_PERSON.search(sentence.plain) is not None
    found: list[Claim] = []
    asking = False
    frame: tuple[int, int] | None = None
    before: tuple[int, int] | None = None
    for start, end in _clauses(sentence):
        plain = sentence.plain[start:end]
        relative = start > 0 and _WHICH.match(plain) is not None
        asks = not relative and _ASKING.match(plain) is not None
        asking = asks or (asking and not relative and not _SUBJECT.match(plain))
        if not asking and (stated := _stated(sentence, start, end, frame=frame, before=before, found=found)):
            found.append(stated)
        else:
            taken = _taken_for_granted(sentence, start, end, frame)
            found.extend(one for one in taken if personal or _POSSESSED.match(sentence.plain, one.start))
        frame = _complement(sentence.plain, start, end) or (frame if asks else None)
        before = (start, end)
    shift = sentence.start
    return [
        Claim(
            one.start + shift,
            one.end + shift,
            one.kind,
            one.confidence,
            (one.about[0] + shift, one.about[1] + shift) if one.about else None,
        )
        for one in found
        if _WORK.search(sentence.plain, one.about[0] if one.about else one.start, one.end) is None
    ]


def _complement(plain: str, start: int, end: int) -> tuple[int, int] | None:
    """What a clause wishes for or worries about, without its frame."""
    frame = _SPEAKING.match(plain[start:end])
    if not frame and (_AIM.match(plain[start:end]) or _WORRY.match(plain[start:end])):
        frame = _FRAME.match(plain[start:end])
    if not frame:
        return None
    begin = start + frame.end()
    while begin < end and plain[begin] == " ":
        begin += 1
    return (begin, end) if begin < end else None


def _clauses(sentence: Sentence) -> list[tuple[int, int]]:
    plain, pieces, at = sentence.plain, list[tuple[int, int]](), 0
    for match in [*_BOUNDARY.finditer(plain), None]:
        end = match.start() if match else len(plain)
        start = at
        if lead := _LEAD.match(plain, start):
            start = lead.end()
        while end > start and plain[end - 1] in " .!?,;:":
            end -= 1
        if start < end:
            pieces.append((start, end))
        at = match.end() if match else end
    return pieces


def _stated(
    sentence: Sentence,
    start: int,
    end: int,
    *,
    frame: tuple[int, int] | None,
    before: tuple[int, int] | None,
    found: list[Claim],
) -> Claim | None:
    """The claim of a clause that states something; what the wish or worry before it is about belongs to it."""
    plain, text = sentence.plain[start:end], sentence.text[start:end]
    relative = _WHICH.match(plain) is not None
    if not (_SUBJECT.match(plain) or relative) or _UNSURE.search(plain) or _MODAL.match(plain):
        return None
    if _NEVER.search(plain):
        return Claim(start, end, "fact", STATED) if len(content(text)) >= 2 and _FIRST_PERSON.search(plain) else None
    if _AIM.match(plain) or _WORRY.match(plain):
        return None
    if before and _FEARED.search(plain) and _WORRY.match(sentence.plain[slice(*before)]):
        return None
    counted, did = measures(text), _DID.match(plain) is not None and not _EMPTY.match(plain)
    if not counted and not ((did or _HABIT.match(plain)) and _NAMED.search(text) and len(content(text)) >= 3):
        return None
    if not _FIRST_PERSON.search(sentence.plain):
        return None
    kind: Kind = "episode" if did and not counted else "intent" if _PLANNED.match(plain) else "fact"
    begin = start
    if counted and frame and end - frame[0] <= _LONGEST:
        begin = frame[0]
    elif counted and before and (relative or _ANAPHORIC.match(plain) or len(_said(text, counted)) <= 2):
        begin = before[0]
        if _ASKING.match(sentence.plain[begin:]):
            begin = max((match.start() for match in _NOUN.finditer(sentence.plain, begin, start)), default=start)
    while found and begin < found[-1].end:
        if found[-1].about or not (relative or _ANAPHORIC.match(plain) or found[-1].kind == "episode"):
            begin = start
            break
        begin = min(begin, found.pop().start)
    return Claim(begin, end, kind, STATED) if end - begin <= _LONGEST else None


def says_little(text: str) -> bool:
    """True when a claim hardly says of what: "I've tried four different ones so far"."""
    return len(_said(text, measures(text))) <= 2


def _said(text: str, counted: tuple[Measure, ...]) -> list[str]:
    """The content words of a clause besides its measures."""
    inside = [range(one.start, one.end) for one in counted]
    kept = "".join(" " if any(place in span for span in inside) else char for place, char in enumerate(text))
    return [word for word in content(kept) if word not in _LIGHT]


def _taken_for_granted(sentence: Sentence, start: int, end: int, frame: tuple[int, int] | None) -> list[Claim]:
    """The noun phrases around the measures of a clause that asks, wishes or worries."""
    found: list[Claim] = []
    for one in measures(sentence.text[start:end]):
        phrase = _phrase(sentence.plain, start, end, one)
        if phrase is None or (found and phrase[0] < found[-1].end):
            continue
        about = frame if frame and frame[1] <= phrase[0] and phrase[1] - frame[0] <= _LONGEST else None
        found.append(Claim(*phrase, "fact", TAKEN_FOR_GRANTED, about))
    if found:
        return found
    whole = _complement(sentence.plain, start, end)
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
