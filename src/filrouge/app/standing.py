"""How threads and bridges stand, in counts: for the status, and for the health of the whole with what is wrong.

A warning says what it is about, what was found, and the next command.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from filrouge._version import __version__
from filrouge.app.backups import in_brief
from filrouge.app.parts import Parts
from filrouge.app.retaining import last_run, policy_of
from filrouge.app.sizes import sizes
from filrouge.app.thread_upkeep import state_counts
from filrouge.app.write_state import write_state
from filrouge.capture import losses
from filrouge.ports import Tx
from filrouge.store.bridges import Bridges
from filrouge.store.events import Events
from filrouge.store.jobs import Jobs
from filrouge.store.threads import Threads
from filrouge.store.usage import LlmUsage
from filrouge.store.vectors import LEAST_COVERAGE, StoredVectors

#: Below this share, threads are not taken up again; of fewer threads that could be, the share says nothing.
LEAST_CONTINUED: Final = 0.10
ENOUGH_THREADS: Final = 20
_DAYS: Final = 30


def of_threads(parts: Parts, tx: Tx) -> dict[str, Any]:
    """What `status` says: `threads` by state, `bridges`, and the `current_thread`, the one spoken in last, or None."""
    return {
        "threads": state_counts(parts, tx),
        "bridges": Bridges(tx).count()[0],
        "current_thread": tx.one("standing.current"),
    }


def health(parts: Parts, tx: Tx) -> dict[str, Any]:
    """The health of the whole: its figures, and `warnings`, each with `what`, `cause` and `next`; none = `ok`."""
    done, total = StoredVectors(tx).coverage(parts.meaning.space.id)
    queue = Jobs(tx).count()
    stored, unsure = Bridges(tx).count()
    found: dict[str, Any] = {
        "daemon": "Running",
        "version": __version__,
        "threads": state_counts(parts, tx),
        "bridges": {"stored": stored, "unsure": unsure},
        "continuation": _share("continued", "could", *Threads(tx).continuation()),
        "reactivation": _share("woken", "put_down", *_woken(tx)),
        "embedding_coverage": {"done": done, "total": total, "rate": round(done / total, 4) if total else None},
        "llm": _spent(parts, tx),
        "queue": {"waiting": queue.waiting, "running": queue.running, "dead": queue.dead},
        "ledger": Events(tx).ledger(),
        "lost": losses.read(parts.home)._asdict(),
        "storage": stored_bytes(parts, tx),
        "writes": write_state(parts, probe=True),
        "backups": in_brief(parts.home),
    }
    warnings = _warnings(found)
    return {"status": "warn" if warnings else "ok", **found, "warnings": warnings}


def stored_bytes(parts: Parts, tx: Tx) -> dict[str, Any]:
    """What the home takes on the disk, by part, its cap, and what retention took last."""
    found = sizes(parts.home)
    return {
        "bytes": sum(found.values()),
        "parts": found,
        "cap": policy_of(parts.settings(tx)).cap,
        "retention": last_run(tx),
    }


def _mb(size: int) -> str:
    return f"{size / 1_000_000:,.0f} MB"


def _share(part: str, whole: str, some: int, of: int) -> dict[str, Any]:
    """Two counts with their `rate`, which is None where there is nothing to be a part of."""
    return {part: some, whole: of, "rate": round(some / of, 4) if of else None}


def _woken(tx: Tx) -> tuple[int, int]:
    """How many threads were taken up again, of those that had been put down."""
    row = tx.one("standing.woken") or {"woken": 0, "put_down": 0}
    return int(row["woken"]), int(row["put_down"])


def _spent(parts: Parts, tx: Tx) -> dict[str, Any]:
    """Calls to models and their price: today, and in the last days."""
    now = parts.clock.now()
    today, month = LlmUsage(tx).spent(now), LlmUsage(tx).by_model(now - timedelta(days=_DAYS))
    return {
        "today": {"calls": today.calls, "dollars": today.dollars, "unpriced_entries": today.unpriced},
        "days": _DAYS,
        "calls": sum(row["calls"] for row in month),
        "dollars": sum(row["dollars"] or 0.0 for row in month),
    }


def _warnings(found: dict[str, Any]) -> list[dict[str, str]]:
    warnings = list[dict[str, str]]()

    def warn(what: str, cause: str, then: str) -> None:
        warnings.append({"what": what, "cause": cause, "next": then})

    went_on, covered, dead = found["continuation"], found["embedding_coverage"], found["queue"]["dead"]
    if went_on["could"] >= ENOUGH_THREADS and went_on["rate"] < LEAST_CONTINUED:
        warn(
            "Continuation rate",
            f"{went_on['continued']} of {went_on['could']} threads that could go on did",
            "filrouge threads --status all",
        )
    if covered["rate"] is not None and covered["rate"] < LEAST_COVERAGE:
        warn("Embedding coverage", f"{covered['done']} of {covered['total']} texts have vectors", "filrouge reindex")
    if dead:
        warn("Queue", f"{dead} jobs were set aside after eight tries", "filrouge doctor")
    if found["lost"]["events"]:
        warn("Lost events", losses.Losses(**found["lost"]).sentence(), "filrouge doctor")
    if not found["writes"]["works"]:
        warn("Writes", found["writes"]["cause"], found["writes"]["next"])
    size, cap = found["storage"]["bytes"], found["storage"]["cap"]
    if cap and size > cap:
        warn("Storage", f"{_mb(size)} of {_mb(cap)}, and what may go has gone", "filrouge settings size_cap_mb")
    if found["backups"]["failed"]:
        warn("Backups", f"the last one failed: {found['backups']['failed']['error']}", "filrouge doctor")
    if found["bridges"]["unsure"]:
        warn("Bridges", f"{found['bridges']['unsure']} are under a confidence of 0.5", "filrouge doctor --deep")
    return warnings
