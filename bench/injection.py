"""What goes in front of a prompt, by the whole product: how much of the evidence is in the block, and what is silent.

    python bench/injection.py --data DIR                     # prints the figures
    python bench/injection.py --data DIR --check --out FILE  # exit 1 when a gate is missed; FILE gets all, as JSON

Every conversation of LoCoMo has a home of its own, filled as in `recall.py`. Each question is then a prompt of a new
session, and what is measured is the block that its hook would get: 2,000 characters, frame and headings included,
parsed back into its lines. A gold turn is **inside** when sentences that make up at least 80 % of its characters stand
word for word in one line of the block (white space aside); so a memory that says the same in other words does not
count, nor does half of a turn. The figure is the mean over questions of the share of their gold turns that are inside.

The same is asked with no silence at all (`auto_retrieve_min_score` 0), and every question once more in the home of the
next conversation, which holds no answer to it: there the block should be empty. **Plain** is what needs no product: the
turns with the best BM25 until 2,000 characters are full, one a line, no frame.

Gates: evidence inside not below plain. Goals: inside at least .70; strangers' questions silent at least .90, while
silence takes at most .03 from what is inside.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
from recall import Said, Store, event, lines, stores

from filrouge.capture.service import store_events
from filrouge.context.block import neutralise, parse
from filrouge.context.service import preview
from filrouge.runtime import wiring
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.search.service import Question, search_turns
from filrouge.testing import ManualClock, idle

BUDGET: Final = 2000
ENOUGH: Final = 0.8
GOALS: Final = {"inside": 0.70, "silent elsewhere": 0.90, "lost by silence": 0.03}
DEFAULT: Final = 0.5
_AT_ONCE: Final = 256
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_MARKS: Final = re.compile(r"^\[[^\]]*\] ")


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One question: the share of its gold turns that is inside, and the sizes of blocks.

    Attributes:
        inside, unsilenced, plain: by the product, by it with no silence, by BM25 alone.
        useful: lines of the block with a gold turn in them, of `items`.
    """

    qid: str
    group: int
    inside: float
    unsilenced: float
    plain: float
    characters: int
    items: int
    useful: int
    ms: float


def shares_inside(gold: Sequence[str], shown: Sequence[str]) -> tuple[float, int]:
    """The share of these turns that are inside these lines, and how many of the lines have one."""
    held = [[at for at, line in enumerate(shown) if _is_inside(turn, line)] for turn in gold]
    return sum(bool(one) for one in held) / len(gold), len({at for one in held for at in one})


def _is_inside(turn: str, line: str) -> bool:
    sentences = [one for one in _SENTENCE.split(_plain(turn)) if one]
    within = sum(len(one) for one in sentences if one in line)
    return within >= ENOUGH * sum(len(one) for one in sentences)


def _plain(text: str) -> str:
    return " ".join(neutralise(text).split())


def shown_in(block: str) -> list[str]:
    """The texts of a block's items."""
    return [_plain(_MARKS.sub("", line)) for line in parse(block)]


class Home:
    """One conversation in a running product."""

    def __init__(self, store: Store, embedder: str) -> None:
        self.store = store
        self._home = tempfile.mkdtemp(prefix="filrouge-injection-")
        self._clock = ManualClock(max(one.at for one in store.said) + timedelta(minutes=1))
        environ = {"FILROUGE_EMBEDDING_MODEL": embedder}
        self._running = wiring.start(self._home, environ=environ, clock=self._clock)
        for start in range(0, len(store.said), _AT_ONCE):
            store_events(self.parts, [event(one) for one in store.said[start : start + _AT_ONCE]]).result()
        idle(self.parts, 7200)

    @property
    def parts(self) -> Parts:
        return self._running.parts

    def close(self) -> None:
        self._running.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def block(self, qid: str, asked: str, at: datetime) -> tuple[str, float]:
        """What a hook would get before this prompt, with the milliseconds that it took."""
        self._clock.move(seconds=(at - self._clock.now()).total_seconds())
        prompt = event(Said(id=f"asked {qid}", session=f"asked {qid}", kind="prompt", text=asked, at=at))
        given = preview(self.parts, prompt, "")
        return given.block.text, given.milliseconds

    def silence(self, least: float) -> None:
        """From how probable on that anything is known something is shown."""
        changes: dict[str, Any] = {"auto_retrieve_min_score": least}
        self.parts.writer.run(lambda tx: StoredSettings(tx).put(changes, self._clock.now()))

    def plain(self, asked: str) -> list[str]:
        """The turns of the best BM25 until the room is full."""
        question = Question(text=asked, everywhere=True, limit=100, mode="text")
        found = self.parts.readers.here(lambda tx: search_turns(self.parts, tx, question)).hits
        taken: list[str] = []
        used = 0
        for hit in found:
            used += len(hit.text) + 1
            if used > BUDGET:
                break
            taken.append(_plain(hit.text))
        return taken


