"""The settings and the home that `filrouge init` prepares, besides the agents' files.

It asks for the model provider, the mode and the language. Answers go to `config.toml` in the home, never to a shell's
startup files. API keys stay in the environment. This module also reports on an existing memory, keeps a home inside a
repository out of git, and checks the mode of the home.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from filrouge.cli import output
from filrouge.core.errors import FilrougeError
from filrouge.core.paths import CONFIG, DATABASE, inside, is_filrouge_directory, make_private
from filrouge.hosts.setup import files, plan
from filrouge.hosts.setup.entries import AGENTS
from filrouge.hosts.setup.files import Machine
from filrouge.hosts.setup.plan import Change

if TYPE_CHECKING:
    from filrouge.maintenance.restore import MemoryCounts


_IGNORE_FILES: Final = (".gitignore", ".claudeignore")
#: Agent, its program, the setting with the program's path, and the provider that runs the program.
_PROGRAMS: Final = (
    ("claude-code", "claude", "claude_cli_path", "claude_cli"),
    ("codex", "codex", "codex_cli_path", "codex_cli"),
)


def choose_settings(
    machine: Machine,
    names: Collection[str],
    provider: str | None,
    mode: str | None,
    language: str | None,
    *,
    interactive: bool,
) -> dict[str, Any]:
    """Return the settings given as options and, if `interactive`, those that the user enters.

    Args:
        names: the agents to connect.
        interactive: ask for every setting that is not given.

    Raises:
        BadConfig: a value is not valid.
    """
    if interactive and provider is None:
        provider = _offer_agent_model(machine, names) or _ask_provider()
    if interactive and language is None:
        language = output.prompt("Language of headings (auto, en, fr, es)", default="auto")
    if interactive and mode is None:
        mode = output.prompt("Extraction mode (light, normal, heavy, max)", default="normal")
    options = {"extract_provider": provider, "mode": mode, "language": language}
    # Imported here because the rest of the command does not need the settings library.
    from filrouge.core.settings import check

    return check({key: value for key, value in options.items() if value is not None}, where="init")


def _offer_agent_model(machine: Machine, names: Collection[str]) -> str | None:
    """Offer the model of the first connected agent that has a program. Returns its provider; None if declined."""
    for agent, program, _, provider in _PROGRAMS:
        if agent in names and machine.program(program):
            from filrouge.core.settings import Settings  # imported here as above

            title, daily = AGENTS[agent].title, Settings.model_fields["llm_daily_tokens"].default
            output.say(
                f"Recommended: {title} itself can extract memories, and finds more than rules do. It costs one"
                " or two questions to its small model after each reply, on your subscription, at most"
                f" {daily:,} tokens a day; prompts and replies, without secrets, go where {title} sends them anyway,"
                " and nowhere else."
            )
            return provider if output.confirm(f"Use {title}'s model to extract memories?", default=False) else None
    return None


def _ask_provider() -> str:
    output.say("Extraction needs no model; with one it finds more. Providers: heuristic, ollama, anthropic,")
    output.say("openai, claude_cli, codex_cli.")
    return output.prompt("Which model provider", default="heuristic")


def ask_conversations(names: Iterable[str]) -> bool:
    """Ask whether Filrouge's plugin may read all conversations of an agent that requires permission for it."""
    for agent in (AGENTS[name] for name in names if AGENTS[name].reads_all):
        output.say(f"{agent.title} requires your permission before a plugin can read its conversations.")
        return output.confirm(f"May Filrouge's plugin read what is said to {agent.title}?", default=False)
    return False


def settings_lines(directory: str, settings: Mapping[str, Any]) -> list[str]:
    """Return lines that describe the change to Filrouge's settings file."""
    lines = [f"changes {inside(directory, CONFIG)}"] if settings else []
    return lines + [f"    +{key} = {value}" for key, value in settings.items()]


def write_settings(directory: str, settings: Mapping[str, Any]) -> None:
    """Write settings to the home's settings file.

    Raises:
        BadInput: the existing file cannot be read.
        CannotWrite: the file cannot be written.
    """
    if not settings:
        return
    make_private(directory)
    path = inside(directory, CONFIG)
    text = files.decode_text(files.read_bytes(path), path)
    files.write_file(path, files.set_keys(text, settings).encode())


def provider_warnings(settings: Mapping[str, Any]) -> list[str]:
    """Check the chosen provider. Returns a warning if it does not answer; extraction then works without it."""
    provider = settings.get("extract_provider", "")
    if provider in ("", "heuristic", "off"):
        return []
    from filrouge.providers.language_models import ModelOptions, model

    try:
        asyncio.run(model(ModelOptions(provider=provider, environ=os.environ)).check())
    except FilrougeError as error:
        return [f"{provider} does not answer yet: {error.message} {error.remedy}".rstrip()]
    return []


