"""The Team screen: joining and leaving, what is shared of each project, and the memories that wait for the user."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

from filrouge.web.client import ApiProblem
from filrouge.web.languages import mark as _
from filrouge.web.reasons import in_plain_words
from filrouge.web.rendering import ROOT, Message, Next, Pages, Visit, address
from filrouge.web.review import following

pages = Pages()

PAGE_SIZE: Final = 50
_API: Final = "/api/team"
_PATH: Final = f"{ROOT}/team"
#: The lists of memories, and the states of those in each.
_LISTS: Final[Mapping[str, Sequence[str]]] = {
    "waiting": ("candidate",),
    "shared": ("queued", "shared"),
    "refused": ("refused",),
    "private": ("leaving", "withdrawn", "declined"),
}
#: What an exchange with the hub, or joining it, failed for.
_PROBLEMS: Final[Mapping[str, str]] = {
    "does not answer": _("The hub does not answer: it may be down, or this machine is offline."),
    "PostgreSQL does not answer": _("The hub's database does not answer."),
    "is not a Filrouge hub": _("The server at this address is no hub of Filrouge."),
    "is not safe for a key": _("The address is not safe for a token: it has to begin with https://."),
    "is not a valid address": _("This is no address of a hub: it begins with https:// and names a server."),
    "This is not a token": _("This is not a token. Copy it again."),
    "The token is unknown": _(
        "The hub does not accept the token: it is unknown, has expired or was revoked. Ask an admin of the team for a "
        "new one."
    ),
    "This needs a token with the scope": _("The token does not allow this. Ask an admin of the team for another one."),
}
#: Why a memory is not shared.
_REASONS: Final[Mapping[str, str]] = {
    "it is about you": _("It is about you, not about a project."),
    "its project has no remote": _("Its project has no remote by which the team could know it."),
    "a memory of the kind": _("Memories of this kind are not shared."),
    "it has more than": _("It is too long."),
    "it holds a secret": _("It holds a secret, such as a key or a password."),
    "it was forgotten": _("It was forgotten for the team."),
    "it was forgotten for the team; your own memory stays": _(
        "It was forgotten for the team. Your own memory stays until you forget it."
    ),
    "share a memory that supersedes it": _("It is a colleague's own memory."),
    "it no longer holds": _("It no longer holds."),
    "it is switched off": _("It is switched off."),
    "a colleague shares it already": _("A colleague shares it already."),
    "it was taken back": _("It was taken back, which is for good. State it anew to share it."),
}


@pages.page("/team", "team.html")
async def team_page(visit: Visit) -> Mapping[str, Any]:
    """The team with what is shared of each project, or one of the lists of memories; without a team, how to join."""
    team = await visit.api.get(_API)
    if not team["joined"]:
        return {"team": team}
    show = visit.query.get("show", "")
    if show not in (*_LISTS, "projects"):
        show = "waiting" if team["candidates"] else "projects"
    rows, projects = await asyncio.gather(_listed(visit, show), visit.api.get("/api/memory/projects", counts=False))
    start = int(cursor) if (cursor := visit.query.get("cursor", "")).isdecimal() else 0
    shown = rows[start : start + PAGE_SIZE]
    return {
        "team": team | {"problem": in_plain_words(visit, team["problem"], _PROBLEMS)},
        "show": show,
        "items": [
            row | {"why": in_plain_words(visit, row["reason"], _REASONS), "next": next_one}
            for row, next_one in zip(shown, following(shown), strict=True)
        ],
        "next": str(start + PAGE_SIZE) if len(rows) > start + PAGE_SIZE else "",
        "without_remote": len(projects) - len(team["projects"]),
        "at": visit.query.get("at", ""),
    }


async def _listed(visit: Visit, show: str) -> list[dict[str, Any]]:
    """Return the memories of a list, the oldest change of a state first; none for what is no list."""
    states = _LISTS.get(show, ())
    found = await asyncio.gather(*(visit.api.get(f"{_API}/memories", state=state) for state in states))
    return [row for rows in found for row in rows]


# Membership.


@pages.action("/team/join")
async def team_join(visit: Visit) -> Next:
    """Join a team."""
    body = {name: visit.field(name).strip() for name in ("url", "token", "device")}
    try:
        team = await visit.api.send("POST", f"{_API}/join", body)
    except ApiProblem as problem:
        detail = in_plain_words(visit, problem.detail, _PROBLEMS)
        remedy = problem.remedy if detail == problem.detail else visit.text("Check the address and the token.")
        raise ApiProblem(problem.status, detail, remedy) from problem
    text = visit.text(
        "You are %(member)s in the team %(team)s. Nothing is shared yet.", member=team["member"], team=team["team"]
    )
    return Next(to=_PATH, message=Message(text=text))


@pages.action("/team/leave")
async def team_leave(visit: Visit) -> Next:
    """Leave the team; what colleagues shared is erased here."""
    done = await visit.api.send("POST", f"{_API}/leave")
    text = visit.text("You left the team %(team)s.", team=done["left"])
    erased = visit.locale.ngettext(
        "%(num)s memory of colleagues was erased here.",
        "%(num)s memories of colleagues were erased here.",
        done["erased"],
    )
    return Next(to=_PATH, message=Message(text=f"{text} {erased}" if done["erased"] else text))


@pages.action("/team/exchange")
async def team_exchange(visit: Visit) -> Next:
    """Exchange memories with the hub now; if it fails, the page says why."""
    team = await visit.api.send("POST", f"{_API}/synchronise")
    return Next(to=visit.back, message=None if team["problem"] else Message(text=visit.text("Exchanged just now.")))


# What is shared.

#: What the page says after a policy was chosen.
_CHOSEN: Final[Mapping[str, str]] = {
    "off": _("%(name)s: nothing more is shared on its own. What was shared stays with the team."),
    "ask": _("%(name)s: you are asked about each memory."),
    "rules-and-decisions": _("%(name)s: rules and decisions are shared."),
    "all-memories": _("%(name)s: all memories are shared."),
}


@pages.action("/team/policy")
async def team_policy(visit: Visit) -> Next:
    """Say what is shared of a project, and count what that sends or asks for at once."""
    project, policy = visit.field("project"), visit.field("policy")
    body = {"project": project, "policy": policy, "with_evidence": visit.field("with_evidence") == "on"}
    before = await visit.api.get(_API)
    after = await visit.api.send("PUT", f"{_API}/policy", body)
    name = next((one["name"] for one in after["projects"] if one["project"] == project), "")
    sentences = [visit.text(_CHOSEN[policy], name=name)]
    sent = after["queued"] + after["shared"] - before["queued"] - before["shared"]
    if sent > 0:
        sentences.append(
            visit.locale.ngettext("%(num)s memory goes to the team.", "%(num)s memories go to the team.", sent)
        )
    if policy == "ask" and after["candidates"]:
        sentences.append(visit.locale.ngettext("%(num)s memory waits.", "%(num)s memories wait.", after["candidates"]))
    return Next(to=visit.back, message=Message(text=" ".join(sentences)))


@pages.action("/team/memories")
async def team_memories(visit: Visit) -> Next:
    """Share memories, all of those chosen or none; or keep them private, and take back those that were shared."""
    ids = [*visit.fields("id"), *visit.field("ids").split()]
    if not ids:
        return Next(to=visit.back, message=Message(text=visit.text("Nothing was selected.")))
    message = await (_share(visit, ids) if visit.field("verb") == "share" else _keep(visit, ids))
    came_from, _query, query = visit.back.partition("?")
    return Next(to=address(came_from, dict(parse_qsl(query)), at=visit.field("next")), message=message)


async def _share(visit: Visit, ids: Sequence[str]) -> Message:
    try:
        await visit.api.send("POST", f"{_API}/share", {"ids": list(ids)})
    except ApiProblem as problem:
        reason = in_plain_words(visit, problem.detail, _REASONS)
        raise ApiProblem(problem.status, visit.text("Nothing was shared."), reason) from problem
    text = visit.locale.ngettext("%(num)s memory goes to the team.", "%(num)s memories go to the team.", len(ids))
    return Message(text=text, undo=f"{_PATH}/memories", fields={"ids": " ".join(ids), "verb": "keep"})


async def _keep(visit: Visit, ids: Sequence[str]) -> Message:
    done = await visit.api.send("POST", f"{_API}/unshare", {"ids": list(ids)})
    taken_back = sum(row["state"] == "leaving" for row in done)
    ngettext, sentences = visit.locale.ngettext, list[str]()
    if taken_back:
        sentences.append(
            ngettext(
                "%(num)s memory is taken back: colleagues lose it, you keep it.",
                "%(num)s memories are taken back: colleagues lose them, you keep them.",
                taken_back,
            )
        )
    if kept := len(done) - taken_back:
        sentences.append(ngettext("%(num)s memory stays private.", "%(num)s memories stay private.", kept))
    return Message(text=" ".join(sentences))
