"""The guide by which a model installs Filrouge, followed to the letter: each command as it stands, each promise held.

One line is not: pip installs nothing again, because the tree's own environment is put where the guide makes one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "QUICKSTART-LLM.md"
_INSTALLS = ("-m venv", "-m pip install")


@dataclass(frozen=True, kw_only=True)
class Step:
    """A block of commands and what the guide says their output contains."""

    title: str
    commands: tuple[str, ...]
    expected: tuple[str, ...]


def steps() -> list[Step]:
    found = list[Step]()
    for section in re.split(r"^## ", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        blocks = re.split(r"^```console\n", section, flags=re.MULTILINE)
        for block in blocks[1:]:
            code, _, after = block.partition("\n```")
            commands = tuple(line.removeprefix("$ ") for line in code.splitlines())
            said = re.match(r"\s*\*Expect\* (`[^`]+`(?:, `[^`]+`)*)", after)
            wanted = tuple(re.findall(r"`([^`]+)`", said[1])) if said else ()
            found.append(Step(title=section.splitlines()[0], commands=commands, expected=wanted))
    return found


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """Where the guide is followed: a checkout with an environment, and a user with nothing."""
    (tmp_path / "user").mkdir()
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / ".venv").symlink_to(Path(sys.executable).parents[1])
    yield tmp_path / "checkout"
    run("filrouge daemon stop", tmp_path / "checkout")


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line as that user in that folder."""
    programs = f"{folder / '.venv' / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={"PATH": programs, "HOME": str(folder.parent / "user"), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_the_guide_does_what_it_says(checkout: Path) -> None:
    user = checkout.parent / "user"
    listed = steps()
    assert [step.title[0] for step in listed] == ["1", "2", "3", "4", "5", "5", "7"]
    for step in listed:
        printed = ""
        for command in step.commands:
            if any(words in command for words in _INSTALLS):
                continue
            done = run(command, checkout)
            assert done.returncode == 0, f"{step.title}: {command}: {done.stderr}"
            printed += done.stdout
        assert step.expected, step.title
        assert [words for words in step.expected if words not in printed] == [], f"{step.title}: {printed}"
        assert not (user / ".claude").exists() or step.title[0] in "45", step.title
    # What is known stays, and the model that was unpacked; nothing is left of any agent's settings.
    assert {path.name for path in user.iterdir()} <= {".local", ".cache"}


def test_every_option_and_agent_that_the_guide_names_is_there() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    shown = subprocess.run(
        [sys.executable, "-m", "filrouge.cli.main", "init", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for option in set(re.findall(r"init [^`\n]*?(--[a-z-]+)", text)):
        assert option in shown, option
