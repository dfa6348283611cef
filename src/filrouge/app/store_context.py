"""What work inside one transaction of a database needs, whether a daemon runs on that database or not."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass

from filrouge.clock import Clock
from filrouge.config import Effective, Settings, resolve
from filrouge.errors import BadConfig
from filrouge.ports import Analyser, Tx
from filrouge.store.memories import Memories
from filrouge.store.settings import StoredSettings
from filrouge.store.turns import Turns

_LOG = logging.getLogger(__name__)


@dataclass(kw_only=True)
class StoreContext:
    """The home, the clock, the analyser and the environment, and the repositories that need them."""

    home: str
    clock: Clock
    analyser: Analyser
    environ: Mapping[str, str]

    def memories(self, tx: Tx) -> Memories:
        """The memories, within a transaction."""
        return Memories(tx, self.analyser)

    def turns(self, tx: Tx) -> Turns:
        """The turns, within a transaction."""
        return Turns(tx, self.analyser)

    def effective(self, tx: Tx, cwd: str | None = None) -> Effective:
        """The settings that hold, and where they come from."""
        local = cwd if cwd and os.path.isdir(cwd) else None
        return resolve(StoredSettings(tx).all(), home=self.home, environ=self.environ, cwd=local)

    def settings(self, tx: Tx, cwd: str | None = None) -> Settings:
        """The settings that hold; a project's file that cannot be read is passed over, because agents must go on."""
        try:
            return self.effective(tx, cwd).settings
        except BadConfig as error:
            _LOG.warning("%s", error.message)
            return self.effective(tx).settings
