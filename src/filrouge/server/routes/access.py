"""HTTP routes for tokens (create, list, revoke) and for signing in a browser with a single-use link."""

from __future__ import annotations

from typing import Any, Final, cast

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from filrouge.core.errors import BadInput
from filrouge.runtime import repository
from filrouge.runtime.repository import TokenKind, Tokens, TokenScope
from filrouge.server.admission import LOGIN, TokenCache, cookie_name, requires
from filrouge.server.middleware import TokenId
from filrouge.server.responses import Answer, await_future, parts_of, read_in_tx, response_model

router = APIRouter(tags=["tokens"])
#: The page that a browser sees after it has signed in.
_START: Final = "/dashboard"
_HEADERS: Final = {"Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
_EXAMPLE = {
    "id": "01jd3v5k2m8qz7w4x9y6b0c1d2",
    "kind": "token",
    "name": "laptop",
    "scope": "read",
    "created_at": "2026-01-05T09:00:00.000000Z",
    "expires_at": None,
    "last_used_at": None,
    "revoked_at": None,
}


class NewToken(BaseModel):
    """A token to create."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field("token", max_length=100)
    scope: TokenScope = "read"


class NewLink(BaseModel):
    """A login link to create; the session it opens has this scope."""

    model_config = ConfigDict(extra="forbid")

    scope: TokenScope = "admin"


class TokenAnswer(Answer):
    """A token or a browser session."""

    id: str
    kind: TokenKind
    name: str
    scope: TokenScope
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None


class MadeToken(TokenAnswer):
    """A new token with its secret, which is never shown again."""

    token: str


class TokenList(Answer):
    """Every token and session, newest first."""

    tokens: list[TokenAnswer]


class LoginLink(Answer):
    """A link that signs in a browser once, before it expires."""

    url: str
    expires_at: str


@router.get("/api/tokens", responses=response_model(TokenList, example={"tokens": [_EXAMPLE]}))
@requires("admin")
async def tokens_listed(request: Request) -> dict[str, Any]:
    """List every token and session, newest first, without secrets. Revoked and expired ones are included."""
    found = await read_in_tx(request, lambda tx: Tokens(tx).all())
    return {"tokens": [dict(token.to_json()) for token in found]}


@router.post(
    "/api/tokens",
    status_code=201,
    responses=response_model(MadeToken, status=201, example=_EXAMPLE | {"token": "frg_..."}),
)
@requires("admin")
async def tokens_create(body: NewToken, request: Request) -> dict[str, Any]:
    """Create a token. Only this answer contains its secret."""
    parts = parts_of(request)
    return await await_future(
        parts.writer.submit(lambda tx: repository.create_token(parts.clock, tx, body.name, body.scope))
    )


@router.delete("/api/tokens/{token_id}", responses=response_model(TokenAnswer, example=_EXAMPLE))
@requires("admin")
async def tokens_revoke(token_id: TokenId, request: Request) -> dict[str, Any]:
    """Revoke a token or session. It is refused from now on."""
    parts = parts_of(request)
    revoked = await await_future(parts.writer.submit(lambda tx: repository.revoke_token(parts.clock, tx, token_id)))
    cast("TokenCache", request.app.state.token_cache).clear()
    return revoked


@router.post(
    "/api/tokens/login-links",
    status_code=201,
    responses=response_model(
        LoginLink,
        status=201,
        example={"url": "http://127.0.0.1:8900/login/frg_...", "expires_at": "2026-01-05T09:05:00.000000Z"},
    ),
)
@requires("admin")
async def tokens_new_link(body: NewLink, request: Request) -> dict[str, Any]:
    """Create a link that signs in a browser. It works once, within minutes."""
    parts, url = parts_of(request), request.app.state.listening.url
    if url is None:
        raise BadInput(
            "The daemon does not listen on TCP, so no browser can reach it.",
            remedy="See `filrouge daemon status` for the reason, and the setting port.",
        )
    secret, until = await await_future(
        parts.writer.submit(lambda tx: repository.create_login_link(parts.clock, tx, body.scope))
    )
    return {"url": f"{url}{LOGIN}{secret}", "expires_at": until}


@router.get(
    "/login/{link}",
    status_code=303,
    response_class=Response,
    responses={303: {"description": "Signed in; leads to the dashboard."}},
)
async def tokens_sign_in(link: str, request: Request) -> Response:
    """Exchange a login link for a session cookie. Only this daemon's own pages can use the cookie."""
    parts = parts_of(request)
    session = await await_future(parts.writer.submit(lambda tx: repository.redeem_login_link(parts.clock, tx, link)))
    answer = RedirectResponse(_START, status_code=303, headers=_HEADERS)
    answer.set_cookie(
        cookie_name(request.scope["server"][1] or 0),
        session,
        max_age=repository.SESSION_HOURS * 3600,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer
