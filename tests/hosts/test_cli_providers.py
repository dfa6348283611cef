"""The agents' command lines as models that understand: no hook of anybody runs, and time ends everything they started.

Both run for real against the scripted model, for a user whose agents have Filrouge's hooks installed. The same agents
in an ordinary session do run them, which is what makes the silence here mean something.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pytest

from filrouge.core.errors import ModelUnavailable
from filrouge.providers.language_models import Cascade, ModelOptions, model
from filrouge.providers.models import Completion, CompletionRequest, Prompt

from .command_lines import Desk, Host
from .scripted_model import Call, Request, on

PROVIDERS: Final[dict[str, Host]] = {"claude_cli": "claude-code", "codex_cli": "codex"}
TEXT: Final = "The billing service listens on port 18231."
ANSWER: Final[dict[str, Any]] = {"facts": ["billing listens on 18231"], "language": None}
ASK: Final = CompletionRequest(
    operation="extract",
    prompt=Prompt(text="List what the user states, as JSON.", version="extract/en/0123456789ab"),
    text=TEXT,
    schema={
        "type": "object",
        "properties": {
            "facts": {"type": "array", "items": {"type": "string"}},
            "language": {"type": ["string", "null"]},
        },
        "required": ["facts", "language"],
        "additionalProperties": False,
    },
)


def command_line(desk: Desk, provider: str, seconds: float = 60.0) -> Cascade:
    """The provider as wiring would build it; the subscription is a token, since keys are not passed on."""
    environ = {**desk.env, "ANTHROPIC_AUTH_TOKEN": "not-a-real-token"}
    path = desk.programs[PROVIDERS[provider]]
    return model(ModelOptions(provider=provider, cli_path=path, seconds=seconds, environ=environ))


def teach(desk: Desk, provider: str) -> None:
    """Claude Code has a schema answered through a tool of its own, Codex as text."""
    said = json.dumps(ANSWER)
    by_tool = (Call("StructuredOutput", ANSWER), "Done.")
    desk.model.teach(on("billing", *(by_tool if provider == "claude_cli" else (said,))))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_it_answers_by_schema_and_no_hook_runs(desk: Desk, provider: str) -> None:
    teach(desk, provider)
    hooks, before = len(desk.hooks_run()), len(desk.model.requests)
    found: Completion = asyncio.run(command_line(desk, provider).complete(ASK))

    assert json.loads(found.text) == ANSWER
    assert desk.hooks_run()[hooks:] == []
    asked = desk.model.requests[before:]
    assert asked, "the answer came from the model"
    assert all(TEXT in request.text for request in asked)
    assert all(request.blocks == [] for request in asked), "nothing of Filrouge was put in front"
    usage = found.spent[provider, found.model]
    assert usage.input_tokens > 0
    assert not usage.estimated


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_same_agent_in_a_session_runs_its_hooks_and_has_a_shell(desk: Desk, provider: str) -> None:
    desk.model.teach(on("ordinary", "Indeed."))
    hooks = len(desk.hooks_run())
    (answer,) = desk.ask(PROVIDERS[provider], desk.project("ferry"), "An ordinary question.")
    assert "UserPromptSubmit" in desk.hooks_run()[hooks:]
    assert shells(answer.requests) != set()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_model_is_offered_no_shell(desk: Desk, provider: str) -> None:
    teach(desk, provider)
    before = len(desk.model.requests)
    asyncio.run(command_line(desk, provider).complete(ASK))
    assert shells(desk.model.requests[before:]) == set()


def shells(requests: Sequence[Request]) -> set[str]:
    """Ways to run a command that a model is offered: tools of its own, or within Codex's JavaScript."""
    offered = {name for request in requests for name in request.tools}
    inner = re.findall(r"declare const tools: \{ (\w+)", "\n".join(request.text for request in requests))
    return (offered | set(inner)) & {"Bash", "exec_command", "shell", "local_shell", "write_stdin"}


@contextmanager
def hanging(desk: Desk) -> Generator[None]:
    """The model gets the question and says nothing until the block ends."""
    over = threading.Event()

    def wait(request: Request) -> str:
        over.wait(60)
        return "too late"

    desk.model.teach(on("billing", wait))
    try:
        yield
    finally:
        over.set()


def running(desk: Desk) -> list[int]:
    """Every process of this user's desk."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if name.isdigit() and b"FILROUGE_INTERNAL=1" in file.read() and _of(desk, name):
                    found.append(int(name))
        except OSError:
            continue
    return found


def _of(desk: Desk, name: str) -> bool:
    with open(f"/proc/{name}/environ", "rb") as file:
        return f"HOME={desk.home}".encode() in file.read()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked up in /proc")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_model_that_hangs_ends_in_time_with_every_process(desk: Desk, provider: str) -> None:
    before = len(desk.model.requests)

    async def watched() -> list[int]:
        """Which processes there were meanwhile."""
        asking = asyncio.create_task(command_line(desk, provider, seconds=12).complete(ASK))
        while len(desk.model.requests) == before and not asking.done():
            await asyncio.sleep(0.05)
        meanwhile = running(desk)
        with pytest.raises(ModelUnavailable) as caught:
            await asking
        assert [one.kind for one in caught.value.failures] == ["timeout"]
        return meanwhile

    with hanging(desk):
        meanwhile = asyncio.run(watched())
        left = running(desk)
    assert meanwhile, "the command line was at work"
    assert left == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_health_check_asks_no_model(desk: Desk, provider: str) -> None:
    before = len(desk.model.requests)
    asyncio.run(command_line(desk, provider).check())
    assert len(desk.model.requests) == before
