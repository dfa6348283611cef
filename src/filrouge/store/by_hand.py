"""By hand: what only the user does to a memory that is there. Pin and unpin it, switch a rule off and on, bring it back
from the bin.

Other verbs of the user's hand stand where decisions of the same effect do: `Memories.supersede`, `Memories.bin`.
"""

from __future__ import annotations

from dataclasses import replace

from filrouge.errors import BadInput, NotFound
from filrouge.model.memory import Memory
from filrouge.ports import Analyser, Tx
from filrouge.store.lives import Life, Lived
from filrouge.store.memory_rows import memory_from_row
from filrouge.store.memory_writing import Action, ActionName, MemoryWriter, Origin


class ByHand:
    """The user's hand on the memories of one database."""

    def __init__(self, tx: Tx, analyser: Analyser) -> None:
        self._tx = tx
        self._writer = MemoryWriter(tx, analyser)

    def with_key(self, key: str) -> list[Memory]:
        """The live facts with this key, of the user and of every project, without their evidence."""
        return [memory_from_row(row) for row in self._tx.all("memories.with_key", {"key": key})]

    def pin(self, memory_id: str, origin: Origin) -> Action:
        """Keep a live memory from being changed by anybody but the user; one that is pinned stays so.

        Raises:
            NotFound: naming the id.
            BadInput: it is not live.
        """
        return self._pin(memory_id, origin, pinned=True)

    def unpin(self, memory_id: str, origin: Origin) -> Action:
        """Let a live memory be changed again; one that is not pinned stays so.

        Raises:
            NotFound: naming the id.
            BadInput: it is not live.
        """
        return self._pin(memory_id, origin, pinned=False)

    def switch(self, memory_id: str, origin: Origin, *, enabled: bool) -> Action:
        """Switch a live rule off, so that no model is shown it, or on again; one that is so already stays so.

        Raises:
            NotFound: naming the id.
            BadInput: it is not live, or no rule.
        """
        found = self._kin(memory_id)[memory_id]
        if found.memory.kind != "rule":
            raise BadInput(f"Memory {memory_id} is no rule.", remedy="See `filrouge rules`.")
        if found.life.state != "live":
            raise BadInput(f"Rule {memory_id} is {found.life.state}, not live.", remedy="See `filrouge rules --all`.")
        action: ActionName = "enable" if enabled else "disable"
        if found.life.disabled is enabled:
            after = {memory_id: replace(found.life, disabled=not enabled)}
            self._change(action, memory_id, {memory_id: found.life}, after, origin, {})
        return Action(name=action, memory_id=memory_id, reason="by hand")

    def restore(self, memory_id: str, origin: Origin) -> Action:
        """Make what was binned or superseded live again.

        Raises:
            NotFound: naming the id.
            BadInput: it is live, or waits for review; or another version of it is live, or holds its key.
        """
        kin = self._kin(memory_id)
        life = kin[memory_id].life
        if life.state == "live":
            raise BadInput(f"Memory {memory_id} is live.", remedy="There is nothing to restore.")
        if life.state == "quarantined":
            raise BadInput(f"Memory {memory_id} waits for review.", remedy=f"Settle it: `filrouge review {memory_id}`.")
        after = {memory_id: replace(life, state="live", valid_to=None, superseded_by=None)}
        self._writer.lives.check(after, kin=kin)
        self._change("restore", memory_id, {memory_id: life}, after, origin, kin)
        return Action(name="restore", memory_id=memory_id, reason="by hand")

    def _pin(self, memory_id: str, origin: Origin, *, pinned: bool) -> Action:
        action = "pin" if pinned else "unpin"
        life = self._kin(memory_id)[memory_id].life
        if life.state != "live":
            remedy = f"Try `filrouge restore {memory_id}`, or pin its version of today."
            raise BadInput(f"Memory {memory_id} is {life.state}, not live.", remedy=remedy)
        if life.pinned is not pinned:
            after = {memory_id: replace(life, pinned=pinned)}
            self._change(action, memory_id, {memory_id: life}, after, origin, {})
        return Action(name=action, memory_id=memory_id, reason="by hand")

    def _change(
        self,
        action: str,
        memory_id: str,
        before: dict[str, Life],
        after: dict[str, Life],
        origin: Origin,
        touches: dict[str, Lived],
    ) -> None:
        self._writer.lives.write(after, origin.at)
        payload = {"reason": "by hand", "turn": origin.turn_id}
        self._writer.record(origin, action, memory_id, payload, before=before, after=after, touches=touches)

    def _kin(self, memory_id: str) -> dict[str, Lived]:
        kin = self._writer.lives.kin([memory_id])
        if memory_id not in kin:
            raise NotFound(f"There is no memory {memory_id!r}.")
        return kin
