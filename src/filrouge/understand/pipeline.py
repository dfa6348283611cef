"""From a stretch of a conversation to decisions, without reaching out for anything (EXT-1 to EXT-6).

A generator that asks for what it needs, and is sent it: answers of a model, similarities of texts, memories near a
statement. So the whole of understanding can be read in one place and tried with nothing but lists.

What the model read is proven by its quotes; what is left open by words and meaning is put to the model once more. What
is proven is decided by the model where it may decide, each decision admitted by itself. Where it may not, or what it
says is of no use, nothing is decided here: then the rules decide, when the statement is stored.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from filrouge.errors import ModelUnavailable, Unreadable
from filrouge.model.asking import Ask, Completion
from filrouge.model.decision import Conflict, Decision, Delete, Neighbour, Update
from filrouge.model.memory import Statement
from filrouge.model.turn import Turn
from filrouge.ports import Prompts
from filrouge.understand.admissible import Place, Stated, admit
from filrouge.understand.answers import Thought
from filrouge.understand.deciding import NEAREST, deciding
from filrouge.understand.extraction import Candidate, Extraction, citable, extraction
from filrouge.understand.own_words import material
from filrouge.understand.proof import Verdict, not_own, proof
from filrouge.understand.supporting import supporting

UNPROVEN: Final = "its words do not say it"
BY_RULES: Final = "decided by the rules: {}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Similar:
    """Asks for the calibrated similarity of each pair of texts; 0 where there is no embedder."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Near:
    """Asks for the memories near each statement, within reach of the turn it comes from, the nearest first."""

    candidates: tuple[Candidate, ...]


