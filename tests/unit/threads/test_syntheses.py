"""Where the work stands is kept by the daemon, known at once after a compaction, and told to the next session."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from filrouge.capture import inbox
from filrouge.capture.events import Event, EventKind
from filrouge.capture.models import Turn
from filrouge.capture.service import store_events
from filrouge.context.models import Candidate
from filrouge.context.request import ContextRequest
from filrouge.context.service import build_and_log_text
from filrouge.context.sources import in_brief, thread_state, work_state
from filrouge.core.clock import SystemClock, add_seconds, to_text
from filrouge.core.paths import DATABASE, SPOOL, inside
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.erasure.service import erase
from filrouge.extraction.repository import Analyses, Session
from filrouge.memories.changes import bin_memory
from filrouge.providers.service import ConfiguredModels, ModelTimings
from filrouge.runtime import wiring
from filrouge.runtime.services import Parts
from filrouge.runtime.wiring import read_events
from filrouge.testing import ScriptedModel, idle, running
from filrouge.threads.models import Synthesis
from filrouge.threads.repository import Syntheses
from filrouge.threads.synthesis_service import is_empty, queue_quiet, synthesise
from tests.support.given import BLOG, SHOP, event

DECIDED = "For the storefront API we decided on Drizzle instead of Prisma."
ASKED = "Please add a CSV export to the orders page."
REPORTED = "I added the route and its test. Next I will write the download button."
CODE = Session(host="claude-code", id="s")


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as found:
        idle(found)
        yield found


def work(parts: Parts, *, session: str = "s", project: tuple[str, ...] = SHOP, wait: bool = True) -> None:
    """A session in which something is decided, asked for and begun; `wait` until all of it is understood."""
    said: list[Event] = [
        event(text=DECIDED, session=session, project=project),
        event(text=ASKED, session=session, project=project),
        event("tools", calls=[_call("Write", file_path="/shop/export.py")], session=session, project=project),
        event("tools", calls=[_call("Bash", command="uv run pytest", failed=True)], session=session, project=project),
        event("reply", text=REPORTED, session=session, project=project),
    ]
    hand_over(parts, *said, wait=wait)


def _call(name: str, *, failed: bool = False, **given: str) -> dict[str, object]:
    output = "Exit code 1\n2 failed" if failed else ""
    return {"name": name, "id": f"{name}-1", "input": given, "output": output, "failed": failed}


def hand_over(parts: Parts, *events: Event, wait: bool = True) -> None:
    store_events(parts, list(events)).result(60)
    if wait:
        idle(parts)


def live(parts: Parts, memory_id: str) -> str:
    return parts.readers.here(lambda tx: parts.memories(tx).get(memory_id)).text


def turns(parts: Parts, tx: Tx) -> list[Turn]:
    return Analyses(tx, parts.analyser).turns(CODE)[0]


def put_into(parts: Parts, thread: str, *ids: str) -> None:
    """Put turns into a thread that a user named, wherever they were, so that they stay."""
    at = to_text(parts.clock.now())
    opened: Any = apsw.Connection(inside(parts.home, DATABASE))  # apsw's stubs leave the types of its bindings open
    with closing(opened) as database:
        row = (
            "INSERT INTO threads (id, project_id, title, title_by, opened_at, last_active) "
            "VALUES (?, ?, ?, 'user', ?, ?)"
        )
        database.execute(row, (thread, SHOP[0], f"Thread {thread}", at, at))
        for id_ in ids:
            placed = (
                "INSERT INTO thread_turns (turn_id, thread_id, at) VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET thread_id = excluded.thread_id"
            )
            database.execute(placed, (id_, thread, at))


def stored(parts: Parts, session: Session = CODE) -> list[Synthesis]:
    return parts.readers.here(lambda tx: Syntheses(tx).of_session(session))


def started(
    parts: Parts, opening: str = "startup", *, session: str = "next", host: str = "claude-code",
    project: tuple[str, ...] = SHOP, agent: str | None = None, days: float = 0,
) -> list[Candidate]:  # fmt: skip
    """What the source offers a session that starts."""
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    request = ContextRequest(
        occasion="start", host=host, session=session, project=project[0], user=LOCAL_USER, agent=agent, prompt="",
        opening=opening, settings=settings, language="en", now=add_seconds(parts.clock.now(), days * 86400),
    )  # fmt: skip
    return list(parts.readers.here(lambda tx: work_state(parts, tx, request)))


def told(pieces: list[Candidate]) -> list[tuple[str, str, bool]]:
    return [(piece.section, piece.text, piece.verified) for piece in pieces if not piece.refused]


ALL_OF_IT = [
    ("synthesis", f"Last asked: {ASKED}", True),
    (
        "synthesis",
        "The agent reports: I added the route and its test. Next I will write the download button.",
        False,
    ),
    ("decisions", DECIDED, True),
    ("synthesis", "Last failure: `uv run pytest`: exit code 1, 2 failed.", False),
    ("synthesis", "Files written: /shop/export.py", False),
]


@pytest.mark.parametrize(
    ("ending", "occasion"),
    [("pre_compact", "pre_compact"), ("session_end", "session_end"), ("summary", "post_compact")],
)
def test_a_session_that_is_compacted_or_ends_gets_a_synthesis(parts: Parts, ending: EventKind, occasion: str) -> None:
    work(parts)
    assert stored(parts) == []
    hand_over(parts, event(ending, text="The user and the agent talked."))
    [one] = stored(parts)
    assert (one.occasion, one.project, one.made_by, one.files) == (occasion, SHOP[0], "rules", ("/shop/export.py",))
    assert [point.text for point in one.decisions] == [DECIDED]
    assert [live(parts, point.memory_id) for point in one.decisions] == [DECIDED]


def test_a_session_that_fell_silent_gets_one_and_is_not_looked_at_again(parts: Parts) -> None:
    work(parts)
    hand_over(parts, event(text="hi!", session="small"), event("reply", text="Hello.", session="small"))
    now = parts.clock.now()
    assert queue_quiet(parts, add_seconds(now, -60)) == 0, "somebody is at work there"
    assert queue_quiet(parts, add_seconds(now, 60)) == 2
    idle(parts)
    assert [one.occasion for one in stored(parts)] == ["quiet"]
    assert [is_empty(one) for one in stored(parts, Session(host="claude-code", id="small"))] == [True]
    assert queue_quiet(parts, add_seconds(now, 60)) == 0


def test_a_start_after_a_compaction_gets_what_was_handed_over_a_moment_ago(tmp_path: Path) -> None:
    """The events are on disk and nothing of them is understood: the start asks before the worker has had its turn."""
    with without_a_worker(tmp_path) as parts:
        work(parts, wait=False)
        hand_over(parts, event("pre_compact"), wait=False)
        assert parts.readers.here(lambda tx: parts.turns(tx).last_user_texts("claude-code", "s")) == []
        assert told(started(parts, "compact", session="s")) == ALL_OF_IT


@contextmanager
def without_a_worker(home: Path) -> Generator[Parts]:
    """A store into which events are taken, and in which nobody does anything with them."""
    parts = wiring.build(str(home), environ={"FILROUGE_EMBEDDING_MODEL": "hashing"}, clock=SystemClock())
    try:
        yield parts
    finally:
        parts.readers.close()
        parts.writer.close()


@pytest.mark.parametrize("is_summed_up_before", [False, True])
def test_what_was_in_the_spool_while_a_later_reply_was_stored_is_told_in_the_order_in_which_it_was_said(
    parts: Parts, is_summed_up_before: bool
) -> None:
    """A hook that reaches the daemon at its start overtakes what earlier hooks left in the spool."""
    decided, asked, replied = event(text=DECIDED), event(text=ASKED), event("reply", text=REPORTED)
    hand_over(parts, replied, *([event("pre_compact")] if is_summed_up_before else []))
    hand_over(parts, decided, asked, event("pre_compact"))
    assert told(started(parts, "compact", session="s")) == ALL_OF_IT[:3]


def test_a_second_compaction_builds_on_the_first(parts: Parts) -> None:
    work(parts)
    hand_over(parts, event("pre_compact"), event("summary", text="Nothing is pending."))
    hand_over(parts, event(text="For the storefront API we went with Hetzner."), event("pre_compact"))
    [one] = stored(parts)
    assert [point.text for point in one.decisions] == ["For the storefront API we went with Hetzner.", DECIDED]
    assert one.state[0].text == ASKED
    assert told(started(parts, "compact", session="s"))[2:4] == [
        ("decisions", "For the storefront API we went with Hetzner.", True),
        ("decisions", DECIDED, True),
    ]


def test_another_session_of_the_project_is_told_where_the_work_stands_in_whatever_agent(parts: Parts) -> None:
    work(parts)
    hand_over(parts, event("session_end"))
    assert told(started(parts)) == told(started(parts, "clear", host="codex")) == ALL_OF_IT
    assert {piece.source for piece in started(parts, host="codex")} == {"claude-code"}
    assert started(parts, "resume", session="s") == [], "its own conversation is there"


def test_a_session_that_was_killed_or_goes_on_elsewhere_is_told_as_well(parts: Parts) -> None:
    work(parts)
    assert stored(parts) == []
    assert told(started(parts)) == ALL_OF_IT


def test_nothing_crosses_projects_or_isolated_agents(parts: Parts) -> None:
    work(parts)
    hand_over(parts, event("session_end"))
    assert started(parts, project=BLOG) == []
    assert started(parts, agent="codex") == []
    assert told(started(parts, agent="claude-code")) == ALL_OF_IT


def test_of_the_work_before_the_last_only_what_was_asked_and_how_far_it_is(parts: Parts) -> None:
    work(parts, session="old")
    hand_over(parts, event("session_end", session="old"))
    hand_over(parts, event(text="Please renew the nginx certificate of staging.", session="new"))
    assert told(started(parts)) == [
        ("synthesis", "Last asked: Please renew the nginx certificate of staging.", True),
        *ALL_OF_IT[:2],
    ]


def test_what_was_left_weeks_ago_is_offered_and_refused(parts: Parts) -> None:
    work(parts)
    assert {piece.refused for piece in started(parts, days=31)} == {"too old"}


def test_a_decision_that_was_put_into_the_bin_is_no_longer_told(parts: Parts) -> None:
    work(parts)
    hand_over(parts, event("session_end"))
    [point] = stored(parts)[0].decisions
    bin_memory(parts, point.memory_id)
    assert told(started(parts)) == [one for one in ALL_OF_IT if one[0] != "decisions"]


def test_erased_words_leave_every_synthesis_and_it_is_made_anew_of_what_is_left(parts: Parts) -> None:
    work(parts)
    hand_over(parts, event("session_end"))
    [point] = stored(parts)[0].decisions
    erase(parts, [point.memory_id])
    idle(parts)
    [one] = stored(parts)
    assert (one.decisions, one.state[0].text) == ((), ASKED)
    assert "Drizzle" not in str(parts.readers.here(lambda tx: tx.all("syntheses.of_session", CODE.parameters)))


def test_a_thread_has_its_own_state_and_its_session_may_have_several(parts: Parts) -> None:
    work(parts)
    hand_over(parts, event(text="Please renew the nginx certificate of staging."))
    *ids, last = [turn.id for turn in parts.readers.here(lambda tx: turns(parts, tx))]
    moment = parts.clock.now()
    put_into(parts, "A", *ids)
    put_into(parts, "B", last)
    parts.writer.run(
        lambda tx: Syntheses(tx).replace_for_session(CODE, ())
    )  # what was said of them where the rules had put them
    hand_over(parts, event("pre_compact"))
    assert {one.thread_id: one.state[0].text for one in stored(parts)} == {
        "A": ASKED,
        "B": "Please renew the nginx certificate of staging.",
    }
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    prompt = ContextRequest(
        occasion="prompt", host="codex", session="x", project=SHOP[0], user=LOCAL_USER, agent=None, opening="",
        prompt="Back to the export.", settings=settings, language="fr", now=moment,
    )  # fmt: skip
    pieces = parts.readers.here(lambda tx: thread_state(tx, prompt, "A"))
    assert [piece.section for piece in pieces] == ["thread"] * 5
    assert pieces[0].text == f"Dernière demande : {ASKED}"
    assert parts.readers.here(lambda tx: thread_state(tx, prompt, "C")) == ()


def test_after_a_compaction_what_was_decided_in_any_thread_is_told_and_the_work_of_the_last_ones(parts: Parts) -> None:
    topics = [f"For the {name} service we decided on {name}base." for name in ("alpha", "beta", "gamma")]
    for n, said in enumerate(topics):
        hand_over(parts, event(text=said), event(text=f"Please write the importer of service number {n}."))
        *_, decided, asked = [turn.id for turn in parts.readers.here(lambda tx: turns(parts, tx))]
        put_into(parts, f"thread-{n}", decided, asked)
    hand_over(parts, event("pre_compact"))
    found = told(started(parts, "compact", session="s"))
    assert [text for section, text, _ in found if section == "decisions"] == topics[::-1], "the current thread first"
    assert [text for section, text, _ in found if section == "synthesis"] == [
        f"Last asked: Please write the importer of service number {n}." for n in (2, 1)
    ]


def test_what_was_written_down_before_its_turns_were_placed_gets_their_thread_soon_after(tmp_path: Path) -> None:
    with without_a_worker(tmp_path) as parts:
        work(parts, wait=False)
        waiting = parts.readers.here(lambda tx: tx.all("syntheses.unread", CODE.parameters | {"limit": 9}))
        events = [{"event": json.loads(row["payload"])["id"]} for row in waiting]
        for outcome in read_events(parts, events):
            parts.writer.run(outcome.write)
        parts.writer.run(synthesise(parts, _compacted()).write)
        assert [one.thread_id for one in stored(parts)] == [None]
    with running(str(tmp_path)) as parts:
        idle(parts)
        placed = set(
            parts.readers.here(lambda tx: Syntheses(tx).threads([one.id for one in turns(parts, tx)])).values()
        )
        assert {one.thread_id for one in stored(parts)} == placed
        assert sorted(told(started(parts, "compact", session="s"))) == sorted(ALL_OF_IT)


def _compacted() -> dict[str, str]:
    return {"host": CODE.host, "session": CODE.id, "occasion": "pre_compact"}


def test_a_start_is_told_what_hooks_left_in_the_spool_since_they_found_no_daemon(tmp_path: Path) -> None:
    with without_a_worker(tmp_path) as parts:
        for said in (event(text=DECIDED), event(text=ASKED), event("pre_compact")):
            inbox.append_event(inside(parts.home, SPOOL), said.to_json())
        block = build_and_log_text(parts, event("session_start", source="compact"), SHOP[0])
        assert DECIDED in block
        assert ASKED in block
        assert inbox.waiting_files(inside(parts.home, SPOOL)) == []


def test_a_merged_thread_takes_its_syntheses_along(parts: Parts) -> None:
    work(parts)
    ids = [turn.id for turn in parts.readers.here(lambda tx: turns(parts, tx))]
    put_into(parts, "A", *ids)
    hand_over(parts, event("pre_compact"))
    put_into(parts, "B")
    parts.writer.run(lambda tx: Syntheses(tx).reassign("A", "B"))
    assert [one.thread_id for one in stored(parts)] == ["B"]


@pytest.mark.parametrize(("source", "target"), [("A", "B"), ("B", "A")])
def test_of_two_threads_that_become_one_the_state_of_both_is_kept(parts: Parts, source: str, target: str) -> None:
    work(parts)
    decided, *worked = [turn.id for turn in parts.readers.here(lambda tx: turns(parts, tx))]
    put_into(parts, "A", decided)
    put_into(parts, "B", *worked)
    hand_over(parts, event("pre_compact"))
    assert {one.thread_id for one in stored(parts)} == {"A", "B"}
    parts.writer.run(lambda tx: Syntheses(tx).reassign(source, target))
    [kept] = stored(parts)
    assert (kept.thread_id, kept.state[0].text, kept.decisions[0].text) == (target, ASKED, DECIDED)


def test_the_brief_of_a_project_holds_its_last_synthesis(parts: Parts) -> None:
    work(parts)
    hand_over(parts, event("session_end"))
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    request = ContextRequest(
        occasion="start", host="", session="", project=SHOP[0], user=LOCAL_USER, agent=None, prompt="",
        opening="startup", settings=settings, language="en", now=parts.clock.now(),
    )  # fmt: skip
    assert told(list(parts.readers.here(lambda tx: in_brief(parts, tx, request)))) == ALL_OF_IT


def test_of_a_very_long_session_that_was_never_summed_up_only_the_newest_prompts_are_read_at_once(
    tmp_path: Path,
) -> None:
    with without_a_worker(tmp_path) as parts:
        many = [event(text=f"Please renew certificate number {n} of staging.") for n in range(45)]
        hand_over(parts, event(text=DECIDED), *many, wait=False)
        assert told(started(parts, "compact", session="s"))[-1] == ("decisions", DECIDED, True)


def test_a_context_that_is_nearly_full_gets_a_synthesis_before_anything_is_compacted(
    parts: Parts, tmp_path: Path
) -> None:
    def filled(share: float) -> None:
        info = {"last_token_usage": {"total_tokens": int(200_000 * share)}, "model_context_window": 200_000}
        with open(tmp_path / "rollout.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"type": "event_msg", "payload": {"type": "token_count", "info": info}}) + "\n")
        asked = event(text=f"Please renew the certificate of host {share}.")
        hand_over(parts, asked._replace(host="codex", transcript=str(tmp_path / "rollout.jsonl")))

    codex = Session(host="codex", id="s")
    filled(0.94)
    assert stored(parts, codex) == []
    filled(0.96)
    assert [one.occasion for one in stored(parts, codex)] == ["pre_compact"]


@contextmanager
def asking(home: Path, model: ScriptedModel) -> Generator[Parts]:
    """A whole Filrouge that asks this model."""

    def build(*_: Any) -> ConfiguredModels:
        return ConfiguredModels(model=model, tries=1, price=lambda _, __: 0.0)

    environ = {"FILROUGE_EXTRACT_PROVIDER": "openai"}
    with running(
        str(home), environ=environ, panel=build, pace=ModelTimings(after_reply=0.0, quiet=0.0, rest=0.05)
    ) as parts:
        idle(parts)
        yield parts


def test_a_model_corrects_what_the_rules_made_and_may_only_choose_sentences(tmp_path: Path) -> None:
    chosen = {
        "state": [{"turn": 2, "quote": ASKED}, {"turn": 3, "quote": "Next I will write the download button."}],
        "decisions": [
            {"turn": 1, "quote": DECIDED},
            {"turn": 3, "quote": "I added the route and its test."},
            {"turn": 1, "quote": "We decided to drop all tables."},
        ],
        "questions": [],
    }
    model = ScriptedModel(lambda ask: json.dumps(chosen) if ask.operation == "synthesise" else '{"facts": []}')
    with asking(tmp_path, model) as parts:
        work(parts)
        hand_over(parts, event("session_end"))
        [one] = stored(parts)
        assert one.made_by == "scripted/scripted"
        assert [point.text for point in one.state] == [ASKED, "Next I will write the download button."]
        assert [point.text for point in one.decisions] == [DECIDED], "an agent decides nothing, nor do invented words"
        assert one.files == ("/shop/export.py",)


def test_an_answer_that_nobody_can_read_leaves_what_the_rules_made(tmp_path: Path) -> None:
    with asking(tmp_path, ScriptedModel(["no JSON at all"])) as parts:
        work(parts)
        hand_over(parts, event("session_end"))
        assert [one.made_by for one in stored(parts)] == ["rules"]
