"""Collects the dashboard's texts into `languages/fr.po` and `es.po`, and compiles these: `make messages`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from babel.messages import Catalog, Message, extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from filrouge.core.settings import Settings

WEB = Path(__file__).parents[2] / "src" / "filrouge" / "web"
LANGUAGES = ("fr", "es")
#: Which of two forms a number takes. CLDR has a third for whole millions, which no count here reaches.
_PLURAL = {"fr": "(n > 1)", "es": "(n != 1)"}
_DATE = datetime(2026, 1, 1, tzinfo=UTC)
_HEADER = """msgid ""
msgstr ""
"Language: {language}\\n"
"Plural-Forms: nplurals=2; plural={plural};\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"""
#: Names of functions whose first arguments are messages: `_` in templates and lists, `text` of a visit or locale.
KEYWORDS = {"_": None, "gettext": None, "text": None, "ngettext": (1, 2)}
_JINJA = {"newstyle_gettext": "true", "trim_blocks": "true", "lstrip_blocks": "true", "extensions": "jinja2.ext.do"}


def template() -> Catalog:
    """Return every message of the templates and modules of the dashboard, and what settings do; no translations."""
    catalog = Catalog(charset="utf-8")
    for path, method, options in _sources():
        with path.open("rb") as file:
            for line, message, _, context in extract.extract(method, file, KEYWORDS, (), options):
                catalog.add(message, locations=[(path.relative_to(WEB).as_posix(), line)], context=context)
    for field in Settings.model_fields.values():
        catalog.add(field.description or "", locations=[("settings.py", 1)])
    return catalog


def _sources() -> Iterator[tuple[Path, str, dict[str, str]]]:
    for path in sorted(WEB.rglob("*.html")):
        yield path, "jinja2.ext:babel_extract", dict(_JINJA)
    for path in sorted(WEB.rglob("*.py")):
        yield path, "python", {}


def po_path(language: str) -> Path:
    """Return the file of a language's translations."""
    return WEB / "languages" / f"{language}.po"


def mo_path(language: str) -> Path:
    """Return the compiled file of a language."""
    return WEB / "languages" / f"{language}.mo"


def read(language: str) -> Catalog:
    """Return the translations of a language."""
    if not po_path(language).exists():
        return read_po(io.BytesIO(_HEADER.format(language=language, plural=_PLURAL[language]).encode()), language)
    with po_path(language).open("rb") as file:
        return read_po(file, locale=language)


def compiled(catalog: Catalog) -> bytes:
    """Return a catalogue in the form that the daemon reads."""
    buffer = io.BytesIO()
    catalog.creation_date = catalog.revision_date = _DATE  # a file that says when it was made differs each time
    write_mo(buffer, catalog)
    return buffer.getvalue()


def untranslated(catalog: Catalog) -> list[Message]:
    """Return the messages that have no translation yet."""
    return [message for message in catalog if message.id and not all(_strings(message))]


def _strings(message: Message) -> tuple[str, ...]:
    return (message.string or "",) if isinstance(message.string, str | None) else tuple(message.string)


def main() -> None:
    for language in LANGUAGES:
        catalog = read(language)
        catalog.update(template(), no_fuzzy_matching=True)
        catalog.obsolete.clear()
        with po_path(language).open("wb") as file:
            file.write(_HEADER.format(language=language, plural=_PLURAL[language]).encode() + b"\n")
            write_po(file, catalog, width=120, omit_header=True, sort_output=True, include_lineno=False)
        mo_path(language).write_bytes(compiled(catalog))
        print(f"{language}: {len(untranslated(catalog))} of {len(catalog)} messages have no translation")


if __name__ == "__main__":
    main()
