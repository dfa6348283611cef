"""Remember: a statement that the user makes to Filrouge itself, by hand. It is understood at once.

The words go the same way as captured ones: a turn of the highest trust, statements with their evidence, a
decision on each. Where nothing is recognised in them, the text as a whole is the statement, because the
user asked for it to be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from filrouge.app.mirror import write_briefs
from filrouge.app.parts import Parts
from filrouge.app.report import project_names
from filrouge.app.said_now import said_now
from filrouge.app.spaces import keep_vectors, queue_vectors
from filrouge.app.understanding import Reading, readings_of, reflect, settle, vectors_at_once
from filrouge.capture.intake import cleaned, turns_of
from filrouge.errors import BadInput
from filrouge.extraction.heuristics import extract
from filrouge.extraction.units import without_secret
from filrouge.model.event import Event
from filrouge.model.memory import Span, Statement
from filrouge.model.scope import Scope, ScopeName
from filrouge.model.turn import TRUST_TYPED, Turn
from filrouge.ports import Tx, Vectors
from filrouge.store.events import Events, Projects
from filrouge.store.memories import Action, Origin

#: Characters: a long note, a whole document of reference.
LONGEST = 200_000
#: "By the way, for the record:" opens a statement and is no part of it.
_WORDS_OF_CHATTER = 4


def remember(
    parts: Parts, text: str, *, names: Sequence[str], scope: ScopeName | None, host: str, branch: str = ""
) -> list[Action]:
    """Store what the user said; returns what it came to.

    Args:
        branch: the git branch that was checked out where it was said.

    Raises:
        BadInput: there is no text, or too much of it, or it holds a secret.
    """
    if not text.strip():
        raise BadInput("There is nothing to remember: the text is empty.")
    if len(text) > LONGEST:
        raise BadInput(f"The text has {len(text)} characters; at most {LONGEST} can be remembered at once.")
    known_as = parts.readers.here(lambda tx: project_names(tx, names))
    said = said_now(parts.clock, "note", text, names=known_as, host=host)._replace(branch=branch)
    event = cleaned(said, parts.redact)
    turn = turns_of(event, "")[0]
    without_secret(turn.text)
    reading = _reading(parts, turn, scope)
    done = parts.writer.run(lambda tx: _store(parts, tx, event, reading))
    reflect(parts, reading.meaning, done)
    write_briefs(parts, None, everywhere=True)
    parts.work_waiting.set()
    return [action for action, _ in done]


def remember_many(parts: Parts, texts: Sequence[str], *, names: Sequence[str], scope: ScopeName) -> int:
    """Store many statements as they are, without deciding on them; vectors follow in the background.

    Raises:
        BadInput: one of them holds a secret; none is stored then.
    """
    clean = [without_secret(parts.redact(text)) for text in texts]

    def write(tx: Tx) -> int:
        now = parts.clock.now()
        project = Projects(tx).resolve(project_names(tx, names), at=now)
        origin = Origin(scope=Scope(project=project, channel="api"), trust=TRUST_TYPED, at=now, actor="user")
        for text in clean:
            statement = Statement(kind="fact", text=text, span=Span(start=0, end=0), scope=scope)
            memory = parts.memories(tx).add(statement, origin, "told in bulk")
            queue_vectors(tx, "memory", memory.memory_id, now)
        return len(clean)

    count = parts.writer.run(write)
    parts.work_waiting.set()
    return count


def put_fact(parts: Parts, key: str, value: str, *, names: Sequence[str], scope: ScopeName) -> Action:
    """Set a core fact; a value it had before is superseded.

    Raises:
        BadInput: key or value is empty, or the value is a secret.
    """
    if not key.strip() or not value.strip():
        raise BadInput("A fact needs a key and a value.")
    text = without_secret(parts.redact(f"{key}: {value}"))
    statement = Statement(kind="fact", text=text, span=Span(start=0, end=0), scope=scope, key=key, value=value)
    meaning = parts.meaning
    [vectors] = vectors_at_once(meaning, [statement.text])

    def write(tx: Tx) -> Action:
        now = parts.clock.now()
        project = Projects(tx).resolve(project_names(tx, names), at=now)
        origin = Origin(scope=Scope(project=project, channel="api"), trust=TRUST_TYPED, at=now, actor="user")
        action = parts.memories(tx).put_core_fact(statement, origin)
        keep_vectors(tx, meaning, "memory", action.memory_id, vectors, now)
        return action

    action = parts.writer.run(write)
    reflect(parts, meaning, [(action, vectors)])
    parts.work_waiting.set()
    return action


def _reading(parts: Parts, turn: Turn, scope: ScopeName | None) -> Reading:
    found = _whole(turn.text, extract(turn))
    statements = tuple(replace(one, scope=scope) if scope else one for one in found)
    return readings_of(parts.meaning, [(turn, statements)])[0]


def _whole(text: str, found: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """What was found, if it is all of the text; else the text as one statement: the user asked for all of it."""
    covered = "".join(text[one.span.start : one.span.end] for one in found)
    if found and len(text.split()) - len(covered.split()) <= _WORDS_OF_CHATTER:
        return found
    span = Span(start=0, end=len(text))
    if not found:
        return (Statement(kind="fact", text=text.strip(), span=span, confidence=1.0),)
    corrects = tuple(dict.fromkeys(old for one in found for old in one.corrects))
    changes = any(one.is_correction for one in found)
    lead = replace(found[0], text=text.strip(), span=span, key=None, value=None)
    return (replace(lead, corrects=corrects, is_correction=changes),)


def _store(parts: Parts, tx: Tx, event: Event, reading: Reading) -> list[tuple[Action, Vectors | None]]:
    project = Events(tx).add(event, received_at=parts.clock.now()) or ""
    turn = replace(reading.turn, scope=replace(reading.turn.scope, project=project or None))
    if parts.turns(tx).add(turn):
        queue_vectors(tx, "turn", turn.id, parts.clock.now())
    Events(tx).settle(event.id, "done")
    return settle(parts, tx, replace(reading, turn=turn))
