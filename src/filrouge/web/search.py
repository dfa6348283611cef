"""The Memory screen's search: one field over memories, conversations, notes and threads."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, TypedDict
from urllib.parse import quote

from filrouge.core.protocols import Analyser
from filrouge.hosts import HOSTS
from filrouge.runtime.wiring import analyser
from filrouge.web.client import ApiProblem
from filrouge.web.rendering import Pages, Visit

pages = Pages()

MODES: Final = ("hybrid", "semantic", "text")
#: The collections of the API, in the order in which the page shows them.
COLLECTIONS: Final = ("memories", "turns", "threads", "notes")
#: Where messages come from, for the choice of a channel.
CHANNELS: Final = (*sorted(HOSTS), "api")
_FILTERS: Final = ("project", "channel", "since", "until")
#: Results of one collection: next to the others, and alone.
_SOME: Final = 5
_MANY: Final = 50
EXCERPT: Final = 200
#: Below this score, which is shown as 0.00, a hit has nothing in common with the question.
_MIN_SCORE: Final = 0.005
#: Maximum characters of a text in which words are marked.
_READ: Final = 20_000
_WORD: Final = re.compile(r"\w+(?:[-'’.]\w+)*")


class Segment(TypedDict):
    """A piece of an excerpt."""

    text: str
    marked: bool


@pages.page("/memory/search", "memory/search.html")
async def search_page(visit: Visit) -> Mapping[str, Any]:
    """The results for a question by collection, best first, narrowed by the address."""
    question = visit.query.get("q", "").strip()
    mode = _one_of(visit.query.get("mode", ""), MODES)
    where = _one_of(visit.query.get("where", ""), ("all", *COLLECTIONS))
    chosen = {name: visit.query.get(name, "") for name in _FILTERS}
    projects = visit.api.get("/api/memory/projects", counts=False)
    shown = {"question": question, "mode": mode, "where": where, "chosen": chosen, "is_filtered": any(chosen.values())}
    if not question:
        return shown | {"projects": await projects, "groups": [], "notices": [], "channels": CHANNELS, "editing": ""}
    names = [where] if where != "all" else [name for name in COLLECTIONS if name != "notes" or not any(chosen.values())]
    limit = _SOME if where == "all" else _MANY
    known_projects, *groups = await asyncio.gather(
        projects,
        *(_group(visit, name, question, mode, limit, chosen) for name in names),
    )
    return shown | {
        "projects": known_projects,
        "channels": CHANNELS,
        "groups": [group for group in groups if group["hits"]],
        "notices": await _notices(visit, question, mode, groups),
        "editing": visit.query.get("edit", ""),
    }


def _one_of(text: str, allowed: Sequence[str]) -> str:
    """Return a text if it is allowed; else the first that is."""
    return text if text in allowed else allowed[0]


async def _notices(visit: Visit, question: str, mode: str, groups: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what the search could not do, such as compare meanings without an embedder."""
    if mode == "text" or any(hit.get("similarity") is not None for group in groups for hit in group["hits"]):
        return []
    return (await visit.api.send("POST", "/search", {"query": question, "k": 1}))["notices"]


async def _group(
    visit: Visit, name: str, question: str, mode: str, limit: int, chosen: Mapping[str, str]
) -> dict[str, Any]:
    """Return the hits of one collection with their excerpts, and whether there are more."""
    narrowed = dict[str, str]() if name == "notes" else chosen
    found = await visit.api.get(
        "/api/memory/search", q=question, mode=mode, collection=name, limit=limit + 1, **narrowed
    )
    found = [hit for hit in found if hit["score"] >= _MIN_SCORE]
    hits = [hit | {"excerpt": excerpt(hit["content"], question), "memory": None} for hit in found[:limit]]
    if name == "memories":
        hits = await asyncio.gather(*(_with_memory(visit, hit) for hit in hits))
    return {"name": name, "hits": hits, "has_more": len(found) > limit}


async def _with_memory(visit: Visit, hit: dict[str, Any]) -> dict[str, Any]:
    """Return a hit with its memory, for what can be done with it; None if it was forgotten meanwhile."""
    try:
        memory = await visit.api.get(f"/api/memory/memories/{quote(hit['id'], safe='')}")
    except ApiProblem:
        memory = None
    return hit | {"memory": memory}


# Excerpts.


def excerpt(text: str, question: str, length: int = EXCERPT) -> list[Segment]:
    """Return the part of a text with most words of a question, in pieces; words in any form of theirs are marked.

    Args:
        length: maximum characters, without the dots where the text goes on.
    """
    text = text[:_READ].strip()
    wanted = {form for forms in _analyser().terms(question) for form in forms}
    words = [word.span() for word in _WORD.finditer(text) if not wanted.isdisjoint(_forms(word[0]))]
    begin, end = _window(text, words, length)
    segments: list[Segment] = []
    at = begin
    for first, last in words:
        if begin <= first and last <= end:
            segments += [_segment(text[at:first]), _segment(text[first:last], marked=True)]
            at = last
    segments += [_segment(text[at:end])]
    dots = [_segment("…" if begin else ""), *segments, _segment("…" if end < len(text) else "")]
    return [segment for segment in dots if segment["text"]]


def _segment(text: str, *, marked: bool = False) -> Segment:
    return {"text": text, "marked": marked}


def _window(text: str, words: Sequence[tuple[int, int]], length: int) -> tuple[int, int]:
    """Return begin and end of the part with most of the words; it begins and ends between words."""
    if len(text) <= length:
        return 0, len(text)
    best, most, last = 0, 0, 0
    for index, (first, _) in enumerate(words):
        while last < len(words) and words[last][1] - first <= length:
            last += 1
        if last - index > most:
            best, most = index, last - index
    if not most:
        return 0, _word_end(text, length)
    first, final = words[best][0], words[best + most - 1][1]
    begin = max(0, min(first - (length - (final - first)) // 2, len(text) - length))
    if begin:
        space = text.find(" ", begin, first)
        begin = first if space < 0 else space + 1
    return begin, max(final, _word_end(text, begin + length))


def _word_end(text: str, end: int) -> int:
    """Return the last place between words up to `end`; `end` itself in one long word."""
    if end >= len(text):
        return len(text)
    space = text.rfind(" ", max(0, end - EXCERPT // 2), end + 1)
    return space if space > 0 else end


@cache
def _analyser() -> Analyser:
    return analyser()


@lru_cache(maxsize=20_000)
def _forms(word: str) -> frozenset[str]:
    """Return the forms under which a word is found."""
    return frozenset(form for forms in _analyser().terms(word) for form in forms)
