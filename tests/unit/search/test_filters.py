"""Filters are exact: a filtered answer is that of a store which holds nothing but what passes."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given as whatever
from hypothesis import settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import Role, Turn
from filrouge.context.service import build_and_log_text
from filrouge.core.protocols import Tx
from filrouge.core.scope import Scope
from filrouge.memories.models import Filters, Kind, Span, Statement, Update
from filrouge.memories.reports import listing
from filrouge.memories.repository import Origin
from filrouge.projects.repository import Projects
from filrouge.runtime import wiring
from filrouge.runtime.services import Parts
from filrouge.search.models import Ranking
from filrouge.search.repository import LargeWords, StoredVectors, WordFiles
from filrouge.search.service import Mode, Question, recall, search_turns
from filrouge.testing import ManualClock, StableHash, idle, running
from tests.support import given
from tests.support.given import ask, event, say
from tests.support.tiers import examples

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
SHOP, BLOG = "origin:forge.example/ana/shop", "origin:forge.example/ana/blog"
EMBEDDER = StableHash()


class Item(Struct, frozen=True, kw_only=True):
    """A memory or a turn, before it is stored."""

    number: int
    words: tuple[str, ...]
    project: str
    agent: str
    channel: str
    kind: Kind
    role: Role
    trust: int
    day: int
    branch: str = ""

    @property
    def at(self) -> datetime:
        return NOON + timedelta(days=self.day, seconds=self.number)

    @property
    def id(self) -> str:
        return f"item-{self.number:02}"

    @property
    def text(self) -> str:
        return " ".join((*self.words, f"n{self.number}"))

    @property
    def scope(self) -> Scope:
        return Scope(project=self.project, agent=self.agent, channel=self.channel, session="s", branch=self.branch)

    def turn(self) -> Turn:
        return Turn(
            id=self.id, key=self.id, scope=self.scope, host=self.channel, role=self.role, source="prompt",
            text=self.text, at=self.at, trust=self.trust,
        )  # fmt: skip


@contextmanager
def holding(
    turns: Sequence[Item] = (), memories: Sequence[Item] = (), *, large: bool = False, fed: int = 99
) -> Generator[Parts]:
    """A store with these, their vectors and indexes.

    Args:
        large: search it as a large store is searched.
        fed: how many of these the word index knows; the others came a moment later.
    """
    with tempfile.TemporaryDirectory() as home:
        parts = wiring.build(home, environ={"FILROUGE_EMBEDDING_MODEL": "hashing"}, clock=ManualClock(NOON))
        if large:
            files = WordFiles(str(Path(home, "words")), parts.analyser.version)
            parts.words = LargeWords(files, parts.analyser, switch=0)
        try:
            parts.writer.run(lambda tx: fill(parts, tx, turns[:fed], memories[:fed]))
            parts.words.feed(parts.readers.here)
            parts.writer.run(lambda tx: fill(parts, tx, turns[fed:], memories[fed:]))
            wiring.load_indexes(parts)
            yield parts
        finally:
            parts.words.close()
            parts.readers.close()
            parts.writer.close()


def fill(parts: Parts, tx: Tx, turns: Sequence[Item], memories: Sequence[Item]) -> None:
    space = EMBEDDER.space.id
    for project in (SHOP, BLOG):
        Projects(tx).resolve((project,), at=NOON)
    for item in turns:
        assert parts.turns(tx).add(item.turn())
        StoredVectors(tx).put("turn", item.id, space, EMBEDDER.passages([item.text]))
    for item in memories:
        made = parts.memories(tx).add(statement(item), origin(item), "new")
        StoredVectors(tx).put("memory", made.memory_id, space, EMBEDDER.passages([item.text]))


def statement(item: Item) -> Statement:
    return Statement(kind=item.kind, text=item.text, span=Span(start=0, end=0), scope="project")


def origin(item: Item) -> Origin:
    return Origin(scope=item.scope, trust=item.trust, at=item.at)


def asked(parts: Parts, question: Question, what: Literal["turns", "memories"]) -> Ranking:
    search = search_turns if what == "turns" else recall
    return parts.readers.here(lambda tx: search(parts, tx, question))


WORDS = st.sampled_from("alpha bravo charlie delta échelle foxtrot golf hôtel".split())
CHANNELS, AGENTS = st.sampled_from(["codex", "claude-code"]), st.sampled_from(["", "", "scout"])
KINDS: st.SearchStrategy[Kind] = st.sampled_from(["fact", "decision", "rule"])
ROLES: st.SearchStrategy[Role] = st.sampled_from(["user", "assistant"])
PROJECTS, TRUSTS, DAYS = st.sampled_from([SHOP, BLOG]), st.integers(0, 3), st.integers(0, 9)
ITEMS = st.lists(
    st.builds(
        Item,
        number=st.just(0),
        words=st.lists(WORDS, min_size=1, max_size=6).map(tuple),
        project=PROJECTS,
        agent=AGENTS,
        channel=CHANNELS,
        kind=KINDS,
        role=ROLES,
        trust=TRUSTS,
        day=DAYS,
        branch=st.sampled_from(["", "main", "next"]),
    ),
    max_size=12,
).map(lambda items: [replace(item, number=number) for number, item in enumerate(items)])
MOMENTS = DAYS.map(lambda day: NOON + timedelta(days=day))
FILTERS = st.builds(
    Filters,
    agent=st.none() | st.sampled_from(["scout", "codex", "claude-code"]), channel=st.none() | CHANNELS,
    kinds=st.lists(KINDS | st.just("turn"), max_size=2).map(tuple), since=st.none() | MOMENTS,
    until=st.none() | MOMENTS, trust=TRUSTS, role=st.none() | ROLES, as_of=st.none() | MOMENTS,
).filter(lambda filters: filters.narrow)  # fmt: skip


#: A word index is not told of branches, so it is left out where one answers.
BRANCHED = (
    st.tuples(FILTERS | st.just(Filters()), st.none() | st.sampled_from(["main", "next"]))
    .map(lambda pair: replace(pair[0], branch=pair[1]))
    .filter(lambda filters: filters.narrow)
)


def passes(item: Item, filters: Filters, project: str | None, what: str) -> bool:
    kind, role = ("turn", item.role) if what == "turns" else (item.kind, None)
    return (
        project in (None, item.project)
        and filters.agent in (None, item.agent or item.channel)
        and filters.channel in (None, item.channel)
        and (not filters.kinds or kind in filters.kinds)
        and (filters.since is None or item.at >= filters.since)
        and (filters.until is None or item.at < filters.until)
        and (filters.as_of is None or item.at <= filters.as_of)
        and item.trust >= filters.trust
        and filters.role in (None, role)
        and filters.branch in (None, item.branch)
    )


@settings(max_examples=examples(40), deadline=None)
@whatever(
    ITEMS,
    BRANCHED,
    st.none() | PROJECTS,
    st.lists(WORDS, min_size=1, max_size=3, unique=True),
    st.sampled_from(["text", "semantic"]),
    st.sampled_from(["turns", "memories"]),
)
def test_a_filtered_answer_is_that_of_a_store_which_holds_only_what_passes(
    items: list[Item],
    filters: Filters,
    project: str | None,
    words: list[str],
    mode: Literal["text", "semantic"],
    what: Literal["turns", "memories"],
) -> None:
    passing = [item for item in items if passes(item, filters, project, what)]
    question = Question(text=" ".join(words), everywhere=True, mode=mode)
    narrow = replace(question, filters=filters, project=project, everywhere=project is None)
    with holding(*sides(what, items)) as parts:
        found = asked(parts, narrow, what)
    with holding(*sides(what, passing)) as parts:
        wanted = asked(parts, question, what)
    assert [hit.text for hit in found.hits] == [hit.text for hit in wanted.hits]
    assert [hit.score for hit in found.hits] == pytest.approx([hit.score for hit in wanted.hits], abs=1e-5)
    assert [hit.relevance for hit in found.hits] == pytest.approx([hit.relevance for hit in wanted.hits], abs=1e-5)


@pytest.mark.parametrize("what", ["turns", "memories"])
def test_a_branch_is_asked_for_in_a_large_store_too_and_narrows_nothing_unasked(
    what: Literal["turns", "memories"],
) -> None:
    one = Item(number=0, words=("alpha",), project=SHOP, agent="", channel="codex", kind="fact", role="user",
               trust=2, day=0, branch="main")  # fmt: skip
    items = [one, replace(one, number=1, branch="next"), replace(one, number=2, branch="")]
    question = Question(text="alpha", everywhere=True, mode="text")
    with holding(*sides(what, items), large=True) as parts:
        narrow = asked(parts, replace(question, filters=Filters(branch="next")), what)
        assert [(hit.text, hit.item.scope.branch) for hit in narrow.hits] == [("alpha n1", "next")]
        assert len(asked(parts, question, what).hits) == 3


@pytest.mark.parametrize("large", [False, True])
def test_a_language_finds_the_memories_written_in_it_and_no_turn(large: bool) -> None:
    one = Item(number=0, words=("the", "port", "of", "alpha"), project=SHOP, agent="", channel="codex", kind="fact",
               role="user", trust=2, day=0)  # fmt: skip
    items = [one, replace(one, number=1, words=("le", "port", "de", "notre", "alpha"))]
    question = Question(text="alpha", everywhere=True, mode="text", filters=Filters(language="fr"))
    with holding(items, items, large=large) as parts:
        found = asked(parts, question, "memories").hits
        assert [hit.text for hit in found] == ["le port de notre alpha n1"]
        assert not asked(parts, question, "turns").hits


@settings(max_examples=examples(15), deadline=None)
@whatever(
    ITEMS,
    FILTERS | st.just(Filters()),
    st.none() | PROJECTS,
    st.lists(WORDS, min_size=1, max_size=3, unique=True),
    st.sampled_from(["text", "semantic"]),
    st.sampled_from(["turns", "memories"]),
    st.integers(0, 12),
)
def test_a_large_store_answers_the_same_law_and_finds_what_came_a_moment_ago(
    items: list[Item],
    filters: Filters,
    project: str | None,
    words: list[str],
    mode: Literal["text", "semantic"],
    what: Literal["turns", "memories"],
    fed: int,
) -> None:
    passing = [item for item in items if passes(item, filters, project, what)]
    # Nothing is cut: two that are nearly as good may change places at the cut.
    whole = Question(text=" ".join(words), everywhere=True, mode=mode, limit=len(items) + 1)
    narrow = replace(whole, filters=filters, project=project, everywhere=project is None)
    # What is asked of a store that holds only what passes is narrowed too, by something that all of it passes.
    anything = replace(whole, filters=Filters(user="local") if what == "turns" or not filters.role else filters)
    hides = filters.agent or filters.trust or filters.user
    with holding(*sides(what, items), large=True, fed=fed) as parts:
        found = asked(parts, narrow, what)
    with holding(*sides(what, passing), large=True) as parts:
        wanted = asked(parts, anything if filters.narrow else replace(whole), what)
    assert {hit.text for hit in found.hits} == {hit.text for hit in wanted.hits}
    if filters.narrow and hides and fed >= len(items):
        assert [hit.text for hit in found.hits] == [hit.text for hit in wanted.hits]
        assert [hit.score for hit in found.hits] == pytest.approx([hit.score for hit in wanted.hits], abs=1e-5)
    if filters.narrow:
        # A score knows how long a row of the index is on the average, which a time does not hide (ADR 10).
        exact = hides and fed >= len(items)
        relevances = [{hit.text: hit.relevance for hit in one.hits} for one in (found, wanted)]
        assert relevances[0] == pytest.approx(relevances[1], abs=1e-5 if exact else 0.05)


def sides(what: str, items: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
    """Turns and memories, of which one is empty."""
    return (items, ()) if what == "turns" else ((), items)


def told(parts: Parts, text: str, mode: Mode, **filters: Any) -> list[str]:
    """What is recalled for a question among what passes, by text."""
    question = Question(text=text, everywhere=True, mode=mode, filters=Filters(**filters))
    return [hit.text for hit in asked(parts, question, "memories").hits]


def replaced(parts: Parts, tx: Tx) -> None:
    """A port that changed on the second of May, with its vectors."""
    store, place = parts.memories(tx), Scope(channel="codex")
    texts = ["Production listens on port 8443", "Production listens on port 9443"]
    said = [Statement(kind="fact", text=text, span=Span(start=0, end=0)) for text in texts]
    first = store.add(said[0], Origin(scope=place, trust=2, at=NOON), "new").memory_id
    later = Origin(scope=place, trust=2, at=NOON + timedelta(days=1))
    second = store.apply(Update(statement=said[1], old_ids=(first,), reason="another value"), later).memory_id
    for id_, text in zip((first, second), texts, strict=True):
        StoredVectors(tx).put("memory", id_, EMBEDDER.space.id, EMBEDDER.passages([text]))


@pytest.mark.parametrize("mode", ["text", "semantic", "hybrid"])
def test_what_was_believed_then_is_found_for_its_own_period_and_only_for_it(mode: Mode) -> None:
    with holding() as parts:
        parts.writer.run(lambda tx: replaced(parts, tx))
        wiring.load_indexes(parts)
        question, hours = "port of production", [timedelta(hours=h) for h in (-1, 1, 23, 25)]
        answers = [told(parts, question, mode, as_of=NOON + after) for after in hours]
        assert [[text[-4:] for text in answer] for answer in answers] == [[], ["8443"], ["8443"], ["9443"]]
        assert told(parts, question, mode, trust=1) == ["Production listens on port 9443"]
        listed = [
            parts.readers.here(lambda tx, at=NOON + after: titles(parts, tx, Filters(as_of=at))) for after in hours
        ]
        assert listed == answers


def titles(parts: Parts, tx: Tx, filters: Filters) -> list[str]:
    facts, _ = listing(parts, tx, (), filters, rules=False)
    return [fact["text"] for fact in facts]


def test_with_isolation_an_agent_sees_only_what_it_learned_itself(tmp_path: Path) -> None:
    with running(str(tmp_path), environ={"FILROUGE_ISOLATION": "true"}) as parts:
        idle(parts)
        say(parts, "For the record: production listens on port 8443.")
        say(parts, "From now on, always use uv and never pip in this repository.")
        question = "What port does production listen on?"
        other = event(text=question)._replace(host="codex")
        start = event("session_start", source="startup")
        assert "8443" in ask(parts, question)
        assert build_and_log_text(parts, other, given.SHOP[0]) == ""
        assert "## Rules" in build_and_log_text(parts, start, given.SHOP[0])
        assert build_and_log_text(parts, start._replace(host="codex"), given.SHOP[0]) == ""
        assert not any(path.is_file() for path in (tmp_path / "briefs").rglob("*"))


def test_a_filter_that_leaves_nothing_finds_nothing() -> None:
    with holding() as parts:
        assert told(parts, "anything", "hybrid", agent="nobody") == []
