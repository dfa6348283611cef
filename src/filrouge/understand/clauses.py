# ruff: noqa: E501 (a pattern is read best on one line)
"""The clauses of a sentence, and what each does: state, ask, wish or worry.

A prompt runs several sentences together with commas: "I'm worried about my lease, it ends on May 3, can I leave?". Its
clauses are told apart by the words that open them. What a wish or a worry is about names the matter of what follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from filrouge import lazy_re as re
from filrouge.understand.sentences import Sentence

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
    r"|,\s+(?=(?:tu|vous) (?:peux|pouvez|pourrais|sais|connais)\b|(?:des|une) (?:conseils?|idees?)\b|any (?:idea|tips|advice)\b)"
    r"|\s+(?=(?:can|could|would) you\b|do you (?:have|think|know)\b|(?:peux|pourrais)-tu\b)"
    rf"|\s-{{1,2}}\s(?=(?:and |but |so )?(?:{_ASKS}|{_I})[\s'])"
    r"|[;—]\s*|:\s+(?=i\b)|\?\s+"
)
_LEAD: Final = re.compile(
    r"(?:(?:and|but|so|or|because|since|as|like|oh|ah|um|uh|hmm|well|yeah|yes|no|ok|okay|hi|hey|thanks|also|actually|anyway|honestly|by the way|btw|speaking of which|you know|in fact|i mean|for (?:context|reference|info)"
    r"|considering(?: that)?|given(?: that)?|especially(?: since)?|now that|mais|et|donc|car|alors|au fait|d'ailleurs|en fait|du coup|bon|sachant que|por cierto|ademas)\b[\s,:]*)+"
)
_ASKING: Final = re.compile(rf"{_ASKS}(?:[\s'-]|$)")
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
_SUBJECT: Final = re.compile(
    r"^(?:i|i'm|i've|i'd|we|we're|we've|my|our|je|j'|j'ai|on|nous|mon|ma|mes|notre|nos|it|it's|he|he's|she|she's|they|they've|they're|there's|there are|there is|il|elle|c'est|yo|mi|mis|the|this|le|la|les|which|who)\b|^j'|^[a-z]+'s\b"
)
_WHICH: Final = re.compile(rf"which (?:{_RELATIVE})\b")
_FEARED: Final = re.compile(r"\b(?:won't|will|'ll|going to|gonna|may|might|would|n'aurai|ne vais)\b")


@dataclass(frozen=True, slots=True)
class Part:
    """Characters `start` to `end` of a sentence that are one clause.

    Attributes:
        plain: its words, folded.
        asks: it is a question or a request, or goes on with one.
        relative: it begins with "which" and tells something of the noun before.
        wishes: it opens a wish or a worry.
        feared: it says what the worry before it fears.
        matter: what the wish, worry or question before it is about, as characters of the sentence.
    """

    start: int
    end: int
    plain: str
    asks: bool
    relative: bool
    wishes: bool
    feared: bool
    matter: tuple[int, int] | None


def parts(sentence: Sentence) -> list[Part]:
    """The clauses of a sentence, in order."""
    found: list[Part] = []
    asking = False
    matter: tuple[int, int] | None = None
    for start, end in _cut(sentence.plain):
        plain = sentence.plain[start:end]
        relative = start > 0 and _WHICH.match(plain) is not None
        opens = not relative and asks(plain)
        asking = opens or (asking and not relative and not states(plain))
        wishes = _AIM.match(plain) is not None or _WORRY.match(plain) is not None
        worried = bool(found) and _WORRY.match(found[-1].plain) is not None
        feared = worried and _FEARED.search(plain) is not None
        found.append(Part(start, end, plain, asking, relative, wishes, feared, matter))
        matter = complement(sentence.plain, start, end) or (matter if opens else None)
    return found


def asks(plain: str) -> bool:
    """True for folded words that open a question or a request."""
    return _ASKING.match(plain) is not None


def states(plain: str) -> bool:
    """True for folded words that open with a subject."""
    return _SUBJECT.match(plain) is not None


def complement(plain: str, start: int, end: int) -> tuple[int, int] | None:
    """What a clause wishes for, worries about or turns to, without its frame."""
    said = plain[start:end]
    frame = _SPEAKING.match(said)
    if not frame and (_AIM.match(said) or _WORRY.match(said)):
        frame = _FRAME.match(said)
    if not frame:
        return None
    begin = start + frame.end()
    begin += len(plain[begin:end]) - len(plain[begin:end].lstrip())
    return (begin, end) if begin < end else None


def _cut(plain: str) -> list[tuple[int, int]]:
    pieces: list[tuple[int, int]] = []
    at = 0
    for match in [*_BOUNDARY.finditer(plain), None]:
        end = match.start() if match else len(plain)
        lead = _LEAD.match(plain, at)
        start = lead.end() if lead else at
        while end > start and plain[end - 1] in " .!?,;:":
            end -= 1
        if start < end:
            pieces.append((start, end))
        at = match.end() if match else end
    return pieces
