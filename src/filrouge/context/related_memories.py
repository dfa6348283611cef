"""Companions: what was said in one breath with a memory, and rules that go with the work a prompt asks for.

Both are memories that the words and the meaning of a prompt do not find. "I am Ana, and I like short answers" is one
thing to a person and two memories: whoever is asked for the one is told the other, on the same line. A rule about
installing packages belongs before a prompt that installs one (`extraction.work`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from filrouge.context.request import Moment
from filrouge.context.turn_candidates import proved_by
from filrouge.core.protocols import Tx
from filrouge.extraction.work import Work, of_prompt, of_rule
from filrouge.memories.models import LEAST_TO_INJECT, SUMS, Memory
from filrouge.runtime.services import Parts

#: A turn of at most so many characters is one breath; a longer one holds what has nothing to do with each other.
_BREATH: Final = 200
_MOST: Final = 2


def in_one_breath(parts: Parts, tx: Tx, moment: Moment, memories: Sequence[Memory]) -> dict[str, list[Memory]]:
    """By the id of a memory: those that the same short turn proves.

    Args:
        memories: with their evidence, the most relevant first; one that is told with another has no companions itself.
    """
    turns = {one.turn_id for memory in memories for one in memory.evidence}
    short = {turn.id for turn in parts.turns(tx).get(sorted(turns)) if len(turn.text) <= _BREATH}
    proved = proved_by(tx, sorted(short))
    others = parts.memories(tx).some(sorted({id_ for states in proved.values() for id_ in states}))
    found: dict[str, list[Memory]] = {}
    told: set[str] = set()
    for memory in memories:
        if memory.id in told:
            continue
        beside = dict.fromkeys(id_ for one in memory.evidence for id_ in proved.get(one.turn_id, {}))
        known = [others[id_] for id_ in beside if id_ in others and id_ != memory.id and id_ not in told]
        found[memory.id] = [one for one in known if _may_be_told(one, moment)][:_MOST]
        told |= {memory.id, *(one.id for one in found[memory.id])}
    return found


def for_the_work(parts: Parts, tx: Tx, moment: Moment) -> Mapping[str, tuple[Memory, frozenset[Work]]]:
    """By its id: each rule about a kind of work that the prompt asks for, with the kinds."""
    asked = of_prompt(moment.prompt)
    if not asked:
        return {}
    rules = parts.memories(tx).rules(project=moment.project, user=moment.user, agent=moment.agent)
    meant = {rule.id: (rule, of_rule(rule.text) & asked) for rule in rules}
    return {id_: (rule, kinds) for id_, (rule, kinds) in meant.items() if kinds}


def _may_be_told(memory: Memory, moment: Moment) -> bool:
    scope = memory.scope
    here = scope.user == moment.user and (memory.scope_name == "user" or scope.project == moment.project)
    allowed = moment.agent is None or (scope.agent or scope.channel) == moment.agent
    sure = memory.state == "live" and memory.confidence >= LEAST_TO_INJECT
    return here and allowed and sure and memory.kind != "rule" and memory.kind not in SUMS
