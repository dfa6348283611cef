"""Refusals as problem documents (RFC 9457), each with what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi.responses import JSONResponse

from filrouge.errors import FilrougeError

PROBLEM: Final = "application/problem+json"


def told(error: FilrougeError, status: int) -> dict[str, Any]:
    """The document of an error."""
    return {
        "type": f"urn:filrouge:error:{type(error).__name__}",
        "title": (type(error).__doc__ or "").strip().splitlines()[0],
        "status": status,
        "detail": error.message,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
    }


def refused(error: FilrougeError, *, status: int = 0, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer that refuses; with the status of the error, unless another says it better."""
    code = status or error.http_status
    return JSONResponse(told(error, code), status_code=code, media_type=PROBLEM, headers=dict(headers or {}))
