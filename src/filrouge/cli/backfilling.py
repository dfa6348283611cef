"""What was said to an agent before Filrouge was there: offered once, read in with leave."""

from __future__ import annotations

import os
from collections.abc import Iterable

from filrouge.cli import output
from filrouge.cli.import_pages import Wanted
from filrouge.cli.importing import history_of, read_in, tell
from filrouge.hosts.histories import AGENTS, directory, histories


def backfill(names: Iterable[str], *, asked: bool, wanted: bool, quiet: bool, anew: bool) -> list[str]:
    """Read in the history of these agents where there is one.

    Args:
        asked: ask for each; without, it is only said how to.
        wanted: the user said so already.
        quiet: print nothing but what is asked.
        anew: from the beginning, also what the memory before read in already.

    Returns:
        The agents whose history waits.
    """
    waiting = list[str]()
    for name in (name for name in names if name in AGENTS):
        found = histories(name, directory(name, os.environ))
        if not found:
            continue
        files = f"{len(found)} file{'s' if len(found) > 1 else ''}"
        said = f"{files}, {sum(one.size for one in found) / 1e6:,.1f} MB"
        if wanted or (asked and output.confirm(f"Read in what {name} kept of before ({said})?", default=False)):
            done = read_in(history_of(name, None, os.environ, Wanted(), anew=anew), trusted=False, dry_run=False)
            if not quiet:
                tell(done)
            continue
        waiting.append(name)
        if not quiet:
            output.say(f"{name} has a history of its own ({said}): `filrouge import {name}` reads it in.")
    return waiting
