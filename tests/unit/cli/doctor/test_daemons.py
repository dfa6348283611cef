"""What the doctor says of the daemon, of those who reach it, and of the log."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Thread

from filrouge._version import __version__
from filrouge.core.clock import SystemClock
from filrouge.core.paths import FAILURE, LOCK, LOG, REFUSED, RUNTIME, TEAM_TOKEN, socket_path, store_secret
from filrouge.daemon.process import LOG_BYTES
from filrouge.runtime.repository import Token, Tokens, TokenScope
from filrouge.runtime.sqlite import Database
from filrouge.server.listening import Listening
from filrouge.team import service as team
from filrouge.testing import running
from tests.support import small_hub
from tests.unit.server.conftest import serving

from .patient import Patient, mode_of, saw


@contextmanager
def listener(path: str, answer: bytes = b"") -> Generator[socket.socket]:
    """Somebody at the socket who accepts everybody, and says this or nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
        wire.bind(path)
        os.chmod(path, 0o600)
        wire.listen(64)
        yield wire


def asked(wire: socket.socket) -> list[bytes]:
    """What those asked who came so far."""
    wire.setblocking(False)
    found = list[bytes]()
    while True:
        try:
            met, _ = wire.accept()
        except BlockingIOError:
            return [one for one in found if one]
        with met:
            met.setblocking(True)
            found.append(met.recv(65536).partition(b" HTTP/")[0])


def token(patient: Patient, *, days: float, scope: TokenScope = "write") -> None:
    at = SystemClock().now() - timedelta(days=days)
    store = Database(str(patient.path("filrouge.db")))
    with store.transaction() as tx:
        Tokens(tx).put(Token(id="tok1", kind="token", name="old", scope=scope, created_at=at), "secret")
    store.close()


def test_a_daemon_that_answers_is_well_in_every_respect(patient: Patient) -> None:
    with serving(patient.home):
        assert patient.trouble() == {}
        assert patient.finding("Daemon").cause == f"answers, version {__version__}"


def test_without_a_daemon_a_healthy_home_has_no_other_trouble(patient: Patient) -> None:
    assert patient.trouble() == {"Daemon": "it is not running"}
    saw(patient.finding("Daemon"), "warn", "is not running", "filrouge daemon start")


def test_a_daemon_that_hangs_is_told_apart_from_none(patient: Patient) -> None:
    with listener(socket_path(patient.home)):
        saw(patient.finding("Daemon"), "fail", "does not answer within 1 second", f"named in {patient.home}")
        assert patient.finding("TCP").cause == "unknown while no daemon answers"


def test_a_hanging_daemon_is_waited_for_once_however_many_ask(patient: Patient) -> None:
    with listener(socket_path(patient.home)) as wire:
        assert patient.trouble().keys() == {"Daemon"}
        assert asked(wire) == [b"GET /health"]


def test_a_daemon_of_another_version_is_told(patient: Patient) -> None:
    body = b'{"status": "healthy", "version": "0.0.9"}'
    head = f"HTTP/1.1 200 OK\r\nX-Filrouge-Version: 0.0.9\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with answering(socket_path(patient.home), head + body):
        saw(patient.finding("Daemon version"), "warn", "the daemon is version 0.0.9", "filrouge daemon stop")


@contextmanager
def answering(path: str, reply: bytes) -> Generator[None]:
    with listener(path) as wire:

        def serve() -> None:
            try:
                while True:
                    met, _ = wire.accept()
                    with met:
                        if met.recv(65536):
                            met.sendall(reply)
            except OSError:
                return

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield
        wire.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_a_start_that_failed_is_told_with_its_own_remedy(patient: Patient) -> None:
    patient.write(FAILURE, json.dumps({"error": "BadConfig", "message": "No port.", "remedy": "Set one."}))
    saw(patient.finding("Last start"), "fail", "the last start failed: No port.", "Set one.")
    patient.write(FAILURE, "half a wor")
    saw(patient.finding("Last start"), "fail", "cannot be read", "filrouge logs")


def test_what_an_ended_daemon_left_is_taken_away(patient: Patient) -> None:
    with listener(socket_path(patient.home)):
        pass
    patient.write(RUNTIME, json.dumps({"pid": 1}))
    saw(patient.finding("Left by a daemon"), "note", f"filrouge.sock, {RUNTIME}", "filrouge doctor --fix")
    done = patient.mended("Left by a daemon")
    assert done.did == (f"removed {socket_path(patient.home)}", f"removed {patient.path(RUNTIME)}")
    assert done.after.state == "ok"


