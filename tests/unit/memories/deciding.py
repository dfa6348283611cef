"""A memory under fire: lists of decisions as models may write them, between the verbs of a user who changes their mind.

Everything is drawn from whole numbers, so that thousands of lists are made in no time and a failing one shrinks.
`World` does what it is told and keeps what it was told; `World.hold` says what must be true after every list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from filrouge.capture.models import Turn
from filrouge.capture.repository import Turns
from filrouge.core.errors import BadInput, NotFound
from filrouge.core.protocols import Tx
from filrouge.core.scope import Scope
from filrouge.erasure.repository import EraseRepository
from filrouge.extraction.model_answers import FactWithNeighbours, StatedIn, check_decisions
from filrouge.maintenance.consolidation import is_mergeable, merge_order
from filrouge.maintenance.garden_service import Merging
from filrouge.memories.models import Add, Conflict, Decision, Delete, Memory, Neighbour, Noop, Span, Statement, Update
from filrouge.memories.repository import Memories, Origin, Reviews, UserChanges
from filrouge.memories.undo_repository import Undoing
from filrouge.projects.repository import Projects
from filrouge.runtime.journal import Journal
from filrouge.search.analyser import TextAnalyser
from filrouge.testing import memory_database
from tests.support.rows import NOON, origin, turn

T = TypeVar("T")
_PROJECTS = ("name:shop", "name:blog")
_TEXTS = [
    f"The {what} is {value}" for what in ("port", "editor", "queue") for value in ("red", "green", "blue", "grey")
]
_KEYED = 4
_INVENTED = ("01invented", "", "null")
_WRONG: Sequence[object] = (None, 7, "add", [], {"fact": 0}, {"fact": "0", "action": 3}, {"action": "update", "id": []})
_ANALYSER = TextAnalyser()


class Number:
    """Choices read out of one whole number, whose bits are mixed first: small numbers are drawn most of all."""

    def __init__(self, number: int) -> None:
        mixed = (number + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128
        self._rest = (mixed ^ mixed >> 64) * 0xD1342543DE82EF95 % 2**128 >> 16

    def of(self, choices: Sequence[T]) -> T:
        """One of these."""
        self._rest, place = divmod(self._rest, len(choices))
        return choices[place]

    def below(self, end: int) -> int:
        """A number from 0 on."""
        self._rest, found = divmod(self._rest, end)
        return found


class World:
    """One database, and what must be in it."""

    def __init__(self) -> None:
        self.database = memory_database()
        self.told: dict[str, str] = {}
        self.live: list[str] = []
        self.done: Counter[str] = Counter()
        self._seconds = 0.0
        self._erased: set[str] = set()
        for project in _PROJECTS:
            Projects(self.database.tx).resolve((project,), at=NOON)

    def decide(self, numbers: Sequence[int], how: int) -> None:
        """Carry a list of decisions out, through the gate or past it."""
        self._seconds += 60
        told = Number(how)
        with self.database.transaction() as tx:
            said, place = self._turn(tx, told)
            drawn = [Number(number) for number in numbers]
            decisions = self._admitted(tx, drawn, place) if told.below(2) else self._straight(drawn)
            for decision in decisions:
                self._apply(tx, decision, place)
            if told.below(8) == 0:
                Memories(tx, _ANALYSER).quarantine(_statement(told), place, f"not in {said}")
            self._note(tx)

    def change_of_mind(self, number: int) -> None:
        """One verb of the user's hand; what is refused changes nothing."""
        self._seconds += 1
        drawn = Number(number)
        verb, refusal = drawn.of(_VERBS), None
        try:
            with self.database.transaction() as tx:
                verb(self, tx, drawn)
                self._note(tx)
        except (BadInput, NotFound) as error:
            refusal = error
        assert refusal is None or (refusal.message and refusal.remedy)
        self.done["refused" if refusal else verb.__name__] += 1

    def _turn(self, tx: Tx, drawn: Number) -> tuple[str, Origin]:
        """What was said, where, and when: now, or long ago and heard only now."""
        said: Turn = turn("The port, the editor and the queue.", seconds=self._seconds)
        Turns(tx, _ANALYSER).add(said)
        seconds = self._seconds - drawn.of((0, 0, 0, 600))
        return said.id, origin(
            seconds=seconds,
            turn_id=drawn.of((said.id, "")),
            project=drawn.of((*[_PROJECTS[0]] * 4, _PROJECTS[1], None)),
        )

    def _straight(self, drawn: Sequence[Number]) -> list[Decision]:
        """Decisions as nobody checked them."""
        return [self._decision(one) for one in drawn]

    def _decision(self, drawn: Number) -> Decision:
        statement, ids = _statement(drawn), self._ids(drawn)
        match drawn.below(5):
            case 0:
                return Add(statement=statement, reason="drawn")
            case 1:
                return Update(statement=statement, old_ids=ids, reason="drawn")
            case 2:
                return Delete(statement=statement, old_ids=ids, reason="drawn")
            case 3:
                return Noop(statement=statement, existing_id=ids[0], reason="drawn")
            case _:
                return Conflict(statement=statement, existing_id=ids[0], reason="drawn")

    def _ids(self, drawn: Number) -> tuple[str, ...]:
        """Ids of what is there or not, the same one twice among them."""
        known = [*self.live, *self.live, *list(self.told)[-9:], *_INVENTED]
        return tuple(drawn.of(known) for _ in range(1 + drawn.below(3)))

    def _admitted(self, tx: Tx, drawn: Sequence[Number], place: Origin) -> list[Decision]:
        """The same through the gate, as JSON that a model wrote."""
        live = Memories(tx, _ANALYSER).within(project=None, user="local", everywhere=True)[:6]
        shown = tuple(Neighbour(memory=memory, similarity=0.5) for memory in live)
        stated = [FactWithNeighbours(statement=_statement(one), neighbours=shown) for one in drawn]
        raw = [self._written(one, number) for number, one in enumerate(drawn)]
        found = check_decisions(raw, stated, StatedIn(scope=place.scope, at=place.at), lambda one: one.text in _TEXTS)
        for rejected in found.rejected:
            Memories(tx, _ANALYSER).refuse(place, rejected.reason)
        return list(found.decisions.values())

    def _written(self, drawn: Number, number: int) -> object:
        if drawn.below(6) == 0:
            return drawn.of(_WRONG)
        return {
            "fact": drawn.of((number, number, number, 0, 99)),
            "action": drawn.of(("add", "update", "update", "delete", "noop", "conflict")),
            "id": drawn.of([*self.live, *self.live, *list(self.told)[-3:], *_INVENTED]),
            "text": drawn.of((None, None, *_TEXTS, "words that nobody said")),
            "reason": "drawn",
        }

    def _apply(self, tx: Tx, decision: Decision, place: Origin) -> None:
        """What is decided is kept: as a memory, as one more mention, or in the queue; a retraction ends something."""
        before = Memories(tx, _ANALYSER).some(self.live)
        action = Memories(tx, _ANALYSER).apply(decision, place)
        self.done[action.name] += 1
        after, scope = Memories(tx, _ANALYSER).some(self.live), decision.statement.scope
        changed = [one for id_, one in before.items() if after[id_].state != one.state]
        assert [one.id for one in changed if one.pinned] == []
        where = place.scope.project if scope == "project" else None
        assert {(one.scope_name, one.scope.project) for one in changed} <= {(scope, where)}
        kept = Memories(tx, _ANALYSER).some([action.memory_id, action.review])
        text = decision.statement.text
        match action.name:
            case "add" | "update":
                assert kept[action.memory_id].text == text
            case "conflict":
                # It waits; or somebody was asked already about a live memory that says the same.
                waits = kept[action.review].state == "quarantined" or action.review in before
                assert (kept[action.review].text, waits) == (text, True)
            case "noop":
                assert kept[action.memory_id].state in ("live", "superseded")
            case _:
                assert isinstance(decision, Delete)

    def _some(self, drawn: Number) -> str:
        return drawn.of([*self.told, *self.live, *_INVENTED])

    def _hand(self) -> Origin:
        return Origin(scope=Scope(), trust=3, at=origin(seconds=self._seconds).at, actor="user")

    def _pin(self, tx: Tx, drawn: Number) -> None:
        UserChanges(tx, _ANALYSER).pin(self._some(drawn), self._hand())

    def _unpin(self, tx: Tx, drawn: Number) -> None:
        UserChanges(tx, _ANALYSER).unpin(self._some(drawn), self._hand())

    def _bin(self, tx: Tx, drawn: Number) -> None:
        Memories(tx, _ANALYSER).bin(self._some(drawn), self._hand(), "by hand")

    def _restore(self, tx: Tx, drawn: Number) -> None:
        UserChanges(tx, _ANALYSER).restore(self._some(drawn), self._hand())

    def _supersede(self, tx: Tx, drawn: Number) -> None:
        id_ = self._some(drawn)
        old = Memories(tx, _ANALYSER).get(id_)
        place = Origin(scope=old.scope, trust=3, at=self._hand().at, actor="user")
        one = Statement(
            kind="fact", text=drawn.of(_TEXTS), span=Span(start=0, end=0), scope=old.scope_name, key=old.key, value="x"
        )
        Memories(tx, _ANALYSER).supersede(id_, one, place, "by hand")

    def _put_core_fact(self, tx: Tx, drawn: Number) -> None:
        keyed = _statement(Number(drawn.below(len(_TEXTS)) % _KEYED))
        Memories(tx, _ANALYSER).put_core_fact(keyed, self._hand())

    def _settle(self, tx: Tx, drawn: Number) -> None:
        open_ = Reviews(tx, _ANALYSER).all()
        id_ = open_[drawn.below(len(open_))].id if open_ else self._some(drawn)
        Reviews(tx, _ANALYSER).settle(
            id_, drawn.of(("old", "new", "both", "accept", "dismiss", "neither")), self._hand()
        )

    def _merge(self, tx: Tx, drawn: Number) -> None:
        kept, gone = self._pair(tx, drawn)
        before = Memories(tx, _ANALYSER).known([kept.id, gone.id])
        assert Merging(tx, _ANALYSER).merge(kept.id, gone.id, self._hand(), "drawn")
        [after, history] = Memories(tx, _ANALYSER).known([kept.id, gone.id])
        assert (after.text, after.trust, after.state) == (kept.text, kept.trust, "live")
        assert set(after.evidence) == {cited for one in before for cited in one.evidence}
        assert after.mention_count == sum(one.mention_count for one in before)
        assert (history.evidence, history.superseded_by) == (before[1].evidence, kept.id)

    def _contest(self, tx: Tx, drawn: Number) -> None:
        newer, older = self._pair(tx, drawn)
        if not Reviews(tx, _ANALYSER).contest(newer.id, older.id, self._hand(), "drawn"):
            raise BadInput("Nobody is asked twice.")

    def _pair(self, tx: Tx, drawn: Number) -> tuple[Memory, Memory]:
        """Two live memories that may be one."""
        one = next(iter(Memories(tx, _ANALYSER).known([self._some(drawn)])), None)
        beside = [other for other in Memories(tx, _ANALYSER).known(self.live) if one and is_mergeable(one, other)]
        if one is None or not beside:
            raise NotFound("There are no two.")
        kept, gone = merge_order(one, drawn.of(beside))
        return kept, gone

    def _undo(self, tx: Tx, drawn: Number) -> None:
        undoing, newest = Undoing(tx, _ANALYSER), tx.one("journal.newest") or {"n": 0}
        seq = max(1, newest["n"] - drawn.below(40))
        undoing.carry_out(undoing.of(seq), self._hand())

    def _undo_last(self, tx: Tx, drawn: Number) -> None:
        undoing = Undoing(tx, _ANALYSER)
        undoing.carry_out(undoing.of(undoing.last_about(self._some(drawn))), self._hand())

    def _erase(self, tx: Tx, drawn: Number) -> None:
        if drawn.below(4):
            raise NotFound("Not this time.")
        doomed = EraseRepository(tx, _ANALYSER).affected([self._some(drawn)])
        EraseRepository(tx, _ANALYSER).carry_out(doomed, at=self._hand().at, actor="user")
        self._erased |= set(doomed.memories)

    def _note(self, tx: Tx) -> None:
        """Take up what is new; nothing that was told before may be gone, or say something else."""
        found = tx.all("memories.sealed")
        rows = {row["id"]: row["text"] for row in found}
        lost = self.told.keys() - rows.keys()
        assert lost <= self._erased
        assert {id_: text for id_, text in self.told.items() if id_ in rows and rows[id_] != text} == {}
        self.told, self.live = rows, [row["id"] for row in found if row["state"] == "live"]

    def hold(self) -> None:
        """What must be true at any time."""
        tx = self.database.tx
        rows = {row["id"]: row for row in tx.all("memories.sealed")}
        assert rows.keys() == self.told.keys()
        for row in rows.values():
            assert (row["superseded_by"] is not None) <= (row["state"] == "superseded")
            assert row["superseded_by"] in (None, *rows)
            assert row["supersedes"] in (None, *rows)
            assert (row["valid_to"] is None) == (row["state"] in ("live", "quarantined")), row
            assert row["mention_count"] >= 1
            assert row["state"] != "superseded" or row["superseded_by"] or self._erased
        _ends("superseded_by", rows)
        _ends("supersedes", rows)
        live = [id_ for id_, row in rows.items() if row["state"] == "live"]
        chains = _chains(rows)
        assert len({chains[id_] for id_ in live}) == len(live), "two live versions of one chain"
        keys = [
            (row["user_id"], row["scope"], row["project_id"], row["key"])
            for row in (rows[id_] for id_ in live)
            if row["key"]
        ]
        assert len(keys) == len(set(keys))
        waiting = {one.id for one in Reviews(tx, _ANALYSER).all(limit=9999)}
        quarantined = {id_ for id_, row in rows.items() if row["state"] == "quarantined"}
        assert quarantined <= waiting <= quarantined | set(live), "what waits is held back, or live beside another"

    def hold_at_last(self) -> None:
        """What takes longer to look at: the full-text index, the journal, every reference between tables."""
        self.hold()
        connection: Any = self.database.tx._connection  # pyright: ignore[reportPrivateUsage] (no query looks inside)
        indexed: dict[int, list[str]] = {}
        for doc, term in connection.execute("select doc, term from memories_places"):
            indexed.setdefault(doc, []).append(term)
        rows = self.database.tx.all("memories.sealed")
        wanted = {row["seq"]: sorted(_ANALYSER.tokens(f"{row['text']} {row['subject']}").split()) for row in rows}
        assert {doc: sorted(terms) for doc, terms in indexed.items()} == wanted
        assert list(connection.execute("pragma foreign_key_check")) == []
        verdict = Journal(self.database.tx).verify()
        assert verdict.sound, verdict
        assert self.database.check() == []


