"""The languages of the pages: translated messages, and how dates and numbers are written.

Templates and pages use the English text as the key of a message (gettext). `languages/fr.po` and `es.po` hold the
translations; `make messages` compiles them into the `.mo` files beside them, which are read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from gettext import GNUTranslations, NullTranslations
from importlib import resources
from typing import Final, get_args

from msgspec import Struct

from filrouge.core.clock import Language, format_day_and_time, format_long_date, relative_date, short_month

LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)

#: The separators of thousands and decimals. French sets thousands apart with a narrow no-break space.
_SEPARATORS: Final[Mapping[Language, tuple[str, str]]] = {"en": (",", "."), "fr": ("\u202f", ","), "es": (".", ",")}


def mark(message: str) -> str:
    """Mark a message for translation; it is translated where it is shown. Modules import it as `_`."""
    return message


class Locale(Struct, frozen=True, kw_only=True):
    """How one visitor is spoken to.

    Attributes:
        language: of the pages.
        translations: the messages.
        now: the time of the request, in the machine's time zone.
    """

    language: Language
    translations: NullTranslations
    now: datetime

    def text(self, message: str, **values: object) -> str:
        """Return a message in the visitor's language, with values filled in as in `%(name)s`."""
        translated = self.translations.gettext(message)
        return translated % values if values else translated

    def ngettext(self, singular: str, plural: str, number: int) -> str:
        """Return a message for a number, which stands in it as `%(num)s`."""
        return self.translations.ngettext(singular, plural, number) % {"num": self.number(number)}

    def number(self, value: float, decimals: int = 0) -> str:
        """Write a number with the language's separators."""
        thousands, point = _SEPARATORS[self.language]
        return f"{value:,.{decimals}f}".translate({ord(","): thousands, ord("."): point})

    def ago(self, at: str) -> str:
        """Write how long ago a time was: `3 minutes ago`."""
        return relative_date(self.local(at), self.now, self.language) if at else ""

    def date(self, at: str) -> str:
        """Write a day in full: `28 février 2026`."""
        return format_long_date(self.local(at), self.language) if at else ""

    def moment(self, at: str) -> str:
        """Write day and time; with the year if it is not this year's."""
        local = self.local(at)
        year = "" if local.year == self.now.year else f" {local.year}"
        return format_day_and_time(local, self.language) + year

    def month(self, at: str) -> str:
        """Write the month of a time in short: `oct`."""
        return short_month(self.local(at), self.language)

    def local(self, at: str) -> datetime:
        """Return an ISO 8601 time in the machine's time zone; a day begins there too."""
        parsed = datetime.fromisoformat(at)
        return parsed.replace(tzinfo=self.now.tzinfo) if parsed.tzinfo is None else parsed.astimezone(self.now.tzinfo)


def locale(language: Language, now: datetime) -> Locale:
    """Return the locale of a language at a time, which is aware."""
    return Locale(language=language, translations=translations(language), now=now.astimezone())


@cache
def translations(language: Language) -> NullTranslations:
    """Return the messages of a language; English is the language they are written in."""
    if language == "en":
        return NullTranslations()
    with resources.files("filrouge.web").joinpath("languages", f"{language}.mo").open("rb") as file:
        return GNUTranslations(file)
