"""Which engine `e5` means: ONNX Runtime where it is installed, else the one that comes with the weights.

Both run the same model, but each has its own space: their vectors are alike to the second digit, not the same.
"""

from __future__ import annotations

from importlib.util import find_spec

from filrouge.ports import Embedder


def e5() -> Embedder:
    """multilingual-e5-small by the fastest engine that this machine has."""
    if find_spec("onnxruntime"):
        from filrouge.embed.onnx import OnnxE5

        return OnnxE5()
    from filrouge.embed.local import BundledE5

    return BundledE5()
