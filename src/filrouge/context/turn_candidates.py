"""Heard: turns of earlier conversations that may stand before a prompt, and why each of the others may not.

A turn is shown only where it is no longer before the agent anyway: not the session's own, unless its context was
compacted since. What a tool printed, what a host wrote and small talk are no candidates at all. A turn whose memory
ended is left out, and so is the reply that went with it, and whatever said the same before the end: its successor is a
memory, and that one is shown.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from filrouge.capture.models import Turn
from filrouge.context.passages import NEAR, Told, excerpt
from filrouge.context.request import Moment
from filrouge.core.clock import from_text
from filrouge.core.protocols import Tx
from filrouge.extraction.heuristics import tells
from filrouge.runtime.services import Parts
from filrouge.search.memory_search import Question
from filrouge.search.models import Hit
from filrouge.search.turn_ranking import Ended, is_outdated, speaker_of, words_of
from filrouge.search.turn_search import Showable, search_turns
from filrouge.search.word_repository import Row, told

#: Turns that are looked at for a prompt.
MOST: Final = 40
#: Of the session's own turns so many are named among what is not shown.
_OWN: Final = 3
#: What has ended is compared with the last so many.
_ENDED: Final = 200
#: Of the prompt that a reply answers, so much is shown with it.
_PROMPT: Final = 120
#: In a chat between people what was asked is often spread over many short turns: of what else must be as probable, the
#: share from which on one has a line of its own, and joins that of another.
_TO_OPEN: Final = 0.1
_TO_JOIN: Final = 0.04
_NAMES: Final = {"user": "User: ", "assistant": "Assistant: "}


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """One turn.

    Attributes:
        memories: the ids of the live memories that it proves.
        answers: those that the prompt proves which it answers.
        named: people are named in it, so it is one of a chat between them.
        refused: why it may not be shown, or empty.
    """

    turn: Turn
    hit: Hit
    told: Told
    memories: frozenset[str]
    answers: frozenset[str]
    named: bool
    refused: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Overheard:
    """All of them, best first; `known` and `notices` as in a ranking.

    Attributes:
        here: the first that a search found of the session's own, which is before its agent.
    """

    turns: tuple[Heard, ...]
    here: tuple[Turn, ...] = ()
    known: float = 0.0
    notices: tuple[str, ...] = ()


def heard(
    parts: Parts, tx: Tx, moment: Moment, question: Question, cited: Mapping[str, Hit], *, least: float
) -> Overheard:
    """The turns for a prompt.

    Args:
        cited: by the id of a turn, the hit of a memory that it proves; a turn of a chat is named even where it is not
            found, since it stands for its memory.
        least: what is less probable to hold what was asked is refused.
    """
    since = compacted(tx, moment)
    looked: dict[str, None] = {}

    def showable(ids: Sequence[str]) -> Collection[str]:
        looked.update(dict.fromkeys(ids))
        return _not_here(tx, moment, ids, since)

    ranking = search_turns(parts, tx, replace(question, limit=MOST), Showable(ids=showable, turn=_says_something))
    here = _here(parts, tx, moment, list(looked), since)
    found = [(hit, hit.item) for hit in ranking.hits if isinstance(hit.item, Turn)]
    others = showable([id_ for id_ in cited if id_ not in {turn.id for _, turn in found}])
    found += [(replace(cited[turn.id], item=turn), turn) for turn in parts.turns(tx).get(sorted(others))]
    if not found:
        return Overheard(turns=(), here=here, notices=ranking.notices)
    beside = _Beside(tx, [turn.id for _, turn in found], moment.agent)
    prompts = {turn.id: beside.prompt(turn.id) for _, turn in found if turn.role == "assistant"}
    proved = proved_by(tx, [*(turn.id for _, turn in found), *(row["id"] for row in prompts.values() if row)])
    ended = what_ended(tx, moment)
    asked = words_of(question.text)
    turns: list[Heard] = []
    for hit, turn in found:
        words, prompt = words_of(turn.text), prompts.get(turn.id)
        own, answered = proved.get(turn.id, {}), proved.get(prompt["id"], {}) if prompt else {}
        named = beside.names(turn.id)
        if turn.id in others and not named:
            continue
        why_not = ""
        if any(state != "live" for state in [*own.values(), *answered.values()]):
            why_not = "what it told is believed no more"
        elif not own and is_outdated(words, turn.at, ended):
            why_not = "it repeats what is believed no more"
        elif turn.id in others or hit.relevance < least * (_TO_JOIN if named else 1.0):
            why_not = "below the threshold"
        conversation, place = beside.place(turn.id)
        told_so = Told(
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
            Heard(
                turn=turn,
                hit=hit,
                told=told_so,
                memories=_live(own),
                answers=_live(answered),
                named=named,
                refused=why_not,
            )
        )
    return Overheard(turns=tuple(turns), here=here, known=ranking.known, notices=ranking.notices)


def compacted(tx: Tx, moment: Moment) -> str:
    """When the context of the moment's session was last compacted, as it is stored; empty where it never was."""
    row = tx.one("events.compacted", {"host": moment.host, "session_id": moment.session})
    return (row or {}).get("at") or ""


