"""Reading in what was said and kept elsewhere: find it, show how far it is, hand it to the daemon page by page."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from rich.progress import BarColumn, TaskProgressColumn, TimeRemainingColumn

from filrouge.cli import output
from filrouge.cli.import_pages import Page, Passed, Wanted, pages_of_history, pages_of_items, pages_of_packed
from filrouge.cli.progress import bars
from filrouge.cli.talk import ask
from filrouge.errors import BadInput
from filrouge.hosts.histories import AGENTS, directory, histories
from filrouge.hosts.packed import is_packed, plain
from filrouge.hosts.project import names
from filrouge.transfer.importers import FORMATS

_LONGEST_SECONDS: Final = 600.0
_OUTCOMES: Final = ("added", "vouched", "present", "forgotten", "off")


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is to be read: how much, and its pages.

    Attributes:
        size: bytes that are still to be read.
        total: the same in what pages count their progress in; None where nobody counted.
        pages: given where what is wrong is noted.
    """

    source: str
    files: int
    size: int
    total: int | None
    pages: Callable[[Passed], Iterable[Page]]


@dataclass(kw_only=True)
class Tally:
    """What an import came to so far."""

    turns: Counter[str] = field(default_factory=Counter[str])
    memories: Counter[str] = field(default_factory=Counter[str])
    read: int = 0
    done: int = 0

    def take(self, page: Page, answer: Mapping[str, Mapping[str, int]] | None) -> None:
        """Count a page, with what became of it."""
        self.read += len(page.turns) + len(page.memories)
        self.done += page.done
        if answer is None:
            self.turns["found"] += len(page.turns)
            self.memories["found"] += len(page.memories)
        else:
            self.turns.update(answer["turns"])
            self.memories.update(answer["memories"])


def history_of(agent: str, root: str | None, environ: Mapping[str, str], wanted: Wanted, *, anew: bool) -> Found:
    """The history of an agent, from where each of its files was read last.

    Args:
        anew: from the beginning, whatever was read.

    Raises:
        BadInput: there is none.
    """
    place = os.path.abspath(root) if root else directory(agent, environ)
    found = histories(agent, place)
    if not found:
        variable = AGENTS[agent][0]
        raise BadInput(
            f"There is no history of {agent} in {place}.",
            remedy=f"Say where it is with --from, or set {variable} as you do for {agent}.",
        )
    offsets: Mapping[str, int] = {}
    if not anew:
        offsets = ask("GET", "/api/memory/imports", query={"source": agent})["offsets"]
    late = [one for one in found if wanted.since is None or one.changed >= wanted.since.timestamp()]
    starts = {one.path: offsets.get(one.path, 0) for one in late}
    total = sum(max(0, one.size - starts[one.path]) for one in late)

    def pages(passed: Passed) -> Iterator[Page]:
        for one in late:
            if is_packed(one.path):
                if starts[one.path] != one.size:
                    yield from pages_of_packed(agent, one, offsets.get(plain(one.path), 0), wanted, passed)
            else:
                yield from pages_of_history(agent, one, starts[one.path], wanted, passed)

    return Found(source=agent, files=len(late), size=total, total=total, pages=pages)


def export_of(
    name: str, path: str | None, environ: Mapping[str, str], wanted: Wanted, assigned: tuple[str, ...]
) -> Found:
    """What another program exported or keeps, in `path` or where it usually is.

    Args:
        assigned: the names of the project of what tells none.

    Raises:
        BadInput: nothing is there.
    """
    form = FORMATS[name]
    home = environ.get("HOME") or os.path.expanduser("~")
    place = path or form.usual.replace("~", home, 1)
    if not place:
        raise BadInput(f"Name {form.what}.", remedy=f"`filrouge import {name} FILE`.")
    if not os.path.exists(place):
        raise BadInput(f"{place} does not exist.", remedy=f"Name {form.what}: `filrouge import {name} FILE`.")
    if name == "ai-smartness" and not assigned:
        assigned = names(os.path.dirname(os.path.abspath(place)), environ)
    files = list(_files(place))
    return Found(
        source=name,
        files=len(files),
        size=sum(map(os.path.getsize, files)),
        total=sum(1 for _ in form.read(place)) if _is_watched() else None,
        pages=lambda passed: pages_of_items(form.read(place), wanted, assigned, passed),
    )


