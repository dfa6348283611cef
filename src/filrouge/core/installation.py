"""How this copy of Filrouge was installed, and the commands that add to it or upgrade it.

Filrouge is installed from a checkout, a wheel or a repository's address, by pip, pipx or uv, so a command written
into a message cannot fit every user. The commands here name this interpreter's environment and packages by their own
names, and so work however Filrouge came into it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final, Literal, cast

_DISTRIBUTION: Final = "filrouge"
_EXTRA: Final = re.compile(r"""\bextra\s*==\s*['"]([\w.-]+)['"]""")
Tool = Literal["pip", "pipx", "uv tool"]
_RECEIPTS: Final[tuple[tuple[str, Tool], ...]] = (("uv-receipt.toml", "uv tool"), ("pipx_metadata.json", "pipx"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """One installed copy.

    Attributes:
        python: the interpreter of its environment.
        prefix: the environment's directory.
        tool: what manages the environment.
        has_pip: pip is in the environment; uv leaves it out.
        checkout: the directory of the source tree where it is installed from one, editable or not.
        repository: the repository's address for pip, as `git+https://...`, where it is installed from one.
        requirements: what each extra needs.
    """

    python: str
    prefix: str
    tool: Tool = "pip"
    has_pip: bool = True
    checkout: str = ""
    repository: str = ""
    requirements: tuple[tuple[str, str], ...] = ()

    def add(self, *packages: str) -> str:
        """The command that installs packages beside Filrouge."""
        return self._install(*map(shlex.quote, packages))

    def add_extra(self, extra: str) -> str:
        """The command that installs what an extra of Filrouge needs."""
        needed = [package for name, package in self.requirements if name == extra]
        return self.add(*(needed or [f"{_DISTRIBUTION}[{extra}]"]))

    def reinstall(self, package: str) -> str:
        """The command that puts a damaged package there again, from a wheel."""
        name = shlex.quote(package)
        if self.tool == "uv tool" or not self.has_pip:
            return self._install("--reinstall-package", name, name)
        return f"{shlex.quote(self.python)} -m pip install --force-reinstall --no-deps --only-binary :all: {name}"

    def upgrade(self) -> str:
        """The command that brings a newer Filrouge, with the packages it needs."""
        if self.tool != "pip":
            return f"{self.tool} upgrade {shlex.quote(os.path.basename(self.prefix))}"
        if self.checkout:
            pull = f"git -C {shlex.quote(self.checkout)} pull"
            return f"{pull} && {self._install('--upgrade', '--editable', shlex.quote(self.checkout))}"
        source = f"{_DISTRIBUTION} @ {self.repository}" if self.repository else _DISTRIBUTION
        return self._install("--upgrade", shlex.quote(source))

    def remove(self) -> str:
        """The command that takes Filrouge out of its environment."""
        if self.tool != "pip":
            return f"{self.tool} uninstall {shlex.quote(os.path.basename(self.prefix))}"
        if not self.has_pip:
            return f"uv pip uninstall --python {shlex.quote(self.python)} {_DISTRIBUTION}"
        return f"{shlex.quote(self.python)} -m pip uninstall {_DISTRIBUTION}"

    def _install(self, *words: str) -> str:
        if self.tool == "pipx":
            return " ".join(["pipx inject", shlex.quote(os.path.basename(self.prefix)), *words])
        if self.tool == "uv tool" or not self.has_pip:
            return " ".join(["uv pip install --python", shlex.quote(self.python), *words])
        return " ".join([shlex.quote(self.python), "-m pip install", *words])


def this_installation() -> Installation:
    """The copy that runs."""
    try:
        found = metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError:  # run from a source tree that nobody installed
        source, requirements = {}, ()
    else:
        source = _json(found.read_text("direct_url.json"))
        requirements = tuple(_by_extra(line) for line in found.requires or () if _EXTRA.search(line))
    managed: list[Tool] = [tool for file, tool in _RECEIPTS if os.path.exists(os.path.join(sys.prefix, file))]
    vcs, url = cast("dict[str, Any]", source.get("vcs_info") or {}), str(source.get("url", ""))
    return Installation(
        python=sys.executable,
        prefix=sys.prefix,
        tool=managed[0] if managed else "pip",
        has_pip=importlib.util.find_spec("pip") is not None,
        checkout=_path(url) if "dir_info" in source else "",
        repository=f"{vcs.get('vcs', 'git')}+{url}" if vcs else "",
        requirements=requirements,
    )


def add(*packages: str) -> str:
    """The command that installs packages beside this copy of Filrouge."""
    return this_installation().add(*packages)


def add_extra(extra: str) -> str:
    """The command that installs what an extra needs beside this copy of Filrouge."""
    return this_installation().add_extra(extra)


def reinstall(package: str) -> str:
    """The command that puts a damaged package of this copy there again."""
    return this_installation().reinstall(package)


def upgrade() -> str:
    """The command that upgrades this copy of Filrouge."""
    return this_installation().upgrade()


def _by_extra(requirement: str) -> tuple[str, str]:
    """An extra's name and the package it needs, without the conditions behind the semicolon."""
    found = _EXTRA.search(requirement)
    return (found[1] if found else "", requirement.partition(";")[0].strip())


def _json(text: str | None) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", json.loads(text or "{}"))
    except ValueError:
        return {}


def _path(url: str) -> str:
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(url).path)
