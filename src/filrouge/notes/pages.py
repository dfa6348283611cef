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
from datetime import datetime
from typing import Any, Final, cast

from msgspec import Struct, field

from filrouge.core import lazy_re as re
from filrouge.core.text import is_control
from filrouge.notes.models import Chunk, Note

# Tags: `#` at the start of a line or after white space, then letters, digits, `_`, `-` and `/`, at least one of them
# not a digit. Case is ignored. Code, comments and links contain no tags; neither do headings and the `#` in an address.

_TAG: Final = re.compile(r"(?:^|(?<=\s))#([\w/-]+)", re.MULTILINE)
_TAG_ONLY: Final = re.compile(r"[\w/-]+")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_TICKS: Final = re.compile(r"`+")
_PARAGRAPH: Final = re.compile(r"(\n[ \t]*\n)")
_COMMENT: Final = re.compile(r"%%.*?(?:%%|\Z)", re.DOTALL)
_LINK: Final = re.compile(r"\[\[[^\[\]\n]*\]\]")
_SEPARATORS: Final = re.compile(r"[,\s]+")


def inline_tags(text: str) -> tuple[str, ...]:
    """Return the tags in a note's text, each once, in order."""
    paragraphs = _PARAGRAPH.split(unicodedata.normalize("NFC", without_fences(text)))
    plain = "".join(_without_code(paragraph) for paragraph in paragraphs)
    for pattern in (_COMMENT, _LINK):
        plain = pattern.sub("·", plain)  # not a space: text after a link must not count as after white space
    return _valid_tags(_TAG.findall(plain))


def frontmatter_tags(values: Iterable[str]) -> tuple[str, ...]:
    """Return the tags of frontmatter values, separated by commas or spaces, with or without `#`."""
    parts = [part for value in values for part in _SEPARATORS.split(unicodedata.normalize("NFC", value))]
    bare = [part.removeprefix("#") for part in parts]
    return _valid_tags(part for part in bare if _TAG_ONLY.fullmatch(part))


def folded(tag: str) -> str:
    """Return the canonical form of a tag."""
    return unicodedata.normalize("NFC", tag.strip().removeprefix("#")).casefold().strip("/")


def without_fences(text: str) -> str:
    """Blank the lines of fenced code; a fence that is never closed extends to the end."""
    result, fence = list[str](), ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if fence:
            is_closing = found and found[1][0] == fence[0] and len(found[1]) >= len(fence) and not found[2].strip()
            fence = "" if is_closing else fence
            result.append("")
        elif found and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
            result.append("")
        else:
            result.append(line)
    return "\n".join(result)


def _without_code(paragraph: str) -> str:
    """Remove inline code, the text between two runs of equally many backticks. Runs in linear time."""
    runs = list(_TICKS.finditer(paragraph))
    closing, next_of_length = dict[int, int](), dict[int, int]()
    for index in range(len(runs) - 1, -1, -1):
        length = len(runs[index][0])
        if length in next_of_length:
            closing[index] = next_of_length[length]
        next_of_length[length] = index
    result, start, index = list[str](), 0, 0
    while index < len(runs):
        if index in closing:
            result += [paragraph[start : runs[index].start()], "·"]
            index = closing[index]
            start = runs[index].end()
        index += 1
    return "".join([*result, paragraph[start:]])


def _valid_tags(names: Iterable[str]) -> tuple[str, ...]:
    tags = (folded(tag) for tag in names)
    return tuple(dict.fromkeys(tag for tag in tags if tag and not tag.isdigit()))


# Frontmatter: YAML between two lines of `---` at the top of a note. A note with invalid YAML is all text. Values are
# not converted: `yes` is a word and `2024` is not a number. A document can therefore create only texts, lists and
# mappings.

