"""Entitling: a model gives a thread a better name and sums it up, after the rules did (EXT-9, THR-9, ADR 13).

What a user named is never touched. Between the question and its answer the thread may have been named, merged, or lost
a turn that the answer quotes: then nothing is written, and it is asked once more where there is still something to ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from filrouge.app.answering import Answering
from filrouge.app.parts import Parts
from filrouge.app.thread_questions import who
from filrouge.app.thread_upkeep import Caps, prompts_of
from filrouge.app.worker import Outcome, Payload
from filrouge.errors import Unreadable
from filrouge.extraction.summaries import vote
from filrouge.model.thread import Thread
from filrouge.model.turn import Turn
from filrouge.ports import Tx
from filrouge.store.threads import Threads
from filrouge.threads.naming import Name, distinct, name, naming


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """A thread that may get a better name.

    Attributes:
        taken: titles of those beside it.
        former: its name as the rules see it.
    """

    thread: Thread
    prompts: Sequence[Turn]
    taken: Sequence[str]
    former: Name


def entitle(parts: Parts, payload: Payload) -> Outcome:
    """The job: have a model name a thread.

    Raises:
        ModelUnavailable: nobody answers, or the budget is spent; the name by the rules stands.
    """
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    asks = bool(who(parts, settings))
    found = parts.readers.here(lambda tx: _found(parts, tx, payload["thread"])) if asks else None
    if found is None:
        return Outcome(write=lambda _: None)
    language = vote([turn.text for turn in found.prompts], settings.language if settings.language != "auto" else "en")
    try:
        better = Answering(parts, parts.meaning, settings).run(
            naming(found.prompts, found.taken, found.former, parts.models.prompts, language)
        )
    except Unreadable:
        better = found.former
    if better == found.former:
        return Outcome(write=lambda _: None)
    left = list[Payload]()

    def write(tx: Tx) -> None:
        now, threads = _found(parts, tx, found.thread.id), Threads(tx)
        if now is None:
            return
        shown = [turn.id for turn in found.prompts]
        places = threads.of_turns(shown)
        if any(places.get(id_) != now.thread.id for id_ in shown):
            left.append(payload)
            return
        title = distinct(better.title, now.former.topics, now.taken, now.prompts[0].at)
        threads.update(replace(now.thread, title=title, summary=better.summary, title_by=better.title_by))

    return Outcome(write=write, again=lambda: left[-1] if left else None)


def _found(parts: Parts, tx: Tx, thread_id: str) -> _Found | None:
    """What of a thread is asked about; None where it is gone or merged, or a user named it."""
    thread = next(iter(Threads(tx).some([thread_id])), None)
    prompts = prompts_of(parts, tx, thread_id)
    if thread is None or thread.merged_into is not None or thread.title_by == "user" or not prompts:
        return None
    place = Caps.of(parts.settings(tx)).place_beside(thread)
    taken = [title for id_, title in Threads(tx).titles(place).items() if id_ != thread_id]
    return _Found(thread=thread, prompts=prompts, taken=taken, former=name(prompts, taken, thread))
