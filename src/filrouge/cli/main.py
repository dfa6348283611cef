"""The entry point of the `filrouge` executable.

It reads the first argument before it imports anything else, because hooks run many times a minute. `hook`, `mcp` and
`--version` need only the standard library. The Typer commands are imported by name, and only when needed.
"""

from __future__ import annotations

import gc
import os
import sys

from filrouge._version import __version__
from filrouge.daemon import handover

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> int:
    """Run the command given in `sys.argv`. Returns the exit code."""
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    if first == "hook":
        _hook()
    elif first == "mcp" and not {"--help", "-h"} & set(sys.argv[2:]):
        import_module("filrouge.cli.mcp").main(sys.argv[2:])
    elif first in ("--version", "-V"):
        sys.stdout.write(f"filrouge {__version__}\n")
    else:
        return int(import_module("filrouge.cli.commands").run())
    return 0


def _hook() -> None:
    """Serve the hook and exit with 0. Even an import error, as during an upgrade, must not stop the agent."""
    gc.disable()  # the process ends before there is anything to collect
    try:
        given = handover.hand_over(sys.argv[2:], os.environ)
        if given is not None:
            import_module("filrouge.cli.hook").main(sys.argv[2:], given)
    finally:
        os._exit(0)  # nothing is buffered, and a normal interpreter shutdown would cost milliseconds


def import_module(name: str) -> Any:
    """Import a module by name; `importlib` itself would cost a hook 2 ms."""
    __import__(name)
    return sys.modules[name]


if __name__ == "__main__":
    sys.exit(main())
