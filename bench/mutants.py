"""Plant one mutant in each of eleven places, and see which test of `make test` catches it.

    .venv/bin/python bench/mutants.py [PLACE ...]

Each is an exact replacement in one file, taken back afterwards. The tests named beside it are a part of what
`make test` runs; `--all` runs all of that, until the first failure.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Mutant(NamedTuple):
    place: str
    path: str
    old: str
    new: str
    tests: str


MUTANTS = (
    Mutant(
        "capture", "capture/redact.py", "    return apply_until_stable(text, _redact_once)\n", "    return text\n",
        "tests/unit/capture",
    ),
    Mutant(
        "understand", "extraction/decide.py",
        "    pinned = next((memory for memory in replaced if memory.pinned), None)\n",
        "    pinned = None\n", "tests/unit/extraction/test_decide.py",
    ),
    Mutant("threads", "threads/upkeep.py", "HALF_LIFE)\n", "HALF_LIFE / 2)\n", "tests/unit/threads"),
    Mutant(
        "recall", "search/ranking.py", "alpha * vector.get(key, 0.0) for", "alpha * vector.get(key, 1.0) for",
        "tests/unit/search",
    ),
    Mutant(
        "inject", "context/block.py", "sum(size.bytes for size in sizes) <= self.room.bytes",
        "sum(size.bytes for size in sizes) >= 0", "tests/unit/context",
    ),
    Mutant(
        "store", "runtime/journal.py", '            elif not _is_intact(row):\n', "            elif False:\n",
        "tests/unit/runtime/test_journal.py",
    ),
    Mutant(
        "server", "server/admission.py", "SCOPES.index(granted) >= SCOPES.index(required)", "bool(granted)",
        "tests/security/test_scopes.py",
    ),
    Mutant(
        "hosts", "hosts/setup/entries.py", 'else "hook" in _filrouge_arguments(entry)', "else False",
        "tests/unit/hosts/test_setup.py",
    ),
    Mutant(
        "transfer", "transfer/exports.py", "        if missing > 0:\n", "        if missing < 0:\n",
        "tests/unit/transfer/test_lines.py",
    ),
    Mutant(
        "garden", "maintenance/consolidation.py", 'memory.pinned or memory.kind == "rule"', 'memory.kind == "rule"',
        "tests/unit/maintenance",
    ),
    Mutant(
        "erasure", "erasure/repository.py",
        '        self._tx.run("recalls.erase", {"ids": json.dumps(repeated)})\n', "",
        "tests/unit/erasure/test_erase.py",
    ),
)  # fmt: skip


def caught(mutant: Mutant, everything: bool) -> str:
    """The test that fails with the mutant; empty where none does."""
    path = ROOT / "src" / "filrouge" / mutant.path
    sound = path.read_text(encoding="utf-8")
    assert sound.count(mutant.old) == 1, f"{mutant.place}: stands {sound.count(mutant.old)} times in {mutant.path}"
    tests = "" if everything else mutant.tests
    try:
        path.write_text(sound.replace(mutant.old, mutant.new), encoding="utf-8")
        done = subprocess.run(
            ["make", "test", f"TESTS=-x {tests}"], cwd=ROOT, capture_output=True, text=True, check=False
        )
    finally:
        path.write_text(sound, encoding="utf-8")
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    assert found or done.returncode == 0, done.stdout + done.stderr
    return found[1] if found else ""


def main() -> int:
    places = [word for word in sys.argv[1:] if word != "--all"]
    survived = 0
    for mutant in MUTANTS:
        if not places or mutant.place in places:
            by = caught(mutant, "--all" in sys.argv)
            survived += not by
            print(f"| {mutant.place} | `{mutant.path}` | {by or 'SURVIVED'} |", flush=True)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
