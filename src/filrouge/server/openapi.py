"""The OpenAPI 3.1 document: FastAPI's derived document, corrected and completed.

FastAPI documents errors that never occur (422), omits those that do, has no scopes, and leaves sibling keys beside a
`$ref`. Here every operation gets the problem document, the required scope, and an operation id that does not depend on
its path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from fastapi.utils import create_model_field

from filrouge.server.admission import required_scope
from filrouge.server.deferred import load_all, routes_of
from filrouge.server.middleware import HEADER, MAX_KEY_CHARS
from filrouge.server.problems import PROBLEM
from filrouge.server.responses import MODEL, Problem

#: The only route that needs no token.
OPEN: Final = frozenset({"/health"})
_DESCRIPTION: Final = (
    "A persistent, local-first memory layer for agents. On the unix socket of its home the daemon serves this user "
    "without a key; over TCP every route but `GET /health` needs one, as `Authorization: Bearer KEY` or as "
    "`X-API-Key: KEY`. Every refusal is a problem document (RFC 9457) that says what to do next."
)
_TAGS: Final = {
    "hooks": "Events from agents, and the context for their prompts.",
    "memory": "Memories: add, list, search and inject them; settings.",
    "rules": "The standing instructions of the user.",
    "projects": "Projects: names, merging, joining a folder.",
    "team": "Sharing memories with a team, through a hub.",
    "changing": "Changes to memories: pin, bin, restore, supersede, review, undo.",
    "forgetting": "Forgetting for good, by preview and token, with a signed receipt.",
    "notes": "The vault: the folder of the user's notes.",
    "topics": "What was talked about, and when.",
    "concepts": "What sessions were about.",
    "threads": "Lines of work over sessions.",
    "bridges": "Connections between threads.",
    "garden": "Consolidation: planned, begun, watched.",
    "embedding": "The embedding space.",
    "models": "The language models for extraction.",
    "backups": "Copies of the memory, verified.",
    "daemon": "The daemon about itself.",
    "turns": "Messages of programs with their own agent loop.",
    "hosts": "The agents: which are connected, and when each was last heard from.",
    "jobs": "The queue of what is still to be done, what was set aside, and one recall in full.",
    "transfer": "Export and import.",
    "tokens": "Tokens for TCP access, and sign-in links for browsers.",
    "memory tool": "The files of Anthropic's memory tool.",
    "pages": "Files that pages in a browser need.",
}


def build_document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application."""
    load_all(app)
    routes = list(routes_of(app.routes))
    for route in routes:
        _attach_models(route)
    raw = get_openapi(
        title="Filrouge",
        version=app.version,
        summary="The memory of your agents.",
        description=_DESCRIPTION,
        # Not `app.routes`: FastAPI copies each included route on its first request, without the models.
        routes=routes,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/"}],
    )
    document = cast("dict[str, Any]", _without_siblings(raw))
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = Problem.model_json_schema()
    document["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "A key of `filrouge token create`."},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key."},
    }
    for route, method, operation in _operations(app, document):
        _complete(route, method, operation)
    used = {tag for _, _, operation in _operations(app, document) for tag in operation.get("tags", ())}
    document["tags"] = [{"name": name, "description": _TAGS.get(name, "")} for name in sorted(used)]
    return document


def _attach_models(route: APIRoute) -> None:
    """Attach the response models of a route, so that FastAPI documents them."""
    for status, response in route.responses.items():
        if MODEL in response:
            name = f"Response_{status}_{route.unique_id}"
            route.response_fields[status] = create_model_field(name=name, type_=response[MODEL], mode="serialization")
            route.responses[status] = {key: value for key, value in response.items() if key != MODEL} | {
                "model": response[MODEL]
            }


def _operations(app: FastAPI, document: dict[str, Any]) -> Iterator[tuple[APIRoute, str, dict[str, Any]]]:
    for route in routes_of(app.routes):
        if route.include_in_schema:
            for method in sorted(route.methods or ()):
                yield route, method, document["paths"][route.path_format][method.lower()]


def _complete(route: APIRoute, method: str, operation: dict[str, Any]) -> None:
    """Add what every operation has: its name, the required scope, and its error responses."""
    docstring = (route.endpoint.__doc__ or route.name).strip()
    operation["summary"] = re.split(r"[:;.]", " ".join(docstring.split()), maxsplit=1)[0]
    operation["operationId"] = route.name
    responses = operation["responses"]
    responses.pop("422", None)
    problem: dict[str, Any] = {"content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for status, description in (("4XX", "Refused; `detail` says why."), ("5XX", "Failed; `detail` says why.")):
        responses[status] = {"description": description, **problem}
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _without_null(parameter["schema"])
    if any(parameter["name"] == "cursor" for parameter in operation.get("parameters", ())):
        link = {"description": "The next page, `rel=next`; absent on the last page.", "schema": {"type": "string"}}
        responses["200"]["headers"] = {"Link": link}
    if method != "GET":
        operation.setdefault("parameters", []).append(
            {
                "name": HEADER,
                "in": "header",
                "description": "A key that makes the request safe to repeat within a day.",
                "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS, "pattern": "^[\\x20-\\x7e]+$"},
            }
        )
    if route.path in OPEN:
        operation["security"] = []
        return
    scope = required_scope(route.endpoint, method)
    operation["security"] = [{"bearer": [scope]}, {"key": [scope]}]
    operation["x-filrouge-scope"] = scope


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter's schema without null; a parameter in a URL is a string or absent."""
    types = [part for part in schema.get("anyOf", ()) if part != {"type": "null"}]
    if len(types) != 1:
        return schema
    return {**types[0], **{key: part for key, part in schema.items() if key not in ("anyOf", "default")}}


def _without_siblings(value: Any) -> Any:
    """Return the value with each `$ref` alone, apart from its description and default."""
    if isinstance(value, list):
        return [_without_siblings(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    mapping = cast("dict[str, Any]", value)
    if "$ref" in mapping and isinstance(mapping["$ref"], str):
        return {key: mapping[key] for key in ("$ref", "description", "default") if key in mapping}
    if "anyOf" in mapping and mapping.get("additionalProperties") is True:  # left from the schema for any object
        mapping = {key: item for key, item in mapping.items() if key not in ("additionalProperties", "type")}
    return {key: _without_siblings(item) for key, item in mapping.items()}
