"""Running the checks: all at once, each in a thread, none of them longer than its time; and mending what is safe.

A thread that hangs is left behind: it belongs to nobody and ends with the process.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Final, NamedTuple

from filrouge.cli.commands.doctoring.finding import MEND, Check, Finding, Verdict, fail, note, warn
from filrouge.cli.commands.doctoring.scene import Daemon, NotKnown, Scene
from filrouge.daemon.logs import told
from filrouge.errors import FilrougeError

#: All of them together, so that the command takes no five seconds with the start of Python.
SECONDS: Final = 3.0
#: Who asks for a deep look has time.
DEEP_SECONDS: Final = 3600.0


class Mended(NamedTuple):
    """What was found before and after something was done."""

    before: Finding
    did: tuple[str, ...]
    after: Finding


def examine(scene: Scene, checks: Sequence[Check], *, seconds: float | None = None) -> list[Finding]:
    """What each check finds, in their order."""
    limit = seconds if seconds is not None else DEEP_SECONDS if scene.deep else SECONDS
    until = time.monotonic() + limit
    return [
        Finding(check.name, *_awaited(answer, until, limit))
        for check, answer in [(check, _begun(check, scene)) for check in checks]
    ]


def mend(scene: Scene, checks: Sequence[Check], found: Sequence[Finding]) -> list[Mended]:
    """Do what is safe about what was found, and look again."""
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


def _begun(check: Check, scene: Scene) -> Future[Verdict]:
    answer: Future[Verdict] = Future()
    Thread(target=lambda: answer.set_result(_safely(check, scene)), name=f"check {check.name}", daemon=True).start()
    return answer


def _awaited(answer: Future[Verdict], until: float, limit: float) -> Verdict:
    try:
        return answer.result(max(0.0, until - time.monotonic()))
    except TimeoutError:
        return warn(f"it was not known within {limit:g} seconds", "Run `filrouge doctor --deep`, which waits for it.")


def _safely(check: Check, scene: Scene) -> Verdict:
    try:
        return check.look(scene)
    except NotKnown as why:
        return note(str(why))
    except FilrougeError as error:
        return fail(error.message, error.remedy)
    except OSError as error:
        return fail(f"{error.strerror}: {error.filename}", "Check the path and its permissions.")
    except Exception as error:  # a damaged row can be anything, and its words are nobody's business
        return fail(f"it ended with {told(error)}", MEND)
