"""Filrouge installed from its wheel, as pip, uv and pipx do it: `init`, then the tools, as agents start them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import filrouge
from tests.support import images
from tests.support.waiting import eventually
from tests.support.wheels import environment, wheel

SOURCE = Path(filrouge.__file__).parent
TOOLS = {f"memory_{verb}" for verb in ("search", "get", "add", "update", "forget", "context", "team")}
FACT = "The staging API of the harbour listens on port 17300."
FOLDERS = (".claude", ".codex", ".gemini", ".cursor", ".config/Code/User", ".config/opencode", ".openclaw")
#: Where each agent's settings name the tools, and the key that leads to them.
SERVERS = {
    "Claude Code": (".claude.json", "mcpServers"),
    "Codex": (".codex/config.toml", "mcp_servers"),
    "Gemini CLI": (".gemini/settings.json", "mcpServers"),
    "Cursor": (".cursor/mcp.json", "mcpServers"),
    "VS Code": (".config/Code/User/mcp.json", "servers"),
    "OpenCode": (".config/opencode/opencode.json", "mcp"),
    "OpenClaw": (".openclaw/openclaw.json", "mcp.servers"),
}


@dataclass(frozen=True, kw_only=True)
class User:
    """Somebody with every agent, and Filrouge as their only program of it."""

    home: Path
    program: Path
    path: str = "/usr/bin:/bin"

    @property
    def environ(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": self.path, "LANG": "C.UTF-8"}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.program), *words], env=self.environ, cwd=self.home, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def server(self, agent: str) -> list[str]:
        """The command of the tools, word by word, as the settings of an agent have it."""
        name, keys = SERVERS[agent]
        text = (self.home / name).read_text()
        found: Any = tomllib.loads(text) if name.endswith(".toml") else json.loads(text)
        for key in (*keys.split("."), "filrouge"):
            found = found[key]
        return [found["command"], *found["args"]] if "args" in found else list(found["command"])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(tmp_path_factory.mktemp("dist"))


def _user(home: Path, program: Path, path: str = "/usr/bin:/bin") -> User:
    for name in FOLDERS:
        (home / name).mkdir(parents=True)
    return User(home=home, program=program, path=path)


@pytest.fixture(scope="module")
def user(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[User]:
    """A user who installed the wheel into an environment with what it declares, and ran `init`."""
    folder = tmp_path_factory.mktemp("installed")
    found = _user(folder / "user", environment(folder / "environment", built) / "filrouge")
    # Words are enough here; building the model takes seconds and is tested elsewhere.
    own = found.home / ".local/share/filrouge"
    own.mkdir(parents=True)
    (own / "config.toml").write_text('embedding_model = "hashing"\n')
    done = found.run("init", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    yield found
    found.run("daemon", "stop")


def test_the_wheel_holds_every_file_of_the_package(built: Path) -> None:
    with zipfile.ZipFile(built) as archive:
        there = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = {path.relative_to(SOURCE.parent).as_posix() for path in SOURCE.rglob("*") if path.is_file()}
    assert there == {name for name in source if "/__pycache__/" not in name}


@pytest.mark.slow
def test_the_program_of_the_wheel_runs(user: User) -> None:
    done = user.run("--version")
    assert (done.returncode, filrouge.__version__ in done.stdout) == (0, True)


@pytest.mark.slow
def test_the_extra_of_the_hub_brings_what_the_hub_needs(built: Path, tmp_path: Path, user: User) -> None:
    nowhere = ("hub", "init", "--database", "postgresql://nobody@127.0.0.1:1/none")
    assert "needs the extra `hub`" in user.run(*nowhere).stderr
    with_extra = User(home=user.home, program=environment(tmp_path / "hub", built, "hub") / "filrouge")
    assert with_extra.run("hub", "--help").returncode == 0
    assert "PostgreSQL does not answer" in with_extra.run(*nowhere).stderr


@pytest.mark.slow
@pytest.mark.parametrize("agent", SERVERS)
def test_every_agent_is_given_a_server_that_is_there(user: User, agent: str) -> None:
    assert user.server(agent) == [str(user.program), "mcp"]


@pytest.mark.slow
def test_a_client_of_mcp_gets_the_tools_that_init_registered(user: User) -> None:
    anyio.run(_use, user.server("Claude Code"), user.environ)


async def _use(command: list[str], environ: dict[str, str]) -> None:
    """The official client, on the command as it stands in the settings."""
    server = StdioServerParameters(command=command[0], args=command[1:], env=environ)
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as client:
        await client.initialize()
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        added = await client.call_tool("memory_add", {"text": FACT})
        assert not added.is_error, added
        found = await client.call_tool("memory_search", {"query": "port of the staging API"})
        assert not found.is_error, found
        assert "17300" in str(found.content), found


@pytest.mark.slow
def test_the_doctor_has_nothing_to_say_about_what_init_wrote(user: User) -> None:
    found = {one["check"]: one for one in json.loads(user.run("doctor", "--json").stdout)}
    for name in ("MCP", "What init wrote", "Claude Code: programs", "Codex: programs", "Agents: programs"):
        assert found[name]["state"] == "ok", found[name]


# ------------------------------------------------------------------------------- with the installers themselves


def _by_pip(folder: Path, built: Path) -> User:
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=120)
    programs = folder / "venv/bin"
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", built], check=True, timeout=600)
    return _user(folder / "user", programs / "filrouge")


def _by_uv(folder: Path, built: Path) -> User:
    environ = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    path = _installed(folder, "uv", ["tool", "install", "--python", sys.executable, str(built)], environ)
    return _user(folder / "user", folder / "bin/filrouge", path)


def _by_pipx(folder: Path, built: Path) -> User:
    environ = {"PIPX_HOME": str(folder / "pipx"), "PIPX_BIN_DIR": str(folder / "bin")}
    path = _installed(folder, "pipx", ["install", "--python", sys.executable, str(built)], environ)
    return _user(folder / "user", folder / "bin/filrouge", path)


def _installed(folder: Path, installer: str, words: list[str], environ: dict[str, str]) -> str:
    """Install with an installer from the registry; the PATH of a user who has it."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "installer")], check=True, timeout=120)
    programs = folder / "installer/bin"
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", installer], check=True, timeout=300)
    subprocess.run([programs / installer, *words], env={**os.environ, **environ}, check=True, timeout=600)
    return f"{programs}:{os.environ['PATH']}"


