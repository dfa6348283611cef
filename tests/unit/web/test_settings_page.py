"""The Settings screen: values and their origins, connections, who may sign in, backups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from filrouge.core.settings import Settings
from filrouge.testing import idle
from filrouge.web.settings import GROUPS

from .conftest import Site


def test_every_setting_stands_in_one_group() -> None:
    keys = [key for group in GROUPS for key in group.keys]
    assert sorted(keys) == sorted(Settings.model_fields)


def test_each_setting_says_what_it_does_where_its_value_is_from_and_whether_it_can_be_changed(site: Site) -> None:
    shown = site.text("/settings")
    for field in Settings.model_fields.values():
        assert " ".join((field.description or "").split()) in shown
    rows = {row["key"]: row for group in site.twin("/settings.json")["groups"] for row in group["settings"]}
    assert (rows["embedding_model"]["origin"], rows["embedding_model"]["can_change"]) == ("environment", False)
    html = site.page("/settings")
    assert 'name="embedding_model"' not in html
    assert "FILROUGE_EMBEDDING_MODEL" in html


def test_only_what_differs_is_saved_and_can_be_undone(site: Site) -> None:
    form: dict[str, Any] = {
        "key": ["budget", "isolation", "disabled_projects", "language"],
        "language": "auto",
        "back": "/dashboard/settings",
    }
    to = site.send("/settings", **form, budget="1500", isolation="on", disabled_projects="one\n\n two ")
    assert "3 settings saved. Undo" in site.follow(to)
    values = site.api.get("/api/memory/settings")
    assert (values["budget"], values["isolation"], values["disabled_projects"]) == (1500, True, ["one", "two"])
    assert site.api.get("/api/memory/settings/origins")["language"] == "default"
    same = site.send("/settings", **form, budget="1500.0", isolation="on", disabled_projects="one\ntwo")
    assert "Nothing was changed." in site.follow(same)
    former = json.dumps({"budget": 2000, "isolation": False, "disabled_projects": []})
    site.send("/settings/undo", former=former, back="/dashboard/settings")
    assert site.api.get("/api/memory/settings")["budget"] == 2000


def test_a_default_comes_back_and_a_value_that_does_not_fit_is_explained(site: Site) -> None:
    site.send("/settings", key="budget", budget="1500")
    site.send("/settings", reset="budget")
    assert site.api.get("/api/memory/settings/origins")["budget"] == "default"
    assert "'budget'" in site.send("/settings", key="budget", budget="9", status=400)
    assert "does not fit" in site.send("/settings", key="budget", budget="many", status=400)
    assert site.api.get("/api/memory/settings")["budget"] == 2000


def test_settings_are_found_by_name_or_words(site: Site) -> None:
    found = site.twin("/settings.json?q=backups")["groups"]
    assert {row["key"] for group in found for row in group["settings"]} == {"backup_hours", "backup_keep"}
    assert "No setting matches" in site.text("/settings?q=zeppelin")


def test_agents_are_listed_with_whether_they_are_connected(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".codex").mkdir()
    hook = {"type": "command", "command": "/opt/filrouge hook --host claude-code"}
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}))
    agents = {one["name"]: one for one in site.api.get("/api/hosts")["hosts"]}
    assert [(agents[name]["found"], agents[name]["hooks"]) for name in ("claude-code", "codex")] == [
        (True, True),
        (True, False),
    ]
    shown = site.text("/settings/connections")
    assert "Claude Code memory" in shown
    assert "Codex not connected — filrouge init --host codex" in shown


def test_a_host_that_was_heard_from_says_when(site: Site) -> None:
    message = {"role": "user", "content": "Where are the fuses?", "id": "m-1"}
    site.api.ask("POST", "/memory/turns", {"channel": "telegram", "session_id": "chat", "messages": [message]})
    idle(site.api.parts)
    (telegram,) = [one for one in site.api.get("/api/hosts")["hosts"] if one["name"] == "telegram"]
    assert telegram["last_heard"]
    assert "telegram uses the API just now" in site.text("/settings/connections")


def test_the_journal_is_verified_when_asked(site: Site) -> None:
    site.api.remember("For the record: the shop listens on port 8443.")
    to = site.send("/settings/verify", back="/dashboard/settings/connections")
    assert "The journal is sound" in site.follow(to)


def test_a_token_is_revoked_and_is_listed_as_ended(site: Site) -> None:
    made = site.api.ask("POST", "/api/tokens", {"name": "laptop", "scope": "read"}).body
    assert "laptop token may read" in site.text("/settings/access")
    site.send(f"/settings/access/{made['id']}/revoke", back="/dashboard/settings/access")
    page = site.twin("/settings/access.json")
    assert (page["in_force"], [token["name"] for token in page["ended"]]) == ([], ["laptop"])


def test_a_backup_is_made_and_listed(site: Site) -> None:
    assert "No backup yet" in site.text("/settings/backups")
    to = site.send("/settings/backups", back="/dashboard/settings/backups")
    assert "A backup was made and verified." in site.follow(to)
    assert [one["kind"] for one in site.twin("/settings/backups.json")["backups"]] == ["hand"]
