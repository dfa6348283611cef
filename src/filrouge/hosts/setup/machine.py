"""The user's machine, as far as the settings of agents depend on it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

NAME: Final = "filrouge"


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The user's machine as far as the agents' settings depend on it.

    Attributes:
        environ: the environment.
        executable: the absolute path of `filrouge`.
    """

    environ: Mapping[str, str]
    executable: str

    def folder(self, variable: str, *usual: str) -> str:
        """The folder that a variable names, else the usual one below the user's home."""
        named = self.environ.get(variable, "").strip() if variable else ""
        if named:
            return os.path.abspath(os.path.expanduser(named))
        return os.path.join(self.environ.get("HOME") or os.path.expanduser("~"), *usual)

    def program(self, name: str) -> str | None:
        """Where the command of that name is."""
        return shutil.which(name, path=self.environ.get("PATH"))


def this_machine(environ: Mapping[str, str]) -> Machine:
    """The machine this runs on, with the command that is running."""
    called = os.path.abspath(sys.argv[0])
    beside = os.path.join(os.path.dirname(sys.executable), NAME)
    is_called = os.path.basename(called) == NAME and os.access(called, os.X_OK)
    found = called if is_called else beside if os.access(beside, os.X_OK) else shutil.which(NAME) or beside
    return Machine(environ=environ, executable=os.path.abspath(found))
