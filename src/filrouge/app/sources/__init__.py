"""Sources: what may go in front of a model, one small module each.

A source offers pieces for a moment (`app.moment`), those included that it would not show, each with its reason. What
a session starts with and what stands before a prompt are two tables; a prompt that asks what was discussed has a
third. The order of a table is the order in which its sources are asked, so that one may go by what those before it
found; where a piece stands is the business of its section. To add one, write its module and name it here. Each fails
alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from filrouge.app.moment import Source
from filrouge.app.sources.hints import due, hints
from filrouge.app.sources.joining import joining
from filrouge.app.sources.known import core_facts, worth_knowing
from filrouge.app.sources.memories import memories
from filrouge.app.sources.notes import notes
from filrouge.app.sources.reminders import reminders
from filrouge.app.sources.rules import rules
from filrouge.app.sources.synthesis import in_brief, synthesis
from filrouge.app.sources.threads import threads
from filrouge.app.sources.threads_at_start import threads_at_start
from filrouge.app.sources.topics import topics

Table = Mapping[str, Source]

AT_START: Table = {
    "joining": joining,
    "rules": rules,
    "synthesis": synthesis,
    "threads": threads_at_start,
    "core facts": core_facts,
    "worth knowing": worth_knowing,
    "due": due,
    "notes": notes,
}
"""What a session starts with."""

BEFORE_PROMPT: Table = {
    "reminders": reminders,
    "memories": memories,
    "threads": threads,
    "hints": hints,
    "due": due,
    "notes": notes,
}
"""What may stand before a prompt."""

ASKED_BACK: Table = {"topics": topics}
"""What answers a prompt that asks what was discussed."""

IN_BRIEF: Table = {"rules": rules, "synthesis": in_brief}
"""What a brief holds, for a session that starts before the daemon does."""
