"""The table of all checks, the code that runs them, and the report of `filrouge doctor --bundle`.

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
from threading import Thread
from typing import Any, Final, NamedTuple, cast

from filrouge._version import __version__
from filrouge.capture.intake import redact_completely
from filrouge.capture.repository import Events
from filrouge.cli import output
from filrouge.cli.doctor import agents, daemons, homes, models
from filrouge.cli.doctor.scene import MEND, Check, CheckResult, Daemon, Finding, NotKnown, Scene, fail, note, warn
from filrouge.core.clock import to_text
from filrouge.core.errors import BadInput, FilrougeError, NotFound
from filrouge.core.protocols import Tx
from filrouge.core.settings import Effective, Settings
from filrouge.core.text import in_json, visible
from filrouge.daemon.process import describe_exception, last_lines, parsed
from filrouge.runtime.disk import sizes
from filrouge.runtime.jobs import Jobs
from filrouge.runtime.soundness import schema_number

#: Seconds for all checks together. With the start of Python, the command then takes less than five seconds.
SECONDS: Final = 3.0
#: The same with `--deep`, where the user is ready to wait.
DEEP_SECONDS: Final = 3600.0


class Mended(NamedTuple):
    """The findings before and after a repair, and what was done."""

    before: Finding
    did: tuple[str, ...]
    after: Finding


def examine(scene: Scene, checks: Sequence[Check], *, seconds: float | None = None) -> list[Finding]:
    """Run the checks in parallel. Returns their findings in the same order."""
    limit = seconds if seconds is not None else DEEP_SECONDS if scene.deep else SECONDS
    until = time.monotonic() + limit
    return [
        Finding(check.name, *_awaited(answer, until, limit))
        for check, answer in [(check, _begun(check, scene)) for check in checks]
    ]


def mend(scene: Scene, checks: Sequence[Check], found: Sequence[Finding]) -> list[Mended]:
    """Repair what is safe to repair for each finding that is not ok, and check it again."""
    done: list[tuple[Check, Finding, tuple[str, ...]]] = []
    for check, finding in zip(checks, found, strict=True):
        if check.mend is not None and finding.state != "ok":
            done += [(check, finding, tuple(deeds))] if (deeds := _mended(check, scene)) else []
    fresh = _looking_again(scene)
    after = examine(fresh, [check for check, _, _ in done])
    return [Mended(before, did, now) for (_, before, did), now in zip(done, after, strict=True)]


def _looking_again(scene: Scene) -> Scene:
    return Scene(
        home=scene.home,
        environ=scene.environ,
        cwd=scene.cwd,
        daemon=Daemon(scene.home),
        now=scene.now,
        machine=scene.machine,
        deep=scene.deep,
    )


def _mended(check: Check, scene: Scene) -> list[str]:
    assert check.mend is not None
    try:
        return check.mend(scene)
    except FilrougeError as error:
        return [f"could not be mended: {error.message} {error.remedy}".rstrip()]
    except OSError as error:
        return [f"could not be mended: {error.strerror}: {error.filename}"]


def _begun(check: Check, scene: Scene) -> Future[CheckResult]:
    answer: Future[CheckResult] = Future()
    Thread(target=lambda: answer.set_result(_safely(check, scene)), name=f"check {check.name}", daemon=True).start()
    return answer


def _awaited(answer: Future[CheckResult], until: float, limit: float) -> CheckResult:
    try:
        return answer.result(max(0.0, until - time.monotonic()))
    except TimeoutError:
        return warn(f"it was not known within {limit:g} seconds", "Run `filrouge doctor --deep`, which waits for it.")


def _safely(check: Check, scene: Scene) -> CheckResult:
    try:
        return check.look(scene)
    except NotKnown as why:
        return note(str(why))
    except FilrougeError as error:
        return fail(error.message, error.remedy)
    except OSError as error:
        return fail(f"{error.strerror}: {error.filename}", "Check the path and its permissions.")
    except Exception as error:  # a damaged row can cause any error; its content must not be shown
        return fail(f"it ended with {describe_exception(error)}", MEND)


# All checks, in the order of the findings.

CHECKS: Final[tuple[Check, ...]] = (
    *homes.CHECKS_OF_MACHINE,
    *homes.CHECKS_OF_HOMES,
    *daemons.CHECKS_OF_CONFIGURATION,
    *homes.CHECKS_OF_STORE,
    *homes.CHECKS_OF_KEEPING,
    *daemons.CHECKS_OF_DAEMONS,
    *daemons.CHECKS_OF_ACCESS,
    *daemons.CHECKS_OF_QUEUE,
    *models.CHECKS_OF_EMBEDDING,
    *models.CHECKS_OF_MODELS,
    *models.CHECKS_OF_VAULTS,
    *agents.CHECKS_OF_AGENTS,
    *agents.CHECKS_OF_POLICY,
    *agents.CHECKS_OF_STALE,
)
DEEP_CHECKS: Final[tuple[Check, ...]] = homes.CHECKS_OF_DEEP


# The report of `filrouge doctor --bundle`.

_LOG_LINES: Final = 500
_SET: Final = "(set)"
_UNSET: Final = "(not set)"
_SECRET_NAMES: Final = re.compile(r"(?i)key|token|secret|passw|credential|auth")
_ENVIRONMENT_NAMES: Final = re.compile(r"(?i)^(filrouge_.*|.*_api_key|ollama_url|claude_config_dir|codex_home)$")
_SHORTEST_SECRET: Final = 6
_LOG_FIELDS: Final = ("time", "level", "logger", "message", "error")
_LEVELS: Final = frozenset("DEBUG INFO WARNING ERROR CRITICAL".split())
_LEFT_OUT: Final = "[left out]"
_README: Final = """What `filrouge doctor --bundle` wrote: versions, findings, settings, counts, and the end of the log.
It holds no memory, no prompt and no key; settings that are free text are only said to be set. Look before you share it.
"""


def write_bundle(path: str, scene: Scene, findings: Iterable[Finding]) -> None:
    """Write the report to a new ZIP file.

    Raises:
        BadInput: the file exists already, or its path is wrong.
        CannotWrite: the disk is full, read-only or failing.
    """
    clean = _Cleaner(scene)
    documents = {
        "filrouge-report/README.txt": _README,
        "filrouge-report/versions.json": _versions(scene),
        "filrouge-report/findings.json": [finding.to_json() for finding in findings],
        "filrouge-report/settings.json": _settings(scene),
        "filrouge-report/environment.json": {
            name: _SET for name in sorted(scene.environ) if _ENVIRONMENT_NAMES.match(name)
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
    """Replaces secrets from the environment, and paths of this machine, in a text."""

    def __init__(self, scene: Scene) -> None:
        secrets = {
            value.strip()
            for name, value in scene.environ.items()
            if _SECRET_NAMES.search(name) and len(value.strip()) >= _SHORTEST_SECRET
        }
        self._cut = [(secret, _LEFT_OUT) for secret in sorted(secrets, key=len, reverse=True)]
        places = [(scene.home, "$FILROUGE_HOME"), (scene.user_home, "~"), (scene.cwd, "$PWD")]
        self._cut += sorted(places, key=lambda place: len(place[0]), reverse=True)  # longest first: they may be nested

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
    return {
        name: {"value": _shareable_value(name, found), "from": found.origins[name]} for name in Settings.model_fields
    }


def _shareable_value(name: str, found: Effective) -> Any:
    """Return a setting for the report: choices, switches and numbers as they are, the length of a list.

    Of free text it returns only whether it is set.
    """
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
    """Return the log lines in Filrouge's own format. Other lines may contain anything that a library printed."""
    try:
        records = parsed(last_lines(scene.home, _LOG_LINES))
    except NotFound:
        return ["There is no log yet."]
    return [
        " ".join(str(one[name]) for name in _LOG_FIELDS if one.get(name))
        for one in records
        if one.get("level") in _LEVELS and str(one.get("logger")).startswith("filrouge")
    ]
