"""The real Claude Code and Codex, run without a screen, as a developer's machine would run them.

A `Desk` is a throw-away user: a HOME of its own with both agents configured, hooks that run `filrouge hook`
on every event Filrouge listens to, git projects with their own origins, and nothing of the caller's
environment. Sessions of both agents look the same to a test:

    with desk.claude_code(project) as session:
        answer = session.say("Which port does the staging API listen on?")

`answer.text` is what the agent printed, `answer.requests` all that its model was shown meanwhile. Claude Code
stays one process for the whole session, as when a person types in it; Codex has no such mode without a screen
and is resumed for every prompt. The packages are pinned, because hooks change from version to version, and
installed once into a cache. The desks live below that cache too: Codex refuses helper files below /tmp.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Final, Literal, Protocol, cast

from filrouge.hosts.setup.entries import CLAUDE_CODE_TIMEOUTS, CODEX_TIMEOUTS

from .product import EXECUTABLE, Product
from .scripted_model import Request, ScriptedModel

Host = Literal["claude-code", "codex", "opencode", "openclaw", "gemini", "copilot-cli"]

PACKAGES: Final[dict[Host, tuple[str, str, str]]] = {
    "claude-code": ("@anthropic-ai/claude-code", "2.1.330", "claude"),
    "codex": ("@openai/codex", "0.169.0", "codex"),
    "opencode": ("opencode-ai", "1.18.33", "opencode"),
    "openclaw": ("openclaw", "2026.9.6", "openclaw"),
    "gemini": ("@google/gemini-cli", "0.61.0", "gemini"),
    "copilot-cli": ("@github/copilot", "1.0.102", "copilot"),
}
#: OpenClaw wants a newer node than most machines have; npm carries node's own binaries for Linux.
NODE: Final = "24.21.0"
#: The events Filrouge listens to, with the seconds a hook may take. Codex allows SessionEnd 3 s at most, and
#: Claude Code gives it 1.5 s unless a timeout is written.
HOOKS: Final[dict[Host, Mapping[str, int]]] = {"claude-code": CLAUDE_CODE_TIMEOUTS, "codex": CODEX_TIMEOUTS}
TURN_SECONDS: Final = 60.0

_CODEX_CONFIG: Final = """\
model = "gpt-6.1-sol"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_MODEL_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false

[analytics]
enabled = false

[features]
enable_request_compression = false
"""


# ---------------------------------------------------------------------------------------- installing


def cache_directory() -> str:
    """Where the agents and the desks live: `FILROUGE_HOST_CACHE`, else a directory of the user's cache."""
    given = os.environ.get("FILROUGE_HOST_CACHE", "").strip()
    return os.path.abspath(os.path.expanduser(given or "~/.cache/filrouge-hosts"))


def install(host: Host) -> str:
    """The agent's program, installed with npm on first use. A broken download leaves nothing behind."""
    package, version, program = PACKAGES[host]
    path = os.environ.get("PATH", os.defpath)
    if host == "openclaw":
        path = os.pathsep.join([newer_node(), path])
    return os.path.join(_installed(f"{host}-{version}", f"{package}@{version}", path), ".bin", program)


def newer_node() -> str:
    """The directory with a node that runs OpenClaw; the machine's own where npm carries none for it."""
    kind = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "")
    if sys.platform != "linux" or not kind:
        return os.path.dirname(shutil.which("node") or "")
    package = f"node-linux-{kind}"
    modules = _installed(f"node-{NODE}", f"{package}@{NODE}", os.environ.get("PATH", os.defpath))
    return os.path.join(modules, package, "bin")


def _installed(name: str, package: str, path: str) -> str:
    """The `node_modules` of a folder of the cache in which npm put a package, with the programs of that PATH."""
    target = os.path.join(cache_directory(), name)
    if not os.path.isdir(target):
        os.makedirs(cache_directory(), exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="install-", dir=cache_directory()) as fresh:
            prefix = os.path.join(fresh, "package")
            quiet = ("--no-fund", "--no-audit", "--loglevel=error")
            command = ["npm", "install", *quiet, "--prefix", prefix, package]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=600, check=False, env=os.environ | {"PATH": path}
            )
            if done.returncode:
                raise RuntimeError(f"npm could not install {package}:\n{done.stderr}")
            os.rename(prefix, target)
    return os.path.join(target, "node_modules")


