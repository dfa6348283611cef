"""A healthy home, made once and copied for each test that breaks it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from filrouge.capture.service import store_events
from filrouge.core.clock import SystemClock
from filrouge.maintenance.backup_service import back_up
from filrouge.testing import idle, running
from tests.support.given import event

from .patient import Patient

SAID = ("For the record: production listens on port 8443.", "The museum opens at ten.")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that took two prompts in, understood them, was backed up, and whose daemon left."""
    home = tmp_path_factory.mktemp("doctor") / "home"
    with running(str(home)) as parts:
        store_events(parts, [event(text=text) for text in SAID]).result(60)
        idle(parts)
        back_up(str(home), "hand", SystemClock().now())
    return home


@pytest.fixture
def bare(tmp_path: Path) -> Patient:
    """Nothing but a user, a project and a PATH."""
    environ = {
        "HOME": str(tmp_path / "user"),
        "PATH": str(tmp_path / "bin"),
        "FILROUGE_EMBEDDING_MODEL": "hashing",
        "FILROUGE_MODELS": str(tmp_path / "models"),
    }
    made = Patient(beside=tmp_path, environ=environ)
    made.project.mkdir(parents=True)
    return made


@pytest.fixture
def patient(bare: Patient, template: Path) -> Patient:
    """A healthy home, with Claude Code and Codex connected to it."""
    shutil.copytree(template, bare.home)
    bare.program("filrouge", "echo filrouge 0.1.0")
    bare.program("claude", "echo '2.1.330 (Claude Code)'")
    bare.program("codex", "echo codex-cli 0.169.0")
    events = ("SessionStart", "UserPromptSubmit", "Stop")
    bare.claude(*events)
    bare.codex(*events)
    return bare
