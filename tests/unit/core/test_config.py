"""Settings: each layer lies over the one before, each value names where it comes from, nothing unknown passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from filrouge.core.choices import NOT_SETTINGS, SETTINGS
from filrouge.core.errors import BadConfig
from filrouge.core.settings import Settings, check, from_environment, resolve


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_each_layer_lies_over_the_one_before(tmp_path: Path) -> None:
    write(tmp_path / "home/config.toml", "budget = 1002\nmode = 'light'\nisolation = true")
    write(tmp_path / "repo/.filrouge.toml", "budget = 1003\nmode = 'heavy'")
    stored = {"budget": 1001, "mode": "normal", "isolation": False, "language": "fr"}
    environ = {"FILROUGE_BUDGET": "1004"}
    found = resolve(stored, home=str(tmp_path / "home"), environ=environ, cwd=str(tmp_path / "repo/src"))
    settings = found.settings
    assert (settings.budget, settings.mode, settings.isolation, settings.language) == (1004, "heavy", True, "fr")
    wanted = {"budget": "environment", "mode": "project file", "isolation": "user file", "language": "stored"}
    assert found.origins == {**dict.fromkeys(Settings.model_fields, "default"), **wanted}
    assert found.to_json().keys() == Settings.model_fields.keys()


def test_a_repository_may_not_choose_a_provider_or_what_is_disabled(tmp_path: Path) -> None:
    write(
        tmp_path / ".filrouge.toml",
        "llm_model = 'evil'\nembedding_model = 'evil'\nembedding_url = 'http://evil'\nembedding_dimensions = 7\n"
        "disabled_projects = ['all']\nproject = 'x'\nbudget = 300",
    )
    found = resolve({}, home=str(tmp_path / "none"), environ={}, cwd=str(tmp_path))
    assert found.settings == Settings(budget=300)
    assert {key for key, origin in found.origins.items() if origin != "default"} == {"budget"}


def test_the_nearest_project_file_alone_counts(tmp_path: Path) -> None:
    write(tmp_path / ".filrouge.toml", "budget = 300\nmode = 'heavy'")
    write(tmp_path / "a/b/.filrouge.toml", "budget = 400")
    near = resolve({}, home=str(tmp_path / "none"), environ={}, cwd=str(tmp_path / "a/b")).settings
    far = resolve({}, home=str(tmp_path / "none"), environ={}, cwd=str(tmp_path / "a")).settings
    assert ((near.budget, near.mode), (far.budget, far.mode)) == ((400, "normal"), (300, "heavy"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"budgets": 1}, r"There is no setting 'budgets' \(request\)\. Did you mean 'budget'\?"),
        (
            {"zzz": 1},
            r"There is no setting 'zzz' \(request\)\. There are: auto_retrieve_enabled, .* or limit_seconds\.$",
        ),
        ({"budget": 10}, r"Setting 'budget' \(request\) does not fit"),
        ({"budget": "many"}, "'budget'"),
        ({"language": "klingon"}, "'language'"),
        ({"auto_retrieve_min_score": 1.5}, "'auto_retrieve_min_score'"),
        ({"auto_retrieve_max_results": 0}, "'auto_retrieve_max_results'"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(BadConfig, match=told):
        check(changes, where="request")


def test_a_users_file_with_an_unknown_key_suggests_the_right_one(tmp_path: Path) -> None:
    write(tmp_path / "config.toml", "buget = 900")
    with pytest.raises(BadConfig, match=r"'buget' \(.*/config\.toml\)\. Did you mean 'budget'"):
        resolve({}, home=str(tmp_path), environ={})


def test_a_file_that_cannot_be_read_is_named_with_what_to_do(tmp_path: Path) -> None:
    write(tmp_path / "config.toml", "budget = ")
    with pytest.raises(BadConfig, match=r"config\.toml cannot be read") as refused:
        resolve({}, home=str(tmp_path), environ={})
    assert "Fix or delete" in refused.value.remedy


def test_what_an_older_version_stored_is_passed_over(tmp_path: Path) -> None:
    found = resolve({"gone": 1, "budget": 900}, home=str(tmp_path), environ={})
    assert found.settings.budget == 900


def test_the_environment_gives_lists_by_commas_and_other_names_are_no_settings() -> None:
    environ = {
        **{f"FILROUGE_{name}": "x" for name in NOT_SETTINGS},
        "FILROUGE_NOTES_PATHS": "a.md, b/c.md,",
        "FILROUGE_AUTO_CAPTURE": "false",
        "FILROUGE_MODE": " ",
        "BUDGET": "1",
    }
    found = from_environment(environ)
    assert check(found, where="environment") == {"notes_paths": ("a.md", "b/c.md"), "auto_capture": False}


def test_the_names_by_which_commands_know_a_slip_are_those_of_the_settings() -> None:
    assert set(Settings.model_fields) == SETTINGS


def test_a_value_of_the_environment_that_does_not_fit_names_its_layer(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"'budget' \(environment\)"):
        resolve({}, home=str(tmp_path), environ={"FILROUGE_BUDGET": "lots"})


def test_every_setting_says_what_it_does() -> None:
    assert all((field.description or "").endswith(".") for field in Settings.model_fields.values())
