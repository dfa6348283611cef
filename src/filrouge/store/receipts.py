"""Receipts: what forgetting took, in counts, signed; never what it was.

The signature is an HMAC-SHA-256 under the key of the home. It proves to whoever holds that key that the receipt was
made in this home and not changed since; it proves nothing to anybody else, for whom the holder could have made any.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

from filrouge.clock import from_text, to_text
from filrouge.errors import NotFound
from filrouge.model.receipt import Receipt
from filrouge.ports import Tx
from filrouge.store import seals


class Receipts:
    """The table."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def put(self, receipt: Receipt, key: bytes) -> Receipt:
        """Keep a receipt, or what became of it since; with its signature."""
        signed = receipt.signed(sign(receipt, key))
        row = {
            "id": signed.id,
            "at": to_text(signed.at),
            "actor": signed.actor,
            "content": json.dumps(dict(signed.content), ensure_ascii=True),
            "signature": signed.signature,
        }
        self._tx.run("receipts.put", row)
        return signed

    def get(self, id_: str) -> Receipt:
        """One of them.

        Raises:
            NotFound: naming the id.
        """
        row = self._tx.one("receipts.get", {"id": id_})
        if row is None:
            raise NotFound(f"There is no receipt {id_!r}.", remedy="List them with `filrouge forget --receipts`.")
        return _receipt(row)

    def all(self, limit: int) -> list[Receipt]:
        """The newest, newest first."""
        return [_receipt(row) for row in self._tx.all("receipts.all", {"limit": limit})]


def sign(receipt: Receipt, key: bytes) -> bytes:
    """The signature of a receipt's content, date and author."""
    said = {"id": receipt.id, "at": to_text(receipt.at), "actor": receipt.actor, "content": dict(receipt.content)}
    return hmac.digest(key, b"receipt\0" + seals.canonical(said), hashlib.sha256)


def holds(receipt: Receipt, key: bytes | None) -> bool:
    """True if the receipt is as this home made it."""
    return key is not None and hmac.compare_digest(sign(receipt, key), receipt.signature)


def _receipt(row: dict[str, Any]) -> Receipt:
    return Receipt(
        id=row["id"],
        at=from_text(row["at"]),
        actor=row["actor"],
        content=json.loads(row["content"]),
        signature=row["signature"],
    )
