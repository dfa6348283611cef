"""Pages that stand in the user's vault: a memory is one line that ends in a block id, `^frl-` and the memory's own.

All other lines, the frontmatter and the line ends are whoever's wrote them, and stay as they are byte for byte. A page
is known by `filrouge-page` in its frontmatter, so it may be renamed and its lines may be moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from filrouge import lazy_re as re

_OURS: Final = re.compile(
    r"(?P<head>[ \t]*(?:[-*+][ \t]+|\d+[.)][ \t]+)?(?:\[.\][ \t]+)?)"
    r"(?P<words>.*?)[ \t]*\^frl-(?P<id>[0-9a-z]{26})[ \t]*",
    re.IGNORECASE,
)
_FRONT: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)\r?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_KEY: Final = re.compile(r"^filrouge-page:[ \t]*[\"']?([\w-]+)[\"']?[ \t]*\r?$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """The line of a memory.

    Attributes:
        number: which line of the page it is, from 0; of a line that is not there yet it says nothing.
        id: the memory's.
        words: in Markdown, without the dash before and the block id behind.
    """

    number: int = -1
    id: str
    words: str


def lines(content: str) -> list[Line]:
    """The lines of memories on a page."""
    return [
        Line(number=number, id=found["id"].lower(), words=found["words"])
        for number, line in enumerate(content.split("\n"))
        if (found := _OURS.fullmatch(line.removesuffix("\r")))
    ]


def key_of(content: str) -> str:
    """What a page is known by; empty for a file that is no page."""
    front = _FRONT.match(content)
    found = _KEY.search(front[1]) if front else None
    return found[1] if found else ""


def begun(key: str, title: str) -> str:
    """A page without a line."""
    return f"---\nfilrouge-page: {key}\n---\n\n# {title}\n"


def rewritten(content: str, changed: Mapping[int, Line | None], added: Sequence[tuple[str, Line]]) -> str:
    """A page with some lines changed.

    Args:
        changed: what stands in the place of these lines, by their number; None = nothing.
        added: new lines with the headings that they belong under.
    """
    end = "\r" if "\r\n" in content else ""
    old = content.split("\n")
    if added and old[-1]:
        old = [*old[:-1], old[-1] + end, ""]
    kept: list[str] = []
    for number, line in enumerate(old):
        if number not in changed:
            kept.append(line)
        elif (new := changed[number]) is not None:
            kept.append(_with(line, new))
    for heading, line in added:
        _add(kept, f"## {heading}", f"- {line.words} ^frl-{line.id.lower()}{end}", end)
    return "\n".join(kept)


def _with(line: str, new: Line) -> str:
    """A line with other words and another id, whatever is before and behind them."""
    found = _OURS.fullmatch(line.removesuffix("\r"))
    assert found is not None
    return f"{found['head'] or '- '}{new.words} ^frl-{new.id.lower()}" + ("\r" if line.endswith("\r") else "")


def _add(page: list[str], heading: str, line: str, end: str) -> None:
    """Put a line behind the last of its section, or begin the section at the end of the page."""
    at = next((n for n, one in enumerate(page) if one.rstrip() == heading), None)
    if at is None:
        page[-1:] = [end, f"{heading}{end}", end, line, ""]
        return
    last = at
    for number in range(at + 1, len(page)):
        if page[number].startswith(("# ", "## ")):
            break
        if _OURS.fullmatch(page[number].removesuffix("\r")):
            last = number
    if last > at:
        page.insert(last + 1, line)
    else:  # a text right below a list would belong to its last item
        page[at + 1 : at + 1] = [end, line] if not page[at + 1].strip() else [end, line, end]