_BLOCK: Final = re.compile(r"---[ \t]*\n(.*?)(?:^|\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
#: Longer frontmatter is not read as YAML; usual ones have a few hundred characters.
_MAX_FRONTMATTER_CHARACTERS: Final = 20_000


class ParsedNote(Struct, frozen=True, kw_only=True):
    """The frontmatter of a note, and the text below it.

    Attributes:
        tags: the tags in the frontmatter, folded.
        aliases: other names of the note.
        text: the text below the frontmatter.
        problem: why the frontmatter could not be read, or empty.
    """

    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    text: str
    problem: str = ""


def split_frontmatter(content: str) -> ParsedNote:
    """Split a note into frontmatter and text; line breaks are `\\n`."""
    block = _BLOCK.match(content)
    if block is None:
        return ParsedNote(tags=(), aliases=(), text=content)
    if len(block[1]) > _MAX_FRONTMATTER_CHARACTERS:
        return ParsedNote(tags=(), aliases=(), text=content, problem="its frontmatter is too long")
    import yaml  # imported late: only frontmatter needs it, and it would delay the daemon's start

    try:
        values: Any = yaml.load(block[1], Loader=yaml.BaseLoader)  # noqa: S506 (texts, lists and mappings alone)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError):
        return ParsedNote(tags=(), aliases=(), text=content, problem="its frontmatter is not valid YAML")
    by_name = _by_lower_name(values)
    return ParsedNote(
        tags=frontmatter_tags([*_texts(by_name.get("tags")), *_texts(by_name.get("tag"))]),
        aliases=tuple(dict.fromkeys([*_texts(by_name.get("aliases")), *_texts(by_name.get("alias"))])),
        text=content[block.end() :],
    )


def _by_lower_name(values: Any) -> Mapping[str, Any]:
    if not isinstance(values, dict):
        return {}
    return {name.lower(): value for name, value in cast("dict[Any, Any]", values).items() if isinstance(name, str)}


def _texts(value: Any) -> list[str]:
    """Return the texts in a value: itself, or the elements of a list that are texts."""
    members = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [member.strip() for member in members if isinstance(member, str) and member.strip()]


# Chunks: a note is cut at its headings into parts of about a thousand characters, between paragraphs where possible.
# Short consecutive sections share a part, long ones have several. Only white space is lost, up to the limit for one
# note.

#: Largest size of a part, and of neighbouring sections that share one, in characters.
MAX_CHUNK: Final = 1000
_MAX_SHARED_CHARACTERS: Final = 500
#: Number of characters of a note that are read; embedding a whole book would take minutes.
MAX_CHARACTERS: Final = 200_000
#: A longer heading is cut; a title may be a whole sentence.
_MAX_HEADING_CHARACTERS: Final = 200
_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
#: Where to cut a long section, best first: paragraph, line, sentence, word.
_BREAKS: Final = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?…])\s+"), re.compile(r"\s+"))


def chunks(note: Note) -> list[Chunk]:
    """Return the parts of a note in order; empty if it has no text."""
    parts: list[tuple[str, str]] = []
    for heading, text in _sections(note):
        for section_part in _split_text(text):
            if parts and len(parts[-1][1]) + len(section_part) + 2 <= _MAX_SHARED_CHARACTERS:
                parts[-1] = (parts[-1][0], f"{parts[-1][1]}\n\n{section_part}")
            else:
                parts.append((heading, section_part))
    return [
        Chunk(path=note.path, part=index, heading=heading, text=text) for index, (heading, text) in enumerate(parts)
    ]


def _sections(note: Note) -> Iterator[tuple[str, str]]:
    """Yield each section with the headings above it; lines of fenced code are not headings."""
    text = note.text[:MAX_CHARACTERS]
    title = f"{note.title} ({', '.join(note.aliases)})" if note.aliases else note.title
    above, lines = dict[int, str](), list[str]()
    for line, line_without_code in zip(text.split("\n"), without_fences(text).split("\n"), strict=True):
        found = _HEADING.match(line_without_code[:_MAX_HEADING_CHARACTERS].rstrip())
        if found:
            yield _heading_path(title, above), "\n".join(lines)
            level = len(found[1])
            above = {depth: name for depth, name in above.items() if depth < level} | {level: found[2]}
            lines = []
        lines.append(line)
    yield _heading_path(title, above), "\n".join(lines)


def _heading_path(title: str, above: dict[int, str]) -> str:
    return " > ".join([title, *(above[depth] for depth in sorted(above) if above[depth])])[:_MAX_HEADING_CHARACTERS]


def _split_text(text: str, breaks: Sequence[re.Pattern[str]] = _BREAKS) -> list[str]:
    """Split a text into pieces of at most `MAX_CHUNK` characters, each as full as the break points allow."""
    text = text.strip()
    if not text:
        return []
    if len(text) <= MAX_CHUNK:
        return [text]
    if not breaks:
        return [text[start : start + MAX_CHUNK] for start in range(0, len(text), MAX_CHUNK)]
    pieces, piece_start = list[str](), 0
    last_break = 0  # the last break point in the current piece
    for break_ in [*((match.start(), match.end()) for match in breaks[0].finditer(text)), (len(text), len(text))]:
        if break_[0] - piece_start > MAX_CHUNK:
            if last_break > piece_start:
                pieces.append(text[piece_start:last_break].strip())
                piece_start = last_break
            if break_[0] - piece_start > MAX_CHUNK:
                pieces += _split_text(text[piece_start : break_[0]], breaks[1:])
                piece_start = break_[1]
        last_break = break_[1]
    return [piece for piece in [*pieces, text[piece_start:].strip()] if piece]


