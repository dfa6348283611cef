"""Source: memories and passages of earlier conversations that are relevant to the prompt, and rules.

If the probability that anything about the prompt is known is below the threshold, all candidates are offered as
refused, except rules about specific work that the prompt asks for. If the embedder was trained on what prompts need,
memories are judged by that instead: by the probability that the prompt needs anything, and that it needs this memory
(`search.ranking`).

Memories and passages share the available lines. A memory replaces the turns that prove it, because it is shorter. In a
chat between people the turn replaces the memory, because it says who spoke. A rule is shown if it is relevant like any
memory, or if it concerns the kind of work that the prompt asks for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from filrouge.capture.models import TRUST_PROMPT, Turn
from filrouge.context.block import MAX_ITEM
from filrouge.context.models import USER_TRUST, Candidate, Section
from filrouge.context.request import ContextRequest
from filrouge.core import lazy_re as re
from filrouge.core.clock import from_text
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.intents import SPECIFIC_KINDS, Work, kinds_of_prompt, kinds_of_rule, states_anything
from filrouge.memories.models import MIN_CONFIDENCE_INJECT, SUMS, Filters, Memory
from filrouge.runtime.services import Parts, StoreContext
from filrouge.search.models import Hit, Omission, Ranking, Refusal
from filrouge.search.ranking import (
    MIN_NEED_PROBABILITY,
    EndedMemory,
    is_outdated,
    speaker_of,
    topic_words,
)
from filrouge.search.repository import Row, turns_with_neighbours
from filrouge.search.retrievers import MAX_QUERY_CHARACTERS
from filrouge.search.service import Question, TurnFilter, recall, search_turns, turns_with_words

# Passages: selects from ranked turns and memories the few lines most likely to answer the prompt.
#
# A line shows one memory, or neighbouring turns of one conversation. The aim is the most probable evidence in the
# fewest characters, so candidates are taken by probability per character. A turn near one already chosen joins its
# line, which costs less than a new line. Long turns are cut at sentence ends to the part that matches the prompt.
# Candidates that repeat a chosen one are dropped.

_SENTENCE: Final = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=\S)|\s*\n\s*")
_SPACES: Final = re.compile(r"\s+")
#: Turns of one conversation at most this many positions apart share a line; a gap is marked.
MAX_GAP: Final = 3
#: Extra cost of a new line, in characters: it needs a prefix with time and source, and takes one of about four lines.
_LINE_COST: Final = 100
#: Turns longer than `MAX_UNCUT` characters are cut to at most `MAX_EXCERPT` characters.
MAX_UNCUT: Final = 400
MAX_EXCERPT: Final = 300
#: The excerpt of a very long sentence is built from this many pieces.
_EXCERPT_PIECES: Final = 6
#: Two texts count as the same if they share at least this share of the shorter one's words.
_DUPLICATE_SHARE: Final = 0.85
#: Separators between turns while a passage has several lines. In the final single line each takes
#: `_SEPARATOR_CHARACTERS`.
_ADJACENT: Final = "\n"
_GAP: Final = "\n…\n"
_SEPARATOR_CHARACTERS: Final = 3


class PassageItem(Struct, frozen=True, kw_only=True):
    """One candidate: a memory or a turn.

    Attributes:
        conversation: turns with equal values may share a line; for a memory its own id, since it stands alone.
        position: the position of a turn in its conversation.
        text: the text to show, one line.
        answered_prompt: for a reply, the id of the prompt it answers and the text that is shown of it; not used if that
            prompt has a place in the passage itself.
        probability: the probability that it contains what was asked.
        may_open_line: it may have its own line; otherwise it can only join one.
        words: its words, for detecting repetition.
    """

    id: str
    conversation: Hashable
    position: int
    text: str
    probability: float
    words: frozenset[str] = field(default_factory=frozenset[str])
    answered_prompt: tuple[str, str] | None = None
    may_open_line: bool = True


class Passage(Struct, frozen=True, kw_only=True):
    """One line: its turns in chronological order, or one memory."""

    items: tuple[PassageItem, ...]

    @property
    def text(self) -> str:
        """The texts of its turns, with a mark where turns are left out."""
        shown_ids = {item.id for item in self.items}
        texts: list[str] = []
        for previous, item in zip([None, *self.items], self.items, strict=False):
            if previous:
                texts.append(_ADJACENT if item.position - previous.position == 1 else _GAP)
            if item.answered_prompt and item.answered_prompt[0] not in shown_ids:
                texts += [item.answered_prompt[1], _ADJACENT]
            texts.append(item.text)
        return "".join(texts)

    @property
    def size(self) -> int:
        """Characters of the text when written as one line."""
        return len(self.text) + (_SEPARATOR_CHARACTERS - 1) * self.text.count("\n")

    @property
    def value(self) -> float:
        """The probability that any part of it contains what was asked."""
        return 1.0 - math.prod(1.0 - item.probability for item in self.items)


class ChosenPassages(Struct, frozen=True, kw_only=True):
    """The chosen lines, best first, and for each item left out the reason, by its id."""

    passages: tuple[Passage, ...]
    omissions: dict[str, Omission]


def choose(
    items: Sequence[PassageItem], *, max_characters: int, max_lines: int, max_line: int, prefix: int
) -> ChosenPassages:
    """Choose the passages to show.

    Args:
        max_characters: maximum characters of all lines together, including their prefixes.
        max_lines: maximum number of lines.
        max_line: maximum characters of one line's text.
        prefix: characters of a line's prefix (time and source).
    """
    lines: list[Passage] = []
    omissions: dict[str, Omission] = {}
    remaining = {item.id: item for item in items}
    while remaining:
        for id_ in [id_ for id_, item in remaining.items() if _repeats_any(item, lines)]:
            omissions[id_] = "repeats a shown item"
            del remaining[id_]
        used = sum(line.size + prefix for line in lines)
        best: tuple[float, str, int | None, Passage] | None = None
        for id_, item in remaining.items():
            index, line, added = _best_line_for(item, lines, max_line)
            if index is None and (len(lines) >= max_lines or not item.may_open_line):
                continue
            if line.size > max_line or used + added + (prefix if index is None else 0) > max_characters:
                continue
            # Filling a gap may cost nothing, because the mark of the gap goes away.
            density = item.probability / max(1, added + (_LINE_COST if index is None else 0))
            if best is None or (density, id_) > best[:2]:
                best = (density, id_, index, line)
        if best is None:
            break
        _, id_, index, line = best
        del remaining[id_]
        others = [line if n == index else other for n, other in enumerate(lines)]
        lines = [*lines, line] if index is None else others
    for id_, item in remaining.items():
        index, _, _ = _best_line_for(item, lines, max_line)
        beyond = index is None and len(lines) >= max_lines
        omissions[id_] = (
            "beyond the limit" if beyond else "over the budget" if item.may_open_line else "below the threshold"
        )
    return ChosenPassages(passages=tuple(sorted(lines, key=lambda line: -line.value)), omissions=omissions)


def excerpt(
    text: str, weigh: Callable[[str], float], *, max_uncut: int = MAX_UNCUT, max_excerpt: int = MAX_EXCERPT
) -> str:
    """A turn as one line: all of it up to `max_uncut` characters, else the sentences that best match the prompt.

    Args:
        weigh: how well a sentence matches the prompt.
        max_excerpt: maximum characters of a turn that is longer than `max_uncut`.
    """
    line = _SPACES.sub(" ", text).strip()
    if len(line) <= max_uncut:
        return line
    sentences = [_SPACES.sub(" ", sentence).strip() for sentence in _SENTENCE.split(text)]
    sentences = [sentence for sentence in sentences if sentence]
    weights = [weigh(sentence) for sentence in sentences]
    best = max(range(len(sentences)), key=lambda index: (weights[index], -index))
    if len(sentences[best]) > max_excerpt:
        return _best_part(sentences, best, weigh, max_excerpt)
    first, last = best, best + 1
    while True:
        # Add the neighbour with the higher weight; on a tie, the following sentence.
        sides = [(weights[last], 1, last)] if last < len(sentences) else []
        sides += [(weights[first - 1], 0, first - 1)] if first else []
        fitting = [
            side for side in sides if _length(sentences, min(first, side[2]), max(last, side[2] + 1)) <= max_excerpt
        ]
        if not fitting:
            break
        _, _, index = max(fitting)
        first, last = min(first, index), max(last, index + 1)
    before, after = "… " if first else "", " …" if last < len(sentences) else ""
    return f"{before}{' '.join(sentences[first:last])}{after}"


def _best_line_for(item: PassageItem, lines: Sequence[Passage], max_line: int) -> tuple[int | None, Passage, int]:
    """The index of the line this item joins (None for a new line), that line with it, and the added characters."""
    for index, line in enumerate(lines):
        if line.items[0].conversation != item.conversation:
            continue
        if min(abs(item.position - other.position) for other in line.items) <= MAX_GAP:
            joined = Passage(items=tuple(sorted([*line.items, item], key=lambda item: item.position)))
            if joined.size <= max_line:
                return index, joined, joined.size - line.size
    alone = Passage(items=(item,))
    return None, alone, alone.size


def _repeats_any(item: PassageItem, lines: Sequence[Passage]) -> bool:
    return any(_is_repeat(item, other) for line in lines for other in line.items)


def _is_repeat(item: PassageItem, other: PassageItem) -> bool:
    shorter = min(len(item.words), len(other.words))
    return shorter > 2 and len(item.words & other.words) >= _DUPLICATE_SHARE * shorter


def _length(sentences: Sequence[str], first: int, last: int) -> int:
    return sum(len(sentence) + 1 for sentence in sentences[first:last]) + 4


def _best_part(sentences: Sequence[str], index: int, weigh: Callable[[str], float], max_excerpt: int) -> str:
    """The part of an overlong sentence that best matches the prompt, cut between words; cuts are marked."""
    max_characters = max_excerpt - 4  # without the two cut marks
    pieces = _pieces(sentences[index], max(1, max_characters // _EXCERPT_PIECES))
    weights = [weigh(piece) for piece in pieces]
    best = (-1.0, 0, 1)
    last, size = 0, 0
    for first in range(len(pieces)):
        while last < len(pieces) and size + len(pieces[last]) + 1 <= max_characters + 1:
            size += len(pieces[last]) + 1
            last += 1
        if last > first:
            weight = sum(weights[first:last])
            best = max(best, (weight, -first, last))
            size -= len(pieces[first]) + 1
    _, first, last = best
    part = " ".join(pieces[-first:last])
    before = "… " if index or first else ""
    after = "" if last == len(pieces) and index == len(sentences) - 1 else "…" if last < len(pieces) else " …"
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

#: Maximum turns looked at for a prompt; more find no more evidence (`bench/results/injection.md`).
MAX_TURNS: Final = 24
#: Maximum turns of the session itself that are listed as refused.
_MAX_SESSION_TURNS: Final = 3
#: Number of recently ended memories that turns are compared with.
_MAX_ENDED_MEMORIES: Final = 200
#: Maximum characters shown of the prompt that a reply answers.
_MAX_PROMPT_CHARS: Final = 120
#: In a chat between people, an answer is often spread over many short turns. So a turn opens its own line from the
#: first of these shares of the usual threshold on, and joins another line from the second on.
_OPEN_SHARE: Final = 0.1
_JOIN_SHARE: Final = 0.04
_ROLE_PREFIX: Final = {"user": "User: ", "assistant": "Assistant: "}


class RankedTurn(Struct, frozen=True, kw_only=True):
    """A turn found for the prompt, and whether it may be shown.

    Attributes:
        memory_ids: the live memories that it proves.
        prompt_memory_ids: the live memories that are proved by the prompt it answers.
        item: the turn as an item of a passage.
        names_speakers: speakers are named in it, so it belongs to a chat between people.
        refused: why it may not be shown, or empty.
    """

    turn: Turn
    hit: Hit
    item: PassageItem
    memory_ids: frozenset[str]
    prompt_memory_ids: frozenset[str]
    names_speakers: bool
    refused: Refusal


class RankedTurns(Struct, frozen=True, kw_only=True):
    """All turns for a prompt; `known` and `notices` as in a `Ranking`.

    Attributes:
        turns: those that the search found, best first, then turns cited by a memory, by id.
        in_context: the first turns found from this session, which are already in the agent's context.
    """

    turns: tuple[RankedTurn, ...]
    in_context: tuple[Turn, ...] = ()
    known: float = 0.0
    notices: tuple[str, ...] = ()


def turn_candidates(
    parts: Parts,
    tx: Tx,
    request: ContextRequest,
    question: Question,
    cited: Mapping[str, Hit],
    *,
    min_probability: float,
) -> RankedTurns:
    """The candidate turns for a prompt.

    Args:
        cited: by turn id, the hit of a memory that the turn proves. A chat turn is listed even if the search did not
            find it, because it represents its memory.
        min_probability: turns below this probability are refused.
    """
    is_in_context: dict[str, bool | None] = {}  # of every turn asked for, in order; None if it is no real message

    def showable(ids: Sequence[str]) -> Collection[str]:
        unknown = [id_ for id_ in ids if id_ not in is_in_context]
        is_in_context.update(dict.fromkeys(unknown))
        is_in_context.update(_real_messages(tx, request, unknown) if unknown else {})
        return {id_ for id_ in ids if is_in_context[id_] is False}

    ranking = search_turns(
        parts, tx, replace(question, limit=MAX_TURNS), TurnFilter(permitted_ids=showable, permits=_says_something)
    )
    in_context = _in_context(parts, tx, request, [id_ for id_, here in is_in_context.items() if here])
    found = [(hit, hit.item) for hit in ranking.hits if isinstance(hit.item, Turn)]
    others = showable([id_ for id_ in cited if id_ not in {turn.id for _, turn in found}])
    found += [(replace(cited[turn.id], item=turn), turn) for turn in parts.turns(tx).get(sorted(others))]
    if not found:
        return RankedTurns(turns=(), in_context=in_context, notices=ranking.notices)
    neighbours = _Neighbours(tx, [turn.id for _, turn in found], request.agent)
    prompts = {turn.id: neighbours.prompt(turn.id) for _, turn in found if turn.role == "assistant"}
    proved = memories_of_turns(tx, [*(turn.id for _, turn in found), *(row["id"] for row in prompts.values() if row)])
    ended = ended_memories(tx, request)
    question_words = topic_words(question.text)
    turns: list[RankedTurn] = []
    for hit, turn in found:
        words, prompt = topic_words(turn.text), prompts.get(turn.id)
        states, prompt_states = proved.get(turn.id, {}), proved.get(prompt["id"], {}) if prompt else {}
        names_speakers = neighbours.names_speakers(turn.id)
        if turn.id in others and not names_speakers:
            continue
        refused: Refusal = ""
        if any(state != "live" for state in [*states.values(), *prompt_states.values()]):
            refused = "its memory is no longer valid"
        elif not states and is_outdated(words, turn.at, ended):
            refused = "repeats an outdated memory"
        elif turn.id in others or hit.relevance < min_probability * (_JOIN_SHARE if names_speakers else 1.0):
            refused = "below the threshold"
        conversation, position = neighbours.position(turn.id)
        item = PassageItem(
            id=turn.id,
            conversation=conversation,
            position=position,
            text=_turn_text(turn.role, turn.text, question_words, names_speakers=names_speakers),
            probability=hit.relevance,
            may_open_line=hit.relevance >= min_probability * (_OPEN_SHARE if names_speakers else 1.0),
            words=words,
            answered_prompt=(
                prompt["id"],
                _turn_text(
                    "user", prompt["text"], question_words, names_speakers=False, max_characters=_MAX_PROMPT_CHARS
                ),
            )
            if prompt
            else None,
        )
        turns.append(
            RankedTurn(
                turn=turn,
                hit=hit,
                item=item,
                memory_ids=_live_ids(states),
                prompt_memory_ids=_live_ids(prompt_states),
                names_speakers=names_speakers,
                refused=refused,
            )
        )
    return RankedTurns(turns=tuple(turns), in_context=in_context, known=ranking.known, notices=ranking.notices)


def last_words(parts: StoreContext, tx: Tx, request: ContextRequest, ids: Sequence[str]) -> list[Turn]:
    """The last prompt among these turns (oldest first) and its reply, as far as they may be shown.

    Empty if one of them says something no longer valid, or belongs to another agent while agents are isolated.
    """
    is_in_context = _real_messages(tx, request, ids)
    turns = [turn for turn in parts.turns(tx).get(ids) if is_in_context.get(turn.id) is False]
    prompts = [index for index, turn in enumerate(turns) if turn.role == "user"]
    if not prompts:
        return []
    prompt, *after = turns[prompts[-1] :]
    last = [prompt, *(turn for turn in after if turn.role == "assistant")][:2]
    proved, ended = memories_of_turns(tx, [turn.id for turn in last]), ended_memories(tx, request)
    has_ended = any(state != "live" for turn in last for state in proved.get(turn.id, {}).values())
    outdated = any(is_outdated(topic_words(turn.text), turn.at, ended) for turn in last)
    of_other_agent = request.agent is not None and any(
        (turn.scope.agent or turn.scope.channel) != request.agent for turn in last
    )
    return [] if has_ended or outdated or of_other_agent else last


def _real_messages(tx: Tx, request: ContextRequest, ids: Sequence[str]) -> dict[str, bool]:
    """By id of the real prompts and replies among these turns: whether it is in the session's current context."""
    parameters = {
        "host": request.host, "session_id": request.session, "since": request.compacted, "user_id": request.user,
    }  # fmt: skip
    rows = tx.all("turns.showable", {"ids": json.dumps(list(ids)), **parameters})
    return {row["id"]: bool(row["in_context"]) for row in rows}


