"""Frontmatter: YAML between two lines of `---` at the top of a note. A note whose YAML is broken is all text.

Values are read as they are written: `yes` is a word and `2024` no number. So no document can make an object of its
own, or anything but texts, lists and mappings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from filrouge import lazy_re as re
from filrouge.notes import tags

_BLOCK: Final = re.compile(r"---[ \t]*\n(.*?)(?:^|\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
#: Characters of a frontmatter that are read as YAML; people write some hundred.
_LONGEST: Final = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Front:
    """What a note says of itself, and the text below.

    Attributes:
        trouble: why the frontmatter could not be read, or empty.
    """

    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    text: str
    trouble: str = ""


def parted(content: str) -> Front:
    """The frontmatter of a note and its text; line breaks are `\\n`."""
    block = _BLOCK.match(content)
    if block is None:
        return Front(tags=(), aliases=(), text=content)
    if len(block[1]) > _LONGEST:
        return Front(tags=(), aliases=(), text=content, trouble="its frontmatter is too long")
    import yaml  # only notes with a frontmatter need it, and a daemon's start does not wait for it

    try:
        read: Any = yaml.load(block[1], Loader=yaml.BaseLoader)  # noqa: S506 (texts, lists and mappings alone)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError):
        return Front(tags=(), aliases=(), text=content, trouble="its frontmatter is no YAML")
    named = _by_lower_name(read)
    return Front(
        tags=tags.listed([*_texts(named.get("tags")), *_texts(named.get("tag"))]),
        aliases=tuple(dict.fromkeys([*_texts(named.get("aliases")), *_texts(named.get("alias"))])),
        text=content[block.end() :],
    )


def _by_lower_name(read: Any) -> Mapping[str, Any]:
    if not isinstance(read, dict):
        return {}
    return {name.lower(): value for name, value in cast("dict[Any, Any]", read).items() if isinstance(name, str)}


def _texts(value: Any) -> list[str]:
    """The texts of a value: itself, or the members of a list that are texts."""
    members = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [one.strip() for one in members if isinstance(one, str) and one.strip()]
