"""The review queue: statements that wait for the person, beside what is known, and how each is settled."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from filrouge.team.models import author_of
from filrouge.web.client import ApiProblem
from filrouge.web.languages import mark as _
from filrouge.web.reasons import plain_reason
from filrouge.web.rendering import ROOT, Message, Next, Pages, Visit, address

pages = Pages()

PAGE_SIZE: Final = 10
_QUEUE: Final = "/api/memory/review"
_PATH: Final = f"{ROOT}/review"
#: Calibrated similarity from which a known memory is shown as a near duplicate.
_MIN_SIMILAR: Final = 0.5
#: Texts longer than this are shown without their differences.
_MAX_COMPARED_CHARACTERS: Final = 2_000
#: Share of equal words from which differences help the reader.
_MIN_EQUAL_WORDS: Final = 0.3


#: What the page says after a settlement.
_DONE: Final[Mapping[str, str]] = {
    "accept": _("Accepted. Agents may be told from now on."),
    "dismiss": _("Refused. It is in the bin."),
    "old": _("The old one is kept; the new one is in the bin."),
    "new": _("The new one is taken; the old one stays in its history."),
    "both": _("Both are kept."),
}

#: The settlement that takes the statement, by the kind of its review.
_TAKING: Final[Mapping[str, str]] = {"conflict": "new", "quarantine": "accept"}


@pages.page("/review", "review.html")
async def review_page(visit: Visit) -> Mapping[str, Any]:
    """What waits for the person, newest first; with `settled`, what was settled."""
    visit.begin()
    is_settled = visit.query.get("settled") == "1"
    listing = await visit.api.listing(_QUEUE, settled=is_settled, limit=PAGE_SIZE, cursor=visit.query.get("cursor"))
    rows = [row for row in listing.rows if (row["outcome"] != "open") is is_settled]
    compared = [None] * len(rows) if is_settled else await asyncio.gather(*(_similar(visit, row) for row in rows))
    return {
        "items": [
            _item(visit, row, similar, next_one)
            for row, similar, next_one in zip(rows, compared, following(rows), strict=True)
        ],
        "next": listing.next,
        "is_settled": is_settled,
        "is_team_admin": await _is_team_admin(visit) if any(author_of(_channel(row)) for row in rows) else False,
        "editing": visit.query.get("edit", ""),
        "at": visit.query.get("at", ""),
    }


def _channel(row: Mapping[str, Any]) -> str:
    return str(row["statement"]["channel"])


async def _is_team_admin(visit: Visit) -> bool:
    team = await visit.api.get("/api/team")
    return bool(team.get("is_admin"))


@pages.action("/review/{review_id}/settle")
async def review_settle(visit: Visit) -> Next:
    """Settle one item."""
    id_, how = visit.parameter("review_id"), visit.field("settle")
    if how == "team":
        await visit.api.send("POST", "/api/team/accept", {"ids": [id_]})
        text = visit.text("Accepted for everybody in the team.")
        return Next(to=_beside(visit, visit.field("next")), message=Message(text=text))
    await visit.api.send("POST", f"{_QUEUE}/{quote(id_, safe='')}", {"settle": how})
    return await _settled(visit, id_, visit.text(_DONE[how]))


@pages.action("/review/{review_id}/edit")
async def review_edit(visit: Visit) -> Next:
    """Take a statement in other words. What was said is accepted first and then replaced, so that its evidence stays
    in its history; if the new words are refused, it waits again."""
    id_, kind, text = visit.parameter("review_id"), visit.field("kind"), visit.field("text").strip()
    if not text:
        raise ApiProblem(422, visit.text("There are no words to keep."), visit.text("Write a statement, or refuse it."))
    await visit.api.send("POST", f"{_QUEUE}/{quote(id_, safe='')}", {"settle": _TAKING.get(kind, kind)})
    settlement = await _settlement(visit, id_)
    if text != visit.field("said").strip():
        try:
            body = {"old_id": id_, "new_text": text, "source": "dashboard"}
            await visit.api.send("POST", "/memory/supersede", body)
        except ApiProblem:
            await visit.api.send("POST", "/api/memory/undo", {"entry": settlement})
            raise
    return await _settled(visit, id_, visit.text("Accepted in your words."))


@pages.action("/review/{review_id}/undo")
async def review_undo(visit: Visit) -> Next:
    """Undo a settlement, and every later decision that depends on it; the item waits again."""
    await visit.api.send("POST", "/api/memory/undo", {"entry": int(visit.field("entry"))})
    return Next(to=_beside(visit, visit.parameter("review_id")), message=Message(text=visit.text("It waits again.")))


async def _settled(visit: Visit, id_: str, text: str) -> Next:
    """Lead to the next item, and offer to undo the settlement of this one."""
    undo = Message(
        text=text, undo=f"{_PATH}/{quote(id_, safe='')}/undo", fields={"entry": str(await _settlement(visit, id_))}
    )
    return Next(to=_beside(visit, visit.field("next")), message=undo)


async def _settlement(visit: Visit, id_: str) -> int:
    """Return the journal number of an item's last settlement."""
    history = await visit.api.get(f"/api/memory/memories/{quote(id_, safe='')}/history")
    return next(entry["entry"] for entry in reversed(history["journal"]) if entry["action"] == "settle")


