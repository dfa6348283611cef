"""`filrouge init` and `filrouge uninstall`: connect the agents of this machine, and disconnect them.

Both show which file changes how before they change anything. `uninstall` restores the agents' files to their earlier
content or, if a file was edited since, removes only Filrouge's entries. It keeps the memory unless `--purge` is given.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from typing import Annotated, Any, Final

import typer
from msgspec.structs import replace

from filrouge.cli import imports, output, setup_choices
from filrouge.cli.client import SHORT_SECONDS, poll
from filrouge.cli.output import megabytes
from filrouge.core import installation
from filrouge.core.errors import BadInput, Busy, CannotWrite, DaemonUnavailable, FilrougeError
from filrouge.core.paths import DATABASE, LOCK, home, inside, is_filrouge_directory, make_private, socket_path
from filrouge.daemon import client
from filrouge.daemon.process import home_lock, is_held
from filrouge.hosts.setup.entries import AGENTS, find_plugins
from filrouge.hosts.setup.files import NAME, this_machine
from filrouge.hosts.setup.plan import Plan, detected_agents, plan_connecting, plan_disconnecting, plan_unignoring
from filrouge.maintenance.backup_files import file_size

_STOP_SECONDS: Final = 15.0


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(uninstall)
    app.command()(init)


def uninstall(
    host: Annotated[list[str] | None, typer.Option(help="Only this agent; may be repeated.")] = None,
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove the memory too, with its backups, and the model that was built.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove Filrouge from the agents' settings and stop the daemon.

    A settings file that nobody edited since is restored byte for byte. The memory stays unless --purge is given.
    """
    disconnect_agents(output.checked_agents(host or []), purge=purge, yes=yes, dry_run=dry_run, json=json)


def disconnect_agents(names: list[str], *, yes: bool, dry_run: bool, json: bool, purge: bool = False) -> None:
    """Remove Filrouge from the settings of these agents. Without names: of all agents, and the daemon is stopped.

    Raises:
        BadInput: `purge` is given together with an agent, for a remote daemon, or for a folder that is a link or
            contains other files.
        Busy: the daemon does not stop; the memory is not removed.
    """
    directory, everything = home(), not names
    if purge:
        _check_purge(directory, everything=everything)
    plan = _plan(directory, names)
    running = everything and os.path.exists(inside(directory, LOCK)) and is_held(directory)
    to_remove = [path for path in (directory, _models_directory()) if os.path.isdir(path)] if purge else []
    if not json:
        output.show(plan)
        for line in (
            *_planned_actions(to_remove, running=running),
            *_what_stays(directory, everything=everything, purge=purge),
        ):
            output.say(line)
    has_changes = bool(plan.changes or running or to_remove)
    changed = has_changes and not dry_run and output.consent("Do this?", yes=yes, json=json)
    errors = dict[str, FilrougeError]()
    if changed:
        errors = output.apply(plan, directory)
        if running:
            _stop(directory)
        _purge(directory, to_remove)
    troubles = {**plan.problems, **errors}
    if json:
        extra = {"memory": directory, "stopped": changed and running, "purged": to_remove if changed else []}
        output.show_json(output.plan_json(plan, troubles, changed=changed, **extra))
    elif errors:
        output.show_errors(errors)
    elif not troubles:
        _say_done(has_changes=has_changes, changed=changed)
    if troubles:
        raise typer.Exit(1)


def _plan(directory: str, names: list[str]) -> Plan:
    """Return the plan of removals. The ignore files are included only if all agents are disconnected."""
    plan = plan_disconnecting(this_machine(os.environ), directory, names or list(AGENTS))
    top = setup_choices.repository(directory)
    if names or top is None:
        return plan
    return replace(plan, changes=(*plan.changes, *plan_unignoring(directory, setup_choices.ignored_as(directory, top))))


def _say_done(*, has_changes: bool, changed: bool) -> None:
    if not has_changes:
        output.say("The settings of these agents contain no Filrouge entries.")
    elif changed:
        output.say("Done.")


def _check_purge(directory: str, *, everything: bool) -> None:
    if not everything:
        raise BadInput("--purge removes the memory of all agents.", remedy="Leave --host out.")
    if client.is_remote(os.environ):
        raise BadInput("A memory is removed on the machine of its daemon.", remedy=f"Unset {client.URL} there.")
    if os.path.islink(directory) or (os.path.isdir(directory) and not is_filrouge_directory(directory)):
        raise BadInput(
            f"{directory} is a link or contains other files, so it is not removed.",
            remedy="Move what is yours elsewhere, or remove the folder by hand.",
        )


