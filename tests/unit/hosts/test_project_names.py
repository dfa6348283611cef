"""The names of a project, read from real repositories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.hosts import project


def git(directory: Path, *words: str) -> str:
    names = {f"GIT_{who}_{what}": "a@b.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environ = {"PATH": os.environ["PATH"], "HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1", **names}
    done = subprocess.run(["git", *words], cwd=directory, env=environ, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def born(tmp_path: Path) -> Path:
    place = tmp_path / "shop"
    place.mkdir()
    git(place, "init", "-q")
    git(place, "commit", "-q", "--allow-empty", "-m", "first")
    return place


def names(place: Path, **environ: str) -> tuple[str, ...]:
    return project.find_names(str(place), environ)


def test_a_repository_born_here_is_known_by_its_first_commit(born: Path) -> None:
    first = git(born, "rev-list", "--max-parents=0", "HEAD")
    git(born, "commit", "-q", "--allow-empty", "-m", "second")
    (born / "src").mkdir()
    assert names(born) == (f"root:{first}", f"path:{born}")
    assert names(born / "src") == names(born)


def test_a_clone_is_known_by_its_birth_and_its_origin(born: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(born), "copy")
    origin, birth, path = names(tmp_path / "copy")
    assert origin == f"origin:{born}"
    assert birth.startswith("clone:")
    assert path == f"path:{tmp_path / 'copy'}"


def test_a_linked_work_tree_has_the_names_of_its_repository(born: Path, tmp_path: Path) -> None:
    git(born, "worktree", "add", "-q", str(tmp_path / "feature"))
    assert names(tmp_path / "feature") == names(born)


def test_the_branch_is_the_one_that_is_checked_out(born: Path, tmp_path: Path) -> None:
    git(born, "switch", "-q", "-c", "feature/coupons-é")
    (born / "src").mkdir()
    assert project.find_branch(str(born)) == project.find_branch(str(born / "src")) == "feature/coupons-é"
    git(born, "worktree", "add", "-q", "-b", "hotfix", str(tmp_path / "beside"))
    assert (project.find_branch(str(tmp_path / "beside")), project.find_branch(str(born))) == (
        "hotfix",
        "feature/coupons-é",
    )
    git(born, "checkout", "-q", "--detach")
    commit = project.find_branch(str(born))
    assert len(commit) == 12
    assert git(born, "rev-parse", "HEAD").startswith(commit)


def test_a_branch_without_a_commit_counts_and_outside_git_there_is_none(tmp_path: Path) -> None:
    assert (
        project.find_branch(str(tmp_path)) == project.find_branch("relative") == project.find_branch("/nowhere\0") == ""
    )
    git(tmp_path, "init", "-q", "-b", "trunk")
    assert project.find_branch(str(tmp_path)) == "trunk"


@pytest.mark.parametrize(
    "head", ["", "ref: refs/tags/v1", "ref: refs/heads/two words", "ref: refs/heads/a\nb", "deadbeef", "\x00\xff",
             f"ref: refs/heads/{'x' * 300}", "ref: refs/heads/.invalid", "ref: refs/heads/\x1b[2Jgone"]
)  # fmt: skip
def test_what_git_would_not_call_a_branch_is_none(tmp_path: Path, head: str) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".git" / "HEAD").write_text(head, "latin-1")
    assert project.find_branch(str(tmp_path)) == ""


def test_the_origin_comes_first_and_without_credentials(born: Path) -> None:
    git(born, "remote", "add", "other", "https://forge.example/not/this.git")
    git(born, "remote", "add", "origin", "https://ana:ghp_abcdef@Forge.example/Ana/shop.git")
    assert names(born)[0] == "origin:forge.example/Ana/shop"


def test_a_chosen_name_is_the_strongest(born: Path) -> None:
    (born.parent / ".filrouge.toml").write_text('# ours\nproject = "boutique"  # by hand\n[x]\nproject = "no"\n')
    assert names(born)[0] == "name:boutique"
    assert names(born.parent) == ("name:boutique", f"path:{born.parent}")


@pytest.mark.parametrize(
    "text", ["", "project = 3", "[table]\nproject = 'x'", "\x00\xff", "project = ''", "projects = 'x'"]
)
def test_a_file_without_a_name_is_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / ".filrouge.toml").write_text(text, "latin-1")
    assert names(tmp_path) == (f"path:{tmp_path}",)


def test_outside_git_the_agents_directory_counts_if_it_holds_the_place(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert names(tmp_path / "a" / "b", CLAUDE_PROJECT_DIR=str(tmp_path / "a")) == (f"path:{tmp_path / 'a'}",)
    assert names(tmp_path / "a", CLAUDE_PROJECT_DIR=str(tmp_path / "a" / "b")) == (f"path:{tmp_path / 'a'}",)


def test_a_reflog_that_lost_its_beginning_gives_no_birth(born: Path) -> None:
    log = born / ".git" / "logs" / "HEAD"
    git(born, "commit", "-q", "--allow-empty", "-m", "second")
    log.write_text("".join(log.read_text().splitlines(keepends=True)[1:]))
    assert names(born) == (f"path:{born}",)


@pytest.mark.parametrize(
    "url",
    [
        "https://forge.example/ana/shop",
        "https://forge.example:443/ana/shop.git",
        "https://token@forge.example/ana/shop.git/",
        "http://ana:key@FORGE.example/ana//shop",
        "ssh://git@forge.example/ana/shop.git",
        "ssh://git@forge.example:22/ana/shop.git",
        "git+ssh://git@forge.example/ana/shop",
        "git@forge.example:ana/shop.git",
        "forge.example:/ana/shop.git",
        "git://forge.example/ana/shop.git?x=1",
    ],
)
def test_every_address_of_a_repository_is_one_name(url: str) -> None:
    assert project.normalise_url(url) == "forge.example/ana/shop"


@pytest.mark.parametrize("cwd", ["", "relative", "/no/such/place/at/all", "/bad\0name", "/\ud800"])
def test_a_place_that_cannot_be_read_never_raises(cwd: str) -> None:
    found = project.find_names(cwd, {"CLAUDE_PROJECT_DIR": "\0"})
    assert all(name.startswith("path:") for name in found)


@given(st.text(max_size=60))
def test_any_address_has_one_spelling_that_stays(url: str) -> None:
    once = project.normalise_url(url)
    assert isinstance(once, str)


@given(st.binary(max_size=200))
def test_a_broken_git_pointer_never_raises(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    place = tmp_path_factory.mktemp("odd")
    (place / ".git").write_bytes(raw)
    assert names(place)[-1].startswith("path:")


def test_a_forged_pointer_lends_no_name(born: Path, tmp_path: Path) -> None:
    git(born, "worktree", "add", "-q", str(tmp_path / "feature"))
    forged = tmp_path / "unpacked"
    (forged / "own").mkdir(parents=True)
    for target in (born / ".git" / "worktrees" / "feature", born / ".git", forged / "own"):
        (forged / ".git").write_text(f"gitdir: {target}\n")
        (forged / "own" / "gitdir").write_text(f"{forged}/.git\n")
        (forged / "own" / "commondir").write_text(f"{born}/.git\n")
        assert names(forged) == (f"path:{forged}",)


def test_a_submodule_has_a_name_of_its_own(born: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(born), "inner")
    assert f"origin:{born}" in names(outer / "inner")
    config = outer / ".git" / "modules" / "inner" / "config"
    config.write_text("".join(line for line in config.read_text().splitlines(keepends=True) if "worktree" not in line))
    assert f"origin:{born}" in names(outer / "inner")


@pytest.mark.parametrize(
    ("text", "given", "captured"),
    [
        ("", "", True),
        ("auto_capture = false", "", False),
        ("project = 'x'\n  auto_capture=false # no", "", False),
        ("auto_capture = true", "", True),
        ("[x]\nauto_capture = false", "", True),
        ("auto_capture = 'false'", "", True),
        ("auto_capture = false", "true", True),
        ("", "False ", False),
        ("", "0", False),
        ("", "no", False),
        ("", "off", False),
    ],
)
def test_a_project_and_the_environment_can_refuse_capture(
    tmp_path: Path, text: str, given: str, captured: bool
) -> None:
    (tmp_path / ".filrouge.toml").write_text(text)
    (tmp_path / "src").mkdir()
    assert project.is_capture_enabled(str(tmp_path / "src"), {"FILROUGE_AUTO_CAPTURE": given}) is captured
    assert project.is_capture_enabled("", {})
    assert project.is_capture_enabled("/bad\0name", {})
