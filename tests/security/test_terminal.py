"""No control character leaves for a terminal: every command, over a memory whose every text is hostile.

The memory is filled through all its entrances, then each planted word is replaced in the database itself, so that no
filter on the way in helps the way out.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
import unicodedata
import zipfile
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import filrouge
from filrouge.cli import commands
from filrouge.core.paths import DATABASE, LOG, inside
from filrouge.core.text import in_json, one_line, visible
from tests.support import small_hub
from tests.support.canaries import Home, enter, served
from tests.support.given import SHOP

#: Format characters that words, numerals and emoji are spelt with.
SPELLING = {
    0xAD, 0x200C, 0x200D, *range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD,
    *range(0x13430, 0x13440),
}  # fmt: skip
#: What makes a terminal act or a line lie, a few of each kind, with a word that shows that the text arrived.
ATTACKS = (
    "\x1b]0;Title\x07",
    "\x1b]8;;http://evil.example\x1b\\here",
    "\x1b]52;c;cm0gLXJm\x07",
    "\x1b[2J\x1b[H",
    "\x1bPq1\x1b\\",
    "\x9b2J\x9d0;t\x9c",
    "\x90q\x9c\x85",
    "\u202egnp.exe\u202c",
    "\u2066isolated\u2069",
    "ok\rBAD\x08\x08",
    "\u2028\u2029next",
    "\U000e0041\U000e0042",
    "\u200e\u200f\u061c\ufeff\u200b",
    "[link=http://evil.example][bold red]x[/]\x1b[31m",
)


def hostile(text: str) -> set[str]:
    """The code points of a text that no terminal may get."""
    return set(_hostile().findall(text))


@cache
def _hostile() -> re.Pattern[str]:
    """One of those code points; to ask each character of a text that has all of them takes seconds."""
    every = "".join(char for char in map(chr, range(0xE0000)) if _is_hostile(char))
    return re.compile(f"[{re.escape(every)}\U000e0000-\U000e0fff]")


def _is_hostile(char: str) -> bool:
    category = unicodedata.category(char)
    if category == "Cf":
        return ord(char) not in SPELLING
    return category in ("Cc", "Zl", "Zp", "Cs") and char not in "\n\t"


@dataclass(frozen=True, kw_only=True)
class Person:
    """Somebody who types commands at a hostile home."""

    at: Home
    folder: Path
    hub: str

    def types(self, *words: str, typed: str = "") -> tuple[int, bytes, bytes]:
        """A command with its arguments: exit code, standard output, standard error."""
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
        before = sys.argv, sys.stdout, sys.stderr, sys.stdin, os.getcwd()
        sys.argv, sys.stdout, sys.stderr, sys.stdin = ["filrouge", *words], *streams, io.StringIO(typed)
        os.chdir(self.folder)
        try:
            code = commands.run()
        except SystemExit as left:
            code = int(left.code or 0)
        finally:
            sys.argv, sys.stdout, sys.stderr, sys.stdin = before[:4]
            os.chdir(before[4])
        out, err = (stream.buffer for stream in streams)
        assert isinstance(out, io.BytesIO)
        assert isinstance(err, io.BytesIO)
        return code, out.getvalue(), err.getvalue()

    def json(self, *words: str) -> Any:
        code, out, err = self.types(*words, "--json")
        assert code == 0, err
        return json.loads(out)


def replaced(database: str, words: Iterable[str]) -> None:
    """Put an attack in the place of each word, wherever the database has it."""
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        listed = connection.execute("SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main'")
        tables = [str(row[0]) for row in listed if not str(row[0]).startswith("sqlite_")]
        columns = [
            (table, str(row[1]))
            for table in tables
            for row in connection.execute(f"PRAGMA table_xinfo({table})")
            if row[6] == 0 and row[1] != "id" and not row[1].endswith("_id")
        ]
        for number, word in enumerate(words):
            attack = f"{word} {ATTACKS[number % len(ATTACKS)]}"
            inside_json = json.dumps(attack)[1:-1]
            for table, column in columns:
                new = f"replace({column}, ?, CASE WHEN substr({column}, 1, 1) IN ('{{', '[') THEN ? ELSE ? END)"
                which = f"typeof({column}) = 'text' AND instr({column}, ?)"
                change = f"UPDATE OR IGNORE {table} SET {column} = {new} WHERE {which}"
                connection.execute(change, (word, inside_json, attack, word))


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Generator[Person]:
    top = tmp_path_factory.mktemp("terminal")
    words = [f"zqattack{chr(97 + number)}word" for number in range(27)]
    folder = top / f"here {ATTACKS[0].replace('/', '')}\u202e"
    folder.mkdir()
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/fix-\u202e\x1b[31m\n")
    with served(top / "home") as home:
        enter(home, words)
    replaced(inside(home.home, DATABASE), words)
    colleague = small_hub.served(
        f"zqattack {''.join(ATTACKS)}", tuple(f"The zqattack {one} is open." for one in ATTACKS)
    )
    with colleague as hub, served(top / "home") as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("FILROUGE_HOME", home.home)
        patch.setenv("HOME", str(folder))
        attack = "".join(ATTACKS)
        Path(inside(home.home, LOG)).write_text(
            f"2026-05-02T10:00:00.000Z INFO filrouge.daemon: {attack}\n{attack}\n", encoding="utf-8"
        )
        home.ask("POST", "/api/memory/rules", {"text": f"Never do {attack}", "project": [f"name:{attack}"]})
        yield Person(at=home, folder=folder, hub=hub)


def walk(person: Person) -> Iterator[tuple[str, ...]]:
    """Every command, with arguments that make it show what is stored or repeat what it was given."""
    attack, file = "".join(ATTACKS[:8]), "no\x1b]0;x\x07\u202efile"
    memories = person.json("facts", "--all") + person.json("rules", "list", "--all")
    threads, reviews = person.json("threads"), person.json("review", "--all")
    ids = [one["id"] for one in memories][:8]
    yield ("status",)
    yield ("search", "zqattack")
    yield ("search", "harbour")
    yield ("search", "coupon", "--in", "threads")
    yield ("search", "harbour", "--in", attack)
    yield ("recall", "What closes at nine in the harbour?", "--all")
    yield ("recall", attack)
    yield ("facts", "--all")
    yield ("rules",)
    yield ("rules", "list", "--all")
    yield ("rules", "remove", attack)
    for id_ in ids:
        yield ("why", id_)
        yield ("history", id_)
    yield ("why", attack)
    yield ("settings",)
    yield ("settings", attack)
    yield ("settings", "language", attack)
    yield ("settings", "notes_tag", attack)
    yield ("config", "show", "--origin")
    yield ("context", "Where does the harbour office keep the key?", "--explain")
    yield ("context", "--session-start", "--explain")
    yield ("topics", "--timeframe", "all")
    yield ("timeline",)
    yield ("threads",)
    yield ("threads", "--status", attack)
    for one in threads:
        yield ("thread", one["id"])
        yield from (("why-thread", turn["id"]) for turn in person.json("thread", one["id"])["turns_shown"][:2])
    yield ("thread", attack)
    yield ("bridges",)
    yield ("bridges", "--remove", attack)
    yield ("graph",)
    yield ("graph", "--format", "svg")
    yield ("graph", "--format", attack)
    yield ("graph", "--out", str(person.folder / file / "x"))
    yield ("remember", f"The lamp of the quay is {attack}")
    yield ("remember", "x", "--scope", attack)
    yield ("hook", "--host", attack)
    yield ("extract",)
    yield ("extract", "--dead")
    yield ("extract", f"The crane of the quay is {attack}")
    yield ("review",)
    yield ("review", "--all")
    for one in reviews:
        yield ("review", one["id"])
    for one in reviews[:1]:
        yield ("review", one["id"], "--keep", "old")
    yield ("undo", ids[0], "--dry-run")
    yield ("supersede", ids[1], f"Since today: {attack}")
    yield ("pin", ids[2])
    yield ("unpin", ids[2])
    yield ("bin", ids[3])
    yield ("restore", ids[3])
    yield ("restore", attack)
    yield ("concepts", attack)
    yield ("concepts",)
    yield ("notes",)
    yield ("forget", "zqattack", "--dry-run")
    yield ("forget", ids[4])
    yield ("forget", "--receipt", attack)
    yield ("garden", "--dry-run")
    yield ("garden", "--list")
    yield ("backup", attack)
    yield ("stats",)
    yield ("health",)
    yield ("logs",)
    yield ("logs", "--json")
    yield ("doctor",)
    yield ("doctor", "--bundle", str(person.folder / file / "x.zip"))
    yield ("export",)
    yield ("export", "--format", "jsonl")
    for table in ("memories", "messages", "threads"):
        yield ("export", "--format", "csv", "--what", table)
    yield ("export", "--format", "markdown", "--out", str(person.folder / "pages"))
    yield ("export", "--format", attack)
    yield ("export", "--out", str(person.folder / file / "x"))
    yield ("import", file)
    yield ("import", attack, file)
    yield ("import", "claude-code", file)
    yield ("paths",)
    yield ("dashboard", "--print-url")
    yield ("model", "status")
    yield ("audit", "verify")
    yield ("token", "list")
    yield ("token", "revoke", attack)
    yield ("token", "create", "--name", attack)
    yield ("token", "list")
    yield ("project", "list")
    yield ("project", "alias", attack, "other")
    yield ("project", "merge", attack, "other")
    yield ("daemon", "status")
    yield ("reindex", attack)
    yield ("init", "--dry-run", "--host", "claude-code")
    yield ("init", "--dry-run", "--host", attack)
    yield ("uninstall", "--dry-run")
    yield ("uninstall", "--host", attack)
    yield ("demo", file)
    yield ("hub", "status", "--url", f"http://127.0.0.1:1/{attack}", "--token", attack)
    yield ("team", "join", f"http://127.0.0.1:1/{attack}", "--token", attack)
    yield ("team", "join", person.hub, "--token", small_hub.TOKEN, "--device", attack)
    yield ("team", "share", "--policy", "ask", "--project", SHOP[0])
    yield ("team", "share", "--policy", attack)
    yield ("team", "sync")
    yield ("team", "status")
    yield ("status",)
    yield ("team", "list")
    yield ("team", "list", "--state", attack)
    for one in person.json("team", "list")[:4]:
        yield ("team", "share", one["id"])
        yield ("team", "unshare", one["id"])
    yield ("team", "share", attack)
    yield ("team", "accept", attack)
    yield ("facts", "--all")
    yield ("review",)
    yield ("team", "leave", "--yes")
    yield ("repair", f"--{attack}")
    yield (attack,)
    yield ("search", f"--{attack}")
    yield ("--help",)


def test_no_command_passes_a_control_character_on(person: Person) -> None:
    leaks: dict[tuple[str, ...], list[str]] = {}
    walked, showed = set[str](), set[str]()
    for words in walk(person):
        for more in ((), ("--json",)):
            if more and words[0] in ("export", "hook"):
                continue
            _, out, err = person.types(*words, *more)
            text = out.decode() + err.decode()
            if words[:3] == ("export", "--format", "csv"):
                text = text.replace("\r\n", "\n")
            if found := hostile(text):
                leaks[words + more] = sorted(map(ascii, found))
            walked.add(words[0])
            showed |= {words[0]} if "zqattack" in text or "\\x1b" in text or "\\u001b" in text else set()
    assert leaks == {}
    known = {name for names in commands.COMMANDS.values() for name in names} | set(commands.GROUPS)
    assert known - walked == {"mcp"}  # speaks JSON-RPC in ASCII on its standard output (tests/unit/cli/test_mcp.py)
    assert len(showed) >= 30, sorted(known - showed)


def test_programs_read_the_exact_text(person: Person) -> None:
    texts = [one["text"] for one in person.json("rules", "list", "--all")]
    assert f"Never do {''.join(ATTACKS)}" in texts or any("\u202e" in text and "\x1b" in text for text in texts)
    _, out, _ = person.types("export", "--format", "jsonl")
    rows = [json.loads(line) for line in out.decode().splitlines()]
    assert any("\x9b2J" in row.get("text", "") for row in rows if row.get("table") == "memories")


def test_files_that_are_written_hold_none_either(person: Person, tmp_path: Path) -> None:
    person.types("export", "--format", "markdown", "--out", str(tmp_path / "pages"))
    person.types("export", "--format", "csv", "--out", str(tmp_path / "one.csv"))
    person.types("export", "--out", str(tmp_path / "one.json"))
    for form in ("dot", "svg", "json"):
        person.types("graph", "--format", form, "--out", str(tmp_path / f"graph.{form}"))
    person.types("doctor", "--bundle", str(tmp_path / "report.zip"))
    files = {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".zip"}
    with zipfile.ZipFile(tmp_path / "report.zip") as archive:
        files |= {name: archive.read(name) for name in archive.namelist()}
    assert len(files) > 12
    found = {name: hostile(content.decode().replace("\r\n", "\n")) for name, content in files.items()}
    assert {name: chars for name, chars in found.items() if chars} == {}
    assert {name for name in files if hostile(name)} == set()


def test_a_page_that_was_exported_is_read_back_word_for_word(person: Person, tmp_path: Path) -> None:
    from filrouge.notes import pages as markdown

    person.types("export", "--format", "markdown", "--out", str(tmp_path))
    pages = [markdown.parse_export_page(path.read_text(encoding="utf-8")) for path in tmp_path.glob("*.md")]
    read = {row["id"]: row["text"] for page in pages if page for row in page.memories}
    assert any(hostile(text) for text in read.values())
    for one in person.json("facts"):
        assert read[one["id"]] == one["text"]


@pytest.mark.parametrize("words", [("facts", "--all"), ("threads",), ("forget", "harbour")])
def test_at_a_terminal_only_colour_is_left(person: Person, words: tuple[str, ...]) -> None:
    """What a person sees: tables, boxes and a question, drawn in colour."""
    main, other = pty.openpty()
    command = [sys.executable, "-m", "filrouge.cli.main", *words]
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160"}
    with subprocess.Popen(command, env=environ, stdin=other, stdout=other, stderr=other, cwd=person.folder) as running:
        os.close(other)
        os.write(main, b"n\n")
        seen = b""
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            seen += piece
    os.close(main)
    assert running.returncode == 0, seen
    text = seen.decode()
    for end in ("\r\n", *(f"\x1b[{code}m" for code in ("0", "1", "2", "1;2", "2;1"))):
        text = text.replace(end, "\n" if end == "\r\n" else "")
    assert "zqattack" in text
    assert hostile(text) == set()


def test_what_fails_unexpectedly_drives_no_terminal_either(tmp_path: Path) -> None:
    """A traceback names what it choked on."""
    script = "from filrouge.cli.output import guard; guard(); raise RuntimeError('\\x1b]0;x\\x07\\u202e')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, cwd=tmp_path)
    assert hostile(done.stderr.decode()) == set()
    assert b"RuntimeError: \\x1b]0;x\\x07\\u202e" in done.stderr


def test_every_control_character_is_shown_and_kept_in_json() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    assert hostile(visible(everything)) == set()
    assert hostile(one_line(everything)) | set(one_line(everything)) & {"\n", "\t"} == set()
    ideographs = everything[0x20000:0xE0000]
    assert (hostile(ideographs), visible(ideographs)) == (set(), ideographs)
    others = everything.replace(ideographs, "")
    apart = [char for char in others if char != " "]
    pairs = zip(apart, visible(" ".join(apart)).split(" "), strict=True)
    spared = {char for char, shown in pairs if shown == char}
    assert set(apart) - hostile(others) - spared == {"\u2065"}  # no character has this number
    document = in_json(json.dumps(everything, ensure_ascii=False))
    assert hostile(document) == set()
    whole = everything.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert json.loads(document).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") == whole
    assert visible("é 日本 👩‍💻 می‌خواهم\ta\r\nb") == "é 日本 👩‍💻 می‌خواهم\ta\nb"


#: Modules of `cli` that write to a descriptor themselves: JSON in ASCII, before anything heavy is loaded.
ON_THEIR_OWN = {"main", "hook", "hook_event", "hook_output", "mcp", "mcp_answers", "mcp_daemon"}
ASKING = {"echo", "secho", "prompt", "confirm", "style", "launch", "pause", "edit", "clear", "echo_via_pager"}


def past_the_way_out(node: ast.AST, module: str) -> bool:
    """Whether a piece of source writes to a terminal by itself, or can."""
    match node:
        case ast.Call(func=ast.Name(id="print" | "input")):
            return True
        case ast.Attribute(value=ast.Name(id="typer"), attr=attr):
            return attr in ASKING
        case ast.Attribute(value=ast.Name(id="sys"), attr="__stdout__" | "__stderr__"):
            return True
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr")):
            return True
        case ast.Import(names=names):
            return bool({one.name.partition(".")[0] for one in names} & {"click", "getpass", "rich"})
        case ast.ImportFrom(module=str(source), names=names) if source.partition(".")[0] in ("rich", "click"):
            drawing = {one.name for one in names} & {"Progress", "TextColumn", "track"}
            return source not in ("rich.progress", "rich.text") or (bool(drawing) and module != "progress")
        case _:
            return False


def test_nothing_in_the_command_line_prints_past_the_one_way_out() -> None:
    top = Path(filrouge.__file__).parent / "cli"
    found: list[str] = []
    for path in sorted(top.rglob("*.py")):
        module = path.relative_to(top).with_suffix("").as_posix()
        if module in ON_THEIR_OWN | {"output"}:
            continue
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        found += [f"{module}: {ast.unparse(node)}" for node in nodes if past_the_way_out(node, module)]
    assert found == []
