"""The plugins that Filrouge brings along, one directory for each family of hosts.

They are files for other programs, shipped inside the package, so that a host that takes plugins can be given
one of the same version as the daemon it talks to.
"""

from __future__ import annotations

import os
from typing import Final

from filrouge.core.errors import BadInput

#: Which directory a host is given. Claude Code and Codex read the same one.
_PLACES: Final = {"claude-code": "filrouge", "codex": "filrouge", "openclaw": "openclaw", "opencode": "opencode"}


def directory(name: str) -> str:
    """The directory of the plugin for the host of that name.

    Raises:
        BadInput: no plugin is made for such a host.
    """
    if name not in _PLACES:
        raise BadInput(f"There is no plugin for {name!r}.", remedy=f"Name one of {', '.join(_PLACES)}.")
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), _PLACES[name])
