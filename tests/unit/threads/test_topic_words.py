"""Titles are subjects, conversations about the same are one topic, and a timeline reads as the specification says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.extraction.summaries import MAX_TITLE_CHARS, title_of
from filrouge.threads.models import Timeline, Topic, build_timeline, format_timeline
from filrouge.threads.reports import Conversation, topics_of

NOW = datetime(2026, 10, 9, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Can you fix the login form validation, it rejects a plus sign in addresses", "Fix the login form validation"),
        ("Hello! Please help me migrate the storefront to Drizzle.", "Migrate the storefront to Drizzle"),
        ("Bonjour, peux-tu ajouter un export CSV des factures ?", "Ajouter un export CSV des factures"),
        ("Salut. J'aimerais que tu expliques le cache des images", "Expliques le cache des images"),
        ("Hola, ¿puedes revisar la configuración de nginx, por favor?", "Revisar la configuración de nginx, por favor"),
        ("ok so let's rename `fetchUser` to `loadUser`", "Rename fetchUser to loadUser"),
        ("```py\nx = 1\n```\nWhy does this crash on startup?", "Why does this crash on startup"),
        ("## Deployment notes\n\nWe deploy by hand", "Deployment notes"),
        ("For the record: production listens on port 8443.", "Production listens on port 8443"),
        ("hello", ""),
        ("", ""),
        ("https://example.org/a/b", ""),
    ],
)  # fmt: skip
def test_a_title_is_the_subject_of_a_prompt(prompt: str, title: str) -> None:
    assert title_of(prompt) == title


@given(st.text(max_size=400))
def test_a_title_is_one_short_line_whatever_the_prompt(prompt: str) -> None:
    title = title_of(prompt)
    assert len(title) <= MAX_TITLE_CHARS
    assert "\n" not in title


@given(st.lists(st.sampled_from("rewrite the importer of invoices with streaming and large files".split()), min_size=9))
def test_a_title_ends_where_a_word_ends(words: list[str]) -> None:
    assert set(title_of(" ".join(words)).lower().split()) <= set(words)


def spoken(id_: str, words: str, *, days: float = 0, project: str = "shop") -> Conversation:
    at = NOW - timedelta(days=days)
    return Conversation(
        id=id_, project=project, channel="codex", titles=(id_.capitalize(), f"{id_} again"),
        words=frozenset(words.split()), first=at, last=at + timedelta(hours=1),
    )  # fmt: skip


def test_conversations_that_share_their_telling_words_are_one_topic() -> None:
    found = topics_of(
        [
            spoken("drizzle", "drizzle migration storefront fix", days=8),
            spoken("nginx", "nginx certificate fix", days=5),
            spoken("schema", "drizzle storefront columns", days=2),
            spoken("elsewhere", "drizzle migration storefront", days=1, project="blog"),
        ],
        NOW,
    )
    assert [(topic.title, topic.conversations, topic.summary) for topic in found] == [
        ("Elsewhere", 1, "elsewhere again"),
        ("Drizzle", 2, "schema again"),
        ("Nginx", 1, "nginx again"),
    ]
    assert [(NOW - topic.first).days for topic in found] == [1, 8, 5]
    assert found[0].vitality > found[1].vitality > found[2].vitality > 0


def topic(title: str, first: datetime, last: datetime, conversations: int = 1, summary: str = "") -> Topic:
    return Topic(id=title, title=title, first=first, last=last, conversations=conversations, summary=summary)


LINES = build_timeline(
    [
        topic("Port", datetime(2026, 10, 5, 14, 32, tzinfo=UTC), datetime(2026, 10, 8, 9, 15, tzinfo=UTC), 3, "9443"),
        topic("Nginx", datetime(2026, 8, 1, 8, tzinfo=UTC), datetime(2026, 8, 1, 8, tzinfo=UTC)),
        topic("Cache", datetime(2026, 10, 8, 9, 15, tzinfo=UTC), datetime(2026, 10, 8, 9, 15, tzinfo=UTC)),
    ],
    NOW,
)


def test_a_timeline_in_french() -> None:
    assert format_timeline(LINES, "fr") == (
        "### Historique des sujets abordés\n"
        "\n"
        "**Cette semaine:**\n"
        "- Cache (8 oct 09h15) - 1 conversation\n"
        "- Port (5 oct 14h32, 8 oct 09h15) - 3 conversations\n"
        "  └─ 9443\n"
        "\n"
        "**Plus ancien:**\n"
        "- Nginx (1 août 08h00) - 1 conversation\n"
        "\n"
        "**Total:** 3 sujets"
    )


def test_a_timeline_in_english_and_spanish() -> None:
    english, spanish = (format_timeline(LINES, language) for language in ("en", "es"))
    assert "### History of topics discussed\n\n**This week:**\n- Cache (8 Oct 09:15) - 1 conversation\n" in english
    assert english.endswith("**Total:** 3 topics")
    assert "### Historial de temas tratados\n\n**Esta semana:**\n- Cache (8 oct 09:15) - 1 conversación\n" in spanish
    assert "- Port (5 oct 14:32, 8 oct 09:15) - 3 conversaciones\n  └─ 9443\n" in spanish


def test_an_empty_timeline_has_its_heading_and_its_total() -> None:
    assert format_timeline(Timeline(), "fr") == "### Historique des sujets abordés\n\n**Total:** 0 sujet"
    assert format_timeline(Timeline(), "en").endswith("0 topics")


@given(st.lists(st.tuples(st.floats(0, 400), st.floats(0, 50)), max_size=20))
def test_windows_end_at_7_14_and_30_days_each_latest_first(ages: list[tuple[float, float]]) -> None:
    ends = [NOW - timedelta(days=age) for age, _ in ages]
    topics = [topic(str(n), end - timedelta(days=ages[n][1]), end) for n, end in enumerate(ends)]
    made = build_timeline(topics, NOW)
    assert sorted(made.topics, key=lambda one: one.id) == sorted(topics, key=lambda one: one.id)
    assert list(made.topics) == sorted(topics, key=lambda one: (one.last, one.first), reverse=True)
    for (_, found), (youngest, oldest) in zip(made.windows, [(0, 7), (7, 14), (14, 30), (30, 999)], strict=True):
        assert all(timedelta(days=youngest) <= NOW - one.last < timedelta(days=oldest) for one in found)
