"""How this copy of Filrouge was installed, and the commands that extend, upgrade or remove it.

Filrouge can be installed from a checkout, a wheel or a repository URL, by pip, pipx or uv, so no fixed command fits
every user. The commands built here name the current interpreter's environment and the packages themselves, and work for
every kind of installation.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Any, Final, Literal, cast

from msgspec import Struct

_DISTRIBUTION: Final = "filrouge"
_EXTRA: Final = re.compile(r"""\bextra\s*==\s*['"]([\w.-]+)['"]""")
Tool = Literal["pip", "pipx", "uv tool"]
_MANAGER_FILES: Final[tuple[tuple[str, Tool], ...]] = (("uv-receipt.toml", "uv tool"), ("pipx_metadata.json", "pipx"))


class Installation(Struct, frozen=True, kw_only=True):
    """One installed copy of Filrouge.

    Attributes:
        python: the interpreter of its environment.
        prefix: the directory of the environment.
        tool: the tool that manages the environment.
        has_pip: True if the environment contains pip; uv does not install it.
        checkout: the source tree it was installed from, editable or not; empty otherwise.
        repository: the repository URL in pip's form, `git+https://...`, if it was installed from one; empty otherwise.
        requirements: pairs of an extra's name and a package that it needs.
    """

    python: str
    prefix: str
    tool: Tool = "pip"
    has_pip: bool = True
    checkout: str = ""
    repository: str = ""
    requirements: tuple[tuple[str, str], ...] = ()

    def install_command(self, *packages: str) -> str:
        """Return the command that installs packages next to Filrouge."""
        return self._install(*map(shlex.quote, packages))

    def install_extra_command(self, extra: str) -> str:
        """Return the command that installs the packages of an extra."""
        needed = [package for name, package in self.requirements if name == extra]
        return self.install_command(*(needed or [f"{_DISTRIBUTION}[{extra}]"]))

    def reinstall_command(self, package: str) -> str:
        """Return the command that reinstalls a damaged package from a wheel."""
        name = shlex.quote(package)
        if self.tool == "uv tool" or not self.has_pip:
            return self._install("--reinstall-package", name, name)
        return f"{shlex.quote(self.python)} -m pip install --force-reinstall --no-deps --only-binary :all: {name}"

    def upgrade_command(self) -> str:
        """Return the command that upgrades Filrouge and its dependencies."""
        if self.tool != "pip":
            return f"{self.tool} upgrade {shlex.quote(os.path.basename(self.prefix))}"
        if self.checkout:
            pull = f"git -C {shlex.quote(self.checkout)} pull"
            return f"{pull} && {self._install('--upgrade', '--editable', shlex.quote(self.checkout))}"
        source = f"{_DISTRIBUTION} @ {self.repository}" if self.repository else _DISTRIBUTION
        return self._install("--upgrade", shlex.quote(source))

    def uninstall_command(self) -> str:
        """Return the command that uninstalls Filrouge."""
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
    """Describe the running copy."""
    try:
        distribution = metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        source, requirements = {}, ()
    else:
        source = _json(distribution.read_text("direct_url.json"))
        requirements = tuple(_by_extra(line) for line in distribution.requires or () if _EXTRA.search(line))
    managers: list[Tool] = [tool for file, tool in _MANAGER_FILES if os.path.exists(os.path.join(sys.prefix, file))]
    vcs, url = cast("dict[str, Any]", source.get("vcs_info") or {}), str(source.get("url", ""))
    return Installation(
        python=sys.executable,
        prefix=sys.prefix,
        tool=managers[0] if managers else "pip",
        has_pip=importlib.util.find_spec("pip") is not None,
        checkout=_path(url) if "dir_info" in source else "",
        repository=f"{vcs.get('vcs', 'git')}+{url}" if vcs else "",
        requirements=requirements,
    )


def install_command(*packages: str) -> str:
    """Return the command that installs packages next to this copy of Filrouge."""
    return this_installation().install_command(*packages)


def install_extra_command(extra: str) -> str:
    """Return the command that installs the packages of an extra next to this copy of Filrouge."""
    return this_installation().install_extra_command(extra)


def command_for_missing(module: str, extras: Mapping[str, str]) -> str:
    """Return the command that installs a module that could not be imported.

    Args:
        module: its full name.
        extras: the extra that brings a top-level module, by the name of the module.
    """
    extra = extras.get(module.partition(".")[0])
    return install_extra_command(extra) if extra else install_command(module)


def reinstall_command(package: str) -> str:
    """Return the command that reinstalls a damaged package of this copy."""
    return this_installation().reinstall_command(package)


def upgrade_command() -> str:
    """Return the command that upgrades this copy of Filrouge."""
    return this_installation().upgrade_command()


def _by_extra(requirement: str) -> tuple[str, str]:
    """Return an extra's name and the package it needs, without the environment markers after the semicolon."""
    extra = _EXTRA.search(requirement)
    return (extra[1] if extra else "", requirement.partition(";")[0].strip())


def _json(text: str | None) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", json.loads(text or "{}"))
    except ValueError:
        return {}


def _path(url: str) -> str:
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(url).path)
