"""A model is asked where a prompt belongs that the rules were not sure of: afterwards, seldom, and once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import pytest

from filrouge.core.errors import ModelUnavailable
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.erasure.service import erase
from filrouge.providers.language_models import Cascade, CascadeEntry
from filrouge.providers.models import Completion, CompletionRequest, Failure
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.testing import idle
from filrouge.threads import placing
from filrouge.threads.bridge_service import add_bridge, linked_threads
from filrouge.threads.models import Routing, ThreadCandidate, ThreadState
from filrouge.threads.placing import queue_regrouping, reconsider
from filrouge.threads.repository import ThreadDecisions, Threads
from filrouge.threads.service import merge, move, rename
from filrouge.threads.upkeep import MAX_ASKED_SHARE, ThreadSettings, queue_reconsidering
from tests.support.given import SHOP
from tests.support.spoken import (
    COUPON,
    POSTGRES,
    Adviser,
    advised,
    ask_from_now_on,
    grouped,
    reasons,
    tell,
    texts,
    threads,
    turn_of,
)

#: Near to the first prompt about the coupon, and not near enough for the rules.
OPEN = "Please look at the basket page, the voucher field there overlaps the total in Safari"
REPLY = "The field has a fixed width."
AFTER = "And the basket page shows two scroll bars in Safari on small screens"


@pytest.fixture
def model() -> Adviser:
    return Adviser()


@pytest.fixture
def parts(tmp_path: Path, model: Adviser) -> Generator[Parts]:
    """A suspended thread about the coupon, and nobody to be asked yet."""
    with advised(tmp_path / "home", model, extract_provider="") as found:
        tell(found, "old", COUPON[0], days_ago=6)
        tell(found, "b", POSTGRES[1])
        yield found


def apart(parts: Parts) -> set[frozenset[str]]:
    """What was said, thread by thread."""
    return {frozenset(one) for one in grouped(parts) if one}


def sets_of(*groups: Sequence[str]) -> set[frozenset[str]]:
    """Groups as `apart` gives them."""
    return {frozenset(group) for group in groups}


def advise(parts: Parts, turn_id: str, *, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Have a model asked about a prompt, and something happen between the question and its answer."""
    ask_from_now_on(parts)
    outcome = reconsider(parts, {"turn": turn_id})
    meanwhile()
    parts.writer.run(outcome.write)
    assert outcome.again() is None


def of(parts: Parts, text: str) -> str:
    return next(one["id"] for one in threads(parts) if text in texts(parts, one["id"]))


def wake(parts: Parts, text: str, thread_id: str, state: ThreadState = "suspended") -> None:
    """Place a prompt as the rules do that wake a thread for it without being sure."""
    turn_id = turn_of(parts, text)
    caps = parts.readers.here(lambda tx: ThreadSettings.of(parts.settings(tx)))
    [one] = placing.prepare_prompts(parts, [turn_id], parts.vectors, caps)

    def write(tx: Tx) -> None:
        tx.run("threads.displace", {"turns": json.dumps([turn_id])})
        best = ThreadCandidate(
            thread_id=thread_id, state=state, embedding=0.3, topics=0.2, exact=False, own=False, similarity=0.26
        )
        woken = Routing(
            action="reactivate", thread_id=thread_id, similarity=0.26, candidates=(best,), reason="", borderline=True
        )
        known = {thread_id: Threads(tx).get(thread_id)}
        placing.apply_routing(parts, tx, one, woken, known, parts.vectors, caps)

    parts.writer.run(write)


def woken(parts: Parts) -> str:
    """The thread about the coupon, woken for a prompt that the rules were not sure of."""
    coupon = of(parts, COUPON[0])
    tell(parts, "c", OPEN)
    wake(parts, OPEN, coupon)
    tell(parts, "c", REPLY, kind="reply")
    tell(parts, "c", AFTER)
    assert sorted(texts(parts, coupon)) == sorted([COUPON[0], OPEN, REPLY, AFTER])
    return coupon


def test_a_yes_puts_the_prompt_where_it_belongs_with_all_that_followed_it(parts: Parts, model: Adviser) -> None:
    tell(parts, "c", OPEN)
    tell(parts, "c", REPLY, kind="reply")
    tell(parts, "c", AFTER)
    assert apart(parts) == sets_of(COUPON[:1], POSTGRES[1:], [OPEN, REPLY, AFTER])
    coupon, opened = of(parts, COUPON[0]), of(parts, OPEN)
    model.related, model.sure = True, 0.9
    advise(parts, turn_of(parts, OPEN))
    assert apart(parts) == sets_of(POSTGRES[1:], [COUPON[0], OPEN, REPLY, AFTER])
    [it] = [one for one in threads(parts) if one["id"] == coupon]
    assert (it["status"], it["conversations"]) == ("active", 2)
    assert parts.readers.here(lambda tx: Threads(tx).get(opened)).merged_into == coupon


