"""HTTP route for the agents: which are connected, and when each was last heard from."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request
from pydantic import Field

from filrouge.hosts.setup.connections import connections
from filrouge.hosts.setup.files import this_machine
from filrouge.server.responses import Answer, in_thread, parts_of, read_in_tx, response_model

router = APIRouter(tags=["hosts"])


class HostAnswer(Answer):
    """An agent: whether it is on this machine, whether it is connected, and when it was last heard from."""

    name: str
    title: str
    found: bool = Field(description="Its folder or its command is on this machine, as the daemon sees it.")
    hooks: bool = Field(description="Its settings let Filrouge capture what it does and give it memories.")
    tools: bool = Field(description="Its settings offer it the MCP tools.")
    last_heard: str | None = Field(description="When its latest message was said; null if there is none.")
    problems: list[str] = Field(description="Settings files of it that cannot be read, with the reason.")
    note: str = Field(description="What the user still has to do or know about it; may be empty.")


class HostsAnswer(Answer):
    """Every agent that `filrouge init` can connect, and every other host that was heard from."""

    hosts: list[HostAnswer]


@router.get("/api/hosts", responses=response_model(HostsAnswer))
async def hosts_listed(request: Request) -> dict[str, Any]:
    """List the agents. The settings files are read as the daemon's environment names them."""
    parts = parts_of(request)
    machine = this_machine(parts.environ)
    last_heard = await read_in_tx(request, lambda tx: parts.turns(tx).last_heard())
    connectable = [
        {
            "name": one.agent.name,
            "title": one.agent.title,
            "found": one.is_found,
            "hooks": one.has_hooks,
            "tools": one.has_tools,
            "last_heard": last_heard.pop(one.agent.name, None),
            "problems": list(one.problems),
            "note": one.agent.note,
        }
        for one in await in_thread(lambda: list(connections(machine)))
    ]
    others = [{"name": name, "title": name, "last_heard": at} | _UNCONNECTABLE for name, at in last_heard.items()]
    return {"hosts": connectable + others}


_UNCONNECTABLE: Final = {"found": False, "hooks": False, "tools": False, "problems": list[str](), "note": ""}
