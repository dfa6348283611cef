"""A fetched model is whole or not there, whatever the network, the disk, the server and the process do."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs, to_builtins

from filrouge.core.errors import BadConfig, EmbedderUnavailable
from filrouge.providers.e5 import is_intact, state_of
from filrouge.providers.fetching import fetch
from filrouge.providers.published_e5 import FetchedE5, PublishedModel, fetched_path, published_model
from tests.unit.providers.servers import Asked, Told, serving
from tests.unit.providers.stand_in import described, files, nothing_left, publishing, ranges

_FETCH = """
import json, sys
from filrouge.providers.fetching import fetch
from filrouge.providers.published_e5 import PublishedFile, PublishedModel
told = json.loads(sys.argv[1])
model = PublishedModel(**{**told, "files": tuple(PublishedFile(**one) for one in told["files"])})
fetch(model, sys.argv[2], lambda name, have, size: print(name, have, size, flush=True), consent=True)
print("done", flush=True)
"""


def silent(name: str, have: int, size: int) -> None:
    assert 0 <= have <= size


def fetcher(model: PublishedModel, path: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _FETCH, json.dumps(to_builtins(model)), path]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_model_is_fetched_once_and_then_it_is_there(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    with publishing(files()) as (model, server):
        path = fetched_path(model, str(tmp_path))
        assert state_of(path) == "absent"

        def tell(name: str, have: int, size: int) -> None:
            told.append((name, have, size))

        fetch(model, path, tell, consent=True)
        assert state_of(path) == "whole"
        assert {(name, size) for name, have, size in told if have == size} == {
            (file.name, file.size) for file in model.files
        }
        assert [asked.path for asked in server.asked] == [
            f"/someone/tiny-e5/resolve/0123456789abcdef/{file.path}" for file in model.files
        ]
        fetch(model, path, silent, consent=True)
        assert len(server.asked) == 2
    assert nothing_left(str(tmp_path), model)


def test_without_consent_nothing_is_asked_of_anybody(tmp_path: Path) -> None:
    with publishing(files()) as (model, server):
        with pytest.raises(PermissionError):
            fetch(model, fetched_path(model, str(tmp_path)), silent, consent=False)
        assert (server.asked, os.listdir(tmp_path)) == ([], [])


def test_a_killed_fetch_goes_on_where_it_stopped(tmp_path: Path) -> None:
    content = files(padding=8_000_000)
    dice = random.Random(5)

    def slowly(asked: Asked) -> Told:
        told = ranges(content)(asked)
        pieces = (told.body[at : at + 50_000] for at in range(0, len(told.body), 50_000))
        headers = {"Content-Length": str(len(told.body)), **told.headers}
        return replace(told, headers=headers, chunks=(piece for piece in pieces if not time.sleep(0.004)))

    with publishing(content, slowly) as (model, server):
        path = fetched_path(model, str(tmp_path))
        for _ in range(6):
            process = fetcher(model, path)
            assert process.stdout is not None
            process.stdout.readline()  # the first bytes are here
            time.sleep(dice.uniform(0.02, 0.12))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            assert not os.path.exists(path) or is_intact(path)
        fetch(model, path, silent, consent=True)
        assert is_intact(path)
        starts = [asked.headers["Range"] for asked in server.asked if "Range" in asked.headers]
        assert len(starts) >= 5
    assert nothing_left(str(tmp_path), model)


def test_two_processes_at_once_fetch_it_once(tmp_path: Path) -> None:
    with publishing(files(padding=2_000_000)) as (model, server):
        path = fetched_path(model, str(tmp_path))
        both = [fetcher(model, path), fetcher(model, path)]
        assert all("done" in one.communicate(timeout=60)[0] for one in both)
        assert len(server.asked) == len(model.files)
    assert is_intact(path)


def test_a_file_with_a_wrong_sum_is_removed_and_said(tmp_path: Path) -> None:
    content = files()
    wrong = {path: bytes(len(data)) for path, data in content.items()}
    with publishing(content, ranges(wrong)) as (model, _):
        path = fetched_path(model, str(tmp_path))
        with pytest.raises(EmbedderUnavailable, match="its SHA-256 differs"):
            fetch(model, path, silent, consent=True)
        assert state_of(path) == "absent"
        assert os.listdir(f"{path}.arriving") == []


def test_more_bytes_than_promised_are_not_read_to_their_end(tmp_path: Path) -> None:
    content = files()
    more = {path: data + bytes(5_000_000) for path, data in content.items()}
    with (
        publishing(content, ranges(more)) as (model, _),
        pytest.raises(EmbedderUnavailable, match="sent more than"),
    ):
        fetch(model, fetched_path(model, str(tmp_path)), silent, consent=True)


@pytest.mark.parametrize(("tag", "ignore"), [('"v1"', True), ('"v2"', False), ("", False), ('W/"v1"', False)])
def test_a_server_that_cannot_go_on_sends_all_of_it(tmp_path: Path, tag: str, ignore: bool) -> None:
    content = files()
    with publishing(content, ranges(content, tag=tag, ignore=ignore)) as (model, _):
        path = fetched_path(model, str(tmp_path))
        begun = Path(f"{path}.arriving")
        begun.mkdir()
        (begun / "model_quantized.onnx.part").write_bytes(b"of another version")
        (begun / "model_quantized.onnx.part.etag").write_text('"v1"')
        fetch(model, path, silent, consent=True)
        assert is_intact(path)


def test_a_reply_that_is_cut_short_is_asked_for_the_rest(tmp_path: Path) -> None:
    content = files(padding=300_000)

    def cut(asked: Asked) -> Told:
        told = ranges(content)(asked)
        length = {"Content-Length": str(len(told.body)), **told.headers}
        return replace(told, headers=length, chunks=[told.body[:100_000]])

    with publishing(content, cut) as (model, server):
        path = fetched_path(model, str(tmp_path))
        fetch(model, path, silent, consent=True)
        assert is_intact(path)
        starts = [asked.headers["Range"] for asked in server.asked if "Range" in asked.headers]
        assert starts == ["bytes=100000-", "bytes=200000-", "bytes=300000-"]


def test_a_server_that_sends_nothing_more_is_given_up_and_what_came_is_kept(tmp_path: Path) -> None:
    content = files()

    def stuck(asked: Asked) -> Told:
        told = ranges(content)(asked)
        length = {"Content-Length": str(len(told.body)), **told.headers}
        return replace(told, headers=length, chunks=[] if "Range" in asked.headers else [told.body[:1000]])

    with publishing(content, stuck) as (model, server):
        path = fetched_path(model, str(tmp_path))
        with pytest.raises(EmbedderUnavailable, match="broke off after 1000 of"):
            fetch(model, path, silent, consent=True)
        assert len(server.asked) == 2
        assert os.path.getsize(f"{path}.arriving/model_quantized.onnx.part") == 1000


def test_no_network_no_such_file_and_a_busy_server_are_told_apart(tmp_path: Path) -> None:
    content = files()
    with serving(ranges({})) as server:
        model = described(content, server.address)
        path = fetched_path(model, str(tmp_path))
        with pytest.raises(EmbedderUnavailable, match=r"http.* was not found \(404\)"):
            fetch(model, path, silent, consent=True)
    with pytest.raises(EmbedderUnavailable, match="broke off after 0 of") as caught:
        fetch(model, path, silent, consent=True)
    assert "Check the network" in caught.value.remedy
    with (
        publishing(content, lambda _: Told(503)) as (model, _),
        pytest.raises(EmbedderUnavailable, match="answered 503"),
    ):
        fetch(model, path, silent, consent=True)


def test_no_room_is_said_before_anything_is_fetched(tmp_path: Path) -> None:
    with publishing(files()) as (model, server):
        huge = structs.replace(model, files=(structs.replace(model.files[0], size=1 << 60),))
        with pytest.raises(EmbedderUnavailable, match="There is no room"):
            fetch(huge, fetched_path(huge, str(tmp_path)), silent, consent=True)
        assert server.asked == []


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with publishing(files()) as (model, _), pytest.raises(EmbedderUnavailable, match="cannot be stored in"):
        fetch(model, fetched_path(model, str(tmp_path / "file")), silent, consent=True)


def test_redirects_are_followed_here_and_to_encrypted_places_alone(tmp_path: Path) -> None:
    content = files()
    with publishing(content) as (real, _):

        def moved(asked: Asked) -> Told:
            return Told(302, headers={"Location": real.host + asked.path})

        with publishing(content, moved) as (model, _):
            path = fetched_path(model, str(tmp_path))
            fetch(model, path, silent, consent=True)
            assert is_intact(path)
    away = Told(302, headers={"Location": "http://files.example/x"})
    with (
        publishing(content, lambda _: away) as (model, _),
        pytest.raises(EmbedderUnavailable, match=r"http://files\.example/x is not encrypted"),
    ):
        fetch(model, fetched_path(model, str(tmp_path / "other")), silent, consent=True)
    with (
        publishing(content, lambda asked: Told(302, headers={"Location": asked.path})) as (model, _),
        pytest.raises(EmbedderUnavailable, match="only redirects"),
    ):
        fetch(model, fetched_path(model, str(tmp_path / "other")), silent, consent=True)


def test_what_is_published_is_pinned_and_a_mirror_changes_the_host_alone() -> None:
    plain, mirrored = published_model({}), published_model({"FILROUGE_MODEL_MIRROR": "https://models.example/hub/"})
    assert structs.replace(mirrored, host=plain.host) == plain
    assert mirrored.address(plain.files[1]) == (
        f"https://models.example/hub/Xenova/multilingual-e5-small/resolve/{plain.revision}/tokenizer.json"
    )
    assert (plain.size, plain.licence, len(plain.revision)) == (135_390_915, "MIT", 40)
    assert all(len(file.sha256) == 64 for file in plain.files)
    with pytest.raises(BadConfig, match="FILROUGE_MODEL_MIRROR is not a valid address"):
        published_model({"FILROUGE_MODEL_MIRROR": "models"})


def test_a_model_that_was_damaged_later_is_not_run_and_is_fetched_again(tmp_path: Path) -> None:
    with publishing(files()) as (model, _):
        path = fetched_path(model, str(tmp_path))
        fetch(model, path, silent, consent=True)
        (Path(path) / "tokenizer.json").write_bytes(b"{}")
        with pytest.raises(EmbedderUnavailable, match="is damaged") as caught:
            FetchedE5(model, str(tmp_path)).query("a")
        assert "filrouge model fetch" in caught.value.remedy
        fetch(model, path, silent, consent=True)
        assert FetchedE5(model, str(tmp_path)).query("a").shape == (384,)
