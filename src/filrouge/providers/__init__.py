"""Providers: embedders and language models, with their registries.

In: texts to embed, and requests (`CompletionRequest`) to a model. Out: unit vectors of a named embedding space, and
answers (`Completion`) with their cost. Open `embedders` and `language_models` for options and registries, `service` for
the configured models and the daily budget, `e5` for the bundled embedder.

Invariants: nothing is downloaded and no key is used unless the user chose it, and libraries send no telemetry. ONNX
Runtime reads `ORT_DISABLE_TELEMETRY` when it is loaded; without it, it writes a device id and an event database into
the user's cache and sends them to its vendor. Hugging Face's client reads its variable on import. Every embedder,
third-party ones included, is imported through this package, so both variables are set before these libraries load;
child processes inherit them.
"""

from __future__ import annotations

import os

os.environ.update(ORT_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_TELEMETRY="1")
