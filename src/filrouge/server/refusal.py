"""The page that a browser gets instead of a refusal: why, and how to get in.

It stands alone, because a browser that is not signed in gets no file of the dashboard.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from typing import Final, get_args

from filrouge.core.clock import Language
from filrouge.core.errors import FilrougeError, Unauthorized

_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{margin:0;min-height:100vh;font:16px/1.6 system-ui,sans-serif;background:light-dark(#fbfaf7,#161514);"
    "color:light-dark(#1c1a19,#ece8e2);border-left:2px solid light-dark(#b3261e,#ff7d6e);margin-left:10vw;"
    "padding:18vh 32px 0}"
    "h1{font:600 28px/1.2 'Iowan Old Style',Charter,Georgia,serif;margin:0 0 8px}"
    "p{max-width:56ch;margin:8px 0}"
    "code{font:15px ui-monospace,Menlo,Consolas,monospace;background:light-dark(#f3f0ea,#24211f);padding:4px 10px;"
    "border-radius:6px}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_PAGE: Final = (
    '<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>Filrouge</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
    "<style>{style}</style></head><body><main><h1>{title}</h1>{paragraphs}</main></body></html>"
)
_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


#: Title and first paragraph for a browser without a session, and the title of any other refusal.
_TEXTS: Final[Mapping[Language, tuple[str, str, str]]] = {
    "en": (
        "This browser is not signed in",
        "Open the dashboard from a terminal on this machine. The command signs this browser in:",
        "This page cannot be opened",
    ),
    "fr": (
        "Ce navigateur n’est pas connecté",
        "Ouvrez le tableau de bord depuis un terminal de cette machine. La commande connecte ce navigateur :",
        "Cette page ne peut pas être ouverte",
    ),
    "es": (
        "Este navegador no ha iniciado sesión",
        "Abra el panel desde un terminal de esta máquina. La orden inicia la sesión en este navegador:",
        "Esta página no se puede abrir",
    ),
}


def refusal_page(error: FilrougeError, accepted_languages: str) -> tuple[str, dict[str, str]]:
    """Return the page for an error, and its headers.

    Args:
        accepted_languages: the request's `Accept-Language`.
    """
    language = preferred_language(accepted_languages)
    signed_out, how, refused = _TEXTS[language]
    if type(error) is Unauthorized and error.remedy == Unauthorized.default_remedy:
        title, paragraphs = signed_out, (escape(how), "<code>filrouge dashboard</code>")
    else:
        title, paragraphs = refused, (escape(error.message), escape(error.remedy))
    shown = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs if paragraph)
    page = _PAGE.format(language=language, style=_STYLE, title=escape(title), paragraphs=shown)
    return page, dict(_HEADERS)


def preferred_language(accepted: str) -> Language:
    """Return the first language of an `Accept-Language` header that there are messages for; English if none."""
    weighted = [entry.strip().partition(";q=") for entry in accepted.split(",")]
    ranked = sorted(weighted, key=lambda entry: -_weight(entry[2]))
    for tag, _, _ in ranked:
        for language in get_args(Language):
            if tag.lower().partition("-")[0] == language:
                return language
    return "en"


def _weight(text: str) -> float:
    try:
        return float(text or 1)
    except ValueError:
        return 0.0
