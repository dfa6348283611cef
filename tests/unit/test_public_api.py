"""The public API: exactly the names that `filrouge` exports, at the price of no import but their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

import filrouge


def test_the_public_names_are_sorted_and_are_those_that_resolve() -> None:
    public = [name for name in dir(filrouge) if name == "__version__" or not name.startswith("_")]
    assert filrouge.__all__ == sorted(filrouge.__all__) == sorted(public)
    assert all(getattr(filrouge, name) is not None for name in filrouge.__all__)


def test_a_public_name_is_the_thing_itself() -> None:
    from filrouge.core.settings import Settings
    from filrouge.memories.models import Memory as MemoryItem
    from filrouge.sdk.client import Memory

    assert (filrouge.Memory, filrouge.MemoryItem, filrouge.Settings) == (Memory, MemoryItem, Settings)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'Nothing'"):
        getattr(filrouge, "Nothing")  # noqa: B009 (the type checker knows that it is not there)


def test_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from filrouge import *", names)  # the only place where a star import can be written
    assert names.keys() - {"__builtins__"} == set(filrouge.__all__)


def test_importing_filrouge_loads_the_standard_library_alone() -> None:
    script = (
        "import sys; before = set(sys.modules); import filrouge; filrouge.__version__;"
        "print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=20)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"filrouge"}


def test_the_memory_of_a_daemon_costs_a_program_nothing_but_the_standard_library() -> None:
    script = (
        "import sys; before = set(sys.modules); import filrouge; filrouge.Memory; print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=20)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"filrouge"}
