"""A conversation is read by a model over HTTP: what it says is proven, decided and stored, whatever way it answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from filrouge.capture.service import store_events
from filrouge.erasure.service import erase
from filrouge.maintenance import health
from filrouge.providers.spending import dead_letters, extract_status
from filrouge.runtime.journal import Journal
from filrouge.runtime.services import Parts
from filrouge.testing import idle
from filrouge.threads.reports import explain_placement, get_thread_detail, list_threads
from tests.support.given import event
from tests.support.mind import AT_ONCE, Mind, fact, facts, live, operation_of, thinking
from tests.support.provider import Asked, Big, Echo, Hang, Raw, Refusal, Reply, Reset, Status, Truncated, fenced
from tests.support.tiers import is_proof

CONVERSATIONS = 100 if is_proof() else 15
PORT = "I looked into it: the live site answers on 9443 since the move, and Caddy stands in front."
READ = fact("the live site answers on 9443 since the move", "The live site answers on port 9443.", turn=2)

#: A prompt, and one of another week that is near to it, and not near enough for the rules.
COUPON = "The checkout page breaks when the coupon is empty, please find out why the coupon fails"
STRAY = "The basket breaks the layout of the voucher field in Safari, where the total overlaps it"


def talk(parts: Parts, prompt: str, reply: str, session: str = "s") -> None:
    """A prompt and its reply, and everything that follows from them."""
    store_events(parts, [event(text=prompt, session=session)]).result(60)
    store_events(parts, [event("reply", text=reply, session=session)]).result(60)
    idle(parts)


def eventually(ready: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, "still not true"
        time.sleep(0.01)


def texts(parts: Parts) -> list[str]:
    return [memory.text for memory in live(parts)]


def ids_shown(asked: Asked) -> list[str]:
    """The ids of the memories that a question about decisions shows for its first fact."""
    body = asked.text[asked.text.index("<facts>") + len("<facts>") : asked.text.index("</facts>")]
    return [memory["id"] for memory in json.loads(body)[0]["memories"]]


def deciding(action: str, **more: Any) -> Any:
    """Says this of the first fact, about the first memory that is shown."""

    def answer(asked: Asked) -> dict[str, Any]:
        shown = ids_shown(asked)
        id_ = shown[0] if shown and action != "add" else None
        return {"decisions": [{"fact": 0, "action": action, "id": id_, "text": None, "reason": "so", **more}]}

    return answer


@pytest.mark.parametrize("provider", ["openai", "anthropic", "ollama"])
def test_what_a_model_reads_in_a_reply_becomes_a_memory_that_cites_it(tmp_path: Path, provider: str) -> None:
    mind = Mind(extract=facts(READ), decide=deciding("add"))
    with thinking(tmp_path, mind, provider=provider) as (parts, server):
        talk(parts, "Where does the live site answer these days?", PORT)
        (memory,) = live(parts)
        assert memory.text == "The live site answers on port 9443."
        assert memory.trust == 1
        assert memory.made_by == f"{provider}:little"
        assert memory.prompt_version.startswith("extract/en/")
        cited = parts.readers.here(lambda tx: parts.turns(tx).get([memory.evidence[0].turn_id]))[0]
        span = memory.evidence[0].span
        assert cited.text[span.start : span.end] == READ["quote"]
        # Ollama's models are not trusted with decisions.
        expected = ["extract"] if provider == "ollama" else ["extract", "decide"]
        assert [operation_of(one) for one in server.asked] == expected


def test_every_decision_of_a_model_is_carried_out(tmp_path: Path) -> None:
    mind = Mind()
    with thinking(tmp_path, mind) as (parts, _):
        mind.extract, mind.decide = facts(READ), deciding("add")
        talk(parts, "Where does the live site answer these days?", PORT, "s1")

        moved = "By now the live site answers on 9555, we moved once more."
        newer = fact("the live site answers on 9555", "The live site answers on port 9555.", turn=2)
        mind.extract, mind.decide = facts(newer), deciding("noop")
        talk(parts, "And now, is it the same one as before?", moved, "s2")
        assert [(memory.text, memory.mention_count) for memory in live(parts)] == [(READ["text"], 2)]

        mind.decide = deciding("conflict")
        talk(parts, "And now, is it still the same one as before?", moved, "s3")
        assert texts(parts) == [READ["text"]]

        mind.decide = deciding("update")
        talk(parts, "And today, is it the same one as before?", moved, "s4")
        assert texts(parts) == ["The live site answers on port 9555."]
        assert live(parts)[0].previous_text == READ["text"]

        gone = "The live site does not answer on 9555 any more, it was shut down for good."
        over = fact(
            "The live site does not answer on 9555 any more", "The live site no longer answers on 9555.", turn=2
        )
        mind.extract, mind.decide = facts(over), deciding("delete")
        talk(parts, "What about it, is it still there at all?", gone, "s5")
        assert texts(parts) == []
        assert parts.readers.here(lambda tx: Journal(tx).verify()).sound


@pytest.mark.parametrize(
    "broken",
    ["I would rather not.", Truncated(), fenced({"nothing": 1}), Reply('{"facts": NaN}'), Reply("{" * 5000)],
    ids=["prose", "cut off", "another shape", "not a number", "deep"],
)
def test_an_answer_that_cannot_be_read_is_repaired_by_asking_once_more(tmp_path: Path, broken: Any) -> None:
    answers = [broken, fenced(facts(READ))]
    mind = Mind(extract=lambda asked: answers.pop(0) if len(answers) > 1 else answers[0], decide=deciding("add"))
    with thinking(tmp_path, mind) as (parts, _):
        talk(parts, "Where does the live site answer these days?", PORT)
        assert texts(parts) == [READ["text"]]


def test_what_cannot_be_read_twice_is_set_aside_and_blocks_nothing(tmp_path: Path) -> None:
    mind = Mind(extract="I cannot, sorry.")
    with thinking(tmp_path, mind) as (parts, server):
        talk(parts, "Where does the live site answer these days?", PORT)
        (letter,) = parts.readers.here(dead_letters)
        assert letter["answer"] == "I cannot, sorry."
        assert len(json.loads(letter["turns"])) == 2
        assert len(server.asked) == 2
        mind.extract, mind.decide = facts(fact("the queue is Redis", "The queue is Redis.", turn=2)), deciding("add")
        talk(parts, "And which queue do we have here?", "As far as I see the queue is Redis, version 7.")
        assert texts(parts) == ["The queue is Redis."]
        assert "live site" not in server.asked[2].text


def test_forgetting_takes_answers_that_quote_what_is_forgotten(tmp_path: Path) -> None:
    mind = Mind(extract=Reply("They said: the live site answers on 9443. I stop here."))
    with thinking(tmp_path, mind) as (parts, _):
        talk(parts, "Where does the live site answer these days?", PORT)
        # The prompt may have been read before the reply was there, so that there are two answers.
        turns = {turn for letter in parts.readers.here(dead_letters) for turn in json.loads(letter["turns"])}
        erase(parts, sorted(turns))
        assert parts.readers.here(dead_letters) == []


def test_what_the_agent_read_in_its_instructions_is_not_learned_from_its_saying_so(tmp_path: Path) -> None:
    line = "the live site answers on 9443 since the move"
    with thinking(tmp_path, Mind(extract=facts(READ), decide=deciding("add"))) as (parts, _):
        shown = {"name": "Read", "id": "r1", "input": {"file_path": "/home/ana/shop/CLAUDE.md"}, "output": f"- {line}"}
        store_events(parts, [event("tools", calls=[shown])]).result(60)
        talk(parts, "Where does the live site answer these days?", PORT)
        assert texts(parts) == []


@pytest.mark.parametrize(
    "trouble",
    [Status(500), Status(529), Status(429, retry_after=0), Status(401), Reset(), Raw(b"<html>"), Refusal(), Big()],
    ids=["500", "529", "429", "401", "reset", "html", "refusal", "10 MB"],
)
def test_a_provider_in_trouble_loses_nothing_and_what_waits_is_read_once_it_answers(
    tmp_path: Path, trouble: Any
) -> None:
    mind = Mind(extract=trouble)
    with thinking(tmp_path, mind) as (parts, server):
        store_events(parts, [event(text="Where does the live site answer these days?")]).result(60)
        store_events(parts, [event("reply", text=PORT)]).result(60)
        eventually(lambda: len(server.asked) > 0 and extract_status(parts)["waiting"] != [])
        assert texts(parts) == []
        mind.extract, mind.decide = facts(READ), deciding("add")
        idle(parts)
        assert texts(parts) == [READ["text"]]


@pytest.mark.law
def test_conversations_with_a_broken_provider_cost_nothing_and_are_all_read_once_it_heals(
    tmp_path: Path,
) -> None:
    mind = Mind(extract=Status(500))
    with thinking(tmp_path, mind, llm_daily_tokens="100000000") as (parts, server):
        for number in range(CONVERSATIONS):
            asked = event(text=f"Where does service {number} answer these days?", session=f"s{number}")
            told = f"As far as I see service {number} answers on {9000 + number}."
            store_events(parts, [asked, event("reply", text=told, session=f"s{number}")]).result(60)
        eventually(lambda: extract_status(parts)["behind"] == CONVERSATIONS and len(server.asked) > 0)
        status = extract_status(parts)
        assert status["today"]["tokens"] == 0
        assert sum(one["n"] for one in status["waiting"]) >= CONVERSATIONS - 2  # two may be in hand

        def read(asked: Asked) -> dict[str, Any]:
            number = asked.text.partition("service ")[2].partition(" ")[0]
            quote = f"service {number} answers on {9000 + int(number)}"
            return facts(fact(quote, f"Service {number} answers on {9000 + int(number)}.", turn=2))

        mind.extract, mind.decide = read, deciding("add")
        eventually(lambda: extract_status(parts)["behind"] == 0, 60)
        idle(parts)
        events = parts.readers.here(lambda tx: health.status(parts, tx))
        assert events["events"] == events["ledger"]["done"] == 2 * CONVERSATIONS
        assert events["queue"]["dead"] == 0
        assert len(texts(parts)) == CONVERSATIONS


def test_a_model_that_hangs_keeps_nobody_from_being_understood_by_the_rules(tmp_path: Path) -> None:
    with thinking(tmp_path, Mind(extract=Hang())) as (parts, server):
        store_events(parts, [event("reply", text=PORT, session="other")]).result(60)
        eventually(lambda: len(server.asked) == 1)
        store_events(parts, [event(text="We decided on Kafka rather than RabbitMQ for the event bus.")]).result(60)
        eventually(lambda: len(live(parts)) == 1)


def test_a_model_that_repeats_its_prompt_teaches_nothing(tmp_path: Path) -> None:
    with thinking(tmp_path, Mind(extract=Echo())) as (parts, _):
        talk(parts, "Where does the live site answer these days?", PORT)
        assert texts(parts) == []


def test_without_a_provider_nobody_is_asked(tmp_path: Path) -> None:
    with thinking(tmp_path, Mind(), extract_provider="heuristic") as (parts, server):
        talk(parts, "We decided on Kafka rather than RabbitMQ for the event bus.", PORT)
        assert len(texts(parts)) == 1
        assert server.asked == []


def test_where_understanding_is_off_what_is_said_is_kept_and_nothing_learned(tmp_path: Path) -> None:
    with thinking(tmp_path, Mind(), extract_provider="off") as (parts, server):
        talk(parts, "We decided on Kafka rather than RabbitMQ for the event bus.", PORT)
        assert texts(parts) == []
        assert extract_status(parts) == {"enabled": False}
        assert server.asked == []


def test_a_user_who_wants_the_model_alone_waits_for_it(tmp_path: Path) -> None:
    mind = Mind(extract=Status(500))
    with thinking(tmp_path, mind, analyzer_allow_offline="false") as (parts, server):
        said = "We decided on Kafka rather than RabbitMQ for the event bus."
        store_events(parts, [event(text=said)]).result(60)
        eventually(lambda: len(server.asked) > 0)
        assert texts(parts) == []
        mind.extract, mind.decide = (
            facts(fact("We decided on Kafka", "We decided on Kafka.", kind="decision")),
            deciding("add"),
        )
        idle(parts)
        assert texts(parts) == ["We decided on Kafka."]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "ollama"])
def test_a_model_puts_a_prompt_where_it_belongs_and_names_the_thread(tmp_path: Path, provider: str) -> None:
    more = "And the basket page shows two scroll bars in Safari on small screens"
    mind = Mind(
        thread={"related": True, "confidence": 0.9, "reason": "The same coupon."},
        title={"title": "Coupon of the checkout and basket", "summary": "The coupon breaks two pages."},
    )
    with thinking(tmp_path, mind, provider=provider) as (parts, server):
        last_week = event(text=COUPON, session="s1")
        store_events(parts, [last_week._replace(at=last_week.at - 6 * 86400)]).result(60)
        idle(parts)
        for text in (STRAY, more):
            store_events(parts, [event(text=text, session="s2")]).result(60)
            idle(parts)
        [one] = parts.readers.here(lambda tx: list_threads(parts, tx, (), status="all", limit=9))
        assert (one["status"], one["messages"], one["conversations"]) == ("active", 3, 2)
        assert (one["title"], one["title_by"]) == ("Coupon of the checkout and basket", "model")
        assert one["summary"] == "The coupon breaks two pages."
        asked = [it for it in server.asked if operation_of(it) in ("thread", "title")]
        assert [operation_of(it) for it in asked] == ["thread", "title"]
        assert [("coupon fails" in it.text, "Safari" in it.text) for it in asked] == [(False, True), (True, True)]
        used = extract_status(parts)["usage"]
        assert {it["operation"] for it in used} >= {"thread", "title"}
        shown = parts.readers.here(lambda tx: get_thread_detail(parts, tx, one["id"]))["turns_shown"]
        told = parts.readers.here(lambda tx: explain_placement(parts, tx, shown[1]["id"]))["decisions"]
        assert [(it["actor"], it["model"]) for it in told] == [("rules", None), ("model", f"{provider}/little")]


def test_a_model_that_hangs_does_not_keep_a_prompt_from_its_thread(tmp_path: Path) -> None:
    pace = replace(AT_ONCE, related=0.1)
    with thinking(tmp_path, Mind(thread=Hang()), pace=pace) as (parts, server):
        last_week = event(text=COUPON, session="s1")
        store_events(parts, [last_week._replace(at=last_week.at - 6 * 86400)]).result(60)
        idle(parts)
        store_events(parts, [event(text=STRAY, session="s2")]).result(60)
        idle(parts)
        assert "thread" in [operation_of(it) for it in server.asked]
        found = parts.readers.here(lambda tx: list_threads(parts, tx, (), status="all", limit=9))
        assert [one["messages"] for one in found] == [1, 1]
