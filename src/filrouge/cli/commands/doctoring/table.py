"""The table of all checks of `filrouge doctor`, in the order in which they are shown."""

from __future__ import annotations

from typing import Final

from filrouge.cli.commands.doctoring import (
    access,
    configuration,
    daemons,
    deep,
    embedding,
    homes,
    keeping,
    machine,
    models,
    policy,
    queue,
    stale,
    store,
    vaults,
    wired,
)
from filrouge.cli.commands.doctoring.finding import Check

CHECKS: Final[tuple[Check, ...]] = (
    *machine.CHECKS,
    *homes.CHECKS,
    *configuration.CHECKS,
    *store.CHECKS,
    *keeping.CHECKS,
    *daemons.CHECKS,
    *access.CHECKS,
    *queue.CHECKS,
    *embedding.CHECKS,
    *models.CHECKS,
    *vaults.CHECKS,
    *wired.CHECKS,
    *policy.CHECKS,
    *stale.CHECKS,
)
DEEP_CHECKS: Final[tuple[Check, ...]] = deep.CHECKS
