"""`filrouge demo` and the help entry of `filrouge mcp`.

`demo` sends recorded agent sessions through the real hook executable, one process per event, on a temporary home. Then
it shows what was learned and replaced, opens new sessions, and prints the exact text that the agent's model would get.
Nothing is simulated, so a defect in Filrouge shows in the demo.

The executable serves `filrouge mcp` before this module is imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from statistics import median
from typing import Annotated, Any

import typer

from filrouge.cli import output
from filrouge.cli.client import ask, is_idle, poll
from filrouge.cli.mcp import main
from filrouge.core.choices import check_choice
from filrouge.core.errors import BadInput, FilrougeError
from filrouge.daemon.process import ensure_running, is_held

_EXTRACTION_SECONDS = 60.0


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(demo)
    app.command(name="mcp")(mcp)


def demo(
    sessions: Annotated[str, typer.Argument(help="A directory with demo.json and its sessions.")] = "",
    language: Annotated[str, typer.Option(help="en or fr: language of the titles.")] = "en",
) -> None:
    """Replay recorded sessions through the real hook and show what is learned and recalled."""
    check_choice("--language", language, ("en", "fr"))
    directory = sessions or _shipped_sessions()
    script = _read_session(os.path.join(directory, "demo.json"))
    with tempfile.TemporaryDirectory(prefix="filrouge-demo-") as home:
        os.environ["FILROUGE_HOME"] = home
        ensure_running(home)
        try:
            _play(directory, script, language)
        finally:
            _stop()


def _play(directory: str, script: dict[str, Any], language: str) -> None:
    timings: list[float] = []
    for session in script["sessions"]:
        output.heading(session["title"][language])
        payloads = _lines(os.path.join(directory, session["file"]))
        for payload in payloads:
            if payload.get("hook_event_name") == "UserPromptSubmit":
                output.say(f"  > {payload['prompt']}")
            timings.append(_hook(session["host"], payload)[1])
    began = time.monotonic()
    if not poll(is_idle, _EXTRACTION_SECONDS):
        raise FilrougeError("The captured sessions are not processed yet.", remedy="See filrouge.log.")
    waited = time.monotonic() - began
    _show_learned()
    opened: set[str] = set()
    prompt_timings = [_question(question, language, opened) for question in script["questions"]]
    _show_never_stored(script.get("never_stored", []))
    _show_figures(timings, prompt_timings, waited)


def _show_learned() -> None:
    output.heading("What was learned")
    rules, facts = ask("GET", "/api/memory/rules"), ask("GET", "/api/memory/facts", query={"history": True})
    for memory in [*rules, *facts]:
        _, kind, where, text = output.memory_row(memory)
        if memory["state"] == "live":
            output.say(f"  {kind:<11}{where:<9}{text}")
            if memory["previous_text"]:
                output.say(f"  {'':<11}{'':<9}↳ replaces: {memory['previous_text']}")


def _question(question: dict[str, Any], language: str, opened: set[str]) -> float:
    """Open a session and send a prompt. Returns the seconds that the prompt's hook took.

    The context of the session start is printed only for the first session of each project.
    """
    host, project = question["host"], os.path.basename(question["cwd"])
    output.heading(f"New session ({host}, {project}): {question['title'][language]}")
    session = f"demo-{os.urandom(8).hex()}"
    common = {"session_id": session, "transcript_path": None, "cwd": question["cwd"], "permission_mode": "default"}
    prompt_id = {"turn_id": session} if host == "codex" else {"prompt_id": session}
    codex = {"model": "demo"} if host == "codex" else {}
    start, _ = _hook(host, common | codex | {"hook_event_name": "SessionStart", "source": "startup"})
    if project not in opened:
        opened.add(project)
        output.say("At the session's start the agent is given:")
        output.say_lines(_context(start))
    payload = {"hook_event_name": "UserPromptSubmit", "prompt": question["prompt"]}
    answer, seconds = _hook(host, common | codex | prompt_id | payload)
    output.say(f"  > {question['prompt']}")
    context = _context(answer)
    output.say_lines(context or "  (nothing is added: nothing relevant is known)")
    for expected in question["look_for"]:
        if expected not in context and expected not in _context(start):
            output.say(f"  ✗ expected to see: {expected}")
    for unexpected in question["look_out_for"]:
        if unexpected in context:
            output.say(f"  ✗ should not be there: {unexpected}")
    return seconds


def _context(answer: str) -> str:
    return json.loads(answer)["hookSpecificOutput"]["additionalContext"] if answer else ""


def _show_never_stored(patterns: Iterable[str]) -> None:
    memories = [*ask("GET", "/api/memory/rules", query={"history": True})]
    memories += ask("GET", "/api/memory/facts", query={"history": True})
    found = [pattern for pattern in patterns if any(pattern in memory["text"] for memory in memories)]
    output.heading("What must never be stored")
    output.say(
        "  ✗ stored: " + ", ".join(found) if found else "  ✓ no secret and no planted instruction became a memory"
    )


def _show_figures(captures: list[float], prompts: list[float], waited: float) -> None:
    status = ask("GET", "/daemon/status")
    output.box(
        "Figures",
        {
            "Events captured": status["events"],
            "Memories": f"{status['memories']} current, {status['superseded']} superseded, {status['rules']} rules",
            "Hook process": f"{median(captures) * 1000:.0f} ms median, {max(captures) * 1000:.0f} ms at most",
            "Hook with recall": f"{median(prompts) * 1000:.0f} ms median, {max(prompts) * 1000:.0f} ms at most",
            "Understood": f"{waited:.1f} s after the last event",
            "Left behind": f"{status['queue']['dead']} dead jobs",
        },
    )


def _hook(host: str, payload: dict[str, Any]) -> tuple[str, float]:
    """Run the hook executable as an agent does. Returns its output and its run time in seconds."""
    began = time.perf_counter()
    done = subprocess.run(  # noqa: S603 (our own executable)
        [_executable(), "hook", "--host", host], input=json.dumps(payload).encode(), capture_output=True, check=True
    )
    return done.stdout.decode(), time.perf_counter() - began


def _executable() -> str:
    sibling = os.path.join(os.path.dirname(sys.executable), "filrouge")
    return sibling if os.path.exists(sibling) else sys.argv[0]


def _stop() -> None:
    try:
        ask("POST", "/daemon/stop", start=False)
    except FilrougeError:
        return
    poll(lambda: not is_held(os.environ["FILROUGE_HOME"]), 10.0)


def _shipped_sessions() -> str:
    """Return the directory of the demo sessions in the package or in the checkout.

    Raises:
        BadInput: neither has them.
    """
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for directory in (os.path.join(package, "examples"), os.path.join(package, "..", "..", "examples", "sessions")):
        if os.path.exists(os.path.join(directory, "demo.json")):
            return directory
    raise BadInput("No demo sessions were found.", remedy="Name a directory: `filrouge demo examples/sessions`.")


def _read_session(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not valid JSON"
        raise BadInput(
            f"{path} cannot be read: {why}.",
            remedy="Name a folder with demo.json and its sessions, or no folder for the built-in sessions.",
        ) from error


def _lines(path: str) -> list[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def mcp(
    verbose: Annotated[bool, typer.Option("--verbose", help="Say on stderr what goes wrong.")] = False,
) -> None:
    """Serve an agent's MCP client on stdin and stdout. Register it with `claude mcp add filrouge -- filrouge mcp`."""
    main(["--verbose"] if verbose else sys.argv[2:])
