"""Tags by Obsidian's rules: `#` at the start of a line or after white space, then letters, digits, `_`, `-` and `/`.

One of them is no digit, and case does not count. Code, comments and links are no place for tags; a heading's own `#`
and the `#` within an address are none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

from filrouge import lazy_re as re

_TAG: Final = re.compile(r"(?:^|(?<=\s))#([\w/-]+)", re.MULTILINE)
_WHOLE: Final = re.compile(r"[\w/-]+")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_TICKS: Final = re.compile(r"`+")
_PARAGRAPH: Final = re.compile(r"(\n[ \t]*\n)")
_COMMENT: Final = re.compile(r"%%.*?(?:%%|\Z)", re.DOTALL)
_LINK: Final = re.compile(r"\[\[[^\[\]\n]*\]\]")
_SEPARATORS: Final = re.compile(r"[,\s]+")


def inline(text: str) -> tuple[str, ...]:
    """The tags in a note's text, each once, in their order."""
    paragraphs = _PARAGRAPH.split(unicodedata.normalize("NFC", without_fences(text)))
    plain = "".join(_without_code(one) for one in paragraphs)
    for hidden in (_COMMENT, _LINK):
        plain = hidden.sub("·", plain)  # no white space: what follows a link is not after a space
    return _valid(_TAG.findall(plain))


def listed(values: Iterable[str]) -> tuple[str, ...]:
    """The tags of a frontmatter: a list, or texts that separate them by commas or spaces, with or without `#`."""
    parts = [part for value in values for part in _SEPARATORS.split(unicodedata.normalize("NFC", value))]
    bare = [part.removeprefix("#") for part in parts]
    return _valid(part for part in bare if _WHOLE.fullmatch(part))


def carries(tags: Iterable[str], wanted: str) -> bool:
    """True if one of these is the tag, or stands below it: `#a/b` is an `a`."""
    plain = folded(wanted)
    return bool(plain) and any(tag == plain or tag.startswith(f"{plain}/") for tag in tags)


def folded(tag: str) -> str:
    """The one form of a tag, however it is written."""
    return unicodedata.normalize("NFC", tag.strip().removeprefix("#")).casefold().strip("/")


def without_fences(text: str) -> str:
    """A text whose fenced code is blank lines; a fence that nothing closes goes on to the end."""
    kept, fence = list[str](), ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if fence:
            closes = found and found[1][0] == fence[0] and len(found[1]) >= len(fence) and not found[2].strip()
            fence = "" if closes else fence
            kept.append("")
        elif found and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
            kept.append("")
        else:
            kept.append(line)
    return "\n".join(kept)


def _without_code(paragraph: str) -> str:
    """A paragraph without its code: what stands between two runs of as many backticks. Each is looked at once."""
    runs = list(_TICKS.finditer(paragraph))
    closing, later = dict[int, int](), dict[int, int]()
    for n in range(len(runs) - 1, -1, -1):
        length = len(runs[n][0])
        if length in later:
            closing[n] = later[length]
        later[length] = n
    kept, begin, n = list[str](), 0, 0
    while n < len(runs):
        if n in closing:
            kept += [paragraph[begin : runs[n].start()], "·"]
            n = closing[n]
            begin = runs[n].end()
        n += 1
    return "".join([*kept, paragraph[begin:]])


def _valid(found: Iterable[str]) -> tuple[str, ...]:
    plain = (folded(one) for one in found)
    return tuple(dict.fromkeys(one for one in plain if one and not one.isdigit()))
