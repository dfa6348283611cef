"""Obsidian with its plugin Local REST API, as far as Filrouge asks it: a real server with a certificate of its own.

It takes a search only with the exact type that the plugin compares, a note only by segments, and nothing without the
key but its certificate.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

KEY = "a-key-of-obsidian"


@dataclass
class Obsidian:
    """What is in the vault, and where it is served."""

    address: str
    pem: str
    notes: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])
    asked: list[str] = field(default_factory=list[str])

    def write(self, path: str, text: str, seconds: float = 1_780_000_000.0) -> None:
        self.notes[path] = (text, seconds * 1000)


@contextmanager
def obsidian(folder: Path, port: int = 0) -> Generator[Obsidian]:
    """A running Obsidian; a new certificate each time."""
    pem, key = _certificate()
    chain = folder / f"obsidian-{id(pem)}.pem"
    chain.write_text(key + pem)
    server = ThreadingHTTPServer(("127.0.0.1", port), _Plugin)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    here = Obsidian(address=f"https://127.0.0.1:{server.server_address[1]}", pem=pem)
    _Plugin.served[server] = here
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Plugin(BaseHTTPRequestHandler):
    served: dict[Any, Obsidian] = {}  # noqa: RUF012

    def do_GET(self) -> None:
        here = self.served[self.server]
        here.asked.append(self.path)
        if self.path == "/obsidian-local-rest-api.crt":
            self._answer(200, here.pem.encode())
        elif self._is_let_in():
            names = self.path.removeprefix("/vault/").split("/")
            found = here.notes.get("/".join(map(unquote, names))) if not any("%2F" in name for name in names) else None
            if found is None or self.headers["Accept"] != "application/vnd.olrapi.note+json":
                self._answer(404, b'{"errorCode": 40400}')
            else:
                text, changed = found
                note: dict[str, object] = {
                    "path": self.path,
                    "content": text,
                    "stat": {"mtime": changed, "size": len(text)},
                }
                self._answer(200, json.dumps(note).encode())

    def do_POST(self) -> None:
        here = self.served[self.server]
        here.asked.append(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self._is_let_in():
            return
        is_logic = self.headers["Content-Type"] == "application/vnd.olrapi.jsonlogic+json"
        if self.path != "/search/" or not is_logic or json.loads(body) != {"var": "stat.mtime"}:
            self._answer(400, b'{"errorCode": 40012}')
            return
        rows = [{"filename": path, "result": changed} for path, (_, changed) in here.notes.items()]
        self._answer(200, json.dumps(rows).encode())

    def do_PUT(self) -> None:
        """It writes whatever is there: it knows no condition."""
        here = self.served[self.server]
        here.asked.append(f"PUT {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self._is_let_in():
            return
        names = self.path.removeprefix("/vault/").split("/")
        if self.headers["Content-Type"] != "text/markdown" or any("%2F" in name for name in names):
            self._answer(400, b'{"errorCode": 40011}')
            return
        here.write("/".join(map(unquote, names)), body.decode(), time.time())
        self._answer(204, b"")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing is printed."""

    def _is_let_in(self) -> bool:
        if self.headers["Authorization"] == f"Bearer {KEY}":
            return True
        self._answer(401, b'{"errorCode": 40101}')
        return False

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _certificate() -> tuple[str, str]:
    """A self-signed certificate for 127.0.0.1 as the plugin makes one, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Obsidian Local REST API")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM
    private = key.private_bytes(form, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.public_bytes(form).decode(), private.decode()
