"""Embedders, and the libraries behind them, which report nothing about this machine.

ONNX Runtime reads `ORT_DISABLE_TELEMETRY` when it is loaded; without it, it writes a device id and an event database
into the user's cache and sends them to its vendor. Hugging Face's client reads its variable when it is imported.
Every import of an embedder passes through this package, here and in entry points of others, so the variables are set
before any of these libraries can load; child processes inherit them.
"""

from __future__ import annotations

import os

os.environ.update(ORT_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_TELEMETRY="1")
