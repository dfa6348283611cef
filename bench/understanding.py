"""Understanding without any model: supersedes, the latest value, recorded sessions, evidence.

    python bench/understanding.py --data DIR --hosts DIR --check --out bench/results/understanding

`--data` holds the update pairs (`audn.*`) and the chats that strangers' turns are taken from (`longmemeval_s.*`);
`--hosts` the recorded agent sessions with `expected.json`. How a supersede is judged is told in `update_pairs.py`.
Development splits: half of each set is held out. With `--check` the command exits 1 when a gate is missed:

- share of update pairs superseded correctly >= .45 (goal .75);
- precision over all supersedes, strangers' included, >= .95; turns that supersede a stranger's memory <= .01;
- recorded sessions: expected items learned >= .85, stored things that must not be 0;
- memories whose span proves every word: 1.00.

Beside them, without a gate: contradictions that end in a conflict, the newest version ranked first for the label's
question, restatements that add nothing, the sentences of developers (tests/unit/extraction/corpus.py), and an ablation:
the same pairs decided in memory with one rule left out.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, get_args

import update_pairs
from recorded import Replayed, replayed
from update_pairs import Crowd, Judged, Pair

from filrouge.capture.models import Turn
from filrouge.core.scope import Scope
from filrouge.extraction.decide import Check, decide
from filrouge.extraction.heuristics import extract
from filrouge.extraction.model_answers import is_supported
from filrouge.memories.models import Add, Memory, Neighbour, Statement, Update
from filrouge.runtime.services import Parts
from filrouge.testing import running

STRANGERS: Final = 1200
_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)
_CORPUS: Final = Path(__file__).parent.parent / "tests" / "unit" / "extraction"


def wilson(hits: int, n: int) -> tuple[float, float]:
    """The interval of 95 % of a share."""
    if n == 0:
        return 0.0, 1.0
    z, p = 1.96, hits / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def share(hits: int, n: int) -> dict[str, Any]:
    low, high = wilson(hits, n)
    return {"hits": hits, "n": n, "share": round(hits / max(1, n), 4), "low": round(low, 4), "high": round(high, 4)}


@contextmanager
def home() -> Generator[Parts]:
    """A whole Filrouge with the bundled model on a home of its own."""
    folder = tempfile.mkdtemp(prefix="filrouge-understanding-")
    try:
        with running(folder, embedding="") as parts:
            yield parts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def supersedes(verdicts: Sequence[Judged], everybody: Crowd) -> dict[str, Any]:
    """The figures of the pairs, by source, with those of the crowd."""
    updates = [one for one in verdicts if one.pair.category == "update"]
    denials = [one for one in verdicts if one.pair.category == "contradiction"]
    asked = [one for one in updates if one.newest_first is not None]
    right = sum(len(one.right) for one in updates)
    wrong = sum(len(one.wrong) for one in verdicts)
    return {
        "correct supersede": share(sum(bool(one.right) for one in updates), len(updates)),
        "by source": {
            source: share(
                sum(bool(one.right) for one in updates if one.pair.source == source),
                sum(one.pair.source == source for one in updates),
            )
            for source in sorted({one.pair.source for one in updates})
        },
        "both versions learned": share(sum(one.learned_old and one.learned_new for one in updates), len(updates)),
        "precision": share(right, right + wrong + len(everybody.false)),
        "false supersede": share(len(everybody.false), everybody.turns),
        "of one matter, not counted": everybody.related,
        "contradiction ends in a conflict": share(sum(bool(one.conflicts) for one in denials), len(denials)),
        "contradiction superseded": share(sum(bool(one.wrong) for one in denials), len(denials)),
        "strangers in conflict": share(len(everybody.against), everybody.turns),
        "newest version first": share(sum(bool(one.newest_first) for one in asked), len(asked)),
    }


def proved(places: Sequence[str], told: update_pairs.Told) -> dict[str, Any]:
    """The memories whose every word stands in the span they cite."""
    good = total = 0
    for place in places:
        for memory, text in told.proofs(place):
            total += 1
            span = memory.evidence[0].span
            stated = Statement(kind=memory.kind, text=memory.text, span=span)
            good += is_supported(stated, text)
    return share(good, total)


def ablation(parts: Parts, found: Sequence[Pair]) -> dict[str, dict[str, Any]]:
    """Correct and wrong supersedes of the pairs, decided in memory, with one part left out at a time."""
    checks: tuple[Check, ...] = get_args(Check)
    plain = {"everything": _decided(parts, found)}
    less = {f"without {check}": _decided(parts, found, without=frozenset({check})) for check in checks}
    return (
        plain
        | less
        | {
            "without claims": _decided(parts, found, claimed=False),
            "without similarity": _decided(None, found),
        }
    )


def _decided(
    parts: Parts | None, found: Sequence[Pair], *, without: frozenset[Check] = frozenset(), claimed: bool = True
) -> dict[str, Any]:
    right = wrong = pairs = 0
    for pair in found:
        done = _alone(parts, pair, without, claimed)
        good = [pair.category == "update" and update_pairs.answers(pair, *one) for one in done]
        right, wrong = right + sum(good), wrong + len(good) - sum(good)
        pairs += any(good)
    return {"pairs": pairs, "right": right, "wrong": wrong}


def _alone(parts: Parts | None, pair: Pair, without: frozenset[Check], claimed: bool) -> list[tuple[str, str]]:
    """The supersedes of an old message's memory by a new message's, in one pair."""
    live: list[tuple[Memory, int]] = []
    done: list[tuple[str, str]] = []
    for number, text in pair.messages:
        for statement in extract(_prompt(text), with_claims=claimed):
            near = [Neighbour(memory=m, similarity=_similarity(parts, statement.text, m.text)) for m, _ in live]
            decision = decide(statement, near, skip_checks=without)
            if isinstance(decision, Update):
                gone = [one for one in live if one[0].id in decision.old_ids]
                done += [(m.text, statement.text) for m, n in gone if n in pair.old and number in pair.new]
                live = [one for one in live if one not in gone]
            if isinstance(decision, Update | Add):
                live.append((_memory(statement, f"m{len(live)}-{number}-{statement.span.start}"), number))
    return done


def _prompt(text: str) -> Turn:
    return Turn(
        id="t", key="k", scope=Scope(project="p"), host="bench", role="user", source="prompt",
        text=text, at=_DAY, trust=2,
    )  # fmt: skip


def _memory(statement: Statement, id_: str) -> Memory:
    return Memory(
        id=id_, scope=Scope(project="p"), scope_name=statement.scope, kind=statement.kind, text=statement.text, trust=2,
        created_at=_DAY, valid_from=_DAY, subject=statement.subject, key=statement.key, value=statement.value,
    )  # fmt: skip


def _similarity(parts: Parts | None, one: str, other: str) -> float:
    made = parts.vectors.passages([one, other]) if parts else None
    return parts.vectors.space.calibrated(float(made[0] @ made[1])) if parts and made is not None else 0.0


def corpus() -> dict[str, dict[str, Any]]:
    """Precision and recall on the sentences of developers, tuned on and held out."""
    sys.path.insert(0, str(_CORPUS))
    import corpus as sentences  # pyright: ignore[reportMissingImports]

    return {"tuned on": _heard(sentences.TUNE), "held out": _heard(sentences.HELD_OUT)}  # pyright: ignore


def _heard(cases: Sequence[Any]) -> dict[str, Any]:
    found = hits = wanted = 0
    for case in cases:
        left = list(extract(_prompt(case.text)))
        found, wanted = found + len(left), wanted + len(case.wanted)
        for one in case.wanted:
            hit = next((s for s in left if _is(one, s)), None)
            if hit is not None:
                left = [s for s in left if s is not hit]
                hits += 1
    return {"precision": share(hits, found), "recall": share(hits, wanted)}


def _is(wanted: Any, found: Statement) -> bool:
    right_words = all(re.search(pattern, found.text, re.IGNORECASE) for pattern in wanted.must)
    return right_words and found.scope == wanted.scope and found.kind in wanted.kinds.split()


def sessions(seen: Replayed) -> dict[str, Any]:
    return {
        "learned": share(seen.expected - len(seen.missing), seen.expected),
        "missing": seen.missing,
        "replaced items no longer believed": share(seen.superseded, seen.replaceable),
        "stored things that must not be": len(seen.forbidden),
        "memories": seen.memories,
    }


def gates(figures: dict[str, Any]) -> list[tuple[str, float, str, bool]]:
    pairs, recorded = figures["pairs"], figures["recorded sessions"]
    rows = [
        ("correct supersede", pairs["correct supersede"]["share"], ">= .45", 0.45, True),
        ("precision of supersedes", pairs["precision"]["share"], ">= .95", 0.95, True),
        ("false supersede on unrelated turns", pairs["false supersede"]["share"], "<= .01", 0.01, False),
        ("recorded sessions learned", recorded["learned"]["share"], ">= .85", 0.85, True),
        ("stored things that must not be", float(recorded["stored things that must not be"]), "0", 0.0, False),
        ("evidence", figures["evidence"]["share"], "1.00", 1.0, True),
    ]
    return [(name, value, gate, value >= limit if up else value <= limit) for name, value, gate, limit, up in rows]


def table(figures: dict[str, Any], command: str) -> str:
    """The figures as a page."""
    lines = [
        "# Understanding without a model",
        "",
        f"`{command}`",
        "",
        "Development splits; the other halves are held out. Intervals of 95 % (Wilson).",
        "What counts as right is told in `bench/update_pairs.py`.",
        "",
        "| gate | value | asked | |",
        "|---|--:|--:|---|",
        *(
            f"| {n} | {value:.3f} | {gate} | {'holds' if ok else '**missed**'} |"
            for n, value, gate, ok in gates(figures)
        ),
        "",
        "| figure | n | share | 95 % |",
        "|---|--:|--:|---|",
        *_shares(figures, ""),
        "",
        "| pairs decided in memory | pairs right | supersedes right | wrong |",
        "|---|--:|--:|--:|",
        *(f"| {n} | {row['pairs']} | {row['right']} | {row['wrong']} |" for n, row in figures["ablation"].items()),
        "",
    ]
    return "\n".join(lines)


def _shares(figures: dict[str, Any], name: str) -> Iterator[str]:
    if "low" in figures:
        yield f"| {name} | {figures['n']} | {figures['share']:.3f} | {figures['low']:.3f} to {figures['high']:.3f} |"
        return
    for key, value in figures.items():
        if isinstance(value, dict) and key != "ablation":
            yield from _shares(value, f"{name}: {key}" if name else key)  # pyright: ignore[reportUnknownArgumentType]


def measure(data: Path, hosts: Path) -> dict[str, Any]:
    found, dropped = update_pairs.pairs(data)
    with home() as parts:
        told = update_pairs.Told(parts)
        verdicts = update_pairs.judged(told, found)
        evidence = proved([pair.id for pair in found], told)
        restated = update_pairs.restated(told, found)
        left_out = ablation(parts, found)
    with home() as parts:
        everybody = update_pairs.crowd(parts, found, update_pairs.probes(data, STRANGERS))
    return {
        "pairs": supersedes(verdicts, everybody) | {"dropped": dropped, "restatement adds nothing": restated},
        "evidence": evidence,
        "recorded sessions": sessions(replayed(hosts)),
        "sentences of developers": corpus(),
        "ablation": left_out,
    }


def main() -> int:
    options = argparse.ArgumentParser(description="understanding without a model")
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--hosts", type=Path, required=True)
    options.add_argument("--out", help="where FILE.json and FILE.md are written")
    options.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    given = options.parse_args()
    wanted = [given.data / "audn.jsonl.xz", given.data / "audn.labels.jsonl", given.data / "longmemeval_s.jsonl.xz"]
    missing = [str(path) for path in (*wanted, given.hosts / "expected.json") if not path.exists()]
    if missing:
        print(f"no data: {', '.join(missing)}")
        return 2
    figures = measure(given.data, given.hosts)
    command = "python bench/understanding.py --data DIR --hosts DIR --check --out bench/results/understanding"
    page = table(figures, command)
    if given.out:
        Path(f"{given.out}.json").write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        Path(f"{given.out}.md").write_text(page, encoding="utf-8")
    print(page)
    held = gates(figures)
    missed = [name for name, _, _, ok in held if not ok]
    correct = figures["pairs"]["correct supersede"]["share"]
    named = f": missed {', '.join(missed)}" if missed else ""
    print(f"correct supersede {correct:.3f}; {len(held) - len(missed)} of {len(held)} gates hold{named}")
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
