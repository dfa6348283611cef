"""Where Filrouge lives: the platform's data directory, and a socket path that always fits."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filrouge.core import paths


@pytest.mark.parametrize("base", [None, "/elsewhere/data"])
def test_the_default_is_the_users_data_directory(base: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FILROUGE_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    if base:
        monkeypatch.setenv("XDG_DATA_HOME", base)
    assert paths.home() == platformdirs.user_data_dir("filrouge", appauthor=False)


def test_a_given_home_is_made_absolute() -> None:
    assert paths.home({"FILROUGE_HOME": "~/memory"}) == os.path.expanduser("~/memory")
    assert paths.home({"FILROUGE_HOME": "memory"}) == os.path.abspath("memory")


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00/"), min_size=1, max_size=120))
def test_a_socket_path_always_fits(name: str) -> None:
    path = paths.socket_path(f"/home/{name}")
    plain = f"/home/{name}/{paths.SOCKET}"
    assert len(os.fsencode(path)) <= paths.MAX_SOCKET_PATH
    assert (path == plain) == (len(os.fsencode(plain)) <= paths.MAX_SOCKET_PATH)


def test_two_long_homes_have_two_sockets_and_one_home_has_one(tmp_path: Path) -> None:
    one, other = tmp_path / ("a" * 120), tmp_path / ("b" * 120)
    assert paths.socket_path(str(one)) != paths.socket_path(str(other))
    assert paths.socket_path(str(one)) == paths.socket_path(f"{tmp_path}/{'x' * 100}/../{'a' * 120}")
    assert f"-{os.getuid()}/" in paths.socket_path(str(one))


def test_a_directory_is_made_private_and_kept_so(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "home"
    paths.make_private(str(place))
    place.chmod(0o755)
    paths.make_private(str(place))
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_a_brief_has_one_name_per_project() -> None:
    assert paths.brief_path("/h", "origin:a") == "/h/briefs/" + paths.stable_hash("origin:a") + ".md"
    assert paths.stable_hash("") == "cbf29ce484222325"
    assert paths.stable_hash("a") == "af63dc4c8601ec8c"


@pytest.mark.parametrize("files", [["other.txt"], [], ["filrouge.db"]])
def test_a_directory_that_others_use_keeps_its_mode(tmp_path: Path, files: list[str]) -> None:
    (tmp_path / "theirs").mkdir()
    for name in files:
        (tmp_path / name).write_text("")
    tmp_path.chmod(0o755)
    paths.make_private(str(tmp_path))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_shared_directory_is_never_narrowed(tmp_path: Path) -> None:
    (tmp_path / paths.LOCK).write_text("")
    tmp_path.chmod(0o1777)
    paths.make_private(str(tmp_path))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777
    tmp_path.chmod(0o755)
    paths.make_private(str(tmp_path))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_the_short_socket_directory_must_be_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SHORT_SOCKETS", str(tmp_path))
    place = Path(paths.socket_path(f"/{'x' * 200}")).parent
    paths.make_private(str(place))
    paths.make_private(str(place))
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    place.chmod(0o755)
    with pytest.raises(PermissionError, match="this user alone"):
        paths.make_private(str(place))
    place.rmdir()
    (tmp_path / "elsewhere").mkdir(0o700)
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="no link"):
        paths.make_private(str(place))
    place.unlink()
    place.write_text("")
    with pytest.raises(PermissionError):
        paths.make_private(str(place))
