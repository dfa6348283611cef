"""Automatic recall: its settings, the log of injections, why each was made, and what a prompt would get."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from filrouge.context.block import INJECTED, MIN_PROMPT
from filrouge.context.models import Section
from filrouge.search.models import START_PREVIEW, Omission
from filrouge.web.languages import mark as _
from filrouge.web.rendering import ROOT, Message, Next, Pages, Visit
from filrouge.web.search import CHANNELS

pages = Pages()

ENABLED: Final = "auto_retrieve_enabled"
MAX_RESULTS: Final = "auto_retrieve_max_results"
MIN_SCORE: Final = "auto_retrieve_min_score"
_SETTINGS: Final = (ENABLED, MAX_RESULTS, MIN_SCORE)
#: Where a setting comes from that cannot be changed here.
_FIXED: Final = ("user file", "environment")
_OUTCOMES: Final = ("delivered", "late", "empty")
_OPENINGS: Final = ("startup", "resume", "clear", "compact", "fork")
_LATEST: Final = 10
PAGE_SIZE: Final = 25
#: Days that the totals above the log cover.
_DAYS: Final = 30


REASONS: Final[Mapping[Omission, str]] = {
    "below the threshold": _("Its relevance is below the threshold."),
    "nothing relevant is known": _("The prompt needs nothing that is known."),
    "confidence too low": _("It is not certain enough that it is true."),
    "beyond the limit": _("The highest number of results was reached."),
    "section is full": _("Its section of the block was full."),
    "over the budget": _("There was no room left in the budget."),
    "duplicate": _("It is already in the block."),
    "supporting item, and nothing relevant to support": _(
        "It is only added to something relevant, and there was nothing relevant."
    ),
    "said in this session": _("It was said in this session, so the agent already has it."),
    "already in this session": _("The agent was already shown it in this session."),
    "repeats a shown item": _("It says the same as something in the block."),
    "covered by its turn": _("The message that it comes from is in the block."),
    "covered by a memory": _("A memory that was learned from it is in the block."),
    "shown on another memory's line": _("It is on the line of another memory."),
    "its state is already shown": _("The state of this thread is already in the block."),
    "its memory is no longer valid": _("What was learned from it is no longer true."),
    "repeats an outdated memory": _("It repeats something that is no longer true."),
    "perhaps replaced": _("A newer memory may have replaced it."),
    "the prompt does not resume it": _("The prompt does not go on with this work."),
    "too old": _("It is too old."),
}
SECTIONS: Final[Mapping[Section, str]] = {
    "rules": _("Rules"),
    "reminders": _("Reminders"),
    "synthesis": _("Where the work stood"),
    "thread": _("This thread"),
    "memories": _("Found for the prompt"),
    "facts": _("Facts"),
    "topics": _("Topics"),
    "threads": _("Threads"),
    "decisions": _("Decisions"),
    "questions": _("Open questions"),
    "constraints": _("Constraints"),
    "hints": _("Hints"),
    "notes": _("Notes"),
}


# Automatic recall: the section of the Memory screen.


@pages.page("/memory/recall", "memory/recall.html")
async def recall_page(visit: Visit) -> Mapping[str, Any]:
    """The settings of automatic recall, each with its origin, and the latest injections."""
    settings, origins, recalls = await asyncio.gather(
        visit.api.get("/api/memory/settings"),
        visit.api.get("/api/memory/settings/origins"),
        visit.api.get("/api/memory/retrievals", limit=_LATEST, texts=True),
    )
    return {
        "settings": {
            name: {"value": settings[name], "origin": origins[name], "is_fixed": origins[name] in _FIXED}
            for name in _SETTINGS
        },
        "recalls": recalls,
        "start": START_PREVIEW,
    }


@pages.action("/memory/recall")
async def recall_change(visit: Visit) -> Next:
    """Change the settings in the form that differ; a fixed one has no field."""
    before = await visit.api.get("/api/memory/settings")
    given = dict(visit.form)
    wanted: dict[str, Any] = {}
    if ENABLED in given:
        wanted[ENABLED] = given[ENABLED] == "on"
    wanted |= {name: _number(given[name]) for name in (MAX_RESULTS, MIN_SCORE) if name in given}
    changes = {name: value for name, value in wanted.items() if value != before[name]}
    if not changes:
        return Next(to=visit.back)
    await visit.api.send("PATCH", "/api/memory/settings", changes)
    fields = {name: _field(before[name]) for name in changes}
    text = visit.text("Saved. It holds from the next prompt on.")
    return Next(to=visit.back, message=Message(text=text, undo=f"{ROOT}/memory/recall", fields=fields))


def _number(text: str) -> int | float | str:
    """Return the number in a form field; any other text as it is, for the API to refuse."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _field(value: bool | float) -> str:
    if isinstance(value, bool):
        return "on" if value else ""
    return str(value)


