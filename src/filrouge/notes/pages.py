"""Markdown formats: frontmatter, tags and chunks of notes, and the pages that Filrouge writes.

There are two kinds of pages. A vault page (`lines`, `apply_changes`) holds one memory per line, ending in a block id,
`^frl-` and the memory's id. An export page (`export_pages`, `parse_export_page`) also holds one memory per line, with
all other fields as JSON in a comment that readers do not display. There is one export page for the user and one for
each project. Lines are identified by the id in the comment, so they may be moved and headings may be renamed; `sum`
detects edited words.

Tags follow Obsidian's rules. Frontmatter values stay text, so no document can create other objects.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

from filrouge.core import lazy_re as re
from filrouge.core.text import is_control
from filrouge.notes.models import Chunk, Note

# Tags: `#` at the start of a line or after white space, then letters, digits, `_`, `-` and `/`, at least one of them
# not a digit. Case is ignored. Code, comments and links contain no tags; neither do headings and the `#` in an address.

_TAG: Final = re.compile(r"(?:^|(?<=\s))#([\w/-]+)", re.MULTILINE)
_WHOLE: Final = re.compile(r"[\w/-]+")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_TICKS: Final = re.compile(r"`+")
_PARAGRAPH: Final = re.compile(r"(\n[ \t]*\n)")
_COMMENT: Final = re.compile(r"%%.*?(?:%%|\Z)", re.DOTALL)
_LINK: Final = re.compile(r"\[\[[^\[\]\n]*\]\]")
_SEPARATORS: Final = re.compile(r"[,\s]+")


def inline_tags(text: str) -> tuple[str, ...]:
    """Return the tags in a note's text, each once, in order."""
    paragraphs = _PARAGRAPH.split(unicodedata.normalize("NFC", without_fences(text)))
    plain = "".join(_without_code(one) for one in paragraphs)
    for hidden in (_COMMENT, _LINK):
        plain = hidden.sub("·", plain)  # not a space: text after a link must not count as after white space
    return _valid(_TAG.findall(plain))


def frontmatter_tags(values: Iterable[str]) -> tuple[str, ...]:
    """Return the tags of frontmatter values, separated by commas or spaces, with or without `#`."""
    parts = [part for value in values for part in _SEPARATORS.split(unicodedata.normalize("NFC", value))]
    bare = [part.removeprefix("#") for part in parts]
    return _valid(part for part in bare if _WHOLE.fullmatch(part))


def folded(tag: str) -> str:
    """Return the canonical form of a tag."""
    return unicodedata.normalize("NFC", tag.strip().removeprefix("#")).casefold().strip("/")


def without_fences(text: str) -> str:
    """Blank the lines of fenced code; a fence that is never closed extends to the end."""
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
    """Remove inline code, the text between two runs of equally many backticks. Runs in linear time."""
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


# Frontmatter: YAML between two lines of `---` at the top of a note. A note with invalid YAML is all text. Values are
# not converted: `yes` is a word and `2024` is not a number. A document can therefore create only texts, lists and
# mappings.

