"""Erasing what threads keep of turns that are erased: their place, the decisions about them, and what came of them.

A thread that is left without a turn goes altogether, with whatever names it; of one that keeps others, title, summary
and vector are the caller's to make again (`app.erase`), since they may come from what is gone.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace

from filrouge.ports import Tx
from filrouge.store.thread_traces import ThreadVectors
from filrouge.store.threads import Threads


class ThreadErasing:
    """Takes traces of turns out of the threads of one database."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._threads = Threads(tx)

    def of(self, turn_ids: Collection[str]) -> list[str]:
        """The threads that these turns are in, and those that were merged into them."""
        ids = json.dumps(sorted(set(self._threads.of_turns(turn_ids).values())))
        return [row["id"] for row in self._tx.all("threads.with_merged", {"ids": ids})]

    def carry_out(self, turn_ids: Collection[str]) -> None:
        """Take the turns out; they themselves are erased afterwards."""
        touched, turns = self.of(turn_ids), json.dumps(list(turn_ids))
        self._undrift(turn_ids)
        self._tx.run("thread_decisions.erase", {"turns": turns})
        self._tx.run("threads.displace", {"turns": turns})
        ThreadVectors(self._tx).drop(touched)
        self._end(self.emptied(touched))

    def emptied(self, thread_ids: Collection[str], *, but: Collection[str] = ()) -> list[str]:
        """Those of these threads that no turn is left of, or would be without some."""
        asked = {"ids": json.dumps(list(thread_ids)), "but": json.dumps(list(but))}
        return [row["id"] for row in self._tx.all("threads.emptied", asked)]

    def _end(self, thread_ids: Collection[str]) -> None:
        """Take threads without turns out, and what speaks of them."""
        ids = {"ids": json.dumps(list(thread_ids))}
        self._tx.run("thread_decisions.about_none", ids)
        self._tx.run("thread_decisions.unparent", ids)
        self._tx.run("threads.unbridge", ids)
        self._tx.run("threads.unsum", ids)
        self._tx.run("threads.unparent", ids)
        ThreadVectors(self._tx).drop(thread_ids)
        self._tx.run("threads.erase", ids)

    def _undrift(self, turn_ids: Collection[str]) -> None:
        rows = self._tx.all("threads.drifted", {"turns": json.dumps(list(turn_ids))})
        for thread in self._threads.some([row["id"] for row in rows]):
            kept = tuple(one for one in thread.drifts if one.turn_id not in turn_ids)
            self._threads.update(replace(thread, drifts=kept))
