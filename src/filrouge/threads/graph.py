"""The graph of threads and bridges: as text for programs (DOT), as places on a page, and as an SVG.

Pure: no database, no file.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from filrouge.core.text import is_control
from filrouge.threads.models import BRIDGE_KINDS, BridgeKind, ThreadState

# The graph of threads and bridges, as text for programs (DOT) and as places on a page.
#
# The places come from forces: ties pull, everything pushes, and then the boxes of the labels are moved apart until
# none covers another. The same graph always gets the same places.

Floats = NDArray[np.float64]

#: Of a line of a label, in columns; of an ideogram there go two.
COLUMNS: Final = 22
LINES: Final = 2
#: A column, a line, and the room around a label with its dot, in pixels.
COLUMN, LINE, ABOVE, AROUND = 6.6, 14.0, 22.0, 14.0
_SPRING: Final = 120.0
#: Pixels within which two push each other, and how strongly all are drawn to the middle.
_REACH, _HOME = 3 * _SPRING, 0.6
_ROUNDS, _APART_ROUNDS = 500, 1200
_SEED: Final = 7
#: Labels lie, so there is more room beside a dot than below it.
_STRETCH: Final = 1.35
#: A page is about this much wider than high, for those that nothing ties.
_PER_ROW: Final = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A thread on the graph."""

    id: str
    title: str
    state: ThreadState


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """A bridge on the graph. `strength` is what it weighs now, in [0, 1]."""

    source: str
    target: str
    kind: BridgeKind
    strength: float
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Graph:
    """Threads and the bridges between them; an edge to a thread that is not there is left out.

    Attributes:
        name: of their project, empty where they are of several.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    name: str = ""

    def __post_init__(self) -> None:
        known = {one.id for one in self.nodes}
        kept = tuple(one for one in self.edges if {one.source, one.target} <= known)
        object.__setattr__(self, "edges", kept)


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Where each thread's dot is, in pixels from the upper left, its label's lines, and how large the page is."""

    places: Mapping[str, tuple[float, float]]
    labels: Mapping[str, tuple[str, ...]]
    width: float
    height: float


def graph_of(body: Mapping[str, Any]) -> Graph:
    """The graph in the body of `GET /api/memory/graph`."""
    return Graph(
        nodes=tuple(Node(id=one["id"], title=one["title"], state=one["state"]) for one in body["threads"]),
        edges=tuple(
            Edge(
                source=one["source"],
                target=one["target"],
                kind=one["type"],
                strength=one["strength"],
                reason=one["reason"],
            )
            for one in body["bridges"]
        ),
        name=body["project_name"],
    )


def to_dot(graph: Graph) -> str:
    """The graph in Graphviz' language."""
    lines = ["digraph threads {", "  node [shape=box, style=rounded];"]
    styles = {"active": "rounded", "suspended": "rounded,dashed", "archived": "rounded,dotted"}
    for node in graph.nodes:
        lines.append(f"  {_quoted(node.id)} [label={_quoted(node.title)}, style={_quoted(styles[node.state])}];")
    for edge in graph.edges:
        how = f"label={_quoted(edge.kind)}, weight={1 + round(9 * edge.strength)}, tooltip={_quoted(edge.reason)}"
        arrow = "" if is_directed(edge.kind) else ", dir=none"
        lines.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [{how}{arrow}];")
    return "\n".join([*lines, "}", ""])


def is_directed(kind: BridgeKind) -> bool:
    """False for kinds that say the same of both ends."""
    return kind not in ("relates_to", "contradicts")


def layout(graph: Graph, *, top: float = 0.0, margin: float = 20.0) -> Layout:
    """Places for a graph; those that nothing ties stand in rows below the others.

    Args:
        top: pixels to leave free above.
    """
    labels = {node.id: label_lines(node.title) for node in graph.nodes}
    tied = {end for edge in graph.edges for end in (edge.source, edge.target)}
    ids = sorted(node.id for node in graph.nodes if node.id in tied)
    sizes = {id_: box_of(lines) for id_, lines in labels.items()}
    places, width, height = dict[str, tuple[float, float]](), 0.0, 0.0
    if ids:
        boxes = np.array([sizes[id_] for id_ in ids])
        spots = _apart(_forced(ids, graph.edges), boxes)
        spots -= (spots - boxes / 2).min(axis=0)
        places = {id_: (float(x), float(y)) for id_, (x, y) in zip(ids, spots, strict=True)}
        width, height = (float(one) for one in (spots + boxes / 2).max(axis=0))
    loose = sorted((node.title, node.id) for node in graph.nodes if node.id not in tied)
    width = max(width, _row_width([sizes[id_] for _, id_ in loose]))
    x, y, row = 0.0, height, 0.0
    for _, id_ in loose:
        wide, high = sizes[id_]
        if x and x + wide > width:
            x, y, row = 0.0, y + row, 0.0
        places[id_] = (x + wide / 2, y + high / 2)
        x, row = x + wide, max(row, high)
    height = y + row
    # A box is centred on its place; the dot is in its upper part.
    moved = {id_: (px + margin, py - sizes[id_][1] / 2 + ABOVE / 2 + margin + top) for id_, (px, py) in places.items()}
    return Layout(places=moved, labels=labels, width=width + 2 * margin, height=height + 2 * margin + top)


