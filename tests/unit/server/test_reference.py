"""The reference of the API is what the document says and what a daemon answers; each of its examples is sent."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from tests.support.api_examples import EXAMPLES
from tests.support.api_reference import ANSWERS, LISTENING, PAGE, ask_all, kept, operations, page

from .conftest import Api, serving

ANSWERED: dict[str, Any] = json.loads(ANSWERS.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with serving(str(tmp_path_factory.mktemp("reference")), LISTENING) as found:
        yield found


def test_every_operation_has_one_example_that_is_shown(api: Api) -> None:
    described = [operation["operationId"] for _, _, operation in operations(api.contract.document)]
    assert sorted(one.operation for one in EXAMPLES if one.shown) == sorted(described)
    assert sorted(ANSWERED) == sorted(described)


def test_the_page_is_made_of_the_document_and_the_examples(api: Api) -> None:
    made = page(api.contract.document, ANSWERED)
    assert made == PAGE.read_text(encoding="utf-8"), "The API has changed: `make docs` writes its reference again."


def test_every_tag_of_the_document_says_what_it_is_about(api: Api) -> None:
    assert [tag["name"] for tag in api.contract.document["tags"] if not tag["description"]] == []


def test_every_example_is_answered_as_the_reference_shows(api: Api) -> None:
    for asked in ask_all(api.home, api.parts, api.contract.document):
        where = f"{asked.method} {asked.path}"
        assert asked.status == asked.example.status, f"{where}: {asked.status} {asked.value}"
        api.contract.check(asked.method, asked.path, asked.status, asked.value, asked.kind)
        if asked.example.shown:
            assert _shape(kept(asked)) == _shape(ANSWERED[asked.example.operation]), where
    assert api.asked_to_leave.is_set()


def _shape(answer: Any) -> Any:
    """The fields of an answer, or of the first row of a list; of a text, that it is one."""
    first = answer[0] if isinstance(answer, list) and answer else answer  # pyright: ignore[reportUnknownVariableType]
    return sorted(first) if isinstance(first, dict) else type(first)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
