"""Source: memories and passages of earlier conversations that are relevant to the prompt, and rules.

Nothing is offered unless the probability that anything about the prompt is known reaches the threshold. If the
embedder was trained on what prompts need, the probability that the prompt needs anything counts instead. Then each
memory is judged by the probability that the prompt needs it (`search.ranking`). Memories and passages share the
available lines. A memory replaces the turns that prove it, since it is shorter and proven; in a chat between people
the turn is shown instead, since it says who spoke. A rule qualifies like any memory, or because it concerns the kind
of work that the prompt asks for; if that work is specific, even if nothing is known.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from filrouge.capture.models import TRUST_PROMPT, Turn
from filrouge.context.models import USER_TRUST, Candidate, Section
from filrouge.context.request import ContextRequest
from filrouge.core import lazy_re as re
from filrouge.core.clock import from_text
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.intents import SPECIFIC_KINDS, Work, kinds_of_prompt, kinds_of_rule, states_anything
from filrouge.memories.models import MIN_CONFIDENCE_INJECT, SUMS, Filters, Memory
from filrouge.runtime.services import Parts
from filrouge.search.models import Hit, Ranking
from filrouge.search.ranking import MIN_PROBABILITY, Ended, anything_needed, is_outdated, speaker_of, words_of
from filrouge.search.repository import Row, turns_with_neighbours
from filrouge.search.service import LONGEST_QUERY, Question, Showable, recall, search_turns

# Passages: selects from ranked turns and memories the few lines most likely to answer the prompt.
#
# A line shows one memory, or neighbouring turns of one conversation. The aim is the most probable evidence in the
# fewest characters, so candidates are taken by probability per character. A turn near one already chosen joins its
# line, which costs less than a new line. Long turns are cut at sentence ends to the part that matches the prompt.
# Candidates that repeat a chosen one are dropped.

#: Turns of one conversation at most this many places apart share a line; a gap is marked.
MAX_GAP: Final = 3
#: Extra cost of a new line in characters: its mark with time and source, and the use of one of about four lines.
_LINE_COST: Final = 100
#: Turns longer than `MAX_UNCUT` characters are cut to at most `MAX_EXCERPT` characters.
MAX_UNCUT: Final = 400
MAX_EXCERPT: Final = 300
#: The excerpt of a very long sentence is built from this many pieces.
_PARTS: Final = 6
#: Two texts count as the same if they share at least this share of the shorter one's words.
_DUPLICATE_SHARE: Final = 0.85
#: Separators between turns while a passage has several lines. In the final single line each takes `_BETWEEN`
#: characters.
_TOGETHER: Final = "\n"
_APART: Final = "\n…\n"
_BETWEEN: Final = 3
_SENTENCE: Final = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=\S)|\s*\n\s*")
_SPACES: Final = re.compile(r"\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class PassageItem:
    """One candidate: a memory or a turn.

    Attributes:
        conversation: turns with equal values may share a line; for a memory its own id, since it stands alone.
        place: the position of a turn in its conversation.
        text: the text to show, one line.
        answers: for a reply, the id and the shown text of the prompt it answers; omitted if that prompt is shown
            anyway.
        chance: the probability that it contains what was asked.
        opens: it may have its own line; otherwise it can only join one.
        words: its words, for detecting repetition.
    """

    id: str
    conversation: Hashable
    place: int
    text: str
    chance: float
    words: frozenset[str] = field(default_factory=frozenset[str])
    answers: tuple[str, str] | None = None
    opens: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """One line: its turns in chronological order, or one memory."""

    told: tuple[PassageItem, ...]

    @property
    def text(self) -> str:
        """The texts of its turns, with a mark where turns are left out."""
        shown = {one.id for one in self.told}
        parts: list[str] = []
        for before, one in zip([None, *self.told], self.told, strict=False):
            if before:
                parts.append(_TOGETHER if one.place - before.place == 1 else _APART)
            if one.answers and one.answers[0] not in shown:
                parts += [one.answers[1], _TOGETHER]
            parts.append(one.text)
        return "".join(parts)

    @property
    def size(self) -> int:
        """Characters of the text when written as one line."""
        return len(self.text) + (_BETWEEN - 1) * self.text.count("\n")

    @property
    def value(self) -> float:
        """The probability that any part of it contains what was asked."""
        return 1.0 - math.prod(1.0 - one.chance for one in self.told)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The chosen lines, best first, and for each candidate left out the reason, by its id."""

    passages: tuple[Passage, ...]
    refused: dict[str, str]


