"""Turn candidates: turns of earlier conversations that may be shown before a prompt, and why others may not.

A turn is a candidate only if it is outside the agent's current context window: not from this session, unless the
context was compacted since. Tool output, text written by a host and small talk are never candidates. A turn is
refused if its memory is no longer valid. So are the reply to it and turns that said the same before the memory ended;
the memory that replaced it is shown instead.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from filrouge.capture.models import Turn
from filrouge.context.passages import MAX_GAP, PassageCandidate, excerpt
from filrouge.context.request import ContextRequest
from filrouge.core.clock import from_text
from filrouge.core.protocols import Tx
from filrouge.extraction.heuristics import states_anything
from filrouge.runtime.services import Parts
from filrouge.search.memory_search import Question
from filrouge.search.models import Hit
from filrouge.search.turn_ranking import Ended, is_outdated, speaker_of, words_of
from filrouge.search.turn_search import Showable, search_turns
from filrouge.search.word_repository import Row, turns_with_neighbours

#: Maximum turns searched for a prompt.
MOST: Final = 40
#: Maximum turns of the session itself that are listed as refused.
_OWN: Final = 3
#: Number of recently ended memories that turns are compared with.
_ENDED: Final = 200
#: Maximum characters shown of the prompt that a reply answers.
_PROMPT: Final = 120
#: In a chat between people, an answer is often spread over many short turns. So these shares of the usual threshold are
#: enough for a turn to open its own line, and to join another line.
_TO_OPEN: Final = 0.1
_TO_JOIN: Final = 0.04
_NAMES: Final = {"user": "User: ", "assistant": "Assistant: "}


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnCandidate:
    """One turn.

    Attributes:
        memories: the ids of the live memories that it proves.
        answers: the ids of the live memories proved by the prompt that it answers.
        named: speakers are named in it, so it belongs to a chat between people.
        refused: why it may not be shown, or empty.
    """

    turn: Turn
    hit: Hit
    told: PassageCandidate
    memories: frozenset[str]
    answers: frozenset[str]
    named: bool
    refused: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnCandidates:
    """All turns, best first; `known` and `notices` as in a `Ranking`.

    Attributes:
        here: the first turns found from this session, which are already in the agent's context.
    """

    turns: tuple[TurnCandidate, ...]
    here: tuple[Turn, ...] = ()
    known: float = 0.0
    notices: tuple[str, ...] = ()


def turn_candidates(
    parts: Parts, tx: Tx, moment: ContextRequest, question: Question, cited: Mapping[str, Hit], *, least: float
) -> TurnCandidates:
    """The candidate turns for a prompt.

    Args:
        cited: by turn id, the hit of a memory that the turn proves. A chat turn is listed even if the search did not
            find
            it, because it represents its memory.
        least: turns below this probability are refused.
    """
    since = compacted(tx, moment)
    looked: dict[str, None] = {}

    def showable(ids: Sequence[str]) -> Collection[str]:
        looked.update(dict.fromkeys(ids))
        return _showable(tx, moment, ids, since)

    ranking = search_turns(parts, tx, replace(question, limit=MOST), Showable(ids=showable, turn=_says_something))
    here = _in_context(parts, tx, moment, list(looked), since)
    found = [(hit, hit.item) for hit in ranking.hits if isinstance(hit.item, Turn)]
    others = showable([id_ for id_ in cited if id_ not in {turn.id for _, turn in found}])
    found += [(replace(cited[turn.id], item=turn), turn) for turn in parts.turns(tx).get(sorted(others))]
    if not found:
        return TurnCandidates(turns=(), here=here, notices=ranking.notices)
    beside = _Neighbours(tx, [turn.id for _, turn in found], moment.agent)
    prompts = {turn.id: beside.prompt(turn.id) for _, turn in found if turn.role == "assistant"}
    proved = memories_of_turns(tx, [*(turn.id for _, turn in found), *(row["id"] for row in prompts.values() if row)])
    ended = ended_memories(tx, moment)
    asked = words_of(question.text)
    turns: list[TurnCandidate] = []
    for hit, turn in found:
        words, prompt = words_of(turn.text), prompts.get(turn.id)
        own, answered = proved.get(turn.id, {}), proved.get(prompt["id"], {}) if prompt else {}
        named = beside.names(turn.id)
        if turn.id in others and not named:
            continue
        why_not = ""
        if any(state != "live" for state in [*own.values(), *answered.values()]):
            why_not = "its memory is no longer valid"
        elif not own and is_outdated(words, turn.at, ended):
            why_not = "repeats an outdated memory"
        elif turn.id in others or hit.relevance < least * (_TO_JOIN if named else 1.0):
            why_not = "below the threshold"
        conversation, place = beside.place(turn.id)
        told_so = PassageCandidate(
            id=turn.id,
            conversation=conversation,
            place=place,
            text=_line(turn.role, turn.text, asked, named=named),
            chance=hit.relevance,
            opens=hit.relevance >= least * (_TO_OPEN if named else 1.0),
            words=words,
            answers=(prompt["id"], _line("user", prompt["text"], asked, named=False, whole=_PROMPT))
            if prompt
            else None,
        )
        turns.append(
            TurnCandidate(
                turn=turn,
                hit=hit,
                told=told_so,
                memories=_live(own),
                answers=_live(answered),
                named=named,
                refused=why_not,
            )
        )
    return TurnCandidates(turns=tuple(turns), here=here, known=ranking.known, notices=ranking.notices)


def compacted(tx: Tx, moment: ContextRequest) -> str:
    """When the session's context was last compacted, as stored text; empty if never."""
    row = tx.one("events.compacted", {"host": moment.host, "session_id": moment.session})
    return (row or {}).get("at") or ""


