"""Tokens of an identity provider (OpenID Connect), and how the database may trust who they name.

A JWT is verified here: its algorithm is one of `ALGORITHMS`, its signature is by a key that its issuer publishes, and
issuer, audience and time fit. The issuer and the audience decide the tenant, as its operator configured.

PostgreSQL cannot verify a JWT, so it has to take this process's word. It must not take anybody's: the login of the
serving role alone reads no row, because `hub.enter` wants a token. So `hub.enter_person` wants the secret of the
installation's processes, of which the database keeps the SHA-256 (`schema.init`). A stolen login still reads nothing,
and whoever has the secret but no login reaches no database. Exchanging each JWT for a short-lived token of the hub
would need the same secret, and rows to write, expire and delete besides.

Keys are fetched over HTTPS from the issuer's discovery document, kept, and fetched again when they are ten minutes old
or when a token names an unknown one; at most once a minute for each issuer, whatever tokens arrive. If the issuer does
not answer, its last keys serve for a day. Only issuers that a tenant has configured are asked.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Final, cast

import httpx2
import psycopg
from joserfc import jwk, jws
from joserfc.errors import ExpiredTokenError, InvalidClaimError, JoseError
from joserfc.jwt import JWTClaimsRegistry
from msgspec import Struct

from filrouge.core.clock import Clock, new_id
from filrouge.core.errors import BadConfig, BadInput, HubUnavailable, Unauthorized
from filrouge.core.network import checked_address, is_loopback
from filrouge.hub import journal
from filrouge.hub.models import SCOPES, Scope
from filrouge.hub.sessions import Connection, Session, identity_of
from filrouge.providers import http_client

#: Signatures that are accepted, with the type of their key. `Ed25519` is RFC 9864's name of what was `EdDSA`.
ALGORITHMS: Final = {"RS256": "RSA", "ES256": "EC", "EdDSA": "OKP", "Ed25519": "OKP"}
#: Values of `typ`: an identity token, and an access token (RFC 9068). A logout token, for one, is neither.
_TYPES: Final = (None, "jwt", "at+jwt", "application/at+jwt")
_MAX_JWT_CHARS: Final = 16_384
_MAX_TEXT_CHARS: Final = 500
_MAX_AUDIENCES: Final = 20
#: Leaves room for the number that tells members of one name apart.
_MAX_NAME_CHARS: Final = 90
#: As long as the modulus of an RSA key of 2,048 bits in base64.
_WEAKEST_MODULUS: Final = "x" * 342
_MAX_KEYS: Final = 100
_LEEWAY_SECONDS: Final = 60
_BETWEEN_FETCHES: Final = timedelta(minutes=1)
_REFRESH_AFTER: Final = timedelta(minutes=10)
_KEEP_KEYS: Final = timedelta(days=1)
_FETCH_SECONDS: Final = 5.0
_WAIT_SECONDS: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class Person(Struct, frozen=True, kw_only=True):
    """Who a verified JWT names.

    Attributes:
        email: only if the issuer says that it is verified, otherwise empty.
        scopes: from the claim `filrouge_scopes`; None without it.
    """

    issuer: str
    audiences: tuple[str, ...]
    subject: str
    name: str
    email: str
    scopes: tuple[Scope, ...] | None


def is_jwt(bearer: str) -> bool:
    """Return whether a token has the three parts of a JWT; the hub's own tokens have no dot."""
    return bearer.count(".") == 2