def box_of(lines: Sequence[str]) -> tuple[float, float]:
    """The room of a dot with its label, in pixels: width and height."""
    return max(map(columns_of, lines), default=0) * COLUMN + AROUND, ABOVE + LINE * len(lines) + AROUND / 2


def label_lines(title: str) -> tuple[str, ...]:
    """A title in at most two lines; what does not fit is left out, with a mark."""
    lines, rest = list[str](), " ".join(plain(title).split())
    while rest and len(lines) < LINES:
        head = _head(rest, COLUMNS)
        if head != rest and " " in head and rest[len(head)] != " ":
            head = head.rpartition(" ")[0]
        rest = rest[len(head) :].strip()
        lines.append(head.strip())
    if rest:
        lines[-1] = _head(lines[-1], COLUMNS - 1).rstrip() + "…"
    return tuple(lines) or ("(no title)",)


def plain(text: str) -> str:
    """A text without characters that no document may hold or that turn the direction of what follows."""
    return "".join(
        " " if char in "\t\n\r" else char
        for char in text
        if char in "\t\n\r" or (unicodedata.category(char) not in ("Cc", "Cs", "Co", "Cn") and not is_control(char))
    )


def columns_of(text: str) -> int:
    """How many columns a text takes."""
    return sum(_wide(char) for char in text)


def _wide(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) == "Cf":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _head(text: str, columns: int) -> str:
    """As much of the beginning of a text as goes into so many columns; at least one character."""
    taken = 0
    for place, char in enumerate(text):
        taken += _wide(char)
        if taken > columns:
            return text[: max(place, 1)]
    return text


