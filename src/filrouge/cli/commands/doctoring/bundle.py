"""The report of `filrouge doctor --bundle`: what a stranger needs to help, and no word of anybody.

What may hold words of a person or a secret is left out by its kind, not looked for: of settings and of the environment
only choices, switches and numbers are told, of everything else whether it is set; of the database, counts; of the log,
lines of our own form, which have no words of anybody. What remains is redacted all the same.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from filrouge._version import __version__
from filrouge.app.sizes import sizes
from filrouge.capture.redact_complete import redact_completely
from filrouge.cli import output
from filrouge.cli.commands.doctoring.finding import Finding
from filrouge.cli.commands.doctoring.scene import NotKnown, Scene
from filrouge.clock import to_text
from filrouge.config import Effective, Settings
from filrouge.control_characters import in_json, visible
from filrouge.daemon.logs import last_lines, parsed
from filrouge.errors import BadInput, NotFound
from filrouge.ports import Tx
from filrouge.store.events import Events
from filrouge.store.jobs import Jobs
from filrouge.store.looking import schema_number

_LOG_LINES: Final = 500
_SET: Final = "(set)"
_UNSET: Final = "(not set)"
_SECRET_NAMES: Final = re.compile(r"(?i)key|token|secret|passw|credential|auth")
_TOLD_OF_THE_ENVIRONMENT: Final = re.compile(r"(?i)^(filrouge_.*|.*_api_key|ollama_url|claude_config_dir|codex_home)$")
_SHORTEST_SECRET: Final = 6
_TOLD_OF_THE_LOG: Final = ("time", "level", "logger", "message", "error")
_LEVELS: Final = frozenset("DEBUG INFO WARNING ERROR CRITICAL".split())
_LEFT_OUT: Final = "[left out]"
_README: Final = """What `filrouge doctor --bundle` wrote: versions, findings, settings, counts, and the end of the log.
It holds no memory, no prompt and no key; settings that are free text are only said to be set. Look before you share it.
"""


def write_bundle(path: str, scene: Scene, findings: Iterable[Finding]) -> None:
    """Write the report to a new file.

    Raises:
        BadInput: there is such a file already.
        CannotWrite: it cannot be written there.
    """
    clean = _Cleaner(scene)
    documents = {
        "filrouge-report/README.txt": _README,
        "filrouge-report/versions.json": _versions(scene),
        "filrouge-report/findings.json": [finding.to_json() for finding in findings],
        "filrouge-report/settings.json": _settings(scene),
        "filrouge-report/environment.json": {
            name: _SET for name in sorted(scene.environ) if _TOLD_OF_THE_ENVIRONMENT.match(name)
        },
        "filrouge-report/counts.json": _counts(scene),
        "filrouge-report/log.txt": "\n".join(_log(scene)),
    }
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise BadInput(f"There is a file {path} already.", remedy="Give another name, or remove it.") from error
    except OSError as error:
        raise output.unwritable(path, error) from error
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in documents.items():
            archive.writestr(name, _text(content, clean))


class _Cleaner:
    """Takes secrets of the environment, and the places of this machine, out of a text."""

    def __init__(self, scene: Scene) -> None:
        secrets = {
            value.strip()
            for name, value in scene.environ.items()
            if _SECRET_NAMES.search(name) and len(value.strip()) >= _SHORTEST_SECRET
        }
        self._cut = [(secret, _LEFT_OUT) for secret in sorted(secrets, key=len, reverse=True)]
        places = [(scene.home, "$FILROUGE_HOME"), (scene.user_home, "~"), (scene.cwd, "$PWD")]
        self._cut += sorted(places, key=lambda place: len(place[0]), reverse=True)  # one may lie in another

    def __call__(self, text: str) -> str:
        for what, instead in self._cut:
            text = text.replace(what, instead) if len(what) > 1 else text
        return redact_completely(text)


def _text(content: Any, clean: _Cleaner) -> str:
    if isinstance(content, str):
        return visible(clean(content))
    return in_json(json.dumps(_cleaned(content, clean), ensure_ascii=False, indent=1))


def _cleaned(value: Any, clean: _Cleaner) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _cleaned(one, clean) for key, one in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_cleaned(one, clean) for one in cast("list[Any]", value)]
    return value


def _versions(scene: Scene) -> dict[str, Any]:
    machine = scene.machine
    return {
        "filrouge": __version__,
        "at": to_text(scene.now),
        "python": ".".join(map(str, machine.python)),
        "system": machine.system,
        "bits": machine.bits,
        "sqlite": machine.sqlite,
        "schema": schema_number(scene.database) if _can_read(scene) else None,
    }


def _can_read(scene: Scene) -> bool:
    try:
        with scene.reading():
            return True
    except NotKnown:
        return False


def _settings(scene: Scene) -> dict[str, Any]:
    try:
        found = scene.effective()
    except NotKnown as why:
        return {"unknown": str(why)}
    return {name: {"value": _told(name, found), "from": found.origins[name]} for name in Settings.model_fields}


def _told(name: str, found: Effective) -> Any:
    """A choice, a switch or a number; of what is free text, whether it is set; of a list, how long it is."""
    value = getattr(found.settings, name)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, tuple):
        return len(cast("tuple[Any, ...]", value))
    if Settings.model_fields[name].annotation is not str:
        return value
    return _SET if value else _UNSET


def _counts(scene: Scene) -> dict[str, Any]:
    sized = sizes(scene.home) if os.path.isdir(scene.home) else {}
    try:
        with scene.reading() as tx:
            return {"bytes": sized, **_rows(tx)}
    except NotKnown as why:
        return {"bytes": sized, "database": str(why)}


def _rows(tx: Tx) -> dict[str, Any]:
    jobs = [{"kind": row["kind"], "state": row["state"], "n": row["n"]} for row in tx.all("jobs.kinds")]
    return {
        "events": Events(tx).ledger(),
        "turns": (tx.one("turns.count") or {"n": 0})["n"],
        "memories": [{"kind": row["kind"], "n": row["n"]} for row in tx.all("memories.by_kind")],
        "queue": {"dead": Jobs(tx).count().dead, "jobs": jobs},
        "spaces": [{"model": row["model"], "state": row["state"]} for row in tx.all("spaces.all")],
    }


def _log(scene: Scene) -> list[str]:
    """Lines of our own form, in plain; another one may be anything that a library printed."""
    try:
        records = parsed(last_lines(scene.home, _LOG_LINES))
    except NotFound:
        return ["There is no log yet."]
    return [
        " ".join(str(one[name]) for name in _TOLD_OF_THE_LOG if one.get(name))
        for one in records
        if one.get("level") in _LEVELS and str(one.get("logger")).startswith("filrouge")
    ]
