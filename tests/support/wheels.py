"""Filrouge as a wheel, and bare environments for it: an install as a user has it, without this checkout on any path."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def wheel(folder: Path) -> Path:
    """The wheel of this tree, built without the network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [found] = folder.glob("*.whl")
    return found


def environment(folder: Path, built: Path, *extras: str) -> Path:
    """A virtual environment with the wheel and exactly the packages that it and these extras declare; its programs.

    The packages are links to those of this interpreter, so nothing is fetched. What the wheel does not declare is
    missing there.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    programs = folder / "bin"
    install = ["-m", "pip", "--python", str(programs / "python"), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([sys.executable, *install, str(built)], check=True, capture_output=True, timeout=120)
    place = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    [facts] = place.glob("filrouge-*.dist-info")
    for name in _needed(metadata.Distribution.at(facts), extras):
        for file in metadata.distribution(name).files or ():
            _link(place, metadata.distribution(name), file.parts[0])
    return programs


def _link(place: Path, package: metadata.Distribution, name: str) -> None:
    there, here = Path(str(package.locate_file(name))), place / name
    if name not in ("..", "__pycache__") and there.exists() and not os.path.lexists(here):
        here.symlink_to(there)


def _needed(package: metadata.Distribution, extras: Iterable[str]) -> set[str]:
    """The names of all packages that one needs, and those need in their turn; of no extra that nobody asks for."""
    found, waiting = set[str](), [(package, extra) for extra in ("", *extras)]
    while waiting:
        one, extra = waiting.pop()
        for need in map(Requirement, one.requires or ()):
            if need.marker is not None and not need.marker.evaluate({"extra": extra}):
                continue
            name = re.sub(r"[-_.]+", "-", need.name).lower()
            for wanted in ("", *need.extras):
                key = f"{name}[{wanted}]"
                if key not in found:
                    found.add(key)
                    waiting.append((metadata.distribution(name), wanted))
    return {key.partition("[")[0] for key in found}
