"""Seals: how a row notices that its content was changed behind its back, and how it can be forgotten.

A sealed row holds a random key and HMAC-SHA-256(key, content). Silent corruption breaks the seal, which
SQLite's own checks mostly do not see. The journal's chain holds only such hashes: when the user forgets,
payload and key are destroyed, the remaining hash reveals nothing, and the chain still verifies.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Seal:
    """A row's key and the keyed hash of its content, 32 bytes each."""

    key: bytes
    hash: bytes


def canonical(content: Mapping[str, object]) -> bytes:
    """The one byte form of a row's content: JSON with sorted keys."""
    return json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str).encode()


def seal(content: Mapping[str, object]) -> Seal:
    """Seal `content` under a fresh key."""
    key = secrets.token_bytes(32)
    return Seal(key=key, hash=digest(key, content))


def digest(key: bytes, content: Mapping[str, object]) -> bytes:
    """HMAC-SHA-256 of the content's canonical form."""
    return hmac.new(key, canonical(content), hashlib.sha256).digest()


def holds(key: bytes, expected: bytes, content: Mapping[str, object]) -> bool:
    """True if the content is what was sealed."""
    return hmac.compare_digest(digest(key, content), expected)
