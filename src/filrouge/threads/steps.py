# ruff: noqa: E501 (a pattern is read best on one line)
"""Steps: what an agent did with its tools, as far as it matters for where the work stands.

A tool's output is nobody's word, and whoever wrote a file can plant text in it. So of a step only three things are
taken: the paths that the agent itself wrote to, the command that it ran, and the closed set of signs by which a failure
is known (an exit code, the class of an error, a count of failed tests). No other word of an output goes any further.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from filrouge import lazy_re as re
from filrouge.model.synthesis import Point
from filrouge.model.turn import Turn, source_of_tool

_LONGEST_COMMAND: Final = 160
_LONGEST_PATH: Final = 240
_READ_OF_OUTPUT: Final = 20_000
_PATHS: Final = ("file_path", "notebook_path", "filePath", "path")
_COMMANDS: Final = ("command", "cmd", "script")
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
_REDIRECTED: Final = re.compile(
    r"(?<![0-9&>])>{1,2}\s*([\w./~-][\w./~-]*)|\btee (?:-a )?([\w./~-]+)|\bsed -i\S*(?: -\S+)* (?:'[^']*'|\"[^\"]*\"|\S+) ([\w./~-]+)"
)
#: Looking around: that there is nothing is an answer, not a failure of the work.
_LOOKING: Final = frozenset(
    "cat ls head tail grep rg find fd which stat wc test file sed awk less more tree pwd echo diff cd".split()
)
_EXIT: Final = re.compile(r"\b(?:exit(?:ed)?(?: with)?(?: status)?(?: code)?|exit_code\"?)[: ]+(\d+)", re.IGNORECASE)
_CLASS: Final = re.compile(r"^(?:[\w.]+\.)?([A-Z]\w{2,40}(?:Error|Exception))\b(?=:|$)", re.MULTILINE)
_FAILED: Final = re.compile(r"\b(\d{1,5}) (?:failed|failing|failures?|errors?)\b", re.IGNORECASE)
_SIGNS: Final = re.compile(
    r"^Traceback \(most recent call last\)|^(?:error|fatal|panic)(?:\[\w+\])?: |^FAILED\b|^npm ERR!|: command not found$|^make(?:\[\d+\])?: \*\*\*|\bBUILD FAILED\b|^E\s{2,}\w",
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One use of a tool.

    Attributes:
        turn_id: of the turn that holds it.
        wrote: the paths it wrote to.
        command: what was run, on one line; empty for other tools.
        failure: the signs of a failure (`exit code 1, ImportError`), `failed` where there are none; empty = it went well.
    """

    turn_id: str
    wrote: tuple[str, ...] = ()
    command: str = ""
    failure: str = ""

    @property
    def what(self) -> str:
        """What was run, without what differs from one try to the next: its first words that are no option or path."""
        words = [word for word in self.command.split() if word[0] not in "-/.~$'\"" and "=" not in word]
        return " ".join(words[:3])


def step_of(turn_id: str, call: Mapping[str, Any]) -> Step:
    """Read a tool call as an event holds it: `{name, input, output, failed}`."""
    name, given = str(call.get("name") or ""), call.get("input")
    source = source_of_tool(name)
    command = _first(given, _COMMANDS) if source == "command" else ""
    if source == "command" and isinstance(given, str):
        command = given
    path = _first(given, _PATHS) if source == "file_write" else ""
    wrote = dict.fromkeys([path] if path else [])
    wrote |= dict.fromkeys(_patched(given) if source == "command" or name == "apply_patch" else [])
    wrote |= dict.fromkeys(found[1] or found[2] or found[3] for found in _REDIRECTED.finditer(command))
    failure = _failure(call, command)
    return Step(
        turn_id=turn_id,
        wrote=() if failure else tuple(one for one in wrote if _is_path(one)),
        command=_one_line(command),
        failure=failure,
    )


def last_failure(
    turns: Sequence[Turn], steps: Mapping[str, Step], mended: Collection[int], former: Point | None
) -> Point | None:
    """The last command that failed and has not gone well since; nor did the agent say that it is mended.

    Args:
        mended: the places among the turns at which the agent said so.
        former: what had failed before these turns.
    """
    failed = {former.text[1:].partition("`: ")[0]: former} if former else {}
    for place, turn in enumerate(turns):
        if place in mended:
            failed.clear()
        step = steps.get(turn.id)
        if step is None or not step.command:
            continue
        for command in [one for one in failed if Step(turn_id="", command=one).what == step.what]:
            del failed[command]
        if step.failure:
            failed[step.command] = Point(text=f"`{step.command}`: {step.failure}", turn_id=turn.id, trust=turn.trust)
    return next(reversed(failed.values()), None)


def _first(given: object, names: tuple[str, ...]) -> str:
    held = _held(given)
    value = next((held[name] for name in names if held.get(name)), "")
    if isinstance(value, list):  # ["bash", "-lc", "pytest -q"]
        parts = [str(part) for part in cast("list[object]", value)]
        return parts[-1] if len(parts) > 1 and parts[-2].startswith("-") else " ".join(parts)
    return value if isinstance(value, str) else ""


def _patched(given: object) -> list[str]:
    """The files of a patch, wherever in the input it stands."""
    texts = [one for one in [given, *_held(given).values()] if isinstance(one, str) and "*** " in one]
    return [(found[1] or found[2]).strip() for text in texts for found in _PATCHED.finditer(text)]


def _is_path(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_PATH and text.isprintable() and not text.startswith("/dev/")


def _failure(call: Mapping[str, Any], command: str) -> str:
    """By what signs a step failed; empty where it went well, or was only a look around."""
    if command and _program(command) in _LOOKING:
        return ""
    output = _text(call.get("output"))[-_READ_OF_OUTPUT:]
    code = _EXIT.search(output[:400])
    failed = (
        call.get("failed") is True or (code is not None and code[1] != "0") or output.startswith("<tool_use_error>")
    )
    if not failed and (not command or (code is not None and code[1] == "0")):
        return ""
    counted = next((found for found in _FAILED.finditer(output) if int(found[1])), None)
    if not failed and counted is None and not _SIGNS.search(output) and not _CLASS.search(output):
        return ""
    signs = [f"exit code {code[1]}"] if code and code[1] != "0" else []
    signs += [found[1] for found in _CLASS.finditer(output)][-1:]
    signs += [counted[0].lower()] if counted else []
    return ", ".join(signs) or "failed"


def _program(command: str) -> str:
    """What a command runs last, which is what its exit code is of: `cd api && uv run pytest` is `uv`."""
    last = re.split(r"&&|\|\||[;|]", command.strip())[-1].split()
    words = [word for word in last if "=" not in word]
    return words[0].rpartition("/")[2] if words else ""


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    held = _held(value)
    return "\n".join(f"{name}: {one}" if isinstance(one, int) else str(one) for name, one in held.items() if one)


def _held(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _one_line(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _LONGEST_COMMAND else line[:_LONGEST_COMMAND].rpartition(" ")[0] + " …"