_BLOCK: Final = re.compile(r"---[ \t]*\n(.*?)(?:^|\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
#: Longest frontmatter that is read as YAML; usual ones have a few hundred characters.
_LONGEST: Final = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedNote:
    """The frontmatter of a note, and the text below it.

    Attributes:
        tags: the tags in the frontmatter, folded.
        aliases: other names of the note.
        text: the text below the frontmatter.
        trouble: why the frontmatter could not be read, or empty.
    """

    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    text: str
    trouble: str = ""


def split_frontmatter(content: str) -> ParsedNote:
    """Split a note into frontmatter and text; line breaks are `\\n`."""
    block = _BLOCK.match(content)
    if block is None:
        return ParsedNote(tags=(), aliases=(), text=content)
    if len(block[1]) > _LONGEST:
        return ParsedNote(tags=(), aliases=(), text=content, trouble="its frontmatter is too long")
    import yaml  # imported late: only frontmatter needs it, and it would delay the daemon's start

    try:
        read: Any = yaml.load(block[1], Loader=yaml.BaseLoader)  # noqa: S506 (texts, lists and mappings alone)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError):
        return ParsedNote(tags=(), aliases=(), text=content, trouble="its frontmatter is not valid YAML")
    named = _by_lower_name(read)
    return ParsedNote(
        tags=frontmatter_tags([*_texts(named.get("tags")), *_texts(named.get("tag"))]),
        aliases=tuple(dict.fromkeys([*_texts(named.get("aliases")), *_texts(named.get("alias"))])),
        text=content[block.end() :],
    )


def _by_lower_name(read: Any) -> Mapping[str, Any]:
    if not isinstance(read, dict):
        return {}
    return {name.lower(): value for name, value in cast("dict[Any, Any]", read).items() if isinstance(name, str)}


def _texts(value: Any) -> list[str]:
    """Return the texts in a value: itself, or the elements of a list that are texts."""
    members = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [one.strip() for one in members if isinstance(one, str) and one.strip()]


# Chunks: a note is cut at its headings into parts of about a thousand characters, between paragraphs where possible.
# Short consecutive sections share a part, long ones have several. Only white space is lost, up to the limit for one
# note.

#: Largest size of a part, and of neighbouring sections that share one, in characters.
MAX_CHUNK: Final = 1000
_MAX_SHARED: Final = 500
#: Number of characters of a note that are read; embedding a whole book would take minutes.
MAX_CHARACTERS: Final = 200_000
#: Longest heading of a part; a title may be a whole sentence.
_LONGEST_HEADING: Final = 200
_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
#: Where to cut a long section, best first: paragraph, line, sentence, word.
_BREAKS: Final = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?…])\s+"), re.compile(r"\s+"))


def chunks(note: Note) -> list[Chunk]:
    """Return the parts of a note in order; empty if it has no text."""
    parts: list[tuple[str, str]] = []
    for heading, text in _sections(note):
        for piece in _pieces(text):
            if parts and len(parts[-1][1]) + len(piece) + 2 <= _MAX_SHARED:
                parts[-1] = (parts[-1][0], f"{parts[-1][1]}\n\n{piece}")
            else:
                parts.append((heading, piece))
    return [Chunk(path=note.path, part=n, heading=heading, text=text) for n, (heading, text) in enumerate(parts)]


def _sections(note: Note) -> Iterator[tuple[str, str]]:
    """Yield each section with the headings above it; lines of fenced code are not headings."""
    text = note.text[:MAX_CHARACTERS]
    title = f"{note.title} ({', '.join(note.aliases)})" if note.aliases else note.title
    above, lines = dict[int, str](), list[str]()
    for line, seen in zip(text.split("\n"), without_fences(text).split("\n"), strict=True):
        found = _HEADING.match(seen[:_LONGEST_HEADING].rstrip())
        if found:
            yield _named(title, above), "\n".join(lines)
            level = len(found[1])
            above = {depth: name for depth, name in above.items() if depth < level} | {level: found[2]}
            lines = []
        lines.append(line)
    yield _named(title, above), "\n".join(lines)


def _named(title: str, above: dict[int, str]) -> str:
    return " > ".join([title, *(above[depth] for depth in sorted(above) if above[depth])])[:_LONGEST_HEADING]


def _pieces(text: str, breaks: Sequence[re.Pattern[str]] = _BREAKS) -> list[str]:
    """Split a text into pieces of at most `MAX_CHUNK` characters, each as full as the break points allow."""
    text = text.strip()
    if not text:
        return []
    if len(text) <= MAX_CHUNK:
        return [text]
    if not breaks:
        return [text[at : at + MAX_CHUNK] for at in range(0, len(text), MAX_CHUNK)]
    found, begin = list[str](), 0
    filled = 0  # the last break point in the current piece
    for place in [*((one.start(), one.end()) for one in breaks[0].finditer(text)), (len(text), len(text))]:
        if place[0] - begin > MAX_CHUNK:
            if filled > begin:
                found.append(text[begin:filled].strip())
                begin = filled
            if place[0] - begin > MAX_CHUNK:
                found += _pieces(text[begin : place[0]], breaks[1:])
                begin = place[1]
        filled = place[1]
    return [one for one in [*found, text[begin:].strip()] if one]


