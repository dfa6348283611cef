"""What a daemon refused, as the error that it was there.

A problem document (RFC 9457) names its class in `type`. A name that this version does not know, of a daemon that is
newer, becomes the root of the tree with the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from filrouge.core import errors
from filrouge.core.errors import FilrougeError, Unreadable


def error_of(body: Any) -> FilrougeError:
    """The error that a problem document stands for."""
    problem: Mapping[str, Any] = cast("Mapping[str, Any]", body) if isinstance(body, dict) else {}
    name = str(problem.get("type", "")).rpartition(":")[2]
    return named_error(name, str(problem.get("detail") or "The daemon could not answer."), problem.get("remedy"))


def named_error(name: str, message: str, remedy: str | None) -> FilrougeError:
    """The error of that name."""
    kind = getattr(errors, name, FilrougeError) if name in errors.__all__ else FilrougeError
    if kind is Unreadable:  # what the model said stays where it was said
        return _unreadable(message, remedy)
    return kind(message, remedy=remedy)


def _unreadable(message: str, remedy: str | None) -> Unreadable:
    error = Unreadable(message, text="", prompt="", operation="")
    error.remedy = error.remedy if remedy is None else remedy
    return error
