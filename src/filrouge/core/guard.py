"""What happens when a block of code fails: undo it, or log the failure and go on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager


@contextmanager
def on_failure(undo: Callable[[], object]) -> Generator[None]:
    """Call `undo` if the block raises anything, cancellation and Ctrl-C included, and raise the error again."""
    with ExitStack() as stack:
        stack.callback(undo)
        yield
        stack.pop_all()


class Attempt:
    """Whether a block of code failed."""

    def __init__(self) -> None:
        self.failed = False


@contextmanager
def logged(
    log: logging.Logger, message: str, *arguments: object, reraise: tuple[type[Exception], ...] = ()
) -> Generator[Attempt]:
    """Log any exception of the block with its traceback, and go on after the block.

    Args:
        reraise: exceptions that are not logged but raised again.
    """
    attempt = Attempt()
    try:
        yield attempt
    except reraise:
        raise
    except Exception:
        attempt.failed = True
        log.exception(message, *arguments)