# Vault pages: a line of a memory ends in a block id, `^frl-` and the memory's id. All other lines, the frontmatter and
# the line ends belong to the user and stay the same byte for byte. A page is recognised by `filrouge-page` in its
# frontmatter, so it may be renamed and its lines may be moved.

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
        number: its line number on the page, from 0; meaningless for a new line.
        id: the memory's id.
        words: its Markdown text, without the leading dash and the block id.
    """

    number: int = -1
    id: str
    words: str


def lines(content: str) -> list[Line]:
    """Return the lines of memories on a page."""
    return [
        Line(number=number, id=found["id"].lower(), words=found["words"])
        for number, line in enumerate(content.split("\n"))
        if (found := _OURS.fullmatch(line.removesuffix("\r")))
    ]


def key_of(content: str) -> str:
    """Return the key of a page; empty for a file that is not a page."""
    front = _FRONT.match(content)
    found = _KEY.search(front[1]) if front else None
    return found[1] if found else ""


def new_page(key: str, title: str) -> str:
    """Return a new page without lines."""
    return f"---\nfilrouge-page: {key}\n---\n\n# {title}\n"


def apply_changes(content: str, changed: Mapping[int, Line | None], added: Sequence[tuple[str, Line]]) -> str:
    """Return a page with changed lines.

    Args:
        content: the page.
        changed: replacements by line number; None = delete the line.
        added: new lines, each with the heading of its section.
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
            kept.append(_replace_words(line, new))
    for heading, line in added:
        _insert_line(kept, f"## {heading}", f"- {line.words} ^frl-{line.id.lower()}{end}", end)
    return "\n".join(kept)


def _replace_words(line: str, new: Line) -> str:
    """Return a line with other words and another id, keeping its beginning and its line end."""
    found = _OURS.fullmatch(line.removesuffix("\r"))
    assert found is not None
    return f"{found['head'] or '- '}{new.words} ^frl-{new.id.lower()}" + ("\r" if line.endswith("\r") else "")


def _insert_line(page: list[str], heading: str, line: str, end: str) -> None:
    """Insert a line after the last one of its section, or add the section at the end of the page."""
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
    else:  # text directly below a list would belong to its last item
        page[at + 1 : at + 1] = [end, line] if not page[at + 1].strip() else [end, line, end]


SUFFIX = ".md"


def note_of(path: str, content: bytes, *, changed: datetime, stamp: str, is_cut: bool = False) -> Note:
    """Parse the bytes of a note.

    Args:
        path: the note's path.
        content: its bytes.
        changed: when the file was last written.
        stamp: the file's stamp.
        is_cut: the file has more bytes than these.
    """
    whole = content.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    if key_of(whole):  # a vault page holds memories, which must not be found twice
        whole = ""
    front = split_frontmatter(whole)
    is_cut = is_cut or len(front.text) > MAX_CHARACTERS
    return Note(
        path=path,
        title=path.rpartition("/")[2].removesuffix(SUFFIX),
        aliases=front.aliases,
        tags=tuple(dict.fromkeys([*front.tags, *inline_tags(front.text[:MAX_CHARACTERS])])),
        text=front.text,
        changed=changed,
        stamp=stamp,
        hash=hashlib.sha256(content).hexdigest(),
        trouble=front.trouble or (f"only its first {MAX_CHARACTERS} characters are searched" if is_cut else ""),
    )


USER_PAGE: Final = "User.md"
_VERSION: Final = 1
SECTIONS: Final[Mapping[str, str]] = {
    "rule": "Rules", "preference": "Preferences", "constraint": "Constraints", "decision": "Decisions",
    "fact": "Facts", "intent": "Intents", "note": "Notes",
}  # fmt: skip
_FORMER: Final[Mapping[str, str]] = {"superseded": "Replaced", "binned": "In the bin"}
_OPENING, _CLOSING = "<!--fr ", "-->"
#: Default values of fields that a comment leaves out.
_DEFAULTS: Final[Mapping[str, Any]] = {
    "scope": "project", "user_id": "local", "project_id": None, "agent": "", "channel": "unknown", "session_id": "",
    "subject": "", "key": None, "value": None, "sentiment": "neutral", "timeframe": "", "state": "live",
    "valid_to": None, "supersedes": None, "superseded_by": None, "previous_text": None, "pinned": False,
    "disabled": False, "mention_count": 1, "last_mention": None, "prompt_version": "", "evidence": [],
}  # fmt: skip
_MARKDOWN_SPECIAL: Final = re.compile(
    r"[\\`*_\[\]<>#~$&{}]|={2,}|%{2,}|^[-+]|(?<=^\d)[.)]|(?<=^\d\d)[.)]|(?<=^\d{3})[.)]"
)
_ESCAPE: Final = re.compile(r"\\([!-/:-@\[-`{-~])|(<br>)|&#(\d{1,7});")
_ODD_SPACE: Final = re.compile(r"^\s|\s$|(?<= ) ")
_STRANGE_NAME: Final = re.compile(r"[^\w .-]+")
_LONGEST_NAME: Final = 80
_LARGEST_CHARACTER: Final = 0x10FFFF


