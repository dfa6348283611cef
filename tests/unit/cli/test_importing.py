"""`filrouge import claude-code`, as a person types it."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from filrouge.testing import idle
from filrouge.transfer.importers import FORMATS
from tests.support.exports import HELD, MADE, RULE, chat, node
from tests.support.histories import Claude, session
from tests.unit.server.conftest import Api, serving

from .test_changing import typed

PORT = "For the record: production listens on port 8443."


@pytest.fixture
def api(tmp_path: Path) -> Generator[Api]:
    with serving(str(tmp_path / "home")) as found:
        yield found


def outcome(api: Api, *words: str) -> dict[str, Any]:
    ended = typed(api.home, "import", *words, "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def texts(api: Api) -> list[str]:
    rows = api.parts.readers.here(lambda tx: api.parts.turns(tx).recent("claude-code", None, 1000))
    return [row["text"] for row in reversed(rows)]


def test_a_history_is_counted_read_in_once_and_told_with_its_rate(api: Api, tmp_path: Path) -> None:
    Claude(tmp_path, 1).prompt(PORT).reply("Noted, port 8443 it is.").write()
    Claude(tmp_path, 2, cwd="/home/ana/blog").prompt("Where do the drafts of the blog live?").write()
    words = ("claude-code", "--from", str(tmp_path))
    dry = outcome(api, *words, "--dry-run")
    assert (dry["files"], dry["turns"], texts(api)) == (2, {"found": 3}, [])
    assert dry["bytes"] == sum(path.stat().st_size for path in tmp_path.rglob("*.jsonl"))
    first = outcome(api, *words)
    assert (first["turns"]["added"], first["per_second"] > 0) == (3, True)
    assert [text for text in texts(api) if "8443" in text] == [PORT, "Noted, port 8443 it is."]
    again = outcome(api, *words)
    assert (again["turns"]["added"], again["bytes"]) == (0, 0)
    assert typed(api.home, "import", *words).out.startswith("turns: 0 added")


def test_a_last_line_that_is_still_being_written_is_read_by_the_next_run(api: Api, tmp_path: Path) -> None:
    words, one = ("claude-code", "--from", str(tmp_path)), Claude(tmp_path).prompt(PORT)
    whole = one.reply("Noted, port 8443 it is.").write()
    text = whole.read_text("utf-8")
    whole.write_text(text[:-40], "utf-8")
    assert outcome(api, *words)["turns"]["added"] == 1
    whole.write_text(text, "utf-8")
    assert outcome(api, *words)["turns"]["added"] == 1
    assert texts(api) == [PORT, "Noted, port 8443 it is."]


def test_a_part_can_be_read_in_and_the_rest_later(api: Api, tmp_path: Path) -> None:
    one = Claude(tmp_path, 1)
    one.prompt("What was said before the spring?", timestamp="2024-12-01T00:00:00Z").prompt(PORT).write()
    Claude(tmp_path, 2, cwd="/home/ana/blog").prompt("Where do the drafts of the blog live?").write()
    words = ("claude-code", "--from", str(tmp_path))
    late = outcome(api, *words, "--since", "2025-01-01")
    assert (late["turns"]["added"], late["passed_over"]["older"]) == (2, 1)
    Claude(tmp_path, 3).prompt("And the ledger of the shop, who owns it?").write()
    shop = outcome(api, *words, "--project", "shop", "--since", "2025-01-01")
    assert (shop["turns"]["added"], shop["passed_over"]["elsewhere"]) == (1, 1)
    assert outcome(api, *words)["turns"]["added"] == 1
    assert outcome(api, *words)["bytes"] == 0


def test_what_the_user_vouches_for_may_become_a_rule(api: Api, tmp_path: Path) -> None:
    Claude(tmp_path, 1).prompt("Always run the linter before a commit.").write()
    words = ("claude-code", "--from", str(tmp_path))
    assert outcome(api, *words)["turns"]["added"] == 1
    idle(api.parts)
    assert api.get("/api/memory/memories?kind=rule") == []
    assert outcome(api, *words, "--trust")["turns"]["vouched"] == 1
    idle(api.parts)
    assert [one["trust"] for one in api.get("/api/memory/memories?kind=rule")] == [2]


def test_a_directory_that_wants_no_capture_is_passed_over(api: Api, tmp_path: Path) -> None:
    quiet = tmp_path / "quiet"
    quiet.mkdir()
    (quiet / ".filrouge.toml").write_text("auto_capture = false\n")
    Claude(tmp_path, 1, cwd=str(quiet)).prompt(PORT).write()
    done = outcome(api, "claude-code", "--from", str(tmp_path))
    assert (done["turns"]["added"], done["passed_over"]["off"]) == (0, 1)


def test_a_broken_line_and_a_line_too_long_cost_nothing_but_themselves(api: Api, tmp_path: Path) -> None:
    one = Claude(tmp_path).prompt(PORT)
    one.lines += ['{"type": "user", ', "[" * 100_000, json.dumps({"type": "user", "message": "x" * 11_000_000})]
    one.reply("Noted, port 8443 it is.").write()
    done = outcome(api, "claude-code", "--from", str(tmp_path))
    assert (done["turns"]["added"], done["passed_over"]["bad"]) == (2, 1)
    assert session(0) in done["problems"][0]["place"]


def test_where_there_is_no_history_the_way_out_is_named(api: Api, tmp_path: Path) -> None:
    ended = typed(api.home, "import", "codex", "--from", str(tmp_path / "nowhere"))
    assert ended.code == 2
    assert "CODEX_HOME" in ended.err
    assert typed(api.home, "import", "codex", "--from", str(tmp_path), "--since", "yesterday").code == 2


@pytest.mark.parametrize("name", FORMATS)
def test_every_other_format_is_read_in_once_and_nobody_vouches_for_it(api: Api, tmp_path: Path, name: str) -> None:
    path, (turns, memories, bad) = str(MADE[name](tmp_path)), HELD[name]
    assert outcome(api, name, path, "--dry-run")["turns"] == {"found": turns}
    first = outcome(api, name, path)
    assert (first["turns"]["added"], first["memories"]["added"]) == (turns, memories)
    assert (first["passed_over"]["bad"], len(first["problems"])) == (bad, bad)
    again = outcome(api, name, path)
    assert (again["turns"]["added"], again["memories"]["added"]) == (0, 0)
    assert (again["turns"]["present"], again["memories"]["present"]) == (turns, memories)
    idle(api.parts)
    assert {one["trust"] for one in api.get("/api/memory/memories")} <= {0}
    assert api.get("/api/memory/memories?kind=rule") == []


def test_an_export_can_be_given_a_project_by_its_name(api: Api, tmp_path: Path) -> None:
    api.remember(PORT, "name:shop")
    outcome(api, "mem0", str(MADE["mem0"](tmp_path)), "--project", "shop")
    outcome(api, "claude-mem", str(MADE["claude-mem"](tmp_path)))
    found = {one["text"][:14]: one["project"] for one in api.get("/api/memory/facts?project=name:shop")}
    assert found["Ana keeps bees"] == found["Drizzle chosen"] == "name:shop"


def test_rules_of_another_program_are_rules_where_the_user_vouches_for_them(api: Api, tmp_path: Path) -> None:
    outcome(api, "ai-smartness", str(MADE["ai-smartness"](tmp_path)), "--trust")
    assert [one["text"] for one in api.get("/api/memory/memories?kind=rule")] == [RULE]


def test_a_file_that_is_not_there_or_a_format_that_nobody_knows_is_refused_with_the_way_out(
    api: Api, tmp_path: Path
) -> None:
    for words in (("chatgpt",), ("chatgpt", str(tmp_path / "none.zip")), ("chatgbt", str(tmp_path))):
        ended = typed(api.home, "import", *words)
        assert (ended.code, "chatgpt" in ended.err) == (2, True)


def test_of_an_export_that_was_cut_off_what_stands_before_is_read_in(api: Api, tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    chats = [chat(node(f"n{n}", None, "user", f"Where is drawer {n}?"), conversation_id=f"c{n}") for n in range(3)]
    path.write_text(json.dumps(chats)[:-60], "utf-8")
    ended = typed(api.home, "import", "chatgpt", str(path))
    assert (ended.code, str(path) in ended.err) == (2, True)
    path.write_text(json.dumps(chats), "utf-8")
    assert outcome(api, "chatgpt", str(path))["turns"]["present"] == 2
