"""What the doctor says of embedders, of the models that understand, and of their servers."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from filrouge.core.clock import SystemClock
from filrouge.core.installation import install_extra_command
from filrouge.providers import e5
from filrouge.providers.models import Usage
from filrouge.providers.usage_repository import LlmUsage
from filrouge.runtime.sqlite import Database
from tests.support.provider import Provider
from tests.unit.server.conftest import serving

from .patient import Patient, everything, saw, written


def without(*missing: str) -> Callable[[str], bool]:
    """A machine on which these modules are not installed."""
    return lambda name: name not in missing


@pytest.fixture
def hanging() -> Generator[str]:
    """The address of a server that takes every connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as wire:
        yield f"http://127.0.0.1:{wire.getsockname()[1]}"


@pytest.fixture
def nobody() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as wire:
        return f"http://127.0.0.1:{wire.getsockname()[1]}"


def damaged_model(patient: Patient) -> Path:
    folder = Path(e5.model_path(str(patient.beside / "models")))
    written(folder / "model.onnx", "half")
    return written(folder / "manifest.json", '{"sha256": {"model.onnx": "00"}}')


def test_an_embedder_that_does_not_exist_is_told_with_those_that_do(patient: Patient) -> None:
    patient.environ["FILROUGE_EMBEDDING_MODEL"] = "word3vec"
    saw(
        patient.finding("Embedder"),
        "fail",
        "the embedder 'word3vec' does not exist; available are: e5",
        "embedding_model e5",
    )


def test_an_embedder_without_its_package_is_told_with_what_brings_it(patient: Patient) -> None:
    patient.environ["FILROUGE_EMBEDDING_MODEL"] = "ollama:nomic-embed-text"
    saw(patient.finding("Embedder", has=without("httpx")), "fail", "not installed", install_extra_command("remote"))
    assert patient.finding("Embedder", has=everything).state == "ok"


def test_a_model_whose_files_are_not_what_they_were_is_told(patient: Patient) -> None:
    patient.environ["FILROUGE_EMBEDDING_MODEL"] = "e5-onnx"
    assert patient.finding("Embedding files").state == "ok"
    damaged_model(patient)
    saw(patient.finding("Embedding files"), "warn", "is damaged", "filrouge model build")


def test_a_model_that_was_never_fetched_is_told(patient: Patient) -> None:
    patient.environ["FILROUGE_EMBEDDING_MODEL"] = "e5-fetched"
    saw(patient.finding("Embedding files"), "fail", "is absent", "filrouge model fetch")


def test_a_place_for_models_that_cannot_be_written_is_told(patient: Patient) -> None:
    patient.environ["FILROUGE_MODELS"] = str(written(patient.beside / "file", "") / "models")
    saw(patient.finding("Place of models"), "warn", "is not writable", "FILROUGE_MODELS")


def test_an_embedder_without_its_key_is_told(patient: Patient) -> None:
    patient.environ["FILROUGE_EMBEDDING_MODEL"] = "voyage:voyage-4"
    saw(patient.finding("Embedding key"), "fail", "voyage needs VOYAGE_API_KEY", "Set VOYAGE_API_KEY")
    patient.environ["VOYAGE_API_KEY"] = "k"
    assert patient.finding("Embedding key").state == "ok"


def test_an_embedding_server_that_hangs_or_is_gone_is_told(patient: Patient, hanging: str, nobody: str) -> None:
    patient.environ["FILROUGE_EMBEDDING_MODEL"] = "ollama:nomic-embed-text"
    patient.environ["OLLAMA_URL"] = hanging
    saw(patient.finding("Embedding server"), "fail", "does not answer within 1.5 seconds", "embedding_url")
    patient.environ["FILROUGE_EMBEDDING_URL"] = nobody
    saw(patient.finding("Embedding server"), "fail", "cannot be reached (ConnectionRefusedError)", "embedding_url")


def test_vectors_of_another_embedder_than_the_settings_want_are_told(patient: Patient) -> None:
    assert patient.finding("Embedding space").state == "ok"
    patient.environ["FILROUGE_EMBEDDING_MODEL"] = "e5"
    found = patient.finding("Embedding space")
    saw(found, "warn", "the vectors are from hashing, but the settings request e5", "filrouge reindex")


def test_texts_without_their_vectors_are_counted(patient: Patient) -> None:
    assert patient.finding("Vector coverage").state == "ok"
    patient.sql("DELETE FROM vectors")
    saw(patient.finding("Vector coverage"), "warn", "0 of ", "filrouge reindex")


def test_a_change_of_the_model_that_failed_is_told(patient: Patient) -> None:
    patient.sql(
        "INSERT INTO jobs (id, kind, dedupe_key, payload, state, created_at, run_at)"
        " VALUES ('a', 'reindex', 'reindex', '{}', 'dead', '2026-01-01', '2026-01-01')"
    )
    saw(patient.finding("Reindex"), "warn", "failed", "filrouge reindex")
    patient.sql("DELETE FROM jobs")
    patient.sql(
        "INSERT INTO spaces (id, model, revision, dimension, pooling, prefix, embedder, state)"
        " VALUES ('x', 'x', '1', 4, 'mean', '', 'e5', 'building')"
    )
    saw(patient.finding("Reindex"), "warn", "to e5 was started but not finished", "filrouge reindex")


