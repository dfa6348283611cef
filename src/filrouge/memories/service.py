"""Operations on memories for the user and for agents: facts by key, rules, reviews, the bin, and undo.

Agents can only bin memories by topic (`preview_bin`, `confirm_bin`), in two steps; all other changes are the user's.
Nothing here erases data; `erasure.service` does that.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from filrouge.capture.models import TRUST_AGENT, TRUST_TYPED
from filrouge.core.clock import to_text
from filrouge.core.errors import BadInput, NotFound, Stale
from filrouge.core.protocols import Analyser, Redactor, Tx
from filrouge.core.scope import Scope, ScopeName
from filrouge.erasure.models import MAX_RELATED, MIN_RELEVANCE
from filrouge.extraction.sentences import require_no_secret
from filrouge.extraction.understanding import embed_inline, update_index
from filrouge.memories.changes import AGENT, Replacement, bin_memory, run_change, supersede, user_origin
from filrouge.memories.models import NO_FILTERS, Filters, Memory, Review, Span, Statement, UndoPlan
from filrouge.memories.reports import listing, memory_json, quotes
from filrouge.memories.repository import Action, Origin, Reviews, UserChanges, changes_of_entry
from filrouge.memories.undo_repository import Undo, Undoing, reverted
from filrouge.projects.repository import Projects, names_of, project_id, project_names
from filrouge.runtime.journal import Entry, Journal
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.service import Question, recall
from filrouge.search.spaces import store_or_queue_vectors

# Facts by key.


def fact_of(parts: StoreContext, tx: Tx, key: str, names: Sequence[str]) -> Memory:
    """Return the live memory with this key, or else with this id.

    A core fact has a key that is unique in its scope; any other memory uses its id as key. If facts of several places
    have the same key, the caller must name the project.

    Args:
        names: names of the project; if the project has no such fact, the user's fact is returned. Empty = any place.

    Raises:
        NotFound: no memory has this key or id, or it is a rule.
        BadInput: several facts have this key; the message lists their ids.
    """
    project = project_id(tx, names)
    facts = UserChanges(tx, parts.analyser).with_key(key)
    if names:
        of_project = [fact for fact in facts if fact.scope_name == "project" and fact.scope.project == project]
        facts = of_project or [fact for fact in facts if fact.scope_name == "user"]
    if len(facts) > 1:
        ids = ", ".join(fact.id for fact in facts)
        raise BadInput(f"Several facts have the key {key!r}: {ids}.", remedy="Name the project, or use an id.")
    fact = facts[0] if facts else parts.memories(tx).some([key]).get(key)
    if fact is None:
        raise NotFound(f"There is no fact {key!r}.")
    if fact.kind == "rule":
        raise NotFound(f"Memory {key!r} is a rule, not a fact.", remedy="See `filrouge rules`.")
    return fact


def change_fact(parts: Parts, key: str, value: str, names: Sequence[str]) -> Replacement | None:
    """Set the value of a fact; return None if it has this value already.

    Raises:
        NotFound, BadInput: see `fact_of` and `supersede`.
    """
    fact = parts.readers.here(lambda tx: fact_of(parts, tx, key, names))
    if (fact.value if fact.key and fact.value is not None else fact.text) == parts.redact(value.strip()):
        return None
    return supersede(parts, fact.id, value)


def bin_fact(parts: Parts, key: str, names: Sequence[str]) -> Action:
    """Move a fact to the bin; it can be restored.

    Raises:
        NotFound, BadInput: see `fact_of`; also if it is in the bin already.
    """
    fact = parts.readers.here(lambda tx: fact_of(parts, tx, key, names))
    return bin_memory(parts, fact.id)


# Binning by topic, for agents.

#: Key of the tokens; it lives as long as the process, so a preview does not survive a restart.
_KEY: Final = secrets.token_bytes(32)
#: Share of a topic's words, weighted by rarity, from which a memory is about the topic regardless of its relevance
#: score.
_FULL_COVERAGE: Final = 0.999


class BinPreview(Struct, frozen=True, kw_only=True):
    """The memories that a topic or an id refers to.

    Attributes:
        goes: the live memories that are, or would be, binned.
        kept: memories that only the user can bin: rules, and pinned memories.
        token: confirms binning exactly `goes`; empty if there are none.
    """

    goes: tuple[Memory, ...]
    kept: tuple[Memory, ...]
    token: str


def preview_bin(parts: Parts, *, topic: str = "", memory_id: str = "", project: str | None = None) -> BinPreview:
    """Return what would be binned; nothing is changed.

    This is the first of two steps. The preview lists the memories and returns a token for exactly these; with the
    token, `confirm_bin` bins them. The user can restore them. Rules and pinned memories are not touched.

    Args:
        project: restricts a topic to this project and the user's own memories; None = everywhere. An id is found
            anywhere.

    Raises:
        BadInput: neither or both of topic and id are given, or the memory is not live.
        NotFound: no memory has this id.
    """
    return parts.readers.here(lambda tx: _preview(parts, tx, topic.strip(), memory_id.strip(), project))


def confirm_bin(
    parts: Parts, token: str, *, topic: str = "", memory_id: str = "", project: str | None = None
) -> BinPreview:
    """Bin what a preview listed.

    Raises:
        Stale: the memories changed since the preview, or the daemon was restarted.
        BadInput, NotFound: see `preview_bin`.
    """

    def write(tx: Tx) -> tuple[BinPreview, Collection[str], Collection[str]]:
        preview = _preview(parts, tx, topic.strip(), memory_id.strip(), project)
        if not preview.token or not hmac.compare_digest(preview.token.encode(), token.encode()):
            raise Stale(
                "The matching rows have changed since the preview.",
                remedy="Ask again without a token, and look at what it would bin now.",
            )
        now = parts.clock.now()
        for memory in preview.goes:
            origin = Origin(scope=Scope(channel="mcp"), trust=TRUST_AGENT, at=now, made_by=AGENT, actor=AGENT)
            parts.memories(tx).bin(memory.id, origin, "binned by an agent")
        return preview, (), tuple(memory.id for memory in preview.goes)

    return run_change(parts, write)


def _preview(parts: Parts, tx: Tx, topic: str, memory_id: str, project: str | None) -> BinPreview:
    if bool(topic) == bool(memory_id):
        raise BadInput("Give either a `topic` or an `id`.", remedy="Give one of the two.")
    if memory_id:
        memories = [parts.memories(tx).get(memory_id)]
        if memories[0].state != "live":
            raise BadInput(f"Memory {memory_id} is {memories[0].state}, not live.", remedy="There is nothing to bin.")
    else:
        memories = _about(parts, tx, topic, project)
    user_only = tuple(memory for memory in memories if memory.pinned or memory.kind == "rule")
    goes = tuple(memory for memory in memories if memory not in user_only)
    return BinPreview(goes=goes, kept=user_only, token=_token(topic, memory_id, goes) if goes else "")


def _about(parts: Parts, tx: Tx, topic: str, project: str | None) -> list[Memory]:
    question = Question(text=topic, project=project, everywhere=project is None, limit=MAX_RELATED)
    ranking = recall(parts, tx, question)
    relevant = [hit for hit in ranking.hits if hit.relevance >= MIN_RELEVANCE or hit.coverage >= _FULL_COVERAGE]
    return [hit.item for hit in relevant[:MAX_RELATED] if isinstance(hit.item, Memory)]


def _token(topic: str, memory_id: str, goes: Sequence[Memory]) -> str:
    listed = sorted((memory.id, memory.text) for memory in goes)
    content = json.dumps([topic, memory_id, listed], ensure_ascii=True)
    return hmac.new(_KEY, content.encode(), hashlib.sha256).hexdigest()


# Reviews: statements that contradict a pinned or undecided memory, or lack evidence, and wait for the user.


def list_reviews(parts: StoreContext, tx: Tx, *, settled: bool = False, limit: int = 200) -> list[dict[str, Any]]:
    """Return the open reviews, newest first; with `settled`, the settled ones too."""
    found = Reviews(tx, parts.analyser).all(settled=settled, limit=limit)
    return [_review_json(parts, tx, review) for review in found]


def get_review(parts: StoreContext, tx: Tx, memory_id: str) -> dict[str, Any]:
    """Return one review.

    Raises:
        NotFound: no review has this id.
    """
    return _review_json(parts, tx, Reviews(tx, parts.analyser).get(memory_id))


def settle(parts: Parts, memory_id: str, how: str) -> dict[str, Any]:
    """Settle a review: `old`, `new` or `both` for a conflict, `accept` or `dismiss` for a quarantine.

    `new` ends the live version of the memory that the statement contradicts, pinned or not. No new decision is made
    about the statement.

    Raises:
        NotFound: no review has this id.
        BadInput: it is settled already, or `how` is not allowed for its kind.
    """

    def write(tx: Tx) -> tuple[None, Collection[str], Collection[str]]:
        _, after = Reviews(tx, parts.analyser).settle(memory_id, how, user_origin(parts.clock))
        live = [id_ for id_, state in after.items() if state.state == "live"]
        return None, live, after.keys() - set(live)

    run_change(parts, write)
    return parts.readers.here(lambda tx: get_review(parts, tx, memory_id))


def _review_json(parts: StoreContext, tx: Tx, review: Review) -> dict[str, Any]:
    store, names, now = parts.memories(tx), names_of(tx), parts.clock.now()
    memory = store.get(review.id)
    return {
        "id": review.id,
        "kind": review.kind,
        "outcome": review.outcome,
        "reason": review.reason,
        "at": to_text(review.at),
        "settled_at": to_text(review.settled_at) if review.settled_at else None,
        "text": memory.text,
        "statement": memory_json(memory, names, now),
        "quotes": quotes(parts, tx, memory),
        "against": memory_json(review.against, names, now) if review.against else None,
    }


# Rules.

#: Maximum length in characters: a rule is one instruction.
MAX_RULE_CHARS = 500


def list_rules(
    parts: StoreContext, tx: Tx, names: Sequence[str], *, history: bool = False, filters: Filters = NO_FILTERS
) -> list[dict[str, Any]]:
    """Return the rules, newest first, each with its source and status.

    The number of active rules per scope is limited; pinned rules come first, then the newest. Any further rule is kept
    and listed as `waiting`, but not shown to models. Only the user's own words become a rule.

    Args:
        names: names of the project; empty = all projects.
        history: also return superseded and binned rules.
    """
    rules, _ = listing(parts, tx, names, filters, rules=True, history=history)
    standing = parts.memories(tx).rules_standing()
    cited_ids = [cited["turn_id"] for rule in rules for cited in rule["evidence"]]
    turns = {turn.id: turn for turn in parts.turns(tx).get(cited_ids)}
    return [
        rule
        | {
            "standing": _standing(rule, standing),
            "source": [
                {
                    "turn_id": turn.id,
                    "at": to_text(turn.at),
                    "by": "you" if turn.trust >= TRUST_TYPED or not turn.host else turn.scope.channel,
                    "channel": turn.scope.channel,
                    "session_id": turn.scope.session,
                    "text": turn.text[cited["start"] : cited["end"]],
                }
                for cited in rule["evidence"]
                if (turn := turns.get(cited["turn_id"]))
            ],
        }
        for rule in rules
    ]


def get_rule(parts: StoreContext, tx: Tx, rule_id: str) -> dict[str, Any]:
    """Return one rule in the form of the list.

    Raises:
        NotFound: no memory has this id.
        BadInput: it is not a rule.
    """
    memory = _rule(parts, tx, rule_id)
    names = [memory.scope.project] if memory.scope.project else []
    return next(rule for rule in list_rules(parts, tx, names, history=True) if rule["id"] == rule_id)


def add_rule(parts: Parts, text: str, *, names: Sequence[str], scope: ScopeName) -> Action:
    """Add a rule in the user's own words.

    Raises:
        BadInput: the text is empty, too long, holds a secret, or is a rule of this scope already; or a project rule is
            given outside every project.
    """
    checked = _checked(parts.redact, text)
    statement = Statement(kind="rule", text=checked, span=Span(start=0, end=0), scope=scope, confidence=1.0)
    vectors = parts.vectors
    all_names = parts.readers.here(lambda tx: project_names(tx, names))
    if scope == "project" and not all_names:
        raise BadInput("This is not a project.", remedy="Name one, or give the rule the scope `user`.")
    [rule_vectors] = embed_inline(vectors, [checked])

    def write(tx: Tx) -> tuple[Action, Collection[str], Collection[str]]:
        origin = user_origin(parts.clock)
        project = Projects(tx).resolve(all_names, at=origin.at)
        origin = replace(origin, scope=Scope(project=project, channel="api"))
        for other in parts.memories(tx).within(project=project if scope == "project" else None, user=origin.scope.user):
            if other.kind == "rule" and other.scope_name == scope and other.text.casefold() == checked.casefold():
                off = " It is switched off." if other.disabled else ""
                raise BadInput(f"Rule {other.id} says that already.{off}", remedy=f"See `filrouge why {other.id}`.")
        action = parts.memories(tx).add(statement, origin, "added by hand")
        store_or_queue_vectors(tx, vectors, "memory", action.memory_id, rule_vectors, origin.at)
        return action, (), ()

    action = run_change(parts, write)
    update_index(parts, vectors, [(action, rule_vectors)])
    return action


def edit(parts: Parts, rule_id: str, text: str) -> str:
    """Replace the text of a live rule; return the id of the new rule, which keeps `pinned` and `disabled`.

    Raises:
        NotFound: no memory has this id.
        BadInput: it is not a rule, or not live, or the text is empty, too long, unchanged or holds a secret.
    """
    parts.readers.here(lambda tx: _rule(parts, tx, rule_id))
    return supersede(parts, rule_id, _checked(parts.redact, text), source="edited").new_id


def switch(parts: Parts, rule_id: str, *, enabled: bool) -> Action:
    """Switch a rule off, so that it is shown to no model, or on again.

    Raises:
        NotFound: no memory has this id.
        BadInput: it is not a rule, or not live.
    """
    return run_change(
        parts,
        lambda tx: (UserChanges(tx, parts.analyser).switch(rule_id, user_origin(parts.clock), enabled=enabled), (), ()),
    )


def remove_rule(parts: Parts, rule_id: str) -> Action:
    """Move a rule to the bin; it can be restored.

    Raises:
        NotFound: no memory has this id.
        BadInput: it is not a rule, or not live.
    """
    parts.readers.here(lambda tx: _rule(parts, tx, rule_id))
    return bin_memory(parts, rule_id)


def _standing(rule: dict[str, Any], standing: Collection[str]) -> str:
    if rule["state"] != "live":
        return str(rule["state"])
    if rule["disabled"]:
        return "disabled"
    return "standing" if rule["id"] in standing else "waiting"


def _rule(parts: StoreContext, tx: Tx, rule_id: str) -> Memory:
    memory = parts.memories(tx).get(rule_id)
    if memory.kind != "rule":
        raise BadInput(f"Memory {rule_id} is not a rule.", remedy="See `filrouge rules`.")
    return memory


def _checked(redact: Redactor, text: str) -> str:
    checked = require_no_secret(redact(" ".join(text.split())))
    if not checked:
        raise BadInput("The text of the rule is empty.")
    if len(checked) > MAX_RULE_CHARS:
        raise BadInput(f"The text has {len(checked)} characters; a rule has at most {MAX_RULE_CHARS}.")
    return checked


# Undo: revert a decision and the later decisions that depend on it (see `memories.undo_repository`).


def plan_undo(parts: Parts, *, entry: int | None = None, memory_id: str | None = None) -> UndoPlan:
    """Return the plan for undoing a journal entry, or the last decision about a memory that is still in force.

    Raises:
        NotFound: there is no such entry, or no such memory.
        BadInput: neither or both are named; or the undo is impossible (the message says why).
    """
    return parts.readers.here(lambda tx: _undo(parts.analyser, tx, entry, memory_id)).plan


def undo(parts: Parts, *, entry: int | None = None, memory_id: str | None = None) -> UndoPlan:
    """Carry out an undo; return what was done.

    The plan is made again in the transaction, so it is never outdated.

    Raises:
        NotFound: there is no such entry, or no such memory.
        BadInput: neither or both are named; or the undo is impossible (the message says why).
    """

    def write(tx: Tx) -> tuple[UndoPlan, Collection[str], Collection[str]]:
        planned = _undo(parts.analyser, tx, entry, memory_id)
        Undoing(tx, parts.analyser).carry_out(planned, user_origin(parts.clock))
        return planned.plan, *_live_and_ended(planned)

    return run_change(parts, write)


# The changes of a session, and their undo.


class SessionRevert(Struct, frozen=True, kw_only=True):
    """The undo of all changes of a session.

    Attributes:
        undone_by: the first journal entry of the undo, which can be undone in turn; None if it is only planned.
    """

    plan: UndoPlan
    undone_by: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the undo as JSON."""
        planned = self.plan.to_json()
        return {"decisions": planned["decisions"], "changes": planned["changes"], "undone_by": self.undone_by}


