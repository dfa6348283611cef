"""What the daemon imports before it answers, and the processor time of its start.

    python bench/imports.py [--before CHECKOUT/src] [--rounds 7] [--out bench/results/imports.md]

Real daemons are started on an empty home until they answer `/health`: half of them with `-X importtime`, whose own
times of all modules are added up, and half without, whose processor time is read when they answer. With `--before`,
starts of another source tree alternate with those of this one, so that what else the machine does falls on both; the
ratio of the medians is what to trust. The bytecode of both trees is compiled first. Exit 1 where the imports of a start
take more than half of what they took.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filrouge.daemon import client

HERE: Final = Path(__file__).resolve().parent.parent / "src"
MOST: Final = 0.5
_LINE: Final = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """One start.

    Attributes:
        imports: milliseconds of all imports until the daemon answers.
        modules: how many were imported until then.
        cpu: seconds of processor time until then, without `-X importtime`.
    """

    imports: float
    modules: int
    cpu: float


def start(source: Path) -> Start:
    """Start the daemon of a source tree twice on homes of its own."""
    timed = _answering(source, "-X", "importtime")
    plain = _answering(source)
    found = [(int(line[1]), line[2]) for line in map(_LINE.match, timed[1].splitlines()) if line]
    return Start(imports=sum(time for time, _ in found) / 1000, modules=len(found), cpu=plain[0])


def _answering(source: Path, *options: str) -> tuple[float, str]:
    """Processor seconds of a daemon until it answers, and what it wrote to standard error until then."""
    with tempfile.TemporaryDirectory(prefix="frl-", ignore_cleanup_errors=True) as place:
        home, errors = os.path.join(place, "home"), Path(place) / "errors"
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        environ = {**kept, "HOME": place, "FILROUGE_HOME": home, "PYTHONPATH": str(source)}
        with errors.open("wb") as file:
            command = [sys.executable, *options, "-m", "filrouge.server"]
            process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=file)
        try:
            if not client.wait_ready(home, time.monotonic() + 120):
                raise SystemExit(f"the daemon of {source} does not answer: {errors.read_text()[-400:]}")
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / _TICKS, errors.read_text()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def written(rounds: dict[str, list[Start]]) -> str:
    """The table of medians."""
    lines = ["| tree | imports, ms | modules | processor time until it answers, s |", "|---|--:|--:|--:|"]
    for name, starts in rounds.items():
        imports = statistics.median(one.imports for one in starts)
        cpu = statistics.median(one.cpu for one in starts)
        lines.append(f"| {name} | {imports:.0f} | {starts[0].modules} | {cpu:.2f} |")
    return "\n".join(lines)


def main() -> int:
    """Measure, write, and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--before", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    trees = {"before": given.before.resolve(), "now": HERE} if given.before else {"now": HERE}
    rounds: dict[str, list[Start]] = {name: [] for name in trees}
    for source in trees.values():
        start(source)  # compiles the bytecode
    for _ in range(given.rounds):
        for name, source in trees.items():
            rounds[name].append(start(source))
    ratio = None
    text = written(rounds)
    if given.before:
        cpu, imports = (
            statistics.median(getattr(one, what) for one in rounds["now"])
            / statistics.median(getattr(one, what) for one in rounds["before"])
            for what in ("cpu", "imports")
        )
        ratio = imports
        text += f"\n\nOf what it was: imports {imports:.2f}, processor time {cpu:.2f}. Gate: imports ≤ {MOST}."
    print(text)
    if given.out:
        before = " --before CHECKOUT/src" if given.before else ""
        head = f"# The daemon's start (`python bench/imports.py{before} --rounds {given.rounds} --out {given.out}`)"
        given.out.write_text(f"{head}\n\n{text}\n", encoding="utf-8")
    return int(ratio is not None and ratio > MOST)


if __name__ == "__main__":
    sys.exit(main())