# ---------------------------------------------------------------------------------------- a session


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The end of one turn."""

    text: str
    requests: list[Request]
    """What the model was shown from the prompt to this answer."""

    @property
    def first(self) -> Request:
        """The request that carried the prompt."""
        return self.requests[0]


class Session(Protocol):
    """One conversation with an agent; `id` is known after the first prompt."""

    id: str

    def say(self, prompt: str) -> Answer:
        """Type a prompt and wait for the end of the turn; raises AssertionError when the agent failed."""
        ...


class Desk:
    """A throw-away user with two agents, one Filrouge and any number of projects."""

    def __init__(self, root: str, model: ScriptedModel, programs: Mapping[Host, str]) -> None:
        self.root = root
        self.model = model
        self.programs = programs
        self.home = os.path.join(root, "home")
        self.hook_log = os.path.join(root, "hooks.log")
        self.env = self._environment()
        self.product = Product(home=self.env["FILROUGE_HOME"], env=self.env)
        self._write_settings()

    def project(self, name: str) -> str:
        """A git repository with an origin of its own, at the same path for the same name."""
        path = os.path.join(self.home, "code", name)
        if not os.path.isdir(path):
            os.makedirs(path)
            self.write(path, "README.md", f"# {name}\n")
            for arguments in (
                ("init", "-q", "-b", "main"),
                ("remote", "add", "origin", f"git@git.example.org:lea/{name}.git"),
                ("add", "-A"),
                ("-c", "user.name=Lea", "-c", "user.email=lea@example.org", "commit", "-q", "-m", "start"),
            ):
                subprocess.run(["git", *arguments], cwd=path, env=self.env, check=True, timeout=20)
        return path

    def write(self, project: str, name: str, text: str) -> None:
        """Put a file into a project."""
        with open(os.path.join(project, name), "w", encoding="utf-8") as file:
            file.write(text)

    def hooks_run(self) -> list[str]:
        """The event names of every hook process so far, in the order they started, whoever caused them."""
        if not os.path.exists(self.hook_log):
            return []
        with open(self.hook_log, encoding="utf-8") as file:
            return file.read().split()

    @contextmanager
    def open(self, host: Host, project: str, resume: str = "") -> Generator[Session]:
        """A session of one agent; the agent has ended, SessionEnd hook included, when the block is left."""
        if host == "claude-code":
            session = ClaudeCode(self, project, resume)
            try:
                yield session
            except BaseException:
                session.abandon()
                raise
            session.close()
        else:
            yield Codex(self, project, resume)

    def ask(self, host: Host, project: str, *prompts: str) -> list[Answer]:
        """A whole new session: these prompts, then the end."""
        with self.open(host, project) as session:
            return [session.say(prompt) for prompt in prompts]

    def _environment(self) -> dict[str, str]:
        """Nothing of the caller but PATH: no key, no proxy, no setting of a real agent or a real Filrouge."""
        node = shutil.which("node")
        path = os.environ.get("PATH", os.defpath)
        return {
            "PATH": os.pathsep.join([os.path.dirname(node), path]) if node else path,
            "HOME": self.home,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TZ": "UTC",
            "NO_PROXY": "127.0.0.1",
            "FILROUGE_HOME": os.path.join(self.root, "memory"),
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "not-a-real-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CODEX_HOME": os.path.join(self.home, ".codex"),
            "SCRIPTED_MODEL_KEY": "not-a-real-key",
        }

    def _write_settings(self) -> None:
        """Both agents run the same small wrapper, which notes that a hook started and becomes the hook."""
        wrapper = os.path.join(self.root, "hook.sh")
        note, product = shlex.quote(self.hook_log), shlex.quote(EXECUTABLE)
        os.makedirs(self.home)
        with open(wrapper, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\necho "$1" >>{note}\nshift\nexec {product} hook "$@"\n')
        os.chmod(wrapper, 0o755)
        places: dict[Host, tuple[str, str]] = {
            "claude-code": (".claude", "settings.json"),
            "codex": (".codex", "hooks.json"),
        }
        for host, (folder, name) in places.items():
            os.makedirs(os.path.join(self.home, folder))
            with open(os.path.join(self.home, folder, name), "w", encoding="utf-8") as file:
                json.dump({"hooks": _hooks(host, wrapper)}, file, indent=2)
        with open(os.path.join(self.home, ".codex", "config.toml"), "w", encoding="utf-8") as file:
            file.write(_CODEX_CONFIG.format(url=self.model.url))


def _hooks(host: Host, wrapper: str) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for event, seconds in HOOKS[host].items():
        command = shlex.join([wrapper, event, "--host", host])
        table[event] = [{"hooks": [{"type": "command", "command": command, "timeout": seconds}]}]
    return table


class ClaudeCode:
    """One Claude Code process that reads prompts as JSON lines, as an open session reads a keyboard."""

    def __init__(self, desk: Desk, project: str, resume: str = "") -> None:
        self.id = resume
        self._desk = desk
        self._errors = os.path.join(desk.root, "claude-code.stderr")
        command = [
            desk.programs["claude-code"],
            "-p",
            "--model",
            "sonnet",
            "--allowedTools",
            "Bash,mcp__filrouge",
            "--verbose",
        ]
        command += ["--input-format", "stream-json", "--output-format", "stream-json"]
        command += ["--resume", resume] if resume else []
        with open(self._errors, "w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=project,
                env=desk.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def say(self, prompt: str) -> Answer:
        before = len(self._desk.model.requests)
        line = {"type": "user", "message": {"role": "user", "content": prompt}}
        with self._watched():
            self._stdin.write(json.dumps(line) + "\n")
            self._stdin.flush()
            for printed in self._stdout:
                event = cast("dict[str, Any]", json.loads(printed))
                self.id = str(event.get("session_id") or self.id)
                if event.get("type") == "result":
                    assert not event.get("is_error"), f"Claude Code failed on {prompt!r}: {event}"
                    return Answer(text=str(event.get("result")), requests=self._desk.model.requests[before:])
        raise AssertionError(f"Claude Code ended without an answer to {prompt!r}: {self._complaint()}")

    def close(self) -> None:
        """End the session as a user does who leaves: SessionEnd hooks run, then the process exits with 0."""
        with self._watched():
            self._stdin.close()
            self._stdout.read()
            code = self._process.wait()
        self._stdout.close()
        assert code == 0, f"Claude Code exited with {code}: {self._complaint()}"

    def abandon(self) -> None:
        """End the process after a failure of the test."""
        self._kill()
        self._process.wait()
        self._stdin.close()
        self._stdout.close()

    @property
    def _stdin(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _stdout(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    @contextmanager
    def _watched(self) -> Generator[None]:
        """A turn that hangs ends with the process, so that reading from it ends too."""
        alarm = threading.Timer(TURN_SECONDS, self._kill)
        alarm.start()
        try:
            yield
        finally:
            alarm.cancel()

    def _kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def _complaint(self) -> str:
        with open(self._errors, encoding="utf-8") as errors:
            return errors.read()[-2000:]


class Codex:
    """A Codex conversation: `codex exec` for the first prompt, `codex exec resume` for the others."""

    def __init__(self, desk: Desk, project: str, resume: str = "") -> None:
        self.id = resume
        self._desk = desk
        self._project = project

    def say(self, prompt: str) -> Answer:
        before = len(self._desk.model.requests)
        printed = self._run(["resume"] if self.id else [], [self.id] if self.id else [], prompt)
        text = ""
        for line in printed.splitlines():
            event = cast("dict[str, Any]", json.loads(line))
            self.id = str(event.get("thread_id") or self.id)
            item = cast("dict[str, Any]", event.get("item") or {})
            if event.get("type") == "item.completed" and item.get("type") == "agent_message":
                text = str(item.get("text"))
        return Answer(text=text, requests=self._desk.model.requests[before:])

    def _run(self, verb: Sequence[str], session: Sequence[str], prompt: str) -> str:
        options = ["--json", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"]
        process = subprocess.Popen(
            [self._desk.programs["codex"], "exec", *verb, *options, "--", *session, prompt],
            cwd=self._project,
            env=self._desk.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            printed, complaint = process.communicate(timeout=TURN_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            printed, complaint = process.communicate()
        assert process.returncode == 0, f"Codex exited with {process.returncode} on {prompt!r}: {complaint[-2000:]}"
        return printed