def list_session_changes(parts: StoreContext, tx: Tx, session: str) -> list[dict[str, Any]]:
    """Return the decisions made from a session's words and about its summary, newest first.

    Each has the memory it is about as it is now, and the quoted words of the session.
    """
    memories = {memory.id: memory for memory in parts.memories(tx).of_session(session)}
    entries, reverted_numbers = _session_entries(parts, tx, session, memories)
    turn_ids = parts.turns(tx).ids_of_session(session)
    return [
        {
            "entry": entry.seq,
            "at": to_text(entry.at),
            "actor": entry.actor,
            "action": entry.action,
            "reason": str((entry.payload or {}).get("reason", "")),
            "memory_id": memory.id,
            "kind": memory.kind,
            "text": memory.text,
            "state": memory.state,
            "previous_text": memory.previous_text,
            "quotes": [quote for quote in quotes(parts, tx, memory) if quote["turn_id"] in turn_ids],
            "undone": entry.seq in reverted_numbers,
        }
        for entry in reversed(entries)
        for memory in [memories[entry.subject_id]]
    ]


def plan_session_revert(parts: Parts, session: str) -> SessionRevert:
    """Return the plan for undoing all changes of a session, and what depends on them.

    Raises:
        BadInput: nothing of the session is left to undo, or it is impossible (the message says why).
    """
    found = parts.readers.here(lambda tx: _session_undo(parts, tx, session))
    return SessionRevert(plan=found.plan, undone_by=None)


