"""What a scripted provider says, question by question, and a whole Filrouge that asks it.

The real SDKs carry the questions over HTTP. A question is known by its instructions: they are one of the prompts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from filrouge.memories.models import Memory
from filrouge.providers.language_models import LANGUAGES, prompt
from filrouge.providers.models import OPERATIONS, Operation
from filrouge.providers.service import ModelTimings
from filrouge.runtime.services import Parts
from filrouge.testing import running

from .provider import Asked, Provider, Step

#: Models are asked at once, and after a failure again at once.
AT_ONCE: Final = ModelTimings(after_reply=0.0, quiet=0.0, rest=0.05, breaker=0.05)
Saying = Step | str | dict[str, Any] | Callable[[Asked], "Step | dict[str, Any]"]
_OPENINGS: Final[dict[str, Operation]] = {
    prompt(operation, language).text[:60]: operation for operation in OPERATIONS for language in LANGUAGES
}


def operation_of(asked: Asked) -> Operation:
    """What a question is for."""
    return next(operation for opening, operation in _OPENINGS.items() if opening in asked.instructions)


@dataclass
class Mind:
    """What the model says to each kind of question; changed while it runs."""

    extract: Saying = field(default_factory=lambda: {"facts": []})
    decide: Saying = field(default_factory=lambda: {"decisions": []})
    support: Saying = field(default_factory=lambda: {"judgements": []})
    inform: Saying = field(default_factory=lambda: {"score": 0.0, "summary": ""})
    thread: Saying = field(default_factory=lambda: {"related": False, "confidence": 0.0, "reason": ""})
    title: Saying = field(default_factory=lambda: {"title": "", "summary": ""})

    def answer(self, asked: Asked) -> Step | str:
        """The answer to one question."""
        said: Saying = getattr(self, operation_of(asked))
        given = said(asked) if callable(said) else said
        return json.dumps(given) if isinstance(given, dict) else given


@contextmanager
def thinking(
    home: Path, mind: Mind, *, provider: str = "openai", pace: ModelTimings = AT_ONCE, **settings: str
) -> Generator[tuple[Parts, Provider]]:
    """A whole Filrouge whose model is this mind, asked over HTTP in the provider's own format."""
    with Provider(choosing=mind.answer, models=["little"]) as server:
        environ = {
            "FILROUGE_EXTRACT_PROVIDER": provider,
            "FILROUGE_EXTRACT_MODEL": "little",
            "FILROUGE_LLM_URL": server.url(provider),
            **{f"FILROUGE_{key.upper()}": value for key, value in settings.items()},
        }
        with running(str(home), environ=environ, pace=pace) as parts:
            yield parts, server


def live(parts: Parts) -> list[Memory]:
    """Every current memory, oldest first."""
    found = parts.readers.here(lambda tx: parts.memories(tx).within(project=None, user="local", everywhere=True))
    return sorted(found, key=lambda memory: memory.id)


def facts(*stated: dict[str, Any]) -> dict[str, Any]:
    """An answer to `extract`."""
    return {"facts": list(stated), "summary": "", "concepts": [], "entities": [], "questions": []}


def fact(quote: str, text: str, turn: int = 1, **more: Any) -> dict[str, Any]:
    """One fact as a model states it."""
    return {"turn": turn, "quote": quote, "text": text, **more}