class IdentityProviders:
    """Verifies JWTs, and enters the tenants of the persons that they name. Thread-safe.

    Args:
        secret: of the installation's processes.
    """

    def __init__(self, secret: str, clock: Clock) -> None:
        self._secret = secret
        self._clock = clock
        self._issuers = dict[str, _Issuer]()

    def verify(self, token: str, is_known: Callable[[str], bool]) -> Person:
        """Return who a JWT names.

        Args:
            is_known: whether any tenant has configured an issuer.

        Raises:
            Unauthorized: the token is not valid.
            HubUnavailable: the issuer's keys are needed and cannot be fetched.
        """
        try:
            signed, claims = _parsed(token)
            issuer = self._issuer(_text(claims, "iss"), is_known)
            header = signed.headers()
            key = issuer.key(header.get("kid"), header["alg"])
            if not jws.validate_compact(signed, key, registry=_REGISTRY):
                raise _refused("its signature is wrong")
            _claims_registry(issuer.address, self._clock).validate(claims)
            return _person(claims)
        except ExpiredTokenError as error:
            raise _refused("it has expired") from error
        except InvalidClaimError as error:
            raise _refused(error.description) from error
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            raise _refused("it cannot be verified") from error

    def _issuer(self, address: str, is_known: Callable[[str], bool]) -> _Issuer:
        found = self._issuers.get(address)
        if found is None:
            if not is_known(address):
                raise _refused("no team of this hub has its issuer")
            found = self._issuers.setdefault(address, _Issuer(address, self._clock))
        return found

    def knows_issuer(self, connection: Connection, issuer: str) -> bool:
        """Return whether any tenant has configured an issuer.

        Raises:
            HubUnavailable: the secret is wrong.
        """
        try:
            row = connection.execute("SELECT hub.knows_issuer(%s, %s) AS known", [self._secret, issuer]).fetchone()
        except psycopg.errors.InsufficientPrivilege as error:
            raise _wrong_secret() from error
        return row is not None and row["known"]

    def enter(self, connection: Connection, person: Person) -> Session:
        """Seal the tenant of a person into the transaction; at first sight they become a member of it.

        Raises:
            Unauthorized: no tenant takes tokens of this issuer and audience, or the member was removed.
            HubUnavailable: the secret is wrong.
        """
        parameters = [
            self._secret, person.issuer, list(person.audiences), person.subject, person.name, person.email,
            None if person.scopes is None else list(person.scopes), new_id(self._clock.now()),
        ]  # fmt: skip
        try:
            row = connection.execute(
                "SELECT * FROM hub.enter_person(%s, %s, %s, %s, %s, %s, %s, %s)", parameters
            ).fetchone()
        except psycopg.errors.InsufficientPrivilege as error:
            raise _wrong_secret() from error
        if row is None:
            raise _refused("no team has its issuer and audience, or its member was removed")
        session = Session(identity=identity_of(row), connection=connection, has_joined=row["is_new"])
        if session.has_joined:
            journal.append(session, self._clock, action="member_join", subject=session.identity.member, payload={})
        return session


def _wrong_secret() -> HubUnavailable:
    return HubUnavailable(
        "The secret of the hub's processes is wrong.",
        remedy="Set FILROUGE_HUB_PROCESS_SECRET; `filrouge hub init --new-process-secret` makes another.",
    )


def _refused(reason: str) -> Unauthorized:
    return Unauthorized(
        f"The identity provider's token is refused: {reason}.", remedy="Sign in again, or ask the hub's operator."
    )


class _Registry(jws.JWSRegistry):
    """The algorithms of the hub, without the warning that `EdDSA` has a new name."""

    max_header_length = 4096

    def get_alg(self, name: str) -> Any:
        if name not in ALGORITHMS:
            raise _refused(f"its algorithm is none of {', '.join(ALGORITHMS)}")
        return self.algorithms[name]


_REGISTRY: Final = _Registry(strict_check_header=False)


def _parsed(token: str) -> tuple[jws.CompactSignature, dict[str, Any]]:
    """Return the parts of a JWT, not yet verified."""
    if len(token) > _MAX_JWT_CHARS:
        raise _refused("it is too long")
    signed = jws.extract_compact(token.encode(), registry=_REGISTRY)
    header = signed.headers()
    _REGISTRY.check_header(header)
    _REGISTRY.get_alg(header["alg"])
    type_ = header.get("typ")
    if (type_.lower() if type_ is not None else None) not in _TYPES:
        raise _refused("it is a token of another type")
    claims = json.loads(signed.payload)
    if not isinstance(claims, dict):
        raise _refused("it has no claims")
    return signed, cast("dict[str, Any]", claims)