def test_why_a_turn_is_there_tells_what_the_rules_had_said_and_that_a_model_was_asked(
    parts: Parts, model: Adviser
) -> None:
    tell(parts, "c", OPEN)
    model.related, model.sure = True, 0.9
    advise(parts, turn_of(parts, OPEN))
    rules, asked = reasons(parts, OPEN)
    assert (rules["action"], rules["actor"], rules["borderline"], rules["model"]) == ("new", "rules", True, None)
    assert (asked["action"], asked["actor"], asked["model"]) == ("reactivate", "model", "scripted/scripted")
    assert asked["thread_id"] == of(parts, COUPON[0])


def test_a_prompt_that_the_session_said_afterwards_about_something_else_does_not_go_along(
    parts: Parts, model: Adviser
) -> None:
    tell(parts, "c", OPEN)
    tell(parts, "c", "Does the staging certificate of the shop need a renewal before winter?")
    stray = "Does the staging certificate of the shop need a renewal before winter?"
    move(parts, [turn_of(parts, stray)], of(parts, POSTGRES[1]))
    tell(parts, "c", AFTER)
    model.related, model.sure = True, 0.9
    advise(parts, turn_of(parts, OPEN))
    assert set(texts(parts, of(parts, COUPON[0]))) == {COUPON[0], OPEN}
    assert stray in texts(parts, of(parts, POSTGRES[1]))


def test_a_no_parts_a_prompt_from_the_thread_that_the_rules_woke_which_sleeps_again(
    parts: Parts, model: Adviser
) -> None:
    coupon = woken(parts)
    model.sure = 0.9
    advise(parts, turn_of(parts, OPEN))
    assert apart(parts) == sets_of(COUPON[:1], POSTGRES[1:], [OPEN, REPLY, AFTER])
    [it] = [one for one in threads(parts) if one["id"] == coupon]
    assert (it["status"], it["messages"]) == ("suspended", 1)
    [fresh] = [one for one in threads(parts) if one["id"] == of(parts, OPEN)]
    assert fresh["title"]
    assert (fresh["status"], fresh["parent"], fresh["channel"]) == ("active", None, "claude-code")
    last = reasons(parts, OPEN)[-1]
    assert (last["action"], last["actor"], last["borderline"]) == ("new", "model", False)


def test_a_no_leaves_a_prompt_that_the_rules_did_not_put_there(parts: Parts, model: Adviser) -> None:
    tell(parts, "c", OPEN)
    before = apart(parts)
    model.sure = 0.9
    advise(parts, turn_of(parts, OPEN))
    assert apart(parts) == before
    assert [one["actor"] for one in reasons(parts, OPEN)] == ["rules", "model"]


@pytest.mark.parametrize("related", [True, False])
def test_who_is_not_sure_leaves_the_decision_of_the_rules(parts: Parts, model: Adviser, related: bool) -> None:
    woken(parts)
    before = apart(parts)
    model.related, model.sure = related, 0.4
    advise(parts, turn_of(parts, OPEN))
    assert apart(parts) == before
    assert "not sure" in reasons(parts, OPEN)[-1]["reason"]


def test_what_nobody_can_read_leaves_the_decision_and_is_not_asked_again(parts: Parts, model: Adviser) -> None:
    tell(parts, "c", OPEN)
    before = apart(parts)
    model.broken = "I would rather not."
    for _ in range(2):
        advise(parts, turn_of(parts, OPEN))
    assert apart(parts) == before
    assert len(model.asked) == 2, "one question and its repair"
    assert "unreadable" in reasons(parts, OPEN)[-1]["reason"]


def test_who_answers_too_late_leaves_the_decision_and_is_not_asked_again(tmp_path: Path) -> None:
    class Slow(Adviser):
        async def complete(self, request: CompletionRequest) -> Completion:
            if request.seconds:
                self.asked.append(request)
                await asyncio.sleep(60)
            return await super().complete(request)

    slow = Slow()
    with advised(tmp_path, Cascade([CascadeEntry(model=slow, seconds=60)]), related=0.01) as parts:
        tell(parts, "old", COUPON[0], days_ago=6)
        tell(parts, "b", POSTGRES[1])
        tell(parts, "c", OPEN)
        assert apart(parts) == sets_of([OPEN], COUPON[:1], POSTGRES[1:])
        assert len(slow.about("thread")) == 1
        assert "in time" in reasons(parts, OPEN)[-1]["reason"]


