"""Source: what memory holds about a prompt: the memories and the passages of conversations that bear on it, and rules.

Something is offered only where it is more probable than not that anything about the prompt is known at all, by
memories or by what was said; where the embedder learned what prompts need, that the prompt needs anything. Which
memories then, says the probability that the prompt needs them (`search.relevance`). Memories and passages share the
places there are. A memory stands for the turns that prove it, since it is shorter and proven; of a chat between people
the turn is shown, which says who spoke. A rule passes like everything else, or because it is about the kind of work
that the prompt asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from filrouge.capture.models import TRUST_PROMPT, Turn
from filrouge.context.models import Piece, piece_of
from filrouge.context.passages import Passage, Told, chosen, excerpt
from filrouge.context.request import Moment
from filrouge.context.turn_candidates import Heard, Overheard, heard, proved_by
from filrouge.core.protocols import Tx
from filrouge.core.scope import LOCAL_USER
from filrouge.extraction.work import SPECIFIC, Work, of_prompt, of_rule
from filrouge.memories.models import LEAST_TO_INJECT, SUMS, Filters, Memory
from filrouge.runtime.services import Parts
from filrouge.search.memory_search import LONGEST_QUERY, Question, recall
from filrouge.search.models import Hit, Ranking
from filrouge.search.relevance import LEAST, anything_needed
from filrouge.search.turn_ranking import words_of

# Companions: what was said in one breath with a memory, and rules that go with the work a prompt asks for.
#
# Both are memories that the words and the meaning of a prompt do not find. "I am Ana, and I like short answers" is
# one thing to a person and two memories: whoever is asked for the one is told the other, on the same line. A rule
# about installing packages belongs before a prompt that installs one (`extraction.work`).

#: A turn of at most so many characters is one breath; a longer one holds what has nothing to do with each other.
_BREATH: Final = 200
_MOST: Final = 2


def in_one_breath(parts: Parts, tx: Tx, moment: Moment, memories: Sequence[Memory]) -> dict[str, list[Memory]]:
    """By the id of a memory: those that the same short turn proves.

    Args:
        memories: with their evidence, the most relevant first; one that is told with another has no companions itself.
    """
    turns = {one.turn_id for memory in memories for one in memory.evidence}
    short = {turn.id for turn in parts.turns(tx).get(sorted(turns)) if len(turn.text) <= _BREATH}
    proved = proved_by(tx, sorted(short))
    others = parts.memories(tx).some(sorted({id_ for states in proved.values() for id_ in states}))
    found: dict[str, list[Memory]] = {}
    told: set[str] = set()
    for memory in memories:
        if memory.id in told:
            continue
        beside = dict.fromkeys(id_ for one in memory.evidence for id_ in proved.get(one.turn_id, {}))
        known = [others[id_] for id_ in beside if id_ in others and id_ != memory.id and id_ not in told]
        found[memory.id] = [one for one in known if _may_be_told(one, moment)][:_MOST]
        told |= {memory.id, *(one.id for one in found[memory.id])}
    return found


def for_the_work(parts: Parts, tx: Tx, moment: Moment) -> Mapping[str, tuple[Memory, frozenset[Work]]]:
    """By its id: each rule about a kind of work that the prompt asks for, with the kinds."""
    asked = of_prompt(moment.prompt)
    if not asked:
        return {}
    rules = parts.memories(tx).rules(project=moment.project, user=moment.user, agent=moment.agent)
    meant = {rule.id: (rule, of_rule(rule.text) & asked) for rule in rules}
    return {id_: (rule, kinds) for id_, (rule, kinds) in meant.items() if kinds}


def _may_be_told(memory: Memory, moment: Moment) -> bool:
    scope = memory.scope
    here = scope.user == moment.user and (memory.scope_name == "user" or scope.project == moment.project)
    allowed = moment.agent is None or (scope.agent or scope.channel) == moment.agent
    sure = memory.state == "live" and memory.confidence >= LEAST_TO_INJECT
    return here and allowed and sure and memory.kind != "rule" and memory.kind not in SUMS


#: Of the threshold that a whole block must pass, the share that each item must.
SHARE_OF_THRESHOLD: Final = 0.1
#: Where memories are judged by what the prompt needs (`bench/results/needed.md`), a turn of an agent's session is shown
#: from this on, or where it has this share of the prompt's words: then the same was asked before.
_TURN_THRESHOLD: Final = 0.7
_ASKED_BEFORE: Final = 0.6
#: How probable it is that such a turn helps, as a share of the probability that it holds what was asked.
_TURN_HELPS: Final = 0.6
#: In a small home the second one stands out as well: of the best memory's probability the share that others must have.
_BESIDE_THE_BEST: Final = 0.4
#: For a prompt that asks for work, the share of the threshold of memories that a rule must pass.
_RULE_FOR_WORK: Final = 0.5
#: No threshold of the user's is so low that it lets in what is less probable than with this one.
_LOWEST: Final = 0.5
#: How probable it is that a rule helps which is about the very kind of work that is asked for (`extraction.work`). One
#: about any work on the code goes along with what is known.
_MEANT: Final = 0.9
_GOES_ALONG: Final = 0.3
#: A reply says something of its own where more than this share of its words is new.
_NEW: Final = 0.5
#: Why a choice leaves out what would be shown if there were more room.
_NO_ROOM: Final = ("over the budget", "beyond the limit")
LONGEST: Final = 500
"""Characters of one line."""
#: Characters of a block that are none of its lines, and of a line that are not its text.
_FRAME: Final = 450
_MARK: Final = 34
#: Where hardly anything is left beside the frame, so much of the budget may be asked for all the same.
_AT_LEAST: Final = 0.4


def memories(parts: Parts, tx: Tx, moment: Moment) -> Sequence[Piece]:
    """What is recalled for the prompt, the most valuable first, then what is not shown."""
    question = _question(moment)
    threshold = moment.settings.auto_retrieve_min_score
    whole = max(threshold, _LOWEST)
    of_a_turn = whole * SHARE_OF_THRESHOLD
    ranking = recall(parts, tx, question)
    least = max(whole * LEAST / _LOWEST, ranking.hits[0].relevance * _BESIDE_THE_BEST) if ranking.by_need else of_a_turn
    recalled = _recalled(parts, tx, ranking, least)
    said = heard(parts, tx, moment, question, recalled.cited, least=of_a_turn)
    if ranking.by_need:
        said = replace(said, turns=tuple(_by_need(one, max(threshold, _TURN_THRESHOLD)) for one in said.turns))
    moment.notices.extend(dict.fromkeys([*ranking.notices, *said.notices]))
    known = max(ranking.known, said.known)
    scores = {"known": round(known, 4)}
    if ranking.by_need:
        known = anything_needed(max(hit.needed or 0.0 for hit in ranking.hits), known)
        scores["anything"] = round(known, 4)
    offered = _Offered(
        ranking=ranking,
        said=said,
        beside=in_one_breath(parts, tx, moment, recalled.memories) if known >= threshold else {},
        works=for_the_work(parts, tx, moment),
        asked=words_of(question.text),
        asks_for_work=bool(of_prompt(moment.prompt)),
        is_known=known >= threshold,
        threshold=threshold,
        least=least,
        scores=scores,
    )
    budget = moment.settings.budget
    room = max(budget - _FRAME - offered.rules_take, int(budget * _AT_LEAST))
    most = moment.settings.auto_retrieve_max_results
    offered.fit(min(LONGEST, room - _MARK))
    choice = chosen(offered.candidates, room=room, most=most, longest=LONGEST, mark=_MARK)
    if offered.take_back(choice.refused):  # what stood for a turn is not shown, so the turn may be
        choice = chosen(offered.candidates, room=room, most=most, longest=LONGEST, mark=_MARK)
    shown = [offered.piece(passage) for passage in choice.passages]
    return [*offered.rules, *shown, *offered.refused(choice.refused), *map(_said_here, said.here)]


def _question(moment: Moment) -> Question:
    """What a prompt asks; of another user than this daemon's own, within what is that user's alone."""
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
    """The memories that are relevant enough, best first, with their evidence; by the id of a turn, the best hit."""

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


class _Offered:
    """What is a candidate and what is not, and the piece of each.

    Args:
        beside: by the id of a memory, those that are told on its line.
        works: rules about the work that the prompt asks for.
        asked: the words of the prompt; of a long memory the part with most of them is shown.
        asks_for_work: the prompt asks for work on the code.
        is_known: it is probable enough that anything about the prompt is known.
        least: what is less relevant than this is not offered.
        scores: what the log says of every candidate.
    """

    def __init__(
        self,
        *,
        ranking: Ranking,
        said: Overheard,
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
        self._longest = LONGEST
        self._silenced: dict[str, set[str]] = {}
        self._reasons: dict[str, str] = {}
        self._hits: dict[str, Hit] = {}
        self._memories: dict[str, Memory] = {}
        self._turns: dict[str, Heard] = {one.turn.id: one for one in said.turns}
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
            meant = bool(kinds & SPECIFIC) and threshold <= _MEANT
            self._chances[id_] = max(self._chances.get(id_, 0.0), _MEANT if meant else _GOES_ALONG)
            self._reasons[id_] = "" if meant or is_known else "nothing is known of this"
        for one in said.turns:
            self._reasons[one.turn.id] = one.refused if is_known else "nothing is known of this"
        for one in said.turns:
            self._join(one)
        for id_, others in beside.items():
            if not self._reasons[id_]:
                self._reasons |= {other.id: "it is told with another" for other in others if other.id in self._hits}
        self.rules = [self._memory(memory) for memory in self._live(rules=True)]

    @property
    def rules_take(self) -> int:
        """Characters of the lines of the rules."""
        return sum(min(len(rule.text), LONGEST) + _MARK for rule in self.rules)

    @property
    def candidates(self) -> list[Told]:
        """What may be shown: live memories that are no rules, then turns."""
        turns = [(id_, one) for id_, one in self._turns.items() if not self._reasons[id_]]
        return [
            *(self._told(memory) for memory in self._live(rules=False)),
            *(replace(one.told, chance=self._chances[id_]) for id_, one in turns),
        ]

    def fit(self, longest: int) -> None:
        """Cut the text of memories to that many characters."""
        self._longest = longest

    def take_back(self, refused: Mapping[str, str]) -> bool:
        """Offer the turns again that only memories stand for which have no room; whether there are any.

        Those memories keep the reason that was given here.
        """
        no_room = {id_: why for id_, why in refused.items() if id_ in self._memories and why in _NO_ROOM}
        back = [turn for turn, by in self._silenced.items() if by <= no_room.keys()]
        for turn in back:
            self._reasons[turn] = ""
            self._reasons |= {id_: no_room[id_] for id_ in self._silenced[turn]}
        return bool(back)

    def piece(self, passage: Passage) -> Piece:
        """One line: a memory, or turns of a conversation."""
        best = max(passage.told, key=lambda told: told.chance)
        if best.id in self._memories:
            return replace(self._memory(self._memories[best.id]), text=passage.text, value=passage.value)
        turns = [self._turns[told.id].turn for told in passage.told]
        return Piece(
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

    def refused(self, reasons: Mapping[str, str]) -> list[Piece]:
        """What is not shown, with the reasons of the choice and those before it."""
        whole = {**{id_: why for id_, why in self._reasons.items() if why}, **reasons}
        return [
            self._memory(self._memories[id_], why) if id_ in self._memories else self._turn(self._turns[id_], why)
            for id_, why in whole.items()
        ]

    def _join(self, one: Heard) -> None:
        """Let a turn and the memories that it proves, or that the prompt proves which it answers, be one candidate."""
        for id_ in sorted((one.memories | one.answers) & self._memories.keys()):
            if self._reasons[id_]:
                continue
            if one.named and id_ in one.memories:
                # How probable a turn is was learned of turns among their neighbours; of chats that is the better guess.
                self._reasons[id_] = "its turn stands for it"
            elif self._reasons[one.turn.id]:
                continue
            elif id_ in one.memories or _adds_little(one, self._memories[id_]):
                self._reasons[one.turn.id] = "a memory says it"
                self._silenced.setdefault(one.turn.id, set()).add(id_)
                if id_ in one.memories:
                    self._chances[id_] = max(self._chances[id_], self._chances[one.turn.id])

    def _live(self, *, rules: bool) -> list[Memory]:
        live = [memory for id_, memory in self._memories.items() if not self._reasons[id_]]
        found = [memory for memory in live if (memory.kind == "rule") is rules]
        return sorted(found, key=lambda memory: -self._chances[memory.id])

    def _told(self, memory: Memory) -> Told:
        text = "\n".join([_text(one) for one in (memory, *self._beside.get(memory.id, ()))])
        if len(text) > self._longest:
            text = excerpt(text, lambda part: len(self._asked & words_of(part)), whole=self._longest, cut=self._longest)
        return Told(
            id=memory.id,
            conversation=memory.id,
            place=0,
            text=text,
            chance=self._chances[memory.id],
            words=words_of(text),
        )

    def _memory(self, memory: Memory, refused: str = "") -> Piece:
        hit, kinds = self._hits.get(memory.id), self._works.get(memory.id, (memory, frozenset[Work]()))[1]
        scores = (hit.explain() if hit else {}) | ({"work": sorted(kinds)} if kinds else {}) | self._scores
        section = "rules" if memory.kind == "rule" else "memories"
        return piece_of(memory, section, value=self._chances[memory.id], scores=scores, refused=refused)

    def _turn(self, one: Heard, refused: str) -> Piece:
        return Piece(
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


def _by_need(one: Heard, threshold: float) -> Heard:
    """A turn beside memories that are judged by what the prompt needs; a chat between people is left as it is."""
    if one.named:
        return one
    too_little = one.told.chance < threshold and one.hit.coverage < _ASKED_BEFORE
    refused = one.refused or ("below the threshold" if too_little else "")
    return replace(one, told=replace(one.told, chance=one.told.chance * _TURN_HELPS), refused=refused)


def _said_here(turn: Turn) -> Piece:
    """A turn of the session itself, which is not ranked, since its agent has it before it."""
    return Piece(
        id=turn.id,
        kind="turn",
        section="memories",
        text=turn.text[:LONGEST],
        said=turn.at,
        source=turn.scope.channel,
        verified=turn.trust >= TRUST_PROMPT,
        value=0.0,
        turns=(turn.id,),
        refused="said in this session",
    )


def _text(memory: Memory) -> str:
    return memory.text or f"{memory.key}: {memory.value}"


def _adds_little(reply: Heard, memory: Memory) -> bool:
    """True for a reply that mostly says again what it was told."""
    words = reply.told.words
    return len(words - words_of(memory.text)) <= _NEW * len(words)


def _why_not(hit: Hit, memory: Memory, least: float, *, is_known: bool) -> str:
    """Why a memory is not offered, or empty."""
    if not is_known:
        return "nothing is known of this"
    if memory.confidence < LEAST_TO_INJECT:
        return "not sure enough"
    return "" if hit.relevance >= least else "below the threshold"
