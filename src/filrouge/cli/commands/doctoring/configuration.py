"""Checks of the settings: every layer by itself, so that the one at fault is named."""

from __future__ import annotations

import os
import shlex
import stat
import tomllib
from typing import Any, Final

from filrouge.capture.guard import DISABLED
from filrouge.capture.redact_complete import redact_completely
from filrouge.cli import hook_output
from filrouge.cli.commands.doctoring.finding import Check, Verdict, fail, note, ok, warn
from filrouge.cli.commands.doctoring.scene import NotKnown, Scene
from filrouge.config import check, from_environment, may_stand_in_a_project, resolve
from filrouge.errors import BadConfig
from filrouge.home import CONFIG
from filrouge.hosts import project as projects
from filrouge.slips import PROJECT_FILE, PROJECT_KEY, nearest, unknown_keys, unknown_variables

_OFF: Final = ("", "0", "false", "no", "off")


def _parses(scene: Scene) -> Verdict:
    path = scene.path(CONFIG)
    if not os.path.exists(path):
        return ok(f"there is no {CONFIG}")
    try:
        _toml(path)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return fail(f"{path} is no TOML: {error}", f"Mend or remove {path}; the daemon does not start with it.")
    return ok(path)


def _keys(scene: Scene) -> Verdict:
    path = scene.path(CONFIG)
    try:
        values = _toml(path) if os.path.exists(path) else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NotKnown(f"unknown while {CONFIG} cannot be read") from error
    return _fitting(values, where=CONFIG, remedy=f"Change it in {path}; `filrouge settings` lists what there is.")


def _stored(scene: Scene) -> Verdict:
    stored = scene.stored()
    if not stored:
        return ok("there are none yet")
    try:
        resolve(stored, home="", environ={})
    except BadConfig as error:
        return fail(error.message, "Set it anew: `filrouge settings NAME VALUE`.")
    return ok("every one fits")


def _environment(scene: Scene) -> Verdict:
    for name, near in unknown_variables(scene.environ):
        return warn(f"{name} is no setting and does nothing", f"{near} Unset it, or correct its name.".strip())
    return _fitting(from_environment(scene.environ), where="environment", remedy="Correct or unset that variable.")


def _project_file(scene: Scene) -> Verdict:
    path = nearest(scene.cwd)
    if not path:
        return ok("there is none here")
    try:
        found = _toml(path)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return warn(f"{path} is no TOML: {error}", f"Mend or remove {path}; without it, its settings do not hold.")
    for key, near in unknown_keys(found):
        return warn(f"{path} sets {key!r}, which is no setting and does nothing", f"{near} Correct it there.".strip())
    ignored = sorted(key for key in found if key != PROJECT_KEY and not may_stand_in_a_project(key))
    if ignored:
        return note(
            f"{path} sets {len(ignored)} things that a repository may not set: {', '.join(ignored[:3])}",
            f"Put them into {scene.path(CONFIG)} if you want them.",
        )
    values = {key: value for key, value in found.items() if key != PROJECT_KEY}
    return _fitting(values, where=path, remedy=f"Change it in {path}.")


def _mode(scene: Scene) -> Verdict:
    path = scene.path(CONFIG)
    if os.path.exists(path) and stat.S_IMODE(os.stat(path).st_mode) & 0o077:
        return warn(f"others can read {path}", f"Run `chmod 600 {path}`, or `filrouge doctor --fix`.")
    return ok("nobody else reads the settings")


def _mend_mode(scene: Scene) -> list[str]:
    path = scene.path(CONFIG)
    if not os.path.exists(path) or os.stat(path).st_uid != scene.machine.user:
        return []
    mode = stat.S_IMODE(os.stat(path).st_mode)
    os.chmod(path, mode & 0o700)
    return [f"{CONFIG}: mode {mode:03o} became {mode & 0o700:03o}"] if mode & 0o077 else []


def _secrets(scene: Scene) -> Verdict:
    path = scene.path(CONFIG)
    if not os.path.exists(path):
        return ok("none stands in a file")
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    for number, line in enumerate(lines, 1):
        if redact_completely(line) != line:
            return warn(
                f"line {number} of {path} holds what looks like a key or a password",
                "Put keys into the environment of the daemon, as in docs/guides/models.md.",
            )
    return ok("none stands in a file")


def _joined(scene: Scene) -> Verdict:
    waiting: list[dict[str, str]] = scene.daemon.ask("/daemon/status").get("waiting_folders", [])
    if waiting:
        return note(
            f"{len(waiting)} folders name a project of other folders and do not see its memories, such as"
            f" {waiting[0]['folder']}",
            f"If it is the same project, run `filrouge project join {shlex.quote(waiting[0]['folder'])}`.",
        )
    return ok("no folder waits for consent")


def _capturing(scene: Scene) -> Verdict:
    if scene.environ.get(DISABLED, "").strip().lower() not in _OFF:
        return warn(f"hooks do nothing: {DISABLED} is set", f"Unset {DISABLED}.")
    settings = scene.settings()
    if not settings.auto_capture:
        return warn("nothing is captured: auto_capture is off", "Run `filrouge settings auto_capture true`.")
    if not projects.captures(scene.cwd, scene.environ):
        return note(f"nothing is captured here: {PROJECT_FILE} says so", f"See {nearest(scene.cwd)}.")
    if hook_output.is_disabled(hook_output.settings_of(scene.home), projects.names(scene.cwd, scene.environ)):
        return note("nothing is captured in this project", "See `filrouge settings disabled_projects`.")
    return ok("what agents do is captured")


def _fitting(values: dict[str, Any], *, where: str, remedy: str) -> Verdict:
    try:
        check(values, where=where)
    except BadConfig as error:
        return fail(error.message, remedy)
    return ok(f"{len(values)} set" if values else "nothing is set there")


def _toml(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        return tomllib.load(file)


CHECKS: Final = (
    Check(name="Settings file", look=_parses),
    Check(name="Settings in the file", look=_keys),
    Check(name="Mode of the settings file", look=_mode, mend=_mend_mode),
    Check(name="Keys in the settings file", look=_secrets),
    Check(name="Stored settings", look=_stored),
    Check(name="Environment", look=_environment),
    Check(name="Project file", look=_project_file),
    Check(name="Joined folders", look=_joined),
    Check(name="Capture", look=_capturing),
)