def test_where_nobody_answers_the_question_waits_until_it_is_not_worth_asking(parts: Parts, model: Adviser) -> None:
    tell(parts, "c", OPEN)
    ask_from_now_on(parts)
    down = Failure(provider="scripted", model="scripted", kind="connection", detail="down")
    model.broken = ModelUnavailable("down", failures=(down,))
    with pytest.raises(ModelUnavailable):
        reconsider(parts, {"turn": turn_of(parts, OPEN)})
    tell(parts, "e", AFTER, days_ago=0.3)
    wake(parts, AFTER, of(parts, COUPON[0]))
    asked = len(model.asked)
    reconsider(parts, {"turn": turn_of(parts, AFTER)})
    assert len(model.asked) == asked


def by_renaming(parts: Parts, coupon: str) -> None:
    rename(parts, coupon, "Vouchers")


def by_moving(parts: Parts, coupon: str) -> None:
    move(parts, [turn_of(parts, OPEN)], of(parts, POSTGRES[1]))


def by_merging(parts: Parts, coupon: str) -> None:
    merge(parts, coupon, of(parts, POSTGRES[1]))


@pytest.mark.parametrize("related", [True, False])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("change", [by_renaming, by_moving, by_merging])
def test_what_a_user_did_before_the_question_or_the_answer_stands(
    parts: Parts, model: Adviser, change: Callable[[Parts, str], None], before: bool, related: bool
) -> None:
    coupon = woken(parts)
    model.related, model.sure = related, 1.0
    done = list[set[frozenset[str]]]()

    def act() -> None:
        change(parts, coupon)
        done.append(apart(parts))

    if before:
        act()
    advise(parts, turn_of(parts, OPEN), meanwhile=(lambda: None) if before else act)
    assert apart(parts) == done[0]
    assert "model" not in {one["actor"] for one in reasons(parts, OPEN)}
    assert len(model.about("thread")) == (0 if before else 1)


def test_what_is_forgotten_meanwhile_is_not_brought_back(parts: Parts, model: Adviser) -> None:
    tell(parts, "c", OPEN)
    stray = turn_of(parts, OPEN)
    model.related, model.sure = True, 1.0
    advise(parts, stray, meanwhile=lambda: erase(parts, [stray]))
    assert apart(parts) == sets_of(POSTGRES[1:], COUPON[:1])
    advise(parts, stray)
    assert len(model.about("thread")) == 1


def test_a_candidate_that_is_forgotten_meanwhile_takes_nothing(parts: Parts, model: Adviser) -> None:
    tell(parts, "c", OPEN)
    model.related, model.sure = True, 1.0
    gone = turn_of(parts, COUPON[0])
    advise(parts, turn_of(parts, OPEN), meanwhile=lambda: erase(parts, [gone]))
    assert apart(parts) == sets_of([OPEN], POSTGRES[1:])


def test_whoever_dies_before_the_answer_is_written_asks_again_and_writes_it_once(parts: Parts, model: Adviser) -> None:
    tell(parts, "c", OPEN)
    ask_from_now_on(parts)
    model.related, model.sure = True, 0.9
    stray = {"turn": turn_of(parts, OPEN)}
    first = reconsider(parts, stray)

    def dying(tx: Tx) -> None:
        first.write(tx)
        raise OSError("the process ends here")

    with pytest.raises(OSError, match="ends here"):
        parts.writer.run(dying)
    assert len(reasons(parts, OPEN)) == 1
    second = reconsider(parts, stray)
    for _ in range(2):
        parts.writer.run(second.write)
    parts.writer.run(reconsider(parts, stray).write)
    assert apart(parts) == sets_of(POSTGRES[1:], [COUPON[0], OPEN])
    assert [one["actor"] for one in reasons(parts, OPEN)] == ["rules", "model"]
    assert len(model.about("thread")) == 2
    assert parts.readers.here(lambda tx: Journal(tx).verify()).sound


def test_with_a_model_the_question_is_asked_by_itself_and_without_one_or_in_light_mode_it_is_not(
    tmp_path: Path,
) -> None:
    for provider, mode, questions in (("openai", "normal", 1), ("", "normal", 0), ("openai", "light", 0)):
        model = Adviser(related=True, sure=0.9)
        with advised(tmp_path / (provider + mode), model, extract_provider=provider, mode=mode) as parts:
            tell(parts, "old", COUPON[0], days_ago=6)
            tell(parts, "b", POSTGRES[1])
            tell(parts, "c", OPEN)
            assert len(model.about("thread")) == questions
            assert len(threads(parts)) == 3 - questions
            assert [one.seconds for one in model.about("thread")] == [5.0] * questions


