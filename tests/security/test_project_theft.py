"""A name in a file of a repository opens no other folder's memories before the user agreed to it on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from filrouge.capture.events import Event
from filrouge.capture.service import store_events
from filrouge.cli import hook
from filrouge.context.hook_files import write_all_briefs
from filrouge.context.service import build_and_log
from filrouge.core.errors import BadInput
from filrouge.hosts import project as project_files
from filrouge.maintenance.health import status
from filrouge.memories import service
from filrouge.memories.changes import remember
from filrouge.projects.repository import project_id
from filrouge.projects.service import join_project, plan_join
from filrouge.runtime.services import Parts
from filrouge.testing import idle, running
from tests.support.given import event

SECRET = "The staging database of the shop listens on port 7421."
RULE = "Always run the linter before each commit."


@dataclass
class Folder:
    """A folder in which an agent works."""

    path: Path

    @property
    def names(self) -> tuple[str, ...]:
        return project_files.find_names(str(self.path), {})

    def event(self, kind: str = "prompt", **data: object) -> Event:
        return event(kind, project=self.names, **data)._replace(cwd=str(self.path))  # type: ignore[arg-type]


@pytest.fixture
def parts(tmp_path: Path) -> Generator[Parts]:
    with running(str(tmp_path / "home")) as found:
        yield found


def folder(place: Path, *, chosen: str = "", origin: str = "", git: bool = False) -> Folder:
    place.mkdir(parents=True)
    if origin or git:
        subprocess.run(["git", "init", "-q", str(place)], check=True)
    if origin:
        subprocess.run(["git", "-C", str(place), "remote", "add", "origin", origin], check=True)
    if chosen:
        (place / ".filrouge.toml").write_text(f'project = "{chosen}"\n')
    return Folder(place)


def say(parts: Parts, where: Folder, text: str) -> None:
    store_events(parts, [where.event(text=text)]).result(60)
    idle(parts)


def place(parts: Parts, where: Folder) -> str:
    return str(parts.readers.here(lambda tx: project_id(tx, where.names)))


def shown(parts: Parts, where: Folder, prompt: str) -> str:
    """What an agent in that folder is given at its start and before a prompt, over the way of a hook."""
    given = list[str]()
    for sent in (where.event("session_start", source="startup"), where.event(text=prompt)):
        [project] = store_events(parts, [sent]).result(60).projects
        given.append(build_and_log(parts, sent, project or "").block.text)
    idle(parts)
    return "\n".join(given)


def waiting(parts: Parts) -> list[dict[str, str]]:
    return parts.readers.here(lambda tx: status(parts, tx))["waiting_folders"]


def steals(parts: Parts, where: Folder) -> bool:
    """Whether any way of reading gives the other folder's memories away."""
    found = shown(parts, where, "Which port does the staging database of the shop listen on?")
    write_all_briefs(parts)
    brief = hook.brief(parts.home, where.names)
    return any(secret in text for secret in ("7421", "linter") for text in (found, brief))


def teach(parts: Parts, where: Folder) -> None:
    say(parts, where, "We are working on the shop.")
    remember(parts, SECRET, names=where.names, scope="project", host="cli")
    service.add_rule(parts, RULE, names=where.names, scope="project")


@pytest.mark.parametrize("origin", ["", "https://forge.example/eve/clone.git"])
def test_a_clone_that_names_another_folders_project_gets_nothing_of_it(
    parts: Parts, tmp_path: Path, origin: str
) -> None:
    shop = folder(tmp_path / "shop", chosen="shop", origin="https://forge.example/ana/shop.git")
    clone = folder(tmp_path / "clone", chosen="shop", origin=origin)
    teach(parts, shop)
    assert steals(parts, shop)  # its own folder sees them, by the same reading
    assert "linter" in hook.brief(parts.home, shop.names)
    assert not steals(parts, clone)
    assert place(parts, clone) != place(parts, shop)
    assert waiting(parts) == [{"name": "shop", "folder": str(clone.path)}]
    assert "filrouge project join" in shown(parts, clone, "What now?")
    # What is said in the clone is not shown in the project either.
    say(parts, clone, "We decided that releases of the clone happen on port 9191.")
    assert "9191" not in shown(parts, shop, "On which port do releases of the clone happen?")


def test_a_hostile_clone_that_comes_first_gets_nothing_of_the_project_that_comes_after(
    parts: Parts, tmp_path: Path
) -> None:
    clone = folder(tmp_path / "clone", chosen="shop", origin="https://forge.example/eve/clone.git")
    shop = folder(tmp_path / "shop", chosen="shop", origin="https://forge.example/ana/shop.git")
    say(parts, clone, "We decided to publish the clone on port 9191.")
    teach(parts, shop)
    assert not steals(parts, clone)
    assert steals(parts, shop)
    assert "9191" not in shown(parts, shop, "On which port do we publish the clone?")


def test_the_user_agrees_once_and_the_two_are_one(parts: Parts, tmp_path: Path) -> None:
    shop = folder(tmp_path / "shop", chosen="shop", git=True)
    other = folder(tmp_path / "other", chosen="shop", origin="https://forge.example/ana/other.git")
    teach(parts, shop)
    assert not steals(parts, other)
    plan = plan_join(parts, other.names)
    assert (plan.agreed, plan.name, plan.memories > 0) == (False, "shop", True)
    assert f"path:{shop.path}" in plan.folders
    assert place(parts, other) != place(parts, shop)  # a plan changes nothing
    assert join_project(parts, other.names).agreed
    assert steals(parts, other)
    assert place(parts, other) == place(parts, shop)
    assert waiting(parts) == []
    third = folder(tmp_path / "third", chosen="shop")
    assert not steals(parts, third)
    with pytest.raises(BadInput, match=r"No \.filrouge\.toml"):
        plan_join(parts, folder(tmp_path / "plain").names)


def test_a_clone_in_the_place_of_the_first_folder_is_another_folder(parts: Parts, tmp_path: Path) -> None:
    shop = folder(tmp_path / "shop", chosen="shop", origin="https://forge.example/ana/shop.git")
    teach(parts, shop)
    shop.path.rename(tmp_path / "moved")
    assert steals(parts, Folder(tmp_path / "moved"))
    assert not steals(parts, folder(tmp_path / "shop", chosen="shop", origin="https://forge.example/eve/clone.git"))


def test_folders_below_the_users_own_file_and_work_trees_of_one_repository_share_it_unasked(
    parts: Parts, tmp_path: Path
) -> None:
    folder(tmp_path / "work", chosen="work")
    one = folder(tmp_path / "work" / "one", git=True)
    two = folder(tmp_path / "work" / "two", origin="https://forge.example/ana/two.git")
    teach(parts, one)
    assert steals(parts, two)

    mono = folder(tmp_path / "mono", origin="https://forge.example/ana/mono.git")
    names = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org"]
    for package in ("api", "web"):
        folder(mono.path / package, chosen=f"mono-{package}")
    git = ["git", "-C", str(mono.path), *names]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "linked")], check=True)
    linked = [Folder(tmp_path / "linked" / package) for package in ("api", "web")]
    teach(parts, Folder(mono.path / "api"))
    assert [steals(parts, where) for where in linked] == [True, False]
    assert [place(parts, where) for where in linked] == ["name:mono-api", "name:mono-web"]
