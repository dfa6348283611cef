"""The executable. It looks at one word before it imports anything: hooks run many times a minute.

`hook`, `mcp` and `--version` are served from the standard library; everything else is the command line proper,
loaded by name so that the hook never pays for it.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from contextlib import suppress

from filrouge._version import __version__


def main() -> int:
    """Run what the command line asks for; returns the exit code."""
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
    """Serve the hook; an installation half replaced must not stop the agent either."""
    gc.disable()  # the process ends before there is anything to collect
    with suppress(Exception):
        importlib.import_module("filrouge.cli.hook").main(sys.argv[2:])
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