def measured(number: int, home: Home, gold: dict[str, set[str]]) -> list[Asked]:
    """Each question of the home's own conversation."""
    texts = {one.id: one.text for one in home.store.said}
    wanted = {
        qid: [texts[id_] for id_ in sorted(gold.get(qid, ())) if id_ in texts] for qid, _, _ in home.store.questions
    }
    questions = [one for one in home.store.questions if wanted[one[0]]]
    silenced = [home.block(*one) for one in questions]
    home.silence(0.0)
    loud = [home.block(*one)[0] for one in questions]
    home.silence(DEFAULT)
    found: list[Asked] = []
    for (qid, asked, _), (block, ms), whole in zip(questions, silenced, loud, strict=True):
        inside, useful = shares_inside(wanted[qid], shown_in(block))
        found.append(
            Asked(
                qid=qid,
                group=number,
                inside=inside,
                unsilenced=shares_inside(wanted[qid], shown_in(whole))[0],
                plain=shares_inside(wanted[qid], home.plain(asked))[0],
                characters=len(block),
                items=len(parse(block)),
                useful=useful,
                ms=ms,
            )
        )
    return found


def strangers(home: Home, other: Store, gold: dict[str, set[str]]) -> list[int]:
    """The characters of the blocks for another conversation's questions, asked here."""
    last = max(one.at for one in home.store.said)
    return [len(home.block(qid, asked, last)[0]) for qid, asked, _ in other.questions if gold.get(qid)]


def mean(values: Sequence[float]) -> str:
    """The mean with half an interval of 95 %."""
    return f"{np.mean(values):.3f} ± {1.96 * np.std(values) / math.sqrt(len(values)):.3f}"


def table(found: Sequence[Asked], elsewhere: dict[int, list[int]]) -> None:
    print(
        "| conversation | n | inside | with no silence | plain BM25 | silent elsewhere | tokens a block"
        " | tokens a useful line |\n|---|--:|---|---|---|---|--:|--:|"
    )
    for group in (*sorted(elsewhere), None):
        part = [one for one in found if group in (None, one.group)]
        strange = [size for at, sizes in elsewhere.items() if group in (None, at) for size in sizes]
        spoken = [one.characters / 4 for one in part if one.characters]
        useful = sum(one.useful for one in part)
        cells = [mean([getattr(one, name) for one in part]) for name in ("inside", "unsilenced", "plain")]
        silent = mean([float(size == 0) for size in strange])
        print(
            f"| {'all' if group is None else group} | {len(part)} | {' | '.join(cells)} | {silent}"
            f" | {np.mean(spoken):.0f} | {sum(spoken) / max(1, useful):.0f} |",
            flush=True,
        )


def main() -> int:
    options = argparse.ArgumentParser(description="evidence inside an injected block")
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--embedder", default="e5")
    options.add_argument("--conversations", default="", help="their numbers, by commas; without it all")
    options.add_argument("--every", type=int, default=1, help="one question in so many")
    options.add_argument("--out", type=Path, help="where the figures are written, as JSON")
    options.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    given = options.parse_args()
    if not (given.data / "locomo.labels.jsonl").exists():
        print(f"no data: locomo.labels.jsonl is not in {given.data}")
        return 2
    labelled = {row["qid"]: set(row["gold"]["turn"]) for row in lines(given.data, "locomo.labels.jsonl")}
    gold = dict(list(labelled.items())[:: given.every])
    whole = list(stores(given.data, "locomo"))
    chosen = [int(one) for one in given.conversations.split(",") if one] or list(range(len(whole)))
    found: list[Asked] = []
    elsewhere: dict[int, list[int]] = {}
    for number in chosen:
        home = Home(whole[number], given.embedder)
        try:
            found += measured(number, home, gold)
            elsewhere[number] = strangers(home, whole[(number + 1) % len(whole)], gold)
        finally:
            home.close()
        print(f"  conversation {number}: {len(found)} questions", file=sys.stderr, flush=True)
    table(found, elsewhere)
    ms = sorted(one.ms for one in found)
    figures = {
        "inside": float(np.mean([one.inside for one in found])),
        "plain": float(np.mean([one.plain for one in found])),
        "lost by silence": float(np.mean([one.unsilenced - one.inside for one in found])),
        "silent elsewhere": float(np.mean([size == 0 for sizes in elsewhere.values() for size in sizes])),
        "longest block": max(one.characters for one in found),
        "ms p50": ms[len(ms) // 2],
        "ms p95": ms[int(len(ms) * 0.95)],
    }
    print("; ".join(f"{name} {value:.3f}" for name, value in figures.items()))
    print("goals: " + ", ".join(f"{name} {'held' if holds(name, figures) else 'missed'}" for name in GOALS))
    if given.out:
        rows = [asdict(one) for one in found]
        given.out.write_text(json.dumps({"figures": figures, "elsewhere": elsewhere, "asked": rows}), encoding="utf-8")
    is_kept = figures["inside"] >= figures["plain"] and figures["longest block"] <= BUDGET
    print(
        f"gate: inside not below plain, no block above {BUDGET} characters: {'holds' if is_kept else 'does not hold'}"
    )
    return 1 if given.check and not is_kept else 0


def holds(name: str, figures: dict[str, float]) -> bool:
    """True where a goal is reached."""
    return figures[name] <= GOALS[name] if name == "lost by silence" else figures[name] >= GOALS[name]


if __name__ == "__main__":
    sys.exit(main())
