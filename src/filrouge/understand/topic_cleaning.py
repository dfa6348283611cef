"""Topics are cleaned before anything is named after them (EXT-9).

Labels that a program put in front go, everything is in lower case, and what is no subject (a general word, a scrap, a
number) is left out. The order stays; nothing occurs twice. Cleaning what is clean changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from filrouge import lazy_re as re
from filrouge.understand.words import fold

_GENERIC: Final = """
message contenu analyse fichier file code json response result data type value function class method variable parameter
"""
#: Words that are no topic by themselves, nor among themselves.
GENERIC_TOPICS: Final = frozenset(_GENERIC.split())
SHORTEST: Final = 3
_LABEL: Final = re.compile(r"\s*(?:message|contenu|fichier)\s*:\s*", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W_]+")
_EDGES: Final = " \t\r\n,.;:!?¿¡…\"'“”«»()[]{}*`"


def clean_topics(topics: Iterable[str]) -> list[str]:
    """The topics that are subjects, each once, in lower case."""
    return list(dict.fromkeys(topic for topic in map(clean_topic, topics) if topic))


def clean_topic(topic: str) -> str:
    """A topic without its labels, in lower case; empty where it is none."""
    plain = " ".join(topic.lower().split())
    while True:
        label = _LABEL.match(fold(plain))
        bare = plain[label.end() if label else 0 :].strip(_EDGES)
        if bare == plain:
            break
        plain = bare
    return plain if _is_subject(plain) else ""


def _is_subject(plain: str) -> bool:
    if len(plain) < SHORTEST or not any(char.isalpha() for char in plain):
        return False
    return any(fold(word) not in GENERIC_TOPICS for word in _WORD.findall(plain))


def without_label(text: str) -> str:
    """The text without the label that some hosts put before it: `MESSAGE:`, `CONTENU:`, `FICHIER:`."""
    label = _LABEL.match(text)
    return text[label.end() :] if label else text
