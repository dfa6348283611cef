"""Where: a filter as a program writes it, a mapping of names to values, read into `Filters` and a project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast, get_args

from filrouge.errors import BadInput
from filrouge.model.filters import TURN, Filters
from filrouge.model.memory import Kind
from filrouge.model.turn import Role
from filrouge.model.when import moment

#: Every field there is; `project` names where to look, the others are those of `Filters`.
FIELDS: Final = (
    "agent", "as_of", "branch", "channel", "kind", "project", "role", "since", "thread", "trust", "until", "user",
)  # fmt: skip
_KINDS: Final = (*get_args(Kind), TURN)
#: Fields whose day counts up to its end.
_TO_THE_END: Final = ("until", "as_of")


def read(where: Mapping[str, Any] | None) -> tuple[Filters, str | None]:
    """The filters that these fields spell, and the project they name; a field that is None does not matter.

    Raises:
        BadInput: a field that does not exist, or a value that it cannot have.
    """
    given = {name: value for name, value in (where or {}).items() if value is not None}
    unknown = sorted(set(given) - set(FIELDS))
    if unknown:
        raise BadInput(f"There is no filter {unknown[0]!r}.", remedy=f"There are: {', '.join(FIELDS)}.")
    role = _text(given, "role")
    if role is not None and role not in get_args(Role):
        raise BadInput(f"There is no role {role!r}.", remedy=f"There are: {', '.join(get_args(Role))}.")
    filters = Filters(
        user=_text(given, "user"),
        agent=_text(given, "agent"),
        channel=_text(given, "channel"),
        kinds=_kinds(given.get("kind", ())),
        since=_moment(given, "since"),
        until=_moment(given, "until"),
        as_of=_moment(given, "as_of"),
        trust=_trust(given.get("trust", 0)),
        role=cast("Role | None", role),
        thread=_text(given, "thread"),
        branch=_text(given, "branch"),
    )
    return filters, _text(given, "project")


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not (isinstance(value, str) and value):
        raise BadInput(f"The filter {name!r} needs a text, not {value!r}.", remedy="Leave it out to look everywhere.")
    return value


def _kinds(value: object) -> tuple[str, ...]:
    kinds = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else cast("Iterable[object]", value)
    named = tuple(str(kind) for kind in kinds)
    unknown = next((kind for kind in named if kind not in _KINDS), None)
    if unknown is not None:
        raise BadInput(f"There is no kind {unknown!r}.", remedy=f"There are: {', '.join(_KINDS)}.")
    return named


def _trust(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= 3:
        raise BadInput(f"trust is a whole number from 0 to 3, not {value!r}.", remedy="3 is the user's own hand.")
    return value


def _moment(given: Mapping[str, Any], name: str) -> datetime | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    try:
        return moment(value if isinstance(value, str) else "", end=name in _TO_THE_END)
    except ValueError:
        remedy = "Write 2026-05-01 or 2026-05-01T14:30, or give a datetime with its zone."
        raise BadInput(f"{name} is no moment: {value!r}.", remedy=remedy) from None