_VERBS: Sequence[Callable[[World, Tx, Number], None]] = (
    World._pin,  # pyright: ignore[reportPrivateUsage]
    World._unpin,  # pyright: ignore[reportPrivateUsage]
    World._bin,  # pyright: ignore[reportPrivateUsage]
    World._restore,  # pyright: ignore[reportPrivateUsage]
    World._supersede,  # pyright: ignore[reportPrivateUsage]
    World._put_core_fact,  # pyright: ignore[reportPrivateUsage]
    World._settle,  # pyright: ignore[reportPrivateUsage]
    World._settle,  # pyright: ignore[reportPrivateUsage]
    World._merge,  # pyright: ignore[reportPrivateUsage]
    World._merge,  # pyright: ignore[reportPrivateUsage]
    World._contest,  # pyright: ignore[reportPrivateUsage]
    World._undo,  # pyright: ignore[reportPrivateUsage]
    World._undo,  # pyright: ignore[reportPrivateUsage]
    World._undo_last,  # pyright: ignore[reportPrivateUsage]
    World._erase,  # pyright: ignore[reportPrivateUsage]
)


def _statement(drawn: Number) -> Statement:
    place = drawn.below(len(_TEXTS))
    key = f"key{place % 2}" if place < _KEYED else None
    text = _TEXTS[place]
    scope = drawn.of(("project", "project", "user", "project"))
    return Statement(
        kind="fact", text=text, span=Span(start=0, end=9), scope="user" if scope == "user" else "project",
        key=key, value="x" if key else None,
    )  # fmt: skip


def _ends(link: str, rows: dict[str, dict[str, Any]]) -> None:
    """Every chain has an end."""
    for id_ in rows:
        seen, at = {id_}, rows[id_][link]
        while at is not None:
            assert at not in seen, f"a cycle of {link}"
            seen.add(at)
            at = rows[at][link]


def _chains(rows: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Of each memory one name for its chain: all that are linked, either way."""
    names = {id_: id_ for id_ in rows}

    def root(id_: str) -> str:
        while names[id_] != id_:
            id_ = names[id_]
        return id_

    for id_, row in rows.items():
        for other in (row["supersedes"], row["superseded_by"]):
            if other is not None:
                names[root(id_)] = root(other)
    return {id_: root(id_) for id_ in rows}
