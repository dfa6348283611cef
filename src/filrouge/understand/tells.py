"""Whether a prompt tells anything: what only asks, greets or gives work says nothing to a later reader.

"Which port is it?" is answered by the reply beside it, and "add a search bar" by what came of it; shown alone,
either would be taken for something that is known.
"""

from __future__ import annotations

from filrouge.understand.moods import is_request, silent_mood
from filrouge.understand.sentences import split

_NOTHING = frozenset({"question", "smalltalk", "joke"})


def tells(text: str) -> bool:
    """True if a sentence of the prompt states something."""
    return any(silent_mood(one.plain) not in _NOTHING and not is_request(one.plain) for one in split(text))
