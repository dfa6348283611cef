"""`filrouge model`, `extract` and `reindex`: the embedding models and the language model.

`model fetch` is the only place that downloads a model. It shows what would be downloaded from where, and asks. `--yes`
answers for scripts; without a terminal and without `--yes` nothing is downloaded.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from filrouge.cli import output
from filrouge.cli.client import ask
from filrouge.cli.output import Json, bars
from filrouge.core import installation
from filrouge.core.errors import BadInput, EmbedderUnavailable

model_app = typer.Typer(help="The embedding models on this machine.", no_args_is_help=True)


@model_app.command()
def fetch(
    yes: Annotated[bool, typer.Option("--yes", help="Yes to this download; nothing is asked.")] = False,
) -> None:
    """Download multilingual-e5-small as ONNX for `embedding_model = e5-fetched`, after showing the files."""
    from filrouge.providers.e5 import state_of  # imports numpy
    from filrouge.providers.published_e5 import fetched_path, published_model

    model = published_model(os.environ)
    path = fetched_path(model)
    for file in model.files:
        output.say(f"{model.address(file)}  {_megabytes(file.size)}")
    output.say(f"Revision {model.revision}, licence {model.licence}, {_megabytes(model.size)} in all, to {path}.")
    if state_of(path) == "whole":
        output.say("The model is already here.")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise BadInput("Nothing is fetched without consent.", remedy="Run it at a terminal, or add --yes.")
        output.confirm("Fetch it?", abort=True)
    download = _load_download()
    columns = "{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with bars(*columns, transient=False, disable=not output.is_terminal()) as progress:
        tasks = {file.name: progress.add_task(file.name, total=file.size) for file in model.files}

        def show_progress(name: str, received: int, _size: int) -> None:
            progress.update(tasks[name], completed=received)

        download(model, path, show_progress, consent=True)
    output.say("Done. Use it with `filrouge settings embedding_model e5-fetched`, then start the daemon again.")


@model_app.command()
def status(json: Json = False) -> None:
    """List the models on this machine, and whether their files are complete."""
    found = _models()
    if json:
        output.show_json({"models": found})
    else:
        output.table(["model", "state", "size", "where"], [_model_row(model) for model in found])


@model_app.command()
def build() -> None:
    """Build the model of `e5-onnx` from the installed weights. Nothing is downloaded."""
    from filrouge.providers import e5 as building  # imports numpy

    path = building.model_path()
    building.build(path, lambda step, share: output.say(f"{step} ({round(100 * share)} %)"))
    output.say(f"The model is in {path}.")


def _load_download() -> Any:
    """Return the download function.

    Raises:
        EmbedderUnavailable: the extra `remote`, which it needs, is not installed.
    """
    try:
        return importlib.import_module("filrouge.providers.fetching").fetch
    except ImportError as error:
        raise EmbedderUnavailable(
            f"Nothing can be fetched: {error}.",
            remedy=f"Install what is needed: `{installation.install_extra_command('remote')}`.",
        ) from error


def _models() -> list[dict[str, Any]]:
    from filrouge.providers.e5 import (
        model_path,
        state_of,  # imports numpy
    )
    from filrouge.providers.published_e5 import fetched_path, published_model

    paths = {"e5-onnx": model_path(), "e5-fetched": fetched_path(published_model({}))}
    return [
        {"model": name, "state": state_of(path), "bytes": _bytes(path), "path": path} for name, path in paths.items()
    ]


def _bytes(path: str) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(path)) if os.path.isdir(path) else 0


def _model_row(model: dict[str, Any]) -> tuple[str, str, str, str]:
    return model["model"], model["state"], _megabytes(model["bytes"]), model["path"]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


# `filrouge extract`

_MAX_EXTRACTION_SECONDS = 120.0


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(extract)
    app.command()(reindex)


def extract(
    text: Annotated[str | None, typer.Argument(help="The text to read; `-`: standard input.")] = None,
    source: Annotated[str | None, typer.Option(help="AGENT/PROJECT that it comes from; reads standard input.")] = None,
    context: Annotated[str, typer.Option(help="On what occasion: stop, session_end, ...")] = "",
    dead: Annotated[bool, typer.Option("--dead", help="Show the answers of models that could not be read.")] = False,
    json: Json = False,
) -> None:
    """Extract memories from a text now; without a text, show the model, its cost and the waiting conversations."""
    if text is not None or source is not None:
        if dead:
            raise BadInput("--dead shows what could not be read; it cannot be combined with a text.")
        _extract_text(sys.stdin.read() if text in (None, "-") else text, source or "", context, json)
        return
    found: Any = ask("GET", "/extract/dead-letters" if dead else "/extract/status")
    if json:
        output.show_json(found)
    elif dead:
        output.say_lines("\n\n".join(_letter(letter) for letter in found) or "Every answer could be read.")
    elif not found["enabled"]:
        output.say("Extraction is off (extract_provider). Captured text is still stored.")
    else:
        output.say_lines("\n".join(_status(found)))


def _extract_text(text: str, source: str, context: str, json: bool) -> None:
    body = {"messages": text, "source": source, "context": context}
    found: Any = ask("POST", "/memory/extract", body, timeout=_MAX_EXTRACTION_SECONDS)
    if json:
        output.show_json(found)
        return
    for action in found["actions"]:
        output.say(f"{action['action']}: {action['review'] or action['id']}")
    counts = ("stored", "updated", "deleted")
    counted = ", ".join(f"{found[f'{name}_count']} {name}" for name in counts)
    output.say(f"{found['extracted_count']} statements read: {counted}.")


def _status(found: dict[str, Any]) -> list[str]:
    today = found["today"]
    limit = f" of {today['most_dollars']:.2f}" if today["most_dollars"] else ""
    tokens = f"{today['tokens']} of {today['most_tokens']} tokens"
    dollars = f"{today['dollars']:.4f}{limit} dollars{_unpriced(today['unpriced_entries'])}"
    lines = [
        f"{found['provider']} {found['model']} ({found['mode']}): {found['status']}",
        f"Today: {today['calls']} calls, {tokens}, {dollars}.",
    ]
    lines += [f"{entry['n']} conversations wait{_why(entry['reason'])}" for entry in found["waiting"]]
    if found["unreadable_answers"]:
        lines.append(f"{found['unreadable_answers']} answers could not be read: `filrouge extract --dead`.")
    return lines + [_spent(entry) for entry in found["usage"]]


def _spent(usage: dict[str, Any]) -> str:
    dollars = f", {usage['dollars']:.4f} dollars" if usage["dollars"] is not None else ""
    tokens = f"{usage['input_tokens']} + {usage['output_tokens']} tokens"
    who = f"{usage['operation']:8} {usage['provider']}:{usage['model']}"
    return f"  {usage['day']}  {who}  {usage['calls']} calls, {tokens}{dollars}"


def _unpriced(entries: int) -> str:
    return f" plus {entries} entries of unknown price" if entries else ""


def _why(reason: str) -> str:
    return f": {reason}" if reason else " until they are due."


def _letter(letter: dict[str, Any]) -> str:
    return f"{letter['at']}  {letter['operation']} ({letter['prompt_version']})\n{letter['reason']}\n{letter['answer']}"


_POLL_SECONDS = 0.5


def reindex(
    model: Annotated[str | None, typer.Argument(help="An embedder; default: the one of the settings.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done, or let it run.")] = True,
    json: Json = False,
) -> None:
    """Embed every text again with the wanted model. Recall uses the old vectors until all are done."""
    found = ask("POST", "/embedding/reindex", {"model": model})
    is_started = found["building"] is not None
    if is_started and wait:
        try:
            found = _wait_with_bar() if output.is_terminal() and not json else _wait_until_done(lambda _: None)
        except KeyboardInterrupt:
            output.warn("The reindex continues in the daemon; `filrouge reindex` shows it again.")
            raise
    if json:
        output.show_json(found)
    elif found["building"]:
        building = found["building"]
        output.say(f"Begun: {building['done']} of {building['total']} texts are in {building['space']}.")
    else:
        coverage = found["coverage"]
        summary = f"{coverage['done']} of {coverage['total']} texts have their vectors in {found['space']}."
        output.say(f"Done: {summary}" if is_started else f"Nothing to do: {summary}")


def _wait_until_done(show: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Poll until no embedding space is being built. Returns the last answer.

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
                remedy="Recall works as before. Run `filrouge reindex` to continue.",
            )
        show(building)
        time.sleep(_POLL_SECONDS)


def _wait_with_bar() -> dict[str, Any]:
    """Do the same with a progress bar."""
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with bars(*columns) as bar:
        task = bar.add_task("Embedding", total=None)

        def show(building: dict[str, Any]) -> None:
            retry_note = f" (will be tried again: {building['error']})" if building["error"] else ""
            bar.update(
                task,
                description=building["model"] + retry_note,
                completed=building["done"],
                total=building["total"],
            )

        return _wait_until_done(show)


class _Rate(ProgressColumn):
    """A column with the texts per second."""

    def render(self, task: Task) -> Text:
        """Return the rate; empty until one is known."""
        return Text(f"{task.speed:.0f}/s" if task.speed else "")
