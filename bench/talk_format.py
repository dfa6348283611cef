"""The form of labelled talk: reads a project's file, and checks that quotes are exact and keys tell statements apart.

    python bench/talk_format.py bench/data/talk/{train,validation,small}/*.json

Small projects have no keys. Exit 1 where a file is not well formed.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from filrouge.extraction.sentences import Unit

KINDS: Final = frozenset({"fact", "decision", "rule", "preference", "constraint", "intent", "deadline", "cause"})
PROBES: Final = frozenset({"question", "task", "start", "unknown", "unrelated"})
Project = dict[str, Any]


def read(path: Path) -> Project:
    """One project."""
    return json.loads(path.read_text("utf-8"))


def exchanges(part: str) -> list[Project]:
    """Prompts with the end of the agent's message that they answer: of `train`, `validation` or `bare`."""
    path = Path(__file__).parent / "data" / "talk" / "exchanges" / f"{part}.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def said_by(exchange: Project, who: str) -> list[Project]:
    """The statements of an exchange that stand in the words of the `user` or the `assistant`."""
    return [one for one in exchange["statements"] if one["by"] == who]


def statements_by(project: Project, who: str) -> dict[tuple[Any, int], list[Project]]:
    """The statements of a project that stand in messages of the `user` or the `assistant`, by session and turn."""
    found: dict[tuple[Any, int], list[Project]] = {}
    for one in project["statements"]:
        if one.get("by", "user") == who:
            found.setdefault((one["session"], one["turn"]), []).append(one)
    return found


def label_of(unit: Unit, text: str, stated: Sequence[Project]) -> Project | None:
    """Of the statements of a text the one of which the unit holds half, or that holds most of the unit."""
    for one in stated:
        start = text.find(one["quote"])
        end = start + len(one["quote"])
        shared = unit.shared(start, end)
        if shared and (shared >= 0.5 * (end - start) or shared >= 0.6 * (unit.end - unit.start)):
            return one
    return None


def folded(text: str) -> str:
    """The text in lower case without accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))


def speaks_of(text: str, keys: Sequence[Sequence[str]]) -> bool:
    """True where of every group of keys one alternative occurs in the text."""
    text = folded(text)
    return all(any(folded(word) in text for word in group) for group in keys)


def problems(data: Project) -> Iterator[str]:
    """What is wrong with a project, a line each."""
    sessions = {one["id"]: one for one in data["sessions"]}
    statements = {one["id"]: one for one in data["statements"]}
    for one in statements.values():
        for what in _of_statement(one, statements, sessions):
            yield f"{data['id']} {one['id']}: {what}"
    for one in data["probes"]:
        for what in _of_probe(one, statements, sessions):
            yield f"{data['id']} {one['id']}: {what}"


def _of_statement(one: Project, all_: dict[str, Project], sessions: dict[int, Project]) -> Iterator[str]:
    by = one.get("by", "user")
    if one["kind"] not in KINDS or one["scope"] not in {"project", "user"} or by not in {"user", "assistant"}:
        yield "kind, scope or by"
    turns = sessions.get(one["session"], {"turns": []})["turns"]
    if not 0 < one["turn"] <= len(turns):
        yield "no such turn"
        return
    if one["quote"] not in turns[one["turn"] - 1][by]:
        yield f"quote is not in the turn: {one['quote']!r}"
    if one.get("supersedes") and one["supersedes"] not in all_:
        yield f"supersedes the unknown {one['supersedes']}"
    if "keys" not in one:
        return
    if not speaks_of(f"{one['quote']} {one['gist']}", one["keys"]):
        yield "keys do not match its own quote or gist"
    for other in all_.values():
        replaces = one["id"] == other.get("supersedes") or other["id"] == one.get("supersedes")
        if other is not one and not replaces and speaks_of(other["quote"], one["keys"]):
            yield f"its keys also match {other['id']}: {other['quote']!r}"


def _of_probe(one: Project, statements: dict[str, Project], sessions: dict[int, Project]) -> Iterator[str]:
    if one["kind"] not in PROBES or one["after"] not in sessions:
        yield "kind or after"
    for name in ("expect", "accept", "forbid"):
        for ref in one.get(name, []):
            if ref not in statements:
                yield f"{name} names the unknown {ref}"
            elif statements[ref]["session"] > one["after"]:
                yield f"{name} names {ref}, which is said later"
    if one["kind"] in {"unknown", "unrelated"} and one.get("expect"):
        yield "nothing is to be expected"


if __name__ == "__main__":
    wrong = [line for path in sys.argv[1:] for line in problems(read(Path(path)))]
    print("\n".join(wrong) or "well formed")
    sys.exit(bool(wrong))