Need = Ask | Similar | Near


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A fact, and what becomes of it.

    Attributes:
        refusal: why it is kept out of memory, or empty.
        decision: None where the rules are to decide.
        note: why they are.
    """

    candidate: Candidate
    refusal: str = ""
    decision: Decision | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Understood:
    """What came of a stretch.

    Attributes:
        rejected: decisions of the model that could not be used, each with the reason.
    """

    extraction: Extraction
    facts: tuple[Judged, ...]
    rejected: tuple[str, ...]


def understanding(
    turns: Sequence[Turn],
    prompts: Prompts,
    language: str,
    *,
    given: Sequence[str],
    most_tokens: int,
    decides: bool | None = None,
    before: str = "",
    isolated: bool = False,
) -> Generator[Need, Any, Understood]:
    """Understand these turns.

    Args:
        given: what the agent was given, so that its saying it again teaches nothing: instructions, injected memories.
        before: what the conversation came to so far.
        isolated: an agent may touch only what it learned itself.
        decides: may a model decide what is known; None = one that says it can.

    Raises:
        ModelUnavailable, Unreadable: the turns could not be read at all.
    """
    found: Extraction = yield from extraction(turns, prompts, language, most_tokens, before)
    pasted = (piece for turn in turns if turn.role == "user" for piece in material(turn.text))
    foreign = (*given, prompts("extract", language).text, *pasted)
    judged = [Judged(candidate=one, refusal=reason) for one, reason in found.unfounded]
    own: list[Candidate] = []
    for one in found.candidates:
        refusal = not_own(one.quote, one.turn, foreign)
        if refusal:
            judged.append(Judged(candidate=one, refusal=refusal))
        else:
            own.append(one)
    proven, unproven = yield from _proven(turns, own, prompts, language)
    judged += [Judged(candidate=one, refusal=UNPROVEN) for one in unproven]
    if not proven:
        return Understood(extraction=found, facts=tuple(judged), rejected=())
    if not (found.by.decides if decides is None else decides):
        note = BY_RULES.format(f"{found.by.model} is not trusted with decisions")
        judged += [Judged(candidate=one, note=note) for one in proven]
        return Understood(extraction=found, facts=tuple(judged), rejected=())
    decided, rejected = yield from _decided(proven, prompts, language, isolated=isolated)
    return Understood(extraction=found, facts=(*judged, *decided), rejected=rejected)


def _proven(
    turns: Sequence[Turn], candidates: Sequence[Candidate], prompts: Prompts, language: str
) -> Generator[Need, Any, tuple[list[Candidate], list[Candidate]]]:
    """Those that their evidence supports, and the others."""
    if not candidates:
        return [], []
    spans = [_span(one) for one in candidates]
    pairs = tuple((one.statement.text, span) for one, span in zip(candidates, spans, strict=True))
    similarities = cast("tuple[float, ...]", (yield Similar(pairs=pairs)))
    verdicts: list[Verdict] = [
        proof(one.statement.text, span, _before(one.turn, turns), close)
        for one, span, close in zip(candidates, spans, similarities, strict=True)
    ]
    unsure = [one for one, verdict in zip(candidates, verdicts, strict=True) if verdict == "unsure"]
    try:
        backed = yield from supporting(unsure, prompts, language)
    except (ModelUnavailable, Unreadable):
        backed = (False,) * len(unsure)  # what nobody supports waits for a person
    held = {id(one) for one, yes in zip(unsure, backed, strict=True) if yes}
    held |= {id(one) for one, verdict in zip(candidates, verdicts, strict=True) if verdict == "proven"}
    return [one for one in candidates if id(one) in held], [one for one in candidates if id(one) not in held]


def _decided(
    candidates: Sequence[Candidate], prompts: Prompts, language: str, *, isolated: bool
) -> Generator[Need, Any, tuple[list[Judged], tuple[str, ...]]]:
    """What becomes of each, and what of the model's answer could not be used."""
    near = cast("tuple[Sequence[Neighbour], ...]", (yield Near(candidates=tuple(candidates))))
    facts = [(one.statement, shown) for one, shown in zip(candidates, near, strict=True)]
    asking: Thought[tuple[list[object], Completion | None]] = deciding(facts, prompts, language)
    try:
        raw, _ = yield from asking
    except (ModelUnavailable, Unreadable) as error:
        cause = "no model answered" if isinstance(error, ModelUnavailable) else "its answer was unreadable"
        note = BY_RULES.format(cause)
        return [Judged(candidate=one, note=note) for one in candidates], ()

    def supports(reworded: Statement) -> bool:
        """True where the words that the fact cites say the new words as well."""
        cited = [one for one in candidates if one.statement.span == reworded.span]
        return any(proof(reworded.text, _span(one), one.statement.text, 1.0) == "proven" for one in cited)

    last = max((one.turn for one in candidates), key=lambda turn: turn.at)
    stated = [Stated(statement=statement, shown=tuple(shown[:NEAREST])) for statement, shown in facts]
    admitted = admit(raw, stated, Place(scope=last.scope, at=last.at, isolated=isolated), supports)
    judged: list[Judged] = []
    for number, (one, shown) in enumerate(zip(candidates, near, strict=True)):
        decision = admitted.decisions.get(number)
        if decision is None:
            judged.append(Judged(candidate=one, note=BY_RULES.format("the model said nothing of use")))
        else:
            judged.append(Judged(candidate=one, decision=humble(decision, one.turn.trust, shown)))
    return judged, tuple(one.reason for one in admitted.rejected)


def humble(decision: Decision, trust: int, shown: Sequence[Neighbour]) -> Decision:
    """An agent's word never ends what the user said: there a person decides.

    Args:
        trust: of who says it.
        shown: what was near when it was decided.
    """
    match decision:
        case (
            Update(statement=statement, old_ids=ids, reason=reason)
            | Delete(statement=statement, old_ids=ids, reason=reason)
        ):
            of = {one.memory.id: one.memory.trust for one in shown}
            above = next((id_ for id_ in ids if of.get(id_, 0) > trust), None)
            if above is not None:
                why = f"{reason}; the user's own word stands against it"
                return Conflict(statement=statement, existing_id=above, reason=why)
            return decision
        case _:
            return decision


def _span(candidate: Candidate) -> str:
    span = candidate.statement.span
    return candidate.turn.text[span.start : span.end]


def _before(turn: Turn, turns: Sequence[Turn]) -> str:
    """The message before a turn, which its words may point back to, and the turn itself."""
    spoken = [one for one in turns if one.role != "tool"]
    place = next((number for number, one in enumerate(spoken) if one.id == turn.id), 0)
    return " ".join(citable(one) for one in spoken[max(place - 1, 0) : place + 1])