# Injections: the log, and why one was made.


@pages.page("/injections", "injections/list.html")
async def injections_page(visit: Visit) -> Mapping[str, Any]:
    """The log of injections, newest first, and what they came to in the last days."""
    visit.begin()
    outcome = visit.query.get("outcome", "")
    log, activity = await asyncio.gather(
        visit.api.listing(
            "/api/memory/retrievals", limit=PAGE_SIZE, cursor=visit.query.get("cursor"), outcome=outcome, texts=True
        ),
        visit.api.get("/api/memory/activity", days=_DAYS),
    )
    totals = {name: sum(day[name] for day in activity) for name in ("recalls", "delivered", "late", "empty", "tokens")}
    return {
        "recalls": log.rows,
        "next": log.next,
        "outcome": outcome,
        "outcomes": _OUTCOMES,
        "days": _DAYS,
        "totals": totals,
        "start": START_PREVIEW,
    }


@pages.page("/injections/{recall_id}", "injections/why.html")
async def why_page(visit: Visit) -> Mapping[str, Any]:
    """One injection: every candidate with its scores, whether it was injected and why not."""
    recall, settings, projects = await asyncio.gather(
        visit.api.get(f"/api/memory/recalls/{quote(visit.parameter('recall_id'), safe='')}", texts=True),
        visit.api.get("/api/memory/settings"),
        visit.api.get("/api/memory/projects", counts=False),
    )
    message = recall["user_message_preview"]
    prompt = visit.query.get("prompt", "") or message
    occasion = {
        "prompt": prompt,
        "channel": recall["channel"],
        "session_id": recall["session_id"],
        "project": recall["project_id"] or "",
    }
    is_start = message == START_PREVIEW
    return {
        "recall": recall | {"items": _explained(visit, recall["items"])},
        "omitted": [{"n": n, "why": _reason(visit, code)} for code, n in recall["omitted"].items()],
        "project_name": next((one["name"] for one in projects if one["id"] == recall["project_id"]), ""),
        "is_start": is_start,
        "prompt": prompt,
        "settings": {name: settings[name] for name in _SETTINGS},
        "comparison": None if is_start else await _comparison(visit, occasion, settings),
    }


# Preview: what a prompt would get.


@pages.page("/preview", "preview.html")
async def preview_page(visit: Visit) -> Mapping[str, Any]:
    """What an agent would be told for a prompt, or at the start of a session; nothing is logged."""
    occasion = "start" if visit.query.get("occasion") == "start" else "prompt"
    prompt = visit.query.get("prompt", "")
    opening = visit.query.get("opening", "")
    chosen = {
        "prompt": prompt,
        "occasion": occasion,
        "opening": opening if opening in _OPENINGS else _OPENINGS[0],
        "channel": visit.query.get("channel", "") or "claude-code",
    }
    projects, settings, latest = await asyncio.gather(
        visit.api.get("/api/memory/projects", counts=False),
        visit.api.get("/api/memory/settings"),
        visit.api.get("/api/memory/events", limit=1),
    )
    chosen["project"] = visit.query.get("project", (latest[0]["project"] or "") if latest else "")
    shown = {
        "projects": projects,
        "channels": CHANNELS,
        "chosen": chosen,
        "budget": settings["budget"],
        "settings": {name: settings[name] for name in _SETTINGS},
        "min_prompt": MIN_PROMPT,
    }
    if occasion == "prompt" and not prompt.strip():
        return shown | {"result": None, "comparison": None}
    result, comparison = await asyncio.gather(
        _preview(visit, chosen), _comparison(visit, chosen, settings) if occasion == "prompt" else _nothing()
    )
    return shown | {"result": result, "comparison": comparison}