def choose(candidates: Sequence[PassageItem], *, room: int, most: int, longest: int, mark: int) -> Selection:
    """Choose the passages to show.

    Args:
        room: maximum characters of all lines together, including their marks.
        most: maximum number of lines.
        longest: maximum characters of one line's text.
        mark: characters of a line's mark.
    """
    lines: list[Passage] = []
    refused: dict[str, str] = {}
    left = {one.id: one for one in candidates}
    while left:
        for id_ in [id_ for id_, one in left.items() if _repeats_any(one, lines)]:
            refused[id_] = "repeats a shown item"
            del left[id_]
        used = sum(line.size + mark for line in lines)
        best: tuple[float, str, int | None, Passage] | None = None
        for id_, one in left.items():
            at, line, costs = _best_line_for(one, lines, longest)
            if at is None and (len(lines) >= most or not one.opens):
                continue
            if line.size > longest or used + costs + (mark if at is None else 0) > room:
                continue
            # Filling a gap may cost nothing, because the gap's mark goes away.
            worth = one.chance / max(1, costs + (_LINE_COST if at is None else 0))
            if best is None or (worth, id_) > best[:2]:
                best = (worth, id_, at, line)
        if best is None:
            break
        _, id_, at, line = best
        del left[id_]
        lines = [*lines, line] if at is None else [line if place == at else one for place, one in enumerate(lines)]
    for id_, one in left.items():
        at, _, _ = _best_line_for(one, lines, longest)
        beyond = at is None and len(lines) >= most
        refused[id_] = "beyond the limit" if beyond else "over the budget" if one.opens else "below the threshold"
    return Selection(passages=tuple(sorted(lines, key=lambda line: -line.value)), refused=refused)


def excerpt(text: str, weigh: Callable[[str], float], *, whole: int = MAX_UNCUT, cut: int = MAX_EXCERPT) -> str:
    """A turn as one line: all of it up to `whole` characters, else the sentences that best match the prompt.

    Args:
        weigh: how well a sentence matches the prompt.
        cut: maximum characters of a turn that is longer than `whole`.
    """
    line = _SPACES.sub(" ", text).strip()
    if len(line) <= whole:
        return line
    sentences = [_SPACES.sub(" ", one).strip() for one in _SENTENCE.split(text)]
    sentences = [one for one in sentences if one]
    weights = [weigh(one) for one in sentences]
    best = max(range(len(sentences)), key=lambda at: (weights[at], -at))
    if len(sentences[best]) > cut:
        return _best_part(sentences, best, weigh, cut)
    first, last = best, best + 1
    while True:
        # Add the neighbour with the higher weight; on a tie, the following sentence.
        sides = [(weights[last], 1, last)] if last < len(sentences) else []
        sides += [(weights[first - 1], 0, first - 1)] if first else []
        fitting = [side for side in sides if _length(sentences, min(first, side[2]), max(last, side[2] + 1)) <= cut]
        if not fitting:
            break
        _, _, at = max(fitting)
        first, last = min(first, at), max(last, at + 1)
    before, after = "… " if first else "", " …" if last < len(sentences) else ""
    return f"{before}{' '.join(sentences[first:last])}{after}"


def _best_line_for(one: PassageItem, lines: Sequence[Passage], longest: int) -> tuple[int | None, Passage, int]:
    """The index of the line this candidate joins (None for a new line), that line with it, and the added characters."""
    for at, line in enumerate(lines):
        if line.told[0].conversation != one.conversation:
            continue
        if min(abs(one.place - other.place) for other in line.told) <= MAX_GAP:
            joined = Passage(told=tuple(sorted([*line.told, one], key=lambda told: told.place)))
            if joined.size <= longest:
                return at, joined, joined.size - line.size
    alone = Passage(told=(one,))
    return None, alone, alone.size


def _repeats_any(one: PassageItem, lines: Sequence[Passage]) -> bool:
    return any(_repeats(one, other) for line in lines for other in line.told)


def _repeats(one: PassageItem, other: PassageItem) -> bool:
    shorter = min(len(one.words), len(other.words))
    return shorter > 2 and len(one.words & other.words) >= _DUPLICATE_SHARE * shorter


def _length(sentences: Sequence[str], first: int, last: int) -> int:
    return sum(len(one) + 1 for one in sentences[first:last]) + 4


