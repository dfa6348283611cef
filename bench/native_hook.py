"""What a hook in C would save: the same inputs, handed to the same daemon by Python's hook and by `native/hook.c`.

    python bench/native_hook.py --out bench/results/native_hook.json

The two take turns. Processor time is that of the hook's process, waited for is from its start to its end; both in
milliseconds, as medians. A barest interpreter (`-I -S`, nothing loaded) is measured beside them: what any hook in
Python costs. Needs a C compiler; without one it exits with 2.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import speed

from filrouge._version import __version__
from filrouge.core.paths import socket_path

ROUNDS: Final = 100
SOURCE: Final = Path(__file__).parent / "native" / "hook.c"
TOLD: Final = tuple(f"The ledger of customer {number} listens on port {9000 + number}." for number in range(20))
ASKED: Final = "Which port does the ledger of customer 7 listen on?"


def payload(event: str, number: int, prompt: str) -> bytes:
    """The input of a hook of Claude Code."""
    fields = {"hook_event_name": event, "session_id": f"s{number}", "cwd": "/", "prompt": prompt}
    if event == "PostToolUse":
        fields |= {"tool_name": "Bash", "tool_use_id": f"t{number}"}
    return json.dumps(fields).encode()


def timed(command: Sequence[str], environ: dict[str, str], given: bytes) -> tuple[float, float, bytes]:
    """Return processor and waited milliseconds of a process, and what it printed."""
    used, begin = speed.children_cpu_seconds(), time.perf_counter()
    done = subprocess.run(command, env=environ, input=given, capture_output=True, check=False)
    waited = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    return 1000 * (speed.children_cpu_seconds() - used), 1000 * waited, done.stdout


def main() -> int:
    """Measure, print and write."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--out", type=Path)
    options = asked.parse_args()
    compiler = shutil.which("cc")
    if compiler is None:
        print("not measured: there is no C compiler (`cc`)")
        return 2
    found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="frl-") as scratch, speed.started(sys.executable) as daemon:
        native = os.path.join(scratch, "hook")
        subprocess.run([compiler, "-O2", "-o", native, str(SOURCE)], check=True)
        environ = daemon.environ
        program = os.path.join(os.path.dirname(sys.executable), "filrouge")
        commands = {
            "python": [program, "hook", "--host", "claude-code"],
            "native": [native, socket_path(environ["FILROUGE_HOME"]), __version__, "claude-code"],
        }
        for number, text in enumerate(TOLD):
            timed(commands["python"], environ, payload("UserPromptSubmit", -number - 1, text))
        daemon.settle()
        printed = dict.fromkeys(commands, 0)
        for number in range(ROUNDS):
            for kind, event in (("capture", "PostToolUse"), ("prompt", "UserPromptSubmit")):
                for place, (name, command) in enumerate(commands.items()):
                    spent, waited, output = timed(command, environ, payload(event, 2 * number + place, ASKED))
                    printed[name] += bool(output.strip())
                    found[f"{kind}, {name}"].append((spent, waited))
            spent, waited, _ = timed([sys.executable, "-I", "-S", "-c", ""], environ, b"")
            found["barest interpreter"].append((spent, waited))
    if not printed["native"] or printed["native"] != printed["python"]:
        raise SystemExit(f"the two do not print the same number of answers: {printed}")
    rows: list[dict[str, Any]] = []
    for name, figures in found.items():
        spent, waited = (round(statistics.median(column), 2) for column in zip(*figures, strict=True))
        rows.append({"what": name, "processor": spent, "waited": waited})
        print(f"| {name} | {spent:.1f} | {waited:.1f} |")
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
