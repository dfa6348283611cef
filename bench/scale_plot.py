"""The growth of recall as a picture: both axes logarithmic, with the line that time proportional to size would take.

Called by `bench/scale.py`. The colours are of middle lightness and the ground is left open, so that the picture can be
read on white and on black.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

WIDTH, HEIGHT = 760, 470
LEFT, RIGHT, TOP, BOTTOM = 74, 560, 84, 400
#: What is drawn, its colour, how far its name stands below its last point.
SERIES: Final = (
    ("both", "#d6453d", "words and meaning"),
    ("both, 1 %", "#b07d2b", "the same, filter of 1 %"),
    ("both, 99 %", "#8a63b5", "the same, filter of 99 %"),
    ("words", "#3f86c8", "words alone"),
    ("meaning", "#4d9b6a", "meaning alone"),
)
_APART: Final = 17.0


class Axes:
    """Where a size and a time lie on the picture."""

    def __init__(self, sizes: Sequence[float], times: Sequence[float]) -> None:
        self.sizes = (math.log10(min(sizes)), max(math.log10(max(sizes)), math.log10(min(sizes)) + 1))
        self.times = (math.floor(math.log10(min(times))), math.ceil(math.log10(max(times))))

    def x(self, size: float) -> float:
        low, high = self.sizes
        return LEFT + (RIGHT - LEFT) * (math.log10(size) - low) / (high - low)

    def y(self, time: float) -> float:
        low, high = self.times
        return BOTTOM - (BOTTOM - TOP) * (math.log10(time) - low) / (high - low)

    def drawn(self) -> Iterator[str]:
        for power in range(self.times[0], self.times[1] + 1):
            y = self.y(10.0**power)
            yield f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT}"/>'
            yield f'<text class="tick" text-anchor="end" x="{LEFT - 9}" y="{y + 4:.1f}">{10.0**power:g}</text>'
        for power in range(math.ceil(self.sizes[0]), math.floor(self.sizes[1]) + 1):
            x = self.x(10.0**power)
            yield f'<path class="axis" d="M{x:.1f} {BOTTOM}v5"/>'
            yield f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{BOTTOM + 21}">{10**power:,}</text>'
        yield f'<path class="axis" d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}"/>'


def drawing(rows: Sequence[Mapping[str, Any]]) -> str:
    """The whole picture as SVG."""
    sizes = [row["size"] for row in rows]
    first, last = rows[0]["both"]["p50"], rows[-1]["size"]
    times = [row[name][share] for row in rows for name, _, _ in SERIES for share in ("p50", "p95")]
    axes = Axes(sizes, times)
    lines = [*_head(), *axes.drawn(), *_linear(axes, sizes[0], first, last)]
    for name, colour, _ in SERIES:
        for share, dashed in (("p95", ' stroke-dasharray="2 4"'), ("p50", "")):
            points = " ".join(f"{axes.x(row['size']):.1f},{axes.y(row[name][share]):.1f}" for row in rows)
            lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>')
        for row in rows:
            at = f'cx="{axes.x(row["size"]):.1f}" cy="{axes.y(row[name]["p50"]):.1f}"'
            lines.append(f'<circle {at} r="3" fill="{colour}"/>')
    return "\n".join([*lines, *_names(axes, rows[-1]), "</svg>"]) + "\n"


def _head() -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-labelledby="scale-title scale-desc">'
    )
    yield '<title id="scale-title">Time of one search, by the number of turns stored</title>'
    yield (
        '<desc id="scale-desc">Both axes are logarithmic. The lines of every kind of search rise less steeply than the '
        "dashed line of a time proportional to the size.</desc>"
    )
    yield (
        "<style>text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#7b828c}"
        ".title{font-size:17px;font-weight:600}.tick,.note{font-size:12px}.name{font-size:12.5px}"
        ".axis{stroke:#7b828c;fill:none}.grid{stroke:#7b828c;stroke-opacity:.22;fill:none}"
        ".linear{stroke:#7b828c;stroke-width:1.3;stroke-dasharray:7 5;fill:none}</style>"
    )
    yield f'<text class="title" x="{LEFT}" y="30">Time of one search, by the number of turns stored</text>'
    yield (
        f'<text class="note" x="{LEFT}" y="52">milliseconds, without embedding the question; '
        "full lines: median, dotted: 95th percentile</text>"
    )
    yield f'<text class="note" text-anchor="middle" x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 46}">turns stored</text>'


def _linear(axes: Axes, size: float, time: float, last: float) -> Iterator[str]:
    """From the first median as far as the picture goes."""
    end = min(last, size * 10 ** axes.times[1] / time)
    x, y = axes.x(end), axes.y(time * end / size)
    yield f'<path class="linear" d="M{axes.x(size):.1f} {axes.y(time):.1f}L{x:.1f} {y:.1f}"/>'
    yield f'<text class="name" text-anchor="end" x="{x - 34:.1f}" y="{y + 13:.1f}">as the size</text>'


def _names(axes: Axes, row: Mapping[str, Any]) -> Iterator[str]:
    """Each line's name at its end, pushed apart where they meet."""
    wanted = sorted((axes.y(row[name]["p50"]), colour, text) for name, colour, text in SERIES)
    y = -math.inf
    for place, colour, text in wanted:
        y = max(place, y + _APART)
        yield f'<path d="M{RIGHT + 3} {place:.1f}L{RIGHT + 16} {y:.1f}" stroke="{colour}" fill="none"/>'
        yield f'<text class="name" x="{RIGHT + 20}" y="{y + 4:.1f}" style="fill:{colour}">{text}</text>'