def _best_part(sentences: Sequence[str], at: int, weigh: Callable[[str], float], cut: int) -> str:
    """The part of an overlong sentence that best matches the prompt, cut between words; cuts are marked."""
    room = cut - 4  # for the two cut marks
    pieces = _pieces(sentences[at], max(1, room // _PARTS))
    weights = [weigh(piece) for piece in pieces]
    best = (-1.0, 0, 1)
    last, size = 0, 0
    for first in range(len(pieces)):
        while last < len(pieces) and size + len(pieces[last]) + 1 <= room + 1:
            size += len(pieces[last]) + 1
            last += 1
        if last > first:
            weight = sum(weights[first:last])
            best = max(best, (weight, -first, last))
            size -= len(pieces[first]) + 1
    _, first, last = best
    part = " ".join(pieces[-first:last])
    before = "… " if at or first else ""
    after = "" if last == len(pieces) and at == len(sentences) - 1 else "…" if last < len(pieces) else " …"
    return f"{before}{part}{after}"


def _pieces(sentence: str, size: int) -> list[str]:
    """Split a sentence into pieces of whole words of about that size; longer words are split."""
    pieces, piece = list[str](), ""
    for word in sentence.split(" "):
        for part in [word[n : n + size] for n in range(0, len(word), size)]:
            if piece and len(piece) + 1 + len(part) > size:
                pieces.append(piece)
                piece = ""
            piece = f"{piece} {part}" if piece else part
    return [*pieces, piece] if piece else pieces


# Turn candidates: turns of earlier conversations that may be shown before a prompt, and why others may not.
#
# A turn is a candidate only if it is outside the agent's current context window: not from this session, unless the
# context was compacted since. Tool output, text written by a host and small talk are never candidates. A turn is
# refused if its memory is no longer valid. So are the reply to it and turns that said the same before the memory
# ended; the memory that replaced it is shown instead.

#: Maximum turns searched for a prompt.
MAX_TURNS: Final = 40
#: Maximum turns of the session itself that are listed as refused.
_MAX_SESSION_TURNS: Final = 3
#: Number of recently ended memories that turns are compared with.
_MAX_ENDED_MEMORIES: Final = 200
#: Maximum characters shown of the prompt that a reply answers.
_MAX_PROMPT_CHARS: Final = 120
#: In a chat between people, an answer is often spread over many short turns. So these shares of the usual threshold are
#: enough for a turn to open its own line, and to join another line.
_TO_OPEN: Final = 0.1
_TO_JOIN: Final = 0.04
_ROLE_PREFIX: Final = {"user": "User: ", "assistant": "Assistant: "}


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedTurn:
    """One turn.

    Attributes:
        memories: the ids of the live memories that it proves.
        answers: the ids of the live memories proved by the prompt that it answers.
        named: speakers are named in it, so it belongs to a chat between people.
        refused: why it may not be shown, or empty.
    """

    turn: Turn
    hit: Hit
    told: PassageItem
    memories: frozenset[str]
    answers: frozenset[str]
    named: bool
    refused: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedTurns:
    """All turns, best first; `known` and `notices` as in a `Ranking`.

    Attributes:
        here: the first turns found from this session, which are already in the agent's context.
    """

    turns: tuple[RankedTurn, ...]
    here: tuple[Turn, ...] = ()
    known: float = 0.0
    notices: tuple[str, ...] = ()


def turn_candidates(
    parts: Parts, tx: Tx, request: ContextRequest, question: Question, cited: Mapping[str, Hit], *, least: float
) -> RankedTurns:
    """The candidate turns for a prompt.

    Args:
        cited: by turn id, the hit of a memory that the turn proves. A chat turn is listed even if the search did not
            find
            it, because it represents its memory.
        least: turns below this probability are refused.
    """
    since = compacted(tx, request)
    looked: dict[str, None] = {}

    def showable(ids: Sequence[str]) -> Collection[str]:
        looked.update(dict.fromkeys(ids))
        return _showable(tx, request, ids, since)

    ranking = search_turns(parts, tx, replace(question, limit=MAX_TURNS), Showable(ids=showable, turn=_says_something))
    here = _in_context(parts, tx, request, list(looked), since)
    found = [(hit, hit.item) for hit in ranking.hits if isinstance(hit.item, Turn)]
    others = showable([id_ for id_ in cited if id_ not in {turn.id for _, turn in found}])
    found += [(replace(cited[turn.id], item=turn), turn) for turn in parts.turns(tx).get(sorted(others))]
    if not found:
        return RankedTurns(turns=(), here=here, notices=ranking.notices)
    beside = _Neighbours(tx, [turn.id for _, turn in found], request.agent)
    prompts = {turn.id: beside.prompt(turn.id) for _, turn in found if turn.role == "assistant"}
    proved = memories_of_turns(tx, [*(turn.id for _, turn in found), *(row["id"] for row in prompts.values() if row)])
    ended = ended_memories(tx, request)
    asked = words_of(question.text)
    turns: list[RankedTurn] = []
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
        told_so = PassageItem(
            id=turn.id,
            conversation=conversation,
            place=place,
            text=_line(turn.role, turn.text, asked, named=named),
            chance=hit.relevance,
            opens=hit.relevance >= least * (_TO_OPEN if named else 1.0),
            words=words,
            answers=(prompt["id"], _line("user", prompt["text"], asked, named=False, whole=_MAX_PROMPT_CHARS))
            if prompt
            else None,
        )
        turns.append(
            RankedTurn(
                turn=turn,
                hit=hit,
                told=told_so,
                memories=_live(own),
                answers=_live(answered),
                named=named,
                refused=why_not,
            )
        )
    return RankedTurns(turns=tuple(turns), here=here, known=ranking.known, notices=ranking.notices)


def compacted(tx: Tx, request: ContextRequest) -> str:
    """When the session's context was last compacted, as stored text; empty if never."""
    row = tx.one("events.compacted", {"host": request.host, "session_id": request.session})
    return (row or {}).get("at") or ""


def last_words(parts: Parts, tx: Tx, request: ContextRequest, ids: Sequence[str]) -> list[Turn]:
    """The last prompt among these turns (oldest first) and its reply, as far as they may be shown.

    Empty if one of them says something no longer valid, or belongs to another agent while agents are isolated.
    """
    allowed = _showable(tx, request, ids, compacted(tx, request))
    said = [turn for turn in parts.turns(tx).get(ids) if turn.id in allowed]
    prompts = [place for place, turn in enumerate(said) if turn.role == "user"]
    if not prompts:
        return []
    prompt, *after = said[prompts[-1] :]
    shown = [prompt, *(turn for turn in after if turn.role == "assistant")][:2]
    proved, ended = memories_of_turns(tx, [turn.id for turn in shown]), ended_memories(tx, request)
    gone = any(state != "live" for turn in shown for state in proved.get(turn.id, {}).values())
    outdated = any(is_outdated(words_of(turn.text), turn.at, ended) for turn in shown)
    others = request.agent is not None and any(
        (turn.scope.agent or turn.scope.channel) != request.agent for turn in shown
    )
    return [] if gone or outdated or others else shown


def _showable(tx: Tx, request: ContextRequest, ids: Sequence[str], since: str, *, here: bool = False) -> set[str]:
    """The ids of real prompts and replies outside the session's current context; with `here`, those inside."""
    told = {"host": request.host, "session_id": request.session, "since": since, "here": here, "user_id": request.user}
    return {row["id"] for row in tx.all("turns.showable", {"ids": json.dumps(list(ids)), **told})}


def _in_context(parts: Parts, tx: Tx, request: ContextRequest, looked: Sequence[str], since: str) -> tuple[Turn, ...]:
    """The first of these turns that are in the agent's context, except the prompt itself."""
    own = _showable(tx, request, looked, since, here=True)
    turns = parts.turns(tx).get([id_ for id_ in looked if id_ in own][: _MAX_SESSION_TURNS + 1])
    return tuple(turn for turn in turns if turn.text.strip() != request.prompt.strip())[:_MAX_SESSION_TURNS]


def _says_something(turn: Turn) -> bool:
    return turn.role == "assistant" or bool(speaker_of(turn.text)) or states_anything(turn.text)


def _line(role: str, text: str, asked: frozenset[str], *, named: bool, whole: int = 0) -> str:
    def weigh(sentence: str) -> float:
        return len(asked & words_of(sentence))

    shown = excerpt(text, weigh, whole=whole, cut=whole) if whole else excerpt(text, weigh)
    return shown if named else _ROLE_PREFIX[role] + shown


def _live(states: Mapping[str, str]) -> frozenset[str]:
    return frozenset(id_ for id_, state in states.items() if state == "live")


def memories_of_turns(tx: Tx, turns: Sequence[str]) -> dict[str, dict[str, str]]:
    """By turn id: the memories it proves, with their state; memories waiting for review are left out."""
    found: dict[str, dict[str, str]] = {}
    for row in tx.all("evidence.proving", {"turns": json.dumps(turns)}):
        found.setdefault(row["turn_id"], {})[row["memory_id"]] = row["state"]
    return found


def ended_memories(tx: Tx, request: ContextRequest) -> list[Ended]:
    """The most recently ended memories of this project and user."""
    place = {"project_id": request.project, "user_id": request.user, "limit": _MAX_ENDED_MEMORIES}
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


def candidate_of(
    memory: Memory, section: Section, *, value: float, scores: Mapping[str, Any] | None = None, refused: str = ""
) -> Candidate:
    """A memory as a piece, dated by its last mention; a fact without text is shown as `key: value`."""
    return Candidate(
        id=memory.id,
        kind=memory.kind,
        section=section,
        text=memory.text or f"{memory.key}: {memory.value}",
        said=memory.last_mention or memory.created_at,
        source=memory.scope.channel,
        verified=memory.trust >= USER_TRUST,
        value=value,
        turns=tuple(cited.turn_id for cited in memory.evidence),
        scores=scores or {},
        refused=refused,
    )


# Related memories: those stated in the same short turn, and rules for the work that a prompt asks for.
#
# Neither can be found by the words or the meaning of a prompt. "I am Ana, and I like short answers" becomes two
# memories, which are shown together on one line. A rule about installing packages belongs before a prompt that
# installs one (`extraction.intents`).

#: Statements of a turn up to this many characters belong together; those of a longer turn may be unrelated.
_MAX_SHORT_TURN: Final = 200
_MAX_SAME_TURN: Final = 2


def same_turn_memories(
    parts: Parts, tx: Tx, request: ContextRequest, memories: Sequence[Memory]
) -> dict[str, list[Memory]]:
    """By memory id: other memories that the same short turn proves.

    Args:
        memories: with their evidence, most relevant first. A memory listed with an earlier one gets no entry.
    """
    turns = {one.turn_id for memory in memories for one in memory.evidence}
    short = {turn.id for turn in parts.turns(tx).get(sorted(turns)) if len(turn.text) <= _MAX_SHORT_TURN}
    proved = memories_of_turns(tx, sorted(short))
    others = parts.memories(tx).some(sorted({id_ for states in proved.values() for id_ in states}))
    found: dict[str, list[Memory]] = {}
    told: set[str] = set()
    for memory in memories:
        if memory.id in told:
            continue
        beside = dict.fromkeys(id_ for one in memory.evidence for id_ in proved.get(one.turn_id, {}))
        known = [others[id_] for id_ in beside if id_ in others and id_ != memory.id and id_ not in told]
        found[memory.id] = [one for one in known if _may_be_shown(one, request)][:_MAX_SAME_TURN]
        told |= {memory.id, *(one.id for one in found[memory.id])}
    return found


def rules_for_work(parts: Parts, tx: Tx, request: ContextRequest) -> Mapping[str, tuple[Memory, frozenset[Work]]]:
    """By rule id: each rule about a kind of work that the prompt asks for, with those kinds."""
    asked = kinds_of_prompt(request.prompt)
    if not asked:
        return {}
    rules = parts.memories(tx).rules(project=request.project, user=request.user, agent=request.agent)
    meant = {rule.id: (rule, kinds_of_rule(rule.text) & asked) for rule in rules}
    return {id_: (rule, kinds) for id_, (rule, kinds) in meant.items() if kinds}


def _may_be_shown(memory: Memory, request: ContextRequest) -> bool:
    scope = memory.scope
    here = scope.user == request.user and (memory.scope_name == "user" or scope.project == request.project)
    allowed = request.agent is None or (scope.agent or scope.channel) == request.agent
    sure = memory.state == "live" and memory.confidence >= MIN_CONFIDENCE_INJECT
    return here and allowed and sure and memory.kind != "rule" and memory.kind not in SUMS


#: Share of the block's threshold that each item must reach.
SHARE_OF_THRESHOLD: Final = 0.1
#: If memories are judged by need (`bench/results/needed.md`), a turn of an agent's session is shown from this
#: probability on, or if it contains this share of the prompt's words: then the same was asked before.
_TURN_THRESHOLD: Final = 0.7
_REPEAT_COVERAGE: Final = 0.6
#: Probability that such a turn helps, as a share of the probability that it contains what was asked.
_TURN_DISCOUNT: Final = 0.6
#: Share of the best memory's probability that others must reach; in a small home even the second best stands out.
_MIN_SHARE_OF_BEST: Final = 0.4
#: For a prompt that asks for work, the share of the memory threshold that a rule must reach.
_RULE_FOR_WORK: Final = 0.5
#: A user threshold below this does not lower the item thresholds any further.
_LOWEST: Final = 0.5
#: Probability that a rule helps if it concerns the specific work asked for (`extraction.intents`), and if it concerns
#: any work on the code; the latter only accompanies other items.
_SPECIFIC_RULE: Final = 0.9
_GENERAL_RULE: Final = 0.3
#: A reply counts as new if more than this share of its words is not in the memory.
_NOVELTY: Final = 0.5
#: Reasons for refusal that only mean a lack of room.
_NO_ROOM: Final = ("over the budget", "beyond the limit")
MAX_LINE: Final = 500
"""Characters of one line."""
#: Characters of a block besides its lines, and of a line besides its text.
_FRAME_CHARS: Final = 450
_MARK_CHARS: Final = 34
#: Share of the budget that may always be used, even if frame and rules leave less.
_MIN_SHARE: Final = 0.4


def memories(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """The pieces recalled for the prompt, most valuable first, then the refused ones."""
    question = _question(request)
    threshold = request.settings.auto_retrieve_min_score
    whole = max(threshold, _LOWEST)
    of_a_turn = whole * SHARE_OF_THRESHOLD
    ranking = recall(parts, tx, question)
    least = (
        max(whole * MIN_PROBABILITY / _LOWEST, ranking.hits[0].relevance * _MIN_SHARE_OF_BEST)
        if ranking.by_need
        else of_a_turn
    )
    recalled = _relevant_memories(parts, tx, ranking, least)
    said = turn_candidates(parts, tx, request, question, recalled.cited, least=of_a_turn)
    if ranking.by_need:
        said = replace(said, turns=tuple(_by_need(one, max(threshold, _TURN_THRESHOLD)) for one in said.turns))
    request.notices.extend(dict.fromkeys([*ranking.notices, *said.notices]))
    known = max(ranking.known, said.known)
    scores = {"known": round(known, 4)}
    if ranking.by_need:
        known = anything_needed(max(hit.needed or 0.0 for hit in ranking.hits), known)
        scores["anything"] = round(known, 4)
    offered = _PromptSelection(
        ranking=ranking,
        said=said,
        beside=same_turn_memories(parts, tx, request, recalled.memories) if known >= threshold else {},
        works=rules_for_work(parts, tx, request),
        asked=words_of(question.text),
        asks_for_work=bool(kinds_of_prompt(request.prompt)),
        is_known=known >= threshold,
        threshold=threshold,
        least=least,
        scores=scores,
    )
    budget = request.settings.budget
    room = max(budget - _FRAME_CHARS - offered.rules_take, int(budget * _MIN_SHARE))
    most = request.settings.auto_retrieve_max_results
    offered.fit(min(MAX_LINE, room - _MARK_CHARS))
    choice = choose(offered.candidates, room=room, most=most, longest=MAX_LINE, mark=_MARK_CHARS)
    if offered.take_back(choice.refused):  # a memory that replaced a turn has no room, so the turn may be shown
        choice = choose(offered.candidates, room=room, most=most, longest=MAX_LINE, mark=_MARK_CHARS)
    shown = [offered.piece(passage) for passage in choice.passages]
    return [*offered.rules, *shown, *offered.refused(choice.refused), *map(_said_here, said.here)]


def _question(request: ContextRequest) -> Question:
    """The search for a prompt. For a user other than this daemon's own, it covers only that user's content."""
    own = request.user if request.user != LOCAL_USER else None
    return Question(
        text=request.prompt[:LONGEST_QUERY],
        project=request.project,
        user=request.user,
        private=True,
        by_need=True,
        filters=Filters(agent=request.agent, user=own),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Recalled:
    """The relevant memories, best first, with their evidence; and by turn id, the best hit that it proves."""

    memories: Sequence[Memory]
    cited: Mapping[str, Hit]


def _relevant_memories(parts: Parts, tx: Tx, ranking: Ranking, least: float) -> _Recalled:
    hits = {hit.id: hit for hit in ranking.hits if hit.relevance >= least}
    found = parts.memories(tx).known(sorted(hits, key=lambda id_: (-hits[id_].relevance, id_)))
    cited: dict[str, Hit] = {}
    for memory in found:
        for one in memory.evidence:
            cited.setdefault(one.turn_id, hits[memory.id])
    return _Recalled(memories=found, cited=cited)


class _PromptSelection:
    """All candidates with the reasons of the refused ones, and the piece of each.

    Args:
        ranking: the memories found.
        said: the turns found.
        beside: by memory id, the memories shown on its line.
        works: rules about the work that the prompt asks for.
        asked: the words of the prompt; a long memory is cut to the part with most of them.
        asks_for_work: the prompt asks for work on the code.
        is_known: the probability that anything about the prompt is known reaches the threshold.
        threshold: the user's threshold for a whole block.
        least: memories with a lower relevance are refused.
        scores: logged with every candidate.
    """

    def __init__(
        self,
        *,
        ranking: Ranking,
        said: RankedTurns,
        beside: Mapping[str, Sequence[Memory]],
        works: Mapping[str, tuple[Memory, frozenset[Work]]],
        asked: frozenset[str],
        asks_for_work: bool,
        is_known: bool,
        threshold: float,
        least: float,
        scores: Mapping[str, Any],
    ) -> None:
        self._scores = dict(scores)
        self._beside = beside
        self._works = works
        self._asked = asked
        self._longest = MAX_LINE
        self._silenced: dict[str, set[str]] = {}
        self._reasons: dict[str, str] = {}
        self._hits: dict[str, Hit] = {}
        self._memories: dict[str, Memory] = {}
        self._turns: dict[str, RankedTurn] = {one.turn.id: one for one in said.turns}
        self._chances: dict[str, float] = {id_: one.told.chance for id_, one in self._turns.items()}
        by_work = ranking.by_need and asks_for_work
        for hit in sorted(ranking.hits, key=lambda hit: (-round(hit.relevance, 6), -hit.score)):
            if isinstance(hit.item, Memory):
                self._hits[hit.id], self._memories[hit.id] = hit, hit.item
                self._chances[hit.id] = hit.relevance
                passing = least * _RULE_FOR_WORK if hit.item.kind == "rule" and by_work else least
                self._reasons[hit.id] = _why_not(hit, hit.item, passing, is_known=is_known)
        for id_, (rule, kinds) in works.items():
            self._memories[id_] = rule
            meant = bool(kinds & SPECIFIC_KINDS) and threshold <= _SPECIFIC_RULE
            self._chances[id_] = max(self._chances.get(id_, 0.0), _SPECIFIC_RULE if meant else _GENERAL_RULE)
            self._reasons[id_] = "" if meant or is_known else "nothing relevant is known"
        for one in said.turns:
            self._reasons[one.turn.id] = one.refused if is_known else "nothing relevant is known"
        for one in said.turns:
            self._join(one)
        for id_, others in beside.items():
            if not self._reasons[id_]:
                self._reasons |= {
                    other.id: "shown on another memory's line" for other in others if other.id in self._hits
                }
        self.rules = [self._memory(memory) for memory in self._live(rules=True)]

    @property
    def rules_take(self) -> int:
        """Characters of the rules' lines."""
        return sum(min(len(rule.text), MAX_LINE) + _MARK_CHARS for rule in self.rules)

    @property
    def candidates(self) -> list[PassageItem]:
        """What may be shown: live memories except rules, then turns."""
        turns = [(id_, one) for id_, one in self._turns.items() if not self._reasons[id_]]
        return [
            *(self._told(memory) for memory in self._live(rules=False)),
            *(replace(one.told, chance=self._chances[id_]) for id_, one in turns),
        ]

    def fit(self, longest: int) -> None:
        """Limit the text of memories to that many characters."""
        self._longest = longest

    def take_back(self, refused: Mapping[str, str]) -> bool:
        """Offer turns again if all memories that replaced them lack room; True if there are any.

        Those memories keep the reason given here.
        """
        no_room = {id_: why for id_, why in refused.items() if id_ in self._memories and why in _NO_ROOM}
        back = [turn for turn, by in self._silenced.items() if by <= no_room.keys()]
        for turn in back:
            self._reasons[turn] = ""
            self._reasons |= {id_: no_room[id_] for id_ in self._silenced[turn]}
        return bool(back)

    def piece(self, passage: Passage) -> Candidate:
        """A passage as a piece: a memory, or turns of a conversation."""
        best = max(passage.told, key=lambda told: told.chance)
        if best.id in self._memories:
            return replace(self._memory(self._memories[best.id]), text=passage.text, value=passage.value)
        turns = [self._turns[told.id].turn for told in passage.told]
        return Candidate(
            id=best.id,
            kind="turn",
            section="memories",
            text=passage.text,
            said=turns[0].at,
            source=turns[0].scope.channel,
            verified=all(turn.trust >= TRUST_PROMPT for turn in turns),
            value=passage.value,
            turns=tuple(turn.id for turn in turns),
            scores=self._turns[best.id].hit.explain() | self._scores,
        )

    def refused(self, reasons: Mapping[str, str]) -> list[Candidate]:
        """Pieces for everything not shown, with the reasons of the choice and of earlier steps."""
        whole = {**{id_: why for id_, why in self._reasons.items() if why}, **reasons}
        return [
            self._memory(self._memories[id_], why) if id_ in self._memories else self._turn(self._turns[id_], why)
            for id_, why in whole.items()
        ]

    def _join(self, one: RankedTurn) -> None:
        """Make a turn and the memories that it, or the prompt it answers, proves a single candidate."""
        for id_ in sorted((one.memories | one.answers) & self._memories.keys()):
            if self._reasons[id_]:
                continue
            if one.named and id_ in one.memories:
                # The model for turns was trained on turns with their neighbours, so it fits chats better than the one
                # for memories.
                self._reasons[id_] = "covered by its turn"
            elif self._reasons[one.turn.id]:
                continue
            elif id_ in one.memories or _adds_little(one, self._memories[id_]):
                self._reasons[one.turn.id] = "covered by a memory"
                self._silenced.setdefault(one.turn.id, set()).add(id_)
                if id_ in one.memories:
                    self._chances[id_] = max(self._chances[id_], self._chances[one.turn.id])

    def _live(self, *, rules: bool) -> list[Memory]:
        live = [memory for id_, memory in self._memories.items() if not self._reasons[id_]]
        found = [memory for memory in live if (memory.kind == "rule") is rules]
        return sorted(found, key=lambda memory: -self._chances[memory.id])

    def _told(self, memory: Memory) -> PassageItem:
        text = "\n".join([_text(one) for one in (memory, *self._beside.get(memory.id, ()))])
        if len(text) > self._longest:
            text = excerpt(text, lambda part: len(self._asked & words_of(part)), whole=self._longest, cut=self._longest)
        return PassageItem(
            id=memory.id,
            conversation=memory.id,
            place=0,
            text=text,
            chance=self._chances[memory.id],
            words=words_of(text),
        )

    def _memory(self, memory: Memory, refused: str = "") -> Candidate:
        hit, kinds = self._hits.get(memory.id), self._works.get(memory.id, (memory, frozenset[Work]()))[1]
        scores = (hit.explain() if hit else {}) | ({"work": sorted(kinds)} if kinds else {}) | self._scores
        section = "rules" if memory.kind == "rule" else "memories"
        return candidate_of(memory, section, value=self._chances[memory.id], scores=scores, refused=refused)

    def _turn(self, one: RankedTurn, refused: str) -> Candidate:
        return Candidate(
            id=one.turn.id,
            kind="turn",
            section="memories",
            text=one.told.text,
            said=one.turn.at,
            source=one.turn.scope.channel,
            verified=one.turn.trust >= TRUST_PROMPT,
            value=one.told.chance,
            turns=(one.turn.id,),
            scores=one.hit.explain() | self._scores,
            refused=refused,
        )


def _by_need(one: RankedTurn, threshold: float) -> RankedTurn:
    """Apply the stricter rules for turns when memories are judged by need; chats between people stay unchanged."""
    if one.named:
        return one
    too_little = one.told.chance < threshold and one.hit.coverage < _REPEAT_COVERAGE
    refused = one.refused or ("below the threshold" if too_little else "")
    return replace(one, told=replace(one.told, chance=one.told.chance * _TURN_DISCOUNT), refused=refused)


def _said_here(turn: Turn) -> Candidate:
    """A turn of this session, as a refused piece; it is not ranked because the agent already has it in context."""
    return Candidate(
        id=turn.id,
        kind="turn",
        section="memories",
        text=turn.text[:MAX_LINE],
        said=turn.at,
        source=turn.scope.channel,
        verified=turn.trust >= TRUST_PROMPT,
        value=0.0,
        turns=(turn.id,),
        refused="said in this session",
    )


def _text(memory: Memory) -> str:
    return memory.text or f"{memory.key}: {memory.value}"


def _adds_little(reply: RankedTurn, memory: Memory) -> bool:
    """True if the reply mostly repeats the memory."""
    words = reply.told.words
    return len(words - words_of(memory.text)) <= _NOVELTY * len(words)


def _why_not(hit: Hit, memory: Memory, least: float, *, is_known: bool) -> str:
    """Why a memory is refused, or empty."""
    if not is_known:
        return "nothing relevant is known"
    if memory.confidence < MIN_CONFIDENCE_INJECT:
        return "confidence too low"
    return "" if hit.relevance >= least else "below the threshold"
