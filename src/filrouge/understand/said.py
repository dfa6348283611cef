"""What was said in a session, sentence by sentence, with who said it.

The reading side of every analysis. Only what the user says in prompts counts as the user's words (`own_words`) and only
replies as the agent's; tool output, blocks that a host wrote and what was redacted are nobody's. A summary that a host
wrote of its own conversation counts as told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from filrouge.model.turn import TRUST_PROMPT, Turn
from filrouge.understand.heuristics import written_by_host
from filrouge.understand.masked import MASK, blanked
from filrouge.understand.own_words import own_words
from filrouge.understand.sentences import Sentence, split

Speaker = Literal["user", "agent", "told"]
#: What politeness alone says is no part of what a session was about.
_NOTHING_SAID: Final = frozenset({"small talk", "punctuation only", "empty", "tool noise", "written by the host"})


@dataclass(frozen=True, slots=True)
class Said:
    """One sentence.

    Attributes:
        place: of its turn among those that were read.
        sentence: with its position in the turn's text.
    """

    turn: Turn
    place: int
    speaker: Speaker
    sentence: Sentence

    @property
    def text(self) -> str:
        """The words, on one line."""
        return " ".join(self.sentence.text.split())


def speaker_of(turn: Turn) -> Speaker | None:
    """Whose words a turn holds; None where they are nobody's."""
    if turn.skipped in _NOTHING_SAID:
        return None
    if turn.source == "summary":
        return "told"
    if turn.role == "user" and turn.source == "prompt" and turn.trust >= TRUST_PROMPT:
        return None if written_by_host(turn.text) else "user"
    return "agent" if turn.role == "assistant" and turn.source == "reply" else None


def said(turns: Sequence[Turn]) -> list[Said]:
    """Every sentence of these turns that holds no mask, in their order."""
    found: list[Said] = []
    for place, turn in enumerate(turns):
        speaker = speaker_of(turn)
        if speaker:
            masks = [mask.start() for mask in MASK.finditer(turn.text)]
            text = blanked(turn.text)
            sentences = split(own_words(text) if speaker == "user" else text)
            whole = [one for one in sentences if not any(one.start <= start < one.end for start in masks)]
            found.extend(Said(turn, place, speaker, sentence) for sentence in whole)
    return found
