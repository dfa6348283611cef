"""An identity provider for tests: a real HTTP server on loopback that publishes keys and signs tokens."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jwk, jwt
from joserfc.jws import JWSRegistry
from joserfc.registry import HeaderParameter

from filrouge.core.clock import Clock

DISCOVERY = "/.well-known/openid-configuration"


def new_key(id_: str, type_: str = "EC") -> jwk.Key:
    match type_:
        case "RSA":
            return jwk.RSAKey.generate_key(2048, {"kid": id_})
        case "OKP":
            return jwk.OKPKey.generate_key("Ed25519", {"kid": id_})
        case _:
            return jwk.ECKey.generate_key("P-256", {"kid": id_})


@dataclass(kw_only=True)
class Provider:
    """What the server answers, and what it was asked.

    Attributes:
        documents: the answer for each path: a document, or an address to redirect to.
        asked: the paths that were asked for, in order.
    """

    issuer: str
    clock: Clock
    keys: list[jwk.Key]
    documents: dict[str, Any] = field(default_factory=dict[str, Any])
    asked: list[str] = field(default_factory=list[str])

    def publish(self, *keys: jwk.Key) -> None:
        """Publish these keys, and sign with the first."""
        self.keys = list(keys)
        self.documents["/keys"] = {"keys": [key.as_dict(private=False) for key in keys]}

    def token(
        self,
        *,
        key: jwk.Key | None = None,
        header: dict[str, Any] | None = None,
        algorithm: str = "ES256",
        **claims: Any,
    ) -> str:
        """Sign a token that is valid but for what is given; a header or a claim of None is left out."""
        key, now = key or self.keys[0], int(self.clock.now().timestamp())
        told = {"iss": self.issuer, "aud": "hub", "sub": "u-1", "exp": now + 300, "email": "ben@acme.org"} | claims
        head = {"alg": algorithm, "kid": key.kid} | (header or {})
        head, told = ({name: value for name, value in part.items() if value is not None} for part in (head, told))
        registry = JWSRegistry({name: HeaderParameter("", lambda _: None) for name in head}, [algorithm])
        return jwt.encode(head, told, key, registry=registry)


@contextmanager
def identity_provider(clock: Clock) -> Generator[Provider]:
    """Run a provider with one key."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.asked.append(self.path)
            found = provider.documents.get(self.path)
            if isinstance(found, str):
                self.send_response(302)
                self.send_header("Location", found)
                self.end_headers()
                return
            body = json.dumps(found).encode()
            self.send_response(200 if found is not None else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it so)
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = f"http://127.0.0.1:{server.server_address[1]}"
    provider = Provider(issuer=issuer, clock=clock, keys=[])
    provider.documents[DISCOVERY] = {"issuer": issuer, "jwks_uri": f"{issuer}/keys"}
    provider.publish(new_key("first"))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
