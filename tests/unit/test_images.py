"""The container images and the compose files: no linter has a finding, and what makes them safe is there.

No test builds an image. Their install commands run in `tests/acceptance/test_installed_from_a_wheel.py`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from compose_spec import PyCompose

from tests.support import images
from tests.support.images import DOCKERFILES, FOLDER, Instruction
from tests.support.wheels import ROOT

COMPOSE_FILES = ("compose.yaml", "compose.archive.yaml")
VARIABLES = images.example_variables()
#: The services of both files together, as `docker compose -f … -f …` merges them.
SERVICES: dict[str, dict[str, Any]] = {}
for _name in COMPOSE_FILES:
    for _service, _given in images.compose(_name, VARIABLES)["services"].items():
        SERVICES[_service] = SERVICES.get(_service, {}) | _given


def _values(stage: list[Instruction], name: str) -> list[str]:
    return [one.value for one in stage if one.name == name]


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_the_linter_of_dockerfiles_has_no_finding(dockerfile: str) -> None:
    linter = Path(sys.executable).with_name("hadolint")
    command = [linter, "--no-fail", "--format=json", FOLDER / dockerfile]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_an_image_runs_as_an_unprivileged_user_with_a_health_check(dockerfile: str) -> None:
    image = images.stages(dockerfile)[-1]
    user, group = _values(image, "USER")[-1].split(":")
    assert int(user) >= 10_000
    assert int(group) >= 10_000
    assert f"--uid {user} " in " ".join(_values(image, "RUN"))
    # What runs as root comes before the user.
    assert [one.name for one in image].index("USER") > max(i for i, one in enumerate(image) if one.name == "RUN")
    assert images.command(_values(image, "HEALTHCHECK")[0])
    assert images.command(_values(image, "CMD")[0])
    assert _values(image, "EXPOSE") == []


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_every_argument_is_used_and_every_base_is_pinned(dockerfile: str) -> None:
    for stage in images.stages(dockerfile):
        text = "\n".join(one.value for one in stage if one.name != "ARG")
        for argument in _values(stage, "ARG"):
            assert f"${argument.partition('=')[0]}" in text
        assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+( AS \w+)?", stage[0].value)


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_the_build_context_has_what_is_copied_and_nothing_secret(dockerfile: str) -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    assert "*" in lines
    allowed = {line[1:] for line in lines if line.startswith("!")}
    copied = [name for one in images.instructions(dockerfile) if one.name == "COPY" for name in one.value.split()[:-1]]
    assert set(copied) == allowed
    assert all((ROOT / name).exists() for name in copied)


def test_the_daemon_keeps_its_home_in_the_volume_and_the_hub_has_none() -> None:
    daemon, hub = (images.stages(dockerfile)[-1] for dockerfile in DOCKERFILES)
    [volume] = _values(daemon, "VOLUME")
    environ = dict(word.split("=", 1) for word in _values(daemon, "ENV")[0].split())
    assert {Path(environ[name]).parent for name in ("FILROUGE_HOME", "FILROUGE_MODELS")} == {Path(volume)}
    assert f"-m 700 {volume}" in " ".join(_values(daemon, "RUN"))
    assert _values(hub, "VOLUME") == []


def test_no_image_listens_beyond_its_container_by_itself() -> None:
    for dockerfile in DOCKERFILES:
        for one in images.stages(dockerfile)[-1]:
            assert "0.0.0.0" not in one.value
    assert all(port.startswith("127.0.0.1:") for one in SERVICES.values() for port in one.get("ports", []))


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_a_compose_file_follows_the_specification(name: str) -> None:
    found = PyCompose.from_yaml(images.compose_text(name, VARIABLES))
    found.validate()
    document = images.compose(name, VARIABLES)
    mounted = {one.split(":")[0] for service in document["services"].values() for one in service.get("volumes", [])}
    assert {one for one in mounted if not one.startswith(".")} == set(document["volumes"])
    for one in mounted:
        assert not one.startswith(".") or (FOLDER / one).is_dir()


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_has_a_health_check_a_restart_policy_and_a_pinned_image(name: str) -> None:
    service = SERVICES[name]
    assert ":" in service["image"]
    assert not service["image"].endswith(":latest")
    if service["restart"] == "no":  # it ends by itself, and another service waits for that
        waiting = [one["depends_on"].get(name, {}) for one in SERVICES.values() if "depends_on" in one]
        assert {"condition": "service_completed_successfully"} in waiting
        assert service["healthcheck"] == {"disable": True}
    else:
        assert service["restart"] == "unless-stopped"
        built = (
            [ROOT / "docker" / service["build"]["context"] / service["build"]["dockerfile"]]
            if "build" in service
            else []
        )
        listens = "ports" in service or not built
        checks = "test" in service["healthcheck"] or any("HEALTHCHECK" in one.read_text() for one in built)
        assert checks if listens else service["healthcheck"] == {"disable": True}


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_no_secret_is_in_a_compose_file_and_none_has_a_default(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    for line in text.splitlines():
        if re.match(r"\s+\w*(PASSWORD|SECRET)\w*:", line):
            assert re.fullmatch(r"\s+\w+: \$\{\w+_(PASSWORD|SECRET):\?[^}]+\}", line), line
    assert not re.search(r"://[^\s/@]+:[^\s/@]+@", text)
    for missing in [one for one in VARIABLES if f"{one}:?" in text]:
        with pytest.raises(KeyError, match=missing):
            images.compose(name, VARIABLES | {missing: ""})


def test_the_file_with_the_passwords_is_ignored_by_git_and_left_out_of_the_images() -> None:
    assert "docker/.env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    example = (FOLDER / ".env.example").read_text(encoding="utf-8")
    secret = [line for line in example.splitlines() if re.match(r"\w+_(PASSWORD|SECRET)=", line)]
    assert len(secret) == 4
    assert all(line.endswith("=") for line in secret)


@pytest.mark.parametrize("name", ["hub", "worker"])
def test_a_process_of_the_hub_has_another_role_than_the_owner_and_starts_after_the_schema_is_up_to_date(
    name: str,
) -> None:
    init, hub = SERVICES["init"], SERVICES[name]
    assert init["environment"]["FILROUGE_HUB_DATABASE"] != hub["environment"]["FILROUGE_HUB_DATABASE"]
    assert init["environment"]["PGPASSWORD"] != hub["environment"]["PGPASSWORD"]
    assert init["environment"]["FILROUGE_HUB_PROCESS_SECRET"] == hub["environment"]["FILROUGE_HUB_PROCESS_SECRET"]
    assert hub["depends_on"]["init"] == {"condition": "service_completed_successfully"}
    assert init["depends_on"]["postgres"] == hub["depends_on"]["postgres"] == {"condition": "service_healthy"}
