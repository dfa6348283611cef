"""Rules by hand: list the standing instructions with their source, add, edit, switch off and on, remove (RULE-1).

So many of each scope stand, the pinned first and then the newest. One more is kept all the same: the oldest that is not
pinned then waits, in no block, and is listed as waiting until the user has sorted the rules out. Only the user's own
words become a rule, whoever reads them (RULE-3).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from filrouge.app.by_hand import bin_memory, changing, supersede, the_users
from filrouge.app.memory_report import listing
from filrouge.app.parts import Parts
from filrouge.app.report import project_names
from filrouge.app.spaces import keep_vectors
from filrouge.app.understanding import reflect, vectors_at_once
from filrouge.clock import to_text
from filrouge.errors import BadInput
from filrouge.extraction.units import without_secret
from filrouge.model.filters import Filters
from filrouge.model.memory import Memory, Span, Statement
from filrouge.model.scope import Scope, ScopeName
from filrouge.model.turn import TRUST_TYPED
from filrouge.ports import Tx
from filrouge.store.by_hand import ByHand
from filrouge.store.events import Projects
from filrouge.store.memories import Action

#: Characters: a rule is one instruction.
LONGEST = 500


def listed(
    parts: Parts, tx: Tx, names: Sequence[str], *, history: bool = False, filters: Filters | None = None
) -> list[dict[str, Any]]:
    """The rules, newest first, each with its source and how it stands.

    Args:
        names: the project's; none means all projects.
        history: also what was superseded or binned.
    """
    found = listing(parts, tx, names, rules=True, history=history, filters=filters)
    standing = parts.memories(tx).rules_standing()
    turns = {turn.id: turn for turn in parts.turns(tx).get([c["turn_id"] for one in found for c in one["evidence"]])}
    return [
        one
        | {
            "standing": _standing(one, standing),
            "source": [
                {
                    "turn_id": turn.id,
                    "at": to_text(turn.at),
                    "by": "you" if turn.trust >= TRUST_TYPED or not turn.host else turn.scope.channel,
                    "channel": turn.scope.channel,
                    "session_id": turn.scope.session,
                    "text": turn.text[cited["start"] : cited["end"]],
                }
                for cited in one["evidence"]
                if (turn := turns.get(cited["turn_id"]))
            ],
        }
        for one in found
    ]


def one_rule(parts: Parts, tx: Tx, rule_id: str) -> dict[str, Any]:
    """One rule as it is listed.

    Raises:
        NotFound: naming the id.
        BadInput: it is no rule.
    """
    memory = _rule(parts, tx, rule_id)
    place = [memory.scope.project] if memory.scope.project else []
    return next(one for one in listed(parts, tx, place, history=True) if one["id"] == rule_id)


def add(parts: Parts, text: str, *, names: Sequence[str], scope: ScopeName) -> Action:
    """Add a rule in the user's own words.

    Raises:
        BadInput: there is no text or too much of it, it holds a secret, a rule of this place says that already, or a
            rule of a project is given outside every project.
    """
    said = _checked(parts, text)
    statement = Statement(kind="rule", text=said, span=Span(start=0, end=0), scope=scope, confidence=1.0)
    meaning = parts.meaning
    known_as = parts.readers.here(lambda tx: project_names(tx, names))
    if scope == "project" and not known_as:
        raise BadInput("This is no project.", remedy="Name one, or give the rule the scope `user`.")
    [vectors] = vectors_at_once(meaning, [said])

    def write(tx: Tx) -> tuple[Action, Collection[str], Collection[str]]:
        origin = the_users(parts)
        project = Projects(tx).resolve(known_as, at=origin.at)
        origin = replace(origin, scope=Scope(project=project, channel="api"))
        for one in parts.memories(tx).within(project=project if scope == "project" else None, user=origin.scope.user):
            if one.kind == "rule" and one.scope_name == scope and one.text.casefold() == said.casefold():
                off = " It is switched off." if one.disabled else ""
                raise BadInput(f"Rule {one.id} says that already.{off}", remedy=f"See `filrouge why {one.id}`.")
        action = parts.memories(tx).add(statement, origin, "added by hand")
        keep_vectors(tx, meaning, "memory", action.memory_id, vectors, origin.at)
        return action, (), ()

    action = changing(parts, write)
    reflect(parts, meaning, [(action, vectors)])
    return action


def edit(parts: Parts, rule_id: str, text: str) -> str:
    """Say a live rule otherwise; the id of the rule that takes its place, pinned or off as it was.

    Raises:
        NotFound: naming the id.
        BadInput: it is no rule, or not live, or there is no text or too much of it.
    """
    parts.readers.here(lambda tx: _rule(parts, tx, rule_id))
    return supersede(parts, rule_id, _checked(parts, text), source="edited").new_id


def switch(parts: Parts, rule_id: str, *, enabled: bool) -> Action:
    """Switch a rule off, so that it is in no block, or on again.

    Raises:
        NotFound: naming the id.
        BadInput: it is no rule, or not live.
    """
    return changing(
        parts,
        lambda tx: (ByHand(tx, parts.analyser).switch(rule_id, the_users(parts), enabled=enabled), (), ()),
    )


def remove(parts: Parts, rule_id: str) -> Action:
    """Put a rule into the bin; it stays restorable.

    Raises:
        NotFound: naming the id.
        BadInput: it is no rule, or not live.
    """
    parts.readers.here(lambda tx: _rule(parts, tx, rule_id))
    return bin_memory(parts, rule_id)


def _standing(rule: dict[str, Any], standing: Collection[str]) -> str:
    if rule["state"] != "live":
        return str(rule["state"])
    if rule["disabled"]:
        return "disabled"
    return "standing" if rule["id"] in standing else "waiting"


def _rule(parts: Parts, tx: Tx, rule_id: str) -> Memory:
    memory = parts.memories(tx).get(rule_id)
    if memory.kind != "rule":
        raise BadInput(f"Memory {rule_id} is no rule.", remedy="See `filrouge rules`.")
    return memory


def _checked(parts: Parts, text: str) -> str:
    said = without_secret(parts.redact(" ".join(text.split())))
    if not said:
        raise BadInput("There is no rule: the text is empty.")
    if len(said) > LONGEST:
        raise BadInput(f"The text has {len(said)} characters; a rule has at most {LONGEST}.")
    return said