def _quoted(text: str) -> str:
    escaped = plain(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _row_width(sizes: Sequence[tuple[float, float]]) -> float:
    """Width of a page on which so many boxes stand in rows."""
    if not sizes:
        return 0.0
    per_row = min(len(sizes), _PER_ROW)
    return max(max(wide for wide, _ in sizes), per_row * sum(wide for wide, _ in sizes) / len(sizes))


def _forced(ids: Sequence[str], edges: Sequence[Edge]) -> Floats:
    """Where forces bring them: ties pull the more the stronger they are, and everything pushes."""
    number, index = len(ids), {id_: place for place, id_ in enumerate(ids)}
    pull = np.zeros((number, number))
    for edge in edges:
        first, second = index[edge.source], index[edge.target]
        pull[first, second] = pull[second, first] = max(pull[first, second], 0.5 + 0.5 * edge.strength)
    turn = np.linspace(0.0, 2 * np.pi, number, endpoint=False)
    spots = _SPRING * np.sqrt(number) / 2 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    spots += np.random.default_rng(_SEED).normal(0.0, _SPRING / 20, (number, 2))
    for step in range(_ROUNDS):
        between = spots[:, None] - spots[None]
        far = np.maximum(np.linalg.norm(between, axis=2), 1.0)
        push = np.where(far < _REACH, _SPRING**2 / far**2, 0.0)
        force = (between * (push - pull * far / _SPRING)[:, :, None]).sum(axis=1) - _HOME * spots
        length = np.maximum(np.linalg.norm(force, axis=1, keepdims=True), 1e-9)
        spots += force / length * np.minimum(length, _SPRING * (1.0 - step / _ROUNDS) / 2)
    spots[:, 0] *= _STRETCH
    return spots


def _apart(spots: Floats, boxes: Floats) -> Floats:
    """Boxes moved apart until none covers another, each pair along the way that is shorter."""
    spots, needed = spots.copy(), (boxes[:, None] + boxes[None]) / 2
    number = len(spots)
    order = np.arange(number)
    for _ in range(_APART_ROUNDS):
        between = spots[:, None] - spots[None]
        lacking = needed - np.abs(between)
        both = (lacking[:, :, 0] > 0.01) & (lacking[:, :, 1] > 0.01)
        np.fill_diagonal(both, val=False)
        if not both.any():
            break
        side = np.where(between != 0, np.sign(between), np.sign(order[:, None] - order[None])[:, :, None])
        across = lacking[:, :, 0] < lacking[:, :, 1]
        move = np.zeros_like(between)
        move[:, :, 0] = np.where(both & across, lacking[:, :, 0], 0.0)
        move[:, :, 1] = np.where(both & ~across, lacking[:, :, 1], 0.0)
        step = (move * side).sum(axis=1) / np.maximum(both.sum(axis=1), 1)[:, None]
        spots += 0.55 * step
    return spots


# The graph of threads as a picture: an SVG that stands alone, on light ground and on dark, and can be read aloud.
#
# What a colour says, a dash or a shape says too. Titles are text that somebody wrote: they are escaped, cut to two
# lines, and whole in the tooltip. Nothing is fetched and nothing runs.

#: Colour on light ground, on dark, and dashes.
_KINDS: Final[dict[BridgeKind, tuple[str, str, str]]] = {
    "extends": ("#2b7a4b", "#6fc493", ""),
    "depends_on": ("#a85f00", "#e5a04b", ""),
    "contradicts": ("#c22f27", "#ff7a70", "7 3"),
    "supports": ("#1f7a88", "#62bfcd", "1 3"),
    "refines": ("#6654b8", "#a99bf0", "10 3 2 3"),
    "relates_to": ("#8593a3", "#7f8b99", ""),
    "child_of": ("#4b5866", "#b4bfca", "3 3"),
}
_KIND_NAMED: Final[dict[str, BridgeKind]] = {kind: kind for kind in BRIDGE_KINDS}
_STATES: Final[tuple[ThreadState, ...]] = ("active", "suspended", "archived")
_RADIUS: Final = 6.0
_TOP, _LEGEND_LINE = 54.0, 20.0
_LEAST_WIDTH: Final = 420.0


def to_svg(graph: Graph) -> str:
    """The picture."""
    heading = f"Threads of {graph.name}" if graph.name else "Threads"
    kinds: list[BridgeKind] = [kind for kind in BRIDGE_KINDS if any(edge.kind == kind for edge in graph.edges)]
    states = [state for state in _STATES if any(node.state == state for node in graph.nodes)]
    keys: list[tuple[str, str]] = [*(("state", one) for one in states), *(("kind", one) for one in kinds)]
    inner = layout(graph)
    width = max(inner.width, _LEAST_WIDTH)
    rows = _legend_rows(keys, width)
    top = _TOP + _LEGEND_LINE * len(rows)
    shift = (width - inner.width) / 2
    height = inner.height + top
    told = f"{len(graph.nodes)} threads and {len(graph.edges)} bridges between them"
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="name told">',
        f'<title id="name">{_text(heading)}</title>',
        f'<desc id="told">{told}.</desc>',
        f"<style>{_style(kinds)}</style>",
        *(_arrow(kind) for kind in kinds if is_directed(kind)),
        '<rect class="ground" width="100%" height="100%"/>',
        f'<text class="heading" x="20" y="30">{_text(heading)}</text>',
        f'<text class="told" x="20" y="48">{told}</text>',
        *_legend(rows),
        f'<g transform="translate({shift:.1f} {top:.1f})">',
        *_edges(graph, inner),
        *_nodes(graph, inner),
        "</g>",
        "</svg>",
        "",
    ]
    return "\n".join(parts)


def _style(kinds: list[BridgeKind]) -> str:
    light = "".join(f".{kind}{{--c:{_KINDS[kind][0]}}}" for kind in kinds)
    dark = "".join(f".{kind}{{--c:{_KINDS[kind][1]}}}" for kind in kinds)
    return (
        "svg{--ground:#fff;--ink:#1d2329;--faint:#5c6873;--dot:#c9302c;font:12px system-ui,sans-serif}"
        ".ground{fill:var(--ground)}"
        "text{fill:var(--ink);paint-order:stroke;stroke:var(--ground);stroke-width:3.5px;stroke-linejoin:round}"
        ".heading{font-size:17px;font-weight:600}.told,.key{fill:var(--faint);font-size:12px}"
        ".label{text-anchor:middle}.archived text{fill:var(--faint)}"
        ".edge,.sample{fill:none;stroke:var(--c);stroke-width:1.6}.tip{fill:var(--c)}"
        ".dot{fill:var(--dot);stroke:var(--dot);stroke-width:2}"
        ".suspended .dot{fill:var(--ground)}.archived .dot{fill:var(--ground);stroke:var(--faint);stroke-dasharray:2 2}"
        f"{light}@media (prefers-color-scheme:dark){{"
        f"svg{{--ground:#14181c;--ink:#e8ecf0;--faint:#9aa6b2;--dot:#ff6b62}}{dark}}}"
    )


