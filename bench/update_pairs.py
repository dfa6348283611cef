"""Update and contradiction pairs through the whole product, and what counts as right.

A pair is a few messages of one person, from different sessions. They are told to the product in their order, each pair
in a project of its own; then every supersede between an old and a new message is judged, mechanically:

- the superseded memory cites an `old` message, the superseding one a `new` message (by evidence, not by wording);
- both share a content word with the question or with each other;
- where the answer holds numbers, the superseding memory holds more of them (the superseded one may, where the
  question asks for what was before), or both hold all and differ in others ("5 of 5 problems"). Where it holds none,
  the same with its words; an answer that has neither (a plain yes) asks only for the shared words.

A supersede between old and new that fails this is wrong, and so is every one in a contradiction. Pairs whose first new
message stands before the first old one are dropped. What one pair does to another is measured in a second home, where
everybody's messages are in one project: first all old ones, then all new ones, then turns of other chats. Every
supersede across pairs there is false, and so is every one among the turns of other chats, whose people differ; but for
pairs of one matter: they share a message, or two words of their questions.
"""

from __future__ import annotations

import json
import lzma
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from filrouge.capture.events import Event
from filrouge.capture.repository import Turns
from filrouge.capture.service import store_events
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.profile import stem
from filrouge.extraction.vocabulary import content, fold
from filrouge.memories.models import Memory
from filrouge.projects.repository import project_id
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts
from filrouge.search.service import Question, recall
from filrouge.testing import idle

_START: Final = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
_WORDED: Final = {
    word: str(number)
    for line in (
        "zero one two three four five six seven eight nine ten eleven twelve",
        "zeroth first second third fourth fifth sixth seventh eighth ninth tenth",
    )
    for number, word in enumerate(line.split())
} | {"once": "1", "twice": "2"}
_BEFORE: Final = re.compile(r"\b(?:previous(?:ly)?|initial(?:ly)?|original(?:ly)?|before i|former(?:ly)?|at first)\b")
_SEED: Final = 7


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """The user's messages of one item, and what its label says."""

    id: str
    source: str
    category: str
    messages: Sequence[tuple[int, str]]
    old: frozenset[int]
    new: frozenset[int]
    question: str
    answer: str


@dataclass(kw_only=True, slots=True)
class Judged:
    """What became of one pair."""

    pair: Pair
    right: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])
    conflicts: list[str] = field(default_factory=list[str])
    learned_old: bool = False
    learned_new: bool = False
    newest_first: bool | None = None


def pairs(data: Path) -> tuple[list[Pair], int]:
    """The pairs in a fixed order, and how many were dropped."""
    labels = {row["qid"]: row for row in _lines(data / "audn.labels.jsonl")}
    found: list[Pair] = []
    dropped = 0
    for row in sorted(_lines(data / "audn.jsonl.xz"), key=lambda row: str(row["id"])):
        label = labels[row["id"]]
        if min(label["new"]) < min(label["old"]):
            dropped += 1
            continue
        found.append(
            Pair(
                id=row["id"],
                source=row["source"],
                category=label["category"],
                messages=[(one["n"], one["content"]) for one in row["messages"] if one["role"] == "user"],
                old=frozenset(label["old"]),
                new=frozenset(label["new"]),
                question=label["question"],
                answer=label["answer"],
            )
        )
    return found, dropped


