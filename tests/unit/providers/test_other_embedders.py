"""A whole Filrouge with an embedding server: settings reach the embedder, and a dead server stops nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from filrouge.testing import running
from tests.unit.providers.servers import ollama, serving, unit


def test_settings_reach_the_embedder_and_a_dead_server_leaves_recall_by_words(tmp_path: Path) -> None:
    with serving(ollama(6)) as server:
        environ = {"FILROUGE_EMBEDDING_URL": server.address, "FILROUGE_EMBEDDING_DIMENSIONS": "6"}
        with running(str(tmp_path), embedding="ollama:mine", environ=environ) as parts:
            assert parts.vectors.ready.wait(10)
            assert parts.vectors.space.id == "ollama/mine/6/service/none"
            vector, notices = parts.vectors.question("where?")
            assert notices == ()
            assert vector is not None
            np.testing.assert_allclose(vector, unit("where?", 6), atol=1e-6)
    with running(str(tmp_path), embedding="ollama:mine", environ=environ) as parts:
        assert parts.vectors.ready.wait(10)
        vector, notices = parts.vectors.question("where?")
        assert vector is None
        assert "only words" in notices[0]
        assert parts.vectors.passages(["there"]) is None
