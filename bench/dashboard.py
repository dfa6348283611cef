"""Writes the page about the dashboard's speed and size from what its proof measured.

FILROUGE_DASHBOARD_FIGURES=/tmp/dashboard.json make proof TESTS=tests/acceptance/test_dashboard_proof.py PROOFS=proof
python bench/dashboard.py /tmp/dashboard.json --out bench/results/dashboard.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LIMITS = {"first_paint_ms": 500.0, "interactive_ms": 1500.0, "bytes": 600_000}


def page_of(told: Mapping[str, Any]) -> str:
    """The page: each path with its slowest and largest of all languages and colour schemes."""
    rows: Sequence[Mapping[str, Any]] = told["pages"]
    paths = list(dict.fromkeys(row["path"] for row in rows))
    machine = f"{told['processors']} processors ({told['machine']}), load {told['load']:.1f}"
    lines = [
        f"# The dashboard with {told['memories']:,} memories",
        "",
        f"Real Chromium; {machine}.",
        "Each page was opened three times in each of three languages and two colour schemes; the table has the slowest",
        "median and the largest size. A page is interactive once its document is parsed and its script has run, and",
        "complete once what it fetches after its first paint has arrived, such as the preview of a forgetting. The",
        "limits: first paint 500 ms, interactive 1,500 ms, 600 KB uncompressed.",
        "",
        "| page | first paint, ms | interactive, ms | complete, ms | KB |",
        "|---|--:|--:|--:|--:|",
    ]
    for path in paths:
        worst = {name: max(row[name] for row in rows if row["path"] == path) for name in (*LIMITS, "complete_ms")}
        paint, ready, whole = worst["first_paint_ms"], worst["interactive_ms"], worst["complete_ms"]
        lines.append(f"| `{path}` | {paint:,.0f} | {ready:,.0f} | {whole:,.0f} | {worst['bytes'] / 1000:,.0f} |")
    missed = [row for row in rows if any(row[name] > limit for name, limit in LIMITS.items())]
    lines += ["", f"{len(rows) - len(missed)} of {len(rows)} measurements are within the limits."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("figures", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asked.out.write_text(page_of(json.loads(asked.figures.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