def _arrow(kind: BridgeKind) -> str:
    return (
        f'<marker id="to-{kind}" class="{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
        ' markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker>'
    )


def _legend_rows(keys: list[tuple[str, str]], width: float) -> list[list[tuple[float, str, str]]]:
    """The keys with their places, in as many rows as they need."""
    rows, x = list[list[tuple[float, str, str]]](), width
    for what, name in keys:
        wide = columns_of(name) * COLUMN + 52
        if not rows or x + wide > width - 20:
            rows.append([])
            x = 20.0
        rows[-1].append((x, what, name))
        x += wide
    return rows


def _legend(rows: list[list[tuple[float, str, str]]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        y = _TOP + _LEGEND_LINE * number + 10
        for x, what, name in row:
            words = f'<text class="key" x="{x + 34:.1f}" y="{y + 4:.1f}">{name.replace("_", " ")}</text>'
            if what == "state":
                mark = f'<circle class="dot" cx="{x + 20:.1f}" cy="{y:.1f}" r="{_RADIUS:.0f}"/>'
            else:
                kind = _KIND_NAMED[name]
                mark = f'<path class="sample" d="M{x:.1f} {y:.1f}h28"{_dashes(kind)}{_tip(kind)}/>'
            yield f'<g class="{name}">{mark}{words}</g>'


def _edges(graph: Graph, inner: Layout) -> Iterator[str]:
    """A line for each bridge, from dot to dot; several between the same two are bent apart."""
    drawn = Counter[tuple[str, str]]()
    titles = {node.id: node.title for node in graph.nodes}
    for edge in sorted(graph.edges, key=lambda one: (one.strength, one.source, one.target, one.kind)):
        pair = min(edge.source, edge.target), max(edge.source, edge.target)
        bend, drawn[pair] = drawn[pair], drawn[pair] + 1
        says = f"{titles[edge.source]} → {titles[edge.target]}: {edge.kind.replace('_', ' ')} ({edge.strength:.2f})"
        yield (
            f'<g class="{edge.kind}" opacity="{0.35 + 0.65 * min(max(edge.strength, 0.0), 1.0):.2f}">'
            f'<path class="edge" d="{_line(inner, edge, bend)}"{_dashes(edge.kind)}{_tip(edge.kind)}>'
            f"<title>{_text(says)}</title></path></g>"
        )


def _line(inner: Layout, edge: Edge, bend: int) -> str:
    (x0, y0), (x1, y1) = inner.places[edge.source], inner.places[edge.target]
    far = math.hypot(x1 - x0, y1 - y0) or 1.0
    ux, uy = (x1 - x0) / far, (y1 - y0) / far
    x0, y0, x1, y1 = x0 + ux * 10, y0 + uy * 10, x1 - ux * 11, y1 - uy * 11
    away = (bend + 1) // 2 * 26 * (1 if bend % 2 else -1) * (1 if edge.source < edge.target else -1)
    if not away:
        return f"M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}"
    return f"M{x0:.1f} {y0:.1f}Q{(x0 + x1) / 2 - uy * away:.1f} {(y0 + y1) / 2 + ux * away:.1f} {x1:.1f} {y1:.1f}"


def _nodes(graph: Graph, inner: Layout) -> Iterator[str]:
    for node in graph.nodes:
        x, y = inner.places[node.id]
        lines = "".join(
            f'<text class="label" x="{x:.1f}" y="{y + 22 + LINE * number:.1f}">{_text(line)}</text>'
            for number, line in enumerate(inner.labels[node.id])
        )
        says = f"<title>{_text(node.title)} ({node.state})</title>"
        dot = f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:.0f}"/>'
        yield f'<g class="{node.state}">{says}{dot}{lines}</g>'


def _dashes(kind: BridgeKind) -> str:
    return f' stroke-dasharray="{_KINDS[kind][2]}"' if _KINDS[kind][2] else ""


def _tip(kind: BridgeKind) -> str:
    return f' marker-end="url(#to-{kind})"' if is_directed(kind) else ""


def _text(text: str) -> str:
    """A text for the inside of an element."""
    return escape(plain(text), {'"': "&quot;"})
