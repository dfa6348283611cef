"""A home that a test breaks, with a user, a project and a PATH of its own, and what each check finds of it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw
from msgspec.structs import replace

from filrouge.cli.doctor.agents import codex, trusted_hash
from filrouge.cli.doctor.report import CHECKS, DEEP_CHECKS, Repair, examine, mend
from filrouge.cli.doctor.scene import Check, Finding, Scene, scene_of
from filrouge.core.paths import DATABASE

NAMED = {check.name: check for check in (*CHECKS, *DEEP_CHECKS)}
HOOK = "filrouge hook --host"


@dataclass(frozen=True, kw_only=True)
class Patient:
    """A home and its surroundings, all of them in a directory of the test."""

    beside: Path
    environ: dict[str, str]

    @property
    def home(self) -> str:
        return str(self.beside / "home")

    @property
    def user(self) -> Path:
        return self.beside / "user"

    @property
    def project(self) -> Path:
        return self.user / "zqprojectfolder"

    def scene(self, *, deep: bool = False) -> Scene:
        return scene_of(self.home, environ=self.environ, cwd=str(self.project), deep=deep)

    def finding(self, name: str, *, now: datetime | None = None, deep: bool = False, **machine: Any) -> Finding:
        """What the check of that name finds, on a machine that differs so."""
        scene = self.scene(deep=deep)
        scene = replace(scene, machine=replace(scene.machine, **machine), now=now or scene.now)
        [found] = examine(scene, [NAMED[name]])
        return found

    def trouble(self) -> dict[str, str]:
        """Every check that finds something to be done."""
        return {one.check: one.cause for one in examine(self.scene(), CHECKS) if one.needs_action}

    def mended(self, name: str) -> Repair:
        """What mending does about that one."""
        checks: list[Check] = [NAMED[name]]
        [done] = mend(self.scene(), checks, examine(self.scene(), checks))
        return done

    def path(self, *names: str) -> Path:
        return Path(self.home, *names)

    def write(self, name: str, text: str, mode: int = 0o600) -> Path:
        """A file in the home."""
        return written(self.path(name), text, mode)

    def program(self, name: str, script: str) -> Path:
        """A program on the PATH."""
        return written(self.beside / "bin" / name, f"#!/bin/sh\n{script}\n", 0o755)

    def sql(self, statement: str) -> None:
        """Change the database behind everybody's back."""
        with database(self.path(DATABASE)) as connection:
            connection.execute("PRAGMA foreign_keys = off")
            connection.execute(statement)

    def claude(self, *events: str, file: str = ".claude/settings.json", **more: Any) -> Path:
        """Hooks of ours for Claude Code."""
        return written(self.user / file, json.dumps({"hooks": hooks(f"{HOOK} claude-code", *events), **more}))

    def codex(self, *events: str, trusted: bool = True, command: str = f"{HOOK} codex") -> Path:
        """Hooks of ours for Codex, approved by its user."""
        path = written(self.user / ".codex" / "hooks.json", json.dumps({"hooks": hooks(command, *events)}))
        states = [
            f'[hooks.state."{hook.trust_keys[0]}"]\ntrusted_hash = "{trusted_hash(hook)}"\n'
            for hook in codex(self.scene()).hooks
            if trusted
        ]
        written(self.user / ".codex" / "config.toml", "".join(states))
        return path


def hooks(command: str, *events: str) -> dict[str, Any]:
    return {event: [{"hooks": [{"type": "command", "command": command, "timeout": 5}]}] for event in events}


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def mode_of(path: Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def _nothing_said(*_: object) -> int:
    return 0


@contextmanager
def database(path: Path) -> Generator[Any]:
    connection: Any = apsw.Connection(str(path))
    connection.create_scalar_function("says", _nothing_said, -1)
    try:
        yield connection
    finally:
        connection.close()


def everything(_: str) -> bool:
    """A machine on which every module is installed."""
    return True


def nothing(_: str) -> bool:
    """One on which none is."""
    return False


def saw(found: Finding, state: str, cause: str, remedy: str) -> None:
    """Hold a finding against what a person should read."""
    assert (found.state, cause in found.cause, remedy in found.remedy) == (state, True, True), found
