"""Addresses of servers, as people write them: checked before anything is sent there."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from filrouge.errors import BadConfig


def is_loopback(address: str) -> bool:
    """Whether an address is this machine."""
    host = urlsplit(address).hostname or ""
    try:
        return host == "localhost" or host.endswith(".localhost") or ip_address(host).is_loopback
    except ValueError:
        return False


def checked_address(address: str, *, setting: str) -> str:
    """An HTTP address without its trailing slash.

    Raises:
        BadConfig: it is none, or it carries a password.
    """
    address = address.strip().rstrip("/")
    try:
        parts = urlsplit(address)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, fits = None, False
    if not fits or parts is None or any(sign in parts.netloc for sign in "@ \t") or parts.query or parts.fragment:
        raise BadConfig(
            f"{setting} is no address that can be used.",
            remedy="Give http:// or https://, a host, and a path if there is one; keys belong in the environment.",
        )
    return address
