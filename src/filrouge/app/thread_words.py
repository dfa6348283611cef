"""What models said of prompts and threads, as whatever moves threads by rules respects it.

A sure answer is about one prompt and one thread. It holds until a user decides about that prompt; who was not sure, or
did not answer, said nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from filrouge.ports import Tx
from filrouge.store.thread_rows import Decided
from filrouge.store.thread_traces import ThreadDecisions


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """The threads that some prompts belong to, and those that they do not, as models said."""

    belongs: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()


def words_of(decided: Iterable[Decided]) -> Words:
    """What models said in these decisions, oldest first."""
    belongs, apart = set[tuple[str, str]](), set[tuple[str, str]]()
    for one in decided:
        if one.actor == "user":
            belongs = {said for said in belongs if said[0] != one.turn_id}
            apart = {said for said in apart if said[0] != one.turn_id}
        elif one.actor == "model" and one.routing.weighed and not one.routing.borderline:
            asked_of = one.routing.weighed[0].thread_id
            (belongs if one.thread_id == asked_of else apart).add((one.turn_id, asked_of))
    return Words(belongs=frozenset(id_ for _, id_ in belongs), apart=frozenset(id_ for _, id_ in apart))


def words_by_prompt(tx: Tx, user: str, project: str | None) -> Mapping[str, Words]:
    """What models said of the prompts of a project, by prompt."""
    found: dict[str, list[Decided]] = {}
    for one in ThreadDecisions(tx).asked_about(user, project):
        found.setdefault(one.turn_id, []).append(one)
    return {turn_id: words_of(decided) for turn_id, decided in found.items()}
