"""Checks of words that the user chose: an error message names the valid ones, the closest first.

The names of all settings are listed here as well as in `core.settings.Settings`: every command checks them, and most
commands do not load the settings. A test compares the two.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from filrouge.core.errors import BadInput
from filrouge.core.paths import find_project_file

#: The default remedy of such an error.
REMEDY: Final = "Use one of these."


def closest_first(word: str, valid_words: Iterable[str]) -> list[str]:
    """Return all valid words: those similar to `word` first, then the others in their order."""
    choices = list(valid_words)
    similar = difflib.get_close_matches(word.lower(), choices, n=3, cutoff=0.6)
    return similar + [choice for choice in choices if choice not in similar]


def did_you_mean(word: str, valid_words: Iterable[str]) -> str:
    """Return ` Did you mean 'budget'?`, or an empty text if no valid word is similar."""
    similar = difflib.get_close_matches(word.lower(), list(valid_words), n=1, cutoff=0.6)
    return f" Did you mean {similar[0]!r}?" if similar else ""


def join_with_or(words: Sequence[str]) -> str:
    """Return `a, b or c`; an empty word is shown as `''`."""
    quoted = [word or "''" for word in words]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else quoted[0]


def invalid_choice(subject: str, given: object, valid_words: Iterable[str]) -> str:
    """Return the message for a word that is not valid: `--in is turns, memories or all, not 'moon'.`"""
    return f"{subject} is {join_with_or(closest_first(str(given), valid_words))}, not {given!r}."


def check_choice(subject: str, given: str, valid_words: Iterable[str]) -> None:
    """Check that a word is one of the valid ones.

    Raises:
        BadInput: it is not; the message lists the valid ones.
    """
    choices = list(valid_words)
    if given not in choices:
        raise BadInput(invalid_choice(subject, given, choices), remedy=REMEDY)


# Misspelt names: variables `FILROUGE_…` and keys of `.filrouge.toml` that nothing reads. Every command reports them.

#: The only key of `.filrouge.toml` that is not a setting: the name of the project.
PROJECT_KEY: Final = "project"
PREFIX: Final = "FILROUGE_"

SETTINGS: Final = frozenset(
    """
    auto_retrieve_enabled auto_retrieve_max_results auto_retrieve_min_score hook_wait_ms notes_enabled
    notes_folder notes_paths notes_tag notes_write_folder budget language mode isolation reminders auto_capture
    disabled_projects project_name extract_provider llm_model llm_url llm_cascade llm_operations llm_decides
    llm_seconds ollama_seconds llm_max_tokens llm_daily_tokens llm_daily_dollars claude_cli_path codex_cli_path
    analyzer_allow_offline retention_tool_days retention_noise_days retention_log_days size_cap_mb embedding_model
    embedding_url embedding_dimensions backup_hours backup_keep backup_keep_weeks garden_idle_minutes
    garden_rest_hours garden_hour log_format host port allowed_hosts tls_cert tls_key limit_body_mb limit_requests
    limit_connections limit_seconds
    """.split()
)


#: Environment names for settings in addition to `FILROUGE_<KEY>`.
ALSO_CALLED: Final = {"EXTRACT_MODEL": "llm_model", "CASCADE": "llm_cascade", "MODEL_DECIDES": "llm_decides"}


#: Environment names with the prefix that are not settings: addresses, switches, guards, and names that tests use.
NOT_SETTINGS: Final = frozenset(
    {"HOME", "URL", "API_KEY", "DISABLED", "INTERNAL", "HOST_TESTS", "HOST_CACHE", "MODELS", "MODEL_MIRROR"}
    | {"BROWSER_TESTS", "EMBED_PROVIDER", "EXAMPLES", "TEST_RUN", "SEED", "SOCKET"}
    | {"HUB_DATABASE", "HUB_URL", "HUB_TOKEN", "HUB_PROCESS_SECRET", "HUB_EMBEDDER"}
    | {"POSTGRES_TESTS", "TEST_POSTGRES"}
)

_VARIABLES: Final = {name.upper() for name in SETTINGS} | NOT_SETTINGS | ALSO_CALLED.keys()


#: Project files are untrusted input, so only their beginning is read.
_MAX_FILE_BYTES: Final = 262_144
_MAX_KEY_CHARS: Final = 60


def unknown_variables(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return each variable that nothing reads, with ` Did you mean …?` or an empty text."""
    names = sorted(name for name in environ if name.startswith(PREFIX))
    return [(name, _similar_variable(name)) for name in names if name.removeprefix(PREFIX).upper() not in _VARIABLES]


def unknown_keys(keys: Iterable[str]) -> list[tuple[str, str]]:
    """Return each project file key that nothing reads, with ` Did you mean …?` or an empty text."""
    valid_keys = sorted(SETTINGS | {PROJECT_KEY})
    return [
        (key[:_MAX_KEY_CHARS], did_you_mean(key[:_MAX_KEY_CHARS], valid_keys)) for key in keys if key not in valid_keys
    ]


def name_warnings(environ: Mapping[str, str], directory: str) -> list[str]:
    """Return warnings, one line each: the first unknown variable, and the first unknown key of the project file."""
    warnings = list[str]()
    for name, hint in unknown_variables(environ)[:1]:
        warnings.append(f"{name} is not a setting and does nothing.{hint}")
    path = find_project_file(directory)
    for key, hint in unknown_keys(_keys(path))[:1]:
        warnings.append(f"There is no setting {key!r} ({path}).{hint}")
    return warnings


def _keys(path: str) -> list[str]:
    if not path:
        return []
    try:
        with open(path, "rb") as file:
            return list(tomllib.loads(file.read(_MAX_FILE_BYTES).decode("utf-8")))
    except (OSError, ValueError):  # a command that reads the file reports the error itself
        return []


def _similar_variable(name: str) -> str:
    similar = difflib.get_close_matches(name.removeprefix(PREFIX).upper(), sorted(_VARIABLES), n=1)
    return f" Did you mean {PREFIX}{similar[0]}?" if similar else ""
