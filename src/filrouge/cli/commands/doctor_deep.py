"""The checks of `filrouge doctor --deep`: the schema, every row against its seal, the journal's chain, every vector.

SQLite's own check sees what breaks its structure. What changes a row's words and leaves that whole is seen here;
where rows have no seal, as far as they were there when the newest backup was made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from filrouge.cli.commands.doctor_findings import MEND, Finding, reading
from filrouge.home import DATABASE, inside
from filrouge.store.comparing import differing
from filrouge.store.copying import schema_faults, schema_of
from filrouge.store.journal import Journal
from filrouge.store.mending import wrong_vectors
from filrouge.store.soundness import broken_seals
from filrouge.transfer import backup


def _schema(directory: str) -> Finding:
    """Schema."""
    found = schema_faults(inside(directory, DATABASE))
    if found:
        return Finding("Schema", "fail", found[0], MEND)
    return Finding("Schema", "ok", "every table is what its migrations make")


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


def _against_backup(directory: str) -> Finding:
    """Against the backup."""
    name, last, path = "Against the backup", backup.newest(directory), inside(directory, DATABASE)
    if last is None or last.schema != schema_of(path):
        return Finding(name, "ok", "there is none of this schema to hold it against")
    found = differing(path, backup.path_of(directory, last.name))
    if found:
        rows = ", ".join(f"{count} of {table}" for table, count in found.items())
        cause = f"rows that never change are not what they were on {last.at[:10]}: {rows}"
        return Finding(name, "fail", cause, MEND)
    return Finding(name, "ok", f"what never changes is what it was on {last.at[:10]}")


DEEP_CHECKS: Final[tuple[Callable[[str], Finding], ...]] = (_schema, _seals, _journal, _vectors, _against_backup)
