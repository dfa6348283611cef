"""Answers held against the description of the API: whatever a test is answered has to fit what the document says."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import jsonschema_rs
from fastapi import FastAPI

from filrouge.server.problems import PROBLEM

Json = dict[str, Any]


#: Making the document takes a second of CPU, and it is the same for every application of a process.
_DOCUMENTS: list[Json] = []


def _document(app: FastAPI) -> Json:
    if not _DOCUMENTS:
        _DOCUMENTS.append(app.openapi())
    return _DOCUMENTS[0]


class Contract:
    """The document of an application, to hold answers against."""

    def __init__(self, app: FastAPI) -> None:
        self.document = _document(app)
        self._paths = {
            re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))): methods
            for path, methods in cast("Json", self.document["paths"]).items()
        }
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}

    def check(self, method: str, path: str, status: int, value: Any, kind: str = "") -> None:
        """Fail where an answer is not what the document says.

        Args:
            kind: its content type; empty = JSON, or a problem where it is a refusal.

        Raises:
            AssertionError: naming the route, and what does not fit.
        """
        plain = path.split("?", 1)[0]
        operation = next(
            (
                methods[method.lower()]
                for pattern, methods in self._paths.items()
                if pattern.fullmatch(plain) and method.lower() in methods
            ),
            None,
        )
        if operation is None:
            assert status in (404, 405), f"{method} {plain} is answered {status} and not described"
            return
        said = operation["responses"].get(str(status)) or operation["responses"].get(f"{status // 100}XX")
        assert said, f"{method} {plain}: status {status} is not described"
        if "content" not in said and status < 400:
            return  # only where to go, or that it is done
        kind = kind.split(";", 1)[0] or ("application/json" if status < 400 else PROBLEM)
        assert kind in said["content"], f"{method} {plain}: {kind} is not described for {status}"
        if kind in ("application/json", PROBLEM):
            schema = said["content"][kind]["schema"]
            errors = list(self._validator(schema).iter_errors(value))
            assert not errors, f"{method} {plain} {status}: " + "; ".join(
                f"{'.'.join(map(str, one.instance_path))}: {one.message}"[:400] for one in errors[:3]
            )

    def _validator(self, schema: Json) -> jsonschema_rs.Draft202012Validator:
        name = json.dumps(schema, sort_keys=True)
        if name not in self._validators:
            whole = {**schema, "components": self.document["components"]}
            self._validators[name] = jsonschema_rs.Draft202012Validator(whole)
        return self._validators[name]
