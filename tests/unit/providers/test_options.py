"""Whoever chooses a model that cannot be made is told what is wrong with the choice, and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from filrouge.core.errors import BadConfig
from filrouge.core.installation import install_extra_command
from filrouge.providers.language_models import ModelOptions, cascade, model, providers
from tests.unit.providers.given import KEY, KEYS


def refused(**given: Any) -> BadConfig:
    with pytest.raises(BadConfig) as caught:
        model(ModelOptions(**given))
    return caught.value


def test_the_providers_are_those_of_the_settings() -> None:
    assert providers() == ["anthropic", "claude_cli", "codex_cli", "ollama", "openai"]


def test_an_unknown_provider_is_told_the_nearest_and_all() -> None:
    error = refused(provider="antropic")
    assert error.message == (
        "There is no provider 'antropic'. Did you mean 'anthropic'? "
        "There are: anthropic, claude_cli, codex_cli, ollama, openai."
    )


def test_a_providers_name_is_trimmed_and_in_any_case() -> None:
    assert model(ModelOptions(provider=" Ollama ")).provider == "ollama"
    assert "claude_cli_path" in refused(provider="Claude-CLI", cli_path="claude").message


@pytest.mark.parametrize(("provider", "variable"), [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")])
def test_a_missing_key_is_named_by_its_variable(provider: str, variable: str) -> None:
    error = refused(provider=provider, environ={variable: "  "})
    assert f"{variable} is not set" in error.message
    assert variable in error.remedy


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_key_that_can_be_none_is_not_sent_and_not_shown(provider: str) -> None:
    error = refused(provider=provider, environ=dict.fromkeys(KEYS, f"{KEY}\nX-Evil: 1"))
    assert "holds characters that no key has" in error.message
    assert KEY not in error.message + error.remedy


@pytest.mark.parametrize("provider", ["anthropic", "openai", "ollama"])
@pytest.mark.parametrize("url", ["localhost:11434", "ftp://here", "http://", "http://me:secret@here", "http://a b"])
def test_an_address_that_is_none_is_refused(provider: str, url: str) -> None:
    error = refused(provider=provider, url=url, environ=KEYS)
    assert "llm_url is not a valid address" in error.message
    assert "secret" not in error.message


def test_an_address_in_the_environment_is_named_by_its_variable() -> None:
    assert "OLLAMA_URL" in refused(provider="ollama", environ={"OLLAMA_URL": "here"}).message


def test_ollamas_address_loses_its_trailing_slash() -> None:
    made = model(ModelOptions(provider="ollama", environ={"OLLAMA_URL": "http://host.docker.internal:11434/"}))
    assert "at http://host.docker.internal:11434>" in repr(made)
    assert "at http://localhost:11434>" in repr(model(ModelOptions(provider="ollama")))


@pytest.mark.parametrize(
    ("provider", "program", "setting"),
    [("claude_cli", "claude", "claude_cli_path"), ("codex_cli", "codex", "codex_cli_path")],
)
def test_a_command_line_that_is_not_there_is_named_with_its_setting(
    provider: str, program: str, setting: str, tmp_path: os.PathLike[str]
) -> None:
    nowhere = refused(provider=provider, environ={"PATH": str(tmp_path)})
    assert f"`{program}` is not found on the PATH" in nowhere.message
    assert f"`{setting}`" in nowhere.remedy
    relative = refused(provider=provider, cli_path=f"bin/{program}")
    assert f"`{setting}` must be an absolute path" in relative.message
    directory = refused(provider=provider, cli_path=str(tmp_path))
    assert "is not found at" in directory.message


def test_a_model_at_home_has_twice_the_time() -> None:
    assert ModelOptions(provider="ollama").limit == 60.0
    assert ModelOptions(provider="openai").limit == 30.0
    assert ModelOptions(provider="ollama", seconds=5).limit == 5.0


def test_one_wrong_step_spoils_a_cascade() -> None:
    with pytest.raises(BadConfig, match="OPENAI_API_KEY"):
        cascade([ModelOptions(provider="ollama"), ModelOptions(provider="openai")])


NO_PACKAGE = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pydantic_ai", "anthropic", "openai", "httpx2"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from filrouge.core.errors import BadConfig
from filrouge.providers.language_models import ModelOptions
from filrouge.providers.language_models import model
for provider in ("anthropic", "openai", "ollama"):
    try:
        model(ModelOptions(provider=provider))
    except BadConfig as error:
        print(error.message, error.remedy)
"""


def printed(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_missing_package_is_named_by_the_extra_that_brings_it() -> None:
    command = install_extra_command("llm")
    assert printed(NO_PACKAGE).splitlines() == [
        f"The provider '{provider}' needs a package that is not installed. Install it: `{command}`."
        for provider in ("anthropic", "openai", "ollama")
    ]


def test_no_package_of_a_provider_is_loaded_before_it_is_chosen() -> None:
    script = (
        "import sys; from filrouge.providers.language_models import model, providers; providers();"
        "print(*sorted({'pydantic_ai', 'anthropic', 'openai', 'httpx2', 'genai_prices'} & set(sys.modules)));"
        "from filrouge.providers.language_models import ModelOptions; model(ModelOptions(provider='ollama'));"
        "print(*sorted({'pydantic_ai', 'anthropic', 'openai', 'httpx2', 'genai_prices'} & set(sys.modules)))"
    )
    assert printed(script).splitlines() == ["", "httpx2"]
