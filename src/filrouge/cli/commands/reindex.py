"""`filrouge reindex`: bring the memory to another embedding model while everything goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TimeRemainingColumn
from rich.text import Text

from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.cli.output import bars
from filrouge.core.errors import EmbedderUnavailable

_LOOK_SECONDS = 0.5


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reindex)


def reindex(
    model: Annotated[str | None, typer.Argument(help="An embedder; default: the one of the settings.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done, or let it run.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")] = False,
) -> None:
    """Give every text its vectors in the wanted model's space; recall goes on in the old one until it is complete."""
    found = ask("POST", "/embedding/reindex", {"model": model})
    begun = found["building"] is not None
    if begun and wait:
        try:
            found = _watched() if output.is_watched() and not json else _until_done(lambda _: None)
        except KeyboardInterrupt:
            output.warn("The reindex goes on in the daemon; `filrouge reindex` shows it again.")
            raise
    if json:
        output.show_json(found)
    elif found["building"]:
        building = found["building"]
        output.say(f"Begun: {building['done']} of {building['total']} texts are in {building['space']}.")
    else:
        coverage = found["coverage"]
        what = f"{coverage['done']} of {coverage['total']} texts have their vectors in {found['space']}."
        output.say(f"Done: {what}" if begun else f"Nothing to do: {what}")


def _until_done(show: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Look until no space is in building; the last answer.

    Raises:
        EmbedderUnavailable: the daemon gave up after eight tries.
    """
    while True:
        found = ask("GET", "/embedding")
        building = found["building"]
        if building is None:
            return found
        if building["state"] == "failed":
            raise EmbedderUnavailable(
                f"The reindex stopped at {building['done']} of {building['total']}: {building['error']}",
                remedy="Recall goes on as before. Run `filrouge reindex` to go on with it.",
            )
        show(building)
        time.sleep(_LOOK_SECONDS)


def _watched() -> dict[str, Any]:
    """The same behind a progress bar."""
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with bars(*columns) as bar:
        task = bar.add_task("Embedding", total=None)

        def show(building: dict[str, Any]) -> None:
            trouble = f" (will be tried again: {building['error']})" if building["error"] else ""
            bar.update(
                task,
                description=building["model"] + trouble,
                completed=building["done"],
                total=building["total"],
            )

        return _until_done(show)


class _Rate(ProgressColumn):
    """Texts a second."""

    def render(self, task: Task) -> Text:
        """The rate, once there is one."""
        return Text(f"{task.speed:.0f}/s" if task.speed else "")
