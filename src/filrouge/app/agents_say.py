"""What an agent itself says to memory: it adds and corrects statements, with an agent's trust and no more.

Agents repeat what they read, so their word is the easiest way for a stranger's sentence to become a memory. It is kept
as a fact of the project, never as a rule or a preference of the user; it ends nothing that the user said or pinned, and
where it contradicts that, it waits for the user. What an agent said before, an agent may correct.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from filrouge.app.by_hand import LONGEST, changing, restated
from filrouge.app.mirror import write_briefs
from filrouge.app.parts import Parts
from filrouge.app.report import project_names
from filrouge.app.said_now import said_now
from filrouge.app.spaces import keep_vectors, queue_vectors
from filrouge.app.understanding import Reading, readings_of, reflect, settle, vectors_at_once
from filrouge.capture.intake import cleaned, turns_of
from filrouge.errors import BadInput
from filrouge.extraction.units import without_secret
from filrouge.model.decision import Conflict
from filrouge.model.event import Event
from filrouge.model.memory import Memory, Span, Statement
from filrouge.model.scope import Scope
from filrouge.model.turn import TRUST_AGENT
from filrouge.ports import Tx, Vectors
from filrouge.store.events import Events
from filrouge.store.memories import Action, Origin

#: Whose doing it is, in the journal.
AGENT: Final = "agent"
TWICE: Final = "it was sent before"


def say(parts: Parts, text: str, *, names: Sequence[str], host: str, once: str = "") -> list[Action]:
    """Store a statement of an agent; returns what it came to.

    Args:
        names: of its project; none = outside every project.
        host: through which program it came.
        once: makes it the same statement when it is sent twice; empty = it is another one.

    Raises:
        BadInput: there is no text, or too much of it, or it holds a secret.
        NotFound: a single plain project name that no project has.
    """
    if len(text) > LONGEST:
        raise BadInput(f"The text has {len(text)} characters; a memory has at most {LONGEST}.")
    known_as = parts.readers.here(lambda tx: project_names(tx, names))
    key = f"once:{once}" if once else ""
    event = cleaned(said_now(parts.clock, "reply", text, names=known_as, host=host, key=key), parts.redact)
    turns = turns_of(event, "")
    if not turns:
        raise BadInput("There is nothing to remember: the text is empty.", remedy="Give one plain statement.")
    turn = turns[0]
    without_secret(turn.text)
    statement = Statement(kind="fact", text=turn.text.strip(), span=Span(start=0, end=len(turn.text)))
    reading = readings_of(parts.meaning, [(turn, (statement,))])[0]
    done = parts.writer.run(lambda tx: _store(parts, tx, event, reading))
    reflect(parts, reading.meaning, done)
    write_briefs(parts, None, everywhere=True)
    parts.work_waiting.set()
    return [action for action, _ in done]


def correct(parts: Parts, memory_id: str, text: str) -> Action:
    """Replace what a memory says, by an agent; what the user said waits for the user.

    Raises:
        NotFound: naming the id.
        BadInput: there is no text or too much of it, or it holds a secret, or the memory is not live, or says that
            already.
    """
    said = without_secret(parts.redact(text.strip()))
    if not said:
        raise BadInput("There is nothing to put in its place: the text is empty.", remedy="Give one plain statement.")
    if len(said) > LONGEST:
        raise BadInput(f"The text has {len(said)} characters; a memory has at most {LONGEST}.")
    meaning = parts.meaning
    old = parts.readers.here(lambda tx: parts.memories(tx).get(memory_id))
    statement = restated(old, said)
    [vectors] = vectors_at_once(meaning, [statement.text])

    def write(tx: Tx) -> tuple[Action, Collection[str], Collection[str]]:
        store, origin = parts.memories(tx), _the_agents(parts, old.scope)
        now = store.get(memory_id)
        if now.state == "live" and now.text != statement.text and is_the_users(now):
            waiting = Conflict(statement=statement, existing_id=memory_id, reason="an agent would correct it")
            return store.apply(waiting, origin), (), ()
        action = store.supersede(memory_id, statement, origin, "corrected by an agent")
        keep_vectors(tx, meaning, "memory", action.memory_id, vectors, origin.at)
        return action, (), action.closed

    action = changing(parts, write)
    reflect(parts, meaning, [(action, vectors)])
    return action


def is_the_users(memory: Memory) -> bool:
    """Whether only the user decides about a memory: they said it, pinned it, or it binds agents."""
    return memory.trust > TRUST_AGENT or memory.pinned or memory.kind in ("rule", "preference")


def _the_agents(parts: Parts, scope: Scope) -> Origin:
    return Origin(scope=scope, trust=TRUST_AGENT, at=parts.clock.now(), made_by=AGENT, actor=AGENT)


def _store(parts: Parts, tx: Tx, event: Event, reading: Reading) -> list[tuple[Action, Vectors | None]]:
    project = Events(tx).add(event, received_at=parts.clock.now())
    if project is None:
        return [(Action(name="noop", memory_id="", reason=TWICE), None)]
    turn = replace(reading.turn, scope=replace(reading.turn.scope, project=project or None))
    if parts.turns(tx).add(turn):
        queue_vectors(tx, "turn", turn.id, parts.clock.now())
    Events(tx).settle(event.id, "done")
    return settle(parts, tx, replace(reading, turn=turn))