def last_words(parts: Parts, tx: Tx, moment: Moment, ids: Sequence[str]) -> list[Turn]:
    """Of these turns, oldest first, the last prompt and what was answered, as far as they may be shown.

    Nothing where one of them says what is believed no more, or was said to another agent than may be asked.
    """
    allowed = _not_here(tx, moment, ids, compacted(tx, moment))
    said = [turn for turn in parts.turns(tx).get(ids) if turn.id in allowed]
    prompts = [place for place, turn in enumerate(said) if turn.role == "user"]
    if not prompts:
        return []
    prompt, *after = said[prompts[-1] :]
    shown = [prompt, *(turn for turn in after if turn.role == "assistant")][:2]
    proved, ended = proved_by(tx, [turn.id for turn in shown]), what_ended(tx, moment)
    gone = any(state != "live" for turn in shown for state in proved.get(turn.id, {}).values())
    outdated = any(is_outdated(words_of(turn.text), turn.at, ended) for turn in shown)
    others = moment.agent is not None and any(
        (turn.scope.agent or turn.scope.channel) != moment.agent for turn in shown
    )
    return [] if gone or outdated or others else shown


def _not_here(tx: Tx, moment: Moment, ids: Sequence[str], since: str, *, here: bool = False) -> set[str]:
    """Of these turns what was said in earnest, and not in the session since a moment; or just that."""
    told = {"host": moment.host, "session_id": moment.session, "since": since, "here": here, "user_id": moment.user}
    return {row["id"] for row in tx.all("turns.showable", {"ids": json.dumps(list(ids)), **told})}


def _here(parts: Parts, tx: Tx, moment: Moment, looked: Sequence[str], since: str) -> tuple[Turn, ...]:
    """The first of those that were looked at which the agent has before it, but for the prompt itself."""
    own = _not_here(tx, moment, looked, since, here=True)
    turns = parts.turns(tx).get([id_ for id_ in looked if id_ in own][: _OWN + 1])
    return tuple(turn for turn in turns if turn.text.strip() != moment.prompt.strip())[:_OWN]


def _says_something(turn: Turn) -> bool:
    return turn.role == "assistant" or bool(speaker_of(turn.text)) or tells(turn.text)


def _line(role: str, text: str, asked: frozenset[str], *, named: bool, whole: int = 0) -> str:
    def weigh(sentence: str) -> float:
        return len(asked & words_of(sentence))

    shown = excerpt(text, weigh, whole=whole, cut=whole) if whole else excerpt(text, weigh)
    return shown if named else _NAMES[role] + shown


def _live(states: Mapping[str, str]) -> frozenset[str]:
    return frozenset(id_ for id_, state in states.items() if state == "live")


def proved_by(tx: Tx, turns: Sequence[str]) -> dict[str, dict[str, str]]:
    """By turn: the memories that it proves, with their state, those that wait for a review left out."""
    found: dict[str, dict[str, str]] = {}
    for row in tx.all("evidence.proving", {"turns": json.dumps(turns)}):
        found.setdefault(row["turn_id"], {})[row["memory_id"]] = row["state"]
    return found


def what_ended(tx: Tx, moment: Moment) -> list[Ended]:
    """What was believed here and is no more, the last of it."""
    place = {"project_id": moment.project, "user_id": moment.user, "limit": _ENDED}
    rows = tx.all("memories.ended", place)
    return [Ended(words=words_of(row["text"]), at=from_text(row["valid_to"])) for row in rows]


class _Beside:
    """Where turns stand in their conversations."""

    def __init__(self, tx: Tx, ids: Sequence[str], agent: str | None) -> None:
        def holds(row: Row) -> bool:
            return agent is None or (row["agent"] or row["channel"]) == agent

        around = told(tx, ids, NEAR, holds)
        self._rows, self._before = around.rows, around.before
        self._at: Mapping[str, int] = {row["id"]: at for at, row in enumerate(self._rows)}

    def place(self, id_: str) -> tuple[str, int]:
        """The conversation, by the first turn that is known of it, and how many come before."""
        back = [self._at[id_]]
        while self._before[back[-1]] >= 0:
            back.append(self._before[back[-1]])
        return self._rows[back[-1]]["id"], len(back) - 1

    def names(self, id_: str) -> bool:
        """True for a turn of a chat between people: one that begins with a name which begins others near it too."""
        name = speaker_of(self._rows[self._at[id_]]["text"])
        conversation = self.place(id_)[0]
        near = (row for row in self._rows if name and row["role"] == "user" and speaker_of(row["text"]) == name)
        return sum(self.place(row["id"])[0] == conversation for row in near) > 1

    def prompt(self, id_: str) -> Row | None:
        """What the user said last before a turn."""
        at = self._before[self._at[id_]]
        while at >= 0 and self._rows[at]["role"] != "user":
            at = self._before[at]
        return self._rows[at] if at >= 0 else None