def _planned_actions(to_remove: list[str], *, running: bool) -> list[str]:
    stops = ["stops the daemon"] if running else []
    return stops + [f"removes {path} for good: {megabytes(_size_on_disk(path))}" for path in to_remove]


def _what_stays(directory: str, *, everything: bool, purge: bool) -> list[str]:
    """Return lines about what is not removed: its place, and the command that removes it."""
    lines = list[str]()
    if os.path.isdir(directory) and not purge:
        size = file_size(inside(directory, DATABASE))
        stays = f"The memory stays: {megabytes(size)} in {directory}." if size else f"Its home stays: {directory}."
        lines.append(f"{stays} To delete it with its backups: `filrouge uninstall --purge`.")
    models = _models_directory()
    if os.path.isdir(models) and not purge:
        lines.append(f"The model that was built stays: {megabytes(_size_on_disk(models))} in {models}.")
    if everything:
        installed = installation.this_installation()
        lines.append(f"The program is in {installed.prefix}; `{installed.uninstall_command()}` removes it.")
    return lines


def _stop(directory: str) -> None:
    with suppress(DaemonUnavailable):
        client.request(directory, "POST", "/daemon/stop", {}, SHORT_SECONDS)
    if not poll(lambda: not is_held(directory), _STOP_SECONDS):
        raise Busy("The daemon has not stopped yet; it is finishing its work.", remedy="Run the command again.")


def _purge(directory: str, to_remove: list[str]) -> None:
    """Remove folders while holding the home's lock, so that no daemon can start.

    Raises:
        Busy: a daemon was started meanwhile.
        CannotWrite: a file cannot be removed.
    """
    if not to_remove:
        return
    socket = socket_path(directory)
    with home_lock(directory):
        for path in to_remove:
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise CannotWrite(f"{error.filename or path} cannot be removed: {error.strerror}.") from error
        with suppress(FileNotFoundError):
            os.unlink(socket)
    with suppress(OSError):  # the cache folder above the models; only removed if empty
        os.rmdir(os.path.dirname(_models_directory()))


