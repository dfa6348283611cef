"""Many clients at once are served as if one came after the other, and nobody is ever told that something is locked.

The crowd uses every door of a real daemon side by side. What it saw is held against the order in which the store wrote
it. On top, hypothesis lets small groups change the same facts at once and looks for an order of one after the other
that explains every answer and the whole state.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from filrouge.core.errors import BadInput
from filrouge.core.scope import LOCAL_USER
from filrouge.daemon import client
from filrouge.memories import changes
from filrouge.memories.changes import put_fact
from filrouge.runtime.services import Parts
from filrouge.testing import running
from tests.support.crowd import KEYS, Crowd
from tests.support.serial import Seen, contradictions
from tests.support.tiers import examples, is_proof

from . import processes

SECONDS = 12.0 if is_proof() else 3.0
WORK_LEFT_SECONDS = 120.0


@pytest.fixture(scope="module")
def crowd() -> Any:
    """What a crowd did to a daemon that has finished with it, and still runs."""
    with processes.throw_away_home() as home, processes.daemon(home):
        crowd = Crowd(home=home)
        crowd.let_loose(SECONDS)
        processes.eventually("the daemon has understood all", lambda: processes.quiet(home), WORK_LEFT_SECONDS)
        yield crowd


@pytest.mark.law
def test_nobody_in_a_crowd_meets_an_error_or_a_lock(crowd: Crowd) -> None:
    assert crowd.failures == []
    assert [deed for deed in crowd.deeds if deed.trouble] == []
    assert {deed.door for deed in crowd.deeds} == {"REST", "MCP", "hook", "command"}
    log = processes.places.inside(crowd.home, processes.places.LOG)
    with open(log, encoding="utf-8") as file:
        assert [line for line in file if "locked" in line.lower() or " ERROR " in line] == []


@pytest.mark.law
def test_what_a_crowd_did_to_a_fact_happened_one_after_the_other(crowd: Crowd) -> None:
    written = [one for seen in crowd.registers.values() for one in seen if one.wrote]
    assert len(written) > len(KEYS)
    for key, seen in crowd.registers.items():
        assert contradictions(order_of(crowd.home, key), seen) == []


@pytest.mark.law
def test_every_word_of_a_crowd_that_was_acknowledged_is_there_once(crowd: Crowd) -> None:
    turns = [row["text"] for row in processes.left(crowd.home).turns]
    assert sorted(text for text in turns if text in set(crowd.said)) == sorted(crowd.said)
    assert asked(crowd.home, "GET", "/api/audit/verify")["sound"] is True


def order_of(home: str, key: str) -> list[str]:
    """The values of a key, in the order in which the store wrote them."""
    facts = [fact for fact in asked(home, "GET", "/api/memory/facts?history=true") if fact["key"] == key]
    after = {fact["supersedes"]: fact for fact in facts}
    assert len(after) == len(facts)
    order, last = list[str](), None
    while last in after:
        order.append(after[last]["value"])
        last = after[last]["id"]
    assert len(order) == len(facts)
    return order


def asked(home: str, method: str, path: str) -> Any:
    reply = client.request(home, method, path, timeout=60.0)
    assert reply.status == 200, reply.value
    return reply.value


def one_after_the_other(values: Sequence[int]) -> list[Seen]:
    """Writes of these values, each read again before the next."""
    seen = list[Seen]()
    for at, value in enumerate(values):
        seen.append(Seen(value=str(value), began=at, ended=at + 0.4, wrote=True))
        seen.append(Seen(value=str(value), began=at + 0.5, ended=at + 0.9, wrote=False))
    return seen


@given(st.lists(st.integers(), min_size=3, max_size=9, unique=True), st.data())
def test_a_history_that_no_single_client_could_have_made_is_noticed(values: list[int], data: st.DataObject) -> None:
    seen, order = one_after_the_other(values), [str(value) for value in values]
    first = data.draw(st.integers(0, len(values) - 2))
    assert contradictions(order, seen) == []
    swapped = [*order[:first], order[first + 1], order[first], *order[first + 2 :]]
    assert contradictions(swapped, seen) != []
    assert contradictions([*order[:first], *order[first + 1 :]], seen) != []
    assert contradictions([*order, "nobody's"], seen) != []
    stale = replace(seen[2 * first + 1], began=len(values), ended=len(values) + 1)
    assert contradictions(order, [*seen, stale]) != []


Verb = Literal["put", "bin", "restore", "pin", "unpin", "supersede"]
REFUSED = "refused"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What somebody wants: of a key a new value, or of a memory something else."""

    verb: Verb
    target: str
    value: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A memory as the model knows it."""

    key: str
    value: str
    state: str = "live"
    pinned: bool = False
    chain: str = ""


World = dict[str, Known]


def foreseen(world: World, wish: Wish, answer: str) -> tuple[World, bool]:
    """The world after a wish whose answer was this (the id of what is new, `refused`, or nothing); whether it fits."""
    if wish.verb == "put":
        holder = next((id_ for id_, one in world.items() if one.key == wish.target and one.state == "live"), None)
        return _replaced(world, holder, wish.target, wish.value, answer)
    before = world[wish.target]
    live = before.state == "live"
    if wish.verb == "supersede":
        return _replaced(world, wish.target, before.key, wish.value, answer) if live else (world, answer == REFUSED)
    if wish.verb == "restore":
        held = any(
            one.state == "live" and (one.key == before.key or one.chain == before.chain) for one in world.values()
        )
        after = replace(before, state="live")
        return (world, answer == REFUSED) if live or held else (world | {wish.target: after}, answer == "")
    if not live:
        return world, answer == REFUSED
    changed = replace(before, state="binned") if wish.verb == "bin" else replace(before, pinned=wish.verb == "pin")
    return world | {wish.target: changed}, answer == ""


def _replaced(world: World, old: str | None, key: str, value: str, answer: str) -> tuple[World, bool]:
    if answer in ("", REFUSED):
        return world, False
    if old is None:
        return world | {answer: Known(key=key, value=value, chain=answer)}, True
    before = world[old]
    new = Known(key=key, value=value, pinned=before.pinned, chain=before.chain)
    return world | {old: replace(before, state="superseded"), answer: new}, True


class SeveralAtOnce(RuleBasedStateMachine):
    """Groups that change the same facts at the same moment."""

    def __init__(self) -> None:
        super().__init__()
        self._open = ExitStack()
        self._number = 0
        self.world: World = {}

    @initialize()
    def begin(self) -> None:
        home = self._open.enter_context(processes.throw_away_home())
        self.parts: Parts = self._open.enter_context(running(home))
        self._pool = self._open.enter_context(ThreadPoolExecutor(4))

    @rule(data=st.data(), size=st.integers(1, 4))
    def together(self, data: st.DataObject, size: int) -> None:
        wishes = [self._drawn(data) for _ in range(size)]
        answers = list(self._pool.map(self._carried_out, wishes))
        there = self._there()
        for order in permutations(zip(wishes, answers, strict=True)):
            world, fits = self.world, True
            for wish, answer in order:
                world, well = foreseen(world, wish, answer)
                fits = fits and well
            if fits and shown(world) == there:
                self.world = world
                return
        raise AssertionError(
            f"no order explains {list(zip(wishes, answers, strict=True))} from {self.world} to {there}"
        )

    @invariant()
    def a_key_has_one_live_fact_at_the_most(self) -> None:
        live = [one.key for one in self.world.values() if one.state == "live"]
        assert len(live) == len(set(live))

    def teardown(self) -> None:
        self._open.close()

    def _drawn(self, data: st.DataObject) -> Wish:
        self._number += 1
        verbs: tuple[Verb, ...] = ("put", "bin", "restore", "pin", "unpin", "supersede")
        verb = data.draw(st.sampled_from(verbs)) if self.world else "put"
        target = data.draw(st.sampled_from(sorted(self.world) if verb != "put" else ["city", "editor"]))
        return Wish(verb=verb, target=target, value=f"value {self._number}")

    def _carried_out(self, wish: Wish) -> str:
        try:
            match wish.verb:
                case "put":
                    return put_fact(self.parts, wish.target, wish.value, names=[], scope="user").memory_id
                case "supersede":
                    return changes.supersede(self.parts, wish.target, wish.value).new_id
                case "bin":
                    changes.bin_memory(self.parts, wish.target)
                case "restore":
                    changes.restore(self.parts, wish.target)
                case "pin" | "unpin":
                    changes.pin(self.parts, wish.target, pinned=wish.verb == "pin")
        except BadInput:
            return REFUSED
        return ""

    def _there(self) -> dict[str, tuple[str, str, str, bool]]:
        found = self.parts.readers.here(
            lambda tx: self.parts.memories(tx).within(project=None, user=LOCAL_USER, everywhere=True, all_states=True)
        )
        return {one.id: (one.key or "", one.value or "", one.state, one.pinned) for one in found}


def shown(world: World) -> dict[str, tuple[str, str, str, bool]]:
    return {id_: (one.key, one.value, one.state, one.pinned) for id_, one in world.items()}


TestSeveralAtOnce = SeveralAtOnce.TestCase
TestSeveralAtOnce.settings = settings(max_examples=examples(4), stateful_step_count=12, deadline=None)
