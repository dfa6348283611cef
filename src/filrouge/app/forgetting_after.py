"""After the deed: the words leave what is not a row (indexes, caches, files, backups), and are looked for once more.

The write-ahead log can only be emptied while nobody reads. It is tried at once and for some seconds; where somebody
reads longer, a job goes on trying, and the receipt says which of the two it was.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from filrouge.app.erase import leave_indexes
from filrouge.app.forgotten_files import MOST_TEXTS, clean_beside, traces
from filrouge.app.mirror import write_briefs
from filrouge.app.old_copies import Sought, Swept, names_of, sweep
from filrouge.app.parts import Parts
from filrouge.app.worker import Outcome, Payload
from filrouge.errors import FilrougeError
from filrouge.home import DATABASE
from filrouge.model.receipt import Receipt
from filrouge.ports import Tx
from filrouge.store.forgetting import Forgetting, Reach
from filrouge.store.jobs import Jobs
from filrouge.store.receipts import Receipts

EMPTY_LOG: Final = "empty_log"
_TRIES, _PAUSE_SECONDS = 20, 0.1
_AGAIN_SECONDS: Final = 5.0
#: Rows are looked through for so many of the texts that went.
_MOST_SOUGHT: Final = 200
_SHORTEST: Final = 12


def after_the_deed(parts: Parts, reach: Reach, receipt: Receipt, sought: Sought, *, deed_seconds: float) -> Receipt:
    """Clean what lies beside the database, search for what went, and complete the receipt."""
    began = time.monotonic()
    leave_indexes(parts, reach.doomed)
    write_briefs(parts, None, everywhere=True)
    files = clean_beside(parts.home, [*sought.words, *_telling(reach)[:MOST_TEXTS]])
    emptied = _emptied(parts)
    cleaned = time.monotonic()
    try:
        swept, trouble = sweep(parts, sought, at=receipt.at, actor=receipt.actor), ""
    except FilrougeError as error:
        swept, trouble = [], error.message
    copied = time.monotonic()
    searched = _searched(parts, reach, sought)
    told: dict[str, Any] = {
        "files": [DATABASE, *files, *names_of(swept)],
        "backups": [_told(one) for one in swept] + ([_unswept(trouble)] if trouble else []),
        "log_emptied": emptied,
        "searched": searched,
        "seconds": {
            "rows": round(deed_seconds, 3),
            "files": round(cleaned - began, 3),
            "backups": round(copied - cleaned, 3),
            "search": round(time.monotonic() - copied, 3),
        },
    }
    return parts.writer.run(lambda tx: _kept(parts, tx, receipt.id, told))


def queue_emptying(tx: Tx, receipt_id: str, at: datetime) -> None:
    """Have the write-ahead log emptied, whoever ends in between."""
    Jobs(tx).enqueue(EMPTY_LOG, {"receipt": receipt_id}, dedupe=f"{EMPTY_LOG}:{receipt_id}", at=at)


def empty_log(parts: Parts, payload: Payload) -> Outcome:
    """The job: empty the write-ahead log, and say so in the receipt."""
    emptied = parts.writer.checkpoint()

    def write(tx: Tx) -> None:
        if emptied:
            _kept(parts, tx, str(payload["receipt"]), {"log_emptied": True})

    return Outcome(write=write, again=lambda: None if emptied else payload, delay=_AGAIN_SECONDS)


def _kept(parts: Parts, tx: Tx, receipt_id: str, told: dict[str, Any]) -> Receipt:
    """Complete a receipt; it is `ok` once everything is done and nothing was found afterwards."""
    former = Receipts(tx).get(receipt_id)
    content = {**former.content, **told}
    content["log_emptied"] = bool(content.get("log_emptied") or former.content.get("log_emptied"))
    rewritten = all(one["rewritten"] for one in content.get("backups", ()))
    searched = content.get("searched")
    content["ok"] = bool(content["log_emptied"] and searched and not searched["left"] and rewritten)
    return Receipts(tx).put(former.changed(**content), parts.gate.made()[0])


def _emptied(parts: Parts) -> bool:
    for _ in range(_TRIES):
        if parts.writer.checkpoint():
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def _searched(parts: Parts, reach: Reach, sought: Sought) -> dict[str, Any]:
    """Look for it as somebody would who wants to find it: in every row and every byte, by the words and by the texts.

    `left` is what still says the words; `inside_other_words`, files that have their letters as rows have them that say
    longer words, where nobody can tell the two apart; `repeated`, what nobody asked about and says a whole text that
    went.
    """
    texts = [text for text in _telling(reach) if text not in sought.words]
    words = list(sought.words)
    left, repeated = _holding(parts, words), _holding(parts, texts[:_MOST_SOUGHT])
    gone = {*reach.doomed.memories, *reach.doomed.turns}
    returned = parts.readers.here(lambda tx: Forgetting(tx, parts.analyser).present([*gone]))
    files = traces(parts.home, words)
    within: list[str] = []
    if files and parts.readers.here(lambda tx: all(Forgetting(tx, parts.analyser).is_within(word) for word in words)):
        files, within = [], files
    in_files = traces(parts.home, texts[:MOST_TEXTS])
    back = {f"returned_{table}": len(ids) for table, ids in returned.items()}
    return {
        "left": {**left, **({"files": files} if files else {}), **back},
        "repeated": {**repeated, **({"files": in_files} if in_files else {})},
        **({"inside_other_words": within} if within else {}),
        "texts_in_rows": min(len(texts), _MOST_SOUGHT),
        "texts_in_files": min(len(texts), MOST_TEXTS),
        "texts": len(texts),
    }


def _holding(parts: Parts, texts: Sequence[str]) -> dict[str, Any]:
    if not texts:
        return {}
    found = parts.readers.here(lambda tx: Forgetting(tx, parts.analyser).exact(texts))
    return {table: len(ids) for table, ids in sorted(found.items())}


def _telling(reach: Reach) -> list[str]:
    """The texts that went, those of any length, the longest first."""
    return sorted((text for text in reach.texts if len(text.strip()) >= _SHORTEST), key=len, reverse=True)


def _unswept(trouble: str) -> dict[str, Any]:
    return {"name": "*", "rows": {}, "rewritten": False, "trouble": trouble}


def _told(swept: Swept) -> dict[str, Any]:
    told: dict[str, Any] = {"name": swept.copy.name, "rows": dict(swept.copy.rows), "rewritten": swept.rewritten}
    return told | ({"trouble": swept.trouble} if swept.trouble else {})
