"""A JSON schema as OpenAI's strict mode wants it: every property required, none beside them, no defaults.

What was optional may be null instead. Without it the schema is a wish; with it, no other answer can be generated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The strict form; a schema that is strict already stays as it is."""
    kept = {key: value for key, value in schema.items() if key != "default"}
    if isinstance(kept.get("type"), list):  # Anthropic's SDK knows one type at a time
        kept["anyOf"] = [{"type": one} for one in kept.pop("type")]
    found = {key: value if key == "properties" else _inner(value) for key, value in kept.items()}
    if isinstance(found.get("properties"), dict):
        named = cast("dict[str, Any]", found["properties"])
        needed = set(cast("list[str]", schema.get("required", [])))
        found["properties"] = {
            name: _inner(one) if name in needed else {"anyOf": [_inner(one), {"type": "null"}]}
            for name, one in named.items()
        }
        found |= {"required": list(named), "additionalProperties": False}
    return found


def _inner(value: Any) -> Any:
    if isinstance(value, dict):
        return strict(cast("dict[str, Any]", value))
    return [_inner(part) for part in cast("list[Any]", value)] if isinstance(value, list) else value
