"""Ask a model and read what it says (EXT-12).

Models put fences and prose around their JSON, cut it off, or answer something else. The first object in the text that
is one is taken, and of one that was cut off what is whole. Where there is none the question is asked once more, with
what was wrong; after that the answer is given up as `Unreadable`, which keeps its text for a person to see.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from filrouge import lazy_re as re
from filrouge.errors import Unreadable
from filrouge.model.asking import Ask, Completion, Prompt

T = TypeVar("T")
Thought = Generator[Ask, Completion, T]
"""Yields questions, is sent their answers, returns what came of them."""

#: Characters: no answer to any of our questions is longer, and a reader must not choke on one.
LONGEST: Final = 200_000
_QUOTED: Final = 2000
_PLACES: Final = 200
_CUT_PLACES: Final = 3
_DEEPEST: Final = 20
_FENCE: Final = re.compile(r"```[a-zA-Z]*\s*\n(.*?)(?:```|\Z)", re.DOTALL)


def asked(ask: Ask, repair: Prompt, read: Callable[[Mapping[str, Any]], T]) -> Thought[tuple[T, Completion]]:
    """Ask, read, and ask once more where the answer cannot be read.

    Args:
        repair: what to say then.
        read: makes something of an answer; raises `ValueError` saying what is wrong with it.

    Raises:
        Unreadable: neither answer can be read.
    """
    first = yield ask
    try:
        return read(json_object(first.text)), first
    except ValueError as error:
        wrong = str(error)
    said = first.text[:_QUOTED].replace("</answer>", "")
    again = f"{ask.text}\n\n{repair.text}\n({wrong})\n<answer>\n{said}\n</answer>"
    second = yield replace(ask, text=again)
    try:
        return read(json_object(second.text)), second
    except ValueError as error:
        what = f"The answer of {second.provider} {second.model} cannot be read: {error}."
        raise Unreadable(what, text=second.text, prompt=ask.prompt.version, operation=ask.operation) from error


def json_object(text: str) -> dict[str, Any]:
    """The first JSON object in a text, whatever stands around it.

    Raises:
        ValueError: there is none; says why.
    """
    if len(text) > LONGEST:
        raise ValueError("it is far too long")
    plain = text.strip()
    for candidate in [plain, *(fenced.strip() for fenced in _FENCE.findall(plain))]:
        if isinstance(found := _parsed(candidate), dict):
            return cast("dict[str, Any]", found)
    starts = [place.start() for place in re.finditer(r"\{", plain)][:_PLACES]
    for number, start in enumerate(starts):
        found = _first(plain, start) or (_as_far_as_it_goes(plain, start) if number < _CUT_PLACES else None)
        if found:
            return found
    raise ValueError("there is no JSON object in it" if not starts else "its JSON is broken or cut off")


def _parsed(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None


def _first(text: str, start: int) -> dict[str, Any] | None:
    """The object that opens at `start`; an empty one is no answer to anything."""
    try:
        found, _ = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) and found else None


def _as_far_as_it_goes(text: str, start: int) -> dict[str, Any] | None:
    """An object that was cut off, up to the last part of it that is whole; None where no part is."""
    inside: list[str] = []
    whole: tuple[int, str] | None = None
    quoted = escaped = False
    for place in range(start, len(text)):
        char = text[place]
        if quoted:
            quoted, escaped = escaped or char != '"', char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "{[":
            inside.append("}" if char == "{" else "]")
            if len(inside) > _DEEPEST:
                return None
        elif char in "}]":
            if not inside or inside.pop() != char:
                return None
            if char == "}" and inside:
                whole = (place + 1, "".join(reversed(inside)))
    found = _parsed(text[start : whole[0]] + whole[1]) if whole else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number)
