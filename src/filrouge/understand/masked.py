"""Masks: what redaction leaves in the place of a secret. A statement whose value is masked teaches nothing.

A sentence such as "the Slack token is [redacted:secret], keep it" tells nothing without its value, and a memory of it
would be shown in the place of things that help. Every way in asks here: statements that were read out of a turn are
dropped, and what the user or an agent states by hand is refused with a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from filrouge.errors import BadInput
from filrouge.model.memory import Statement
from filrouge.understand.sentences import split

MASK: Final = re.compile(r"\[redacted:[\w-]+\]")


def blanked(text: str) -> str:
    """The text with blanks in the place of masks, so that every position stays."""
    return MASK.sub(lambda mask: " " * len(mask[0]), text)


def unmasked(statements: Iterable[Statement], text: str) -> tuple[Statement, ...]:
    """The statements without a mask in their own words or in the sentences of `text` that they were read from."""
    masks = [mask.span() for mask in MASK.finditer(text)]
    sentences = [(one.start, one.end) for one in split(blanked(text))] if masks else []

    def is_masked(one: Statement) -> bool:
        if MASK.search(one.text):
            return True
        read = [span for span in sentences if span[0] < one.span.end and one.span.start < span[1]]
        read.append((one.span.start, one.span.end))
        return any(start < last and first < end for start, end in read for first, last in masks)

    return tuple(one for one in statements if not is_masked(one))


def without_secret(text: str) -> str:
    """The redacted text of a statement made by hand, unchanged.

    Raises:
        BadInput: a secret was masked in it.
    """
    if MASK.search(text):
        raise BadInput(
            "This holds a secret, and Filrouge keeps no secrets.",
            remedy="Say it without the value, for example where the secret is kept.",
        )
    return text
