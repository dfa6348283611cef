"""Over TCP nobody gets in without a token, and nobody further than it reaches; over the socket nobody but this user."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from filrouge._version import __version__
from filrouge.core.paths import DATABASE, LOG, RUNTIME, SOCKET
from filrouge.daemon import client
from filrouge.server import admission
from tests.reliability.processes import daemon, environment, run, status, throw_away_home

from .wire import Operation, Served, command, filled, operations, served

OPEN = ("GET", "/health")
SECRET = "frg_" + "A" * 43


@pytest.fixture(scope="module")
def documented(open_door: Served) -> list[tuple[str, str]]:
    """Every operation of the OpenAPI document."""
    paths = open_door.ask("GET", "/openapi.json", token="read").value["paths"]
    return [(method.upper(), filled(path)) for path, methods in paths.items() for method in methods]


def test_the_document_and_the_routers_tell_of_the_same_operations(documented: list[tuple[str, str]]) -> None:
    assert set(documented) == {(one.method, one.path) for one in operations() if one.documented}
    assert len(documented) > 60


@pytest.mark.parametrize("credential", ["none", "unknown", "empty", "in the query", "basic", "twice", "cookie"])
def test_without_a_token_every_path_answers_401_and_health_alone_answers(
    open_door: Served, documented: list[tuple[str, str]], credential: str
) -> None:
    admin = open_door.tokens["admin"]
    headers: dict[str, dict[str, str]] = {
        "unknown": {"Authorization": f"Bearer {SECRET}"},
        "empty": {"Authorization": "Bearer "},
        "basic": {"Authorization": f"Basic {admin}"},
        "twice": {"Authorization": f"Bearer {admin}", "X-API-Key": admin},
        "cookie": {"Cookie": f"filrouge_{open_door.port}={admin}", "Sec-Fetch-Site": "same-origin"},
    }
    query = f"?token={admin}&api_key={admin}&access_token={admin}" if credential == "in the query" else ""
    getting = ["/", "/nothing", "/openapi.json", "/health/", "//health", "/login", "/login/", "/login/x/y"]
    unknown = [*(("GET", path) for path in getting), *((method, "/health") for method in ("OPTIONS", "POST", "HEAD"))]
    hidden = [(one.method, one.path) for one in operations() if not one.documented]
    assert ("POST", "/mcp") in hidden
    let_in = [
        (method, path, answer.status)
        for method, path in [*documented, *hidden, *unknown]
        if (method, path) != OPEN
        for answer in [open_door.ask(method, path + query, headers=headers.get(credential))]
        if answer.status != 401 or "www-authenticate" not in answer.headers
    ]
    assert let_in == []


def test_health_says_that_it_is_well_and_which_version_and_nothing_else(open_door: Served) -> None:
    answer = open_door.ask("GET", "/health")
    assert (answer.status, answer.value) == (200, {"status": "healthy", "version": __version__})


def test_a_refusal_is_a_problem_document_with_the_way_out_and_the_version(open_door: Served) -> None:
    answer = open_door.ask("GET", "/api/memory/facts")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-filrouge-version"] == __version__
    assert (answer.value["status"], answer.value["exit_code"]) == (401, 4)
    assert "filrouge token create" in answer.value["remedy"]
    assert not [name for name in answer.headers if name.startswith("access-control")]


def paced(requests: list[Operation]) -> Iterator[Operation]:
    """No more in a second than one token may ask."""
    for number, one in enumerate(requests):
        if number and number % 50 == 0:
            time.sleep(0.6)
        yield one


@pytest.mark.parametrize("held", admission.SCOPES)
def test_a_token_reaches_as_far_as_its_scope_and_no_further(open_door: Served, held: admission.Scope) -> None:
    beyond = [one for one in operations() if not admission.includes(held, one.scope)]
    assert bool(beyond) == (held != "admin")
    answers = [(one, open_door.ask(one.method, one.path, token=held, body=b"{}").status) for one in paced(beyond)]
    assert [found for found in answers if found[1] != 403] == []


def test_with_the_scope_read_everything_can_be_read(open_door: Served) -> None:
    reading = [one for one in operations() if one.scope == "read" and one.method == "GET" and "/login" not in one.path]
    answers = [(one, open_door.ask(one.method, one.path, token="read").status) for one in paced(reading)]
    assert [found for found in answers if found[1] in (401, 403)] == []
    assert open_door.ask("GET", "/openapi.json", headers={"X-API-Key": open_door.tokens["read"]}).status == 200


def test_a_revoked_token_is_refused_at_once() -> None:
    with served() as door:
        made = door.ask("POST", "/api/tokens", token="admin", body={"name": "phone", "scope": "read"}).value
        assert door.ask("GET", "/api/memory/facts", token=made["token"]).status == 200
        assert run(door.home, "token", "revoke", made["id"]).code == 0
        assert door.ask("GET", "/api/memory/facts", token=made["token"]).status == 401
        listed = {one["id"]: one for one in door.ask("GET", "/api/tokens", token="admin").value["tokens"]}
        assert listed[made["id"]]["revoked_at"] is not None
        assert listed[made["id"]]["last_used_at"] is not None


def test_a_login_link_signs_a_browser_in_once() -> None:
    with served() as door:
        link = run(door.home, "token", "login", "--scope", "write").out.strip()
        path = link.removeprefix(door.url)
        first, second = door.ask("GET", path), door.ask("GET", path)
        assert (first.status, first.headers["location"], second.status) == (303, "/dashboard", 401)
        cookie, *flags = first.headers["set-cookie"].split("; ")
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(flags)
        assert (first.headers["referrer-policy"], first.headers["cache-control"]) == ("no-referrer", "no-store")

        def as_browser(method: str, at: str, **headers: str) -> int:
            said = {"Cookie": cookie} | {name.replace("_", "-"): value for name, value in headers.items()}
            return door.ask(method, at, headers=said, body=None if method == "GET" else {}).status

        assert as_browser("GET", "/dashboard", Sec_Fetch_Site="none") == 200
        assert as_browser("GET", "/api/memory/facts", Sec_Fetch_Site="same-origin") == 200
        assert as_browser("GET", "/api/memory/facts", Origin=door.url) == 200
        assert as_browser("GET", "/api/tokens", Sec_Fetch_Site="same-origin") == 403  # the scope is write
        assert as_browser("GET", "/api/memory/facts") == 401
        assert as_browser("POST", "/api/memory/memories", Sec_Fetch_Site="none") == 401
        assert as_browser("GET", "/api/memory/facts", Sec_Fetch_Site="same-site") == 403
        assert as_browser("GET", "/api/memory/facts", Origin="http://127.0.0.1:1") == 403
        sessions = door.ask("GET", "/api/tokens", token="admin").value["tokens"]
        (session,) = [one for one in sessions if one["kind"] == "session"]
        assert door.ask("GET", "/api/memory/facts", token=cookie.partition("=")[2]).status == 401  # it is no token
        assert door.ask("DELETE", f"/api/tokens/{session['id']}", token="admin").status == 200
        assert as_browser("GET", "/dashboard", Sec_Fetch_Site="none") == 401


def test_no_secret_is_in_the_log_the_database_or_the_runtime_file() -> None:
    with served() as door:
        link = client.request(door.home, "POST", "/api/tokens/login-links", {}).body["url"]
        answer = door.ask("GET", link.removeprefix(door.url))
        session = answer.headers["set-cookie"].partition("=")[2].partition(";")[0]
        assert door.ask("GET", "/nothing", token="read").status == 404
        secrets = [*door.tokens.values(), session, link.rpartition("/")[2]]
        assert len(set(secrets)) == 5
        held = {path.name: path.read_bytes() for path in Path(door.home).rglob("*") if path.is_file()}
        assert {DATABASE, LOG, RUNTIME} <= held.keys()
        assert [(name, secret) for name, raw in held.items() for secret in secrets if secret.encode() in raw] == []
        assert client.request(door.home, "GET", "/api/audit/verify").body["sound"]


def test_another_user_is_cut_off_at_the_socket() -> None:
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    with throw_away_home() as home, daemon(home, FILROUGE_PORT="0"):
        path = os.path.join(home, SOCKET)
        for place in Path(path).parents:  # as if somebody had opened what keeps others out
            if place.stat().st_mode & 0o011 == 0:
                place.chmod(0o755)
        os.chmod(path, 0o666)
        asked = (
            "import os, socket, sys\n"
            "os.setgid(65534); os.setuid(int(sys.argv[2]))\n"
            "wire = socket.socket(socket.AF_UNIX); wire.settimeout(20); wire.connect(sys.argv[1])\n"
            "try:\n"
            "    wire.sendall(b'GET /health HTTP/1.1\\r\\nHost: filrouge\\r\\nConnection: close\\r\\n\\r\\n')\n"
            "    print(wire.recv(15))\n"
            "except ConnectionError:\n"
            "    print(b'')\n"
        )

        def asking(uid: int) -> str:
            words = [sys.executable, "-c", asked, path, str(uid)]
            return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

        assert asking(65534) == "b''"
        assert asking(0) == "b'HTTP/1.1 200 OK'"


def test_with_a_umask_of_0_everything_is_still_for_this_user_alone() -> None:
    with throw_away_home() as home:
        starting = "import os, runpy; os.umask(0); runpy.run_module('filrouge.server', run_name='__main__')"
        process = subprocess.Popen([sys.executable, "-c", starting], env=environment(home))
        try:
            assert client.wait_ready(home, time.monotonic() + 60)
            modes = {str(path): stat.S_IMODE(path.lstat().st_mode) for path in Path(home).rglob("*")}
            assert modes[os.path.join(home, SOCKET)] == 0o600
            assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}
            assert stat.S_IMODE(os.stat(home).st_mode) == 0o700
        finally:
            process.terminate()
            process.wait(30)


def test_daemons_of_two_homes_listen_on_two_ports() -> None:
    with served() as one, throw_away_home() as home, daemon(home, FILROUGE_PORT=str(one.port)):
        other = status(home)
        assert other["url"] not in (None, one.url)
        assert other["url"].startswith("http://127.0.0.1:")


def test_where_no_port_is_free_the_socket_serves_and_says_so() -> None:
    with socket.socket() as last, throw_away_home() as home:
        last.bind(("127.0.0.1", 65_535))  # which has no next one
        last.listen()
        with daemon(home, FILROUGE_PORT="65535"):
            said = status(home)
            assert said["url"] is None
            assert "65535" in said["notice"]
            shown = run(home, "daemon", "status")
            assert (shown.code, "No TCP" in shown.out) == (0, True)
            assert client.request(home, "POST", "/api/tokens/login-links", {}).status == 400


@pytest.mark.parametrize("off", ["0", "off"])
def test_tcp_can_be_switched_off(off: str) -> None:
    with throw_away_home() as home, daemon(home, FILROUGE_PORT=off):
        said = status(home)
        assert (said["url"], said["notice"]) == (None, "")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "memory.example.org"])
def test_an_address_that_others_reach_is_refused_without_token_and_tls(host: str) -> None:
    with throw_away_home() as home:
        words = [sys.executable, "-m", "filrouge.server"]
        done = subprocess.run(
            words, env=environment(home, FILROUGE_HOST=host), capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 2
        assert host in done.stderr.decode()
        if host == "0.0.0.0":
            refused = run(home, "daemon", "start", FILROUGE_HOST=host)
            assert (refused.code, host in refused.err) == (2, True)


def test_with_a_token_and_tls_it_is_opened(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    with throw_away_home() as home:
        with daemon(home, FILROUGE_PORT="0"):
            token = run(home, "token", "create", "--scope", "read").out.strip()
        tls = {"FILROUGE_HOST": "0.0.0.0", "FILROUGE_TLS_CERT": cert, "FILROUGE_TLS_KEY": key}
        with daemon(home, **tls):
            url = status(home)["url"]
            assert url.startswith("https://127.0.0.1:")
            asked = {"FILROUGE_URL": url, "FILROUGE_API_KEY": token, "SSL_CERT_FILE": cert}
            assert command(home, asked, "facts", "--json").code == 0
            refused = command(home, asked | {"FILROUGE_API_KEY": SECRET}, "facts")
            assert (refused.code, "unknown, expired or revoked" in refused.err) == (4, True)


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate for 127.0.0.1 and its key."""
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    words += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    try:
        subprocess.run(words, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("making a certificate needs openssl")
    return cert, key


def test_a_command_makes_a_token_and_prints_it_alone(open_door: Served) -> None:
    made = run(open_door.home, "token", "create", "--scope", "write", "--name", "bot")
    assert (made.code, made.out.strip().startswith("frg_"), len(made.out.split())) == (0, True, 1)
    assert open_door.ask("GET", "/api/memory/facts", token=made.out.strip()).status == 200
    assert "\tbot\twrite\t" in run(open_door.home, "token", "list").out
    assert run(open_door.home, "token", "create", "--scope", "root").code == 2
