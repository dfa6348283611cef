"""The log: one line a record in either form, and what an exception quotes is not in it."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.core.errors import BadInput, NotFound, StoreError
from filrouge.core.paths import LOG
from filrouge.daemon.process import JsonLines, PlainLines, last_lines, new_lines, parse_lines

CANARY = "marzipan-otter"
FORMS = (PlainLines(), JsonLines())


def record(message: str, error: BaseException | None = None, name: str = "filrouge.part") -> logging.LogRecord:
    about = (type(error), error, error.__traceback__) if error else None
    return logging.LogRecord(name, logging.INFO, __file__, 1, "%s", (message,), about)


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as found:
        return found


@given(st.text())
def test_every_record_is_one_line_that_can_be_read_again(message: str) -> None:
    for form in FORMS:
        line = form.format(record(message))
        assert "\n" not in line
        assert "\r" not in line
        [found] = parse_lines([line])
        assert (found["level"], found["logger"]) == ("INFO", "filrouge.part")
    assert json.loads(JsonLines().format(record(message)))["message"] == message


@pytest.mark.parametrize("form", FORMS)
def test_what_a_foreign_exception_quotes_is_not_logged_but_its_kind_its_place_and_its_cause(
    form: logging.Formatter,
) -> None:
    error = raised(ValueError(CANARY), raised(KeyError(CANARY)))
    line = form.format(record("it failed", error))
    assert CANARY not in line
    assert "ValueError at daemon/test_logs.py" in line
    assert "<- KeyError at daemon/test_logs.py" in line


def test_our_own_errors_are_told_with_their_message_and_the_engines_are_not() -> None:
    told = [PlainLines().format(record("no", raised(one))) for one in (BadInput("Say more."), StoreError(CANARY))]
    assert "BadInput (Say more.)" in told[0]
    assert CANARY not in told[1]
    assert "OSError (No such file or directory)" not in told[1]
    assert "FileNotFoundError (No such file or directory)" in PlainLines().format(
        record("no", raised(FileNotFoundError(2, "x", CANARY)))
    )


def test_a_chain_without_an_end_is_cut() -> None:
    error = raised(ValueError())
    for _ in range(50):
        error = raised(RuntimeError(), error)
    assert PlainLines().format(record("deep", error)).count("<-") < 10


def test_the_newest_lines_come_from_older_files_too(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        last_lines(str(tmp_path), 3)
    (tmp_path / f"{LOG}.2").write_text("1\n2\n")
    (tmp_path / f"{LOG}.1").write_text("3\n4\n")
    (tmp_path / LOG).write_text("5\n")
    for number in range(7):
        assert last_lines(str(tmp_path), number) == ["1", "2", "3", "4", "5"][max(0, 5 - number) :]


def test_what_is_written_is_followed_across_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / LOG
    path.write_text("before\n")
    coming = new_lines(str(tmp_path))
    assert next(coming) is None
    with path.open("a") as file:
        file.write("one\ntw")
    assert next(coming) == "one"
    with path.open("a") as file:
        file.write("o\n")
    assert next(one for one in coming if one) == "two"
    os.rename(path, tmp_path / f"{LOG}.1")
    path.write_text("three\n")
    assert next(one for one in coming if one) == "three"


def test_a_line_of_another_hand_is_a_message_alone() -> None:
    assert parse_lines(["Timeout (0:00:25)!", "{broken"]) == [
        {"time": None, "level": None, "logger": None, "message": "Timeout (0:00:25)!"},
        {"time": None, "level": None, "logger": None, "message": "{broken"},
    ]