# Vault pages: a line of a memory ends in a block id, `^frl-` and the memory's id. All other lines, the frontmatter and
# the line ends belong to the user and never change. A page is recognised by `filrouge-page` in its
# frontmatter, so it may be renamed and its lines may be moved.

_MEMORY_LINE: Final = re.compile(
    r"(?P<head>[ \t]*(?:[-*+][ \t]+|\d+[.)][ \t]+)?(?:\[.\][ \t]+)?)"
    r"(?P<words>.*?)[ \t]*\^frl-(?P<id>[0-9a-z]{26})[ \t]*",
    re.IGNORECASE,
)
_PAGE_HEAD: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)\r?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_KEY: Final = re.compile(r"^filrouge-page:[ \t]*[\"']?([\w-]+)[\"']?[ \t]*\r?$", re.MULTILINE)


class Line(Struct, frozen=True, kw_only=True):
    """The line of a memory.

    Attributes:
        number: its line number on the page, from 0; -1 for a new line.
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
        if (found := _MEMORY_LINE.fullmatch(line.removesuffix("\r")))
    ]


def page_key(content: str) -> str:
    """Return the key of a page; empty for a file that is not a page."""
    front = _PAGE_HEAD.match(content)
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
    old_lines = content.split("\n")
    if added and old_lines[-1]:
        old_lines = [*old_lines[:-1], old_lines[-1] + end, ""]
    result: list[str] = []
    for number, line in enumerate(old_lines):
        if number not in changed:
            result.append(line)
        elif (replacement := changed[number]) is not None:
            result.append(_replace_words(line, replacement))
    for heading, line in added:
        _insert_line(result, f"## {heading}", f"- {line.words} ^frl-{line.id.lower()}{end}", end)
    return "\n".join(result)


def _replace_words(line: str, new: Line) -> str:
    """Return a line with other words and another id, keeping its beginning and its line end."""
    found = _MEMORY_LINE.fullmatch(line.removesuffix("\r"))
    assert found is not None
    return f"{found['head'] or '- '}{new.words} ^frl-{new.id.lower()}" + ("\r" if line.endswith("\r") else "")


def _insert_line(page: list[str], heading: str, line: str, end: str) -> None:
    """Insert a line after the last one of its section, or add the section at the end of the page."""
    heading_index = next((index for index, page_line in enumerate(page) if page_line.rstrip() == heading), None)
    if heading_index is None:
        page[-1:] = [end, f"{heading}{end}", end, line, ""]
        return
    last_index = heading_index
    for number in range(heading_index + 1, len(page)):
        if page[number].startswith(("# ", "## ")):
            break
        if _MEMORY_LINE.fullmatch(page[number].removesuffix("\r")):
            last_index = number
    if last_index > heading_index:
        page.insert(last_index + 1, line)
    else:  # text directly below a list would belong to its last item
        page[heading_index + 1 : heading_index + 1] = (
            [end, line] if not page[heading_index + 1].strip() else [end, line, end]
        )


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
    text = content.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    if page_key(text):  # a vault page holds memories, which must not be found twice
        text = ""
    front = split_frontmatter(text)
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
        problem=front.problem or (f"only its first {MAX_CHARACTERS} characters are searched" if is_cut else ""),
    )


USER_PAGE: Final = "User.md"
_FORMAT_VERSION: Final = 1
SECTIONS: Final[Mapping[str, str]] = {
    "rule": "Rules", "preference": "Preferences", "constraint": "Constraints", "decision": "Decisions",
    "fact": "Facts", "intent": "Intents", "note": "Notes",
}  # fmt: skip
_STATE_SECTIONS: Final[Mapping[str, str]] = {"superseded": "Replaced", "binned": "In the bin"}
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
_SPACE_TO_ESCAPE: Final = re.compile(r"^\s|\s$|(?<= ) ")
_UNSAFE_CHARACTERS: Final = re.compile(r"[^\w .-]+")
_MAX_NAME_CHARACTERS: Final = 80
_MAX_CODE_POINT: Final = 0x10FFFF


class Page(Struct, kw_only=True):
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
    rows_by_project: dict[str | None, list[Mapping[str, Any]]] = {None: []}
    projects_by_id = {str(project["id"]): project for project in projects}
    for row in memories:
        rows_by_project.setdefault(row["project_id"] if row["project_id"] in projects_by_id else None, []).append(row)
    used_names = {USER_PAGE.casefold()}
    for id_, rows in rows_by_project.items():
        name = (
            USER_PAGE
            if id_ is None
            else unused_name(f"Project {plain_name(str(projects_by_id[id_]['name']))}", used_names)
        )
        used_names.add(name.casefold())
        yield name, "".join(_page(projects_by_id[id_] if id_ else None, rows))


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


def escape(text: str) -> str:
    """Escape a text so that Markdown shows it unchanged on one line."""
    markdown = _MARKDOWN_SPECIAL.sub(lambda found: "".join(f"\\{character}" for character in found[0]), text)
    spaced = _SPACE_TO_ESCAPE.sub(lambda found: found[0] if found[0] == "\n" else f"&#{ord(found[0])};", markdown)
    return "".join(
        "<br>"
        if character == "\n"
        else f"&#{ord(character)};"
        if character == "\t" or is_control(character)
        else character
        for character in spaced
    )


def unescape(text: str) -> str:
    """Return the original text of an escaped one, or the text that a person wrote instead."""

    def replacement(found: re.Match[str]) -> str:
        character, line, number = found.groups()
        if character or line:
            return character or "\n"
        return chr(int(number)) if int(number) <= _MAX_CODE_POINT else found[0]

    return _ESCAPE.sub(replacement, text)


def _page(project: Mapping[str, Any] | None, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield f"---\nfilrouge: {_FORMAT_VERSION}\n"
    if project is not None:
        yield from (f"{name}: {json.dumps(project[name])}\n" for name in ("id", "name", "aliases"))
    yield f"---\n\n# {escape(str(project['name'])) if project else 'User'}\n"
    sections: dict[str, list[Mapping[str, Any]]] = {
        title: [] for title in (*SECTIONS.values(), *_STATE_SECTIONS.values())
    }
    for row in rows:
        title = _STATE_SECTIONS.get(row["state"]) or SECTIONS.get(row["kind"], "Notes")
        sections[title].append(row)
    for title, section_rows in sections.items():
        if section_rows:
            yield f"\n## {title}\n\n"
            yield from map(_export_line, section_rows)


def _export_line(row: Mapping[str, Any]) -> str:
    text = str(row["text"])
    rest = {name: value for name, value in row.items() if name != "text" and value != _DEFAULTS.get(name, ...)}
    # Both occur only inside JSON strings, where escapes are allowed; unescaped they could end the comment early.
    comment = json.dumps({**rest, "sum": _checksum(text)}).replace("--", "-\\u002d").replace("<", "\\u003c")
    return f"- {escape(text)} {_OPENING}{comment}{_CLOSING}\n"


def _read_line(page: Page, number: int, line: str) -> None:
    words, opening, comment = line.rpartition(_OPENING)
    if not opening:
        if line.startswith("- "):
            page.problems.append((number, "is not a memory: add it with `filrouge remember`"))
        return
    row = _parse_comment(comment)
    if row is None or not words.startswith("- "):
        page.problems.append((number, "is damaged: its comment or the dash before its words is missing or broken"))
        return
    text = unescape(words[2:].removesuffix(" "))
    if row.pop("sum", None) != _checksum(text):
        how = f"`filrouge supersede {row['id']}` replaces it"
        page.problems.append((number, f"was edited; an existing memory does not change: {how}"))
    page.memories.append({**_DEFAULTS, **row, "text": text})


def _parse_comment(comment: str) -> dict[str, Any] | None:
    try:
        found: object = json.loads(comment.removesuffix(_CLOSING)) if comment.endswith(_CLOSING) else None
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
    fields = {name: value for name, _, value in (line.partition(": ") for line in stripped[1:end])}
    if fields.get("filrouge") != str(_FORMAT_VERSION):
        return None
    if "id" not in fields:
        return None, end + 1
    try:
        project = {name: json.loads(fields[name]) for name in ("id", "name", "aliases")}
    except (KeyError, ValueError):
        return None
    return project, end + 1


def plain_name(title: str) -> str:
    """Return a file name, without `.md`, that is valid on every system."""
    return _UNSAFE_CHARACTERS.sub("-", title)[:_MAX_NAME_CHARACTERS].strip(" .-") or "unnamed"


def unused_name(stem: str, used_names: Collection[str]) -> str:
    """Return a page name that is not taken, ignoring case.

    Args:
        stem: the preferred name without `.md`.
        used_names: existing names, casefolded.
    """
    name, number = f"{stem}.md", 1
    while name.casefold() in used_names:
        number += 1
        name = f"{stem} ({number}).md"
    return name


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
