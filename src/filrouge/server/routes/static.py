"""The files of the pages: a fixed list, read from the package once. No path of a request ever reaches the disk."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Final

from fastapi import APIRouter, Response

from filrouge.core.errors import NotFound

router = APIRouter(tags=["pages"])

#: What is served, with its type.
FILES: Final[Mapping[str, str]] = {"live.js": "text/javascript; charset=utf-8"}
_HELD: Final[dict[str, bytes]] = {}
_HEADERS: Final = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}


@router.get("/static/{name}", response_class=Response, responses={200: {"content": {"text/javascript": {}}}})
async def static(name: str) -> Response:
    """A file that the pages need: `live.js` shares one WebSocket among the tabs of a browser."""
    if name not in FILES:
        raise NotFound(f"There is no file {name!r} here.", remedy=f"There are: {', '.join(FILES)}.")
    if name not in _HELD:
        _HELD[name] = resources.files("filrouge").joinpath("web", "static", name).read_bytes()
    return Response(_HELD[name], headers={**_HEADERS, "Content-Type": FILES[name]})
