"""What models behind command lines have in common: who they are, a process for each answer, a check for free."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence

from filrouge.llm import child
from filrouge.llm.outcome import Who


class CommandLine:
    """The part of `LanguageModel` that is the same for every command line; a question is put by who inherits."""

    def __init__(self, who: Who, path: str, environ: Mapping[str, str]) -> None:
        self._who = who
        self._path = path
        self._environ = environ

    def __repr__(self) -> str:
        return f"<{self._who} at {self._path}>"

    @property
    def provider(self) -> str:
        """The provider's name in settings."""
        return self._who.provider

    @property
    def model(self) -> str:
        """The model's name, or its alias."""
        return self._who.model

    async def check(self) -> None:
        """Ask for its version.

        Raises:
            ModelUnavailable: it cannot be started, or ends with an error.
        """
        done = await self._run(["--version"], "")
        if done.code:
            raise self._who.failure("configuration", f"ends with {done.code} when asked for its version")

    async def close(self) -> None:
        """Nothing to end: its processes end with their answers."""

    async def _run(self, arguments: Sequence[str], text: str) -> child.Done:
        """Run it once, in a directory of its own that is empty."""
        with tempfile.TemporaryDirectory(prefix="filrouge-") as empty:
            return await child.run(
                [self._path, *arguments], text=text, directory=empty, environ=self._environ, who=self._who
            )