def _in_context(parts: StoreContext, tx: Tx, request: ContextRequest, ids: Sequence[str]) -> tuple[Turn, ...]:
    """The first of these turns, which are in the agent's context, except the prompt itself."""
    turns = parts.turns(tx).get(ids[: _MAX_SESSION_TURNS + 1])
    return tuple(turn for turn in turns if turn.text.strip() != request.prompt.strip())[:_MAX_SESSION_TURNS]


def _says_something(turn: Turn) -> bool:
    return turn.role == "assistant" or bool(speaker_of(turn.text)) or states_anything(turn.text)


def _turn_text(
    role: str, text: str, question_words: frozenset[str], *, names_speakers: bool, max_characters: int = 0
) -> str:
    def weigh(sentence: str) -> float:
        return len(question_words & topic_words(sentence))

    limits = {"max_uncut": max_characters, "max_excerpt": max_characters} if max_characters else {}
    line = excerpt(text, weigh, **limits)
    return line if names_speakers else _ROLE_PREFIX[role] + line


def _live_ids(states: Mapping[str, str]) -> frozenset[str]:
    return frozenset(id_ for id_, state in states.items() if state == "live")


def memories_of_turns(tx: Tx, turn_ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """By turn id: the memories it proves, with their state; memories waiting for review are left out."""
    found: dict[str, dict[str, str]] = {}
    for row in tx.all("evidence.proving", {"turns": json.dumps(turn_ids)}):
        found.setdefault(row["turn_id"], {})[row["memory_id"]] = row["state"]
    return found


def ended_memories(tx: Tx, request: ContextRequest) -> list[EndedMemory]:
    """The most recently ended memories of this project and user."""
    parameters = {"project_id": request.project, "user_id": request.user, "limit": _MAX_ENDED_MEMORIES}
    rows = tx.all("memories.ended", parameters)
    return [EndedMemory(words=topic_words(row["text"]), at=from_text(row["valid_to"])) for row in rows]


class _Neighbours:
    """The positions of turns in their conversations."""

    def __init__(self, tx: Tx, ids: Sequence[str], agent: str | None) -> None:
        def passes_filter(row: Row) -> bool:
            return agent is None or (row["agent"] or row["channel"]) == agent

        window = turns_with_neighbours(tx, ids, MAX_GAP, passes_filter)
        self._rows, self._previous = window.rows, window.previous
        self._index: Mapping[str, int] = {row["id"]: index for index, row in enumerate(self._rows)}

    def position(self, id_: str) -> tuple[str, int]:
        """The conversation, identified by its first known turn, and how many turns come before."""
        path = [self._index[id_]]
        while self._previous[path[-1]] >= 0:
            path.append(self._previous[path[-1]])
        return self._rows[path[-1]]["id"], len(path) - 1

    def names_speakers(self, id_: str) -> bool:
        """True if the turn and another user turn nearby begin with the same speaker name: a chat between people."""
        name = speaker_of(self._rows[self._index[id_]]["text"])
        conversation = self.position(id_)[0]
        same_speaker = (row for row in self._rows if name and row["role"] == "user" and speaker_of(row["text"]) == name)
        return sum(self.position(row["id"])[0] == conversation for row in same_speaker) > 1

    def prompt(self, id_: str) -> Row | None:
        """The last user turn before a turn, or None."""
        index = self._previous[self._index[id_]]
        while index >= 0 and self._rows[index]["role"] != "user":
            index = self._previous[index]
        return self._rows[index] if index >= 0 else None


def candidate_of(
    memory: Memory, section: Section, *, value: float, scores: Mapping[str, Any] | None = None, refused: Refusal = ""
) -> Candidate:
    """A memory as a candidate, dated by its last mention."""
    return Candidate(
        id=memory.id,
        kind=memory.kind,
        section=section,
        text=shown_text(memory),
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
    parts: StoreContext, tx: Tx, request: ContextRequest, memories: Sequence[Memory]
) -> dict[str, list[Memory]]:
    """By memory id: other memories that the same short turn proves.

    Args:
        memories: with their evidence, most relevant first. A memory listed with an earlier one gets no entry.
    """
    turns = {evidence.turn_id for memory in memories for evidence in memory.evidence}
    short = {turn.id for turn in parts.turns(tx).get(sorted(turns)) if len(turn.text) <= _MAX_SHORT_TURN}
    proved = memories_of_turns(tx, sorted(short))
    others = parts.memories(tx).some(sorted({id_ for states in proved.values() for id_ in states}))
    found: dict[str, list[Memory]] = {}
    listed: set[str] = set()
    for memory in memories:
        if memory.id in listed:
            continue
        ids = dict.fromkeys(id_ for evidence in memory.evidence for id_ in proved.get(evidence.turn_id, {}))
        same_turn = [others[id_] for id_ in ids if id_ in others and id_ != memory.id and id_ not in listed]
        found[memory.id] = [other for other in same_turn if other.kind != "rule" and may_be_shown(other, request)][
            :_MAX_SAME_TURN
        ]
        listed |= {memory.id, *(other.id for other in found[memory.id])}
    return found


def rules_for_work(
    parts: StoreContext, tx: Tx, request: ContextRequest, requested: frozenset[Work]
) -> Mapping[str, tuple[Memory, frozenset[Work]]]:
    """By rule id: each rule about one of these kinds of work, with those kinds."""
    if not requested:
        return {}
    rules = parts.memories(tx).rules(project=request.project, user=request.user, agent=request.agent)
    with_kinds = {rule.id: (rule, kinds_of_rule(rule.text) & requested) for rule in rules}
    return {id_: (rule, kinds) for id_, (rule, kinds) in with_kinds.items() if kinds}


def may_be_shown(memory: Memory, request: ContextRequest) -> bool:
    """True if the request may see a memory that no search found."""
    scope = memory.scope
    in_scope = scope.user == request.user and (memory.scope_name == "user" or scope.project == request.project)
    allowed = request.agent is None or (scope.agent or scope.channel) == request.agent
    is_certain = memory.state == "live" and memory.confidence >= MIN_CONFIDENCE_INJECT
    return in_scope and allowed and is_certain and not memory.disabled and memory.kind not in SUMS


#: Share of the threshold for a whole block that a turn must reach, and a memory unless memories are judged by need. The
#: user's threshold counts as at least `_MIN_THRESHOLD` here.
SHARE_OF_THRESHOLD: Final = 0.1
#: If memories are judged by need, an agent's answer is shown where it contains this share of the prompt's words: then
#: the same was asked before. Turns are ranked only if one of the best by words contains that share, and so many words,
#: or names its speaker. Of the other turns before prompts of talk none was needed (`bench/results/needed.md`).
_REPEAT_COVERAGE: Final = 0.6
_TURNS_LOOKED_AT: Final = 6
_MIN_SHARED_WORDS: Final = 3
#: Probability that such a turn helps, as a share of the probability that it contains what was asked.
_TURN_DISCOUNT: Final = 0.6
#: Share of the best memory's probability that others must reach; in a small store even the second best stands out.
_MIN_SHARE_OF_BEST: Final = 0.4
#: For a prompt that asks for work, the share of the memory threshold that a rule must reach.
_RULE_SHARE_FOR_WORK: Final = 0.5
#: A user threshold below this does not lower the item thresholds any further.
_MIN_THRESHOLD: Final = 0.5
#: Probability that a rule helps if it concerns the specific work asked for (`extraction.intents`), and if it concerns
#: any work on the code; the latter only accompanies other items.
_SPECIFIC_RULE: Final = 0.9
_GENERAL_RULE: Final = 0.3
#: A reply counts as new if more than this share of its words is not in the memory.
_NOVELTY: Final = 0.5
#: Reasons for refusal that only mean a lack of room.
_NO_ROOM: Final = ("over the budget", "beyond the limit")
#: Characters of a block besides its lines, and of a line's prefix.
_FRAME_CHARS: Final = 450
_PREFIX_CHARS: Final = 34
#: Share of the budget that may always be used, even if frame and rules leave less.
_MIN_BUDGET_SHARE: Final = 0.4


def memories(parts: Parts, tx: Tx, request: ContextRequest) -> Sequence[Candidate]:
    """The candidates recalled for the prompt: rules, then passages with the best first, then the refused candidates."""
    question = _question(request)
    threshold = request.settings.auto_retrieve_min_score
    base_threshold = max(threshold, _MIN_THRESHOLD)
    item_threshold = base_threshold * SHARE_OF_THRESHOLD
    ranking = recall(parts, tx, question)
    memory_threshold = (
        max(base_threshold * MIN_NEED_PROBABILITY / _MIN_THRESHOLD, ranking.hits[0].relevance * _MIN_SHARE_OF_BEST)
        if ranking.by_need
        else item_threshold
    )
    recalled = _relevant_memories(parts, tx, ranking, memory_threshold)
    ranked_turns = RankedTurns(turns=())
    if not ranking.by_need or _may_turns_help(parts, tx, request, question):
        ranked_turns = turn_candidates(parts, tx, request, question, recalled.cited, min_probability=item_threshold)
    if ranking.by_need:
        ranked_turns = replace(ranked_turns, turns=tuple(map(_apply_need_rules, ranked_turns.turns)))
    request.notices.extend(dict.fromkeys([*ranking.notices, *ranked_turns.notices]))
    known = ranking.known if ranking.by_need else max(ranking.known, ranked_turns.known)
    is_known = are_turns_known = known >= threshold
    if ranking.by_need:  # the need was not learned from turns, nor from chats between people
        are_turns_known = ranked_turns.known >= threshold
        is_chat = any(ranked.names_speakers for ranked in ranked_turns.turns)
        is_known = is_known and (are_turns_known or not is_chat)
    requested = kinds_of_prompt(request.prompt)
    candidates = _PromptCandidates(
        ranking=ranking,
        ranked_turns=ranked_turns,
        same_turn=same_turn_memories(parts, tx, request, recalled.memories) if is_known else {},
        work_rules=rules_for_work(parts, tx, request, requested),
        question_words=topic_words(question.text),
        asks_for_work=bool(requested),
        is_known=is_known,
        are_turns_known=are_turns_known,
        threshold=threshold,
        memory_threshold=memory_threshold,
        scores={"anything" if ranking.by_need else "known": round(known, 4)},
    )
    budget = request.settings.budget
    max_characters = max(budget - _FRAME_CHARS - candidates.rules_size, int(budget * _MIN_BUDGET_SHARE))
    max_lines = request.settings.auto_retrieve_max_results
    limits = {
        "max_characters": max_characters, "max_lines": max_lines, "max_line": MAX_ITEM, "prefix": _PREFIX_CHARS,
    }  # fmt: skip
    candidates.limit_texts(min(MAX_ITEM, max_characters - _PREFIX_CHARS))
    chosen = choose(candidates.items, **limits)
    if candidates.offer_turns_again(chosen.omissions):  # a memory that replaced a turn has no room
        chosen = choose(candidates.items, **limits)
    return [
        *candidates.rules,
        *map(candidates.candidate, chosen.passages),
        *candidates.refused_candidates(chosen.omissions),
        *map(_said_in_session, ranked_turns.in_context),
    ]


def _may_turns_help(parts: Parts, tx: Tx, request: ContextRequest, question: Question) -> bool:
    """True if the words of the prompt lead to a chat between people, or to an answer of another session."""
    words, turns = turns_with_words(parts, tx, question, _TURNS_LOOKED_AT)
    enough = max(_MIN_SHARED_WORDS, _REPEAT_COVERAGE * words)

    def may_help(turn: Turn, shared: int) -> bool:
        if turn.role == "user":
            return bool(speaker_of(turn.text))
        return turn.role == "assistant" and shared >= enough and turn.scope.session != request.session

    return any(may_help(turn, shared) for turn, shared in turns)


def _question(request: ContextRequest) -> Question:
    """The search for a prompt. For a user other than this daemon's own, it covers only that user's content."""
    other_user = request.user if request.user != LOCAL_USER else None
    return Question(
        text=request.prompt[:MAX_QUERY_CHARACTERS],
        project=request.project,
        user=request.user,
        own_only=True,
        by_need=True,
        filters=Filters(agent=request.agent, user=other_user),
    )


class _Recalled(Struct, frozen=True, kw_only=True):
    """The relevant memories, best first, with their evidence; and by turn id, the best hit that it proves."""

    memories: Sequence[Memory]
    cited: Mapping[str, Hit]


def _relevant_memories(parts: StoreContext, tx: Tx, ranking: Ranking, min_relevance: float) -> _Recalled:
    hits = {hit.id: hit for hit in ranking.hits if hit.relevance >= min_relevance}
    found = parts.memories(tx).known(sorted(hits, key=lambda id_: (-hits[id_].relevance, id_)))
    cited: dict[str, Hit] = {}
    for memory in found:
        for evidence in memory.evidence:
            cited.setdefault(evidence.turn_id, hits[memory.id])
    return _Recalled(memories=found, cited=cited)


class _PromptCandidates:
    """All memories and turns for a prompt, with the reasons of the refused ones.

    Args:
        ranking: the memories found.
        ranked_turns: the turns found.
        same_turn: by memory id, the memories shown on its line.
        work_rules: rules about the work that the prompt asks for.
        question_words: the words of the prompt; a long memory is cut to the part with most of them.
        asks_for_work: the prompt asks for work on the code.
        is_known: the probability that anything about the prompt is known, or, where memories are judged by need, that
            the prompt needs anything, reaches the threshold.
        are_turns_known: the same of the turns, of which need tells nothing.
        threshold: the user's threshold for a whole block.
        memory_threshold: memories with a lower relevance are refused.
        scores: logged with every candidate.
    """

    def __init__(
        self,
        *,
        ranking: Ranking,
        ranked_turns: RankedTurns,
        same_turn: Mapping[str, Sequence[Memory]],
        work_rules: Mapping[str, tuple[Memory, frozenset[Work]]],
        question_words: frozenset[str],
        asks_for_work: bool,
        is_known: bool,
        are_turns_known: bool,
        threshold: float,
        memory_threshold: float,
        scores: Mapping[str, Any],
    ) -> None:
        self._scores = dict(scores)
        self._same_turn = same_turn
        self._work_rules = work_rules
        self._question_words = question_words
        self._max_text = MAX_ITEM
        #: By turn id, the ids of the memories shown instead of it.
        self._replaced_by: dict[str, set[str]] = {}
        self._reasons: dict[str, Refusal] = {}
        self._hits: dict[str, Hit] = {}
        self._memories: dict[str, Memory] = {}
        self._turns: dict[str, RankedTurn] = {ranked.turn.id: ranked for ranked in ranked_turns.turns}
        self._probabilities: dict[str, float] = {id_: turn.item.probability for id_, turn in self._turns.items()}
        has_eased_rules = ranking.by_need and asks_for_work
        for hit in sorted(ranking.hits, key=lambda hit: (-round(hit.relevance, 6), -hit.score)):
            if isinstance(hit.item, Memory):
                self._hits[hit.id], self._memories[hit.id] = hit, hit.item
                self._probabilities[hit.id] = hit.relevance
                is_work_rule = hit.item.kind == "rule" and has_eased_rules
                min_relevance = memory_threshold * _RULE_SHARE_FOR_WORK if is_work_rule else memory_threshold
                self._reasons[hit.id] = _refusal(hit, hit.item, min_relevance, is_known=is_known)
        for id_, (rule, kinds) in work_rules.items():
            self._memories[id_] = rule
            is_specific = bool(kinds & SPECIFIC_KINDS) and threshold <= _SPECIFIC_RULE
            self._probabilities[id_] = max(
                self._probabilities.get(id_, 0.0), _SPECIFIC_RULE if is_specific else _GENERAL_RULE
            )
            self._reasons[id_] = "" if is_specific or is_known else "nothing relevant is known"
        for ranked in ranked_turns.turns:
            self._reasons[ranked.turn.id] = ranked.refused if are_turns_known else "nothing relevant is known"
        for ranked in ranked_turns.turns:
            self._merge_with_memories(ranked)
        for id_, others in same_turn.items():
            if not self._reasons[id_]:
                self._reasons |= {
                    other.id: "shown on another memory's line" for other in others if other.id in self._hits
                }
        self.rules = [self._memory_candidate(memory) for memory in self._not_refused(rules=True)]

    @property
    def rules_size(self) -> int:
        """Characters of the rules' lines."""
        return sum(min(len(rule.text), MAX_ITEM) + _PREFIX_CHARS for rule in self.rules)

    @property
    def items(self) -> list[PassageItem]:
        """What may be shown: memories without a refusal, except rules, then turns without one."""
        turns = [(id_, turn) for id_, turn in self._turns.items() if not self._reasons[id_]]
        return [
            *(self._memory_item(memory) for memory in self._not_refused(rules=False)),
            *(replace(turn.item, probability=self._probabilities[id_]) for id_, turn in turns),
        ]

    def limit_texts(self, max_text: int) -> None:
        """Limit the text of memories to that many characters."""
        self._max_text = max_text

    def offer_turns_again(self, omissions: Mapping[str, Omission]) -> bool:
        """Offer turns again if all memories that replaced them lack room; True if there are any.

        Those memories keep the reason given here.
        """
        no_room: dict[str, Refusal] = {
            id_: why for id_, why in omissions.items() if id_ in self._memories and why in _NO_ROOM
        }
        offered = [turn_id for turn_id, memory_ids in self._replaced_by.items() if memory_ids <= no_room.keys()]
        for turn_id in offered:
            self._reasons[turn_id] = ""
            self._reasons |= {id_: no_room[id_] for id_ in self._replaced_by[turn_id]}
        return bool(offered)

    def candidate(self, passage: Passage) -> Candidate:
        """A passage as a candidate: a memory, or turns of a conversation."""
        best = max(passage.items, key=lambda item: item.probability)
        if best.id in self._memories:
            return replace(self._memory_candidate(self._memories[best.id]), text=passage.text, value=passage.value)
        turns = [self._turns[item.id].turn for item in passage.items]
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

    def refused_candidates(self, omissions: Mapping[str, Omission]) -> list[Candidate]:
        """Candidates for everything not shown, with the reasons of the choice and of earlier steps."""
        reasons: dict[str, Refusal] = {**{id_: why for id_, why in self._reasons.items() if why}, **omissions}
        return [
            self._memory_candidate(self._memories[id_], why)
            if id_ in self._memories
            else self._turn_candidate(self._turns[id_], why)
            for id_, why in reasons.items()
        ]

    def _merge_with_memories(self, ranked: RankedTurn) -> None:
        """Make a turn and the memories that it, or the prompt it answers, proves a single candidate."""
        for id_ in sorted((ranked.memory_ids | ranked.prompt_memory_ids) & self._memories.keys()):
            if self._reasons[id_] or self._reasons[ranked.turn.id]:
                continue
            if ranked.names_speakers and id_ in ranked.memory_ids:
                # The model for turns was trained on turns with their neighbours, so it fits chats better than the one
                # for memories.
                self._reasons[id_] = "covered by its turn"
            elif id_ in ranked.memory_ids or _adds_little(ranked, self._memories[id_]):
                self._reasons[ranked.turn.id] = "covered by a memory"
                self._replaced_by.setdefault(ranked.turn.id, set()).add(id_)
                if id_ in ranked.memory_ids:
                    self._probabilities[id_] = max(self._probabilities[id_], self._probabilities[ranked.turn.id])

    def _not_refused(self, *, rules: bool) -> list[Memory]:
        allowed = [memory for id_, memory in self._memories.items() if not self._reasons[id_]]
        found = [memory for memory in allowed if (memory.kind == "rule") is rules]
        return sorted(found, key=lambda memory: -self._probabilities[memory.id])

    def _memory_item(self, memory: Memory) -> PassageItem:
        text = "\n".join([shown_text(listed) for listed in (memory, *self._same_turn.get(memory.id, ()))])
        if len(text) > self._max_text:
            text = excerpt(
                text,
                lambda part: len(self._question_words & topic_words(part)),
                max_uncut=self._max_text,
                max_excerpt=self._max_text,
            )
        return PassageItem(
            id=memory.id,
            conversation=memory.id,
            position=0,
            text=text,
            probability=self._probabilities[memory.id],
            words=topic_words(text),
        )

    def _memory_candidate(self, memory: Memory, refused: Refusal = "") -> Candidate:
        hit, kinds = self._hits.get(memory.id), self._work_rules.get(memory.id, (memory, frozenset[Work]()))[1]
        scores = (hit.explain() if hit else {}) | ({"work": sorted(kinds)} if kinds else {}) | self._scores
        section = "rules" if memory.kind == "rule" else "memories"
        return candidate_of(memory, section, value=self._probabilities[memory.id], scores=scores, refused=refused)

    def _turn_candidate(self, ranked: RankedTurn, refused: Refusal) -> Candidate:
        return Candidate(
            id=ranked.turn.id,
            kind="turn",
            section="memories",
            text=ranked.item.text,
            said=ranked.turn.at,
            source=ranked.turn.scope.channel,
            verified=ranked.turn.trust >= TRUST_PROMPT,
            value=ranked.item.probability,
            turns=(ranked.turn.id,),
            scores=ranked.hit.explain() | self._scores,
            refused=refused,
        )


def _apply_need_rules(ranked: RankedTurn) -> RankedTurn:
    """Refuse turns of agents' sessions, except an answer to what is asked again; chats between people pass."""
    if ranked.names_speakers:
        return ranked
    is_asked_again = ranked.turn.role == "assistant" and ranked.hit.coverage >= _REPEAT_COVERAGE
    item = replace(ranked.item, probability=ranked.item.probability * _TURN_DISCOUNT)
    return replace(ranked, item=item, refused=ranked.refused or ("" if is_asked_again else "below the threshold"))


def _said_in_session(turn: Turn) -> Candidate:
    """A turn of this session, as a refused candidate; it is not ranked because the agent already has it in context."""
    return Candidate(
        id=turn.id,
        kind="turn",
        section="memories",
        text=turn.text[:MAX_ITEM],
        said=turn.at,
        source=turn.scope.channel,
        verified=turn.trust >= TRUST_PROMPT,
        value=0.0,
        turns=(turn.id,),
        refused="said in this session",
    )


def shown_text(memory: Memory) -> str:
    """The text of a memory; a fact without text is shown as `key: value`."""
    return memory.text or f"{memory.key}: {memory.value}"


def _adds_little(reply: RankedTurn, memory: Memory) -> bool:
    """True if the reply mostly repeats the memory."""
    words = reply.item.words
    return len(words - topic_words(memory.text)) <= _NOVELTY * len(words)


def _refusal(hit: Hit, memory: Memory, min_relevance: float, *, is_known: bool) -> Refusal:
    """Why a memory is refused, or empty."""
    if not is_known:
        return "nothing relevant is known"
    if memory.confidence < MIN_CONFIDENCE_INJECT:
        return "confidence too low"
    return "" if hit.relevance >= min_relevance else "below the threshold"
