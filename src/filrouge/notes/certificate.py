"""The certificate of Obsidian's plugin: trusted once, by the person who looks at its fingerprint, and nobody else's.

The plugin makes its own certificate, so no authority vouches for it. It is fetched without a check a single time; from
then on whoever shows another one is refused.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import ssl
from typing import Final
from urllib.parse import urlsplit

from filrouge.address import is_loopback
from filrouge.errors import BadInput, VaultUnavailable
from filrouge.home import VAULT_CERTIFICATE, VAULT_KEY, inside, make_private, open_own

CERTIFICATE: Final = VAULT_CERTIFICATE
KEY: Final = VAULT_KEY
_PLACE: Final = "/obsidian-local-rest-api.crt"
_LARGEST: Final = 64 * 1024
_SECONDS: Final = 5.0


def host_and_port(address: str) -> tuple[str, int, bool]:
    """Where the plugin listens, and whether the way there is encrypted.

    Raises:
        BadInput: it is no address, or an unencrypted one of another machine.
    """
    parts = urlsplit(address)
    is_safe = parts.scheme == "https"
    try:
        port = parts.port or (27124 if is_safe else 27123)
    except ValueError:
        port = 0
    if parts.scheme not in ("http", "https") or not parts.hostname or not port or parts.path.strip("/"):
        raise BadInput(f"{address!r} is no address of a vault.", remedy="It looks like https://127.0.0.1:27124.")
    if not is_safe and not is_loopback(address):
        raise BadInput(f"{address} would send your notes unencrypted.", remedy="Name it with https.")
    return parts.hostname, port, is_safe


def fetched(address: str) -> str:
    """The certificate that is shown there, as PEM; it proves nothing yet.

    Raises:
        BadInput: it is no address with a certificate.
        VaultUnavailable: nobody answers, or what is answered is no certificate.
    """
    host, port, is_safe = host_and_port(address)
    if not is_safe:
        raise BadInput(f"{address} has no certificate.", remedy="Name it with https.")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=context)
    try:
        connection.request("GET", _PLACE)
        answer = connection.getresponse()
        pem = answer.read(_LARGEST).decode("ascii", "replace")
        fingerprint(pem)
    except (OSError, http.client.HTTPException) as error:
        raise VaultUnavailable(
            f"Obsidian does not answer at {address}.", remedy="Start it, with the plugin Local REST API."
        ) from error
    except ValueError as error:
        raise VaultUnavailable(f"What {address} answered is no certificate.") from error
    finally:
        connection.close()
    return pem


def fingerprint(pem: str) -> str:
    """The SHA-256 of a certificate, as people compare it.

    Raises:
        ValueError: it is no certificate.
    """
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.strip())).hexdigest().upper()
    return ":".join(digest[place : place + 2] for place in range(0, len(digest), 2))


def keep(home: str, name: str, text: str) -> None:
    """Keep the certificate or the key in the home, readable by its user alone."""
    make_private(home)
    descriptor = open_own(inside(home, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def kept(home: str, name: str) -> str:
    """What is kept; empty where nothing is."""
    try:
        with open(open_own(inside(home, name), os.O_RDONLY), encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def context_of(pem: str) -> ssl.SSLContext:
    """Trusts that certificate, and no other."""
    context = ssl.create_default_context(cadata=pem)
    # The plugin's certificate is its own authority, with less in it than strict checks of authorities ask for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
