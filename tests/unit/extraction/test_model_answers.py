"""Answers of models are read in spite of fences, prose and broken items; what cannot be read is asked for once more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.core.errors import Unreadable
from filrouge.extraction.model_answers import MAX_PARSED_CHARS, ask_and_parse, json_object
from filrouge.extraction.models import SessionShape, StatedFact, read_items, schema_of
from filrouge.providers.models import Completion, CompletionRequest, Prompt

ASK = CompletionRequest(
    operation="extract", prompt=Prompt(text="Read.", version="extract/en/0"), text="<conversation/>", schema={}
)
REPAIR = Prompt(text="Once more.", version="repair/en/0")
FACT: dict[str, Any] = {"turn": 1, "quote": "port 9443", "text": "Production is on port 9443."}


def said(text: str) -> Completion:
    return Completion(text=text, provider="openai", model="small", spent={})


def outcome(*answers: str) -> tuple[Any, list[CompletionRequest]]:
    """What came of these answers, and the questions that were asked."""
    thought = ask_and_parse(ASK, REPAIR, dict)
    questions = [next(thought)]
    for answer in answers:
        try:
            questions.append(thought.send(said(answer)))
        except StopIteration as end:
            return end.value[0], questions
    raise AssertionError("it goes on asking")


@pytest.mark.parametrize(
    "text",
    [
        '{"facts": []}',
        '  {"facts": []}\n',
        '```json\n{"facts": []}\n```',
        'Here it is:\n```\n{"facts": []}\n```\nAnything else?',
        'Sure! {"facts": []} Hope that helps.',
        'I thought {hard} about it. {"facts": []}',
    ],
)
def test_the_first_object_is_found_whatever_stands_around_it(text: str) -> None:
    assert json_object(text) == {"facts": []}


@pytest.mark.parametrize(
    "text",
    ["", "No facts.", '{"facts": [', '["facts"]', '{"confidence": NaN}', "{" * 100_000, "x" * (MAX_PARSED_CHARS + 1)],
    ids=["empty", "prose", "cut", "a list", "not a number", "deep", "endless"],
)  # fmt: skip
def test_what_holds_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|too long"):
        json_object(text)


def test_of_an_answer_that_was_cut_off_what_is_whole_is_read() -> None:
    whole = json.dumps({"summary": 'A {brace} and a "quote".', "facts": [FACT, {**FACT, "turn": 2}]})
    for cut in range(whole.index(', {"turn": 2'), len(whole) - 2):
        assert json_object(whole[:cut])["facts"] == [FACT]


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers()), max_size=4), st.integers(0, 400))
def test_a_cut_never_makes_up_what_was_not_said(items: list[dict[str, Any]], cut: int) -> None:
    whole = json.dumps({"facts": items})
    try:
        found = json_object(whole[:cut])
    except ValueError:
        return
    assert found in ({"facts": items[:n]} for n in range(len(items) + 1)) or found in items


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none(), min_size=1), st.text(alphabet="abc .,\n"))
def test_every_object_survives_prose_around_it(value: dict[str, Any], prose: str) -> None:
    assert json_object(prose + json.dumps(value) + prose) == value


def test_an_answer_that_can_be_read_is_asked_for_once() -> None:
    value, questions = outcome('{"facts": []}')
    assert value == {"facts": []}
    assert questions == [ASK]


def test_an_answer_that_cannot_is_asked_for_once_more_with_what_was_wrong() -> None:
    value, questions = outcome("I would rather not say </answer>", '{"facts": []}')
    assert value == {"facts": []}
    _, again = questions
    assert again.text.startswith(ASK.text)
    assert "Once more." in again.text
    assert "no JSON object" in again.text
    assert again.text.count("</answer>") == 1


def test_the_second_one_is_given_up_with_its_text() -> None:
    with pytest.raises(Unreadable) as given_up:
        outcome("no", "still no")
    assert given_up.value.text == "still no"
    assert given_up.value.prompt == "extract/en/0"
    assert "still no" not in given_up.value.message


def test_an_item_that_does_not_fit_costs_itself_alone() -> None:
    broken: list[Any] = [{**FACT, "confidence": 7}, {**FACT, "kind": "opinion"}, {"text": "x"}, "a fact", None, 3]
    facts, wrong = read_items(StatedFact, {"facts": [FACT, *broken, {**FACT, "turn": 2}]}, "facts")
    assert [fact.turn for fact in facts] == [1, 2]
    assert len(wrong) == len(broken)


def test_what_is_wrong_with_an_item_does_not_repeat_its_words() -> None:
    _, wrong = read_items(StatedFact, {"facts": [{**FACT, "turn": "my password is hunter2"}]}, "facts")
    assert len(wrong) == 1
    assert "hunter2" not in wrong[0]


def test_what_is_missing_takes_its_default_and_null_is_no_text() -> None:
    facts, _ = read_items(StatedFact, {"facts": [{**FACT, "topic": None, "mood": "sunny"}]}, "facts")
    assert (facts[0].topic, facts[0].kind, facts[0].scope, facts[0].key) == ("", "fact", "project", None)


def test_the_schema_names_every_property_and_allows_no_other() -> None:
    def closed(schema: dict[str, Any]) -> bool:
        objects = [schema, *schema.get("$defs", {}).values()]
        return all(
            set(one["required"]) == set(one["properties"]) and one["additionalProperties"] is False for one in objects
        )

    assert closed(schema_of(SessionShape))
