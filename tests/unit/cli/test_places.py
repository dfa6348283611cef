"""`filrouge paths` and `config show`, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

from filrouge.core.paths import DATABASE, socket_path
from tests.unit.server.conftest import serving

from .test_changing import typed


def test_paths_are_told_without_anything_being_made(tmp_path: Path) -> None:
    home = tmp_path / "nowhere"
    found = json.loads(typed(str(home), "paths", "--json").out)
    assert (found["home"], found["database"]) == (str(home), str(home / DATABASE))
    assert found["socket"] == socket_path(str(home))
    assert not home.exists()


def test_settings_are_shown_with_their_origin(tmp_path: Path) -> None:
    with serving(str(tmp_path)) as api:
        api.ask("PATCH", "/api/memory/settings", {"budget": 900})
        assert json.loads(typed(api.home, "config", "show", "--json").out) == api.get("/api/memory/settings")
        origin = json.loads(typed(api.home, "config", "show", "--origin", "--json").out)
        assert origin["budget"] == {"value": 900, "origin": "stored"}
        assert "budget\t900" in typed(api.home, "config", "show").out.splitlines()
