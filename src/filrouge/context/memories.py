"""Source: memories and passages of earlier conversations that are relevant to the prompt, and rules.

Nothing is offered unless the probability that anything about the prompt is known reaches the threshold. If the
embedder was trained on what prompts need, the probability that the prompt needs anything counts instead. Then each
memory is judged by the probability that the prompt needs it (`search.relevance`). Memories and passages share the
available lines. A memory replaces the turns that prove it, since it is shorter and proven; in a chat between people
the turn is shown instead, since it says who spoke. A rule qualifies like any memory, or because it concerns the kind
of work that the prompt asks for; if that work is specific, even if nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from filrouge.capture.models import TRUST_PROMPT, Turn
from filrouge.context.models import Candidate, candidate_of
from filrouge.context.passages import Passage, PassageCandidate, choose, excerpt
from filrouge.context.request import ContextRequest
from filrouge.context.turn_candidates import TurnCandidate, TurnCandidates, memories_of_turns, turn_candidates
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.work import SPECIFIC, Work, of_prompt, of_rule
from filrouge.memories.models import MIN_CONFIDENCE_INJECT, SUMS, Filters, Memory
from filrouge.runtime.services import Parts
from filrouge.search.memory_search import LONGEST_QUERY, Question, recall
from filrouge.search.models import Hit, Ranking
from filrouge.search.relevance import MIN_PROBABILITY, anything_needed
from filrouge.search.turn_ranking import words_of

# Related memories: those stated in the same short turn, and rules for the work that a prompt asks for.
#
# Neither can be found by the words or the meaning of a prompt. "I am Ana, and I like short answers" becomes two
# memories, which are shown together on one line. A rule about installing packages belongs before a prompt that
# installs one (`extraction.work`).

#: Statements of a turn up to this many characters belong together; those of a longer turn may be unrelated.
_MAX_SHORT_TURN: Final = 200
_MOST: Final = 2


def same_turn_memories(
    parts: Parts, tx: Tx, moment: ContextRequest, memories: Sequence[Memory]
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
        found[memory.id] = [one for one in known if _may_be_shown(one, moment)][:_MOST]
        told |= {memory.id, *(one.id for one in found[memory.id])}
    return found


def rules_for_work(parts: Parts, tx: Tx, moment: ContextRequest) -> Mapping[str, tuple[Memory, frozenset[Work]]]:
    """By rule id: each rule about a kind of work that the prompt asks for, with those kinds."""
    asked = of_prompt(moment.prompt)
    if not asked:
        return {}
    rules = parts.memories(tx).rules(project=moment.project, user=moment.user, agent=moment.agent)
    meant = {rule.id: (rule, of_rule(rule.text) & asked) for rule in rules}
    return {id_: (rule, kinds) for id_, (rule, kinds) in meant.items() if kinds}


def _may_be_shown(memory: Memory, moment: ContextRequest) -> bool:
    scope = memory.scope
    here = scope.user == moment.user and (memory.scope_name == "user" or scope.project == moment.project)
    allowed = moment.agent is None or (scope.agent or scope.channel) == moment.agent
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
#: Probability that a rule helps if it concerns the specific work asked for (`extraction.work`), and if it concerns any
#: work on the code; the latter only accompanies other items.
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


def memories(parts: Parts, tx: Tx, moment: ContextRequest) -> Sequence[Candidate]:
    """The pieces recalled for the prompt, most valuable first, then the refused ones."""
    question = _question(moment)
    threshold = moment.settings.auto_retrieve_min_score
    whole = max(threshold, _LOWEST)
    of_a_turn = whole * SHARE_OF_THRESHOLD
    ranking = recall(parts, tx, question)
    least = (
        max(whole * MIN_PROBABILITY / _LOWEST, ranking.hits[0].relevance * _MIN_SHARE_OF_BEST)
        if ranking.by_need
        else of_a_turn
    )
    recalled = _recalled(parts, tx, ranking, least)
    said = turn_candidates(parts, tx, moment, question, recalled.cited, least=of_a_turn)
    if ranking.by_need:
        said = replace(said, turns=tuple(_by_need(one, max(threshold, _TURN_THRESHOLD)) for one in said.turns))
    moment.notices.extend(dict.fromkeys([*ranking.notices, *said.notices]))
    known = max(ranking.known, said.known)
    scores = {"known": round(known, 4)}
    if ranking.by_need:
        known = anything_needed(max(hit.needed or 0.0 for hit in ranking.hits), known)
        scores["anything"] = round(known, 4)
    offered = _Candidates(
        ranking=ranking,
        said=said,
        beside=same_turn_memories(parts, tx, moment, recalled.memories) if known >= threshold else {},
        works=rules_for_work(parts, tx, moment),
        asked=words_of(question.text),
        asks_for_work=bool(of_prompt(moment.prompt)),
        is_known=known >= threshold,
        threshold=threshold,
        least=least,
        scores=scores,
    )
    budget = moment.settings.budget
    room = max(budget - _FRAME_CHARS - offered.rules_take, int(budget * _MIN_SHARE))
    most = moment.settings.auto_retrieve_max_results
    offered.fit(min(MAX_LINE, room - _MARK_CHARS))
    choice = choose(offered.candidates, room=room, most=most, longest=MAX_LINE, mark=_MARK_CHARS)
    if offered.take_back(choice.refused):  # a memory that replaced a turn has no room, so the turn may be shown
        choice = choose(offered.candidates, room=room, most=most, longest=MAX_LINE, mark=_MARK_CHARS)
    shown = [offered.piece(passage) for passage in choice.passages]
    return [*offered.rules, *shown, *offered.refused(choice.refused), *map(_said_here, said.here)]


def _question(moment: ContextRequest) -> Question:
    """The search for a prompt. For a user other than this daemon's own, it covers only that user's content."""
    own = moment.user if moment.user != LOCAL_USER else None
    return Question(
        text=moment.prompt[:LONGEST_QUERY],
        project=moment.project,
        user=moment.user,
        private=True,
        by_need=True,
        filters=Filters(agent=moment.agent, user=own),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Recalled:
    """The relevant memories, best first, with their evidence; and by turn id, the best hit that it proves."""

    memories: Sequence[Memory]
    cited: Mapping[str, Hit]


def _recalled(parts: Parts, tx: Tx, ranking: Ranking, least: float) -> _Recalled:
    hits = {hit.id: hit for hit in ranking.hits if hit.relevance >= least}
    found = parts.memories(tx).known(sorted(hits, key=lambda id_: (-hits[id_].relevance, id_)))
    cited: dict[str, Hit] = {}
    for memory in found:
        for one in memory.evidence:
            cited.setdefault(one.turn_id, hits[memory.id])
    return _Recalled(memories=found, cited=cited)


class _Candidates:
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
        said: TurnCandidates,
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
        self._turns: dict[str, TurnCandidate] = {one.turn.id: one for one in said.turns}
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
            meant = bool(kinds & SPECIFIC) and threshold <= _SPECIFIC_RULE
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
    def candidates(self) -> list[PassageCandidate]:
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

    def _join(self, one: TurnCandidate) -> None:
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

    def _told(self, memory: Memory) -> PassageCandidate:
        text = "\n".join([_text(one) for one in (memory, *self._beside.get(memory.id, ()))])
        if len(text) > self._longest:
            text = excerpt(text, lambda part: len(self._asked & words_of(part)), whole=self._longest, cut=self._longest)
        return PassageCandidate(
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

    def _turn(self, one: TurnCandidate, refused: str) -> Candidate:
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


def _by_need(one: TurnCandidate, threshold: float) -> TurnCandidate:
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


def _adds_little(reply: TurnCandidate, memory: Memory) -> bool:
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
