"""A model that can be fetched in a moment: a tiny network with the inputs and the output of the real one, and a tiny
tokenizer. The real file (118 MB, from a hub) is not fetched in these tests."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager

import numpy as np

from filrouge.providers.e5 import FLOAT, Network, value_info
from filrouge.providers.published_e5 import PublishedFile, PublishedModel
from tests.unit.providers.servers import Asked, Server, Told, serving

PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", *"abcdefghijklmnopqrstuvwxyz:é", "▁query", "▁passage", "▁port"]
_INT64 = 7
Bytes = dict[str, bytes]


def network(padding: int = 0) -> bytes:
    """Looks each id up in a table; `padding` more bytes make a file that takes a while to send."""
    ids, mask, kinds = (value_info(name, _INT64, ("texts", "tokens")) for name in _INPUTS)
    net = Network(inputs=[ids, mask, kinds])
    table = np.random.default_rng(7).normal(size=(len(PIECES), 384)).astype(np.float32)
    net.constant("unused", np.zeros(padding, np.uint8))
    net.step("Gather", [net.constant("table", table), "input_ids"], "last_hidden_state")
    return net.file(value_info("last_hidden_state", FLOAT, ("texts", "tokens", 384)))


_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def tokenizer() -> bytes:
    scores = [-float(10 - 2 * min(len(piece), 4)) for piece in PIECES]
    vocabulary = [list(one) for one in zip(PIECES, scores, strict=True)]
    return json.dumps({"model": {"type": "Unigram", "unk_id": 3, "vocab": vocabulary}}).encode()


def files(padding: int = 0) -> Bytes:
    return {"onnx/model_quantized.onnx": network(padding), "tokenizer.json": tokenizer()}


def described(content: Bytes, host: str) -> PublishedModel:
    return PublishedModel(
        host=host,
        repository="someone/tiny-e5",
        revision="0123456789abcdef",
        licence="MIT",
        files=tuple(
            PublishedFile(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())
            for path, data in content.items()
        ),
    )


def ranges(content: Bytes, *, tag: str = '"v1"', ignore: bool = False) -> Callable[[Asked], Told]:
    """Answers as a file server does, with Range and If-Range."""

    def answer(asked: Asked) -> Told:
        found = next((data for path, data in content.items() if asked.path.endswith(path)), None)
        if found is None:
            return Told(404)
        wanted = re.fullmatch(r"bytes=(\d+)-", asked.headers.get("Range", ""))
        if wanted is None or ignore or asked.headers.get("If-Range") != tag:
            return Told(body=found, headers={"ETag": tag})
        start = int(wanted[1])
        if start >= len(found):
            return Told(416)
        where = f"bytes {start}-{len(found) - 1}/{len(found)}"
        return Told(206, found[start:], {"ETag": tag, "Content-Range": where})

    return answer


@contextmanager
def publishing(
    content: Bytes, answer: Callable[[Asked], Told] | None = None
) -> Generator[tuple[PublishedModel, Server]]:
    with serving(answer or ranges(content)) as server:
        yield described(content, server.address), server


def nothing_left(directory: str, model: PublishedModel) -> bool:
    return sorted(os.listdir(directory)) == [model.name, f"{model.name}.lock"]
