"""The API reference: a page made of the OpenAPI document, the table of examples, and what a real daemon answered them.

    make docs

asks the examples on a throw-away home, keeps their answers in `tests/fixtures/api_answers.json` (ids and times are
names there, so that it changes only where an answer does), and writes `docs/reference/api.md`. A test makes the page
again, and holds what is kept against the document and against what is answered today.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import httpx

from filrouge.core.clock import SystemClock
from filrouge.core.paths import socket_path
from filrouge.core.protocols import Tx
from filrouge.notes.service import Watch
from filrouge.runtime.jobs import MAX_ATTEMPTS, Job, Jobs
from filrouge.runtime.services import Parts, StoredSettings
from filrouge.server.listening import Listening
from filrouge.testing import idle
from tests.support import small_hub
from tests.support.api_examples import EXAMPLES, NOW, Example

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "api.md"
ANSWERS = ROOT / "tests" / "fixtures" / "api_answers.json"
#: Where the daemon of the examples says that it listens, so that there are login links.
LISTENING = Listening(url="http://127.0.0.1:8900")
_MOST_LINES = 24
_NOTE = "# Staging\n\nThe staging shop runs in the cellar. #filrouge\n"
_PATTERNS = (
    (re.compile(r"\b01[0-9a-hjkmnp-tv-z]{24}\b"), "{id}"),
    (re.compile(r"\b20\d\d-\d\d-\d\d([T ][\d:.]+Z?)?"), "{time}"),
    (re.compile(r"\b20\d{6}T\d{6}Z"), "{time}"),
    (re.compile(r"\bfrg_[\w-]+"), "{secret}"),
    (re.compile(r"\b[0-9a-f]{16,}\b"), "{hash}"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """An example as it was asked, and its answer; `value` is JSON, or a text where the answer is none."""

    example: Example
    method: str
    path: str
    status: int
    kind: str
    value: Any
    known: dict[str, str]


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Path, method and description of every operation, as the document orders them."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def ask_all(home: str, parts: Parts, document: Json) -> Iterator[Asked]:
    """Ask every example in order, on the socket of a fresh home."""
    methods = {operation["operationId"]: method for _, method, operation in operations(document)}
    known: dict[str, Any] = {NOW[1:-1]: time.time(), "team_token": small_hub.TOKEN}
    # Each on a connection of its own: between two of them the queue may take longer than the server keeps one open.
    transport = httpx.HTTPTransport(uds=socket_path(home), limits=httpx.Limits(max_keepalive_connections=0))
    with small_hub.served() as hub, httpx.Client(transport=transport, base_url="http://filrouge", timeout=60) as http:
        known["hub"] = hub
        for example in EXAMPLES:
            idle(parts)
            parts.writer.run(lambda tx: None)  # what is written behind an answer is written now
            if example.operation == "notes_vault":
                _write_note(parts)
            if example.operation == "jobs_jobs":
                _set_aside(parts, str(known["turn_id"]))
            path, body = _filled(example.path, known), _filled(example.body, known)
            reply = http.request(methods[example.operation], path, json=body)
            kind = reply.headers.get("content-type", "")
            value = reply.json() if "json" in kind else reply.text
            if example.operation == "exporting_export":
                known["export"] = value
            if reply.status_code == example.status:
                known |= {name: _picked(value, place) for name, place in example.keep.items()}
            names = {name: one for name, one in known.items() if isinstance(one, str)} | {"home": home}
            yield Asked(
                example=example, method=methods[example.operation], path=path, status=reply.status_code, kind=kind,
                value=value, known=names,
            )  # fmt: skip


def kept(asked: Asked) -> Any:
    """An answer as it is kept: ids, times and secrets are names, and of a list there is one row."""
    return _named(asked.value, asked.known)


def page(document: Json, answered: Json) -> str:
    """The whole reference."""
    shown = {one.operation: one for one in EXAMPLES if one.shown}
    count = sum(1 for _ in operations(document))
    out = [
        "# The API",
        "",
        "<!-- Made by `make docs` of the OpenAPI document and the examples in tests/support/api_examples.py. -->",
        "",
        document["info"]["description"],
        "",
        f"The document itself is `GET /openapi.json` (OpenAPI {document['openapi']}); it has {count} operations.",
        "Each is shown with the least scope that it needs and with one request, as a test sends it to a fresh home.",
        "What stands in braces is an id, a time or a secret that an answer before told; long answers are cut (`...`).",
        "",
        "```sh",
        "SOCKET=$(filrouge daemon status --json | jq -r .socket)",
        "```",
    ]
    for tag in document["tags"]:
        out += ["", f"## {tag['name'].capitalize()}", "", tag["description"]]
        for path, method, operation in operations(document):
            if tag["name"] in operation.get("tags", ()):
                example = shown[operation["operationId"]]
                out += _section(document, path, method, operation, example, answered[example.operation])
    return "\n".join(out) + "\n"


def _section(document: Json, path: str, method: str, operation: Json, example: Example, answer: Any) -> Iterator[str]:
    scope = operation.get("x-filrouge-scope")
    yield from ("", f"### `{method} {path}`", "")
    about = " ".join(operation.get("description", operation["summary"]).split())
    yield f"{about} Scope: {f'`{scope}`' if scope else 'none, not even a token'}."
    rows = [
        (one["name"], one["in"] + (", required" if one.get("required") else ""), one["schema"], one)
        for one in operation.get("parameters", ())
        if one["in"] != "header"
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for one in _bodies(document, body):
        required = one.get("required", ())
        rows += [
            (name, "body" + (", required" if name in required else ""), schema, schema)
            for name, schema in one.get("properties", {}).items()
        ]
    if rows:
        yield from ("", "| name | where | type | meaning |", "|---|---|---|---|")
        for name, where, schema, about in rows:
            text = " ".join(about.get("description", schema.get("description", "")).split()).replace("|", "\\|")
            yield f"| `{name}` | {where} | {_type(document, schema)} | {text} |".replace("|  |", "| |")
    said = [status for status in operation["responses"] if status < "4"]
    yield from ("", f"Answers {' or '.join(said)}; a refusal is a problem document.", "", "```sh")
    curl = f"curl --unix-socket \"$SOCKET\" {'' if method == 'GET' else f'-X {method} '}'http://filrouge{example.path}'"
    if example.body is None:
        yield curl
    elif isinstance(example.body, str):
        yield f"{curl} \\\n  -H 'Content-Type: application/json' -d @export.json"
    else:
        yield f"{curl} \\\n  -H 'Content-Type: application/json' -d '{json.dumps(example.body)}'"
    yield "```"
    text = answer if isinstance(answer, str) else json.dumps(answer, indent=2, ensure_ascii=False)
    lines = [line[:140] for line in text.splitlines()]
    if lines:
        yield "```text" if isinstance(answer, str) else "```json"
        yield from lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], "..."]
        yield "```"


def _bodies(document: Json, schema: Json) -> Iterator[Json]:
    for one in schema.get("anyOf", [schema]):
        yield _resolved(document, one)


def _resolved(document: Json, schema: Json) -> Json:
    name = schema.get("$ref")
    return document["components"]["schemas"][name.rsplit("/", 1)[-1]] if name else schema


def _type(document: Json, schema: Json) -> str:
    if "anyOf" in schema:
        kinds = (_type(document, one) for one in schema["anyOf"] if one.get("type") != "null")
        return " or ".join(dict.fromkeys(kinds))
    schema = _resolved(document, schema)
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{one}`" for one in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(document, schema['items'])}"
    edges = [f"{sign} {schema[key]}" for key, sign in (("minimum", ">="), ("maximum", "<=")) if key in schema]
    edges += [f"at most {schema['maxLength']} characters"] if "maxLength" in schema else []
    return ", ".join([str(schema.get("type", "any")), *edges])


def _filled(value: Any, known: Json) -> Any:
    if isinstance(value, str):
        if value[1:-1] in known and value == f"{{{value[1:-1]}}}":
            return known[value[1:-1]]
        return re.sub(r"\{(\w+)\}", lambda found: str(known.get(found[1], found[0])), value)
    if isinstance(value, list):
        return [_filled(one, known) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _filled(one, known) for key, one in cast("Json", value).items()}
    return value


def _picked(value: Any, place: str) -> Any:
    for key in place.split("."):
        value = value[int(key) if key.isdecimal() else key]
    return value.rsplit("/", 1)[-1] if isinstance(value, str) and value.startswith("http") else value


def _named(value: Any, known: dict[str, str]) -> Any:
    if isinstance(value, str):
        for name, one in known.items():
            value = value.replace(one, f"{{{name}}}")
        for pattern, name in _PATTERNS:
            value = pattern.sub(name, value)
        return value
    if isinstance(value, list):
        return [_named(one, known) for one in cast("list[Any]", value)[:1]]
    if isinstance(value, dict):
        return {_named(key, known): _named(one, known) for key, one in cast("Json", value).items()}
    return value


def _write_note(parts: Parts) -> None:
    """A vault of one note, in the index."""
    vault = Path(parts.home) / "vault"
    (vault / "Work").mkdir(parents=True)
    (vault / "Work" / "Shop.md").write_text(_NOTE, encoding="utf-8")
    parts.writer.run(lambda tx: StoredSettings(tx).put({"notes_folder": str(vault)}, parts.clock.now()))
    Watch(parts).scan()


def _set_aside(parts: Parts, turn: str) -> None:
    """Two jobs which have failed for the last time: one that can be done again, and one about nothing."""
    now = SystemClock().now()

    def write(tx: Tx) -> None:
        for one in (turn, "nothing"):
            Jobs(tx).enqueue("analyse", {"turn": one}, dedupe=f"analyse:{one}", at=now, delay=3600)
        for row in Jobs(tx).list_page(state="queued"):
            if row["kind"] == "analyse":
                tx.run("jobs.lease", {"worker": "w", "now": "2026", "lease_until": "2099", "seqs": f"[{row['seq']}]"})
                job = Job(id=row["id"], kind="analyse", payload={}, attempts=MAX_ATTEMPTS, worker="w")
                Jobs(tx).fail(job, "NotFound", now)

    parts.writer.run(write)


def main() -> None:
    """Ask, keep and write."""
    from tests.unit.server.conftest import serving

    with TemporaryDirectory() as home, serving(home, LISTENING) as api:
        document = api.contract.document
        answered: Json = {}
        wrong: list[str] = []
        for asked in ask_all(home, api.parts, document):
            if asked.status != asked.example.status:
                wrong.append(f"{asked.method} {asked.path}: {asked.status} {asked.value}")
            if asked.example.shown:
                answered[asked.example.operation] = kept(asked)
    if wrong:
        raise SystemExit("\n".join(wrong))
    ANSWERS.write_text(json.dumps(answered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(document, answered), encoding="utf-8")


if __name__ == "__main__":
    main()
