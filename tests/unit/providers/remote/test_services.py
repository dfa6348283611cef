"""What is sent to each service, what is believed of its answers, and what it costs."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from filrouge.core.errors import BadConfig, EmbedderUnavailable
from filrouge.core.protocols import HealthChecked
from filrouge.providers.embedders import WINDOW_TOKENS, EmbedderOptions, create_embedder, estimated_tokens
from filrouge.providers.models import EmbeddingUsage
from filrouge.providers.remote_embedders import RemoteEmbedder
from tests.unit.providers.servers import Answering, Asked, Server, Told, ollama, openai, serving, unit

KEYS = {"OPENAI_API_KEY": "sk-open-sesame", "VOYAGE_API_KEY": "pa-open-sesame"}


@contextmanager
def asking(name: str, answer: Answering, **options: Any) -> Generator[tuple[RemoteEmbedder, Server]]:
    with serving(answer) as server:
        wanted = replace(EmbedderOptions(url=server.address, environ=KEYS), **options)
        with opened(name, wanted) as model:
            yield model, server


@contextmanager
def opened(name: str, options: EmbedderOptions) -> Generator[RemoteEmbedder]:
    model = create_embedder(name, options)
    assert isinstance(model, RemoteEmbedder)
    with closing(model):
        yield model


def test_openai_is_asked_with_key_and_model_and_answers_are_put_in_order_and_made_unit() -> None:
    with asking("openai:text-embedding-3-small", openai(1536)) as (model, server):
        found = model.passages(["one", "two", ""])
        np.testing.assert_allclose(found, [unit(text, 1536) for text in ("one", "two", ".")], atol=1e-6)
        assert found.dtype == np.float32
        (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/v1/embeddings")
    assert asked.headers["Authorization"] == "Bearer sk-open-sesame"
    assert asked.json == {
        "model": "text-embedding-3-small", "input": ["one", "two", "."], "encoding_format": "float"
    }  # fmt: skip


def test_voyage_is_told_what_is_a_question() -> None:
    with asking("voyage:voyage-3.5-lite", openai(1024), dimensions=256) as (model, server):
        np.testing.assert_allclose(model.query("where?"), unit("where?", 256), atol=1e-6)
        model.passages(["there"])
        kinds = [(asked.path, asked.json["input_type"], asked.json["output_dimension"]) for asked in server.asked]
        assert kinds == [("/embeddings", "query", 256), ("/embeddings", "document", 256)]
        assert {asked.headers["Authorization"] for asked in server.asked} == {"Bearer pa-open-sesame"}


def test_ollama_gets_the_words_its_model_was_trained_with_and_never_a_key() -> None:
    with asking("ollama:nomic-embed-text:latest", ollama(768)) as (model, server):
        np.testing.assert_allclose(model.query("where?"), unit("search_query: where?", 768), atol=1e-6)
        np.testing.assert_allclose(model.passages(["there"])[0], unit("search_document: there", 768), atol=1e-6)
        assert {asked.path for asked in server.asked} == {"/api/embed"}
        assert not any("Authorization" in asked.headers for asked in server.asked)


def test_the_address_of_ollama_comes_from_its_variable_without_the_trailing_slash() -> None:
    with serving(ollama(384)) as server:
        environ = {"OLLAMA_URL": f" {server.address}/ "}
        with opened("ollama:all-minilm", EmbedderOptions(environ=environ)) as model:
            model.query("where?")
        assert [asked.path for asked in server.asked] == ["/api/embed"]


@pytest.mark.parametrize(
    ("given", "path"),
    [("", "/v1/embeddings"), ("/", "/v1/embeddings"), ("/v1/", "/v1/embeddings"), ("/v1/embeddings", "/v1/embeddings"),
     ("/gateway/openai", "/gateway/openai/embeddings")],
)  # fmt: skip
def test_a_server_that_speaks_openai_may_be_named_in_any_usual_way(given: str, path: str) -> None:
    with serving(openai(8)) as server:
        with opened("openai:some-model", EmbedderOptions(url=server.address + given, dimensions=8)) as model:
            model.query("where?")
        assert [asked.path for asked in server.asked] == [path]
        assert "Authorization" not in server.asked[0].headers


@pytest.mark.parametrize(
    ("name", "dimensions", "space"),
    [
        ("openai:text-embedding-3-small", 0, "openai/text-embedding-3-small/1536/service/none"),
        ("openai:text-embedding-3-large", 256, "openai/text-embedding-3-large/256/service/none"),
        ("voyage:voyage-3.5", 0, "voyage/voyage-3.5/1024/service/input-type"),
        ("ollama:nomic-embed-text", 0, "ollama/nomic-embed-text/768/service/search-query-document"),
        ("ollama:my-own", 100, "ollama/my-own/100/service/none"),
    ],
)
def test_the_space_of_a_known_model_is_known_without_a_call(name: str, dimensions: int, space: str) -> None:
    model = create_embedder(name, EmbedderOptions(environ=KEYS, dimensions=dimensions))
    assert model.space.id == space
    assert model.space.dimension == int(space.split("/")[2])
    assert model.passages([]).shape == (0, model.space.dimension)


def test_the_length_of_an_unknown_model_is_learned_by_one_call_and_then_fixed() -> None:
    lengths = iter([48, 48, 64])
    with asking("ollama:my-own", lambda asked: ollama(next(lengths))(asked)) as (model, server):
        assert model.space.dimension == model.space.dimension == 48
        assert [asked.json["input"] for asked in server.asked] == [["ready?"]]
        assert model.query("where?").shape == (48,)
        with pytest.raises(EmbedderUnavailable, match="length 64 instead of 48; the two are never mixed"):
            model.query("where?")


def test_many_texts_go_in_requests_that_fit_by_count_and_by_size() -> None:
    with asking("openai:mine", openai(4), dimensions=4) as (model, server):
        texts = [f"text {number}" for number in range(150)]
        np.testing.assert_allclose(model.passages(texts), [unit(text, 4) for text in texts], atol=1e-6)
        assert [len(asked.json["input"]) for asked in server.asked] == [64, 64, 22]
        server.asked.clear()
        model.passages(["é" * 1000] * 64)
        sizes = [sum(len(text.encode()) for text in asked.json["input"]) for asked in server.asked]
        assert max(sizes) <= 64_000
        assert sum(sizes) == 128_000


def test_a_long_text_is_the_mean_of_its_parts_so_its_end_counts() -> None:
    with asking("ollama:mine", ollama(16), dimensions=16) as (model, server):
        body = "The harbour was calm. " * 200
        one, other, same = model.passages(
            [body + "The port is 9443.", body + "The port is 80.", body + "The port is 80."]
        )
        assert 0.5 < float(one @ other) < 0.99999
        assert float(other @ same) == pytest.approx(1.0)
        assert max(estimated_tokens(text) for asked in server.asked for text in asked.json["input"]) <= WINDOW_TOKENS


def test_odd_texts_can_be_sent() -> None:
    with asking("ollama:mine", ollama(16), dimensions=16) as (model, _):
        found = model.passages(["", " \n", "\x00", "\ud800", "👩‍👩‍👧‍👦" * 500, "é"])
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)


def test_cost_is_what_the_service_counted_and_is_told_and_summed() -> None:
    told: list[EmbeddingUsage] = []
    with asking("ollama:mine", ollama(4, tokens=7), dimensions=4, spent=told.append) as (model, _):
        model.query("where?")
        model.passages(["a", "b"])
        assert told == [
            EmbeddingUsage(requests=1, texts=1, tokens=7, dollars=0.0),
            EmbeddingUsage(requests=1, texts=2, tokens=7, dollars=0.0),
        ]
        assert model.usage == EmbeddingUsage(requests=2, texts=3, tokens=14, dollars=0.0)


def test_what_is_not_counted_is_estimated_and_marked_and_an_unknown_price_stays_unknown() -> None:
    with asking("openai:text-embedding-3-small", openai(1536)) as (model, _):
        model.passages(["x" * 400])
        assert model.usage == EmbeddingUsage(requests=1, texts=1, tokens=101, estimated=True, dollars=None)


def test_sums_of_usage_know_what_they_do_not_know() -> None:
    known = EmbeddingUsage(requests=1, texts=2, tokens=1_000_000, dollars=0.02)
    assert known + known == EmbeddingUsage(requests=2, texts=4, tokens=2_000_000, dollars=0.04)
    assert (known + EmbeddingUsage(requests=1, estimated=True, dollars=None)).dollars is None


@pytest.mark.parametrize(
    ("name", "variable"), [("openai:text-embedding-3-small", "OPENAI_API_KEY"), ("voyage:voyage-3.5", "VOYAGE_API_KEY")]
)
def test_a_missing_key_is_named_and_the_key_of_another_provider_does_not_serve(name: str, variable: str) -> None:
    others = {key: value for key, value in KEYS.items() if key != variable}
    with pytest.raises(BadConfig, match=f"{variable} is not set"):
        create_embedder(name, EmbedderOptions(environ=others))


def test_a_key_goes_to_no_other_machine_unencrypted() -> None:
    options = EmbedderOptions(url="http://embeddings.example", environ=KEYS)
    with pytest.raises(BadConfig, match="unencrypted"):
        create_embedder("voyage:voyage-3.5", options)
    model = create_embedder("openai:mine", options)
    assert isinstance(model, RemoteEmbedder)
    assert "The embedding server (embeddings.example)" in repr(model)


def test_a_key_with_the_end_of_a_line_inside_is_refused_without_being_shown() -> None:
    with pytest.raises(BadConfig, match="OPENAI_API_KEY holds characters") as caught:
        create_embedder("openai:text-embedding-3-small", EmbedderOptions(environ={"OPENAI_API_KEY": "sk-a\nb"}))
    assert "sk-a" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:11434",
        "ftp://host",
        "http://",
        "http://user:secret@host",
        "http://host?key=secret",
        "http://[::1",
        "x",
    ],
)
def test_an_address_that_is_none_or_carries_a_password_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(BadConfig, match="embedding_url is not a valid address") as caught:
        create_embedder("ollama:nomic-embed-text", EmbedderOptions(url=url))
    assert "secret" not in f"{caught.value} {caught.value.remedy}"


@pytest.mark.parametrize("name", ["openai", "ollama", "voyage", "openai:", "fastembed", "sentence-transformers"])
def test_a_provider_without_a_model_says_how_to_name_one(name: str) -> None:
    with pytest.raises(BadConfig, match="needs the name of a model") as caught:
        create_embedder(name, EmbedderOptions(environ=KEYS))
    assert f"`{name.rstrip(':')}:" in caught.value.remedy


def test_unknown_names_and_models_that_are_not_taken_are_said() -> None:
    with pytest.raises(BadConfig, match=r"no embedder 'gpt:4'; there are: .*ollama, openai.*voyage"):
        create_embedder("gpt:4")
    with pytest.raises(BadConfig, match="'hashing' takes no model"):
        create_embedder("hashing:large")


def test_health_is_one_short_text_and_can_be_asked_of_those_that_have_it() -> None:
    with asking("ollama:mine", ollama(4)) as (model, server):
        assert isinstance(model, HealthChecked)
        assert not isinstance(create_embedder("hashing"), HealthChecked)
        model.check()
        assert [asked.json["input"] for asked in server.asked] == [["ready?"]]
        assert model.space.dimension == 4
        assert len(server.asked) == 1


def test_redirects_are_not_followed() -> None:
    with serving(openai(4)) as elsewhere:
        told = Told(307, headers={"Location": elsewhere.address})
        with asking("openai:mine", lambda _: told, dimensions=4) as (model, server):
            with pytest.raises(EmbedderUnavailable, match=r"redirects elsewhere \(307\)") as caught:
                model.query("my secret plan")
            assert "`embedding_url`" in caught.value.remedy
            assert (len(server.asked), elsewhere.asked) == (1, [])


def asked_texts(server: Server) -> list[str]:
    return [text for asked in server.asked for text in asked.json["input"]]


def test_a_refused_text_does_not_stop_others() -> None:
    def answer(asked: Asked) -> Told:
        return Told(400) if "poison" in asked.json["input"] else ollama(4)(asked)

    with asking("ollama:mine", answer, dimensions=4) as (model, server):
        for _ in range(6):
            with pytest.raises(EmbedderUnavailable, match=r"refused the request \(400\)"):
                model.passages(["poison"])
        assert model.query("where?").shape == (4,)
        assert asked_texts(server) == ["poison"] * 6 + ["where?"]
