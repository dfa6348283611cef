"""Settings: the model with all defaults, their resolution in layers, and checks on names and values.

Each layer overrides the one before: default < table `memory_settings` < `config.toml` in the home < `.filrouge.toml` of
the project < environment `FILROUGE_<KEY>` < command-line flag. The environment is read only here. A repository may be
hostile, so its file may set only options for recall and capture, never a provider, a key or an address.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from filrouge.core.choices import (
    ALSO_CALLED,
    NOT_SETTINGS,
    PREFIX,
    REMEDY,
    closest_first,
    did_you_mean,
    invalid_choice,
    join_with_or,
)
from filrouge.core.errors import BadConfig
from filrouge.core.paths import CONFIG, find_project_file
from filrouge.extraction.models import Reminder

Origin = Literal["default", "stored", "user file", "project file", "environment"]

_PROJECT_KEYS = frozenset(
    {"auto_retrieve_enabled", "auto_retrieve_max_results", "auto_retrieve_min_score", "notes_enabled", "notes_paths"}
    | {"notes_tag", "budget", "language", "mode", "isolation", "auto_capture", "project_name"}
)
_RENAMED = {
    "obsidian_context_enabled": "notes_enabled",
    "obsidian_context_notes": "notes_paths",
    "obsidian_context_tag": "notes_tag",
}

_RESET_REMEDY: Final = "Set it again: `filrouge settings NAME VALUE`."
Provider = Literal["", "anthropic", "openai", "ollama", "claude_cli", "codex_cli", "heuristic", "off"]


class Settings(BaseModel):
    """Every setting with its default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    auto_retrieve_enabled: bool = Field(default=True, description="Add memories to prompts.")
    auto_retrieve_max_results: int = Field(default=4, ge=1, le=10, description="Maximum memories added to a prompt.")
    auto_retrieve_min_score: float = Field(
        default=0.5, ge=0.0, le=1.0, description="Minimum probability that a prompt has relevant memories."
    )
    hook_wait_ms: int = Field(
        default=1500,
        ge=50,
        le=8000,
        description="Milliseconds that a prompt waits for its memories while the daemon works on them.",
    )
    notes_enabled: bool = Field(default=True, description="Inject notes of the vault.")
    notes_folder: str = Field(
        default="",
        description="The vault: a folder of Markdown notes, or the address of Obsidian's plugin; empty = none.",
    )
    notes_paths: tuple[str, ...] = Field(default=(), description="Paths of notes that are always injected.")
    notes_tag: str = Field(default="filrouge", description="Up to 5 notes with this tag are injected.")
    notes_write_folder: str = Field(
        default="", description="Vault folder for pages of memories; empty = write no pages."
    )
    budget: int = Field(default=2000, ge=200, le=6000, description="Maximum characters of an injected block.")
    language: Literal["auto", "en", "fr", "es"] = Field(default="auto", description="Language of headings.")
    mode: Literal["light", "normal", "heavy", "max"] = Field(
        default="normal", description="How much work extraction may do."
    )
    isolation: bool = Field(default=False, description="Each agent sees only its own memories.")
    reminders: tuple[Reminder, ...] = Field(
        default=(), description="Reminders added to prompts of the matching kind; empty by default."
    )
    auto_capture: bool = Field(default=True, description="Capture what agents do.")
    disabled_projects: tuple[str, ...] = Field(default=(), description="Projects in which nothing is captured.")
    project_name: str = Field(default="", description="Overrides the detected project.")
    extract_provider: Provider = Field(
        default="", description="Extraction: a model provider, heuristic (the default), or off."
    )
    llm_model: str = Field(default="", description="Model for extraction; empty = the provider's default for the mode.")
    llm_url: str = Field(default="", description="Address of the model's server; empty = the provider's own.")
    llm_cascade: tuple[str, ...] = Field(
        default=(), description="Models to try if llm_model fails, in order, each PROVIDER or PROVIDER:MODEL."
    )
    llm_operations: tuple[str, ...] = Field(
        default=(), description="Other models for single operations: OPERATION=PROVIDER or OPERATION=PROVIDER:MODEL."
    )
    llm_decides: Literal["auto", "yes", "no"] = Field(
        default="auto", description="Whether a model decides updates; auto = only remote models."
    )
    llm_seconds: float = Field(default=30.0, gt=0, le=600, description="Time limit for a model's answer, in seconds.")
    ollama_seconds: float = Field(
        default=60.0, gt=0, le=600, description="Time limit for an answer of Ollama, in seconds."
    )
    llm_max_tokens: int = Field(default=1024, ge=128, le=32_000, description="Maximum tokens of a model's answer.")
    llm_daily_tokens: int = Field(default=200_000, ge=0, description="Maximum tokens of all models per day (UTC).")
    llm_daily_dollars: float = Field(default=0.0, ge=0, description="Maximum dollars per day (UTC); 0 = no limit.")
    claude_cli_path: str = Field(default="", description="Absolute path of the Claude command line.")
    codex_cli_path: str = Field(default="", description="Absolute path of the Codex command line.")
    analyzer_allow_offline: bool = Field(
        default=True, description="Use heuristics while the model is unavailable; false = wait for the model."
    )
    retention_tool_days: int = Field(
        default=90,
        ge=0,
        le=36_500,
        description="Days to keep raw tool output that no memory cites; 0 = forever.",
    )
    retention_noise_days: int = Field(
        default=30, ge=0, le=36_500, description="Days to keep messages filtered as noise; 0 = forever."
    )
    retention_log_days: int = Field(
        default=30, ge=0, le=36_500, description="Days to keep the recall log and invalid model answers; 0 = forever."
    )
    size_cap_mb: int = Field(
        default=5000, ge=0, description="Above this size of the home, the same data is deleted earlier; 0 = no limit."
    )
    embedding_model: str = Field(
        default="e5", description="Embedder: e5 (multilingual), hashing (words only), or PROVIDER:MODEL."
    )
    embedding_url: str = Field(default="", description="Address of the embedding server; empty = the provider's own.")
    embedding_dimensions: int = Field(default=0, ge=0, le=8192, description="Vector length; 0 = the model's default.")
    backup_hours: float = Field(
        default=24.0, ge=0, le=8760, description="Hours between backups; one is made if something changed; 0 = never."
    )
    backup_keep: int = Field(default=7, ge=1, le=1000, description="Number of newest scheduled backups to keep.")
    backup_keep_weeks: int = Field(default=4, ge=0, le=520, description="Number of older weeks to keep one backup of.")

    garden_idle_minutes: int = Field(
        default=30, ge=0, le=1440, description="Idle minutes before maintenance runs; 0 = never."
    )
    garden_rest_hours: int = Field(default=12, ge=1, le=720, description="Minimum hours between two idle runs.")
    garden_hour: int = Field(
        default=-1, ge=-1, le=23, description="Hour of the day at which maintenance runs; -1 = no fixed hour."
    )

    log_format: Literal["text", "json"] = Field(default="text", description="Log format, from the next start on.")

    host: str = Field(
        default="127.0.0.1", description="Address to listen on; any but a local one needs a token and TLS."
    )
    port: int = Field(
        default=8900, ge=0, le=65_535, description="TCP port to listen on, or the next free one; 0 or off = none."
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="Additional host names of this daemon, HOST or HOST:PORT, for example behind a proxy."
    )
    tls_cert: str = Field(default="", description="File with the TLS certificate, for an address that is not local.")
    tls_key: str = Field(default="", description="File with the private key of that certificate.")
    limit_body_mb: float = Field(default=10.0, gt=0, le=1024, description="Maximum MB of a request's body over TCP.")
    limit_requests: int = Field(default=100, ge=1, le=100_000, description="Maximum requests per second of one token.")
    limit_connections: int = Field(default=64, ge=1, le=10_000, description="Maximum TCP connections at once.")
    limit_seconds: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="Idle time-out of TCP connections, and time limit for receiving a request, in seconds.",
    )

    @field_validator("port", mode="before")
    @classmethod
    def _off(cls, value: Any) -> Any:
        return 0 if isinstance(value, str) and value.strip().lower() == "off" else value

    @field_validator("notes_write_folder")
    @classmethod
    def _within(cls, value: str) -> str:
        names = value.strip().strip("/").split("/") if value.strip() else []
        if any(not name or name.startswith(".") or name == "~" or set(name) & set("\\:\0") for name in names):
            raise ValueError("it must name a folder inside the vault, such as Filrouge or Notes/Memory")
        return "/".join(names)

    @field_validator("extract_provider", mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        return value.strip().lower().replace("-", "_") if isinstance(value, str) else value


_DEFAULTS: dict[str, Any] = Settings().model_dump(mode="json")


class Effective(Struct, frozen=True, kw_only=True):
    """The settings in effect.

    Attributes:
        origins: the layer that each value comes from, by the setting's name.
    """

    settings: Settings
    origins: Mapping[str, Origin]

    def to_json(self) -> dict[str, Any]:
        """Return every value in the form that the API returns."""
        return self.settings.model_dump(mode="json")


def resolve(stored: Mapping[str, Any], *, home: str, environ: Mapping[str, str], cwd: str | None = None) -> Effective:
    """Merge the layers.

    Args:
        stored: the rows of the table `memory_settings`.
        home: the home directory, for its `config.toml`.
        environ: the environment.
        cwd: where the search for a project file starts; None = ignore project files.

    Raises:
        BadConfig: a layer has an unknown key or an invalid value; the message names both.
    """
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = dict.fromkeys(Settings.model_fields, "default")
    user_file, (project_file, in_project) = os.path.join(home, CONFIG), _project_file(cwd)
    layers: list[tuple[Origin, Mapping[str, Any], str, str]] = [
        ("stored", {key: value for key, value in stored.items() if _was_changed(key, value)}, "stored", _RESET_REMEDY),
        ("user file", _toml(user_file), user_file, f"Correct it in {user_file}."),
        ("project file", in_project, project_file, f"Correct it in {project_file}."),
        ("environment", from_environment(environ), "environment", "Correct or unset that variable, FILROUGE_<KEY>."),
    ]
    for origin, layer, where, remedy in layers:
        validated = check(layer, where=where, remedy=remedy)
        values |= validated
        origins |= dict.fromkeys(validated, origin)
    return Effective(settings=Settings.model_validate(values), origins=origins)


def _was_changed(key: str, value: Any) -> bool:
    """Return True for a known setting that differs from its default; the table also holds seeded defaults."""
    return key in _DEFAULTS and value != _DEFAULTS[key]


def rename_old_settings(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with former names of notes settings replaced by the current ones."""
    return {_RENAMED.get(key, key): value for key, value in changes.items()}


def check(changes: Mapping[str, Any], *, where: str, remedy: str = REMEDY) -> dict[str, Any]:
    """Validate some settings and return them in their own types.

    Args:
        changes: values by setting name.
        where: the source of the values for the message: `request`, or a file path.
        remedy: the remedy of the error.

    Raises:
        BadConfig: a key is unknown, or its value is invalid. The message names the first such key and lists the valid
            names or values, closest first.
    """
    for key in changes:
        if key not in Settings.model_fields:
            hint, valid_names = (
                did_you_mean(key, Settings.model_fields),
                join_with_or(closest_first(key, Settings.model_fields)),
            )
            raise BadConfig(f"There is no setting {key!r} ({where}).{hint} There are: {valid_names}.", remedy=remedy)
    try:
        model = Settings.model_validate(dict(changes))
    except ValidationError as error:
        problem = error.errors()[0]
        key = str(problem["loc"][0]) if problem["loc"] else "?"
        if problem["type"] == "literal_error":
            message = invalid_choice(f"Setting {key!r} ({where})", problem["input"], choices_of(key))
            raise BadConfig(message, remedy=remedy) from error
        raise BadConfig(f"Setting {key!r} ({where}) does not fit: {problem['msg']}.", remedy=remedy) from error
    return {key: getattr(model, key) for key in changes}


def choices_of(key: str) -> tuple[str, ...]:
    """Return the allowed values of a setting whose type is a `Literal`."""
    return tuple(str(choice) for choice in get_args(Settings.model_fields[key].annotation))


def from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Read settings from the environment. List items are separated by commas."""
    found: dict[str, Any] = {}
    for name, value in environ.items():
        if not name.startswith(PREFIX):
            continue
        key = name.removeprefix(PREFIX)
        key = ALSO_CALLED.get(key, key)
        if key in NOT_SETTINGS or key.lower() not in Settings.model_fields or not value.strip():
            continue
        is_list = isinstance(Settings.model_fields[key.lower()].default, tuple)
        items = [item.strip() for item in value.split(",") if item.strip()]
        found[key.lower()] = items if is_list else value.strip()
    return found


def allowed_in_project_file(key: str) -> bool:
    """Return True if a repository's project file may set this key."""
    return key in _PROJECT_KEYS


def _project_file(cwd: str | None) -> tuple[str, dict[str, Any]]:
    """Return the path of the nearest `.filrouge.toml` and the settings in it that a project file may set."""
    path = find_project_file(os.path.abspath(cwd)) if cwd else ""
    content = _toml(path) if path else {}
    return path, {key: content[key] for key in content if key in _PROJECT_KEYS}


def _toml(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BadConfig(f"{path} cannot be read: {error}.", remedy=f"Fix or delete {path}.") from error