def last_words(parts: Parts, tx: Tx, moment: ContextRequest, ids: Sequence[str]) -> list[Turn]:
    """The last prompt among these turns (oldest first) and its reply, as far as they may be shown.

    Empty if one of them says something no longer valid, or belongs to another agent while agents are isolated.
    """
    allowed = _showable(tx, moment, ids, compacted(tx, moment))
    said = [turn for turn in parts.turns(tx).get(ids) if turn.id in allowed]
    prompts = [place for place, turn in enumerate(said) if turn.role == "user"]
    if not prompts:
        return []
    prompt, *after = said[prompts[-1] :]
    shown = [prompt, *(turn for turn in after if turn.role == "assistant")][:2]
    proved, ended = memories_of_turns(tx, [turn.id for turn in shown]), ended_memories(tx, moment)
    gone = any(state != "live" for turn in shown for state in proved.get(turn.id, {}).values())
    outdated = any(is_outdated(words_of(turn.text), turn.at, ended) for turn in shown)
    others = moment.agent is not None and any(
        (turn.scope.agent or turn.scope.channel) != moment.agent for turn in shown
    )
    return [] if gone or outdated or others else shown


def _showable(tx: Tx, moment: ContextRequest, ids: Sequence[str], since: str, *, here: bool = False) -> set[str]:
    """The ids of real prompts and replies outside the session's current context; with `here`, those inside."""
    told = {"host": moment.host, "session_id": moment.session, "since": since, "here": here, "user_id": moment.user}
    return {row["id"] for row in tx.all("turns.showable", {"ids": json.dumps(list(ids)), **told})}


def _in_context(parts: Parts, tx: Tx, moment: ContextRequest, looked: Sequence[str], since: str) -> tuple[Turn, ...]:
    """The first of these turns that are in the agent's context, except the prompt itself."""
    own = _showable(tx, moment, looked, since, here=True)
    turns = parts.turns(tx).get([id_ for id_ in looked if id_ in own][: _OWN + 1])
    return tuple(turn for turn in turns if turn.text.strip() != moment.prompt.strip())[:_OWN]


def _says_something(turn: Turn) -> bool:
    return turn.role == "assistant" or bool(speaker_of(turn.text)) or states_anything(turn.text)


def _line(role: str, text: str, asked: frozenset[str], *, named: bool, whole: int = 0) -> str:
    def weigh(sentence: str) -> float:
        return len(asked & words_of(sentence))

    shown = excerpt(text, weigh, whole=whole, cut=whole) if whole else excerpt(text, weigh)
    return shown if named else _NAMES[role] + shown


def _live(states: Mapping[str, str]) -> frozenset[str]:
    return frozenset(id_ for id_, state in states.items() if state == "live")


def memories_of_turns(tx: Tx, turns: Sequence[str]) -> dict[str, dict[str, str]]:
    """By turn id: the memories it proves, with their state; memories waiting for review are left out."""
    found: dict[str, dict[str, str]] = {}
    for row in tx.all("evidence.proving", {"turns": json.dumps(turns)}):
        found.setdefault(row["turn_id"], {})[row["memory_id"]] = row["state"]
    return found


def ended_memories(tx: Tx, moment: ContextRequest) -> list[Ended]:
    """The most recently ended memories of this project and user."""
    place = {"project_id": moment.project, "user_id": moment.user, "limit": _ENDED}
    rows = tx.all("memories.ended", place)
    return [Ended(words=words_of(row["text"]), at=from_text(row["valid_to"])) for row in rows]


class _Neighbours:
    """The positions of turns in their conversations."""

    def __init__(self, tx: Tx, ids: Sequence[str], agent: str | None) -> None:
        def holds(row: Row) -> bool:
            return agent is None or (row["agent"] or row["channel"]) == agent

        around = turns_with_neighbours(tx, ids, MAX_GAP, holds)
        self._rows, self._before = around.rows, around.before
        self._at: Mapping[str, int] = {row["id"]: at for at, row in enumerate(self._rows)}

    def place(self, id_: str) -> tuple[str, int]:
        """The conversation, identified by its first known turn, and how many turns come before."""
        back = [self._at[id_]]
        while self._before[back[-1]] >= 0:
            back.append(self._before[back[-1]])
        return self._rows[back[-1]]["id"], len(back) - 1

    def names(self, id_: str) -> bool:
        """True if the turn and another user turn nearby begin with the same speaker name: a chat between people."""
        name = speaker_of(self._rows[self._at[id_]]["text"])
        conversation = self.place(id_)[0]
        near = (row for row in self._rows if name and row["role"] == "user" and speaker_of(row["text"]) == name)
        return sum(self.place(row["id"])[0] == conversation for row in near) > 1

    def prompt(self, id_: str) -> Row | None:
        """The last user turn before a turn, or None."""
        at = self._before[self._at[id_]]
        while at >= 0 and self._rows[at]["role"] != "user":
            at = self._before[at]
        return self._rows[at] if at >= 0 else None
