"""The timeline as text: one heading, a paragraph for each window that has topics, a total. English, French, Spanish."""

from __future__ import annotations

from filrouge.model.topic import Timeline, Topic, Window
from filrouge.model.when import Language, short_moment

_TITLE: dict[Language, str] = {
    "en": "### History of topics discussed",
    "fr": "### Historique des sujets abordés",
    "es": "### Historial de temas tratados",
}
_WINDOWS: dict[Language, dict[Window, str]] = {
    "en": {"this_week": "This week", "last_week": "Last week", "this_month": "This month", "older": "Older"},
    "fr": {
        "this_week": "Cette semaine",
        "last_week": "La semaine dernière",
        "this_month": "Ce mois-ci",
        "older": "Plus ancien",
    },
    "es": {
        "this_week": "Esta semana",
        "last_week": "La semana pasada",
        "this_month": "Este mes",
        "older": "Más antiguo",
    },
}
_TOPICS: dict[Language, tuple[str, str]] = {
    "en": ("topic", "topics"),
    "fr": ("sujet", "sujets"),
    "es": ("tema", "temas"),
}
_CONVERSATIONS: dict[Language, tuple[str, str]] = {
    "en": ("conversation", "conversations"),
    "fr": ("conversation", "conversations"),
    "es": ("conversación", "conversaciones"),
}
_NOTHING: dict[Language, str] = {
    "en": "Nothing is known of what was discussed {when}.",
    "fr": "Rien n’est connu de ce dont on a parlé {when}.",
    "es": "No se sabe nada de lo que se habló {when}.",
}


def format_timeline(timeline: Timeline, language: Language) -> str:
    """The whole timeline; its moments are shown in the zone they carry."""
    lines = [_TITLE[language]]
    for window, topics in timeline.windows:
        if topics:
            lines += ["", f"**{_WINDOWS[language][window]}:**"]
            for topic in topics:
                lines.append(f"- {topic.title} ({_dates(topic, language)}) - {conversations(topic, language)}")
                lines += [f"  └─ {topic.summary}"] if topic.summary else []
    total = len(timeline.topics)
    lines += ["", f"**Total:** {total} {_TOPICS[language][total > 1 or (total == 0 and language != 'fr')]}"]
    return "\n".join(lines)


def conversations(topic: Topic, language: Language) -> str:
    """`3 conversations`."""
    return f"{topic.conversations} {_CONVERSATIONS[language][topic.conversations > 1]}"


def nothing_known(when: str, language: Language) -> str:
    """That nothing is known, said outright, so that nobody makes something up.

    Args:
        when: the time that was asked about, in that language, or empty.
    """
    return _NOTHING[language].format(when=when).replace(" .", ".")


def _dates(topic: Topic, language: Language) -> str:
    first, last = (short_moment(at, language) for at in (topic.first, topic.last))
    return first if first == last else f"{first}, {last}"
