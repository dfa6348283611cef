"""What happens when a block of code fails: undo it, or log the failure and go on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


@contextmanager
def on_failure(undo: Callable[[], object]) -> Generator[None]:
    """Call `undo` if the block raises anything, cancellation and Ctrl-C included. The error is raised further."""
    with ExitStack() as stack:
        stack.callback(undo)
        yield
        stack.pop_all()


@dataclass
class Attempt:
    """Whether a block that may fail did."""

    failed: bool = False


@contextmanager
def logged(
    log: logging.Logger, message: str, *arguments: object, passing: tuple[type[Exception], ...] = ()
) -> Generator[Attempt]:
    """Log any exception of the block with its traceback, and go on after the block.

    Args:
        passing: exceptions that are raised further.
    """
    attempt = Attempt()
    try:
        yield attempt
    except passing:
        raise
    except Exception:
        attempt.failed = True
        log.exception(message, *arguments)
