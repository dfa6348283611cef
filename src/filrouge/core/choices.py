"""Words that are none of those that exist: the message names the valid ones, the closest first.

Every command says so, and most commands load no settings, so the names stand here a second time; a test holds them
against `core.settings.Settings`.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from filrouge.core.errors import BadInput
from filrouge.core.paths import nearest

#: The default remedy of such an error.
REMEDY: Final = "Use one of these."


def closest_first(given: str, known: Iterable[str]) -> list[str]:
    """Return all known words: those similar to the given one first, then the others in their order."""
    words = list(known)
    near = difflib.get_close_matches(given.lower(), words, n=3, cutoff=0.6)
    return near + [word for word in words if word not in near]


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'budget'?`, or an empty text if no known word is similar."""
    near = difflib.get_close_matches(given.lower(), list(known), n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else ""


def listed(words: Sequence[str]) -> str:
    """Return `a, b or c`; an empty word is shown as `''`."""
    shown = [word or "''" for word in words]
    return " or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def refusal(what: str, given: object, known: Iterable[str]) -> str:
    """Return a message such as `--in is turns, memories or all, not 'moon'.`"""
    return f"{what} is {listed(closest_first(str(given), known))}, not {given!r}."


def one_of(what: str, given: str, known: Iterable[str]) -> None:
    """Check that a word is one of the known ones.

    Raises:
        BadInput: it is not; the message lists them.
    """
    words = list(known)
    if given not in words:
        raise BadInput(refusal(what, given, words), remedy=REMEDY)


# Misspelt names: variables `FILROUGE_…` and keys of `.filrouge.toml` that nothing reads. Every command reports them.

#: The key of that file that is not a setting: the name of the project.
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
)

_VARIABLES: Final = {name.upper() for name in SETTINGS} | NOT_SETTINGS | ALSO_CALLED.keys()


#: Project files are untrusted input, so only this much is read.
_LARGEST_FILE: Final = 262_144
_LONGEST_KEY: Final = 60


def unknown_variables(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return each variable that nothing reads, with ` Did you mean …?` or an empty text."""
    names = sorted(name for name in environ if name.startswith(PREFIX))
    return [(name, _near(name)) for name in names if name.removeprefix(PREFIX).upper() not in _VARIABLES]


def unknown_keys(keys: Iterable[str]) -> list[tuple[str, str]]:
    """Return each project file key that nothing reads, with ` Did you mean …?` or an empty text."""
    known = sorted(SETTINGS | {PROJECT_KEY})
    return [(key[:_LONGEST_KEY], did_you_mean(key[:_LONGEST_KEY], known)) for key in keys if key not in known]


def sentences(environ: Mapping[str, str], directory: str) -> list[str]:
    """Return warnings, one line each: the first unknown variable, and the first unknown key of the project file."""
    found = list[str]()
    for name, near in unknown_variables(environ)[:1]:
        found.append(f"{name} is no setting and does nothing.{near}")
    path = nearest(directory)
    for key, near in unknown_keys(_keys(path))[:1]:
        found.append(f"There is no setting {key!r} ({path}).{near}")
    return found


def _keys(path: str) -> list[str]:
    if not path:
        return []
    try:
        with open(path, "rb") as file:
            return list(tomllib.loads(file.read(_LARGEST_FILE).decode("utf-8")))
    except (OSError, ValueError):  # a command that reads the file reports the error itself
        return []


def _near(name: str) -> str:
    near = difflib.get_close_matches(name.removeprefix(PREFIX).upper(), sorted(_VARIABLES), n=1)
    return f" Did you mean {PREFIX}{near[0]}?" if near else ""
