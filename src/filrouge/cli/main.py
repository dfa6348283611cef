"""The entry point of the `filrouge` executable.

It reads the first argument before it imports anything else, because hooks run many times a minute. `hook`, `mcp` and
`--version` need only the standard library. The Typer commands are imported by name, and only when needed.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from contextlib import suppress

from filrouge._version import __version__


def main() -> int:
    """Run the command given in `sys.argv`. Returns the exit code."""
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    if first == "hook":
        _hook()
    elif first == "mcp" and not {"--help", "-h"} & set(sys.argv[2:]):
        importlib.import_module("filrouge.cli.mcp").main(sys.argv[2:])
    elif first in ("--version", "-V"):
        sys.stdout.write(f"filrouge {__version__}\n")
    else:
        return int(importlib.import_module("filrouge.cli.commands").run())
    return 0


def _hook() -> None:
    """Serve the hook and exit with 0. Even an import error, as during an upgrade, must not stop the agent."""
    gc.disable()  # the process ends before there is anything to collect
    with suppress(Exception):
        importlib.import_module("filrouge.cli.hook").main(sys.argv[2:])
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
