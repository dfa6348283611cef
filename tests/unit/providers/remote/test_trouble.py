"""Servers that are slow, gone, busy or hostile: an error with its cause in time, nothing believed, no secret told."""

from __future__ import annotations

import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from threading import Event

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filrouge.core.errors import EmbedderUnavailable
from filrouge.providers.embedders import EmbedderOptions
from filrouge.providers.remote_embedders import RemoteEmbedder
from tests.support.tiers import examples
from tests.unit.providers.remote.test_services import asking, opened
from tests.unit.providers.servers import Asked, Told, as_json, ollama, serving, trickle, unit

TEXT = "the production database listens on 5433"


def reply(*vectors: object) -> bytes:
    return json.dumps({"embeddings": vectors}).encode()


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"<html>login</html>", "not JSON"),
        (b'{"embeddings": [[1.0, 2.0', "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b"[1, 2]", "not a list of vectors"),
        (b"null", "not a list of vectors"),
        (b'{"embeddings": null}', "not a list of vectors"),
        (b'{"data": [[1, 2, 3, 4]]}', "not a list of vectors"),
        (reply(), "0 vectors for 1 texts"),
        (reply([1, 2, 3, 4], [1, 2, 3, 4]), "2 vectors for 1 texts"),
        (reply([1, 2, 3]), "length 3 instead of 4"),
        (reply([]), "not a list of numbers"),
        (reply(5), "not a list of numbers"),
        (reply(["a", "b", "c", "d"]), "not a list of numbers"),
        (reply([1, 2, 3, None]), "not finite"),
        (reply([[1], [2], [3], [4]]), "not a list of numbers"),
        (reply([1, 2, 3, {"a": 4}]), "not a list of numbers"),
        (reply([10**400, 1, 1, 1]), "not a list of numbers"),
        (b'{"embeddings": [[NaN, 1, 1, 1]]}', "not finite"),
        (b'{"embeddings": [[1e999, 1, 1, 1]]}', "not finite"),
        (reply([0, 0, 0, 0]), "vector of zeros"),
    ],
)
def test_a_worthless_answer_is_named_and_never_used(body: bytes, cause: str) -> None:
    with (
        asking("ollama:mine", lambda _: Told(body=body), dimensions=4) as (model, server),
        pytest.raises(EmbedderUnavailable, match=cause),
    ):
        model.query(TEXT)
    assert len(server.asked) == 1


def test_one_bad_vector_spoils_the_whole_call() -> None:
    answers = iter([reply(*[[1, 2, 3, 4]] * 32), reply([1, 2, 3, 4], [float("nan")] * 4)])
    with (
        asking("ollama:mine", lambda _: Told(body=next(answers)), dimensions=4) as (model, _),
        pytest.raises(EmbedderUnavailable, match="not finite"),
    ):
        model.passages([TEXT] * 34)


@pytest.mark.parametrize("numbers", [[1e300, 1e300, 0, 0], [1e-320, 0, 0, 0], [3, 4, 0, 0]])
def test_numbers_of_any_size_become_unit_vectors(numbers: list[float]) -> None:
    with asking("ollama:mine", lambda _: Told(body=reply(numbers)), dimensions=4) as (model, _):
        assert float(np.linalg.norm(model.query(TEXT))) == pytest.approx(1.0, abs=1e-5)


def test_places_that_are_missing_or_double_are_refused() -> None:
    for places in ([0, 0], [1, 2], [0, None]):
        data = [{"index": place, "embedding": [1, 2, 3, 4]} for place in places]
        with (
            asking("openai:mine", lambda _, data=data: as_json({"data": data}), dimensions=4) as (model, _),
            pytest.raises(EmbedderUnavailable, match="not a list of vectors"),
        ):
            model.passages(["a", "b"])


def test_ten_megabytes_are_not_read_to_their_end() -> None:
    sent: list[int] = []

    def megabytes() -> object:
        for number in range(200):
            sent.append(number)
            yield b" " * 1_000_000

    told = Told(headers={"Content-Length": str(200_000_000)}, chunks=megabytes())  # pyright: ignore[reportArgumentType]
    with (
        asking("ollama:mine", lambda _: told, dimensions=4) as (model, _),
        pytest.raises(EmbedderUnavailable, match=r"more than \d+ bytes"),
    ):
        model.query(TEXT)
    assert len(sent) < 50


@pytest.mark.parametrize("begun", [False, True])
def test_a_question_ends_in_time_whether_the_server_hangs_or_trickles(begun: bool) -> None:
    done = Event()

    def answer(_: Asked) -> Told:
        if not begun:
            done.wait(10)
        return Told(headers={"Content-Length": "100000"}, chunks=trickle(done.is_set))

    with asking("ollama:mine", answer, dimensions=4, query_seconds=0.4) as (model, _):
        start = time.monotonic()
        with pytest.raises(EmbedderUnavailable, match=r"did not answer within 0\.4 s"):
            model.query(TEXT)
        assert 0.3 < time.monotonic() - start < 8
        done.set()


def test_two_seconds_are_the_longest_a_prompt_is_held() -> None:
    assert EmbedderOptions().query_seconds == 2.0


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
def test_an_outage_is_tried_again(status: int) -> None:
    answers = iter([Told(status), Told(status)])
    with asking("ollama:mine", lambda asked: next(answers, None) or ollama(4)(asked), dimensions=4) as (model, server):
        np.testing.assert_allclose(model.passages([TEXT])[0], unit(TEXT, 4), atol=1e-6)
        assert len(server.asked) == 3


def test_a_connection_that_breaks_off_is_tried_again() -> None:
    answers = iter([Told(headers={"Content-Length": "1000"}, chunks=[b'{"embeddings": [[1'])])
    with asking("ollama:mine", lambda asked: next(answers, None) or ollama(4)(asked), dimensions=4) as (model, server):
        assert model.passages([TEXT]).shape == (1, 4)
        assert len(server.asked) == 2


@pytest.mark.parametrize(("status", "cause"), [(400, "refused"), (401, "key"), (403, "key"), (404, "does not know")])
def test_a_refusal_is_never_tried_again(status: int, cause: str) -> None:
    with asking("ollama:mine", lambda _: Told(status), dimensions=4) as (model, server):
        with pytest.raises(EmbedderUnavailable, match=rf"{cause}.*{status}") as caught:
            model.passages([TEXT])
        assert caught.value.remedy
        assert len(server.asked) == 1


def test_the_pause_that_the_server_asks_for_is_kept() -> None:
    answers = iter([Told(429, headers={"Retry-After": "1"})])
    with asking("ollama:mine", lambda asked: next(answers, None) or ollama(4)(asked), dimensions=4) as (model, _):
        start = time.monotonic()
        model.passages([TEXT])
        assert time.monotonic() - start >= 1.0


@pytest.mark.parametrize("after", ["3600", "a date in an hour", "inf"])
def test_a_pause_longer_than_anybody_waits_is_an_error_at_once(after: str) -> None:
    if after == "a date in an hour":
        after = format_datetime(datetime.now(UTC) + timedelta(hours=1))
    with asking("ollama:mine", lambda _: Told(429, headers={"Retry-After": after}), dimensions=4) as (model, server):
        start = time.monotonic()
        with pytest.raises(EmbedderUnavailable, match="answered 429"):
            model.passages([TEXT])
        assert time.monotonic() - start < 30
        assert len(server.asked) == 1