@dataclass(kw_only=True)
class Page:
    """A parsed export page.

    Attributes:
        project: the row of its project; None for the user's page.
        memories: the rows of its memories.
        problems: problems of lines, with the line number from 1.
    """

    project: dict[str, Any] | None = None
    memories: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    problems: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


def export_pages(
    projects: Iterable[Mapping[str, Any]], memories: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every export page."""
    own: dict[str | None, list[Mapping[str, Any]]] = {None: []}
    about = {str(one["id"]): one for one in projects}
    for row in memories:
        own.setdefault(row["project_id"] if row["project_id"] in about else None, []).append(row)
    taken = {USER_PAGE.casefold()}
    for id_, rows in own.items():
        name = USER_PAGE if id_ is None else free_name(f"Project {plain_name(str(about[id_]['name']))}", taken)
        taken.add(name.casefold())
        yield name, "".join(_page(about[id_] if id_ else None, rows))


def parse_export_page(text: str) -> Page | None:
    """Parse an export page; None for any other file."""
    lines = text.removeprefix("\ufeff").split("\n")
    head = _head(lines)
    if head is None:
        return None
    page = Page(project=head[0])
    for number, line in enumerate(lines[head[1] :], start=head[1] + 1):
        _read_line(page, number, line.strip())
    return page


def escaped(text: str) -> str:
    """Escape a text so that Markdown shows it unchanged on one line."""
    plain = _MARKDOWN_SPECIAL.sub(lambda found: "".join(f"\\{one}" for one in found[0]), text)
    spaced = _ODD_SPACE.sub(lambda found: found[0] if found[0] == "\n" else f"&#{ord(found[0])};", plain)
    return "".join(
        "<br>" if one == "\n" else f"&#{ord(one)};" if one == "\t" or is_control(one) else one for one in spaced
    )


def unescaped(text: str) -> str:
    """Return the original text of an escaped one, or the text that a person wrote instead."""

    def said(found: re.Match[str]) -> str:
        sign, line, number = found.groups()
        if sign or line:
            return sign or "\n"
        return chr(int(number)) if int(number) <= _LARGEST_CHARACTER else found[0]

    return _ESCAPE.sub(said, text)


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
    rest = {name: value for name, value in row.items() if name != "text" and value != _DEFAULTS.get(name, ...)}
    # Both occur only inside JSON strings, where escapes are allowed; unescaped they could end the comment early.
    meta = json.dumps({**rest, "sum": _checksum(text)}).replace("--", "-\\u002d").replace("<", "\\u003c")
    return f"- {escaped(text)} {_OPENING}{meta}{_CLOSING}\n"


def _read_line(page: Page, number: int, line: str) -> None:
    words, opening, behind = line.rpartition(_OPENING)
    if not opening:
        if line.startswith("- "):
            page.problems.append((number, "is not a memory yet: add it with `filrouge remember`"))
        return
    row = _meta(behind)
    if row is None or not words.startswith("- "):
        page.problems.append((number, "is damaged: its comment or the dash before its words is missing or broken"))
        return
    text = unescaped(words[2:].removesuffix(" "))
    if row.pop("sum", None) != _checksum(text):
        how = f"`filrouge supersede {row['id']}` replaces it"
        page.problems.append((number, f"was edited; a memory that is here already stays as it is: {how}"))
    page.memories.append({**_DEFAULTS, **row, "text": text})


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
    """Return the project in the head of a page, and the number of lines of the head."""
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
    """Return a file name, without `.md`, that is valid on every system."""
    return _STRANGE_NAME.sub("-", title)[:_LONGEST_NAME].strip(" .-") or "unnamed"


def free_name(stem: str, taken: Collection[str]) -> str:
    """Return a page name that is not taken, ignoring case.

    Args:
        stem: the wanted name without `.md`.
        taken: existing names, casefolded.
    """
    name, number = f"{stem}.md", 1
    while name.casefold() in taken:
        number += 1
        name = f"{stem} ({number}).md"
    return name


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
