"""Naming the commands loads no part of the daemon: those that work on the home itself load it when they run."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from filrouge.cli.commands import COMMANDS, GROUPS, commands

HEAVY = {
    "apsw",
    "fastapi",
    "numpy",
    "onnxruntime",
    "tokenizers",
    "filrouge.core.settings",
    "filrouge.runtime",
}


def words(app: typer.Typer) -> set[str]:
    named = {one.name or getattr(one.callback, "__name__", "") for one in app.registered_commands}
    return named | {str(group.name) for group in app.registered_groups}


@pytest.mark.parametrize("module", sorted({*COMMANDS, *(module for module, _ in GROUPS.values())}))
def test_naming_a_command_loads_nothing_of_the_daemon(module: str) -> None:
    code = f"import sys, filrouge.cli.commands.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & HEAVY == set()


def test_every_module_registers_the_commands_that_it_is_said_to_have() -> None:
    assert words(commands()) == {word for named in COMMANDS.values() for word in named} | set(GROUPS)
    for named in COMMANDS.values():
        assert {word for word in named if words(commands(word)) == set(named)} == set(named)
    for group in GROUPS:
        assert words(commands(group)) == {group}
