"""A person at a terminal: commands that ask, and what is typed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager

from .processes import EXECUTABLE, Done, environment, workplace


def at_a_terminal(home: str, *words: str, typed: str, **environ: str) -> Done:
    """Run `filrouge` with its input from a terminal where these lines are typed; what it prints is read as it is."""
    person, terminal = os.openpty()
    try:
        os.write(person, typed.encode())
        done = subprocess.run(
            [EXECUTABLE, *words],
            stdin=terminal,
            capture_output=True,
            env=environment(home, **environ),
            cwd=workplace(home),
            timeout=60.0,
            check=False,
        )
    finally:
        os.close(terminal)
        os.close(person)
    return Done(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode(), seconds=0.0)


@contextmanager
def asked(home: str, *words: str, question: str) -> Generator[subprocess.Popen[bytes]]:
    """A command that has come to its question; it is answered with `y` at the end of the block."""
    person, terminal = os.openpty()
    try:
        with subprocess.Popen(
            [EXECUTABLE, *words],
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(home),
            cwd=workplace(home),
        ) as process:
            assert process.stdout is not None
            said = b""
            while question.encode() not in said:
                piece = os.read(process.stdout.fileno(), 4096)
                assert piece, f"it ended without asking: {said.decode()}"
                said += piece
            try:
                yield process
            finally:
                os.write(person, b"y\n")
                process.stdout.read()
                process.wait(60)
    finally:
        os.close(terminal)
        os.close(person)
