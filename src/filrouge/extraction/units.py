"""Units: the pieces of a prompt of which each is asked whether it states something.

A unit is a sentence in the user's own words. A long one is cut further where a new thought begins ("..., but we ...",
"... du coup on ..."), because people chain what they tell and what they ask for. Lists of these joints are data, not
knowledge of what matters: that is learned. What redaction masked teaches nothing.

Pure: no database, no file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from filrouge.core import lazy_re as re
from filrouge.core.errors import BadInput
from filrouge.extraction.own_words import own_words
from filrouge.extraction.sentences import split
from filrouge.memories.models import Statement

# Masks: what redaction leaves in the place of a secret. A statement whose value is masked teaches nothing.
#
# A sentence such as "the Slack token is [redacted:secret], keep it" tells nothing without its value, and a memory of
# it would be shown in the place of things that help. Every way in asks here: statements that were read out of a turn
# are dropped, and what the user or an agent states by hand is refused with a message.

MASK: Final = re.compile(r"\[redacted:[\w-]+\]")


def blanked(text: str) -> str:
    """The text with blanks in the place of masks, so that every position stays."""
    return MASK.sub(lambda mask: " " * len(mask[0]), text)


def unmasked(statements: Iterable[Statement], text: str) -> tuple[Statement, ...]:
    """The statements without a mask in their own words or in the sentences of `text` that they were read from."""
    masks = [mask.span() for mask in MASK.finditer(text)]
    sentences = [(one.start, one.end) for one in split(blanked(text))] if masks else []

    def is_masked(one: Statement) -> bool:
        if MASK.search(one.text):
            return True
        read = [span for span in sentences if span[0] < one.span.end and one.span.start < span[1]]
        read.append((one.span.start, one.span.end))
        return any(start < last and first < end for start, end in read for first, last in masks)

    return tuple(one for one in statements if not is_masked(one))


def without_secret(text: str) -> str:
    """The redacted text of a statement made by hand, unchanged.

    Raises:
        BadInput: a secret was masked in it.
    """
    if MASK.search(text):
        raise BadInput(
            "This holds a secret, and Filrouge keeps no secrets.",
            remedy="Say it without the value, for example where the secret is kept.",
        )
    return text


# Units: the pieces of a prompt of which each is asked whether it states something.
#
# A unit is a sentence in the user's own words. A long one is cut further where a new thought begins ("..., but we
# ...", "... du coup on ..."), because people chain what they tell and what they ask for. Lists of these joints are
# data, not knowledge of what matters: that is learned.

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
