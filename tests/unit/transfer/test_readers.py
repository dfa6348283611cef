"""What the readers of other programs' exports tell, of good files and of hostile ones."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from filrouge.capture.models import ImportedMemory, ImportedTurn, ImportItem, ImportProblem
from filrouge.core.errors import BadInput
from filrouge.transfer import importers
from filrouge.transfer.importers import FORMATS, json_elements, to_epoch
from tests.support.exports import HELD, MADE, RULE, chat, edited, node


def told(name: str, path: Path) -> list[ImportItem]:
    return list(FORMATS[name].read(str(path)))


def texts(items: list[ImportItem]) -> list[str]:
    return [one.text for one in items if not isinstance(one, ImportProblem)]


def saved(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), "utf-8")
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_tells_what_its_file_holds_and_the_same_at_every_reading(name: str, tmp_path: Path) -> None:
    path = MADE[name](tmp_path)
    items = told(name, path)
    kinds = Counter(type(one).__name__ for one in items)
    assert (kinds["ImportedTurn"], kinds["ImportedMemory"], kinds["ImportProblem"]) == HELD[name]
    assert told(name, path) == items
    keys = [one.key for one in items if not isinstance(one, ImportProblem)]
    assert len(set(keys)) == len(keys)


def test_of_an_edited_conversation_only_what_the_user_saw_is_told(tmp_path: Path) -> None:
    items = told("chatgpt", saved(tmp_path / "conversations.json", [edited()]))
    assert texts(items) == ["Which port does the ferry office use?", "The ferry office uses port 9443."]
    assert [(one.role, one.session, one.at) for one in items if isinstance(one, ImportedTurn)] == [
        ("user", "c-1", 1_700_000_000.5),
        ("assistant", "c-1", 1_700_000_000.5),
    ]


def test_a_conversation_without_a_current_node_ends_at_its_newest_leaf(tmp_path: Path) -> None:
    whole = chat(
        node("a", None, "user", "Which one is newer?"),
        node("b", "a", "assistant", "The old answer.", create_time=1.0),
        node("c", "a", "assistant", "The new answer.", create_time=2.0),
    )
    del whole["current_node"]
    items = told("chatgpt", saved(tmp_path / "conversations.json", [whole]))
    assert texts(items) == ["Which one is newer?", "The new answer."]


def test_a_tree_that_runs_in_a_circle_ends(tmp_path: Path) -> None:
    whole = chat(node("a", "b", "user", "One."), node("b", "a", "assistant", "Two."))
    assert texts(told("chatgpt", saved(tmp_path / "conversations.json", [whole]))) == ["One.", "Two."]


def test_an_export_in_several_parts_is_read_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in (1, 0):
            said = chat(node("a", None, "user", f"Question {number}"), conversation_id=f"c{number}")
            archive.writestr(f"conversations-{number:03}.json", json.dumps([said]))
    assert texts(told("chatgpt", path)) == ["Question 0", "Question 1"]


def test_claude_ai_is_read_along_its_last_branch(tmp_path: Path) -> None:
    messages = [
        {"uuid": "1", "sender": "human", "text": "Old question", "parent_message_uuid": "0"},
        {"uuid": "2", "sender": "human", "text": "New question", "parent_message_uuid": "0"},
        {"uuid": "3", "sender": "assistant", "text": "Answer", "parent_message_uuid": "2"},
    ]
    whole = {"uuid": "k", "current_leaf_message_uuid": "3", "chat_messages": messages}
    assert texts(told("claude-ai", saved(tmp_path / "conversations.json", [whole]))) == ["New question", "Answer"]


def test_gemini_tells_a_message_as_it_was_said_last(tmp_path: Path) -> None:
    found = texts(told("gemini", MADE["gemini"](tmp_path)))
    assert sorted(found) == ["Add a changelog entry", "Added under Unreleased.", "Rename the ferry module"]


def test_a_section_of_markdown_has_its_headings_and_its_line(tmp_path: Path) -> None:
    items = told("markdown", MADE["markdown"](tmp_path))
    assert [(one.place, one.text) for one in items if isinstance(one, ImportedMemory)] == [
        ("ports.md:4", "Before."),
        ("ports.md:5", "Ports\nThe kiosk is on 9443."),
        ("ports.md:7", "Ports > Old\n```\n# no heading\n```"),
    ]


def test_rules_of_ai_smartness_are_told_as_rules(tmp_path: Path) -> None:
    items = told("ai-smartness", MADE["ai-smartness"](tmp_path))
    assert [one.text for one in items if isinstance(one, ImportedMemory) and one.kind == "rule"] == [RULE]


def test_what_claude_mem_observed_has_its_project_and_time(tmp_path: Path) -> None:
    first, second = told("claude-mem", MADE["claude-mem"](tmp_path))
    assert isinstance(first, ImportedMemory)
    assert (first.kind, first.project, first.at) == ("decision", ("shop",), 1735689600.0)
    assert first.text.splitlines() == [
        "Drizzle chosen",
        "Prisma does not run on the edge.",
        "The edge runtime has no engine.",
    ]
    assert texts([second]) == ["Learned: The cache is per region."]


def test_the_old_document_of_the_mcp_server_tells_the_same_as_its_lines(tmp_path: Path) -> None:
    graph = {
        "entities": [{"name": "Ana", "observations": ["Keeps bees."]}],
        "relations": [{"from": "Ana", "to": "Atelier", "relationType": "works_at"}],
    }
    found = texts(told("mcp-memory", saved(tmp_path / "memory.json", graph)))
    assert found == ["Ana: Keeps bees.", "Ana works at Atelier"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[" * 200_000, b"PK\x03\x04 no zip", b"null"])
def test_a_broken_file_is_named_with_the_way_out_or_tells_nothing(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    told_of, refusals = list[ImportItem](), list[BadInput]()
    try:
        told_of = told(name, path)
    except BadInput as error:
        refusals.append(error)
    assert [one for one in told_of if isinstance(one, ImportedTurn)] == []
    assert [str(path) in one.message and bool(one.remedy) for one in refusals] in ([], [True])


@pytest.mark.parametrize("name", FORMATS)
def test_objects_of_another_shape_break_no_reader(name: str, tmp_path: Path) -> None:
    shapes: list[Any] = [1, "x", None, [], {}, {"mapping": 3}, {"mapping": {"a": 1}, "id": "i"}, {"uuid": "u"}]
    shapes += [{"uuid": "u", "chat_messages": [1, {"sender": "human", "text": 4}]}, {"results": [None]}]
    for number, shape in enumerate([shapes, *shapes]):
        path = saved(tmp_path / f"conversations-{number}.json", shape)
        try:
            items = told(name, path)
        except BadInput:
            continue
        assert [one for one in items if isinstance(one, ImportedTurn)] == []


def test_an_export_that_was_cut_off_gives_what_stands_before_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    whole = json.dumps([chat(node("a", None, "user", f"Question {n}"), conversation_id=f"c{n}") for n in range(3)])
    path.write_text(whole[:-60], "utf-8")
    found: list[str] = []
    with pytest.raises(BadInput, match="not JSON from some point on"):
        found.extend(one.text for one in FORMATS["chatgpt"].read(str(path)) if isinstance(one, ImportedTurn))
    assert found == ["Question 0", "Question 1"]


def test_a_damaged_zip_is_named(tmp_path: Path) -> None:
    path = MADE["chatgpt"](tmp_path)
    raw = bytearray(path.read_bytes())
    place = raw.index(b"conversations.json") + 30
    raw[place : place + 40] = b"\xff" * 40
    path.write_bytes(raw)
    with pytest.raises(BadInput, match=str(path)):
        told("chatgpt", path)


def test_a_zip_bomb_is_read_in_little_memory_and_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importers, "MAX_ELEMENT_LENGTH", 4 * 1024 * 1024)
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("conversations.json", "w") as file:
        file.write(b'[{"mapping": "')
        for _ in range(64):
            file.write(b"A" * 1024 * 1024)
        file.write(b'"}]')
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(BadInput, match="larger than 64 MB"):
            told("chatgpt", path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 48 * 1024 * 1024


@pytest.mark.parametrize("step", [1, 2, 7, 4096])
def test_a_list_is_told_element_by_element_wherever_its_text_is_cut(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importers, "_CHUNK_BYTES", step)
    given: list[Any] = [{"a": "é\U0001f600"}, 12345, -1.5e3, "x,]", [], None, True]
    text = ("\ufeff \n" + json.dumps(given, ensure_ascii=False, indent=1)).encode()
    assert list(json_elements(io.BytesIO(text), "x")) == given


@pytest.mark.parametrize("given", [1735689600, 1735689600000.0, "2025-01-01T00:00:00Z", "2025-01-01"])
def test_times_of_every_kind_become_seconds(given: object) -> None:
    assert to_epoch(given) == 1735689600.0


@pytest.mark.parametrize("given", ["tomorrow", None, True, -5, float("nan"), float("inf"), {}])
def test_what_is_no_time_is_none(given: object) -> None:
    assert to_epoch(given) == 0.0