async def _nothing() -> None:
    return None


async def _preview(visit: Visit, occasion: Mapping[str, Any], **overrides: int | float | str) -> dict[str, Any]:
    """Return what the API previews, with each candidate's reason as a sentence."""
    body = {name: value for name, value in occasion.items() if value} | overrides
    result = await visit.api.send("POST", "/api/memory/context/preview", body)
    return result | {"candidates": _explained(visit, result["candidates"])}


async def _comparison(visit: Visit, occasion: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a prompt gets with the settings in effect and with those in the address; None if it has none."""
    if not (visit.query.get("max_results") or visit.query.get("min_score")):
        return None
    now = {"max_results": settings[MAX_RESULTS], "min_score": settings[MIN_SCORE]}
    other = {name: _number(visit.query.get(name, "") or str(value)) for name, value in now.items()}
    left, right = await asyncio.gather(_preview(visit, occasion, **now), _preview(visit, occasion, **other))
    rows = side_by_side(left["candidates"], right["candidates"])
    return {
        "sides": [
            values | {"tokens": side["tokens"], "injected": sum(row["injected"] for row in side["candidates"])}
            for values, side in ((now, left), (other, right))
        ],
        "rows": [row for row in rows if row["is_injected"]],
        "left_out_by_both": sum(not row["is_injected"] for row in rows),
    }


def side_by_side(left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the candidates of two previews as rows, each with both verdicts: first those injected in either."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for side, candidates in (("left", left), ("right", right)):
        for candidate in candidates:
            key = (candidate["id"], candidate["section"])
            row = rows.setdefault(key, {"candidate": dict(candidate), "left": None, "right": None})
            verdict = {"injected": candidate["injected"], "why": candidate["why"]}
            if row[side] is None or candidate["injected"]:
                row[side] = verdict
    for row in rows.values():
        row["differs"] = _is_in(row["left"]) != _is_in(row["right"])
        row["is_injected"] = _is_in(row["left"]) or _is_in(row["right"])
    return sorted(rows.values(), key=lambda row: (not row["is_injected"], -row["candidate"]["value"]))


def _is_in(verdict: Mapping[str, Any] | None) -> bool:
    return verdict is not None and verdict["injected"]


def _explained(visit: Visit, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return candidates with every score, the reason as a sentence, the section's name and the page about them.

    Those injected come first, in the order of the block; then the others by value.
    """
    explained = [
        {
            "bm25_score": None,
            "vector_score": None,
            "similarity": None,
            "relevance": None,
            "known": None,
            "anything": None,
            "boosts": None,
            "channel": "",
            "content": item.get("text", ""),
            **item,
            "why": "" if item["injected"] else _reason(visit, item["reason"]),
            "section_name": visit.text(SECTIONS[item["section"]]) if item["section"] in SECTIONS else item["section"],
            "page": page_of(item),
        }
        for item in items
    ]
    return sorted(explained, key=lambda item: (not item["injected"], item["injected"] or -item["value"]))


def _reason(visit: Visit, code: str) -> str:
    """Return a reason of the log as a sentence; a code of another version as it is."""
    sentence = next((sentence for known, sentence in REASONS.items() if known == code), code)
    return "" if code == INJECTED else visit.text(sentence)


_PAGES: Final[Mapping[str, str]] = {"turn": "/turns/", "thread": "/threads/"}
_WITHOUT_PAGE: Final = ("synthesis", "reminder", "topic", "nothing")


def page_of(item: Mapping[str, Any]) -> str:
    """Return the page about a candidate; empty if there is none."""
    if not item["id"] or item["section"] == "notes" or item["kind"] in _WITHOUT_PAGE:
        return ""
    return ROOT + _PAGES.get(item["kind"], "/memories/") + quote(item["id"], safe="")
