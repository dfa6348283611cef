"""The dashboard speaks English, French and Spanish, completely."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from babel.messages import Message

from filrouge.core.clock import Language
from filrouge.server.refusal import preferred_language
from filrouge.web.languages import locale, translations
from tests.support import messages

from .conftest import Site

_PLACEHOLDER = re.compile(r"%\(\w+\)s")


@pytest.mark.parametrize("language", messages.LANGUAGES)
def test_every_text_has_a_translation_with_the_same_values(language: str) -> None:
    catalog = messages.read(language)
    texts = {message.id: message for message in messages.template() if message.id}
    known = {message.id: message for message in catalog if message.id}
    assert sorted(map(str, texts.keys() - known.keys())) == []
    assert sorted(map(str, known.keys() - texts.keys())) == []  # what no page says any more
    assert [message.id for message in messages.untranslated(catalog)] == []
    assert [message.id for message in known.values() if _values(message.id) != _values(message.string)] == []


def _values(text: str | tuple[str, ...] | list[str] | None) -> set[str]:
    parts = [text] if isinstance(text, str) else list(text or ())
    return {value for part in parts for value in _PLACEHOLDER.findall(part)}


@pytest.mark.parametrize("language", messages.LANGUAGES)
def test_the_compiled_messages_are_those_of_the_readable_file(language: Language) -> None:
    compiled = translations(language)

    def says(message: Message) -> bool:
        if isinstance(message.id, str):
            return compiled.gettext(message.id) == message.string
        one, many = message.id
        return [compiled.ngettext(one, many, n) for n in (1, 5)] == list(message.string or ())

    assert [message.id for message in messages.read(language) if message.id and not says(message)] == []


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("fr-CH, en;q=0.8", "fr"),
        ("de, es;q=0.5, en;q=0.4", "es"),
        ("en;q=0.2, fr;q=0.9", "fr"),
        ("", "en"),
        ("de;q=x", "en"),
    ],
)
def test_the_browsers_first_language_that_there_is_is_spoken(accepted: str, language: str) -> None:
    assert preferred_language(accepted) == language


def test_the_setting_goes_before_the_browsers_language(site: Site) -> None:
    assert '<html lang="es">' in site.page("/memory", language="es")
    assert site.api.ask("PATCH", "/api/memory/settings", {"language": "fr"}).status == 200
    assert '<html lang="fr">' in site.page("/memory", language="es")


@pytest.mark.parametrize(
    ("language", "number", "moment"),
    [("en", "1,234.5", "5 Oct 14:32"), ("fr", "1\u202f234,5", "5 oct 14h32"), ("es", "1.234,5", "5 oct 14:32")],
)
def test_numbers_and_times_are_written_as_in_the_language(language: Language, number: str, moment: str) -> None:
    at = datetime(2026, 10, 5, 14, 32).astimezone()
    spoken = locale(language, datetime(2026, 11, 1, tzinfo=UTC))
    assert spoken.number(1234.5, 1) == number
    assert spoken.moment(at.isoformat()) == moment
