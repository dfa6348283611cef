"""Facts by their key: which memory is meant, changed and binned by the user's hand.

A core fact has a key of its own, unique in its scope; every other memory is known by its id, which `facts` gives as its
key. Where several facts of different places have one key, none of them is meant until the project is named.
"""

from __future__ import annotations

from collections.abc import Sequence

from filrouge.app.by_hand import Superseded, bin_memory, supersede
from filrouge.app.parts import Parts
from filrouge.app.report import project_id
from filrouge.errors import BadInput, NotFound
from filrouge.model.memory import Memory
from filrouge.ports import Tx
from filrouge.store.by_hand import ByHand
from filrouge.store.memories import Action


def fact_of(parts: Parts, tx: Tx, key: str, names: Sequence[str]) -> Memory:
    """The live memory that has a key, or else an id.

    Args:
        names: the project whose fact is meant, or the user's where it has none; none = wherever there is one.

    Raises:
        NotFound: none has it, or it is a rule's id.
        BadInput: several have it; with their ids.
    """
    project = project_id(tx, names)
    found = ByHand(tx, parts.analyser).with_key(key)
    if names:
        here = [one for one in found if one.scope_name == "project" and one.scope.project == project]
        found = here or [one for one in found if one.scope_name == "user"]
    if len(found) > 1:
        ids = ", ".join(one.id for one in found)
        raise BadInput(f"Several facts have the key {key!r}: {ids}.", remedy="Name the project, or take one's id.")
    one = found[0] if found else parts.memories(tx).some([key]).get(key)
    if one is None:
        raise NotFound(f"There is no fact {key!r}.")
    if one.kind == "rule":
        raise NotFound(f"Memory {key!r} is a rule and no fact.", remedy="See `filrouge rules`.")
    return one


def change_fact(parts: Parts, key: str, value: str, names: Sequence[str]) -> Superseded | None:
    """Give a fact another value; None where it has that one already.

    Raises:
        NotFound, BadInput: as `fact_of` and `supersede` do.
    """
    one = parts.readers.here(lambda tx: fact_of(parts, tx, key, names))
    if (one.value if one.key and one.value is not None else one.text) == parts.redact(value.strip()):
        return None
    return supersede(parts, one.id, value)


def bin_fact(parts: Parts, key: str, names: Sequence[str]) -> Action:
    """Put a fact into the bin, from where it can be restored.

    Raises:
        NotFound, BadInput: as `fact_of` does, or it is in the bin already.
    """
    one = parts.readers.here(lambda tx: fact_of(parts, tx, key, names))
    return bin_memory(parts, one.id)
