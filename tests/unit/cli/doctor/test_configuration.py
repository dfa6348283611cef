"""What the doctor says of settings: the layer at fault is named, and the key."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import filrouge
from filrouge.core.paths import CONFIG, HOOK_SETTINGS
from filrouge.hosts.project import find_names
from tests.unit.server.conftest import serving

from .patient import Patient, mode_of, saw, written


def test_a_settings_file_that_is_no_toml_is_named(patient: Patient) -> None:
    patient.write(CONFIG, "budget = \n")
    saw(patient.finding("Settings file"), "fail", f"{CONFIG} is not valid TOML", "Mend or remove")
    assert patient.finding("Settings in the file").state == "note"
    assert patient.finding("Budget").cause == "unknown while the settings cannot be read"


def test_an_unknown_setting_in_the_file_is_named_with_the_nearest(patient: Patient) -> None:
    patient.write(CONFIG, "bugdet = 900\n")
    saw(patient.finding("Settings in the file"), "fail", "Did you mean 'budget'?", CONFIG)


def test_a_value_that_does_not_fit_is_named_with_its_key(patient: Patient) -> None:
    patient.write(CONFIG, "budget = 7\n")
    saw(patient.finding("Settings in the file"), "fail", "Setting 'budget'", "filrouge settings")


def test_a_settings_file_that_others_can_read_is_closed(patient: Patient) -> None:
    path = patient.write(CONFIG, "budget = 900\n", 0o644)
    saw(patient.finding("Mode of the settings file"), "warn", "other users can read", "chmod 600")
    assert patient.mended("Mode of the settings file").after.state == "ok"
    assert mode_of(path) == 0o600


def test_a_key_in_the_settings_file_is_found_and_not_repeated(patient: Patient) -> None:
    key = "sk-ant-api03-" + "Ab3" * 30
    patient.write(CONFIG, f'# mine\nllm_url = "https://example.org/?key={key}"\n')
    found = patient.finding("Keys in the settings file")
    saw(found, "warn", "line 2", "environment")
    assert key not in str(found)


def test_a_stored_setting_that_fits_no_more_is_named(patient: Patient) -> None:
    patient.sql("""UPDATE memory_settings SET value = '"loud"' WHERE key = 'mode'""")
    saw(patient.finding("Stored settings"), "fail", "Setting 'mode' (stored)", "filrouge settings NAME VALUE")


def test_a_file_of_another_program_in_this_folder_is_not_read(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(patient.project / CONFIG, 'baseURL = "https://example.org"\n')
    monkeypatch.chdir(patient.project)
    assert patient.finding("Stored settings").state == "ok"


def test_a_variable_that_is_no_setting_is_named_with_the_nearest(patient: Patient) -> None:
    patient.environ["FILROUGE_EXTRACT_PROVDER"] = "ollama"
    saw(patient.finding("Environment"), "warn", "FILROUGE_EXTRACT_PROVDER", "FILROUGE_EXTRACT_PROVIDER?")


def test_no_variable_that_the_program_reads_is_taken_for_a_mistake(patient: Patient) -> None:
    source = Path(filrouge.__file__).parent
    names = {name for path in source.rglob("*.py") for name in re.findall(r"FILROUGE_[A-Z_]*[A-Z]", path.read_text())}
    patient.environ.update(dict.fromkeys(names - {"FILROUGE_PORT"}, ""))
    assert (patient.finding("Environment").state, len(names) > 5) == ("ok", True)


def test_a_variable_whose_value_does_not_fit_is_named(patient: Patient) -> None:
    patient.environ["FILROUGE_PORT"] = "many"
    saw(patient.finding("Environment"), "fail", "Setting 'port' (environment)", "Correct or unset")


def test_a_project_file_that_is_no_toml_or_asks_too_much_is_named(patient: Patient) -> None:
    file = written(patient.project / ".filrouge.toml", "budget =\n")
    saw(patient.finding("Project file"), "warn", "is not valid TOML", "Mend or remove")
    file.write_text('llm_url = "https://example.org"\n')
    saw(patient.finding("Project file"), "note", "a repository may not set: llm_url", CONFIG)
    file.write_text('project = "shop"\nlangage = "fr"\nllm_url = "https://example.org"\n')
    saw(patient.finding("Project file"), "warn", "'langage', which is not a setting", "Did you mean 'language'?")
    file.write_text('project = "shop"\nlanguage = "fr"\n')
    assert patient.finding("Project file").state == "ok"
    file.write_text("budget = 7\n")
    saw(patient.finding("Project file"), "fail", "Setting 'budget'", str(file))


@pytest.mark.parametrize(
    ("variable", "value", "cause", "remedy"),
    [
        ("FILROUGE_DISABLED", "1", "FILROUGE_DISABLED is set", "Unset FILROUGE_DISABLED"),
        ("FILROUGE_AUTO_CAPTURE", "false", "auto_capture is off", "filrouge settings auto_capture true"),
    ],
)
def test_capture_that_is_switched_off_is_told(
    patient: Patient, variable: str, value: str, cause: str, remedy: str
) -> None:
    assert patient.finding("Capture").state == "ok"
    patient.environ[variable] = value
    saw(patient.finding("Capture"), "warn", cause, remedy)


def test_a_project_in_which_nothing_is_captured_is_noted(patient: Patient) -> None:
    patient.write(HOOK_SETTINGS, '{"disabled_projects": ["zqprojectfolder"]}')
    saw(patient.finding("Capture"), "note", "in this project", "disabled_projects")
    written(patient.project / ".filrouge.toml", "auto_capture = false\n")
    saw(patient.finding("Capture"), "note", ".filrouge.toml switches it off", ".filrouge.toml")


def test_a_folder_that_waits_for_consent_to_a_project_is_noted(patient: Patient) -> None:
    waits = patient.project / "it's"
    for place in (patient.project, waits):
        place.mkdir(exist_ok=True)
        written(place / ".filrouge.toml", 'project = "shop"\n')
    with serving(patient.home) as api:
        api.remember("Production listens on port 8443.", "name:shop", "path:/elsewhere/shop")
        saw(patient.finding("Joined folders"), "ok", "no folder", "")
        api.remember("Production listens on port 8443.", *find_names(str(waits), {}))
        saw(patient.finding("Joined folders"), "note", str(waits), f"filrouge project join {shlex.quote(str(waits))}")
