"""Draw docs/concepts/similarity.svg from bench/results/calibration.json: cosines of two spaces, raw and calibrated.

    python bench/similarity_plot.py

The colours are of middle lightness and the ground is left open, so that the picture can be read on white and on black.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

ROOT: Final = Path(__file__).parents[1]
FIGURES: Final = ROOT / "bench" / "results" / "calibration.json"
PICTURE: Final = ROOT / "docs" / "concepts" / "similarity.svg"

#: The space, its name on the picture, and the rule that its values were calibrated with.
SPACES: Final = (
    ("e5", "multilingual-e5-small", "as shipped"),
    ("MiniLM", "all-MiniLM-L6-v2", "measured on the sample"),
)
KINDS: Final = (("unrelated", "#7d93ad", "unrelated"), ("same", "#d6453d", "same meaning"))
THRESHOLDS: Final = (0.35, 0.5, 0.88)
RAW: Final = (-0.2, 1.0)
CALIBRATED: Final = (0.0, 1.0)
WIDTH, HEIGHT = 880, 532
PANEL_WIDTH, PANEL_HEIGHT = 368, 132
COLUMNS: Final = (44, 476)
ROWS: Final = (122, 346)
#: Width of the Gaussian that the bins of a hundredth are smoothed with, in bins: enough for a hundred pairs.
SMOOTHING: Final = 2.2

Floats = NDArray[np.float64]


def smooth(shares: Sequence[float]) -> Floats:
    """The bins smoothed, mirrored at both ends so that nothing is lost there."""
    reach = 10
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / SMOOTHING) ** 2)
    mirrored = np.pad(np.asarray(shares, dtype=np.float64), reach, mode="symmetric")
    return np.asarray(np.convolve(mirrored, kernel / kernel.sum(), mode="valid"), dtype=np.float64)


class Panel:
    """One plot: where its values lie on the picture."""

    def __init__(self, left: float, top: float, span: tuple[float, float]) -> None:
        self.left, self.top, self.span = left, top, span
        self.bottom = top + PANEL_HEIGHT

    def x(self, value: float) -> float:
        low, high = self.span
        return self.left + PANEL_WIDTH * (value - low) / (high - low)

    def area(self, heights: Floats, colour: str) -> Iterator[str]:
        """A hill over its bins, of heights from 0 to 1."""
        heights = heights * 0.94 * PANEL_HEIGHT
        low, high = self.span
        places = low + (np.arange(len(heights)) + 0.5) * (high - low) / len(heights)
        points = [(self.x(low), heights[0]), *((self.x(at), h) for at, h in zip(places, heights, strict=True))]
        points.append((self.x(high), heights[-1]))
        line = " ".join(f"{x:.1f},{self.bottom - height:.1f}" for x, height in points)
        corners = f"{self.left:.1f},{self.bottom:.1f} {line} {self.left + PANEL_WIDTH:.1f},{self.bottom:.1f}"
        yield f'<polygon points="{corners}" fill="{colour}" fill-opacity=".32"/>'
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.8" stroke-linejoin="round"/>'

    def axis(self) -> Iterator[str]:
        right = self.left + PANEL_WIDTH
        yield f'<path class="axis" d="M{self.left} {self.bottom}H{right}"/>'
        low, high = self.span
        for tick in np.arange(low, high + 0.01, 0.2):
            value = 0.0 if abs(tick) < 1e-9 else float(tick)
            x = self.x(value)
            yield f'<path class="axis" d="M{x:.1f} {self.bottom}v4"/>'
            label = f"{value:.1f}".replace("-", "−")
            yield f'<text class="tick" x="{x:.1f}" y="{self.bottom + 17}">{label}</text>'

    def threshold(self, at: float, level: float, *, named: bool) -> Iterator[str]:
        x = self.x(at)
        yield f'<path class="threshold" d="M{x:.1f} {self.top - 4}V{self.bottom}"/>'
        if named:
            yield f'<text class="level" x="{x:.1f}" y="{self.top - 9}">{level:g}</text>'


def legend() -> Iterator[str]:
    x = 44
    for _, colour, name in KINDS:
        box = f'x="{x}" y="50" width="18" height="11" rx="2"'
        yield f'<rect {box} fill="{colour}" fill-opacity=".32" stroke="{colour}"/>'
        yield f'<text class="text" x="{x + 25}" y="60">{name}</text>'
        x += 42 + 8 * len(name)
    yield f'<path class="threshold" d="M{x + 8} 48v15"/>'
    yield f'<text class="text" x="{x + 18}" y="60">thresholds .35, .5 and .88 of the calibrated scale</text>'


def drawing() -> Iterator[str]:
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-labelledby="similarity-title similarity-desc">'
    )
    yield '<title id="similarity-title">Similarity of two texts in two embedding spaces, raw and calibrated</title>'
    yield (
        '<desc id="similarity-desc">Left: raw cosines. Unrelated pairs of multilingual-e5-small lie between 0.75 and '
        "0.87, those of all-MiniLM-L6-v2 between -0.1 and 0.5, in two hills, English and French. Right: on the "
        "calibrated scale, unrelated pairs of both lie below the threshold 0.35 and pairs of the same meaning mostly "
        "above it.</desc>"
    )
    yield (
        "<style>text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#7b828c}"
        ".title{font-size:17px;font-weight:600}.head{font-size:14px;font-weight:600}.text{font-size:13px}"
        ".tick{font-size:11.5px;text-anchor:middle}.level{font-size:11.5px;text-anchor:middle;font-weight:600}"
        ".note{font-size:12px}.name{font-size:12.5px;text-anchor:middle}.axis{stroke:#7b828c;fill:none}"
        ".threshold{stroke:#7b828c;stroke-width:1.2;stroke-dasharray:3 3;fill:none}</style>"
    )
    yield '<text class="title" x="44" y="30">The same threshold, the same meaning</text>'
    yield from legend()
    for row, (key, name, rule) in zip(ROWS, SPACES, strict=True):
        texts = figures["calibrations"][f"{key}, {rule}"]["texts"]
        cosines, levels = [cosine for cosine, _ in texts], [level for _, level in texts]
        raw, calibrated = Panel(COLUMNS[0], row, RAW), Panel(COLUMNS[1], row, CALIBRATED)
        for panel, scale in ((raw, "cosine"), (calibrated, "calibrated")):
            hills = [smooth(figures["distributions"][f"{key}, {kind} {scale}"]) for kind, _, _ in KINDS]
            highest = max(float(hill.max()) for hill in hills)
            for hill, (_, colour, _) in zip(hills, KINDS, strict=True):
                yield from panel.area(hill / highest, colour)
            yield from panel.axis()
        for level in THRESHOLDS:
            yield from raw.threshold(float(np.interp(level, levels, cosines)), level, named=False)
            yield from calibrated.threshold(level, level, named=True)
        yield f'<text class="head" x="{COLUMNS[0]}" y="{row - 27}">{name}</text>'
        zeros = [figures["distributions"][f"{key}, {kind} at 0"][0] for kind, _, _ in KINDS]
        note = f"exactly 0, not drawn: {zeros[0]:.0%} of the unrelated, {zeros[1]:.0%} of the same"
        yield f'<text class="note" x="{COLUMNS[1]}" y="{row - 27}">{note}</text>'
        for column, scale in zip(COLUMNS, ("raw cosine", "calibrated similarity"), strict=True):
            yield f'<text class="name" x="{column + PANEL_WIDTH / 2}" y="{row + PANEL_HEIGHT + 34}">{scale}</text>'
    yield "</svg>"


def main() -> None:
    PICTURE.write_text("\n".join(drawing()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
