"""Weighing tool output: what of it is worth reading, judged once.

The same output comes back with every run of the same command, and a model's judgement costs money. So judgements are
kept by a digest of the text, and erased with the turns that they were made of. In the daemon only, never in a hook.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from filrouge.capture.models import Turn
from filrouge.core.clock import to_text
from filrouge.core.protocols import Tx
from filrouge.extraction.repository import output_hash
from filrouge.extraction.tool_output import Informed, informed
from filrouge.runtime.services import Parts

Judge = Callable[[str], Informed]
#: Whose output is weighed; of the others the first line says which file or page it was.
_WEIGHED: Final = frozenset({"task", "command"})
_FIRST_LINE: Final = 200
_MOST_KEPT: Final = 2000


def worth_reading(parts: Parts, turns: Sequence[Turn], judge: Judge = informed) -> list[Turn]:
    """The turns with tool output cut to what it tells; output that tells nothing is left out."""
    weighed = _weigh(parts, [turn for turn in turns if turn.role == "tool" and turn.source in _WEIGHED], judge)
    found: list[Turn] = []
    for turn in turns:
        if turn.role != "tool":
            found.append(turn)
        elif turn.source not in _WEIGHED:
            found.append(replace(turn, text=turn.text.partition("\n")[0][:_FIRST_LINE]))
        elif weighed[turn.id].is_kept:
            found.append(replace(turn, text=weighed[turn.id].summary))
    return found


def _weigh(parts: Parts, turns: Sequence[Turn], judge: Judge) -> dict[str, Informed]:
    """What each of these turns is worth, by its id."""
    hashes = {turn.id: output_hash(turn.text) for turn in turns}
    rows = parts.readers.here(lambda tx: tx.all("informed.some", {"hashes": json.dumps(list(hashes.values()))}))
    known = {
        row["content_hash"]: Informed(score=row["score"], summary=row["summary"], made_by=row["made_by"])
        for row in rows
    }
    fresh = {hashes[turn.id]: turn for turn in turns if hashes[turn.id] not in known}
    made = {digest: judge(turn.text) for digest, turn in fresh.items()}

    def write(tx: Tx) -> None:
        at = to_text(parts.clock.now())
        for digest, one in made.items():
            row = {"content_hash": digest, "score": one.score, "summary": one.summary, "made_by": one.made_by}
            tx.run("informed.add", row | {"at": at, "turn_id": fresh[digest].id})
        tx.run("informed.evict", {"keep": _MOST_KEPT})

    if made:
        parts.writer.run(write)
    return {id_: (known | made)[digest] for id_, digest in hashes.items()}
