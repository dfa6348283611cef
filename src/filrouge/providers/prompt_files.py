"""The prompts: one Markdown file for each question and language, so that they are read, reviewed and compared as text.

A prompt's version is a hash of its text: a memory names the exact words that a model was asked with."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Final

from filrouge.providers.models import Prompt

# Prompts: one Markdown file per question and language, so that they can be read, reviewed and compared as text. A
# prompt's version is a hash of its text, so a memory records the exact words the model received.

LANGUAGES: Final = ("en", "fr")


@cache
def prompt(name: str, language: str) -> Prompt:
    """Return the prompt of this name, in English if it does not exist in the language.

    Raises:
        KeyError: there is no prompt of this name.
    """
    chosen = language if language in LANGUAGES else "en"
    file = resources.files("filrouge.providers").joinpath("prompts", chosen, f"{name}.md")
    if not file.is_file():
        raise KeyError(name)
    text = file.read_text(encoding="utf-8").strip()
    return Prompt(text=text, version=f"{name}/{chosen}/{hashlib.sha256(text.encode()).hexdigest()[:12]}")