def _size_on_disk(path: str) -> int:
    if not os.path.isdir(path):
        return file_size(path)
    return sum(file_size(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)


def _models_directory() -> str:
    from filrouge.providers.e5 import models_directory  # here, because `init` does not need the embedder

    return models_directory()


_NEXT: Final = (
    ("filrouge doctor", "check that everything works"),
    ("filrouge status", "what is known, and what is waiting"),
    ("filrouge search WORDS", "find what was said"),
    ("filrouge forget WORDS", "forget for good, with a receipt"),
    ("filrouge uninstall", "undo all of this"),
)


def init(
    host: Annotated[list[str] | None, typer.Option(help="Only this agent, detected or not; may be repeated.")] = None,
    provider: Annotated[str | None, typer.Option(help="Model provider: heuristic (no model), ollama, ...")] = None,
    mode: Annotated[str | None, typer.Option(help="light, normal, heavy or max.")] = None,
    language: Annotated[str | None, typer.Option(help="Language of headings: auto, en, fr or es.")] = None,
    tools: Annotated[bool, typer.Option(help="Register the tools (MCP) too.")] = True,
    backfill: Annotated[bool, typer.Option("--backfill", help="Also import the agents' existing history.")] = False,
    allow_conversations: Annotated[
        bool, typer.Option("--allow-conversations", help="Let the plugin read what is said to OpenClaw.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    reset: Annotated[
        bool, typer.Option("--reset", help="Back up the memory and start an empty one; always asks.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take back what init wrote, as `uninstall` does.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Connect the agents of this machine: install hooks and MCP tools. Every change is shown first."""
    names = output.checked_agents(host or [])
    if reset:
        _check_reset(undo=undo, dry_run=dry_run, json=json)
    if undo:
        disconnect_agents(names, yes=yes, dry_run=dry_run, json=json)
        return
    machine, directory = this_machine(os.environ), home()
    is_named = bool(names)
    names = names or detected_agents(machine)
    if not names:
        raise BadInput(
            "No agent was found on this machine.",
            remedy=f"Name one with --host: {', '.join(AGENTS)}. Any other program can use `filrouge mcp`.",
        )
    interactive = not (yes or dry_run or json) and sys.stdin.isatty()
    settings = setup_choices.choose_settings(machine, names, provider, mode, language, interactive=interactive)
    settings |= setup_choices.found_programs(directory, machine, names, settings.get("extract_provider"))
    conversations = allow_conversations or (interactive and setup_choices.ask_conversations(names))
    # If the user names an agent, its hooks are written even if the agent has the plugin.
    plugged = {} if is_named else find_plugins(names, machine)
    plan = plan_connecting(machine, directory, names, tools=tools, conversations=conversations, plugins=plugged)
    plan = replace(plan, changes=(*plan.changes, *setup_choices.ignore_home_changes(directory)))
    mode_line = setup_choices.mode_warning(directory)
    memory = setup_choices.Memory.of(directory, reset=reset)
    if not json:
        output.say(f"Agents: {output.titles(names)}")
        output.show(plan)
        for line in (*filter(None, [mode_line]), *setup_choices.settings_lines(directory, settings), *memory.lines()):
            output.say(line)
    to_write = bool(plan.changes or settings or backfill or mode_line.startswith("changes"))
    if dry_run or not (to_write or memory.will_be_reset):
        _report_without_changes(plan, names, memory, json=json)
        return
    if not ((not to_write or output.consent("Write this?", yes=yes, json=json)) and memory.consent()):
        output.say("Nothing was changed.")
        return
    put_away = memory.put_away()  # first, so that nothing else is changed if it fails
    make_private(directory)
    setup_choices.ignore_itself(directory)
    setup_choices.write_settings(directory, settings)
    errors = output.apply(plan, directory)
    troubles = {**plan.problems, **errors}
    warnings = setup_choices.provider_warnings(settings)
    history = imports.backfill(
        names, interactive=interactive, agreed=backfill, quiet=json, from_start=memory.will_be_reset
    )
    if json:
        extra = {"agents": names, "warnings": warnings, "then": _follow_ups(names), "history": history}
        output.show_json(output.plan_json(plan, troubles, changed=True, memory=memory.to_json(), **extra))
    else:
        _print_next_steps(names, [*put_away, *warnings])
        output.show_errors(errors)
    if troubles:
        raise typer.Exit(1)


def _check_reset(*, undo: bool, dry_run: bool, json: bool) -> None:
    """Check that `--reset` is possible: a local daemon, and a terminal at which the user can confirm it.

    Raises:
        BadInput: it is not, or `--undo` is given too.
    """
    if undo:
        raise BadInput("--undo takes agents' settings back; it does not touch the memory.", remedy="Leave one out.")
    if client.is_remote(os.environ):
        raise BadInput("A memory is put away on the machine of its daemon.", remedy=f"Unset {client.URL} there.")
    if not dry_run and (json or not sys.stdin.isatty()):
        raise BadInput(
            "--reset asks at a terminal, and --yes does not answer it; nothing was changed.",
            remedy="Run it at a terminal. `filrouge forget` deletes a part; for a second memory, set FILROUGE_HOME.",
        )


def _report_without_changes(plan: output.Plan, names: list[str], memory: setup_choices.Memory, *, json: bool) -> None:
    if json:
        extra = {"agents": names, "warnings": [], "then": _follow_ups(names), "history": []}
        output.show_json(output.plan_json(plan, plan.problems, changed=False, memory=memory.to_json(), **extra))
    elif not plan.changes and not plan.problems:
        output.say("Nothing to do: all agents are connected.")
        _print_next_steps(names, [])
    if plan.problems:
        raise typer.Exit(1)


def _print_next_steps(names: list[str], lines: list[str]) -> None:
    for line in (*lines, *_follow_ups(names).values()):
        output.say(line)
    output.table(("Command", "What for"), _NEXT)
    program = this_machine(os.environ).executable
    if not shutil.which(NAME):
        output.say(f"`{NAME}` is not on your PATH: type {program} instead.")
    output.say("Open an agent and work as usual; what matters comes back in the next session.")


def _follow_ups(names: list[str]) -> dict[str, Any]:
    return {name: AGENTS[name].note for name in names if AGENTS[name].note}