def _claims_registry(issuer: str, clock: Clock) -> JWTClaimsRegistry:
    return JWTClaimsRegistry(
        now=int(clock.now().timestamp()),
        leeway=_LEEWAY_SECONDS,
        iss={"essential": True, "value": issuer},
        aud={"essential": True},
        sub={"essential": True},
        exp={"essential": True},
    )


def _person(claims: dict[str, Any]) -> Person:
    audiences = [claims["aud"]] if isinstance(claims["aud"], str) else claims["aud"]
    if len(audiences) > _MAX_AUDIENCES or not all(audience.isprintable() for audience in audiences):
        raise _refused("its claim aud is invalid")
    email = "" if claims.get("email_verified") is False else _printable(claims.get("email"))
    subject = _text(claims, "sub")
    return Person(
        issuer=claims["iss"],
        audiences=tuple(audiences),
        subject=subject,
        name=(email or _printable(claims.get("name")) or subject)[:_MAX_NAME_CHARS],
        email=email if claims.get("email_verified") is True else "",
        scopes=_scopes(claims.get("filrouge_scopes")),
    )


def _text(claims: dict[str, Any], name: str) -> str:
    """Return a claim that identifies something."""
    found = claims.get(name)
    if not isinstance(found, str) or not found or len(found) > _MAX_TEXT_CHARS or not found.isprintable():
        raise _refused(f"its claim {name} is missing or invalid")
    return found


def _printable(value: object) -> str:
    return "".join(letter for letter in value if letter.isprintable()).strip() if isinstance(value, str) else ""


def _scopes(value: object) -> tuple[Scope, ...] | None:
    """Read scopes from a list or from words; unknown ones are left out."""
    if value is None:
        return None
    given = value.split() if isinstance(value, str) else cast("list[object]", value) if isinstance(value, list) else []
    return tuple(scope for scope in SCOPES if scope in given)


class _Issuer:
    """The keys that an issuer publishes."""

    def __init__(self, address: str, clock: Clock) -> None:
        self.address = address
        self._clock = clock
        self._lock = Lock()
        self._keys: tuple[jwk.Key, ...] = ()
        self._fetched_at: datetime | None = None
        self._tried_at: datetime | None = None

    def key(self, id_: str | None, algorithm: str) -> jwk.Key:
        """Return the key with an id, or the only one of the algorithm if a token names none.

        Raises:
            Unauthorized: there is no such key.
            HubUnavailable: there are no keys, and they cannot be fetched.
        """
        found = self._find(id_, algorithm)
        if found is None or self._is_older_than(_REFRESH_AFTER):
            self._fetch(must_wait=found is None)
            found = self._find(id_, algorithm)
        if found is not None:
            return found
        if self._is_older_than(_KEEP_KEYS):
            raise HubUnavailable(
                "The keys of the identity provider cannot be fetched.", remedy="Try again in a minute."
            )
        raise _refused("its issuer has no such key")

    def _is_older_than(self, age: timedelta) -> bool:
        return self._fetched_at is None or self._clock.now() - self._fetched_at > age

    def _find(self, id_: str | None, algorithm: str) -> jwk.Key | None:
        if self._is_older_than(_KEEP_KEYS):
            return None
        found = [key for key in self._keys if key.key_type == ALGORITHMS[algorithm] and id_ in (None, key.kid)]
        return found[0] if len(found) == 1 else None

    def _fetch(self, *, must_wait: bool) -> None:
        """Fetch the keys unless that was tried within the last minute; keep the old ones if it fails."""
        if not self._lock.acquire(timeout=_WAIT_SECONDS if must_wait else 0):
            if must_wait:
                raise HubUnavailable("The keys of the identity provider are being fetched.", remedy="Try again.")
            return
        try:
            now = self._clock.now()
            if self._tried_at is not None and now - self._tried_at < _BETWEEN_FETCHES:
                return
            self._tried_at = now
            self._keys = asyncio.run(_fetch_keys(self.address))
            self._fetched_at = now
        except (httpx2.HTTPError, BadConfig, LookupError, TimeoutError, TypeError, ValueError, RecursionError) as error:
            _LOG.warning("The keys of %s cannot be fetched: %s", self.address, type(error).__name__)
        finally:
            self._lock.release()


