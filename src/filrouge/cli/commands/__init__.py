"""The Typer commands. Most of them send one request to the daemon and print the answer.

In: the words after `filrouge`. Out: text or JSON, and an exit code. `run` is the entry point; `COMMANDS` and `GROUPS`
say which module has which command. Only the module of the given command is imported, by name, because those that open
a database take most of a second to import. Help, completion and an unknown word import them all.

Exit codes: 0 ok · 1 found a problem · 2 usage · 3 daemon unreachable · 4 not allowed · 5 busy · 6 store damaged ·
7 cannot write (disk full, read-only) · 130 interrupted. `filrouge hook` always exits with 0.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Final

import typer

from filrouge.cli.output import guard, show_error, warn
from filrouge.core import choices
from filrouge.core.errors import FilrougeError

#: Module to the commands that it registers, in the order of the help.
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "search": ("status", "search", "recall", "facts", "why", "settings", "topics", "timeline", "context"),
    "memories": ("remember", "hook", "review", "history", "undo", "supersede", "pin", "unpin", "bin"),
    "threads": ("threads", "thread", "why-thread", "bridges", "graph"),
    "providers": ("extract", "reindex"),
    "setup": ("init", "uninstall"),
    "health": ("doctor", "health", "stats", "concepts"),
    "notes": ("notes",),
    "erasure": ("forget",),
    "maintenance": ("garden", "repair"),
    "backups": ("backup", "restore"),
    "transfer": ("export", "import"),
    "daemon": ("dashboard", "logs", "paths"),
    "demo": ("demo", "mcp"),
}
#: Command group to its module and the name of its Typer app there.
GROUPS: Final[Mapping[str, tuple[str, str]]] = {
    "daemon": ("daemon", "daemon_app"),
    "model": ("providers", "model_app"),
    "audit": ("maintenance", "audit_app"),
    "rules": ("memories", "rules_app"),
    "token": ("daemon", "token_app"),
    "config": ("daemon", "config_app"),
    "project": ("projects", "project_app"),
    "hub": ("hub", "hub_app"),
    "team": ("team", "team_app"),
}


def run() -> int:
    """Run the command line. Returns the exit code."""
    guard()
    as_json = "--json" in sys.argv
    _warn_about_unused_names(sys.argv[1:])
    try:
        # Outside standalone mode, Click returns the code of a `typer.Exit` instead of raising it.
        code = commands(sys.argv[1] if len(sys.argv) > 1 else "")(standalone_mode=False)
        return code if isinstance(code, int) else 0
    except FilrougeError as error:
        show_error(error, as_json=as_json)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        return 0
    except Exception as error:
        return _usage(error)


def commands(word: str = "") -> typer.Typer:
    """Return the Typer app with the module of this command, or with all modules if no module has it."""
    app = typer.Typer(
        name="filrouge",
        help="Local memory for LLM agents.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    found = [name for name, words in COMMANDS.items() if word in words]
    groups = [name for name in GROUPS if name == word]
    for name in found if found or groups else COMMANDS:
        _module(name).register(app)
    for group in groups if found or groups else GROUPS:
        module, attribute = GROUPS[group]
        app.add_typer(getattr(_module(module), attribute), name=group)
    if found or groups:
        app.callback()(_root)
    return app


def _warn_about_unused_names(words: Sequence[str]) -> None:
    """Warn about environment variables and project file keys that Filrouge does not use. `doctor` has its own check."""
    if not words or words[0] == "doctor" or {"-h", "--help"} & set(words):
        return
    with suppress(OSError):  # the working directory was deleted
        for message in choices.name_warnings(os.environ, os.getcwd()):
            warn(message)


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


def _root() -> None:
    """Local memory for LLM agents."""
    # A callback is needed: a Typer app with a single command would not expect the command's name.


def _usage(error: Exception) -> int:
    """Print a usage error of Click and return its exit code. Any other error is a bug and is raised again."""
    show = getattr(error, "show", None)
    if show is None:
        raise error
    show()
    return int(getattr(error, "exit_code", 2))
