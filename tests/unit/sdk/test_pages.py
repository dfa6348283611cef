"""Every example of the pages about the SDK runs, prints what the page says, and no verb is without one."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import filrouge
from filrouge.testing import understood

from .test_twins import verbs

ROOT = Path(__file__).parents[3]
SDK = ROOT / "docs" / "reference" / "sdk.md"
TESTING = ROOT / "docs" / "reference" / "testing.md"
QUICKSTART = ROOT / "examples" / "sdk_quickstart.py"
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


class Example(NamedTuple):
    code: str
    printed: str | None


def examples(page: Path) -> list[Example]:
    return [Example(code, printed or None) for code, printed in EXAMPLE.findall(page.read_text(encoding="utf-8"))]


def test_every_verb_has_an_example() -> None:
    shown = "".join(example.code for example in examples(SDK))
    assert [name for name in verbs(filrouge.Memory) if f"memory.{name}(" not in shown] == []


def test_every_parameter_of_a_verb_is_on_the_page() -> None:
    text = SDK.read_text(encoding="utf-8").replace("\n", " ")
    missing = [
        (name, parameter)
        for name in verbs(filrouge.Memory)
        for parameter in inspect.signature(getattr(filrouge.Memory, name)).parameters
        if parameter not in ("self", "timeout") and not re.search(rf"\*\*`{name}\([^`]*\b{parameter}\b", text)
    ]
    assert missing == []


def test_the_examples_of_the_sdk_print_what_the_page_says(tmp_path: Path) -> None:
    """Those before the verbs run in processes of their own, at a daemon; the verbs on one embedded memory."""
    whole = examples(SDK)
    first = next(place for place, example in enumerate(whole) if example.code.startswith("[told]"))
    environ = {**os.environ, "FILROUGE_EMBEDDING_MODEL": "hashing", "FILROUGE_HOME": str(tmp_path / "daemon")}
    environ.pop("FILROUGE_URL", None)
    opening = Path(tmp_path / "opening.py")
    opening.write_text(f"import asyncio, filrouge\n{_joined(whole[:first])}", encoding="utf-8")
    try:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(opening)], env=environ, capture_output=True, text=True, timeout=120
        )
    finally:
        subprocess.run(
            [sys.executable, "-m", "filrouge.cli.main", "daemon", "stop"], env=environ, capture_output=True, timeout=60
        )
    assert done.stderr == ""
    assert done.stdout == "".join(example.printed or "" for example in whole[:first])

    async def verb_by_verb() -> None:
        environ = {"FILROUGE_EMBEDDING_MODEL": "hashing"}
        async with filrouge.Memory.embedded(str(tmp_path / "embedded"), environ=environ) as memory:
            names: dict[str, Any] = {"memory": memory, "filrouge": filrouge}
            for example in whole[first:]:
                printed = await _ran(example.code, names)
                assert example.printed in (None, printed), example.code
                await understood(memory)

    asyncio.run(verb_by_verb())


def test_the_examples_about_testing_run(tmp_path: Path) -> None:
    page = tmp_path / "page.py"
    page.write_text("\n".join(example.code for example in examples(TESTING)), encoding="utf-8")
    done = subprocess.run([sys.executable, "-W", "error", str(page)], capture_output=True, text=True, timeout=120)
    assert (done.stderr, done.returncode) == ("", 0)


def test_every_fake_is_on_the_page_about_testing() -> None:
    from filrouge import testing

    page = TESTING.read_text(encoding="utf-8")
    assert [name for name in testing.__all__ if f"`{name}(" not in page] == []


def test_the_quickstart_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(QUICKSTART)],
        env={**os.environ, "FILROUGE_EMBEDDING_MODEL": "hashing", "FILROUGE_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "turn: For the record: production listens on port 9443.",
        "fact: production listens on port 9443.",
        "['production listens on port 9443. (superseded)', 'Production listens on port 9444. (live)']",
        "['Production listens on port 9444.']",
        "True []",
    ]
    assert list(tmp_path.iterdir()) == []


def _joined(first: list[Example]) -> str:
    """The examples as one program; one that awaits outside a function gets an event loop."""
    parts: list[str] = []
    for example in first:
        if re.search(r"^async with", example.code, re.MULTILINE):
            body = "".join(f"    {line}" if line.strip() else line for line in example.code.splitlines(keepends=True))
            parts.append(f"async def _example():\n{body}\nasyncio.run(_example())\n")
        else:
            parts.append(example.code)
    return "\n".join(parts)


async def _ran(code: str, names: dict[str, Any]) -> str:
    """What an example prints that may await."""
    printed = io.StringIO()
    compiled = compile(code, "<example>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with contextlib.redirect_stdout(printed):
        running = eval(compiled, names)  # our own page, run as a reader would
        if inspect.isawaitable(running):
            await running
    return printed.getvalue()
