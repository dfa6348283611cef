"""Memories as pages that a person reads, in Obsidian or anywhere, and that can be read in again.

One page for what is known of the user, one for each project. A memory is a line of a list: its words, escaped so that
Markdown shows them as they are, and behind them, in a comment that no reader shows, everything else in JSON. A line is
told by the id in its comment, so lines may be moved and headings renamed. `sum` tells words that were edited.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from filrouge.core import lazy_re as re
from filrouge.core.text import is_control

USER_PAGE: Final = "User.md"
_VERSION: Final = 1
SECTIONS: Final[Mapping[str, str]] = {
    "rule": "Rules", "preference": "Preferences", "constraint": "Constraints", "decision": "Decisions",
    "fact": "Facts", "intent": "Intents", "note": "Notes",
}  # fmt: skip
_FORMER: Final[Mapping[str, str]] = {"superseded": "Replaced", "binned": "In the bin"}
_OPENING, _CLOSING = "<!--fr ", "-->"
#: What a row says where its comment is silent.
_USUAL: Final[Mapping[str, Any]] = {
    "scope": "project", "user_id": "local", "project_id": None, "agent": "", "channel": "unknown", "session_id": "",
    "subject": "", "key": None, "value": None, "sentiment": "neutral", "timeframe": "", "state": "live",
    "valid_to": None, "supersedes": None, "superseded_by": None, "previous_text": None, "pinned": False,
    "disabled": False, "mention_count": 1, "last_mention": None, "prompt_version": "", "evidence": [],
}  # fmt: skip
_EATEN: Final = re.compile(r"[\\`*_\[\]<>#~$&{}]|={2,}|%{2,}|^[-+]|(?<=^\d)[.)]|(?<=^\d\d)[.)]|(?<=^\d{3})[.)]")
_WRITTEN: Final = re.compile(r"\\([!-/:-@\[-`{-~])|(<br>)|&#(\d{1,7});")
_ODD_SPACE: Final = re.compile(r"^\s|\s$|(?<= ) ")
_STRANGE_NAME: Final = re.compile(r"[^\w .-]+")
_LONGEST_NAME: Final = 80
_LARGEST_CHARACTER: Final = 0x10FFFF


@dataclass(kw_only=True)
class Page:
    """What a page says.

    Attributes:
        project: the project that it is about, as a row; None for the user's.
        problems: what is wrong with lines, by their number from 1.
    """

    project: dict[str, Any] | None = None
    memories: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    problems: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


def pages(projects: Iterable[Mapping[str, Any]], memories: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The name and the text of every page."""
    own: dict[str | None, list[Mapping[str, Any]]] = {None: []}
    about = {str(one["id"]): one for one in projects}
    for row in memories:
        own.setdefault(row["project_id"] if row["project_id"] in about else None, []).append(row)
    taken = {USER_PAGE.casefold()}
    for id_, rows in own.items():
        name = USER_PAGE if id_ is None else free_name(f"Project {plain_name(str(about[id_]['name']))}", taken)
        taken.add(name.casefold())
        yield name, "".join(_page(about[id_] if id_ else None, rows))


def read(text: str) -> Page | None:
    """What a page says; None for a file that is no page of ours."""
    lines = text.removeprefix("\ufeff").split("\n")
    head = _head(lines)
    if head is None:
        return None
    page = Page(project=head[0])
    for number, line in enumerate(lines[head[1] :], start=head[1] + 1):
        _read_line(page, number, line.strip())
    return page


def escaped(text: str) -> str:
    """A text on one line that Markdown shows as it is."""
    plain = _EATEN.sub(lambda found: "".join(f"\\{one}" for one in found[0]), text)
    spaced = _ODD_SPACE.sub(lambda found: found[0] if found[0] == "\n" else f"&#{ord(found[0])};", plain)
    return "".join(
        "<br>" if one == "\n" else f"&#{ord(one)};" if one == "\t" or is_control(one) else one for one in spaced
    )


def unescaped(text: str) -> str:
    """The text that was escaped, or what a person wrote in its place."""

    def said(found: re.Match[str]) -> str:
        sign, line, number = found.groups()
        if sign or line:
            return sign or "\n"
        return chr(int(number)) if int(number) <= _LARGEST_CHARACTER else found[0]

    return _WRITTEN.sub(said, text)


def _page(project: Mapping[str, Any] | None, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield f"---\nfilrouge: {_VERSION}\n"
    if project is not None:
        yield from (f"{name}: {json.dumps(project[name])}\n" for name in ("id", "name", "aliases"))
    yield f"---\n\n# {escaped(str(project['name'])) if project else 'User'}\n"
    sections: dict[str, list[Mapping[str, Any]]] = {title: [] for title in (*SECTIONS.values(), *_FORMER.values())}
    for row in rows:
        title = _FORMER.get(row["state"]) or SECTIONS.get(row["kind"], "Notes")
        sections[title].append(row)
    for title, own in sections.items():
        if own:
            yield f"\n## {title}\n\n"
            yield from map(_written, own)


def _written(row: Mapping[str, Any]) -> str:
    text = str(row["text"])
    rest = {name: value for name, value in row.items() if name != "text" and value != _USUAL.get(name, ...)}
    # Both stand in texts alone, where they may be written so: a comment must not end before its end.
    meta = json.dumps({**rest, "sum": _sum(text)}).replace("--", "-\\u002d").replace("<", "\\u003c")
    return f"- {escaped(text)} {_OPENING}{meta}{_CLOSING}\n"


def _read_line(page: Page, number: int, line: str) -> None:
    words, opening, behind = line.rpartition(_OPENING)
    if not opening:
        if line.startswith("- "):
            page.problems.append((number, "is new here: say it with `filrouge remember`"))
        return
    row = _meta(behind)
    if row is None or not words.startswith("- "):
        page.problems.append((number, "is damaged: its comment or the dash before its words is missing or broken"))
        return
    text = unescaped(words[2:].removesuffix(" "))
    if row.pop("sum", None) != _sum(text):
        how = f"`filrouge supersede {row['id']}` replaces it"
        page.problems.append((number, f"was edited; a memory that is here already stays as it is: {how}"))
    page.memories.append({**_USUAL, **row, "text": text})


def _meta(behind: str) -> dict[str, Any] | None:
    try:
        found: object = json.loads(behind.removesuffix(_CLOSING)) if behind.endswith(_CLOSING) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    row = cast("dict[str, Any]", found)
    return row if isinstance(row.get("id"), str) else None


def _head(lines: list[str]) -> tuple[dict[str, Any] | None, int] | None:
    """The project in the head of a page, and how many lines the head has."""
    stripped = [line.strip() for line in lines]
    if stripped[:1] != ["---"] or "---" not in stripped[1:]:
        return None
    end = stripped.index("---", 1)
    told = {name: value for name, _, value in (line.partition(": ") for line in stripped[1:end])}
    if told.get("filrouge") != str(_VERSION):
        return None
    if "id" not in told:
        return None, end + 1
    try:
        project = {name: json.loads(told[name]) for name in ("id", "name", "aliases")}
    except (KeyError, ValueError):
        return None
    return project, end + 1


def plain_name(title: str) -> str:
    """A file's name on any system, without `.md`."""
    return _STRANGE_NAME.sub("-", title)[:_LONGEST_NAME].strip(" .-") or "unnamed"


def free_name(stem: str, taken: Collection[str]) -> str:
    """The name of a page under which nothing is, in letters of any case.

    Args:
        taken: names that are, casefolded.
    """
    name, number = f"{stem}.md", 1
    while name.casefold() in taken:
        number += 1
        name = f"{stem} ({number}).md"
    return name


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