def test_a_daemon_whose_socket_is_gone_is_found_by_its_lock_and_left_alone(patient: Patient) -> None:
    patient.write(RUNTIME, json.dumps({"pid": 1}))
    with open(patient.path(LOCK), "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        saw(patient.finding("Lock"), "fail", "its socket is gone", f"named in {patient.path(RUNTIME)}")
        assert patient.finding("Left by a daemon").state == "ok"
    assert patient.finding("Lock").state == "ok"


def test_a_socket_that_admits_others_is_closed_to_them(patient: Patient) -> None:
    with listener(socket_path(patient.home)) as wire:
        os.chmod(socket_path(patient.home), 0o666)
        assert wire.fileno() >= 0
        saw(patient.finding("Socket"), "warn", "mode 666", "chmod 600")
        assert patient.mended("Socket").did == ("filrouge.sock: mode 666 became 600",)
        assert mode_of(Path(socket_path(patient.home))) == 0o600


def test_something_else_in_the_socket_s_place_is_named(patient: Patient) -> None:
    patient.write("filrouge.sock", "")
    saw(patient.finding("Socket"), "fail", "is not a socket", "rm ")


def test_a_daemon_elsewhere_that_does_not_answer_is_told(patient: Patient) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
    patient.environ["FILROUGE_URL"] = f"http://127.0.0.1:{port}"
    saw(patient.finding("Daemon elsewhere"), "fail", "does not answer", "unset it")


def test_a_daemon_elsewhere_that_refuses_the_key_is_told(patient: Patient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as wire, refusing(wire):
        patient.environ["FILROUGE_URL"] = f"http://127.0.0.1:{wire.getsockname()[1]}"
        patient.write(REFUSED, "")
        saw(patient.finding("Daemon elsewhere"), "fail", "rejects FILROUGE_API_KEY", "filrouge token create")


@contextmanager
def refusing(wire: socket.socket) -> Generator[None]:
    reply = f"HTTP/1.1 401 Unauthorized\r\nX-Filrouge-Version: {__version__}\r\nContent-Length: 2\r\n\r\n{{}}".encode()

    def serve() -> None:
        met, _ = wire.accept()
        with met:
            met.recv(65536)
            met.sendall(reply)

    thread = Thread(target=serve, daemon=True)
    thread.start()
    yield
    thread.join(5)


def test_a_log_that_is_not_rotated_is_told(patient: Patient) -> None:
    log = patient.write(LOG, "")
    os.truncate(log, 3 * LOG_BYTES)
    saw(patient.finding("Log"), "warn", "is not rotated", "filrouge daemon stop")


def test_errors_of_the_last_day_are_counted_and_older_ones_are_not(patient: Patient) -> None:
    now = SystemClock().now()
    lines = [f"{now - timedelta(hours=hours):%Y-%m-%dT%H:%M:%S.000Z} ERROR filrouge.x: failed" for hours in (50, 2)]
    patient.write(LOG, "\n".join(lines) + "\n")
    saw(patient.finding("Log"), "note", "1 errors in the last day", "filrouge logs")


def test_an_address_that_others_reach_needs_tls_and_a_token(patient: Patient) -> None:
    assert patient.finding("Reach").cause == "this machine only"
    patient.environ["FILROUGE_HOST"] = "0.0.0.0"
    saw(patient.finding("Reach"), "fail", "TLS is not set up", "host 127.0.0.1")
    patient.environ.update({"FILROUGE_TLS_CERT": "cert.pem", "FILROUGE_TLS_KEY": "key.pem"})
    saw(patient.finding("Reach"), "fail", "no token exists", "filrouge token create")
    token(patient, days=1)
    saw(patient.finding("Reach"), "note", "with a token and TLS", "host 127.0.0.1")


def test_a_port_that_could_not_be_had_is_told(patient: Patient) -> None:
    with serving(patient.home, Listening(notice="No TCP: the ports from 8900 on are taken.")):
        saw(patient.finding("TCP"), "warn", "are taken", "filrouge settings port")


def test_a_token_that_nobody_uses_and_that_never_expires_is_named(patient: Patient) -> None:
    token(patient, days=200)
    saw(patient.finding("Tokens"), "warn", "not used for 90 days", "filrouge token revoke tok1")


def test_a_token_that_may_do_everything_is_noted(patient: Patient) -> None:
    token(patient, days=1, scope="admin")
    saw(patient.finding("Tokens"), "note", "1 tokens may do everything", "filrouge token list")


def test_a_team_whose_hub_is_away_or_refuses_or_whose_token_is_gone_is_named(patient: Patient) -> None:
    assert patient.finding("Team").cause == "this home belongs to no team"
    with small_hub.served() as hub:
        with running(patient.home) as parts:
            team.join(parts, hub, small_hub.TOKEN, device_name="laptop")
        assert patient.finding("Team").cause == "the hub of the team acme answers"
        store_secret(patient.home, TEAM_TOKEN, "frh_revoked")
        saw(patient.finding("Team"), "fail", "not valid", "Ask for another")
    saw(patient.finding("Team"), "warn", "does not answer; what is to be shared waits", "Check the address")
    patient.path(TEAM_TOKEN).unlink()
    saw(patient.finding("Team"), "fail", "the token for the hub of the team acme is missing", f"team join {hub}")
