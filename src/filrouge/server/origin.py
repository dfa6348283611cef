"""Where a request says it goes and comes from: the guard against web pages, which reach every port of this machine.

A page of another site can point its own name at 127.0.0.1, and a page on another local port is of the same site as we
are, so neither an address nor a SameSite cookie tells them from us. Their headers do: a browser writes Host, Origin and
Sec-Fetch-Site itself. Whatever is not literally one of our own names, in the one spelling that browsers use, is
refused; and a browser's request is taken only from our own pages or from the address bar. There is no CORS.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import Scope

from filrouge.errors import Forbidden, Misdirected, Unauthorized

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_USUAL = {"http": 80, "https": 443}


def header(scope: Scope, name: bytes) -> list[str]:
    """Every value of a header."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def checked_host(scope: Scope, named: Collection[str]) -> str:
    """The host that a request is addressed to, which is ours.

    Args:
        named: hosts beside those of the loopback, as `HOST` or `HOST:PORT`.

    Raises:
        Misdirected: there is none, or several, or it is another's.
    """
    given = header(scope, b"host")
    if len(given) != 1 or not scope["path"].startswith("/"):
        raise Misdirected
    if given[0] not in _ours(scope, LOOPBACK) and given[0] not in _ours(scope, named) and given[0] not in named:
        raise Misdirected
    return given[0]


def check_origin(scope: Scope, host: str, named: Collection[str]) -> None:
    """Hold what a browser says of where a request comes from against the host it goes to.

    Raises:
        Forbidden: it comes from a page that is not ours.
    """
    origins, sites = header(scope, b"origin"), header(scope, b"sec-fetch-site")
    if any(origin not in _origins(scope, host, named) for origin in origins) or len(origins) > 1:
        raise Forbidden("A page of another origin may not use this daemon.", remedy="There is no way to allow it.")
    if any(site not in ("same-origin", "none") for site in sites) or len(sites) > 1:
        remedy = "Open the address by hand: type or paste it into the address bar."
        raise Forbidden("A page of another site sent the browser here.", remedy=remedy)


def check_cookie(scope: Scope) -> None:
    """A cookie counts only where the browser vouches that the request is from our own page, or from its user.

    Raises:
        Unauthorized: nothing says so.
    """
    said = set(header(scope, b"sec-fetch-site"))
    looks = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
    if not header(scope, b"origin") and not said & ({"same-origin", "none"} if looks else {"same-origin"}):
        raise Unauthorized("A browser's session is for its own pages.", remedy="Send a token instead of a cookie.")


def _ours(scope: Scope, names: Collection[str]) -> set[str]:
    """Those names with our port, and without where it is the scheme's own."""
    port, scheme = scope["server"][1], _SCHEMES[scope["scheme"]]
    bare = set(names) if port == _USUAL[scheme] else set[str]()
    return bare | {f"{name}:{port}" for name in names}


def _origins(scope: Scope, host: str, named: Collection[str]) -> set[str]:
    """The origins of our own pages. Behind a proxy with a name of ours they are https, whatever we speak."""
    own = f"{_SCHEMES[scope['scheme']]}://{host}"
    return {own, f"https://{host}"} if host in named or host in _ours(scope, named) else {own}
