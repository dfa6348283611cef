# ruff: noqa: E501
"""Replay prompts through extraction and decision over lists in memory, as the application does over the store."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from filrouge.capture.models import Turn
from filrouge.core.scope import Scope
from filrouge.extraction.decide import decide
from filrouge.extraction.heuristics import extract
from filrouge.extraction.vocabulary import content
from filrouge.memories.models import Add, Decision, Delete, Memory, Neighbour, Statement, Update

START = datetime(2026, 3, 1, tzinfo=UTC)


def prompt(text: str, *, project: str = "shop") -> Turn:
    """A prompt typed by the user."""
    return Turn(
        id="t1",
        key="k1",
        scope=Scope(project=project),
        host="claude-code",
        role="user",
        source="prompt",
        text=text,
        at=START,
        trust=2,
    )


def memory_of(statement: Statement, number: int, *, project: str = "shop") -> Memory:
    """The memory that a statement becomes."""
    at = START + timedelta(minutes=number)
    return Memory(
        id=f"m{number}", scope=Scope(project=project), scope_name=statement.scope, kind=statement.kind, text=statement.text,
        trust=2, created_at=at, valid_from=at, subject=statement.subject, key=statement.key, value=statement.value,
    )  # fmt: skip


def similarity(one: str, other: str) -> float:
    """Shared content words over all: a crude stand-in for calibrated embeddings."""
    mine, theirs = set(content(one)), set(content(other))
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0


@dataclass
class Mind:
    """Every memory of one user, in all projects."""

    memories: list[Memory] = field(default_factory=list[Memory])
    decisions: list[Decision] = field(default_factory=list[Decision])
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def hear(self, text: str, *, project: str = "shop") -> list[Decision]:
        """Take in one prompt, and say what was decided."""
        fresh: list[Decision] = []
        for statement in extract(prompt(text, project=project)):
            near = [
                Neighbour(memory=m, similarity=similarity(statement.text, m.text))
                for m in self.live()
                if m.scope_name == "user" or m.scope.project == project
            ]
            fresh.append(decide(statement, near))
            self._apply(fresh[-1], project)
        self.decisions.extend(fresh)
        return fresh

    def live(self, *, scope: str | None = None, project: str | None = None) -> list[Memory]:
        """The memories that hold now."""
        return [
            m
            for m in self.memories
            if m.state == "live"
            and (scope is None or m.scope_name == scope)
            and (project is None or m.scope_name == "user" or m.scope.project == project)
        ]

    def _apply(self, decision: Decision, project: str) -> None:
        if isinstance(decision, Update | Delete):
            self.memories = [replace(m, state="superseded") if m.id in decision.old_ids else m for m in self.memories]
        if isinstance(decision, Add | Update):
            self.memories.append(memory_of(decision.statement, next(self._numbers), project=project))