def test_of_five_prompts_one_may_be_asked_about_however_many_are_open(parts: Parts, model: Adviser) -> None:
    tell(parts, "many", *(f"And the coupon on the checkout page for country number {n}?" for n in range(23)))
    known = [one["id"] for one in threads(parts)]
    ids = parts.readers.here(lambda tx: [id_ for one in known for id_ in Threads(tx).turns(one)])
    assert len(ids) == 25
    coupon = of(parts, COUPON[0])

    def leave_open(tx: Tx) -> None:
        best = ThreadCandidate(
            thread_id=coupon, state="suspended", embedding=0.3, topics=0.2, exact=False, own=False, similarity=0.2
        )
        for turn in parts.turns(tx).get(ids):
            where = Threads(tx).of_turns([turn.id])[turn.id]
            routing = Routing(
                action="new", thread_id=where, similarity=0.2, candidates=(best,), reason="", borderline=True
            )
            ThreadDecisions(tx).log(turn.id, where, routing, at=turn.at)
            queue_reconsidering(parts, tx, turn, routing)

    ask_from_now_on(parts)
    for _ in range(3):
        parts.writer.run(leave_open)
        parts.work_waiting.set()
        idle(parts)
    assert len(model.about("thread")) == MAX_ASKED_SHARE * len(ids)


def test_no_other_agents_thread_is_shown_to_a_model_where_agents_are_isolated(parts: Parts, model: Adviser) -> None:
    tell(parts, "c", OPEN, host="codex")
    parts.writer.run(lambda tx: StoredSettings(tx).put({"isolation": True}, parts.clock.now()))
    model.related, model.sure = True, 1.0
    advise(parts, turn_of(parts, OPEN))
    assert model.about("thread") == []


def test_the_question_is_in_the_language_of_the_prompt(parts: Parts, model: Adviser) -> None:
    french = "Regarde la page du panier, le champ du coupon cache le total dans Safari"
    tell(parts, "c", french)
    wake(parts, french, of(parts, COUPON[0]))
    advise(parts, turn_of(parts, french))
    [asked] = model.about("thread")
    assert asked.prompt.version.startswith("thread/fr/")


def look_again(parts: Parts) -> None:
    parts.writer.run(lambda tx: queue_regrouping(parts.clock, tx, LOCAL_USER, SHOP[0]))
    parts.work_waiting.set()
    idle(parts)


def test_what_a_model_parted_is_not_brought_together_again_until_a_user_does(parts: Parts, model: Adviser) -> None:
    tell(parts, "c", COUPON[2])
    coupon = of(parts, COUPON[0])
    assert COUPON[2] in texts(parts, coupon)
    wake(parts, COUPON[2], coupon)
    model.sure = 0.9
    advise(parts, turn_of(parts, COUPON[2]))
    before = apart(parts)
    look_again(parts)
    assert apart(parts) == before
    tell(parts, "c", COUPON[1])
    assert COUPON[1] not in texts(parts, coupon), "a young thread does not join it either"
    merge(parts, of(parts, COUPON[2]), coupon)
    look_again(parts)
    assert {COUPON[0], COUPON[1], COUPON[2]} == set(texts(parts, coupon))


def test_what_a_model_put_into_a_thread_is_not_taken_out_again(parts: Parts, model: Adviser) -> None:
    tell(parts, "d", COUPON[2], COUPON[1])
    stray = POSTGRES[0]
    tell(parts, "e", stray)
    coupon = of(parts, COUPON[0])
    wake(parts, stray, coupon)
    look_again(parts)
    assert stray not in texts(parts, coupon), "else nothing would be shown"
    wake(parts, stray, coupon)
    model.related, model.sure = True, 1.0
    advise(parts, turn_of(parts, stray))
    look_again(parts)
    assert stray in texts(parts, coupon)


def test_a_thread_that_is_left_without_a_prompt_says_where_they_are_and_its_ties_follow(
    parts: Parts, model: Adviser
) -> None:
    tell(parts, "c", OPEN)
    emptied, coupon, database = of(parts, OPEN), of(parts, COUPON[0]), of(parts, POSTGRES[1])
    add_bridge(parts, source=emptied, target=database, kind="depends_on")
    model.related, model.sure = True, 0.9
    advise(parts, turn_of(parts, OPEN))
    idle(parts)
    [merged] = parts.readers.here(lambda tx: Threads(tx).some([emptied]))
    assert (merged.state, merged.merged_into, merged.turns, merged.summary) == ("archived", coupon, 0, "")
    [tie] = parts.readers.here(lambda tx: linked_threads(parts.clock, tx, database, parts.clock.now()))
    assert (tie.thread_id, tie.kind) == (coupon, "depends_on")