def _files(place: str) -> Iterator[str]:
    if os.path.isfile(place):
        yield place
    for folder, _, found in os.walk(place):
        yield from (path for name in found if os.path.isfile(path := os.path.join(folder, name)))


def read_in(found: Found, *, trusted: bool, dry_run: bool) -> dict[str, Any]:
    """Hand everything over, behind a bar where a person reads; what it came to.

    Raises:
        FilrougeError: the daemon cannot be reached, or refuses; what it took it has, and the next run goes on.
    """
    passed, tally, began = Passed(), Tally(), time.monotonic()
    with _bar(found.total) as show:
        for page in found.pages(passed):
            answer = None
            if not dry_run and (page.turns or page.memories or page.mark):
                body = {"source": found.source, "trusted": trusted, **page.to_json()}
                answer = ask("POST", "/api/memory/imports", body, timeout=_LONGEST_SECONDS)
            tally.take(page, answer)
            show(tally, time.monotonic() - began)
    seconds = time.monotonic() - began
    outcomes = ("found",) if dry_run else _OUTCOMES
    return {
        "source": found.source,
        "dry_run": dry_run,
        "trusted": trusted,
        "files": found.files,
        "bytes": found.size,
        "turns": {name: tally.turns[name] for name in outcomes},
        "memories": {name: tally.memories[name] for name in outcomes},
        "passed_over": {name: passed.counts[name] for name in ("off", "older", "elsewhere", "cut", "bad")},
        "problems": [{"place": one.place, "problem": one.problem} for one in passed.problems],
        "seconds": round(seconds, 3),
        "per_second": round(tally.read / seconds, 1) if seconds else 0.0,
    }


def tell(done: Mapping[str, Any]) -> None:
    """Say in a few lines what an import came to, or would read."""
    rows = {name: done[name] for name in ("turns", "memories") if any(done[name].values())} or {"turns": done["turns"]}
    size = f"{done['files']} files, {done['bytes'] / 1e6:.1f} MB"
    if done["dry_run"]:
        counts = ", ".join(f"{counted['found']} {name}" for name, counted in rows.items())
        output.say(f"{done['source']}: {size}, {counts}. Nothing was read in.")
    else:
        told = {"added": "added", "vouched": "vouched for now", "present": "here already"}
        told |= {"forgotten": "forgotten here", "off": "switched off"}
        for name, counted in rows.items():
            shown = [one for one in told if counted[one] or one in ("added", "present")]
            output.say(f"{name}: " + ", ".join(f"{counted[one]} {told[one]}" for one in shown))
        output.say(f"{done['source']}: {size} in {done['seconds']:.1f} s ({done['per_second']:.0f} a second).")
    over = {"off": "switched off by .filrouge.toml", "older": "older than --since", "elsewhere": "of other projects"}
    over |= {"cut": "longer than a million characters and cut", "bad": "not readable"}
    for name, word in over.items():
        if done["passed_over"][name]:
            output.say(f"{done['passed_over'][name]} {word}.")
    for one in done["problems"]:
        output.say(f"{one['place']}: {one['problem']}")
    added = sum(counted.get("added", 0) for counted in rows.values())
    if added and not done["trusted"]:
        output.say("Nothing of it counts as your own word: --trust vouches for it. See the guide on importing.")


@contextmanager
def _bar(total: int | None) -> Generator[Callable[[Tally, float], None]]:
    """What shows how far it is: a bar with the rate and the time left, where a person reads."""
    if not _is_watched():
        yield lambda _tally, _seconds: None
        return
    columns = (
        "{task.fields[read]} read, {task.fields[rate]:.0f} a second",
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with bars(*columns) as bar:
        task = bar.add_task("", total=total or None, read=0, rate=0.0)

        def show(tally: Tally, seconds: float) -> None:
            bar.update(task, completed=tally.done, read=tally.read, rate=tally.read / seconds if seconds else 0.0)

        yield show


def _is_watched() -> bool:
    """True where a person looks on."""
    return output.is_watched() and "--json" not in sys.argv
