"""The executable. It looks at one word before it imports anything: hooks run many times a minute.

`hook` and `--version` are served from the standard library; everything else is the command line proper,
loaded by name so that the hook never pays for it.
"""

from __future__ import annotations

import importlib
import sys

from filrouge._version import __version__


def main() -> None:
    """Run what the command line asks for."""
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    if first == "hook":
        importlib.import_module("filrouge.cli.hook").main(sys.argv[2:])
    elif first in ("--version", "-V"):
        sys.stdout.write(f"filrouge {__version__}\n")
    else:
        importlib.import_module("filrouge.cli.commands").run()


if __name__ == "__main__":
    main()