def revert_session(parts: Parts, session: str) -> SessionRevert:
    """Undo all changes of a session, and what depends on them, at once; return what was done.

    Raises:
        BadInput: nothing of the session is left to undo, or it is impossible (the message says why).
    """

    def write(tx: Tx) -> tuple[SessionRevert, Collection[str], Collection[str]]:
        planned = _session_undo(parts, tx, session)
        undone_by = Undoing(tx, parts.analyser).carry_out(planned, user_origin(parts.clock))
        live, ended = _live_and_ended(planned)
        return SessionRevert(plan=planned.plan, undone_by=undone_by), live, ended

    return run_change(parts, write)


def _session_undo(parts: StoreContext, tx: Tx, session: str) -> Undo:
    memories = {memory.id: memory for memory in parts.memories(tx).of_session(session)}
    entries, reverted_numbers = _session_entries(parts, tx, session, memories)
    in_force = [
        entry
        for entry in entries
        if entry.seq not in reverted_numbers and (changes_of_entry(entry) or (entry.payload or {}).get("mentions"))
    ]
    if not in_force:
        raise BadInput(
            f"Nothing that session {session!r} changed is left to undo.", remedy="Look at the list of its changes."
        )
    return Undoing(tx, parts.analyser).of_all(in_force)


def _session_entries(
    parts: StoreContext, tx: Tx, session: str, memories: Mapping[str, Memory]
) -> tuple[list[Entry], set[int]]:
    """Return the decisions of a session about these memories, oldest first, and the numbers of reverted entries."""
    turn_ids = parts.turns(tx).ids_of_session(session)
    entries = Journal(tx).entries_about(*memories)
    own = [
        entry
        for entry in entries
        if entry.subject_id in memories
        and entry.undoes is None
        and ((entry.payload or {}).get("turn") in turn_ids or _is_about_summary(memories[entry.subject_id], session))
    ]
    return own, reverted(entries)


def _is_about_summary(memory: Memory, session: str) -> bool:
    return memory.kind == "episode" and memory.scope.session == session


def _live_and_ended(undo: Undo) -> tuple[list[str], Collection[str]]:
    """Return the ids of the memories that an undo makes live, and of those that it ends."""
    live = [id_ for id_, state in undo.after.items() if state.state == "live"]
    return live, undo.after.keys() - set(live)


def _undo(analyser: Analyser, tx: Tx, entry: int | None, memory_id: str | None) -> Undo:
    undoing = Undoing(tx, analyser)
    if (entry is None) == (memory_id is None):
        raise BadInput("Give either an entry number or a memory id.", remedy="Name one of the two.")
    return undoing.of(undoing.last_about(memory_id or "") if entry is None else entry)
