"""Units: the pieces of a prompt of which each is asked whether it states something.

A unit is a sentence in the user's own words. A long one is cut further where a new thought begins ("..., but we ...",
"... du coup on ..."), because people chain what they tell and what they ask for. Lists of these joints are data, not
knowledge of what matters: that is learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from filrouge import lazy_re as re
from filrouge.understand.masked import blanked
from filrouge.understand.own_words import own_words
from filrouge.understand.sentences import split

#: A sentence of at most so many words is one unit.
_SHORT: Final = 14
#: What is cut has at least so many words before the joint, and after it.
_LEAST_BEFORE, _LEAST_AFTER = 5, 4
_JOINT: Final = re.compile(
    r"(?:;|,|\s[-–—]+|:)\s+(?=(?:and|but|so|because|cause|also|plus|then|et|mais|donc|car|parce|du coup|alors|puis"
    r"|aussi|y|pero|así que|asi que|porque|entonces|además|ademas|we|i|on|je|nous|yo|the|le|la|les|el|los|las)\b)"
    r"|\s+(?=(?:and (?:we|i|the|it|then|also|that|please|can)|but (?:we|i|the)|so (?:we|i|the|that|it)|because"
    r"|du coup|et (?:on|je|le|la|il|puis)|mais (?:on|je|le|la)|parce que|y (?:que|el|la|los|se|no)|pero|porque"
    r"|así que|asi que|um|euh|okay|ok|bueno|pues)\b)",
    re.IGNORECASE,
)
_EDGE: Final = " ,;:-–—"


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """Characters `start` to `end` of a prompt.

    Attributes:
        before, after: the text of the units beside it, empty at the ends of the prompt.
        place: its number in the prompt, of `number`.
    """

    start: int
    end: int
    text: str
    before: str = ""
    after: str = ""
    place: int = 0
    number: int = 1

    @property
    def in_setting(self) -> str:
        """The unit behind the end of the one before it."""
        return f"{self.before[-160:]} {self.text}".strip()

    def shared(self, start: int, end: int) -> int:
        """How many characters of the prompt the unit shares with those from `start` to `end`."""
        return max(0, min(self.end, end) - max(self.start, start))


def units(prompt: str) -> list[Unit]:
    """The units of a prompt, in order; none of what it quotes or pastes."""
    spans = [span for one in split(own_words(blanked(prompt))) for span in _cut(one.text, one.start)]
    texts = [prompt[start:end] for start, end in spans]
    return [
        Unit(
            start=start,
            end=end,
            text=text,
            before=texts[place - 1] if place else "",
            after=texts[place + 1] if place + 1 < len(texts) else "",
            place=place,
            number=len(texts),
        )
        for place, ((start, end), text) in enumerate(zip(spans, texts, strict=True))
    ]


def _cut(sentence: str, start: int) -> list[tuple[int, int]]:
    """Where the units of a sentence stand in the prompt."""
    if len(sentence.split()) <= _SHORT:
        return [(start, start + len(sentence))]
    cuts = [0]
    for joint in _JOINT.finditer(sentence):
        before, after = sentence[cuts[-1] : joint.start()], sentence[joint.end() :]
        if len(before.split()) >= _LEAST_BEFORE and len(after.split()) >= _LEAST_AFTER:
            cuts.append(joint.end())
    pieces = [(a, sentence[a:b].rstrip(_EDGE)) for a, b in zip(cuts, [*cuts[1:], len(sentence)], strict=True)]
    return [(start + a, start + a + len(piece)) for a, piece in pieces]
