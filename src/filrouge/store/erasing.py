"""Erasing: memories and turns leave every table, and the journal keeps its chain without their words.

A memory goes with the turns that it rests on, because they hold its words, and a turn with the payload of the event
that brought it. Nothing is erased that nobody named, except for those: where another memory rests on such a turn alone,
the whole is refused and that memory named. One that has other evidence keeps its text and loses this evidence. What was
said again in a turn that no erased memory cites is another turn, and stays. A thread goes with the last of its turns.
What an analysed session came to goes with any of its turns: its summaries, where its work stood, the concepts that no
other session spoke of, and what was kept of tool output.

The rows are overwritten in the file (`secure_delete`) once the write-ahead log is empty; that is the caller's to do.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from filrouge.errors import BadInput, Busy, NotFound
from filrouge.model.turn import Turn
from filrouge.ports import Analyser, Tx
from filrouge.store.analyses import Analyses, output_hash
from filrouge.store.jobs import Jobs
from filrouge.store.journal import Journal
from filrouge.store.memories import Memories
from filrouge.store.need_vectors import NEEDS
from filrouge.store.syntheses import Syntheses
from filrouge.store.thread_erasing import ThreadErasing
from filrouge.store.turns import Turns
from filrouge.store.words import Words


@dataclass(frozen=True, kw_only=True, slots=True)
class Doomed:
    """What is to go: ids of memories, of turns, and of the events whose payloads hold the turns."""

    memories: tuple[str, ...]
    turns: tuple[str, ...]
    events: tuple[str, ...]


class Erasing:
    """Takes rows out of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._memories = Memories(tx, analyser)
        self._turns = Turns(tx, analyser)
        self._words = {"memory": Words(tx, analyser, "memory"), "turn": Words(tx, analyser, "turn")}
        self._analyses = Analyses(tx, analyser)
        self._journal = Journal(tx)

    def reach(self, ids: Collection[str]) -> Doomed:
        """What goes with the memories and turns of these ids.

        Raises:
            BadInput: a memory that is not among them rests on what would go, and on nothing else.
            Busy: a transcript that may hold one of the turns is about to be read, and would bring it back.
            NotFound: there is no memory and no turn of one of these ids.
        """
        given = tuple(dict.fromkeys(ids))
        memories = tuple(self._memories.some(given))
        named = tuple(turn.id for turn in self._turns.get(given))
        for unknown in [id_ for id_ in given if id_ not in memories and id_ not in named]:
            raise NotFound(f"There is no memory and no turn {unknown!r}.")
        cited = [row["turn_id"] for row in self._tx.all("evidence.of", {"ids": json.dumps(memories)})]
        turns = self._turns.get(tuple(dict.fromkeys([*named, *cited])))
        ids_of_turns = tuple(turn.id for turn in turns)
        self._refuse_orphans(memories, ids_of_turns)
        sessions = sorted({(turn.host, turn.scope.session) for turn in turns})
        if self._tx.one("jobs.reading", {"sessions": json.dumps(sessions)}):
            raise Busy(
                "A transcript that may hold these words is about to be read.", remedy="Try again in a few seconds."
            )
        derived = self._analyses.sums(self._analyses.about(memories, ids_of_turns))
        memories = tuple(dict.fromkeys([*memories, *derived]))
        events = tuple(dict.fromkeys(turn.event_id for turn in turns if turn.event_id))
        return Doomed(memories=memories, turns=ids_of_turns, events=events)

    def carry_out(self, doomed: Doomed, *, at: datetime, actor: str) -> int:
        """Take them out; how many entries of the journal lost their payload. Each id leaves a record without words."""
        memories, turns, events = (json.dumps(ids) for ids in (doomed.memories, doomed.turns, doomed.events))
        self._tx.run("answered.empty")
        going = self._turns.get(doomed.turns)
        found = [*self._memories.some(doomed.memories).values(), *going]
        sessions = self._analyses.about(doomed.memories, doomed.turns)
        texts = json.dumps([one.text for one in found])
        quoting = self._tx.all("journal.quoting", {"memories": memories, "turns": turns, "texts": texts})
        self._tx.run("journal.redact", {"seqs": json.dumps([row["seq"] for row in quoting])})
        repeated = [row["id"] for row in self._tx.all("recalls.quoting", {"texts": texts})]
        self._tx.run("recalls.erase", {"ids": json.dumps(repeated)})
        self._tx.run("jobs.erase", {"dedupe_keys": json.dumps(jobs_about(doomed, going))})
        self._analyses.forget(sessions, doomed.memories)
        Syntheses(self._tx).forget(doomed.turns)
        self._tx.run("informed.erase", {"hashes": json.dumps([output_hash(turn.text) for turn in going])})
        self._words["memory"].remove(doomed.memories)
        self._words["turn"].remove(doomed.turns)
        self._tx.run("vectors.erase", {"owner_kind": "memory", "ids": memories})
        self._tx.run("vectors.erase", {"owner_kind": "turn", "ids": turns})
        if self._tx.run("need_vectors.erase", {"memories": memories, "turns": turns}):
            Jobs(self._tx).enqueue(NEEDS, {"after": 0}, dedupe=NEEDS, at=at)
        self._tx.run("evidence.erase", {"memories": memories, "turns": turns})
        self._tx.run("doubts.erase", {"ids": memories})
        self._tx.run("reviews.erase", {"ids": memories})
        self._tx.run("reviews.unlink", {"ids": memories})
        self._tx.run("memories.unlink", {"ids": memories})
        self._tx.run("memories.unfollow", {"ids": memories})
        self._tx.run("memories.erase", {"ids": memories})
        ThreadErasing(self._tx).carry_out(doomed.turns)
        self._tx.run("unread.erase", {"turns": turns})
        self._tx.run("turns.erase", {"ids": turns})
        self._tx.run("events.erase", {"ids": events})
        for id_ in (*doomed.memories, *doomed.turns):
            self._journal.append(at=at, actor=actor, action="erase", subject_id=id_, payload={"reason": "asked for"})
        return len(quoting)

    def _refuse_orphans(self, memories: Sequence[str], turns: Sequence[str]) -> None:
        rests_on: dict[str, set[str]] = {}
        for row in self._tx.all("evidence.citing", {"turns": json.dumps(turns)}):
            rests_on.setdefault(row["memory_id"], set()).add(row["turn_id"])
        orphans = [id_ for id_, cited in rests_on.items() if id_ not in memories and cited <= set(turns)]
        if orphans:
            raise BadInput(
                f"Other memories rest on the same words alone: {', '.join(sorted(orphans))}.",
                remedy="Erase them together, or leave all of them.",
            )


def jobs_about(doomed: Doomed, turns: Sequence[Turn]) -> list[str]:
    """The names of the jobs that would read what is gone, or have read it and not yet written what they made of it."""
    of_turns = [f"{kind}:{id_}" for kind in ("analyse", "index_turn", "thread", "reconsider") for id_ in doomed.turns]
    sums = ("digest", "synthesise", "recount")
    of_turns += {f"{kind}:{turn.host}:{turn.scope.session}" for turn in turns for kind in sums}
    of_turns += {f"synthesise:{turn.host}:{turn.scope.session}:again" for turn in turns}
    return [
        NEEDS,
        *of_turns,
        *(f"index_memory:{id_}" for id_ in doomed.memories),
        *(f"read_turns:{e}" for e in doomed.events),
    ]
