"""Recounting: a model corrects what the rules made of a session, afterwards and in the lane of the models (ADR 13)."""

from __future__ import annotations

from filrouge.app.answering import Answering
from filrouge.app.parts import Parts
from filrouge.app.worker import Outcome, Payload
from filrouge.errors import BadConfig, ModelUnavailable, Unreadable
from filrouge.extraction.summaries import vote
from filrouge.model.synthesis import Synthesis
from filrouge.ports import Tx
from filrouge.store.analyses import Analyses, Session
from filrouge.store.syntheses import Syntheses
from filrouge.threads.recounting import recounting
from filrouge.threads.synthesis import apart


def recount(parts: Parts, payload: Payload) -> Outcome:
    """The job: have a model correct what the rules made of a session.

    Raises:
        ModelUnavailable: nobody answers, or the budget is spent; what the rules made stands.
    """
    session = Session(host=payload["host"], id=payload["session"])
    settings = parts.readers.here(lambda tx: parts.settings(tx))
    try:
        nobody = parts.models.panel(settings) is None
    except BadConfig as error:
        raise ModelUnavailable(error.message, remedy=error.remedy) from error
    stored = parts.readers.here(lambda tx: Syntheses(tx).of_session(session))
    if nobody or not stored:
        return Outcome(write=lambda _: None)
    turns = parts.readers.here(lambda tx: Analyses(tx, parts.analyser).turns(session)[0])
    threads = parts.readers.here(lambda tx: Syntheses(tx).threads([turn.id for turn in turns]))
    groups = apart(turns, threads)
    answering = Answering(parts, parts.meaning, settings)
    language = vote([turn.text for turn in turns if turn.role == "user"], _plain(settings.language))
    corrected: list[Synthesis] = []
    for one in stored:
        own = groups.get(one.thread_id, [])
        if one.made_by == "rules" and own and (one.state or one.decisions or one.questions):
            try:
                corrected.append(answering.run(recounting(own, one, parts.models.prompts, language)))
            except Unreadable:
                corrected.append(one)
        else:
            corrected.append(one)

    def write(tx: Tx) -> None:
        if Syntheses(tx).of_session(session) == stored and Analyses(tx, parts.analyser).are_there(turns):
            Syntheses(tx).keep(session, corrected)

    return Outcome(write=write)


def _plain(language: str) -> str:
    return "en" if language == "auto" else language
