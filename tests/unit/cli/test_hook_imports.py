"""The hook's import path stays light: the standard library's small modules and its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
OWN = {
    "filrouge", "filrouge._version", "filrouge.capture", "filrouge.capture.redact", "filrouge.capture.events",
    "filrouge.capture.inbox", "filrouge.capture.secret_rules", "filrouge.cli",
    "filrouge.cli.hook", "filrouge.cli.main",
    "filrouge.daemon", "filrouge.daemon.client", "filrouge.daemon.handover", "filrouge.daemon.reply",
    "filrouge.daemon.starting",
    "filrouge.core.errors", "filrouge.core.paths",
    "filrouge.hosts", "filrouge.hosts.claude_code", "filrouge.hosts.codex", "filrouge.hosts.command_hooks",
    "filrouge.hosts.copilot_cli", "filrouge.hosts.cursor", "filrouge.hosts.gemini", "filrouge.hosts.hook_input",
    "filrouge.hosts.openclaw",
    "filrouge.hosts.opencode", "filrouge.hosts.project", "filrouge.hosts.vscode",
    "filrouge.core",
}  # fmt: skip
HEAVY = {
    "argparse", "asyncio", "base64", "dataclasses", "datetime", "email", "hashlib", "http", "http.client",
    "inspect", "ipaddress", "logging", "pathlib", "platform", "random", "secrets", "shutil", "sqlite3", "ssl",
    "subprocess", "tempfile", "tomllib", "unittest", "urllib", "urllib.parse", "urllib.request", "uuid",
}  # fmt: skip


def loaded(*, by: str) -> set[str]:
    """Every module that importing `by` loads, in an interpreter without site packages."""
    code = f"import sys; before = set(sys.modules); import {by}; print(*(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    return set(done.stdout.split())


def test_the_hook_loads_its_own_modules_and_light_ones_of_the_standard_library() -> None:
    modules = loaded(by="filrouge.cli.hook, filrouge.cli.main")
    ours = {name for name in modules if name.split(".")[0] == "filrouge"}
    strangers = {name.split(".")[0] for name in modules - ours} - set(sys.stdlib_module_names)
    assert ours <= OWN
    assert strangers == set()
    assert modules & HEAVY == set()


def test_a_hook_that_hands_over_its_input_loads_next_to_nothing() -> None:
    assert loaded(by="filrouge.cli.main") <= {
        "filrouge", "filrouge._version", "filrouge.cli", "filrouge.cli.main", "filrouge.core", "filrouge.core.paths",
        "filrouge.daemon", "filrouge.daemon.handover", "__future__", "_socket", "gc", "os", "os.path", "posixpath",
        "genericpath", "select", "stat", "_stat", "_collections_abc", "abc", "_abc",
    }  # fmt: skip


def test_the_version_needs_no_hook_and_no_commands() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "filrouge.cli.main", "--version"],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.stdout.startswith("filrouge 0.")
