"""A model that answers what a test wrote, and remembers all it was shown.

The agent command lines are real; their model is this server on 127.0.0.1. It speaks the Anthropic Messages
API as Claude Code uses it, the OpenAI Responses API as Codex uses it, and Gemini's. A `Rule` joins a pattern on the
user's own last words to the steps of the turn: a text ends the turn, a `Shell` makes the agent run a
command and come back, a function writes its text from what the model was shown. Every request is kept as a
`Request`, whose `text` is all the text the agent sent: what is not in there, the model did not see.
"""

from __future__ import annotations

import itertools
import json
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Literal, cast

Json = dict[str, Any]
Api = Literal["messages", "responses", "gemini"]
Frames = list[tuple[str, Json]]

#: The user role also carries texts that the hosts wrote: context in tags, AGENTS.md, a compacted past.
_WRITTEN_BY_THE_HOST: Final = re.compile(
    r"\s*(?:<(?!private)[a-z][\w-]*[ >]|<<<BEGIN_OPENCLAW_|# AGENTS\.md|This session is being continued from)"
)
_BLOCK: Final = re.compile(r'<filrouge-memory nonce="([^"]+)">(.*?)</filrouge-memory \1>', re.DOTALL)
#: Gemini CLI puts what hooks say between these, with the angle brackets escaped.
_HOOK_CONTEXT: Final = re.compile(r"<hook_context>([^<>]*)</hook_context>")
#: Copilot's command line puts these around a prompt.
_AROUND_A_PROMPT: Final = re.compile(r"<(current_datetime|system_reminder)>.*?</\1>\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Shell:
    """A step in which the model asks the agent to run a command."""

    command: str


@dataclass(frozen=True, slots=True)
class Call:
    """A step in which the model calls any tool by the name that the agent gives it."""

    tool: str
    arguments: Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One question an agent put to the model."""

    api: Api
    user: str
    """What the user typed last, without what the host added."""
    step: int
    """How many tools the model has asked for since then."""
    text: str
    """Every text of the request: instructions, history, tools and their results, injected context."""
    tools: dict[str, str]
    """The tools on offer, name → type."""

    @property
    def blocks(self) -> list[str]:
        """What Filrouge put into this request, block by block, without the delimiters."""
        return [found[2] for found in _BLOCK.finditer(self.text)]

    @property
    def quoted_blocks(self) -> list[str]:
        """The same blocks with their delimiters, as a model would quote them."""
        return [found[0] for found in _BLOCK.finditer(self.text)]

    @property
    def recalled(self) -> str:
        """All of those blocks as one text; empty when nothing was injected."""
        return "\n".join(self.blocks)


Step = str | Shell | Call | Callable[[Request], str]


@dataclass(frozen=True, slots=True)
class Rule:
    """What to do when the user's last words match `when`; the last step stands for all that follow."""

    when: str
    steps: tuple[Step, ...]


def on(when: str, *steps: Step) -> Rule:
    """Write a rule: `on("read the settings", Shell("cat .env"), "Two variables.")`."""
    return Rule(when, steps)


class ScriptedModel:
    """The server, as a context manager. The first rule that matches wins; no rule means `OK.`."""

    def __init__(self, *rules: Rule) -> None:
        self.rules: list[Rule] = list(rules)
        self.requests: list[Request] = []
        self.failures: list[str] = []
        self._ids = itertools.count(1)
        self._family = secrets.token_hex(4)
        self._server = _Server(("127.0.0.1", 0), _bound_to(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where the agents find their model."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> ScriptedModel:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def teach(self, *rules: Rule) -> None:
        """Put rules before those that are there."""
        self.rules[:0] = rules

    def next_id(self, prefix: str) -> str:
        """An id no other request has, as the real services give."""
        return f"{prefix}_{self._family}{next(self._ids):06d}"

    def answer(self, request: Request) -> str | Shell | Call:
        """Keep the request and choose the step that answers it."""
        self.requests.append(request)
        wanted = (rule for rule in self.rules if re.search(rule.when, request.user, re.DOTALL | re.IGNORECASE))
        rule = next(wanted, None)
        if rule is None:
            return "OK."
        step = rule.steps[min(request.step, len(rule.steps) - 1)]
        return step(request) if callable(step) else step


# ---------------------------------------------------------------------------------------- reading a request


def read_request(api: Api, body: Json) -> Request:
    """Find in a request body what a rule and a test need."""
    if api == "gemini":
        return replace(read_request("messages", _as_messages(body)), api=api)
    given: object = body.get("messages" if api == "messages" else "input")
    turns = cast("list[Json]", [{"role": "user", "content": given}] if isinstance(given, str) else given or [])
    user, step = "", 0
    for turn in turns:
        typed = _own_words(turn.get("content")) if turn.get("role") == "user" else ""
        if typed:
            user, step = typed, 0
        else:
            step += _asks_for_a_tool(turn)
    return Request(api=api, user=user, step=step, text="\n".join(_texts(body)), tools=dict(_tools(body)))


def _as_messages(body: Json) -> Json:
    """A body of Gemini's API in the words of the Messages API."""
    declared: list[Json] = []
    for group in cast("list[Json]", body.get("tools") or []):
        declared += cast("list[Json]", group.get("functionDeclarations") or [])
    messages: list[Json] = []
    for content in cast("list[Json]", body.get("contents") or []):
        blocks = [_as_block(part) for part in cast("list[Json]", content.get("parts") or [])]
        messages.append({"role": "assistant" if content.get("role") == "model" else "user", "content": blocks})
    return {"system": body.get("systemInstruction"), "messages": messages, "tools": declared}


def _as_block(part: Json) -> Json:
    if "functionCall" in part:
        return {"type": "tool_use", **part}
    if "text" not in part:
        return {"type": "tool_result", **part}
    shown = _HOOK_CONTEXT.sub(lambda found: found[1].replace("&lt;", "<").replace("&gt;", ">"), str(part["text"]))
    return {"type": "text", "text": shown}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in cast("Json", value).values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in cast("list[object]", value):
            yield from _texts(part)


def _own_words(content: object) -> str:
    blocks = cast("list[Json | str]", [content] if isinstance(content, str) else content or [])
    texts = [
        _AROUND_A_PROMPT.sub("", _BLOCK.sub("", block if isinstance(block, str) else str(block.get("text", ""))))
        for block in blocks
        if isinstance(block, str) or block.get("type") in ("text", "input_text")
    ]
    return "\n".join(text for text in texts if text.strip() and not _WRITTEN_BY_THE_HOST.match(text))


def _asks_for_a_tool(turn: Json) -> bool:
    if str(turn.get("type", "")).endswith("_call"):
        return True
    content = turn.get("content")
    blocks = cast("list[Json]", content if isinstance(content, list) else [])
    return turn.get("role") == "assistant" and any(block.get("type") == "tool_use" for block in blocks)


def _tools(body: Json) -> Iterator[tuple[str, str]]:
    """Codex also offers tools inside namespaces and inside items of its input."""
    lists: list[object] = [body.get("tools")]
    items = body.get("input")
    lists += [item.get("tools") for item in cast("list[Json]", items if isinstance(items, list) else [])]
    for tools in lists:
        for tool in cast("list[Json]", tools or []):
            if tool.get("type") == "namespace":
                yield from _tools(tool)
            elif tool.get("name"):
                yield str(tool["name"]), str(tool.get("type", "function"))


# ---------------------------------------------------------------------------------------- writing an answer


def _messages_answer(
    model: ScriptedModel, body: Json, request: Request, step: str | Shell | Call
) -> tuple[Json, Frames]:
    """The Messages API: the whole message, and the same message as stream events."""
    if isinstance(step, Shell):
        step = Call("Bash", {"command": step.command, "description": "Run a command"})
    if isinstance(step, Call):
        block: Json = {"type": "tool_use", "id": model.next_id("toolu"), "name": step.tool, "input": step.arguments}
        opening: Json = {**block, "input": {}}
        delta: Json = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
    else:
        block = {"type": "text", "text": step}
        opening = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": step}
    stop = "tool_use" if isinstance(step, Call) else "end_turn"
    usage: Json = {"input_tokens": _tokens(request.text), "output_tokens": 1}
    usage |= {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message: Json = {"id": model.next_id("msg"), "type": "message", "role": "assistant", "usage": usage}
    message |= {"model": body.get("model"), "content": [], "stop_reason": None, "stop_sequence": None}
    frames: list[Json] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": opening},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": 12},
        },
        {"type": "message_stop"},
    ]
    return {**message, "content": [block], "stop_reason": stop}, _named(frames)


def _responses_answer(
    model: ScriptedModel, body: Json, request: Request, step: str | Shell | Call
) -> tuple[Json, Frames]:
    """The Responses API: the whole response, and the same response as stream events."""
    item = _codex_text(model, step) if isinstance(step, str) else _codex_tool(model, request, step)
    read = _tokens(request.text)
    usage: Json = {"input_tokens": read, "output_tokens": 12, "total_tokens": read + 12}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    response: Json = {"id": model.next_id("resp"), "object": "response", "status": "completed"}
    response |= {"model": body.get("model"), "output": [item], "usage": usage}
    frames: list[Json] = [
        {"type": "response.created", "response": {"id": response["id"]}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
    ]
    if isinstance(step, str):
        place: Json = {"output_index": 0, "item_id": item["id"], "content_index": 0}
        frames.append({"type": "response.output_text.delta", **place, "delta": step})
    frames += [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return response, _named(frames)


def _gemini_answer(model: ScriptedModel, body: Json, request: Request, step: str | Shell | Call) -> tuple[Json, Frames]:
    """Gemini's API: the whole response, and the same response as the only piece of a stream."""
    if isinstance(step, Shell):
        step = Call("run_shell_command", {"command": step.command, "description": "Run a command"})
    if isinstance(step, Call):
        part: Json = {"functionCall": {"id": model.next_id("call"), "name": step.tool, "args": step.arguments}}
    else:
        part = {"text": step}
    read = _tokens(request.text)
    content: Json = {"role": "model", "parts": [part]}
    response: Json = {"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}], "modelVersion": "m"}
    response |= {"usageMetadata": {"promptTokenCount": read, "candidatesTokenCount": 12, "totalTokenCount": read + 12}}
    return response, [("", response)]


def _codex_text(model: ScriptedModel, text: str) -> Json:
    content: list[Json] = [{"type": "output_text", "text": text, "annotations": []}]
    message: Json = {"type": "message", "id": model.next_id("msg"), "role": "assistant"}
    return {**message, "status": "completed", "content": content}


def _codex_tool(model: ScriptedModel, request: Request, step: Shell | Call) -> Json:
    """Codex runs tools through functions, or, for some models, through a little JavaScript."""
    call: Json = {"id": model.next_id("item"), "call_id": model.next_id("call"), "status": "completed"}
    if isinstance(step, Call):
        script = f"const done = await tools.{step.tool}({json.dumps(step.arguments)});\ntext(JSON.stringify(done));\n"
        return {"type": "custom_tool_call", "name": "exec", "input": script, **call}
    if request.tools.get("exec") == "custom":
        command = json.dumps(step.command)
        script = f"const done = await tools.exec_command({{cmd: {command}}});\ntext(done.output);\n"
        return {"type": "custom_tool_call", "name": "exec", "input": script, **call}
    arguments = json.dumps({"cmd": step.command})
    return {"type": "function_call", "name": "exec_command", "arguments": arguments, **call}


_WRITERS: Final = {"messages": _messages_answer, "responses": _responses_answer, "gemini": _gemini_answer}


def _tokens(text: str) -> int:
    return max(1, len(text) // 4)


def _named(frames: list[Json]) -> Frames:
    return [(str(frame["type"]), frame) for frame in frames]


def _stream(frames: Iterable[tuple[str, Json]]) -> bytes:
    heads = ((f"event: {name}\n" if name else "", data) for name, data in frames)
    return "".join(f"{head}data: {json.dumps(data)}\n\n" for head, data in heads).encode()


# ---------------------------------------------------------------------------------------- the server


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An agent that has read enough hangs up; that is not an error of the test."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ScriptedModel

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name is inherited)
        """Say nothing: the requests are kept, and the terminal belongs to pytest."""

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        self._send_json({"object": "list", "data": [], "models": []})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0].rstrip("/")
        try:
            body = cast("Json", json.loads(raw or b"{}"))
        except ValueError as error:
            self.model.failures.append(f"{path}: unreadable body ({error})")
            self._send_json({"error": {"type": "invalid_request_error", "message": "unreadable body"}}, 400)
            return
        if path.endswith("/messages/count_tokens"):
            self._send_json({"input_tokens": _tokens("\n".join(_texts(body)))})
        elif path.endswith("/messages"):
            self._answer("messages", body)
        elif path.endswith("/responses"):
            self._answer("responses", body)
        elif path.endswith(":countTokens"):
            self._send_json({"totalTokens": _tokens("\n".join(_texts(body)))})
        elif path.endswith((":generateContent", ":streamGenerateContent")):
            self._answer("gemini", body)
        else:
            self.model.failures.append(f"{path}: no such route")
            self._send_json({"error": {"type": "not_found_error", "message": f"no route {path}"}}, 404)

    def _answer(self, api: Api, body: Json) -> None:
        request = read_request(api, body)
        step = self.model.answer(request)
        whole, frames = _WRITERS[api](self.model, body, request, step)
        if body.get("stream") or ":streamGenerateContent" in self.path:
            self._send(_stream(frames), "text/event-stream")
        else:
            self._send_json(whole)

    def _send_json(self, value: Json, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), "application/json", status)

    def _send(self, data: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _bound_to(owner: ScriptedModel) -> type[_Handler]:
    class Bound(_Handler):
        model = owner

    return Bound
