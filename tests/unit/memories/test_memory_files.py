"""The memory tool: its commands answer as its own file implementation does, and no path leads anywhere else."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import filrouge
from filrouge.core.errors import BadInput
from filrouge.memories.files import MAX_FILE, MAX_FILES, run
from filrouge.memories.models import checked_path
from filrouge.runtime.services import Parts
from filrouge.testing import running
from tests.hosts.scripted_model import Call, ScriptedModel, on
from tests.unit.server.conftest import Api, serving

ENVIRON = {"FILROUGE_EMBEDDING_MODEL": "hashing"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    """One server; each test keeps its files in a project of its own."""
    with serving(str(tmp_path_factory.mktemp("memory"))) as found:
        yield found


@pytest.fixture
def project(request: pytest.FixtureRequest) -> list[str]:
    return [f"name:{request.node.name}"]


def done(api: Api, project: list[str], command: str, **given: Any) -> str:
    return run(api.parts, {"command": command, **given}, names=project)


def refused(api: Api, project: list[str], command: str, **given: Any) -> str:
    with pytest.raises(BadInput) as error:
        done(api, project, command, **given)
    return error.value.message


# ----------------------------------------------------------------------------------------- as the tool's own files

STORY: list[dict[str, Any]] = [
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": "/memories/progress.md", "file_text": "one\ntwo\nthree\ntwo words\n"},
    {"command": "create", "path": "/memories/progress.md", "file_text": "again"},
    {"command": "create", "path": "/memories/tide/tables/june.md", "file_text": ""},
    {"command": "create", "path": "/memories/no/end.txt", "file_text": "é without an end"},
    {"command": "view", "path": "/memories/progress.md"},
    {"command": "view", "path": "/memories/progress.md", "view_range": [2, 3]},
    {"command": "view", "path": "/memories/progress.md", "view_range": [3, -1]},
    {"command": "view", "path": "/memories/progress.md", "view_range": [4, 99]},
    {"command": "view", "path": "/memories/tide/tables/june.md"},
    {"command": "view", "path": "/memories/nothing.md"},
    {"command": "str_replace", "path": "/memories/progress.md", "old_str": "three", "new_str": "3"},
    {"command": "str_replace", "path": "/memories/progress.md", "old_str": "two", "new_str": "2"},
    {"command": "str_replace", "path": "/memories/progress.md", "old_str": "nine", "new_str": "9"},
    {"command": "str_replace", "path": "/memories/nothing.md", "old_str": "a", "new_str": "b"},
    {"command": "str_replace", "path": "/memories/tide", "old_str": "a", "new_str": "b"},
    {"command": "insert", "path": "/memories/progress.md", "insert_line": 0, "insert_text": "zero\n"},
    {"command": "insert", "path": "/memories/progress.md", "insert_line": 5, "insert_text": "five\nsix"},
    {"command": "insert", "path": "/memories/progress.md", "insert_line": 99, "insert_text": "x"},
    {"command": "insert", "path": "/memories/progress.md", "insert_line": -1, "insert_text": "x"},
    {"command": "insert", "path": "/memories/nothing.md", "insert_line": 0, "insert_text": "x"},
    {"command": "view", "path": "/memories/progress.md"},
    {"command": "rename", "old_path": "/memories/progress.md", "new_path": "/memories/done/progress.md"},
    {"command": "rename", "old_path": "/memories/progress.md", "new_path": "/memories/other.md"},
    {"command": "rename", "old_path": "/memories/tide", "new_path": "/memories/done"},
    {"command": "rename", "old_path": "/memories/tide", "new_path": "/memories/ebb"},
    {"command": "view", "path": "/memories/ebb/tables/june.md"},
    {"command": "delete", "path": "/memories/done/progress.md"},
    {"command": "delete", "path": "/memories/done/progress.md"},
    {"command": "delete", "path": "/memories"},
    {"command": "rename", "old_path": "/memories", "new_path": "/memories/x"},
    {"command": "view", "path": "/elsewhere"},
]


def test_every_command_answers_word_for_word_as_the_sdks_own_files_do(
    api: Api, project: list[str], tmp_path: Path
) -> None:
    tools: Any = import_module("anthropic.lib.tools._beta_builtin_memory_tool")  # where the SDK keeps its own
    theirs, refused = tools.BetaLocalFilesystemMemoryTool(str(tmp_path)), import_module("anthropic.lib.tools").ToolError
    for command in STORY:
        if command == STORY[0]:
            continue  # the sizes of directories are those of a disk; the next test has ours
        try:
            expected = str(theirs.call(command))
        except refused as error:
            expected = f"refused: {error}"
        try:
            said = run(api.parts, command, names=project)
        except BadInput as error:
            said = f"refused: {error.message}"
        assert said.replace(". Please ensure", " Please ensure") == expected.replace(
            ". Please ensure", " Please ensure"
        )


def test_a_directory_is_shown_two_levels_deep_with_sizes_and_without_what_is_hidden(
    api: Api, project: list[str]
) -> None:
    header = "Here're the files and directories up to 2 levels deep in {}, excluding hidden items:"
    assert done(api, project, "view", path="/memories") == f"{header.format('/memories')}\n0B\t/memories"
    for path, size in (("a.md", 5), ("b/c.md", 2048), ("b/d/e.md", 1536), (".hidden/f.md", 9)):
        done(api, project, "create", path=f"/memories/{path}", file_text="x" * size)
    assert done(api, project, "view", path="/memories/").split("\n") == [
        header.format("/memories"), "3.5K\t/memories", "5B\t/memories/a.md", "3.5K\t/memories/b/",
        "2K\t/memories/b/c.md", "1.5K\t/memories/b/d/",
    ]  # fmt: skip
    assert done(api, project, "view", path="/memories/b").split("\n")[1:] == [
        "3.5K\t/memories/b", "2K\t/memories/b/c.md", "1.5K\t/memories/b/d/", "1.5K\t/memories/b/d/e.md",
    ]  # fmt: skip


# ----------------------------------------------------------------------------------------------- what a file is


def test_a_file_is_a_note_with_versions_that_is_searched_binned_and_restored(api: Api, project: list[str]) -> None:
    done(api, project, "create", path="/memories/crane.md", file_text="The crane stands at berth 4711.\n")
    done(api, project, "str_replace", path="/memories/crane.md", old_str="4711", new_str="4712")
    [note] = [one for one in api.get("/api/memory/facts") if one["subject"] == "/memories/crane.md"]
    assert (note["kind"], note["trust"], note["made_by"]) == ("note", 1, "agent")
    history = api.get(f"/api/memory/memories/{note['id']}/history")
    assert ["4711" in one["text"] for one in history["versions"]] == [True, False]
    assert note["id"] in [hit["id"] for hit in api.get("/api/memory/search?q=crane+berth&collection=memories")]
    done(api, project, "delete", path="/memories/crane.md")
    assert "does not exist" in refused(api, project, "view", path="/memories/crane.md")
    assert api.ask("POST", f"/api/memory/memories/{note['id']}/restore", {}).status == 200
    assert "4712" in done(api, project, "view", path="/memories/crane.md")
    assert api.get("/api/audit/verify")["sound"]


def test_what_the_user_says_is_never_taken_for_a_file(api: Api, project: list[str]) -> None:
    said = "For the record: production listens on port 8443."
    done(api, project, "create", path="/memories/port.md", file_text=said)
    [action] = api.remember(said, *project)
    assert action["action"] == "add"
    [action] = api.remember("Correction: production listens on port 9443, not 8443.", *project)
    assert action["action"] == "update"
    assert "8443" in done(api, project, "view", path="/memories/port.md")


def test_each_project_has_files_of_its_own(api: Api, project: list[str]) -> None:
    done(api, project, "create", path="/memories/a.md", file_text="here")
    assert "does not exist" in refused(api, ["name:another"], "view", path="/memories/a.md")
    assert "does not exist" in refused(api, [], "view", path="/memories/a.md")


def test_a_secret_is_not_kept_in_a_file(api: Api, project: list[str]) -> None:
    key = "sk-ant-api03-" + "Ab3dEf6hIj9kLmN0pQrS" * 4
    done(api, project, "create", path="/memories/a.md", file_text=f"The key is {key}\n")
    assert key not in done(api, project, "view", path="/memories/a.md")


def test_sizes_have_limits(api: Api, project: list[str]) -> None:
    assert "may have" in refused(api, project, "create", path="/memories/a", file_text="x" * (MAX_FILE + 1))
    done(api, project, "create", path="/memories/a", file_text="x" * MAX_FILE)
    assert "may have" in refused(api, project, "insert", path="/memories/a", insert_line=0, insert_text="y")
    assert "may have" in refused(api, project, "create", path="/memories/" + "a" * 600, file_text="")
    assert MAX_FILES == 1000


@pytest.mark.parametrize(
    "command",
    [
        {}, {"command": "erase"}, {"command": ["view"]}, {"command": "view"}, {"command": "view", "path": 3},
        {"command": "create", "path": "/memories/a"}, {"command": "create", "path": "/memories", "file_text": "x"},
        {"command": "create", "path": "/memories/a", "file_text": "\ud800"}, {"command": "view", "path": "\ud800"},
        {"command": "insert", "path": "/memories/kept", "insert_line": True, "insert_text": "x"},
        {"command": "view", "path": "/memories/kept", "view_range": ["1", 2]},
        {"command": "create", "path": "/memories/kept/below", "file_text": "x"},
        {"command": "str_replace", "path": "/memories/kept", "old_str": "", "new_str": "x"},
        {"command": "rename", "old_path": "/memories/kept", "new_path": "/memories"},
    ],
)  # fmt: skip
def test_a_command_that_makes_no_sense_is_refused_and_changes_nothing(
    api: Api, project: list[str], command: dict[str, Any]
) -> None:
    done(api, project, "create", path="/memories/kept", file_text="kept\n")
    with pytest.raises(BadInput):
        run(api.parts, command, names=project)
    assert done(api, project, "view", path="/memories").count("\n") == 2


# --------------------------------------------------------------------------------------------------- traversal

_UP = (
    "..",
    "...",
    ".",
    "%2e%2e",
    "%2E.",
    ".%00.",
    "..\\",
    "\\",
    "．．",
    "‥",
    "․․",
    "。。",
    "..\u200b",
    "\u202e..",
    "..;",
)
_OVER = ("/", "//", "\\", "%2f", "%5c", "%252f", "∕", "／", "＼", "⧵", "\x00/", "/./", "%c0%af", "\u2215", "&#47;")
_GOAL = ("etc/passwd", "memories")
_ODD = (
    "/memories/con", "/memories/NUL.txt", "/memories/com1", "/memories/aux.md", "/memories/LPT9", "/memories/a.",
    "/memories/ a", "/memories/a ", "/memories/a\x00.md", "/memories/a\n.md", "/memories/~root", "/memories//a",
    "/memories/a//b", "/memories/c:", "/memories/a:stream", "/memories/\\\\host\\share", "//host/share/memories",
    "\\\\host\\memories", "C:\\memories", "/memoriesx/a", "/Memories/a", "memories/a", "/etc/passwd", "", "/", ".",
    "/memories/" + "a" * 201, "/memories/" + "é" * 101, "/memories" + "/a" * 11, "/memories/" + "a/" * 600,
    "file:///memories/a", "/memories/\u2028", "/memories/\ud800", "/memories/a|b", "/memories/*", "/memories/a\ufeff",
    "/memories/../memories/a", "/memories\\a", "/memories/%u002e%u002e/a", "/./memories/a", "/memories/\u0378",
)  # fmt: skip
TRAVERSALS = (
    *_ODD,
    *(f"/memories{over}{up}{over}{goal}" for up, over, goal in itertools.product(_UP, _OVER, _GOAL)),
    *(f"/memories/a{over}{up}{over}b" for up, over in itertools.product(_UP, _OVER)),
)


def test_none_of_hundreds_of_names_that_could_lead_elsewhere_is_taken(tmp_path: Path) -> None:
    assert len(set(TRAVERSALS)) >= 500
    with running(str(tmp_path / "home"), environ=ENVIRON) as parts:
        for path in TRAVERSALS:
            for command in _commands(path):
                with pytest.raises(BadInput):
                    run(parts, command)
        assert run(parts, {"command": "view", "path": "/memories"}).count("\n") == 1
        assert _notes(parts) == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["home"]
    assert not [root for root, _, _ in os.walk(tmp_path) if "memor" in os.path.basename(root)]


def _commands(path: str) -> list[dict[str, Any]]:
    return [
        {"command": "create", "path": path, "file_text": "x"},
        {"command": "view", "path": path},
        {"command": "rename", "old_path": "/memories/a", "new_path": path},
    ]


def _notes(parts: Parts) -> int:
    return len(parts.readers.here(lambda tx: tx.all("notes.live", {"project_id": None, "user_id": "local"})))


@pytest.mark.parametrize(
    "path", ["/memories/a.md", "/memories/Été 2026/notes (1).txt", "/memories/日本/語.md", "/memories/.x"]
)
def test_ordinary_names_in_any_script_are_taken(path: str) -> None:
    assert checked_path(path) == path
    assert checked_path(f"{path}/") == path


# ------------------------------------------------------------------------------------------ the SDK, and the route


def test_the_sdks_tool_runner_keeps_its_memory_in_filrouge(api: Api, project: list[str]) -> None:
    tool = filrouge.AnthropicMemoryTool(api.home, project=project, environ={})
    create = {"command": "create", "path": "/memories/likes.md", "file_text": "They like coffee.\n"}
    wrong = {"command": "view", "path": "/memories/../../etc/passwd"}
    with ScriptedModel(on("coffee", Call("memory", create)), on("passwords", Call("memory", wrong))) as model:
        with import_module("anthropic").Anthropic(base_url=model.url, api_key="none", max_retries=0) as client:
            for said in ("Remember that I like coffee.", "Look at the passwords."):
                runner = client.beta.messages.tool_runner(
                    model="claude-sonnet-5-5",
                    max_tokens=500,
                    messages=[{"role": "user", "content": said}],
                    tools=[tool],
                )
                assert runner.until_done().stop_reason == "end_turn"
        assert "File created successfully" in model.requests[1].text
        assert "would escape" in model.requests[3].text
    assert "They like coffee." in done(api, project, "view", path="/memories/likes.md")


def test_the_guides_example_runs(api: Api) -> None:
    guide = Path(__file__).parents[3] / "docs" / "guides" / "mcp.md"
    [example] = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    create = {"command": "create", "path": "/memories/likes.md", "file_text": "They like coffee.\n"}
    with ScriptedModel(on("coffee", Call("memory", create))) as model:
        environ = {"FILROUGE_HOME": api.home, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none"}
        subprocess.run([sys.executable, "-c", example], check=True, capture_output=True, env=environ)
    assert "coffee" in run(api.parts, {"command": "view", "path": create["path"]}, names=["name:coffee-bot"])


def test_the_route_answers_the_text_or_a_problem_for_the_model(api: Api, project: list[str]) -> None:
    body = {"command": "create", "path": "/memories/a.md", "file_text": "x", "project": project}
    assert api.ask("POST", "/memory/tool", body).body == {"content": "File created successfully at: /memories/a.md"}
    again = api.ask("POST", "/memory/tool", body)
    assert (again.status, again.body["detail"]) == (400, "File /memories/a.md already exists")
    assert api.ask("POST", "/memory/tool", {"command": "erase"}).status == 400


def test_two_who_write_one_file_at_once_both_get_through(api: Api, project: list[str]) -> None:
    done(api, project, "create", path="/memories/log.md", file_text="")

    def write(who: int) -> None:
        for number in range(5):
            text = f"{who} {number}"
            done(api, project, "insert", path="/memories/log.md", insert_line=0, insert_text=text)

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    said = done(api, project, "view", path="/memories/log.md")
    assert all(f"\t{who} {number}" in said for who in range(4) for number in range(5))
