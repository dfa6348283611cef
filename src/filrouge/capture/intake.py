"""Intake: from one event to the turns it holds.

The daemon's side of capture. Whatever came in is cleaned once more (a complete redaction, our own injected
blocks taken out), because events also come from programs that never ran our hook, and only then stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from filrouge.capture.cutting import MOST_VALUES, SLACK, Pruner, TextCutter
from filrouge.capture.filters import skip_reason
from filrouge.capture.guard import strip_own
from filrouge.capture.redact import mapped
from filrouge.clock import from_epoch, new_id
from filrouge.extraction.tool_output import answer_of, told
from filrouge.model.event import Event
from filrouge.model.scope import LOCAL_USER, Scope
from filrouge.model.turn import (
    TRUST_AGENT,
    TRUST_PROMPT,
    TRUST_TOOL,
    TRUST_TYPED,
    Role,
    SourceType,
    Turn,
    is_own_tool,
    source_of_tool,
)
from filrouge.ports import Redactor

#: Characters without a space that are an encoded image rather than text.
_LONGEST_WORD: Final = 2000


@dataclass(slots=True)
class Cut:
    """How much of events was cut at the door, summed up.

    Attributes:
        events: of which anything was cut.
        characters: of their texts.
        values: items of lists and fields of objects.
    """

    events: int = 0
    characters: int = 0
    values: int = 0


def cleaned(event: Event, redact: Redactor, cut: Cut | None = None) -> Event:
    """The event without secrets and without our own injected blocks, cut to what a hook would hand over.

    Args:
        cut: is told what was cut.
    """
    # A little more than the hook allows: its own marks are not to be cut.
    pruner = Pruner(MOST_VALUES + SLACK)
    texts = TextCutter()
    pruned = cast("dict[str, Any]", pruner.pruned(event.data))
    data = mapped(pruned, lambda text: texts.cleaned(text, lambda said: redact(strip_own(said))))
    if cut is not None and (texts.cut or pruner.cut):
        cut.events, cut.characters, cut.values = cut.events + 1, cut.characters + texts.cut, cut.values + pruner.cut
    return event._replace(data=data)


def turns_of(event: Event, project: str) -> list[Turn]:
    """The messages that an event holds, in order; none for events that only mark a moment."""
    match event.kind:
        case "prompt":
            return _one(event, project, role="user", source="prompt", trust=TRUST_PROMPT)
        case "note":
            return _one(event, project, role="user", source="prompt", trust=TRUST_TYPED)
        case "reply":
            return _one(event, project, role="assistant", source="reply", trust=TRUST_AGENT)
        case "subagent":
            return _one(event, project, role="assistant", source="task", trust=TRUST_AGENT)
        case "summary":
            return _one(event, project, role="assistant", source="summary", trust=TRUST_AGENT)
        case "tools":
            return [turn for call in _calls(event) for turn in _tool_turn(event, project, call)]
        case "session_start" | "pre_compact" | "session_end":
            return []


def scope_of(event: Event, project: str) -> Scope:
    """Where the event happened."""
    return Scope(
        user=event.user or LOCAL_USER,
        project=project or None,
        agent=event.agent,
        channel=event.host,
        session=event.session,
        branch=event.branch,
    )


def _one(event: Event, project: str, *, role: Role, source: SourceType, trust: int) -> list[Turn]:
    text = event.data.get("text")
    if not isinstance(text, str) or not text.strip():
        return []
    return [_turn(event, project, key=event.key or event.id, text=text, role=role, source=source, trust=trust)]


def _tool_turn(event: Event, project: str, call: Mapping[str, Any]) -> list[Turn]:
    name = str(call.get("name") or "tool")
    if is_own_tool(name):
        return []
    source = source_of_tool(name)
    shown = " ".join(filter(None, [_flat(call.get("input")), _output(call.get("output"), source)]))
    if not shown.strip():
        return []
    call_id = str(call.get("id") or "")
    key = f"tool:{call_id}" if call_id else f"{event.key or event.id}:{name}"
    text = f"{name}: {shown}"
    return [_turn(event, project, key=key, text=text, role="tool", source=source, trust=TRUST_TOOL)]


def _turn(event: Event, project: str, *, key: str, text: str, role: Role, source: SourceType, trust: int) -> Turn:
    at = from_epoch(event.at)
    return Turn(
        id=new_id(at),
        key=key,
        scope=scope_of(event, project),
        host=event.host,
        role=role,
        source=source,
        text=text,
        at=at,
        trust=trust,
        event_id=event.id,
        skipped=skip_reason(text, source),
    )


def _calls(event: Event) -> Iterable[Mapping[str, Any]]:
    calls = event.data.get("calls")
    if not isinstance(calls, list):
        return []
    return [cast("Mapping[str, Any]", call) for call in cast("list[Any]", calls) if isinstance(call, dict)]


def _output(value: object, source: SourceType) -> str:
    """What a person would read of a tool's output; of a helper agent's the answer that its JSON wraps."""
    answer = "" if source != "task" else told(value) if isinstance(value, str) else answer_of(value)
    if answer:
        return answer
    if isinstance(value, dict) or _blocks(value) or (source == "file_read" and isinstance(value, list)):
        return "\n".join(_texts(cast("object", value)))
    return _flat(value)


def _blocks(value: object) -> bool:
    """Whether it is a list of content blocks, as MCP's tools answer: `[{"type": "text", "text": …}]`."""
    if not isinstance(value, list):
        return False
    return all(isinstance(one, dict) and "type" in one for one in cast("list[object]", value))


def _texts(value: object, name: str = "") -> Iterator[str]:
    """The texts in what a tool answered, however deep; no type names and no encoded images."""
    if isinstance(value, str):
        if value.strip() and name != "type" and not (len(value) > _LONGEST_WORD and len(value.split()) == 1):
            yield value
    elif isinstance(value, dict):
        for key, one in cast("dict[str, object]", value).items():
            yield from _texts(one, key)
    elif isinstance(value, list):
        for one in cast("list[object]", value):
            yield from _texts(one, name)


def _flat(value: object) -> str:
    """What a person would read of a tool's input, or of an output without names for its parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        texts = [part for part in cast("dict[str, Any]", value).values() if isinstance(part, str) and part.strip()]
        return "\n".join(texts)
    return json.dumps(value, ensure_ascii=False) if value else ""
