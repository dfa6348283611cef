"""A note out of the text of its file, wherever that was read."""

from __future__ import annotations

import hashlib
from datetime import datetime

from filrouge.model.note import Note
from filrouge.notes import tags
from filrouge.notes.chunks import MOST_CHARACTERS
from filrouge.notes.frontmatter import parted
from filrouge.notes.pages import key_of

SUFFIX = ".md"


def note_of(path: str, content: bytes, *, changed: datetime, stamp: str, is_cut: bool = False) -> Note:
    """The note that these bytes are.

    Args:
        is_cut: there were more of them.
    """
    whole = content.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    if key_of(whole):  # what is known stands there: it is not to be found twice
        whole = ""
    front = parted(whole)
    is_cut = is_cut or len(front.text) > MOST_CHARACTERS
    return Note(
        path=path,
        title=path.rpartition("/")[2].removesuffix(SUFFIX),
        aliases=front.aliases,
        tags=tuple(dict.fromkeys([*front.tags, *tags.inline(front.text[:MOST_CHARACTERS])])),
        text=front.text,
        changed=changed,
        stamp=stamp,
        hash=hashlib.sha256(content).hexdigest(),
        trouble=front.trouble or (f"only its first {MOST_CHARACTERS} characters are searched" if is_cut else ""),
    )
