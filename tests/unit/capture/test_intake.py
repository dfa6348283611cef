"""Events become turns: of a helper agent's result the answer is read, not its wrapping."""

from __future__ import annotations

from typing import Any

from filrouge.capture.events import Event
from filrouge.capture.intake import turns_from_event

ANSWER = "The export embeds the font once for each page; embedding it once makes it ten times faster."


def tool(name: str, output: Any) -> str:
    call = {"name": name, "id": "call-1", "input": {"prompt": "Find out why."}, "output": output, "failed": False}
    event = Event("e", "claude-code", "tools", "s", 1.7e9, "k", "", (), "", "", {"calls": [call]})
    return turns_from_event(event, "")[0].text


def test_a_helper_agents_answer_is_taken_out_of_its_json() -> None:
    blocks = {"status": "completed", "agentId": "a1", "content": [{"type": "text", "text": ANSWER}]}
    assert tool("Task", blocks) == f"Task: Find out why. {ANSWER}"


def test_a_short_answer_is_shown_as_it_is() -> None:
    assert tool("Task", {"status": "completed", "content": "done"}) == "Task: Find out why. completed\ndone"


def test_other_tools_are_shown_as_before() -> None:
    assert tool("Bash", {"stdout": "ok", "stderr": ""}) == "Bash: Find out why. ok"


def test_the_texts_that_a_tool_nests_in_its_answer_are_kept() -> None:
    glob = {"filenames": ["src/broker.py", "src/quay.py"], "numFiles": 2, "truncated": False}
    assert tool("Glob", glob) == "Glob: Find out why. src/broker.py\nsrc/quay.py"
    deep = {"results": [{"title": "Ports", "hits": ["8443", "9443"]}]}
    assert tool("mcp__docs__search", deep) == "mcp__docs__search: Find out why. Ports\n8443\n9443"
    blocks = [{"type": "text", "text": "one\ntwo"}, {"type": "image", "data": "iVBORw0K" * 1000}]
    assert tool("mcp__docs__read", blocks) == "mcp__docs__read: Find out why. one\ntwo"
    assert tool("mcp__docs__count", [{"port": 8443}]) == 'mcp__docs__count: Find out why. [{"port": 8443}]'


def test_what_a_file_read_showed_is_kept_however_deep_the_answer_holds_it() -> None:
    whole = {
        "type": "text",
        "file": {"filePath": "broker.toml", "content": "host = quokka\nretries = 4", "numLines": 2},
    }
    assert tool("Read", whole) == "Read: Find out why. broker.toml\nhost = quokka\nretries = 4"
    assert tool("read_file", [{"type": "text", "text": "host = quokka"}]) == "read_file: Find out why. host = quokka"
    image = {"type": "image", "file": {"base64": "iVBORw0K" * 1000, "type": "image/png"}}
    assert tool("Read", image) == "Read: Find out why."
