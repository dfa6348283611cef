"""The command line. Each command asks the daemon one thing and shows the answer.

Exit codes: 0 ok · 1 found a problem · 2 usage · 3 daemon unreachable · 4 not allowed · 5 busy · 6 store damaged ·
7 cannot write (disk full, read-only) · 130 interrupted. `filrouge hook` always ends with 0.
"""

from __future__ import annotations

import sys

import typer

from filrouge.cli.commands import (
    asking,
    audit,
    backups,
    bridges,
    changing,
    concepts,
    daemon,
    demo,
    doctor,
    forgetting,
    garden,
    health,
    injecting,
    model,
    models,
    places,
    reindex,
    repair,
    rules,
    telling,
    threads,
    topics,
    transfer,
)
from filrouge.cli.output import show_error
from filrouge.errors import FilrougeError

app = typer.Typer(
    name="filrouge",
    help="The red thread of your agents: what was said once is there when it matters.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _commands in (
    asking, injecting, topics, threads, bridges, telling, models, reindex, doctor, health, demo, changing, concepts,
    forgetting, garden, backups, repair, transfer, places,
):  # fmt: skip
    _commands.register(app)
app.add_typer(daemon.app, name="daemon")
app.add_typer(model.app, name="model")
app.add_typer(audit.app, name="audit")
app.add_typer(rules.app, name="rules")
app.add_typer(places.config, name="config")


def run() -> int:
    """Run the command line; returns the exit code."""
    as_json = "--json" in sys.argv
    try:
        # Outside standalone mode Click hands back the code of a `typer.Exit` instead of raising it.
        code = app(standalone_mode=False)
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


def _usage(error: Exception) -> int:
    """Click's usage errors carry an exit code and can print themselves; anything else is a bug and is shown whole."""
    show = getattr(error, "show", None)
    if show is None:
        raise error
    show()
    return int(getattr(error, "exit_code", 2))
