"""The graph of threads as a picture: an SVG that stands alone, on light ground and on dark, and can be read aloud.

What a colour says, a dash or a shape says too. Titles are text that somebody wrote: they are escaped, cut to two lines,
and whole in the tooltip. Nothing is fetched and nothing runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape

from filrouge.model.bridge import BRIDGE_KINDS, BridgeKind
from filrouge.model.thread import ThreadState
from filrouge.threads.graph import COLUMN, LINE, Edge, Graph, Layout, columns_of, is_directed, layout, plain

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
