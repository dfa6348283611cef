"""Asking: search, recall, and the block that goes in front of a prompt.

Search is explicit and sees every project, labelled. Injection is automatic and sees the current project and
the user's own facts, nothing else. Whatever fails on the way (a dead embedder, an index still loading) is
named in a notice, and the rest goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from filrouge.app.arms import Arm, arm
from filrouge.app.parts import Parts
from filrouge.app.topics import asked_for
from filrouge.capture.intake import cleaned
from filrouge.clock import monotonic, new_id
from filrouge.config import Settings
from filrouge.index.lexical import Terms
from filrouge.inject.context import MOST_AT_START, SHORTEST_PROMPT, Block, Manner, at_start, before_prompt
from filrouge.model.event import Event
from filrouge.model.filters import EVERYTHING, Filters
from filrouge.model.memory import Memory
from filrouge.model.recall import Ranking, Recall
from filrouge.model.scope import LOCAL_USER
from filrouge.model.when import Language
from filrouge.ports import EmbeddingSpace, Tx
from filrouge.recall.asked_back import asks_back
from filrouge.recall.judging import Questioned
from filrouge.recall.pipeline import ALPHA, Candidate, rank
from filrouge.recall.recipes import RecipeName
from filrouge.store.recalls import Recalls
from filrouge.store.shares import Place
from filrouge.store.words import Owner
from filrouge.understand.language import vote

POOL = 50
#: A text nobody asks: whoever embeds it first pays for loading the model.
READY = "ready?"
LONGEST_QUERY = 2000
Mode = Literal["text", "semantic", "hybrid"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is asked, and where it may look.

    Attributes:
        project: the project to stay in; None with `everywhere` false means "outside every project".
        everywhere: look into all projects.
        filters: what else must be true of what is found.
        recipe: how turns are ranked.
    """

    text: str
    project: str | None = None
    everywhere: bool = False
    mode: Mode = "hybrid"
    limit: int = 10
    filters: Filters = EVERYTHING
    recipe: RecipeName = "balanced"


def recall(parts: Parts, tx: Tx, question: Question) -> Ranking:
    """Rank the live memories for a question."""
    with parts.meters.search() as found:
        found.append(_recalled(parts, tx, question))
    return found[0]


def _recalled(parts: Parts, tx: Tx, question: Question) -> Ranking:
    meaning = parts.meaning
    words = parts.bridging.words(question.text[:LONGEST_QUERY])
    vector, notices = meaning.question(question.text) if question.mode != "text" else (None, ())
    store = parts.memories(tx)
    searched = arm_of(parts, tx, "memory", question, words.searched)
    lexical = searched.by_words(POOL) if question.mode != "semantic" else {}
    cosines = searched.by_meaning(meaning, vector, POOL) if vector is not None else {}
    found = store.some(list({**lexical, **cosines}))
    narrow = question.filters.narrow
    items = {id_: one for id_, one in found.items() if not one.disabled and (narrow or one.state == "live")}
    questioned = Questioned(words.meant, searched.frequencies, len(searched))
    candidates = _candidates(meaning.space, items, store.tokens(list(items)), lexical, cosines)
    alpha = 1.0 if question.mode == "semantic" else ALPHA
    return rank(
        question.text, questioned, candidates, alpha=alpha, by_meaning=meaning.space.is_measured, notices=notices
    )


def context(parts: Parts, event: Event, project: str) -> str:
    """The block that belongs in front of the model at this event; logged unless retrieval is off."""
    started = monotonic()
    settings = parts.readers.here(lambda tx: parts.settings(tx, event.cwd))
    if not settings.auto_retrieve_enabled:
        return ""
    if event.kind == "session_start":
        parts.readers.submit(lambda _: parts.meaning.question(READY))  # loads the model while the user is typing
    prompt = str(cleaned(event, parts.redact).data.get("text") or "")
    block, notices = parts.readers.here(lambda tx: _block(parts, tx, event, project, prompt, settings))
    elapsed = (monotonic() - started) * 1000
    if event.kind == "prompt":
        parts.meters.recalled(block.items, elapsed / 1000)
    if event.kind == "prompt" or block.text:
        now = parts.clock.now()
        row = Recall(
            id=new_id(now),
            at=now,
            channel=event.host,
            session=event.session,
            project=project or None,
            preview=(prompt or f"[{event.kind}]")[:100],
            memories_injected=block.injected,
            tokens_added=block.tokens,
            items=block.items,
            notices=notices,
            nonce=block.nonce,
            latency_ms=round(elapsed, 3),
        )
        parts.writer.submit(lambda tx: Recalls(tx).add(row))
    return block.text


def _block(
    parts: Parts, tx: Tx, event: Event, project: str, prompt: str, settings: Settings
) -> tuple[Block, tuple[str, ...]]:
    manner = Manner(
        language=_language(parts, tx, event, project, prompt, settings), budget=settings.budget, now=parts.clock.now()
    )
    agent = (event.agent or event.host) if settings.isolation else None
    if event.kind == "session_start":
        store = parts.memories(tx)
        rules = store.rules(project=project or None, user=LOCAL_USER, agent=agent)
        known = store.worth_knowing(project=project or None, user=LOCAL_USER, agent=agent, limit=MOST_AT_START)
        return at_start(rules, known, manner), ()
    if period := asks_back(prompt):
        return asked_for(parts, tx, period, manner, project=project, agent=agent), ()
    if len(prompt.strip()) < SHORTEST_PROMPT:
        return Block(text="", nonce="", items=()), ()
    question = Question(text=prompt[:LONGEST_QUERY], project=project or None, filters=Filters(agent=agent))
    ranking = recall(parts, tx, question)
    block = before_prompt(
        ranking,
        manner,
        min_relevance=settings.auto_retrieve_min_score,
        most=settings.auto_retrieve_max_results,
    )
    return block, ranking.notices


def _language(parts: Parts, tx: Tx, event: Event, project: str, prompt: str, settings: Settings) -> Language:
    if settings.language != "auto":
        return settings.language
    turns = parts.turns(tx)
    said = turns.last_user_texts(event.host, event.session) or turns.last_user_texts_of_project(project or None)
    return vote([prompt, *said] if prompt else said, "en")


def arm_of(parts: Parts, tx: Tx, owner: Owner, question: Question, terms: Terms) -> Arm:
    """What finds the candidates for a question of these words."""
    place = Place(project=question.project, user=LOCAL_USER, everywhere=question.everywhere)
    return arm(parts, tx, owner, place, question.filters, terms)


def _candidates(
    space: EmbeddingSpace,
    items: Mapping[str, Memory],
    tokens: Mapping[str, frozenset[str]],
    lexical: Mapping[str, float],
    cosines: Mapping[str, float],
) -> list[Candidate]:
    return [
        Candidate(
            item=item,
            tokens=tokens.get(id_, frozenset()),
            bm25=lexical.get(id_),
            cosine=cosines.get(id_),
            similarity=space.calibrated_to_question(cosines[id_]) if id_ in cosines else None,
        )
        for id_, item in items.items()
    ]
