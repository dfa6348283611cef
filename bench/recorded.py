"""The recorded agent sessions through the product: what was learned of what should be, and what should not have been.

The payloads go through the hook's own code to a real daemon with the bundled model, transcripts included, in the order
they happened. `expected.json` was written by hand; an item counts as learned when one memory, or two of one scope
together, match every pattern of it.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filrouge.cli import client, hook
from filrouge.daemon import process
from filrouge.daemon.handover import Input


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """What came of the recordings.

    Attributes:
        missing: names of expected items that no memory says.
        superseded: of the items that a later one replaces, how many are no longer believed.
        replaceable: how many items a later one replaces.
        forbidden: what must not be stored and is, with the id of its rule.
        memories: everything stored, history included.
    """

    expected: int
    missing: list[str]
    superseded: int
    replaceable: int
    forbidden: list[tuple[str, str]]
    memories: int


def replayed(recordings: Path) -> Replayed:
    """Play everything to a daemon on a home of its own, and compare."""
    base = tempfile.mkdtemp(prefix="filrouge-understanding-")
    before = {name: os.environ.get(name) for name in ("FILROUGE_HOME", "FILROUGE_DISABLED")}
    os.environ["FILROUGE_HOME"] = home = os.path.join(base, "home")
    os.environ.pop("FILROUGE_DISABLED", None)
    try:
        process.ensure_running(home)
        return _compared(recordings)
    finally:
        subprocess.run([sys.executable, "-m", "filrouge.cli.main", "daemon", "stop"], check=False, timeout=60)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(base, ignore_errors=True)


def _compared(recordings: Path) -> Replayed:
    expected: dict[str, Any] = json.loads((recordings / "expected.json").read_text(encoding="utf-8"))
    for label in expected["order"]:
        _play(recordings / ("claude-code" if label.startswith("c") else "codex"), label)
    if not client.poll(client.is_idle, 120):
        raise TimeoutError("the daemon is still busy after two minutes")
    memories: list[dict[str, Any]] = [
        one for kind in ("facts", "rules") for one in client.ask("GET", f"/api/memory/{kind}", query={"history": True})
    ]
    learn: dict[str, dict[str, Any]] = expected["learn"]
    live = [one for one in memories if one["state"] == "live"]
    replaced = [item for item in learn.values() if "superseded_by" in item]
    return Replayed(
        expected=len(learn),
        missing=[name for name, item in learn.items() if not _says(item, memories)],
        superseded=sum(
            all(_all(learn[item["superseded_by"]], [one]) for one in live if _all(item, [one])) for item in replaced
        ),
        replaceable=len(replaced),
        forbidden=[
            (rule["id"], str(one["text"]))
            for rule in expected["never"]
            for one in memories
            if re.search(rule["pattern"], str(one["text"]), re.IGNORECASE)
        ],
        memories=len(memories),
    )


def _play(folder: Path, label: str) -> None:
    sessions: list[dict[str, Any]] = json.loads((folder / "sessions.json").read_text(encoding="utf-8"))
    session = next(one for one in sessions if one["label"] == label)
    for line in (folder / "payloads.jsonl").read_text(encoding="utf-8").splitlines():
        payload = json.loads(line)
        if payload["session_id"] == session["session_id"]:
            told = json.dumps(payload | {"transcript_path": str(folder / session["file"])}).encode()
            hook.run(["--host", folder.name], Input(told), lambda _: None, os.environ)


def _says(item: dict[str, Any], memories: list[dict[str, Any]]) -> bool:
    pairs = itertools.combinations_with_replacement(memories, 2)
    return any(_all(item, [a, b]) for a, b in pairs if (a["scope"], a["project"]) == (b["scope"], b["project"]))


def _all(item: dict[str, Any], said: list[dict[str, Any]]) -> bool:
    text = "\n".join(str(one["text"]) for one in said)
    return all(re.search(pattern, text, re.IGNORECASE) for pattern in item["must"])
