"""The checks of `filrouge doctor --deep`: the schema, every row against its seal, the journal's chain, every vector.

SQLite's own check sees what breaks its structure. What changes a row's words and leaves that whole is seen here;
where rows have no seal, as far as they were there when the newest backup was made. And the embedder is loaded.
"""

from __future__ import annotations

from typing import Final

from filrouge.cli.commands.doctoring.embedding import wanted
from filrouge.cli.commands.doctoring.finding import MEND, Check, Verdict, fail, ok
from filrouge.cli.commands.doctoring.scene import Scene
from filrouge.store.comparing import differing
from filrouge.store.copying import schema_faults, schema_of
from filrouge.store.journal import Journal
from filrouge.store.mending import wrong_vectors
from filrouge.store.soundness import broken_seals
from filrouge.transfer import backup


def _schema(scene: Scene) -> Verdict:
    found = schema_faults(scene.database)
    if found:
        return fail(found[0], MEND)
    return ok("every table is what its migrations make")


def _seals(scene: Scene) -> Verdict:
    with scene.reading() as tx:
        broken = broken_seals(tx)
    if broken:
        few = ", ".join(broken[:5])
        return fail(f"{len(broken)} rows are not what was stored: {few}", MEND)
    return ok("every turn, memory and event is what was stored")


def _journal(scene: Scene) -> Verdict:
    with scene.reading() as tx:
        verdict = Journal(tx).verify()
    if not verdict.sound:
        return fail(f"entry {verdict.broken_at}: {verdict.reason}", MEND)
    return ok(f"{verdict.entries} entries, {verdict.redacted} redacted")


def _vectors(scene: Scene) -> Verdict:
    with scene.reading() as tx:
        wrong = wrong_vectors(tx)
    if wrong:
        return fail(f"{len(wrong)} are no vectors of their space", "Run `filrouge repair`.")
    return ok("every one has the length of its space")


def _against_backup(scene: Scene) -> Verdict:
    last = backup.newest(scene.home)
    if last is None or last.schema != schema_of(scene.database):
        return ok("there is none of this schema to hold it against")
    found = differing(scene.database, backup.path_of(scene.home, last.name))
    if found:
        rows = ", ".join(f"{count} of {table}" for table, count in found.items())
        return fail(f"rows that never change are not what they were on {last.at[:10]}: {rows}", MEND)
    return ok(f"what never changes is what it was on {last.at[:10]}")


def _embedder(scene: Scene) -> Verdict:
    settings = scene.settings()
    from filrouge.app.wiring import embedder_of  # a second of imports, which only this check needs

    model = embedder_of(wanted(scene), settings, scene.environ)
    model.query("ready?")
    known = model.space.calibration
    scale = f"calibration {known.origin}, {known.pairs:,} pairs" if known else "not calibrated yet"
    return ok(f"{model.space.model}, {model.space.revision}; {scale}")


CHECKS: Final = (
    Check(name="Schema", look=_schema),
    Check(name="Seals", look=_seals),
    Check(name="Journal", look=_journal),
    Check(name="Vectors", look=_vectors),
    Check(name="Against the backup", look=_against_backup),
    Check(name="Embedding model", look=_embedder),
)