class Memory(Struct, frozen=True, kw_only=True):
    """The existing memory of a home, and whether `init --reset` puts it away.

    Attributes:
        counts: what the home contains; None if it has no memory yet.
        reset: the user wants to put it away.
    """

    directory: str
    counts: MemoryCounts | None
    reset: bool

    @classmethod
    def of(cls, directory: str, *, reset: bool) -> Memory:
        """Return the memory of a home."""
        if not os.path.exists(inside(directory, DATABASE)):
            return cls(directory=directory, counts=None, reset=reset)
        from filrouge.maintenance.restore import memory_counts

        return cls(directory=directory, counts=memory_counts(directory), reset=reset)

    @property
    def will_be_reset(self) -> bool:
        """True if a memory exists and is to be put away."""
        return self.reset and self.counts is not None

    def lines(self) -> list[str]:
        """Return lines that say what happens to the memory."""
        if self.counts is None:
            return ["There is no memory yet to put away."] if self.reset else []
        from filrouge.cli import resetting

        if self.reset:
            return resetting.plan(self.counts, self.directory)
        return [f"The memory of this home is kept: {resetting.describe(self.counts, self.directory)}."]

    def consent(self) -> bool:
        """Ask for confirmation if the memory is to be put away. The user must type a word at a terminal."""
        if not self.will_be_reset:
            return True
        from filrouge.cli import resetting

        return resetting.is_typed()

    def put_away(self) -> list[str]:
        """Put the memory away if the user wants that. Returns a line with the backup that holds it.

        Raises:
            FilrougeError: it could not be put away; nothing was changed.
        """
        if not self.will_be_reset:
            return []
        from filrouge.cli import resetting

        name = resetting.put_away(self.directory)
        return [f"Started a new memory. The old one is kept: filrouge restore {name}"]

    def to_json(self) -> dict[str, Any] | None:
        """Return the memory as JSON data; None if there is none."""
        return None if self.counts is None else {**self.counts.to_json(), "home": self.directory, "reset": self.reset}


def ignore_home_changes(directory: str) -> list[Change]:
    """Return the changes that add a home inside a repository to its ignore files, so that no memory is committed."""
    top = repository(directory)
    if top is None:
        return []
    paths = (os.path.join(top, name) for name in _IGNORE_FILES)
    ignore_files = (path for path in paths if path.endswith(_IGNORE_FILES[0]) or os.path.exists(path))
    changes = (plan.plan_ignoring(directory, path, ignored_as(directory, top)) for path in ignore_files)
    return [change for change in changes if change is not None]


def ignore_itself(directory: str) -> None:
    """Write an ignore file into a home inside a repository. It works even if the repository's own files lack the home.

    Raises:
        CannotWrite: the file cannot be written.
    """
    if repository(directory) is not None:
        make_private(directory)
        files.write_file(inside(directory, _IGNORE_FILES[0]), b"*\n")


def ignored_as(directory: str, top: str) -> str:
    """Return the home's line for an ignore file in the top directory of a repository."""
    return f"/{os.path.relpath(os.path.realpath(directory), top)}/".replace(os.sep, "/")


def mode_warning(directory: str) -> str:
    """Return a line about a home that other users can read; empty if the home is private or missing."""
    mode = stat.S_IMODE(os.stat(directory).st_mode) if os.path.isdir(directory) else 0
    if not mode & 0o077:
        return ""
    if os.stat(directory).st_uid == os.getuid() and is_filrouge_directory(directory):
        return f"changes the mode of {directory} from {mode:03o} to 700: other users can look into it"
    problem = f"{directory} contains more than Filrouge's files, and other users can look into it (mode {mode:03o})"
    return f"left alone: {problem}"


def found_programs(directory: str, machine: Machine, names: Iterable[str], provider: str | None) -> dict[str, Any]:
    """Return the settings with the paths of model programs found on this PATH. The daemon's PATH may differ.

    A setting that already names an executable is not changed.
    """
    found = dict[str, Any]()
    for agent, program, setting, model in _PROGRAMS:
        path = machine.program(program) if agent in names or provider == model else None
        if path and not _is_set(directory, setting):
            found[setting] = os.path.abspath(path)
    return found


def _is_set(directory: str, setting: str) -> bool:
    """Return True if a setting names an executable program, or if the settings cannot be read."""
    from filrouge.cli.doctor.scene import NotKnown, scene_of

    try:
        path = str(getattr(scene_of(directory).settings(), setting))
    except NotKnown:
        return True
    return os.path.isabs(path) and os.access(path, os.X_OK)


def repository(directory: str) -> str | None:
    """Return the top directory of the repository that contains the home; None if there is none."""
    folder = os.path.dirname(os.path.realpath(directory))
    while folder != os.path.dirname(folder):
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        folder = os.path.dirname(folder)
    return None
