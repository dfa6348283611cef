# ruff: noqa: E501
"""Which turns are passed over, and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.capture.intake import skip_reason


@pytest.mark.parametrize(
    "text",
    [
        "The port is 9443 now", "Use uv, never pip", "On garde SQLite", "Je m'appelle Ana", "No, it's Tom Okafor",
        "config is in etc/app.toml", "node 22.1", "we chose Redis", "Oublie Typst.", "nunca en viernes", "always squash",
        "The main branch is now main.", "Les migrations se lancent avec alembic.", "My favourite colour is blue.",
        "J'utilise zsh.", "Stop adding comments to obvious code.", "Ask me before you delete any file.",
        "Staging runs on Fly.io in region cdg, and we deploy it with `make ship-staging`.",
        "Which package manager do we use in this repo, and why?",
    ],
)  # fmt: skip
def test_a_turn_that_says_something_is_analysed_however_short(text: str) -> None:
    assert skip_reason(text, "prompt") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("...!?", "punctuation only"),
        ("👍", "punctuation only"),
        ("ok", "small talk"),
        ("Merci beaucoup !", "small talk"),
        ("d'accord, bien", "small talk"),
        ("muchas gracias", "small talk"),
        ("lol ok nice", "small talk"),
        ("thanks! going for lunch, back in an hour", "small talk"),
        ("hey, good morning! did you sleep well?", "small talk"),
        ("one last check", "too short"),
        ("regarde encore une fois", "too short"),
        ('{"filePath": "/a.py", "oldTodos": [], "newTodos": []}', "tool noise"),
        ('{"continue": true}', "tool noise"),
        ("<task-notification>\n<task-id>a</task-id></task-notification>", "written by the host"),
        ("<local-command-stdout>Set model</local-command-stdout>", "written by the host"),
        ("<command-name>/compact</command-name>", "written by the host"),
        ("<environment_context><cwd>/srv</cwd></environment_context>", "written by the host"),
        ("<system-reminder>always</system-reminder>", "written by the host"),
        (
            "This session is being continued from a previous conversation that ran out of context.",
            "written by the host",
        ),
        ("/compact", "written by the host"),
    ],
)
def test_a_turn_that_says_nothing_is_passed_over_with_its_reason(text: str, reason: str) -> None:
    assert skip_reason(text, "prompt") == reason


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_gets_an_answer(text: str) -> None:
    assert isinstance(skip_reason(text, "prompt"), str)
