"""When one statement takes the place of another without saying so.

A slot is an entity and a kind of value: the port of production, the place of staging, the version of Python in CI,
the command that deploys. Two statements compete for it only when they are about exactly the same entity, because a
false update hides a true memory, while a missed one only leaves an old value beside the new.
"""

from __future__ import annotations

from typing import Final

from filrouge import lazy_re as re
from filrouge.understand.profile import Profile, category
from filrouge.understand.values import Value, ValueKind

#: Kinds where one entity has one value at a time.
_SINGLE: Final[tuple[ValueKind, ...]] = (
    "port",
    "date",
    "time",
    "url",
    "path",
    "host",
    "quantity",
    "command",
    "version",
)
_UNIT: Final = re.compile(r"[a-z%]+$")


def newer_value(mine: Profile, theirs: Profile, *, corrects: bool) -> bool:
    """True when `mine` gives another value for a slot that `theirs` fills."""
    loosely = corrects and not mine.rejects
    if not _same_entity(mine, theirs, corrects=loosely) or not (mine.entity or loosely):
        return False
    if any(_differs(kind, mine, theirs) for kind in _SINGLE):
        return True
    return bool(mine.entity) and _other_choice(mine, theirs, corrects=loosely)


def another_value(mine: Profile, theirs: Profile) -> bool:
    """True when each says one thing of exactly the same entity: "Actually no, RabbitMQ for the queue"."""
    if mine.entity != theirs.entity or not (mine.entity and mine.named and theirs.named) or mine.rejects:
        return False
    new, old = _choices(mine), _choices(theirs)
    return len(new) == len(old) == 1 and new != old and bool(mine.negated) == bool(theirs.negated)


def _choices(seen: Profile) -> frozenset[str]:
    return frozenset(value.text for value in seen.holds if value.kind in {"name", "host", "identifier"})


def picks_what_was_rejected(mine: Profile, theirs: Profile) -> bool:
    """True when `mine` holds what `theirs` rejects, and rejects or leaves out what it holds."""
    back = mine.held & theirs.rejects
    away = theirs.held & mine.rejects
    if not (back or away) or mine.entity != theirs.entity:
        return False
    if back and away:
        return True
    rival = any(a and a == b for a in _categories(mine.holds) for b in _categories(theirs.holds))
    return (bool(back) and rival) or (bool(away) and rival)


def _same_entity(mine: Profile, theirs: Profile, *, corrects: bool) -> bool:
    if mine.entity == theirs.entity:
        return (mine.named and theirs.named) or corrects
    if not corrects:
        return False
    if not mine.entity:
        return True
    return bool(theirs.entity) and (mine.entity <= theirs.entity or theirs.entity <= mine.entity)


def _differs(kind: ValueKind, mine: Profile, theirs: Profile) -> bool:
    new, old = mine.values(kind), theirs.values(kind)
    if not new or not old or set(new) & set(old):
        return False
    if kind == "quantity":
        return _units(new) == _units(old)
    if kind == "command":
        return mine.actions == theirs.actions
    if kind in {"path", "host", "url"}:
        return mine.placed == theirs.placed
    if kind == "version":
        ours, known = _named_values(mine), _named_values(theirs)
        return bool(ours & known) or (mine.named and theirs.named and not (ours and known))
    return True


def _other_choice(mine: Profile, theirs: Profile, *, corrects: bool) -> bool:
    """Another tool of the same category, or another name for the same place."""
    new = [value for value in mine.holds if value.kind in {"name", "host", "identifier"}]
    old = [value for value in theirs.holds if value.kind in {"name", "host", "identifier"}]
    if not new or not old or {value.text for value in new} & {value.text for value in old}:
        return False
    ours, known = _categories(new[:1]), _categories(old[:1])
    if ours and known:
        return bool(ours & known) and (mine.placed == theirs.placed or corrects)
    if ours or known:
        return False
    return (mine.placed and theirs.placed) or (corrects and mine.entity == theirs.entity)


def _categories(found: tuple[Value, ...] | list[Value]) -> frozenset[str]:
    return frozenset(name for value in found if (name := category(value)))


def _named_values(seen: Profile) -> frozenset[str]:
    return frozenset(value.text for value in seen.holds if value.kind == "name")


def _units(found: tuple[str, ...]) -> set[str]:
    return {match.group().rstrip("s") if (match := _UNIT.search(text)) else "" for text in found}
