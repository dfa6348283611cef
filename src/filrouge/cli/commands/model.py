"""`filrouge model`: fetch, status, build. The only place from which a model comes over the network.

`fetch` shows exactly what would come from where, and asks. `--yes` is the answer for scripts; without a terminal and
without `--yes` nothing is fetched.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

from filrouge.cli import output
from filrouge.cli.options import Json
from filrouge.cli.output import bars as progress_bars
from filrouge.core import installation
from filrouge.core.errors import BadInput, EmbedderUnavailable

app = typer.Typer(help="The embedding models on this machine.", no_args_is_help=True)


@app.command()
def fetch(
    yes: Annotated[bool, typer.Option("--yes", help="Yes to this download; nothing is asked.")] = False,
) -> None:
    """Fetch multilingual-e5-small as ONNX, for `embedding_model = e5-fetched`, after showing what it is."""
    from filrouge.providers.e5_network import state_of  # numpy
    from filrouge.providers.published_e5 import fetched_path, published

    model = published(os.environ)
    path = fetched_path(model)
    for file in model.files:
        output.say(f"{model.address(file)}  {_megabytes(file.size)}")
    output.say(f"Revision {model.revision}, licence {model.licence}, {_megabytes(model.size)} in all, to {path}.")
    if state_of(path) == "whole":
        output.say("It is here already.")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise BadInput("Nothing is fetched without consent.", remedy="Run it at a terminal, or add --yes.")
        output.confirm("Fetch it?", abort=True)
    bring = _bring()
    columns = "{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with progress_bars(*columns, transient=False, disable=not output.is_watched()) as bars:
        tasks = {file.name: bars.add_task(file.name, total=file.size) for file in model.files}

        def tell(name: str, have: int, _size: int) -> None:
            bars.update(tasks[name], completed=have)

        bring(model, path, tell, consent=True)
    output.say("Done. Use it with `filrouge settings embedding_model e5-fetched`, then start the daemon again.")


@app.command()
def status(json: Json = False) -> None:
    """Which models are on this machine, and whether they are whole."""
    found = _models()
    if json:
        output.show_json({"models": found})
    else:
        output.table(["model", "state", "size", "where"], [_row(one) for one in found])


@app.command()
def build() -> None:
    """Build the model of `e5-onnx` from the weights that are installed; nothing is fetched."""
    from filrouge.providers import e5_network as building  # numpy

    path = building.model_path()
    building.build(path, lambda step, share: output.say(f"{step} ({round(100 * share)} %)"))
    output.say(f"The model is in {path}.")


def _bring() -> Any:
    """What fetches; it needs an extra."""
    try:
        return importlib.import_module("filrouge.providers.fetching").fetch
    except ImportError as error:
        raise EmbedderUnavailable(
            f"Nothing can be fetched: {error}.",
            remedy=f"Install what is needed: `{installation.add_extra('remote')}`.",
        ) from error


def _models() -> list[dict[str, Any]]:
    from filrouge.providers.e5_network import model_path, state_of  # numpy
    from filrouge.providers.published_e5 import fetched_path, published

    paths = {"e5-onnx": model_path(), "e5-fetched": fetched_path(published({}))}
    return [
        {"model": name, "state": state_of(path), "bytes": _bytes(path), "path": path} for name, path in paths.items()
    ]


def _bytes(path: str) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(path)) if os.path.isdir(path) else 0


def _row(one: dict[str, Any]) -> tuple[str, str, str, str]:
    return one["model"], one["state"], _megabytes(one["bytes"]), one["path"]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
