"""A command loads what it needs: one that only asks the daemon opens no database and computes nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from filrouge.cli.commands import COMMANDS, GROUPS, commands

#: They work without a daemon, on the home itself.
ON_THE_HOME = {"doctor", "repair", "restoring", "model"}
HEAVY = {"apsw", "fastapi", "numpy", "filrouge.app", "filrouge.config", "filrouge.embed", "filrouge.store"}


def words(app: typer.Typer) -> set[str]:
    named = {one.name or getattr(one.callback, "__name__", "") for one in app.registered_commands}
    return named | {str(group.name) for group in app.registered_groups}


@pytest.mark.parametrize("module", [*COMMANDS, *GROUPS])
def test_a_command_that_asks_the_daemon_loads_nothing_of_the_daemon(module: str) -> None:
    code = f"import sys, filrouge.cli.commands.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (set(done.stdout.split()) & HEAVY == set()) is (module not in ON_THE_HOME)


def test_every_module_registers_the_commands_that_it_is_said_to_have() -> None:
    assert words(commands()) == {word for named in COMMANDS.values() for word in named} | set(GROUPS)
    for named in COMMANDS.values():
        assert {word for word in named if words(commands(word)) == set(named)} == set(named)
    for group in GROUPS:
        assert words(commands(group)) == {group}
