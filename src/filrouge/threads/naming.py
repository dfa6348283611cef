"""What a thread is called: a title and a summary that are subjects, from its prompts (EXT-9, THR-9)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from filrouge.model.thread import Thread
from filrouge.model.turn import Turn
from filrouge.understand.concepts import concepts
from filrouge.understand.titles import LONGEST, title_of
from filrouge.understand.words import fold

SUMMARY: Final = 200
#: A thread is named anew when it has this many prompts, and then whenever it has doubled.
RENAMED_AT: Final = (1, 3, 6, 12, 24, 48, 96)


@dataclass(frozen=True, kw_only=True, slots=True)
class Name:
    """What a thread is called."""

    title: str
    summary: str
    topics: tuple[str, ...]


def is_due(prompts: int) -> bool:
    """Whether a thread that has now so many prompts is to be named anew."""
    return prompts in RENAMED_AT


def name(prompts: Sequence[Turn], taken: Collection[str], thread: Thread | None = None) -> Name:
    """The name of a thread.

    Args:
        prompts: its routed turns, oldest first.
        taken: titles of the other live threads of the project.
        thread: as it is; its title stays where a user or a model gave it, or where it still fits.
    """
    topics = concepts(prompts)
    titles = [title for turn in prompts if (title := title_of(turn.text))]
    title = thread.title if thread is not None else (titles[0] if titles else ", ".join(topics[:2]))
    summary = "; ".join(dict.fromkeys(titles))[:SUMMARY]
    return Name(title=_own(title, topics, taken), summary=summary, topics=topics)


def _own(title: str, topics: Sequence[str], taken: Collection[str]) -> str:
    used = {fold(one) for one in taken}
    if fold(title) not in used:
        return title
    for topic in topics:
        if (
            fold(topic) not in fold(title)
            and fold(qualified := f"{title[: LONGEST - len(topic) - 3]} · {topic}") not in used
        ):
            return qualified
    return title
