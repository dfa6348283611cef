"""A stretch of a conversation as a model is shown it: numbered turns, each cut to a length, tool output least of all.

The text is hostile as all memory text is: it stands between tags that it cannot close.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from filrouge.model.turn import Turn

#: Characters shown of one turn (EXT-2: of a tool's result 500, and of each message three results).
_SHOWN: Final[Mapping[str, int]] = {"user": 6000, "assistant": 4000, "tool": 500}
_RESULTS: Final = 3
#: Characters of a stretch: what a small model reads well, and about 6,000 tokens.
LONGEST: Final = 24_000


def stretch(turns: Sequence[Turn]) -> int:
    """How many of these turns, oldest first, one question may hold; at least one."""
    used, results = 0, 0
    for number, turn in enumerate(turns):
        results = results + 1 if turn.role == "tool" else 0
        if results <= _RESULTS:
            used += min(len(turn.text), _SHOWN[turn.role])
        if used > LONGEST and number:
            return number
    return len(turns)


def rendered(turns: Sequence[Turn], tag: str = "conversation") -> str:
    """The turns, numbered from 1, between tags."""
    lines: list[str] = []
    results = 0
    for number, turn in enumerate(turns, start=1):
        results = results + 1 if turn.role == "tool" else 0
        if results <= _RESULTS:
            who = "tool output" if turn.role == "tool" else "agent" if turn.role == "assistant" else "user"
            lines.append(f"[{number}] {who} ({turn.at:%Y-%m-%d %H:%M}): {shown(turn)}")
    return quoted(tag, "\n\n".join(lines))


def shown(turn: Turn) -> str:
    """What is shown of a turn."""
    limit = _SHOWN[turn.role]
    return turn.text if len(turn.text) <= limit else f"{turn.text[:limit]} …"


def quoted(tag: str, text: str) -> str:
    """The text between tags that nothing in it can close."""
    return f"<{tag}>\n{text.replace(f'</{tag}', f'< /{tag}')}\n</{tag}>"
