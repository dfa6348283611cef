"""Nothing leaves the machine: a daemon, the demo and an embedding reach loopback alone, and write to their own folders.

The system calls are audited by strace, which sees native code too: a library that looks a name up or opens a
connection by itself passes by Python's audit hooks. Where strace cannot trace (it is not installed, or the container
forbids it), the written files are still checked, and the test of connections is skipped with that reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from tests.reliability.processes import EXECUTABLE, kill, lock_holder, servers

pytestmark = pytest.mark.proof
#: The memory inside a program, and the embedder alone, asked often enough for a library that reports in batches.
_EMBEDDING: Final = """
import time
import filrouge
from filrouge.providers.embedders import create_embedder
model = create_embedder("e5")
for number in range(20):
    model.query(f"question {number}")
model.passages(["a text of a few words"] * 8)
with filrouge.opened() as memory:
    memory.remember("The almanac service listens on port 19031.")
    memory.hybrid_query("memories", "which port does the almanac use?")
time.sleep(2)
"""
#: A daemon with the real embedder, the demo, and an embedding. strace waits for all processes: the daemons are stopped.
_RUNS: Final = f"""
set -e
"$FILROUGE" remember 'The staging database listens on port 5433.'
"$FILROUGE" search 'which port does staging use?'
"$FILROUGE" daemon stop
"$FILROUGE" demo
"$PYTHON" -c '{_EMBEDDING}'
"""
_CALLS: Final = "connect,sendto,sendmsg,sendmmsg,openat,open,creat,mkdir,mkdirat"
_ADDRESS: Final = re.compile(r'sa_family=AF_INET6?, .*?(?:inet_addr\("|AF_INET6, ")([^"]+)"')
_PORT: Final = re.compile(r"sin6?_port=htons\((\d+)\)")
_CREATED: Final = re.compile(
    r"(?:openat\([^,]*, |open\(|creat\(|mkdirat\([^,]*, |mkdir\()"
    r'"([^"]+)"(?:, (?=[^)]*(?:O_CREAT|0[0-7]{3}))[^)]*)?\)\s+= (?!-)'
)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What the runs did.

    Attributes:
        calls: the traced system calls, a line each; None where strace could not trace.
        reason: why it could not.
    """

    root: Path
    home: Path
    calls: list[str] | None
    reason: str


@pytest.fixture(scope="module")
def audit() -> Iterator[Audit]:
    """Run the daemon, the demo and an embedding in a user's account of their own."""
    with TemporaryDirectory(prefix="frl-", dir="/tmp") as name:
        root = Path(name)
        home = root / "memory"
        (root / "user").mkdir()
        (root / "tmp").mkdir()
        reason = _why_no_trace()
        trace = [] if reason else [
            "strace", "-f", "-qq", "--seccomp-bpf", "-s", "200", "-e", f"trace={_CALLS}", "-o", str(root / "trace"),
        ]  # fmt: skip
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(root / "user"), "TMPDIR": str(root / "tmp"), "LANG": "C.UTF-8",
            "FILROUGE_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1",
            # What a user may have set for programs of his own.
            "FASTAPI_OTEL_AUTO_CONFIGURE": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://192.0.2.1:4318",
            "FILROUGE": EXECUTABLE, "PYTHON": sys.executable,
        }  # fmt: skip
        try:
            done = subprocess.run(
                [*trace, "sh", "-c", _RUNS], env=environ, cwd=root / "user", capture_output=True, text=True,
                timeout=240, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            calls = None if reason else (root / "trace").read_text(errors="replace").splitlines()
            yield Audit(root=root, home=home, calls=calls, reason=reason)
        finally:
            for pid in (lock_holder(str(home)), *servers(str(home))):
                kill(pid)


def test_nothing_is_connected_to_but_loopback_and_own_sockets(audit: Audit) -> None:
    if audit.calls is None:
        pytest.skip(audit.reason)
    connected = [line for line in audit.calls if re.search(r"\b(connect|sendto|sendmsg|sendmmsg)\(", line)]
    assert any("AF_UNIX" in line for line in connected), "the trace sees no client of the daemon: it is broken"
    assert [line for line in connected if not _stays_here(line)] == []


def test_every_file_is_made_in_the_home_the_cache_or_the_temporary_folder(audit: Audit) -> None:
    if audit.calls is None:
        pytest.skip(audit.reason)
    allowed = (str(audit.home), str(audit.root / "tmp"), str(audit.root / "user/.cache/filrouge"), "/dev/")
    parents = {str(audit.root / "user/.cache")}
    made = {found[1] for line in audit.calls if (found := _CREATED.search(line))}
    assert any(path.startswith(str(audit.home)) for path in made), "the trace sees no file of the home: it is broken"
    assert {path for path in made if not path.startswith(allowed) and path not in parents} == set()


def test_no_file_is_left_outside_the_home_and_the_cache_of_models(audit: Audit) -> None:
    left = {path.relative_to(audit.root) for path in audit.root.rglob("*") if path.is_file()}
    mine = {path for path in left if path.parts[0] == "memory" or path.parts[:3] == ("user", ".cache", "filrouge")}
    assert mine, "nothing was written at all"
    assert left - mine - {Path("trace")} == set()


def _stays_here(call: str) -> bool:
    """Whether a call reaches a socket of this machine, and no resolver of names."""
    if (port := _PORT.search(call)) and port[1] == "53":
        return False
    if found := _ADDRESS.search(call):
        return found[1].startswith("127.") or found[1] == "::1"
    return "AF_INET" not in call


def _why_no_trace() -> str:
    """Why strace cannot be used here; empty where it can."""
    if not shutil.which("strace"):
        return "strace is not installed: connections of native code cannot be seen without it"
    tried = subprocess.run(
        ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=connect", "true"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "" if tried.returncode == 0 else f"strace cannot trace here: {tried.stderr.strip()[:200]}"