@pytest.mark.proof
@pytest.mark.parametrize("install", [_by_pip, _by_uv, _by_pipx])
def test_an_installer_of_the_user_brings_tools_that_work(
    built: Path, tmp_path: Path, install: Callable[[Path, Path], User]
) -> None:
    user = install(tmp_path, built)
    try:
        assert user.run("init", "--yes").returncode == 0
        anyio.run(_use, user.server("Claude Code"), user.environ)
        told = user.run("model", "fetch", "--yes")
        assert "httpx" in told.stderr, told
        command = told.stderr.partition("`")[2].partition("`")[0]
        places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
        subprocess.run(shlex.split(command), env={**os.environ, "PATH": user.path, **places}, check=True, timeout=300)
        assert "Nothing can be fetched" not in user.run("model", "fetch").stderr
    finally:
        user.run("daemon", "stop")


# ---------------------------------------------------------------------------- by the commands of the container images


@pytest.mark.proof
@pytest.mark.parametrize(("extract", "models"), [("false", False), ("true", True)])
def test_the_commands_of_the_daemons_image_install_a_daemon_that_its_health_check_finds(
    tmp_path: Path, extract: str, models: bool
) -> None:
    programs = images.install("Dockerfile", tmp_path / "image", ENABLE_EXTRACT=extract)
    image = {one.name: one.value for one in images.stages("Dockerfile")[-1]}
    environ = {"PATH": f"{programs}:/usr/bin:/bin", "FILROUGE_HOME": str(tmp_path / "home"), "FILROUGE_PORT": "off"}
    environ["FILROUGE_MODELS"] = str(tmp_path / "models")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=120, check=False)

    assert filrouge.__version__ in run("filrouge", "--version").stdout
    assert (run("python", "-c", "import anthropic, openai, pydantic_ai").returncode == 0) is models
    check = images.command(image["HEALTHCHECK"])
    assert run(*check).returncode != 0
    daemon = subprocess.Popen(images.command(image["CMD"]), env=environ)
    try:
        eventually("the health check finds the daemon", lambda: run(*check).returncode == 0)
        assert run("filrouge", "remember", FACT).returncode == 0
        assert "17300" in run("filrouge", "search", "port of the staging API").stdout
        daemon.terminate()  # as `docker stop` does
        assert daemon.wait(30) == 0
    finally:
        daemon.kill()


@pytest.mark.proof
def test_the_commands_of_the_hubs_image_install_a_hub(tmp_path: Path) -> None:
    programs = images.install("hub.Dockerfile", tmp_path / "image")
    [entry] = [one.value for one in images.stages("hub.Dockerfile")[-1] if one.name == "ENTRYPOINT"]
    program, group = images.command(entry)
    done = subprocess.run([programs / program, group, "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert "backup-check" in done.stdout
    subprocess.run(
        [programs / "python", "-c", "import filrouge.hub.schema, filrouge.server.hub"], timeout=60, check=True
    )
    # Its file system is read-only, so the embedding model must be there, for a user who is not its owner.
    models = programs.parent / "models"
    asked = "from filrouge.providers.e5 import is_intact, model_path as path; raise SystemExit(not is_intact(path()))"
    environ = {**os.environ, "FILROUGE_MODELS": str(models)}
    subprocess.run([programs / "python", "-c", asked], timeout=60, check=True, env=environ)
    assert all(path.stat().st_mode & 0o005 for path in models.rglob("*"))
