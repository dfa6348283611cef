"""What `init` asks beside the agents: who understands, how much work that may be, in which language.

Answers go to `config.toml` in the home, never to a shell's start files. Keys stay in the environment.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from filrouge.cli import output
from filrouge.errors import FilrougeError
from filrouge.home import CONFIG, DATABASE, inside, make_private
from filrouge.hosts.setup import files, tables
from filrouge.hosts.setup.wanted import AGENTS

if TYPE_CHECKING:
    from filrouge.app.resetting import Held

_IGNORED_BY: Final = (".gitignore", ".claudeignore")


def chosen(provider: str | None, mode: str | None, language: str | None, *, asked: bool) -> dict[str, Any]:
    """The settings that were named, and at a terminal those that were asked for.

    Raises:
        BadConfig: a value does not fit.
    """
    if asked and provider is None:
        output.say("Understanding needs no model; with one it finds more. Providers: heuristic, ollama, anthropic,")
        output.say("openai, claude_cli, codex_cli.")
        provider = output.prompt("Who understands", default="heuristic")
    if asked and language is None:
        language = output.prompt("Language of headings (auto, en, fr, es)", default="auto")
    if asked and mode is None:
        mode = output.prompt("How much work may understanding do (light, normal, heavy)", default="normal")
    named = {"extract_provider": provider, "mode": mode, "language": language}
    # Loaded when needed: the rest of the command does without the settings' library.
    from filrouge.config import check

    return check({key: value for key, value in named.items() if value is not None}, where="init")


def conversations(names: Iterable[str]) -> bool:
    """Whether a plugin may read every conversation of those agents that give it none otherwise."""
    for agent in (AGENTS[name] for name in names if AGENTS[name].reads_all):
        output.say(f"{agent.title} lets a plugin read what is said to it, by you and in its channels, only with leave.")
        return output.confirm(f"May Filrouge's plugin read what is said to {agent.title}?", default=False)
    return False


def lines(directory: str, settings: Mapping[str, Any]) -> list[str]:
    """What would be written into the settings of Filrouge."""
    said = [f"changes {inside(directory, CONFIG)}"] if settings else []
    return said + [f"    +{key} = {value}" for key, value in settings.items()]


def write(directory: str, settings: Mapping[str, Any]) -> None:
    """Write them.

    Raises:
        BadInput: the file there cannot be read.
        CannotWrite: it cannot be written.
    """
    if not settings:
        return
    make_private(directory)
    path = inside(directory, CONFIG)
    text = files.text_of(files.read(path), path)
    files.write(path, tables.with_keys(text, settings).encode())


def warnings(settings: Mapping[str, Any]) -> list[str]:
    """What keeps the chosen provider from answering now; understanding goes on without it."""
    provider = settings.get("extract_provider", "")
    if provider in ("", "heuristic", "off"):
        return []
    from filrouge.llm.options import ModelOptions
    from filrouge.llm.registry import model

    try:
        asyncio.run(model(ModelOptions(provider=provider, environ=os.environ)).check())
    except FilrougeError as error:
        return [f"{provider} does not answer yet: {error.message} {error.remedy}".rstrip()]
    return []


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """The memory that the home has already: it is kept, or put away where that is wanted."""

    directory: str
    held: Held | None
    reset: bool

    @classmethod
    def of(cls, directory: str, *, reset: bool) -> Memory:
        """What there is."""
        if not os.path.exists(inside(directory, DATABASE)):
            return cls(directory=directory, held=None, reset=reset)
        from filrouge.app.resetting import held

        return cls(directory=directory, held=held(directory), reset=reset)

    @property
    def goes(self) -> bool:
        """Whether there is one, and it is to be put away."""
        return self.reset and self.held is not None

    def lines(self) -> list[str]:
        """What becomes of it."""
        if self.held is None:
            return ["There is no memory yet that could be put away."] if self.reset else []
        from filrouge.cli import resetting

        if self.reset:
            return resetting.plan(self.held, self.directory)
        return [f"The memory of this home is kept: {resetting.in_words(self.held, self.directory)}."]

    def consent(self) -> bool:
        """Whether what becomes of it may be done; only a person at a terminal can say that it goes."""
        if not self.goes:
            return True
        from filrouge.cli import resetting

        return resetting.is_typed()

    def put_away(self) -> list[str]:
        """Put it away, if it is to go; a line about where it is.

        Raises:
            FilrougeError: why that cannot be; nothing was changed.
        """
        if not self.goes:
            return []
        from filrouge.cli import resetting

        name = resetting.put_away(self.directory)
        return [f"The memory begins anew. What was there is kept: filrouge restore {name}"]

    def to_json(self) -> dict[str, Any] | None:
        """As programs read it; None where there is none."""
        return None if self.held is None else {**self.held.to_json(), "home": self.directory, "reset": self.reset}


def ignore_home(directory: str) -> list[str]:
    """Where the home lies in a repository, its ignore files name it; a line about each that changed."""
    top = _repository(directory)
    if top is None:
        return []
    line = f"/{os.path.relpath(directory, top)}/".replace(os.sep, "/")
    said = list[str]()
    for name in _IGNORED_BY:
        path = os.path.join(top, name)
        content = files.read(path)
        if (content is None and name != _IGNORED_BY[0]) or line in files.text_of(content, path).splitlines():
            continue
        before = content or b""
        gap = b"\n" if before and not before.endswith(b"\n") else b""
        files.write(path, before + gap + line.encode() + b"\n")
        said.append(f"{path} names {line}, so that no memory is committed.")
    return said


def _repository(directory: str) -> str | None:
    folder = os.path.dirname(os.path.realpath(directory))
    while folder != os.path.dirname(folder):
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        folder = os.path.dirname(folder)
    return None
