"""Chunks: a note cut by its headings into parts of about a thousand characters, at paragraphs where that goes.

Short sections that follow each other share a part, long ones have several. No character but white space is lost, up to
what is read of one note at the most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from filrouge import lazy_re as re
from filrouge.model.note import Chunk, Note
from filrouge.notes.tags import without_fences

#: Characters of a part at the most, and of neighbouring sections that share one.
LONGEST: Final = 1000
_TOGETHER: Final = 500
#: Characters of a note that are read: a thick book would take the embedder minutes.
MOST_CHARACTERS: Final = 200_000
#: Of what stands above each part: a title may be a whole sentence.
_LONGEST_HEADING: Final = 200
_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
#: Where to cut a long section, the best place first.
_BREAKS: Final = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?…])\s+"), re.compile(r"\s+"))


def chunks(note: Note) -> list[Chunk]:
    """The parts of a note in their order; none where it has no text."""
    parts: list[tuple[str, str]] = []
    for heading, text in _sections(note):
        for piece in _pieces(text):
            if parts and len(parts[-1][1]) + len(piece) + 2 <= _TOGETHER:
                parts[-1] = (parts[-1][0], f"{parts[-1][1]}\n\n{piece}")
            else:
                parts.append((heading, piece))
    return [Chunk(path=note.path, part=n, heading=heading, text=text) for n, (heading, text) in enumerate(parts)]


def _sections(note: Note) -> Iterator[tuple[str, str]]:
    """Each section with the headings that it stands under; a line of code that looks like a heading is none."""
    text = note.text[:MOST_CHARACTERS]
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
    """A text in pieces that are short enough; what stands together is filled up."""
    text = text.strip()
    if not text:
        return []
    if len(text) <= LONGEST:
        return [text]
    if not breaks:
        return [text[at : at + LONGEST] for at in range(0, len(text), LONGEST)]
    found, begin = list[str](), 0
    filled = 0  # where the piece at hand may end
    for place in [*((one.start(), one.end()) for one in breaks[0].finditer(text)), (len(text), len(text))]:
        if place[0] - begin > LONGEST:
            if filled > begin:
                found.append(text[begin:filled].strip())
                begin = filled
            if place[0] - begin > LONGEST:
                found += _pieces(text[begin : place[0]], breaks[1:])
                begin = place[1]
        filled = place[1]
    return [one for one in [*found, text[begin:].strip()] if one]
