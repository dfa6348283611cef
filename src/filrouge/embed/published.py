"""The ONNX file of multilingual-e5-small as others publish it: what it is, where it is, and where it stands here.

The revision and the sums are pinned, so the file is the same wherever it comes from; FILROUGE_MODEL_MIRROR names
another host that has the same paths, for companies without access to the first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from filrouge.address import checked_address
from filrouge.embed.model_files import models_directory

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
