"""Talk that has left its session's thread (THR-4): two prompts in a row that have nothing to do with what came before.

One prompt seldom says so: "thanks, and the second one?" is near to nothing. So a prompt stays with its session at
first, and when the next one is as far from all that the session said in this thread, both leave, for another thread
that they are near enough to, or for one of their own. Held against what this session said, not against the whole
thread: what is asked is whether the talk has turned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from filrouge.model.space import EmbeddingSpace
from filrouge.model.thread import Routing
from filrouge.threads.ground import Ground
from filrouge.threads.routing import LOGGED_LEAST, Bands, bands_of, is_accepted
from filrouge.threads.vectors import together
from filrouge.threads.weighing import Known, Part, weighed

#: Prompts in a row that leave together, and those before them that they are held against.
LEAVING, BEFORE = 2, 3


def part_off(
    said: Sequence[Part],
    own: Known,
    others: Sequence[Known],
    space: EmbeddingSpace,
    ground: Ground | None = None,
    bands: Bands | None = None,
) -> Routing | None:
    """Where the last `LEAVING` prompts of a session go that have left its thread; None where they have not.

    Args:
        said: what the session said in the thread, prompt by prompt, oldest first. Before the last two there is
            something, and all have vectors; otherwise it is not known, and nothing leaves.
        own: that thread.
        others: every other live thread that they may belong to.
    """
    bands = bands or bands_of(ground)
    before, last = said[:-LEAVING][-BEFORE:], said[-LEAVING:]
    if not before or any(one.vector is None for one in (*before, *last)):
        return None
    session = replace(own, parts=(together(before),))
    near = max(_to_own(one, session, others, space, ground) for one in last)
    if near >= bands.parted:
        return None
    found = weighed([together(last)], [own, *others], space, ground, own=own.thread.id)
    chosen = next((one for one in found if not one.own and is_accepted(one, bands)), None)
    action = "fork" if chosen is None else "continue" if chosen.state == "active" else "reactivate"
    where = "no thread is near enough" if chosen is None else f"another thread is nearer, at {chosen.similarity:.2f}"
    return Routing(
        action=action,
        thread_id=chosen.thread_id if chosen else None,
        parent=None if chosen else own.thread.id,
        similarity=chosen.similarity if chosen else near,
        weighed=found[:LOGGED_LEAST],
        reason=f"Two prompts in a row have left what the session spoke of, at {near:.2f} and less; {where}.",
    )


def _to_own(one: Part, session: Known, others: Sequence[Known], space: EmbeddingSpace, ground: Ground | None) -> float:
    """How near a prompt is to what was said before; the others say which words are rare."""
    found = weighed([one], [session, *others], space, ground, own=session.thread.id)
    return next(it.similarity for it in found if it.own)
