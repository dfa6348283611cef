"""Tokens of an identity provider: who gets in, who does not, and whose word the database takes."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx2
import psycopg
import pytest
from joserfc import jwk
from psycopg.rows import dict_row
from starlette.testclient import TestClient
from typer.testing import CliRunner

from filrouge.cli.commands.hub import hub_app
from filrouge.core.clock import Clock
from filrouge.core.errors import BadConfig, BadInput, FilrougeError, HubUnavailable, Unauthorized
from filrouge.hub import journal, oidc, schema, service, tokens
from filrouge.hub.database import Connection, HubDatabase
from filrouge.hub.models import NewToken
from filrouge.runtime.repository import hash_secret
from filrouge.server.hub import create_app
from filrouge.testing import ManualClock
from tests.security.wire import free_port
from tests.support.identity_provider import DISCOVERY, Provider, identity_provider, new_key
from tests.support.postgres import Hub

from .shared import CLOCK, version
from .test_killed import serving

_NUMBERS = itertools.count()


@dataclass(kw_only=True)
class Team:
    """A tenant that takes tokens of a provider, and one instance of the hub."""

    hub: Hub
    tenant: str
    name: str
    admin: str
    provider: Provider
    clock: ManualClock
    database: HubDatabase

    def who(self, **token: Any) -> tuple[str, str, set[str]]:
        """Enter with a token; return tenant, name and scopes."""
        return self.enter(self.provider.token(**token))

    def enter(self, bearer: str) -> tuple[str, str, set[str]]:
        with self.database.session(bearer) as session:
            return session.identity.tenant, session.identity.member_name, set(session.identity.scopes)

    def refusal(self, **token: Any) -> str:
        with pytest.raises(Unauthorized) as refused:
            self.who(**token)
        return refused.value.message


def configure(hub: Hub, issuer: str, *, audience: str = "hub", admins: tuple[str, ...] = ()) -> NewToken:
    """Add a tenant with a provider; return its first token."""
    made = hub.add_tenant(f"oidc {next(_NUMBERS)}")
    with schema.connect(hub.owner) as connection:
        oidc.configure(connection, made.tenant, issuer=issuer, audience=audience, admins=admins)
    return made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(CLOCK.now())


@pytest.fixture
def provider(clock: ManualClock) -> Generator[Provider]:
    with identity_provider(clock) as found:
        yield found


@pytest.fixture
def acme(hub: Hub, provider: Provider, clock: ManualClock) -> Generator[Team]:
    made = configure(hub, provider.issuer, admins=("Ben@acme.org",))
    database = HubDatabase(hub.serving, providers=oidc.IdentityProviders(hub.process_secret, clock))
    database.open()
    try:
        yield Team(
            hub=hub, tenant=made.tenant, name="", admin=made.secret, provider=provider, clock=clock,
            database=database,
        )  # fmt: skip
    finally:
        database.close()


@pytest.mark.parametrize(
    ("algorithm", "kind"), [("RS256", "RSA"), ("ES256", "EC"), ("EdDSA", "OKP"), ("Ed25519", "OKP")]
)
@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # by the signing side of this test
def test_a_valid_token_makes_a_member_at_first_sight_and_finds_them_again(
    acme: Team, algorithm: str, kind: str
) -> None:
    acme.provider.publish(new_key("k", kind))
    first = acme.who(algorithm=algorithm)
    assert first == (acme.tenant, "ben@acme.org", {"read", "share", "forget"})
    assert acme.who(algorithm=algorithm, email="renamed@acme.org") == first
    with acme.database.session(acme.admin) as session:
        assert [one["name"] for one in tokens.members(session)] == ["Ana", "ben@acme.org"]
    with schema.connect(acme.hub.owner) as connection:
        actions = connection.execute("SELECT action FROM hub.journal WHERE tenant = %s", [acme.tenant]).fetchall()
        assert [row["action"] for row in actions] == ["member_join"]
        assert journal.verify(connection, acme.tenant).sound


def test_people_whose_first_requests_come_at_once_become_one_member_each(acme: Team) -> None:
    found = [acme.provider.token(sub=f"u-{number % 6}") for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        names = {name for _, name, _ in pool.map(acme.enter, found)}
    assert names == {"ben@acme.org", *(f"ben@acme.org ({number})" for number in range(2, 7))}


def test_the_journal_is_free_again_before_the_work_of_a_first_request(acme: Team) -> None:
    acme.enter(acme.admin)  # reserves the next requests
    with acme.database.session(acme.provider.token()) as first, acme.database.session(acme.admin) as admin:
        service.push(admin, CLOCK, [version()])  # would wait for the journal
        assert first.identity.member_name == "ben@acme.org"


def test_what_a_member_may_do_comes_from_the_token_or_from_the_operator(acme: Team) -> None:
    default = {"read", "share", "forget"}
    assert acme.who(filrouge_scopes=["read", "unknown"])[2] == {"read"}
    assert acme.who(filrouge_scopes="read share")[2] == {"read", "share"}
    assert acme.who(filrouge_scopes=[])[2] == set()
    assert acme.who(email="BEN@acme.org", email_verified=True)[2] == default | {"admin"}
    # Anybody can write an address into a profile, so an unverified one makes no admin.
    assert acme.who(email_verified=None)[2] == default
    assert acme.who(email_verified=False)[2] == default
    assert acme.who(email="eve@acme.org", email_verified=True)[2] == default


def test_people_of_one_name_are_told_apart(acme: Team) -> None:
    names = [acme.who(sub=f"u-{number}", email=None, name="Ana\x00")[1] for number in range(2)]
    assert names == ["Ana (2)", "Ana (3)"]
    assert acme.who(sub="u-9", email=None)[1] == "u-9"
    assert acme.who(sub="u-10", email="boss@acme.org", email_verified=False, name="Eve")[1] == "Eve"


def test_a_token_that_is_over_or_not_yet_valid_is_refused(acme: Team) -> None:
    now = int(acme.clock.now().timestamp())
    acme.who(exp=now - 59)
    acme.who(nbf=now + 60)
    assert "expired" in acme.refusal(exp=now - 60)
    assert "not yet valid" in acme.refusal(nbf=now + 61)
    for missing in ("exp", "sub", "aud", "iss"):
        acme.refusal(**{missing: None})
    for bad in ({"exp": "soon"}, {"exp": float("nan")}, {"sub": 7}, {"sub": "a\x00"}, {"aud": 7}, {"aud": ["\x00"]}):
        acme.refusal(**bad)


def test_a_token_for_somebody_else_is_refused(acme: Team) -> None:
    acme.who(aud=["elsewhere", "hub"])
    acme.refusal(aud="elsewhere")
    acme.refusal(aud=[])
    assert "issuer" in acme.refusal(iss="https://login.example.org")
    assert "issuer" in acme.refusal(iss=f"{acme.provider.issuer}/")
    assert "another type" in acme.refusal(header={"typ": "logout+jwt"})
    for bad in ({"typ": 7}, {"kid": 7}):
        acme.refusal(header=bad)


def test_a_token_that_is_not_signed_by_the_issuer_is_refused(acme: Team) -> None:
    acme.who()
    forged = new_key("first")
    assert "signature" in acme.refusal(key=forged)
    # The key that a token brings along proves nothing.
    assert "signature" in acme.refusal(key=forged, header={"jwk": forged.as_dict(private=False)})
    acme.refusal(header={"crit": ["exp"], "exp": 1})


def test_a_token_without_a_signature_or_signed_with_the_public_key_is_refused(acme: Team) -> None:
    acme.who()
    head, body, signature = acme.provider.token().split(".")
    for name in ("none", "None", "NONE", "HS256"):
        header = base64.urlsafe_b64encode(json.dumps({"alg": name, "kid": "first"}).encode()).decode().rstrip("=")
        for end in ("", signature):
            with pytest.raises(Unauthorized, match="algorithm"):
                acme.enter(f"{header}.{body}.{end}")
    public = acme.provider.keys[0]
    assert isinstance(public, jwk.ECKey)
    for secret in (public.as_pem(private=False), json.dumps(public.as_dict(private=False)).encode()):
        shared = jwk.OctKey.import_key(base64.b64encode(secret), {"kid": "first"})
        assert "algorithm" in acme.refusal(key=shared, algorithm="HS256")
    for garbage in ("a.b.c", "..", f"{head}.{body}.", f"{head}..{signature}", f"{'e' * 20_000}.{body}.{signature}"):
        with pytest.raises(Unauthorized):
            acme.enter(garbage)


def test_an_unknown_key_is_looked_up_once_a_minute(acme: Team) -> None:
    acme.who()
    assert acme.provider.asked == [DISCOVERY, "/keys"]
    stranger = new_key("second")
    for _ in range(5):
        assert "no such key" in acme.refusal(key=stranger)
    assert len(acme.provider.asked) == 2
    acme.clock.move(seconds=61)
    for _ in range(5):
        acme.refusal(key=stranger)
    assert len(acme.provider.asked) == 4


def test_a_rotated_key_is_taken_and_the_one_it_replaced_is_not(acme: Team) -> None:
    acme.who()
    old, new = acme.provider.keys[0], new_key("second")
    acme.clock.move(seconds=61)
    acme.provider.publish(new)
    acme.who()
    acme.refusal(key=old)


def test_a_token_may_leave_out_the_key_id_where_only_one_key_fits(acme: Team) -> None:
    acme.provider.publish(new_key("first"), new_key("other", "OKP"))
    acme.who(header={"kid": None})
    acme.provider.publish(new_key("first"), new_key("second"))
    acme.clock.move(minutes=11)
    acme.refusal(header={"kid": None})


def test_a_key_that_the_issuer_withdraws_is_refused_after_ten_minutes(acme: Team) -> None:
    acme.who()
    old = acme.provider.keys[0]
    acme.provider.publish(new_key("second"))
    acme.clock.move(minutes=11)
    acme.refusal(key=old)


def test_keys_outlive_their_issuer_for_a_day(acme: Team) -> None:
    acme.who()
    acme.provider.documents.clear()
    acme.clock.move(hours=23)
    acme.who()
    acme.clock.move(hours=2)
    with pytest.raises(HubUnavailable):
        acme.who()


def test_without_keys_the_answer_is_503_until_the_issuer_answers(acme: Team) -> None:
    published = dict(acme.provider.documents)
    acme.provider.documents.clear()
    with TestClient(create_app(acme.database, CLOCK)) as client:

        def ask() -> httpx2.Response:
            return client.get("/hub/v1/status", headers={"Authorization": f"Bearer {acme.provider.token()}"})

        assert ask().status_code == 503
        acme.provider.documents.update(published)
        assert ask().status_code == 503  # once a minute
        acme.clock.move(seconds=61)
        assert ask().status_code == 200


@pytest.mark.filterwarnings("ignore:Key size")
def test_a_key_that_can_be_broken_is_not_taken(acme: Team) -> None:
    acme.provider.publish(jwk.RSAKey.generate_key(1024, {"kid": "weak"}), new_key("first"))
    with pytest.raises(Unauthorized, match="no such key"):
        acme.who(algorithm="RS256")
    acme.who(key=acme.provider.keys[1])


@pytest.mark.parametrize(
    "documents",
    [
        {DISCOVERY: "/elsewhere", "/elsewhere": "discovery"},
        {"/keys": "/elsewhere", "/elsewhere": "keys"},
        {DISCOVERY: {"issuer": "https://other.example.org", "jwks_uri": "{issuer}/keys"}},
        {DISCOVERY: {"issuer": "{issuer}", "jwks_uri": "http://192.0.2.1/keys"}},
        {DISCOVERY: {"issuer": "{issuer}", "jwks_uri": "file:///etc/passwd"}},
        {DISCOVERY: {"issuer": "{issuer}"}},
        {DISCOVERY: {"issuer": "{issuer}", "jwks_uri": 7}},
        {DISCOVERY: []},
        {"/keys": {"keys": []}},
        {"/keys": {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "first"}, 7]}},
        {"/keys": {"keys": [{"kty": "EC", "x": "x" * 3_000_000}]}},
    ],
)
def test_a_provider_that_answers_wrongly_gives_no_keys(acme: Team, documents: dict[str, Any]) -> None:
    good = {"discovery": acme.provider.documents[DISCOVERY], "keys": acme.provider.documents["/keys"]}
    for path, document in documents.items():
        found = good.get(document, document) if isinstance(document, str) else document
        if isinstance(found, dict):
            found = json.loads(json.dumps(found).replace("{issuer}", acme.provider.issuer))
        acme.provider.documents[path] = found
    with pytest.raises(HubUnavailable):
        acme.who()
    assert "/elsewhere" not in acme.provider.asked


def test_a_token_of_one_teams_issuer_never_enters_another_team(acme: Team, hub: Hub, clock: Clock) -> None:
    with identity_provider(clock) as theirs:
        other = configure(hub, theirs.issuer)
        database = HubDatabase(hub.serving, providers=oidc.IdentityProviders(hub.process_secret, clock))
        database.open()
        try:
            with database.session(theirs.token()) as session:
                assert session.identity.tenant == other.tenant
            with database.session(acme.provider.token()) as session:
                assert session.identity.tenant == acme.tenant
                service.push(session, CLOCK, [version("The harbour is ours.")])
            with database.session(theirs.token()) as session:
                assert service.status(session)["memories"] == 0
                assert service.changes(session, after="", limit=10).changes == ()
            # Signed by acme's provider, but in the name of the other issuer, and the other way round.
            for signer, named in ((acme.provider, theirs), (theirs, acme.provider)):
                with pytest.raises(Unauthorized), database.session(signer.token(iss=named.issuer)):
                    pass
        finally:
            database.close()


def test_teams_that_share_an_issuer_are_told_apart_by_the_audience(acme: Team, hub: Hub) -> None:
    second = hub.add_tenant(f"oidc {next(_NUMBERS)}")
    with schema.connect(hub.owner) as connection:
        with pytest.raises(BadInput, match="Another team"):
            oidc.configure(connection, second.tenant, issuer=acme.provider.issuer, audience="hub")
        oidc.configure(connection, second.tenant, issuer=acme.provider.issuer, audience="hub-2")
    assert acme.who(aud="hub")[0] == acme.tenant
    assert acme.who(aud="hub-2")[0] == second.tenant
    acme.refusal(aud=["hub", "hub-2"])


def test_a_removed_member_is_refused_and_does_not_come_back(acme: Team) -> None:
    acme.who()
    with acme.database.session(acme.admin) as session:
        tokens.remove(session, CLOCK, "ben@acme.org")
    acme.refusal()
    acme.refusal(email="other@acme.org")
    assert acme.who(sub="u-2")[1] == "ben@acme.org"


def test_a_team_that_takes_no_more_tokens_refuses_them_at_once(acme: Team) -> None:
    acme.who()
    with schema.connect(acme.hub.owner) as connection:
        oidc.switch_off(connection, acme.tenant)
    acme.refusal()


def test_a_subject_belongs_to_its_issuer(acme: Team, clock: Clock) -> None:
    acme.who()
    with identity_provider(clock) as theirs:
        with schema.connect(acme.hub.owner) as connection:
            oidc.configure(connection, acme.tenant, issuer=theirs.issuer, audience="hub")
        with acme.database.session(theirs.token()) as session:
            assert session.identity.member_name == "ben@acme.org (2)"


def test_raw_sql_of_the_serving_role_enters_no_team_without_the_secret(acme: Team) -> None:
    acme.who()
    issuer = acme.provider.issuer
    claimed = [issuer, ["hub"], "u-1", "ben@acme.org", "ben@acme.org", ["admin"], "0" * 26]
    with Connection.connect(acme.hub.serving, row_factory=dict_row) as connection:
        for secret in ("", "wrong", hash_secret(acme.hub.process_secret).hex(), None):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="not the secret"):
                connection.execute("SELECT * FROM hub.enter_person(%s, %s, %s, %s, %s, %s, %s, %s)", [secret, *claimed])
            connection.rollback()
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="not the secret"):
                connection.execute("SELECT hub.knows_issuer(%s, %s)", [secret, issuer])
            connection.rollback()
            assert connection.execute("SELECT * FROM hub.members").fetchall() == []
        for statement in (
            "SELECT * FROM hub.providers",
            "SELECT process_hash FROM hub.installation",
            "SELECT hub.require_process('')",
            "SELECT hub.current_usage('requests')",
            "UPDATE hub.usage SET used = 0",
            "UPDATE hub.tenants SET max_requests = 2147483647",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
            connection.rollback()
        row = connection.execute(
            "SELECT * FROM hub.enter_person(%s, %s, %s, %s, %s, %s, %s, %s)", [acme.hub.process_secret, *claimed]
        ).fetchone()
        assert row is not None
        assert {one["tenant"] for one in connection.execute("SELECT tenant FROM hub.members")} == {acme.tenant}


def test_a_hub_with_a_wrong_secret_does_not_start_and_one_without_a_secret_takes_no_jwt(acme: Team) -> None:
    wrong = HubDatabase(acme.hub.serving, providers=oidc.IdentityProviders("wrong", acme.clock))
    with pytest.raises(HubUnavailable, match="secret"):
        wrong.open()
    wrong.close()
    token = acme.provider.token()
    with pytest.raises(Unauthorized, match="no tokens of identity providers"), acme.hub.database.session(token):
        pass


def test_the_operators_commands_let_a_team_sign_in_and_limit_it(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"oidc {next(_NUMBERS)}"
    hub.add_tenant(name)

    def run(*words: str) -> dict[str, Any]:
        done = CliRunner().invoke(hub_app, ["tenant", *words, "--database", hub.owner, "--json"])
        assert done.exit_code == 0, done.exception
        return json.loads(done.stdout)

    with identity_provider(CLOCK) as provider:
        signed_in = ("oidc", name, "--issuer", provider.issuer, "--audience", "hub", "--admins", "ben@acme.org")
        assert run(*signed_in)["issuer"] == provider.issuer
        assert run("limit", name, "--requests", "1", "--bytes", "12345")["requests"] == 1
        monkeypatch.setenv("FILROUGE_HUB_PROCESS_SECRET", hub.process_secret)
        port = free_port()
        with serving(hub, port):
            url, head = f"http://127.0.0.1:{port}/hub/v1", {"Authorization": f"Bearer {provider.token()}"}
            assert httpx2.get(f"{url}/status", headers=head).json()["tenant"] == name
            assert httpx2.get(f"{url}/status", headers=head).status_code == 429
        run("oidc", name, "--off")
        shown = run("limit", name)
        assert (shown["requests"], shown["bytes"], shown["stored_memories"]) == (1, 12345, 0)


@pytest.mark.parametrize(
    ("issuer", "audience"),
    [
        ("http://login.example.org", "hub"),
        ("login", "hub"),
        ("https://a:b@login.example.org", "hub"),
        ("https://x.org", ""),
    ],
)
def test_an_issuer_that_cannot_be_trusted_is_not_configured(hub: Hub, issuer: str, audience: str) -> None:
    made = hub.add_tenant(f"oidc {next(_NUMBERS)}")
    with schema.connect(hub.owner) as connection, pytest.raises((BadConfig, BadInput)) as refused:
        oidc.configure(connection, made.tenant, issuer=issuer, audience=audience)
    assert isinstance(refused.value, FilrougeError)