def test_a_deep_look_asks_the_embedder_for_a_vector(patient: Patient) -> None:
    assert patient.finding("Embedding model", deep=True).state == "ok"
    patient.environ["FILROUGE_EMBEDDING_MODEL"] = "e5-fetched"
    saw(patient.finding("Embedding model", deep=True), "fail", "is absent", "filrouge model fetch")


def test_understanding_that_is_switched_off_is_noted(patient: Patient) -> None:
    patient.environ["FILROUGE_EXTRACT_PROVIDER"] = "off"
    saw(patient.finding("Provider"), "note", "extract_provider is off", "extract_provider heuristic")


def test_a_provider_without_its_packages_is_told(patient: Patient) -> None:
    patient.environ["FILROUGE_EXTRACT_PROVIDER"] = "anthropic"
    found = patient.finding("Packages of the provider", has=without("pydantic_ai"))
    saw(found, "fail", "anthropic needs pydantic_ai", install_extra_command("llm"))
    assert patient.finding("Packages of the provider", has=everything).state == "ok"


def test_a_provider_without_its_key_is_told_those_of_the_cascade_too(patient: Patient) -> None:
    patient.environ["FILROUGE_EXTRACT_PROVIDER"] = "anthropic"
    saw(patient.finding("Key of the provider"), "fail", "anthropic needs ANTHROPIC_API_KEY", "Set ANTHROPIC_API_KEY")
    patient.environ.update({"ANTHROPIC_API_KEY": "k", "FILROUGE_CASCADE": "openai:small"})
    saw(patient.finding("Key of the provider"), "fail", "openai needs OPENAI_API_KEY", "Set OPENAI_API_KEY")


def test_a_provider_that_hangs_or_is_gone_is_told(patient: Patient, hanging: str, nobody: str) -> None:
    patient.environ.update({"FILROUGE_EXTRACT_PROVIDER": "ollama", "OLLAMA_URL": hanging})
    saw(patient.finding("Server of the provider"), "fail", "does not answer within 1.5 seconds", "llm_url")
    patient.environ["FILROUGE_LLM_URL"] = nobody
    saw(patient.finding("Server of the provider"), "fail", "cannot be reached", "llm_url")
    with Provider(models=["little"]) as server:
        patient.environ["FILROUGE_LLM_URL"] = server.url("openai")
        assert patient.finding("Server of the provider").state == "ok"


def test_a_server_behind_a_proxy_is_left_to_the_daemon(patient: Patient) -> None:
    patient.environ.update({"FILROUGE_EXTRACT_PROVIDER": "anthropic", "HTTPS_PROXY": "http://proxy.example:3128"})
    saw(patient.finding("Server of the provider"), "note", "a proxy is configured", "")


def test_an_address_with_a_password_is_refused_without_repeating_it(patient: Patient) -> None:
    patient.environ.update({"FILROUGE_EXTRACT_PROVIDER": "ollama", "FILROUGE_LLM_URL": "http://ana:hunter2@localhost"})
    found = patient.finding("Server of the provider")
    saw(found, "fail", "not a valid address", "llm_url")
    assert "hunter2" not in str(found)


def test_a_command_line_that_is_not_there_is_told(patient: Patient) -> None:
    patient.environ["FILROUGE_CLAUDE_CLI_PATH"] = "bin/claude"
    saw(patient.finding("Command lines of models"), "fail", "not an absolute path", "claude_cli_path")
    patient.environ["FILROUGE_CLAUDE_CLI_PATH"] = str(patient.beside / "nowhere")
    saw(patient.finding("Command lines of models"), "fail", "cannot be run", "claude_cli_path PATH")
    del patient.environ["FILROUGE_CLAUDE_CLI_PATH"]
    patient.environ["FILROUGE_EXTRACT_PROVIDER"] = "codex_cli"
    assert patient.finding("Command lines of models").state == "ok"
    os.unlink(patient.beside / "bin" / "codex")
    saw(patient.finding("Command lines of models"), "fail", "`codex` is not on the PATH", "codex_cli_path PATH")


@pytest.mark.parametrize(
    ("variable", "limit", "cause"),
    [
        ("FILROUGE_LLM_DAILY_TOKENS", "100", "today's 100 tokens are spent"),
        ("FILROUGE_LLM_DAILY_DOLLARS", "0.5", "today's 0.5 dollars are spent"),
    ],
)
def test_a_budget_that_is_spent_is_told(patient: Patient, variable: str, limit: str, cause: str) -> None:
    patient.environ[variable] = limit
    assert patient.finding("Budget").state == "ok"
    store = Database(str(patient.path("filrouge.db")))
    spent = {("openai", "little"): Usage(calls=1, input_tokens=90, output_tokens=20, dollars=0.7)}
    with store.transaction() as tx:
        LlmUsage(tx).add("extract", spent, SystemClock().now())
    store.close()
    saw(patient.finding("Budget"), "warn", cause, variable.removeprefix("FILROUGE_").lower())


def test_what_the_daemon_says_of_its_model_is_told(patient: Patient, nobody: str) -> None:
    patient.environ.update({"FILROUGE_EXTRACT_PROVIDER": "ollama", "FILROUGE_LLM_URL": nobody})
    patient.sql("""UPDATE memory_settings SET value = '"ollama"' WHERE key = 'extract_provider'""")
    patient.sql(f"""UPDATE memory_settings SET value = '"{nobody}"' WHERE key = 'llm_url'""")
    with serving(patient.home):
        found = patient.finding("Model")
    saw(found, found.state, "ollama", "docs/guides/models.md")
    assert found.needs_action