def _beside(visit: Visit, id_: str) -> str:
    """Return the address of the page that a form came from, with the focus on an item."""
    came_from, _, query = visit.back.partition("?")
    settled = {"settled": "1"} if "settled=1" in query.split("&") else {}
    return address(came_from, settled, at=id_)


async def _similar(visit: Visit, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the known memory nearest to a statement that contradicts none, or None."""
    statement = row["statement"]
    if row["against"] is not None:
        return None
    try:
        project: list[str] = [statement["project"]] if statement["project"] else []
        body = {"text": statement["text"], "project": project}
        nearest = (await visit.api.send("POST", "/memory/novel", body))["nearest"]
        if nearest is None or nearest["similarity"] < _MIN_SIMILAR or nearest["id"] == row["id"]:
            return None
        return await visit.api.get(f"/api/memory/memories/{quote(nearest['id'], safe='')}")
    except ApiProblem:  # a text too long to compare, or a memory that was forgotten meanwhile
        return None


def following(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return for each row the id of the row that has the focus once it is settled."""
    ids = [str(row["id"]) for row in rows]
    return [*ids[1:], ids[-2]] if len(ids) > 1 else [""] * len(ids)


def _item(visit: Visit, row: Mapping[str, Any], similar: Mapping[str, Any] | None, next_one: str) -> Mapping[str, Any]:
    known = row["against"] or similar
    before, after = differences(known["text"], row["text"]) if known else ([], [])
    return {
        **row,
        "known": known,
        "known_parts": before,
        "said_parts": after,
        "why": plain_reason(visit, row["reason"]),
        "is_shown": row["statement"]["state"] == "live",
        "next": next_one,
    }


def differences(known: str, said: str) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """Return both texts in parts, each with whether the other text differs there; empty if that would not help."""
    if max(len(known), len(said)) > _MAX_COMPARED_CHARACTERS:
        return [], []
    before, after = known.split(), said.split()
    matcher = difflib.SequenceMatcher(None, [word.casefold() for word in before], [word.casefold() for word in after])
    if matcher.ratio() < _MIN_EQUAL_WORDS:
        return [], []
    parts: tuple[list[tuple[str, bool]], list[tuple[str, bool]]] = [], []
    for tag, first, last, other_first, other_last in matcher.get_opcodes():
        for side, words in zip(parts, (before[first:last], after[other_first:other_last]), strict=True):
            if words:
                side.append((" ".join(words), tag != "equal"))
    return parts
