"""multilingual-e5-small from the ONNX file that others publish, downloaded only by `filrouge model fetch`."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import unicodedata
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

import httpx
import numpy as np

from filrouge.core.errors import EmbedderUnavailable
from filrouge.core.network import checked_address, is_loopback
from filrouge.core.protocols import Vector, Vectors
from filrouge.providers.e5 import QuestionsFirst, embed_parts, parts, session, units
from filrouge.providers.e5_network import Marks, Tokenizer, ensure, models_directory, state_of
from filrouge.providers.embedders import sendable
from filrouge.providers.models import EmbeddingSpace

# The ONNX file of multilingual-e5-small as others publish it: what it is, where it is, and where it stands here.
#
# The revision and the sums are pinned, so the file is the same wherever it comes from; FILROUGE_MODEL_MIRROR names
# another host that has the same paths, for companies without access to the first.

MIRROR: Final = "FILROUGE_MODEL_MIRROR"
NETWORK, TOKENIZER = "model_quantized.onnx", "tokenizer.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedFile:
    """One file of a published model."""

    path: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The last part of its path, and its name here."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedModel:
    """A model that can be fetched.

    Attributes:
        host: the address in front of every path.
        repository: where it is published.
        revision: of the repository; part of the directory's name and of the space's id.
        licence: of the weights.
        files: all that is needed of it.
    """

    host: str
    repository: str
    revision: str
    licence: str
    files: tuple[PublishedFile, ...]

    @property
    def name(self) -> str:
        """The name of its directory here."""
        return f"{self.repository.rpartition('/')[2]}-{self.revision[:12]}"

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def address(self, file: PublishedFile) -> str:
        """Where a file is."""
        return f"{self.host}/{self.repository}/resolve/{self.revision}/{file.path}"


_E5: Final = PublishedModel(
    host="https://huggingface.co",
    repository="Xenova/multilingual-e5-small",
    revision="761b726dd34fb83930e26aab4e9ac3899aa1fa78",
    licence="MIT",
    files=(
        PublishedFile(
            path="onnx/model_quantized.onnx",
            size=118_308_185,
            sha256="f80102d3f2a1229f387d3c81909990d8945513e347b0eab049f7de3c6f98c193",
        ),
        PublishedFile(
            path="tokenizer.json",
            size=17_082_730,
            sha256="0b44a9d7b51c3c62626640cda0e2c2f70fdacdc25bbbd68038369d14ebdf4c39",
        ),
    ),
)


def published(environ: Mapping[str, str]) -> PublishedModel:
    """The model that `e5-fetched` runs, at the mirror if one is named.

    Raises:
        BadConfig: the mirror's address is none.
    """
    mirror = environ.get(MIRROR, "").strip()
    if not mirror:
        return _E5
    return replace(_E5, host=checked_address(mirror, setting=MIRROR))


def fetched_path(model: PublishedModel, directory: str | None = None) -> str:
    """Where the model is, or will be."""
    return os.path.join(directory or models_directory(), model.name)


# Fetch a file that is known in advance: its size and SHA-256 decide what is accepted, not who sends it.
#
# What has arrived stands in `NAME.part` with the server's name for that version (its ETag) beside it, so a fetch that
# was interrupted, killed even, goes on where it stopped (Range with If-Range). A server that has another version, or
# ignores Range, sends everything and the part begins anew. A file gets its name only when its sum is right; one with
# a wrong sum is removed. Redirects are followed, encrypted ones only: the sum is checked, but what is fetched is
# nobody's business. Whoever calls has asked the user.

#: Bytes that are here, of this file.
Arrived = Callable[[int], None]

_TRIES: Final = 5
_TIMEOUT: Final = httpx.Timeout(30.0, connect=10.0)
_MOST_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedFile:
    """A file to fetch: where it is, how many bytes it has, and their SHA-256 in hexadecimal digits."""

    address: str
    size: int
    sha256: str


class _BrokeOff(Exception):
    """The connection ended too early; what has arrived is kept."""


def download(wanted: WantedFile, path: str, arrived: Arrived) -> None:
    """See to it that the file is at `path`, whole. One process at a time; the caller holds a lock.

    Raises:
        EmbedderUnavailable: no network, no such file, or not the bytes that were promised; says which.
        OSError: it cannot be written.
    """
    if _is(wanted, path):
        arrived(wanted.size)
        return
    part = f"{path}.part"
    _room(wanted, part)
    with httpx.Client(timeout=_TIMEOUT, trust_env=not is_loopback(wanted.address)) as client:
        for left in reversed(range(_TRIES)):
            before = _size(part)
            try:
                _go_on(client, wanted, part, arrived)
                break
            except _BrokeOff as error:
                # A server that sends something each time is worth more tries than one that sends nothing.
                if not left or _size(part) <= before:
                    raise EmbedderUnavailable(
                        f"{wanted.address} broke off after {_size(part)} of {wanted.size} bytes: {error}.",
                        remedy="Check the network and run the command again: what has arrived is kept.",
                    ) from error.__cause__
    if not _is(wanted, part):
        _remove(part)
        raise EmbedderUnavailable(
            f"What {wanted.address} sent is not the file that was expected (its SHA-256 differs); it was removed.",
            remedy="Try again; if it happens twice, the mirror or the connection changes files: use another.",
        )
    with open(part, "rb") as file:
        os.fsync(file.fileno())
    os.replace(part, path)
    _remove(part)


def _go_on(client: httpx.Client, wanted: WantedFile, part: str, arrived: Arrived) -> None:
    """One request: append what is missing, or begin anew."""
    have = _size(part)
    tag = _tag(part)
    if have >= wanted.size or (have and not tag):
        _remove(part)
        have = 0
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": tag}
    try:
        with _following(client, wanted.address, headers) as response:
            if response.status_code == 416:  # the server's file is shorter than what is here
                _remove(part)
                raise _BrokeOff("the server has another file now")
            goes_on = response.status_code == 206 and _begins_at(response) == have
            if not goes_on and response.status_code != 200:
                raise _answered(response.status_code, wanted.address)
            if not goes_on:
                have = 0
                _remove(part)
                _keep_tag(part, response.headers.get("ETag", ""))
            _append(response, wanted, part, have, arrived)
    except httpx.TransportError as error:
        raise _BrokeOff(str(error) or type(error).__name__) from error


def _append(response: httpx.Response, wanted: WantedFile, part: str, have: int, arrived: Arrived) -> None:
    with open(part, "ab" if have else "wb") as file:
        arrived(have)
        for chunk in response.iter_raw():  # as it comes: pieces of a set size would lose the last when it breaks off
            have += len(chunk)
            if have > wanted.size:  # more than promised: the sum cannot be right
                file.truncate(0)
                raise EmbedderUnavailable(
                    f"{wanted.address} sent more than the {wanted.size} bytes of the file that was expected.",
                    remedy="The mirror holds another file: use another mirror.",
                )
            file.write(chunk)
            file.flush()
            arrived(have)
    if have < wanted.size:
        raise _BrokeOff("the reply was too short")


@contextmanager
def _following(client: httpx.Client, address: str, headers: dict[str, str]) -> Generator[httpx.Response]:
    """The reply at the end of the redirects; each step is encrypted, or on this machine."""
    for _ in range(_MOST_REDIRECTS + 1):
        if not address.startswith("https:") and not is_loopback(address):
            raise EmbedderUnavailable(
                f"{address} is not encrypted, so nothing is fetched from there.", remedy="Use an address with https://."
            )
        with client.stream("GET", address, headers=headers) as response:
            if response.status_code not in _REDIRECTS:
                yield response
                return
            address = str(response.url.join(response.headers.get("Location", "")))
    raise EmbedderUnavailable(f"{address} only redirects elsewhere.", remedy="Check the mirror's address.")


def _answered(status: int, address: str) -> EmbedderUnavailable:
    if status == 404:
        return EmbedderUnavailable(f"There is no {address} (404).", remedy="Check FILROUGE_MODEL_MIRROR, if it is set.")
    return EmbedderUnavailable(f"{address} answered {status}.", remedy="Try again later; what has arrived is kept.")


def _begins_at(response: httpx.Response) -> int:
    """From `Content-Range: bytes 100-199/200`."""
    unit, _, rest = response.headers.get("Content-Range", "").partition(" ")
    first = rest.partition("-")[0]
    return int(first) if unit == "bytes" and first.isdecimal() else -1


def _room(wanted: WantedFile, part: str) -> None:
    needed = wanted.size - min(wanted.size, _size(part))
    free = shutil.disk_usage(os.path.dirname(part)).free
    if free < needed:
        raise EmbedderUnavailable(
            f"There is no room for the model: {needed >> 20} MB are needed, {free >> 20} MB are free.",
            remedy="Free some space, or name another directory with FILROUGE_MODELS.",
        )


def _is(wanted: WantedFile, path: str) -> bool:
    if _size(path) != wanted.size:
        return False
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == wanted.sha256


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.isfile(path) else 0


def _tag(part: str) -> str:
    """The strong ETag of what is in the part; weak ones do not promise the same bytes."""
    with suppress(OSError, UnicodeDecodeError), open(f"{part}.etag", encoding="ascii") as file:
        found = file.read()
        return found if found.startswith('"') and found.endswith('"') and found.isprintable() else ""
    return ""


def _keep_tag(part: str, tag: str) -> None:
    """Before the first byte, so that a part is never taken for one of another version."""
    with open(f"{part}.etag", "w", encoding="ascii", errors="replace") as file:
        file.write(tag)


def _remove(part: str) -> None:
    for path in (part, f"{part}.etag"):
        with suppress(FileNotFoundError):
            os.remove(path)


# multilingual-e5-small from the ONNX file that `filrouge model fetch` brings: eight bits, mean pooling.
#
# Texts are normalised with Unicode's NFKC and split at spaces. The model's own tokenizer does nearly the same with a
# compiled table of characters; the two differ for rare ones (some fullwidth and zero-width forms), which are then
# split into other pieces. Its quantisation has one scale per batch, so a text's vector depends slightly on its
# company. The space has no calibration of its own yet: it is measured here like that of any model from outside.

_DIMENSION: Final = 384
_MOST_TOKENS: Final = 512
#: Tokens of one batch, padding included.
_BATCH_TOKENS: Final = 512
#: What the model's own table drops or makes a space: control characters, and marks of no width.
_NO_TEXT: Final[Mapping[int, str]] = {
    **{number: "" for number in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if not chr(number).isspace()},
    **dict.fromkeys((*range(0x200B, 0x2010), 0xFEFF), " "),
}
_REMEDY: Final = "Fetch it with `filrouge model fetch`, or set `embedding_model` to `e5`, which needs no download."


class FetchedE5:
    """Implements `Embedder`. It never fetches: without the file it says how to get it."""

    def __init__(self, model: PublishedModel | None = None, directory: str | None = None) -> None:
        self._published = model or published({})
        self._path = fetched_path(self._published, directory)
        self._loading = Lock()
        self._model: _Loaded | None = None
        self._queue = QuestionsFirst()

    @property
    def space(self) -> EmbeddingSpace:
        """The space of this file's vectors."""
        revision = self._published.revision
        return EmbeddingSpace(
            id=f"multilingual-e5-small/{revision[:12]}-int8/{_DIMENSION}/mean/query-passage",
            model="multilingual-e5-small",
            revision=revision,
            dimension=_DIMENSION,
            pooling="mean",
            prefix="query: / passage: ",
        )

    def query(self, text: str) -> Vector:
        """The vector of a question."""
        model = self._loaded()
        with self._queue.question():
            return model.embed(["query: " + text], lambda: None)[0]

    def passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts to be found."""
        if not texts:
            return np.empty((0, _DIMENSION), dtype=np.float32)
        return self._loaded().embed(["passage: " + text for text in texts], self._queue.wait)

    def _loaded(self) -> _Loaded:
        with self._loading:
            if self._model is None:
                state = state_of(self._path)
                if state != "whole":
                    raise EmbedderUnavailable(f"The embedding model in {self._path} is {state}.", remedy=_REMEDY)
                self._model = _Loaded(self._path)
            return self._model


class _Loaded:
    """The network and its tokenizer in memory."""

    def __init__(self, directory: str) -> None:
        self._session = session(os.path.join(directory, NETWORK), _REMEDY)
        self._tokenizer = unigram(os.path.join(directory, TOKENIZER))

    def embed(self, texts: Sequence[str], before: Callable[[], None]) -> Vectors:
        found = [parts(self._tokenizer, normalised(text), _MOST_TOKENS) for text in texts]
        return embed_parts(found, dimension=_DIMENSION, most_tokens=_BATCH_TOKENS, run=self._run, before=before)

    def _run(self, batch: list[list[int]]) -> Vectors:
        """Unit vectors of the parts of one batch: hidden states, averaged over the tokens that are not padding."""
        longest = max(map(len, batch))
        ids = np.full((len(batch), longest), self._tokenizer.marks.padding, dtype=np.int64)
        mask = np.zeros((len(batch), longest), dtype=np.int64)
        for row, real, part in zip(ids, mask, batch, strict=True):
            row[: len(part)] = part
            real[: len(part)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states: Vectors = self._session.run(["last_hidden_state"], inputs)[0]
        return units(np.matmul(mask[:, None, :].astype(np.float32), states)[:, 0])


def normalised(text: str) -> str:
    """A text as the tokenizer wants it: compatible forms made one, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", sendable(text).translate(_NO_TEXT)).split())


