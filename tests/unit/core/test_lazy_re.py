"""Patterns wait for their first use, and every one of them can be compiled."""

from __future__ import annotations

import re as standard
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import re2  # pyright: ignore[reportMissingTypeStubs, reportMissingImports]

from filrouge.core import lazy_re as re

_ALL = """
import importlib, pkgutil, filrouge
from filrouge.core import lazy_re
for room in (
    "capture", "context", "extraction", "maintenance", "memories", "notes", "runtime", "search", "threads", "transfer"
):
    package = importlib.import_module(f"filrouge.{room}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
print(lazy_re.compile_all())
"""


def test_a_pattern_does_what_the_standard_one_does() -> None:
    pattern, plain = re.compile(r"(?P<word>\w+)!", re.IGNORECASE), standard.compile(r"(?P<word>\w+)!", re.IGNORECASE)
    assert pattern.findall("a! B! c") == plain.findall("a! B! c")
    found = pattern.search("say HEY!")
    assert found is not None
    assert found["word"] == "HEY"
    assert (pattern.pattern, pattern.flags, pattern.groups) == (plain.pattern, plain.flags, plain.groups)
    assert pattern.sub(lambda hit: hit["word"].upper(), "hey!") == "HEY"


def test_a_wrong_pattern_says_so_at_its_first_use() -> None:
    wrong = re.compile("(")
    with pytest.raises(standard.error):
        wrong.search("anything")


@pytest.mark.parametrize("engine", [standard, re2], ids=lambda engine: engine.__name__)
def test_threads_may_share_the_first_use_of_a_pattern(engine: Any, request: pytest.FixtureRequest) -> None:
    interval = sys.getswitchinterval()
    request.addfinalizer(lambda: sys.setswitchinterval(interval))
    sys.setswitchinterval(1e-6)

    def use(pattern: Any, together: threading.Barrier) -> str:
        together.wait(10)
        return pattern.sub("x", "a1")

    with ThreadPoolExecutor(8) as pool:
        for number in range(50):
            pattern, together = re.lazy_pattern(lambda n=number: engine.compile(f"a|{n}y")), threading.Barrier(8)
            assert set(pool.map(use, [pattern] * 8, [together] * 8)) == {"x1"}


def test_every_pattern_of_the_product_can_be_compiled() -> None:
    done = subprocess.run([sys.executable, "-c", _ALL], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 200
