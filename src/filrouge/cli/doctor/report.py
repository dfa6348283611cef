"""The order of all checks, the code that runs them, and the report of `filrouge doctor --bundle`.

All checks run at once, each in its own thread, with a common deadline. A thread that hangs is abandoned and ends with
the process.

The report contains no text of a person and no secret. Whole categories are left out instead of searched: of settings
and environment it has only choices, switches and numbers, and otherwise whether a value is set; of the database only
counts; of the log only lines in Filrouge's own format, which contain no conversation text. The rest is redacted too.
"""

from __future__ import annotations

import json
import os
import re
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import Any, Final, NamedTuple, cast, get_args

from msgspec.structs import replace

from filrouge._version import __version__
from filrouge.capture.intake import redact_completely
from filrouge.capture.repository import Events
from filrouge.cli import output
from filrouge.cli.doctor import agents, daemons, homes, models
from filrouge.cli.doctor.scene import (
    REPAIR_REMEDY,
    Check,
    CheckResult,
    Daemon,
    Finding,
    Group,
    NotKnown,
    Scene,
    fail,
    note,
    warn,
)
from filrouge.core.clock import to_text
from filrouge.core.errors import BadInput, FilrougeError, NotFound
from filrouge.core.protocols import Tx
from filrouge.core.settings import Effective, Settings
from filrouge.core.text import in_json, visible
from filrouge.daemon.process import describe_exception, last_lines, parse_lines
from filrouge.runtime.disk import sizes
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.soundness import schema_number

#: Seconds for all checks together. With the start of Python, the command then takes less than five seconds.
SECONDS: Final = 3.0
#: The same with `--deep`, where the user is ready to wait.
DEEP_SECONDS: Final = 3600.0


class Repair(NamedTuple):
    """The findings before and after a repair, and what was done."""

    before: Finding
    did: tuple[str, ...]
    after: Finding


def examine(scene: Scene, checks: Sequence[Check], *, seconds: float | None = None) -> list[Finding]:
    """Run the checks in parallel. Returns their findings in the same order."""
    limit = seconds if seconds is not None else DEEP_SECONDS if scene.deep else SECONDS
    deadline = time.monotonic() + limit
    timed_out = warn(f"no result within {limit:g} seconds", "Run `filrouge doctor --deep`, which waits for it.")

    def start(check: Check) -> Future[CheckResult]:
        answer: Future[CheckResult] = Future()
        Thread(target=lambda: answer.set_result(_result(check, scene)), name=f"check {check.name}", daemon=True).start()
        return answer

    def wait_for(answer: Future[CheckResult]) -> CheckResult:
        try:
            return answer.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return timed_out

    return [Finding(check.name, *wait_for(answer)) for check, answer in [(check, start(check)) for check in checks]]


def _result(check: Check, scene: Scene) -> CheckResult:
    try:
        return check.look(scene)
    except NotKnown as why:
        return note(str(why))
    except FilrougeError as error:
        return fail(error.message, error.remedy)
    except OSError as error:
        return fail(f"{error.strerror}: {error.filename}", "Check the path and its permissions.")
    except Exception as error:  # a damaged row can cause any error; its content must not be shown
        return fail(f"the check failed with {describe_exception(error)}", REPAIR_REMEDY)


def mend(scene: Scene, checks: Sequence[Check], found: Sequence[Finding]) -> list[Repair]:
    """Repair what is safe to repair for each finding that is not ok, and check it again."""
    to_mend = [(check, before) for check, before in zip(checks, found, strict=True) if before.state != "ok"]
    done = [(check, before, actions) for check, before in to_mend if (actions := _run_mend(check, scene))]
    after = examine(replace(scene, daemon=Daemon(scene.home)), [check for check, _, _ in done])
    return [Repair(before, actions, finding) for (_, before, actions), finding in zip(done, after, strict=True)]


def _run_mend(check: Check, scene: Scene) -> tuple[str, ...]:
    try:
        return tuple(check.mend(scene)) if check.mend else ()
    except NotKnown:
        return ()
    except FilrougeError as error:
        return (f"could not be mended: {error.message} {error.remedy}".rstrip(),)
    except OSError as error:
        return (f"could not be mended: {error.strerror}: {error.filename}",)


# All checks, in the order of the findings.

_ALL_CHECKS: Final = (*homes.CHECKS, *daemons.CHECKS, *models.CHECKS, *agents.CHECKS)
CHECKS: Final = tuple(check for group in get_args(Group) for check in _ALL_CHECKS if check.group == group != "deep")
DEEP_CHECKS: Final = tuple(check for check in _ALL_CHECKS if check.group == "deep")


# The report of `filrouge doctor --bundle`.

_LOG_LINES: Final = 500
_SET: Final = "(set)"
_UNSET: Final = "(not set)"
_SECRET_NAMES: Final = re.compile(r"(?i)key|token|secret|passw|credential|auth")
_ENVIRONMENT_NAMES: Final = re.compile(r"(?i)^(filrouge_.*|.*_api_key|ollama_url|claude_config_dir|codex_home)$")
_MIN_SECRET_LENGTH: Final = 6
_LOG_FIELDS: Final = ("time", "level", "logger", "message", "error")
_LEVELS: Final = frozenset("DEBUG INFO WARNING ERROR CRITICAL".split())
_REMOVED: Final = "[left out]"
_README: Final = """What `filrouge doctor --bundle` wrote: versions, findings, settings, counts, and the end of the log.
It holds no memory, no prompt and no key; settings that are free text are only said to be set. Look before you share it.
"""


