"""`filrouge extract`: a text from the command line or standard input is understood at once."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.shell import typed
from tests.unit.server.conftest import Api, serving

PORT = "For the record: production listens on port 8443."


@pytest.fixture
def api(tmp_path: Path) -> Generator[Api]:
    with serving(str(tmp_path)) as found:
        yield found


def extract(api: Api, *words: str, said: str = "") -> tuple[int, str, str]:
    ended = typed("extract", *words, environ={**os.environ, "FILROUGE_HOME": api.home}, said=said)
    return ended.code, ended.out, ended.err


def test_a_text_of_standard_input_is_understood_under_its_source(api: Api) -> None:
    code, out, _ = extract(api, "--source", "openclaw/shop", "--json", said=PORT)
    assert (code, json.loads(out)["stored_count"]) == (0, 1)
    [fact] = api.get("/api/memory/facts")
    assert (fact["channel"], fact["project_name"]) == ("openclaw", "shop")
    code, out, _ = extract(api, "--source", "openclaw/shop", said=PORT)
    assert (code, out) == (0, "0 statements read: 0 stored, 0 updated, 0 deleted.\n")


def test_without_a_text_it_says_who_understands_and_off_is_an_error(api: Api) -> None:
    assert extract(api)[:2] == (
        0,
        "heuristic rules (normal): healthy\nToday: 0 calls, 0 of 200000 tokens, 0.0000 dollars.\n",
    )
    assert extract(api, PORT, "--dead")[0] == 2
    api.ask("PATCH", "/api/memory/settings", {"extract_provider": "off"})
    code, _, err = extract(api, PORT)
    assert (code, "switched off" in err) == (1, True)