def probes(data: Path, number: int) -> list[tuple[str, str]]:
    """Turns of other people's chats, each with the chat it is from."""
    rng, found = random.Random(_SEED), list[tuple[str, str]]()
    haystacks = list(_lines(data / "longmemeval_s.jsonl.xz"))
    for row in haystacks:
        said = [one["content"] for session in row["sessions"] for one in session["turns"] if one["role"] == "user"]
        told = [text for text in said if 20 < len(text) < 1500]
        found += [(str(row["question_id"]), text) for text in rng.sample(told, number // len(haystacks))]
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else open(path, encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())


class Told:
    """A home that is told messages, each remembered by the pair and number it came from."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._clock = _START
        self._keys: dict[str, tuple[str, int]] = {}

    def tell(self, said: Sequence[tuple[str, tuple[str, int], str]]) -> None:
        """Take in (project, origin, text), in order, and wait until all is understood."""
        events = [self._event(*one) for one in said]
        for start in range(0, len(events), 256):
            store_events(self._parts, events[start : start + 256]).result()
        idle(self._parts, 1200)

    def _event(self, project: str, origin: tuple[str, int], text: str) -> Event:
        self._clock += 60
        key = f"{origin[0]}:{origin[1]}:{self._clock:.0f}"
        self._keys[key] = origin
        return Event(
            id=blake2b(key.encode(), digest_size=13).hexdigest(),
            host="bench",
            kind="prompt",
            session=f"{project}-{origin[0]}-{origin[1]}",
            at=self._clock,
            key=key,
            cwd="",
            project=(f"name:{project}",),
            transcript="",
            agent="",
            data={"text": text},
        )

    def memories(self, project: str) -> list[tuple[Memory, frozenset[tuple[str, int]]]]:
        """Every memory of a project and of the user, history included, with the messages it cites."""
        return self._parts.readers.here(lambda tx: self._memories(tx, project))

    def _memories(self, tx: Tx, project: str) -> list[tuple[Memory, frozenset[tuple[str, int]]]]:
        place = project_id(tx, (f"name:{project}",))
        store = self._parts.memories(tx)
        found = store.within(project=place, user=LOCAL_USER, all_states=True)
        turns = Turns(tx, self._parts.analyser)
        keys = {
            turn.id: self._keys[turn.key]
            for turn in turns.get([one.turn_id for memory in found for one in memory.evidence])
            if turn.key in self._keys
        }
        return [
            (memory, frozenset(keys[one.turn_id] for one in memory.evidence if one.turn_id in keys)) for memory in found
        ]

    def proofs(self, project: str) -> list[tuple[Memory, str]]:
        """Every memory of a project with the text of the turn that its first proof is in."""

        def read(tx: Tx) -> list[tuple[Memory, str]]:
            cited = [memory for memory, _ in self._memories(tx, project) if memory.evidence]
            turns = Turns(tx, self._parts.analyser).get([memory.evidence[0].turn_id for memory in cited])
            texts = {turn.id: turn.text for turn in turns}
            return [(memory, texts[memory.evidence[0].turn_id]) for memory in cited]

        return self._parts.readers.here(read)

    def conflicts(self, memory: Memory) -> list[tuple[tuple[str, int] | None, str]]:
        """What was said against a memory, and by which message."""
        return self._parts.readers.here(lambda tx: self._conflicts(tx, memory))

    def _conflicts(self, tx: Tx, memory: Memory) -> list[tuple[tuple[str, int] | None, str]]:
        entries = [
            dict(one.payload)
            for one in Journal(tx).entries_about(memory.id)
            if one.action == "conflict" and one.payload
        ]
        turns = {turn.id: turn.key for turn in Turns(tx, self._parts.analyser).get([one["turn"] for one in entries])}
        return [(self._keys.get(turns.get(one["turn"], "")), str(one["text"])) for one in entries]

    def ranked(self, project: str, question: str) -> list[str]:
        """Ids of the memories that the product's search finds for a question, best first."""

        def ask(tx: Tx) -> list[str]:
            place = project_id(tx, (f"name:{project}",))
            return [hit.item.id for hit in recall(self._parts, tx, Question(text=question, project=place)).hits]

        return self._parts.readers.here(ask)


def judged(home: Told, found: Sequence[Pair]) -> list[Judged]:
    """Tell every pair in a project of its own; what came of each."""
    for wave in range(max(len(pair.messages) for pair in found)):
        home.tell([(pair.id, (pair.id, n), text) for pair in found for n, text in pair.messages[wave : wave + 1]])
    return [_judge(home, pair) for pair in found]


def restated(home: Told, found: Sequence[Pair]) -> float:
    """The share of the last messages' memories that telling the same again leaves as they are."""
    before = {pair.id: len(home.memories(pair.id)) for pair in found}
    last = sum(_citing(home, pair) for pair in found)
    home.tell([(pair.id, (pair.id, n), text) for pair in found for n, text in pair.messages[-1:]])
    added = sum(len(home.memories(pair.id)) - before[pair.id] for pair in found)
    return round(1 - added / max(1, last), 4)


def _citing(home: Told, pair: Pair) -> int:
    last = (pair.id, pair.messages[-1][0])
    return sum(last in cited and memory.state == "live" for memory, cited in home.memories(pair.id))


def _judge(home: Told, pair: Pair) -> Judged:
    known = home.memories(pair.id)
    verdict, by_id = Judged(pair=pair), {memory.id: (memory, cited) for memory, cited in known}
    for memory, cited in known:
        if not _from(pair, cited, pair.old):
            continue
        verdict.conflicts += [text for origin, text in home.conflicts(memory) if origin and origin[1] in pair.new]
        after = by_id.get(memory.superseded_by or "")
        if after is None or not _from(pair, after[1], pair.new):
            continue
        right = pair.category == "update" and answers(pair, memory.text, after[0].text)
        (verdict.right if right else verdict.wrong).append(f"{memory.text} -> {after[0].text}")
    olds = [memory for memory, cited in known if _from(pair, cited, pair.old) and not _from(pair, cited, pair.new)]
    news = [memory for memory, cited in known if _from(pair, cited, pair.new)]
    verdict.learned_old = any(answers(pair, one.text, other.text) for one in olds for other in news) or any(
        _bears(pair, one.text) for one in olds
    )
    best = [memory.id for memory in news if any(answers(pair, one.text, memory.text) for one in olds)]
    verdict.learned_new = bool(best)
    if best:
        ids = home.ranked(pair.id, pair.question)
        places = {id_: place for place, id_ in enumerate(ids)}
        older = [one.id for one in olds if one.state == "live" and any(answers(pair, one.text, m.text) for m in news)]
        worst = len(ids) + 1
        verdict.newest_first = min(places.get(id_, worst) for id_ in best) < min(
            [places.get(id_, worst) for id_ in older] or [worst]
        )
    return verdict


def _from(pair: Pair, cited: frozenset[tuple[str, int]], messages: frozenset[int]) -> bool:
    return any(origin == pair.id and number in messages for origin, number in cited)


def answers(pair: Pair, old: str, new: str) -> bool:
    """True when the two texts are the two versions that the question asks about; see the module's first words."""
    asked, ours, known = _stems(pair.question), _stems(new), _stems(old)
    if not ((asked & ours and asked & known) or ours & known):
        return False
    newer, older = (old, new) if _BEFORE.search(fold(pair.question)) else (new, old)
    numbers = _numbers(pair.answer)
    if numbers:
        return _told_by(numbers, _numbers(newer), _numbers(older)) or (
            newer is old and _told_by(numbers, _numbers(new), _numbers(old))
        )
    words = _stems(pair.answer) - asked
    return _told_by(words, _stems(newer) | _numbers(newer), _stems(older) | _numbers(older)) if words else True


def _told_by(answer: set[str], one: set[str], other: set[str]) -> bool:
    """True when `one` holds more of the answer, or both hold all of it and are still not the same."""
    ours, known = answer & one, answer & other
    return len(ours) > len(known) or (ours == known == answer and one != other)


def _bears(pair: Pair, text: str) -> bool:
    return bool(_stems(pair.question) & _stems(text))


def _stems(text: str) -> set[str]:
    return {stem(word) for word in content(text) if not word.isdigit()}


def _numbers(text: str) -> set[str]:
    """Every number of a text in digits: `1,350`, `three` and `5th` are 1350, 3 and 5."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", fold(text))
    digits = {one.rstrip("0").rstrip(".") if "." in one else one for one in re.findall(r"\d+(?:\.\d+)?", plain)}
    return digits | {_WORDED[word] for word in re.findall(r"[a-z]+", plain) if word in _WORDED}


@dataclass(frozen=True, kw_only=True, slots=True)
class Crowd:
    """Everybody in one project: turns told, those that superseded, or stood against, a stranger's memory.

    Attributes:
        related: supersedes between two pairs of one matter.
    """

    turns: int
    false: Sequence[str]
    against: Sequence[str]
    related: int


def one_matter(one: Pair | None, other: Pair | None) -> bool:
    """True for two pairs of one chat or matter: they share a message, or two words of their questions."""
    if one is None or other is None:
        return False
    shared = {text for _, text in one.messages} & {text for _, text in other.messages}
    return bool(shared) or len(_stems(one.question) & _stems(other.question)) >= 2


def crowd(parts: Parts, found: Sequence[Pair], strangers: Sequence[tuple[str, str]]) -> Crowd:
    """Tell everything to one project, and count what touched a memory of somebody else."""
    home, place = Told(parts), "everybody"
    olds = [(place, (pair.id, n), text) for pair in found for n, text in pair.messages if n in pair.old]
    news = [(place, (pair.id, n), text) for pair in found for n, text in pair.messages if n in pair.new]
    for said in (olds, news, [(place, (name, 1000 + n), text) for n, (name, text) in enumerate(strangers)]):
        home.tell(said)
    known = home.memories(place)
    pairs_by_id = {pair.id: pair for pair in found}
    by_id = {memory.id: cited for memory, cited in known}
    false, against, related = dict[tuple[str, int], str](), list[str](), 0
    for memory, cited in known:
        owners = {origin for origin, _ in cited}
        after = by_id.get(memory.superseded_by or "", frozenset[tuple[str, int]]())
        against += [
            text
            for origin, text in home.conflicts(memory)
            if origin and origin[0] not in owners and owners & set(pairs_by_id)
        ]
        for origin in after:
            if origin[0] in owners:
                continue
            if any(one_matter(pairs_by_id.get(origin[0]), pairs_by_id.get(owner)) for owner in owners):
                related += 1
                continue
            after_text = next(one.text for one, _ in known if one.id == memory.superseded_by)
            false[origin] = f"{memory.text} -> {after_text}"
    turns = len(olds) + len(news) + len(strangers)
    return Crowd(turns=turns, false=list(false.values()), against=against, related=related)
