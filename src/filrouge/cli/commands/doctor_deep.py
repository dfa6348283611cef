"""The checks of `filrouge doctor --deep`: every row against its seal, the journal's chain, and every vector.

SQLite's own check sees what breaks its structure. What changes a row's words and leaves that whole is seen here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from filrouge.cli.commands.doctor_findings import MEND, Finding, reading
from filrouge.store.journal import Journal
from filrouge.store.mending import wrong_vectors
from filrouge.store.soundness import broken_seals


def _seals(directory: str) -> Finding:
    """Seals."""
    with reading(directory) as tx:
        broken = broken_seals(tx)
    if broken:
        few = ", ".join(broken[:5])
        return Finding("Seals", "fail", f"{len(broken)} rows are not what was stored: {few}", MEND)
    return Finding("Seals", "ok", "every turn, memory and event is what was stored")


def _journal(directory: str) -> Finding:
    """Journal."""
    with reading(directory) as tx:
        verdict = Journal(tx).verify()
    if not verdict.sound:
        return Finding("Journal", "fail", f"entry {verdict.broken_at}: {verdict.reason}", MEND)
    return Finding("Journal", "ok", f"{verdict.entries} entries, {verdict.redacted} redacted")


def _vectors(directory: str) -> Finding:
    """Vectors."""
    with reading(directory) as tx:
        wrong = wrong_vectors(tx)
    if wrong:
        return Finding("Vectors", "fail", f"{len(wrong)} are no vectors of their space", "Run `filrouge repair`.")
    return Finding("Vectors", "ok", "every one has the length of its space")


DEEP_CHECKS: Final[tuple[Callable[[str], Finding], ...]] = (_seals, _journal, _vectors)
