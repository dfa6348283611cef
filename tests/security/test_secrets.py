"""Secrets go before anything is written: a sample of the generator, and a real daemon whose files are searched.

The floors are those of the benchmark (`bench/redaction.py`), which counts each kind.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from filrouge.capture.intake import redact_completely
from filrouge.capture.redact import map_texts, redact
from filrouge.daemon import client
from tests.reliability.processes import (
    daemon,
    eventually,
    hook,
    prompt,
    quiet,
    reply,
    run,
    session_start,
    throw_away_home,
)
from tests.support.secret_lines import Line, benign, spoken, structured

SEED = 17
PASSES = pytest.mark.parametrize("cut", [redact, redact_completely])


def left(lines: Sequence[Line], cut: Callable[[str], str]) -> tuple[int, list[str]]:
    """How many secrets there are, and the lines in which one stays."""
    pairs = [(line, secret, cut(line.text)) for line in lines for secret in line.secrets]
    return len(pairs), [f"{line.text!r} -> {after!r}" for line, secret, after in pairs if secret in after]


@PASSES
def test_structured_secrets_go(cut: Callable[[str], str]) -> None:
    total, stayed = left(
        [*structured(SEED, "dev", 2), *structured(SEED, "held-out", 2), *structured(SEED, "unseen", 2)], cut
    )
    assert total > 600
    assert len(stayed) <= 0.02 * total, stayed


@PASSES
@pytest.mark.parametrize("language", ["en", "fr", "es"])
def test_spoken_secrets_go(cut: Callable[[str], str], language: str) -> None:
    lines = [*spoken(SEED, "dev", 3), *spoken(SEED, "held-out", 3)]
    total, stayed = left([line for line in lines if line.language == language], cut)
    assert total > 150
    assert len(stayed) <= 0.10 * total, stayed


@PASSES
@pytest.mark.parametrize("language", ["en", "fr", "es"])
def test_a_word_that_looks_like_a_secret_goes_in_any_wording(cut: Callable[[str], str], language: str) -> None:
    total, stayed = left([line for line in spoken(SEED, "unseen", 1) if line.language == language], cut)
    assert total > 120
    assert len(stayed) <= 0.10 * total, stayed


@PASSES
def test_harmless_lines_stay_as_they_are(cut: Callable[[str], str]) -> None:
    lines = [line.text for part in ("dev", "held-out", "unseen") for line in benign(SEED, part, 3)]
    changed = [f"{line!r} -> {cut(line)!r}" for line in lines if cut(line) != line]
    assert len(changed) <= 0.005 * len(lines), changed


@PASSES
def test_a_cut_text_is_cut_no_further_and_grows_by_no_more_than_its_masks(cut: Callable[[str], str]) -> None:
    for line in [*structured(SEED, "dev", 1), *spoken(SEED, "dev", 1)]:
        once = cut(line.text)
        assert cut(once) == once
        assert len(once) <= len(line.text) + once.count("[redacted:") * len("[redacted:url-credentials]")


def test_arguments_and_named_values_of_a_tool_call_are_cut() -> None:
    call = {
        "args": ["deploy", "--password", "hunter2", "--port", "8080"],
        "env": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "PORT", "value": "8080"}],
    }
    cut = map_texts(call, redact)
    assert "hunter2" not in str(cut)
    assert str(cut).count("8080") == 2


# --- the whole way: a hook, a daemon, every file ----------------------------------------------------------------------

QUESTIONS = (
    "Which password, token or key do we use for the staging box?",
    "Quel est le mot de passe du serveur de prod ?",
    "¿Cuál es la contraseña del servidor y el token del bot?",
)
HARMLESS = "We use PostgreSQL 16 for the billing service and deploy it on Fridays."


@dataclass(frozen=True, kw_only=True)
class Told:
    """A home whose hooks were given secrets, and what the hooks answered."""

    home: str
    secrets: tuple[str, ...]
    answers: tuple[str, ...]


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    """Ten secrets typed, ten printed by tools, ten repeated by the agent; then questions in another session."""
    rng = random.Random(SEED)
    lines = [*spoken(SEED, "dev", 1), *structured(SEED, "dev", 1)]
    chosen = [line for line in rng.sample(lines, 60) if all(len(secret) > 6 for secret in line.secrets)][:30]
    assert len(chosen) == 30
    with throw_away_home() as home, daemon(home):
        for number, line in enumerate(chosen):
            key = f"p{number}"
            if number % 3 == 0:
                payload = prompt(home, "s1", key, f"{HARMLESS} Remember: {line.text}" if number == 0 else line.text)
            elif number % 3 == 1:
                payload = _bash(home, key, line.text)
            else:
                payload = reply(home, "s1", key, f"Done. {line.text}")
            assert hook(home, payload).code == 0
        eventually("everything is understood", lambda: quiet(home))
        answers = [hook(home, session_start(home, "s2")).out]
        answers += [hook(home, prompt(home, "s2", f"q{n}", text)).out for n, text in enumerate(QUESTIONS)]
        answers += [run(home, *words).out for words in (("facts",), ("rules",), ("search", "password token"))]
        yield Told(home=home, secrets=tuple(one for line in chosen for one in line.secrets), answers=tuple(answers))


def _bash(home: str, number: str, text: str) -> dict[str, Any]:
    call = {"tool_name": "Bash", "tool_use_id": number, "tool_input": {"command": text}, "tool_response": text}
    return {**session_start(home, "s1"), "hook_event_name": "PostToolUse", **call}


def test_no_file_of_the_home_holds_a_secret(told: Told) -> None:
    files = {path: path.read_bytes().lower() for path in Path(told.home).rglob("*") if path.is_file()}
    assert any(path.name.endswith("-wal") for path in files)
    assert any(b"postgresql 16" in content for content in files.values())
    found = [
        (path.name, secret)
        for secret in told.secrets
        for path, all_of in files.items()
        if secret.lower().encode() in all_of
    ]
    assert found == []


def test_no_later_session_is_shown_a_secret_or_a_gap_in_its_place(told: Told) -> None:
    shown = "\n".join(told.answers)
    assert [secret for secret in told.secrets if secret in shown] == []
    memories: Any = client.request(told.home, "GET", "/api/memory/memories?limit=1000").body
    texts = [str(one["text"]) for one in memories]
    assert not [text for text in texts if "[redacted:" in text or " es ," in text]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/memory/extract", {"messages": [{"role": "user", "content": "El token del bot es {}, guárdalo"}]}),
        ("/memory/extract", {"messages": "Human: the password for the staging box is {}"}),
        ("/api/memory/facts", {"key": "db_password", "value": "{}"}),
        ("/api/memory/facts", {"items": [{"text": "the db password is {}"}]}),
        ("/api/memory/rules", {"text": "Always log in with the password {}"}),
    ],
)
def test_a_statement_whose_value_is_masked_is_no_memory(told: Told, path: str, body: dict[str, Any]) -> None:
    secret = "Zebra4hunter9x2"
    filled = _filled(body, secret)
    before = client.request(told.home, "GET", "/api/memory/memories?limit=1000").body
    answer = client.request(told.home, "POST", path, filled)
    assert secret not in str(answer.body)
    if answer.status != 200:
        assert "contains a secret" in str(answer.body)
    assert client.request(told.home, "GET", "/api/memory/memories?limit=1000").body == before


def test_remembering_a_secret_by_hand_is_refused_with_a_message(told: Told) -> None:
    done = run(told.home, "remember", "the password for the staging box is hunter2")
    assert done.code == 2
    assert "contains a secret" in done.out + done.err
    assert "hunter2" not in done.out + done.err


def _filled(value: Any, secret: str) -> Any:
    if isinstance(value, str):
        return value.replace("{}", secret)
    if isinstance(value, list):
        return [_filled(one, secret) for one in cast("list[Any]", value)]
    return {key: _filled(one, secret) for key, one in cast("dict[str, Any]", value).items()}