def test_credit_that_is_used_up_is_said_and_not_tried_again() -> None:
    told = as_json({"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}, 429)
    with (
        asking("openai:mine", lambda _: told, dimensions=4) as (model, server),
        pytest.raises(EmbedderUnavailable, match="credit is used up"),
    ):
        model.passages([TEXT])
    assert len(server.asked) == 1


def test_after_failures_in_a_row_questions_fail_at_once_until_the_rest_is_over() -> None:
    well = Event()

    def answer(asked: Asked) -> Told:
        return ollama(4)(asked) if well.is_set() else Told(401)

    with asking("ollama:mine", answer, dimensions=4, rest_seconds=0.3) as (model, server):
        for _ in range(3):
            with pytest.raises(EmbedderUnavailable):
                model.query(TEXT)
        for _ in range(50):
            with pytest.raises(EmbedderUnavailable, match="tried again in 1 s"):
                model.query(TEXT)
        assert len(server.asked) == 3
        well.set()
        time.sleep(0.35)
        assert model.query(TEXT).shape == (4,)
        assert model.query(TEXT).shape == (4,)


def test_a_health_check_ends_the_rest() -> None:
    well = Event()
    with asking("ollama:mine", lambda asked: ollama(4)(asked) if well.is_set() else Told(403), dimensions=4) as (
        model,
        _,
    ):
        for _ in range(3):
            with pytest.raises(EmbedderUnavailable):
                model.query(TEXT)
        well.set()
        model.check()
        assert model.query(TEXT).shape == (4,)


def test_a_server_that_is_not_there_is_named() -> None:
    with serving(ollama(4)) as server:
        pass
    with (
        opened("ollama:mine", EmbedderOptions(url=server.address, dimensions=4)) as model,
        pytest.raises(EmbedderUnavailable, match=r"Ollama \(127\.0\.0\.1:\d+\) cannot be reached") as caught,
    ):
        model.query(TEXT)
    assert "No data is lost" in caught.value.remedy


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
@pytest.mark.parametrize(
    "said", ["Incorrect key sk-open-sesame", f"cannot embed: {TEXT}", f"bad input '{TEXT[4:30]}'", "é" * 5000]
)
def test_neither_key_nor_text_is_in_errors_or_logs(status: int, said: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told = as_json({"error": {"message": said}}, status, Retry_After="0")
    with asking("openai:mine", lambda _: told, dimensions=4) as (model, _):
        with pytest.raises(EmbedderUnavailable) as caught:
            model.query(TEXT)
        causes = [caught.value, caught.value.__cause__, caught.value.__context__]
        shown = " ".join([*map(repr, causes), caught.value.remedy, repr(model), repr(model.space), caplog.text])
    assert "sesame" not in shown
    assert TEXT[4:30] not in shown
    assert len(caught.value.message) < 400


def test_what_a_server_says_helps_where_it_is_no_secret() -> None:
    told = as_json({"error": 'model "mine" not found, try pulling it first'}, 404)
    with (
        asking("ollama:mine", lambda _: told, dimensions=4) as (model, _),
        pytest.raises(EmbedderUnavailable, match="try pulling it first"),
    ):
        model.query(TEXT)


def test_options_do_not_show_the_environment() -> None:
    assert "sesame" not in repr(EmbedderOptions(environ={"OPENAI_API_KEY": "sk-open-sesame"}))


def test_questions_and_passages_at_once_have_their_own_vectors() -> None:
    with asking("ollama:mine", ollama(8), dimensions=8) as (model, _):
        texts = [f"text {number}" for number in range(40)]
        with ThreadPoolExecutor(8) as pool:
            questions = list(pool.map(model.query, texts))
            batches = list(pool.map(model.passages, [[text, "same"] for text in texts]))
        np.testing.assert_allclose(questions, [unit(text, 8) for text in texts], atol=1e-6)
        np.testing.assert_allclose([batch[0] for batch in batches], [unit(text, 8) for text in texts], atol=1e-6)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["embeddings", "data", "embedding", "index", "usage", "error"]), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON, st.sampled_from([200, 400, 404]))
def test_any_json_gives_a_unit_vector_or_an_error_with_its_cause(
    anything_goes: _Anything, body: object, status: int
) -> None:
    model = anything_goes.model
    anything_goes.body, anything_goes.status = json.dumps(body).encode(), status
    try:
        found = model.query(TEXT)
    except EmbedderUnavailable:
        return
    assert float(np.linalg.norm(found)) == pytest.approx(1.0, abs=1e-5)


class _Anything:
    model: RemoteEmbedder
    body = b""
    status = 200


@pytest.fixture(scope="module", params=["ollama:mine", "openai:mine"])
def anything_goes(request: pytest.FixtureRequest) -> object:
    found = _Anything()
    with asking(request.param, lambda _: Told(found.status, found.body), dimensions=2, rest_seconds=0.0) as (model, _):
        found.model = model
        yield found
