"""`filrouge export` and `filrouge import`, as a person types them."""

from __future__ import annotations

import json
import stat
from collections.abc import Generator
from pathlib import Path

import pytest

from filrouge.testing import idle
from tests.unit.server.conftest import Api, serving

from .test_changing import PORT, typed


@pytest.fixture
def api(tmp_path: Path) -> Generator[Api]:
    with serving(str(tmp_path / "home")) as found:
        yield found


def test_a_memory_is_taken_along_and_brought_back(api: Api, tmp_path: Path) -> None:
    api.remember(PORT)
    idle(api.parts)
    file = tmp_path / "mine.json"
    assert typed(api.home, "export", "--out", str(file)).code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(typed(api.home, "export").out)["memories"] == json.loads(file.read_text("utf-8"))["memories"]
    with serving(str(tmp_path / "other")) as other:
        first = typed(other.home, "import", str(file), "--mine", "--json")
        assert json.loads(first.out)["memories"]["added"] == 1
        again = typed(other.home, "import", str(file), "--mine")
        assert "memories: 0 added, 1 present, 0 forgotten, 0 bad" in again.out.splitlines()
        [fact] = other.get("/api/memory/facts")
        assert (fact["text"], fact["trust"]) == (api.get("/api/memory/facts")[0]["text"], 3)


def test_what_cannot_be_used_is_refused(api: Api, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{", "utf-8")
    refused = [
        typed(api.home, "import", str(broken)),
        typed(api.home, "import", str(tmp_path / "nowhere.json")),
        typed(api.home, "export", "--format", "xml"),
        typed(api.home, "export", "--format", "csv", "--what", "all"),
    ]
    assert [one.code for one in refused] == [2, 2, 2, 2]
    assert typed(api.home, "export", "--format", "csv").out.startswith("id,kind,text,")
