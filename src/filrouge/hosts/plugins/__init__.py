"""The plugins that come with Filrouge, one directory for each family of hosts.

They are files for other programs. They are shipped inside the package so that a host gets the plugin of the same
version as its daemon.
"""

from __future__ import annotations

import os
from typing import Final

from filrouge.core.errors import BadInput

#: The plugin directory for each host. Claude Code and Codex share one.
_FOLDERS: Final = {"claude-code": "filrouge", "codex": "filrouge", "openclaw": "openclaw", "opencode": "opencode"}


def directory(name: str) -> str:
    """Return the directory of the plugin for that host.

    Raises:
        BadInput: there is no plugin for that host.
    """
    if name not in _FOLDERS:
        raise BadInput(f"There is no plugin for {name!r}.", remedy=f"Name one of {', '.join(_FOLDERS)}.")
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), _FOLDERS[name])