async def _fetch_keys(issuer: str) -> tuple[jwk.Key, ...]:
    """Return the keys of an issuer.

    Raises:
        ValueError: its documents are no such documents, or name an address that is not allowed.
    """
    async with asyncio.timeout(_FETCH_SECONDS):
        discovered = await _fetch_json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if discovered["issuer"] != issuer:
            raise ValueError("the discovery document is another issuer's")
        address = _checked_url(str(discovered["jwks_uri"]))
        if is_loopback(address) and not is_loopback(issuer):
            raise ValueError("an issuer elsewhere has no keys on this machine")
        keys = _usable_keys((await _fetch_json(address))["keys"])
    if not keys:
        raise ValueError("the issuer publishes no usable key")
    return keys


async def _fetch_json(address: str) -> dict[str, Any]:
    async with http_client.client(address) as http:
        response = await http.get(address, headers={"Accept": "application/json"})
    if response.status_code != 200:
        raise ValueError("the answer is not 200")
    return response.json()


def _checked_url(address: str) -> str:
    """Return an address of an identity provider as it is.

    Raises:
        BadConfig: it is not HTTPS; HTTP is for this machine only.
    """
    checked_address(address, setting="The issuer")
    if not address.startswith("https://") and not is_loopback(address):
        raise BadConfig("An issuer has an address that begins with https://.", remedy="Give the issuer's own address.")
    return address


def _usable_keys(documents: Sequence[Any]) -> tuple[jwk.Key, ...]:
    """Return the keys that may sign; others that an issuer publishes are left out."""
    found = list[jwk.Key]()
    for document in documents[:_MAX_KEYS]:
        try:
            if (
                document["kty"] in ALGORITHMS.values()
                and document.get("use", "sig") == "sig"
                and len(document.get("n", _WEAKEST_MODULUS)) >= len(_WEAKEST_MODULUS)
            ):
                found.append(jwk.import_key(document))
        except (JoseError, LookupError, TypeError, ValueError):
            continue
    return tuple(found)


# What the operator configures.


def configure(connection: Connection, tenant: str, *, issuer: str, audience: str, admins: Sequence[str] = ()) -> None:
    """Let a tenant take tokens of an issuer for an audience, as the owner.

    Args:
        admins: email addresses of members who are admins.

    Raises:
        BadInput: issuer or audience is invalid, or another tenant has both.
    """
    issuer, audience = _checked_url(issuer.strip()), audience.strip()
    if not audience or max(len(audience), len(issuer)) > _MAX_TEXT_CHARS or not (audience + issuer).isprintable():
        raise BadInput(f"Issuer and audience are one line of at most {_MAX_TEXT_CHARS} characters.")
    taken = connection.execute(
        "SELECT 1 FROM hub.providers WHERE issuer = %s AND audience = %s AND tenant <> %s", [issuer, audience, tenant]
    ).fetchone()
    if taken:
        raise BadInput("Another team has this issuer and audience.", remedy="Give each team an audience of its own.")
    connection.execute(
        "INSERT INTO hub.providers (tenant, issuer, audience, admins) VALUES (%s, %s, %s, %s) ON CONFLICT (tenant)"
        " DO UPDATE SET issuer = excluded.issuer, audience = excluded.audience, admins = excluded.admins",
        [tenant, issuer, audience, [email.strip().lower() for email in admins if email.strip()]],
    )


def switch_off(connection: Connection, tenant: str) -> None:
    """Let a tenant take no more tokens of its issuer, as the owner. Its members stay."""
    connection.execute("DELETE FROM hub.providers WHERE tenant = %s", [tenant])