def write_bundle(path: str, scene: Scene, findings: Iterable[Finding]) -> None:
    """Write the report to a new ZIP file.

    Raises:
        BadInput: the file exists already, or its path is wrong.
        CannotWrite: the disk is full, read-only or failing.
    """
    private, variables = _private_texts(scene), sorted(filter(_ENVIRONMENT_NAMES.match, scene.environ))
    documents = {
        "filrouge-report/README.txt": _README,
        "filrouge-report/versions.json": _versions(scene),
        "filrouge-report/findings.json": [finding.to_json() for finding in findings],
        "filrouge-report/settings.json": _settings(scene),
        "filrouge-report/environment.json": dict.fromkeys(variables, _SET),
        "filrouge-report/counts.json": _counts(scene),
        "filrouge-report/log.txt": "\n".join(_log(scene)),
    }
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise BadInput(f"{path} exists already.", remedy="Choose another name, or remove it.") from error
    except OSError as error:
        raise output.unwritable(path, error) from error
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, document in documents.items():
            content = _clean(document, private)
            is_text = isinstance(content, str)
            text = visible(content) if is_text else in_json(json.dumps(content, ensure_ascii=False, indent=1))
            archive.writestr(name, text)


def _private_texts(scene: Scene) -> list[tuple[str, str]]:
    """Return secrets from the environment, and paths of this machine, each with its replacement."""
    secrets = {scene.variable(name) for name in scene.environ if _SECRET_NAMES.search(name)}
    hidden_secrets = [(secret, _REMOVED) for secret in secrets if len(secret) >= _MIN_SECRET_LENGTH]
    paths = [(scene.home, "$FILROUGE_HOME"), (scene.user_home, "~"), (scene.cwd, "$PWD")]
    shortened_paths = [(path, name) for path, name in paths if len(path) > 1]
    # The longest first, because they may be nested.
    return [
        replacement
        for pairs in (hidden_secrets, shortened_paths)
        for replacement in sorted(pairs, key=lambda pair: len(pair[0]), reverse=True)
    ]


def _clean(value: Any, private: Sequence[tuple[str, str]]) -> Any:
    """Return a text or a document without what is private."""
    if isinstance(value, str):
        for text, replacement in private:
            value = value.replace(text, replacement)
        return redact_completely(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return {_clean(str(key), private): _clean(item, private) for key, item in pairs}
    if isinstance(value, list | tuple):
        return [_clean(item, private) for item in cast("list[Any]", value)]
    return value


def _versions(scene: Scene) -> dict[str, Any]:
    machine, schema = scene.machine, None
    with suppress(NotKnown), scene.reading():
        schema = schema_number(scene.database)
    return {
        "filrouge": __version__,
        "at": to_text(scene.now),
        "python": ".".join(map(str, machine.python)),
        "system": machine.system,
        "bits": machine.bits,
        "sqlite": machine.sqlite,
        "schema": schema,
    }


def _settings(scene: Scene) -> dict[str, Any]:
    try:
        found = scene.effective()
    except NotKnown as why:
        return {"unknown": str(why)}
    return {
        name: {"value": _shareable_value(name, found), "from": found.origins[name]} for name in Settings.model_fields
    }


def _shareable_value(name: str, found: Effective) -> Any:
    """Return a setting for the report: choices, switches and numbers as they are, the length of a list.

    Of free text it returns only whether it is set.
    """
    value = getattr(found.settings, name)
    if Settings.model_fields[name].annotation is str:
        return _SET if value else _UNSET
    return len(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value


def _counts(scene: Scene) -> dict[str, Any]:
    bytes_by_part = sizes(scene.home) if os.path.isdir(scene.home) else {}
    try:
        with scene.reading() as tx:
            return {
                "bytes": bytes_by_part,
                "events": Events(tx).ledger(),
                "turns": (tx.one("turns.count") or {"n": 0})["n"],
                "memories": _columns(tx, "memories.by_kind", "kind", "n"),
                "queue": {"dead": Jobs(tx).count().dead, "jobs": _columns(tx, "jobs.kinds", "kind", "state", "n")},
                "spaces": _columns(tx, "spaces.all", "model", "state"),
            }
    except NotKnown as why:
        return {"bytes": bytes_by_part, "database": str(why)}


def _columns(tx: Tx, query: str, *names: str) -> list[dict[str, Any]]:
    return [{name: row[name] for name in names} for row in tx.all(query)]


def _log(scene: Scene) -> list[str]:
    """Return the log lines in Filrouge's own format. Other lines may contain anything that a library printed."""
    try:
        records = parse_lines(last_lines(scene.home, _LOG_LINES))
    except NotFound:
        return ["There is no log yet."]
    return [
        " ".join(str(record[name]) for name in _LOG_FIELDS if record.get(name))
        for record in records
        if record.get("level") in _LEVELS and str(record.get("logger")).startswith("filrouge")
    ]
