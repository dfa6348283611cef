"""What is not addressed to the daemon, or comes from somebody else's page, is refused: whatever the route, whatever the
token.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from .wire import Served, operations, status_in

#: Heads in the place of `Host`: PORT is the daemon's.
HOSTS: Mapping[str, str] = {
    "an attacker's name": "Host: attacker.example\r\n",
    "an attacker's name with our port": "Host: attacker.example:PORT\r\n",
    "a name that resolves to us": "Host: 127.0.0.1.attacker.example:PORT\r\n",
    "our name before another": "Host: localhost.attacker.example:PORT\r\n",
    "a name under localhost": "Host: attacker.localhost:PORT\r\n",
    "a dot at the end": "Host: localhost.:PORT\r\n",
    "a dot behind the address": "Host: 127.0.0.1.:PORT\r\n",
    "mixed case": "Host: LocalHost:PORT\r\n",
    "no port": "Host: 127.0.0.1\r\n",
    "another port": "Host: 127.0.0.1:1\r\n",
    "the port twice": "Host: 127.0.0.1:PORT:PORT\r\n",
    "a port with zeros": "Host: 127.0.0.1:0PORT\r\n",
    "another IPv6 address": "Host: [::2]:PORT\r\n",
    "an IPv4 address in IPv6": "Host: [::ffff:127.0.0.1]:PORT\r\n",
    "IPv6 without brackets": "Host: ::1:PORT\r\n",
    "a decimal address": "Host: 2130706433:PORT\r\n",
    "a hexadecimal address": "Host: 0x7f.0.0.1:PORT\r\n",
    "an octal address": "Host: 0177.0.0.1:PORT\r\n",
    "a short address": "Host: 127.1:PORT\r\n",
    "another loopback address": "Host: 127.0.0.2:PORT\r\n",
    "every address": "Host: 0.0.0.0:PORT\r\n",
    "somebody before it": "Host: me@127.0.0.1:PORT\r\n",
    "two hosts, ours first": "Host: 127.0.0.1:PORT\r\nHost: attacker.example\r\n",
    "two hosts, ours last": "Host: attacker.example\r\nHost: 127.0.0.1:PORT\r\n",
    "none": "",
    "an empty one": "Host: \r\n",
    "a forwarded one": "Host: attacker.example\r\nX-Forwarded-Host: 127.0.0.1:PORT\r\nForwarded: host=localhost\r\n",
}
OURS = "Host: 127.0.0.1:PORT\r\n"
ORIGINS: Mapping[str, str] = {
    "an attacker's": "Origin: http://attacker.example\r\n",
    "null": "Origin: null\r\n",
    "another port of this machine": "Origin: http://127.0.0.1:1\r\n",
    "another name of this machine": "Origin: http://localhost:PORT\r\n",
    "https where we speak http": "Origin: https://127.0.0.1:PORT\r\n",
    "a dot at the end": "Origin: http://127.0.0.1.:PORT\r\n",
    "mixed case": "Origin: HTTP://127.0.0.1:PORT\r\n",
    "a path behind it": "Origin: http://127.0.0.1:PORT/\r\n",
    "an empty one": "Origin: \r\n",
    "two": "Origin: http://127.0.0.1:PORT\r\nOrigin: http://attacker.example\r\n",
    "an extension": "Origin: chrome-extension://abcdefghijklmnop\r\n",
    "another site": "Sec-Fetch-Site: cross-site\r\n",
    "another port, by the browser's word": "Sec-Fetch-Site: same-site\r\n",
    "our origin from another site": "Origin: http://127.0.0.1:PORT\r\nSec-Fetch-Site: cross-site\r\n",
}
UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
SOCKETS = ("/ws", "/", "/health", "/api/memory/facts")


def statuses(door: Served, head: str) -> set[int]:
    """How every route, and every place that may hold a socket, answers a request with that head."""
    head = head.replace("PORT", str(door.port)) + f"Authorization: Bearer {door.tokens['admin']}\r\n"
    found: set[int] = set()
    for one in operations():
        ending = "Content-Length: 2\r\n\r\n{}" if one.method != "GET" else "\r\n"
        found.add(door.raw(f"{one.method} {one.path} HTTP/1.1\r\n{head}{ending}".encode()))
    return found | {door.raw(f"GET {path} HTTP/1.1\r\n{head}{UPGRADE}\r\n".encode()) for path in SOCKETS}


@pytest.mark.parametrize("variant", HOSTS)
def test_a_request_to_another_host_is_refused_on_every_route_and_socket(open_door: Served, variant: str) -> None:
    assert statuses(open_door, HOSTS[variant]) <= {421, 400}


@pytest.mark.parametrize("variant", ORIGINS)
def test_a_request_from_another_page_is_refused_on_every_route_and_socket(open_door: Served, variant: str) -> None:
    found = statuses(open_door, OURS + ORIGINS[variant])
    assert found == ({403} if variant != "two" else {403, 400})  # two are against the protocol of a socket


@pytest.mark.parametrize("target", ["http://attacker.example/health", "http://127.0.0.1:PORT/health", "*", "health"])
def test_a_whole_address_in_the_request_line_is_refused(open_door: Served, target: str) -> None:
    target, head = target.replace("PORT", str(open_door.port)), OURS.replace("PORT", str(open_door.port))
    assert open_door.raw(f"GET {target} HTTP/1.1\r\n{head}\r\n".encode()) in {421, 400}


def test_a_request_without_a_host_is_refused_in_the_older_protocol_too(open_door: Served) -> None:
    assert open_door.raw(b"GET /health HTTP/1.0\r\n\r\n") == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
@pytest.mark.parametrize("origin", ["", "Origin: http://HOST:PORT\r\n", "Sec-Fetch-Site: none\r\n"])
def test_our_own_names_and_pages_are_served(open_door: Served, host: str, origin: str) -> None:
    head = f"Host: {host}:PORT\r\n{origin.replace('HOST', host)}".replace("PORT", str(open_door.port))
    token = f"Authorization: Bearer {open_door.tokens['read']}\r\n"
    assert open_door.raw(f"GET /health HTTP/1.1\r\n{head}\r\n".encode()) == 200
    assert open_door.raw(f"GET /api/memory/stats HTTP/1.1\r\n{head}{token}\r\n".encode()) == 200


def test_a_socket_is_refused_without_a_token(open_door: Served) -> None:
    head = OURS.replace("PORT", str(open_door.port))
    for path in SOCKETS:
        with open_door.connect() as wire:
            wire.sendall(f"GET {path} HTTP/1.1\r\n{head}{UPGRADE}\r\n".encode())
            assert status_in(wire) == 401
