"""The container images in docker/: their instructions, and their install commands run without a container."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from dockerfile_parse import DockerfileParser

from tests.support.wheels import ROOT

FOLDER = ROOT / "docker"
DOCKERFILES = ("Dockerfile", "hub.Dockerfile")
_MOUNT = re.compile(r"--mount=\S+\s+")
_VARIABLE = re.compile(r"\$\{(\w+)(?::-(?P<default>[^}]*)|:\?(?P<message>[^}]*))?\}")


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction of a Dockerfile, such as `USER` with `10001:10001`."""

    name: str
    value: str


def instructions(dockerfile: str) -> list[Instruction]:
    found = DockerfileParser(path=str(FOLDER / dockerfile)).structure
    return [
        Instruction(name=one["instruction"], value=one["value"]) for one in found if one["instruction"] != "COMMENT"
    ]


def stages(dockerfile: str) -> list[list[Instruction]]:
    """The instructions of each stage; the last stage is the image."""
    found = list[list[Instruction]]()
    for one in instructions(dockerfile):
        if one.name == "FROM":
            found.append([])
        found[-1].append(one)
    return found


def command(value: str) -> list[str]:
    """The words of a command that is written as a JSON list, as in `CMD` and `HEALTHCHECK`."""
    return json.loads(value[value.index("[") :])


def install(dockerfile: str, folder: Path, **arguments: str) -> Path:
    """Run what a build runs to install Filrouge, in a folder instead of an image; return the directory of programs.

    It copies what the build copies, builds the wheel, makes a virtual environment, and installs from the registry.
    """
    source, dist, target = folder / "source", folder / "dist", folder / "installed"
    source.mkdir(parents=True)
    environ = {**os.environ, **arguments, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for one in instructions(dockerfile):
        if one.name == "ARG":
            name, _, default = one.value.partition("=")
            environ.setdefault(name, default)
        elif one.name == "COPY":
            _copy(one.value.split(), source)
        elif one.name == "RUN" and "pip" in one.value:
            script = _MOUNT.sub("", one.value).replace("/dist", str(dist)).replace("/opt/filrouge", str(target))
            subprocess.run(["sh", "-c", script], cwd=source, env=environ, check=True, timeout=1200)
    return target / "bin"


def _copy(words: list[str], target: Path) -> None:
    *names, place = words
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target / place)


def compose_text(name: str, variables: dict[str, str]) -> str:
    """A compose file with its variables put in, as `docker compose` does.

    Raises:
        KeyError: a variable that must be given is not.
    """

    def value(found: re.Match[str]) -> str:
        given = variables.get(found[1]) or found["default"]
        if not given:
            raise KeyError(found[1])
        return given

    return _VARIABLE.sub(value, (FOLDER / name).read_text(encoding="utf-8"))


def compose(name: str, variables: dict[str, str]) -> dict[str, Any]:
    return yaml.safe_load(compose_text(name, variables))


def example_variables() -> dict[str, str]:
    """The variables of .env.example, with a password where it asks for one."""
    lines = (FOLDER / ".env.example").read_text(encoding="utf-8").splitlines()
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name: value or f"{name.lower()}-value" for name, _, value in pairs}