def unigram(path: str) -> Tokenizer:
    """The tokenizer of a `tokenizer.json` with a Unigram model.

    Raises:
        EmbedderUnavailable: it is something else.
    """
    try:
        with open(path, encoding="utf-8") as file:
            vocabulary: list[tuple[str, float]] = json.load(file)["model"]["vocab"]
        pieces, scores = [piece for piece, _ in vocabulary], [float(score) for _, score in vocabulary]
        named = {piece: number for number, piece in enumerate(pieces)}
        marks = Marks(begin=named["<s>"], end=named["</s>"], padding=named["<pad>"], unknown=named["<unk>"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbedderUnavailable(f"{path} is no tokenizer of this model.", remedy=_REMEDY) from error
    return Tokenizer(pieces, scores, {}, marks)


# Bring a published model to this machine, after the user's consent and only then.
#
# The files arrive beside the model's directory and survive a kill there; they become the model when all of them are
# right. Only `filrouge model fetch` calls this, which shows what would come from where, and asks.

#: The name of a file, its bytes that are here, its bytes in all.
Progress = Callable[[str, int, int], None]


def fetch(model: PublishedModel, path: str, progress: Progress, *, consent: bool) -> None:
    """See to it that the model is at `path`, whole; another process that is at it is waited for.

    Args:
        model: what to fetch.
        path: its directory.
        progress: told of every piece that arrives.
        consent: that the user said yes to this very download.

    Raises:
        EmbedderUnavailable: it could not be fetched or kept; says why.
        PermissionError: without consent.
    """
    if not consent:
        raise PermissionError("a model is fetched only with consent")
    arriving = f"{path}.arriving"

    def write(directory: str) -> None:
        os.makedirs(arriving, exist_ok=True)
        for file in model.files:
            here = os.path.join(arriving, file.name)
            wanted = WantedFile(address=model.address(file), size=file.size, sha256=file.sha256)
            download(wanted, here, lambda have, file=file: progress(file.name, have, file.size))
            _second_name(here, os.path.join(directory, file.name))

    ensure(path, write)
    shutil.rmtree(arriving, ignore_errors=True)


def _second_name(path: str, other: str) -> None:
    """Both names are the same bytes until the model is whole, so that a kill in between loses nothing."""
    try:
        os.link(path, other)
    except OSError:  # not every file system has them
        shutil.copyfile(path, other)
